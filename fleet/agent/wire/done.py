"""Counts what of a run is done, and writes it as agents read it (docs/wire.md). Pure;
for `conversation`.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from statistics import median_high, median_low

from fleet.agent.wire.records import ATTEMPT_LIMIT, PlannedPoint, WireError
from fleet.model import Burst, Failed, Shape

PairKey = tuple[str | int, ...]  # the words that begin a line
_FAILED = {
    None: 2**64 - 1,
    "memory": 2**64 - 2,
    "variant": 2**64 - 3,
    "point": 2**64 - 4,
}
_WORDS = {code: f"-{reason or ''}" for reason, code in _FAILED.items()}
# and how often the burst was disturbed
_DISTURBED = 2**64 - 2 - ATTEMPT_LIMIT - len(_FAILED)


class Done:
    """A run's outcomes by benchmark, variant, point and CPU pair. ordered: A,B and B,A
    are two pairs.
    """

    def __init__(self, ordered: bool = False) -> None:
        self.visits = 0
        self.bursts = 0
        self.first_visits = Counter[PlannedPoint]()  # of round 0
        self.has_given_up = False
        self._ordered = ordered
        self._outcomes: dict[PairKey, array[int]] = {}
        self._iterations: dict[PairKey, int] = {}

    def has_visit(self, record: Burst | Failed) -> bool:
        """Report whether the record's visit (its pair in its round) has been added."""
        return record.round < len(self._outcomes.get(self._pair_key(record), ()))

    def count_disturbed(self, record: Burst | Failed) -> int:
        """Return how many bursts of the record's visit were disturbed and may be taken
        again.
        """
        outcomes = self._outcomes.get(self._pair_key(record), ())
        if record.round >= len(outcomes):
            return 0
        outcome = outcomes[record.round]
        if not _DISTURBED < outcome <= _DISTURBED + ATTEMPT_LIMIT:
            return 0
        return outcome - _DISTURBED

    def count_short(self, rounds: int) -> int:
        """Return how many numbers have fewer bursts than rounds."""
        return sum(
            sum(outcome <= _DISTURBED for outcome in outcomes) < rounds
            for outcomes in self._outcomes.values()
        )

    def add(self, record: Burst | Failed, shape: Shape) -> None:
        """Add the next visit, or a burst of one that is taken again. Raises WireError
        for a repeated visit or a skipped round.
        """
        pair = self._pair_key(record)
        if record.attempt:
            self._require_disturbed(record)
        else:
            self._add_visit(record)
        outcomes = self._outcomes[pair]
        # A number stands for each outcome: ticks, a failure, or how many attempts were
        # disturbed. Of the ticks twice the median, which is whole between two of them.
        if isinstance(record, Burst):
            ticks = record.average_pair_ticks(shape)[record.warmup :]
            twice_the_median = median_low(ticks) + median_high(ticks)
            outcomes[record.round] = int(twice_the_median)
            self._iterations[pair] = record.iterations
            self.bursts += 1
        elif record.disturbed:
            outcomes[record.round] = _DISTURBED + record.attempt + 1
        else:
            outcomes[record.round] = _FAILED[record.given_up]
            self.has_given_up |= record.given_up is not None

    def _add_visit(self, record: Burst | Failed) -> None:
        """Add a visit without an outcome. Raises WireError if it is not the next."""
        pair = self._pair_key(record)
        outcomes = self._outcomes.setdefault(pair, array("Q"))
        if record.round != len(outcomes):
            raise WireError(
                f"visit {pair} of round {record.round} came where round"
                f" {len(outcomes)} was the next"
            )
        outcomes.append(_FAILED[None])
        self.visits += 1
        if record.round == 0:
            self.first_visits[get_planned_point(record)] += 1

    def _require_disturbed(self, record: Burst | Failed) -> None:
        count = self.count_disturbed(record)
        if record.attempt != count:
            raise WireError(
                f"attempt {record.attempt} of visit {self._pair_key(record)} came where"
                f" {count} were disturbed"
            )

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file for the agent's --done."""
        for pair, outcomes in self._outcomes.items():
            words = [*pair, self._iterations.get(pair, 0)]
            words += map(_format_outcome, outcomes)
            yield " ".join(map(str, words)) + "\n"
        yield "end\n"

    def _pair_key(self, record: Burst | Failed) -> PairKey:
        cpus = [record.ping_cpu, record.pong_cpu]
        if not self._ordered:
            cpus.sort()
        if record.point is None:
            return record.benchmark, record.variant, *cpus
        return record.benchmark, record.variant, record.point, *cpus


def _format_outcome(outcome: int) -> str | int:
    if _DISTURBED < outcome <= _DISTURBED + ATTEMPT_LIMIT:
        return f"~{outcome - _DISTURBED}"
    return _WORDS.get(outcome, outcome)


def get_planned_point(record: Burst | Failed) -> PlannedPoint:
    """Return the benchmark, variant and point that a visit was to."""
    return record.benchmark, record.variant, record.point

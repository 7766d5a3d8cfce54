"""Counts what of a run is done, and writes it as agents read it (docs/wire.md). Pure;
for `conversation`.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from statistics import median_high, median_low

from fleet.agent.wire.records import PlannedPoint, WireError
from fleet.model import Burst, Failed, Shape

PairKey = tuple[str | int, ...]  # the words that begin a line
_FAILED = {
    None: 2**64 - 1,
    "memory": 2**64 - 2,
    "variant": 2**64 - 3,
    "point": 2**64 - 4,
}
_WORDS = {code: f"-{reason or ''}" for reason, code in _FAILED.items()}


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

    def add(self, record: Burst | Failed, shape: Shape) -> None:
        """Add the next visit. Raises WireError for a repeated visit or a skipped
        round.
        """
        pair = self._pair_key(record)
        visited = len(self._outcomes.get(pair, ()))
        if record.round != visited:
            raise WireError(
                f"visit {pair} of round {record.round} came where round {visited} was"
                " the next"
            )
        outcomes = self._outcomes.setdefault(pair, array("Q"))
        if isinstance(record, Burst):
            ticks = record.average_pair_ticks(shape)[record.warmup :]
            twice_the_median = median_low(ticks) + median_high(ticks)
            outcomes.append(int(twice_the_median))
            self._iterations[pair] = record.iterations
            self.bursts += 1
        else:
            outcomes.append(_FAILED[record.given_up])
            self.has_given_up |= record.given_up is not None
        self.visits += 1
        self.first_visits[get_planned_point(record)] += record.round == 0

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file for the agent's --done."""
        for pair, outcomes in self._outcomes.items():
            words = [*pair, self._iterations.get(pair, 0)]
            words += [_WORDS.get(outcome, outcome) for outcome in outcomes]
            yield " ".join(map(str, words)) + "\n"
        yield "end\n"

    def _pair_key(self, record: Burst | Failed) -> PairKey:
        cpus = [record.ping_cpu, record.pong_cpu]
        if not self._ordered:
            cpus.sort()
        if record.point is None:
            return record.benchmark, record.variant, *cpus
        return record.benchmark, record.variant, record.point, *cpus


def get_planned_point(record: Burst | Failed) -> PlannedPoint:
    """Return the benchmark, variant and point that a visit was to."""
    return record.benchmark, record.variant, record.point

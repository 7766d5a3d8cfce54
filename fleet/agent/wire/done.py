"""Counts what of a run is done, and writes it as agents read it (docs/wire.md). Pure;
for `conversation`.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from statistics import median_high, median_low

from fleet.agent.wire.records import ATTEMPT_LIMIT, PlannedPoint, WireError
from fleet.model import Burst, Failed, Shape

PairKey = tuple[str | int, ...]
"""Benchmark, variant, point (left out if None) and the pair's two CPUs: the words that
begin a line.
"""
# An outcome is one number, so that the millions of a large run fit in memory:
#   up to _DISTURBED              twice the median of a burst's ticks
#   _DISTURBED + N                N bursts of the visit so far were disturbed
#   a value of _CODE_BY_GIVEN_UP  the visit failed
_CODE_BY_GIVEN_UP = {
    None: 2**64 - 1,
    "memory": 2**64 - 2,
    "variant": 2**64 - 3,
    "point": 2**64 - 4,
}
_NO_OUTCOME = _CODE_BY_GIVEN_UP[None]
_WORD_BY_CODE = {
    code: f"-{given_up or ''}" for given_up, code in _CODE_BY_GIVEN_UP.items()
}
_DISTURBED = 2**64 - 2 - ATTEMPT_LIMIT - len(_CODE_BY_GIVEN_UP)


class Done:
    """The outcomes of a run's visits so far. A visit is what an agent does for one CPU
    pair at one planned point in one round: it ends with a burst or fails.

    ordered: A,B and B,A are two pairs.
    """

    def __init__(self, ordered: bool = False) -> None:
        """Begin without visits. ordered: A,B and B,A are two pairs."""
        self.visits = 0  # how many were added
        self.bursts = 0  # how many of the visits ended with a burst
        self.visits_of_round_0 = Counter[PlannedPoint]()  # how many at each point
        self.has_given_up = False  # whether an agent gave up a point or more
        self._ordered = ordered
        # of each pair at each planned point: the outcomes of its visits in the rounds
        # 0, 1, 2, …, encoded as above
        self._outcomes: dict[PairKey, array[int]] = {}
        # of each pair at each planned point: the iterations of a sample in its last
        # burst
        self._iterations: dict[PairKey, int] = {}

    def has_visit(self, record: Burst | Failed) -> bool:
        """Report whether the record's visit has been added."""
        outcomes = self._outcomes.get(self._make_pair_key(record), ())
        return record.round < len(outcomes)

    def count_disturbed(self, record: Burst | Failed) -> int:
        """Return how many bursts of the record's visit were disturbed, if the visit may
        be taken again; else 0.
        """
        outcomes = self._outcomes.get(self._make_pair_key(record), ())
        if record.round >= len(outcomes):
            return 0
        return _decode_disturbed(outcomes[record.round])

    def count_short(self, rounds: int) -> int:
        """Return how many pairs have fewer bursts than `rounds`. A pair counts once for
        each planned point where it lacks some.
        """
        short = 0
        for outcomes in self._outcomes.values():
            # an outcome above _DISTURBED is that of a visit without a good burst
            bursts = sum(outcome <= _DISTURBED for outcome in outcomes)
            if bursts < rounds:
                short += 1
        return short

    def add(self, record: Burst | Failed, shape: Shape) -> None:
        """Add the outcome of a new visit, or replace that of a visit that was taken
        again since other work had disturbed it. Raises WireError for a repeated visit
        or a skipped round. shape: the benchmark's.
        """
        is_taken_again = record.attempt > 0
        if is_taken_again:
            self._require_disturbed(record)
        else:
            self._add_visit_without_outcome(record)
        pair = self._make_pair_key(record)
        if isinstance(record, Burst):
            outcome = _encode_burst(record, shape)
            self._iterations[pair] = record.iterations
            self.bursts += 1
        else:
            outcome = _encode_failed(record)
            self.has_given_up |= record.given_up is not None
        self._outcomes[pair][record.round] = outcome

    def _add_visit_without_outcome(self, record: Burst | Failed) -> None:
        """Add a visit, with a place for its outcome, which the caller fills: a number
        or a failure. Raises WireError unless the visit is in the round that follows
        those of its pair so far.
        """
        pair = self._make_pair_key(record)
        outcomes = self._outcomes.setdefault(pair, array("Q"))
        if record.round != len(outcomes):
            raise WireError(
                f"visit {pair} of round {record.round} came where round"
                f" {len(outcomes)} was the next"
            )
        outcomes.append(_NO_OUTCOME)
        self.visits += 1
        if record.round == 0:
            self.visits_of_round_0[get_planned_point(record)] += 1

    def _require_disturbed(self, record: Burst | Failed) -> None:
        """Raise WireError unless all earlier attempts at the record's visit were
        disturbed. Attempts count from 0, so that attempt 2 follows two disturbed ones.
        """
        disturbed = self.count_disturbed(record)
        if record.attempt != disturbed:
            pair = self._make_pair_key(record)
            raise WireError(
                f"attempt {record.attempt} of visit {pair} came where {disturbed} were"
                " disturbed"
            )

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file for the agent's --done."""
        for pair, outcomes in self._outcomes.items():
            words = [*pair, self._iterations.get(pair, 0)]
            words += map(_format_outcome, outcomes)
            yield " ".join(map(str, words)) + "\n"
        yield "end\n"

    def _make_pair_key(self, record: Burst | Failed) -> PairKey:
        """Return the key of the record's planned point and pair, such as ("cas",
        "llsc", 0, 3). A,B and B,A have the same key unless pairs are ordered.
        """
        words = [record.benchmark, record.variant]
        if record.point is not None:
            words.append(record.point)
        cpus = [record.ping_cpu, record.pong_cpu]
        if not self._ordered:
            cpus.sort()
        return (*words, *cpus)


def _encode_burst(burst: Burst, shape: Shape) -> int:
    """Return twice the median of a burst's ticks. Of an even count the median may lie
    halfway between two ticks; twice that is a whole number.
    """
    ticks = burst.average_pair_ticks(shape)[burst.warmup :]
    return int(median_low(ticks) + median_high(ticks))


def _encode_failed(failed: Failed) -> int:
    if failed.disturbed:
        bursts = failed.attempt + 1  # this one and those before
        return _DISTURBED + bursts
    return _CODE_BY_GIVEN_UP[failed.given_up]


def _decode_disturbed(outcome: int) -> int:
    """Return how many bursts of a visit were disturbed; 0 for any other outcome."""
    if _DISTURBED < outcome <= _DISTURBED + ATTEMPT_LIMIT:
        return outcome - _DISTURBED
    return 0


def _format_outcome(outcome: int) -> str:
    """Return an outcome's word for --done: "1234" ticks twice, "~2" or "-memory"."""
    disturbed = _decode_disturbed(outcome)
    if disturbed:
        return f"~{disturbed}"
    return _WORD_BY_CODE.get(outcome, str(outcome))


def get_planned_point(record: Burst | Failed) -> PlannedPoint:
    """Return the benchmark, variant and point that a visit was to."""
    return record.benchmark, record.variant, record.point

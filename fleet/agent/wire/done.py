"""Lists the done visits of a plan: the outcomes of each pair and point (docs/wire.md). Pure."""

from array import array
from collections.abc import Iterator
from statistics import median_high, median_low

from fleet.agent.wire.line import WireError
from fleet.model import Burst, Failed, Shape

PairKey = tuple[str | int, ...]  # the words that begin a line
_FAILED = {None: 2**64 - 1, "memory": 2**64 - 2, "variant": 2**64 - 3, "point": 2**64 - 4}
_WORDS = {code: f"-{reason or ''}" for reason, code in _FAILED.items()}


class Done:
    """The outcomes of each pair of a run, about 0.4 KB a pair.

    ordered: each direction is a pair of its own.
    """

    def __init__(self, ordered: bool = False) -> None:
        self.visits = 0
        self.bursts = 0
        self._ordered = ordered
        self._outcomes: dict[PairKey, array[int]] = {}
        self._iterations: dict[PairKey, int] = {}

    def __bool__(self) -> bool:
        return self.visits > 0

    def has_visit(self, record: Burst | Failed) -> bool:
        """Report whether this visit is done."""
        return record.round < len(self._outcomes.get(self._pair_key(record), ()))

    def add(self, record: Burst | Failed, shape: Shape) -> None:
        """Add the next visit. Raises WireError for a repeated visit or a skipped round.

        shape: the shape of its benchmark.
        """
        place = self._pair_key(record)
        visited = len(self._outcomes.get(place, ()))
        if record.round != visited:
            raise WireError(f"visit {place} of round {record.round} came where round {visited} was the next")
        outcomes = self._outcomes.setdefault(place, array("Q"))
        if isinstance(record, Burst):
            ticks = record.sample_ticks(shape)[record.warmup :]
            outcomes.append(int(median_low(ticks) + median_high(ticks)))  # twice the median
            self._iterations[place] = record.iterations
            self.bursts += 1
        else:
            outcomes.append(_FAILED[record.given_up])
        self.visits += 1

    def lines(self) -> Iterator[str]:
        """Return the lines of the file for the agent's --done."""
        for place, outcomes in self._outcomes.items():
            medians = " ".join(_WORDS.get(outcome) or str(outcome) for outcome in outcomes)
            yield f"{' '.join(map(str, place))} {self._iterations.get(place, 0)} {medians}\n"
        yield "end\n"

    def _pair_key(self, record: Burst | Failed) -> PairKey:
        ping, pong = record.ping_cpu, record.pong_cpu
        if ping > pong and not self._ordered:
            ping, pong = pong, ping
        point = () if record.point is None else (record.point,)
        return record.benchmark, record.variant, *point, ping, pong

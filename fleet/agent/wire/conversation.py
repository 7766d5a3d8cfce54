"""Follows the agent's output (docs/wire.md), refuses what is not allowed, joins a run's
parts. Pure.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from statistics import median, median_high, median_low

from fleet.agent.wire.records import (
    TEXT_LIMIT,
    Alive,
    Exit,
    PlannedPoint,
    Record,
    WireError,
    decode_record,
    derive_burst_flags,
    list_planned_points,
    quote_start,
    split_noise,
)
from fleet.model import (
    Burst,
    End,
    Failed,
    Hello,
    Note,
    Pairs,
    Parameters,
    Plan,
    Shape,
    View,
)
from fleet.plan.cpulist import format_cpus
from fleet.text import format_count

PairKey = tuple[str | int, ...]  # the words that begin a line
Part = Iterable[bytes | None]
"""The lines of a part; None for one that its journal does not hold as it was
written.
"""
RATE_PPM = 1000
"""How much the rate of a clock that each agent measures anew may differ; far less than
any precision.
"""
_SAME = (
    "build",
    "os",
    "arch",
    "clock",
    "cpus",
    "pairs",
    "counters",
    "benchmarks",
    "seed",
    "plan",
)
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
        place = self._pair_key(record)
        visited = len(self._outcomes.get(place, ()))
        if record.round != visited:
            raise WireError(
                f"visit {place} of round {record.round} came where round {visited} was"
                " the next"
            )
        outcomes = self._outcomes.setdefault(place, array("Q"))
        if isinstance(record, Burst):
            ticks = record.average_pair_ticks(shape)[record.warmup :]
            # twice the median
            outcomes.append(int(median_low(ticks) + median_high(ticks)))
            self._iterations[place] = record.iterations
            self.bursts += 1
        else:
            outcomes.append(_FAILED[record.given_up])
        self.visits += 1

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file for the agent's --done."""
        for place, outcomes in self._outcomes.items():
            medians = " ".join(
                _WORDS.get(outcome) or str(outcome) for outcome in outcomes
            )
            yield (
                f"{' '.join(map(str, place))} {self._iterations.get(place, 0)}"
                f" {medians}\n"
            )
        yield "end\n"

    def _pair_key(self, record: Burst | Failed) -> PairKey:
        ping, pong = record.ping_cpu, record.pong_cpu
        if ping > pong and not self._ordered:
            ping, pong = pong, ping
        point = () if record.point is None else (record.point,)
        return record.benchmark, record.variant, *point, ping, pong


LINE_LIMIT_BYTES = 1 << 20
NOISE_LIMIT_LINES = 1000
NOTE_LIMIT = 1000
FAILED_LIMIT = 100_000
# of notes and failed bursts, which are kept in the run's record
WORDS_LIMIT_BYTES = 14 << 20
NO_HELLO = "the agent sent no hello record"
MIN_NS = (
    0.1  # no CPU reads a clock or hands a line over in less; it would be shown as 0.0
)


class Reader:
    """Reads an agent's output in bounded memory: call `read_line` on each line, then
    `explain_unfinished`.
    """

    def __init__(self, done: Done | None = None, first: Hello | None = None) -> None:
        # visits of earlier agents, which this one leaves out
        self.done = done or Done()
        self._first = first  # the first agent's hello
        self.hello: Hello | None = None
        self.end: End | None = None
        self.bursts = 0
        self.failed: list[Failed] = []
        self.notes: list[str] = []
        self.visiting: bytes | None = (
            None  # the record that names the visit, until its burst is there
        )
        self._noise = 0
        self._words = 0
        self._round = 0
        # a bit for each other CPU
        self._visited: Counter[tuple[str, str, str | None, int]] = Counter()
        self._allowed_identities: frozenset[PlannedPoint] = frozenset()
        self._places: dict[int, int] = {}
        self._points: dict[PlannedPoint, Parameters] = {}

    def read_line(self, line: bytes) -> Record | None:
        """Decode the next line, adding a burst's flags; None for another program's
        text. Raises WireError.
        """
        if len(line) > LINE_LIMIT_BYTES:
            raise WireError(
                f"a line of {len(line)} bytes; at most {LINE_LIMIT_BYTES} are allowed"
            )
        if self.hello is None:
            return self._read_hello(line)
        words, line = split_noise(line)
        if words:
            self._skip_noise(words, "among the agent's records")
        if not line:
            return None
        if self.end is not None and not line.startswith(b'{"record":"exit"'):
            raise WireError(f"a line after the end record: {quote_start(line)}")
        record = decode_record(line)
        if isinstance(record, (Note, Failed)):
            self._words += min(len(line), 2 * TEXT_LIMIT)
            if self._words > WORDS_LIMIT_BYTES:
                raise WireError(
                    f"more than {WORDS_LIMIT_BYTES} bytes of notes and failed bursts"
                )
        self._add(record, self.hello)
        if not isinstance(record, Alive):
            self.visiting = None
        elif record.benchmark is not None:
            self.visiting = line
        return (
            add_flags_and_start(record, self.hello, self._first)
            if isinstance(record, Burst)
            else record
        )

    def _add(self, record: Record, hello: Hello) -> None:
        match record:
            case Hello():
                raise WireError("a second hello record")
            case Burst() | Failed():
                self._check_and_count_visit(record, hello)
            case Note():
                self.notes.append(record.text)
                if len(self.notes) > NOISE_LIMIT_LINES + NOTE_LIMIT:
                    raise WireError(f"more than {NOTE_LIMIT} notes")
            case End():
                self.end = record
            case Exit():
                if self.end is None:
                    raise WireError("an exit record before the end record")
                self.end = replace(self.end, reason=f"exit code {record.code}")
            case Alive():
                pass

    def explain_unfinished(self) -> str | None:
        """Return why the agent's output is not a finished run; None if it is
        finished.
        """
        if self.hello is None:
            return NO_HELLO
        visits = self.bursts + len(self.failed)
        bursts_min, bursts_max = self.hello.bursts, self.hello.bursts_max
        if self.end is None:
            return (
                f"cut after {visits} of"
                f" {_format_at_least(max(bursts_min, visits), bursts_max)} bursts"
            )
        if (self.end.bursts, self.end.failed) != (self.bursts, len(self.failed)):
            return (
                f"the end record counts {self.end.bursts} bursts and {self.end.failed}"
                f" failed ones, but {self.bursts} and {len(self.failed)} arrived"
            )
        promised = _format_at_least(bursts_min, bursts_max)
        if self.end.reason != "done" and not self.end.out_of_time:
            return (
                f"ended early ({self.end.reason}) after {visits} of {promised} bursts"
            )
        if not bursts_min <= visits <= bursts_max and self.end.reason == "done":
            return f"{promised} bursts were promised, {visits} arrived"
        return None

    def _read_hello(self, line: bytes) -> Record | None:
        record = decode_hello(line)
        if record is None:
            self._skip_noise(line, "before hello")
            return None
        if (done := record.raw.get("done") or 0) != self.done.visits:
            raise WireError(
                f"the agent counts {done} visits as done, not {self.done.visits}"
            )
        first, now = (
            hello.raw.get("monotonic_ns") or 0
            for hello in (self._first or record, record)
        )
        if 0 < now < first:
            raise WireError("the clock of this agent is behind that of the run's first")
        self.hello = record
        self._allowed_identities = frozenset(list_planned_points(record))
        self._places = {cpu: place for place, cpu in enumerate(record.cpus)}
        return record

    def _skip_noise(self, line: bytes, where: str) -> None:
        self._noise += 1
        if self._noise > NOISE_LIMIT_LINES:
            still = (
                "and still no hello record"
                if self.hello is None
                else "that are not records"
            )
            words = f"{still}; does a login script print? The last: {quote_start(line)}"
            raise WireError(f"{NOISE_LIMIT_LINES} lines {words}")
        if line.strip():
            self.notes.append(f"{where} the host printed: {quote_start(line)}")

    def _check_and_count_visit(self, record: Burst | Failed, hello: Hello) -> None:
        identity = (record.benchmark, record.variant, record.point)
        if identity not in self._allowed_identities:
            name = quote_start("/".join(filter(None, identity)))
            raise WireError(f"{name} is not in the plan of the hello record")
        others = record.cpus or () if isinstance(record, Burst) else ()
        if not self._places.keys() >= {record.ping_cpu, record.pong_cpu, *others}:
            raise WireError(
                f"pair {record.ping_cpu},{record.pong_cpu} is not in the plan's CPUs"
            )
        if isinstance(record, Burst):
            self._check_burst(record, hello)
        if record.round < self._round:
            raise WireError(f"round {record.round} after round {self._round}")
        if record.round > self._round:
            self._round, self._visited = record.round, Counter()
        visit, bit = (*identity, record.ping_cpu), 1 << self._places[record.pong_cpu]
        if self.done.has_visit(record) or self._visited[visit] & bit:
            key = (*filter(None, identity), record.ping_cpu, record.pong_cpu)
            raise WireError(f"visit {key} of round {record.round} came twice")
        self._visited[visit] |= bit
        if isinstance(record, Burst):
            self.bursts += 1
        else:
            self.failed.append(record)
            if len(self.failed) > FAILED_LIMIT:
                last = quote_start(record.reason)
                raise WireError(
                    f"more than {FAILED_LIMIT} failed bursts; the last: {last}"
                )
        if self.bursts + len(self.failed) > hello.bursts_max:
            raise WireError(f"more bursts than the {hello.bursts_max} promised")

    def _check_burst(self, burst: Burst, hello: Hello) -> None:
        benchmark = hello.get_benchmark_or_shipped(burst.benchmark)
        if why := benchmark.find_mismatch(burst):
            raise WireError(f"burst: {why}")
        if (
            burst.parameters is not None
        ):  # the same point has the same, except those known only after a burst
            parameters = replace(burst.parameters, pages=None, state=None)
            identity = (burst.benchmark, burst.variant, burst.point)
            if parameters != self._points.setdefault(identity, parameters):
                raise WireError(
                    f"burst: point {burst.point} has other parameters than before"
                )
        if benchmark.view in (View.MATRIX, View.CPUS):
            ns = (
                median(burst.ticks[burst.warmup :])
                * 1e9
                / hello.ticks_per_second
                / burst.iterations
            )
            if ns < MIN_NS:
                raise WireError(
                    f"burst: {ns:.2g} ns a {benchmark.unit}, less than a CPU can take"
                )
        events, threads = (
            len(hello.counters),
            len(burst.cpus or {burst.ping_cpu, burst.pong_cpu}),
        )
        if (
            burst.counters is not None
            and [*map(len, burst.counters)] != [events] * threads
        ):
            lists, counts = format_count(threads, "list"), format_count(events, "count")
            raise WireError(f"burst: counters must be {lists} of {counts}")


def _format_at_least(minimum: int, maximum: int) -> str:
    return str(minimum) if minimum == maximum else f"at least {minimum}"


def decode_hello(line: bytes) -> Hello | None:
    """Decode a hello record; return None for any other line, also for part of one.
    Raises WireError.
    """
    begins = b'{"record":"hello"'
    if not line.lstrip().startswith(begins):
        if line.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe").startswith(begins):
            raise WireError(
                "the hello record is in UTF-16, or has a byte order mark; keep the"
                " output as it is"
            )
        return None
    if not line.rstrip().endswith(b"}"):
        return None
    record = decode_record(line)
    return record if isinstance(record, Hello) else None


def add_flags_and_start(
    burst: Burst, hello: Hello, first: Hello | None = None
) -> Burst:
    """Return the burst with its flags, and its start in ns since the run's first hello
    (default: `hello`).
    """
    began, zero = (
        hello.raw.get("monotonic_ns") or 0,
        (first or hello).raw.get("monotonic_ns") or 0,
    )
    later_ns = began - zero if began and zero else 0
    flags = derive_burst_flags(burst, hello)
    if not flags and not later_ns:
        return burst
    return replace(burst, flags=flags, start_offset_ns=burst.start_offset_ns + later_ns)


@dataclass(frozen=True, slots=True)
class RunSoFar:
    """A run put together from its parts, the outputs of one agent each, without the
    bursts.
    """

    hello: Hello | None = None  # the first
    end: End | None = None  # of the last part, with the counts of all; None if cut
    failed: tuple[Failed, ...] = ()
    notes: tuple[str, ...] = ()
    bursts: int = 0
    done: Done = field(default_factory=Done)
    parts: int = 0  # the number with a hello
    missing: str | None = NO_HELLO  # what is unfinished
    lines: tuple[int, ...] = ()  # the good lines of each part that a journal has
    refused: int = 0  # the lines from the first bad one on
    damage: str | None = None  # why that one is bad

    def add_part(self, reader: Reader) -> "RunSoFar":
        """Return the run with the part that `reader` read; unchanged if that part has
        no hello.
        """
        if reader.hello is None:
            return self
        bursts, failed = self.bursts + reader.bursts, (*self.failed, *reader.failed)
        return replace(
            self,
            hello=self.hello or reader.hello,
            end=reader.end and replace(reader.end, bursts=bursts, failed=len(failed)),
            failed=failed,
            bursts=bursts,
            parts=self.parts + 1,
            missing=reader.explain_unfinished(),
        )


def read_run(
    parts: Iterable[Part], on_burst: Callable[[Burst], None] | None = None
) -> RunSoFar:
    """Read each part up to its first line that is invalid or of another run. on_burst:
    takes each burst.
    """
    run = RunSoFar()
    notes: list[str] = []
    for part in parts:
        reader, done, lines, good_lines = (
            Reader(run.done, run.hello),
            run.done,
            iter(part),
            0,
        )
        before = (done.bursts, done.visits - done.bursts)
        try:
            for line in lines:
                if line is None:
                    raise WireError(
                        f"line {good_lines + 1} is not what was written (checksum)"
                    )
                match record := reader.read_line(line):
                    case Hello() as hello:
                        reader.hello = None  # until it is known to be of this run
                        check_same_run(run.hello, hello)
                        reader.hello = hello
                        done = (
                            done
                            if done.visits
                            else Done(hello.raw["plan"].get("pairs") == Pairs.ORDERED)
                        )
                    case Burst() | Failed():
                        assert reader.hello is not None  # noqa: S101 - for the type checker
                        done.add(
                            record,
                            reader.hello.get_benchmark_or_shipped(
                                record.benchmark
                            ).shape,
                        )
                        if on_burst is not None and isinstance(record, Burst):
                            on_burst(record)
                    case Note() as note:
                        notes.append(note.text)
                    case _:
                        pass
                good_lines += 1
        except WireError as err:
            run = replace(
                run,
                damage=run.damage or str(err),
                refused=run.refused + 1 + sum(1 for _ in lines),
            )
            # the reader may have counted the bad line
            reader.bursts = done.bursts - before[0]
            del reader.failed[done.visits - done.bursts - before[1] :]
        run = replace(
            run.add_part(reader),
            done=done,
            notes=tuple(notes),
            lines=(*run.lines, good_lines),
        )
    return run


def check_plan(plan: Plan, hello: Hello) -> None:
    """Raise WireError if an agent measures benchmarks or CPUs outside the plan, or has
    another seed.
    """
    if others := sorted(
        {name for name, _, _ in list_planned_points(hello)} - {*plan.benchmarks}
    ):
        raise WireError(
            f"it measures {', '.join(others)}, but was asked for"
            f" {', '.join(plan.benchmarks)}"
        )
    if isinstance(plan.cpus, tuple) and (beyond := {*hello.cpus} - {*plan.cpus}):
        raise WireError(
            f"it measures CPU {format_cpus(beyond)}, but was asked for"
            f" {format_cpus(plan.cpus)}"
        )
    if hello.raw.get("seed") != plan.seed:
        raise WireError(
            f"its seed is {hello.raw.get('seed')}, but was asked for {plan.seed}"
        )


def check_same_run(first: Hello | None, other: Hello) -> None:
    """Raise WireError if the agents of two hello records cannot have measured the same
    run.
    """
    if first is None:
        return
    for name in _SAME:
        if first.raw.get(name) != other.raw.get(name):
            raise WireError(f"an agent with another {name} cannot continue this run")
    if abs(other.ticks_per_second / first.ticks_per_second - 1) * 1e6 > RATE_PPM:
        now, before = other.ticks_per_second, first.ticks_per_second
        raise WireError(f"the clock ticks {now} times a second now, {before} before")


def decode_bursts(parts: Iterable[Part]) -> Iterator[Burst]:
    """Yield the bursts of parts that `read_run` has checked, as `read_run` passes them
    to `on_burst`.
    """
    first: Hello | None = None
    for part in parts:
        hello: Hello | None = None
        for line in filter(None, part):
            if hello is None:
                hello = decode_hello(line)
                first = first or hello
            elif (text := split_noise(line)[1]) and isinstance(
                record := decode_record(text), Burst
            ):
                yield add_flags_and_start(record, hello, first)

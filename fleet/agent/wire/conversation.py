"""Follows the agent's output (docs/wire.md), refuses what is not allowed, joins a run's
parts. Pure.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from fleet.agent.wire.asked import (
    ROUNDS_FOR_PRECISION,
    check_hello,
    count_visits_due,
)
from fleet.agent.wire.done import Done, get_planned_point
from fleet.agent.wire.records import (
    TEXT_LIMIT,
    Alive,
    Exit,
    PlannedPoint,
    Record,
    WireError,
    decode_record,
    derive_burst_flags,
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
    Run,
    Shape,
    View,
)
from fleet.text import format_count

BurstName = tuple[str | int | None, ...]
"""Benchmark, variant, point, round, ping, pong, and the number of the attempt."""
Part = Iterable[bytes | None]
"""The lines of a part; None for one that its journal does not hold as it was
written.
"""
RATE_PPM = 1000
"""How much the rate of a clock that each agent measures anew may differ; far less than
any precision.
"""
# what a run's agents must agree on in their hello records
_SAME_IN_HELLOS = (
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
LINE_LIMIT_BYTES = 1 << 20
# The journal keeps lines that are not visits too: so many bytes of them are allowed
# beyond those that each visit brings along.
OTHER_LIMIT_BYTES = 16 << 20
OTHER_BYTES_A_VISIT = 1 << 10
NOISE_LIMIT_LINES = 1000
NOTE_LIMIT = 1000
FAILED_LIMIT = 100_000
# of notes and failed bursts, which are kept in the run's record
WORDS_LIMIT_BYTES = 14 << 20
# of disturbed bursts, whose samples are kept in the run's record; of more, only why
SAMPLES_LIMIT_BYTES = 2 << 20
FAILED_BYTES = 500  # a failed burst without samples, at most
_BYTE_ORDER_MARKS = b"\xef\xbb\xbf\xff\xfe"
NO_HELLO = "the agent sent no hello record"
# Times of two clocks differ by their rates, and by a host or controller that slept no
# longer than a link stays up.
CLOCK_SHARE = 0.1
CLOCK_SLACK_S = 30.0
# No CPU reads a clock or hands a line over in less; it would be shown as 0.0.
MIN_NS = 0.1


class Reader:
    """Reads an agent's output in bounded memory: call `read_line` on each line, then
    `explain_unfinished`.
    """

    def __init__(
        self,
        done: Done | None = None,
        first: Hello | None = None,
        run: Run | None = None,
        passed_s: Callable[[], float] | None = None,
    ) -> None:
        """done, first: earlier agents' visits, which this one leaves out, and hello.
        run: what was asked. passed_s: how long ago the agent was started, by our clock.
        """
        self.done = done or Done()
        self._first = first
        self._run = run
        self._passed_s = passed_s
        self.hello: Hello | None = None
        self.end: End | None = None
        self.bursts = 0
        self.failed: list[Failed] = []  # also those taken again
        self.retaken: list[BurstName] = []  # the failed bursts that were taken again
        self.notes: list[str] = []
        # the record that names the visit, until its burst is there
        self.visiting: bytes | None = None
        self._noise_lines = 0
        self._words_bytes = 0
        self._samples_bytes = 0  # of disturbed bursts
        self._other_bytes = 0  # beyond what visits allow
        self._ticks = 0.0  # of all bursts
        self._round = 0
        self._earlier_visits = self.done.visits
        self._first_visits = Counter(self.done.first_visits)
        self._visits_due: Mapping[PlannedPoint, int] = {}
        # the visits of this round: by point and ping CPU, a bit for each pong CPU
        self._visited: Counter[tuple[str, str, str | None, int]] = Counter()
        # of each visit that was disturbed, how many bursts were; 0 once it has a burst
        self._disturbed: dict[BurstName, int] = {}
        self._places: dict[int, int] = {}  # of each CPU in the hello
        self._parameters: dict[PlannedPoint, Parameters] = {}

    def read_line(self, line: bytes) -> Record | None:
        """Decode the next line, adding a burst's flags; None for another program's
        text. Raises WireError.
        """
        self._count_bytes(line)
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
        self._add(record, self.hello, len(line))
        if not isinstance(record, Alive):
            self.visiting = None
        elif record.benchmark is not None:
            self.visiting = line
        if isinstance(record, Burst):
            return add_flags_and_start(record, self.hello, self._first)
        return record

    def _count_bytes(self, line: bytes) -> None:
        if len(line) > LINE_LIMIT_BYTES:
            raise WireError(
                f"a line of {len(line)} bytes; at most {LINE_LIMIT_BYTES} are allowed"
            )
        self._other_bytes += len(line)
        if self._other_bytes > OTHER_LIMIT_BYTES:
            raise WireError(
                f"more than {OTHER_LIMIT_BYTES >> 20} MiB of lines that are no visits;"
                f" the last: {quote_start(line)}"
            )

    def _count_words(self, length: int) -> None:
        self._words_bytes += min(length, 2 * TEXT_LIMIT)
        if self._words_bytes > WORDS_LIMIT_BYTES:
            raise WireError(
                f"more than {WORDS_LIMIT_BYTES} bytes of notes and failed bursts"
            )

    def _add(self, record: Record, hello: Hello, length: int) -> None:
        match record:
            case Hello():
                raise WireError("a second hello record")
            case Burst() | Failed():
                self._check_and_count_visit(record, hello, length)
                # takes back what `_count_bytes` counted, and a little more
                allowed = length + OTHER_BYTES_A_VISIT
                self._other_bytes = max(0, self._other_bytes - allowed)
            case Note():
                self._count_words(length)
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
        visits = self.visits
        if self.end is None:
            minimum = max(self.hello.bursts, visits)
            promised = _format_at_least(minimum, self.hello.bursts_max)
            return f"cut after {visits} of {promised} bursts"
        why = self._explain_unfit_end(self.hello, self.end, visits)
        if why is None and self.end.reason == "done":
            why = self._explain_missing_visits(self.hello, visits)
        return why

    def _explain_unfit_end(self, hello: Hello, end: End, visits: int) -> str | None:
        """Return how the end record contradicts the hello or what arrived; None if it
        fits.
        """
        bursts = self.bursts
        failed = len(self.failed)
        again = len(self.retaken)
        if (end.bursts, end.failed, end.again) != (bursts, failed, again):
            return (
                f"the end record counts {end.bursts} bursts, {end.failed} failed ones"
                f" and {end.again} taken again, but {bursts}, {failed} and"
                f" {again} arrived"
            )
        promised = _format_at_least(hello.bursts, hello.bursts_max)
        if end.reason != "done" and not end.out_of_time:
            return f"ended early ({end.reason}) after {visits} of {promised} bursts"
        if end.reason == "done" and not hello.bursts <= visits <= hello.bursts_max:
            return f"{promised} bursts were promised, {visits} arrived"
        return None

    def _explain_missing_visits(self, hello: Hello, visits: int) -> str | None:
        """Return which visits of the plan a finished agent did not make; None if it
        made all, or may have given some up.
        """
        if self.done.has_given_up:
            return None
        for point, due in self._visits_due.items():
            arrived = self._first_visits[point]
            if arrived < due:
                name = "/".join(filter(None, point))
                return f"{arrived} of {due} planned visits of {name} came in round 0"
        # each round has the visits of the first, and may have more
        rounds = hello.raw["plan"].get("rounds") or 1
        planned = max(1, rounds * self._first_visits.total())
        all_visits = self._earlier_visits + visits
        if all_visits < planned:
            return f"{all_visits} visits came, and {planned} or more are planned"
        return None

    def _read_hello(self, line: bytes) -> Record | None:
        hello = decode_hello(line)
        if hello is None:
            self._skip_noise(line, "before hello")
            return None
        self._check_continuation(hello)
        if self._run is not None:
            check_hello(self._run, hello)
        self.hello = hello
        self._visits_due = count_visits_due(self._run, hello)
        self._places = {cpu: place for place, cpu in enumerate(hello.cpus)}
        return hello

    def _check_continuation(self, hello: Hello) -> None:
        """Raise WireError unless the agent can continue what earlier ones measured."""
        done = hello.raw.get("done") or 0
        if done != self.done.visits:
            raise WireError(
                f"the agent counts {done} visits as done, not {self.done.visits}"
            )
        if self._first is None:
            return
        # 0, where it is not known, is behind nothing
        if 0 < _get_monotonic_ns(hello) < _get_monotonic_ns(self._first):
            raise WireError("the clock of this agent is behind that of the run's first")
        check_same_run(self._first, hello)

    def _skip_noise(self, line: bytes, where: str) -> None:
        self._noise_lines += 1
        if self._noise_lines > NOISE_LIMIT_LINES:
            fault = "that are not records"
            if self.hello is None:
                fault = "and still no hello record"
            raise WireError(
                f"{NOISE_LIMIT_LINES} lines {fault}; does a login script print? The"
                f" last: {quote_start(line)}"
            )
        if line.strip():
            self.notes.append(f"{where} the host printed: {quote_start(line)}")

    def _check_and_count_visit(
        self, record: Burst | Failed, hello: Hello, length: int
    ) -> None:
        self._require_planned(record)
        if isinstance(record, Burst):
            self._check_burst(record, hello)
        # a visit that was disturbed is taken again, as attempt 1, 2, …
        is_first_attempt = record.attempt == 0
        if is_first_attempt:
            self._follow_round(record.round)
            self._require_new(record)
        else:
            self._require_disturbed(record)
        self._count_disturbed(record)
        if record.round == 0 and is_first_attempt:
            self._first_visits[get_planned_point(record)] += 1
        if isinstance(record, Burst):
            self.bursts += 1
        else:
            self._keep_failed(record, length)
        if self.visits > hello.bursts_max:
            raise WireError(f"more bursts than the {hello.bursts_max} promised")

    @property
    def visits(self) -> int:
        """Return how many visits this agent made, each in one round."""
        return self.bursts + len(self.failed) - len(self.retaken)

    def _require_disturbed(self, record: Burst | Failed) -> None:
        """Note that a burst was taken again. Raises WireError unless those before it
        were disturbed.
        """
        visit = name_burst(record, 0)
        count = self._disturbed.get(visit)
        if count is None:
            count = self.done.count_disturbed(record)
        if record.attempt != count:
            raise WireError(
                f"attempt {record.attempt} of visit {visit} came where {count} were"
                " disturbed"
            )
        self.retaken.append(name_burst(record, record.attempt - 1))

    def _count_disturbed(self, record: Burst | Failed) -> None:
        if isinstance(record, Failed) and record.disturbed:
            self._disturbed[name_burst(record, 0)] = record.attempt + 1
        elif record.attempt:
            self._disturbed[name_burst(record, 0)] = 0

    def _require_planned(self, record: Burst | Failed) -> None:
        """Raise WireError unless the hello plans the visit's point and has its CPUs."""
        point = get_planned_point(record)
        if point not in self._visits_due:
            name = quote_start("/".join(filter(None, point)))
            raise WireError(f"{name} is not in the plan of the hello record")
        cpus = {record.ping_cpu, record.pong_cpu}
        if isinstance(record, Burst) and record.cpus:
            cpus.update(record.cpus)
        planned_cpus = self._places.keys()
        if not cpus <= planned_cpus:
            raise WireError(
                f"pair {record.ping_cpu},{record.pong_cpu} is not in the plan's CPUs"
            )

    def _require_new(self, record: Burst | Failed) -> None:
        """Note the visit. Raises WireError if it came before, in this part or an
        earlier one.
        """
        point = get_planned_point(record)
        point_and_ping = (*point, record.ping_cpu)
        bit_of_pong = 1 << self._places[record.pong_cpu]
        is_visited = self._visited[point_and_ping] & bit_of_pong
        if is_visited or self.done.has_visit(record):
            name = (*filter(None, point), record.ping_cpu, record.pong_cpu)
            raise WireError(f"visit {name} of round {record.round} came twice")
        self._visited[point_and_ping] |= bit_of_pong

    def _keep_failed(self, record: Failed, length: int) -> None:
        if record.ticks is not None:
            self._samples_bytes += length
            if self._samples_bytes > SAMPLES_LIMIT_BYTES:
                record = _drop_samples(record)
            length = FAILED_BYTES
        self._count_words(length)
        self.failed.append(record)
        if len(self.failed) > FAILED_LIMIT:
            last = quote_start(record.reason)
            raise WireError(f"more than {FAILED_LIMIT} failed bursts; the last: {last}")

    def _follow_round(self, number: int) -> None:
        if number < self._round:
            raise WireError(f"round {number} after round {self._round}")
        if self._run is not None:
            limit = max(ROUNDS_FOR_PRECISION, self._run.plan.rounds or 0)
            if number >= limit:
                raise WireError(
                    f"round {number}, but a plan has at most {limit} rounds"
                )
        if number > self._round:
            self._round = number
            self._visited = Counter()

    def _check_burst(self, burst: Burst, hello: Hello) -> None:
        benchmark = hello.get_benchmark_or_shipped(burst.benchmark)
        if why := benchmark.find_mismatch(burst):
            raise WireError(f"burst: {why}")
        self._check_sampling(burst, hello)
        self._check_time(burst, hello, benchmark.shape)
        if burst.parameters is not None:
            self._check_parameters(burst, burst.parameters)
        if benchmark.view in (View.MATRIX, View.CPUS):
            _check_latency(burst, hello, benchmark.unit)
        if burst.counters is not None:
            _check_counters(burst, burst.counters, len(hello.counters))

    def _check_parameters(self, burst: Burst, parameters: Parameters) -> None:
        """Raise WireError if the burst's point had other parameters before, except for
        those known only after a burst.
        """
        planned = replace(parameters, pages=None, state=None)
        before = self._parameters.setdefault(get_planned_point(burst), planned)
        if planned != before:
            raise WireError(
                f"burst: point {burst.point} has other parameters than before"
            )

    def _check_sampling(self, burst: Burst, hello: Hello) -> None:
        """Raise WireError if the burst has other samples than its hello and the plan
        that was sent say.
        """
        planned = hello.raw["plan"]
        samples = len(burst.ticks) - burst.warmup
        if planned.get("warmup") not in (None, burst.warmup):
            raise WireError(
                f"burst: {burst.warmup} warm-ups, and the plan has {planned['warmup']}"
            )
        if (planned.get("samples") or samples) < samples:
            raise WireError(
                f"burst: {samples} samples, and the plan has {planned['samples']}"
            )
        if self._run is None:
            return
        sent = self._run.plan
        if sent.samples not in (None, samples):
            raise WireError(f"burst: {samples} samples, not {sent.samples}")
        if burst.point is None and sent.iterations not in (None, burst.iterations):
            raise WireError(
                f"burst: {burst.iterations} iterations, not {sent.iterations}"
            )

    def _check_time(self, burst: Burst, hello: Hello, shape: Shape) -> None:
        """Raise WireError if the bursts before this one took longer by their ticks than
        until its start by the host's clock, or its end is after now by ours.
        """
        began_s = burst.start_offset_ns / 1e9
        earlier_bursts_s = self._ticks / hello.ticks_per_second
        if earlier_bursts_s > _add_clock_error(began_s):
            raise WireError(
                f"burst: {earlier_bursts_s:.0f} s of ticks came before it, but it began"
                f" {began_s:.0f} s after hello"
            )
        ticks = sum(burst.average_pair_ticks(shape))
        ended_s = began_s + ticks / hello.ticks_per_second
        if self._passed_s is not None and ended_s > _add_clock_error(self._passed_s()):
            raise WireError(
                f"burst: it ended {ended_s:.0f} s after hello, but the agent was"
                f" started {self._passed_s():.0f} s ago"
            )
        self._ticks += ticks


def _drop_samples(failed: Failed) -> Failed:
    return replace(
        failed, iterations=None, ticks=None, other_ticks=None, other_units=None
    )


def name_burst(record: Burst | Failed, attempt: int) -> BurstName:
    """Return what names a burst of the record's visit."""
    cpus = (record.ping_cpu, record.pong_cpu)
    return (*get_planned_point(record), record.round, *cpus, attempt)


def _mark_retaken(
    failed: Iterable[Failed], retaken: Iterable[BurstName]
) -> Iterator[Failed]:
    """Yield the failed bursts, marked where they were taken again."""
    names = {*retaken}
    for burst in failed:
        is_retaken = burst.again or name_burst(burst, burst.attempt) in names
        yield replace(burst, again=is_retaken)


def _get_monotonic_ns(hello: Hello) -> int:
    """Return the host's clock at hello; 0 if unknown."""
    return hello.raw.get("monotonic_ns") or 0


def _check_latency(burst: Burst, hello: Hello, unit: str) -> None:
    ticks = median(burst.ticks[burst.warmup :])
    ns = ticks * 1e9 / hello.ticks_per_second / burst.iterations
    if ns < MIN_NS:
        raise WireError(f"burst: {ns:.2g} ns a {unit}, less than a CPU can take")


def _check_counters(
    burst: Burst, counters: Sequence[Sequence[object]], events: int
) -> None:
    """Raise WireError unless each of the burst's threads has a count of each event."""
    cpus = burst.cpus or {burst.ping_cpu, burst.pong_cpu}
    threads = len(cpus)
    lengths = [len(counts) for counts in counters]
    if lengths != [events] * threads:
        lists = format_count(threads, "list")
        counts = format_count(events, "count")
        raise WireError(f"burst: counters must be {lists} of {counts}")


def _add_clock_error(seconds: float) -> float:
    """Return the longest time that another clock may have shown meanwhile."""
    return (1 + CLOCK_SHARE) * seconds + CLOCK_SLACK_S


def _format_at_least(minimum: int, maximum: int) -> str:
    if minimum == maximum:
        return str(minimum)
    return f"at least {minimum}"


def decode_hello(line: bytes) -> Hello | None:
    """Decode a hello record; return None for any other line, also for part of one.
    Raises WireError.
    """
    begins = b'{"record":"hello"'
    if not line.lstrip().startswith(begins):
        as_utf8 = line.replace(b"\0", b"").lstrip(_BYTE_ORDER_MARKS)
        if as_utf8.startswith(begins):
            raise WireError(
                "the hello record is in UTF-16, or has a byte order mark; keep the"
                " output as it is"
            )
        return None
    if not line.rstrip().endswith(b"}"):
        return None
    record = decode_record(line)
    if not isinstance(record, Hello):
        return None
    return record


def add_flags_and_start(
    burst: Burst, hello: Hello, first: Hello | None = None
) -> Burst:
    """Return the burst with its flags, and its start in ns since the run's first hello
    (default: `hello`).
    """
    hello_ns = _get_monotonic_ns(hello)
    first_hello_ns = _get_monotonic_ns(first or hello)
    after_first_ns = 0
    if hello_ns and first_hello_ns:  # both are known
        after_first_ns = hello_ns - first_hello_ns
    flags = derive_burst_flags(burst, hello)
    if not flags and not after_first_ns:
        return burst
    start_ns = burst.start_offset_ns + after_first_ns
    return replace(burst, flags=flags, start_offset_ns=start_ns)


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

    @property
    def lacks_bursts(self) -> bool:
        """Whether a number has fewer bursts than the plan has rounds, by `done`."""
        if self.hello is None:
            return True
        rounds = self.hello.raw["plan"].get("rounds") or 1
        return bool(self.failed) and self.done.count_short(rounds) > 0

    def add_part(self, reader: Reader) -> "RunSoFar":
        """Return the run with the part that `reader` read; unchanged if that part has
        no hello.
        """
        if reader.hello is None:
            return self
        bursts = self.bursts + reader.bursts
        failed = (*self.failed, *reader.failed)
        if reader.retaken:
            failed = tuple(_mark_retaken(failed, reader.retaken))
        end = reader.end
        if end is not None:
            again = sum(burst.again for burst in failed)
            end = replace(end, bursts=bursts, failed=len(failed), again=again)
        return replace(
            self,
            hello=self.hello or reader.hello,
            end=end,
            failed=failed,
            bursts=bursts,
            parts=self.parts + 1,
            missing=reader.explain_unfinished(),
        )


def read_run(
    parts: Iterable[Part],
    on_burst: Callable[[Burst], None] | None = None,
    asked: Run | None = None,
) -> RunSoFar:
    """Read each part up to its first line that is invalid or of another run. on_burst:
    takes each burst. asked: the run with its plan, if an agent of ours was sent one.
    """
    run = RunSoFar()
    for part in parts:
        run = _read_part(run, part, on_burst, asked)
    return run


def _read_part(
    run: RunSoFar,
    part: Part,
    on_burst: Callable[[Burst], None] | None,
    asked: Run | None,
) -> RunSoFar:
    """Return the run with another part, up to the first bad line of that."""
    reader = Reader(run.done, run.hello, asked)
    done = run.done
    notes = list(run.notes)
    good_lines = 0
    good_counts = (0, 0, 0)  # of bursts, failed ones, ones taken again
    lines = iter(part)
    try:
        for line in lines:
            if line is None:
                raise WireError(
                    f"line {good_lines + 1} is not what was written (checksum)"
                )
            match record := reader.read_line(line):
                case Hello() as hello if not done.visits:
                    is_ordered = hello.raw["plan"].get("pairs") == Pairs.ORDERED
                    done = Done(is_ordered)
                case Burst() | Failed():
                    done.add(record, _find_shape(reader, record))
                    good_counts = (
                        reader.bursts,
                        len(reader.failed),
                        len(reader.retaken),
                    )
                    if on_burst is not None and isinstance(record, Burst):
                        on_burst(record)
                case Note() as note:
                    notes.append(note.text)
                case _:
                    pass
            good_lines += 1
    except WireError as err:
        run = _note_damage(run, str(err), lines)
        # the reader may have counted the bad line
        reader.bursts, failed, retaken = good_counts
        del reader.failed[failed:]
        del reader.retaken[retaken:]
    return replace(
        run.add_part(reader),
        done=done,
        notes=tuple(notes),
        lines=(*run.lines, good_lines),
    )


def _note_damage(run: RunSoFar, why: str, lines: Iterator[object]) -> RunSoFar:
    """Return the run with a bad line. lines: those behind it, which are refused with
    it.
    """
    refused = 1 + sum(1 for _ in lines)
    return replace(run, damage=run.damage or why, refused=run.refused + refused)


def _find_shape(reader: Reader, record: Burst | Failed) -> Shape:
    assert reader.hello is not None  # noqa: S101 - for the type checker
    return reader.hello.get_benchmark_or_shipped(record.benchmark).shape


def check_same_run(first: Hello | None, other: Hello) -> None:
    """Raise WireError if the agents of two hello records cannot have measured the same
    run.
    """
    if first is None:
        return
    for name in _SAME_IN_HELLOS:
        if first.raw.get(name) != other.raw.get(name):
            raise WireError(f"an agent with another {name} cannot continue this run")
    now = other.ticks_per_second
    before = first.ticks_per_second
    difference_ppm = abs(now / before - 1) * 1e6
    if difference_ppm > RATE_PPM:
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
                continue
            _, text = split_noise(line)
            if not text:
                continue
            record = decode_record(text)
            if isinstance(record, Burst):
                yield add_flags_and_start(record, hello, first)

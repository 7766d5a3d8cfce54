"""Follows the agent's output (docs/wire.md) and refuses what is not allowed. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from fleet.agent.wire.asked import (
    ROUNDS_FOR_PRECISION,
    check_hello,
    count_visits_per_round,
)
from fleet.agent.wire.burst_checks import (
    check_counters,
    check_latency,
    check_sampling_of_hello,
    check_sampling_of_plan,
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
    Parameters,
    Run,
    Shape,
    View,
)

BurstName = tuple[str | int | None, ...]
"""Benchmark, variant, point, round, ping, pong, and the number of the attempt."""
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
OTHER_BYTES_PER_VISIT = 1 << 10
NOISE_LIMIT_LINES = 1000
NOTE_LIMIT = 1000
FAILED_LIMIT = 100_000
# of notes and failed bursts, which are kept in the run's record
WORDS_LIMIT_BYTES = 14 << 20
# of disturbed bursts, whose samples are kept in the run's record; of more, only why
SAMPLES_LIMIT_BYTES = 2 << 20
FAILED_BYTES = 500  # the most that a failed burst without samples has
_BYTE_ORDER_MARKS = b"\xef\xbb\xbf\xff\xfe"
NO_HELLO = "the agent sent no hello record"
# Times of two clocks differ by their rates, and by a host or controller that slept no
# longer than a link stays up.
CLOCK_SHARE = 0.1
CLOCK_SLACK_S = 30.0


class _OutputBytes:
    """Counts the bytes of an agent's output that the controller keeps, so that no agent
    fills its memory or disk.
    """

    def __init__(self) -> None:
        self._text_bytes = 0  # of notes, and of failed bursts without their samples
        self._sample_bytes = 0  # of disturbed bursts
        # of lines that are no visits, less those that the visits allow
        self._other_bytes = 0

    def count_line(self, line: bytes) -> None:
        """Count a line's bytes towards the limit of lines that are no visits; for a
        visit's, `exempt_visit_line` takes them back. Raises WireError beyond a limit.
        """
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

    def exempt_visit_line(self, length: int) -> None:
        """Take back the bytes that `count_line` counted of a visit's line, and allow
        OTHER_BYTES_PER_VISIT more: a long run may have more other lines.
        """
        allowed = length + OTHER_BYTES_PER_VISIT
        self._other_bytes = max(0, self._other_bytes - allowed)

    def count_text(self, length: int) -> None:
        """Count the bytes of a note, or of a failed burst without its samples. Raises
        WireError if there are too many.
        """
        self._text_bytes += min(length, 2 * TEXT_LIMIT)
        if self._text_bytes > WORDS_LIMIT_BYTES:
            raise WireError(
                f"more than {WORDS_LIMIT_BYTES} bytes of notes and failed bursts"
            )

    def count_samples(self, length: int) -> bool:
        """Count a failed burst with samples. Return whether its samples may be kept."""
        self._sample_bytes += length
        return self._sample_bytes <= SAMPLES_LIMIT_BYTES


class _Counts(NamedTuple):
    """How many records of visits a reader has read, of each kind."""

    bursts: int
    failed: int
    retaken: int  # of the failed ones: those that were taken again


class Reader:
    """Reads an agent's output in bounded memory: call `read_line` on each line, then
    `explain_unfinished`.

    A visit is what an agent does for one CPU pair at one planned point in one round. It
    is one record, a burst or a failed one. If other work disturbed it, it is taken
    again by further records, its attempts 1, 2, …
    """

    def __init__(
        self,
        done: Done | None = None,
        first_hello: Hello | None = None,
        run: Run | None = None,
        measure_elapsed_s: Callable[[], float] | None = None,
    ) -> None:
        """Begin to read an agent's output.

        done: the visits of the run's earlier agents, which this agent leaves out.
        first_hello: the first agent's hello. run: what the agent was asked to do.
        measure_elapsed_s: tells how long ago the agent was started, by our clock.
        """
        self.done = done or Done()
        self._first_hello = first_hello
        self._run = run
        self._measure_elapsed_s = measure_elapsed_s
        self.hello: Hello | None = None
        self.end: End | None = None
        self.bursts = 0
        self.failed: list[Failed] = []  # also those taken again
        self.retaken: list[BurstName] = []  # the failed bursts that were taken again
        self.notes: list[str] = []  # the agent's own, and lines of noise
        # the `alive` record that names the visit in progress; None between visits
        self.visit_line: bytes | None = None
        self._kept_bytes = _OutputBytes()
        self._noise_lines = 0
        self._ticks_of_bursts = 0.0  # how long the bursts so far took together
        self._round = 0  # the round of the last visit
        self._visits_of_earlier_agents = self.done.visits
        # the visits of this agent and of earlier ones in round 0, by planned point
        self._visits_of_round_0 = Counter(self.done.visits_of_round_0)
        self._visits_per_round: Mapping[PlannedPoint, int] = {}
        # The visits of the current round, by planned point and ping CPU. Their pong
        # CPUs are the bits of an integer: 1 << N stands for the hello's Nth CPU.
        self._pongs_of_round = defaultdict[tuple[PlannedPoint, int], int](int)
        self._index_by_cpu: dict[int, int] = {}  # in the hello's list of CPUs
        # how many bursts of a visit were disturbed so far; set to 0 by a later attempt
        # that was not
        self._disturbed_by_visit: dict[BurstName, int] = {}
        self._parameters_by_point: dict[PlannedPoint, Parameters] = {}

    def read_line(self, line: bytes) -> Record | None:
        """Decode the next line, adding a burst's flags; return None for noise, which
        another program printed. Raises WireError.
        """
        self._kept_bytes.count_line(line)
        if self.hello is None:
            return self._read_hello(line)
        noise, record_text = split_noise(line)
        if noise:
            self._skip_noise(noise, "among the agent's records")
        if not record_text:
            return None
        if self.end is not None and not record_text.startswith(b'{"record":"exit"'):
            raise WireError(f"a line after the end record: {quote_start(record_text)}")
        record = decode_record(record_text)
        self._add(record, self.hello, len(record_text))
        self._note_visit_in_progress(record, record_text)
        if isinstance(record, Burst):
            return add_flags_and_start(record, self.hello, self._first_hello)
        return record

    def _note_visit_in_progress(self, record: Record, text: bytes) -> None:
        """Keep the `alive` record that names a visit, until another record says how the
        visit ended.
        """
        if not isinstance(record, Alive):
            self.visit_line = None
        elif record.benchmark is not None:
            self.visit_line = text

    def _add(self, record: Record, hello: Hello, length: int) -> None:
        """Check a record that follows the hello and add it to what was read. length:
        the bytes of its text. Raises WireError.
        """
        match record:
            case Hello():
                raise WireError("a second hello record")
            case Burst() | Failed():
                self._check_visit(record, hello)
                self._count_visit(record, length)
                if self.visits > hello.bursts_max:
                    raise WireError(f"more bursts than the {hello.bursts_max} promised")
                # `read_line` counted its bytes as those of any line
                self._kept_bytes.exempt_visit_line(length)
            case Note():
                self._kept_bytes.count_text(length)
                self.notes.append(record.text)
                # the list also has a note for each line of noise
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
        """Return why the agent's output is not a finished run; None if it is one."""
        if self.hello is None:
            return NO_HELLO
        visits = self.visits
        if self.end is None:
            # `bursts` to `bursts_max` visits are promised: never say fewer than came
            minimum = max(self.hello.bursts, visits)
            promised = _format_at_least(minimum, self.hello.bursts_max)
            return f"cut after {visits} of {promised} bursts"
        why = self._explain_unfit_end(self.hello, self.end, visits)
        if why is not None:
            return why
        # an agent that gave something up makes fewer visits than are planned
        if self.end.reason != "done" or self.done.has_given_up:
            return None
        return self._explain_short_round_0() or self._explain_missing_rounds(self.hello)

    def _explain_unfit_end(self, hello: Hello, end: End, visits: int) -> str | None:
        """Return how the end record contradicts the hello or what arrived, or why the
        agent ended early; None if it fits. A hello promises a range of visits.
        """
        counts = self.get_counts()
        if (end.bursts, end.failed, end.again) != counts:
            return (
                f"the end record counts {end.bursts} bursts, {end.failed} failed ones"
                f" and {end.again} taken again, but {counts.bursts}, {counts.failed}"
                f" and {counts.retaken} arrived"
            )
        promised = _format_at_least(hello.bursts, hello.bursts_max)
        if end.reason != "done" and not end.out_of_time:
            return f"ended early ({end.reason}) after {visits} of {promised} bursts"
        if end.reason == "done" and not hello.bursts <= visits <= hello.bursts_max:
            return f"{promised} bursts were promised, {visits} arrived"
        return None

    def _explain_short_round_0(self) -> str | None:
        """Say which planned point lacks visits in round 0; return None if none does."""
        for point, planned in self._visits_per_round.items():
            arrived = self._visits_of_round_0[point]
            if arrived < planned:
                name = "/".join(_list_parts(point))  # such as cas/llsc
                return (
                    f"{arrived} of {planned} planned visits of {name} came in round 0"
                )
        return None

    def _explain_missing_rounds(self, hello: Hello) -> str | None:
        """Say how many visits came if fewer came than were planned, else return None.

        Each round makes the visits of round 0 again: as many visits are planned as
        round 0 had, times the rounds. A plan that names no rounds has at least one.
        """
        rounds_min = hello.raw["plan"].get("rounds") or 1
        planned = max(1, rounds_min * self._visits_of_round_0.total())
        arrived = self._visits_of_earlier_agents + self.visits
        if arrived < planned:
            return f"{arrived} visits came, and {planned} or more are planned"
        return None

    def _read_hello(self, line: bytes) -> Record | None:
        """Read a line before the hello record was read: return the hello, or None for
        noise. Raises WireError for a hello of another run, machine or plan.
        """
        hello = decode_hello(line)
        if hello is None:
            self._skip_noise(line, "before hello")
            return None
        self._check_continuation(hello)
        if self._run is not None:
            check_hello(self._run, hello)
        self.hello = hello
        self._visits_per_round = count_visits_per_round(self._run, hello)
        self._index_by_cpu = {cpu: index for index, cpu in enumerate(hello.cpus)}
        return hello

    def _check_continuation(self, hello: Hello) -> None:
        """Raise WireError unless the agent can continue what earlier agents measured:
        it must count their visits as done, run on the same host and have the same plan.
        """
        done = hello.raw.get("done") or 0
        if done != self.done.visits:
            raise WireError(
                f"the agent counts {done} visits as done, not {self.done.visits}"
            )
        if self._first_hello is None:
            return
        hello_ns = _get_monotonic_ns(hello)
        first_hello_ns = _get_monotonic_ns(self._first_hello)
        is_clock_known = hello_ns > 0
        if is_clock_known and hello_ns < first_hello_ns:
            raise WireError("the clock of this agent is behind that of the run's first")
        check_same_run(self._first_hello, hello)

    def _skip_noise(self, line: bytes, where: str) -> None:
        """Keep the start of another program's line as a note. Raises WireError if there
        are too many such lines. where: begins the note, such as "before hello".
        """
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

    def _check_visit(self, record: Burst | Failed, hello: Hello) -> None:
        """Raise WireError unless the plan and what was read before allow the record."""
        self._require_planned(record)
        if isinstance(record, Burst):
            self._check_burst(record, hello)
        if record.attempt == 0:
            self._follow_round(record.round)
            self._require_new(record)
        else:  # only a disturbed burst is taken again
            self._require_disturbed(record)

    def _count_visit(self, record: Burst | Failed, length: int) -> None:
        """Count a record that `_check_visit` allows. length: the record's bytes."""
        point = get_planned_point(record)
        if record.attempt == 0:
            pong_bit = self._get_pong_bit(record)
            self._pongs_of_round[point, record.ping_cpu] |= pong_bit
            if record.round == 0:
                self._visits_of_round_0[point] += 1
        else:
            disturbed_attempt = record.attempt - 1  # which this one replaces
            self.retaken.append(name_burst(record, disturbed_attempt))
        self._count_disturbed(record)
        if isinstance(record, Burst):
            self.bursts += 1
        else:
            self._keep_failed(record, length)

    @property
    def visits(self) -> int:
        """Return how many visits this agent made, each in one round."""
        return self.bursts + len(self.failed) - len(self.retaken)

    def get_counts(self) -> _Counts:
        """Return how many records of visits were read, of each kind."""
        return _Counts(self.bursts, len(self.failed), len(self.retaken))

    def undo_to(self, counts: _Counts) -> None:
        """Forget the records of visits read since `get_counts` returned these."""
        self.bursts = counts.bursts
        del self.failed[counts.failed :]
        del self.retaken[counts.retaken :]

    def _require_disturbed(self, record: Burst | Failed) -> None:
        """Raise WireError unless all earlier attempts at the record's visit, by any of
        the agents, were disturbed: attempt 2 follows two disturbed bursts.
        """
        visit = _name_visit(record)
        disturbed = self._disturbed_by_visit.get(visit)
        if disturbed is None:  # this agent has reported none
            disturbed = self.done.count_disturbed(record)
        if record.attempt != disturbed:
            raise WireError(
                f"attempt {record.attempt} of visit {visit} came where {disturbed} were"
                " disturbed"
            )

    def _count_disturbed(self, record: Burst | Failed) -> None:
        """Note how many bursts of the record's visit were disturbed so far. A visit
        that ended otherwise is not taken again.
        """
        visit = _name_visit(record)
        if isinstance(record, Failed) and record.disturbed:
            self._disturbed_by_visit[visit] = record.attempt + 1
        elif record.attempt:
            self._disturbed_by_visit[visit] = 0

    def _require_planned(self, record: Burst | Failed) -> None:
        """Raise WireError unless the hello plans the visit's point and has its CPUs."""
        point = get_planned_point(record)
        if point not in self._visits_per_round:
            name = quote_start("/".join(_list_parts(point)))
            raise WireError(f"{name} is not in the plan of the hello record")
        cpus = {record.ping_cpu, record.pong_cpu}
        if isinstance(record, Burst) and record.cpus:
            cpus.update(record.cpus)
        if not cpus <= self._index_by_cpu.keys():
            raise WireError(
                f"pair {record.ping_cpu},{record.pong_cpu} is not in the plan's CPUs"
            )

    def _require_new(self, record: Burst | Failed) -> None:
        """Raise WireError if the visit came before, from this agent or an earlier
        one.
        """
        point = get_planned_point(record)
        visited_pongs = self._pongs_of_round[point, record.ping_cpu]
        has_come_before = (visited_pongs & self._get_pong_bit(record)) != 0
        if has_come_before or self.done.has_visit(record):
            # such as ("cas", "llsc", 0, 3)
            name = (*_list_parts(point), record.ping_cpu, record.pong_cpu)
            raise WireError(f"visit {name} of round {record.round} came twice")

    def _get_pong_bit(self, record: Burst | Failed) -> int:
        return 1 << self._index_by_cpu[record.pong_cpu]

    def _keep_failed(self, record: Failed, length: int) -> None:
        """Keep a failed burst; drop its samples if those kept before have too many
        bytes. Raises WireError for too many failed bursts. length: the record's bytes.
        """
        # Samples count towards a limit of their own. What else the record then has
        # counts as FAILED_BYTES of text.
        text_length = length
        if record.ticks is not None:
            text_length = FAILED_BYTES
            may_keep_samples = self._kept_bytes.count_samples(length)
            if not may_keep_samples:
                record = _drop_samples(record)
        self._kept_bytes.count_text(text_length)
        self.failed.append(record)
        if len(self.failed) > FAILED_LIMIT:
            last = quote_start(record.reason)
            raise WireError(f"more than {FAILED_LIMIT} failed bursts; the last: {last}")

    def _follow_round(self, number: int) -> None:
        """Begin round `number` if the last visit was in an earlier round. Raises
        WireError if the last visit was in a later round, or no plan has such a round.
        """
        if number < self._round:
            raise WireError(f"round {number} after round {self._round}")
        if self._run is not None:
            # to reach a precision, an agent may add rounds to those of the plan
            rounds_max = max(ROUNDS_FOR_PRECISION, self._run.plan.rounds or 0)
            if number >= rounds_max:
                raise WireError(
                    f"round {number}, but a plan has at most {rounds_max} rounds"
                )
        if number > self._round:
            self._round = number
            # it has the visits of one round: the same visits may come in the next
            self._pongs_of_round.clear()

    def _check_burst(self, burst: Burst, hello: Hello) -> None:
        """Raise WireError if the burst contradicts its benchmark, the plan or the
        clocks.
        """
        benchmark = hello.get_benchmark_or_shipped(burst.benchmark)
        if why := benchmark.find_mismatch(burst):
            raise WireError(f"burst: {why}")
        check_sampling_of_hello(burst, hello)
        if self._run is not None:
            check_sampling_of_plan(burst, self._run.plan)
        self._check_time(burst, hello, benchmark.shape)
        if burst.parameters is not None:
            self._check_parameters(burst, burst.parameters)
        if benchmark.view in (View.MATRIX, View.CPUS):
            check_latency(burst, hello, benchmark.unit)
        if burst.counters is not None:
            check_counters(burst, burst.counters, len(hello.counters))

    def _check_parameters(self, burst: Burst, parameters: Parameters) -> None:
        """Raise WireError if the burst's point had other parameters before. Pages and
        state are known only after a burst, and may differ.
        """
        planned = replace(parameters, pages=None, state=None)
        point = get_planned_point(burst)
        before = self._parameters_by_point.setdefault(point, planned)
        if planned != before:
            raise WireError(
                f"burst: point {burst.point} has other parameters than before"
            )

    def _check_time(self, burst: Burst, hello: Hello, shape: Shape) -> None:
        """Raise WireError if the burst's times cannot be true.

        By the host's clock, the bursts before this burst cannot have taken longer than
        the time from the hello to its beginning. By our clock, it cannot have ended
        after now. Both times may be wrong by what `_add_clock_error` adds.
        """
        began_s = burst.start_offset_ns / 1e9
        earlier_bursts_s = self._ticks_of_bursts / hello.ticks_per_second
        if earlier_bursts_s > _add_clock_error(began_s):
            raise WireError(
                f"burst: {earlier_bursts_s:.0f} s of ticks came before it, but it began"
                f" {began_s:.0f} s after hello"
            )
        # sums the ticks of its samples, which follow one another: it took no less
        ticks = sum(burst.average_pair_ticks(shape))
        ended_s = began_s + ticks / hello.ticks_per_second
        if self._measure_elapsed_s is not None:
            elapsed_s = self._measure_elapsed_s()
            if ended_s > _add_clock_error(elapsed_s):
                raise WireError(
                    f"burst: it ended {ended_s:.0f} s after hello, but the agent was"
                    f" started {elapsed_s:.0f} s ago"
                )
        self._ticks_of_bursts += ticks


def _drop_samples(failed: Failed) -> Failed:
    return replace(
        failed, iterations=None, ticks=None, other_ticks=None, other_units=None
    )


def name_burst(record: Burst | Failed, attempt: int) -> BurstName:
    """Return what names the burst of one attempt at the record's visit."""
    cpus = (record.ping_cpu, record.pong_cpu)
    return (*get_planned_point(record), record.round, *cpus, attempt)


def _name_visit(record: Burst | Failed) -> BurstName:
    """Return what names the record's visit: the name of its first burst, which is
    attempt 0.
    """
    return name_burst(record, attempt=0)


def _list_parts(point: PlannedPoint) -> list[str]:
    """Return the benchmark, and the variant and the point where there are any."""
    return [part for part in point if part]


def _get_monotonic_ns(hello: Hello) -> int:
    """Return the host's clock at hello; 0 if unknown."""
    return hello.raw.get("monotonic_ns") or 0


def _add_clock_error(seconds: float) -> float:
    """Return the longest time that another clock may have shown meanwhile."""
    return (1 + CLOCK_SHARE) * seconds + CLOCK_SLACK_S


def _format_at_least(minimum: int, maximum: int) -> str:
    """Return "7" if both are 7, else "at least 7"."""
    if minimum == maximum:
        return str(minimum)
    return f"at least {minimum}"


def decode_hello(line: bytes) -> Hello | None:
    """Decode a hello record; return None for any other line, also for part of one.
    Raises WireError.
    """
    start = b'{"record":"hello"'
    if not line.lstrip().startswith(start):
        # UTF-16 has a null byte beside each ASCII character
        as_utf8 = line.replace(b"\0", b"").lstrip(_BYTE_ORDER_MARKS)
        if as_utf8.startswith(start):
            raise WireError(
                "the hello record is in UTF-16, or has a byte order mark; keep the"
                " output as it is"
            )
        return None
    is_whole = line.rstrip().endswith(b"}")
    if not is_whole:
        return None
    record = decode_record(line)
    return record if isinstance(record, Hello) else None


def add_flags_and_start(
    burst: Burst, hello: Hello, first_hello: Hello | None = None
) -> Burst:
    """Return the burst with its flags, and its start in ns since the run's first hello.
    hello: of the burst's agent. first_hello: of the first; None if that is `hello`.
    """
    hello_ns = _get_monotonic_ns(hello)
    first_hello_ns = _get_monotonic_ns(first_hello or hello)
    hello_after_first_ns = 0
    are_both_known = hello_ns > 0 and first_hello_ns > 0
    if are_both_known:
        hello_after_first_ns = hello_ns - first_hello_ns
    flags = derive_burst_flags(burst, hello)
    if not flags and not hello_after_first_ns:
        return burst
    start_ns = burst.start_offset_ns + hello_after_first_ns
    return replace(burst, flags=flags, start_offset_ns=start_ns)


def check_same_run(first: Hello | None, other: Hello) -> None:
    """Raise WireError if two agents, by their hellos, cannot have measured one run."""
    if first is None:
        return
    for name in _SAME_IN_HELLOS:
        if first.raw.get(name) != other.raw.get(name):
            raise WireError(f"an agent with another {name} cannot continue this run")
    rate = other.ticks_per_second
    first_rate = first.ticks_per_second
    difference_ppm = abs(rate / first_rate - 1) * 1e6
    if difference_ppm > RATE_PPM:
        raise WireError(
            f"the clock ticks {rate} times a second now, {first_rate} before"
        )

"""Decodes a line of the agent's output (docs/wire.md): a record that tables can take,
or WireError. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median, median_low
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from fleet.model import (
    Benchmark,
    Burst,
    End,
    Estimator,
    Failed,
    Hello,
    Note,
    Parameters,
)
from fleet.model.benchmark import NAME, find_description_problem
from fleet.plan.cpulist import MAX_CPU
from fleet.store.gate import EXACT_MAX, INT64_MAX, measure_depth
from fleet.store.schema import largest_int
from fleet.text import describe_msgspec_error, raise_own_bug

PROTOCOL = 1
PREFIX = "fleet-agent: "  # of the agent's messages on stderr
REFUSED = (2, 3, 4, 5)  # its exit codes for a plan that cannot be carried out there
Int64 = Annotated[int, Meta(ge=0, le=INT64_MAX)]
TEXT_LIMIT = 1000  # characters of a note or reason that are kept
CPU_LIMIT = 4096
COUNTER_LIMIT = 64
CHOICE_LIMIT = 32  # benchmarks and variants of one plan
POINT_LIMIT = 4096  # points of one benchmark and variant
DEPTH_LIMIT = 8  # of what is nested in a hello
ATTEMPT_LIMIT = 0xFFFF  # of a burst that is taken again, as in agent/run/done.c
# Limits beyond which a burst is flagged (docs/flags.md).
COARSE_QUANTA = 100  # clock quanta of the longest sample, fewer: coarse_clock
BUSY_PPM = 900_000  # share of time that each thread ran, less: busy_cpu
# longest sample of an interrupted burst over its median: preempted
PREEMPTED_RATIO = 1.25
# difference of the core's frequency before and after: frequency_moved
FREQUENCY_SHARE = 0.03
SKEW_SHARE = 0.1  # of a sample, between the threads' first samples: skewed
UNEVEN_SHARE = 0.1  # difference of a load's rate between samples: uneven


_S = TypeVar("_S")


class WireError(ValueError):
    """A line that docs/wire.md does not allow. The message says what is wrong, not
    which host sent it.
    """


def split_noise(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into (noise, record). The noise is what another process printed
    before the record, without a newline. Either part may be empty.
    """
    # A line that begins like JSON is no noise: if it is a damaged record, decoding it
    # has to fail.
    if line.lstrip().startswith(b"{"):
        return b"", line
    start = line.find(b'{"record":"')
    if start < 0:
        return line, b""
    return line[:start], line[start:]


def decode_line(decoder: msgspec.json.Decoder[_S], line: bytes) -> _S:
    """Decode a line. Raises WireError that names the wrong key and quotes the start of
    the line.
    """
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as err:
        raise WireError(f"{describe_msgspec_error(err)}: {quote_start(line)}") from err
    except RecursionError as err:
        raise_own_bug(err)  # if the line is not to blame, but our own code
        raise WireError(f"not a JSON record: {quote_start(line)}") from err
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise WireError(f"not a JSON record: {quote_start(line)}") from err


def quote_start(output: bytes | str) -> str:
    """Return the start of a host's output, safe to print: escaped, at most 120
    characters.
    """
    start = output[:200]
    if isinstance(start, bytes):
        start = start.decode("utf-8", "replace")
    escaped = ascii(start)
    if len(escaped) <= 120:
        return escaped
    return escaped[:117] + "..."


def int_range(
    column: str, table: str = "samples", *, least: int = 0, most: int = EXACT_MAX
) -> Meta:
    """Return the range of a field's values: `least` to `most`, or to the largest
    integer that its column in the table holds, if that is less.
    """
    return Meta(ge=least, le=min(largest_int(table, column), most))


Int32 = Annotated[int, int_range("round")]
Count = Annotated[int, int_range("iterations")]
Ran = Annotated[int, int_range("ping_ran_ppm")]
Share = Annotated[int, int_range("ping_steal_ppm", most=1_000_000)]  # in millionths
Threads = Annotated[int, int_range("threads", least=1)]
CoreMhz = Annotated[int, Meta(ge=1, le=1_000_000)]
Word = Annotated[str, Meta(max_length=47)]
BenchmarkName = Annotated[str, Meta(pattern=rf"^{NAME}\Z")]  # as `-b` takes it
Text = Annotated[str, Meta(max_length=TEXT_LIMIT)]
# it becomes a word in the list of done visits
PointName = Annotated[str, Meta(pattern=r"^[!-~]{1,47}\Z")]
CpuNumber = Annotated[int, Meta(ge=0, le=MAX_CPU)]
Attempt = Annotated[int, Meta(ge=0, le=ATTEMPT_LIMIT)]


class Alive(Struct, tag_field="record", tag="alive"):
    """The agent is working. benchmark: set if the record names the visit that has
    begun.
    """

    benchmark: str | None = None


# Keys, types and ranges: a struct per record. Its fields are in the order of those of
# the class in `model`, so that `_make_...` may pass them on by position.
class _Parameters(Struct):
    bytes: Annotated[int, int_range("bytes", least=1)] | None = None
    stride_bytes: Annotated[int, int_range("stride_bytes", least=1)] | None = None
    block_bytes: Annotated[int, int_range("block_bytes", least=1)] | None = None
    operation: Word | None = None
    state: Word | None = None
    order: Word | None = None
    sharing: Word | None = None
    pages: Word | None = None
    load_mbps: Annotated[int, int_range("load_mbps")] | None = None
    load_bytes: Annotated[int, int_range("load_bytes", least=1)] | None = None
    load_variant: Word | None = None
    memory_node: Annotated[int, int_range("memory_node")] | None = None
    load_node: Annotated[int, int_range("load_node")] | None = None
    threads: Threads | None = None


class _Visit(Struct, tag_field="record"):
    benchmark: Word
    variant: Word
    round: Int32
    ping: CpuNumber
    pong: CpuNumber


class _Burst(_Visit, tag="burst"):
    iterations: Annotated[int, int_range("iterations", least=1)]
    warmup: Int32
    ticks: tuple[Count, ...]
    start_ns: Count
    ping_cpus: tuple[Int64, Int64]
    pong_cpus: tuple[Int64, Int64]
    switches: tuple[Int64, Int64, Int64, Int64] | None = None
    line_page: Int64 | None = None
    line_offset: Annotated[int, int_range("line_offset")] | None = None
    line_node: Annotated[int, int_range("line_node")] | None = None
    line_physical: Int64 | None = None
    ran_ppm: tuple[Ran, Ran] | None = None
    steal_ppm: tuple[Share, Share] | None = None
    point: PointName | None = None
    unit: Word | None = None
    parameters: _Parameters | None = None
    cpus: (
        Annotated[tuple[CpuNumber, ...], Meta(min_length=1, max_length=CPU_LIMIT)]
        | None
    ) = None
    other_ticks: tuple[tuple[Count, ...], ...] | None = None
    other_units: tuple[tuple[Count, ...], ...] | None = None
    core_mhz: tuple[CoreMhz, CoreMhz] | None = None
    sample_mhz: CoreMhz | None = None
    checked: bool | None = None
    begin_ns: tuple[Count, ...] | None = None
    counters: tuple[tuple[tuple[Count, Count, Count] | None, ...], ...] | None = None
    attempt: Attempt = 0


class _Failed(_Visit, tag="failed"):
    reason: str
    point: PointName | None = None
    parameters: _Parameters | None = None
    given_up: Literal["memory", "variant", "point"] | None = None
    attempt: Attempt = 0
    disturbed: bool = False
    iterations: Annotated[int, int_range("iterations", least=1)] | None = None
    ticks: tuple[Count, ...] | None = None
    other_ticks: tuple[tuple[Count, ...], ...] | None = None
    other_units: tuple[tuple[Count, ...], ...] | None = None


class _Note(Struct, tag_field="record", tag="note"):
    text: str


class _End(Struct, tag_field="record", tag="end"):
    bursts: Int64
    failed: Int64
    reason: str
    converged: Int64 | None = None
    unconverged: Int64 | None = None
    reached_ppm: Int64 | None = None
    again: Int64 = 0


class _Version(Struct, tag_field="record", tag="hello"):
    """The only field that the hello of every protocol version has."""

    protocol: Int32 = 0


class _Choice(Struct):
    benchmark: BenchmarkName
    variant: Word
    points: (
        Annotated[list[PointName], Meta(min_length=1, max_length=POINT_LIMIT)] | None
    ) = None
    samples: Annotated[int, int_range("warmup", least=1)] | None = None


class _Plan(Struct):
    benchmarks: Annotated[list[_Choice], Meta(max_length=CHOICE_LIMIT)]
    samples: Int32 | None = None
    warmup: Int32 | None = None
    iterations: Int64 | None = None
    rounds: Annotated[int, int_range("round", least=1)] | None = None
    pairs: Word | None = None
    precision_ppm: Int64 | None = None
    preset: Word | None = None
    estimator: Estimator | None = None


class _Counter(Struct):
    event: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,47}\Z")]


class _Hello(Struct):
    build: Text
    os: Word
    arch: Word
    clock: Word
    ticks_per_second: Annotated[int, int_range("ticks_per_second", "runs", least=1)]
    pairs: Int64
    bursts: Int64
    cpus: Annotated[tuple[CpuNumber, ...], Meta(max_length=CPU_LIMIT)]
    plan: _Plan
    bursts_max: Int64 | None = None
    clock_cost_ticks: Count | None = None
    clock_quantum_ticks: Count | None = None
    done: Int64 | None = None
    monotonic_ns: Annotated[int, Meta(ge=0, le=INT64_MAX // 2)] | None = None
    compiler: Text | None = None
    cflags: Text | None = None
    counters: Annotated[tuple[_Counter, ...], Meta(max_length=COUNTER_LIMIT)] = ()
    benchmarks: Annotated[tuple[Benchmark, ...], Meta(max_length=CHOICE_LIMIT)] = ()


class Exit(Struct, tag_field="record", tag="exit"):
    """The agent's exit code, in a line that the controller adds if the code contradicts
    the `end` record.
    """

    code: int


_Wire = _Burst | _Failed | _Note | Alive | _End | Exit | _Version
Record = Hello | Burst | Failed | Note | Alive | End | Exit
# benchmark, variant and point, if it has points
PlannedPoint = tuple[str, str, str | None]
_RECORD: msgspec.json.Decoder[_Wire] = msgspec.json.Decoder(_Wire)
_HELLO = msgspec.json.Decoder(_Hello)
_ANY: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


def decode_record(line: bytes) -> Record:
    """Decode a line; check its keys, types and ranges. Raises WireError. Whether the
    record agrees with the lines before it is then checked by `Reader`.
    """
    match decode_line(_RECORD, line):
        case _Burst() as burst:
            return _make_burst(burst)
        case _Failed() as failed:
            return _make_failed(failed)
        case _Note(text):
            return Note(_shorten(text))
        case _End() as end:
            return _make_end(end)
        case _Version() as version:
            return _make_hello(version, line)
        case (Alive() | Exit()) as record:
            return record


def _make_failed(wire: _Failed) -> Failed:
    """Convert a failed burst's record. Its texts are cut if they are too long."""
    # both classes have the same fields in the same order
    failed = Failed(*msgspec.structs.astuple(wire))
    return replace(
        failed,
        reason=_shorten(wire.reason),
        parameters=_make_parameters(wire.parameters),
    )


def _make_end(wire: _End) -> End:
    """Convert the end record. Its reason is cut if it is too long."""
    return End(
        bursts=wire.bursts,
        failed=wire.failed,
        reason=_shorten(wire.reason),
        converged=wire.converged,
        unconverged=wire.unconverged,
        reached=_convert_ppm(wire.reached_ppm),
        again=wire.again,
    )


def _convert_ppm(ppm: int | None) -> float | None:
    """Return millionths as a share: 20_000 -> 0.02. None if unknown."""
    return None if ppm is None else ppm / 1e6


def _make_burst(wire: _Burst) -> Burst:
    """Check a burst's record and convert it. Raises WireError.

    A burst of a benchmark without points may have none of the fields that only bursts
    at points have.
    """
    _check_samples(wire)
    _check_cpus(wire)
    # both classes have the same fields in the same order
    burst = Burst(*msgspec.structs.astuple(wire))
    if wire.point is None:
        _require_no_point(wire)
        return burst
    _check_threads(wire)
    return replace(burst, parameters=_make_parameters(wire.parameters))


def _check_cpus(wire: _Burst) -> None:
    """Raise WireError unless both threads began and ended on their own CPUs."""
    if set(wire.ping_cpus) != {wire.ping} or set(wire.pong_cpus) != {wire.pong}:
        raise WireError(
            f"burst: asked for CPUs {wire.ping},{wire.pong} but ran on"
            f" {wire.ping_cpus} and {wire.pong_cpus}"
        )


_FIELDS_OF_POINTS = ("unit", "parameters", "cpus", "other_ticks", "other_units")


def _require_no_point(wire: _Burst) -> None:
    """Raise WireError if a burst has a field that only bursts at a point have."""
    if any(getattr(wire, name) is not None for name in _FIELDS_OF_POINTS):
        names = ", ".join(_FIELDS_OF_POINTS)
        raise WireError(f"burst: without a point it has no {names}")


def _check_samples(wire: _Burst) -> None:
    """Raise WireError if a burst has only warm-ups, if most of its samples took no
    time, or if the iterations of all its samples and threads together are more than an
    int64 holds.
    """
    if len(wire.ticks) <= wire.warmup:
        raise WireError(
            f"burst: {len(wire.ticks)} samples of which {wire.warmup} are warm-ups"
            " leave none"
        )
    samples = wire.ticks[wire.warmup :]
    if 2 * samples.count(0) > len(samples):
        raise WireError("burst: most samples took no time")
    threads = len(wire.cpus or (wire.ping, wire.pong))
    if wire.iterations * len(wire.ticks) * threads > INT64_MAX:
        raise WireError(
            f"burst: {len(wire.ticks)} samples of {wire.iterations} iterations are too"
            " many"
        )


def _check_threads(wire: _Burst) -> None:
    """Raise WireError if the lists of a point's burst do not fit its threads. Each
    thread has a CPU of its own. `cpus` has first the CPU of ping, then the CPUs of the
    load threads, last the CPU of pong.
    """
    cpus = wire.cpus
    if not cpus:
        # there are no load threads; ping and pong may be one thread, on one CPU
        cpus = (wire.ping,) if wire.ping == wire.pong else (wire.ping, wire.pong)
    others = wire.other_ticks or ()
    if wire.unit is None or cpus[0] != wire.ping or cpus[-1] != wire.pong:
        raise WireError(
            f"burst: point {wire.point} needs a unit, and cpus from {wire.ping} to"
            f" {wire.pong}"
        )
    _check_lists(wire, cpus, "other_ticks", others)
    _check_lists(wire, cpus, "other_units", wire.other_units or ())
    # `begin_ns` has a time for ping and for each thread in `other_ticks`
    threads = 1 + len(others)
    if wire.begin_ns is not None and len(wire.begin_ns) != threads:
        raise WireError(
            f"burst: {len(wire.begin_ns)} values of begin_ns for {threads} threads"
        )


def _check_lists(
    wire: _Burst, cpus: Sequence[int], name: str, lists: Sequence[Sequence[int]]
) -> None:
    """Raise WireError unless each of `lists` has a value for each sample. There must be
    a list for each CPU but ping's, or no list at all. No CPU may be in `cpus` twice.
    name: the field that has the lists.
    """
    is_cpu_twice = len(set(cpus)) < len(cpus)
    other_cpus = len(cpus) - 1
    if is_cpu_twice or len(lists) not in (0, other_cpus):
        raise WireError(
            f"burst: {len(cpus)} CPUs, each once, do not have {len(lists)} lists of"
            f" {name}"
        )
    if any(len(values) != len(wire.ticks) for values in lists):
        raise WireError(
            f"burst: {name} must be lists of {len(wire.ticks)} samples, as ticks is"
        )


def _make_parameters(wire: _Parameters | None) -> Parameters | None:
    if wire is None:
        return None
    return Parameters(*msgspec.structs.astuple(wire))


def _make_hello(version: _Version, line: bytes) -> Hello:
    """Decode and check a hello's line. version: the line's protocol, decoded first as
    the other fields depend on it. Raises WireError.
    """
    if version.protocol != PROTOCOL:
        raise WireError(
            f"wire protocol {version.protocol}; this fleet speaks {PROTOCOL}"
        )
    wire = decode_line(_HELLO, line)
    raw = decode_line(_ANY, line)
    _check_hello(wire, raw)
    return Hello(
        build=wire.build,
        os=wire.os,
        arch=wire.arch,
        clock=wire.clock,
        ticks_per_second=wire.ticks_per_second,
        pairs=wire.pairs,
        bursts=wire.bursts,
        cpus=wire.cpus,
        raw=raw,
        bursts_max=wire.bursts_max or 0,
        precision=_convert_ppm(wire.plan.precision_ppm),
        preset=wire.plan.preset,
        estimator=wire.plan.estimator or Estimator.MEDIAN,
        counters=tuple(counter.event for counter in wire.counters),
        benchmarks={benchmark.name: benchmark for benchmark in wire.benchmarks},
    )


def _check_hello(wire: _Hello, raw: Mapping[str, Any]) -> None:
    """Raise WireError if values of a hello contradict each other, or nest too deep."""
    if wire.bursts_max is not None and wire.bursts_max < wire.bursts:
        raise WireError(
            f"hello: bursts_max {wire.bursts_max} is less than bursts {wire.bursts}"
        )
    if len(set(wire.cpus)) < len(wire.cpus):
        raise WireError(f"hello: {len(wire.cpus)} CPUs; each must be listed once")
    if measure_depth(raw, DEPTH_LIMIT) > DEPTH_LIMIT:
        raise WireError(f"hello: more than {DEPTH_LIMIT} levels of objects and lists")
    if why := find_description_problem(wire.benchmarks):
        raise WireError(f"hello: {why}")


def list_planned_points(hello: Hello) -> list[PlannedPoint]:
    """List the benchmarks, variants and points of a hello's plan. The point is None for
    a benchmark without points.
    """
    planned_points = list[PlannedPoint]()
    for choice in hello.raw["plan"]["benchmarks"]:
        for point in choice.get("points") or (None,):
            planned_points.append((choice["benchmark"], choice["variant"], point))
    return planned_points


def _shorten(text: str) -> str:
    if len(text) <= TEXT_LIMIT:
        return text
    return text[: TEXT_LIMIT - 3] + "..."


def derive_burst_flags(burst: Burst, hello: Hello) -> tuple[str, ...]:
    """Return the names of the flags that follow from the burst and from its run's
    clock, not from other bursts (docs/flags.md).
    """
    # the smallest step of the clock, which counts as one tick if unknown
    quantum = hello.raw.get("clock_quantum_ticks") or 1
    flags = {
        "preempted": _is_preempted(burst),
        "busy_cpu": burst.ran_ppm is not None and min(burst.ran_ppm) < BUSY_PPM,
        "coarse_clock": max(burst.ticks) < COARSE_QUANTA * quantum,
        "frequency_moved": _has_frequency_moved(burst),
        "skewed": _is_skewed(burst, hello),
        "uneven": _has_uneven_load_rate(burst),
    }
    return tuple(name for name, is_set in flags.items() if is_set)


_SampleT = TypeVar("_SampleT")


def _drop_warmup(burst: Burst, samples: Sequence[_SampleT]) -> Sequence[_SampleT]:
    """Return a burst's samples without its warm-ups, unless there are only these."""
    return samples[burst.warmup :] or samples


def _is_preempted(burst: Burst) -> bool:
    """Report whether a thread was interrupted and a sample took long for it."""
    if burst.switches is None:
        return False
    # context switches of ping's thread, voluntary and involuntary, then of pong's
    _, ping_involuntary, _, pong_involuntary = burst.switches
    if not ping_involuntary and not pong_involuntary:
        return False
    ticks = _drop_warmup(burst, burst.ticks)
    return max(ticks) >= PREEMPTED_RATIO * median_low(ticks)


def _has_frequency_moved(burst: Burst) -> bool:
    mhz = burst.core_mhz
    return mhz is not None and max(mhz) > (1 + FREQUENCY_SHARE) * min(mhz)


def _is_skewed(burst: Burst, hello: Hello) -> bool:
    """Report whether the threads began their first samples at different times."""
    if burst.begin_ns is None:
        return False
    median_ticks = median(_drop_warmup(burst, burst.ticks))
    median_ns = median_ticks * 1e9 / hello.ticks_per_second
    return max(burst.begin_ns) > SKEW_SHARE * median_ns


def _has_uneven_load_rate(burst: Burst) -> bool:
    """Report whether the load threads, taken together, moved bytes at different rates
    in different samples.
    """
    if burst.other_units is None or burst.parameters is None:
        return False
    if not burst.parameters.load_bytes:
        return False
    # a row for each sample: ping's ticks, then the bytes that each load thread moved
    # meanwhile
    samples = [*zip(burst.ticks, *burst.other_units, strict=True)]
    # of each sample: the bytes that all load threads moved in a tick
    rates = [
        sum(units) / max(ticks, 1) for ticks, *units in _drop_warmup(burst, samples)
    ]
    return bool(max(rates) > (1 + UNEVEN_SHARE) * min(rates))

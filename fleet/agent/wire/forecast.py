"""What an agent is told of another machine, and the forecast it answers with (docs/wire.md). Pure."""

from collections.abc import Collection, Iterator, Sequence

import msgspec
from msgspec import Struct

from fleet.agent.wire.line import PROTOCOL, Int64, WireError, decode_line, quote_start, split_noise
from fleet.model import SHIPPED, Cache, Cpu, Facts, Node
from fleet.plan.forecast import Duration, Forecast

# The agent's names of features that Linux calls otherwise.
_FLAGS = {"avx512f": "avx512", "atomics": "lse", "asimd": "neon", "lamcas": "lam_cas"}
# Where an OS forbids user code to flush lines, which its architecture allows, points need more memory.
_BY_ARCH = {"flush": ("x86_64", "i386", "aarch64", "ppc64le", "riscv64"), "zva": ("aarch64",)}
_TABLE_ENTRY = 8  # bytes: a huge page has as many base pages as a page of the page table has entries


class _OnNode(Struct):
    node: Int64
    bytes: Int64


class _OfBenchmark(Struct):
    benchmark: str
    ms: Int64


class _Forecast(Struct, tag_field="record", tag="forecast"):
    protocol: Int64
    cpus: Int64
    pairs: Int64
    points: Int64
    visits: Int64
    rounds: Int64
    bursts: Int64
    bytes: Int64
    ms: Int64
    ms_max: Int64
    ms_first: Int64
    deadline_s: Int64
    left_out: str | None
    nodes: tuple[_OnNode, ...] = ()
    load_mbps: Int64 = 0
    benchmarks: tuple[_OfBenchmark, ...] = ()


def read_forecast(output: bytes, benchmarks: Collection[str]) -> Forecast:
    """Read the record, of a plan of these benchmarks; skip what others wrote before it. Raises WireError."""
    records = (record for _, record in map(split_noise, output.splitlines()))
    lines = [record for record in records if record.startswith(b'{"record":"forecast"')]
    if len(lines) != 1:
        raise WireError(f"a record `forecast` expected, got {quote_start(output)}")
    record = decode_line(msgspec.json.Decoder(_Forecast), lines[0])
    if record.protocol != PROTOCOL or not (record.left_out or "").isprintable():
        raise WireError(f"a record `forecast` of protocol {PROTOCOL} expected, got {quote_start(lines[0])}")
    if others := sorted({item.benchmark for item in record.benchmarks} - {*benchmarks}):
        what = quote_start(", ".join(others))
        raise WireError(f"a forecast of {what}, and was asked for {', '.join(benchmarks)}")
    nodes = {item.node: item.bytes for item in record.nodes}
    values = msgspec.structs.asdict(record) | {"left_out": record.left_out or "", "nodes": nodes}
    lasts = Duration(*(values.pop(name) / 1000 for name in ("ms", "ms_max", "ms_first")))
    costs = values.pop("benchmarks")
    load_s = sum(item.ms for item in costs if SHIPPED[item.benchmark].other_unit == "byte") / 1000
    share = load_s * 1000 / max(sum(item.ms for item in costs), 1)
    load = Duration(load_s, max(load_s, share * lasts.most_s))
    del values["protocol"]
    return Forecast(duration=lasts, load=load, **values)


def render_machine(facts: Facts, named: Collection[int] = ()) -> str:
    """The text of --facts: of a host what planning reads. named: CPUs of --cpus, which need no affinity."""
    return "".join(f"{line}\n" for line in (*_machine_line_words(facts, named), "end"))


def _machine_line_words(facts: Facts, named: Collection[int]) -> Iterator[str]:
    page = facts.page_bytes or 4096
    if facts.arch:
        yield f"arch {facts.arch}"
    by_arch = [name for name, arches in _BY_ARCH.items() if facts.arch in arches]
    yield " ".join(["features", *(_FLAGS.get(flag, flag) for flag in facts.cpu_flags), *by_arch])
    yield f"page_bytes {page}"
    if facts.huge_pages not in (None, "never"):
        yield f"huge_page_bytes {page * page // _TABLE_ENTRY}"
    if facts.memory_available_bytes is not None:
        yield f"memory_bytes {facts.memory_available_bytes}"
    if facts.memory_limit is not None:
        yield f"memory_limit {facts.memory_limit}"
    if facts.cpu_quota is not None:
        yield f"cpu_limit {facts.cpu_quota} {facts.cpu_limit}"
    for node in facts.nodes:
        yield _join_words("node", node.node, node.free_bytes, 1 if node.allowed else None)
    for cpu in facts.cpus:
        if cpu.online and (cpu.allowed or cpu.cpu in named):
            yield _join_words(
                "cpu", cpu.cpu, cpu.core, cpu.cluster, cpu.die, cpu.package, cpu.node, cpu.capacity
            )
            for cache in cpu.caches:
                group = min(cache.shared_cpus, default=None)
                yield _join_words("cache", cache.level, cache.kind, cache.size_bytes, cache.line_bytes, group)


def _join_words(*words: str | int | None) -> str:
    return " ".join(["-" if word is None else str(word) for word in words])


def typical_machine(cpus: Sequence[int]) -> Facts:
    """A machine that nobody has looked at: caches of 48 KiB and 2 MiB a core, and 32 MiB for all."""
    last = Cache(3, "Unified", 32 << 20, 64, (0,))
    own = ((1, 48 << 10), (2, 2 << 20))

    def cpu(number: int) -> Cpu:
        caches = (*(Cache(level, "Unified", size, 64, (number,)) for level, size in own), last)
        return Cpu(number, core=number, package=0, node=0, caches=caches)

    return Facts("", "", huge_pages="madvise", nodes=(Node(0),), cpus=tuple(map(cpu, cpus)))

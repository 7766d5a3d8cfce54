"""The memory of a plan's points on a machine, known before anything is measured; of ladders also their time.

The agent chooses them the same way (agent/points.c, bench_bandwidth.c, bench_fetch.c, gemm_points.c,
plan_groups.c); it measures what it chose, so a difference makes a forecast wrong and nothing else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from fleet.errors import UsageError
from fleet.model import Cache, Cpu, Facts, Host, Plan, Relation, benchmark_named
from fleet.plan.kinds import sizes_read
from fleet.plan.options import EffectiveOptions, effective, few_pairs

K, M = 1 << 10, 1 << 20
_STEP = 4 * K  # sizes are multiples of it
_CHASE_MOST, _BANDWIDTH_LEAST, _BANDWIDTH_MOST = 512 * M, 64 * M, 1024 * M
_PARTS = (0.25, 0.5, 0.75, 2, 4)  # of each cache
_ORDERS = 3  # of a chase
_FETCHED, _WRITTEN, _MESSAGES = (
    128 * K,
    512 * K,
    64 * K,
)  # of a pair in fetch, interleave and message (at least)
_SECOND_USUAL, _LAST_USUAL, _WALK_MOST = M, 32 * M, 512 * M  # of fetch, which drives lines out of caches
_SECOND_TIMES, _LAST_TIMES = 4, 2
_STREAM_LEAST, _STREAM_MOST = 16 * M, 256 * M  # of gemm
_SIDE_USUAL, _TILE, _VALUE = 256, 48, 4  # of gemm: rows, and at most so many at once, of so many bytes each
_FLUSHING = (
    "x86_64",
    "i386",
    "aarch64",
    "ppc64le",
    "riscv64",
)  # architectures; where the OS forbids it, the agent needs more
MOST_SHARE = 0.5  # of the memory available
# Of a host that is not known yet: two levels of a core, and one for all.
_USUAL = tuple(
    Cache(level, "Unified", size, 64, ()) for level, size in ((1, 48 * K), (2, 2 * M), (3, 32 * M))
)
# Seconds of a burst, and more for each byte that its threads work on, and for each that is written once a
# round (as in agent/budget.c; of a virtual machine with 2 CPUs).
_CHASE_S, _CHASE_BYTE_S = 0.014, 1.0e-9
_BANDWIDTH_S, _BANDWIDTH_BYTE_S = 0.002, 4.0e-10
WRITTEN_BYTE_S = 1.5e-9


class Spared(IntEnum):
    """Which points of ladders a short time budget leaves out, and in which order."""

    NEVER = 0
    FIRST = 1  # of no level of memory
    MEMORY = 2  # outside all caches


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a round to a point. bytes: of each thread; cpus: those with memory of their own."""

    bytes: int
    cpus: tuple[int, ...]
    seconds: float
    spared: Spared = Spared.NEVER


def visits(name: str, plan: Plan, cpus: Sequence[Cpu]) -> list[Visit]:
    """What a round of `chase` or `bandwidth` visits on these CPUs, those of the plan."""
    options = effective(plan)
    found = _chases if name == "chase" else _bandwidths
    return list(found(options, cpus, each=plan.cpus is not None)) if cpus else []


def needed(plan: Plan, cpus: Sequence[Cpu], *, flushes: bool = True) -> int:
    """Bytes that the points of a plan take at once: of each CPU and kind of pages the most of any point.

    flushes: user code can flush lines, so that no caches are filled to drive lines out.
    """
    most: dict[tuple[int, str], int] = {}
    for name in plan.benchmarks:
        for part, visit in _taken(name, plan, cpus, flushes=flushes):
            pages = plan.pages or ("huge" if part in ("chase", "bandwidth", "gemm", "walk") else "base")
            for cpu in visit.cpus:
                most[cpu, pages] = max(most.get((cpu, pages), 0), visit.bytes)
    return sum(most.values())


def _taken(name: str, plan: Plan, cpus: Sequence[Cpu], *, flushes: bool) -> Iterator[tuple[str, Visit]]:
    """The memory of a benchmark's points; `walk` is what fetch reads to drive lines out of caches."""
    if not cpus:
        return
    match name:
        case "chase" | "bandwidth":
            yield from ((name, visit) for visit in visits(name, plan, cpus))
        case "gemm":
            yield from ((name, visit) for visit in _products(plan, cpus))
        case "fetch":
            paired = _paired(name, plan, cpus)
            yield name, Visit(_FETCHED, paired, 0.0)
            yield "walk", Visit(_walked(plan, cpus[0], flushes=flushes), paired, 0.0)
        case "interleave":
            yield name, Visit(_WRITTEN, _paired(name, plan, cpus), 0.0)
        case "message":
            lines = max(effective(plan).message_lines)
            yield name, Visit(_MESSAGES * lines, _paired(name, plan, cpus), 0.0)


def _paired(name: str, plan: Plan, cpus: Sequence[Cpu]) -> tuple[int, ...]:
    """The CPUs of a benchmark's pairs, as many as there may be where pairs are not chosen yet."""
    choice = (few_pairs(plan) if benchmark_named(name).many_points else None) or effective(plan).pairs
    if choice.listed:
        return tuple({cpu for pair in choice.listed for cpu in pair})
    numbers = tuple(cpu.cpu for cpu in cpus)
    return numbers[: 2 * choice.per_relation * len(Relation)] if choice.per_relation else numbers


def _walked(plan: Plan, cpu: Cpu, *, flushes: bool) -> int:
    """Bytes that each CPU reads to drive lines out of its second cache, or without a flush of its last."""
    states = plan.states or ("evicted", "memory")
    caches = {cache.level: cache.size_bytes for cache in cpu.caches if cache.kind != "Instruction"}
    second, last = caches.get(2) or _SECOND_USUAL, (_caches(cpu) or (_LAST_USUAL,))[-1]
    if not flushes and "memory" in states:
        return min(max(_LAST_TIMES * last, _SECOND_TIMES * second), _WALK_MOST)
    walks = "evicted" in states or (not flushes and {"clean", "both", "third"} & {*states})
    return min(_SECOND_TIMES * second, _WALK_MOST) if walks else 0


def _products(plan: Plan, cpus: Sequence[Cpu]) -> Iterator[Visit]:
    """What gemm keeps of each thread, at most: its matrices, the second of them many times."""
    options = effective(plan)
    sides = [_SIDE_USUAL] * 3 if options.shape == "auto" else [int(word) for word in options.shape.split("x")]
    m, n, k = (-(-side // _TILE) * _TILE for side in sides)
    last = (_caches(cpus[0]) or (_STREAM_MOST,))[-1]
    auto = min(max(4 * last, _STREAM_LEAST), _STREAM_MOST)
    stream = auto if options.sizes == "auto" else max(sizes_read(options.sizes))
    size = _VALUE * (m * n + m * k) + max(stream, 2 * _VALUE * (n * k + m * k))
    for word in options.threads:
        for group in _groups(word, cpus, each=plan.cpus is not None):
            yield Visit(size, tuple(cpu.cpu for cpu in group), 0.0)


def check_memory(host: Host, plan: Plan, facts: Facts) -> None:
    """Raise UsageError where a plan takes more than half of the memory available on the host."""
    if facts.memory_available_bytes is None:
        return
    total, available = needed_on(plan, facts), facts.memory_available_bytes
    if total > MOST_SHARE * available:
        raise UsageError(
            f"{host.name}: the points take {total // M} MiB in all, and no more than half of the "
            f"{available // M} MiB available may be taken: --sizes, --threads, --pairs and --cpus reduce it."
        )


def needed_on(plan: Plan, facts: Facts) -> int:
    """Bytes that the points of a plan take at once on a host."""
    return needed(plan, measured(plan, facts), flushes=facts.arch in _FLUSHING)


def measured(plan: Plan, facts: Facts) -> list[Cpu]:
    """The CPUs of a host that a plan measures on."""
    return [
        cpu
        for cpu in facts.cpus
        if cpu.allowed and cpu.online and (plan.cpus is None or cpu.cpu in plan.cpus)
    ]


def unknown_cpus(numbers: Sequence[int]) -> list[Cpu]:
    """CPUs of a host that is not known: with the usual caches, the last one of all of them."""
    return [Cpu(number, llc=0, package=0, caches=_USUAL) for number in numbers]


def _chases(options: EffectiveOptions, cpus: Sequence[Cpu], *, each: bool) -> Iterator[Visit]:
    for cpu in _alone(cpus, each=each):
        sizes = _sizes(options, cpus[0], _CHASE_MOST)
        for size in sizes:
            spared = _spared(size, sizes, cpus, 1)
            yield from [Visit(size, (cpu.cpu,), _CHASE_S + size * _CHASE_BYTE_S, spared)] * _ORDERS


def _bandwidths(options: EffectiveOptions, cpus: Sequence[Cpu], *, each: bool) -> Iterator[Visit]:
    groups = dict.fromkeys(
        tuple(cpu.cpu for cpu in group)
        for word in options.threads
        for group in _groups(word, cpus, each=each)
    )
    for group in groups:
        memory = _memory(cpus, len(group))
        sizes = _sizes(options, cpus[0], _BANDWIDTH_MOST)
        if options.sizes == "auto":
            sizes = [*(size for size in sizes if size < memory), memory]
        for size in sizes:
            seconds = _BANDWIDTH_S + size * _BANDWIDTH_BYTE_S
            spared = _spared(size, sizes, cpus, len(group))
            for sharing in options.share:
                many = len(options.operations) if sharing == "own" else int(len(group) > 1)
                yield from [Visit(size, group if sharing == "own" else group[:1], seconds, spared)] * many


def _groups(word: str, cpus: Sequence[Cpu], *, each: bool) -> Iterator[Sequence[Cpu]]:
    if word == "1":
        yield from ([cpu] for cpu in _alone(cpus, each=each))
    elif word in ("llc", "package"):
        for number in dict.fromkeys(getattr(cpu, word) for cpu in cpus):
            yield [cpu for cpu in cpus if getattr(cpu, word) == number]
    else:
        yield cpus if word == "all" else cpus[: int(word)]


def _alone(cpus: Sequence[Cpu], *, each: bool) -> list[Cpu]:
    """One CPU of each kind under each last-level cache, or each of those that were asked for."""
    if each:
        return list(cpus)
    kinds = {(cpu.llc, cpu.capacity, _caches(cpu)): cpu for cpu in reversed(cpus)}
    return list(reversed(kinds.values()))


def _caches(cpu: Cpu) -> tuple[int, ...]:
    """Sizes of its caches for data, nearest first."""
    known = [cache for cache in cpu.caches if cache.kind != "Instruction" and cache.size_bytes]
    return tuple(cache.size_bytes or 0 for cache in sorted(known, key=lambda cache: cache.level))


def _sizes(options: EffectiveOptions, cpu: Cpu, most: int) -> list[int]:
    if options.sizes != "auto":
        return sizes_read(options.sizes)
    caches = _caches(cpu)
    outside = min(4 * caches[-1] if caches else 64 * M, most)
    around = {int(size * part) for size in caches for part in _PARTS} | {outside}
    if not caches:
        around |= set(sizes_read(f"16K..{outside // M}M"))
    return sorted({size // _STEP * _STEP for size in around if size <= outside} - {0})


def _spared(size: int, sizes: Sequence[int], cpus: Sequence[Cpu], threads: int) -> Spared:
    """How early a size is left out: late if it is an end of those of a level, as in agent/budget.c."""
    caches = _caches(cpus[0])
    if size == max(sizes):
        return Spared.MEMORY
    before = 0
    for at, cache in enumerate(caches):
        share = min(cache, _all_last(cpus) // threads) if at == len(caches) - 1 else cache
        inside = [one for one in sizes if 2 * before <= one <= share // 2]
        if size in inside:
            return Spared.NEVER if size in (min(inside), max(inside)) else Spared.FIRST
        before = max(before, share)
    return Spared.FIRST if caches else Spared.NEVER


def _all_last(cpus: Sequence[Cpu]) -> int:
    """Bytes of the last-level caches of all CPUs."""
    return sum({cpu.llc: (_caches(cpu) or (0,))[-1] for cpu in cpus}.values())


def _memory(cpus: Sequence[Cpu], threads: int) -> int:
    """Of each thread, well outside all caches: its part of four times those of the threads."""
    last, every = (_caches(cpus[0]) or (0,))[-1], _all_last(cpus)
    size = 4 * min(last * threads, every) // threads // M * M
    return min(max(size, _BANDWIDTH_LEAST), _BANDWIDTH_MOST)

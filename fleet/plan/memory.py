"""The points of chase and bandwidth on a machine, known before anything is measured: sizes, memory and time.

The agent chooses them the same way (agent/points.c, bench_bandwidth.c, plan_groups.c); it measures what it
chose, so a difference makes a forecast wrong and nothing else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.errors import UsageError
from fleet.model import Cache, Cpu, Facts, Host, Plan
from fleet.plan.kinds import sizes_read
from fleet.plan.options import EffectiveOptions, effective

K, M = 1 << 10, 1 << 20
_STEP = 4 * K  # sizes are multiples of it
_CHASE_MOST, _BANDWIDTH_LEAST, _BANDWIDTH_MOST = 512 * M, 64 * M, 1024 * M
_PARTS = (0.25, 0.5, 0.75, 2, 4)  # of each cache
_ORDERS = 3  # of a chase
MOST_SHARE = 0.5  # of the memory available
# Of a host that is not known yet: two levels of a core, and one for all.
_USUAL = tuple(
    Cache(level, "Unified", size, 64, ()) for level, size in ((1, 48 * K), (2, 2 * M), (3, 32 * M))
)
# Seconds of a burst, and more for each byte that its threads work on (measured on the README's machine).
_CHASE_S, _CHASE_BYTE_S = 0.014, 1.0e-9
_BANDWIDTH_S, _BANDWIDTH_BYTE_S = 0.002, 2.7e-10


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a round to a point. bytes: of each thread; cpus: those with memory of their own."""

    bytes: int
    cpus: tuple[int, ...]
    seconds: float


def visits(name: str, plan: Plan, cpus: Sequence[Cpu]) -> list[Visit]:
    """What a round of `chase` or `bandwidth` visits on these CPUs, those of the plan."""
    options = effective(plan)
    found = _chases if name == "chase" else _bandwidths
    return list(found(options, cpus, each=plan.cpus is not None)) if cpus else []


def needed(plan: Plan, cpus: Sequence[Cpu]) -> int:
    """Bytes that the points of a plan take at once: each CPU keeps the most of any point."""
    most: dict[int, int] = {}
    for name in set(plan.benchmarks) & {"chase", "bandwidth"}:
        for visit in visits(name, plan, cpus):
            for cpu in visit.cpus:
                most[cpu] = max(most.get(cpu, 0), visit.bytes)
    return sum(most.values())


def check_memory(host: Host, plan: Plan, facts: Facts) -> None:
    """Raise UsageError where a plan takes more than half of the memory available on the host."""
    if facts.memory_available_bytes is None:
        return
    total, available = needed(plan, measured(plan, facts)), facts.memory_available_bytes
    if total > MOST_SHARE * available:
        raise UsageError(
            f"{host.name}: the sizes take {total // M} MiB in all, and no more than half of the "
            f"{available // M} MiB available may be taken: --sizes, --threads and --cpus make it less."
        )


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
        for size in _sizes(options, cpus[0], _CHASE_MOST):
            yield from [Visit(size, (cpu.cpu,), _CHASE_S + size * _CHASE_BYTE_S)] * _ORDERS


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
            for sharing in options.share:
                many = len(options.operations) if sharing == "own" else int(len(group) > 1)
                yield from [Visit(size, group if sharing == "own" else group[:1], seconds)] * many


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


def _memory(cpus: Sequence[Cpu], threads: int) -> int:
    """Of each thread, well outside all caches: its part of four times those of the threads."""
    last = (_caches(cpus[0]) or (0,))[-1]
    every = sum({cpu.llc: (_caches(cpu) or (0,))[-1] for cpu in cpus}.values())
    size = 4 * min(last * threads, every) // threads // M * M
    return min(max(size, _BANDWIDTH_LEAST), _BANDWIDTH_MOST)

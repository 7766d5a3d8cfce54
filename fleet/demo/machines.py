"""The made-up machines of the lab: their CPUs, and what a pair of them costs. Nothing here was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.model import Cache, Cpu, Relation

_SMT, _CLUSTER, _LLC = Relation.SMT, Relation.CLUSTER, Relation.LLC
_PACKAGE, _SYSTEM = Relation.PACKAGE, Relation.SYSTEM
KINDS = {  # the benchmarks of pairs, and what the first costs more than the second
    "x86_64": (("cas", "cmpxchg", 1.0), ("readwrite", "mov", 0.92)),
    "aarch64": (("cas", "lse", 1.0), ("readwrite", "ldr", 0.88)),
}


@dataclass(frozen=True, slots=True)
class Memory:
    """The levels of a machine's memory: bytes up to which a level lasts, ns of a load, GB/s of a read."""

    levels: tuple[tuple[int, float, float], ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: how its CPUs are grouped, one-way latencies in ns by relation, and how they scatter.

    run_sd, pair_sd, burst_sd: relative standard deviations between runs, between the pairs of a relation,
    between the bursts of a pair. changed: relations that another kernel makes slower, and by how much.
    two_levels: pairs with a second level in some bursts. rounds: visits to each pair in a run.
    """

    name: str
    model: str
    cpus: tuple[Cpu, ...]
    ns: Mapping[Relation, float]
    labels: Mapping[str, str]
    ghz: float
    pair_sd: float
    rounds: int
    arch: str = "x86_64"
    run_sd: float = 0.004
    burst_sd: float = 0.01
    changed: Mapping[Relation, float] = field(default_factory=dict)
    two_levels: frozenset[tuple[int, int]] = frozenset()
    benchmarks: tuple[str, ...] = ("cas", "readwrite")
    memory: Memory | None = None


def _cpu(number: int, core: int, package: int = 0, node: int = 0, llc: int | None = None, **more: Any) -> Cpu:
    """A CPU whose package is a die, and has one last-level cache unless `llc` says otherwise."""
    outer = package if llc is None else llc
    return Cpu(number, core=core, llc=outer, die=package, package=package, node=node, **more)


def _caches(core: tuple[int, ...], outer_bytes: int, outer: Sequence[int]) -> tuple[Cache, ...]:
    """The caches of a core and, behind them, the one it shares with `outer`."""
    return (
        Cache(1, "Data", 48 << 10, 64, core),
        Cache(2, "Unified", 2 << 20, 64, core),
        Cache(3, "Unified", outer_bytes, 64, tuple(outer)),
    )


def _server() -> tuple[Cpu, ...]:
    """2 sockets of 16 cores; 8 cores share a cache; siblings are numbered 32 higher."""
    cores = [(number, number % 32) for number in range(64)]
    return tuple(_cpu(n, core, core // 16 * 16, core // 16, llc=core // 8 * 8) for n, core in cores)


def _desktop() -> tuple[Cpu, ...]:
    """4 fast cores of two siblings side by side, 8 slow cores in clusters of four, one cache for all."""
    caches = [_caches((n & ~1, n | 1), 30 << 20, range(16)) for n in range(8)]
    fast = [_cpu(n, n & ~1, cluster=n & ~1, kind="performance", caches=own) for n, own in enumerate(caches)]
    return (*fast, *(_cpu(n, n, cluster=n & ~3, kind="efficiency") for n in range(8, 16)))


def _board() -> tuple[Cpu, ...]:
    return tuple(_cpu(number, number) for number in range(4))


def _workstation() -> tuple[Cpu, ...]:
    """2 sockets of 2 cores of two siblings, which are numbered 4 higher."""
    found = []
    for number in range(8):
        core, node = number % 4, number % 4 // 2
        caches = _caches((core, core + 4), 16 << 20, [n for n in range(8) if n % 4 // 2 == node])
        found.append(_cpu(number, core, 2 * node, node, caches=caches))
    return tuple(found)


EVERYTHING = Machine(  # measured once, with every benchmark
    name="verona",
    model="Made-up workstation of two sockets",
    cpus=_workstation(),
    ns={_SMT: 6.1, _PACKAGE: 54.0, _SYSTEM: 131.0},
    labels={"rack": "desk", "kind": "workstation"},
    ghz=3.8,
    pair_sd=0.015,
    rounds=4,
    benchmarks=("cas", "readwrite", "message", "fetch", "chase", "bandwidth", "interleave", "gemm"),
    memory=Memory(
        ((48 << 10, 1.31, 230.0), (2 << 20, 3.9, 96.0), (16 << 20, 13.6, 51.0), (1 << 40, 97.0, 17.0)),
        tuple(k << 10 for k in (12, 24, 128, 512, 4 << 10, 8 << 10, 60 << 10, 240 << 10)),
    ),
)
MACHINES = (
    Machine(
        name="rome",
        model="Made-up server CPU, first generation",
        cpus=_server(),
        ns={_SMT: 8.2, _LLC: 24.1, _PACKAGE: 45.2, _SYSTEM: 131.0},
        labels={"rack": "b2", "kind": "server"},
        ghz=3.4,
        pair_sd=0.025,
        burst_sd=0.012,
        rounds=6,
        changed={_LLC: 0.047},
        two_levels=frozenset({(3, 40)}),
        benchmarks=("cas",),
    ),
    Machine(
        name="milan",
        model="Made-up server CPU, second generation",
        cpus=_server(),
        ns={_SMT: 7.1, _LLC: 20.3, _PACKAGE: 38.5, _SYSTEM: 111.0},
        labels={"rack": "b3", "kind": "server"},
        ghz=3.6,
        pair_sd=0.02,
        rounds=6,
        benchmarks=("cas",),
    ),
    Machine(
        name="pisa",
        model="Made-up desktop CPU with two kinds of core",
        cpus=_desktop(),
        ns={_SMT: 5.4, _CLUSTER: 31.0, _PACKAGE: 38.0},
        labels={"rack": "desk", "kind": "desktop"},
        ghz=4.8,
        run_sd=0.01,
        pair_sd=0.06,
        burst_sd=0.015,
        rounds=12,
        benchmarks=("cas", "readwrite", "chase", "bandwidth"),
        memory=Memory(
            ((48 << 10, 1.04, 300.0), (2 << 20, 3.3, 120.0), (30 << 20, 14.8, 62.0), (1 << 40, 88.0, 21.0)),
            tuple(
                k << 10 for k in (12, 24, 128, 512, 1536, 5 << 10, 10 << 10, 15 << 10, 60 << 10, 240 << 10)
            ),
        ),
    ),
    Machine(
        name="siena",
        model="Made-up board of four Arm cores",
        arch="aarch64",
        cpus=_board(),
        ns={_PACKAGE: 62.0},
        labels={"rack": "desk", "kind": "board"},
        ghz=1.8,
        run_sd=0.05,
        pair_sd=0.01,
        burst_sd=0.03,
        rounds=12,
    ),
)
UNCHANGED = MACHINES[-1]  # measured several times on one day

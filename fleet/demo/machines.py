"""The made-up machines of the lab: their CPUs, and what a pair of them costs. Nothing here was measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fleet.model import Cache, Cpu, Relation

_SMT, _CLUSTER, _LLC, _PACKAGE, _SYSTEM = (
    Relation.SMT,
    Relation.CLUSTER,
    Relation.LLC,
    Relation.PACKAGE,
    Relation.SYSTEM,
)
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
    arch: str
    cpus: tuple[Cpu, ...]
    ns: Mapping[Relation, float]
    labels: Mapping[str, str]
    ghz: float
    run_sd: float
    pair_sd: float
    burst_sd: float
    rounds: int
    changed: Mapping[Relation, float] = field(default_factory=lambda: MappingProxyType({}))
    two_levels: frozenset[tuple[int, int]] = frozenset()
    benchmarks: tuple[str, ...] = ("cas", "readwrite")
    memory: Memory | None = None


def _server() -> tuple[Cpu, ...]:
    """2 sockets of 16 cores; 8 cores share a cache; siblings are numbered 32 higher."""
    return tuple(
        Cpu(
            number,
            core=number % 32,
            llc=number % 32 // 8 * 8,
            die=number % 32 // 16 * 16,
            package=number % 32 // 16 * 16,
            node=number % 32 // 16,
        )
        for number in range(64)
    )


def _desktop() -> tuple[Cpu, ...]:
    """4 fast cores of two siblings side by side, 8 slow cores in clusters of four, one cache for all."""
    fast = [
        Cpu(
            n,
            core=n & ~1,
            cluster=n & ~1,
            llc=0,
            die=0,
            package=0,
            node=0,
            kind="performance",
            caches=(
                Cache(1, "Data", 48 << 10, 64, (n & ~1, n | 1)),
                Cache(2, "Unified", 2 << 20, 64, (n & ~1, n | 1)),
                Cache(3, "Unified", 30 << 20, 64, tuple(range(16))),
            ),
        )
        for n in range(8)
    ]
    slow = [
        Cpu(n, core=n, cluster=n & ~3, llc=0, die=0, package=0, node=0, kind="efficiency")
        for n in range(8, 16)
    ]
    return (*fast, *slow)


def _board() -> tuple[Cpu, ...]:
    return tuple(Cpu(number, core=number, llc=0, die=0, package=0, node=0) for number in range(4))


def _workstation() -> tuple[Cpu, ...]:
    """2 sockets of 2 cores of two siblings, which are numbered 4 higher."""
    return tuple(
        Cpu(
            number,
            core=number % 4,
            llc=number % 4 // 2 * 2,
            die=number % 4 // 2 * 2,
            package=number % 4 // 2 * 2,
            node=number % 4 // 2,
            caches=(
                Cache(1, "Data", 48 << 10, 64, (number % 4, number % 4 + 4)),
                Cache(2, "Unified", 2 << 20, 64, (number % 4, number % 4 + 4)),
                Cache(
                    3, "Unified", 16 << 20, 64, tuple(n for n in range(8) if n % 4 // 2 == number % 4 // 2)
                ),
            ),
        )
        for number in range(8)
    )


EVERYTHING = Machine(  # measured once, with every benchmark
    name="verona",
    model="Made-up workstation of two sockets",
    arch="x86_64",
    cpus=_workstation(),
    ns=MappingProxyType({_SMT: 6.1, _PACKAGE: 54.0, _SYSTEM: 131.0}),
    labels=MappingProxyType({"rack": "desk", "kind": "workstation"}),
    ghz=3.8,
    run_sd=0.004,
    pair_sd=0.015,
    burst_sd=0.01,
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
        arch="x86_64",
        cpus=_server(),
        ns=MappingProxyType({_SMT: 8.2, _LLC: 24.1, _PACKAGE: 45.2, _SYSTEM: 131.0}),
        labels=MappingProxyType({"rack": "b2", "kind": "server"}),
        ghz=3.4,
        run_sd=0.004,
        pair_sd=0.025,
        burst_sd=0.012,
        rounds=6,
        changed=MappingProxyType({_LLC: 0.047}),
        two_levels=frozenset({(3, 40)}),
        benchmarks=("cas",),
    ),
    Machine(
        name="milan",
        model="Made-up server CPU, second generation",
        arch="x86_64",
        cpus=_server(),
        ns=MappingProxyType({_SMT: 7.1, _LLC: 20.3, _PACKAGE: 38.5, _SYSTEM: 111.0}),
        labels=MappingProxyType({"rack": "b3", "kind": "server"}),
        ghz=3.6,
        run_sd=0.004,
        pair_sd=0.02,
        burst_sd=0.01,
        rounds=6,
        benchmarks=("cas",),
    ),
    Machine(
        name="pisa",
        model="Made-up desktop CPU with two kinds of core",
        arch="x86_64",
        cpus=_desktop(),
        ns=MappingProxyType({_SMT: 5.4, _CLUSTER: 31.0, _PACKAGE: 38.0}),
        labels=MappingProxyType({"rack": "desk", "kind": "desktop"}),
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
        ns=MappingProxyType({_PACKAGE: 62.0}),
        labels=MappingProxyType({"rack": "desk", "kind": "board"}),
        ghz=1.8,
        run_sd=0.05,
        pair_sd=0.01,
        burst_sd=0.03,
        rounds=12,
    ),
)
UNCHANGED = MACHINES[-1]  # measured several times on one day

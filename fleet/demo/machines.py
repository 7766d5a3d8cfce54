"""The made-up machines of the lab: their CPUs, and what a pair of them costs. Nothing here was measured."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.model import Cache, Cpu, Relation

KINDS = {  # the benchmarks of pairs, and what the first costs more than the second
    "x86_64": (("cas", "cmpxchg", 1.0), ("readwrite", "mov", 0.92)),
    "aarch64": (("cas", "lse", 1.0), ("readwrite", "ldr", 0.88)),
}


@dataclass(frozen=True, slots=True)
class Memory:
    """The levels of a machine's memory: bytes up to which a level lasts, ns of a load, GB/s of a read."""

    levels: Sequence[tuple[int, float, float]]
    sizes: Sequence[int]


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: how its CPUs are grouped, one-way latencies in ns by relation, and how they scatter.

    run_sd, pair_sd, burst_sd: relative standard deviations between runs, between the pairs of a relation,
    between the bursts of a pair. changed: relations that another kernel makes slower, and by how much.
    by_kinds: how many times a pair of these kinds of cores costs. two_levels: pairs with a second level in
    some bursts. rounds: visits to each pair in a run. nights: the kernel of each night, the last one last.
    hour: when its session of a night begins. labelled: whether a run of a night is labelled with its kernel.
    """

    name: str
    model: str
    cpus: tuple[Cpu, ...]
    ns: Mapping[Relation, float]
    labels: Mapping[str, str]
    ghz: float
    pair_sd: float
    rounds: int
    changed: Mapping[Relation, float]
    two_levels: frozenset[tuple[int, int]]
    benchmarks: tuple[str, ...]
    memory: Memory | None
    arch: str = "x86_64"
    run_sd: float = 0.004
    burst_sd: float = 0.01
    by_kinds: Mapping[str, float] = field(default_factory=dict)
    nights: Sequence[str] = ("old", "new", "new", "old", "old", "new", "new", "old")
    hour: int = 2
    labelled: bool = True


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


def _mini() -> tuple[Cpu, ...]:
    """4 cores of two siblings, which are numbered 4 higher."""
    return tuple(_cpu(number, number % 4) for number in range(8))


def _node() -> tuple[Cpu, ...]:
    """8 cores; 4 cores share a cache."""
    return tuple(_cpu(number, number, llc=number & ~3) for number in range(8))


_LAYOUTS = {
    "server": _server,
    "desktop": _desktop,
    "board": _board,
    "workstation": _workstation,
    "mini": _mini,
    "node": _node,
}


def _machines(listed: Sequence[dict[str, Any]]) -> Iterator[Machine]:
    """Those of `machines.json`, in the words of layouts and relations; like: all but what is named again."""
    by_name: dict[str, dict[str, Any]] = {}
    for each in listed:
        about = by_name[each["name"]] = by_name.get(each.pop("like", ""), {}) | each
        made = about | {"cpus": _LAYOUTS[about["cpus"]]()}
        for name in ("ns", "changed"):
            made[name] = {Relation(key): value for key, value in about.get(name, {}).items()}
        made["two_levels"] = frozenset(map(tuple, about.get("two_levels", ())))
        made["benchmarks"] = tuple(about.get("benchmarks", ("cas", "readwrite")))
        made["memory"] = Memory(**about["memory"]) if "memory" in about else None
        if "nights" in about:
            made["nights"] = about["nights"].split()
        yield Machine(**made)


*MACHINES, EVERYTHING = _machines(json.loads(Path(__file__).with_name("machines.json").read_text()))
# Measured several times on one day:
UNCHANGED = next(machine for machine in MACHINES if machine.name == "siena")

"""The made-up machines of the lab: their CPUs, and what a pair of them costs. Nothing
here was measured.
"""

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
    """The levels of a machine's memory: bytes up to which a level lasts, ns of a load,
    GB/s of a read.
    """

    levels: Sequence[tuple[int, float, float]]
    sizes: Sequence[int]


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: how its CPUs are grouped, one-way latencies in ns by relation, and
    how they scatter.

    run_sd, pair_sd, burst_sd: relative standard deviations between runs, between the
    pairs of a relation, between the bursts of a pair. changed: relations that another
    kernel makes slower, and by how much.
    by_kinds: how many times a pair of these kinds of cores costs. two_levels: pairs
    with a second level in some bursts. rounds: visits to each pair in a run. nights:
    the kernel of each night, the last one last.
    hour: when its session of a night begins. labelled: whether a run of a night is
    labelled with its kernel.
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


def _caches(
    core: tuple[int, ...], outer_bytes: int, outer: Sequence[int]
) -> tuple[Cache, ...]:
    """The caches of a core and, behind them, the one it shares with `outer`."""
    own = Cache(1, "Data", 48 << 10, 64, core), Cache(2, "Unified", 2 << 20, 64, core)
    return *own, Cache(3, "Unified", outer_bytes, 64, tuple(outer))


def _alike(
    cores: int, threads: int = 1, sockets: int = 1, llc: int = 0, outer_bytes: int = 0
) -> list[Cpu]:
    """Equal cores, `llc` of which share a cache, or a socket's; siblings are numbered
    `cores` higher.
    """
    cpus = []
    every = range(cores * threads)
    of_socket = cores // sockets
    for number in every:
        core = number % cores
        node = number % cores // of_socket
        outer = core // (llc or of_socket) * (llc or of_socket)
        sharing = [
            cpu for cpu in every if 0 <= cpu % cores - outer < (llc or of_socket)
        ]
        caches = (
            _caches((core, core + cores), outer_bytes, sharing) if outer_bytes else ()
        )
        socket = node * of_socket
        cpus.append(
            Cpu(
                number,
                core=core,
                llc=outer,
                die=socket,
                package=socket,
                node=node,
                caches=caches,
            )
        )
    return cpus


def _desktop() -> list[Cpu]:
    """4 fast cores of two siblings side by side, 8 slow cores in clusters of four, one
    cache for all.
    """
    cpus = []
    for number in range(16):
        core = number & ~1 if number < 8 else number
        cluster, kind = (
            (core, "performance") if number < 8 else (number & ~3, "efficiency")
        )
        caches = _caches((core, core + 1), 30 << 20, range(16)) if number < 8 else ()
        groups: dict[str, Any] = {
            "core": core,
            "llc": 0,
            "die": 0,
            "package": 0,
            "node": 0,
        }
        cpus.append(Cpu(number, **groups, cluster=cluster, kind=kind, caches=caches))
    return cpus


def _machines(listed: Sequence[dict[str, Any]]) -> Iterator[Machine]:
    """Those of `machines.json`, in the words of `_alike` and relations; like: all but
    what is named again.
    """
    by_name: dict[str, dict[str, Any]] = {}
    for each in listed:
        about = by_name[each["name"]] = by_name.get(each.pop("like", ""), {}) | each
        cpus = about["cpus"]
        keys = about | {
            "cpus": tuple(_desktop() if cpus == "desktop" else _alike(**cpus))
        }
        for name in ("ns", "changed"):
            keys[name] = {
                Relation(key): value for key, value in about.get(name, {}).items()
            }
        keys["two_levels"] = frozenset(map(tuple, about.get("two_levels", ())))
        keys["benchmarks"] = tuple(about.get("benchmarks", ("cas", "readwrite")))
        keys["memory"] = Memory(**about["memory"]) if "memory" in about else None
        if "nights" in about:
            keys["nights"] = about["nights"].split()
        yield Machine(**keys)


*MACHINES, EVERYTHING = _machines(
    json.loads(Path(__file__).with_name("machines.json").read_text())
)
# Measured several times on one day:
UNCHANGED = next(machine for machine in MACHINES if machine.name == "siena")

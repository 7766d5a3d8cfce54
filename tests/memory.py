"""Hand-made runs of chase and bandwidth: two CPUs with known caches and known costs of
each level.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from fleet.analysis.reduce import format_size
from fleet.model import Burst, Cache, Cpu, Hello, Host, Parameters, Run
from fleet.store import Store, new_run_id
from tests import builders

K = 1 << 10
M = 1 << 20
L1 = 32 * K
L2 = 1 * M
LLC = 16 * M
SIZES = (*(c // 4 * part for c in (L1, L2, LLC) for part in (1, 2, 3, 8)), 4 * LLC)
GHZ = 4.0
# Time of one unit in ns, by setting and level.
LOADS = MappingProxyType(
    {
        "random": {"L1": 1.0, "L2": 3.5, "LLC": 12.0, "mem": 100.0},
        "rising": {"L1": 1.0, "L2": 1.5, "LLC": 2.0, "mem": 3.0},
    }
)
BYTES = MappingProxyType(
    {
        "read": {"L1": 0.002, "L2": 0.004, "LLC": 0.008, "mem": 0.025},
        "write": {"L1": 0.004, "L2": 0.005, "LLC": 0.010, "mem": 0.030},
        "nt": {"L1": 0.026, "L2": 0.026, "LLC": 0.026, "mem": 0.024},
    }
)
Costs = Mapping[str, Mapping[str, float]]


def cpus() -> tuple[Cpu, ...]:
    """Two cores with caches of their own and one last-level cache."""
    return tuple(
        Cpu(
            n,
            core=n,
            llc=0,
            package=0,
            node=0,
            caches=(
                Cache(1, "Data", L1, 64, (n,)),
                Cache(1, "Instruction", 4 * L1, 64, (n,)),
                Cache(2, "Unified", L2, 64, (n,)),
                Cache(3, "Unified", LLC, 64, (0, 1)),
            ),
        )
        for n in range(2)
    )


def find_level(size: int, llc: int = LLC) -> str:
    """The level that a working set of `size` is served from."""
    return (
        "L1" if size <= L1 else "L2" if size <= L2 else "LLC" if size <= llc else "mem"
    )


def publish(
    root: Path,
    *,
    loads: Costs = LOADS,
    rates: Costs = BYTES,
    llc: int = LLC,
    noise: float = 0.0,
    started: str = "2026-01-02T03:04:05Z",
    host: str = "m",
    **changes: object,
) -> Run:
    """Store a run of chase on CPU 0 and of bandwidth on CPU 0, then on both together.

    llc: how much of the last-level cache there really is. noise: standard deviation of
    the whole run, drawn by its time.
    """
    run_id = new_run_id()
    run = builders.a_run(
        cpus(),
        run_id,
        Host(host, "192.0.2.9"),
        benchmarks=("chase", "bandwidth"),
        rounds=3,
    )
    hello: Hello = run.hello  # type: ignore[assignment]
    variants = [
        {"benchmark": b, "variant": v}
        for b, v in (("chase", "mov"), ("bandwidth", "avx2"))
    ]
    raw = MappingProxyType({**hello.raw, "plan": {"benchmarks": variants}})
    run = replace(run, hello=replace(hello, raw=raw), started_utc=started, **changes)  # type: ignore[arg-type]
    Store(root).publish(
        run, bursts(loads, rates, llc, random.Random(started).gauss(1, noise))
    )
    return run


def bursts(
    loads: Costs, rates: Costs, llc: int = LLC, times: float = 1.0
) -> Iterator[Burst]:
    """Three rounds of every point; a burst of two threads has the ticks of both."""
    for visit in range(3):
        for size in SIZES:
            level = find_level(size, llc)
            name = format_size(size)
            for order, cost in loads.items():
                yield _burst(
                    visit,
                    times * cost[level],
                    benchmark="chase",
                    variant="mov",
                    point=f"{order}.{name}.huge",
                    unit="load",
                    parameters=Parameters(
                        bytes=size, order=order, pages="huge", threads=1
                    ),
                )
            for (operation, cost), threads in (
                (item, n) for item in rates.items() for n in (1, 2)
            ):
                yield _burst(
                    visit,
                    times * cost[level],
                    benchmark="bandwidth",
                    variant="avx2",
                    point=f"{operation}.own.{name}.huge.x{threads}",
                    unit="byte",
                    parameters=Parameters(
                        bytes=size,
                        operation=operation,
                        sharing="own",
                        pages="huge",
                        threads=threads,
                    ),
                    pong_cpu=threads - 1,
                    cpus=tuple(range(threads)),
                    threads=threads,
                )


def _burst(visit: int, ns: float, *, threads: int = 1, **changes: object) -> Burst:
    iterations = 1 << 30
    level = round(ns * iterations * builders.TICKS_PER_SECOND / 1e9)
    ticks = tuple(level + (sample % 3 - 1) * (level // 1000) for sample in range(5))
    return builders.a_burst(
        **{
            "round": visit,
            "iterations": iterations,
            "ticks": ticks,
            "other_ticks": (ticks,) * (threads - 1),
            "pong_cpu": 0,
            "core_mhz": (round(1000 * GHZ),) * 2,
            **changes,
        }
    )

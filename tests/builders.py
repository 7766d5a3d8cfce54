"""Hand-made runs for tests: machines with a known topology and bursts with known
ticks.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow.parquet as pq

from fleet.model import (
    Agent,
    Burst,
    Cpu,
    Facts,
    Hello,
    Host,
    Load,
    Plan,
    Relation,
    Run,
    RunState,
    Target,
    Topology,
)
from fleet.store.checksums import seal_file

TICKS_PER_SECOND = 2_500_000_000
ITERATIONS = 1000
# of a run's row
CONTENTS = {
    "bursts": 7,
    "samples": 70,
    "flagged_bursts": 2,
    "content_sha256": "5ha",
}


def small_desktop() -> tuple[Cpu, ...]:
    """4 cores of two SMT siblings, numbered 0-3 and 4-7, one last-level cache."""
    return tuple(
        Cpu(n, core=n % 4, cluster=n % 4, llc=0, die=0, package=0, node=0)
        for n in range(8)
    )


def hybrid_laptop() -> tuple[Cpu, ...]:
    """8 performance cores with siblings side by side (0-15), 16 efficiency cores in
    clusters of four.
    """
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
        )
        for n in range(16)
    ]
    slow = [
        Cpu(
            n,
            core=n,
            cluster=n & ~3,
            llc=0,
            die=0,
            package=0,
            node=0,
            kind="efficiency",
        )
        for n in range(16, 32)
    ]
    return (*fast, *slow)


def two_sockets() -> tuple[Cpu, ...]:
    """2 packages of 32 cores; core complexes of 8 cores share a cache; siblings
    numbered 64 higher.
    """
    return tuple(
        Cpu(
            n,
            core=n % 64,
            llc=n % 64 // 8 * 8,
            die=n % 64 // 32 * 32,
            package=n % 64 // 32 * 32,
            node=n % 64 // 32,
        )
        for n in range(128)
    )


NS = {
    Relation.SELF: 10.0,
    Relation.SMT: 6.0,
    Relation.CLUSTER: 30.0,
    Relation.LLC: 24.0,
    Relation.DIE: 60.0,
    Relation.NODE: 60.0,
    Relation.PACKAGE: 45.0,
    Relation.SYSTEM: 130.0,
    Relation.UNKNOWN: 50.0,
}


def a_run(
    cpus: tuple[Cpu, ...] = (),
    run_id: str = "r20260102T030405Z-0badcafe",
    host: Host | None = None,
    benchmarks: tuple[str, ...] = ("cas",),
    rounds: int = 3,
) -> Run:
    """A complete run on `cpus` (two CPUs of unknown topology if none are given)."""
    cpus = cpus or (Cpu(0), Cpu(1))
    numbers = tuple(cpu.cpu for cpu in cpus)
    pairs = len(numbers) * (len(numbers) - 1) // 2
    variants = [
        {"benchmark": name, "variant": default_variant(name)} for name in benchmarks
    ]
    hello = Hello(
        build="b1d5",
        os="linux",
        arch="x86_64",
        clock="rdtscp",
        ticks_per_second=TICKS_PER_SECOND,
        pairs=pairs,
        bursts=pairs * rounds * len(benchmarks),
        cpus=numbers,
        raw=MappingProxyType(
            {
                "record": "hello",
                "clock_cost_ticks": 27,
                "clock_quantum_ticks": 2,
                "plan": {"benchmarks": variants},
            }
        ),
    )
    return Run(
        run_id=run_id,
        session_id="s20260102T030400Z-00000001",
        host=host
        or Host("rpi5", "192.0.2.7", env={"TOKEN": "hunter2"}, labels={"rack": "b2"}),
        plan=Plan(benchmarks=benchmarks, rounds=rounds),
        facts=Facts(
            "linux",
            "x86_64",
            cpu_model="Model T",
            cpus=cpus,
            load=Load(0.5, 2),
            cpu_flags=("sse2",),
            probe="raw",
        ),
        agent=Agent(
            "/tmp/agent", "b1d5", Target("linux", "x86_64"), "on the host with gcc 12"
        ),
        started_utc="2026-01-02T03:04:05Z",
        ended_utc="2026-01-02T03:05:06Z",
        hello=hello,
        state=RunState.COMPLETE,
        labels=MappingProxyType({"kernel": "6.12"}),
        fleet_version="0.1.0",
    )


def default_variant(benchmark: str) -> str:
    return {"cas": "cmpxchg", "clock": "rdtscp"}.get(benchmark, "mov")


def make_bursts(
    run: Run,
    samples: int = 5,
    noise: float = 0.02,
    ns: Callable[[int, int], float] | None = None,
    seed: int = 7,
) -> Iterator[Burst]:
    """Every burst of a plan of half the pairs; ticks follow `ns` (one way, by default
    by relation).
    """
    chance = random.Random(seed)
    topology = Topology(run.facts.cpus)
    numbers = [cpu.cpu for cpu in run.facts.cpus]
    model = ns or (lambda a, b: NS[topology.relation(a, b)])
    one_way_ns = {(a, b): model(a, b) for a in numbers for b in numbers if a <= b}
    for visit in range(run.plan.rounds):
        for benchmark in run.plan.benchmarks:
            for (low, high), one_way in one_way_ns.items():
                if (low == high) != (benchmark == "clock"):
                    continue
                ping, pong = (low, high) if visit % 2 == 0 else (high, low)
                ways = 1 if benchmark == "clock" else 2
                level = (
                    one_way
                    * ways
                    * ITERATIONS
                    * TICKS_PER_SECOND
                    / 1e9
                    * chance.gauss(1, noise)
                )
                yield a_burst(
                    benchmark=benchmark,
                    variant=default_variant(benchmark),
                    round=visit,
                    ping_cpu=ping,
                    pong_cpu=pong,
                    ticks=tuple(
                        round(level * chance.gauss(1, noise / 4))
                        for _ in range(samples)
                    ),
                )


def a_burst(**changes: Any) -> Burst:
    """One burst of five samples, the first a warm-up, of CPU 0 with CPU 1."""
    burst = {**_USUAL, **changes}
    ping = burst["ping_cpu"]
    pong = burst["pong_cpu"]
    return Burst(**{**burst, "ping_cpus": (ping, ping), "pong_cpus": (pong, pong)})


_USUAL: dict[str, Any] = {
    "benchmark": "cas",
    "variant": "cmpxchg",
    "round": 0,
    "ping_cpu": 0,
    "pong_cpu": 1,
    "iterations": ITERATIONS,
    "warmup": 1,
    "ticks": (900, 500, 501, 502, 503),
    "start_offset_ns": 12345,
    "switches": (0, 0, 0, 0),
}


def burst_key(burst: Burst) -> tuple[str, str, str | None, int, int, int]:
    """Return what makes a burst unique in its run."""
    return (
        burst.benchmark,
        burst.variant,
        burst.point,
        burst.round,
        burst.ping_cpu,
        burst.pong_cpu,
    )


def put_table(table: Any, path: Path, **options: Any) -> None:
    """Write a table over a file as somebody else may, with checksums that fit."""
    pq.write_table(table, path, **options)
    seal_file(path)

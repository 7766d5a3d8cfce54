"""Hand-made runs of fetch and interleave: two CPUs of one socket and known costs of
each point.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from fleet.model import Burst, Cpu, Parameters, Run
from fleet.store import Store, new_run_id
from tests import builders

CPUS = tuple(Cpu(number, core=number, package=0) for number in range(2))
BLOCK = 1024  # bytes
# ns per line: of fetch by what is done to the lines and their state, of interleave by
# whose the memory is.
FETCHED = MappingProxyType(
    {
        ("chase", "own"): 4.4,
        ("chase", "third"): 61.5,
        ("chase", "memory"): 150.0,
        ("swap", "written"): 80.2,
    }
)
WRITTEN = MappingProxyType({"own": 2.0, "shared": 5.0})


def publish(
    root: Path,
    *,
    fetched: Mapping[tuple[str, str], float] = FETCHED,
    noise: float = 0.0,
    **changes: object,
) -> Run:
    """Store a run of both. noise: standard deviation of the whole run."""
    run = builders.a_run(CPUS, new_run_id(), benchmarks=("fetch", "interleave"))
    run = replace(run, **changes)  # type: ignore[arg-type]
    times = random.Random(run.started_utc).gauss(1, noise)
    Store(root).publish(run, _bursts(fetched, times))
    return run


def _bursts(fetched: Mapping[tuple[str, str], float], times: float) -> Iterator[Burst]:
    for visit in range(3):
        for (access, state), ns in fetched.items():
            operation = "read" if access == "chase" else access
            setting = Parameters(
                operation=operation,
                state=state,
                order="chase",
                stride_bytes=256,
                pages="base",
            )
            yield _burst(visit, "fetch", times * ns, setting, f"{state}.{access}.128K")
        for sharing, ns in WRITTEN.items():
            setting = Parameters(
                operation="write",
                sharing=sharing,
                block_bytes=BLOCK,
                pages="base",
                threads=2,
            )
            yield _burst(
                visit, "interleave", times * ns, setting, f"{sharing}.write.1K"
            )


def _burst(
    visit: int, benchmark: str, ns: float, setting: Parameters, point: str
) -> Burst:
    iterations = 1 << 20
    level = round(ns * iterations * builders.TICKS_PER_SECOND / 1e9)
    return builders.a_burst(
        benchmark=benchmark,
        variant="mov",
        round=visit,
        iterations=iterations,
        ticks=tuple(level + (sample % 3 - 1) * (level // 1000) for sample in range(5)),
        point=point,
        unit="line",
        parameters=replace(setting, bytes=1 << 17),
    )

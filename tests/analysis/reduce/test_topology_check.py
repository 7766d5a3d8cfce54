"""The matrix holds the OS's topology to account: each check raised by planted data,
silent without it.
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis.reduce import check_topology, load_samples, pair_medians
from fleet.analysis.report import render
from fleet.analysis.views import show_run
from fleet.model import Cpu, Topology
from fleet.store import Store
from tests import builders

pytestmark = pytest.mark.long


def measure(
    root: Path,
    cpus: tuple[Cpu, ...],
    planted: dict[tuple[int, int], float],
    rounds: int = 6,
) -> pd.DataFrame:
    """Samples of a run in which the planted pairs take other times than their
    relation.
    """
    topology = Topology(cpus)
    run = builders.a_run(cpus, rounds=rounds)
    bursts = builders.make_bursts(
        run,
        noise=0.005,
        ns=lambda a, b: planted.get((a, b), builders.NS[topology.relation(a, b)]),
    )
    Store(root).publish(run, bursts)
    return load_samples(root)


def find_problems(
    samples: pd.DataFrame, history: pd.DataFrame | None = None
) -> list[tuple[str, str]]:
    table = check_topology(pair_medians(samples), history)
    return list(zip(table["check"], table["subject"], strict=True))


@pytest.mark.parametrize(
    "cpus",
    [builders.small_desktop(), builders.hybrid_laptop()],
    ids=["desktop", "laptop"],
)
def test_a_true_topology_gives_no_finding(
    tmp_path: Path, cpus: tuple[Cpu, ...]
) -> None:
    assert find_problems(measure(tmp_path, cpus, {})) == []
    text = show_run(tmp_path, builders.a_run().run_id)
    assert "each other's nearest" not in text
    assert "usual for their relation" not in text


def test_show_and_report_know_the_hosts_earlier_runs(tmp_path: Path) -> None:
    cpus = builders.small_desktop()
    for place in range(4):
        run = builders.a_run(cpus, run_id=f"r2026T{place}-{place:08x}")
        run = replace(run, started_utc=f"2026-01-0{place + 1}T03:00:00Z")
        slow = 2.5 if place == 3 else 1.0
        bursts = builders.make_bursts(
            run,
            ns=lambda a, b, slow=slow: (
                slow * builders.NS[Topology(cpus).relation(a, b)]
            ),  # type: ignore[misc]
        )
        Store(tmp_path).publish(run, bursts)
    assert (
        "history: latency differs from earlier runs of this host by more than a factor"
        " of two" in show_run(tmp_path, run.run_id)
    )
    assert "history:" not in show_run(tmp_path, "r2026T2-00000002")
    assert (
        "latency differs from earlier runs of this host by more than a factor of two"
        in render(tmp_path, [run.run_id])
    )

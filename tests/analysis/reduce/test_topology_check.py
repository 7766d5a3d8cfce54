"""The matrix holds the OS's topology to account: each check raised by planted data, silent without it."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import smt
from fleet.analysis.reduce.load import load_samples
from fleet.analysis.reduce.matrices import pair_medians, relations
from fleet.analysis.reduce.topology_check import check_topology
from fleet.analysis.report.page import render
from fleet.analysis.views.show import show_text
from fleet.model import Cpu, Topology
from fleet.store import Store
from tests import builders


def measured(
    root: Path, cpus: tuple[Cpu, ...], planted: dict[tuple[int, int], float], rounds: int = 6
) -> pd.DataFrame:
    """Samples of a run in which the planted pairs take other times than their relation."""
    topology = Topology(cpus)
    run = builders.a_run(cpus, rounds=rounds)
    bursts = builders.bursts_of(
        run, noise=0.005, ns=lambda a, b: planted.get((a, b), builders.NS[topology.relation(a, b)])
    )
    Store(root).publish(run, bursts)
    return load_samples(root)


def found(samples: pd.DataFrame, history: pd.DataFrame | None = None) -> list[tuple[str, str]]:
    table = check_topology(pair_medians(samples), history)
    return list(zip(table["check"], table["subject"], strict=True))


@pytest.mark.parametrize(
    "cpus", [builders.small_desktop(), builders.hybrid_laptop()], ids=["desktop", "laptop"]
)
def test_a_true_topology_gives_no_finding(tmp_path: Path, cpus: tuple[Cpu, ...]) -> None:
    assert found(measured(tmp_path, cpus, {})) == []
    assert "each other's nearest" not in show_text(tmp_path, builders.a_run().run_id)


def test_siblings_hardly_nearer_than_others_are_named(tmp_path: Path) -> None:
    """40 ns beside 45: nearest, but by less than 1.3 times."""
    samples = measured(tmp_path, builders.small_desktop(), {(0, 4): 40.0})
    assert found(samples) == [("siblings", "0-4")]
    text = show_text(tmp_path, builders.a_run().run_id)
    assert (
        "siblings: SMT siblings are not each other's nearest CPUs by a factor of 1.3 (1 finding): cas 0-4 ("
        in text
    )


def test_a_nearer_relation_that_is_slower_is_out_of_order(tmp_path: Path) -> None:
    cpus = builders.hybrid_laptop()
    slow = {(a, b): 60.0 for a in range(16, 32) for b in range(a + 1, 32) if a // 4 == b // 4}
    samples = measured(tmp_path, cpus, slow)
    assert ("order", "cluster>package") in found(samples)
    assert "order: a nearer relation is slower than a wider one" in show_text(
        tmp_path, builders.a_run().run_id
    )


def test_a_relation_far_off_the_hosts_history_is_named(tmp_path: Path) -> None:
    samples = measured(tmp_path, builders.small_desktop(), {})
    now = relations(pair_medians(samples))
    past = pd.concat([now.assign(run_id=f"r{run}") for run in range(3)])
    assert found(samples, past) == []
    is_smt = past["relation"] == "smt"
    past.loc[is_smt, "median_ns"] *= 2.5
    assert found(samples, past) == [("history", "smt")]
    past.loc[is_smt, "median_ns"] /= 6
    assert found(samples, past) == [("history", "smt")]
    assert found(samples, past[past["run_id"] != "r0"]) == []  # two runs are no history


def test_show_and_report_know_the_hosts_earlier_runs(tmp_path: Path) -> None:
    cpus = builders.small_desktop()
    for place in range(4):
        run = builders.a_run(cpus, run_id=f"r2026T{place}-{place:08x}")
        run = replace(run, started_utc=f"2026-01-0{place + 1}T03:00:00Z")
        slow = 2.5 if place == 3 else 1.0
        bursts = builders.bursts_of(
            run,
            ns=lambda a, b, slow=slow: slow * builders.NS[Topology(cpus).relation(a, b)],  # type: ignore[misc]
        )
        Store(tmp_path).publish(run, bursts)
    assert (
        "history: latency differs from earlier runs of this host by more than a factor of two"
        in show_text(tmp_path, run.run_id)
    )
    assert "history:" not in show_text(tmp_path, "r2026T2-00000002")
    assert "latency differs from earlier runs of this host by more than a factor of two" in render(
        tmp_path, [run.run_id]
    )


def test_directions_that_differ_by_more_than_a_tenth_are_named(tmp_path: Path) -> None:
    cpus = (Cpu(0, package=0), Cpu(1, package=0), Cpu(2, package=0))
    for place, back in enumerate((60.0, 53.0)):
        bursts = [
            builders.a_burst(
                round=visit,
                ping_cpu=ends[0],
                pong_cpu=ends[1],
                ticks=tuple(round(ns * 5000) + visit * 20 + at for at in range(6)),
                start_offset_ns=visit * 1_000_000,
            )
            for visit in range(8)
            for ends, ns in (((0, 1), 50.0), ((1, 0), back), ((0, 2), 50.0), ((2, 0), 50.0))
        ]
        root = tmp_path / str(place)
        Store(root).publish(builders.a_run(cpus), bursts)
        assert found(load_samples(root)) == ([("asymmetry", "0-1")] if back == 60 else [])


def test_few_bursts_each_way_tell_nothing_of_asymmetry(tmp_path: Path) -> None:
    bursts = [builders.a_burst(), builders.a_burst(ping_cpu=1, pong_cpu=0, ticks=(2000, 1000, 1001, 1002))]
    Store(tmp_path).publish(builders.a_run(), bursts)
    assert found(load_samples(tmp_path)) == []


def test_all_siblings_of_the_published_i9_and_i7_are_found_in_their_latencies() -> None:
    table = smt.shipped()
    known = table[table["summary"].str.startswith(("i9-13980hx", "i7-13850hx"))]
    assert len(known) == 10
    assert (known["smt"] == 8).all()
    for factor in smt.FACTORS:
        assert (known[f"found_{factor}"] == 8).all()
    assert (known["wrong_1.6"] == 0).all()

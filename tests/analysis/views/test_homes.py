"""Matrices of pairs by the NUMA node of their lines, and what the home costs."""

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.analysis.reduce import (
    as_float64,
    load_cpus,
    load_pairs,
    name_cells,
)
from fleet.analysis.report import render
from fleet.analysis.views import show_run
from fleet.model import Host, Node, Parameters
from fleet.store import Store
from tests import builders

# what a hand-over takes more, by how many of both CPUs are at home
HOME_NS = {
    2: 0.0,
    1: 40.0,
    0: 90.0,
}


def publish(root: Path, number: int, homes: tuple[int, ...] = (0, 1, 2)) -> str:
    """Publish a run of CPUs 0 and 1, with two homes also 32 and 33 of node 1: each pair
    on each home.
    """
    cpus = tuple(
        cpu
        for cpu in builders.two_sockets()
        if cpu.cpu in ((0, 1, 32, 33) if homes[1:] else (0, 1))
    )
    node_of_cpu = {cpu.cpu: cpu.node for cpu in cpus}
    run_id = f"r20260102T03{number:02}05Z-0badcaf{number}"
    run = builders.a_run(cpus, run_id, Host("homes", "192.0.2.7"))
    run = replace(run, facts=replace(run.facts, nodes=(Node(0), Node(1), Node(2))))
    bursts = []
    for home in homes:

        def handover_ns(ping: int, pong: int, home: int = home) -> float:
            near = sum(node_of_cpu[cpu] == home for cpu in (ping, pong))
            return 100.0 + HOME_NS[near]

        for burst in builders.make_bursts(run, noise=0.001, ns=handover_ns):
            parameters = Parameters(memory_node=home)
            start_ns = burst.start_offset_ns + home
            bursts.append(
                replace(
                    burst,
                    point=f"n{home}",
                    parameters=parameters,
                    start_offset_ns=start_ns,
                )
            )
    Store(root).publish(
        run, iter(sorted(bursts, key=lambda burst: burst.start_offset_ns))
    )
    return run_id


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    root = tmp_path_factory.mktemp("results")
    return root, publish(root, 1)


def test_each_node_has_its_matrix_and_the_home_its_price(
    homes: tuple[Path, str],
) -> None:
    text = show_run(*homes)
    for node in (0, 1, 2):
        assert f"cas/cmpxchg n{node}: one-way latency in ns" in text
    lines = [line.split() for line in text.splitlines()]
    assert [
        "relation",
        "both",
        "CPUs",
        "one",
        "of",
        "them",
        "neither",
        "ratio",
    ] in lines
    assert ["system", "-", "140.0", "190.0", "1.36"] in lines


def test_one_node_has_a_matrix_and_no_price(tmp_path: Path) -> None:
    text = show_run(tmp_path, publish(tmp_path, 2, homes=(0,)))
    assert "cas/cmpxchg n0: one-way latency in ns" in text
    assert "pairs whose line lies on" not in text


@pytest.mark.long
def test_the_report_has_the_table(homes: tuple[Path, str]) -> None:
    assert "pairs whose line lies on the NUMA node of" in render(homes[0], [homes[1]])


def test_a_comparison_is_by_relation_and_home(homes: tuple[Path, str]) -> None:
    rows = name_cells(as_float64(load_pairs(homes[0])), load_cpus(homes[0]))
    assert set(rows["relation"]) == {
        f"{name} n{node}" for name in ("package", "system") for node in (0, 1, 2)
    }

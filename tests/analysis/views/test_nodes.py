"""Matrices by NUMA node, of made-up machines: as text, comparisons, checks and
reports.
"""

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fleet.analysis.exchange import export_matrix, export_samples
from fleet.analysis.reduce import (
    SHADES,
    Only,
    arrange_memory,
    as_float64,
    check_run,
    load_cpus,
    load_overview,
    load_pairs,
    load_run,
    name_cells,
    name_setting,
    select_breaches,
    select_node_cells,
)
from fleet.analysis.report import make_card, render
from fleet.analysis.views import show_as_json, show_run
from fleet.errors import UsageError
from fleet.model import BENCHMARKS, Burst, Host, Node, Parameters, Run
from fleet.store import Store
from fleet.store.runs import open_listing
from tests import builders

NS = {
    (0, 0): 90.0,
    (0, 1): 140.0,
    (0, 2): 250.0,
    (1, 0): 150.0,
    (1, 1): 91.0,
    (1, 2): 270.0,
}
GBS = {
    (0, 0): 200.0,
    (0, 1): 100.0,
    (0, 2): 25.0,
    (1, 0): 100.0,
    (1, 1): 201.0,
    (1, 2): 20.0,
}
DISTANCES = {0: (10, 21, 24), 1: (21, 10, 24), 2: (24, 24, 10)}
SIZE = 256 << 20


def burst(
    template: Burst,
    start_ns: int,
    benchmark: str,
    cpus: tuple[int, ...],
    node: int,
    ns: float,
) -> Burst:
    """Return a burst of a node's memory. ns: of a unit of all threads."""
    order, operation = ("window", None) if benchmark == "chase" else (None, "read")
    name = (
        "window.256M.huge"
        if benchmark == "chase"
        else f"read.own.256M.huge.x{len(cpus)}"
    )
    parameters = Parameters(
        bytes=SIZE,
        stride_bytes=64 if order else None,
        order=order,
        operation=operation,
        sharing="own" if operation else None,
        pages="huge",
        memory_node=node,
        threads=len(cpus),
    )
    iterations = 100_000_000
    ticks = (round(ns * len(cpus) * iterations * builders.TICKS_PER_SECOND / 1e9),) * 3
    return replace(
        template,
        benchmark=benchmark,
        variant="mov",
        ping_cpu=cpus[0],
        pong_cpu=cpus[-1],
        start_offset_ns=start_ns,
        iterations=iterations,
        warmup=1,
        ticks=ticks,
        point=f"{name}.n{node}",
        unit="load" if order else "byte",
        parameters=parameters,
        cpus=cpus,
        other_ticks=(ticks,) * (len(cpus) - 1),
    )


# MB/s and populated channels of a node
PEAKS = {
    0: (256_000, 8),
    1: (192_000, 6),
    2: (None, None),
}


def publish(
    root: Path,
    slower: float = 1.0,
    benchmarks: tuple[str, ...] = ("chase", "bandwidth"),
    number: int = 0,
) -> Run:
    run_id = f"r20260102T03{number:02}05Z-0badcaf{number}"
    run = builders.a_run(
        builders.two_sockets(), run_id, Host("numa", "192.0.2.7"), benchmarks=benchmarks
    )
    nodes = tuple(
        Node(
            n,
            True,
            8 << 30,
            tuple(enumerate(far)),
            channels_populated=count,
            channels=8,
            peak_mbps=peak,
        )
        for (n, far), (peak, count) in zip(
            DISTANCES.items(), PEAKS.values(), strict=True
        )
    )
    nodes = (*nodes[:2], replace(nodes[2], read_mbps=30_000), Node(3, allowed=False))
    run = replace(
        run,
        facts=replace(run.facts, nodes=nodes, memory_modules="14 x 16 GiB DDR4-4000"),
    )
    template = next(iter(builders.make_bursts(run)))
    bursts: list[Burst] = []
    for round_, ((row, node), ns) in product(range(3), NS.items()):
        cpus = tuple(range(32 * row, 32 * row + 8))
        slow = slower if (row, node) == (1, 0) else 1.0
        numbers = {
            "chase": (cpus[:1], ns * slow),
            "bandwidth": (cpus, 1 / GBS[row, node]),
        }
        for name in benchmarks:
            some, unit_ns = numbers[name]
            own = burst(
                template,
                len(bursts) * 10_000_000,
                name,
                some,
                node,
                unit_ns * (1 + 0.001 * round_),
            )
            bursts.append(replace(own, round=round_))
    Store(root).publish(run, iter(bursts))
    return run


@pytest.fixture(scope="module")
def numa_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    root = tmp_path_factory.mktemp("results")
    return root, publish(root).run_id


def test_two_matrices_with_own_memory_marked_and_distances(
    numa_run: tuple[Path, str],
) -> None:
    text = show_run(*numa_run)
    lines = [line.split() for line in text.splitlines()]
    assert ["node", "0", "90.1*", "(10)", "140.1", "(21)", "250.2", "(24)"] in lines
    assert ["node", "1", "99.9", "(21)", "200.8*", "(10)", "20.0", "(24)"] in lines
    assert "window x1: remote/local 2.21, worst node 1 to 2 2.97" in text
    assert "read: remote/local 0.31, worst node 1 to 2 0.10" in text
    assert "without CPUs of the run: node 2; node 3: not allowed here" in text
    assert "by the level of the memory" not in text


@pytest.mark.long
def test_bandwidth_stands_beside_the_peak_of_its_node(
    numa_run: tuple[Path, str],
) -> None:
    text = show_run(*numa_run)
    beside = [
        "memory: 14 x 16 GiB DDR4-4000",
        (
            "memory of node 0, bandwidth read of 8 CPUs: 199.8 of 256.0 GB/s, 78%, 8 of"
            " 8 channels populated"
        ),
        (
            "memory of node 1, bandwidth read of 8 CPUs: 200.8 of 192.0 GB/s, 105%, 6"
            " of 8 channels populated, above the peak: caches took part, or the speed"
            " that the firmware states is wrong"
        ),
        (
            "memory of node 2, bandwidth read of 8 CPUs: 25.0 of 30.0 GB/s, 83%, the"
            " peak as ACPI has it"
        ),
    ]
    assert [line for line in text.splitlines() if line.startswith("memory")] == beside
    assert all(line in render(numa_run[0], [numa_run[1]]) for line in beside)


def test_json_has_each_cell(numa_run: tuple[Path, str]) -> None:
    (document,) = json.loads("".join(show_as_json(numa_run[0], [numa_run[1]])))["rows"]
    assert {
        (cell["cpu_node"], cell["memory_node"]) for cell in document["nodes"]
    } == NS.keys()
    assert {cell["setting"] for cell in document["nodes"]} == {"window x1", "read"}
    assert document["ladder"] == []


def rows(root: Path) -> tuple[Any, Any]:
    return as_float64(load_pairs(root)), load_cpus(root)


def measured(root: Path) -> tuple[Any, Any]:
    pairs, cpus = rows(root)
    return pairs, arrange_memory(pairs, cpus)


def test_each_cell_is_compared(numa_run: tuple[Path, str]) -> None:
    cells = name_cells(*rows(numa_run[0]))
    assert len(cells) == 2 * len(NS)
    assert {"n1-n2 window x1", "n0-n0 read"} <= {*cells["relation"]}


def test_a_name_with_node_0_has_no_size_of_0(numa_run: tuple[Path, str]) -> None:
    run = builders.a_run(benchmarks=("chase",))
    chase_burst = burst(
        next(iter(builders.make_bursts(run))), 0, "chase", (0,), 0, 90.0
    )
    chase = BENCHMARKS["chase"]
    empty = replace(chase_burst, point="window.0M.huge.n0")
    assert chase.find_mismatch(chase_burst) is None
    assert "has a size of 0" in str(chase.find_mismatch(empty))


def test_each_node_of_a_load_has_a_matrix_of_its_own() -> None:
    assert (
        name_setting("read.full.x2.256M.huge.n0-n11", SIZE)
        == "read full load on node 11"
    )
    assert name_setting("idle.x2.256M.huge.n0", SIZE) == "idle"


def test_loads_by_node_are_shown_with_what_the_load_gets(tmp_path: Path) -> None:
    run = builders.a_run(builders.two_sockets(), benchmarks=("loaded",))
    template = burst(next(iter(builders.make_bursts(run))), 0, "chase", (0, 1), 1, 50.0)
    parameters = replace(
        template.parameters or Parameters(),
        operation="read",
        load_bytes=SIZE,
        load_node=0,
    )
    moved = int(template.ticks[0] * 20e9 / builders.TICKS_PER_SECOND)
    point = "read.full.x2.256M.huge.n1-n0"
    beside = ((moved,) * len(template.ticks),)
    loaded = replace(
        template,
        benchmark="loaded",
        point=point,
        parameters=parameters,
        other_units=beside,
    )
    Store(tmp_path).publish(run, iter([replace(loaded, other_ticks=None)]))
    text = show_run(tmp_path, run.run_id)
    assert "read full load on node 0" in text
    assert re.search(r"^node 0 +100\.0 at 20\.0 GB/s$", text, re.MULTILINE)
    cells = name_cells(*rows(tmp_path))
    assert [*cells["benchmark"]] == ["loaded", "load"]
    assert {*cells["relation"]} == {"n0-n1 read full load on node 0"}
    assert [*cells["median_ns"]] == pytest.approx([100.0, 1 / 20], rel=1e-3)


def test_an_overview_has_own_and_other_memory(numa_run: tuple[Path, str]) -> None:
    history = load_overview(numa_run[0], open_listing(numa_run[0]).runs, Only("chase"))
    numbers = [(row.relation, round(row.median_ns)) for row in history.itertuples()]
    assert numbers == [("local", 91), ("remote", 200)]


def test_a_node_that_is_nearer_than_the_own_one_is_a_breach(tmp_path: Path) -> None:
    run = publish(tmp_path, slower=0.5)
    breaches = select_breaches(
        check_run(load_run(tmp_path, run.run_id), *measured(tmp_path))
    )
    assert [*breaches["check"]] == ["node_order"]
    assert "node 0 from node 1 takes 0.82 of its own" in breaches["says"].iloc[0]


def test_other_memory_that_is_farther_is_none(numa_run: tuple[Path, str]) -> None:
    checks = check_run(load_run(*numa_run), *measured(numa_run[0]))
    assert (checks["check"] == "node_order").sum() == 8
    assert select_breaches(checks).empty


@pytest.mark.long
def test_a_report_has_the_matrices(numa_run: tuple[Path, str]) -> None:
    page = render(numa_run[0], [numa_run[1]])
    assert "remote/local 2.21" in page
    assert 'class="a0">90.1* (10)</td>' in page
    assert 'class="a31">270.3 (24)</td>' in page
    assert "not allowed here" in page


def test_cells_of_unknown_cpus_have_no_node(numa_run: tuple[Path, str]) -> None:
    pairs, cpus = rows(numa_run[0])
    assert {*select_node_cells(pairs, cpus[:0])["cpu_node"]} == {-1}


@pytest.mark.parametrize(
    ("name", "cells"), [("chase", NS), ("bandwidth", GBS), ("bandwidth read", GBS)]
)
def test_a_matrix_is_exported_with_the_memory_of_nodes_without_cpus(
    numa_run: tuple[Path, str], name: str, cells: dict[tuple[int, int], float]
) -> None:
    heading, *lines = [
        line.split(",") for line in export_matrix(*numa_run, "csv", name).splitlines()
    ]
    assert heading == ["node", "0", "1", "2"]
    assert [line[0] for line in lines] == ["0", "1"]
    exported = {
        (row, node): float(text)
        for row, line in enumerate(lines)
        for node, text in enumerate(line[1:])
    }
    assert exported == {
        cell: pytest.approx(value, rel=0.002) for cell, value in cells.items()
    }


def test_an_export_is_of_one_setting_and_other_tools_have_no_nodes(
    numa_run: tuple[Path, str],
) -> None:
    with pytest.raises(
        UsageError, match="one of bandwidth/mov read, chase/mov window x1"
    ):
        export_matrix(*numa_run, "csv", None)
    with pytest.raises(UsageError, match="has no pairs of CPUs"):
        export_matrix(*numa_run, "c2clat", "chase")
    samples = "".join(export_samples(numa_run[0], [numa_run[1]], "chase")).splitlines()
    assert len(samples) == 1 + 3 * 3 * len(NS)
    assert all(",chase," in line for line in samples[1:])


@pytest.mark.long
def test_the_card_of_a_run_without_pairs_is_its_first_matrix(
    numa_run: tuple[Path, str], tmp_path: Path
) -> None:
    card = make_card(*numa_run)
    assert (card.cells[2] == SHADES).all()  # node 2 has no CPUs
    assert card.cells[0, 0] < card.cells[0, 1] < card.cells[0, 2] < SHADES
    assert ("remote", "200.2 ns") in [row[:2] for row in card.rows]
    run = publish(tmp_path, benchmarks=("bandwidth",))
    words = [text.words for text in make_card(tmp_path, run.run_id).texts]
    assert {"n2", "GB/s", "199.8", "20.0", "bandwidth/mov read by node: GB/s"} <= {
        *words
    }
    # the fastest is dark
    assert card.cells[0, 0] == make_card(tmp_path, run.run_id).cells[0, 0]

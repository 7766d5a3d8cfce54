"""Matrices of pairs by the NUMA node of their lines, and what the home costs."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import fleet
from fleet.analysis.exchange import export_matrix, export_numbers
from fleet.analysis.reduce import (
    Only,
    as_float64,
    load_cpus,
    load_history,
    load_pairs,
    name_cells,
)
from fleet.analysis.report import make_card, render
from fleet.analysis.views import (
    NO_LIMIT,
    Canvas,
    load_usual_numbers,
    render_host_table,
    render_maps,
    show_as_json,
    show_run,
)
from fleet.errors import UsageError
from fleet.model import Host, Node, Parameters
from fleet.store import Listing, Store
from tests import builders
from tests.command import Fleet

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
    page = render(homes[0], [homes[1]])
    assert "pairs whose line lies on the NUMA node of" in page


@pytest.mark.long
def test_relations_are_of_one_node_each_in_pages_and_objects(
    homes: tuple[Path, str],
) -> None:
    page = render(homes[0], [homes[1]])
    sections = re.findall(r"<h3>cas/cmpxchg (n.)</h3>(.*?)(?=<h3>)", page, re.DOTALL)
    medians = {}
    for node, section in sections:
        (medians[node],) = re.findall(r">package</th><td>2</td><td>(.*?)<", section)
    assert medians == {"n0": "145.0", "n1": "145.0", "n2": "190.0"}
    (document,) = json.loads("".join(show_as_json(homes[0], [homes[1]])))["rows"]
    assert {row["relation"] for row in document["relations"]} == {
        f"{relation} n{node}" for relation in ("package", "system") for node in range(3)
    }


def test_maps_of_hosts_are_node_by_node(homes: tuple[Path, str]) -> None:
    text = render_maps(*homes, NO_LIMIT)
    titles = re.findall(r"^cas/cmpxchg n. on homes$", text, re.MULTILINE)
    assert titles == [f"cas/cmpxchg n{node} on homes" for node in range(3)]


@pytest.mark.long
def test_a_page_has_a_map_of_each_node_and_none_of_their_medians(
    homes: tuple[Path, str],
) -> None:
    page = render(homes[0], [homes[1]])
    maps = re.findall(
        r'<caption class="unseen">cas/cmpxchg (n\d) on.*?'
        r'<th scope="row">0</th><td></td><td class="a\d+">([0-9.]+)</td>',
        page,
        re.DOTALL,
    )
    between_0_and_1 = {node: float(ns) for node, ns in maps}
    assert between_0_and_1 == pytest.approx({"n0": 100, "n1": 190, "n2": 190}, rel=0.01)


@pytest.mark.long
def test_two_sides_by_node_are_mapped_node_by_node(tmp_path: Path) -> None:
    runs = [publish(tmp_path, number) for number in range(4)]
    sides = (",".join(runs[:2]), ",".join(runs[2:]))
    page = render(tmp_path, runs, sides=sides)
    differences = page.partition("against A")[2]
    for node in range(3):
        assert f"cas/cmpxchg n{node}" in differences


def test_a_comparison_is_by_relation_and_home(homes: tuple[Path, str]) -> None:
    rows = name_cells(as_float64(load_pairs(homes[0])), load_cpus(homes[0]))
    assert set(rows["relation"]) == {
        f"{name} n{node}" for name in ("package", "system") for node in (0, 1, 2)
    }


def test_an_overview_has_the_nodes_side_by_side_in_one_table(
    homes: tuple[Path, str],
) -> None:
    listing = Listing(homes[0])
    usual = load_usual_numbers(listing, listing.runs)
    text = render_host_table(usual.table, Canvas(120), usual.descriptions)
    assert re.search(r"^host +package +package +package +system", text, re.MULTILINE)
    assert re.search(r"^ +n0 +n1 +n2 +n0 +n1 +n2", text, re.MULTILINE)
    assert "package: one socket; system: across sockets" in text


def test_medians_for_dashboards_are_by_node(homes: tuple[Path, str]) -> None:
    listing = Listing(homes[0])
    rows = export_numbers(listing, listing.runs, "markdown")
    assert "| homes | cas/cmpxchg | package n2 | 1 | 190.0 |" in rows
    of_one = export_numbers(listing, listing.runs, "markdown", Only("cas n1"))
    assert re.findall(r"package n\d", of_one) == ["package n1"]


def test_a_matrix_is_exported_of_the_node_that_is_named(
    homes: tuple[Path, str],
) -> None:
    matrix = export_matrix(*homes, "csv", "cas n0").splitlines()
    assert [float(matrix[1].split(",")[2]), float(matrix[4].split(",")[3])] == (
        pytest.approx([100, 190], rel=0.01)
    )
    with pytest.raises(UsageError, match="one of cas/cmpxchg n0, cas/cmpxchg n1, cas"):
        export_matrix(*homes, "csv", "cas")


def test_a_card_has_the_first_node_and_says_so(homes: tuple[Path, str]) -> None:
    card = make_card(*homes)
    assert "cas/cmpxchg n0, the first of 3 nodes: one-way latency" in card.title
    assert ("package", "145.0 ns") in [row[:2] for row in card.rows]


def test_a_relation_has_a_history_on_each_node(homes: tuple[Path, str]) -> None:
    listing = Listing(homes[0])
    every = load_history(listing, listing.runs, "package")
    assert {*every["relation"]} == {f"package n{node}" for node in (0, 1, 2)}
    one = load_history(listing, listing.runs, "package n2")
    assert one["median_ns"].to_list() == pytest.approx([190], rel=0.01)


def test_the_last_run_is_the_last_with_the_setting(tmp_path: Path) -> None:
    root = tmp_path / "results"
    with_node = publish(root, 1)
    publish(root, 2, homes=(1, 2))
    commands = [
        ("show", "homes", "-b"),
        ("show", "homes", "--json", "-b"),
        ("show", "homes", "--csv", "-b"),
        ("runs", "-b"),
        ("runs", "--relation", "system", "--json", "-b"),
        ("export", "homes", "-F", "numbers", "-b"),
        ("export", "homes", "-F", "samples", "-b"),
    ]
    with Fleet(tmp_path) as command:
        for words in commands:
            printed = command(*words, "cas n0").stdout
            assert with_node in printed
            assert "0badcaf2" not in printed
        matrix = command("export", "homes", "-F", "csv", "-b", "cas n0")
        command("report", "homes", "-o", "page.html", "-b", "cas n0")
        refused = command("show", "homes", "-b", "cas n7")
    assert with_node in matrix.stderr
    assert matrix.stdout.startswith("CPU,0,1,32,33\n0,,99.95")
    page = (tmp_path / "page.html").read_text()
    assert with_node in page
    assert "0badcaf2" not in page
    assert refused.exit_code == 2


def test_a_notebook_has_the_matrix_of_a_node(homes: tuple[Path, str]) -> None:
    root, run_id = homes
    of_node_1 = fleet.open(root).matrix(run_id, "cas n1")
    assert of_node_1.loc[0, 1] == pytest.approx(190, rel=0.01)
    assert of_node_1.attrs["title"].startswith("homes, cas/cmpxchg n1: ")
    first = fleet.open(root).matrix(run_id)
    assert first.loc[0, 1] == pytest.approx(100, rel=0.01)
    assert first.attrs["title"].startswith("homes, cas/cmpxchg n0: ")

"""Tables by the NUMA node of CPUs, memory or lines."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Floats
from fleet.analysis.reduce import ladders
from fleet.analysis.reduce.heatmap import Heatmap, choose_limits
from fleet.analysis.views.benchmark_tables import (
    PointTable,
    PointTables,
    describe_bursts,
)
from fleet.model import (
    SHIPPED,
    Benchmark,
    Descriptions,
    relation_sort_key,
)

BY_NODE = "rows: nodes of the CPUs, columns: of the memory"


def tabulate_by_node(
    cells: pd.DataFrame,
    run: Mapping[str, Any],
    descriptions: Descriptions = SHIPPED,
) -> list[PointTables]:
    """Return matrices by NUMA node, for each benchmark and variant of a run that was
    measured by node. cells: of the run, from `select_node_cells`.
    """
    nodes = _NodeFacts(run.get("nodes") or [])
    choices = cells.groupby(["benchmark", "variant"], sort=False, observed=True)
    return [_tabulate_node_matrices(part, nodes, descriptions) for _, part in choices]


def tabulate_line_nodes(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[PointTables]:
    """Return tables of latencies of the pairs whose cache line was placed on a NUMA
    node. A table has a row per relation, and a column per number of the pair's CPUs, 0
    to 2, that are on the line's node.
    """
    placed_pairs = ladders.select_line_placed_pairs(pairs, descriptions)
    rows = placed_pairs.assign(
        cpus_on_node=_count_cpus_on_line_node(placed_pairs, cpus),
        point=_strip_node(placed_pairs["point"]),
    )
    tables = []
    groups = rows.groupby(["benchmark", "variant", "point"], observed=True)
    for _, part in groups:
        if part["cpus_on_node"].nunique() > 1:  # else as on a machine of one node
            tables.append(_tabulate_line_nodes_of_point(part, descriptions))
    return tables


def _strip_node(points: "pd.Series[str]") -> "pd.Series[str]":
    """Return the points without the node of their line, so that those of all nodes
    become one: "random.512K.n3" -> "random.512K", "n3" -> "".
    """
    return points.str.replace(r"\.?n\d+$", "", regex=True)


def _tabulate_line_nodes_of_point(
    rows: pd.DataFrame, descriptions: Descriptions
) -> PointTables:
    """Return the table of one benchmark, variant and point."""
    first = rows.iloc[0]
    name = f"{first['benchmark']}/{first['variant']} {first['point']}"
    table = PointTable(
        title="pairs whose line lies on the NUMA node of",
        titles=("relation", "both CPUs", "one of them", "neither", "ratio"),
        lines=_list_latencies_by_line_node(rows),
    )
    return PointTables(
        name=name.rstrip(),
        legend=descriptions[str(first["benchmark"])].heading,
        tables=[table],
        note=describe_bursts(rows),
    )


def _count_cpus_on_line_node(
    pairs: pd.DataFrame, cpus: pd.DataFrame
) -> "pd.Series[int]":
    """Count for each pair which of its two CPUs are on the NUMA node of its line."""
    node_of_cpu = dict(zip(cpus["cpu"], cpus["node"], strict=True))
    ping_nodes = pairs["ping_cpu"].map(node_of_cpu)
    pong_nodes = pairs["pong_cpu"].map(node_of_cpu)
    line_nodes = pairs["memory_node"]
    is_ping_near = (ping_nodes == line_nodes).astype(int)
    is_pong_near = (pong_nodes == line_nodes).astype(int)
    return is_ping_near + is_pong_near


def _list_latencies_by_line_node(pairs: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return a table row per relation: the medians of the pairs with both CPUs, one CPU
    and no CPU on the NUMA node of their cache line; then the ratio of the largest
    median to the smallest.
    """
    groups = pairs.groupby(["relation", "cpus_on_node"], observed=True)
    medians = groups["median_ns"].median()
    relations = sorted(pairs["relation"].unique(), key=relation_sort_key)
    lines = list[tuple[str, ...]]()
    for relation in relations:
        near_both = medians.get((relation, 2))
        near_one = medians.get((relation, 1))
        near_neither = medians.get((relation, 0))
        line = (
            relation,
            _format_ns(near_both),
            _format_ns(near_one),
            _format_ns(near_neither),
            _format_ratio((near_both, near_one, near_neither)),
        )
        lines.append(line)
    return lines


def _format_ns(ns: float | None) -> str:
    return "-" if ns is None else f"{ns:.1f}"


def _format_ratio(values: Iterable[float | None]) -> str:
    """Format the ratio of the largest to the smallest number; "-" of fewer than two."""
    numbers = [value for value in values if value is not None]
    if len(numbers) < 2:
        return "-"
    return f"{max(numbers) / min(numbers):.2f}"


class _NodeFacts:
    """Holds what a run says of its NUMA nodes."""

    def __init__(self, facts: Sequence[Mapping[str, Any]]) -> None:
        self.not_allowed = [node["node"] for node in facts if not node["allowed"]]
        self.distances: dict[tuple[int, int], str] = {}
        for node in facts:
            for other, distance in node["distances"]:
                self.distances[node["node"], other] = str(distance)


def _tabulate_node_matrices(
    cells: pd.DataFrame, nodes: _NodeFacts, descriptions: Descriptions
) -> PointTables:
    """Return a matrix per setting of one benchmark and variant."""
    first = cells.iloc[0]
    benchmark = descriptions[first["benchmark"]]
    tables = []
    for setting in ladders.sort_settings(cells, descriptions):
        part = cells[cells["setting"] == setting]
        tables.append(_tabulate_node_matrix(setting, part, benchmark, nodes))
    return PointTables(
        name=f"{first['benchmark']}/{first['variant']}",
        legend=f"{benchmark.heading}; {BY_NODE}",
        tables=tables,
        note="; ".join(_list_notes(cells, nodes)),
    )


def _tabulate_node_matrix(
    setting: str, cells: pd.DataFrame, benchmark: Benchmark, nodes: _NodeFacts
) -> PointTable:
    """Return a table with a row per node of CPUs and a column per node of memory.

    setting: such as "read x1". cells: of this setting. `numbers` and `rates` are by the
    node of CPUs and that of memory, and lack what was not measured; `values`, row by
    row, gives the colours.
    """
    cpu_nodes, memory_nodes, numbers = ladders.lay_out_node_matrix(cells)
    _, _, rates = ladders.lay_out_node_matrix(cells, "other_rate")
    lines = []
    values = []
    for cpu_node in cpu_nodes:
        places = [(cpu_node, memory_node) for memory_node in memory_nodes]
        values.append([numbers.get(place, np.nan) for place in places])
        line = [f"node {cpu_node}"]
        for place in places:
            number = _format_cell_number(benchmark, place, numbers)
            line.append(f"{number}{_describe_cell(place, nodes, rates)}")
        lines.append(tuple(line))
    titles = ("CPUs", *(f"node {node}" for node in memory_nodes))
    return PointTable(
        title=f"{setting}{_compare_remote_with_local(benchmark, numbers)}",
        titles=titles,
        lines=lines,
        shades=_choose_shades(titles, np.array(values)),
    )


def _format_cell_number(
    benchmark: Benchmark, place: tuple[int, int], numbers: ladders.NodeMatrix
) -> str:
    """Format the number of a node of CPUs and a node of memory; own memory is marked
    with an asterisk.
    """
    ns = numbers.get(place)
    number = "-" if ns is None else text.format_value(benchmark, ns)
    cpu_node, memory_node = place
    return f"{number}*" if cpu_node == memory_node else number


def _describe_cell(
    place: tuple[int, int], nodes: _NodeFacts, rates: ladders.NodeMatrix
) -> str:
    """Return the distance of two nodes and the rate that others get meanwhile, each if
    known: " (21) at 3.2 GB/s".
    """
    words = ""
    if place in nodes.distances:
        words += f" ({nodes.distances[place]})"
    rate = rates.get(place, 0)
    if rate > 0:  # not NaN
        words += f" at {rate:.1f} GB/s"
    return words


def _choose_shades(titles: tuple[str, ...], values: Floats) -> list[list[int]]:
    limits = choose_limits([values])
    drawn = Heatmap(titles, (), values, limits)
    shades: list[list[int]] = drawn.choose_shades().tolist()
    return shades


def _list_notes(cells: pd.DataFrame, nodes: _NodeFacts) -> Iterator[str]:
    """Yield the notes below the matrices. cells: a row per node of CPUs and node of
    memory; `other_rate` is what threads that load the memory meanwhile get, in GB/s.
    """
    yield describe_bursts(cells)
    has_load = cells["other_rate"].notna().any()
    if has_load:  # a cell then ends in that rate: "98.2 (10) at 20.1 GB/s"
        yield "at: what others get meanwhile"
    if nodes.distances:
        yield "*: own memory; (10): distance, as the firmware has it"
    else:
        yield "*: own memory"
    memory_nodes = set(cells["memory_node"])
    without_cpus = sorted(memory_nodes.difference(cells["cpu_node"]))
    if without_cpus:
        yield f"without CPUs of the run: node {', '.join(map(str, without_cpus))}"
    for node in nodes.not_allowed:
        yield f"node {node}: not allowed here"


def _compare_remote_with_local(benchmark: Benchmark, matrix: ladders.NodeMatrix) -> str:
    """Return ": remote/local 1.61, worst node 0 to 3 2.10": the median of the numbers
    of remote memory relative to that of a node's own, and the worst pair of nodes.
    Return "" without both kinds of memory.

    matrix: ns by the node of CPUs and that of memory.
    """
    ratios = _compute_remote_ratios(benchmark, matrix)
    if not ratios:
        return ""
    # Remote memory is taken to be the worse: its times have ratios above 1, its rates
    # below. So the worst ratio of either is the farthest from 1.
    distances = {place: abs(math.log(ratio)) for place, ratio in ratios.items()}
    worst = max(distances, key=distances.__getitem__)
    cpu_node, memory_node = worst
    middle = median(ratios.values())
    return (
        f": remote/local {middle:.2f}, worst node {cpu_node} to"
        f" {memory_node} {ratios[worst]:.2f}"
    )


def _compute_remote_ratios(
    benchmark: Benchmark, matrix: ladders.NodeMatrix
) -> dict[tuple[int, int], float]:
    """Return the number of each remote memory divided by that of the own memory of the
    same CPUs. The keys are the node of CPUs and that of memory, as in `matrix`, which
    is in ns.
    """
    ratios = {}
    for (cpu_node, memory_node), ns in matrix.items():
        own_ns = matrix.get((cpu_node, cpu_node))
        if cpu_node != memory_node and own_ns is not None:
            remote = text.convert_to_shown(benchmark, ns)
            local = text.convert_to_shown(benchmark, own_ns)
            ratios[cpu_node, memory_node] = remote / local
    return ratios

"""Tables by the NUMA node of CPUs, memory or lines."""

import math
from collections.abc import Mapping
from itertools import product
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
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

_ENDS = ["ping_cpu", "pong_cpu"]
BY_NODE = "rows: nodes of the CPUs, columns: of the memory"


def tabulate_by_node(
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    run: Mapping[str, Any],
    descriptions: Descriptions = SHIPPED,
) -> list[PointTables]:
    """Return matrices by NUMA node, for each benchmark and variant of a run that was
    measured by node.
    """
    node_facts = run.get("nodes") or []
    cells = ladders.select_node_cells(pairs, cpus, descriptions)
    groups = cells.groupby(["benchmark", "variant"], sort=False, observed=True)
    return [
        _tabulate_node_matrices(part, node_facts, descriptions) for _, part in groups
    ]


def tabulate_line_nodes(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[PointTables]:
    """Return tables of latencies by relation and by how many of a pair's CPUs are on
    the line's NUMA node.
    """
    rows = ladders.select_line_placed_pairs(pairs, descriptions)
    nodes = dict(zip(cpus["cpu"], cpus["node"], strict=True))
    near = sum(
        (rows[name].map(nodes) == rows["memory_node"]).astype(int) for name in _ENDS
    )
    rows = rows.assign(
        near=near, point=rows["point"].str.replace(r"\.?n\d+$", "", regex=True)
    )
    results = []
    for (name, variant, point), part in rows.groupby(
        ["benchmark", "variant", "point"], observed=True
    ):
        if part["near"].nunique() == 1:  # as on a machine of one node
            continue
        medians = part.groupby(["relation", "near"], observed=True)[
            "median_ns"
        ].median()
        lines = []
        for relation in sorted(part["relation"].unique(), key=relation_sort_key):
            values = [medians.get((relation, near)) for near in (2, 1, 0)]
            numbers = [value for value in values if value is not None]
            cost = f"{max(numbers) / min(numbers):.2f}" if len(numbers) > 1 else "-"
            lines.append(
                (relation, *("-" if ns is None else f"{ns:.1f}" for ns in values), cost)
            )
        titles = ("relation", "both CPUs", "one of them", "neither", "ratio")
        title, heading = (
            f"{name}/{variant} {point}".rstrip(),
            descriptions[str(name)].heading,
        )
        homes = PointTable("pairs whose line lies on the NUMA node of", titles, lines)
        results.append(PointTables(title, heading, [homes], describe_bursts(part)))
    return results


def _tabulate_node_matrices(
    cells: pd.DataFrame, node_facts: list[dict[str, Any]], descriptions: Descriptions
) -> PointTables:
    first = cells.iloc[0]
    benchmark = descriptions[first["benchmark"]]
    distances = {
        (facts["node"], far): str(how)
        for facts in node_facts
        for far, how in facts["distances"]
    }
    tables = []
    for setting in ladders.sort_settings(cells, descriptions):
        part = cells[cells["setting"] == setting]
        rows, columns, matrix = ladders.lay_out_node_matrix(part)
        rates = ladders.lay_out_node_matrix(part, "other_rate")[2]
        texts = {row: [f"node {row}"] for row in rows}
        for cell in product(rows, columns):
            ns, far, rate = matrix.get(cell), distances.get(cell), rates.get(cell, 0)
            number = ("-" if ns is None else text.format_value(benchmark, ns)) + "*" * (
                cell[0] == cell[1]
            )
            load = f" at {rate:.1f} GB/s" if rate > 0 else ""
            texts[cell[0]].append(number + (f" ({far})" if far else "") + load)
        titles = ("CPUs", *(f"node {node}" for node in columns))
        values = np.array(
            [[matrix.get((row, node), np.nan) for node in columns] for row in rows]
        )
        shades = (
            Heatmap(titles, (), values, choose_limits([values]))
            .choose_shades()
            .tolist()
        )
        title = f"{setting}{_compare_remote_with_local(benchmark, matrix)}"
        tables.append(PointTable(title, titles, [*map(tuple, texts.values())], shades))
    without = sorted({*cells["memory_node"]} - {*cells["cpu_node"]})
    note = [
        describe_bursts(cells),
        "at: what others get meanwhile" if cells["other_rate"].notna().any() else "",
        "*: own memory"
        + ("; (10): distance, as the firmware has it" if distances else ""),
        (
            f"without CPUs of the run: node {', '.join(map(str, without))}"
            if without
            else ""
        ),
        *(
            f"node {facts['node']}: not allowed here"
            for facts in node_facts
            if not facts["allowed"]
        ),
    ]
    name, legend = (
        f"{first['benchmark']}/{first['variant']}",
        f"{benchmark.heading}; {BY_NODE}",
    )
    return PointTables(name, legend, tables, "; ".join(filter(None, note)))


def _compare_remote_with_local(benchmark: Benchmark, matrix: ladders.NodeMatrix) -> str:
    """Compare remote memory with a node's own, and name the worst pair of nodes; ""
    without both.
    """
    values = {cell: text.convert_to_shown(benchmark, ns) for cell, ns in matrix.items()}
    away = [(row, node) for row, node in values if row != node and (row, row) in values]
    ratios = {(row, node): values[row, node] / values[row, row] for row, node in away}
    if not ratios:
        return ""
    (row, node), worst = max(ratios.items(), key=lambda item: abs(math.log(item[1])))
    return (
        f": remote/local {median(ratios.values()):.2f}, worst node {row} to {node}"
        f" {worst:.2f}"
    )

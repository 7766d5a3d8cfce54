"""Matrices by NUMA node: rows are CPUs, columns memory."""

from collections.abc import Mapping
from math import log
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.text import convert_to_shown, format_value
from fleet.analysis.reduce.heatmap import Heatmap, choose_limits
from fleet.analysis.reduce.ladders import NodeMatrix, lay_out_node_matrix, select_node_cells, sort_settings
from fleet.analysis.views.by_parameters import PointTable, PointTables
from fleet.analysis.views.ladders import describe_bursts
from fleet.model import SHIPPED, Descriptions

BY_NODE = "rows: nodes of the CPUs, columns: of the memory"


def tabulate_nodes(
    pairs: pd.DataFrame, cpus: pd.DataFrame, run: Mapping[str, Any], descriptions: Descriptions = SHIPPED
) -> list[PointTables]:
    """Return the matrices of each benchmark and variant of a run that was measured by node."""
    node_facts = run.get("nodes") or []
    cells = select_node_cells(pairs, cpus, descriptions).groupby(
        ["benchmark", "variant"], sort=False, observed=True
    )
    return [_tables(part, node_facts, descriptions) for _, part in cells]


def _tables(cells: pd.DataFrame, node_facts: list[dict[str, Any]], descriptions: Descriptions) -> PointTables:
    name, variant = str(cells["benchmark"].iloc[0]), cells["variant"].iloc[0]
    distances = {(facts["node"], far): str(how) for facts in node_facts for far, how in facts["distances"]}
    tables = []
    for setting in sort_settings(cells, descriptions):
        part = cells[cells["setting"] == setting]
        rows, columns, matrix = lay_out_node_matrix(part)
        others = lay_out_node_matrix(part, "other_rate")[2]
        rates = {cell: f" at {rate:.1f} GB/s" for cell, rate in others.items() if rate > 0}
        lines = []
        for row in rows:
            line = [f"node {row}"]
            for node in columns:
                ns, far = matrix.get((row, node)), distances.get((row, node))
                number = "-" if ns is None else format_value(descriptions[name], ns)
                far_text = f" ({far})" if far else ""
                line.append(number + "*" * (row == node) + far_text + rates.get((row, node), ""))
            lines.append(tuple(line))
        titles = ("CPUs", *(f"node {node}" for node in columns))
        values = np.array([[matrix.get((row, node), np.nan) for node in columns] for row in rows])
        shades = Heatmap(titles, (), values, choose_limits([values])).choose_shades().tolist()
        tables.append(PointTable(f"{setting}{_ratio(name, matrix, descriptions)}", titles, lines, shades))
    without = sorted({*cells["memory_node"]} - {*cells["cpu_node"]})
    note = [
        describe_bursts(cells),
        "at: what others get meanwhile" if cells["other_rate"].notna().any() else "",
        "*: own memory" + ("; (10): distance, as the firmware has it" if distances else ""),
        f"without CPUs of the run: node {', '.join(map(str, without))}" if without else "",
        *(f"node {facts['node']}: not allowed here" for facts in node_facts if not facts["allowed"]),
    ]
    legend = f"{descriptions[name].heading}; {BY_NODE}"
    return PointTables(f"{name}/{variant}", legend, tables, "; ".join(filter(None, note)))


def _ratio(name: str, matrix: NodeMatrix, descriptions: Descriptions) -> str:
    """Compare remote memory with a node's own, and name the worst pair; empty without either."""
    values_by_cell = {cell: convert_to_shown(descriptions[name], ns) for cell, ns in matrix.items()}
    ratios = {
        (row, node): value / values_by_cell[row, row]
        for (row, node), value in values_by_cell.items()
        if row != node and (row, row) in values_by_cell
    }
    if not ratios:
        return ""
    (row, node), worst = max(ratios.items(), key=lambda item: abs(log(item[1])))
    return f": remote/local {median(ratios.values()):.2f}, worst node {row} to {node} {worst:.2f}"

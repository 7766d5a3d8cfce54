"""Numbers by NUMA node: a cell has the CPUs of one node and the memory of another."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from fleet.analysis.reduce.ladders import by_node, setting_of
from fleet.model import benchmark_named

CELL = ["benchmark", "variant", "setting", "cpu_node", "memory_node"]


@dataclass(frozen=True, slots=True)
class NodeMatrix:
    """Medians in ns of a unit. rows: nodes of the CPUs; columns: of the memory, those without CPUs last."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    ns: Mapping[tuple[int, int], float]


def node_cells(pairs: pd.DataFrame, cpus: pd.DataFrame) -> pd.DataFrame:
    """The rows that have their memory on a node that was asked for, in their columns and those of CELL.

    `cpu_node`: of ping, -1 if unknown. `setting`: as of a ladder, with x1 for one CPU; of several CPUs only
    the largest group of a cell is kept. pairs: of any runs; cpus: of the same.
    """
    rows = pairs[by_node(pairs)]
    if rows.empty:
        return rows.assign(cpu_node=0, setting="")
    known = cpus.set_index(["run_id", "cpu"])["node"]
    ends = pd.MultiIndex.from_frame(rows[["run_id", "ping_cpu"]].astype({"run_id": str}))
    names = {name: benchmark_named(str(name)).node for name in rows["benchmark"].unique()}
    memory = [rows.loc[rows["benchmark"] == name, node.name] for name, node in names.items() if node]
    threads = rows["threads"].fillna(1).astype(int)
    points = zip(rows["point"], rows["bytes"], threads, strict=True)
    rows = rows.assign(
        cpu_node=known.reindex(ends).fillna(-1).to_numpy(dtype=int),
        memory_node=pd.concat(memory).astype(int),
        setting=[setting_of(str(point), int(size)) + " x1" * (count == 1) for point, size, count in points],
        threads=threads,
    )
    most = rows.groupby(["run_id", *CELL], observed=True)["threads"].transform("max")
    return rows[rows["threads"] == most]


def matrix_of(cells: pd.DataFrame) -> NodeMatrix:
    """The matrix of one benchmark, variant and setting."""
    ns = {
        (int(str(row)), int(str(node))): float(part["median_ns"].median())
        for row, one in cells.groupby("cpu_node")
        for node, part in one.groupby("memory_node")
    }
    rows = sorted({row for row, _ in ns})
    columns = sorted({node for _, node in ns}, key=lambda node: (node not in rows, node))
    return NodeMatrix(tuple(rows), tuple(columns), ns)


def is_local(cells: pd.DataFrame) -> "pd.Series[bool]":
    """Whether the memory is of the CPUs' own node."""
    return cells["cpu_node"] == cells["memory_node"]

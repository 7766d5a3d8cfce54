"""Numbers by NUMA node: a cell has the CPUs of one node and the memory of another."""

from fleet.analysis.frame import Rows, Values
from fleet.analysis.reduce.ladders import by_node, setting_of
from fleet.analysis.views.text import records
from fleet.model import benchmark_named

CELL = ["benchmark", "variant", "setting", "cpu_node", "memory_node"]


def node_cells(pairs: Rows, cpus: Rows) -> Rows:
    """The rows that have their memory on a node that was asked for, in their columns and those of CELL.

    `cpu_node`: of ping, -1 if unknown. `setting`: as of a ladder, with x1 for one CPU; of several CPUs only
    the largest group of a cell is kept. pairs: of any runs; cpus: of the same.
    """
    rows = pairs[by_node(pairs)]
    if rows.empty:
        return rows.assign(cpu_node=0, setting="")
    known = dict(zip(zip(cpus["run_id"], cpus["cpu"], strict=True), cpus["node"].fillna(-1), strict=True))
    ends = zip(rows["run_id"], rows["ping_cpu"], strict=True)
    names = {name: benchmark_named(str(name)).node for name in rows["benchmark"].unique()}
    memory = [row[node.name] for row in records(rows) if (node := names[row["benchmark"]])]
    threads = rows["threads"].fillna(1).astype(int)
    points = zip(rows["point"], rows["bytes"], threads, strict=True)
    rows = rows.assign(
        cpu_node=[int(known.get(end, -1)) for end in ends],
        memory_node=[int(node) for node in memory],
        setting=[setting_of(str(point), int(size)) + " x1" * (count == 1) for point, size, count in points],
        threads=threads,
    )
    most = rows.groupby(["run_id", *CELL], observed=True)["threads"].transform("max")
    return rows[rows["threads"] == most]


def is_local(cells: Rows) -> Values:
    """Whether the memory is of the CPUs' own node."""
    return cells["cpu_node"] == cells["memory_node"]

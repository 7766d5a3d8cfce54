"""The comparisons of a report: each host with the first one, or each run of one host with its first."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.compare.comparison import Comparison, compare
from fleet.analysis.reduce.heatmap import MOST_NUMBERS, of_changes
from fleet.analysis.reduce.matrices import matrix
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report.cells import CellTable, cell_table
from fleet.analysis.report.figures import thumbnail
from fleet.analysis.report.read_runs import Part, Reading
from fleet.analysis.views.text import records

_MANY = 6  # differences; of more, each map is but a small picture


@dataclass(frozen=True, slots=True)
class Residual:
    """The change of each pair of a benchmark relative to the change of its relation.

    limit: the end of its colour scale, relative. cells: on small machines; picture: a data URI, where there
    are many differences.
    """

    kind: str
    change: pd.DataFrame
    order: Layout
    limit: float
    cells: CellTable | None
    picture: str | None


@dataclass(frozen=True, slots=True)
class Difference:
    """b against a. relations: as `compare_relations` returns them, a row each."""

    a: str
    b: str
    threshold: float
    relations: list[dict[str, Any]]
    environment: list[dict[str, Any]]
    caveats: tuple[str, ...]
    residuals: list[Residual]


def differences(root: str | Path, readings: Sequence[Reading]) -> list[Difference]:
    """The comparisons of a report; empty for a single run."""
    groups = _groups([reading for reading in readings if reading.parts or reading.ladders])
    if len(groups) < 2:
        return []
    compared = compare(root, [",".join(reading.run["run_id"] for reading in group) for group in groups])
    small = len(compared) > _MANY
    return [
        _difference(found, groups[0], group, small=small)
        for found, group in zip(compared, groups[1:], strict=True)
    ]


def _groups(readings: Sequence[Reading]) -> list[list[Reading]]:
    """The runs of each host; of a single host, each run by itself."""
    hosts: dict[str, list[Reading]] = {}
    for reading in readings:
        hosts.setdefault(reading.run["host_id"], []).append(reading)
    if len(hosts) == 1:
        return [[reading] for reading in readings]
    return list(hosts.values())


def _difference(found: Comparison, a: Sequence[Reading], b: Sequence[Reading], *, small: bool) -> Difference:
    by_host = len({reading.run["host_id"] for reading in (*a, *b)}) > 1
    names = [side[0].run["host_name"] if by_host else side[0].run["run_id"] for side in (a, b)]
    return Difference(
        a=names[0],
        b=names[1],
        threshold=found.threshold,
        relations=records(found.relations),
        environment=records(found.environment),
        caveats=tuple(_named(line, found, names) for line in found.caveats),
        residuals=_residuals(found, a, b, small=small) if _alike(a, b) else [],
    )


def _named(line: str, found: Comparison, names: Sequence[str]) -> str:
    """A sentence about the sides, with their names on the page instead of run ids."""
    return line.replace(found.a.name, names[0]).replace(found.b.name, names[1])


def _alike(a: Sequence[Reading], b: Sequence[Reading]) -> bool:
    """Whether a cell means the same on both sides: one host, or one CPU model, with the same topology."""
    runs = (*a, *b)
    hosts = {reading.run["host_id"] for reading in runs}
    models = {reading.run["cpu_model"] for reading in runs}
    orders = {(reading.order.cpus, reading.order.groups) for reading in runs}
    return len(orders) == 1 and (len(hosts) == 1 or (len(models) == 1 and None not in models))


def _residuals(
    found: Comparison, a: Sequence[Reading], b: Sequence[Reading], *, small: bool
) -> list[Residual]:
    order, residuals = a[0].order, []
    for part in a[0].parts:
        if part.is_clock or len(part.pairs) < 2:
            continue
        sides = [_typical(side, part.name, order) for side in (a, b)]
        if sides[0] is None or sides[1] is None:
            continue
        shift = matrix(_shifts(found, part), order.cpus, "ratio")
        change = sides[1] / sides[0] / shift - 1
        drawn = of_changes(change, order)
        cells = cell_table(drawn, "{:+.0f}") if len(order.cpus) <= MOST_NUMBERS and not small else None
        picture = thumbnail(drawn, "PuOr_r") if small else None
        residuals.append(Residual(part.name, change, order, drawn.limits[1] / 100, cells, picture))
    return residuals


def _typical(side: Sequence[Reading], kind: str, order: Layout) -> pd.DataFrame | None:
    """The geometric mean of the runs' matrices; None where a run has none of this benchmark."""
    parts = [part for reading in side for part in reading.parts if part.name == kind]
    if len(parts) < len(side):
        return None
    tables = [matrix(part.pairs, order.cpus, part.number) for part in parts]
    logs = np.mean([np.log(table.to_numpy()) for table in tables], axis=0)
    return pd.DataFrame(np.exp(logs), index=tables[0].index, columns=tables[0].columns)


def _shifts(found: Comparison, part: Part) -> pd.DataFrame:
    """The pairs, each with the change of its relation."""
    rows = found.relations
    benchmark, _, variant = part.name.partition("/")
    own = rows[(rows["benchmark"] == benchmark) & (rows["variant"] == variant)]
    return part.pairs.assign(ratio=part.pairs["relation"].map(own.set_index("relation")["ratio"]))

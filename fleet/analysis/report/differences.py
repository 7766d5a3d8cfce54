"""Compare the two sides of a report host by host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.text import convert_change, to_records
from fleet.analysis.compare.comparison import Comparison, compare
from fleet.analysis.compare.judge import find_chance_limits
from fleet.analysis.compare.sides import Tables
from fleet.analysis.reduce.heatmap import Heatmap, map_changes
from fleet.analysis.reduce.matrices import grids, matrix
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report.figures import thumbnail
from fleet.analysis.report.plots import CHANGES
from fleet.analysis.report.read_runs import Reading
from fleet.analysis.views.compare import explain_scatter, format_open_relations, render_headlines
from fleet.model import Descriptions
from fleet.store.runs import Root

_MANY = 2  # differences; of more, each map is but a small picture


@dataclass(frozen=True, slots=True)
class Residual:
    """The change of each pair beside its relation, grey where it may be chance.

    picture: a data URI, if many.
    """

    kind: str
    drawn: Heatmap
    picture: str | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A comparison and its maps. rows: one per relation."""

    comparison: Comparison
    rows: list[dict[str, Any]]
    residuals: list[Residual]


@dataclass(frozen=True, slots=True)
class Forest:
    """The changes of one relation, as `plots.forest` takes them.

    effect: over all hosts, if any; also the first row.
    """

    name: str
    relation: str
    threshold: float
    rows: pd.DataFrame
    effect: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Differences:
    """All comparisons of a page. headlines, scatter, rows: from `views.compare`."""

    sides: tuple[str, str]
    by_host: list[Difference]
    forests: list[Forest]
    headlines: list[str]
    scatter: str
    rows: list[tuple[str, tuple[str, ...]]]


def differences(
    root: Root, readings: Sequence[Reading], tables: Tables, sides: tuple[str, str]
) -> Differences:
    """Compare two sides host by host, baseline first. tables: those of all readings' runs."""
    by_run = {reading.run["run_id"]: reading for reading in readings}
    places = tables.pairs.groupby("run_id", sort=False, observed=True).indices
    comparisons = compare(root, sides, tables=tables)
    drawn = []
    for comparison in comparisons:
        a, b = ([by_run[run] for run in side.runs["run_id"]] for side in (comparison.a, comparison.b))
        rows = [places.get(reading.run["run_id"], []) for reading in (*a, *b)]
        pairs = tables.pairs.iloc[[*chain(*rows)]].assign(
            run=np.repeat(np.arange(len(rows)), [*map(len, rows)])
        )
        small = len(comparisons) > _MANY
        residuals = _compute_residuals(comparison, a, b, pairs, small=small) if _are_alike(a, b) else []
        drawn.append(Difference(comparison, to_records(comparison.relations), residuals))
    some = [comparison for comparison in comparisons if len(comparison.relations)]
    scatter = explain_scatter(pd.concat([comparison.relations for comparison in some])) if some else ""
    return Differences(
        sides,
        drawn,
        _collect_forests(comparisons),
        render_headlines(some),
        scatter,
        format_open_relations(some),
    )


def _collect_forests(compared: Sequence[Comparison]) -> list[Forest]:
    """Return a forest for each benchmark and relation with a verdict in two or more comparisons."""
    pooled = {
        (row["benchmark"], row["variant"], row["relation"]): row
        for comparison in compared
        for row in to_records(comparison.fleet)
    }
    rows_by_relation: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for comparison in compared:
        label = comparison.b.hosts[0] if comparison.a.hosts == comparison.b.hosts else comparison.b.name
        for row in to_records(comparison.relations):
            if row["low"] is not None:
                key = (row["benchmark"], row["variant"], row["relation"])
                rows_by_relation.setdefault(key, []).append(_forest_row(row, label, comparison.descriptions))
    forests = []
    for key, rows in rows_by_relation.items():
        if len(rows) > 1:
            above = [_forest_row(pooled[key], "all hosts", compared[0].descriptions)] if key in pooled else []
            about = (f"{key[0]}/{key[1]}", key[2], compared[0].threshold)
            forests.append(Forest(*about, pd.DataFrame([*above, *rows]), pooled.get(key)))
    return forests


def _forest_row(row: Mapping[str, Any], name: str, descriptions: Descriptions) -> dict[str, Any]:
    change, low, high = convert_change(row, descriptions)
    return {"name": name, "change": change, "low": low, "high": high, "pooled": "hosts" in row}


def _are_alike(a: Sequence[Reading], b: Sequence[Reading]) -> bool:
    """Report whether a cell means the same on both sides: one host or one CPU model, with one topology."""
    runs = (*a, *b)
    hosts = {reading.run["host_id"] for reading in runs}
    models = {reading.run["cpu_model"] for reading in runs}
    orders = {(reading.order.cpus, reading.order.groups) for reading in runs}
    return len(orders) == 1 and (len(hosts) == 1 or (len(models) == 1 and None not in models))


def _compute_residuals(
    comparison: Comparison, a: Sequence[Reading], b: Sequence[Reading], pairs: pd.DataFrame, *, small: bool
) -> list[Residual]:
    """Map how pairs changed beside their relation. pairs: with `run`, the index of each one's reading."""
    order, residuals = a[0].order, []
    for part in a[0].parts:
        benchmark, _, variant = part.name.partition("/")
        rows = pairs[(pairs["benchmark"] == benchmark) & (pairs["variant"] == variant)]
        numbers = [other.number for reading in (*a, *b) for other in reading.parts if other.name == part.name]
        if part.of_cpus or (rows["run"] == 0).sum() < 2 or len(numbers) < len(a) + len(b):
            continue
        columns = np.array(numbers)[rows["run"].to_numpy()]  # a pair's number is in the column of its run
        every = {name: rows[name].to_numpy() for name in set(numbers)}
        rows = rows.assign(ns=np.select([columns == name for name in every], list(every.values()), np.nan))
        logs = np.log(grids(rows, order.cpus, "ns", rows["run"].to_numpy(), len(numbers)))
        relations = comparison.relations
        own = relations[(relations["benchmark"] == benchmark) & (relations["variant"] == variant)]
        ratios, first = own.set_index("relation")["ratio"], rows[rows["run"] == 0]
        shift = matrix(first.assign(ratio=first["relation"].map(ratios)), order.cpus, "ratio")
        moved = np.mean(logs[len(a) :], axis=0) - np.mean(logs[: len(a)], axis=0)
        change = pd.DataFrame(np.exp(moved), index=shift.index, columns=shift.columns) / shift - 1
        drawn = map_changes(change, order, _estimate_chance(rows, len(a), order))
        residuals.append(Residual(part.name, drawn, thumbnail(drawn, CHANGES) if small else None))
    return residuals


def _estimate_chance(pairs: pd.DataFrame, first: int, order: Layout) -> pd.DataFrame:
    """Return the largest relative change of each pair that chance explains.

    first: number of runs of side A.
    """
    keys = ["relation", "ping_cpu", "pong_cpu", "run"]
    rows = pairs[[*keys, "ns"]].set_index(keys).unstack("run").sort_index()
    logs = np.log(rows["ns"].to_numpy())
    half = find_chance_limits(logs[:, :first], logs[:, first:], rows.index.get_level_values("relation"))
    return matrix(rows.index.to_frame(index=False).assign(half=half), order.cpus, "half")

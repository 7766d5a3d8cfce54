"""The comparisons of a report: two sides host by host, each host with the first one, or one host's runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.compare.comparison import Comparison, Tables, compare
from fleet.analysis.compare.side_runs import largest_by_chance
from fleet.analysis.plots import CHANGES
from fleet.analysis.reduce.heatmap import Heatmap, of_changes
from fleet.analysis.reduce.matrices import grids, matrix
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report.figures import thumbnail
from fleet.analysis.report.read_runs import Reading, rows_by_run
from fleet.analysis.views.answer import headlines, open_rows
from fleet.analysis.views.text import change_shown, records
from fleet.errors import UsageError
from fleet.model import Descriptions
from fleet.store.runs import Root

_MANY = 2  # differences; of more, each map is but a small picture
_ANSWERED = 3  # hosts beside the first one; of more, the table of medians says more


@dataclass(frozen=True, slots=True)
class Residual:
    """The change of each pair beside its relation, grey where it may be chance; picture: a URI, if many."""

    kind: str
    drawn: Heatmap
    picture: str | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A comparison, and its maps. rows: its relations, one each."""

    found: Comparison
    rows: list[dict[str, Any]]
    residuals: list[Residual]


@dataclass(frozen=True, slots=True)
class Forest:
    """The changes of one relation, as `plots.forest` takes them; effect: over all hosts, if any, first."""

    name: str
    relation: str
    threshold: float
    rows: pd.DataFrame
    effect: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Differences:
    """All comparisons of a page. headlines, rows: the answer, of `views.answer`; none of too many hosts."""

    sides: tuple[str, str] | None
    found: list[Difference]
    forests: list[Forest]
    headlines: list[str]
    rows: list[tuple[str, tuple[str, ...]]]


def differences(
    root: Root, readings: Sequence[Reading], tables: Tables, sides: tuple[str, str] | None = None
) -> Differences:
    """The comparisons of a report; none of a single run. sides: baseline first. tables: of all its runs."""
    known, places = {reading.run["run_id"]: reading for reading in readings}, rows_by_run(tables.pairs)
    if sides is None:
        measured = [one for one in readings if one.ladders or one.points or one.products or one.parts]
        groups = [[*of_host] for _, of_host in groupby(measured, lambda reading: reading.run["host_id"])]
        groups = groups if len(groups) > 1 else [[one] for one in measured]  # of one host, each run by itself
        if len(groups) < 2:
            return Differences(None, [], [], [], [])
        texts = [",".join(reading.run["run_id"] for reading in group) for group in groups]
    try:
        every = compare(root, sides or texts, tables=tables)
    except UsageError:
        if sides is None:  # nobody asked for a comparison, and these hosts have nothing to compare
            return Differences(None, [], [], [], [])
        raise
    compared, found = [], []
    for one in every:
        a, b = ([known[run] for run in side.runs["run_id"]] for side in (one.a, one.b))
        compared.append(one if sides is not None else _named(one, a, b))
        rows = [range(len(tables.pairs))[places.get(one.run["run_id"], slice(0))] for one in (*a, *b)]
        of_runs = np.repeat(np.arange(len(rows)), [*map(len, rows)])
        pairs = tables.pairs.iloc[[*chain(*rows)]].assign(run=of_runs)
        residuals = _residuals(one, a, b, pairs, small=len(every) > _MANY) if _alike(a, b) else []
        found.append(Difference(compared[-1], records(one.relations), residuals))
    few = [one for one in compared if len(one.relations)] if sides or len(compared) <= _ANSWERED else []
    return Differences(sides, found, _forests(compared), headlines(few), open_rows(few))


def _named(one: Comparison, *sides: Sequence[Reading]) -> Comparison:
    """The comparison with the sides' names on the page instead of run ids."""
    hosts = {reading.run["host_id"] for side in sides for reading in side}
    a, b = (side[0].run["host_name" if len(hosts) > 1 else "run_id"] for side in sides)
    caveats = tuple(line.replace(one.a.name, a).replace(one.b.name, b) for line in one.caveats)
    return replace(one, a=replace(one.a, name=a), b=replace(one.b, name=b), caveats=caveats)


def _forests(compared: Sequence[Comparison]) -> list[Forest]:
    """A forest per benchmark and relation that two comparisons or more have a verdict of."""
    effects = [row for rows in {one.sides: one.fleet for one in compared}.values() for row in records(rows)]
    pooled = {(row["benchmark"], row["variant"], row["relation"]): row for row in effects}
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in compared:
        label = one.b.hosts[0] if one.a.hosts == one.b.hosts else one.b.name
        for row in records(one.relations):
            if row["low"] is not None:
                key = (row["benchmark"], row["variant"], row["relation"])
                found.setdefault(key, []).append(_forest_row(row, label, one.descriptions))
    forests = []
    for key, rows in found.items():
        if len(rows) > 1:
            above = [_forest_row(pooled[key], "all hosts", compared[0].descriptions)] if key in pooled else []
            about = (f"{key[0]}/{key[1]}", key[2], compared[0].threshold)
            forests.append(Forest(*about, pd.DataFrame([*above, *rows]), pooled.get(key)))
    return forests


def _forest_row(row: Mapping[str, Any], name: str, descriptions: Descriptions) -> dict[str, Any]:
    change, low, high = change_shown(row, descriptions)
    return {"name": name, "change": change, "low": low, "high": high, "pooled": "hosts" in row}


def _alike(a: Sequence[Reading], b: Sequence[Reading]) -> bool:
    """Whether a cell means the same on both sides: one host, or one CPU model, with the same topology."""
    runs = (*a, *b)
    hosts = {reading.run["host_id"] for reading in runs}
    models = {reading.run["cpu_model"] for reading in runs}
    orders = {(reading.order.cpus, reading.order.groups) for reading in runs}
    return len(orders) == 1 and (len(hosts) == 1 or (len(models) == 1 and None not in models))


def _residuals(
    found: Comparison, a: Sequence[Reading], b: Sequence[Reading], pairs: pd.DataFrame, *, small: bool
) -> list[Residual]:
    """pairs: of the readings, with `run`, which of them each is of."""
    order, residuals = a[0].order, []
    for part in a[0].parts:
        benchmark, _, variant = part.name.partition("/")
        rows = pairs[(pairs["benchmark"] == benchmark) & (pairs["variant"] == variant)]
        numbers = [one.number for reading in (*a, *b) for one in reading.parts if one.name == part.name]
        if part.of_cpus or (rows["run"] == 0).sum() < 2 or len(numbers) < len(a) + len(b):
            continue
        columns = np.array(numbers)[rows["run"].to_numpy()]  # a pair's number is in the column of its run
        every = {name: rows[name].to_numpy() for name in set(numbers)}
        rows = rows.assign(ns=np.select([columns == name for name in every], list(every.values()), np.nan))
        logs = np.log(grids(rows, order.cpus, "ns", rows["run"].to_numpy(), len(numbers)))
        relations = found.relations
        own = relations[(relations["benchmark"] == benchmark) & (relations["variant"] == variant)]
        ratios, first = own.set_index("relation")["ratio"], rows[rows["run"] == 0]
        shift = matrix(first.assign(ratio=first["relation"].map(ratios)), order.cpus, "ratio")
        moved = np.mean(logs[len(a) :], axis=0) - np.mean(logs[: len(a)], axis=0)
        change = pd.DataFrame(np.exp(moved), index=shift.index, columns=shift.columns) / shift - 1
        drawn = of_changes(change, order, _chance(rows, len(a), order))
        residuals.append(Residual(part.name, drawn, thumbnail(drawn, CHANGES) if small else None))
    return residuals


def _chance(pairs: pd.DataFrame, first: int, order: Layout) -> pd.DataFrame:
    """Of each pair the largest relative change that chance explains. first: how many runs of side A."""
    keys = ["relation", "ping_cpu", "pong_cpu", "run"]
    rows = pairs[[*keys, "ns"]].set_index(keys).unstack("run").sort_index()
    logs = np.log(rows["ns"].to_numpy())
    half = largest_by_chance(logs[:, :first], logs[:, first:], rows.index.get_level_values("relation"))
    return matrix(rows.index.to_frame(index=False).assign(half=half), order.cpus, "half")

"""Compare the two sides of a report host by host."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.text import convert_change, to_records
from fleet.analysis.compare.comparison import Comparison, compare
from fleet.analysis.compare.judge import find_chance_limits
from fleet.analysis.compare.sides import Tables
from fleet.analysis.compare.verdicts import CLASS
from fleet.analysis.reduce.heatmap import MAX_NUMBERS, map_changes
from fleet.analysis.reduce.matrices import lay_out_matrices, matrix
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report.figures import (
    PANEL,
    draw,
    draw_map,
    render_thumbnail,
    shorten_middle,
)
from fleet.analysis.report.plots import CHANGES, forest
from fleet.analysis.report.read_runs import Reading
from fleet.analysis.views.compare import explain_scatter, format_not_equivalent
from fleet.analysis.views.headlines import render_headlines_by_sides
from fleet.store.runs import Root

_MANY = 2  # comparisons; with more, each map is only a small picture


def summarize_differences(
    root: Root, readings: Sequence[Reading], tables: Tables, sides: tuple[str, str]
) -> dict[str, Any]:
    """Compare two sides, baseline first, host by host, for the template. tables: of all
    readings' runs.
    """
    by_run = {reading.run["run_id"]: reading for reading in readings}
    places = tables.pairs.groupby("run_id", sort=False, observed=True).indices
    comparisons = compare(root, sides, tables=tables)
    drawn = []
    for comparison in comparisons:
        a, b = (
            [by_run[run] for run in side.runs["run_id"]]
            for side in (comparison.a, comparison.b)
        )
        own = [places.get(reading.run["run_id"], []) for reading in (*a, *b)]
        numbers = np.repeat(np.arange(len(own)), [*map(len, own)])
        pairs = tables.pairs.iloc[[*chain(*own)]].assign(run=numbers)
        small = len(comparisons) > _MANY
        residuals = (
            _map_residuals(comparison, a, b, pairs, small=small)
            if _have_same_topology(a, b)
            else []
        )
        rows = to_records(comparison.relations)
        drawn.append({"comparison": comparison, "rows": rows, "residuals": residuals})
    some = [comparison for comparison in comparisons if len(comparison.relations)]
    scatter = (
        explain_scatter(pd.concat([comparison.relations for comparison in some]))
        if some
        else ""
    )
    return {
        "sides": sides,
        "by_host": drawn,
        "forests": _draw_forests(comparisons),
        "headlines": render_headlines_by_sides(some),
        "scatter": scatter,
        "rows": format_not_equivalent(some),
    }


def _draw_forests(compared: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Draw the changes of each benchmark and relation with a verdict in two or more
    comparisons.

    effect: the change over all hosts, also the first row of the picture; None if there
    is none.
    """
    pooled = {
        tuple(row[name] for name in CLASS): row | {"name": "all hosts"}
        for comparison in compared
        for row in to_records(comparison.fleet)
    }
    tables = []
    for comparison in compared:
        label = (
            comparison.b.hosts[0]
            if comparison.a.hosts == comparison.b.hosts
            else comparison.b.name
        )
        tables.append(comparison.relations.assign(name=label))
    forests = list[dict[str, Any]]()
    for key, part in pd.concat(tables).dropna(subset="low").groupby(CLASS, sort=False):
        if len(part) < 2:
            continue
        rows, effect = to_records(part), pooled.get(key)
        rows = [effect, *rows] if effect else rows
        changes = [convert_change(row, compared[0].descriptions) for row in rows]
        listed = "; ".join(
            f"{row['name']} {change:+.1%} ({low:+.1%} to {high:+.1%})"
            for row, (change, low, high) in zip(rows, changes, strict=True)
        )
        names = [shorten_middle(row["name"]) for row in rows]
        table = pd.DataFrame(changes, columns=["change", "low", "high"])
        table = table.assign(name=names, pooled=["hosts" in row for row in rows])
        name, relation = f"{key[0]}/{key[1]}", key[2]
        picture = draw(
            f"forest-{len(forests) + 1}",
            f"Changes of {name} {relation} with 95% intervals: {listed}",
            (PANEL, 62 + 20 * len(rows)),
            partial(forest, table, threshold=compared[0].threshold),
            margins=(14 + 7 * max(map(len, names)), 42, 18, 8),
        )
        forests.append(
            {"name": name, "relation": relation, "effect": effect, "picture": picture}
        )
    return forests


def _have_same_topology(a: Sequence[Reading], b: Sequence[Reading]) -> bool:
    """Report whether all runs are of one host or CPU model, with one topology, so that
    cells correspond.
    """
    runs = (*a, *b)
    hosts = {reading.run["host_id"] for reading in runs}
    models = {reading.run["cpu_model"] for reading in runs}
    orders = {(reading.order.cpus, reading.order.groups) for reading in runs}
    return len(orders) == 1 and (
        len(hosts) == 1 or (len(models) == 1 and None not in models)
    )


def _map_residuals(
    comparison: Comparison,
    a: Sequence[Reading],
    b: Sequence[Reading],
    pairs: pd.DataFrame,
    *,
    small: bool,
) -> list[dict[str, Any]]:
    """Map how much more each pair changed than its relation did, grey where that may be
    chance.

    pairs: with a column `run`, an index into a + b. small: draw a pixel per pair. Each
    result has the map `drawn` and its `picture`, a data URI or SVG, or None if the page
    shows the map as numbers.
    """
    order, residuals = a[0].order, []
    for part in a[0].parts:
        benchmark, _, variant = part.name.partition("/")
        rows = pairs[(pairs["benchmark"] == benchmark) & (pairs["variant"] == variant)]
        numbers = [
            reading.number
            for reading in (*a, *b)
            for other in reading.parts
            if other.name == part.name
        ]
        if (
            part.of_cpus
            or (rows["run"] == 0).sum() < 2
            or len(numbers) < len(a) + len(b)
        ):
            continue
        # a pair's number is in the column of its run
        columns = np.array(numbers)[rows["run"].to_numpy()]
        every = {name: rows[name].to_numpy() for name in set(numbers)}
        rows = rows.assign(
            ns=np.select(
                [columns == name for name in every], list(every.values()), np.nan
            )
        )
        logs = np.log(
            lay_out_matrices(
                rows, order.cpus, "ns", rows["run"].to_numpy(), len(numbers)
            )
        )
        relations = comparison.relations
        own = relations[
            (relations["benchmark"] == benchmark) & (relations["variant"] == variant)
        ]
        ratios, first = own.set_index("relation")["ratio"], rows[rows["run"] == 0]
        shift = matrix(
            first.assign(ratio=first["relation"].map(ratios)), order.cpus, "ratio"
        )
        moved = np.mean(logs[len(a) :], axis=0) - np.mean(logs[: len(a)], axis=0)
        change = (
            pd.DataFrame(np.exp(moved), index=shift.index, columns=shift.columns)
            / shift
            - 1
        )
        drawn = map_changes(change, order, _estimate_chance_limits(rows, len(a), order))
        picture: str | None = render_thumbnail(drawn, CHANGES) if small else None
        if not small and len(drawn.labels) > MAX_NUMBERS:
            between = f"from {comparison.a.name} to {comparison.b.name}"
            title = f"Change of {part.name} {between} relative to its relation, in %"
            picture = draw_map(title, [("own", drawn)], colours=CHANGES)
        residuals.append(
            {"kind": part.name, "drawn": drawn, "picture": picture, "small": small}
        )
    return residuals


def _estimate_chance_limits(
    pairs: pd.DataFrame, a_runs: int, order: Layout
) -> pd.DataFrame:
    """Return the largest relative change of each pair that chance explains. a_runs:
    number of runs of A.
    """
    keys = ["relation", "ping_cpu", "pong_cpu", "run"]
    rows = pairs[[*keys, "ns"]].set_index(keys).unstack("run").sort_index()
    logs = np.log(rows["ns"].to_numpy())
    half = find_chance_limits(
        logs[:, :a_runs], logs[:, a_runs:], rows.index.get_level_values("relation")
    )
    return matrix(
        rows.index.to_frame(index=False).assign(half=half), order.cpus, "half"
    )

"""Compare the two sides of a report host by host."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fleet.analysis.base.tables import Floats
from fleet.analysis.base.text import convert_change, to_records
from fleet.analysis.compare.comparison import Comparison, compare
from fleet.analysis.compare.judge import find_chance_limits
from fleet.analysis.compare.sides import Tables
from fleet.analysis.compare.verdicts import CLASS
from fleet.analysis.reduce.heatmap import MAX_NUMBERS, Heatmap, map_changes
from fleet.analysis.reduce.load import select_choice
from fleet.analysis.reduce.matrices import lay_out_matrices, matrix
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report.figures import (
    PANEL,
    draw,
    draw_map,
    render_thumbnail,
    shorten_middle,
)
from fleet.analysis.report.map_data import encode_changes, find_reach, list_zooms
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
    are_small = len(comparisons) > _MANY
    drawn = []
    for comparison in comparisons:
        a = [by_run[run_id] for run_id in comparison.a.runs["run_id"]]
        b = [by_run[run_id] for run_id in comparison.b.runs["run_id"]]
        residuals = []
        are_other_runs = comparison.a.stored_run_ids.isdisjoint(comparison.b.run_ids)
        if are_other_runs and _have_same_topology([*a, *b]):
            pairs = _number_runs(tables.pairs, places, [*a, *b])
            residuals = _map_residuals(comparison, a, b, pairs, small=are_small)
        drawn.append(
            {
                "comparison": comparison,
                "rows": comparison.rows,
                "residuals": residuals,
            }
        )
    judged = [comparison for comparison in comparisons if len(comparison.relations)]
    return {
        "sides": sides,
        "by_host": drawn,
        "forests": _draw_forests(comparisons),
        "headlines": render_headlines_by_sides(judged),
        "scatter": _explain_scatter(judged),
        "rows": format_not_equivalent(judged),
    }


def _explain_scatter(judged: Sequence[Comparison]) -> str:
    """Explain the scatter that intervals are made of; "" without comparisons."""
    if not judged:
        return ""
    relations = pd.concat([comparison.relations for comparison in judged])
    return explain_scatter(relations)


def _number_runs(
    pairs: pd.DataFrame, places: Mapping[Any, Any], readings: Sequence[Reading]
) -> pd.DataFrame:
    """Return the pairs of these runs, with a column `run`, an index into `readings`.
    places: rows of `pairs` by run ID.
    """
    rows = [places.get(reading.run["run_id"], []) for reading in readings]
    counts = [len(own) for own in rows]
    numbered = pairs.iloc[list(chain(*rows))]
    return numbered.assign(run=np.repeat(np.arange(len(rows)), counts))


def _draw_forests(compared: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Draw the changes of each benchmark and relation with a verdict in two or more
    comparisons.

    effect: the change over all hosts, also the first row of the picture; None if there
    is none.
    """
    pooled = _index_pooled_changes(compared)
    named = [_name_changes(comparison) for comparison in compared]
    verdicts = pd.concat(named).dropna(subset="low")
    forests = list[dict[str, Any]]()
    for key, part in verdicts.groupby(CLASS, sort=False):
        if len(part) < 2:
            continue
        benchmark, variant, relation = key
        effect = pooled.get(key)
        rows = to_records(part)
        if effect:
            rows = [effect, *rows]
        name = f"{benchmark}/{variant}"
        title = f"{name} {relation}"
        element = f"forest-{len(forests) + 1}"
        picture = _draw_forest(element, title, rows, compared[0])
        forests.append(
            {"name": name, "relation": relation, "effect": effect, "picture": picture}
        )
    return forests


def _index_pooled_changes(
    compared: Sequence[Comparison],
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the changes over all hosts, by benchmark, variant and relation."""
    pooled = {}
    for comparison in compared:
        for row in to_records(comparison.fleet):
            key = tuple(row[name] for name in CLASS)
            pooled[key] = row | {"name": "all hosts"}
    return pooled


def _name_changes(comparison: Comparison) -> pd.DataFrame:
    """Return the changes of a comparison, with the `name` of its host or side."""
    name = comparison.b.name
    if comparison.a.hosts == comparison.b.hosts:
        name = comparison.b.hosts[0]
    return comparison.relations.assign(name=name)


def _draw_forest(
    element: str, title: str, rows: Sequence[dict[str, Any]], comparison: Comparison
) -> Markup:
    """Draw the changes of a relation, a line per row. comparison: any, since all have
    one threshold.
    """
    changes = [convert_change(row, comparison.descriptions) for row in rows]
    words = []
    for row, (change, low, high) in zip(rows, changes, strict=True):
        words.append(f"{row['name']} {change:+.1%} ({low:+.1%} to {high:+.1%})")
    names = [shorten_middle(row["name"]) for row in rows]
    longest = max(map(len, names))
    table = pd.DataFrame(changes, columns=["change", "low", "high"])
    table["name"] = names
    table["pooled"] = ["hosts" in row for row in rows]
    return draw(
        element,
        f"Changes of {title} with 95% intervals: {'; '.join(words)}",
        size=(PANEL, 62 + 20 * len(rows)),
        onto=partial(forest, table, threshold=comparison.threshold),
        margins=(14 + 7 * longest, 42, 18, 8),
    )


def _have_same_topology(readings: Sequence[Reading]) -> bool:
    """Report whether all runs are of one host or CPU model, with one topology, so that
    cells correspond.
    """
    hosts = {reading.run["host_id"] for reading in readings}
    models = {reading.run["cpu_model"] for reading in readings}
    orders = {(reading.order.cpus, reading.order.groups) for reading in readings}
    if len(orders) > 1:
        return False
    is_one_model = len(models) == 1 and None not in models
    return len(hosts) == 1 or is_one_model


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
    result has the map `drawn`, its `data` for the script, and its `picture`, a data URI
    or SVG, or None if the page shows the map as numbers.
    """
    order = a[0].order
    residuals = []
    for part in a[0].parts:
        rows = part.select(pairs)
        numbers = _list_numbers([*a, *b], part.name)
        is_in_every_run = len(numbers) == len(a) + len(b)
        has_pairs = not part.of_cpus and (rows["run"] == 0).sum() >= 2
        if not has_pairs or not is_in_every_run:
            continue
        rows = rows.assign(ns=_choose_latencies(rows, numbers))
        relations = select_choice(comparison.relations, part.choice)
        bare = relations["relation"].str.removesuffix(f" {part.point}")
        relations = relations.assign(relation=bare)
        before, after = _compute_sides(rows, len(a), len(b), order)
        change = _compute_residuals(rows, relations, after / before, order)
        limits = _estimate_chance_limits(rows, len(a), order)
        drawn = map_changes(change, order, limits)
        picture = _draw_residuals(comparison, part.name, drawn, small=small)
        data = ""
        if not small:
            first_run = rows[rows["run"] == 0]
            data = encode_changes(order, drawn, first_run, [before, after])
        residuals.append(
            {
                "choice": part.name,
                "drawn": drawn,
                "picture": picture,
                "small": small,
                "data": data,
                "zooms": list_zooms(drawn),
                "reach": find_reach(drawn),
            }
        )
    return residuals


def _draw_residuals(
    comparison: Comparison, choice: str, drawn: Heatmap, *, small: bool
) -> str | None:
    """Draw a map of changes; None if the page shows it as numbers."""
    if small:
        return render_thumbnail(drawn, CHANGES)
    if len(drawn.labels) <= MAX_NUMBERS:
        return None
    between = f"from {comparison.a.name} to {comparison.b.name}"
    title = f"Change of {choice} {between} relative to its relation, in %"
    return draw_map(title, [("own", drawn)], colours=CHANGES)


def _list_numbers(readings: Sequence[Reading], choice: str) -> list[str]:
    """List the column of the number of each run that has this part."""
    return [
        reading.number
        for reading in readings
        if any(part.name == choice for part in reading.parts)
    ]


def _choose_latencies(pairs: pd.DataFrame, numbers: Sequence[str]) -> Floats:
    """Return each pair's number, in the column that is the number of its run. numbers:
    by `run`.
    """
    number_of_run = np.array(numbers)
    number_of_row = number_of_run[pairs["run"].to_numpy()]
    latencies = np.full(len(pairs), np.nan)
    for name in set(numbers):
        values = pairs[name].to_numpy()
        is_own = number_of_row == name
        latencies[is_own] = values[is_own]
    return latencies


def _compute_sides(
    pairs: pd.DataFrame, a_runs: int, b_runs: int, order: Layout
) -> tuple[Floats, Floats]:
    """Return the latency of each pair in A and in B, CPU by CPU: the geometric mean of
    the side's runs.
    """
    runs = pairs["run"].to_numpy()
    latencies = lay_out_matrices(pairs, order.cpus, "ns", runs, a_runs + b_runs)
    logs = np.log(latencies)  # run x CPU x CPU
    before: Floats = np.exp(np.mean(logs[:a_runs], axis=0))
    after: Floats = np.exp(np.mean(logs[a_runs:], axis=0))
    return before, after


def _compute_residuals(
    pairs: pd.DataFrame, relations: pd.DataFrame, ratios: Floats, order: Layout
) -> pd.DataFrame:
    """Return the change of each pair relative to that of its relation, CPU by CPU.
    ratios: of its latencies in B and A.
    """
    relation_ratios = relations.set_index("relation")["ratio"]
    first_run = pairs[pairs["run"] == 0]
    usual_ratios = first_run["relation"].map(relation_ratios)
    usual = matrix(first_run.assign(ratio=usual_ratios), order.cpus, "ratio")
    return usual.rdiv(ratios) - 1


def _estimate_chance_limits(
    pairs: pd.DataFrame, a_runs: int, order: Layout
) -> pd.DataFrame:
    """Return the largest relative change of each pair that chance explains. a_runs:
    number of runs of A.
    """
    key = ["relation", "ping_cpu", "pong_cpu", "run"]
    by_run = pairs.set_index(key)["ns"].unstack("run").sort_index()
    logs = np.log(by_run.to_numpy())
    of_a = logs[:, :a_runs]
    of_b = logs[:, a_runs:]
    relation = by_run.index.get_level_values("relation")
    limits = by_run.index.to_frame(index=False)
    limits["half"] = find_chance_limits(of_a, of_b, relation)
    return matrix(limits, order.cpus, "half")

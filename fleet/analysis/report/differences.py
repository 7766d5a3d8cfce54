"""Compare the two sides of a report host by host."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fleet.analysis.base.tables import NUMBER_KEY, Floats
from fleet.analysis.base.text import convert_change, to_records
from fleet.analysis.compare.comparison import Comparison, compare
from fleet.analysis.compare.judge import find_chance_limits
from fleet.analysis.compare.sides import Tables
from fleet.analysis.reduce.heatmap import MAX_NUMBERS, Heatmap, map_changes
from fleet.analysis.reduce.load import select_choice
from fleet.analysis.reduce.matrices import lay_out_matrices, matrix
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report.figures import (
    AROUND_LINES,
    PANEL,
    choose_margins_for_names,
    draw,
    draw_map,
    render_thumbnail,
    shorten_middle,
)
from fleet.analysis.report.map_data import encode_changes, find_reach, list_zooms
from fleet.analysis.report.plots import CHANGES, forest
from fleet.analysis.report.read_runs import Part, Reading
from fleet.analysis.views.compare import explain_scatter, format_not_equivalent
from fleet.analysis.views.headlines import render_headlines_by_sides
from fleet.store.runs import Root

_MANY = 2  # comparisons; with more, each map is only a small picture
_LINE_PX = 20  # of a host in a picture of changes


@dataclass(frozen=True, slots=True)
class _ComparedRuns:
    """The runs of a comparison's sides, and their rows of `pairs`, with a column `run`,
    an index into `readings`. a: the runs of the baseline. b: those of the other side.
    """

    a: Sequence[Reading]
    b: Sequence[Reading]
    pairs: pd.DataFrame

    @property
    def readings(self) -> list[Reading]:
        """Return the runs of A, then those of B."""
        return [*self.a, *self.b]

    @property
    def order(self) -> Layout:
        """Return the layout of the CPUs, which all runs have."""
        return self.a[0].order


def summarize_differences(
    root: Root, readings: Sequence[Reading], tables: Tables, sides: tuple[str, str]
) -> dict[str, Any]:
    """Compare two sides, baseline first, host by host, for the template.

    sides: two selections of runs. tables: with the runs of all readings.

    In the result, `by_host` has an item per comparison. Its `residuals` are maps of how
    each pair changed; the list is empty if the runs differ in topology, so that the
    cells of their maps do not correspond. `forests` are the pictures of changes on
    several hosts. The other keys leave out comparisons without any relation to compare:
    `headlines`, the `scatter` of runs in words, and the `rows` of a table.
    """
    comparisons = compare(root, sides, tables=tables)
    draws_thumbnails = len(comparisons) > _MANY
    by_host = []
    for comparison, runs in _match_runs(comparisons, readings, tables.pairs):
        residuals = []
        if _have_same_topology(runs.readings):
            residuals = _map_residuals(comparison, runs, small=draws_thumbnails)
        comparison_of_host = {
            "comparison": comparison,
            "rows": comparison.rows,
            "residuals": residuals,
        }
        by_host.append(comparison_of_host)
    with_relations = [
        comparison for comparison in comparisons if len(comparison.relations)
    ]
    return {
        "sides": sides,
        "by_host": by_host,
        "forests": _draw_forests(comparisons),
        "headlines": render_headlines_by_sides(with_relations),
        "scatter": _explain_scatter(with_relations),
        "rows": format_not_equivalent(with_relations),
    }


def _match_runs(
    comparisons: Sequence[Comparison],
    readings: Sequence[Reading],
    pairs: pd.DataFrame,
) -> Iterator[tuple[Comparison, _ComparedRuns]]:
    """Yield each comparison with its runs. pairs: of all readings."""
    readings_by_run = {reading.run["run_id"]: reading for reading in readings}
    by_run = pairs.groupby("run_id", sort=False, observed=True)
    for comparison in comparisons:
        ids_of_a = comparison.a.runs["run_id"]
        ids_of_b = comparison.b.runs["run_id"]
        a = [readings_by_run[run_id] for run_id in ids_of_a]
        b = [readings_by_run[run_id] for run_id in ids_of_b]
        own_pairs = _number_runs(pairs, by_run.indices, [*a, *b])
        yield comparison, _ComparedRuns(a, b, own_pairs)


def _explain_scatter(comparisons: Sequence[Comparison]) -> str:
    """Explain the scatter that intervals are made of; "" without comparisons."""
    if not comparisons:
        return ""
    relations = pd.concat([comparison.relations for comparison in comparisons])
    return explain_scatter(relations)


def _number_runs(
    pairs: pd.DataFrame, rows_by_run: Mapping[Any, Any], readings: Sequence[Reading]
) -> pd.DataFrame:
    """Return the pairs of these runs, run by run, with a column `run`, an index into
    `readings`. rows_by_run: the row numbers of each run in `pairs`, by run ID.
    """
    run_ids = [reading.run["run_id"] for reading in readings]
    rows_of_runs = [rows_by_run.get(run_id, []) for run_id in run_ids]
    counts = [len(rows) for rows in rows_of_runs]
    run_of_row = np.repeat(np.arange(len(readings)), counts)
    own_pairs = pairs.iloc[list(chain(*rows_of_runs))]
    return own_pairs.assign(run=run_of_row)


def _draw_forests(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Draw the changes of each benchmark and relation that has an interval, and so a
    verdict, in two or more comparisons.

    The results are for the template. Each has the `name` of its benchmark, its
    `relation`, its `picture`, and the `effect`: the change over all hosts, which is
    also the first row of the picture; None if it is unknown.
    """
    pooled = _index_pooled_changes(comparisons)
    any_comparison = comparisons[0]  # all have the same threshold
    forests = list[dict[str, Any]]()
    for key, rows_of_relation in _group_changes(comparisons):
        if len(rows_of_relation) < 2:
            continue
        benchmark, variant, relation = key
        name = f"{benchmark}/{variant}"
        rows = to_records(rows_of_relation)
        effect = pooled.get(key)
        if effect:
            rows = [effect, *rows]
        element = f"forest-{len(forests) + 1}"
        forest_of_relation = {
            "name": name,
            "relation": relation,
            "effect": effect,
            "picture": _draw_forest(
                element, f"{name} {relation}", rows, any_comparison
            ),
        }
        forests.append(forest_of_relation)
    return forests


def _group_changes(
    comparisons: Sequence[Comparison],
) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield the changes that have an interval by benchmark, variant and relation, a row
    per comparison.
    """
    tables = [_name_changes(comparison) for comparison in comparisons]
    with_interval = pd.concat(tables).dropna(subset="low")
    yield from with_interval.groupby(NUMBER_KEY, sort=False)


def _index_pooled_changes(
    comparisons: Sequence[Comparison],
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the changes over all hosts, by benchmark, variant and relation. The table
    `fleet` of a comparison has them; it is empty unless three or more hosts are
    compared.
    """
    pooled = {}
    for comparison in comparisons:
        for row in to_records(comparison.fleet):
            key = tuple(row[name] for name in NUMBER_KEY)
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
    """Draw the changes of a relation, a line per row. Rows from
    `_index_pooled_changes` have a key `hosts`, and become diamonds.

    element: the ID of the picture. comparison: any comparison of the page, for its
    threshold, the smallest change that matters; all comparisons have the same one.
    """
    changes = [convert_change(row, comparison.descriptions) for row in rows]
    words = _word_changes(rows, changes)
    table = pd.DataFrame(changes, columns=["change", "low", "high"])
    table["name"] = [shorten_middle(row["name"]) for row in rows]
    table["pooled"] = ["hosts" in row for row in rows]
    return draw(
        element,
        f"Changes of {title} with 95% intervals: {'; '.join(words)}",
        size=(PANEL, AROUND_LINES + _LINE_PX * len(rows)),
        onto=partial(forest, table, threshold=comparison.threshold),
        margins=choose_margins_for_names(table["name"]),
    )


def _word_changes(
    rows: Sequence[dict[str, Any]], changes: Sequence[tuple[float, float, float]]
) -> list[str]:
    """Word each row's change and its interval."""
    words = []
    for row, (change, low, high) in zip(rows, changes, strict=True):
        words.append(f"{row['name']} {change:+.1%} ({low:+.1%} to {high:+.1%})")
    return words


def _have_same_topology(readings: Sequence[Reading]) -> bool:
    """Report whether all runs are of one host or CPU model, with one topology, so that
    cells correspond.
    """
    layouts = [reading.order for reading in readings]
    topologies = {(layout.cpus, layout.groups) for layout in layouts}
    if len(topologies) > 1:
        return False
    hosts = {reading.run["host_id"] for reading in readings}
    if len(hosts) == 1:
        return True
    models = {reading.run["cpu_model"] for reading in readings}
    return len(models) == 1 and None not in models


def _map_residuals(
    comparison: Comparison, runs: _ComparedRuns, *, small: bool
) -> list[dict[str, Any]]:
    """Map how much more each pair changed than its relation did, grey where that may be
    chance; a map for each part that all runs have.

    small: draw a pixel per pair. Each result has the map `drawn` and its `data` for the
    script, which is "" for a small map. It also has the `picture` of the map: a data
    URI, an SVG, or None if the page shows the map as numbers.
    """
    residuals = []
    first_run = runs.readings[0]
    for part in first_run.parts:  # a part that this run lacks is not in all runs
        pairs = _select_pairs(runs, part)
        if pairs is not None:
            residual = _map_part(comparison, runs, part, pairs, small=small)
            residuals.append(residual)
    return residuals


def _select_pairs(runs: _ComparedRuns, part: Part) -> pd.DataFrame | None:
    """Return the pairs of a part in all runs, a row per pair and run, with the number
    of each pair as `ns`. Return None if the part is of single CPUs or has fewer than
    two pairs, or if a run lacks the part.
    """
    if part.is_of_single_cpus:
        return None
    pairs = part.select(runs.pairs)
    is_first_run = pairs["run"] == 0
    if is_first_run.sum() < 2:
        return None
    # the column of each run that has the part; too few if a run lacks it
    columns = _list_ns_columns(runs.readings, part.name)
    if len(columns) < len(runs.readings):
        return None
    return pairs.assign(ns=_choose_latencies(pairs, columns))


def _map_part(
    comparison: Comparison,
    runs: _ComparedRuns,
    part: Part,
    pairs: pd.DataFrame,
    *,
    small: bool,
) -> dict[str, Any]:
    """Map how much more each pair of a part changed than its relation did. Return one
    of the results of `_map_residuals`.

    pairs: from `_select_pairs`, a row per pair and run. Their column `run` numbers the
    runs from 0, those of A first. small: draw only a small picture, without data for
    the script.
    """
    order = runs.order
    # the rows and columns of the matrices below are the CPUs of `order`
    before, after = _compute_sides(pairs, runs)
    ratio_by_relation = _index_ratios(comparison, part)
    change = _compute_residuals(pairs, ratio_by_relation, after / before, order)
    run_count_of_a = len(runs.a)
    limits = _estimate_chance_limits(pairs, run_count_of_a, order)
    drawn = map_changes(change, order, limits)
    data = ""
    if not small:
        first_run = pairs[pairs["run"] == 0]  # its relations are those of all runs
        data = encode_changes(order, drawn, first_run, (before, after))
    return {
        "choice": part.name,
        "drawn": drawn,
        "picture": _draw_residuals(comparison, part.name, drawn, small=small),
        "small": small,
        "data": data,
        "zooms": list_zooms(drawn),
        "reach": find_reach(drawn),
    }


def _index_ratios(comparison: Comparison, part: Part) -> "pd.Series[float]":
    """Return B / A of each relation of a part, by the relation without its point."""
    relations = select_choice(comparison.relations, part.choice)
    bare = relations["relation"].str.removesuffix(f" {part.point}")
    by_relation = relations.assign(relation=bare).set_index("relation")
    return by_relation["ratio"]


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
    # "own": only with the colour scale of this map
    return draw_map(title, [("own", drawn)], colours=CHANGES)


def _list_ns_columns(readings: Sequence[Reading], choice: str) -> list[str]:
    """List the column of `pairs` that each run shows, of the runs that have the part
    of this name.
    """
    return [
        reading.ns_column
        for reading in readings
        if any(part.name == choice for part in reading.parts)
    ]


def _choose_latencies(pairs: pd.DataFrame, column_by_run: Sequence[str]) -> Floats:
    """Return the ns of each row of `pairs`, from the column that its run shows.

    pairs: their column `run` numbers the runs from 0. column_by_run: at place i, the
    column that run i shows, such as "median_ns".
    """
    column_of_row = np.array(column_by_run)[pairs["run"].to_numpy()]
    latencies = np.full(len(pairs), np.nan)
    for column in set(column_by_run):
        values = pairs[column].to_numpy()
        is_shown = column_of_row == column
        latencies[is_shown] = values[is_shown]
    return latencies


def _compute_sides(pairs: pd.DataFrame, runs: _ComparedRuns) -> tuple[Floats, Floats]:
    """Return the latency of each pair in A and in B, CPU by CPU: the geometric mean of
    the side's runs.
    """
    latencies = lay_out_matrices(
        pairs,
        runs.order.cpus,
        "ns",
        pairs["run"].to_numpy(),
        len(runs.readings),
    )
    log_ns = np.log(latencies)  # run x CPU x CPU
    logs_a = log_ns[: len(runs.a)]
    logs_b = log_ns[len(runs.a) :]
    mean_a = np.mean(logs_a, axis=0)
    mean_b = np.mean(logs_b, axis=0)
    return np.exp(mean_a), np.exp(mean_b)


def _compute_residuals(
    pairs: pd.DataFrame,
    relation_ratios: "pd.Series[float]",
    pair_ratios: Floats,
    order: Layout,
) -> pd.DataFrame:
    """Return the change of each pair relative to that of its relation, as a matrix of
    CPUs: 0.1 if the pair's latency grew by 10 % more than its relation's.

    relation_ratios: the latency in B divided by that in A, by relation. pair_ratios:
    the same of each pair, as a matrix of CPUs.
    """
    first_run = pairs[pairs["run"] == 0]
    usual_ratios = first_run["relation"].map(relation_ratios)
    with_ratio = first_run.assign(ratio=usual_ratios)
    usual = matrix(with_ratio, order.cpus, "ratio")
    return usual.rdiv(pair_ratios) - 1  # pair_ratios / usual - 1


def _estimate_chance_limits(
    pairs: pd.DataFrame, a_runs: int, order: Layout
) -> pd.DataFrame:
    """Return the largest relative change of each pair that chance explains, as a matrix
    of CPUs.

    pairs: a row per pair and run. Their column `run` numbers the runs, those of A from
    0 to a_runs - 1, then those of B. a_runs: how many runs A has.
    """
    by_pair_and_run = pairs.set_index(["relation", "ping_cpu", "pong_cpu", "run"])
    ns = by_pair_and_run["ns"].unstack("run")  # a row per pair, a column per run
    ns = ns.sort_index()
    # a small difference of log_ns is about a relative change: log(1 + x) is about x
    log_ns = np.log(ns.to_numpy())
    a_logs = log_ns[:, :a_runs]
    b_logs = log_ns[:, a_runs:]
    limits = ns.index.to_frame(index=False)
    limits["limit"] = find_chance_limits(a_logs, b_logs, limits["relation"])
    return matrix(limits, order.cpus, "limit")

"""Name what each row of `pairs` is a number of: a cell of the table `numbers`.

Pairs of CPUs keep their `relation`. A plateau's relation is its level and setting: "L2
read", "mem copy x64". Other rows append their point to the relation: "package
written.chase.128K"; loads under load shorten it: "package read full". Memory on a
requested node begins with both nodes: "n0-n1 read x8". The rate of the other CPUs at
full load becomes a row of a benchmark `load`.

Cells that stand for their benchmark in an overview also have `about`, a text on that
choice, `column`, the column's name, and `place`, by which columns are sorted.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.text import to_records
from fleet.analysis.reduce import ladders
from fleet.analysis.reduce.load import drop_points, get_views
from fleet.errors import UsageError
from fleet.model import (
    LOAD,
    SHIPPED,
    Benchmark,
    Descriptions,
    Parameter,
    View,
    drop_node,
    is_relation,
    relation_sort_key,
)
from fleet.text import one_line, suggest_similar

SHOWN = 12  # of many names, in an error
_KIND = ["run_id", "benchmark", "variant"]
_FASTEST = {"", "P", "big"}
_VIEWS_OF_POINTS = (View.TABLE, View.BLOCKS, View.PRODUCTS)


def name_cells(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Name what each row of `pairs` is of, in `relation`; add `about`, `column` and
    `place`.

    pairs: from `as_float64`. cpus: of the same runs, needed for benchmarks with points.
    Rows of ladders become one per level. A row may stand in two cells: at full load.
    """
    single_pairs = _name_pairs(pairs, descriptions)
    parts = [single_pairs]
    if len(single_pairs) < len(pairs):
        parts.append(_name_placed_lines(pairs, descriptions))
        parts += _name_points(pairs, descriptions)
        memory = ladders.arrange_memory(pairs, cpus, descriptions)
        parts += _name_nodes(memory.nodes, descriptions)
        parts.append(_name_levels(memory.levels, descriptions))
    parts_with_rows = [part for part in parts if len(part)]
    # without rows at all, one part gives the columns
    return pd.concat(parts_with_rows or parts[:1], ignore_index=True)


def name_cells_of_point(
    pairs: pd.DataFrame, point: str, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Select the rows of a point, as cells; UsageError if there are none."""
    rows = pairs[pairs["point"] == point]
    if rows.empty:
        points = sorted(pairs["point"].dropna().unique())
        why = (
            f"these runs have no such point{suggest_similar(point, points)} There are"
            f" {list_names(points) or 'none'}."
        )
        raise UsageError(one_line(f"point {point}: {why}"))
    is_ladder = get_views(rows["benchmark"], descriptions) == View.LADDER
    relation = rows["relation"].where(~is_ladder, point)
    return rows.assign(relation=relation, about="", column=relation, place="")


def list_names(names: Sequence[str]) -> str:
    """List the first SHOWN of these names; "none" without any."""
    text = ", ".join(names[:SHOWN]) or "none"
    if len(names) > SHOWN:
        text += ", …"
    return text


def _name_pairs(pairs: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    rows = drop_points(pairs, descriptions)
    place = _list_nearness(rows["relation"])
    return rows.assign(about="", column=rows["relation"], place=place)


def _list_nearness(relations: "pd.Series[Any]") -> "pd.Series[Any]":
    """List a text for each relation by which they sort from the nearest on."""
    places = {name: str(relation_sort_key(name)) for name in relations.unique()}
    return relations.map(places).astype(object)


def _name_placed_lines(pairs: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Name the pairs whose line lies on a requested node: "package n0", beside each
    other.
    """
    rows = ladders.select_line_placed_pairs(pairs, descriptions)
    nearness = _list_nearness(rows["relation"])
    node = rows["memory_node"].map("{:05.0f}".format)
    place = _join_words(nearness, node)
    relation = _join_words(rows["relation"], rows["point"])
    return rows.assign(relation=relation, about="", column=relation, place=place)


def _name_points(pairs: pd.DataFrame, descriptions: Descriptions) -> list[pd.DataFrame]:
    """Name the rows of points of each run, benchmark and variant, and make those of
    their loads.
    """
    has_points = get_views(pairs["benchmark"], descriptions).isin(_VIEWS_OF_POINTS)
    is_placed = ladders.is_node_placed(pairs, descriptions)
    rows = pairs[has_points & ~is_placed]
    parts = []
    for (_, name, _), group in rows.groupby(_KIND, sort=False, observed=True):
        benchmark = descriptions[str(name)]
        if benchmark.other_unit == "byte":
            relation = _append_loads(group)
        else:
            relation = _join_words(group["relation"], group["point"])
        overview = _choose_shown(group, benchmark)
        cells = group.assign(relation=relation).join(overview)
        parts += [cells, _make_load_rates(cells)]
    return parts


def _join_words(first: "pd.Series[Any]", second: "pd.Series[Any]") -> "pd.Series[Any]":
    """Join the words of each row; a missing second word adds nothing."""
    # a benchmark that nobody described may have no points
    second_words = second.astype(object).fillna("")
    texts: pd.Series[Any] = first.astype(object) + " " + second_words
    return texts.map(str.rstrip)


def _append_loads(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Return each row's relation followed by its load; with its size if the run has
    several; with its threads if the run has several numbers of them, or it has a load.

    rows: of one run, benchmark and variant.
    """
    has_sizes = rows["bytes"].nunique() > 1
    has_threads = rows["threads"].nunique() > 1
    names = []
    for row in to_records(rows):
        size = int(row["bytes"] or 0)
        name = f"{row['relation']} {ladders.name_setting(str(row['point']), size)}"
        if has_sizes:
            name += f" {ladders.format_size(size)}"
        if has_threads or row["load_mbps"]:
            name += f" x{row['threads'] or 0:.0f}"
        names.append(name)
    return pd.Series(names, rows.index, dtype=object)


def _make_load_rates(rows: pd.DataFrame) -> pd.DataFrame:
    """Make rows of the benchmark `load` from rows at full load: the rate of the other
    CPUs, as ns a byte.
    """
    if "other_rate" not in rows:
        return rows[:0]
    has_rate = rows["other_rate"].notna()
    is_unlimited = rows["load_mbps"].isna()
    full = rows[has_rate & is_unlimited]
    ns = 1 / full["other_rate"]
    return full.assign(
        benchmark=LOAD.name,
        median_ns=ns,
        mean_ns=ns,
        min_ns=ns,
        spread=math.nan,
        relation_spread=math.nan,
    )


def _name_nodes(rows: pd.DataFrame, descriptions: Descriptions) -> list[pd.DataFrame]:
    """Name the cells by NUMA node. rows: of a MemoryHierarchy."""
    parts = []
    for _, group in rows.groupby(_KIND, sort=False, observed=True):
        rows_of_nodes = zip(group["cpu_node"], group["memory_node"], strict=True)
        names = [f"n{node}-n{memory}" for node, memory in rows_of_nodes]
        ends = pd.Series(names, group.index, dtype=object)
        relation = ends + " " + group["setting"]
        cells = group.assign(relation=relation, relation_spread=group["spread"])
        cells = cells.join(_choose_shown_nodes(group, descriptions))
        parts += [cells, _make_load_rates(cells)]
    return parts


def _choose_shown_nodes(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Return `about`, `column` and `place` of the cells of the first setting: local and
    remote. rows: of one run, benchmark and variant, from `select_node_cells`.
    """
    first_setting = ladders.sort_settings(rows, descriptions)[0]
    cells = rows[rows["setting"] == first_setting]
    words = {True: "local", False: "remote"}
    column = ladders.is_local_memory(cells).map(words)
    about = f"{first_setting} by node"
    return pd.DataFrame({"about": about, "column": column, "place": column})


def _name_levels(levels: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Name the levels of ladders. levels: of a MemoryHierarchy."""
    threads = _format_threads(levels)
    core_kinds = _format_core_kinds(levels)
    relation = levels["level"] + " " + levels["setting"] + threads + core_kinds
    cells = levels.assign(relation=relation, relation_spread=levels["spread"])

    in_overview = _choose_shown_levels(levels, descriptions)
    overview = in_overview[[]].copy()
    overview["about"] = in_overview["setting"] + threads[in_overview.index]
    overview["column"] = in_overview["level"]
    overview["place"] = in_overview["least_bytes"].map("{:020}".format)
    return cells.join(overview)


def _choose_shown_levels(
    rows: pd.DataFrame, descriptions: Descriptions
) -> pd.DataFrame:
    """Select the levels of the first setting, on the fewest and nearest CPUs, of each
    run, benchmark and variant.
    """
    settings: dict[str, None] = {}  # in order, each once
    for _, part in rows.groupby("benchmark"):
        settings |= dict.fromkeys(ladders.sort_settings(part, descriptions))
    thread_counts = sorted(rows["threads"].unique())
    nearest_first = sorted(rows["relation"].unique(), key=relation_sort_key)
    rows = _keep_first(rows, "threads", thread_counts)
    rows = _keep_first(rows, "setting", list(settings))
    return _keep_first(rows, "relation", nearest_first)


def _keep_first(rows: pd.DataFrame, name: str, order: Sequence[Any]) -> pd.DataFrame:
    """Keep the rows of each run, benchmark and variant whose value of a column comes
    first in an order of all values.
    """
    places = {value: place for place, value in enumerate(order)}
    ranked = rows.assign(rank=rows[name].map(places))
    first = ranked.groupby(_KIND)["rank"].transform("min")
    return rows[ranked["rank"] == first]


def _format_threads(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Name each row's threads as a suffix, " x4"; empty for one."""

    def format_suffix(threads: float) -> str:
        if threads > 1:
            return f" x{threads:.0f}"
        return ""

    return rows["threads"].map(format_suffix)


def _format_core_kinds(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Name each row's kinds of cores as a suffix; empty for the fastest kind and if
    there is only one.
    """

    def format_suffix(relation: object) -> str:
        _, _, kinds = str(relation).partition(" ")
        if set(kinds.split("-")) <= _FASTEST:
            return ""
        return f" {kinds}"

    return rows["relation"].map(format_suffix)


def _choose_shown(rows: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Return `about`, `column` and `place` of the points that stand for a benchmark in
    an overview. rows: of one run and variant.
    """
    if benchmark.view is View.PRODUCTS:
        return _choose_shown_peaks(rows, benchmark)
    of_tables, of_rows, of_columns = split_parameters_by_axis(benchmark, rows)
    if not of_rows:
        name = rows["point"].where(rows["point"].notna(), rows["relation"])
        return pd.DataFrame({"about": "", "column": name, "place": name})
    # the nearest relation, then one value of each parameter but that of the rows
    nearest = _find_nearest(rows["relation"])
    points = rows[rows["relation"] == nearest]
    points = _select_first(points, of_tables)
    words = _list_words(points, of_tables)
    if of_columns and of_columns[0].none:
        points, load = _select_greatest_load(points, of_columns[0])
        words.append(load)
    else:
        takes_last = benchmark.view is View.BLOCKS
        points = _select_first(points, of_columns, last=takes_last)
        words += _list_words(points, of_columns)
    about = ", ".join(filter(None, [" ".join(words), nearest]))
    return _name_rows_by_parameter(points, of_rows[0]).assign(about=about)


def _find_nearest(relations: "pd.Series[Any]") -> str:
    """Return the relation of the CPUs nearest to each other."""
    return str(min(relations.unique(), key=relation_sort_key))


def _name_rows_by_parameter(rows: pd.DataFrame, parameter: Parameter) -> pd.DataFrame:
    """Return `column` and `place` of rows that a parameter tells apart."""

    def format_place(value: Any) -> str:
        place = int(parameter.sort_key(value))
        return f"{place:020}"  # texts of one length sort as the numbers do

    values = rows[parameter.name]
    if parameter.type == "bytes":
        column = values.map(lambda value: ladders.format_size(int(value)))
    else:
        column = values.map(str)
    return pd.DataFrame({"column": column, "place": values.map(format_place)})


def _choose_shown_peaks(rows: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Choose the peaks of matrix products; the column is the variant."""
    of_first_row = benchmark.parameters_with_role("row")[:1]
    rows = _select_first(rows, of_first_row)
    rows = _select_first(rows, benchmark.parameters_with_role("table"))
    peaks = rows[rows["relation"] == _find_nearest(rows["relation"])]
    about = peaks["operation"] + _format_threads(peaks)
    return pd.DataFrame({"about": about, "column": peaks["variant"], "place": ""})


def _list_words(rows: pd.DataFrame, parameters: Sequence[Parameter]) -> list[str]:
    return [
        str(rows[parameter.name].iloc[0])
        for parameter in parameters
        if parameter.type == "word"
    ]


def _select_greatest_load(
    rows: pd.DataFrame, load: Parameter
) -> tuple[pd.DataFrame, str]:
    """Select the rows at the greatest load of the run, the same in each row, and those
    without load; name that load.
    """
    loads = rows[load.name].fillna(math.inf)
    greatest = float(loads.max())
    is_shown = (loads == greatest) | (loads == 0)
    name = f"{greatest / 1000:g} GB/s each"
    if math.isinf(greatest):
        name = str(load.none)
    return rows[is_shown], name


def split_parameters_by_axis(
    benchmark: Benchmark, rows: pd.DataFrame
) -> list[list[Parameter]]:
    """Return the parameters that make tables, rows and columns; leave out those that
    none of `rows` has.
    """
    names = {name for name, column in rows.items() if column.notna().any()}
    parameters_by_axis = []
    for role in ("table", "row", "column"):
        parameters = benchmark.parameters_with_role(role)
        of_axis = [parameter for parameter in parameters if parameter.name in names]
        parameters_by_axis.append(of_axis)
    return parameters_by_axis


def _select_first(
    rows: pd.DataFrame, parameters: Sequence[Parameter], *, last: bool = False
) -> pd.DataFrame:
    """Select the rows at the first value of each parameter in turn, or at the last."""
    choose = max if last else min
    for parameter in parameters:
        if parameter.name not in rows:
            continue
        values = list(rows[parameter.name].dropna().unique())
        if values:
            first_value = choose(values, key=parameter.sort_key)
            rows = rows[rows[parameter.name] == first_value]
    return rows


def are_pairs(relations: "pd.Series[Any]") -> "pd.Series[Any]":
    """Report which of these names are relations of pairs of CPUs, with or without the
    node of their lines, not levels or points.
    """
    # each different name is looked at once
    code_of_row, names = pd.factorize(relations)
    is_of_pairs = [is_relation(drop_node(name)) for name in names]
    of_rows = np.array(is_of_pairs, dtype=bool)[code_of_row]
    return pd.Series(of_rows, relations.index)

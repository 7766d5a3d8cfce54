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
from typing import Any, NamedTuple

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
_FASTEST = {"P", "big"}
_VIEWS_OF_POINTS = (View.TABLE, View.BLOCKS, View.PRODUCTS)


def name_cells(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Turn the rows of `pairs` into cells. A number of the table `numbers` is reduced
    from all cells of a run with the same benchmark, variant and `relation`, which holds
    the number's name. Cells also have the columns `about`, `column` and `place` of the
    overview.

    A row of `pairs` becomes a cell. But the rows of a ladder become a cell for each
    level of memory, and a row at full load becomes two cells: the second, of the
    benchmark `load`, has the rate of the load.

    pairs: from `as_float64`. cpus: of the same runs, needed for benchmarks with points.
    """
    cells_of_pairs = _name_pairs(pairs, descriptions)
    parts = [cells_of_pairs]
    # `_name_pairs` leaves out the rows at other than the usual point
    has_points = len(cells_of_pairs) < len(pairs)
    if has_points:
        memory = ladders.arrange_memory(pairs, cpus, descriptions)
        parts.append(_name_placed_lines(pairs, descriptions))
        parts += _name_points(pairs, descriptions)
        parts += _name_nodes(memory.nodes, descriptions)
        parts.append(_name_levels(memory.levels, descriptions))
    parts_with_rows = [part for part in parts if len(part)]
    if not parts_with_rows:
        return cells_of_pairs.reset_index(drop=True)
    return pd.concat(parts_with_rows, ignore_index=True)


def name_cells_of_point(
    pairs: pd.DataFrame, point: str, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Select the rows of a point, such as "random.512K.huge", as cells, which have the
    columns `about`, `column` and `place` of the overview, too. Rows of ladders get the
    point as `relation`, which tells them from the number of a whole level; other rows
    keep their relation. Raises UsageError if no row has the point.
    """
    rows = pairs[pairs["point"] == point]
    if rows.empty:
        raise _make_unknown_point_error(pairs, point)
    is_ladder = get_views(rows["benchmark"], descriptions) == View.LADDER
    name = rows["relation"].where(~is_ladder, point)
    return rows.assign(relation=name, about="", column=name, place="")


def _make_unknown_point_error(pairs: pd.DataFrame, point: str) -> UsageError:
    """Make the error for a point that no row has; it names the points of the rows."""
    points = sorted(pairs["point"].dropna().unique())
    similar = suggest_similar(point, points)  # with the end of the sentence, "." or "?"
    why = (
        f"these runs have no such point{similar} There are"
        f" {list_names(points) or 'none'}."
    )
    return UsageError(one_line(f"point {point}: {why}"))


def list_names(names: Sequence[str]) -> str:
    """List the first SHOWN of these names; "none" without any."""
    text = ", ".join(names[:SHOWN]) or "none"
    if len(names) > SHOWN:
        text += ", …"
    return text


def _name_pairs(pairs: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Select a row of each pair of CPUs or of each CPU, as `drop_points` does, as cells
    that keep the name of their relation.
    """
    rows = drop_points(pairs, descriptions)
    place = _list_nearness(rows["relation"])
    return rows.assign(about="", column=rows["relation"], place=place)


def _list_nearness(relations: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a text for each relation: sorted by their texts, the nearest relation
    comes first. "llc" -> "03", "package" -> "06", "package P-E" -> "06 00 02".
    """
    text_by_relation = {}
    for relation in relations.unique():
        place, kind_places = relation_sort_key(relation)
        numbers = [f"{number:02}" for number in (place, *kind_places)]
        text_by_relation[relation] = " ".join(numbers)
    return relations.map(text_by_relation).astype(object)


def _name_placed_lines(pairs: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Select the pairs whose cache line lies on a requested NUMA node, as cells:
    "package n0".

    An overview sorts its columns by the text `place`: the nearest relation comes first,
    and within a relation the lowest node: "06 00000".
    """
    rows = ladders.select_line_placed_pairs(pairs, descriptions)
    name = _join_words(rows["relation"], rows["point"])
    nearness = _list_nearness(rows["relation"])
    # texts of one length sort as the numbers do
    padded_node = rows["memory_node"].map("{:05.0f}".format)
    place = _join_words(nearness, padded_node)
    return rows.assign(relation=name, about="", column=name, place=place)


def _name_points(pairs: pd.DataFrame, descriptions: Descriptions) -> list[pd.DataFrame]:
    """Return the cells of the rows whose benchmark is shown by the parameters of its
    points: for each run, benchmark and variant two tables. The first has a cell for
    each row, "package written.chase.128K"; the second has the rates of the loads, and
    is empty for a benchmark without loads.
    """
    has_points = get_views(pairs["benchmark"], descriptions).isin(_VIEWS_OF_POINTS)
    is_placed = ladders.is_node_placed(pairs, descriptions)
    rows = pairs[has_points & ~is_placed]
    tables = []
    kinds = rows.groupby(_KIND, sort=False, observed=True)
    for (_, benchmark_name, _), group in kinds:
        benchmark = descriptions[str(benchmark_name)]
        names = _name_rows(group, benchmark)
        overview = _choose_shown(group, benchmark)
        # rows that the overview does not show get NaN in its columns
        cells = group.assign(relation=names).join(overview)
        tables.append(cells)
        tables.append(_make_load_rates(cells))
    return tables


def _name_rows(rows: pd.DataFrame, benchmark: Benchmark) -> "pd.Series[Any]":
    """Name each row by its relation and its point; for a benchmark that loads the
    memory beside what it measures, by its relation and its load.
    """
    # the other threads load the memory, and count the bytes that they move
    is_under_load = benchmark.other_unit == "byte"
    if is_under_load:
        return _append_loads(rows)
    return _join_words(rows["relation"], rows["point"])


def _join_words(first: "pd.Series[Any]", second: "pd.Series[Any]") -> "pd.Series[Any]":
    """Join the two texts of each row with a space: "package" and "n0" -> "package n0".
    If the second text is missing, return the first.
    """
    # a benchmark that nobody described may have no points
    second_words = second.astype(object).fillna("")
    texts: pd.Series[Any] = first.astype(object) + " " + second_words
    return texts.map(str.rstrip)


def _append_loads(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Return a name for each row, its relation and its load: "package read full". If
    the rows have several sizes, the size follows: "package read full 4M". If the load
    is limited, or the rows have several numbers of threads, the threads follow:
    "package read 2000 x8".

    rows: of one run, benchmark and variant.
    """
    has_sizes = rows["bytes"].nunique() > 1
    has_thread_counts = rows["threads"].nunique() > 1
    names = []
    for row in to_records(rows):
        size = int(row["bytes"] or 0)
        load = ladders.name_setting(str(row["point"]), size)
        name = f"{row['relation']} {load}"
        if has_sizes:
            name += f" {ladders.format_size(size)}"
        is_limited = bool(row["load_mbps"])  # None: no limit; 0: no load
        if has_thread_counts or is_limited:
            threads = row["threads"] or 0
            name += f" x{threads:.0f}"
        names.append(name)
    return pd.Series(names, rows.index, dtype=object)


def _make_load_rates(rows: pd.DataFrame) -> pd.DataFrame:
    """Make rows of the benchmark `load` from rows at full load, where the other CPUs
    move as many bytes as they can. The number of such a row is the rate of the other
    CPUs, as ns a byte: `other_rate` is in GB/s, which is bytes a ns. Its interval is
    not known.
    """
    if "other_rate" not in rows:
        return rows[:0]
    has_rate = rows["other_rate"].notna()
    is_at_full_load = rows["load_mbps"].isna()  # no limit was requested
    at_full_load = rows[has_rate & is_at_full_load]
    ns_a_byte = 1 / at_full_load["other_rate"]
    return at_full_load.assign(
        benchmark=LOAD.name,
        median_ns=ns_a_byte,
        mean_ns=ns_a_byte,
        min_ns=ns_a_byte,
        spread=math.nan,
        relation_spread=math.nan,
    )


def _name_nodes(rows: pd.DataFrame, descriptions: Descriptions) -> list[pd.DataFrame]:
    """Return the cells by NUMA node: for each run, benchmark and variant two tables.
    The first has a cell for each row, "n0-n1 read" for CPUs of node 0 and memory of
    node 1; the second has the rates of the loads, and is empty for a benchmark without
    loads. rows: `nodes` of a MemoryHierarchy.
    """
    tables = []
    for _, group in rows.groupby(_KIND, sort=False, observed=True):
        overview = _choose_shown_nodes(group, descriptions)
        cells = group.assign(
            relation=_name_nodes_and_setting(group), relation_spread=group["spread"]
        )
        # rows that the overview does not show get NaN in its columns
        cells = cells.join(overview)
        tables.append(cells)
        tables.append(_make_load_rates(cells))
    return tables


def _name_nodes_and_setting(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Name each row by the node of its CPUs, the node of its memory, and its setting:
    "n0-n1 read".
    """
    nodes = zip(rows["cpu_node"], rows["memory_node"], strict=True)
    names = [f"n{cpu_node}-n{memory_node} " for cpu_node, memory_node in nodes]
    names_of_nodes = pd.Series(names, rows.index, dtype=object)
    return names_of_nodes + rows["setting"]


def _choose_shown_nodes(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Choose the rows that an overview shows: those of the first setting. Return the
    columns of the overview for these rows, by the index of `rows`.

    `column` is "local" or "remote". `place`, the text by which columns are sorted, is
    the same word, since "local" sorts first. `about` says what was chosen: "read by
    node".

    rows: of one run, benchmark and variant, from `select_node_cells`.
    """
    first_setting = ladders.sort_settings(rows, descriptions)[0]
    rows_of_setting = rows[rows["setting"] == first_setting]
    words = {True: "local", False: "remote"}
    column = ladders.is_local_memory(rows_of_setting).map(words)
    about = f"{first_setting} by node"
    return pd.DataFrame({"about": about, "column": column, "place": column})


def _name_levels(levels: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Return the levels of ladders as cells, named by level, setting, threads and kinds
    of cores: "L2 read", "mem copy x64 P-E". levels: of a MemoryHierarchy.
    """
    threads = _format_threads(levels)
    core_kinds = _format_core_kinds(levels)
    name = levels["level"] + " " + levels["setting"] + threads + core_kinds
    cells = levels.assign(relation=name, relation_spread=levels["spread"])

    shown_levels = _choose_shown_levels(levels, descriptions)
    about = shown_levels["setting"] + threads[shown_levels.index]
    # texts of one length sort as the numbers do
    place = shown_levels["least_bytes"].map("{:020}".format)
    column = shown_levels["level"]
    overview = pd.DataFrame({"about": about, "column": column, "place": place})
    # levels that the overview does not show get NaN in its columns
    return cells.join(overview)


def _choose_shown_levels(
    rows: pd.DataFrame, descriptions: Descriptions
) -> pd.DataFrame:
    """Select the levels that an overview shows. Of each run, benchmark and variant,
    these are the levels on the fewest CPUs; of those, the levels of the first setting;
    and of those, the levels on the nearest CPUs.
    """
    settings = list[str]()  # in order; the first occurrence of a setting counts
    for _, rows_of_benchmark in rows.groupby("benchmark"):
        settings += ladders.sort_settings(rows_of_benchmark, descriptions)
    settings_in_order = list(dict.fromkeys(settings))
    thread_counts = sorted(rows["threads"].unique())
    nearest_first = sorted(rows["relation"].unique(), key=relation_sort_key)
    rows = _keep_first(rows, "threads", thread_counts)
    rows = _keep_first(rows, "setting", settings_in_order)
    return _keep_first(rows, "relation", nearest_first)


def _keep_first(rows: pd.DataFrame, name: str, order: Sequence[Any]) -> pd.DataFrame:
    """Keep, of each run, benchmark and variant, the rows with the first of the values
    that they have in a column. name: of the column. order: all values of the column, in
    the order that says which is first.
    """
    rank_by_value = {value: rank for rank, value in enumerate(order)}
    ranks = rows[name].map(rank_by_value)
    ranked = rows.assign(rank=ranks)
    first_ranks = ranked.groupby(_KIND)["rank"].transform("min")
    return rows[ranks == first_ranks]


def _format_threads(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Return a suffix with the threads of each row, " x4"; "" for one thread."""

    def format_suffix(threads: float) -> str:
        if threads > 1:
            return f" x{threads:.0f}"
        return ""

    return rows["threads"].map(format_suffix)


def _format_core_kinds(rows: pd.DataFrame) -> "pd.Series[Any]":
    """Return a suffix with the kinds of cores in each row's relation: "package P-E" ->
    " P-E". The suffix is "" for the fastest kind alone, "package P-P", and for a
    machine with one kind, whose relations name no kinds.
    """

    def format_suffix(relation: object) -> str:
        _, _, kinds = str(relation).partition(" ")
        if not kinds or _FASTEST.issuperset(kinds.split("-")):
            return ""
        return f" {kinds}"

    return rows["relation"].map(format_suffix)


def _choose_shown(rows: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Choose the rows that an overview shows for a benchmark. Return the columns of the
    overview for these rows, by the index of `rows`.

    `column` is the heading of a row's column. `place` is the text by which columns are
    sorted. `about` says what was chosen. Without a parameter that makes the rows of the
    benchmark's own table, each point is a column of its own.

    rows: of one run and variant.
    """
    if benchmark.view is View.PRODUCTS:
        return _choose_shown_peaks(rows, benchmark)
    of_tables, of_rows, of_columns = split_parameters_by_axis(benchmark, rows)
    if of_rows:
        axes = _Axes(of_tables, of_rows[0], of_columns)
        return _choose_shown_of_table(rows, axes, benchmark)
    # the relation stands for a row that has no point
    name = rows["point"].where(rows["point"].notna(), rows["relation"])
    return pd.DataFrame({"about": "", "column": name, "place": name})


class _Axes(NamedTuple):
    """The parameters of a benchmark's own table: those that make several tables, the
    first that makes its rows, and those that make its columns.
    """

    of_tables: list[Parameter]
    of_rows: Parameter
    of_columns: list[Parameter]


def _choose_shown_of_table(
    rows: pd.DataFrame, axes: _Axes, benchmark: Benchmark
) -> pd.DataFrame:
    """Choose the rows that an overview shows, and return its columns `about`, `column`
    and `place` for them, by the index of `rows`. The values of `axes.of_rows` become
    the columns of the overview. Of tables, relations and columns, choose one each: the
    first value of each parameter of tables, the nearest relation, and a column.

    Of `memcpy`, a row with `about` "aligned, self", `column` "4K" and `place`
    "00000000000000004096" is the number for aligned copies of 4 KiB.
    """
    nearest = _find_nearest(rows["relation"])
    nearest_rows = rows[rows["relation"] == nearest]
    table = _select_end(nearest_rows, axes.of_tables)
    shown_rows, words_of_column = _select_column(table, axes.of_columns, benchmark)
    words = _list_words(table, axes.of_tables) + words_of_column
    about = ", ".join(filter(None, [" ".join(words), nearest]))
    return _name_rows_by_parameter(shown_rows, axes.of_rows).assign(about=about)


def _select_column(
    table: pd.DataFrame, parameters: Sequence[Parameter], benchmark: Benchmark
) -> tuple[pd.DataFrame, list[str]]:
    """Select the rows of one column of a benchmark's table; return the words that name
    the column, too.

    parameters: those that make the columns. If the first parameter is a load, the
    column of the greatest load is chosen. Otherwise it is the last column if the
    benchmark has the view BLOCKS, and the first column if not.
    """
    # of the parameters that make columns, only a load has the word `none`, which stands
    # for rows without a value
    begins_with_load = bool(parameters) and bool(parameters[0].none)
    if begins_with_load:
        rows, name = _select_greatest_load(table, parameters[0])
        return rows, [name]
    # the columns of BLOCKS are `own` and `shared`: it is about `shared`
    takes_last = benchmark.view is View.BLOCKS
    rows = _select_end(table, parameters, last=takes_last)
    return rows, _list_words(rows, parameters)


def _find_nearest(relations: "pd.Series[Any]") -> str:
    """Return the relation of the CPUs nearest to each other."""
    return str(min(relations.unique(), key=relation_sort_key))


def _name_rows_by_parameter(rows: pd.DataFrame, parameter: Parameter) -> pd.DataFrame:
    """Return for each row `column`, the value of the parameter as text, and `place`, a
    text by which columns are sorted: 4096 bytes -> "4K", "00000000000000004096".
    """

    def format_value(value: Any) -> str:
        if parameter.type == "bytes":
            return ladders.format_size(int(value))
        return str(value)

    def format_place(value: Any) -> str:
        place = int(parameter.sort_key(value))
        return f"{place:020}"  # texts of one length sort as the numbers do

    values = rows[parameter.name]
    column = values.map(format_value)
    place = values.map(format_place)
    return pd.DataFrame({"column": column, "place": place})


def _choose_shown_peaks(rows: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Choose the products of matrices that an overview shows: those of the first
    operation, which is "peak" if it was measured, and of the first value of each
    parameter that makes tables; of these, the ones on the nearest CPUs.

    Return the columns of the overview for these rows, by the index of `rows`: `about`,
    the operation and the threads, "peak x8"; `column`, the variant; and `place`, "",
    since rows of one variant make one column.
    """
    # the first parameter that makes rows
    operation = benchmark.parameters_with_role("row")[:1]
    of_tables = benchmark.parameters_with_role("table")
    first = _select_end(rows, [*operation, *of_tables])
    relation = first["relation"]
    peaks = first[relation == _find_nearest(relation)]
    about = peaks["operation"] + _format_threads(peaks)
    return pd.DataFrame({"about": about, "column": peaks["variant"], "place": ""})


def _list_words(rows: pd.DataFrame, parameters: Sequence[Parameter]) -> list[str]:
    """List the values that the parameters have in the first row, of those parameters
    whose values are words, not numbers: ["read", "chase"].
    """
    return [
        str(rows[parameter.name].iloc[0])
        for parameter in parameters
        if parameter.type == "word"
    ]


def _select_greatest_load(
    rows: pd.DataFrame, load: Parameter
) -> tuple[pd.DataFrame, str]:
    """Select the rows at the greatest load of the run, and the rows without load, whose
    load is 0. Return these rows and the name of the greatest load: "2 GB/s each".

    load: the parameter, in MB/s for each loading CPU. A missing value means a load
    without limit, the greatest of all, and `load.none` is the name of this load.
    """
    loads = rows[load.name].fillna(math.inf)
    greatest_mbps = float(loads.max())
    is_shown = (loads == greatest_mbps) | (loads == 0)
    name = f"{greatest_mbps / 1000:g} GB/s each"
    if math.isinf(greatest_mbps):
        name = str(load.none)
    return rows[is_shown], name


def split_parameters_by_axis(
    benchmark: Benchmark, rows: pd.DataFrame
) -> list[list[Parameter]]:
    """Return three lists of parameters: those that make the tables of a benchmark, the
    rows of a table, and its columns. Leave out parameters that no row of `rows` has a
    value of.
    """
    names = {name for name, column in rows.items() if column.notna().any()}
    parameters_by_axis = []
    for role in ("table", "row", "column"):
        parameters = benchmark.parameters_with_role(role)
        measured = [parameter for parameter in parameters if parameter.name in names]
        parameters_by_axis.append(measured)
    return parameters_by_axis


def _select_end(
    rows: pd.DataFrame, parameters: Sequence[Parameter], *, last: bool = False
) -> pd.DataFrame:
    """Select the rows at one end of each parameter: at its first value, or at its last
    if `last`. The next parameter's values are those of the rows that are left.
    Parameters that no row has a value of are passed over.
    """
    choose = max if last else min
    for parameter in parameters:
        if parameter.name not in rows:
            continue
        column = rows[parameter.name]
        values = list(column.dropna().unique())
        if values:
            chosen_value = choose(values, key=parameter.sort_key)
            rows = rows[column == chosen_value]
    return rows


def are_pairs(relations: "pd.Series[Any]") -> "pd.Series[Any]":
    """Report which of these names are relations of CPUs, "package", or relations with
    the node of their lines, "package n0"; False for names of levels and points.
    """
    # each different name is looked at once
    name_numbers, names = pd.factorize(relations)
    is_pair = np.array([is_relation(drop_node(name)) for name in names], dtype=bool)
    return pd.Series(is_pair[name_numbers], relations.index)

"""Tables of `fleet show` besides matrices of pairs: ladders, points, products, NUMA
nodes, counters.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.reduce import ladders
from fleet.analysis.reduce.bursts import WORK_COLUMNS
from fleet.analysis.reduce.cells import split_parameters_by_axis
from fleet.analysis.reduce.heatmap import Heatmap, choose_limits
from fleet.model import (
    SHIPPED,
    Benchmark,
    Descriptions,
    Parameter,
    View,
    relation_sort_key,
)
from fleet.text import format_count, one_line, table

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # titles and lines
_NONE = "-"
_ENDS = ["ping_cpu", "pong_cpu"]


def render_ladder(
    pairs: pd.DataFrame,
    plateaus: pd.DataFrame,
    descriptions: Descriptions = SHIPPED,
    *,
    all_sizes: bool = False,
    width: int | None = None,
) -> str:
    """Render a table of memory levels per kind of CPU, and tables by size if asked for
    or without levels.
    """
    first, rows = (
        pairs.iloc[0].to_dict(),
        ladders.select_ladder_steps(pairs, descriptions),
    )
    benchmark = descriptions[first["benchmark"]]
    own = (plateaus["benchmark"] == first["benchmark"]) & (
        plateaus["variant"] == first["variant"]
    )
    levels = plateaus[own]
    grouping = "by the level of the memory" if len(levels) else "by its size"
    parts = [
        f"{text.name_benchmark(first)}: {benchmark.heading}, {grouping};"
        f" {describe_pages(rows)}"
    ]
    groups = group_by_core_kinds(levels).values()
    for group in groups:
        tabulate = partial(tabulate_levels, group, descriptions)
        parts.append(_render_fitting(tabulate, group, width, names=3))
    parts += explain_marks(levels)
    if levels["spread"].notna().any():
        ends = levels["spread"].median(), levels["spread"].max()
        parts.append(
            f"interval: {text.describe_half_widths('half the plateaus', *ends)}"
        )
    if all_sizes or not len(levels):
        for _, group in rows.groupby(["threads", *_ENDS], sort=True):
            tabulate = partial(_tabulate_sizes, group, descriptions)
            parts.append(_render_fitting(tabulate, group, width, names=0))
    ending = describe_bursts(rows)
    if benchmark.unit == "byte":
        ending += (
            "; bytes that instructions move: what a write fetches before is not counted"
        )
    if not all_sizes and len(levels):
        ending += f"; --ladder: all {format_count(rows['bytes'].nunique(), 'size')}"
    return "\n".join((*parts, ending))


def describe_bursts(rows: pd.DataFrame) -> str:
    """Say how many bursts a table is made of, and which share is flagged."""
    bursts, flagged = int(rows["bursts"].sum()), int(rows["flagged_bursts"].sum())
    share = (
        f", {text.format_share(flagged / bursts)} of them flagged" if flagged else ""
    )
    return f"medians of {format_count(bursts, 'burst')}{share}"


def tabulate_levels(
    group: pd.DataFrame, descriptions: Descriptions = SHIPPED, *, in_cycles: bool = True
) -> Table:
    """Return titles and a row per memory level, as medians over `group`. in_cycles: add
    columns in cycles.
    """
    parts = {}
    names = group.sort_values("least_bytes", kind="stable")["level"].unique().tolist()
    for level in sorted(names, key=lambda name: name == ladders.MEMORY):
        rows = group[group["level"] == level]
        cache, ends = (
            int(rows["cache_bytes"].max()),
            (rows["least_bytes"].min(), rows["most_bytes"].max()),
        )
        sizes = "-".join(dict.fromkeys(ladders.format_size(int(size)) for size in ends))
        parts[level, ladders.format_size(cache) if cache else _NONE, sizes] = rows
    return _tabulate_settings(
        ("level", "cache", "sizes"), parts, descriptions, in_cycles=in_cycles
    )


def _tabulate_sizes(
    rows: pd.DataFrame, descriptions: Descriptions, *, in_cycles: bool
) -> Table:
    sizes = sorted(rows["bytes"].unique())
    parts = {
        (ladders.format_size(int(size)),): rows[rows["bytes"] == size] for size in sizes
    }
    return _tabulate_settings(("size",), parts, descriptions, in_cycles=in_cycles)


def _render_fitting(
    tabulate: Callable[..., Table], rows: pd.DataFrame, width: int | None, names: int
) -> str:
    """Render a table below its CPUs' names, without cycles if too wide. names: how many
    columns are text.
    """
    for in_cycles in (True, False):
        titles, lines = tabulate(in_cycles=in_cycles)
        listed = table(titles, lines, right=set(range(names, len(titles))))
        if not text.is_too_wide(listed, width):
            break
    return f"{describe_cpus(rows)}\n{listed}"


def _format_median(
    rows: pd.DataFrame, benchmark: Benchmark, *, cycles: bool
) -> list[str]:
    """Return the text of a number and, if `cycles`, of its cycles. ~: uneven plateau.
    12|34: two levels.
    """
    if not len(rows):
        return [_NONE] * (1 + cycles)
    middle, ghz = float(rows["median_ns"].median()), rows["core_ghz"].median()
    uneven = "rise" in rows and bool((rows["rise"] > ladders.STEP).any())
    in_cycles = (
        [_NONE if text.is_none(ghz) else f"{middle * ghz:.1f}"] if cycles else []
    )
    levels = [ns for ns in (middle, rows["other_ns"].median()) if not text.is_none(ns)]
    number = "|".join(text.format_value(benchmark, ns) for ns in levels)
    return [("~" if uneven else "") + number, *in_cycles]


def explain_marks(levels: pd.DataFrame) -> list[str]:
    """Return a line that explains ~ and one for |, each only if a table of these levels
    has it.
    """
    lines = []
    if (levels["rise"] > ladders.STEP).any():
        lines.append(
            f"~: no plateau: some sizes take more than {ladders.STEP:g} times as long"
            " as others"
        )
    if levels["other_ns"].notna().any():
        lines.append(
            "a|b: the main level is a; the median of the bursts at another level is b"
        )
    return lines


def group_by_core_kinds(rows: pd.DataFrame, *by: str) -> dict[Any, pd.DataFrame]:
    """Group rows by `by`, number of threads and kinds of cores."""
    kinds: Any = [tuple(relation_sort_key(str(name))[1]) for name in rows["relation"]]
    groups = rows.assign(kinds=kinds).groupby(
        [*by, "threads", "kinds"], sort=True, observed=True
    )
    return {key: group.drop(columns="kinds") for key, group in groups}


def describe_pages(rows: pd.DataFrame) -> str:
    """Name the kinds of memory pages that these rows were measured with."""
    return " and ".join(
        f"{kind} pages"
        for kind in sorted(rows["pages"].dropna().unique(), reverse=True)
    )


def describe_cpus(rows: pd.DataFrame) -> str:
    """Name the CPUs of a table: one, several measured in turn, or groups at once."""
    threads, kind = (
        int(rows["threads"].iloc[0]),
        str(rows["relation"].iloc[0]).partition(" ")[2],
    )
    ends = sorted({*zip(rows["ping_cpu"], rows["pong_cpu"], strict=True)})
    suffix, (first, last) = f" ({kind})" if kind else "", ends[0]
    if threads == 1 and len(ends) == 1:
        return f"CPU {first}{suffix}"
    if threads == 1:
        return (
            f"one CPU{suffix}: median of {len(ends)}, {first} to {ends[-1][0]}, one"
            " after the other"
        )
    if len(ends) == 1:
        return f"{threads} CPUs{suffix}, {first} to {last}, all together"
    return (
        f"{threads} CPUs{suffix} together: median of {format_count(len(ends), 'group')}"
    )


_LINE, _KNEE, _RATE = 64, 1.5, "_mbps"
BY_NODE = "rows: nodes of the CPUs, columns: of the memory"


@dataclass(frozen=True, slots=True)
class PointTable:
    """One table. The first cell of a line is its name. shades: of the other cells, as
    in `Heatmap`, or ().
    """

    title: str
    titles: tuple[str, ...]
    lines: list[tuple[str, ...]]
    shades: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class PointTables:
    """The tables of one benchmark and variant. legend: what is counted. note: the line
    below them.
    """

    name: str
    legend: str
    tables: list[PointTable]
    note: str


class _Relations(Parameter):
    __slots__ = ()

    def sort_key(self, value: Any) -> Any:
        return relation_sort_key(value)


_RELATION: Parameter = _Relations("relation", "word")
_POINT = Parameter("point", "name")
Key = tuple[Any, ...]  # the values of some parameters
Cells = dict[Key, dict[Key, float]]


def tabulate_points(
    pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> PointTables:
    """Return tables of one benchmark and variant, by its parameters. Each number is a
    median of pairs.
    """
    benchmark = descriptions[str(pairs["benchmark"].iloc[0])]
    tables, rows, columns = split_parameters_by_axis(benchmark, pairs)
    rows = rows or [_POINT]
    tables, columns = (
        ([_RELATION, *tables], columns) if columns else (tables, [_RELATION])
    )
    work_columns = [
        name for name in WORK_COLUMNS if name in pairs and pairs[name].notna().any()
    ]
    names = ("median_ns", *work_columns)
    cells, *others = (
        _compute_cells(pairs, name, tables, rows, columns) for name in names
    )
    loaded = benchmark.other_unit == "byte"
    usually = (
        ("ratio", "boundary")
        if benchmark.view is View.BLOCKS
        else ("knee",)
        if loaded
        else ()
    )
    titled = [
        item for item in tables if item.type == "word" or pairs[item.name].nunique() > 1
    ]
    row_title = ", ".join(parameter.name.removesuffix("_bytes") for parameter in rows)
    point_tables = []
    for key in _sort_keys(cells, tables):
        across = _sort_keys(
            {column for line in cells[key].values() for column in line}, columns
        )
        labels = [_format_key(column, columns) for column in across]
        more = ("words/own",) if {"words", "own"} <= {*labels} else usually
        lines = []
        for row in _sort_keys(cells[key], rows):
            numbers = [cells[key][row].get(column) for column in across]
            texts = [
                "-" if ns is None else text.format_value(benchmark, ns)
                for ns in numbers
            ]
            by_title = dict(zip(labels, numbers, strict=True))
            own, words = by_title.get("own"), by_title.get("words")
            if benchmark.view is View.BLOCKS:
                texts += _format_ratio_and_boundary(row[0], own, by_title.get("shared"))
            elif "words/own" in more:
                texts.append(f"{words / own:.1f}" if own and words else "-")
            if loaded:
                texts.append(_format_knee(cells[key], others[-1][key], row, across))
            lines.append((_format_key(row, rows), *texts))
            if others:
                below = (
                    [other[key][row].get(column) for other in others]
                    for column in across
                )
                lines.append(("", *map(_format_other_work, below), *[""] * len(more)))
        title_words = [
            (
                (parameter.words.get(value) or str(value))
                if parameter.type == "word"
                else (
                    f"{parameter.name.removesuffix('_bytes')}"
                    f" {_format_parameter(parameter, value)}"
                )
            )
            for parameter, value in zip(tables, key, strict=True)
            if parameter in titled
        ]
        point_tables.append(
            PointTable(", ".join(title_words), (row_title, *labels, *more), lines)
        )
    described = _explain_axis_parameters(pairs, [*rows, *columns])
    notes = [describe_bursts(pairs), *_list_notes(benchmark, bool(others))]
    if any("words/own" in point_table.titles for point_table in point_tables):
        notes.append("words/own: what false sharing costs")
    legend = "; ".join((f"{benchmark.heading}, median of pairs", *described))
    return PointTables(
        f"{benchmark.name}/{pairs['variant'].iloc[0]}",
        legend,
        point_tables,
        "; ".join(notes),
    )


def _format_other_work(values: Sequence[float | None]) -> str:
    """Format what other threads did: the least and the most, or one rate; "-" if
    unknown.
    """
    decimals = 2 if len(values) > 1 else 1
    return (
        "-".join(f"{value:.{decimals}f}" for value in values if not text.is_none(value))
        or "-"
    )


def _format_knee(numbers: Cells, rates: Cells, row: Key, across: Sequence[Key]) -> str:
    """Format the rate of other threads where a row takes _KNEE times its idle time,
    "not reached" or "-".
    """
    ends = [
        (rates[row_key][key], ns)
        for row_key, line in numbers.items()
        for key, ns in line.items()
    ]
    rate, idle = min(ends)
    if rate:
        return "-"
    before = (rate, idle)
    for key in across:
        if key in numbers[row]:
            after = (rates[row][key], numbers[row][key])
            if after[1] >= _KNEE * idle > before[1]:
                part = (_KNEE * idle - before[1]) / (after[1] - before[1])
                return f"{before[0] + part * (after[0] - before[0]):.1f}"
            before = after
    return "not reached" if before[0] else "-"


def _list_notes(benchmark: Benchmark, has_others: bool) -> Iterator[str]:
    if benchmark.other_unit == "byte":
        yield "below each: GB/s of all other threads in the same samples"
        yield (
            f"knee: where a {benchmark.unit} takes {_KNEE:g} times what it does without"
            " them"
        )
    elif benchmark.other_unit:
        units = f"{benchmark.other_unit}s of another thread in a {benchmark.unit}"
        yield f"below each: the fewest and the most {units}"
    elif has_others:
        yield (
            "below each: what the threads that did the least and the most did, as"
            " shares of the mean"
        )
    if benchmark.view is View.BLOCKS:
        yield "boundary: what each end of a block costs, (shared - own) times its lines"


def _compute_cells(
    pairs: pd.DataFrame, number: str, *parameters: Sequence[Parameter]
) -> dict[Key, Cells]:
    """Return medians of the column `number`, by the parameters of tables, then of rows,
    then of columns.
    """
    names = [parameter.name for part in parameters for parameter in part]
    medians = pairs.groupby(names, sort=False, dropna=False, observed=True)[
        number
    ].median()
    cells: dict[Key, Cells] = {}
    for values in text.to_records(medians.reset_index()):
        table, row, column = (
            tuple(values[parameter.name] for parameter in part) for part in parameters
        )
        cells.setdefault(table, {}).setdefault(row, {})[column] = values[number]
    return cells


def _sort_keys(keys: Iterable[Key], parameters: Sequence[Parameter]) -> list[Key]:
    return sorted(
        keys,
        key=lambda key: [
            (
                (value is None) == bool(parameter.none),
                value and parameter.sort_key(value),
                len(str(value)),
            )
            for parameter, value in zip(parameters, key, strict=True)
        ],
    )


def _format_key(key: Key, parameters: Sequence[Parameter]) -> str:
    texts = (
        _format_parameter(parameter, value)
        for parameter, value in zip(parameters, key, strict=True)
    )
    return " ".join(filter(None, texts)) or "all"


def _format_parameter(parameter: Parameter, value: Any) -> str:
    if value is None:
        return parameter.none or ""
    if parameter.type == "bytes":
        return ladders.format_size(int(value))
    value = value / 1000 if parameter.name.endswith(_RATE) else value
    return f"{value:g}" if parameter.type == "count" else str(value)


def _explain_axis_parameters(
    pairs: pd.DataFrame, parameters: Sequence[Parameter]
) -> Iterator[str]:
    for parameter in parameters:
        values = {str(value).partition("-")[0] for value in pairs[parameter.name]}
        if parameter is _RELATION:
            yield "columns: what the CPUs share"
        elif parameter.none:
            yield f"columns: {parameter.name.replace(_RATE, ', GB/s each')}"
        elif meanings := [
            f"{word}: {words}"
            for word, words in parameter.words.items()
            if word in values
        ]:
            yield ", ".join(meanings)


def _format_ratio_and_boundary(
    block_bytes: Any, own: float | None, shared: float | None
) -> tuple[str, str]:
    """Format the cost of shared blocks relative to own memory, and the cost of each end
    of a block.
    """
    if own is None or shared is None or text.is_none(own) or text.is_none(shared):
        return "-", "-"
    return (
        f"{shared / own:.2f}",
        f"{round((shared - own) * block_bytes / _LINE, 1) + 0.0:.1f}",
    )


def tabulate_gemm_points(
    pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> PointTables:
    """Return the tables of one variant of gemm, one per number and kind of CPUs;
    medians of like CPUs.
    """
    rows = add_peak_shares(pairs, descriptions)
    groups = group_by_core_kinds(rows).values()
    tables = [
        PointTable(describe_cpus(group), *_tabulate_gemm(group)) for group in groups
    ]
    pages = describe_pages(rows[rows["operation"] != "peak"])
    note = (
        f"{describe_bursts(rows)}; ±95%: within the run; every product was compared"
        " with the exact one"
    )
    return PointTables(
        text.name_benchmark(rows.iloc[0].to_dict()), f"Gop/s; {pages}", tables, note
    )


def add_peak_shares(
    pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Return the rows of matrix products in `pairs`, sorted as in a table, with these
    columns added.

    `gops`: operations per nanosecond of all threads. `share`: of the peak of the same
    run, variant and CPUs, compared per cycle, or per nanosecond if a frequency is
    unknown. `per_cycle`: operations of one core per cycle. `shape`: such as
    256x256x256, empty for the peak. NaN without a peak or frequency.
    """
    cpus = ["run_id", "variant", "ping_cpu", "pong_cpu", "threads"]
    rows = pairs[
        pairs["benchmark"]
        .map(lambda name: descriptions[name].view is View.PRODUCTS)
        .astype(bool)
    ]
    rows = rows.assign(
        gops=1 / rows["median_ns"], operation=rows["operation"].astype(str)
    )
    peaks = rows[rows["operation"] == "peak"].drop_duplicates(cpus)
    numbers = rows[cpus].merge(peaks[[*cpus, "gops", "core_ghz"]], on=cpus, how="left")
    gops, ghz = numbers[["gops", "core_ghz"]].to_numpy(dtype=float).T
    rows = rows.assign(
        share=rows["gops"] / gops * (ghz / rows["core_ghz"]).fillna(1),
        per_cycle=rows["gops"] / rows["threads"] / rows["core_ghz"],
        shape=rows["point"].map(
            lambda name: next((x for x in name.split(".") if x.count("x") == 2), "")
        ),
    )
    rows = rows.sort_values("bytes", na_position="first", kind="stable")
    benchmarks = rows["benchmark"].unique()
    operations = [
        item
        for name in benchmarks
        for item in descriptions[name].parameters_with_role("row")
    ][:1]
    names = sorted(
        rows["operation"].unique(),
        key=lambda name: [item.sort_key(name) for item in operations],
    )
    return rows.sort_values(
        "operation", key=lambda column: column.map(names.index), kind="stable"
    )


def _tabulate_gemm(rows: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    numbers = {
        name: (name, "median") for name in ("gops", "spread", "share", "per_cycle")
    }
    medians = (
        rows.groupby(["operation", "point", "shape"], sort=False)
        .agg(**numbers)
        .reset_index()
    )
    threads = int(rows["threads"].iloc[0])
    cpu_titles = ("a CPU",) * (threads > 1)
    lines = []
    for row in text.to_records(medians):
        rates = (
            f"{row['gops']:.1f}",
            *(f"{row['gops'] / threads:.1f}" for _ in cpu_titles),
        )
        share = "-" if text.is_none(row["share"]) else f"{row['share']:.1%}"
        per_cycle = "-" if text.is_none(row["per_cycle"]) else f"{row['per_cycle']:.1f}"
        # The size, where one was asked for: .64M of stream.256x256x256.64M.huge.x1.
        size = row["point"].removeprefix(row["operation"]).split(".")[2:-2][:1]
        name = ".".join((row["operation"], *size))
        lines.append(
            (
                name,
                row["shape"],
                *rates,
                text.format_half_width(row["spread"]),
                share,
                per_cycle,
            )
        )
    return (
        "point",
        "shape",
        "Gop/s",
        *cpu_titles,
        "±95%",
        "of peak",
        "op/cycle",
    ), lines


def tabulate_by_node(
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    run: Mapping[str, Any],
    descriptions: Descriptions = SHIPPED,
) -> list[PointTables]:
    """Return matrices by NUMA node, for each benchmark and variant of a run that was
    measured by node.
    """
    node_facts = run.get("nodes") or []
    cells = ladders.select_node_cells(pairs, cpus, descriptions)
    groups = cells.groupby(["benchmark", "variant"], sort=False, observed=True)
    return [
        _tabulate_node_matrices(part, node_facts, descriptions) for _, part in groups
    ]


def tabulate_line_nodes(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[PointTables]:
    """Return tables of latencies by relation and by how many of a pair's CPUs are on
    the line's NUMA node.
    """
    rows = ladders.select_line_placed_pairs(pairs, descriptions)
    nodes = dict(zip(cpus["cpu"], cpus["node"], strict=True))
    near = sum(
        (rows[name].map(nodes) == rows["memory_node"]).astype(int) for name in _ENDS
    )
    rows = rows.assign(
        near=near, point=rows["point"].str.replace(r"\.?n\d+$", "", regex=True)
    )
    results = []
    for (name, variant, point), part in rows.groupby(
        ["benchmark", "variant", "point"], observed=True
    ):
        if part["near"].nunique() == 1:  # as on a machine of one node
            continue
        medians = part.groupby(["relation", "near"], observed=True)[
            "median_ns"
        ].median()
        lines = []
        for relation in sorted(part["relation"].unique(), key=relation_sort_key):
            values = [medians.get((relation, near)) for near in (2, 1, 0)]
            numbers = [value for value in values if value is not None]
            cost = f"{max(numbers) / min(numbers):.2f}" if len(numbers) > 1 else "-"
            lines.append(
                (relation, *("-" if ns is None else f"{ns:.1f}" for ns in values), cost)
            )
        titles = ("relation", "both CPUs", "one of them", "neither", "ratio")
        title, heading = (
            f"{name}/{variant} {point}".rstrip(),
            descriptions[str(name)].heading,
        )
        homes = PointTable("pairs whose line lies on the NUMA node of", titles, lines)
        results.append(PointTables(title, heading, [homes], describe_bursts(part)))
    return results


def _tabulate_node_matrices(
    cells: pd.DataFrame, node_facts: list[dict[str, Any]], descriptions: Descriptions
) -> PointTables:
    first = cells.iloc[0]
    benchmark = descriptions[first["benchmark"]]
    distances = {
        (facts["node"], far): str(how)
        for facts in node_facts
        for far, how in facts["distances"]
    }
    tables = []
    for setting in ladders.sort_settings(cells, descriptions):
        part = cells[cells["setting"] == setting]
        rows, columns, matrix = ladders.lay_out_node_matrix(part)
        rates = ladders.lay_out_node_matrix(part, "other_rate")[2]
        texts = {row: [f"node {row}"] for row in rows}
        for cell in product(rows, columns):
            ns, far, rate = matrix.get(cell), distances.get(cell), rates.get(cell, 0)
            number = ("-" if ns is None else text.format_value(benchmark, ns)) + "*" * (
                cell[0] == cell[1]
            )
            load = f" at {rate:.1f} GB/s" if rate > 0 else ""
            texts[cell[0]].append(number + (f" ({far})" if far else "") + load)
        titles = ("CPUs", *(f"node {node}" for node in columns))
        values = np.array(
            [[matrix.get((row, node), np.nan) for node in columns] for row in rows]
        )
        shades = (
            Heatmap(titles, (), values, choose_limits([values]))
            .choose_shades()
            .tolist()
        )
        title = f"{setting}{_compare_remote_with_local(benchmark, matrix)}"
        tables.append(PointTable(title, titles, [*map(tuple, texts.values())], shades))
    without = sorted({*cells["memory_node"]} - {*cells["cpu_node"]})
    note = [
        describe_bursts(cells),
        "at: what others get meanwhile" if cells["other_rate"].notna().any() else "",
        "*: own memory"
        + ("; (10): distance, as the firmware has it" if distances else ""),
        (
            f"without CPUs of the run: node {', '.join(map(str, without))}"
            if without
            else ""
        ),
        *(
            f"node {facts['node']}: not allowed here"
            for facts in node_facts
            if not facts["allowed"]
        ),
    ]
    name, legend = (
        f"{first['benchmark']}/{first['variant']}",
        f"{benchmark.heading}; {BY_NODE}",
    )
    return PointTables(name, legend, tables, "; ".join(filter(None, note)))


def _compare_remote_with_local(benchmark: Benchmark, matrix: ladders.NodeMatrix) -> str:
    """Compare remote memory with a node's own, and name the worst pair of nodes; ""
    without both.
    """
    values = {cell: text.convert_to_shown(benchmark, ns) for cell, ns in matrix.items()}
    away = [(row, node) for row, node in values if row != node and (row, row) in values]
    ratios = {(row, node): values[row, node] / values[row, row] for row, node in away}
    if not ratios:
        return ""
    (row, node), worst = max(ratios.items(), key=lambda item: abs(math.log(item[1])))
    return (
        f": remote/local {median(ratios.values()):.2f}, worst node {row} to {node}"
        f" {worst:.2f}"
    )


def render_tables(tables: PointTables, width: int | None = None) -> str:
    """Render the tables for a terminal, one below another; split tables wider than
    `width`.
    """
    parts = (
        f"{one_line(part.title)}\n{_render_table(part, width)}"
        for part in tables.tables
    )
    return "\n".join(
        (one_line(f"{tables.name}: {tables.legend}"), *parts, one_line(tables.note))
    )


def _render_table(point_table: PointTable, width: int | None) -> str:
    """Render as many columns side by side as fit, the others below, each part with the
    names of the lines.
    """
    columns = list(zip(point_table.titles, *point_table.lines, strict=True))
    parts: list[list[tuple[str, ...]]] = [columns[:2]]
    for column in columns[2:]:
        wide = sum(2 + max(map(len, cells)) for cells in (*parts[-1], column)) - 2
        if width is not None and wide > width:
            parts.append([columns[0]])
        parts[-1].append(column)
    return "\n".join(
        table(titles, lines, right=set(range(1, len(titles))))
        for titles, *lines in (list(zip(*part, strict=True)) for part in parts)
    )


# views whose threads all do the same work
_SAME_WORK = (
    View.LADDER,
    View.BLOCKS,
    View.PRODUCTS,
)
_NUMBER = ["benchmark", "variant", "point", "relation", "thread", "event"]


def count_per_unit(counters: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return events per unit of work, a row per benchmark, variant, point, relation,
    thread and event.

    counters: the table `counters` of one run. pairs: its rows of `pairs`. Columns:
    those six, `per_unit` (median of bursts; NaN where the CPU had no counter free),
    `bursts`, and `scaled` (share of bursts whose event was counted for a part of the
    time, and the rest estimated). thread: `ping` or `other`.
    """
    if counters.empty:
        return pd.DataFrame([], columns=[*_NUMBER, "per_unit", "bursts", "scaled"])
    keys = [*_NUMBER[:3], "low", "high"]
    counted, own = (
        rows.assign(low=rows[_ENDS].min(axis=1), high=rows[_ENDS].max(axis=1))
        for rows in (counters, pairs)
    )
    rows = counted.merge(
        own[[*keys, "relation"]].drop_duplicates(keys, keep="last"), on=keys
    )
    share = rows["running_ns"] / rows["enabled_ns"]
    rows = rows.assign(
        thread=rows["cpu"].eq(rows["ping_cpu"]).map({True: "ping", False: "other"}),
        per_unit=rows["count"].astype("float64")
        / share.where(share > 0)
        / rows["units"],
        scaled=share < 1,
    )
    medians = rows.groupby(_NUMBER, sort=False, dropna=False, observed=True).agg(
        per_unit=("per_unit", "median"),
        bursts=("per_unit", "size"),
        scaled=("scaled", "mean"),
    )
    return medians.reset_index()


def tabulate_events(
    events: pd.DataFrame, hello: Mapping[str, Any], descriptions: Descriptions = SHIPPED
) -> PointTables | None:
    """Return tables of a benchmark and variant's events, None without any. events: from
    `count_per_unit`.
    """
    if events.empty:
        return None
    first = events.iloc[0]
    benchmark = descriptions[first["benchmark"]]
    is_averaged = benchmark.view in _SAME_WORK and events["thread"].nunique() > 1
    if is_averaged:
        keys = [name for name in _NUMBER if name != "thread"]
        columns = {"per_unit": "mean", "bursts": "max", "scaled": "max"}
        events = (
            events.groupby(keys, sort=False, dropna=False, observed=True)
            .agg(columns)
            .reset_index()
        )
        events["thread"] = "each"
    is_zero = (
        events["per_unit"]
        .eq(0)
        .groupby(events["event"], sort=False, observed=True)
        .all()
    )
    never = [str(name) for name in is_zero.index[is_zero]]
    counted_events = set(events["event"]) - set(never)
    names = [
        counter["event"]
        for counter in hello.get("counters", ())
        if counter["event"] in counted_events
    ]
    planned = hello.get("plan", {}).get("benchmarks", ())
    points = [point for kind in planned for point in kind.get("points") or ()]
    key_columns = [
        name for name in ("point", "thread") if events[name].nunique() > 1
    ] or ["thread"]
    places = {point: place for place, point in enumerate(dict.fromkeys(points))}
    rows = sorted(text.to_records(events), key=lambda row: places.get(row["point"], -1))
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: relation_sort_key(row["relation"])):
        parts.setdefault(row["relation"], []).append(row)
    if (
        "point" not in key_columns and len(parts) > 1
    ):  # short tables are easier to compare in one
        key_columns = ["relation", *key_columns]
        parts = {"by what two CPUs share": [*chain(*parts.values())]}
    tables = [
        PointTable(
            title,
            (", ".join(key_columns), *names),
            _format_event_lines(part, key_columns, names),
        )
        for title, part in parts.items()
        if names
    ]
    notes = [f"0 everywhere: {', '.join(never)}"] if never else []
    notes += [f"medians of {format_count(int(events['bursts'].max()), 'count')}"]
    notes += ["mean of the threads"] if is_averaged else []
    notes += (
        ["-: the CPU had no counter free"] if events["per_unit"].isna().any() else []
    )
    notes += (
        ["~: counted for a part of the time, the rest is estimated"]
        if events["scaled"].any()
        else []
    )
    legend = f"counted per {benchmark.unit.replace('_', ' ')} in each thread"
    return PointTables(
        f"{first['benchmark']}/{first['variant']} events",
        legend,
        tables,
        "; ".join(notes),
    )


def _format_event_lines(
    rows: Sequence[dict[str, Any]], key_columns: Sequence[str], names: Sequence[str]
) -> list[tuple[str, ...]]:
    cells = {}
    for row in rows:
        mark = "~" if row["scaled"] else ""
        number = (
            "-" if text.is_none(row["per_unit"]) else f"{mark}{row['per_unit']:.3g}"
        )
        cells[", ".join(str(row[name]) for name in key_columns), row["event"]] = number
    places = dict.fromkeys(place for place, _ in cells)
    return [
        (place, *(cells.get((place, name), "-") for name in names)) for place in places
    ]


def _tabulate_settings(
    names: Key,
    parts: Mapping[Key, pd.DataFrame],
    descriptions: Descriptions,
    *,
    in_cycles: bool,
) -> Table:
    """Return titles and a line per part: its names, then a number and its cycles for
    each setting.
    """
    rows = pd.concat(parts.values())
    settings, benchmark = (
        ladders.sort_settings(rows, descriptions),
        descriptions[rows["benchmark"].iloc[0]],
    )
    cycles = (
        in_cycles
        and not text.is_rate(benchmark)
        and bool(rows["core_ghz"].notna().any())
    )
    lines = []
    for names_of_line, part in parts.items():
        cells = (
            _format_median(part[part["setting"] == name], benchmark, cycles=cycles)
            for name in settings
        )
        lines.append((*names_of_line, *chain(*cells)))
    return (
        *names,
        *(title for setting in settings for title in (setting, *["cycles"] * cycles)),
    ), lines

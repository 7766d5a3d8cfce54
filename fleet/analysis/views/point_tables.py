"""Tables of benchmarks with points: by their parameters, matrix multiplies, and matrices by NUMA node."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.text import (
    convert_to_shown,
    format_half_width,
    format_value,
    is_none,
    name_kind,
    to_records,
)
from fleet.analysis.reduce.bursts import WORK_COLUMNS
from fleet.analysis.reduce.comparison_rows import split_parameters
from fleet.analysis.reduce.heatmap import Heatmap, choose_limits
from fleet.analysis.reduce.ladders import (
    NodeMatrix,
    format_size,
    lay_out_node_matrix,
    select_homes,
    select_node_cells,
    sort_settings,
)
from fleet.analysis.views.ladders import describe_bursts, describe_cpus, describe_pages, group_like_cpus
from fleet.model import SHIPPED, Benchmark, Descriptions, Parameter, View, relation_sort_key
from fleet.text import one_line, table

_LINE, _KNEE, _RATE = 64, 1.5, "_mbps"
BY_NODE = "rows: nodes of the CPUs, columns: of the memory"


@dataclass(frozen=True, slots=True)
class PointTable:
    """One table; the first cell of a line names it. shades: of the other cells, as in `Heatmap`, if any."""

    title: str
    titles: tuple[str, ...]
    lines: list[tuple[str, ...]]
    shades: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class PointTables:
    """The tables of one benchmark and variant. legend: what is counted; note: below the last table."""

    name: str
    legend: str
    tables: list[PointTable]
    note: str


class _Relations(Parameter):
    __slots__ = ()

    def place(self, value: Any) -> Any:
        return relation_sort_key(value)


_RELATION: Parameter = _Relations("relation", "word")
_POINT = Parameter("point", "name")
Key = tuple[Any, ...]  # the values of some parameters


def tabulate_points(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> PointTables:
    """Return the tables of one benchmark and variant; a number is the median of pairs.

    pairs: its rows. Columns default to what the CPUs share, rows to the points.
    """
    benchmark = descriptions[str(pairs["benchmark"].iloc[0])]
    tables, rows, columns = split_parameters(benchmark, pairs)
    rows = rows or [_POINT]
    tables, columns = ([_RELATION, *tables], columns) if columns else (tables, [_RELATION])
    work_columns = [name for name in WORK_COLUMNS if name in pairs and pairs[name].notna().any()]
    cells, *others = (
        _compute_cells(pairs, name, tables, rows, columns) for name in ("median_ns", *work_columns)
    )
    loaded = benchmark.other_unit == "byte"
    usually = ("ratio", "boundary") if benchmark.view is View.BLOCKS else ("knee",) if loaded else ()
    titled = [
        parameter for parameter in tables if parameter.type == "word" or pairs[parameter.name].nunique() > 1
    ]
    row_title = ", ".join(parameter.name.removesuffix("_bytes") for parameter in rows)
    point_tables = []
    for key in _sort_keys(cells, tables):
        across = _sort_keys({column for line in cells[key].values() for column in line}, columns)
        labels = [_label(column, columns) for column in across]
        more = ("words/own",) if {"words", "own"} <= {*labels} else usually
        lines = []
        for row in _sort_keys(cells[key], rows):
            numbers = [cells[key][row].get(column) for column in across]
            texts = ["-" if ns is None else format_value(benchmark, ns) for ns in numbers]
            by_title = dict(zip(labels, numbers, strict=True))
            own, words = by_title.get("own"), by_title.get("words")
            if benchmark.view is View.BLOCKS:
                texts += _format_ends(row[0], own, by_title.get("shared"))
            elif "words/own" in more:
                texts.append(f"{words / own:.1f}" if own and words else "-")
            if loaded:
                texts.append(_format_knee(cells[key], others[-1][key], row, across))
            lines.append((_label(row, rows), *texts))
            if others:
                below = (
                    _format_others([other[key][row].get(column) for other in others]) for column in across
                )
                lines.append(("", *below, *[""] * len(more)))
        values = [pair for pair in zip(tables, key, strict=True) if pair[0] in titled]
        title = ", ".join(_explain_parameter(parameter, value) for parameter, value in values)
        point_tables.append(PointTable(title, (row_title, *labels, *more), lines))
    described = _describe_parameters(pairs, [*rows, *columns])
    notes = [describe_bursts(pairs), *_list_notes(benchmark, bool(others))]
    if any("words/own" in point_table.titles for point_table in point_tables):
        notes.append("words/own: what false sharing costs")
    legend = "; ".join((f"{benchmark.heading}, median of pairs", *described))
    return PointTables(f"{benchmark.name}/{pairs['variant'].iloc[0]}", legend, point_tables, "; ".join(notes))


def _format_others(values: Sequence[float | None]) -> str:
    """Format what the other threads did: the least and the largest share, or a rate."""
    decimals = 2 if len(values) > 1 else 1
    return "-".join(f"{value:.{decimals}f}" for value in values if not is_none(value)) or "-"


def _format_knee(
    numbers: Mapping[Key, Mapping[Key, float]],
    rates: Mapping[Key, Mapping[Key, float]],
    row: Key,
    across: Sequence[Key],
) -> str:
    """Format the rate at which a number reaches _KNEE times its idle value, interpolated."""
    ends = [(rates[row_key][key], ns) for row_key, line in numbers.items() for key, ns in line.items()]
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
        yield f"knee: where a {benchmark.unit} takes {_KNEE:g} times what it does without them"
    elif benchmark.other_unit:
        units = f"{benchmark.other_unit}s of another thread in a {benchmark.unit}"
        yield f"below each: the fewest and the most {units}"
    elif has_others:
        yield "below each: what the threads that did the least and the most did, as shares of the mean"
    if benchmark.view is View.BLOCKS:
        yield "boundary: what each end of a block costs, (shared - own) times its lines"


def _compute_cells(
    pairs: pd.DataFrame, number: str, *parameters: Sequence[Parameter]
) -> dict[Key, dict[Key, dict[Key, float]]]:
    """Return the median of a column, by the values of the parameters of tables, rows and columns."""
    names = [parameter.name for part in parameters for parameter in part]
    medians = pairs.groupby(names, sort=False, dropna=False, observed=True)[number].median()
    cells: dict[Key, dict[Key, dict[Key, float]]] = {}
    for values in to_records(medians.reset_index()):
        table, row, column = (tuple(values[parameter.name] for parameter in part) for part in parameters)
        cells.setdefault(table, {}).setdefault(row, {})[column] = values[number]
    return cells


def _sort_keys(keys: Iterable[Key], parameters: Sequence[Parameter]) -> list[Key]:
    return sorted(
        keys,
        key=lambda key: [
            ((value is None) == bool(parameter.none), value and parameter.sort_key(value), len(str(value)))
            for parameter, value in zip(parameters, key, strict=True)
        ],
    )


def _label(key: Key, parameters: Sequence[Parameter]) -> str:
    texts = (_format_parameter(parameter, value) for parameter, value in zip(parameters, key, strict=True))
    return " ".join(filter(None, texts)) or "all"


def _format_parameter(parameter: Parameter, value: Any) -> str:
    if value is None:
        return parameter.none or ""
    if parameter.type == "bytes":
        return format_size(int(value))
    value = value / 1000 if parameter.name.endswith(_RATE) else value
    return f"{value:g}" if parameter.type == "count" else str(value)


def _explain_parameter(parameter: Parameter, value: Any) -> str:
    if parameter.type == "word":
        return parameter.words.get(value) or str(value)
    return f"{parameter.name.removesuffix('_bytes')} {_format_parameter(parameter, value)}"


def _describe_parameters(pairs: pd.DataFrame, parameters: Sequence[Parameter]) -> Iterator[str]:
    for parameter in parameters:
        values = {str(value).partition("-")[0] for value in pairs[parameter.name]}
        if parameter is _RELATION:
            yield "columns: what the CPUs share"
        elif parameter.none:
            yield f"columns: {parameter.name.replace(_RATE, ', GB/s each')}"
        elif meanings := [
            f"{word}: {meaning}" for word, meaning in parameter.words.items() if word in values
        ]:
            yield ", ".join(meanings)


def _format_ends(block: Any, own: float | None, shared: float | None) -> tuple[str, str]:
    """Format the cost of shared blocks relative to own memory, and the cost of each end of a block."""
    if own is None or shared is None or is_none(own) or is_none(shared):
        return "-", "-"
    return f"{shared / own:.2f}", f"{round((shared - own) * block / _LINE, 1) + 0.0:.1f}"


def tabulate_products(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> PointTables:
    """Return the points of one variant of gemm, a table per number of CPUs; medians of like CPUs.

    pairs: its rows of the table `pairs`. `of peak` is the share of what the same CPUs reached on registers in
    the same run, per cycle where the frequency is known; `a CPU` and `op/cycle` are means per CPU.
    """
    rows = add_peak_shares(pairs, descriptions)
    groups = group_like_cpus(rows).values()
    tables = [PointTable(describe_cpus(group), *_tabulate_group(group)) for group in groups]
    pages = describe_pages(rows[rows["operation"] != "peak"])
    note = f"{describe_bursts(rows)}; ±95%: within the run; every product was compared with the exact one"
    return PointTables(name_kind(rows.iloc[0].to_dict()), f"Gop/s; {pages}", tables, note)


def add_peak_shares(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> pd.DataFrame:
    """Return the rows of products in `pairs`, in the order of a table, with columns for people.

    `gops`: operations a nanosecond by all threads; `share`: of the peak of the same run, variant and CPUs,
    per cycle, or per nanosecond where a frequency is unknown; `per_cycle`: operations of a core in a cycle;
    `shape`: empty for peak. NaN without a peak or frequency.
    """
    cpus = ["run_id", "variant", "ping_cpu", "pong_cpu", "threads"]
    rows = pairs[pairs["benchmark"].map(lambda name: descriptions[name].view is View.PRODUCTS).astype(bool)]
    rows = rows.assign(gops=1 / rows["median_ns"], operation=rows["operation"].astype(str))
    peaks = rows[rows["operation"] == "peak"].drop_duplicates(cpus)
    keys, keys_of_peaks = (part[cpus].itertuples(index=False, name=None) for part in (rows, peaks))
    numbers = zip(peaks["gops"], peaks["core_ghz"], strict=True)
    peak_by_cpus = dict(zip(keys_of_peaks, numbers, strict=True))
    none = (math.nan, math.nan)
    gops, ghz = np.array([peak_by_cpus.get(key, none) for key in keys], dtype=float).reshape(-1, 2).T
    rows = rows.assign(
        share=rows["gops"] / gops * (ghz / rows["core_ghz"]).fillna(1),
        per_cycle=rows["gops"] / rows["threads"] / rows["core_ghz"],
        shape=rows["point"].map(lambda name: next((x for x in name.split(".") if x.count("x") == 2), "")),
    )
    rows = rows.sort_values("bytes", na_position="first", kind="stable")
    operations = [
        parameter
        for name in rows["benchmark"].unique()
        for parameter in descriptions[name].parameters_with_role("row")
    ][:1]
    names = sorted(rows["operation"].unique(), key=lambda name: [item.sort_key(name) for item in operations])
    return rows.sort_values("operation", key=lambda column: column.map(names.index), kind="stable")


def _tabulate_group(rows: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    numbers = {name: (name, "median") for name in ("gops", "spread", "share", "per_cycle")}
    medians = rows.groupby(["operation", "point", "shape"], sort=False).agg(**numbers).reset_index()
    threads = int(rows["threads"].iloc[0])
    cpu_titles = ("a CPU",) * (threads > 1)
    lines = []
    for row in to_records(medians):
        rates = (f"{row['gops']:.1f}", *(f"{row['gops'] / threads:.1f}" for _ in cpu_titles))
        share = "-" if is_none(row["share"]) else f"{row['share']:.1%}"
        per_cycle = "-" if is_none(row["per_cycle"]) else f"{row['per_cycle']:.1f}"
        # The size, where one was asked for: .64M of stream.256x256x256.64M.huge.x1.
        size = row["point"].removeprefix(row["operation"]).split(".")[2:-2][:1]
        name = ".".join((row["operation"], *size))
        lines.append((name, row["shape"], *rates, format_half_width(row["spread"]), share, per_cycle))
    return ("point", "shape", "Gop/s", *cpu_titles, "±95%", "of peak", "op/cycle"), lines


def tabulate_nodes(
    pairs: pd.DataFrame, cpus: pd.DataFrame, run: Mapping[str, Any], descriptions: Descriptions = SHIPPED
) -> list[PointTables]:
    """Return the matrices of each benchmark and variant of a run that was measured by node."""
    node_facts = run.get("nodes") or []
    cells = select_node_cells(pairs, cpus, descriptions).groupby(
        ["benchmark", "variant"], sort=False, observed=True
    )
    return [_tabulate_node_matrices(part, node_facts, descriptions) for _, part in cells]


def tabulate_homes(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[PointTables]:
    """Return, for pairs of CPUs whose lines lie on requested NUMA nodes, what the home costs by relation.

    pairs, cpus: of one run.
    """
    rows, nodes = select_homes(pairs, descriptions), dict(zip(cpus["cpu"], cpus["node"], strict=True))
    near = sum(
        (rows[name].map(nodes) == rows["memory_node"]).astype(int) for name in ("ping_cpu", "pong_cpu")
    )
    rows = rows.assign(near=near, point=rows["point"].str.replace(r"\.?n\d+$", "", regex=True))
    results = []
    for (name, variant, point), part in rows.groupby(["benchmark", "variant", "point"], observed=True):
        medians = part.groupby(["relation", "near"], observed=True)["median_ns"].median()
        lines = []
        for relation in sorted(part["relation"].unique(), key=relation_sort_key):
            values = [medians.get((relation, near)) for near in (2, 1, 0)]
            numbers = [value for value in values if value is not None]
            cost = f"{max(numbers) / min(numbers):.2f}" if len(numbers) > 1 else "-"
            lines.append((relation, *("-" if ns is None else f"{ns:.1f}" for ns in values), cost))
        titles = ("relation", "both CPUs", "one of them", "neither", "ratio")
        title, heading = f"{name}/{variant} {point}".rstrip(), descriptions[str(name)].heading
        homes = PointTable("pairs whose line lies on the NUMA node of", titles, lines)
        results.append(PointTables(title, heading, [homes], describe_bursts(part)))
    return results


def _tabulate_node_matrices(
    cells: pd.DataFrame, node_facts: list[dict[str, Any]], descriptions: Descriptions
) -> PointTables:
    first = cells.iloc[0]
    benchmark = descriptions[first["benchmark"]]
    distances = {(facts["node"], far): str(how) for facts in node_facts for far, how in facts["distances"]}
    tables = []
    for setting in sort_settings(cells, descriptions):
        part = cells[cells["setting"] == setting]
        rows, columns, matrix = lay_out_node_matrix(part)
        rates = lay_out_node_matrix(part, "other_rate")[2]

        def describe_cell(row: int, node: int, matrix: NodeMatrix = matrix, rates: NodeMatrix = rates) -> str:
            ns, far, rate = matrix.get((row, node)), distances.get((row, node)), rates.get((row, node), 0)
            number = ("-" if ns is None else format_value(benchmark, ns)) + "*" * (row == node)
            return number + (f" ({far})" if far else "") + (f" at {rate:.1f} GB/s" if rate > 0 else "")

        lines = [(f"node {row}", *(describe_cell(row, node) for node in columns)) for row in rows]
        titles = ("CPUs", *(f"node {node}" for node in columns))
        values = np.array([[matrix.get((row, node), np.nan) for node in columns] for row in rows])
        shades = Heatmap(titles, (), values, choose_limits([values])).choose_shades().tolist()
        title = f"{setting}{_compare_remote_with_local(benchmark, matrix)}"
        tables.append(PointTable(title, titles, lines, shades))
    without = sorted({*cells["memory_node"]} - {*cells["cpu_node"]})
    note = [
        describe_bursts(cells),
        "at: what others get meanwhile" if cells["other_rate"].notna().any() else "",
        "*: own memory" + ("; (10): distance, as the firmware has it" if distances else ""),
        f"without CPUs of the run: node {', '.join(map(str, without))}" if without else "",
        *(f"node {facts['node']}: not allowed here" for facts in node_facts if not facts["allowed"]),
    ]
    name, legend = f"{first['benchmark']}/{first['variant']}", f"{benchmark.heading}; {BY_NODE}"
    return PointTables(name, legend, tables, "; ".join(filter(None, note)))


def _compare_remote_with_local(benchmark: Benchmark, matrix: NodeMatrix) -> str:
    """Compare remote memory with a node's own, and name the worst pair; empty without either."""
    values = {cell: convert_to_shown(benchmark, ns) for cell, ns in matrix.items()}
    ratios = {
        (row, node): value / values[row, row]
        for (row, node), value in values.items()
        if row != node and (row, row) in values
    }
    if not ratios:
        return ""
    (row, node), worst = max(ratios.items(), key=lambda item: abs(math.log(item[1])))
    return f": remote/local {median(ratios.values()):.2f}, worst node {row} to {node} {worst:.2f}"


def render_tables(tables: PointTables, width: int | None = None) -> str:
    """Render the tables for a terminal, one below another; wider ones in parts."""
    parts = (
        f"{one_line(point_table.title)}\n{_render_table(point_table, width)}" for point_table in tables.tables
    )
    return "\n".join((one_line(f"{tables.name}: {tables.legend}"), *parts, one_line(tables.note)))


def _render_table(point_table: PointTable, width: int | None) -> str:
    """Render as many columns side by side as fit, the others below, each part with the names of the lines."""
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

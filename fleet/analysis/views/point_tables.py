"""Tables of `fleet show` besides matrices of pairs: ladders, points, products, NUMA
nodes, counters.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.reduce import ladders
from fleet.analysis.reduce.bursts import WORK_COLUMNS
from fleet.analysis.reduce.cells import split_parameters_by_axis
from fleet.analysis.views.benchmark_tables import (
    PointTable,
    PointTables,
    describe_bursts,
)
from fleet.model import (
    SHIPPED,
    Benchmark,
    Descriptions,
    Parameter,
    View,
    relation_sort_key,
)

_ENDS = ["ping_cpu", "pong_cpu"]
_LINE = 64  # bytes
_KNEE = 1.5
_RATE = "_mbps"


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

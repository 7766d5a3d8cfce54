"""The tables of a benchmark of points: its description says which parameters are rows, columns and tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fleet.analysis.base.text import format_value, is_none, to_records
from fleet.analysis.reduce.bursts import OF_OTHERS
from fleet.analysis.reduce.ladders import format_size
from fleet.analysis.views.ladders import describe_bursts
from fleet.model import SHIPPED, Benchmark, Descriptions, Parameter, View, relation_sort_key
from fleet.text import one_line, table

_LINE, _KNEE, _RATE = 64, 1.5, "_mbps"


@dataclass(frozen=True, slots=True)
class PointTable:
    """One table; the first cell of a line names it. shades: of the others, as of a `Heatmap`, if any."""

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
    """The tables of one benchmark and variant, `pairs` its rows; a number is the median of pairs.

    Without a parameter for the columns they are what the CPUs share; without one for the rows the points.
    """
    known = descriptions[str(pairs["benchmark"].iloc[0])]
    tables, rows, columns = (
        [
            one
            for one in known.parameters_with_role(role)
            if one.name in pairs and pairs[one.name].notna().any()
        ]
        for role in ("table", "row", "column")
    )
    rows = rows or [_POINT]
    tables, columns = ([_RELATION, *tables], columns) if columns else (tables, [_RELATION])
    measured_there = [one for one in OF_OTHERS if one in pairs and pairs[one].notna().any()]
    cells, *others = (_cells(pairs, name, tables, rows, columns) for name in ("median_ns", *measured_there))
    loaded = known.other_unit == "byte"
    usually = ("ratio", "boundary") if known.view is View.BLOCKS else ("knee",) if loaded else ()
    titled = [one for one in tables if one.type == "word" or pairs[one.name].nunique() > 1]
    found = []
    for key in _in_order(cells, tables):
        across = _in_order({column for line in cells[key].values() for column in line}, columns)
        heads = [", ".join(one.name.removesuffix("_bytes") for one in rows)]
        shown = [_label(column, columns) for column in across]
        more = ("words/own",) if {"words", "own"} <= {*shown} else usually
        titles = (*heads, *shown, *more)
        lines = []
        for row in _in_order(cells[key], rows):
            numbers = [cells[key][row].get(column) for column in across]
            texts = ["-" if ns is None else format_value(descriptions[known.name], ns) for ns in numbers]
            below = [[one[key][row].get(column) for one in others] for column in across if others]
            by_title = dict(zip(shown, numbers, strict=True))
            if known.view is View.BLOCKS:
                texts += _ends(row[0], by_title)
            elif "words/own" in more:
                own, words = by_title["own"], by_title["words"]
                texts.append(f"{words / own:.1f}" if own and words else "-")
            if loaded:
                texts.append(_knee(cells[key], others[-1][key], row, across))
            lines.append((_label(row, rows), *texts))
            if others:
                lines.append(("", *map(_others_text, below), *("" for _ in more)))
        values = zip(tables, key, strict=True)
        title = ", ".join(_meaning(one, value) for one, value in values if one in titled)
        found.append(PointTable(title, titles, lines))
    legend = "; ".join([f"{known.heading}, median of pairs", *_words(pairs, [*rows, *columns])])
    notes = [describe_bursts(pairs), *_notes(known, bool(others))]
    notes += ["words/own: what false sharing costs"] * any("words/own" in one.titles for one in found)
    note = "; ".join(notes)
    return PointTables(f"{known.name}/{pairs['variant'].iloc[0]}", legend, found, note)


def _others_text(values: Sequence[float | None]) -> str:
    """What the other threads did: from the least share to the most, or a rate."""
    known = [value for value in values if value is not None and not is_none(value)]
    decimals = 2 if len(values) > 1 else 1
    return "-".join(f"{value:.{decimals}f}" for value in known) or "-"


def _knee(
    numbers: Mapping[Key, Mapping[Key, float]],
    rates: Mapping[Key, Mapping[Key, float]],
    row: Key,
    across: Sequence[Key],
) -> str:
    """The rate at which a number reaches _KNEE times that without a load, between those on either side."""
    ends = [(rates[one][key], ns) for one, line in numbers.items() for key, ns in line.items()]
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


def _notes(known: Benchmark, others: bool) -> Iterator[str]:
    if known.other_unit == "byte":
        yield "below each: GB/s of all other threads in the same samples"
        yield f"knee: where a {known.unit} takes {_KNEE:g} times what it does without them"
    elif known.other_unit:
        yield f"below each: the fewest and the most {known.other_unit}s of another thread in a {known.unit}"
    elif others:
        yield "below each: what the threads that did the least and the most did, as shares of the mean"
    if known.view is View.BLOCKS:
        yield "boundary: what each end of a block costs, (shared - own) times its lines"


def _cells(
    pairs: pd.DataFrame, number: str, *parameters: Sequence[Parameter]
) -> dict[Key, dict[Key, dict[Key, float]]]:
    """The median of a column in each cell, by the values of the parameters of tables, rows and columns."""
    names = [one.name for part in parameters for one in part]
    medians = pairs.groupby(names, sort=False, dropna=False, observed=True)[number].median()
    found: dict[Key, dict[Key, dict[Key, float]]] = {}
    for values in to_records(medians.reset_index()):
        table, row, column = (tuple(values[one.name] for one in part) for part in parameters)
        found.setdefault(table, {}).setdefault(row, {})[column] = values[number]
    return found


def _in_order(keys: Iterable[Key], parameters: Sequence[Parameter]) -> list[Key]:
    def places(key: Key) -> list[Any]:
        return [
            ((value is None) == bool(one.none), value and one.sort_key(value))
            for one, value in zip(parameters, key, strict=True)
        ]

    return sorted(keys, key=places)


def _label(key: Key, parameters: Sequence[Parameter]) -> str:
    shown = (_shown(one, value) for one, value in zip(parameters, key, strict=True))
    return " ".join(filter(None, shown)) or "all"


def _shown(parameter: Parameter, value: Any) -> str:
    if value is None:
        return parameter.none or ""
    if parameter.type == "bytes":
        return format_size(int(value))
    value = value / 1000 if parameter.name.endswith(_RATE) else value
    return f"{value:g}" if parameter.type == "count" else str(value)


def _meaning(parameter: Parameter, value: Any) -> str:
    if parameter.type == "word":
        return parameter.words.get(value) or str(value)
    return f"{parameter.name.removesuffix('_bytes')} {_shown(parameter, value)}"


def _words(pairs: pd.DataFrame, parameters: Sequence[Parameter]) -> Iterator[str]:
    for one in parameters:
        there = set(pairs[one.name])
        if one is _RELATION:
            yield "columns: what the CPUs share"
        elif one.none:
            yield f"columns: {one.name.replace(_RATE, ', GB/s each')}"
        elif meanings := [f"{word}: {meaning}" for word, meaning in one.words.items() if word in there]:
            yield ", ".join(meanings)


def _ends(block: Any, cells: Mapping[str, float | None]) -> tuple[str, str]:
    """How many times the cost of own memory that of shared blocks is, and what each end of a block costs."""
    own, shared = cells.get("own"), cells.get("shared")
    if own is None or shared is None or is_none(own) or is_none(shared):
        return "-", "-"
    return f"{shared / own:.2f}", f"{round((shared - own) * block / _LINE, 1) + 0.0:.1f}"


def render_tables(found: PointTables, width: int | None = None) -> str:
    """The tables for a terminal, one below the other; those wider than it in parts."""
    parts = (f"{one_line(one.title)}\n{_table_text(one, width)}" for one in found.tables)
    return "\n".join((one_line(f"{found.name}: {found.legend}"), *parts, one_line(found.note)))


def _table_text(one: PointTable, width: int | None) -> str:
    """As many columns beside each other as fit, the others below, each part with the names of the lines."""
    columns = list(zip(one.titles, *one.lines, strict=True))
    parts: list[list[tuple[str, ...]]] = [columns[:2]]
    for column in columns[2:]:
        wide = sum(2 + max(map(len, shown)) for shown in (*parts[-1], column)) - 2
        if width is not None and wide > width:
            parts.append([columns[0]])
        parts[-1].append(column)
    return "\n".join(
        table(titles, lines, right=set(range(1, len(titles))))
        for titles, *lines in (list(zip(*part, strict=True)) for part in parts)
    )

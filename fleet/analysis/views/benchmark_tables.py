"""The tables of a benchmark as values and as text, and the words around them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.model import relation_sort_key
from fleet.text import format_count, one_line, table


def describe_bursts(rows: pd.DataFrame) -> str:
    """Say how many bursts a table is made of, and which share is flagged."""
    bursts = int(rows["bursts"].sum())
    flagged = int(rows["flagged_bursts"].sum())
    words = f"medians of {format_count(bursts, 'burst')}"
    if flagged:
        words += f", {text.format_share(flagged / bursts)} of them flagged"
    return words


def group_by_core_kinds(rows: pd.DataFrame, *by: str) -> dict[Any, pd.DataFrame]:
    """Group rows by the columns `by`, then by number of threads and by kinds of cores:
    the kinds of the relation "package P-E" are P and E. A key is the tuple of all these
    values, each kind as its number: faster kinds have lower ones.
    """
    kinds: Any = []
    for relation in rows["relation"]:
        # the sort key ends in the numbers of the kinds
        _, kind_numbers = relation_sort_key(str(relation))
        kinds.append(tuple(kind_numbers))
    with_kinds = rows.assign(kinds=kinds)
    keys = [*by, "threads", "kinds"]
    groups = {}
    for key, group in with_kinds.groupby(keys, sort=True, observed=True):
        groups[key] = group.drop(columns="kinds")
    return groups


def describe_pages(rows: pd.DataFrame) -> str:
    """Name the kinds of memory pages that these rows were measured with."""
    known = rows["pages"].dropna()
    kinds = sorted(known.unique(), reverse=True)
    return " and ".join(f"{kind} pages" for kind in kinds)


def describe_cpus(rows: pd.DataFrame) -> str:
    """Name the CPUs of a table: one, several measured in turn, or groups of several
    that were measured together.

    `ping_cpu` and `pong_cpu` of a row are the first and the last CPU of its group; for
    a single CPU they are equal.
    """
    threads = int(rows["threads"].iloc[0])
    relation = str(rows["relation"].iloc[0])
    _, _, core_kinds = relation.partition(" ")  # "package P-E" -> "P-E"; "" without
    suffix = f" ({core_kinds})" if core_kinds else ""
    ends = zip(rows["ping_cpu"], rows["pong_cpu"], strict=True)
    groups = sorted(set(ends))
    if threads == 1:
        cpus = [first for first, _ in groups]
        return _describe_single_cpus(cpus, suffix)
    if len(groups) == 1:
        first, last = groups[0]
        return f"{threads} CPUs{suffix}, {first} to {last}, all together"
    count = format_count(len(groups), "group")
    return f"{threads} CPUs{suffix} together: median of {count}"


def _describe_single_cpus(cpus: Sequence[int], suffix: str) -> str:
    """Name a CPU, or several that were measured in turn. suffix: their kind."""
    if len(cpus) == 1:
        return f"CPU {cpus[0]}{suffix}"
    median = f"median of {len(cpus)}, {cpus[0]} to {cpus[-1]}"
    return f"one CPU{suffix}: {median}, one after the other"


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


def render_tables(tables: PointTables, width: int | None = None) -> str:
    """Render the tables for a terminal, one below another; split tables wider than
    `width`.
    """
    lines = [one_line(f"{tables.name}: {tables.legend}")]
    for part in tables.tables:
        lines.append(one_line(part.title))
        lines.append(_render_table(part, width))
    lines.append(one_line(tables.note))
    return "\n".join(lines)


def _render_table(point_table: PointTable, width: int | None) -> str:
    """Render as many columns side by side as fit, the others below; each part begins
    with the names of the lines. width: of the terminal; None: unlimited.
    """
    columns = zip(point_table.titles, *point_table.lines, strict=True)
    names, *numbers = columns
    parts = [[names]]
    for column in numbers:
        part = parts[-1]
        has_numbers = len(part) > 1
        is_full = width is not None and _measure_width([*part, column]) > width
        # a part has one column of numbers at least, even if too wide
        if is_full and has_numbers:
            parts.append([names, column])
        else:
            part.append(column)
    return "\n".join(map(_render_columns, parts))


def _measure_width(columns: Sequence[tuple[str, ...]]) -> int:
    """Return the characters that columns take, two spaces apart."""
    widths = [max(map(len, cells)) for cells in columns]
    return sum(widths) + 2 * (len(columns) - 1)


def _render_columns(columns: Sequence[tuple[str, ...]]) -> str:
    titles, *lines = zip(*columns, strict=True)
    number_columns = range(1, len(titles))
    return table(titles, lines, number_columns)

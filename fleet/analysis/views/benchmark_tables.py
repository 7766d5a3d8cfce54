"""The tables of a benchmark as values and as text, and the words around them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.model import (
    relation_sort_key,
)
from fleet.text import format_count, one_line, table


def describe_bursts(rows: pd.DataFrame) -> str:
    """Say how many bursts a table is made of, and which share is flagged."""
    bursts, flagged = int(rows["bursts"].sum()), int(rows["flagged_bursts"].sum())
    share = (
        f", {text.format_share(flagged / bursts)} of them flagged" if flagged else ""
    )
    return f"medians of {format_count(bursts, 'burst')}{share}"


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
    names = columns[0]
    parts = [columns[:2]]
    for column in columns[2:]:
        if width is not None and _measure_width([*parts[-1], column]) > width:
            parts.append([names])
        parts[-1].append(column)
    return "\n".join(map(_render_columns, parts))


def _measure_width(columns: Sequence[tuple[str, ...]]) -> int:
    """Return the characters that columns take, two spaces apart."""
    widths = [max(map(len, cells)) for cells in columns]
    return sum(widths) + 2 * (len(columns) - 1)


def _render_columns(columns: Sequence[tuple[str, ...]]) -> str:
    titles, *lines = zip(*columns, strict=True)
    return table(titles, lines, right=set(range(1, len(titles))))

"""Tables of a benchmark of many points as cells, which a terminal and a page lay out each for itself."""

from dataclasses import dataclass

from fleet.text import one_line, table


@dataclass(frozen=True, slots=True)
class PointTable:
    """One table. titles: of the columns; the first cell of a line names it, the others are numbers."""

    title: str
    titles: tuple[str, ...]
    lines: list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PointTables:
    """The tables of one benchmark and variant. legend: what is counted; note: below the last table."""

    name: str
    legend: str
    tables: list[PointTable]
    note: str


def tables_text(found: PointTables, width: int | None = None) -> str:
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

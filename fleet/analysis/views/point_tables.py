"""Tables of a benchmark of many points as cells, which a terminal and a page lay out each for itself."""

from dataclasses import dataclass

from fleet.text import table


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


def tables_text(found: PointTables) -> str:
    """The tables for a terminal, one below the other."""
    parts = (
        f"{one.title}\n{table(one.titles, one.lines, right=set(range(1, len(one.titles))))}"
        for one in found.tables
    )
    return "\n".join((f"{found.name}: {found.legend}", *parts, found.note))

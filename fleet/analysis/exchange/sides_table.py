"""Print the numbers of runs beside those that others published, a relation a row."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from fleet.analysis.base.text import (
    format_half_width,
    is_none,
    name_benchmark,
    to_records,
)
from fleet.text import format_count, one_line, table

_Cell = tuple[str, str, str]  # benchmark, variant and relation


def render_sides(rows: pd.DataFrame) -> str:
    """Render which sides there are, a table per benchmark and variant with what all of
    them have, the first side at the left, and a line on what each side has alone.

    rows: from `tabulate_side_medians`.
    """
    sides = _index_sides(rows)
    names = _name_sides(sides)
    common = _list_common_cells(sides)
    about_sides = "\n".join(_describe_sides(rows, names))
    tables = _render_tables(sides, common, names)
    notes = [*_explain(sides, common), *_list_others(sides, common, names)]
    notes_in_lines = "\n".join(map(one_line, notes))
    return "\n\n".join([about_sides, *tables, notes_in_lines])


_Sides = dict[str, dict[_Cell, Mapping[str, Any]]]  # rows by side and cell


def _index_sides(rows: pd.DataFrame) -> _Sides:
    """Return the rows of each side by benchmark, variant and relation."""
    sides: _Sides = {}
    for row in to_records(rows):
        rows_of_side = sides.setdefault(row["side"], {})
        cell = (row["benchmark"], row["variant"] or "", row["relation"])
        rows_of_side[cell] = row
    return sides


def _name_sides(sides: _Sides) -> dict[str, str]:
    """Return the title that each side has in the tables: "mine" and "published" for
    runs beside what others published, else "A", "B" and so on.
    """
    are_published = [_is_published(rows_by_cell) for rows_by_cell in sides.values()]
    titles = [chr(ord("A") + place) for place in range(len(sides))]
    if are_published == [False, True]:
        titles = ["mine", "published"]
    return dict(zip(sides, titles, strict=True))


def _is_published(rows_by_cell: Mapping[_Cell, Mapping[str, Any]]) -> bool:
    """Report whether a side comes from tables of numbers, not from runs."""
    first_row = next(iter(rows_by_cell.values()))
    return bool(first_row["tables"] > 0)


def _list_common_cells(sides: _Sides) -> list[_Cell]:
    """List what all sides have, in the order of the first."""
    first, *others = sides.values()
    return [cell for cell in first if all(cell in other for other in others)]


def _describe_sides(rows: pd.DataFrame, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a heading, and a line on each side. names: the title of each side in the
    tables, from `_name_sides`.
    """
    yield one_line(
        f"{' beside '.join(names)}: no verdict is possible, since a summary is of one"
        " run."
    )
    for row in to_records(rows.drop_duplicates("side")):
        name = names[row["side"]]
        yield one_line(f"  {name}: {row['side']}, {_describe_source(row)}")


def _describe_source(row: Mapping[str, Any]) -> str:
    if row["tables"] == 1:
        return f"a table, the {row['of'] or 'number'} of each pair"
    if row["tables"]:
        return f"the median of {row['tables']} tables"
    return format_count(row["runs"], "run")


def _render_tables(
    sides: _Sides, common: list[_Cell], names: Mapping[str, str]
) -> Iterator[str]:
    """Yield a table for each benchmark and variant that all sides have. common: the
    cells, each a benchmark, variant and relation, that all sides have.
    """
    cells_by_choice = defaultdict[tuple[str, str], list[_Cell]](list)
    for cell in common:
        benchmark, variant, _ = cell
        cells_by_choice[benchmark, variant].append(cell)
    first_side = next(iter(sides.values()))
    for cells in cells_by_choice.values():
        any_row = first_side[cells[0]]
        name = name_benchmark(any_row).rstrip("/")
        title = one_line(f"{name}: one-way latency in ns")
        yield f"{title}\n{_tabulate_cells(sides, cells, names)}"


def _tabulate_cells(sides: _Sides, cells: list[_Cell], names: Mapping[str, str]) -> str:
    """Tabulate what all sides have of a benchmark, a line per relation.

    The columns are the relation, the numbers of the first side, and for each other side
    its numbers and their ratios to those of the first. A side has its intervals beside
    its numbers. cells: benchmark, variant and relation of each line. names: the title
    of each side.
    """
    columns = {"relation": [relation for _, _, relation in cells]}
    first_side, *others = sides
    first_name = names[first_side]
    first_rows = sides[first_side]
    columns |= _list_numbers(first_rows, cells, first_name)
    for side in others:
        own_name = names[side]
        own_rows = sides[side]
        columns |= _list_numbers(own_rows, cells, own_name)
        title = "ratio"
        if len(others) > 1:
            title = f"{own_name}/{first_name}"
        columns[title] = _list_ratios(own_rows, first_rows, cells)
    lines = list(zip(*columns.values(), strict=True))
    number_columns = set(range(1, len(columns)))
    return table(list(columns), lines, right=number_columns)


def _list_ratios(
    own_rows: Mapping[_Cell, Mapping[str, Any]],
    first_rows: Mapping[_Cell, Mapping[str, Any]],
    cells: list[_Cell],
) -> list[str]:
    """Return for each of `cells` the median of a side's own row as a ratio to that of
    the first side's row.
    """
    ratios = list[str]()
    for cell in cells:
        own_ns = own_rows[cell]["median_ns"]
        first_ns = first_rows[cell]["median_ns"]
        ratios.append(f"{own_ns / first_ns:.2f}")
    return ratios


def _list_numbers(
    rows_by_cell: Mapping[_Cell, Mapping[str, Any]], cells: list[_Cell], name: str
) -> dict[str, list[str]]:
    """Return by title the column of a side's numbers, and one of their intervals if it
    has any. `half` is half an interval as a share of the number, or None.
    """
    rows = [rows_by_cell[cell] for cell in cells]
    columns = {name: [f"{row['median_ns']:.1f}" for row in rows]}
    halves = [row["half"] for row in rows]
    if not all(map(is_none, halves)):
        intervals = [format_half_width(half) for half in halves]
        columns[f"±95% of {name}"] = intervals
    return columns


def _explain(sides: _Sides, common: list[_Cell]) -> Iterator[str]:
    """Explain the columns; or say that nothing is common to all sides. common: the
    cells, each a benchmark, variant and relation, that all sides have.
    """
    if not common:
        yield (
            "Nothing is common to all sides: only numbers of the same benchmark,"
            " instructions and relation are set beside each other."
        )
        return
    # the column ±95% is only there if a number has an interval
    halves = [own[cell]["half"] for own in sides.values() for cell in common]
    if not all(map(is_none, halves)):
        yield "±95%: half the interval of the median pair within its run"


def _list_others(
    sides: _Sides, common: list[_Cell], names: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line on what a side has and another lacks."""
    for side, own in sides.items():
        others = [row for cell, row in own.items() if cell not in common]
        if others:
            yield f"only {names[side]}: {_list_rows(others)}"


def _list_rows(rows: list[Mapping[str, Any]]) -> str:
    """List numbers by benchmark: "cas/cmpxchg: smt 8.1, system 131.3"."""
    numbers_by_benchmark = defaultdict[str, list[str]](list)
    for row in rows:
        name = name_benchmark(row).rstrip("/")  # "cas/" has no variant
        number = f"{row['relation']} {row['median_ns']:.1f}"
        numbers_by_benchmark[name].append(number)
    parts = []
    for name, numbers in numbers_by_benchmark.items():
        parts.append(f"{name}: {', '.join(numbers)}")
    return "; ".join(parts)

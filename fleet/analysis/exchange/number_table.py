"""Write what number each host has as a table to publish: CSV, Markdown or LaTeX."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Floats
from fleet.analysis.views.usual import (
    UsualNumbers,
    describe_interval,
    list_last_changes,
    list_several_levels,
)
from fleet.errors import UsageError
from fleet.model import Benchmark
from fleet.text import one_line

TABLE = "table"
_NUMBERS = ("number", "low", "high")
_RIGHT = {*_NUMBERS, "runs"}
_LATEX: dict[str, str | int | None] = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def write_number_table(usual: UsualNumbers, suffix: str) -> str:
    """Write the numbers by host, as the file's suffix says: .md, .tex, else CSV.

    Raises UsageError without numbers.
    """
    if usual.table.empty:
        raise UsageError(
            "these runs have no numbers to export; `fleet runs` lists what each has."
        )
    by_host = usual.table.sort_values("host_name", kind="stable")
    usual = usual._replace(table=by_host)
    rows = tabulate_numbers(usual)
    if suffix not in _WRITERS:
        return text.format_csv(rows)
    write = _WRITERS[suffix]
    titles = [str(name) for name in rows.columns]
    cells = _format_rows(rows, _list_benchmarks(usual))
    return write(titles, cells, _list_notes(usual))


def _format_rows(
    rows: pd.DataFrame, benchmarks: Sequence[Benchmark]
) -> list[list[str]]:
    """Format the cells of each row. benchmarks: of each row."""
    lines = []
    for row, benchmark in zip(text.to_records(rows), benchmarks, strict=True):
        line = [_format_cell(benchmark, name, value) for name, value in row.items()]
        lines.append(line)
    return lines


def tabulate_numbers(usual: UsualNumbers) -> pd.DataFrame:
    """Return a row per host, benchmark and relation, in the units of `show`. For
    memory, the relation is a level, such as "L2".

    Columns: `host`, `benchmark`, `relation`, `number`, `low` and `high` (the ends of
    its 95 % interval, NaN without one), `unit`, `runs`. The unit is that of `show`:
    "ns" for a time; for a rate, what it counts, such as "GB/s". In `usual`, a rate is
    the time in ns that one unit takes.
    """
    table = usual.table
    benchmarks = _list_benchmarks(usual)
    benchmark_names = [_name_setting(row) for row in text.to_records(table)]
    low, high = _compute_ends(table, benchmarks)
    return pd.DataFrame(
        {
            "host": table["host_name"],
            "benchmark": benchmark_names,
            "relation": table["relation"],
            "number": _convert_all(benchmarks, table["median_ns"]),
            "low": low,
            "high": high,
            "unit": [benchmark.rate or "ns" for benchmark in benchmarks],
            "runs": table["runs"],
        }
    )


def _compute_ends(
    table: pd.DataFrame, benchmarks: Sequence[Benchmark]
) -> tuple[Floats, Floats]:
    """Return the lower and the upper end of each number's interval, in the unit of
    `show`; NaN without one. benchmarks: that of each row.
    """
    # `half` is a share of the number. From 1 on, the interval reaches down to 0, which
    # no time can be: then both ends are left out.
    half = table["half"].where(table["half"] < 1)
    shortest = _convert_all(benchmarks, table["median_ns"] * (1 - half))
    longest = _convert_all(benchmarks, table["median_ns"] * (1 + half))
    # the shortest time is the lowest number of ns, but the highest rate
    return np.minimum(shortest, longest), np.maximum(shortest, longest)


def _list_benchmarks(usual: UsualNumbers) -> list[Benchmark]:
    """List the benchmark of each number."""
    return [usual.descriptions[name] for name in usual.table["benchmark"]]


def _convert_all(
    benchmarks: Sequence[Benchmark], values_ns: "pd.Series[Any]"
) -> Floats:
    values = zip(benchmarks, values_ns, strict=True)
    return np.array([text.convert_to_shown(benchmark, ns) for benchmark, ns in values])


def _name_setting(row: Mapping[str, Any]) -> str:
    """Name a row's benchmark, variant and setting: "bandwidth/avx2 read"."""
    name = text.name_benchmark(row).rstrip("/")
    return f"{name} {row['about']}".rstrip()


def _format_cell(benchmark: Benchmark, name: str, value: Any) -> str:
    """Format a cell, a number with the digits of `show`."""
    if value is None:
        return "-"
    if name in _NUMBERS:
        return text.format_shown(benchmark, value)
    return one_line(str(value))


def _list_notes(usual: UsualNumbers) -> list[str]:
    """List what a reader of the table has to know of its numbers."""
    notes = []
    if usual.table["half"].notna().any():
        notes.append(f"low, high: 95 % interval {describe_interval(usual.table)}")
    changed = list_last_changes(usual.table)
    if changed:
        notes.append(f"numbers since the last change: {'; '.join(changed)}")
    several = list_several_levels(usual.table, usual.descriptions)
    notes += [f"levels differ between runs: {line}" for line in several]
    return notes


def _write_markdown(titles: list[str], rows: list[list[str]], notes: list[str]) -> str:
    """Write a table of Markdown, its numbers at the right; notes are paragraphs below
    it. The row below the titles says how each column is aligned.
    """
    alignments = ["---:" if title in _RIGHT else "---" for title in titles]
    lines = [_join_markdown(titles), _join_markdown(alignments)]
    for row in rows:
        cells = [escape_markdown(cell) for cell in row]
        lines.append(_join_markdown(cells))
    for note in notes:
        lines += ["", escape_markdown(note)]
    return "\n".join([*lines, ""])


def _join_markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape_markdown(words: str) -> str:
    """Escape text for Markdown, so that none of it is read as markup or HTML."""
    return re.sub(r"([\\`*_\[\]<>|&~])", r"\\\1", one_line(words))


def _write_latex(titles: list[str], rows: list[list[str]], notes: list[str]) -> str:
    """Write a tabular that needs no package; notes are comments below it."""
    alignment = "".join("r" if title in _RIGHT else "l" for title in titles)
    lines = [
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\hline",
        _join_latex(titles),
        r"\hline",
    ]
    lines += [_join_latex(row) for row in rows]
    lines += [r"\hline", r"\end{tabular}"]
    lines += [f"% {note}" for note in notes]
    return "\n".join([*lines, ""])


def _join_latex(cells: Iterable[str]) -> str:
    escapes = str.maketrans(_LATEX)
    escaped = [cell.translate(escapes) for cell in cells]
    return rf"{' & '.join(escaped)} \\"


_Write = Callable[[list[str], list[list[str]], list[str]], str]
_WRITERS: Mapping[str, _Write] = {".md": _write_markdown, ".tex": _write_latex}

"""Read and write the matrices of other tools, as they print them (docs/exchange.md).
Pure text.

core_latency (C++, Linux and QNX) prints a heading per benchmark, then a full matrix of
medians, left-aligned. Old versions have only `cas` and name no benchmark. Newer
versions name the instructions of `cas`. Rows that a paste has lost at the end are
missing cells. c2clat (C++) prints a full matrix of minima with zeros on the diagonal,
as a table or for gnuplot (-p). Old versions plot without headings. core-to-core-latency
(Rust) prints the means of half a matrix, below the diagonal. A file holds its screen,
its --csv, or both. A CSV holds no CPU numbers.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple

from fleet.errors import UsageError
from fleet.model import InputError
from fleet.plan.cpulist import MAX_CPU

_CPU = re.compile(r"0*[0-9]{1,5}")
_TITLES = {"cas": "CAS", "readwrite": "Read/Write"}
_CAS_TITLES = {  # each with its variant and machine (None: any)
    "CAS (CPP)": ("c11", None),
    "CAS_x86_64": ("cmpxchg", "x86_64"),
    "CAS_x86": ("cmpxchg", "i386"),
    "CAS_arm64": ("llsc", "aarch64"),
    "CAS_arm64_lse": ("lse", "aarch64"),
}
_BENCHMARKS = {title: name for name, title in _TITLES.items()}
_TITLE = re.compile(r"^[ \t]*Running (?:(.+) )?Core Benchmark\s*$", re.MULTILINE)
_COUNT = re.compile(r"(Samples|Iterations): (\d{1,15})$")
_PLOT_BEGIN, _PLOT_END = "$data << EOD", "EOD"
_PLOT_OF_WRITES = "Inter-core one-way write latency"
_C2CLAT_TITLE = re.compile(r"\[([^\]()]+)(?:\(ns\))?\]")
_C2CLAT_TITLES = {"cas": "cas", "rw": "readwrite", "read/write": "readwrite"}
_OF_SECTION = ("cas", "readwrite", "messages")  # 1), 2) and 3) on its screen
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_SECTION = re.compile(r"([123])\) \S")
_COUNTS = re.compile(
    r"Num (samples|(?:iterations|round trips) per samples?): (\d{1,15})$"
)
_EMPTY = ("", "-", "x", "na", "nan")  # cells without a number
# No two parts that stand together match the same text, so that a line takes one pass.
_CELL = r"\s*(?:(?:[\d.eE+-]+|nan|NaN|inf)\s*)?"
_CSV = re.compile(rf"{_CELL}(?:[,;]{_CELL})*")
_ERROR_OF_MEAN = re.compile(r"±\s*\d+(?:\.\d+)?")

NumberedLines = list[tuple[int, str]]
Cells = Mapping[tuple[int, int], float]
NewCells = dict[tuple[int, int], float]


@dataclass(frozen=True, slots=True)
class Grid:
    """A printed matrix. cells: one-way latencies in ns by (row CPU, column CPU); the
    row's CPU is timed.

    A cell that the tool left empty is absent. A field that the text does not state is
    None. samples,
    iterations: of each pair, as the tool counts them. variant, arch: in fleet's names.
    """

    cpus: tuple[int, ...]
    cells: Cells = field(default_factory=lambda: MappingProxyType({}))
    benchmark: str | None = None
    samples: int | None = None
    iterations: int | None = None
    cpu_model: str | None = None
    variant: str | None = None
    arch: str | None = None

    def fill_both_halves(self) -> Cells:
        """Return the cells; fill each missing one from the other side of the
        diagonal.
        """
        return {
            (column, row): value for (row, column), value in self.cells.items()
        } | dict(self.cells)


def _get_line(lines: list[str], number: int) -> str:
    """Return line `number`, counted from 1, or an empty string beyond the last line."""
    return lines[number - 1] if number <= len(lines) else ""


def _parse_heading(words: Sequence[str]) -> tuple[int, ...]:
    """Return the CPU numbers of a heading, in the order of its columns; () if it is not
    a heading.
    """
    if not all(map(_CPU.fullmatch, words)):
        return ()
    numbers = tuple(map(int, words))
    return (
        numbers
        if len(numbers) == len(set(numbers)) and max(numbers, default=0) <= MAX_CPU
        else ()
    )


def _parse_latency(word: str, line: int) -> float | None:
    """Parse one cell. Return None if it is empty; raise InputError if it cannot be a
    latency.
    """
    text = word.strip()
    if text.lower() in _EMPTY:
        return None
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"line {line}: {text[:40]!r} is not a number.") from None
    if not math.isfinite(value) or value < 0:
        raise InputError(f"line {line}: {text[:40]!r} cannot be a latency.")
    return value


def _parse_row(
    words: Sequence[str], line: int, cpu: int, columns: Sequence[int]
) -> NewCells:
    """Parse a printed row, which begins with its CPU. Leave out empty cells and the
    diagonal.

    columns: the CPU of each cell. Raises InputError for a row of another CPU or length.
    """
    if words[:1] != [str(cpu)]:
        raise InputError(
            f"line {line}: expected the row of CPU {cpu}, found"
            f" {' '.join(words)[:40]!r}."
        )
    if len(words) - 1 != len(columns):
        raise InputError(
            f"line {line}: {len(words) - 1} values for CPU {cpu}, expected"
            f" {len(columns)}."
        )
    return _make_cells(
        line, cpu, columns, [_parse_latency(word, line) for word in words[1:]]
    )


def _make_cells(
    line: int, cpu: int, columns: Sequence[int], values: Sequence[float | None]
) -> NewCells:
    """Return the non-empty cells of a row. Raises InputError for a number other than 0
    on the diagonal.
    """
    cells = {
        (cpu, other): value
        for other, value in zip(columns, values, strict=True)
        if value is not None
    }
    if itself := cells.pop((cpu, cpu), 0):
        raise InputError(
            f"line {line}: CPU {cpu} has {itself:g} with itself, unlike in a matrix of"
            " CPUs. Tables of pairs and memory nodes cannot be read. If line 1 has CPU"
            " numbers, write CPU in its first cell."
        )
    return cells


def _make_square(rows: Sequence[tuple[int, Sequence[float | None]]]) -> Grid:
    """Make a matrix whose rows are the CPUs from 0. rows: the line number and the
    values of each.
    """
    cpus, cells = range(len(rows)), NewCells()
    for cpu, (number, values) in enumerate(rows):
        cells |= _make_cells(number, cpu, cpus, values)
    return Grid(tuple(cpus), cells)


def _read_core_latency_screen(text: str) -> list[Grid]:
    grids, head, lines = list[Grid](), Grid(()), text.splitlines()
    for number, line in enumerate(lines, 1):
        if title := _TITLE.match(line):
            variant, arch = _CAS_TITLES.get(title[1], (None, None))
            name = (
                "cas"
                if variant
                else _BENCHMARKS.get(title[1] or "CAS", str(title[1]).lower())
            )
            head = Grid((), benchmark=name, variant=variant, arch=arch)
        elif count := _COUNT.match(line.strip()):
            head = replace(head, **{count[1].lower(): int(count[2])})  # type: ignore[arg-type]
        elif line.startswith("  ") and (cpus := _parse_heading(line.split())):
            cells = NewCells()
            for row, cpu in enumerate(cpus, number + 1):
                words = _get_line(lines, row).split()
                if cpu != cpus[0] and not words:
                    break
                cells |= _parse_row(
                    words, row, cpu, [other for other in cpus if other != cpu]
                )
            grids.append(replace(head, cpus=cpus, cells=cells))
    return grids


def _is_c2clat(text: str) -> bool:
    return any(
        _parse_c2clat_heading(line) or line.strip() == _PLOT_BEGIN
        for line in text.splitlines()
    )


def _read_c2clat(text: str) -> list[Grid]:
    """Read one table, or several whose titles, [CAS (ns)] and [RW (ns)], differ. Raises
    InputError.
    """
    lines, grids = text.splitlines(), dict[str, Grid]()
    usual, title = "cas" if _PLOT_OF_WRITES in text else "readwrite", None
    for number, line in enumerate(lines, 1):
        title = _C2CLAT_TITLE.fullmatch(line.strip()) or title
        cpus = _parse_c2clat_heading(line)
        is_plot = line.strip() == _PLOT_BEGIN and not _parse_c2clat_heading(
            _get_line(lines, number + 1)
        )
        if not cpus and not is_plot:
            continue
        benchmark = _C2CLAT_TITLES.get(title[1].strip().lower()) if title else usual
        if benchmark is None:
            raise InputError(
                f"line {number}: a table of {title and title[1].strip()!r}; fleet"
                " reads CAS and RW."
            )
        if benchmark in grids or (grids and not title):
            raise InputError(
                f"line {number}: a second table; import each from a file of its own."
            )
        if is_plot:
            grids[benchmark] = replace(_parse_plot(lines, number), benchmark=benchmark)
        else:
            cells = NewCells()
            for row, cpu in enumerate(cpus, number + 1):
                cells |= _parse_row(_get_line(lines, row).split(), row, cpu, cpus)
            grids[benchmark] = Grid(tuple(sorted(cpus)), cells, benchmark=benchmark)
        title = None
    return list(grids.values())


def _parse_c2clat_heading(line: str) -> tuple[int, ...]:
    words = line.split()
    return _parse_heading(words[1:]) if words[:1] == ["CPU"] else ()


def _parse_plot(lines: list[str], begin: int) -> Grid:
    """Parse a plot without headings, whose rows follow line `begin`. Raises
    InputError.
    """
    numbered = (
        (number, line.split()) for number, line in enumerate(lines[begin:], begin + 1)
    )
    rows = [*takewhile(lambda row: row[1] != [_PLOT_END], numbered)]
    return _parse_squares(rows or [(begin, [])], 1)[0]


def _is_core_to_core(text: str) -> bool:
    """Report whether `text` is the output of core-to-core-latency, or only numbers in
    its CSV format.
    """
    lines = [line.strip() for line in _COLOR.sub("", text).splitlines()]
    is_csv = ("," in text or ";" in text) and all(map(_CSV.fullmatch, lines))
    return is_csv or any(line.startswith("Num cores:") for line in lines)


def _read_core_to_core(text: str) -> list[Grid]:
    """Read all matrices, with the exact numbers of the CSV if there is one. Raises
    InputError.
    """
    head, screens, blocks = _split_into_head_screens_and_csv(text)
    exact = [grid for block in blocks for grid in _parse_csv_block(block)]
    if not exact:
        return screens
    names = _OF_SECTION if len(exact) > 1 else (None,)
    heads = screens or [
        replace(head, cpus=grid.cpus, benchmark=name)
        for grid, name in zip(exact, names, strict=False)
    ]
    if [len(grid.cpus) for grid in exact] != [len(grid.cpus) for grid in heads]:
        raise InputError(
            f"{len(heads)} matrices on the screen but {len(exact)} in the CSV."
        )
    return [
        replace(
            seen,
            cells={
                (seen.cpus[i], seen.cpus[j]): value
                for (i, j), value in grid.cells.items()
            },
        )
        for seen, grid in zip(heads, exact, strict=True)
    ]


def _write_core_to_core_csv(grid: Grid) -> str:
    """Write the tool's --csv: a row per CPU, without CPU numbers; a cell without a
    number is empty.
    """
    cells = {ends: _format_number(value) for ends, value in grid.cells.items()}
    rows = ([cells.get((row, column), "") for column in grid.cpus] for row in grid.cpus)
    return "".join(f"{','.join(row)}\n" for row in rows)


def _split_into_head_screens_and_csv(
    text: str,
) -> tuple[Grid, list[Grid], list[NumberedLines]]:
    """Return the properties of all matrices, the matrices of the screen, and the blocks
    of CSV.
    """
    head, benchmark, screens, blocks = (
        Grid(()),
        None,
        list[Grid](),
        list[NumberedLines](),
    )
    lines = [
        line.strip()
        for line in _COLOR.sub("", text).removeprefix("\ufeff").splitlines()
    ]
    place = 0
    while place < len(lines):
        line, first = lines[place], place + 1
        place += 1
        if line.startswith("CPU: "):
            head = replace(head, cpu_model=line.removeprefix("CPU: "))
        elif count := _COUNTS.match(line):
            name = "samples" if count[1] == "samples" else "iterations"
            head = replace(head, **{name: int(count[2])})  # type: ignore[arg-type]
        elif section := _SECTION.match(line):
            benchmark = _OF_SECTION[int(section[1]) - 1]
        elif (cpus := _parse_heading(line.split())) and len(cpus) > 1:
            cells = NewCells()
            for cpu in cpus:
                place += 1
                words = _ERROR_OF_MEAN.sub(" ", _get_line(lines, place)).split()
                is_full = len(words) == len(cpus)
                others = [other for other in cpus if other != cpu]
                cells |= _parse_row(
                    words, place, cpu, others if is_full else cpus[: cpus.index(cpu)]
                )
            screens.append(replace(head, cpus=cpus, cells=cells, benchmark=benchmark))
        elif _CSV.fullmatch(line):
            while place < len(lines) and _CSV.fullmatch(lines[place]):
                place += 1
            block = [*enumerate(lines[first - 1 : place], first)]
            if any("," in line or ";" in line for _, line in block):
                blocks.append(block)
    return head, screens, blocks


def _parse_csv_block(block: NumberedLines) -> list[Grid]:
    """Parse a block of CSV into square matrices, which stand one below another. Raises
    InputError.
    """
    separator = ";" if any(";" in line for _, line in block) else ","
    rows = _pad_if_triangle(
        [(number, line.split(separator)) for number, line in block if line]
    )
    return _parse_squares(rows, len(_OF_SECTION))


def _parse_squares(rows: Sequence[tuple[int, list[str]]], most: int) -> list[Grid]:
    """Parse rows with line numbers as up to `most` square matrices, one below another.
    Raises InputError.
    """
    width = len(rows[0][1])
    for number, cells in rows:
        if len(cells) != width:
            raise InputError(
                f"line {number}: {len(cells)} values, expected {width}. Did lines run"
                " together?"
            )
    if not width or len(rows) % width or len(rows) // width > most:
        raise InputError(
            f"line {rows[0][0]}: {len(rows)} rows of {width} values are not a square"
            " matrix."
        )
    values = [
        (number, [_parse_latency(cell, number) for cell in cells])
        for number, cells in rows
    ]
    return [
        _make_square(values[begin : begin + width])
        for begin in range(0, len(values), width)
    ]


def _pad_if_triangle(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Pad the rows of a lower triangle to a square; return other rows unchanged.

    Empty lines are not in `rows`, so the first CPU's row is absent unless its own cell
    is written out.
    """
    lengths = [len(cells) for _, cells in rows]
    if lengths != list(range(lengths[0], lengths[0] + len(lengths))) or lengths[0] > 2:
        return rows
    first_is_there = (
        lengths[0] == 1 and _parse_latency(rows[0][1][0], rows[0][0]) is None
    )
    full = rows if first_is_there else [(rows[0][0], [""]), *rows]
    return [
        (number, [*cells[: len(full)], *[""] * (len(full) - len(cells))])
        for number, cells in full
    ]


def _split_labelled_rows(text: str) -> list[tuple[int, list[str]]]:
    """Split CSV whose first row and column are CPU numbers; return line numbers and
    cells, [] for other text.

    Fleet, pandas, R and spreadsheets write it, sometimes with quotation marks; R puts
    an X before numbers.
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    first = lines[0][1] if lines else ""
    separator = next((mark for mark in (";", "\t") if mark in first), ",")
    rows = [
        (
            number,
            [
                re.sub(r"^X(?=\d)", "", cell.strip(" \"'\ufeff"))
                for cell in line.split(separator)
            ],
        )
        for number, line in lines
    ]
    is_labelled = (
        len(rows) > 2
        and bool(_parse_heading(rows[0][1][1:]))
        and re.fullmatch(r"[^\d.]*|Unnamed: 0", rows[0][1][0]) is not None
        and rows[1][1][0] == rows[0][1][1]
    )
    return rows if is_labelled else []


def _read_labelled(text: str) -> list[Grid]:
    if not (rows := _split_labelled_rows(text)):
        return []
    corner, *labels = rows[0][1]
    cpus = _parse_heading(labels)
    cells = NewCells()
    for (number, words), cpu in zip(rows[1:], cpus, strict=False):
        columns = [other for other in cpus if other != cpu or len(words) > len(cpus)]
        cells |= _parse_row(words, number, cpu, columns)
    if "node" in corner.lower():
        raise InputError(
            "line 1: a matrix of memory nodes; fleet reads latencies between CPUs."
        )
    if len(rows) != len(labels) + 1:
        raise InputError(
            f"line 1: {len(labels)} CPUs as columns, {len(rows) - 1} as rows."
        )
    if (
        not corner
        and 0 not in cpus
        and all(float(value).is_integer() for value in cells.values())
    ):
        raise InputError(
            "line 1: if these are CPU numbers, write CPU in the line's first cell."
        )
    return [Grid(tuple(sorted(cpus)), cells)]


def _write_labelled(grid: Grid) -> str:
    """Write CSV with CPU numbers as first row and column. Fill missing cells across the
    diagonal.
    """
    return write_matrix_csv("CPU", grid.cpus, grid.cpus, grid.fill_both_halves())


def write_matrix_csv(
    corner: str, rows: Sequence[int], columns: Sequence[int], cells: Cells
) -> str:
    """Write a matrix as CSV. corner: text of its first cell. rows, columns: CPU or node
    numbers.
    """
    texts = {ends: _format_number(round(value, 2)) for ends, value in cells.items()}
    lines = [[corner, *map(str, columns)]]
    lines += [
        [str(row), *(texts.get((row, column), "") for column in columns)]
        for row in rows
    ]
    return "".join(f"{','.join(line)}\n" for line in lines)


def _format_number(value: float) -> str:
    """Format `value` as the shortest decimal that reads back exactly, without an
    exponent.
    """
    text = repr(float(value))
    return format(Decimal(text), "f") if "e" in text else text.removesuffix(".0")


class Tool(NamedTuple):
    """A tool. `claims` recognizes its output, `read` parses it or raises InputError.
    estimator: what its numbers are of a pair's samples.
    """

    claims: Callable[[str], object]
    read: Callable[[str], list[Grid]]
    estimator: str


TOOLS: Mapping[str, Tool] = {
    "csv": Tool(_split_labelled_rows, _read_labelled, "median"),
    "core_latency": Tool(_TITLE.search, _read_core_latency_screen, "median"),
    "c2clat": Tool(_is_c2clat, _read_c2clat, "min"),
    "core-to-core-latency": Tool(_is_core_to_core, _read_core_to_core, "mean"),
}

# formats that programs read
WRITERS: Mapping[str, Callable[[Grid], str]] = {
    "csv": _write_labelled,
    "core-to-core-latency": _write_core_to_core_csv,
}


def read_matrices(
    text: str, where: str, tool: str | None = None
) -> tuple[str, list[Grid]]:
    """Return the name of the tool that printed `text`, and its matrices, one per
    benchmark.

    tool: None to recognize it. where: the file's name. Raises UsageError for unknown or
    damaged text.
    """
    tool = tool or next(
        (name for name, candidate in TOOLS.items() if candidate.claims(text)), None
    )
    try:
        grids = TOOLS[tool].read(text) if tool else []
    except InputError as err:
        raise UsageError(f"{where}: {err}") from err
    if tool is None or not grids:
        problem = f"no matrix of {tool} found" if tool else "unknown format"
        raise UsageError(
            f"{where}: {problem}. fleet reads what core-to-core-latency (screen or"
            " --csv), core_latency and c2clat print; if this is one of them, name it"
            " with --tool. Convert others to CSV with CPU numbers as first row and"
            f" column, one-way latencies in ns between CPUs up to {MAX_CPU}."
        )
    for (ping, pong), value in (cell for grid in grids for cell in grid.cells.items()):
        if value < 1:
            raise UsageError(
                f"{where}: the cell of CPUs {ping} and {pong} is {value:g}, which is"
                " not a latency in ns. Convert other units; leave a cell without a"
                " number empty."
            )
    return tool, grids

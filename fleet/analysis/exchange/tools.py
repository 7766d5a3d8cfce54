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
_SECTION_BENCHMARKS = ("cas", "readwrite", "message")  # 1), 2) and 3) on its screen
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_SECTION = re.compile(r"([123])\) \S")
_COUNTS = re.compile(
    r"Num (samples|(?:iterations|round trips) per samples?): (\d{1,15})$"
)
_EMPTY = ("", "-", "x", "na", "nan")  # cells without a number
_CORNER = re.compile(r"[^\d.]*|Unnamed: 0")  # above the CPU numbers of labelled rows
# units that a labelled matrix may name, and fleet does not convert
_OTHER_UNIT = re.compile(
    r"\b(cycles?|clocks?|clks?|ticks?|ps|[uµμ]s|ms|s|picosec\w*|microsec\w*)\b",
    re.IGNORECASE,
)
_X_OF_R = re.compile(r"^X(?=\d)")  # which R puts before numbers that are names
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
        across = NewCells()
        for (row, column), value in self.cells.items():
            across[column, row] = value
        return across | dict(self.cells)


class Row(NamedTuple):
    """A row of a printed matrix. line: its number in the text, from 1."""

    line: int
    words: list[str]


def _get_line(lines: list[str], number: int) -> str:
    """Return line `number`, counted from 1, or an empty string beyond the last line."""
    if number > len(lines):
        return ""
    return lines[number - 1]


def _get_row(lines: list[str], number: int) -> Row:
    """Return the words of line `number`; none beyond the last line."""
    return Row(number, _get_line(lines, number).split())


def _list_others(cpus: Sequence[int], cpu: int) -> list[int]:
    """Return the CPUs without `cpu`: the columns of its row without the diagonal."""
    return [other for other in cpus if other != cpu]


def _parse_heading(words: Sequence[str]) -> tuple[int, ...]:
    """Return the CPU numbers of a heading, in the order of its columns; () if it is not
    a heading.
    """
    if not all(map(_CPU.fullmatch, words)):
        return ()
    cpus = tuple(map(int, words))
    are_distinct = len(cpus) == len(set(cpus))
    if not are_distinct or max(cpus, default=0) > MAX_CPU:
        return ()
    return cpus


def _is_empty(cell: str) -> bool:
    return cell.strip().lower() in _EMPTY


def _parse_latency(cell: str, line: int) -> float | None:
    """Parse one cell. Return None if it is empty; raise InputError if it cannot be a
    latency.
    """
    if _is_empty(cell):
        return None
    text = cell.strip()
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"line {line}: {text[:40]!r} is not a number.") from None
    if not math.isfinite(value) or value < 0:
        raise InputError(f"line {line}: {text[:40]!r} cannot be a latency.")
    return value


def _parse_latencies(cells: Sequence[str], line: int) -> list[float | None]:
    return [_parse_latency(cell, line) for cell in cells]


def _parse_row(row: Row, cpu: int, columns: Sequence[int]) -> NewCells:
    """Parse a printed row, which begins with its CPU. Leave out empty cells and the
    diagonal.

    columns: the CPU of each cell. Raises InputError for a row of another CPU or length.
    """
    if row.words[:1] != [str(cpu)]:
        begin = " ".join(row.words)[:40]
        raise InputError(
            f"line {row.line}: expected the row of CPU {cpu}, found {begin!r}."
        )
    cells = row.words[1:]
    if len(cells) != len(columns):
        raise InputError(
            f"line {row.line}: {len(cells)} values for CPU {cpu}, expected"
            f" {len(columns)}."
        )
    latencies = _parse_latencies(cells, row.line)
    return _make_cells(row.line, cpu, columns, latencies)


def _make_cells(
    line: int, cpu: int, columns: Sequence[int], values: Sequence[float | None]
) -> NewCells:
    """Return the non-empty cells of a row. Raises InputError for a number other than 0
    on the diagonal.
    """
    cells = NewCells()
    for other, value in zip(columns, values, strict=True):
        if value is not None:
            cells[cpu, other] = value
    itself = cells.pop((cpu, cpu), 0)
    if itself:
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
    cpus = tuple(range(len(rows)))
    cells = NewCells()
    for cpu, (line, values) in zip(cpus, rows, strict=True):
        cells |= _make_cells(line, cpu, cpus, values)
    return Grid(cpus, cells)


def _set_count(head: Grid, name: str, count: str) -> Grid:
    """Return `head` with its samples or its iterations, whichever `name` is."""
    if name.lower() == "samples":
        return replace(head, samples=int(count))
    return replace(head, iterations=int(count))


def _read_core_latency_screen(text: str) -> list[Grid]:
    """Read the matrices that core_latency printed. Raises InputError.

    Each has a title, counts, an indented heading of CPUs, and a row per CPU:

        Running CAS (CPP) Core Benchmark
        Samples: 100
             0    1
        0         48.5
        1    48.3
    """
    lines = text.splitlines()
    grids = list[Grid]()
    head = Grid(())  # what the lines so far say of the next matrix
    for number, line in enumerate(lines, 1):
        if title := _TITLE.match(line):
            head = _read_core_latency_title(title[1])
        elif count := _COUNT.match(line.strip()):
            name, digits = count.groups()
            head = _set_count(head, name, digits)
        elif line.startswith("  "):
            cpus = _parse_heading(line.split())
            if cpus:
                cells = _read_core_latency_rows(lines, number, cpus)
                grids.append(replace(head, cpus=cpus, cells=cells))
    return grids


def _read_core_latency_title(title: str | None) -> Grid:
    """Return what a title says of the matrix below it, as a Grid without CPUs and
    cells. title: None if the tool is so old that it prints no name, only "Running Core
    Benchmark"; it then measured `cas`.
    """
    if title is None:
        return Grid((), benchmark="cas")
    if title in _CAS_TITLES:
        variant, arch = _CAS_TITLES[title]
        return Grid((), benchmark="cas", variant=variant, arch=arch)
    benchmark = _BENCHMARKS.get(title, title.lower())
    return Grid((), benchmark=benchmark)


def _read_core_latency_rows(
    lines: list[str], heading: int, cpus: tuple[int, ...]
) -> NewCells:
    """Read the rows of a matrix, a row per CPU, up to the first empty one: a paste may
    have lost the last rows. Raises InputError, also if the first row is empty.

    heading: the number of the line, from 1, above the first row.
    """
    cells = NewCells()
    for number, cpu in enumerate(cpus, heading + 1):
        row = _get_row(lines, number)
        is_first = cpu == cpus[0]
        if not row.words and not is_first:
            break
        others = _list_others(cpus, cpu)
        cells |= _parse_row(row, cpu, others)
    return cells


def _is_c2clat(text: str) -> bool:
    return any(
        _parse_c2clat_heading(line) or line.strip() == _PLOT_BEGIN
        for line in text.splitlines()
    )


def _read_c2clat(text: str) -> list[Grid]:
    """Read one table, or several whose titles, [CAS (ns)] and [RW (ns)], differ. Raises
    InputError.

    A table has a heading, "CPU 0 1", and rows that begin with a CPU. Old versions print
    a plot for gnuplot without any CPU numbers, which counts as a table.
    """
    lines = text.splitlines()
    grids = dict[str, Grid]()
    title = None  # of the table to come
    for number, line in enumerate(lines, 1):
        if match := _C2CLAT_TITLE.fullmatch(line.strip()):
            title = match[1].strip()
        cpus = _parse_c2clat_heading(line)
        is_plot = _is_plot_without_headings(lines, number)
        if not cpus and not is_plot:
            continue
        benchmark = _name_c2clat_benchmark(title, number, text)
        # a later table needs a title, to say that it is of another benchmark
        if benchmark in grids or (grids and title is None):
            raise InputError(
                f"line {number}: a second table; import each from a file of its own."
            )
        if is_plot:
            grid = _parse_plot(lines, number)
        else:
            grid = _read_c2clat_table(lines, number, cpus)
        grids[benchmark] = replace(grid, benchmark=benchmark)
        title = None
    return list(grids.values())


def _name_c2clat_benchmark(title: str | None, line: int, text: str) -> str:
    """Return the benchmark of the table at `line`, which its title names. Without a
    title, the table is of `cas` if the text is a plot of write latency, else of
    `readwrite`. Raises InputError for an unknown title.
    """
    if title is None and _PLOT_OF_WRITES in text:
        return "cas"
    if title is None:
        return "readwrite"
    benchmark = _C2CLAT_TITLES.get(title.lower())
    if benchmark is None:
        raise InputError(f"line {line}: a table of {title!r}; fleet reads CAS and RW.")
    return benchmark


def _read_c2clat_table(lines: list[str], heading: int, cpus: tuple[int, ...]) -> Grid:
    """Read the table whose heading, at line `heading`, names `cpus`. Raises
    InputError.
    """
    cells = NewCells()
    for number, cpu in enumerate(cpus, heading + 1):
        row = _get_row(lines, number)
        cells |= _parse_row(row, cpu, cpus)
    return Grid(tuple(sorted(cpus)), cells)


def _parse_c2clat_heading(line: str) -> tuple[int, ...]:
    words = line.split()
    if words[:1] != ["CPU"]:
        return ()
    return _parse_heading(words[1:])


def _is_plot_without_headings(lines: list[str], number: int) -> bool:
    """Report whether a plot begins at line `number`, as old versions print it."""
    if _get_line(lines, number).strip() != _PLOT_BEGIN:
        return False
    return not _parse_c2clat_heading(_get_line(lines, number + 1))


def _parse_plot(lines: list[str], begin: int) -> Grid:
    """Parse a plot without headings: rows of cells without CPU numbers, from the line
    after `begin` to the line "EOD". Raises InputError.
    """
    rows = list[Row]()
    for number in range(begin + 1, len(lines) + 1):
        row = _get_row(lines, number)
        if row.words == [_PLOT_END]:
            break
        rows.append(row)
    if not rows:
        rows = [Row(begin, [])]  # `_parse_squares` refuses this, and names its line
    (grid,) = _parse_squares(rows, most=1)
    return grid


def _is_core_to_core(text: str) -> bool:
    """Report whether `text` is the output of core-to-core-latency, or only numbers in
    its CSV format.
    """
    plain = _COLOR.sub("", text)
    lines = [line.strip() for line in plain.splitlines()]
    if any(line.startswith("Num cores:") for line in lines):
        return True
    has_separator = "," in text or ";" in text
    return has_separator and all(map(_CSV.fullmatch, lines))


class _CoreToCoreOutput(NamedTuple):
    """What core-to-core-latency printed. head: what it says of all matrices. screens:
    the matrices of the screen. csv_blocks: the lines of CSV that stand together.
    """

    head: Grid
    screens: list[Grid]
    csv_blocks: list[NumberedLines]


def _read_core_to_core(text: str) -> list[Grid]:
    """Read all matrices. The tool may print each of them twice: rounded on the screen,
    under headings, and exactly as CSV, without headings. Then take the headings from
    the screen and the numbers from the CSV. Raises InputError.
    """
    output = _split_core_to_core(text)
    csv_matrices = list[Grid]()
    for block in output.csv_blocks:
        csv_matrices += _parse_csv_block(block)
    if not csv_matrices:
        return output.screens
    heads = output.screens  # a grid for each matrix; its cells are not used
    if not heads:  # there is only CSV
        heads = _describe_csv_matrices(output.head, csv_matrices)
    if _count_cpus(csv_matrices) != _count_cpus(heads):
        raise InputError(
            f"{len(heads)} matrices on the screen but {len(csv_matrices)} in the CSV."
        )
    grids = []
    for head, matrix in zip(heads, csv_matrices, strict=True):
        cells = _number_cells(head.cpus, matrix.cells)
        grids.append(replace(head, cells=cells))
    return grids


def _describe_csv_matrices(head: Grid, matrices: Sequence[Grid]) -> list[Grid]:
    """Describe each matrix of a CSV that came without what the tool shows on the
    screen. Return a Grid without cells for each: `head` with the matrix's CPUs,
    numbered from 0, and its benchmark.

    Matrices come in the order of _SECTION_BENCHMARKS. If there are fewer matrices than
    benchmarks, any may be missing, and the benchmark of each matrix is None.
    """
    names: Sequence[str | None] = [None] * len(matrices)
    if len(matrices) == len(_SECTION_BENCHMARKS):
        names = _SECTION_BENCHMARKS
    heads = []
    for matrix, name in zip(matrices, names, strict=True):
        head_of_matrix = replace(head, cpus=matrix.cpus, benchmark=name)
        heads.append(head_of_matrix)
    return heads


def _count_cpus(grids: Sequence[Grid]) -> list[int]:
    return [len(grid.cpus) for grid in grids]


def _number_cells(cpus: Sequence[int], cells: Cells) -> NewCells:
    """Give cells, whose ends are places in `cpus`, their CPU numbers."""
    numbered = NewCells()
    for (row, column), ns in cells.items():
        numbered[cpus[row], cpus[column]] = ns
    return numbered


def _write_core_to_core_csv(grid: Grid) -> str:
    """Write the tool's --csv: a row per CPU, without CPU numbers; a cell without a
    number is empty.
    """
    texts = {ends: _format_number(value) for ends, value in grid.cells.items()}
    lines = list[list[str]]()
    for row in grid.cpus:
        ends_of_row = [(row, column) for column in grid.cpus]
        line = [texts.get(ends, "") for ends in ends_of_row]
        lines.append(line)
    return _join_csv(lines)


def _join_csv(rows: Sequence[Sequence[str]]) -> str:
    lines = [",".join(cells) for cells in rows]
    return "".join(f"{line}\n" for line in lines)


def _split_core_to_core(text: str) -> _CoreToCoreOutput:
    """Parse the matrices on the screen, and find the blocks of CSV among its lines.
    Raises InputError.

    A line of the screen may say something of all matrices below it, such as how many
    samples they have; `head` collects that.
    """
    plain = _COLOR.sub("", text).removeprefix("\ufeff")
    lines = [line.strip() for line in plain.splitlines()]
    head = Grid(())  # what the lines so far say of the matrices below them
    screens = list[Grid]()
    csv_blocks = list[NumberedLines]()
    next_number = 1
    for number, line in enumerate(lines, 1):
        if number < next_number:  # the line is of a matrix or block already read
            continue
        head = _add_property(head, line)
        cpus = _parse_heading(line.split())
        if len(cpus) > 1:
            cells = _read_screen_rows(lines, number, cpus)
            screens.append(replace(head, cpus=cpus, cells=cells))
            first_row = number + 1
            next_number = first_row + len(cpus)
        elif _CSV.fullmatch(line):
            block = _take_csv_block(lines, number)
            # _CSV matches empty lines and single numbers, too, which may be of no CSV
            if _has_separator(block):
                csv_blocks.append(block)
            next_number = number + len(block)
    return _CoreToCoreOutput(head, screens, csv_blocks)


def _has_separator(block: NumberedLines) -> bool:
    """Report whether some line of a block has several cells."""
    return any("," in line or ";" in line for _, line in block)


def _add_property(head: Grid, line: str) -> Grid:
    """Return `head` with what a line tells of the matrices below it, if anything."""
    if line.startswith("CPU: "):
        return replace(head, cpu_model=line.removeprefix("CPU: "))
    # such as "Num samples: 300"
    if count := _COUNTS.match(line):
        name, digits = count.groups()
        return _set_count(head, name, digits)
    # such as "1) CAS latency on a single shared cache line"
    if section := _SECTION.match(line):
        number = int(section[1])  # from 1
        benchmark = _SECTION_BENCHMARKS[number - 1]
        return replace(head, benchmark=benchmark)
    return head


def _read_screen_rows(
    lines: list[str], heading: int, cpus: tuple[int, ...]
) -> NewCells:
    """Read the rows below line `heading`, a row for each CPU. Raises InputError.

    A row begins with its CPU. A whole row has cells for all other CPUs, and so as many
    words as there are CPUs. In the half below the diagonal, a row has cells only for
    the CPUs before its own.
    """
    cells = NewCells()
    for place, cpu in enumerate(cpus):
        number = heading + 1 + place
        without_errors = _ERROR_OF_MEAN.sub(" ", _get_line(lines, number))
        row = Row(number, without_errors.split())
        columns = list(cpus[:place])
        if len(row.words) == len(cpus):
            columns = _list_others(cpus, cpu)
        cells |= _parse_row(row, cpu, columns)
    return cells


def _take_csv_block(lines: list[str], first: int) -> NumberedLines:
    """Return the lines, with their numbers, from line `first` up to the first line that
    is not CSV.
    """
    block = NumberedLines()
    for number in range(first, len(lines) + 1):
        line = _get_line(lines, number)
        if not _CSV.fullmatch(line):
            break
        block.append((number, line))
    return block


def _parse_csv_block(block: NumberedLines) -> list[Grid]:
    """Parse a block of CSV into square matrices, which stand one below another. A
    single matrix may be the half below the diagonal. Raises InputError.
    """
    separator = ","
    if any(";" in line for _, line in block):
        separator = ";"
    rows = list[Row]()
    for number, line in block:
        if line:  # a block may have empty lines
            cells = line.split(separator)
            rows.append(Row(number, cells))
    padded = _pad_if_triangle(rows)
    return _parse_squares(padded, most=len(_SECTION_BENCHMARKS))


def _parse_squares(rows: Sequence[Row], most: int) -> list[Grid]:
    """Parse rows as up to `most` square matrices of one size, one below another: rows
    of n cells are matrices of n rows. Raises InputError, also for more matrices.
    """
    first = rows[0]
    width = len(first.words)
    for line, cells in rows:
        if len(cells) != width:
            raise InputError(
                f"line {line}: {len(cells)} values, expected {width}. Did lines run"
                " together?"
            )
    are_squares = width > 0 and len(rows) % width == 0
    if not are_squares or len(rows) // width > most:
        raise InputError(
            f"line {first.line}: {len(rows)} rows of {width} values are not a square"
            " matrix."
        )
    latencies = [(line, _parse_latencies(cells, line)) for line, cells in rows]
    squares = list[Grid]()
    for begin in range(0, len(rows), width):
        end = begin + width
        square = _make_square(latencies[begin:end])
        squares.append(square)
    return squares


def _pad_if_triangle(rows: list[Row]) -> list[Row]:
    """Pad the rows of a lower triangle to a square; return other rows unchanged.

    Each row of a triangle is one cell longer than the row before. A triangle may begin
    in one of three ways. In the second and third, the row of the first CPU is missing:
    its line was empty, and empty lines are not in `rows`.

        nan        48.5        48.5,nan
        48.5,nan   48.5,48.7   48.5,48.7,nan
    """
    first = rows[0]
    shortest = len(first.words)
    lengths = [len(row.words) for row in rows]
    after_longest = shortest + len(rows)
    grows_by_one = lengths == list(range(shortest, after_longest))
    if not grows_by_one or shortest > 2:
        return rows
    # Only the first picture begins with the row of the first CPU: an empty cell alone.
    # The second begins with a number, the third with two cells.
    has_first_row = shortest == 1 and _is_empty(first.words[0])
    if not has_first_row:
        first_row = Row(first.line, [""])
        rows = [first_row, *rows]
    return [_pad(row, len(rows)) for row in rows]


def _pad(row: Row, length: int) -> Row:
    """Add empty cells to a row, to this length."""
    missing_cells = length - len(row.words)
    return Row(row.line, row.words + [""] * missing_cells)


def _split_labelled_rows(text: str) -> list[Row]:
    """Split CSV whose first row and column are CPU numbers; return [] for other text.

    Fleet, pandas, R and spreadsheets write such CSV, sometimes with quotation marks; R
    puts an X before numbers.
    """
    rows = _split_csv(text)
    if len(rows) < 3:  # a heading and the rows of two CPUs
        return []
    corner, *labels = rows[0].words
    if not _parse_heading(labels) or not _CORNER.fullmatch(corner):
        return []
    # rows and columns are the same CPUs in the same order
    first_row_label = rows[1].words[0]
    if first_row_label != labels[0]:
        return []
    return rows


def _split_csv(text: str) -> list[Row]:
    """Split CSV into its rows without empty lines. Its first line tells the
    separator.
    """
    rows = list[Row]()
    separator = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            separator = separator or _find_separator(line)
            cells = _split_cells(line, separator)
            rows.append(Row(number, cells))
    return rows


def _find_separator(line: str) -> str:
    for mark in (";", "\t"):
        if mark in line:
            return mark
    return ","


def _split_cells(line: str, separator: str) -> list[str]:
    """Split a line of CSV, without quotation marks and the X of R."""
    cells = [cell.strip(" \"'\ufeff") for cell in line.split(separator)]
    return [_X_OF_R.sub("", cell) for cell in cells]


def _read_labelled(text: str) -> list[Grid]:
    """Read a CSV whose first row and column are CPU numbers, as one matrix; return []
    for other text. Raises InputError.

    The first cell of the first row, the corner, may be empty or name what the numbers
    are of, such as "CPU".
    """
    rows = _split_labelled_rows(text)
    if not rows:
        return []
    heading, *body = rows
    corner, *labels = heading.words
    cpus = _parse_heading(labels)
    cells = _read_labelled_rows(body, cpus)
    _require_latencies_of_cpus(corner)
    if len(body) != len(labels):
        raise InputError(f"line 1: {len(labels)} CPUs as columns, {len(body)} as rows.")
    # the corner, if there is one, says that the labels are CPUs
    if not corner:
        _require_likely_cpus(cpus, cells)
    return [Grid(tuple(sorted(cpus)), cells)]


def _require_likely_cpus(cpus: Sequence[int], cells: Cells) -> None:
    """Raise InputError if labels that nothing calls CPUs may be numbers of something
    else: if 0 is not among them, and the cells are no latencies, which have decimals.
    """
    are_integers = all(float(value).is_integer() for value in cells.values())
    if 0 not in cpus and are_integers:
        raise InputError(
            "line 1: if these are CPU numbers, write CPU in the line's first cell."
        )


def _require_latencies_of_cpus(corner: str) -> None:
    """Raise InputError if a matrix's first cell says that it is of something else."""
    if "node" in corner.lower():
        raise InputError(
            "line 1: a matrix of memory nodes; fleet reads latencies between CPUs."
        )
    if unit := _OTHER_UNIT.search(corner):
        raise InputError(
            f"line 1: a matrix in {unit[0]}; convert it to one-way latencies in ns."
        )


def _read_labelled_rows(rows: Sequence[Row], cpus: Sequence[int]) -> NewCells:
    """Read rows, each a CPU number and a cell for every CPU or for all but its own.
    Raises InputError. Leave out rows beyond the last CPU: the caller refuses a matrix
    that has not as many rows as CPUs.
    """
    cells = NewCells()
    for row, cpu in zip(rows, cpus, strict=False):
        cell_count = len(row.words) - 1  # without the CPU number
        columns = cpus
        if cell_count < len(cpus):
            columns = _list_others(cpus, cpu)
        cells |= _parse_row(row, cpu, columns)
    return cells


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
    texts = dict[tuple[int, int], str]()
    for ends, value in cells.items():
        rounded = round(value, 2)
        texts[ends] = _format_number(rounded)
    heading = [corner, *map(str, columns)]
    lines = [heading]
    for row in rows:
        ends_of_row = [(row, column) for column in columns]
        numbers = [texts.get(ends, "") for ends in ends_of_row]
        lines.append([str(row), *numbers])
    return _join_csv(lines)


def _format_number(value: float) -> str:
    """Format `value` as the shortest decimal that reads back exactly, without an
    exponent.
    """
    text = repr(float(value))
    if "e" in text:
        return format(Decimal(text), "f")
    return text.removesuffix(".0")


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

_WHAT_IS_READ = (
    "fleet reads what core-to-core-latency (screen or --csv), core_latency and c2clat"
    " print; if this is one of them, name it with --tool. Convert others to CSV with"
    " CPU numbers as first row and column, one-way latencies in ns between CPUs up to"
    f" {MAX_CPU}."
)

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
    tool = tool or _recognize_tool(text)
    if tool is None:
        raise UsageError(f"{where}: unknown format. {_WHAT_IS_READ}")
    try:
        grids = TOOLS[tool].read(text)
    except InputError as err:
        raise UsageError(f"{where}: {err}") from err
    if not grids:
        raise UsageError(f"{where}: no matrix of {tool} found. {_WHAT_IS_READ}")
    for grid in grids:
        _require_ns(grid, where)
    return tool, grids


def _recognize_tool(text: str) -> str | None:
    for name, tool in TOOLS.items():
        if tool.claims(text):
            return name
    return None


def _require_ns(grid: Grid, where: str) -> None:
    """Raise UsageError for a cell that cannot be a latency in ns: no CPU passes data to
    another in less than 1 ns, so such a cell is 0 or in another unit.
    """
    for (ping, pong), value in grid.cells.items():
        if value < 1:
            raise UsageError(
                f"{where}: the cell of CPUs {ping} and {pong} is {value:g}, which is"
                " not a latency in ns. Convert other units; leave a cell without a"
                " number empty."
            )

"""The output of c2clat (C++): a full matrix with zeros on the diagonal, as a table or for gnuplot (-p).

Its number is the minimum. docs/exchange.md has the variations; an old version plots without headings.
"""

from math import floor

from fleet.analysis.exchange.grid import Grid, latency, square, whole_numbers

_PLOT_BEGIN, _PLOT_END = "$data << EOD", "EOD"
_PLOT_OF_WRITES = "Inter-core one-way write latency"
_WIDTH = 4


def claims(text: str) -> bool:
    """Whether this is its output."""
    return any(_heading(line) or line.strip() == _PLOT_BEGIN for line in text.splitlines())


def read(text: str) -> list[Grid]:
    """Read the matrix. Raises ValueError naming the line that is damaged."""
    lines = text.splitlines()
    benchmark = "cas" if _PLOT_OF_WRITES in text else "readwrite"
    for number, line in enumerate(lines, 1):
        if line.strip() == _PLOT_BEGIN and not _heading("".join(lines[number : number + 1])):
            return [_plotted(lines, number)]
        if cpus := _heading(line):
            rows = [_row(lines, number + offset, cpu, len(cpus)) for offset, cpu in enumerate(cpus, 1)]
            return [Grid(tuple(sorted(cpus)), square(rows, cpus), benchmark=benchmark)]
    return []


def write(grid: Grid) -> str:
    """Write the matrix as printed: whole ns, rounded down; missing cells are taken from the other side."""
    cells = grid.symmetric()
    texts = [
        [0 if row == column else floor(cells[row, column]) if (row, column) in cells else "nan"
         for column in grid.cpus]
        for row in grid.cpus
    ]  # fmt: skip
    lines = [("CPU", *grid.cpus), *((cpu, *row) for cpu, row in zip(grid.cpus, texts, strict=True))]
    return "".join(" ".join(f"{word:>{_WIDTH}}" for word in line) + "\n" for line in lines)


def _heading(line: str) -> tuple[int, ...] | None:
    words = line.split()
    return whole_numbers(words[1:]) if words[:1] == ["CPU"] else None


def _row(lines: list[str], number: int, cpu: int, count: int) -> list[float | None]:
    words = lines[number - 1].split() if number <= len(lines) else []
    if words[:1] != [str(cpu)] or len(words) != count + 1:
        raise ValueError(f"line {number}: the row of CPU {cpu} with {count} values was expected.")
    return [latency(word, number) for word in words[1:]]


def _plotted(lines: list[str], begin: int) -> Grid:
    rows: list[list[float | None]] = []
    for number, line in enumerate(lines[begin:], begin + 1):
        if line.strip() == _PLOT_END:
            break
        rows.append([latency(word, number) for word in line.split()])
        if len(rows[-1]) != len(rows[0]):
            raise ValueError(f"line {number}: {len(rows[-1])} values where {len(rows[0])} were expected.")
    if not rows or len(rows) != len(rows[0]):
        raise ValueError(f"line {begin}: {len(rows)} rows are not a square matrix.")
    cpus = tuple(range(len(rows)))
    return Grid(cpus, square(rows, cpus), benchmark="readwrite")

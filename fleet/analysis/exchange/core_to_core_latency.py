"""The output of core-to-core-latency (Rust): its screen, its --csv, or both in one file (docs/exchange.md).

It measures half a matrix, below the diagonal, and its number is the mean. A CSV holds no CPU numbers.
"""

import re

from fleet.analysis.exchange.grid import Grid, count_of, digits, latency, row_of, square, whole_numbers
from fleet.model.frozen import replace

BENCHMARKS = ("cas", "readwrite", "messages")  # 1), 2) and 3) on its screen
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_SECTION = re.compile(r"([123])\) \S")
_COUNTS = re.compile(r"Num (samples|(?:iterations|round trips) per samples?): (\d+)$")
_CELL = r"\s*(?:[\d.eE+-]+|nan|NaN|inf)?\s*"
_CSV = re.compile(rf"{_CELL}(?:[,;]{_CELL})*")
_ERROR_OF_MEAN = re.compile(r"±\s*\d+(?:\.\d+)?")
_MOST_BENCHMARKS = 3

NumberedLines = list[tuple[int, str]]


def claims(text: str) -> bool:
    """Whether this is its output, or a square of numbers in its format."""
    lines = [line.strip() for line in _COLOR.sub("", text).splitlines()]
    return any(line.startswith("Num cores:") for line in lines) or (
        any(lines)
        and all(_CSV.fullmatch(line) for line in lines)
        and any("," in x or ";" in x for x in lines)
    )


def read(text: str) -> list[Grid]:
    """Read every matrix, the exact one where a screen and a CSV hold the same. Raises ValueError."""
    head, screens, blocks = _parts(text)
    titles = [grid.benchmark for grid in screens]
    exact = [grid for block in blocks for grid in _csv(block)]
    if not exact:
        return screens
    if not titles:
        names: list[str | None] = list(BENCHMARKS) if len(exact) > 1 else [None]
        return [
            replace(head, cpus=grid.cpus, cells=grid.cells, benchmark=name)
            for grid, name in zip(exact, names, strict=False)
        ]
    if [len(grid.cpus) for grid in exact] != [len(grid.cpus) for grid in screens]:
        raise ValueError(f"{len(screens)} matrices on the screen but {len(exact)} in the CSV.")
    return [
        replace(seen, cells={(seen.cpus[i], seen.cpus[j]): value for (i, j), value in grid.cells.items()})
        for seen, grid in zip(screens, exact, strict=True)
    ]


def write(grid: Grid) -> str:
    """Write its --csv: a row per CPU, empty cells where there is no number. It has no CPU numbers."""
    cells = {ends: digits(value) for ends, value in grid.cells.items()}
    rows = ([cells.get((row, column), "") for column in grid.cpus] for row in grid.cpus)
    return "".join(f"{','.join(row)}\n" for row in rows)


def _parts(text: str) -> tuple[Grid, list[Grid], list[NumberedLines]]:
    """Sort the lines: properties of all matrices, matrices of the screen, blocks of CSV."""
    head, benchmark = Grid(()), None
    screens: list[Grid] = []
    blocks: list[NumberedLines] = []
    lines = _COLOR.sub("", text).removeprefix("\ufeff").splitlines()
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if line.startswith("CPU: "):
            head = replace(head, cpu_model=line.removeprefix("CPU: "))
        elif count := _COUNTS.match(line):
            name = "samples" if count[1] == "samples" else "iterations"
            head = replace(head, **{name: count_of(count[2])})  # type: ignore[arg-type]
        elif section := _SECTION.match(line):
            benchmark = BENCHMARKS[int(section[1]) - 1]
        elif (cpus := whole_numbers(line.split())) and len(cpus) > 1:
            cells = {}
            for cpu in cpus:
                cells.update(_screen_row(lines[at] if at < len(lines) else "", at + 1, cpu, cpus))
                at += 1
            screens.append(replace(head, cpus=cpus, cells=cells, benchmark=benchmark))
        elif _CSV.fullmatch(line):
            block = [(at, line)]
            while at < len(lines) and _CSV.fullmatch(lines[at].strip()):
                at += 1
                block.append((at, lines[at - 1].strip()))
            if any("," in line or ";" in line for _, line in block):
                blocks.append(block)
    return head, screens, blocks


def _screen_row(line: str, number: int, cpu: int, cpus: tuple[int, ...]) -> dict[tuple[int, int], float]:
    words = _ERROR_OF_MEAN.sub(" ", line).split()
    others = [other for other in cpus if other != cpu]
    before = cpus[: cpus.index(cpu)]
    return row_of(words, number, cpu, others if len(words) - 1 == len(others) else before)


def _csv(block: NumberedLines) -> list[Grid]:
    """The matrices of one block of CSV: as many rows as columns each, one below the other."""
    separator = ";" if any(";" in line for _, line in block) else ","
    rows = [(number, line.split(separator)) for number, line in block if line]
    if triangle := _triangle(rows):
        rows = triangle
    width = max(len(cells) for _, cells in rows)
    usual = len(rows[0][1])
    for number, cells in rows:
        if len(cells) != usual:
            raise ValueError(
                f"line {number}: {len(cells)} values where {usual} were expected; the file is damaged "
                "(lines that ran together?)."
            )
    if not width or len(rows) % width or len(rows) // width > _MOST_BENCHMARKS:
        raise ValueError(f"line {rows[0][0]}: {len(rows)} rows of {width} values are not a square matrix.")
    cpus = tuple(range(width))
    values = [[latency(cell, number) for cell in cells] for number, cells in rows]
    return [Grid(cpus, square(values[begin : begin + width], cpus)) for begin in range(0, len(values), width)]


def _triangle(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]] | None:
    """Rows that end before or at the diagonal, padded to a square; None for other rows.

    The row of the first CPU is empty, and not among `rows`, unless its own cell is written out.
    """
    lengths = [len(cells) for _, cells in rows]
    if lengths != list(range(lengths[0], lengths[0] + len(lengths))) or lengths[0] > 2:
        return None
    first_is_there = lengths[0] == 1 and latency(rows[0][1][0], rows[0][0]) is None
    full = rows if first_is_there else [(rows[0][0], [""]), *rows]
    return [(number, [*cells[: len(full)], *[""] * (len(full) - len(cells))]) for number, cells in full]

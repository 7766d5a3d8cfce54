"""Hold one matrix of another tool; read and write parts of its text."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType

from fleet.plan.cpulist import MAX_CPU

_CPU = re.compile(r"0*[0-9]{1,5}")
_LONGEST_COUNT = 15  # digits
Cells = Mapping[tuple[int, int], float]


@dataclass(frozen=True, slots=True)
class Grid:
    """One-way latencies in ns by (row CPU, column CPU), as printed; the row is the side that is timed.

    A cell the tool left empty is absent; what the text does not name is None. samples, iterations: of each
    pair, as the tool counts them. variant, arch: by our names.
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
        """Return the cells; fill each missing one from the other side of the diagonal."""
        return {(column, row): value for (row, column), value in self.cells.items()} | dict(self.cells)


def write_csv(grid: Grid) -> str:
    """Write for a spreadsheet: a row and a column for each CPU, both sides of the diagonal."""
    return write_matrix_csv("CPU", grid.cpus, grid.cpus, grid.fill_both_halves())


def write_matrix_csv(corner: str, rows: Sequence[int], columns: Sequence[int], cells: Cells) -> str:
    """Write a matrix as CSV. corner: its first cell; rows, columns: their numbers."""
    texts = {ends: format_number(round(value, 2)) for ends, value in cells.items()}
    lines = [[corner, *map(str, columns)]]
    lines += [[str(row), *(texts.get((row, column), "") for column in columns)] for row in rows]
    return "".join(f"{','.join(line)}\n" for line in lines)


def parse_latency(word: str, line: int) -> float | None:
    """Read one cell; None if it is empty. Raises ValueError for what cannot be a latency."""
    text = word.strip()
    if not text or text.lower() == "nan":
        return None
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"line {line}: {text[:40]!r} is not a number.") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"line {line}: {text[:40]!r} cannot be a latency.")
    return value


def format_number(value: float) -> str:
    """Format the shortest decimal number that reads back as exactly `value`, without an exponent."""
    text = repr(float(value))
    return format(Decimal(text), "f") if "e" in text else text.removesuffix(".0")


def collect_square(
    rows: Sequence[Sequence[float | None]], cpus: Sequence[int]
) -> dict[tuple[int, int], float]:
    """Collect the cells of full rows, in the order of `cpus`, without the diagonal."""
    cells = {
        (row, column): value
        for row, values in zip(cpus, rows, strict=True)
        for column, value in zip(cpus, values, strict=True)
        if value is not None and row != column
    }
    return _require_no_zeros(cells)


def _require_no_zeros(cells: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    """Return the cells. Raises ValueError if one is 0, which no latency is."""
    if (zero := next((ends for ends, value in cells.items() if value == 0), None)) is not None:
        raise ValueError(
            f"the cell of CPUs {zero[0]} and {zero[1]} is 0, which is not a latency. Leave it empty if "
            "there is no number."
        )
    return cells


def parse_heading(words: Sequence[str]) -> tuple[int, ...] | None:
    """Return the CPU numbers of a heading, in the order of its columns; None if it is not a heading."""
    if not words or not all(map(_CPU.fullmatch, words)):
        return None
    numbers = tuple(map(int, words))
    return numbers if len(numbers) == len(set(numbers)) and max(numbers) <= MAX_CPU else None


def parse_count(digits: str) -> int:
    """Parse a count of samples or iterations. Raises ValueError for more than there can be."""
    if len(digits) > _LONGEST_COUNT:
        raise ValueError(f"{digits[:40]} are more samples or iterations than there can be.")
    return int(digits)


def parse_row(
    words: Sequence[str], line: int, cpu: int, others: Sequence[int]
) -> dict[tuple[int, int], float]:
    """Parse the cells of a printed row, which begins with its CPU. Raises ValueError for any other row."""
    if words[:1] != [str(cpu)]:
        raise ValueError(f"line {line}: the row of CPU {cpu} was expected, found {' '.join(words)[:40]!r}.")
    if len(words) - 1 != len(others):
        raise ValueError(
            f"line {line}: {len(words) - 1} values in the row of CPU {cpu}, {len(others)} were expected."
        )
    values = (parse_latency(word, line) for word in words[1:])
    cells = zip(others, values, strict=True)
    return _require_no_zeros({(cpu, other): value for other, value in cells if value is not None})

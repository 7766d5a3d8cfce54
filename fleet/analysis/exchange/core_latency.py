"""The output of core_latency (C++, Linux and QNX): a heading per benchmark, then left-aligned columns.

Its own matrix is full, its number the median. An old version names no benchmark: it had only `cas`. Rows
that a paste has lost at the end are missing cells.
"""

import re
from dataclasses import replace

from fleet.analysis.exchange.grid import Grid, digits, latency, whole_numbers

_TITLES = {"cas": "CAS", "readwrite": "Read/Write"}
_TITLE = re.compile(r"Running (?:(.+) )?Core Benchmark$")
_COUNT = re.compile(r"(Samples|Iterations): (\d+)$")
_WIDTH = 6


def claims(text: str) -> bool:
    """Whether this is its output."""
    return any(_TITLE.match(line.strip()) for line in text.splitlines())


def read(text: str) -> list[Grid]:
    """Read every matrix. Raises ValueError naming the line that is damaged."""
    benchmarks = {title: name for name, title in _TITLES.items()}
    found: list[Grid] = []
    head = Grid(())
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if title := _TITLE.match(line.strip()):
            head = Grid((), benchmark=benchmarks.get(title[1] or "CAS", (title[1] or "").lower()))
        elif count := _COUNT.match(line.strip()):
            counted = int(count[2])
            head = (
                replace(head, samples=counted) if count[1] == "Samples" else replace(head, iterations=counted)
            )
        elif line.startswith("  ") and (cpus := whole_numbers(line.split())):
            cells = {}
            for offset, cpu in enumerate(cpus):
                at = number + offset + 1
                if offset and (at > len(lines) or not lines[at - 1].strip()):
                    break
                cells.update(_row(lines[at - 1] if at <= len(lines) else "", at, cpu, cpus))
            found.append(replace(head, cpus=cpus, cells=cells))
    return found


def write(grid: Grid) -> str:
    """Write one matrix, without rounding; missing cells are taken from the other side."""
    cells = grid.symmetric()
    texts = {where: digits(value) for where, value in cells.items()}
    width = max([_WIDTH, *(len(text) + 2 for text in texts.values())])
    lines = [f"Running {_TITLES.get(grid.benchmark or '', grid.benchmark or 'Unknown')} Core Benchmark"]
    lines += [f" Samples: {grid.samples}"] * (grid.samples is not None)
    lines += [f" Iterations: {grid.iterations}"] * (grid.iterations is not None)
    lines += ["", " " * width + "".join(f"{cpu:<{width}}" for cpu in grid.cpus)]
    lines += [
        f"{row:<{width}}" + "".join(f"{texts.get((row, column), ''):<{width}}" for column in grid.cpus)
        for row in grid.cpus
    ]
    return "\n".join(lines) + "\n"


def _row(line: str, number: int, cpu: int, cpus: tuple[int, ...]) -> dict[tuple[int, int], float]:
    words = line.split()
    if not words or words[0] != str(cpu):
        raise ValueError(f"line {number}: the row of CPU {cpu} was expected, found {line.strip()[:40]!r}.")
    others = [other for other in cpus if other != cpu]
    if len(words) - 1 != len(others):
        raise ValueError(
            f"line {number}: {len(words) - 1} values in the row of CPU {cpu}, {len(others)} were expected."
        )
    values = (latency(word, number) for word in words[1:])
    return {(cpu, other): value for other, value in zip(others, values, strict=True) if value is not None}

"""The output of core_latency (C++, Linux and QNX): a heading per benchmark, then left-aligned columns.

Its own matrix is full, its number the median. An old version names no benchmark: it had only `cas`; a newer
one names the instructions of `cas`. Rows that a paste has lost at the end are missing cells.
"""

import re
from math import floor

from fleet.analysis.exchange.grid import Grid, count_of, row_of, whole_numbers
from fleet.model.frozen import replace

_TITLES = {"cas": "CAS", "readwrite": "Read/Write"}
_CAS_TITLES = {  # with the variant and the machine, which is None for any
    "CAS (CPP)": ("c11", None),
    "CAS_x86_64": ("cmpxchg", "x86_64"),
    "CAS_x86": ("cmpxchg", "i386"),
    "CAS_arm64": ("llsc", "aarch64"),
    "CAS_arm64_lse": ("lse", "aarch64"),
}
_BENCHMARKS = {title: name for name, title in _TITLES.items()}
_TITLE = re.compile(r"Running (?:(.+) )?Core Benchmark$")
_COUNT = re.compile(r"(Samples|Iterations): (\d+)$")
_WIDTH = 5


def claims(text: str) -> bool:
    """Whether this is its output."""
    return any(_TITLE.match(line.strip()) for line in text.splitlines())


def read(text: str) -> list[Grid]:
    """Read every matrix. Raises ValueError naming the line that is damaged."""
    found: list[Grid] = []
    head = Grid(())
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if title := _TITLE.match(line.strip()):
            variant, arch = _CAS_TITLES.get(title[1], (None, None))
            name = "cas" if variant else _BENCHMARKS.get(title[1] or "CAS", str(title[1]).lower())
            head = Grid((), benchmark=name, variant=variant, arch=arch)
        elif count := _COUNT.match(line.strip()):
            head = replace(head, **{count[1].lower(): count_of(count[2])})  # type: ignore[arg-type]
        elif line.startswith("  ") and (cpus := whole_numbers(line.split())):
            cells = {}
            for offset, cpu in enumerate(cpus):
                at = number + offset + 1
                if offset and (at > len(lines) or not lines[at - 1].strip()):
                    break
                words = lines[at - 1].split() if at <= len(lines) else []
                cells.update(row_of(words, at, cpu, [other for other in cpus if other != cpu]))
            found.append(replace(head, cpus=cpus, cells=cells))
    return found


def write(grid: Grid) -> str:
    """Write one matrix as printed: whole ns, rounded down; missing cells are taken from the other side."""
    cells = {where: floor(value) for where, value in grid.symmetric().items()}
    lines = [f"Running {_title(grid)} Core Benchmark"]
    lines += [f" Samples: {grid.samples}"] * (grid.samples is not None)
    lines += [f" Iterations: {grid.iterations}"] * (grid.iterations is not None)
    table = [("", *grid.cpus), *((row, *(cells.get((row, x), "") for x in grid.cpus)) for row in grid.cpus)]
    lines += ["", *("".join(f"{word:<{_WIDTH}} " for word in row) for row in table)]
    return "\n".join(lines) + "\n"


def _title(grid: Grid) -> str:
    """The title by the variant; that of old versions for instructions the tool does not have."""
    if grid.benchmark == "cas":
        for title, (variant, arch) in _CAS_TITLES.items():
            if variant == grid.variant and (arch is None or grid.arch in (None, arch)):
                return title
    return _TITLES.get(grid.benchmark or "", grid.benchmark or "Unknown")

"""The matrices of core_latency and c2clat, written as these print them."""

import math

from fleet.analysis.exchange import WRITERS as WRITERS_OF_FLEET
from fleet.analysis.exchange import Grid

TITLES = {"cas": "CAS", "readwrite": "Read/Write"}
CAS_TITLES = {  # each with its variant and machine (None: any)
    "CAS (CPP)": ("c11", None),
    "CAS_x86_64": ("cmpxchg", "x86_64"),
    "CAS_x86": ("cmpxchg", "i386"),
    "CAS_arm64": ("llsc", "aarch64"),
    "CAS_arm64_lse": ("lse", "aarch64"),
}


def write_core_latency(grid: Grid) -> str:
    """Write a matrix as the tool prints it: ns rounded down, missing cells filled
    across the diagonal.
    """
    cells = {
        where: math.floor(value) for where, value in grid.fill_both_halves().items()
    }
    title = TITLES.get(grid.benchmark or "", grid.benchmark or "Unknown")
    if (
        grid.benchmark == "cas"
    ):  # that of old versions, for instructions the tool does not have
        titles = (
            name
            for name, (variant, arch) in CAS_TITLES.items()
            if variant == grid.variant and (arch is None or grid.arch in (None, arch))
        )
        title = next(titles, title)
    lines = [f"Running {title} Core Benchmark"]
    lines += [f" Samples: {grid.samples}"] * (grid.samples is not None)
    lines += [f" Iterations: {grid.iterations}"] * (grid.iterations is not None)
    table = [
        ("", *grid.cpus),
        *((row, *(cells.get((row, x), "") for x in grid.cpus)) for row in grid.cpus),
    ]
    lines += ["", *("".join(f"{word:<5} " for word in row) for row in table)]
    return "\n".join(lines) + "\n"


def write_c2clat(grid: Grid) -> str:
    """Write a matrix as the tool prints it: ns rounded down, missing cells filled
    across the diagonal.
    """
    cells = {
        where: math.floor(value) for where, value in grid.fill_both_halves().items()
    }
    cells |= {(cpu, cpu): 0 for cpu in grid.cpus}
    rows = (
        (row, *(cells.get((row, column), "nan") for column in grid.cpus))
        for row in grid.cpus
    )
    lines = [("CPU", *grid.cpus), *rows]
    return "".join(" ".join(f"{word:>4}" for word in line) + "\n" for line in lines)


WRITERS = {
    "core_latency": write_core_latency,
    "c2clat": write_c2clat,
    **WRITERS_OF_FLEET,
}

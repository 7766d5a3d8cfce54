"""Reads and writes the matrices of other tools, as they print them. Pure text.

Each tool has a module with `claims(text)`, `read(text)` and `write(grid)`.
"""

from collections.abc import Callable, Mapping
from types import ModuleType

from fleet.analysis.exchange import c2clat, core_latency, core_to_core_latency
from fleet.analysis.exchange.grid import Grid, write_csv
from fleet.errors import UsageError
from fleet.plan.cpulist import MAX_CPU

TOOLS: Mapping[str, ModuleType] = {
    "core_latency": core_latency,
    "c2clat": c2clat,
    "core-to-core-latency": core_to_core_latency,
}
ESTIMATORS: Mapping[str, str] = dict(zip(TOOLS, ("median", "min", "mean"), strict=True))
FORMATS: Mapping[str, tuple[Callable[[Grid], str], str]] = {  # what writes it, its estimator
    **{name: (module.write, ESTIMATORS[name]) for name, module in TOOLS.items()},
    "csv": (write_csv, "median"),
}


def read(text: str, where: str, tool: str | None = None) -> tuple[str, list[Grid]]:
    """The tool that printed `text`, if `tool` does not say so, and its matrices, one per benchmark in it.

    where: the file's name. Raises UsageError for text no tool prints and for a damaged matrix, with its line.
    """
    if tool is None:
        tool = next((name for name, module in TOOLS.items() if module.claims(text)), None)
    if tool is None:
        raise UsageError(
            f"{where}: unknown format. fleet reads the output of core-to-core-latency (screen or --csv), "
            f"core_latency and c2clat, of CPUs up to {MAX_CPU}; if this is one of them, name it with --tool."
        )
    try:
        grids: list[Grid] = TOOLS[tool].read(text)
    except ValueError as err:
        raise UsageError(f"{where}: {err}") from err
    if not grids:
        raise UsageError(f"{where}: no matrix of {tool} found, of CPUs up to {MAX_CPU}.")
    return tool, grids

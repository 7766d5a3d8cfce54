"""Matrices as other tools print them: read and written, number for number. Pure text.

Each tool has a module with `claims(text)`, `read(text)` and `write(grid)`. What is read is a summary, one
number a pair; it never becomes samples.
"""

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from fleet.analysis.exchange import c2clat, core_latency, core_to_core_latency
from fleet.analysis.exchange.grid import Grid
from fleet.errors import UsageError

TOOLS: Mapping[str, ModuleType] = MappingProxyType(
    {"core_latency": core_latency, "c2clat": c2clat, "core-to-core-latency": core_to_core_latency}
)
ESTIMATORS = MappingProxyType({"core_latency": "median", "c2clat": "min", "core-to-core-latency": "mean"})


def read(text: str, where: str, tool: str | None = None) -> tuple[str, list[Grid]]:
    """Find out which tool printed `text` and return its name and matrices, one per benchmark in it.

    where: the file's name, for messages. tool: the tool if it is known. Raises UsageError for text no tool
    prints and for a damaged matrix, naming the line.
    """
    if tool is None:
        tool = next((name for name, module in TOOLS.items() if module.claims(text)), None)
    if tool is None:
        raise UsageError(
            f"{where}: no matrix that fleet can read. It knows what core-to-core-latency (screen or --csv), "
            "core_latency and c2clat print; name the tool with --tool if this is one of them."
        )
    try:
        grids: list[Grid] = TOOLS[tool].read(text)
    except ValueError as err:
        raise UsageError(f"{where}: {err}") from err
    if not grids:
        raise UsageError(f"{where}: there is no matrix of {tool} in it.")
    return tool, grids

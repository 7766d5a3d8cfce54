"""Maps as tables: a cell is its number, coloured in one of a few shades, by its own scale or the common one.

Numbers in a table can be read aloud, copied and searched, and take a tenth of what text in a picture takes.
"""

from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd

from fleet.analysis.plots import change_limit, colour_limits, ink_on
from fleet.analysis.reduce.topology import Layout
from fleet.plan.cpulist import cpus_text

SHADES = 32
MOST_GROUPS = 32


@dataclass(frozen=True, slots=True)
class Cell:
    """`own`, `shared`: its shade by either scale; None: nothing to show."""

    text: str
    own: int | None = None
    shared: int | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """A map ready for the page. borders: whether a line parts a row, and a column, from the one before."""

    names: tuple[str, ...]
    borders: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]


def of_cpus(table: pd.DataFrame, order: Layout, shared: tuple[float, float]) -> Grid:
    """A cell per pair, in ns. table: as `matrix` returns it; shared: the ends of the common scale."""
    names = tuple(str(cpu) for cpu in order.cpus)
    return _latencies(table, names, _borders(order), (colour_limits([table]), shared))


def of_groups(table: pd.DataFrame, order: Layout, shared: tuple[float, float]) -> Grid | None:
    """A cell per two groups of CPUs, the median of their pairs, in the colours of the pairs' own map.

    None where the host names no groups.
    """
    level = order.finest(MOST_GROUPS)
    if level is None:
        return None
    blocks = order.blocks(level)
    values = [[_median(table.loc[list(a), list(b)]) for b in blocks] for a in blocks]
    names = tuple(cpus_text(block) for block in blocks)
    limits = colour_limits([table])
    return _latencies(pd.DataFrame(values), names, (False,) * len(blocks), (limits, shared))


def of_changes(change: pd.DataFrame, order: Layout) -> Grid:
    """A cell per pair, relative changes in per cent; the shades reach equally far to both sides of none."""
    limit = change_limit(change)
    rows = tuple(
        tuple(
            Cell(f"{100 * value:+.0f}", _shade(value, -limit, limit)) if np.isfinite(value) else Cell("")
            for value in line
        )
        for line in change.to_numpy(dtype=np.float64)
    )
    names = tuple(str(cpu) for cpu in order.cpus)
    return Grid(names, _borders(order), rows)


def palette(name: str) -> list[tuple[str, str]]:
    """The background and the ink of every shade, as CSS colours."""
    colours = mpl.colormaps[name](np.linspace(0, 1, SHADES))[:, :3]
    return [(mpl.colors.to_hex(colour), ink_on(*map(float, colour))) for colour in colours]


def _latencies(
    table: pd.DataFrame,
    names: tuple[str, ...],
    borders: tuple[bool, ...],
    scales: tuple[tuple[float, float], tuple[float, float]],
) -> Grid:
    """scales: the ends of its own colours, and of the common ones."""
    (low, high), shared = scales
    decimals = 1 if high < 1000 else 0
    rows = tuple(
        tuple(
            Cell(f"{value:.{decimals}f}", _shade(value, low, high), _shade(value, *shared))
            if np.isfinite(value)
            else Cell("")
            for value in line
        )
        for line in table.to_numpy(dtype=np.float64)
    )
    return Grid(names, borders, rows)


def _shade(value: float, low: float, high: float) -> int:
    return int(np.clip((value - low) / (high - low), 0, 1) * (SHADES - 1) + 0.5)


def _borders(order: Layout) -> tuple[bool, ...]:
    level = order.ruling()
    return tuple(level is not None and order.border(place, level) for place in range(len(order.cpus)))


def _median(part: pd.DataFrame) -> float:
    values = part.to_numpy(dtype=np.float64)
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")

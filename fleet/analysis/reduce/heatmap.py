"""A matrix as it is drawn: CPUs or groups in order, the lines between them, the colour scale and its shades.

Its renderers are `views.heatmap` (terminal), `report.cells` (HTML) and `plots` (matplotlib).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.reduce.topology import Layout
from fleet.plan.cpulist import cpus_text

SHADES = 32
MOST_GROUPS = 32
MOST_NUMBERS = 40  # CPUs; the numbers of a larger map would be too small to read
_GROUP_OF = 8  # CPUs to a group where the host reports no groups

Floats = npt.NDArray[np.float64]
Limits = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A square of values: rows ping, columns pong, NaN where nothing was measured.

    labels: of rows and columns. borders: for each label, whether a line separates it from the one before.
    limits: the values at the ends of the colour scale. groups: what a label stands for, empty for one CPU.
    """

    labels: tuple[str, ...]
    borders: tuple[bool, ...]
    values: Floats
    limits: Limits
    groups: str = ""

    def shades(self, limits: Limits | None = None) -> npt.NDArray[np.int64]:
        """The shade of each cell, 0 to SHADES - 1, and -1 where nothing was measured.

        limits: another scale, such as one that several maps share.
        """
        low, high = limits or self.limits
        share = np.clip((self.values - low) / (high - low), 0, 1)
        return np.nan_to_num(share * (SHADES - 1) + 0.5, nan=-1).astype(np.int64)

    def texts(self, number: str, missing: str) -> list[list[str]]:
        """The text of each cell. number: a format, such as "{:.1f}"."""
        return [
            [number.format(value) if np.isfinite(value) else missing for value in row] for row in self.values
        ]


def of_cpus(table: pd.DataFrame, order: Layout, limits: Limits | None = None) -> Heatmap:
    """A cell per pair. table: as `matrix` returns it, with rows and columns as `order.cpus`."""
    labels = tuple(str(cpu) for cpu in order.cpus)
    return Heatmap(labels, order.borders(), _values(table), limits or colour_limits([table]))


def of_groups(
    table: pd.DataFrame, order: Layout, most: int = MOST_GROUPS, limits: Limits | None = None
) -> Heatmap:
    """A cell per two groups of CPUs, the median of their pairs; on the diagonal, of the pairs within one.

    The groups are the finest the host reports that are no more than `most`, else as many CPUs in a row.
    """
    blocks, groups = _blocks(order, most)
    values = np.array([[_median(table.loc[list(a), list(b)]) for b in blocks] for a in blocks])
    labels = tuple(cpus_text(block) for block in blocks)
    return Heatmap(labels, (False,) * len(blocks), values, limits or colour_limits([table]), groups)


def of_changes(change: pd.DataFrame, order: Layout) -> Heatmap:
    """A cell per pair, in per cent. change: relative, 0.1 for 10 % slower. The limits are symmetric."""
    limit = 100 * change_limit(change)
    return of_cpus(100 * change, order, (-limit, limit))


def colour_limits(tables: Sequence[pd.DataFrame]) -> Limits:
    """The ends of the colour scale of one or more maps: the smallest value and the 98th percentile.

    One slow pair must not take all the colours. (0, 1) where nothing was measured.
    """
    values = np.concatenate([_values(table).ravel() for table in tables] or [np.empty(0)])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = np.percentile(values, [0, 98])
    return float(low), float(max(high, low * 1.01, low + 1e-9))


def change_limit(change: pd.DataFrame) -> float:
    """The end of the colour scale of relative changes, in both directions: 98th percentile, at least 0.01."""
    sizes = np.abs(_values(change))
    sizes = sizes[np.isfinite(sizes)]
    return max(float(np.percentile(sizes, 98)), 0.01) if len(sizes) else 0.01


def _blocks(order: Layout, most: int) -> tuple[tuple[tuple[int, ...], ...], str]:
    level = order.finest(most)
    if level is not None:
        names = {"llc": "CPUs that share a last-level cache", "node": "NUMA nodes"}
        return order.blocks(level), names.get(level, f"{level}s")
    size = max(_GROUP_OF, -(-len(order.cpus) // most))
    blocks = tuple(order.cpus[at : at + size] for at in range(0, len(order.cpus), size))
    return blocks, f"{size} consecutive CPUs each; the host reports no groups"


def _median(part: pd.DataFrame) -> float:
    values = _values(part)
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _values(table: pd.DataFrame) -> Floats:
    values: Floats = table.to_numpy(dtype=np.float64)
    return values

"""Lay out a matrix to draw: CPUs or groups in order, lines between them, colour scale
and shades.

Its renderers are `views.heatmap` (terminal), `report.page` and a macro (HTML),
`report.card`, and `plots`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.reduce.topology import GroupLabel, GroupLabels, Layout
from fleet.plan.cpulist import format_cpus

SHADES = 32
MAX_GROUPS = 32
MAX_NUMBERS = 40  # CPUs; the numbers of a larger map would be too small to read
LOG_BEYOND = (
    10  # a scale whose highest value is over so many times its lowest is logarithmic
)
_HALF_SCALE = (
    4  # half intervals of a pair, at least, from the middle of a scale to each end
)
# of the middle: beyond 0.8 a scale would be logarithmic
_MIN_NOISE, _MAX_HALF = (
    0.01,
    0.8,
)
_GROUP_OF = 8  # CPUs to a group where the host reports no groups

Limits = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A square of values: rows ping, columns pong, NaN where nothing was measured.

    labels: those of both rows and columns. borders: whether a line separates each label
    from the one before.
    limits: values at the ends of the colour scale. groups: the kind of group that a
    label is; empty for single CPUs. group_labels: from `Layout.label_groups`, to write
    beside the labels, with sizes in labels.
    faint: cells drawn in the middle colour whatever their value.
    """

    labels: tuple[str, ...]
    borders: tuple[bool, ...]
    values: Floats
    limits: Limits
    groups: str = ""
    group_labels: GroupLabels = ()
    faint: Bools | None = None

    def choose_shades(self, limits: Limits | None = None) -> Ints:
        """Return each cell's shade, 0 to SHADES - 1, or -1 for none. limits: a scale of
        several maps.
        """
        share = place_on_scale(self.values, limits or self.limits)
        if self.faint is not None:
            share = np.where(self.faint & np.isfinite(share), 0.5, share)
        return np.nan_to_num(share * (SHADES - 1) + 0.5, nan=-1).astype(np.int64)

    def format_cells(self, number_format: str, missing: str) -> list[list[str]]:
        """Format the text of each cell. number_format: such as "{:.1f}"."""
        return [
            [number_format.format(x) if np.isfinite(x) else missing for x in row]
            for row in self.values
        ]

    def list_group_labels_by_first_row(self) -> list[list[GroupLabel]]:
        """Return for each row the names of `group_labels` that begin there, each with
        its number of rows.
        """
        begins: list[list[GroupLabel]] = [[] for _ in self.labels]
        for level in self.group_labels:
            start = 0
            for name, count in level:
                begins[start].append((name, count))
                start += count
        return begins


def is_log(limits: Limits) -> bool:
    """Report whether a scale is logarithmic: its low end is positive, its high end over
    ten times that.
    """
    low, high = limits
    return low > 0 and high > LOG_BEYOND * low


def place_on_scale(values: Floats, limits: Limits) -> Floats:
    """Place each value on a scale: 0 at its lower end and below, 1 at its upper end and
    above.
    """
    low, high = limits
    if is_log(limits):
        values, low, high = np.log(np.maximum(values, low)), np.log(low), np.log(high)
    return np.clip((values - low) / (high - low), 0, 1)


def find_scale_value(share: float, limits: Limits) -> float:
    """Return the value at a share of a scale: 0 is its lower end, 1 its upper end."""
    low, high = limits
    return (
        float(low * (high / low) ** share)
        if is_log(limits)
        else low + share * (high - low)
    )


def map_cpus(
    table: npt.ArrayLike, order: Layout, limits: Limits | None = None
) -> Heatmap:
    """Map each pair to a cell. table: from `matrix` or `lay_out_matrix`, in the order
    of `order.cpus`.
    """
    labels = tuple(str(cpu) for cpu in order.cpus)
    ends = limits or choose_limits([table])
    starts, names = order.mark_group_starts(), order.label_groups()
    return Heatmap(
        labels, starts, np.asarray(table, dtype=np.float64), ends, group_labels=names
    )


def map_nodes(
    rows: Sequence[int], columns: Sequence[int], cells: Mapping[tuple[int, int], float]
) -> Heatmap:
    """Map each CPU node (row) and memory node (column) to a cell; the map is square, so
    rows may be empty.
    """
    nodes = list(dict.fromkeys((*rows, *columns)))
    values = np.array(
        [[cells.get((row, column), np.nan) for column in nodes] for row in nodes]
    )
    labels, borders = tuple(f"n{node}" for node in nodes), (False,) * len(nodes)
    return Heatmap(labels, borders, values, choose_limits([values]))


def map_groups(table: npt.ArrayLike, order: Layout, limit: int = MAX_GROUPS) -> Heatmap:
    """Merge CPUs into at most `limit` groups; map each two groups to a cell, the median
    of their pairs.
    """
    blocks, groups = choose_blocks(order, limit)
    parts = [slice(*ends) for ends in pairwise([0, *accumulate(map(len, blocks))])]
    cells = np.asarray(table, dtype=np.float64)
    values = np.array([[_compute_median(cells[a, b]) for b in parts] for a in parts])
    labels = tuple(format_cpus(block) for block in blocks)
    borders = (False,) * len(blocks)
    return Heatmap(
        labels,
        borders,
        values,
        choose_limits([table]),
        groups,
        _label_blocks(order, blocks),
    )


def map_changes(
    change: npt.ArrayLike, order: Layout, chance: npt.ArrayLike | None = None
) -> Heatmap:
    """Map each pair to a cell, in per cent, on a symmetric scale up to the 98th
    percentile, at least 1 %.

    change: relative, 0.1 for 10 % slower. chance: for each cell, the largest change
    that chance explains; changes up to that get no colour.
    """
    changes = np.asarray(change, dtype=np.float64)
    finite = np.abs(changes[np.isfinite(changes)])
    limit = 100 * max(float(np.percentile(finite, 98)), 0.01) if len(finite) else 1.0
    faint = None if chance is None else np.abs(changes) <= np.asarray(chance)
    return replace(map_cpus(100 * changes, order, (-limit, limit)), faint=faint)


def choose_limits(tables: Sequence[npt.ArrayLike]) -> Limits:
    """Return the smallest value and the 98th percentile, so that one slow pair does not
    take all colours.

    tables: from `matrix`. A scale spans at least eight half intervals and 8 % of its
    middle, so that values that differ by noise alone have one hue. Return (0, 1)
    without values.
    """
    values = np.concatenate(
        [
            np.empty(0),
            *(np.asarray(table, dtype=np.float64).ravel() for table in tables),
        ]
    )
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = map(float, np.percentile(values, [0, 98]))
    noise = max(
        _MIN_NOISE, *(getattr(table, "attrs", {}).get("noise", 0.0) for table in tables)
    )
    middle, half = (low + high) / 2, min(_HALF_SCALE * noise, _MAX_HALF)
    if low > 0 and high - low < 2 * half * middle:
        return middle * (1 - half), middle * (1 + half)
    return low, max(high, low + 1e-9)


def choose_blocks(
    order: Layout, limit: int = MAX_GROUPS
) -> tuple[tuple[tuple[int, ...], ...], str]:
    """Return the groups of CPUs that `map_groups` uses, and a text that names their
    kind.
    """
    level = order.choose_finest_level(limit)
    if level is not None:
        names = {"llc": "CPUs that share a last-level cache", "node": "NUMA nodes"}
        return order.blocks(level), names.get(level, f"{level}s")
    size = max(_GROUP_OF, -(-len(order.cpus) // limit))
    blocks = tuple(
        order.cpus[start : start + size] for start in range(0, len(order.cpus), size)
    )
    return blocks, f"{size} consecutive CPUs each; the host reports no groups"


def _label_blocks(order: Layout, blocks: tuple[tuple[int, ...], ...]) -> GroupLabels:
    """Return the outermost groups with their sizes in blocks; empty if a block is in
    two groups.
    """
    ends = [0, *accumulate(map(len, blocks))]
    for level in order.label_groups()[:1]:
        bounds = [0, *accumulate(count for _, count in level)]
        if {*bounds} <= {*ends} and len(level) < len(blocks):
            counts = np.diff([ends.index(bound) for bound in bounds]).tolist()
            return (
                tuple(
                    (name, count)
                    for (name, _), count in zip(level, counts, strict=True)
                ),
            )
    return ()


def _compute_median(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")

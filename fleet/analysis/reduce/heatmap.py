"""Lay out a matrix to draw: CPUs or groups in order, lines between them, colour scale
and shades.

Its renderers are `views.heatmap` (terminal), `report.page` and a macro (HTML),
`report.card`, and `plots`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.reduce.topology import GroupLabel, GroupLabels, Layout
from fleet.plan.cpulist import format_cpus

SHADES = 32
MAX_GROUPS = 32
MAX_NUMBERS = 40  # CPUs; the numbers of a larger map would be too small to read
# a scale whose highest value is over so many times its lowest is logarithmic
LOG_BEYOND = 10
# half intervals of a pair, at least, from the middle of a scale to each end
_HALF_SCALE = 4
_MIN_NOISE = 0.01  # what a half interval is taken to be at least, as a share
_MAX_HALF = 0.8  # of the middle: beyond, a scale would be logarithmic
# kinds of groups in words; others are named by their level: "packages"
_GROUP_NAMES = {"llc": "CPUs that share a last-level cache", "node": "NUMA nodes"}
_MIN_GROUP_SIZE = 8  # CPUs to a group, at least, where the host reports no groups

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
        """Return the shade of each cell, from 0 to SHADES - 1; the middle shade for a
        faint cell, -1 for a cell without a value. limits: the ends of the scale that
        several maps share; None for the map's own.
        """
        share = place_on_scale(self.values, limits or self.limits)
        if self.faint is not None:
            has_value = np.isfinite(share)
            share[self.faint & has_value] = 0.5
        # the fraction is cut off below, so that adding 0.5 rounds to the nearest shade
        rounded = share * (SHADES - 1) + 0.5
        rounded[np.isnan(rounded)] = -1
        return rounded.astype(np.int64)

    def format_cells(self, number_format: str, missing: str) -> list[list[str]]:
        """Format the text of each cell. number_format: such as "{:.1f}"."""

        def format_cell(value: float) -> str:
            if np.isfinite(value):
                return number_format.format(value)
            return missing

        return [[format_cell(value) for value in row] for row in self.values]

    def list_group_labels_by_first_row(self) -> list[list[GroupLabel]]:
        """Return for each row of the map the labels of the groups that begin there,
        outermost level first, each with its number of rows: [("socket 0", 8),
        ("node 0", 4)] in row 0, [] in row 1.
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
    """Place each value on a scale, linear or logarithmic: 0 for values up to the lower
    end, 1 for values from the upper end on. NaN remains NaN.
    """
    low, high = limits
    if is_log(limits):
        values = np.log(np.maximum(values, low))
        low = np.log(low)
        high = np.log(high)
    return np.clip((values - low) / (high - low), 0, 1)


def find_scale_value(share: float, limits: Limits) -> float:
    """Return the value at a share of a scale: 0 is the lower end, 1 the upper end."""
    low, high = limits
    if is_log(limits):
        return float(low * (high / low) ** share)
    return low + share * (high - low)


def map_cpus(
    table: npt.ArrayLike, order: Layout, limits: Limits | None = None
) -> Heatmap:
    """Map each pair of CPUs to a cell. table: from `matrix` or `lay_out_matrix`, rows
    and columns in the order of `order.cpus`. limits: the ends of the colour scale; None
    to choose them from the table.
    """
    return Heatmap(
        labels=tuple(str(cpu) for cpu in order.cpus),
        borders=order.mark_group_starts(),
        values=np.asarray(table, dtype=np.float64),
        limits=limits or choose_limits([table]),
        group_labels=order.label_groups(),
    )


def map_nodes(
    rows: Sequence[int], columns: Sequence[int], cells: Mapping[tuple[int, int], float]
) -> Heatmap:
    """Map each node of CPUs (row) and node of memory (column) to a cell. The map is
    square: each node has both a row and a column, which may be empty. rows, columns:
    the nodes of CPUs and of memory. cells: values by node of CPUs and node of memory.
    """
    nodes = list(dict.fromkeys((*rows, *columns)))
    values = np.full((len(nodes), len(nodes)), np.nan)
    for row, cpu_node in enumerate(nodes):
        for column, memory_node in enumerate(nodes):
            value = cells.get((cpu_node, memory_node), np.nan)
            values[row, column] = value
    return Heatmap(
        labels=tuple(f"n{node}" for node in nodes),
        borders=(False,) * len(nodes),
        values=values,
        limits=choose_limits([values]),
    )


def map_groups(table: npt.ArrayLike, order: Layout, limit: int = MAX_GROUPS) -> Heatmap:
    """Merge CPUs into at most `limit` groups. Map each two groups to a cell: the median
    of the pairs with ping in the one group and pong in the other. table: as in
    `map_cpus`.
    """
    blocks, kind = choose_blocks(order, limit)  # kind: "NUMA nodes"
    return Heatmap(
        labels=tuple(format_cpus(block) for block in blocks),
        borders=(False,) * len(blocks),
        values=_compute_block_medians(table, blocks),
        limits=choose_limits([table]),
        groups=kind,
        group_labels=_label_blocks(order, blocks),
    )


def map_changes(
    change: npt.ArrayLike, order: Layout, chance: npt.ArrayLike | None = None
) -> Heatmap:
    """Map the change of each pair to a cell, in per cent. The scale has 0 in the middle
    and reaches to the 98th percentile of the sizes of the changes, but 1 % at least.

    change: a table of relative changes, 0.1 for 10 % slower, in the order of
    `order.cpus`. chance: for each cell, the largest change that chance explains; cells
    with changes up to that are drawn in the middle colour.
    """
    changes = np.asarray(change, dtype=np.float64)
    sizes = np.abs(changes)
    finite_sizes = sizes[np.isfinite(sizes)]
    largest = 0.01
    if len(finite_sizes):
        largest = max(float(np.percentile(finite_sizes, 98)), largest)
    limit = 100 * largest
    heatmap = map_cpus(100 * changes, order, (-limit, limit))
    if chance is None:
        return heatmap
    return replace(heatmap, faint=sizes <= np.asarray(chance))


def choose_limits(tables: Sequence[npt.ArrayLike]) -> Limits:
    """Return the ends of a colour scale: the smallest value and the 98th percentile, so
    that one slow pair does not take all colours.

    tables: from `matrix`. If the values differ by little more than noise, the scale is
    widened, so that values that differ by noise alone have one hue: each end is then
    _HALF_SCALE times the noise from the middle of the scale, but at most _MAX_HALF of
    the middle. Return (0, 1) if there are no values.
    """
    values = _list_finite(tables)
    if not len(values):
        return 0.0, 1.0
    low = float(values.min())
    high = float(np.percentile(values, 98))
    middle = (low + high) / 2
    least_half_share = min(_HALF_SCALE * _find_noise(tables), _MAX_HALF)
    is_narrow = high - low < 2 * least_half_share * middle
    if low > 0 and is_narrow:
        return middle * (1 - least_half_share), middle * (1 + least_half_share)
    # the ends must differ, since `place_on_scale` divides by their difference
    return low, max(high, low + 1e-9)


def _list_finite(tables: Sequence[npt.ArrayLike]) -> Floats:
    """Return the finite values of all tables, end to end in one array."""
    values = np.empty(0)
    for table in tables:
        cells = np.asarray(table, dtype=np.float64)
        finite = cells[np.isfinite(cells)]
        values = np.concatenate([values, finite])
    return values


def _find_noise(tables: Sequence[npt.ArrayLike]) -> float:
    """Return the largest `noise` of these tables, half intervals as shares; at least
    _MIN_NOISE.
    """
    noise = _MIN_NOISE
    for table in tables:
        if isinstance(table, pd.DataFrame):
            noise = max(noise, table.attrs.get("noise", 0.0))
    return noise


def choose_blocks(
    order: Layout, limit: int = MAX_GROUPS
) -> tuple[tuple[tuple[int, ...], ...], str]:
    """Return the groups of CPUs that `map_groups` uses, at most `limit`, and a text
    that names their kind, "NUMA nodes". They are the groups of the finest level that
    has at most `limit` groups. If there is no such level, each group is some CPUs next
    to each other in display order.
    """
    level = order.choose_finest_level(limit)
    if level is not None:
        kind = _GROUP_NAMES.get(level, f"{level}s")
        return order.blocks(level), kind
    cpus = order.cpus
    size = max(_MIN_GROUP_SIZE, math.ceil(len(cpus) / limit))
    starts = range(0, len(cpus), size)
    blocks = tuple(cpus[start : start + size] for start in starts)
    return blocks, f"{size} consecutive CPUs each; the host reports no groups"


def _label_blocks(order: Layout, blocks: tuple[tuple[int, ...], ...]) -> GroupLabels:
    """Label the outermost groups of CPUs beside a map of blocks: return one level with
    the name of each group and its number of blocks, ((("socket 0", 4), ("socket 1",
    4)),). blocks: the CPUs of each row of the map. Return () if a block is in two
    groups, or if the groups are as many as the blocks or more.
    """
    levels = order.label_groups()
    if not levels or len(levels[0]) >= len(blocks):
        return ()
    # by each place among the CPUs where a block begins or ends, the number of blocks
    # before it: of two blocks of 8 CPUs, {0: 0, 8: 1, 16: 2}
    blocks_before_place = {
        place: count for count, place in enumerate(find_block_borders(blocks))
    }
    labels = []
    begin = 0
    for name, cpu_count in levels[0]:
        end = begin + cpu_count
        if end not in blocks_before_place:
            return ()
        block_count = blocks_before_place[end] - blocks_before_place[begin]
        labels.append((name, block_count))
        begin = end
    return (tuple(labels),)


def find_block_borders(blocks: Sequence[Sequence[int]]) -> list[int]:
    """Return the places where blocks begin and end: 0 and the end of each, so that
    blocks of 4, 4 and 2 CPUs give [0, 4, 8, 10].
    """
    sizes = [len(block) for block in blocks]
    return list(accumulate(sizes, initial=0))


def _compute_block_medians(
    table: npt.ArrayLike, blocks: Sequence[Sequence[int]]
) -> Floats:
    """Compute the median of the pairs of each two blocks: rows ping, columns pong.
    table: a value per pair of CPUs, in the order of the CPUs of all blocks, end to end.
    """
    cells = np.asarray(table, dtype=np.float64)
    borders = find_block_borders(blocks)
    slices = [slice(start, end) for start, end in pairwise(borders)]
    medians = np.empty((len(blocks), len(blocks)))
    for row, ping in enumerate(slices):
        for column, pong in enumerate(slices):
            block = cells[ping, pong]
            medians[row, column] = _compute_median(block)
    return medians


def _compute_median(values: Floats) -> float:
    """Return the median of the finite values; NaN if there are none."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return float("nan")
    return float(np.median(finite))

"""Estimate how good the numbers of a map of groups are, the medians of their pairs."""

from itertools import pairwise
from math import erf, pi, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fleet.analysis.base.tables import Floats
from fleet.analysis.reduce.heatmap import MAX_GROUPS, choose_blocks, find_block_ends
from fleet.analysis.reduce.topology import Layout

_SIGMAS = 1.96  # half the width of a 95 % interval


class PairHalves(NamedTuple):
    """Half-widths of 95 % intervals as shares, rows ping, columns pong. own: of each
    pair. shared: of the relation of each pair, which its noise from round to round
    determines.
    """

    own: Floats
    shared: Floats


def estimate_group_halves(
    table: npt.ArrayLike, halves: PairHalves, order: Layout, limit: int = MAX_GROUPS
) -> Floats:
    """Estimate half the 95 % interval, as a share, of each cell of `map_groups`; NaN
    where none is known.
    """
    blocks, _ = choose_blocks(order, limit)
    parts = [slice(start, end) for start, end in pairwise(find_block_ends(blocks))]
    # within a group each pair stands in two cells
    cells = np.triu(np.asarray(table, dtype=np.float64), 1)
    cells[cells == 0] = np.nan
    result = np.full((len(parts), len(parts)), np.nan)
    for row, ping in enumerate(parts):
        for column, pong in enumerate(parts[row:], row):
            half = _estimate_median_half(
                cells[ping, pong], halves.own[ping, pong], halves.shared[ping, pong]
            )
            result[row, column] = half
            result[column, row] = half
    return result


def _estimate_median_half(values: Floats, own: Floats, shared: Floats) -> float:
    """Estimate half the 95 % interval of the median of pairs, as a share; NaN without a
    pair whose interval is known.
    """
    is_known = np.isfinite(values) & np.isfinite(own) & (own > 0)
    if not is_known.any():
        return float("nan")
    ns = values[is_known]
    sigma = ns * own[is_known] / _SIGMAS
    scatter = _estimate_scatter_of_median(ns, sigma)
    common = float(np.median(np.nan_to_num(shared[is_known])))
    return float(np.hypot(_SIGMAS * scatter / np.median(ns), common))


def _estimate_scatter_of_median(values: Floats, sigma: Floats) -> float:
    """Estimate the standard error of the median of values with these errors.

    A value is below m with the probability p, and the median is the m at which half of
    them are: its variance is the sum of p (1 - p), divided by the square of how fast
    the sum of p grows with m.
    """
    distance = (np.median(values) - values) / sigma
    below = np.array([(1 + erf(z / sqrt(2))) / 2 for z in distance])
    growth = float(np.sum(np.exp(-(distance**2) / 2) / sigma)) / sqrt(2 * pi)
    # a median far from all other values moves as the nearest one does
    alone = float(sigma[np.argmin(np.abs(distance))])
    if not growth:
        return alone
    return min(alone, sqrt(float(np.sum(below * (1 - below)))) / growth)

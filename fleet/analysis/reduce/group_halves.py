"""Estimate how good the numbers of a map of groups are, the medians of their pairs."""

from itertools import combinations_with_replacement, pairwise
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
    slices = [slice(start, end) for start, end in pairwise(find_block_ends(blocks))]
    # within a group each pair stands in two cells: keep one
    cells = np.triu(np.asarray(table, dtype=np.float64), 1)
    cells[cells == 0] = np.nan
    half_of_groups = np.full((len(slices), len(slices)), np.nan)
    for row, column in combinations_with_replacement(range(len(slices)), 2):
        between = (slices[row], slices[column])
        half = _estimate_median_half(
            cells[between], halves.own[between], halves.shared[between]
        )
        half_of_groups[row, column] = half
        half_of_groups[column, row] = half
    return half_of_groups


def _estimate_median_half(values: Floats, own: Floats, shared: Floats) -> float:
    """Estimate half the 95 % interval of the median of pairs, as a share; NaN without a
    pair whose interval is known.
    """
    is_known = np.isfinite(values) & np.isfinite(own) & (own > 0)
    if not is_known.any():
        return float("nan")
    ns = values[is_known]
    sigma = ns * own[is_known] / _SIGMAS
    own_half = _SIGMAS * _estimate_scatter_of_median(ns, sigma) / np.median(ns)
    shared_half = np.median(np.nan_to_num(shared[is_known]))
    return float(np.hypot(own_half, shared_half))  # errors add as squares


def _estimate_scatter_of_median(values: Floats, sigma: Floats) -> float:
    """Estimate the standard error of the median of values with these errors.

    A value is below m with the probability p, and the median is the m at which half of
    them are: its variance is the sum of p (1 - p), divided by the square of how fast
    the sum of p grows with m.
    """
    z = (np.median(values) - values) / sigma
    # the normal distribution at z, and its density at the median
    p = np.array([(1 + erf(distance / sqrt(2))) / 2 for distance in z])
    density = np.exp(-(z**2) / 2) / sigma
    variance_of_count = float(np.sum(p * (1 - p)))
    growth = float(np.sum(density)) / sqrt(2 * pi)
    # a median far from all other values moves as the nearest one does
    sigma_of_nearest = float(sigma[np.argmin(np.abs(z))])
    if not growth:
        return sigma_of_nearest
    return min(sigma_of_nearest, sqrt(variance_of_count) / growth)

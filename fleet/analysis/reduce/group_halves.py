"""Estimate how good the numbers of a map of groups are, the medians of their pairs."""

from itertools import combinations_with_replacement, pairwise
from math import erf, pi, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fleet.analysis.base.tables import Floats
from fleet.analysis.reduce.heatmap import MAX_GROUPS, choose_blocks, find_block_ends
from fleet.analysis.reduce.topology import Layout

_HALF_IN_STANDARD_ERRORS = 1.96  # half the width of a 95 % interval


class PairHalves(NamedTuple):
    """Half-widths of the 95 % intervals of pairs, as shares: a table each, rows ping,
    columns pong.

    own: how far noise in the pair itself may move its number. shared: how far noise
    from round to round may move those of all pairs of its relation together.
    """

    own: Floats
    shared: Floats


def estimate_group_halves(
    table: npt.ArrayLike, halves: PairHalves, order: Layout, limit: int = MAX_GROUPS
) -> Floats:
    """Estimate half the 95 % interval, as a share, of each cell of `map_groups`; NaN
    where none is known.

    table: ns of each pair, rows ping, columns pong. The CPUs of `table` and of the two
    tables of `halves` are in the order of `order`.
    """
    blocks, _ = choose_blocks(order, limit)
    slices = [slice(start, end) for start, end in pairwise(find_block_ends(blocks))]
    # within a group each pair stands in two cells: keep the upper one
    cells = np.array(table, dtype=np.float64)
    cells[np.tril_indices_from(cells)] = np.nan
    # a coarse clock may give 0, which no share can be of
    cells[cells == 0] = np.nan
    half_of_groups = np.full((len(slices), len(slices)), np.nan)
    for row, column in combinations_with_replacement(range(len(slices)), 2):
        block = (slices[row], slices[column])
        own = halves.own[block]
        shared = halves.shared[block]
        half = _estimate_median_half(cells[block], own, shared)
        half_of_groups[row, column] = half
        half_of_groups[column, row] = half
    return half_of_groups


def _estimate_median_half(values: Floats, own: Floats, shared: Floats) -> float:
    """Estimate half the 95 % interval of the median of pairs, as a share; NaN without a
    pair whose interval is known.

    values: ns of each pair, NaN for cells to leave out. own, shared: half the interval
    of each pair as a share, from noise in the pair itself, and from noise that moves
    all pairs together.
    """
    has_own = np.isfinite(own) & (own > 0)
    is_known = np.isfinite(values) & has_own
    if not is_known.any():
        return float("nan")
    ns = values[is_known]
    half_ns = ns * own[is_known]
    standard_errors = half_ns / _HALF_IN_STANDARD_ERRORS
    error_of_median = _estimate_error_of_median(ns, standard_errors)
    own_half = _HALF_IN_STANDARD_ERRORS * error_of_median / np.median(ns)
    # all pairs move together, so that the median moves as far as they do
    shared_half = np.median(np.nan_to_num(shared[is_known]))
    return float(np.hypot(own_half, shared_half))  # errors add as squares


def _estimate_error_of_median(values: Floats, sigma: Floats) -> float:
    """Estimate the standard error of the median of values. sigma: the standard error of
    each value, whose errors are normal.

    Let m be the median of `values`. Measured again, each value would be below m with
    its probability p. How many are below m would vary with the variance sum of
    p (1 - p). To have half of them below again, m would have to move by the change of
    this count, divided by `growth`: how fast the count grows with m.

    The error is no larger than that of the value nearest to the median: where all
    others are far away, the count hardly grows, and the quotient is too large.
    """
    z = (np.median(values) - values) / sigma
    p = np.array([_compute_normal_probability(distance) for distance in z])
    # how fast each p grows is the density of the normal distribution
    density_times_root = np.exp(-(z**2) / 2) / sigma
    growth = float(np.sum(density_times_root)) / sqrt(2 * pi)
    nearest = np.abs(z).argmin()
    sigma_of_nearest = float(sigma[nearest])
    if not growth:
        return sigma_of_nearest
    variance_of_count = float(np.sum(p * (1 - p)))
    return min(sigma_of_nearest, sqrt(variance_of_count) / growth)


def _compute_normal_probability(z: float) -> float:
    """Return the probability that a normal number is below `z` standard deviations."""
    return (1 + erf(z / sqrt(2))) / 2

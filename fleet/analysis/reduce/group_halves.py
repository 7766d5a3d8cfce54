"""Estimate how good the numbers of a map of groups are, the medians of their pairs."""

from itertools import combinations_with_replacement, pairwise
from math import erf, pi, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fleet.analysis.base.tables import Floats
from fleet.analysis.reduce.heatmap import MAX_GROUPS, choose_blocks, find_block_borders
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
    """Estimate half the 95 % interval of each cell of `map_groups`, as a share; NaN for
    a cell without a pair whose interval is known.

    table: ns of each pair, rows ping, columns pong. The CPUs of `table` and of the two
    tables of `halves` are in the order of `order`: half-widths from noise in the pair
    itself, `own`, and from noise that moves all pairs of a relation, `shared`. The
    result has a row and a column for each group of CPUs, of which there are at most
    `limit`.
    """
    blocks, _ = choose_blocks(order, limit)
    borders = find_block_borders(blocks)
    slices = [slice(start, end) for start, end in pairwise(borders)]
    cells = _keep_each_pair_once(table)
    half_of_groups = np.full((len(slices), len(slices)), np.nan)
    for row, column in combinations_with_replacement(range(len(slices)), 2):
        block = (slices[row], slices[column])
        own = halves.own[block]
        shared = halves.shared[block]
        half = _estimate_median_half(cells[block], own, shared)
        half_of_groups[row, column] = half
        half_of_groups[column, row] = half
    return half_of_groups


def _keep_each_pair_once(table: npt.ArrayLike) -> Floats:
    """Return a table of ns of which only the cells above the diagonal are left, since
    each pair of a group stands on both sides of it. Other cells are NaN, and so are
    cells of 0 ns, which a coarse clock may give: no interval is a share of 0.
    """
    cells = np.array(table, dtype=np.float64)
    cells[np.tril_indices_from(cells)] = np.nan
    cells[cells == 0] = np.nan
    return cells


def _estimate_median_half(values: Floats, own: Floats, shared: Floats) -> float:
    """Estimate half the 95 % interval of the median of pairs, as a share; NaN without a
    pair whose interval is known.

    values: ns of each pair, NaN for cells to leave out. own: half the interval of each
    pair, as a share, from noise in the pair itself. shared: the same, from noise that
    moves all pairs together.
    """
    # a half of 0 is unknown, too: to a coarse clock, all bursts of a pair may be equal
    has_own = np.isfinite(own) & (own > 0)
    is_known = np.isfinite(values) & has_own
    if not is_known.any():
        return float("nan")
    ns = values[is_known]
    half_ns = ns * own[is_known]
    standard_errors = half_ns / _HALF_IN_STANDARD_ERRORS
    error_of_median = _estimate_error_of_median(ns, standard_errors)
    own_half = _HALF_IN_STANDARD_ERRORS * error_of_median / np.median(ns)
    # all pairs move together, so that the median moves as far as they do; shared noise
    # that is not known counts as none
    shared_half = np.median(np.nan_to_num(shared[is_known]))
    return float(np.hypot(own_half, shared_half))  # errors add as squares


def _estimate_error_of_median(values: Floats, sigma: Floats) -> float:
    """Estimate the standard error of the median of values. sigma: the standard error of
    each value; the errors have a normal distribution.

    Let m be the median of `values`. If all were measured again, each value would be
    below m with a probability p of its own, and the count of values below m would
    scatter by sqrt(sum(p (1 - p))).

    Where c values too many are below m, the median moves down past c values. A move by
    1 passes `growth` values, so the median moves by c / `growth`. Its error is
    therefore the scatter of the count divided by `growth`.

    The error is at most that of the value nearest to the median. If all other values
    are far away, the count hardly grows with m, and the quotient is too large.
    """
    z = (np.median(values) - values) / sigma
    nearest = np.abs(z).argmin()
    sigma_of_nearest = float(sigma[nearest])
    # p grows with m as fast as the density of the normal distribution is high, which is
    # exp(-z**2 / 2) / (sigma sqrt(2 pi))
    density_times_root = np.exp(-(z**2) / 2) / sigma
    growth = float(np.sum(density_times_root)) / sqrt(2 * pi)
    if not growth:
        return sigma_of_nearest
    p = np.array([_compute_normal_probability(distance) for distance in z])
    scatter_of_count = sqrt(float(np.sum(p * (1 - p))))
    return min(sigma_of_nearest, scatter_of_count / growth)


def _compute_normal_probability(z: float) -> float:
    """Return the probability that a normal number is below `z` standard deviations."""
    return (1 + erf(z / sqrt(2))) / 2

"""Reduce the bursts of pairs: main level, interval, bursts at another level, drift and
asymmetry.

A burst is the unit of replication (docs/measuring.md). Arrays hold the bursts of all
rows end to end, each row in order of time; a row is a pair and benchmark.
agent/base/level.c finds the same main level.
"""

import numpy as np

from fleet.analysis.base.tables import Bools, Floats, Ints, group_medians
from fleet.analysis.reduce.bursts import group_rows_by_length
from fleet.analysis.reduce.interval import (
    count_effective,
    estimate_autocorrelation,
    look_up_t,
)

REACH = 1.15  # values within this factor of the mode are at the main level
FEW = 0.1  # a larger share of bursts at another level is reported
DRIFT_Z = 2.5758  # two-sided p = 0.01
DRIFT_CHANGE = 0.02
ASYMMETRY = 0.10
DIRECTION_BURSTS = 3  # in each direction, at least
_DRIFT_POINTS = 50  # longer rows are tested by the medians of as many blocks
_TINY_NS = 1e-6  # a coarse clock may give 0


def find_half_sample_modes(logs: Floats) -> Floats:
    """Find the commonest value of each row of logarithms.

    Repeatedly keep the half of the values that lies closest together, until two are
    left (Robertson, Cryer, J. Am. Stat. Assoc. 69, 1974). Return their mean, or the
    smaller one if they are at two levels.
    """
    rows = np.sort(logs, axis=1)
    while rows.shape[1] > 2:
        rows = _keep_closest_half(rows)
    low = rows[:, 0]
    high = rows[:, -1]
    are_two_levels = high - low > 2 * np.log(REACH)
    return np.where(are_two_levels, low, (low + high) / 2)


def _keep_closest_half(rows: Floats) -> Floats:
    """Return of each sorted row the half of its values that spans the least."""
    count = rows.shape[1]
    half = (count + 1) // 2
    ends = rows[:, half - 1 :]
    starts = rows[:, : count - half + 1]
    first = (ends - starts).argmin(axis=1)
    columns = first[:, None] + np.arange(half)
    closest: Floats = np.take_along_axis(rows, columns, axis=1)
    return closest


def _are_near(logs: Floats, modes: Floats) -> Bools:
    """Report which logarithms are at the level of their mode."""
    near: Bools = np.abs(logs - modes) <= np.log(REACH)
    return near


def find_main_bursts(
    medians: Floats, burst_counts: Ints, visits: Ints, visit_groups: Ints
) -> Bools:
    """Report which bursts are at the main level of their run.

    medians: of each burst, in ns. burst_counts: how many each row has. visits: each
    burst's visit number.
    visit_groups: each row's group; rows of one group are benchmarks measured together,
    visit by visit.

    The value of a visit is the mean of its bursts, each divided by the median of its
    row. If a row has no visit at the main level, all of its bursts count as at the main
    level.
    """
    row = np.repeat(np.arange(len(burst_counts)), burst_counts)
    positive_ns = np.maximum(medians, _TINY_NS)
    median_of_row = group_medians(positive_ns, row)
    multiples = positive_ns / median_of_row[row]

    # a visit's group and number as the digits of one number
    visits_a_group = visits.max(initial=0) + 1
    keys = visit_groups[row] * visits_a_group + visits
    distinct_keys, visit = np.unique(keys, return_inverse=True)  # sorted: by group
    visit_values = np.bincount(visit, multiples) / np.bincount(visit)
    _, visit_counts = np.unique(distinct_keys // visits_a_group, return_counts=True)
    is_main_visit = _find_main_visits(np.log(visit_values), visit_counts)

    is_main: Bools = is_main_visit[visit]
    main_counts = np.bincount(row, is_main, len(burst_counts))
    has_no_main = main_counts == 0
    is_main |= has_no_main[row]
    return is_main


def _find_main_visits(logs: Floats, group_sizes: Ints) -> Bools:
    """Report which visits are at the main level of their group. logs: by group."""
    modes = np.empty(len(group_sizes))
    for groups, rows in group_rows_by_length(logs, group_sizes):
        modes[groups] = find_half_sample_modes(rows)
    return _are_near(logs, np.repeat(modes, group_sizes))


def summarize_bursts(
    medians: Floats, counts: Ints, times: Floats, main: Bools
) -> dict[str, Floats]:
    """Compute the columns of `pairs` that come from burst medians, in the same unit.
    times: of each burst.

    The interval is around the mean of the main bursts, extended to their median; NaN
    for a single burst. If more than a tenth of the bursts are at another level, `drift`
    is NaN; otherwise `other_ns` is.
    """
    row = np.repeat(np.arange(len(counts)), counts)
    main_counts = np.bincount(row, main, len(counts)).astype(np.int64)
    median, mean, half = _summarize_rows(medians[main], main_counts)
    spread = np.full(len(counts), np.nan)
    np.divide(half, mean, out=spread, where=mean > 0)

    other_share = 1 - main_counts / counts
    has_another_level = other_share > FEW
    median_of_others = _compute_row_medians(medians[~main], counts - main_counts)
    drift = _find_drifts(medians, times, counts)
    return {
        "median_ns": median,
        "low_ns": np.minimum(mean - half, median),
        "high_ns": np.maximum(mean + half, median),
        "spread": spread,
        "other_ns": np.where(has_another_level, median_of_others, np.nan),
        "other_share": other_share,
        "drift": np.where(has_another_level, np.nan, drift),
    }


def _summarize_rows(medians: Floats, counts: Ints) -> tuple[Floats, Floats, Floats]:
    """Return each row's median, mean, and half the 95 % interval of its mean."""
    median = np.full(len(counts), np.nan)
    mean = np.full(len(counts), np.nan)
    half = np.full(len(counts), np.nan)
    for which, rows in group_rows_by_length(medians, counts):
        median[which] = np.median(rows, axis=1)
        mean[which] = rows.mean(axis=1)
        half[which] = estimate_half_widths(rows)
    return median, mean, half


def _compute_row_medians(values: Floats, counts: Ints) -> Floats:
    """Return each row's median; NaN for an empty row."""
    medians = np.full(len(counts), np.nan)
    for which, rows in group_rows_by_length(values, counts):
        if rows.size:
            medians[which] = np.median(rows, axis=1)
    return medians


def _find_drifts(medians: Floats, times: Floats, counts: Ints) -> Floats:
    """Return each row's drift, as `find_drift` does for rows of equal length."""
    drifts = np.full(len(counts), np.nan)
    bursts_by_length = group_rows_by_length(medians, counts)
    times_by_length = group_rows_by_length(times, counts)
    for (which, bursts), (_, moments) in zip(
        bursts_by_length, times_by_length, strict=True
    ):
        drifts[which] = find_drift(bursts, moments)
    return drifts


def estimate_half_widths(rows: Floats) -> Floats:
    """Compute half the 95 % interval of each row's mean by the rules of `interval`; NaN
    for one burst.
    """
    count = rows.shape[1]
    if count < 2:
        return np.full(len(rows), np.nan)
    deviations = rows - rows.mean(axis=1, keepdims=True)
    variance = (deviations**2).sum(axis=1) / (count - 1)
    effective = count_effective(count, estimate_autocorrelation(deviations))
    standard_error = np.sqrt(variance / effective)
    half: Floats = look_up_t(count, effective) * standard_error
    return half


def find_drift(bursts: Floats, times: Floats) -> Floats:
    """Compute the relative change of each row over the run; NaN if it is not proved or
    is at most 2 %.

    Proved: p < 0.01 by Mann and Kendall's test (Econometrica 13, 1945). The change is
    by Sen's slope (J. Am. Stat. Assoc. 63, 1968).
    """
    values = _reduce_to_blocks(bursts)
    moments = _reduce_to_blocks(times)
    change = np.full(len(values), np.nan)
    for row in np.flatnonzero(_compute_trend_z(values) > DRIFT_Z):
        share = _estimate_relative_change(values[row], moments[row])
        if abs(share) > DRIFT_CHANGE:
            change[row] = share
    return change


def _reduce_to_blocks(rows: Floats) -> Floats:
    """Return the medians of _DRIFT_POINTS blocks of each row; shorter rows as they
    are.
    """
    if rows.shape[1] <= _DRIFT_POINTS:
        return rows
    blocks = np.array_split(rows, _DRIFT_POINTS, axis=1)
    medians = [np.median(block, axis=1) for block in blocks]
    return np.stack(medians, axis=1)


def _compute_trend_z(values: Floats) -> Floats:
    """Return the absolute z of each row by Mann and Kendall's test for a trend."""
    count = values.shape[1]
    s = np.zeros(len(values))  # rises less falls, of every two values
    for lag in range(1, count):
        later = values[:, lag:]
        earlier = values[:, :-lag]
        s += np.sign(later - earlier).sum(axis=1)
    variance = count * (count - 1) * (2 * count + 5) / 18
    deviation = max(variance**0.5, 1.0)
    z: Floats = (np.abs(s) - 1) / deviation
    return z


def _estimate_relative_change(values: Floats, moments: Floats) -> float:
    """Return the change of a row from first to last, by Sen's slope, as a share of its
    median; NaN if no time passed.
    """
    # every two values; Sen's slope is the median of the slopes between them
    early, late = np.triu_indices(len(values), 1)
    time_between = moments[late] - moments[early]
    is_later = time_between > 0
    if not is_later.any():
        return float("nan")
    rises = values[late] - values[early]
    slope = np.median(rises[is_later] / time_between[is_later])
    duration = moments[-1] - moments[0]
    return float(slope * duration / np.median(values))


def find_asymmetry(
    medians: Floats, turned: Bools, pair_numbers: Ints, pair_count: int
) -> Floats:
    """Compute how much longer a pair takes when its higher CPU pings, as a share; NaN
    where not proved.

    medians: of each burst; turned: whether its higher CPU pinged; pair_numbers: below
    `pair_count`. Proved: one direction takes over 10 % longer and the 95 % intervals do
    not overlap.
    """
    direction = 2 * pair_numbers + turned
    counts = np.bincount(direction, minlength=2 * pair_count)
    in_order = np.argsort(direction, kind="stable")
    median, mean, half = _summarize_directions(medians[in_order], counts)
    low = mean - half
    high = mean + half

    lower = slice(0, None, 2)  # the lower CPU pings
    higher = slice(1, None, 2)
    is_slower = low[higher] > high[lower]
    is_faster = high[higher] < low[lower]
    ratio = median[higher] / median[lower]
    is_large = np.abs(np.log(ratio)) > np.log1p(ASYMMETRY)
    is_proved = is_large & (is_slower | is_faster)
    return np.where(is_proved, ratio - 1, np.nan)


def _summarize_directions(
    medians: Floats, counts: Ints
) -> tuple[Floats, Floats, Floats]:
    """Return each direction's median, mean, and half the 95 % interval of its mean; NaN
    of fewer than DIRECTION_BURSTS bursts.
    """
    has_enough = counts >= DIRECTION_BURSTS
    is_counted = np.repeat(has_enough, counts)  # of each burst
    numbers = np.full((3, len(counts)), np.nan)
    numbers[:, has_enough] = _summarize_rows(medians[is_counted], counts[has_enough])
    median, mean, half = numbers
    return median, mean, half

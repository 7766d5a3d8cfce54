"""Reduce the bursts of pairs: main level, interval, bursts at another level, drift and
asymmetry.

A burst is the unit of replication (docs/measuring.md). Arrays hold the bursts of all
rows end to end, each row in order of time; a row is a pair and benchmark.
agent/base/level.c finds the same main level.
"""

import numpy as np

from fleet.analysis.base.tables import (
    Bools,
    Floats,
    Ints,
    group_medians,
)
from fleet.analysis.reduce.flat_rows import group_rows_by_length
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


def find_half_sample_modes(log_ns: Floats) -> Floats:
    """Find the commonest value of each row of logarithms.

    Repeatedly keep the half of the values that lies closest together, until at most two
    values are left (Robertson, Cryer, J. Am. Stat. Assoc. 69, 1974). Return their mean,
    or the smaller value if the two are too far apart to be of one level.
    """
    rows = np.sort(log_ns, axis=1)
    while rows.shape[1] > 2:
        rows = _keep_closest_half(rows)
    low = rows[:, 0]
    high = rows[:, -1]
    # the values of a level are within the factor REACH of its mode, up and down, so
    # that two of them are at most the square of REACH apart
    widest_level = 2 * np.log(REACH)
    are_two_levels = high - low > widest_level
    mean = (low + high) / 2
    return np.where(are_two_levels, low, mean)


def _keep_closest_half(rows: Floats) -> Floats:
    """Keep of each row, which is sorted, the half of its values that spans the least:
    1, 5, 6, 9 -> 5, 6.
    """
    count = rows.shape[1]
    half = (count + 1) // 2
    # A window is `half` values that are next to each other. Column i of `starts` has
    # the smallest value of the window that begins at place i, column i of `ends` its
    # largest.
    starts = rows[:, : count - half + 1]
    ends = rows[:, half - 1 :]
    spans = ends - starts
    closest_window = spans.argmin(axis=1)
    columns = closest_window[:, None] + np.arange(half)  # rows x half
    closest: Floats = np.take_along_axis(rows, columns, axis=1)
    return closest


def _are_near(log_ns: Floats, modes: Floats) -> Bools:
    """Report which logarithms are at the level of their mode."""
    near: Bools = np.abs(log_ns - modes) <= np.log(REACH)
    return near


def find_main_bursts(
    medians: Floats, burst_counts: Ints, visits: Ints, visit_groups: Ints
) -> Bools:
    """Report which bursts are at the main level of their pair, where most bursts are.

    A visit measures one pair by several benchmarks, by a burst each. A row holds the
    bursts of one pair and benchmark; a group is the rows of one pair that share visits.

    medians: the median of each burst in ns, the bursts of all rows end to end.
    burst_counts: how many bursts each row has. visits: for each burst, the number of
    its visit within its group. visit_groups: for each row, the number of its group.

    The value of a visit is the mean of its bursts, each divided by the median of its
    row. A burst is at the main level if its visit is. If a row has no visit at the main
    level, all of its bursts count as at the main level.
    """
    row_of_burst = np.repeat(np.arange(len(burst_counts)), burst_counts)
    multiples = _divide_by_row_medians(medians, row_of_burst)

    group_of_burst = visit_groups[row_of_burst]
    visit_of_burst, visits_per_group = _number_visits(visits, group_of_burst)
    bursts_per_visit = np.bincount(visit_of_burst)
    visit_values = np.bincount(visit_of_burst, multiples) / bursts_per_visit
    is_main_visit = _find_main_visits(np.log(visit_values), visits_per_group)

    is_main: Bools = is_main_visit[visit_of_burst]
    main_counts = _count_in_rows(is_main, row_of_burst, len(burst_counts))
    has_no_main = main_counts == 0
    is_main |= has_no_main[row_of_burst]
    return is_main


def _divide_by_row_medians(medians: Floats, row_of_burst: Ints) -> Floats:
    """Divide the median of each burst by the median of these medians in its row. 0
    counts as _TINY_NS, so that the results have logarithms.
    """
    positive_ns = np.maximum(medians, _TINY_NS)
    row_medians = group_medians(positive_ns, row_of_burst)
    multiples: Floats = positive_ns / row_medians[row_of_burst]
    return multiples


def _number_visits(visits: Ints, groups: Ints) -> tuple[Ints, Ints]:
    """Number the visits of all groups from 0, group by group; return the number of each
    burst's visit, and how many visits each group has.

    visits: each burst's visit, by a number that is unique within the group. groups:
    each burst's group, from 0. Bursts of groups 0, 0, 1, 1 with the visits 2, 5, 2, 2
    have the visit numbers 0, 1, 2, 2, and the groups have 2 and 1 visits.
    """
    # group and visit as the two digits of one key, which sorts by the group first
    base = visits.max(initial=0) + 1
    keys = groups * base + visits
    distinct_keys, visit_of_burst = np.unique(keys, return_inverse=True)
    group_of_visit = distinct_keys // base
    _, visits_per_group = np.unique(group_of_visit, return_counts=True)
    return visit_of_burst, visits_per_group


def _find_main_visits(log_ns: Floats, group_sizes: Ints) -> Bools:
    """Report which visits are at the main level of their group. log_ns: the logarithms
    of the visits' values, group by group. group_sizes: how many visits each group has.
    """
    modes = np.empty(len(group_sizes))
    for groups, rows in group_rows_by_length(log_ns, group_sizes):
        modes[groups] = find_half_sample_modes(rows)
    mode_of_visit = np.repeat(modes, group_sizes)
    return _are_near(log_ns, mode_of_visit)


def summarize_bursts(
    medians: Floats, counts: Ints, times: Floats, main: Bools
) -> dict[str, Floats]:
    """Compute the columns of `pairs` that come from burst medians, in the same unit.

    medians, times, main: for each burst its median, when it was measured, and whether
    it is at the main level, where most bursts of the pair are. The bursts of all rows
    of `pairs` stand end to end. counts: how many bursts each row has.

    `median_ns` is the median of the bursts at the main level, and `spread` is half the
    95 % interval of their mean, as a share. `low_ns` and `high_ns` are the ends of this
    interval, which is extended to the median if that lies outside. All three are NaN
    for a single burst. `other_share` is the share of bursts at other levels. If it is
    more than a tenth, `other_ns` is their median; else it is NaN. `drift` is NaN if
    `other_ns` is a number, since a change of level is no drift.
    """
    row_of_burst = np.repeat(np.arange(len(counts)), counts)
    main_counts = _count_in_rows(main, row_of_burst, len(counts))
    columns = _summarize_main_bursts(medians[main], main_counts)

    other_counts = counts - main_counts
    other_ns = _compute_row_medians(medians[~main], other_counts)
    drift = _find_drifts(medians, times, counts)
    other_share = 1 - main_counts / counts
    has_another_level = other_share > FEW
    columns["other_ns"] = np.where(has_another_level, other_ns, np.nan)
    columns["other_share"] = other_share
    columns["drift"] = np.where(has_another_level, np.nan, drift)
    return columns


def _count_in_rows(is_counted: Bools, row_of_burst: Ints, row_count: int) -> Ints:
    """Count the bursts of each row for which `is_counted` is true."""
    counts: Ints = np.bincount(row_of_burst, is_counted, row_count).astype(np.int64)
    return counts


def _summarize_main_bursts(medians: Floats, counts: Ints) -> dict[str, Floats]:
    """Compute the columns of `pairs` that come from the bursts at the main level:
    `median_ns`, `low_ns`, `high_ns` and `spread`, as `summarize_bursts` says.

    medians: of these bursts, those of all rows end to end. counts: how many of them
    each row has.
    """
    median, mean, half_width = _summarize_rows(medians, counts)
    spread = np.full(len(counts), np.nan)
    np.divide(half_width, mean, out=spread, where=mean > 0)
    # a skewed row may have its median outside the interval of its mean
    return {
        "median_ns": median,
        "low_ns": np.minimum(mean - half_width, median),
        "high_ns": np.maximum(mean + half_width, median),
        "spread": spread,
    }


def _summarize_rows(medians: Floats, counts: Ints) -> tuple[Floats, Floats, Floats]:
    """Return the median of each row, its mean, and half the 95 % interval of its mean.
    The interval is NaN for a row of one value.

    medians: burst medians, those of all rows end to end, each row in order of time.
    counts: how many values each row has, at least one.
    """
    row_medians = np.full(len(counts), np.nan)
    row_means = np.full(len(counts), np.nan)
    half_widths = np.full(len(counts), np.nan)
    for places, rows in group_rows_by_length(medians, counts):
        row_medians[places] = np.median(rows, axis=1)
        row_means[places] = rows.mean(axis=1)
        half_widths[places] = estimate_half_widths(rows)
    return row_medians, row_means, half_widths


def _compute_row_medians(values: Floats, counts: Ints) -> Floats:
    """Return the median of each row; NaN for an empty row. values: of all rows end to
    end. counts: how many values each row has.
    """
    medians = np.full(len(counts), np.nan)
    for row_numbers, rows in group_rows_by_length(values, counts):
        if rows.size:
            medians[row_numbers] = np.median(rows, axis=1)
    return medians


def _find_drifts(medians: Floats, times: Floats, counts: Ints) -> Floats:
    """Return the drift of each row, as `find_drift` does for rows of equal length.

    medians, times: for each burst its median, and when it was measured; the bursts of
    all rows end to end. counts: how many bursts each row has.
    """
    drifts = np.full(len(counts), np.nan)
    medians_by_length = group_rows_by_length(medians, counts)
    times_by_length = group_rows_by_length(times, counts)
    # both come in the same order, since they have the same counts
    groups = zip(medians_by_length, times_by_length, strict=True)
    for (row_numbers, rows_of_medians), (_, rows_of_times) in groups:
        drifts[row_numbers] = find_drift(rows_of_medians, rows_of_times)
    return drifts


def estimate_half_widths(rows: Floats) -> Floats:
    """Compute half the 95 % interval of each row's mean; NaN if rows have one value.
    rows: of equal length, each in order of time.

    Neighbours in a row correlate. The mean therefore varies as much as the mean of
    fewer, independent values. `effective` is the number of such values: it takes the
    place of the count in the standard error and in the degrees of freedom of Student's
    t.
    """
    count = rows.shape[1]
    if count < 2:
        return np.full(len(rows), np.nan)
    deviations = rows - rows.mean(axis=1, keepdims=True)
    squares = deviations**2
    variance = squares.sum(axis=1) / (count - 1)
    autocorrelation = estimate_autocorrelation(deviations)
    effective = count_effective(count, autocorrelation)
    standard_error = np.sqrt(variance / effective)
    half: Floats = look_up_t(count, effective) * standard_error
    return half


def find_drift(bursts: Floats, times: Floats) -> Floats:
    """Compute the relative change of each row over the run, 0.05 if the bursts became
    5 % slower; NaN if the change is not proved or is at most 2 %.

    bursts, times: a row for each pair and a column for each burst: the burst's median,
    and when it was measured. If rows have more than 50 bursts, the medians of 50 blocks
    of neighbouring bursts take the place of the bursts.

    A change is proved if p < 0.01 by Mann and Kendall's test (Econometrica 13, 1945).
    Its size is computed by Sen's slope (J. Am. Stat. Assoc. 63, 1968).
    """
    values = _reduce_to_blocks(bursts)
    moments = _reduce_to_blocks(times)
    changes = np.full(len(values), np.nan)
    has_trend = _compute_trend_z(values) > DRIFT_Z
    for row in np.flatnonzero(has_trend):
        change = _estimate_relative_change(values[row], moments[row])
        if abs(change) > DRIFT_CHANGE:
            changes[row] = change
    return changes


def _reduce_to_blocks(rows: Floats) -> Floats:
    """Split each row into _DRIFT_POINTS blocks of neighbouring values, and return the
    blocks' medians: a row for each row, a column for each block. Return rows of at most
    _DRIFT_POINTS values as they are.
    """
    if rows.shape[1] <= _DRIFT_POINTS:
        return rows
    blocks = np.array_split(rows, _DRIFT_POINTS, axis=1)
    medians = [np.median(block, axis=1) for block in blocks]
    return np.stack(medians, axis=1)


def _compute_trend_z(values: Floats) -> Floats:
    """Compute how clear a trend each row has, up or down, by Mann and Kendall's test.

    The result is the z of the standard normal distribution, without the sign of the
    trend. If there are as many rises as falls, z is slightly below 0, since the
    correction for continuity is subtracted from 0.
    """
    count = values.shape[1]
    rises_less_falls = np.zeros(len(values))  # between every two values of a row
    for lag in range(1, count):
        later = values[:, lag:]
        earlier = values[:, :-lag]
        rises_less_falls += np.sign(later - earlier).sum(axis=1)
    # of the rises less the falls of `count` values without a trend, as Kendall has it
    variance = count * (count - 1) * (2 * count + 5) / 18
    # one value has no variance; this keeps the division below possible
    standard_deviation = max(variance**0.5, 1.0)
    # rises less falls is a whole number: the test's correction for continuity is 1
    corrected = np.abs(rises_less_falls) - 1
    z: Floats = corrected / standard_deviation
    return z


def _estimate_relative_change(values: Floats, moments: Floats) -> float:
    """Return the change of a row from its first to its last value, as a share of the
    row's median; NaN if no time passed. The change is Sen's slope, a value per time,
    times the duration. values, moments: in order of time, values and when they were
    measured.
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
    """Compute how much longer each pair takes when its higher CPU pings, as a share:
    0.2 for 20 % longer, negative for shorter. NaN if a difference is not proved.

    medians, turned, pair_numbers: for each burst its median, whether the higher CPU
    pinged, and its pair's number, from 0 to `pair_count` - 1.

    A difference is proved if one direction takes over 10 % longer and the 95 %
    intervals of the two means do not overlap.
    """
    # a pair has two directions: 2 n if its lower CPU pings, 2 n + 1 if its higher does
    direction = 2 * pair_numbers + turned
    counts = np.bincount(direction, minlength=2 * pair_count)
    in_order = np.argsort(direction, kind="stable")
    medians_in_order = medians[in_order]
    median, mean, half_width = _summarize_directions(medians_in_order, counts)

    median_of_lower, median_of_higher = _split_directions(median)
    ratio = median_of_higher / median_of_lower
    # log, so that 1.1 and 1 / 1.1 are equally far from 1; log1p(x) is log(1 + x)
    is_large = np.abs(np.log(ratio)) > np.log1p(ASYMMETRY)
    is_proved = is_large & _are_intervals_apart(mean, half_width)
    return np.where(is_proved, ratio - 1, np.nan)


def _are_intervals_apart(mean: Floats, half_width: Floats) -> Bools:
    """Report for each pair whether the intervals of its two directions do not overlap;
    False if one is unknown. mean, half_width: of each direction, as in
    `_split_directions`.
    """
    low_of_lower, low_of_higher = _split_directions(mean - half_width)
    high_of_lower, high_of_higher = _split_directions(mean + half_width)
    # of the direction where the higher CPU pings; NaN compares as False
    is_slower = low_of_higher > high_of_lower
    is_faster = high_of_higher < low_of_lower
    return is_slower | is_faster


def _split_directions(values: Floats) -> tuple[Floats, Floats]:
    """Split a value per direction into those where a pair's lower CPU pings, which
    stand at even places, and those where its higher CPU does.
    """
    return values[0::2], values[1::2]


def _summarize_directions(
    medians: Floats, counts: Ints
) -> tuple[Floats, Floats, Floats]:
    """Return the median of each direction's bursts, their mean, and half the 95 %
    interval of the mean; NaN for directions of fewer than DIRECTION_BURSTS bursts.

    A pair has two directions, one for each CPU that pings. medians: of the bursts,
    direction by direction. counts: how many bursts each direction has.
    """
    has_enough = counts >= DIRECTION_BURSTS
    is_in_enough = np.repeat(has_enough, counts)  # of each burst
    summary = np.full((3, len(counts)), np.nan)
    summary[:, has_enough] = _summarize_rows(medians[is_in_enough], counts[has_enough])
    median, mean, half_width = summary
    return median, mean, half_width

"""Reduce the bursts of pairs: main level, interval, bursts at another level, drift and
asymmetry.

A burst is the unit of replication (docs/statistics.md). Arrays hold the bursts of all
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
    while (count := rows.shape[1]) > 2:
        half = (count + 1) // 2
        first = (rows[:, half - 1 :] - rows[:, : count - half + 1]).argmin(axis=1)
        rows = np.take_along_axis(rows, first[:, None] + np.arange(half), axis=1)
    low, high = rows[:, 0], rows[:, -1]
    return np.where(high - low > 2 * np.log(REACH), low, (low + high) / 2)


def are_at_main_level(medians: Floats) -> Bools:
    """Report which runs are at the main level, near the half-sample mode of all.
    medians: positive.
    """
    logs = np.log(medians)
    main: Bools = np.abs(logs - find_half_sample_modes(logs[None, :])) <= np.log(REACH)
    return main


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
    medians = np.maximum(medians, _TINY_NS)
    visit_count = visits.max(initial=0) + 1
    keys, place = np.unique(
        visit_groups[row] * visit_count + visits, return_inverse=True
    )
    values = np.bincount(
        place, medians / group_medians(medians, row)[row]
    ) / np.bincount(place)
    logs, visits_of_groups = (
        np.log(values),
        np.unique(keys // visit_count, return_counts=True)[1],
    )
    modes = np.empty(len(visits_of_groups))
    for which, rows in group_rows_by_length(logs, visits_of_groups):
        modes[which] = find_half_sample_modes(rows)
    main: Bools = (np.abs(logs - np.repeat(modes, visits_of_groups)) <= np.log(REACH))[
        place
    ]
    has_none = np.bincount(row, main, len(burst_counts)) == 0
    main |= has_none[row]
    return main


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
    median, mean, half, other, moved = np.full((5, len(counts)), np.nan)
    for which, rows in group_rows_by_length(medians[main], main_counts):
        median[which], mean[which] = np.median(rows, axis=1), rows.mean(axis=1)
        half[which] = estimate_half_widths(rows)
    share = 1 - main_counts / counts
    for which, rows in group_rows_by_length(medians[~main], counts - main_counts):
        if rows.size:
            other[which] = np.where(share[which] > FEW, np.median(rows, axis=1), np.nan)
    lengths = zip(
        group_rows_by_length(medians, counts),
        group_rows_by_length(times, counts),
        strict=True,
    )
    for (which, rows), (_, moments) in lengths:
        moved[which] = np.where(share[which] > FEW, np.nan, find_drift(rows, moments))
    spread = np.divide(half, mean, out=np.full(len(counts), np.nan), where=mean > 0)
    ends = {
        "low_ns": np.minimum(mean - half, median),
        "high_ns": np.maximum(mean + half, median),
    }
    others = {"other_ns": other, "other_share": share, "drift": moved}
    return {"median_ns": median, **ends, "spread": spread, **others}


def estimate_half_widths(rows: Floats) -> Floats:
    """Compute half the 95 % interval of each row's mean by the rules of `interval`; NaN
    for one burst.
    """
    count = rows.shape[1]
    if count < 2:
        return np.full(len(rows), np.nan)
    away = rows - rows.mean(axis=1, keepdims=True)
    effective = count_effective(count, estimate_autocorrelation(away))
    half: Floats = look_up_t(count, effective) * np.sqrt(
        (away**2).sum(axis=1) / (count - 1) / effective
    )
    return half


def find_drift(bursts: Floats, times: Floats) -> Floats:
    """Compute the relative change of each row over the run; NaN if it is not proved or
    is at most 2 %.

    Proved: p < 0.01 by Mann and Kendall's test (Econometrica 13, 1945). The change is
    by Sen's slope (J. Am. Stat. Assoc. 63, 1968).
    """
    values, moments = (
        (
            np.stack(
                [
                    np.median(part, axis=1)
                    for part in np.array_split(rows, _DRIFT_POINTS, axis=1)
                ],
                axis=1,
            )
            if rows.shape[1] > _DRIFT_POINTS
            else rows
        )
        for rows in (bursts, times)
    )
    count = values.shape[1]
    early, late = np.triu_indices(count, 1)
    signs = sum(
        np.sign(values[:, lag:] - values[:, :-lag]).sum(axis=1)
        for lag in range(1, count)
    )
    deviation = max((count * (count - 1) * (2 * count + 5) / 18) ** 0.5, 1.0)
    change = np.full(len(values), np.nan)
    for row in np.flatnonzero((np.abs(signs) - 1) / deviation > DRIFT_Z):
        apart = moments[row, late] - moments[row, early]
        if (apart > 0).any():
            slopes = (values[row, late] - values[row, early])[apart > 0] / apart[
                apart > 0
            ]
            share = (
                np.median(slopes)
                * (moments[row, -1] - moments[row, 0])
                / np.median(values[row])
            )
            change[row] = share if abs(share) > DRIFT_CHANGE else np.nan
    return change


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
    median, low, high = np.full((3, 2 * pair_count), np.nan)
    for which, rows in group_rows_by_length(
        medians[np.argsort(direction, kind="stable")], counts
    ):
        if rows.shape[1] >= DIRECTION_BURSTS:
            mean, half = rows.mean(axis=1), estimate_half_widths(rows)
            median[which], low[which], high[which] = (
                np.median(rows, axis=1),
                mean - half,
                mean + half,
            )
    apart = (low[1::2] > high[::2]) | (high[1::2] < low[::2])
    ratio = median[1::2] / median[::2]
    return np.where(
        apart & (np.abs(np.log(ratio)) > np.log1p(ASYMMETRY)), ratio - 1, np.nan
    )

"""Finds change points in many series of nights, on arrays of logarithms.

Pure: a row per series, a column per night, NaN where a night is missing. `history` reads runs into series.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.compare.judge import (
    ALPHA,
    ROUNDING,
    apply_student,
    compute_nanmedian,
    control_false_discovery,
    label_levels,
    moderate_variances,
)
from fleet.late import special

LEAST_NIGHTS = 8
_SIDE = 3  # nights on either side of a split
_STRETCH = 30  # nights, by which one and a half times as many are tested too
_WINDOW = 7  # nights of the running median
_CLIPPED = 16  # nights, from which on outliers are clipped
_FAR, _NEAR = 5.0, 2.0  # standard deviations: beyond, a night is odd; and what counts of any
_MAD = 1.4826  # of normal noise, standard deviations
_SELDOM = 0.1  # of the nights: those at another level are odd nights
_CLIPPED_TO = 0.78  # of the variance of a mean, what residuals tell that were clipped
_AROUND = 15  # nights of a step, or a quarter of all
_LIKELY = 1.92  # log likelihood that a 95 % interval leaves out
_MOST_CORRELATED = 0.9
_DATES = 2  # times as likely as for so many changes alone, since the date of a step is chosen too


class Calibration(NamedTuple):
    """What chance does to the best split, by the number of nights (`python -m benchmarks.over_time --table`).

    nights: logarithms. splits: the effective number of splits of which the largest t is taken. left: the
    share of the variance left after the best split; correlated: its correlation from night to night. seen,
    less: of a correlation of 0.5, the share that is seen, and the share of the variance.
    """

    nights: Floats
    splits: Floats
    left: Floats
    correlated: Floats
    seen: Floats
    less: Floats


CALIBRATION = Calibration(
    np.log([6, 8, 10, 12, 16, 20, 30, 45, 60, 90, 130, 200, 365]),
    np.array([0.434, 1.8, 2.0, 3.5, 11, 25, 55, 65, 80, 160, 250, 340, 420]),
    np.array([0.989, 0.883, 0.859, 0.866, 0.701, 0.716, 0.735, 0.766, 0.777, 0.794, 0.805, 0.818, 0.827]),
    -np.array([0.333, 0.283, 0.252, 0.221, 0.171, 0.146, 0.101, 0.058, 0.037, 0.017, 0.002, -0.01, -0.023]),
    np.array([0.158, 0.257, 0.346, 0.406, 0.551, 0.653, 0.787, 0.849, 0.891, 0.933, 0.959, 0.975, 0.987]),
    np.array([0.577, 0.58, 0.616, 0.632, 0.692, 0.736, 0.814, 0.855, 0.893, 0.936, 0.964, 0.98, 1.0]),
)


class Cleaned(NamedTuple):
    """Series at one level each, without outliers.

    odd: rows and nights, with their distance as a logarithm. elsewhere: the same, at another level since.
    """

    logs: Floats
    odd: list[tuple[int, int, float]]
    elsewhere: list[tuple[int, int, float]]

    def add_odd(self, row: int, nights: Ints, apart: Floats, are_odd: Bools) -> None:
        """Add the nights of a row that are odd."""
        places = np.flatnonzero(are_odd)
        self.odd.extend(
            zip([row] * len(places), nights[places].tolist(), apart[places].tolist(), strict=True)
        )


class Pooled(NamedTuple):
    """Series, and below them the means of some; members: which of the series each row is the mean of."""

    logs: Floats
    members: Bools


class Change(NamedTuple):
    """A change of a row between two nights.

    at: the first night after it, likely from `first` to `last`. moved: the logarithm, with its 95 % interval
    `low`, `high`. dated: whether it is a step; else it came gradually, between `begin` and `end`, the ends of
    the stretch that was compared. q: of no change.
    """

    row: int
    night: int
    first: int
    last: int
    begin: int
    end: int
    moved: float
    low: float
    high: float
    q: float
    dated: bool


def clean_series(logs: Floats, switches: Bools) -> Cleaned:
    """Move levels to the commonest, and clip outliers; switches: whether each row may switch levels.

    A level that is left and met again is not a change, nor is what lies between. Nights at a rare level are
    odd. A single lasting switch of a row that may switch, or has levels beside, is to another level.
    """
    cleaned = Cleaned(logs.copy(), [], [])
    levels = label_levels(logs)
    for row, values in enumerate(logs):
        nights = np.flatnonzero(~np.isnan(values))
        if len(nights) < LEAST_NIGHTS:
            continue
        series, labels = values[nights], levels[row, nights]
        if labels.any():
            series = _move_to_one_level(series, labels, switches[row], nights, row, cleaned)
        if len(series) >= _CLIPPED:
            usual = pd.Series(series).rolling(_WINDOW, center=True).median().bfill().ffill().to_numpy()
            apart = series - usual
            scale = max(_MAD * float(np.median(np.abs(apart))), ROUNDING**0.5)
            cleaned.add_odd(row, nights, apart, np.abs(apart) > _FAR * scale)
            series = usual + np.clip(apart, -_NEAR * scale, _NEAR * scale)
        cleaned.logs[row, nights] = series
    return cleaned


def _move_to_one_level(
    series: Floats, labels: Ints, switches: bool, nights: Ints, row: int, cleaned: Cleaned
) -> Floats:
    begins = np.flatnonzero(np.diff(labels, prepend=-1))
    order = labels[begins]
    counts = np.bincount(labels)
    usual = int(counts.argmax())
    means = np.array([series[labels == level].mean() for level in range(len(counts))])
    again = [level for level in range(len(counts)) if (order == level).sum() > 1]
    seldom = counts <= max(1, _SELDOM * len(series))
    if not again and not switches:
        return series
    last = labels[-1]
    if (order == last).sum() == 1 and len(order) > 1 and not seldom[last]:
        before = order[-2]
        if not switches and seldom[np.delete(order, -1)].sum() >= len(set(order)) - 2 > 0:
            is_last = labels == last  # odd nights, then a step
            moved = np.where(is_last, series, series - means[labels] + means[before])
            cleaned.add_odd(row, nights, series - means[before], seldom[labels])
            return np.where(seldom[labels], moved, series)
        cleaned.elsewhere.append((row, int(nights[begins[-1]]), float(means[last] - means[before])))
    cleaned.add_odd(row, nights, series - means[usual], seldom[labels])
    return np.asarray(series - means[labels] + means[usual])


def add_means(logs: Floats, hosts: Ints, relations: Ints) -> Pooled:
    """Add means below the rows: of each relation over hosts, of each host over relations, of all.

    hosts, relations: of the rows, from 0. Fewer than two rows have no mean.
    """
    groups = [keys == key for keys in (relations, hosts, np.zeros_like(hosts)) for key in np.unique(keys)]
    unlike = {group.tobytes(): group for group in groups if group.sum() > 1}
    members = np.array([*np.eye(len(logs), dtype=bool), *unlike.values()])
    is_measured = ~np.isnan(logs)
    apart = np.where(is_measured, logs - compute_nanmedian(logs, axis=1)[:, None], 0.0)
    counts = members.astype(float) @ is_measured
    means = members.astype(float) @ apart / np.where(counts > 0, counts, np.nan)
    return Pooled(np.vstack([logs, means[len(logs) :]]), members)


def find_changes(logs: Floats) -> list[Change]:
    """Find the changes of all rows at one error rate, by row and night.

    Of all splits with three nights on either side the largest t counts, its variance shrunk over rows and
    widened by the correlation from night to night, itself shrunk. Long rows are judged by their stretches as
    well. Rows with q < 0.05 are split further at the same p.
    """
    rows = ((row, np.flatnonzero(~np.isnan(values))) for row, values in enumerate(logs))
    long_rows = [(row, nights) for row, nights in rows if len(nights) >= LEAST_NIGHTS]
    if not long_rows:
        return []
    p, best_cuts, widened = _test_with_stretches(logs, long_rows)
    q = control_false_discovery(p)
    limit = ALPHA * float(np.mean(q < ALPHA))  # of p, by that of q
    if limit == 0.0:
        return []
    parts, ends = long_rows, dict[int, list[int]]()
    while True:
        further, same = [], []
        for (row, nights), part_p, cut in zip(parts, p, best_cuts, strict=True):
            if part_p > limit:
                same.append((row, nights))
                continue
            ends.setdefault(row, []).append(int(nights[cut]))
            further += [(row, part) for part in (nights[:cut], nights[cut:])]
        if not further:
            break
        parts = same + [part for part in further if len(part[1]) >= 2 * _SIDE]
        p, best_cuts, _ = _test_with_stretches(logs, parts)
    changes = []
    for (row, nights), row_q, wide in zip(long_rows, q.tolist(), widened.tolist(), strict=True):
        if row in ends:
            changes += _describe_row_changes(
                logs[row], row, nights, sorted(ends[row]), row_q, wide, len(long_rows)
            )
    return changes


def _test_with_stretches(logs: Floats, parts: list[tuple[int, Ints]]) -> tuple[Floats, Ints, Floats]:
    """Test parts as `measure_parts` does, and long ones also by stretches that overlap by half.

    A long part's error rate is shared equally between the whole and its stretches. In the whole, consecutive
    steps hide each other, and so do one up and one down.
    """
    p, best_cuts, wider = measure_parts(logs, parts)
    begins = [
        [*range(0, len(nights) - _STRETCH, _STRETCH // 2), len(nights) - _STRETCH]
        if 2 * len(nights) >= 3 * _STRETCH
        else []
        for _, nights in parts
    ]
    counts = np.array([len(starts) for starts in begins])
    p = np.where(counts > 0, np.minimum(2 * p, 1.0), p)
    for turn in range(counts.max(initial=0)):
        which = np.flatnonzero(counts > turn)
        first = np.array([begins[index][turn] for index in which])
        stretches = [
            (parts[index][0], parts[index][1][begin : begin + _STRETCH])
            for index, begin in zip(which, first, strict=True)
        ]
        stretch_p, cuts, wide = measure_parts(logs, stretches)
        stretch_p = np.minimum(2 * counts[which] * stretch_p, 1.0)
        better = stretch_p < p[which]
        for old, new in ((p, stretch_p), (best_cuts, first + cuts), (wider, wide)):
            old[which[better]] = new[better]
    return p, best_cuts, wider


def measure_parts(
    logs: Floats, parts: list[tuple[int, Ints]], calibration: Calibration = CALIBRATION
) -> tuple[Floats, Ints, Floats]:
    """Return each part's p, its best split, and how many times correlation widens the variance of means.

    parts: rows, each with its nights.
    """
    counts = np.array([len(nights) for _, nights in parts])
    best_cuts, moved, left, correlated = np.zeros(len(parts), dtype=np.int64), *np.zeros((3, len(parts)))
    for count in np.unique(counts):
        which = np.flatnonzero(counts == count)
        rows = np.array([logs[parts[index][0], parts[index][1]] for index in which])
        best_cuts[which], moved[which], left[which], correlated[which] = find_best_splits(rows)
    splits, share_left, bias, seen, less = (
        np.interp(np.log(counts), calibration.nights, table) for table in calibration[1:]
    )
    correlated = (correlated - bias) / seen
    middle, chance = float(np.median(correlated)), 1 / (counts * seen**2)
    between = max(float(np.mean((correlated - middle) ** 2 - chance)), 0.0)
    usual = np.clip(middle + (correlated - middle) * between / (between + chance), 0.0, _MOST_CORRELATED)
    share_left = share_left * (1 - 2 * np.minimum(usual, 0.5) * (1 - less))
    variance, freedom = moderate_variances(np.maximum(left / share_left, ROUNDING), counts - 2.0)
    wider = (1 + usual) / (1 - usual)
    error = np.sqrt(variance * (1 / best_cuts + 1 / (counts - best_cuts)) * wider)
    p = 2 * special.stdtr(freedom, -np.abs(moved) / error) * splits
    return np.minimum(p, 1.0), best_cuts, wider


def find_best_splits(rows: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    """Find where the means before and after differ most, in rows without gaps.

    Return the cut, the change, the variance left, and its correlation from night to night.
    """
    count = rows.shape[1]
    values = rows - rows.mean(axis=1, keepdims=True)
    cuts = np.arange(_SIDE, count - _SIDE + 1)
    sums = np.cumsum(values, axis=1)[:, cuts - 1]
    gain = sums**2 * count / (cuts * (count - cuts))
    best = gain.argmax(axis=1)
    every, best_cuts = np.arange(len(rows)), cuts[best]
    moved = -sums[every, best] * count / (best_cuts * (count - best_cuts))
    before, total = best_cuts[:, None], sums[every, best][:, None]
    residuals = values - np.where(np.arange(count) < before, total / before, -total / (count - before))
    squares = np.maximum((residuals**2).sum(axis=1), ROUNDING)
    correlated = (residuals[:, 1:] * residuals[:, :-1]).sum(axis=1) / squares
    return best_cuts, moved, squares / (count - 2), correlated


def _describe_row_changes(
    logs: Floats, row: int, nights: Ints, cuts: list[int], q: float, wider: float, rows: int
) -> list[Change]:
    """Return the changes of one row, each between its neighbours; gradual ones the same way are joined."""
    changes = list[Change]()
    edges = [int(nights[0]), *cuts, int(nights[-1]) + 1]
    values, variance_share = logs[nights], _CLIPPED_TO if len(nights) >= _CLIPPED else 1.0
    for begin, night, end in zip(edges, edges[1:], edges[2:], strict=False):
        first, cut, last = np.searchsorted(nights, (begin, night, end))
        dated = _is_step(values, int(cut), wider, rows * len(cuts))
        moved, (low, high), (near, far) = _estimate_change(
            values[first:last], int(cut - first), wider, variance_share
        )
        likely = int(nights[first + near]), int(nights[first + far])
        change = Change(
            row, night, *likely, int(nights[first]), int(nights[last - 1]), moved, low, high, q, dated
        )
        if changes and not dated and not changes[-1].dated and (changes[-1].moved > 0) == (moved > 0):
            before = changes.pop()
            total = before.moved + moved
            half = float(np.hypot(before.high - before.low, change.high - change.low)) / 2
            change = change._replace(begin=before.begin, moved=total, low=total - half, high=total + half)
        changes.append(change)
    return changes


def _estimate_change(
    values: Floats, cut: int, wider: float, variance_share: float
) -> tuple[float, tuple[float, float], tuple[int, int]]:
    """Return the change at a cut, its 95 % interval, and the first and last cut nearly as likely."""
    count = len(values)
    squares = max(
        float(sum(((side - side.mean()) ** 2).sum() for side in (values[:cut], values[cut:]))), ROUNDING
    )
    moved = float(values[cut:].mean() - values[:cut].mean())
    error = (squares / max(count - 2, 1) * (1 / cut + 1 / (count - cut)) * wider / variance_share) ** 0.5
    low, high, _ = apply_student(np.array(moved), np.array(error), np.array(max(count - 2.0, 1.0)))
    cuts = np.arange(1, count)
    apart = values - values.mean()
    left = (apart**2).sum() - np.cumsum(apart)[:-1] ** 2 * count / (cuts * (count - cuts))
    likely = -count / 2 / wider * np.log(np.maximum(left, ROUNDING))
    close = cuts[likely >= likely[cut - 1] - _LIKELY]
    return moved, (float(low), float(high)), (int(close.min()), int(close.max()))


def _is_step(values: Floats, cut: int, wider: float, many: int) -> bool:
    """Report whether a step is likelier than a smooth course around it. many: changes that may be one."""
    around = max(_AROUND, len(values) // 4)
    window, place = values[max(cut - around, 0) : cut + around], min(cut, around)
    turns = np.linspace(-1, 1, len(window))
    smooth = window - np.polynomial.Polynomial.fit(turns, window, 3)(turns)
    step = np.concatenate([part - part.mean() for part in (window[:place], window[place:])])
    squares = [max(float(residuals @ residuals), ROUNDING) for residuals in (smooth, step)]
    return bool(len(window) / 2 / wider * np.log(squares[0] / squares[1]) >= np.log(_DATES * many))

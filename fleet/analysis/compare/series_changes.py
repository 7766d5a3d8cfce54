"""Find the nights on which series of numbers changed, by textbook statistics
(docs/comparing.md).

Arrays hold logarithms: a row per series, a column per night, NaN where it was not
measured. `history` makes such series of stored runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.compare import judge
from fleet.late import special

MIN_NIGHTS = 8
_SIDE = 3  # nights on either side of a split
# nights of a stretch; rows at least one and a half times as long are also tested by
# stretches
_STRETCH = 30
_WINDOW = 7  # nights of the running median
_CLIPPED = 16  # nights, from which on outliers are clipped
_FAR = 5.0  # standard deviations: a night beyond is odd
_NEAR = 2.0  # standard deviations: where all are clipped
# the standard deviation of normal noise, as a multiple of its median deviation
_MAD = 1.4826
_SELDOM = 0.1  # of the nights: a level with no more is rare, and its nights are odd
_CLIPPED_TO = 0.78  # the share of the variance of a mean that clipped residuals show
_AROUND = 15  # nights on either side of a step, or a quarter of all if that is more
_LIKELY = 1.92  # by how much the log likelihood is lower at the ends of a 95 % interval
_MAX_CORRELATED = 0.9
# a step must be so many times likelier per change tested, since its date is chosen too
_DATES = 2
_MOST = 0.75  # of the members must move by half as much as their mean, or more
_APART = 2  # nights, at most, between a change and the wider one that it is part of


class Calibration(NamedTuple):
    """Corrections of best splits for chance, by number of nights (`python -m
    benchmarks.over_time --table`).

    nights: logarithms. splits: the number of independent splits with as large a largest
    t. left, correlated: the share of variance and the correlation of neighbours that
    the best split of unchanged nights leaves.
    seen: the visible share of a true correlation. less: the factor of `left` if that
    correlation is 0.5.
    """

    nights: Floats
    splits: Floats
    left: Floats
    correlated: Floats
    seen: Floats
    less: Floats

    def interpolate(self, counts: Ints) -> "Calibration":
        """Return the corrections for these numbers of nights."""
        nights = np.log(counts)
        columns = [np.interp(nights, self.nights, column) for column in self[1:]]
        return Calibration(nights, *columns)


CALIBRATION = Calibration(
    np.log([6, 8, 10, 12, 16, 20, 30, 45, 60, 90, 130, 200, 365]),
    np.array([0.434, 1.8, 2.0, 3.5, 11, 25, 55, 65, 80, 160, 250, 340, 420]),
    np.array(
        [
            0.989,
            0.883,
            0.859,
            0.866,
            0.701,
            0.716,
            0.735,
            0.766,
            0.777,
            0.794,
            0.805,
            0.818,
            0.827,
        ]
    ),
    -np.array(
        [
            0.333,
            0.283,
            0.252,
            0.221,
            0.171,
            0.146,
            0.101,
            0.058,
            0.037,
            0.017,
            0.002,
            -0.01,
            -0.023,
        ]
    ),
    np.array(
        [
            0.158,
            0.257,
            0.346,
            0.406,
            0.551,
            0.653,
            0.787,
            0.849,
            0.891,
            0.933,
            0.959,
            0.975,
            0.987,
        ]
    ),
    np.array(
        [
            0.577,
            0.58,
            0.616,
            0.632,
            0.692,
            0.736,
            0.814,
            0.855,
            0.893,
            0.936,
            0.964,
            0.98,
            1.0,
        ]
    ),
)


class Cleaned(NamedTuple):
    """Series at one level, with outliers clipped. odd, elsewhere: row, night and
    distance as a logarithm.
    """

    logs: Floats
    odd: list[tuple[int, int, float]]
    elsewhere: list[tuple[int, int, float]]

    def add_odd(self, row: int, nights: Ints, apart: Floats, are_odd: Bools) -> None:
        """Append to `odd` the nights of a row at which `are_odd` is true."""
        places = np.flatnonzero(are_odd)
        self.odd.extend(
            (row, int(nights[place]), float(apart[place])) for place in places
        )


class Pooled(NamedTuple):
    """Rows of single series, then rows of means. members: for each row, which series it
    averages.
    """

    logs: Floats
    members: Bools


class Change(NamedTuple):
    """A change in one row of series, found by comparing the nights from `begin` to
    `end`.

    night: the first night after the change; it may be any from `first` to `last`.
    moved: the change as a logarithm, with its 95 % interval `low` to `high`. dated:
    true for a step, false for a gradual change. q: Benjamini and Hochberg's value of
    the row.
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


def clean_series(logs: Floats, levels: Ints, switches: Bools) -> Cleaned:
    """Shift each row to its commonest level and clip outliers. levels: of each night,
    by `run_levels`. switches: whether each row may switch levels.

    A row that may not switch keeps its levels unless one of them recurs. Nights at a
    rare level go to `odd`; a lasting switch to a new level goes to `elsewhere`. Rows of
    under eight nights are left alone.
    """
    cleaned = Cleaned(logs.copy(), [], [])
    for row, values in enumerate(logs):
        nights = np.flatnonzero(~np.isnan(values))
        if len(nights) < MIN_NIGHTS:
            continue
        series = values[nights]
        labels = levels[row, nights]
        if labels.any():
            leveled = _Leveled(row, nights, series, labels)
            series = leveled.move_to_one_level(cleaned, may_switch=switches[row])
        if len(series) >= _CLIPPED:
            series = _clip_outliers(row, nights, series, cleaned)
        cleaned.logs[row, nights] = series
    return cleaned


def _clip_outliers(row: int, nights: Ints, series: Floats, cleaned: Cleaned) -> Floats:
    """Clip what is far from the running median, and note it in `cleaned`."""
    running = pd.Series(series).rolling(_WINDOW, center=True).median()
    usual = running.bfill().ffill().to_numpy()
    apart = series - usual
    deviation = _MAD * float(np.median(np.abs(apart)))
    scale = max(deviation, judge.ROUNDING**0.5)
    is_far = np.abs(apart) > _FAR * scale
    cleaned.add_odd(row, nights, apart, is_far)
    near = _NEAR * scale
    return np.asarray(usual + np.clip(apart, -near, near))


@dataclass(frozen=True, slots=True)
class _Leveled:
    """A row's numbers, in order of the nights, with the level of each."""

    row: int
    nights: Ints
    series: Floats
    labels: Ints

    def move_to_one_level(self, cleaned: Cleaned, *, may_switch: bool) -> Floats:
        """Return the numbers shifted to their commonest level; note in `cleaned` nights
        at rare levels, and a lasting switch.
        """
        begins = np.flatnonzero(np.diff(self.labels, prepend=-1))
        order = self.labels[begins]  # of the levels, one for each stay
        stays = np.bincount(order)
        if not may_switch and stays.max() == 1:
            return self.series
        counts = np.bincount(self.labels)
        is_rare = counts <= max(1, _SELDOM * len(self.series))
        means = self._average_levels(len(counts))
        last = order[-1]
        if len(order) > 1 and stays[last] == 1 and not is_rare[last]:
            before = order[-2]
            if not may_switch and _are_stays_odd(order, is_rare):
                return self._move_rare(cleaned, is_rare, means, means[before])
            night = int(self.nights[begins[-1]])
            moved = float(means[last] - means[before])
            cleaned.elsewhere.append((self.row, night, moved))
        usual = means[counts.argmax()]
        self._note_rare(cleaned, is_rare, usual)
        return np.asarray(self.series - means[self.labels] + usual)

    def _move_rare(
        self, cleaned: Cleaned, is_rare: Bools, means: Floats, usual: float
    ) -> Floats:
        """Shift only nights at rare levels to the usual number, and note them."""
        self._note_rare(cleaned, is_rare, usual)
        shifted = self.series - means[self.labels] + usual
        return np.where(is_rare[self.labels], shifted, self.series)

    def _note_rare(self, cleaned: Cleaned, is_rare: Bools, usual: float) -> None:
        """Note the nights at rare levels. is_rare: of each level."""
        apart = self.series - usual
        cleaned.add_odd(self.row, self.nights, apart, is_rare[self.labels])

    def _average_levels(self, count: int) -> Floats:
        levels = range(count)
        return np.array([self.series[self.labels == level].mean() for level in levels])


def _are_stays_odd(order: Ints, is_rare: Bools) -> bool:
    """Report whether a row has odd nights and then a step: all levels besides those of
    the last two stays are rare. order: of the levels, one for each stay.
    """
    others = len(set(order)) - 2
    rare_stays = int(is_rare[order[:-1]].sum())
    return rare_stays >= others > 0


def append_means(logs: Floats, hosts: Ints, relations: Ints) -> Pooled:
    """Append the means of each relation, each host and all. hosts, relations: each
    row's number, from 0.
    """
    singles = np.eye(len(logs), dtype=bool)
    groups = _list_groups(hosts, relations)
    members = np.array([*singles, *groups])
    is_measured = ~np.isnan(logs)
    medians = judge.compute_nanmedian(logs, axis=1)
    apart = np.where(is_measured, logs - medians[:, None], 0.0)
    weights = members.astype(float)
    counts = weights @ is_measured
    means = weights @ apart / np.where(counts > 0, counts, np.nan)
    return Pooled(np.vstack([logs, means[len(logs) :]]), members)


def _list_groups(hosts: Ints, relations: Ints) -> list[Bools]:
    """List which rows are of each relation, of each host and of all, without groups of
    a single row and equal ones.
    """
    groups = dict[bytes, Bools]()
    for keys in (relations, hosts, np.zeros_like(hosts)):
        for key in np.unique(keys):
            group = keys == key
            if group.sum() > 1:
                groups[group.tobytes()] = group
    return list(groups.values())


class _Part(NamedTuple):
    """Nights, all measured, of a row of series."""

    row: int
    nights: Ints


class BestSplits(NamedTuple):
    """The best split of each part. cuts: how many nights are before it. wider: how much
    correlation between nights multiplies variance.
    """

    p: Floats
    cuts: Ints
    wider: Floats


def find_changes(logs: Floats) -> list[Change]:
    """Find the changes of rows of eight nights or more, by row and night, at a false
    discovery rate of 5 %.

    Each row is tested at its best split: the one with the largest t and three nights or
    more on either side. Variances and correlations between nights are shrunk towards
    those of all rows. Long rows are also tested in stretches of 30 nights. Rows with q
    < 0.05 are split, and their parts again at the same limit of p.
    """
    long_rows = _list_long_rows(logs)
    if not long_rows:
        return []
    splits = _test_with_stretches(logs, long_rows)
    q = judge.control_false_discovery(splits.p)
    # Benjamini and Hochberg: of p, where q is 5 %
    limit = judge.ALPHA * float(np.mean(q < judge.ALPHA))
    cuts_by_row = _split_while_below(limit, logs, long_rows, splits)
    changes = []
    for place, (row, nights) in enumerate(long_rows):
        if row in cuts_by_row:
            cuts = _ProvedCuts(
                row=row,
                nights=nights,
                values=logs[row, nights],
                cuts=sorted(cuts_by_row[row]),
                q=float(q[place]),
                wider=float(splits.wider[place]),
            )
            changes += cuts.describe(rows=len(long_rows))
    return changes


def _list_long_rows(logs: Floats) -> list["_Part"]:
    """List the measured nights of each row that has enough of them."""
    parts = []
    for row, values in enumerate(logs):
        nights = np.flatnonzero(~np.isnan(values))
        if len(nights) >= MIN_NIGHTS:
            parts.append(_Part(row, nights))
    return parts


def _split_while_below(
    limit: float, logs: Floats, parts: Sequence[_Part], splits: BestSplits
) -> dict[int, list[int]]:
    """Split parts at their best splits until no part's p is within the limit; return
    the first night after each split, by row.
    """
    cuts_by_row = dict[int, list[int]]()
    while (splits.p <= limit).any():
        same, halves = list[_Part](), list[_Part]()
        for part, p, cut in zip(parts, splits.p, splits.cuts, strict=True):
            if p > limit:
                same.append(part)
                continue
            row, nights = part
            cuts_by_row.setdefault(row, []).append(int(nights[cut]))
            halves += [_Part(row, nights[:cut]), _Part(row, nights[cut:])]
        parts = same + [half for half in halves if len(half.nights) >= 2 * _SIDE]
        if not parts:
            break
        splits = _test_with_stretches(logs, parts)
    return cuts_by_row


def _test_with_stretches(logs: Floats, parts: Sequence[_Part]) -> BestSplits:
    """Test parts as `measure_parts` does, but long ones in stretches too: steps may
    hide each other.
    """
    splits = measure_parts(logs, parts)
    begins = [_list_stretches(len(part.nights)) for part in parts]
    counts = np.array([len(own) for own in begins])
    # twice as many tests: of the whole and of its stretches
    doubled = np.minimum(2 * splits.p, 1.0)
    splits = splits._replace(p=np.where(counts > 0, doubled, splits.p))
    for turn in range(counts.max(initial=0)):
        places = np.flatnonzero(counts > turn)
        first = np.array([begins[place][turn] for place in places])
        of_stretches = _test_stretches(logs, parts, places, first)
        p = np.minimum(2 * counts[places] * of_stretches.p, 1.0)
        is_better = p < splits.p[places]
        better = places[is_better]
        splits.p[better] = p[is_better]
        splits.cuts[better] = (first + of_stretches.cuts)[is_better]
        splits.wider[better] = of_stretches.wider[is_better]
    return splits


def _test_stretches(
    logs: Floats, parts: Sequence[_Part], places: Ints, first: Ints
) -> BestSplits:
    """Test a stretch of each of these parts. first: where it begins."""
    stretches = []
    for place, begin in zip(places, first, strict=True):
        row, nights = parts[place]
        stretches.append(_Part(row, nights[begin : begin + _STRETCH]))
    return measure_parts(logs, stretches)


def _list_stretches(nights: int) -> list[int]:
    """List where the stretches of a part begin; none if it is hardly longer than
    one.
    """
    last = nights - _STRETCH
    if 2 * last < _STRETCH:
        return []
    return [*range(0, last, _STRETCH // 2), last]


def measure_parts(
    logs: Floats,
    parts: Sequence[tuple[int, Ints]],
    calibration: Calibration = CALIBRATION,
) -> BestSplits:
    """Test each part at its best split. parts: row and nights."""
    counts = np.array([len(nights) for _, nights in parts])
    fits = _fit_parts(logs, parts, counts)
    by_chance = calibration.interpolate(counts)
    correlations = (fits.correlated - by_chance.correlated) / by_chance.seen
    variance_of_correlation = 1 / (counts * by_chance.seen**2)
    usual = _moderate_correlations(correlations, variance_of_correlation)
    less = 2 * np.minimum(usual, 0.5) * (1 - by_chance.less)
    share_left = by_chance.left * (1 - less)
    variance, freedom = judge.moderate_variances(
        np.maximum(fits.left / share_left, judge.ROUNDING), counts - 2.0
    )
    wider = (1 + usual) / (1 - usual)
    scale = 1 / fits.cuts + 1 / (counts - fits.cuts)
    error = np.sqrt(variance * scale * wider)
    of_one_split = 2 * special.stdtr(freedom, -np.abs(fits.moved) / error)
    p = np.minimum(of_one_split * by_chance.splits, 1.0)
    return BestSplits(p, fits.cuts, wider)


class SplitFits(NamedTuple):
    """The best split of each row: its cut, the change there as a logarithm, and the
    variance and the correlation between nights of the residuals.
    """

    cuts: Ints
    moved: Floats
    left: Floats
    correlated: Floats


def _fit_parts(
    logs: Floats, parts: Sequence[tuple[int, Ints]], counts: Ints
) -> SplitFits:
    """Fit the best split of each part. counts: of its nights."""
    fits = SplitFits(np.zeros(len(parts), dtype=np.int64), *np.zeros((3, len(parts))))
    numbers = [logs[row, nights] for row, nights in parts]
    for count in np.unique(counts):
        alike = np.flatnonzero(counts == count)
        rows = [own for own in numbers if len(own) == count]
        of_alike = find_best_splits(np.array(rows))
        for values, own in zip(fits, of_alike, strict=True):
            values[alike] = own
    return fits


def _moderate_correlations(correlations: Floats, chance: Floats) -> Floats:
    """Shrink correlations towards their median. chance: the variance of each by
    chance.
    """
    middle = float(np.median(correlations))
    apart = correlations - middle
    between = max(float(np.mean(apart**2 - chance)), 0.0)
    shrunk = middle + apart * between / (between + chance)
    return np.clip(shrunk, 0.0, _MAX_CORRELATED)


def find_best_splits(rows: Floats) -> SplitFits:
    """Fit each row's split with the largest t. rows: a column per night, none NaN."""
    count = rows.shape[1]
    values = rows - rows.mean(axis=1, keepdims=True)
    cuts = np.arange(_SIDE, count - _SIDE + 1)
    # sums and squares below are of the nights before a cut; values sum to 0
    sums = np.cumsum(values, axis=1)[:, cuts - 1]
    gain = sums**2 * count / (cuts * (count - cuts))
    best = gain.argmax(axis=1)
    before = cuts[best]
    after = count - before
    total = sums[np.arange(len(rows)), best]
    is_before = np.arange(count) < before[:, None]
    mean_before = (total / before)[:, None]
    mean_after = (-total / after)[:, None]
    residuals = values - np.where(is_before, mean_before, mean_after)
    squares = np.maximum((residuals**2).sum(axis=1), judge.ROUNDING)
    products = (residuals[:, 1:] * residuals[:, :-1]).sum(axis=1)
    return SplitFits(
        cuts=before,
        moved=-total * count / (before * after),
        left=squares / (count - 2),
        correlated=products / squares,
    )


@dataclass(frozen=True, slots=True)
class _ProvedCuts:
    """The proved cuts of a row. values: of its measured nights. cuts: the night after
    each. wider: as of BestSplits.
    """

    row: int
    nights: Ints
    values: Floats
    cuts: Sequence[int]
    q: float
    wider: float

    def describe(self, *, rows: int) -> list[Change]:
        """Return a Change per cut, measured between the adjacent cuts; join gradual
        neighbours of one sign. rows: how many were tested.
        """
        changes = list[Change]()
        tests = rows * len(self.cuts)
        edges = [int(self.nights[0]), *self.cuts, int(self.nights[-1]) + 1]
        places = np.searchsorted(self.nights, edges).tolist()
        for first, cut, last in zip(places, places[1:], places[2:], strict=False):
            change = self._measure(first, cut, last)
            if _is_step(self.values, cut, self.wider, tests):
                change = change._replace(dated=True)
            if changes and _are_one_gradual_change(changes[-1], change):
                change = _join_gradual(changes.pop(), change)
            changes.append(change)
        return changes

    def _measure(self, first: int, cut: int, last: int) -> Change:
        """Measure the change at a cut in the values `first` to `last`; not yet
        dated.
        """
        nights = self.nights[first:last]
        variance_share = _CLIPPED_TO if len(self.nights) >= _CLIPPED else 1.0
        estimate = _estimate_change(
            self.values[first:last], cut - first, self.wider, variance_share
        )
        return Change(
            row=self.row,
            night=int(self.nights[cut]),
            first=int(nights[estimate.first_cut]),
            last=int(nights[estimate.last_cut]),
            begin=int(nights[0]),
            end=int(nights[-1]),
            moved=estimate.moved,
            low=estimate.low,
            high=estimate.high,
            q=self.q,
            dated=False,
        )


def _are_one_gradual_change(before: Change, after: Change) -> bool:
    is_one_sign = (before.moved > 0) == (after.moved > 0)
    return is_one_sign and not before.dated and not after.dated


def _join_gradual(before: Change, after: Change) -> Change:
    moved = before.moved + after.moved
    half = float(np.hypot(before.high - before.low, after.high - after.low)) / 2
    return after._replace(
        begin=before.begin, moved=moved, low=moved - half, high=moved + half
    )


class _Estimate(NamedTuple):
    """A change as a logarithm, with its 95 % interval. first_cut, last_cut: the cuts
    between which it may be as well.
    """

    moved: float
    low: float
    high: float
    first_cut: int
    last_cut: int


def _estimate_change(
    values: Floats, cut: int, wider: float, variance_share: float
) -> _Estimate:
    """Estimate the change of values at a cut. variance_share: of the variance, what
    clipping leaves.
    """
    before = values[:cut]
    after = values[cut:]
    moved = float(after.mean() - before.mean())
    squares = max(_sum_squares(before) + _sum_squares(after), judge.ROUNDING)
    freedom = max(len(values) - 2.0, 1.0)
    per_night = squares / freedom
    scale = 1 / len(before) + 1 / len(after)
    error = (per_night * scale * wider / variance_share) ** 0.5
    low, high, _ = judge.apply_student(
        np.array(moved), np.array(error), np.array(freedom)
    )
    likelihoods = _measure_likelihoods(values, wider)
    least = likelihoods[cut - 1] - _LIKELY
    close = 1 + np.flatnonzero(likelihoods >= least)
    return _Estimate(moved, float(low), float(high), int(close[0]), int(close[-1]))


def _sum_squares(values: Floats) -> float:
    """Return the sum of squares around the mean."""
    return float(((values - values.mean()) ** 2).sum())


def _measure_likelihoods(values: Floats, wider: float) -> Floats:
    """Return the log likelihood of each cut, from 1 on, up to a constant: noise is
    normal around a mean on either side.
    """
    count = len(values)
    before = np.arange(1, count)
    after = count - before
    apart = values - values.mean()
    sums_before = np.cumsum(apart)[:-1]
    between = sums_before**2 * count / (before * after)
    left = np.maximum((apart**2).sum() - between, judge.ROUNDING)
    return np.asarray(-count / 2 / wider * np.log(left))


def _is_step(values: Floats, cut: int, wider: float, many: int) -> bool:
    """Report whether a step fits better than a smooth curve around the cut. many: the
    number of tests.
    """
    around = max(_AROUND, len(values) // 4)
    before = values[max(cut - around, 0) : cut]
    after = values[cut : cut + around]
    squares_of_step = _sum_squares(before) + _sum_squares(after)
    window = np.concatenate([before, after])
    squares_of_curve = _sum_squares_around_curve(window)
    ratio = max(squares_of_curve, judge.ROUNDING) / max(squares_of_step, judge.ROUNDING)
    likelier = len(window) / 2 / wider * np.log(ratio)
    return bool(likelier >= np.log(_DATES * many))


def _sum_squares_around_curve(values: Floats) -> float:
    """Return the sum of squares around the cubic that fits best."""
    times = np.linspace(-1, 1, len(values))
    curve = np.polynomial.Polynomial.fit(times, values, 3)
    return float(((values - curve(times)) ** 2).sum())


def drop_changes_of_parts(changes: Sequence[Change], pool: Pooled) -> list[Change]:
    """Drop changes of means that under 75 % of their members share, and parts of wider
    changes.
    """
    remaining = list[Change]()
    widest_first = sorted(changes, key=lambda change: -pool.members[change.row].sum())
    for change in widest_first:
        if any(_is_part_of_wider(change, wider, pool) for wider in remaining):
            continue
        if _is_shared_by_members(change, pool):
            remaining.append(change)
    return sorted(remaining, key=lambda change: (change.night, change.row))


def _is_shared_by_members(change: Change, pool: Pooled) -> bool:
    """Report whether most of the series behind a row moved by half as much or more."""
    are_members = pool.members[change.row]
    if are_members.sum() == 1:
        return True
    series = pool.logs[: len(are_members)][are_members]
    before = judge.compute_nanmean(series[:, change.begin : change.night], axis=1)
    after = judge.compute_nanmean(series[:, change.night : change.end + 1], axis=1)
    same_way = (after - before) * np.sign(change.moved)
    return bool((same_way > abs(change.moved) / 2).mean() >= _MOST)


def _is_part_of_wider(change: Change, wider: Change, pool: Pooled) -> bool:
    inside = bool((pool.members[wider.row] >= pool.members[change.row]).all())
    dates = (wider.first, wider.last) if wider.dated else (wider.begin, wider.end)
    own = (change.first, change.last) if change.dated else (change.begin, change.end)
    near = own[0] - _APART <= dates[1] and dates[0] - _APART <= own[1]
    return inside and near and (change.moved > 0) == (wider.moved > 0)

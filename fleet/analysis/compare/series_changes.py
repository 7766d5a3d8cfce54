"""Find the nights on which series of numbers changed, by textbook statistics
(docs/comparing.md).

Arrays hold logarithms: a row per series, a column per night, NaN where it was not
measured. `history` makes such series of stored runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.compare import judge

MIN_NIGHTS = 8
_MIN_NIGHTS_A_SIDE = 3  # nights on either side of a split
# nights of a stretch; rows at least one and a half times as long are also tested by
# stretches
_STRETCH = 30
_MEDIAN_NIGHTS = 7  # nights of the running median
_MIN_NIGHTS_TO_CLIP = 16
# in standard deviations from the running median
_ODD_BEYOND = 5.0
_CLIP_TO = 2.0
# the standard deviation of normal noise, as a multiple of its median deviation
_DEVIATION_PER_MAD = 1.4826
# a level with at most this share of the nights is rare, and its nights are odd
_RARE_SHARE = 0.1
# the share of the variance of a mean that clipped residuals show
_VARIANCE_LEFT_BY_CLIPPING = 0.78
_NIGHTS_AROUND = 15  # on either side of a step, or a quarter of all if that is more
# by how much the log likelihood is lower at the ends of a 95 % interval: half of the
# 95 % quantile of chi-squared with one degree of freedom
_LIKELIHOOD_DROP = 1.92
_MAX_CORRELATED = 0.9
# a step must be so many times likelier per change tested, since its date is chosen too
_MIN_ODDS_PER_TEST = 2
# of the members of a mean that must move by half as much as the mean, or more
_MIN_SHARE_OF_MEMBERS = 0.75
_MAX_NIGHTS_APART = 2  # between a change and the wider one that it is part of


class Calibration(NamedTuple):
    """Corrections of best splits for chance, by number of nights (`python -m
    benchmarks.over_time --table`).

    nights: logarithms of the numbers of nights. splits: the number of independent
    splits with as large a largest t. variance, correlation: the share of the variance,
    and the correlation of neighbours, that the best split of unchanged nights leaves.
    visible: the share of a true correlation that it leaves. variance_at_half: the
    factor of `variance` if the true correlation is 0.5.
    """

    nights: Floats
    splits: Floats
    variance: Floats
    correlation: Floats
    visible: Floats
    variance_at_half: Floats

    def interpolate(self, counts: Ints) -> "Calibration":
        """Return the corrections for these numbers of nights, linear in the logarithm
        of the number between those of the table.
        """
        log_counts = np.log(counts)
        log_nights = self.nights  # of the table
        interpolated = []
        for column in self[1:]:  # all columns but `nights`
            values = np.interp(log_counts, log_nights, column)
            interpolated.append(values)
        return Calibration(log_counts, *interpolated)

    def compute_variance_left(self, correlation: Floats) -> Floats:
        """Return the share of the variance that the best splits leave. correlation: of
        neighbouring nights.
        """
        # linear in the correlation: nothing lost at 0, 1 - variance_at_half at 0.5
        lost_at_half = 1 - self.variance_at_half
        lost = 2 * np.minimum(correlation, 0.5) * lost_at_half
        return self.variance * (1 - lost)


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
    """Series at one level, with outliers clipped.

    odd: the nights at a rare level and the outliers. elsewhere: the first night of each
    lasting switch to a new level. Both hold the numbers of a row and of a night, and
    how far this night is from others, a logarithm.
    """

    log_ns: Floats
    odd: list[tuple[int, int, float]]
    elsewhere: list[tuple[int, int, float]]

    def add_odd(
        self, row: int, nights: Ints, distances: Floats, are_odd: Bools
    ) -> None:
        """Append those of a row's nights that are odd to `odd`. distances, are_odd: a
        value for each of `nights`.
        """
        odd_nights = nights[are_odd].tolist()
        odd_distances = distances[are_odd].tolist()
        for night, distance in zip(odd_nights, odd_distances, strict=True):
            self.odd.append((row, night, distance))


class Pooled(NamedTuple):
    """Rows of single series, then rows of means over groups of series. members: whether
    each row (first axis) averages each series (second axis); the row of a single series
    has this series as its only member.
    """

    log_ns: Floats
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


def clean_series(log_ns: Floats, levels: Ints, switches: Bools) -> Cleaned:
    """Shift each row to its commonest level and clip outliers. Rows of under eight
    nights are left alone.

    log_ns: a row per series, a column per night, NaN where the series was not measured.
    levels: the level of each number in its row, from 0, the lowest. switches: whether
    each row is of a host that may switch levels, such as a virtual machine. A row of
    another host is left at its levels, unless it comes back to a level after another.

    The result lists what was found: in `odd`, the nights at a rare level and the
    outliers; in `elsewhere`, each lasting switch to a new level.
    """
    cleaned = Cleaned(log_ns.copy(), odd=[], elsewhere=[])
    for row, nights in _list_long_rows(log_ns):
        series = log_ns[row, nights]
        labels = levels[row, nights]
        # a row at one level has the level 0 only
        has_several_levels = labels.any()
        # both steps note in `cleaned` what they find
        if has_several_levels:
            leveled = _Leveled(row, nights, series, labels)
            series = leveled.move_to_one_level(cleaned, may_switch=switches[row])
        if len(series) >= _MIN_NIGHTS_TO_CLIP:
            series = _clip_outliers(row, nights, series, cleaned)
        cleaned.log_ns[row, nights] = series
    return cleaned


def _clip_outliers(row: int, nights: Ints, series: Floats, cleaned: Cleaned) -> Floats:
    """Clip the numbers that are more than two standard deviations from the running
    median; return all numbers. Note in `cleaned` the nights that are more than five
    from it. series: the numbers of a row on `nights`.
    """
    running_median = _compute_running_median(series)
    distances = series - running_median
    sizes = np.abs(distances)
    deviation = _DEVIATION_PER_MAD * float(np.median(sizes))
    # where most nights are equal, at least that of rounding, which is a variance
    deviation_of_rounding = judge.ROUNDING**0.5
    deviation = max(deviation, deviation_of_rounding)
    is_odd = sizes > _ODD_BEYOND * deviation  # one value per night
    cleaned.add_odd(row, nights, distances, is_odd)
    limit = _CLIP_TO * deviation
    clipped = np.clip(distances, -limit, limit)
    return np.asarray(running_median + clipped)


def _compute_running_median(series: Floats) -> Any:
    """Return the median of the seven nights around each night. series: the numbers of
    a row's measured nights.
    """
    windows = pd.Series(series).rolling(_MEDIAN_NIGHTS, center=True)
    medians = windows.median()
    # both ends have no full window: they take the nearest median
    return medians.bfill().ffill().to_numpy()


@dataclass(frozen=True, slots=True)
class _Leveled:
    """A row's numbers, in order of the nights, with the level of each.

    A stay is nights one after another at one level. A level with few nights is rare.
    Below, `is_rare` and `means` have a value per level.
    """

    row: int
    nights: Ints
    series: Floats
    labels: Ints

    def move_to_one_level(self, cleaned: Cleaned, *, may_switch: bool) -> Floats:
        """Return the numbers of a row shifted to one level, by the first case that
        applies:
        - No level recurs, and the host may not switch levels: another level may be a
          change. The numbers are returned as they are.
        - The row ends in a new level that lasts, all levels but the new level and the
          level before it are rare, and the host may not switch: the new level may be a
          change, and stays. Nights at rare levels are noted in `cleaned`, and shifted
          to the level before the new level.
        - Else all nights are shifted to the commonest level. Nights at rare levels are
          noted, and so is a lasting switch to a new level.

        A level recurs if the row comes back to it after another level. A level with at
        most a tenth of the nights, or with a single night, is rare. may_switch: whether
        the host may switch levels, such as a virtual machine.
        """
        first_of_stay = self._find_stays()
        level_of_stay = self.labels[first_of_stay]
        # a level that recurs has two stays or more
        stays_at_level = np.bincount(level_of_stay)
        recurs = stays_at_level.max() > 1
        if not may_switch and not recurs:
            return self.series  # the first case
        nights_at_level = np.bincount(self.labels)
        is_rare = self._are_rare(nights_at_level)
        means = self._average_levels(len(nights_at_level))
        has_new_level = _is_last_lasting(level_of_stay, is_rare)
        may_be_change = has_new_level and not may_switch
        if may_be_change and _are_other_levels_rare(level_of_stay, is_rare):
            # the second case
            level_before = level_of_stay[-2]
            return self._move_rare(cleaned, is_rare, means, means[level_before])
        # the third case
        if has_new_level:
            level_before, last_level = level_of_stay[-2:]
            change = float(means[last_level] - means[level_before])
            self._note_switch(cleaned, first_of_stay[-1], change)
        commonest_level = nights_at_level.argmax()
        usual = means[commonest_level]
        self._note_rare(cleaned, is_rare, usual)
        return self._shift_levels(means, usual)

    def _are_rare(self, nights_at_level: Ints) -> Bools:
        """Report which levels are rare: of a tenth of the nights at most, or of one
        night. nights_at_level: how many nights each level has.
        """
        most_if_rare = max(1, _RARE_SHARE * len(self.series))
        return np.asarray(nights_at_level <= most_if_rare)

    def _find_stays(self) -> Ints:
        """Return the place at which each stay begins: nights one after another at one
        level. Levels 0, 0, 1, 0 have stays from 0, 2 and 3.
        """
        is_first_of_stay = np.diff(self.labels, prepend=-1)
        return np.flatnonzero(is_first_of_stay)

    def _shift_levels(self, means: Floats, usual: float) -> Floats:
        """Return all numbers, those of each level shifted so that their mean is the
        usual number. means: the mean of each level.
        """
        mean_of_night = means[self.labels]
        return np.asarray(self.series - mean_of_night + usual)

    def _move_rare(
        self, cleaned: Cleaned, is_rare: Bools, means: Floats, usual: float
    ) -> Floats:
        """Return all numbers, of which only those of nights at rare levels are shifted
        to the usual number; note these nights. is_rare, means: of each level.
        """
        self._note_rare(cleaned, is_rare, usual)
        shifted = self._shift_levels(means, usual)
        is_at_rare = is_rare[self.labels]
        return np.where(is_at_rare, shifted, self.series)

    def _note_rare(self, cleaned: Cleaned, is_rare: Bools, usual: float) -> None:
        """Note the nights at rare levels, and how far each is from the usual number.
        is_rare: of each level.
        """
        distances = self.series - usual
        is_at_rare = is_rare[self.labels]
        cleaned.add_odd(self.row, self.nights, distances, is_at_rare)

    def _note_switch(self, cleaned: Cleaned, place: int, change: float) -> None:
        """Note a lasting switch of level. place: where its first night is in `nights`.
        change: from the level before to the new level, a logarithm.
        """
        night = int(self.nights[place])
        cleaned.elsewhere.append((self.row, night, change))

    def _average_levels(self, count: int) -> Floats:
        """Return the mean of the numbers at each of `count` levels."""
        means = np.zeros(count)
        for level in range(count):
            is_at_level = self.labels == level
            means[level] = self.series[is_at_level].mean()
        return means


def _is_last_lasting(level_of_stay: Ints, is_rare: Bools) -> bool:
    """Report whether a row went to a new level and stayed there.

    level_of_stay: the level of each stay (nights one after another at one level), in
    order of time. is_rare: whether each level has few nights.
    """
    last_level = level_of_stay[-1]
    is_new = last_level not in level_of_stay[:-1]
    return len(level_of_stay) > 1 and is_new and not is_rare[last_level]


def _are_other_levels_rare(level_of_stay: Ints, is_rare: Bools) -> bool:
    """Report whether there are levels besides those of the last two stays, and all of
    these are rare: then the row has some odd nights, and a step at its last stay.

    level_of_stay: the level of each stay (nights one after another at one level), in
    order of time. is_rare: whether each level has few nights.
    """
    other_levels = len(set(level_of_stay)) - 2
    levels_before_last = level_of_stay[:-1]
    rare_stays = int(is_rare[levels_before_last].sum())
    return rare_stays >= other_levels > 0


def append_means(log_ns: Floats, hosts: Ints, relations: Ints) -> Pooled:
    """Append rows for the means of each relation, of each host and of all series: night
    by night, the mean of how far each series is from its own median.

    log_ns: a row per series, a column per night, NaN where the series was not measured.
    hosts, relations: the number of each row's host and of its relation, from 0. A mean
    of a night is over the series measured then, NaN if there are none.
    """
    # rows of the result x series: whether the row is the mean of the series; the first
    # rows are the series themselves, each its own only member
    members = _list_members(hosts, relations)
    # distances, since series of unlike size are averaged
    medians = judge.compute_nanmedian(log_ns, axis=1)
    distances = log_ns - medians[:, None]
    is_measured = ~np.isnan(log_ns)
    distances_or_0 = np.where(is_measured, distances, 0.0)
    # products of matrices, (rows of the result x series) times (series x nights), add
    # up the members of each row on each night
    weights = members.astype(float)
    counts = weights @ is_measured
    sums = weights @ distances_or_0
    means = judge.divide_by_counts(sums, counts)
    # the first rows are of single series, which are kept as they are
    means_of_groups = means[len(log_ns) :]
    rows = np.vstack([log_ns, means_of_groups])
    return Pooled(rows, members)


def _list_members(hosts: Ints, relations: Ints) -> Bools:
    """Return which series each row of a pool is the mean of, rows x series: first a row
    for each series alone, then one for each group. hosts, relations: of each series.
    """
    singles = np.eye(len(hosts), dtype=bool)
    groups = _list_groups(hosts, relations)
    return np.array([*singles, *groups])


def _list_groups(hosts: Ints, relations: Ints) -> list[Bools]:
    """List the groups of series: of each relation, of each host, and all series. A
    group says of each series whether it is a member. Groups of a single series are left
    out, and of equal groups all but the first. hosts, relations: of each series.
    """
    all_series = np.zeros_like(hosts)
    groups = dict[bytes, Bools]()  # by their bytes, so that equal ones are one
    for keys in (relations, hosts, all_series):
        for key in np.unique(keys):
            is_in_group = keys == key
            if is_in_group.sum() > 1:
                groups[is_in_group.tobytes()] = is_in_group
    return list(groups.values())


class _Part(NamedTuple):
    """Nights, all measured, of a row of series."""

    row: int
    nights: Ints

    def split_long_enough(self, cut: int) -> list["_Part"]:
        """Return the parts before and after the first `cut` nights, without parts too
        short to be split again.
        """
        shortest = 2 * _MIN_NIGHTS_A_SIDE
        before = _Part(self.row, self.nights[:cut])
        after = _Part(self.row, self.nights[cut:])
        return [part for part in (before, after) if len(part.nights) >= shortest]


class BestSplits(NamedTuple):
    """The best split of each part. p: the probability of such a split by chance. cuts:
    how many nights of the part are before the split. inflation: the factor by which
    correlation between nights multiplies the variance of a mean.
    """

    p: Floats
    cuts: Ints
    inflation: Floats

    def keep_better(self, places: Ints, others: "BestSplits") -> None:
        """Replace splits by others that have a smaller p. places: which split each of
        the others may replace.
        """
        is_better = others.p < self.p[places]
        places_to_replace = places[is_better]
        columns = zip(self, others, strict=True)  # of p, then of cuts, …
        for own_column, other_column in columns:
            own_column[places_to_replace] = other_column[is_better]

    def multiply_p(self, factors: Ints) -> "BestSplits":
        """Return the splits with p multiplied, by Bonferroni, up to 1. factors: the
        number of tests that each split is one of.
        """
        multiplied = factors * self.p
        return self._replace(p=np.minimum(multiplied, 1.0))


def find_changes(log_ns: Floats) -> list[Change]:
    """Find the changes of rows of eight nights or more, at a false discovery rate of
    5 %; list them in order of row, and then of night.

    log_ns: a row per series or mean, a column per night, NaN where it was not measured.

    Each row is tested at its best split: of all splits with three nights or more on
    either side, the split with the largest t. Variances and correlations between nights
    are shrunk towards those of all rows. Long rows are also tested in stretches of 30
    nights. Rows with q < 0.05 are split, and the parts are tested in turn, at the limit
    of p that is the same as q < 0.05 for rows.
    """
    long_rows = _list_long_rows(log_ns)
    if not long_rows:
        return []
    splits = _test_with_stretches(log_ns, long_rows)
    q = judge.control_false_discovery(splits.p)
    # by Benjamini and Hochberg, q is below 5 % where p is at most 5 % times the share
    # of rows that have changed
    share_changed = float(np.mean(q < judge.ALPHA))
    limit = judge.ALPHA * share_changed
    cuts_by_row = _split_while_below(limit, log_ns, long_rows, splits)
    changes = []
    for place, (row, nights) in enumerate(long_rows):
        if row not in cuts_by_row:
            continue
        cuts = _ProvedCuts(
            row=row,
            nights=nights,
            values=log_ns[row, nights],
            first_nights=sorted(cuts_by_row[row]),
            q=float(q[place]),
            inflation=float(splits.inflation[place]),
        )
        changes += cuts.describe(rows_tested=len(long_rows))
    return changes


def _list_long_rows(log_ns: Floats) -> list["_Part"]:
    """List the measured nights of each row that has eight or more, as a part: the
    whole row.
    """
    parts = []
    for row, values in enumerate(log_ns):
        nights = np.flatnonzero(~np.isnan(values))
        if len(nights) >= MIN_NIGHTS:
            parts.append(_Part(row, nights))
    return parts


def _split_while_below(
    limit: float, log_ns: Floats, parts: Sequence[_Part], splits: BestSplits
) -> dict[int, list[int]]:
    """Split parts at their best splits until no part's p is within the limit; return
    the first night after each split, by row. splits: the best split of each part, at
    first; then the parts of the split ones are tested, too.
    """
    nights_by_row = dict[int, list[int]]()
    is_changed = splits.p <= limit  # a value per part
    while is_changed.any():
        # unchanged parts are tested again with the new parts: the variance of each part
        # is shrunk towards that of all parts that are tested together
        unchanged_places = np.flatnonzero(~is_changed).tolist()
        next_parts = [parts[place] for place in unchanged_places]
        for place in np.flatnonzero(is_changed).tolist():
            part = parts[place]
            cut = splits.cuts[place]  # how many nights of the part are before it
            night = int(part.nights[cut])
            nights_by_row.setdefault(part.row, []).append(night)
            next_parts += part.split_long_enough(cut)
        if not next_parts:
            break
        parts = next_parts
        splits = _test_with_stretches(log_ns, parts)
        is_changed = splits.p <= limit
    return nights_by_row


def _test_with_stretches(log_ns: Floats, parts: Sequence[_Part]) -> BestSplits:
    """Test parts as `measure_parts` does, and long ones in stretches too, since steps
    may hide each other. A stretch is 30 nights of a part one after another. Return the
    split of each part, or of one of its stretches, with the smallest p.
    """
    begins_of_parts = [_list_stretches(len(part.nights)) for part in parts]
    stretch_counts = np.array([len(begins) for begins in begins_of_parts])
    splits_of_whole = measure_parts(log_ns, parts)
    # Bonferroni, p times the number of tests: half of the 5 % is for the whole part,
    # half for all of its stretches
    has_stretches = stretch_counts > 0
    factor_of_whole = np.where(has_stretches, 2, 1)
    splits = splits_of_whole.multiply_p(factor_of_whole)
    # the first stretch of all parts at once, then the second, …
    most_stretches = stretch_counts.max(initial=0)
    for number in range(most_stretches):
        # the parts that have so many stretches, and where this one begins in each
        places = np.flatnonzero(stretch_counts > number)
        begins = [begins_of_parts[place][number] for place in places]
        splits_of_stretches = _test_stretches(log_ns, parts, places, np.array(begins))
        # half of the 5 %, divided among all stretches of the part
        factor_of_stretch = 2 * stretch_counts[places]
        others = splits_of_stretches.multiply_p(factor_of_stretch)
        splits.keep_better(places, others)
    return splits


def _test_stretches(
    log_ns: Floats, parts: Sequence[_Part], places: Ints, begins: Ints
) -> BestSplits:
    """Test a stretch of 30 nights in each of some parts.

    places: where the tested parts are in `parts`. begins: for each of them, how many
    nights of the part are before the stretch. The cuts of the result count from the
    start of the part, not of the stretch.
    """
    stretches = []
    for place, begin in zip(places, begins, strict=True):
        part = parts[place]
        nights = part.nights[begin : begin + _STRETCH]
        stretches.append(_Part(part.row, nights))
    splits = measure_parts(log_ns, stretches)
    cuts_in_parts = begins + splits.cuts
    return splits._replace(cuts=cuts_in_parts)


def _list_stretches(nights: int) -> list[int]:
    """List at which of so many nights a stretch of 30 begins; none if they are hardly
    more than one stretch. 70 nights have stretches from 0, 15, 30 and 40.
    """
    last = nights - _STRETCH  # where the last stretch begins
    is_hardly_longer = 2 * last < _STRETCH  # by less than half of a stretch
    if is_hardly_longer:
        return []
    # neighbours overlap by half
    return [*range(0, last, _STRETCH // 2), last]


def measure_parts(
    log_ns: Floats,
    parts: Sequence[tuple[int, Ints]],
    calibration: Calibration = CALIBRATION,
) -> BestSplits:
    """Test each part at its best split, by Student's t. parts: the row of each part in
    `log_ns`, and some nights of this row, on all of which it was measured.

    The best of many splits leaves less variance and less correlation than there is:
    both are corrected by `calibration`, which was simulated. Then the p of a single
    split is multiplied by the number of independent splits among which it was the best.
    """
    counts = np.array([len(nights) for _, nights in parts])
    fits = _fit_parts(log_ns, parts, counts)
    # what the best split of as many unchanged nights shows: `correlation`, `variance`,
    # and `splits`, the number of independent splits among which it is the best
    by_chance = calibration.interpolate(counts)
    correlation = _estimate_correlations(fits, by_chance, counts)
    # in a first-order autoregression, nights k apart have the correlation r**k, and the
    # variance of a mean of many nights is multiplied by 1 + 2 (r + r**2 + ...)
    inflation = (1 + correlation) / (1 - correlation)
    # a split that is chosen as the best leaves only a share of the variance of a night
    share_left = by_chance.compute_variance_left(correlation)
    variance, freedom = _estimate_variances(fits.variance / share_left, counts)
    # 1 / (nights before) + 1 / (nights after): a change is a difference of two means
    scale = fits.compute_scale(counts)
    variance_of_change = variance * scale * inflation
    error = np.sqrt(variance_of_change)
    t = np.abs(fits.change) / error
    p_of_one_split = judge.compute_p(t, freedom)
    # the best of so many splits had as many chances to be this unlikely
    p = np.minimum(p_of_one_split * by_chance.splits, 1.0)
    return BestSplits(p, fits.cuts, inflation)


def _estimate_variances(variances: Floats, counts: Ints) -> tuple[Floats, Floats]:
    """Shrink the variance of a night of each part towards that of all parts; return the
    variances and their degrees of freedom. counts: how many nights each part has.
    """
    at_least_rounding = np.maximum(variances, judge.ROUNDING)
    # a mean on either side of the split is fitted
    freedom = counts.astype(np.float64) - 2
    return judge.moderate_variances(at_least_rounding, freedom)


class SplitFits(NamedTuple):
    """The best split of each row: its cut, the change there as a logarithm, and the
    variance and the correlation between nights of the residuals.
    """

    cuts: Ints
    change: Floats
    variance: Floats
    correlation: Floats

    @classmethod
    def make_empty(cls, count: int) -> "SplitFits":
        """Return the fits of `count` rows, to be filled in."""
        return cls(
            cuts=np.zeros(count, dtype=np.int64),
            change=np.zeros(count),
            variance=np.zeros(count),
            correlation=np.zeros(count),
        )

    def compute_scale(self, counts: Ints) -> Floats:
        """Return the factor from the variance of a night to that of each change, a
        difference of two means. counts: how many nights each row has.
        """
        nights_before = self.cuts
        nights_after = counts - self.cuts
        return np.asarray(1 / nights_before + 1 / nights_after)


def _fit_parts(
    log_ns: Floats, parts: Sequence[tuple[int, Ints]], counts: Ints
) -> SplitFits:
    """Fit the best split of each part. Parts of equal length are fitted at once, as the
    rows of one array.

    parts: a row of `log_ns` and some of its nights. counts: how many nights each part
    has.
    """
    fits = SplitFits.make_empty(len(parts))
    values_of_parts = [log_ns[row, nights] for row, nights in parts]
    for count in np.unique(counts):
        places = np.flatnonzero(counts == count)
        rows = [values_of_parts[place] for place in places]
        fits_of_rows = find_best_splits(np.array(rows))
        # each field of the fits is an array with a value per part
        for column, column_of_rows in zip(fits, fits_of_rows, strict=True):
            column[places] = column_of_rows
    return fits


def _estimate_correlations(
    fits: SplitFits, by_chance: Calibration, counts: Ints
) -> Floats:
    """Estimate the correlation of neighbouring nights of each part from that of the
    residuals. by_chance: what the best split of as many unchanged nights shows. counts:
    how many nights each part has.
    """
    # the share of a true correlation that the residuals show
    visible = by_chance.visible
    beyond_chance = fits.correlation - by_chance.correlation
    correlations = beyond_chance / visible
    # by chance, the correlation of n independent nights has the variance 1/n
    variances = 1 / (counts * visible**2)
    return _moderate_correlations(correlations, variances)


def _moderate_correlations(correlations: Floats, chance: Floats) -> Floats:
    """Shrink correlations towards their median, each by the share of its variance that
    is due to chance. chance: the variance of each by chance.
    """
    median = float(np.median(correlations))
    distances = correlations - median
    # the variance of true correlations: what chance does not explain
    unexplained = np.mean(distances**2 - chance)
    true_variance = max(float(unexplained), 0.0)
    shrunk_distances = distances * true_variance / (true_variance + chance)
    shrunk = median + shrunk_distances
    return np.clip(shrunk, 0.0, _MAX_CORRELATED)


def find_best_splits(rows: Floats) -> SplitFits:
    """Fit each row's split with the largest t. rows: a column per night, none NaN. A
    cut is the number of nights before a split.
    """
    nights = rows.shape[1]
    means = rows.mean(axis=1, keepdims=True)
    centred = rows - means
    last_cut = nights - _MIN_NIGHTS_A_SIDE
    cuts = np.arange(_MIN_NIGHTS_A_SIDE, last_cut + 1)
    # the running sum at place `cut - 1` is of the first `cut` nights
    running_sums = np.cumsum(centred, axis=1)
    sums_before = running_sums[:, cuts - 1]  # rows x cuts
    squares_explained = _compute_squares_explained(sums_before, cuts, nights)
    # what a split explains of the sum of squares, it does not leave as residuals: the
    # split that explains most has the largest t
    best = squares_explained.argmax(axis=1)  # for each row, a place in `cuts`
    each_row = np.arange(len(rows))
    sum_before_best = sums_before[each_row, best]
    return _fit_splits(centred, cuts[best], sum_before_best)


def _compute_squares_explained(sums_before: Floats, cuts: Ints, count: int) -> Floats:
    """Return the part of the sum of squares of `count` values that a mean on either
    side of each cut explains.

    sums_before: of the values before each cut. All values sum to 0: the sum after a cut
    is minus that before it, so one sum is enough. The squares of the two means, each
    times its number of values, are sum² / cut + sum² / (count - cut), which is
    sum² count / (cut (count - cut)).
    """
    nights_after = count - cuts
    return sums_before**2 * count / (cuts * nights_after)


def _fit_splits(values: Floats, cuts: Ints, sums_before: Floats) -> SplitFits:
    """Fit a mean on either side of each row's cut.

    values: a row per part, a column per night; the mean of each row was subtracted, so
    that it sums to 0. cuts: how many nights of each row are before its cut.
    sums_before: the sum of the values before each row's cut; the sum of the values
    after the cut is the same with the other sign.
    """
    nights = values.shape[1]
    nights_after = nights - cuts
    residuals = _subtract_split_means(values, cuts, sums_before)
    squares = (residuals**2).sum(axis=1)
    # never 0, since the correlation is divided by it
    squares = np.maximum(squares, judge.ROUNDING)
    # each night times the night before it
    products_of_neighbours = residuals[:, 1:] * residuals[:, :-1]
    # the mean after the cut, -sum / nights_after, minus the mean before it, sum / cut:
    # on their common divisor, -sum * (cut + nights_after), which is -sum * nights
    change = -sums_before * nights / (cuts * nights_after)
    return SplitFits(
        cuts=cuts,
        change=change,
        variance=squares / (nights - 2),
        correlation=products_of_neighbours.sum(axis=1) / squares,
    )


def _subtract_split_means(values: Floats, cuts: Ints, sums_before: Floats) -> Floats:
    """Return how far each value is from the mean of its side of its row's cut. The
    arguments are those of `_fit_splits`.
    """
    nights = values.shape[1]
    # all values of a row sum to 0: the sum after its cut is minus that before it
    sums_after = -sums_before
    mean_before = sums_before / cuts
    mean_after = sums_after / (nights - cuts)
    # a row per part, a column per night
    is_before = np.arange(nights) < cuts[:, None]
    fitted = np.where(is_before, mean_before[:, None], mean_after[:, None])
    return values - fitted


@dataclass(frozen=True, slots=True)
class _ProvedCuts:
    """The proved cuts of a row. nights: those measured. values: of these nights.
    first_nights: the first night after each cut. inflation: as of BestSplits.
    """

    row: int
    nights: Ints
    values: Floats
    first_nights: Sequence[int]
    q: float
    inflation: float

    def describe(self, *, rows_tested: int) -> list[Change]:
        """Return a Change per cut, measured between the cuts before and after it. A
        change that fits a step has a date. Neighbouring changes without a date that go
        the same way become one gradual change.

        rows_tested: how many rows were tested. The more rows, the better must a step
        fit, compared with a gradual change, to have a date.
        """
        changes = list[Change]()
        # how many cuts all rows have, if each has as many as this one
        cuts_of_row = len(self.first_nights)
        tests = rows_tested * cuts_of_row
        for first, cut, last in self._list_neighbours():
            change = self._measure(first, cut, last)  # not dated so far
            is_step = _is_step(self.values, cut, self.inflation, tests)
            change = change._replace(dated=is_step)
            if changes and _are_one_gradual_change(changes[-1], change):
                change_before = changes.pop()
                change = _join_gradual(change_before, change)
            changes.append(change)
        return changes

    def _list_neighbours(self) -> list[tuple[int, int, int]]:
        """List each cut between the cuts before and after it, or the ends, as places in
        `values`. Cuts at 10 and 25 of 40 values give (0, 10, 25) and (10, 25, 40).
        """
        cuts = np.searchsorted(self.nights, self.first_nights).tolist()
        before_cuts = [0, *cuts][:-1]
        after_cuts = [*cuts, len(self.nights)][1:]
        return list(zip(before_cuts, cuts, after_cuts, strict=True))

    def _measure(self, begin: int, cut: int, end: int) -> Change:
        """Measure the change at a cut by the nights around it, from `begin` up to, but
        not including, `end`. The Change has no date yet.

        begin, cut, end: places in `self.nights`, the measured nights of the row. Of the
        Change, `night` is the first night after the cut, which may as well be any from
        `first` to `last`.
        """
        nights = self.nights[begin:end]
        values = self.values[begin:end]
        # `clean_series` clips the outliers of long rows, which makes the variance of
        # the values smaller
        variance_share = 1.0
        was_clipped = len(self.nights) >= _MIN_NIGHTS_TO_CLIP
        if was_clipped:
            variance_share = _VARIANCE_LEFT_BY_CLIPPING
        # from here on, cuts count from `begin`
        cut_inside = cut - begin
        estimate = _estimate_change(values, cut_inside, self.inflation, variance_share)
        return Change(
            row=self.row,
            night=int(nights[cut_inside]),
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
    """Report whether two neighbours go the same way and neither has a date."""
    is_dated = before.dated or after.dated
    return _go_same_way(before, after) and not is_dated


def _join_gradual(before: Change, after: Change) -> Change:
    """Join two neighbouring changes into one from the first night of `before` to the
    last of `after`. Their errors are independent: the squares of the half widths of
    their intervals add up.
    """
    moved = before.moved + after.moved
    width_before = before.high - before.low
    width_after = after.high - after.low
    half = float(np.hypot(width_before, width_after)) / 2
    return after._replace(
        begin=before.begin,
        moved=moved,
        low=moved - half,
        high=moved + half,
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
    values: Floats, cut: int, inflation: float, variance_share: float
) -> _Estimate:
    """Estimate the change of values at a cut, the number of values before it.

    inflation: the factor by which correlation between nights multiplies the variance of
    a mean. variance_share: the share of the variance that is left after outliers were
    clipped; 1: nothing was clipped.
    """
    before = values[:cut]
    after = values[cut:]
    moved = float(after.mean() - before.mean())
    freedom = max(len(values) - 2.0, 1.0)
    squares = _sum_squares_around_means(before, after)
    variance = squares / freedom
    # the variance of a mean of n nights is that of a night divided by n; those of the
    # two means add up to that of their difference
    scale = 1 / len(before) + 1 / len(after)
    variance_of_change = variance * scale * inflation / variance_share
    error = variance_of_change**0.5
    low, high, _ = judge.apply_student(
        np.array(moved), np.array(error), np.array(freedom)
    )
    first_cut, last_cut = _find_likely_cuts(values, cut, inflation)
    return _Estimate(
        moved=moved,
        low=float(low),
        high=float(high),
        first_cut=first_cut,
        last_cut=last_cut,
    )


def _find_likely_cuts(values: Floats, cut: int, inflation: float) -> tuple[int, int]:
    """Return the first and the last cut that are nearly as likely as `cut`, the ends of
    a 95 % interval of its place.

    A cut is the number of values before it. inflation: the factor by which correlation
    between nights multiplies the variance of a mean.
    """
    likelihoods = _measure_likelihoods(values, inflation)
    own_likelihood = likelihoods[cut - 1]  # the first likelihood is that of cut 1
    limit = own_likelihood - _LIKELIHOOD_DROP
    likely_places = np.flatnonzero(likelihoods >= limit)
    likely_cuts = likely_places + 1
    return int(likely_cuts[0]), int(likely_cuts[-1])


def _sum_squares_around_means(before: Floats, after: Floats) -> float:
    """Return the sum of squares around the mean of either side, at least that of
    rounding.
    """
    squares = _sum_squares(before) + _sum_squares(after)
    return max(squares, judge.ROUNDING)


def _sum_squares(values: Floats) -> float:
    """Return the sum of squares around the mean."""
    distances = values - values.mean()
    return float((distances**2).sum())


def _measure_likelihoods(values: Floats, inflation: float) -> Floats:
    """Return the log likelihood of each cut, up to a constant that all cuts share, if
    noise is normal around a mean on either side. A cut is the number of values before
    it: the cuts are 1 to the number of values less 1.

    The log likelihood of n normal values around fitted means is -n/2 log(sum of
    squares). Correlated nights count less: n is divided by `inflation`.
    """
    count = len(values)
    cuts = np.arange(1, count)
    distances = values - values.mean()
    running_sums = np.cumsum(distances)
    sums_before = running_sums[:-1]  # of each cut
    squares_explained = _compute_squares_explained(sums_before, cuts, count)
    all_squares = (distances**2).sum()
    squares_left = all_squares - squares_explained
    squares_left = np.maximum(squares_left, judge.ROUNDING)
    likelihoods = -count / 2 / inflation * np.log(squares_left)
    return np.asarray(likelihoods)


def _is_step(values: Floats, cut: int, inflation: float, tests: int) -> bool:
    """Report whether a step fits the nights around a cut better than a smooth curve, by
    the ratio of their likelihoods.

    cut: how many of the values are before the step. inflation: the factor by which
    correlation between nights multiplies the variance of a mean. tests: how many
    changes are tested; the more changes, the larger the ratio must be.
    """
    around = max(_NIGHTS_AROUND, len(values) // 4)
    first = max(cut - around, 0)
    before = values[first:cut]
    after = values[cut : cut + around]
    squares_of_step = _sum_squares_around_means(before, after)
    window = np.concatenate([before, after])
    squares_of_curve = _sum_squares_around_curve(window)
    # correlated nights say as much as fewer independent nights
    independent_nights = len(window) / inflation
    # with normal noise, the log likelihood of n nights is -n/2 log(sum of squares): the
    # logarithm of the ratio is n/2 log(squares around the curve / around the step)
    log_ratio_of_squares = np.log(squares_of_curve / squares_of_step)
    log_likelihood_ratio = independent_nights / 2 * log_ratio_of_squares
    least_odds = _MIN_ODDS_PER_TEST * tests
    return bool(log_likelihood_ratio >= np.log(least_odds))


def _sum_squares_around_curve(values: Floats) -> float:
    """Return the sum of squares around the cubic that fits best, at least that of
    rounding.
    """
    times = np.linspace(-1, 1, len(values))
    curve = np.polynomial.Polynomial.fit(times, values, deg=3)
    fitted = curve(times)
    residuals = values - fitted
    squares = float((residuals**2).sum())
    return max(squares, judge.ROUNDING)


def drop_changes_of_parts(changes: Sequence[Change], pool: Pooled) -> list[Change]:
    """Drop changes that are not a row's own; return the others in order of night and
    row.
    - A change of a mean is dropped if fewer than 75 % of the members of the mean, the
      series that it averages, share the change.
    - A change is dropped if it is part of a wider change, which stays: if a mean over
      the series of its row and further series changed the same way at the same time.
    """
    member_counts = pool.members.sum(axis=1)
    widest_first = sorted(changes, key=lambda change: -member_counts[change.row])
    own_changes = list[Change]()
    for change in widest_first:
        if _is_explained(change, own_changes, pool):
            continue
        if _is_shared_by_members(change, pool):
            own_changes.append(change)
    return sorted(own_changes, key=lambda change: (change.night, change.row))


def _is_explained(
    change: Change, wider_changes: Sequence[Change], pool: Pooled
) -> bool:
    """Report whether one of the wider changes explains this one."""
    for wider in wider_changes:
        if _has_all_series(wider, change, pool) and _are_alike(wider, change):
            return True
    return False


def _has_all_series(wider: Change, change: Change, pool: Pooled) -> bool:
    """Report whether the row of the wider change is a mean over all series that the row
    of the other change is of.
    """
    members = pool.members[change.row]
    members_of_wider = pool.members[wider.row]
    return bool(members_of_wider[members].all())


def _is_shared_by_members(change: Change, pool: Pooled) -> bool:
    """Report whether at least 75 % of the series that a row is the mean of moved the
    same way as the row, by more than half as much.
    """
    are_members = pool.members[change.row]
    # the row is a single series, which is its own only member
    if are_members.sum() == 1:
        return True
    # the first rows of a pool are the series, in order
    rows_of_members = np.flatnonzero(are_members)
    series = pool.log_ns[rows_of_members]
    moved = _measure_moves(series, change)
    moved_same_way = moved * np.sign(change.moved)
    is_moved_too = moved_same_way > abs(change.moved) / 2
    share_of_members = is_moved_too.mean()
    return bool(share_of_members >= _MIN_SHARE_OF_MEMBERS)


def _measure_moves(series: Floats, change: Change) -> Floats:
    """Return by how much the mean of each series moved at a change, of the nights that
    were compared for it. series: a row per series, a column per night.
    """
    # `night` is the first night after the change, `end` the last night compared
    before = series[:, change.begin : change.night]
    after = series[:, change.night : change.end + 1]
    mean_before = judge.compute_nanmean(before, axis=1)
    mean_after = judge.compute_nanmean(after, axis=1)
    return mean_after - mean_before


def _are_alike(one: Change, other: Change) -> bool:
    """Report whether two changes have one sign and are at most two nights apart."""
    begin, end = _find_time(one)
    other_begin, other_end = _find_time(other)
    # neither is positive if they overlap; else it is the positive one
    nights_apart = max(begin - other_end, other_begin - end)
    return _go_same_way(one, other) and nights_apart <= _MAX_NIGHTS_APART


def _go_same_way(one: Change, other: Change) -> bool:
    """Report whether both changes make numbers larger, or both smaller."""
    return (one.moved > 0) == (other.moved > 0)


def _find_time(change: Change) -> tuple[int, int]:
    """Return the first and the last night of a change: of a step, the interval of its
    date; of a gradual change, all nights compared.
    """
    if change.dated:
        return change.first, change.last
    return change.begin, change.end

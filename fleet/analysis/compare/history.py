"""Find the nights on which the numbers of stored runs changed, and the facts that
changed with them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints, number_groups
from fleet.analysis.compare import judge
from fleet.analysis.compare.sides import RunNumbers, read_selected_runs
from fleet.analysis.compare.verdicts import CLASS, THRESHOLD
from fleet.analysis.reduce.environment import describe_table_facts_by_name
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.run_levels import add_run_levels, label_levels_of_hosts
from fleet.hostnames import join_names
from fleet.late import special
from fleet.model import Descriptions
from fleet.store.runs import Root
from fleet.text import format_count

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
    medians = pd.Series(series).rolling(_WINDOW, center=True).median()
    usual = medians.bfill().ffill().to_numpy()
    apart = series - usual
    deviation = _MAD * float(np.median(np.abs(apart)))
    scale = max(deviation, judge.ROUNDING**0.5)
    cleaned.add_odd(row, nights, apart, np.abs(apart) > _FAR * scale)
    clipped: Floats = usual + np.clip(apart, -_NEAR * scale, _NEAR * scale)
    return clipped


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
        at_zero = self.series - means[self.labels]
        are_odd = is_rare[self.labels]
        last = order[-1]
        if len(order) > 1 and stays[last] == 1 and not is_rare[last]:
            before = order[-2]
            others = len(set(order)) - 2  # levels besides the last two stays'
            rare_stays = is_rare[order[:-1]].sum()
            if not may_switch and rare_stays >= others > 0:  # odd nights, then a step
                apart = self.series - means[before]
                cleaned.add_odd(self.row, self.nights, apart, are_odd)
                return np.where(are_odd, at_zero + means[before], self.series)
            night = int(self.nights[begins[-1]])
            moved = float(means[last] - means[before])
            cleaned.elsewhere.append((self.row, night, moved))
        usual = means[counts.argmax()]
        cleaned.add_odd(self.row, self.nights, self.series - usual, are_odd)
        return np.asarray(at_zero + usual)

    def _average_levels(self, count: int) -> Floats:
        levels = range(count)
        return np.array([self.series[self.labels == level].mean() for level in levels])


def append_means(logs: Floats, hosts: Ints, relations: Ints) -> Pooled:
    """Append the means of each relation, each host and all. hosts, relations: each
    row's number, from 0.
    """
    groups = dict[bytes, Bools]()
    for keys in (relations, hosts, np.zeros_like(hosts)):
        for key in np.unique(keys):
            group = keys == key
            if group.sum() > 1:
                groups[group.tobytes()] = group
    singles = np.eye(len(logs), dtype=bool)
    members = np.array([*singles, *groups.values()])
    is_measured = ~np.isnan(logs)
    medians = judge.compute_nanmedian(logs, axis=1)
    apart = np.where(is_measured, logs - medians[:, None], 0.0)
    counts = members.astype(float) @ is_measured
    means = members.astype(float) @ apart / np.where(counts > 0, counts, np.nan)
    return Pooled(np.vstack([logs, means[len(logs) :]]), members)


def find_changes(logs: Floats) -> list[Change]:
    """Find the changes of rows of eight nights or more, by row and night, at a false
    discovery rate of 5 %.

    Each row is tested at its best split: the one with the largest t and three nights or
    more on either side. Variances and correlations between nights are shrunk towards
    those of all rows. Long rows are also tested in stretches of 30 nights. Rows with q
    < 0.05 are split, and their parts again at the same limit of p.
    """
    long_rows = []
    for row, values in enumerate(logs):
        nights = np.flatnonzero(~np.isnan(values))
        if len(nights) >= MIN_NIGHTS:
            long_rows.append(_Part(row, nights))
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
            found = _FoundCuts(
                row=row,
                nights=nights,
                values=logs[row, nights],
                cuts=sorted(cuts_by_row[row]),
                q=float(q[place]),
                wider=float(splits.wider[place]),
            )
            changes += found.describe(rows=len(long_rows))
    return changes


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
    p = np.where(counts > 0, np.minimum(2 * splits.p, 1.0), splits.p)
    splits = splits._replace(p=p)
    for turn in range(counts.max(initial=0)):
        places = [place for place, own in enumerate(begins) if len(own) > turn]
        first = np.array([begins[place][turn] for place in places])
        stretches = []
        for place, begin in zip(places, first, strict=True):
            row, nights = parts[place]
            stretches.append(_Part(row, nights[begin : begin + _STRETCH]))
        found = measure_parts(logs, stretches)
        p = np.minimum(2 * counts[places] * found.p, 1.0)
        is_better = p < splits.p[places]
        better = np.array(places)[is_better]
        splits.p[better] = p[is_better]
        splits.cuts[better] = (first + found.cuts)[is_better]
        splits.wider[better] = found.wider[is_better]
    return splits


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
    cuts = np.zeros(len(parts), dtype=np.int64)
    moved = np.zeros(len(parts))
    left = np.zeros(len(parts))
    correlated = np.zeros(len(parts))
    for count in np.unique(counts):
        alike = np.flatnonzero(counts == count)
        rows = np.array(
            [logs[row, nights] for row, nights in parts if len(nights) == count]
        )
        cuts[alike], moved[alike], left[alike], correlated[alike] = find_best_splits(
            rows
        )
    at = calibration.interpolate(counts)
    wanted = (correlated - at.correlated) / at.seen
    usual = _moderate_correlations(wanted, 1 / (counts * at.seen**2))
    share_left = at.left * (1 - 2 * np.minimum(usual, 0.5) * (1 - at.less))
    variance, freedom = judge.moderate_variances(
        np.maximum(left / share_left, judge.ROUNDING), counts - 2.0
    )
    wider = (1 + usual) / (1 - usual)
    error = np.sqrt(variance * (1 / cuts + 1 / (counts - cuts)) * wider)
    p = 2 * special.stdtr(freedom, -np.abs(moved) / error) * at.splits
    return BestSplits(np.minimum(p, 1.0), cuts, wider)


def _moderate_correlations(correlations: Floats, chance: Floats) -> Floats:
    """Shrink correlations towards their median. chance: the variance of each by
    chance.
    """
    middle = float(np.median(correlations))
    apart = correlations - middle
    between = max(float(np.mean(apart**2 - chance)), 0.0)
    shrunk = middle + apart * between / (between + chance)
    return np.clip(shrunk, 0.0, _MAX_CORRELATED)


def find_best_splits(rows: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    """Return each row's cut with the largest t, the change, and the residuals' variance
    and correlation.
    """
    count = rows.shape[1]
    values = rows - rows.mean(axis=1, keepdims=True)
    cuts = np.arange(_SIDE, count - _SIDE + 1)
    sums = np.cumsum(values, axis=1)[:, cuts - 1]
    gain = sums**2 * count / (cuts * (count - cuts))
    best = gain.argmax(axis=1)
    best_cuts = cuts[best]
    total = sums[np.arange(len(rows)), best]  # of the nights before the cut
    moved = -total * count / (best_cuts * (count - best_cuts))
    before = best_cuts[:, None]
    mean_before = total[:, None] / before
    mean_after = -total[:, None] / (count - before)
    means = np.where(np.arange(count) < before, mean_before, mean_after)
    residuals = values - means
    squares = np.maximum((residuals**2).sum(axis=1), judge.ROUNDING)
    correlated = (residuals[:, 1:] * residuals[:, :-1]).sum(axis=1) / squares
    return best_cuts, moved, squares / (count - 2), correlated


@dataclass(frozen=True, slots=True)
class _FoundCuts:
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
    count = len(values)
    before = values[:cut]
    after = values[cut:]
    moved = float(after.mean() - before.mean())
    squares = max(_sum_squares(before) + _sum_squares(after), judge.ROUNDING)
    freedom = max(count - 2.0, 1.0)
    per_night = squares / freedom
    error = (per_night * (1 / cut + 1 / (count - cut)) * wider / variance_share) ** 0.5
    low, high, _ = judge.apply_student(
        np.array(moved), np.array(error), np.array(freedom)
    )
    likely = _measure_likelihoods(values, wider)
    close = 1 + np.flatnonzero(likely >= likely[cut - 1] - _LIKELY)
    return _Estimate(moved, float(low), float(high), int(close[0]), int(close[-1]))


def _sum_squares(values: Floats) -> float:
    """Return the sum of squares around the mean."""
    return float(((values - values.mean()) ** 2).sum())


def _measure_likelihoods(values: Floats, wider: float) -> Floats:
    """Return the log likelihood of each cut, from 1 on, up to a constant: noise is
    normal around a mean on either side.
    """
    count = len(values)
    cuts = np.arange(1, count)
    apart = values - values.mean()
    between = np.cumsum(apart)[:-1] ** 2 * count / (cuts * (count - cuts))
    left = (apart**2).sum() - between
    likely: Floats = -count / 2 / wider * np.log(np.maximum(left, judge.ROUNDING))
    return likely


def _is_step(values: Floats, cut: int, wider: float, many: int) -> bool:
    """Report whether a step fits better than a smooth curve around the cut. many: the
    number of tests.
    """
    around = max(_AROUND, len(values) // 4)
    before = values[max(cut - around, 0) : cut]
    after = values[cut : cut + around]
    of_step = np.concatenate([before - before.mean(), after - after.mean()])
    window = np.concatenate([before, after])
    turns = np.linspace(-1, 1, len(window))
    curve = np.polynomial.Polynomial.fit(turns, window, 3)
    of_curve = window - curve(turns)
    squares_of_step = max(float(of_step @ of_step), judge.ROUNDING)
    squares_of_curve = max(float(of_curve @ of_curve), judge.ROUNDING)
    likelier = len(window) / 2 / wider * np.log(squares_of_curve / squares_of_step)
    return bool(likelier >= np.log(_DATES * many))


_ROW = ["host", *CLASS]
_CHANGE_COLUMNS = [
    *("hosts", *CLASS),
    *("before", "after", "first", "last", "begin", "end"),
    *("ratio", "low", "high", "q", "dated", "changed", "else"),
]
Step = tuple[str, str, str]  # a fact, and its values before and after
Facts = Mapping[str, Mapping[date, set[Step]]]  # by host and night
Nights = tuple[date, ...]
_MOST = 0.75  # of the members must move by half as much as their mean, or more
_APART = 2  # nights, at most, between a change and the wider one that it is part of


@dataclass(frozen=True, slots=True)
class History:
    """The changes found in the runs of some hosts.

    nights: those with a run. changes: a row per change, oldest first, with `hosts` (a
    tuple), `benchmark`, `variant`, `relation` (all three empty if several changed),
    `before`, `after` (the nights on either side), `first`, `last` (the 95 % interval of
    `after`), `begin`, `end` (the nights compared), `ratio` with its 95 % interval
    `low`, `high`, `q`, `dated` (true for a step), `changed` (beyond the threshold) and
    `else` (facts that changed that night). odd: a row per night that is far from those
    around it, with host, relation, `night` and `ratio`. elsewhere: a row per host and
    relation at another level since `night`.
    logs: logarithms of ns, a row per host and relation, a column per night. facts: by
    host and night, the facts that differ from the host's previous night; empty if no
    change was found.
    """

    hosts: tuple[str, ...]
    relations: int
    runs: int
    nights: Nights
    has_verdict: bool
    threshold: float
    changes: pd.DataFrame
    odd: pd.DataFrame
    elsewhere: pd.DataFrame
    logs: pd.DataFrame
    facts: Facts
    caveats: tuple[str, ...]
    descriptions: Descriptions

    @property
    def has_changed(self) -> bool:
        """Report whether a change is beyond the threshold."""
        return bool(self.changes["changed"].any())


def find_changes_over_time(
    root: Root,
    texts: Sequence[str],
    *,
    threshold: float | None = None,
    only: Only = ALL,
) -> History:
    """Find changes between nights, the UTC days on which sessions began. Raises
    UsageError without runs.
    """
    listing, runs, _ = read_selected_runs(root, texts, only.benchmark)
    first_of_session = runs.groupby("session_id")["started_utc"].transform("min")
    runs["night"] = first_of_session.dt.date
    numbers = RunNumbers.read(listing, runs, only)
    nights_of_runs = runs.set_index("run_id")["night"]
    table, levels = _tabulate_runs_by_night(numbers.rows, nights_of_runs)
    rows = table.index.to_frame(index=False)
    logs = table.to_numpy()
    virtual = runs.loc[runs["hypervisor"].notna(), "host_id"]
    clean = clean_series(logs, levels, rows["host"].isin(virtual).to_numpy())
    relations = number_groups(rows, CLASS)
    pool = append_means(clean.logs, number_groups(rows, ["host"]), relations)
    changes = drop_changes_of_parts(find_changes(pool.logs), pool)
    facts = dict[str, dict[date, set[Step]]]()
    if changes:
        facts = _find_fact_changes(runs)
    nights = tuple[Any, ...](table.columns)
    matters = threshold or THRESHOLD
    are_short = (~np.isnan(logs)).sum(axis=1) < MIN_NIGHTS
    return History(
        hosts=tuple(rows["host"].unique()),
        relations=len(np.unique(relations)),
        runs=len(runs),
        nights=nights,
        has_verdict=not are_short.all(),
        threshold=matters,
        changes=_tabulate_changes(changes, pool, rows, nights, facts, matters),
        odd=_tabulate_nights(clean.odd, rows, nights),
        elsewhere=_tabulate_nights(clean.elsewhere, rows, nights),
        logs=table,
        facts=facts,
        caveats=_list_caveats(list(rows.loc[are_short, "host"].unique())),
        descriptions=numbers.descriptions,
    )


def _list_caveats(short: Sequence[str]) -> tuple[str, ...]:
    """Warn of hosts without a verdict. short: those of few nights."""
    if not short:
        return ()
    words = (
        f"{join_names(short)}: relations with fewer than {MIN_NIGHTS} nights have no"
        " verdict"
    )
    if len(short) > 1:
        return (f"{words}; --siblings finds the odd one of equal machines.",)
    return (f"{words}.",)


def _tabulate_runs_by_night(
    numbers: pd.DataFrame, nights: "pd.Series[Any]"
) -> tuple[pd.DataFrame, Ints]:
    """Return logarithms of ns, a row per host and relation, a column per night; and
    their levels. numbers: rows of `numbers`. nights: by run ID.
    """
    rows = add_run_levels(numbers).rename(columns={"host_id": "host"})
    hosts = rows.groupby(_ROW, sort=True)
    days, night = np.unique(rows["run_id"].map(nights), return_inverse=True)
    logs, levels = _reduce_nights(
        np.asarray(hosts.ngroup(), dtype=np.int64),
        night,
        rows["run_level"].to_numpy(),
        np.log(rows["median_ns"].to_numpy(dtype=float)),
        (hosts.ngroups, len(days)),
    )
    index = hosts.size().index
    return pd.DataFrame(logs, index, pd.Index(days, name="night")), levels


class DatedStep(NamedTuple):
    """A proved change of a host that has a date. row: of its numbers, None for several.
    night: the first after it. ratio: the number after it to that before.
    """

    row: int | None
    night: date
    ratio: float


def find_steps(
    logs: Floats, choices: Ints, nights: Sequence[date], *, switches: bool
) -> list[DatedStep]:
    """Find the proved changes of one host that have a date, oldest first, as
    `find_changes_over_time` does.

    logs: a row per number, a column per run. choices: the benchmark and variant of each
    row, as a number from 0. nights: of each run. switches: whether the host may switch
    levels.
    """
    if len({*nights}) < MIN_NIGHTS:
        return []
    days, night = np.unique(
        np.array(nights, dtype="datetime64[D]"), return_inverse=True
    )
    levels_of_runs = label_levels_of_hosts(logs, choices)
    place, run = np.nonzero(levels_of_runs >= 0)
    by_night, levels = _reduce_nights(
        place,
        night[run],
        levels_of_runs[place, run],
        logs[place, run],
        (len(logs), len(days)),
    )
    measured = np.flatnonzero(~np.isnan(by_night).all(axis=1))
    clean = clean_series(
        by_night[measured], levels[measured], np.full(len(measured), switches)
    )
    relations = np.arange(len(measured))
    pool = append_means(clean.logs, np.zeros_like(relations), relations)
    steps = list[DatedStep]()
    for change in drop_changes_of_parts(find_changes(pool.logs), pool):
        if change.dated:
            row = None
            if change.row < len(measured):
                row = int(measured[change.row])
            ratio = float(np.exp(change.moved))
            steps.append(DatedStep(row, days[change.night].item(), ratio))
    return steps


def _reduce_nights(
    row: Ints, night: Ints, level: Ints, logs: Floats, shape: tuple[int, int]
) -> tuple[Floats, Ints]:
    """Return each row's number of each night, and its level (NaN and -1: not measured):
    the mean of the night's runs at the level of most of them, of several the lowest.

    row, night, level, logs: of each run's numbers. shape: how many rows and nights.
    """
    counts = np.zeros((*shape, int(level.max(initial=0)) + 1))
    sums = np.zeros_like(counts)
    np.add.at(counts, (row, night, level), 1)
    np.add.at(sums, (row, night, level), logs)
    main = counts.argmax(axis=2)
    runs = counts.max(axis=2)
    total = np.take_along_axis(sums, main[:, :, None], axis=2)[:, :, 0]
    means = total / np.where(runs > 0, runs, np.nan)
    return means, np.where(runs > 0, main, -1)


def drop_changes_of_parts(found: Sequence[Change], pool: Pooled) -> list[Change]:
    """Drop changes of means that under 75 % of their members share, and parts of wider
    changes.
    """
    remaining = list[Change]()
    widest_first = sorted(found, key=lambda change: -pool.members[change.row].sum())
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


def _tabulate_changes(
    changes: list[Change],
    pool: Pooled,
    rows: pd.DataFrame,
    nights: Nights,
    facts: Facts,
    threshold: float,
) -> pd.DataFrame:
    listed = []
    for change in changes:
        own = rows[pool.members[change.row]]
        numbers = own[CLASS].drop_duplicates()
        number = numbers.iloc[0] if len(numbers) == 1 else ("", "", "")
        hosts = tuple(own["host"].unique())
        is_measured = ~np.isnan(pool.logs[change.row])
        night_before = np.flatnonzero(is_measured[: change.night])[-1]
        ratio, low, high = np.exp([change.moved, change.low, change.high]).tolist()
        facts_beside = list[str]()
        if change.dated:
            facts_beside += _explain_night(hosts, nights[change.night], facts)
        listed.append(
            {
                "hosts": hosts,
                **dict(zip(CLASS, number, strict=True)),
                "before": nights[night_before],
                "after": nights[change.night],
                "first": nights[change.first],
                "last": nights[change.last],
                "begin": nights[change.begin],
                "end": nights[change.end],
                "ratio": ratio,
                "low": low,
                "high": high,
                "q": change.q,
                "dated": change.dated,
                "changed": abs(change.moved) > np.log1p(threshold),
                "else": tuple(facts_beside),
            }
        )
    return pd.DataFrame(listed, columns=_CHANGE_COLUMNS)


def _find_fact_changes(runs: pd.DataFrame) -> dict[str, dict[date, set[Step]]]:
    """Return, by host and night, the facts that differ from the host's previous night
    with a run.
    """
    steps = dict[str, dict[date, set[Step]]]()
    for host, of_host in runs.groupby("host_id"):
        last = of_host.groupby("night").tail(1)
        by_night = {night: set[Step]() for night in last["night"][1:]}
        for fact, values in describe_table_facts_by_name(last).items():
            for night, (before, after) in zip(by_night, pairwise(values), strict=True):
                if before != after:
                    by_night[night].add((fact, before, after))
        steps[str(host)] = by_night
    return steps


def _explain_night(hosts: Sequence[str], night: date, steps: Facts) -> Iterator[str]:
    """Yield each fact that changed that night, on how many of `hosts`, and on how many
    others on any.
    """
    counts = Counter(step for host in hosts for step in steps[host].get(night, ()))
    for step, count in counts.most_common():
        fact, before, after = step
        words = f"{count} of {format_count(len(hosts), 'host')}"
        if others := _count_others_with(step, hosts, steps):
            words += f"; {others} others without this change"
        yield f"{fact} {before} → {after} ({words})"


def _count_others_with(step: Step, hosts: Sequence[str], steps: Facts) -> int:
    """Count the other hosts on which a fact changed in this way on any night."""
    others = steps.keys() - {*hosts}
    return sum(any(step in of for of in steps[host].values()) for host in others)


def _tabulate_nights(
    distances: Sequence[tuple[int, int, float]], rows: pd.DataFrame, nights: Nights
) -> pd.DataFrame:
    listed = [
        (*rows.iloc[row], nights[index], float(np.exp(apart)))
        for row, index, apart in distances
    ]
    return pd.DataFrame(listed, columns=[*_ROW, "night", "ratio"])

"""Finds a pair's levels, their intervals, a drift and an asymmetry in the medians of its bursts.

The burst is the unit of replication: samples of one burst resemble each other (docs/statistics.md). All
functions take rows of bursts, a row per pair, in order of time, so that a machine's pairs are judged at once.
"""

from dataclasses import dataclass

import numpy as np

from fleet.analysis.reduce.bursts import equal_rows
from fleet.analysis.reduce.interval import effective_count, likeness, t_factor
from fleet.analysis.reduce.split import MOST_CUTS, STRAY, USUAL, levels_of_bursts, of_most, split
from fleet.analysis.tables import Bools, Floats, Ints

LEVELS_MOST = USUAL.most  # of a pair
STRAYS_OF = 10  # at most one burst of so many is a stray
DRIFT_Z = 2.5758  # two-sided p = 0.01
DRIFT_CHANGE = 0.02
ASYMMETRY = 0.10
DIRECTION_BURSTS = 3  # in each direction, at least
_AVERAGES = 4 << 20  # of two bursts each, made at once
_DRIFT_POINTS = 50  # more bursts than this are judged by the medians of as many blocks


@dataclass(frozen=True, slots=True)
class BurstLevel:
    """One of several levels of a pair.

    state: of the machine, 0 the fastest. median; mean and half, half the width of its 95 % t interval, NaN
    for a single burst, both without its strays; share of the bursts; dwell: how many bursts in a row are in
    it, on average.
    """

    state: int
    median: float
    mean: float
    half: float
    share: float
    dwell: float


@dataclass(frozen=True, slots=True)
class BurstLevels:
    """Of each pair, in the unit of its bursts; every array as long as there are pairs.

    median, mean, half: of the level most bursts of the main state are in; median as by `middles`; half is
    half the width of the 95 % t interval around the mean, NaN for a single burst; mean and half count no
    strays. other, other_share: median of the level with most of the other bursts and the share of bursts in
    it, NaN where there is one level.
    parts: by pair with several, all of them, the fastest first. drift: relative change over the run, NaN
    where none is proved. lean: how far the mean over bursts lies, by that drift, from that over time.
    """

    median: Floats
    mean: Floats
    half: Floats
    other: Floats
    other_share: Floats
    drift: Floats
    lean: Floats
    parts: dict[int, tuple[BurstLevel, ...]]


def burst_levels(
    bursts: Floats, times: Floats, states: Ints | None = None, main: Ints | None = None
) -> BurstLevels:
    """Analyse pairs by `bursts`, a row per pair of as many burst medians, taken at `times` (any unit).

    states: of the machine at each burst, and `main`, that which each pair's number is of, as
    `reduce.split.states` finds them; else by these bursts alone.
    """
    none = np.full(len(bursts), np.nan)
    moved, mean = drift(bursts, times), bursts.mean(axis=1)
    since = times - times[:, :1]
    late = since.mean(axis=1) / np.maximum(since[:, -1], np.finfo(float).tiny) - 0.5
    lean = np.abs(np.nan_to_num(moved) * mean * late)
    found = BurstLevels(middles(bursts), mean, halves(bursts), none, none.copy(), moved, lean, parts={})
    if states is None or main is None:
        states = levels_of_bursts(bursts)
        main = of_most(states)
    labels = _levels_within(bursts, states)
    several = labels.any(axis=1)
    for pair in map(int, np.flatnonzero(several)):
        _part(found, pair, bursts[pair], labels[pair], int(main[pair]))
    if bursts.shape[1] >= STRAYS_OF:
        whole = np.flatnonzero(~several)
        for pair in whole[split(bursts[whole], STRAY).any(axis=1)].tolist():
            found.mean[pair], found.half[pair] = _interval(bursts[pair])
    return found


def _levels_within(bursts: Floats, states: Ints) -> Ints:
    """The level of each burst: those of a state are numbered on from LEVELS_MOST times the state."""
    labels, several = states * LEVELS_MOST, states.any(axis=1)
    labels[~several] = levels_of_bursts(bursts[~several])
    for row in np.flatnonzero(several):
        levels = len(np.unique(states[row]))
        for state in np.unique(states[row]):
            at = np.flatnonzero(states[row] == state)
            own = levels_of_bursts(bursts[row, at][None, :])[0]
            if levels + own.max() <= LEVELS_MOST:
                labels[row, at] += own
                levels += int(own.max())
    return labels


def middles(rows: Floats) -> Floats:
    """The (lower) median of the averages of every two values of each row, each with itself too.

    Where values gather at two places, the median of them is at either by chance; this one lies between, and a
    few far values hardly move it (J. L. Hodges, E. L. Lehmann, Ann. Math. Stat. 34, 1963).
    """
    if (count := rows.shape[1]) > MOST_CUTS:
        places = (np.arange(0.5, MOST_CUTS) * count / MOST_CUTS).astype(np.int64)
        rows = np.sort(rows, axis=1)[:, places]
    one, other = np.triu_indices(rows.shape[1])
    middle, chunks = (len(one) - 1) // 2, len(rows) * len(one) // _AVERAGES + 1
    parts = [(part[:, one] + part[:, other]) / 2 for part in np.array_split(rows, chunks)]
    return np.concatenate([np.partition(part, middle, axis=1)[:, middle] for part in parts])


def halves(bursts: Floats) -> Floats:
    """Half the 95 % interval of each row's mean, as `reduce.interval` computes it; NaN for a single burst."""
    count = bursts.shape[1]
    if count < 2:
        return np.full(len(bursts), np.nan)
    away = bursts - bursts.mean(axis=1, keepdims=True)
    squares = (away**2).sum(axis=1)
    effective = effective_count(count, likeness(away))
    found: Floats = t_factor(count, effective) * np.sqrt(squares / (count - 1) / effective)
    return found


def _part(found: BurstLevels, pair: int, row: Floats, labels: Ints, state: int) -> None:
    """Take the level with most bursts of the main state, of equals the faster, and the next as its other."""
    parts = [_level(row, labels, label) for label in np.unique(labels).tolist()]
    own = [level for level in parts if level.state == state]
    main = max(own or parts, key=lambda level: level.share)
    found.median[pair], found.mean[pair], found.half[pair] = main.median, main.mean, main.half
    if len(parts) > 1:
        found.parts[pair] = tuple(sorted(parts, key=lambda level: level.median))
        others = (level for level in found.parts[pair] if level is not main)
        other = max(others, key=lambda level: level.share)
        found.other[pair], found.other_share[pair] = other.median, other.share
        found.drift[pair], found.lean[pair] = np.nan, 0  # switching between levels is not a drift


def _level(row: Floats, labels: Ints, label: int) -> BurstLevel:
    of_level, begins = labels == label, np.diff(labels, prepend=-1) != 0
    values = row[of_level]
    median, dwell = float(middles(values[None, :])[0]), float(of_level.sum() / (of_level & begins).sum())
    return BurstLevel(label // LEVELS_MOST, median, *_interval(values), float(of_level.mean()), dwell)


def _interval(values: Floats) -> tuple[float, float]:
    """Mean and half the interval of the bursts of a level, in order of time, without its strays.

    Strays are a few bursts far from all others, too seldom to be a level: disturbed ones, usually.
    """
    left = len(values) // STRAYS_OF
    while left:
        labels = split(values[None, :], STRAY)[0]
        high = int(labels.sum())
        few = min(high, len(values) - high)
        if not high or few > left:
            break
        values = values[labels == (len(values) - high < high)]
        left -= few
    return float(values.mean()), float(halves(values[None, :])[0])


def drift(bursts: Floats, times: Floats) -> Floats:
    """Test for a trend (Mann-Kendall); where p < 0.01, its size by Sen's slope if above 2 %, else NaN.

    H. B. Mann, Econometrica 13 (1945); P. K. Sen, J. Am. Stat. Assoc. 63 (1968).
    """
    values, moments = _blocks(bursts), _blocks(times)
    count = values.shape[1]
    signs = np.zeros(len(values))
    for lag in range(1, count):
        signs += np.sign(values[:, lag:] - values[:, :-lag]).sum(axis=1)
    deviation = max((count * (count - 1) * (2 * count + 5) / 18) ** 0.5, 1.0)
    significant = np.flatnonzero((np.abs(signs) - 1) / deviation > DRIFT_Z)
    change = np.full(len(values), np.nan)
    for pair in significant:
        moved = _slope(values[pair], moments[pair]) * (moments[pair, -1] - moments[pair, 0])
        share = moved / np.median(values[pair])
        if abs(share) > DRIFT_CHANGE:
            change[pair] = share
    return change


def asymmetry(middles: Floats, turned: Bools, pair: Ints, pairs: int) -> Floats:
    """How much longer a pair takes when its higher CPU pings, as a share; NaN where no difference is proved.

    middles: each burst's median. turned: whether its higher CPU pinged. pair: the pair's number, below
    `pairs`. Proved: one direction takes over 10 % longer and the 95 % intervals do not overlap.
    """
    direction = 2 * pair + turned
    counts = np.bincount(direction, minlength=2 * pairs)
    median, low, high = np.full((3, 2 * pairs), np.nan)
    for which, rows in equal_rows(middles[np.argsort(direction, kind="stable")], counts):
        if rows.shape[1] >= DIRECTION_BURSTS:
            mean, half = rows.mean(axis=1), halves(rows)
            median[which], low[which], high[which] = np.median(rows, axis=1), mean - half, mean + half
    apart = (low[1::2] > high[::2]) | (high[1::2] < low[::2])
    ratio = median[1::2] / median[::2]
    return np.where(apart & (np.abs(np.log(ratio)) > np.log1p(ASYMMETRY)), ratio - 1, np.nan)


def _blocks(rows: Floats) -> Floats:
    if rows.shape[1] <= _DRIFT_POINTS:
        return rows
    return np.stack([np.median(part, axis=1) for part in np.array_split(rows, _DRIFT_POINTS, axis=1)], axis=1)


def _slope(values: Floats, moments: Floats) -> float:
    """Sen's: the median of the slopes between any two points."""
    one, other = np.triu_indices(len(values), 1)
    apart = moments[other] - moments[one]
    later = apart > 0
    return float(np.median((values[other] - values[one])[later] / apart[later])) if later.any() else 0.0

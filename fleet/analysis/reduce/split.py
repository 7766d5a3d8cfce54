"""Splits values into as many levels as they prove; a level is a group of values close to each other.

Of all partitions of the sorted logarithms into k parts, dynamic programming finds the one that leaves the
least scatter within the parts. The largest k counts for which every two neighbouring parts are apart: by a
ratio, and by some times the scatter within the two. A single broad level, even a flat one, is not apart that
far: the halves of a uniform distribution are 3.5 times their scatter apart, those of a normal one 2.7.

Each burst has a line of its own, and in which slice of a cache it lies moves the burst by some per cent; and
two threads that take turns may fall into one rhythm or another, a quarter apart. So parts less than 35 %
apart are levels only if bursts alternate between them less than half as often as if drawn.

The agent does the same (agent/base/split.c) to know how well a pair's level is known.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import reduce

import numpy as np

from fleet.analysis.tables import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Rule:
    """What parts must be to be levels.

    ratio: of the means of neighbours, at least. share, fewest: of the values, and values, in each, at least.
    most: levels. apart: the distance of neighbours as a multiple of the scatter within them, at least (within
    all parts, where a part may be a single value); few is added to it for one value, a tenth of it for ten.
    """

    ratio: float = 1.05
    share: float = 0.05
    fewest: int = 3
    most: int = 6
    apart: float = 5.0
    few: float = 10.0


USUAL = Rule()
SELDOM = Rule(ratio=1.25, share=0.1, fewest=1, most=2, few=0)  # of two modes too seldom for the usual rule
STRAY = Rule(ratio=1.25, share=0.0, fewest=1, most=2, few=0)
MODE_BURSTS = 5  # fewer bursts cannot show two modes
_ALTERNATING = 0.5  # of the changes between two parts that a drawn order has
_NEAR = 1.35  # times: parts further apart may alternate
BETWEEN_RUNS = Rule(ratio=1.08, share=0.02, fewest=1, most=12)  # runs at one level differ by less
MOST_CUTS = 200  # longer rows are parted at so many places at most
_SCATTERED = 3  # values more than parts, where a part may be a single value
_FLOOR = 1e-4  # scatter of a level, at least: values are rounded
_CELLS = 2 << 20  # numbers of a table that is worked on at once


def split(rows: Floats, rule: Rule = USUAL) -> Ints:
    """The level of each value among its row's, 0 the smallest; 0 where one is proved. rows: positive."""
    count = rows.shape[1]
    found = np.zeros(rows.shape, dtype=np.int64)
    least = max(rule.fewest, int(np.ceil(rule.share * count)))
    if count < 2 * least:
        return found
    logs = np.log(np.maximum(rows, np.finfo(float).tiny))
    wide = np.flatnonzero(np.ptp(logs, axis=1) >= np.log(rule.ratio))
    chunk = max(_CELLS // min(count, MOST_CUTS) ** 2, 1)
    for first in range(0, len(wide), chunk):
        which = wide[first : first + chunk]
        order = np.argsort(logs[which], axis=1, kind="stable")
        ordered = np.take_along_axis(logs[which], order, axis=1)
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, _parts(ordered, least, rule), axis=1)
        found[which] = ranks
    return found


def levels_of_bursts(rows: Floats) -> Ints:
    """The same by the usual rule, or where that proves one level, by that of two modes; rows by time."""
    labels = split(rows)
    if rows.shape[1] >= MODE_BURSTS:
        single = ~labels.any(axis=1)
        labels[single] = split(rows[single], SELDOM)
    for row in np.flatnonzero(labels.any(axis=1)):
        _join_alternating(rows[row], labels[row])
    return labels


def _join_alternating(values: Floats, labels: Ints) -> None:
    """Make parts that are near each other one level where values alternate between them as if drawn."""
    for level in range(int(labels.max()), 0, -1):
        lower, upper = (np.sort(values[labels == part]) for part in (level - 1, level))
        row = labels[(labels == level) | (labels == level - 1)]
        drawn = 2 * len(lower) * len(upper) / len(row) ** 2 * (len(row) - 1)
        near = upper[len(upper) // 2] < _NEAR * lower[len(lower) // 2]
        if near and np.count_nonzero(np.diff(row)) > _ALTERNATING * drawn:
            labels[labels >= level] -= 1


def _parts(ordered: Floats, least: int, rule: Rule) -> Ints:
    """The level of each value of rows in ascending order."""
    rows, count = ordered.shape
    ordered = ordered - ordered.mean(axis=1, keepdims=True)  # for the squares' sake
    sums, squares = (np.pad(np.cumsum(ordered**power, axis=1), ((0, 0), (1, 0))) for power in (1, 2))
    cuts = np.unique(np.linspace(0, count, min(count, MOST_CUTS) + 1).astype(np.int64))
    most = count // least if least > 1 else max(count // 2, count - _SCATTERED)
    backs = _partitions(sums[:, cuts], squares[:, cuts], cuts, min(rule.most, most), least)
    every, open_rows = np.arange(rows), np.ones(rows, dtype=bool)
    found = np.zeros((rows, count), dtype=np.int64)
    for parts in range(len(backs) + 1, 1, -1):
        at, edges = np.full(rows, len(cuts) - 1), [np.full(rows, count)]
        for back in reversed(backs[: parts - 1]):
            at = back[every, at]
            edges.insert(0, cuts[at])
        ends = np.stack([np.zeros(rows, dtype=np.int64), *edges], axis=1)
        proved = open_rows & _are_apart(sums, squares, ends, least, rule)
        levels = (np.arange(count) >= ends[proved, 1:-1, None]).sum(axis=1)
        found[proved] = levels
        open_rows &= ~proved
    return found


def _partitions(sums: Floats, squares: Floats, cuts: Ints, most: int, least: int) -> list[Ints]:
    """By the number of parts, from 2 on: of each row and cut, where the last part before it begins."""
    counts = cuts[None, :] - cuts[:, None]
    between = (sums[:, None, :] - sums[:, :, None]) ** 2 / np.maximum(counts, 1)
    cost = np.where(counts >= least, squares[:, None, :] - squares[:, :, None] - between, np.inf)
    best, backs = cost[:, 0, :], []
    for _ in range(1, most):
        through = best[:, :, None] + cost
        backs.append(through.argmin(axis=1))
        best = np.take_along_axis(through, backs[-1][:, None, :], axis=1)[:, 0, :]
    return backs


def _are_apart(sums: Floats, squares: Floats, ends: Ints, least: int, rule: Rule) -> Bools:
    """Whether each row is in levels: parts from one end to the next, all apart from their neighbours."""
    counts = np.diff(ends, axis=1)
    means = np.diff(np.take_along_axis(sums, ends, axis=1), axis=1) / np.maximum(counts, 1)
    within = np.diff(np.take_along_axis(squares, ends, axis=1), axis=1) - counts * means**2
    known = sums.shape[1] - 1
    if least == 1:  # a part of one value shows no scatter, so that of all parts counts
        known = max(known - counts.shape[1], 1)
        variance = within.sum(axis=1, keepdims=True) / known
    else:
        freedom = np.maximum(counts[:, 1:] + counts[:, :-1] - 2, 1)
        variance = (within[:, 1:] + within[:, :-1]) / freedom
    scatter = np.sqrt(np.maximum(variance, _FLOOR**2))
    apart = np.maximum(np.log(rule.ratio), (rule.apart + rule.few / known) * scatter)
    found: Bools = (np.diff(means, axis=1) >= apart).all(axis=1) & (counts >= least).all(axis=1)
    return found


def run_levels(runs: Floats) -> Ints:
    """The level of each value among those of its row, 0 the smallest; runs: positive values.

    `split` cuts rows of many values between every few of them only, so these go to the nearest level.
    """
    labels = split(runs, BETWEEN_RUNS)
    if runs.shape[1] > MOST_CUTS:
        for row in np.flatnonzero(labels.any(axis=1)):
            logs = np.log(runs[row])
            centres = np.array([np.median(logs[labels[row] == level]) for level in np.unique(labels[row])])
            labels[row] = np.searchsorted((centres[1:] + centres[:-1]) / 2, logs)
    return labels


def runs_by_level(runs: Floats) -> list[Floats]:
    """The values of each level of one machine's runs: that of most runs first; if equal, the faster one."""
    if runs.max() < BETWEEN_RUNS.ratio * runs.min():
        return [runs]
    labels = run_levels(runs[None, :])[0]
    found = [runs[labels == level] for level in np.unique(labels)]
    return sorted(found, key=len, reverse=True)


def geometric_mean(values: Floats) -> float:
    """The geometric mean of positive values."""
    return float(np.exp(np.log(values).mean()))


FULL = 0.9  # of the visits of the benchmark with most, at least: others do not decide on states
_QUIET = 1e-3  # scatter from one visit to the next, at least


def states_of_rounds(logs: Floats) -> Ints:
    """The state of each round, 0 the fastest; logs: of burst medians, pairs x benchmarks x rounds."""
    if logs.shape[1] == 1:
        return levels_of_bursts(np.exp(logs[:, 0]))
    steps = np.abs(np.diff(logs, axis=2)) if logs.shape[2] > 1 else np.zeros((*logs.shape[:2], 1))
    weights = 1 / np.maximum(np.median(steps, axis=2, keepdims=True), _QUIET) ** 2
    away = logs - np.median(logs, axis=2, keepdims=True)
    return levels_of_bursts(np.exp((weights * away).sum(axis=1) / weights.sum(axis=1)))


def states(middles: Floats, visits: Ints, counts: Ints, unit: Ints) -> tuple[Ints, Ints]:
    """The state of each burst, and of each row the state that its number is of.

    middles: burst medians, row after row; counts: of bursts in each row. visits: of each burst the visit that
    it was part of. unit: of each row; rows that are split together share one. A visit that lacks a burst
    keeps the state before. The number is of the state in which the benchmark with fewest bursts there has
    most; of equals the faster.
    """
    found, main = np.zeros(len(middles), dtype=np.int64), np.zeros(len(counts), dtype=np.int64)
    first, logs = np.cumsum(counts) - counts, np.log(np.maximum(middles, np.finfo(float).tiny))
    order, alike = np.argsort(unit, kind="stable"), defaultdict(list)
    for rows in np.split(order, np.flatnonzero(np.diff(unit[order])) + 1):
        alike[tuple(visits[first[row] :][: counts[row]].tobytes() for row in rows)].append(rows)
    for units in map(np.array, alike.values() if len(unit) else ()):
        own = [visits[first[row] :][: counts[row]] for row in units[0]]
        places = [np.unique(each, return_index=True)[1] for each in own]
        fullest = max(map(len, places))
        full = [at for at, each in enumerate(places) if len(each) >= FULL * fullest]
        common = reduce(np.intersect1d, [np.unique(own[at]) for at in full])
        if not len(common):
            full = [next(at for at in full if len(places[at]) == fullest)]
            common = np.unique(own[full[0]])
        decide = [
            logs[first[units[:, at], None] + places[at][np.isin(np.unique(own[at]), common)]] for at in full
        ]
        labels = states_of_rounds(np.stack(decide, axis=1))
        seen = [labels[:, np.maximum(np.searchsorted(common, each, "right") - 1, 0)] for each in own]
        for rows, each in zip(units.T, seen, strict=True):
            found[first[rows, None] + np.arange(each.shape[1])] = each
        main[units] = of_most(*seen)[:, None]
    return found, main


def of_most(*labels: Ints) -> Ints:
    """The state of each pair in which the benchmark with fewest rounds has most; of equals the faster one."""
    known = np.arange(max(each.max(initial=0) for each in labels) + 1)
    counts = [(each[:, :, None] == known).sum(axis=1) for each in labels]
    most: Ints = np.min(counts, axis=0).argmax(axis=1)
    return most

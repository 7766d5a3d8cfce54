"""Finds the states of a machine: its level at a visit to a pair, which all that was measured there share.

docs/flags.md says how. What one benchmark alone shows is a level within a state (`burst_levels`). The agent
does the same (agent/base/levels.c).
"""

from collections import defaultdict
from functools import reduce

import numpy as np

from fleet.analysis.arrays import Floats, Ints
from fleet.analysis.reduce.split import levels_of_bursts

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

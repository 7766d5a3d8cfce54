"""Find the sets of CPUs whose slowest pair is the fastest, for `taskset`."""

from dataclasses import dataclass

import numpy as np

from fleet.analysis.base.tables import Floats


@dataclass(frozen=True, slots=True)
class CpuSet:
    """Some CPUs, by their places in a matrix, and their slowest pair."""

    places: tuple[int, ...]
    slowest_ns: float
    ping: int
    pong: int


def find_closest_sets(matrix: Floats, count: int) -> list[CpuSet]:
    """Find sets of `count` CPUs that share none, the one with the fastest slowest pair
    first. matrix: ns of each pair, NaN where nothing was measured.

    From each CPU a set grows by the CPU that leaves its slowest pair the fastest and,
    of several, is nearest to all others. That finds groups of caches and sockets; it
    does not try all sets.
    """
    known = np.where(np.isfinite(matrix), matrix, np.inf)
    np.fill_diagonal(known, 0)
    grown = {_grow_set(known, seed, count) for seed in range(len(known))}
    sets = [describe_set(known, places) for places in grown if places]
    ordered = sorted(sets, key=lambda item: (item.slowest_ns, item.places))
    used = set[int]()
    chosen = []
    for item in ordered:
        if used.isdisjoint(item.places):
            chosen.append(item)
            used.update(item.places)
    return chosen


def _grow_set(matrix: Floats, seed: int, count: int) -> tuple[int, ...]:
    """Grow a set from one CPU; return the places of its CPUs in order, none if too few
    pairs were measured.
    """
    chosen = [seed]
    slowest = matrix[seed].copy()
    total = matrix[seed].copy()
    while len(chosen) < count:
        worst_of_set = slowest[chosen].max()
        cost = np.maximum(slowest, worst_of_set)
        cost[chosen] = np.inf
        if not np.isfinite(cost.min()):
            return ()
        best = np.flatnonzero(cost == cost.min())
        nearest = int(best[np.argmin(total[best])])
        chosen.append(nearest)
        slowest = np.maximum(slowest, matrix[nearest])
        total += matrix[nearest]
    return tuple(sorted(chosen))


def describe_set(matrix: Floats, places: tuple[int, ...]) -> CpuSet:
    """Return a set with its slowest pair, infinitely slow if one was not measured."""
    own = np.triu(matrix[np.ix_(places, places)], 1)
    own = np.where(np.isfinite(own), own, np.inf)
    ping, pong = np.unravel_index(int(own.argmax()), own.shape)
    return CpuSet(places, float(own[ping, pong]), places[ping], places[pong])

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
    ns = np.where(np.isfinite(matrix), matrix, np.inf)
    np.fill_diagonal(ns, 0)
    place_sets = {_grow_set(ns, seed, count) for seed in range(len(ns))}
    sets = [describe_set(ns, places) for places in place_sets if places]
    fastest_first = sorted(sets, key=lambda item: (item.slowest_ns, item.places))
    used_places = set[int]()
    disjoint_sets = []
    for item in fastest_first:
        if used_places.isdisjoint(item.places):
            disjoint_sets.append(item)
            used_places.update(item.places)
    return disjoint_sets


def _grow_set(matrix: Floats, seed: int, count: int) -> tuple[int, ...]:
    """Grow a set from one CPU; return the places of its CPUs in order, none if too few
    pairs were measured.
    """
    chosen = [seed]
    # of each CPU: its slowest pair with the set, and the sum of its pairs with it
    slowest = matrix[seed].copy()
    total = matrix[seed].copy()
    while len(chosen) < count:
        slowest_within = slowest[chosen].max()
        slowest_if_added = np.maximum(slowest, slowest_within)
        slowest_if_added[chosen] = np.inf
        least = slowest_if_added.min()
        if not np.isfinite(least):
            return ()
        candidates = np.flatnonzero(slowest_if_added == least)
        nearest = int(candidates[np.argmin(total[candidates])])
        chosen.append(nearest)
        slowest = np.maximum(slowest, matrix[nearest])
        total += matrix[nearest]
    return tuple(sorted(chosen))


def describe_set(matrix: Floats, places: tuple[int, ...]) -> CpuSet:
    """Return a set with its slowest pair, infinitely slow if one was not measured."""
    of_set = matrix[np.ix_(places, places)]
    pairs = np.triu(of_set, 1)
    pairs = np.where(np.isfinite(pairs), pairs, np.inf)
    row, column = np.unravel_index(int(pairs.argmax()), pairs.shape)
    slowest_ns = float(pairs[row, column])
    return CpuSet(places, slowest_ns, ping=places[row], pong=places[column])

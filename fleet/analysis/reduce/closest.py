"""Find the sets of CPUs whose slowest pair is the fastest, for `taskset`."""

from dataclasses import dataclass

import numpy as np

from fleet.analysis.base.tables import Floats


@dataclass(frozen=True, slots=True)
class CpuSet:
    """Some CPUs and the CPUs of their slowest pair, `ping` and `pong`. Each CPU is
    given by its place in a matrix.
    """

    places: tuple[int, ...]
    slowest_ns: float
    ping: int
    pong: int


def find_closest_sets(matrix: Floats, count: int) -> list[CpuSet]:
    """Find sets of `count` CPUs, no CPU in two of them. A set is as fast as its slowest
    pair; the fastest set is first. matrix: ns of each pair, NaN if not measured.

    A set is grown from each CPU, one CPU at a time: each step adds the CPU that keeps
    the set's slowest pair fastest. This finds the CPUs that share a cache or a socket,
    but it does not try all sets.
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
    """Grow a set of `count` CPUs from one CPU, `seed`; return the places of its CPUs in
    the matrix, ascending, or () if too few pairs were measured.

    A set is as fast as its slowest pair, and each step adds the CPU that makes the
    fastest set. Of several such CPUs, it adds the CPU with the least sum of times to
    the CPUs of the set; of equal sums, the first CPU. matrix: ns of each pair, infinite
    if not measured, 0 on the diagonal.
    """
    chosen = [seed]
    # for each CPU: its slowest pair with the set, and the sum of its pairs with it
    slowest_to_set = matrix[seed].copy()
    sum_to_set = matrix[seed].copy()
    while len(chosen) < count:
        slowest_within = slowest_to_set[chosen].max()
        slowest_if_added = np.maximum(slowest_to_set, slowest_within)
        slowest_if_added[chosen] = np.inf  # each CPU is added once
        if not np.isfinite(slowest_if_added).any():
            return ()
        added = _find_least(slowest_if_added, sum_to_set)
        chosen.append(added)
        slowest_to_set = np.maximum(slowest_to_set, matrix[added])
        sum_to_set += matrix[added]
    return tuple(sorted(chosen))


def _find_least(values: Floats, second_values: Floats) -> int:
    """Return the place of the least value; of several, the one with the least second
    value; of several such places, the first.
    """
    candidates = np.flatnonzero(values == values.min())
    best_candidate = second_values[candidates].argmin()
    return int(candidates[best_candidate])


def describe_set(matrix: Floats, places: tuple[int, ...]) -> CpuSet:
    """Return the set of the CPUs at these places, with its slowest pair. A pair that
    was not measured counts as infinitely slow.
    """
    ns = matrix[np.ix_(places, places)]
    ns = np.where(np.isfinite(ns), ns, np.inf)
    # each pair once, above the diagonal; the other cells become 0
    pairs = np.triu(ns, 1)
    slowest_cell = int(pairs.argmax())
    row, column = np.unravel_index(slowest_cell, pairs.shape)
    slowest_ns = float(pairs[row, column])
    return CpuSet(places, slowest_ns, ping=places[row], pong=places[column])

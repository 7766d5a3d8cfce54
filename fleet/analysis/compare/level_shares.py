"""How likely the runs of two sides are at different levels by chance.

A machine that switches between levels may be at one in every run of A and at another in every run of B.
Nothing within the runs tells that from a change; only their number does, as each run is at a level by chance.
"""

from math import comb

import numpy as np
import numpy.typing as npt
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.reduce.between_runs import BETWEEN_RUNS, levels_between

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def counts_at(labels: Ints, of_b: npt.NDArray[np.bool_]) -> Ints:
    """A row per level: how many runs of A and of B are at it; labels: the level of each run, from 0."""
    return np.column_stack([np.bincount(labels[of_b == side], minlength=labels.max() + 1) for side in (0, 1)])


def equal_shares(counts: Ints) -> float:
    """P of both sides being at the levels equally often: Fisher's, of each level against all others."""
    p = []
    for level in counts:
        rest = counts.sum(axis=0) - level
        p.append(float(stats.fisher_exact([level, rest])[1]))
    return min(1.0, min(p) * (len(p) - 1))


def p_of_levels(a: Floats, b: Floats) -> Floats:
    """P of each row's sides being at their levels in such different shares by chance; 0: one level.

    a, b: logarithms, a row per pair or relation, a column per run. Sides of which all runs of one are above
    those of the other by as much as levels are apart count as two levels.
    """
    count_a, count_b = a.shape[1], b.shape[1]
    apart = np.maximum(a.min(axis=1) - b.max(axis=1), b.min(axis=1) - a.max(axis=1))
    found = np.where(apart > np.log(BETWEEN_RUNS.ratio), 2 / comb(count_a + count_b, count_a), 0.0)
    of_b = np.repeat([False, True], [count_a, count_b])
    labels = levels_between(np.exp(np.concatenate([a, b], axis=1)))
    for row in np.flatnonzero(labels.any(axis=1) & (found == 0)):
        found[row] = equal_shares(counts_at(labels[row], of_b))
    return found

"""How far a pair may change beside its relation by chance, over all pairs of a map together."""

import numpy as np
import numpy.typing as npt
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.compare.inference import LEVEL, prior

_LEAST_FREEDOM = 4  # of the scatter between runs: three runs a side
_LEAST_PAIRS = 8  # of a relation, to estimate how its pairs scatter
_TAILS = 6  # degrees of freedom of the t distribution that stands for how pairs scatter
_SMALLEST = 1e-6  # variance of a logarithm: a tenth of a per cent

Floats = npt.NDArray[np.float64]


def largest_by_chance(a: Floats, b: Floats, spreads: Floats, relations: npt.NDArray[np.object_]) -> Floats:
    """The change of each pair relative to its relation that is no evidence: beyond it, one map in twenty.

    a, b: logarithms, a row per pair, a column per run. spreads: the half intervals within each run, relative.
    relations: of the pairs. With three runs a side the scatter between runs counts, shrunk towards that of
    all pairs of a relation; with fewer, the intervals within the runs, or how the changes of a relation's
    pairs scatter, whichever is larger.
    """
    found = np.full(len(a), np.nan)
    level = LEVEL / max(len(a), 1)  # every pair is looked at
    freedom = a.shape[1] + b.shape[1] - 2
    for relation in dict.fromkeys(relations):
        rows = relations == relation
        sides = [side[rows] - np.median(side[rows], axis=0) for side in (a, b)]
        scale = 1 / a.shape[1] + 1 / b.shape[1]
        if freedom >= _LEAST_FREEDOM:
            found[rows] = _between_runs(sides, freedom, scale, level)
        else:
            found[rows] = _within_runs(sides, spreads[rows], level)
    return found


def _between_runs(sides: list[Floats], freedom: int, scale: float, level: float) -> Floats:
    squares = sum(((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in sides)
    variances = np.maximum(np.asarray(squares) / freedom, _SMALLEST)
    known, common = prior(variances, freedom)
    share = 1.0 if np.isinf(known) else known / (known + freedom)
    shrunk = share * common + (1 - share) * variances
    joined = min(known + freedom, freedom * len(variances))
    half: Floats = stats.t.isf(level / 2, joined) * np.sqrt(shrunk * scale)
    return half


def _within_runs(sides: list[Floats], spreads: Floats, level: float) -> Floats:
    counts = [side.shape[1] for side in sides]
    weights = np.repeat([1 / count**2 for count in counts], counts)
    wider = stats.norm.isf(level / 2) / stats.norm.isf(LEVEL / 2)
    half: Floats = wider * np.sqrt((spreads**2) @ weights)
    moved = sides[1].mean(axis=1) - sides[0].mean(axis=1)
    if len(moved) >= _LEAST_PAIRS:
        middle = float(np.median(np.abs(moved - np.median(moved))))
        half = np.fmax(half, stats.t.isf(level / 2, _TAILS) / stats.t.isf(0.25, _TAILS) * middle)
    return half

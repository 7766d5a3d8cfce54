"""How far a pair may change beside its relation by chance, over all pairs of a map together."""

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.arrays import Floats
from fleet.analysis.compare.inference import LEVEL, moderated

_LEAST_FREEDOM = 4  # of the scatter between runs: three runs a side
_LEAST_PAIRS = 8  # of a relation, to estimate how its pairs scatter
_TAILS = 6  # degrees of freedom of the t distribution that stands for how pairs scatter


def largest_by_chance(a: Floats, b: Floats, spreads: Floats, relations: npt.NDArray[np.object_]) -> Floats:
    """The change of each pair relative to its relation that is no evidence: beyond it, one map in twenty.

    a, b: logarithms, a row per pair, a column per run. spreads: the half intervals within each run, relative.
    With three runs a side the scatter between runs counts, shrunk towards that of the relation; with fewer
    the intervals within runs, or how the changes of its pairs scatter, whichever is larger.
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
    residuals = np.concatenate([side - side.mean(axis=1, keepdims=True) for side in sides], axis=1)
    (variances,), (joined,) = moderated(residuals, np.full(len(residuals), float(freedom)), [])
    half: Floats = -special.stdtrit(joined, level / 2) * np.sqrt(variances * scale)
    return half


def _within_runs(sides: list[Floats], spreads: Floats, level: float) -> Floats:
    counts = [side.shape[1] for side in sides]
    weights = np.repeat([1 / count**2 for count in counts], counts)
    wider = special.ndtri(level / 2) / special.ndtri(LEVEL / 2)
    half: Floats = wider * np.sqrt((spreads**2) @ weights)
    moved = sides[1].mean(axis=1) - sides[0].mean(axis=1)
    if len(moved) >= _LEAST_PAIRS:
        middle = float(np.median(np.abs(moved - np.median(moved))))
        half = np.fmax(half, special.stdtrit(_TAILS, level / 2) / special.stdtrit(_TAILS, 0.25) * middle)
    return half

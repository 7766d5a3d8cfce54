"""The tests of a comparison, on logarithms: a change is a ratio, a value a run (docs/comparing.md)."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.analysis.reduce.split import BETWEEN_RUNS, run_levels
from fleet.analysis.tables import Bools, Floats, Ints

LEVEL = 0.05
POWER = 0.8
# The resolution of the clock bounds the precision of a number; a sample is at least 1,000 clock steps.
ROUNDING = (0.001**2) / 12
OWN_SHARE = 0.75  # of the sides' order that a trend must leave, or three over the degrees of freedom
_SOLVER_STEPS = 100
_WILD = 30.0  # times the median variance: rows beyond it count less in means
_LEVELS = 40  # of a distribution of variances
_ROWS = 1000  # more tell no more of it
_GRID = 12  # points of each distribution that is averaged over
_HALVINGS = 14
_KNOWN = 0.85  # 1: all that `error` leaves open of the scatter; less brings the share near POWER
_RARE = 0.001  # p of findings among many
_FREEDOMS = np.geomspace(0.5, 1e6, 200)
_RATIOS = special.stdtrit(_FREEDOMS, 1 - _RARE / 2) / special.stdtrit(_FREEDOMS, 1 - LEVEL / 2)
_SAME = 1e-7  # probabilities that differ by less are equal
_FAR = 20.0  # times the error and the quantile: more than any power needs
_LEAST_FREEDOM = 4  # of the scatter between runs: three runs a side
_LEAST_PAIRS = 8  # of a relation, to estimate how its pairs scatter
_TAILS = 6  # degrees of freedom of the t distribution that stands for how pairs scatter


class Fit(NamedTuple):
    """Changes from A to B by least squares on logarithms, a row each; a column per run.

    weights: of each run in the change. residuals: what is left of each run. freedom: of the residuals.
    """

    moved: Floats
    weights: Floats
    residuals: Floats
    freedom: float

    @property
    def error(self) -> Floats:
        """The standard error of each change, from its own residuals."""
        variances = (self.residuals**2).sum(axis=1) / max(self.freedom, 1)
        found: Floats = np.sqrt(np.maximum(variances, ROUNDING) * (self.weights**2).sum(axis=1))
        return found


def least_squares(logs: Floats, of_b: Bools, group: Ints | None = None, trends: Floats | None = None) -> Fit:
    """The changes from A to B, within groups of runs if there are some; without, those of Student's test.

    logs: a row per change, a column per run. group: of each run, from 0; one or more have runs of both sides.
    trends: rows of what may have added to the runs in proportion, as turns do in a steady drift. Each is one
    more effect, if the order of the sides tells it from the change and it leaves two degrees of freedom.
    """
    group = np.zeros(len(of_b), dtype=np.int64) if group is None else group
    values, side = centred(logs, group), centred(of_b[None, :].astype(float), group)[0]
    freedom, whole = len(of_b) - int(group.max()) - 2, float(side @ side)
    left = centred(np.empty((0, len(of_b))) if trends is None else trends, group)
    while len(left) and freedom >= LEAST_RUNS:
        trend, left = left[0] / (np.sqrt(left[0] @ left[0]) or np.inf), left[1:]
        apart = side - (side @ trend) * trend
        if trend.any() and apart @ apart >= min(OWN_SHARE, LEAST_RUNS / freedom) * whole:
            values, left = (each - np.outer(each @ trend, trend) for each in (values, left))
            side, freedom = apart, freedom - 1
    weights = side / (side @ side)
    moved = values @ weights
    residuals = values - np.outer(moved, side)
    return Fit(moved, np.broadcast_to(weights, residuals.shape), residuals, float(freedom))


def centred(values: Floats, group: Ints) -> Floats:
    """Each row less the means of its groups of columns; group: of each column, from 0."""
    member = (group == np.arange(group.max() + 1)[:, None]).astype(float)
    found: Floats = values - (values @ member.T / member.sum(axis=1)) @ member
    return found


def interval(moved: Floats, error: Floats, freedom: Floats | float, level: Floats | float = LEVEL) -> Floats:
    """The ends of the interval of each change, by t; level: how often it misses, 5 %."""
    half = special.stdtrit(freedom, 1 - level / 2) * error
    return np.array([moved - half, moved + half])


def beyond_p(moved: Floats, error: Floats, freedom: Floats, matters: Floats) -> Floats:
    """P of each change against one of `matters`; on logarithms. Below 0.05 where the interval is beyond."""
    found: Floats = np.minimum(2 * special.stdtr(freedom, (matters - np.abs(moved)) / error), 1.0)
    return found


def detectable(error: Floats, freedom: Floats, level: float, matters: Floats) -> Floats:
    """The change, as a logarithm, that 8 of 10 comparisons with such runs would call changed.

    That is: p below `level` and the change found above `matters`. Neither the true scatter nor the one that
    another comparison would find is known: given `error` they are chi-square with `freedom`, and the share
    is the mean over both. Of runs that scatter normally, 77 to 84 % are called changed.
    """
    chances = (np.arange(_GRID) + 0.5) / _GRID
    chi = np.sqrt(2 * special.gammaincinv(freedom[:, None] / 2, chances) / freedom[:, None])
    true = (error[:, None] / chi**_KNOWN)[:, :, None]
    beyond = -special.stdtrit(freedom, level / 2)
    least = np.maximum(beyond[:, None, None] * true * chi[:, None, :], matters[:, None, None])
    low, high = np.zeros(len(error)), matters + _FAR * (1 + beyond) * error
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = special.ndtr((middle[:, None, None] - least) / true).mean(axis=(1, 2)) >= POWER
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)


def moderated(residuals: Floats, freedom: Floats, groups: Sequence[Ints]) -> tuple[Floats, Floats]:
    """The variance between runs of each row, in parts, and the degrees of freedom of each part.

    residuals: a row per change, a column per run; NaN where a row lacks one. freedom: of each row. groups: of
    each row, from 0, from the widest to the narrowest. What all rows of a group have in common in a run has
    as many degrees of freedom as there are runs, however many rows there are. So the parts are the variance
    of the means of the widest groups, of what the narrower ones have beside it, and of what is each row's
    own. A variance is poorly known from few runs, so each is shrunk towards those of the same part by an
    empirical-Bayes prior. Rows that vary far more than most, as those that switch levels, count less in the
    means. What means vary by only because their members do is as poorly known as they are, and no part of
    what they have in common.
    """
    known, parts, freedoms = ~np.isnan(residuals), [], []
    left, runs = np.where(known, residuals, 0.0), known.sum(axis=1)
    around = None
    spread = np.maximum((left**2).sum(axis=1) / freedom, ROUNDING)
    weights = known * np.minimum(_WILD * np.median(spread) / spread, 1.0)[:, None]
    for group in (*groups, np.arange(len(left))):
        sums, counts = np.zeros((2, int(group.max()) + 1, left.shape[1]))
        np.add.at(sums, group, left * weights)
        np.add.at(counts, group, weights)
        means = sums / np.where(counts > 0, counts, 1)
        own = (counts > 0).sum(axis=1) * np.bincount(group, freedom) / np.bincount(group, runs)
        apart = np.ones(len(own), dtype=bool)
        if around is not None:  # a group that is all of the wider one has nothing beside it
            of = np.zeros(len(own), dtype=np.int64)
            of[group] = around
            apart = np.bincount(of)[of] > 1
        variances, joined = np.zeros(len(own)), np.ones(len(own))
        if apart.any():
            found = np.maximum((means**2).sum(axis=1)[apart] / own[apart], ROUNDING)
            variances[apart], known_of = shrunk(found, own[apart])
            joined[apart] = np.minimum(known_of, own[apart].sum())
        parts.append(variances[group])
        freedoms.append(joined[group])
        left, around = np.where(known, left - means[group], 0.0), group
    layers, all_parts = list(pairwise((*groups, np.arange(len(left))))), np.array(parts)
    by_chance = [np.zeros(len(left))]
    for at in reversed(range(len(layers))):
        by_chance.insert(0, _of_means(all_parts[at + 1], weights.max(axis=1), *layers[at], by_chance[0]))
    for at in range(len(layers)):
        moved = np.minimum(all_parts[at], by_chance[at])
        all_parts[at : at + 2] += np.array([-moved, moved])
    return all_parts, np.array(freedoms)


def _of_means(variances: Floats, weights: Floats, wide: Ints, narrow: Ints, alone: Floats) -> Floats:
    """The variance that wider groups' means have by the scatter of the narrower groups alone, by row.

    alone: that of the narrower groups' own means, which are those of a wider group of one.
    """
    members, first = np.unique(narrow, return_index=True)
    of, heavy = wide[first], np.bincount(narrow, weights)[members]
    squares, sums = np.bincount(of, heavy**2 * variances[first]), np.bincount(of, heavy)
    count = np.bincount(of)
    found: Floats = (squares / sums**2 * count / np.maximum(count - 1, 1))[wide]
    return np.where(count[wide] > 1, found, alone)


def added(parts: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """The sum of the parts of each variance, and its degrees of freedom (Satterthwaite)."""
    total: Floats = parts.sum(axis=0)
    return total, np.asarray(total**2 / (parts**2 / freedom).sum(axis=0))


def shrunk(variances: Floats, own: Floats) -> tuple[Floats, Floats]:
    """Variances, each of `own` degrees of freedom, shrunk towards the others, and their freedom then.

    How variances are spread, all of them tell, by maximum likelihood of any distribution on a grid (J. Kiefer
    and J. Wolfowitz, Ann. Math. Stat. 27 (1956)), so that a few large ones make the others no larger; with
    it each has a posterior (N. Ignatiadis and B. Sen, "Empirical partially Bayes multiple testing"), and the
    t distribution that has its quantiles of 5 and of 0.1 %. Fewer than three stay as they are.
    """
    if len(variances) < 3:
        return variances, own
    logs = np.log(variances)
    grid = np.linspace(logs.min(), logs.max(), _LEVELS)
    ratio = logs[:, None] - grid
    likely = own[:, None] / 2 * (ratio - np.exp(ratio))
    likely = np.exp(likely - likely.max(axis=1, keepdims=True))
    some = likely[np.linspace(0, len(logs) - 1, min(len(logs), _ROWS)).astype(int)]
    shares = np.full(_LEVELS, 1 / _LEVELS)
    for _ in range(_SOLVER_STEPS):
        each = some * shares
        shares = (each / each.sum(axis=1, keepdims=True)).sum(axis=0) + 1 / _LEVELS
        shares /= shares.sum()
    each = likely * shares
    each /= each.sum(axis=1, keepdims=True)
    usual, rare = (_quantiles(each, np.exp(grid / 2), p) for p in (LEVEL, _RARE))
    freedom = np.exp(np.interp(-rare / usual, -_RATIOS, np.log(_FREEDOMS)))
    return (usual / special.stdtrit(freedom, 1 - LEVEL / 2)) ** 2, freedom


def _quantiles(shares: Floats, scales: Floats, p: float) -> Floats:
    """What normal values, of each row's mixture of scales, exceed with this p on either side."""
    low, high = (np.full(len(shares), -special.ndtri(p / 2) * ends) for ends in (scales[0], scales[-1]))
    for _ in range(_HALVINGS):
        middle = np.sqrt(low * high)
        more = (shares * special.ndtr(-middle[:, None] / scales)).sum(axis=1) > p / 2
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray(np.sqrt(low * high))


def false_discovery(p: Floats) -> Floats:
    """Benjamini and Hochberg's q of each p: of findings with q < 0.05, at most one in twenty is false."""
    falling, found = np.argsort(p)[::-1], np.empty(len(p))
    found[falling] = np.minimum.accumulate(p[falling] * len(p) / np.arange(len(p), 0, -1))
    return found


def counts_at(labels: Ints, of_b: Bools) -> Ints:
    """A row per level: how many runs of A and of B are at it; labels: the level of each run, from 0."""
    return np.column_stack([np.bincount(labels[of_b == side], minlength=labels.max() + 1) for side in (0, 1)])


def are_apart(counts: Ints) -> bool:
    """Whether all runs of one side are at faster levels than all of the other; counts: as of `counts_at`."""
    a, b = (np.flatnonzero(side) for side in counts.T)
    return bool(a[-1] < b[0] or b[-1] < a[0])


def equal_shares(counts: Ints) -> float:
    """P of both sides being at the levels equally often: Fisher's, of each level against all others."""
    runs, of_a = int(counts.sum()), int(counts[:, 0].sum())
    p = [_dealt(int(level.sum()), runs, of_a)[1][level[0]] for level in counts]
    return float(min(1.0, min(p) * (len(p) - 1)))


@cache
def _dealt(at: int, runs: int, of_a: int) -> tuple[Floats, Floats]:
    """How likely each number of A's runs at a level is, from none on, and Fisher's p of it.

    at: of `runs`, how many are at the level; of_a: how many are of A.
    """
    ways, here = comb(runs, of_a), range(min(at, of_a) + 1)
    shares = np.array([comb(at, each) * comb(runs - at, of_a - each) / ways for each in here])
    return shares, np.where(shares <= shares[:, None] * (1 + _SAME), shares, 0.0).sum(axis=1)


def p_of_levels(logs: Floats, of_b: Bools) -> Floats:
    """P of each row's sides being at their levels in such different shares by chance; 0: one level.

    logs: a row per pair or relation, a column per run. Sides of which all runs of one are above those of the
    other by as much as levels are apart count as two levels. A machine that switches between levels may be
    at one in every run of A and at another in every run of B. Nothing in these runs tells that from a change;
    how often others switch within a side does (`error_rate`).
    """
    a, b = logs[:, ~of_b], logs[:, of_b]
    apart = np.maximum(a.min(axis=1) - b.max(axis=1), b.min(axis=1) - a.max(axis=1))
    found = np.where(apart > np.log(BETWEEN_RUNS.ratio), 2 / comb(logs.shape[1], a.shape[1]), 0.0)
    labels = run_levels(np.exp(logs))
    for row in np.flatnonzero(labels.any(axis=1) & (found == 0)):
        found[row] = equal_shares(counts_at(labels[row], of_b))
    return found


def chance_of_levels(counts: Ints, p: float) -> float:
    """How often runs dealt to the sides at random would have so small a `p_of_levels`.

    counts: a row per level, the fastest first: how many runs of A and of B are at it.
    """
    runs, of_a = int(counts.sum()), int(counts[:, 0].sum())
    found, levels, above = 0.0, counts.sum(axis=1), 1 / comb(runs, of_a)
    if len(levels) > 2 and 2 * above <= p * (1 + _SAME):  # all of one side above all of the other
        found = above * float(sum((levels.cumsum() == side).sum() for side in (of_a, runs - of_a)))
    for at in levels[: 1 if len(levels) == 2 else None]:
        shares, of_each = _dealt(int(at), runs, of_a)
        found += float(shares[of_each <= p / max(len(levels) - 1, 1) * (1 + _SAME)].sum())
    return found


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

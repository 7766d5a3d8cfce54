"""Judges changes from side A to side B by rules with names from a textbook (docs/comparing.md).

Pure: arrays of logarithms, a row per number that is judged, a column per run in order of time, NaN where a
run lacks it. `verdicts` builds the tables of a command from it; nights and siblings use its levels, variance
and q.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.tables import Bools, Floats, Ints

ALPHA = 0.05  # the share of errors
POWER = 0.8
LEVEL_GAP = np.log(1.08)  # between the values of two levels, at least,
LEVEL_SCATTERS = 6.0  # and as a multiple of the usual scatter
LEAST_AT_LEVEL = 2  # runs of each side, to be compared there
LEAST_PASSES = 4  # from which on runs are compared within passes
LEAST_HOSTS = 3  # that show what all hosts have in common
SESSION_SHARE = 0.1  # of the variance of a row, from which on what all rows have in common is taken out
ROUNDING = 0.001**2 / 12  # the least variance: a sample is at least 1,000 steps of the clock
_QUARTER_OF_NORMAL = 0.32  # standard deviations that hold a quarter of normal values
_TRIGAMMA_STEPS = 50


class LeastSquares(NamedTuple):
    """Changes of rows by least squares of block + side.

    change: a logarithm. scale: the variance of the change as a multiple of that of a run. variance, freedom:
    of the residuals. All NaN where block + side leave no degree of freedom.
    """

    change: Floats
    scale: Floats
    variance: Floats
    freedom: Floats


class SideLevels(NamedTuple):
    """The level that most runs of each side are at; columns are A and B.

    number: of the level, from 0. runs: at it. total: runs of the side.
    """

    number: Ints
    runs: Ints
    total: Ints


def assign_passes(is_b: Bools) -> Ints:
    """Return the pass of each run: it ends as soon as it has runs of both sides; the rest joins the last."""
    passes, sides, ended = [], set[bool](), 0
    for side in is_b.tolist():
        passes.append(ended)
        sides.add(side)
        if len(sides) == 2:
            ended += 1
            sides.clear()
    return np.minimum(np.array(passes, dtype=np.int64), max(ended - 1, 0))


def estimate_scatter(tables: Iterable[tuple[Floats, Sequence[Bools]]]) -> float:
    """Return the standard deviation of runs of a side, of the median row; 0 where no side has two runs.

    tables: rows x runs, and masks of the runs of each side. By the nearest quarter of the runs of a row, so
    that runs at other levels do not count.
    """
    nearest = [np.empty(0)]
    for rows, sides in tables:
        values = [rows[:, side] for side in sides]
        middles = [
            median_of_known(part, axis=1, lower=True)[:, None] for part in values
        ]  # a value of the row
        sizes = np.abs(
            np.concatenate([part - middle for part, middle in zip(values, middles, strict=True)], axis=1)
        )
        sizes[sizes < 1e-9] = np.nan  # the median itself
        counts = (~np.isnan(sizes)).sum(axis=1)
        ordered, counts = np.sort(sizes, axis=1)[counts > 0], counts[counts > 0]
        nearest.append(ordered[np.arange(len(ordered)), (counts - 1) // 4])
    every = np.concatenate(nearest)
    return float(np.median(every)) / _QUARTER_OF_NORMAL if len(every) else 0.0


def label_levels(rows: Floats, scatter: float) -> Ints:
    """Return the level of each value among those of its row, 0 the lowest; -1 where the value is missing.

    A gap of more than 8 %, or six times the usual scatter if that is more, begins another level.
    """
    order = np.argsort(rows, axis=1)  # NaN last
    gaps = np.diff(np.take_along_axis(rows, order, axis=1), axis=1) > max(LEVEL_GAP, LEVEL_SCATTERS * scatter)
    labels = np.zeros(rows.shape, dtype=np.int64)
    np.put_along_axis(labels, order[:, 1:], np.cumsum(gaps, axis=1), axis=1)
    return np.where(np.isnan(rows), -1, labels)


def estimate_session(rows: Floats, labels: Ints, is_b: Bools, scatter: float) -> Floats:
    """Return by how much all rows were off together in each run; zeros where that is not worth taking out.

    A row is off from the mean of its level, of three runs or more; the median row counts. It is taken out
    where it varies by a tenth of the variance of a row, and by more than a median of so many rows does by
    chance.
    """
    off = np.full(rows.shape, np.nan)
    for level in range(labels.max(initial=0) + 1):
        at_level = (labels == level) & ((labels == level).sum(axis=1) >= 3)[:, None]
        sums = np.where(at_level, rows, 0.0).sum(axis=1)
        off = np.where(at_level, rows - (sums / np.maximum(at_level.sum(axis=1), 1))[:, None], off)
    session = np.nan_to_num(median_of_known(off, axis=0))
    variance = np.mean([session[side].var(ddof=1) for side in (is_b, ~is_b) if side.sum() > 1] or [0.0])
    return session if variance >= max(SESSION_SHARE, np.pi / len(rows)) * scatter**2 > 0 else 0 * session


def fit_within_blocks(values: Floats, is_b: Bools, blocks: Ints) -> LeastSquares:
    """Fit block + side to rows without gaps; one block: Student's t. values: rows x runs; blocks: of runs."""
    side, left = is_b.astype(float), values.copy()
    for block in np.unique(blocks):
        columns = blocks == block
        left[:, columns] -= left[:, columns].mean(axis=1, keepdims=True)
        side[columns] -= side[columns].mean()
    known, freedom = float(side @ side), len(is_b) - len(np.unique(blocks)) - 1
    if known <= 1e-12 or freedom < 1:
        return LeastSquares(*np.full((4, len(values)), np.nan))
    change = left @ side / known
    variance = ((left - np.outer(change, side)) ** 2).sum(axis=1) / freedom
    of_rows = np.ones(len(values))
    return LeastSquares(change, of_rows / known, np.maximum(variance, ROUNDING), of_rows * freedom)


def moderate_variances(variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Shrink variances towards a common one; return them and the degrees of freedom that they have then.

    Empirical Bayes in closed form (G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004), as in limma). Fewer
    than three stay as they are.
    """
    if len(variances) < 3:
        return variances, freedom
    logs = np.log(variances) - special.digamma(freedom / 2) + np.log(freedom / 2)
    excess = logs.var(ddof=1) - special.polygamma(1, freedom / 2).mean()
    if excess <= 0:
        return np.full(len(logs), np.exp(logs.mean())), np.full(len(logs), freedom.sum())
    half = 0.5 + 1 / excess  # the inverse of the trigamma function, by Newton's method
    for _ in range(_TRIGAMMA_STEPS):
        trigamma = special.polygamma(1, half)
        half += trigamma * (1 - trigamma / excess) / special.polygamma(2, half)
    prior, centre = 2 * half, np.exp(logs.mean() + special.digamma(half) - np.log(half))
    joined = freedom + prior
    return (prior * centre + freedom * variances) / joined, np.minimum(joined, freedom.sum())


def control_false_discovery(p: Floats) -> Floats:
    """Return Benjamini and Hochberg's q of each p; NaN is not tested.

    Of the findings with q < 0.05, at most one in twenty is false.
    """
    q, tested = np.full(len(p), np.nan), ~np.isnan(p)
    falling = np.argsort(p[tested])[::-1]
    adjusted = np.empty(len(falling))
    adjusted[falling] = np.minimum.accumulate(
        p[tested][falling] * len(falling) / np.arange(len(falling), 0, -1)
    )
    q[tested] = np.minimum(adjusted, 1.0)
    return q


def apply_student(change: Floats, error: Floats, freedom: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the ends of the 95 % interval of each change, and the p of no change, by Student's t."""
    half = special.stdtrit(freedom, 1 - ALPHA / 2) * error
    return change - half, change + half, 2 * special.stdtr(freedom, -np.abs(change) / error)


def detectable_change(error: Floats, freedom: Floats, alpha: float, matters: float) -> Floats:
    """Return the change that 8 of 10 comparisons with such runs would call changed, as a logarithm.

    That is: p below `alpha`, and the change found beyond `matters`.
    """
    needed = np.maximum(special.stdtrit(freedom, 1 - alpha / 2) * error, matters)
    return np.asarray(needed + special.stdtrit(freedom, POWER) * error)


def judge_rows(
    rows: Floats, is_b: Bools, labels: Ints, blocks: Ints | None
) -> tuple[LeastSquares, Bools, SideLevels]:
    """Fit the change of each row at levels that both sides have twice, else from what most runs are at.

    blocks: of the runs; None: passes, if there are four or more. Also returned: whether the sides of a row
    were compared at different levels, and the level of most runs of each side.
    """
    passes = assign_passes(is_b)
    usual = (
        blocks if blocks is not None else passes if passes.max(initial=0) + 1 >= LEAST_PASSES else 0 * passes
    )
    fit = LeastSquares(*np.full((4, len(rows)), np.nan))
    apart, majority = (
        np.zeros(len(rows), dtype=bool),
        SideLevels(*np.zeros((3, len(rows), 2), dtype=np.int64)),
    )
    plain = (labels == 0).all(axis=1)  # at one level, in every run
    if min(is_b.sum(), (~is_b).sum()) >= LEAST_AT_LEVEL:
        for column, part in zip(fit, fit_within_blocks(rows[plain], is_b, usual), strict=True):
            column[plain] = part
    majority.runs[plain] = majority.total[plain] = [(~is_b).sum(), is_b.sum()]
    for row in np.flatnonzero(~plain):
        known = labels[row] >= 0
        parts = rows[row, known], is_b[known], labels[row, known], usual[known]
        for counts, of_sides in zip(majority, _majority_levels(parts[1], parts[2]), strict=True):
            counts[row] = of_sides
        one, apart[row] = _fit_at_levels(*parts, forced=blocks is not None)
        for column, part in zip(fit, one, strict=True):
            column[row] = part[0]
    return fit, apart, majority


def _majority_levels(is_b: Bools, labels: Ints) -> tuple[list[int], list[int], list[int]]:
    counts = [np.bincount(labels[is_b == side], minlength=1) for side in (False, True)]
    return (
        [int(count.argmax()) for count in counts],
        [int(count.max()) for count in counts],
        [int(count.sum()) for count in counts],
    )


def _fit_at_levels(
    values: Floats, is_b: Bools, labels: Ints, blocks: Ints, *, forced: bool
) -> tuple[LeastSquares, bool]:
    """Fit one row without gaps; forced: within these blocks even where it has several levels."""
    none = LeastSquares(*np.full((4, 1), np.nan))
    counts = np.array(
        [np.bincount(labels[is_b == side], minlength=labels.max(initial=0) + 1) for side in (0, 1)]
    )
    shared = np.flatnonzero((counts >= LEAST_AT_LEVEL).all(axis=0))
    keep, apart = np.ones(len(values), dtype=bool), False
    if labels.max(initial=0) == 0:
        group = blocks
    elif len(shared):
        group, keep = blocks * len(counts[0]) + labels if forced else labels, np.isin(labels, shared)
    else:
        main = counts.argmax(axis=1)
        if (2 * counts.max(axis=1) <= counts.sum(axis=1)).any() or main[0] == main[1]:
            return none, False
        keep, apart = labels == np.where(is_b, main[1], main[0]), True
        group = blocks if keep.all() else 0 * blocks
    keep &= np.isin(group, np.intersect1d(group[keep & is_b], group[keep & ~is_b]))
    if min((keep & is_b).sum(), (keep & ~is_b).sum()) < LEAST_AT_LEVEL:
        return none, apart
    return fit_within_blocks(values[keep][None, :], is_b[keep], group[keep]), apart


def off_level_rate(majority: SideLevels) -> float:
    """Return how often runs are at another level than most of their side, over all rows of a command."""
    return float(((majority.total - majority.runs).sum() + 0.5) / (majority.total.sum() + 1))


def chance_of_levels(runs: Ints, total: Ints, rate: float) -> Floats:
    """Return how likely so many runs of a side are at another level by chance: the binomial tail."""
    tails: Floats = special.bdtrc(runs - 1, np.maximum(total, 1), rate).sum(axis=-1).clip(max=1)
    return tails


def median_of_known(values: Floats, axis: int, *, lower: bool = False) -> Floats:
    """Return the median of the values that are not NaN, NaN of none; lower: of two middle ones the lower."""
    ordered = np.sort(values, axis=axis)
    count = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    if not values.shape[axis]:
        return np.full(count.squeeze(axis).shape, np.nan)
    below = np.maximum(count - 1, 0) // 2
    middles = (below, below if lower else np.minimum(count // 2, values.shape[axis] - 1))
    low, high = (np.take_along_axis(ordered, middle, axis=axis) for middle in middles)
    return np.asarray((low + high).squeeze(axis) / 2)

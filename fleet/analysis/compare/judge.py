"""Judge changes from side A to side B by textbook statistics (docs/comparing.md).

Arrays hold logarithms: a row per number to judge, a column per run in order of time,
NaN where a run lacks it. `verdicts` makes tables of the results; `history` and
`siblings` also use the levels, variances and q.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.late import special

ALPHA = 0.05  # the share of errors
POWER = 0.8
LEVEL_GAP = np.log(1.08)  # between the values of two levels, at least,
LEVEL_SCATTERS = 6.0  # and as a multiple of the usual scatter
MIN_AT_LEVEL = 2  # runs of each side, to be compared there
MIN_PASSES = 4  # from which on runs are compared within passes
MIN_HOSTS = 3  # that show what all hosts have in common
# of a row's variance: a shift that all rows share is subtracted from this variance on
SESSION_SHARE = 0.1
# the least variance: a sample is at least 1,000 steps of the clock
ROUNDING = 0.001**2 / 12
_QUARTER_OF_NORMAL = 0.32  # standard deviations that hold a quarter of normal values
_MIN_PAIRS = 8  # of a relation, to estimate how its pairs scatter
_TAILS = 6  # degrees of freedom of the t distribution that stands for how pairs scatter


class LeastSquares(NamedTuple):
    """The change of each row from A to B, fitted by least squares with an effect per
    block and one per side.

    change: a logarithm. scale: the variance of the change, divided by that of a run.
    variance, freedom: those of the residuals. All are NaN if the fit leaves no degree
    of freedom.
    """

    change: Floats
    scale: Floats
    variance: Floats
    freedom: Floats


def assign_passes(is_b: Bools, minimum: int = 1) -> Ints:
    """Number the pass of each run. A pass ends once it has both sides; runs left over
    join the last pass.

    minimum: if there are fewer passes, all runs are in pass 0.
    """
    passes, sides, ended = [], set[bool](), 0
    for side in is_b.tolist():
        passes.append(ended)
        sides.add(side)
        if len(sides) == 2:
            ended += 1
            sides.clear()
    return np.minimum(np.array(passes, dtype=np.int64), max(ended - 1, 0)) * (
        ended >= minimum
    )


def estimate_scatter(tables: Iterable[tuple[Floats, Bools]]) -> float:
    """Estimate the standard deviation of a side's runs by the quarter nearest its
    median; 0 if all equal.
    """
    nearest = [np.empty(0)]
    for rows, is_b in tables:
        sides = [rows[:, side] for side in (is_b, ~is_b)]
        off = [
            values - compute_nanmedian(values, axis=1, lower=True)[:, None]
            for values in sides
        ]
        sizes = np.abs(np.concatenate(off, axis=1))
        sizes[sizes < 1e-9] = np.nan  # the median itself, which is a value of the row
        counts = (~np.isnan(sizes)).sum(axis=1)
        ordered, counts = np.sort(sizes, axis=1)[counts > 0], counts[counts > 0]
        nearest.append(ordered[np.arange(len(ordered)), (counts - 1) // 4])
    every = np.concatenate(nearest)
    return float(np.median(every)) / _QUARTER_OF_NORMAL if len(every) else 0.0


def label_levels(rows: Floats, scatter: float | None = None) -> Ints:
    """Number the level of each value within its row, from 0 for the lowest; -1 where
    the value is missing.

    A gap of more than 8 %, or six times the usual scatter if that is more, begins
    another level. If `scatter` is None, it is estimated from these rows as if all runs
    were of one side.
    """
    if scatter is None:
        scatter = estimate_scatter([(rows, np.zeros(rows.shape[1], dtype=bool))])
    order = np.argsort(rows, axis=1)  # NaN last
    gaps = np.diff(np.take_along_axis(rows, order, axis=1), axis=1) > max(
        LEVEL_GAP, LEVEL_SCATTERS * scatter
    )
    labels = np.zeros(rows.shape, dtype=np.int64)
    np.put_along_axis(labels, order[:, 1:], np.cumsum(gaps, axis=1), axis=1)
    return np.where(np.isnan(rows), -1, labels)


def estimate_session_shifts(
    rows: Floats, labels: Ints, is_b: Bools, scatter: float
) -> Floats:
    """Estimate the shift that all rows share in each run; 0 for all if shifts are too
    small to subtract.

    A row's shift is its distance from the mean of three or more runs at its level; a
    run's is their median. The variance of shifts must reach a tenth of a row's and
    twice what chance gives a median of so many rows.
    """
    off = np.full(rows.shape, np.nan)
    for level in range(int(labels.max(initial=0)) + 1):
        at_level = (labels == level) & ((labels == level).sum(axis=1) >= 3)[:, None]
        means = compute_nanmean(np.where(at_level, rows, np.nan), axis=1)
        off = np.where(at_level, rows - means[:, None], off)
    session = np.nan_to_num(compute_nanmedian(off, axis=0))
    variance = np.mean(
        [session[side].var(ddof=1) for side in (is_b, ~is_b) if side.sum() > 1] or [0.0]
    )
    smallest = max(SESSION_SHARE, np.pi / max(len(rows), 1)) * scatter**2
    return session if variance >= smallest > 0 else 0 * session


def fit_within_blocks(values: Floats, is_b: Bools, blocks: Ints) -> LeastSquares:
    """Fit an effect per block and per side to rows without NaN. values: rows x runs.
    blocks: of each run.
    """
    side, left = is_b.astype(float), values.copy()
    for block in np.unique(blocks):
        columns = blocks == block
        left[:, columns] -= left[:, columns].mean(axis=1, keepdims=True)
        side[columns] -= side[columns].mean()
    squares, freedom = float(side @ side), len(is_b) - len(np.unique(blocks)) - 1
    if squares <= 1e-12 or freedom < 1:
        return LeastSquares(*np.full((4, len(values)), np.nan))
    change = left @ side / squares
    variance = ((left - np.outer(change, side)) ** 2).sum(axis=1) / freedom
    scale, degrees = np.full_like(change, 1 / squares), np.full_like(change, freedom)
    return LeastSquares(change, scale, np.maximum(variance, ROUNDING), degrees)


def moderate_variances(variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Shrink variances towards a common one (Smyth, SAGMB 3, 2004); return them and
    their new freedom.
    """
    if len(variances) < 3:
        return variances, freedom
    logs = np.log(variances) - special.digamma(freedom / 2) + np.log(freedom / 2)
    excess = logs.var(ddof=1) - special.polygamma(1, freedom / 2).mean()
    if excess <= 0:
        return np.full(len(logs), np.exp(logs.mean())), np.full(
            len(logs), freedom.sum()
        )
    half = 0.5 + 1 / excess  # the inverse of the trigamma function, by Newton's method
    for _ in range(50):
        trigamma = special.polygamma(1, half)
        half += trigamma * (1 - trigamma / excess) / special.polygamma(2, half)
    prior, centre = 2 * half, np.exp(logs.mean() + special.digamma(half) - np.log(half))
    joined = freedom + prior
    return (prior * centre + freedom * variances) / joined, np.minimum(
        joined, freedom.sum()
    )


def control_false_discovery(p: Floats) -> Floats:
    """Return Benjamini and Hochberg's q of each p, NaN for NaN. Of all q < 0.05, at
    most 1 in 20 is false.
    """
    q, tested = np.full(len(p), np.nan), np.flatnonzero(~np.isnan(p))
    falling = tested[np.argsort(-p[tested])]
    adjusted = p[falling] * len(falling) / np.arange(len(falling), 0, -1)
    q[falling] = np.minimum.accumulate(adjusted).clip(max=1)
    return q


def apply_student(
    change: Floats, error: Floats, freedom: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the low and the high end of each change's 95 % interval, and its p, by
    Student's t.
    """
    half = special.stdtrit(freedom, 1 - ALPHA / 2) * error
    return (
        change - half,
        change + half,
        2 * special.stdtr(freedom, -np.abs(change) / error),
    )


def estimate_detectable_change(
    error: Floats, freedom: Floats, alpha: float, matters: float
) -> Floats:
    """Return the change, a logarithm, that 8 of 10 comparisons find with p < `alpha`
    and beyond `matters`.
    """
    needed = np.maximum(special.stdtrit(freedom, 1 - alpha / 2) * error, matters)
    return np.asarray(needed + special.stdtrit(freedom, POWER) * error)


def judge_rows(
    rows: Floats,
    labels: Ints,
    is_b: Bools,
    blocks: Ints | None = None,
    session: Floats | float = 0.0,
) -> dict[str, Any]:
    """Fit each row's change at levels where each side has two runs, else from A's main
    level to B's.

    labels: from `label_levels`. blocks: the block of each run; None: use passes if
    there are four or more, and fit nothing below three runs a side. session: the shift
    of each run, to subtract. Return the columns of `LeastSquares`; `levels`, how many
    there are; `are_apart`, whether different levels were compared; for a and for b,
    `a_runs` of the `a_units` runs are at the side's main level, where their mean is
    `a_ns`.
    """
    are_asked = blocks is not None
    has_enough = are_asked or min(is_b.sum(), (~is_b).sum()) >= MIN_RUNS
    usual, sides = (
        assign_passes(is_b, MIN_PASSES) if blocks is None else blocks,
        (~is_b, is_b),
    )
    fit, are_apart = np.full((4, len(rows)), np.nan), np.zeros(len(rows), dtype=bool)
    every = np.arange(labels.max(initial=0) + 1)
    counts = np.stack(
        [(labels[:, side, None] == every).sum(axis=1) for side in sides], axis=1
    )
    places_by_levels = dict[bytes, list[int]]()
    for place, levels in enumerate(labels):
        places_by_levels.setdefault(levels.tobytes(), []).append(place)
    for places in (
        places_by_levels.values()
    ):  # rows whose runs are at the same levels are fitted at once
        row = places[0]
        groups, are_apart[places] = _choose_blocks(
            labels[row], counts[row], is_b, usual, are_asked=are_asked
        )
        keep = groups >= 0
        if (
            has_enough
            and min((keep & is_b).sum(), (keep & ~is_b).sum()) >= MIN_AT_LEVEL
        ):
            values = (rows[places] - session)[:, keep]
            fit[:, places] = fit_within_blocks(values, is_b[keep], groups[keep])
    columns = {"levels": labels.max(axis=1, initial=0) + 1, "are_apart": are_apart}
    for letter, side, own in zip("ab", sides, counts.swapaxes(0, 1), strict=True):
        at_main = side & (labels == own.argmax(axis=1)[:, None])
        means = compute_nanmean(np.where(at_main, rows, np.nan), axis=1)
        numbers = {
            "runs": own.max(axis=1),
            "units": own.sum(axis=1),
            "ns": np.exp(means),
        }
        columns |= {f"{letter}_{name}": values for name, values in numbers.items()}
    return {**LeastSquares(*fit)._asdict(), **columns}


def _choose_blocks(
    levels: Ints, counts: Ints, is_b: Bools, blocks: Ints, *, are_asked: bool
) -> tuple[Ints, bool]:
    """Return each run's block (-1: left out), and whether two levels are compared.
    counts: side x level.
    """
    shared, main = (
        np.flatnonzero((counts >= MIN_AT_LEVEL).all(axis=0)),
        counts.argmax(axis=1),
    )
    keep, are_apart = levels >= 0, False
    if levels.max(initial=0) and len(shared):
        blocks, keep = (
            levels + counts.shape[1] * blocks * are_asked,
            np.isin(levels, shared),
        )
    elif levels.max(initial=0):
        if main[0] == main[1] or (2 * counts.max(axis=1) <= counts.sum(axis=1)).any():
            return np.full(len(levels), -1), False
        at_main, are_apart = levels == main[is_b.astype(int)], True
        blocks, keep = blocks * (at_main | ~keep).all(), at_main
    keep &= np.isin(blocks, np.intersect1d(blocks[keep & is_b], blocks[keep & ~is_b]))
    return np.where(keep, blocks, -1), are_apart


def compute_level_probability(
    runs: Floats, total: Floats | Ints, rate: Floats | float
) -> Floats:
    """Return the probability that `runs` or more of `total` are at another level,
    summed over the sides.
    """
    tails: Floats = special.bdtrc(runs - 1, np.maximum(total, 1).astype(np.int64), rate)
    return np.asarray(tails.sum(axis=-1).clip(max=1))


def find_chance_limits(a: Floats, b: Floats, relations: Iterable[object]) -> Floats:
    """Return how far chance may move each pair from its relation; 1 map in 20 has a
    pair beyond that.

    a, b: logarithms, a row per pair, a column per run. With three runs a side, limits
    come from the scatter of runs, moderated over the relation; with fewer, from the
    scatter of its pairs (inf below eight pairs).
    """
    names, largest = np.array(list(relations), dtype=object), np.full(len(a), np.inf)
    alpha = ALPHA / max(len(a), 1)  # every pair is looked at
    is_b = np.repeat([False, True], [a.shape[1], b.shape[1]])
    for relation in dict.fromkeys(names):
        rows = names == relation
        values = np.hstack(
            [side[rows] - np.median(side[rows], axis=0) for side in (a, b)]
        )
        if min(a.shape[1], b.shape[1]) >= MIN_RUNS:
            fit = fit_within_blocks(values, is_b, np.zeros(len(is_b), dtype=np.int64))
            variance, freedom = moderate_variances(fit.variance, fit.freedom)
            largest[rows] = -special.stdtrit(freedom, alpha / 2) * np.sqrt(
                variance * fit.scale
            )
        elif rows.sum() >= _MIN_PAIRS:
            changes = values[:, is_b].mean(axis=1) - values[:, ~is_b].mean(axis=1)
            middle = np.median(np.abs(changes - np.median(changes)))
            largest[rows] = (
                special.stdtrit(_TAILS, alpha / 2)
                / special.stdtrit(_TAILS, 0.25)
                * middle
            )
    return largest


def compute_nanmedian(values: Floats, axis: int, *, lower: bool = False) -> Floats:
    """Return the median, ignoring NaN; NaN if none is left. lower: of two middle values
    take the lower.
    """
    ordered = np.sort(values, axis=axis)
    count = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    if not values.shape[axis]:
        return np.full(count.squeeze(axis).shape, np.nan)
    below = np.maximum(count - 1, 0) // 2
    middles = (
        below,
        below if lower else np.minimum(count // 2, values.shape[axis] - 1),
    )
    low, high = (np.take_along_axis(ordered, middle, axis=axis) for middle in middles)
    return np.asarray((low + high).squeeze(axis) / 2)


def compute_nanmean(values: Floats, axis: int) -> Floats:
    """Return the mean, ignoring NaN; NaN if no value is left."""
    counts = (~np.isnan(values)).sum(axis=axis)
    return np.asarray(
        np.nansum(values, axis=axis) / np.where(counts > 0, counts, np.nan)
    )

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
from fleet.analysis.reduce.run_levels import estimate_scatter
from fleet.late import special

ALPHA = 0.05  # the share of errors
POWER = 0.8
MIN_AT_LEVEL = 2  # runs of each side, to be compared there
MIN_PASSES = 4  # from which on runs are compared within passes
MIN_HOSTS = 3  # that show what all hosts have in common
# of a row's variance: a shift that all rows share is subtracted from this variance on
SESSION_SHARE = 0.1
# the least variance: a sample is at least 1,000 steps of the clock
ROUNDING = 0.001**2 / 12
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
    passes = []
    ended = 0
    sides = set[bool]()  # of the pass
    for side in is_b.tolist():
        passes.append(ended)
        sides.add(side)
        if len(sides) == 2:
            ended += 1
            sides.clear()
    if ended < minimum:
        return np.zeros(len(is_b), dtype=np.int64)
    last = max(ended - 1, 0)
    return np.minimum(np.array(passes, dtype=np.int64), last)


def estimate_session_shifts(rows: Floats, labels: Ints, is_b: Bools) -> Floats:
    """Estimate the shift that all rows share in each run; 0 for all if shifts are too
    small to subtract.

    A row's shift is its distance from the mean of three or more runs at its level; a
    run's is their median. The variance of shifts must reach a tenth of a row's and
    twice what chance gives a median of so many rows.
    """
    off = np.full(rows.shape, np.nan)
    for level in range(int(labels.max(initial=0)) + 1):
        is_at_level = labels == level
        has_enough = is_at_level.sum(axis=1) >= MIN_RUNS
        is_known = is_at_level & has_enough[:, None]
        means = compute_nanmean(np.where(is_known, rows, np.nan), axis=1)
        off = np.where(is_known, rows - means[:, None], off)
    session = np.nan_to_num(compute_nanmedian(off, axis=0))
    sides = (session[is_b], session[~is_b])
    variances = [side.var(ddof=1) for side in sides if len(side) > 1]
    variance = float(np.mean(variances or [0.0]))
    of_a = np.where(is_b, np.nan, rows)
    of_b = np.where(is_b, rows, np.nan)
    scatter = estimate_scatter(np.vstack([of_a, of_b]))
    by_chance = np.pi / max(len(rows), 1)
    smallest = max(SESSION_SHARE, by_chance) * scatter**2
    if variance >= smallest > 0:
        return session
    return np.zeros_like(session)


def fit_within_blocks(values: Floats, is_b: Bools, blocks: Ints) -> LeastSquares:
    """Fit an effect per block and per side to rows without NaN. values: rows x runs.
    blocks: of each run.
    """
    side = is_b.astype(float)
    left = values.copy()
    distinct = np.unique(blocks)
    for block in distinct:
        columns = blocks == block
        left[:, columns] -= left[:, columns].mean(axis=1, keepdims=True)
        side[columns] -= side[columns].mean()
    squares = float(side @ side)
    freedom = len(is_b) - len(distinct) - 1
    if squares <= 1e-12 or freedom < 1:
        return LeastSquares(*np.full((4, len(values)), np.nan))
    change = left @ side / squares
    residuals = left - np.outer(change, side)
    variance = (residuals**2).sum(axis=1) / freedom
    return LeastSquares(
        change,
        scale=np.full_like(change, 1 / squares),
        variance=np.maximum(variance, ROUNDING),
        freedom=np.full_like(change, freedom),
    )


def moderate_variances(variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Shrink variances towards a common one (Smyth, SAGMB 3, 2004); return them and
    their new freedom.
    """
    if len(variances) < 3:
        return variances, freedom
    logs = np.log(variances) - special.digamma(freedom / 2) + np.log(freedom / 2)
    excess = logs.var(ddof=1) - special.polygamma(1, freedom / 2).mean()
    all_freedom = freedom.sum()
    if excess <= 0:
        common = np.exp(logs.mean())
        return np.full(len(logs), common), np.full(len(logs), all_freedom)
    half = 0.5 + 1 / excess  # the inverse of the trigamma function, by Newton's method
    for _ in range(50):
        trigamma = special.polygamma(1, half)
        step = trigamma * (1 - trigamma / excess) / special.polygamma(2, half)
        if half + step == half:
            break
        half += step
    prior = 2 * half
    centre = np.exp(logs.mean() + special.digamma(half) - np.log(half))
    joined = freedom + prior
    moderated = (prior * centre + freedom * variances) / joined
    return moderated, np.minimum(joined, all_freedom)


def control_false_discovery(p: Floats) -> Floats:
    """Return Benjamini and Hochberg's q of each p, NaN for NaN. Of all q < 0.05, at
    most 1 in 20 is false.
    """
    q = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
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
    p = 2 * special.stdtr(freedom, -np.abs(change) / error)
    return change - half, change + half, p


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

    labels: from `run_levels`. blocks: the block of each run; None: use passes if there
    are four or more, and fit nothing below three runs a side. session: the shift of
    each run, to subtract. Return the columns of `LeastSquares`; `levels`, how many
    there are; `are_apart`, whether different levels were compared; `shares`, from
    `compute_share_probability`; `whole`, the change of the mean over all levels; for a
    and for b, `a_ns`, the mean of `a_compared` runs at the level that was compared, and
    `a_runs` of the `a_units` runs are at the side's main level.
    """
    are_asked = blocks is not None
    usual = assign_passes(is_b, MIN_PASSES) if blocks is None else blocks
    has_enough = are_asked or min(is_b.sum(), (~is_b).sum()) >= MIN_RUNS
    fit = np.full((4, len(rows)), np.nan)
    are_apart = np.zeros(len(rows), dtype=bool)
    level_of_a = np.zeros(len(rows), dtype=np.int64)
    level_of_b = np.zeros(len(rows), dtype=np.int64)
    for places in _group_equal_rows(labels):
        choice = _choose_levels(labels[places[0]], is_b, usual, are_asked=are_asked)
        are_apart[places] = choice.are_apart
        level_of_a[places] = choice.level_of_a
        level_of_b[places] = choice.level_of_b
        used = choice.blocks >= 0
        fewest = min((used & is_b).sum(), (used & ~is_b).sum())
        if has_enough and fewest >= MIN_AT_LEVEL:
            values = (rows[places] - session)[:, used]
            fit[:, places] = fit_within_blocks(values, is_b[used], choice.blocks[used])
    of_a = _count_runs_at_levels(labels[:, ~is_b], labels.max(initial=0) + 1)
    of_b = _count_runs_at_levels(labels[:, is_b], labels.max(initial=0) + 1)
    mean_of_a = compute_nanmean(rows[:, ~is_b], axis=1)
    mean_of_b = compute_nanmean(rows[:, is_b], axis=1)
    return {
        **LeastSquares(*fit)._asdict(),
        "levels": labels.max(axis=1, initial=0) + 1,
        "are_apart": are_apart,
        "shares": compute_share_probability(of_a, of_b),
        "whole": mean_of_b - mean_of_a,
        "a_runs": of_a.max(axis=1),
        "b_runs": of_b.max(axis=1),
        "a_units": of_a.sum(axis=1),
        "b_units": of_b.sum(axis=1),
        **_describe_level("a", rows[:, ~is_b], labels[:, ~is_b], level_of_a),
        **_describe_level("b", rows[:, is_b], labels[:, is_b], level_of_b),
    }


def _group_equal_rows(labels: Ints) -> list[list[int]]:
    """Return the places of equal rows, a list per distinct row; these are fitted at
    once.
    """
    places_by_row = dict[bytes, list[int]]()
    for place, row in enumerate(labels):
        places_by_row.setdefault(row.tobytes(), []).append(place)
    return list(places_by_row.values())


class _Choice(NamedTuple):
    """Which runs are compared.

    blocks: the block of each run, to fit the change within; -1: left out. level_of_a,
    level_of_b: whose means are shown. are_apart: whether these two were compared.
    """

    blocks: Ints
    level_of_a: int
    level_of_b: int
    are_apart: bool


def _choose_levels(
    levels: Ints, is_b: Bools, blocks: Ints, *, are_asked: bool
) -> _Choice:
    """Choose the runs to compare. levels, is_b, blocks: of each run. are_asked: whether
    the user asked for these blocks.
    """
    count = int(levels.max(initial=0)) + 1
    has_number = levels >= 0
    of_a = np.bincount(levels[has_number & ~is_b], minlength=count)
    of_b = np.bincount(levels[has_number & is_b], minlength=count)
    main_of_a = int(of_a.argmax())
    main_of_b = int(of_b.argmax())
    if count == 1:
        return _Choice(_keep_common_blocks(blocks, has_number, is_b), 0, 0, False)
    shared = np.flatnonzero(np.minimum(of_a, of_b) >= MIN_AT_LEVEL)
    if len(shared):
        commonest = int(shared[(of_a + of_b)[shared].argmax()])
        of_levels = levels + count * blocks if are_asked else levels
        kept = _keep_common_blocks(of_levels, np.isin(levels, shared), is_b)
        return _Choice(kept, commonest, commonest, False)
    have_main = 2 * of_a.max() > of_a.sum() and 2 * of_b.max() > of_b.sum()
    if main_of_a == main_of_b or not have_main:
        none = np.full(len(levels), -1)
        return _Choice(none, main_of_a, main_of_b, False)
    is_at_main = levels == np.where(is_b, main_of_b, main_of_a)
    if not (is_at_main | ~has_number).all():
        blocks = np.zeros_like(blocks)
    kept = _keep_common_blocks(blocks, is_at_main, is_b)
    return _Choice(kept, main_of_a, main_of_b, True)


def _keep_common_blocks(blocks: Ints, is_used: Bools, is_b: Bools) -> Ints:
    """Return each used run's block; -1 for runs of blocks that one side lacks."""
    common = np.intersect1d(blocks[is_used & is_b], blocks[is_used & ~is_b])
    return np.where(is_used & np.isin(blocks, common), blocks, -1)


def _count_runs_at_levels(labels: Ints, count: int) -> Ints:
    """Count each row's runs at each of `count` levels: rows x levels."""
    counts = [(labels == level).sum(axis=1) for level in range(count)]
    return np.stack(counts, axis=1)


def _describe_level(
    side: str, rows: Floats, labels: Ints, level: Ints
) -> dict[str, Any]:
    """Return the columns `ns` and `compared` of a side. level: of each row."""
    is_at_level = labels == level[:, None]
    means = compute_nanmean(np.where(is_at_level, rows, np.nan), axis=1)
    return {
        f"{side}_ns": np.exp(means),
        f"{side}_compared": is_at_level.sum(axis=1),
    }


def compute_share_probability(a: Ints, b: Ints) -> Floats:
    """Return how likely two sides with the same share of runs at a level differ as
    these do, or more: the least of all levels, by Fisher's exact test (two-sided).

    a, b: how many runs of each side are at each level, rows x levels.
    """
    total_a = a.sum(axis=1)[:, None, None]
    total_b = b.sum(axis=1)[:, None, None]
    both = (a + b)[:, :, None]
    of_a = np.arange(a.sum(axis=1).max(initial=0) + 1)
    of_b = both - of_a
    is_possible = (of_a <= total_a) & (of_b >= 0) & (of_b <= total_b)
    ways = _log_choose(total_a, of_a) + _log_choose(total_b, of_b)
    chance = np.exp(ways - _log_choose(total_a + total_b, both))
    chance = np.where(is_possible, chance, 0.0)
    observed = np.take_along_axis(chance, a[:, :, None], axis=2)
    is_as_unlike = chance <= observed * (1 + 1e-9)  # equal ones may differ by rounding
    p = np.where(is_as_unlike, chance, 0.0).sum(axis=2)
    return np.asarray(p.min(axis=1, initial=1.0))


def _log_choose(total: Ints, taken: Ints) -> Floats:
    """Return the logarithm of the number of ways to take so many of `total`; of
    impossible ones any number.
    """
    left = np.maximum(total - taken, 0)
    ways: Floats = (
        special.gammaln(total + 1)
        - special.gammaln(np.maximum(taken, 0) + 1)
        - special.gammaln(left + 1)
    )
    return ways


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
    names = np.array(list(relations), dtype=object)
    largest = np.full(len(a), np.inf)
    alpha = ALPHA / max(len(a), 1)  # every pair is looked at
    is_b = np.repeat([False, True], [a.shape[1], b.shape[1]])
    for relation in dict.fromkeys(names):
        rows = names == relation
        of_a = a[rows] - np.median(a[rows], axis=0)
        of_b = b[rows] - np.median(b[rows], axis=0)
        values = np.hstack([of_a, of_b])
        if min(a.shape[1], b.shape[1]) >= MIN_RUNS:
            fit = fit_within_blocks(values, is_b, np.zeros(len(is_b), dtype=np.int64))
            variance, freedom = moderate_variances(fit.variance, fit.freedom)
            error = np.sqrt(variance * fit.scale)
            largest[rows] = -special.stdtrit(freedom, alpha / 2) * error
        elif rows.sum() >= _MIN_PAIRS:
            changes = values[:, is_b].mean(axis=1) - values[:, ~is_b].mean(axis=1)
            middle = np.median(np.abs(changes - np.median(changes)))
            farthest = special.stdtrit(_TAILS, alpha / 2)
            quartile = special.stdtrit(_TAILS, 0.25)
            largest[rows] = farthest / quartile * middle
    return largest


def compute_nanmedian(values: Floats, axis: int) -> Floats:
    """Return the median, ignoring NaN; NaN if none is left."""
    ordered = np.sort(values, axis=axis)  # NaN last
    length = values.shape[axis]
    count = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    if not length:
        return np.full(count.squeeze(axis).shape, np.nan)
    lower = np.maximum(count - 1, 0) // 2
    upper = np.minimum(count // 2, length - 1)
    low = np.take_along_axis(ordered, lower, axis=axis)
    high = np.take_along_axis(ordered, upper, axis=axis)
    return np.asarray((low + high).squeeze(axis) / 2)


def compute_nanmean(values: Floats, axis: int) -> Floats:
    """Return the mean, ignoring NaN; NaN if no value is left."""
    counts = (~np.isnan(values)).sum(axis=axis)
    return np.asarray(
        np.nansum(values, axis=axis) / np.where(counts > 0, counts, np.nan)
    )

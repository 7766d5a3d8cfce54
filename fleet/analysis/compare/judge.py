"""Judge changes from side A to side B by textbook statistics (docs/comparing.md).

Arrays hold logarithms: a row per number to judge, a column per run in order of time,
NaN where a run lacks it. From run to run, a number may be at one of several levels;
its main level is that of most runs. `verdicts` makes tables of the results; `history`
and `siblings` also use the levels, variances and q.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.analysis.reduce.run_levels import estimate_scatter
from fleet.late import special

ALPHA = 0.05  # the share of errors
POWER = 0.8
MIN_AT_LEVEL = 2  # runs of each side at a level, to be compared there
MIN_PASSES = 4  # from so many on, runs are compared within passes
MIN_HOSTS = 3  # so many show what all hosts have in common
# of a row's variance: a shift that all rows share is subtracted from this variance on
SESSION_SHARE = 0.1
# the least variance, that of rounding: a sample is at least 1,000 steps of the clock
ROUNDING = 0.001**2 / 12
_MIN_PAIRS = 8  # of a relation, to estimate how its pairs scatter
# degrees of freedom of the t distribution that stands for how pairs scatter
_FREEDOM_OF_PAIRS = 6


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

    @property
    def error(self) -> Floats:
        """Return the standard error of each change, by its own variance."""
        variance = self.variance * self.scale
        return np.asarray(np.sqrt(variance))

    @classmethod
    def make_unknown(cls, count: int) -> "LeastSquares":
        """Return the fit of `count` rows that cannot be fitted."""
        unknown = np.full((len(cls._fields), count), np.nan)
        return cls(*unknown)


def assign_passes(is_b: Bools, minimum: int = 1) -> Ints:
    """Number the pass of each run, from 0. A pass ends once it has both sides; runs
    left over join the last pass: of a b b a a, the passes are 0 0 1 1 1.

    is_b: whether each run, in order of time, is of side B. minimum: if there are fewer
    passes, all runs are in pass 0.
    """
    passes = []
    complete = 0  # how many passes have both sides so far
    sides_of_pass = set[bool]()
    for side in is_b.tolist():
        passes.append(complete)
        sides_of_pass.add(side)
        if len(sides_of_pass) == 2:
            complete += 1
            sides_of_pass.clear()
    if complete < minimum:
        return np.zeros(len(is_b), dtype=np.int64)
    # a last pass without both sides would have no change: its runs join the one before
    last_complete = max(complete - 1, 0)
    pass_of_run = np.array(passes, dtype=np.int64)
    return np.minimum(pass_of_run, last_complete)


def estimate_session_shifts(log_ns: Floats, labels: Ints, is_b: Bools) -> Floats:
    """Estimate by how much each run shifted all numbers alike, as a logarithm; 0 for
    every run if the shifts are too small to be subtracted.

    log_ns: a row per number, a column per run. labels: the level of each value within
    its row, -1 where it is missing. is_b: whether each run is of side B.

    A value's distance is that from the mean of its level in its row. The shift of a run
    is the median of its distances. Shifts are large enough if their variance within a
    side reaches a tenth of the usual variance of a row, and twice the variance that
    chance gives a median of so many rows.
    """
    distances = _measure_distances_from_levels(log_ns, labels)
    medians = compute_nanmedian(distances, axis=0)
    shifts = np.nan_to_num(medians)
    variance = _average_variances([shifts[is_b], shifts[~is_b]])
    # the median of n normal values, n large, has pi / 2n of the variance of one value
    rows = max(len(log_ns), 1)
    share_by_chance = np.pi / (2 * rows)
    least_share = max(SESSION_SHARE, 2 * share_by_chance)
    scatter = _estimate_scatter_of_sides(log_ns, is_b)
    least_variance = least_share * scatter**2
    # the scatter is 0 if no number has two runs of a side at one level, or if most of
    # these runs are equal: then no shift is taken out
    is_scatter_known = least_variance > 0
    if is_scatter_known and variance >= least_variance:
        return shifts
    return np.zeros_like(shifts)


def _estimate_scatter_of_sides(log_ns: Floats, is_b: Bools) -> Any:
    """Estimate the usual scatter of numbers between the runs of a side, a standard
    deviation. log_ns: a row per number, a column per run of either side.
    """
    # each number has a row for A and a row for B, NaN in runs of the other side, so
    # that a change from A to B does not count as scatter
    rows_of_a = np.where(is_b, np.nan, log_ns)
    rows_of_b = np.where(is_b, log_ns, np.nan)
    rows_of_sides = np.vstack([rows_of_a, rows_of_b])
    return estimate_scatter(rows_of_sides)


def _average_variances(samples: Sequence[Floats]) -> float:
    """Return the mean variance of the samples of two values or more, 0 without any."""
    samples_of_several = [sample for sample in samples if len(sample) > 1]
    if not samples_of_several:
        return 0.0
    variances = [sample.var(ddof=1) for sample in samples_of_several]
    mean = np.mean(variances)
    return float(mean)


def _measure_distances_from_levels(log_ns: Floats, labels: Ints) -> Floats:
    """Measure how far each value is from the mean of its level in its row; NaN at
    levels of fewer than three runs.

    log_ns: a row per number, a column per run. labels: the level of each value in its
    row, -1 where it is missing.
    """
    distances = np.full(log_ns.shape, np.nan)
    last_level = int(labels.max(initial=0))
    for level in range(last_level + 1):
        is_at_level = labels == level
        runs_at_level = is_at_level.sum(axis=1)
        has_enough = runs_at_level >= MIN_RUNS  # a value per row
        is_used = is_at_level & has_enough[:, None]
        logs_at_level = np.where(is_used, log_ns, np.nan)
        means = compute_nanmean(logs_at_level, axis=1)
        distances_at_level = log_ns - means[:, None]
        distances[is_used] = distances_at_level[is_used]
    return distances


def fit_within_blocks(values: Floats, is_b: Bools, blocks: Ints) -> LeastSquares:
    """Fit the change of each row from A to B, by least squares with an effect per block
    and one per side; all NaN if too few runs are left to estimate an error.

    values: a row per number, a column per run, none NaN. is_b, blocks: the side and the
    block of each run. Blocks, which are passes or levels, may differ from each other:
    only differences within a block count.
    """
    # taking the block means out of values and sides leaves a regression through 0 with
    # the side, 1 for B and 0 for A, as its only variable:
    # change = sum(value * side) / sum(side**2)
    one_row = is_b.astype(float)[None, :]
    side = _subtract_block_means(one_row, blocks)[0]
    centred = _subtract_block_means(values, blocks)
    side_squares = float(side @ side)
    has_both_sides = side_squares > 1e-12  # in any block; else 0 but for rounding
    # a mean per block and the change are fitted to the runs
    block_count = len(np.unique(blocks))
    freedom = len(is_b) - block_count - 1
    if not has_both_sides or freedom < 1:
        return LeastSquares.make_unknown(len(values))
    # not `centred @ side`, whose last digit depends on how many rows there are
    products = centred * side
    change = products.sum(axis=1) / side_squares
    fitted = np.outer(change, side)
    residuals = centred - fitted
    squares = (residuals**2).sum(axis=1)
    # the variance of the change is that of a run, divided by the squares of the side
    return LeastSquares(
        change,
        scale=np.full_like(change, 1 / side_squares),
        variance=np.maximum(squares / freedom, ROUNDING),
        freedom=np.full_like(change, freedom),
    )


def fit_in_one_block(values: Floats, is_b: Bools) -> LeastSquares:
    """Fit the change of each row from A to B with all runs in one block, as Student's
    test of two samples does. values, is_b: as of `fit_within_blocks`.
    """
    one_block = np.zeros(len(is_b), dtype=np.int64)
    return fit_within_blocks(values, is_b, one_block)


def _subtract_block_means(rows: Floats, blocks: Ints) -> Floats:
    """Return how far each value is from the mean of its row in its block. blocks: the
    block of each column.
    """
    centred = rows.copy()
    for block in np.unique(blocks):
        is_in_block = blocks == block
        own = centred[:, is_in_block]
        means = own.mean(axis=1, keepdims=True)
        centred[:, is_in_block] = own - means
    return centred


def moderate_variances(variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Shrink variances towards a common variance; return the new variances and their
    degrees of freedom.

    variances, freedom: a variance and its degrees of freedom for each number that is
    judged. Fewer than three are returned unchanged.

    By the empirical Bayes method of Smyth, SAGMB 3, 2004 (limma): the scatter of the
    logarithms of the variances, beyond that of chance, tells how many degrees of
    freedom the common variance counts for. The less they scatter, the more it counts.
    """
    if len(variances) < 3:
        return variances, freedom
    logs = _compute_unbiased_logs(variances, freedom)
    mean = logs.mean()
    # by chance, the logarithm of a variance with d degrees of freedom has the variance
    # trigamma(d/2)
    trigamma = special.polygamma(1, freedom / 2)
    variance_by_chance = trigamma.mean()
    # the variance of the logarithms of the true variances
    excess = logs.var(ddof=1) - variance_by_chance
    # no variance is known better than one estimated from all rows together
    all_freedom = freedom.sum()
    if excess <= 0:  # chance explains all of the scatter: all have one variance
        common = np.full(len(variances), np.exp(mean))
        return common, np.full(len(variances), all_freedom)
    prior_variance, prior_freedom = _estimate_prior(mean, excess)
    joined_freedom = freedom + prior_freedom
    # the mean of both variances, weighted by their freedom
    weighted = prior_freedom * prior_variance + freedom * variances
    moderated = weighted / joined_freedom
    return moderated, np.minimum(joined_freedom, all_freedom)


def _compute_unbiased_logs(variances: Floats, freedom: Floats) -> Floats:
    """Return the logarithms of variances without the bias of few degrees of freedom:
    with d of these, the logarithm is off by digamma(d/2) - log(d/2) on average.
    """
    half_freedom = freedom / 2
    digamma: Floats = special.digamma(half_freedom)
    return np.log(variances) - digamma + np.log(half_freedom)


def _estimate_prior(mean: Any, excess: float) -> tuple[Any, float]:
    """Return the common variance that others are shrunk towards, and the degrees of
    freedom that it counts for.

    mean: of the logarithms of the variances, without the bias of few degrees of
    freedom. excess: the variance of these logarithms that chance does not explain.
    """
    # such logarithms of d degrees of freedom have the variance trigamma(d/2)
    half_freedom = _invert_trigamma(excess)
    offset = special.digamma(half_freedom) - np.log(half_freedom)
    return np.exp(mean + offset), 2 * half_freedom


def moderate_where(
    is_tested: Bools, variances: Floats, freedom: Floats
) -> tuple[Floats, Floats]:
    """Shrink the tested variances as `moderate_variances` does; return them and their
    degrees of freedom. Both are NaN where not tested. is_tested: of each variance.
    """
    tested_variances, tested_freedom = moderate_variances(
        variances[is_tested], freedom[is_tested]
    )
    moderated = put_where(is_tested, tested_variances)
    new_freedom = put_where(is_tested, tested_freedom)
    return moderated, new_freedom


def _invert_trigamma(value: float) -> float:
    """Return the number whose trigamma function, the second derivative of the logarithm
    of the gamma function, is `value`.

    Newton's method solves 1 / trigamma(number) = 1 / value: the left side is convex and
    nearly straight, so that steps from 0.5 + 1 / value converge (Smyth, SAGMB 3, 2004).
    """
    number = 0.5 + 1 / value
    for _ in range(50):
        trigamma = special.polygamma(1, number)
        slope = special.polygamma(2, number)  # of trigamma at this number
        # Newton's step is f / -f', where f = 1 / trigamma - 1 / value and
        # -f' = slope / trigamma**2. Multiplied by trigamma**2, f is
        # trigamma - trigamma**2 / value, and -f' is the slope.
        multiplied_f = trigamma * (1 - trigamma / value)
        step = multiplied_f / slope
        if number + step == number:  # the step is below the last digit
            break
        number += step
    return float(number)


def control_false_discovery(p: Floats) -> Floats:
    """Return Benjamini and Hochberg's q of each p, NaN for NaN. Of the tests with q <
    0.05, 1 in 20 at most is expected to be significant by chance.

    q is p * count / rank, where the smallest p has the rank 1. It is never above the q
    of a larger p: 0.01, 0.04, 0.05 have q 0.03, 0.05, 0.05.
    """
    is_tested = ~np.isnan(p)
    places_of_tested = np.flatnonzero(is_tested)
    count = len(places_of_tested)
    largest_first = np.argsort(-p[is_tested])
    # where the largest p stands in `p`, then where the second largest stands, …
    places = places_of_tested[largest_first]
    rank = np.arange(count, 0, -1)  # of the smallest p: 1
    adjusted = p[places] * count / rank
    # the largest p is first: the least so far is that of all p at least as large
    least_so_far = np.minimum.accumulate(adjusted)
    q = np.full(len(p), np.nan)
    q[places] = least_so_far.clip(max=1)
    return q


def estimate_detectable_change(
    error: Floats, freedom: Floats, alpha: float, matters: float
) -> Floats:
    """Return the change, a logarithm, that 8 of 10 comparisons find with p < `alpha`
    and beyond `matters`.

    error, freedom: the standard error of each change, and its degrees of freedom.
    matters: the smallest change that matters, a logarithm.
    """
    critical_t = special.stdtrit(freedom, 1 - alpha / 2)
    significant = critical_t * error
    limit = np.maximum(significant, matters)
    # the estimate of a change that is so much beyond the limit is above the limit 8
    # times of 10
    margin = special.stdtrit(freedom, POWER) * error
    return np.asarray(limit + margin)


def find_chance_limits(a: Floats, b: Floats, relations: Iterable[object]) -> Floats:
    """Return by how much chance alone may move each pair from side A to side B, as the
    size of a logarithm; infinite if there are too few runs and pairs to tell. If the
    sides are equal, some pair is beyond its limit in 1 comparison of 20.

    a, b: logarithms of each side, a row per pair, a column per run. relations: the
    relation of each pair. A pair's move is that of its distance from the median of its
    relation in the same run.
    """
    relation_of_pair = np.array(list(relations), dtype=object)
    limits = np.full(len(a), np.inf)
    alpha = ALPHA / max(len(a), 1)  # by Bonferroni, since each pair has its own limit
    for relation in dict.fromkeys(relation_of_pair):
        is_own = relation_of_pair == relation
        limits[is_own] = _limit_relation(a[is_own], b[is_own], alpha)
    return limits


def _limit_relation(a: Floats, b: Floats, alpha: float) -> Floats | float:
    """Return the limits of the pairs of a relation. If each side has three runs or
    more, each pair has a limit by how far it scatters between runs. If not, but the
    relation has eight pairs or more, all pairs have one limit by how far they scatter.
    If neither, the limit is infinite.

    a, b: logarithms, pairs x runs of that side. alpha: the probability that chance
    moves a pair beyond its limit.
    """
    from_median_a = _subtract_medians_of_runs(a)
    from_median_b = _subtract_medians_of_runs(b)
    runs_of_a = a.shape[1]
    runs_of_b = b.shape[1]
    if min(runs_of_a, runs_of_b) >= MIN_RUNS:
        return _limit_by_runs(from_median_a, from_median_b, alpha)
    # the scatter of too few runs is unknown: that of the pairs stands for it
    if len(a) >= _MIN_PAIRS:
        moves = from_median_b.mean(axis=1) - from_median_a.mean(axis=1)
        return _limit_by_pairs(moves, alpha)
    return np.inf


def _subtract_medians_of_runs(pairs: Floats) -> Floats:
    """Return how far each pair is from the median of all pairs in the same run. pairs:
    a row per pair, a column per run.
    """
    medians = np.median(pairs, axis=0)
    return np.asarray(pairs - medians)


def _limit_by_runs(a: Floats, b: Floats, alpha: float) -> Floats:
    """Return the smallest change of each pair from A to B that is significant, by how
    much the pair scatters between runs of one side.

    a, b: logarithms, pairs x runs of that side. alpha: the two-sided probability of
    such a change by chance.
    """
    runs = np.hstack([a, b])
    runs_of_a = a.shape[1]
    runs_of_b = b.shape[1]
    is_b = np.repeat([False, True], [runs_of_a, runs_of_b])
    # the order of the runs in time is not known here, so they have no passes
    fit = fit_in_one_block(runs, is_b)
    variance_of_run, freedom = moderate_variances(fit.variance, fit.freedom)
    variance_of_change = variance_of_run * fit.scale
    error = np.sqrt(variance_of_change)
    # the quantile of alpha / 2 is negative, and as far from 0 as that of 1 - alpha / 2
    critical_t = -special.stdtrit(freedom, alpha / 2)
    return np.asarray(critical_t * error)


def _limit_by_pairs(changes: Floats, alpha: float) -> float:
    """Return how far the change of a pair may be from the median change, one limit for
    all pairs of a relation. Changes are taken to scatter about their median as
    Student's t with six degrees of freedom: with the probability `alpha`, one is
    farther away than the limit, on either side.
    """
    median = np.median(changes)
    distances = np.abs(changes - median)
    median_distance = np.median(distances)
    # half of a symmetric distribution is nearer to its middle than its quartiles: the
    # median distance is that of a quartile, and scales the t distribution. Both
    # quantiles below are negative, so that their ratio is positive.
    limit_of_t = special.stdtrit(_FREEDOM_OF_PAIRS, alpha / 2)
    quartile = special.stdtrit(_FREEDOM_OF_PAIRS, 0.25)
    return float(limit_of_t / quartile * median_distance)


def compute_nanmedian(values: Floats, axis: int) -> Floats:
    """Return the median along an axis, ignoring NaN; NaN where no value is left.
    `numpy.nanmedian` is slow for many short rows, and warns of rows without a value.
    """
    if not values.shape[axis]:
        return compute_nanmean(values, axis)  # NaN, too
    is_value = ~np.isnan(values)
    count = is_value.sum(axis=axis, keepdims=True)
    ordered = np.sort(values, axis=axis)  # NaN last
    # the places of the two middle values, from 0: 1 and 2 of 4 values, 1 and 1 of 3
    # values. Without any value they are 0 and 0, where NaN stands.
    below_middle = np.maximum(count - 1, 0) // 2
    above_middle = count // 2
    lower_value = np.take_along_axis(ordered, below_middle, axis=axis)
    upper_value = np.take_along_axis(ordered, above_middle, axis=axis)
    medians = (lower_value + upper_value) / 2
    return np.asarray(medians.squeeze(axis))


def compute_nanmean(values: Floats, axis: int) -> Floats:
    """Return the mean, ignoring NaN; NaN if no value is left."""
    is_value = ~np.isnan(values)
    counts = is_value.sum(axis=axis)
    sums = np.nansum(values, axis=axis)
    return divide_by_counts(sums, counts)


def divide_by_counts(sums: Floats, counts: Any) -> Floats:
    """Return sums divided by counts, which are means; NaN where the count is 0."""
    divisor = np.where(counts > 0, counts, np.nan)
    return np.asarray(sums / divisor)


def put_where(mask: Bools, values: Floats | Ints) -> Floats:
    """Return an array of the shape of `mask` that has `values`, in their order, where
    the mask is true, and NaN elsewhere.
    """
    placed = np.full(mask.shape, np.nan)
    placed[mask] = values
    return placed


def compute_p(t: Floats, freedom: Floats) -> Floats:
    """Return the probability of Student's t of these sizes or more, on either side of
    0. t: sizes, none negative. freedom: their degrees of freedom.
    """
    p_of_a_side: Floats = special.stdtr(freedom, -t)
    return 2 * p_of_a_side


def apply_student(
    change: Floats, error: Floats, freedom: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the low and the high end of each change's 95 % interval, and its p, by
    Student's t. error, freedom: the standard error of each change, and its degrees of
    freedom.
    """
    critical_t = special.stdtrit(freedom, 1 - ALPHA / 2)
    half_width = critical_t * error
    low = change - half_width
    high = change + half_width
    t = np.abs(change) / error
    return low, high, compute_p(t, freedom)


def judge_rows(
    log_ns: Floats,
    labels: Ints,
    is_b: Bools,
    blocks: Ints | None = None,
    shifts: Floats | float = 0.0,
) -> dict[str, Any]:
    """Fit each number's change from A to B, at levels where each side has two runs, if
    there are such levels, else from A's main level to B's, where most runs are.

    log_ns: a row per number, a column per run. labels: the level of each value in its
    row, from 0, -1 where the value is missing. is_b: whether each run is of B. blocks:
    the block of each run, within which to compare, if the user asked for blocks; None:
    use passes if there are four or more, and fit nothing below three runs a side.
    shifts: what to subtract from the number of each run, in all rows alike (an array of
    runs) or in each row (rows x runs).

    Return columns with a value per row:
    - `change`, `scale`, `variance`, `freedom`: the fields of `LeastSquares`, NaN where
      nothing could be fitted;
    - `levels`: how many levels the row has;
    - `are_apart`: whether a level of A was compared with another level of B;
    - `shares`: from `compute_share_probability`;
    - `whole`: how far the mean over all levels moved, a logarithm;
    - `a_units`, `b_units`: how many runs of the side have the number;
    - `a_at_main`, `b_at_main`: how many of these runs are at the side's main level;
    - `a_compared`, `b_compared`: how many runs are at the level that was compared;
    - `a_ns`, `b_ns`: the mean of the runs that were compared.
    """
    without_shifts = log_ns - shifts
    fits = _fit_rows(without_shifts, labels, is_b, blocks)
    least_squares = LeastSquares(*fits.least_squares)
    # the columns of the sides are as measured, with the shifts
    a = _Side.select("a", log_ns, labels, ~is_b)
    b = _Side.select("b", log_ns, labels, is_b)
    return {
        **least_squares._asdict(),
        "levels": labels.max(axis=1, initial=0) + 1,
        "are_apart": fits.are_apart,
        "shares": compute_share_probability(a.counts, b.counts),
        "whole": b.compute_means() - a.compute_means(),
        **a.describe(fits.level_of_a),
        **b.describe(fits.level_of_b),
    }


def _fit_rows(
    log_ns: Floats, labels: Ints, is_b: Bools, blocks: Ints | None
) -> "_Fits":
    """Choose which runs of each row are compared, and fit the change of the row in
    these runs; the change is NaN if they are too few. log_ns: without the shifts of the
    runs. labels, is_b, blocks: as of `judge_rows`.
    """
    fits = _Fits.make_empty(len(log_ns))
    are_blocks_asked = blocks is not None
    # rows of equal labels compare the same runs, and are fitted at once
    for rows in _group_equal_rows(labels):
        levels_of_runs = labels[rows[0]]  # all of these rows have equal labels
        choice = _choose_levels(levels_of_runs, is_b, blocks)
        fits.note_levels(rows, choice)
        if _has_enough_runs(choice, is_b, are_blocks_asked=are_blocks_asked):
            fit = choice.fit(log_ns[rows], is_b)
            fits.note_changes(rows, fit)
    return fits


@dataclass(frozen=True, slots=True)
class _Fits:
    """What was compared of each row, and its change. least_squares: fields of
    `LeastSquares` x rows. level_of_a, level_of_b: the levels whose means are shown.
    are_apart: whether a level of A was compared with another level of B.
    """

    least_squares: Floats
    are_apart: Bools
    level_of_a: Ints
    level_of_b: Ints

    @classmethod
    def make_empty(cls, count: int) -> "_Fits":
        """Return the fits of `count` rows of which nothing is compared yet. Changes are
        NaN; the levels 0 only hold the place until `note_levels` replaces them.
        """
        # one array of fields x rows, so that all fields of a row are set at once
        least_squares = np.array(LeastSquares.make_unknown(count))
        return cls(
            least_squares=least_squares,
            are_apart=np.zeros(count, dtype=bool),
            level_of_a=np.zeros(count, dtype=np.int64),
            level_of_b=np.zeros(count, dtype=np.int64),
        )

    def note_levels(self, rows: Sequence[int], choice: "_Choice") -> None:
        """Note which levels of these rows are compared."""
        self.are_apart[rows] = choice.are_apart
        self.level_of_a[rows] = choice.level_of_a
        self.level_of_b[rows] = choice.level_of_b

    def note_changes(self, rows: Sequence[int], fit: LeastSquares) -> None:
        """Note the changes of these rows."""
        self.least_squares[:, rows] = fit


def _group_equal_rows(labels: Ints) -> list[list[int]]:
    """Group the rows of an array that are equal: [[1, 2], [3, 4], [1, 2]] gives
    [[0, 2], [1]].
    """
    groups = dict[bytes, list[int]]()
    for number, row in enumerate(labels):
        content = row.tobytes()  # an array cannot be a key, but its bytes can
        group = groups.setdefault(content, [])
        group.append(number)
    return list(groups.values())


class _Choice(NamedTuple):
    """Which runs are compared.

    blocks: the block of each run, to fit the change within; -1: the run is left out.
    level_of_a, level_of_b: the levels whose means are shown. are_apart: whether a level
    of A is compared with another level of B.
    """

    blocks: Ints
    level_of_a: int
    level_of_b: int
    are_apart: bool

    @property
    def is_compared(self) -> Bools:
        """Report which runs are compared."""
        return self.blocks >= 0

    def fit(self, log_ns: Floats, is_b: Bools) -> LeastSquares:
        """Fit the change of rows in the compared runs. log_ns: rows x all runs."""
        is_compared = self.is_compared
        compared_logs = log_ns[:, is_compared]
        compared_blocks = self.blocks[is_compared]
        return fit_within_blocks(compared_logs, is_b[is_compared], compared_blocks)


def _choose_levels(levels: Ints, is_b: Bools, asked_blocks: Ints | None) -> _Choice:
    """Choose the runs of one number to compare: those at levels that both sides have
    twice or more, else those at the main level of each side.

    levels: the level of each run, from 0; -1: the run lacks the number. is_b: whether
    each run is of side B. asked_blocks: the block of each run, if the user asked for
    blocks; None: runs at one level are compared within passes.
    """
    blocks = asked_blocks
    if blocks is None:
        blocks = assign_passes(is_b, MIN_PASSES)
    has_number = levels >= 0
    level_count = int(levels.max(initial=0)) + 1
    # all runs that have the number are at one level: there are no levels to choose from
    if level_count == 1:
        common_blocks = _keep_common_blocks(blocks, has_number, is_b)
        return _Choice(common_blocks, level_of_a=0, level_of_b=0, are_apart=False)
    # how many runs of each side are at each level
    counts_of_a = _count_levels(levels[has_number & ~is_b], level_count)
    counts_of_b = _count_levels(levels[has_number & is_b], level_count)
    smaller_counts = np.minimum(counts_of_a, counts_of_b)
    is_shared = smaller_counts >= MIN_AT_LEVEL  # a value per level
    # each shared level is a block in place of the passes, or part of a block asked for
    if is_shared.any():
        counts = counts_of_a + counts_of_b
        shared_counts = np.where(is_shared, counts, 0)
        return _choose_shared_levels(levels, is_b, asked_blocks, shared_counts)
    return _choose_main_levels(levels, is_b, blocks, (counts_of_a, counts_of_b))


def _choose_shared_levels(
    levels: Ints, is_b: Bools, asked_blocks: Ints | None, shared_counts: Ints
) -> _Choice:
    """Choose the runs at shared levels, those that both sides have twice or more. The
    means to be shown are those of the shared level with most runs.

    levels, is_b, asked_blocks: as in `_choose_levels`. shared_counts: how many runs of
    both sides are at each level, 0 at a level that is not shared.
    """
    is_shared = shared_counts > 0
    has_number = levels >= 0
    # a level of -1 reads the last of `is_shared`, which `has_number` rules out
    is_used = has_number & is_shared[levels]
    # runs of unlike levels are not compared: each level is a block
    blocks = _make_blocks_of_levels(levels, asked_blocks)
    common_blocks = _keep_common_blocks(blocks, is_used, is_b)
    commonest = int(shared_counts.argmax())
    return _Choice(
        common_blocks, level_of_a=commonest, level_of_b=commonest, are_apart=False
    )


def _count_levels(levels: Ints, count: int) -> Ints:
    """Return how many runs are at each of `count` levels. levels: of each run."""
    return np.bincount(levels, minlength=count)


def _make_blocks_of_levels(levels: Ints, asked_blocks: Ints | None) -> Ints:
    """Make each level a block, or each level in each of the blocks asked for. Both
    arguments have a value per run. With two levels, level 1 of block 3 becomes 7. A
    level of -1, of a run without the number, must not be used.
    """
    if asked_blocks is None:
        return levels
    level_count = int(levels.max(initial=0)) + 1
    first_of_block = level_count * asked_blocks
    return np.asarray(first_of_block + levels)


def _choose_main_levels(
    levels: Ints, is_b: Bools, blocks: Ints, counts: tuple[Ints, Ints]
) -> _Choice:
    """Choose the runs at the main level of each side, if these levels differ and each
    has more than half of its side's runs; else choose none.

    levels: the level of each run; -1: the run lacks the number. blocks: the block of
    each run, a pass or what the user asked for. counts: how many runs of A, and how
    many of B, are at each level.
    """
    counts_of_a, counts_of_b = counts
    main_of_a = int(counts_of_a.argmax())
    main_of_b = int(counts_of_b.argmax())
    both_have_most = _has_most_runs(counts_of_a) and _has_most_runs(counts_of_b)
    if main_of_a == main_of_b or not both_have_most:
        no_blocks = np.full(len(levels), -1)  # no run is compared
        return _Choice(no_blocks, main_of_a, main_of_b, are_apart=False)
    main_of_side = np.where(is_b, main_of_b, main_of_a)
    is_used = levels == main_of_side
    has_number = levels >= 0
    is_at_other_level = has_number & ~is_used
    # once the runs at other levels are dropped, a pass, or a block that the user asked
    # for, may lack a side, and would be left out: instead, all runs are in one block, 0
    if is_at_other_level.any():
        blocks = np.zeros_like(blocks)
    common_blocks = _keep_common_blocks(blocks, is_used, is_b)
    return _Choice(common_blocks, main_of_a, main_of_b, are_apart=True)


def _has_most_runs(counts: Ints) -> bool:
    """Report whether the main level has more than half of the runs. counts: how many
    runs are at each level.
    """
    return bool(2 * counts.max() > counts.sum())


def _keep_common_blocks(blocks: Ints, is_used: Bools, is_b: Bools) -> Ints:
    """Return the block of each run, but -1 for runs that are not used and for those of
    a block in which one side has no used run.
    """
    blocks_of_a = blocks[is_used & ~is_b]
    blocks_of_b = blocks[is_used & is_b]
    common_blocks = np.intersect1d(blocks_of_a, blocks_of_b)
    is_in_common = np.isin(blocks, common_blocks)
    is_kept = is_used & is_in_common
    return np.where(is_kept, blocks, -1)


def _has_enough_runs(choice: _Choice, is_b: Bools, *, are_blocks_asked: bool) -> bool:
    """Report whether the chosen runs can be compared: two or more of each side. Unless
    the user asked for the blocks, each side must have three runs or more in all, which
    need not be chosen. is_b: whether each run, chosen or not, is of side B.
    """
    is_compared = choice.is_compared
    compared_runs_of_a = (is_compared & ~is_b).sum()
    compared_runs_of_b = (is_compared & is_b).sum()
    if min(compared_runs_of_a, compared_runs_of_b) < MIN_AT_LEVEL:
        return False
    runs_of_b = is_b.sum()
    runs_of_a = len(is_b) - runs_of_b
    return are_blocks_asked or bool(min(runs_of_a, runs_of_b) >= MIN_RUNS)


@dataclass(frozen=True, slots=True)
class _Side:
    """The runs of one side. log_ns, labels: a row per number, a column per run. counts:
    how many of the runs are at each level, a column per level.
    """

    letter: str
    log_ns: Floats
    labels: Ints
    counts: Ints

    @classmethod
    def select(
        cls, letter: str, log_ns: Floats, labels: Ints, is_own: Bools
    ) -> "_Side":
        """Select the runs of a side from those of both.

        letter: a or b. log_ns: a row per number, a column per run of either side.
        labels: the level of each value in its row, -1 where it is missing. is_own:
        whether each run is of this side.
        """
        own_labels = labels[:, is_own]
        last_level = labels.max(initial=0)
        runs_at_levels = []
        for level in range(last_level + 1):
            is_at_level = own_labels == level
            runs_at_levels.append(is_at_level.sum(axis=1))
        counts = np.stack(runs_at_levels, axis=1)  # rows x levels
        return cls(letter, log_ns[:, is_own], own_labels, counts)

    def compute_means(self) -> Floats:
        """Compute the mean over all levels of each row."""
        return compute_nanmean(self.log_ns, axis=1)

    def describe(self, compared_level: Ints) -> dict[str, Any]:
        """Return the columns of this side, for side A: `a_units`, how many of its runs
        have each number; `a_at_main`, how many of these are at the level of most;
        `a_compared`, how many are at the level that was compared; and `a_ns`, the mean
        of these.

        compared_level: the level of this side that was compared, of each number. A unit
        is a run, or a host where the sides are hosts.
        """
        is_compared = self.labels == compared_level[:, None]
        compared_logs = np.where(is_compared, self.log_ns, np.nan)
        mean_logs = compute_nanmean(compared_logs, axis=1)
        # `counts` are numbers x levels, the other arrays are numbers x runs
        return {
            f"{self.letter}_at_main": self.counts.max(axis=1),
            f"{self.letter}_units": self.counts.sum(axis=1),
            f"{self.letter}_ns": np.exp(mean_logs),
            f"{self.letter}_compared": is_compared.sum(axis=1),
        }


def compute_share_probability(a: Ints, b: Ints) -> Floats:
    """Return for each row how likely chance makes the sides' shares of runs at a level
    differ as much as these do, or more, if both sides are alike.

    a, b: how many runs of each side are at each level, rows x levels. Each level is
    tested by Fisher's exact test (two-sided). The smallest p of a row is returned, not
    corrected for the number of levels: of two levels, both have the same p.
    """
    counts = np.stack([a, b], axis=1)  # rows x sides x levels
    # most rows have the counts of another row: distinct counts are tested once.
    # `place`: for each row, where its counts are in `distinct`
    distinct, place = np.unique(counts, axis=0, return_inverse=True)
    place = place.reshape(-1)  # some versions of numpy return a column
    distinct_a = distinct[:, 0]
    distinct_b = distinct[:, 1]
    p_of_levels = _test_by_fisher(distinct_a, distinct_b)
    smallest_p = p_of_levels.min(axis=1, initial=1.0)
    return np.asarray(smallest_p[place])


def _test_by_fisher(a: Ints, b: Ints) -> Floats:
    """Return p of each row and level by Fisher's exact test. Of all splits of a level's
    runs over the two sides, p is the probability of the splits that are at most as
    likely as the observed split.

    a, b: how many runs of each side are at a level, rows x levels. For 3 of 4 runs of A
    and 0 of 4 of B, the splits 3 and 0, 0 and 3 have 4/56 each, and p is 8/56.
    """
    runs_of_a = a.sum(axis=1)  # of each row, over its levels
    runs_of_b = b.sum(axis=1)
    runs_at_level = a + b
    # the arrays below broadcast to rows x levels x possible splits
    total_a = runs_of_a[:, None, None]  # rows x 1 x 1
    total_b = runs_of_b[:, None, None]
    at_level = runs_at_level[:, :, None]  # rows x levels x 1
    # split number i has i of a level's runs on side A and the others on side B
    split_count = runs_of_a.max(initial=0) + 1
    possible_a = np.arange(split_count)
    # rows x levels x splits; negative where the level has fewer than i runs: such a
    # split has probability 0
    possible_b = at_level - possible_a
    chance = _compute_hypergeometric(possible_a, possible_b, total_a, total_b)
    # a split's number is how many runs of A it has, so the observed split's is `a`
    observed_split = a[:, :, None]
    observed = np.take_along_axis(chance, observed_split, axis=2)
    limit = observed * (1 + 1e-9)  # equal probabilities differ by rounding
    is_as_unlikely = chance <= limit
    chance_of_unlikely = np.where(is_as_unlikely, chance, 0.0)
    p: Floats = chance_of_unlikely.sum(axis=2)
    return p


def _compute_hypergeometric(a: Ints, b: Ints, total_a: Ints, total_b: Ints) -> Floats:
    """Return how likely it is that of a + b runs at a level, drawn by chance from the
    runs of both sides, exactly `a` are of side A and `b` of side B: the ways to take
    `a` of A's runs and `b` of B's, of all ways to take a + b runs. It is 0 where a side
    does not have so many runs, or `a` or `b` is negative.

    total_a, total_b: how many runs each side has.
    """
    ways_of_a = _log_choose(total_a, a)
    ways_of_b = _log_choose(total_b, b)
    all_ways = _log_choose(total_a + total_b, a + b)
    chance = np.exp(ways_of_a + ways_of_b - all_ways)
    is_possible_a = (a >= 0) & (a <= total_a)
    is_possible_b = (b >= 0) & (b <= total_b)
    return np.where(is_possible_a & is_possible_b, chance, 0.0)


def _log_choose(total: Ints, taken: Ints) -> Floats:
    """Return the logarithm of the binomial coefficient, the number of ways to take
    `taken` of `total`. Where `taken` is negative or more than `total`, the result means
    nothing, and the caller must drop it.
    """
    # clipped at 0, since a factorial of a negative number is infinite
    taken_or_0 = np.maximum(taken, 0)
    left_or_0 = np.maximum(total - taken, 0)
    # gammaln(n + 1) is the logarithm of the factorial of n
    log_factorial: Floats = special.gammaln(total + 1)
    log_factorial_taken = special.gammaln(taken_or_0 + 1)
    log_factorial_left = special.gammaln(left_or_0 + 1)
    ways: Floats = log_factorial - log_factorial_taken - log_factorial_left
    return ways


def compute_level_probability(
    runs: Floats | Ints, total: Floats | Ints, rate: Floats | float
) -> Floats:
    """Return the probability that `runs` or more of `total` are at another level by
    chance. The last axis of the arrays is the sides. Their probabilities are summed,
    and the sum is limited to 1.

    rate: the probability that a run is at another level.
    """
    at_least_one = np.maximum(total, 1)
    trials = at_least_one.astype(np.int64)
    # the binomial tail: the probability of more than runs - 1, so of `runs` or more
    tails: Floats = special.bdtrc(runs - 1, trials, rate)
    sums = tails.sum(axis=-1)
    return np.asarray(sums.clip(max=1))

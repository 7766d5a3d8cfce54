"""Judge changes from side A to side B by textbook statistics (docs/comparing.md).

Arrays hold logarithms: a row per number to judge, a column per run in order of time,
NaN where a run lacks it. `verdicts` makes tables of the results; `history` and
`siblings` also use the levels, variances and q.
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
    """Number the pass of each run. A pass ends once it has both sides; runs left over
    join the last pass.

    minimum: if there are fewer passes, all runs are in pass 0.
    """
    passes = []
    complete = 0  # passes so far
    sides_of_pass = set[bool]()
    for side in is_b.tolist():
        passes.append(complete)
        sides_of_pass.add(side)
        if len(sides_of_pass) == 2:
            complete += 1
            sides_of_pass.clear()
    if complete < minimum:
        return np.zeros(len(is_b), dtype=np.int64)
    last_complete = max(complete - 1, 0)
    pass_of_run = np.array(passes, dtype=np.int64)
    return np.minimum(pass_of_run, last_complete)


def estimate_session_shifts(rows: Floats, labels: Ints, is_b: Bools) -> Floats:
    """Estimate the shift that all rows share in each run; 0 for all if shifts are too
    small to subtract.

    A row's shift is its distance from the mean of three or more runs at its level; a
    run's is their median. The variance of shifts must reach a tenth of a row's and
    twice what chance gives a median of so many rows.
    """
    distances = _measure_distances_from_levels(rows, labels)
    medians = compute_nanmedian(distances, axis=0)
    shifts = np.nan_to_num(medians)
    variance = _average_variances([shifts[is_b], shifts[~is_b]])
    # the median of n normal values has pi / 2n of the variance of one; twice that
    share_by_chance = np.pi / max(len(rows), 1)
    least_share = max(SESSION_SHARE, share_by_chance)
    scatter = _estimate_scatter_of_sides(rows, is_b)
    least_variance = least_share * scatter**2
    if variance >= least_variance > 0:
        return shifts
    return np.zeros_like(shifts)


def _estimate_scatter_of_sides(rows: Floats, is_b: Bools) -> Any:
    """Estimate the scatter of rows within the sides."""
    # the sides as rows of their own, so that a change does not count as scatter
    rows_of_a = np.where(is_b, np.nan, rows)
    rows_of_b = np.where(is_b, rows, np.nan)
    sides = np.vstack([rows_of_a, rows_of_b])
    return estimate_scatter(sides)


def _average_variances(samples: Sequence[Floats]) -> float:
    """Return the mean variance of the samples of two values or more, 0 without any."""
    variances = [sample.var(ddof=1) for sample in samples if len(sample) > 1]
    if not variances:
        return 0.0
    return float(np.mean(variances))


def _measure_distances_from_levels(rows: Floats, labels: Ints) -> Floats:
    """Measure how far each run is from the mean of its level in its row; NaN at levels
    of fewer than three runs.
    """
    distances = np.full(rows.shape, np.nan)
    last_level = int(labels.max(initial=0))
    for level in range(last_level + 1):
        is_at_level = labels == level
        counts = is_at_level.sum(axis=1, keepdims=True)
        is_used = is_at_level & (counts >= MIN_RUNS)
        rows_at_level = np.where(is_used, rows, np.nan)
        means = compute_nanmean(rows_at_level, axis=1)
        distances_at_level = rows - means[:, None]
        distances = np.where(is_used, distances_at_level, distances)
    return distances


def fit_within_blocks(values: Floats, is_b: Bools, blocks: Ints) -> LeastSquares:
    """Fit an effect per block and per side to rows without NaN. values: rows x runs.
    blocks: of each run.
    """
    # taking the block means out of values and sides leaves a regression through 0 with
    # the side as its only variable
    one_row = is_b.astype(float)[None, :]
    side = _subtract_block_means(one_row, blocks)[0]
    centred = _subtract_block_means(values, blocks)
    side_squares = float(side @ side)
    has_both_sides = side_squares > 1e-12  # in any block; else 0 but for rounding
    freedom = len(is_b) - len(np.unique(blocks)) - 1
    if not has_both_sides or freedom < 1:
        return LeastSquares.make_unknown(len(values))
    # not `centred @ side`, whose last digit depends on how many rows there are
    products = (centred * side).sum(axis=1)
    change = products / side_squares
    residuals = centred - np.outer(change, side)
    squares = (residuals**2).sum(axis=1)
    return LeastSquares(
        change,
        scale=np.full_like(change, 1 / side_squares),
        variance=np.maximum(squares / freedom, ROUNDING),
        freedom=np.full_like(change, freedom),
    )


def _subtract_block_means(rows: Floats, blocks: Ints) -> Floats:
    """Return how far each run is from the mean of its block. blocks: of each column."""
    centred = rows.copy()
    for block in np.unique(blocks):
        is_in_block = blocks == block
        own = centred[:, is_in_block]
        means = own.mean(axis=1, keepdims=True)
        centred[:, is_in_block] = own - means
    return centred


def moderate_variances(variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Shrink variances towards a common one; return them and their new freedom.

    By the empirical Bayes method of Smyth, SAGMB 3, 2004 (limma): the scatter of the
    logarithms of the variances, beyond that of chance, tells how many degrees of
    freedom the common variance counts for.
    """
    if len(variances) < 3:
        return variances, freedom
    half = freedom / 2
    # the logarithm of a chi-squared variance has the mean digamma(half) - log(half) and
    # the variance trigamma(half)
    logs = np.log(variances) - special.digamma(half) + np.log(half)
    variance_by_chance = special.polygamma(1, half).mean()
    excess = logs.var(ddof=1) - variance_by_chance
    all_freedom = freedom.sum()
    if excess <= 0:  # chance explains all of the scatter: all have one variance
        common = np.exp(logs.mean())
        return np.full(len(logs), common), np.full(len(logs), all_freedom)
    prior_variance, prior_freedom = _estimate_prior(logs.mean(), excess)
    joined_freedom = freedom + prior_freedom
    # the mean of both variances, weighted by their freedom
    weighted = prior_freedom * prior_variance + freedom * variances
    moderated = weighted / joined_freedom
    return moderated, np.minimum(joined_freedom, all_freedom)


def _estimate_prior(mean: Any, excess: float) -> tuple[Any, float]:
    """Return the common variance and the degrees of freedom that it counts for. mean,
    excess: of the logarithms of variances, without what is due to chance.
    """
    half = _invert_trigamma(excess)
    offset = special.digamma(half) - np.log(half)
    return np.exp(mean + offset), 2 * half


def moderate_where(
    is_tested: Bools, variances: Floats, freedom: Floats
) -> tuple[Floats, Floats]:
    """Do as `moderate_variances` with those that are tested; NaN for the others."""
    tested, freedom_of_tested = moderate_variances(
        variances[is_tested], freedom[is_tested]
    )
    moderated = np.full(variances.shape, np.nan)
    moderated[is_tested] = tested
    new_freedom = np.full(variances.shape, np.nan)
    new_freedom[is_tested] = freedom_of_tested
    return moderated, new_freedom


def _invert_trigamma(value: float) -> float:
    """Return the number whose trigamma function is `value`, by Newton's method."""
    number = 0.5 + 1 / value
    for _ in range(50):
        trigamma = special.polygamma(1, number)
        slope = special.polygamma(2, number)
        step = trigamma * (1 - trigamma / value) / slope
        if number + step == number:
            break
        number += step
    return float(number)


def control_false_discovery(p: Floats) -> Floats:
    """Return Benjamini and Hochberg's q of each p, NaN for NaN. Of all q < 0.05, at
    most 1 in 20 is false.
    """
    tested = np.flatnonzero(~np.isnan(p))
    count = len(tested)
    largest_first = np.argsort(-p[tested])
    places = tested[largest_first]
    rank = np.arange(count, 0, -1)  # of the smallest p: 1
    adjusted = p[places] * count / rank
    # a smaller p never has a larger q
    least_so_far = np.minimum.accumulate(adjusted)
    q = np.full(len(p), np.nan)
    q[places] = least_so_far.clip(max=1)
    return q


def estimate_detectable_change(
    error: Floats, freedom: Floats, alpha: float, matters: float
) -> Floats:
    """Return the change, a logarithm, that 8 of 10 comparisons find with p < `alpha`
    and beyond `matters`.
    """
    critical_t = special.stdtrit(freedom, 1 - alpha / 2)
    significant = critical_t * error
    limit = np.maximum(significant, matters)
    # an estimate of a change so much beyond the limit is above it 8 times of 10
    margin = special.stdtrit(freedom, POWER) * error
    return np.asarray(limit + margin)


def find_chance_limits(a: Floats, b: Floats, relations: Iterable[object]) -> Floats:
    """Return how far chance may move each pair from its relation; 1 map in 20 has a
    pair beyond that.

    a, b: logarithms, a row per pair, a column per run. With three runs a side, limits
    come from the scatter of runs, moderated over the relation; with fewer, from the
    scatter of its pairs (inf below eight pairs).
    """
    names = np.array(list(relations), dtype=object)
    limits = np.full(len(a), np.inf)
    alpha = ALPHA / max(len(a), 1)  # Bonferroni: every pair is looked at
    fewest_runs = min(a.shape[1], b.shape[1])
    for relation in dict.fromkeys(names):
        is_own = names == relation
        from_median_a = _subtract_medians_of_runs(a[is_own])
        from_median_b = _subtract_medians_of_runs(b[is_own])
        if fewest_runs >= MIN_RUNS:
            limits[is_own] = _limit_by_runs(from_median_a, from_median_b, alpha)
        elif is_own.sum() >= _MIN_PAIRS:
            changes = from_median_b.mean(axis=1) - from_median_a.mean(axis=1)
            limits[is_own] = _limit_by_pairs(changes, alpha)
    return limits


def _subtract_medians_of_runs(pairs: Floats) -> Floats:
    """Return how far each pair is from the median of all in the same run."""
    medians = np.median(pairs, axis=0)
    return np.asarray(pairs - medians)


def _limit_by_runs(a: Floats, b: Floats, alpha: float) -> Floats:
    """Return the limit of each pair from the scatter of its runs."""
    runs = np.hstack([a, b])
    is_b = np.arange(runs.shape[1]) >= a.shape[1]
    one_block = np.zeros(len(is_b), dtype=np.int64)
    fit = fit_within_blocks(runs, is_b, one_block)
    variance, freedom = moderate_variances(fit.variance, fit.freedom)
    error = np.sqrt(variance * fit.scale)
    critical_t = -special.stdtrit(freedom, alpha / 2)
    return np.asarray(critical_t * error)


def _limit_by_pairs(changes: Floats, alpha: float) -> float:
    """Return the limit of all pairs from how their changes scatter."""
    distances = np.abs(changes - np.median(changes))
    median_distance = np.median(distances)
    # of a symmetric distribution, the median distance is that of its quartile
    farthest = special.stdtrit(_TAILS, alpha / 2)
    quartile = special.stdtrit(_TAILS, 0.25)
    return float(farthest / quartile * median_distance)


def compute_nanmedian(values: Floats, axis: int) -> Floats:
    """Return the median, ignoring NaN; NaN if none is left."""
    is_value = ~np.isnan(values)
    count = is_value.sum(axis=axis, keepdims=True)
    length = values.shape[axis]
    if not length:
        return np.full(count.squeeze(axis).shape, np.nan)
    ordered = np.sort(values, axis=axis)  # NaN last
    # the places of the two middle values; of an odd count both are the same, and
    # without values both are NaN
    below_middle = np.maximum(count - 1, 0) // 2
    above_middle = np.minimum(count // 2, length - 1)
    low = np.take_along_axis(ordered, below_middle, axis=axis)
    high = np.take_along_axis(ordered, above_middle, axis=axis)
    sums = (low + high).squeeze(axis)
    return np.asarray(sums / 2)


def compute_nanmean(values: Floats, axis: int) -> Floats:
    """Return the mean, ignoring NaN; NaN if no value is left."""
    is_value = ~np.isnan(values)
    counts = is_value.sum(axis=axis)
    sums = np.nansum(values, axis=axis)
    divisor = np.where(counts > 0, counts, np.nan)
    return np.asarray(sums / divisor)


def apply_student(
    change: Floats, error: Floats, freedom: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the low and the high end of each change's 95 % interval, and its p, by
    Student's t.
    """
    critical_t = special.stdtrit(freedom, 1 - ALPHA / 2)
    half = critical_t * error
    t = np.abs(change) / error
    p = 2 * special.stdtr(freedom, -t)
    return change - half, change + half, p


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
    each run, to subtract, for all rows or for each. Return the columns of
    `LeastSquares`; `levels`, how many there are; `are_apart`, whether different levels
    were compared; `shares`, from `compute_share_probability`; `whole`, the change of
    the mean over all levels; for a and for b, `a_ns`, the mean of `a_compared` runs at
    the level that was compared, and `a_runs` of the `a_units` runs are at the side's
    main level.
    """
    fits = _Fits.make_empty(len(rows))
    without_shifts = rows - session
    are_blocks_asked = blocks is not None
    for places in _group_equal_rows(labels):
        levels = labels[places[0]]
        choice = _choose_levels(levels, is_b, blocks)
        fits.note_levels(places, choice)
        if _has_enough_runs(choice, is_b, are_blocks_asked=are_blocks_asked):
            values = without_shifts[places]
            fits.least_squares[:, places] = choice.fit(values, is_b)
    a = _Side.select("a", rows, labels, ~is_b)
    b = _Side.select("b", rows, labels, is_b)
    columns_of_fit = LeastSquares(*fits.least_squares)._asdict()
    return {
        **columns_of_fit,
        "levels": labels.max(axis=1, initial=0) + 1,
        "are_apart": fits.are_apart,
        "shares": compute_share_probability(a.counts, b.counts),
        "whole": b.compute_means() - a.compute_means(),
        **a.describe(fits.level_of_a),
        **b.describe(fits.level_of_b),
    }


@dataclass(frozen=True, slots=True)
class _Fits:
    """What was compared of each row, and its change. least_squares: a row per field of
    `LeastSquares`.
    """

    least_squares: Floats
    are_apart: Bools
    level_of_a: Ints
    level_of_b: Ints

    @classmethod
    def make_empty(cls, count: int) -> "_Fits":
        """Return the fits of `count` rows of which nothing is compared."""
        least_squares = np.array(LeastSquares.make_unknown(count))
        return cls(
            least_squares=least_squares,
            are_apart=np.zeros(count, dtype=bool),
            level_of_a=np.zeros(count, dtype=np.int64),
            level_of_b=np.zeros(count, dtype=np.int64),
        )

    def note_levels(self, places: Sequence[int], choice: "_Choice") -> None:
        """Note which levels of these rows are compared."""
        self.are_apart[places] = choice.are_apart
        self.level_of_a[places] = choice.level_of_a
        self.level_of_b[places] = choice.level_of_b


def _group_equal_rows(labels: Ints) -> list[list[int]]:
    """Return the places of equal rows, a list per distinct row; these are fitted at
    once.
    """
    places_by_row = dict[bytes, list[int]]()
    for place, row in enumerate(labels):
        places = places_by_row.setdefault(row.tobytes(), [])
        places.append(place)
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

    def fit(self, values: Floats, is_b: Bools) -> LeastSquares:
        """Fit the change of rows in the chosen runs. values: rows x all runs."""
        is_used = self.blocks >= 0
        used_values = values[:, is_used]
        return fit_within_blocks(used_values, is_b[is_used], self.blocks[is_used])


def _choose_levels(levels: Ints, is_b: Bools, asked_blocks: Ints | None) -> _Choice:
    """Choose the runs to compare: those at levels that both sides have twice, else
    those at the sides' main levels. levels, is_b: of each run; level -1: no number.
    asked_blocks: the blocks that the user asked for, if any.
    """
    blocks = asked_blocks
    if blocks is None:
        blocks = assign_passes(is_b, MIN_PASSES)
    has_number = levels >= 0
    count = int(levels.max(initial=0)) + 1
    if count == 1:
        common_blocks = _keep_common_blocks(blocks, has_number, is_b)
        return _Choice(common_blocks, 0, 0, are_apart=False)
    counts_of_a = _count_levels(levels[has_number & ~is_b], count)
    counts_of_b = _count_levels(levels[has_number & is_b], count)
    is_shared = np.minimum(counts_of_a, counts_of_b) >= MIN_AT_LEVEL
    if not is_shared.any():
        return _choose_main_levels(levels, is_b, blocks, (counts_of_a, counts_of_b))
    counts = counts_of_a + counts_of_b
    shared_counts = np.where(is_shared, counts, 0)
    commonest = int(shared_counts.argmax())
    is_used = has_number & is_shared[levels]
    blocks_of_levels = _make_blocks_of_levels(levels, asked_blocks)
    common_blocks = _keep_common_blocks(blocks_of_levels, is_used, is_b)
    return _Choice(common_blocks, commonest, commonest, are_apart=False)


def _count_levels(levels: Ints, count: int) -> Ints:
    """Return how many runs are at each of `count` levels. levels: of each run."""
    return np.bincount(levels, minlength=count)


def _make_blocks_of_levels(levels: Ints, asked_blocks: Ints | None) -> Ints:
    """Make each level a block, or each level in each of the blocks asked for."""
    if asked_blocks is None:
        return levels
    count = int(levels.max(initial=0)) + 1
    first_of_block = count * asked_blocks
    return np.asarray(first_of_block + levels)


def _choose_main_levels(
    levels: Ints, is_b: Bools, blocks: Ints, counts: tuple[Ints, Ints]
) -> _Choice:
    """Choose the runs at the main level of each side, if these differ and each has more
    than half of its side's runs. counts: of the runs of A and of B at each level.
    """
    counts_of_a, counts_of_b = counts
    main_of_a = int(counts_of_a.argmax())
    main_of_b = int(counts_of_b.argmax())
    both_have_most = _has_most_runs(counts_of_a) and _has_most_runs(counts_of_b)
    if main_of_a == main_of_b or not both_have_most:
        no_blocks = np.full(len(levels), -1)
        return _Choice(no_blocks, main_of_a, main_of_b, are_apart=False)
    main_of_side = np.where(is_b, main_of_b, main_of_a)
    is_used = levels == main_of_side
    is_at_other_level = (levels >= 0) & ~is_used
    if is_at_other_level.any():  # passes without these runs are not whole: one block
        blocks = np.zeros_like(blocks)
    common_blocks = _keep_common_blocks(blocks, is_used, is_b)
    return _Choice(common_blocks, main_of_a, main_of_b, are_apart=True)


def _has_most_runs(counts: Ints) -> bool:
    """Report whether the main level has more than half of the runs. counts: at each
    level.
    """
    return bool(2 * counts.max() > counts.sum())


def _keep_common_blocks(blocks: Ints, is_used: Bools, is_b: Bools) -> Ints:
    """Return each used run's block; -1 for runs of blocks that one side lacks."""
    blocks_of_a = blocks[is_used & ~is_b]
    blocks_of_b = blocks[is_used & is_b]
    common = np.intersect1d(blocks_of_a, blocks_of_b)
    is_in_common = is_used & np.isin(blocks, common)
    return np.where(is_in_common, blocks, -1)


def _has_enough_runs(choice: _Choice, is_b: Bools, *, are_blocks_asked: bool) -> bool:
    """Report whether the chosen runs can be compared: two of each side. Unless the user
    asked for the blocks, each side must have three runs in all.
    """
    is_used = choice.blocks >= 0
    used_runs_of_a = (is_used & ~is_b).sum()
    used_runs_of_b = (is_used & is_b).sum()
    if min(used_runs_of_a, used_runs_of_b) < MIN_AT_LEVEL:
        return False
    runs_of_b = is_b.sum()
    runs_of_a = len(is_b) - runs_of_b
    return are_blocks_asked or bool(min(runs_of_a, runs_of_b) >= MIN_RUNS)


@dataclass(frozen=True, slots=True)
class _Side:
    """The runs of one side. logs, labels: a row per number, a column per run. counts:
    how many of the runs are at each level, a column per level.
    """

    letter: str
    logs: Floats
    labels: Ints
    counts: Ints

    @classmethod
    def select(cls, letter: str, rows: Floats, labels: Ints, is_own: Bools) -> "_Side":
        """Select the columns of a side from those of both."""
        labels_of_side = labels[:, is_own]
        last_level = labels.max(initial=0)
        counts = []
        for level in range(last_level + 1):
            is_at_level = labels_of_side == level
            counts.append(is_at_level.sum(axis=1))
        logs = rows[:, is_own]
        return cls(letter, logs, labels_of_side, np.stack(counts, axis=1))

    def compute_means(self) -> Floats:
        """Compute the mean over all levels of each row."""
        return compute_nanmean(self.logs, axis=1)

    def describe(self, level: Ints) -> dict[str, Any]:
        """Return the columns of this side. level: the one to show of each row."""
        is_compared = self.labels == level[:, None]
        logs = np.where(is_compared, self.logs, np.nan)
        means = compute_nanmean(logs, axis=1)
        return {
            f"{self.letter}_runs": self.counts.max(axis=1),
            f"{self.letter}_units": self.counts.sum(axis=1),
            f"{self.letter}_ns": np.exp(means),
            f"{self.letter}_compared": is_compared.sum(axis=1),
        }


def compute_share_probability(a: Ints, b: Ints) -> Floats:
    """Return how likely two sides with the same share of runs at a level differ as
    these do, or more: the least of all levels, by Fisher's exact test (two-sided).

    a, b: how many runs of each side are at each level, rows x levels.
    """
    counts = np.stack([a, b], axis=1)
    # most rows have the counts of another: each distinct one is tested once
    distinct, place_of_row = np.unique(counts, axis=0, return_inverse=True)
    distinct_a = distinct[:, 0]
    distinct_b = distinct[:, 1]
    p = _test_by_fisher(distinct_a, distinct_b)
    least_p = p.min(axis=1, initial=1.0)
    p_of_row = least_p[place_of_row.reshape(-1)]
    return np.asarray(p_of_row)


def _test_by_fisher(a: Ints, b: Ints) -> Floats:
    """Return p of each count of A, rows x levels, by Fisher's exact test: of all tables
    with the same sums, the probability of those as unlikely as the observed one. Arrays
    have a third axis: a table per number of runs of A that might be at the level.
    """
    total_a = a.sum(axis=1)[:, None, None]
    total_b = b.sum(axis=1)[:, None, None]
    at_level = (a + b)[:, :, None]
    possible_a = np.arange(total_a.max(initial=0) + 1)
    possible_b = at_level - possible_a
    chance = _compute_hypergeometric(possible_a, possible_b, total_a, total_b)
    observed = np.take_along_axis(chance, a[:, :, None], axis=2)
    limit = observed * (1 + 1e-9)  # equal ones differ by rounding
    is_as_unlikely = chance <= limit
    chance_of_unlikely = np.where(is_as_unlikely, chance, 0.0)
    p: Floats = chance_of_unlikely.sum(axis=2)
    return p


def _compute_hypergeometric(a: Ints, b: Ints, total_a: Ints, total_b: Ints) -> Floats:
    """Return how likely `a` runs of side A and `b` of side B are at a level, if so many
    of all runs are; 0 for impossible numbers.
    """
    ways_of_a = _log_choose(total_a, a)
    ways_of_b = _log_choose(total_b, b)
    all_ways = _log_choose(total_a + total_b, a + b)
    chance = np.exp(ways_of_a + ways_of_b - all_ways)
    is_possible_a = a <= total_a
    is_possible_b = (b >= 0) & (b <= total_b)
    return np.where(is_possible_a & is_possible_b, chance, 0.0)


def _log_choose(total: Ints, taken: Ints) -> Floats:
    """Return the logarithm of the binomial coefficient, the number of ways to take so
    many of `total`; of impossible ones any number.
    """
    # of impossible ones no factorial is of a negative number
    left = np.maximum(total - taken, 0)
    log_factorial: Floats = special.gammaln(total + 1)
    log_factorial_taken = special.gammaln(np.maximum(taken, 0) + 1)
    log_factorial_left = special.gammaln(left + 1)
    ways: Floats = log_factorial - log_factorial_taken - log_factorial_left
    return ways


def compute_level_probability(
    runs: Floats, total: Floats | Ints, rate: Floats | float
) -> Floats:
    """Return the probability that `runs` or more of `total` are at another level,
    summed over the sides, the last axis. rate: how often a run is.
    """
    trials = np.maximum(total, 1).astype(np.int64)
    # of the binomial distribution: more than runs - 1
    tails: Floats = special.bdtrc(runs - 1, trials, rate)
    sums = tails.sum(axis=-1)
    return np.asarray(sums.clip(max=1))

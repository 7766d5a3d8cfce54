"""Compute the 95 % interval of the mean of a few values in order of time, for one or
many rows.

The values are the medians of a pair's bursts; docs/measuring.md explains what the
interval promises. The agent does the same (agent/base/interval.c) to decide when a pair
has been measured often enough.
"""

from math import sqrt

import numpy as np

from fleet.analysis.base.tables import Floats, Ints

AUTOCORRELATION_MARGIN = 1.3  # standard errors of a correlation, 1 / sqrt(count) each
MAX_AUTOCORRELATION = 0.8
MIN_EFFECTIVE = 3.0
MIN_RUNS = 3  # for an interval between runs, or a verdict


# the 97.5 % points of Student's t for 1, 2, … degrees of freedom
_STUDENT_T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)


def student_t(freedom: int) -> float:
    """Return the 97.5 % point of Student's t: half a 95 % interval in standard errors,
    since 2.5 % lie beyond each end. freedom: the degrees of freedom; NaN below one.
    """
    if freedom < 1:
        return float("nan")
    if freedom <= len(_STUDENT_T):
        return _STUDENT_T[freedom - 1]
    return _expand_student_t(freedom)


def _expand_student_t(freedom: int) -> float:
    """Compute `student_t` beyond the table by the expansion in 1/freedom (Abramowitz
    and Stegun 26.7.5), which is right to three decimals there.
    """
    x = 1.959964  # the 97.5 % point of the normal distribution
    first = (x**3 + x) / 4
    second = (5 * x**5 + 16 * x**3 + 3 * x) / 96
    third = (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384
    return x + first / freedom + second / freedom**2 + third / freedom**3


def estimate_autocorrelation(deviations: Floats) -> Floats:
    """Estimate for each row the correlation r of neighbours that would by itself
    explain all correlation in the row; -1 if all values of the row are equal.

    deviations: rows of distances from the row's mean, in order of time.
    """
    squares = (deviations**2).sum(axis=1)
    sum_above_lag_0 = _sum_products_above_lag_0(deviations, squares)
    # The correlation at a lag is its sum of products divided by `squares`. Let t be the
    # sum of the correlations at lags above 0: t = sum_above_lag_0 / squares. If lag k
    # has the correlation r**k, then t = r / (1 - r), so that r = t / (1 + t):
    # r = sum_above_lag_0 / sum_of_all_lags. If t is below 0, r is taken to be t.
    sum_of_all_lags = squares + sum_above_lag_0
    denominator = np.where(sum_above_lag_0 > 0, sum_of_all_lags, squares)
    correlation: Floats = np.full(len(deviations), -1.0)
    np.divide(sum_above_lag_0, denominator, out=correlation, where=squares > 0)
    return correlation


def _sum_products_above_lag_0(deviations: Floats, squares: Floats) -> Floats:
    """Return for each row the sum of the products of two values some places apart, over
    all lags above 0 that are not noise.

    The products are added up two lags at a time (0 and 1, 2 and 3, …), until two lags
    have a sum that is not above 0. From there on, the sums are noise (C. J. Geyer,
    Stat. Sci. 7 (1992)). squares: the sum of squares of each row.
    """
    count = deviations.shape[1]
    # The loop adds lag 0, too, which is the sum of squares: subtract it beforehand.
    # Every row adds it, unless all its values are 0, since lag 1 is never as far below
    # 0 as lag 0 is above.
    sum_above_lag_0 = -squares
    is_summing = squares > 0
    for lag in range(0, count - 1, 2):
        two_lags = _sum_products(deviations, lag) + _sum_products(deviations, lag + 1)
        is_summing = is_summing & (two_lags > 0)
        if not is_summing.any():
            break
        sum_above_lag_0 += np.where(is_summing, two_lags, 0)
    return sum_above_lag_0


def _sum_products(rows: Floats, lag: int) -> Floats:
    """Return for each row the sum of the products of two values `lag` places apart."""
    count = rows.shape[1]
    later = rows[:, lag:]
    earlier = rows[:, : count - lag]
    products: Floats = np.einsum("ij,ij->i", later, earlier)
    return products


def count_effective(count: int, autocorrelation: Floats | float) -> Floats:
    """Return how many independent values have a mean as variable as the mean of `count`
    correlated values.

    If neighbours correlate by r, and values k places apart by r**k (first-order
    autoregression), these are count (1 - r) / (1 + r) values. A short row shows too
    little of r, and a measurement that stops at the first narrow interval stops where r
    shows least. So r is raised by a margin. Below 0, it counts as 0.
    """
    margin = AUTOCORRELATION_MARGIN / sqrt(count)
    r = np.clip(autocorrelation + margin, 0.0, MAX_AUTOCORRELATION)
    effective: Floats = count * (1 - r) / (1 + r)
    return effective


def look_up_t(count: int, effective: Floats | float) -> Floats:
    """Return Student's t for a mean of `count` values that are worth as much as
    `effective` independent values. There is a degree of freedom less than these; they
    count as MIN_EFFECTIVE at least, or as `count` if that is less.
    """
    fewest = min(float(count), MIN_EFFECTIVE)
    freedom: Ints = np.maximum(effective, fewest).astype(np.int64) - 1
    return _compute_t_of_each(freedom)


def _compute_t_of_each(freedom: Ints) -> Floats:
    """Return `student_t` of each number of degrees of freedom."""
    distinct, number_of_each = np.unique(freedom, return_inverse=True)
    t_of_distinct = [student_t(int(degrees)) for degrees in distinct]
    return np.array(t_of_distinct, dtype=np.float64)[number_of_each]


def compute_half_widths_of_runs(runs: Ints, scatter: Floats) -> tuple[Floats, Floats]:
    """Compute how far a single run may be from its level, and half the 95 % interval of
    the geometric mean of the level's runs; both as shares, NaN below MIN_RUNS.

    runs: how many runs each level has. scatter: for each level, the standard deviation
    of the logarithms of its runs. exp(x) - 1 makes a share of a half interval x of
    logarithms.
    """
    t = _compute_t_of_each(runs - 1)
    log_half_of_run = np.where(runs >= MIN_RUNS, t * scatter, np.nan)
    log_half_of_mean = log_half_of_run / np.sqrt(runs)
    return np.expm1(log_half_of_run), np.expm1(log_half_of_mean)

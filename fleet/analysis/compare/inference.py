"""The statistical tests of a comparison, on arrays of logarithms, so that a change is a ratio.

One value is one run (docs/comparing.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special, stats  # type: ignore[import-untyped]  # scipy ships no types

LEVEL = 0.05
POWER = 0.8
LEAST_RUNS = 3
# The resolution of the clock bounds the precision of a number; a sample is at least 1,000 clock steps.
_ROUNDING = (0.001**2) / 12
_OWN_SHARE = 0.75  # of the sides' order that a drift must leave, so that it is told from the change
_SOLVER_STEPS = 50
_GRID = 12  # points of each distribution that is averaged over
_HALVINGS = 14
_KNOWN = 0.85  # 1: all that `error` leaves open of the scatter; less brings the share near POWER
_FAR = 20.0  # times the error and the quantile: more than any power needs

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Change:
    """The change from A to B: the `ratio` of their levels, its 95 % interval `low` to `high`, and t's p.

    error, freedom: the standard error of the ratio's logarithm and its degrees of freedom. All but `ratio`
    are NaN with fewer than three values a side.
    """

    ratio: float
    low: float
    high: float
    p: float
    error: float
    freedom: float


def change(a: Floats, b: Floats, freedom: float = np.inf) -> Change:
    """Compare two sides by t on logarithms; a, b: a positive value per run.

    Student's where both sides have as many runs, which unequal scatter hardly disturbs then, else Welch's.
    freedom: if finite, that of values moved to one level, whose scatter is scaled for Student's.
    """
    logs_a, logs_b = np.log(a), np.log(b)
    fewest = LEAST_RUNS - 1 if LEAST_RUNS - 1 <= freedom < np.inf else LEAST_RUNS
    if min(len(a), len(b)) < fewest:
        return _unknown(logs_a, logs_b)
    test = student if len(a) == len(b) or np.isfinite(freedom) else welch
    moved, error, own = test(logs_a, logs_b)
    return _change(float(moved), float(error), min(float(own), freedom))


def student(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """The change from a to b, its standard error and degrees of freedom, if both sides scatter alike.

    a, b: logarithms; the last axis is that of the runs, two of each side at least.
    """
    counts = [side.shape[-1] for side in (a, b)]
    freedom = sum(counts) - 2
    squares = sum(side.var(axis=-1, ddof=1) * (n - 1) for side, n in zip((a, b), counts, strict=True))
    error = np.sqrt(np.maximum(squares / freedom, _ROUNDING) * sum(1 / n for n in counts))
    return b.mean(axis=-1) - a.mean(axis=-1), error, np.full(np.shape(error), float(freedom))


def welch(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """The same if the sides may scatter differently, with Welch's degrees of freedom."""
    errors = [np.maximum(side.var(axis=-1, ddof=1), _ROUNDING) / side.shape[-1] for side in (a, b)]
    square = errors[0] + errors[1]
    freedom = square**2 / sum(e**2 / (side.shape[-1] - 1) for e, side in zip(errors, (a, b), strict=True))
    return b.mean(axis=-1) - a.mean(axis=-1), np.sqrt(square), freedom


def change_in_blocks(
    a: Floats,
    b: Floats,
    blocks_a: Sequence[tuple[str, int]],
    blocks_b: Sequence[tuple[str, int]],
    most: float = np.inf,
) -> Change:
    """Compare two sides within blocks: least squares on logarithms, with effects of the blocks and the side.

    blocks_a, blocks_b: the block of each value and its turn in time. A steady drift over the turns is another
    effect, if the order of the sides tells it from the change and it leaves two degrees of freedom. most:
    degrees of freedom without blocks, of values moved to one level; those that fall short of the runs' are
    lost. NaN with fewer than two, as of two blocks of one run a side.
    """
    if not {block for block, _ in blocks_a} & {block for block, _ in blocks_b}:
        return _unknown(np.log(a), np.log(b))
    of_b = np.repeat([0.0, 1.0], [len(a), len(b)])
    names, turns = zip(*blocks_a, *blocks_b, strict=True)
    _, group = np.unique(names, return_inverse=True)
    logs = np.log(np.concatenate([a, b]))
    moved, error, freedom = within_groups(logs, group, of_b, np.array(turns, dtype=float))
    lost = max(len(logs) - 2 - most, 0)
    error *= (freedom / max(freedom - lost, 1)) ** 0.5
    freedom -= lost
    if freedom < LEAST_RUNS - 1:
        return Change(float(np.exp(moved)), *[float("nan")] * 5)
    return _change(moved, error, freedom)


def within_groups(
    logs: Floats, group: npt.NDArray[np.int64], of_b: Floats, turns: Floats | None = None
) -> tuple[float, float, float]:
    """The change from A to B within groups, its standard error and degrees of freedom (least squares).

    logs: one per run. group: of each run, from 0. of_b: 1 or 0. A group, or more, has runs of both sides.
    turns: as for `change_in_blocks`. The error is NaN without a degree of freedom.
    """
    values, side = centred(logs, group), centred(of_b, group)
    freedom = len(logs) - int(group.max()) - 2
    if turns is not None and freedom >= LEAST_RUNS:
        drift = centred(turns, group)
        shared = float(side @ drift) / (float(drift @ drift) or np.inf)
        apart = side - shared * drift
        if drift.any() and apart @ apart >= _OWN_SHARE * (side @ side):
            values = values - float(values @ drift) / float(drift @ drift) * drift
            side, freedom = apart, freedom - 1
    weight = float(side @ side)
    moved = float(side @ values) / weight
    if freedom < 1:
        return moved, float("nan"), float(freedom)
    variance = max(float(((values - moved * side) ** 2).sum()) / freedom, _ROUNDING)
    return moved, (variance / weight) ** 0.5, float(freedom)


def centred(values: Floats, group: npt.NDArray[np.int64]) -> Floats:
    """The values less the mean of their group; group: of each value, from 0."""
    found: Floats = values - (np.bincount(group, values) / np.bincount(group))[group]
    return found


def _unknown(a: Floats, b: Floats) -> Change:
    """Logarithms of too few values to say more than how far apart they are."""
    return Change(float(np.exp(b.mean() - a.mean())), *[float("nan")] * 5)


def _change(moved: float, error: float, freedom: float) -> Change:
    half = float(special.stdtrit(freedom, 1 - LEVEL / 2)) * error
    low, middle, high = np.exp([moved - half, moved, moved + half]).tolist()
    return Change(middle, low, high, float(2 * stats.t.sf(abs(moved) / error, freedom)), error, freedom)


def beyond_p(moved: Floats, error: Floats, freedom: Floats, matters: Floats) -> Floats:
    """P of each change against a change of just `matters`, in its direction; all on logarithms.

    Below 0.05 where the 95 % interval lies beyond the threshold.
    """
    found: Floats = np.minimum(2 * stats.t.sf((np.abs(moved) - matters) / error, freedom), 1.0)
    return found


def detectable(error: Floats, freedom: Floats, level: float, matters: Floats) -> Floats:
    """The change, as a logarithm, that 8 of 10 comparisons with such runs would call changed.

    That is: p below `level` and the change found above `matters`. Neither the true scatter nor the one that
    another comparison would find is known: given `error` they are chi-square with `freedom`, and the share
    is the mean over both. Of runs that scatter normally, 77 to 84 % are called changed.
    """
    chances = (np.arange(_GRID) + 0.5) / _GRID
    chi = np.sqrt(stats.chi2.ppf(chances, freedom[:, None]) / freedom[:, None])
    true = (error[:, None] / chi**_KNOWN)[:, :, None]
    beyond = stats.t.isf(level / 2, freedom)
    least = np.maximum(beyond[:, None, None] * true * chi[:, None, :], matters[:, None, None])
    low, high = np.zeros(len(error)), matters + _FAR * (1 + beyond) * error
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = special.ndtr((middle[:, None, None] - least) / true).mean(axis=(1, 2)) >= POWER
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)


def moderated_p(a: Floats, b: Floats, most: Floats | float = np.inf) -> Floats:
    """Two-sided p of each row's change from a to b, with few runs and many rows.

    a, b: logarithms, a row per pair of one relation, a column per run. most: degrees of freedom of each row
    at most, of values moved to one level; those that fall short of the runs' are lost. The variation common
    to all rows of a run has as many degrees of freedom as there are runs. The variance of a single row is
    poorly known from few runs, so it is shrunk towards that of all rows by an empirical-Bayes prior (G. K.
    Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004)). The two are added (Satterthwaite).
    """
    own = a.shape[1] + b.shape[1] - 2
    together = [side.mean(axis=0, keepdims=True) for side in (a, b)]
    common = float(_pooled(together[0], together[1], own)[0])
    alone = np.maximum(_pooled(a - together[0], b - together[1], own), _ROUNDING)
    freedom, level = prior(alone, own)
    share = 1.0 if np.isinf(freedom) else freedom / (freedom + own)
    alone = share * level + (1 - share) * alone
    joined = (common + alone) ** 2 / (common**2 / own + alone**2 / min(freedom + own, own * len(alone)))
    joined = np.maximum(joined - np.maximum(own - most, 0), 1)
    t = (b.mean(axis=1) - a.mean(axis=1)) / np.sqrt((common + alone) * (1 / a.shape[1] + 1 / b.shape[1]))
    found: Floats = 2 * stats.t.sf(np.abs(t), joined)
    return found


def _pooled(a: Floats, b: Floats, freedom: int) -> Floats:
    """The variance of each row around its side's mean, of both sides together."""
    squares = sum(((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in (a, b))
    return np.asarray(squares / freedom)


def prior(variances: Floats, own: float) -> tuple[float, float]:
    """Degrees of freedom and level of the scaled inverse chi-square that fits the variances' spread.

    own: degrees of freedom of each variance. Zero freedom: no prior (fewer than three variances);
    infinite: they differ no more than expected by chance.
    """
    if len(variances) < 3:
        return 0.0, 1.0
    e = np.log(variances) - special.digamma(own / 2) + np.log(own / 2)
    excess = float(e.var(ddof=1) - special.polygamma(1, own / 2))
    if excess <= 0:
        return float("inf"), float(np.exp(e.mean()))
    half = _inverse_trigamma(excess)
    return 2 * half, float(np.exp(e.mean() + special.digamma(half) - np.log(half)))


def false_discovery(p: Floats) -> Floats:
    """Benjamini and Hochberg's q of each p: of findings with q < 0.05, at most one in twenty is false."""
    return np.asarray(stats.false_discovery_control(p)) if len(p) else np.asarray(p)


def _inverse_trigamma(value: float) -> float:
    """Newton's method on 1/trigamma, which is nearly straight (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(_SOLVER_STEPS):
        trigamma = float(special.polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, x))
        x += step
        if -step < 1e-8 * x:
            break
    return x

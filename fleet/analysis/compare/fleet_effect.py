"""The change over all hosts: a row per relation, of several comparisons of one host each.

Hosts need not change alike, so their changes vary around a mean (random effects). The variance between hosts
is DerSimonian and Laird's (Control. Clin. Trials 7 (1986)), that of the mean Hartung and Knapp's (Stat. Med.
20 (2001)), which does not take the variance between hosts as known. What all hosts of a session have in
common changes all of them alike, and shows only between passes of both sides: that is added, as for data in
clusters both ways (Cameron, Gelbach and Miller, J. Bus. Econ. Stat. 29 (2011)), with Satterthwaite's freedom.
"""

from collections.abc import Collection

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.arrays import Floats, Ints
from fleet.analysis.compare.blocks import by_time
from fleet.analysis.compare.evidence import LEAST_HOSTS, Evidence
from fleet.analysis.compare.inference import interval
from fleet.analysis.compare.run_levels import CLASS

_OF_CHANGE = ("ratio", "low", "high", "p", "error", "freedom", "between", "heterogeneity")
_NONE = {"q_levels": 0.0, "doubt": 0.0, "shared": 1.0}  # of all hosts
_LEAST_PASSES = 4  # to tell by how they differ
COLUMNS = (*CLASS, "hosts", *_OF_CHANGE)


def fleet_effect(evidence: Evidence, comparisons: Collection[int]) -> pd.DataFrame:
    """A row per relation that three hosts or more have with enough runs; comparisons: one of each host.

    `ratio` with its 95 % interval `low`, `high` and `p`: of the mean change of hosts. `between`: the standard
    deviation of the hosts' own changes, relative; `heterogeneity`: I², the share of the variation of the
    changes found that is not chance.
    """
    known = np.flatnonzero(evidence.known & np.isin(evidence.of, list(comparisons)))
    if not len(known):
        return pd.DataFrame(columns=[*COLUMNS, *_NONE])
    own = np.full(len(evidence.rows), np.nan)
    parts, _ = evidence.variances
    own[evidence.known] = np.sqrt(parts[1:].sum(axis=0) * evidence.scale)
    found = []
    for key, part in evidence.rows.iloc[known].groupby(CLASS, sort=False):
        at = part.index.to_numpy()
        if len(at) >= LEAST_HOSTS:
            moved, sessions = np.log(part["ratio"].to_numpy(dtype=float)), evidence.measured[evidence.of[at]]
            found.append((*key, len(at), *mean_change(moved, own[at], *_by_pass(evidence, at), sessions)))
    return pd.DataFrame(found, columns=list(COLUMNS)).assign(**_NONE)


def _by_pass(evidence: Evidence, at: Ints) -> tuple[Floats, Floats]:
    """What each pass of runs of both sides added to these changes by chance, and the freedom of each.

    Alternated sides balance drifts and steps within passes. Where these are too few, each run is one.
    """
    weights, residuals, freedom = evidence.weights[at], evidence.residuals[at], evidence.freedom[at].copy()
    runs, counts = np.nan_to_num(weights * residuals), (~np.isnan(residuals)).sum(axis=1)
    groups = evidence.measured[evidence.of[at]]
    for here in (groups == group for group in np.unique(groups)):
        passes = np.array(by_time(np.nansum(weights[here], axis=0) > 0))
        if (count := passes.max() + 1) >= _LEAST_PASSES:
            runs[here] = runs[here] @ (passes[:, None] == np.arange(len(passes)))
            counts[here], freedom[here] = count, np.minimum(freedom[here], count - 1)
    return runs * np.sqrt(counts / freedom)[:, None], freedom


def mean_change(
    changes: Floats, errors: Floats, passes: Floats, freedom: Floats, measured: Ints
) -> tuple[float, ...]:
    """The mean ratio with interval, p, error and freedom, the relative deviation between hosts, and I².

    changes: of the hosts, as logarithms. errors: of each, but for what hosts have in common. passes: what
    each pass of runs added to the change of its host by chance, a row per host. freedom: of each host's
    passes. measured: the hosts whose passes are the same.
    """
    count, fixed = len(changes), 1 / errors**2
    mean = float((fixed * changes).sum() / fixed.sum())
    scatter = float((fixed * (changes - mean) ** 2).sum())
    excess = scatter - (count - 1)
    between = max(excess / float(fixed.sum() - (fixed**2).sum() / fixed.sum()), 0.0)
    weights = 1 / (errors**2 + between)
    weights /= weights.sum()
    mean = float((weights * changes).sum())
    of_hosts = float((weights * (changes - mean) ** 2).sum()) / (count - 1)
    parts = weights[:, None] * passes
    sums = np.array([parts[measured == each].sum(axis=0) for each in np.unique(measured)])
    of_sessions, alone = float((sums**2).sum()), float((parts**2).sum())
    common = max(of_sessions - alone, 0.0) / (1 - float((weights**2).sum()))
    variance = of_hosts + common
    of_common = float(freedom.mean()) * len(sums)
    left = variance**2 / (of_hosts**2 / (count - 1) + common * of_sessions / of_common)
    error, left = variance**0.5, max(left, 1.0)
    low, high = np.exp(interval(np.array(mean), np.array(error), left))
    p = float(2 * special.stdtr(left, -abs(mean) / error)) if error else 1.0
    share = max(excess / scatter, 0.0) if scatter else 0.0
    return float(np.exp(mean)), float(low), float(high), p, error, left, float(np.expm1(between**0.5)), share

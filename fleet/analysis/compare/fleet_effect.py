"""The change over all hosts: a row per relation, of several comparisons of one host each.

Hosts need not change alike, so their changes vary around a mean (random effects). The variance between hosts
is DerSimonian and Laird's (Control. Clin. Trials 7 (1986)), that of the mean Hartung and Knapp's (Stat. Med.
20 (2001)), which does not take the variance between hosts as known. What all hosts of a session have in
common changes all of them alike, and shows only between runs: that is added, as for data in clusters both
ways (Cameron, Gelbach and Miller, J. Bus. Econ. Stat. 29 (2011)), moderated over relations, with
Satterthwaite's freedom.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.compare.evidence import LEAST_HOSTS, Evidence
from fleet.analysis.compare.inference import added, interval, moderated
from fleet.analysis.compare.run_levels import CLASS
from fleet.analysis.tables import Floats, Ints

_OF_CHANGE = ("ratio", "low", "high", "p", "error", "freedom", "between", "heterogeneity")
_NONE = {"q_levels": 0.0, "doubt": 0.0, "shared": 1.0}  # of all hosts
COLUMNS = (*CLASS, "hosts", *_OF_CHANGE)


class OfHosts(NamedTuple):
    """The changes of a relation on each host, as logarithms.

    errors: of each, but for what hosts have in common. runs: what each run added to the change of its host
    by chance, a row per host. freedom: of each host's residuals. measured: the hosts whose runs are the same.
    """

    changes: Floats
    errors: Floats
    runs: Floats
    freedom: Floats
    measured: Ints


def fleet_effect(evidence: Evidence, comparisons: Collection[int]) -> pd.DataFrame:
    """A row per relation that three hosts or more have with enough runs; comparisons: one of each host.

    `ratio` with its 95 % interval `low`, `high` and `p`: of the mean change of hosts. `between`: the standard
    deviation of the hosts' own changes, relative; `heterogeneity`: I², the share of the variation of the
    changes found that is not chance.
    """
    known = np.flatnonzero(evidence.known & np.isin(evidence.of, list(comparisons)))
    if not len(known):
        return pd.DataFrame(columns=[*COLUMNS, *_NONE])
    own, moved = np.full(len(evidence.rows), np.nan), np.log(evidence.rows["ratio"].to_numpy(dtype=float))
    parts, _ = evidence.variances
    own[evidence.known] = np.sqrt(parts[1:].sum(axis=0) * evidence.scale)
    of_class = evidence.rows.iloc[known].groupby(CLASS, sort=False)
    members = {key: part.index.to_numpy() for key, part in of_class if len(part) >= LEAST_HOSTS}
    runs, freedom = np.nan_to_num(evidence.residuals), evidence.freedom
    runs[evidence.known] *= np.sqrt(evidence.scale / freedom[evidence.known])[:, None]
    hosts = [
        OfHosts(moved[at], own[at], runs[at], freedom[at], evidence.measured[evidence.of[at]])
        for at in members.values()
    ]
    found = [
        (*key, len(at), *mean) for (key, at), mean in zip(members.items(), mean_changes(hosts), strict=True)
    ]
    return pd.DataFrame(found, columns=list(COLUMNS)).assign(**_NONE)


def mean_changes(relations: Sequence[OfHosts]) -> list[tuple[float, ...]]:
    """Of each relation the mean ratio, interval, p, error, freedom, relative deviation of hosts, and I²."""
    weighted, shared, sums = [_weights(one) for one in relations], [], []
    for at, (one, (weights, *_)) in enumerate(zip(relations, weighted, strict=True)):
        for group in np.flatnonzero(np.bincount(one.measured) > 1):
            here = one.measured == group
            parts, known = weights[here, None] * one.runs[here], float(one.freedom[here].mean())
            shared.append((at, group, known, float((parts**2).sum())))
            sums.append(parts.sum(axis=0) * known**0.5)
    found, of = np.empty((3, 0)), np.array([at for at, *_ in shared], dtype=np.int64)
    if shared:
        _, groups, freedom, alone = np.array(shared).T
        of_session = np.unique(groups, return_inverse=True)[1]
        found = np.array([*added(*moderated(np.array(sums), freedom, [of_session])), alone])
    return [_mean(one, *weighted[at], *found[:, of == at]) for at, one in enumerate(relations)]


def _weights(one: OfHosts) -> tuple[Floats, float, float]:
    """The weights of the hosts in their mean, the deviation between hosts, and I²."""
    count, fixed = len(one.changes), 1 / one.errors**2
    mean = float((fixed * one.changes).sum() / fixed.sum())
    scatter = float((fixed * (one.changes - mean) ** 2).sum())
    excess = scatter - (count - 1)
    between = max(excess / float(fixed.sum() - (fixed**2).sum() / fixed.sum()), 0.0)
    weights = 1 / (one.errors**2 + between)
    share = max(excess / scatter, 0.0) if scatter else 0.0
    return weights / weights.sum(), float(np.expm1(between**0.5)), share


def _mean(
    one: OfHosts, weights: Floats, between: float, share: float, shared: Floats, known: Floats, alone: Floats
) -> tuple[float, ...]:
    """shared: the variance of each session's runs, of `known` freedom; alone: of that, what hosts explain."""
    mean, count = float((weights * one.changes).sum()), len(weights)
    of_hosts = float((weights * (one.changes - mean) ** 2).sum()) / (count - 1)
    common = max(float((shared - alone).sum()), 0.0) / (1 - float((weights**2).sum()))
    variance = of_hosts + common
    of_sessions = float((shared**2 / known).sum()) / (float(shared.sum()) or 1.0)
    left = variance**2 / (of_hosts**2 / (count - 1) + common * of_sessions or 1.0)
    error, left = variance**0.5, max(left, 1.0)
    low, high = np.exp(interval(np.array(mean), np.array(error), left))
    p = float(2 * special.stdtr(left, -abs(mean) / error)) if error else 1.0
    return float(np.exp(mean)), float(low), float(high), p, error, left, between, share

"""The change over all hosts: a row per relation, of several comparisons of one host each.

Hosts need not change alike, so their changes vary around a mean (random effects). The variance between hosts
is DerSimonian and Laird's (Control. Clin. Trials 7 (1986)), the interval Hartung and Knapp's (Stat. Med. 20
(2001)), which does not take that variance as known. The variance of a host's change is known from few runs
only, so it is shrunk towards that of the others (`inference.prior`).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.compare.changes import CLASS
from fleet.analysis.compare.inference import LEVEL, prior

LEAST_HOSTS = 3
COLUMNS = (*CLASS, "hosts", "ratio", "low", "high", "p", "between", "heterogeneity")

Floats = npt.NDArray[np.float64]


def fleet_effect(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """A row per relation that three hosts or more have with enough runs; tables: `relations` of each host.

    `ratio` with its 95 % interval `low`, `high` and `p`: of the mean change of hosts. `between`: the standard
    deviation of the hosts' own changes, relative; `heterogeneity`: I², the share of the variation of the
    changes found that is not chance.
    """
    known = [table[table["p"].notna()] for table in tables]
    rows = []
    for key, part in pd.concat(known).groupby(CLASS, sort=False) if known else ():
        if len(part) >= LEAST_HOSTS:
            errors = shrunk(part["error"].to_numpy(), float(part["freedom"].mean()))
            found = random_effects(np.log(part["ratio"].to_numpy()), errors)
            rows.append((*key, len(part), *found))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def shrunk(errors: Floats, freedom: float) -> Floats:
    """The hosts' errors, each of so many degrees of freedom, shrunk towards what they have in common."""
    variances = errors**2
    known, level = prior(variances, freedom)
    share = 1.0 if np.isinf(known) else known / (known + freedom)
    found: Floats = np.sqrt(share * level + (1 - share) * variances)
    return found


def random_effects(changes: Floats, errors: Floats) -> tuple[float, float, float, float, float, float]:
    """The mean ratio, its interval and p, the relative deviation between hosts, I²; of logarithms.

    errors: the standard error of each change.
    """
    count, fixed = len(changes), 1 / errors**2
    mean = float((fixed * changes).sum() / fixed.sum())
    scatter = float((fixed * (changes - mean) ** 2).sum())
    excess = scatter - (count - 1)
    between = max(excess / float(fixed.sum() - (fixed**2).sum() / fixed.sum()), 0.0)
    weights = 1 / (errors**2 + between)
    mean = float((weights * changes).sum() / weights.sum())
    error = float(((weights * (changes - mean) ** 2).sum() / (count - 1) / weights.sum()) ** 0.5)
    half = float(stats.t.ppf(1 - LEVEL / 2, count - 1)) * error
    ends = np.exp([mean, mean - half, mean + half])
    p = float(2 * stats.t.sf(abs(mean) / error, count - 1)) if error else 1.0
    share = max(excess / scatter, 0.0) if scatter else 0.0
    return float(ends[0]), float(ends[1]), float(ends[2]), p, float(np.expm1(between**0.5)), share

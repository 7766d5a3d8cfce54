"""Compute how much of the scatter between a pair's bursts is explained by where their
lines lie in memory.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Floats, Ints, group_medians, number_groups
from fleet.analysis.reduce.load import compute_sample_latencies, load_samples
from fleet.model import SHIPPED, Descriptions, View
from fleet.store.runs import Root

MIN_SHARE = 0.1  # that is worth a sentence
_MIN_BURSTS_PER_PLACE = 3  # on average
_OUTLIER = 4.5  # times the median deviation: three standard deviations
_MIN_ERRORS = 3  # standard errors that a share must be above 0
_MAX_SAMPLES = 1_000_000  # that are read for it
_LINE_BYTES = 64
_PAGE_COLOURS = 16  # physical pages of equal number modulo 16 share a colour
_PAIR = ["benchmark", "variant", "point", "ping_cpu", "pong_cpu"]
_COLUMNS = (
    "run_id",
    *_PAIR,
    "relation",
    "unit",
    "iterations",
    "warmup",
    "ticks",
    "ns_per_tick",
    "other_ticks",
    "line_offset",
    "line_physical",
)


def explain_place_scatter(
    root: Root, run: dict[str, Any], descriptions: Descriptions = SHIPPED
) -> list[str]:
    """Return sentences on the benchmarks of pairs, by variant, for which the scatter of
    a pair's bursts depends on where their cache lines lie in memory: one for each kind
    of place that explains much. A run with too many samples to read has none.
    """
    names = {name.partition("/")[0] for name in run["benchmarks"]}
    matrices = [name for name in names if descriptions[name].view is View.MATRIX]
    if not matrices or run["samples"] > _MAX_SAMPLES:
        return []
    samples = _load_samples_with_places(root, run["run_id"], matrices)
    if samples.empty:
        return []
    bursts = _add_burst_medians(samples, descriptions)
    sentences = []
    choices = bursts.groupby(["benchmark", "variant"], observed=True)
    for (name, variant), part in choices:
        for influence in _find_influential_places(part):
            says = influence.describe(len(part))
            sentences.append(f"{name}/{variant}: {says}")
    return sentences


class _Influence(NamedTuple):
    """How much a kind of place of a line explains. share: of the variance between
    bursts. place_count: how many distinct places the bursts have.
    """

    kind: str
    share: float
    place_count: int

    def describe(self, burst_count: int) -> str:
        """Return the end of a sentence: "the line's offset in its page explains 20% of
        …".
        """
        explains = f"the line's {self.kind} explains {self.share:.0%} of the scatter"
        numbers = f"n {burst_count}, {self.place_count} places"
        return f"{explains} between a pair's bursts ({numbers})"


def _load_samples_with_places(
    root: Root, run_id: str, benchmarks: list[str]
) -> pd.DataFrame:
    """Load the bursts of a run whose line's place is known."""
    samples = load_samples(root, run_id=run_id, benchmark=benchmarks, columns=_COLUMNS)
    has_place = samples["line_offset"].notna()
    return samples[has_place].reset_index(drop=True)


def _add_burst_medians(
    samples: pd.DataFrame, descriptions: Descriptions
) -> pd.DataFrame:
    """Add `ns`, each burst's median without warm-ups; drop bursts of warm-ups only."""
    latency, burst, is_warmup = compute_sample_latencies(samples, descriptions)
    is_counted = ~is_warmup
    latencies = pd.Series(latency[is_counted])
    medians = latencies.groupby(burst[is_counted]).median()
    return samples.loc[medians.index].assign(ns=medians)


def _find_influential_places(bursts: pd.DataFrame) -> Iterator[_Influence]:
    """Yield each kind of place of a line that explains much of the variance between
    bursts. The kinds are the place of the line in its page, and the number of the
    physical page modulo 16. bursts: of one benchmark and variant.
    """
    residuals = _compute_residuals(bursts)
    places_by_kind = {"offset in its page": bursts["line_offset"] // _LINE_BYTES}
    if bursts["line_physical"].notna().all():
        physical_page = bursts["line_physical"]
        colours = physical_page % _PAGE_COLOURS
        # the last comma closes an apposition: "the line's physical page, …, explains"
        places_by_kind["physical page, modulo 16,"] = colours
    for kind, places in places_by_kind.items():
        influence = _estimate_influence(kind, places, residuals)
        if influence is not None:
            yield influence


def _estimate_influence(
    kind: str, places: "pd.Series[Any]", residuals: Floats
) -> _Influence | None:
    """Estimate how much a kind of place explains; None if it is not above MIN_SHARE and
    above what chance gives, if all bursts have one place, or if there are fewer than
    _MIN_BURSTS_PER_PLACE bursts to a place on average.

    places, residuals: of each burst its place, and from `_compute_residuals`.
    """
    place_of_burst, distinct_places = pd.factorize(places)
    place_count = len(distinct_places)
    most_places = len(places) / _MIN_BURSTS_PER_PLACE
    if not 1 < place_count <= most_places:
        return None
    share = compute_variance_share(residuals, place_of_burst)
    standard_error = _compute_error_of_share(len(places), place_count)
    if share <= max(MIN_SHARE, _MIN_ERRORS * standard_error):
        return None
    return _Influence(kind, share, place_count)


def _compute_error_of_share(values: int, groups: int) -> float:
    """Return the standard error of `compute_variance_share` if the groups explain
    nothing. values, groups: how many there are.

    With n values in k groups, the sum of squares between groups is then distributed as
    chi-squared with k - 1 degrees of freedom: its standard deviation is sqrt(2 (k - 1))
    times the variance. The total sum of squares is about n - k times the variance.
    """
    return math.sqrt(2 * (groups - 1)) / (values - groups)


def _compute_residuals(bursts: pd.DataFrame) -> Floats:
    """Return the logarithm of each burst's `ns`, less the median of the logarithms of
    its pair. Values beyond _OUTLIER times the median deviation are clipped, so that no
    single burst decides.
    """
    log_ns = np.log(bursts["ns"].to_numpy(dtype=float))
    pair_of_burst = number_groups(bursts, _PAIR)
    median_of_pair = group_medians(log_ns, pair_of_burst)
    residuals = log_ns - median_of_pair[pair_of_burst]
    median_deviation = float(np.median(np.abs(residuals)))
    limit = _OUTLIER * median_deviation
    clipped: Floats = residuals.clip(-limit, limit)
    return clipped


def compute_variance_share(values: Floats, groups: Ints) -> float:
    """Return the share of the values' variance that lies between groups, less what
    chance gives; at least 0. groups: the group of each value, from 0.

    This is epsilon squared (Kelley 1935). If the groups explained nothing, the sum of
    squares between groups would be, for each of its degrees of freedom, as large as
    that within groups. So much is subtracted.
    """
    counts = np.bincount(groups)
    means = np.bincount(groups, values) / counts
    # sums of squares: of all values, and about the means of their groups
    total = float(((values - values.mean()) ** 2).sum())
    if not total:
        return 0.0
    sum_within = float(((values - means[groups]) ** 2).sum())
    sum_between = total - sum_within
    freedom_between = len(counts) - 1
    freedom_within = len(values) - len(counts)
    by_chance = freedom_between * sum_within / freedom_within
    return max(0.0, (sum_between - by_chance) / total)

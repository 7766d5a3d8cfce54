"""List the pairs whose bursts switch between levels; verdicts use none of this."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import PAIR_KEY, Bools, Floats
from fleet.analysis.compare.judge import (
    apply_student,
    compute_nanmedian,
    fit_in_one_block,
)
from fleet.analysis.reduce.interval import MIN_RUNS

_MIN_SWITCHING_RUNS = 2
_MAX_PAIRS = 100
_COLUMNS = (
    *PAIR_KEY,
    "a_ns",
    "b_ns",
    "a_other_ns",
    "b_other_ns",
    "a_share",
    "b_share",
    "moved",
    "moved_low",
    "moved_high",
)
NO_LEVELS = pd.DataFrame(columns=[*_COLUMNS])


def list_burst_levels(pairs: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """List the pairs whose bursts switch between levels: a table by number of the
    comparison, for comparisons with such pairs.

    A run's bursts of a pair switch if more than a tenth of the bursts are at another
    level than the others; only then the pair has `other_ns`, the median of the bursts
    at another level. A pair is listed if both sides have it, and if it switches in two
    runs or more, of either side. A table has at most 100 pairs: first the pairs with
    the largest shares of such bursts. Columns with the prefix `a_` or `b_` are of one
    side: `ns`, the median of its runs; `other_ns`, the median of their other levels
    (NaN if there is none); `share`, the mean share of bursts at another level. `moved`
    is b_share - a_share, with its 95 % interval `moved_low` to `moved_high` (NaN below
    three runs a side).

    pairs: rows of the table `pairs`, for each comparison those of its runs, with the
    number of the `comparison`, `is_b`, whether the run is of side B, and `key`, a
    number that stands for the values of PAIR_KEY: equal where these are, in their
    order.
    """
    if "other_ns" not in pairs:
        return {}
    runs_of_pair = pairs.groupby(["comparison", "key"])["other_ns"]
    switching_runs = runs_of_pair.transform("count")  # how many have `other_ns`
    rows = pairs[switching_runs >= _MIN_SWITCHING_RUNS]
    tables = dict[Any, pd.DataFrame]()
    for comparison, rows_of_comparison in rows.groupby("comparison"):
        in_order = rows_of_comparison.sort_values("key", kind="stable")
        switching_pairs = _list_switching_pairs(in_order)
        if switching_pairs:
            largest = switching_pairs[:_MAX_PAIRS]
            rows_of_table = [pair.columns for pair in largest]
            tables[comparison] = pd.DataFrame(rows_of_table, columns=[*_COLUMNS])
    return tables


class _SwitchingPair(NamedTuple):
    """A pair whose bursts switch between levels. total_share: the sum over its runs of
    the share of bursts at another level. cell: the values of PAIR_KEY. columns: the
    values of _COLUMNS, by name.
    """

    total_share: float
    cell: tuple[Any, ...]
    columns: dict[str, Any]

    @classmethod
    def make(cls, cell: tuple[Any, ...], runs: "_PairRuns") -> "_SwitchingPair":
        """Describe the pair that has these runs."""
        names = dict(zip(PAIR_KEY, cell, strict=True))
        # the share is NaN for a run of which it is not known
        total_share = float(np.nansum(runs.share))
        return cls(total_share, cell, {**names, **runs.describe()})


def _list_switching_pairs(rows: pd.DataFrame) -> list[_SwitchingPair]:
    """List the pairs that both sides have. First come the pairs with the largest total
    share: the sum over all runs of the share of bursts at another level.

    rows: the rows of one comparison, a row per pair and run, in order of `key`.
    """
    all_runs = _PairRuns.read(rows)
    # the runs of a pair stand together
    is_further_run = rows["key"].duplicated().to_numpy()
    starts = np.flatnonzero(~is_further_run)
    first_rows = rows[PAIR_KEY].iloc[starts]
    cells = first_rows.itertuples(index=False, name=None)
    edges = [*starts.tolist(), len(rows)]
    pairs = []
    for cell, (start, end) in zip(cells, pairwise(edges), strict=True):
        runs = all_runs.select(slice(start, end))
        if runs.has_both_sides:
            pairs.append(_SwitchingPair.make(cell, runs))
    return sorted(pairs, key=_rank_by_share_and_cell)


def _rank_by_share_and_cell(pair: _SwitchingPair) -> tuple[float, tuple[Any, ...]]:
    return -pair.total_share, pair.cell


class _PairRuns(NamedTuple):
    """The runs of a pair, or of several. Each array has a value per run: whether it is
    of side B, its median in ns, the median of its other levels (NaN if its bursts do
    not switch), and the share of bursts there (NaN if it is not known).
    """

    is_b: Bools
    ns: Floats
    other_ns: Floats
    share: Floats

    @classmethod
    def read(cls, rows: pd.DataFrame) -> "_PairRuns":
        """Take the runs of rows of `pairs`, one pair after another: of each its median,
        the median of its bursts at other levels than the main one, and their share.
        """
        return cls(
            is_b=rows["is_b"].to_numpy(),
            ns=rows["median_ns"].to_numpy(dtype=np.float64),
            other_ns=rows["other_ns"].to_numpy(dtype=np.float64),
            share=rows["other_share"].to_numpy(dtype=np.float64),
        )

    def select(self, places: slice) -> "_PairRuns":
        """Return the runs at these places."""
        return _PairRuns(
            self.is_b[places],
            self.ns[places],
            self.other_ns[places],
            self.share[places],
        )

    @property
    def has_both_sides(self) -> bool:
        """Report whether runs of A and of B have the pair."""
        has_b = self.is_b.any()
        has_a = not self.is_b.all()
        return bool(has_a and has_b)

    def describe(self) -> dict[str, float]:
        """Return the columns of the pair from `a_ns` on, by name."""
        is_b = self.is_b
        is_a = ~is_b
        moved = _estimate_difference(self.share, is_b)
        return {
            "a_ns": _compute_median(self.ns[is_a]),
            "b_ns": _compute_median(self.ns[is_b]),
            "a_other_ns": _compute_median(self.other_ns[is_a]),
            "b_other_ns": _compute_median(self.other_ns[is_b]),
            "a_share": self.share[is_a].mean(),
            "b_share": self.share[is_b].mean(),
            "moved": moved.difference,
            "moved_low": moved.low,
            "moved_high": moved.high,
        }


def _compute_median(values: Floats) -> float:
    """Return the median, ignoring NaN."""
    median = compute_nanmedian(values, axis=0)
    return float(median)


class _Difference(NamedTuple):
    """A difference with its 95 % interval."""

    difference: float
    low: float
    high: float


def _estimate_difference(values: Floats, is_b: Bools) -> _Difference:
    """Return the mean of side B minus that of side A, with its 95 % interval; the ends
    are NaN if a side has fewer than three runs. values, is_b: the value of each run,
    and whether it is of side B.
    """
    values_of_a = values[~is_b]
    values_of_b = values[is_b]
    smaller_count = min(len(values_of_a), len(values_of_b))
    if smaller_count < MIN_RUNS:
        difference = values_of_b.mean() - values_of_a.mean()
        return _Difference(float(difference), low=np.nan, high=np.nan)
    one_row = values[None, :]
    fit = fit_in_one_block(one_row, is_b)
    low, high, _ = apply_student(fit.change, fit.error, fit.freedom)
    return _Difference(
        difference=float(fit.change[0]),
        low=float(low[0]),
        high=float(high[0]),
    )

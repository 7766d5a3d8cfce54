"""List the pairs whose bursts switch between levels; verdicts use none of this."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats
from fleet.analysis.compare.judge import (
    apply_student,
    compute_nanmedian,
    fit_within_blocks,
)
from fleet.analysis.compare.verdicts import CELL
from fleet.analysis.reduce.interval import MIN_RUNS

_MIN_SWITCHING = 2  # runs
_MAX_PAIRS = 100
_COLUMNS = (
    *CELL,
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
    """List the pairs of which two runs or more, of either side, have over a tenth of
    bursts at another level: a table by number of the comparison, for those with such
    pairs.

    A table has at most 100 pairs, the largest shares first. Columns with the prefix
    `a_` or `b_`: `ns`, the median of the side's runs; `other_ns`, the median of their
    other levels (NaN if none); `share`, the mean share of bursts at another level.
    `moved`: b_share - a_share, with its 95 % interval `moved_low` to `moved_high` (NaN
    below three runs a side).

    pairs: rows of `pairs` of the sides of all comparisons, with `comparison`, `is_b`
    and `key`, a number per CELL and in its order.
    """
    if "other_ns" not in pairs:
        return {}
    # a run has `other_ns` if its bursts switch; `count` leaves the others out
    runs_of_pair = pairs.groupby(["comparison", "key"])["other_ns"]
    switching_runs = runs_of_pair.transform("count")
    rows = pairs[switching_runs >= _MIN_SWITCHING]
    tables = dict[Any, pd.DataFrame]()
    for comparison, rows_of_comparison in rows.groupby("comparison"):
        in_order = rows_of_comparison.sort_values("key", kind="stable")
        levels = _list_levels(in_order)
        if levels:
            largest = levels[:_MAX_PAIRS]
            table = pd.DataFrame(largest, columns=["total", *_COLUMNS])
            tables[comparison] = table.drop(columns="total")
    return tables


def _list_levels(rows: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return the sum of its shares and _COLUMNS of each pair that both sides have, the
    largest sum first. rows: of one comparison, in order of `key`.
    """
    all_runs = _PairRuns.read(rows)
    # the runs of a pair stand together
    is_first_of_pair = ~rows["key"].duplicated().to_numpy()
    starts = np.flatnonzero(is_first_of_pair)
    ends = np.append(starts[1:], len(rows))
    first_rows = rows[CELL].iloc[starts]
    cells = first_rows.itertuples(index=False, name=None)
    levels = list[tuple[Any, ...]]()
    for cell, start, end in zip(cells, starts, ends, strict=True):
        pair = all_runs.select(slice(start, end))
        if pair.has_both_sides:
            total = np.nansum(pair.share)
            levels.append((total, *cell, *pair.describe()))
    return sorted(levels, key=_rank_by_total_and_cell)


def _rank_by_total_and_cell(level: tuple[Any, ...]) -> tuple[Any, ...]:
    total, *others = level
    cell = others[: len(CELL)]
    return -total, cell


class _PairRuns(NamedTuple):
    """The runs of a pair, those of A before those of B: whether each is of B, its
    time, that of its other levels, and the share of bursts there.
    """

    is_b: Bools
    ns: Floats
    other_ns: Floats
    share: Floats

    @classmethod
    def read(cls, rows: pd.DataFrame) -> "_PairRuns":
        """Take the runs of rows of `pairs`, one pair after another."""
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

    def describe(self) -> tuple[float, ...]:
        """Return the columns from `a_ns` on."""
        is_b = self.is_b
        is_a = ~is_b
        return (
            _compute_median(self.ns[is_a]),
            _compute_median(self.ns[is_b]),
            _compute_median(self.other_ns[is_a]),
            _compute_median(self.other_ns[is_b]),
            self.share[is_a].mean(),
            self.share[is_b].mean(),
            *_estimate_difference(self.share, is_b),
        )


def _compute_median(values: Floats) -> float:
    """Return the median, ignoring NaN."""
    median = compute_nanmedian(values, axis=0)
    return float(median)


class _Difference(NamedTuple):
    """A difference with its 95 % interval."""

    change: float
    low: float
    high: float


def _estimate_difference(values: Floats, is_b: Bools) -> _Difference:
    """Return mean B minus mean A and its interval, whose ends are NaN if a side has
    under three runs. values: those of A before those of B.
    """
    values_of_a = values[~is_b]
    values_of_b = values[is_b]
    smaller_count = min(len(values_of_a), len(values_of_b))
    if smaller_count < MIN_RUNS:
        difference = values_of_b.mean() - values_of_a.mean()
        return _Difference(float(difference), np.nan, np.nan)
    one_row = values[None, :]
    one_block = np.zeros(len(values), dtype=np.int64)
    fit = fit_within_blocks(one_row, is_b, one_block)
    low, high, _ = apply_student(fit.change, fit.error, fit.freedom)
    return _Difference(
        change=float(fit.change[0]),
        low=float(low[0]),
        high=float(high[0]),
    )

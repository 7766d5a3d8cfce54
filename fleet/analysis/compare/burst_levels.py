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
from fleet.analysis.compare.verdicts import CELL, number_keys
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


def compare_burst_levels(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """List pairs of which two runs or more, of either side, have over a tenth of bursts
    at another level.

    Return at most 100 pairs, the largest shares first. a, b: rows of `pairs`, with the
    run as `unit`. Columns with the prefix `a_` or `b_`: `ns`, the median of the side's
    runs; `other_ns`, the median of their other levels (NaN if none); `share`, the mean
    share of bursts at another level. `moved`: b_share - a_share, with its 95 % interval
    `moved_low` to `moved_high` (NaN below three runs a side).
    """
    rows = pd.concat([a.assign(is_b=False), b.assign(is_b=True)], ignore_index=True)
    rows["comparison"] = 0
    rows["key"] = number_keys(rows, CELL)
    return list_burst_levels(rows).get(0, NO_LEVELS)


def list_burst_levels(pairs: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """Return the table of `compare_burst_levels` by number of the comparison, for those
    with such pairs.

    pairs: rows of the sides of all comparisons, with `comparison`, `is_b` and `key`, a
    number per CELL and in its order.
    """
    if "other_ns" not in pairs:
        return {}
    switching = pairs.groupby(["comparison", "key"])["other_ns"].transform("count")
    rows = pairs[switching >= _MIN_SWITCHING]
    tables = dict[Any, pd.DataFrame]()
    for comparison, own in rows.groupby("comparison"):
        levels = _list_levels(own.sort_values("key", kind="stable"))
        if levels:
            table = pd.DataFrame(levels[:_MAX_PAIRS], columns=["total", *_COLUMNS])
            tables[comparison] = table.drop(columns="total")
    return tables


def _list_levels(rows: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return the sum of its shares and _COLUMNS of each pair that both sides have, the
    largest sum first. rows: of one comparison, in order of `key`.
    """
    is_b = rows["is_b"].to_numpy()
    ns = rows["median_ns"].to_numpy(dtype=np.float64)
    other_ns = rows["other_ns"].to_numpy(dtype=np.float64)
    share = rows["other_share"].to_numpy(dtype=np.float64)
    starts = np.flatnonzero(~rows["key"].duplicated().to_numpy())
    ends = np.append(starts[1:], len(rows))
    cells = rows[CELL].iloc[starts].itertuples(index=False, name=None)
    levels = list[tuple[Any, ...]]()
    for cell, start, end in zip(cells, starts, ends, strict=True):
        part = slice(start, end)
        own = is_b[part]
        if own.all() or not own.any():
            continue
        moved = _estimate_difference(share[part], own)
        numbers = (
            *_compute_medians(ns[part], own),
            *_compute_medians(other_ns[part], own),
            share[part][~own].mean(),
            share[part][own].mean(),
        )
        levels.append((np.nansum(share[part]), *cell, *numbers, *moved))
    return sorted(levels, key=_rank_by_total_and_cell)


def _rank_by_total_and_cell(level: tuple[Any, ...]) -> tuple[Any, ...]:
    total, *others = level
    return -total, others[: len(CELL)]


def _compute_medians(values: Floats, is_b: Bools) -> tuple[float, float]:
    """Return the medians of A and of B, ignoring NaN."""
    of_a = compute_nanmedian(values[~is_b], axis=0)
    of_b = compute_nanmedian(values[is_b], axis=0)
    return float(of_a), float(of_b)


class _Difference(NamedTuple):
    """A difference with its 95 % interval."""

    change: float
    low: float
    high: float


def _estimate_difference(values: Floats, is_b: Bools) -> _Difference:
    """Return mean B minus mean A and its interval, whose ends are NaN if a side has
    under three runs. values: those of A before those of B.
    """
    if min(is_b.sum(), (~is_b).sum()) < MIN_RUNS:
        change = values[is_b].mean() - values[~is_b].mean()
        return _Difference(float(change), np.nan, np.nan)
    one_block = np.zeros(len(values), dtype=np.int64)
    fit = fit_within_blocks(values[None, :], is_b, one_block)
    error = np.sqrt(fit.variance * fit.scale)
    low, high, _ = apply_student(fit.change, error, fit.freedom)
    return _Difference(float(fit.change[0]), float(low[0]), float(high[0]))

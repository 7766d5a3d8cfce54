"""The levels that pairs switch between within runs: the change of each, and of the bursts' share at it.

A pair's number is that of its most frequent level, so neither a change of its other levels nor one of their
shares is seen in it. Levels of all runs of both sides are matched by their latencies (`run_levels`). The
intervals are each level's own: they are shown beside the verdicts, not judged with them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.arrays import Bools, Floats, Ints
from fleet.analysis.compare.inference import interval, least_squares
from fleet.analysis.compare.run_levels import CELL
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.analysis.reduce.split import geometric_mean, run_levels

_LEAST_SWITCHING = 2  # runs; one in a hundred of a pair at one level is split by chance
_MOST_PAIRS = 100
_MOVED = 1.25  # a level of A and one of B that are nearer than this may be the same
_SIDES = ("a", "b")
_OF_SIDE = ("ns", "share", "dwell", "spread")
COLUMNS = (
    *CELL,
    *(f"{side}_{name}" for name in _OF_SIDE for side in _SIDES),
    *("ratio", "low", "high", "moved", "moved_low", "moved_high"),
)


def compare_burst_levels(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """A row per level of each pair with several within two runs or more, those that switch most first.

    a, b: rows of `pairs` with their `unit`, the run. Of each side: `ns` (geometric mean over runs with the
    level), `share` of the bursts (mean over all runs), `dwell` (bursts in a row) and `spread` (the typical
    half interval within a run). `ratio`: the change of the level with its 95 % interval `low`, `high`;
    `moved`: that of the share, with `moved_low`, `moved_high`; NaN for fewer than three runs. At most 100
    pairs.
    """
    if a.empty or b.empty or "levels_ns" not in a:
        return pd.DataFrame(columns=list(COLUMNS))
    known = pd.concat([side[side["levels_ns"].notna()] for side in (a, b)])
    switching = known.groupby(CELL, sort=False)["other_share"].agg(["size", "sum"])
    switching = switching[switching["size"] >= _LEAST_SWITCHING].sort_values(
        "sum", ascending=False, kind="stable"
    )
    keys = switching.index[:_MOST_PAIRS]
    sides = zip(_SIDES, (a, b), strict=True)
    both = pd.concat(
        [rows[pd.MultiIndex.from_frame(rows[CELL]).isin(keys)].assign(side=side) for side, rows in sides]
    )
    parts = dict(iter(both.groupby(CELL, sort=False)))
    rows = [row for key in keys for row in _of_pair(key, parts[key])]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of_pair(key: tuple[Any, ...], rows: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    found = pd.DataFrame([level for row in rows.to_dict("records") for level in _levels(row)])
    if found["side"].nunique() < len(_SIDES):
        return
    found["level"] = _matched(found["ns"].to_numpy(dtype=float), (found["side"] == "b").to_numpy())
    runs = [int((rows["side"] == side).sum()) for side in _SIDES]
    for _, level in found.groupby("level"):
        of_runs = level.groupby(["side", "unit"], sort=False).agg(
            ns=("ns", "mean"), share=("share", "sum"), dwell=("dwell", "mean"), spread=("spread", "mean")
        )
        sides = [of_runs[of_runs.index.get_level_values("side") == side] for side in _SIDES]
        shares = [
            np.pad(side["share"].to_numpy(dtype=float), (0, count - len(side)))
            for side, count in zip(sides, runs, strict=True)
        ]
        ns = [side["ns"].to_numpy(dtype=float) for side in sides]
        change = np.exp(_moved(*map(np.log, ns))) if all(map(len, ns)) else [np.nan] * 3
        numbers = [
            *(geometric_mean(each) if len(each) else np.nan for each in ns),
            *(float(each.mean()) for each in shares),
            *(float(side[name].mean()) for name in ("dwell", "spread") for side in sides),
        ]
        yield (*key, *numbers, *change, *_moved(*shares))


def _matched(ns: Floats, of_b: Bools) -> Ints:
    """The level of each value; near neighbours of which one is on A only, the other on B only, are one."""
    labels: Ints = run_levels(ns[None, :])[0]
    logs, level = np.log(ns), 0
    while level < labels.max():
        lower, upper = labels == level, labels == level + 1
        sides = {*of_b[lower]}, {*of_b[upper]}
        one_sided = sides[0] != sides[1] and len(sides[0]) == len(sides[1]) == 1
        if one_sided and logs[upper].mean() - logs[lower].mean() < np.log(_MOVED):
            labels[labels > level] -= 1
        level += 1
    return labels


def _levels(row: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    """The levels of a pair in one run; of a pair with one level, that."""
    about = {"side": row["side"], "unit": row["unit"]}
    if not np.ndim(row["levels_ns"]):
        yield {**about, "ns": row["median_ns"], "share": 1.0, "dwell": row["bursts"], "spread": row["spread"]}
        return
    columns = (row[f"levels_{name}"] for name in _OF_SIDE)
    for values in zip(*columns, strict=True):
        yield {**about, **dict(zip(_OF_SIDE, values, strict=True))}


def _moved(a: Floats, b: Floats) -> tuple[float, float, float]:
    """The difference of the means of two sides with its 95 % interval, which needs three runs of each."""
    fit = least_squares(np.concatenate([a, b])[None, :], np.repeat([False, True], [len(a), len(b)]))
    if min(len(a), len(b)) < LEAST_RUNS:
        return float(fit.moved[0]), float("nan"), float("nan")
    low, high = interval(fit.moved, fit.error, fit.freedom)[:, 0]
    return float(fit.moved[0]), float(low), float(high)

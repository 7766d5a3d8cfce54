"""Changes from one side to the other, of relations and of pairs. The unit is the run (docs/comparing.md).

They are judged together with those of all other comparisons of a command (`error_rate`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.compare.inference import counts_at, least_squares, p_of_levels
from fleet.analysis.compare.run_levels import CELL, CLASS, Matched, by_unit
from fleet.analysis.compare.sides import InBlock, by_time
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.analysis.reduce.split import run_levels
from fleet.analysis.tables import Bools, Floats, Ints

Turn = tuple[Any, ...]  # the session of a run, and its place there: in order of time
_Blocks = Mapping[str, InBlock] | None  # of each unit
_Turns = Mapping[str, Turn] | None  # likewise
_Numbers = tuple[pd.DataFrame, pd.DataFrame]  # at one level, and as measured
_LEAST_PASSES = 4  # of both sides: fewer leave too few degrees of freedom


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one comparison, and what they rest on.

    rows: a row per change, with `ratio`. turns: of the columns of the arrays: a row per change, a column per
    run, NaN where a row lacks it. weights: of the runs in the change; residuals: what it leaves of them.
    freedom: of the residuals; NaN where the runs are too few. of_levels: `p_of_levels`. doubt: how surely
    levels are matched (`Doubt`). levels: per row, how many runs of A and of B are at each level of the
    numbers as measured; empty: there is one. switches: whether the machine may switch between levels.
    """

    rows: pd.DataFrame
    turns: tuple[Turn, ...]
    weights: Floats
    residuals: Floats
    freedom: Floats
    of_levels: Floats
    doubt: Floats
    levels: tuple[Ints, ...]
    switches: bool = False

    def only(self, at: Ints) -> "Changes":
        """The rows at these places, in this order."""
        rows = self.rows.iloc[at].reset_index(drop=True)
        arrays = (self.weights[at], self.residuals[at], self.freedom[at], self.of_levels[at], self.doubt[at])
        return Changes(rows, self.turns, *arrays, tuple(self.levels[row] for row in at), self.switches)


def relation_changes(sides: Matched, number: str, blocks: _Blocks = None, turns: _Turns = None) -> Changes:
    """One row per benchmark, variant and relation that both sides have, the nearest relation first.

    A unit's number of a relation is the median of its pairs. `a_ns`, `b_ns`: geometric means over the units.
    `a_within`, `b_within`: the typical half interval inside a single run, which is no error of the change.
    blocks: of each unit; the change is then that within blocks. turns: of each unit; hosts that share one
    were measured at the same time. Without blocks the change is that within passes of both sides, if there
    are four or more.
    """
    order = list(dict.fromkeys(zip(sides.a["benchmark"], sides.a["variant"], strict=True)))
    numbers = _numbers(sides, number, CLASS)
    ns = numbers[0]
    within = {
        f"{name}_within": side.groupby(CLASS)["spread"].median().reindex(ns.index).to_numpy()
        for name, side in (("a", sides.a), ("b", sides.b))
    }
    cells = sides.a.drop_duplicates(CELL)
    pairs = cells.groupby(CLASS).size().reindex(ns.index).to_numpy()
    rows = ns.index.to_frame(index=False).assign(pairs=pairs, **_of_sides(ns), **within)
    by = [cells[name] for name in CLASS]
    limits = sides.about_pairs(cells).groupby(by).median().reindex(ns.index)
    place = [order.index(kind) for kind in zip(rows["benchmark"], rows["variant"], strict=True)]
    ranks = rows.assign(place=place).sort_values(["place", "a_ns"], kind="stable").index.to_numpy()
    return _of_frames(rows, numbers, limits, blocks, turns).only(ranks)


def pair_changes(sides: Matched, number: str, turns: _Turns = None) -> Changes:
    """One row per pair that every run has; only for sides of the same topology."""
    ns, measured = _numbers(sides, number, CELL)
    ns = ns.dropna()
    rows = ns.index.to_frame(index=False)
    means = {name: values for name, values in _of_sides(ns).items() if name.endswith("_ns")}
    found = _of_frames(rows.assign(**means), (ns, measured), sides.about_pairs(rows), None, turns)
    return found.only(np.flatnonzero(~np.isnan(found.freedom)))


def _numbers(sides: Matched, number: str, keys: list[str]) -> _Numbers:
    ns = _by_unit(sides.a, sides.b, number, keys)
    same = sides.measured[0] is sides.a and sides.measured[1] is sides.b
    return ns, ns if same else _by_unit(*sides.measured, number, keys)


def _by_unit(a: pd.DataFrame, b: pd.DataFrame, number: str, keys: list[str]) -> pd.DataFrame:
    """A row per key that both sides have, a column per side and unit; NaN where a unit lacks it."""
    tables = [by_unit(side, number, keys) for side in (a, b)]
    tables = [one if len(one.columns) else one.assign(none=np.nan) for one in tables]  # a side of no pairs
    return pd.concat(tables, axis=1, keys=["a", "b"], join="inner").astype(float)


def _of_sides(ns: pd.DataFrame) -> dict[str, Floats]:
    """Per side: how many units have each row, and their geometric mean."""
    parts = {side: np.log(ns[side]) for side in "ab"}
    counts = {f"{side}_units": part.notna().sum(axis=1).to_numpy() for side, part in parts.items()}
    return counts | {f"{side}_ns": np.exp(part.mean(axis=1)).to_numpy() for side, part in parts.items()}


def _of_frames(
    rows: pd.DataFrame, numbers: _Numbers, limits: pd.DataFrame, blocks: _Blocks, turns: _Turns
) -> Changes:
    ns, measured = numbers
    names = [str(name) for name in measured.columns.get_level_values(1)]
    places = zip(measured.columns.get_level_values(0), names, strict=True)
    known: list[Turn] = list(places) if turns is None else [turns[name] for name in names]
    order = sorted(range(len(known)), key=known.__getitem__)
    runs, columns = measured.columns[order], tuple(known[at] for at in order)
    of_b = runs.get_level_values(0).to_numpy() == "b"
    placed = None if blocks is None else [blocks[names[at]] for at in order]
    logs = [np.log(table.reindex(index=ns.index, columns=runs).to_numpy()) for table in (ns, measured)]
    about = limits.to_numpy(dtype=float)
    return changes_of(rows, logs[0], logs[1], of_b, about, placed, columns)


def changes_of(
    rows: pd.DataFrame,
    logs: Floats,
    measured: Floats,
    of_b: Bools,
    limits: Floats,
    blocks: Sequence[InBlock] | None,
    turns: tuple[Turn, ...],
) -> Changes:
    """The changes of logarithms, a row each, a column per run, NaN where a row lacks it.

    measured: before they were moved to one level. of_b, blocks, turns: of the columns, in order of time.
    limits: a row each, as of `Matched.about_pairs`.
    """
    most, doubt, wider = limits.T
    weights, residuals = np.full((2, *logs.shape), np.nan)
    moved, freedom, of_levels = np.full(len(rows), np.nan), np.full(len(rows), np.nan), np.zeros(len(rows))
    enough = blocks is not None or min(of_b.sum(), (~of_b).sum()) >= LEAST_RUNS
    in_passes = blocks is None and max(by_time(of_b), default=0) + 1 >= _LEAST_PASSES
    for at, runs in _alike(logs):
        side, here, group, times = of_b[runs], np.ix_(at, runs), None, runs.astype(float)
        if blocks is not None:
            group, times = _in_groups([blocks[run] for run in runs], side)
        elif in_passes:
            group = np.array(by_time(side))
        fit = least_squares(logs[here], side, group, None if group is None else _trends(times, group))
        left = fit.freedom - np.maximum(len(runs) - 2 - most[at], 0)
        known = (left >= (1 if in_passes else LEAST_RUNS - 1)) & enough
        if blocks is None:
            known &= min(side.sum(), (~side).sum()) >= LEAST_RUNS - 1
        elif group is None:
            known &= False
        weights[here], residuals[here] = fit.weights * wider[at, None], fit.residuals
        moved[at], freedom[at] = fit.moved, np.where(known, left, np.nan)
        of_levels[at] = p_of_levels(logs[here], side) if known.any() else 0.0
    levels = _levels(measured, of_b)
    changed = rows.assign(ratio=np.exp(moved))
    return Changes(changed, turns, weights, residuals, freedom, of_levels, doubt, levels)


def _in_groups(placed: Sequence[InBlock], of_b: Bools) -> tuple[Ints | None, Floats]:
    """The block, from 0 by time, and turn of each run; no blocks where none has runs of both sides."""
    group = pd.factorize(np.array([at.block for at in placed]))[0]
    turns = np.array([at.turn for at in placed], dtype=float)
    return group if set(group[of_b]) & set(group[~of_b]) else None, turns


def _trends(turns: Floats, group: Ints) -> Floats:
    """What may add to the runs of a pass by their turn: the same in each, or turned round in every other.

    A steady drift, and a disturbance whose period is two passes. `--alternate` draws no order like them.
    """
    first = np.array([turns[group == number].min() for number in range(group.max() + 1)])
    return np.array([turns, (turns - first[group]) * (1 - 2 * (group % 2))])


def _levels(logs: Floats, of_b: Bools) -> tuple[Ints, ...]:
    found = [np.empty((0, 2), dtype=np.int64)] * len(logs)
    for at, runs in _alike(logs):
        labels = run_levels(np.exp(logs[np.ix_(at, runs)]))
        for row in np.flatnonzero(labels.any(axis=1)):
            found[at[row]] = counts_at(labels[row], of_b[runs])
    return tuple(found)


def _alike(logs: Floats) -> Iterator[tuple[Ints, Ints]]:
    """Rows that have the same runs, of both sides, and these runs."""
    patterns, which = np.unique(~np.isnan(logs), axis=0, return_inverse=True)
    for number, runs in enumerate(patterns):
        yield np.flatnonzero(which == number), np.flatnonzero(runs)

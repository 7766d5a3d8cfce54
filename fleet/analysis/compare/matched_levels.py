"""Matches the levels of a pair between runs, so that runs at different levels are not compared as if at one.

A virtual machine's pair may be at 24 ns in one run and at 50 ns in the next. The numbers of all runs of both
sides are split into levels (`reduce.split`); each number is then moved to the level that most runs were at,
by the difference of the levels within the sides. So the change is that within each level.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.compare.changes import CELL
from fleet.analysis.compare.inference import LEAST_RUNS
from fleet.analysis.reduce.split import Rule, split

BETWEEN_RUNS = Rule(ratio=1.08, fewest=2)  # runs at one level differ by less; runs at a level, at least
SHARES_LEVEL = 0.01  # p below which shares differ; the change within the levels is tested beside it

_LISTED = 3
_UNEQUAL = "the sides have them in different shares, which counts as a change"

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Matched:
    """Both sides' rows with the numbers moved to one level, and the levels of pairs that have several.

    levels: a row per pair and level: `ns`, `a_units`, `b_units` (how many were at it), `p` (Fisher's, of
    equal shares of the pair's levels on both sides), `moved` (False: the shares differ, so the numbers stay).
    """

    a: pd.DataFrame
    b: pd.DataFrame
    levels: pd.DataFrame


def match_levels(a: pd.DataFrame, b: pd.DataFrame, number: str) -> Matched:
    """Match the levels of the pairs that every unit has; a, b: as for `compare_relations`."""
    tables = [side.pivot_table(index=CELL, columns="unit", values=number, sort=False) for side in (a, b)]
    both = tables[0].dropna().join(tables[1].dropna(), how="inner", lsuffix=" a", rsuffix=" b")
    of_b = np.repeat([False, True], [table.shape[1] for table in tables])
    empty = pd.DataFrame(columns=[*CELL, "ns", "a_units", "b_units", "p", "moved"])
    if both.empty or min(table.shape[1] for table in tables) < LEAST_RUNS:
        return Matched(a, b, empty)
    logs = np.log(both.to_numpy())
    found, moved = [], logs.copy()
    for place, apart in enumerate(split(np.exp(logs), BETWEEN_RUNS)):
        labels = one_sided_joined(apart, of_b)
        if not labels.any():
            continue
        counts = np.array(
            [
                [np.sum((labels == level) & (of_b == side)) for side in (False, True)]
                for level in np.unique(labels)
            ]
        )
        p = _equal_shares(counts)
        if p >= SHARES_LEVEL:
            moved[place] = to_one_level(logs[place], labels, of_b)
        centres = [float(np.exp(logs[place][labels == level].mean())) for level in np.unique(labels)]
        found += [
            (*both.index[place], ns, *count, p, p >= SHARES_LEVEL)
            for ns, count in zip(centres, counts, strict=True)
        ]
    if not found:
        return Matched(a, b, empty)
    changed = pd.DataFrame(np.exp(moved), index=both.index)[(moved != logs).any(axis=1)]
    sides = [
        _replaced(side, changed.loc[:, of_b == is_b].set_axis(table.columns, axis=1), number)
        for side, table, is_b in ((a, tables[0], False), (b, tables[1], True))
    ]
    return Matched(sides[0], sides[1], pd.DataFrame(found, columns=empty.columns))


def about_levels(levels: pd.DataFrame) -> list[str]:
    """Sentences for people: how many pairs have several levels, and in how many runs each level occurred."""
    pairs = [rows for _, rows in levels.groupby(CELL, sort=False)]
    found = []
    for moved, what in ((True, "the change is that within each level"), (False, _UNEQUAL)):
        of_kind = [rows for rows in pairs if rows["moved"].iloc[0] == moved]
        if of_kind:
            listed = "; ".join(map(_occurrence, of_kind[:_LISTED]))
            more = f" and {len(of_kind) - _LISTED} more" if len(of_kind) > _LISTED else ""
            found.append(f"Levels differ between runs; {what}: {listed}{more}.")
    return found


def _occurrence(rows: pd.DataFrame) -> str:
    """One pair's levels, and the runs of A and B at each."""
    first = rows.iloc[0]
    each = ", ".join(
        f"{row['ns']:.1f} ns in {row['a_units']} and {row['b_units']} runs of A and B"
        for row in rows.to_dict("records")
    )
    return f"{first['benchmark']} {first['ping_cpu']}-{first['pong_cpu']} ({each})"


def one_sided_joined(labels: Ints, of_b: npt.NDArray[np.bool_]) -> Ints:
    """Join neighbouring levels of which one holds runs of A only, the other of B only: that is a change.

    Not where another level has runs of both sides: a change would have moved that one too.
    """
    joined = labels.copy()
    if any(len(set(of_b[labels == level])) == 2 for level in np.unique(labels)):
        return joined
    level = 0
    while level < joined.max():
        here, there = (of_b[joined == each] for each in (level, level + 1))
        if (here.all() and not there.any()) or (there.all() and not here.any()):
            joined[joined > level] -= 1
        level += 1
    return joined


def to_one_level(logs: Floats, labels: Ints, of_b: npt.NDArray[np.bool_]) -> Floats:
    """The values of one pair moved to its most frequent level; labels: the level of each.

    Least squares with an effect of the level and one of the side. What the levels take of the degrees of
    freedom is given back as scatter around the sides' means. NaN at levels that only one side has: they say
    nothing of a change; the values as they are where a side would have none left.
    """
    levels = [level for level in np.unique(labels) if len(set(of_b[labels == level])) == 2]
    shared = np.isin(labels, levels)
    sides = [shared & of_b, shared & ~of_b]
    if not all(side.any() for side in sides):
        return logs
    moved = np.where(shared, logs, np.nan)
    design = np.column_stack([labels[shared] == level for level in levels] + [of_b[shared]]).astype(float)
    effects = np.linalg.lstsq(design, logs[shared], rcond=None)[0][:-1]
    usual = effects[np.argmax([np.sum(labels == level) for level in levels])]
    moved[shared] += usual - design[:, :-1] @ effects
    freedom = shared.sum() - 2
    wider = (freedom / max(freedom - (len(levels) - 1), 1)) ** 0.5
    for side in sides:
        moved[side] = moved[side].mean() + (moved[side] - moved[side].mean()) * wider
    found: Floats = moved
    return found


def _equal_shares(counts: Ints) -> float:
    """P of both sides being at the levels equally often: Fisher's, of each level against all others."""
    p = []
    for level in counts:
        rest = counts.sum(axis=0) - level
        p.append(float(stats.fisher_exact([level, rest])[1]))
    return min(1.0, min(p) * (len(p) - 1))


def _replaced(side: pd.DataFrame, values: pd.DataFrame, number: str) -> pd.DataFrame:
    """The rows with the values of these pairs and units in place of their own."""
    if values.empty:
        return side
    keys = pd.MultiIndex.from_frame(side[CELL])
    at = values.index.get_indexer(keys), values.columns.get_indexer(pd.Index(side["unit"]))
    known = (at[0] >= 0) & (at[1] >= 0)
    replaced = np.where(known, values.to_numpy()[at], side[number].to_numpy(dtype=float))
    return side.assign(**{number: replaced})[~np.isnan(replaced)]

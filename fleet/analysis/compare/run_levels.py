"""Matches the levels of a pair between runs, so that runs at different levels are not compared as if at one.

A virtual machine's pair may be at 24 ns in one run and at 50 ns in the next. The numbers of all runs of both
sides are split into levels (`run_levels`); each number is then moved to the level that most runs were at,
by the difference of the levels within the sides. So the change is that within each level.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.compare.inference import centred, counts_at, equal_shares, least_squares
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.analysis.reduce.split import BETWEEN_RUNS, run_levels
from fleet.analysis.tables import Bools, Floats, Ints

CLASS = ["benchmark", "variant", "relation"]
CELL = [*CLASS, "ping_cpu", "pong_cpu"]
SHARES_LEVEL = 0.01  # p below which shares differ; the change within the levels is tested beside it

_UNCHANGED = 25.0  # times as likely as any change: most pairs have not changed
_UNSURE = 10.0  # the other ways to match levels are likelier together than one in so many
_PROVED = 1000.0  # a change, against none
_RANGE = 2.0  # of levels, as logarithms
_SCATTER, _KNOWN = 0.01, 4.0  # of runs at a level, and as well known as from so many of them
_LISTED = 3
_UNEQUAL = "the sides have them in different shares, which counts as a change"


class Doubt(IntEnum):
    """Whether levels may be matched otherwise. LEAST: without a change, they can hardly be matched at all."""

    LEAST = -1
    NONE = 0
    SIZE = 1
    DIRECTION = 2


ONE_LEVEL = (np.inf, Doubt.NONE, 1.0)  # `MatchedValues.about` of a pair that has no other


@dataclass(frozen=True, slots=True)
class Matched:
    """Both sides' rows, a row per pair and unit, with the numbers moved to one level; and the levels.

    measured: the rows before. levels: a row per pair and level: `ns`, `a_units`, `b_units` (how many were at
    it), `p` (Fisher's, of equal shares of the pair's levels on both sides), `moved` (False: the shares
    differ, so the numbers stay). about: of each pair with levels, `MatchedValues.about`.
    """

    a: pd.DataFrame
    b: pd.DataFrame
    measured: tuple[pd.DataFrame, pd.DataFrame]
    levels: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=[*CELL, "ns", "a_units", "b_units", "p", "moved"])
    )
    about: dict[tuple[Any, ...], tuple[float, Doubt, float]] = field(default_factory=dict)

    def about_pairs(self, cells: pd.DataFrame) -> pd.DataFrame:
        """A row for each of these pairs, as of `about`; infinite freedom: it has one level."""
        found = np.tile(ONE_LEVEL, (len(cells), 1))
        if self.about:
            keys = cells[CELL].itertuples(index=False, name=None)
            found = np.array([self.about.get(key, of_one) for key, of_one in zip(keys, found, strict=True)])
        return pd.DataFrame(found, cells.index)


def by_unit(side: pd.DataFrame, number: str, keys: list[str]) -> pd.DataFrame:
    """The median of each key and unit: a row per key, a column per unit, NaN where a unit lacks it."""
    medians = side.groupby([*keys, "unit"], sort=False, observed=True)[number].median()
    return medians.dropna().unstack("unit")  # three times as fast as a pivot table


def match_levels(a: pd.DataFrame, b: pd.DataFrame, number: str) -> Matched:
    """Match the levels of the pairs that every unit has; a, b: as for `compare_relations`."""
    tables = [by_unit(side, number, CELL) for side in (a, b)]
    both = tables[0].dropna().add_suffix(" a").join(tables[1].dropna().add_suffix(" b"), how="inner")
    of_b = np.repeat([False, True], [table.shape[1] for table in tables])
    as_they_are = Matched(a, b, (a, b))
    if both.empty or min(table.shape[1] for table in tables) < LEAST_RUNS:
        return as_they_are
    logs = np.log(both.to_numpy())
    found, moved, about = [], logs.copy(), {}
    for place, apart in enumerate(run_levels(np.exp(logs))):
        if not apart.any():
            continue
        matched = match_values(logs[place], apart, of_b)
        moved[place], about[both.index[place]] = matched.logs, matched.about
        for level, count in enumerate(matched.counts):
            ns = float(np.exp(logs[place][matched.labels == level].mean()))
            found.append((*both.index[place], ns, *count, matched.p, matched.moved))
    if not found:
        return as_they_are
    changed = pd.DataFrame(np.exp(moved), index=both.index)[(moved != logs).any(axis=1)]
    sides = [
        _replaced(side, changed.loc[:, of_b == is_b].set_axis(table.columns, axis=1), number)
        for side, table, is_b in ((a, tables[0], False), (b, tables[1], True))
    ]
    table = pd.DataFrame(found, columns=as_they_are.levels.columns)
    return Matched(sides[0], sides[1], (a, b), table, about)


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


@dataclass(frozen=True, slots=True)
class MatchedValues:
    """The values of one pair, as logarithms, moved to its most frequent level.

    labels: the level of each. counts: the runs of A and B at each level; none where the levels are the sides.
    p: of equal shares of the levels. about: the freedom of the change within the levels; the doubt;
    and its error as a multiple of that without levels, as the sides may have them in different shares.
    """

    logs: Floats
    labels: Ints
    counts: Ints
    p: float
    about: tuple[float, Doubt, float]

    @property
    def moved(self) -> bool:
        """Whether the sides have the levels in like shares; else the values stay as they are."""
        return self.p >= SHARES_LEVEL


def match_values(logs: Floats, labels: Ints, of_b: Bools) -> MatchedValues:
    """Match the levels of one pair; labels: as `run_levels` finds them.

    Where a level has runs of one side only, the sides may be at other levels, or all levels of B may be
    moved, by the difference of one of them and one of A. How likely each is, `_likelihoods` says.
    """
    joined, doubt = labels, Doubt.NONE
    if not _shared(labels, of_b).all():
        tops = [_of_levels(logs[side], labels[side]) for side in (of_b, ~of_b)]
        shifts = np.array([0.0, *(b - a for b, a in product(*tops))])
        found = np.concatenate([labels[None, :], run_levels(np.exp(logs - shifts[1:, None] * of_b))])
        likely, changes = _likelihoods(logs - shifts[:, None] * of_b, found, of_b)
        best = int(likely.argmax())
        joined = found[max(best - 1, 0)]
        doubt = _doubt(np.exp(likely - likely.max()), changes + np.append(0.0, shifts), best)
    if not joined.any():
        return MatchedValues(logs, joined, np.empty((0, 2), dtype=np.int64), 1.0, (np.inf, doubt, 1.0))
    counts = counts_at(joined, of_b)
    p = equal_shares(counts)
    values, freedom, wider = to_one_level(logs, joined, of_b) if p >= SHARES_LEVEL else (logs, np.inf, 1.0)
    return MatchedValues(values, joined, counts, p, (freedom, doubt, wider))


def _doubt(shares: Floats, changes: Floats, best: int) -> Doubt:
    """How sure the best way to match levels is; shares: how likely each way is, the first of no change."""
    unchanged = shares[0]
    if best < 2:  # a change within the levels is one that the first does not explain
        best, unchanged = 1, 0.0
    others = np.abs(changes - changes[best]) > np.log(BETWEEN_RUNS.ratio)
    others[0] = False
    if shares[others].sum() + unchanged > shares.sum() / _UNSURE:
        opposite = shares[1:][changes[1:] * changes[best] < 0].sum()
        return Doubt.DIRECTION if opposite > shares[1:].sum() / _UNSURE else Doubt.SIZE
    return Doubt.LEAST if 0 < unchanged < shares.sum() / _PROVED else Doubt.NONE


def _likelihoods(logs: Floats, labels: Ints, of_b: Bools) -> tuple[Floats, Floats]:
    """How likely runs are where nothing changed, and where B's levels are moved; and the changes beside that.

    logs, labels: a row per way to match the levels, the first as measured, which may be without a change. The
    logarithms are marginal likelihoods: every mixture of levels is as likely, levels and changes
    are spread evenly over `_RANGE`, runs scatter around them by about `_SCATTER`.
    """
    member = (labels[:, None, :] == np.arange(labels.max() + 1)[:, None]).astype(float)
    counts = member.sum(axis=2)
    count, runs = (counts > 0).sum(axis=1), labels.shape[1]

    def around(values: Floats) -> Floats:
        means = np.einsum("ckn,cn->ck", member, values) / np.maximum(counts, 1)
        return np.asarray(values - np.einsum("ckn,ck->cn", member, means))

    values, side = around(logs), around(np.broadcast_to(of_b.astype(float), logs.shape))
    known = (side**2).sum(axis=1)
    changes = (values * side).sum(axis=1) / np.where(known > 0, known, np.inf)
    left = np.append((values[0] ** 2).sum(), ((values - changes[:, None] * side) ** 2).sum(axis=1))
    with np.errstate(divide="ignore"):
        precise = np.log(np.maximum(counts, 1)).sum(axis=1) + np.append(0.0, np.log(known))[:, None][1:, 0]
    precise = np.append(np.log(np.maximum(counts[0], 1)).sum(), precise)
    own = runs - np.append(count[0], count + 1)
    shape = (_KNOWN + own) / 2
    fit = special.gammaln(shape) - shape * np.log((_KNOWN * _SCATTER**2 + left) / 2)
    range_ = own * np.log(_RANGE / np.sqrt(2 * np.pi)) - precise / 2
    ways = special.gammaln(counts + 1).sum(axis=1) + special.gammaln(count) - special.gammaln(runs + count)
    likely = fit + range_ + np.append(ways[0] + np.log(_UNCHANGED), ways)
    likely[1:][known <= 0] = -np.inf
    return likely, np.append(0.0, changes)


def to_one_level(logs: Floats, labels: Ints, of_b: Bools) -> tuple[Floats, float, float]:
    """The values of one pair moved to its most frequent level; its freedom, and how much wider its error is.

    labels: the level of each. Least squares with an effect of the level and one of the side. NaN at levels
    that only one side has: they say nothing of a change; and at those of one run of each side, where others
    have enough: two runs that happen to be alike may be at no common level.
    """
    shared = _shared(labels, of_b)
    if not shared.any():
        return logs, np.inf, 1.0
    pairs = np.bincount(labels)[labels] == 2
    if min((shared & ~pairs & side).sum() for side in (of_b, ~of_b)) >= LEAST_RUNS:
        shared &= ~pairs
    levels = np.unique(labels[shared])
    group, is_b, values = np.searchsorted(levels, labels[shared]), of_b[shared], logs[shared]
    fit = least_squares(values[None, :], is_b, group)
    same_side = values - fit.moved[0] * is_b
    usual = same_side[group == np.bincount(group).argmax()].mean()
    values = centred(same_side[None, :], group)[0] + usual + fit.moved[0] * is_b
    moved = np.full(len(logs), np.nan)
    moved[shared] = values
    alone = 1 / is_b.sum() + 1 / (~is_b).sum()
    return moved, fit.freedom, float((fit.weights[0] @ fit.weights[0] / alone) ** 0.5)


def _of_levels(logs: Floats, labels: Ints) -> list[float]:
    """The mean of each level."""
    return [float(logs[labels == level].mean()) for level in np.unique(labels)]


def _shared(labels: Ints, of_b: Bools) -> Bools:
    """Which runs are at levels that both sides have."""
    return np.isin(labels, np.intersect1d(labels[of_b], labels[~of_b]))


def _replaced(side: pd.DataFrame, values: pd.DataFrame, number: str) -> pd.DataFrame:
    """The rows with the values of these pairs and units in place of their own."""
    if values.empty:
        return side
    keys = pd.MultiIndex.from_frame(side[CELL])
    at = values.index.get_indexer(keys), values.columns.get_indexer(pd.Index(side["unit"]))
    known = (at[0] >= 0) & (at[1] >= 0)
    replaced = np.where(known, values.to_numpy()[at], side[number].to_numpy(dtype=float))
    return side.assign(**{number: replaced})[~np.isnan(replaced)]

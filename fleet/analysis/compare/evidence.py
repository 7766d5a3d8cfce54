"""The changes of all comparisons of a command together: how far runs vary, and how often they switch levels.

Both are poorly known from the few runs of one relation, and well known from those of all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.compare.changes import Changes, Turn
from fleet.analysis.compare.inference import (
    LEVEL,
    ROUNDING,
    added,
    are_apart,
    beyond_p,
    chance_of_levels,
    interval,
    moderated,
)
from fleet.analysis.compare.run_levels import CLASS, Doubt
from fleet.analysis.tables import Bools, Floats, Ints

LEAST_HOSTS = 3  # that show what all hosts have in common
_MUCH = 0.25  # of the variance of a change
_CHANCE = 0.01  # p of the median change, at least


@dataclass(frozen=True)
class Evidence:
    """A row per change of all comparisons, in their order; a column per run, by turn, in order of time.

    of: the comparison of each row. measured: of each comparison, the first that shares turns with it: a
    column is the same turn in both.
    """

    comparisons: Sequence[Changes]
    of: Ints
    measured: Ints
    weights: Floats
    residuals: Floats
    freedom: Floats

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The rows of all comparisons."""
        return pd.concat([one.rows for one in self.comparisons], ignore_index=True)

    @cached_property
    def doubt(self) -> Floats:
        """How the levels of each row are matched (`Doubt`)."""
        return np.concatenate([np.empty(0), *(one.doubt for one in self.comparisons)])

    @cached_property
    def known(self) -> Bools:
        """Of which changes enough runs are known."""
        return ~np.isnan(self.freedom)

    @cached_property
    def variances(self) -> tuple[Floats, Floats]:
        """The variance between runs of each known change, in parts, and the freedom of each part.

        The parts: of the hosts measured together, of a comparison, of a relation with pairs, of the row.
        """
        rows, of = self.rows[self.known], self.of[self.known]
        groups: list[Ints] = [self.measured[of], of]
        if "ping_cpu" in rows:
            by = [of, *(rows[name].to_numpy() for name in CLASS)]
            groups.append(np.asarray(rows.groupby(by, sort=False).ngroup(), dtype=np.int64))
        labels = [np.unique(group, return_inverse=True)[1] for group in groups]
        return moderated(self.residuals[self.known], self.freedom[self.known], labels)

    @cached_property
    def scale(self) -> Floats:
        """The variance of each known change, as a multiple of that between runs."""
        return np.asarray((np.nan_to_num(self.weights[self.known]) ** 2).sum(axis=1))

    def table(self, sessions: Iterable[Sequence[int]] = ()) -> pd.DataFrame:
        """The rows with the interval, `p`, `error`, `freedom`, `shared`, `q_levels` and `doubt`.

        sessions: groups of comparisons, each of another host. shared: what all hosts of a session have in
        common, as a ratio, where it is taken out of `ratio` (`beside_session`); else 1.
        """
        found = np.full((len(self.rows), 7), np.nan)
        if self.known.any():
            (parts, freedom), of = self.variances, self.of[self.known]
            variance, left = added(parts, freedom)
            moved = np.log(self.rows["ratio"].to_numpy(dtype=float)[self.known])
            error, none = np.sqrt(variance * self.scale), np.zeros(len(moved))
            changes = np.array([moved, error, left, beyond_p(moved, error, left, none), none, none + 1])
            for group, first in product(sessions, np.unique(self.measured)):
                at = np.flatnonzero(np.isin(of, group) & (self.measured[of] == first))
                if (hosts := len(np.unique(of[at]))) >= LEAST_HOSTS:
                    weights, left = (each[self.known][at] for each in (self.weights, self.residuals))
                    unlike = np.nansum(weights * np.nanmean(left, axis=0), axis=1)
                    of_rows = (changes[:, at], parts[:, at], freedom[:, at], self.scale[at], unlike)
                    changes[:, at] = _beside_session(*of_rows, hosts)
            moved, error, left, p, shared, tests = changes
            ends, p = np.exp(interval(moved, error, left, LEVEL / tests)), np.minimum(p * tests, 1.0)
            found[self.known] = np.column_stack([np.exp(moved), *ends, p, error, left, np.exp(shared)])
        columns = dict(zip(("ratio", "low", "high", "p", "error", "freedom", "shared"), found.T, strict=True))
        columns["ratio"] = np.where(self.known, columns["ratio"], self.rows["ratio"])
        return self.rows.assign(**columns, q_levels=self.of_levels(), doubt=self.doubt)

    def of_levels(self) -> Floats:
        """The share of changes like each that are expected to be other levels only; 1: chance explains all.

        The rows whose sides are not so far apart show how often runs of one side are at other levels than
        its others, so how many changes such as this to expect by chance (`chance_of_levels`); to these comes
        the chance of this one alone. Where some do, chance explains as many as it brings among those and
        these in one session of twenty or more. All rows of a comparison may switch together, and count once;
        but of so many that do, there are as many times fewer to expect (Markov's inequality). Where levels
        may be matched otherwise, not one a side, it is 5 % or more; where hardly without a change, none.
        """
        of_levels = np.concatenate([np.empty(0), *(one.of_levels for one in self.comparisons)])
        switches = np.array([one.switches for one in self.comparisons])[self.of]
        counts = [each for one in self.comparisons for each in one.levels]
        mixed = np.array([len(each) > 0 and not are_apart(each) for each in counts], dtype=bool)
        found = np.zeros(len(of_levels))
        for p in np.unique(of_levels[of_levels > 0]):
            like = (of_levels > 0) & (of_levels <= p)
            others = [counts[at] for at in np.flatnonzero(mixed & ~like)]
            expected = sum(chance_of_levels(each, float(p)) for each in others)
            rows = np.bincount(self.of[like], minlength=len(self.comparisons))
            for together in np.unique(rows[rows > 0]):
                seen, of_each = int((rows >= together).sum()), expected / together
                share = (of_each + p * switches) / seen
                explained = bool(others) and special.pdtrc(seen - 1, of_each + p * seen) >= LEVEL
                at = (of_levels == p) & (rows[self.of] == together)
                found = np.where(at, 1.0 if explained else np.minimum(share, 1 - ROUNDING), found)
        found[self.doubt == Doubt.LEAST] = 0.0
        otherwise = np.array([not (len(each) == 2 and are_apart(each)) for each in counts], dtype=bool)
        return np.where(otherwise & (self.doubt >= Doubt.SIZE), np.maximum(found, LEVEL), found)


def together(comparisons: Sequence[Changes]) -> Evidence:
    """The evidence of these comparisons."""
    first: dict[object, int] = {}
    measured = [
        min((first.setdefault(turn, number) for turn in one.turns), default=number)
        for number, one in enumerate(comparisons)
    ]
    turns: dict[int, set[Turn]] = {group: set() for group in measured}
    for one, group in zip(comparisons, measured, strict=True):
        turns[group] |= set(one.turns)
    places = {group: {turn: at for at, turn in enumerate(sorted(of))} for group, of in turns.items()}
    of = np.repeat(np.arange(len(measured)), [len(one.rows) for one in comparisons])
    weights, residuals = np.full((2, len(of), max(map(len, places.values()), default=0)), np.nan)
    for number, one in enumerate(comparisons):
        here = np.ix_(of == number, [places[measured[number]][turn] for turn in one.turns])
        weights[here], residuals[here] = one.weights, one.residuals
    freedom = np.concatenate([np.empty(0), *(one.freedom for one in comparisons)])
    return Evidence(comparisons, of, np.array(measured, dtype=np.int64), weights, residuals, freedom)


def _beside_session(
    changes: Floats, parts: Floats, freedom: Floats, scale: Floats, unlike: Floats, hosts: int
) -> Floats:
    """The changes, and beside the common one those that it hides.

    Rows: change, error, freedom, p, common, and how many tests p is the least of. A disturbance of the
    network, the room or the hour moves all hosts of a session alike. It is part of what is unknown of each
    change; but a change of few hosts stands out from those of the others.

    parts, freedom: of the variance between runs, what all have in common first. scale: the variance of each
    change as a multiple of it. unlike: what sessions add to a change that lacks some of their runs. hosts:
    how many. Where much of the variance is common, there are two tests, each at half the level: of the
    change as it is, and beside the median of all. The second only where that median may be chance; else most
    have changed, and an unlike one may be the one that has not.
    """
    if np.median(parts[0] / parts.sum(axis=0)) <= _MUCH:
        return changes
    own, left = added(parts[1:], freedom[1:])
    errors, common, none = np.sqrt(own * scale), np.median(changes[0] - unlike), np.zeros(len(scale))
    of_median = np.sqrt(np.pi / 2 / hosts) / np.mean(1 / errors)
    of_common = np.hypot(np.sqrt(parts[0] * scale), of_median)
    apart, wider = changes[0] - unlike - common, np.hypot(errors, of_median)
    beside = np.array([apart, wider, left, beyond_p(apart, wider, left, none), none + common + unlike, none])
    may_be_chance = np.median(beyond_p(none + common, of_common, freedom[0], none)) >= _CHANCE
    found = np.where(may_be_chance & (beside[3] < changes[3]), beside, changes)
    found[5] = 2
    return found

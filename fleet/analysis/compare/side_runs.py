"""Lays out the numbers of a comparison for `verdicts`: a row per relation or pair, a column per run."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.compare.judge import ALPHA, fit_within_blocks, moderate_variances
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.late import special

CLASS = ["benchmark", "variant", "relation"]
CELL = [*CLASS, "ping_cpu", "pong_cpu"]
_LEAST_PAIRS = 8  # of a relation, to estimate how its pairs scatter
_TAILS = 6  # degrees of freedom of the t distribution that stands for how pairs scatter


@dataclass(frozen=True, slots=True)
class SideRuns:
    """The numbers of one comparison, its runs in order of time.

    rows: what each row of `logs` is of, with the keys CLASS, and `a_units`, `b_units`, how many runs of each
    side have it. logs: of ns, a row per number, a column per run, NaN where a run lacks it. is_b: the side of
    each run. turns: of each run; hosts that share one were measured at the same time. sides: comparisons of
    other hosts with the same are judged as one session; None: judged alone. blocks: of each run, if the
    change is that within blocks. enough: whether both sides have three runs.
    """

    rows: pd.DataFrame
    logs: Floats
    is_b: Bools
    turns: tuple[Hashable, ...]
    sides: Hashable = None
    blocks: Ints | None = None
    enough: bool = True

    @property
    def keys(self) -> list[tuple[Any, bool]]:
        """Return each run's turn and whether it is of B: the same in comparisons measured together."""
        return list(zip(self.turns, self.is_b.tolist(), strict=True))


class RunOrder(NamedTuple):
    """The order of runs, by unit. sides: as of `SideRuns`. turns: session and place. blocks: their names."""

    sides: Hashable = None
    turns: Mapping[str, tuple[str, int]] | None = None
    blocks: Mapping[str, str] | None = None


AS_LISTED = RunOrder()


def lay_out_relations(a: pd.DataFrame, b: pd.DataFrame, number: str, order: RunOrder = AS_LISTED) -> SideRuns:
    """Return a row per benchmark, variant and relation that both sides have, the nearest relation first.

    a, b: rows per pair and `unit`, a run's id or a host's name, with latencies in ns in the column `number`.
    A unit's number of a relation is the median of its pairs. `a_within`, `b_within`: the typical half
    interval inside a single run, which is no error of the change.
    """
    kinds = list(dict.fromkeys(zip(a["benchmark"], a["variant"], strict=True)))
    ns = _pivot_medians(a, b, number, CLASS)
    within = [side.groupby(CLASS)["spread"].median().reindex(ns.index).to_numpy() for side in (a, b)]
    pairs = a.drop_duplicates(CELL).groupby(CLASS).size().reindex(ns.index).to_numpy()
    rows = ns.index.to_frame(index=False).assign(pairs=pairs, a_within=within[0], b_within=within[1])
    place = [kinds.index(kind) for kind in zip(rows["benchmark"], rows["variant"], strict=True)]
    near = np.log(ns["a"].to_numpy()).mean(axis=1) if len(ns) else []
    ranks = rows.assign(place=place, near=near).sort_values(["place", "near"], kind="stable").index.to_numpy()
    return _order_runs(rows.iloc[ranks], ns.iloc[ranks], order)


def lay_out_pairs(a: pd.DataFrame, b: pd.DataFrame, number: str, order: RunOrder = AS_LISTED) -> SideRuns:
    """Return a row per pair that every unit has, for sides of the same topology. a, b: as for relations."""
    ns = _pivot_medians(a, b, number, CELL).dropna()
    return _order_runs(ns.index.to_frame(index=False), ns, order)


def _pivot_medians(a: pd.DataFrame, b: pd.DataFrame, number: str, keys: list[str]) -> pd.DataFrame:
    """Return medians of the keys that both sides have, a column per side and unit; NaN where one lacks it."""
    tables = []
    for side in (a, b):
        medians = side.groupby([*keys, "unit"], sort=False, observed=True)[number].median()
        tables.append(medians.dropna().unstack("unit").add_prefix(""))  # three times as fast as a pivot table
    return pd.concat(tables, axis=1, keys=["a", "b"], join="inner").astype(float)


def _order_runs(rows: pd.DataFrame, ns: pd.DataFrame, order: RunOrder) -> SideRuns:
    """Put the columns of `ns` in order of time; without turns they stay in their order."""
    runs = list(zip(*(ns.columns.get_level_values(level) for level in (0, 1)), strict=True))
    turn = {run: run if order.turns is None else order.turns[run[1]] for run in runs}
    runs.sort(key=turn.__getitem__)
    is_b, logs = np.array([side == "b" for side, _ in runs], dtype=np.bool_), np.log(ns[runs].to_numpy())
    a_units, b_units = ((~np.isnan(logs[:, side])).sum(axis=1) for side in (~is_b, is_b))
    rows = rows.reset_index(drop=True).assign(a_units=a_units, b_units=b_units)
    laid_out = SideRuns(rows, logs, is_b, tuple(turn[run] for run in runs), order.sides)
    if order.blocks is None:
        return replace(laid_out, enough=bool(min(is_b.sum(), (~is_b).sum()) >= LEAST_RUNS))
    return replace(laid_out, blocks=pd.factorize(np.array([order.blocks[unit] for _, unit in runs]))[0])


def find_chance_limits(a: Floats, b: Floats, relations: Iterable[object]) -> Floats:
    """Return the change of each pair beside its relation that is no evidence: beyond it, one map in twenty.

    a, b: logarithms, a row per pair, a column per run. With three runs a side the scatter between runs
    counts, moderated over the relation; with fewer that of the changes of its pairs, inf for less than eight.
    """
    names, largest = np.array(list(relations), dtype=object), np.full(len(a), np.inf)
    alpha = ALPHA / max(len(a), 1)  # every pair is looked at
    is_b = np.repeat([False, True], [a.shape[1], b.shape[1]])
    for relation in dict.fromkeys(names):
        rows = names == relation
        values = np.hstack([side[rows] - np.median(side[rows], axis=0) for side in (a, b)])
        if min(a.shape[1], b.shape[1]) >= LEAST_RUNS:
            fit = fit_within_blocks(values, is_b, np.zeros(len(is_b), dtype=np.int64))
            variance, freedom = moderate_variances(fit.variance, fit.freedom)
            largest[rows] = -special.stdtrit(freedom, alpha / 2) * np.sqrt(variance * fit.scale)
        elif rows.sum() >= _LEAST_PAIRS:
            changes = values[:, is_b].mean(axis=1) - values[:, ~is_b].mean(axis=1)
            middle = np.median(np.abs(changes - np.median(changes)))
            largest[rows] = special.stdtrit(_TAILS, alpha / 2) / special.stdtrit(_TAILS, 0.25) * middle
    return largest

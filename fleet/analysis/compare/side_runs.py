"""Lays out the numbers of a comparison for `verdicts`: a row per relation or pair, a column per run."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.compare.judge import ALPHA, ROUNDING, moderate_variances
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.analysis.tables import Bools, Floats, Ints

CLASS = ["benchmark", "variant", "relation"]
CELL = [*CLASS, "ping_cpu", "pong_cpu"]
_LEAST_PAIRS = 8  # of a relation, to estimate how its pairs scatter
_TAILS = 6  # degrees of freedom of the t distribution that stands for how pairs scatter


@dataclass(frozen=True, slots=True)
class SideRuns:
    """The numbers of one comparison, its runs in order of time.

    rows: what each row of `logs` is of, with the keys CLASS, and `a_units`, `b_units`, how many runs of each
    side have it. logs: logarithms of ns, a row per number, a column per run, NaN where a run lacks it. is_b:
    the side of each run. turns: of each run; hosts that share one were measured at the same time. sides: the
    comparisons of other hosts with the same are judged as one session; None: judged alone. blocks: of each
    run, if the change is that within blocks. enough: whether both sides have three runs.
    """

    rows: pd.DataFrame
    logs: Floats
    is_b: Bools
    turns: tuple[Hashable, ...]
    sides: Hashable = None
    blocks: Ints | None = None
    enough: bool = True


def lay_out_relations(
    a: pd.DataFrame,
    b: pd.DataFrame,
    number: str,
    *,
    sides: Hashable = None,
    turns: Mapping[str, tuple[str, int]] | None = None,
    blocks: Mapping[str, str] | None = None,
) -> SideRuns:
    """Return a row per benchmark, variant and relation that both sides have, the nearest relation first.

    a, b: rows per pair and `unit`, a run's id or a host's name, with latencies in ns in the column `number`.
    A unit's number of a relation is the median of its pairs. `a_within`, `b_within`: the typical half
    interval inside a single run, which is no error of the change. turns, blocks: by unit.
    """
    order = list(dict.fromkeys(zip(a["benchmark"], a["variant"], strict=True)))
    ns = _medians_by_unit(a, b, number, CLASS)
    within = {
        f"{name}_within": side.groupby(CLASS)["spread"].median().reindex(ns.index).to_numpy()
        for name, side in (("a", a), ("b", b))
    }
    pairs = a.drop_duplicates(CELL).groupby(CLASS).size().reindex(ns.index).to_numpy()
    rows = ns.index.to_frame(index=False).assign(pairs=pairs, **within)
    place = [order.index(kind) for kind in zip(rows["benchmark"], rows["variant"], strict=True)]
    near = np.log(ns["a"].to_numpy()).mean(axis=1) if len(ns) else []
    ranks = rows.assign(place=place, near=near).sort_values(["place", "near"], kind="stable").index.to_numpy()
    return _in_order_of_time(rows.iloc[ranks], ns.iloc[ranks], sides, turns, blocks)


def lay_out_pairs(
    a: pd.DataFrame,
    b: pd.DataFrame,
    number: str,
    *,
    sides: Hashable = None,
    turns: Mapping[str, tuple[str, int]] | None = None,
) -> SideRuns:
    """Return a row per pair that every unit has, for sides of the same topology. a, b: as for relations."""
    ns = _medians_by_unit(a, b, number, CELL).dropna()
    return _in_order_of_time(ns.index.to_frame(index=False), ns, sides, turns, None)


def _medians_by_unit(a: pd.DataFrame, b: pd.DataFrame, number: str, keys: list[str]) -> pd.DataFrame:
    """The medians of the keys that both sides have, a column per side and unit; NaN where a unit lacks it."""
    tables = []
    for side in (a, b):
        medians = side.groupby([*keys, "unit"], sort=False, observed=True)[number].median()
        tables.append(medians.dropna().unstack("unit").add_prefix(""))  # three times as fast as a pivot table
    return pd.concat(tables, axis=1, keys=["a", "b"], join="inner").astype(float)


def _in_order_of_time(
    rows: pd.DataFrame,
    ns: pd.DataFrame,
    sides: Hashable,
    turns: Mapping[str, tuple[str, int]] | None,
    blocks: Mapping[str, str] | None,
) -> SideRuns:
    names = list(zip(*(map(str, ns.columns.get_level_values(at)) for at in (0, 1)), strict=True))
    turn = {name: name if turns is None else turns[name[1]] for name in names}
    order = sorted(range(len(names)), key=lambda at: turn[names[at]])
    runs = [names[at] for at in order]
    is_b = np.array([side == "b" for side, _ in runs], dtype=np.bool_)
    logs = np.log(ns.to_numpy()[:, order])
    known = ~np.isnan(logs)
    rows = rows.assign(a_units=known[:, ~is_b].sum(axis=1), b_units=known[:, is_b].sum(axis=1))
    of_runs = None if blocks is None else pd.factorize(np.array([blocks[unit] for _, unit in runs]))[0]
    enough = blocks is not None or min(is_b.sum(), (~is_b).sum()) >= LEAST_RUNS
    rows = rows.reset_index(drop=True)
    return SideRuns(rows, logs, is_b, tuple(turn[name] for name in runs), sides, of_runs, bool(enough))


def largest_by_chance(a: Floats, b: Floats, spreads: Floats, relations: Iterable[object]) -> Floats:
    """Return the change of each pair beside its relation that is no evidence: beyond it, one map in twenty.

    a, b: logarithms, a row per pair, a column per run. spreads: the half intervals within each run, relative.
    With three runs a side the scatter between runs counts, moderated over the pairs of the relation; with
    fewer the intervals within runs, or how the changes of its pairs scatter, whichever is larger.
    """
    relations = list(relations)
    largest, alpha = np.full(len(a), np.nan), ALPHA / max(len(a), 1)  # every pair is looked at
    freedom, scale = a.shape[1] + b.shape[1] - 2, 1 / a.shape[1] + 1 / b.shape[1]
    for relation in dict.fromkeys(relations):
        rows = np.array([name == relation for name in relations])
        sides = [side[rows] - np.median(side[rows], axis=0) for side in (a, b)]
        if freedom >= 2 * (LEAST_RUNS - 1):
            squares = sum(((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in sides)
            variance, joined = moderate_variances(
                np.maximum(squares / freedom, ROUNDING), np.full(rows.sum(), float(freedom))
            )
            largest[rows] = -special.stdtrit(joined, alpha / 2) * np.sqrt(variance * scale)
            continue
        weights = np.repeat([1 / side.shape[1] ** 2 for side in sides], [side.shape[1] for side in sides])
        wider = special.ndtri(alpha / 2) / special.ndtri(ALPHA / 2)
        largest[rows] = wider * np.sqrt(spreads[rows] ** 2 @ weights)
        moved = sides[1].mean(axis=1) - sides[0].mean(axis=1)
        if len(moved) >= _LEAST_PAIRS:
            middle = float(np.median(np.abs(moved - np.median(moved))))
            by_pairs = special.stdtrit(_TAILS, alpha / 2) / special.stdtrit(_TAILS, 0.25) * middle
            largest[rows] = np.fmax(largest[rows], by_pairs)
    return largest

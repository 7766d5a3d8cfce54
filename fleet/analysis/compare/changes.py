"""Compares two sides: a row per relation, a row per pair. The unit is the run (docs/comparing.md)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fleet.analysis.compare.blocks import InBlock
from fleet.analysis.compare.error_rate import find_pairs, judge_relations
from fleet.analysis.compare.inference import LEAST_RUNS, Floats, change, change_in_blocks, moderated_p
from fleet.analysis.compare.level_shares import p_of_levels
from fleet.analysis.reduce.between_runs import geometric_mean

KIND = ["benchmark", "variant"]
CLASS = [*KIND, "relation"]
CELL = [*CLASS, "ping_cpu", "pong_cpu"]
_OF_CHANGE = ("ratio", "low", "high", "p", "error", "freedom")


def compare_relations(
    a: pd.DataFrame,
    b: pd.DataFrame,
    threshold: float,
    *,
    number: str = "median_ns",
    blocks: Mapping[str, InBlock] | None = None,
    freedom: pd.Series | None = None,
    switches: bool = False,
) -> pd.DataFrame:
    """One row per benchmark, variant and relation that both sides have, the nearest relation first.

    a, b: rows per pair and unit (column `unit`: a run's id, or a host's), latencies in ns. A unit's number
    of a relation is the median of its pairs. blocks: of each unit; the change is then that within blocks.
    freedom: of the change of each pair that was moved to one level (`match_levels`); that of a relation is at
    most the median of its pairs'. switches: runs switch between levels; `p` is then `p_of_levels` at least.
    `a_ns`, `b_ns`: geometric means over the units. `ratio` of b to a with its 95 % interval `low`, `high`;
    `p` (t on logarithms), its `error` and `freedom`; `q` (over all rows), `smallest` (the change that
    would have been detected), `verdict`, `why`. `a_within`, `b_within`: the typical half interval inside a
    single run, which is no error of the change.
    """
    order = list(dict.fromkeys(zip(a["benchmark"], a["variant"], strict=True)))
    by_a, by_b = (dict(iter(side.groupby(CLASS, sort=False))) for side in (a, b))
    rows = []
    for key in [key for key in by_a if key in by_b]:
        parts = (by_a[key], by_b[key])
        medians = [part.groupby("unit")[number].median() for part in parts]
        values = [median.to_numpy(dtype=float) for median in medians]
        most = _most_freedom(parts[0], freedom)
        if blocks is None:
            found = change(values[0], values[1], most)
        else:
            of_a, of_b = ([blocks[str(unit)] for unit in median.index] for median in medians)
            found = change_in_blocks(values[0], values[1], of_a, of_b, most)
        rows.append(
            dict(zip(CLASS, key, strict=True))
            | {"pairs": len(parts[0].drop_duplicates(["ping_cpu", "pong_cpu"]))}
            | {"a_units": len(values[0]), "b_units": len(values[1])}
            | {name: geometric_mean(v) for name, v in zip(("a_ns", "b_ns"), values, strict=True)}
            | {name: getattr(found, name) for name in _OF_CHANGE}
            | ({"p": _p_of_levels(found.p, values)} if switches else {})
            | {"a_within": parts[0]["spread"].median(), "b_within": parts[1]["spread"].median()}
        )
    columns = [*CLASS, "pairs", "a_units", "b_units", "a_ns", "b_ns", *_OF_CHANGE, "a_within", "b_within"]
    table = pd.DataFrame(rows, columns=columns)
    place = [order.index(kind) for kind in zip(table["benchmark"], table["variant"], strict=True)]
    table = table.assign(place=place).sort_values(["place", "a_ns"], kind="stable")
    table = table.drop(columns="place").reset_index(drop=True)
    return judge_relations([table], [threshold])[0]


def _most_freedom(pairs: pd.DataFrame, freedom: pd.Series | None) -> float:
    if freedom is None:
        return np.inf
    return float(np.median(_freedom_of(pd.MultiIndex.from_frame(pairs[CELL].drop_duplicates()), freedom)))


def _freedom_of(pairs: pd.MultiIndex, freedom: pd.Series | None) -> Floats:
    if freedom is None:
        return np.full(len(pairs), np.inf)
    return freedom.reindex(pairs).fillna(np.inf).to_numpy(dtype=float)


def _p_of_levels(p: float, values: Sequence[Floats]) -> float:
    a, b = (np.log(side)[None, :] for side in values)
    return p if np.isnan(p) else max(p, float(p_of_levels(a, b)[0]))


def compare_pairs(
    a: pd.DataFrame,
    b: pd.DataFrame,
    threshold: float,
    *,
    number: str = "median_ns",
    freedom: pd.Series | None = None,
    switches: bool = False,
) -> pd.DataFrame:
    """One row per pair that every run has: `a_ns`, `b_ns`, `ratio`, moderated `p`, `q`, and `changed`.

    a, b, freedom, switches: as for `compare_relations`. changed: q < 0.05 and the change beyond the
    threshold. Only for sides of the same topology. No rows where a side has fewer than three runs.
    """
    tables = []
    if min(a["unit"].nunique(), b["unit"].nunique()) >= LEAST_RUNS:
        cells = [side.pivot_table(index=CELL, columns="unit", values=number, sort=False) for side in (a, b)]
        logs = [cell.dropna().transform(np.log) for cell in cells]
        both = logs[0].index.intersection(logs[1].index)
        for _, part in both.to_frame(index=False).groupby(CLASS, sort=False):
            at = pd.MultiIndex.from_frame(part)
            rows = [side.loc[at].to_numpy() for side in logs]
            means = [side.mean(axis=1) for side in rows]
            p = moderated_p(rows[0], rows[1], _freedom_of(at, freedom))
            tables.append(
                part.assign(
                    a_ns=np.exp(means[0]),
                    b_ns=np.exp(means[1]),
                    ratio=np.exp(means[1] - means[0]),
                    p=np.maximum(p, p_of_levels(rows[0], rows[1])) if switches else p,
                )
            )
    if not tables:
        return pd.DataFrame(columns=[*CELL, "a_ns", "b_ns", "ratio", "p", "q", "changed"])
    return find_pairs([pd.concat(tables, ignore_index=True)], [threshold])[0]

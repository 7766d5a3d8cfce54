"""What performance counters counted for each unit of a benchmark, beside its numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fleet.analysis.views.text import is_none, records
from fleet.model import Relation, benchmark_named
from fleet.text import table

_NEAREST_FIRST = list(map(str, Relation))
_PAIR = ["benchmark", "variant", "point", "low", "high"]
_NUMBER = ["benchmark", "variant", "point", "relation", "thread", "event"]


def per_unit(counters: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """A row per benchmark, variant, point, relation, thread and event.

    counters: the table `counters` of one run; pairs: its rows of the table `pairs`. Columns: those names,
    `per_unit` (median of all bursts; NaN where the CPU's counters were always in use), `bursts`, and `scaled`
    (share of them in which the event was counted for a part of the time, and the rest is estimated). thread:
    `ping`, or `other`.
    """
    relations = _with_ends(pairs)[[*_PAIR, "relation"]]
    rows = _with_ends(counters).merge(relations, on=_PAIR, how="inner")
    share = rows["running_ns"] / rows["enabled_ns"]
    rows = rows.assign(
        thread=rows["cpu"].eq(rows["ping_cpu"]).map({True: "ping", False: "other"}),
        per_unit=rows["count"].astype("float64") / share.where(share > 0) / rows["units"],
        scaled=share < 1,
    )
    found = rows.groupby(_NUMBER, sort=False, dropna=False).agg(
        per_unit=("per_unit", "median"), bursts=("per_unit", "size"), scaled=("scaled", "mean")
    )
    return found.reset_index()


def _with_ends(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with plain strings for keys, and the lower and the higher CPU of each pair."""
    keys = {name: rows[name].astype(object) for name in ("benchmark", "variant", "point")}
    ends = rows[["ping_cpu", "pong_cpu"]]
    return rows.assign(low=ends.min(axis=1), high=ends.max(axis=1), **keys)


def counters_text(found: pd.DataFrame, hello: Mapping[str, Any]) -> str:
    """The table of one benchmark and variant; empty if nothing was counted in it.

    found: its rows of `per_unit`. hello: of the run, for the order of events and points.
    """
    if found.empty:
        return ""
    first, counted = found.iloc[0], set(found["event"])
    unit = str(benchmark_named(first["benchmark"]).unit).replace("_", " ")
    events = [counter["event"] for counter in hello["counters"] if counter["event"] in counted]
    shown = ["relation", *(name for name in ("point", "thread") if found[name].nunique() > 1)]
    points = [point for kind in hello["plan"]["benchmarks"] for point in kind.get("points", ())]
    rows = sorted(records(found), key=lambda row: _place_in_order(row, points))
    cells = {(_names(row, shown), row["event"]): _number(row) for row in rows}
    lines = [
        (*names, *(cells.get((names, event), "-") for event in events))
        for names in dict.fromkeys(names for names, _ in cells)
    ]
    title = f"{first['benchmark']}/{first['variant']}: events counted per {unit}, median of the bursts"
    notes = ["-: the CPU had no counter free"] if any("-" in line for line in lines) else []
    notes += ["~: counted for a part of the time, the rest is estimated"] if found["scaled"].any() else []
    listed = table((*shown, *events), lines, right=set(range(len(shown), len(shown) + len(events))))
    return "\n".join([title, listed, *(["; ".join(notes)] if notes else [])])


def _names(row: Mapping[str, Any], shown: Sequence[str]) -> tuple[str, ...]:
    return tuple("" if is_none(row[name]) else str(row[name]) for name in shown)


def _place_in_order(row: Mapping[str, Any], points: Sequence[str]) -> tuple[int, int]:
    point = points.index(row["point"]) if row["point"] in points else -1
    return _NEAREST_FIRST.index(row["relation"]), point


def _number(row: Mapping[str, Any]) -> str:
    return "-" if is_none(row["per_unit"]) else f"{'~' if row['scaled'] else ''}{row['per_unit']:.3g}"

"""Counted events per unit of work, and tables of them."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.views.benchmark_tables import PointTable, PointTables
from fleet.model import (
    SHIPPED,
    Descriptions,
    View,
    relation_sort_key,
)
from fleet.text import format_count

# views whose threads all do the same work
_SAME_WORK = (
    View.LADDER,
    View.BLOCKS,
    View.PRODUCTS,
)
_ENDS = ["ping_cpu", "pong_cpu"]
_NUMBER = ["benchmark", "variant", "point", "relation", "thread", "event"]


def count_per_unit(counters: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return events per unit of work, a row per benchmark, variant, point, relation,
    thread and event.

    counters: the table `counters` of one run. pairs: its rows of `pairs`. Columns:
    those six, `per_unit` (median of bursts; NaN where the CPU had no counter free),
    `bursts`, and `scaled` (share of bursts whose event was counted for a part of the
    time, and the rest estimated). thread: `ping` or `other`.
    """
    if counters.empty:
        return pd.DataFrame([], columns=[*_NUMBER, "per_unit", "bursts", "scaled"])
    keys = [*_NUMBER[:3], "low", "high"]
    counted, own = (
        rows.assign(low=rows[_ENDS].min(axis=1), high=rows[_ENDS].max(axis=1))
        for rows in (counters, pairs)
    )
    rows = counted.merge(
        own[[*keys, "relation"]].drop_duplicates(keys, keep="last"), on=keys
    )
    share = rows["running_ns"] / rows["enabled_ns"]
    rows = rows.assign(
        thread=rows["cpu"].eq(rows["ping_cpu"]).map({True: "ping", False: "other"}),
        per_unit=rows["count"].astype("float64")
        / share.where(share > 0)
        / rows["units"],
        scaled=share < 1,
    )
    medians = rows.groupby(_NUMBER, sort=False, dropna=False, observed=True).agg(
        per_unit=("per_unit", "median"),
        bursts=("per_unit", "size"),
        scaled=("scaled", "mean"),
    )
    return medians.reset_index()


def tabulate_events(
    events: pd.DataFrame, hello: Mapping[str, Any], descriptions: Descriptions = SHIPPED
) -> PointTables | None:
    """Return tables of a benchmark and variant's events, None without any. events: from
    `count_per_unit`.
    """
    if events.empty:
        return None
    first = events.iloc[0]
    benchmark = descriptions[first["benchmark"]]
    is_averaged = benchmark.view in _SAME_WORK and events["thread"].nunique() > 1
    if is_averaged:
        keys = [name for name in _NUMBER if name != "thread"]
        columns = {"per_unit": "mean", "bursts": "max", "scaled": "max"}
        events = (
            events.groupby(keys, sort=False, dropna=False, observed=True)
            .agg(columns)
            .reset_index()
        )
        events["thread"] = "each"
    is_zero = (
        events["per_unit"]
        .eq(0)
        .groupby(events["event"], sort=False, observed=True)
        .all()
    )
    never = [str(name) for name in is_zero.index[is_zero]]
    counted_events = set(events["event"]) - set(never)
    names = [
        counter["event"]
        for counter in hello.get("counters", ())
        if counter["event"] in counted_events
    ]
    planned = hello.get("plan", {}).get("benchmarks", ())
    points = [point for choice in planned for point in choice.get("points") or ()]
    key_columns = [
        name for name in ("point", "thread") if events[name].nunique() > 1
    ] or ["thread"]
    places = {point: place for place, point in enumerate(dict.fromkeys(points))}
    rows = sorted(text.to_records(events), key=lambda row: places.get(row["point"], -1))
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: relation_sort_key(row["relation"])):
        parts.setdefault(row["relation"], []).append(row)
    if (
        "point" not in key_columns and len(parts) > 1
    ):  # short tables are easier to compare in one
        key_columns = ["relation", *key_columns]
        parts = {"by what two CPUs share": [*chain(*parts.values())]}
    tables = [
        PointTable(
            title,
            (", ".join(key_columns), *names),
            _format_event_lines(part, key_columns, names),
        )
        for title, part in parts.items()
        if names
    ]
    notes = [f"0 everywhere: {', '.join(never)}"] if never else []
    notes += [f"medians of {format_count(int(events['bursts'].max()), 'count')}"]
    notes += ["mean of the threads"] if is_averaged else []
    notes += (
        ["-: the CPU had no counter free"] if events["per_unit"].isna().any() else []
    )
    notes += (
        ["~: counted for a part of the time, the rest is estimated"]
        if events["scaled"].any()
        else []
    )
    legend = f"counted per {benchmark.unit.replace('_', ' ')} in each thread"
    return PointTables(
        f"{first['benchmark']}/{first['variant']} events",
        legend,
        tables,
        "; ".join(notes),
    )


def _format_event_lines(
    rows: Sequence[dict[str, Any]], key_columns: Sequence[str], names: Sequence[str]
) -> list[tuple[str, ...]]:
    cells = {}
    for row in rows:
        mark = "~" if row["scaled"] else ""
        number = (
            "-" if text.is_none(row["per_unit"]) else f"{mark}{row['per_unit']:.3g}"
        )
        cells[", ".join(str(row[name]) for name in key_columns), row["event"]] = number
    places = dict.fromkeys(place for place, _ in cells)
    return [
        (place, *(cells.get((place, name), "-") for name in names)) for place in places
    ]

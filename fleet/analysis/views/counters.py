"""Tables of performance counters, for each unit of a benchmark."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from fleet.analysis.base.text import is_none, to_records
from fleet.analysis.views.point_tables import PointTable, PointTables
from fleet.model import SHIPPED, Descriptions, View, relation_sort_key
from fleet.text import format_count

_PAIR = ["benchmark", "variant", "point", "ping_cpu", "pong_cpu"]
_SAME_WORK = (View.LADDER, View.BLOCKS, View.PRODUCTS)  # of all their threads
_NUMBER = ["benchmark", "variant", "point", "relation", "thread", "event"]


def count_per_unit(counters: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return a row per benchmark, variant, point, relation, thread and event.

    counters: the table `counters` of one run. pairs: its rows of `pairs`. Columns: those names, `per_unit`
    (median of bursts; NaN where the CPU had no counter free), `bursts`, and `scaled` (share of bursts whose
    event was counted for a part of the time, and the rest estimated). thread: `ping` or `other`.
    """
    if counters.empty:
        return pd.DataFrame([], columns=[*_NUMBER, "per_unit", "bursts", "scaled"])
    relations = dict(zip(_iter_pairs(pairs), pairs["relation"], strict=True))
    names: list[Any] = [relations.get(pair) for pair in _iter_pairs(counters)]
    rows = counters.assign(relation=names)
    rows = rows[rows["relation"].notna()]
    share = rows["running_ns"] / rows["enabled_ns"]
    rows = rows.assign(
        thread=rows["cpu"].eq(rows["ping_cpu"]).map({True: "ping", False: "other"}),
        per_unit=rows["count"].astype("float64") / share.where(share > 0) / rows["units"],
        scaled=share < 1,
    )
    medians = rows.groupby(_NUMBER, sort=False, dropna=False, observed=True).agg(
        per_unit=("per_unit", "median"), bursts=("per_unit", "size"), scaled=("scaled", "mean")
    )
    return medians.reset_index()


def _iter_pairs(rows: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    for *kind, ping, pong in rows[_PAIR].itertuples(index=False, name=None):
        yield *(None if is_none(word) else word for word in kind), min(ping, pong), max(ping, pong)


def tabulate_events(
    events: pd.DataFrame, hello: Mapping[str, Any], descriptions: Descriptions = SHIPPED
) -> PointTables | None:
    """Return the tables of one benchmark and variant, or None without events.

    events: from `count_per_unit`. hello: of the run.
    """
    if events.empty:
        return None
    first = events.iloc[0]
    benchmark = descriptions[first["benchmark"]]
    is_averaged = benchmark.view in _SAME_WORK and events["thread"].nunique() > 1
    if is_averaged:
        keys = [name for name in _NUMBER if name != "thread"]
        columns = {"per_unit": "mean", "bursts": "max", "scaled": "max"}
        events = events.groupby(keys, sort=False, dropna=False, observed=True).agg(columns).reset_index()
        events["thread"] = "each"
    is_zero = events["per_unit"].eq(0).groupby(events["event"], sort=False, observed=True).all()
    never = [str(name) for name in is_zero.index[is_zero]]
    counted_events = set(events["event"]) - set(never)
    names = [counter["event"] for counter in hello.get("counters", ()) if counter["event"] in counted_events]
    planned = hello.get("plan", {}).get("benchmarks", ())
    points = [point for kind in planned for point in kind.get("points") or ()]
    key_columns = [name for name in ("point", "thread") if events[name].nunique() > 1] or ["thread"]
    places = {point: place for place, point in enumerate(dict.fromkeys(points))}
    rows = sorted(to_records(events), key=lambda row: places.get(row["point"], -1))
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: relation_sort_key(row["relation"])):
        parts.setdefault(row["relation"], []).append(row)
    if "point" not in key_columns and len(parts) > 1:  # short tables are easier to compare in one
        key_columns = ["relation", *key_columns]
        parts = {"by what two CPUs share": [*chain(*parts.values())]}
    tables = [
        PointTable(title, (", ".join(key_columns), *names), _format_lines(part, key_columns, names))
        for title, part in parts.items()
        if names
    ]
    notes = [f"0 everywhere: {', '.join(never)}"] if never else []
    notes += [f"medians of {format_count(int(events['bursts'].max()), 'count')}"]
    notes += ["mean of the threads"] if is_averaged else []
    notes += ["-: the CPU had no counter free"] if events["per_unit"].isna().any() else []
    notes += ["~: counted for a part of the time, the rest is estimated"] if events["scaled"].any() else []
    legend = f"counted per {benchmark.unit.replace('_', ' ')} in each thread"
    return PointTables(f"{first['benchmark']}/{first['variant']} events", legend, tables, "; ".join(notes))


def _format_lines(
    rows: Sequence[dict[str, Any]], key_columns: Sequence[str], names: Sequence[str]
) -> list[tuple[str, ...]]:
    cells = {}
    for row in rows:
        number = "-" if is_none(row["per_unit"]) else f"{'~' if row['scaled'] else ''}{row['per_unit']:.3g}"
        cells[", ".join(str(row[name]) for name in key_columns), row["event"]] = number
    places = dict.fromkeys(place for place, _ in cells)
    return [(place, *(cells.get((place, name), "-") for name in names)) for place in places]

"""Tables of performance counters, for each unit of a benchmark."""

from collections.abc import Iterator, Mapping, Sequence
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
    of_rows: list[Any] = [relations.get(pair) for pair in _iter_pairs(counters)]
    rows = counters.assign(relation=of_rows)
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
    found: pd.DataFrame, hello: Mapping[str, Any], descriptions: Descriptions = SHIPPED
) -> PointTables | None:
    """Return the tables of one benchmark and variant, or None without events.

    found: from `count_per_unit`. hello: of the run.
    """
    if found.empty:
        return None
    first, is_averaged = found.iloc[0], descriptions[found.iloc[0]["benchmark"]].view in _SAME_WORK
    is_averaged = is_averaged and found["thread"].nunique() > 1
    if is_averaged:
        keys = [name for name in _NUMBER if name != "thread"]
        columns = {"per_unit": "mean", "bursts": "max", "scaled": "max"}
        found = found.groupby(keys, sort=False, dropna=False, observed=True).agg(columns).reset_index()
        found["thread"] = "each"
    by_event = found.groupby("event", sort=False, observed=True)
    never = [str(name) for name, part in by_event if part["per_unit"].eq(0).all()]
    counted_events = set(found["event"]) - set(never)
    names = [counter["event"] for counter in hello.get("counters", ()) if counter["event"] in counted_events]
    planned = hello.get("plan", {}).get("benchmarks", ())
    points = [point for kind in planned for point in kind.get("points") or ()]
    key_columns = [name for name in ("point", "thread") if found[name].nunique() > 1] or ["thread"]
    places = {point: place for place, point in enumerate(dict.fromkeys(points))}
    rows = sorted(to_records(found), key=lambda row: places.get(row["point"], -1))
    relations = sorted(found["relation"].unique(), key=relation_sort_key)
    of_each = {relation: [row for row in rows if row["relation"] == relation] for relation in relations}
    if "point" not in key_columns and len(relations) > 1:  # short tables are easier to compare in one
        key_columns = ["relation", *key_columns]
        of_each = {"by what two CPUs share": [row for part in of_each.values() for row in part]}
    tables = [
        PointTable(title, (", ".join(key_columns), *names), _format_lines(part, key_columns, names))
        for title, part in of_each.items()
        if names
    ]
    unit = descriptions[first["benchmark"]].unit.replace("_", " ")
    notes = [f"0 everywhere: {', '.join(never)}"] if never else []
    notes += [f"medians of {format_count(int(found['bursts'].max()), 'count')}"]
    notes += ["mean of the threads"] if is_averaged else []
    notes += ["-: the CPU had no counter free"] if found["per_unit"].isna().any() else []
    notes += ["~: counted for a part of the time, the rest is estimated"] if found["scaled"].any() else []
    name = f"{first['benchmark']}/{first['variant']} events"
    return PointTables(name, f"counted per {unit} in each thread", tables, "; ".join(notes))


def _format_lines(
    rows: Sequence[dict[str, Any]], key_columns: Sequence[str], names: Sequence[str]
) -> list[tuple[str, ...]]:
    cells = {}
    for row in rows:
        number = "-" if is_none(row["per_unit"]) else f"{'~' if row['scaled'] else ''}{row['per_unit']:.3g}"
        cells[", ".join(str(row[name]) for name in key_columns), row["event"]] = number
    places = dict.fromkeys(place for place, _ in cells)
    return [(place, *(cells.get((place, name), "-") for name in names)) for place in places]

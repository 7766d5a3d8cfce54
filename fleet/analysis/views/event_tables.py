"""Counted events per unit of work, and tables of them."""

from collections.abc import Container, Iterator, Mapping, Sequence
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

_Row = dict[str, Any]  # of `count_per_unit`
# views whose threads all do the same work
_SAME_WORK = (
    View.LADDER,
    View.BLOCKS,
    View.PRODUCTS,
)
_NUMBER = ["benchmark", "variant", "point", "relation", "thread", "event"]


def count_per_unit(counters: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return events per unit of work, a row per benchmark, variant, point, relation,
    thread and event.

    counters: the table `counters` of one run. pairs: the table `pairs` of that run.
    Columns: `benchmark`, `variant`, `point`, `relation`; `thread`, `ping` or `other`;
    `event`; `per_unit`, the median of bursts, NaN where the CPU had no counter free;
    `bursts`, how many; and `scaled`, the share of bursts whose event was counted for a
    part of the time, and the rest estimated.
    """
    if counters.empty:
        return pd.DataFrame([], columns=[*_NUMBER, "per_unit", "bursts", "scaled"])
    rows = _add_relations(counters, pairs)
    is_ping = rows["cpu"].eq(rows["ping_cpu"])
    rows["thread"] = is_ping.map({True: "ping", False: "other"})
    counted_share = rows["running_ns"] / rows["enabled_ns"]  # of the time
    known_share = counted_share.where(counted_share > 0)  # else NaN
    # an event counted for half of the time has happened twice as often
    estimated_count = rows["count"].astype("float64") / known_share
    rows["per_unit"] = estimated_count / rows["units"]
    rows["scaled"] = counted_share < 1
    groups = rows.groupby(_NUMBER, sort=False, dropna=False, observed=True)
    medians = groups.agg(
        per_unit=("per_unit", "median"),
        bursts=("per_unit", "size"),
        scaled=("scaled", "mean"),
    )
    return medians.reset_index()


def _add_relations(counters: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the counts of measured pairs, with the pair's relation; a pair may have
    been measured in the other direction.
    """
    pair = ["benchmark", "variant", "point", "low", "high"]
    relations = _add_low_and_high(pairs)[[*pair, "relation"]]
    own_relations = relations.drop_duplicates(pair, keep="last")
    return _add_low_and_high(counters).merge(own_relations, on=pair)


def _add_low_and_high(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the lower and the higher of their two CPUs."""
    ends = rows[["ping_cpu", "pong_cpu"]]
    low = ends.min(axis="columns")
    high = ends.max(axis="columns")
    return rows.assign(low=low, high=high)


def tabulate_events(
    events: pd.DataFrame, hello: Mapping[str, Any], descriptions: Descriptions = SHIPPED
) -> PointTables | None:
    """Return tables of a benchmark and variant's events, None without any.

    events: from `count_per_unit`. hello: the agent's greeting, which has the plan and
    the events that were asked for, in order.
    """
    if events.empty:
        return None
    first = events.iloc[0]
    benchmark = descriptions[first["benchmark"]]
    # threads that all do the same work share a line, which has their mean
    is_averaged = benchmark.view in _SAME_WORK and events["thread"].nunique() > 1
    if is_averaged:
        events = _average_threads(events)
    never = _list_events_never_counted(events)
    counted = set(events["event"]).difference(never)
    names = _sort_as_planned(counted, hello)
    tables = []
    if names:
        tables = _tabulate_by_relation(events, names, hello)
    return PointTables(
        name=f"{first['benchmark']}/{first['variant']} events",
        legend=f"counted per {benchmark.unit.replace('_', ' ')} in each thread",
        tables=tables,
        note="; ".join(_list_notes(events, never, is_averaged=is_averaged)),
    )


def _average_threads(events: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over threads, as a thread named "each"."""
    keys = [name for name in _NUMBER if name != "thread"]
    groups = events.groupby(keys, sort=False, dropna=False, observed=True)
    means = groups.agg({"per_unit": "mean", "bursts": "max", "scaled": "max"})
    return means.reset_index().assign(thread="each")


def _list_events_never_counted(events: pd.DataFrame) -> list[str]:
    """List the events whose every number is 0."""
    never = []
    for name, rows in events.groupby("event", sort=False, observed=True):
        if rows["per_unit"].eq(0).all():
            never.append(str(name))
    return never


def _sort_as_planned(names: Container[str], hello: Mapping[str, Any]) -> list[str]:
    """Return these events in the order in which they were asked for."""
    counters = hello.get("counters", ())
    planned = [counter["event"] for counter in counters]
    return [name for name in planned if name in names]


def _tabulate_by_relation(
    events: pd.DataFrame, names: Sequence[str], hello: Mapping[str, Any]
) -> list[PointTable]:
    """Return a table per relation, or one of all relations if the events are not of
    several points. A line is named by its point and thread, but not by one that is the
    same in all lines.

    names: of the events that are columns.
    """
    row_keys = [name for name in ("point", "thread") if events[name].nunique() > 1]
    has_several_points = "point" in row_keys
    if not row_keys:
        row_keys = ["thread"]  # a line needs a name
    rows_by_relation = _group_by_relation(events, hello)
    if has_several_points or len(rows_by_relation) == 1:
        return [
            _tabulate(relation, rows, row_keys, names)
            for relation, rows in rows_by_relation.items()
        ]
    # short tables are easier to compare in one
    rows_of_all = [*chain.from_iterable(rows_by_relation.values())]
    title = "by what two CPUs share"
    return [_tabulate(title, rows_of_all, ["relation", *row_keys], names)]


def _tabulate(
    title: str, rows: Sequence[_Row], row_keys: Sequence[str], names: Sequence[str]
) -> PointTable:
    """Return one table. row_keys: the columns whose values name its lines. names: of
    the events, a column each.
    """
    title_of_names = ", ".join(row_keys)
    lines = _format_event_lines(rows, row_keys, names)
    return PointTable(title, (title_of_names, *names), lines)


def _group_by_relation(
    events: pd.DataFrame, hello: Mapping[str, Any]
) -> dict[str, list[_Row]]:
    """Return the rows of each relation, sorted by point as planned."""
    rows_by_relation: dict[str, list[_Row]] = {}
    for row in _sort_by_relation_and_point(events, hello):
        rows = rows_by_relation.setdefault(row["relation"], [])
        rows.append(row)
    return rows_by_relation


def _sort_by_relation_and_point(
    events: pd.DataFrame, hello: Mapping[str, Any]
) -> list[_Row]:
    """Return the rows of events, sorted by relation, then by point as planned. A point
    that the plan does not name comes first.
    """
    places = _number_planned_points(hello)
    rows = text.to_records(events)
    # a later sort keeps the order of an earlier one among equal rows
    rows.sort(key=lambda row: places.get(row["point"], -1))
    rows.sort(key=lambda row: relation_sort_key(row["relation"]))
    return rows


def _number_planned_points(hello: Mapping[str, Any]) -> dict[str, int]:
    """Number the points of a plan in its order, each once.

    hello: the agent's greeting; its plan lists benchmarks, each with the names of its
    `points`.
    """
    plan = hello.get("plan", {})
    places: dict[str, int] = {}
    for benchmark in plan.get("benchmarks", ()):
        for point in benchmark.get("points") or ():
            places.setdefault(point, len(places))
    return places


def _list_notes(
    events: pd.DataFrame, never: Sequence[str], *, is_averaged: bool
) -> Iterator[str]:
    """Yield the notes below the tables. never: the events that were 0 wherever they
    were counted, which have no column. is_averaged: numbers are means of the threads.
    """
    if never:
        yield f"0 everywhere: {', '.join(never)}"
    # numbers may be medians of different counts of bursts: the largest is named
    most_counts = int(events["bursts"].max())
    yield f"medians of {format_count(most_counts, 'count')}"
    if is_averaged:
        yield "mean of the threads"
    if events["per_unit"].isna().any():
        yield "-: the CPU had no counter free"
    if events["scaled"].any():
        yield "~: counted for a part of the time, the rest is estimated"


def _format_event_lines(
    rows: Sequence[_Row], row_keys: Sequence[str], names: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return a line per distinct values of the columns `row_keys`: these values, then
    the number of each event of `names`; "-" where an event was not counted.
    """
    numbers_by_line: dict[str, dict[str, str]] = {}
    for row in rows:
        line_name = ", ".join(str(row[key]) for key in row_keys)
        numbers = numbers_by_line.setdefault(line_name, {})
        numbers[row["event"]] = _format_count_per_unit(row)
    lines = []
    for line_name, numbers in numbers_by_line.items():
        cells = [numbers.get(name, "-") for name in names]
        lines.append((line_name, *cells))
    return lines


def _format_count_per_unit(row: _Row) -> str:
    if text.is_none(row["per_unit"]):
        return "-"
    mark = "~" if row["scaled"] else ""
    return f"{mark}{row['per_unit']:.3g}"

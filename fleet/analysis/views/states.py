"""The tables of `fetch`: what a line costs by the state it is in and what the CPUs share."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from fleet.analysis.views.ladder import bursts_text
from fleet.analysis.views.point_tables import PointTable, PointTables
from fleet.model import Relation

_STATES = ("own", "written", "clean", "both", "third", "taken", "evicted", "memory")
_NEAREST_FIRST = list(map(str, Relation))
_TITLES = {
    "chase": "read, each line naming the next (latency)",
    "stream": "read in rising order (loads overlap)",
    "swap": "taken for writing, each line naming the next",
    "write": "written in rising order",
}


def states(pairs: pd.DataFrame) -> PointTables:
    """The tables of one benchmark and variant, one for each way the lines were gone through.

    pairs: its rows of the table `pairs`.
    """
    reads = pairs["operation"] == "read"
    rows = pairs.assign(access=pairs["operation"].where(~reads, pairs["order"]))
    first = rows.iloc[0]
    known = [name for name in _NEAREST_FIRST if name in set(rows["relation"])]
    strides = sorted(rows["stride_bytes"].unique())
    tables = []
    for access, title in _TITLES.items():
        for stride in strides:
            part = rows[(rows["access"] == access) & (rows["stride_bytes"] == stride)]
            if len(part):
                apart = f", lines {stride} bytes apart" if len(strides) > 1 else ""
                tables.append(PointTable(f"{title}{apart}", ("state", *known), _lines(part, known)))
    legend = (
        "ns per line, median of pairs; rows: what was done before, "
        "columns: what the reader and the owner share"
    )
    return PointTables(f"{first['benchmark']}/{first['variant']}", legend, tables, bursts_text(pairs))


def _lines(rows: pd.DataFrame, relations: list[str]) -> list[tuple[str, ...]]:
    medians = rows.groupby(["state", "relation"], sort=False)["median_ns"].median()
    named = states_in_order(rows["state"])
    return [(state, *(_number(medians.get((state, relation))) for relation in relations)) for state in named]


def states_in_order(states: Iterable[str]) -> list[str]:
    """Each state once, the nearest line first."""
    return sorted(dict.fromkeys(states), key=_place)


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.1f}"


def _place(state: str) -> int:
    """States that were reached without a flush (`memory-walked`) stand where the others do."""
    plain = state.removesuffix("-walked")
    return _STATES.index(plain) if plain in _STATES else len(_STATES)

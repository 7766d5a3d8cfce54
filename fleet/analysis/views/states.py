"""The tables of `fetch` in `fleet show`: what a line costs by the state it is in and what the CPUs share."""

from typing import Any

import pandas as pd

from fleet.analysis.views.text import percent
from fleet.model import Relation
from fleet.text import counted, table

_STATES = ("own", "written", "clean", "both", "third", "taken", "evicted", "memory")
_NEAREST_FIRST = list(map(str, Relation))
_TITLES = {
    "chase": "read, each line naming the next (latency)",
    "stream": "read in rising order (loads overlap)",
    "swap": "taken for writing, each line naming the next",
    "write": "written in rising order",
}


def states(pairs: pd.DataFrame) -> str:
    """The tables of one benchmark and variant, one for each way the lines were gone through.

    pairs: its rows of the table `pairs`.
    """
    reads = pairs["operation"] == "read"
    rows = pairs.assign(access=pairs["operation"].where(~reads, pairs["order"]))
    first = rows.iloc[0]
    known = [name for name in _NEAREST_FIRST if name in set(rows["relation"])]
    parts = [
        f"{first['benchmark']}/{first['variant']}: ns per line, median of pairs; rows: what was done before, "
        "columns: what the reader and the owner share"
    ]
    strides = sorted(rows["stride_bytes"].unique())
    for access, title in _TITLES.items():
        for stride in strides:
            part = rows[(rows["access"] == access) & (rows["stride_bytes"] == stride)]
            if len(part):
                apart = f", lines {stride} bytes apart" if len(strides) > 1 else ""
                parts.append(f"{title}{apart}\n{_table(part, known)}")
    bursts, flagged = int(rows["bursts"].sum()), int(rows["flagged_bursts"].sum())
    parts.append(
        f"medians of {counted(bursts, 'burst')}"
        + (f", {percent(flagged / bursts)} of them flagged" if flagged else "")
    )
    return "\n".join(parts)


def _table(rows: pd.DataFrame, relations: list[str]) -> str:
    medians = rows.groupby(["state", "relation"], sort=False)["median_ns"].median()
    named = sorted(rows["state"].unique(), key=_place)
    lines = [(state, *(_number(medians.get((state, relation))) for relation in relations)) for state in named]
    return table(("", *relations), lines, right=set(range(1, len(relations) + 1)))


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.1f}"


def _place(state: str) -> int:
    """States that were reached without a flush (`memory-walked`) stand where the others do."""
    plain = state.removesuffix("-walked")
    return _STATES.index(plain) if plain in _STATES else len(_STATES)

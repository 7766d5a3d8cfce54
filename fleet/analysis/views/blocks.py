"""The tables of `interleave`: what writing next to one another costs, by size of block."""

from typing import Any

import pandas as pd

from fleet.analysis.reduce.ladders import size_text
from fleet.analysis.views.ladder import bursts_text
from fleet.analysis.views.point_tables import PointTable, PointTables
from fleet.analysis.views.text import is_none
from fleet.model import Relation

_LINE = 64
_NEAREST_FIRST = list(map(str, Relation))
_COLUMNS = ("block", "own", "shared", "ratio", "boundary")
_WAYS = {"write": "stores", "nt": "stores past the caches"}


def blocks(pairs: pd.DataFrame) -> PointTables:
    """The tables of one benchmark and variant, one for each relation and kind of store.

    pairs: its rows of the table `pairs`.
    """
    first = pairs.iloc[0]
    tables = []
    for operation, way in _WAYS.items():
        for relation in sorted(pairs["relation"].unique(), key=_NEAREST_FIRST.index):
            part = pairs[(pairs["operation"] == operation) & (pairs["relation"] == relation)]
            if len(part):
                tables.append(PointTable(f"{relation}, {way}", _COLUMNS, _lines(part)))
    return PointTables(
        f"{first['benchmark']}/{first['variant']}",
        "ns per line of 64 bytes and thread, median of pairs; own: "
        "each thread its own memory, shared: blocks by turns in one",
        tables,
        f"{bursts_text(pairs)}; boundary: what each end of a block costs, (shared - own) times its lines",
    )


def _lines(rows: pd.DataFrame) -> list[tuple[str, ...]]:
    medians = rows.groupby(["block_bytes", "sharing"])["median_ns"].median()
    return [
        (size_text(block), *_cells(block, medians.get((block, "own")), medians.get((block, "shared"))))
        for block in sorted(int(block) for block in rows["block_bytes"].unique())
    ]


def _cells(block: int, own: Any, shared: Any) -> tuple[str, ...]:
    alone = ["-" if is_none(value) else f"{value:.2f}" for value in (own, shared)]
    if "-" in alone:
        return (*alone, "-", "-")
    return (*alone, f"{shared / own:.2f}", f"{round((shared - own) * block / _LINE, 1) + 0.0:.1f}")

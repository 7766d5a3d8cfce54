"""The tables of `interleave` in `fleet show`: what writing next to one another costs, by size of block."""

from typing import Any

import pandas as pd

from fleet.analysis.reduce.ladders import size_text
from fleet.analysis.views.text import is_none, percent
from fleet.model import Relation
from fleet.text import counted, table

_LINE = 64
_NEAREST_FIRST = list(map(str, Relation))
_WAYS = {"write": "stores", "nt": "stores past the caches"}


def blocks(pairs: pd.DataFrame) -> str:
    """The tables of one benchmark and variant, one for each relation and kind of store.

    pairs: its rows of the table `pairs`.
    """
    first = pairs.iloc[0]
    parts = [
        f"{first['benchmark']}/{first['variant']}: ns per line of 64 bytes and thread, median of pairs; own: "
        "each thread its own memory, shared: blocks by turns in one"
    ]
    for operation, way in _WAYS.items():
        for relation in sorted(pairs["relation"].unique(), key=_NEAREST_FIRST.index):
            part = pairs[(pairs["operation"] == operation) & (pairs["relation"] == relation)]
            if len(part):
                parts.append(f"{relation}, {way}\n{_table(part)}")
    bursts, flagged = int(pairs["bursts"].sum()), int(pairs["flagged_bursts"].sum())
    parts.append(
        f"medians of {counted(bursts, 'burst')}"
        + (f", {percent(flagged / bursts)} of them flagged" if flagged else "")
        + "; boundary: what each end of a block costs, (shared - own) times its lines"
    )
    return "\n".join(parts)


def _table(rows: pd.DataFrame) -> str:
    medians = rows.groupby(["block_bytes", "sharing"])["median_ns"].median()
    lines = [
        (size_text(block), *_cells(block, medians.get((block, "own")), medians.get((block, "shared"))))
        for block in sorted(int(block) for block in rows["block_bytes"].unique())
    ]
    return table(("block", "own", "shared", "ratio", "boundary"), lines, right={0, 1, 2, 3, 4})


def _cells(block: int, own: Any, shared: Any) -> tuple[str, ...]:
    alone = ["-" if is_none(value) else f"{value:.2f}" for value in (own, shared)]
    if "-" in alone:
        return (*alone, "-", "-")
    return (*alone, f"{shared / own:.2f}", f"{(shared - own) * block / _LINE:.1f}")

"""The levels of pairs that switch within their runs, side by side, for `fleet compare`."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fleet.analysis.views.text import indented, is_none, kind_of, measured, percent, records, within
from fleet.text import counted, table

LISTED = 3  # pairs
_OF_LEVEL = ("ratio", "low", "high")
_OF_SHARE = ("moved", "moved_low", "moved_high")


def levels_text(levels: pd.DataFrame, width: int | None) -> str:
    """The levels of the pairs that switch most, as `compare_burst_levels` returns them."""
    keys = ["benchmark", "variant", "ping_cpu", "pong_cpu"]
    pairs = levels.groupby(keys, sort=False).ngroup()
    rows = []
    for row in records(levels[pairs < LISTED]):
        change = [f"{row[name] - 1:+.1%}" if not is_none(row[name]) else "-" for name in _OF_LEVEL]
        moved = [f"{row[name]:+.0%}" if not is_none(row[name]) else "-" for name in _OF_SHARE]
        rows.append(
            (
                kind_of(row),
                f"{row['ping_cpu']}-{row['pong_cpu']}",
                *(_level_ns(row, side) for side in "ab"),
                change[0],
                _interval(change[1:]),
                *(percent(row[f"{side}_share"]) for side in "ab"),
                moved[0],
                _interval(moved[1:]),
                "/".join(
                    "-" if is_none(row[f"{side}_dwell"]) else f"{row[f'{side}_dwell']:.1f}" for side in "ab"
                ),
            )
        )
    of_change, of_share, dwell = "95 % interval", "its interval", "in a row"
    titles = (
        "benchmark",
        "pair",
        "A",
        "B",
        "change",
        of_change,
        "share A",
        "share B",
        "B - A",
        of_share,
        dwell,
    )
    room = None if width is None else width - 2
    shown = table(titles, rows, right=set(range(2, 11)), width=room, drop=(dwell, of_share, of_change))
    lines = ["Levels within the runs, not judged (share: of bursts; B - A: of the shares)", indented(shown)]
    if (more := int(pairs.max()) + 1 - LISTED) > 0:
        lines.append(f"  {counted(more, 'more pair')} with --json")
    return "\n".join(lines)


def _level_ns(row: dict[str, Any], side: str) -> str:
    ns, spread = row[f"{side}_ns"], row[f"{side}_spread"]
    return "-" if is_none(ns) else f"{measured(row['benchmark'], ns)} {within(spread)}".removesuffix(" -")


def _interval(ends: Sequence[str]) -> str:
    return "-" if ends[0] == "-" else f"{ends[0]} to {ends[1]}"

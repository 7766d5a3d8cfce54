"""Text, JSON and CSV of `fleet compare SELECTION`: what changed on which night."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.history import History
from fleet.analysis.compare.verdicts import CLASS
from fleet.analysis.views.fields import select_fields
from fleet.analysis.views.headlines import NAMES_LENGTH
from fleet.analysis.views.warnings import render_warnings
from fleet.hostnames import join_names
from fleet.text import format_count, one_line, table

CHANGE_TITLES = (
    "when",
    "where",
    "change",
    "95 % interval",
    "what else changed in that run",
)
_CHANGE_FIELDS = (
    "hosts relations runs has_verdict threshold caveats nights changes odd elsewhere"
)
_NIGHTS_LISTED = 10


def render_changes(history: History) -> str:
    """Render for people: a sentence, a row per change, odd nights, hosts at another
    level, and warnings.
    """
    parts = [render_changes_headline(history)]
    if len(history.changes):
        parts.append(table(CHANGE_TITLES, format_changes(history), right={2, 3}))
    for title, rows in (
        ("Odd nights", history.odd),
        ("At another level since", history.elsewhere),
    ):
        if len(rows):
            parts.append("\n".join((title, *_describe_host_nights(rows))))
    parts.append(render_warnings(list(history.caveats)))
    return "\n\n".join(filter(None, parts))


def changes_as_json(history: History) -> str:
    """Render a history as a JSON document with one row; dates are text, and shares are
    fractions.
    """
    return text.format_document("changes", select_fields([history], _CHANGE_FIELDS))


def changes_as_csv(history: History) -> str:
    """Render CSV with a row per change."""
    changes = history.changes
    joined = {
        "hosts": changes["hosts"].map(" ".join),
        "else": changes["else"].map("; ".join),
    }
    return text.format_csv(changes.assign(**joined)).rstrip("\n")


def render_changes_headline(history: History) -> str:
    """Say in a sentence how many hosts were measured in how many nights, and what
    changed.
    """
    counts = (len(history.hosts), history.relations, history.runs, len(history.nights))
    words = map(format_count, counts, ("host", "relation", "run", "night"))
    about = f"{join_names(history.hosts, NAMES_LENGTH)}: {', '.join(words)}"
    if not history.has_verdict:
        return one_line(f"{about}: no verdict")
    dated, changed = history.changes["dated"], history.changes["changed"]
    parts = [
        f"{int((~dated & changed).sum())} gradual",
        f"{int((~changed).sum())} below {history.threshold * 100:g}%",
        format_count(history.odd["night"].nunique(), "odd night"),
        _describe_moved_levels(history),
    ]
    changes = format_count(int((dated & changed).sum()), "change")
    return one_line(
        f"{about}: {', '.join([changes, *(part for part in parts if part[0] != '0')])}"
    )


def _describe_moved_levels(history: History) -> str:
    """Count the relations that moved to another level, and describe the one that moved
    furthest.
    """
    rows = text.to_records(history.elsewhere)
    if not rows:
        return "0 at another level"
    row = max(rows, key=lambda row: abs(np.log(row["ratio"])))
    nights = history.logs.loc[
        tuple(row[name] for name in ("host", *CLASS)), row["night"] :
    ]
    after = float(np.exp(nights.median()))
    numbers = {
        "benchmark": row["benchmark"],
        "before": after / row["ratio"],
        "after": after,
    }
    before, since = text.format_values(
        numbers, ("before", "after"), history.descriptions
    )
    where = f"{row['host']} {row['relation']}: {before}, since {row['night']} {since}"
    return f"{len(rows)} at another level ({where})"


def format_changes(history: History) -> list[tuple[str, ...]]:
    """Return the cells of CHANGE_TITLES for each change."""
    rows = list[tuple[str, ...]]()
    for row in text.to_records(history.changes):
        change, low, high = text.convert_change(row, history.descriptions)
        night, when = row["after"], _format_span(row["before"], row["after"])
        if not row["dated"]:
            when = f"gradual, {_format_span(row['begin'], row['end'])}"
        elif row["first"] != row["last"]:
            when = (
                f"{night} ({_format_day(row['first'], night)} to"
                f" {_format_day(row['last'], night)})"
            )
        is_everywhere = 1 < len(history.hosts) == len(row["hosts"])
        hosts = (
            f"all {len(history.hosts)}"
            if is_everywhere
            else join_names(row["hosts"], 40)
        )
        beside = "; ".join(row["else"]) or "nothing known" * row["dated"]
        changes = (text.format_change(change), text.format_interval(low, high))
        rows.append((when, f"{hosts}, {_name_relation(row)}", *changes, beside))
    return rows


def _name_relation(row: dict[str, Any]) -> str:
    return (
        f"{row['benchmark']} {row['relation']}" if row["relation"] else "all relations"
    )


def _format_span(first: date, last: date) -> str:
    return f"{first} to {_format_day(last, first)}"


def _format_day(night: date, reference: date) -> str:
    """Format a date without its year if that is the year of `reference`."""
    return f"{night:%m-%d}" if night.year == reference.year else f"{night}"


def _describe_host_nights(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a line per host and night that names the relation furthest off, then how
    many are left out.
    """
    rows = rows.assign(apart=(rows["ratio"] - 1).abs()).sort_values(
        "apart", ascending=False
    )
    groups = list(rows.groupby(["host", "night"], sort=False))
    for (host, night), group in groups[:_NIGHTS_LISTED]:
        first = text.to_records(group)[0]
        more = f", and {len(group) - 1} more" if len(group) > 1 else ""
        yield one_line(
            f"  {night}  {host} {_name_relation(first)} {first['ratio'] - 1:+.0%}{more}"
        )
    if len(groups) > _NIGHTS_LISTED:
        yield f"  {len(groups) - _NIGHTS_LISTED} more with --json"

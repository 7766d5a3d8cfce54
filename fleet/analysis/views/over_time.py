"""The text, JSON and CSV of `fleet compare SELECTION`: what changed when."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pandas as pd

from fleet.analysis.base.text import (
    convert_change,
    format_change,
    format_csv,
    format_document,
    format_interval,
    to_records,
)
from fleet.analysis.compare.history import History
from fleet.analysis.views.warnings import render_warnings
from fleet.hostnames import join_names
from fleet.text import format_count, one_line, table

TITLES = ("when", "where", "change", "95 % interval", "what else changed in that run")
_NIGHTS_LISTED = 10


def render_changes(history: History) -> str:
    """Render for people a sentence, a row per change, odd nights, and hosts at another level."""
    parts = [render_changes_headline(history)]
    if len(history.changes):
        parts.append(table(TITLES, format_changes(history), right={2, 3}))
    for title, rows in (("Odd nights", history.odd), ("At another level since", history.elsewhere)):
        if len(rows):
            parts.append("\n".join((title, *_list_nights(rows))))
    parts.append(render_warnings(list(history.caveats)))
    return "\n\n".join(filter(None, parts))


def changes_as_json(history: History) -> str:
    """Render a single row; dates as text, shares as fractions."""
    names = ("hosts", "relations", "runs", "has_verdict", "threshold", "caveats")
    tables = ("nights", "changes", "odd", "elsewhere")
    return format_document("changes", [{name: getattr(history, name) for name in (*names, *tables)}])


def changes_as_csv(history: History) -> str:
    """Render a row per change."""
    changes = history.changes
    joined = {"hosts": changes["hosts"].map(" ".join), "else": changes["else"].map("; ".join)}
    return format_csv(changes.assign(**joined)).rstrip("\n")


def render_changes_headline(history: History) -> str:
    """Say in a sentence how many hosts were measured in how many nights, and what changed."""
    counts = (len(history.hosts), history.relations, history.runs, len(history.nights))
    words = map(format_count, counts, ("host", "relation", "run", "night"))
    about = f"{join_names(history.hosts, 60)}: {', '.join(words)}"
    if not history.has_verdict:
        return one_line(f"{about}: no verdict")
    dated, changed = history.changes["dated"], history.changes["changed"]
    parts = [
        f"{int((~dated & changed).sum())} gradual",
        f"{int((~changed).sum())} below {history.threshold * 100:g}%",
        format_count(history.odd["night"].nunique(), "odd night"),
    ]
    changes = format_count(int((dated & changed).sum()), "change")
    return one_line(f"{about}: {', '.join([changes, *(part for part in parts if part[0] != '0')])}")


def format_changes(history: History) -> list[tuple[str, ...]]:
    """Return the cells of TITLES for each change."""
    return [_format_change(row, history) for row in to_records(history.changes)]


def _format_change(row: dict[str, Any], history: History) -> tuple[str, ...]:
    change, low, high = convert_change(row, history.descriptions)
    if not row["dated"]:
        when = f"gradual, {_format_span(row['begin'], row['end'])}"
    elif row["first"] == row["last"]:
        when = _format_span(row["before"], row["after"])
    else:
        night = row["after"]
        when = f"{night} ({_format_day(row['first'], night)} to {_format_day(row['last'], night)})"
    is_everywhere = 1 < len(history.hosts) == len(row["hosts"])
    hosts = f"all {len(history.hosts)}" if is_everywhere else join_names(row["hosts"], 40)
    where = f"{hosts}, {_name_relation(row)}"
    beside = "; ".join(row["else"]) or ("nothing known" if row["dated"] else "")
    return (when, where, format_change(change), format_interval(low, high), beside)


def _name_relation(row: dict[str, Any]) -> str:
    return f"{row['benchmark']} {row['relation']}" if row["relation"] else "all relations"


def _format_span(first: date, last: date) -> str:
    return f"{first} to {_format_day(last, first)}"


def _format_day(night: date, beside: date) -> str:
    """Format a date without its year if that is the year of the date `beside` it."""
    return f"{night:%m-%d}" if night.year == beside.year else f"{night}"


def _list_nights(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a line per host and night, with the relation furthest off."""
    rows = rows.assign(apart=(rows["ratio"] - 1).abs()).sort_values("apart", ascending=False)
    groups = list(rows.groupby(["host", "night"], sort=False))
    for (host, night), group in groups[:_NIGHTS_LISTED]:
        first = to_records(group)[0]
        more = f", and {len(group) - 1} more" if len(group) > 1 else ""
        yield one_line(f"  {night}  {host} {_name_relation(first)} {first['ratio'] - 1:+.0%}{more}")
    if len(groups) > _NIGHTS_LISTED:
        yield f"  {len(groups) - _NIGHTS_LISTED} more with --json"

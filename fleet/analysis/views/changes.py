"""Text, JSON and CSV of `fleet compare SELECTION`: what changed on which night."""

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import NUMBER_KEY
from fleet.analysis.compare.history import History
from fleet.analysis.views.fields import select_fields
from fleet.analysis.views.headlines import NAMES_LENGTH
from fleet.analysis.views.units import add_changes
from fleet.analysis.views.warnings import render_warnings
from fleet.hostnames import join_names
from fleet.model import Descriptions
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
    level, and warnings. A night is odd if it is far from the nights around it. A
    machine that switches levels may stay at another one; that is no change, but it is
    told.
    """
    descriptions = history.descriptions
    parts = [render_changes_headline(history)]
    if len(history.changes):
        rows = format_changes(history)
        changes = table(CHANGE_TITLES, rows, right={2, 3})
        parts.append(changes)
    parts += [
        _render_host_nights("Odd nights", history.odd, descriptions),
        _render_host_nights("At another level since", history.elsewhere, descriptions),
        render_warnings(history.caveats),
    ]
    return "\n\n".join(part for part in parts if part)


def changes_as_json(history: History) -> str:
    """Render a history as a JSON document with one row; dates are text, and shares are
    fractions.
    """
    row = select_fields([history], _CHANGE_FIELDS)[0]
    row["changes"] = add_changes(history.changes, history.descriptions)
    return text.format_document("changes", [row])


def changes_as_csv(history: History) -> str:
    """Render CSV with a row per change."""
    joined = add_changes(history.changes, history.descriptions)
    joined["hosts"] = joined["hosts"].map(" ".join)
    joined["else"] = joined["else"].map("; ".join)
    return text.format_csv(joined).rstrip("\n")


def render_changes_headline(history: History) -> str:
    """Say in a sentence how many hosts were measured in how many nights, and what
    changed.
    """
    counts = [
        format_count(len(history.hosts), "host"),
        format_count(history.relations, "relation"),
        format_count(history.runs, "run"),
        format_count(len(history.nights), "night"),
    ]
    hosts = join_names(history.hosts, NAMES_LENGTH)
    answer = "no verdict"
    if history.has_verdict:
        answer = ", ".join(_count_changes(history))
        if history.since:
            answer += f" since {history.since}"
    return one_line(f"{hosts}: {', '.join(counts)}: {answer}")


def _count_changes(history: History) -> list[str]:
    """Return phrases that count dated changes, then other kinds: "2 changes", "1
    gradual", "3 below 3%", "1 odd night", "2 at another level (…)". The first is there
    even for none; each other phrase only if its count is not 0.
    """
    counts = _count_kinds_of_changes(history)
    phrases = [format_count(counts["dated"], "change")]
    if counts["accepted"]:
        phrases.append(f"{counts['accepted']} accepted")
    if counts["gradual"]:
        phrases.append(f"{counts['gradual']} gradual")
    if counts["small"]:
        phrases.append(f"{counts['small']} below {history.threshold * 100:g}%")
    odd_nights = history.odd["night"].nunique()
    if odd_nights:
        phrases.append(format_count(odd_nights, "odd night"))
    # the relations with a lasting switch to another level
    if len(history.elsewhere):
        phrases.append(_describe_moved_levels(history))
    return phrases


def _count_kinds_of_changes(history: History) -> dict[str, int]:
    """Count the changes by kind. Accepted changes are one kind, whatever their size. Of
    the others, the changes beyond the threshold are dated, if they lie between two
    nights, or gradual; the changes below it are small.
    """
    is_accepted = history.changes["accepted"].astype(bool)
    is_dated = history.changes["dated"].astype(bool)
    is_beyond_threshold = history.changes["changed"].astype(bool)
    is_large = is_beyond_threshold & ~is_accepted
    is_small = ~is_beyond_threshold & ~is_accepted
    return {
        "accepted": int(is_accepted.sum()),
        "dated": int((is_large & is_dated).sum()),
        "gradual": int((is_large & ~is_dated).sum()),
        "small": int(is_small.sum()),
    }


def _describe_moved_levels(history: History) -> str:
    """Count the relations that moved to another level, and describe the one that moved
    furthest: "2 at another level (lucca llc: 43.4, since 2026-11-04 45.9)".
    """
    rows = text.to_records(history.elsewhere)
    distances = np.log(history.elsewhere["ratio"]).abs()
    furthest = rows[int(distances.argmax())]
    before, since = _format_moved_level(furthest, history)
    where = f"{furthest['host']} {furthest['relation']}"
    night = furthest["night"]
    return f"{len(rows)} at another level ({where}: {before}, since {night} {since})"


def _format_moved_level(row: Mapping[str, Any], history: History) -> list[str]:
    """Format the level of a relation before a night, and the level since, as shown.

    The later level is the median of the nights since. The earlier level follows from
    it, as `ratio` of the row is the later level divided by the earlier one.

    row: of `history.elsewhere`. `night` is the first one at the later level.
    `history.log_ns` has a row per host and relation and a column per night: logarithms
    of ns, NaN without a number, which the median leaves out.
    """
    columns_of_key = ("host", *NUMBER_KEY)
    host_and_relation = tuple(row[name] for name in columns_of_key)
    logs_since = history.log_ns.loc[host_and_relation, row["night"] :]
    # the lower median is a night's own number; a mean of two could lie between levels
    median_log = logs_since.quantile(0.5, interpolation="lower")
    after_ns = float(np.exp(median_log))
    before_ns = after_ns / row["ratio"]
    levels = {
        "benchmark": row["benchmark"],
        "before_ns": before_ns,
        "after_ns": after_ns,
    }
    return text.format_values(levels, ("before_ns", "after_ns"), history.descriptions)


def format_changes(history: History) -> list[tuple[str, ...]]:
    """Return the cells of CHANGE_TITLES for each change."""
    rows = list[tuple[str, ...]]()
    for row in text.to_records(history.changes):
        change, low, high = text.convert_change(row, history.descriptions)
        cells = (
            _format_when(row),
            f"{_name_hosts(row['hosts'], history)}, {_name_relation(row)}",
            text.format_change(change),
            text.format_interval(low, high),
            _list_what_else_changed(row),
        )
        rows.append(cells)
    return rows


def _format_when(row: Mapping[str, Any]) -> str:
    """Say in which night a change was, or over which nights.

    row: a change. A gradual one has no date: `begin` and `end` are the two nights that
    were compared. A dated one is in `after`, the first night of the new numbers;
    `before` is the last night of the old ones. If the date is uncertain, `after` may be
    any night from `first` to `last`; else these two are equal.
    """
    if not row["dated"]:
        return f"gradual, {_format_span(row['begin'], row['end'])}"
    night = row["after"]
    is_certain = row["first"] == row["last"]
    if is_certain:
        return _format_span(row["before"], night)
    # "2026-03-05 (03-02 to 03-07)": a year is written only if it is another one
    first = _format_day(row["first"], reference=night)
    last = _format_day(row["last"], reference=night)
    return f"{night} ({first} to {last})"


def _name_hosts(hosts: Sequence[str], history: History) -> str:
    count = len(history.hosts)
    if len(hosts) == count > 1:
        return f"all {count}"
    return join_names(hosts, 40)


def _list_what_else_changed(row: Mapping[str, Any]) -> str:
    """List what else changed in the run of a change; "" for a gradual one."""
    facts = "; ".join(row["else"])
    if not facts and row["dated"]:
        facts = "nothing known"
    return f"accepted; {facts}" if row["accepted"] else facts


def _name_relation(row: Mapping[str, Any]) -> str:
    if not row["relation"]:
        return "all relations"
    return f"{row['benchmark']} {row['relation']}"


def _format_span(first: date, last: date) -> str:
    return f"{first} to {_format_day(last, first)}"


def _format_day(night: date, reference: date) -> str:
    """Format a date without its year if that is the year of `reference`."""
    return f"{night:%m-%d}" if night.year == reference.year else f"{night}"


def _render_host_nights(
    title: str, rows: pd.DataFrame, descriptions: Descriptions
) -> str:
    """Render a line per host and night, the furthest off first, below a title; ""
    without any.

    rows: a host, relation and night each. `ratio` is how many times as long as in other
    nights the relation takes.
    """
    if rows.empty:
        return ""
    with_distance = rows.assign(apart=(rows["ratio"] - 1).abs())
    furthest_first = with_distance.sort_values("apart", ascending=False)
    by_night = furthest_first.groupby(["host", "night"], sort=False)
    lines = [title]
    for (host, night), group in islice(by_night, _NIGHTS_LISTED):
        furthest = _describe_furthest(group, descriptions)
        lines.append(one_line(f"  {night}  {host} {furthest}"))
    more = by_night.ngroups - _NIGHTS_LISTED
    if more > 0:
        lines.append(f"  {more} more with --json")
    return "\n".join(lines)


def _describe_furthest(rows: pd.DataFrame, descriptions: Descriptions) -> str:
    """Name the relation that is furthest off, which is the first of the rows, and by
    how much; then say how many more there are: "cas llc +5%, and 3 more". `ratio` of a
    row: how many times as long as in other nights the relation takes.
    """
    first = text.to_records(rows)[0]
    ratio = first["ratio"]
    if text.is_rate(descriptions[first["benchmark"]]):
        # twice the time is half the rate
        ratio = 1 / ratio
    words = f"{_name_relation(first)} {text.format_change(ratio - 1, 0)}"
    if len(rows) > 1:
        words += f", and {len(rows) - 1} more"
    return words

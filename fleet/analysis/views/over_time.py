"""What `fleet compare` prints of one selection: what changed when."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pandas as pd

from fleet.analysis.base.text import change_shown, csv_text, interval, json_text, records, signed
from fleet.analysis.compare.history import History
from fleet.analysis.views.warnings import render_warnings
from fleet.hostnames import join_names
from fleet.text import counted, one_line, table

TITLES = ("when", "where", "change", "95 % interval", "what else changed in that run")
_LISTED = 10


def render_changes(found: History) -> str:
    """For people: a sentence, a row per change, then odd nights, and hosts at another level."""
    parts = [render_changes_headline(found)]
    if len(found.changes):
        parts.append(table(TITLES, format_changes(found), right={2, 3}))
    for title, rows in (("Odd nights", found.odd), ("At another level since", found.elsewhere)):
        if len(rows):
            parts.append("\n".join((title, *_nights(rows))))
    parts.append(render_warnings(list(found.caveats)))
    return "\n\n".join(filter(None, parts))


def changes_as_json(found: History) -> str:
    """An object; dates as text, shares as fractions."""
    about = ("hosts", "relations", "runs", "judged", "threshold", "caveats")
    tables = ("nights", "changes", "odd", "elsewhere")
    return json_text({name: getattr(found, name) for name in (*about, *tables)})


def changes_as_csv(found: History) -> str:
    """A row per change."""
    rows = found.changes.assign(
        **{"hosts": found.changes["hosts"].map(" ".join), "else": found.changes["else"].map("; ".join)}
    )
    return csv_text(rows).rstrip("\n")


def render_changes_headline(found: History) -> str:
    """How many hosts were measured in how many nights, and what was found, in one sentence."""
    counts = (len(found.hosts), found.relations, found.runs, len(found.nights))
    words = map(counted, counts, ("host", "relation", "run", "night"))
    measured = f"{join_names(found.hosts, 60)}: {', '.join(words)}"
    if not found.judged:
        return one_line(f"{measured}: no verdict")
    dated, beyond = found.changes["dated"], found.changes["changed"]
    share = f"{found.threshold * 100:g}%"
    parts = [
        counted(int((dated & beyond).sum()), "change"),
        f"{int((~dated & beyond).sum())} gradual",
        f"{int((~beyond).sum())} below {share}",
        counted(found.odd["night"].nunique(), "odd night"),
    ]
    known = [parts[0], *(part for part in parts[1:] if part[0] != "0")]
    return one_line(f"{measured}: {', '.join(known)}")


def format_changes(found: History) -> list[tuple[str, ...]]:
    """The cells of each change, under TITLES."""
    return [_line(row, found) for row in records(found.changes)]


def _line(row: dict[str, Any], found: History) -> tuple[str, ...]:
    change, low, high = change_shown(row, found.descriptions)
    if not row["dated"]:
        when = f"gradual, {row['begin']} to {_short(row['end'], row['begin'])}"
    elif row["first"] == row["last"]:
        when = f"{row['before']} to {_short(row['after'], row['before'])}"
    else:
        when = f"{row['after']} ({_short(row['first'], row['after'])} to {_short(row['last'], row['after'])})"
    every = 1 < len(found.hosts) == len(row["hosts"])
    hosts = f"all {len(found.hosts)}" if every else join_names(row["hosts"], 40)
    beside = "; ".join(row["else"]) or ("nothing known" if row["dated"] else "")
    return (when, f"{hosts}, {_relation(row)}", signed(change), interval(low, high), beside)


def _relation(row: dict[str, Any]) -> str:
    return f"{row['benchmark']} {row['relation']}" if row["relation"] else "all relations"


def _short(night: date, beside: date) -> str:
    return f"{night:%m-%d}" if night.year == beside.year else f"{night}"


def _nights(rows: pd.DataFrame) -> Iterator[str]:
    """A line for each host and night, with the relation that is furthest off."""
    rows = rows.assign(apart=(rows["ratio"] - 1).abs()).sort_values("apart", ascending=False)
    groups = list(rows.groupby(["host", "night"], sort=False))
    for (host, night), of_night in groups[:_LISTED]:
        first = records(of_night)[0]
        more = f", and {len(of_night) - 1} more" if len(of_night) > 1 else ""
        yield one_line(f"  {night}  {host} {_relation(first)} {first['ratio'] - 1:+.0%}{more}")
    if len(groups) > _LISTED:
        yield f"  {len(groups) - _LISTED} more with --json"

"""Text, JSON and CSV of `fleet compare --siblings`: which of equal machines is odd."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.siblings import MEAN, Siblings
from fleet.analysis.views.fields import select_fields
from fleet.analysis.views.headlines import NAMES_LENGTH
from fleet.analysis.views.warnings import render_warnings
from fleet.hostnames import join_names
from fleet.text import format_count, one_line, table

SIBLING_TITLES = (
    "host",
    "benchmark",
    "of",
    "this",
    "others",
    "apart",
    "95 % interval",
    "q",
)
_SIBLING_FIELDS = (
    "hosts about runs threshold has_verdict odd_hosts smallest rows environment caveats"
)
_NUMBERS_LISTED = 20


def render_siblings(groups: Sequence[Siblings], width: int | None = None) -> str:
    """Render for people each group's odd machines and what else differs, then a legend
    and warnings.
    """
    several = [group for group in groups if len(group.hosts) > 1]
    parts = ["\n".join(_render_siblings_group(group, width)) for group in several]
    if alone := [group.hosts[0] for group in groups if len(group.hosts) == 1]:
        parts.append(f"Without siblings: {join_names(alone)}")
    rows = (
        pd.concat([_select_odd_numbers(group) for group in several])
        if several
        else pd.DataFrame()
    )
    if len(rows):
        units = text.describe_units(
            filter(None, rows["benchmark"]), several[0].descriptions
        )
        legend = (
            f"Others: {units}; mean of the others ± standard deviation, moderated over"
            " machines and relations"
        )
        if (rows["relation"] == MEAN).any():
            legend += "; all: the mean over relations"
        if rows["relation"].str.startswith("CPU ").any():
            legend += "; a CPU: against the same CPU of the others, beside its machine"
        words = text.explain_relations(
            name for name in rows["relation"] if name != MEAN
        )
        parts.append("\n".join(filter(None, (words, f"{legend}."))))
    parts.append(
        render_warnings([caveat for group in groups for caveat in group.caveats])
    )
    return "\n\n".join(filter(None, parts))


def siblings_as_json(groups: Sequence[Siblings]) -> str:
    """Render groups as JSON: one-way latencies in ns, shares as fractions, null where
    unknown.
    """
    return text.format_document("siblings", select_fields(groups, _SIBLING_FIELDS))


def siblings_as_csv(groups: Sequence[Siblings]) -> str:
    """Render CSV with a row per host and measured number, and the index of its
    group.
    """
    rows = [group.rows.assign(group=place) for place, group in enumerate(groups)]
    return text.format_csv(pd.concat(rows)).rstrip("\n")


def render_siblings_headline(group: Siblings) -> str:
    """Say in a sentence how many machines are equal, and which are odd."""
    answer = "none is odd" if group.has_verdict else "no verdict"
    if group.odd_hosts:
        answer = (
            f"{len(group.odd_hosts)} odd: {join_names(group.odd_hosts, NAMES_LENGTH)}"
        )
    about = f"{len(group.hosts)} equal machines, {format_count(group.runs, 'run')}"
    return one_line(f"{join_names(group.hosts, NAMES_LENGTH)}: {about}: {answer}")


def format_odd_numbers(group: Siblings) -> list[tuple[str, ...]]:
    """Return the cells of SIBLING_TITLES for each number of an odd machine."""
    rows = list[tuple[str, ...]]()
    for row in text.to_records(_select_odd_numbers(group)):
        this, others = _format_this_and_others(row, group)
        change, low, high = text.convert_change(row, group.descriptions)
        cells = (
            row["host"],
            text.name_benchmark(row),
            row["relation"],
            this,
            others,
            text.format_change(change),
            text.format_interval(low, high),
            _format_q(row["q"]),
        )
        rows.append(cells)
    return rows


def _format_this_and_others(row: dict[str, Any], group: Siblings) -> tuple[str, str]:
    """Format a machine's number and that of the others with its scatter; "-" for the
    mean over benchmarks.
    """
    if not row["benchmark"]:
        return "-", "-"
    this, others = text.format_values(row, ("ns", "others_ns"), group.descriptions)
    if not text.is_none(row["scatter"]):
        others += f" {text.format_half_width(row['scatter'])}"
    return this, others


def _format_q(q: float | None) -> str:
    if q is None:
        return "-"
    return "<0.001" if q < 0.001 else f"{q:.3f}"


def list_odd_environments(group: Siblings) -> Iterator[tuple[str, str]]:
    """Yield each odd host whose facts differ from most others', and how."""
    for host, facts in group.environment.groupby("host", sort=False):
        words = (
            f"{row['what']} {row['value']}, others {row['others']}"
            for row in text.to_records(facts)
        )
        yield str(host), one_line(f"also differs in {'; '.join(words)}")


def _select_odd_numbers(group: Siblings) -> pd.DataFrame:
    """Return the rows of odd machines or, without verdicts, those beyond the
    threshold.
    """
    is_listed = group.rows["odd"]
    if not group.has_verdict:
        ratio, limit = group.rows["ratio"], 1 + group.threshold
        is_listed = (ratio > limit) | (ratio < 1 / limit)
    return group.rows[is_listed].sort_values(["host", "p"], kind="stable")


def _render_siblings_group(group: Siblings, width: int | None) -> Iterator[str]:
    yield render_siblings_headline(group)
    yield one_line(f"  {group.about}")
    if rows := format_odd_numbers(group):
        some, drop = rows[:_NUMBERS_LISTED], ("benchmark", "q")
        yield "\n" + table(
            SIBLING_TITLES, some, right={3, 4, 5, 6, 7}, width=width, drop=drop
        )
        if len(rows) > _NUMBERS_LISTED:
            yield f"{len(rows) - _NUMBERS_LISTED} more with --csv"
    elif group.has_verdict:
        yield (
            f"  One relation {group.smallest:.1%} apart would be found in 8 of 10 such"
            " comparisons."
        )
    for host, words in list_odd_environments(group):
        yield f"{host} {words}"

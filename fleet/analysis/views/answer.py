"""The answer of a comparison, for terminals and pages: what changed, on which hosts, by how much."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.text import change_shown, interval, is_none, kind_of, measured, records, signed
from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.verdicts import Verdict
from fleet.hostnames import join_names
from fleet.model import SHIPPED, Descriptions
from fleet.text import counted, one_line

COLUMNS = ("benchmark", "relation", "pairs", "A", "B", "change", "95 % interval", "verdict")
SHORT = 60  # characters of names in a sentence


def is_finding(rows: pd.DataFrame) -> pd.Series:
    """Return which rows changed or are at another level."""
    return rows["verdict"].isin((Verdict.CHANGED, Verdict.AT_ANOTHER_LEVEL))


def group_by_sides(comparisons: Sequence[Comparison]) -> dict[tuple[str, str], list[Comparison]]:
    """The comparisons by the names of their sides: host by host, several have the same."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault(one.sides, []).append(one)
    return groups


def render_headlines(comparisons: Sequence[Comparison]) -> list[str]:
    """A sentence for each two sides: how many relations changed, on which hosts."""
    return [
        render_headline(group[0]) if len(group) == 1 else _summarize_hosts(sides, group)
        for sides, group in group_by_sides(comparisons).items()
    ]


def format_open_relations(comparisons: Sequence[Comparison]) -> list[tuple[str, tuple[str, ...]]]:
    """Relations not equivalent, with host or side: what changed first, and of that the change of all."""
    groups = group_by_sides(comparisons)
    named = [(f"all {len(group)}", sides, group[0].fleet) for sides, group in groups.items()]
    for sides, group in groups.items():
        named += [(one.b.hosts[0] if len(group) > 1 else one.b.name, sides, one.relations) for one in group]
    found = [
        (f"{name}, {sides[1]}" if len(groups) > 1 and name != sides[1] else name, row)
        for name, sides, rows in named
        for row in records(rows)
        if row["verdict"] != Verdict.EQUIVALENT
    ]
    found.sort(key=lambda one: list(Verdict).index(one[1]["verdict"]))
    return [(name, format_relation(row, comparisons[0].descriptions)) for name, row in found]


def render_headline(one: Comparison) -> str:
    """How many relations of one comparison changed, and the most."""
    names = [one.b.name, one.a.name] if len(one.a.name + one.b.name) <= SHORT else ["B", "A"]
    return one_line(f"{names[0]} against {names[1]}: {_summarize_relations(one)}")


def format_relation(row: dict[str, Any], descriptions: Descriptions = SHIPPED) -> tuple[str, ...]:
    """The cells of COLUMNS of a relation of a host, or of all: then with hosts for pairs, and no A and B."""
    change, low, high = change_shown(row, descriptions)
    names = (
        format_relation_sides(row, descriptions)
        if "pairs" in row
        else (kind_of(row), row["relation"], str(row["hosts"]), "-", "-")
    )
    alone = {Verdict.EQUIVALENT, Verdict.NONE}  # whose reason the headline or a warning says once
    why = "" if row["verdict"] in alone else f": {row['why']}"
    return (*names, signed(change), interval(low, high), f"{row['verdict']}{why}")


def format_relation_sides(row: dict[str, Any], descriptions: Descriptions = SHIPPED) -> tuple[str, ...]:
    """The cells of COLUMNS up to B, of a relation of a host."""
    a, b = (measured(descriptions[row["benchmark"]], row[name]) for name in ("a_ns", "b_ns"))
    return (kind_of(row), row["relation"], str(row["pairs"]), a, b)


def _summarize_hosts(sides: tuple[str, str], group: Sequence[Comparison]) -> str:
    by_verdict: dict[Verdict, list[str]] = {}
    descriptions = group[0].descriptions
    for one in group:
        for verdict in one.relations["verdict"]:
            by_verdict.setdefault(Verdict(verdict), []).append(one.b.hosts[0])
    rows = records(pd.concat([one.relations.assign(host=one.b.hosts[0]) for one in group]))
    notes = {Verdict.EQUIVALENT: f"within ±{group[0].threshold * 100:g}%"}
    notes |= {Verdict.AT_ANOTHER_LEVEL: _describe_widest_levels(rows, descriptions, Verdict.AT_ANOTHER_LEVEL)}
    parts = []
    for verdict in filter(by_verdict.__contains__, Verdict):
        hosts = [*dict.fromkeys(by_verdict[verdict])]
        parts.append(
            f"{len(by_verdict[verdict])} {verdict} ({notes.get(verdict) or join_names(hosts, SHORT)})"
        )
    parts += _describe_split_relations(rows, descriptions)
    count = sum(map(len, by_verdict.values()))
    return one_line(
        f"{sides[1]} against {sides[0]}, {len(group)} hosts: {counted(count, 'relation')}, {', '.join(parts)}"
    )


def _summarize_relations(one: Comparison) -> str:
    if one.relations.empty:
        return "nothing in common"
    rows, descriptions = records(one.relations), one.descriptions
    if not one.judged:
        return ", ".join(("no verdict, too few runs", *_describe_split_relations(rows, descriptions)))
    counts = one.relations["verdict"].value_counts()
    changed = [row for row in rows if row["verdict"] == Verdict.CHANGED]
    changed.sort(key=lambda row: abs(change_shown(row, descriptions)[0]))
    most = [
        f" (at most {signed(change_shown(row, descriptions)[0])}, {row['relation']})" for row in changed[-1:]
    ]
    notes = {Verdict.CHANGED: "".join(most), Verdict.EQUIVALENT: f" (within ±{one.threshold * 100:g}%)"}
    widest = _describe_widest_levels(rows, descriptions, Verdict.AT_ANOTHER_LEVEL)
    notes |= {Verdict.AT_ANOTHER_LEVEL: f" ({widest})"}
    parts = [
        f"{counts[verdict]} {verdict}{notes.get(verdict, '')}" for verdict in Verdict if verdict in counts
    ]
    return ", ".join((counted(len(rows), "relation"), *parts, *_describe_split_relations(rows, descriptions)))


def _describe_widest_levels(
    rows: Sequence[dict[str, Any]], descriptions: Descriptions, *verdicts: Verdict
) -> str:
    """Name the levels of the row whose sides are furthest apart, and how many runs would tell."""
    several = [row for row in rows if row["verdict"] in verdicts and row["levels"] > 1]
    if not several:
        return ""
    widest = max(several, key=lambda row: abs(np.log(row["b_ns"] / row["a_ns"])))
    a, b = (measured(descriptions[widest["benchmark"]], widest[name]) for name in ("a_ns", "b_ns"))
    where = f"{widest['host']} " if "host" in widest else ""
    known = [row["more"] for row in several if not is_none(row["more"])]
    told = (
        f"about {max(known):.0f} runs a side would tell" if known else "more runs than 200 a side would tell"
    )
    return f"{where}{widest['relation']}: most of A at {a}, most of B at {b}; {told}"


def _describe_split_relations(rows: Sequence[dict[str, Any]], descriptions: Descriptions) -> list[str]:
    """Say of rows without a finding that their runs are at several levels: a change may hide there."""
    open_verdicts = (Verdict.EQUIVALENT, Verdict.CANNOT_TELL, Verdict.NONE)
    count = sum(row["verdict"] in open_verdicts and row["levels"] > 1 for row in rows)
    return (
        [f"{count} of them at several levels ({_describe_widest_levels(rows, descriptions, *open_verdicts)})"]
        if count
        else []
    )

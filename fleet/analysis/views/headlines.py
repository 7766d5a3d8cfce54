"""Sentences that say how many relations of a comparison changed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fleet.analysis.base import text
from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.verdicts import MAX_RUNS_ADVISED, Verdict
from fleet.hostnames import join_names
from fleet.model import Descriptions
from fleet.text import format_count, one_line

Row = Mapping[str, Any]  # of the relations of a comparison
NAMES_LENGTH = 60  # characters of host names in a sentence


def is_finding(row: Row) -> bool:
    """Report whether the verdict of a row is `changed` or `at another level`."""
    return row["verdict"] in (Verdict.CHANGED, Verdict.AT_ANOTHER_LEVEL)


def render_headlines_by_sides(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a sentence per pair of sides that says how many relations changed, and on
    which hosts.
    """
    headlines = []
    for (a, b), group in group_by_sides(comparisons).items():
        if len(group) == 1:
            headlines.append(render_headline(group[0]))
        else:
            headlines.append(_render_headline_of_hosts(a, b, group))
    return headlines


def _render_headline_of_hosts(a: str, b: str, comparisons: Sequence[Comparison]) -> str:
    """Say how many relations of several hosts changed, and which hosts are other
    machines than before.
    """
    counts = _count_verdicts_of_hosts(comparisons)
    replaced_hosts = []
    for comparison in comparisons:
        is_another_machine = comparison.models is not None
        if is_another_machine:
            replaced_hosts.append(comparison.b.hosts[0])
    if replaced_hosts:
        names = join_names(replaced_hosts, NAMES_LENGTH)
        counts.insert(0, f"another machine under the same name: {names}")
    return one_line(f"{b} against {a}, {len(comparisons)} hosts: {', '.join(counts)}")


def _count_verdicts_of_hosts(comparisons: Sequence[Comparison]) -> list[str]:
    """Return phrases that count the relations of several hosts. The note of each
    verdict names the hosts that have such a relation.

    comparisons: one per host. The threshold that the phrases name is that of the first.
    """
    rows = []
    hosts_by_verdict: dict[Verdict, dict[str, None]] = {}
    for comparison in comparisons:
        host = comparison.b.hosts[0]
        for row in comparison.rows:
            rows.append({**row, "host": host})
            # a dict without values keeps each host once, in order
            hosts = hosts_by_verdict.setdefault(Verdict(row["verdict"]), {})
            hosts[host] = None
    notes = {}
    for verdict, hosts in hosts_by_verdict.items():
        notes[verdict] = join_names(hosts, NAMES_LENGTH)
    return _count_verdicts(rows, comparisons[0], notes)


def render_headline(comparison: Comparison) -> str:
    """Say in a sentence how many relations of a comparison changed, and by how much at
    most.
    """
    a = comparison.a.name
    b = comparison.b.name
    sides = f"{b} against {a}" if len(a + b) <= NAMES_LENGTH else "B against A"
    if comparison.models:
        model_of_a, model_of_b = comparison.models
        sides += (
            f", another machine under the same name ({model_of_b}, not {model_of_a})"
        )
    rows = comparison.rows
    if not rows:
        return one_line(f"{sides}: {_explain_no_relations(comparison)}")
    notes = {
        Verdict.CHANGED: _describe_largest_change(rows, comparison.descriptions),
        Verdict.NONE: _explain_no_verdict(rows),
    }
    counts = ", ".join(_count_verdicts(rows, comparison, notes))
    return one_line(f"{sides}: {counts}")


def _explain_no_relations(comparison: Comparison) -> str:
    unlike = comparison.unlike["benchmark"].unique()
    if not len(unlike):
        return "nothing in common"
    return f"no verdict: measured with different instructions: {', '.join(unlike)}"


def _describe_largest_change(rows: Sequence[Row], descriptions: Descriptions) -> str:
    """Name the largest change and its relation: "at most +5.1%, llc". Only rows with
    the verdict `changed` count; without such a row, no headline shows the text.
    """
    largest = 0.0
    relation = ""
    for row in rows:
        if row["verdict"] == Verdict.CHANGED:
            change, _, _ = text.convert_change(row, descriptions)
            if not relation or abs(change) > abs(largest):
                largest = change
                relation = row["relation"]
    return f"at most {text.format_change(largest)}, {relation}"


def _explain_no_verdict(rows: Sequence[Row]) -> str:
    """Say why relations have no verdict."""
    without = [row for row in rows if row["verdict"] == Verdict.NONE]
    if any(row["levels"] > 1 for row in without):
        return "too few runs at a common level"
    return "too few runs"


def group_by_sides(
    comparisons: Sequence[Comparison],
) -> dict[tuple[str, str], list[Comparison]]:
    """Group comparisons by the names of their sides, which host-by-host comparisons
    share.
    """
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault(comparison.sides, []).append(comparison)
    return groups


def _count_verdicts(
    rows: Sequence[Row], comparison: Comparison, notes: Mapping[Verdict, str]
) -> list[str]:
    """Return phrases: the number of rows, then of each verdict how many rows have it,
    and its note: "44 relations", "1 changed (at most +5.1%, llc)". A last phrase counts
    the rows that are no findings and whose runs are at several levels: their levels may
    hide a change.

    rows: a relation each. comparison: gives the threshold and the units. notes: by
    verdict, beside the two notes that every headline has.
    """
    descriptions = comparison.descriptions
    every_note = {
        **notes,
        Verdict.EQUIVALENT: f"within ±{comparison.threshold * 100:g}%",
        Verdict.AT_ANOTHER_LEVEL: _describe_worst_levels(rows, descriptions),
    }
    phrases = [format_count(len(rows), "relation")]
    counts = Counter(row["verdict"] for row in rows)
    for verdict in Verdict:
        if verdict in counts:
            note = every_note.get(verdict)
            phrase = f"{counts[verdict]} {verdict}"
            phrases.append(phrase if note is None else f"{phrase} ({note})")
    rows_without_finding = [row for row in rows if not is_finding(row)]
    at_several_levels = [row for row in rows_without_finding if row["levels"] > 1]
    if at_several_levels:
        levels = _describe_compared_levels(at_several_levels, descriptions)
        count = len(at_several_levels)
        phrases.append(f"{count} of them at several levels ({levels})")
    return phrases


def _describe_worst_levels(rows: Sequence[Row], descriptions: Descriptions) -> str:
    """Describe the row whose sides' levels are furthest apart, then how many runs would
    tell all such rows: "smt: most of A at 8.1, most of B at 9.9; about 12 runs a side
    would tell". Return "" if no row has the verdict `at another level`: most runs of A
    at one level, most of B at another, which may be chance.
    """
    apart = [row for row in rows if row["verdict"] == Verdict.AT_ANOTHER_LEVEL]
    if not apart:
        return ""
    furthest_apart = max(apart, key=_measure_distance)
    a, b = text.format_values(furthest_apart, ("a_ns", "b_ns"), descriptions)
    place = _name_place(furthest_apart)
    levels = f"{place}: most of A at {a}, most of B at {b}"
    return f"{levels}; {_say_how_many_runs_tell(apart)}"


def _measure_distance(row: Row) -> float:
    """Return how far the sides' numbers are apart, as a logarithm."""
    ratio = row["b_ns"] / row["a_ns"]
    return abs(float(np.log(ratio)))


def _describe_compared_levels(rows: Sequence[Row], descriptions: Descriptions) -> str:
    """Say of one row how many runs of each side are at the level that was compared:
    "smt: 3 of 4 runs of A at 8.1, 1 of 4 of B at 8.2". Take the row whose sides differ
    most in this share. If rows have no verdict, add how many runs they need for one.

    rows: relations whose runs are at several levels. `a_units` of a row: how many runs
    A has. `a_compared`: how many of these runs are at the compared level. `a_ns`: the
    mean of these. `b_units`, `b_compared` and `b_ns` are the same of B.
    """
    most_unlike = max(rows, key=_measure_difference_of_shares)
    a, b = text.format_values(most_unlike, ("a_ns", "b_ns"), descriptions)
    a_runs = f"{most_unlike['a_compared']} of {most_unlike['a_units']} runs of A at {a}"
    b_runs = f"{most_unlike['b_compared']} of {most_unlike['b_units']} of B at {b}"
    words = f"{_name_place(most_unlike)}: {a_runs}, {b_runs}"
    without_verdict = [row for row in rows if row["verdict"] == Verdict.NONE]
    if without_verdict:
        words += f"; {_say_how_many_runs_tell(without_verdict)}"
    return words


def _measure_difference_of_shares(row: Row) -> float:
    """Return by how much the shares of the sides' runs that are at the compared level
    differ.
    """
    share_of_a = row["a_compared"] / row["a_units"]
    share_of_b = row["b_compared"] / row["b_units"]
    return abs(float(share_of_a - share_of_b))


def _name_place(row: Row) -> str:
    if "host" in row:
        return f"{row['host']} {row['relation']}"
    return str(row["relation"])


def _say_how_many_runs_tell(rows: Sequence[Row]) -> str:
    """Say how many runs a side would give all these rows a verdict.

    `more` of a row is the number that it needs. It is None where that is above
    MAX_RUNS_ADVISED.
    """
    counts = [row["more"] for row in rows]
    needed = f"more runs than {MAX_RUNS_ADVISED}"
    if not any(map(text.is_none, counts)):
        needed = f"about {max(counts):.0f} runs"
    every = " all" if len(rows) > 1 else ""
    return f"{needed} a side would tell{every}"

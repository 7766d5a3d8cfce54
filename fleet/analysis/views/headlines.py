"""Sentences that say how many relations of a comparison changed."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.verdicts import Verdict
from fleet.hostnames import join_names
from fleet.model import Descriptions
from fleet.text import format_count, one_line

NAMES_LENGTH = 60  # characters of host names in a sentence
# a change may hide between several levels
_OPEN = (
    Verdict.EQUIVALENT,
    Verdict.CANNOT_TELL,
    Verdict.NONE,
)


def is_finding(rows: pd.DataFrame) -> pd.Series:
    """Report for each row whether its verdict is `changed` or `at another level`."""
    return rows["verdict"].isin((Verdict.CHANGED, Verdict.AT_ANOTHER_LEVEL))


def render_headlines_by_sides(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a sentence per pair of sides that says how many relations changed, and on
    which hosts.
    """
    headlines = []
    for (a, b), group in group_by_sides(comparisons).items():
        if len(group) == 1:
            headlines.append(render_headline(group[0]))
            continue
        relations = pd.concat(
            [item.relations.assign(host=item.b.hosts[0]) for item in group]
        )
        hosts = relations.groupby("verdict", sort=False)["host"].unique()
        notes = {
            Verdict(str(verdict)): join_names(names, NAMES_LENGTH)
            for verdict, names in hosts.items()
        }
        parts = _count_verdicts(text.to_records(relations), group[0], notes)
        replaced = [item.b.hosts[0] for item in group if item.models]
        if replaced:
            names = join_names(replaced, NAMES_LENGTH)
            parts.insert(0, f"another machine under the same name: {names}")
        headlines.append(
            one_line(f"{b} against {a}, {len(group)} hosts: {', '.join(parts)}")
        )
    return headlines


def render_headline(comparison: Comparison) -> str:
    """Say in a sentence how many relations of a comparison changed, and by how much at
    most.
    """
    a, b = comparison.a.name, comparison.b.name
    names = f"{b} against {a}" if len(a + b) <= NAMES_LENGTH else "B against A"
    rows, descriptions = text.to_records(comparison.relations), comparison.descriptions
    changed = [row for row in rows if row["verdict"] == Verdict.CHANGED]
    changes = [
        (text.convert_change(row, descriptions)[0], row["relation"]) for row in changed
    ]
    change, relation = max(changes, key=lambda pair: abs(pair[0]), default=(0.0, ""))
    is_split = any(row["verdict"] == Verdict.NONE and row["levels"] > 1 for row in rows)
    few = "too few runs" + " at a common level" * is_split
    notes = {
        Verdict.CHANGED: f"at most {text.format_change(change)}, {relation}",
        Verdict.NONE: few,
    }
    if rows:
        parts = _count_verdicts(rows, comparison, notes)
    else:
        unlike = ", ".join(comparison.unlike["benchmark"].unique())
        no_verdict = f"no verdict: measured with different instructions: {unlike}"
        parts = [no_verdict if unlike else "nothing in common"]
    if comparison.models:
        model_of_a, model_of_b = comparison.models
        names += (
            f", another machine under the same name ({model_of_b}, not {model_of_a})"
        )
    return one_line(f"{names}: {', '.join(parts)}")


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
    rows: list[dict[str, Any]], comparison: Comparison, notes: dict[Verdict, str]
) -> list[str]:
    """Return phrases that count rows, those of each verdict (with its note) and those
    at several levels.
    """
    descriptions = comparison.descriptions
    notes = {
        **notes,
        Verdict.EQUIVALENT: f"within ±{comparison.threshold * 100:g}%",
        Verdict.AT_ANOTHER_LEVEL: _describe_worst_levels(rows, descriptions),
    }
    counts = Counter(row["verdict"] for row in rows)
    words = {verdict: f" ({note})" for verdict, note in notes.items()}
    verdicts = [
        f"{counts[name]} {name}{words.get(name, '')}"
        for name in Verdict
        if name in counts
    ]
    split = [row for row in rows if row["verdict"] in _OPEN and row["levels"] > 1]
    if split:
        levels = _describe_common_levels(split, descriptions)
        verdicts.append(f"{len(split)} of them at several levels ({levels})")
    return [format_count(len(rows), "relation"), *verdicts]


def _describe_worst_levels(
    rows: list[dict[str, Any]], descriptions: Descriptions
) -> str:
    """Name the levels of the sides that are at different ones where these differ most,
    and how many runs would tell.
    """
    apart = [row for row in rows if row["verdict"] == Verdict.AT_ANOTHER_LEVEL]
    if not apart:
        return ""
    widest = max(apart, key=lambda row: abs(np.log(row["b_ns"] / row["a_ns"])))
    a, b = text.format_values(widest, ("a_ns", "b_ns"), descriptions)
    where = f"{_name_place(widest)}: most of A at {a}, most of B at {b}"
    return f"{where}; {_count_runs_that_tell(apart)}"


def _describe_common_levels(
    rows: list[dict[str, Any]], descriptions: Descriptions
) -> str:
    """Name the level that was compared where the sides' runs are there in the most
    unlike shares, and how many runs would give the rows without a verdict one.
    """

    def compute_difference(row: dict[str, Any]) -> float:
        share_of_a = row["a_compared"] / row["a_units"]
        share_of_b = row["b_compared"] / row["b_units"]
        return abs(float(share_of_a - share_of_b))

    row = max(rows, key=compute_difference)
    a, b = text.format_values(row, ("a_ns", "b_ns"), descriptions)
    runs_of_a = f"{row['a_compared']} of {row['a_units']} runs of A at {a}"
    runs_of_b = f"{row['b_compared']} of {row['b_units']} of B at {b}"
    words = f"{_name_place(row)}: {runs_of_a}, {runs_of_b}"
    without = [row for row in rows if row["verdict"] == Verdict.NONE]
    if without:
        words += f"; {_count_runs_that_tell(without)}"
    return words


def _name_place(row: dict[str, Any]) -> str:
    if "host" in row:
        return f"{row['host']} {row['relation']}"
    return str(row["relation"])


def _count_runs_that_tell(rows: list[dict[str, Any]]) -> str:
    """Say how many runs a side would give these rows a verdict."""
    counts = [row["more"] for row in rows]
    needed = "more runs than 200"
    if not any(map(text.is_none, counts)):
        needed = f"about {max(counts):.0f} runs"
    every = " all" if len(rows) > 1 else ""
    return f"{needed} a side would tell{every}"

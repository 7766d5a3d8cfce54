"""What `fleet compare --siblings` prints: equal machines, and those that are odd."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.siblings import MEAN, Siblings
from fleet.analysis.views.warnings import render_warnings
from fleet.hostnames import join_names
from fleet.model import Descriptions
from fleet.text import counted, one_line, table

TITLES = ("host", "benchmark", "of", "this", "others", "apart", "95 % interval", "q")
_LISTED = 20  # rows of a group


def render_siblings(groups: Sequence[Siblings], width: int | None = None) -> str:
    """For people: of each group its odd machines and what else differs; then what the words mean."""
    several = [one for one in groups if len(one.hosts) > 1]
    parts = ["\n".join(_part(one, width)) for one in several]
    alone = [one.hosts[0] for one in groups if len(one.hosts) == 1]
    if alone:
        parts.append(f"Without siblings: {join_names(alone)}")
    shown = pd.concat([_shown(one) for one in several]) if several else pd.DataFrame()
    if len(shown):
        units = text.units_text(filter(None, shown["benchmark"]), several[0].descriptions)
        legend = f"Others: {units}; mean of the others ± standard deviation"
        if (shown["relation"] == MEAN).any():
            legend += "; all: the mean over relations"
        if shown["relation"].str.startswith("CPU ").any():
            legend += "; a CPU: against the same CPU of the others, beside its machine"
        words = text.in_words(name for name in shown["relation"] if name != MEAN)
        parts.append("\n".join(filter(None, (words, f"{legend}."))))
    parts.append(render_warnings([caveat for one in groups for caveat in one.caveats]))
    return "\n\n".join(filter(None, parts))


def siblings_as_json(groups: Sequence[Siblings]) -> str:
    """A list of groups; latencies one way in ns, shares as fractions, null where unknown."""
    about = ("hosts", "about", "runs", "threshold", "judged", "odd", "smallest")
    names = (*about, "rows", "environment", "caveats")
    found = [{name: getattr(one, name) for name in names} for one in groups]
    return text.json_text(
        [one | {"smallest": None if text.is_none(one["smallest"]) else one["smallest"]} for one in found]
    )


def siblings_as_csv(groups: Sequence[Siblings]) -> str:
    """A row per host and number, with its group's number."""
    return text.csv_text(pd.concat([one.rows.assign(group=at) for at, one in enumerate(groups)])).rstrip("\n")


def _shown(one: Siblings) -> pd.DataFrame:
    """The rows to list: of odd machines; without verdicts those beyond the threshold."""
    apart = one.rows["odd"]
    if not one.judged:
        apart = (one.rows["ratio"] > 1 + one.threshold) | (one.rows["ratio"] < 1 / (1 + one.threshold))
    return one.rows[apart].sort_values(["host", "p"], kind="stable")


def _part(one: Siblings, width: int | None) -> Iterator[str]:
    yield render_siblings_headline(one)
    yield one_line(f"  {one.about}")
    listed = format_odd_numbers(one)
    if listed:
        shown = listed[:_LISTED]
        yield "\n" + table(TITLES, shown, right={3, 4, 5, 6, 7}, width=width, drop=("benchmark", "q"))
        if len(listed) > _LISTED:
            yield f"{len(listed) - _LISTED} more with --csv"
    elif one.judged:
        yield f"  One relation {one.smallest:.1%} apart would be found in 8 of 10 such comparisons."
    for host, words in odd_environments(one):
        yield f"{host} {words}"


def odd_environments(one: Siblings) -> Iterator[tuple[str, str]]:
    """Yield each odd host whose facts differ from most others', and how, in words."""
    for host, facts in one.environment.groupby("host", sort=False):
        words = (f"{row['what']} {row['value']}, others {row['others']}" for row in text.records(facts))
        yield str(host), one_line(f"also differs in {'; '.join(words)}")


def render_siblings_headline(one: Siblings) -> str:
    """How many machines are equal, and which are odd, in one sentence."""
    found = one.odd
    none = "none is odd" if one.judged else "no verdict"
    answer = f"{len(found)} odd: {join_names(found, 60)}" if found else none
    about = f"{len(one.hosts)} equal machines, {counted(one.runs, 'run')}"
    return one_line(f"{join_names(one.hosts, 60)}: {about}: {answer}")


def format_odd_numbers(one: Siblings) -> list[tuple[str, ...]]:
    """The cells of each number of an odd machine, under TITLES."""
    return [_line(row, one.descriptions) for row in text.records(_shown(one))]


def _line(row: dict[str, Any], descriptions: Descriptions) -> tuple[str, ...]:
    this = others = "-"
    if not text.is_none(row["ns"]):
        this, others = (
            text.measured(descriptions[row["benchmark"]], row[name]) for name in ("ns", "others_ns")
        )
        others += f" {text.within(row['scatter'])}" * (not text.is_none(row["scatter"]))
    change, low, high = text.change_shown(row, descriptions)
    of = text.kind_of(row) if row["benchmark"] else "-", row["relation"]
    q = "-" if text.is_none(row["q"]) else "<0.001" if row["q"] < 0.001 else f"{row['q']:.3f}"
    return (row["host"], *of, this, others, text.signed(change), text.interval(low, high), q)

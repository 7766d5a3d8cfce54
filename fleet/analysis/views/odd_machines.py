"""Text, JSON and CSV of `fleet compare --siblings`: which of equal machines is odd."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.siblings import MEAN, Siblings
from fleet.analysis.views.fields import select_fields
from fleet.analysis.views.headlines import NAMES_LENGTH
from fleet.analysis.views.units import add_changes, add_values
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
_FIRST_OF_NUMBERS = SIBLING_TITLES.index("this")  # titles before it are of text
_NUMBERS_LISTED = 20
NO_NUMBER = "-"  # of the mean over relations, whose numbers have no common unit


class OddNumberCells(NamedTuple):
    """The cells of a line about a number of an odd machine (titles: SIBLING_TITLES).

    this, others: the machine's number and that of the others, or NO_NUMBER.
    """

    host: str
    benchmark: str
    relation: str
    this: str
    others: str
    change: str
    interval: str
    q: str


def render_siblings(groups: Sequence[Siblings], width: int | None = None) -> str:
    """Render for people each group's odd machines and what else differs, then a legend
    and warnings.
    """
    with_siblings = []
    hosts_alone = list[str]()
    caveats = list[str]()
    for group in groups:
        caveats += group.caveats
        if len(group.hosts) > 1:
            with_siblings.append(group)
        else:
            hosts_alone += group.hosts
    parts = ["\n".join(_render_siblings_group(group, width)) for group in with_siblings]
    if hosts_alone:
        parts.append(f"Without siblings: {join_names(hosts_alone)}")
    parts.append(_explain_numbers(with_siblings))
    parts.append(render_warnings(caveats))
    return "\n\n".join(part for part in parts if part)


def _explain_numbers(groups: Sequence[Siblings]) -> str:
    """Return the legend of the groups' odd numbers; "" without any. The legend has
    words only for what occurs: relations such as "llc", a single CPU such as "CPU 3",
    and MEAN, the mean over all relations.
    """
    tables = [_select_odd_numbers(group) for group in groups]
    if all(rows.empty for rows in tables):
        return ""
    rows = pd.concat(tables)
    benchmarks = filter(None, rows["benchmark"])  # the mean over relations has none
    units = text.describe_units(benchmarks, groups[0].descriptions)
    relations = rows["relation"]
    legend = (
        f"Others: {units}; mean of the others ± standard deviation, moderated over"
        " machines and relations"
    )
    if (relations == MEAN).any():
        legend += "; all: the mean over relations"
    if relations.str.startswith("CPU ").any():
        # "beside its machine": how far a CPU is from that CPU of other machines, less
        # how far its NUMA node is from theirs
        legend += "; a CPU: against the same CPU of the others, beside its machine"
    words = text.explain_relations(name for name in relations if name != MEAN)
    return "\n".join(filter(None, (words, f"{legend}.")))


def siblings_as_json(groups: Sequence[Siblings]) -> str:
    """Render groups as JSON: numbers as shown and in ns, shares as fractions, null
    where unknown.
    """
    objects = select_fields(groups, _SIBLING_FIELDS)
    for group, own in zip(groups, objects, strict=True):
        own["rows"] = _add_shown(group)
    return text.format_document("siblings", objects)


def siblings_as_csv(groups: Sequence[Siblings]) -> str:
    """Render CSV with a row per host and measured number, and the index of its
    group.
    """
    tables = []
    for place, group in enumerate(groups):
        rows = _add_shown(group)
        tables.append(rows.assign(group=place))
    return text.format_csv(pd.concat(tables)).rstrip("\n")


def _add_shown(group: Siblings) -> pd.DataFrame:
    """Return a group's rows, with its numbers and how far each is off as shown."""
    names = {"value": "ns", "others_value": "others_ns"}
    rows = add_values(group.rows, names, group.descriptions)
    return add_changes(rows, group.descriptions)


def render_siblings_headline(group: Siblings) -> str:
    """Say in a sentence how many machines are equal, and which are odd."""
    answer = "none is odd" if group.has_verdict else "no verdict"
    odd = group.odd_hosts
    if odd:
        answer = f"{len(odd)} odd: {join_names(odd, NAMES_LENGTH)}"
    hosts = join_names(group.hosts, NAMES_LENGTH)
    about = f"{len(group.hosts)} equal machines, {format_count(group.runs, 'run')}"
    return one_line(f"{hosts}: {about}: {answer}")


def format_odd_numbers(group: Siblings) -> list[OddNumberCells]:
    """Format each number of an odd machine, host by host. The numbers of a host that
    are least likely to be chance come first.

    `_select_odd_numbers` sorts them so, by p. The cell `q` is p corrected for the count
    of numbers that were tested.
    """
    rows = []
    for row in text.to_records(_select_odd_numbers(group)):
        this, others = _format_this_and_others(row, group)
        change, low, high = text.convert_change(row, group.descriptions)
        cells = OddNumberCells(
            host=row["host"],
            benchmark=text.name_benchmark(row),
            relation=row["relation"],
            this=this,
            others=others,
            change=text.format_change(change),
            interval=text.format_interval(low, high),
            q=_format_q(row["q"]),
        )
        rows.append(cells)
    return rows


def _format_this_and_others(row: dict[str, Any], group: Siblings) -> tuple[str, str]:
    """Format a machine's number and that of the others with its scatter. A row without
    a benchmark is about the mean over benchmarks, which has no number: NO_NUMBER.
    """
    if not row["benchmark"]:
        return NO_NUMBER, NO_NUMBER
    columns = ("ns", "others_ns")
    this, others = text.format_values(row, columns, group.descriptions)
    scatter = row["scatter"]
    if not text.is_none(scatter):
        others += f" {text.format_half_width(scatter)}"
    return this, others


def _format_q(q: float | None) -> str:
    if q is None:
        return "-"
    return "<0.001" if q < 0.001 else f"{q:.3f}"


def list_odd_environments(group: Siblings) -> Iterator[tuple[str, str]]:
    """Yield each odd host whose facts differ from most others', and how: "also differs
    in kernel 6.12, others 6.13 (4 of 4)". group.environment: a row per host and fact;
    `what` is the name of the fact, `others` its commonest value of the others.
    """
    for host, facts in group.environment.groupby("host", sort=False):
        differences = [
            f"{row['what']} {row['value']}, others {row['others']}"
            for row in text.to_records(facts)
        ]
        yield str(host), one_line(f"also differs in {'; '.join(differences)}")


def _select_odd_numbers(group: Siblings) -> pd.DataFrame:
    """Return the rows of numbers that are odd. Without verdicts, none is odd; then
    return the rows that are off by more than the threshold.

    `ratio` of a row: the machine's time divided by the mean of the others.
    """
    is_listed = group.rows["odd"]
    if not group.has_verdict:
        ratio = group.rows["ratio"]
        # faster by the same factor is off as much as slower
        limit = 1 + group.threshold
        is_listed = (ratio > limit) | (ratio < 1 / limit)
    listed = group.rows[is_listed]
    return listed.sort_values(["host", "p"], kind="stable")


def _render_siblings_group(group: Siblings, width: int | None) -> Iterator[str]:
    """Yield the lines on a group of equal machines: the answer, what the machines
    share, the numbers of odd machines, and the facts in which these machines differ. If
    no number is listed, say instead which difference would have been found: `smallest`,
    a share.
    """
    yield render_siblings_headline(group)
    yield one_line(f"  {group.about}")
    rows = format_odd_numbers(group)
    if rows:
        body = table(
            SIBLING_TITLES,
            rows[:_NUMBERS_LISTED],
            right=range(_FIRST_OF_NUMBERS, len(SIBLING_TITLES)),
            width=width,
            drop=("benchmark", "q"),
        )
        yield f"\n{body}"
        if len(rows) > _NUMBERS_LISTED:
            yield f"{len(rows) - _NUMBERS_LISTED} more with --csv"
    elif group.has_verdict:
        yield (
            f"  One relation {group.smallest:.1%} apart would be found in 8 of 10 such"
            " comparisons."
        )
    for host, words in list_odd_environments(group):
        yield f"{host} {words}"

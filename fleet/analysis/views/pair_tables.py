"""Tables and lines on the pairs of one benchmark and variant: by relation, the extreme
ones, those at several levels, and by CPU.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.reduce.flags import PAIR_FLAGS
from fleet.analysis.reduce.topology import Layout
from fleet.text import format_count, table

_LISTED = 3  # pairs or CPUs
_FEW_CPUS = 16
_FLAG_TITLE = "*"


def find_flagged_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with a flag of their own; a flag of only some bursts does not
    count.
    """
    has_flag = pairs["flags"].map(_has_pair_flag).astype(bool)
    return pairs[has_flag]


def _has_pair_flag(flags: str) -> bool:
    return not set(flags.split(",")).isdisjoint(PAIR_FLAGS)


def tabulate_relations(relations: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Tabulate the numbers of each relation. One of them is the share of its bursts
    that have a flag. If any pair has a flag of its own, add a column of how many do.

    relations: from `list_relations`, of one benchmark, variant and point. pairs: the
    pairs that these numbers are of.
    """
    flagged = find_flagged_pairs(pairs)
    titles = ["relation", "pairs", "median", "min", "max", "p99", "±95%", "flagged"]
    if len(flagged):
        titles.append(_FLAG_TITLE)
    rows = []
    for row in text.to_records(relations):
        cells = [
            row["relation"],
            str(row["pairs"]),
            *_format_ns(row, "median_ns", "min_ns", "max_ns", "p99_ns"),
            text.format_half_width(row["spread"]),
            text.format_share(row["flagged_share"]),
        ]
        if len(flagged):
            count = (flagged["relation"] == row["relation"]).sum()
            cells.append(str(count))
        rows.append(cells)
    return table(titles, rows, right=range(1, len(titles)))


def _format_ns(row: Mapping[str, Any], *names: str) -> list[str]:
    return [f"{row[name]:.1f}" for name in names]


def explain_relation_table(pairs: pd.DataFrame) -> list[str]:
    """Return the legend of `tabulate_relations`: the relations, then the titles.

    The median, the smallest and the largest are of the relation's pairs. `p99` is that
    of the median pair. `±95%` is the interval of the median, from its scatter between
    rounds. `flagged` is a share of bursts.
    """
    titles = (
        "median, min, max: of pairs; p99: of the median pair; ±95%: of the median, by"
        " rounds; flagged: of bursts"
    )
    if len(find_flagged_pairs(pairs)):
        titles += f"; {_FLAG_TITLE}: pairs with a flag of their own"
    return [text.explain_relations(pairs["relation"].unique()), titles]


def describe_precision(pairs: pd.DataFrame, number: str) -> str:
    """Say how precise the numbers of pairs are, and from how many bursts."""
    few = int(pairs["bursts"].min())
    many = int(pairs["bursts"].max())
    bursts = format_count(few, "burst") if few == many else f"{few} to {many} bursts"
    return f"interval: {_describe_spread(pairs, number)} ({bursts} a pair)"


def _describe_spread(pairs: pd.DataFrame, number: str) -> str:
    """Say how wide the confidence intervals of pairs are, as half-widths: "±0.7%" of a
    single pair, else up to which half-width half of the pairs and all of them are.
    Where there are no intervals, say why.

    number: the column that is shown as the number of a pair. `spread` is half the
    interval of the median only, as a share.
    """
    half_widths = pairs["spread"]
    if number != "median_ns":
        return "none; only medians have one"
    if half_widths.isna().all():
        return "none; it needs at least 2 bursts a pair"
    if len(pairs) == 1:
        return text.format_half_width(half_widths.max())
    return text.describe_half_widths(
        "half the pairs", half_widths.median(), half_widths.max()
    )


class _Extremes(NamedTuple):
    """The extreme pairs of a relation, the most extreme first, each as "3-40 45.9". The
    median is the first field, by which relations are sorted.
    """

    median_ns: float
    relation: str
    fastest: list[str]
    slowest: list[str]


def render_extremes(pairs: pd.DataFrame, number: str, width: int | None) -> str:
    """Render the fastest and slowest pairs, as many as fit, of relations with many
    pairs; empty without any.
    """
    extremes = _list_extremes(pairs, number)
    if not extremes:
        return ""
    for count in range(_LISTED, 0, -1):
        body = _tabulate_extremes(extremes, count)
        if not text.is_too_wide(body, width):
            break
    return body


def _tabulate_extremes(extremes: Sequence[_Extremes], count: int) -> str:
    """Tabulate so many of the fastest and of the slowest pairs of each relation, all
    pairs aligned.
    """
    pairs = list[str]()
    for row in extremes:
        pairs += [*row.fastest, *row.slowest]
    longest = max(map(len, pairs))
    lines = []
    for row in extremes:
        fastest = _join_aligned(row.fastest[:count], longest)
        slowest = _join_aligned(row.slowest[:count], longest)
        lines.append((row.relation, fastest, slowest))
    titles = ("relation", "fastest pairs", "slowest pairs")
    return table(titles, lines)


def _list_extremes(pairs: pd.DataFrame, number: str) -> list[_Extremes]:
    """List the extreme pairs of each relation that has many pairs, the relation with
    the smallest median first. number: the column of `pairs` that is shown.
    """
    extremes = []
    for relation, part in pairs.groupby("relation", sort=False):
        # of so few pairs, all would be named, and some as both fast and slow
        if len(part) <= 2 * _LISTED:
            continue
        ordered = part.sort_values(number, kind="stable")
        backwards = ordered.iloc[::-1]
        extremes.append(
            _Extremes(
                median_ns=part[number].median(),
                relation=str(relation),
                fastest=_format_pairs(ordered.head(_LISTED), number),
                slowest=_format_pairs(backwards.head(_LISTED), number),
            )
        )
    return sorted(extremes)  # by the first field, the median


def _format_pairs(pairs: pd.DataFrame, number: str) -> list[str]:
    """Format each pair with its number, without the point, which the heading has."""
    return [
        f"{row['ping_cpu']}-{row['pong_cpu']} {row[number]:.1f}"
        for row in text.to_records(pairs)
    ]


def _join_aligned(words: Sequence[str], width: int) -> str:
    return "  ".join(word.rjust(width) for word in words)


def describe_burst_levels(pairs: pd.DataFrame) -> list[str]:
    """Describe the pairs of which many bursts are at another level than the pair's
    number, those with the largest share first: "3-17 has two levels: 45.9 ±0.7%, and
    60.1 in 31% of bursts".

    pairs: `median_ns` is the pair's number. `other_ns` is the median of the bursts at
    another level, NaN where these are few; `other_share` is their share.
    """
    switching = pairs[pairs["other_ns"].notna()]
    ordered = switching.sort_values("other_share", ascending=False, kind="stable")
    lines = []
    for row in text.to_records(ordered.head(_LISTED)):
        main = f"{row['median_ns']:.1f} {text.format_half_width(row['spread'])}"
        share = text.format_share(row["other_share"])
        lines.append(
            f"{text.format_pair(row)} has two levels: {main}, and"
            f" {row['other_ns']:.1f} in {share} of bursts"
        )
    if len(switching) > _LISTED:
        more = format_count(len(switching) - _LISTED, "more pair")
        lines.append(f"{more} with bursts at another level (fleet show --json)")
    return lines


def render_cpus(pairs: pd.DataFrame, order: Layout) -> list[str]:
    """Return a summary, a table with a row per CPU, and its legend. Of many CPUs, the
    table has only those furthest from the median.

    pairs: a row for each CPU, which is paired with itself. order: the CPUs as they are
    shown.
    """
    costs = pairs["median_ns"]
    middle = costs.median()
    rows_by_cpu = {row["ping_cpu"]: row for row in text.to_records(pairs)}
    rows = [rows_by_cpu[cpu] for cpu in order.cpus if cpu in rows_by_cpu]
    summary = (
        f"min {costs.min():.1f}, median {middle:.1f}, max {costs.max():.1f} over"
        f" {format_count(len(rows_by_cpu), 'CPU')}"
    )
    if len(rows) > _FEW_CPUS:
        rows.sort(key=lambda row: abs(row["median_ns"] / middle - 1), reverse=True)
        rows = rows[:_LISTED]
        summary += "; furthest from the median:"
    legend = "±95%: within the run; flagged: of bursts"
    return [summary, _tabulate_cpus(rows), legend]


def _tabulate_cpus(rows: Sequence[Mapping[str, Any]]) -> str:
    """Tabulate rows of pairs, each of a CPU with itself."""
    titles = ("cpu", "median", "min", "p99", "±95%", "flagged")
    lines = []
    for row in rows:
        cells = (
            str(row["ping_cpu"]),
            *_format_ns(row, "median_ns", "min_ns", "p99_ns"),
            text.format_half_width(row["spread"]),
            text.format_share(row["flagged_bursts"] / row["bursts"]),
        )
        lines.append(cells)
    return table(titles, lines, right=range(len(titles)))

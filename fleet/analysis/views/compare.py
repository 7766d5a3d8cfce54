"""Text, JSON and CSV of `fleet compare`. The report also uses the headlines and
rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.verdicts import Verdict
from fleet.analysis.reduce.cells import are_pairs
from fleet.analysis.reduce.host_numbers import is_memory_level
from fleet.analysis.views.fields import select_fields
from fleet.analysis.views.headlines import (
    NAMES_LENGTH,
    group_by_sides,
    is_finding,
    render_headline,
    render_headlines_by_sides,
)
from fleet.analysis.views.warnings import render_warnings
from fleet.hostnames import fold_names, join_names
from fleet.model import Descriptions, View
from fleet.text import format_command, format_count, one_line, table

COLUMNS = (
    "benchmark",
    "relation",
    "pairs",
    "A",
    "B",
    "change",
    "95 % interval",
    "verdict",
)
# The fields of each result that its JSON has.
_FIELDS = "a b unit threshold relations pairs levels unlike environment caveats fleet"
_RELATIONS_LISTED = 20
_PAIRS_LISTED = 10
_LEVELS_LISTED = 3
# whether it is between the sides, its name, the values in A and B
_Difference = tuple[bool, str, str, str]


def render_comparisons(
    comparisons: Sequence[Comparison], width: int | None = None
) -> str:
    """Render for people: the answer, the comparisons (most findings first), the legend
    and the warnings.
    """
    ordered = sorted(
        comparisons, key=lambda comparison: -int(is_finding(comparison.relations).sum())
    )
    several = len(ordered) > 1
    tables = [
        comparison.environment[["between", "what", "a", "b"]] for comparison in ordered
    ]
    differences = [[*rows.itertuples(index=False, name=None)] for rows in tables]
    common = set.intersection(*map(set, differences)) if several else set()
    parts = [
        "\n\n".join(
            _render_comparison(
                comparison, [item for item in own if item not in common], width
            )
        )
        for comparison, own in zip(ordered, differences, strict=True)
    ]
    if several:
        shared = [item for item in differences[0] if item in common]
        environment = _render_environment(
            shared, width, title_end=", on each host alike"
        )
        parts.insert(
            0, "\n\n".join((*_render_multi_host_summary(ordered, width), *environment))
        )
    judged = [comparison for comparison in ordered if comparison.has_verdict]
    others = [comparison for comparison in ordered if not comparison.has_verdict]
    legend = [_render_legend(judged), _render_legend(others)]
    if several and any(len(comparison.fleet) for comparison in ordered):
        legend.append(
            "All hosts: the mean of the hosts' changes, by Student's t; all: what all"
            " hosts and relations have in common in a run, taken out of each change."
        )
    names_by_caveat: dict[str, list[str]] = {}
    for comparison in ordered:
        for caveat in comparison.caveats:
            names_by_caveat.setdefault(caveat, []).append(comparison.b.name)
    caveats = [  # one about all comparisons needs no names
        (
            caveat
            if len(names) == len(ordered)
            else f"{join_names(names, NAMES_LENGTH)}: {caveat}"
        )
        for caveat, names in names_by_caveat.items()
    ]
    ends = ["\n".join(filter(None, legend)), render_warnings(caveats)]
    return "\n\n".join(("\n\n\n".join(parts), *filter(None, ends)))


def comparisons_as_json(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons as JSON: shares as fractions, one-way latencies in ns, null
    where unknown.
    """
    rows = select_fields(comparisons, _FIELDS)
    for row in rows:
        for letter, side in (("a", row["a"]), ("b", row["b"])):
            row[letter] = {
                "name": side.name,
                "hosts": side.hosts,
                "runs": side.runs["run_id"].tolist(),
            }
    return text.format_document("compare", rows)


def comparisons_as_csv(comparisons: Sequence[Comparison]) -> str:
    """Render CSV with a row per comparison and relation, and the names of both
    sides.
    """
    rows = [
        item.relations.assign(a=item.a.name, b=item.b.name, unit=item.unit)
        for item in comparisons
    ]
    return text.format_csv(pd.concat(rows)).rstrip("\n")


def format_not_equivalent(
    comparisons: Sequence[Comparison],
) -> list[tuple[str, tuple[str, ...]]]:
    """Return each relation that is not equivalent, as host or side and cells of
    COLUMNS, findings first.
    """
    groups = group_by_sides(comparisons)
    tables = [
        (f"all {len(group)}", sides[1], group[0].fleet)
        for sides, group in groups.items()
    ]
    tables += [
        (
            comparison.b.hosts[0] if len(group) > 1 else comparison.b.name,
            sides[1],
            comparison.relations,
        )
        for sides, group in groups.items()
        for comparison in group
    ]
    rows = [
        (f"{name}, {side}" if len(groups) > 1 and name != side else name, row)
        for name, side, relations in tables
        for row in text.to_records(relations)
        if row["verdict"] != Verdict.EQUIVALENT
    ]
    rows.sort(key=lambda named: list(Verdict).index(named[1]["verdict"]))
    return [
        (name, _format_relation(row, comparisons[0].descriptions)) for name, row in rows
    ]


def _format_relation(
    row: dict[str, Any], descriptions: Descriptions
) -> tuple[str, ...]:
    """Return the cells of COLUMNS. A row about all hosts has their number as pairs, and
    "-" as A and B.
    """
    change, low, high = text.convert_change(row, descriptions)
    numbers = [row.get("hosts"), "-", "-"]
    if "pairs" in row:
        numbers = [
            row["pairs"],
            *text.format_values(row, ("a_ns", "b_ns"), descriptions),
        ]
    # the headline or a warning gives their reason once
    unexplained = {
        Verdict.EQUIVALENT,
        Verdict.NONE,
    }
    why = "" if row["verdict"] in unexplained else f": {row['why']}"
    names = (text.name_benchmark(row), row["relation"], *map(str, numbers))
    return (
        *names,
        text.format_change(change),
        text.format_interval(low, high),
        f"{row['verdict']}{why}",
    )


def _render_multi_host_summary(
    ordered: Sequence[Comparison], width: int | None
) -> Iterator[str]:
    yield "\n".join(render_headlines_by_sides(ordered))
    if rows := [
        (name, *cells[:2], *cells[3:]) for name, cells in format_not_equivalent(ordered)
    ]:
        titles, drop = ("host", *COLUMNS[:2], *COLUMNS[3:]), ("A", "B", "95 % interval")
        more = len(rows) - _RELATIONS_LISTED
        laid_out = table(
            titles, rows[:_RELATIONS_LISTED], right={3, 4, 5, 6}, width=width, drop=drop
        )
        yield laid_out + (f"\n{more} more below" if more > 0 else "")
    for (a, b), group in group_by_sides(ordered).items():
        if len(group[0].fleet):
            heads = (
                "benchmark",
                "relation",
                "hosts",
                "change",
                "95 % interval",
                "verdict",
            )
            cells = (
                _format_relation(row, group[0].descriptions)
                for row in text.to_records(group[0].fleet)
            )
            laid_out = table(
                heads,
                [(*row[:3], *row[5:]) for row in cells],
                right={2, 3, 4},
                width=width,
            )
            yield f"{one_line(f'All hosts, {b} against {a}')}\n{laid_out}"


def _render_comparison(
    comparison: Comparison, differences: Sequence[_Difference], width: int | None
) -> Iterator[str]:
    head = [render_headline(comparison)]
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        when = text.format_span(
            side.runs["started_utc"].min(), side.runs["started_utc"].max()
        )
        hosts = side.hosts[0] if len(side.hosts) == 1 else f"{len(side.hosts)} hosts"
        runs = format_count(len(side.runs), "run")
        head.append(one_line(f"  {letter}  {side.name}: {runs} of {hosts}, {when} UTC"))
    yield "\n".join(head)
    if len(comparison.unlike):
        yield _render_unlike_variants(comparison, width)
    elif comparison.relations.empty:
        yield (
            "Nothing to compare: the sides have no benchmark, variant and relation in"
            " common."
        )
    if len(comparison.relations):
        yield _render_relations(comparison, width)
    if (
        comparison.has_pair_tests
        and (comparison.pairs["verdict"] == Verdict.CHANGED).any()
    ):
        yield "\n".join(_render_changed_pairs(comparison))
    if len(comparison.levels):
        yield _render_burst_levels(comparison.levels, width, comparison.descriptions)
    yield from _render_environment(differences, width)


def _render_unlike_variants(comparison: Comparison, width: int | None) -> str:
    """Render the numbers of sides that used different variants, and a command to make
    them comparable.
    """
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in text.to_records(comparison.unlike):
        (number,) = text.format_values(row, ("ns",), comparison.descriptions)
        sides = rows.setdefault((row["benchmark"], row["relation"]), {"a": [], "b": []})
        sides[row["side"]].append(f"{number} {row['variant']}")
    lines = [
        (*key, *(", ".join(numbers) or "-" for numbers in sides.values()))
        for key, sides in rows.items()
    ]
    benchmarks = dict.fromkeys(comparison.unlike["benchmark"])
    units = text.describe_units(benchmarks, comparison.descriptions)
    parts = [
        f"Measured with different instructions, so without a verdict ({units})",
        table(("benchmark", "relation", "A", "B"), lines, right={2, 3}, width=width),
    ]
    # Every benchmark but those of the clock itself has the variant c11 on every
    # architecture.
    again = [
        name
        for name in benchmarks
        if comparison.descriptions[name].view is not View.CPUS
    ]
    if again:
        hosts = fold_names((*comparison.a.hosts, *comparison.b.hosts))
        plan = ("-b", ",".join(again), "--variant", "c11")
        command = format_command("fleet", "run", *hosts, *plan)
        parts.append(f"To compare them: {command}")
    return "\n".join(parts)


def _render_environment(
    differences: Sequence[_Difference], width: int | None, title_end: str = ""
) -> Iterator[str]:
    """Yield the facts that differ between the sides, then within one, as tables, or as
    lists if too wide.
    """
    for between, title in (
        (True, "What else differs"),
        (False, "What varies within a side"),
    ):
        if rows := [row[1:] for row in differences if row[0] is between]:
            listed = table(("", "A", "B"), rows)
            if text.is_too_wide(text.indent_lines(listed), width):
                listed = "\n".join(f"{name}\n  A  {a}\n  B  {b}" for name, a, b in rows)
            yield f"{title}{title_end}\n{text.indent_lines(listed)}"


def _render_relations(comparison: Comparison, width: int | None) -> str:
    """Render a table of relations, findings first; without verdicts, with the intervals
    within a run.
    """
    rows = comparison.relations
    if comparison.has_verdict:
        is_first = is_finding(rows)
        records = text.to_records(pd.concat([rows[is_first], rows[~is_first]]))
        lines = [_format_relation(row, comparison.descriptions) for row in records]
        return table(
            COLUMNS, lines, right={2, 3, 4, 5, 6}, width=width, drop=("pairs",)
        )
    titles = (*COLUMNS[:5], "difference", "within A", "within B")
    lines = []
    for row in text.to_records(rows):
        within = (text.format_half_width(row[f"{side}_within"]) for side in "ab")
        lines.append((*_format_relation(row, comparison.descriptions)[:6], *within))
    return table(titles, lines, right=set(range(2, 8)))


def _render_legend(comparisons: Sequence[Comparison]) -> str:
    """Explain the words of tables; "" without relations. comparisons: all with
    verdicts, or all without.
    """
    rows = (
        pd.concat([comparison.relations for comparison in comparisons])
        if comparisons
        else pd.DataFrame()
    )
    if rows.empty:
        return ""
    units = "s or ".join(dict.fromkeys(comparison.unit for comparison in comparisons))
    if not comparisons[0].has_verdict:
        how = (
            ". Within A, within B: ±95% of the median pair, within a run. Two runs of"
            " an unchanged machine differ by more, so it is not the error of the"
            " difference."
        )
    else:
        shares = " or ".join(
            dict.fromkeys(
                f"±{comparison.threshold * 100:g}%" for comparison in comparisons
            )
        )
        how = (
            f". Interval: of the change, from the variation between {units}s."
            f" Threshold: {shares}."
        )
        how += explain_scatter(rows)
        if (rows["verdict"] == Verdict.AT_ANOTHER_LEVEL).any():
            how += (
                " At another level: most runs of the sides are, which may be chance;"
                " more runs tell."
            )
        if rows["why"].str.contains("all hosts").any():
            how += (
                " Than all hosts: beside the median change of all measured together,"
                " which is taken out."
            )
        if rows["why"].str.contains("would show").any():
            how += " Would show: in 8 of 10 comparisons."
    shared = rows["relation"].where(
        are_pairs(rows["relation"]), rows["relation"].str.partition(" ")[0]
    )
    words = [text.explain_relations(shared)]
    if rows["relation"].map(is_memory_level).any():
        words.append("L1, L2, LLC, mem: levels of memory")
    if rows["relation"].str.contains(r" x(?:[2-9]|\d\d+)$").any():
        words.append("x2: by two threads at once")
    sides = text.explain_a_and_b(rows["benchmark"], units, comparisons[0].descriptions)
    return "\n".join(
        filter(None, ("; ".join(filter(None, words)), f"A, B: {sides}{how}"))
    )


def explain_scatter(rows: pd.DataFrame) -> str:
    """Say how far each relation's scatter is moderated by that of all relations; return
    "" if none is.
    """
    shared = rows[rows["borrowed"] > 0]
    if shared.empty:
        return ""
    freedom = f"{shared['borrowed'].median():.0f} further degrees of freedom"
    advises = rows["why"].str.contains("about").any()
    other = ", so another command may name other numbers of runs" if advises else ""
    return (
        f" Scatter: of each relation, moderated by that of all {len(shared)}"
        f" ({freedom}){other}."
    )


def _render_changed_pairs(comparison: Comparison) -> Iterator[str]:
    """Yield how many pairs changed, then a table of those that changed least like their
    relation.
    """
    keys = ["benchmark", "variant", "relation"]
    usual = comparison.relations[[*keys, "ratio"]].rename(columns={"ratio": "usual"})
    changed = comparison.pairs[comparison.pairs["verdict"] == Verdict.CHANGED].merge(
        usual, on=keys
    )
    changed["apart"] = np.abs(np.log(changed["ratio"] / changed["usual"]))
    unlike = changed[changed["apart"] > np.log1p(comparison.threshold)]
    yield (
        f"Pairs: {len(changed)} of {len(comparison.pairs)} changed by more than "
        f"{comparison.threshold * 100:g}% (at most one in twenty of these by chance), "
        f"{len(unlike) or 'none'} of them unlike their relation"
    )
    rows = []
    for row in text.to_records(
        unlike.sort_values("apart", ascending=False).head(_PAIRS_LISTED)
    ):
        sides = text.format_values(row, ("a_ns", "b_ns"), comparison.descriptions)
        changes = (f"{row[name] - 1:+.1%}" for name in ("ratio", "usual"))
        rows.append(
            (
                text.name_benchmark(row),
                text.format_pair(row),
                row["relation"],
                *sides,
                *changes,
            )
        )
    if rows:
        titles = ("benchmark", "pair", "relation", "A", "B", "change", "its relation")
        yield text.indent_lines(table(titles, rows, right={3, 4, 5, 6}))
    if len(unlike) > _PAIRS_LISTED:
        yield f"  {len(unlike) - _PAIRS_LISTED} more with --json"


def _render_burst_levels(
    levels: pd.DataFrame, width: int | None, descriptions: Descriptions
) -> str:
    """Render a table of the pairs with most bursts at another level. levels: from
    `compare_burst_levels`.
    """
    rows = []
    for row in text.to_records(levels.head(_LEVELS_LISTED)):
        numbers = text.format_values(
            row, ("a_ns", "b_ns", "a_other_ns", "b_other_ns"), descriptions
        )
        shares = (text.format_share(row[name]) for name in ("a_share", "b_share"))
        interval = text.format_interval(row["moved_low"], row["moved_high"], 0)
        ends = (*shares, text.format_change(row["moved"], 0), interval)
        rows.append((text.name_benchmark(row), text.format_pair(row), *numbers, *ends))
    names = "benchmark pair A B other_A other_B share_A share_B B_-_A its_interval"
    titles = [name.replace("_", " ") for name in names.split()]
    room = None if width is None else width - 2
    listed = table(
        titles,
        rows,
        right=set(range(2, 10)),
        width=room,
        drop=("its interval", "A", "B"),
    )
    more = len(levels) - _LEVELS_LISTED
    return (
        "Bursts at another level, not judged (other: their median; share: of the"
        " bursts)\n"
        + text.indent_lines(listed)
        + (f"\n  {format_count(more, 'more pair')} with --json" if more > 0 else "")
    )

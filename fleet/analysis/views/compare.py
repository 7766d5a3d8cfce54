"""The text, JSON and CSV of `fleet compare`; the report shows the headlines and relations too."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.false_alarms import SHARES
from fleet.analysis.compare.verdicts import Verdict
from fleet.analysis.reduce.comparison_rows import are_pairs, is_level
from fleet.analysis.views.warnings import render_warnings
from fleet.hostnames import fold_names, join_names
from fleet.model import Descriptions, View
from fleet.text import format_count, one_line, table

COLUMNS = ("benchmark", "relation", "pairs", "A", "B", "change", "95 % interval", "verdict")
_NAMES_LENGTH = 60  # characters of host names in a sentence
_RELATIONS_LISTED, _PAIRS_LISTED, _LEVELS_LISTED = 20, 10, 3
_Difference = tuple[bool, str, str, str]  # whether it is between the sides, its name, the values in A and B
_OPEN = (Verdict.EQUIVALENT, Verdict.CANNOT_TELL, Verdict.NONE)  # a change may hide between several levels


def render_comparisons(comparisons: Sequence[Comparison], width: int | None = None) -> str:
    """Render for people: the answer, the comparisons (most findings first), the legend and the warnings."""
    ordered = sorted(comparisons, key=lambda comparison: -int(is_finding(comparison.relations).sum()))
    several = len(ordered) > 1
    differences = [_list_differences(comparison) for comparison in ordered]
    common = set.intersection(*map(set, differences)) if several else set()
    parts = [
        "\n\n".join(_render_comparison(comparison, [item for item in own if item not in common], width))
        for comparison, own in zip(ordered, differences, strict=True)
    ]
    if several:
        shared = [item for item in differences[0] if item in common]
        environment = _render_environment(shared, width, title_end=", on each host alike")
        parts.insert(0, "\n\n".join((*_render_answer(ordered, width), *environment)))
    legend = [
        _render_legend([comparison for comparison in ordered if comparison.has_verdict is judged])
        for judged in (True, False)
    ]
    if several and any(len(comparison.fleet) for comparison in ordered):
        legend.append(
            "All hosts: the mean of the hosts' changes, by Student's t; all: what all hosts and relations "
            "have in common in a run, taken out of each change."
        )
    ends = ["\n".join(filter(None, legend)), render_warnings([*_merge_caveats(ordered)])]
    return "\n\n".join(("\n\n\n".join(parts), *filter(None, ends)))


def comparisons_as_json(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons; shares as fractions, one-way latencies in ns, null where unknown."""
    names = ("unit", "threshold", "relations", "pairs", "levels", "unlike", "environment", "caveats", "fleet")
    rows = []
    for comparison in comparisons:
        sides = {
            letter: {"name": side.name, "hosts": side.hosts, "runs": side.runs["run_id"].tolist()}
            for letter, side in (("a", comparison.a), ("b", comparison.b))
        }
        rows.append(sides | {name: getattr(comparison, name) for name in names})
    return text.format_document("compare", rows)


def comparisons_as_csv(comparisons: Sequence[Comparison]) -> str:
    """Render one row per comparison and relation, with the names of both sides."""
    rows = [
        comparison.relations.assign(a=comparison.a.name, b=comparison.b.name, unit=comparison.unit)
        for comparison in comparisons
    ]
    return text.format_csv(pd.concat(rows)).rstrip("\n")


def render_false_alarms(alarms: pd.DataFrame, width: int | None = None) -> str:
    """Render the share of false alarms by order of the runs, from `count_false_alarms`, and a legend."""
    titles = ("host", "benchmark", "order", "runs", "splits", "interval", "changed", "pairs")
    rows = [
        (
            *(row["host_id"], text.name_kind(row), row["order"], str(row["runs"]), str(row["splits"])),
            *(text.format_share(row[name]) for name in SHARES),
        )
        for row in text.to_records(alarms)
    ]
    shares = [
        f"{text.format_share(np.average(part['verdict_share'], weights=part['splits']))} ({order})"
        for order, part in alarms.groupby("order", sort=False)
    ]
    lines = (
        f"Nothing changed between these runs. False alarms: {', '.join(shares)}.",
        "",
        table(titles, rows, right=set(range(3, 8)), width=width, drop=("splits",)),
        "order: interleaved is A B B A, blocks is all of A before all of B; runs: a side",
        "interval: excludes no change (expected: 5%); changed: by its verdict; pairs: p < 0.05",
        "Splits share runs, so the shares are approximate.",
    )
    return "\n".join(lines)


def is_finding(rows: pd.DataFrame) -> pd.Series:
    """Return which rows changed or are at another level."""
    return rows["verdict"].isin((Verdict.CHANGED, Verdict.AT_ANOTHER_LEVEL))


def render_headlines(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a sentence for each two sides: how many relations changed, on which hosts."""
    return [
        render_headline(group[0]) if len(group) == 1 else _summarize_hosts(sides, group)
        for sides, group in _group_by_sides(comparisons).items()
    ]


def render_headline(comparison: Comparison) -> str:
    """Say how many relations of a comparison changed, and by how much at most."""
    a, b = comparison.a.name, comparison.b.name
    names = f"{b} against {a}" if len(a + b) <= _NAMES_LENGTH else "B against A"
    return one_line(f"{names}: {_summarize_relations(comparison)}")


def format_open_relations(comparisons: Sequence[Comparison]) -> list[tuple[str, tuple[str, ...]]]:
    """Return host or side and COLUMNS of each relation that is not equivalent.

    Findings come first; within a verdict, changes over all hosts.
    """
    groups = _group_by_sides(comparisons)
    tables = [(f"all {len(group)}", sides[1], group[0].fleet) for sides, group in groups.items()]
    tables += [
        (comparison.b.hosts[0] if len(group) > 1 else comparison.b.name, sides[1], comparison.relations)
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
    return [(name, _format_relation(row, comparisons[0].descriptions)) for name, row in rows]


def _group_by_sides(comparisons: Sequence[Comparison]) -> dict[tuple[str, str], list[Comparison]]:
    """Group comparisons by the names of their sides, which host-by-host comparisons share."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault(comparison.sides, []).append(comparison)
    return groups


def _format_relation(row: dict[str, Any], descriptions: Descriptions) -> tuple[str, ...]:
    """Return the cells of COLUMNS; in a row of all hosts their number as pairs, and no A and B."""
    change, low, high = text.convert_change(row, descriptions)
    numbers = (
        [row["pairs"], *text.format_columns(row, ("a_ns", "b_ns"), descriptions)]
        if "pairs" in row
        else [row["hosts"], "-", "-"]
    )
    unexplained = {Verdict.EQUIVALENT, Verdict.NONE}  # the headline or a warning gives their reason once
    why = "" if row["verdict"] in unexplained else f": {row['why']}"
    names = (text.name_kind(row), row["relation"], *map(str, numbers))
    return (*names, text.format_change(change), text.format_interval(low, high), f"{row['verdict']}{why}")


def _summarize_hosts(sides: tuple[str, str], group: Sequence[Comparison]) -> str:
    relations = pd.concat([item.relations.assign(host=item.b.hosts[0]) for item in group])
    hosts = relations.groupby("verdict", sort=False)["host"].unique()
    notes = {str(verdict): join_names(names, _NAMES_LENGTH) for verdict, names in hosts.items()}
    parts = _count_verdicts(text.to_records(relations), group[0], notes)
    return one_line(f"{sides[1]} against {sides[0]}, {len(group)} hosts: {', '.join(parts)}")


def _summarize_relations(comparison: Comparison) -> str:
    if comparison.relations.empty:
        unlike = ", ".join(comparison.unlike["benchmark"].unique())
        return (
            f"no verdict: measured with different instructions: {unlike}" if unlike else "nothing in common"
        )
    rows, descriptions = text.to_records(comparison.relations), comparison.descriptions
    if not comparison.has_verdict:
        return ", ".join(("no verdict, too few runs", *_describe_split_relations(rows, descriptions)))
    changes = [
        (text.convert_change(row, descriptions)[0], row["relation"])
        for row in rows
        if row["verdict"] == Verdict.CHANGED
    ]
    change, relation = max(changes, key=lambda pair: abs(pair[0]), default=(0.0, ""))
    notes = {str(Verdict.CHANGED): f"at most {text.format_change(change)}, {relation}"}
    return ", ".join(_count_verdicts(rows, comparison, notes))


def _count_verdicts(
    rows: Sequence[dict[str, Any]], comparison: Comparison, notes: Mapping[str, str]
) -> list[str]:
    """Count the rows, those of each verdict with its note, and those whose runs are at several levels."""
    descriptions = comparison.descriptions
    notes = {
        **notes,
        Verdict.EQUIVALENT: f"within ±{comparison.threshold * 100:g}%",
        Verdict.AT_ANOTHER_LEVEL: _describe_widest_levels(rows, descriptions, Verdict.AT_ANOTHER_LEVEL),
    }
    counts = Counter(row["verdict"] for row in rows)
    verdicts = [
        f"{counts[verdict]} {verdict}" + (f" ({notes[verdict]})" if verdict in notes else "")
        for verdict in Verdict
        if verdict in counts
    ]
    split = _describe_split_relations(rows, descriptions)
    return [format_count(len(rows), "relation"), *verdicts, *split]


def _describe_widest_levels(
    rows: Sequence[dict[str, Any]], descriptions: Descriptions, *verdicts: Verdict
) -> str:
    """Name the levels of the row whose sides are furthest apart, and how many runs would tell."""
    several = [row for row in rows if row["verdict"] in verdicts and row["levels"] > 1]
    if not several:
        return ""
    widest = max(several, key=lambda row: abs(np.log(row["b_ns"] / row["a_ns"])))
    a, b = text.format_columns(widest, ("a_ns", "b_ns"), descriptions)
    host = f"{widest['host']} " if "host" in widest else ""
    counts = [row["more"] for row in several if not text.is_none(row["more"])]
    needed = f"about {max(counts):.0f} runs" if counts else "more runs than 200"
    return f"{host}{widest['relation']}: most of A at {a}, most of B at {b}; {needed} a side would tell"


def _describe_split_relations(rows: Sequence[dict[str, Any]], descriptions: Descriptions) -> list[str]:
    """Say how many rows without a finding have runs at several levels."""
    count = sum(row["verdict"] in _OPEN and row["levels"] > 1 for row in rows)
    widest = _describe_widest_levels(rows, descriptions, *_OPEN)
    return [f"{count} of them at several levels ({widest})"] if count else []


def _render_answer(ordered: Sequence[Comparison], width: int | None) -> Iterator[str]:
    yield "\n".join(render_headlines(ordered))
    if rows := [(name, *cells[:2], *cells[3:]) for name, cells in format_open_relations(ordered)]:
        titles, drop = ("host", *COLUMNS[:2], *COLUMNS[3:]), ("A", "B", "95 % interval")
        more = len(rows) - _RELATIONS_LISTED
        laid_out = table(titles, rows[:_RELATIONS_LISTED], right={3, 4, 5, 6}, width=width, drop=drop)
        yield laid_out + (f"\n{more} more below" if more > 0 else "")
    for (a, b), group in _group_by_sides(ordered).items():
        if len(group[0].fleet):
            heads = ("benchmark", "relation", "hosts", "change", "95 % interval", "verdict")
            cells = (_format_relation(row, group[0].descriptions) for row in text.to_records(group[0].fleet))
            laid_out = table(heads, [(*row[:3], *row[5:]) for row in cells], right={2, 3, 4}, width=width)
            yield f"{one_line(f'All hosts, {b} against {a}')}\n{laid_out}"


def _merge_caveats(ordered: Sequence[Comparison]) -> Iterator[str]:
    """Yield each caveat once, after the names of its comparisons unless it is about all."""
    names_by_caveat: dict[str, list[str]] = {}
    for comparison in ordered:
        for caveat in comparison.caveats:
            names_by_caveat.setdefault(caveat, []).append(comparison.b.name)
    for caveat, names in names_by_caveat.items():
        yield caveat if len(names) == len(ordered) else f"{join_names(names, _NAMES_LENGTH)}: {caveat}"


def _list_differences(comparison: Comparison) -> list[_Difference]:
    return [
        (bool(row["between"]), row["what"], str(row["a"]), str(row["b"]))
        for row in text.to_records(comparison.environment)
    ]


def _render_comparison(
    comparison: Comparison, differences: Sequence[_Difference], width: int | None
) -> Iterator[str]:
    head = [render_headline(comparison)]
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        when = text.format_span(side.runs["started_utc"].min(), side.runs["started_utc"].max())
        hosts = side.hosts[0] if len(side.hosts) == 1 else f"{len(side.hosts)} hosts"
        runs = format_count(len(side.runs), "run")
        head.append(one_line(f"  {letter}  {side.name}: {runs} of {hosts}, {when} UTC"))
    yield "\n".join(head)
    if len(comparison.unlike):
        yield _render_unlike_variants(comparison, width)
    elif comparison.relations.empty:
        yield "Nothing to compare: the sides have no benchmark, variant and relation in common."
    if len(comparison.relations):
        yield _render_verdicts(comparison, width) if comparison.has_verdict else _render_numbers(comparison)
    if comparison.reports_pairs and (comparison.pairs["verdict"] == Verdict.CHANGED).any():
        yield "\n".join(_render_changed_pairs(comparison))
    if len(comparison.levels):
        yield _render_burst_levels(comparison.levels, width, comparison.descriptions)
    yield from _render_environment(differences, width)


def _render_unlike_variants(comparison: Comparison, width: int | None) -> str:
    """Show both sides' numbers of different variants, and the command that makes them comparable."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in text.to_records(comparison.unlike):
        (number,) = text.format_columns(row, ("ns",), comparison.descriptions)
        sides = rows.setdefault((row["benchmark"], row["relation"]), {"a": [], "b": []})
        sides[row["side"]].append(f"{number} {row['variant']}")
    lines = [
        (*names, *(", ".join(numbers) or "-" for numbers in sides.values())) for names, sides in rows.items()
    ]
    benchmarks = dict.fromkeys(comparison.unlike["benchmark"])
    units = text.describe_units(benchmarks, comparison.descriptions)
    parts = [
        f"Measured with different instructions, so without a verdict ({units})",
        table(("benchmark", "relation", "A", "B"), lines, right={2, 3}, width=width),
    ]
    # Every benchmark but those of the clock itself has the variant c11 on every architecture.
    again = [name for name in benchmarks if comparison.descriptions[name].view is not View.CPUS]
    if again:
        hosts = " ".join(fold_names((*comparison.a.hosts, *comparison.b.hosts)))
        parts.append(one_line(f"To compare them: fleet run {hosts} -b {','.join(again)} --variant c11"))
    return "\n".join(parts)


def _render_environment(
    differences: Sequence[_Difference], width: int | None, title_end: str = ""
) -> Iterator[str]:
    """Yield differences besides latencies as tables, or as lists if too wide."""
    for between, title in ((True, "What else differs"), (False, "What varies within a side")):
        if rows := [row[1:] for row in differences if row[0] is between]:
            listed = table(("", "A", "B"), rows)
            if text.is_too_wide(text.indent_lines(listed), width):
                listed = "\n".join(f"{name}\n  A  {a}\n  B  {b}" for name, a, b in rows)
            yield f"{title}{title_end}\n{text.indent_lines(listed)}"


def _render_verdicts(comparison: Comparison, width: int | None) -> str:
    is_first = is_finding(comparison.relations)
    rows = pd.concat([comparison.relations[is_first], comparison.relations[~is_first]])
    lines = (_format_relation(row, comparison.descriptions) for row in text.to_records(rows))
    return table(COLUMNS, lines, right={2, 3, 4, 5, 6}, width=width, drop=("pairs",))


def _render_numbers(comparison: Comparison) -> str:
    """Render the relations of a comparison without verdicts."""
    titles = ("benchmark", "relation", "pairs", "A", "B", "difference", "within A", "within B")
    rows = []
    for row in text.to_records(comparison.relations):
        *cells, change, _, _ = _format_relation(row, comparison.descriptions)
        rows.append((*cells, change, *(text.format_half_width(row[f"{side}_within"]) for side in "ab")))
    return table(titles, rows, right=set(range(2, 8)))


def _render_legend(comparisons: Sequence[Comparison]) -> str:
    """Explain the words of the tables; comparisons: all with verdicts, or all without."""
    rows = pd.concat([comparison.relations for comparison in comparisons]) if comparisons else pd.DataFrame()
    if rows.empty:
        return ""
    units = "s or ".join(dict.fromkeys(comparison.unit for comparison in comparisons))
    if not comparisons[0].has_verdict:
        how = (
            ". Within A, within B: ±95% of the median pair, within a run. Two runs of an unchanged "
            "machine differ by more, so it is not the error of the difference."
        )
    else:
        shares = " or ".join(dict.fromkeys(f"±{comparison.threshold * 100:g}%" for comparison in comparisons))
        how = f". Interval: of the change, from the variation between {units}s. Threshold: {shares}."
        how += explain_scatter(rows)
        if (rows["verdict"] == Verdict.AT_ANOTHER_LEVEL).any():
            how += " At another level: most runs of the sides are, which may be chance; more runs tell."
        if rows["why"].str.contains("all hosts").any():
            how += " Than all hosts: beside the median change of all measured together, which is taken out."
        if rows["why"].str.contains("would show").any():
            how += " Would show: in 8 of 10 comparisons."
    shared = rows["relation"].where(are_pairs(rows["relation"]), rows["relation"].str.partition(" ")[0])
    words = [text.explain_relations(shared)]
    if rows["relation"].map(is_level).any():
        words.append("L1, L2, LLC, mem: levels of memory")
    if rows["relation"].str.contains(r" x(?:[2-9]|\d\d+)$").any():
        words.append("x2: by two threads at once")
    sides = text.describe_sides(rows["benchmark"], units, comparisons[0].descriptions)
    return "\n".join(filter(None, ("; ".join(filter(None, words)), f"A, B: {sides}{how}")))


def explain_scatter(rows: pd.DataFrame) -> str:
    """Say how much of their scatter the relations of a command share; empty where each has its own."""
    shared = rows[rows["borrowed"] > 0]
    if shared.empty:
        return ""
    freedom = f"{shared['borrowed'].median():.0f} further degrees of freedom"
    advises = rows["why"].str.contains("about").any()
    other = ", so another command may name other numbers of runs" if advises else ""
    return f" Scatter: of each relation, moderated by that of all {len(shared)} ({freedom}){other}."


def _render_changed_pairs(comparison: Comparison) -> Iterator[str]:
    """Say how many pairs changed, and list those that changed unlike their relation, most different first."""
    kind = ["benchmark", "variant", "relation"]
    usual = comparison.relations[[*kind, "ratio"]].rename(columns={"ratio": "usual"})
    changed = comparison.pairs[comparison.pairs["verdict"] == Verdict.CHANGED].merge(usual, on=kind)
    changed["apart"] = np.abs(np.log(changed["ratio"] / changed["usual"]))
    unlike = changed[changed["apart"] > np.log1p(comparison.threshold)]
    yield (
        f"Pairs: {len(changed)} of {len(comparison.pairs)} changed by more than "
        f"{comparison.threshold * 100:g}% (at most one in twenty of these by chance), "
        f"{len(unlike) or 'none'} of them unlike their relation"
    )
    rows = []
    for row in text.to_records(unlike.sort_values("apart", ascending=False).head(_PAIRS_LISTED)):
        sides = text.format_columns(row, ("a_ns", "b_ns"), comparison.descriptions)
        changes = (f"{row[name] - 1:+.1%}" for name in ("ratio", "usual"))
        rows.append((text.name_kind(row), text.format_pair(row), row["relation"], *sides, *changes))
    if rows:
        titles = ("benchmark", "pair", "relation", "A", "B", "change", "its relation")
        yield text.indent_lines(table(titles, rows, right={3, 4, 5, 6}))
    if len(unlike) > _PAIRS_LISTED:
        yield f"  {len(unlike) - _PAIRS_LISTED} more with --json"


def _render_burst_levels(levels: pd.DataFrame, width: int | None, descriptions: Descriptions) -> str:
    """List the pairs with most bursts at another level, as `compare_burst_levels` returns them."""
    rows = []
    for row in text.to_records(levels.head(_LEVELS_LISTED)):
        numbers = text.format_columns(row, ("a_ns", "b_ns", "a_other_ns", "b_other_ns"), descriptions)
        shares = (text.format_share(row[name]) for name in ("a_share", "b_share"))
        interval = text.format_interval(row["moved_low"], row["moved_high"], 0)
        ends = (*shares, text.format_change(row["moved"], 0), interval)
        rows.append((text.name_kind(row), text.format_pair(row), *numbers, *ends))
    names = "benchmark pair A B other_A other_B share_A share_B B_-_A its_interval"
    titles = [name.replace("_", " ") for name in names.split()]
    room = None if width is None else width - 2
    listed = table(titles, rows, right=set(range(2, 10)), width=room, drop=("its interval", "A", "B"))
    more = len(levels) - _LEVELS_LISTED
    return (
        "Bursts at another level, not judged (other: their median; share: of the bursts)\n"
        + text.indent_lines(listed)
        + (f"\n  {format_count(more, 'more pair')} with --json" if more > 0 else "")
    )

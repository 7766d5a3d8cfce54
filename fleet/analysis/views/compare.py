"""What `fleet compare` prints: as text for people, as JSON and CSV for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.false_alarms import SHARES
from fleet.analysis.compare.sides import ComparisonSide
from fleet.analysis.compare.verdicts import Verdict
from fleet.analysis.reduce.cells import are_pairs, is_level
from fleet.analysis.views import answer
from fleet.analysis.views.warnings import render_warnings
from fleet.hostnames import join_names
from fleet.model import SHIPPED, Descriptions
from fleet.text import counted, one_line, table

_Differing = tuple[bool, str, str, str]  # whether between the sides, the name, the values in A and B
PAIRS_LISTED = 10
ROWS_LISTED = 20  # of the answer


def render_comparisons(comparisons: Sequence[Comparison], width: int | None = None) -> str:
    """For people: the answer, each comparison, those with most changes first, then legends and warnings."""
    ordered = sorted(comparisons, key=lambda one: -int(answer.is_finding(one.relations).sum()))
    several = len(ordered) > 1
    alike = set.intersection(*(set(_differing(one)) for one in ordered)) if several else set()
    parts = ["\n\n".join(_parts(one, alike, width)) for one in ordered]
    if several:
        environment = _environment(ordered[0], alike, width, of_all=True)
        parts.insert(0, "\n\n".join((*_answer(ordered, width), *environment)))
    legend = [_legend([one for one in ordered if one.judged is judged]) for judged in (True, False)]
    if several and any(len(one.fleet) for one in ordered):
        legend.append(
            "All hosts: the mean of the hosts' changes, by Student's t; all: what all hosts and relations "
            "have in common in a run, taken out of each change."
        )
    ends = ["\n".join(filter(None, legend)), render_warnings([*_caveats(ordered)])]
    return "\n\n".join(("\n\n\n".join(parts), *filter(None, ends)))


def false_alarms_text(found: pd.DataFrame, width: int | None = None) -> str:
    """The share of false alarms by the order of the runs, the table, and a legend. width: of the terminal."""
    titles = ("host", "benchmark", "order", "runs", "splits", "interval", "changed", "pairs")
    rows = []
    for row in text.records(found):
        counts = (str(row["runs"]), str(row["splits"]), *(text.percent(row[name]) for name in SHARES))
        rows.append((row["host_id"], text.kind_of(row), row["order"], *counts))
    changed = [
        f"{text.percent(np.average(part['verdict_share'], weights=part['splits']))} ({order})"
        for order, part in found.groupby("order", sort=False)
    ]
    return "\n".join(
        (
            f"Nothing changed between these runs. False alarms: {', '.join(changed)}.",
            "",
            table(titles, rows, right=set(range(3, 8)), width=width, drop=("splits",)),
            "order: interleaved is A B B A, blocks is all of A before all of B; runs: a side",
            "interval: excludes no change (expected: 5%); changed: by its verdict; pairs: p < 0.05",
            "Splits share runs, so the shares are approximate.",
        )
    )


def _answer(ordered: Sequence[Comparison], width: int | None) -> Iterator[str]:
    yield "\n".join(answer.render_headlines(ordered))
    if rows := [(name, *cells[:2], *cells[3:]) for name, cells in answer.format_open_relations(ordered)]:
        titles, less = ("host", *answer.COLUMNS[:2], *answer.COLUMNS[3:]), ("A", "B", "95 % interval")
        shown = table(titles, rows[:ROWS_LISTED], right={3, 4, 5, 6}, width=width, drop=less)
        yield shown + f"\n{len(rows) - ROWS_LISTED} more below" * (len(rows) > ROWS_LISTED)
    for sides, group in answer.group_by_sides(ordered).items():
        if len(group[0].fleet):
            yield _fleet(sides, group[0].fleet, width, group[0].descriptions)


def _caveats(ordered: Sequence[Comparison]) -> Iterator[str]:
    """Each caveat once, with the comparisons that it is about where it is not about all."""
    about: dict[str, list[str]] = {}
    for one in ordered:
        for caveat in one.caveats:
            about.setdefault(caveat, []).append(one.b.name)
    for caveat, names in about.items():
        yield caveat if len(names) == len(ordered) else f"{join_names(names, answer.SHORT)}: {caveat}"


def _differing(one: Comparison) -> list[_Differing]:
    return [
        (bool(row["between"]), row["what"], str(row["a"]), str(row["b"]))
        for row in text.records(one.environment)
    ]


def _fleet(
    sides: tuple[str, str], effects: pd.DataFrame, width: int | None, descriptions: Descriptions
) -> str:
    titles = ("benchmark", "relation", "hosts", "change", "95 % interval", "verdict")
    cells = (answer.format_relation(row, descriptions) for row in text.records(effects))
    rows = [(*shown[:3], *shown[5:]) for shown in cells]
    laid_out = table(titles, rows, right={2, 3, 4}, width=width)
    return f"{one_line(f'All hosts, {sides[1]} against {sides[0]}')}\n{laid_out}"


def comparisons_as_json(comparisons: Sequence[Comparison]) -> str:
    """A list of comparisons; shares as fractions, latencies one way in ns, null where unknown."""
    names = ("unit", "threshold", "relations", "pairs", "levels", "environment", "caveats", "fleet")
    sides = ({"a": _side(one.a), "b": _side(one.b)} for one in comparisons)
    found = zip(sides, comparisons, strict=True)
    return text.json_text([side | {name: getattr(one, name) for name in names} for side, one in found])


def comparisons_as_csv(comparisons: Sequence[Comparison]) -> str:
    """One row per comparison and relation, with the two sides' names."""
    rows = [one.relations.assign(a=one.a.name, b=one.b.name, unit=one.unit) for one in comparisons]
    return text.csv_text(pd.concat(rows)).rstrip("\n")


def _parts(one: Comparison, alike: set[_Differing], width: int | None) -> Iterator[str]:
    yield "\n".join(_head(one))
    if one.relations.empty:
        yield "Nothing to compare: the sides have no benchmark, variant and relation in common."
    else:
        yield _verdicts(one, width) if one.judged else _description(one)
    if one.reports_pairs and (one.pairs["verdict"] == Verdict.CHANGED).any():
        yield "\n".join(_pairs(one))
    if len(one.levels):
        yield render_burst_levels(one.levels, width, one.descriptions)
    yield from _environment(one, set(_differing(one)) - alike, width)


def _environment(
    one: Comparison, kept: set[_Differing], width: int | None, *, of_all: bool = False
) -> Iterator[str]:
    """What differs but for the latencies, in tables, or lists if these are wide; only rows `kept`."""
    for between, title in ((True, "What else differs"), (False, "What varies within a side")):
        rows = [row[1:] for row in _differing(one) if row in kept and row[0] is between]
        if rows:
            heading = f"{title}, on each host alike" if of_all else title
            shown = table(("", "A", "B"), rows, right=set())
            if text.is_too_wide(text.indented(shown), width):
                shown = "\n".join(f"{name}\n  A  {a}\n  B  {b}" for name, a, b in rows)
            yield f"{heading}\n{text.indented(shown)}"


def _head(one: Comparison) -> Iterator[str]:
    yield answer.render_headline(one)
    for letter, side in (("A", one.a), ("B", one.b)):
        when = text.span_text(side.runs["started_utc"].min(), side.runs["started_utc"].max())
        hosts = side.hosts[0] if len(side.hosts) == 1 else f"{len(side.hosts)} hosts"
        runs = counted(len(side.runs), "run")
        yield one_line(f"  {letter}  {side.name}: {runs} of {hosts}, {when} UTC")


def _verdicts(one: Comparison, width: int | None) -> str:
    found = answer.is_finding(one.relations)
    rows = pd.concat([one.relations[found], one.relations[~found]])
    lines = (answer.format_relation(row, one.descriptions) for row in text.records(rows))
    return table(answer.COLUMNS, lines, right={2, 3, 4, 5, 6}, width=width, drop=("pairs",))


def _description(one: Comparison) -> str:
    titles = ("benchmark", "relation", "pairs", "A", "B", "difference", "within A", "within B")
    rows = []
    for row in text.records(one.relations):
        halves = (text.within(row[f"{side}_within"]) for side in "ab")
        rows.append(
            (
                *answer.format_relation_sides(row, one.descriptions),
                text.signed(text.change_shown(row, one.descriptions)[0]),
                *halves,
            )
        )
    return table(titles, rows, right=set(range(2, 8)))


def _legend(comparisons: Sequence[Comparison]) -> str:
    """What the words of the tables mean: of comparisons that all have verdicts, or all none."""
    rows = pd.concat([one.relations for one in comparisons]) if comparisons else pd.DataFrame()
    if rows.empty:
        return ""
    units = "s or ".join(dict.fromkeys(one.unit for one in comparisons))
    if not comparisons[0].judged:
        how = (
            ". Within A, within B: ±95% of the median pair, within a run. Two runs of an unchanged "
            "machine differ by more, so it is not the error of the difference."
        )
    else:
        matters = " or ".join(dict.fromkeys(f"±{one.threshold * 100:g}%" for one in comparisons))
        how = f". Interval: of the change, from the variation between {units}s. Threshold: {matters}."
        if (rows["verdict"] == Verdict.AT_ANOTHER_LEVEL).any():
            how += " At another level: most runs of the sides are, which may be chance; more runs tell."
        if rows["why"].str.contains("all hosts").any():
            how += " Than all hosts: beside the median change of all measured together, which is taken out."
        if rows["why"].str.contains("would show").any():
            how += " Would show: in 8 of 10 comparisons."
    descriptions = comparisons[0].descriptions
    return f"{_meanings(rows)}A, B: {text.sides_text(rows['benchmark'], units, descriptions)}{how}"


def _meanings(rows: pd.DataFrame) -> str:
    shared = rows["relation"].where(are_pairs(rows["relation"]), rows["relation"].str.partition(" ")[0])
    words = [text.in_words(shared)]
    if rows["relation"].map(is_level).any():
        words.append("L1, L2, LLC, mem: levels of memory")
    if rows["relation"].str.contains(r" x(?:[2-9]|\d\d+)$").any():
        words.append("x2: by two threads at once")
    listed = "; ".join(word for word in words if word)
    return f"{listed}\n" if listed else ""


def _pairs(one: Comparison) -> Iterator[str]:
    """How many pairs changed, and those that changed unlike their relation, the most different first."""
    kind = ["benchmark", "variant", "relation"]
    usual = one.relations[[*kind, "ratio"]].rename(columns={"ratio": "usual"})
    found = one.pairs[one.pairs["verdict"] == Verdict.CHANGED].merge(usual, on=kind)
    found["apart"] = np.abs(np.log(found["ratio"] / found["usual"]))
    own = found[found["apart"] > np.log1p(one.threshold)].sort_values("apart", ascending=False)
    yield (
        f"Pairs: {len(found)} of {len(one.pairs)} changed by more than {one.threshold * 100:g}% "
        f"(at most one in twenty of these by chance), {len(own) or 'none'} of them unlike their relation"
    )
    if len(own):
        rows = []
        for row in text.records(own.head(PAIRS_LISTED)):
            sides = (
                text.measured(one.descriptions[row["benchmark"]], row[name]) for name in ("a_ns", "b_ns")
            )
            changes = (f"{row[name] - 1:+.1%}" for name in ("ratio", "usual"))
            rows.append((text.kind_of(row), text.pair_text(row), row["relation"], *sides, *changes))
        titles = ("benchmark", "pair", "relation", "A", "B", "change", "its relation")
        yield text.indented(table(titles, rows, right={3, 4, 5, 6}))
    if len(own) > PAIRS_LISTED:
        yield f"  {len(own) - PAIRS_LISTED} more with --json"


def _side(side: ComparisonSide) -> dict[str, Any]:
    return {"name": side.name, "hosts": side.hosts, "runs": side.runs["run_id"].tolist()}


LISTED = 3  # pairs


def render_burst_levels(levels: pd.DataFrame, width: int | None, descriptions: Descriptions = SHIPPED) -> str:
    """Lay out the pairs with most bursts at another level, as `compare_burst_levels` returns them."""
    rows = []
    for row in text.records(levels.head(LISTED)):
        numbers = (
            "-" if text.is_none(row[name]) else text.measured(descriptions[row["benchmark"]], row[name])
            for name in ("a_ns", "b_ns", "a_other_ns", "b_other_ns")
        )
        shares = (text.percent(row[f"{side}_share"]) for side in "ab")
        moved, low, high = (row[name] for name in ("moved", "moved_low", "moved_high"))
        change = (text.signed(moved, 0), text.interval(low, high, 0))
        rows.append((text.kind_of(row), text.pair_text(row), *numbers, *shares, *change))
    titles = (
        "benchmark",
        "pair",
        "A",
        "B",
        "other A",
        "other B",
        "share A",
        "share B",
        "B - A",
        "its interval",
    )
    room = None if width is None else width - 2
    listed = table(titles, rows, right=set(range(2, 10)), width=room, drop=("its interval", "A", "B"))
    lines = ["Bursts at another level, not judged (other: their median; share: of the bursts)"]
    lines.append(text.indented(listed))
    if len(levels) > LISTED:
        lines.append(f"  {counted(len(levels) - LISTED, 'more pair')} with --json")
    return "\n".join(lines)

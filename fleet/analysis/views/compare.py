"""Text, JSON and CSV of `fleet compare`. The report also uses the headlines and
rows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.history import History
from fleet.analysis.compare.siblings import MEAN, Siblings
from fleet.analysis.compare.verdicts import CLASS, Verdict
from fleet.analysis.reduce.cells import are_pairs
from fleet.analysis.reduce.host_numbers import is_memory_level
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
CHANGE_TITLES = (
    "when",
    "where",
    "change",
    "95 % interval",
    "what else changed in that run",
)
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
# The fields of each result that its JSON has.
_FIELDS = "a b unit threshold relations pairs levels unlike environment caveats fleet"
_CHANGE_FIELDS = (
    "hosts relations runs has_verdict threshold caveats nights changes odd elsewhere"
)
_SIBLING_FIELDS = (
    "hosts about runs threshold has_verdict odd_hosts smallest rows environment caveats"
)
_NAMES_LENGTH = 60  # characters of host names in a sentence
_RELATIONS_LISTED, _NUMBERS_LISTED, _PAIRS_LISTED, _NIGHTS_LISTED, _LEVELS_LISTED = (
    20,
    20,
    10,
    10,
    3,
)
# whether it is between the sides, its name, the values in A and B
_Difference = tuple[bool, str, str, str]
# a change may hide between several levels
_OPEN = (
    Verdict.EQUIVALENT,
    Verdict.CANNOT_TELL,
    Verdict.NONE,
)


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
            else f"{join_names(names, _NAMES_LENGTH)}: {caveat}"
        )
        for caveat, names in names_by_caveat.items()
    ]
    ends = ["\n".join(filter(None, legend)), render_warnings(caveats)]
    return "\n\n".join(("\n\n\n".join(parts), *filter(None, ends)))


def comparisons_as_json(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons as JSON: shares as fractions, one-way latencies in ns, null
    where unknown.
    """
    rows = _select_fields(comparisons, _FIELDS)
    for row in rows:
        for letter, side in (("a", row["a"]), ("b", row["b"])):
            row[letter] = {
                "name": side.name,
                "hosts": side.hosts,
                "runs": side.runs["run_id"].tolist(),
            }
    return text.format_document("compare", rows)


def _select_fields(results: Sequence[Any], names: str) -> list[dict[str, Any]]:
    return [
        {name: getattr(result, name) for name in names.split()} for result in results
    ]


def comparisons_as_csv(comparisons: Sequence[Comparison]) -> str:
    """Render CSV with a row per comparison and relation, and the names of both
    sides.
    """
    rows = [
        item.relations.assign(a=item.a.name, b=item.b.name, unit=item.unit)
        for item in comparisons
    ]
    return text.format_csv(pd.concat(rows)).rstrip("\n")


def is_finding(rows: pd.DataFrame) -> pd.Series:
    """Report for each row whether its verdict is `changed` or `at another level`."""
    return rows["verdict"].isin((Verdict.CHANGED, Verdict.AT_ANOTHER_LEVEL))


def render_headlines_by_sides(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a sentence per pair of sides that says how many relations changed, and on
    which hosts.
    """
    headlines = []
    for (a, b), group in _group_by_sides(comparisons).items():
        if len(group) == 1:
            headlines.append(render_headline(group[0]))
            continue
        relations = pd.concat(
            [item.relations.assign(host=item.b.hosts[0]) for item in group]
        )
        hosts = relations.groupby("verdict", sort=False)["host"].unique()
        notes = {
            Verdict(str(verdict)): join_names(names, _NAMES_LENGTH)
            for verdict, names in hosts.items()
        }
        parts = _count_verdicts(text.to_records(relations), group[0], notes)
        headlines.append(
            one_line(f"{b} against {a}, {len(group)} hosts: {', '.join(parts)}")
        )
    return headlines


def render_headline(comparison: Comparison) -> str:
    """Say in a sentence how many relations of a comparison changed, and by how much at
    most.
    """
    a, b = comparison.a.name, comparison.b.name
    names = f"{b} against {a}" if len(a + b) <= _NAMES_LENGTH else "B against A"
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
    return one_line(f"{names}: {', '.join(parts)}")


def format_not_equivalent(
    comparisons: Sequence[Comparison],
) -> list[tuple[str, tuple[str, ...]]]:
    """Return each relation that is not equivalent, as host or side and cells of
    COLUMNS, findings first.
    """
    groups = _group_by_sides(comparisons)
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


def _group_by_sides(
    comparisons: Sequence[Comparison],
) -> dict[tuple[str, str], list[Comparison]]:
    """Group comparisons by the names of their sides, which host-by-host comparisons
    share.
    """
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault(comparison.sides, []).append(comparison)
    return groups


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
    for (a, b), group in _group_by_sides(ordered).items():
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
    kind = ["benchmark", "variant", "relation"]
    usual = comparison.relations[[*kind, "ratio"]].rename(columns={"ratio": "usual"})
    changed = comparison.pairs[comparison.pairs["verdict"] == Verdict.CHANGED].merge(
        usual, on=kind
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


def render_changes(history: History) -> str:
    """Render for people: a sentence, a row per change, odd nights, hosts at another
    level, and warnings.
    """
    parts = [render_changes_headline(history)]
    if len(history.changes):
        parts.append(table(CHANGE_TITLES, format_changes(history), right={2, 3}))
    for title, rows in (
        ("Odd nights", history.odd),
        ("At another level since", history.elsewhere),
    ):
        if len(rows):
            parts.append("\n".join((title, *_describe_host_nights(rows))))
    parts.append(render_warnings(list(history.caveats)))
    return "\n\n".join(filter(None, parts))


def changes_as_json(history: History) -> str:
    """Render a history as a JSON document with one row; dates are text, and shares are
    fractions.
    """
    return text.format_document("changes", _select_fields([history], _CHANGE_FIELDS))


def changes_as_csv(history: History) -> str:
    """Render CSV with a row per change."""
    changes = history.changes
    joined = {
        "hosts": changes["hosts"].map(" ".join),
        "else": changes["else"].map("; ".join),
    }
    return text.format_csv(changes.assign(**joined)).rstrip("\n")


def render_changes_headline(history: History) -> str:
    """Say in a sentence how many hosts were measured in how many nights, and what
    changed.
    """
    counts = (len(history.hosts), history.relations, history.runs, len(history.nights))
    words = map(format_count, counts, ("host", "relation", "run", "night"))
    about = f"{join_names(history.hosts, _NAMES_LENGTH)}: {', '.join(words)}"
    if not history.has_verdict:
        return one_line(f"{about}: no verdict")
    dated, changed = history.changes["dated"], history.changes["changed"]
    parts = [
        f"{int((~dated & changed).sum())} gradual",
        f"{int((~changed).sum())} below {history.threshold * 100:g}%",
        format_count(history.odd["night"].nunique(), "odd night"),
        _describe_moved_levels(history),
    ]
    changes = format_count(int((dated & changed).sum()), "change")
    return one_line(
        f"{about}: {', '.join([changes, *(part for part in parts if part[0] != '0')])}"
    )


def _describe_moved_levels(history: History) -> str:
    """Count the relations that moved to another level, and describe the one that moved
    furthest.
    """
    rows = text.to_records(history.elsewhere)
    if not rows:
        return "0 at another level"
    row = max(rows, key=lambda row: abs(np.log(row["ratio"])))
    nights = history.logs.loc[
        tuple(row[name] for name in ("host", *CLASS)), row["night"] :
    ]
    after = float(np.exp(nights.median()))
    numbers = {
        "benchmark": row["benchmark"],
        "before": after / row["ratio"],
        "after": after,
    }
    before, since = text.format_values(
        numbers, ("before", "after"), history.descriptions
    )
    where = f"{row['host']} {row['relation']}: {before}, since {row['night']} {since}"
    return f"{len(rows)} at another level ({where})"


def format_changes(history: History) -> list[tuple[str, ...]]:
    """Return the cells of CHANGE_TITLES for each change."""
    rows = list[tuple[str, ...]]()
    for row in text.to_records(history.changes):
        change, low, high = text.convert_change(row, history.descriptions)
        night, when = row["after"], _format_span(row["before"], row["after"])
        if not row["dated"]:
            when = f"gradual, {_format_span(row['begin'], row['end'])}"
        elif row["first"] != row["last"]:
            when = (
                f"{night} ({_format_day(row['first'], night)} to"
                f" {_format_day(row['last'], night)})"
            )
        is_everywhere = 1 < len(history.hosts) == len(row["hosts"])
        hosts = (
            f"all {len(history.hosts)}"
            if is_everywhere
            else join_names(row["hosts"], 40)
        )
        beside = "; ".join(row["else"]) or "nothing known" * row["dated"]
        changes = (text.format_change(change), text.format_interval(low, high))
        rows.append((when, f"{hosts}, {_name_relation(row)}", *changes, beside))
    return rows


def _name_relation(row: dict[str, Any]) -> str:
    return (
        f"{row['benchmark']} {row['relation']}" if row["relation"] else "all relations"
    )


def _format_span(first: date, last: date) -> str:
    return f"{first} to {_format_day(last, first)}"


def _format_day(night: date, reference: date) -> str:
    """Format a date without its year if that is the year of `reference`."""
    return f"{night:%m-%d}" if night.year == reference.year else f"{night}"


def _describe_host_nights(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a line per host and night that names the relation furthest off, then how
    many are left out.
    """
    rows = rows.assign(apart=(rows["ratio"] - 1).abs()).sort_values(
        "apart", ascending=False
    )
    groups = list(rows.groupby(["host", "night"], sort=False))
    for (host, night), group in groups[:_NIGHTS_LISTED]:
        first = text.to_records(group)[0]
        more = f", and {len(group) - 1} more" if len(group) > 1 else ""
        yield one_line(
            f"  {night}  {host} {_name_relation(first)} {first['ratio'] - 1:+.0%}{more}"
        )
    if len(groups) > _NIGHTS_LISTED:
        yield f"  {len(groups) - _NIGHTS_LISTED} more with --json"


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
    return text.format_document("siblings", _select_fields(groups, _SIBLING_FIELDS))


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
            f"{len(group.odd_hosts)} odd: {join_names(group.odd_hosts, _NAMES_LENGTH)}"
        )
    about = f"{len(group.hosts)} equal machines, {format_count(group.runs, 'run')}"
    return one_line(f"{join_names(group.hosts, _NAMES_LENGTH)}: {about}: {answer}")


def format_odd_numbers(group: Siblings) -> list[tuple[str, ...]]:
    """Return the cells of SIBLING_TITLES for each number of an odd machine."""
    rows = []
    for row in text.to_records(_select_odd_numbers(group)):
        numbers = ["-", "-"]
        if row["benchmark"]:
            numbers = text.format_values(row, ("ns", "others_ns"), group.descriptions)
            numbers[1] += f" {text.format_half_width(row['scatter'])}" * (
                not text.is_none(row["scatter"])
            )
        change, low, high = text.convert_change(row, group.descriptions)
        q = (
            "-"
            if text.is_none(row["q"])
            else "<0.001"
            if row["q"] < 0.001
            else f"{row['q']:.3f}"
        )
        changes = (text.format_change(change), text.format_interval(low, high), q)
        rows.append(
            (row["host"], text.name_benchmark(row), row["relation"], *numbers, *changes)
        )
    return rows


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

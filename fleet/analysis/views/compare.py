"""Text, JSON and CSV of `fleet compare`. The report also uses the headlines and
rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import NUMBER_KEY
from fleet.analysis.compare.comparison import Comparison
from fleet.analysis.compare.sides import ComparisonSide
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
from fleet.analysis.views.units import add_changes, add_values
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
_MODEL = "cpu_model"  # the fact that makes two machines unlike
_FACTS_OF_UNLIKE_LISTED = 3
_SEVERAL_THREADS = r" x(?:[2-9]|\d\d+)$"  # at the end of a relation: x2 and more
_WITHIN_A_RUN = (
    " Within A, within B: ±95% of the number, within a run. Two runs of an unchanged"
    " machine differ by more, so it is not the error of the difference."
)


class _RelationCells(NamedTuple):
    """The cells of a line about a relation (titles: COLUMNS).

    pairs: the count of pairs; of hosts if the line is about all hosts. a, b: the
    numbers of the sides.
    """

    benchmark: str
    relation: str
    pairs: str
    a: str
    b: str
    change: str
    interval: str
    verdict: str


class _Difference(NamedTuple):
    """A fact that differs between the sides, or else within one."""

    is_between: bool
    name: str
    a: str
    b: str


def render_comparisons(
    comparisons: Sequence[Comparison], width: int | None = None
) -> str:
    """Render for people: of several comparisons a summary with what differs in all of
    them, then each comparison (most findings first), the legend and the warnings.
    """
    ordered = sorted(comparisons, key=_count_findings, reverse=True)
    differences = [_list_differences(comparison) for comparison in ordered]
    common: list[_Difference] = []  # of a single comparison, nothing is left out
    blocks = []
    if len(ordered) > 1:
        common = _find_common_differences(differences)
        summary = [*_render_multi_host_summary(ordered, width)]
        summary += _render_environment(common, width, ", on each host alike")
        blocks.append("\n\n".join(summary))
    for comparison, own_differences in zip(ordered, differences, strict=True):
        others = [fact for fact in own_differences if fact not in common]
        parts = _render_comparison(comparison, others, width)
        blocks.append("\n\n".join(parts))
    body = "\n\n\n".join(blocks)
    legend = "\n".join(_explain_tables(ordered))
    warnings = render_warnings(_merge_caveats(ordered))
    return "\n\n".join(filter(None, (body, legend, warnings)))


def _count_findings(comparison: Comparison) -> int:
    return sum(map(is_finding, comparison.rows))


def _list_differences(comparison: Comparison) -> list[_Difference]:
    facts = comparison.environment
    differences = []
    for is_between, name, a, b in zip(
        facts["between"], facts["what"], facts["a"], facts["b"], strict=True
    ):
        differences.append(_Difference(is_between, name, a, b))
    return differences


def _find_common_differences(
    differences: Sequence[Sequence[_Difference]],
) -> list[_Difference]:
    """Return what differs alike in all of several comparisons."""
    first, *others = differences
    common = set.intersection(*map(set, others))
    return [difference for difference in first if difference in common]


def _explain_tables(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield up to three legends: of the comparisons with verdicts, of those without,
    and of the rows about all hosts.
    """
    with_verdicts = [comparison for comparison in comparisons if comparison.has_verdict]
    without_verdicts = [
        comparison for comparison in comparisons if not comparison.has_verdict
    ]
    for group in (with_verdicts, without_verdicts):
        legend = _render_legend(group)
        if legend:
            yield legend
    has_rows_of_all_hosts = any(len(comparison.fleet) for comparison in comparisons)
    if len(comparisons) > 1 and has_rows_of_all_hosts:
        yield (
            "All hosts: the mean of the hosts' changes, by Student's t; all: what all"
            " hosts and relations have in common in a run, taken out of each change."
        )


def _merge_caveats(comparisons: Sequence[Comparison]) -> list[str]:
    """Return each caveat once. Before a caveat stand the names of the sides B that it
    is about, unless it is about all comparisons.
    """
    names_by_caveat: dict[str, list[str]] = {}
    for comparison in comparisons:
        for caveat in comparison.caveats:
            names_by_caveat.setdefault(caveat, []).append(comparison.b.name)
    caveats = []
    for caveat, names in names_by_caveat.items():
        if len(names) == len(comparisons):
            caveats.append(caveat)
        else:
            caveats.append(f"{join_names(names, NAMES_LENGTH)}: {caveat}")
    return caveats


def comparisons_as_json(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons as JSON, an object each. Shares are fractions, numbers are
    given as shown and in ns, and what is unknown is null. `fleet` has the changes of
    all hosts together, which have no numbers.
    """
    objects = select_fields(comparisons, _FIELDS)
    for fields, comparison in zip(objects, comparisons, strict=True):
        descriptions = comparison.descriptions
        fields["relations"] = _add_shown(comparison.relations, descriptions)
        fields["pairs"] = _add_shown(comparison.pairs, descriptions)
        fields["fleet"] = add_changes(comparison.fleet, descriptions)
        fields["a"] = _make_side_object(comparison.a)
        fields["b"] = _make_side_object(comparison.b)
    return text.format_document("compare", objects)


def _add_shown(rows: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Add both sides' numbers, and the change, as they are shown."""
    names = {"a_value": "a_ns", "b_value": "b_ns"}
    with_values = add_values(rows, names, descriptions)
    return add_changes(with_values, descriptions)


def _make_side_object(side: ComparisonSide) -> dict[str, Any]:
    return {
        "name": side.name,
        "hosts": side.hosts,
        "runs": side.runs["run_id"].tolist(),
    }


def comparisons_as_csv(comparisons: Sequence[Comparison]) -> str:
    """Render CSV with a row per comparison and relation. Columns `a` and `b` name the
    sides, and `unit` says what counts as one observation: "run" or "host".
    """
    tables = []
    for comparison in comparisons:
        relations = _add_shown(comparison.relations, comparison.descriptions)
        named = relations.assign(
            a=comparison.a.name, b=comparison.b.name, unit=comparison.unit
        )
        tables.append(named)
    return text.format_csv(pd.concat(tables)).rstrip("\n")


def format_not_equivalent(
    comparisons: Sequence[Comparison],
) -> list[tuple[str, tuple[str, ...]]]:
    """Return each relation that is not equivalent: what to call its comparison, from
    `_name_rows`, and the cells of COLUMNS. They are in the order of Verdict, which
    begins with findings.
    """
    if not comparisons:
        return []
    descriptions = comparisons[0].descriptions
    lines_by_verdict: dict[str, list[tuple[str, tuple[str, ...]]]] = {
        verdict: [] for verdict in Verdict
    }
    for name, rows in _name_rows(comparisons):
        for row in rows:
            if row["verdict"] != Verdict.EQUIVALENT:
                cells = _format_relation(row, descriptions)
                lines_by_verdict[row["verdict"]].append((name, cells))
    return list(chain.from_iterable(lines_by_verdict.values()))


def _name_rows(
    comparisons: Sequence[Comparison],
) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Return the rows of all tables, the rows of each table with the name to show
    beside them. First come the rows about all hosts of each pair of sides, then the
    rows of each comparison.

    The name is "all 5" or the host, "lucca". If there are several pairs of sides, it
    ends in side B: "all 5, kernel=6.13", "lucca, kernel=6.13". A comparison that is the
    only one of its sides has the name of side B alone: "kernel=6.13".
    """
    groups = group_by_sides(comparisons)
    about_all_hosts = []
    about_comparisons = []
    for (_, b), group in groups.items():
        suffix = f", {b}" if len(groups) > 1 else ""
        fleet_rows = text.to_records(_get_rows_about_all_hosts(group))
        about_all_hosts.append((f"all {len(group)}{suffix}", fleet_rows))
        for comparison in group:
            name = _name_in_group(comparison, len(group))
            # the only comparison of its sides has the name of side B alone, no suffix
            is_named_by_side = name == b
            if not is_named_by_side:
                name += suffix
            about_comparisons.append((name, comparison.rows))
    return about_all_hosts + about_comparisons


def _get_rows_about_all_hosts(group: Sequence[Comparison]) -> pd.DataFrame:
    """Return the rows about all hosts of the comparisons of two sides, which each of
    them has alike.
    """
    return group[0].fleet


def _name_in_group(comparison: Comparison, count: int) -> str:
    """Name a comparison by B if it is the only one of its sides, else by its host."""
    return comparison.b.name if count == 1 else comparison.b.hosts[0]


def _format_relation(
    row: Mapping[str, Any], descriptions: Descriptions
) -> _RelationCells:
    """Return the cells of a relation of one host, or of all hosts together. A row about
    all hosts has no numbers: A and B are "-", and the count is of hosts, not of pairs.
    """
    if "pairs" in row:
        count = row["pairs"]
        a, b = text.format_values(row, ("a_ns", "b_ns"), descriptions)
    else:
        count = row.get("hosts")
        a = b = "-"
    change, low, high = text.convert_change(row, descriptions)
    return _RelationCells(
        benchmark=text.name_benchmark(row),
        relation=row["relation"],
        pairs=str(count),
        a=a,
        b=b,
        change=text.format_change(change),
        interval=text.format_interval(low, high),
        verdict=_format_verdict(row),
    )


def _format_verdict(row: Mapping[str, Any]) -> str:
    """Format a verdict with its reason, unless the headline or a warning gives it."""
    verdict = row["verdict"]
    if verdict in (Verdict.EQUIVALENT, Verdict.NONE):
        return str(verdict)
    return f"{verdict}: {row['why']}"


def _render_multi_host_summary(
    ordered: Sequence[Comparison], width: int | None
) -> Iterator[str]:
    """Yield the headlines, the relations that are not equivalent, and for each pair of
    sides the relations of all hosts together.
    """
    yield "\n".join(render_headlines_by_sides(ordered))
    lines = []
    for name, cells in format_not_equivalent(ordered):
        # the host's name takes the room of the count of pairs
        lines.append((name, *_drop_pair_count(cells)))
    if lines:
        yield _tabulate_not_equivalent(lines, width)
    for (a, b), group in group_by_sides(ordered).items():
        rows = _get_rows_about_all_hosts(group)
        if len(rows):
            title = one_line(f"All hosts, {b} against {a}")
            body = _tabulate_fleet(rows, group[0].descriptions, width)
            yield f"{title}\n{body}"


def _drop_pair_count(cells: tuple[str, ...]) -> tuple[str, ...]:
    """Return the cells of COLUMNS without the count of pairs."""
    place = COLUMNS.index("pairs")
    return cells[:place] + cells[place + 1 :]


def _tabulate_not_equivalent(rows: Sequence[tuple[str, ...]], width: int | None) -> str:
    """Tabulate the first relations. A last line counts the others, which the tables of
    single comparisons further below have.

    rows: the name of a host, then the cells of COLUMNS but for the count of pairs.
    width: of the terminal; None: unlimited.
    """
    laid_out = table(
        ("host", *_drop_pair_count(COLUMNS)),
        rows[:_RELATIONS_LISTED],
        right={3, 4, 5, 6},  # A, B, change and its interval
        width=width,
        drop=("A", "B", "95 % interval"),
    )
    more = len(rows) - _RELATIONS_LISTED
    return f"{laid_out}\n{more} more below" if more > 0 else laid_out


def _tabulate_fleet(
    fleet: pd.DataFrame, descriptions: Descriptions, width: int | None
) -> str:
    """Tabulate the relations of all hosts together. Such relations have a change, but
    no numbers of A and B.
    """
    titles = ("benchmark", "relation", "hosts", "change", "95 % interval", "verdict")
    lines = []
    for row in text.to_records(fleet):
        cells = _format_relation(row, descriptions)
        line = (
            cells.benchmark,
            cells.relation,
            cells.pairs,  # in rows about all hosts, the count of hosts
            cells.change,
            cells.interval,
            cells.verdict,
        )
        lines.append(line)
    number_columns = {2, 3, 4}  # hosts, change and its interval
    return table(titles, lines, right=number_columns, width=width)


def _render_comparison(
    comparison: Comparison, differences: Sequence[_Difference], width: int | None
) -> Iterator[str]:
    """Yield the headline and sides, the tables that there are, and what else differs.
    differences: the facts to name; the caller has left out the facts that differ alike
    in all comparisons.
    """
    head = [
        render_headline(comparison),
        _describe_side("A", comparison.a),
        _describe_side("B", comparison.b),
    ]
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
    if _has_changed_pairs(comparison):
        yield "\n".join(_render_changed_pairs(comparison))
    if len(comparison.levels):
        yield _render_burst_levels(comparison.levels, width, comparison.descriptions)
    yield from _render_environment(differences, width)


def _has_changed_pairs(comparison: Comparison) -> bool:
    if not comparison.has_pair_tests:
        return False
    return Verdict.CHANGED in comparison.pairs["verdict"].tolist()


def _describe_side(letter: str, side: ComparisonSide) -> str:
    """Return a line on a side: its name, how many runs of which host, and when."""
    started = side.runs["started_utc"].tolist()
    when = text.format_span(started[0], started[-1])
    hosts = f"{len(side.hosts)} hosts"
    if len(side.hosts) == 1:
        hosts = side.hosts[0]
    runs = format_count(len(side.runs), "run")
    return one_line(f"  {letter}  {side.name}: {runs} of {hosts}, {when} UTC")


def _render_unlike_variants(comparison: Comparison, width: int | None) -> str:
    """Render the numbers of sides that used different variants, and a command to make
    them comparable.
    """
    descriptions = comparison.descriptions
    benchmarks = list(dict.fromkeys(comparison.unlike["benchmark"]))
    units = text.describe_units(benchmarks, descriptions)
    parts = [
        f"Measured with different instructions, so without a verdict ({units})",
        _tabulate_unlike_variants(comparison.unlike, descriptions, width),
    ]
    command = _suggest_common_variant(comparison, benchmarks)
    if command:
        parts.append(f"To compare them: {command}")
    return "\n".join(parts)


def _suggest_common_variant(comparison: Comparison, benchmarks: Sequence[str]) -> str:
    """Write the command that measures these benchmarks with c11, the variant that every
    architecture has: "fleet run lucca -b cas/c11". Return "" if none of the benchmarks
    has c11.
    """
    choices = []
    for name in benchmarks:
        measures_clock = comparison.descriptions[name].view is View.CPUS
        if not measures_clock:  # benchmarks of the clock itself have no c11
            choices.append(f"{name}/c11")
    if not choices:
        return ""
    hosts = fold_names([*comparison.a.hosts, *comparison.b.hosts])
    benchmarks_with_variants = ",".join(choices)
    return format_command("fleet", "run", *hosts, "-b", benchmarks_with_variants)


def _tabulate_unlike_variants(
    unlike: pd.DataFrame, descriptions: Descriptions, width: int | None
) -> str:
    """Tabulate each relation's numbers of A and of B, each number with its variant."""
    titles = ("benchmark", "relation", "A", "B")
    lines = []
    keys = ["benchmark", "relation"]
    for (benchmark, relation), rows in unlike.groupby(keys, sort=False, observed=True):
        is_of_a = rows["side"] == "a"
        numbers_of_a = _list_numbers(rows[is_of_a], descriptions)
        numbers_of_b = _list_numbers(rows[~is_of_a], descriptions)
        line = (str(benchmark), str(relation), numbers_of_a, numbers_of_b)
        lines.append(line)
    return table(titles, lines, right={2, 3}, width=width)


def _list_numbers(rows: pd.DataFrame, descriptions: Descriptions) -> str:
    """List numbers, each with its variant; "-" without any."""
    words = []
    for row in text.to_records(rows):
        (number,) = text.format_values(row, ("ns",), descriptions)
        words.append(f"{number} {row['variant']}")
    return ", ".join(words) or "-"


def _render_environment(
    differences: Sequence[_Difference], width: int | None, title_end: str = ""
) -> Iterator[str]:
    """Yield a table of the facts that differ between the sides, then one of the facts
    that vary between the runs of one side. A table that is too wide becomes a list. If
    `_choose_telling` leaves out facts, as it does of unlike machines, count them.

    title_end: ends the titles, such as ", on each host alike".
    """
    between = [fact for fact in differences if fact.is_between]
    within = [fact for fact in differences if not fact.is_between]
    if between:
        telling = _choose_telling(between)
        facts = _list_facts(telling, width)
        if len(telling) < len(between):
            others = format_count(len(between) - len(telling), "more fact")
            facts += f"\n  {others} of unlike machines: --json"
        yield f"What else differs{title_end}\n{facts}"
    if within:
        facts = _list_facts(within, width)
        yield f"What varies within a side{title_end}\n{facts}"


def _choose_telling(between: Sequence[_Difference]) -> Sequence[_Difference]:
    """Choose which facts to list: all, unless the machines are unlike. Then most facts
    follow from the CPU model, so only the model and the next two are listed.
    """
    names = [fact.name for fact in between]
    if _MODEL not in names:
        return between
    model_first = sorted(between, key=lambda fact: fact.name != _MODEL)
    return model_first[:_FACTS_OF_UNLIKE_LISTED]


def _list_facts(differences: Sequence[_Difference], width: int | None) -> str:
    """List facts in a table, or below each other if that is too wide."""
    rows = [(fact.name, fact.a, fact.b) for fact in differences]
    facts_table = table(("", "A", "B"), rows)
    indented = text.indent_lines(facts_table)
    if not text.is_too_wide(indented, width):
        return indented
    lines = []
    for fact in differences:
        lines += [fact.name, f"  A  {fact.a}", f"  B  {fact.b}"]
    return text.indent_lines("\n".join(lines))


def _render_relations(comparison: Comparison, width: int | None) -> str:
    """Render a table of relations, findings first; without verdicts, with the intervals
    within a run.
    """
    if not comparison.has_verdict:
        return _tabulate_without_verdicts(comparison)
    findings_first = sorted(comparison.rows, key=is_finding, reverse=True)
    lines = [_format_relation(row, comparison.descriptions) for row in findings_first]
    number_columns = {2, 3, 4, 5, 6}  # from the count of pairs to the interval
    return table(COLUMNS, lines, number_columns, width=width, drop=("pairs",))


def _tabulate_without_verdicts(comparison: Comparison) -> str:
    """Tabulate relations without verdicts. In place of the interval of the change and
    of the verdict, each line has half the interval of A and of B within a run
    (`a_within`, `b_within`, shares).
    """
    titles = (
        "benchmark",
        "relation",
        "pairs",
        "A",
        "B",
        "difference",
        "within A",
        "within B",
    )
    lines = []
    for row in comparison.rows:
        cells = _format_relation(row, comparison.descriptions)
        line = (
            cells.benchmark,
            cells.relation,
            cells.pairs,
            cells.a,
            cells.b,
            cells.change,
            text.format_half_width(row["a_within"]),
            text.format_half_width(row["b_within"]),
        )
        lines.append(line)
    return table(titles, lines, right=range(2, len(titles)))


def _render_legend(comparisons: Sequence[Comparison]) -> str:
    """Explain the words of the tables of these comparisons; return "" if the tables
    have no relations. comparisons: all with verdicts, or all without.
    """
    tables = [comparison.relations for comparison in comparisons]
    if all(rows.empty for rows in tables):
        return ""
    rows = pd.concat(tables)
    first = comparisons[0]
    units = dict.fromkeys(comparison.unit for comparison in comparisons)
    plurals = " or ".join(f"{unit}s" for unit in units)  # "runs" or "runs or hosts"
    # `explain_a_and_b` adds an s: "run" becomes "runs", "runs or host" "runs or hosts"
    per_unit = plurals.removesuffix("s")
    sides = text.explain_a_and_b(rows["benchmark"], per_unit, first.descriptions)
    explanation = _WITHIN_A_RUN
    if first.has_verdict:
        explanation = "".join(_explain_verdicts(comparisons, rows, plurals))
    numbers = f"A, B: {sides}.{explanation}"
    meanings = "; ".join(_explain_relation_names(rows["relation"]))
    return f"{meanings}\n{numbers}" if meanings else numbers


def _explain_verdicts(
    comparisons: Sequence[Comparison], rows: pd.DataFrame, units: str
) -> Iterator[str]:
    """Yield a sentence on the interval and one on the threshold; then a sentence for
    each further word that the verdicts of `rows` use. Each begins with a space, as it
    is appended to the legend, or is empty.

    units: "runs", "hosts" or "runs or hosts". `why` of a row is the reason beside its
    verdict: "slower than all hosts", "would show a change of 4.1% or more".
    """
    yield f" Interval: of the change, from the variation between {units}."
    shares = [f"±{comparison.threshold * 100:g}%" for comparison in comparisons]
    yield f" Threshold: {' or '.join(dict.fromkeys(shares))}."
    yield explain_scatter(rows)
    if (rows["verdict"] == Verdict.AT_ANOTHER_LEVEL).any():
        # most runs of A are at one level, and most runs of B at another
        yield (
            " At another level: most runs of the sides are, which may be chance;"
            " more runs tell."
        )
    if rows["why"].str.contains("all hosts").any():
        # each change is relative to the median change of all hosts
        yield (
            " Than all hosts: beside the median change of all measured together,"
            " which is taken out."
        )
    if rows["why"].str.contains("would show").any():
        yield " Would show: in 8 of 10 comparisons."


def _explain_relation_names(relations: "pd.Series[str]") -> Iterator[str]:
    """Yield what the names of these relations mean: what two CPUs share, such as "llc
    P-E"; the levels of memory, as in "L2 read"; the number of threads, as in "mem x4".
    An explanation is left out if no relation needs it.
    """
    # a name of pairs is kept whole, with its kinds of cores; of others, such as "L2
    # read", the first word is taken
    is_pair = are_pairs(relations)
    first_words = relations.str.partition(" ")[0]
    names_to_explain = relations.where(is_pair, first_words)
    explanation = text.explain_relations(names_to_explain)
    if explanation:
        yield explanation
    if relations.map(is_memory_level).any():
        yield "L1, L2, LLC, mem: levels of memory"
    if relations.str.contains(_SEVERAL_THREADS).any():
        yield "x2: by two threads at once"


def explain_scatter(rows: pd.DataFrame) -> str:
    """Say that the scatter of each relation is moderated; return "" if none is. The
    scatter of a relation is how much its numbers differ from run to run. It is
    moderated if it is estimated together with that of the other relations.

    rows: relations. `borrowed` is how many degrees of freedom a relation gains by that;
    0 if its scatter is its own. The median is named.
    """
    moderated = rows[rows["borrowed"] > 0]
    if moderated.empty:
        return ""
    borrowed = moderated["borrowed"].median()
    freedom = f"{borrowed:.0f} further degrees of freedom"
    # A verdict may advise "for 3%, about 8 runs a side". How many follows from the
    # scatter, which depends on what other relations the command compares.
    advises_runs = rows["why"].str.contains("about").any()
    remark = ""
    if advises_runs:
        remark = ", so another command may name other numbers of runs"
    return (
        f" Scatter: of each relation, moderated by that of all {len(moderated)}"
        f" ({freedom}){remark}."
    )


def _render_changed_pairs(comparison: Comparison) -> Iterator[str]:
    """Yield how many pairs changed. Then yield a table of the pairs whose change is
    least like that of their relation, if any is unlike it by more than the threshold.
    """
    changed_pairs = _select_changed_pairs(comparison)
    # `apart` is a logarithm of a ratio; the threshold, such as 0.03, is a share
    is_unlike = changed_pairs["apart"] > np.log1p(comparison.threshold)
    unlike_pairs = changed_pairs[is_unlike]
    yield (
        f"Pairs: {len(changed_pairs)} of {len(comparison.pairs)} changed by more than "
        f"{comparison.threshold * 100:g}% (at most one in twenty of these by chance), "
        f"{len(unlike_pairs) or 'none'} of them unlike their relation"
    )
    if len(unlike_pairs):
        furthest_first = unlike_pairs.sort_values("apart", ascending=False)
        furthest = furthest_first.head(_PAIRS_LISTED)
        yield text.indent_lines(_tabulate_pairs(furthest, comparison.descriptions))
    more = len(unlike_pairs) - _PAIRS_LISTED
    if more > 0:
        yield f"  {more} more with --json"


def _select_changed_pairs(comparison: Comparison) -> pd.DataFrame:
    """Return the pairs that changed, with two further columns. `usual` is the ratio, B
    to A, of the pair's relation. `apart` is how far the pair's own `ratio` is from
    that: the logarithm of their quotient, without its sign.
    """
    ratios = comparison.relations[[*NUMBER_KEY, "ratio"]]
    usual = ratios.rename(columns={"ratio": "usual"})
    is_changed = comparison.pairs["verdict"] == Verdict.CHANGED
    changed_pairs = comparison.pairs[is_changed]
    pairs = changed_pairs.merge(usual, on=NUMBER_KEY)
    beside_usual = pairs["ratio"] / pairs["usual"]
    pairs["apart"] = np.abs(np.log(beside_usual))
    return pairs


def _tabulate_pairs(pairs: pd.DataFrame, descriptions: Descriptions) -> str:
    """Tabulate pairs: the numbers of both sides, how much the pair changed, and how
    much its relation did.

    pairs: from `_select_changed_pairs`. `ratio`: B divided by A, of the pair. `usual`:
    the same of its relation.
    """
    lines = []
    for row in text.to_records(pairs):
        a, b = text.format_values(row, ("a_ns", "b_ns"), descriptions)
        cells = (
            text.name_benchmark(row),
            text.format_pair(row),
            row["relation"],
            a,
            b,
            f"{row['ratio'] - 1:+.1%}",
            f"{row['usual'] - 1:+.1%}",
        )
        lines.append(cells)
    titles = ("benchmark", "pair", "relation", "A", "B", "change", "its relation")
    return table(titles, lines, right=range(3, len(titles)))


def _render_burst_levels(
    levels: pd.DataFrame, width: int | None, descriptions: Descriptions
) -> str:
    """Render a table of the pairs with the largest shares of bursts at another level
    than their numbers. levels: from `list_burst_levels`, these pairs first.
    """
    table_width = width
    if width is not None:
        table_width = width - 2  # the table is indented
    largest = levels.head(_LEVELS_LISTED)
    rows = _tabulate_burst_levels(largest, table_width, descriptions)
    lines = [
        "Bursts at another level, not judged (other: their median; share: of the"
        " bursts)",
        text.indent_lines(rows),
    ]
    more = len(levels) - _LEVELS_LISTED
    if more > 0:
        lines.append(f"  {format_count(more, 'more pair')} with --json")
    return "\n".join(lines)


def _tabulate_burst_levels(
    levels: pd.DataFrame, width: int | None, descriptions: Descriptions
) -> str:
    """Tabulate pairs that have bursts at another level than their numbers. levels: from
    `list_burst_levels`, a row per pair. "B - A" is the change of the share of such
    bursts.
    """
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
    rows = text.to_records(levels)
    lines = [_format_burst_levels(row, descriptions) for row in rows]
    number_columns = range(2, len(titles))
    dropped = ("its interval", "A", "B")
    return table(titles, lines, number_columns, width=width, drop=dropped)


def _format_burst_levels(
    row: Mapping[str, Any], descriptions: Descriptions
) -> tuple[str, ...]:
    """Return the cells of a pair that has bursts at another level than its number. row:
    from `list_burst_levels`; `a_ns` and `b_ns` are the sides' numbers, `a_other_ns` and
    `b_other_ns` the medians of their bursts at another level, `a_share` and `b_share`
    the shares of these bursts. `moved` is b_share - a_share, with its interval.
    """
    numbers = text.format_values(
        row, ("a_ns", "b_ns", "a_other_ns", "b_other_ns"), descriptions
    )
    return (
        text.name_benchmark(row),
        text.format_pair(row),
        *numbers,
        text.format_share(row["a_share"]),
        text.format_share(row["b_share"]),
        text.format_change(row["moved"], digits=0),
        text.format_interval(row["moved_low"], row["moved_high"], digits=0),
    )

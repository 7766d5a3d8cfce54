"""Show numbers run by run: a relation of several hosts, or all numbers of one host."""

from collections.abc import Container, Mapping, Sequence
from datetime import UTC
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import NUMBER_KEY
from fleet.analysis.reduce.cells import are_pairs
from fleet.analysis.views.sparkline import draw_sparkline
from fleet.analysis.views.usual import (
    UsualNumbers,
    describe_interval,
    list_last_changes,
    list_several_levels,
)
from fleet.model import SHIPPED, Benchmark, Descriptions
from fleet.store import RunSummary
from fleet.text import format_command, one_line, table

_NUMBER = ["benchmark", "variant", "about", "relation"]
# what a narrow terminal leaves out, in this order
_DROPPED = ("p99", "min", "max", "run", "flagged", "pairs")


def render_relation_history(
    history: pd.DataFrame,
    width: int | None = None,
    descriptions: Descriptions = SHIPPED,
) -> str:
    """Render a line per run, benchmark and variant, oldest first, then a sparkline per
    host and relation.

    history: a row per run, benchmark, variant and relation, oldest first. width: of the
    terminal; None: unlimited.
    """
    common_labels = text.find_common_labels(history["labels"].tolist())
    runs = _tabulate_runs(history, width, descriptions, common_labels)
    title = _name_relations(history["relation"].unique().tolist())
    explanation = _explain_columns(runs, history, descriptions)
    runs_with_labels = text.add_common_labels(runs, common_labels)
    last_host = history["host_name"].iloc[-1]
    parts = [
        f"{title}: {explanation}\n{runs_with_labels}",
        _tabulate_courses(history, width),
        f"What changed when: {format_command('fleet', 'compare', last_host)}",
    ]
    return "\n\n".join(part for part in parts if part)


def _name_relations(relations: Sequence[str]) -> str:
    """Name a relation, or several without their kinds of cores: "package"."""
    if len(relations) == 1:
        return relations[0]
    names = {relation.split(" ")[0] for relation in relations}
    return ", ".join(sorted(names))


def _tabulate_runs(
    history: pd.DataFrame,
    width: int | None,
    descriptions: Descriptions,
    common_labels: Container[str],
) -> str:
    """Tabulate the numbers of each run. common_labels: keys of labels to leave out."""
    names_relation = history["relation"].nunique() > 1
    names = ["started (UTC)", "host", "run", "benchmark"]
    if names_relation:
        names.append("of")
    numbers = ["pairs", "median", "min", "max", "p99", "±95%", "flagged"]
    lines = []
    for row in text.to_records(history):
        cells = _name_run(row)
        if names_relation:
            cells.append(row["relation"])
        cells += _format_numbers(row, descriptions)
        cells.append(text.format_labels(row["labels"], without=common_labels))
        lines.append(cells)
    first_number = len(names)
    number_columns = range(first_number, first_number + len(numbers))
    titles = [*names, *numbers, "labels"]
    return table(titles, lines, number_columns, width=width, drop=_DROPPED)


def _name_run(row: Mapping[str, Any]) -> list[str]:
    """Return the first cells of a row: start, host and ID of its run, and benchmark."""
    started = row["started_utc"].astimezone(UTC)
    return [
        f"{started:%Y-%m-%d %H:%M:%S}",
        row["host_name"],
        row["run_id"],
        text.name_benchmark(row),
    ]


def _format_numbers(row: Mapping[str, Any], descriptions: Descriptions) -> list[str]:
    """Format a row's count of pairs, median, min, max, p99, interval and share of
    flagged bursts.
    """
    columns = ["median_ns", "min_ns", "max_ns", "p99_ns"]
    if text.is_rate(descriptions[row["benchmark"]]):
        # the longest time is the lowest rate
        columns = ["median_ns", "max_ns", "min_ns", "p99_ns"]
    return [
        str(row["pairs"]),
        *text.format_values(row, columns, descriptions),
        text.format_half_width(row["spread"]),
        text.format_share(row["flagged_share"]),
    ]


def _explain_columns(
    table_of_runs: str, history: pd.DataFrame, descriptions: Descriptions
) -> str:
    """Say what the numbers of a table are: their units, then of what each column is.

    table_of_runs: the table as text; a narrow one lacks columns, which then need no
    words.
    """
    measured = "CPUs and groups"
    middle = "the median of them"
    if are_pairs(history["relation"]).any():
        measured = "pairs"
        middle = "the median pair"
    titles_by_subject = {
        measured: ("median", "min", "max"),
        middle: ("p99",),
        "the number": ("±95%",),
        "bursts": ("flagged",),
    }
    first_line, _, _ = table_of_runs.partition("\n")
    titles_shown = first_line.split()
    meanings = [text.describe_units(history["benchmark"], descriptions)]
    for subject, titles in titles_by_subject.items():
        titles_to_explain = [title for title in titles if title in titles_shown]
        if titles_to_explain:
            meanings.append(f"{', '.join(titles_to_explain)}: of {subject}")
    return "; ".join(meanings)


def _tabulate_courses(history: pd.DataFrame, width: int | None) -> str:
    """Draw the course of each number of a host over its runs, a line per host,
    benchmark, variant and relation. Return "" if no host has several runs.

    history: a row per run and number, oldest first.
    """
    rows = []
    by_number = history.groupby(["host_name", *NUMBER_KEY], sort=False)
    for key, runs in by_number:
        if len(runs) > 1:
            host, benchmark, variant, relation = map(str, key)
            course = draw_sparkline(runs["median_ns"])
            rows.append((host, f"{benchmark}/{variant}", relation, course))
    if not rows:
        return ""
    titles = ("host", "benchmark", "of", "oldest to newest")
    return table(titles, rows, width=width)


def render_host_history(runs: Sequence[RunSummary], usual: UsualNumbers) -> str:
    """Render a host's comparable runs: a table with the usual number, the extremes and
    a sparkline of each number, and what the words mean. The usual number is the
    geometric mean of the runs at the main level, where most of the host's runs are.

    runs: oldest first.
    """
    first = runs[0].started_utc
    last = runs[-1].started_utc
    lines = [
        f"{len(runs)} comparable runs, {first:%Y-%m-%d} to {last:%Y-%m-%d}: medians by"
        " run",
        _tabulate_usual_numbers(usual),
        "usual: geometric mean of the runs at the main level",
        f"±95%: {describe_interval(usual.table)}",
    ]
    changes = list_last_changes(usual.table)
    lines += [f"usual since the last change: {one_line(line)}" for line in changes]
    levels = list_several_levels(usual.table, usual.descriptions, names_host=False)
    lines += [f"levels differ between runs: {line}" for line in levels]
    lines.append("The last run:")
    return "\n".join(lines)


def _tabulate_usual_numbers(usual: UsualNumbers) -> str:
    """Tabulate each number of a host: the usual number, and the range and course of its
    runs. A number is named by benchmark, variant, setting (`about`) and relation.
    """
    titles = (
        "benchmark",
        "of",
        "usual",
        "±95%",
        "runs",
        "min",
        "max",
        "oldest to newest",
    )
    by_number = usual.rows.groupby(_NUMBER, sort=False)
    medians_of_runs = by_number["median_ns"]
    rows = []
    for row in text.to_records(usual.table):
        number = tuple(row[name] for name in _NUMBER)
        benchmark = usual.descriptions[row["benchmark"]]
        medians = medians_of_runs.get_group(number)
        rows.append(_describe_usual_number(row, medians, benchmark))
    number_columns = {2, 3, 4, 5, 6}  # from "usual" to "max"
    return table(titles, rows, number_columns)


def _describe_usual_number(
    row: Mapping[str, Any], medians: "pd.Series[float]", benchmark: Benchmark
) -> tuple[str, ...]:
    """Return the cells of a number.

    row: of `summarize_hosts`; `levels` are the levels at which the host's runs lie, the
    main level first, at which most are. medians: of each run, in ns, oldest first.
    """
    choice = f"{row['benchmark']}/{row['variant']}".rstrip("/")
    ends = [medians.min(), medians.max()]
    if text.is_rate(benchmark):
        ends.reverse()  # the longest time is the lowest rate
    main_level = row["levels"][0]
    course = ""
    if len(medians) > 1:
        course = draw_sparkline(medians)
    return (
        f"{choice} {row['about']}".rstrip(),
        row["relation"],
        text.format_value(benchmark, row["median_ns"]),
        text.format_half_width(row["half"]),
        f"{main_level.runs} of {len(medians)}",
        *[text.format_value(benchmark, ns) for ns in ends],
        course,
    )

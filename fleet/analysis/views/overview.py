"""Show many hosts on one screen, also after `fleet run`: all of them, or the extreme
ones.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.selection import MissingHost
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.views.heatmap import Canvas
from fleet.analysis.views.host_columns import Cell, group_columns
from fleet.analysis.views.host_order import sort_hosts
from fleet.analysis.views.host_tables import lay_out_hosts
from fleet.analysis.views.usual import (
    describe_interval,
    list_last_changes,
    list_several_levels,
)
from fleet.hostnames import join_names
from fleet.model import SHIPPED, Benchmark, Descriptions, RunState
from fleet.store import RunSummary
from fleet.text import format_count, one_line
from fleet.text import table as laid_out

_LISTED = 3  # hosts that are named as changed, and numbers that are at several levels
_NAMES_LENGTH = 60  # characters of the hosts without numbers


def render_host_table(
    table: pd.DataFrame,
    canvas: Canvas,
    descriptions: Descriptions = SHIPPED,
    sort: str | None = None,
) -> str:
    """Render a table of `summarize_hosts`; empty without numbers.

    sort: the column by which hosts are sorted, by default the fastest first by all of
    them. Raises UsageError if there is none.
    """
    if table.empty:
        return ""
    hosts, order = sort_hosts(table, sort)
    body = lay_out_hosts(hosts, group_columns(table, descriptions), canvas)
    further_words = _explain_host_table(table, body, order)
    lines = [body, *_explain_numbers(table, descriptions, further_words)]
    has_known_intervals = table["half"].notna().any()
    if has_known_intervals:
        lines.append(_explain_intervals(table, are_shown="±" in body))
    return "\n".join(lines)


def _explain_host_table(table: pd.DataFrame, body: str, order: str) -> str:
    """Say what a table of hosts has beside numbers, as the end of the line on the
    numbers. body: the table as text. order: the order of the hosts, in words, "" if it
    needs none.
    """
    words = ""
    # the column is there only if a host has many flagged bursts
    has_flagged_column = " flagged" in body
    if has_flagged_column:
        words += "; flagged: of bursts"
    if table["runs"].max() > 1:
        words += "\nof several runs: the geometric mean of those at the main level"
    if order:
        words += f"\norder of hosts: {order}"
    return words


def _explain_intervals(table: pd.DataFrame, *, are_shown: bool) -> str:
    """Say what ±95% is; if the table does not show it, also how large it is."""
    interval = f"±95%: {describe_interval(table)}"
    if are_shown:
        return interval
    median_half = table["half"].median()
    largest_half = table["half"].max()
    widths = text.describe_half_widths("half of them", median_half, largest_half)
    return f"{interval}; {widths}"


def render_extremes(
    table: pd.DataFrame, width: int | None, descriptions: Descriptions = SHIPPED
) -> str:
    """Render the fastest and slowest host of each overview column. table: from
    `summarize_hosts`.
    """
    titles = ("benchmark", "of", "hosts", "median", "min", "fastest", "max", "slowest")
    rows = []
    for group in group_columns(table, descriptions):
        for column, cells in group.columns.items():
            extremes = _describe_extremes(cells.values(), group.benchmark)
            row = (group.title, column, *extremes)
            rows.append(row)
    number_columns = {2, 3, 4, 6}  # hosts, median, min and max
    dropped_if_too_wide = ("hosts", "fastest")
    body = laid_out(titles, rows, number_columns, width=width, drop=dropped_if_too_wide)
    further_words = "; median, min, max: of the hosts"
    legend = _explain_numbers(table, descriptions, further_words)
    return "\n".join([body, *legend])


def _describe_extremes(cells: Iterable[Cell], benchmark: Benchmark) -> tuple[str, ...]:
    """Return the count of hosts and their median, then number and name of the fastest
    host, and of the slowest. cells: one for each host that has a number.
    """
    ordered = sorted(cells, key=lambda cell: cell.ns)
    fastest = ordered[0]
    slowest = ordered[-1]
    numbers = [cell.ns for cell in ordered]
    middle_ns = float(np.median(numbers))
    return (
        f"{len(ordered):,}",
        text.format_value(benchmark, middle_ns),
        fastest.text,
        fastest.host,
        slowest.text,
        slowest.host,
    )


def _explain_numbers(
    table: pd.DataFrame, descriptions: Descriptions, further_words: str
) -> Iterator[str]:
    """Yield the legend, line by line: what relations and numbers are, then hosts that
    changed or are at several levels.

    table: from `summarize_hosts`. further_words: on the columns that the table has.
    They end the line on the numbers, so they begin with "; " or a line break.
    """
    relations = text.explain_relations(table["relation"])
    if relations:
        yield relations
    units = text.describe_units(table["benchmark"], descriptions)
    yield f"numbers: {units}, median of the pairs{further_words}"
    last_changes = list_last_changes(table)
    if last_changes:
        yield one_line(f"numbers since the last change: {_list_first(last_changes)}")
    switching = list_several_levels(table, descriptions)
    for line in switching[:_LISTED]:
        yield f"levels differ between runs: {line}"
    more = len(switching) - _LISTED
    if more > 0:
        yield f"levels differ between runs of {more} more"


def _list_first(lines: Sequence[str]) -> str:
    """List the first lines, and say how many more there are."""
    words = "; ".join(lines[:_LISTED])
    more = len(lines) - _LISTED
    return f"{words}, and {more} more" if more > 0 else words


def name_hosts_without_numbers(
    table: pd.DataFrame, runs: Sequence[RunSummary], only: Only = ALL
) -> str:
    """Name the hosts that lack a number, with the reason, a line per reason. Such a
    host measured a benchmark of which `table` has no number. If `only` restricts what
    is shown, a host is named if `table` has no number of it at all.

    table: from `summarize_hosts`. runs: the runs that are shown.
    """
    rows_by_host = table.groupby("host_id")
    benchmarks_by_host = rows_by_host["benchmark"].agg(set).to_dict()
    hosts_by_reason: dict[str, dict[str, None]] = {}
    for run in runs:
        benchmarks = benchmarks_by_host.get(run.host_id, set())
        reason = _explain_absence(run, benchmarks, only)
        if reason:
            # a dict without values keeps each host once, in order
            hosts = hosts_by_reason.setdefault(reason, {})
            hosts[run.host_name] = None
    lines = []
    for reason, hosts in hosts_by_reason.items():
        lines.append(one_line(f"{join_names(hosts, _NAMES_LENGTH)}: {reason}"))
    return "\n".join(lines)


def _explain_absence(run: RunSummary, benchmarks: Collection[str], only: Only) -> str:
    """Say what a table lacks of a run's host; "" if nothing. benchmarks: those of which
    the table has a number of this host. only: what is shown, ALL if all.
    """
    # A restricted table lacks most benchmarks of a run, as was asked for. As a text,
    # `only` is the end of a sentence: " of cas of CPUs 0-7".
    if only != ALL:
        return "" if benchmarks else f"nothing was measured{only}"
    run_benchmarks = {choice.split("/")[0] for choice in run.benchmarks}
    absent = sorted(run_benchmarks.difference(benchmarks))
    if not absent:
        return ""
    return (
        f"no number of {', '.join(absent)} fits this table; `fleet show HOST` prints"
        " what there is, or why it failed; --ladder prints each size"
    )


def render_heading(
    runs: Sequence[RunSummary],
    left_out: int = 0,
    missing: Sequence[MissingHost] = (),
    command: str = "show",
) -> str:
    """Say how many hosts and runs are shown, "2 of 3 hosts, 4 runs", and from when.
    Then say which hosts are missing, and the command that shows all.

    left_out: how many hosts have runs that are not shown. missing: hosts that a session
    could not measure. command: the command of `fleet` that prints this.
    """
    span = text.format_span(runs[0].started_utc, runs[-1].started_utc)
    parts = [
        _count_hosts(runs, left_out, missing),
        format_count(len(runs), "run"),
        f"{span} UTC",
    ]
    partial = sum(run.state is RunState.PARTIAL for run in runs)
    if partial:
        parts.append(f"{partial} partial")
    heading = ", ".join(parts)
    if left_out:
        heading += f"; all: fleet {command} all"
    if missing:
        heading += f"; missing: {', '.join(map(str, missing))}"
    return heading


def _count_hosts(
    runs: Sequence[RunSummary], left_out: int, missing: Sequence[MissingHost]
) -> str:
    """Return "2 hosts", or "2 of 3 hosts" if some are not shown."""
    hosts_shown = len({run.host_name for run in runs})
    without_runs = sum(not host.has_runs for host in missing)
    total = hosts_shown + left_out + without_runs
    hosts = format_count(total, "host")
    return f"{hosts_shown} of {hosts}" if hosts_shown < total else hosts

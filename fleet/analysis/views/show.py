"""Text, JSON and CSV of `fleet show`: one run by its sections, or several by host."""

from collections.abc import Iterator, Sequence
from typing import Any

from fleet.analysis.base import selection
from fleet.analysis.base.text import (
    format_csv,
    format_document,
    format_json,
    indent_lines,
)
from fleet.analysis.reduce import ladders, load
from fleet.analysis.reduce.cross_checks import check_run
from fleet.analysis.reduce.line_place import explain_place_scatter
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology_check import check_topology, load_host_history
from fleet.analysis.views import overview
from fleet.analysis.views.chosen_runs import RunsToShow
from fleet.analysis.views.heatmap import NO_LIMIT, Canvas
from fleet.analysis.views.marked_rows import select_marked_rows
from fleet.analysis.views.message_directions import render_message_directions
from fleet.analysis.views.run_data import RunData, load_run_data
from fleet.analysis.views.run_history import render_host_history
from fleet.analysis.views.run_page import Detail, RunPage
from fleet.analysis.views.usual import UsualNumbers, load_usual_numbers
from fleet.analysis.views.warnings import (
    fold_warnings,
    list_warnings,
    render_warnings,
)
from fleet.errors import UsageError
from fleet.store import RunSummary
from fleet.store.runs import Root
from fleet.text import format_command

_BRIEF = Detail()
_NO_DIRECTIONS = "No messages were measured, so there are no directions to show."


def show_as_json(
    root: Root,
    run_ids: Sequence[str],
    only: Only = ALL,
    missing: Sequence[selection.MissingHost] = (),
) -> Iterator[str]:
    """Yield one JSON document about these runs, in pieces, a row per run. A missing
    host comes last, with the `state` "missing" and empty lists.

    Keys of a row:

    - `run`: what is stored of the run;
    - `cpus`: in the order of the topology;
    - `relations`, `pairs`: in ns per unit of work;
    - `number`: the column of `pairs` that the text shows;
    - `plateaus`, `ladder`, `nodes`: per memory level, per size, and per NUMA node of
      CPUs and of memory; in ns per unit by all threads together, so that 1 /
      `median_ns` is GB/s where the unit is a byte;
    - `counters`: counted events per unit of work, from `count_per_unit`.
    """
    # The document of all rows can be large, so its rows are put one by one into an
    # empty document, between its brackets.
    start, end = format_document("show", []).split("[]")
    yield f"{start}["
    separator = "\n"
    for row in _iter_objects(root, run_ids, only, missing):
        yield separator
        yield _indent_as_row(format_json(row))
        separator = ",\n"
    yield f"\n  ]{end}\n"


def _indent_as_row(formatted: str) -> str:
    """Indent a JSON object by two levels: it stands in the list of a document."""
    return indent_lines(indent_lines(formatted))


def _iter_objects(
    root: Root,
    run_ids: Sequence[str],
    only: Only,
    missing: Sequence[selection.MissingHost],
) -> Iterator[dict[str, Any]]:
    """Yield the object of each run, then of each missing host."""
    for run_id in run_ids:
        yield _make_run_object(load_run_data(root, run_id, only))
    for host in missing:
        yield _make_missing_object(host)


def _make_run_object(data: RunData) -> dict[str, Any]:
    """Return the row of a run, with the keys of `show_as_json`. Columns that are the
    same in all rows of a table, such as `run_id`, are left out; so is `probe`, the
    host's answer about its facts.
    """
    memory = data.memory
    run = {key: value for key, value in data.run.items() if key != "probe"}
    numbers = ["median_ns", "low_ns", "high_ns"]
    step_columns = [*ladders.LADDER, "bytes", "pages", *numbers]
    node_columns = [*ladders.NODE_CELL, "threads", "ping_cpu", "pong_cpu", *numbers]
    return {
        "run": run,
        "cpus": list(data.order.cpus),
        "number": data.number_column,
        "relations": data.relations.drop(columns=["run_id", "point"]),
        "plateaus": memory.levels.drop(columns=["host_id", "run_id"]),
        "ladder": memory.steps[step_columns],
        "nodes": memory.nodes[node_columns],
        "counters": data.counters,
        "pairs": data.pairs.drop(columns=["host_id", "run_id", "stats_version"]),
    }


def _make_missing_object(host: selection.MissingHost) -> dict[str, Any]:
    """Return the row of a missing host: keys of `show_as_json`, its lists empty."""
    run = {
        "host_name": host.name,
        "session_id": host.session_id,
        "state": "missing",
        "why": host.failure.message or "interrupted",
        "stage": host.failure.stage or None,
        "time_utc": host.failure.time_utc,
    }
    return {"run": run, "relations": [], "pairs": [], "cpus": []}


def show_as_csv(root: Root, run_ids: Sequence[str], only: Only = ALL) -> str:
    """Return the pairs of several runs as CSV: facts of the run, then the table
    `pairs`, unrounded.
    """
    pairs = as_float64(load_pairs(root, run_id=run_ids))
    runs, cpus = load.load_runs_and_cpus(root, run_id=run_ids)
    selected = only.select(pairs, cpus)
    rows = load.add_run_columns(selected, runs)
    return format_csv(rows).removesuffix("\n")


def show_runs(
    root: Root,
    to_show: RunsToShow,
    canvas: Canvas,
    only: Only = ALL,
    detail: Detail = _BRIEF,
    sort: str | None = None,
) -> str:
    """Render the last run of one host, or of several hosts a table with a row per host.

    detail: a table of several hosts uses only its `as_map`. sort: the column by which
    these hosts are sorted; None: the fastest first. Raises UsageError if `sort` is
    given for a single host.
    """
    if len(to_show.latest) > 1:
        return _show_hosts(root, to_show, canvas, only, sort, as_map=detail.as_map)
    if sort is not None:
        raise UsageError("--sort: sorts a table of hosts, and this is a single one.")
    (run_id,) = to_show.latest
    page = show_run(
        root, run_id, canvas=canvas, only=only, detail=detail, among=to_show
    )
    if not to_show.missing:
        return page
    # the page is of one run; only a heading names the hosts that are missing
    heading = overview.render_heading(to_show.runs, to_show.left_out, to_show.missing)
    return f"{heading}\n\n{page}"


def _show_hosts(
    root: Root,
    to_show: RunsToShow,
    canvas: Canvas,
    only: Only,
    sort: str | None,
    *,
    as_map: bool,
) -> str:
    """Render several hosts: a heading, a table, hosts without numbers, maps if asked
    for, and how to see more.
    """
    usual = load_usual_numbers(root, to_show.runs, only)
    runs = _select_runs_with_numbers(to_show.runs, usual, only)
    parts = [
        overview.render_heading(runs, to_show.left_out, to_show.missing),
        overview.render_host_table(usual.table, canvas, usual.descriptions, sort),
        overview.name_hosts_without_numbers(usual.table, to_show.runs, only),
    ]
    if as_map:
        parts += [render_maps(root, run_id, canvas, only) for run_id in to_show.latest]
    parts.append(_suggest_details(usual, to_show.runs))
    return _join_parts(parts)


def _select_runs_with_numbers(
    runs: Sequence[RunSummary], usual: UsualNumbers, only: Only
) -> Sequence[RunSummary]:
    """Return the runs that have a number of `only`; all if it is ALL."""
    if only == ALL:
        return runs
    run_ids = {*usual.rows["run_id"]}
    return [run for run in runs if run.run_id in run_ids] or runs


def _suggest_details(usual: UsualNumbers, runs: Sequence[RunSummary]) -> str:
    """Write the command that shows the first host with numbers; empty if none has
    any.
    """
    hosts_with_numbers = set(usual.table["host_id"])
    for run in runs:
        if run.host_id in hosts_with_numbers:
            return f"Details: {format_command('fleet', 'show', run.host_name)}"
    return ""


def show_run(
    root: Root,
    run_id: str,
    *,
    canvas: Canvas = NO_LIMIT,
    only: Only = ALL,
    detail: Detail = _BRIEF,
    among: RunsToShow | None = None,
) -> str:
    """Render one run: header, a table by relation, the matrix, the ladders, the
    warnings.

    among: the selection of which the run is the last; None if it was chosen by itself.
    If the selection has two or more comparable runs of the host, a table of their
    numbers is added.
    """
    data = load_run_data(root, run_id, only)
    page = RunPage(data, canvas, detail)
    parts = [page.render_head()]
    if among:
        parts.append("\n".join(among.lines_on_other_runs))
        parts.append(_render_history(root, among, only))
    parts += page.render_sections()
    if detail.both_ways:
        parts.append(render_message_directions(root, data.run) or _NO_DIRECTIONS)
    scatter = explain_place_scatter(root, data.run, data.descriptions)
    parts.append("\n".join(scatter))
    parts.append(_render_run_warnings(root, data))
    return _join_parts(parts)


def _render_history(root: Root, to_show: RunsToShow, only: Only) -> str:
    """Render the comparable runs of a host; empty for a single one."""
    if len(to_show.runs) < 2:
        return ""
    usual = load_usual_numbers(root, to_show.runs, only)
    return render_host_history(to_show.runs, usual)


def _render_run_warnings(root: Root, data: RunData) -> str:
    """Render the warnings and notes of a run; "" without any."""
    run = data.run
    run_id = run["run_id"]
    comparisons = check_run(run, data.pairs, data.memory, data.descriptions)
    history = load_host_history(root, run)
    findings = check_topology(data.pairs, history, data.descriptions)
    # counted here, since `select_marked_rows` may also be given marked bursts only
    burst_counts = {run_id: len(data.bursts)}
    marked_rows_by_run = select_marked_rows(data.pairs, data.bursts, burst_counts)
    marked_rows = marked_rows_by_run[run_id]
    warnings = list_warnings(run, marked_rows, comparisons, findings)
    folded = fold_warnings(warnings, run)
    return render_warnings(folded)


def render_maps(root: Root, run_id: str, canvas: Canvas, only: Only = ALL) -> str:
    """Render a run's heat maps, each below its benchmark and host; "" if nothing of
    `only` was measured.
    """
    try:
        data = load_run_data(root, run_id, only)
    except UsageError:
        return ""
    page = RunPage(data, canvas, Detail(as_map=True))
    return "\n\n".join(page.render_maps())


def render_overview(
    root: Root,
    runs: Sequence[RunSummary],
    canvas: Canvas,
    earlier: Sequence[RunSummary] = (),
    *,
    ends: bool,
) -> str:
    """Render an overview of runs; then name the hosts of which it has no number.

    earlier: comparable runs, which give only intervals. ends: if true, tabulate only
    the fastest and the slowest host of each number.
    """
    table, _, descriptions = load_usual_numbers(root, runs, earlier=earlier)
    if ends and len(table):
        hosts = overview.render_extremes(table, canvas.width, descriptions)
    else:
        hosts = overview.render_host_table(table, canvas, descriptions)
    without_numbers = overview.name_hosts_without_numbers(table, runs)
    return _join_parts([hosts, without_numbers])


def _join_parts(parts: Sequence[str]) -> str:
    """Join the parts of a page that are not empty, a blank line between two."""
    return "\n\n".join(part for part in parts if part)

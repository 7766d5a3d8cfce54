"""Text, JSON and CSV of `fleet show`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pandas as pd

from fleet.analysis.base.selection import (
    MissingHost,
    find_last_session,
    group_by_host,
    keep_comparable,
    list_missing_hosts,
    select_runs,
)
from fleet.analysis.base.text import format_csv, format_document, format_json, indent_lines
from fleet.analysis.compare.history import mark_usual
from fleet.analysis.reduce import load
from fleet.analysis.reduce.comparison_rows import ALL, Only, load_overview_history
from fleet.analysis.reduce.cross_checks import check_run
from fleet.analysis.reduce.ladders import LADDER, NODE_CELL, select_ladder_steps, select_node_cells
from fleet.analysis.reduce.line_place import describe_line_places
from fleet.analysis.reduce.matrices import relations
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology_check import check_topology, host_history
from fleet.analysis.views import overview
from fleet.analysis.views.heatmap import NO_LIMIT, Canvas
from fleet.analysis.views.history import render_history
from fleet.analysis.views.samples import render_directions
from fleet.analysis.views.sections import RunData, load_run_data, render_matrix, render_sections
from fleet.analysis.views.warnings import list_warnings, render_warnings, select_marked_rows
from fleet.errors import UsageError
from fleet.model import Descriptions, View
from fleet.store import Listing, RunSummary
from fleet.store.runs import Root


@dataclass(frozen=True, slots=True)
class RunsToShow:
    """Runs to show: those whose numbers count, oldest first, and the last run of each host.

    left_out: hosts with runs that the last session did not measure, where nothing was selected. missing:
    those of the selection that the last run's session or a later one could not measure.
    """

    runs: tuple[RunSummary, ...]
    latest: tuple[str, ...]
    left_out: int = 0
    missing: tuple[MissingHost, ...] = ()


def show_as_json(
    root: Root, run_ids: Sequence[str], only: Only = ALL, missing: Sequence[MissingHost] = ()
) -> Iterator[str]:
    """Yield runs for programs, in pieces of one JSON document.

    A run has `run`, `relations`, `pairs` (ns of a unit) and `cpus` in topology order. A missing host comes
    last, with `run` and these lists empty; the `state` of its `run` is "missing".

    `plateaus`, `ladder`: of benchmarks of memory, a row per level and per size; in ns of one unit by all
    threads together, so that 1 / `median_ns` of a byte is GB/s. counters: for each unit. number: the column
    of `pairs` that is the run's number.
    """
    start, end = format_document("show", []).split("[]")
    yield f"{start}["
    objects = chain(
        (_make_object(load_run_data(root, run_id, only)) for run_id in run_ids),
        map(_make_empty_object, missing),
    )
    for place, row in enumerate(objects):
        yield ",\n" if place else "\n"
        yield indent_lines(indent_lines(format_json(row)))
    yield f"\n  ]{end}\n"


def _make_empty_object(host: MissingHost) -> dict[str, Any]:
    run = {"host_name": host.name, "session_id": host.session_id, "state": "missing"}
    run |= {"why": host.why or "interrupted", "time_utc": host.time_utc}
    return {"run": run, "relations": [], "pairs": [], "cpus": []}


def show_run(
    root: Root,
    run_id: str,
    *,
    canvas: Canvas = NO_LIMIT,
    only: Only = ALL,
    all_sizes: bool = False,
    both_ways: bool = False,
    as_map: bool = False,
    earlier: Sequence[RunSummary] = (),
) -> str:
    """Render one run: header, a table by relation, the matrix, the ladders, the warnings.

    all_sizes: every size of ladders and every counted event. both_ways: with the directions of messages.
    as_map: as in `draw_matrix`. earlier: comparable runs of the host, for a table of several.
    """
    data = load_run_data(root, run_id, only)
    run, pairs, descriptions = data.run, data.pairs, data.descriptions
    parts = [*render_sections(data, canvas, all_sizes=all_sizes, as_map=as_map)]
    if len(earlier) > 1:
        past = load.merge_descriptions(earlier)
        cells = mark_usual(root, load_overview_history(root, earlier, only, past))
        parts.insert(1, render_history(earlier, cells, past))
    if both_ways:
        none = "No messages were measured, so there are no directions to show."
        parts.append(render_directions(root, run) or none)
    parts.append("\n".join(describe_line_places(root, run, descriptions)))
    checked = check_run(run, pairs, data.cpus, descriptions)
    findings = check_topology(pairs, host_history(root, run, descriptions), descriptions)
    rows = select_marked_rows(pairs, data.bursts, {run_id: len(data.bursts)})[run_id]
    parts.append(render_warnings(list_warnings(run, rows, checked, findings)))
    return "\n\n".join(filter(None, parts))


def render_maps(root: Root, run_id: str, canvas: Canvas, only: Only = ALL) -> str:
    """Render the heat maps of one run below its name; empty where it lacks the benchmark."""
    try:
        data = load_run_data(root, run_id, only)
    except UsageError:
        return ""
    maps = []
    kinds = load.drop_points(data.pairs, data.descriptions).groupby(["benchmark", "variant"], sort=False)
    for (name, variant), part in kinds:
        if data.descriptions[str(name)].view is View.MATRIX:
            drawn = render_matrix(part, data, canvas, as_map=True)
            maps.append(f"{name}/{variant} on {data.run['host_name']}\n{drawn}")
    return "\n\n".join(maps)


def show_as_csv(root: Root, run_ids: Sequence[str], only: Only = ALL) -> str:
    """Return the pairs of several runs as CSV: facts of the run, then the table `pairs`, unrounded."""
    rows = as_float64(load_pairs(root, run_id=run_ids))
    rows = only.of(rows, load.load_cpus(root, run_id=run_ids) if only.cpus else rows)
    return format_csv(load.add_run_columns(rows, load.load_runs(root, run_id=run_ids))).removesuffix("\n")


def _make_object(data: RunData) -> dict[str, Any]:
    pairs, descriptions = data.pairs, data.descriptions
    steps = select_ladder_steps(pairs, descriptions)
    nodes = select_node_cells(pairs, data.cpus, descriptions)
    tables = {
        "relations": relations(load.drop_points(pairs, descriptions), data.number),
        "plateaus": data.plateaus.drop(columns=["host_id", "run_id"]),
        "ladder": steps[[*LADDER, "bytes", "pages", "median_ns", "low_ns", "high_ns"]],
        "nodes": nodes[[*NODE_CELL, "threads", "ping_cpu", "pong_cpu", "median_ns", "low_ns", "high_ns"]],
        "counters": data.counters,
        "pairs": pairs.drop(columns=["host_id", "run_id", "stats_version"]),
    }
    run = {key: value for key, value in data.run.items() if key != "probe"}
    return {"run": run, "cpus": list(data.order.cpus), "number": data.number, **tables}


def select_runs_to_show(root: Listing, texts: Sequence[str]) -> RunsToShow:
    """Return the comparable runs of the selected hosts, or the last session without `texts`.

    Raises UsageError.
    """
    listed, left_out = root.runs, 0
    chosen = texts or find_last_session(listed, root.place)
    hosts = group_by_host(select_runs(listed, chosen, root.place))
    comparable_runs = [keep_comparable(runs) for runs in hosts.values()]
    ids = {run.run_id for runs in comparable_runs for run in runs}
    counting = tuple(run for run in listed if run.run_id in ids)
    missing = list_missing_hosts(listed, root.place, counting[-1].session_id)
    if texts:
        missing = [host for host in missing if host.is_selected_by(texts)]
    else:
        left_out = len({run.host_id for run in listed}) - len(hosts)
    latest = tuple(runs[-1].run_id for runs in comparable_runs)
    return RunsToShow(counting, latest, left_out, tuple(missing))


def show_runs(root: Root, shown: RunsToShow, canvas: Canvas, only: Only = ALL, **detail: Any) -> str:
    """Render the selection. detail: as of `show_run`; only `as_map` applies to several hosts."""
    heading = overview.render_heading(shown.runs, shown.left_out, shown.missing)
    if len(shown.latest) == 1:
        text = show_run(root, shown.latest[0], canvas=canvas, only=only, earlier=shown.runs, **detail)
        return f"{heading}\n\n{text}" if shown.missing else text
    descriptions = load.merge_descriptions(shown.runs)
    history = mark_usual(root, load_overview_history(root, shown.runs, only, descriptions))
    table = overview.compute_host_medians(history)
    parts = [heading, _render_hosts(table, shown.runs, canvas, only, descriptions)]
    if detail.get("as_map"):
        parts += [render_maps(root, run_id, canvas, only) for run_id in shown.latest]
    hosts_with_numbers = set(table["host_id"])
    named = (run.host_name for run in shown.runs if run.host_id in hosts_with_numbers)
    parts += [f"Details: fleet show {name}" for name in islice(named, 1)]
    return "\n\n".join(filter(None, parts))


def render_overview(
    root: Root, runs: Sequence[RunSummary], canvas: Canvas, earlier: Sequence[RunSummary] = (), *, ends: bool
) -> str:
    """Render the overview of runs and what it omits. earlier: runs like them. ends: extreme hosts only."""
    descriptions = load.merge_descriptions([*earlier, *runs])
    history = load_overview_history(root, [*earlier, *runs], ALL, descriptions)
    if earlier:
        own = history[history["run_id"].isin({run.run_id for run in runs})]
        table = overview.compute_host_medians(own, history)
    else:
        table = overview.compute_host_medians(mark_usual(root, history))
    return _render_hosts(table, runs, canvas, ALL, descriptions, ends=ends)


def _render_hosts(
    table: pd.DataFrame,
    runs: Sequence[RunSummary],
    canvas: Canvas,
    only: Only,
    descriptions: Descriptions,
    *,
    ends: bool = False,
) -> str:
    if ends and len(table):
        text = overview.render_extremes(table, canvas.width, descriptions)
    else:
        text = overview.render_host_table(table, canvas, descriptions)
    return "\n\n".join(filter(None, (text, overview.name_hosts_without_numbers(table, runs, only))))

"""Text, JSON and CSV of `fleet show`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from fleet.analysis.base.text import format_csv, format_document, format_json, indent_lines, to_records
from fleet.analysis.compare.history import mark_usual
from fleet.analysis.reduce import load
from fleet.analysis.reduce.comparison_rows import ALL, Only, load_overview_history
from fleet.analysis.reduce.cross_checks import check_run
from fleet.analysis.reduce.ladders import (
    LADDER,
    NODE_CELL,
    find_plateaus,
    is_node_placed,
    select_ladder_steps,
    select_node_cells,
)
from fleet.analysis.reduce.line_place import describe_line_places
from fleet.analysis.reduce.matrices import estimator_column, relations
from fleet.analysis.reduce.memory_peak import describe_memory
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.reduce.topology_check import check_topology, host_history
from fleet.analysis.views import overview, sections
from fleet.analysis.views.counters import count_per_unit, tabulate_events
from fleet.analysis.views.heatmap import NO_LIMIT, Canvas
from fleet.analysis.views.history import render_history
from fleet.analysis.views.ladders import render_ladder
from fleet.analysis.views.point_tables import (
    render_tables,
    tabulate_homes,
    tabulate_nodes,
    tabulate_points,
    tabulate_products,
)
from fleet.analysis.views.samples import render_directions
from fleet.analysis.views.warnings import BURST_COLUMNS, list_warnings, render_warnings, select_marked_rows
from fleet.errors import UsageError
from fleet.model import Descriptions, View, read_descriptions
from fleet.store import Listing, RunSummary
from fleet.store.runs import Root
from fleet.text import one_line


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
    for place, run_id in enumerate(run_ids):
        yield ",\n" if place else "\n"
        yield indent_lines(indent_lines(format_json(_make_object(_load(root, run_id, only)))))
    for host in missing:
        run = {"host_name": host.name, "session_id": host.session_id, "state": "missing"}
        run |= {"why": host.why or "interrupted", "time_utc": host.time_utc}
        row = format_json({"run": run, "relations": [], "pairs": [], "cpus": []})
        yield f"{',' if run_ids else ''}\n{indent_lines(indent_lines(row))}"
    yield f"\n  ]{end}\n"


_OF_CELL = ("ping_cpu", "pong_cpu", "median_ns", "low_ns", "high_ns")
_MOST_EVENTS = 20  # lines of events that are printed without being asked for


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
    run_data = _load(root, run_id, only)
    descriptions = run_data.descriptions
    parts = _render_parts(run_data, canvas, all_sizes=all_sizes, as_map=as_map)
    if len(earlier) > 1:
        past = load.merge_descriptions(earlier)
        cells = mark_usual(root, load_overview_history(root, earlier, only, past))
        parts.insert(1, render_history(earlier, cells, past))
    if both_ways:
        none = "No messages were measured, so there are no directions to show."
        parts.append(render_directions(root, run_data.run) or none)
    parts.append("\n".join(describe_line_places(root, run_data.run, descriptions)))
    checked = check_run(run_data.run, run_data.pairs, run_data.cpus, descriptions)
    findings = check_topology(run_data.pairs, host_history(root, run_data.run, descriptions), descriptions)
    rows = select_marked_rows(run_data.pairs, run_data.bursts, {run_id: len(run_data.bursts)})[run_id]
    parts.append(render_warnings(list_warnings(run_data.run, rows, checked, findings)))
    return "\n\n".join(part for part in parts if part)


def _render_parts(run_data: "_Found", canvas: Canvas, *, all_sizes: bool, as_map: bool) -> list[str]:
    legend, descriptions = True, run_data.descriptions
    memory = describe_memory(run_data.run, run_data.pairs, run_data.cpus, descriptions)
    parts = [
        "\n".join(
            [sections.render_header(run_data.run, run_data.order, run_data.cpus), *map(one_line, memory)]
        )
    ]
    for name, rows in run_data.pairs[~is_node_placed(run_data.pairs, descriptions)].groupby(
        "benchmark", sort=False
    ):
        for variant, part in rows.groupby("variant", sort=False):
            match descriptions[str(name)].view:
                case View.CPUS:
                    parts.append(sections.render_cpus(part, run_data.order, descriptions))
                case View.MATRIX:
                    for _, point_pairs in part.groupby("point", sort=False, dropna=False):
                        how = {"legend": legend, "as_map": as_map}
                        parts.append(
                            sections.render_pairs(
                                point_pairs,
                                run_data.order,
                                canvas,
                                run_data.run,
                                descriptions=descriptions,
                                **how,
                            )
                        )
                        legend = False
                case View.LADDER:
                    parts.append(
                        render_ladder(
                            part, run_data.plateaus, descriptions, all_sizes=all_sizes, width=canvas.width
                        )
                    )
                case View.TABLE | View.BLOCKS:
                    parts.append(render_tables(tabulate_points(part, descriptions), canvas.width))
                case View.PRODUCTS:
                    parts.append(render_tables(tabulate_products(part, descriptions), canvas.width))
            parts.append(
                _events_text(run_data, (str(name), str(variant)), canvas.width, all_events=all_sizes)
            )
    by_nodes = tabulate_nodes(run_data.pairs, run_data.cpus, run_data.run, descriptions)
    by_nodes += tabulate_homes(run_data.pairs, run_data.cpus, descriptions)
    parts += [render_tables(tables, canvas.width) for tables in by_nodes]
    return parts


def _events_text(run_data: "_Found", kind: tuple[str, str], width: int | None, *, all_events: bool) -> str:
    """Render the events of a benchmark and variant; beyond _MOST_EVENTS lines, say how to see them."""
    rows = run_data.counters
    tables = tabulate_events(
        rows[(rows["benchmark"] == kind[0]) & (rows["variant"] == kind[1])],
        run_data.run["hello"],
        run_data.descriptions,
    )
    if tables is None:
        return ""
    count = sum(len(point_table.lines) for point_table in tables.tables)
    if all_events or count <= _MOST_EVENTS:
        return render_tables(tables, width)
    return f"{tables.name}: {tables.legend}; --ladder prints them: {count} lines"


def render_maps(root: Root, run_id: str, canvas: Canvas, only: Only = ALL) -> str:
    """Render the heat maps of one run below its name; empty where it lacks the benchmark."""
    try:
        run_data = _load(root, run_id, only)
    except UsageError:
        return ""
    maps, descriptions = [], run_data.descriptions
    kinds = load.drop_points(run_data.pairs, descriptions).groupby(["benchmark", "variant"], sort=False)
    for (name, variant), part in kinds:
        if descriptions[str(name)].view is View.MATRIX:
            drawn = sections.render_matrix(
                part, run_data.order, canvas, run_data.run, descriptions, as_map=True
            )
            maps.append(f"{name}/{variant} on {run_data.run['host_name']}\n{drawn}")
    return "\n\n".join(maps)


def show_as_csv(root: Root, run_ids: Sequence[str], only: Only = ALL) -> str:
    """Return the pairs of several runs as CSV: facts of the run, then the table `pairs`, unrounded."""
    rows = as_float64(load_pairs(root, run_id=run_ids))
    rows = only.of(rows, load.load_cpus(root, run_id=run_ids) if only.cpus else rows)
    return format_csv(load.add_run_columns(rows, load.load_runs(root, run_id=run_ids))).removesuffix("\n")


def _make_object(run_data: "_Found") -> dict[str, Any]:
    number, descriptions = estimator_column(run_data.run), run_data.descriptions
    return {
        "run": {key: value for key, value in run_data.run.items() if key != "probe"},
        "cpus": list(run_data.order.cpus),
        "number": number,
        "relations": to_records(relations(load.drop_points(run_data.pairs, descriptions), number)),
        "plateaus": to_records(run_data.plateaus.drop(columns=["host_id", "run_id"])),
        "ladder": to_records(
            select_ladder_steps(run_data.pairs, descriptions)[
                [*LADDER, "bytes", "pages", "median_ns", "low_ns", "high_ns"]
            ]
        ),
        "nodes": to_records(
            select_node_cells(run_data.pairs, run_data.cpus, descriptions)[[*NODE_CELL, "threads", *_OF_CELL]]
        ),
        "counters": to_records(run_data.counters),
        "pairs": to_records(run_data.pairs.drop(columns=["host_id", "run_id", "stats_version"])),
    }


@dataclass(frozen=True, slots=True)
class _Found:
    """A run as the sections need it. pairs: in the order of the plan. bursts: all. counters: by unit."""

    run: dict[str, Any]
    bursts: pd.DataFrame
    pairs: pd.DataFrame
    cpus: pd.DataFrame
    plateaus: pd.DataFrame
    order: Layout
    counters: pd.DataFrame
    descriptions: Descriptions


def _load(root: Root, run_id: str, only: Only) -> _Found:
    (run,), _, cpus = load.read_runs(root, [run_id])
    pairs = _sort_as_planned(as_float64(load_pairs(root, run_id=run_id)), run["benchmarks"])
    pairs = only.of(pairs, cpus)
    measured = sorted(set(pairs["ping_cpu"]) | set(pairs["pong_cpu"]))
    bursts = load.load_samples(root, run_id=run_id, columns=BURST_COLUMNS)
    counters = count_per_unit(load.load_counters(root, run_id=run_id), pairs)
    descriptions = read_descriptions(run["hello"])
    levels, order = find_plateaus(pairs, cpus, descriptions), make_layout(cpus, measured)
    return _Found(run, bursts, pairs, cpus, levels, order, counters, descriptions)


def _sort_as_planned(pairs: pd.DataFrame, benchmarks: Sequence[str]) -> pd.DataFrame:
    """Sort rows by the order of their benchmarks in the plan; `benchmarks` as in the `runs` table."""
    places = {name: place for place, name in enumerate(benchmarks)}
    names = pairs["benchmark"] + "/" + pairs["variant"]
    place = names.map(lambda name: places.get(name, len(places)))
    return pairs.iloc[place.argsort(kind="stable")].reset_index(drop=True)


def select_runs_to_show(root: Listing, texts: Sequence[str]) -> RunsToShow:
    """Return the comparable runs of the selected hosts, or the last session without `texts`.

    Raises UsageError.
    """
    listed = root.runs
    if texts:
        hosts = group_by_host(select_runs(listed, texts, root.place))
    else:
        last = set(find_last_session(listed, root.place))
        hosts = group_by_host([run for run in listed if run.run_id in last])
    comparable_runs = {host: keep_comparable(runs) for host, runs in hosts.items()}
    ids = {run.run_id for runs in comparable_runs.values() for run in runs}
    counting = tuple(run for run in listed if run.run_id in ids)
    latest = tuple(runs[-1].run_id for runs in comparable_runs.values())
    missing = list_missing_hosts(listed, root.place, counting[-1].session_id)
    if texts:
        return RunsToShow(counting, latest, 0, tuple(host for host in missing if host.is_selected_by(texts)))
    left_out = len({run.host_id for run in listed}) - len(hosts)
    return RunsToShow(counting, latest, left_out, tuple(missing))


def show_runs(root: Root, shown: RunsToShow, canvas: Canvas, only: Only = ALL, **detail: Any) -> str:
    """Render the selection. detail: as of `show_run`; only `as_map` applies to several hosts."""
    heading = overview.render_heading(shown.runs, shown.left_out, shown.missing)
    if len(shown.latest) == 1:
        text = show_run(root, shown.latest[0], canvas=canvas, only=only, earlier=shown.runs, **detail)
        return f"{heading}\n\n{text}" if shown.missing else text
    descriptions = load.merge_descriptions(shown.runs)
    table = _load_medians(root, shown.runs, only, descriptions)
    parts = [
        heading,
        _render_hosts(table, shown.runs, canvas, only, descriptions),
    ]
    if detail.get("as_map"):
        parts += [render_maps(root, run_id, canvas, only) for run_id in shown.latest]
    hosts_with_numbers = set(table["host_id"])
    parts += [
        f"Details: fleet show {run.host_name}" for run in shown.runs if run.host_id in hosts_with_numbers
    ][:1]
    return "\n\n".join(part for part in parts if part)


def render_overview(
    root: Root, runs: Sequence[RunSummary], canvas: Canvas, earlier: Sequence[RunSummary] = (), *, ends: bool
) -> str:
    """Render the overview of runs and what it omits. earlier: runs like them. ends: extreme hosts only."""
    descriptions = load.merge_descriptions([*earlier, *runs])
    table = _load_medians(root, runs, ALL, descriptions, earlier)
    return _render_hosts(table, runs, canvas, ALL, descriptions, ends=ends)


def _load_medians(
    root: Root,
    runs: Sequence[RunSummary],
    only: Only,
    descriptions: Descriptions,
    earlier: Sequence[RunSummary] = (),
) -> pd.DataFrame:
    history = load_overview_history(root, [*earlier, *runs], only, descriptions)
    if not earlier:
        return overview.compute_host_medians(mark_usual(root, history))
    return overview.compute_host_medians(
        history[history["run_id"].isin({run.run_id for run in runs})], history
    )


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

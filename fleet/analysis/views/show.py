"""What `fleet show` prints, as text, JSON and CSV."""

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
from fleet.analysis.base.text import format_csv, format_json, indent, to_records
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
from fleet.analysis.reduce.matrices import estimator_column, relations
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.reduce.topology_check import check_topology, host_history
from fleet.analysis.views import overview, sections
from fleet.analysis.views.by_parameters import render_tables, tabulate_points
from fleet.analysis.views.counters import count_per_unit, tabulate_events
from fleet.analysis.views.gemm import tabulate_products
from fleet.analysis.views.heatmap import NO_LIMIT, Canvas
from fleet.analysis.views.history import render_history
from fleet.analysis.views.ladders import render_ladder
from fleet.analysis.views.nodes import tabulate_nodes
from fleet.analysis.views.warnings import BURST_COLUMNS, list_warnings, render_warnings, select_marked_rows
from fleet.analysis.views.ways import render_directions
from fleet.errors import UsageError
from fleet.model import Descriptions, View, read_descriptions
from fleet.store import Listing, RunSummary
from fleet.store.runs import Root


@dataclass(frozen=True, slots=True)
class RunsToShow:
    """What is shown: the runs whose numbers count, oldest first, and the last run of each host.

    left_out: hosts with runs that the last session did not measure, where nothing was selected. missing:
    those that it or a later one could not measure.
    """

    runs: tuple[RunSummary, ...]
    latest: tuple[str, ...]
    left_out: int = 0
    missing: tuple[MissingHost, ...] = ()


def show_as_json(root: Root, run_ids: Sequence[str], only: Only = ALL) -> Iterator[str]:
    """Yield runs for programs, in pieces of one JSON list.

    Of each run: `run`, `relations`, `pairs` (ns of a unit), `cpus` in topology order.

    `plateaus`, `ladder`: of benchmarks of memory, a row per level and per size; in ns of one unit by all
    threads together, so that 1 / `median_ns` of a byte is GB/s. counters: for each unit. number: the column
    of `pairs` that is the run's number.
    """
    for place, run_id in enumerate(run_ids):
        yield "[\n" if place == 0 else ",\n"
        yield indent(format_json(_object(_load(root, run_id, only))))
    yield "\n]\n"


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
    """One run for people: what it was, a table by relation, the matrix, the ladders, the warnings.

    all_sizes: every size of ladders and every counted event. both_ways: with the directions of messages.
    as_map: as of `heatmap.draw`. earlier: the runs of the host like this one, for a table of several.
    """
    found = _load(root, run_id, only)
    descriptions = found.descriptions
    parts = _parts(found, canvas, all_sizes=all_sizes, as_map=as_map)
    if len(earlier) > 1:
        past = load.merge_descriptions(earlier)
        cells = mark_usual(root, load_overview_history(root, earlier, only, past))
        parts.insert(1, render_history(earlier, cells, past))
    if both_ways:
        none = "No messages were measured, so there are no directions to show."
        parts.append(render_directions(root, found.run) or none)
    checked = check_run(found.run, found.pairs, found.cpus, descriptions)
    findings = check_topology(found.pairs, host_history(root, found.run, descriptions), descriptions)
    rows = select_marked_rows(found.pairs, found.bursts, {run_id: len(found.bursts)})[run_id]
    parts.append(render_warnings(list_warnings(found.run, rows, checked, findings)))
    return "\n\n".join(part for part in parts if part)


def _parts(found: "_Found", canvas: Canvas, *, all_sizes: bool, as_map: bool) -> list[str]:
    legend, descriptions = True, found.descriptions
    parts = [sections.render_header(found.run, found.order)]
    for name, rows in found.pairs[~is_node_placed(found.pairs, descriptions)].groupby(
        "benchmark", sort=False
    ):
        for variant, part in rows.groupby("variant", sort=False):
            match descriptions[str(name)].view:
                case View.CPUS:
                    parts.append(sections.render_cpus(part, found.order, descriptions))
                case View.MATRIX:
                    for _, one in part.groupby("point", sort=False, dropna=False):
                        how = {"legend": legend, "as_map": as_map}
                        parts.append(
                            sections.render_pairs(
                                one, found.order, canvas, found.run, descriptions=descriptions, **how
                            )
                        )
                        legend = False
                case View.LADDER:
                    parts.append(
                        render_ladder(
                            part, found.plateaus, descriptions, all_sizes=all_sizes, width=canvas.width
                        )
                    )
                case View.TABLE | View.BLOCKS:
                    parts.append(render_tables(tabulate_points(part, descriptions), canvas.width))
                case View.PRODUCTS:
                    parts.append(render_tables(tabulate_products(part, descriptions), canvas.width))
            parts.append(_events_text(found, (str(name), str(variant)), canvas.width, whole=all_sizes))
    by_nodes = tabulate_nodes(found.pairs, found.cpus, found.run, descriptions)
    parts += [render_tables(tables, canvas.width) for tables in by_nodes]
    return parts


def _events_text(found: "_Found", kind: tuple[str, str], width: int | None, *, whole: bool) -> str:
    """What was counted in a benchmark and variant; of more than _MOST_EVENTS lines how to see them."""
    rows = found.counters
    tables = tabulate_events(
        rows[(rows["benchmark"] == kind[0]) & (rows["variant"] == kind[1])],
        found.run["hello"],
        found.descriptions,
    )
    if tables is None:
        return ""
    count = sum(len(one.lines) for one in tables.tables)
    if whole or count <= _MOST_EVENTS:
        return render_tables(tables, width)
    return f"{tables.name}: {tables.legend}; --ladder prints them: {count} lines"


def render_maps(root: Root, run_id: str, canvas: Canvas, only: Only = ALL) -> str:
    """The heat maps of one run, with no more than its name; empty where it lacks the benchmark."""
    try:
        found = _load(root, run_id, only)
    except UsageError:
        return ""
    maps, descriptions = [], found.descriptions
    kinds = load.drop_points(found.pairs, descriptions).groupby(["benchmark", "variant"], sort=False)
    for (name, variant), part in kinds:
        if descriptions[str(name)].view is View.MATRIX:
            drawn = sections.render_matrix(part, found.order, canvas, found.run, descriptions, as_map=True)
            maps.append(f"{name}/{variant} on {found.run['host_name']}\n{drawn}")
    return "\n\n".join(maps)


def show_as_csv(root: Root, run_ids: Sequence[str], only: Only = ALL) -> str:
    """Return the pairs of several runs as CSV: what each run was, then the table `pairs`, unrounded."""
    rows = as_float64(load_pairs(root, run_id=run_ids))
    rows = only.of(rows, load.load_cpus(root, run_id=run_ids) if only.cpus else rows)
    return format_csv(load.add_run_columns(rows, load.load_runs(root, run_id=run_ids))).removesuffix("\n")


def _object(found: "_Found") -> dict[str, Any]:
    number, descriptions = estimator_column(found.run), found.descriptions
    return {
        "run": {key: value for key, value in found.run.items() if key != "probe"},
        "cpus": list(found.order.cpus),
        "number": number,
        "relations": to_records(relations(load.drop_points(found.pairs, descriptions), number)),
        "plateaus": to_records(found.plateaus.drop(columns=["host_id", "run_id"])),
        "ladder": to_records(
            select_ladder_steps(found.pairs, descriptions)[
                [*LADDER, "bytes", "pages", "median_ns", "low_ns", "high_ns"]
            ]
        ),
        "nodes": to_records(
            select_node_cells(found.pairs, found.cpus, descriptions)[[*NODE_CELL, "threads", *_OF_CELL]]
        ),
        "counters": to_records(found.counters),
        "pairs": to_records(found.pairs.drop(columns=["host_id", "run_id", "stats_version"])),
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
    pairs = _as_planned(as_float64(load_pairs(root, run_id=run_id)), run["benchmarks"])
    pairs = only.of(pairs, cpus)
    measured = sorted(set(pairs["ping_cpu"]) | set(pairs["pong_cpu"]))
    bursts = load.load_samples(root, run_id=run_id, columns=BURST_COLUMNS)
    counters = count_per_unit(load.load_counters(root, run_id=run_id), pairs)
    descriptions = read_descriptions(run["hello"])
    levels, order = find_plateaus(pairs, cpus, descriptions), make_layout(cpus, measured)
    return _Found(run, bursts, pairs, cpus, levels, order, counters, descriptions)


def _as_planned(pairs: pd.DataFrame, benchmarks: Sequence[str]) -> pd.DataFrame:
    """The same rows with benchmarks in the order of the plan; `benchmarks` as in the `runs` table."""
    places = {name: place for place, name in enumerate(benchmarks)}
    names = pairs["benchmark"] + "/" + pairs["variant"]
    place = names.map(lambda name: places.get(name, len(places)))
    return pairs.iloc[place.argsort(kind="stable")].reset_index(drop=True)


def select_runs_to_show(root: Listing, texts: Sequence[str]) -> RunsToShow:
    """The last session without `texts`, else the comparable runs of each host selected. Raises UsageError."""
    listed = root.runs
    if texts:
        hosts = group_by_host(select_runs(listed, texts, root.place))
    else:
        last = set(find_last_session(listed, root.place))
        hosts = group_by_host([run for run in listed if run.run_id in last])
    kept = {host: keep_comparable(runs) for host, runs in hosts.items()}
    ids = {run.run_id for runs in kept.values() for run in runs}
    counting = tuple(run for run in listed if run.run_id in ids)
    latest = tuple(runs[-1].run_id for runs in kept.values())
    if texts:
        return RunsToShow(counting, latest)
    missing = list_missing_hosts(listed, root.place, counting[-1].session_id)
    left_out = len({run.host_id for run in listed}) - len(hosts)
    return RunsToShow(counting, latest, left_out, tuple(missing))


def show_runs(root: Root, shown: RunsToShow, canvas: Canvas, only: Only = ALL, **detail: Any) -> str:
    """The selection for people. detail: as of `show_text`; of several hosts only `as_map` applies."""
    heading = overview.render_heading(shown.runs, shown.left_out, shown.missing)
    if len(shown.latest) == 1:
        text = show_run(root, shown.latest[0], canvas=canvas, only=only, earlier=shown.runs, **detail)
        return f"{heading}\n\n{text}" if shown.missing else text
    descriptions = load.merge_descriptions(shown.runs)
    table = _medians(root, shown.runs, only, descriptions)
    parts = [
        heading,
        _listed(table, shown.runs, canvas, only, descriptions),
    ]
    if detail.get("as_map"):
        parts += [render_maps(root, run_id, canvas, only) for run_id in shown.latest]
    there = set(table["host_id"])
    parts += [f"Details: fleet show {run.host_name}" for run in shown.runs if run.host_id in there][:1]
    return "\n\n".join(part for part in parts if part)


def render_overview(
    root: Root, runs: Sequence[RunSummary], canvas: Canvas, earlier: Sequence[RunSummary] = (), *, ends: bool
) -> str:
    """The overview of runs, and what it leaves out. earlier: runs like them. ends: only the extreme hosts."""
    descriptions = load.merge_descriptions([*earlier, *runs])
    table = _medians(root, runs, ALL, descriptions, earlier)
    return _listed(table, runs, canvas, ALL, descriptions, ends=ends)


def _medians(
    root: Root,
    runs: Sequence[RunSummary],
    only: Only,
    descriptions: Descriptions,
    earlier: Sequence[RunSummary] = (),
) -> pd.DataFrame:
    known = load_overview_history(root, [*earlier, *runs], only, descriptions)
    if not earlier:
        return overview.compute_host_medians(mark_usual(root, known))
    return overview.compute_host_medians(known[known["run_id"].isin({run.run_id for run in runs})], known)


def _listed(
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

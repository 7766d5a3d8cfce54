"""Text, JSON and CSV of `fleet show`: one run by its sections, or several by host."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pandas as pd

from fleet.analysis.base import selection, text
from fleet.analysis.base.text import (
    format_csv,
    format_document,
    format_json,
    indent_lines,
)
from fleet.analysis.reduce import ladders, load
from fleet.analysis.reduce.cross_checks import check_run
from fleet.analysis.reduce.flags import PAIR_FLAGS
from fleet.analysis.reduce.line_place import explain_place_scatter
from fleet.analysis.reduce.matrices import (
    estimator_column,
    lay_out_matrix,
    summarize_relations,
)
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.reduce.topology_check import check_topology, load_host_history
from fleet.analysis.views import overview
from fleet.analysis.views.benchmark_tables import render_tables
from fleet.analysis.views.event_tables import count_per_unit, tabulate_events
from fleet.analysis.views.heatmap import NO_LIMIT, Canvas, draw_matrix
from fleet.analysis.views.ladder_tables import render_ladder
from fleet.analysis.views.marked_rows import BURST_COLUMNS, select_marked_rows
from fleet.analysis.views.message_directions import render_message_directions
from fleet.analysis.views.node_tables import tabulate_by_node, tabulate_line_nodes
from fleet.analysis.views.overview import render_host_history
from fleet.analysis.views.point_tables import tabulate_points
from fleet.analysis.views.product_tables import tabulate_gemm_points
from fleet.analysis.views.topology import describe_topology
from fleet.analysis.views.usual import UsualNumbers, load_usual_numbers
from fleet.analysis.views.warnings import list_warnings, render_warnings
from fleet.errors import UsageError
from fleet.model import Descriptions, View, read_descriptions, take_one_of_each_core
from fleet.plan.cpulist import format_cpus
from fleet.store import Listing, RunSummary
from fleet.store.runs import Root
from fleet.text import format_command, format_count, one_line, table

PAIRS_LISTED = 3
_FEW_CPUS = 16
_MAX_EVENTS = 20  # lines of events that are printed without being asked for
# options that the header omits
_NOT_NAMED = {
    "benchmarks",
    "preset",
    "few_pairs",
    "seed",
    "deadline_s",
}
_IN_WORDS = {"median": "median", "mean": "mean sample", "min": "smallest sample"}


@dataclass(frozen=True, slots=True)
class RunData:
    """A run to show. pairs: in plan order. counters: per unit. number: the column of
    `pairs` to show.
    """

    run: dict[str, Any]
    cpus: pd.DataFrame
    order: Layout
    bursts: pd.DataFrame
    pairs: pd.DataFrame
    plateaus: pd.DataFrame
    counters: pd.DataFrame
    descriptions: Descriptions
    number: str


def load_run_data(root: Root, run_id: str, only: Only) -> RunData:
    """Load the data that is shown of a run. Raises UsageError if nothing of `only` was
    measured.
    """
    (run,), _, cpus = load.read_runs(root, [run_id])
    pairs, descriptions = (
        as_float64(load_pairs(root, run_id=run_id)),
        read_descriptions(run["hello"]),
    )
    # in the order of the plan
    places = {name: place for place, name in enumerate(run["benchmarks"])}
    kinds = pairs["benchmark"] + "/" + pairs["variant"]
    place = kinds.map(lambda name: places.get(name, len(places)))
    pairs = only.select(
        pairs.iloc[place.argsort(kind="stable")].reset_index(drop=True), cpus
    )
    order = make_layout(cpus, sorted({*pairs["ping_cpu"], *pairs["pong_cpu"]}))
    bursts = load.load_samples(root, run_id=run_id, columns=BURST_COLUMNS)
    plateaus = ladders.find_plateaus(pairs, cpus, descriptions)
    counters = count_per_unit(load.load_counters(root, run_id=run_id), pairs)
    number = estimator_column(run)
    return RunData(
        run, cpus, order, bursts, pairs, plateaus, counters, descriptions, number
    )


def render_sections(
    data: RunData, canvas: Canvas, *, all_sizes: bool, as_map: bool
) -> Iterator[str]:
    """Yield a run's header, then each benchmark and variant and its events, then tables
    by NUMA node.
    """
    legend, width, descriptions = True, canvas.width, data.descriptions
    memory = ladders.describe_memory(data.run, data.pairs, data.cpus, descriptions)
    yield "\n".join((_render_header(data), *map(one_line, memory)))
    rows = data.pairs[~ladders.is_node_placed(data.pairs, descriptions)]
    for name, variants in rows.groupby("benchmark", sort=False):
        for variant, part in variants.groupby("variant", sort=False):
            match descriptions[str(name)].view:
                case View.CPUS:
                    yield _render_cpus(part, data)
                case View.MATRIX:
                    for _, pairs in part.groupby("point", sort=False, dropna=False):
                        yield _render_pairs(
                            pairs, data, canvas, legend=legend, as_map=as_map
                        )
                        legend = False
                case View.LADDER:
                    yield render_ladder(
                        part,
                        data.plateaus,
                        descriptions,
                        all_sizes=all_sizes,
                        width=width,
                    )
                case View.TABLE | View.BLOCKS:
                    yield render_tables(tabulate_points(part, descriptions), width)
                case View.PRODUCTS:
                    yield render_tables(tabulate_gemm_points(part, descriptions), width)
            yield _render_events(data, (name, variant), width, all_events=all_sizes)
    nodes = tabulate_by_node(data.pairs, data.cpus, data.run, descriptions)
    for tables in (
        *nodes,
        *tabulate_line_nodes(data.pairs, data.cpus, descriptions),
    ):
        yield render_tables(tables, width)


def _render_events(
    data: RunData, kind: tuple[Any, Any], width: int | None, *, all_events: bool
) -> str:
    """Render the events of a benchmark and variant; "" without any. If too many, only
    say how to see all.
    """
    own = (data.counters["benchmark"] == kind[0]) & (
        data.counters["variant"] == kind[1]
    )
    tables = tabulate_events(data.counters[own], data.run["hello"], data.descriptions)
    if tables is None:
        return ""
    count = sum(len(point_table.lines) for point_table in tables.tables)
    if all_events or count <= _MAX_EVENTS:
        return render_tables(tables, width)
    return f"{tables.name}: {tables.legend}; --ladder prints them: {count} lines"


def _render_header(data: RunData) -> str:
    """Render host, machine, kernel, governor, clock, labels, topology, and the preset
    if there was one.
    """
    run, all_cpus = data.run, data.cpus
    clock = f"clock {run['clock']} {run['ticks_per_second'] / 1e6:g} MHz"
    if run["clock_cost_ticks"] is not None:
        clock += (
            " (one reading"
            f" {run['clock_cost_ticks'] * 1e9 / run['ticks_per_second']:.1f} ns)"
        )
    cpus, labels = (
        format_count(run["cpus_measured"], "CPU"),
        text.format_labels(run["labels"]),
    )
    online = all_cpus[all_cpus["online"] & all_cpus["core"].notna()]
    one_of_each = take_one_of_each_core(
        online[["cpu", "package", "core"]].itertuples(index=False, name=None)
    )
    has_siblings = len(one_of_each) < len(online)
    are_cores = has_siblings and one_of_each == tuple(sorted(data.order.cpus))
    smt = selection.describe_smt(
        run["smt"], run["smt_control"], run["hypervisor"], has_siblings=has_siblings
    )
    preset = (
        f"preset {run['preset']}: the number of a pair is its"
        f" {_IN_WORDS[run['estimator']]}"
    )
    options = [
        f"--{name.replace('_', '-')} {_format_option(value)}"
        for name, value in run["plan"].items()
        if value is not None and name not in _NOT_NAMED
    ]
    lines = (
        (
            f"{run['host_name']}  {run['run_id']}  {run['started_utc']:%Y-%m-%d %H:%M}"
            f" UTC  {run['state']}"
        ),
        f"{run['cpu_model'] or 'unknown CPU model'}, {cpus}, {run['target']}",
        ", ".join(
            [
                *(
                    f"{fact} {run[fact]}"
                    for fact in ("kernel", "governor")
                    if run[fact]
                ),
                clock,
            ]
        ),
        f"labels: {labels}" if labels else "",
        preset if run["preset"] else "",
        f"options: {', '.join(options)}" if options else "",
        "measured: one CPU of each core (-c cores)" if are_cores else "",
        *describe_topology(data.order),
        f"hyperthreading (SMT): {smt}",
    )
    return "\n".join(one_line(line) for line in lines if line)


def _format_option(value: Any) -> str:
    """Format a stored option as it is typed: CPUs as 0-3, pairs as 0-1,0-2, ordered or
    per-relation:3.
    """
    if isinstance(value, dict) and "which" in value:
        listed = ",".join(f"{ping}-{pong}" for ping, pong in value["listed"])
        some = f"{value['which']}:{value['per_relation']}"
        return some if value["per_relation"] else listed or str(value["which"])
    if isinstance(value, list):
        return (
            format_cpus(value)
            if all(type(item) is int for item in value)
            else ",".join(map(str, value))
        )
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _render_pairs(
    pairs: pd.DataFrame, data: RunData, canvas: Canvas, *, legend: bool, as_map: bool
) -> str:
    """Render one benchmark and variant: relations, extreme pairs and matrix. legend:
    explain the words.
    """
    first, number, run = pairs.iloc[0].to_dict(), data.number, data.run
    heading, name = (
        data.descriptions[first["benchmark"]].heading,
        text.name_benchmark(first),
    )
    name += "" if text.is_none(first["point"]) else f" {first['point']}"
    estimator_note = (
        f" ({_IN_WORDS[run['estimator']]} of each pair)" if run["preset"] else ""
    )
    lines = [f"{name}: {heading}{estimator_note}, by what two CPUs share"]
    marked = _find_flagged_pairs(pairs)
    mark_column = ("*",) if marked.any() else ()
    titles = (
        "relation",
        "pairs",
        "median",
        "min",
        "max",
        "p99",
        "±95%",
        "flagged",
        *mark_column,
    )
    rows = []
    for row in text.to_records(summarize_relations(pairs, number)):
        marks = (
            str((marked & (pairs["relation"] == row["relation"])).sum())
            for _ in mark_column
        )
        numbers = (
            f"{row[name]:.1f}" for name in ("median_ns", "min_ns", "max_ns", "p99_ns")
        )
        ends = (
            text.format_half_width(row["spread"]),
            text.format_share(row["flagged_share"]),
        )
        rows.append((row["relation"], str(row["pairs"]), *numbers, *ends, *marks))
    lines.append(table(titles, rows, right=set(range(1, len(titles)))))
    if legend:
        lines.append(text.explain_relations(row[0] for row in rows))
        words = (
            "median, min, max: of pairs; p99, ±95%: of the median pair; flagged: of"
            " bursts"
        )
        lines.append(words + "; *: pairs with a flag of their own" * bool(mark_column))
    lines.append(_describe_precision(pairs, number))
    lines += [
        *_render_extremes(pairs, number, canvas.width),
        *describe_burst_levels(pairs),
    ]
    return "\n".join(lines) + "\n\n" + render_matrix(pairs, data, canvas, as_map=as_map)


def render_matrix(
    pairs: pd.DataFrame, data: RunData, canvas: Canvas, *, as_map: bool
) -> str:
    """Render the matrix of one benchmark and variant, flagged pairs marked."""
    values = lay_out_matrix(pairs, data.order.cpus, data.number)
    label = data.descriptions[pairs["benchmark"].iloc[0]].label
    own = pairs[_find_flagged_pairs(pairs)]
    marked = frozenset(
        (min(ends), max(ends))
        for ends in zip(own["ping_cpu"], own["pong_cpu"], strict=True)
    )
    drawn = draw_matrix(
        values, data.order, canvas, label=label, marked=marked, as_map=as_map
    )
    return text.render_rich(drawn, canvas.width, colour=canvas.colour).rstrip("\n")


def _render_cpus(pairs: pd.DataFrame, data: RunData) -> str:
    """Render a row per CPU; of many CPUs, only those furthest from the median."""
    first, costs = (
        pairs.iloc[0].to_dict(),
        {row["ping_cpu"]: row for row in text.to_records(pairs)},
    )
    low, middle, high = (
        getattr(pairs["median_ns"], statistic)()
        for statistic in ("min", "median", "max")
    )
    heading = data.descriptions[first["benchmark"]].heading
    title = f"{text.name_benchmark(first)}: {heading}, per CPU"
    summary = (
        f"min {low:.1f}, median {middle:.1f}, max {high:.1f} over"
        f" {format_count(len(costs), 'CPU')}"
    )
    cpus = [cpu for cpu in data.order.cpus if cpu in costs]
    if len(cpus) > _FEW_CPUS:
        cpus = sorted(cpus, key=lambda cpu: -abs(costs[cpu]["median_ns"] / middle - 1))[
            :PAIRS_LISTED
        ]
        summary += "; furthest from the median:"
    rows = []
    for row in map(costs.__getitem__, cpus):
        numbers = (f"{row[name]:.1f}" for name in ("median_ns", "min_ns", "p99_ns"))
        flagged = text.format_share(row["flagged_bursts"] / row["bursts"])
        rows.append(
            (
                str(row["ping_cpu"]),
                *numbers,
                text.format_half_width(row["spread"]),
                flagged,
            )
        )
    listed = table(
        ("cpu", "median", "min", "p99", "±95%", "flagged"), rows, right=set(range(6))
    )
    legend = "±95%: within the run; flagged: of bursts"
    return "\n".join((title, summary, listed, legend, *describe_burst_levels(pairs)))


def _describe_precision(pairs: pd.DataFrame, number: str) -> str:
    few, many = int(pairs["bursts"].min()), int(pairs["bursts"].max())
    bursts = (
        format_count(few, "burst") if few == many else f"{few} to {many} bursts"
    ) + " a pair"
    if number != "median_ns":
        return f"interval: none; only medians have one ({bursts})"
    if pairs["spread"].isna().all():
        return f"interval: none; it needs at least 2 bursts a pair ({bursts})"
    middle, worst = pairs["spread"].median(), pairs["spread"].max()
    if len(pairs) == 1:
        return f"interval: {text.format_half_width(worst)} ({bursts})"
    return (
        f"interval: {text.describe_half_widths('half the pairs', middle, worst)}"
        f" ({bursts})"
    )


def _find_flagged_pairs(pairs: pd.DataFrame) -> "pd.Series[bool]":
    """Report for each pair whether it has a flag itself; a flag of only some bursts
    does not count.
    """
    return (
        pairs["flags"]
        .map(lambda flags: not set(flags.split(",")).isdisjoint(PAIR_FLAGS))
        .astype(bool)
    )


def _render_extremes(pairs: pd.DataFrame, number: str, width: int | None) -> list[str]:
    """Render the fastest and slowest pairs, as many as fit, of relations with many
    pairs; [] without any.
    """
    rows = []
    for relation, part in pairs.groupby("relation", sort=False):
        if len(part) > 2 * PAIRS_LISTED:
            ordered = part.sort_values(number, kind="stable")
            ends = (ordered.head(PAIRS_LISTED), ordered.tail(PAIRS_LISTED).iloc[::-1])
            texts = [  # the heading has the point
                [
                    f"{row['ping_cpu']}-{row['pong_cpu']} {row[number]:.1f}"
                    for row in text.to_records(end)
                ]
                for end in ends
            ]
            rows.append((part[number].median(), str(relation), texts))
    longest = max(
        (len(pair) for *_, ends in rows for end in ends for pair in end), default=0
    )
    for count in range(PAIRS_LISTED, 0, -1):
        listed = [
            (
                relation,
                *(
                    "  ".join(f"{pair:>{longest}}" for pair in end[:count])
                    for end in ends
                ),
            )
            for _, relation, ends in sorted(rows)
        ]
        extremes = table(("relation", "fastest pairs", "slowest pairs"), listed)
        if not text.is_too_wide(extremes, width):
            break
    return [extremes] if rows else []


def describe_burst_levels(pairs: pd.DataFrame) -> list[str]:
    """Describe the pairs with bursts at another level, those with the largest share
    first.
    """
    switching = pairs[pairs["other_ns"].notna()].sort_values(
        "other_share", ascending=False, kind="stable"
    )
    lines = [
        f"levels of {text.format_pair(row)}: {row['median_ns']:.1f}"
        f" {text.format_half_width(row['spread'])}, and"
        f" {text.format_share(row['other_share'])} of bursts at another level, median"
        f" {row['other_ns']:.1f}"
        for row in text.to_records(switching.head(PAIRS_LISTED))
    ]
    if len(switching) > PAIRS_LISTED:
        more = format_count(len(switching) - PAIRS_LISTED, "more pair")
        lines.append(f"{more} with bursts at another level (fleet show --json)")
    return lines


@dataclass(frozen=True, slots=True)
class RunsToShow:
    """The selection of `fleet show`. runs: oldest first. latest: the ID of each host's
    last run.

    left_out: if nothing was selected, how many hosts have runs but were not in the last
    session. missing: selected hosts that the session of the last run, or a later one,
    could not measure. others: lines on selected runs of a single host that are not
    shown but have what the last run lacks, or no samples.
    """

    runs: tuple[RunSummary, ...]
    latest: tuple[str, ...]
    left_out: int = 0
    missing: tuple[selection.MissingHost, ...] = ()
    others: tuple[str, ...] = ()


def show_as_json(
    root: Root,
    run_ids: Sequence[str],
    only: Only = ALL,
    missing: Sequence[selection.MissingHost] = (),
) -> Iterator[str]:
    """Yield one JSON document about these runs, in pieces.

    A run has `run`, `relations`, `pairs` (in ns per unit of work) and `cpus` in
    topology order. A missing host comes last, with empty lists and the `state`
    "missing". `plateaus` and `ladder` have a row per memory level and per size, in ns
    per unit by all threads together (if the unit is a byte, 1 / `median_ns` is GB/s).
    `counters`: per unit. `number`: the column of `pairs` that the text shows.
    """
    start, end = format_document("show", []).split("[]")
    yield f"{start}["
    absent = [
        {"host_name": host.name, "session_id": host.session_id, "state": "missing"}
        | {
            "why": host.failure.message or "interrupted",
            "time_utc": host.failure.time_utc,
        }
        for host in missing
    ]
    objects = chain(
        (_make_run_object(load_run_data(root, run_id, only)) for run_id in run_ids),
        ({"run": run, "relations": [], "pairs": [], "cpus": []} for run in absent),
    )
    for place, row in enumerate(objects):
        yield ",\n" if place else "\n"
        yield indent_lines(indent_lines(format_json(row)))
    yield f"\n  ]{end}\n"


def show_run(
    root: Root,
    run_id: str,
    *,
    canvas: Canvas = NO_LIMIT,
    only: Only = ALL,
    all_sizes: bool = False,
    both_ways: bool = False,
    as_map: bool = False,
    among: RunsToShow | None = None,
) -> str:
    """Render one run: header, a table by relation, the matrix, the ladders, the
    warnings.

    all_sizes: every size of ladders and every counted event. both_ways: with the
    directions of messages.
    as_map: as in `draw_matrix`. among: the selection that the run is the
    last of; two or more comparable runs get a table.
    """
    data = load_run_data(root, run_id, only)
    run, pairs, descriptions = data.run, data.pairs, data.descriptions
    parts = [*render_sections(data, canvas, all_sizes=all_sizes, as_map=as_map)]
    if among and len(among.runs) > 1:
        usual = load_usual_numbers(root, among.runs, only)
        parts.insert(1, render_host_history(among.runs, usual))
    if among:
        parts.insert(1, "\n".join(among.others))
    if both_ways:
        none = "No messages were measured, so there are no directions to show."
        parts.append(render_message_directions(root, run) or none)
    parts.append("\n".join(explain_place_scatter(root, run, descriptions)))
    checked = check_run(run, pairs, data.cpus, descriptions)
    findings = check_topology(pairs, load_host_history(root, run), descriptions)
    rows = select_marked_rows(pairs, data.bursts, {run_id: len(data.bursts)})[run_id]
    parts.append(render_warnings(list_warnings(run, rows, checked, findings)))
    return "\n\n".join(filter(None, parts))


def render_maps(root: Root, run_id: str, canvas: Canvas, only: Only = ALL) -> str:
    """Render a run's heat maps, each below its benchmark and host; "" if nothing of
    `only` was measured.
    """
    try:
        data = load_run_data(root, run_id, only)
    except UsageError:
        return ""
    maps = []
    kinds = load.drop_points(data.pairs, data.descriptions).groupby(
        ["benchmark", "variant"], sort=False
    )
    for (name, variant), part in kinds:
        if data.descriptions[str(name)].view is View.MATRIX:
            drawn = render_matrix(part, data, canvas, as_map=True)
            maps.append(f"{name}/{variant} on {data.run['host_name']}\n{drawn}")
    return "\n\n".join(maps)


def show_as_csv(root: Root, run_ids: Sequence[str], only: Only = ALL) -> str:
    """Return the pairs of several runs as CSV: facts of the run, then the table
    `pairs`, unrounded.
    """
    rows = as_float64(load_pairs(root, run_id=run_ids))
    rows = only.select(
        rows, load.load_cpus(root, run_id=run_ids) if only.cpus else rows
    )
    return format_csv(
        load.add_run_columns(rows, load.load_runs(root, run_id=run_ids))
    ).removesuffix("\n")


def _make_run_object(data: RunData) -> dict[str, Any]:
    pairs, descriptions = data.pairs, data.descriptions
    steps = ladders.select_ladder_steps(pairs, descriptions)
    nodes = ladders.select_node_cells(pairs, data.cpus, descriptions)
    numbers = ["median_ns", "low_ns", "high_ns"]
    tables = {
        "relations": summarize_relations(
            load.drop_points(pairs, descriptions), data.number
        ),
        "plateaus": data.plateaus.drop(columns=["host_id", "run_id"]),
        "ladder": steps[[*ladders.LADDER, "bytes", "pages", *numbers]],
        "nodes": nodes[
            [*ladders.NODE_CELL, "threads", "ping_cpu", "pong_cpu", *numbers]
        ],
        "counters": data.counters,
        "pairs": pairs.drop(columns=["host_id", "run_id", "stats_version"]),
    }
    run = {key: value for key, value in data.run.items() if key != "probe"}
    return {"run": run, "cpus": list(data.order.cpus), "number": data.number, **tables}


def select_runs_to_show(
    root: Listing, texts: Sequence[str], benchmark: str | None = None
) -> RunsToShow:
    """Select the comparable runs of a selection, or of the last session. Raises
    UsageError if none.

    benchmark: take each host's last run that has it; a host without it keeps its last
    run. Raises UsageError if no host has it.
    """
    listed, left_out = root.runs, 0
    chosen = texts or selection.find_last_session_runs(listed, root.place, benchmark)
    selected = selection.select_runs(listed, chosen, root.place)
    selection.filter_runs(selected, benchmark)
    hosts = selection.group_by_host(selected)
    comparable_runs = [
        selection.keep_comparable_with_last(runs, benchmark)
        or selection.keep_comparable_with_last(runs)
        for runs in hosts.values()
    ]
    ids = {run.run_id for runs in comparable_runs for run in runs}
    counting = tuple(run for run in listed if run.run_id in ids)
    missing = selection.list_missing_hosts(listed, root.place, counting[-1].session_id)
    if texts:
        missing = [host for host in missing if host.is_selected_by(texts)]
    else:
        left_out = len({run.host_id for run in listed}) - len(hosts)
    latest = tuple(runs[-1].run_id for runs in comparable_runs)
    others = list[str]()
    if len(latest) == 1 and benchmark is None:
        others = [*_describe_others(selected, counting[-1])]
    return RunsToShow(counting, latest, left_out, tuple(missing), tuple(others))


def _describe_others(
    runs_of_host: Sequence[RunSummary], last: RunSummary
) -> Iterator[str]:
    """Yield a line on what earlier runs of a host have and its last run lacks, and one
    on each later run without samples.
    """
    days = dict[str, str]()
    for run in runs_of_host:
        if run.samples:
            names = {kind for kind in run.benchmarks if kind not in last.benchmarks}
            days |= dict.fromkeys(sorted(names), f"{run.started_utc:%Y-%m-%d}")
    if days:
        listed = ", ".join(f"{name} of {day}" for name, day in days.items())
        command = format_command(
            "fleet", "show", last.host_name, "-b", next(iter(days))
        )
        yield one_line(f"only earlier runs have {listed}: {command}")
    for run in runs_of_host:
        if not run.samples and run.started_utc > last.started_utc:
            began = f"{run.started_utc:%Y-%m-%d %H:%M}"
            failed = format_count(run.failed or 0, "burst")
            yield one_line(
                f"later, without samples: {run.run_id}, {began}, {failed} failed"
            )


def show_runs(
    root: Root, shown: RunsToShow, canvas: Canvas, only: Only = ALL, **detail: Any
) -> str:
    """Render one host's last run, or several hosts. detail: for `show_run`; several use
    only `as_map`.
    """
    heading = overview.render_heading(shown.runs, shown.left_out, shown.missing)
    if len(shown.latest) == 1:
        page = show_run(
            root,
            shown.latest[0],
            canvas=canvas,
            only=only,
            among=shown,
            **detail,
        )
        return f"{heading}\n\n{page}" if shown.missing else page
    usual = load_usual_numbers(root, shown.runs, only)
    parts = [heading, _render_hosts(usual, shown.runs, canvas, only)]
    if detail.get("as_map"):
        parts += [render_maps(root, run_id, canvas, only) for run_id in shown.latest]
    hosts_with_numbers = set(usual.table["host_id"])
    named = (run.host_name for run in shown.runs if run.host_id in hosts_with_numbers)
    parts += [
        f"Details: {format_command('fleet', 'show', name)}" for name in islice(named, 1)
    ]
    return "\n\n".join(filter(None, parts))


def render_overview(
    root: Root,
    runs: Sequence[RunSummary],
    canvas: Canvas,
    earlier: Sequence[RunSummary] = (),
    *,
    ends: bool,
) -> str:
    """Render an overview of runs; name hosts it lacks. earlier: comparable runs. ends:
    extreme hosts only.
    """
    usual = load_usual_numbers(root, runs, earlier=earlier)
    return _render_hosts(usual, runs, canvas, ALL, ends=ends)


def _render_hosts(
    usual: UsualNumbers,
    runs: Sequence[RunSummary],
    canvas: Canvas,
    only: Only,
    *,
    ends: bool = False,
) -> str:
    table, descriptions = usual.table, usual.descriptions
    if ends and len(table):
        listed = overview.render_extremes(table, canvas.width, descriptions)
    else:
        listed = overview.render_host_table(table, canvas, descriptions)
    missing = overview.name_hosts_without_numbers(table, runs, only)
    return "\n\n".join(filter(None, (listed, missing)))

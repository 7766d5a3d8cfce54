"""One run as text: the sections of `fleet show`."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.selection import describe_smt
from fleet.analysis.reduce import load
from fleet.analysis.reduce.comparison_rows import Only
from fleet.analysis.reduce.flags import PAIR_FLAGS
from fleet.analysis.reduce.ladders import describe_memory, find_plateaus, is_node_placed
from fleet.analysis.reduce.matrices import estimator_column, grid, relations
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layout
from fleet.analysis.views.counters import count_per_unit, tabulate_events
from fleet.analysis.views.heatmap import Canvas, draw_matrix
from fleet.analysis.views.ladders import render_ladder
from fleet.analysis.views.point_tables import (
    render_tables,
    tabulate_homes,
    tabulate_nodes,
    tabulate_points,
    tabulate_products,
)
from fleet.analysis.views.topology import describe_topology
from fleet.analysis.views.warnings import BURST_COLUMNS
from fleet.model import Descriptions, View, read_descriptions, take_one_of_each_core
from fleet.plan.cpulist import format_cpus
from fleet.store.runs import Root
from fleet.text import format_count, one_line, table

PAIRS_LISTED = 3
_FEW_CPUS = 16
_MOST_EVENTS = 20  # lines of events that are printed without being asked for
_NOT_NAMED = {"benchmarks", "preset", "few_pairs", "seed", "deadline_s"}  # options that the header omits
_IN_WORDS = {"median": "median", "mean": "mean sample", "min": "smallest sample"}


@dataclass(frozen=True, slots=True)
class RunData:
    """A run as its sections need it. bursts: all. pairs: in the order of the plan.

    counters: by unit. number: the column of `pairs` that is the run's number.
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
    """Load what is shown of a run. Raises UsageError if nothing of `only` was measured."""
    (run,), _, cpus = load.read_runs(root, [run_id])
    pairs = only.of(_sort_as_planned(as_float64(load_pairs(root, run_id=run_id)), run["benchmarks"]), cpus)
    descriptions = read_descriptions(run["hello"])
    return RunData(
        run,
        cpus,
        make_layout(cpus, sorted({*pairs["ping_cpu"], *pairs["pong_cpu"]})),
        load.load_samples(root, run_id=run_id, columns=BURST_COLUMNS),
        pairs,
        find_plateaus(pairs, cpus, descriptions),
        count_per_unit(load.load_counters(root, run_id=run_id), pairs),
        descriptions,
        estimator_column(run),
    )


def _sort_as_planned(pairs: pd.DataFrame, benchmarks: Sequence[str]) -> pd.DataFrame:
    """Sort rows by the order of their benchmarks in the plan; `benchmarks` as in the `runs` table."""
    places = {name: place for place, name in enumerate(benchmarks)}
    names = pairs["benchmark"] + "/" + pairs["variant"]
    place = names.map(lambda name: places.get(name, len(places)))
    return pairs.iloc[place.argsort(kind="stable")].reset_index(drop=True)


def render_sections(data: RunData, canvas: Canvas, *, all_sizes: bool, as_map: bool) -> Iterator[str]:
    """Yield the header, each benchmark and variant and its events, and the tables by NUMA node."""
    legend, width, descriptions = True, canvas.width, data.descriptions
    memory = describe_memory(data.run, data.pairs, data.cpus, descriptions)
    yield "\n".join((_render_header(data), *map(one_line, memory)))
    rows = data.pairs[~is_node_placed(data.pairs, descriptions)]
    for name, variants in rows.groupby("benchmark", sort=False):
        for variant, part in variants.groupby("variant", sort=False):
            match descriptions[str(name)].view:
                case View.CPUS:
                    yield _render_cpus(part, data)
                case View.MATRIX:
                    for _, pairs in part.groupby("point", sort=False, dropna=False):
                        yield _render_pairs(pairs, data, canvas, legend=legend, as_map=as_map)
                        legend = False
                case View.LADDER:
                    yield render_ladder(part, data.plateaus, descriptions, all_sizes=all_sizes, width=width)
                case View.TABLE | View.BLOCKS:
                    yield render_tables(tabulate_points(part, descriptions), width)
                case View.PRODUCTS:
                    yield render_tables(tabulate_products(part, descriptions), width)
            yield _render_events(data, (name, variant), width, all_events=all_sizes)
    yield from (
        render_tables(tables, width)
        for tables in (
            *tabulate_nodes(data.pairs, data.cpus, data.run, descriptions),
            *tabulate_homes(data.pairs, data.cpus, descriptions),
        )
    )


def _render_events(data: RunData, kind: tuple[Any, Any], width: int | None, *, all_events: bool) -> str:
    """Render the events of a benchmark and variant; beyond _MOST_EVENTS lines, say how to see them."""
    own = (data.counters["benchmark"] == kind[0]) & (data.counters["variant"] == kind[1])
    tables = tabulate_events(data.counters[own], data.run["hello"], data.descriptions)
    if tables is None:
        return ""
    count = sum(len(point_table.lines) for point_table in tables.tables)
    if all_events or count <= _MOST_EVENTS:
        return render_tables(tables, width)
    return f"{tables.name}: {tables.legend}; --ladder prints them: {count} lines"


def _render_header(data: RunData) -> str:
    """Render host, machine, kernel, governor, clock, labels, topology, and the preset if there was one."""
    run, all_cpus = data.run, data.cpus
    clock = f"clock {run['clock']} {run['ticks_per_second'] / 1e6:g} MHz"
    if run["clock_cost_ticks"] is not None:
        clock += f" (one reading {run['clock_cost_ticks'] * 1e9 / run['ticks_per_second']:.1f} ns)"
    cpus, labels = format_count(run["cpus_measured"], "CPU"), text.format_labels(run["labels"])
    online = all_cpus[all_cpus["online"] & all_cpus["core"].notna()]
    one_of_each = take_one_of_each_core(online[["cpu", "package", "core"]].itertuples(index=False, name=None))
    has_siblings = len(one_of_each) < len(online)
    are_cores = has_siblings and one_of_each == tuple(sorted(data.order.cpus))
    smt = describe_smt(run["smt"], run["smt_control"], run["hypervisor"], has_siblings=has_siblings)
    preset = f"preset {run['preset']}: the number of a pair is its {_IN_WORDS[run['estimator']]}"
    options = [
        f"--{name.replace('_', '-')} {_format_option(value)}"
        for name, value in run["plan"].items()
        if value is not None and name not in _NOT_NAMED
    ]
    lines = (
        f"{run['host_name']}  {run['run_id']}  {run['started_utc']:%Y-%m-%d %H:%M} UTC  {run['state']}",
        f"{run['cpu_model'] or 'unknown CPU model'}, {cpus}, {run['target']}",
        ", ".join([*(f"{fact} {run[fact]}" for fact in ("kernel", "governor") if run[fact]), clock]),
        f"labels: {labels}" if labels else "",
        preset if run["preset"] else "",
        f"options: {', '.join(options)}" if options else "",
        "measured: one CPU of each core (-c cores)" if are_cores else "",
        *describe_topology(data.order),
        f"hyperthreading (SMT): {smt}",
    )
    return "\n".join(one_line(line) for line in lines if line)


def _format_option(value: Any) -> str:
    """Format the value of an option as it is stored: CPUs as ranges, a choice of pairs as it is typed."""
    if isinstance(value, dict) and "which" in value:
        listed = ",".join(f"{ping}-{pong}" for ping, pong in value["listed"])
        return (
            f"{value['which']}:{value['per_relation']}" if value["per_relation"] else listed or value["which"]
        )
    if isinstance(value, list):
        return format_cpus(value) if all(type(item) is int for item in value) else ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _render_pairs(pairs: pd.DataFrame, data: RunData, canvas: Canvas, *, legend: bool, as_map: bool) -> str:
    """Render one benchmark and variant: relations, extreme pairs and matrix. legend: explain the words."""
    first, number, run = pairs.iloc[0].to_dict(), data.number, data.run
    heading, name = data.descriptions[first["benchmark"]].heading, text.name_kind(first)
    name += "" if text.is_none(first["point"]) else f" {first['point']}"
    estimator_note = f" ({_IN_WORDS[run['estimator']]} of each pair)" if run["preset"] else ""
    lines = [f"{name}: {heading}{estimator_note}, by what two CPUs share"]
    marked = _find_flagged_pairs(pairs)
    mark_column = ("*",) if marked.any() else ()
    titles = ("relation", "pairs", "median", "min", "max", "p99", "±95%", "flagged", *mark_column)
    rows = []
    for row in text.to_records(relations(pairs, number)):
        marks = (str((marked & (pairs["relation"] == row["relation"])).sum()) for _ in mark_column)
        numbers = (f"{row[name]:.1f}" for name in ("median_ns", "min_ns", "max_ns", "p99_ns"))
        ends = (text.format_half_width(row["spread"]), text.format_share(row["flagged_share"]))
        rows.append((row["relation"], str(row["pairs"]), *numbers, *ends, *marks))
    lines.append(table(titles, rows, right=set(range(1, len(titles)))))
    if legend:
        lines.append(text.explain_relations(row[0] for row in rows))
        words = "median, min, max: of pairs; p99, ±95%: of the median pair; flagged: of bursts"
        lines.append(words + "; *: pairs with a flag of their own" * bool(mark_column))
    lines.append(_describe_precision(pairs, number))
    lines += [*_render_extremes(pairs, number, canvas.width), *describe_burst_levels(pairs)]
    return "\n".join(lines) + "\n\n" + render_matrix(pairs, data, canvas, as_map=as_map)


def render_matrix(pairs: pd.DataFrame, data: RunData, canvas: Canvas, *, as_map: bool) -> str:
    """Render the matrix of one benchmark and variant, flagged pairs marked."""
    values = grid(pairs, data.order.cpus, data.number)
    label = data.descriptions[pairs["benchmark"].iloc[0]].label
    own = pairs[_find_flagged_pairs(pairs)]
    marked = frozenset((min(ends), max(ends)) for ends in zip(own["ping_cpu"], own["pong_cpu"], strict=True))
    drawn = draw_matrix(values, data.order, canvas, label=label, marked=marked, as_map=as_map)
    return text.render_rich(drawn, canvas.width, colour=canvas.colour).rstrip("\n")


def _render_cpus(pairs: pd.DataFrame, data: RunData) -> str:
    """Render a row per CPU; of many CPUs, only those furthest from the median."""
    first, costs = pairs.iloc[0].to_dict(), {row["ping_cpu"]: row for row in text.to_records(pairs)}
    low, middle, high = (getattr(pairs["median_ns"], statistic)() for statistic in ("min", "median", "max"))
    heading = data.descriptions[first["benchmark"]].heading
    title = f"{text.name_kind(first)}: {heading}, per CPU"
    summary = f"min {low:.1f}, median {middle:.1f}, max {high:.1f} over {format_count(len(costs), 'CPU')}"
    cpus = [cpu for cpu in data.order.cpus if cpu in costs]
    if len(cpus) > _FEW_CPUS:
        cpus = sorted(cpus, key=lambda cpu: -abs(costs[cpu]["median_ns"] / middle - 1))[:PAIRS_LISTED]
        summary += "; furthest from the median:"
    rows = []
    for row in map(costs.__getitem__, cpus):
        numbers = (f"{row[name]:.1f}" for name in ("median_ns", "min_ns", "p99_ns"))
        ends = (
            text.format_half_width(row["spread"]),
            text.format_share(row["flagged_bursts"] / row["bursts"]),
        )
        rows.append((str(row["ping_cpu"]), *numbers, *ends))
    listed = table(("cpu", "median", "min", "p99", "±95%", "flagged"), rows, right=set(range(6)))
    meant = "±95%: within the run; flagged: of bursts"
    return "\n".join((title, summary, listed, meant, *describe_burst_levels(pairs)))


def _describe_precision(pairs: pd.DataFrame, number: str) -> str:
    few, many = int(pairs["bursts"].min()), int(pairs["bursts"].max())
    bursts = (format_count(few, "burst") if few == many else f"{few} to {many} bursts") + " a pair"
    if number != "median_ns":
        return f"interval: none; only medians have one ({bursts})"
    if pairs["spread"].isna().all():
        return f"interval: none; it needs at least 2 bursts a pair ({bursts})"
    middle, worst = pairs["spread"].median(), pairs["spread"].max()
    if len(pairs) == 1:
        return f"interval: {text.format_half_width(worst)} ({bursts})"
    return f"interval: {text.describe_half_widths('half the pairs', middle, worst)} ({bursts})"


def _find_flagged_pairs(pairs: pd.DataFrame) -> "pd.Series[bool]":
    """Report which pairs have a flag of their own; flags of single bursts do not move a pair's number."""
    return pairs["flags"].map(lambda flags: not set(flags.split(",")).isdisjoint(PAIR_FLAGS)).astype(bool)


def _render_extremes(pairs: pd.DataFrame, number: str, width: int | None) -> list[str]:
    """Render the fastest and slowest pairs of each relation that has enough; as many as fit."""
    rows = []
    for relation, part in pairs.groupby("relation", sort=False):
        if len(part) > 2 * PAIRS_LISTED:
            ordered = part.sort_values(number, kind="stable")
            ends = (ordered.head(PAIRS_LISTED), ordered.tail(PAIRS_LISTED).iloc[::-1])
            texts = [  # the heading has the point
                [f"{row['ping_cpu']}-{row['pong_cpu']} {row[number]:.1f}" for row in text.to_records(end)]
                for end in ends
            ]
            rows.append((part[number].median(), str(relation), texts))
    longest = max((len(pair) for *_, ends in rows for end in ends for pair in end), default=0)
    for count in range(PAIRS_LISTED, 0, -1):
        listed = [
            (relation, *("  ".join(f"{pair:>{longest}}" for pair in end[:count]) for end in ends))
            for _, relation, ends in sorted(rows)
        ]
        extremes = table(("relation", "fastest pairs", "slowest pairs"), listed)
        if not text.is_too_wide(extremes, width):
            break
    return [extremes] if rows else []


def describe_burst_levels(pairs: pd.DataFrame) -> list[str]:
    """Describe the pairs with bursts at another level, those with the largest share first."""
    switching = pairs[pairs["other_ns"].notna()].sort_values("other_share", ascending=False, kind="stable")
    lines = [
        f"levels of {text.format_pair(row)}: {row['median_ns']:.1f} {text.format_half_width(row['spread'])}, "
        f"and {text.format_share(row['other_share'])} of bursts at another level, median "
        f"{row['other_ns']:.1f}"
        for row in text.to_records(switching.head(PAIRS_LISTED))
    ]
    if len(switching) > PAIRS_LISTED:
        more = format_count(len(switching) - PAIRS_LISTED, "more pair")
        lines.append(f"{more} with bursts at another level (fleet show --json)")
    return lines

"""Build a report: read the runs, draw them and render one HTML page without scripts."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fleet.analysis.base import text
from fleet.analysis.reduce import heatmap
from fleet.analysis.reduce.environment import list_properties
from fleet.analysis.reduce.host_numbers import OVERVIEW, sort_overview
from fleet.analysis.reduce.numbers import Only
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report import figures, plots
from fleet.analysis.report.differences import summarize_differences
from fleet.analysis.report.figures import render_thumbnail
from fleet.analysis.report.findings import Findings, find
from fleet.analysis.report.ladders import draw_ladder
from fleet.analysis.report.markup import format_ns, render_template
from fleet.analysis.report.read_runs import MANY_RUNS, Part, Reading, load_readings
from fleet.analysis.report.roofline import draw_roofline
from fleet.analysis.views.host_columns import Group, group_columns
from fleet.analysis.views.overview import render_heading
from fleet.analysis.views.pair_tables import describe_burst_levels
from fleet.analysis.views.topology import describe_topology
from fleet.analysis.views.usual import (
    describe_interval,
    list_last_changes,
    list_several_levels,
    load_usual_numbers,
)
from fleet.analysis.views.warnings import ADVICE, ORDER
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.model import Benchmark, Descriptions
from fleet.plan.benchmark_names import ALL, select_kinds
from fleet.plan.cpulist import format_cpus
from fleet.store.runs import Root, open_listing
from fleet.text import format_count, one_line

_MIN_MAP = 4  # CPUs; a smaller map shows nothing
_FRONT = 300  # CSS pixels of a map on the first screen
_MAX_PAIR_TIPS = 64  # CPUs; with more, a tip is about the pairs of two groups
_FEW_MAPS = (
    10  # runs in detail; with more, pairs have no number and no tip of their own
)

Affected = tuple[Reading, str]  # a run that a warning applies to, and how much of it


class PageWarning(NamedTuple):
    """A warning about one or more runs. key: as in `RunWarning`. advice: what the
    reader can do, or empty.

    affected: empty if the warning is about the whole page.
    """

    key: str
    text: str
    affected: Sequence[Affected] = ()
    advice: str = ""


def render(
    root: Root,
    run_ids: Sequence[str],
    title: str | None = None,
    sides: tuple[str, str] | None = None,
    selection: Sequence[str] = (),
    benchmark: str | None = None,
    heading: str = "",
    ranges: Sequence[ExpectedRange] = (),
) -> str:
    """Return the HTML page about these runs. Raises StoreError, and UsageError if there
    is no run.

    sides: two sides to compare, baseline first. Without them the page opens with
    findings of `selection` or these runs. heading: from `render_heading`, if hosts are
    missing. ranges: what is expected of machines.
    """
    if not run_ids:
        raise UsageError("no run to report on; `fleet runs` lists what is stored.")
    root = open_listing(root)
    readings, tables_read = load_readings(root, run_ids, benchmark)
    detailed = [reading for reading in readings if reading.detailed]
    descriptions = tables_read.descriptions
    runs = root.find_runs(set(run_ids))
    usual, overall, _ = load_usual_numbers(root, runs, Only(benchmark))
    maps = defaultdict[str, list[tuple[Reading, pd.DataFrame]]](list)
    for reading in detailed:
        for part in reading.parts:
            if part.table is not None:
                maps[part.name].append((reading, part.table))
    shared = {
        kind: heatmap.choose_limits([table for _, table in own])
        for kind, own in maps.items()
    }
    thumbnails = {  # the benchmark of most runs comes first
        kind: [
            (
                reading,
                render_thumbnail(
                    heatmap.map_cpus(table, reading.order, shared[kind]), "viridis"
                ),
            )
            for reading, table in maps[kind]
        ]
        for kind in sorted(maps, key=lambda kind: -len(maps[kind]))
        if len(maps[kind]) > 1
    }
    measured = (kind for reading in readings for kind in reading.run["benchmarks"])
    return render_template(
        "page.html",
        title=title,
        made=datetime.now(UTC),
        readings=readings,
        heading=heading or render_heading(runs),
        kinds=select_kinds(benchmark or ALL, dict.fromkeys(measured)),
        warnings=_list_page_warnings(readings),
        tables=_split_overview_into_tables(usual, descriptions),
        within=describe_interval(usual) if len(usual) else "",
        since=list_last_changes(usual),
        levels=list_several_levels(usual, descriptions),
        latest=list({reading.run["host_id"]: reading for reading in readings}.values()),
        dots=(
            _draw_dots_by_kind_and_relation(overall, usual, readings, descriptions)
            if len(readings) > 1
            else {}
        ),
        detailed=detailed,
        descriptions=descriptions,
        front=None if thumbnails else _draw_captioned_cover(detailed[0]),
        thumbnails=thumbnails,
        shared=shared,
        differences=(
            summarize_differences(root, readings, tables_read, sides) if sides else None
        ),
        findings=(
            Findings()
            if sides
            else find(root, selection or [",".join(run_ids)], benchmark, ranges)
        ),
        environment=list_properties([reading.run for reading in readings]),
        viridis=figures.list_backgrounds_and_inks("viridis"),
        diverging=figures.list_backgrounds_and_inks(plots.CHANGES),
        topology_of=describe_topology,
        levels_of=describe_burst_levels,
        map_of=_build_map,
        ecdf_of=_draw_ecdf,
        ladder_of=draw_ladder,
        roofline_of=draw_roofline,
    )


def _list_page_warnings(readings: Sequence[Reading]) -> list[PageWarning]:
    """Return the page's warnings except minor ones, each once, with the runs that it
    applies to.
    """
    runs_by_warning = defaultdict[tuple[str, str], list[Affected]](list)
    for reading in readings:
        for warning in reading.warnings:
            if not warning.minor:
                runs_by_warning[warning.key, warning.text].append(
                    (reading, warning.extent)
                )
    about_runs = []
    for (key, words), affected in sorted(
        runs_by_warning.items(), key=lambda item: ORDER.index(item[0][0])
    ):
        listed = (
            list(_group_by_host(affected, readings))
            if len(readings) > MANY_RUNS
            else affected
        )
        about_runs.append(PageWarning(key, words, listed, ADVICE.get(key, "")))
    single = "the difference between runs is unknown, and ±95% does not include it"
    hosts = Counter(reading.run["host_id"] for reading in readings)
    single_runs = [
        (reading, "") for reading in readings if hosts[reading.run["host_id"]] == 1
    ]
    if len(single_runs) == len(readings) > 1:
        about_runs.append(PageWarning("", f"one run of each host: {single}"))
    elif single_runs:
        about_runs.append(PageWarning("", f"one run only: {single}", single_runs))
    return [*_warn_about_differences(readings), *about_runs]


def _warn_about_differences(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    """Warn of instructions and presets that differ between the runs."""
    kinds = sorted(
        {
            part.name
            for reading in readings
            for part in reading.parts
            if not part.of_cpus
        }
    )
    for benchmark, own in groupby(kinds, lambda kind: kind.partition("/")[0]):
        variants = [kind.partition("/")[2] for kind in own]
        if len(variants) > 1:
            fault = (
                f"used different instructions ({', '.join(variants)}); do not compare"
                " their latencies"
            )
            yield PageWarning("", f"{benchmark} {fault}")
    presets = [(reading, reading.run["preset"]) for reading in readings]
    if len({preset for _, preset in presets}) > 1:
        runs = [(reading, preset) for reading, preset in presets if preset]
        yield PageWarning(
            "", "runs used the sampling and estimator of another tool", runs
        )


def _group_by_host(
    affected: Sequence[Affected], readings: Sequence[Reading]
) -> Iterator[Affected]:
    """Yield the last run of each affected host, and how many of the host's runs are
    affected.
    """
    counts = Counter(reading.run["host_id"] for reading in readings)
    last = {reading.run["host_id"]: reading for reading in readings}
    for host, count in Counter(
        reading.run["host_id"] for reading, _ in affected
    ).items():
        yield last[host], f"{count} of {format_count(counts[host], 'run')}"


def _split_overview_into_tables(
    rows: pd.DataFrame, descriptions: Descriptions
) -> list[list[Group]]:
    """Return the groups of each overview table: one group or, for a single host, all
    with equal columns.
    """
    is_single = rows["host_id"].nunique() == 1
    shared = defaultdict[object, list[Group]](list)
    for group in group_columns(sort_overview(rows), descriptions):
        shared[tuple(group.columns) if is_single else group.title].append(group)
    return list(shared.values())


def _draw_dots_by_kind_and_relation(
    rows: pd.DataFrame,
    usual: pd.DataFrame,
    readings: Sequence[Reading],
    descriptions: Descriptions,
) -> dict[str, dict[str, Markup]]:
    """Draw a panel per column, by overview group, with a line per host, a dot per run,
    a tick per round and a bar at the number of a host's runs. rows, usual: of
    `UsualNumbers`.
    """
    panels = defaultdict[str, dict[str, Markup]](dict)
    by_id = {reading.run["run_id"]: reading.run for reading in readings}
    places = {run_id: place for place, run_id in enumerate(by_id)}
    ordered = rows.iloc[rows["run_id"].map(places).argsort(kind="stable")]
    numbers = dict(iter(usual.groupby(OVERVIEW[:4])))
    groups = sort_overview(ordered).groupby(OVERVIEW[:4], sort=False)
    for key, own in groups:
        if len(own) < 2:
            continue
        benchmark, variant, about, column = map(str, key)
        kind = f"{benchmark}/{variant}".rstrip("/")
        description = descriptions[benchmark]
        ns = text.convert_to_shown(description, own["median_ns"])
        runs = own.assign(host=own["host_name"].map(figures.shorten_middle), ns=ns)
        rounds = [
            part.rounds[part.rounds["relation"] == column].assign(
                host=figures.shorten_middle(reading.run["host_name"])
            )
            for reading in readings
            for part in reading.parts
            if part.name == kind and len(part.rounds)
        ]
        ticks = pd.concat(rounds) if rounds else None
        unit = description.label
        bars = _list_bars(numbers[key], description)
        bars = {host: bars[host] for host in runs["host"].unique() if host in bars}
        listed = "; ".join(f"{host} {format_ns(ns)}" for host, ns in bars.items())
        title = f"{kind} {about}".rstrip()
        panels[title][column] = figures.draw(
            f"dots-{title.replace('/', '-')}-{column}",
            f"Run medians of {title}, {column}: {listed} {unit.rpartition(' ')[2]}",
            (figures.PANEL, 62 + 24 * runs["host"].nunique()),
            partial(plots.run_dots, runs, ticks, usual=bars, unit=unit),
            margins=(14 + 7 * max(map(len, runs["host"])), 42, 18, 8),
        )
    return panels


def _list_bars(usual: pd.DataFrame, benchmark: Benchmark) -> dict[str, float]:
    """Return each host's number as it is shown, by its shortened name."""
    hosts = usual["host_name"].map(figures.shorten_middle)
    shown = text.convert_to_shown(benchmark, usual["median_ns"])
    return dict(zip(hosts, shown.tolist(), strict=True))


def _build_map(
    reading: Reading,
    part: Part,
    shared: dict[str, heatmap.Limits],
    readings: Sequence[Reading],
) -> dict[str, Any]:
    """Return the map of a part for the template: numbers of pairs if they fit, else a
    picture.

    Keys: `limits` of the scale, `number` format, `cells` (a map shown as numbers, or
    None), `tips` by row and column (one per pair), `picture` or None. readings: of the
    page; if few are in detail, pairs get numbers.
    """
    assert part.table is not None  # noqa: S101  (asked for pairs only)
    order, drawn = reading.order, heatmap.map_cpus(part.table, reading.order)
    number = "{:.1f}" if drawn.limits[1] < 1000 else "{:.0f}"
    fits = len(order.cpus) <= heatmap.MAX_NUMBERS
    few = sum(reading.detailed for reading in readings) <= _FEW_MAPS
    has_pair_tips = fits or (few and len(order.cpus) <= _MAX_PAIR_TIPS)
    tips = _pair_tips(part.pairs, order, reading.number) if has_pair_tips else {}
    about = {"limits": drawn.limits, "number": number}
    if fits and few:
        return about | {"cells": drawn, "tips": tips, "picture": None}
    shapes = [
        (f"M{b} {a}h1v1h-1zM{a} {b}h1v1h-1z", tip) for (a, b), tip in tips.items()
    ]
    scales = [("own", drawn)]
    if len(readings) > 1:
        scales.append(("common", replace(drawn, limits=shared[part.name])))
    numbers = "its numbers are in the tables and in fleet show"
    title = f"Map of {part.name} on {reading.name}, {len(order.cpus)} CPUs; {numbers}"
    grouped = None if fits else heatmap.map_groups(part.table, order)
    shapes = shapes or _list_block_paths_and_tips(part.pairs, order, reading.number)
    drawing = figures.draw_map(title, scales, shapes)
    return about | {"cells": grouped, "tips": {}, "picture": drawing}


def _draw_captioned_cover(reading: Reading) -> tuple[str, Markup] | None:
    """Return a caption and a run's first map, ladder or distribution, for the first
    screen, or None.
    """
    for part in reading.parts:
        if part.table is not None and len(reading.order.cpus) >= _MIN_MAP:
            drawn = heatmap.map_cpus(part.table, reading.order)
            title = (
                f"Map of {part.name} on {reading.name}, small; the section of the run"
                " has it with numbers"
            )
            return f"{part.name}: dark is fast", figures.draw_map(
                title, [("own", drawn)], side=_FRONT
            )
    if reading.ladders:
        ladder = reading.ladders[0]
        return f"{ladder.name}: {ladder.heading} by {ladder.axis}", draw_ladder(
            reading, ladder, 0
        )
    for part in reading.parts:
        if part.curves:
            return f"{part.name}: all samples", _draw_ecdf(reading, part, "front")
    return None


def _draw_ecdf(reading: Reading, part: Part, place: str = "section") -> Markup:
    listed = "; ".join(
        f"{relation}: half within {format_ns(float(np.median(curve)))} ns, 99% within "
        f"{format_ns(float(np.quantile(curve, 0.99)))} ns"
        for relation, curve in part.curves.items()
    )
    return figures.draw(
        f"{reading.anchor}-ecdf-{place}-{part.name.replace('/', '-')}",
        f"Distribution of all samples of {part.name} on {reading.name}. {listed}",
        (figures.PANEL, 260),
        partial(plots.ecdf, part.curves, unit=part.heading),
        margins=(
            50,
            42,
            18,
            16 + 17 * -(-len(part.curves) // plots.legend_columns(part.curves)),
        ),
    )


def _pair_tips(
    pairs: pd.DataFrame, order: Layout, number: str
) -> dict[tuple[int, int], str]:
    """Return each pair's tip, keyed by (row, column) of one of its cells. number: the
    column drawn.
    """
    places, tips = {cpu: place for place, cpu in enumerate(order.cpus)}, {}
    for row in text.to_records(pairs):
        ping, pong = row["ping_cpu"], row["pong_cpu"]
        half = (
            f" {text.format_half_width(row['spread'])}".removesuffix(" -")
            if number == "median_ns"
            else ""
        )
        flags = f", {row['flags']}" if row["flags"] else ""
        tip = f"{ping}-{pong} {row['relation']}: {row[number]:.1f} ns{half}{flags}"
        tips[places[ping], places[pong]] = one_line(tip)
    return tips


def _list_block_paths_and_tips(
    pairs: pd.DataFrame, order: Layout, number: str
) -> list[tuple[str, str]]:
    """Return a path and a tip for the pairs between any two groups: relations, median,
    lowest, highest.
    """
    blocks, _ = heatmap.choose_blocks(order)
    places = {cpu: place for place, block in enumerate(blocks) for cpu in block}
    ends = np.sort(
        [pairs["ping_cpu"].map(places), pairs["pong_cpu"].map(places)], axis=0
    )
    starts = np.cumsum([0, *map(len, blocks)])
    groups: Iterator[Any] = iter(pairs.groupby([*ends], sort=True))
    tips = []
    for (a, b), part in groups:
        shapes = [
            f"M{starts[x]}"
            f" {starts[y]}h{len(blocks[x])}v{len(blocks[y])}h-{len(blocks[x])}z"
            for x, y in ((b, a), (a, b))
        ]
        across, values = ", ".join(part["relation"].unique()), part[number]
        where = " and ".join(
            format_cpus(blocks[place]) for place in dict.fromkeys((a, b))
        )
        tip = (
            f"CPUs {where}: {across}, {values.median():.1f} ns ({values.min():.1f} to"
            f" {values.max():.1f})"
        )
        tips.append(("".join(dict.fromkeys(shapes)), tip))
    return tips

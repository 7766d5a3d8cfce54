"""Build a report: read the runs, draw them and render one HTML page without scripts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.colors import Colormap

from fleet.analysis.base import text
from fleet.analysis.base.tables import Ints
from fleet.analysis.compare.comparison import Tables
from fleet.analysis.compare.history import mark_usual
from fleet.analysis.reduce import heatmap
from fleet.analysis.reduce.comparison_rows import OVERVIEW, select_overview_rows, sort_overview
from fleet.analysis.reduce.environment import list_properties
from fleet.analysis.reduce.matrices import estimator_column, reduce_by_relation
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.report import figures, plots
from fleet.analysis.report.differences import Difference, Forest, Residual, differences
from fleet.analysis.report.figures import thumbnail
from fleet.analysis.report.findings import COURSE_SIZE, Findings, find
from fleet.analysis.report.ladders import picture
from fleet.analysis.report.markup import number, render_template
from fleet.analysis.report.output import GENERATOR
from fleet.analysis.report.products import roofline
from fleet.analysis.report.read_runs import MANY_RUNS, Part, Reading, gather
from fleet.analysis.views.overview import (
    Group,
    compute_host_medians,
    describe_interval,
    group_columns,
    render_heading,
    since_text,
)
from fleet.analysis.views.sections import describe_burst_levels
from fleet.analysis.views.topology import describe_topology
from fleet.analysis.views.warnings import DEEDS, ORDER
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.model import SHIPPED, Descriptions
from fleet.model.version import VERSION
from fleet.plan.benchmark_names import ALL, select_kinds
from fleet.plan.cpulist import format_cpus
from fleet.store.runs import Root, open_listing
from fleet.text import format_count, one_line

_PANEL = 340  # CSS pixels: as wide as a telephone shows without scrolling
_LEAST_MAP = 4  # CPUs; a smaller map shows nothing
_FRONT = 300  # CSS pixels of a map on the first screen
_SIDE = 640  # CSS pixels
_MOST_PAIR_TIPS = 64  # CPUs; of more, a tip is about the pairs of two groups
_MOST_CELL = 26
_FEW_MAPS = 10  # runs in detail; of more, pairs have no number and no tip of their own
_TEXT, _DIGIT, _TIER = 9.5, 6.0, 16  # CSS pixels: a line of labels, a digit, a line of names


@dataclass(frozen=True, slots=True)
class Map:
    """A map of one run: numbers of pairs where they fit, else a picture of the pairs, and numbers of groups.

    limits: of its scale. cells: those shown as numbers. tips: by row and column, for one of a pair's two
    cells.
    """

    limits: heatmap.Limits
    cells: heatmap.Heatmap | None
    number: str
    tips: Mapping[tuple[int, int], str]
    picture: Markup | None


class Affected(NamedTuple):
    """A run that a warning applies to, and how much of it."""

    reading: Reading
    extent: str = ""


class PageWarning(NamedTuple):
    """A warning of one or more runs. key: as in `RunWarning`. affected: the runs; none: the whole page."""

    key: str
    text: str
    affected: tuple[Affected, ...] = ()

    @property
    def deed(self) -> str:
        """Return what the reader can do about it; empty where that is plain."""
        return DEEDS.get(self.key, "")


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
    """Return the page about these runs; raise StoreError, or UsageError for no run.

    sides: two sides to compare, baseline first. Without them the page opens with the findings of `selection`,
    or of these runs. heading: from `render_heading`, where hosts are left out or missing. ranges: what is
    expected of machines.
    """
    if not run_ids:
        raise UsageError("no run to report on.")
    root = open_listing(root)
    readings, tables_read = gather(root, run_ids, benchmark)
    detailed = [reading for reading in readings if reading.detailed]
    overall = _read_overview(root, readings, tables_read)
    usual = compute_host_medians(overall)
    maps = _maps_by_kind(detailed)
    shared = {kind: heatmap.choose_limits([table for _, table in of_kind]) for kind, of_kind in maps.items()}
    thumbnails = _draw_thumbnails(maps, shared)
    return render_template(
        "page.html",
        title=title or _make_title(readings),
        generator=f"{GENERATOR} {VERSION}",
        made=datetime.now(UTC),
        readings=readings,
        heading=heading or render_heading([run for run in root.runs if run.run_id in set(run_ids)]),
        kinds=select_kinds(
            benchmark or ALL,
            dict.fromkeys(kind for reading in readings for kind in reading.run["benchmarks"]),
        ),
        warnings=_list_page_warnings(readings),
        tables=_group_tables(usual, tables_read.descriptions),
        within=describe_interval(usual) if len(usual) else "",
        since=list(dict.fromkeys(since_text(row) for row in text.to_records(usual) if row["since"])),
        latest=list({reading.run["host_id"]: reading for reading in readings}.values()),
        dots=_draw_history(overall, readings, tables_read.descriptions) if len(readings) > 1 else {},
        detailed=detailed,
        descriptions=tables_read.descriptions,
        anchors={reading.anchor for reading in detailed},
        front=None if thumbnails else _choose_front(detailed[0]),
        thumbnails=thumbnails,
        shared=shared,
        differences=differences(root, readings, tables_read, sides) if sides else None,
        findings=Findings() if sides else find(root, selection or [",".join(run_ids)], benchmark, ranges),
        course_size=COURSE_SIZE,
        environment=list_properties([reading.run for reading in readings]),
        viridis=figures.palette("viridis"),
        diverging=figures.palette(plots.CHANGES),
        topology_of=describe_topology,
        levels_of=describe_burst_levels,
        map_of=_map,
        ecdf_of=_draw_ecdf,
        residual_of=_draw_residual,
        forest_of=_draw_forest,
        ladder_of=picture,
        roofline_of=roofline,
    )


def _make_title(readings: Sequence[Reading]) -> str:
    memory, pairs = (any(getattr(reading, name) for reading in readings) for name in ("ladders", "parts"))
    latency = "Core-to-core latency" + " and memory" * memory
    hosts = list(dict.fromkeys(reading.run["host_name"] for reading in readings))
    names = ", ".join(hosts) if len(hosts) <= 4 else f"{len(hosts)} hosts"
    return f"{latency if pairs or not memory else 'Memory'}: {names}"


def _list_page_warnings(readings: Sequence[Reading]) -> list[PageWarning]:
    """Return the warnings of the page, each once with the runs it applies to, without harmless ones."""
    runs_by_warning: dict[tuple[str, str], list[Affected]] = {}
    for reading in readings:
        for warning in reading.warnings:
            if not warning.minor:
                affected = runs_by_warning.setdefault((warning.key, warning.text), [])
                affected.append(Affected(reading, warning.extent))
    many = len(readings) > MANY_RUNS
    of_runs = [
        PageWarning(key, text, tuple(_group_by_host(affected, readings) if many else affected))
        for (key, text), affected in runs_by_warning.items()
    ]
    of_runs.sort(key=lambda warning: ORDER.index(warning.key))
    return [
        *_warn_of_variants(readings),
        *_warn_of_presets(readings),
        *of_runs,
        *_warn_of_single_runs(readings),
    ]


def _group_by_host(affected: Sequence[Affected], readings: Sequence[Reading]) -> Iterator[Affected]:
    """Yield each affected host by its last run, with how many of its runs are affected."""
    hosts = [reading.run["host_id"] for reading in readings]
    last = {reading.run["host_id"]: reading for reading in readings}
    affected_hosts = [entry.reading.run["host_id"] for entry in affected]
    for host in dict.fromkeys(affected_hosts):
        yield Affected(
            last[host], f"{affected_hosts.count(host)} of {format_count(hosts.count(host), 'run')}"
        )


def _read_overview(root: Root, readings: Sequence[Reading], tables: Tables) -> pd.DataFrame:
    """Return a row per run and overview cell, in the order of the runs, marked by `mark_usual`."""
    pairs = tables.pairs
    for reading in readings:
        if (number := estimator_column(reading.run)) != "median_ns":
            own = pairs["run_id"] == reading.run["run_id"]
            pairs = pairs.assign(median_ns=pairs["median_ns"].where(~own, pairs[number]))
    rows = sort_overview(
        reduce_by_relation(
            select_overview_rows(pairs, tables.cpus, tables.descriptions), ["run_id", *OVERVIEW]
        )
    )
    by_id = {reading.run["run_id"]: reading.run for reading in readings}
    for name in ("host_id", "host_name"):
        rows[name] = [by_id[run_id][name] for run_id in rows["run_id"]]
    place = rows["run_id"].map({run_id: place for place, run_id in enumerate(by_id)})
    return mark_usual(root, rows.iloc[place.argsort(kind="stable")])


def _group_tables(table: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> list[list[Group]]:
    """Group columns by the table they share; those of a single host share one if their names are equal."""
    shared: dict[object, list[Group]] = {}
    for group in group_columns(sort_overview(table), descriptions):
        shared.setdefault(
            tuple(group.columns) if table["host_id"].nunique() == 1 else group.title, []
        ).append(group)
    return list(shared.values())


def _warn_of_variants(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    kinds = sorted({part.name for reading in readings for part in reading.parts if not part.of_cpus})
    for benchmark, of_one in groupby(kinds, lambda kind: kind.partition("/")[0]):
        variants = [kind.partition("/")[2] for kind in of_one]
        if len(variants) > 1:
            text = f"used different instructions ({', '.join(variants)}); do not compare their latencies"
            yield PageWarning("", f"{benchmark} {text}")


def _warn_of_presets(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    if len({reading.run["preset"] for reading in readings}) > 1:
        runs = (Affected(reading, reading.run["preset"]) for reading in readings if reading.run["preset"])
        yield PageWarning("", "runs used the sampling and estimator of another tool", tuple(runs))


def _warn_of_single_runs(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    hosts = Counter(reading.run["host_id"] for reading in readings)
    single_runs = tuple(Affected(reading) for reading in readings if hosts[reading.run["host_id"]] == 1)
    text = "the difference between runs is unknown, and ±95% does not include it"
    if len(single_runs) == len(readings) > 1:
        yield PageWarning("", f"one run of each host: {text}")
    elif single_runs:
        yield PageWarning("", f"one run only: {text}", single_runs)


def _maps_by_kind(readings: Sequence[Reading]) -> dict[str, list[tuple[Reading, pd.DataFrame]]]:
    maps: dict[str, list[tuple[Reading, pd.DataFrame]]] = {}
    for reading in readings:
        for part in reading.parts:
            if part.table is not None:
                maps.setdefault(part.name, []).append((reading, part.table))
    return maps


def _draw_thumbnails(
    maps: Mapping[str, Sequence[tuple[Reading, pd.DataFrame]]], shared: Mapping[str, heatmap.Limits]
) -> dict[str, list[tuple[Reading, str]]]:
    """Return small maps of each run by benchmark, in one scale each.

    The benchmark of most runs comes first.
    """
    several = [kind for kind in maps if len(maps[kind]) > 1]
    return {
        kind: [
            (reading, figures.thumbnail(heatmap.map_cpus(table, reading.order, shared[kind]), "viridis"))
            for reading, table in maps[kind]
        ]
        for kind in sorted(several, key=lambda kind: -len(maps[kind]))
    }


def _draw_history(
    rows: pd.DataFrame, readings: Sequence[Reading], descriptions: Descriptions
) -> dict[str, list[tuple[str, Markup]]]:
    """Return panels by overview group, one per column: runs are dots on hosts' lines, rounds are ticks."""
    panels: dict[str, list[tuple[str, Markup]]] = {}
    for (benchmark, variant, about), group in sort_overview(rows).groupby(list(OVERVIEW[:3]), sort=False):
        kind = f"{benchmark}/{variant}".rstrip("/")
        in_detail = [
            part.rounds.assign(host=figures.shorten(reading.run["host_name"]))
            for reading in readings
            for part in reading.parts
            if part.name == kind and len(part.rounds)
        ]
        description = descriptions[str(benchmark)]
        for column, runs in group.groupby("relation", sort=False):
            dots = runs.assign(
                host=runs["host_name"].map(figures.shorten),
                ns=text.convert_to_shown(descriptions[str(benchmark)], runs["median_ns"]),
            )
            rounds = [table[table["relation"] == column] for table in in_detail]
            ticks = pd.concat(rounds) if rounds else None
            if len(dots) > 1:
                title = f"{kind} {about}".rstrip()
                panel = _draw_panel(title, str(column), dots, ticks, description.label)
                panels.setdefault(title, []).append((str(column), panel))
    return panels


def _draw_panel(kind: str, column: str, runs: pd.DataFrame, rounds: pd.DataFrame | None, unit: str) -> Markup:
    """Draw a panel. runs, rounds: columns `host` and `ns`, which is a number of any unit."""
    medians = runs.groupby("host", sort=False)["ns"].median()
    listed = "; ".join(f"{host} {number(float(ns))}" for host, ns in medians.items())
    return figures.draw(
        f"dots-{kind.replace('/', '-')}-{column}",
        f"Run medians of {kind}, {column}: {listed} {unit.rpartition(' ')[2]}",
        (_PANEL, 62 + 24 * len(medians)),
        partial(plots.run_dots, runs, rounds, unit=unit),
        margins=(14 + 7 * max(map(len, runs["host"])), 42, 18, 8),
    )


def _map(reading: Reading, part: Part, shared: dict[str, heatmap.Limits], readings: Sequence[Reading]) -> Map:
    """Build the map of a part. readings: all of the page; few in detail leave room for numbers of pairs."""
    assert part.table is not None  # noqa: S101  (asked for pairs only)
    common, order = shared[part.name], reading.order
    drawn = heatmap.map_cpus(part.table, order)
    number = "{:.1f}" if drawn.limits[1] < 1000 else "{:.0f}"
    fits, few = (
        len(order.cpus) <= heatmap.MOST_NUMBERS,
        sum(reading.detailed for reading in readings) <= _FEW_MAPS,
    )
    named = fits or (few and len(order.cpus) <= _MOST_PAIR_TIPS)
    tips = _pair_tips(text.to_records(part.pairs), order, part.number) if named else {}
    if fits and few:
        return Map(drawn.limits, drawn, number, tips, None)
    shapes = (
        [(f"M{b} {a}h1v1h-1zM{a} {b}h1v1h-1z", tip) for (a, b), tip in tips.items()]
        if named
        else _block_tips(part.pairs, order, part.number)
    )
    scales = [("own", drawn), *([("common", replace(drawn, limits=common))] if len(readings) > 1 else [])]
    title = (
        f"Map of {part.name} on {reading.name}, {len(order.cpus)} CPUs; "
        "its numbers are in the tables and in fleet show"
    )
    grouped = None if fits else heatmap.map_groups(part.table, order)
    return Map(drawn.limits, grouped, number, {}, _map_picture(title, drawn, scales, shapes))


def _choose_front(reading: Reading) -> tuple[str, Markup] | None:
    """Return the caption and picture of a run for the first screen: its first map, ladder or distribution."""
    for part in reading.parts:
        if part.table is not None and len(reading.order.cpus) >= _LEAST_MAP:
            drawn = heatmap.map_cpus(part.table, reading.order)
            title = f"Map of {part.name} on {reading.name}, small; the section of the run has it with numbers"
            return f"{part.name}: dark is fast", _map_picture(title, drawn, [("own", drawn)], side=_FRONT)
    if reading.ladders:
        ladder = reading.ladders[0]
        return f"{ladder.name}: {ladder.heading} by {ladder.axis}", picture(reading, ladder, 0)
    for part in reading.parts:
        if part.curves:
            return f"{part.name}: all samples", _draw_ecdf(reading, part, "front")
    return None


def _draw_ecdf(reading: Reading, part: Part, place: str = "section") -> Markup:
    listed = "; ".join(
        f"{relation}: half within {number(float(np.median(curve)))} ns, 99% within "
        f"{number(float(np.quantile(curve, 0.99)))} ns"
        for relation, curve in part.curves.items()
    )
    return figures.draw(
        f"{reading.anchor}-ecdf-{place}-{part.name.replace('/', '-')}",
        f"Distribution of all samples of {part.name} on {reading.name}. {listed}",
        (_PANEL, 260),
        partial(plots.ecdf, part.curves, unit=part.heading),
        margins=(50, 42, 18, 16 + 17 * -(-len(part.curves) // plots.legend_columns(part.curves))),
    )


def _draw_residual(difference: Difference, residual: Residual) -> Markup:
    a, b = difference.found.a.name, difference.found.b.name
    title = f"Change of {residual.kind} from {a} to {b} relative to its relation, in %"
    return _map_picture(title, residual.drawn, [("own", residual.drawn)], palette=plots.CHANGES)


def _draw_forest(forest: Forest, place: int) -> Markup:
    rows = forest.rows
    listed = "; ".join(
        f"{row['name']} {row['change']:+.1%} ({row['low']:+.1%} to {row['high']:+.1%})"
        for row in rows.to_dict("records")
    )
    names = rows["name"].map(figures.shorten)
    return figures.draw(
        f"forest-{place}",
        f"Changes of {forest.name} {forest.relation} with 95% intervals: {listed}",
        (_PANEL, 62 + 20 * len(rows)),
        partial(plots.forest, rows.assign(name=names), threshold=forest.threshold),
        margins=(14 + 7 * int(names.str.len().max()), 42, 18, 8),
    )


def _map_picture(
    title: str,
    drawn: heatmap.Heatmap,
    scales: Sequence[tuple[str, heatmap.Heatmap]],
    tips: Sequence[tuple[str, str]] = (),
    *,
    palette: str | Colormap = "viridis",
    side: int = _SIDE,
) -> Markup:
    """Draw a labelled map as SVG of at most `side` CSS pixels; a pixel per pair keeps it small.

    scales: classes of elements, and the map in the colours of each. tips: paths around cells, in cells from
    the upper left corner, and their texts. title: its content, for screen readers.
    """
    cell = min(_MOST_CELL, side / len(drawn.labels))
    size = cell * len(drawn.labels)
    beside = _DIGIT * max(map(len, drawn.labels)) + 8
    margin = beside + _TIER * len(drawn.tiers)
    every = max(1, int(np.ceil(_TEXT / cell)))  # CPU that has room for its number
    svg = render_template(
        "map.svg",
        title=one_line(title),
        whole=f"{margin + size + 2:.0f}",
        margin=margin,
        near=margin - 4,
        size=size,
        cell=cell,
        labels=[(name, margin + (place + 0.5) * cell) for place, name in enumerate(drawn.labels)][::every],
        upright=max(map(len, drawn.labels)) * _DIGIT + 2 > cell * every,
        groups=[*_name_groups(drawn, cell, margin, margin - beside)],
        pictures=[(name, thumbnail(scaled, palette)) for name, scaled in scales],
        borders=[margin + place * cell for place, border in enumerate(drawn.borders) if border],
        tips=tips,
    )
    return Markup(svg)  # noqa: S704  (the template escapes)


def _pair_tips(rows: Sequence[dict[str, Any]], order: Layout, number: str) -> dict[tuple[int, int], str]:
    """Return the tip of each pair, by one of its cells.

    rows: of `pairs`. number: the column that is drawn.
    """
    places, tips = {cpu: place for place, cpu in enumerate(order.cpus)}, {}
    for row in rows:
        ping, pong = row["ping_cpu"], row["pong_cpu"]
        half = f" {text.format_half_width(row['spread'])}".removesuffix(" -") if number == "median_ns" else ""
        flags = f", {row['flags']}" if row["flags"] else ""
        tip = one_line(f"{ping}-{pong} {row['relation']}: {row[number]:.1f} ns{half}{flags}")
        tips[places[ping], places[pong]] = tip
    return tips


def _block_tips(pairs: pd.DataFrame, order: Layout, number: str) -> list[tuple[str, str]]:
    """Return a tip for the pairs between any two groups of CPUs: relations, median, lowest and highest."""
    blocks, _ = heatmap.choose_blocks(order)
    of_cpu = {cpu: place for place, block in enumerate(blocks) for cpu in block}
    first, second = (pairs[name].map(of_cpu).to_numpy() for name in ("ping_cpu", "pong_cpu"))
    block = np.minimum(first, second) * len(blocks) + np.maximum(first, second)
    starts = np.cumsum([0, *map(len, blocks)])
    tips = []
    for key, part in pairs.groupby(block, sort=True):
        a, b = divmod(int(str(key)), len(blocks))
        across = ", ".join(dict.fromkeys(part["relation"]))
        values = part[number]
        where = " and ".join(format_cpus(blocks[place]) for place in dict.fromkeys((a, b)))
        cells = "".join(dict.fromkeys((_name_block(starts, a, b), _name_block(starts, b, a))))
        tip = f"CPUs {where}: {across}, {values.median():.1f} ns ({values.min():.1f} to {values.max():.1f})"
        tips.append((cells, tip))
    return tips


def _name_block(starts: Ints, row: int, column: int) -> str:
    width, height = (int(starts[place + 1] - starts[place]) for place in (column, row))
    return f"M{starts[column]} {starts[row]}h{width}v{height}h-{width}z"


def _name_groups(
    drawn: heatmap.Heatmap, cell: float, margin: float, far: float
) -> Iterator[tuple[str, float, float, float]]:
    """Yield each group's name, empty where it does not fit, where it begins and ends, and how far out."""
    for line, tier in enumerate(reversed(drawn.tiers)):
        bounds = np.cumsum([0, *(count for _, count in tier)]) * cell + margin
        for (name, _), (low, high) in zip(tier, pairwise(bounds), strict=True):
            if name:
                yield name if len(name) * _DIGIT + 4 <= high - low else "", low, high, far - _TIER * line

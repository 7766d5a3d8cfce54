"""Builds a report: reads the runs, draws them and renders one HTML page without scripts."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pandas as pd
from markupsafe import Markup

from fleet.analysis import plots
from fleet.analysis.reduce.cells import OVERVIEW, in_order
from fleet.analysis.reduce.environment import properties
from fleet.analysis.reduce.heatmap import (
    MOST_NUMBERS,
    Heatmap,
    Limits,
    colour_limits,
    is_log,
    of_cpus,
    of_groups,
)
from fleet.analysis.report import figures, maps
from fleet.analysis.report.differences import Difference, Forest, Residual, differences
from fleet.analysis.report.headline import overview_of, tables, warnings
from fleet.analysis.report.ladders import picture
from fleet.analysis.report.markup import number, pages
from fleet.analysis.report.output import GENERATOR
from fleet.analysis.report.products import roofline
from fleet.analysis.report.read_runs import MANY_RUNS, Part, Reading, gather
from fleet.analysis.views.sections import level_lines
from fleet.analysis.views.text import (
    SHARED,
    change_shown,
    interval,
    measured,
    records,
    shown_value,
    sides_text,
    span_text,
)
from fleet.analysis.views.topology import topology_lines
from fleet.errors import UsageError
from fleet.model import benchmark_named
from fleet.model.frozen import dataclass, replace
from fleet.model.version import VERSION
from fleet.store.runs import Root, listing_of

_PANEL = 340  # CSS pixels: as wide as a telephone shows without scrolling
_LEAST_MAP = 4  # CPUs; a smaller map shows nothing
_FRONT = 300  # CSS pixels of a map on the first screen


@dataclass(frozen=True, slots=True)
class Map:
    """A map of one run: pairs in numbers where they fit, else a picture of the pairs, and groups in numbers.

    limits: of its scale. cells: shown in numbers. tips: by row and column, of one of a pair's two cells.
    """

    limits: Limits
    cells: Heatmap | None
    number: str
    tips: Mapping[tuple[int, int], str]
    picture: Markup | None


def render(
    root: Root, run_ids: Sequence[str], title: str | None = None, sides: tuple[str, str] | None = None
) -> str:
    """The page about these runs. sides: of these, baseline first. StoreError; UsageError for no run."""
    if not run_ids:
        raise UsageError("no run to report on.")
    root = listing_of(root)
    readings, tables_read = gather(root, run_ids)
    detailed = [reading for reading in readings if reading.detailed]
    overall = overview_of(readings, tables_read)
    starts = [reading.run["started_utc"] for reading in readings]
    found = _maps_by_kind(detailed)
    shared = {kind: colour_limits([table for _, table in of_kind]) for kind, of_kind in found.items()}
    thumbnails = _thumbnails(found, shared)
    return (
        pages()
        .get_template("page.html")
        .render(
            title=title or _title(readings),
            generator=f"{GENERATOR} {VERSION}",
            made=datetime.now(UTC),
            readings=readings,
            span=span_text(min(starts), max(starts)),
            kinds=list(dict.fromkeys(kind for reading in readings for kind in reading.run["benchmarks"])),
            warnings=warnings(readings),
            tables=tables(overall, readings),
            dots=_history(overall, readings) if len(readings) > 1 else {},
            detailed=detailed,
            anchors={reading.anchor for reading in detailed},
            front=None if thumbnails else _front(detailed[0]),
            thumbnails=thumbnails,
            shared=shared,
            differences=differences(root, readings, tables_read, sides),
            environment=properties([reading.run for reading in readings]),
            viridis=figures.palette("viridis"),
            diverging=figures.palette(plots.CHANGES),
            meanings=SHARED,
            topology_of=topology_lines,
            levels_of=level_lines,
            map_of=_map,
            ecdf_of=_ecdf,
            residual_of=_residual,
            forest_of=_forest,
            ladder_of=picture,
            roofline_of=roofline,
            measured=measured,
            is_log=is_log,
            change_shown=change_shown,
            interval=interval,
            most_numbers=MOST_NUMBERS,
            sides_text=sides_text,
        )
    )


def _title(readings: Sequence[Reading]) -> str:
    memory, pairs = (any(getattr(one, name) for one in readings) for name in ("ladders", "parts"))
    latency = "Core-to-core latency" + " and memory" * memory
    hosts = list(dict.fromkeys(reading.run["host_name"] for reading in readings))
    names = ", ".join(hosts) if len(hosts) <= 4 else f"{len(hosts)} hosts"
    return f"{latency if pairs or not memory else 'Memory'}: {names}"


def _maps_by_kind(readings: Sequence[Reading]) -> dict[str, list[tuple[Reading, pd.DataFrame]]]:
    found: dict[str, list[tuple[Reading, pd.DataFrame]]] = {}
    for reading in readings:
        for part in reading.parts:
            if part.table is not None:
                found.setdefault(part.name, []).append((reading, part.table))
    return found


def _thumbnails(
    found: Mapping[str, Sequence[tuple[Reading, pd.DataFrame]]], shared: Mapping[str, Limits]
) -> dict[str, list[tuple[Reading, str]]]:
    """By benchmark each run with its map as a small picture, all in one scale; of most runs first."""
    several = [kind for kind in found if len(found[kind]) > 1]
    return {
        kind: [
            (reading, figures.thumbnail(of_cpus(table, reading.order, shared[kind]), "viridis"))
            for reading, table in found[kind]
        ]
        for kind in sorted(several, key=lambda kind: -len(found[kind]))
    }


def _history(rows: pd.DataFrame, readings: Sequence[Reading]) -> dict[str, list[tuple[str, Markup]]]:
    """By group of the overview a panel a column: runs are dots on hosts' lines, rounds in detail ticks."""
    found: dict[str, list[tuple[str, Markup]]] = {}
    for (benchmark, variant, about), group in in_order(rows).groupby(list(OVERVIEW[:3]), sort=False):
        kind = f"{benchmark}/{variant}".rstrip("/")
        parts = [(reading, part) for reading in readings for part in reading.parts if part.name == kind]
        known = benchmark_named(str(benchmark))
        for column, runs in group.groupby("relation", sort=False):
            shown = runs.assign(
                host=runs["host_name"].map(figures.short), ns=shown_value(str(benchmark), runs["median_ns"])
            )
            rounds = [
                part.rounds[part.rounds["relation"] == column].assign(
                    host=figures.short(reading.run["host_name"])
                )
                for reading, part in parts
                if len(part.rounds)
            ]
            ticks = pd.concat(rounds) if rounds else None
            if len(shown) > 1:
                title = f"{kind} {about}".rstrip()
                panel = _panel(title, str(column), shown, ticks, known.label)
                found.setdefault(title, []).append((str(column), panel))
    return found


def _panel(kind: str, column: str, runs: pd.DataFrame, rounds: pd.DataFrame | None, unit: str) -> Markup:
    """runs, rounds: `host` and `ns`, which is a number of any unit."""
    medians = runs.groupby("host", sort=False)["ns"].median()
    listed = "; ".join(f"{host} {number(float(ns))}" for host, ns in medians.items())
    return figures.draw(
        f"dots-{kind.replace('/', '-')}-{column}",
        f"Run medians of {kind}, {column}: {listed} {unit.rpartition(' ')[2]}",
        (_PANEL, 62 + 24 * len(medians)),
        partial(plots.run_dots, runs, rounds, unit=unit),
        margins=(14 + 7 * max(map(len, runs["host"])), 42, 18, 8),
    )


def _map(reading: Reading, part: Part, shared: dict[str, Limits], readings: Sequence[Reading]) -> Map:
    """The map of a part; readings: all of the page, of which a few leave room for numbers of pairs."""
    assert part.table is not None  # noqa: S101  (asked for pairs only)
    common, order = shared[part.name], reading.order
    drawn = of_cpus(part.table, order)
    number = "{:.1f}" if drawn.limits[1] < 1000 else "{:.0f}"
    fits, few = len(order.cpus) <= MOST_NUMBERS, len(readings) <= MANY_RUNS
    named = fits or (few and len(order.cpus) <= maps.MOST_PAIR_TIPS)
    tips = maps.pair_tips(records(part.pairs), order, part.number) if named else {}
    if fits and few:
        return Map(drawn.limits, drawn, number, tips, None)
    shapes = (
        [(f"M{b} {a}h1v1h-1zM{a} {b}h1v1h-1z", text) for (a, b), text in tips.items()]
        if named
        else maps.block_tips(part.pairs, order, part.number)
    )
    scales = [("own", drawn), *([("common", replace(drawn, limits=common))] if len(readings) > 1 else [])]
    title = (
        f"Map of {part.name} on {reading.name}, {len(order.cpus)} CPUs; "
        "its numbers are in the tables and in fleet show"
    )
    grouped = None if fits else of_groups(part.table, order)
    return Map(drawn.limits, grouped, number, {}, maps.picture(title, drawn, scales, shapes))


def _front(reading: Reading) -> tuple[str, Markup] | None:
    """The picture of a run with its caption, for the first screen: its first map, or ladder."""
    for part in reading.parts:
        if part.table is not None and len(reading.order.cpus) >= _LEAST_MAP:
            drawn = of_cpus(part.table, reading.order)
            title = f"Map of {part.name} on {reading.name}, small; the section of the run has it with numbers"
            return f"{part.name}: dark is fast", maps.picture(title, drawn, [("own", drawn)], side=_FRONT)
    if reading.ladders:
        ladder = reading.ladders[0]
        return f"{ladder.name}: {ladder.heading} by {ladder.axis}", picture(reading, ladder, 0)
    for part in reading.parts:
        if part.curves:
            return f"{part.name}: all samples", _ecdf(reading, part, "front")
    return None


def _ecdf(reading: Reading, part: Part, place: str = "section") -> Markup:
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


def _residual(difference: Difference, residual: Residual) -> Markup:
    a, b = difference.found.a.name, difference.found.b.name
    title = f"Change of {residual.kind} from {a} to {b} relative to its relation, in %"
    return maps.picture(title, residual.drawn, [("own", residual.drawn)], palette=plots.CHANGES)


def _forest(forest: Forest, place: int) -> Markup:
    rows = forest.rows
    listed = "; ".join(
        f"{row['name']} {row['change']:+.1%} ({row['low']:+.1%} to {row['high']:+.1%})"
        for row in rows.to_dict("records")
    )
    names = rows["name"].map(figures.short)
    return figures.draw(
        f"forest-{place}",
        f"Changes of {forest.name} {forest.relation} with 95% intervals: {listed}",
        (_PANEL, 62 + 20 * len(rows)),
        partial(plots.forest, rows.assign(name=names), threshold=forest.threshold),
        margins=(14 + 7 * int(names.str.len().max()), 42, 18, 8),
    )

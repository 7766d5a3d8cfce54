"""Builds a report: reads the runs, draws them and renders one HTML page without scripts.

jinja2 escapes all text of hosts and inventories; `one_line` makes control characters visible.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

from fleet import __version__
from fleet.analysis import plots
from fleet.analysis.reduce.heatmap import MOST_NUMBERS, Limits, colour_limits, of_cpus, of_groups
from fleet.analysis.report import figures
from fleet.analysis.report.cells import CellTable, cell_table, palette
from fleet.analysis.report.differences import Difference, Residual, differences
from fleet.analysis.report.environment_table import environment
from fleet.analysis.report.headline import MANY_RUNS, Table, tables, warnings
from fleet.analysis.report.ladders import level_tables, picture
from fleet.analysis.report.products import roofline
from fleet.analysis.report.read_runs import Part, Reading, Suspect, gather
from fleet.analysis.views.text import SHARED, change_shown, is_none, measured, percent, within
from fleet.analysis.views.topology import topology_lines
from fleet.errors import UsageError
from fleet.text import counted, one_line

GENERATOR = "fleet report"
_PANEL = 340  # CSS pixels: as wide as a telephone shows without scrolling
_MAP, _MAP_HEIGHT = 680, 590


@dataclass(frozen=True, slots=True)
class Map:
    """A map of one run: pairs in numbers where they fit, else groups in numbers and pairs as pictures.

    limits: of its own scale. groups: what the groups are; empty for pairs.
    """

    limits: Limits
    cells: CellTable
    groups: str
    pictures: tuple[Markup, ...]


def render(root: str | Path, run_ids: Sequence[str], title: str | None = None) -> str:
    """The page about these runs. Raises StoreError, or UsageError where no run is named."""
    if not run_ids:
        raise UsageError("no run to report on.")
    readings = gather(root, run_ids)
    detailed = _detailed(readings)
    shared = {kind: colour_limits(maps) for kind, maps in _maps_by_kind(readings).items()}
    return _template().render(
        title=title or f"{_subject(readings)}: {_names(readings)}",
        generator=f"{GENERATOR} {__version__}",
        made=datetime.now(UTC),
        readings=readings,
        span=_span(readings),
        kinds=list(dict.fromkeys(kind for reading in readings for kind in reading.run["benchmarks"])),
        warnings=warnings(readings),
        tables=tables(readings),
        level_tables=level_tables(readings),
        dots={table.kind: list(_dots(table, readings)) for table in tables(readings)},
        detailed=detailed,
        anchors={reading.anchor for reading in detailed},
        thumbnails=_thumbnails(detailed, shared) if len(detailed) > 1 else {},
        shared=shared,
        differences=differences(root, readings),
        environment=environment(readings),
        viridis=palette("viridis"),
        diverging=palette("PuOr_r"),
    )


def _detailed(readings: Sequence[Reading]) -> list[Reading]:
    """The runs with a section of their own: all of a few, of many runs of the same hosts the last of each."""
    last = {reading.run["host_id"]: reading for reading in readings}
    return list(last.values()) if len(readings) > MANY_RUNS else list(readings)


def _template() -> jinja2.Template:
    pages = jinja2.Environment(
        loader=jinja2.PackageLoader("fleet.analysis.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {
        "counted": counted,
        "within": within,
        "percent": percent,
        "number": _number,
        "change": _change,
        "moment": _moment,
    }
    pages.globals |= {
        "meanings": {str(relation): text for relation, text in SHARED.items()},
        "topology_of": topology_lines,
        "map_of": _map,
        "ecdf_of": _ecdf,
        "trace_of": _trace,
        "residual_of": _residual,
        "ladder_of": picture,
        "roofline_of": roofline,
        "measured": measured,
        "change_shown": change_shown,
    }
    return pages.get_template("page.html")


def _printable(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _number(value: float | None) -> str:
    """Nanoseconds with one decimal, from a thousand on with none."""
    if is_none(value) or value is None:
        return "-"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _moment(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"


def _change(ratio: float | None) -> str:
    """A ratio as a change: 1.034 -> "+3.4%"."""
    return "-" if is_none(ratio) or ratio is None else f"{ratio - 1:+.1%}"


def _subject(readings: Sequence[Reading]) -> str:
    """What a page is about, for its title."""
    memory = any(reading.ladders for reading in readings)
    if any(reading.parts for reading in readings):
        return "Core-to-core latency and memory" if memory else "Core-to-core latency"
    return "Memory" if memory else "Core-to-core latency"


def _names(readings: Sequence[Reading]) -> str:
    hosts = list(dict.fromkeys(reading.run["host_name"] for reading in readings))
    return ", ".join(hosts) if len(hosts) <= 4 else f"{len(hosts)} hosts"


def _span(readings: Sequence[Reading]) -> str:
    """When the runs began: one moment, or the first and the last."""
    starts = sorted(_moment(reading.run["started_utc"]) for reading in readings)
    first, last = starts[0], starts[-1]
    if first == last:
        return first
    return f"{first} to {last[11:] if last[:10] == first[:10] else last}"


def _maps_by_kind(readings: Sequence[Reading]) -> dict[str, list[pd.DataFrame]]:
    found: dict[str, list[pd.DataFrame]] = {}
    for reading in readings:
        for part in reading.parts:
            if part.table is not None:
                found.setdefault(part.name, []).append(part.table)
    return found


def _thumbnails(
    readings: Sequence[Reading], shared: dict[str, Limits]
) -> dict[str, list[tuple[Reading, str]]]:
    """By benchmark each run with its map as a small picture, all in one scale."""
    return {
        kind: [
            (reading, figures.thumbnail(of_cpus(part.table, reading.order, limits), "viridis"))
            for reading in readings
            for part in reading.parts
            if part.name == kind and part.table is not None
        ]
        for kind, limits in shared.items()
    }


def _dots(table: Table, readings: Sequence[Reading]) -> Iterator[tuple[str, Markup]]:
    """By relation every run as a dot on its host's line, its rounds as ticks."""
    parts = [(reading, part) for reading in readings for part in reading.parts if part.name == table.kind]
    for place, relation in enumerate(table.relations):
        runs, rounds = [], []
        for reading, part in parts:
            host = figures.short(reading.run["host_name"])
            own = part.rounds[part.rounds["relation"] == relation]["ns"]
            rounds += [{"host": host, "ns": ns} for ns in own]
            runs += [
                {"host": host, "ns": r["median_ns"]} for r in part.relations if r["relation"] == relation
            ]
        hosts = len({run["host"] for run in runs})
        medians = pd.DataFrame(runs).groupby("host", sort=False)["ns"].median()
        listed = "; ".join(f"{host} {_number(float(ns))} ns" for host, ns in medians.items())
        yield (
            relation,
            figures.draw(
                f"dots-{table.kind.replace('/', '-')}-{place}",
                f"Run medians of {table.kind}, {relation}: {listed}",
                (_PANEL, 62 + 24 * hosts),
                partial(plots.run_dots, pd.DataFrame(runs), pd.DataFrame(rounds)),
                margins=(14 + 7 * max(len(run["host"]) for run in runs), 42, 18, 8),
            ),
        )


def _map(reading: Reading, part: Part, shared: dict[str, Limits], several: bool) -> Map:
    assert part.table is not None  # noqa: S101  (asked for pairs only)
    common = shared[part.name]
    small = len(reading.order.cpus) <= MOST_NUMBERS
    drawn = (of_cpus if small else of_groups)(part.table, reading.order)
    numbers = cell_table(drawn, "{:.1f}" if drawn.limits[1] < 1000 else "{:.0f}", common)
    scales = [("its own scale", drawn.limits)] + [("the scale of all hosts", common)] * several
    pictures = (
        figures.draw(
            f"{reading.anchor}-map-{place}-{part.name.replace('/', '-')}",
            f"Map of {part.name} on {reading.name}, {len(reading.order.cpus)} CPUs, in {scale}; "
            "its numbers are in the table of groups and in fleet show",
            (_MAP, _MAP_HEIGHT),
            partial(plots.heatmap, part.table, reading.order, limits=ends),
            margins=(56, 8, 8, 56),
        )
        for place, (scale, ends) in enumerate(scales)
    )
    return Map(drawn.limits, numbers, drawn.groups, () if small else tuple(pictures))


def _ecdf(reading: Reading, part: Part) -> Markup:
    listed = "; ".join(
        f"{relation}: half within {_number(float(np.median(curve)))} ns, 99% within "
        f"{_number(float(np.quantile(curve, 0.99)))} ns"
        for relation, curve in part.curves.items()
    )
    return figures.draw(
        f"{reading.anchor}-ecdf-{part.name.replace('/', '-')}",
        f"Distribution of all samples of {part.name} on {reading.name}. {listed}",
        (_PANEL, 260),
        partial(plots.ecdf, part.curves),
        margins=(50, 42, 18, 16 + 17 * -(-len(part.curves) // 3)),
    )


def _trace(reading: Reading, part: Part, suspect: Suspect, place: int) -> Markup:
    row = suspect.row
    return figures.draw(
        f"{reading.anchor}-trace-{part.name.replace('/', '-')}-{place}",
        f"Samples of pair {row['ping_cpu']}-{row['pong_cpu']} over time, {part.name} on {reading.name}: "
        f"{row['flags']}, median {_number(row['median_ns'])} ns",
        (_PANEL, 200),
        partial(plots.trace, suspect.bursts),
        margins=(56, 42, 18, 10),
    )


def _residual(difference: Difference, residual: Residual, place: int) -> Markup:
    return figures.draw(
        f"residual-{place}-{residual.kind.replace('/', '-')}",
        f"Change of {residual.kind} from {difference.a} to {difference.b} relative to its relation, in %",
        (_MAP, _MAP_HEIGHT),
        partial(plots.difference_map, residual.change, residual.order),
    )

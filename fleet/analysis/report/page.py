"""Build a report: read the runs, draw them and render one HTML page."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fleet.analysis.base import text
from fleet.analysis.reduce import heatmap
from fleet.analysis.reduce.environment import list_properties
from fleet.analysis.reduce.host_numbers import OVERVIEW, sort_overview
from fleet.analysis.reduce.numbers import Only
from fleet.analysis.report import figures, plots
from fleet.analysis.report.differences import summarize_differences
from fleet.analysis.report.figures import render_thumbnail
from fleet.analysis.report.findings import Finding, Findings, find
from fleet.analysis.report.ladders import draw_ladder
from fleet.analysis.report.map_data import encode_map, find_reach, list_zooms
from fleet.analysis.report.markup import (
    digest_for_policy,
    format_ns,
    read_scripts,
    render_template,
)
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
from fleet.plan.benchmark_names import ALL, select_choices
from fleet.store.runs import Root, open_listing
from fleet.text import format_count

_MIN_MAP = 4  # CPUs; a smaller map shows nothing
_FRONT = 300  # CSS pixels of a map on the first screen
_FEW_MAPS = 10  # runs in detail; with more, pairs have no number of their own
_HOST_LINE = 24  # CSS pixels of a host's line in a panel of dots
# the key of a column of the overview: all but the column's `place` among the others
_OVERVIEW_KEY = OVERVIEW[:4]

_RunMatrix = tuple[Reading, pd.DataFrame]
Affected = tuple[Reading, str]  # a run that a warning applies to, and how much of it
# a panel of dots for each relation of a benchmark: {"cas/cmpxchg": {"smt": …}}
DotsByTitle = Mapping[str, Mapping[str, Markup]]


class PageWarning(NamedTuple):
    """A warning about one or more runs. key: as in `RunWarning`. advice: what the
    reader can do, or empty.

    affected: empty if the warning is about the whole page.
    """

    key: str
    text: str
    affected: Sequence[Affected] = ()
    advice: str = ""


def render(  # noqa: PLR0913  what a page may be asked for, and its progress
    root: Root,
    run_ids: Sequence[str],
    title: str | None = None,
    sides: tuple[str, str] | None = None,
    selection: Sequence[str] = (),
    benchmark: str | None = None,
    heading: str = "",
    ranges: Sequence[ExpectedRange] = (),
    *,
    on_run: Callable[[], None] = lambda: None,
) -> str:
    """Return the HTML page about these runs. Raises StoreError, and UsageError if there
    is no run.

    sides: two selections of runs to compare, baseline first. None: the page opens with
    findings about `selection` or, if that is empty, about these runs. benchmark: the
    only one to show; None for all. heading: from `render_heading`, if hosts are
    missing. ranges: what is expected of machines. on_run: called after each run is
    read.
    """
    if not run_ids:
        raise UsageError("no run to report on; `fleet runs` lists what is stored.")
    listing = open_listing(root)
    readings, tables_read = load_readings(listing, run_ids, benchmark, on_run)
    descriptions = tables_read.descriptions
    runs = listing.find_runs(set(run_ids))
    differences = None
    findings = Findings()
    if sides:
        differences = summarize_differences(listing, readings, tables_read, sides)
    else:
        only_these_runs = [",".join(run_ids)]
        findings = find(listing, selection or only_these_runs, benchmark, ranges)
    # `usual` has a row per number of a host, `numbers_by_run` one per number of a run
    usual, numbers_by_run, _ = load_usual_numbers(listing, runs, Only(benchmark))
    dots: DotsByTitle = {}
    if len(readings) > 1:
        dots = _draw_dots_by_title(numbers_by_run, usual, readings, descriptions)
    return render_template(
        "page.html",
        title=title,
        made=datetime.now(UTC),
        readings=readings,
        heading=heading or render_heading(runs),
        choices=_list_choices(readings, benchmark),
        warnings=_list_page_warnings(readings),
        latest=_select_last_of_hosts(readings),
        descriptions=descriptions,
        differences=differences,
        findings=findings,
        environment=list_properties([reading.run for reading in readings]),
        places=_locate_findings(findings, dots, readings),
        dots=dots,
        **_describe_usual_numbers(usual, descriptions),
        **_draw_first_screen(readings),
        **_list_scripts_and_colours(),
        **_list_template_functions(),
    )


def _list_scripts_and_colours() -> dict[str, Any]:
    """Return the script of every page, and the colours of its maps."""
    script = read_scripts("map.js", "controls.js", "values.js")
    return {
        "script": script,
        "script_digest": digest_for_policy(script),
        "viridis": figures.list_backgrounds_and_inks("viridis"),
        "diverging": figures.list_backgrounds_and_inks(plots.CHANGES),
    }


def _list_template_functions() -> dict[str, Any]:
    """Return the functions that the template calls, by their names in it."""
    return {
        "panel_id": _name_panel,
        "topology_of": describe_topology,
        "levels_of": describe_burst_levels,
        "map_of": _build_map,
        "ecdf_of": _draw_ecdf,
        "ladder_of": draw_ladder,
        "roofline_of": draw_roofline,
    }


def _list_choices(readings: Sequence[Reading], benchmark: str | None) -> list[str]:
    """List the benchmarks and variants that the page is about."""
    choices = dict[str, None]()
    for reading in readings:
        choices |= dict.fromkeys(reading.run["benchmarks"])
    return select_choices(benchmark or ALL, choices)


def _select_last_of_hosts(readings: Sequence[Reading]) -> list[Reading]:
    """Select the last run of each host."""
    last = {reading.run["host_id"]: reading for reading in readings}
    return list(last.values())


def _locate_findings(
    findings: Findings,
    dots: DotsByTitle,
    readings: Sequence[Reading],
) -> dict[Finding, str]:
    """Return the ID of the element of the page that shows each finding.

    The element is the panel of the finding's relation in `dots`. If there is no such
    panel, and all hosts of the finding have sections, the element is the section of the
    first host. A finding that has neither is left out.
    """
    # the ID of the section of each host, by name; of several runs, that of the last
    sections = {
        reading.run["host_name"]: reading.anchor
        for reading in readings
        if reading.detailed
    }
    ids = {}
    for answer in findings.answers:
        for finding in answer.findings:
            panels = dots.get(finding.choice, {})
            if finding.relation in panels:
                ids[finding] = _name_panel(finding.choice, finding.relation)
            elif set(finding.hosts) <= sections.keys():
                first_host = finding.hosts[0]
                ids[finding] = sections[first_host]
    return ids


def _name_panel(choice: str, relation: str) -> str:
    """Return the ID of the picture of every run of a relation."""
    return re.sub(r"[^\w-]", "-", f"runs-of-{choice}-{relation}")


def _describe_usual_numbers(
    usual: pd.DataFrame, descriptions: Descriptions
) -> dict[str, Any]:
    """Return what the template shows of the hosts' numbers.

    The numbers are in `tables`. The other keys are words about these numbers: `within`
    says what ±95% means; `since` lists the hosts whose runs count only since a change,
    `levels` the numbers around which runs lie at several levels. usual: the table of
    `UsualNumbers`.
    """
    within = ""
    if len(usual):
        within = describe_interval(usual)
    return {
        "tables": _split_overview_into_tables(usual, descriptions),
        "within": within,
        "since": list_last_changes(usual),
        "levels": list_several_levels(usual, descriptions),
    }


def _draw_first_screen(readings: Sequence[Reading]) -> dict[str, Any]:
    """Return the runs in detail and, for the first screen, small maps of several runs
    or, without these, one large picture, `front`.

    `shared` in the result: for each benchmark, the limits of a colour scale that all
    its maps have in common.
    """
    detailed = [reading for reading in readings if reading.detailed]
    maps = _group_maps(detailed)
    shared = {}
    for choice, maps_of_choice in maps.items():
        tables = [table for _, table in maps_of_choice]
        shared[choice] = heatmap.choose_limits(tables)
    thumbnails = _draw_thumbnails(maps, shared)
    front = None
    if not thumbnails:
        front = _draw_captioned_cover(detailed[0])
    return {
        "detailed": detailed,
        "shared": shared,
        "thumbnails": thumbnails,
        "front": front,
    }


def _group_maps(readings: Sequence[Reading]) -> dict[str, list[_RunMatrix]]:
    """Return the matrices of each benchmark, each with the run that it is of. A part
    without a matrix, as of single CPUs, is left out.
    """
    maps = defaultdict[str, list[_RunMatrix]](list)
    for reading in readings:
        for part in reading.parts:
            if part.table is not None:
                maps[part.name].append((reading, part.table))
    return maps


def _draw_thumbnails(
    maps: Mapping[str, Sequence[_RunMatrix]], shared: Mapping[str, heatmap.Limits]
) -> dict[str, list[tuple[Reading, str]]]:
    """Draw small maps of each benchmark that several runs have; the benchmark of most
    runs comes first. maps: as `_group_maps` returns them. shared: the limits of the
    colour scale that the maps of a benchmark have in common, by benchmark.
    """
    thumbnails = defaultdict[str, list[tuple[Reading, str]]](list)
    counts = {choice: len(maps_of_choice) for choice, maps_of_choice in maps.items()}
    most_runs_first = sorted(maps, key=lambda choice: -counts[choice])
    for choice in most_runs_first:
        if counts[choice] < 2:
            continue
        for reading, table in maps[choice]:
            thumbnail = _draw_thumbnail(reading, table, shared[choice])
            thumbnails[choice].append((reading, thumbnail))
    return dict(thumbnails)


def _draw_thumbnail(
    reading: Reading, table: pd.DataFrame, limits: heatmap.Limits
) -> str:
    """Draw a small map as a data URI."""
    drawn = heatmap.map_cpus(table, reading.order, limits)
    return render_thumbnail(drawn, "viridis")


def _list_page_warnings(readings: Sequence[Reading]) -> list[PageWarning]:
    """Return the page's warnings except minor ones, each once, with the runs that it
    applies to.
    """
    return [
        *_warn_about_differences(readings),
        *_list_warnings_of_runs(readings),
        *_warn_about_single_runs(readings),
    ]


def _list_warnings_of_runs(readings: Sequence[Reading]) -> list[PageWarning]:
    """Return the runs' own warnings, each once, in the order of their kinds, ORDER.

    The key of a warning is its kind. With many runs on the page, a warning lists only
    the last run of each host, with words such as "2 of 5 runs": the warning applies to
    so many of the host's runs.
    """
    are_many = len(readings) > MANY_RUNS
    warnings = []
    for (key, words), affected in _group_by_warning(readings).items():
        listed = affected
        if are_many:
            listed = list(_summarize_by_host(affected, readings))
        advice = ADVICE.get(key, "")
        warnings.append(PageWarning(key, words, listed, advice))
    return sorted(warnings, key=lambda warning: ORDER.index(warning.key))


def _group_by_warning(
    readings: Sequence[Reading],
) -> dict[tuple[str, str], list[Affected]]:
    """Return the runs that each warning applies to, each with words on how much of the
    run is affected. The runs are by the key and the text of the warning. Minor warnings
    are left out.
    """
    runs_by_warning = defaultdict[tuple[str, str], list[Affected]](list)
    for reading in readings:
        for warning in reading.warnings:
            if not warning.minor:
                affected = runs_by_warning[warning.key, warning.text]
                affected.append((reading, warning.extent))
    return runs_by_warning


def _warn_about_single_runs(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    """Warn of hosts with one run. If each of several hosts has one run, the warning is
    about the whole page and lists no runs.

    A run is listed with "" for its extent: the warning is about all of the run.
    """
    fault = "the difference between runs is unknown, and ±95% does not include it"
    run_counts = Counter(reading.run["host_id"] for reading in readings)
    single_runs = []
    for reading in readings:
        host = reading.run["host_id"]
        if run_counts[host] == 1:
            single_runs.append((reading, ""))
    if len(readings) > 1 and len(single_runs) == len(readings):
        yield PageWarning("", f"one run of each host: {fault}")
    elif single_runs:
        yield PageWarning("", f"one run only: {fault}", single_runs)


def _warn_about_differences(readings: Sequence[Reading]) -> Iterator[PageWarning]:
    """Warn of instructions and presets that differ between the runs. A preset makes a
    run sample and estimate as another tool does; None is fleet's own way.
    """
    for benchmark, variants in _group_variants(readings).items():
        if len(variants) > 1:
            fault = f"{benchmark} used different instructions ({', '.join(variants)})"
            yield PageWarning("", f"{fault}; do not compare their latencies")
    presets = {reading.run["preset"] for reading in readings}
    if len(presets) > 1:
        with_preset = []
        for reading in readings:
            preset = reading.run["preset"]
            if preset:
                with_preset.append((reading, preset))
        fault = "runs used the sampling and estimator of another tool"
        yield PageWarning("", fault, with_preset)


def _group_variants(readings: Sequence[Reading]) -> dict[str, list[str]]:
    """Return the variants of each benchmark that the runs have, leaving out benchmarks
    of single CPUs.
    """
    choices = set[str]()
    for reading in readings:
        for part in reading.parts:
            if not part.is_of_single_cpus:
                choices.add(part.choice)
    variants_by_benchmark = defaultdict[str, list[str]](list)
    for choice in sorted(choices):
        benchmark, _, variant = choice.partition("/")
        variants_by_benchmark[benchmark].append(variant)
    return variants_by_benchmark


def _summarize_by_host(
    affected: Sequence[Affected], readings: Sequence[Reading]
) -> Iterator[Affected]:
    """Yield the last run of each affected host, and how many of the host's runs are
    affected.
    """
    all_runs = Counter(reading.run["host_id"] for reading in readings)
    affected_runs = Counter(reading.run["host_id"] for reading, _ in affected)
    last = {reading.run["host_id"]: reading for reading in readings}
    for host, count in affected_runs.items():
        yield last[host], f"{count} of {format_count(all_runs[host], 'run')}"


def _split_overview_into_tables(
    rows: pd.DataFrame, descriptions: Descriptions
) -> list[list[Group]]:
    """Return the groups of columns of each overview table. A table has one group or,
    for a single host, all groups with the same columns.
    """
    is_single = rows["host_id"].nunique() == 1
    shared = defaultdict[object, list[Group]](list)
    for group in group_columns(sort_overview(rows), descriptions):
        key = tuple(group.columns) if is_single else group.title
        shared[key].append(group)
    return list(shared.values())


def _draw_dots_by_title(
    rows: pd.DataFrame,
    usual: pd.DataFrame,
    readings: Sequence[Reading],
    descriptions: Descriptions,
) -> DotsByTitle:
    """Draw a panel for each column of the overview that has two runs or more.

    A panel has a line per host. On the line, a run is a dot, a round of a run is a
    tick, and the number of the host's runs together is a bar. rows, usual: the two
    tables of `UsualNumbers`. `rows` has a row per run and column of the overview,
    `usual` a row per host and column.
    """
    panels = defaultdict[str, dict[str, Markup]](dict)
    usual_by_column = dict(iter(usual.groupby(_OVERVIEW_KEY)))
    in_order_of_runs = _sort_by_run(rows, readings)
    columns = sort_overview(in_order_of_runs).groupby(_OVERVIEW_KEY, sort=False)
    for key, rows_of_column in columns:
        if len(rows_of_column) < 2:  # there is nothing to compare
            continue
        # `about` is a setting, such as "read"; it and the variant may be ""
        benchmark, variant, about, relation = map(str, key)
        choice = f"{benchmark}/{variant}".rstrip("/")
        title = f"{choice} {about}".rstrip()
        description = descriptions[benchmark]
        panels[title][relation] = _draw_dots(
            title,
            relation,
            rows_of_column,
            rounds=_collect_rounds(readings, choice, relation),
            usual_by_host=_list_usual_by_host(usual_by_column[key], description),
            benchmark=description,
            readings=readings,
        )
    return panels


def _sort_by_run(rows: pd.DataFrame, readings: Sequence[Reading]) -> pd.DataFrame:
    """Sort rows in the order of the runs on the page."""
    places = {reading.run["run_id"]: place for place, reading in enumerate(readings)}
    place_of_row = rows["run_id"].map(places)
    in_order = place_of_row.argsort(kind="stable")
    return rows.iloc[in_order]


def _collect_rounds(
    readings: Sequence[Reading], choice: str, relation: str
) -> pd.DataFrame | None:
    """Return the medians of a relation's rounds in all runs, a row per round, with a
    column `host`; None if no run has such rounds.
    """
    tables = []
    for reading in readings:
        host = figures.shorten_middle(reading.run["host_name"])
        for part in reading.parts:
            rounds = part.rounds
            if part.name == choice and len(rounds):
                rounds_of_relation = rounds[rounds["relation"] == relation]
                tables.append(rounds_of_relation.assign(host=host))
    if not tables:
        return None
    return pd.concat(tables)


def _draw_dots(
    title: str,
    relation: str,
    rows: pd.DataFrame,
    rounds: pd.DataFrame | None,
    usual_by_host: Mapping[str, float],
    benchmark: Benchmark,
    readings: Sequence[Reading],
) -> Markup:
    """Draw a panel about a relation, with a line per host.

    rows: a row per run. rounds: from `_collect_rounds`. usual_by_host: from
    `_list_usual_by_host`; each number is drawn as a bar. readings: those of the page,
    from which runs have their names.
    """
    runs = rows.assign(
        host=rows["host_name"].map(figures.shorten_middle),
        ns=text.convert_to_shown(benchmark, rows["median_ns"]),
    )
    hosts = runs["host"].unique()
    usual = {host: usual_by_host[host] for host in hosts if host in usual_by_host}
    plot = partial(
        plots.run_dots,
        runs,
        rounds,
        usual=usual,
        unit=benchmark.label,
    )
    return figures.draw(
        f"dots-{title.replace('/', '-')}-{relation}",
        f"Run medians of {title}, {relation}: {_list_in_words(usual, benchmark)}",
        size=(figures.PANEL, figures.AROUND_LINES + _HOST_LINE * len(hosts)),
        onto=plot,
        margins=figures.choose_margins_for_names(hosts),
        values=_list_values_of_runs(runs, readings),
    )


def _list_in_words(number_by_host: Mapping[str, float], benchmark: Benchmark) -> str:
    """List the numbers of hosts, and their unit: "rome 43.4; lucca 51.0 ns"."""
    numbers = [f"{host} {format_ns(ns)}" for host, ns in number_by_host.items()]
    _, _, unit = benchmark.label.rpartition(" ")  # "one way, ns" -> "ns"
    return f"{'; '.join(numbers)} {unit}"


def _list_values_of_runs(
    runs: pd.DataFrame, readings: Sequence[Reading]
) -> list[figures.Value]:
    """List the number of each run with the run's name, as `plots.run_dots` draws it."""
    names = {reading.run["run_id"]: reading.name for reading in readings}
    lines = list(dict.fromkeys(runs["host"]))
    values = []
    for row in text.to_records(runs):
        ns = row["ns"]
        name = names[row["run_id"]]
        line = lines.index(row["host"])
        values.append(figures.Value(x=ns, y=line, words=f"{name}: {format_ns(ns)}"))
    return values


def _list_usual_by_host(usual: pd.DataFrame, benchmark: Benchmark) -> dict[str, float]:
    """Return the number of each host's runs together, as it is shown, by the host's
    shortened name. usual: a row per host.
    """
    hosts = usual["host_name"].map(figures.shorten_middle)
    numbers = text.convert_to_shown(benchmark, usual["median_ns"])
    return dict(zip(hosts, numbers.tolist(), strict=True))


def _build_map(
    reading: Reading,
    part: Part,
    shared: dict[str, heatmap.Limits],
    readings: Sequence[Reading],
) -> dict[str, Any]:
    """Return the map of a part for the template.

    Keys: `limits` of the scale; the format of a `number`; `data`, `zooms` and `reach`
    (see `find_reach`) for the script; `cells`, a map shown as numbers, or None;
    `picture` or None.

    part: one of pairs of CPUs, so that it has a table. shared: the limits of a colour
    scale for all maps of a part, by the part's name. readings: those of the whole page.
    """
    assert part.table is not None  # noqa: S101  (see `part`)
    order = reading.order
    drawn = heatmap.map_cpus(part.table, order)
    _, highest = drawn.limits
    common_limits = None
    if len(readings) > 1:
        common_limits = shared[part.name]
    detailed_count = sum(other.detailed for other in readings)
    # the script shows the bursts of a pair if only one run of the page is in detail
    bursts = part.bursts
    if detailed_count > 1:
        bursts = bursts[:0]  # none
    values = {
        "limits": drawn.limits,
        "number": "{:.1f}" if highest < 1000 else "{:.0f}",
        "data": encode_map(reading, part, drawn, common_limits, bursts),
        "zooms": list_zooms(drawn),
        "reach": find_reach(drawn),
    }
    fits = len(order.cpus) <= heatmap.MAX_NUMBERS
    are_few = detailed_count <= _FEW_MAPS
    if fits and are_few:
        return values | {"cells": drawn, "picture": None}
    picture = _draw_picture(reading, part, drawn, common_limits)
    if fits:
        return values | {"cells": None, "picture": picture}
    # too large for a number per pair: the numbers are those of groups of CPUs
    grouped = heatmap.map_groups(part.table, order)
    return values | {"cells": grouped, "picture": picture}


def _draw_picture(
    reading: Reading,
    part: Part,
    drawn: heatmap.Heatmap,
    common_limits: heatmap.Limits | None,
) -> Markup:
    """Draw the map of a part in its own colour scale and in the scale that all maps of
    the page have in common. common_limits: the ends of the common scale; None to leave
    that scale out.
    """
    scales = [("own", drawn)]
    if common_limits:
        scales.append(("common", replace(drawn, limits=common_limits)))
    count = len(reading.order.cpus)
    numbers = "its numbers are in the tables and in fleet show"
    title = f"Map of {part.name} on {reading.name}, {count} CPUs; {numbers}"
    return figures.draw_map(title, scales)


def _draw_captioned_cover(reading: Reading) -> tuple[str, Markup] | None:
    """Return a caption and a picture of a run for the first screen: its first map if it
    has at least _MIN_MAP CPUs, else its first ladder, else its first distribution. None
    if it has nothing of these.
    """
    mapped = [part for part in reading.parts if part.table is not None]
    if mapped and len(reading.order.cpus) >= _MIN_MAP:
        first = mapped[0]
        return f"{first.name}: dark is fast", _draw_cover_map(reading, first)
    if reading.ladders:
        ladder = reading.ladders[0]
        caption = f"{ladder.name}: {ladder.heading} by {ladder.axis}"
        return caption, draw_ladder(reading, ladder, place=0)
    for part in reading.parts:
        if part.curves:
            return f"{part.name}: all samples", _draw_ecdf(reading, part, "front")
    return None


def _draw_cover_map(reading: Reading, part: Part) -> Markup:
    """Draw the map of a part for the first screen. part: one that has a table."""
    assert part.table is not None  # noqa: S101  (see `part`)
    drawn = heatmap.map_cpus(part.table, reading.order)
    title = (
        f"Map of {part.name} on {reading.name}, small; the section of the run has it"
        " with numbers"
    )
    # "own": only with the colour scale of this map
    return figures.draw_map(title, [("own", drawn)], side=_FRONT)


def _draw_ecdf(reading: Reading, part: Part, place: str = "section") -> Markup:
    """Draw the distributions of all samples of a part. place: where on the page, which
    makes the picture's ID unique: "section" or "front".
    """
    columns = plots.legend_columns(part.curves)
    legend_lines = math.ceil(len(part.curves) / columns)
    legend_height = 16 + 17 * legend_lines
    name = part.name.replace("/", "-")
    subject = f"all samples of {part.name} on {reading.name}"
    return figures.draw(
        f"{reading.anchor}-ecdf-{place}-{name}",
        f"Distribution of {subject}. {'; '.join(_describe_curves(part))}",
        size=(figures.PANEL, 260),
        onto=partial(plots.ecdf, part.curves, unit=part.heading),
        margins=figures.Margins(left=50, bottom=42, right=18, top=legend_height),
    )


def _describe_curves(part: Part) -> list[str]:
    """Say where each distribution of a part has its middle and its end."""
    words = []
    for relation, curve in part.curves.items():
        half = format_ns(float(np.median(curve)))
        p99 = format_ns(float(np.quantile(curve, 0.99)))
        words.append(f"{relation}: half within {half} ns, 99% within {p99} ns")
    return words

"""Ladders of `fleet show`: the cost of memory by level and by size."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import pandas as pd

from fleet.analysis.base.text import (
    describe_half_widths,
    format_share,
    format_value,
    is_none,
    is_rate,
    is_too_wide,
)
from fleet.analysis.reduce.ladders import MEMORY, STEP, format_size, select_ladder_steps, sort_settings
from fleet.model import SHIPPED, Benchmark, Descriptions, relation_sort_key
from fleet.text import format_count, table

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # titles and lines
_NONE = "-"
_ENDS = ["ping_cpu", "pong_cpu"]


def render_ladder(
    pairs: pd.DataFrame,
    plateaus: pd.DataFrame,
    descriptions: Descriptions = SHIPPED,
    *,
    all_sizes: bool = False,
    width: int | None = None,
) -> str:
    """Render one benchmark and variant, by like CPUs: a row per level; per size if asked, or without levels.

    pairs: its rows. plateaus: from `find_plateaus`. Columns are settings; cycles only where they fit.
    """
    first, rows = pairs.iloc[0], select_ladder_steps(pairs, descriptions)
    benchmark = descriptions[first["benchmark"]]
    own = (plateaus["benchmark"] == first["benchmark"]) & (plateaus["variant"] == first["variant"])
    levels = plateaus[own]
    grouping = "by the level of the memory" if len(levels) else "by its size"
    name = f"{first['benchmark']}/{first['variant']}"
    parts = [f"{name}: {benchmark.heading}, {grouping}; {describe_pages(rows)}"]
    groups = group_like_cpus(levels).values()
    parts += [_render_fitting(tabulate_levels, group, descriptions, width, names=3) for group in groups]
    parts += explain_marks(levels)
    if levels["spread"].notna().any():
        ends = levels["spread"].median(), levels["spread"].max()
        parts.append(f"interval: {describe_half_widths('half the plateaus', *ends)}")
    if all_sizes or not len(levels):
        for _, group in rows.groupby(["threads", *_ENDS], sort=True):
            parts.append(_render_fitting(_tabulate_sizes, group, descriptions, width, names=0))
    ending = describe_bursts(rows)
    if benchmark.unit == "byte":
        ending += "; bytes that instructions move: what a write fetches before is not counted"
    if not all_sizes and len(levels):
        ending += f"; --ladder: all {format_count(rows['bytes'].nunique(), 'size')}"
    return "\n".join((*parts, ending))


def describe_bursts(rows: pd.DataFrame) -> str:
    """Say how many bursts a table is made of, and which share is flagged."""
    bursts, flagged = int(rows["bursts"].sum()), int(rows["flagged_bursts"].sum())
    share = f", {format_share(flagged / bursts)} of them flagged" if flagged else ""
    return f"medians of {format_count(bursts, 'burst')}{share}"


def tabulate_levels(
    group: pd.DataFrame, descriptions: Descriptions = SHIPPED, *, in_cycles: bool = True
) -> Table:
    """Return titles and a row per level, medians of like CPUs; in_cycles: loads in cycles too.

    group: plateaus, from `group_like_cpus`. cache: the part that one CPU may fill; sizes: those measured.
    """
    titles, format_cells = _choose_columns(group, descriptions, in_cycles=in_cycles)
    lines = []
    names = group.sort_values("least_bytes", kind="stable")["level"].unique().tolist()
    for level in sorted(names, key=lambda name: name == MEMORY):
        rows = group[group["level"] == level]
        cache, ends = int(rows["cache_bytes"].max()), (rows["least_bytes"].min(), rows["most_bytes"].max())
        sizes = "-".join(dict.fromkeys(format_size(int(size)) for size in ends))
        lines.append((level, format_size(cache) if cache else _NONE, sizes, *format_cells(rows)))
    return ("level", "cache", "sizes", *titles), lines


def _tabulate_sizes(rows: pd.DataFrame, descriptions: Descriptions, *, in_cycles: bool) -> Table:
    titles, format_cells = _choose_columns(rows, descriptions, in_cycles=in_cycles)
    sizes: list[int] = sorted(rows["bytes"].unique())
    lines = [(format_size(int(size)), *format_cells(rows[rows["bytes"] == size])) for size in sizes]
    return ("size", *titles), lines


def _choose_columns(
    rows: pd.DataFrame, descriptions: Descriptions, *, in_cycles: bool
) -> tuple[list[str], Callable[[pd.DataFrame], list[str]]]:
    """Return the titles of the settings of these rows, and a function that formats a line's rows below them.

    in_cycles: with the cycles of loads, where the core's frequency is known.
    """
    settings, benchmark = sort_settings(rows, descriptions), descriptions[rows["benchmark"].iloc[0]]
    cycles = in_cycles and not is_rate(benchmark) and bool(rows["core_ghz"].notna().any())

    def format_cells(line: pd.DataFrame) -> list[str]:
        cells = (
            _format_cell(line[line["setting"] == setting], benchmark, cycles=cycles) for setting in settings
        )
        return [*chain(*cells)]

    return [title for setting in settings for title in (setting, *["cycles"] * cycles)], format_cells


def _render_fitting(
    tabulate: Callable[..., Table],
    rows: pd.DataFrame,
    descriptions: Descriptions,
    width: int | None,
    names: int,
) -> str:
    """Render a table below its CPUs, without cycles if it would be too wide. names: columns of text."""
    for in_cycles in (True, False):
        titles, lines = tabulate(rows, descriptions, in_cycles=in_cycles)
        listed = table(titles, lines, right=set(range(names, len(titles))))
        if not is_too_wide(listed, width):
            break
    return f"{describe_cpus(rows)}\n{listed}"


def _format_cell(rows: pd.DataFrame, benchmark: Benchmark, *, cycles: bool) -> list[str]:
    """Return a number, and its cycles: ~ for a plateau that is not level, 12|34 at two levels."""
    if not len(rows):
        return [_NONE] * (1 + cycles)
    middle, ghz = float(rows["median_ns"].median()), rows["core_ghz"].median()
    uneven = "rise" in rows and bool((rows["rise"] > STEP).any())
    in_cycles = [_NONE if is_none(ghz) else f"{middle * ghz:.1f}"] if cycles else []
    levels = [ns for ns in (middle, rows["other_ns"].median()) if not is_none(ns)]
    number = "|".join(format_value(benchmark, ns) for ns in levels)
    return [("~" if uneven else "") + number, *in_cycles]


def explain_marks(levels: pd.DataFrame) -> list[str]:
    """Explain ~ and | where a table of these levels has them."""
    lines = []
    if (levels["rise"] > STEP).any():
        lines.append(f"~: no plateau: some sizes take more than {STEP:g} times as long as others")
    if levels["other_ns"].notna().any():
        lines.append("a|b: the main level is a; the median of the bursts at another level is b")
    return lines


def group_like_cpus(rows: pd.DataFrame, *by: str) -> dict[Any, pd.DataFrame]:
    """Group rows by `by`, number of threads and kinds of cores."""
    kinds: Any = [tuple(relation_sort_key(str(name))[1]) for name in rows["relation"]]
    groups = rows.assign(kinds=kinds).groupby([*by, "threads", "kinds"], sort=True, observed=True)
    return {key: group.drop(columns="kinds") for key, group in groups}


def describe_pages(rows: pd.DataFrame) -> str:
    """Name the kinds of pages of the memory of these rows."""
    return " and ".join(f"{kind} pages" for kind in sorted(rows["pages"].dropna().unique(), reverse=True))


def describe_cpus(rows: pd.DataFrame) -> str:
    """Name the CPUs of a table: one, several measured in turn, or groups at once."""
    threads, kind = int(rows["threads"].iloc[0]), str(rows["relation"].iloc[0]).partition(" ")[2]
    ends = sorted({*zip(rows["ping_cpu"], rows["pong_cpu"], strict=True)})
    suffix, (first, last) = f" ({kind})" if kind else "", ends[0]
    if threads == 1 and len(ends) == 1:
        return f"CPU {first}{suffix}"
    if threads == 1:
        return f"one CPU{suffix}: median of {len(ends)}, {first} to {ends[-1][0]}, one after the other"
    if len(ends) == 1:
        return f"{threads} CPUs{suffix}, {first} to {last}, all together"
    return f"{threads} CPUs{suffix} together: median of {format_count(len(ends), 'group')}"

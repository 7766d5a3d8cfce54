"""Ladders of `fleet show`: the cost of memory by level and by size."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fleet.analysis.base.text import (
    describe_half_widths,
    format_share,
    format_value,
    is_none,
    is_rate,
    is_too_wide,
    to_records,
)
from fleet.analysis.reduce.ladders import MEMORY, STEP, format_size, select_ladder_steps, sort_settings
from fleet.model import SHIPPED, Descriptions, relation_sort_key
from fleet.text import format_count, table

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
    parts = [
        f"{first['benchmark']}/{first['variant']}: {benchmark.heading}, {grouping}; {describe_pages(rows)}"
    ]
    parts += [
        f"{describe_cpus(group)}\n{_render_levels(group, width, descriptions)}"
        for group in group_like_cpus(levels).values()
    ]
    parts += explain_marks(levels)
    if levels["spread"].notna().any():
        ends = levels["spread"].median(), levels["spread"].max()
        parts.append(f"interval: {describe_half_widths('half the plateaus', *ends)}")
    if all_sizes or not len(levels):
        for _, group in rows.groupby(["threads", *_ENDS], sort=True):
            parts.append(f"{describe_cpus(group)}\n{_render_sizes(group, width, descriptions)}")
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
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return titles and a row per level, medians of like CPUs; in_cycles: loads in cycles too.

    group: plateaus, from `group_like_cpus`. cache: the part that one CPU may fill; sizes: those measured.
    """
    columns, cycles = sort_settings(group, descriptions), in_cycles and _has_cycles(group, descriptions)
    lines = []
    names = group.sort_values("least_bytes", kind="stable")["level"].unique().tolist()
    for level in sorted(names, key=lambda name: name == MEMORY):
        of_level = group[group["level"] == level]
        cache, ends = (
            int(of_level["cache_bytes"].max()),
            (of_level["least_bytes"].min(), of_level["most_bytes"].max()),
        )
        sizes = "-".join(dict.fromkeys(format_size(int(size)) for size in ends))
        line = [level, format_size(cache) if cache else _NONE, sizes]
        for column in columns:
            line += _format_cell(of_level[of_level["setting"] == column], descriptions, cycles=cycles)
        lines.append(tuple(line))
    return ("level", "cache", "sizes", *_name_columns(columns, cycles=cycles)), lines


def _render_levels(
    group: pd.DataFrame, width: int | None, descriptions: Descriptions, *, in_cycles: bool = True
) -> str:
    titles, lines = tabulate_levels(group, descriptions, in_cycles=in_cycles)
    full_table = table(titles, lines, right=set(range(3, len(titles))))
    return (
        _render_levels(group, width, descriptions, in_cycles=False)
        if in_cycles and is_too_wide(full_table, width)
        else full_table
    )


def _has_cycles(rows: pd.DataFrame, descriptions: Descriptions) -> bool:
    """Report whether loads are shown in cycles too: where the core's frequency is known."""
    return not is_rate(descriptions[rows["benchmark"].iloc[0]]) and bool(rows["core_ghz"].notna().any())


def _render_sizes(
    rows: pd.DataFrame, width: int | None, descriptions: Descriptions, *, in_cycles: bool = True
) -> str:
    columns, cycles = sort_settings(rows, descriptions), in_cycles and _has_cycles(rows, descriptions)
    lines = []
    for size in sorted(rows["bytes"].unique()):
        line = [format_size(int(size))]
        for column in columns:
            line += _format_cell(
                rows[(rows["bytes"] == size) & (rows["setting"] == column)], descriptions, cycles=cycles
            )
        lines.append(tuple(line))
    titles = ("size", *_name_columns(columns, cycles=cycles))
    full_table = table(titles, lines, right=set(range(len(titles))))
    return (
        _render_sizes(rows, width, descriptions, in_cycles=False)
        if cycles and is_too_wide(full_table, width)
        else full_table
    )


def _format_cell(rows: pd.DataFrame, descriptions: Descriptions, *, cycles: bool) -> list[str]:
    """Return a number, and its cycles: ~ for a plateau that is not level, 12|34 at two levels."""
    if not len(rows):
        return [_NONE] * (1 + cycles)
    middle, ghz = float(rows["median_ns"].median()), rows["core_ghz"].median()
    uneven = "rise" in rows and bool((rows["rise"] > STEP).any())
    in_cycles = [_NONE if is_none(ghz) else f"{middle * ghz:.1f}"] if cycles else []
    levels = [ns for ns in (middle, rows["other_ns"].median()) if not is_none(ns)]
    number = "|".join(format_value(descriptions[rows["benchmark"].iloc[0]], ns) for ns in levels)
    return [("~" if uneven else "") + number, *in_cycles]


def _name_columns(columns: Sequence[str], *, cycles: bool) -> list[str]:
    return [title for column in columns for title in ([column, "cycles"] if cycles else [column])]


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
    ends = [(row["ping_cpu"], row["pong_cpu"]) for row in to_records(rows[_ENDS].drop_duplicates())]
    of_kind = f" ({kind})" if kind else ""
    if threads == 1:
        cpus = sorted({ping for ping, _ in ends})
        if len(cpus) == 1:
            return f"CPU {cpus[0]}{of_kind}"
        return f"one CPU{of_kind}: median of {len(cpus)}, {cpus[0]} to {cpus[-1]}, one after the other"
    if len(ends) == 1:
        return f"{threads} CPUs{of_kind}, {ends[0][0]} to {ends[0][1]}, all together"
    return f"{threads} CPUs{of_kind} together: median of {format_count(len(ends), 'group')}"

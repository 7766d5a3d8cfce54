"""The ladders of `fleet show`: what memory costs by its level, and by its size, of benchmarks with points."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fleet.analysis.base.text import (
    format_half_width,
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
    """One benchmark and variant: of CPUs `alike` a row per level, and if asked for, or without, per size.

    pairs: its rows. plateaus: of `reduce.ladders`. Columns are settings; cycles only where they fit.
    """
    first, rows = pairs.iloc[0], select_ladder_steps(pairs, descriptions)
    known = descriptions[first["benchmark"]]
    own = (plateaus["benchmark"] == first["benchmark"]) & (plateaus["variant"] == first["variant"])
    levels = plateaus[own]
    what = "by the level of the memory" if len(levels) else "by its size"
    parts = [f"{first['benchmark']}/{first['variant']}: {known.heading}, {what}; {describe_pages(rows)}"]
    parts += [
        f"{describe_cpus(group)}\n{_levels(group, width, descriptions)}"
        for group in group_like_cpus(levels).values()
    ]
    parts += explain_marks(levels)
    if levels["spread"].notna().any():
        middle, worst = (
            format_half_width(levels["spread"].median()),
            format_half_width(levels["spread"].max()),
        )
        parts.append(f"interval: half the plateaus within {middle}, all within {worst}")
    if all_sizes or not len(levels):
        for _, group in rows.groupby(["threads", *_ENDS], sort=True):
            parts.append(f"{describe_cpus(group)}\n{_sizes(group, width, descriptions)}")
    ending = describe_bursts(rows)
    if known.unit == "byte":
        ending += "; bytes that instructions move: what a write fetches before is not counted"
    if not all_sizes and len(levels):
        ending += f"; --ladder: all {format_count(rows['bytes'].nunique(), 'size')}"
    return "\n".join((*parts, ending))


def describe_bursts(rows: pd.DataFrame) -> str:
    """How many bursts a table is made of, and the share of them that are flagged."""
    bursts, flagged = int(rows["bursts"].sum()), int(rows["flagged_bursts"].sum())
    share = f", {format_share(flagged / bursts)} of them flagged" if flagged else ""
    return f"medians of {format_count(bursts, 'burst')}{share}"


def tabulate_levels(
    group: pd.DataFrame, descriptions: Descriptions = SHIPPED, *, in_cycles: bool = True
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Titles and a row per level, medians over CPUs measured alike; in_cycles: loads in cycles too.

    group: plateaus, `alike`. cache: as much of it as one CPU may fill; sizes: those measured in it.
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
            line += _cell(of_level[of_level["setting"] == column], descriptions, cycles=cycles)
        lines.append(tuple(line))
    return ("level", "cache", "sizes", *_titles(columns, cycles=cycles)), lines


def _levels(
    group: pd.DataFrame, width: int | None, descriptions: Descriptions, *, in_cycles: bool = True
) -> str:
    titles, lines = tabulate_levels(group, descriptions, in_cycles=in_cycles)
    whole = table(titles, lines, right=set(range(3, len(titles))))
    return (
        _levels(group, width, descriptions, in_cycles=False)
        if in_cycles and is_too_wide(whole, width)
        else whole
    )


def _has_cycles(rows: pd.DataFrame, descriptions: Descriptions) -> bool:
    """Whether loads are shown in cycles too: where the core's frequency is known."""
    return not is_rate(descriptions[rows["benchmark"].iloc[0]]) and bool(rows["core_ghz"].notna().any())


def _sizes(
    rows: pd.DataFrame, width: int | None, descriptions: Descriptions, *, in_cycles: bool = True
) -> str:
    columns, cycles = sort_settings(rows, descriptions), in_cycles and _has_cycles(rows, descriptions)
    lines = []
    for size in sorted(rows["bytes"].unique()):
        line = [format_size(int(size))]
        for column in columns:
            line += _cell(
                rows[(rows["bytes"] == size) & (rows["setting"] == column)], descriptions, cycles=cycles
            )
        lines.append(tuple(line))
    titles = ("size", *_titles(columns, cycles=cycles))
    whole = table(titles, lines, right=set(range(len(titles))))
    return (
        _sizes(rows, width, descriptions, in_cycles=False) if cycles and is_too_wide(whole, width) else whole
    )


def _cell(rows: pd.DataFrame, descriptions: Descriptions, *, cycles: bool) -> list[str]:
    """The number of rows, and its cycles: ~ of a plateau which is not level, 12|34 if at two levels."""
    if not len(rows):
        return [_NONE] * (1 + cycles)
    middle, ghz = float(rows["median_ns"].median()), rows["core_ghz"].median()
    uneven = "rise" in rows and bool((rows["rise"] > STEP).any())
    in_cycles = [_NONE if is_none(ghz) else f"{middle * ghz:.1f}"] if cycles else []
    levels = [ns for ns in (middle, rows["other_ns"].median()) if not is_none(ns)]
    shown = "|".join(format_value(descriptions[rows["benchmark"].iloc[0]], ns) for ns in levels)
    return [("~" if uneven else "") + shown, *in_cycles]


def _titles(columns: Sequence[str], *, cycles: bool) -> list[str]:
    return [title for column in columns for title in ([column, "cycles"] if cycles else [column])]


def explain_marks(levels: pd.DataFrame) -> list[str]:
    """What ~ and | in a table of these levels mean, where they occur."""
    lines = []
    if (levels["rise"] > STEP).any():
        lines.append(f"~: no plateau: some sizes take more than {STEP:g} times as long as others")
    if levels["other_ns"].notna().any():
        lines.append("a|b: the main level is a; the median of the bursts at another level is b")
    return lines


def group_like_cpus(rows: pd.DataFrame, *by: str) -> dict[Any, pd.DataFrame]:
    """The rows of as many threads on the same kinds of cores, together; and by these columns."""
    kinds: Any = [tuple(relation_sort_key(str(name))[1]) for name in rows["relation"]]
    groups = rows.assign(kinds=kinds).groupby([*by, "threads", "kinds"], sort=True, observed=True)
    return {key: group.drop(columns="kinds") for key, group in groups}


def describe_pages(rows: pd.DataFrame) -> str:
    """The kinds of pages that the memory of these rows lay in."""
    return " and ".join(f"{kind} pages" for kind in sorted(rows["pages"].dropna().unique(), reverse=True))


def describe_cpus(rows: pd.DataFrame) -> str:
    """The CPUs of a table: one, several that were measured one after the other, or groups at once."""
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

"""Tables of memory levels and sizes."""

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.reduce import ladders
from fleet.analysis.views.benchmark_tables import (
    describe_bursts,
    describe_cpus,
    describe_pages,
    group_by_core_kinds,
)
from fleet.model import (
    SHIPPED,
    Benchmark,
    Descriptions,
)
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
    """Render a table of memory levels per kind of CPU, and tables by size if asked for
    or without levels.
    """
    first, rows = (
        pairs.iloc[0].to_dict(),
        ladders.select_ladder_steps(pairs, descriptions),
    )
    benchmark = descriptions[first["benchmark"]]
    own = (plateaus["benchmark"] == first["benchmark"]) & (
        plateaus["variant"] == first["variant"]
    )
    levels = plateaus[own]
    grouping = "by the level of the memory" if len(levels) else "by its size"
    parts = [
        f"{text.name_benchmark(first)}: {benchmark.heading}, {grouping};"
        f" {describe_pages(rows)}"
    ]
    groups = group_by_core_kinds(levels).values()
    for group in groups:
        tabulate = partial(tabulate_levels, group, descriptions)
        parts.append(_render_fitting(tabulate, group, width, names=3))
    parts += explain_marks(levels)
    if levels["spread"].notna().any():
        ends = levels["spread"].median(), levels["spread"].max()
        parts.append(
            f"interval: {text.describe_half_widths('half the plateaus', *ends)}"
        )
    if all_sizes or not len(levels):
        for _, group in rows.groupby(["threads", *_ENDS], sort=True):
            tabulate = partial(_tabulate_sizes, group, descriptions)
            parts.append(_render_fitting(tabulate, group, width, names=0))
    ending = describe_bursts(rows)
    if benchmark.unit == "byte":
        ending += (
            "; bytes that instructions move: what a write fetches before is not counted"
        )
    if not all_sizes and len(levels):
        ending += f"; --ladder: all {format_count(rows['bytes'].nunique(), 'size')}"
    return "\n".join((*parts, ending))


def tabulate_levels(
    group: pd.DataFrame, descriptions: Descriptions = SHIPPED, *, in_cycles: bool = True
) -> Table:
    """Return titles and a row per memory level, as medians over `group`. in_cycles: add
    columns in cycles.
    """
    parts: dict[tuple[str, ...], pd.DataFrame] = {}
    names = group.sort_values("least_bytes", kind="stable")["level"].unique().tolist()
    for level in sorted(names, key=lambda name: name == ladders.MEMORY):
        rows = group[group["level"] == level]
        cache_bytes = int(rows["cache_bytes"].max())
        cache = ladders.format_size(cache_bytes) if cache_bytes else _NONE
        parts[level, cache, _format_sizes(rows)] = rows
    titles = ("level", "cache", "sizes")
    return _tabulate_settings(titles, parts, descriptions, in_cycles=in_cycles)


def _format_sizes(rows: pd.DataFrame) -> str:
    """Format the smallest and the largest size, or one if they are equal."""
    least = ladders.format_size(int(rows["least_bytes"].min()))
    most = ladders.format_size(int(rows["most_bytes"].max()))
    return least if least == most else f"{least}-{most}"


def _tabulate_sizes(
    rows: pd.DataFrame, descriptions: Descriptions, *, in_cycles: bool
) -> Table:
    sizes = sorted(rows["bytes"].unique())
    parts: dict[tuple[str, ...], pd.DataFrame] = {
        (ladders.format_size(int(size)),): rows[rows["bytes"] == size] for size in sizes
    }
    return _tabulate_settings(("size",), parts, descriptions, in_cycles=in_cycles)


def _render_fitting(
    tabulate: Callable[..., Table], rows: pd.DataFrame, width: int | None, names: int
) -> str:
    """Render a table below its CPUs' names, without cycles if too wide. names: how many
    columns are text.
    """
    for in_cycles in (True, False):
        titles, lines = tabulate(in_cycles=in_cycles)
        listed = table(titles, lines, right=set(range(names, len(titles))))
        if not text.is_too_wide(listed, width):
            break
    return f"{describe_cpus(rows)}\n{listed}"


def _format_median(
    rows: pd.DataFrame, benchmark: Benchmark, *, cycles: bool
) -> list[str]:
    """Return the text of a number and, if `cycles`, of its cycles. ~: uneven plateau.
    12|34: two levels.
    """
    if not len(rows):
        return [_NONE, _NONE] if cycles else [_NONE]
    middle = float(rows["median_ns"].median())
    other = rows["other_ns"].median()
    number = text.format_value(benchmark, middle)
    if not text.is_none(other):
        number += f"|{text.format_value(benchmark, other)}"
    if "rise" in rows and (rows["rise"] > ladders.STEP).any():
        number = f"~{number}"
    if not cycles:
        return [number]
    ghz = rows["core_ghz"].median()
    return [number, _NONE if text.is_none(ghz) else f"{middle * ghz:.1f}"]


def explain_marks(levels: pd.DataFrame) -> list[str]:
    """Return a line that explains ~ and one for |, each only if a table of these levels
    has it.
    """
    lines = []
    if (levels["rise"] > ladders.STEP).any():
        lines.append(
            f"~: no plateau: some sizes take more than {ladders.STEP:g} times as long"
            " as others"
        )
    if levels["other_ns"].notna().any():
        lines.append(
            "a|b: the main level is a; the median of the bursts at another level is b"
        )
    return lines


def _tabulate_settings(
    names: tuple[str, ...],
    parts: Mapping[tuple[str, ...], pd.DataFrame],
    descriptions: Descriptions,
    *,
    in_cycles: bool,
) -> Table:
    """Return titles and a line per part: its names, then a number and its cycles for
    each setting.
    """
    rows = pd.concat(parts.values())
    benchmark = descriptions[rows["benchmark"].iloc[0]]
    has_frequency = bool(rows["core_ghz"].notna().any())
    cycles = in_cycles and has_frequency and not text.is_rate(benchmark)
    settings = ladders.sort_settings(rows, descriptions)
    titles = [*names]
    for setting in settings:
        titles += [setting, "cycles"] if cycles else [setting]
    lines = []
    for names_of_line, part in parts.items():
        cells = [*names_of_line]
        for setting in settings:
            own = part[part["setting"] == setting]
            cells += _format_median(own, benchmark, cycles=cycles)
        lines.append(tuple(cells))
    return tuple(titles), lines

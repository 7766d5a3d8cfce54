"""Tables of memory levels and sizes."""

from collections.abc import Callable, Iterator, Mapping
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
from fleet.model import SHIPPED, Benchmark, Descriptions
from fleet.text import format_count, table

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # titles and lines
_NONE = "-"


def render_ladder(
    steps: pd.DataFrame,
    levels: pd.DataFrame,
    descriptions: Descriptions = SHIPPED,
    *,
    all_sizes: bool = False,
    width: int | None = None,
) -> str:
    """Render a table of memory levels per kind of CPU. Add tables by size if asked for
    (`all_sizes`), or if there are no levels.

    steps: a row per CPUs, setting and size, from `select_ladder_steps`. levels: a row
    per CPUs, setting and level of memory, from `find_plateaus`; no rows if no cache
    sizes are known. Both are of one benchmark and variant. width: of the terminal;
    None: unlimited.
    """
    first = steps.iloc[0].to_dict()
    benchmark = descriptions[first["benchmark"]]
    has_levels = len(levels) > 0
    grouping = "by the level of the memory" if has_levels else "by its size"
    title = f"{text.name_benchmark(first)}: {benchmark.heading}, {grouping}"
    lines = [f"{title}; {describe_pages(steps)}"]
    lines += _render_levels(levels, descriptions, width)
    if all_sizes or not has_levels:
        lines += _render_sizes(steps, descriptions, width)
    notes = [describe_bursts(steps)]
    if benchmark.unit == "byte":
        notes.append(
            "bytes that instructions move: what a write fetches before is not counted"
        )
    if has_levels and not all_sizes:
        sizes = format_count(steps["bytes"].nunique(), "size")
        notes.append(f"--ladder: all {sizes}")
    return "\n".join([*lines, "; ".join(notes)])


def _render_levels(
    levels: pd.DataFrame, descriptions: Descriptions, width: int | None
) -> Iterator[str]:
    """Yield a table per kind of CPU, then what its marks and intervals are."""
    for group in group_by_core_kinds(levels).values():
        tabulate = partial(tabulate_levels, group, descriptions)
        yield _render_fitting(tabulate, group, width, text_columns=3)
    yield from explain_marks(levels)
    spread = levels["spread"]
    if spread.notna().any():
        # such as "half the plateaus within ±1.2%, all within ±3.4%"
        widths = text.describe_half_widths(
            "half the plateaus", spread.median(), spread.max()
        )
        yield f"interval: {widths}"


def _render_sizes(
    steps: pd.DataFrame, descriptions: Descriptions, width: int | None
) -> Iterator[str]:
    """Yield a table of all sizes for each group of CPUs."""
    cpus = ["threads", "ping_cpu", "pong_cpu"]
    for _, group in steps.groupby(cpus, sort=True):
        tabulate = partial(_tabulate_sizes, group, descriptions)
        yield _render_fitting(tabulate, group, width, text_columns=0)


def tabulate_levels(
    group: pd.DataFrame, descriptions: Descriptions = SHIPPED, *, in_cycles: bool = True
) -> Table:
    """Return titles and a line per memory level; its numbers are medians over the rows
    of `group` at that level. group: rows of levels, of CPUs of one kind. in_cycles: add
    a column of cycles behind each setting.
    """
    rows_by_names: dict[tuple[str, ...], pd.DataFrame] = {}
    for level in _sort_levels(group):
        rows = group[group["level"] == level]
        names = (level, _format_cache(rows), _format_sizes(rows))
        rows_by_names[names] = rows
    titles = ("level", "cache", "sizes")
    return _tabulate_settings(titles, rows_by_names, descriptions, in_cycles=in_cycles)


def _sort_levels(group: pd.DataFrame) -> list[str]:
    """Return the levels, the one of the smallest sizes first, memory last."""
    by_size = group.sort_values("least_bytes", kind="stable")
    levels = by_size["level"].unique().tolist()
    return sorted(levels, key=lambda level: level == ladders.MEMORY)


def _format_cache(rows: pd.DataFrame) -> str:
    cache_bytes = int(rows["cache_bytes"].max())
    return ladders.format_size(cache_bytes) if cache_bytes else _NONE


def _format_sizes(rows: pd.DataFrame) -> str:
    """Format the smallest and the largest size, or one if they are equal."""
    smallest = ladders.format_size(int(rows["least_bytes"].min()))
    largest = ladders.format_size(int(rows["most_bytes"].max()))
    return smallest if smallest == largest else f"{smallest}-{largest}"


def _tabulate_sizes(
    rows: pd.DataFrame, descriptions: Descriptions, *, in_cycles: bool
) -> Table:
    """Return titles and a line per size, such as "32K". rows: of one group of CPUs, a
    row per setting and size. in_cycles: add a column of cycles to each setting.
    """
    rows_by_names: dict[tuple[str, ...], pd.DataFrame] = {}
    for size in sorted(rows["bytes"].unique()):
        name = ladders.format_size(int(size))
        rows_by_names[(name,)] = rows[rows["bytes"] == size]
    return _tabulate_settings(
        ("size",), rows_by_names, descriptions, in_cycles=in_cycles
    )


def _render_fitting(
    tabulate: Callable[..., Table],
    rows: pd.DataFrame,
    width: int | None,
    text_columns: int,
) -> str:
    """Render a table below a line that names its CPUs; leave out the columns in cycles
    if it is too wide. text_columns: how many columns are text and stand before those of
    numbers, which are aligned to the right.
    """
    for in_cycles in (True, False):
        titles, lines = tabulate(in_cycles=in_cycles)
        number_columns = range(text_columns, len(titles))
        body = table(titles, lines, right=set(number_columns))
        if not text.is_too_wide(body, width):
            break
    return f"{describe_cpus(rows)}\n{body}"


def _format_cells(
    rows: pd.DataFrame, benchmark: Benchmark, *, cycles: bool
) -> list[str]:
    """Return the text of a number, the median of `rows`, and if `cycles` also that of
    its cycles. A text is "-" where nothing was measured, or where the frequency is
    unknown.
    """
    if rows.empty:
        return [_NONE, _NONE] if cycles else [_NONE]
    middle_ns = float(rows["median_ns"].median())
    number = _format_number(rows, middle_ns, benchmark)
    if not cycles:
        return [number]
    ghz = rows["core_ghz"].median()
    if text.is_none(ghz):
        return [number, _NONE]
    # ns x GHz = cycles
    return [number, f"{middle_ns * ghz:.1f}"]


def _format_number(rows: pd.DataFrame, middle_ns: float, benchmark: Benchmark) -> str:
    """Format a median as it is shown, with marks: "~12" if the sizes of the level
    differ too much for a plateau; "12|34" if some bursts are at another level than this
    number, and 34 is their median.

    rows: those that `middle_ns` is the median of. `other_ns` is the median of their
    bursts at another level, NaN without such bursts. `rise` is the time of the slowest
    size of a level divided by that of the fastest; rows of single sizes lack this
    column.
    """
    number = text.format_value(benchmark, middle_ns)
    other_ns = rows["other_ns"].median()
    if not text.is_none(other_ns):
        number += f"|{text.format_value(benchmark, other_ns)}"
    if "rise" not in rows:
        return number
    is_uneven = (rows["rise"] > ladders.STEP).any()
    return f"~{number}" if is_uneven else number


def explain_marks(levels: pd.DataFrame) -> list[str]:
    """Return a line that explains "~" and a line that explains "|". Each is left out if
    no table of these levels has the mark.

    levels: from `find_plateaus`. `rise` is the time of the slowest size of a level
    divided by that of the fastest. `other_ns` is the median of the bursts at another
    level than the number, NaN without such bursts.
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
    text_titles: tuple[str, ...],
    rows_by_names: Mapping[tuple[str, ...], pd.DataFrame],
    descriptions: Descriptions,
    *,
    in_cycles: bool,
) -> Table:
    """Return titles and lines. A line begins with names, one below each text title.
    Then it has a number for each setting, such as "read one". If `in_cycles`, a column
    of cycles stands behind each setting; there is none if numbers are rates, or if no
    frequency is known.

    rows_by_names: for each line its names, and its rows. A number is the median of the
    rows of its setting.
    """
    every_row = pd.concat(rows_by_names.values())
    benchmark = descriptions[every_row["benchmark"].iloc[0]]
    has_frequency = bool(every_row["core_ghz"].notna().any())
    shows_cycles = in_cycles and has_frequency and not text.is_rate(benchmark)
    settings = ladders.sort_settings(every_row, descriptions)
    titles = [*text_titles]
    for setting in settings:
        titles.append(setting)
        if shows_cycles:
            titles.append("cycles")
    lines = []
    for names, rows in rows_by_names.items():
        line = [*names]
        for setting in settings:
            rows_of_setting = rows[rows["setting"] == setting]
            line += _format_cells(rows_of_setting, benchmark, cycles=shows_cycles)
        lines.append(tuple(line))
    return tuple(titles), lines

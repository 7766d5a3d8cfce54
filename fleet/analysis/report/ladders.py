"""Draw ladders of memory latency or rate: by size, or by the load of other threads."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fleet.analysis.base.text import is_rate, to_records
from fleet.analysis.reduce.ladders import MemoryHierarchy, format_size, sort_settings
from fleet.analysis.report import figures, plots
from fleet.analysis.views.benchmark_tables import describe_cpus, group_by_core_kinds
from fleet.analysis.views.ladder_tables import explain_marks, tabulate_levels
from fleet.model import SHIPPED, Descriptions

_NUMBERS = ["median_ns", "low_ns", "high_ns"]
_LEVEL_TITLES = 3  # columns of a table of levels before its numbers


@dataclass(frozen=True, slots=True)
class Ladder:
    """The ladders of one benchmark and variant on CPUs of one kind, as medians over
    these CPUs.

    titles, lines: the table of memory levels; both are empty for a ladder over the
    load, and if no level is known. steps: a row per setting and value of the column
    `over`, which is the horizontal axis: "bytes", the size of the memory, or
    "other_rate", the GB/s of other threads.
    """

    name: str
    heading: str
    cpus: str
    titles: tuple[str, ...]
    lines: list[tuple[str, ...]]
    steps: pd.DataFrame
    levels: pd.DataFrame
    over: str = "bytes"

    @property
    def is_by_size(self) -> bool:
        """Report whether the horizontal axis is the size of the memory."""
        return self.over == "bytes"

    @property
    def axis(self) -> str:
        """Name the quantity on the horizontal axis."""
        if self.is_by_size:
            return "the size of the memory"
        return "GB/s of the other threads"

    @property
    def levels_caption(self) -> str:
        """Describe the table of levels and its marks."""
        subject = f"{self.heading} by the level of the memory"
        return "; ".join([subject, *explain_marks(self.levels)])


def build_ladders(
    pairs: pd.DataFrame,
    memory: MemoryHierarchy,
    choices: Sequence[str],
    descriptions: Descriptions = SHIPPED,
) -> list[Ladder]:
    """Return the ladders of a run in the order of `choices`. A ladder shows numbers by
    the size of the memory, or by the load that other threads put on the memory.

    pairs: those of the run, as float64. memory: made of these pairs. choices: the
    benchmarks and variants of the run.
    """
    benchmarks = [descriptions[choice] for choice in choices]
    # the benchmarks measured while other threads move bytes, which loads the memory
    load_benchmarks = [
        benchmark.name for benchmark in benchmarks if benchmark.other_unit == "byte"
    ]
    under_load = pairs[pairs["benchmark"].isin(load_benchmarks)]
    ladders = [
        *_build_load_curves(under_load, descriptions),
        *_build_size_ladders(memory.steps, memory.levels, descriptions),
    ]
    return sorted(ladders, key=lambda ladder: choices.index(ladder.name))


def _build_load_curves(
    rows: pd.DataFrame, descriptions: Descriptions
) -> Iterator[Ladder]:
    """Yield ladders over the rate at which other threads move bytes, with a line per
    operation of these threads.

    rows: of benchmarks under load. Each ladder is of one benchmark, variant, size of
    memory, number of threads and combination of kinds of cores. It is only drawn: it
    has no table and no memory levels, since its size is always the same.
    """
    groups = group_by_core_kinds(rows, "benchmark", "variant", "bytes")
    for (benchmark, variant, *_), own in groups.items():
        steps_by_line = _list_load_lines(own)
        if not steps_by_line:
            continue
        no_levels = own[:0]
        yield Ladder(
            name=f"{benchmark}/{variant}",
            heading=descriptions[str(benchmark)].heading,
            cpus=describe_cpus(own),
            titles=(),
            lines=[],
            steps=_compute_load_medians(pd.concat(steps_by_line)),
            levels=no_levels,
            over="other_rate",
        )


def _compute_load_medians(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each load that was asked for, the full one last."""
    # without a load, threads ask for all that the memory gives
    load_mbps = steps["load_mbps"].fillna(np.inf)
    by_load = steps.assign(asked=load_mbps).groupby(
        ["benchmark", "setting", "asked"], sort=True
    )
    return by_load[[*_NUMBERS, "other_rate"]].median().reset_index()


def _list_load_lines(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """List the rows of each line of a ladder over the load. A line has the rows of one
    operation of the other threads; the operation, such as "read", becomes the `setting`
    of the rows. The line begins with the rows measured while those threads were idle,
    which all lines share.
    """
    lines = []
    for operation in rows["operation"].unique():
        if operation != "idle":
            own = rows[rows["operation"].isin(["idle", operation])]
            lines.append(own.assign(setting=operation))
    return lines


def _build_size_ladders(
    rows: pd.DataFrame, levels: pd.DataFrame, descriptions: Descriptions
) -> Iterator[Ladder]:
    """Yield ladders over the size of the memory, a line per setting. A step of a line
    is the median over CPUs that are alike.

    rows, levels: the steps and the memory levels of all ladders. Each ladder has the
    steps and levels of one benchmark, variant, number of threads and combination of
    kinds of cores.
    """
    # the keys of both are benchmark, variant, number of threads and kinds of cores
    level_groups = group_by_core_kinds(levels, "benchmark", "variant")
    groups = group_by_core_kinds(rows, "benchmark", "variant")
    for key, part in groups.items():
        benchmark, variant, *_ = key
        own_levels = level_groups.get(key, levels[:0])
        titles, lines = _tabulate_levels(own_levels, descriptions)
        by_size = part.groupby(["benchmark", "setting", "bytes"], sort=True)
        yield Ladder(
            name=f"{benchmark}/{variant}",
            heading=descriptions[str(benchmark)].heading,
            cpus=describe_cpus(part),
            titles=titles,
            lines=lines,
            steps=by_size[_NUMBERS].median().reset_index(),
            levels=own_levels,
        )


def _tabulate_levels(
    levels: pd.DataFrame, descriptions: Descriptions
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the titles and lines of the table of levels; none without levels."""
    if levels.empty:
        return (), []
    return tabulate_levels(levels, descriptions)


def draw_ladder(reading: Any, ladder: Ladder, place: int) -> Markup:
    """Draw a ladder with its intervals, caches and levels.

    reading: a `Reading`, which this module cannot import. place: the index of the
    ladder among the run's ladders; it makes the picture's ID unique.
    """
    settings = sort_settings(ladder.steps, reading.descriptions)
    rate = is_rate(reading.descriptions[ladder.name])
    plot = partial(
        plots.ladder,
        ladder.steps,
        ladder.levels if ladder.is_by_size else None,
        settings=settings,
        rate=rate,
        over=ladder.over,
    )
    legend_lines = math.ceil(len(settings) / plots.LADDER_COLUMNS)
    legend_height = 22 + 18 * legend_lines
    return figures.draw(
        f"{reading.anchor}-ladder-{place}",
        _describe(ladder, reading.name),
        size=(figures.PANEL, 270),
        onto=plot,
        margins=figures.Margins(left=54, bottom=42, right=12, top=legend_height),
        values=_list_values(ladder, rate=rate),
    )


def _list_values(ladder: Ladder, *, rate: bool) -> list[figures.Value]:
    """List the numbers of a ladder's steps, each with words for the script to show:
    "read one, 32K: 1.52 ns". rate: whether the numbers are GB/s, not ns.
    """
    x_column = ladder.over
    numbers = plots.convert_steps(ladder.steps, x_column, rate=rate)
    unit = "GB/s" if rate else "ns"
    values = []
    for row in to_records(numbers):
        x = row["x"]
        median = row["median"]
        where = f"{x:.1f} GB/s"
        if ladder.is_by_size:
            where = format_size(int(x))
        words = f"{row['setting']}, {where}: {median:.3g} {unit}"
        values.append(figures.Value(x, median, words))
    return values


def _describe(ladder: Ladder, host: str) -> str:
    """Describe a ladder in two sentences: what it is, and the numbers of its levels."""
    subject = f"{ladder.name}, {ladder.cpus}, on {host}"
    levels = [_describe_level(ladder.titles, line) for line in ladder.lines]
    return f"{subject}: {ladder.heading} by {ladder.axis}. {'; '.join(levels)}"


def _describe_level(titles: Sequence[str], line: Sequence[str]) -> str:
    """Say the name and the numbers of a level. line: of a table with these titles."""
    numbers = zip(titles[_LEVEL_TITLES:], line[_LEVEL_TITLES:], strict=True)
    words = [f"{title} {number}" for title, number in numbers]
    return f"{line[0]} {', '.join(words)}"

"""Build the ladders of a report: levels and a figure per memory benchmark and number of threads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fleet.analysis.base.text import is_rate
from fleet.analysis.reduce.ladders import find_plateaus, select_ladder_steps, sort_settings
from fleet.analysis.report import figures, plots
from fleet.analysis.views.point_tables import describe_cpus, explain_marks, group_like_cpus, tabulate_levels
from fleet.model import SHIPPED, Descriptions, View

_WIDTH, _HEIGHT = 340, 270  # CSS pixels; as wide as a telephone shows without scrolling
_IN_A_LINE = 3  # settings of the legend
_NUMBERS = ("median_ns", "low_ns", "high_ns")


@dataclass(frozen=True, slots=True)
class Ladder:
    """The ladders of one benchmark and variant on like CPUs; lines are medians over them.

    titles, lines: the table of levels, without lines if no level is known. steps: rows by setting and size,
    or by the column `over`.
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
    def axis(self) -> str:
        """Name the quantity on the horizontal axis."""
        return "the size of the memory" if self.over == "bytes" else "GB/s of the other threads"

    @property
    def benchmark(self) -> str:
        """Return the name without the variant."""
        return self.name.partition("/")[0]

    @property
    def legend(self) -> str:
        """Describe the table of levels and its marks."""
        return "; ".join((f"{self.heading} by the level of the memory", *explain_marks(self.levels)))


def build_ladders(
    pairs: pd.DataFrame, cpus: pd.DataFrame, kinds: Sequence[str], descriptions: Descriptions = SHIPPED
) -> list[Ladder]:
    """Return the ladders and curves of a run, ordered as in `kinds`.

    pairs (from `as_float64`), cpus: its rows.
    """
    benchmarks = [descriptions[kind] for kind in kinds]
    loaded = [benchmark.name for benchmark in benchmarks if benchmark.other_unit == "byte"]
    ladders = list(_collect_curves(pairs[pairs["benchmark"].isin(loaded)], descriptions))
    if any(benchmark.view is View.LADDER for benchmark in benchmarks):
        steps, levels = select_ladder_steps(pairs, descriptions), find_plateaus(pairs, cpus, descriptions)
        ladders += _collect_ladders(steps, levels, descriptions)
    return sorted(ladders, key=lambda ladder: kinds.index(ladder.name))


def _collect_curves(rows: pd.DataFrame, descriptions: Descriptions) -> Iterator[Ladder]:
    """Yield numbers over the rate other threads got, a line per operation, from no load on."""
    for key, part in group_like_cpus(rows, "benchmark", "variant", "bytes").items():
        words = [word for word in part["operation"].unique() if word != "idle"]
        lines = [part[part["operation"].isin(["idle", word])].assign(setting=word) for word in words]
        if lines:
            steps = pd.concat(lines).assign(asked=lambda rows: rows["load_mbps"].fillna(np.inf))
            numbers = {name: (name, "median") for name in (*_NUMBERS, "other_rate")}
            steps = steps.groupby(["benchmark", "setting", "asked"], sort=True).agg(**numbers).reset_index()
            name, heading = f"{key[0]}/{key[1]}", descriptions[str(key[0])].heading
            yield Ladder(name, heading, describe_cpus(part), (), [], steps, part[:0], "other_rate")


def _collect_ladders(
    rows: pd.DataFrame, levels: pd.DataFrame, descriptions: Descriptions
) -> Iterator[Ladder]:
    numbers = {name: (name, "median") for name in _NUMBERS}
    level_groups = group_like_cpus(levels, "benchmark", "variant")
    for key, part in group_like_cpus(rows, "benchmark", "variant").items():
        own = level_groups.get(key, levels[:0])
        titles, lines = tabulate_levels(own, descriptions) if len(own) else ((), [])
        steps = part.groupby(["benchmark", "setting", "bytes"], sort=True).agg(**numbers).reset_index()
        about = (f"{key[0]}/{key[1]}", descriptions[str(key[0])].heading, describe_cpus(part))
        yield Ladder(*about, titles, lines, steps, own)


def picture(reading: Any, ladder: Ladder, place: int) -> Markup:
    """Draw a ladder with its intervals, caches and levels."""
    descriptions = reading.descriptions
    order = sort_settings(ladder.steps, descriptions)
    cells = [
        f"{line[0]} {', '.join(map(' '.join, zip(ladder.titles[3:], line[3:], strict=True)))}"
        for line in ladder.lines
    ]
    subject = f"{ladder.name}, {ladder.cpus}, on {reading.name}: {ladder.heading} by {ladder.axis}"
    levels = ladder.levels if ladder.over == "bytes" else None
    rate = is_rate(descriptions[ladder.benchmark])
    return figures.draw(
        f"{reading.anchor}-ladder-{place}",
        ". ".join([subject, "; ".join(cells)]),
        (_WIDTH, _HEIGHT),
        partial(plots.ladder, ladder.steps, levels, settings=order, rate=rate, over=ladder.over),
        margins=(54, 42, 12, 22 + 18 * -(-len(order) // _IN_A_LINE)),
    )

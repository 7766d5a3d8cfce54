"""The ladders of a report: of each benchmark of memory and number of threads its levels and a figure."""

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
from fleet.analysis.views.ladders import describe_cpus, explain_marks, group_like_cpus, tabulate_levels
from fleet.model import SHIPPED, Descriptions, View

_WIDTH, _HEIGHT = 340, 270  # CSS pixels; as wide as a telephone shows without scrolling
_IN_A_LINE = 3  # settings of the legend
_NUMBERS = ("median_ns", "low_ns", "high_ns")


@dataclass(frozen=True, slots=True)
class Ladder:
    """The ladders of one benchmark and variant on CPUs alike; lines are medians over them.

    titles, lines: the table of levels; no lines where no level is known. steps: rows by setting and size, or
    by `over`, another of their columns.
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
        """What the numbers are drawn over."""
        return "the size of the memory" if self.over == "bytes" else "GB/s of the other threads"

    @property
    def benchmark(self) -> str:
        """Its name without the variant."""
        return self.name.partition("/")[0]

    @property
    def legend(self) -> str:
        """What the table of levels is of, and what its marks mean."""
        return "; ".join((f"{self.heading} by the level of the memory", *explain_marks(self.levels)))


def ladders_of(
    pairs: pd.DataFrame, cpus: pd.DataFrame, kinds: Sequence[str], descriptions: Descriptions = SHIPPED
) -> list[Ladder]:
    """The ladders and curves of a run, by `kinds`, as planned. pairs, cpus: its rows, the former widened."""
    known = [descriptions[kind.partition("/")[0]] for kind in kinds]
    found = list(
        _curves(
            pairs[pairs["benchmark"].isin([one.name for one in known if one.other_unit == "byte"])],
            descriptions,
        )
    )
    if any(one.view is View.LADDER for one in known):
        found += _ladders(
            select_ladder_steps(pairs, descriptions), find_plateaus(pairs, cpus, descriptions), descriptions
        )
    return sorted(found, key=lambda one: kinds.index(one.name))


def _curves(rows: pd.DataFrame, descriptions: Descriptions) -> Iterator[Ladder]:
    """Numbers over what other threads got meanwhile, a line per operation from no load on."""
    for key, part in group_like_cpus(rows, "benchmark", "variant", "bytes").items():
        words = [word for word in part["operation"].unique() if word != "idle"]
        lines = [part[part["operation"].isin(["idle", word])].assign(setting=word) for word in words]
        if lines:
            steps = pd.concat(lines).assign(asked=lambda found: found["load_mbps"].fillna(np.inf))
            numbers = {name: (name, "median") for name in (*_NUMBERS, "other_rate")}
            steps = steps.groupby(["benchmark", "setting", "asked"], sort=True).agg(**numbers).reset_index()
            name, heading = f"{key[0]}/{key[1]}", descriptions[str(key[0])].heading
            yield Ladder(name, heading, describe_cpus(part), (), [], steps, part[:0], "other_rate")


def _ladders(rows: pd.DataFrame, levels: pd.DataFrame, descriptions: Descriptions) -> Iterator[Ladder]:
    numbers = {name: (name, "median") for name in _NUMBERS}
    known = group_like_cpus(levels, "benchmark", "variant")
    for key, part in group_like_cpus(rows, "benchmark", "variant").items():
        own = known.get(key, levels[:0])
        titles, lines = tabulate_levels(own, descriptions) if len(own) else ((), [])
        steps = part.groupby(["benchmark", "setting", "bytes"], sort=True).agg(**numbers).reset_index()
        about = (f"{key[0]}/{key[1]}", descriptions[str(key[0])].heading, describe_cpus(part))
        yield Ladder(*about, titles, lines, steps, own)


def picture(reading: Any, ladder: Ladder, place: int) -> Markup:
    """The figure: lines over the size of the memory, with intervals, caches and levels."""
    descriptions = reading.descriptions
    order = sort_settings(ladder.steps, descriptions)
    cells = [
        f"{line[0]} {', '.join(map(' '.join, zip(ladder.titles[3:], line[3:], strict=True)))}"
        for line in ladder.lines
    ]
    what = f"{ladder.name}, {ladder.cpus}, on {reading.name}: {ladder.heading} by {ladder.axis}"
    levels = ladder.levels if ladder.over == "bytes" else None
    how: dict[str, Any] = {
        "settings": order,
        "rate": is_rate(descriptions[ladder.benchmark]),
        "over": ladder.over,
    }
    return figures.draw(
        f"{reading.anchor}-ladder-{place}",
        ". ".join([what, "; ".join(cells)]),
        (_WIDTH, _HEIGHT),
        partial(plots.ladder, ladder.steps, levels, **how),
        margins=(54, 42, 12, 22 + 18 * -(-len(order) // _IN_A_LINE)),
    )

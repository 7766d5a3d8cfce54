"""Draw ladders of memory latency or rate by size, and the roofline of matrix
products.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fleet.analysis.base.text import is_rate
from fleet.analysis.reduce.ladders import (
    find_plateaus,
    select_ladder_steps,
    sort_settings,
)
from fleet.analysis.report import figures, plots
from fleet.analysis.views.point_tables import (
    add_peak_shares,
    describe_cpus,
    explain_marks,
    group_by_core_kinds,
    tabulate_levels,
)
from fleet.model import SHIPPED, Descriptions, View
from fleet.text import format_count

_NUMBERS = ["median_ns", "low_ns", "high_ns"]
_STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
_FROM_MEMORY = {"stream": "o", "stream.prefetch": "^", "deep": "D"}  # and their marks
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195")


@dataclass(frozen=True, slots=True)
class Ladder:
    """The ladders of one benchmark and variant on CPUs of one kind, as medians over
    these CPUs.

    titles, lines: the table of memory levels, without lines if none is known. steps: a
    row per setting and memory size, or per setting and value of the column `over`.
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
        return (
            "the size of the memory"
            if self.over == "bytes"
            else "GB/s of the other threads"
        )

    @property
    def levels_caption(self) -> str:
        """Describe the table of levels and its marks."""
        return "; ".join(
            (f"{self.heading} by the level of the memory", *explain_marks(self.levels))
        )


def build_ladders(
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    kinds: Sequence[str],
    descriptions: Descriptions = SHIPPED,
) -> list[Ladder]:
    """Return the ladders of a run, by memory size and by load, in the order of `kinds`.
    pairs: as float64.
    """
    benchmarks = [descriptions[kind] for kind in kinds]
    loaded = [
        benchmark.name for benchmark in benchmarks if benchmark.other_unit == "byte"
    ]
    ladders = list(
        _build_load_curves(pairs[pairs["benchmark"].isin(loaded)], descriptions)
    )
    if any(benchmark.view is View.LADDER for benchmark in benchmarks):
        steps, levels = (
            select_ladder_steps(pairs, descriptions),
            find_plateaus(pairs, cpus, descriptions),
        )
        ladders += _build_size_ladders(steps, levels, descriptions)
    return sorted(ladders, key=lambda ladder: kinds.index(ladder.name))


def _build_load_curves(
    rows: pd.DataFrame, descriptions: Descriptions
) -> Iterator[Ladder]:
    """Yield ladders over the rate of other threads, a line per operation. Each line
    begins without load.
    """
    for key, part in group_by_core_kinds(rows, "benchmark", "variant", "bytes").items():
        words = [word for word in part["operation"].unique() if word != "idle"]
        lines = [
            part[part["operation"].isin(["idle", word])].assign(setting=word)
            for word in words
        ]
        if lines:
            steps = pd.concat(lines).assign(
                asked=lambda rows: rows["load_mbps"].fillna(np.inf)
            )
            by = steps.groupby(["benchmark", "setting", "asked"], sort=True)
            steps = by[[*_NUMBERS, "other_rate"]].median().reset_index()
            name, heading = f"{key[0]}/{key[1]}", descriptions[str(key[0])].heading
            yield Ladder(
                name,
                heading,
                describe_cpus(part),
                (),
                [],
                steps,
                part[:0],
                "other_rate",
            )


def _build_size_ladders(
    rows: pd.DataFrame, levels: pd.DataFrame, descriptions: Descriptions
) -> Iterator[Ladder]:
    level_groups = group_by_core_kinds(levels, "benchmark", "variant")
    for key, part in group_by_core_kinds(rows, "benchmark", "variant").items():
        own = level_groups.get(key, levels[:0])
        titles, lines = tabulate_levels(own, descriptions) if len(own) else ((), [])
        steps = (
            part.groupby(["benchmark", "setting", "bytes"], sort=True)[_NUMBERS]
            .median()
            .reset_index()
        )
        about = (
            f"{key[0]}/{key[1]}",
            descriptions[str(key[0])].heading,
            describe_cpus(part),
        )
        yield Ladder(*about, titles, lines, steps, own)


def draw_ladder(reading: Any, ladder: Ladder, place: int) -> Markup:
    """Draw a ladder with its intervals, caches and levels."""
    descriptions = reading.descriptions
    order = sort_settings(ladder.steps, descriptions)
    cells = [
        f"{line[0]}"
        f" {', '.join(map(' '.join, zip(ladder.titles[3:], line[3:], strict=True)))}"
        for line in ladder.lines
    ]
    subject = (
        f"{ladder.name}, {ladder.cpus}, on {reading.name}: {ladder.heading} by"
        f" {ladder.axis}"
    )
    levels = ladder.levels if ladder.over == "bytes" else None
    rate = is_rate(descriptions[ladder.name])
    return figures.draw(
        f"{reading.anchor}-ladder-{place}",
        ". ".join([subject, "; ".join(cells)]),
        (figures.PANEL, 270),
        partial(
            plots.ladder,
            ladder.steps,
            levels,
            settings=order,
            rate=rate,
            over=ladder.over,
        ),
        margins=(54, 42, 12, 22 + 18 * -(-len(order) // 3)),
    )


@dataclass(frozen=True, slots=True)
class GemmRates:
    """The rates of matrix products on `threads` CPUs.

    roofs: the rate at which these CPUs together read each memory level, nearest first,
    in GB/s. rows: columns `variant`, `operation`, `shape` and `gops`, medians over like
    CPUs, each of the largest size measured.
    """

    threads: int
    cpus: str
    roofs: dict[str, float]
    rows: pd.DataFrame


def group_gemm_rates_by_threads(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[GemmRates]:
    """Return a run's rates by number of CPUs, one CPU first. pairs, cpus: its rows of
    these tables.
    """
    if not any(
        descriptions[name].view is View.PRODUCTS for name in pairs["benchmark"].unique()
    ):
        return []
    keys = ["variant", "operation", "ping_cpu", "pong_cpu", "threads"]
    rows = add_peak_shares(pairs, descriptions).sort_values(
        "bytes", na_position="first", kind="stable"
    )
    rows = rows.drop_duplicates(keys, keep="last").sort_index()
    rates, levels = [], find_plateaus(pairs, cpus, descriptions)
    for threads, part in rows.groupby("threads", sort=True):
        groups = part.groupby(["variant", "operation", "shape"], sort=False)
        medians = groups["gops"].median().reset_index()
        row, *_ = descriptions[str(part["benchmark"].iloc[0])].parameters_with_role(
            "row"
        )
        medians = medians.sort_values(
            row.name, key=lambda names: names.map(row.sort_key), kind="stable"
        )
        count = int(float(str(threads)))
        is_read = (levels["benchmark"] == "bandwidth") & (levels["setting"] == "read")
        fastest = (
            levels[is_read & (levels["threads"] == count)]
            .groupby("level")["median_ns"]
            .min()
        )
        roofs = {
            str(level): float(1 / ns) for level, ns in fastest.sort_values().items()
        }
        rates.append(GemmRates(count, describe_cpus(part), roofs, medians))
    return rates


def draw_roofline(reading: Any) -> Markup:
    """Draw the rate of matrix products over their operations per byte from memory."""
    every: list[GemmRates] = reading.gemm_rates
    sentences = []
    for group in every:
        roofs = "; ".join(
            f"{level} {rate:.0f} GB/s" for level, rate in group.roofs.items()
        )
        sentences.append(f"{group.cpus}: Gop/s by operations per byte; {roofs}")
        for variant, rows in group.rows.groupby("variant", sort=False):
            numbers = zip(rows["operation"], rows["gops"], strict=True)
            sentences.append(
                "; ".join(
                    (str(variant), *(f"{name} {gops:.1f}" for name, gops in numbers))
                )
            )
    rows = pd.concat([group.rows for group in every])
    dots = {*rows["operation"]} & _FROM_MEMORY.keys()
    entries = rows["variant"].nunique() + len(every) + len(dots)
    above = 14 + 17 * -(-entries // 2)
    return figures.draw(
        f"{reading.anchor}-roofline",
        f"Roofline of {reading.name}, {'. '.join(sentences)}",
        (figures.PANEL, 280 + above),
        partial(_plot_gemm_rates, every),
        margins=(56, 42, 12, above),
    )


def _plot_gemm_rates(every: Sequence[GemmRates], axes: Axes) -> None:
    """Plot a roofline: a line style per number of CPUs, a colour per variant. Fit the
    axes to the data.
    """
    parts = [
        group.rows.assign(cpus=place, threads=group.threads)
        for place, group in enumerate(every)
    ]
    rows = pd.concat(parts, ignore_index=True)
    peaks, dots = (
        rows[rows["operation"] == "peak"],
        rows[rows["operation"].isin(_FROM_MEMORY)],
    )
    dots = dots.assign(x=[_compute_intensity(row) for row in dots.to_dict("records")])
    tops = [float(group.rows["gops"].max()) for group in every]
    ridges = [
        top / rate
        for group, top in zip(every, tops, strict=True)
        for rate in group.roofs.values()
    ]
    x, y = [*ridges, *dots["x"]] or [1.0], [*tops, *dots["gops"], *peaks["gops"]]
    left, right, low = min(x) / 1.6, max(x) * 2.2, min(y) / 2.2
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(low, max(y) * 1.5))
    (x0, y0), (x1, y1) = axes.transData.transform([(left, low), (10 * left, 10 * low)])
    rise = float(np.degrees(np.arctan2(y1 - y0, x1 - x0)))
    along: Any = {
        "rotation": rise,
        "rotation_mode": "anchor",
        "va": "bottom",
        "fontsize": 8,
        "clip_on": True,
    }
    colours = dict(zip(dict.fromkeys(rows["variant"]), itertools.cycle(_COLOURS)))
    for (place, group), style in zip(enumerate(every), itertools.cycle(_STYLES)):
        for level, rate in group.roofs.items():
            begin = max(left, low / rate)
            axes.plot(
                [begin, tops[place] / rate],
                [begin * rate, tops[place]],
                style,
                color="#888888",
                linewidth=1,
            )
            axes.text(begin * 1.3, begin * 1.3 * rate, level, **along)
        for row in peaks[peaks["cpus"] == place].to_dict("records"):
            begin = max(left, row["gops"] / max(group.roofs.values(), default=math.inf))
            axes.plot(
                [begin, right],
                [row["gops"]] * 2,
                style,
                color=colours[row["variant"]],
                linewidth=1.6,
            )
        for row in dots[dots["cpus"] == place].to_dict("records"):
            look: Any = {
                "marker": _FROM_MEMORY[row["operation"]],
                "fillstyle": "none" if place else "full",
            }
            axes.plot(
                row["x"],
                row["gops"],
                color=colours[row["variant"]],
                markersize=5,
                **look,
            )
    axes.set(xlabel="operations per byte from memory", ylabel="Gop/s")
    for axis, ends in ((axes.xaxis, (left, right)), (axes.yaxis, axes.get_ylim())):
        plots.label_log_ticks(axis, *ends)
    lines = [
        Line2D([], [], color=colour, label=name) for name, colour in colours.items()
    ]
    grey = partial(Line2D, [], [], color="#888888")
    styles = zip(every, itertools.cycle(_STYLES))
    lines += [
        grey(linestyle=style, label=format_count(group.threads, "CPU"))
        for group, style in styles
    ]
    marks = {name: _FROM_MEMORY[name] for name in dict.fromkeys(dots["operation"])}
    lines += [
        grey(linestyle="none", marker=mark, label=name) for name, mark in marks.items()
    ]
    above: dict[str, Any] = {
        "loc": "lower left",
        "bbox_to_anchor": (0, 1),
        "borderaxespad": 0.3,
    }
    axes.legend(
        handles=lines,
        ncols=2,
        frameon=False,
        columnspacing=1.2,
        handlelength=1.8,
        **above,
    )


def _compute_intensity(row: dict[Any, Any]) -> float:
    """Return a product's operations per byte read from memory: matrix B or, for `deep`,
    matrices A and B.
    """
    m, n, k = map(int, row["shape"].split("x"))
    size = (
        2
        if "bf" in row["variant"]
        else 1
        if row["variant"].endswith(("int8", "vnni", "i8mm"))
        else 4
    )
    moved = size * k * (n + m if row["operation"] == "deep" else n)
    return 2 * m * n * k / moved

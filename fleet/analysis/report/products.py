"""Build the products of a report: the roofline of its own numbers."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fleet.analysis.reduce.ladders import find_plateaus
from fleet.analysis.report import figures
from fleet.analysis.report.plots import name_steps
from fleet.analysis.views.point_tables import add_peak_shares, describe_cpus
from fleet.model import SHIPPED, Descriptions, View
from fleet.text import format_count

_WIDTH, _HEIGHT = 340, 280  # CSS pixels; as wide as a telephone shows without scrolling
_IN_A_LINE = 2  # entries of the legend
_STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
_FROM_MEMORY = {"stream": "o", "stream.prefetch": "^", "deep": "D"}  # and their marks
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195")


@dataclass(frozen=True, slots=True)
class Products:
    """The products that one number of CPUs multiplies in a second.

    roofs: by memory level the rate at which they read together, in GB/s, if measured. rows: columns
    `variant`, `operation`, `shape` and `gops`, medians over like CPUs; of several sizes the largest.
    """

    threads: int
    cpus: str
    roofs: dict[str, float]
    rows: pd.DataFrame


def build_products(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[Products]:
    """Return the products of one run, of one CPU first. pairs, cpus: its rows of these tables."""
    if not any(descriptions[name].view is View.PRODUCTS for name in pairs["benchmark"].unique()):
        return []
    keys = ["variant", "operation", "ping_cpu", "pong_cpu", "threads"]
    rows = add_peak_shares(pairs, descriptions).sort_values("bytes", na_position="first", kind="stable")
    rows = rows.drop_duplicates(keys, keep="last").sort_index()
    products, levels = [], find_plateaus(pairs, cpus, descriptions)
    for threads, part in rows.groupby("threads", sort=True):
        groups = part.groupby(["variant", "operation", "shape"], sort=False)
        medians = groups.agg(gops=("gops", "median")).reset_index()
        (row, *_) = descriptions[str(part["benchmark"].iloc[0])].parameters_with_role("row")
        medians = medians.sort_values(row.name, key=lambda names: names.map(row.sort_key), kind="stable")
        count = int(float(str(threads)))
        products.append(Products(count, describe_cpus(part), _compute_roofs(levels, count), medians))
    return products


def _compute_roofs(levels: pd.DataFrame, threads: int) -> dict[str, float]:
    """Return the fastest rate at which so many CPUs read each level, nearest first, in GB/s."""
    moved = levels[(levels["benchmark"] == "bandwidth") & (levels["threads"] == threads)]
    read = moved[moved["setting"] == "read"]
    fastest = read.groupby("level")["median_ns"].min()
    return {str(level): float(1 / ns) for level, ns in fastest.sort_values().items()}


def roofline(reading: Any) -> Markup:
    """Draw how fast the units multiply, over the operations per byte from memory."""
    every: list[Products] = reading.products
    sentences = []
    for group in every:
        roofs = "; ".join(f"{level} {rate:.0f} GB/s" for level, rate in group.roofs.items())
        sentences.append(f"{group.cpus}: Gop/s by operations per byte; {roofs}")
        for variant, rows in group.rows.groupby("variant", sort=False):
            numbers = zip(rows["operation"], rows["gops"], strict=True)
            sentences.append("; ".join((str(variant), *(f"{name} {gops:.1f}" for name, gops in numbers))))
    rows = pd.concat([group.rows for group in every])
    dots = {*rows["operation"]} & _FROM_MEMORY.keys()
    entries = rows["variant"].nunique() + len(every) + len(dots)
    above = 14 + 17 * -(-entries // _IN_A_LINE)
    return figures.draw(
        f"{reading.anchor}-roofline",
        f"Roofline of {reading.name}, {'. '.join(sentences)}",
        (_WIDTH, _HEIGHT + above),
        partial(_draw, every),
        margins=(56, 42, 12, above),
    )


def _draw(every: Sequence[Products], axes: Axes) -> None:
    """Draw a line style per number of CPUs and a colour per variant; the axes end at the data."""
    parts = [group.rows.assign(cpus=place, threads=group.threads) for place, group in enumerate(every)]
    rows = pd.concat(parts, ignore_index=True)
    peaks, dots = rows[rows["operation"] == "peak"], rows[rows["operation"].isin(_FROM_MEMORY)]
    dots = dots.assign(x=[_compute_intensity(row) for row in dots.to_dict("records")])
    tops = [float(group.rows["gops"].max()) for group in every]
    ridges = [top / rate for group, top in zip(every, tops, strict=True) for rate in group.roofs.values()]
    x, y = [*ridges, *dots["x"]] or [1.0], [*tops, *dots["gops"], *peaks["gops"]]
    left, right, low = min(x) / 1.6, max(x) * 2.2, min(y) / 2.2
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(low, max(y) * 1.5))
    (x0, y0), (x1, y1) = axes.transData.transform([(left, low), (10 * left, 10 * low)])
    rise = float(np.degrees(np.arctan2(y1 - y0, x1 - x0)))
    along: Any = {"rotation": rise, "rotation_mode": "anchor", "va": "bottom", "fontsize": 8, "clip_on": True}
    colours = dict(zip(dict.fromkeys(rows["variant"]), itertools.cycle(_COLOURS)))
    for (place, group), style in zip(enumerate(every), itertools.cycle(_STYLES)):
        for level, rate in group.roofs.items():
            begin = max(left, low / rate)
            axes.plot(
                [begin, tops[place] / rate], [begin * rate, tops[place]], style, color="#888888", linewidth=1
            )
            axes.text(begin * 1.3, begin * 1.3 * rate, level, **along)
        for row in peaks[peaks["cpus"] == place].to_dict("records"):
            begin = max(left, row["gops"] / max(group.roofs.values(), default=math.inf))
            axes.plot([begin, right], [row["gops"]] * 2, style, color=colours[row["variant"]], linewidth=1.6)
        for row in dots[dots["cpus"] == place].to_dict("records"):
            look: Any = {"marker": _FROM_MEMORY[row["operation"]], "fillstyle": "none" if place else "full"}
            axes.plot(row["x"], row["gops"], color=colours[row["variant"]], markersize=5, **look)
    axes.set(xlabel="operations per byte from memory", ylabel="Gop/s")
    for axis, ends in ((axes.xaxis, (left, right)), (axes.yaxis, axes.get_ylim())):
        name_steps(axis, *ends)
    lines = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    grey = partial(Line2D, [], [], color="#888888")
    styles = zip(every, itertools.cycle(_STYLES))
    lines += [grey(linestyle=style, label=format_count(group.threads, "CPU")) for group, style in styles]
    marks = {name: _FROM_MEMORY[name] for name in dict.fromkeys(dots["operation"])}
    lines += [grey(linestyle="none", marker=mark, label=name) for name, mark in marks.items()]
    above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.3}
    axes.legend(handles=lines, ncols=_IN_A_LINE, frameon=False, columnspacing=1.2, handlelength=1.8, **above)


def _compute_intensity(row: dict[Any, Any]) -> float:
    """Return a product's operations for each byte that is new in it: B, and where all streams A as well."""
    m, n, k = map(int, row["shape"].split("x"))
    size = 2 if "bf" in row["variant"] else 1 if row["variant"].endswith(("int8", "vnni", "i8mm")) else 4
    moved = size * k * (n + m if row["operation"] == "deep" else n)
    return 2 * m * n * k / moved

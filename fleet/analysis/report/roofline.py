"""Draw the roofline of matrix products: their rate over their operations per byte from
memory.
"""

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

from fleet.analysis.reduce.load import get_views
from fleet.analysis.report import figures, plots
from fleet.analysis.views.benchmark_tables import describe_cpus
from fleet.analysis.views.product_tables import add_peak_shares
from fleet.model import SHIPPED, Descriptions, View
from fleet.text import format_count

_PEAK = "peak"  # the operation without memory
_MARKS = {"stream": "o", "stream.prefetch": "^", "deep": "D"}  # of products from memory
_STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195")
_GREY = "#888888"
_HEIGHT = 280  # CSS pixels, without the legend
_LEGEND_COLUMNS = 2
_LEGEND_LINE = 17  # CSS pixels
_FROM_BEGIN_TO_NAME = 1.3  # of a roof: the ratio of their x
_ONE_BYTE = ("int8", "vnni", "i8mm")  # ends of variants with elements of this size


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

    @property
    def top(self) -> float:
        """Return the highest rate, where the roofs end, in Gop/s."""
        return float(self.rows["gops"].max())

    def select_peaks(self) -> pd.DataFrame:
        """Select the rows of peaks, which read no memory."""
        return self.rows[self.rows["operation"] == _PEAK]

    def select_from_memory(self) -> pd.DataFrame:
        """Select the rows of products whose matrices come from memory; add `intensity`,
        their operations per byte.
        """
        rows = self.rows[self.rows["operation"].isin(_MARKS)]
        intensity = [_compute_intensity(row) for row in rows.to_dict("records")]
        return rows.assign(intensity=intensity)


def _compute_intensity(row: dict[Any, Any]) -> float:
    """Return a product's operations per byte read from memory.

    The product is of matrix A, m x k, and matrix B, k x n; `shape` is "MxNxK". B is new
    each time, so it is read from memory. A is the same each time and is not counted,
    except in the operation `deep`, where it is new, too. Each of the m x n results
    takes k multiplications and k additions.
    """
    m, n, k = (int(side) for side in row["shape"].split("x"))
    elements = k * n
    if row["operation"] == "deep":
        elements += k * m
    operations = 2 * m * n * k
    size = _find_element_size(row["variant"])
    return operations / (size * elements)


def _find_element_size(variant: str) -> int:
    """Return the bytes of an element of the matrices."""
    if "bf" in variant:
        return 2
    if variant.endswith(_ONE_BYTE):
        return 1
    return 4


def group_gemm_rates_by_threads(
    pairs: pd.DataFrame, levels: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[GemmRates]:
    """Return a run's rates of matrix products, an item per number of CPUs that ran them
    together, one CPU first; [] without products. pairs: rows of the run. levels: those
    of its memory, from `find_plateaus`.
    """
    views = get_views(pairs["benchmark"], descriptions)
    if not (views == View.PRODUCTS).any():
        return []
    products = _select_largest_products(pairs, descriptions)
    rates = []
    for _, own in products.groupby("threads", sort=True):
        threads = int(own["threads"].iloc[0])
        rates.append(
            GemmRates(
                threads=threads,
                cpus=describe_cpus(own),
                roofs=_find_roofs(levels, threads),
                rows=_compute_median_gops(own, descriptions),
            )
        )
    return rates


def _select_largest_products(
    pairs: pd.DataFrame, descriptions: Descriptions
) -> pd.DataFrame:
    """Select each operation's products of the largest size, with `gops` and `shape`."""
    operation = ["variant", "operation", "ping_cpu", "pong_cpu", "threads"]
    products = add_peak_shares(pairs, descriptions)
    by_size = products.sort_values("bytes", na_position="first", kind="stable")
    return by_size.drop_duplicates(operation, keep="last").sort_index()


def _find_roofs(levels: pd.DataFrame, threads: int) -> dict[str, float]:
    """Find the highest rate at which `threads` CPUs read each memory level, in GB/s, by
    the name of the level, such as "L2".

    The nearest level comes first: it is the fastest. levels: from `find_plateaus`. The
    `median_ns` of a bandwidth is the time of a byte, and a byte per ns is a GB/s.
    """
    is_bandwidth = levels["benchmark"] == "bandwidth"
    is_read = levels["setting"] == "read"
    is_of_threads = levels["threads"] == threads
    rows = levels[is_bandwidth & is_read & is_of_threads]
    ns_per_byte = rows.groupby("level")["median_ns"].min()
    gb_per_s = 1 / ns_per_byte.sort_values()
    roofs = {}
    for level, rate in gb_per_s.items():
        roofs[str(level)] = float(rate)
    return roofs


def _compute_median_gops(
    products: pd.DataFrame, descriptions: Descriptions
) -> pd.DataFrame:
    """Return the median `gops` over CPUs of each variant, operation and shape, a row
    each. The rows are in the order in which the benchmark lists its operations.

    products: a row per product and set of CPUs; all sets have the same number of CPUs.
    """
    groups = products.groupby(["variant", "operation", "shape"], sort=False)
    medians = groups["gops"].median().reset_index()
    benchmark = descriptions[str(products["benchmark"].iloc[0])]
    # the parameter that labels the rows of the benchmark's tables is the operation
    operation = benchmark.parameters_with_role("row")[0]
    return medians.sort_values(
        operation.name,
        key=lambda words: words.map(operation.sort_key),
        kind="stable",
    )


def draw_roofline(reading: Any) -> Markup:
    """Draw the rate of matrix products over their operations per byte from memory.
    reading: a `Reading`, which this module cannot import.
    """
    rates: list[GemmRates] = reading.gemm_rates
    sentences = itertools.chain.from_iterable(map(_describe, rates))
    entry_count = len(_list_legend_entries(rates))
    legend_lines = math.ceil(entry_count / _LEGEND_COLUMNS)
    legend_height = 14 + _LEGEND_LINE * legend_lines
    margins = figures.Margins(left=56, bottom=42, right=12, top=legend_height)
    return figures.draw(
        f"{reading.anchor}-roofline",
        f"Roofline of {reading.name}, {'. '.join(sentences)}",
        (figures.PANEL, _HEIGHT + legend_height),
        partial(_plot_gemm_rates, rates),
        margins=margins,
    )


def _describe(group: GemmRates) -> list[str]:
    """Describe the roofs in a sentence, and the rates of each variant in another."""
    roofs = [f"{level} {rate:.0f} GB/s" for level, rate in group.roofs.items()]
    subject = f"{group.cpus}: Gop/s by operations per byte"
    sentences = [f"{subject}; {'; '.join(roofs)}"]
    for variant, rows in group.rows.groupby("variant", sort=False):
        parts = [str(variant)]
        for operation, gops in zip(rows["operation"], rows["gops"], strict=True):
            parts.append(f"{operation} {gops:.1f}")
        sentences.append("; ".join(parts))
    return sentences


def _plot_gemm_rates(rates: Sequence[GemmRates], axes: Axes) -> None:
    """Plot a roofline: a line style per number of CPUs, a colour per variant."""
    _fit_axes(axes, rates)
    colours = _choose_colours(rates)
    fill = "full"
    for group, style in zip(rates, itertools.cycle(_STYLES)):
        _plot_roofs(axes, group, style)
        _plot_peaks(axes, group, style, colours)
        _plot_from_memory(axes, group, colours, fill=fill)
        fill = "none"  # from the second group on, dots are hollow, to tell them apart
    axes.set(xlabel="operations per byte from memory", ylabel="Gop/s")
    plots.label_log_ticks(axes.xaxis, *axes.get_xlim())
    plots.label_log_ticks(axes.yaxis, *axes.get_ylim())
    _draw_legend(axes, rates)


def _draw_legend(axes: Axes, rates: Sequence[GemmRates]) -> None:
    """Draw the legend above the axes."""
    entries = _list_legend_entries(rates)
    no_data: list[float] = []  # these lines are only in the legend
    axes.legend(
        handles=[Line2D(no_data, no_data, **entry) for entry in entries],
        ncols=_LEGEND_COLUMNS,
        frameon=False,
        columnspacing=1.2,
        handlelength=1.8,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.3,
    )


def _fit_axes(axes: Axes, rates: Sequence[GemmRates]) -> None:
    """Fit the axes to where roofs end and to the products that are plotted.

    A roof is the line gops = rate * intensity. It ends at the group's highest rate,
    `top`, so at intensity = top / rate.
    """
    intensities = list[float]()
    gops = list[float]()
    for group in rates:
        intensities += [group.top / rate for rate in group.roofs.values()]
        gops.append(group.top)
        peaks = group.select_peaks()
        gops += peaks["gops"].tolist()
        products = group.select_from_memory()
        intensities += products["intensity"].tolist()
        gops += products["gops"].tolist()
    if not intensities:  # neither roofs nor products from memory, only peaks
        intensities = [1.0]
    # with some room on each side: on a logarithmic axis, room is a factor
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(min(intensities) / 1.6, max(intensities) * 2.2),
        ylim=(min(gops) / 2.2, max(gops) * 1.5),
    )


def _choose_colours(rates: Sequence[GemmRates]) -> dict[str, str]:
    """Return the colour of each variant."""
    variants = dict[str, None]()
    for group in rates:
        variants |= dict.fromkeys(group.rows["variant"])
    return dict(zip(variants, itertools.cycle(_COLOURS)))


def _plot_roofs(axes: Axes, group: GemmRates, style: str) -> None:
    """Plot each roof as a rising line, with the name of its memory level on it.

    The roof of a level that is read at `rate` GB/s is the line y = rate * x, where x is
    operations per byte and y is Gop/s: no product can do more operations on the bytes
    that it gets. The line begins where it enters the axes, and ends at the highest rate
    of the group.
    """
    left = axes.get_xlim()[0]
    low = axes.get_ylim()[0]
    angle = _compute_angle_of_rise(axes)
    for level, rate in group.roofs.items():
        begin = max(left, low / rate)
        end = group.top / rate
        heights = [begin * rate, group.top]
        axes.plot([begin, end], heights, style, color=_GREY, linewidth=1)
        name_x = begin * _FROM_BEGIN_TO_NAME
        axes.text(
            name_x,
            name_x * rate,
            level,
            rotation=angle,
            rotation_mode="anchor",
            va="bottom",
            fontsize=8,
            clip_on=True,
        )


def _compute_angle_of_rise(axes: Axes) -> float:
    """Return the angle, in degrees, of a line whose y is proportional to its x. Both
    axes are logarithmic, so all such lines are parallel.
    """
    left = axes.get_xlim()[0]
    low = axes.get_ylim()[0]
    # in pixels
    begin_x, begin_y = axes.transData.transform((left, low))
    end_x, end_y = axes.transData.transform((10 * left, 10 * low))
    radians = np.arctan2(end_y - begin_y, end_x - begin_x)
    return float(np.degrees(radians))


def _plot_peaks(
    axes: Axes, group: GemmRates, style: str, colours: dict[str, str]
) -> None:
    """Plot each peak as a horizontal line, from the roof of the fastest memory level to
    the right edge. That roof is y = bandwidth * x, so it is at the height of the peak
    where x = peak / bandwidth.
    """
    left, right = axes.get_xlim()
    highest_bandwidth = max(group.roofs.values(), default=math.inf)
    # without roofs, peak / infinity is 0: the line begins at the left edge
    for row in group.select_peaks().to_dict("records"):
        peak = row["gops"]
        begin = max(left, peak / highest_bandwidth)
        axes.plot(
            [begin, right],
            [peak, peak],
            style,
            color=colours[row["variant"]],
            linewidth=1.6,
        )


def _plot_from_memory(
    axes: Axes, group: GemmRates, colours: dict[str, str], *, fill: Any
) -> None:
    """Plot a dot for each product whose matrices come from memory, at its operations
    per byte and its rate. colours: by variant. fill: the fill style of the dots, "full"
    or "none".
    """
    for row in group.select_from_memory().to_dict("records"):
        axes.plot(
            row["intensity"],
            row["gops"],
            color=colours[row["variant"]],
            marker=_MARKS[row["operation"]],
            markersize=5,
            fillstyle=fill,
        )


def _list_legend_entries(rates: Sequence[GemmRates]) -> list[dict[str, Any]]:
    """List the entries of the legend, each as keywords of a line of matplotlib: a name,
    `label`, and a look.

    A variant has a colour, a number of CPUs the style of its lines, and an operation
    the kind of its dot. The peak, an operation without memory, has no dot.
    """
    entries = list[dict[str, Any]]()
    for variant, colour in _choose_colours(rates).items():
        entries.append({"label": variant, "color": colour})
    for group, style in zip(rates, itertools.cycle(_STYLES)):
        label = format_count(group.threads, "CPU")
        entries.append({"label": label, "color": _GREY, "linestyle": style})
    for operation in _list_operations(rates):
        mark = _MARKS.get(operation)
        if mark:  # only products from memory are plotted as dots
            look = {"color": _GREY, "linestyle": "none", "marker": mark}
            entries.append({"label": operation, **look})
    return entries


def _list_operations(rates: Sequence[GemmRates]) -> list[str]:
    """List the operations that were measured, each once."""
    operations = dict[str, None]()
    for group in rates:
        operations |= dict.fromkeys(group.rows["operation"])
    return list(operations)

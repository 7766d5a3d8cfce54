"""Draw plots for reports and notebooks: each function draws on matplotlib Axes and
returns them.

With `axes` None, pyplot makes a new figure, which a notebook shows by itself. Text from
a host is never read as mathematics or markup. docs/report.md explains each picture.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from fleet.analysis.base.tables import Floats, Ints
from fleet.analysis.reduce.heatmap import (
    MAX_NUMBERS,
    Heatmap,
    Limits,
    choose_limits,
    is_log,
    map_cpus,
)
from fleet.analysis.reduce.ladders import format_size
from fleet.analysis.reduce.topology import Layout
from fleet.analysis.views.samples import find_main_level, make_bins
from fleet.text import one_line

# so that no number reaches into the next cell
_INCHES_A_CELL, _INCHES_BESIDE = (
    0.32,
    1.8,
)
_LARGEST_NUMBER, _SMALLEST_NUMBER = 9.0, 3.0  # points
_MAX_TICKS = 24  # CPUs named along an axis, where there is no room for all
_WIDTH_OF_DIGIT = 0.64  # of the size of the font
LOG_BEYOND = (
    20  # ratio of the largest to the smallest value beyond which an axis is logarithmic
)
# ratio of its ends up to which a logarithmic axis labels 20 and 50 as well as 10
_FEW_DECADES = 200
_STEPS = 256  # points of a distribution: more make no visible difference
_MIN_WIDTH = 0.05  # of the median; dots within it must not look far apart
_SHORT = 9  # characters; longer names stand two, not three, side by side

# Each has a contrast of 3:1 or more to white and to the report's dark page, and a dash
# of its own.
RELATION_LINES = {
    "self": ("#737373", ":"),
    "smt": ("#c2500c", "-"),
    "cluster": ("#a9761a", "--"),
    "llc": ("#1a8a45", "-"),
    "die": ("#0e8090", "--"),
    "node": ("#3570eb", "-."),
    "package": ("#8b5cf6", "-"),
    "system": ("#db2f7c", "--"),
    "unknown": ("#737373", ":"),
}
_LINES = (
    ("#3570eb", "-"),
    ("#c2500c", "--"),
    ("#1a8a45", "-."),
    ("#8b5cf6", ":"),
    ("#db2f7c", "-"),
)
_OTHER_DASHES = (":", "-.", "--")  # for the same relation between other kinds of cores
_TICKS = [4096 * 8**power for power in range(12)]  # sizes that are named

# Purple: faster, orange: slower, grey: no change; grey is told from both on a white and
# on a dark page.
_CHANGES = ("#4b2991", "#9a8fc0", "#c8c8c8", "#e9a55a", "#b35806")
CHANGES = LinearSegmentedColormap.from_list("changes", _CHANGES, N=256)

__all__ = [
    "burst_histogram",
    "choose_limits",
    "ecdf",
    "forest",
    "heatmap",
    "ladder",
    "run_dots",
]


def heatmap(
    table: pd.DataFrame,
    order: Layout,
    axes: Axes | None = None,
    *,
    limits: Limits | None = None,
) -> Axes:
    """Draw a matrix of ns: dark is fast, white lines between groups of CPUs, numbers
    where they fit.

    table: from `matrix`. limits: the ends of the colour scale; pass equal ones to
    compare maps.
    """
    drawn = map_cpus(table, order, limits)
    count = len(drawn.labels)
    axes = _make_axes(
        axes, _INCHES_BESIDE + _INCHES_A_CELL * count if count <= MAX_NUMBERS else 0.0
    )
    scale = (LogNorm if is_log(drawn.limits) else Normalize)(*drawn.limits, clip=True)
    image = axes.imshow(
        drawn.values, interpolation="none", aspect="equal", cmap="viridis", norm=scale
    )
    borders = [place - 0.5 for place, border in enumerate(drawn.borders) if border]
    for ruled in (axes.hlines, axes.vlines):
        ruled(borders, -0.5, count - 0.5, color="white", linewidth=1.5)
    every = 1 if count <= MAX_NUMBERS else -(-count // _MAX_TICKS)
    axes.set_xticks(
        range(0, count, every), drawn.labels[::every], rotation=90 if count > 16 else 0
    )
    axes.set_yticks(range(0, count, every), drawn.labels[::every])
    axes.tick_params(length=0, labelsize="small" if count > MAX_NUMBERS else "medium")
    axes.xaxis.set(ticks_position="top", label_position="top")
    axes.set(xlabel="pong CPU", ylabel="ping CPU")
    axes.spines[:].set_visible(False)
    figure: Any = axes.figure
    marks: Any = (
        {"ticks": LogLocator(subs=(1, 2, 5)), "format": "%g"}
        if is_log(drawn.limits)
        else {}
    )
    figure.colorbar(
        image, ax=axes, label=table.attrs.get("unit", "ns"), shrink=0.8, **marks
    ).minorticks_off()
    if count <= MAX_NUMBERS:
        _write_numbers(axes, drawn, image.to_rgba(drawn.values))
    return axes


def forest(
    rows: pd.DataFrame, axes: Axes | None = None, *, threshold: float | None = None
) -> Axes:
    """Draw changes with their 95 % intervals, a line each, from the top.

    rows: columns `name`, `change`, `low`, `high` (relative, 0.1 for 10 % more) and
    `pooled`, true for a row about all others, drawn as a diamond. threshold: the
    smallest change that matters, drawn as a band.
    """
    axes = _make_axes(axes)
    if threshold is not None:
        axes.axvspan(
            -100 * threshold, 100 * threshold, color="#858585", alpha=0.15, linewidth=0
        )
    axes.axvline(0, color="#858585", linewidth=1)
    for place, row in enumerate(rows.to_dict("records")):
        middle, low, high = (100 * row[name] for name in ("change", "low", "high"))
        if row["pooled"]:
            axes.fill(
                [low, middle, high, middle],
                np.array([0, -0.3, 0, 0.3]) + place,
                color="#c2500c",
            )
            continue
        if np.isfinite(low):
            axes.plot([low, high], [place, place], color="#3570eb", linewidth=2)
        axes.plot([middle], [place], "s", color="#3570eb", markersize=5)
    _set_up_named_lines(axes, rows["name"], [1, 2, 5, 10], "change, %")
    return axes


def run_dots(
    runs: pd.DataFrame,
    rounds: pd.DataFrame | None = None,
    axes: Axes | None = None,
    *,
    usual: Mapping[str, float] = MappingProxyType({}),
    unit: str = "one way, ns",
) -> Axes:
    """Draw every run as a dot on its host's line, with a bar at its number in `usual`.

    runs: columns `host` and `ns`, a row per run. rounds: these columns, a row per
    round, drawn small beneath.
    """
    axes = _make_axes(axes)
    hosts = list(dict.fromkeys(runs["host"]))
    for place, host in enumerate(hosts):
        if rounds is not None:
            below = rounds.loc[rounds["host"] == host, "ns"].to_numpy()
            axes.plot(
                below,
                np.full(len(below), place),
                "|",
                color="#858585",
                markersize=7,
                alpha=0.7,
            )
        values = runs.loc[runs["host"] == host, "ns"].to_numpy()
        if len(values) > 1 and host in usual:
            bar = [place - 0.35, place + 0.35]
            axes.plot([usual[host]] * 2, bar, color="#c2500c", linewidth=2)
        axes.plot(
            values,
            np.full(len(values), place),
            "o",
            color="#3570eb",
            markersize=6,
            alpha=0.85,
        )
    low, high = axes.get_xlim()
    middle, least_width = (low + high) / 2, _MIN_WIDTH * float(runs["ns"].median())
    if high - low < least_width:
        axes.set_xlim(middle - least_width / 2, middle + least_width / 2)
    _set_up_named_lines(axes, hosts, [1, 2, 2.5, 5, 10], unit)
    return axes


def ecdf(
    values: Mapping[str, npt.ArrayLike],
    axes: Axes | None = None,
    *,
    unit: str = "one way, ns",
) -> Axes:
    """Draw cumulative distributions by name: a step is a level, a long tail to the
    right is outliers.
    """
    axes = _make_axes(axes)
    lowest, highest, counts = np.inf, 0.0, Counter[str]()
    for name, these in values.items():
        share = np.linspace(0, 1, _STEPS)
        x = np.quantile(np.asarray(these, dtype=np.float64), share)
        lowest, highest = min(lowest, x[0]), max(highest, float(x[-2]))
        relation = name.split()[0]
        colour, dash = RELATION_LINES.get(relation, (None, "-"))
        style = (dash, *_OTHER_DASHES)[counts[relation] % 4]
        counts[relation] += 1
        axes.plot(
            x, share, label=one_line(name), color=colour, linestyle=style, linewidth=1.6
        )
    if lowest > 0 and highest > LOG_BEYOND * lowest:
        axes.set_xscale("log")
        label_log_ticks(axes.xaxis, lowest, highest)
    if np.isfinite(lowest) and highest > lowest:
        axes.set_xlim(lowest * 0.95, highest * 1.05)
    axes.set(ylim=(0, 1), xlabel=unit, ylabel="share of samples")
    axes.grid(visible=True)
    _draw_legend(axes, 1.0, legend_columns(values))
    return axes


def burst_histogram(bursts: pd.DataFrame, axes: Axes | None = None) -> Axes:
    """Draw a histogram of a pair's bursts; those away from the pair's number in their
    run are orange.

    bursts: from `Results.bursts`, of one benchmark and point.
    """
    axes = _make_axes(axes)
    values, is_main = bursts["burst_ns"].to_numpy(dtype=float), find_main_level(bursts)
    edges = make_bins(values, float(bursts["grain_ns"].median()))
    labels, colours = ["main level", "another level"], [_LINES[0][0], _LINES[1][0]]
    axes.hist(
        [values[is_main], values[~is_main]],
        [*edges],
        stacked=True,
        label=labels,
        color=colours,
    )
    axes.set(xlabel=bursts.attrs.get("unit", "ns"), ylabel="bursts")
    _draw_legend(axes, 1.0, 2)
    return axes


def ladder(
    steps: pd.DataFrame,
    levels: pd.DataFrame | None = None,
    axes: Axes | None = None,
    *,
    settings: Sequence[str] | None = None,
    rate: bool = False,
    over: str = "bytes",
) -> Axes:
    """Draw numbers over memory size, both logarithmic, a line per setting with its 95 %
    band.

    steps: rows of `select_ladder_steps` of one benchmark, variant and set of CPUs.
    levels: plateaus, drawn as thick pieces of the line; caches are grey lines.
    settings: those to draw, in order. rate: draw GB/s, not ns. over: the column to draw
    over; "other_rate" is the GB/s of other threads, joined in the rows' order.
    """
    axes = _make_axes(axes)

    def convert(ns: npt.ArrayLike) -> Floats:
        values = np.asarray(ns, dtype=float)
        return 1 / values if rate else values

    names = list(settings if settings is not None else dict.fromkeys(steps["setting"]))
    every = convert(steps["median_ns"])
    low, high = float(every.min()) / 1.6, float(every.max()) * 1.6
    for name, (colour, dash) in zip(names, itertools.cycle(_LINES)):
        own = steps[steps["setting"] == name]
        own = own.sort_values("bytes") if over == "bytes" else own
        bounded = own[own["low_ns"].notna()]
        band = [
            convert(bounded[end].clip(lower=1e-6)).clip(low, high)
            for end in ("low_ns", "high_ns")
        ]
        axes.fill_between(
            bounded[over].to_numpy(),
            band[0],
            band[1],
            color=colour,
            alpha=0.18,
            linewidth=0,
        )
        sizes, values = own[over].to_numpy(), convert(own["median_ns"])
        look: Any = {"color": colour, "linewidth": 1.6, "marker": ".", "markersize": 5}
        axes.plot(sizes, values, dash, label=one_line(name), **look)
        for row in (
            []
            if levels is None
            else levels[levels["setting"] == name].to_dict("records")
        ):
            ends, value = (
                [row["least_bytes"], row["most_bytes"]],
                float(convert(row["median_ns"])),
            )
            axes.plot(
                ends,
                [value] * 2,
                color=colour,
                linewidth=4.5,
                alpha=0.45,
                solid_capstyle="round",
            )
    axes.set_yscale("log")
    axes.set_xlabel("GB/s of the other threads")
    if over == "bytes":
        axes.set_xscale("log", base=2)
        _label_sizes(axes, steps["bytes"].to_numpy())
        axes.set_xlabel("memory of a thread")
    axes.set(ylim=(low, high), ylabel="GB/s" if rate else "ns")
    label_log_ticks(axes.yaxis, low, high)
    axes.grid(visible=True, axis="y")
    if levels is not None:
        _mark_caches(axes, levels)
    handles = axes.get_legend_handles_labels()[0]
    by_rows = [handle for column in range(3) for handle in handles[column::3]]
    _draw_legend(axes, 1.05, handles=by_rows, handlelength=1.8, columnspacing=1.2)
    return axes


def legend_columns(names: Iterable[str]) -> int:
    """Return how many names of lines fit side by side above a figure as wide as a
    telephone.
    """
    return 2 if max(map(len, names), default=0) > _SHORT else 3


def _draw_legend(axes: Axes, bottom: float, columns: int = 3, **look: Any) -> None:
    place: Any = {
        "loc": "lower left",
        "bbox_to_anchor": (0, bottom),
        "ncols": columns,
        "borderaxespad": 0.2,
    }
    for text in axes.legend(frameon=False, **place, **look).get_texts():
        text.set_parse_math(False)


def label_log_ticks(axis: Axis, low: float, high: float) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade, or only at 1 if it spans
    many.
    """
    axis.set_major_locator(
        LogLocator(subs=(1, 2, 5) if high < _FEW_DECADES * low else (1,))
    )
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _set_up_named_lines(
    axes: Axes, names: Iterable[str], steps: Sequence[float], label: str
) -> None:
    listed = [one_line(name) for name in names]
    axes.set_yticks(range(len(listed)), listed, parse_math=False)
    axes.set_ylim(len(listed) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=steps))
    axes.set_xlabel(label)
    axes.grid(visible=True, axis="x")


def _label_sizes(axes: Axes, sizes: Ints) -> None:
    smallest, largest = int(sizes.min()), int(sizes.max())
    ticks = [tick for tick in _TICKS if smallest / 1.5 <= tick <= largest * 1.5]
    axes.set_xticks(ticks, [format_size(size) for size in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(smallest / 1.5, largest * 1.5)


def _mark_caches(axes: Axes, levels: pd.DataFrame) -> None:
    """Draw a grey line at the size of each cache, and the name of each level above its
    sizes.
    """
    left, right = axes.get_xlim()
    top = axes.get_xaxis_transform()
    for row in levels.drop_duplicates("level").to_dict("records"):
        if left < row["cache_bytes"] < right:
            axes.axvline(
                row["cache_bytes"],
                color="#858585",
                linewidth=1,
                linestyle=(0, (4, 3)),
                zorder=0,
            )
        middle = (row["least_bytes"] * row["most_bytes"]) ** 0.5
        axes.text(
            middle,
            1.0,
            row["level"],
            transform=top,
            ha="center",
            va="bottom",
            fontsize=10,
        )


def choose_ink(red: float, green: float, blue: float) -> str:
    """Return black or white, whichever contrasts more with the colour (0 to 1 each)."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (red, green, blue)
    ]
    return "black" if np.dot([0.2126, 0.7152, 0.0722], linear) > 0.179 else "white"


def _make_axes(axes: Axes | None, inches: float = 0.0) -> Axes:
    """Return the axes given, or new ones, at least `inches` wide and nearly as high."""
    if axes is not None:
        return axes
    from matplotlib import (  # noqa: PLC0415  (a report is drawn without it)
        pyplot as plt,
    )

    width, height = plt.rcParams["figure.figsize"]
    size = (max(width, inches), max(height, 0.85 * inches))
    return plt.subplots(layout="constrained", figsize=size)[1]


def _write_numbers(axes: Axes, drawn: Heatmap, colours: Floats) -> None:
    """Write a number on each cell, as large as fits, or no numbers if they would be too
    small to read.
    """
    figure: Any = axes.figure.figure  # the whole one, where the axes are of a part
    figure.draw_without_rendering()  # lays the axes out
    extent = axes.get_window_extent()
    room = min(extent.width, extent.height) / figure.dpi * 72 / len(drawn.labels)
    texts = drawn.format_cells("{:.1f}", "")
    longest = max((len(text) for row in texts for text in row), default=0)
    size = min(_LARGEST_NUMBER, 0.9 * room / (_WIDTH_OF_DIGIT * max(longest, 2)))
    if size < _SMALLEST_NUMBER:
        return
    for (row, column), value in np.ndenumerate(drawn.values):
        if np.isfinite(value):
            ink = choose_ink(*colours[row, column][:3])
            axes.text(
                column,
                row,
                texts[row][column],
                ha="center",
                va="center",
                color=ink,
                fontsize=size,
            )

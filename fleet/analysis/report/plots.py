"""Draw plots for reports and notebooks: each function draws on matplotlib Axes and
returns them.

With `axes` None, pyplot makes a new figure, which a notebook shows by itself. Text from
a host is never read as mathematics or markup. docs/report.md explains each picture.
"""

import itertools
import math
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
from matplotlib.image import AxesImage
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
from fleet.analysis.views.histograms import find_main_level, make_bins
from fleet.text import one_line

_INCHES_A_CELL = 0.32  # so that no number reaches into the next cell
_INCHES_BESIDE = 1.8
_LARGEST_NUMBER = 9.0  # points
_SMALLEST_NUMBER = 3.0
_MAX_HORIZONTAL = 16  # CPUs whose labels fit above a map; those of more are upright
_MAX_TICKS = 24  # CPUs named along an axis, where there is no room for all
_TICK_STEPS = (1, 2, 2.5, 5, 10)  # between two ticks, times a power of ten
_WIDTH_OF_DIGIT = 0.64  # of the size of the font
# ratio of the largest to the smallest value beyond which an axis is logarithmic
LOG_BEYOND = 20
# ratio of its ends up to which a logarithmic axis labels 20 and 50 as well as 10
_FEW_DECADES = 200
_STEPS = 256  # points of a distribution: more make no visible difference
_MIN_WIDTH = 0.05  # of the median; dots within it must not look far apart
_HOST_WIDTH = 0.2  # the same, where a line is a host
_SHORT = 9  # characters; longer names stand two, not three, side by side
LADDER_COLUMNS = 3  # of the legend of a ladder

_LEAST_NS = 1e-6  # so that no end of an interval is infinite as a rate
_GREY = "#858585"
_BLUE = "#3570eb"
_ORANGE = "#c2500c"

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
    (_BLUE, "-"),
    (_ORANGE, "--"),
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
    "host_dots",
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
    is_large = count > MAX_NUMBERS
    # a large map has no numbers, so its cells may be of any size
    if is_large:
        axes = _make_axes(axes)
    else:
        axes = _make_axes(axes, _INCHES_BESIDE + _INCHES_A_CELL * count)
    image = _draw_cells(axes, drawn)
    _draw_borders(axes, drawn)
    _label_cpus(axes, drawn.labels, is_large=is_large)
    axes.spines[:].set_visible(False)
    unit = table.attrs.get("unit", "ns")
    _draw_colour_bar(axes, image, drawn, unit)
    if not is_large:
        _write_numbers(axes, drawn, image.to_rgba(drawn.values))
    return axes


def _draw_cells(axes: Axes, drawn: Heatmap) -> AxesImage:
    """Draw the cells of a map in their colours. A value beyond a limit of the scale has
    the colour of that limit; NaN has none.
    """
    scale = LogNorm if is_log(drawn.limits) else Normalize
    return axes.imshow(
        drawn.values,
        interpolation="none",
        aspect="equal",
        cmap="viridis",
        norm=scale(*drawn.limits, clip=True),
    )


def _draw_borders(axes: Axes, drawn: Heatmap) -> None:
    """Draw white lines between the groups of CPUs."""
    # cell i reaches from i - 0.5 to i + 0.5
    borders = [place - 0.5 for place, border in enumerate(drawn.borders) if border]
    begin = -0.5
    end = len(drawn.labels) - 0.5
    axes.hlines(borders, begin, end, color="white", linewidth=1.5)
    axes.vlines(borders, begin, end, color="white", linewidth=1.5)


def _label_cpus(axes: Axes, labels: Sequence[str], *, is_large: bool) -> None:
    """Label the CPUs of a map above and beside it. A large map is not made larger for
    its CPUs, so only some of them are labelled.
    """
    step = 1
    size = "medium"
    if is_large:
        step = math.ceil(len(labels) / _MAX_TICKS)
        size = "small"
    places = range(0, len(labels), step)
    labels_shown = labels[::step]
    rotation = 90 if len(labels) > _MAX_HORIZONTAL else 0
    axes.set_xticks(places, labels_shown, rotation=rotation)
    axes.set_yticks(places, labels_shown)
    axes.tick_params(length=0, labelsize=size)
    axes.xaxis.set(ticks_position="top", label_position="top")
    axes.set(xlabel="pong CPU", ylabel="ping CPU")


def _draw_colour_bar(axes: Axes, image: AxesImage, drawn: Heatmap, unit: str) -> None:
    """Draw the colour scale of a map beside it, without minor ticks."""
    ticks: Any = {}
    if is_log(drawn.limits):
        ticks = {"ticks": LogLocator(subs=(1, 2, 5)), "format": "%g"}
    figure: Any = axes.figure
    bar = figure.colorbar(image, ax=axes, label=unit, shrink=0.8, **ticks)
    bar.minorticks_off()


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
        percent = 100 * threshold
        axes.axvspan(-percent, percent, color=_GREY, alpha=0.15, linewidth=0)
    axes.axvline(0, color=_GREY, linewidth=1)
    for place, row in enumerate(rows.to_dict("records")):
        change = 100 * row["change"]
        interval = [100 * row["low"], 100 * row["high"]]
        if row["pooled"]:
            _draw_diamond(axes, change, interval, place)
        else:
            _draw_interval(axes, change, interval, place)
    _set_up_named_lines(axes, rows["name"], [1, 2, 5, 10], "change, %")
    return axes


def _draw_diamond(
    axes: Axes, middle: float, interval: Sequence[float], place: int
) -> None:
    """Draw a diamond as wide as an interval, its upper and lower corners at its
    middle.
    """
    low, high = interval
    x = [low, middle, high, middle]
    y = [place, place - 0.3, place, place + 0.3]
    axes.fill(x, y, color=_ORANGE)


def _draw_interval(
    axes: Axes, middle: float, interval: Sequence[float], place: int
) -> None:
    """Draw a square at the middle of an interval, and a line along it if it is
    known.
    """
    if np.isfinite(interval[0]):
        axes.plot(interval, [place, place], color=_BLUE, linewidth=2)
    axes.plot([middle], [place], "s", color=_BLUE, markersize=5)


def run_dots(
    runs: pd.DataFrame,
    rounds: pd.DataFrame | None = None,
    axes: Axes | None = None,
    *,
    usual: Mapping[str, float] = MappingProxyType({}),
    unit: str = "one way, ns",
) -> Axes:
    """Draw every run as a dot on the line of its host. A host of several runs also has
    a bar at its number in `usual`.

    runs: columns `host` and `ns`, a row per run. rounds: the same columns, a row per
    round of a run; rounds are drawn small, beneath the runs. usual: the number of a
    host's runs together, by host.
    """
    axes = _make_axes(axes)
    hosts = list(dict.fromkeys(runs["host"]))
    for place, host in enumerate(hosts):
        if rounds is not None:
            rounds_of_host = rounds[rounds["host"] == host]
            _draw_rounds(axes, rounds_of_host["ns"], place)
        runs_of_host = runs[runs["host"] == host]
        if len(runs_of_host) > 1 and host in usual:
            _draw_bar(axes, usual[host], place)
        _draw_runs(axes, runs_of_host["ns"], place)
    middle = float(runs["ns"].median())
    _widen(axes, _MIN_WIDTH * middle)
    _set_up_named_lines(axes, hosts, _TICK_STEPS, unit)
    return axes


def _draw_rounds(axes: Axes, numbers: "pd.Series[float]", place: int) -> None:
    """Draw a small grey mark for each number on the line at `place`."""
    x = numbers.to_numpy()
    y = np.full(len(numbers), place)
    axes.plot(x, y, "|", color=_GREY, markersize=7, alpha=0.7)


def _draw_runs(axes: Axes, numbers: "pd.Series[float]", place: int) -> None:
    """Draw a blue dot for each number on the line at `place`."""
    x = numbers.to_numpy()
    y = np.full(len(numbers), place)
    axes.plot(x, y, "o", color=_BLUE, markersize=6, alpha=0.85)


def host_dots(
    rows: pd.DataFrame,
    hosts: Sequence[str],
    axes: Axes | None = None,
    *,
    unit: str = "one way, ns",
) -> Axes:
    """Draw the number of each host as a dot on its line, with its interval.

    rows: columns `host`, `number`, `low` and `high` (NaN without an interval), `words`
    (written at the dot). hosts: the lines from the top; those without a row stay empty.
    """
    axes = _make_axes(axes)
    for row in rows.to_dict("records"):
        place = hosts.index(row["host"])
        number = row["number"]
        interval = [row["low"], row["high"]]
        _draw_interval(axes, number, interval, place)
        _write_above(axes, row["words"], number, place)
    # else the axis would show hosts far apart that are nearly equal
    middle = float(rows["number"].median())
    _widen(axes, _HOST_WIDTH * middle)
    _set_up_named_lines(axes, hosts, _TICK_STEPS, unit)
    return axes


def _write_above(axes: Axes, words: str, value: float, place: int) -> None:
    """Write a mark's number above it."""
    axes.annotate(
        words,
        (value, place),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        fontsize="small",
    )


def _draw_bar(axes: Axes, value: float, place: int) -> None:
    """Draw an upright bar at a value on the line at `place`."""
    ends = [place - 0.35, place + 0.35]
    axes.plot([value, value], ends, color=_ORANGE, linewidth=2)


def _widen(axes: Axes, width: float) -> None:
    """Let the horizontal axis span at least `width`, around the same middle."""
    low, high = axes.get_xlim()
    middle = (low + high) / 2
    if high - low < width:
        axes.set_xlim(middle - width / 2, middle + width / 2)


def ecdf(
    values: Mapping[str, npt.ArrayLike],
    axes: Axes | None = None,
    *,
    unit: str = "one way, ns",
) -> Axes:
    """Draw the cumulative distribution of samples, a line each. A step of a line is a
    level that many samples are at; a long tail to the right is of outliers.

    values: the samples by the name of their line, such as "package P-E", from which the
    line also has its colour and dash.
    """
    axes = _make_axes(axes)
    shares = np.linspace(0, 1, _STEPS)
    curves = list[Floats]()
    for name, style in _choose_line_styles(values).items():
        samples = np.asarray(values[name], dtype=np.float64)
        quantiles = np.quantile(samples, shares)
        curves.append(quantiles)
        look: Any = {"label": one_line(name), "linewidth": 1.6, **style}
        axes.plot(quantiles, shares, **look)
    _fit_to_curves(axes, curves)
    axes.set(ylim=(0, 1), xlabel=unit, ylabel="share of samples")
    axes.grid(visible=True)
    _draw_legend(axes, legend_columns(values))
    return axes


def _choose_line_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the colour and dash of each line, by its name. Lines of one relation have
    one colour; if they differ in the kinds of core, as "package P-P" and "package P-E",
    each has another dash.
    """
    styles = {}
    lines_by_relation = Counter[str]()
    for name in names:
        relation = name.split()[0]
        colour, dash = RELATION_LINES.get(relation, (None, "-"))
        dashes = (dash, *_OTHER_DASHES)
        earlier_lines = lines_by_relation[relation]
        own_dash = dashes[earlier_lines % len(dashes)]
        lines_by_relation[relation] += 1
        styles[name] = {"color": colour, "linestyle": own_dash}
    return styles


def _fit_to_curves(axes: Axes, curves: Sequence[Floats]) -> None:
    """Fit the horizontal axis to the distributions.

    curves: for each distribution its quantiles, in rising order, from the minimum to
    the maximum. The maximum is left out: a single sample may be so long that the axis
    would show little else.
    """
    firsts = [float(quantiles[0]) for quantiles in curves]
    lasts_but_one = [float(quantiles[-2]) for quantiles in curves]
    lowest = min(firsts, default=0.0)
    highest = max(lasts_but_one, default=0.0)
    if lowest > 0 and highest > LOG_BEYOND * lowest:
        axes.set_xscale("log")
        label_log_ticks(axes.xaxis, lowest, highest)
    if highest > lowest:
        axes.set_xlim(lowest * 0.95, highest * 1.05)


def burst_histogram(bursts: pd.DataFrame, axes: Axes | None = None) -> Axes:
    """Draw a histogram of a pair's bursts. Bursts near the pair's number in their run
    are at the main level, and blue; all others are orange.

    bursts: a row per burst of one pair, from `Results.bursts`, of one benchmark and
    setting.
    """
    axes = _make_axes(axes)
    values = bursts["burst_ns"].to_numpy(dtype=float)
    is_main = find_main_level(bursts)
    clock_step_ns = float(bursts["grain_ns"].median())
    edges = make_bins(values, clock_step_ns)
    axes.hist(
        [values[is_main], values[~is_main]],
        [*edges],
        stacked=True,
        label=["main level", "another level"],
        color=[_BLUE, _ORANGE],
    )
    unit = bursts.attrs.get("unit", "ns")
    axes.set(xlabel=unit, ylabel="bursts")
    _draw_legend(axes, columns=2)
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
    settings: those to draw, in order. rate: draw GB/s, not ns. over: the column that is
    the horizontal axis: "bytes", sorted by size on a logarithmic axis, or "other_rate",
    the GB/s of other threads, joined in the order of the rows.
    """
    axes = _make_axes(axes)
    if settings is None:
        settings = steps["setting"].unique().tolist()
    is_over_size = over == "bytes"
    numbers = convert_steps(steps, over, rate=rate)
    _set_up_numbers(axes, numbers["median"], "GB/s" if rate else "ns")
    for name, line in zip(settings, itertools.cycle(_LINES)):
        own = numbers[numbers["setting"] == name]
        if is_over_size:
            own = own.sort_values("x")
        _draw_setting(axes, own, name, line)
        if levels is not None:
            colour, _ = line  # a colour and a dash
            own_levels = levels[levels["setting"] == name]
            _draw_plateaus(axes, own_levels, colour, rate=rate)
    if is_over_size:
        _set_up_sizes(axes, steps["bytes"].to_numpy())
    else:
        axes.set_xlabel("GB/s of the other threads")
    if levels is not None:
        _mark_caches(axes, levels)
    _draw_ladder_legend(axes)
    return axes


def _set_up_numbers(axes: Axes, medians: "pd.Series[float]", unit: str) -> None:
    """Let the vertical axis span these numbers, logarithmically."""
    low = float(medians.min()) / 1.6
    high = float(medians.max()) * 1.6
    axes.set(yscale="log", ylim=(low, high), ylabel=unit)
    label_log_ticks(axes.yaxis, low, high)
    axes.grid(visible=True, axis="y")


def _convert_to_shown(ns: npt.ArrayLike, *, rate: bool) -> Floats:
    """Convert ns of a unit to what is shown: GB/s of a rate, else ns."""
    values = np.asarray(ns, dtype=float)
    if rate:
        return 1 / values
    return values


def convert_steps(steps: pd.DataFrame, over: str, *, rate: bool) -> pd.DataFrame:
    """Convert the steps of a ladder to what is drawn, a row per step.

    Columns: `setting`; `x`, the value of the column `over`; the `median`; and the ends
    of its interval, NaN if unknown: `at_low_ns`, that of the shorter time, and
    `at_high_ns`. rate: the numbers are GB/s, not ns; the shorter time is the higher
    rate.
    """
    # an interval may reach down to 0 ns, which would be an infinite rate
    low_ns = steps["low_ns"].clip(lower=_LEAST_NS)
    high_ns = steps["high_ns"].clip(lower=_LEAST_NS)
    numbers = steps[["setting"]].assign(x=steps[over])
    numbers["median"] = _convert_to_shown(steps["median_ns"], rate=rate)
    numbers["at_low_ns"] = _convert_to_shown(low_ns, rate=rate)
    numbers["at_high_ns"] = _convert_to_shown(high_ns, rate=rate)
    return numbers


def _draw_setting(
    axes: Axes, numbers: pd.DataFrame, name: str, line: tuple[str, str]
) -> None:
    """Draw a setting's numbers as dots on a line, and the band of the intervals that
    are known, cut off at the ends of the vertical axis. line: its colour and dash.
    """
    colour, dash = line
    bounded = numbers[numbers["at_low_ns"].notna()]
    low, high = axes.get_ylim()
    axes.fill_between(
        bounded["x"],
        bounded["at_low_ns"].clip(low, high),
        bounded["at_high_ns"].clip(low, high),
        color=colour,
        alpha=0.18,
        linewidth=0,
    )
    axes.plot(
        numbers["x"],
        numbers["median"],
        dash,
        label=one_line(name),
        color=colour,
        linewidth=1.6,
        marker=".",
        markersize=5,
    )


def _draw_plateaus(
    axes: Axes, levels: pd.DataFrame, colour: str, *, rate: bool
) -> None:
    """Draw each memory level of a setting as a thick horizontal line at its number,
    from its smallest to its largest size. levels: a row per level, from
    `find_plateaus`.
    """
    for row in levels.to_dict("records"):
        value = float(_convert_to_shown(row["median_ns"], rate=rate))
        axes.plot(
            [row["least_bytes"], row["most_bytes"]],
            [value, value],
            color=colour,
            linewidth=4.5,
            alpha=0.45,
            solid_capstyle="round",
        )


def _order_by_rows(handles: Sequence[Any], columns: int) -> list[Any]:
    """Order the handles of a legend, which fills its columns first, so that it reads by
    rows.
    """
    ordered = list[Any]()
    for column in range(columns):
        ordered += handles[column::columns]
    return ordered


def legend_columns(names: Iterable[str]) -> int:
    """Return how many names of lines fit side by side above a figure as wide as a
    telephone.
    """
    longest = max(map(len, names), default=0)
    return 2 if longest > _SHORT else 3


def _draw_legend(axes: Axes, columns: int, *, bottom: float = 1.0, **look: Any) -> None:
    """Draw a legend above the axes. bottom: where the legend's lower edge is, in
    heights of the axes: 1 is their upper edge.
    """
    legend = axes.legend(
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(0, bottom),
        ncols=columns,
        borderaxespad=0.2,
        **look,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def label_log_ticks(axis: Axis, low: float, high: float) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade, or only at 1 if it spans
    many.
    """
    labelled = [1.0]  # multiples of each power of ten
    if high < _FEW_DECADES * low:
        labelled = [1.0, 2.0, 5.0]
    axis.set_major_locator(LogLocator(subs=labelled))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _set_up_named_lines(
    axes: Axes, names: Iterable[str], steps: Sequence[float], label: str
) -> None:
    """Name each line from the top, and label the horizontal axis.

    names: that of line 0 first. steps: what the distance between two ticks may be,
    times a power of ten. label: that of the horizontal axis.
    """
    labels = [one_line(name) for name in names]
    count = len(labels)
    axes.set_yticks(range(count), labels, parse_math=False)
    # the lower end first, so that line 0 is at the top
    axes.set_ylim(count - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=steps))
    axes.set_xlabel(label)
    axes.grid(visible=True, axis="x")


def _set_up_sizes(axes: Axes, sizes: Ints) -> None:
    """Let the horizontal axis span these sizes, in bytes, with some room beside them.
    The axis is logarithmic, with ticks at those of _TICKS that it spans.
    """
    left = int(sizes.min()) / 1.5
    right = int(sizes.max()) * 1.5
    ticks = [tick for tick in _TICKS if left <= tick <= right]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [format_size(size) for size in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(left, right)
    axes.set_xlabel("memory of a thread")


def _draw_ladder_legend(axes: Axes) -> None:
    """Draw the legend of a ladder so that it reads by rows, above the names of
    levels.
    """
    handles, _ = axes.get_legend_handles_labels()
    by_rows = _order_by_rows(handles, LADDER_COLUMNS)
    look: Any = {"handles": by_rows, "handlelength": 1.8, "columnspacing": 1.2}
    _draw_legend(axes, LADDER_COLUMNS, bottom=1.05, **look)


def _mark_caches(axes: Axes, levels: pd.DataFrame) -> None:
    """Draw a grey line at the size of each cache, and the name of each level above its
    sizes.

    levels: a row per setting and level, from `find_plateaus`. `cache_bytes` is the
    share of the cache that the memory of a thread has to itself. It is 0 for the level
    "mem", which is no cache and gets no line.
    """
    left, right = axes.get_xlim()
    # all settings have the same caches: the first row of a level stands for the others
    for row in levels.drop_duplicates("level").to_dict("records"):
        if left < row["cache_bytes"] < right:
            axes.axvline(
                row["cache_bytes"],
                color=_GREY,
                linewidth=1,
                linestyle=(0, (4, 3)),
                zorder=0,
            )
        # the middle of the level's sizes on a logarithmic axis
        middle = (row["least_bytes"] * row["most_bytes"]) ** 0.5
        axes.text(
            middle,
            1.0,
            row["level"],
            transform=axes.get_xaxis_transform(),  # 1.0 is the upper edge
            ha="center",
            va="bottom",
            fontsize=10,
        )


def choose_ink(red: float, green: float, blue: float) -> str:
    """Return black or white, whichever contrasts more with the colour (0 to 1 each).

    Luminance and contrast are those of WCAG 2.1, "relative luminance" and "contrast
    ratio": at .179 both inks contrast alike.
    """
    linear = [_linearize(part) for part in (red, green, blue)]
    luminance = np.dot([0.2126, 0.7152, 0.0722], linear)
    return "black" if luminance > 0.179 else "white"


def _linearize(part: float) -> float:
    """Return the light of a part of an sRGB colour, 0 to 1."""
    if part <= 0.04045:
        return part / 12.92
    return math.pow((part + 0.055) / 1.055, 2.4)


def _make_axes(axes: Axes | None, inches: float = 0.0) -> Axes:
    """Return the axes given, or new axes, at least `inches` wide and nearly as high."""
    if axes is not None:
        return axes
    from matplotlib import (  # noqa: PLC0415  (reports, which give axes, do without)
        pyplot as plt,
    )

    width, height = plt.rcParams["figure.figsize"]
    size = (max(width, inches), max(height, 0.85 * inches))
    _, new_axes = plt.subplots(layout="constrained", figsize=size)
    return new_axes


def _write_numbers(axes: Axes, drawn: Heatmap, colours: Floats) -> None:
    """Write a number on each cell, as large as fits, or no numbers if they would be too
    small to read. colours: of the cells: rows x columns x (red, green, blue, alpha).
    """
    texts = drawn.format_cells("{:.1f}", "")
    lengths = [len(text) for row in texts for text in row]
    longest = max(lengths, default=0)
    size = _fit_numbers(_measure_cell(axes, drawn), longest)
    if size < _SMALLEST_NUMBER:
        return
    is_measured = np.isfinite(drawn.values)
    for row, column in np.argwhere(is_measured).tolist():
        red, green, blue, _ = colours[row, column]
        axes.text(
            column,
            row,
            texts[row][column],
            ha="center",
            va="center",
            color=choose_ink(red, green, blue),
            fontsize=size,
        )


def _measure_cell(axes: Axes, drawn: Heatmap) -> float:
    """Return the side of a cell in points."""
    # the root figure, even if axes.figure is a subfigure
    figure: Any = axes.figure.figure
    figure.draw_without_rendering()  # lays the axes out
    extent = axes.get_window_extent()
    inches = min(extent.width, extent.height) / figure.dpi
    points: float = 72 * inches
    return points / len(drawn.labels)


def _fit_numbers(cell: float, longest: int) -> float:
    """Return the size, in points, in which the longest number fits into a cell."""
    digits = max(longest, 2)
    room = 0.9 * cell
    fitting = room / (_WIDTH_OF_DIGIT * digits)
    return min(_LARGEST_NUMBER, fitting)

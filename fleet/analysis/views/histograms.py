"""Histograms of a pair's bursts, for `fleet show --pair`."""

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Bools, Floats
from fleet.analysis.reduce.burst_levels import REACH
from fleet.analysis.reduce.flags import PAIR_FLAGS, count_flags
from fleet.analysis.views.pair_tail import render_tail
from fleet.model import Benchmark, Descriptions
from fleet.text import format_count, one_line, table

_BINS = 16  # at most
_BAR = 40  # columns of the longest bar
_MIN_SPAN = 0.05  # of the fastest burst; less would make noise look like levels
# ratio of the largest to the smallest burst beyond which bins are geometric
_LOG_BEYOND = 4


def find_main_level(bursts: pd.DataFrame) -> Bools:
    """Report for each burst whether it is within 15 % of its pair's number in
    its run.
    """
    burst_ns = bursts["burst_ns"].to_numpy(dtype=float)
    pair_ns = bursts["pair_ns"].to_numpy(dtype=float)
    distances = np.abs(np.log(burst_ns / pair_ns))
    is_main: Bools = distances <= np.log(REACH)
    return is_main


def make_bins(values: Floats, grain: float) -> Floats:
    """Return the edges of up to _BINS bins, in rising order; there is an edge more than
    bins. The bins are of equal width. Where the largest value is more than _LOG_BEYOND
    times the smallest, as many bins are of equal ratio instead.

    values: the numbers of bursts, as shown; at least one, none NaN. grain: by how much
    a step of the clock changes such a value, NaN if unknown.
    """
    low = float(values.min())
    high = float(values.max())
    min_width = _find_min_width(low, grain)
    fitting_bins = (high - low) / min_width  # of equal width, or as many of equal ratio
    max_bins = min(_BINS, max(len(values) // 2, 1))  # two values a bin on average
    count = int(np.clip(fitting_bins, 1, max_bins))
    is_wide = low > 0 and high > _LOG_BEYOND * low
    edges: Floats
    if is_wide:
        edges = np.geomspace(low, high, count + 1)
    else:
        end = max(high, low + min_width)  # equal values have a bin, too
        edges = np.linspace(low, end, count + 1)
    return edges


def _find_min_width(smallest: float, grain: float) -> float:
    """Return the least width of bins of equal width.

    The clock cannot tell values apart that differ by less than its grain. Noise spreads
    the values, too: so that noise alone fills few bins, _BINS bins are together no
    narrower than _MIN_SPAN of the smallest value. If both widths are 0, return 1.
    """
    grain_width = float(np.nan_to_num(grain))  # an unknown grain sets no least width
    noise_width = _MIN_SPAN * smallest / _BINS
    min_width = max(grain_width, noise_width)
    if min_width == 0:
        return 1.0
    return min_width


def render_histograms(bursts: pd.DataFrame, descriptions: Descriptions) -> str:
    """Render a histogram of bursts for each host, benchmark and point, and the tail of
    their samples. bursts: from `load_pair_samples`.
    """
    names = ["host_name", "benchmark", "variant", "point"]
    parts = bursts.groupby(names, sort=False, dropna=False)
    return "\n\n".join(_render_histogram(part, descriptions) for _, part in parts)


def _render_histogram(bursts: pd.DataFrame, descriptions: Descriptions) -> str:
    """Render a histogram of bursts of one pair, below its title, and lines on them."""
    first = text.to_records(bursts.head(1))[0]
    benchmark = descriptions[first["benchmark"]]
    runs = bursts.drop_duplicates("run_id")
    is_main = find_main_level(bursts)
    pair = f"{text.format_pair(first)} ({first['relation']})"
    lines = (
        one_line(f"{first['host_name']} {pair}, {text.name_benchmark(first)}"),
        f"{benchmark.heading}, medians of {_count_bursts_and_runs(bursts, runs)}",
        _draw_histogram(bursts, is_main, benchmark),
        f"levels: {_describe_levels(bursts, is_main, benchmark)}",
        _describe_resolution(bursts),
        f"flags: {_count_flags(bursts, runs)}",
        one_line(f"conditions: {_describe_conditions(bursts, runs)}"),
        render_tail(bursts, benchmark),
    )
    return "\n".join(lines)


def _count_bursts_and_runs(bursts: pd.DataFrame, runs: pd.DataFrame) -> str:
    """Say of how many bursts and runs a histogram is, and from when."""
    burst_count = format_count(len(bursts), "burst")
    run_count = format_count(len(runs), "run")
    started = runs["started_utc"].tolist()
    span = text.format_span(started[0], started[-1])
    return f"{burst_count} of {run_count}, {span} UTC"


def _draw_histogram(bursts: pd.DataFrame, is_main: Bools, benchmark: Benchmark) -> str:
    """Draw a bar for each bin: its bursts at the main level, which are within 15 % of
    the pair's number in their run, then its bursts at another level.

    bursts: a row per burst; `burst_ns` is the median of its samples. is_main: for each
    burst, whether it is at the main level.
    """
    values = text.convert_to_shown(benchmark, bursts["burst_ns"].to_numpy())
    edges = make_bins(values, _find_grain(bursts, benchmark))
    counts, _ = np.histogram(values, edges)
    main_counts, _ = np.histogram(values[is_main], edges)
    largest_count = counts.max()
    begins = edges[:-1]
    decimals = _choose_decimals(edges)
    rows = []
    for begin, count, main_count in zip(begins, counts, main_counts, strict=True):
        bar = _draw_bar(main_count, count - main_count, largest_count)
        row = (f"{begin:.{decimals}f}", str(count), bar)
        rows.append(row)
    titles = ("from", "bursts", "█ main level, ░ another")
    return table(titles, rows, right={0, 1})


def _find_grain(bursts: pd.DataFrame, benchmark: Benchmark) -> float:
    """Return what a step of the clock adds to a number of bursts; NaN if it is unknown,
    and of rates, since a step adds to times.
    """
    if text.is_rate(benchmark):
        return np.nan
    return float(bursts["grain_ns"].median())


def _draw_bar(main_count: int, other_count: int, largest: int) -> str:
    """Draw the bar of a bin. largest: the count of the longest bar."""
    main_bar = "█" * round(_BAR * main_count / largest)
    other_bar = "░" * round(_BAR * other_count / largest)
    return main_bar + other_bar


def _choose_decimals(edges: Floats) -> int:
    """Choose so many decimals that the edges of bins differ. edges: in rising order."""
    # bins of equal ratio are narrowest at the lowest end
    narrowest = edges[1] - edges[0]
    magnitude = np.floor(np.log10(narrowest))
    return int(np.clip(1 - magnitude, 0, 4))


def _describe_levels(bursts: pd.DataFrame, is_main: Bools, benchmark: Benchmark) -> str:
    """Describe the bursts at the main level, which are within 15 % of the pair's number
    in their run, then the others: "36 at 45.9 in 3 runs; another: 4 at 60.1 in 1 run".
    Of each, it says the count of bursts, their median, and the number of runs that have
    such bursts.

    is_main: for each burst, whether it is at the main level.
    """
    levels = (bursts[is_main], bursts[~is_main])
    words = [_describe_level(level, benchmark) for level in levels if len(level)]
    return "; another: ".join(words)


def _describe_level(bursts: pd.DataFrame, benchmark: Benchmark) -> str:
    """Say how many bursts are at a level, their median, and in how many runs."""
    middle_ns = bursts["burst_ns"].median()
    middle = text.format_value(benchmark, middle_ns)
    runs = format_count(bursts["run_id"].nunique(), "run")
    return f"{len(bursts)} at {middle} in {runs}"


def _describe_resolution(bursts: pd.DataFrame) -> str:
    """Say by how much a step of the clock changes a sample, and how many samples the
    bursts have: "a step of the clock: 0.38 ns of a sample; 50 or 100 samples a burst".

    bursts: `grain_ns` is that change, in ns per unit of work; NaN if unknown. `samples`
    is a count.
    """
    grain = float(bursts["grain_ns"].median())
    step = "unknown"
    if not text.is_none(grain):
        step = f"{grain:.2g} ns of a sample"
    counts = sorted(set(bursts["samples"]))
    samples = " or ".join(map(str, counts))
    return f"a step of the clock: {step}; {samples} samples a burst"


def _count_flags(bursts: pd.DataFrame, runs: pd.DataFrame) -> str:
    """Count the flags of bursts, then the runs in which the pair itself has a flag:
    "preempted 3, drift in 2 runs"; "none" without any.

    bursts: a row per burst; `flags` are its own. runs: one of these rows for each run;
    `pair_flags` are those of the pair in that run.
    """
    counts = count_flags(bursts["flags"])
    flags = [f"{flag} {count}" for flag, count in counts.items()]
    run_counts = count_flags(runs["pair_flags"])
    flags += [
        f"{flag} in {format_count(run_counts[flag], 'run')}"
        for flag in PAIR_FLAGS
        if flag in run_counts
    ]
    return ", ".join(flags) or "none"


def _describe_conditions(bursts: pd.DataFrame, runs: pd.DataFrame) -> str:
    """Name the kernels and the range of the core's frequency."""
    conditions = []
    kernels = runs["kernel"].dropna().unique()
    if len(kernels):
        conditions.append(f"kernel {' | '.join(kernels)}")
    ghz = bursts["core_ghz"].dropna()
    if len(ghz):
        conditions.append(f"core at {ghz.min():.2f} to {ghz.max():.2f} GHz")
    return "; ".join(conditions) or "not known"

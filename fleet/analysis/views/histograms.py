"""Histograms of a pair's bursts, for `fleet show --pair`."""

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Bools, Floats
from fleet.analysis.reduce.burst_levels import REACH
from fleet.analysis.reduce.flags import PAIR_FLAGS, count_flags
from fleet.model import Descriptions
from fleet.text import format_count, one_line, table

_BINS = 16  # at most
_BAR = 40  # columns of the longest bar
_MIN_SPAN = 0.05  # of the fastest burst; less would make noise look like levels
_LOG_BEYOND = (
    4  # ratio of the largest to the smallest burst beyond which bins are geometric
)


def find_main_level(bursts: pd.DataFrame) -> Bools:
    """Report for each burst whether it is within 15 % of its pair's number in
    its run.
    """
    ratios = bursts["burst_ns"].to_numpy(dtype=float) / bursts["pair_ns"].to_numpy(
        dtype=float
    )
    main: Bools = np.abs(np.log(ratios)) <= np.log(REACH)
    return main


def make_bins(values: Floats, grain: float) -> Floats:
    """Return edges of up to _BINS bins: equal ones, at least `grain` wide, or geometric
    over a wide range.
    """
    low, high = float(values.min()), float(values.max())
    width = max(np.nan_to_num(grain), _MIN_SPAN * low / _BINS)
    count = int(np.clip((high - low) / width, 1, min(_BINS, max(len(values) // 2, 1))))
    if low > 0 and high > _LOG_BEYOND * low:
        edges: Floats = np.geomspace(low, high, count + 1)
    else:
        edges = np.linspace(low, max(high, low + width), count + 1)
    return edges


def render_histograms(bursts: pd.DataFrame, descriptions: Descriptions) -> str:
    """Render a histogram of bursts for each host, benchmark and point. bursts: from
    `load_pair_bursts`.
    """
    names = ["host_name", "benchmark", "variant", "point"]
    parts = bursts.groupby(names, sort=False, dropna=False)
    return "\n\n".join(_render_histogram(part, descriptions) for _, part in parts)


def _render_histogram(bursts: pd.DataFrame, descriptions: Descriptions) -> str:
    first, runs = text.to_records(bursts.head(1))[0], bursts.drop_duplicates("run_id")
    benchmark = descriptions[first["benchmark"]]
    values = text.convert_to_shown(benchmark, bursts["burst_ns"].to_numpy())
    is_main, grain = find_main_level(bursts), float(bursts["grain_ns"].median())
    edges = make_bins(values, np.nan if text.is_rate(benchmark) else grain)
    counts, at_main = (
        np.histogram(part, edges)[0] for part in (values, values[is_main])
    )
    decimals = int(np.clip(1 - np.floor(np.log10(edges[1] - edges[0])), 0, 4))
    rows = []
    for low, count, main in zip(edges, counts, at_main, strict=False):
        bar, other = (
            round(_BAR * part / counts.max()) for part in (main, count - main)
        )
        rows.append((f"{low:.{decimals}f}", str(count), "█" * bar + "░" * other))
    histogram = table(("from", "bursts", "█ main level, ░ another"), rows, right={0, 1})
    measured = (
        f"{format_count(len(bursts), 'burst')} of {format_count(len(runs), 'run')}"
    )
    span = text.format_span(runs["started_utc"].iloc[0], runs["started_utc"].iloc[-1])
    levels = []
    for part in (bursts[is_main], bursts[~is_main]):
        if len(part):
            middle = text.format_value(benchmark, part["burst_ns"].median())
            levels.append(
                f"{len(part)} at {middle} in"
                f" {format_count(part['run_id'].nunique(), 'run')}"
            )
    samples = " or ".join(map(str, sorted({*bursts["samples"]})))
    step = "unknown" if text.is_none(grain) else f"{grain:.2g} ns of a sample"
    flags = [f"{flag} {count}" for flag, count in count_flags(bursts["flags"]).items()]
    totals = count_flags(runs["pair_flags"])
    flags += [
        f"{flag} in {format_count(totals[flag], 'run')}"
        for flag in PAIR_FLAGS
        if flag in totals
    ]
    ghz, kernels = bursts["core_ghz"].dropna(), runs["kernel"].dropna().unique()
    conditions = [f"kernel {' | '.join(kernels)}"] * bool(len(kernels))
    conditions += [f"core at {ghz.min():.2f} to {ghz.max():.2f} GHz"] * bool(len(ghz))
    pair = f"{text.format_pair(first)} ({first['relation']})"
    lines = (
        one_line(f"{first['host_name']} {pair}, {text.name_benchmark(first)}"),
        f"{benchmark.heading}, medians of {measured}, {span} UTC",
        histogram,
        f"levels: {'; another: '.join(levels)}",
        f"a step of the clock: {step}; {samples} samples a burst",
        f"flags: {', '.join(flags) or 'none'}",
        one_line(f"conditions: {'; '.join(conditions) or 'not known'}"),
    )
    return "\n".join(lines)

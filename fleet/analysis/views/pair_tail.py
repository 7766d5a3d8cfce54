"""The tail of a pair's samples, for `fleet show --pair`: quantiles, and when the
largest were.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Floats
from fleet.model import Benchmark
from fleet.text import format_count, table

# quantiles, each with the samples that it needs for one to lie beyond it
_QUANTILES = {"p50": (0.5, 2), "p99": (0.99, 100), "p99.9": (0.999, 1000)}
_LARGEST = 5  # bursts


def render_tail(bursts: pd.DataFrame, benchmark: Benchmark) -> str:
    """Render the quantiles of all samples of some bursts, then the bursts with the
    largest ones, each with its run and time.

    bursts: from `load_pair_samples`, of one pair, benchmark and point.
    """
    samples = np.concatenate(bursts["sample_ns"].tolist())
    values = _list_quantiles(samples, benchmark)
    names = list(values)
    cells = list(values.values())
    count = format_count(len(samples), "sample")
    title = f"{count}, each {_describe_sample(bursts, benchmark)}"
    quantiles = table(names, [cells], right=range(len(names)))
    lines = [title, quantiles]
    if "-" in cells:
        lines.append("-: too few samples; p99 needs 100, p99.9 1,000")
    lines.append(_tabulate_largest(bursts, benchmark))
    return "\n".join(lines)


def _describe_sample(bursts: pd.DataFrame, benchmark: Benchmark) -> str:
    """Say of how much work a sample is the mean: "the mean of 100 round trips"."""
    counts = sorted(set(bursts["iterations"]))
    unit = benchmark.unit.replace("_", " ")
    if len(counts) > 1:
        return f"the mean of {counts[0]:,} to {counts[-1]:,} {unit}s"
    return f"the mean of {format_count(counts[0], unit)}"


def _list_quantiles(samples: Floats, benchmark: Benchmark) -> dict[str, str]:
    """Return the text of each quantile by its name, such as "p99", and of the slowest
    sample, as "max". A quantile of too few samples is "-".

    _QUANTILES has for each name the share of samples below the quantile, and the fewest
    samples of which one lies beyond it. samples: in ns.
    """
    values = {}
    for name, (share, needed) in _QUANTILES.items():
        values[name] = "-"
        if len(samples) >= needed:
            value = float(np.quantile(samples, share))
            values[name] = text.format_value(benchmark, value)
    slowest_ns = float(samples.max())
    # as a rate, the slowest sample is the smallest number
    name_of_slowest = "slowest" if text.is_rate(benchmark) else "max"
    values[name_of_slowest] = text.format_value(benchmark, slowest_ns)
    return values


def _tabulate_largest(bursts: pd.DataFrame, benchmark: Benchmark) -> str:
    """Tabulate the bursts with the slowest samples, the slowest first, a line each.
    bursts: a row per burst; `sample_ns` is an array of its samples.
    """
    titles = ("slowest", "in run", "at, UTC", "round", "flags")
    slowest_ns = bursts["sample_ns"].map(np.max).astype(float)
    with_slowest = bursts.assign(slowest=slowest_ns)
    slowest_first = with_slowest.sort_values("slowest", ascending=False, kind="stable")
    # without the samples, of which only the slowest is shown
    shown_bursts = slowest_first.head(_LARGEST).drop(columns="sample_ns")
    records = text.to_records(shown_bursts)
    rows = [_describe_burst(row, benchmark) for row in records]
    number_columns = {0, 3}  # the slowest sample and the round
    return table(titles, rows, number_columns)


def _describe_burst(row: Mapping[str, Any], benchmark: Benchmark) -> Sequence[str]:
    """Return the cells of a burst: its slowest sample, run, start, round and flags.
    row: `slowest` is in ns; `start_offset_ns` is how long after `started_utc` of the
    run the burst began.
    """
    moment = row["started_utc"] + timedelta(microseconds=row["start_offset_ns"] // 1000)
    return (
        text.format_value(benchmark, row["slowest"]),
        row["run_id"],
        f"{moment:%Y-%m-%d %H:%M:%S}",
        str(row["round"]),
        row["flags"] or "none",
    )

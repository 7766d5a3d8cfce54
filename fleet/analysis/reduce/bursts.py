"""Read an Arrow table of samples into flat arrays of bursts, without warm-ups or an
object per burst.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base.tables import Floats, Ints, to_pandas
from fleet.analysis.reduce.load import (
    compute_latency_ns_per_tick,
    convert_ticks,
    has_shape,
)
from fleet.model import SHIPPED, Descriptions, Shape
from fleet.store.schema import PARAMETERS

SAMPLE_COLUMNS = (
    "run_id",
    "benchmark",
    "variant",
    "relation",
    "round",
    "ping_cpu",
    "pong_cpu",
    "start_offset_ns",
    "iterations",
    "warmup",
    "ticks",
    "ns_per_tick",
    "flags",
    "point",
    "unit",
    *PARAMETERS,
    "other_ticks",
    "other_units",
    "core_ghz",
)
LISTS = ("ticks", "other_ticks", "other_units")
WORK_COLUMNS = ("least_share", "most_share", "other_rate")
"""The columns that describe the work of a burst's threads; see
`_normalize_and_summarize_work`.
"""


@dataclass(frozen=True, slots=True)
class Bursts:
    """Bursts: a row of `about` and `counts` samples each. latencies: samples' ns a unit
    by all threads.
    """

    about: pd.DataFrame
    latencies: Floats
    counts: Ints

    def reorder(self, order: Ints) -> "Bursts":
        """Return the bursts in another order."""
        counts = self.counts[order]
        if not len(order):
            latencies = self.latencies
        elif (counts == counts[0]).all():  # much faster
            latencies = self.latencies.reshape(len(order), -1)[order].ravel()
        else:
            old_starts = (np.cumsum(self.counts) - self.counts)[order]
            new_starts = np.cumsum(counts) - counts
            shift = np.repeat(old_starts - new_starts, counts)
            latencies = self.latencies[np.arange(counts.sum()) + shift]
        about = self.about.iloc[order].reset_index(drop=True)
        return Bursts(about, latencies, counts)


def read_bursts(table: Any, descriptions: Descriptions = SHIPPED) -> Bursts:
    """Read bursts without warm-ups from an Arrow table with SAMPLE_COLUMNS; drop bursts
    of warm-ups only.
    """
    plain = [name for name in SAMPLE_COLUMNS if name not in LISTS]
    about = to_pandas(table.select(plain))
    latencies, counts, is_warmup = convert_ticks(about, table, descriptions)
    latencies = latencies[~is_warmup]
    warmups = about["warmup"].to_numpy(dtype=np.int64)
    counts = counts - np.minimum(warmups, counts)

    bursts = Bursts(about, latencies, counts)
    other_ticks = Lists(table.column("other_ticks").combine_chunks())
    _combine_thread_times(bursts, other_ticks, descriptions)
    other_units = Lists(table.column("other_units").combine_chunks())
    work_columns = _normalize_and_summarize_work(bursts, other_units, descriptions)

    has_samples = counts > 0
    about = about.assign(**work_columns)[has_samples].reset_index(drop=True)
    return Bursts(about, latencies, counts[has_samples])


class Lists:
    """An Arrow column of lists of lists. known: for each row, whether it is not
    null.
    """

    def __init__(self, column: Any) -> None:
        self.known = column.is_valid().to_numpy(zero_copy_only=False)
        self._outer = column.offsets.to_numpy()
        self._inner = column.values.offsets.to_numpy()
        self._values = column.values.values.to_numpy()

    def read_row(self, row: Any, count: int) -> list[npt.NDArray[Any]]:
        """Return the last `count` (at least 1) values of each list of a row."""
        inner = self._inner[self._outer[row] : self._outer[row + 1] + 1]
        return [self._values[begin:end][-count:] for begin, end in pairwise(inner)]


def _combine_thread_times(
    bursts: Bursts, other_ticks: Lists, descriptions: Descriptions
) -> None:
    """Convert samples of groups in place to the time of a unit by all threads.
    other_ticks: of the other threads.
    """
    about = bursts.about
    counts = bursts.counts
    is_group = has_shape(about["benchmark"], Shape.GROUP, descriptions)
    first = np.cumsum(counts) - counts
    ns_per_tick = compute_latency_ns_per_tick(about, descriptions)
    for row in np.flatnonzero(other_ticks.known & is_group & (counts > 0)):
        count = counts[row]
        own = bursts.latencies[first[row] : first[row] + count]
        others = other_ticks.read_row(row, count)
        if others:
            # rates of threads add up, times do not
            times = [own, *(ticks * ns_per_tick[row] for ticks in others)]
            units_per_ns = 1 / np.stack(times)
            own[:] = 1 / units_per_ns.sum(axis=0)


def _normalize_and_summarize_work(
    bursts: Bursts, other_units: Lists, descriptions: Descriptions
) -> dict[str, Floats]:
    """Convert samples in place to the time of one unit by all threads, if all threads
    count the same unit.

    other_units: the other threads' counts; pairs have none. Return WORK_COLUMNS of each
    burst, NaN where nothing is counted. If the others count bytes, set only their bytes
    per ns, in the sample of the median latency. Otherwise, set the least and the most
    that a thread did, as shares of the mean, or of ping's count if the others count
    another unit.
    """
    about = bursts.about
    counts = bursts.counts
    columns = {name: np.full(len(about), np.nan) for name in WORK_COLUMNS}
    first = np.cumsum(counts) - counts
    iterations = about["iterations"].to_numpy(dtype=np.float64)
    is_pair = has_shape(about["benchmark"], Shape.PAIR, descriptions)
    for row in np.flatnonzero(other_units.known & ~is_pair & (counts > 0)):
        count = counts[row]
        own = bursts.latencies[first[row] : first[row] + count]
        units = other_units.read_row(row, count)
        unit = descriptions[about["benchmark"][row]].other_unit
        if unit == "byte":
            rate = _compute_rate_of_others(own, units, iterations[row])
            columns["other_rate"][row] = rate
            continue
        units_of_ping = np.full(count, iterations[row])
        if unit:
            shares = np.stack(units).sum(axis=1) / units_of_ping.sum()
        else:
            units_by_thread = np.stack([units_of_ping, *units])
            own *= units_of_ping / units_by_thread.sum(axis=0)
            work = units_by_thread.sum(axis=1)
            shares = work / work.mean()
        columns["least_share"][row] = shares.min()
        columns["most_share"][row] = shares.max()
    return columns


def _compute_rate_of_others(
    latencies: Floats, units: list[npt.NDArray[Any]], iterations: float
) -> float:
    """Return the other threads' units per ns in the sample of the median latency."""
    ascending = np.argsort(latencies, kind="stable")
    median = ascending[(len(latencies) - 1) // 2]
    total = sum(own[median] for own in units)
    return float(total / (latencies[median] * iterations))


def group_rows_by_length(
    values: npt.NDArray[Any], counts: Ints
) -> Iterator[tuple[Ints, npt.NDArray[Any]]]:
    """Yield the indices and a matrix of all rows of equal length, by length. values:
    rows end to end.
    """
    first = np.cumsum(counts) - counts
    for count in np.unique(counts):
        which = np.flatnonzero(counts == count)
        if len(which) == len(counts):  # all rows: nothing to copy
            yield which, values.reshape(len(which), count)
        else:
            places = first[which][:, None] + np.arange(count)  # rows x columns
            yield which, values[places]

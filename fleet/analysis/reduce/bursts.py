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
    *(
        "run_id",
        "benchmark",
        "variant",
        "relation",
        "round",
        "ping_cpu",
        "pong_cpu",
        "start_offset_ns",
    ),
    *(
        "iterations",
        "warmup",
        "ticks",
        "ns_per_tick",
        "flags",
        "point",
        "unit",
        *PARAMETERS,
    ),
    *("other_ticks", "other_units", "core_ghz"),
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
        if (counts == counts[:1]).all():  # much faster
            taken = (
                self.latencies.reshape(len(order), -1)[order].ravel()
                if len(order)
                else self.latencies
            )
        else:
            first = np.cumsum(self.counts) - self.counts
            shift = np.repeat(first[order] - (np.cumsum(counts) - counts), counts)
            taken = self.latencies[shift + np.arange(counts.sum())]
        return Bursts(self.about.iloc[order].reset_index(drop=True), taken, counts)


def read_bursts(table: Any, descriptions: Descriptions = SHIPPED) -> Bursts:
    """Read bursts without warm-ups from an Arrow table with SAMPLE_COLUMNS; drop bursts
    of warm-ups only.
    """
    samples = to_pandas(
        table.select([name for name in SAMPLE_COLUMNS if name not in LISTS])
    )
    latencies, counts, is_warmup = convert_ticks(samples, table, descriptions)
    latencies = latencies[~is_warmup]
    counts = counts - np.minimum(samples["warmup"].to_numpy(dtype=np.int64), counts)
    others, units = (
        Lists(table.column(name).combine_chunks())
        for name in ("other_ticks", "other_units")
    )
    _combine_thread_times(samples, latencies, counts, others, descriptions)
    work_columns = _normalize_and_summarize_work(
        samples, latencies, counts, units, descriptions
    )
    about = samples.assign(**work_columns)
    return Bursts(
        about[counts > 0].reset_index(drop=True), latencies, counts[counts > 0]
    )


class Lists:
    """An Arrow column of lists of lists. known: for each row, whether it is not
    null.
    """

    def __init__(self, column: Any) -> None:
        self.known = column.is_valid().to_numpy(zero_copy_only=False)
        self._outer, self._inner = (
            column.offsets.to_numpy(),
            column.values.offsets.to_numpy(),
        )
        self._values = column.values.values.to_numpy()

    def read_row(self, row: Any) -> list[npt.NDArray[Any]]:
        """Return the lists of a row."""
        inner = self._inner[self._outer[row] : self._outer[row + 1] + 1]
        return [self._values[begin:end] for begin, end in pairwise(inner)]


def _combine_thread_times(
    samples: pd.DataFrame,
    latencies: Floats,
    counts: Ints,
    others: Lists,
    descriptions: Descriptions,
) -> None:
    """Convert samples of groups in place to the time of a unit by all threads. others:
    the others' ticks.
    """
    is_group = has_shape(samples["benchmark"], Shape.GROUP, descriptions)
    first, factor = (
        np.cumsum(counts) - counts,
        compute_latency_ns_per_tick(samples, descriptions),
    )
    for row in np.flatnonzero(others.known & is_group & (counts > 0)):
        own = latencies[first[row] : first[row] + counts[row]]
        times = [
            own,
            *(ticks[-counts[row] :] * factor[row] for ticks in others.read_row(row)),
        ]
        if len(times) > 1:
            own[:] = 1 / (1 / np.stack(times)).sum(axis=0)


def _normalize_and_summarize_work(
    samples: pd.DataFrame,
    latencies: Floats,
    counts: Ints,
    units: Lists,
    descriptions: Descriptions,
) -> dict[str, Floats]:
    """Convert samples in place to the time of one unit by all threads, if all threads
    count the same unit.

    units: the other threads' counts; pairs have none. Return WORK_COLUMNS of each
    burst, NaN where nothing is counted. If the others count bytes, set only their bytes
    per ns, in the sample of the median latency. Otherwise, set the least and the most
    that a thread did, as shares of the mean, or of ping's count if the others count
    another unit.
    """
    columns = np.full((len(WORK_COLUMNS), len(samples)), np.nan)
    first, iterations = (
        np.cumsum(counts) - counts,
        samples["iterations"].to_numpy(dtype=np.float64),
    )
    is_pair = has_shape(samples["benchmark"], Shape.PAIR, descriptions)
    for row in np.flatnonzero(units.known & ~is_pair & (counts > 0)):
        own = latencies[first[row] : first[row] + counts[row]]
        others = [thread_units[-counts[row] :] for thread_units in units.read_row(row)]
        other_unit = descriptions[samples["benchmark"][row]].other_unit
        if other_unit == "byte":
            middle = np.argsort(own, kind="stable")[(counts[row] - 1) // 2]
            columns[2, row] = sum(part[middle] for part in others) / (
                own[middle] * iterations[row]
            )
            continue
        of_ping = np.full(counts[row], iterations[row])
        if other_unit:
            shares = np.stack(others).sum(axis=1) / of_ping.sum()
        else:
            units_by_thread = np.stack([of_ping, *others])
            own *= of_ping / units_by_thread.sum(axis=0)
            shares = units_by_thread.sum(axis=1)
            shares = shares / shares.mean()
        columns[:2, row] = shares.min(), shares.max()
    return dict(zip(WORK_COLUMNS, columns, strict=True))


def group_rows_by_length(
    values: npt.NDArray[Any], counts: Ints
) -> Iterator[tuple[Ints, npt.NDArray[Any]]]:
    """Yield the indices and a matrix of all rows of equal length, by length. values:
    rows end to end.
    """
    first = np.cumsum(counts) - counts
    for count in np.unique(counts):
        which = np.flatnonzero(counts == count)
        if len(which) == len(counts):
            yield which, values.reshape(len(which), count)
        else:
            yield which, values[first[which][:, None] + np.arange(count)]

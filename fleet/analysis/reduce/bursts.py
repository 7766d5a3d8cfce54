"""Read an Arrow table of samples into bursts as flat arrays, without warm-ups or an object each."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints, to_pandas
from fleet.analysis.reduce.load import average_both_threads, compute_ns_per_tick, is_pair_benchmark
from fleet.model import SHIPPED, Descriptions, Shape
from fleet.store.schema import PARAMETERS

SAMPLE_COLUMNS = (
    *("run_id", "benchmark", "variant", "relation", "round", "ping_cpu", "pong_cpu", "start_offset_ns"),
    *("iterations", "warmup", "ticks", "ns_per_tick", "flags", "point", "unit", *PARAMETERS),
    *("other_ticks", "other_units", "core_ghz"),
)
LISTS = ("ticks", "other_ticks", "other_units")
WORK_COLUMNS = ("least_share", "most_share", "other_rate")
"""The columns on the work of a burst's threads: `_join_units`."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """Bursts: `about`, a row each without ticks; `latencies`, all samples in ns; `counts`, samples of each.

    A sample of several threads is the time of one unit by all of them together.
    """

    about: pd.DataFrame
    latencies: Floats
    counts: Ints

    def reorder(self, order: Ints) -> "Bursts":
        """Return the bursts in another order."""
        counts = self.counts[order]
        if (counts == counts[:1]).all():  # much faster
            taken = self.latencies.reshape(len(order), -1)[order].ravel() if len(order) else self.latencies
        else:
            first = np.cumsum(self.counts) - self.counts
            sample_indices = np.repeat(first[order] - (np.cumsum(counts) - counts), counts) + np.arange(
                counts.sum()
            )
            taken = self.latencies[sample_indices]
        return Bursts(self.about.iloc[order].reset_index(drop=True), taken, counts)


def read_bursts(table: Any, descriptions: Descriptions = SHIPPED) -> Bursts:
    """Read the bursts of an Arrow table with SAMPLE_COLUMNS, making no list for a burst of a pair."""
    lists = table.column("ticks").combine_chunks()
    counts, ticks = np.diff(lists.offsets), lists.flatten().to_numpy()
    samples = to_pandas(table.select([name for name in SAMPLE_COLUMNS if name not in LISTS]))
    pairs = is_pair_benchmark(samples["benchmark"], descriptions)
    others = Lists(table.column("other_ticks").combine_chunks())
    units = Lists(table.column("other_units").combine_chunks())
    both = pairs & others.known
    ticks = average_both_threads(ticks, others.flatten(both), np.repeat(both, counts))
    warmup = np.minimum(samples["warmup"].to_numpy(dtype=np.int64), counts)
    left, factor = counts - warmup, compute_ns_per_tick(samples, descriptions)
    if (counts == counts[:1]).all() and (warmup == warmup[:1]).all() and len(counts):
        rows = ticks.reshape(len(counts), -1)[:, warmup[0] :].astype(np.float64)
        latencies = (rows * factor[:, None]).ravel()
    else:
        place = np.arange(len(ticks)) - np.repeat(np.cumsum(counts) - counts, counts)
        latencies = ticks[place >= np.repeat(warmup, counts)].astype(np.float64) * np.repeat(factor, left)
    _join_threads(samples, latencies, left, others, descriptions)
    of_others = _join_units(samples, latencies, left, units, ~pairs, descriptions)
    about = samples.assign(**dict(zip(WORK_COLUMNS, of_others, strict=True)))
    measured = left > 0
    return Bursts(about[measured].reset_index(drop=True), latencies, left[measured])


class Lists:
    """A column of lists of lists. known: whether each row is not null."""

    def __init__(self, column: Any) -> None:
        self.known = column.is_valid().to_numpy(zero_copy_only=False)
        self._outer, self._inner = column.offsets.to_numpy(), column.values.offsets.to_numpy()
        self._values = column.values.values.to_numpy()

    def read_row(self, row: Any) -> list[npt.NDArray[Any]]:
        """Return the lists of a row."""
        inner = self._inner[self._outer[row] : self._outer[row + 1] + 1]
        return [self._values[begin:end] for begin, end in pairwise(inner)]

    def flatten(self, rows: Bools) -> Ints:
        """Return all values of these rows in one array."""
        lists = [values for row in np.flatnonzero(rows) for values in self.read_row(row)]
        return np.concatenate(lists) if lists else self._values[:0]


def _join_threads(
    samples: pd.DataFrame, latencies: Floats, counts: Ints, others: Lists, descriptions: Descriptions
) -> None:
    """Turn samples of groups into the time of a unit by all threads; others: ticks of threads but ping."""
    names = samples["benchmark"]
    groups = [name for name in names.unique() if descriptions[str(name)].shape is Shape.GROUP]
    first, factor = np.cumsum(counts) - counts, compute_ns_per_tick(samples, descriptions)
    for row in np.flatnonzero(others.known & names.isin(groups) & (counts > 0)):
        own = latencies[first[row] : first[row] + counts[row]]
        thread_times = np.stack(
            [own, *(ticks[-counts[row] :] * factor[row] for ticks in others.read_row(row))]
        )
        if len(thread_times) > 1:
            own[:] = 1 / (1 / thread_times).sum(axis=0)


def _join_units(
    samples: pd.DataFrame,
    latencies: Floats,
    counts: Ints,
    units: Lists,
    apart: Bools,
    descriptions: Descriptions,
) -> Floats:
    """Turn samples into the time of a unit by all threads, where the units of each thread are counted.

    units: of the other threads. apart: rows that are not of pairs. Samples change only if all threads count
    the same unit.

    Return WORK_COLUMNS for each burst, NaN where nothing is counted: the least and most done by a thread, as
    shares of the mean (of ping's count if the others count another unit); if the others count bytes, their
    bytes per ns in the sample of the median latency.
    """
    columns = np.full((len(WORK_COLUMNS), len(samples)), np.nan)
    names = samples["benchmark"]
    first, iterations = np.cumsum(counts) - counts, samples["iterations"].to_numpy(dtype=np.float64)
    for row in np.flatnonzero(units.known & apart & (counts > 0)):
        of_ping = np.full(counts[row], iterations[row])
        others = [thread_units[-counts[row] :] for thread_units in units.read_row(row)]
        other_unit = descriptions[names[row]].other_unit
        if other_unit == "byte":
            own = latencies[first[row] : first[row] + counts[row]]
            middle = np.argsort(own, kind="stable")[(counts[row] - 1) // 2]
            columns[2, row] = sum(thread_units[middle] for thread_units in others) / (
                own[middle] * iterations[row]
            )
            continue
        units_by_thread = np.stack([of_ping, *others])
        if other_unit:
            shares = units_by_thread[1:].sum(axis=1) / of_ping.sum()
            columns[:2, row] = shares.min(), shares.max()
            continue
        latencies[first[row] : first[row] + counts[row]] *= of_ping / units_by_thread.sum(axis=0)
        done = units_by_thread.sum(axis=1)
        columns[:2, row] = done.min() / done.mean(), done.max() / done.mean()
    return columns


def group_rows_by_length(values: npt.NDArray[Any], counts: Ints) -> Iterator[tuple[Ints, npt.NDArray[Any]]]:
    """Group rows of `counts` values, stored one after the other, by length: their indices and a matrix."""
    first = np.cumsum(counts) - counts
    for count in np.unique(counts):
        which = np.flatnonzero(counts == count)
        if len(which) == len(counts):
            yield which, values.reshape(len(which), count)
        else:
            yield which, values[first[which][:, None] + np.arange(count)]

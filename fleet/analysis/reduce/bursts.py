"""Bursts as flat arrays, without an object for each.

Made of a frame as `load_samples` returns it or of an Arrow table of samples; warm-ups are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from fleet.analysis.arrays import Bools, Floats, Ints
from fleet.analysis.reduce.load import mean_of_both, ns_per_sample_tick, of_both, sample_ticks
from fleet.model import Shape, benchmark_named
from fleet.store.schema import PARAMETER_COLUMNS, names_between

PARAMETERS = tuple(column.name for column in PARAMETER_COLUMNS)
_OF_BURST, _OF_SAMPLES = ("run_id", "start_offset_ns"), ("iterations", "ns_per_tick")
_OF_POINT, _OF_ALL = ("flags", "threads"), ("other_ticks", "core_ghz")
COLUMNS = names_between("samples", _OF_BURST, _OF_SAMPLES, _OF_POINT, _OF_ALL)
LISTS = ("ticks", "other_ticks", "other_units")
OF_OTHERS = ("least_share", "most_share", "other_rate")
"""What the threads of a burst did beside ping: `_join_units`."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """`about`: a row per burst, its columns but the ticks. `latencies`: all samples in ns, burst after burst.

    A sample of several threads is the time of one unit by all of them together.

    counts: samples of each burst, at least one; bursts of nothing but warm-ups are not here.
    """

    about: pd.DataFrame
    latencies: Floats
    counts: Ints

    def in_order(self, order: Ints) -> "Bursts":
        """The same bursts in another order."""
        counts = self.counts[order]
        if (counts == counts[:1]).all():  # much faster
            taken = self.latencies.reshape(len(order), -1)[order].ravel() if len(order) else self.latencies
        else:
            first = np.cumsum(self.counts) - self.counts
            at = np.repeat(first[order] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
            taken = self.latencies[at]
        return Bursts(self.about.iloc[order], taken, counts)


def of_frame(samples: pd.DataFrame) -> Bursts:
    """Take a frame's bursts."""
    counts = samples["ticks"].map(len).to_numpy(dtype=np.int64)
    none = pd.Series(None, samples.index, dtype=object)
    units = samples.get("other_units", none)
    return _bursts(samples, sample_ticks(samples), counts, samples["other_ticks"], units)


def of_arrow(table: Any) -> Bursts:
    """Take the bursts of an Arrow table with the columns COLUMNS, without making a list of any."""
    ticks = table.column("ticks").combine_chunks()
    counts = ticks.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    about = table.drop_columns(LISTS).to_pandas()
    both = of_both(about["benchmark"])
    groups = _column_of(table, "other_ticks", ~both)
    units = _column_of(table, "other_units", ~both)
    others = table.filter(pa.array(both)).column("other_ticks").combine_chunks() if both.any() else None
    if others is None or others.null_count == len(others):
        return _bursts(about, ticks.flatten().to_numpy(), counts, groups, units)
    both[both] = others.is_valid().to_numpy(zero_copy_only=False)
    other_ticks = others.flatten().flatten().to_numpy()
    means = mean_of_both(ticks.flatten().to_numpy(), other_ticks, np.repeat(both, counts))
    return _bursts(about, means, counts, groups, units)


def _column_of(table: Any, name: str, wanted: Bools) -> "pd.Series[Any]":
    """A column of lists of the rows wanted, None in all others."""
    found = pd.Series([None] * len(wanted), dtype=object)
    if wanted.any():
        found[wanted] = table.filter(pa.array(wanted)).column(name).to_pandas().to_numpy()
    return found


def _bursts(
    samples: pd.DataFrame,
    ticks: Ints | Floats,
    counts: Ints,
    others: "pd.Series[Any]",
    units: "pd.Series[Any]",
) -> Bursts:
    warmup = np.minimum(samples["warmup"].to_numpy(dtype=np.int64), counts)
    left, factor = counts - warmup, ns_per_sample_tick(samples)
    if (counts == counts[:1]).all() and (warmup == warmup[:1]).all() and len(counts):
        rows = ticks.reshape(len(counts), -1)[:, warmup[0] :].astype(np.float64)
        latencies = (rows * factor[:, None]).ravel()
    else:
        place = np.arange(len(ticks)) - np.repeat(np.cumsum(counts) - counts, counts)
        latencies = ticks[place >= np.repeat(warmup, counts)].astype(np.float64) * np.repeat(factor, left)
    _join_threads(samples, latencies, left, others)
    of_others = _join_units(samples, latencies, left, units)
    about = samples[[name for name in COLUMNS if name not in LISTS]].reset_index(drop=True)
    about = about.assign(**dict(zip(OF_OTHERS, of_others, strict=True)))
    measured = left > 0
    if not measured.all():
        about = about[measured].reset_index(drop=True)
    return Bursts(about, latencies, left[measured])


def _join_threads(samples: pd.DataFrame, latencies: Floats, counts: Ints, others: "pd.Series[Any]") -> None:
    """Make the samples of groups of threads the time of one unit by all of them together.

    others: the ticks of the other threads, where there are any. counts: samples without warm-ups.
    """
    names = samples["benchmark"]
    groups = [name for name in names.unique() if benchmark_named(str(name)).shape is Shape.GROUP]
    wanted = others.notna().to_numpy() & names.isin(groups).to_numpy() & (counts > 0)
    first, factor = np.cumsum(counts) - counts, ns_per_sample_tick(samples)
    for row in np.flatnonzero(wanted):
        if not len(others.iloc[row]):
            continue
        own = latencies[first[row] : first[row] + counts[row]]
        each = np.stack([own, *(np.asarray(one)[-counts[row] :] * factor[row] for one in others.iloc[row])])
        own[:] = 1 / (1 / each).sum(axis=0)


def _join_units(samples: pd.DataFrame, latencies: Floats, counts: Ints, units: "pd.Series[Any]") -> Floats:
    """The same where what all threads did in ping's samples is counted, and they did the same.

    units: of the other threads. Returns OF_OTHERS of each burst: what the threads that did the least and the
    most did, as shares of the mean, or of what ping did where the others count something else; and, where
    they count bytes, how many in a ns of the sample of the median latency. NaN where nothing is counted.
    """
    found = np.full((len(OF_OTHERS), len(samples)), np.nan)
    names = samples["benchmark"].astype(str).to_numpy()
    first, iterations = np.cumsum(counts) - counts, samples["iterations"].to_numpy(dtype=np.float64)
    for row in np.flatnonzero(units.notna().to_numpy() & (counts > 0)):
        of_ping = np.full(counts[row], iterations[row])
        others = [np.asarray(one)[-counts[row] :] for one in units.iloc[row]]
        other_unit = benchmark_named(names[row]).other_unit
        if other_unit == "byte":
            own = latencies[first[row] : first[row] + counts[row]]
            middle = np.argsort(own, kind="stable")[(counts[row] - 1) // 2]
            found[2, row] = sum(one[middle] for one in others) / (own[middle] * iterations[row])
            continue
        each = np.stack([of_ping, *others])
        if other_unit:
            shares = each[1:].sum(axis=1) / of_ping.sum()
            found[:2, row] = shares.min(), shares.max()
            continue
        latencies[first[row] : first[row] + counts[row]] *= of_ping / each.sum(axis=0)
        done = each.sum(axis=1)
        found[:2, row] = done.min() / done.mean(), done.max() / done.mean()
    return found


def equal_rows(values: npt.NDArray[Any], counts: Ints) -> Iterator[tuple[Ints, npt.NDArray[Any]]]:
    """Group rows of different lengths, stored one after the other, by length: their indices and a matrix.

    counts: how many values each row has.
    """
    first = np.cumsum(counts) - counts
    for count in np.unique(counts):
        which = np.flatnonzero(counts == count)
        if len(which) == len(counts):
            yield which, values.reshape(len(which), count)
        else:
            yield which, values[first[which][:, None] + np.arange(count)]

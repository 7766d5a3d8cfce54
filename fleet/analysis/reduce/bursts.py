"""Read an Arrow table of samples into flat arrays of bursts, without warm-ups or an
object per burst.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base.tables import (
    Bools,
    Floats,
    Ints,
    find_starts,
    get_floats,
    get_ints,
    reorder_rows,
    to_pandas,
)
from fleet.analysis.reduce.flat_rows import Lists
from fleet.analysis.reduce.load import (
    compute_latency_ns_per_tick,
    convert_ticks,
    has_shape,
)
from fleet.model import SHIPPED, Descriptions, Shape
from fleet.store.schema import PARAMETERS

SAMPLE_COLUMNS = (
    *("run_id", "benchmark", "variant", "relation", "round", "ping_cpu", "pong_cpu"),
    *("start_offset_ns", "iterations", "warmup", "ticks", "ns_per_tick", "flags"),
    *("point", "unit", *PARAMETERS, "other_ticks", "other_units", "core_ghz"),
)
LISTS = ("ticks", "other_ticks", "other_units")
WORK_COLUMNS = ("least_share", "most_share", "other_rate")
"""The columns that describe the work of a burst's threads; see
`_summarize_work_in_place`.
"""


@dataclass(frozen=True, slots=True)
class Bursts:
    """Bursts and their samples. about: a row for each burst. counts: how many samples
    each burst has. latencies: the samples of all bursts end to end; each is the ns that
    all threads together take for a unit.
    """

    about: pd.DataFrame
    latencies: Floats
    counts: Ints

    def reorder(self, order: Ints) -> "Bursts":
        """Return the bursts in another order."""
        about = self.about.iloc[order].reset_index(drop=True)
        latencies = reorder_rows(self.latencies, self.counts, order)
        return Bursts(about, latencies, self.counts[order])


def read_bursts(table: Any, descriptions: Descriptions = SHIPPED) -> Bursts:
    """Read bursts without warm-ups from an Arrow table with SAMPLE_COLUMNS; drop bursts
    that have nothing but warm-ups.
    """
    bursts = _drop_warmups(table, descriptions)

    # So far each latency is that of the first thread, or of a pair. Each step changes
    # some of them in place to those of all threads together: the first step where other
    # threads have ticks of their own, the second where all threads count the same unit.
    other_ticks = Lists(table.column("other_ticks").combine_chunks())
    _combine_thread_times_in_place(bursts, other_ticks, descriptions)
    other_units = Lists(table.column("other_units").combine_chunks())
    work_columns = _summarize_work_in_place(bursts, other_units, descriptions)

    has_samples = bursts.counts > 0
    about = bursts.about.assign(**work_columns)
    about_measured = about[has_samples].reset_index(drop=True)
    # a burst without samples has no latencies either, so that those stay as they are
    return Bursts(about_measured, bursts.latencies, bursts.counts[has_samples])


def _drop_warmups(table: Any, descriptions: Descriptions) -> Bursts:
    """Convert an Arrow table to bursts without warm-ups; a burst may have no samples
    left. Each latency is that of the first thread, or of a pair.
    """
    plain = [name for name in SAMPLE_COLUMNS if name not in LISTS]
    about = to_pandas(table.select(plain))
    latencies, counts, is_warmup = convert_ticks(about, table, descriptions)
    warmups = np.minimum(get_ints(about, "warmup"), counts)
    return Bursts(about, latencies[~is_warmup], counts - warmups)


def _iter_latencies_and_others(
    bursts: Bursts, others: Lists, is_chosen: Bools
) -> Iterator[tuple[Any, Floats, list[npt.NDArray[Any]]]]:
    """Yield each chosen burst with lists of other threads: the burst's row in `about`,
    its latencies, and for each other thread an array of a value per sample. The
    latencies are a view: a change of them changes the burst.

    bursts: without warm-ups. others: may have warm-ups, which are first in a list, so
    that they are left out by taking as many last values as the burst has samples.
    """
    starts = find_starts(bursts.counts)
    has_samples = bursts.counts > 0
    for row in np.flatnonzero(others.is_valid & is_chosen & has_samples):
        start = starts[row]
        count = bursts.counts[row]
        latencies = bursts.latencies[start : start + count]
        yield row, latencies, others.read_row(row, count)


def _combine_thread_times_in_place(
    bursts: Bursts, other_ticks: Lists, descriptions: Descriptions
) -> None:
    """Convert the samples of groups of CPUs in place: from the ns that the first thread
    takes for a unit to the ns that all threads together take for one unit.
    """
    about = bursts.about
    is_group = has_shape(about["benchmark"], Shape.GROUP, descriptions)
    ns_per_tick = compute_latency_ns_per_tick(about, descriptions)
    rows = _iter_latencies_and_others(bursts, other_ticks, is_group)
    for row, latencies, ticks_of_others in rows:
        if not ticks_of_others:
            continue
        times_of_others = [ticks * ns_per_tick[row] for ticks in ticks_of_others]
        times = np.stack([latencies, *times_of_others])  # threads x samples
        # rates of threads add up, times do not
        units_per_ns = 1 / times
        latencies[:] = 1 / units_per_ns.sum(axis=0)


def _summarize_work_in_place(
    bursts: Bursts, other_units: Lists, descriptions: Descriptions
) -> dict[str, Floats]:
    """Return WORK_COLUMNS of each burst, NaN where nothing is counted. other_units: how
    many units each other thread did in each sample; pairs have none.

    If the other threads count bytes, set `other_rate` only. If they count another unit
    than the first thread, set the least and the most that one of them did, as shares
    of what the first thread did. If all threads count the same unit, set the least and
    the most that a thread did, as shares of the mean of all threads; then also convert
    the latencies in place, from the ns that the first thread takes for a unit to the ns
    that all threads together take for one unit.
    """
    about = bursts.about
    iterations = get_floats(about, "iterations")
    columns = {name: np.full(len(about), np.nan) for name in WORK_COLUMNS}
    is_pair = has_shape(about["benchmark"], Shape.PAIR, descriptions)
    rows = _iter_latencies_and_others(bursts, other_units, ~is_pair)
    for row, latencies, units_of_others in rows:
        unit = descriptions[about["benchmark"][row]].other_unit
        if unit == "byte":
            rate = _compute_rate_of_others(latencies, units_of_others, iterations[row])
            columns["other_rate"][row] = rate
            continue
        units_of_first = np.full(len(latencies), iterations[row])
        counts_another_unit = bool(unit)  # without `other_unit`, all count the same
        if counts_another_unit:
            units_by_thread = np.stack(units_of_others)  # threads x samples
            shares = units_by_thread.sum(axis=1) / units_of_first.sum()
        else:
            units_by_thread = np.stack([units_of_first, *units_of_others])
            # converts `latencies`, too
            shares = _normalize_by_work_in_place(latencies, units_by_thread)
        columns["least_share"][row] = shares.min()
        columns["most_share"][row] = shares.max()
    return columns


def _normalize_by_work_in_place(latencies: Floats, units: npt.NDArray[Any]) -> Floats:
    """Convert samples in place to the time of one unit by all threads; return what each
    thread did in all samples, as a share of the mean.

    latencies: the time of a unit of the first thread. units: threads x samples.
    """
    latencies *= units[0] / units.sum(axis=0)
    work = units.sum(axis=1)
    shares: Floats = work / work.mean()
    return shares


def _compute_rate_of_others(
    latencies: Floats, units: list[npt.NDArray[Any]], iterations: float
) -> float:
    """Return the other threads' units per ns in the sample of the median latency; of
    two such samples, in that of the lower latency.

    latencies: the ns of an iteration of the first thread, in each sample. units: for
    each other thread an array with its units in each sample. iterations: how many the
    first thread does in a sample.
    """
    ascending = np.argsort(latencies, kind="stable")
    median_sample = ascending[(len(latencies) - 1) // 2]
    units_of_others = sum(of_thread[median_sample] for of_thread in units)
    sample_ns = latencies[median_sample] * iterations
    return float(units_of_others / sample_ns)

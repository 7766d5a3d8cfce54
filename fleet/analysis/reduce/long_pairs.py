"""Reduce pairs with more samples than are held at once, some bursts at a time.

Only the distinct values of the samples are kept, each with its count: a file of few bytes has few.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Floats, Ints
from fleet.analysis.base.text import to_records
from fleet.analysis.reduce.bursts import read_bursts
from fleet.analysis.reduce.matrices import (
    OF_SAMPLES,
    PAIR,
    compute_medians,
    make_pairs,
    order_by_pair,
    pair_numbers,
)
from fleet.late import pc
from fleet.model import SHIPPED, Descriptions

_FEW = 1 << 20  # values that are put together with the distinct ones only later


class _Samples:
    def __init__(self) -> None:
        self._values, self._counts = np.empty(0), np.empty(0, dtype=np.int64)
        self._new: list[Floats] = []

    def add(self, latencies: Floats) -> None:
        self._new.append(latencies)
        if sum(map(len, self._new)) > max(_FEW, len(self._values)):
            self._gather()

    def _gather(self) -> None:
        distinct = [np.unique(part, return_counts=True) for part in self._new]
        values, place = np.unique(
            np.concatenate([self._values, *(part for part, _ in distinct)]), return_inverse=True
        )
        counts = np.bincount(place, np.concatenate([self._counts, *(count for _, count in distinct)]))
        self._values, self._counts, self._new = values, counts.astype(np.int64), []

    def numbers(self) -> tuple[float, ...]:
        """Compute the columns OF_SAMPLES."""
        self._gather()
        values, counts = self._values, self._counts
        tenth, middle, last = (_quantile(values, counts, share) for share in (0.10, 0.5, 0.99))
        far = np.abs(values - middle)
        order = np.argsort(far)
        mean = float(values @ counts) / counts.sum()
        return values[0], tenth, mean, _quantile(far[order], counts[order], 0.5), last, values[-1]


def _quantile(values: Floats, counts: Ints, share: float) -> float:
    ends = np.cumsum(counts)
    place = share * (ends[-1] - 1)
    low, high = values[np.searchsorted(ends, [int(place), min(int(place) + 1, ends[-1] - 1)], side="right")]
    return float(low + (place - int(place)) * (high - low))


def reduce_in_parts(
    tables: Iterable[Any], descriptions: Descriptions = SHIPPED, *, ordered: bool = False
) -> pd.DataFrame:
    """Reduce tables as `matrices.reduce_bursts` does; tables: with SAMPLE_COLUMNS, each fit to be held."""
    about, counts, middles, far = list[pd.DataFrame](), list[Ints](), list[Floats](), list[Ints]()
    samples: dict[tuple[object, ...], _Samples] = {}
    for table in tables:
        measured = table.filter(
            pc.greater(pc.list_value_length(table.column("ticks")), table.column("warmup"))
        )
        bursts = read_bursts(measured, descriptions)
        about.append(bursts.about)
        counts.append(bursts.counts)
        middle, beyond = compute_medians(bursts)
        middles.append(middle)
        far.append(beyond)
        numbers = pair_numbers(bursts.about, ordered=ordered)
        bursts = bursts.reorder(np.argsort(numbers, kind="stable"))
        begins = np.flatnonzero(np.diff(np.sort(numbers), prepend=-1))
        ends = np.cumsum(bursts.counts)
        of_pairs = np.split(bursts.latencies, ends[begins[1:] - 1])
        keys = _pairs(bursts.about.iloc[begins], ordered=ordered)
        for key, latencies in zip(keys, of_pairs, strict=len(begins) > 0):
            samples.setdefault(key, _Samples()).add(latencies.copy())
    bursts_of_all = pd.concat(about, ignore_index=True)
    order = order_by_pair(bursts_of_all, ordered=ordered)
    sizes, beyond = (np.concatenate(arrays)[order] for arrays in (counts, far))
    middle, of_samples = np.concatenate(middles)[order], partial(_columns, samples, ordered)
    about_all = bursts_of_all.iloc[order].reset_index(drop=True)
    return make_pairs(about_all, sizes, middle, beyond, of_samples, descriptions, ordered=ordered)


def _pairs(bursts: pd.DataFrame, *, ordered: bool) -> list[tuple[object, ...]]:
    """Name the pair of each burst: the values of PAIR, unless `ordered` the lower CPU first."""
    rows = to_records(bursts[PAIR])
    keys = [(list(row.values())[:-2], [row["ping_cpu"], row["pong_cpu"]]) for row in rows]
    return [(*kind, *(ends if ordered else sorted(ends))) for kind, ends in keys]


def _columns(samples: Mapping[Any, _Samples], ordered: bool, first: pd.DataFrame) -> dict[str, Any]:
    numbers = [samples[key].numbers() for key in _pairs(first, ordered=ordered)]
    return dict(zip(OF_SAMPLES, map(np.array, zip(*numbers, strict=True)), strict=True))

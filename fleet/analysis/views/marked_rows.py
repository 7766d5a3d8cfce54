"""Pairs and bursts of a run that may be worth a warning."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, to_pandas
from fleet.analysis.base.text import (
    to_records,
)
from fleet.analysis.reduce.load import list_published
from fleet.analysis.reduce.pairs import verify_derived
from fleet.late import pa, pc
from fleet.store.index import Derived, load_derived
from fleet.store.places import Key, Place, samples_name
from fleet.store.reading import TableFile, concat_tables, read_undamaged
from fleet.store.runs import Root, open_listing

WIDE = 0.05  # widest interval without a warning, where no precision was requested
STEAL = ("ping_steal_ppm", "pong_steal_ppm")
# Columns of `samples` that warnings are made of.
BURST_COLUMNS = (
    "run_id",
    "flags",
    "benchmark",
    "point",
    "round",
    "ping_cpu",
    "pong_cpu",
    *STEAL,
)
_MARKED = Derived("marked bursts", "samples", BURST_COLUMNS)
# columns of `pairs` that warnings show
_OF_PAIRS = (
    *("run_id", "benchmark", "point", "ping_cpu", "pong_cpu", "relation", "flags"),
    *("median_ns", "spread", "other_share", "drift", "outliers", "other_rate"),
)


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """Pairs and bursts of a run that may be worth a warning. pair_count, burst_count:
    of the whole run.
    """

    pairs: list[dict[str, Any]]
    pair_count: int
    bursts: pd.DataFrame
    burst_count: int


def _derive_marked_bursts(
    place: Place, keys: Sequence[Key]
) -> Iterator[tuple[list[Key], Any]]:
    """Yield the runs whose samples can be read, and their bursts that may be worth a
    warning.
    """

    def read_marked_rows(file_name: str) -> Any:
        rows = TableFile(place, file_name, "samples").read(BURST_COLUMNS)
        flagged = pc.not_equal(rows.column("flags").cast(pa.string()), "")
        lost = (pc.fill_null(pc.greater(rows.column(name), 0), False) for name in STEAL)
        return rows.filter(reduce(pc.or_, lost, flagged))

    names = {samples_name(*key): key for key in keys}
    if rows := read_undamaged(list(names), read_marked_rows):
        yield (
            [names[name] for name in rows],
            concat_tables(list(rows.values()), "samples", BURST_COLUMNS),
        )


def load_marked_bursts(root: Root, run_ids: Collection[str]) -> pd.DataFrame:
    """Return the runs' bursts that have a flag or lost time to a hypervisor, with
    BURST_COLUMNS.
    """
    listing = open_listing(root)
    runs = list_published(listing, run_id=run_ids)
    marks = {run.key: listing.stamps[run.key] for run in runs}
    derive = partial(_derive_marked_bursts, listing.place)
    rows = load_derived(listing.index, _MARKED, marks, derive, BURST_COLUMNS)
    return to_pandas(rows).astype({"flags": object})


def verify_marked_bursts(root: Root) -> list[str]:
    """Derive the marked bursts in the index again; return a problem for each run whose
    bursts differ.
    """
    listing = open_listing(root)
    marks = {run.key: listing.stamps[run.key] for run in listing.all_runs}
    return verify_derived(
        listing, _MARKED, marks, partial(_derive_marked_bursts, listing.place)
    )


def select_marked_rows(
    pairs: pd.DataFrame, bursts: pd.DataFrame, burst_counts: Mapping[str, int]
) -> dict[str, MarkedRows]:
    """Return marked rows by run ID. bursts: with BURST_COLUMNS. burst_counts: of all
    bursts, by run ID.
    """
    pair_counts = Counter(pairs["run_id"].astype(str).tolist())
    is_wide = pairs["spread"].to_numpy() > WIDE
    marked_pairs = pairs[list(_OF_PAIRS)][_has_flags(pairs) | is_wide]
    pairs_by_run = _group_by_run(marked_pairs)
    has_lost = [bursts[name].notna().to_numpy() for name in STEAL]
    marked_bursts = bursts[_has_flags(bursts) | np.any(has_lost, axis=0)]
    bursts_by_run = _group_by_run(marked_bursts)
    marked_rows = {}
    for run_id, burst_count in burst_counts.items():
        marked_rows[run_id] = MarkedRows(
            pairs=to_records(pairs_by_run.get(run_id, marked_pairs[:0])),
            pair_count=pair_counts[run_id],
            bursts=bursts_by_run.get(run_id, marked_bursts[:0]),
            burst_count=burst_count,
        )
    return marked_rows


def _has_flags(rows: pd.DataFrame) -> Bools:
    has_flags: Bools = (rows["flags"] != "").to_numpy(dtype=bool)
    return has_flags


def _group_by_run(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    groups = rows.groupby("run_id", sort=False, observed=True)
    return {str(run_id): part for run_id, part in groups}


NOTHING = MarkedRows([], 0, pd.DataFrame(), 0)

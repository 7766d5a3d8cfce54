"""Pairs and bursts of a run that may be worth a warning."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from fleet.analysis.base.tables import Bools, to_pandas
from fleet.analysis.base.text import to_records
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
_OF_PAIRS = [
    "run_id",
    "benchmark",
    "point",
    "ping_cpu",
    "pong_cpu",
    "relation",
    "flags",
    "median_ns",
    "spread",
    "other_share",
    "drift",
    "outliers",
    "other_rate",
]


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
    """Yield one tuple: the keys of the runs whose samples can be read, and an Arrow
    table of all their bursts that may be worth a warning. Yield nothing if no samples
    can be read. keys: of the runs to read.

    `load_derived` takes the runs in any number of parts, a tuple each; here all runs
    are one part.
    """
    keys_by_file = {samples_name(*key): key for key in keys}
    read = partial(_read_marked_bursts, place)
    rows_by_file = read_undamaged(list(keys_by_file), read)
    if rows_by_file:
        # damaged files are left out of the result, so their runs are, too
        readable = [keys_by_file[name] for name in rows_by_file]
        rows = concat_tables(list(rows_by_file.values()), "samples", BURST_COLUMNS)
        yield readable, rows


def _read_marked_bursts(place: Place, file_name: str) -> Any:
    """Read a run's bursts that have a flag or lost time to a hypervisor, as an Arrow
    table.
    """
    file = TableFile(place, file_name, "samples")
    rows = file.read(BURST_COLUMNS)
    flags = rows.column("flags").cast(pa.string())
    is_marked = pc.not_equal(flags, "")
    for name in STEAL:
        stolen_ppm = rows.column(name)  # null if unknown
        has_lost_or_null = pc.greater(stolen_ppm, 0)
        has_lost = pc.fill_null(has_lost_or_null, False)
        is_marked = pc.or_(is_marked, has_lost)
    return rows.filter(is_marked)


def load_marked_bursts(root: Root, run_ids: Collection[str]) -> pd.DataFrame:
    """Return the runs' bursts that have a flag or lost time to a hypervisor, with
    BURST_COLUMNS.

    The index keeps these bursts of each run, with the stamp of its files, which changes
    as the files do. Samples are read only of runs that the index lacks, or whose stamp
    has changed since.
    """
    listing = open_listing(root)
    runs = list_published(listing, run_id=run_ids)
    stamps = {run.key: listing.stamps[run.key] for run in runs}
    derive = partial(_derive_marked_bursts, listing.place)
    arrow = load_derived(listing.index, _MARKED, stamps, derive, BURST_COLUMNS)
    bursts = to_pandas(arrow)
    return bursts.astype({"flags": object})


def verify_marked_bursts(root: Root) -> list[str]:
    """Derive the marked bursts in the index again; return a problem for each run whose
    bursts differ.
    """
    listing = open_listing(root)
    stamps = {run.key: listing.stamps[run.key] for run in listing.all_runs}
    derive = partial(_derive_marked_bursts, listing.place)
    return verify_derived(listing, _MARKED, stamps, derive)


def select_marked_rows(
    pairs: pd.DataFrame, bursts: pd.DataFrame, burst_counts: Mapping[str, int]
) -> dict[str, MarkedRows]:
    """Return by run ID the pairs and bursts that may be worth a warning.

    pairs, bursts: of several runs; bursts with BURST_COLUMNS. burst_counts: by run ID,
    how many bursts the run has, marked or not; its runs are those of the result.
    """
    pair_counts = Counter(pairs["run_id"].astype(str).tolist())
    marked_pairs = _select_marked_pairs(pairs)
    marked_bursts = _select_marked_bursts(bursts)
    pairs_by_run = _group_by_run(marked_pairs)
    bursts_by_run = _group_by_run(marked_bursts)
    marked_rows = {}
    for run_id, burst_count in burst_counts.items():
        own_pairs = pairs_by_run.get(run_id, marked_pairs[:0])
        marked_rows[run_id] = MarkedRows(
            pairs=to_records(own_pairs),
            pair_count=pair_counts[run_id],
            bursts=bursts_by_run.get(run_id, marked_bursts[:0]),
            burst_count=burst_count,
        )
    return marked_rows


def _select_marked_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """Select pairs with a flag or a wide interval."""
    is_wide = pairs["spread"].to_numpy() > WIDE
    return pairs.loc[_has_flags(pairs) | is_wide, _OF_PAIRS]


def _select_marked_bursts(bursts: pd.DataFrame) -> pd.DataFrame:
    """Select bursts with a flag or with a number of what a hypervisor took."""
    is_marked = _has_flags(bursts)
    for name in STEAL:
        is_marked = is_marked | bursts[name].notna().to_numpy()
    return bursts[is_marked]


def _has_flags(rows: pd.DataFrame) -> Bools:
    is_flagged = rows["flags"] != ""
    has_flags: Bools = is_flagged.to_numpy(dtype=bool)
    return has_flags


def _group_by_run(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    groups = rows.groupby("run_id", sort=False, observed=True)
    return {str(run_id): part for run_id, part in groups}


NOTHING = MarkedRows([], 0, pd.DataFrame(), 0)

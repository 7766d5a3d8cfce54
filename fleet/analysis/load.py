"""Reads the tables into frames. Ticks become nanoseconds here and nowhere else.

Every frame has every column of its table, also where the files are of different ages, and also when
there are no rows.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from fleet.errors import StoreError
from fleet.store import schema
from fleet.store.places import place_of

CLOCK = "clock"  # the benchmark whose sample is clock readings of one CPU, not round trips of two


def load_samples(
    root: str | Path, *, run_id: str | None = None, host_id: str | None = None, benchmark: str | None = None
) -> pd.DataFrame:
    """Read raw samples as stored: one row per burst, `ticks` an array; columns as in docs/tables.md.

    Each filter left None takes all. No rows where nothing matches.
    """
    wanted = {"host_id": host_id, "run_id": run_id, "benchmark": benchmark}
    pattern = f"host_id={host_id or '*'}/run_id={run_id or '*'}/*.parquet"
    return _read(root, pattern, "samples", {key: value for key, value in wanted.items() if value is not None})


def load_runs(root: str | Path, *, run_id: str | None = None) -> pd.DataFrame:
    """Read the `runs` table: one row per published run."""
    return _read(root, f"_runs/{run_id or '*'}.parquet", "runs", {})


def load_cpus(root: str | Path, *, run_id: str | None = None) -> pd.DataFrame:
    """Read the `cpus` table: one row per run and CPU."""
    return _read(root, f"_cpus/{run_id or '*'}.parquet", "cpus", {})


def samples_long(samples: pd.DataFrame) -> pd.DataFrame:
    """One row per sample instead of per burst, in stored order, warm-ups marked.

    samples: as `load_samples` returns it. Every column but `ticks` and `warmup` is repeated; added are
    `sample` (position in its burst), `is_warmup` (bool), `ticks` (int64) and `latency_ns` (float64).
    """
    counts = samples["ticks"].map(len).to_numpy(dtype=np.int64)
    long = samples.drop(columns=["ticks", "warmup"]).iloc[np.repeat(np.arange(len(samples)), counts)]
    first = np.cumsum(counts) - counts
    place = np.arange(counts.sum()) - np.repeat(first, counts)
    return long.reset_index(drop=True).assign(
        sample=place,
        is_warmup=place < np.repeat(samples["warmup"].to_numpy(), counts),
        ticks=flat_ticks(samples),
        latency_ns=flat_ticks(samples) * np.repeat(ns_per_sample_tick(samples), counts),
    )


def flat_ticks(samples: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The ticks of all bursts in one array, in order."""
    if samples.empty:
        return np.empty(0, dtype=np.int64)
    return np.concatenate(samples["ticks"].to_list()).astype(np.int64, copy=False)


def ns_per_sample_tick(samples: pd.DataFrame) -> npt.NDArray[np.float64]:
    """What one tick of a sample adds to its latency, per burst.

    Latency is one way, half a round trip; of `clock` it is the cost of one reading.
    """
    ways = np.where(samples["benchmark"].to_numpy() == CLOCK, 1, 2)
    factor: npt.NDArray[np.float64] = (
        samples["ns_per_tick"].to_numpy() / samples["iterations"].to_numpy() / ways
    )
    return factor


def _read(root: str | Path, pattern: str, table: str, wanted: dict[str, str]) -> pd.DataFrame:
    place, shape = place_of(root), schema.arrow_schema(table)
    condition = None
    for name, value in wanted.items():
        clause = ds.field(name) == value
        condition = clause if condition is None else condition & clause
    try:
        paths = [place.path(name) for name in place.files(pattern)]
        found = shape.empty_table()
        if paths:
            dataset = ds.dataset(paths, schema=shape, format="parquet", filesystem=place.filesystem)
            found = dataset.to_table(filter=condition)
        frame: pd.DataFrame = found.to_pandas()
    except (OSError, pa.ArrowInvalid) as err:
        raise StoreError(f"{place}: cannot read the {table} table: {err}") from err
    return frame

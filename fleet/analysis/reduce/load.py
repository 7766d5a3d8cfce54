"""Reads the tables into frames, no more of them than is asked for. Ticks become nanoseconds here only.

Every frame has every column of its table (or those asked for), also where the files are of different ages,
and also when there are no rows. What runs are reduced to stands in `fleet.analysis.pairs`.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.views.text import records
from fleet.errors import StoreError
from fleet.store import Store
from fleet.store.files import storing
from fleet.store.places import Place, place_of
from fleet.store.publish import SAMPLES_FILE, samples_name
from fleet.store.reading import read_files
from fleet.store.runs import RunSummary

CLOCK = "clock"  # the benchmark whose sample is clock readings of one CPU, not round trips of two

Chosen = str | Collection[str] | None  # one value, several, or all


def load_samples(
    root: str | Path,
    *,
    run_id: Chosen = None,
    host_id: Chosen = None,
    benchmark: Chosen = None,
    relation: Chosen = None,
    labels: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Read raw samples as stored: one row per burst, `ticks` an array; columns as in docs/tables.md.

    Each filter is one value or several, and None takes all; labels: those a run must have. Files, and
    stretches within them, that hold nothing of what is wanted are not read. No rows where nothing matches.
    """
    place, hosts = place_of(root), several(host_id)
    runs = published(root, run_id=run_id, host_id=host_id, labels=labels)
    names = {samples_name(run.host_id, run.run_id) for run in runs}
    if run_id is None and not labels:
        patterns = [f"host_id={host}/run_id=*/{SAMPLES_FILE}" for host in hosts or ("*",)]
        found = {name for pattern in patterns for name in _files(place, pattern)}
        with storing("read the samples", place):  # a folder that may not be read looks empty, and is not
            names = found | {name for name in names - found if place.exists(name)}
    wanted = {"benchmark": several(benchmark), "relation": several(relation)}
    where = {column: values for column, values in wanted.items() if values is not None}
    frame: pd.DataFrame = read_files(
        place, sorted(names), "samples", columns=columns, where=where
    ).to_pandas()
    return frame


def load_runs(
    root: str | Path,
    *,
    run_id: Chosen = None,
    host_id: Chosen = None,
    labels: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Read the `runs` table: one row per published run."""
    return _side_table(root, "runs", _run_ids(root, run_id, labels), several(host_id))


def load_run(root: str | Path, run_id: str) -> dict[str, Any]:
    """One run's row of `runs`; what is null is None, JSON columns are decoded under their short names.

    Raises StoreError if the run is not published.
    """
    rows = records(load_runs(root, run_id=run_id))
    if not rows:
        raise StoreError(f"{root}: run {run_id} is not published.")
    return {
        key.removesuffix("_json"): json.loads(value) if key.endswith("_json") else value
        for key, value in rows[0].items()
    }


def load_cpus(root: str | Path, *, run_id: Chosen = None, host_id: Chosen = None) -> pd.DataFrame:
    """Read the `cpus` table: one row per run and CPU."""
    return _side_table(root, "cpus", _run_ids(root, run_id, None), several(host_id))


def published(
    root: str | Path,
    *,
    run_id: Chosen = None,
    host_id: Chosen = None,
    labels: Mapping[str, str] | None = None,
) -> list[RunSummary]:
    """The published runs that match, oldest first. Opens no file that an earlier listing has seen."""
    ids, hosts = several(run_id), several(host_id)
    return [
        run
        for run in Store(root).published()
        if (ids is None or run.run_id in ids)
        and (hosts is None or run.host_id in hosts)
        and not (labels or {}).items() - dict(run.labels).items()
    ]


def several(chosen: Chosen) -> frozenset[str] | None:
    """A filter as a set; None for all."""
    return None if chosen is None else frozenset([chosen] if isinstance(chosen, str) else chosen)


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


def _run_ids(root: str | Path, run_id: Chosen, labels: Mapping[str, str] | None) -> Collection[str]:
    """The run ids to look for in the names of files; `*` for all."""
    if labels:
        return [run.run_id for run in published(root, run_id=run_id, labels=labels)]
    ids = several(run_id)
    return ["*"] if ids is None else sorted(ids)


def _side_table(
    root: str | Path, table: str, run_ids: Collection[str], hosts: Collection[str] | None
) -> pd.DataFrame:
    place = place_of(root)
    names = [name for run in run_ids for name in _files(place, f"_{table}/{run}.parquet")]
    where = {} if hosts is None else {"host_id": hosts}
    frame: pd.DataFrame = read_files(place, names, table, where=where).to_pandas()
    return frame


def _files(place: Place, pattern: str) -> list[str]:
    with storing("look for files", place):
        return place.files(pattern)

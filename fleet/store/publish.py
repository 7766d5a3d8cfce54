"""Turns one finished run into tables, so that a reader of the root sees all of it or nothing.

Everything is written under `_staging`, brought to the disk, read back, then put into place in this
order: samples, cpus, runs. The row in `runs` is the commit record. A publication that was cut short is
completed by publishing again; what is in place already is compared, never overwritten.
"""

import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fleet.errors import StoreError
from fleet.model import Burst, Run
from fleet.store import columns, schema
from fleet.store.files import storing, sync, write
from fleet.store.ids import checked_key
from fleet.store.places import Folder, Place
from fleet.store.rows import Contents, cpus_rows
from fleet.store.samples import read_contents, read_digest, write_samples

_at_once = threading.BoundedSemaphore(4)  # each holds a run's samples in memory; more are no quicker
SAMPLES_FILE = "samples.parquet"
_LONG = ("probe", "hello_json", "failed_json")  # columns worth packing even for one row
LEFTOVER_AFTER_S = 24 * 3600  # no publication takes so long, and no two machines' clocks differ so much


def publish(place: Place, run: Run, bursts: Iterable[Burst]) -> str:
    """Publish `run` in `place`; return the name of its samples file there.

    Doing it again with the same bursts changes nothing; with others it raises StoreError.
    """
    name = samples_name(run.host.host_id, run.run_id)
    staging = place.state_dir / "_staging" / f"{run.run_id}-{secrets.token_hex(4)}"
    with _at_once, storing("publish the run", place, kept=True):
        staging.mkdir(parents=True)
        try:
            contents, row = _stage(staging / SAMPLES_FILE, run, bursts)
            placed = place.put(staging / SAMPLES_FILE, name)
            if not (placed and isinstance(place, Folder)):  # a bucket cannot tell who was first
                _compare(place, name, contents)
            _put_table(place, staging, run, "cpus", cpus_rows(run))
            _put_table(place, staging, run, "runs", [row])
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return name


def samples_name(host_id: str, run_id: str) -> str:
    """Where the samples of a run stand once published, below the root."""
    return f"host_id={checked_key(host_id, 'host')}/run_id={checked_key(run_id, 'run')}/{SAMPLES_FILE}"


def committed(place: Place, run_id: str) -> bool:
    """Whether the run's last file, its row in `runs`, is in place. Raises OSError."""
    return place.exists(f"_runs/{run_id}.parquet")


def clear_leftovers(state_dir: Path, run_id: str) -> None:
    """Remove from `_staging` what killed controllers left: of this run, half-removed journals, what is old.

    Another run's young files may belong to a controller at work, here or on another machine.
    """
    staging = state_dir / "_staging"
    old = time.time() - LEFTOVER_AFTER_S
    for leftover in staging.iterdir():
        mine = leftover.name.startswith(f"{run_id}-") or "-removed-" in leftover.name
        with contextlib.suppress(OSError):  # another controller was first, or they are not ours to remove
            if mine or leftover.lstat().st_mtime < old:
                _remove(leftover)


def _remove(leftover: Path) -> None:
    if leftover.is_dir() and not leftover.is_symlink():
        shutil.rmtree(leftover, ignore_errors=True)
    else:
        leftover.unlink()


def _stage(path: Path, run: Run, bursts: Iterable[Burst]) -> tuple[Contents, dict[str, Any]]:
    written, row = write_samples(path, run, bursts)
    sync(path)
    if (found := read_contents(path)) != written:
        raise StoreError(
            f"{path}: wrote {written}, read back {found}. What had arrived is kept in the journal."
        )
    return written, row


def _compare(place: Place, name: str, contents: Contents) -> None:
    """Refuse to go on unless `name` holds what was meant, whoever put it there."""
    if read_digest(place.filesystem, place.path(name)) != contents.sha256:
        raise StoreError(
            f"{place}: {name} is published already, with other samples; nothing was changed. "
            f"The journal is kept: look at both before removing one."
        )


def _put_table(place: Place, staging: Path, run: Run, table: str, rows: list[dict[str, Any]]) -> None:
    """Write a run's file of a side table, unless it is there."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    many = len(rows) > 1  # what helps to find rows among others only costs where there is one
    shape = schema.arrow_schema(table)
    packed = "zstd" if many else {name: "zstd" for name in _LONG if name in shape.names}
    whole = pa.BufferOutputStream()  # small enough
    pq.write_table(
        columns.table(shape, rows),
        whole,
        compression=packed,
        use_dictionary=many,
        write_statistics=many,
    )
    draft = staging / f"{table}.parquet"
    write(draft, whole.getvalue())
    place.put(draft, f"_{table}/{run.run_id}.parquet")

"""Turns one finished run into tables, so that a reader of the root sees all of it or nothing.

Everything is written under `_staging`, brought to the disk, read back, then renamed into place in this
order: samples, cpus, runs. The row in `runs` is the commit record. A publication that was cut short is
completed by publishing again; what is in place already is compared, never overwritten.
"""

import contextlib
import secrets
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fleet.errors import StoreError
from fleet.model import Burst, Run
from fleet.store import schema
from fleet.store.files import storing, sync
from fleet.store.ids import checked_key
from fleet.store.rows import Contents, cpus_rows, runs_row
from fleet.store.samples import read_contents, write_samples

SAMPLES_FILE = "samples.parquet"
LEFTOVER_AFTER_S = 24 * 3600  # no publication takes so long, and no two machines' clocks differ so much


def publish(root: Path, run: Run, bursts: Iterable[Burst]) -> Path:
    """Publish `run` under `root`; return the directory of its samples.

    Doing it again with the same bursts changes nothing; with others it raises StoreError.
    """
    run_dir = samples_dir(root, run)
    staging = root / "_staging" / f"{run.run_id}-{secrets.token_hex(4)}"
    with storing("publish the run", root, kept=True):
        staging.mkdir(parents=True)
        try:
            contents = _stage(staging / SAMPLES_FILE, run, bursts)
            _put_samples(staging, run_dir, contents)
            _put_table(root, run, "cpus", cpus_rows(run))
            _put_table(root, run, "runs", [runs_row(run, contents)])
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return run_dir


def samples_dir(root: Path, run: Run) -> Path:
    """Where the samples of `run` stand once published."""
    host_id = checked_key(run.host.host_id, "host")
    return root / f"host_id={host_id}" / f"run_id={checked_key(run.run_id, 'run')}"


def committed(root: Path, run_id: str) -> bool:
    """Whether the run's last file, its row in `runs`, is in place."""
    return (root / "_runs" / f"{run_id}.parquet").exists()


def clear_leftovers(root: Path, run_id: str) -> None:
    """Remove from `_staging` what killed controllers left: of this run, half-removed journals, what is old.

    Another run's young files may belong to a controller at work, here or on another machine.
    """
    staging = root / "_staging"
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


def _stage(path: Path, run: Run, bursts: Iterable[Burst]) -> Contents:
    written = write_samples(path, run, bursts)
    sync(path)
    sync(path.parent)
    if (found := read_contents(path)) != written:
        raise StoreError(
            f"{path}: wrote {written}, read back {found}. What had arrived is kept in the journal."
        )
    return written


def _put_samples(staging: Path, run_dir: Path, contents: Contents) -> None:
    if not run_dir.exists():
        run_dir.parent.mkdir(exist_ok=True)
        staging.rename(run_dir)
        sync(run_dir.parent)
        sync(run_dir.parent.parent)
    elif read_contents(run_dir / SAMPLES_FILE) != contents:
        raise StoreError(
            f"{run_dir}: a run with this id and other samples is published already; nothing was changed. "
            f"The journal is kept: look at both before removing one."
        )


def _put_table(root: Path, run: Run, table: str, rows: list[dict[str, Any]]) -> None:
    """Write a run's file of a side table, unless it is there."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    path = root / f"_{table}" / f"{run.run_id}.parquet"
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    shape = schema.arrow_schema(table)
    draft = root / "_staging" / f"{run.run_id}-{table}-{secrets.token_hex(4)}"
    pq.write_table(pa.Table.from_pylist(rows, schema=shape), draft, compression="zstd")
    sync(draft)
    draft.rename(path)
    sync(path.parent)

"""The tables `_runs` and `_cpus`: made of the records in the samples files, so they can always be made again.

A session adds the rows of many runs as one file. Rows that are missing, because a controller was killed, are
added by whoever finds that; many small files are put together by whoever finds them. Both need a lock that
only a local root has, so that no run ever has two rows.
"""

import ctypes
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from fleet.errors import StoreError
from fleet.store import columns, schema
from fleet.store.files import open_regular, sync, write
from fleet.store.places import Folder, Place
from fleet.store.reading import TableFile, joined, readable
from fleet.store.rows import RunRecord

TABLES = ("cpus", "runs")  # in the order of writing: whoever sees a run sees its CPUs
MANY_FILES = 100
_WHOLE_BYTES = 1 << 20  # a file so large stays as it is
_BATCH_BYTES = 8 << 20
_ROW_GROUP = 64  # rows, each with what a host answered
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE, AT_FDCWD


def add(place: Place, records: Sequence[RunRecord]) -> None:
    """Add the rows of runs as one file of each table; again under the same runs changes nothing. OSError."""
    with _locked(place, exclusive=False):
        for table in TABLES if records else ():
            _add(place, table, records)


def complete(place: Place, records: Sequence[RunRecord]) -> None:
    """Add the rows that a table lacks, of runs whose session has ended. Raises OSError, StoreError."""
    with _locked(place, exclusive=True) as alone:
        for table in TABLES if alone else ():
            files = place.files(f"_{table}/*.parquet")
            there = readable(files, lambda name: TableFile(place, name, table).read(["run_id"]))  # noqa: B023
            known = {run_id for part in there.values() for run_id in part.column("run_id").to_pylist()}
            if lacking := [record for record in records if record.row["run_id"] not in known]:
                _add(place, table, lacking)


def put_together(place: Place) -> bool:
    """Make few files of many small ones; whether it was done. OSError.

    The folder is exchanged for another in one step, so a reader sees all rows once, before and after. File
    systems that cannot do that, and object stores, keep their small files.
    """
    if not isinstance(place, Folder) or len(_small(place.state_dir / "_runs")) < MANY_FILES:
        return False
    with _locked(place, exclusive=True) as alone:
        return alone and all(_put_together(place.state_dir, table) for table in TABLES)


def _add(place: Place, table: str, records: Sequence[RunRecord]) -> None:
    ids = sorted(record.row["run_id"] for record in records)
    name = ids[-1] if len(ids) == 1 else f"{ids[-1]}-{hashlib.sha256(' '.join(ids).encode()).hexdigest()[:8]}"
    rows = [row for record in records for row in (record.cpus or () if table == "cpus" else [record.row])]
    draft = place.state_dir / "_staging" / f"{name}-{table}-{secrets.token_hex(4)}"
    draft.parent.mkdir(parents=True, exist_ok=True)
    try:
        write(draft, _file_of(columns.table(schema.arrow_schema(table), rows)))
        place.put(draft, f"_{table}/{name}.parquet")
    finally:
        draft.unlink(missing_ok=True)


def _file_of(table: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    many = len(table) > 1  # what helps to find rows among others only costs where there is one
    whole = pa.BufferOutputStream()
    pq.write_table(
        table,
        whole,
        row_group_size=_ROW_GROUP,
        compression="zstd",
        use_dictionary=many,
        write_statistics=["run_id", "host_id", "session_id"] if many else False,
        write_page_checksum=True,
    )
    return whole.getvalue()


def _small(folder: Path) -> list[Path]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        return [
            Path(entry.path)
            for entry in entries
            if entry.name.endswith(".parquet") and entry.stat().st_size < _WHOLE_BYTES
        ]
    return []


def _put_together(root: Path, table: str) -> bool:
    """Exchange a table's folder for one with few files; False where that cannot be done."""
    folder = root / f"_{table}"
    draft = root / "_staging" / f"_{table}-{secrets.token_hex(4)}"
    draft.mkdir(parents=True)
    try:
        small = {path.name for path in _small(folder)}
        for batch in _batches([folder / name for name in sorted(small)]):
            _join(batch, draft, table)
        for path in folder.iterdir():
            if path.name not in small:
                os.link(path, draft / path.name)
        sync(draft)
        if not _exchange(folder, draft):
            return False
        sync(root)
        for path in draft.iterdir():  # added meanwhile by a controller that our lock does not reach
            if path.name not in small and not (folder / path.name).exists():
                os.link(path, folder / path.name)
    except OSError:
        return False
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return True


def _batches(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Files that fit into one of a few megabytes."""
    batch: list[Path] = []
    size = 0
    for path in paths:
        batch.append(path)
        size += path.stat().st_size
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _join(paths: Sequence[Path], folder: Path, table: str) -> None:
    """Write the rows of files as one file; what cannot be read is kept for whoever mends it."""
    parts = []
    for path in paths:
        try:
            parts.append(TableFile(Folder(path.parent), path.name, table).read())
        except StoreError:
            os.link(path, folder / path.name)
    if parts:
        write(folder / f"{table}-{secrets.token_hex(8)}.parquet", _file_of(joined(parts, table)))


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two directories in one step (renameat2, Linux 3.15); False where that is not possible."""
    with suppress(AttributeError, OSError):
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        done: int = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
        return done == 0
    return False


@contextmanager
def _locked(place: Place, *, exclusive: bool) -> Iterator[bool]:
    """Hold the lock on a root's tables; exclusive: do not wait for it, and say whether it is held.

    File systems without locks, and object stores, have a moment in which two could write the same rows.
    """
    path = place.state_dir / "_index" / "tables.lock"
    with ExitStack() as held:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = open_regular(path, os.O_WRONLY | os.O_CREAT, 0o666)
            held.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
            alone = True
        except OSError:  # held by another, or no locks there
            alone = False
        yield alone


def is_old(seconds_since_epoch: float) -> bool:
    """Whether a samples file is old enough that its session, if alive, has added its row."""
    return time.time() - seconds_since_epoch > 900

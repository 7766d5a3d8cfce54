"""The tables `runs` and `cpus`, made of records; a local root's lock keeps each run to one row."""

import fcntl
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from fleet.errors import StoreError
from fleet.store import columns, schema
from fleet.store.files import draft, open_regular, sync
from fleet.store.places import Folder, Place
from fleet.store.reading import TableFile, joined, readable
from fleet.store.rows import RunRecord
from fleet.store.writing import TableWriter

TABLES = ("cpus", "runs")  # in the order of writing: whoever sees a run sees its CPUs
MANY_FILES = 100
_WHOLE_BYTES = 1 << 20  # a file so large stays as it is
_GROUP_BYTES = 32 << 20  # of a row group in memory: some 60,000 CPUs
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
            files = place.files(f"{table}/*.parquet")
            there = readable(files, lambda name: TableFile(place, name, table).read(["run_id"]))  # noqa: B023
            known = {run_id for part in there.values() for run_id in part.column("run_id").to_pylist()}
            if lacking := [record for record in records if record.row["run_id"] not in known]:
                _add(place, table, lacking)


def put_together(place: Place) -> bool:
    """Make few files of many small ones, exchanging the folder in one step; whether it was done. OSError."""
    if not isinstance(place, Folder) or not _to_join(place.root, "runs"):
        return False
    with _locked(place, exclusive=True) as alone:
        return alone and all(_put_together(place, table) for table in TABLES)


def _add(place: Place, table: str, records: Sequence[RunRecord]) -> None:
    ids = sorted(record.row["run_id"] for record in records)
    name = ids[-1] if len(ids) == 1 else f"{ids[-1]}-{hashlib.sha256(' '.join(ids).encode()).hexdigest()[:8]}"
    rows = [row for record in records for row in (record.cpus if table == "cpus" else [record.row])]
    with draft(place.state_dir, f"{name}-{table}") as path:
        _write(path, [columns.table(schema.arrow_schema(table), rows)])
        place.put(path, f"{table}/{name}.parquet")


def _write(path: Path, groups: Iterable[Any]) -> None:
    """A file of row groups, if any; without dictionaries, which of all run ids in each are far larger."""
    groups = iter(groups)
    if (first := next(groups, None)) is None:
        return
    many = len(first) > 1  # what helps to find rows among others only costs where there is one
    known = ["run_id", "host_id", "session_id"] if many else False
    with TableWriter(path, first.schema, use_dictionary=False, write_statistics=known) as file:
        for group in itertools.chain([first], groups):
            file.write(group, max(len(group), 1))


def _to_join(root: Path, table: str) -> set[str]:
    """The files of a table to make one of: many as sessions wrote them, and many made of these already."""
    small = set[str]()
    with suppress(FileNotFoundError), os.scandir(root / table) as entries:
        small = {
            entry.name
            for entry in entries
            if entry.name.endswith(".parquet") and entry.stat().st_size < _WHOLE_BYTES
        }
    joined_before = {name for name in small if name.startswith(f"{table}-")}
    if len(joined_before) < MANY_FILES:
        small -= joined_before
    return small if len(small) >= MANY_FILES else set()


def _put_together(place: Folder, table: str) -> bool:
    """Exchange a table's folder for one with few files; False where that cannot be done."""
    if not (small := _to_join(place.root, table)):
        return True
    folder = place.root / table
    with suppress(OSError), draft(place.state_dir, table) as new:
        new.mkdir()
        _join([folder / name for name in sorted(small)], new, table)
        for path in folder.iterdir():
            if path.name not in small:
                os.link(path, new / path.name)
        sync(new)
        if not _exchange(folder, new):
            return False
        sync(place.root)
        for path in new.iterdir():  # added meanwhile by a controller that our lock does not reach
            if path.name not in small and not (folder / path.name).exists():
                os.link(path, folder / path.name)
        return True
    return False


def _join(paths: Sequence[Path], folder: Path, table: str) -> None:
    """Write the rows of files as one file; what cannot be read is kept for whoever mends it."""
    _write(folder / f"{table}-{os.urandom(8).hex()}.parquet", _groups(paths, folder, table))


def _groups(paths: Sequence[Path], folder: Path, table: str) -> Iterator[Any]:
    parts, size = [], 0
    for path in paths:
        try:
            parts.append(TableFile(Folder(path.parent), path.name, table).read())
        except StoreError:
            os.link(path, folder / path.name)
            continue
        size += parts[-1].nbytes
        if size > _GROUP_BYTES:
            yield joined(parts, table)
            parts, size = [], 0
    if parts:
        yield joined(parts, table)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two directories in one step (renameat2, Linux 3.15); False where that is not possible."""
    import ctypes  # noqa: PLC0415  which readers need not import

    with suppress(AttributeError, OSError):
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        done: int = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
        return done == 0
    return False


@contextmanager
def _locked(place: Place, *, exclusive: bool) -> Iterator[bool]:
    """Hold the lock on a root's tables; exclusive: do not wait for it; yields whether it is held alone."""
    path = place.state_dir / "tables.lock"
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

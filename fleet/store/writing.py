"""Write Parquet files with checksums: the rows of runs in `runs` and `cpus`, and
imported summaries.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from fleet.errors import DataError, UsageError
from fleet.late import pa, pq
from fleet.store.checksums import seal_file
from fleet.store.files import draft_path, enter_folder, open_regular, store_errors, sync
from fleet.store.gate import RunRecord
from fleet.store.places import Place, parse_place, require_key
from fleet.store.reading import TableFile, read_undamaged
from fleet.store.schema import arrow_schema
from fleet.store.values import check_values

SUMMARIES = (  # one number a pair, written once, never mixed with runs
    "summaries/*.parquet"
)
# in the order of writing: whoever sees a run sees its CPUs
TABLES_OF_RUNS = ("cpus", "runs")
_OPTIONS = {
    "compression": "zstd",
    "write_page_checksum": True,
    "store_schema": False,  # no Arrow schema: all readers see the same
}


@contextmanager
def open_writer(
    path: Path, shape: Any, *, lasting: bool = True, **options: Any
) -> Iterator[Any]:
    """Yield pyarrow's writer of a new file; after the block, add checksums. shape: the
    schema. lasting: sync the file to the disk. options: of pq.ParquetWriter. Raises
    OSError.
    """
    with pq.ParquetWriter(path, shape, **(_OPTIONS | options)) as writer:
        writer.add_key_value_metadata(shape.metadata)
        yield writer
    seal_file(path)
    if lasting:
        sync(path)


def write_table(
    path: Path, table: Any, row_group: int | None = None, **options: Any
) -> None:
    """Write a table to a new file. Raises OSError."""
    with open_writer(path, table.schema, **options) as writer:
        writer.write_table(table, row_group)


def add_runs(place: Place, records: Sequence[RunRecord]) -> None:
    """Add the rows of runs that the tables lack, as one file per table. Raises OSError,
    StoreError.
    """
    if not records:
        return
    record_by_run = {record.row["run_id"]: record for record in records}
    # Sessions share the lock, since each writes files of its own; they write even if
    # there are no locks. Whoever completes or prunes the tables wants them alone.
    with lock_tables(place, exclusive=False):
        for table in TABLES_OF_RUNS:
            names = list_table_files(place, table)
            missing = _find_missing(place, names, record_by_run)
            missing_records = [record_by_run[run_id] for run_id in missing]
            _write_rows(place, table, missing_records)


def add_missing_runs(
    place: Place,
    files: Mapping[str, Sequence[str]],
    run_ids: Collection[str],
    read: Callable[[Collection[str]], Sequence[RunRecord]],
) -> bool:
    """Add the rows of runs that tables lack, unless another process writes. Return True
    if the tables had the rows of all runs already. After False, ask again later: rows
    may have been left to the other process.

    files: by table, the names of its files. read: gets run IDs, and returns the records
    of these runs. Raises OSError, StoreError, and what `read` raises.
    """
    incomplete_tables = []
    for table, names in files.items():
        if _find_missing(place, names, run_ids):
            incomplete_tables.append(table)
    if not incomplete_tables:
        return True
    with lock_tables(place, exclusive=True) as is_locked:
        if not is_locked:
            return False
        for table in incomplete_tables:
            # others may have added some before the lock was obtained
            present_names = list_table_files(place, table)
            missing = _find_missing(place, present_names, run_ids)
            _write_rows(place, table, read(missing))
    return False


def list_tables(place: Place) -> dict[str, list[str]]:
    """Return the names of the files of the tables `cpus` and `runs`, in the order of
    writing. Raises OSError.
    """
    return {table: list_table_files(place, table) for table in TABLES_OF_RUNS}


def list_table_files(place: Place, table: str) -> list[str]:
    """Return the names of a table's files. Raises OSError."""
    return place.files(f"{table}/*.parquet")


def _find_missing(
    place: Place, names: Sequence[str], run_ids: Collection[str]
) -> list[str]:
    """Return the runs, sorted, that have no rows in any file of a table. names: of the
    table's files, each named after the last of its runs (see `file_name`). Raises
    OSError.
    """
    names_by_stem = {Path(name).stem: name for name in names}
    # the run that a file is named after is in it, and its others have to be read
    missing = set(run_ids) - names_by_stem.keys()
    if not missing:
        return []
    # IDs sort by time: a file whose last run is an earlier one has none of these
    first_missing = min(missing)
    names_to_read = []
    for stem, name in names_by_stem.items():
        if stem >= first_missing:
            names_to_read.append(name)

    def read_run_ids(name: str) -> set[str]:
        table, _, _ = name.partition("/")
        rows = TableFile(place, name, table).read(["run_id"])
        return set(rows.column("run_id").to_pylist())

    ids_by_name = read_undamaged(names_to_read, read_run_ids)
    ids_in_files = set().union(*ids_by_name.values())
    return sorted(missing - ids_in_files)


def file_name(run_ids: Collection[str]) -> str:
    """Return the name, without suffix, of a table's file with the rows of these runs:
    the last ID, and a digest of all if they are several.
    """
    ids = sorted(run_ids)
    if len(ids) == 1:
        return ids[0]
    digest = hashlib.sha256(" ".join(ids).encode()).hexdigest()
    return f"{ids[-1]}-{digest[:8]}"


def _write_rows(place: Place, table: str, records: Sequence[RunRecord]) -> None:
    """Write the rows of runs to a new file of a table, if there are any runs."""
    if not records:
        return
    run_ids = [record.row["run_id"] for record in records]
    name = file_name(run_ids)
    rows = _tabulate(table, records)
    # the least and greatest values of columns let readers skip rows; one row is not
    # worth skipping
    bounds: list[str] | bool = False
    if len(rows) > 1:
        bounds = ["run_id", "host_id", "session_id"]
    # All rows are one row group. Its size must be 1 or more, even if there is no row:
    # runs of hosts without known CPUs add none to `cpus`.
    group_rows = max(len(rows), 1)
    with draft_path(place.state_dir, f"{name}-{table}") as path:
        write_table(
            path,
            rows,
            group_rows,
            # texts that differ in most rows take less room without dictionaries
            use_dictionary=False,
            write_statistics=bounds,
        )
        place.put(path, f"{table}/{name}.parquet")


def _tabulate(table: str, records: Sequence[RunRecord]) -> Any:
    """Return the rows that runs have in a table."""
    rows = [record.row for record in records]
    if table == "cpus":
        rows = list(chain.from_iterable(record.cpus for record in records))
    return pa.Table.from_pylist(rows, arrow_schema(table))


@contextmanager
def lock_tables(place: Place, *, exclusive: bool) -> Iterator[bool]:
    """Lock a root's tables in the block, for one process alone if `exclusive`, else
    together with others. Wait for the lock, unless it is exclusive. Yield whether it
    was obtained.
    """
    kind = fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH
    state_dir = place.state_dir
    with ExitStack() as held:
        try:
            state = held.enter_context(enter_folder(state_dir.parent, state_dir.name))
            lock = open_regular(state / "tables.lock", os.O_WRONLY | os.O_CREAT, 0o666)
            held.callback(os.close, lock)
            fcntl.flock(lock, kind)
            is_locked = True
        except OSError:  # held by another, or no locks there
            is_locked = False
        yield is_locked


def write_summary(root: str | Path, name: str, rows: Sequence[dict[str, Any]]) -> bool:
    """Store rows (docs/tables.md) as a summary; return False if it exists. Raises
    UsageError, StoreError.
    """
    place = parse_place(root)
    file = f"summaries/{require_key(name, 'summary')}.parquet"
    with store_errors("store the summary", place):
        place.check_reachable()
        try:
            table = pa.Table.from_pylist(list(rows), arrow_schema("summaries"))
            check_values("summaries", table)
        except (DataError, pa.ArrowInvalid, OverflowError) as err:
            raise UsageError(f"{name}: cannot be stored as a summary: {err}.") from err
        with draft_path(place.state_dir, f"{name}-summary") as path:
            write_table(path, table)
            is_new = place.put(path, file)
        if not is_new:
            stored = TableFile(place, file, "summaries").read()
            if _drop_time(stored) != _drop_time(table):
                raise UsageError(
                    f"{place}: another summary {name!r} is stored already; change"
                    " --name."
                )
    return is_new


def _drop_time(summary: Any) -> list[dict[str, Any]]:
    """Return the rows of a summary without the time of their import."""
    rows: list[dict[str, Any]] = summary.drop_columns(["imported_utc"]).to_pylist()
    return rows

"""Cache data of a root's runs, read or derived, in an SQLite file, which may be lost at
any time.

Only its owner writes it. Each value has a mark, a text that identifies the samples of
its run, and counts as absent if the run's samples have another mark now. Derived rows
are stored in parts: one for each time that rows of some runs were derived. A file with
a value that cannot be decoded is made anew.
"""

import json
import os
import re
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fleet.errors import DataError
from fleet.late import np, pa, pc
from fleet.model import BENCHMARKS
from fleet.store import gate, schema
from fleet.store.files import require_regular
from fleet.store.places import Key, Place
from fleet.store.reading import Where, concat_tables, select_rows

_CREATE = (
    # in_tables: whether the tables `runs` and `cpus` have it. listed: JSON, the columns
    # of a listing. record: its JSON, deflated with _EMPTY_ROWS as the dictionary.
    """create table runs (host_id text, run_id text, stamp text, in_tables integer,
       listed blob, record blob, primary key (host_id, run_id))""",
    # Rows derived from several runs; made_of: JSON, a list of [host_id, run_id, mark].
    # batches: an Arrow stream without its schema, compressed.
    """create table parts (id integer primary key, kind text, made_of text,
       batches blob)""",
    # the files of the tables `runs` and `cpus`, as last seen
    "create table table_files (name blob primary key) without rowid",
)
_TABLES = ("runs", "parts", "table_files")
_EMPTY_ROWS = ",".join(
    f'"{column.name}":null'
    for table in ("cpus", "runs")
    for column in schema.TABLES[table]
).encode()
# Rows of `runs` and parts of one run take one to two kilobytes, several to a page.
_PAGE_BYTES = 8192
_ZSTD_LEVEL = 3
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of Arrow
_WAIT_S = 2.0  # for another process that writes
_BROKEN = {
    sqlite3.SQLITE_ERROR,  # as for a missing table
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
}

_Result = TypeVar("_Result")


class _DamagedValueError(sqlite3.DatabaseError):
    """A value in the index cannot be decoded."""


class Derived(NamedTuple):
    """A kind of derived rows: its name, its table in the schema, and the stored columns
    (None for all).
    """

    name: str
    table: str
    columns: tuple[str, ...] | None = None


class Index:
    """The index of a root. columns: the columns of the table `runs` that a listing
    needs.
    """

    def __init__(self, place: Place, columns: Sequence[str]) -> None:
        self.path = _make_index_path(place.address)
        self._columns = tuple(columns)
        self._version = _compute_version(self._columns)

    def read_listed(self, stamps: Mapping[Key, str]) -> dict[Key, dict[str, Any]]:
        """Return the columns that a listing needs, by run; leave out runs not stored
        with the given stamp.
        """
        return self._read_runs(
            "listed", stamps, lambda text: gate.decode_listed_row(text, self._columns)
        )

    def read_records(self, stamps: Mapping[Key, str]) -> dict[Key, bytes]:
        """Return the records as JSON, by run; leave out runs not stored with the given
        stamp.
        """
        return self._read_runs("record", stamps, _unpack_record)

    def store_runs(
        self,
        stamps: Mapping[Key, str],
        contents: Mapping[Key, tuple[Mapping[str, Any], bytes]],
        present: Collection[Key] | None = None,
    ) -> None:
        """Store runs. contents: by run, the columns that a listing needs, and the
        record as JSON. stamps: by run, the stamp of the samples file from which the
        content was read. present: the runs that exist; all others are dropped. None:
        drop none.
        """
        rows = []
        for key, (listed, record) in contents.items():
            host_id, run_id = key
            packed_columns = self._pack_columns(listed)
            packed_record = _pack_record(record)
            rows.append((host_id, run_id, stamps[key], packed_columns, packed_record))

        insert = (
            "insert or replace into runs"
            " (host_id, run_id, stamp, in_tables, listed, record)"
            " values (?, ?, ?, 0, ?, ?)"
        )
        delete = "delete from runs where host_id = ? and run_id = ?"

        def write(db: sqlite3.Connection) -> None:
            db.executemany(insert, rows)
            if present is not None:
                indexed = set(db.execute("select host_id, run_id from runs"))
                absent = indexed.difference(present)
                db.executemany(delete, absent)

        self._transact(write)

    def _pack_columns(self, listed: Mapping[str, Any]) -> bytes:
        """Return the values of the listed columns as JSON."""
        values = [listed[column] for column in self._columns]
        text = json.dumps(values, separators=(",", ":"), default=datetime.isoformat)
        return text.encode()

    def note_table_files(self, names: Collection[str]) -> None:
        """Note the names of the files that the tables `runs` and `cpus` have now. If a
        file that was noted before is gone, note of every run that its rows may be
        missing.
        """
        # bytes, since the names of files need not be UTF-8
        present = {os.fsencode(name) for name in names}

        def write(db: sqlite3.Connection) -> None:
            noted = {name for (name,) in db.execute("select name from table_files")}
            if noted == present:
                return
            is_one_gone = bool(noted - present)
            if is_one_gone:  # any run may have had its rows in that file
                db.execute("update runs set in_tables = 0")
            db.execute("delete from table_files")
            rows = [[name] for name in present]
            db.executemany("insert into table_files values (?)", rows)

        self._transact(write)

    def list_not_in_tables(self) -> list[Key]:
        """Return the runs whose rows may be missing from the tables `runs` and
        `cpus`.
        """
        query = "select host_id, run_id from runs where not in_tables"
        return self._transact(lambda db: db.execute(query).fetchall()) or []

    def mark_in_tables(self, keys: Iterable[Key]) -> None:
        """Record that the tables `runs` and `cpus` have the rows of these runs."""
        statement = "update runs set in_tables = 1 where host_id = ? and run_id = ?"
        self._transact(lambda db: db.executemany(statement, keys))

    def store_rows(self, kind: Derived, marks: Mapping[Key, str], rows: Any) -> None:
        """Store the rows that were derived from some runs, a pyarrow table with
        `run_id`, as a new part. marks: the mark of each of these runs, also of a run
        that has no row.
        """
        made_of = _write_marks(marks)
        rows_schema = schema.arrow_schema(kind.table, kind.columns)
        packed_rows = _pack_rows(rows, rows_schema)
        insert = "insert into parts (kind, made_of, batches) values (?, ?, ?)"

        def write(db: sqlite3.Connection) -> None:
            db.execute(insert, (kind.name, made_of, packed_rows))

        self._transact(write)

    def delete_replaced_rows(self, kind: Derived) -> None:
        """Delete the parts all of whose runs are in newer parts as well."""
        self._transact(lambda db: _delete_replaced_parts(db, kind))

    def read_rows(
        self,
        kind: Derived,
        marks: Mapping[Key, str],
        columns: Sequence[str] | None,
        where: Where,
    ) -> tuple[set[Key], list[Any]]:
        """Return the runs whose rows are stored with these marks, and their selected
        rows: a pyarrow table from each part that has rows of them. marks: the mark of
        each run asked for. columns: None for all. where: only rows with these values.
        """
        part_by_key = self.find_newest_part_ids(kind, marks)
        keys_by_part = defaultdict[int, set[Key]](set)
        for key, part_id in part_by_key.items():
            keys_by_part[part_id].add(key)

        def read(db: sqlite3.Connection) -> tuple[set[Key], list[Any]]:
            keys_present = set[Key]()
            tables = []
            for part_id, keys in keys_by_part.items():
                rows = _read_part(db, kind, part_id)
                if rows is None:
                    continue  # another process has deleted it meanwhile
                # the part may have rows of other runs, too
                run_ids = {run_id for _, run_id in keys}
                where_of_part = {**where, "run_id": run_ids}
                selected = select_rows(rows, kind.table, columns, where_of_part)
                tables.append(selected)
                keys_present |= keys
            return keys_present, tables

        nothing_stored = (set[Key](), list[Any]())
        return self._transact(read) or nothing_stored

    def find_newest_part_ids(
        self, kind: Derived, marks: Mapping[Key, str]
    ) -> dict[Key, int]:
        """Return, by run, the ID of the newest part that was derived from the run's
        present samples. marks: by run, the text that identifies these samples. A part
        that was stored with another mark was derived from other samples of the run.
        """
        marks_by_part = self._transact(lambda db: _read_marks(db, kind))
        if marks_by_part is None:  # the index cannot be used
            return {}
        newest_parts = dict[Key, int]()
        # the oldest part is first, so the newest is the last that is set
        for part_id, marks_of_part in marks_by_part.items():
            for key, mark in marks_of_part:
                if marks.get(key) == mark:
                    newest_parts[key] = part_id
        return newest_parts

    def _read_runs(
        self,
        column: str,
        stamps: Mapping[Key, str],
        decode: Callable[[bytes], _Result],
    ) -> dict[Key, _Result]:
        """Return the decoded values of a column of `runs`, by run, in the order of
        `stamps`; leave out runs not stored with the given stamp.
        """
        if not stamps:
            return {}
        # a query per run would take eight times as long as one that returns all
        query = f"select host_id, run_id, stamp, {column} from runs"  # noqa: S608  ours

        def read(db: sqlite3.Connection) -> dict[Key, _Result]:
            values = {}
            for host_id, run_id, stamp, value in db.execute(query):
                key = (host_id, run_id)
                if stamps.get(key) == stamp:
                    with _decoding():
                        values[key] = decode(_require_bytes(value))
            return values

        values = self._transact(read) or {}
        return {key: values[key] for key in stamps if key in values}

    def _transact(
        self, work: Callable[[sqlite3.Connection], _Result]
    ) -> _Result | None:
        """Do the work in one transaction. If the file is broken, remove it and do the
        work once more, in a new one. Return None if the index is unusable.
        """
        for _attempt in range(2):
            try:
                return self._work_in_file(work)
            except sqlite3.Error as err:
                if not _is_file_broken(err):
                    return None
                with suppress(OSError):
                    self.path.unlink()
            except OSError:
                return None
        return None

    def _work_in_file(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Do the work in one transaction. Raises OSError, sqlite3.Error."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.exists():
            require_regular(self.path)
        with (
            closing(sqlite3.connect(self.path, timeout=_WAIT_S)) as db,
            db,  # commits at the end, or rolls back after an error
        ):
            self._prepare(db)
            return work(db)

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Prepare a connection; recreate the tables if the file is new or of another
        version.
        """
        db.execute(f"pragma page_size = {_PAGE_BYTES}")
        # a file torn by a crash of the machine is made anew
        db.execute("pragma synchronous = off")
        (version,) = db.execute("pragma user_version").fetchone()
        if version != self._version:
            db.execute("begin immediate")
            for table in _TABLES:
                db.execute(f"drop table if exists {table}")
            for statement in _CREATE:
                db.execute(statement)
            db.execute(f"pragma user_version = {self._version}")
            db.commit()


def _is_file_broken(err: sqlite3.Error) -> bool:
    """Report whether an error is due to what the file holds, and not to its lock or the
    disk.
    """
    if isinstance(err, _DamagedValueError):
        return True
    extended_code = getattr(err, "sqlite_errorcode", 0)
    primary_code = extended_code & 0xFF
    return primary_code in _BROKEN


def _make_index_path(address: str) -> Path:
    """Return the path of the index of the root at an address. The folder is named after
    the address, such as "home-ann-results-0a1b2c3d4e5f" for /home/ann/results. The
    digest at the end tells apart addresses that make the same words.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    words = re.sub(r"[^A-Za-z0-9.]+", "-", address)
    last_words = words[-60:].strip("-.")
    digest = sha256(address.encode()).hexdigest()
    folder_name = f"{last_words}-{digest[:12]}"
    roots = Path(cache) / "fleet" / "roots"
    return roots / folder_name / "index.sqlite"


def _compute_version(columns: tuple[str, ...]) -> int:
    """Return a number for the content of an index: with another one it is made anew."""
    content = repr((_CREATE, columns, [*BENCHMARKS], schema.TABLES))
    return zlib.crc32(content.encode()) >> 1  # SQLite keeps 31 bits


def load_derived(
    index: Index,
    kind: Derived,
    marks: Mapping[Key, str],
    derive: Callable[[list[Key]], Iterable[tuple[Sequence[Key], Any]]],
    columns: Sequence[str] | None = None,
    where: Where | None = None,
) -> Any:
    """Return the rows of the runs in `marks`, in that order, as a pyarrow table. Derive
    and store the rows that are missing from the index.

    marks: by run, the text that identifies its samples. derive: gets the runs whose
    rows are missing; yields some of these runs at a time, with a table of their rows.
    columns: None for all. where: only the rows with these values.
    """
    where = where or {}
    # the rows are sorted by run ID, even if that column is not asked for
    columns_to_read = columns
    if columns is not None and "run_id" not in columns:
        columns_to_read = [*columns, "run_id"]
    keys_present, tables = index.read_rows(kind, marks, columns_to_read, where)
    missing_keys = [key for key in marks if key not in keys_present]
    for keys, derived_rows in derive(missing_keys):
        marks_of_part = {key: marks[key] for key in keys}
        index.store_rows(kind, marks_of_part, derived_rows)
        selected = select_rows(derived_rows, kind.table, columns_to_read, where)
        tables.append(selected)
    if missing_keys:
        index.delete_replaced_rows(kind)
    unsorted_rows = concat_tables(tables, kind.table, columns_to_read)
    run_ids = [run_id for _, run_id in marks]
    rows = _sort_by_run(unsorted_rows, run_ids)
    if columns_to_read != columns:
        rows = rows.drop_columns(["run_id"])
    return rows


def _sort_by_run(rows: Any, run_ids: list[str]) -> Any:
    """Return rows of a pyarrow table in the order in which `run_ids` lists their
    runs.
    """
    ids_of_rows = rows.column("run_id").cast(pa.string())
    ids_in_order = pa.array(run_ids, pa.string())
    # for each row, the place of its run in `run_ids`
    ranks = pc.index_in(ids_of_rows, ids_in_order).to_numpy()
    order = np.argsort(ranks, kind="stable")
    sorted_rows = rows.take(order)
    # encoded anew, so that the dictionary has the IDs in this order, too: pandas takes
    # it as the order of the categories
    sorted_ids = ids_of_rows.take(order).dictionary_encode()
    position = rows.column_names.index("run_id")
    field = rows.schema.field(position)
    return sorted_rows.set_column(position, field, sorted_ids)


def _read_marks(
    db: sqlite3.Connection, kind: Derived
) -> dict[int, list[tuple[Key, str]]]:
    """Return the runs that each part was derived from, with their marks; by the part's
    ID, oldest first.
    """
    query = "select id, made_of from parts where kind = ? order by id"
    rows = db.execute(query, [kind.name])
    return {part_id: _parse_marks(made_of) for part_id, made_of in rows}


def _delete_replaced_parts(db: sqlite3.Connection, kind: Derived) -> None:
    """Delete each part whose runs are all in newer parts as well."""
    marks_by_part = _read_marks(db, kind)
    newest_parts = dict[Key, int]()  # by run, the newest part that has the run
    # the oldest part is first, so the newest is the last that is set
    for part_id, marks_of_part in marks_by_part.items():
        for key, _ in marks_of_part:
            newest_parts[key] = part_id
    replaced_parts = marks_by_part.keys() - newest_parts.values()
    rows = [[part_id] for part_id in replaced_parts]
    db.executemany("delete from parts where id = ?", rows)


def _read_part(db: sqlite3.Connection, kind: Derived, part_id: int) -> Any:
    """Return the rows of a part as a pyarrow table; None if the part was deleted.
    Raises _DamagedValueError.
    """
    row = db.execute("select batches from parts where id = ?", [part_id]).fetchone()
    if row is None:
        return None
    (packed_rows,) = row
    rows_schema = schema.arrow_schema(kind.table, kind.columns)
    with _decoding():
        return _unpack_rows(_require_bytes(packed_rows), rows_schema)


def _write_marks(marks: Mapping[Key, str]) -> str:
    """Return runs with their marks as JSON: a list of [host ID, run ID, mark]."""
    made_of = [[host_id, run_id, mark] for (host_id, run_id), mark in marks.items()]
    return json.dumps(made_of, separators=(",", ":"))


def _parse_marks(made_of: str) -> list[tuple[Key, str]]:
    """Parse the runs that stored rows were derived from, and their marks; return [] if
    damaged.
    """
    with suppress(ValueError, TypeError):
        rows = json.loads(made_of)
        return [((host_id, run_id), mark) for host_id, run_id, mark in rows]
    return []


def _require_bytes(value: object) -> bytes:
    """Return a stored value. Raises DataError unless it is bytes."""
    if not isinstance(value, bytes):
        raise DataError("not bytes")
    return value


def _pack_record(record: bytes) -> bytes:
    """Return a record, which is JSON, deflated."""
    stream = zlib.compressobj(level=1, zdict=_EMPTY_ROWS)
    return stream.compress(record) + stream.flush()


def _unpack_record(packed: bytes) -> bytes:
    """Return a record as JSON. Raises DataError or zlib.error if it is damaged."""
    stream = zlib.decompressobj(zdict=_EMPTY_ROWS)
    record = stream.decompress(packed)
    if not stream.eof:
        raise DataError("a record that ends early")
    return record


def _pack_rows(rows: Any, rows_schema: Any) -> bytes:
    """Return the columns of `rows_schema`, in its types, as a compressed Arrow stream.
    A stream begins with a message of the schema. That message is cut off, since it
    would take a third of the space of a small run; `_unpack_rows` adds it again.
    """
    selected = rows.select(rows_schema.names)
    typed = selected.cast(rows_schema.remove_metadata())
    combined = typed.unify_dictionaries().combine_chunks()
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, combined.schema) as writer:
        writer.write_table(combined)
    schema_size = combined.schema.serialize().size
    batches = stream.getvalue()[schema_size:]
    codec = pa.Codec("zstd", compression_level=_ZSTD_LEVEL)
    packed: bytes = codec.compress(batches, asbytes=True)
    return packed


def _unpack_rows(packed: bytes, rows_schema: Any) -> Any:
    """Return the rows that `_pack_rows` packed with the same schema. Raises DataError
    or ArrowException if they do not fit it.
    """
    schema_message = rows_schema.remove_metadata().serialize()
    packed_message = pa.compress(schema_message, "zstd", asbytes=True)
    # `_pack_rows` has cut the message of the schema off the beginning of the stream.
    # Put it back: zstd unpacks two compressed texts, one after the other, as one text.
    source = pa.BufferReader(packed_message + packed)
    stream = pa.CompressedInputStream(source, "zstd").read()
    if not stream.endswith(_END_OF_STREAM):
        raise DataError("rows that end early")
    rows = pa.ipc.open_stream(stream).read_all()
    rows.validate(full=True)
    return rows


@contextmanager
def _decoding() -> Iterator[None]:
    """Turn the errors of a value that cannot be decoded into a _DamagedValueError."""
    try:
        yield
    except (DataError, OSError, zlib.error, pa.ArrowException) as err:
        raise _DamagedValueError(str(err)) from err

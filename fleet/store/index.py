"""Cache data of a root's runs, read or derived, in an SQLite file, which may be lost at
any time.

Only its owner writes it. Each value has a mark that identifies its samples, and counts
as absent if the mark differs. A file with a value that cannot be decoded is made anew.
"""

import json
import os
import re
import sqlite3
import zlib
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
# ERROR: a missing table
_BROKEN = {
    sqlite3.SQLITE_ERROR,
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
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        name = re.sub(r"[^A-Za-z0-9.]+", "-", place.address)[-60:].strip("-.")
        folder = f"{name}-{sha256(place.address.encode()).hexdigest()[:12]}"
        self.path = Path(home) / "fleet" / "roots" / folder / "index.sqlite"
        self._columns = tuple(columns)
        described = repr((_CREATE, self._columns, [*BENCHMARKS], schema.TABLES))
        self._version = zlib.crc32(described.encode()) >> 1  # SQLite keeps 31 bits

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
        """Store runs' listed columns and records. present: drop all others."""
        rows = []
        for key, (listed, record) in contents.items():
            values = [listed[column] for column in self._columns]
            text = json.dumps(
                values, separators=(",", ":"), default=datetime.isoformat
            ).encode()
            packed = _pack_record(record)
            rows.append((*key, stamps[key], text, packed))

        def write(db: sqlite3.Connection) -> None:
            db.executemany(
                "insert or replace into runs values (?, ?, ?, 0, ?, ?)", rows
            )
            if present is not None:
                gone = {*db.execute("select host_id, run_id from runs")} - {*present}
                db.executemany(
                    "delete from runs where host_id = ? and run_id = ?", gone
                )

        self._transact(write)

    def note_table_files(self, names: Collection[str]) -> None:
        """Note which files the tables `runs` and `cpus` have. If one of those noted
        before is gone, the rows of any run may be missing.
        """
        present = {os.fsencode(name) for name in names}  # they need not be UTF-8

        def write(db: sqlite3.Connection) -> None:
            noted = {name for (name,) in db.execute("select name from table_files")}
            if noted == present:
                return
            if noted - present:
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
        """Store derived rows, a pyarrow table with `run_id`. marks: by run, what
        identifies its samples.
        """
        made_of = json.dumps(
            [[*key, mark] for key, mark in marks.items()], separators=(",", ":")
        )
        packed = _pack_rows(rows, schema.arrow_schema(kind.table, kind.columns))

        def write(db: sqlite3.Connection) -> None:
            db.execute(
                "insert into parts values (null, ?, ?, ?)",
                (kind.name, made_of, packed),
            )
            query = "select id, made_of from parts where kind = ? order by id"
            parts = {
                part: _parse_marks(text)
                for part, text in db.execute(query, [kind.name])
            }
            newest = {key: part for part, runs in parts.items() for key, _ in runs}
            replaced = parts.keys() - newest.values()
            db.executemany(
                "delete from parts where id = ?", [[part] for part in replaced]
            )

        self._transact(write)

    def read_rows(
        self,
        kind: Derived,
        marks: Mapping[Key, str],
        columns: Sequence[str] | None,
        where: Where,
    ) -> tuple[set[Key], list[Any]]:
        """Return the runs whose rows are stored with these marks, and the selected rows
        as pyarrow tables.
        """
        keys_of_parts = dict[int, set[Key]]()
        for key, part in self.find_newest_part_ids(kind, marks).items():
            keys_of_parts.setdefault(part, set()).add(key)
        query = "select batches from parts where id = ?"
        shape = schema.arrow_schema(kind.table, kind.columns)

        def read(db: sqlite3.Connection) -> tuple[set[Key], list[Any]]:
            keys_present = set[Key]()
            tables = []
            for part, keys in keys_of_parts.items():
                row = db.execute(query, [part]).fetchone()
                if row is None:
                    continue  # it is gone
                with _decoding():
                    rows = _unpack_rows(_require_bytes(row[0]), shape)
                chosen_runs = {**where, "run_id": {run_id for _, run_id in keys}}
                tables.append(select_rows(rows, kind.table, columns, chosen_runs))
                keys_present.update(keys)
            return keys_present, tables

        return self._transact(read) or (set(), [])

    def find_newest_part_ids(
        self, kind: Derived, marks: Mapping[Key, str]
    ) -> dict[Key, int]:
        """Return, by run, the ID of the newest row of `parts` that was stored with the
        run's mark.
        """
        query = "select id, made_of from parts where kind = ? order by id"
        rows = (
            self._transact(lambda db: db.execute(query, [kind.name]).fetchall()) or []
        )
        parts = (
            (key, part, mark)
            for part, made_of in rows
            for key, mark in _parse_marks(made_of)
        )
        return {key: part for key, part, mark in parts if marks.get(key) == mark}

    def _read_runs(
        self,
        column: str,
        stamps: Mapping[Key, str],
        decode: Callable[[bytes], _Result],
    ) -> dict[Key, _Result]:
        query = f"select stamp, {column} from runs where host_id = ? and run_id = ?"  # noqa: S608  ours

        def read(db: sqlite3.Connection) -> dict[Key, _Result]:
            values = {}
            for key, stamp in stamps.items():
                row = db.execute(query, key).fetchone()
                if row and row[0] == stamp:
                    with _decoding():
                        values[key] = decode(_require_bytes(row[1]))
            return values

        return self._transact(read) or {}

    def _transact(
        self, work: Callable[[sqlite3.Connection], _Result]
    ) -> _Result | None:
        """Do the work in one transaction, in a new file if need be. Return None if the
        index is unusable.
        """
        for _ in range(2):  # once more with a new file
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if self.path.exists():
                    require_regular(self.path)
                with closing(sqlite3.connect(self.path, timeout=_WAIT_S)) as db, db:
                    self._prepare(db)
                    return work(db)
            except sqlite3.Error as err:
                is_broken = getattr(err, "sqlite_errorcode", 0) & 0xFF in _BROKEN
                if not is_broken and not isinstance(err, _DamagedValueError):
                    return None
                with suppress(OSError):
                    self.path.unlink()
            except OSError:
                return None
        return None

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Prepare a connection; recreate the tables if the file is new or of another
        version.
        """
        db.execute(f"pragma page_size = {_PAGE_BYTES}")
        # a file torn by a crash of the machine is made anew
        db.execute("pragma synchronous = off")
        if db.execute("pragma user_version").fetchone()[0] != self._version:
            drops = [f"drop table if exists {table}" for table in _TABLES]
            for statement in (
                "begin immediate",
                *drops,
                *_CREATE,
                f"pragma user_version = {self._version}",
            ):
                db.execute(statement)
            db.commit()


def load_derived(
    index: Index,
    kind: Derived,
    marks: Mapping[Key, str],
    derive: Callable[
        [list[Key]], Iterable[tuple[Sequence[Key], Any]]
    ],  # yields runs with a table of rows
    columns: Sequence[str] | None = None,  # None: all
    where: Where | None = None,  # only the rows with these values
) -> Any:
    """Return rows of runs in `marks`, in that order, as a pyarrow table. Derive and
    store missing rows.
    """
    columns_to_read = (
        columns if columns is None or "run_id" in columns else [*columns, "run_id"]
    )
    keys_present, tables = index.read_rows(kind, marks, columns_to_read, where or {})
    for keys, rows in derive([key for key in marks if key not in keys_present]):
        index.store_rows(kind, {key: marks[key] for key in keys}, rows)
        tables.append(select_rows(rows, kind.table, columns_to_read, where or {}))
    rows = concat_tables(tables, kind.table, columns_to_read)
    ids = rows.column("run_id").cast(pa.string())
    places = pc.index_in(ids, pa.array([run_id for _, run_id in marks], pa.string()))
    order = np.argsort(places.to_numpy(), kind="stable")
    rows = rows.take(order)
    # as a dictionary of the runs in this order, which is that of pandas' categories
    place = rows.column_names.index("run_id")
    ordered = ids.take(order).dictionary_encode()
    rows = rows.set_column(place, rows.schema.field(place), ordered)
    return rows if columns_to_read is columns else rows.drop_columns(["run_id"])


def _parse_marks(made_of: str) -> list[tuple[Key, str]]:
    """Parse the runs that stored rows were derived from, and their marks; return [] if
    damaged.
    """
    with suppress(ValueError, TypeError):
        return [
            ((host_id, run_id), mark) for host_id, run_id, mark in json.loads(made_of)
        ]
    return []


def _require_bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise DataError("not bytes")
    return value


def _pack_record(record: bytes) -> bytes:
    stream = zlib.compressobj(level=1, zdict=_EMPTY_ROWS)
    return stream.compress(record) + stream.flush()


def _unpack_record(packed: bytes) -> bytes:
    """Return a record as JSON. Raises DataError or zlib.error if it is damaged."""
    stream = zlib.decompressobj(zdict=_EMPTY_ROWS)
    record = stream.decompress(packed)
    if not stream.eof:
        raise DataError("a record that ends early")
    return record


def _pack_rows(rows: Any, shape: Any) -> bytes:
    """Return the rows as an Arrow stream, compressed, without its schema, which would
    take a third of the space of a small run.
    """
    combined = rows.select(shape.names).cast(shape.remove_metadata())
    combined = combined.unify_dictionaries().combine_chunks()
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, combined.schema) as writer:
        writer.write_table(combined)
    batches = stream.getvalue()[combined.schema.serialize().size :]
    codec = pa.Codec("zstd", compression_level=_ZSTD_LEVEL)
    packed: bytes = codec.compress(batches, asbytes=True)
    return packed


def _unpack_rows(packed: bytes, shape: Any) -> Any:
    """Return the rows of a part. Raises DataError or ArrowException if they do not fit
    the schema.
    """
    own_schema = shape.remove_metadata().serialize()
    start = pa.compress(own_schema, "zstd", asbytes=True)
    plain = pa.CompressedInputStream(pa.BufferReader(start + packed), "zstd").read()
    if not plain.endswith(_END_OF_STREAM):
        raise DataError("rows that end early")
    rows = pa.ipc.open_stream(plain).read_all()
    rows.validate(full=True)
    return rows


@contextmanager
def _decoding() -> Iterator[None]:
    """Turn the errors of a value that cannot be decoded into a _DamagedValueError."""
    try:
        yield
    except (DataError, OSError, zlib.error, pa.ArrowException) as err:
        raise _DamagedValueError(str(err)) from err

"""Read files of one table into pyarrow: verify the checksums of what is read, and that
the columns have their names and types. Read no more than requested.
"""

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial, reduce
from itertools import chain
from math import ceil
from operator import and_
from pathlib import Path
from typing import Any, TypeVar
from warnings import warn

from fleet.errors import (
    DamagedFileError,
    DataError,
    StoreError,
    StoreWarning,
    explain,
    is_lack_of_memory,
)
from fleet.late import ds, futures, pa, pc, pq
from fleet.store import gate, schema
from fleet.store.checksums import read_footer
from fleet.store.files import open_regular, require_regular
from fleet.store.places import Folder, Place
from fleet.store.rows import RECORD, unpack_record
from fleet.store.values import check_values

_AT_ONCE = 8  # files; more than there are CPUs, since an object store makes each wait
_MOST_A_TASK = 32  # items that a thread works on before it hands over the results
# that are read at a time
_BATCH_ROWS = 4096
_BATCH_BYTES = 4 << 20
_READ_WHOLE = 4 << 20  # bytes; of larger files only what is asked for is kept in memory
# A file of samples may have this many values, and this many a byte: samples of a coarse
# clock take next to no room.
_FEW_VALUES = 1 << 26
_PACKED_VALUES = 8
_GROUP_VALUES = 6 << 20  # samples of a row group: a chunk, and a burst more
_SAMPLE_LISTS = ("ticks", "other_ticks", "other_units")
# its name leads to no file
_NAME_ERRORS = (
    errno.ELOOP,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
)
# the system does not read it, though others
_FILE_ERRORS = (
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
)
_RUN = re.compile(r"samples/host_id=[^/]+/run_id=([^/]+)/")

_RESTORE = (
    "If the file is damaged, put it back from a copy, or move all files of that run"
    " away."
)
REMEDIES = {
    "samples": _RESTORE,
    "counters": _RESTORE,
    "runs": "Remove it: it is made again from the samples.",
    "cpus": (
        "Remove it and the files in runs: `fleet runs` makes all again from the"
        " samples."
    ),
    "summaries": (
        "If the file is damaged, put it back from a copy, or remove it and import it"
        " again."
    ),
}
"""What to do about a damaged file of a table."""

Where = Mapping[str, Collection[Any]]  # for a column, the values of the rows wanted
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def read_files(
    place: Place,
    names: Sequence[str],
    table: str,
    *,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    skip_damaged: bool = False,
) -> Any:
    """Read files as one table. skip_damaged: leave damaged files out, with a warning.
    Raises StoreError.
    """

    def read(name: str) -> Any:
        file = TableFile(place, name, table)
        rows = file.read(columns, where)
        if table == "summaries":  # no run proves them
            with file.damage_errors():
                check_values(table, rows)
        return rows

    if skip_damaged:
        parts = list(read_undamaged(names, read).values())
    else:
        parts = map_in_threads(read, names)
    return concat_tables(parts, table, columns)


@contextmanager
def damage_errors(
    what: str, remedy: str = _RESTORE, run_id: str | None = None
) -> Iterator[None]:
    """Raise DamagedFileError, "WHAT: reason. REMEDY", for a damaged or unreadable file.
    run_id: its run.
    """
    try:
        yield
    except (OSError, DataError, MemoryError) as err:
        reason = " ".join(str(err).split()).rstrip(".")
        number = getattr(err, "errno", None)
        if isinstance(err, FileNotFoundError):
            reason = "it is not there any more"
            remedy = "Put it back from a copy; see `fleet verify`."
        elif number in _FILE_ERRORS:
            reason = os.strerror(number)
            remedy = "Let this user read it, or look at the disk."
        elif not isinstance(err, DataError) and number not in _NAME_ERRORS:
            _raise_if_file_is_not_to_blame(err, what, reason)
        raise DamagedFileError(f"{what}: {reason}. {remedy}", run_id=run_id) from err


def _raise_if_file_is_not_to_blame(
    err: OSError | MemoryError, what: str, reason: str
) -> None:
    """Raise another FleetError if the network, an object store or memory failed."""
    cause = explain(err, f"{what}: ")
    if cause is not None:
        raise cause from err
    # pyarrow's error has no errno, as where it cannot decode
    if "AWS Error" in reason:
        raise StoreError(f"{what}: {reason}.") from err


@contextmanager
def _decoding() -> Iterator[None]:
    """Turn pyarrow's errors, except lack of memory, into DataErrors. Only wrap
    decoding, to hide no bugs.
    """
    try:
        yield
    except UnicodeDecodeError as err:
        raise DataError("a name or a text in it is not UTF-8") from err
    except pa.ArrowException as err:
        if is_lack_of_memory(err):
            raise
        raise DataError(str(err)) from err


def warn_left_out(err: StoreError) -> None:
    """Warn, by a StoreWarning, that the file or run of the error is left out."""
    warning = StoreWarning(f"{err} It is left out.")
    warning.__cause__ = err.__cause__
    warn(warning, stacklevel=3)


def read_undamaged(
    names: Sequence[str], read: Callable[[str], _Result]
) -> dict[str, _Result]:
    """Return what `read` returns for each file, by name; leave out damaged files, with
    a StoreWarning.
    """

    def try_read(name: str) -> _Result | StoreError:
        try:
            return read(name)
        except DamagedFileError as err:
            return err

    results = map_in_threads(try_read, names)
    undamaged = {}
    for name, result in zip(names, results, strict=True):
        if isinstance(result, StoreError):
            warn_left_out(result)
        else:
            undamaged[name] = result
    return undamaged


def concat_tables(
    parts: Sequence[Any], table: str, columns: Sequence[str] | None = None
) -> Any:
    """Concatenate tables. If there are none, return an empty table with these
    columns.
    """
    if not parts:
        parts = [_memory_schema(table, columns).empty_table()]
    return pa.concat_tables(parts).unify_dictionaries()


def select_rows(
    table: Any, name: str, columns: Sequence[str] | None, where: Where
) -> Any:
    """Select rows and columns in memory as `read_files` does, in the schema of the
    table `name`.
    """
    rows = _filter_rows(table, where)
    return _cast(rows, _memory_schema(name, columns))


def map_in_threads(
    work: Callable[[_Item], _Result], items: Iterable[_Item]
) -> list[_Result]:
    """Do the work for every item, a few at once; return the results in the order of the
    items.
    """

    def do_all(items: Sequence[_Item]) -> list[_Result]:
        return list(map(work, items))

    todo = list(items)
    if len(todo) < 2:
        return do_all(todo)
    # each result that is handed over wakes another thread, which a small file is not
    # worth
    share = ceil(len(todo) / _AT_ONCE)
    size = min(_MOST_A_TASK, share)
    tasks = [todo[start : start + size] for start in range(0, len(todo), size)]
    with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        results = pool.map(do_all, tasks)
        return list(chain.from_iterable(results))


class TableFile:
    """One Parquet file of a table. whole: check all pages now, at any file size. Raises
    DamagedFileError.
    """

    def __init__(
        self, place: Place, name: str, table: str, *, whole: bool = False
    ) -> None:
        self.what = f"{place}: cannot read the {table} table: {name}"
        self.table = table
        run = _RUN.match(name)
        self._run_id = run and run[1]
        with self.damage_errors():
            self._source, _ = _open_verified(
                place, name, check_pages=whole or table != "samples"
            )
            # which are a loss for many small files
            self._threads = self._source.size() > _READ_WHOLE
            self._file = _open_parquet(self._source, table)
            schema.check_version(self.metadata.get(schema.VERSION_KEY, b""))

    def damage_errors(self) -> AbstractContextManager[None]:
        """Return a context that turns errors of damage into a DamagedFileError that
        names this file.
        """
        return damage_errors(self.what, REMEDIES[self.table], self._run_id)

    @cached_property
    def metadata(self) -> Mapping[bytes, bytes]:
        """Return the file's key-value metadata."""
        return self._file.metadata.metadata or {}

    @cached_property
    def record_json(self) -> bytes:
        """Return the record of the run in a samples file as JSON. Raises
        DamagedFileError.
        """
        with self.damage_errors():
            return extract_record(self.metadata)

    @cached_property
    def record(self) -> gate.RunRecord:
        """Return the record of the run in a samples file. Raises DamagedFileError if it
        is damaged.
        """
        with self.damage_errors():
            return gate.parse_record(self.record_json)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self._file.metadata.num_rows)

    def count_samples(self) -> int:
        """Return the number of ping's samples, warm-ups included, from the record."""
        return int(self.record.row["samples"])

    def require_plausible_size(self) -> None:
        """Raise DamagedFileError if a samples file unpacks to more than fleet writes
        into as many bytes. pyarrow may abort on a file that contradicts itself.
        """
        samples = [_count_list_values(group) for group in self._list_row_groups()]
        columns = self._file.metadata.num_columns
        values = self.rows * columns + sum(samples)
        size = self._source.size()
        most_values = _FEW_VALUES + _PACKED_VALUES * size
        has_large_group = max(samples, default=0) > _GROUP_VALUES
        if values > most_values or has_large_group:
            with self.damage_errors():
                raise DataError(f"its {size} bytes unpack to more than bursts can")

    def _list_row_groups(self) -> list[Any]:
        """Return what the footer says of each row group."""
        metadata = self._file.metadata
        return [metadata.row_group(number) for number in range(metadata.num_row_groups)]

    @cached_property
    def _batch_rows(self) -> int:
        """Return the number of rows to read at a time: fewer if they are long."""
        rows = _BATCH_ROWS
        for group in self._list_row_groups():
            row_bytes = group.total_byte_size / max(1, group.num_rows)
            rows_at_once = int(_BATCH_BYTES / max(1, row_bytes))
            rows = min(rows, rows_at_once)
        return max(1, rows)

    def iter_chunks(self, sizes: Iterable[int]) -> Iterator[Any]:
        """Yield tables of all columns. sizes: the number of rows of each. Raises
        DamagedFileError.
        """
        shape = schema.file_schema(self.table)
        stored = self._file.schema_arrow
        unknown = {*stored.names} - {*shape.names}
        if unknown:
            with self.damage_errors():  # names the file
                raise DataError(f"a column {min(unknown)!r:.50} is not in the table")
        parts = self._iter_rows()
        rows = stored.empty_table()  # read, and not yet yielded
        for size in sizes:
            rows = self._extend_rows(rows, parts, size)
            chunk = rows.slice(0, size)
            rows = rows.slice(size)
            yield _cast(chunk, shape)

    def _extend_rows(self, rows: Any, parts: Iterator[Any], size: int) -> Any:
        """Return rows with those of the next parts, until there are `size` or no
        more.
        """
        tables = [rows]
        while sum(map(len, tables)) < size:
            part = next(parts, None)
            if part is None:
                break
            tables.append(part)
        with self.damage_errors():
            return pa.concat_tables(tables).unify_dictionaries().combine_chunks()

    def read(
        self, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> Any:
        """Return the selected rows, in the schema of the table. Raises
        DamagedFileError.
        """
        where = where or {}
        shape = _memory_schema(self.table, columns)
        groups = self._select_groups(where)
        if not groups:  # of none pyarrow 18 makes an error
            return shape.empty_table()
        with self.damage_errors(), _decoding():
            rows = self._file.read_row_groups(
                groups,
                columns=self._columns_to_read(shape, where),
                use_threads=self._threads,
            )
            rows.validate(full=True)  # no text is other than UTF-8
        return self._select(rows, where, shape)

    def iter_tables(
        self, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> Iterator[Any]:
        """Yield the selected rows in several small tables, so that not all have to be
        in memory at once.
        """
        where = where or {}
        shape = _memory_schema(self.table, columns)
        groups = self._select_groups(where)
        if not groups:
            return
        for rows in self._iter_rows(groups, self._columns_to_read(shape, where)):
            yield self._select(rows, where, shape)

    def _iter_rows(
        self, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Any]:
        batches = self._file.iter_batches(
            self._batch_rows, groups, columns, self._threads
        )
        while True:
            with self.damage_errors(), _decoding():
                batch = next(batches, None)
                if batch is None:
                    return
                batch.validate(full=True)
            yield pa.Table.from_batches([batch])

    def _select_groups(self, where: Where) -> list[int]:
        """Return the numbers of the row groups that, by their statistics, may have rows
        matching `where`.
        """
        count = self._file.num_row_groups
        columns = schema.file_schema(self.table).names
        in_file = where.keys() & set(columns)
        if count < 2 or not in_file:
            return list(range(count))
        conditions = []
        for name in in_file:
            values = sorted(where[name])
            conditions.append(pc.field(name).isin(values))
        condition = reduce(and_, conditions)
        with self.damage_errors(), _decoding():
            all_groups = ds.ParquetFileFormat().make_fragment(self._source)
            groups = all_groups.subset(condition).row_groups
            return [group.id for group in groups]

    def _columns_to_read(self, shape: Any, where: Where) -> list[str]:
        """Return the columns to read from the file, without those in its path, which
        `_select` adds.
        """
        names = schema.file_schema(self.table).names
        return sorted({*shape.names, *where}.intersection(names))

    def _select(self, rows: Any, where: Where, shape: Any) -> Any:
        """Select rows and columns; add the columns of the file's path from its
        record.
        """
        for name in schema.PATH_COLUMNS.get(self.table, ()):
            if name in shape.names or name in where:
                field = schema.arrow_schema(self.table).field(name)
                word = self.record.row[name]
                column = _repeat_word(word, len(rows))
                rows = rows.append_column(field, column)
        selected = _filter_rows(rows, where)
        return _cast(selected, shape)


def _repeat_word(word: str, count: int) -> Any:
    """Return a dictionary array of one word, repeated."""
    indices = pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.DictionaryArray.from_arrays(indices, [word])


def extract_record(metadata: Mapping[bytes, bytes]) -> bytes:
    """Return the JSON of the record of a run from the metadata of its samples file.
    Every reader takes it from here. Raises DataError.
    """
    if RECORD not in metadata:
        raise DataError("no record of its run")
    return unpack_record(metadata[RECORD])


def read_record(place: Place, name: str) -> bytes:
    """Read the JSON of the record in a samples file. Raises OSError, DataError."""
    footer = _read_footer_only(place, name)
    metadata = _read_metadata(pa.BufferReader(footer))
    schema.check_version(metadata.get(schema.VERSION_KEY, b""))
    return extract_record(metadata)


def _read_footer_only(place: Place, name: str) -> bytes:
    """Read and verify a file's footer, in a folder without pyarrow. Raises OSError,
    DataError.
    """
    path = place.path(name)
    if not isinstance(place, Folder):
        with place.filesystem.open_input_file(path) as source:
            return read_footer(source.read_at, source.size(), pages=False)
    descriptor = open_regular(Path(path))
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        read_at = partial(os.pread, descriptor)
        return read_footer(read_at, size, pages=False)
    finally:
        os.close(descriptor)


def read_table_name(place: Place, name: str) -> str:
    """Return the name of the table that a file is part of; "" if it names none. Raises
    DamagedFileError.
    """
    with damage_errors(f"{place}: cannot read {name}"):
        source, _ = _open_verified(place, name, check_pages=False)
        metadata = _read_metadata(source)
        return str(metadata.get(b"fleet.table", b""), "ascii", "replace")


def _read_metadata(source: Any) -> Mapping[bytes, bytes]:
    """Read the key-value metadata of a Parquet file, or of a footer and what follows
    it.
    """
    with _decoding():
        return pq.read_metadata(source).metadata or {}


def _open_verified(place: Place, name: str, *, check_pages: bool) -> tuple[Any, bytes]:
    """Open a file; verify its footer, and pages if it is small or `check_pages`. Return
    file and footer.
    """
    if isinstance(place, Folder):
        require_regular(place.path(name))
        if not name.isprintable():  # pyarrow opens no name that is not UTF-8
            raise OSError("its name is not printable UTF-8; rename it or move it away")
    source = place.filesystem.open_input_file(place.path(name))
    size = source.size()
    if size <= _READ_WHOLE:
        small = source.read_buffer()
        source.close()
        source = pa.BufferReader(small)
        check_pages = True
    return source, read_footer(source.read_at, size, pages=check_pages)


def _open_parquet(source: Any, table: str) -> Any:
    """Open a Parquet file; read repeated texts as dictionaries. Raises DataError unless
    it has the columns of its table.
    """
    shape = schema.file_schema(table)
    names = shape.names
    words = [name for name in schema.dictionary_columns(table) if name in names]
    try:
        with _decoding():
            file = pq.ParquetFile(
                source, page_checksum_verification=True, read_dictionary=words
            )
            stored = file.schema_arrow
            if not stored.equals(shape):
                _require_columns(stored, shape)
    except KeyError as err:
        raise DataError(
            f"it has no column {err.args[0].decode()}, or one that is not text"
        ) from None
    return file


def _require_columns(stored: Any, shape: Any) -> None:
    """Raise DataError unless a file's schema has the columns of `shape`, each once, in
    its type. It may have more.
    """
    if missing := sorted({*shape.names} - {*stored.names}):
        raise DataError(f"it has no column {missing[0]}")
    if len({*stored.names}) < len(stored.names):
        raise DataError("it has two columns with the same name")
    for field in shape:
        other = stored.field(field.name)
        if other.type != field.type:
            raise DataError(
                f"its column {field.name} is of the type {other.type}, not {field.type}"
            )
        if other.nullable and not field.nullable:
            raise DataError(f"its column {field.name} may hold nulls")


def _count_list_values(group: Any) -> int:
    """Return the number of samples in a row group, from the footer."""
    count = 0
    for number in range(group.num_columns):
        column = group.column(number)
        name, _, _ = column.path_in_schema.partition(".")
        if name in _SAMPLE_LISTS:
            count += column.num_values
    return count


def _memory_schema(table: str, columns: Sequence[str] | None) -> Any:
    if columns is None:
        return schema.arrow_schema(table)
    return schema.arrow_schema(table, tuple(columns))


def _cast(table: Any, shape: Any) -> Any:
    selected = table.select(shape.names)
    if selected.schema.equals(shape):
        return selected.replace_schema_metadata(shape.metadata)
    columns = []
    for field in shape:
        column = table.column(field.name)
        if column.type != field.type:
            column = column.cast(field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=shape)


def _filter_rows(table: Any, where: Where) -> Any:
    if not where:
        return table
    masks = [_is_among(table.column(name), values) for name, values in where.items()]
    is_selected = reduce(pc.and_, masks)
    if pc.all(is_selected).as_py():
        return table
    return table.filter(is_selected)


def _is_among(cells: Any, values: Collection[Any]) -> Any:
    """Return for each cell of a column whether it is one of the values."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(pa.string())
    return pc.is_in(cells, pa.array(sorted(values), cells.type))

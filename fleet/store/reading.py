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

_THREADS = 8  # more than there are CPUs, since an object store makes each wait
_ITEMS_OF_TASK = 32  # at most; a thread does a task before it hands over the results
# at most, that are read at a time
_BATCH_ROWS = 4096
_BATCH_BYTES = 4 << 20
_SMALL_BYTES = 4 << 20  # of larger files only what is asked for is kept in memory
# A file of samples may have this many values, and this many more for each of its bytes:
# samples of a coarse clock take next to no room.
_VALUES_OF_ANY_FILE = 1 << 26
_VALUES_PER_BYTE = 8
_SAMPLES_OF_GROUP = 6 << 20  # of a row group, at most: a chunk, and a burst more
_SAMPLE_LISTS = ("ticks", "other_ticks", "other_units")
# the file's name leads to no file
_NAME_ERRORS = (
    errno.ELOOP,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
)
# the system does not read the file, though it reads others
_FILE_ERRORS = (
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
)
_PATH_OF_RUN = re.compile(r"samples/host_id=[^/]+/run_id=(?P<run_id>[^/]+)/")

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
    """Read files as one table. columns: None for all. where: read only the rows with
    these values. skip_damaged: leave damaged files out, with a warning. Raises
    StoreError.
    """

    def read(name: str) -> Any:
        file = TableFile(place, name, table)
        rows = file.read(columns, where)
        # no run's record has a checksum of summaries, so check their values here
        if table == "summaries":
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
    run_id: of the run that the file belongs to, if any.
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
        elif isinstance(err, DataError) or number in _NAME_ERRORS:
            pass  # surely the file is at fault: its content or its name
        else:
            # The network or memory may have failed: then this raises another error.
            # Else the file is at fault, as where pyarrow cannot decode it.
            _raise_if_other_cause(err, what, reason)
        raise DamagedFileError(f"{what}: {reason}. {remedy}", run_id=run_id) from err


def _raise_if_other_cause(err: OSError | MemoryError, what: str, reason: str) -> None:
    """Raise another FleetError if the network, an object store or memory failed, and
    not the file.
    """
    cause = explain(err, f"{what}: ")
    if cause is not None:
        raise cause from err
    if "AWS Error" in reason:  # pyarrow's error has no number
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
    # a task has several items, since handing over a result wakes another thread, which
    # takes long in comparison with reading a small file
    items_per_thread = ceil(len(todo) / _THREADS)
    task_size = min(_ITEMS_OF_TASK, items_per_thread)
    tasks = []
    for start in range(0, len(todo), task_size):
        task = todo[start : start + task_size]
        tasks.append(task)
    with futures.ThreadPoolExecutor(_THREADS) as pool:
        results_of_tasks = pool.map(do_all, tasks)
        return list(chain.from_iterable(results_of_tasks))


class TableFile:
    """One Parquet file of a table. whole: check all pages now, at any file size. Raises
    DamagedFileError.
    """

    def __init__(
        self, place: Place, name: str, table: str, *, whole: bool = False
    ) -> None:
        """Open a file; check its footer, and its columns against those of the table.
        name: of the file, relative to the place. table: its table's name.
        """
        self.error_prefix = f"{place}: cannot read the {table} table: {name}"
        self.table = table
        path_of_run = _PATH_OF_RUN.match(name)
        self._run_id = path_of_run["run_id"] if path_of_run else None
        # A samples file may be large, so pyarrow checks each page when it reads that
        # page. All pages of other tables are checked now; so are those of small files
        # of any table, which `_open_verified` reads whole.
        checks_pages = whole or table != "samples"
        with self.damage_errors():
            self._source, _ = _open_verified(place, name, check_pages=checks_pages)
            # threads cost more time than they save where files are small
            self._uses_threads = self._source.size() > _SMALL_BYTES
            self._file = _open_parquet(self._source, table)
            schema.check_version(self.metadata.get(schema.VERSION_KEY, b""))

    def damage_errors(self) -> AbstractContextManager[None]:
        """Return a context that turns errors of damage into a DamagedFileError that
        names this file.
        """
        return damage_errors(self.error_prefix, REMEDIES[self.table], self._run_id)

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
        """Raise DamagedFileError if a samples file claims more values than fleet writes
        into a file of its size: pyarrow may abort when it reads such a file.
        """
        samples_by_group = [_count_samples(group) for group in self._list_row_groups()]
        columns = self._file.metadata.num_columns
        # one value in each column of a row, and the values in lists of samples
        values = self.rows * columns + sum(samples_by_group)
        size = self._source.size()
        possible_values = _VALUES_OF_ANY_FILE + _VALUES_PER_BYTE * size
        has_large_group = max(samples_by_group, default=0) > _SAMPLES_OF_GROUP
        if values > possible_values or has_large_group:
            with self.damage_errors():
                raise DataError(f"its {size} bytes unpack to more than bursts can")

    def _list_row_groups(self) -> list[Any]:
        """Return what the footer says of each row group."""
        metadata = self._file.metadata
        return [metadata.row_group(number) for number in range(metadata.num_row_groups)]

    @cached_property
    def _batch_rows(self) -> int:
        """Return the number of rows to read at a time: _BATCH_ROWS, or fewer if so many
        rows of any row group would take more than _BATCH_BYTES.
        """
        batch_rows = _BATCH_ROWS
        for group in self._list_row_groups():
            row_bytes = group.total_byte_size / max(1, group.num_rows)
            rows_in_batch_bytes = int(_BATCH_BYTES / max(1, row_bytes))
            batch_rows = min(batch_rows, rows_in_batch_bytes)
        return max(1, batch_rows)

    def iter_chunks(self, sizes: Iterable[int]) -> Iterator[Any]:
        """Yield all rows, in order, as tables of all columns. sizes: the number of rows
        of each table. Raises DamagedFileError.
        """
        shape = schema.file_schema(self.table)
        stored = self._file.schema_arrow
        unknown = {*stored.names} - {*shape.names}
        if unknown:
            with self.damage_errors():  # which adds the name of the file
                raise DataError(f"a column {min(unknown)!r:.50} is not in the table")
        small_tables = self._iter_rows()
        rows = stored.empty_table()  # read, and not yet yielded
        for size in sizes:
            rows = self._extend_rows(rows, small_tables, size)
            chunk = rows.slice(0, size)
            yield _cast(chunk, shape)
            rows = rows.slice(size)

    def _extend_rows(self, rows: Any, small_tables: Iterator[Any], size: int) -> Any:
        """Return these rows and those of the next tables, until there are `size` rows
        or no tables are left.
        """
        tables = [rows]
        while sum(map(len, tables)) < size:
            small_table = next(small_tables, None)
            if small_table is None:
                break
            tables.append(small_table)
        with self.damage_errors():
            return pa.concat_tables(tables).unify_dictionaries().combine_chunks()

    def read(
        self, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> Any:
        """Return the selected rows, in the schema of the table. columns: None for all.
        where: only the rows with these values. Raises DamagedFileError.
        """
        where = where or {}
        result_schema = _memory_schema(self.table, columns)
        groups = self._select_groups(where)
        if not groups:  # pyarrow 18 fails where it is to read no groups
            return result_schema.empty_table()
        with self.damage_errors(), _decoding():
            rows = self._file.read_row_groups(
                groups,
                columns=self._columns_to_read(result_schema, where),
                use_threads=self._uses_threads,
            )
            rows.validate(full=True)  # finds, for example, texts that are not UTF-8
        return self._select(rows, where, result_schema)

    def iter_tables(
        self, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> Iterator[Any]:
        """Yield the selected rows in several small tables, so that not all have to be
        in memory at once.
        """
        where = where or {}
        result_schema = _memory_schema(self.table, columns)
        groups = self._select_groups(where)
        if not groups:
            return
        columns_to_read = self._columns_to_read(result_schema, where)
        for rows in self._iter_rows(groups, columns_to_read):
            yield self._select(rows, where, result_schema)

    def _iter_rows(
        self, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Any]:
        """Yield the rows of these row groups, all by default, in small tables."""
        batches = self._file.iter_batches(
            self._batch_rows, groups, columns, self._uses_threads
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
        names_in_file = where.keys() & set(columns)
        # nothing could be left out
        if count < 2 or not names_in_file:
            return list(range(count))
        conditions = []
        for name in names_in_file:
            values = sorted(where[name])
            conditions.append(pc.field(name).isin(values))
        condition = reduce(and_, conditions)
        with self.damage_errors(), _decoding():
            file_in_groups = ds.ParquetFileFormat().make_fragment(self._source)
            groups = file_in_groups.subset(condition).row_groups
            return [group.id for group in groups]

    def _columns_to_read(self, result_schema: Any, where: Where) -> list[str]:
        """Return the columns to read from the file, without those in its path, which
        `_select` adds.
        """
        names = schema.file_schema(self.table).names
        return sorted({*result_schema.names, *where}.intersection(names))

    def _select(self, rows: Any, where: Where, result_schema: Any) -> Any:
        """Return the rows that match `where`, in the columns of `result_schema`. A
        column that is in the file's path, and not in the file, is added first: all rows
        have the value that the record of the file's run has.
        """
        path_columns = schema.PATH_COLUMNS.get(self.table, ())
        columns_needed = {*result_schema.names, *where}
        for name in path_columns:
            if name in columns_needed:
                field = schema.arrow_schema(self.table).field(name)
                word = self.record.row[name]
                column = _repeat_word(word, len(rows))
                rows = rows.append_column(field, column)
        selected = _filter_rows(rows, where)
        return _cast(selected, result_schema)


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
    """Read and verify a file's footer. Raises OSError, DataError."""
    path = place.path(name)
    if isinstance(place, Folder):
        # without pyarrow, which takes longer for one of many small files
        descriptor = open_regular(Path(path))
        try:
            size = os.lseek(descriptor, 0, os.SEEK_END)
            read_at = partial(os.pread, descriptor)
            return read_footer(read_at, size, pages=False)
        finally:
            os.close(descriptor)
    with place.filesystem.open_input_file(path) as source:
        return read_footer(source.read_at, source.size(), pages=False)


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
    if size <= _SMALL_BYTES:
        content = source.read_buffer()
        source.close()
        source = pa.BufferReader(content)
        check_pages = True
    return source, read_footer(source.read_at, size, pages=check_pages)


def _open_parquet(source: Any, table: str) -> Any:
    """Open a Parquet file; read repeated texts as dictionaries. Raises DataError unless
    it has the columns of its table.
    """
    expected_schema = schema.file_schema(table)
    repeating = schema.dictionary_columns(table)
    dictionaries = [name for name in repeating if name in expected_schema.names]
    with _decoding():
        try:
            file = pq.ParquetFile(
                source, page_checksum_verification=True, read_dictionary=dictionaries
            )
        except KeyError as err:
            # pyarrow's error has a name of `read_dictionary`, as bytes. The column is
            # missing; or it holds lists, which pyarrow calls NAME.list.element.
            name = err.args[0].decode()
            raise DataError(
                f"it has no column {name}, or one that is not text"
            ) from None
        if not file.schema_arrow.equals(expected_schema):
            _require_columns(file.schema_arrow, expected_schema)
    return file


def _require_columns(stored_schema: Any, expected_schema: Any) -> None:
    """Raise DataError unless a file's schema has the expected columns, each once, in
    its type. It may have more.
    """
    stored_names = stored_schema.names
    missing = {*expected_schema.names} - {*stored_names}
    if missing:
        raise DataError(f"it has no column {min(missing)}")
    if len({*stored_names}) < len(stored_names):
        raise DataError("it has two columns with the same name")
    for expected in expected_schema:
        stored = stored_schema.field(expected.name)
        if stored.type != expected.type:
            raise DataError(
                f"its column {expected.name} is of the type {stored.type}, not"
                f" {expected.type}"
            )
        if stored.nullable and not expected.nullable:
            raise DataError(f"its column {expected.name} may hold nulls")


def _count_samples(group: Any) -> int:
    """Return the number of samples in a row group, from the footer."""
    count = 0
    for number in range(group.num_columns):
        column = group.column(number)
        name, _, _ = column.path_in_schema.partition(".")
        if name in _SAMPLE_LISTS:
            count += column.num_values  # of all lists, not the number of lists
    return count


def _memory_schema(table: str, columns: Sequence[str] | None) -> Any:
    """Return the pyarrow schema of these columns of a table in memory; None for all."""
    if columns is None:
        return schema.arrow_schema(table)
    return schema.arrow_schema(table, tuple(columns))


def _cast(table: Any, shape: Any) -> Any:
    """Return the columns of a pyarrow schema, each in its type."""
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
    """Return the rows that have one of the values of `where` in each of its columns."""
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

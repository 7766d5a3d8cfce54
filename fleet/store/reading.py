"""Read files of one table into pyarrow. Read no more than requested; let `gate` check
all that is read.
"""

import errno
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from itertools import groupby
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
from fleet.late import futures, pa, pc, pq
from fleet.model import Descriptions, read_descriptions
from fleet.store import gate, schema
from fleet.store.checksums import read_footer
from fleet.store.files import open_regular, require_regular
from fleet.store.footer import RowGroup, find_metadata, parse_footer
from fleet.store.places import Folder, Place
from fleet.store.rows import RECORD, unpack_record

_AT_ONCE = 8  # files; more than there are CPUs, since an object store makes each wait

# Rows, values of a list column, and bytes of texts, that are read at a time.
_BATCH_ROWS, _BATCH_VALUES, _BATCH_TEXT_BYTES = 4096, 1 << 18, 8 << 20
_READ_WHOLE = 4 << 20  # bytes; of larger files only what is asked for is kept in memory
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
    "pairs": "Remove it: it is made again from the samples.",
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
        return TableFile(place, name, table).read(columns, where)

    parts = (
        read_undamaged(names, read).values()
        if skip_damaged
        else map_in_threads(read, names)
    )
    return concat_tables([*parts], table, columns)


def read_together(
    files: Sequence["TableFile"],
    columns: Sequence[str] | None = None,
    where: Where | None = None,
) -> Any:
    """Return the selected rows of files of one table, checked together. Raises
    DamagedFileError.
    """
    shape = _memory_schema(files[0].table, columns)
    parts = [
        (file, part)
        for file in files
        if (part := file.read_unchecked(shape, where or {})) is not None
    ]
    return _check_rows(parts, shape) if parts else shape.empty_table()


def _check_rows(parts: Sequence[tuple["TableFile", Any]], shape: Any) -> Any:
    """Check rows read from files of one table; return their columns of `shape`. Raises
    DamagedFileError.
    """
    (first, rows), *others = parts
    with (
        damage_errors(f"{len(parts)} files of the {first.table} table")
        if others
        else first.damage_errors()
    ):
        if others:
            rows = concat_tables([part for _, part in parts], first.table)
        gate.check_table(first.table, rows)
        if first.table == "samples" and "ticks" in shape.names:
            for by, group in groupby(
                parts, lambda part: part[0].estimator_and_benchmarks
            ):
                bursts = [part for _, part in group]
                gate.check_bursts(
                    concat_tables(bursts, first.table) if others else rows, *by
                )
        return _cast(rows, shape)


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
        if isinstance(err, FileNotFoundError):
            reason, remedy = (
                "it is not there any more",
                "Put it back from a copy; see `fleet verify`.",
            )
        elif isinstance(err, OSError) and err.errno in _FILE_ERRORS:
            reason, remedy = (
                os.strerror(err.errno),
                "Let this user read it, or look at the disk.",
            )
        elif (
            not isinstance(err, DataError)
            and getattr(err, "errno", None) not in _NAME_ERRORS
        ):
            if (
                cause := explain(err, f"{what}: ")
            ) is not None:  # network or memory failed
                raise cause from err
            if (
                "AWS Error" in reason
            ):  # pyarrow's error has no errno, as where it cannot decode
                raise StoreError(f"{what}: {reason}.") from err
        raise DamagedFileError(f"{what}: {reason}. {remedy}", run_id=run_id) from err


@contextmanager
def _decoding() -> Iterator[None]:
    """Turn pyarrow's errors, except lack of memory, into DataErrors. Only wrap
    decoding, to hide no bugs.
    """
    try:
        yield
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

    results = dict(zip(names, map_in_threads(try_read, names), strict=True))
    for err in results.values():
        if isinstance(err, StoreError):
            warn_left_out(err)
    return {
        name: result
        for name, result in results.items()
        if not isinstance(result, StoreError)
    }


def concat_tables(
    parts: Sequence[Any], table: str, columns: Sequence[str] | None = None
) -> Any:
    """Concatenate tables. If there are none, return an empty table with these
    columns.
    """
    return pa.concat_tables(
        parts or [_memory_schema(table, columns).empty_table()]
    ).unify_dictionaries()


def select_rows(
    table: Any, name: str, columns: Sequence[str] | None, where: Where
) -> Any:
    """Select rows and columns in memory as `read_files` does, in the schema of the
    table `name`.
    """
    return _cast(_filter_rows(table, where), _memory_schema(name, columns))


def map_in_threads(
    work: Callable[[_Item], _Result], items: Iterable[_Item]
) -> list[_Result]:
    """Do the work for every item, a few at once; return the results in the order of the
    items.
    """
    todo = list(items)
    if len(todo) < 2:
        return list(map(work, todo))
    with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, todo))


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
            source, self._footer = _open_verified(
                place, name, check_pages=whole or table != "samples"
            )
            self._size = source.size()
            # which are a loss for many small files
            self._threads = self._size > _READ_WHOLE
            self._file = _open_parquet(source, table)
            schema.check_version(self.metadata.get(schema.VERSION, b""))

    def damage_errors(self) -> AbstractContextManager[None]:
        """Return a context that turns errors of damage into a DamagedFileError that
        names this file.
        """
        return damage_errors(self.what, REMEDIES[self.table], self._run_id)

    @cached_property
    def _groups(self) -> list[RowGroup]:
        """Return row groups. Raises DamagedFileError if damaged or unpacking to more
        than fleet writes.
        """
        with self.damage_errors():
            groups = parse_footer(self._footer)
            gate.check_footer(self.table, groups, self._size)
        return groups

    @cached_property
    def metadata(self) -> Mapping[bytes, bytes]:
        """Return the file's key-value metadata."""
        return self._file.metadata.metadata or {}

    @cached_property
    def record(self) -> gate.RunRecord:
        """Return the record of the run in a samples file. Raises DamagedFileError if it
        is damaged.
        """
        with damage_errors(
            f"{self.what}: no record of its run",
            "Restore it from a copy.",
            self._run_id,
        ):
            return gate.parse_record(unpack_record(self.metadata.get(RECORD, b"")))

    @cached_property
    def estimator_and_benchmarks(self) -> tuple[str, Descriptions]:
        """Return the run's estimator and benchmarks, by which the gate checks its
        bursts.
        """
        row = self.record.row
        return row["estimator"], read_descriptions(json.loads(row["hello_json"]))

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self._file.metadata.num_rows)

    def count_samples(self) -> int:
        """Return the number of ping's samples, warm-ups included, from the footer."""
        columns = [column for group in self._groups for column in group.columns]
        return sum(column.values for column in columns if column.path[0] == "ticks")

    @property
    def _batch_rows(self) -> int:
        """Return the number of rows to read at a time: fewer if the footer shows many
        or long values.
        """
        rows, words = _BATCH_ROWS, schema.dictionary_columns(self.table)
        for group in self._groups:
            for column in group.columns:
                rows = min(rows, _BATCH_VALUES * group.rows // max(1, column.values))
                if column.repeats and column.path[0] not in words:
                    rows = min(rows, _BATCH_TEXT_BYTES // max(1, column.unpacked))
        return max(1, rows)

    def iter_chunks(self, sizes: Iterable[int]) -> Iterator[Any]:
        """Yield checked tables of all columns. sizes: the number of rows of each.
        Raises DamagedFileError.
        """
        shape = schema.file_schema(self.table)
        stored = self._file.schema_arrow
        if unknown := sorted({*stored.names} - {*shape.names}):
            text = (
                f"{self.what}: a column {unknown[0]!r:.50} is not in the table."
                f" {_RESTORE}"
            )
            raise DamagedFileError(text, run_id=self._run_id)
        parts, held = self._iter_rows(), [stored.empty_table()]
        for size in sizes:
            while (
                sum(map(len, held)) < size and (part := next(parts, None)) is not None
            ):
                held.append(part)
            with self.damage_errors():
                combined = pa.concat_tables(held).unify_dictionaries().combine_chunks()
            part, held = combined.slice(0, size), [combined.slice(size)]
            yield self._check_and_cast(part, {}, shape)

    def read(
        self, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> Any:
        """Return the selected rows, in the schema of the table. Raises
        DamagedFileError.
        """
        return read_together([self], columns, where)

    def iter_tables(
        self, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> Iterator[Any]:
        """Yield the selected rows in several small tables, so that not all have to be
        in memory at once.
        """
        where, shape = where or {}, _memory_schema(self.table, columns)
        if groups := self._matching_groups(where):  # of none pyarrow 18 makes an error
            for rows in self._iter_rows(groups, self._columns_to_read(shape, where)):
                yield self._check_and_cast(rows, where, shape)

    def read_unchecked(self, shape: Any, where: Where) -> Any:
        """Return the selected rows, with all columns to check for `shape`; None if no
        row group matches.
        """
        if not (groups := self._matching_groups(where)):
            return None
        columns = self._columns_to_read(shape, where)
        with self.damage_errors():
            if (
                self.table == "samples"
                or self.rows * self._unpacked_size <= gate.UNPACKED
            ):
                with _decoding():
                    rows = self._file.read_row_groups(
                        groups, columns=columns, use_threads=self._threads
                    )
            else:  # it may be large: some at a time, up to the limit on memory
                parts = []
                for part in self._iter_rows(groups, columns):
                    parts.append(part)
                    gate.require_plausible_memory(parts)
                rows = pa.concat_tables(parts)
            return self._select(rows, where, shape)

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
            yield pa.Table.from_batches([batch])

    @property
    def _unpacked_size(self) -> int:
        """Return the number of bytes of the uncompressed pages, from the footer."""
        groups = map(self._file.metadata.row_group, range(self._file.num_row_groups))
        return sum(group.total_byte_size for group in groups)

    def _matching_groups(self, where: Where) -> list[int]:
        """Return the numbers of the row groups that, by their statistics, may have rows
        matching `where`.
        """
        if (
            self.table != "samples"
            and not where
            and self._unpacked_size <= gate.FEW_BYTES
        ):
            return list(range(self._file.num_row_groups))
        return [
            number
            for number, group in enumerate(self._groups)
            if group.may_contain(where)
        ]

    def _columns_to_read(self, shape: Any, where: Where) -> list[str]:
        """Return the columns to read from the file, without those in its path, which
        `_select` adds.
        """
        names = schema.file_schema(self.table).names
        return sorted({*self._schema_to_check(shape).names, *where}.intersection(names))

    def _schema_to_check(self, shape: Any) -> Any:
        """Return the schema of the columns to check: `shape` and, if it has ticks,
        BURST_COLUMNS.
        """
        if self.table != "samples" or "ticks" not in shape.names:
            return shape
        return _memory_schema("samples", [*shape.names, *gate.BURST_COLUMNS])

    def _select(self, table: Any, where: Where, shape: Any) -> Any:
        """Select the rows and the columns to check; add the columns of the file's path
        from its record.
        """
        for name in schema.PATH_COLUMNS.get(self.table, ()):
            places = pa.repeat(pa.scalar(0, pa.int32()), len(table))
            values = pa.DictionaryArray.from_arrays(
                places, pa.array([self.record.row[name]])
            )
            table = table.append_column(name, values)
        return _cast(_filter_rows(table, where), self._schema_to_check(shape))

    def _check_and_cast(self, table: Any, where: Where, shape: Any) -> Any:
        with self.damage_errors():
            rows = self._select(table, where, shape)
        return _check_rows([(self, rows)], shape)


def read_record(place: Place, name: str) -> bytes:
    """Read the JSON of the record in a samples file. Raises OSError, DataError."""
    if isinstance(place, Folder):
        with os.fdopen(open_regular(Path(place.path(name))), "rb") as file:
            size = file.seek(0, 2)
            footer = read_footer(
                lambda count, at: os.pread(file.fileno(), count, at), size, pages=False
            )
    else:
        with place.filesystem.open_input_file(place.path(name)) as source:
            footer = read_footer(source.read_at, source.size(), pages=False)
    schema.check_version(find_metadata(footer, schema.VERSION))
    if not (record := find_metadata(footer, RECORD)):
        raise DataError("no record of its run")
    return unpack_record(record)


def read_table_name(place: Place, name: str) -> str:
    """Return the name of the table that a file is part of; "" if it names none. Raises
    DamagedFileError.
    """
    with damage_errors(f"{place}: cannot read {name}"):
        source, _ = _open_verified(place, name, check_pages=False)
        with _decoding():
            metadata = pq.read_metadata(source).metadata or {}
        return str(metadata.get(b"fleet.table", b""), "ascii", "replace")


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
        source, check_pages = pa.BufferReader(small), True
    return source, read_footer(source.read_at, size, pages=check_pages)


def _open_parquet(source: Any, table: str) -> Any:
    """Open a Parquet file; read repeated texts as dictionaries. Raises DataError unless
    it fits its table.
    """
    shape = schema.file_schema(table)
    words = [name for name in schema.dictionary_columns(table) if name in shape.names]
    try:
        with _decoding():
            file = pq.ParquetFile(
                source, page_checksum_verification=True, read_dictionary=words
            )
            stored = file.schema_arrow
            names = stored.names
    except KeyError as err:
        raise DataError(
            f"it has no column {err.args[0].decode()}, or one that is not text"
        ) from None
    except UnicodeDecodeError as err:
        raise DataError("the name of a column is not UTF-8") from err
    if missing := sorted({*shape.names} - {*names}):
        raise DataError(f"it has no column {missing[0]}")
    if len({*names}) < len(names):
        raise DataError("it has two columns with the same name")
    for field in shape:
        if (type_ := stored.field(field.name).type) != field.type:
            raise DataError(
                f"its column {field.name} is of the type {type_}, not {field.type}"
            )
    return file


def _memory_schema(table: str, columns: Sequence[str] | None) -> Any:
    return schema.arrow_schema(table, None if columns is None else tuple(columns))


def _cast(table: Any, shape: Any) -> Any:
    columns = [(table.column(field.name), field.type) for field in shape]
    same = [
        column if column.type == type_ else column.cast(type_)
        for column, type_ in columns
    ]
    return pa.Table.from_arrays(same, schema=shape)


def _filter_rows(table: Any, where: Where) -> Any:
    selected: Any = None
    for column, values in where.items():
        cells = table.column(column)
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(pa.string())
        mask = pc.is_in(cells, pa.array(sorted(values), cells.type))
        selected = mask if selected is None else pc.and_(selected, mask)
    return (
        table
        if selected is None or pc.all(selected).as_py()
        else table.filter(selected)
    )

"""Reads files of one table into pyarrow, each checked by the gate, no more than asked for."""

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar
from warnings import warn

from fleet.errors import DamagedFileError, DataError, StoreError, StoreWarning, explain, is_lack_of_memory
from fleet.late import pa, pc, pq
from fleet.store import schema
from fleet.store.bursts_gate import COLUMNS as CHECKED_TOGETHER
from fleet.store.bursts_gate import check_bursts
from fleet.store.checksums import checked_footer
from fleet.store.files import check_regular, open_regular
from fleet.store.footer import Footer, footer_of, may_hold, noted
from fleet.store.gate import FEW_BYTES, UNPACKED, check_footer, check_held, check_table
from fleet.store.places import Folder, Place
from fleet.store.rows import RECORD, RunRecord, unpack_record, unpacked

_AT_ONCE = 8  # files; more than there are CPUs, since an object store makes each wait

# Rows, values of a list column, and bytes of texts, that are read at a time.
_STRETCH, _VALUES, _TEXT_BYTES = 4096, 1 << 18, 8 << 20
_READ_WHOLE = 4 << 20  # bytes; of larger files only what is asked for is kept in memory
_OF_A_NAME = (errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG)  # its name leads to no file
_OF_A_FILE = (errno.EACCES, errno.EPERM, errno.EIO)  # the system does not read it, though others
_RUN = re.compile(r"samples/host_id=[^/]+/run_id=([^/]+)/")

_RESTORE = "If the file is damaged, put it back from a copy, or move all files of that run away."
REMEDIES = {
    "samples": _RESTORE,
    "counters": _RESTORE,
    "runs": "Remove it: it is made again from the samples.",
    "cpus": "Remove it and the files in runs: `fleet runs` makes all again from the samples.",
    "pairs": "Remove it: it is made again from the samples.",
    "summaries": "If the file is damaged, put it back from a copy, or remove it and import it again.",
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
    """Read files as one table. skip_damaged: name damaged files by a StoreWarning. Raises StoreError."""
    if len(names) == 1 and not skip_damaged:
        return TableFile(place, names[0], table, threads=True).read(columns, where)

    def read(name: str) -> Any:
        return TableFile(place, name, table).read(columns, where)

    parts = list(readable(names, read).values()) if skip_damaged else each(read, names)
    return joined(parts, table, columns)


@contextmanager
def reading(what: str, remedy: str = _RESTORE, run_id: str | None = None) -> Iterator[None]:
    """Raise DamagedFileError, with what was read and a remedy, where bytes are not what fleet writes.

    That is where the gate, or pyarrow as it decodes them, refuses them, or this file alone cannot be read. If
    network or memory fails, raise the error of that. All else passes: it is a bug. run_id: whose file it is.
    """
    try:
        yield
    except Exception as err:
        text = " ".join(str(err).split()).rstrip(".")
        if is_damage(err):
            raise DamagedFileError(f"{what}: {text}. {remedy}", run_id=run_id) from err
        if isinstance(err, OSError) and err.errno in _OF_A_FILE:
            reason = f"{os.strerror(err.errno)}. Let this user read it, or look at the disk."
            raise DamagedFileError(f"{what}: {reason}", run_id=run_id) from err
        if (cause := explain(err, f"{what}: ")) is not None:
            raise cause from err
        if isinstance(err, OSError):  # of an object store
            raise StoreError(f"{what}: {text}.") from err
        raise


def is_damage(err: Exception) -> bool:
    """Whether this says that bytes are not what fleet writes; not that they could not be read."""
    if isinstance(err, OSError):  # pyarrow's has no errno where it cannot decode, nor where a bucket fails
        return err.errno in _OF_A_NAME or (err.errno is None and "AWS Error" not in str(err))
    return isinstance(err, (DataError, pa.ArrowException)) and not is_lack_of_memory(err)


def run_of(name: str) -> str | None:
    """Return the ID of the run whose file this is by its name; None for a file of several."""
    match = _RUN.match(name)
    return match and match[1]


def leave_out(err: StoreError) -> None:
    """Name what is left out by a StoreWarning."""
    warning = StoreWarning(f"{err} It is left out.")
    warning.__cause__ = err.__cause__
    warn(warning, stacklevel=3)


def readable(names: Sequence[str], read: Callable[[str], _Result]) -> dict[str, _Result]:
    """Read files, by name; a damaged one is left out with a StoreWarning."""

    def tried(name: str) -> _Result | StoreError:
        try:
            return read(name)
        except DamagedFileError as err:
            return err

    found = dict(zip(names, each(tried, names), strict=True))
    for err in found.values():
        if isinstance(err, StoreError):
            leave_out(err)
    return {name: what for name, what in found.items() if not isinstance(what, StoreError)}


def joined(parts: Sequence[Any], table: str, columns: Sequence[str] | None = None) -> Any:
    """Tables below one another; of none, an empty one with its columns."""
    return pa.concat_tables(parts or [_shape(table, columns).empty_table()]).unify_dictionaries()


def chosen(table: Any, name: str, columns: Sequence[str] | None, where: Where) -> Any:
    """Of rows in memory what `read_files` would give: those wanted, in the schema of the table `name`."""
    return _shaped(_only(table, where), _shape(name, columns))


def each(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Do the work for every item, a few at once; the results stand in the order of the items."""
    todo = list(items)
    if len(todo) < 2:
        return list(map(work, todo))
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  which small roots do without

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, todo))


class TableFile:
    """One Parquet file of a table, with its footer read. Raises DamagedFileError for what the gate refuses.

    threads: decode columns side by side; worth it for one big file, a loss for many small ones. whole: check
    all of it, also of large samples, which are otherwise checked page by page as they are read.
    """

    def __init__(
        self, place: Place, name: str, table: str, *, threads: bool = False, whole: bool = False
    ) -> None:
        self._threads = threads
        self.what = f"{place}: cannot read the {table} table: {name}"
        self._run_id = run_of(name)
        self._table = table
        whole = whole or table != "samples"
        source, self._footer = self._try(lambda: _checked(place, name, whole=whole))
        self._size = source.size()
        self._file = self._try(lambda: _opened(source, table))
        self._try(lambda: schema.check_version(self.metadata.get(schema.VERSION, b"")))

    @cached_property
    def _about(self) -> Footer:
        """What its footer says, checked: in a file of a coarse clock few bytes are many samples."""

        def read() -> Footer:
            footer = footer_of(self._footer)
            check_footer(self._table, footer, self._size)
            return footer

        found: Footer = self._try(read)
        return found

    @cached_property
    def metadata(self) -> Mapping[bytes, bytes]:
        """Its key-value metadata."""
        return self._file.metadata.metadata or {}

    @cached_property
    def _schema(self) -> Any:
        return self._file.schema_arrow

    @cached_property
    def record(self) -> RunRecord:
        """Return what a samples file says of its run. Raises DamagedFileError where that is damaged."""
        with reading(f"{self.what}: no record of its run", "Restore it from a copy.", self._run_id):
            return unpacked(self.metadata.get(RECORD, b""))

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self._file.metadata.num_rows)

    def values(self, column: str) -> int:
        """How many values a list column has in all, as the footer tells."""
        found = [one.values for group in self._about.groups for one in group.columns if one.path[0] == column]
        if not found and self.rows:
            raise self._damaged(f"it has no column {column}. {REMEDIES[self._table]}")
        return sum(found)

    @property
    def _stretch(self) -> int:
        """How many rows to read at a time: fewer where each has many values, as the footer tells."""
        found, words = _STRETCH, {(word,) for word in schema.words_of(self._table)}
        for group in self._about.groups:
            most = max((column.values for column in group.columns), default=0)
            texts = (one.unpacked for one in group.columns if one.repeats and one.path not in words)
            found = min(found, _VALUES * group.rows // max(1, most), _TEXT_BYTES // max(1, *texts, 1))
        return max(1, found)

    def as_stored(self, sizes: Iterable[int]) -> Iterator[Any]:
        """All rows and columns, checked by the gate, in tables of so many rows, then the rest."""
        shape = schema.file_schema(self._table)
        if unknown := sorted({*self._schema.names} - {*shape.names}):
            raise self._damaged(f"a column {unknown[0]!r:.50} is none of the table's. {_RESTORE}")
        batches = self._try(lambda: self._file.iter_batches(self._stretch, use_threads=self._threads))
        held = [self._schema.empty_table()]
        for size in sizes:
            while sum(map(len, held)) < size and (part := self._try(lambda: _table_of(next(batches, None)))):
                held.append(part)
            whole = self._try(lambda: pa.concat_tables(held).unify_dictionaries().combine_chunks())  # noqa: B023  called at once
            part, held = whole.slice(0, size), [whole.slice(size)]
            yield self._try(lambda: self._shaped(part, shape))  # noqa: B023  called at once

    def read(self, columns: Sequence[str] | None = None, where: Where | None = None) -> Any:
        """Return the rows wanted, in the schema of the table."""
        where, shape = where or {}, _shape(self._table, columns)
        groups = self._groups(where)
        if not groups:
            return shape.empty_table()
        return self._try(
            lambda: self._shaped(self._wanted(self._held(groups, self._needed(shape, where)), where), shape)
        )

    def stretches(self, columns: Sequence[str] | None = None, where: Where | None = None) -> Iterator[Any]:
        """The same, some rows at a time, so that no more than these have to be held."""
        where, shape = where or {}, _shape(self._table, columns)
        groups = self._groups(where)
        if not groups:  # of which pyarrow 18 makes an error
            return
        batches = self._try(
            lambda: self._file.iter_batches(
                self._stretch, groups, columns=self._needed(shape, where), use_threads=self._threads
            )
        )
        while (rows := self._try(lambda: _table_of(next(batches, None)))) is not None:
            yield self._try(partial(self._shaped, self._wanted(rows, where), shape))

    def _held(self, groups: Sequence[int], columns: Sequence[str]) -> Any:
        """All rows of these groups; where they may be large, some at a time, up to what any take."""
        if self._table == "samples" or self.rows * self._unpacked <= UNPACKED:
            return self._file.read_row_groups(groups, columns=columns, use_threads=self._threads)
        parts = []
        for batch in self._file.iter_batches(self._stretch, groups, columns, self._threads):
            parts.append(_table_of(batch))
            check_held(parts)
        return pa.concat_tables(parts)

    @property
    def _unpacked(self) -> int:
        """The size of its pages unpacked, as the footer tells."""
        groups = map(self._file.metadata.row_group, range(self._file.num_row_groups))
        return sum(group.total_byte_size for group in groups)

    def _groups(self, where: Where) -> list[int]:
        """The row groups whose statistics leave room for a value of each column."""
        count = self._file.num_row_groups
        few = self._table != "samples" and self._unpacked <= FEW_BYTES
        groups = () if few and not where else self._about.groups
        excluded = {number for number, group in enumerate(groups) if not may_hold(group, where)}
        return [number for number in range(count) if number not in excluded]

    def _needed(self, shape: Any, where: Where) -> list[str]:
        return sorted({*self._checked_shape(shape).names, *where} & set(self._schema.names))

    def _checked_shape(self, shape: Any) -> Any:
        """The columns to read and check: where bursts are wanted, all that are checked together."""
        if self._table != "samples" or "ticks" not in shape.names:
            return shape
        return _shape("samples", [*shape.names, *CHECKED_TOGETHER])

    @cached_property
    def _path_columns(self) -> Mapping[str, str]:
        """The values of the columns that are in the path, as the record has them."""
        names = schema.PATH_COLUMNS.get(self._table, ())
        return {name: self.record.row[name] for name in names}

    def _wanted(self, table: Any, where: Where) -> Any:
        """Return the rows wanted, with the columns that are in the path."""
        for name, value in self._path_columns.items():
            places = pa.repeat(pa.scalar(0, pa.int32()), len(table))
            table = table.append_column(name, pa.DictionaryArray.from_arrays(places, pa.array([value])))
        return _only(table, where)

    def _shaped(self, table: Any, shape: Any) -> Any:
        shaped = _shaped(table, self._checked_shape(shape))
        check_table(self._table, shaped)
        if self._table == "samples" and "ticks" in shape.names:
            check_bursts(shaped, self.record.row)
        return _shaped(shaped, shape)

    def _damaged(self, text: str) -> DamagedFileError:
        return DamagedFileError(f"{self.what}: {text}", run_id=self._run_id)

    def _try(self, work: Callable[[], Any]) -> Any:
        with reading(self.what, REMEDIES[self._table], self._run_id):
            try:
                return work()
            except FileNotFoundError as err:
                raise DamagedFileError(
                    f"{self.what}: it is not there any more. Put it back from a copy; see `fleet verify`.",
                    run_id=self._run_id,
                ) from err


def read_record(place: Place, name: str) -> bytes:
    """Read the JSON of the record in a samples file. Raises OSError, DataError."""
    if isinstance(place, Folder):
        with os.fdopen(open_regular(Path(place.path(name))), "rb") as file:
            size = file.seek(0, 2)
            footer = checked_footer(lambda count, at: os.pread(file.fileno(), count, at), size, pages=False)
    else:
        with place.filesystem.open_input_file(place.path(name)) as source:
            footer = checked_footer(source.read_at, source.size(), pages=False)
    schema.check_version(noted(footer, schema.VERSION))
    if not (record := noted(footer, RECORD)):
        raise DataError("no record of its run")
    return unpack_record(record)


def read_table_name(place: Place, name: str) -> str:
    """Read from a file of which table it is; an empty name if it does not say. Raises DamagedFileError."""
    with reading(f"{place}: cannot read {name}"):
        source, _ = _checked(place, name, whole=False)
        metadata = pq.read_metadata(source).metadata or {}
        return str(metadata.get(b"fleet.table", b""), "ascii", "replace")


def _checked(place: Place, name: str, *, whole: bool) -> tuple[Any, bytes]:
    """The file for pyarrow to read, checked, and its footer; of a large one, unless `whole`, only this is."""
    if isinstance(place, Folder):
        check_regular(place.path(name))
        if not name.isprintable():  # pyarrow opens no name that is not UTF-8
            raise OSError("its name is not printable UTF-8; rename it or move it away")
    source = place.filesystem.open_input_file(place.path(name))
    size = source.size()
    if size <= _READ_WHOLE:
        small = source.read_buffer()
        source.close()
        source, whole = pa.BufferReader(small), True
    return source, checked_footer(source.read_at, size, pages=whole)


def _opened(source: Any, table: str) -> Any:
    """Open a file that has all columns of its table; words are read as dictionaries. Raises DataError."""
    names = schema.file_schema(table).names
    words = [name for name in schema.words_of(table) if name in names]
    try:
        file = pq.ParquetFile(source, page_checksum_verification=True, read_dictionary=words)
        lacking = sorted({*names} - {*file.schema_arrow.names})
    except KeyError as err:
        raise DataError(f"it has no column {err.args[0].decode()}, or one that is not text") from None
    except UnicodeDecodeError as err:
        raise DataError("the name of a column is not UTF-8") from err
    if lacking:
        raise DataError(f"it has no column {lacking[0]}")
    return file


def _table_of(batch: Any | None) -> Any | None:
    return None if batch is None else pa.Table.from_batches([batch])


def _shape(table: str, columns: Sequence[str] | None) -> Any:
    return schema.arrow_schema(table, None if columns is None else tuple(columns))


def _shaped(table: Any, shape: Any) -> Any:
    columns = [(table.column(field.name), field.type) for field in shape]
    same = [column if column.type == type_ else column.cast(type_) for column, type_ in columns]
    return pa.Table.from_arrays(same, schema=shape)


def _only(table: Any, where: Where) -> Any:
    kept: Any = None
    for column, values in where.items():
        found = table.column(column)
        if pa.types.is_dictionary(found.type):
            found = found.cast(pa.string())
        mask = pc.is_in(found, pa.array(sorted(values), found.type))
        kept = mask if kept is None else pc.and_(kept, mask)
    return table if kept is None or pc.all(kept).as_py() else table.filter(kept)

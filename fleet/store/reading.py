"""Reads files of one table into pyarrow, and of each no more than is asked for. The one reader of tables.

It opens the files itself: `pyarrow.dataset` imports pandas, and takes three times as long for 1,000 files.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from warnings import warn

from fleet.errors import StoreError, StoreWarning, is_lack_of_memory, lack_of_memory
from fleet.store import schema
from fleet.store.checksums import check, check_tail, tail_length
from fleet.store.files import check_regular
from fleet.store.places import Folder, Place

_AT_ONCE = 8  # files; more than there are CPUs, since an object store makes each wait

_STRETCH = 4096  # rows
_OLD_SYSTEM, _SYSTEM = "machine", "system"  # the relation across sockets, before schema 1.2 and since
_READ_WHOLE = 4 << 20  # bytes; of larger files only what is asked for

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
    """Read files into one table in the schema of `table`; a column they lack is null. Raises StoreError.

    columns: those wanted, in the order of the schema; None for all. skip_damaged: a file that cannot be read
    is named by a StoreWarning instead.
    """
    if len(names) == 1 and not skip_damaged:
        return TableFile(place, names[0], table, threads=True).read(columns, where)

    def read(name: str) -> Any:
        return TableFile(place, name, table).read(columns, where)

    parts = list(readable(names, read).values()) if skip_damaged else each(read, names)
    return joined(parts, table, columns)


def readable(names: Sequence[str], read: Callable[[str], _Result]) -> dict[str, _Result]:
    """What is read of each file, by its name; a StoreWarning for each that cannot be read."""

    def tried(name: str) -> _Result | StoreError:
        try:
            return read(name)
        except StoreError as err:
            return err

    found = dict(zip(names, each(tried, names), strict=True))
    for err in found.values():
        if isinstance(err, StoreError):
            warn(f"{err} It is left out.", StoreWarning, stacklevel=2)
    return {name: what for name, what in found.items() if not isinstance(what, StoreError)}


def joined(parts: Sequence[Any], table: str, columns: Sequence[str] | None = None) -> Any:
    """Tables below one another; of none, an empty one with its columns."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.concat_tables(parts or [_shape(table, columns).empty_table()]).unify_dictionaries()


def chosen(table: Any, name: str, columns: Sequence[str] | None, where: Where) -> Any:
    """Of rows in memory what `read_files` would give: those wanted, in the schema of the table `name`."""
    return _shaped(_only(table, _old_and_new(where)), _shape(name, columns))


def each(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Do the work for every item, a few at once; the results stand in the order of the items."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, items))


class TableFile:
    """One Parquet file of a table, with its footer read. Whatever fails is a StoreError that names it.

    threads: decode columns side by side; worth it for one big file, a loss for many small ones.
    """

    def __init__(self, place: Place, name: str, table: str, *, threads: bool = False) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415

        self._threads = threads
        self.what = f"{place}: cannot read the {table} table: {name}"
        self._table = table
        self._file = self._try(lambda: pq.ParquetFile(_checked(place, name), page_checksum_verification=True))
        version = (self._file.metadata.metadata or {}).get(b"fleet.schema_version", b"").decode()
        if version.partition(".")[0] not in ("", schema.SCHEMA_VERSION.partition(".")[0]):
            raise StoreError(
                f"{self.what}: its schema is version {version}, and this fleet knows "
                f"{schema.SCHEMA_VERSION}. Read it with a newer fleet."
            )

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """Its key-value metadata."""
        return {**(self._file.schema_arrow.metadata or {}), **(self._file.metadata.metadata or {})}

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self._file.metadata.num_rows)

    def values(self, column: str) -> int:
        """How many values a list column has in all, as the footer tells."""
        about, at = self._file.metadata, self._place_of(column)
        return sum(about.row_group(group).column(at).num_values for group in range(about.num_row_groups))

    def as_stored(self, sizes: Iterable[int]) -> Iterator[Any]:
        """Every row and column as the file has them, in tables of so many rows, then the rest."""
        batches = self._try(lambda: self._file.iter_batches(_STRETCH))
        held = self._file.schema_arrow.empty_table()
        for size in sizes:
            while (
                len(held) < size and (part := self._try(lambda: _table_of(next(batches, None)))) is not None
            ):
                held = self._try(lambda: _one_table([held, part]))  # noqa: B023  called at once
            yield held.slice(0, size)
            held = held.slice(size)

    def read(self, columns: Sequence[str] | None = None, where: Where | None = None) -> Any:
        """The rows wanted, in the schema of the table."""
        where = _old_and_new(where or {})
        groups = [group for group in range(self._file.num_row_groups) if self._may_hold(group, where)]
        return self._groups(groups, columns, where)

    def stretches(self, columns: Sequence[str] | None = None, where: Where | None = None) -> Iterator[Any]:
        """The same, some rows at a time, so that no more than these have to be held."""
        where, shape = _old_and_new(where or {}), _shape(self._table, columns)
        groups = [group for group in range(self._file.num_row_groups) if self._may_hold(group, where)]
        batches = self._try(
            lambda: self._file.iter_batches(
                _STRETCH, groups, columns=self._needed(shape, where), use_threads=self._threads
            )
        )
        while (rows := self._try(lambda: _table_of(next(batches, None)))) is not None:
            yield _shaped(_only(rows, where), shape)

    def _needed(self, shape: Any, where: Where) -> list[str]:
        return sorted({*shape.names, *where} & set(self._file.schema_arrow.names))

    def _groups(self, groups: list[int], columns: Sequence[str] | None, where: Where) -> Any:
        shape = _shape(self._table, columns)
        if not groups:
            return shape.empty_table()
        needed, read = self._needed(shape, where), self._file.read_row_groups
        return self._try(
            lambda: _shaped(_only(read(groups, columns=needed, use_threads=self._threads), where), shape)
        )

    def _may_hold(self, group: int, where: Where) -> bool:
        """Whether the statistics of the row group leave room for a value of each column."""
        about = self._file.metadata.row_group(group)
        for column, values in where.items():
            statistics = about.column(self._place_of(column)).statistics
            known = statistics is not None and statistics.has_min_max
            if known and not any(statistics.min <= value <= statistics.max for value in values):
                return False
        return True

    def _place_of(self, column: str) -> int:
        """Which of the file's columns it is; in our tables every field, list or not, is one column there."""
        at: int = self._file.schema_arrow.get_field_index(column)
        if at < 0:
            raise StoreError(f"{self.what}: it has no column {column}.")
        return at

    def _try(self, work: Callable[[], Any]) -> Any:
        import pyarrow as pa  # noqa: PLC0415

        try:
            return work()
        except (OSError, pa.ArrowException) as err:
            if is_lack_of_memory(err):
                raise lack_of_memory(err) from err
            reason = " ".join(str(err).split()).rstrip(".")
            raise StoreError(
                f"{self.what}: {reason}. If the file is damaged, put it back from a copy, or move all files "
                "of that run away."
            ) from err


def _checked(place: Place, name: str) -> Any:
    """The file for pyarrow to read; a small one is read and checked whole, of a large one the footer."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(place, Folder):
        check_regular(place.path(name))
        if not name.isprintable():  # pyarrow opens no name that is not UTF-8
            raise OSError("its name is not UTF-8; rename it or move it away")
    source = place.filesystem.open_input_file(place.path(name))
    size = source.size()
    if size <= _READ_WHOLE:
        whole = source.read_buffer()
        source.close()
        check(memoryview(whole))
        return pa.BufferReader(whole)
    end = tail_length(source.read_at(8, size - 8), size)
    check_tail(source.read_at(end, size - end))
    return source


def _table_of(batch: Any | None) -> Any | None:
    import pyarrow as pa  # noqa: PLC0415

    return None if batch is None else pa.Table.from_batches([batch])


def _one_table(parts: Sequence[Any]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _shape(table: str, columns: Sequence[str] | None) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    shape = schema.arrow_schema(table)
    return shape if columns is None else pa.schema([field for field in shape if field.name in columns])


def _shaped(table: Any, shape: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    there = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in there else pa.nulls(len(table), field.type)
        for field in shape
    ]
    if "relation" in there & set(shape.names):
        at = shape.get_field_index("relation")
        columns[at] = _with_new_relations(columns[at])
    return pa.Table.from_arrays(columns, schema=shape)  # `pa.table` would import pandas


def _only(table: Any, where: Where) -> Any:
    """The rows that have one of the values in every column of `where`."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    kept: Any = None
    for column, values in where.items():
        found = table.column(column)
        if pa.types.is_dictionary(found.type):
            found = found.cast(pa.string())
        mask = pc.is_in(found, pa.array(sorted(values), found.type))
        kept = mask if kept is None else pc.and_(kept, mask)
    return table if kept is None or pc.all(kept).as_py() else table.filter(kept)


def _old_and_new(where: Where) -> Where:
    """The same filter, with the relation `system` under both of its names."""
    names = {_OLD_SYSTEM, _SYSTEM}
    relations = set(where.get("relation", ()))
    return {**where, "relation": relations | names} if relations & names else where


def _with_new_relations(column: Any) -> Any:
    """A column of relations with `system` in place of the name that files before schema 1.2 have."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    def renamed(words: Any) -> Any:
        return pc.if_else(pc.equal(words, _OLD_SYSTEM), _SYSTEM, words)

    if not any(_OLD_SYSTEM in chunk.dictionary.to_pylist() for chunk in column.chunks):
        return column
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, renamed(chunk.dictionary)) for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, column.type)

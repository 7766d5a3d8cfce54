"""Parse Parquet footers without pyarrow, which aborts the process if a column
contradicts itself.

It aborts in `RowGroupMetaData.column` (26.0:
tests/recordings/fuzz/samples/sizes-of-another-type); no `except` catches that.
Checksums guard against accidents, not against a file that a stranger made to import.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from fleet.errors import DataError

_DEPTH = 12  # of structs and lists in one another; Parquet has 8
_ZEROS = bytes(10)  # behind a footer, where they end what it cuts off
# The types of values; 1 and 2 are true and false.
_BYTE, _I16, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 4, 6, 7, 8, 9, 10, 12
_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6
# Fields of parquet.thrift: 16 times the number, plus the type of the value.
_SCHEMA, _NAME, _CHILDREN, _ROWS, _GROUPS, _CHUNKS, _META = (
    0x29,
    0x48,
    0x55,
    0x36,
    0x49,
    0x19,
    0x3C,
)
_TYPE, _VALUES, _BYTES, _DICTIONARY, _BOUNDS, _LARGEST, _SMALLEST = (
    0x15,
    0x56,
    0x66,
    0xB6,
    0xCC,
    0x58,
    0x68,
)


class Column(NamedTuple):
    """A column of a row group, with its bounds. repeats: each text is stored once, so
    may unpack to many.
    """

    path: tuple[str, ...]
    values: int
    unpacked: int
    smallest: Any  # bytes or an int; None if unknown
    largest: Any
    repeats: bool


class RowGroup(NamedTuple):
    """A row group."""

    rows: int
    columns: Sequence[Column]

    def may_contain(self, where: Mapping[str, Collection[Any]]) -> bool:
        """Report whether any row may match `where`, judging by the columns' smallest
        and largest values.
        """
        for column in self.columns:
            low, high = column.smallest, column.largest
            values = where.get(column.path[0]) if len(column.path) == 1 else None
            if values is None or low is None or high is None:
                continue
            encoded = [
                value.encode() if isinstance(value, str) else value for value in values
            ]
            if not any(
                type(value) is not type(low) or low <= value <= high
                for value in encoded
            ):
                return False
        return True


def parse_footer(data: bytes) -> list[RowGroup]:
    """Return the row groups of a footer. data: the footer and all that follows it.
    Raises DataError.
    """
    fields, _ = _read_struct(data + _ZEROS, 0, 0)
    paths, groups = (
        list(_column_paths(iter(fields.get(_SCHEMA, ())), 0)),
        list[RowGroup](),
    )
    for group in fields.get(_GROUPS, ()):
        if len(chunks := group.get(_CHUNKS, ())) != len(paths):
            raise DataError("a row group lacks columns or has too many")
        groups.append(
            RowGroup(group.get(_ROWS, -1), list(map(_parse_column, paths, chunks)))
        )
    if sum(group.rows for group in groups) != fields.get(_ROWS) or any(
        group.rows < 0 for group in groups
    ):
        raise DataError("its row groups do not have its rows")
    return groups


def find_metadata(footer: bytes, key: bytes) -> bytes:
    """Find a key's value in the metadata of an intact footer without parsing the rest;
    b"" if missing.
    """
    # two texts in a struct, each with its length
    name = b"\x18%c%b\x18" % (
        len(key),
        key,
    )
    if (offset := footer.rfind(name)) < 0:
        return b""
    return _read_binary(footer + _ZEROS, offset + len(name), 0)[0]


def _column_paths(
    schema: Iterator[dict[int, Any]], depth: int, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the path of the next field, or the paths of the fields nested in it. Raises
    DataError.
    """
    field = next(schema, {})
    if depth > _DEPTH or _NAME not in field:
        raise DataError("a column has no name in its footer, or is nested too deeply")
    path = (*above, field[_NAME].decode(errors="replace")) if depth else ()
    if path and not field.get(_CHILDREN):
        yield path
    for _ in range(field.get(_CHILDREN, 0)):
        yield from _column_paths(schema, depth + 1, path)


def _parse_column(path: tuple[str, ...], chunk: dict[int, Any]) -> Column:
    meta = chunk.get(_META, {})
    kind, values, unpacked = (
        meta.get(_TYPE),
        meta.get(_VALUES, -1),
        meta.get(_BYTES, -1),
    )
    if values < 0 or unpacked < 0:
        raise DataError("a column has no number of values or bytes")
    bounds, is_text = meta.get(_BOUNDS, {}), kind == _BYTE_ARRAY
    smallest, largest = bounds.get(_SMALLEST), bounds.get(_LARGEST)
    if smallest and largest and kind in (_INT32, _INT64):
        smallest, largest = (
            int.from_bytes(bound, "little", signed=True)
            for bound in (smallest, largest)
        )
    elif not is_text:
        smallest = largest = None
    return Column(
        path, values, unpacked, smallest, largest, is_text and _DICTIONARY in meta
    )


def _read_struct(data: bytes, offset: int, depth: int) -> tuple[dict[int, Any], int]:
    """Parse the struct at `offset`. Return its values by field, and the offset after
    it. Raises DataError.
    """
    if depth > _DEPTH:
        raise DataError("its footer is nested too deeply")
    values: dict[int, Any] = {}
    field, end = 0, len(data) - len(_ZEROS)
    while offset < end and (head := data[offset]):
        offset += 1
        if head < 16:
            raise DataError("a field in its footer is out of order")
        field = (field & ~15) + head
        if (kind := head & 15) < _BYTE:
            values[field] = None
        elif _I16 <= kind <= _I64:  # of most one byte; with a call each it takes longer
            value, offset = (
                (data[offset], offset + 1)
                if data[offset] < 128
                else _read_varint(data, offset)
            )
            values[field] = value >> 1 ^ -(value & 1)
        else:
            values[field], offset = _READERS[kind](data, offset, depth + 1)
    if offset >= end:
        raise DataError("its footer ends too early")
    return values, offset + 1


def _read_list(data: bytes, offset: int, depth: int) -> tuple[list[Any], int]:
    """Return the structs (no other values) of the list at `offset`, and its end. Raises
    DataError.
    """
    if depth > _DEPTH:
        raise DataError("its footer is nested too deeply")
    head = data[offset]
    count, offset = (
        (head >> 4, offset + 1) if head < 0xF0 else _read_varint(data, offset + 1)
    )
    values, read = list[Any](), _READERS[head & 15]
    for _ in range(count):
        if offset >= len(data) - len(_ZEROS):
            raise DataError("a list in its footer is too long")
        value, offset = read(data, offset, depth + 1)
        if read is _read_struct:
            values.append(value)
    return values, offset


def _read_binary(data: bytes, offset: int, _: int) -> tuple[bytes, int]:
    length, offset = _read_varint(data, offset)
    return data[offset : offset + length], offset + length


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value, shift = data[offset], 7
    while value >> shift:  # its last byte has a continuation bit
        offset += 1
        value, shift = value & (1 << shift) - 1 | data[offset] << shift, shift + 7
        if shift > 70:
            raise DataError("a number in its footer is too long")
    return value, offset + 1


def _refuse_type(*_: object) -> NoReturn:
    raise DataError("a value in its footer has no type")


_READERS: Mapping[int, Callable[[bytes, int, int], tuple[Any, int]]] = {
    **dict.fromkeys(range(16), _refuse_type),
    **dict.fromkeys((1, 2, _BYTE), lambda _, offset, __: (None, offset + 1)),
    **dict.fromkeys(
        range(_I16, _I64 + 1), lambda data, offset, _: _read_varint(data, offset)
    ),
    _DOUBLE: lambda _, offset, __: (None, offset + 8),
    _BINARY: _read_binary,
    **dict.fromkeys((_LIST, _SET), _read_list),
    _STRUCT: _read_struct,
}

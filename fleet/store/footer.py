"""Read a Parquet file's footer: pyarrow aborts the process where a column's description contradicts itself.

It does so in `RowGroupMetaData.column` (26.0: tests/recordings/fuzz/samples/sizes-of-another-type), which no
`except` catches. Checksums guard against accidents, not against a file that a stranger made to import.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fleet.errors import DataError

_DEPTH = 12  # of structs and lists in one another; Parquet has 8
# The types of values; 1 and 2 are true and false.
_BYTE, _I16, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 4, 6, 7, 8, 9, 10, 12

_Wanted = Mapping[int, Any]  # fields of a struct that are kept, and of each those that are kept of it
_WANTED: _Wanted = {
    2: {4: {}, 5: {}},  # schema: name, num_children
    3: {},  # num_rows
    4: {  # row_groups: columns with their meta_data, num_rows
        1: {3: {1: {}, 3: {}, 5: {}, 6: {}, 11: {}, 12: {5: {}, 6: {}}}},
        3: {},
    },
    5: {1: {}, 2: {}},  # key_value_metadata
}
_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6


class Column(NamedTuple):
    """A column of a row group, its smallest and largest value; repeats: few bytes may be many long texts."""

    path: tuple[str, ...]
    values: int
    unpacked: int
    least: bytes | int | None
    most: bytes | int | None
    repeats: bool


class RowGroup(NamedTuple):
    """A row group."""

    rows: int
    columns: Sequence[Column]


class Footer(NamedTuple):
    """The contents of a footer. paths: of its columns, the fields inside a list behind the list's own."""

    rows: int
    paths: Sequence[tuple[str, ...]]
    groups: Sequence[RowGroup]
    metadata: Mapping[bytes, bytes]


def parse_footer(data: bytes) -> Footer:
    """Parse a footer; bytes after it are ignored. Raises DataError."""
    try:
        fields, _ = _read_struct(data, 0, _WANTED, 0)
        paths = list(_column_paths(iter(fields[2]), 0))
        groups = [RowGroup(group[3], _parse_columns(paths, group[1])) for group in fields.get(4, ())]
        metadata = {pair[1]: b"" + pair.get(2, b"") for pair in fields.get(5, ())}
        if sum(group.rows for group in groups) != fields[3] or any(group.rows < 0 for group in groups):
            raise DataError("its row groups do not have its rows")
        return Footer(fields[3], paths, groups, metadata)
    except ValueError as err:
        raise DataError(f"its footer is damaged: {err}") from err
    except (LookupError, TypeError, AttributeError) as err:
        raise DataError("its footer is damaged") from err


def find_metadata(footer: bytes, key: bytes) -> bytes:
    """Find the text of a key in the metadata of an intact footer without reading the rest; b"" for none."""
    name = b"\x18%c%b\x18" % (len(key), key)  # two texts in a struct, each with its length
    if (offset := footer.rfind(name)) < 0:
        return b""
    length, offset = _read_varint(footer + bytes(10), offset + len(name))
    return footer[offset : offset + length]


def may_contain(group: RowGroup, where: Mapping[str, Collection[Any]]) -> bool:
    """Report whether, by its statistics, a row group may have a row with one of the values in each column."""
    for column in group.columns:
        smallest: Any = column.least
        largest: Any = column.most
        if smallest is not None and largest is not None and len(column.path) == 1 and column.path[0] in where:
            values = [value.encode() if isinstance(value, str) else value for value in where[column.path[0]]]
            if not any(type(value) is not type(smallest) or smallest <= value <= largest for value in values):
                return False
    return True


def _column_paths(
    schema: Iterator[dict[int, Any]], depth: int, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the path of the next field, or those of the fields in it."""
    field = next(schema, {})
    path = (*above, field[4].decode()) if depth else ()
    if not (inner := field.get(5)):
        yield path
    elif depth > _DEPTH:
        raise DataError("nested too deeply")
    else:
        for _ in range(inner):
            yield from _column_paths(schema, depth + 1, path)


def _parse_columns(paths: Sequence[tuple[str, ...]], chunks: Sequence[dict[int, Any]]) -> list[Column]:
    columns = []
    for path, chunk in zip(paths, chunks, strict=True):
        meta = chunk[3]
        if b".".join(meta[3]) != ".".join(path).encode() or meta[5] < 0 or meta[6] < 0:
            raise DataError("its row groups do not have its columns")
        bounds = meta.get(12, {})
        smallest, largest = _decode_bound(meta[1], bounds.get(6)), _decode_bound(meta[1], bounds.get(5))
        columns.append(
            Column(path, meta[5], meta[6], smallest, largest, 11 in meta and meta[1] == _BYTE_ARRAY)
        )
    return columns


def _decode_bound(type_: int, value: bytes | None) -> bytes | int | None:
    if value is None or type_ == _BYTE_ARRAY:
        return value
    return int.from_bytes(value, "little", signed=True) if type_ in (_INT32, _INT64) else None


def _read_struct(data: bytes, offset: int, fields: _Wanted, depth: int) -> tuple[dict[int, Any], int]:
    """Return these fields of the struct that begins at `offset`, by number, and its end."""
    values: dict[int, Any] = {}
    number = 0
    while head := data[offset]:
        offset += 1
        if head > 15:
            number += head >> 4
        else:
            number, offset = _read_integer(data, offset)
        kind, inner = head & 15, fields.get(number)
        if _I16 <= kind <= _I64:
            value: Any = data[offset]
            offset += 1
            if value > 127:
                value, offset = _read_varint(data, offset - 1)
            value = value >> 1 ^ -(value & 1)
        elif kind < _BYTE:  # true or false
            value = None
        else:
            value, offset = _read_value(data, offset, kind, inner, depth)
        if inner is not None:
            if number in values:
                raise DataError("a field is there twice")
            values[number] = value
    return values, offset + 1


def _read_value(data: bytes, offset: int, kind: int, fields: _Wanted | None, depth: int) -> tuple[Any, int]:
    """Return the value that begins at `offset`, and its end. fields: None if the value is skipped."""
    if _I16 <= kind <= _I64:
        return _read_integer(data, offset)
    if kind == _BINARY:
        length, offset = _read_varint(data, offset)
        return data[offset : offset + length], offset + length
    if kind == _STRUCT and depth <= _DEPTH:
        return _read_struct(data, offset, fields or {}, depth + 1)
    if kind in (_LIST, _SET) and depth <= _DEPTH:
        kind, count, offset = _read_list_head(data, offset)
        values = []
        for _ in range(count):
            value, offset = _read_value(data, offset, kind, fields, depth + 1)
            if fields is not None:
                values.append(value)
        return values, offset
    if kind <= _BYTE or kind == _DOUBLE:
        return None, offset + (1 if kind <= _BYTE else 8)
    raise DataError("a value of no known type, or nested too deeply")


def _read_list_head(data: bytes, offset: int) -> tuple[int, int, int]:
    """Return a list's element type, its length, and the offset of its first element."""
    head = data[offset]
    count, offset = (head >> 4, offset + 1) if head < 0xF0 else _read_varint(data, offset + 1)
    if count > len(data) - offset:
        raise DataError("a list is too long")
    return head & 15, count, offset


def _read_integer(data: bytes, offset: int) -> tuple[int, int]:
    value, offset = _read_varint(data, offset)
    return value >> 1 ^ -(value & 1), offset


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value, shift = data[offset], 7
    while value >> shift:  # its last byte has a continuation bit
        offset += 1
        value, shift = value & (1 << shift) - 1 | data[offset] << shift, shift + 7
        if shift > 70:
            raise DataError("a number is too long")
    return value, offset + 1

"""Read a Parquet file's footer, since pyarrow aborts the process where a column contradicts itself.

It does so in `RowGroupMetaData.column` (26.0: tests/recordings/fuzz/samples/sizes-of-another-type), which no
`except` catches. Checksums guard against accidents, not against a file that a stranger made to import.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fleet.errors import DataError

_DEPTH = 12  # of structs and lists in one another; Parquet has 8
# The types of values; 1 and 2 are true and false.
_BYTE, _I16, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 4, 6, 7, 8, 9, 10, 12
_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6


class Column(NamedTuple):
    """A column of a row group, its smallest and largest value; repeats: few bytes may be many long texts."""

    path: tuple[str, ...]
    values: int
    unpacked: int
    smallest: bytes | int | None
    largest: bytes | int | None
    repeats: bool


class RowGroup(NamedTuple):
    """A row group."""

    rows: int
    columns: Sequence[Column]

    def may_contain(self, where: Mapping[str, Collection[Any]]) -> bool:
        """Report whether, by its statistics, it may have a row with one of the values in each column."""
        for column in self.columns:
            smallest: Any = column.smallest
            largest: Any = column.largest
            values = where.get(column.path[0]) if len(column.path) == 1 else None
            if values is None or smallest is None or largest is None:
                continue
            encoded = [value.encode() if isinstance(value, str) else value for value in values]
            kind = type(smallest)
            if not any(type(value) is not kind or smallest <= value <= largest for value in encoded):
                return False
        return True


def parse_footer(data: bytes) -> list[RowGroup]:
    """Parse a footer, by the numbers that parquet.thrift gives its fields. Raises DataError."""
    try:
        fields, _ = _read_struct(data, 0, 0)
        paths, groups = list(_column_paths(iter(fields[2]), 0)), list[RowGroup]()
        for group in fields.get(4, ()):
            columns = zip(paths, group[1], strict=True)
            groups.append(RowGroup(group[3], [_parse_column(*column) for column in columns]))
    except ValueError as err:
        raise DataError(f"its footer is damaged: {err}") from err
    except (LookupError, TypeError, AttributeError) as err:
        raise DataError("its footer is damaged") from err
    if sum(group.rows for group in groups) != fields.get(3) or any(group.rows < 0 for group in groups):
        raise DataError("its row groups do not have its rows")
    return groups


def find_metadata(footer: bytes, key: bytes) -> bytes:
    """Find the text of a key in the metadata of an intact footer without reading the rest; b"" for none."""
    name = b"\x18%c%b\x18" % (len(key), key)  # two texts in a struct, each with its length
    if (offset := footer.rfind(name)) < 0:
        return b""
    length, offset = _read_varint(footer + bytes(10), offset + len(name))
    return footer[offset : offset + length]


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


def _parse_column(path: tuple[str, ...], chunk: dict[int, Any]) -> Column:
    meta = chunk[3]
    if meta[5] < 0 or meta[6] < 0:
        raise DataError("a column has fewer than no values")
    bounds, is_text = meta.get(12, {}), meta[1] == _BYTE_ARRAY
    smallest, largest = bounds.get(6), bounds.get(5)
    if meta[1] in (_INT32, _INT64):
        smallest = smallest and int.from_bytes(smallest, "little", signed=True)
        largest = largest and int.from_bytes(largest, "little", signed=True)
    elif not is_text:
        smallest = largest = None
    return Column(path, meta[5], meta[6], smallest, largest, is_text and 11 in meta)


def _read_struct(data: bytes, offset: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the values of the struct that begins at `offset`, by numbers of fields, and its end."""
    if depth > _DEPTH:
        raise DataError("nested too deeply")
    values: dict[int, Any] = {}
    number = 0
    while head := data[offset]:
        offset += 1
        if head > 15:
            number += head >> 4
        else:
            number, offset = _read_integer(data, offset, depth)
        if number in values:
            raise DataError("a field is there twice")
        if (kind := head & 15) < _BYTE:  # true or false
            values[number] = None
        elif _I16 <= kind <= _I64 and data[offset] < 128:  # most of them; with a call each it takes longer
            values[number] = data[offset] >> 1 ^ -(data[offset] & 1)
            offset += 1
        else:
            values[number], offset = _READERS[kind](data, offset, depth + 1)
    return values, offset + 1


def _read_list(data: bytes, offset: int, depth: int) -> tuple[list[Any], int]:
    if depth > _DEPTH:
        raise DataError("nested too deeply")
    head = data[offset]
    count, offset = (head >> 4, offset + 1) if head < 0xF0 else _read_varint(data, offset + 1)
    if count > len(data) - offset:
        raise DataError("a list is too long")
    values, read = [], _READERS[head & 15]
    for _ in range(count):
        value, offset = read(data, offset, depth + 1)
        values.append(value)
    return values, offset


def _read_binary(data: bytes, offset: int, _: int) -> tuple[bytes, int]:
    length, offset = _read_varint(data, offset)
    return data[offset : offset + length], offset + length


def _read_integer(data: bytes, offset: int, _: int) -> tuple[int, int]:
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


_READERS: Mapping[int, Callable[[bytes, int, int], tuple[Any, int]]] = {
    **dict.fromkeys((1, 2, _BYTE), lambda _, offset, __: (None, offset + 1)),
    **dict.fromkeys(range(_I16, _I64 + 1), _read_integer),
    _DOUBLE: lambda _, offset, __: (None, offset + 8),
    _BINARY: _read_binary,
    **dict.fromkeys((_LIST, _SET), _read_list),
    _STRUCT: _read_struct,
}

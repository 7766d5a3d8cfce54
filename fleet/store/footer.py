"""Reads a Parquet file's footer: pyarrow ends the process where a column's description contradicts itself.

It does so in `RowGroupMetaData.column` (26.0: tests/recordings/fuzz/samples/sizes-of-another-type), which no
`except` catches. Checksums guard against accidents, and not against a file that a stranger made to import.
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
    """A column of a row group, its least and most value; repeats: few bytes may be many long texts."""

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
    """What a file says of itself. paths: of its columns, the fields inside a list behind its own."""

    rows: int
    paths: Sequence[tuple[str, ...]]
    groups: Sequence[RowGroup]
    metadata: Mapping[bytes, bytes]


def parse_footer(data: bytes) -> Footer:
    """What these bytes say; whatever follows the footer in them is left. Raises DataError."""
    try:
        found, _ = _read_struct(data, 0, _WANTED, 0)
        paths = list(_column_paths(iter(found[2]), 0))
        groups = [RowGroup(group[3], _parse_columns(paths, group[1])) for group in found.get(4, ())]
        metadata = {pair[1]: b"" + pair.get(2, b"") for pair in found.get(5, ())}
        if sum(group.rows for group in groups) != found[3] or any(group.rows < 0 for group in groups):
            raise DataError("its row groups do not have its rows")
        return Footer(found[3], paths, groups, metadata)
    except ValueError as err:
        raise DataError(f"its footer is damaged: {err}") from err
    except (LookupError, TypeError, AttributeError) as err:
        raise DataError("its footer is damaged") from err


def find_metadata(footer: bytes, key: bytes) -> bytes:
    """The text of a key in the metadata of an intact footer, found without reading the rest; b"" for none."""
    name = b"\x18%c%b\x18" % (len(key), key)  # two texts in a struct, each with its length
    if (at := footer.rfind(name)) < 0:
        return b""
    length, at = _read_varint(footer + bytes(10), at + len(name))
    return footer[at : at + length]


def may_contain(group: RowGroup, where: Mapping[str, Collection[Any]]) -> bool:
    """Whether a row group may have a row with one of the values in each column, as its statistics tell."""
    for column in group.columns:
        least: Any = column.least
        most: Any = column.most
        if least is not None and most is not None and len(column.path) == 1 and column.path[0] in where:
            values = [one.encode() if isinstance(one, str) else one for one in where[column.path[0]]]
            if not any(type(one) is not type(least) or least <= one <= most for one in values):
                return False
    return True


def _column_paths(
    schema: Iterator[dict[int, Any]], depth: int, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The columns of the next field, which are those of the fields in it."""
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
        least, most = _decode_bound(meta[1], bounds.get(6)), _decode_bound(meta[1], bounds.get(5))
        columns.append(Column(path, meta[5], meta[6], least, most, 11 in meta and meta[1] == _BYTE_ARRAY))
    return columns


def _decode_bound(type_: int, value: bytes | None) -> bytes | int | None:
    if value is None or type_ == _BYTE_ARRAY:
        return value
    return int.from_bytes(value, "little", signed=True) if type_ in (_INT32, _INT64) else None


def _read_struct(data: bytes, at: int, wanted: _Wanted, depth: int) -> tuple[dict[int, Any], int]:
    """The wanted fields of the struct that begins there, by number, and where it ends."""
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head > 15:
            number += head >> 4
        else:
            number, at = _read_integer(data, at)
        kind, inner = head & 15, wanted.get(number)
        if _I16 <= kind <= _I64:
            value: Any = data[at]
            at += 1
            if value > 127:
                value, at = _read_varint(data, at - 1)
            value = value >> 1 ^ -(value & 1)
        elif kind < _BYTE:  # true or false
            value = None
        else:
            value, at = _read_value(data, at, kind, inner, depth)
        if inner is not None:
            if number in found:
                raise DataError("a field is there twice")
            found[number] = value
    return found, at + 1


def _read_value(data: bytes, at: int, kind: int, wanted: _Wanted | None, depth: int) -> tuple[Any, int]:
    """The value that begins there, and where it ends. wanted: None where it is not kept."""
    if _I16 <= kind <= _I64:
        return _read_integer(data, at)
    if kind == _BINARY:
        length, at = _read_varint(data, at)
        return data[at : at + length], at + length
    if kind == _STRUCT and depth <= _DEPTH:
        return _read_struct(data, at, wanted or {}, depth + 1)
    if kind in (_LIST, _SET) and depth <= _DEPTH:
        kind, count, at = _read_list_head(data, at)
        values = []
        for _ in range(count):
            value, at = _read_value(data, at, kind, wanted, depth + 1)
            if wanted is not None:
                values.append(value)
        return values, at
    if kind <= _BYTE or kind == _DOUBLE:
        return None, at + (1 if kind <= _BYTE else 8)
    raise DataError("a value of no known type, or nested too deeply")


def _read_list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Of a list of what type its elements are, how many there are, and where the first begins."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head < 0xF0 else _read_varint(data, at + 1)
    if count > len(data) - at:
        raise DataError("a list is too long")
    return head & 15, count, at


def _read_integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _read_varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = data[at], 7
    while value >> shift:  # its last byte has a continuation bit
        at += 1
        value, shift = value & (1 << shift) - 1 | data[at] << shift, shift + 7
        if shift > 70:
            raise DataError("a number is too long")
    return value, at + 1

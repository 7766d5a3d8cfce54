"""Builds pyarrow columns through their buffers: its conversion of Python values would load pandas."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.late import np, pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def table(shape: Any, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows, each a value by column name, as a pyarrow table of the schema `shape`."""
    return pa.table([built(field.type, [row[field.name] for row in rows]) for field in shape], schema=shape)


def rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of a table again, for which pyarrow would load pandas where there are times."""
    values = map(_values, (table.column(name).combine_chunks() for name in table.column_names))
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*values, strict=True)]


def _values(column: Any) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        found: list[Any] = column.to_pylist()
        return found
    since = column.view(pa.int64()).to_pylist()
    return [None if ms is None else _EPOCH + timedelta(milliseconds=ms) for ms in since]


def built(type_: Any, values: Sequence[Any]) -> Any:
    """Python values, None among them, as an array of `type_`: any type of `schema`."""
    if pa.types.is_dictionary(type_):
        words = list(dict.fromkeys(value for value in values if value is not None))
        places = {word: at for at, word in enumerate(words)}
        indices = numbers(type_.index_type, *_with_nulls([places.get(value) for value in values], "i4"))
        return pa.DictionaryArray.from_arrays(indices, built(type_.value_type, words))
    known = np.array([value is not None for value in values], "u1")
    if pa.types.is_string(type_):
        pieces = [b"" if value is None else value.encode() for value in values]
        return _array(type_, len(values), known, [_ends(map(len, pieces)), b"".join(pieces)])
    if pa.types.is_list(type_):
        flat = [item for value in values if value is not None for item in value]
        ends = _ends(0 if value is None else len(value) for value in values)
        return _array(type_, len(values), known, [ends], [built(type_.value_type, flat)])
    if pa.types.is_boolean(type_):
        return _array(type_, len(values), known, [_bits(np.array([bool(value) for value in values], "u1"))])
    if pa.types.is_timestamp(type_):
        since = [None if value is None else (value - _EPOCH) // timedelta(milliseconds=1) for value in values]
        return numbers(type_, *_with_nulls(since, "i8"))
    return numbers(type_, *_with_nulls(values, _numpy_name(type_)))


def numbers(type_: Any, values: Any, known: Any = None) -> Any:
    """A numpy array as an array of `type_`, null where `known` is 0."""
    wanted = "i8" if pa.types.is_timestamp(type_) else _numpy_name(type_)
    made = values.astype(wanted, copy=False)
    if made.dtype.kind == "i" and made.dtype.itemsize < values.dtype.itemsize and (made != values).any():
        raise OverflowError(f"{values[made != values][0]} does not fit {type_}")
    return _array(type_, len(values), known, [made])


def _numpy_name(type_: Any) -> str:
    """Name a type of fixed width as numpy does; pyarrow's own answer loads pandas in its older releases."""
    return {"float": "f4", "double": "f8"}.get(str(type_), str(type_))


def coded(type_: Any, places: Any, words: Sequence[str]) -> Any:
    """An array of the dictionary type `type_`: of each row the place of its word in `words`."""
    return pa.DictionaryArray.from_arrays(numbers(type_.index_type, places), built(type_.value_type, words))


def lists(type_: Any, ends: "array[int]", values: "array[int]", order: Any) -> Any:
    """An array of the list type `type_`, in this order; ends: where each list ends in `values`, after a 0."""
    bounds, flat = np.frombuffer(ends, "i4"), np.frombuffer(values, "i8")
    lengths = np.diff(bounds)[order]
    new = np.zeros(len(bounds), "i4")
    np.cumsum(lengths, out=new[1:])
    moved = np.repeat(bounds[:-1][order] - new[:-1], lengths) + np.arange(len(flat), dtype="i4")
    return _array(type_, len(lengths), None, [new], [numbers(type_.value_type, flat[moved])])


def raw(column: Any, unknown: float = 0) -> Any:
    """The numbers of an array as they lie in memory, `unknown` for each null."""
    end = column.offset + len(column)
    buffer = column.buffers()[1] if end else b""
    values = np.frombuffer(buffer, _numpy_name(column.type), end)[column.offset :]
    return np.where(known(column), values, values.dtype.type(unknown)) if column.null_count else values


def text_ends(column: Any) -> Any:
    """Where each text of an array begins, and the last one ends, in bytes."""
    count = column.offset + len(column) + 1
    ends = column.buffers()[1] or bytes(4)  # of no text there may be no buffer
    return np.frombuffer(ends, "i4", count)[column.offset :]


def known(column: Any) -> Any:
    """Which rows of an array are not null."""
    if not column.null_count:
        return np.ones(len(column), bool)
    bits = np.unpackbits(np.frombuffer(column.buffers()[0], np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)].astype(bool)


def words(column: Any) -> list[str]:
    """The word of each row without nulls; of a dictionary array several times quicker than `to_pylist`."""
    found: list[str]
    if pa.types.is_dictionary(column.type):
        known = np.array(column.dictionary.to_pylist(), object)
        found = known[raw(column.indices)].tolist()
    else:  # in a file that another program has rewritten
        found = column.to_pylist()
    return found


def _with_nulls(values: Sequence[Any], dtype: Any) -> tuple[Any, Any]:
    known = np.array([value is not None for value in values], "u1")
    return np.array([0 if value is None else value for value in values], dtype), known


def _array(type_: Any, length: int, known: Any, buffers: Iterable[Any], children: Any = None) -> Any:
    valid = _bits(known) if known is not None and not known.all() else None
    wrapped = [valid and pa.py_buffer(valid), *(pa.py_buffer(buffer) for buffer in buffers)]
    return pa.Array.from_buffers(type_, length, wrapped, children=children)


def _ends(lengths: Iterable[int]) -> Any:
    return np.cumsum([0, *lengths], dtype="i4")


def _bits(flags: Any) -> bytes:
    return np.packbits(flags, bitorder="little").tobytes()

"""Builds pyarrow columns from plain values through their buffers.

pyarrow's own conversion of Python values loads pandas the first time, which costs a short session more
than everything else it computes. Neighbours: `samples` and `publish`, which write what comes out of here.
"""

from array import array
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CODES = {"int32": "q", "int64": "q", "float": "f", "double": "d"}


class Numbers:
    """Whole numbers, some of them unknown, kept unboxed."""

    def __init__(self) -> None:
        self._values = array("q")
        self._known = bytearray()

    def append(self, value: int | None) -> None:
        """Add one."""
        self._known.append(value is not None)
        self._values.append(value or 0)

    def column(self, type_: Any) -> Any:
        """What was added, as an array of `type_`."""
        return fixed(type_, self._values, self._known)


class Words:
    """Strings that are repeated often, each kept once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._indices = array("i")

    def append(self, word: str) -> None:
        """Add one."""
        self._indices.append(self._places.setdefault(word, len(self._places)))

    def column(self, type_: Any) -> Any:
        """What was added, as an array of the dictionary type `type_`."""
        import pyarrow as pa  # noqa: PLC0415

        indices = fixed(type_.index_type, self._indices)
        return pa.DictionaryArray.from_arrays(indices, built(type_.value_type, list(self._places)))


def table(shape: Any, rows: Sequence[dict[str, Any]]) -> Any:
    """Rows, each a value by column name, as a pyarrow table of the schema `shape`."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.table([built(field.type, [row[field.name] for row in rows]) for field in shape], schema=shape)


def built(type_: Any, values: Sequence[Any]) -> Any:
    """Python values, None among them, as an array of `type_`: any type of `schema`."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(type_):
        return built(type_.value_type, values).dictionary_encode().cast(type_)
    known = bytearray(value is not None for value in values)
    if pa.types.is_string(type_):
        pieces = [b"" if value is None else value.encode() for value in values]
        return _array(type_, len(values), known, [_ends(map(len, pieces)), b"".join(pieces)])
    if pa.types.is_list(type_):
        flat = [item for value in values if value is not None for item in value]
        ends = _ends(0 if value is None else len(value) for value in values)
        return _array(type_, len(values), known, [ends], [built(type_.value_type, flat)])
    if pa.types.is_boolean(type_):
        return _array(type_, len(values), known, [_bits(bytearray(map(bool, values)))])
    if pa.types.is_timestamp(type_):
        since = [0 if value is None else (value - _EPOCH) // timedelta(milliseconds=1) for value in values]
        return fixed(type_, array("q", since), known)
    return fixed(type_, array(_CODES[str(type_)], [value or 0 for value in values]), known)


def fixed(type_: Any, values: "array[Any]", known: bytearray | None = None) -> Any:
    """Numbers as an array of `type_`, null where `known` is 0; those of 64 bits may be cast to 32."""
    import pyarrow as pa  # noqa: PLC0415

    wide = pa.int64() if values.typecode == "q" and pa.types.is_int32(type_) else type_
    made = _array(wide, len(values), known, [values])
    return made if wide is type_ else made.cast(type_)


def lists(type_: Any, ends: "array[int]", values: "array[int]") -> Any:
    """An array of the list type `type_`; ends: where each list ends in `values`, after a 0."""
    return _array(type_, len(ends) - 1, None, [ends], [fixed(type_.value_type, values)])


def raw(column: Any, unknown: int = 0) -> bytes:
    """The bytes of an array of numbers as they lie in memory, `unknown` for each null."""
    import numpy as np  # noqa: PLC0415

    valid, data = column.buffers()
    part = slice(column.offset, column.offset + len(column))
    values = np.frombuffer(data or b"", column.type.to_pandas_dtype())[part]
    if column.null_count:
        known = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[part]
        values = np.where(known, values, values.dtype.type(unknown))
    return values.tobytes()


def _array(
    type_: Any, length: int, known: bytearray | None, buffers: Iterable[Any], children: Any = None
) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    valid = _bits(known) if known is not None and not all(known) else None
    wrapped = [valid and pa.py_buffer(valid), *(pa.py_buffer(buffer) for buffer in buffers)]
    return pa.Array.from_buffers(type_, length, wrapped, children=children)


def _ends(lengths: Iterable[int]) -> "array[int]":
    ends = array("i", [0])
    for length in lengths:
        ends.append(ends[-1] + length)
    return ends


def _bits(flags: bytearray) -> bytes:
    """One bit per flag, as Arrow packs them."""
    import numpy as np  # noqa: PLC0415

    return np.packbits(np.frombuffer(flags, np.uint8), bitorder="little").tobytes()

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fleet.store.columns import built, coded, lists, numbers, raw, words

MOMENT = datetime(2026, 11, 21, 16, 24, 2, 345_000, tzinfo=UTC)
WORD = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.int32(), [1, None, -5, 2**31 - 1]),
        (pa.int64(), [2**63 - 1, -(2**63), None, 0]),
        (pa.float64(), [0.1, None, float("inf"), 3]),
        (pa.float32(), [0.5, None]),
        (pa.bool_(), [True, None, False, *([True] * 9)]),
        (pa.string(), ["", None, "a\0b", "µs — 🙂", "x" * 300]),
        (pa.timestamp("ms", tz="UTC"), [MOMENT, None, datetime(1969, 12, 31, 23, tzinfo=UTC)]),
        (pa.list_(pa.field("element", pa.string(), nullable=False)), [["a", ""], None, [], ["b"]]),
        (pa.list_(pa.field("element", pa.int32(), nullable=False)), [[1, 2], [], None]),
        (pa.int64(), []),
        (pa.string(), []),
    ],
    ids=str,
)
def test_a_column_holds_what_pyarrow_itself_would_make_of_the_values(type_: Any, values: list[Any]) -> None:
    column = built(type_, values)
    column.validate(full=True)
    assert column.equals(pa.array(values, type_))


def test_words_are_kept_once_and_counted() -> None:
    column = coded(WORD, np.array([0, 1, 0]), ["cas", "clock"])
    assert (column.type, column.to_pylist()) == (WORD, ["cas", "clock", "cas"])
    assert column.dictionary.to_pylist() == ["cas", "clock"]
    assert built(WORD, ["a", None, "a"]).to_pylist() == ["a", None, "a"]


def test_a_number_too_large_for_its_column_is_refused_not_cut() -> None:
    with pytest.raises(OverflowError, match="2147483648 does not fit int32"):
        numbers(pa.int32(), np.array([2**31]))


def test_lists_end_where_they_are_said_to() -> None:
    from array import array  # noqa: PLC0415  beside its only use

    column = lists(pa.list_(pa.int64()), array("i", [0, 2, 2, 3]), array("q", [7, 8, 9]), np.array([2, 0, 1]))
    assert column.to_pylist() == [[9], [7, 8], []]


def test_raw_numbers_are_those_of_the_values_of_a_part_too() -> None:
    column = pa.array([1, 2, 3, 4], pa.int32())
    assert raw(column).tobytes() == column.to_numpy().tobytes()
    assert raw(column[1:3]).tobytes() == column[1:3].to_numpy().tobytes()
    assert raw(column[:0]).tobytes() == b""
    some = pa.array([5, None, 7, None], pa.int64())[1:]
    assert raw(some, unknown=-1).tobytes() == some.fill_null(-1).to_numpy().tobytes()


def test_words_are_those_of_each_row_whatever_the_encoding() -> None:
    plain = pa.array(["b", "a", "b", "b"])
    assert words(plain) == words(plain.dictionary_encode()) == ["b", "a", "b", "b"]
    assert words(plain.dictionary_encode()[1:3]) == ["a", "b"]
    assert words(pa.array([], pa.string()).dictionary_encode()) == []

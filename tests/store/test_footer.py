"""The footer of a Parquet file, as we read it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleet.store.footer import parse_footer

NAME = b"\x48\x01x\x00"  # the name of a field of the schema


def test_it_says_what_pyarrow_reads(tmp_path: Path) -> None:
    table = pa.table({"a": [3, -200, 5000], "b": ["x", "é", "y"], "c": [[1, 2], [], None], "d": [None] * 3})
    pq.write_table(table.replace_schema_metadata({"key": "value" * 50}), tmp_path / "x", row_group_size=2)
    found = parse_footer(
        (tmp_path / "x").read_bytes()[-pq.read_metadata(tmp_path / "x").serialized_size - 8 :]
    )
    about = pq.read_metadata(tmp_path / "x")
    assert (found.rows, [group.rows for group in found.groups]) == (3, [2, 1])
    assert found.metadata == about.metadata
    assert found.paths == [("a",), ("b",), ("c", "list", "element"), ("d",)]
    for number, group in enumerate(found.groups):
        for at, column in enumerate(group.columns):
            same = about.row_group(number).column(at)
            assert (column.values, column.unpacked) == (same.num_values, same.total_uncompressed_size)
    first, second, *_ = found.groups[0].columns
    assert (first.least, first.most) == (-200, 3)
    assert (second.least, second.most) == (b"x", "é".encode())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is damaged"),
        (b"\x15\x02", "is damaged"),
        (b"\x15" + b"\xff" * 11, "a number is too long"),
        (b"\x29\xfc\xff\xff\x7f", "a list is too long"),
        (b"\x9c" + b"\x1c" * 5000, "nested too deeply"),
        (b"\x29\x1c" + NAME + b"\x16\x02\x06\x06\x02\x00", "twice"),
        (b"\x29\x1c" + NAME + b"\x16\x02\x00", "do not have its rows"),
        (b"\x29\x1c\x48\x01x\x15\xfe\xff\x7f\x00\x16\x00\x00", "is damaged"),
        (b"\x28\x01x\x00", "is damaged"),
    ],
)
def test_one_that_is_wrong_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_footer(data)

"""Read the footer of a Parquet file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleet.store.footer import find_metadata, parse_footer

NAME = b"\x48\x01x\x00"  # the name of a field of the schema


def test_the_parser_reads_what_pyarrow_reads(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a": [3, -200, 5000],
            "b": ["x", "é", "y"],
            "c": [[1, 2], [], None],
            "d": [None] * 3,
        }
    )
    pq.write_table(
        table.replace_schema_metadata({"key": "value" * 50}),
        tmp_path / "x",
        row_group_size=2,
    )
    metadata = pq.read_metadata(tmp_path / "x")
    footer = (tmp_path / "x").read_bytes()[-metadata.serialized_size - 8 :]
    groups = parse_footer(footer)
    assert [group.rows for group in groups] == [2, 1]
    assert find_metadata(footer, b"key") == b"value" * 50
    paths = [("a",), ("b",), ("c", "list", "element"), ("d",)]
    for number, group in enumerate(groups):
        assert [column.path for column in group.columns] == paths
        for place, column in enumerate(group.columns):
            same = metadata.row_group(number).column(place)
            assert (column.values, column.unpacked) == (
                same.num_values,
                same.total_uncompressed_size,
            )
    first, second, *_ = groups[0].columns
    assert (first.smallest, first.largest) == (-200, 3)
    assert (second.smallest, second.largest) == (b"x", "é".encode())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "too early"),
        (b"\x15" + b"\xff" * 11, "a number in its footer is too long"),
        (b"\x29\xfc\xff\xff\x7f", "a list in its footer is too long"),
        (b"\x9c" + b"\x1c" * 5000, "nested too deeply"),
        (b"\x29\x1c" + NAME + b"\x16\x02\x06\x06\x02\x00", "out of order"),
        (b"\x29\x1c" + NAME + b"\x16\x02\x00", "do not have its rows"),
        (b"\x29\x1c\x48\x01x\x15\xfe\xff\x7f\x00\x16\x00\x00", "no name"),
        (
            b"\x29\x1c" + NAME + b"\x16\x02\x19\x1c\x19\x1c\x00\x26\x02\x00\x00",
            "lacks columns",
        ),
        (b"\x2b", "no type"),
    ],
)
def test_a_wrong_footer_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_footer(data)

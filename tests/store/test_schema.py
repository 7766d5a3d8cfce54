import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleet.analysis.reduce import load_pairs, load_samples
from fleet.store import Store, schema
from fleet.store.gate import parse_record
from fleet.store.rows import RECORD, make_cpus_rows, require_hello, unpack_record
from fleet.store.writing import write_summary
from tests import builders

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def page_columns(table: str) -> list[tuple[str, str, bool]]:
    """Return the rows of the page's table under the heading of `table`, those with a
    meaning.
    """
    section = re.split(rf"^## {table}: ", PAGE.read_text(), flags=re.MULTILINE)[
        1
    ].split("\n## ")[0]
    row = r"^\| `(\w+)`(?: to `(\w+)`)?((?:, `\w+`)*) \| (?:`([^`?]+)(\??)` )?\| \S"
    columns: list[tuple[str, str, bool]] = []
    for name, last, more, type_, null in re.findall(row, section, flags=re.MULTILINE):
        if last:  # the same columns as those of samples, from one to another
            same = page_columns("samples")
            names = [column for column, _, _ in same]
            columns += same[names.index(name) : names.index(last) + 1]
        else:
            columns += [
                (column, type_, null == "?")
                for column in (name, *re.findall(r"\w+", more))
            ]
    return columns


def plain_type(type_: pa.DataType) -> str:
    """Name a type as the page does."""
    if pa.types.is_list(type_):
        assert not type_.value_field.nullable
        return f"list<{plain_type(type_.value_type)}>"
    names = {
        "float": "float32",
        "double": "float64",
        "timestamp[ms, tz=UTC]": "timestamp[ms, UTC]",
    }
    return names.get(str(type_), str(type_))


@pytest.mark.parametrize("table", sorted({*schema.TABLES} - {"pairs", "numbers"}))
def test_the_page_the_code_and_the_files_say_the_same(
    table: str, tmp_path: Path
) -> None:
    run = builders.a_run()
    run = replace(run, hello=replace(require_hello(run), counters=("cycles",)))
    counted = builders.a_burst(
        round=9, counters=(((1, 2, 3),), (None,)), steal_ppm=(0, 7)
    )
    samples = Store(tmp_path).publish(run, [*builders.make_bursts(run), counted])
    write_summary(tmp_path, run.run_id, [])
    path = tmp_path / (
        samples if table == "samples" else f"{table}/{run.run_id}.parquet"
    )
    coded = [
        (column.name, column.type, column.nullable) for column in schema.TABLES[table]
    ]
    written = pq.read_schema(path)

    assert page_columns(table) == coded
    assert written.metadata[b"fleet.table"].decode() == table
    assert written.metadata[b"fleet.schema_version"].decode() == schema.SCHEMA_VERSION
    assert f"Schema version {schema.SCHEMA_VERSION}." in PAGE.read_text()
    assert b"ARROW:schema" not in pq.read_metadata(path).metadata
    in_path = {"host_id", "run_id"} if table == "samples" else set()
    expected = [column for column in coded if column[0] not in in_path]
    assert [
        (field.name, plain_type(field.type), field.nullable) for field in written
    ] == expected


def test_the_page_says_what_pairs_have(tmp_path: Path) -> None:
    coded = schema.TABLES["pairs"]
    assert page_columns("pairs") == [
        (column.name, column.type, column.nullable) for column in coded
    ]
    run = builders.a_run()
    Store(tmp_path).publish(run, builders.make_bursts(run))
    assert list(load_pairs(tmp_path).columns) == [column.name for column in coded]


def test_the_page_says_what_numbers_have() -> None:
    coded = schema.TABLES["numbers"]
    assert page_columns("numbers") == [
        (column.name, column.type, column.nullable) for column in coded
    ]


def test_a_short_run_takes_few_bytes(tmp_path: Path) -> None:
    run = builders.a_run()
    bursts = [
        builders.a_burst(
            round=visit, ticks=tuple(range(500 + visit, 510 + visit)), steal_ppm=(0, 0)
        )
        for visit in range(22)
    ]
    file = tmp_path / Store(tmp_path).publish(run, bursts)
    assert file.stat().st_size < 7500
    assert list(load_samples(tmp_path).columns) == schema.arrow_schema("samples").names


def test_ticks_are_stored_byte_by_byte_and_compressed(tmp_path: Path) -> None:
    run = builders.a_run()
    file = pq.ParquetFile(
        tmp_path / Store(tmp_path).publish(run, builders.make_bursts(run, samples=2000))
    )
    ticks = next(
        column
        for number in range(file.metadata.num_columns)
        if (
            column := file.metadata.row_group(0).column(number)
        ).path_in_schema.startswith("ticks")
    )

    assert "BYTE_STREAM_SPLIT" in ticks.encodings
    assert ticks.compression == "ZSTD"


def test_a_samples_file_alone_explains_itself(tmp_path: Path) -> None:
    run = builders.a_run()
    file = pq.ParquetFile(
        tmp_path / Store(tmp_path).publish(run, builders.make_bursts(run))
    )
    record = parse_record(unpack_record(file.metadata.metadata[RECORD]))

    assert record.row["cpu_model"] == "Model T"
    assert record.row["ticks_per_second"] == builders.TICKS_PER_SECOND
    assert record.row["kernel"] is None
    assert record.cpus == make_cpus_rows(run)

"""Files from before schema 1.2, which call the relation across sockets `machine`."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleet.analysis.exchange.imports import find_summary, load_imports
from fleet.analysis.reduce.load import load_samples
from fleet.analysis.reduce.pairs import load_pairs
from fleet.analysis.views.history import of_relation
from fleet.analysis.views.show import show_text
from fleet.analysis.views.text import json_text, records
from fleet.model import Relation
from fleet.store import Store
from fleet.store.imports import write_summary
from tests import builders

CPUS = tuple(cpu for cpu in builders.two_sockets() if cpu.cpu in (0, 1, 8, 32, 40))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run over two sockets and an import, their samples and pairs as older versions stored them."""
    run = builders.a_run(CPUS)
    Store(tmp_path).publish(run, builders.bursts_of(run))
    first = records(find_summary(tmp_path, "i3-2120t"))[0]
    write_summary(tmp_path, "old", [first | {"summary": "old", "relation": "system"}])
    load_pairs(tmp_path)
    for file in [*tmp_path.rglob("samples.parquet"), *tmp_path.rglob("pairs.parquet")]:
        make_old(file)
    make_old(tmp_path / "_summaries" / "old.parquet")
    return tmp_path


def make_old(path: Path) -> None:
    """Write the file again with the word of schema 1.1."""
    file = pq.ParquetFile(path)
    metadata = {**(file.metadata.metadata or {}), b"fleet.schema_version": b"1.1"}
    table = file.read()
    at = table.column_names.index("relation")
    words = ["machine" if word == "system" else word for word in table["relation"].to_pylist()]
    assert "machine" in words
    column = pa.array(words).dictionary_encode().cast(table.schema.field(at).type)
    table = table.set_column(at, table.schema.field(at), column)
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=16)


def test_a_new_file_has_the_new_word_for_plain_pandas(tmp_path: Path) -> None:
    run = builders.a_run(CPUS)
    Store(tmp_path).publish(run, builders.bursts_of(run))
    assert "system" in set(pd.read_parquet(tmp_path)["relation"])


def test_samples_and_pairs_are_read_with_the_new_word(root: Path) -> None:
    for load in (load_samples, load_pairs):
        every = load(root)
        assert "machine" not in set(every["relation"])
        across = every["relation"] == "system"
        assert across.any()
        for word in ("system", "machine"):
            found = load(root, relation=word)
            assert len(found) == across.sum()
            assert set(found["relation"]) == {"system"}
        assert len(load(root, relation=["system", "llc", "package"])) > across.sum()


def test_pairs_derived_from_old_samples_have_the_new_word(root: Path) -> None:
    kept = load_pairs(root)
    for file in root.rglob("pairs.parquet"):
        file.unlink()
    assert sorted(load_pairs(root)["relation"]) == sorted(kept["relation"])
    assert "system" in set(pd.read_parquet(root / "_pairs")["relation"])


def test_imports_are_read_with_the_new_word(root: Path) -> None:
    assert set(load_imports(root)["relation"]) == {"system"}


def test_the_views_show_the_new_word_and_take_both(root: Path) -> None:
    runs = Store(root).runs()
    assert "system: across sockets" in show_text(root, runs[0].run_id)
    for word in ("system", "machine"):
        (row,) = json.loads(json_text(of_relation(root, runs, word, None)))
        assert row["relation"] == "system"
    assert Relation("machine") is Relation.SYSTEM

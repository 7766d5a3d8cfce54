import os
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleet.errors import StoreWarning
from fleet.model import Host
from fleet.store import Listing, Store, new_run_id, run_tables
from fleet.store.reading import TableFile
from tests import builders


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two published runs, listed once."""
    store = Store(tmp_path)
    for name in ("a", "b"):
        publish(store, name)
    assert len(Listing(store.place).with_unfinished()) == 2
    return store


def publish(store: Store, name: str) -> str:
    run = builders.a_run(run_id=new_run_id(), host=Host(name, "192.0.2.1"))
    store.publish(run, builders.bursts_of(run))
    return run.run_id


def in_table(store: Store) -> list[str]:
    """The run ids of `runs`, as plain pandas reads them."""
    return sorted(pd.read_parquet(store.place.root / "runs")["run_id"])


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened from now on."""
    names: list[str] = []
    real = TableFile.__init__

    def spy(self: TableFile, place, name: str, table: str) -> None:
        names.append(name)
        real(self, place, name, table)

    monkeypatch.setattr(TableFile, "__init__", spy)
    return names


def test_a_listing_opens_only_the_files_it_has_not_seen(store: Store, monkeypatch) -> None:
    before, names = Listing(store.place).with_unfinished(), opened(monkeypatch)
    assert Listing(store.place).with_unfinished() == before
    assert names == []
    new = publish(store, "c")
    assert {run.host_name for run in Listing(store.place).with_unfinished()} == {"a", "b", "c"}
    assert names == [f"runs/{new}.parquet"]


def test_a_run_whose_folder_was_removed_is_not_listed(store: Store) -> None:
    gone, left = Listing(store.place).with_unfinished()
    shutil.rmtree(store.place.root / f"samples/host_id={gone.host_id}")
    assert Listing(store.place).with_unfinished() == [left]


def test_a_run_that_the_table_lacks_is_listed_from_its_samples(store: Store) -> None:
    before = Listing(store.place).with_unfinished()
    shutil.rmtree(store.place.root / "runs")
    assert Listing(store.place).with_unfinished() == before
    assert not (store.place.root / "runs").exists()  # its session may be about to add it
    for path in store.place.root.glob("samples/host_id=*/*/samples.parquet"):
        os.utime(path, (0, 0))
    assert Listing(store.place).with_unfinished() == before
    assert sorted(pd.read_parquet(store.place.root / "runs")["run_id"]) == sorted(
        run.run_id for run in before
    )
    assert len(pd.read_parquet(store.place.root / "cpus")) == 4
    assert Listing(store.place).with_unfinished() == before


def test_a_file_that_changed_is_read_again(store: Store) -> None:
    first, second = Listing(store.place).with_unfinished()
    file = store.place.root / "runs" / f"{first.run_id}.parquet"
    table = pq.read_table(file)
    at = table.column_names.index("host_name")
    builders.put_table(table.set_column(at, "host_name", pa.array(["renamed"])), file)
    assert [run.host_name for run in Listing(store.place).with_unfinished()] == ["renamed", second.host_name]


def test_many_small_files_become_few_and_every_row_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tables, "MANY_FILES", 2)
    before, cpus = Listing(store.place).with_unfinished(), len(pd.read_parquet(store.place.root / "cpus"))
    (table,) = (store.place.root / "runs").iterdir()
    assert table.name.startswith("runs-")
    assert Listing(store.place).with_unfinished() == before
    assert sorted(pd.read_parquet(store.place.root / "runs")["run_id"]) == sorted(
        run.run_id for run in before
    )
    assert len(pd.read_parquet(store.place.root / "cpus")) == cpus == 4
    assert not [path for path in (store.state_dir / "staging").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    "spoilt",
    ["", "no json", "[]", "{}", '{"columns": ["run_id"], "files": {}}', '{"columns": 1, "files": 1}'],
)
def test_an_index_that_does_not_fit_is_made_again(
    store: Store, spoilt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, index = Listing(store.place).with_unfinished(), store.state_dir / "_index" / "runs.jsonl"
    whole = index.read_text()
    head = whole.partition("\n")[0]
    for text in (spoilt, whole[: len(whole) // 2], f"{head}\n{spoilt}", whole.replace("complete", "partial")):
        index.write_text(text)
        assert Listing(store.place).with_unfinished() == before
        names = opened(monkeypatch)
        assert Listing(store.place).with_unfinished() == before
        assert names == []


def test_where_no_index_can_be_written_runs_are_listed_all_the_same(store: Store) -> None:
    before, folder = Listing(store.place).with_unfinished(), store.state_dir / "_index"
    shutil.rmtree(folder)
    folder.write_text("a file where the folder should be")
    assert Listing(store.place).with_unfinished() == before


@pytest.mark.parametrize("spoilt", ["cut short", "another program's", "a flipped bit"])
def test_a_file_of_the_table_that_cannot_be_read_is_named_and_the_runs_are_listed(
    store: Store, spoilt: str
) -> None:
    before = Listing(store.place).with_unfinished()
    (file, _) = sorted((store.place.root / "runs").iterdir())
    whole = bytearray(file.read_bytes())
    whole[200] ^= 1
    match spoilt:
        case "cut short":
            file.write_bytes(file.read_bytes()[:-100])
        case "another program's":
            pq.write_table(pa.table({"x": [1, 2]}), file)
        case _:
            file.write_bytes(bytes(whole))
    with pytest.warns(StoreWarning, match=file.name):
        assert Listing(store.place).with_unfinished() == before


def test_labels_and_states_survive_the_index(store: Store) -> None:
    run = replace(builders.a_run(run_id=new_run_id()), ended_utc=None)
    store.publish(run, builders.bursts_of(run))
    for _ in range(2):
        found = next(each for each in Listing(store.place).with_unfinished() if each.run_id == run.run_id)
        assert (dict(found.labels), found.ended_utc) == ({"rack": "b2", "kernel": "6.12"}, None)
        assert found.content_sha256 is not None

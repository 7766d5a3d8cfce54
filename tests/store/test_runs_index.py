import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fleet.errors import StoreError
from fleet.model import Host
from fleet.store import Store, new_run_id
from fleet.store.reading import TableFile
from tests import builders


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two published runs, listed once."""
    store = Store(tmp_path)
    for name in ("a", "b"):
        publish(store, name)
    assert len(store.runs()) == 2
    return store


def publish(store: Store, name: str) -> str:
    run = builders.a_run(run_id=new_run_id(), host=Host(name, "192.0.2.1"))
    store.publish(run, builders.bursts_of(run))
    return run.run_id


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
    before, names = store.runs(), opened(monkeypatch)
    assert store.runs() == before
    assert names == []
    new = publish(store, "c")
    assert {run.host_name for run in store.runs()} == {"a", "b", "c"}
    assert names == [f"_runs/{new}.parquet"]


def test_a_run_that_is_gone_is_not_listed(store: Store) -> None:
    gone, left = store.runs()
    (store.state_dir / "_runs" / f"{gone.run_id}.parquet").unlink()
    assert store.runs() == [left]


def test_a_file_that_changed_is_read_again(store: Store) -> None:
    first, second = store.runs()
    files = [store.state_dir / "_runs" / f"{run.run_id}.parquet" for run in (first, second)]
    files[0].write_bytes(files[1].read_bytes())
    assert store.runs() == [second, second]


@pytest.mark.parametrize(
    "spoilt", ["", "no json", "[]", "{}", '{"columns": ["run_id"], "rows": {}}', '{"columns": 1, "rows": 1}']
)
def test_an_index_that_does_not_fit_is_made_again(store: Store, spoilt: str) -> None:
    before, index = store.runs(), store.state_dir / "_index" / "runs.json"
    whole = index.read_text()
    for text in (spoilt, whole[: len(whole) // 2], json.dumps(json.loads(whole) | {"rows": {"x": 1}})):
        index.write_text(text)
        assert store.runs() == before
        assert index.read_text() == whole


def test_where_no_index_can_be_written_runs_are_listed_all_the_same(store: Store) -> None:
    before, folder = store.runs(), store.state_dir / "_index"
    (folder / "runs.json").unlink()
    folder.rmdir()
    folder.write_text("a file where the folder should be")
    assert store.runs() == before


def test_a_run_file_without_its_row_is_named(store: Store) -> None:
    (file, _) = sorted((store.state_dir / "_runs").iterdir())
    pq.write_table(pq.read_table(file).slice(0, 0), file)
    with pytest.raises(StoreError, match=f"{file.name} holds 0 rows"):
        store.runs()


def test_labels_and_states_survive_the_index(store: Store) -> None:
    run = replace(builders.a_run(run_id=new_run_id()), ended_utc=None)
    store.publish(run, builders.bursts_of(run))
    for _ in range(2):
        found = next(each for each in store.runs() if each.run_id == run.run_id)
        assert (dict(found.labels), found.ended_utc) == ({"rack": "b2", "kernel": "6.12"}, None)
        assert found.content_sha256 is not None

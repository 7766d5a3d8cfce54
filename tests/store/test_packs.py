"""Views of many small runs read packs; whatever happens to a pack or a run, they say what the files say."""

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis.reduce import pairs as reduce_pairs
from fleet.analysis.reduce.load import load_cpus, load_runs
from fleet.analysis.reduce.pairs import load_pairs
from fleet.analysis.report.page import render
from fleet.analysis.views.warnings import load_marked
from fleet.store import Listing, packs
from fleet.store.reading import TableFile
from tests.store.test_one_reading import fill

RUNS = 16


@pytest.fixture(autouse=True)
def _few_runs_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "_MANY", RUNS)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("packs")
    fill(root, 2, RUNS)
    notes = list[str]()
    load_pairs(root, note=notes.append)
    assert notes == ["reducing samples to pairs; this is done once for each run"], "of several packs too"
    return root


def views(root: Path) -> list[pd.DataFrame]:
    listing = Listing(root)
    ids = [run.run_id for run in listing.runs]
    asked = {"benchmark": "cas", "columns": ["run_id", "median_ns"]}
    found = [load_pairs(root), load_pairs(root, **asked), load_pairs(root, columns=["median_ns"])]
    return [*found, load_runs(root), load_cpus(root), load_marked(listing, ids)]


def from_files(root: Path) -> list[pd.DataFrame]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packs, "_MANY", 10**6)
        return views(root)


def same(found: list[pd.DataFrame], expected: list[pd.DataFrame]) -> None:
    for one, other in zip(found, expected, strict=True):
        pd.testing.assert_frame_equal(one, other, check_categorical=False)


def packs_of(root: Path) -> list[Path]:
    return sorted(path for path in (root / ".fleet" / "_index").iterdir() if "-host" in path.name)


def test_packs_hold_what_the_files_of_runs_hold_and_spare_opening_these(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = from_files(stored)
    same(views(stored), expected)
    assert len(packs_of(stored)) == 2 * len(("pairs", "bursts", "records"))
    opened = []
    init: Callable[..., None] = TableFile.__init__

    def counted(self: TableFile, place: object, name: str, *rest: object, **named: object) -> None:
        opened.append(name)
        init(self, place, name, *rest, **named)

    monkeypatch.setattr(TableFile, "__init__", counted)
    same(views(stored), expected)
    assert opened
    assert [name for name in opened if not name.startswith(("_index/", "runs/"))] == []


def test_a_report_is_the_same_page_with_and_without_packs(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [run.run_id for run in Listing(stored).runs]
    page = render(Listing(stored), ids, "title", None)
    monkeypatch.setattr(packs, "_MANY", 10**6)
    assert without_moment(render(Listing(stored), ids, "title", None)) == without_moment(page)


def without_moment(page: str) -> list[str]:
    return [line for line in page.splitlines() if "Made by" not in line]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "flip", "remove", "rubbish", "folder"])
def test_a_damaged_pack_counts_as_absent_and_is_made_anew(stored: Path, damage: str) -> None:
    expected = from_files(stored)
    views(stored)
    for path in packs_of(stored):
        data = path.read_bytes()
        path.unlink()
        middle = len(data) // 2
        if damage == "folder":
            path.mkdir()
        elif damage != "remove":
            flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
            path.write_bytes({"cut": data[:middle], "flip": flipped, "rubbish": b"{}\n" * 9}[damage])
    same(views(stored), expected)
    for path in packs_of(stored):
        if damage == "folder":
            path.rmdir()
    same(views(stored), expected)


def test_a_run_that_changed_is_read_from_its_own_file(stored: Path, tmp_path: Path) -> None:
    expected = views(stored)
    root = shutil.copytree(stored, tmp_path / "root")
    changed = Listing(root).runs[3]
    path = root / f"samples/host_id={changed.host_id}/run_id={changed.run_id}/samples.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match=changed.run_id):
        runs = load_runs(root)
    assert changed.run_id not in set(runs["run_id"])
    assert len(runs) == 2 * RUNS - 1
    path.write_bytes(whole)
    os.utime(path)
    same(views(root), expected)


def test_new_runs_join_the_packs(tmp_path: Path) -> None:
    fill(tmp_path, 1, RUNS)
    same(views(tmp_path), from_files(tmp_path))
    fill(tmp_path, 1, 1)  # too few to make it anew
    before = [path.stat().st_ino for path in packs_of(tmp_path)]
    same(views(tmp_path), from_files(tmp_path))
    assert [path.stat().st_ino for path in packs_of(tmp_path)] == before
    fill(tmp_path, 1, RUNS)
    same(views(tmp_path), from_files(tmp_path))
    assert [path.stat().st_ino for path in packs_of(tmp_path)] != before


def test_other_statistics_are_not_taken_from_a_pack(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_pairs(stored)
    monkeypatch.setattr(reduce_pairs, "STATS_VERSION", reduce_pairs.STATS_VERSION + 1)
    assert set(load_pairs(stored)["stats_version"]) == {reduce_pairs.STATS_VERSION}


def test_a_root_that_cannot_be_written_is_only_slower(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = from_files(stored)
    for path in packs_of(stored):
        path.unlink()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packs, "write", full)
    monkeypatch.setattr(packs, "write_table", full)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(views(stored), expected)
    assert packs_of(stored) == []

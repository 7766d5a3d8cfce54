"""The index says what the files say, whatever happens to it, and spares opening
them.
"""

import json
import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis.reduce import (
    load_cpus,
    load_numbers,
    load_pairs,
    load_runs,
    verify_pairs,
)
from fleet.analysis.report import render
from fleet.analysis.views import load_marked_bursts, verify_marked_bursts
from fleet.errors import StoreError, StoreWarning
from fleet.model import Host
from fleet.store import Listing, Store, new_run_id, runs
from fleet.store.places import samples_name
from fleet.store.reading import TableFile
from fleet.store.verify import verify
from tests import builders
from tests.command import Fleet
from tests.planting import home
from tests.store.test_one_reading import fill

RUNS = 4


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two hosts with four runs each, all derived."""
    root = tmp_path / "root"
    fill(root, 2, RUNS)
    load_pairs(root)
    return root


def views(root: Path) -> list[pd.DataFrame]:
    """Return the frames and summaries that readers of many runs get."""
    listing = Listing(root)
    ids = [run.run_id for run in listing.runs]
    selection = {"benchmark": "cas", "columns": ["run_id", "median_ns"]}
    frames = [
        load_pairs(root),
        load_pairs(root, **selection),
        load_pairs(root, columns=["median_ns"]),
    ]
    summaries = pd.DataFrame(listing.runs)
    return [
        *frames,
        load_runs(root),
        load_cpus(root),
        load_marked_bursts(listing, ids),
        summaries,
    ]


def same(frames: list[pd.DataFrame], expected: list[pd.DataFrame]) -> None:
    for actual, other in zip(frames, expected, strict=True):
        pd.testing.assert_frame_equal(actual, other, check_categorical=False)


def index_path(root: Path) -> Path:
    return Listing(root).index.path


def record_opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each samples file opened from now on."""
    names: list[str] = []
    init: Callable[..., None] = TableFile.__init__
    read = runs.read_record

    def count_file(
        self: TableFile, place: object, name: str, *rest: object, **named: object
    ) -> None:
        names.append(name)
        init(self, place, name, *rest, **named)

    def count_record(place: object, name: str) -> bytes:
        names.append(name)
        return read(place, name)  # type: ignore[arg-type]

    monkeypatch.setattr(TableFile, "__init__", count_file)
    monkeypatch.setattr(runs, "read_record", count_record)
    return names


def test_it_holds_what_the_files_hold_and_spares_opening_these(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_path(root).unlink()
    expected = views(root)
    names = record_opened_files(monkeypatch)
    same(views(root), expected)
    assert names == []


def test_a_run_is_in_it_once_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 1, 2)
    names = record_opened_files(monkeypatch)
    assert len(Listing(tmp_path).runs) == 2
    assert [name for name in names if name.startswith("samples/")] == []


REMOVALS: dict[str, Callable[[Path], object]] = {
    "the table of runs": lambda root: shutil.rmtree(root / "runs"),
    "the table of CPUs": lambda root: shutil.rmtree(root / "cpus"),
    "a file": lambda root: min(root.glob("runs/*.parquet")).unlink(),
}


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize("index", ["cold", "warm", "without the newest run"])
def test_a_listing_adds_to_the_tables_what_they_lack(
    root: Path, removal: str, index: str
) -> None:
    place = Store(root).place
    before = Listing(root).runs
    if index == "cold":
        index_path(root).unlink()
    if index == "without the newest run":
        run = builders.a_run()
        Store(root).publish(run, builders.make_bursts(run))
    REMOVALS[removal](root)
    problems = verify(place).problems
    assert problems
    assert all("other readers miss it" in problem for problem in problems)
    after = Listing(root).runs
    assert [run for run in after if run in before] == before
    assert verify(place).problems == ()
    rows = pd.read_parquet(root / "runs")
    assert sorted(rows["run_id"]) == sorted(run.run_id for run in after)
    assert not pd.read_parquet(root / "cpus").duplicated(["run_id", "cpu"]).any()


@pytest.mark.long
def test_a_report_is_the_same_page_with_and_without_it(root: Path) -> None:
    ids = [run.run_id for run in Listing(root).runs]
    page = render(Listing(root), ids, "title", None)
    index_path(root).unlink()
    assert drop_moment(render(Listing(root), ids, "title", None)) == drop_moment(page)


def drop_moment(page: str) -> list[str]:
    return [line for line in page.splitlines() if "Made by" not in line]


@pytest.mark.long
@pytest.mark.parametrize(
    "damage", ["cut", "empty", "rubbish", "a folder", "other tables", "no tables"]
)
def test_one_that_cannot_be_used_counts_as_absent_and_is_made_anew(
    root: Path, damage: str
) -> None:
    expected = views(root)
    path = index_path(root)
    data = path.read_bytes()
    path.unlink()
    match damage:
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "empty":
            path.touch()
        case "rubbish":
            path.write_bytes(b"no" * 10000)
        case "a folder":
            path.mkdir()
        case "other tables":
            with closing(sqlite3.connect(path)) as db, db:
                db.execute("create table runs (x)")
        case _:
            path.write_bytes(data)
            with closing(sqlite3.connect(path)) as db, db:
                db.execute("drop table runs")
    same(views(root), expected)
    if damage == "a folder":
        path.rmdir()
    same(views(root), expected)
    assert path.stat().st_size > 0


@pytest.mark.parametrize("value", [None, 7, "text", b"", b"rubbish"])
@pytest.mark.parametrize(
    ("table", "column"), [("runs", "listed"), ("runs", "record"), ("parts", "batches")]
)
def test_one_with_a_value_that_cannot_be_decoded_is_made_anew(
    root: Path, table: str, column: str, value: object
) -> None:
    expected = views(root)
    with closing(sqlite3.connect(index_path(root))) as db, db:
        db.execute(f"update {table} set {column} = ?", [value])
    same(views(root), expected)
    with closing(sqlite3.connect(index_path(root))) as db, db:
        values = [found for (found,) in db.execute(f"select {column} from {table}")]
    assert values
    assert value not in values


@pytest.mark.long
@pytest.mark.parametrize(
    "how", ["locked", "read-only folder", "a file in place of the folder"]
)
def test_one_that_cannot_be_written_only_costs_time(
    root: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    expected = views(root)
    path = index_path(root)
    monkeypatch.setattr("fleet.store.index._WAIT_S", 0.01)
    held = sqlite3.connect(path, isolation_level=None)
    match how:
        case "locked":
            held.execute("begin exclusive")
        case "read-only folder":
            shutil.rmtree(path.parent)
            monkeypatch.setenv("XDG_CACHE_HOME", "/proc")
        case _:
            shutil.rmtree(path.parent)
            path.parent.touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(views(root), expected)
    held.close()


def test_a_run_that_changed_or_is_gone_is_not_taken_from_it(root: Path) -> None:
    expected = views(root)
    changed = Listing(root).runs[3]
    gone = Listing(root).runs[4]
    path = (
        root
        / f"samples/host_id={changed.host_id}/run_id={changed.run_id}/samples.parquet"
    )
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match=changed.run_id):
        rows = load_runs(root)
    assert changed.run_id not in set(rows["run_id"])
    assert len(rows) == 2 * RUNS - 1
    path.write_bytes(content)
    same(views(root), expected)
    shutil.rmtree(root / f"samples/host_id={gone.host_id}/run_id={gone.run_id}")
    assert gone not in Listing(root).runs
    assert len(load_pairs(root)["run_id"].unique()) == 2 * RUNS - 1


def test_a_file_damaged_after_the_listing_is_named_and_costs_no_other_run_its_record(
    root: Path,
) -> None:
    listing = Listing(root)
    damaged, *others = listing.runs
    index_path(root).unlink()
    (root / samples_name(damaged.host_id, damaged.run_id)).write_bytes(b"PAR1")
    with pytest.warns(StoreWarning, match=damaged.run_id):
        records = listing.read_records([damaged, *others])
    assert set(records) == {run.run_id for run in others}


def test_rows_made_anew_replace_those_before(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts() -> int:
        with closing(sqlite3.connect(index_path(root))) as db, db:
            return int(
                db.execute(
                    "select count(*) from parts where kind = 'pairs'"
                ).fetchone()[0]
            )

    before = parts()
    monkeypatch.setattr(
        home(load_pairs), "STATS_VERSION", home(load_pairs).STATS_VERSION + 1
    )
    assert set(load_pairs(root)["stats_version"]) == {home(load_pairs).STATS_VERSION}
    assert parts() == before


@pytest.mark.long
def test_it_is_smaller_than_the_samples_that_it_is_made_of(tmp_path: Path) -> None:
    """With records, pairs, numbers and marked bursts; in one batch, and run by run."""
    for name in ("at once", "run by run"):
        root = tmp_path / name
        fill(root, 2, 20)
        ids = [run.run_id for run in Listing(root).runs]
        for part in [ids] if name == "at once" else [[run_id] for run_id in ids]:
            load_numbers(root, run_id=part)
            load_marked_bursts(root, part)
        samples = sum(path.stat().st_size for path in root.rglob("samples.parquet"))
        assert index_path(root).stat().st_size < samples, name


def test_verify_compares_it_with_the_samples(root: Path) -> None:
    """An earlier fleet may have written others."""
    listing = Listing(root)
    assert verify(listing.place).problems == ()
    assert verify_pairs(listing) == []
    run = listing.runs[0]
    stamp = listing.stamps[run.key]
    record = listing.index.read_records(listing.stamps)[run.key]
    poisoned = listing.index.read_listed(listing.stamps)[run.key] | {
        "host_name": "poisoned"
    }
    listing.index.store_runs(
        {run.key: stamp},
        {run.key: (poisoned, record)},
    )
    assert Listing(root).runs[0].host_name == "poisoned"
    (problem,) = verify(listing.place).problems
    assert run.run_id in problem
    assert str(listing.index.path) in problem

    pairs = home(load_pairs).derive_pairs(listing.place, [run])
    slower = pairs.set_column(*_double_column(pairs, "median_ns"))
    listing.index.store_rows(
        home(load_pairs).PAIRS, home(load_pairs).make_index_marks([run]), slower
    )
    (problem,) = verify_pairs(Listing(root))
    assert run.run_id in problem

    load_marked_bursts(root, [run.run_id])
    assert verify_marked_bursts(Listing(root)) == []
    file = TableFile(listing.place, samples_name(*run.key), "samples")
    every_burst = file.read(home(load_marked_bursts).BURST_COLUMNS)
    listing.index.store_rows(
        home(load_marked_bursts)._MARKED, {run.key: stamp}, every_burst
    )
    (problem,) = verify_marked_bursts(Listing(root))
    assert f"the marked bursts of {run.run_id} are not those of its samples" in problem


def _double_column(table, name: str):
    index = table.column_names.index(name)
    return (
        index,
        table.schema.field(index),
        [chunk.to_numpy() * 2 for chunk in table.column(index).chunks],
    )


def test_a_copy_of_a_run_under_another_host_shadows_nothing(root: Path) -> None:
    before = Listing(root).runs
    run = before[0]
    source = root / f"samples/host_id={run.host_id}/run_id={run.run_id}"
    for host in ("a-host", "z-host"):
        shutil.copytree(source, root / f"samples/host_id={host}/run_id={run.run_id}")
    (root / f"samples/host_id=empty/run_id={before[1].run_id}").mkdir(parents=True)
    with pytest.warns(StoreWarning) as caught:
        assert Listing(root).runs == before
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2
    holds = f"it holds run {run.run_id} of {run.host_id}, as a copy of samples/host_id="
    assert all(holds in text for text in texts)
    problems = verify(Store(root).place).problems
    assert sum(holds in problem for problem in problems) == len(problems) == 2


@pytest.mark.parametrize("touch", ["chmod", "utime", "rewrite"])
@pytest.mark.parametrize("host", ["a-host", "z-host"])
def test_no_time_of_a_file_makes_a_copy_the_true_run(
    root: Path, host: str, touch: str
) -> None:
    before = Listing(root).runs
    run = before[0]
    true = root / samples_name(run.host_id, run.run_id)
    copy = root / samples_name(host, run.run_id)
    shutil.copytree(true.parent, copy.parent)
    if touch == "chmod":
        true.chmod(0o600)
    elif touch == "utime":
        os.utime(true)
    else:
        content = true.read_bytes()
        true.unlink()
        true.write_bytes(content)
    with pytest.warns(StoreWarning, match=f"host_id={host}.* as a copy of .*rpi5|host"):
        assert Listing(root).runs == before


@pytest.mark.parametrize("host", ["a-host", "z-host"])
def test_two_runs_with_one_id_are_both_named_and_left_out(
    root: Path, host: str
) -> None:
    first, *others = Listing(root).runs
    other = builders.a_run(run_id=first.run_id, host=Host(host, "192.0.2.9"))
    Store(root).publish(other, builders.make_bursts(other, seed=99))
    for older in (first.host_id, host):
        os.utime(root / samples_name(older, first.run_id), (1, 1))
        with pytest.warns(StoreWarning, match="are two runs with one ID") as caught:
            assert Listing(root).runs == others
        assert f"host_id={host}" in str(caught[0].message)
        assert f"host_id={first.host_id}" in str(caught[0].message)
    (problem,) = verify(Store(root).place).problems
    assert "are two runs with one ID" in problem


def test_where_no_run_can_be_read_that_is_an_error(tmp_path: Path) -> None:
    fill(tmp_path, 1, 1)
    (path,) = tmp_path.rglob("samples.parquet")
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(StoreError, match="put it back from a copy"):
        Listing(tmp_path).runs  # noqa: B018


def test_labels_and_states_survive_it(root: Path) -> None:
    run = replace(builders.a_run(run_id=new_run_id()), ended_utc=None)
    Store(root).publish(run, builders.make_bursts(run))
    for _ in range(2):
        listed = next(
            row
            for row in Listing(root).list_with_unfinished()
            if row.run_id == run.run_id
        )
        assert dict(listed.labels) == {"rack": "b2", "kernel": "6.12"}
        assert listed.ended_utc is None
        assert listed.content_sha256 is not None
        assert (
            json.loads(load_runs(root, run_id=run.run_id)["labels_json"][0])["rack"]
            == "b2"
        )


COMMANDS = (
    "runs",
    "hosts",
    "show rpi5",
    "show RUN",
    "report RUN -o -",
    "export RUN",
    "label RUN a=b",
)


@pytest.mark.long
@pytest.mark.parametrize("how", ["copy", "empty folder", "empty file", "folder"])
def test_nothing_shadows_a_run_in_any_command(tmp_path: Path, how: str) -> None:
    store = Store(tmp_path / "results")
    run = builders.a_run()
    store.publish(run, builders.make_bursts(run))
    file = tmp_path / "results" / samples_name("liar", run.run_id)
    file.parent.mkdir(parents=True)
    if how == "copy":
        shutil.copy(tmp_path / "results" / samples_name("rpi5", run.run_id), file)
    elif how == "empty file":
        file.touch()
    elif how == "folder":
        file.mkdir()
    if file.exists():
        os.utime(file, (1, 1))
    with Fleet(tmp_path) as fleet:
        for words in COMMANDS:
            done = fleet(*words.replace("RUN", run.run_id).split())
            assert done.exit_code == 0, (words, done)
            assert done.stderr.count("host_id=liar") == (how != "empty folder"), (
                words,
                done.stderr,
            )
        assert [row["host_name"] for row in fleet("runs", "--json").json] == ["rpi5"]
        verified = fleet("verify")
        expected = (0, False) if how == "empty folder" else (11, True)
        assert (verified.exit_code, "liar" in verified.stdout) == expected


def test_every_way_to_write_a_root_leads_to_one_index(root, monkeypatch):
    monkeypatch.chdir(root.parent)
    (root.parent / "link").symlink_to(root)
    ways = [root, Path("root"), Path("./root/../root"), Path("link")]
    assert {index_path(way) for way in ways} == {index_path(root)}

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from fleet.analysis.base import find_last_session_runs, find_run
from fleet.analysis.reduce import load_samples
from fleet.errors import DataError, StoreError, UsageError
from fleet.model import End, Failed, Host, Run, RunState
from fleet.store import Listing, Store, new_run_id, new_session_id, samples
from fleet.store.gate import parse_record
from fleet.store.places import Folder
from fleet.store.reading import TableFile, read_record
from fleet.store.runs import RunSummary, list_unfinished
from fleet.store.store import LEFTOVER_AFTER_S
from fleet.store.verify import verify
from tests import builders
from tests.command import Fleet


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


KEY = ["run_id", "benchmark", "variant", "point", "round", "ping_cpu", "pong_cpu"]


def read_bursts(store: Store) -> dict[tuple[object, ...], tuple[int, ...]]:
    """Read every burst in the root with plain pandas, by run and key; each must be
    there once.
    """
    frame = pd.read_parquet(store.place.root / "samples")
    frame["point"] = frame["point"].astype(object).where(frame["point"].notna(), None)
    assert not frame.duplicated(KEY).any()
    keys = frame[KEY].itertuples(index=False, name=None)
    ticks = [tuple(row.tolist()) for row in frame["ticks"]]
    return dict(zip(keys, ticks, strict=True))


def expected_bursts(run: Run) -> dict[tuple[object, ...], tuple[int, ...]]:
    return {
        (run.run_id, *builders.burst_key(burst)): burst.ticks
        for burst in builders.make_bursts(run)
    }


def publish_usual(store: Store, run: Run) -> str:
    """Publish a run with the bursts that are expected of it."""
    return store.publish(run, builders.make_bursts(run))


def summarize(store: Store) -> list[RunSummary]:
    return Listing(store.place).list_with_unfinished()


def identify_files(root: Path) -> dict[Path, int]:
    """Return the inode of each table."""
    return {path: path.stat().st_ino for path in root.rglob("*.parquet")}


def test_every_tick_in_parquet_is_the_one_given(store: Store) -> None:
    run = builders.a_run(
        builders.small_desktop(), benchmarks=("cas", "readwrite", "clock")
    )
    publish_usual(store, run)
    assert read_bursts(store) == expected_bursts(run)


def test_a_host_that_tells_of_no_cpu_has_its_run_stored_all_the_same(
    store: Store,
) -> None:
    run = builders.a_run()
    bursts = list(builders.make_bursts(run))
    run = replace(run, facts=replace(run.facts, cpus=()))
    store.publish(run, bursts)
    assert read_bursts(store) == expected_bursts(builders.a_run())
    assert pd.read_parquet(store.place.root / "cpus").empty


def test_the_record_is_found_without_reading_all_of_the_footer(
    store: Store, tmp_path: Path
) -> None:
    run = builders.a_run(builders.small_desktop(), benchmarks=("cas", "clock"))
    publish_usual(store, run)
    (path,) = store.place.root.rglob("samples.parquet")
    name = str(path.relative_to(store.place.root))
    found = parse_record(read_record(store.place, name))
    assert found == TableFile(store.place, name, "samples").record

    damaged = tmp_path / "damaged"
    damaged.write_bytes(path.read_bytes().replace(b"fleet.run", b"fleet.fun"))
    with pytest.raises(DataError, match="checksum"):
        read_record(Folder(tmp_path), "damaged")
    builders.put_table(pa.table({"fleet.run": ["fleet.run"]}), damaged)
    with pytest.raises(DataError, match="no record of its run"):
        read_record(Folder(tmp_path), "damaged")


def test_the_extremes_of_int64_survive(store: Store) -> None:
    ticks = (0, 1, 2**63 - 1, 0)
    burst = builders.a_burst(ticks=ticks, start_offset_ns=2**62)
    store.publish(builders.a_run(), [burst])
    row = pd.read_parquet(store.place.root / "samples").iloc[0]
    assert tuple(row["ticks"].tolist()) == ticks
    assert row["start_offset_ns"] == 2**62


def test_a_long_run_is_written_in_stretches_and_nothing_is_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "CHUNK_SAMPLES", 100)
    run = builders.a_run(builders.small_desktop(), rounds=20)
    bursts = []
    for burst in builders.make_bursts(run):
        flags = ("preempted",) if burst.round < 3 else ()
        bursts.append(replace(burst, flags=flags))
    store.publish(run, bursts)
    assert read_bursts(store) == expected_bursts(run)
    (summary,) = summarize(store)
    assert summary.samples == sum(len(burst.ticks) for burst in bursts)
    assert summary.bursts == len(bursts)
    assert summary.flagged == 3 * len(bursts) // 20
    assert summary.samples % 100 == 0, "the last stretch ends with the last burst"
    assert verify(store.place).problems == ()


def test_publishing_removes_the_journal_and_lists_the_run(store: Store) -> None:
    failed = (Failed("cas", "x", 0, 0, 1, "stuck"),)
    run = replace(builders.a_run(), state=RunState.PARTIAL, failed=failed)
    with store.new_journal(run) as journal:
        (unfinished,) = summarize(store)
        assert unfinished.state == RunState.UNFINISHED
    publish_usual(store, run)

    (summary,) = summarize(store)
    assert summary.run_id == run.run_id
    assert summary.state == RunState.PARTIAL
    assert summary.failed == 1
    assert summary.bursts == 3
    assert summary.pairs == 1
    assert summary.samples == 15
    assert dict(summary.labels) == {"rack": "b2", "kernel": "6.12"}
    assert not journal.folder.exists()
    assert list((store.state_dir / "staging").iterdir()) == []


def test_publishing_twice_changes_nothing(store: Store) -> None:
    run = builders.a_run()
    folder = publish_usual(store, run)
    before = identify_files(store.place.root)
    assert publish_usual(store, run) == folder
    assert identify_files(store.place.root) == before


def test_other_samples_under_a_published_run_id_are_refused(store: Store) -> None:
    run = builders.a_run()
    publish_usual(store, run)
    with store.new_journal(run) as journal:
        journal.append(b"kept")
    with pytest.raises(StoreError, match="other samples"):
        store.publish(run, builders.make_bursts(run, seed=8))
    assert read_bursts(store) == expected_bursts(run)
    assert list(chain.from_iterable(journal.parts())) == [b"kept"]


def test_a_file_that_is_no_run_in_the_place_of_the_samples_keeps_the_journal(
    store: Store,
) -> None:
    run = builders.a_run()
    publish_usual(store, run)
    (samples,) = store.place.root.rglob("samples.parquet")
    samples.write_bytes(b"not Parquet")
    with store.new_journal(run) as journal:
        journal.append(b"kept")
    with pytest.raises(
        StoreError,
        match=r"cannot publish the run: .* What arrived is kept in the journal",
    ):
        publish_usual(store, run)
    assert samples.read_bytes() == b"not Parquet"
    assert list(chain.from_iterable(journal.parts())) == [b"kept"]


@pytest.mark.parametrize("missing", ["runs", "cpus"])
def test_a_publication_cut_short_is_completed_by_the_next(
    store: Store, missing: str
) -> None:
    run = builders.a_run()
    publish_usual(store, run)
    shutil.rmtree(store.place.root / missing)
    publish_usual(store, run)
    assert read_bursts(store) == expected_bursts(run)
    (summary,) = summarize(store)
    assert summary.run_id == run.run_id
    assert len(pd.read_parquet(store.place.root / "cpus")) == 2


def test_bursts_that_end_in_an_error_publish_nothing(store: Store) -> None:
    def broken() -> object:
        yield builders.a_burst()
        raise StoreError("the journal cannot be read")

    store.new_journal(builders.a_run()).close()
    with pytest.raises(StoreError, match="cannot be read"):
        store.publish(builders.a_run(), broken())  # type: ignore[arg-type]
    assert list(store.place.root.rglob("*.parquet")) == []
    assert len(list_unfinished(store.place)) == 1


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", "é"])
def test_a_name_that_cannot_be_a_path_key_is_refused(store: Store, name: str) -> None:
    run = builders.a_run(host=Host(name, "192.0.2.1"))
    with pytest.raises(StoreError, match="cannot be a key"):
        store.publish(run, [builders.a_burst()])


def test_an_empty_root_has_no_runs_and_finding_one_says_what_to_do(
    store: Store,
) -> None:
    assert summarize(store) == []
    store.place.root.mkdir(exist_ok=True)
    assert summarize(store) == []
    with pytest.raises(UsageError, match="no runs are stored"):
        find_run(store.list_runs(), "rpi5", store.place)


def test_the_last_session_is_all_its_runs(store: Store) -> None:
    with pytest.raises(UsageError, match="no runs are stored"):
        find_last_session_runs(Listing(store.place))
    sessions = (
        "s20260101T000000Z-ffff0000",
        "s20260102T000000Z-00000000",
        "s20260102T000000Z-00000000",
    )
    run_ids = [f"r20260102T00000{number}Z-00000000" for number in range(3)]
    for run_id, session_id in zip(run_ids, sessions, strict=True):
        run = builders.a_run(run_id=run_id)
        publish_usual(store, replace(run, session_id=session_id))
    assert find_last_session_runs(Listing(store.place)) == run_ids[1:]


def test_ids_begin_with_a_letter_and_differ() -> None:
    ids = {new_run_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(name.startswith("r2") for name in ids)
    assert new_session_id().startswith("s2")


def test_what_killed_publications_left_is_removed_when_it_is_mine_or_old(
    store: Store,
) -> None:
    run = builders.a_run()
    staging = store.state_dir / "staging"
    names = {
        "mine": f"{run.run_id}-0badcafe",
        "my-table": f"{run.run_id}-cpus-0badcafe",
        "young": "r20260101T000000Z-aaaa0000-0badcafe",
        "old": "r20250101T000000Z-aaaa0000-0badcafe",
        "old-table": "r20250101T000000Z-aaaa0000-runs-0badcafe",
    }
    for kind, name in names.items():
        place = staging / name
        place.mkdir(parents=True)
        (place / "samples.parquet").write_bytes(b"half")
        if kind.endswith("table"):
            shutil.rmtree(place)
            place.write_bytes(b"half")
        if kind.startswith("old"):
            os.utime(place, times=(0, time.time() - 2 * LEFTOVER_AFTER_S))
    publish_usual(store, run)
    assert [path.name for path in staging.iterdir()] == [names["young"]]


def test_what_an_os_does_not_tell_is_null_and_what_it_tells_is_kept(
    tmp_path: Path,
) -> None:
    hello = replace(builders.a_run().hello, precision=0.01, preset="c2clat")  # type: ignore[type-var]
    end = End(3, 0, "done", 4, 2, 0.012)
    run = replace(builders.a_run(), hello=hello, end=end)
    untold = builders.a_burst(round=0, switches=None, ran_ppm=None, line_physical=None)
    told = builders.a_burst(
        round=1,
        switches=(1, 2, 3, 4),
        ran_ppm=(999_000, 800_000),
        flags=("preempted", "coarse_clock"),
        line_page=2**50,
        line_offset=64,
        line_node=1,
        line_physical=77,
    )
    stolen = builders.a_burst(
        round=2, ticks=(900, 600, 601, 602, 603), steal_ppm=(0, 150_000)
    )
    Store(tmp_path).publish(run, [untold, told, stolen])

    rows = pd.read_parquet(tmp_path / "samples").sort_values("round")
    first, second, _ = rows.to_dict("records")
    assert pd.isna(first["ping_voluntary_switches"])
    assert pd.isna(first["pong_involuntary_switches"])
    assert pd.isna(first["ping_ran_ppm"])
    assert pd.isna(first["line_physical"])
    assert first["flags"] == ""
    switches = [name for name in second if name.endswith("_switches")]
    assert [second[name] for name in switches] == [1, 2, 3, 4]
    assert second["flags"] == "coarse_clock,preempted"
    assert second["line_page"] == 2**50
    assert second["line_offset"] == 64
    assert second["line_node"] == 1
    assert second["ping_ran_ppm"] == 999_000
    assert second["pong_ran_ppm"] == 800_000
    assert second["line_physical"] == 77

    loaded = load_samples(tmp_path).sort_values("round")
    assert loaded["ping_steal_ppm"].isna().tolist() == [True, True, True]
    assert loaded["pong_steal_ppm"].isna().tolist() == [True, True, False]
    assert loaded["pong_steal_ppm"].iloc[2] == 150_000

    (row,) = pd.read_parquet(tmp_path / "runs").to_dict("records")
    assert row["preset"] == "c2clat"
    assert row["estimator"] == "median"
    assert row["precision"] == 0.01
    assert row["converged"] == 4
    assert row["unconverged"] == 2
    assert row["precision_reached"] == 0.012


def test_many_publish_at_once_and_each_run_is_whole(store: Store) -> None:
    runs = [builders.a_run(run_id=new_run_id()) for _ in range(24)]
    with ThreadPoolExecutor(len(runs)) as pool:
        list(pool.map(lambda run: publish_usual(store, run), runs))
    expected = {}
    for run in runs:
        expected |= expected_bursts(run)
    assert read_bursts(store) == expected


def publish_started(store: Store, run_id: str, host: str, day: str) -> None:
    """Publish a run of a host that began at midnight of a day."""
    run = builders.a_run(run_id=run_id, host=Host(host, "192.0.2.1"))
    publish_usual(store, replace(run, started_utc=f"{day}T00:00:00Z"))


def test_a_beginning_or_a_host_names_the_run_it_fits_best(store: Store) -> None:
    for number in range(7):
        publish_started(store, f"r{number}", f"h{number}", f"2026-01-0{number + 1}")
    publish_started(store, "r10", "r2", "2026-01-09")
    publish_started(store, "s1-a", "001", "2025-01-02")
    publish_started(store, "s0-a", "001", "2025-01-01")
    runs = store.list_runs()
    # a whole ID before a beginning, a run before a host, the last run of a host
    names = {
        "r1": "r1",
        "r2": "r2",
        "r10": "r10",
        "h3": "r3",
        "s0": "s0-a",
        "001": "s1-a",
        "h-001": "s1-a",
    }
    assert {name: find_run(runs, name, store.place) for name in names} == names
    several = r"'r' is the beginning of 8 runs: \.\.\., r3, r4, r5, r6, r10\. Type more"
    with pytest.raises(UsageError, match=several):
        find_run(runs, "r", store.place)
    none = r"no run and no host 'x' in .* Hosts: \.\.\., h3, h4, h5, h6, r2\."
    with pytest.raises(UsageError, match=none):
        find_run(runs, "x", store.place)
    store.new_journal(builders.a_run(run_id="r99")).close()
    with pytest.raises(UsageError, match="run r99 is not finished: `fleet resume`"):
        find_run(runs, "r99", store.place)


def test_runs_that_began_in_one_second_are_in_order_of_their_ids_and_both_count(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "results")
    ids = ["r20260102T030405Z-0000000b", "r20260102T030405Z-0000000a"]
    for run_id in ids:
        run = builders.a_run(run_id=run_id)
        store.publish(run, builders.make_bursts(run))
    assert [run.run_id for run in store.list_runs()] == sorted(ids)
    with Fleet(tmp_path) as fleet:
        shown = fleet("show", "rpi5").stdout
        listed = fleet("runs", "rpi5", "--relation", "unknown", "--json").json
    assert "2 comparable runs" in shown
    assert ids[0] in shown.splitlines()[0]  # the last
    assert [row["run_id"] for row in listed] == sorted(ids)

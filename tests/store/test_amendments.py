"""Labels set later and runs withdrawn: the samples stay as written, every reader sees
the same.
"""

import errno
import json
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis.reduce import load_runs, load_samples
from fleet.errors import StoreError, StoreWarning, UsageError
from fleet.store import Store
from fleet.store.places import Folder, parse_place
from fleet.store.verify import verify
from tests import builders
from tests.command import Fleet
from tests.native.preload import preload

RUNS = ("r20260101T000000Z-00000001", "r20260102T000000Z-00000002")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    new_store = Store(tmp_path / "results")
    for run_id in RUNS:
        run = builders.a_run(run_id=run_id)
        new_store.publish(run, builders.make_bursts(run))
    return new_store


def spoil(store: Store, text: str) -> Path:
    """Put a file among the amendments of the first run."""
    file = store.place.root / "amendments" / f"{RUNS[0]}-2-ffffffff.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def labels(store: Store) -> list[dict[str, str]]:
    return [dict(run.labels) for run in store.list_runs()]


def test_a_label_set_later_is_that_of_the_run(store: Store) -> None:
    before = {
        path: path.read_bytes() for path in store.place.root.rglob("samples.parquet")
    }
    store.label(RUNS[:1], {"kernel": "6.13", "bios": "2.1", "rack": None})
    assert labels(store) == [
        {"kernel": "6.13", "bios": "2.1"},
        {"rack": "b2", "kernel": "6.12"},
    ]
    assert json.loads(load_runs(store.place.root)["labels_json"][0]) == {
        "kernel": "6.13",
        "bios": "2.1",
    }
    assert set(load_samples(store.place.root, labels={"bios": "2.1"})["run_id"]) == {
        RUNS[0]
    }
    assert {path: path.read_bytes() for path in before} == before
    assert verify(parse_place(store.place.root)).problems == ()


def test_a_later_label_outweighs_an_earlier_one(store: Store) -> None:
    for value in ("1", "2", "3"):
        store.label(RUNS, {"n": value})
    store.label(RUNS[1:], {"n": None})
    assert [run_labels.get("n") for run_labels in labels(store)] == ["3", None]


def test_a_withdrawn_run_is_kept_and_not_read(store: Store) -> None:
    store.withdraw(RUNS[:1])
    assert [run.run_id for run in store.list_runs()] == [RUNS[1]]
    assert [run.run_id for run in store.list_runs(withdrawn=True)] == list(RUNS)
    assert set(load_samples(store.place.root)["run_id"]) == {RUNS[1]}
    assert len(load_runs(store.place.root, run_id=RUNS[0])) == 0
    assert set(pd.read_parquet(store.place.root / "samples")["run_id"]) == set(RUNS)
    store.withdraw(RUNS[:1], undo=True)
    assert len(store.list_runs()) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[" * 100_000,
        (
            '{"run_id": "ID", "counter": 1, "labels": {"bios": ["2.1"]}, "withdrawn":'
            " null}"
        ),
        '{"run_id": "ID", "counter": 1, "labels": {}, "withdrawn": 1}',
        '{"run_id": "ID", "counter": 0, "labels": {"bios": "2.0"}, "withdrawn": null}',
        (
            f'{{"run_id": "ID", "counter": {1 << 53}, "labels": {{"bios": "2.0"}},'
            ' "withdrawn": null}'
        ),
        (
            f'{{"run_id": "ID", "counter": {"9" * 5000}, "labels": {{"bios": "2.0"}},'
            ' "withdrawn": null}'
        ),
        '{"run_id": "ID", "labels": {"bios": "2.0"}, "withdrawn": null}',
        (
            '{"run_id": "ID", "counter": 1, "labels": {"bios": "2.0"}, "withdrawn":'
            ' null,"crc32":"00000000"}'
        ),
    ],
)
def test_a_bad_amendment_is_named_and_its_run_left_out(store: Store, text: str) -> None:
    store.label(RUNS, {"n": "1"})
    bad = spoil(store, text.replace("ID", RUNS[0]))
    with pytest.warns(StoreWarning, match=rf"amendments/{bad.name} .*or move it away"):
        listed = store.list_runs()
    assert [run.run_id for run in listed] == [RUNS[1]]
    (problem,) = verify(store.place).problems
    assert bad.name in problem
    with pytest.raises(StoreError, match=bad.name):
        store.label(RUNS, {"n": "2"})
    bad.unlink()
    assert labels(store) == [{"rack": "b2", "kernel": "6.12", "n": "1"}] * 2


def test_a_bad_amendment_blocks_no_other_run(store: Store, tmp_path: Path) -> None:
    bad = spoil(store, "")
    with Fleet(tmp_path) as fleet:
        for command in (
            ["runs"],
            ["show"],
            ["label", RUNS[1], "n=1"],
            ["withdraw", RUNS[1]],
            ["withdraw", RUNS[1], "--undo"],
        ):
            done = fleet(*command)
            assert (done.exit_code, done.stderr.count(bad.name)) == (0, 1), done
        done = fleet("verify")
        assert (
            done.exit_code,
            f"{bad.name} cannot be read as an amendment" in done.stdout,
        ) == (11, True)
        nameless = bad.with_name("nobody's.json")
        bad.rename(nameless)
        for command in (["runs"], ["show"], ["label", RUNS[1], "n=1"], ["verify"]):
            done = fleet(*command)
            said = done.stdout + done.stderr
            assert (done.exit_code, nameless.name in said) == (11, True), done


@pytest.mark.parametrize("counter", [(1 << 53) - 1, 1 << 60, 2_000_000])
def test_no_counter_ends_labelling(store: Store, tmp_path: Path, counter: int) -> None:
    store.label(RUNS[1:], {"n": "1"})
    planted = {"run_id": RUNS[0], "counter": counter, "labels": {}, "withdrawn": None}
    bad = spoil(store, json.dumps(planted))
    with Fleet(tmp_path) as fleet:
        for number in range(3):
            assert fleet("label", RUNS[1], f"n={number}").exit_code == 0
        assert bad.name in fleet("withdraw", RUNS[0], "--undo").stderr
        assert fleet("verify").stdout.count(bad.name) == 1
        bad.unlink()
        assert fleet("withdraw", RUNS[0]).exit_code == 0
        assert fleet("verify").exit_code == 0


def test_a_label_too_long_to_be_read_leaves_nothing_behind(store: Store) -> None:
    for run_ids, value in ((RUNS, "x" * (3 << 20)), (RUNS, "\udc80")):
        with pytest.raises(UsageError, match="cannot be amended"):
            store.label(run_ids, {"n": value})
    assert not list(store.place.root.glob("amendments/*"))


def test_an_amendment_that_fails_half_way_leaves_nothing_behind(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = type(store.place).put

    def put_one(place: Folder, draft: Path, name: str) -> bool:
        if RUNS[1] in name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return put(place, draft, name)

    monkeypatch.setattr(type(store.place), "put", put_one)
    with pytest.raises(StoreError, match="No space left"):
        store.withdraw(RUNS)
    assert not list(store.place.root.glob("amendments/*"))
    assert len(store.list_runs()) == 2


@pytest.mark.parametrize("counter", [1, 7, 999_999])
def test_an_amendment_counts_from_those_before_it(
    store: Store, tmp_path: Path, counter: int
) -> None:
    """As one of a machine with another clock, or of two that wrote at once, may be."""
    before = {
        "run_id": RUNS[0],
        "counter": counter,
        "labels": {"bios": "1", "x": "y"},
        "withdrawn": True,
    }
    spoil(store, json.dumps(before))
    with Fleet(tmp_path) as fleet:
        assert fleet("withdraw", RUNS[0], "--undo").exit_code == 0
        assert "bios=2 x=." in fleet("label", RUNS[0], "bios=2", "x=").stdout
        assert labels(store)[0]["bios"] == "2"
        assert "x" not in labels(store)[0]


@pytest.mark.long
def test_the_clock_of_a_machine_orders_no_amendment(
    store: Store, tmp_path: Path
) -> None:
    with Fleet(tmp_path, preload("clock.c") | {"CLOCK_AHEAD_S": "0"}) as fleet:
        for value, years in (("future", 10), ("now", 0), ("past", -10)):
            fleet.environment["CLOCK_AHEAD_S"] = str(years * 365 * 86400)
            for words in (["label", RUNS[0], f"n={value}"], ["withdraw", RUNS[0]]):
                process = fleet.start(*words)
                assert process.communicate()[1] == ""
            assert labels(store)[0].get("n") != value, "it is withdrawn"
            assert fleet("withdraw", RUNS[0], "--undo").exit_code == 0
            assert labels(store)[0]["n"] == value


def test_an_amendment_that_does_not_hold_is_an_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = type(store.place).put

    def put_both(place: Folder, draft: Path, name: str) -> bool:
        other = {
            "run_id": RUNS[0],
            "counter": 2,
            "labels": {"bios": "theirs"},
            "withdrawn": None,
        }
        spoil(store, json.dumps(other))
        return put(place, draft, name)

    monkeypatch.setattr(type(store.place), "put", put_both)
    with pytest.raises(
        StoreError,
        match=r"another command has amended it meanwhile: bios=theirs not withdrawn",
    ):
        store.label(RUNS[:1], {"bios": "ours"})
    assert labels(store)[0]["bios"] == "theirs"
    assert len(list(store.place.root.glob("amendments/*"))) == 1


def test_the_commands_select_label_and_withdraw(store: Store, tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        assert "Labelled 2 runs" in fleet("label", "rpi5", "bios=2.1", "rack=").stdout
        assert labels(store)[0] == {"kernel": "6.12", "bios": "2.1"}
        assert "Withdrawn, and kept: 1 run" in fleet("withdraw", RUNS[0]).stdout
        assert RUNS[0] in fleet("withdraw").stdout
        assert RUNS[0] not in fleet("runs").stdout
        assert fleet("withdraw", RUNS[0]).exit_code == 2, "withdrawn already"
        fleet("withdraw", *RUNS[1:])
        assert "all runs are withdrawn" in fleet("show").stderr
        fleet("withdraw", *RUNS[1:], "--undo")
        assert "Read again: 1 run" in fleet("withdraw", RUNS[0], "--undo").stdout
        assert "No run is withdrawn." in fleet("withdraw").stdout
        assert fleet("label", "rpi5", "bios").exit_code == 2

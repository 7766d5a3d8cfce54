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

FIRST = "r20260101T000000Z-00000001"


SECOND = "r20260102T000000Z-00000002"


RUNS = (FIRST, SECOND)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    new_store = Store(tmp_path / "results")
    for run_id in RUNS:
        run = builders.a_run(run_id=run_id)
        new_store.publish(run, builders.make_bursts(run))
    return new_store


def spoil(store: Store, text: str) -> Path:
    """Put a file among the amendments of the first run."""
    file = store.place.root / "amendments" / f"{FIRST}-2-ffffffff.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def labels(store: Store) -> list[dict[str, str]]:
    return [dict(run.labels) for run in store.list_runs()]


def list_run_ids(store: Store, *, withdrawn: bool = False) -> list[str]:
    return [run.run_id for run in store.list_runs(withdrawn=withdrawn)]


def list_amendments(store: Store) -> list[Path]:
    return list(store.place.root.glob("amendments/*"))


def test_a_label_set_later_is_that_of_the_run(store: Store) -> None:
    root = store.place.root
    before = {path: path.read_bytes() for path in root.rglob("samples.parquet")}
    store.label([FIRST], {"kernel": "6.13", "bios": "2.1", "rack": None})
    changed = {"kernel": "6.13", "bios": "2.1"}
    assert labels(store) == [changed, {"rack": "b2", "kernel": "6.12"}]
    assert json.loads(load_runs(root)["labels_json"][0]) == changed
    selected = load_samples(root, labels={"bios": "2.1"})
    assert set(selected["run_id"]) == {FIRST}
    assert {path: path.read_bytes() for path in before} == before
    assert verify(parse_place(root)).problems == ()


def test_a_later_label_outweighs_an_earlier_one(store: Store) -> None:
    for value in ("1", "2", "3"):
        store.label(RUNS, {"n": value})
    store.label([SECOND], {"n": None})
    of_first, of_second = labels(store)
    assert of_first["n"] == "3"
    assert "n" not in of_second


def test_a_withdrawn_run_is_kept_and_not_read(store: Store) -> None:
    root = store.place.root
    store.withdraw([FIRST])
    assert list_run_ids(store) == [SECOND]
    assert list_run_ids(store, withdrawn=True) == [FIRST, SECOND]
    assert set(load_samples(root)["run_id"]) == {SECOND}
    assert len(load_runs(root, run_id=FIRST)) == 0
    kept = pd.read_parquet(root / "samples")
    assert set(kept["run_id"]) == {FIRST, SECOND}
    store.withdraw([FIRST], undo=True)
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
    bad = spoil(store, text.replace("ID", FIRST))
    with pytest.warns(StoreWarning, match=rf"amendments/{bad.name} .*or move it away"):
        listed = store.list_runs()
    assert [run.run_id for run in listed] == [SECOND]
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
            ["label", SECOND, "n=1"],
            ["withdraw", SECOND],
            ["withdraw", SECOND, "--undo"],
        ):
            done = fleet(*command)
            assert done.exit_code == 0, done
            assert done.stderr.count(bad.name) == 1, done
        done = fleet("verify")
        assert done.exit_code == 11
        assert f"{bad.name} cannot be read as an amendment" in done.stdout
        nameless = bad.with_name("nobody's.json")
        bad.rename(nameless)
        for command in (["runs"], ["show"], ["label", SECOND, "n=1"], ["verify"]):
            done = fleet(*command)
            said = done.stdout + done.stderr
            assert done.exit_code == 11, done
            assert nameless.name in said, done


@pytest.mark.parametrize("counter", [(1 << 53) - 1, 1 << 60, 2_000_000])
def test_no_counter_ends_labelling(store: Store, tmp_path: Path, counter: int) -> None:
    store.label([SECOND], {"n": "1"})
    planted = {"run_id": FIRST, "counter": counter, "labels": {}, "withdrawn": None}
    bad = spoil(store, json.dumps(planted))
    with Fleet(tmp_path) as fleet:
        for number in range(3):
            assert fleet("label", SECOND, f"n={number}").exit_code == 0
        refused = fleet("withdraw", FIRST, "--undo")
        assert bad.name in refused.stderr
        verified = fleet("verify")
        assert verified.stdout.count(bad.name) == 1
        bad.unlink()
        assert fleet("withdraw", FIRST).exit_code == 0
        assert fleet("verify").exit_code == 0


def test_a_label_too_long_to_be_read_leaves_nothing_behind(store: Store) -> None:
    too_long = "x" * (3 << 20)
    no_text = "\udc80"
    for value in (too_long, no_text):
        with pytest.raises(UsageError, match="cannot be amended"):
            store.label(RUNS, {"n": value})
    assert list_amendments(store) == []


def test_an_amendment_that_fails_half_way_leaves_nothing_behind(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = type(store.place).put

    def put_one(place: Folder, draft: Path, name: str) -> bool:
        if SECOND in name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return put(place, draft, name)

    monkeypatch.setattr(type(store.place), "put", put_one)
    with pytest.raises(StoreError, match="No space left"):
        store.withdraw(RUNS)
    assert list_amendments(store) == []
    assert len(store.list_runs()) == 2


@pytest.mark.parametrize("counter", [1, 7, 999_999])
def test_an_amendment_counts_from_those_before_it(
    store: Store, tmp_path: Path, counter: int
) -> None:
    """As one of a machine with another clock, or of two that wrote at once, may be."""
    before = {
        "run_id": FIRST,
        "counter": counter,
        "labels": {"bios": "1", "x": "y"},
        "withdrawn": True,
    }
    spoil(store, json.dumps(before))
    with Fleet(tmp_path) as fleet:
        assert fleet("withdraw", FIRST, "--undo").exit_code == 0
        assert "bios=2 x=." in fleet("label", FIRST, "bios=2", "x=").stdout
        assert labels(store)[0]["bios"] == "2"
        assert "x" not in labels(store)[0]


@pytest.mark.long
def test_the_clock_of_a_machine_orders_no_amendment(
    store: Store, tmp_path: Path
) -> None:
    with Fleet(tmp_path, preload("clock.c") | {"CLOCK_AHEAD_S": "0"}) as fleet:
        for value, years in (("future", 10), ("now", 0), ("past", -10)):
            fleet.environment["CLOCK_AHEAD_S"] = str(years * 365 * 86400)
            amend_in_silence(fleet, "label", FIRST, f"n={value}")
            amend_in_silence(fleet, "withdraw", FIRST)
            assert labels(store)[0].get("n") != value, "it is withdrawn"
            assert fleet("withdraw", FIRST, "--undo").exit_code == 0
            assert labels(store)[0]["n"] == value


def test_an_amendment_that_does_not_hold_is_an_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = type(store.place).put

    def put_both(place: Folder, draft: Path, name: str) -> bool:
        other = {
            "run_id": FIRST,
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
        store.label([FIRST], {"bios": "ours"})
    assert labels(store)[0]["bios"] == "theirs"
    assert len(list_amendments(store)) == 1


def amend_in_silence(fleet: Fleet, *words: str) -> None:
    _, stderr = fleet.start(*words).communicate()
    assert stderr == ""


def test_the_commands_select_label_and_withdraw(store: Store, tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        labelled = fleet("label", "rpi5", "bios=2.1", "rack=")
        assert "Labelled 2 runs" in labelled.stdout
        assert labels(store)[0] == {"kernel": "6.12", "bios": "2.1"}

        withdrawn = fleet("withdraw", FIRST)
        assert "Withdrawn, and kept: 1 run" in withdrawn.stdout
        assert FIRST in fleet("withdraw").stdout
        assert FIRST not in fleet("runs").stdout
        assert fleet("withdraw", FIRST).exit_code == 2, "withdrawn already"

        fleet("withdraw", SECOND)
        assert "all runs are withdrawn" in fleet("show").stderr

        fleet("withdraw", SECOND, "--undo")
        undone = fleet("withdraw", FIRST, "--undo")
        assert "Read again: 1 run" in undone.stdout
        assert "No run is withdrawn." in fleet("withdraw").stdout

        assert fleet("label", "rpi5", "bios").exit_code == 2

"""What no reader would take is refused when it is written, and costs nothing that was
measured.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import StoreError
from fleet.model import Host, Run
from fleet.store import Intent, Store
from fleet.store.verify import verify
from tests import builders
from tests.command import Fleet

LONG = "x" * (3 << 20)
COMMAND = "curl -H 'Token: hunter2-of-the-lab' http://localhost/quiet"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"started_utc": "1969-12-31T23:59:00Z"}, "1969"),
        ({"started_utc": "9999-01-01T00:00:00Z"}, "9999"),
        ({"labels": {"note": LONG}}, "labels_json"),
        ({"host": Host("rpi5", "192.0.2.7", labels={"note": LONG})}, "labels_json"),
    ],
    ids=["1969", "9999", "label", "label of the inventory"],
)
def test_a_run_that_no_reader_would_take_is_not_begun_and_not_published(
    tmp_path: Path, changes: Mapping[str, Any], word: str
) -> None:
    run: Run = replace(builders.a_run(), **changes)
    store = Store(tmp_path)
    with pytest.raises(StoreError, match=word):
        store.new_journal(run)
    assert store.read_begun_runs() == []
    with store.new_journal(builders.a_run()) as journal:
        journal.append(b"measured")
    with pytest.raises(StoreError, match="nothing that had arrived is lost"):
        store.publish(run, builders.make_bursts(run))
    assert store.list_runs() == []
    assert verify(store.place).problems == ()
    assert [begun.run_id for begun in store.read_begun_runs()] == [run.run_id]


def test_a_label_that_is_no_text_begins_no_run(tmp_path: Path) -> None:
    host = Host("rpi5", "192.0.2.7", labels={"note": "\udc80"})
    with pytest.raises(StoreError, match="cannot be measured"):
        Store(tmp_path).new_journal(builders.a_run(host=host))
    assert not list(tmp_path.glob(".fleet/*/*"))


def test_a_note_of_a_session_that_no_reader_would_take_begins_nothing(
    tmp_path: Path,
) -> None:
    intent = Intent("s20260102T030400Z-00000001", ("here",), labels={"note": "\udc80"})
    with pytest.raises(StoreError, match="cannot note the session"):
        Store(tmp_path).hold_session(intent).__enter__()
    assert Store(tmp_path).read_idle_intents() == []


def test_no_command_of_the_inventory_stands_in_a_record_or_a_journal(
    tmp_path: Path,
) -> None:
    host = Host("rpi5", "192.0.2.7", before=(COMMAND, LONG), after=(COMMAND,))
    run = builders.a_run(host=host)
    store = Store(tmp_path)
    with store.new_journal(run) as journal:
        assert "hunter2" not in (journal.folder / "run.json").read_text()
    (begun,) = store.read_begun_runs()
    assert (len(begun.host.before), len(begun.host.after)) == (2, 1)
    store.publish(run, builders.make_bursts(run))
    assert [listed.run_id for listed in store.list_runs()] == [run.run_id]
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes()


def test_the_note_of_a_failed_session_hides_the_command_that_failed(
    tmp_path: Path,
) -> None:
    with Fleet(tmp_path) as fleet:
        host = f'{{via: local, before: ["exit 3 # {COMMAND}"]}}'
        fleet.inventory(f"hosts:\n  here: {host}\n")
        assert fleet("run", "-b", "clock", "-q").exit_code != 0
        (note,) = fleet.results.glob(".fleet/journal/s*.json")
        assert "of `before` failed" in note.read_text()
        assert "hunter2" not in note.read_text()

"""The logs of a session: one of all hosts, one of each host that failed; bounded,
without secrets.
"""

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from fleet.errors import BuildError
from fleet.model import Host
from fleet.session import log
from fleet.session.events import HostFinished, NoteAdded, Outcome, State, ignore
from fleet.session.host_progress import HostProgress
from fleet.session.log import SessionLog
from fleet.store import Intent, Store, new_session_id
from tests import builders
from tests.command import Fleet

HOST = Host("b1", "192.0.2.1", env=MappingProxyType({"TOKEN": "hunter2", "DEBUG": "1"}))


def test_a_failed_host_has_a_log_of_its_own_and_a_good_one_has_not(
    tmp_path: Path,
) -> None:
    session_log = SessionLog(tmp_path / "s", ignore)
    bad = HostProgress(HOST, session_log)
    good = HostProgress(Host("b2", "x"), session_log)
    for progress in (bad, good):
        progress.enter("connect")
        progress.note("a note")
    session_log(
        HostFinished(bad.outcome_of_error(BuildError("b1: cc said:\nline two")))
    )
    session_log(HostFinished(good.completed_outcome()))
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == [
        "b1.log",
        "session.log",
    ]
    session = (tmp_path / "s" / "session.log").read_text().splitlines()
    assert [line.split("Z ", 1)[1] for line in session] == [
        "b1: stage connect",
        "b1: a note",
        "b2: stage connect",
        "b2: a note",
        "b1: failed in stage build, 0 bursts in 0.0 s b1: cc said:\\nline two",
        "b2: complete in stage done, 0 bursts in 0.0 s",
    ]
    own = (tmp_path / "s" / "b1.log").read_text()
    assert own.endswith("\nb1: cc said:\nline two\n")
    assert "b1: stage connect\n" in own
    assert (tmp_path / "s" / "session.log").stat().st_mode & 0o77 == 0


def test_no_log_grows_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SESSION_LIMIT", 10_000)
    session_log = SessionLog(tmp_path, ignore)
    for number in range(2_000):
        session_log(NoteAdded(HOST, f"note {number}"))
    session_log(HostFinished(Outcome(HOST, State.FAILED, message="over")))
    session = (tmp_path / "session.log").read_text()
    assert len(session) < 10_200
    assert session.endswith(f"\n{log._FULL}")
    own = (tmp_path / "b1.log").read_text()
    assert len(own.splitlines()) < log.LINES_OF_A_HOST + 5
    assert "note 1999" in own


def test_a_log_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    session_log = SessionLog(tmp_path / "file" / "s", ignore)
    session_log(NoteAdded(HOST, "x"))
    session_log(HostFinished(Outcome(HOST, State.FAILED, message="over")))


def test_the_summary_of_a_failed_session_says_where_its_log_is(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts: {dead: {address: 127.0.0.1, port: 1}}\n")
        old = a_log(Store(fleet.results), session_id(1))
        done = fleet("run", "-q")
        assert not old.exists()
        a_log(Store(fleet.results), session_id(1))
        assert fleet("resume", "-q").exit_code == 3
        assert not old.exists()
    assert done.exit_code == 3
    (place,) = re.findall(r"Full log: (\S+)", done.stdout)
    folder = Path(tmp_path, place)
    assert folder.parent == tmp_path / "results" / ".fleet/logs"
    assert "refused" in (folder / "dead.log").read_text()
    assert Fleet(tmp_path)("runs", "--json").json == []


# ---- logs of long ago
# ------------------------------------------------------------------------------------

LONG_AGO = time.time() - 91 * 86_400


def session_id(number: int) -> str:
    return f"s20250101T000000Z-{number:08x}"


def a_log(store: Store, name: str, *, recent: str = "") -> Path:
    """A session's log that is old, but for the file called `recent`."""
    folder = store.state_dir / "logs" / name
    folder.mkdir(parents=True)
    for name_ in ("session.log", "b1.log"):
        (folder / name_).write_text("a line\n")
    for path in [*folder.iterdir(), folder]:
        if path.name != recent:
            os.utime(path, (LONG_AGO, LONG_AGO))
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def test_old_logs_are_removed_and_what_spoke_lately_stays(store: Store) -> None:
    old = a_log(store, session_id(1))
    lately = a_log(store, session_id(2), recent="session.log")
    young = a_log(store, new_session_id())  # though its files seem old
    log.prune_logs(store)
    assert not old.exists()
    assert [len(list(folder.iterdir())) for folder in (lately, young)] == [2, 2]


def test_logs_of_sessions_with_something_left_stay_however_old(store: Store) -> None:
    unfinished, at_work, measured = [
        a_log(store, session_id(number)) for number in range(3)
    ]
    with store.hold_session(Intent(unfinished.name, ("b1",))):
        pass
    with store.new_journal(replace(builders.a_run(), session_id=measured.name)):
        pass
    with Store(store.place.root).hold_session(Intent(at_work.name, ("b1",))):
        log.prune_logs(store)
    assert [
        len(list(folder.iterdir())) for folder in (unfinished, at_work, measured)
    ] == [2, 2, 2]
    for name in (unfinished.name, at_work.name):
        store.end_session(name)
    log.prune_logs(store)
    assert [folder.exists() for folder in (unfinished, at_work, measured)] == [
        False,
        False,
        True,
    ]


def test_what_is_no_log_of_ours_stays(store: Store, tmp_path: Path) -> None:
    with_a_note = a_log(store, session_id(1))
    elsewhere = tmp_path / "elsewhere"
    named = a_log(store, "kept")
    (with_a_note / "remember").mkdir()
    os.utime(with_a_note, (LONG_AGO, LONG_AGO))
    os.utime(with_a_note / "remember", (LONG_AGO, LONG_AGO))
    elsewhere.mkdir()
    (elsewhere / "mine.log").write_text("mine")
    os.utime(elsewhere / "mine.log", (LONG_AGO, LONG_AGO))
    (store.state_dir / "logs" / session_id(2)).symlink_to(elsewhere)
    log.prune_logs(store)
    assert (with_a_note / "remember").exists()
    assert (elsewhere / "mine.log").read_text() == "mine"
    assert len(list(named.iterdir())) == 2

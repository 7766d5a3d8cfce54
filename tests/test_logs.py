"""What a session says is kept: a log of all, one of each host that failed; bounded, without secrets."""

import json
from pathlib import Path
from types import MappingProxyType

import pytest

from fleet import logs
from fleet.errors import BuildError
from fleet.logs import Logged
from fleet.model import Host
from fleet.outcomes import Outcome, State, Story
from fleet.progress import Quiet
from tests.command import Fleet

HOST = Host("b1", "192.0.2.1", env=MappingProxyType({"TOKEN": "hunter2", "DEBUG": "1"}))


def test_a_failed_host_has_a_log_of_its_own_and_a_good_one_has_not(tmp_path: Path) -> None:
    logged = Logged(tmp_path / "s", Quiet())
    bad, good = Story(HOST, logged), Story(Host("b2", "x"), logged)
    for story in (bad, good):
        story.enter("connect")
        story.tell("a note")
    logged.finished(bad.failed(BuildError("b1: cc said:\nline two")))
    logged.finished(good.done())
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["b1.log", "session.log"]
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


def test_no_log_grows_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SESSION_LIMIT", 10_000)
    logged = Logged(tmp_path, Quiet())
    for number in range(2_000):
        logged.note(HOST, f"note {number}")
    logged.finished(Outcome(HOST, State.FAILED, message="over"))
    session = (tmp_path / "session.log").read_text()
    assert len(session) < 10_200
    assert session.endswith(f"\n{logs._FULL}")
    own = (tmp_path / "b1.log").read_text()
    assert len(own.splitlines()) < logs.LINES_OF_A_HOST + 5
    assert "note 1999" in own


def test_a_log_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    logged = Logged(tmp_path / "file" / "s", Quiet())
    logged.note(HOST, "x")
    logged.finished(Outcome(HOST, State.FAILED, message="over"))


def test_the_summary_of_a_failed_session_says_where_its_log_is(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts: {dead: {address: 127.0.0.1, port: 1}}\n")
        done = fleet("run", "-q")
    assert done.exit_code == 3
    folder = Path(tmp_path, done.stdout.rpartition("All that was said stands in ")[2].partition(". ")[0])
    assert folder.parent == tmp_path / "results" / "_logs"
    assert "refused" in (folder / "dead.log").read_text()
    assert json.loads(Fleet(tmp_path)("runs", "--json").stdout) == []

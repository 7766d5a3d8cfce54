"""A session in progress on a pipe, which is never silent for long; by a clock of the
test's own.
"""

import io

import pytest

from fleet.console.live_table import LiveTable
from fleet.console.progress import SILENCE_S, Lines, Tallies, progress
from fleet.console.rows import MANY
from fleet.model import Host
from fleet.plan.forecast import Duration
from fleet.session.events import (
    BurstsReceived,
    DurationEstimated,
    HostFinished,
    Outcome,
    StageEntered,
    State,
)

A, B = (Host(name, "x") for name in "ab")
MEDIANS = (("cas", (("smt", 24.08), ("llc", 55.3))), ("readwrite", (("smt", 1300.0),)))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_silent_pipe_gets_a_line_about_the_one_host_at_work(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Lines([A], clock)
    lines(StageEntered(A, "measure"))
    lines(BurstsReceived(A, 0, 1000))
    clock.now += SILENCE_S - 1
    assert lines.break_silence() == 1, "there was a line 9 s ago"
    lines(BurstsReceived(A, 50, 1000, MEDIANS))
    clock.now += 1
    assert lines.break_silence() == SILENCE_S
    assert capsys.readouterr().err.splitlines() == [
        "a: measure",
        (
            "a: measure, 50/1000 bursts, 190 s left, cas smt 24.1  llc 55.3; readwrite"
            " smt 1300"
        ),
    ]


def test_of_several_hosts_it_counts_them_and_their_bursts(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Lines([A, B], clock)
    for host, expected in ((A, 40.0), (B, 60.0)):
        lines(StageEntered(host, "measure"))
        lines(DurationEstimated(host, Duration(5.0, expected)))
        lines(BurstsReceived(host, 0, 1000))
    clock.now += SILENCE_S
    lines.break_silence()
    lines(BurstsReceived(A, 90, 1000))
    clock.now += SILENCE_S
    lines.break_silence()
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "0 of 2 hosts done: 2 measure; about 50 s left",
        "0 of 2 hosts done: 2 measure; about 3 min left; 90 of 2,000 bursts",
    ]


def test_a_host_that_takes_bursts_again_after_all_is_said_to_be_late(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Lines([A], clock)
    lines(StageEntered(A, "measure"))
    lines(DurationEstimated(A, Duration(5.0, 15.0)))
    lines(BurstsReceived(A, 1000, 1000))
    clock.now += SILENCE_S
    lines.break_silence()
    clock.now += SILENCE_S
    lines.break_silence()
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "a: measure, 1000+ bursts, at most 5 s",
        "a: measure, 1000+ bursts, longer than expected",
    ]


def test_of_many_hosts_a_tally_breaks_the_silence(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = [Host(f"h{number}", "x") for number in range(2 * MANY)]
    tallies = Tallies(hosts, clock)
    for host in hosts[:5]:
        tallies(StageEntered(host, "facts"))
    tallies(HostFinished(Outcome(hosts[0], State.COMPLETE)))
    assert capsys.readouterr().err == ""
    clock.now += SILENCE_S
    tallies.break_silence()
    printed = capsys.readouterr().err
    assert (
        printed
        == "1 of 60 hosts done: 1 complete; 55 queued, 4 facts; about 10 min left\n"
    )


@pytest.mark.parametrize(
    ("ci", "moves"),
    [(None, True), ("", True), ("false", True), ("true", False), ("1", False)],
)
def test_no_table_moves_where_a_ci_service_watches(
    ci: str | None, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.delenv("CI", raising=False)
    if ci is not None:
        monkeypatch.setenv("CI", ci)
    with progress([Host("rome", "192.0.2.7")]) as handler:
        assert isinstance(handler, LiveTable) is moves


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

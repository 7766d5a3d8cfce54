"""Output of a session at its end and in progress: exit codes, folded failures, lines,
the live table.
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fleet import hostnames
from fleet.console import summary
from fleet.console.live_table import LiveTable
from fleet.console.progress import Lines, progress
from fleet.console.summary import MAX_HOSTS, render_medians
from fleet.model import Host, RequestedOptions
from fleet.plan.merge import merge_plan
from fleet.session.events import (
    BurstsReceived,
    HostFinished,
    NoteAdded,
    Outcome,
    StageEntered,
    State,
    exit_code,
)
from fleet.store import Store
from tests import simulated
from tests.command import ROOT


def make_host(name: str = "board") -> Host:
    return Host(name=name, address="192.0.2.1")


def make_outcome(
    state: State, code: int = 0, name: str = "board", message: str = ""
) -> Outcome:
    return Outcome(
        make_host(name),
        state,
        stage="connect" if code else "done",
        message=message,
        exit_code=code,
    )


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([make_outcome(State.COMPLETE), make_outcome(State.COMPLETE)], 0),
        ([make_outcome(State.COMPLETE), make_outcome(State.FAILED, 3)], 1),
        ([make_outcome(State.FAILED, 3), make_outcome(State.FAILED, 3)], 3),
        ([make_outcome(State.FAILED, 3), make_outcome(State.FAILED, 8)], 1),
        ([make_outcome(State.PARTIAL, 1)], 1),
        ([make_outcome(State.COMPLETE), make_outcome(State.INTERRUPTED, 130)], 130),
    ],
)
def test_the_exit_code_says_how_much_went_well(
    outcomes: Sequence[Outcome], code: int
) -> None:
    assert exit_code(outcomes) == code


def test_a_session_of_few_hosts_ends_with_its_numbers(tmp_path: Path) -> None:
    run = simulated.publish(tmp_path, simulated.desktop(), rounds=2)
    stored = replace(
        make_outcome(State.COMPLETE, name=run.host.name), run_id=run.run_id
    )

    def render(count: int) -> str:
        others = [replace(stored, run_id=str(number)) for number in range(count)]
        return render_medians(Store(tmp_path), [stored, *others], 100, colour=False)

    assert "cas" in render(0)
    text = render(summary.MANY)
    assert text.splitlines()[0].split()[:4] == ["benchmark", "of", "hosts", "median"]
    assert f" {run.host.name} " in text
    assert render(MAX_HOSTS) == ""


def test_equal_failures_are_grouped_with_all_their_names() -> None:
    dead = [
        make_outcome(State.FAILED, 3, f"h{i}", f"h{i}: no route to host.")
        for i in range(17)
    ]
    other = make_outcome(State.FAILED, 8, "odd", "odd: no compiler.")
    text = summary.render_outcomes([*dead, other], 0.0)
    assert text.count("no route to host.") == 1
    assert "17 hosts, connect: h[0-16]\n  the first: h0: no route to host." in text
    assert "odd: no compiler." in text


def test_lines_report_every_tenth_and_no_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines([make_host()])
    for done in range(1001):
        lines(BurstsReceived(make_host(), done, 1000))
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 10
    assert printed[-1] == "board: 1000 of 1000 bursts"


def test_lines_say_once_that_further_rounds_follow(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines([make_host()])
    for done in range(8, 15):
        lines(BurstsReceived(make_host(), done, max(done, 10)))
    printed = capsys.readouterr().err.splitlines()
    assert printed[-2:] == [
        "board: 10 of 10 bursts",
        "board: further rounds, until every pair reaches the precision",
    ]


def draw(table: LiveTable, console: Console) -> list[str]:
    with console.capture() as capture:
        console.print(table.render())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_live_table_has_a_row_per_host() -> None:
    console = Console(width=80, height=40, force_terminal=False)
    table = LiveTable([make_host("a"), make_host("b")], console)
    table(StageEntered(make_host("a"), "measure"))
    table(BurstsReceived(make_host("a"), 30, 120))
    lines = draw(table, console)
    assert lines[0].split() == ["host", "stage", "bursts", "time"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["a", "measure", "30/120"],
        ["b", "queued"],
    ]


def test_the_live_table_shows_the_medians_so_far_a_line_a_benchmark_where_there_is_room() -> (
    None
):
    medians = (
        ("cas", (("smt", 24.08), ("llc", 55.3))),
        ("readwrite", (("smt", 30.0),)),
    )
    for width, height, expected in (
        (100, 20, ["cas       smt 24.1  llc 55.3", "readwrite smt 30.0"]),
        (100, 4, ["cas smt 24.1  llc 55.3; readwrite smt 30.0"]),
        (58, 4, ["cas smt 24.1  llc 55…"]),
    ):
        console = Console(width=width, height=height, force_terminal=False)
        table = LiveTable([make_host("a")], console)
        table(StageEntered(make_host("a"), "measure"))
        table(BurstsReceived(make_host("a"), 30, 120, medians))
        lines = draw(table, console)
        assert lines[0].endswith("medians so far, ns")
        assert lines[1].split()[:3] == ["a", "measure", "30/120"]
        assert [line[lines[0].index("medians") :] for line in lines[1:]] == expected


def test_the_live_table_says_which_command_runs_and_that_the_session_stops() -> None:
    console = Console(width=80, height=40, force_terminal=False)
    table = LiveTable([make_host("a")], console)
    table(StageEntered(make_host("a"), "before", "systemctl stop cron"))
    table.announce("stopping the agents")
    lines = draw(table, console)
    assert lines[1].split() == ["a", "before", "systemctl", "stop", "cron"]
    assert lines[2] == "stopping the agents"


def test_at_80_columns_numbers_and_states_are_whole_and_columns_stay() -> None:
    console = Console(width=80, height=40, force_terminal=False)
    host = make_host("a-host-with-a-long-name.of.a.rack.example.org")
    table = LiveTable([host], console)
    medians = (("readwrite", (("package", 1304.5),)),)
    table(StageEntered(host, "measure"))
    table(BurstsReceived(host, 100_000, 200_000, medians))
    title, row = draw(table, console)
    assert row.endswith("readwrite package 1304")
    assert "  measure  " in row
    assert "100000/200000" in row
    assert row.startswith("a-host-")
    table(BurstsReceived(host, 3, 9, medians))
    assert draw(table, console)[0] == title


def test_five_hundred_hosts_fit_a_small_terminal_with_those_at_work_on_top() -> None:
    console = Console(width=80, height=20, force_terminal=False)
    hosts = [make_host(f"h{i:03}") for i in range(500)]
    table = LiveTable(hosts, console)
    for host in hosts[:400]:
        table(HostFinished(Outcome(host, State.COMPLETE)))
    table(HostFinished(Outcome(hosts[400], State.FAILED, stage="connect")))
    table(StageEntered(hosts[450], "deploy"))
    lines = draw(table, console)
    assert len(lines) <= 20
    assert any(line.startswith("h450  deploy") for line in lines)
    assert any(line.startswith("h400  failed (connect)") for line in lines)
    assert lines[0].startswith(
        "401 of 500 hosts done: 400 complete, 1 failed; 98 queued, 1 deploy; about "
    )


def test_the_command_line_goes_over_the_hosts_wishes_and_these_over_the_defaults() -> (
    None
):
    board = Host(
        name="board",
        address="x",
        cpus=(0, 2),
        plan=RequestedOptions(rounds=20, samples=5),
    )
    plan = merge_plan(board, RequestedOptions(samples=7))
    assert plan.rounds == 20
    assert plan.samples == 7
    assert plan.warmup is None
    assert plan.cpus == (0, 2)
    assert merge_plan(board, RequestedOptions(cpus=(1, 3))).cpus == (1, 3)


def test_messages_that_differ_by_a_hosts_own_words_are_grouped_the_most_frequent_first() -> (
    None
):
    web = [Host(f"w{i}", f"192.0.2.{i}", port=2200 + i) for i in range(1, 4)]
    messages = [(make_host("odd"), "odd: no compiler")]
    messages += [
        (
            h,
            (
                f"{h.name}: no route to {h.address} port {h.port}; {h.port} bursts are"
                " kept"
            ),
        )
        for h in web
    ]
    (text, names), (_, others) = hostnames.group_messages(messages)
    assert names == ("w1", "w2", "w3")
    assert text.startswith("w1: no route to 192.0.2.1 port 2201")
    assert others == ("odd",)


def test_a_short_name_is_not_taken_out_of_the_words_around_it() -> None:
    messages = [
        (make_host("a"), "a: an agent a-b failed"),
        (make_host("b"), "b: an agent b-b failed"),
    ]
    assert len(hostnames.group_messages(messages)) == 2


def test_notes_that_differ_in_numbers_are_one_with_their_range() -> None:
    texts = {
        "a": "half of 8 relations are known to ±1.3 %",
        "b": "half of 8 relations are known to ±2.4 %",
        "c": "half of 8 relations are known to ±1,000 %",
    }
    messages = [(make_host(name), text) for name, text in texts.items()]
    assert hostnames.group_messages(messages, numbers_alike=True) == [
        ("half of 8 relations are known to ±1.3 to 1,000 %", ("a", "b", "c"))
    ]
    assert len(hostnames.group_messages(messages)) == 3


def make_outcomes(count: int = 500) -> list[Outcome]:
    hosts = [make_host(f"h{i:03}") for i in range(count)]
    return [
        (
            Outcome(
                h,
                State.FAILED,
                stage="connect",
                message=f"{h.name}: no route.",
                exit_code=3,
            )
            if int(h.name[1:]) % 10 == 3
            else Outcome(
                h,
                State.COMPLETE,
                bursts=10,
                notes=(f"{h.name}: governor powersave", "Expected: 10 rounds."),
            )
        )
        for h in hosts
    ]


def test_five_hundred_hosts_are_summed_up_in_a_few_lines() -> None:
    outcomes = make_outcomes()
    text = summary.render_outcomes(
        outcomes, 39.1, summary.Hints("-r there", "-i lab.yaml", "LOGS")
    )
    assert len(text.splitlines()) < 20
    assert "450    complete  done     4,500   " in text
    assert "50 hosts, connect: h[003,013,023," in text
    assert "  450 hosts (h[000-002," in text
    assert "): governor powersave" in text
    assert "Expected:" not in text
    assert (
        "\n\n450 of 500 hosts stored, 4,500 bursts, 39.1 s.\nNext: fleet show -r"
        " there\nTo measure" in text
    )
    assert "\nTo measure what is missing: fleet resume -r there -i lab.yaml\n" in text
    assert text.endswith("\nFull log: LOGS")
    assert [
        entry["host"]
        for entry in json.loads(summary.render_outcomes_json(outcomes))["rows"]
    ] == [outcome.host.name for outcome in outcomes]


@pytest.mark.long
def test_five_hundred_different_failures_are_still_a_page() -> None:
    failed = [
        Outcome(
            make_host(f"h{i:03}"),
            State.FAILED,
            stage="build",
            message=f"h{i:03}: {'x' * i * 100}",
        )
        for i in range(500)
    ]
    text = summary.render_outcomes(failed, 0.0)
    assert len(text) < 50_000
    assert "480 other failures on 480 hosts: see --json." in text


def test_the_log_of_five_hundred_hosts_is_a_screen_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes = make_outcomes()
    with progress([outcome.host for outcome in outcomes]) as show:
        for outcome in outcomes:
            for stage in ("connect", "facts", "deploy", "measure", "store"):
                show(StageEntered(outcome.host, stage))
            show(NoteAdded(outcome.host, "governor powersave"))
            show(HostFinished(outcome))
    printed = capsys.readouterr().err.splitlines()
    assert "h003: failed in stage connect" in printed
    assert len(printed) <= 60
    assert printed[-1] == "500 of 500 hosts done: 450 complete, 50 failed"


@pytest.mark.parametrize("height", [3, 8, 24, 200])
@pytest.mark.parametrize("count", [1, 5, 40, 500])
def test_the_live_table_is_never_taller_or_wider_than_the_terminal(
    height: int, count: int
) -> None:
    console = Console(width=40, height=height, force_terminal=False)
    outcomes = make_outcomes(count)
    table = LiveTable([outcome.host for outcome in outcomes], console)
    for outcome in outcomes[::2]:
        table(StageEntered(outcome.host, "measure"))
        table(HostFinished(outcome))
    stage = "a stage with a name that is much too long for the line it stands in"
    for outcome in outcomes[1::3]:
        table(StageEntered(outcome.host, stage))
    lines = draw(table, console)
    assert len(lines) < max(height, 4)
    assert max(map(len, lines)) <= 40


def test_a_live_table_with_room_for_one_host_shows_the_one_at_work() -> None:
    console = Console(width=80, height=5, force_terminal=False)
    hosts = [make_host(name) for name in ("failed", "at-work", "waiting")]
    table = LiveTable(hosts, console)
    for host in hosts[:2]:
        table(StageEntered(host, "measure"))
    table(HostFinished(make_outcome(State.FAILED, 3, "failed")))
    _, titles, *rows = draw(table, console)
    assert titles.split()[0] == "host"
    assert [row.split()[0] for row in rows] == ["at-work"]


def test_a_live_table_with_room_for_one_failure_shows_the_most_recent() -> None:
    console = Console(width=80, height=5, force_terminal=False)
    hosts = [make_host(name) for name in ("late", "early", "waiting")]
    table = LiveTable(hosts, console)
    for name in ("early", "late"):
        table(HostFinished(make_outcome(State.FAILED, 3, name)))
    _, _, *rows = draw(table, console)
    assert [row.split()[0] for row in rows] == ["late"]


@pytest.mark.slow
def test_a_real_terminal_of_ten_lines_is_never_scrolled_by_five_hundred_hosts() -> None:
    """As much goes up as went down: each new drawing climbs less than the terminal is
    tall.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable,
            [sys.executable, "-c", _PLAY],
            {"TERM": "xterm", "PYTHONPATH": str(ROOT)},
        )
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 60, 0, 0))
    os.write(terminal, b"\n")
    printed = b""
    with contextlib.suppress(OSError):  # EIO at the end of a pty
        while piece := os.read(terminal, 1 << 16):
            printed += piece
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, printed
    climbs = [
        len(re.findall(rb"\x1b\[1A", run))
        for run in re.findall(rb"(?:\x1b\[2K|\x1b\[1A|\r)+", printed)
    ]
    assert 3 <= max(climbs) < 10
    assert b"hosts done" in printed


_PLAY = """
from fleet.console.summary import MAX_HOSTS, render_medians
from fleet.console.progress import progress
from fleet.session.events import HostFinished, NoteAdded, StageEntered
from tests.console.test_summary import make_outcomes
input()
outcomes = make_outcomes()
with progress([outcome.host for outcome in outcomes]) as show:
    for number, outcome in enumerate(outcomes):
        show(StageEntered(outcome.host, "measure"))
        show(NoteAdded(outcome.host, "a note"))
        if number > 40:
            show(HostFinished(outcomes[number - 40]))
            if number % 50 == 0:
                print(number)  # above the table, which is drawn again
"""

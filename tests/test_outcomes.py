"""What a session says at its end and on the way: exit codes, folded failures, lines, the live table."""

from collections.abc import Sequence

import pytest
from rich.console import Console

from fleet import reporting
from fleet.errors import BuildError, LinkError
from fleet.model import Host, PlanWish
from fleet.outcomes import Outcome, State, Story, exit_code
from fleet.planning import expected, plan_for
from fleet.progress import Lines, LiveTable, Quiet, printable
from tests.builders import a_run


def host(name: str = "board") -> Host:
    return Host(name=name, address="192.0.2.1")


def outcome(state: State, code: int = 0, name: str = "board", message: str = "") -> Outcome:
    return Outcome(host(name), state, stage="connect" if code else "done", message=message, exit_code=code)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([outcome(State.COMPLETE), outcome(State.COMPLETE)], 0),
        ([outcome(State.COMPLETE), outcome(State.FAILED, 3)], 1),
        ([outcome(State.FAILED, 3), outcome(State.FAILED, 3)], 3),
        ([outcome(State.FAILED, 3), outcome(State.FAILED, 8)], 1),
        ([outcome(State.PARTIAL, 1)], 1),
        ([outcome(State.COMPLETE), outcome(State.INTERRUPTED, 130)], 130),
    ],
)
def test_the_exit_code_says_how_much_went_well(outcomes: Sequence[Outcome], code: int) -> None:
    assert exit_code(outcomes) == code


def test_equal_failures_are_told_once_with_all_their_names() -> None:
    dead = [outcome(State.FAILED, 3, f"h{i}", f"h{i}: no route to host.") for i in range(17)]
    other = outcome(State.FAILED, 8, "odd", "odd: no compiler.")
    text = reporting.outcomes_text([*dead, other])
    assert text.count("no route to host.") == 1
    assert "connect, 17 hosts (h0, h1, " in text
    assert "odd: no compiler." in text


def test_what_a_host_said_cannot_drive_the_terminal() -> None:
    text = reporting.outcomes_text([outcome(State.FAILED, 3, message="board: \x1b[2J\x07gone\u202e")])
    assert "\x1b" not in text
    assert "\\x1b[2J\\x07gone\\u202e" in text
    assert printable("two\nlines\r") == "two\nlines\\r"


def test_a_failure_says_what_is_kept() -> None:
    story = Story(host(), Quiet())
    assert story.failed(BuildError("board: no compiler.")).message == "board: no compiler."
    run = a_run()
    story.enter("measure", run)
    story._bursts = 7
    ended = story.failed(LinkError("board: cut."))
    assert ended.message == f"board: cut. 7 bursts are kept in the journal of {run.run_id}."
    assert (ended.stage, ended.exit_code, ended.run_id) == ("link", 6, run.run_id)


def test_lines_report_every_tenth_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    for done in range(1001):
        lines.progress(host(), done, 1000)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 10
    assert said[-1] == "board: 1000 of 1000 bursts"


def drawn(table: LiveTable, console: Console) -> list[str]:
    with console.capture() as capture:
        console.print(table.render())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_live_table_has_a_row_per_host() -> None:
    console = Console(width=80, height=40, force_terminal=False)
    table = LiveTable([host("a"), host("b")], console)
    table.stage(host("a"), "measure")
    table.progress(host("a"), 30, 120)
    lines = drawn(table, console)
    assert lines[0].split() == ["host", "stage", "bursts", "left"]
    assert lines[1].split()[:3] == ["a", "measure", "30/120"]
    assert lines[2].split() == ["b", "waiting"]


def test_five_hundred_hosts_fit_a_small_terminal_with_those_at_work_on_top() -> None:
    console = Console(width=80, height=20, force_terminal=False)
    hosts = [host(f"h{i:03}") for i in range(500)]
    table = LiveTable(hosts, console)
    for one in hosts[:400]:
        table.finished(Outcome(one, State.COMPLETE))
    table.finished(Outcome(hosts[400], State.FAILED, stage="connect"))
    table.stage(hosts[450], "deploy")
    lines = drawn(table, console)
    assert len(lines) <= 20
    assert any(line.startswith("h450  deploy") for line in lines)
    assert any(line.startswith("h400  failed (connect)") for line in lines)
    assert lines[-1].startswith("…")
    assert "400 complete" in lines[-1]


def test_the_command_line_goes_over_the_hosts_wishes_and_these_over_the_defaults() -> None:
    board = Host(name="board", address="x", cpus=(0, 2), plan=PlanWish(rounds=20, samples=5))
    plan = plan_for(board, PlanWish(samples=7), cpus=4)
    assert (plan.rounds, plan.samples, plan.warmup, plan.cpus) == (20, 7, None, (0, 2))
    assert plan_for(board, PlanWish(cpus=(1, 3)), cpus=4).cpus == (1, 3)


def test_a_deadline_nobody_asked_for_leaves_room_for_the_whole_plan() -> None:
    plan = plan_for(host(), PlanWish(), cpus=576)
    assert plan.deadline_s > 2 * expected(plan, 576).most_s
    assert plan_for(host(), PlanWish(deadline_s=9), cpus=576).deadline_s == 9

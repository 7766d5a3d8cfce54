"""`fleet run --repeat`: all hosts in turn, a session each time, one end."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from fleet.session.alternate import Alternation
from fleet.store import Store
from tests.command import Fleet


@pytest.mark.long
@pytest.mark.parametrize("hosts", [("here", "there")])
def test_hosts_are_measured_in_turn(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory(
            "hosts:\n" + "".join(f"  {name}: {{via: local}}\n" for name in hosts)
        )
        done = fleet(
            "run", "-q", "--repeat", "3", "-b", "clock", "--rounds", "1", "-c", "0"
        )
        assert done.exit_code == 0, done.stderr
        runs = Store(fleet.results).list_runs()
        logs = [
            log.read_text() for log in fleet.results.glob(".fleet/logs/*/session.log")
        ]
    sessions = {
        run.session_id: [row for row in runs if row.session_id == run.session_id]
        for run in runs
    }
    assert [
        sorted(run.host_name for run in session) for session in sessions.values()
    ] == [sorted(hosts)] * 3
    spans = sorted(
        (session[0].started_utc, session[-1].started_utc)
        for session in sessions.values()
    )
    assert all(last <= first for (_, last), (first, _) in pairwise(spans)), (
        "one session after the other"
    )
    total = re.search(
        r"^6 of 6 runs stored, 6 bursts, (.+) s\.$", done.stdout, re.MULTILINE
    )
    assert total is not None
    slowest = [
        max(map(float, re.findall(r" 1 bursts in (.+) s$", log, re.MULTILINE)))
        for log in logs
    ]
    assert float(total[1]) > sum(slowest) - 0.2, (
        "the time of three sessions, not of the slowest host"
    )
    assert re.search(r"^here .* 3$", done.stdout, re.MULTILINE), (
        "the numbers are of all three runs"
    )


@pytest.mark.long
def test_sides_are_measured_in_turn_with_a_command_before_each_change(
    tmp_path: Path,
) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts: {here: {via: local}}")
        plan = (
            "run",
            "-q",
            "-b",
            "clock",
            "--rounds",
            "1",
            "-c",
            "0",
            "--json",
            "--repeat",
            "2",
        )
        done = fleet(
            *plan,
            "--alternate",
            "mode=a,b",
            "--switch",
            'echo "$FLEET_KEY $FLEET_VALUE" | tee -a log',
        )
        assert done.exit_code == 0, done.stderr
        runs = {run.run_id: run for run in Store(fleet.results).list_runs()}
    in_turn = [runs[outcome["run_id"]] for outcome in done.json]
    order = [dict(run.labels)["mode"] for run in in_turn]
    assert order in (["a", "b", "b", "a"], ["b", "a", "a", "b"])
    assert len({run.session_id for run in in_turn}) == 4
    assert (tmp_path / "log").read_text().splitlines() == [
        f"mode {order[place]}" for place in (0, 1, 3)
    ]


def test_no_order_keeps_in_step_with_what_comes_back_every_pass_or_two() -> None:
    """Four of the eight orders of three passes are left out: A B A B A B, A B B A A B
    and their mirrors.
    """
    sides = Alternation("mode", ("a", "b"))
    drawn = {"".join(sides.draw_order(3, seed)) for seed in range(200)}
    assert drawn == {"ababba", "abbaba", "baabab", "babaab"}
    three = Alternation("mode", ("a", "b", "c"))
    assert all(
        sorted(three.draw_order(4, seed)[start : start + 3]) == ["a", "b", "c"]
        for seed in range(20)
        for start in (0, 9)
    )
    assert sides.draw_order(7, seed=1) == sides.draw_order(7, seed=1)
    assert len(sides.draw_order(1)) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--alternate", "mode=a"), "two different values"),
        (("--alternate", "mode=a,a"), "two different values"),
        (("--alternate", "a b=a,b"), "write key=value"),
        (("--switch", "true"), "--switch applies only with --alternate"),
        (("--alternate", "mode=a,b", "--label", "mode=c"), "both set mode"),
        (("--alternate", "mode=a,b", "--switch", "exit 3"), "exit status 3 for mode="),
    ],
)
def test_what_cannot_be_alternated_is_refused(
    options: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts: {here: {via: local}}")
        done = fleet("run", "-q", "-b", "clock", "-c", "0", *options)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not (tmp_path / "results" / "runs").exists()

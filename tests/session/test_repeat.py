"""`fleet run --repeat`: all hosts in turn, a session each time, one end."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from fleet.store import Store
from tests.command import Fleet

SWITCH = 'echo "$FLEET_KEY $FLEET_VALUE" | tee -a log'


@pytest.mark.parametrize("hosts", [("here", "there")])
def test_hosts_are_measured_in_turn(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts:\n" + "".join(f"  {name}: {{via: local}}\n" for name in hosts))
        done = fleet("run", "-q", "--repeat", "3", "-b", "clock", "--rounds", "1", "-c", "0")
        assert done.exit_code == 0, done.stderr
        runs = Store(fleet.results).published()
    sessions = {run.session_id: [one for one in runs if one.session_id == run.session_id] for run in runs}
    assert [sorted(run.host_name for run in each) for each in sessions.values()] == [sorted(hosts)] * 3
    spans = sorted((each[0].started_utc, each[-1].started_utc) for each in sessions.values())
    assert all(last <= first for (_, last), (first, _) in pairwise(spans)), "one session after the other"
    assert re.search(r"^6 of 6 runs stored, 6 bursts, ", done.stdout, re.MULTILINE)
    assert re.search(r"^here .* 3$", done.stdout, re.MULTILINE), "the numbers are of all three runs"


def test_sides_are_measured_in_turn_with_a_command_before_each_change(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts: {here: {via: local}}")
        plan = ("run", "-q", "-b", "clock", "--rounds", "1", "-c", "0", "--json", "--repeat", "2")
        done = fleet(
            *plan, "--alternate", "mode=a,b", "--switch", 'echo "$FLEET_KEY $FLEET_VALUE" | tee -a log'
        )
        assert done.exit_code == 0, done.stderr
        runs = {run.run_id: run for run in Store(fleet.results).published()}
    in_turn = [runs[outcome["run_id"]] for outcome in json.loads(done.stdout)]
    assert [dict(run.labels)["mode"] for run in in_turn] == ["a", "b", "b", "a"]
    assert len({run.session_id for run in in_turn}) == 4
    assert (tmp_path / "log").read_text().splitlines() == ["mode a", "mode b", "mode a"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--alternate", "mode=a"), "two different values"),
        (("--alternate", "mode=a,a"), "two different values"),
        (("--alternate", "a b=a,b"), "write key=value"),
        (("--switch", "true"), "--switch is for --alternate"),
        (("--alternate", "mode=a,b", "-l", "mode=c"), "both set mode"),
        (("--alternate", "mode=a,b", "--switch", "exit 3"), "exit status 3 for mode=a"),
    ],
)
def test_what_cannot_be_alternated_is_refused(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts: {here: {via: local}}")
        done = fleet("run", "-q", "-b", "clock", "-c", "0", *options)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not (tmp_path / "results" / "_runs").exists()

"""`fleet run --repeat`: all hosts in turn, a session each time, one end."""

import re
from pathlib import Path

import pytest

from fleet.store import Store
from tests.command import Fleet


@pytest.mark.parametrize("hosts", [("here", "there")])
def test_hosts_are_measured_in_turn(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts:\n" + "".join(f"  {name}: {{via: local}}\n" for name in hosts))
        done = fleet("run", "-q", "--repeat", "3", "-b", "clock", "--rounds", "1", "-c", "0")
        assert done.exit_code == 0, done.stderr
        runs = Store(fleet.results).published()
    assert len({run.session_id for run in runs}) == 3
    sessions = [run.session_id for run in runs]
    assert sessions == sorted(sessions), "no session begins before the one before has ended"
    assert [sorted(run.host_name for run in runs if run.session_id == s) for s in sorted(set(sessions))] == [
        sorted(hosts)
    ] * 3
    assert re.search(r"^6 of 6 runs stored, 6 bursts, ", done.stdout, re.MULTILINE)
    assert re.search(r"^here .* 3$", done.stdout, re.MULTILINE), "the numbers are of all three runs"

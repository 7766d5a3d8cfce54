"""`fleet run --repeat`: all hosts in turn, a session each time, one end."""

import re
from itertools import pairwise
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
    sessions = {run.session_id: [one for one in runs if one.session_id == run.session_id] for run in runs}
    assert [sorted(run.host_name for run in each) for each in sessions.values()] == [sorted(hosts)] * 3
    spans = sorted((each[0].started_utc, each[-1].started_utc) for each in sessions.values())
    assert all(last <= first for (_, last), (first, _) in pairwise(spans)), "one session after the other"
    assert re.search(r"^6 of 6 runs stored, 6 bursts, ", done.stdout, re.MULTILINE)
    assert re.search(r"^here .* 3$", done.stdout, re.MULTILINE), "the numbers are of all three runs"

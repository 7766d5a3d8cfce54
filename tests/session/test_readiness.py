"""Conditions that hosts must meet before they are measured, and commands run there
before and after.
"""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from fleet.errors import NotReadyError, PreparationError
from tests import needs
from tests.command import Fleet, interrupt, wait_for
from tests.hosts import odd
from tests.hosts.client import know_behind
from tests.hosts.proxy import FaultProxy, Faults
from tests.hosts.sshd import MakeKnown
from tests.session.test_signals import LONG, measuring

RUN = ("run", "-b", "clock", "--rounds", "2", "--samples", "9", "--lock", "off")
STAT = """\
#!/bin/sh
# Instead of a second's sleep: CPUs that were busy, or idle once BUSY is gone.
read -r cpu user nice system idle rest <STAT
if [ -e BUSY ]; then user=$((user + 1000)); else idle=$((idle + 1000)); fi
echo "$cpu $user $nice $system $idle $rest" >STAT
"""


def read_logs(fleet: Fleet) -> str:
    """The lines of all session logs."""
    return "".join(
        path.read_text()
        for path in sorted(fleet.results.glob(".fleet/logs/*/session.log"))
    )


@pytest.fixture
def busy(fleet: Fleet, tmp_path: Path) -> Path:
    """A host whose /proc/stat says that it is busy, as long as this file is there."""
    unshare = needs.program("unshare", "util-linux")
    needs.program("mount", "mount")
    needs.root()
    busy = tmp_path / "busy"
    stat = tmp_path / "stat"
    planted = tmp_path / "planted"
    busy.touch()
    stat.write_text("cpu 1 2 3 4 5 6 7 8 0 0\n")
    planted.mkdir()
    (planted / "sleep").write_text(
        STAT.replace("STAT", str(stat)).replace("BUSY", str(busy))
    )
    (planted / "sleep").chmod(0o755)
    mount = f'mount --bind {stat} /proc/stat; exec "$@"'
    fleet.inventory(
        f"hosts:\n  here: {{via: command, command: [{unshare}, -m, sh, -c, '{mount}',"
        f" -], env: {{PATH: '{planted}:{os.environ['PATH']}'}}}}\n"
    )
    return busy


def test_a_busy_host_is_left_out_and_resume_takes_it_once_it_is_quiet(
    fleet: Fleet, busy: Path
) -> None:
    done = fleet(*RUN, "--require", "quiet", "--json")
    (host,) = done.json
    assert done.exit_code == NotReadyError.exit_code
    assert host["state"] == "not-ready"
    assert host["stage"] == "wait"
    assert "here: not ready: The host is busy: programs take " in host["message"]
    assert not any(fleet.results.rglob("*.parquet"))
    (note,) = (fleet.results / ".fleet" / "journal").glob("s*.json")
    assert "not ready: The host is busy: programs take " in note.read_text()
    assert fleet("resume", "-q").exit_code == NotReadyError.exit_code
    busy.unlink()
    assert fleet("resume", "-q").exit_code == 0


@pytest.mark.long
def test_a_wait_ends_when_the_host_is_quiet_and_is_noted_with_the_run(
    fleet: Fleet, busy: Path
) -> None:
    process = fleet.start(*RUN, "--require", "quiet", "--wait", "10m", "--json")
    wait_for(
        lambda: (
            fleet.results.exists() and "stage wait The host is busy" in read_logs(fleet)
        )
    )
    busy.unlink()
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "here: wait: The host is busy: programs take " in err
    assert err.count("wait:") == 1
    assert "Before: The host is busy" in out


@pytest.mark.long
def test_a_wait_has_an_end(fleet: Fleet, busy: Path) -> None:
    fleet.inventory(
        (fleet.folder / "inventory.yaml").read_text()
        + "defaults: {require: [quiet], wait: 3s}\n"
    )
    done = fleet(*RUN, "-q", "--json")
    (host,) = done.json
    assert done.exit_code == NotReadyError.exit_code
    assert re.match(r"here: not ready after \d+ s: The host is busy", host["message"])
    assert fleet(*RUN, "-q", "--require", "none").exit_code == 0


def test_a_loop_makes_a_host_busy(fleet: Fleet, make_known: MakeKnown) -> None:
    server = make_known()
    fleet.hosts(server.entry(name="board"))
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as loop:
        try:
            done = fleet(*RUN, "-q", "--json", "--require", "quiet", "--wait", "1s")
        finally:
            loop.kill()
    assert done.exit_code == 15
    assert done.json[0]["state"] == "not-ready"


@pytest.mark.long
def test_a_throttled_host_is_waited_for_until_its_limit_is_lifted(
    tmp_path: Path,
) -> None:
    name = f"fleet-test-gate-{os.getpid()}"
    with odd.limited_group(name, "50000", "cpu") as group, Fleet(tmp_path) as fleet:
        words = f'echo $$ >{group}/cgroup.procs; exec "$@"'
        fleet.inventory(
            f"hosts:\n  pod: {{via: command, workdir: {tmp_path}/w, command: [sh, -c,"
            f" '{words}', -]}}\n"
        )
        process = fleet.start(*RUN, "--require", "no-quota", "--wait", "10m")
        wait_for(
            lambda: (
                fleet.results.exists()
                and "stage wait CPU time is limited" in read_logs(fleet)
            )
        )
        quota = group.parent / "cpu.cfs_quota_us"
        (quota if quota.exists() else group.parent / "cpu.max").write_text(
            "-1" if quota.exists() else "max"
        )
        _, err = process.communicate()
        assert process.returncode == 0, err


def test_an_unknown_condition_is_refused_with_those_there_are(fleet: Fleet) -> None:
    refused = fleet(*RUN, "--require", "queit").stderr
    assert "must be quiet, no-steal, performance" in refused
    assert refused.endswith("not 'queit'; did you mean 'quiet'?\n")
    fleet.inventory("hosts:\n  here: {via: local, require: silent}\n")
    assert (
        "inventory.yaml:2: hosts.here.require: must be quiet, " in fleet("hosts").stderr
    )


def test_a_host_is_prepared_and_restored_and_the_log_keeps_what_was_printed(
    fleet: Fleet, make_known: MakeKnown
) -> None:
    server = make_known()
    before = (
        "echo one; echo two >&2; seq 100000 200000; seq -s , 1000",
        "touch ~/prepared",
    )
    fleet.hosts(
        server.entry(name="board", before=before, after=("mv ~/prepared ~/restored",))
    )
    assert fleet(*RUN, "-q").exit_code == 0
    assert (server.home / "restored").exists()
    assert "board: before: one\n" in read_logs(fleet)
    assert "board: before: (99,804 lines left out)\n" in read_logs(fleet)
    assert "board: before: 150000\n" not in read_logs(fleet)
    assert "(3,392 characters left out)\n" in read_logs(fleet)
    assert "board: before: two\n" in read_logs(fleet)


def test_where_preparing_fails_the_host_is_restored_and_not_measured(
    fleet: Fleet, tmp_path: Path
) -> None:
    keys = (
        f"before: [echo no such luck; exit 3, touch {tmp_path}/next], after: touch"
        f" {tmp_path}/restored"
    )
    fleet.inventory(f"hosts:\n  here: {{via: local, {keys}}}\n")
    done = fleet(*RUN, "-q", "--json")
    (host,) = done.json
    assert done.exit_code == PreparationError.exit_code
    assert host["stage"] == "before"
    assert host["run_id"] is None
    assert (
        "here: `echo no such luck; exit 3` of `before` failed (exit code 3): no such"
        " luck" in host["message"]
    )
    assert (tmp_path / "restored").exists()
    assert not (tmp_path / "next").exists()


def test_a_run_is_stored_though_its_host_was_not_restored(fleet: Fleet) -> None:
    fleet.inventory("hosts:\n  here: {via: local, after: [exit 4]}\n")
    done = fleet(*RUN, "-q", "--json")
    (host,) = done.json
    assert done.exit_code == PreparationError.exit_code
    assert host["state"] == "complete"
    assert host["message"].startswith("here: `exit 4` of `after` failed (exit code 4)")
    assert len(fleet.samples()) > 0


def test_a_host_is_restored_after_an_interrupt(fleet: Fleet, tmp_path: Path) -> None:
    fleet.inventory(
        f"hosts:\n  here: {{via: local, after: touch {tmp_path}/restored}}\n"
    )
    process = fleet.start(*LONG)
    wait_for(lambda: measuring(fleet))
    interrupt(process)
    out, _ = process.communicate()
    assert process.returncode == 130, out
    assert "here: stopped in stage measure." in out, out
    assert (tmp_path / "restored").exists()


@pytest.mark.long
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_host_behind_a_cut_link_is_restored_or_named(
    fleet: Fleet, make_known: MakeKnown, known_hosts: Path, comes_back: bool
) -> None:
    server = make_known()
    with FaultProxy((server.address, server.port), Faults()) as proxy:
        know_behind(known_hosts, proxy, server)
        after = ("touch ~/restored",)
        fleet.hosts(
            server.entry(
                name="board", address=proxy.address, port=proxy.port, after=after
            )
        )
        process = fleet.start(*LONG, "--reconnect", "1s")
        wait_for(lambda: measuring(fleet))
        if comes_back:
            process.send_signal(signal.SIGINT)
            proxy.cut()
        else:
            proxy.close()
        out, _ = process.communicate()
    assert (server.home / "restored").exists() is comes_back
    assert (
        "`after` did not run; do it by hand: touch ~/restored." in out
    ) is not comes_back, out

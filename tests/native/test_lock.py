"""One agent at a time on a machine: the kernel's lock, its message, and whom it lets
pass.
"""

import os
import signal
from pathlib import Path

import pytest

from tests import needs
from tests.native.agent import LONG, decode, notes, run, start_agent

QUICK = (
    "-b",
    "clock",
    "--rounds",
    "1",
    "--samples",
    "9",
    "--iterations",
    "100",
    "-f",
    "jsonl",
)


def lock_variables(folder: Path) -> dict[str, str]:
    return {"FLEET_AGENT_LOCK": str(folder / "lock")}


def test_a_second_agent_is_refused_with_the_first_ones_name(tmp_path: Path) -> None:
    needs.cpus(2)
    with start_agent(
        *LONG, "--lock", "r1 alice@desk, since noon", env=lock_variables(tmp_path)
    ) as first:
        refused = run(*QUICK, "--lock", "r2 bob@lab", env=lock_variables(tmp_path))
        assert refused.returncode == 7
        assert refused.stdout == ""
        refusal = (
            "fleet-agent: this machine is being measured for alice@desk, since noon"
            " (run r1, process"
        )
        assert refused.stderr.startswith(f"{refusal} {first.pid})")
        assert run(*QUICK, env=lock_variables(tmp_path)).returncode == 0, (
            "who does not ask is not refused"
        )
        assert first.poll() is None


def test_a_killed_holder_leaves_no_lock_behind(tmp_path: Path) -> None:
    needs.cpus(2)
    with start_agent(
        *LONG, "--lock", "r1 alice@desk", env=lock_variables(tmp_path)
    ) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert (
            run(*QUICK, "--lock", "r2 bob@lab", env=lock_variables(tmp_path)).returncode
            == 0
        )


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_an_older_agent_of_the_same_run_is_ended_and_followed(
    tmp_path: Path, state: str
) -> None:
    needs.cpus(2)
    with start_agent(
        *LONG, "--lock", "r1 alice@desk", env=lock_variables(tmp_path)
    ) as first:
        first.send_signal(signal.SIGSTOP if state == "stopped" else signal.SIGCONT)
        assert (
            run(
                *QUICK, "--lock", "r1 alice@elsewhere", env=lock_variables(tmp_path)
            ).returncode
            == 0
        )
        first.wait()
        assert first.returncode == 6


def test_a_name_in_the_file_is_not_believed_against_the_kernel(tmp_path: Path) -> None:
    """The file says that our run holds the lock, but another process does: nobody is
    ended.
    """
    needs.cpus(2)
    with start_agent(
        *LONG, "--lock", "r1 alice@desk", env=lock_variables(tmp_path)
    ) as first:
        (tmp_path / "lock").write_text(f"{os.getpid()} r2 bob@lab")
        refused = run(*QUICK, "--lock", "r2 bob@lab", env=lock_variables(tmp_path))
        assert refused.returncode == 7
        assert f"another agent (process {first.pid}) measures" in refused.stderr
        assert first.poll() is None


def test_what_stands_in_the_file_cannot_drive_a_terminal(tmp_path: Path) -> None:
    needs.cpus(2)
    with start_agent(
        *LONG, "--lock", "r1 \x1b[2Jmallory", env=lock_variables(tmp_path)
    ):
        refused = run(*QUICK, "--lock", "r2 bob@lab", env=lock_variables(tmp_path))
        assert refused.returncode == 7
        assert "\x1b" not in refused.stderr


@pytest.mark.parametrize("kind", ["missing folder", "symlink", "fifo", "hard link"])
def test_where_no_lock_is_to_be_had_it_is_noted_and_measured(
    tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "lock"
    victim = tmp_path / "victim"
    victim.write_text("precious")
    match kind:
        case "missing folder":
            place = tmp_path / "none" / "lock"
        case "symlink":
            place.symlink_to(victim)
        case "fifo":
            os.mkfifo(place)
        case "hard link":
            place.hardlink_to(victim)
    done = run(*QUICK, "--lock", "r1 alice@desk", env={"FLEET_AGENT_LOCK": str(place)})
    assert done.returncode == 0
    assert any(
        "The machine lock could not be taken" in note
        for note in notes(decode(done.stdout))
    )
    assert victim.read_text() == "precious"


def test_the_lock_is_for_all_users_and_survives_another_ones_umask(
    tmp_path: Path,
) -> None:
    before = os.umask(0o077)
    try:
        assert (
            run(
                *QUICK, "--lock", "r1 alice@desk", env=lock_variables(tmp_path)
            ).returncode
            == 0
        )
    finally:
        os.umask(before)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666

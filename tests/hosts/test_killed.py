"""Tests that are killed leave no server behind: each ends with the process that started
it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.command import ROOT, wait_for
from tests.processes import is_running

SSHD = """
import sys
from pathlib import Path
from tests.hosts.sshd import SshHost, keygen
folder = Path(sys.argv[1])
host = SshHost(folder, keygen(folder / "key"))
host.start()
host.wait()
print(host._process.pid, flush=True)
sys.stdin.read()
"""
FLEET = """
import sys
from pathlib import Path
from tests.command import Fleet
fleet = Fleet(Path(sys.argv[1]))
fleet.inventory("hosts:\\n  here:\\n    via: local\\n")
print(fleet.start("run", "-b", "clock", "--rounds", "100000").pid, flush=True)
sys.stdin.read()
"""
AGENT = """
import sys
from tests.native.agent import LONG, start_agent
with start_agent("-b", "clock", "--stuck-timeout", "100", *LONG) as process:
    print(process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [SSHD, FLEET, AGENT], ids=["sshd", "fleet", "agent"])
def test_what_a_killed_process_started_is_killed_too(
    tmp_path: Path, script: str
) -> None:
    command: Sequence[str | Path] = (sys.executable, "-c", script, tmp_path)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as starter:
        assert starter.stdout
        started = int(starter.stdout.readline())
        assert is_running(started)
        # until setpriv is replaced, it may not have asked yet
        program = Path(f"/proc/{started}/cmdline")
        wait_for(lambda: b"setpriv" not in program.read_bytes())
        os.kill(starter.pid, signal.SIGKILL)
    wait_for(lambda: not is_running(started))

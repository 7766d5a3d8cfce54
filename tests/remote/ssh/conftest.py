"""What tests of who we say we are share."""

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.processes import until_we_end


@pytest.fixture
def agent(
    tmp_path: Path, known_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Path], object]]:
    """A function that adds a key to an ssh-agent of our own."""
    path = str(tmp_path / "agent.socket")
    ssh_agent = needs.program("ssh-agent", "openssh-client")
    ssh_add = needs.program("ssh-add", "openssh-client")
    # no set-group-ID bit
    command = [
        *until_we_end(),
        shutil.copy(ssh_agent, tmp_path),
        "-D",
        "-a",
        path,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, start_new_session=True
    )
    monkeypatch.setenv("SSH_AUTH_SOCK", path)
    while (
        subprocess.run([ssh_add, "-l"], capture_output=True, check=False).returncode
        == 2
    ):  # not up yet
        assert process.poll() is None
    yield lambda key: subprocess.run(
        [ssh_add, "-q", key], check=True, capture_output=True
    )
    process.send_signal(signal.SIGKILL)
    process.wait()

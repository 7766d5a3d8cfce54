"""Runs the `fleet` command as a person would: a process of its own, an inventory file,
a results root.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

import pandas as pd

from fleet.model import Host, HostKeyPolicy, RequestedToolchain, Via
from tests import preloaded
from tests.processes import until_we_end
from tests.shared import agents_cache

ROOT = Path(__file__).parent.parent
UNOPTIMIZED = RequestedToolchain(cflags=("-O0",))  # compiles in half the time


@dataclass(frozen=True)
class Done:
    """A finished command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The rows of its stdout, a document of JSON."""
        return json.loads(self.stdout)["rows"]


@dataclass
class Fleet:
    """Run commands in an empty home with an inventory and a results root. planted: see
    tests/planting.py.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    planted: tuple[str, str] | None = None
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End what a failed test has left running; its agents end with it."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    @property
    def results(self) -> Path:
        """The results root."""
        return self.folder / "results"

    def inventory(self, text: str) -> None:
        """Write inventory.yaml as given."""
        (self.folder / "inventory.yaml").write_text(text)

    def hosts(self, *hosts: Host) -> None:
        """Write inventory.yaml for hosts."""
        self.inventory("hosts:\n" + "".join(entry(host) for host in hosts))

    def __call__(self, *arguments: str) -> Done:
        """Run `fleet` with the arguments, in a process that has imported it, and wait
        for it.
        """
        with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            files = (out.fileno(), err.fileno())
            try:
                exit_code = preloaded.run(
                    arguments, self.folder, self._variables(), files, self.planted
                )
            except BaseException as error:  # the time limit of the test
                error.add_note(f"in fleet {arguments}; stderr:\n{_content(err)}")
                raise
            return Done(exit_code, _content(out), _content(err))

    def start(
        self, *arguments: str, prefix: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """Start `fleet` in a new interpreter and hand out the process."""
        process = subprocess.Popen(
            [*until_we_end(), *prefix, sys.executable, "-m", "fleet", *arguments],
            cwd=self.folder,
            env=self._variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def _variables(self) -> dict[str, str]:
        """The environment of the command; its home is made."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_CACHE_HOME": str(
                agents_cache()
            ),  # one build of an agent for all tests
            "PYTHONPATH": str(ROOT),
            "FLEET_SSH_CONFIG": "none",
            "FLEET_INVENTORY": (
                "inventory.yaml"
            ),  # which is named so, and may start programs
            "FLEET_AGENT_LOCK": str(
                self.folder / "agent.lock"
            ),  # each test has a machine of its own
            **self.environment,
        }

    def samples(self) -> pd.DataFrame:
        """Every stored burst, read as any stranger would."""
        return pd.read_parquet(self.results / "samples")


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def entry(host: Host) -> str:
    """Render a host as its inventory entry (JSON is YAML)."""
    settings: dict[str, Any] = {"address": host.address, "via": str(host.via)}
    if host.via is not Via.LOCAL:
        settings |= {
            "port": host.port,
            "user": host.user,
            "identity_files": list(host.identity_files),
        }
        if host.host_key is not HostKeyPolicy.STRICT:
            settings["host_key"] = str(host.host_key)
    for name in ("workdir", "labels", "env", "jump", "cpus", "before", "after"):
        value = getattr(host, name)
        if value:
            settings[name] = dict(value) if name in ("labels", "env") else value
    if str(host.build) != "auto":
        settings["build"] = str(host.build)
    if toolchain := {
        name: value for name, value in asdict(host.toolchain).items() if value
    }:
        settings["toolchain"] = toolchain
    return f"  {host.name}: {json.dumps(settings)}\n"


def journal_lines(path: Path) -> list[bytes]:
    """The whole lines of a part of a journal, without their checksums; read without any
    code of ours.
    """
    text = path.read_bytes()
    return [
        line.rpartition(b"\t")[0]
        for line in text[: text.rfind(b"\n") + 1].split(b"\n")[:-1]
    ]


def wait_for(condition: Callable[[], object]) -> None:
    """Poll until the condition holds; the time limit of the test bounds it."""
    while not condition():
        time.sleep(0.02)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Send what Ctrl-C sends."""
    process.send_signal(signal.SIGINT)

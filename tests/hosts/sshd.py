"""Real OpenSSH servers on loopback: each with its own address, port, host key and
authorized key.

They run as whoever runs the tests and let only that user in; nothing here reads or
writes ~/.ssh.
"""

import contextlib
import getpass
import itertools
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fleet.model import Host
from tests import needs
from tests.processes import until_we_end

_addresses = itertools.count(1)


def keygen(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Make a key pair at `path` and `path`.pub; return `path`."""
    program = needs.program("ssh-keygen", "openssh-client")
    command = [
        program,
        "-q",
        "-t",
        kind,
        "-N",
        passphrase,
        "-C",
        path.name,
        "-f",
        str(path),
    ]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


class SshHost:
    """One sshd in one folder, from `start` to `stop`. options: the first lines of
    sshd_config, which win.
    """

    def __init__(
        self,
        folder: Path,
        client_key: Path,
        options: Sequence[str] = (),
        host_key_kind: str = "ed25519",
    ) -> None:
        self.program = needs.program("sshd", "openssh-server")
        number = next(_addresses)
        self.address = f"127.7.{number // 250}.{number % 250 + 1}"
        self.port = free_port(self.address)
        self.folder = folder
        self.home = folder / "home"
        self.client_key = client_key
        self.log = folder / "sshd.log"
        self.host_key = folder / "host_key"
        self.options = tuple(options)
        self._host_key_kind = host_key_kind
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def known_hosts_line(self) -> str:
        """The line that makes this host known."""
        key_type, key, *_ = self.host_key.with_suffix(".pub").read_text().split()
        return f"[{self.address}]:{self.port} {key_type} {key}\n"

    def start(self) -> None:
        """Write the configuration and start; `wait` tells when it listens."""
        self.home.mkdir(parents=True, exist_ok=True)
        if not self.host_key.exists():
            keygen(self.host_key, self._host_key_kind)
        (self.folder / "authorized_keys").write_bytes(
            self.client_key.with_suffix(".pub").read_bytes()
        )
        (self.folder / "sshd_config").write_text(self._config())
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        command = [
            *until_we_end(),
            self.program,
            "-D",
            "-e",
            "-f",
            str(self.folder / "sshd_config"),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until it listens. Reads its log, since a bare connect would count
        against us.
        """
        while b"Server listening" not in self.log.read_bytes():
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"sshd did not start: {self.log.read_text()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End the sshd and the sessions it serves, all at once: none tells the client
        how another ended.
        """
        process, self._process = self._process, None
        if process is None:
            return
        held: list[int] = []
        while new := [
            pid for pid in (process.pid, *_descendants(process.pid)) if pid not in held
        ]:
            _signal(new, signal.SIGSTOP)
            held += new
        _signal(held, signal.SIGKILL)
        process.wait()

    def sessions(self) -> list[int]:
        """Return the ids of the processes that serve or belong to open sessions."""
        return _descendants(self._process.pid) if self._process else []

    def entry(self, **changes: object) -> Host:
        """Return the inventory's entry for this host; `changes` are fields of Host."""
        host = Host(
            name=f"host-{self.address.rpartition('7.')[2].replace('.', '-')}",
            address=self.address,
            port=self.port,
            identity_files=(str(self.client_key),),
        )
        return replace(host, **changes)  # type: ignore[arg-type]

    def _config(self) -> str:
        lines = [
            *self.options,
            f"ListenAddress {self.address}:{self.port}",
            f"HostKey {self.host_key}",
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}",
            f"PidFile {self.folder / 'sshd.pid'}",
            # HOME makes the login shell read our empty folder instead of the tester's
            # own dotfiles.
            f'SetEnv HOME="{self.home}" FLEET_AGENT_LOCK="{self.folder}/agent.lock"',
            "UsePAM no",
            "StrictModes no",
            "PermitRootLogin prohibit-password",
            f"AllowUsers {getpass.getuser()}",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PrintLastLog no",
            "PrintMotd no",
            "UseDNS no",
            "LogLevel VERBOSE",
        ]
        if not any(option.startswith("MaxStartups") for option in self.options):
            lines.append("MaxStartups 100")  # of this one sshd takes the last line
        return "\n".join(lines) + "\n"


MakeHosts = Callable[..., list[SshHost]]
MakeKnown = Callable[..., SshHost]


@contextlib.contextmanager
def host_maker(folder: Path, client_key: Path) -> Iterator[MakeHosts]:
    """Hand out `make(count, options=(), host_key_kind="ed25519")`; stop all of its
    hosts at the end.
    """
    hosts: list[SshHost] = []

    def make(
        count: int = 1, options: Sequence[str] = (), host_key_kind: str = "ed25519"
    ) -> list[SshHost]:
        new = []
        for _ in range(count):
            place = folder / f"sshd{len(hosts)}"
            place.mkdir()
            host = SshHost(place, client_key, options, host_key_kind)
            hosts.append(host)
            new.append(host)
            host.start()
        for host in new:
            host.wait()
        return new

    try:
        yield make
    finally:
        for host in hosts:
            host.stop()


def free_port(address: str) -> int:
    """Return a port that nobody listens on, below those that a kernel gives to
    connections.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((address, port))
            return port


def _signal(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _descendants(pid: int) -> list[int]:
    """Return the ids of all children of `pid`, the deepest first."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [
            int(word)
            for task in tasks
            for word in (task / "children").read_text().split()
        ]
    except OSError:
        return []
    return [
        descendant for child in children for descendant in [*_descendants(child), child]
    ]

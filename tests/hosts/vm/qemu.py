"""Boot an image under qemu and hand out the machine as a host. Neighbour: `image.py`
makes the image.
"""

import os
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Self

from fleet.model import Host
from tests import needs
from tests.hosts.sshd import free_port
from tests.hosts.vm.image import USER, Image
from tests.processes import until_we_end

_BOOT_LIMIT_S = 120.0
_LIFE_LIMIT_S = 1200


class Vm:
    """A whole Linux machine with its own sshd and gcc, offering what a `SshHost`
    offers.

    It sees no network but the forwarded SSH port. Every start begins with a clean disk.
    Whatever happens to the tests, it is gone after 20 minutes.
    """

    address = "127.0.0.1"

    def __init__(self, image: Image, folder: Path) -> None:
        """`folder`: private to this machine; the console log stays in it."""
        self.image = image
        self.console = folder / "console.log"
        self.port = 0
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def client_key(self) -> Path:
        """The private key that logs in."""
        return self.image.folder / "user_key"

    @property
    def known_hosts_line(self) -> str:
        """The line that makes this machine known."""
        return f"[{self.address}]:{self.port} {self.image.host_key}\n"

    def entry(self, **changes: object) -> Host:
        """Return the inventory's entry for this machine; `changes` are fields of
        Host.
        """
        host = Host(
            name=f"vm-{self.image.machine.uname}",
            address=self.address,
            port=self.port,
            user=USER,
            identity_files=(str(self.client_key),),
        )
        return replace(host, **changes)  # type: ignore[arg-type]

    def start(self, cpu: str | None = None, smp: int = 2, *extra: str) -> None:
        """Boot and wait for its sshd. cpu: for `-cpu`; cortex-a72 has no LSE,
        cortex-a76 and max have.
        """
        self.port = free_port(self.address)
        # passes TERM on
        life_limit = [
            needs.program("timeout", "coreutils"),
            "-k",
            "5",
            str(_LIFE_LIMIT_S),
        ]
        with self.console.open("wb") as console:
            self._process = subprocess.Popen(
                [
                    *until_we_end("TERM"),
                    *life_limit,
                    *self._qemu(cpu or self.image.machine.cpu, smp),
                    *extra,
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                close_fds=True,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(self._folder)},
            )
        self._await_sshd()

    def freeze(self) -> None:
        """Stop the machine where it is: the link stays open and silent, until
        `thaw`.
        """
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Cut the power and wait until the emulator is gone. Safe to call twice.

        The time limit around it ends it on SIGTERM, insists after a while, and outlives
        it, so waiting for that one is waiting for both.
        """
        if self._process is not None:
            self._signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _qemu(self, cpu: str, smp: int) -> list[str]:
        machine = self.image.machine
        folder = self.image.folder
        forward = f"hostfwd=tcp:{self.address}:{self.port}-:22"
        return [
            *(needs.program(machine.qemu, machine.qemu_package), *machine.board),
            *(
                "-cpu",
                cpu,
                "-smp",
                str(smp),
                "-m",
                "1024",
                "-accel",
                "tcg,thread=multi",
            ),
            *("-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot"),
            *("-kernel", str(folder / "kernel"), "-initrd", str(folder / "initramfs")),
            *("-append", f"console={machine.console} quiet panic=-1"),
            *(
                "-netdev",
                f"user,id=net,restrict=on,{forward}",
                "-device",
                f"{machine.net_device},netdev=net",
            ),
            *(
                "-drive",
                f"file={folder / 'disk'},format=raw,if=none,id=disk,snapshot=on",
            ),
            *("-device", f"{machine.disk_device},drive=disk"),
        ]

    def _await_sshd(self) -> None:
        """Wait for the banner: qemu itself accepts the connection long before anyone
        listens inside.
        """
        until = time.monotonic() + _BOOT_LIMIT_S
        while not _greets(self.port):
            if (
                self._process is None
                or self._process.poll() is not None
                or time.monotonic() > until
            ):
                self.stop()
                raise RuntimeError(f"the machine did not boot:\n{self._console_tail()}")
            time.sleep(0.1)

    def _console_tail(self) -> str:
        return self.console.read_text(errors="replace")[-4000:]

    def _signal(self, number: signal.Signals) -> None:
        """Send `number` to the emulator and the time limit around it, which share a
        process group.
        """
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def _greets(port: int) -> bool:
    try:
        with socket.create_connection((Vm.address, port), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False

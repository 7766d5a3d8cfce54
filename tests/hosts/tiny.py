"""Tiny hosts: dropbear and a static busybox in a root of their own, with or without
musl as C library.

What is in the root is all that commands find there; the kernel, /proc and /sys are this
machine's.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleet.model import Host
from tests import needs
from tests.hosts.qnx.image import libraries
from tests.hosts.sshd import free_port
from tests.processes import until_we_end

ALPINE = (
    'NAME="Alpine Linux"\nID=alpine\nVERSION_ID=3.20.0\nPRETTY_NAME="Alpine Linux'
    ' v3.20"\n'
)


class TinyHost:
    """One dropbear that lets in the owner of `client_key`, in `folder`/root. Needs
    root.
    """

    def __init__(self, folder: Path, client_key: Path, *, musl: bool) -> None:
        needs.root()
        self.address, self.client_key = "127.8.0.1", client_key
        self.port = free_port(self.address)
        self.root = folder / "root"
        self.log = folder / "dropbear.log"
        self._process: subprocess.Popen[bytes] | None = None
        for place in (
            "bin",
            "dev",
            "etc",
            "proc",
            "root/.ssh",
            "sys",
            "tmp",
            "usr/bin",
            "usr/sbin",
        ):
            (self.root / place).mkdir(parents=True)
        busybox = needs.program("busybox", "busybox-static")
        shutil.copy(busybox, self.root / "bin/busybox")
        names = subprocess.run(
            [busybox, "--list"], capture_output=True, text=True, check=True
        ).stdout
        for name in set(names.split()) - {"busybox"}:
            (self.root / "bin" / name).symlink_to("busybox")
        (self.root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (self.root / "etc/shells").write_text("/bin/sh\n")
        if musl:
            self._add_musl()
        self._add_dropbear()

    def _add_musl(self) -> None:
        """As in Alpine, whose `ldd` is the loader by another name."""
        loader = needs.file("/lib/ld-musl-x86_64.so.1", "musl")
        (self.root / "lib").mkdir()
        shutil.copy(loader, self.root / "lib")
        (self.root / "usr/bin/ldd").symlink_to(loader)
        (self.root / "etc/os-release").write_text(ALPINE)

    def _add_dropbear(self) -> None:
        dropbear = needs.program("dropbear", "dropbear-bin")
        for file in (dropbear, *libraries([dropbear])):
            (self.root / str(file).lstrip("/")).parent.mkdir(
                parents=True, exist_ok=True
            )
            shutil.copy(file, self.root / str(file).lstrip("/"))
        key = self.root / "etc/host_key"
        public = self.client_key.with_suffix(".pub")
        command = [
            needs.program("dropbearkey", "dropbear-bin"),
            "-t",
            "ed25519",
            "-f",
            key,
        ]
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout
        (type_and_key,) = re.findall(r"^(ssh-ed25519 \S+)", printed, re.MULTILINE)
        self.known_hosts_line = f"[{self.address}]:{self.port} {type_and_key}\n"
        shutil.copy(public, self.root / "root/.ssh/authorized_keys")

    def start(self) -> None:
        """Start dropbear and wait until it listens."""
        root = self.root
        unshare = needs.program("unshare", "util-linux")
        inside = (
            f"for place in dev proc sys; do mount --rbind /$place {root}/$place; done;"
            f" exec chroot {root} /usr/sbin/dropbear -F -E -e -s -r /etc/host_key -p"
            f" {self.address}:{self.port} -P /tmp/pid"
        )
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*until_we_end(), unshare, "--mount", "sh", "-c", inside],
                env={
                    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                    "FLEET_AGENT_LOCK": "/tmp/agent.lock",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while b"Not backgrounding" not in self.log.read_bytes():
            if self._process.poll() is not None:
                raise RuntimeError(f"dropbear did not start: {self.log.read_text()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End dropbear, and with it its mounts."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def entry(self, name: str) -> Host:
        """The inventory's entry for this host."""
        return Host(
            name,
            self.address,
            port=self.port,
            user="root",
            identity_files=(str(self.client_key),),
        )


@contextmanager
def tiny_host(folder: Path, client_key: Path, *, musl: bool) -> Iterator[TinyHost]:
    """A tiny host that runs for as long as the block lasts."""
    host = TinyHost(folder, client_key, musl=musl)
    host.start()
    try:
        yield host
    finally:
        host.stop()

"""The OpenSSH client, to look at a host of the tests without any code of ours in
between.
"""

import subprocess
from pathlib import Path
from typing import Protocol

from fleet.model import Host
from tests import needs
from tests.hosts.proxy import FaultProxy


class Reachable(Protocol):
    """What every SSH host of the tests tells about itself."""

    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def client_key(self) -> Path: ...
    @property
    def known_hosts_line(self) -> str: ...
    def entry(self) -> Host: ...


def know(known_hosts: Path, *hosts: Reachable) -> None:
    """Make these hosts the known ones."""
    known_hosts.write_text("".join(host.known_hosts_line for host in hosts))


def know_behind(known_hosts: Path, proxy: FaultProxy, host: Reachable) -> None:
    """Make a host known at the address of its proxy as well."""
    with known_hosts.open("a") as file:
        file.write(
            f"[{proxy.address}]:{proxy.port} {host.known_hosts_line.split(' ', 1)[1]}"
        )


def ssh(
    host: Reachable,
    command: str,
    folder: Path,
    *,
    stdin: str = "",
    known_hosts_line: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `command` on `host`, its key checked against its known_hosts line, or
    another, in `folder`.
    """
    known_hosts = folder / "openssh_known_hosts"
    known_hosts.write_text(known_hosts_line or host.known_hosts_line)
    settings = {
        "BatchMode": "yes",
        "GlobalKnownHostsFile": "none",
        "IdentitiesOnly": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": known_hosts,
    }
    options = [
        word for name, value in settings.items() for word in ("-o", f"{name}={value}")
    ]
    user = host.entry().user
    return subprocess.run(
        [
            *(needs.program("ssh", "openssh-client"), "-F", "none", *options),
            *("-i", str(host.client_key), "-p", str(host.port)),
            *(("-l", user) if user else ()),
            *(host.address, command),
        ],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )

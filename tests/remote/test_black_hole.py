"""Hosts that fall silent without a word: their packets vanish in a network namespace of
the tests.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.errors import LinkError, UnreachableError
from fleet.remote.connect import connect
from tests import needs
from tests.command import Fleet, entry, wait_for
from tests.hosts.sshd import SshHost

pytestmark = pytest.mark.slow

OURS, THEIRS = "198.51.100.1", "198.51.100.2"  # TEST-NET-2: nobody's
PATIENCE_S = 86_400.0  # what waits for that never ends


class FarHost(SshHost):
    """An sshd in a network namespace of its own, at the other end of a virtual
    cable.
    """

    def __init__(self, folder: Path, client_key: Path) -> None:
        super().__init__(folder, client_key)
        self.address, self.port = THEIRS, 2222
        self.namespace = f"fleet-{os.getpid()}"
        self.cable = f"fleet{os.getpid() % 10**6}"
        self._ip, self._nft = (
            needs.program("ip", "iproute2"),
            needs.program("nft", "nftables"),
        )
        wrapper = folder / "sshd-far"
        wrapper.write_text(
            f"#!/bin/sh\nexec {self._ip} netns exec {self.namespace} {self.program}"
            ' "$@"\n'
        )
        wrapper.chmod(0o755)
        self.program = str(wrapper)

    def lay_cable(self) -> None:
        self.ip("netns", "add", self.namespace)
        self.ip(
            "link",
            "add",
            self.cable,
            "type",
            "veth",
            "peer",
            "name",
            "far",
            "netns",
            self.namespace,
        )
        self.ip("address", "add", f"{OURS}/30", "dev", self.cable)
        self.ip("link", "set", self.cable, "up")
        self.ip("-n", self.namespace, "address", "add", f"{THEIRS}/30", "dev", "far")
        self.ip("-n", self.namespace, "link", "set", "far", "up")

    def remove(self) -> None:
        self.stop()
        subprocess.run([self._ip, "link", "delete", self.cable], check=False)
        subprocess.run([self._ip, "netns", "delete", self.namespace], check=False)

    def swallow(self) -> None:
        """Drop every packet from now on, and answer none."""
        rules = (
            "table inet hole { chain everything { type filter hook input priority 0;"
            " policy drop; }; }"
        )
        within = [self._ip, "netns", "exec", self.namespace]
        subprocess.run([*within, self._nft, rules], check=True)

    def pull(self) -> None:
        """Pull the cable out at the host's end."""
        self.ip("-n", self.namespace, "link", "set", "far", "down")

    def ip(self, *words: str) -> None:
        subprocess.run([self._ip, *words], check=True)


@pytest.fixture
def far(tmp_path: Path, client_key: Path, known_hosts: Path) -> Iterator[FarHost]:
    needs.root()
    folder = tmp_path / "far"
    folder.mkdir()
    host = FarHost(folder, client_key)
    try:
        host.lay_cable()
        host.start()
        host.wait()
        known_hosts.write_text(host.known_hosts_line)
        yield host
    finally:
        host.remove()


def test_a_host_that_swallows_the_first_packet_is_given_up_in_time(
    far: FarHost,
) -> None:
    far.swallow()
    with pytest.raises(
        UnreachableError,
        match=rf"far: no TCP connection .*{THEIRS}: no answer within 2 s",
    ):
        connect(far.entry(name="far"), timeout_s=2)


@pytest.mark.parametrize(
    "go", [FarHost.swallow, FarHost.pull], ids=["packets-dropped", "cable-pulled"]
)
def test_a_host_that_vanishes_in_mid_stream_is_noticed_long_before_the_idle_timeout(
    far: FarHost, go
) -> None:
    with (
        connect(far.entry(name="far")) as connection,
        connection.stream("echo one; cat", idle_timeout_s=PATIENCE_S) as stream,
    ):
        lines = iter(stream)
        assert next(lines) == b"one"
        go(far)
        with pytest.raises(LinkError, match=r"far: the SSH session broke: "):
            next(lines)


def test_a_host_that_vanishes_in_mid_run_fails_alone_and_its_bursts_are_kept(
    far: FarHost, tmp_path: Path
) -> None:
    needs.program("cc", "gcc")
    with Fleet(tmp_path, {"FLEET_SSH_CONFIG": os.environ["FLEET_SSH_CONFIG"]}) as fleet:
        long = entry(far.entry(name="far")).replace(
            "{", '{"plan": {"rounds": 100000}, ', 1
        )
        fleet.inventory(f"hosts:\n  here: {{via: local}}\n{long}")
        plan = (
            "-b clock --samples 3 --lock off --reconnect 2 --connect-timeout 10 -q"
            " --json"
        )
        session = fleet.start("run", *plan.split())
        try:
            wait_for(lambda: any(_streams(fleet, "far")) or session.poll() is not None)
        finally:
            far.swallow()
        out, err = session.communicate()
        assert session.returncode == 1, out + err
        listed = {run["host_id"]: run["state"] for run in fleet("runs", "--json").json}
    assert "bursts are kept in the journal" in out, out + err
    # both spin on the same CPUs: some bursts may fail
    assert listed["here"] in {"complete", "partial"}, out
    assert listed["far"] == "unfinished"


def _streams(fleet: Fleet, host: str) -> list[Path]:
    """The journals of `host` that hold some bursts already."""
    large = [
        p
        for p in (fleet.results / ".fleet/journal").glob("*/stream.jsonl")
        if p.stat().st_size > 5000
    ]
    return [p for p in large if f'"{host}"' in (p.parent / "run.json").read_text()]

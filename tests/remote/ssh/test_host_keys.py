"""Which host keys are believed. Real sshds, real known_hosts files, real ssh-keygen."""

import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from fleet.errors import HostKeyError
from fleet.model import HostKeyPolicy
from fleet.remote.connect import connect
from fleet.remote.ssh import known_hosts as files
from fleet.remote.ssh.sockets import ReadAheadSocket
from tests import needs
from tests.hosts.sshd import keygen


@pytest.fixture(scope="session")
def stranger(tmp_path_factory):
    """Another host's public key: "ssh-ed25519 AAAA..."."""
    key = keygen(tmp_path_factory.mktemp("stranger") / "key")
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def connects(host) -> bool:
    with connect(host) as connection:
        return connection.run("echo here").stdout == b"here\n"


def shown_by_ssh_keygen(key: Path) -> str:
    """The fingerprint as the person will read it on the host."""
    done = subprocess.run(
        [needs.program("ssh-keygen", "openssh-client"), "-lf", key],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[1]


def test_an_unknown_host_is_refused_with_its_fingerprint_and_the_command_to_run(
    ssh_host, known_hosts
):
    with pytest.raises(HostKeyError) as refused:
        connect(ssh_host.entry(name="board"))
    text = str(refused.value)
    assert text.startswith(
        f"board: {ssh_host.address} port {ssh_host.port} showed the ssh-ed25519 key"
    )
    assert shown_by_ssh_keygen(ssh_host.host_key) in text
    assert known_hosts.read_text() == ""
    command = text.split("then run `")[1].split("`", maxsplit=1)[0]
    assert (
        command == f"ssh-keyscan -p {ssh_host.port} -t ed25519 {ssh_host.address} >>"
        f" {known_hosts}"
    )
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert connects(ssh_host.entry())


def test_a_changed_key_is_refused_even_with_accept_new(ssh_host, known_hosts, stranger):
    known_hosts.write_text(f"# mine\n[{ssh_host.address}]:{ssh_host.port} {stranger}\n")
    before = known_hosts.read_text()
    with pytest.raises(HostKeyError, match="but the known one is") as refused:
        connect(ssh_host.entry(host_key=HostKeyPolicy.ACCEPT_NEW))
    assert f"{known_hosts}:2" in str(refused.value)
    assert known_hosts.read_text() == before
    # it removes the old key
    command = str(refused.value).split("run `")[1].split("`")[0]
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert connects(ssh_host.entry(host_key=HostKeyPolicy.ACCEPT_NEW))


def test_accept_new_remembers_the_key_so_that_strict_lets_it_in_later(
    ssh_host, known_hosts
):
    known_hosts.unlink()
    known_hosts.with_name("folder").mkdir()
    with connect(ssh_host.entry(host_key=HostKeyPolicy.ACCEPT_NEW)) as connection:
        assert "accepted" in " ".join(connection.notes)
    assert known_hosts.read_text() == ssh_host.known_hosts_line
    assert stat.S_IMODE(known_hosts.stat().st_mode) == 0o600
    assert connects(ssh_host.entry())


def test_a_revoked_key_is_refused_even_if_it_is_listed_as_good(ssh_host, known_hosts):
    known_hosts.write_text(
        f"{ssh_host.known_hosts_line}@revoked *"
        f" {ssh_host.known_hosts_line.split(' ', 1)[1]}"
    )
    with pytest.raises(HostKeyError, match="revoked"):
        connect(ssh_host.entry(host_key=HostKeyPolicy.ACCEPT_NEW))


def test_a_host_with_several_keys_is_asked_for_the_one_we_know(
    make_hosts, known_hosts, tmp_path
):
    rsa = keygen(tmp_path / "rsa", "rsa")
    (host,) = make_hosts(1, options=[f"HostKey {rsa}"])
    key_type, key, *_ = rsa.with_suffix(".pub").read_text().split()
    known_hosts.write_text(f"[{host.address}]:{host.port} {key_type} {key}\n")
    assert connects(host.entry())


def test_five_thousand_lines_are_read_once(tmp_path, stranger, monkeypatch):
    path = tmp_path / "many"
    lines = (
        f"host{number},10.0.{number // 250}.{number % 250} {stranger}\n"
        for number in range(5000)
    )
    path.write_text("".join(lines))
    reads = []
    parse = files.KnownHosts
    monkeypatch.setattr(
        files, "KnownHosts", lambda file, text: reads.append(file) or parse(file, text)
    )
    for number in range(0, 5000, 100):
        assert [e.place for e in files.find_entries([str(path)], f"host{number}")] == [
            f"{path}:{number + 1}"
        ]
    assert reads == [str(path)]
    os.utime(path, ns=(0, 0))
    files.find_entries([str(path)], "host1")
    assert len(reads) == 2


def test_a_link_reads_ahead_and_hands_out_what_is_asked_for() -> None:
    ours, theirs = socket.socketpair()
    with ReadAheadSocket(fileno=ours.detach()) as link, theirs:
        theirs.sendall(b"abcdef")
        assert [link.recv(size) for size in (1, 3, 100)] == [b"a", b"bcd", b"ef"]
        link.settimeout(0.01)
        with pytest.raises(TimeoutError):
            link.recv(1)
        theirs.close()
        assert link.recv(1) == b""

"""`via: openssh`: hosts, keys and certificates that only the user's own ssh can talk
to.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from fleet.errors import (
    AuthError,
    HostKeyError,
    LinkError,
    ProbeError,
    UnreachableError,
)
from fleet.model import Host, HostKeyPolicy, Via
from fleet.remote.connect import connect
from tests import needs
from tests.hosts.sshd import MakeHosts, MakeKnown, SshHost, keygen

KINDS = {"cipher": "Ciphers", "kex": "KexAlgorithms", "mac": "MACs"}
OURS = {"aes128-ctr", "curve25519-sha256", "hmac-sha2-256"}
NOT_OURS = {
    "chacha20-poly1305@openssh.com",
    "sntrup761x25519-sha512@openssh.com",
    "umac-64@openssh.com",
}
# What one host key can sign with, and what ssh-keygen calls such a key.
HOST_KEYS = {
    "ssh-ed25519": "ed25519",
    "rsa-sha2-256": "rsa",
    "rsa-sha2-512": "rsa",
    "ssh-rsa": "rsa",
}
HOST_KEYS |= {
    name: name for name in (f"ecdsa-sha2-nistp{bits}" for bits in (256, 384, 521))
}


def ours(host: SshHost, **changes: object) -> Host:
    return host.entry(name="board", via=Via.OPENSSH, **changes)


def says_here(host: Host) -> bool:
    with connect(host) as connection:
        return connection.run("echo here").stdout == b"here\n"


def algorithms() -> Iterator[ParameterSet]:
    """Return every algorithm of this machine's ssh by its sshd_config keyword; most are
    slow tests.
    """
    program = shutil.which("ssh")
    if program is None:  # its sshd is asked for, and named
        yield pytest.param("Ciphers", "any")
        return
    for kind, keyword in KINDS.items():
        done = subprocess.run(
            [program, "-Q", kind], capture_output=True, text=True, check=True
        )
        for name in done.stdout.split():
            if not name.startswith("gss-"):
                marks = () if name in OURS | NOT_OURS else pytest.mark.slow
                yield pytest.param(keyword, name, marks=marks)


@pytest.mark.parametrize(("keyword", "name"), list(algorithms()))
def test_a_server_with_one_algorithm_of_a_kind_is_reached_or_the_message_says_how(
    make_known: MakeKnown, keyword: str, name: str
) -> None:
    options = [
        f"{keyword} {name}",
        *(["Ciphers aes128-ctr"] if keyword == "MACs" else []),
    ]
    host = make_known(*options)
    config = Path(os.environ["FLEET_SSH_CONFIG"])
    config.write_text(f"{config.read_text()}  {keyword} +{name}\n")
    reached_or_told_how(host, name)


def reached_or_told_how(host: SshHost, name: str) -> None:
    assert says_here(ours(host))
    try:
        assert says_here(host.entry(name="board"))
    except UnreachableError as err:
        text = str(err)
        assert f"The server offers {name}; we offer " in text
        assert "`via: openssh`" in text
        assert "newer" not in text


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "ssh-rsa" else pytest.mark.slow)
        for name in HOST_KEYS
    ],
)
def test_a_server_with_one_host_key_algorithm_is_reached_or_the_message_says_how(
    make_known: MakeKnown, name: str
) -> None:
    host = make_known(f"HostKeyAlgorithms {name}", host_key_kind=HOST_KEYS[name])
    config = Path(os.environ["FLEET_SSH_CONFIG"])
    config.write_text(f"{config.read_text()}  HostKeyAlgorithms +{name}\n")
    reached_or_told_how(host, name)


@pytest.mark.parametrize("pattern", ["[{address}]:{port}", "{address}", "127.*"])
def test_a_host_known_by_its_certificate_is_reached_and_the_message_says_how(
    make_hosts: MakeHosts, known_hosts: Path, tmp_path: Path, pattern: str
) -> None:
    authority = keygen(tmp_path / "authority")
    key = keygen(tmp_path / "host")
    sign = [
        needs.program("ssh-keygen", "openssh-client"),
        "-q",
        "-s",
        authority,
        "-I",
        "host",
        "-h",
    ]
    subprocess.run([*sign, f"{key}.pub"], check=True)
    (host,) = make_hosts(1, [f"HostKey {key}", f"HostCertificate {key}-cert.pub"])
    public = authority.with_suffix(".pub").read_text()
    names = pattern.format(address=host.address, port=host.port)
    known_hosts.write_text(f"@cert-authority {names} {public}")
    assert says_here(ours(host))
    with pytest.raises(HostKeyError, match=r"@cert-authority .* set `via: openssh`"):
        connect(host.entry(name="board"))


def test_a_host_that_a_command_vouches_for_is_reached_and_the_message_says_how(
    ssh_host: SshHost, known_hosts: Path
) -> None:
    line = f"/bin/echo {ssh_host.known_hosts_line.strip()}"
    config = Path(os.environ["FLEET_SSH_CONFIG"])
    config.write_text(f"{config.read_text()}  KnownHostsCommand {line}\n")
    assert says_here(ours(ssh_host))
    with pytest.raises(HostKeyError, match=r"KnownHostsCommand.* set `via: openssh`"):
        connect(ssh_host.entry(name="board"))


def test_one_session_serves_all_commands(
    ssh_host: SshHost, known_hosts: Path, tmp_path: Path
) -> None:
    known_hosts.write_text(ssh_host.known_hosts_line)
    before = ssh_host.log.read_bytes().count(b"Accepted publickey")
    with connect(ours(ssh_host)) as connection:
        assert connection.run("echo one").stdout == b"one\n"
        assert connection.put(b"data", str(tmp_path / "file")).exit_code == 0
        with connection.stream("echo two", idle_timeout_s=60) as stream:
            assert list(stream) == [b"two"]
        assert connection.run("echo three").stdout == b"three\n"
    assert ssh_host.log.read_bytes().count(b"Accepted publickey") == before + 1


def test_an_unknown_host_key_is_refused_and_accepted_only_where_the_inventory_says_so(
    ssh_host: SshHost, known_hosts: Path
) -> None:
    with pytest.raises(
        HostKeyError,
        match=r"board: ssh could not connect: .*Host key verification failed",
    ):
        connect(ours(ssh_host))
    assert says_here(ours(ssh_host, host_key=HostKeyPolicy.ACCEPT_NEW))
    assert ssh_host.known_hosts_line.split()[2] in known_hosts.read_text()
    assert says_here(ours(ssh_host))


def test_a_changed_host_key_is_refused_whatever_the_inventory_says(
    ssh_host: SshHost, known_hosts: Path, tmp_path: Path
) -> None:
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text()
    known_hosts.write_text(f"[{ssh_host.address}]:{ssh_host.port} {other}")
    for policy in HostKeyPolicy:
        with pytest.raises(
            HostKeyError, match=r"board: .*has changed and you have requested strict"
        ):
            connect(ours(ssh_host, host_key=policy))


def test_a_refused_key_and_a_closed_port_are_told_apart(
    ssh_host: SshHost, known_hosts: Path, tmp_path: Path
) -> None:
    known_hosts.write_text(ssh_host.known_hosts_line)
    wrong = keygen(tmp_path / "wrong")
    with pytest.raises(
        AuthError, match=r"board: ssh could not connect: .*Permission denied"
    ):
        connect(ours(ssh_host, identity_files=(str(wrong),)))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(
            UnreachableError, match=r"board: ssh could not connect: .*refused"
        ):
            connect(ours(ssh_host, address="127.0.0.1", port=taken.getsockname()[1]))


@pytest.fixture
def certified_host(make_known: MakeKnown, tmp_path: Path) -> tuple[SshHost, Path]:
    """Make a host that lets in certificates only, and a key with its certificate beside
    it.
    """
    authority = keygen(tmp_path / "authority")
    key = keygen(tmp_path / "id")
    user = subprocess.run(
        ["id", "-un"], capture_output=True, text=True, check=True
    ).stdout.strip()
    sign = [
        needs.program("ssh-keygen", "openssh-client"),
        "-q",
        "-s",
        authority,
        "-I",
        "us",
        "-n",
        user,
    ]
    subprocess.run([*sign, f"{key}.pub"], check=True)
    host = make_known(f"TrustedUserCAKeys {authority}.pub", "AuthorizedKeysFile none")
    return host, key


def test_a_user_certificate_of_the_configuration_is_used(
    certified_host: tuple[SshHost, Path], tmp_path: Path
) -> None:
    host, key = certified_host
    certificate = (tmp_path / "id-cert.pub").rename(tmp_path / "elsewhere.pub")
    config = Path(os.environ["FLEET_SSH_CONFIG"])
    config.write_text(
        f"{config.read_text()}  IdentityFile {key}\n  CertificateFile {certificate}\n"
    )
    assert says_here(ours(host, identity_files=()))


@pytest.mark.parametrize("via", [Via.OPENSSH, Via.SSH])
def test_a_user_certificate_beside_its_key_is_used(
    certified_host: tuple[SshHost, Path], via: Via
) -> None:
    host, key = certified_host
    assert says_here(host.entry(name="board", via=via, identity_files=(str(key),)))


def test_a_host_that_runs_no_commands_is_named_as_that(make_known: MakeKnown) -> None:
    host = make_known("ForceCommand echo closed for today; exit 3")
    with pytest.raises(ProbeError) as refused:
        connect(ours(host))
    text = str(refused.value)
    assert (
        "board: ssh connected, but instead of /bin/sh there was an exit code, 3: closed"
        " for today" in text
    )
    assert f"-p {host.port}" in text
    assert str(host.client_key) in text
    assert "BatchMode" not in text


def test_a_jump_host_is_passed(make_hosts: MakeHosts, known_hosts: Path) -> None:
    gate, host = make_hosts(2)
    known_hosts.write_text(gate.known_hosts_line + host.known_hosts_line)
    config = Path(os.environ["FLEET_SSH_CONFIG"])
    config.write_text(f"{config.read_text()}  IdentityFile {gate.client_key}\n")
    assert says_here(ours(host, jump=(f"{gate.address}:{gate.port}",)))
    assert b"Accepted publickey" in gate.log.read_bytes()


def test_a_session_whose_sshd_is_gone_is_a_broken_link(make_known: MakeKnown) -> None:
    host = make_known()
    with (
        connect(ours(host)) as connection,
        connection.stream("echo one; sleep 60", idle_timeout_s=60) as stream,
    ):
        lines = iter(stream)
        assert next(lines) == b"one"
        host.stop()
        with pytest.raises(LinkError, match="board: the ssh session broke"):
            next(lines)


def test_without_an_ssh_program_the_message_says_so(
    ssh_host: SshHost,
    known_hosts: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnreachableError, match="needs ssh, which is not in PATH"):
        connect(ours(ssh_host))

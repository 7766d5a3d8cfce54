"""Certificates of users: a real sshd that lets in nobody without one."""

import getpass
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import AuthError
from fleet.remote.connect import connect
from tests import needs
from tests.hosts.sshd import MakeKnown, SshHost, keygen

Sign = Callable[..., Path]


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return keygen(tmp_path / "authority")


@pytest.fixture
def sign(authority: Path) -> Sign:
    """`sign(key, "-V", "-2d:-1d")`: certify the key; its certificate lies beside it."""

    def certify(key: Path, *options: str) -> Path:
        program = needs.program("ssh-keygen", "openssh-client")
        command = [program, "-q", "-s", authority, "-I", "us", "-n", getpass.getuser()]
        subprocess.run([*command, *options, f"{key}.pub"], check=True)
        return Path(f"{key}-cert.pub")

    return certify


@pytest.fixture
def host(make_known: MakeKnown, authority: Path) -> SshHost:
    return make_known(f"TrustedUserCAKeys {authority}.pub", "AuthorizedKeysFile none")


def add_to_config(text: str) -> None:
    config = Path(os.environ["FLEET_SSH_CONFIG"])
    config.write_text(config.read_text() + text)


def connects(host: SshHost, *identity_files: Path) -> bool:
    entry = host.entry(identity_files=tuple(map(str, identity_files)))
    with connect(entry) as connection:
        return connection.run("echo here").stdout == b"here\n"


def refusal(host: SshHost, *identity_files: Path) -> str:
    with pytest.raises(AuthError) as refused:
        connects(host, *identity_files)
    return str(refused.value)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_a_certificate_file_is_offered_with_its_key(
    host: SshHost, sign: Sign, tmp_path: Path, kind: str
) -> None:
    key = keygen(tmp_path / "id", kind)
    certificate = sign(key).rename(tmp_path / "elsewhere.pub")
    add_to_config(f"  IdentityFile {key}\n  CertificateFile {certificate}\n")
    assert connects(host)


def test_tokens_of_a_certificate_file_are_replaced_as_ssh_does(
    host: SshHost, sign: Sign, tmp_path: Path
) -> None:
    key = keygen(tmp_path / "id")
    sign(key).rename(tmp_path / f"{host.address}.pub")
    certificate = f"{tmp_path}/%h.pub"
    add_to_config(f"  IdentityFile {key}\n  CertificateFile {certificate}\n")
    assert connects(host)


def test_a_certificate_file_comes_before_the_many_keys_of_the_agent(
    host: SshHost, sign: Sign, agent: Callable[[Path], object], tmp_path: Path
) -> None:
    for number in range(8):
        agent(keygen(tmp_path / f"key{number}"))
    key = keygen(tmp_path / "id")
    certificate = sign(key).rename(tmp_path / "elsewhere.pub")
    agent(key)
    key.unlink()
    add_to_config(f"  CertificateFile {certificate}\n")
    assert connects(host)


def test_a_certificate_in_the_agent_is_offered(
    host: SshHost, sign: Sign, agent: Callable[[Path], object], tmp_path: Path
) -> None:
    key = keygen(tmp_path / "id")
    certificate = sign(key)
    agent(key)  # with the certificate beside it
    key.unlink()
    certificate.unlink()
    assert connects(host)


@pytest.mark.parametrize(
    ("validity", "words"),
    [
        ("-2d:-1d", "certificate, expired 20"),
        ("+1d:+2d", "certificate, not valid before 20"),
    ],
)
def test_a_certificate_that_is_not_valid_now_is_named_as_that(
    host: SshHost, sign: Sign, tmp_path: Path, validity: str, words: str
) -> None:
    key = keygen(tmp_path / "id")
    certificate = sign(key, "-V", validity)
    assert f"{key} ({words}" in refusal(host, key)
    certificate.rename(tmp_path / "elsewhere.pub")
    add_to_config(f"  CertificateFile {tmp_path}/elsewhere.pub\n")
    assert f"{tmp_path}/elsewhere.pub ({words}" in refusal(host, key)


def test_a_key_is_offered_also_without_the_certificate_beside_it(
    make_known: MakeKnown, sign: Sign, client_key: Path, tmp_path: Path
) -> None:
    key = tmp_path / "id"
    key.write_bytes(client_key.read_bytes())
    key.chmod(0o600)
    public = Path(f"{client_key}.pub").read_text()
    Path(f"{key}.pub").write_text(public)
    sign(key)
    assert connects(make_known(), key), "an sshd that trusts no authority"


def test_a_certificate_file_that_cannot_be_used_is_named(
    host: SshHost, sign: Sign, tmp_path: Path
) -> None:
    key = keygen(tmp_path / "id")
    others = sign(keygen(tmp_path / "other")).rename(tmp_path / "others.pub")
    for file in (tmp_path / "nothing", Path(f"{key}.pub"), others):
        add_to_config(f"  CertificateFile {file}\n")
    text = refusal(host, key)
    assert f"{tmp_path}/nothing: no such file" in text
    assert f"{key}.pub: is no certificate" in text
    assert f"{others}: neither a key file nor ssh-agent has its key" in text

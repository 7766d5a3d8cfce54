"""Who we say we are: files, the agent, and what the person reads when the host does not
want us.
"""

import base64
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import paramiko
import pytest

from fleet.errors import AuthError, UnreachableError
from fleet.model import Host
from fleet.remote.connect import connect
from fleet.remote.ssh import identities
from fleet.remote.ssh.dial import dial, hang_up
from tests import needs
from tests.hosts.sshd import keygen


@pytest.fixture
def host(ssh_host, known_hosts):
    known_hosts.write_text(ssh_host.known_hosts_line)
    return ssh_host


def connects(host) -> bool:
    with connect(host) as connection:
        return connection.run("echo here").stdout == b"here\n"


def test_a_wrong_key_costs_one_connection_and_is_refused_with_user_key_and_remedy(
    host, tmp_path
):
    wrong = keygen(tmp_path / "wrong")
    before = host.log.read_bytes().count(b"Connection from")
    with pytest.raises(AuthError) as refused:
        connect(host.entry(name="board", identity_files=(str(wrong),), user="nobody"))
    text = str(refused.value)
    assert text.startswith(
        f"board: {host.address} port {host.port} refused user 'nobody'"
    )
    assert str(wrong) in text
    assert "~nobody/.ssh/authorized_keys" in text
    assert host.log.read_bytes().count(b"Connection from") == before + 1


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_key_that_others_may_read_is_not_used(host, tmp_path, client_key, mode):
    mine = tmp_path / "shared key"
    mine.write_bytes(client_key.read_bytes())
    mine.chmod(mode)
    with pytest.raises(AuthError) as refused:
        connect(host.entry(name="board", identity_files=(str(mine),)))
    assert f"other users may read it (mode {mode:04o})" in str(refused.value)
    assert f"`chmod 600 '{mine}'`" in str(refused.value)


def test_the_second_key_file_is_tried_when_the_first_is_refused(
    host, tmp_path, client_key
):
    wrong = keygen(tmp_path / "wrong")
    assert connects(host.entry(identity_files=(str(wrong), str(client_key))))


@pytest.mark.parametrize("form", [(), ("-m", "PEM")], ids=["openssh", "pem"])
def test_a_key_with_a_passphrase_asks_for_ssh_add(host, tmp_path, form):
    locked = tmp_path / "locked"
    subprocess.run(
        [
            needs.program("ssh-keygen", "openssh-client"),
            "-q",
            "-t",
            "rsa",
            *form,
            "-N",
            "secret",
            "-f",
            locked,
        ],
        check=True,
    )
    with pytest.raises(
        AuthError, match=f"{locked}: has a passphrase; run `ssh-add {locked}`"
    ):
        connect(host.entry(identity_files=(str(locked),)))


def test_a_file_that_is_no_key_is_named(host, tmp_path, client_key):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "text").chmod(0o600)
    os.mkfifo(tmp_path / "text.pub")
    (tmp_path / "huge").touch(0o600)
    os.truncate(tmp_path / "huge", 1 << 40)
    files = (
        str(tmp_path / "text"),
        str(tmp_path / "huge"),
        f"{client_key}.pub",
        "/dev/zero",
        str(tmp_path),
        "/nowhere/key",
    )
    with pytest.raises(AuthError) as refused:
        connect(host.entry(identity_files=files))
    whys = (
        "holds no private key",
        "is too large for a key",
        "is a public key",
        "is not a file",
        "is not a file",
        "no such file",
    )
    for file, why in zip(files, whys, strict=True):
        assert f"{file}: {why}" in str(refused.value)


def test_the_agents_key_opens_a_host_without_identity_files(host, agent, client_key):
    agent(client_key)
    assert connects(host.entry(identity_files=()))


def test_the_agent_signs_for_a_named_key_that_has_a_passphrase(
    make_known, agent, tmp_path
):
    locked = keygen(tmp_path / "locked")
    host = make_known(f"AuthorizedKeysFile {locked}.pub")
    agent(locked)
    subprocess.run(
        [
            needs.program("ssh-keygen", "openssh-client"),
            "-q",
            "-p",
            "-N",
            "secret",
            "-f",
            locked,
        ],
        check=True,
        capture_output=True,
    )
    assert connects(host.entry(identity_files=(str(locked),)))


def test_with_identity_files_no_other_key_of_the_agent_is_offered(
    host, agent, client_key, tmp_path
):
    agent(client_key)
    wrong = keygen(tmp_path / "wrong")
    with pytest.raises(AuthError) as refused:
        connect(host.entry(identity_files=(str(wrong),)))
    assert "agent" not in str(refused.value)


def write_fido_key(path: Path) -> Path:
    """Write a key whose token does not exist, as ssh-keygen writes it (PROTOCOL.key,
    PROTOCOL.u2f); return its path.
    """

    def pack(*texts: bytes) -> bytes:
        return b"".join(struct.pack(">I", len(text)) + text for text in texts)

    generated = paramiko.PKey.from_path(keygen(path)).asbytes()
    point = paramiko.Message(generated[15:]).get_string()
    public = pack(b"sk-ssh-ed25519@openssh.com", point, b"ssh:")
    handle = b"\x01" + pack(b"no token", b"")
    private = b"same" * 2 + public + handle + pack(b"a token")
    private += bytes(range(1, 1 + -len(private) % 8))
    whole = b"openssh-key-v1\0" + pack(b"none", b"none", b"")
    whole += struct.pack(">I", 1) + pack(public, private)
    text = base64.encodebytes(whole).decode()
    marks = (
        "-----BEGIN OPENSSH PRIVATE KEY-----\n",
        "-----END OPENSSH PRIVATE KEY-----\n",
    )
    path.write_text(text.join(marks))
    public_text = base64.b64encode(public).decode()
    path.with_name(f"{path.name}.pub").write_text(
        f"sk-ssh-ed25519@openssh.com {public_text}\n"
    )
    return path


def test_a_key_for_which_the_agent_does_not_sign_keeps_no_other_out(
    host, agent, tmp_path, client_key
):
    agent(write_fido_key(tmp_path / "id_ed25519_sk"))
    agent(client_key)
    assert connects(host.entry(identity_files=()))


def test_a_key_of_a_fido_token_without_its_token_is_named(make_known, agent, tmp_path):
    key = write_fido_key(tmp_path / "id_ed25519_sk")
    host = make_known(f"AuthorizedKeysFile {key}.pub")
    with pytest.raises(AuthError, match=r"is a key of a FIDO token; .*via: openssh"):
        connect(host.entry(identity_files=(str(key),)))
    agent(key)
    for files in ((), (str(key),)):
        with pytest.raises(AuthError) as refused:
            connect(host.entry(identity_files=files))
        said = str(refused.value)
        assert "ssh-agent did not sign with it; is its FIDO token there" in said


def test_an_agent_with_too_many_keys_is_told_so(host, agent, tmp_path):
    for number in range(8):
        agent(keygen(tmp_path / f"key{number}"))
    with pytest.raises(
        AuthError, match=r"closed the connection after .* of our keys.*identity_files"
    ):
        connect(host.entry(identity_files=()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["PubkeyAuthentication no", "PasswordAuthentication yes"], "only password"),
        (
            ["AuthenticationMethods publickey,password", "PasswordAuthentication yes"],
            "wants password as well",
        ),
    ],
)
def test_a_host_that_wants_something_else_than_a_key_says_what(
    make_known, options, words
):
    with pytest.raises(AuthError, match=words):
        connect(make_known(*options).entry())


class Server(paramiko.ServerInterface):
    """A server that lets in without a key, if that is among its methods."""

    def __init__(self, methods: str) -> None:
        self.methods = methods

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_none(self, username: str) -> int:
        return (
            paramiko.AUTH_SUCCESSFUL if "none" in self.methods else paramiko.AUTH_FAILED
        )


@pytest.fixture
def serve(tmp_path, known_hosts):
    """`serve(methods)`: a host whose server lets in by these methods, "publickey,none",
    but by no key.
    """
    key = keygen(tmp_path / "server_key")
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    known_hosts.write_text(f"[127.0.0.1]:{port} {key.with_suffix('.pub').read_text()}")
    transports = []

    def make(methods: str) -> Host:
        def answer() -> None:
            transport = paramiko.Transport(listening.accept()[0])
            transports.append(transport)
            transport.add_server_key(paramiko.PKey.from_path(key))
            transport.start_server(threading.Event(), Server(methods))

        threading.Thread(target=answer, daemon=True).start()
        return Host("board", "127.0.0.1", port=port)

    yield make
    for transport in transports:
        transport.close()
    listening.close()


@pytest.mark.parametrize("methods", ["none", "none,password", "publickey,none"])
@pytest.mark.parametrize("keys", [0, 1])
def test_a_host_that_lets_in_without_a_key_is_entered(serve, client_key, methods, keys):
    link, _ = dial(
        replace(serve(methods), identity_files=(str(client_key),) * keys), 15.0
    )
    assert link.transport.is_authenticated()
    hang_up(link)


def test_methods_that_ssh_has_lead_to_via_openssh(serve, client_key):
    host = replace(serve("gssapi-with-mic,password"), identity_files=(str(client_key),))
    with pytest.raises(
        AuthError, match=r"only gssapi-with-mic, password; .*, or set `via: openssh`"
    ):
        dial(host, 15.0)


@pytest.mark.parametrize(
    "lines", [b"Not allowed at this time\r\n", b"ftp 220 hello\n\nSecond\n"]
)
def test_what_a_server_says_before_its_banner_is_quoted(known_hosts, lines):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as link:
                link.sendall(lines)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(UnreachableError) as refused:
            connect(Host("board", "127.0.0.1", port=listening.getsockname()[1]))
    words = "; ".join(line for line in lines.decode().splitlines() if line)
    assert f"The server says: {words!r}." in str(refused.value)


def test_a_server_that_signs_with_sha1_only_is_told_apart(make_hosts, known_hosts):
    (host,) = make_hosts(1, options=["HostKeyAlgorithms ssh-rsa"], host_key_kind="rsa")
    with pytest.raises(
        UnreachableError,
        match=r"offers ssh-rsa; .*sign with SHA-1.*ssh-keygen -A.*`via: openssh`",
    ):
        connect(host.entry())


@pytest.fixture
def deaf_agent(known_hosts, tmp_path, monkeypatch):
    """Where an ssh-agent would listen: a socket that keeps whoever calls waiting."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "deaf.socket"))
        listening.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "deaf.socket"))
        monkeypatch.setattr(identities, "_AGENT_ANSWERS_S", 0.3)
        yield listening


@pytest.fixture
def home(account_home):
    """A home of our own; where ssh looks by itself lies a key that would be let in
    nowhere.
    """
    keys = account_home / ".ssh"
    keys.mkdir(mode=0o700)
    keygen(keys / "id_ed25519")
    return account_home


@pytest.fixture
def config(known_hosts):
    """Put lines in front of the test's ssh_config, where they win."""
    path = known_hosts.with_name("ssh_config")
    return lambda lines: path.write_text(f"{lines}\n{path.read_text()}")


def test_an_agent_that_never_answers_keeps_no_key_file_from_being_used(
    host, deaf_agent, home, config, client_key
):
    config(f"Host *\n  IdentityFile {client_key}")
    assert connects(host.entry(identity_files=()))


def test_an_agent_that_never_answers_is_named_when_nothing_else_lets_us_in(
    host, deaf_agent, home
):
    with pytest.raises(
        AuthError, match=f"no answer at {deaf_agent.getsockname()} within 0.3 s"
    ):
        connect(host.entry(identity_files=()))


# ---- nothing is looked up or offered that was not asked for
# ----------------------------------------------


@pytest.fixture
def opened_files(home):
    """Yield the paths opened below the home so far."""
    seen: list[str] = []
    _hear_of_files()
    _listeners.append(
        lambda path: seen.append(path) if path.startswith(f"{home}/") else None
    )
    yield seen
    _listeners.clear()


_listeners: list = []


@cache
def _hear_of_files() -> None:
    """Hand every path that is opened to the listeners. Once for all: such a hook cannot
    be removed.
    """

    def heard(event, arguments):
        for listener in _listeners if event == "open" else ():
            listener(
                os.fsdecode(arguments[0])
                if isinstance(arguments[0], (str, bytes))
                else ""
            )

    sys.addaudithook(heard)


@pytest.fixture
def debugging_hosts(make_hosts, known_hosts):
    """`debugging_hosts(2)`: sshds that take several methods and log which are tried
    with what.
    """

    def make(count):
        options = [
            "LogLevel DEBUG1",
            "GSSAPIAuthentication yes",
            "PasswordAuthentication yes",
        ]
        hosts = make_hosts(count, options)
        known_hosts.write_text("".join(host.known_hosts_line for host in hosts))
        return hosts

    return make


def read_attempts(host) -> list[str]:
    """Return the methods and keys that a host was asked to let us in by, in order."""
    attempt = re.compile(
        r"method (\S+) \[preauth\]|(?:Accepted|Failed) publickey .*(SHA256:\S+)"
    )
    return [match[1] or match[2] for match in attempt.finditer(host.log.read_text())]


def public_name(key: Path) -> str:
    done = subprocess.run(
        [needs.program("ssh-keygen", "openssh-client"), "-l", "-f", key],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()[1]


def nobody_called(listening: socket.socket) -> bool:
    listening.setblocking(False)
    with suppress(BlockingIOError):
        listening.accept()
        return False
    return True


@pytest.mark.parametrize("named", ["in the inventory", "in ssh_config"])
def test_a_named_key_is_offered_once_and_nothing_else_is_looked_for(
    debugging_hosts, client_key, config, opened_files, deaf_agent, named
):
    (host,) = debugging_hosts(1)
    if named == "in ssh_config":
        config(f"Host *\n  IdentityFile {client_key}\n  IdentitiesOnly yes")
    assert connects(
        host.entry(
            identity_files=(str(client_key),) if named == "in the inventory" else ()
        )
    )
    assert read_attempts(host) == ["publickey", public_name(client_key)]
    assert nobody_called(deaf_agent)
    assert opened_files == []


def test_a_key_of_the_inventory_opens_the_jump_host_before_anything_is_looked_for(
    debugging_hosts, client_key, opened_files, deaf_agent
):
    host, bastion = debugging_hosts(2)
    assert connects(host.entry(jump=(f"{bastion.address}:{bastion.port}",)))
    assert (
        read_attempts(bastion)
        == read_attempts(host)
        == ["publickey", public_name(client_key)]
    )
    assert nobody_called(deaf_agent)
    assert opened_files == []


def test_a_jump_host_that_refuses_the_inventorys_key_is_offered_what_ssh_would(
    make_hosts, known_hosts, agent, tmp_path, opened_files
):
    (host,) = make_hosts(1)
    (bastion,) = make_hosts(1, [f"AuthorizedKeysFile {tmp_path / 'other'}.pub"])
    agent(keygen(tmp_path / "other"))
    known_hosts.write_text(host.known_hosts_line + bastion.known_hosts_line)
    assert connects(host.entry(jump=(f"{bastion.address}:{bastion.port}",)))


def test_a_refused_named_key_is_all_that_is_offered(
    debugging_hosts, tmp_path, opened_files, deaf_agent
):
    (host,) = debugging_hosts(1)
    wrong = keygen(tmp_path / "wrong")
    with pytest.raises(AuthError):
        connect(host.entry(identity_files=(str(wrong), str(wrong))))
    assert read_attempts(host) == ["publickey", public_name(wrong), "none"]
    assert nobody_called(deaf_agent)
    assert opened_files == []


def test_a_host_that_allows_one_key_says_so(make_known, client_key, tmp_path):
    files = (str(keygen(tmp_path / "wrong")), str(client_key))
    words = r"after 1 of our keys .*'Too many authentication failures'.*identity_files"
    with pytest.raises(AuthError, match=words):
        connect(make_known("MaxAuthTries 1").entry(identity_files=files))

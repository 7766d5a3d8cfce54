"""Who we say we are: files, the agent, and what the person reads when the host does not want us."""

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from fleet.errors import AuthError, UnreachableError
from fleet.remote import identities
from fleet.remote.connect import connect
from tests import needs
from tests.hosts.sshd import keygen


@pytest.fixture
def host(ssh_host, known_hosts):
    known_hosts.write_text(ssh_host.known_hosts_line)
    return ssh_host


@pytest.fixture
def agent(tmp_path, known_hosts, monkeypatch):
    """A function that adds a key to an ssh-agent of our own."""
    path = str(tmp_path / "agent.socket")
    process = subprocess.Popen(
        [needs.program("ssh-agent", "openssh-client"), "-D", "-a", path],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not Path(path).exists():
        assert process.poll() is None
    monkeypatch.setenv("SSH_AUTH_SOCK", path)
    yield lambda key: subprocess.run(["ssh-add", "-q", key], check=True, capture_output=True)
    process.send_signal(signal.SIGKILL)
    process.wait()


def connects(host) -> bool:
    with connect(host) as connection:
        return connection.run("echo here").stdout == b"here\n"


def test_a_wrong_key_is_refused_in_words_that_name_user_key_and_remedy(host, tmp_path):
    wrong = keygen(tmp_path / "wrong")
    with pytest.raises(AuthError) as refused:
        connect(host.entry(name="board", identity_files=(str(wrong),), user="nobody"))
    text = str(refused.value)
    assert text.startswith(f"board: {host.address} port {host.port} refused user 'nobody'")
    assert str(wrong) in text
    assert "~nobody/.ssh/authorized_keys" in text


def test_one_refused_connection_is_all_a_wrong_key_costs(host, tmp_path):
    wrong = keygen(tmp_path / "wrong")
    before = host.log.read_bytes().count(b"Connection from")
    with pytest.raises(AuthError):
        connect(host.entry(identity_files=(str(wrong),)))
    assert host.log.read_bytes().count(b"Connection from") == before + 1


def test_the_second_key_file_is_tried_when_the_first_is_refused(host, tmp_path, client_key):
    wrong = keygen(tmp_path / "wrong")
    assert connects(host.entry(identity_files=(str(wrong), str(client_key))))


@pytest.mark.parametrize("form", [(), ("-m", "PEM")], ids=["openssh", "pem"])
def test_a_key_with_a_passphrase_asks_for_ssh_add(host, tmp_path, form):
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", *form, "-N", "secret", "-f", locked], check=True)
    with pytest.raises(AuthError, match=f"{locked}: has a passphrase; run `ssh-add {locked}`"):
        connect(host.entry(identity_files=(str(locked),)))


def test_a_key_file_that_does_not_exist_is_named(host):
    with pytest.raises(AuthError, match="/nowhere/key: no such file"):
        connect(host.entry(identity_files=("/nowhere/key",)))


def test_a_file_that_is_no_key_is_named(host, tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(AuthError, match=f"{tmp_path}/text: "):
        connect(host.entry(identity_files=(str(tmp_path / "text"),)))


def test_the_agents_key_opens_a_host_without_identity_files(host, agent, client_key):
    agent(client_key)
    assert connects(host.entry(identity_files=()))


def test_the_agent_signs_for_a_named_key_that_has_a_passphrase(make_hosts, known_hosts, agent, tmp_path):
    locked = keygen(tmp_path / "locked")
    (host,) = make_hosts(1, options=[f"AuthorizedKeysFile {locked}.pub"])
    known_hosts.write_text(host.known_hosts_line)
    agent(locked)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", locked], check=True, capture_output=True)
    assert connects(host.entry(identity_files=(str(locked),)))


def test_with_identity_files_no_other_key_of_the_agent_is_offered(host, agent, client_key, tmp_path):
    agent(client_key)
    wrong = keygen(tmp_path / "wrong")
    with pytest.raises(AuthError) as refused:
        connect(host.entry(identity_files=(str(wrong),)))
    assert "agent" not in str(refused.value)


def test_an_agent_with_too_many_keys_is_told_so(host, agent, tmp_path):
    for number in range(8):
        agent(keygen(tmp_path / f"key{number}"))
    with pytest.raises(AuthError, match=r"hung up after .* of our keys.*identity_files"):
        connect(host.entry(identity_files=()))


def test_a_host_that_wants_something_else_than_keys_says_what(make_hosts, known_hosts):
    (host,) = make_hosts(1, options=["PubkeyAuthentication no", "PasswordAuthentication yes"])
    known_hosts.write_text(host.known_hosts_line)
    with pytest.raises(AuthError, match="only password"):
        connect(host.entry())


def test_a_host_that_wants_a_second_factor_says_which(make_hosts, known_hosts):
    options = ["AuthenticationMethods publickey,password", "PasswordAuthentication yes"]
    (host,) = make_hosts(1, options=options)
    known_hosts.write_text(host.known_hosts_line)
    with pytest.raises(AuthError, match="wants password as well"):
        connect(host.entry())


def test_a_server_that_signs_with_sha1_only_is_told_apart(make_hosts, known_hosts):
    (host,) = make_hosts(1, options=["HostKeyAlgorithms ssh-rsa"], host_key_kind="rsa")
    with pytest.raises(UnreachableError, match=r"SHA-1 only .*ssh-keygen -A"):
        connect(host.entry())


@pytest.fixture
def mute_agent(tmp_path, known_hosts, monkeypatch):
    """An ssh-agent that lets us connect and never says a word."""
    path = str(tmp_path / "mute.socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        monkeypatch.setattr(identities, "_AGENT_ANSWERS_S", 0.3)
        yield path


def test_an_agent_that_never_answers_keeps_no_key_file_from_being_used(host, mute_agent):
    assert connects(host.entry())


def test_an_agent_that_never_answers_is_named_when_nothing_else_lets_us_in(host, mute_agent, tmp_path):
    wrong = keygen(tmp_path / "wrong")
    with pytest.raises(AuthError, match=f"ssh-agent: said nothing at {mute_agent} within 0.3 s"):
        connect(host.entry(identity_files=(str(wrong),)))

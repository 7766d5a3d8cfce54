"""What of ssh_config is honoured, by connecting through it; and what is said of the rest."""

import getpass
import os
import subprocess
import sys
import time

import pytest

from fleet.errors import HostKeyError, UnreachableError
from fleet.model import Host
from fleet.remote.connect import connect
from fleet.remote.ssh import config_lookup
from fleet.remote.ssh.config import known_hosts_name, route, split_files, split_hop
from tests import needs


@pytest.fixture
def config(known_hosts):
    """Add lines in front of the test's ssh_config, where they win."""
    path = known_hosts.with_name("ssh_config")
    path.with_name("included").write_text("")

    def add(lines: str):
        path.write_text(lines + "\n" + path.read_text())
        return path

    return add


def echo(host: Host) -> str:
    with connect(host) as connection:
        return connection.run("echo $SSH_CONNECTION").stdout.decode()


def lines_for(host, client_key) -> str:
    return (
        f"  HostName {host.address}\n  Port {host.port}\n  IdentityFile {client_key}\n  IdentitiesOnly yes\n"
    )


def test_an_alias_brings_address_port_user_and_key(ssh_host, known_hosts, client_key, config):
    known_hosts.write_text(ssh_host.known_hosts_line)
    config(f"Host lab-board\n{lines_for(ssh_host, client_key)}")
    assert f"{ssh_host.address} {ssh_host.port}" in echo(Host("board", "lab-board"))


def test_an_included_file_counts(ssh_host, known_hosts, client_key, config):
    known_hosts.write_text(ssh_host.known_hosts_line)
    path = config(f"Include {known_hosts.with_name('included')}")
    path.with_name("included").write_text(f"Host lab-board\n{lines_for(ssh_host, client_key)}")
    assert ssh_host.address in echo(Host("board", "lab-board"))


def test_the_inventory_wins_over_ssh_config(ssh_host, known_hosts, config):
    known_hosts.write_text(ssh_host.known_hosts_line)
    config("Host *\n  Port 1\n  User nobody\n  IdentityFile /nowhere")
    assert ssh_host.address in echo(ssh_host.entry(user=getpass.getuser()))


def test_host_key_alias_is_the_name_looked_up(ssh_host, known_hosts, config):
    known_hosts.write_text(f"the-board {ssh_host.known_hosts_line.split(' ', 1)[1]}")
    config("Host *\n  HostKeyAlias the-board")
    assert ssh_host.address in echo(ssh_host.entry())


def test_a_jump_host_of_the_inventory_carries_the_connection(make_hosts, ssh_host, known_hosts):
    (bastion,) = make_hosts(1)
    known_hosts.write_text(bastion.known_hosts_line + ssh_host.known_hosts_line)
    host = ssh_host.entry(jump=(f"{bastion.address}:{bastion.port}",))
    with connect(host) as connection:
        assert ssh_host.address in connection.run("echo $SSH_CONNECTION").stdout.decode()
        assert bastion.sessions()
    while bastion.sessions():  # pytest's own time limit bounds it
        time.sleep(0.02)


def test_two_jump_hosts_of_ssh_config_carry_the_connection(
    make_hosts, ssh_host, known_hosts, client_key, config
):
    first, second = make_hosts(2)
    known_hosts.write_text(
        first.known_hosts_line + second.known_hosts_line + ssh_host.known_hosts_line,
    )
    config(
        f"Host first\n{lines_for(first, client_key)}"
        f"Host second\n{lines_for(second, client_key)}  ProxyJump first\n"
        f"Host lab-board\n{lines_for(ssh_host, client_key)}  ProxyJump second\n"
    )
    assert ssh_host.address in echo(Host("board", "lab-board"))
    assert b"Accepted publickey" in first.log.read_bytes()
    assert b"Accepted publickey" in second.log.read_bytes()


def test_an_unknown_jump_host_is_refused_like_any_other(make_hosts, ssh_host, known_hosts):
    (bastion,) = make_hosts(1)
    known_hosts.write_text(ssh_host.known_hosts_line)
    with pytest.raises(HostKeyError, match=f"board: {bastion.address} port {bastion.port} showed"):
        connect(ssh_host.entry(name="board", jump=(f"{bastion.address}:{bastion.port}",)))


def test_a_host_the_jump_host_cannot_reach_is_told_apart(make_hosts, ssh_host, known_hosts):
    (bastion,) = make_hosts(1)
    known_hosts.write_text(bastion.known_hosts_line)
    host = ssh_host.entry(name="board", port=1, jump=(f"{bastion.address}:{bastion.port}",))
    with pytest.raises(
        UnreachableError, match=rf"board: jump host {bastion.address} cannot reach .* port 1: "
    ):
        connect(host)


def test_jumping_in_a_circle_is_told(known_hosts, config):
    config("Host a\n  ProxyJump b\nHost b\n  ProxyJump a")
    with pytest.raises(UnreachableError, match="board: more than 8 jump hosts"):
        route(Host("board", "a"))


def test_a_proxy_command_is_talked_through(ssh_host, known_hosts, client_key, config):
    known_hosts.write_text(ssh_host.known_hosts_line)
    log = known_hosts.with_name("proxy.log")
    relay = known_hosts.with_name("relay.py")
    relay.write_text(
        "import os, socket, sys, threading\n"
        "print(*sys.argv[1:3], file=open(sys.argv[3], 'w'))\n"
        "link = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536): link.sendall(data)\n"
        "    link.shutdown(socket.SHUT_WR)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := link.recv(65536): os.write(1, data)\n"
    )
    config(f"Host *\n  ProxyCommand {sys.executable} {relay} %h %p {log}")
    assert ssh_host.address in echo(ssh_host.entry())
    assert log.read_text() == f"{ssh_host.address} {ssh_host.port}\n"


def test_a_proxy_command_that_fails_is_named(ssh_host, known_hosts, config):
    config("Host *\n  ProxyCommand false")
    with pytest.raises(UnreachableError, match=r"board: .*ProxyCommand.*false"):
        connect(ssh_host.entry(name="board"))


def test_what_a_failing_proxy_command_printed_is_kept(ssh_host, known_hosts, config):
    config("Host *\n  ProxyCommand echo gate: no route to %h >&2; exit 1")
    with pytest.raises(
        UnreachableError, match=rf"board: .*ProxyCommand.*: gate: no route to {ssh_host.address}"
    ):
        connect(ssh_host.entry(name="board"))


def test_what_is_not_honoured_is_said(known_hosts, config):
    config("Host *\n  CertificateFile /x\n  IdentityAgent /y")
    (end,) = route(Host("board", "board"))
    assert [note.split(": ")[1].split()[0] for note in end.notes] == ["CertificateFile", "IdentityAgent"]


def test_a_broken_ssh_config_is_told_with_what_ssh_says(known_hosts, config):
    config("Hots *\n  Port 22")
    with pytest.raises(UnreachableError, match=r"board: .*[Bb]ad configuration option: hots"):
        route(Host("board", "board"))


def test_without_the_ssh_program_paramikos_parser_is_used(
    ssh_host, known_hosts, client_key, config, monkeypatch
):
    known_hosts.write_text(ssh_host.known_hosts_line)
    config(f"Host lab-board2\n{lines_for(ssh_host, client_key)}")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert ssh_host.address in echo(Host("board", "lab-board2"))


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("bastion", ("bastion", None, None)),
        ("me@bastion:2222", ("bastion", "me", 2222)),
        ("me@corp@bastion", ("bastion", "me@corp", None)),
        ("[fe80::1%eth0]:22", ("fe80::1%eth0", None, 22)),
        ("fe80::1", ("fe80::1", None, None)),
        ("ssh://me@bastion:22", ("bastion", "me", 22)),
    ],
)
def test_a_hop_is_split_into_its_parts(text, split):
    assert split_hop(text) == split


@pytest.mark.parametrize("text", ["", "me@", "bastion:ssh", "[::1"])
def test_a_hop_that_is_none_is_refused(text):
    with pytest.raises(UnreachableError, match=r"is not \[user@\]host"):
        split_hop(text)


def test_known_hosts_names_carry_unusual_ports():
    assert known_hosts_name("Board", 22) == "board"
    assert known_hosts_name("::1", 2222) == "[::1]:2222"


def test_a_known_hosts_file_may_have_blanks_in_its_path(ssh_host, known_hosts, config):
    folder = known_hosts.with_name("my known  hosts")
    folder.mkdir()
    (folder / "of the lab").write_text(ssh_host.known_hosts_line)
    config(f'Host *\n  UserKnownHostsFile "{known_hosts}" "{folder}/of the lab"')
    assert ssh_host.address in echo(ssh_host.entry())


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("", []),
        ("none", ["none"]),
        ("/a b/k  h ~/c /d", ["/a b/k  h", "~/c", "/d"]),
        ("relative file", ["relative file"]),
    ],
)
def test_a_list_of_files_is_split_where_a_path_begins(text, files):
    assert split_files(text) == files


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Every name ssh was asked about, by an `ssh` that notes it and then is the real one."""
    real, log = needs.program("ssh", "openssh-client"), tmp_path / "asked"
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ssh"
    program.write_text(f'#!/bin/sh\nfor last; do :; done\necho "$last" >>{log}\nexec {real} "$@"\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return lambda: log.read_text().split()


def same_as_ssh(name, user, port, file):
    done = subprocess.run(
        [
            "ssh",
            "-G",
            "-F",
            str(file),
            *(["-l", user] if user else []),
            *(["-p", str(port)] if port else []),
            name,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    expected: dict[str, tuple[str, ...]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        expected[key.lower()] = (*expected.get(key.lower(), ()), value)
    return dict(config_lookup.lookup("host", name, user, port, str(file))) == expected


PLACES = [
    ("a", None, None),
    ("10.0.0.2", "bob", 22),
    ("b.example.com", None, 2222),
    ("c", "al", None),
    ("a", "x", 7),
]
PLAIN = "# all\nHost *\n  User root\n  IdentitiesOnly yes\n  IdentityFile ~/.ssh/lab\n  ConnectTimeout=7\n"


def test_one_answer_of_ssh_serves_all_hosts_that_ssh_config_does_not_tell_apart(tmp_path, asked):
    file = tmp_path / "config"
    (tmp_path / "more.conf").write_text("ServerAliveInterval 3\n")
    file.write_text(f"Include {tmp_path}/*.conf\n{PLAIN}")
    for name, user, port in PLACES:
        config_lookup.lookup("host", name, user, port, str(file))
    assert asked() == ["a", "a", "10.0.0.2"]
    assert all(same_as_ssh(*place, file) for place in PLACES)


@pytest.mark.parametrize(
    "lines",
    [
        "Host unix/* vsock/* vsock%*\n  ProxyCommand proxy %h %p\nHost .host\n  User carol\n",  # systemd 256
        "Match final all\n  Include FOLDER/policy\n  ForwardX11Trusted yes\n",  # Fedora
    ],
    ids=["systemd", "Fedora"],
)
def test_what_distributions_put_into_ssh_config_distinguishes_no_hosts(tmp_path, asked, lines):
    file = tmp_path / "config"
    (tmp_path / "policy").write_text("Ciphers aes256-gcm@openssh.com\n")
    file.write_text(lines.replace("FOLDER", str(tmp_path)) + PLAIN)
    for name, user, port in PLACES:
        config_lookup.lookup("host", name, user, port, str(file))
    assert asked() == ["a", "a", "10.0.0.2"]
    assert all(same_as_ssh(*place, file) for place in PLACES)


@pytest.mark.parametrize(
    "lines",
    [
        "Host b.*\n  Port 7\n",
        "Host *.com\n  User carol\n",
        "Host * !a\n  User carol\n",
        "Match host c\n  User carol\n",
        "Host unix/* c\n  User carol\n",
        "Host .host * !a\n  User carol\n",
        "HostName lab.example.com\n",
        "IdentityFile ~/.ssh/%h\n",
        "UserKnownHostsFile ~/.ssh/known/%n\n",
        "ProxyJump b.example.com\n",
        "CanonicalizeHostname yes\n",
        "Include FOLDER/special\n",
        'Include "FOLDER/special"\n',
    ],
)
def test_what_may_tell_hosts_apart_is_asked_for_each(tmp_path, asked, lines):
    file = tmp_path / "config"
    (tmp_path / "special").write_text("Host c\n  Port 99\n")
    file.write_text(lines.replace("FOLDER", str(tmp_path)) + PLAIN)
    assert all(same_as_ssh(*place, file) for place in PLACES)
    ours = len(asked()) - len(PLACES)
    assert ours == len(PLACES)


def test_names_ssh_would_rewrite_are_asked_for_each(tmp_path, asked):
    file = tmp_path / "config"
    file.write_text(PLAIN)
    for name in ("Board", "fe80::1", "BOARD2"):
        assert same_as_ssh(name, None, None, file)
    assert len(asked()) == 6


def test_only_the_first_jump_hosts_own_proxy_settings_count(known_hosts, config):
    """As OpenSSH does: what comes after the first hop is reached through the hops before it."""
    config(
        "Host one\n  ProxyCommand nc %h %p\n"
        "Host two\n  ProxyCommand nc two %p\n"
        "Host three\n  ProxyJump never\n"
        "Host target\n  ProxyCommand nc target 1\n"
    )
    hops = route(Host("board", "target", jump=("one", "two", "three")))
    assert [hop.name for hop in hops] == ["one", "two", "three", "target"]
    assert [hop.proxy_command for hop in hops] == ["nc one 22", None, None, None]


def test_the_first_jump_hosts_own_jump_hosts_come_before_it(known_hosts, config):
    config("Host one\n  ProxyJump zero,half\n  ProxyCommand none\nHost zero\n  ProxyCommand nc zero 1\n")
    hops = route(Host("board", "192.0.2.1", jump=("one", "two")))
    assert [hop.name for hop in hops] == ["zero", "half", "one", "two", "192.0.2.1"]
    assert [hop.proxy_command for hop in hops] == ["nc zero 1", None, None, None, None]


@pytest.mark.parametrize(("count", "allowed"), [(8, True), (9, False)])
def test_at_most_eight_jump_hosts_are_passed(known_hosts, count: int, allowed: bool):
    host = Host("board", "192.0.2.1", jump=tuple(f"hop{number}" for number in range(count)))
    if allowed:
        assert len(route(host)) == 9
    else:
        with pytest.raises(UnreachableError, match="board: more than 8 jump hosts"):
            route(host)

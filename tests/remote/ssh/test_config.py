"""What of ssh_config is honoured, by connecting through it; and what is said of the
rest.
"""

import getpass
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet.errors import HostKeyError, UnreachableError
from fleet.model import Host, Via
from fleet.remote.connect import connect
from fleet.remote.ssh.route import known_hosts_name, resolve_route, split_files
from tests import needs
from tests.command import ROOT


@pytest.fixture
def config(known_hosts):
    """Add lines in front of the test's ssh_config, where they win."""
    path = known_hosts.with_name("ssh_config")
    path.with_name("included").write_text("")

    def add(lines: str):
        path.write_text(lines + "\n" + path.read_text())
        return path

    return add


@pytest.fixture
def ssh_host(ssh_host, known_hosts):
    """A host whose key is known."""
    known_hosts.write_text(ssh_host.known_hosts_line)
    return ssh_host


@pytest.fixture
def ssh() -> str:
    """The program that fleet asks; without it paramiko reads ssh_config."""
    return needs.program("ssh", "openssh-client")


def echo(host: Host) -> str:
    with connect(host) as connection:
        return connection.run("echo $SSH_CONNECTION").stdout.decode()


def lines_for(host, client_key) -> str:
    return (
        f"  HostName {host.address}\n  Port {host.port}\n  IdentityFile {client_key}\n "
        " IdentitiesOnly yes\n"
    )


def test_an_alias_brings_address_port_user_and_key(
    ssh_host, known_hosts, client_key, config
):
    config(f"Host lab-board\n{lines_for(ssh_host, client_key)}")
    assert f"{ssh_host.address} {ssh_host.port}" in echo(Host("board", "lab-board"))


def test_an_included_file_counts(ssh_host, known_hosts, client_key, config):
    path = config(f"Include {known_hosts.with_name('included')}")
    path.with_name("included").write_text(
        f"Host lab-board\n{lines_for(ssh_host, client_key)}"
    )
    assert ssh_host.address in echo(Host("board", "lab-board"))


def test_the_inventory_wins_over_ssh_config(ssh_host, known_hosts, config):
    config("Host *\n  Port 1\n  User nobody\n  IdentityFile /nowhere")
    assert ssh_host.address in echo(ssh_host.entry(user=getpass.getuser()))


def test_host_key_alias_is_the_name_looked_up(ssh_host, known_hosts, config):
    known_hosts.write_text(f"the-board {ssh_host.known_hosts_line.split(' ', 1)[1]}")
    config("Host *\n  HostKeyAlias the-board")
    assert ssh_host.address in echo(ssh_host.entry())


def test_a_jump_host_of_the_inventory_carries_the_connection(
    make_hosts, ssh_host, known_hosts
):
    (bastion,) = make_hosts(1)
    known_hosts.write_text(bastion.known_hosts_line + ssh_host.known_hosts_line)
    host = ssh_host.entry(jump=(f"{bastion.address}:{bastion.port}",))
    with connect(host) as connection:
        assert (
            ssh_host.address in connection.run("echo $SSH_CONNECTION").stdout.decode()
        )
        assert bastion.sessions()
    while bastion.sessions():  # pytest's own time limit bounds it
        time.sleep(0.02)


def test_two_jump_hosts_of_ssh_config_carry_the_connection(
    make_hosts, ssh_host, known_hosts, client_key, config
):
    first, second = make_hosts(2)
    known_hosts.write_text(
        "".join(host.known_hosts_line for host in (first, second, ssh_host))
    )
    config(
        f"Host first\n{lines_for(first, client_key)}"
        f"Host second\n{lines_for(second, client_key)}  ProxyJump first\n"
        f"Host lab-board\n{lines_for(ssh_host, client_key)}  ProxyJump second\n"
    )
    assert ssh_host.address in echo(Host("board", "lab-board"))
    assert b"Accepted publickey" in first.log.read_bytes()
    assert b"Accepted publickey" in second.log.read_bytes()


def test_an_unknown_jump_host_is_refused_like_any_other(
    make_hosts, ssh_host, known_hosts
):
    (bastion,) = make_hosts(1)
    with pytest.raises(
        HostKeyError, match=f"board: {bastion.address} port {bastion.port} showed"
    ):
        connect(
            ssh_host.entry(name="board", jump=(f"{bastion.address}:{bastion.port}",))
        )


def test_a_host_the_jump_host_cannot_reach_is_told_apart(
    make_hosts, ssh_host, known_hosts
):
    (bastion,) = make_hosts(1)
    known_hosts.write_text(bastion.known_hosts_line)
    host = ssh_host.entry(
        name="board", port=1, jump=(f"{bastion.address}:{bastion.port}",)
    )
    words = rf"board: jump host {bastion.address} cannot reach .* port 1: "
    with pytest.raises(UnreachableError, match=words):
        connect(host)


def test_jumping_in_a_circle_is_told(known_hosts, config):
    config("Host a\n  ProxyJump b\nHost b\n  ProxyJump a")
    with pytest.raises(UnreachableError, match="board: more than 8 jump hosts"):
        resolve_route(Host("board", "a"))


def test_a_proxy_command_is_talked_through(ssh_host, known_hosts, client_key, config):
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


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("false", "false"),
        ("echo gate: no route to %h >&2; exit 1", ": gate: no route to 127."),
    ],
)
def test_a_proxy_command_that_fails_is_named_with_what_it_printed(
    ssh_host, config, command, words
):
    config(f"Host *\n  ProxyCommand {command}")
    with pytest.raises(UnreachableError, match=f"board: .*ProxyCommand.*{words}"):
        connect(ssh_host.entry(name="board"))


def test_what_is_not_honoured_is_said(known_hosts, config):
    config("Host *\n  RevokedHostKeys /x\n  IdentityAgent /y")
    (end,) = resolve_route(Host("board", "board"))
    assert [note.split(": ")[1].split()[0] for note in end.notes] == [
        "RevokedHostKeys",
        "IdentityAgent",
    ]


def test_an_address_family_is_the_only_one_that_is_tried(ssh_host, config):
    config("Host *\n  AddressFamily inet6")
    with pytest.raises(UnreachableError, match="cannot be resolved"):
        connect(ssh_host.entry(name="board"))


def settings_of_remote_md() -> dict[str, str]:
    """Return what docs/remote.md says becomes of each setting of ssh_config."""
    page = (ROOT / "docs/remote.md").read_text()
    table = page.partition("| setting of ssh_config |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {name: becomes for names, becomes in rows for name in names.split(", ")}


def test_remote_md_says_what_becomes_of_each_setting_of_ssh(ssh):
    command = [ssh, "-G", "-F", "none", "-o", "RemoteCommand=true", "board"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    settings = {line.split()[0].lower() for line in done.stdout.splitlines()}
    named = {name.lower() for name in settings_of_remote_md()}
    assert settings - named - {"host"} == set()


# What would keep ssh from this session, or change it, if it counted.
IGNORED = {
    "AddKeysToAgent": "ask",
    "BatchMode": "yes",
    "BindAddress": "127.0.0.9",
    "BindInterface": "no-such-interface",
    "CASignatureAlgorithms": "ssh-ed25519",
    "CheckHostIP": "yes",
    "Ciphers": "3des-cbc",
    "ClearAllForwardings": "yes",
    "Compression": "yes",
    "ConnectionAttempts": "3",
    "ControlMaster": "yes",
    "ControlPath": "/nonexistent/control",
    "ControlPersist": "yes",
    "DynamicForward": "1",
    "EnableEscapeCommandline": "yes",
    "EnableSSHKeysign": "yes",
    "EscapeChar": "e",
    "ExitOnForwardFailure": "yes",
    "FingerprintHash": "md5",
    "ForkAfterAuthentication": "yes",
    "ForwardAgent": "/nonexistent/agent",
    "ForwardX11": "yes",
    "ForwardX11Timeout": "1",
    "ForwardX11Trusted": "yes",
    "GSSAPIAuthentication": "yes",
    "GSSAPIDelegateCredentials": "yes",
    "GSSAPIKexAlgorithms": "gss-group14-sha256-",
    "GSSAPIKeyExchange": "yes",
    "GSSAPIRenewalForcesRekey": "yes",
    "GSSAPITrustDNS": "yes",
    "GatewayPorts": "yes",
    "HostKeyAlgorithms": "ssh-dss",
    "HostbasedAcceptedAlgorithms": "ssh-dss",
    "HostbasedAuthentication": "yes",
    "IPQoS": "0",
    "KbdInteractiveAuthentication": "no",
    "KexAlgorithms": "diffie-hellman-group1-sha1",
    "KnownHostsCommand": "/bin/false",
    "LocalCommand": "false",
    "LocalForward": "1 127.0.0.1:1",
    "LogLevel": "QUIET",
    "LogVerbose": "packet.c:*",
    "MACs": "hmac-md5",
    "NoHostAuthenticationForLocalhost": "yes",
    "NumberOfPasswordPrompts": "0",
    "PKCS11Provider": "/nonexistent/library",
    "PasswordAuthentication": "no",
    "PermitLocalCommand": "yes",
    "PermitRemoteOpen": "none",
    "PreferredAuthentications": "password",
    "ProxyUseFdpass": "yes",
    "PubkeyAcceptedAlgorithms": "ssh-dss",
    "PubkeyAuthentication": "no",
    "RekeyLimit": "1K",
    "RemoteCommand": "false",
    "RemoteForward": "1 127.0.0.1:1",
    "RequestTTY": "force",
    "RequiredRSASize": "16384",
    "RevokedHostKeys": "/nonexistent/revoked",
    "SecurityKeyProvider": "/nonexistent/library",
    "SendEnv": "*",
    "ServerAliveCountMax": "1",
    "ServerAliveInterval": "1",
    "SessionType": "none",
    "SetEnv": "PATH=/nonexistent",
    "StdinNull": "yes",
    "StreamLocalBindMask": "0777",
    "StreamLocalBindUnlink": "yes",
    "StrictHostKeyChecking": "no",
    "SyslogFacility": "USER",
    "TCPKeepAlive": "no",
    "Tunnel": "yes",
    "TunnelDevice": "7:7",
    "UpdateHostKeys": "ask",
    "VerifyHostKeyDNS": "yes",
    "VisualHostKey": "yes",
    "XAuthLocation": "/nonexistent/xauth",
}


def test_each_setting_that_remote_md_calls_ignored_is_tried():
    becomes = settings_of_remote_md()
    ignored = {name for name, end in becomes.items() if end.startswith("ignored")}
    assert ignored == {*IGNORED}


@pytest.mark.slow
@pytest.mark.parametrize("name", IGNORED)
def test_a_setting_that_is_ignored_changes_no_session_and_is_said_where_it_matters(
    ssh, ssh_host, config, name
):
    without_kerberos = "IgnoreUnknown GSSAPI*\n"
    config(f"{without_kerberos}Host *\n  {name} {IGNORED[name]}")
    host = ssh_host.entry()
    assert ssh_host.address in echo(host)
    (end,) = resolve_route(host)
    is_said = "with a note" in settings_of_remote_md()[name]
    assert [name in note for note in end.notes] == [True] * is_said


def test_without_the_ssh_program_paramikos_parser_is_used(
    ssh_host, known_hosts, client_key, config, monkeypatch
):
    config(f"Host lab-board2\n{lines_for(ssh_host, client_key)}")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert ssh_host.address in echo(Host("board", "lab-board2"))


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


def files_of_ssh(ssh: str, config, name: str) -> list[str]:
    """Return the key files that ssh itself would try for `name`, with its tokens
    replaced.
    """
    command = [ssh, "-v", "-F", str(config), "-o", "ProxyCommand=false", name]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    # each has its certificate beside it
    return re.findall(r"identity file (.*) type", done.stderr)[::2]


@pytest.mark.parametrize(
    "pattern",
    [
        "%n",
        "%p",
        "%l",
        "%k",
        "%i",
        "%L",
        "%C",
        "%u%d%h%r",
        "50%%",
        "${LAB}",
        'a "b" %n',
        "none",
    ],
)
def test_tokens_of_a_key_file_are_replaced_as_ssh_does(
    ssh, known_hosts, config, monkeypatch, pattern: str
):
    monkeypatch.setenv("LAB", "the-lab")
    pattern = pattern.replace('"', '\\"')
    file = config(
        "Host box\n  HostName 127.0.1.1\n  Port 2222\n  User ann\n  IdentityFile"
        f' "/keys dir/id_{pattern}"\n  IdentityFile ~/.ssh/id_plain\n'
    )
    (end,) = resolve_route(Host("board", "box"))
    assert list(end.identity_files) == files_of_ssh(ssh, file, "box")
    assert len(end.identity_files) == 2


def test_a_key_named_by_a_token_opens_the_host(
    ssh_host, known_hosts, client_key, config
):
    shutil.copy(client_key, known_hosts.with_name("id_mybox"))
    config(
        f"Host mybox\n  HostName {ssh_host.address}\n  Port {ssh_host.port}\n"
        f"  IdentityFile {known_hosts.parent}/id_%n\n  IdentitiesOnly yes\n"
    )
    assert ssh_host.address in echo(Host("board", "mybox"))


def test_a_jump_host_may_be_entered_as_the_user_of_the_host_behind_it(
    known_hosts, config
):
    config("Host mybox\n  HostName 127.0.1.1\n  User ann\n  ProxyJump %r@gate-%p\n")
    ends = resolve_route(Host("board", "mybox"))
    assert [(end.name, end.user) for end in ends] == [
        ("gate-22", "ann"),
        ("mybox", "ann"),
    ]


def test_tokens_of_a_proxy_command_are_replaced_and_its_variables_left_to_the_shell(
    ssh, known_hosts, config
):
    config(
        "Host mybox\n  HostName 127.0.1.1\n  ProxyCommand nc -X ${LAB} %h %p %r %n 5%%"
        " | cat\n"
    )
    (end,) = resolve_route(Host("board", "mybox", user="ann", port=2200))
    assert end.proxy_command == "nc -X ${LAB} 127.0.1.1 2200 ann mybox 5% | cat"


def test_settings_that_would_keep_ssh_from_a_command_do_not_matter(
    ssh_host, known_hosts, client_key, config
):
    config(
        f"Host mybox\n{lines_for(ssh_host, client_key)}  ForkAfterAuthentication yes\n"
        "  SessionType none\n  StdinNull yes\n  RemoteCommand cat\n"
    )
    for via in (Via.SSH, Via.OPENSSH):
        assert ssh_host.address in echo(Host("board", "mybox", via=via))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            "Hots *\n  Port 22",
            r"board: `ssh -G a` failed: .*[Bb]ad configuration option: hots",
        ),
        (
            "Host a\n  IdentityFile id_%z\n",
            "board: `ssh -G a` failed: .*unknown key %z",
        ),
        (
            "Host a\n  IdentityFile ${NO_SUCH_VARIABLE}\n",
            "env var .*NO_SUCH_VARIABLE.* has no value",
        ),
    ],
)
def test_what_ssh_does_not_understand_is_told_in_its_words(
    ssh, known_hosts, config, lines, words
):
    config(lines)
    with pytest.raises(UnreachableError, match=words):
        resolve_route(Host("board", "a"))


CONFIGS = [
    "",
    "Host web*\n  Port 2222\n  User deploy\nHost *1\n  IdentityFile ~/.ssh/first\n",
    "Host * !web2 !bastion\n  ProxyJump bastion\nHost web2\n  HostName 192.0.2.2\n",
    "Host web?\n  HostName %h.example\n",
    "Host *\n  HostName 192.0.2.9\n",
    "Host db1 web*\n  IdentityFile ~/.ssh/%h\n",
    "Match host web1\n  Port 2201\n",
    "Host w*\n  ProxyCommand nc %h %p\n",
    "Host web1\n  HostKeyAlias shared\nInclude included\n",
    'Host "web1" web2\n  Port 2203\n',
    (
        "Host *\n  CanonicalizeHostname yes\n  CanonicalDomains example\n "
        " CanonicalizeMaxDots 0\n"
    ),
    "Host WEB*\n  Port 2204\n",
]


@pytest.mark.parametrize("lines", CONFIGS)
def test_names_asked_for_together_have_the_settings_of_each_alone(
    ssh, known_hosts, config, lines
):
    included = known_hosts.with_name("included")
    included.write_text("Host *2\n  Port 2299\n")
    path = config(lines.replace("included", str(included)))
    names = ["web1", "web2", "web10", "db1", "db2", "WEB3"]
    together = [resolve_route(Host("board", name, port=2200)) for name in names]
    for number, (name, ends) in enumerate(zip(names, together, strict=True)):
        os.utime(path, ns=(number, number))  # another file to whoever has read it
        assert resolve_route(Host("board", name, port=2200)) == ends


def test_hosts_that_no_line_tells_apart_cost_one_question(
    known_hosts, config, tmp_path, monkeypatch
):
    real = needs.program("ssh", "openssh-client")
    (tmp_path / "ssh").write_text(
        f'#!/bin/sh\necho >>{tmp_path}/asked\nexec {real} "$@"\n'
    )
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config("Host web7\n  Port 2207\nHost db*\n  User postgres\n")
    names = ("web7", "db1", *(f"web{number}0" for number in range(20)))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(resolve_route, [Host(name, name) for name in names]))
    assert len((tmp_path / "asked").read_text()) == 3


def test_a_changed_ssh_config_counts_at_once(known_hosts, config):
    for port in (2201, 2202):
        config(f"Host mybox\n  Port {port}\n")
        (end,) = resolve_route(Host("board", "mybox"))
        assert end.port == port


@pytest.fixture
def no_ssh(monkeypatch):
    """Leave no ssh program on PATH."""
    monkeypatch.setenv("PATH", "/nonexistent")


@pytest.mark.parametrize(
    "line",
    [
        "Include more",
        "Match localnetwork 10.0.0.0/8",
        "identityfile /keys/id_%n",
        "proxycommand nc %z",
    ],
)
def test_without_ssh_a_line_that_paramiko_does_not_understand_is_refused(
    known_hosts, config, no_ssh, line
):
    path = config(f"Host box\n  {line}\n")
    with pytest.raises(
        UnreachableError, match=f"{path}: without an ssh program, fleet .* `{line}`"
    ):
        resolve_route(Host("board", "box"))


def test_without_ssh_a_proxy_command_gets_user_and_port_of_the_inventory(
    known_hosts, config, no_ssh
):
    config("Host box\n  ProxyCommand nc %h %p -l %r\n")
    (end,) = resolve_route(Host("board", "box", user="ann", port=2200))
    assert end.proxy_command == "nc box 2200 -l ann"
    assert end.notes == ()


def test_only_the_first_jump_hosts_own_proxy_settings_count(known_hosts, config):
    """As OpenSSH does: what comes after the first hop is reached through the hops
    before it.
    """
    config(
        "Host one\n  ProxyCommand nc %h %p\n"
        "Host two\n  ProxyCommand nc two %p\n"
        "Host three\n  ProxyJump never\n"
        "Host target\n  ProxyCommand nc target 1\n"
    )
    hops = resolve_route(Host("board", "target", jump=("one", "two", "three")))
    assert [hop.name for hop in hops] == ["one", "two", "three", "target"]
    assert [hop.proxy_command for hop in hops] == ["nc one 22", None, None, None]


def test_the_first_jump_hosts_own_jump_hosts_come_before_it(known_hosts, config):
    config(
        "Host one\n  ProxyJump zero,half\n  ProxyCommand none\nHost zero\n "
        " ProxyCommand nc zero 1\n"
    )
    hops = resolve_route(Host("board", "192.0.2.1", jump=("one", "two")))
    assert [hop.name for hop in hops] == ["zero", "half", "one", "two", "192.0.2.1"]
    assert [hop.proxy_command for hop in hops] == ["nc zero 1", None, None, None, None]


@pytest.mark.parametrize(("count", "allowed"), [(8, True), (9, False)])
def test_at_most_eight_jump_hosts_are_passed(known_hosts, count: int, allowed: bool):
    host = Host(
        "board", "192.0.2.1", jump=tuple(f"hop{number}" for number in range(count))
    )
    if allowed:
        assert len(resolve_route(host)) == 9
    else:
        with pytest.raises(UnreachableError, match="board: more than 8 jump hosts"):
            resolve_route(host)

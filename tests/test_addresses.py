"""Addresses, users and jump hosts: what is one, and that nothing else gets from any
source into a shell.
"""

import json
import os
from pathlib import Path

import pytest

from fleet.addresses import Hop, read_address, read_hop, read_user
from fleet.errors import FleetError, InventoryError, UnreachableError
from fleet.inventory import ansible, clusters, select, starter
from fleet.model import Host, Via
from fleet.remote.connect import connect

USERS = [
    "ann",
    "ann.b",
    "DOMAIN\\ann",
    "ann@corp.example",
    "_svc",
    "a-b+c",
    "bücher",
    "a\\b",
    "a..b",
    "a#b",
]
ADDRESSES = [
    *(
        "web1",
        "web_1",
        "WEB-1.lab.example",
        "web.",
        "10.0.0.2",
        "2001:db8::2",
        "::1",
        "fe80::1%eth0",
    ),
    *(
        "::ffff:10.0.0.1",
        "1.2",
        "xn--bcher-kva.example",
        "bücher.example",
        "i-0abc",
        "vsock/3",
        ".host",
    ),
    *("a/b", "deploy/bench+1"),
]
BAD = [
    *(
        "$(touch RAN)",
        "$(touch${IFS}RAN)",
        "`touch RAN`",
        ";touch RAN",
        "a;touch${IFS}RAN",
    ),
    *(
        "a|touch${IFS}RAN",
        "a&touch${IFS}RAN",
        "a&&touch${IFS}RAN",
        "a||touch${IFS}RAN",
        "a\ntouch RAN",
    ),
    *(
        "a\rtouch RAN",
        "a>RAN",
        "a<RAN",
        "'a'",
        '"a"',
        "a'$(touch RAN)",
        'a"$(touch RAN)',
        "(touch${IFS}RAN)",
    ),
    *(
        "{touch,RAN}",
        "a b",
        "-oProxyCommand=touch${IFS}RAN",
        "-F/dev/null",
        "--",
        "-",
        "",
        " ",
        "a\tb",
    ),
    *(
        "a\x00b",
        "a\x1b[2J",
        "~/a",
        "a*",
        "a?",
        "a[b]",
        "a!b",
        "a\\b",
        "a%b",
        "%h",
        "%%",
    ),
    *(
        "fe80::1%$(touch${IFS}RAN)",
        "fe80::1%",
        "fe80::1%eth0;touch${IFS}RAN",
        "::1::",
        "[::1",
        "::1]",
    ),
    *(
        "[web]",
        "a..b",
        "a=b",
        "a,b",
        "a#b",
        "a^b",
        "a:b:c",
        "\u202ea",
        "a\u2028b",
        "\uff11\uff1b\uff12",
    ),
    *("a" * 300, "${PATH}", "$HOME", "a\x7fb", "\ufefftouch"),
]


@pytest.mark.parametrize("text", [*ADDRESSES, "[fe80::1%eth0]"])
def test_names_and_ip_addresses_are_taken_without_brackets(text: str) -> None:
    assert read_address(text) == text.strip("[]")


@pytest.mark.parametrize("text", [user for user in USERS if user != "a\\b"])
def test_users_of_unix_and_of_directories_are_taken(text: str) -> None:
    assert read_user(text) == text


@pytest.mark.parametrize(
    "text", ["a:b", "a\\", *(bad for bad in BAD if bad not in USERS)]
)
def test_a_user_is_no_option_and_nothing_to_a_shell(text: str) -> None:
    with pytest.raises(ValueError, match="must be a user name"):
        read_user(text)


@pytest.mark.parametrize(
    ("text", "hop"),
    [
        ("bastion", Hop("bastion")),
        ("me@bastion:2222", Hop("bastion", "me", 2222)),
        ("me@corp@bastion", Hop("bastion", "me@corp")),
        ("[fe80::1%eth0]:22", Hop("fe80::1%eth0", None, 22)),
        ("fe80::1", Hop("fe80::1")),
        ("[::1]", Hop("::1")),
        ("ssh://me@bastion:22", Hop("bastion", "me", 22)),
    ],
)
def test_a_hop_is_split_into_its_parts(text: str, hop: Hop) -> None:
    assert read_hop(text) == hop


@pytest.mark.parametrize(
    "text",
    [
        "",
        "me@",
        "@bastion",
        "bastion:ssh",
        "bastion:",
        "bastion:0",
        "bastion:65536",
        "[::1",
        "me:pw@a",
    ],
)
def test_a_hop_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a hop is \[user@\]host"):
        read_hop(text)


@pytest.fixture
def nothing_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder to be in, an ssh_config whose ProxyCommand a shell reads, no ssh;
    afterwards: nothing ran.
    """
    folder = tmp_path / "here"
    folder.mkdir()
    config = tmp_path / "ssh_config"
    config.write_text(
        "Host *\n  ProxyCommand /bin/false %h %p %r\n  UserKnownHostsFile"
        f" {tmp_path}/known\n"
    )
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FLEET_SSH_CONFIG", str(config))
    programs = tmp_path / "programs"  # without ssh
    programs.mkdir()
    for program in ("touch", "sh", "cat"):
        (programs / program).symlink_to(f"/bin/{program}")
    monkeypatch.setenv("PATH", str(programs))
    yield folder
    assert not any(folder.iterdir())


@pytest.mark.parametrize("key", ["address", "jump", "user"])
def test_the_inventory_refuses_it_at_its_line(
    nothing_ran: Path, tmp_path: Path, key: str
) -> None:
    fine = {"address": [], "jump": ["a,b"], "user": USERS}[key]
    for text in BAD:
        if text not in fine:
            path = tmp_path / "inventory.yaml"
            path.write_text(f"hosts:\n  web:\n    {key}: {starter.as_yaml(text)}\n")
            with pytest.raises(InventoryError, match=r"inventory\.yaml:3: "):
                select.load(path)


def test_a_line_of_a_program_is_refused_where_the_inventory_names_it(
    nothing_ran: Path, tmp_path: Path
) -> None:
    (tmp_path / "inventory.yaml").write_text(f"hosts_from: [cat, {tmp_path}/printed]\n")
    for text in BAD:
        if text and not set(text) & set(
            " \t\r\n#=\u2028\x00"
        ):  # one word, and no label
            (tmp_path / "printed").write_text(f"web {text}\n")
            with pytest.raises(
                InventoryError, match=r"inventory\.yaml:1: hosts\.web\.address: "
            ):
                select.load(tmp_path / "inventory.yaml")


def test_ansible_never_brings_it_into_our_inventory(
    nothing_ran: Path, tmp_path: Path
) -> None:
    path = tmp_path / "listing.json"
    for text in BAD:
        variables = {
            "bad": {"ansible_host": text or " "},
            "hop": {"ansible_ssh_common_args": f"-J '{text}'"},
            "user": {"ansible_user": text},
            "good": {},
        }
        path.write_text(
            json.dumps(
                {"_meta": {"hostvars": variables}, "all": {"hosts": [*variables]}}
            )
        )
        inventory = ansible.from_ansible(path)
        assert (
            "hosts whose address is neither a name nor an IP address (bad)" in inventory
        )
        (tmp_path / "inventory.yaml").write_text(inventory)
        hosts = {
            host.name: host for host in select.load(tmp_path / "inventory.yaml").hosts
        }
        assert [host.address for host in hosts.values()] == ["hop", "user", "good"]
        assert hosts["user"].user in {None, *USERS}
        assert all(read_hop(hop) for hop in hosts["hop"].jump)


def test_a_cluster_that_lists_it_loses_that_node_by_name(
    nothing_ran: Path, tmp_path: Path
) -> None:
    printed = tmp_path / "printed"
    podman = tmp_path / "programs" / "podman"
    podman.write_text(f"#!/bin/sh\ncat {printed}\n")
    podman.chmod(0o700)
    for text in BAD:
        printed.write_text(json.dumps([{"Names": [text]}, {"Names": ["good"]}]))
        inventory = clusters.from_cluster("podman")
        assert "# Left out: " in inventory
        (tmp_path / "inventory.yaml").write_text(inventory)
        assert [
            host.name for host in select.load(tmp_path / "inventory.yaml").hosts
        ] == ["good"]


def test_an_alias_of_ssh_config_that_is_none_is_left_out_by_its_line(
    nothing_ran: Path, tmp_path: Path
) -> None:
    path = tmp_path / "user_config"
    for text in BAD:
        if not set(text) & set("\r\n\x00\x85\u2028"):
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            path.write_text(f'Host good\nHost "{quoted}"\n')
            inventory = starter.from_ssh_config(path)
            (tmp_path / "inventory.yaml").write_text(inventory)
            assert [
                host.name for host in select.load(tmp_path / "inventory.yaml").hosts
            ] == ["good"]
            # patterns are no hosts
            assert f"{path}:2: Host" in inventory or set(text) & set("!*?")


@pytest.mark.parametrize("via", [Via.SSH, Via.OPENSSH, Via.COMMAND])
def test_no_connection_is_tried_wherever_a_host_comes_from(
    nothing_ran: Path, via: Via
) -> None:
    for text in BAD:
        hosts = [
            Host("web", text, via=via, command=("cat",)),
            Host("web", "web", jump=(text,), via=via),
        ]
        if text and text not in USERS:
            hosts.append(Host("web", "web", user=text, via=via))
        for host in hosts:
            with pytest.raises(
                UnreachableError, match="web: not a host to connect to: "
            ):
                connect(host)


@pytest.mark.long
@pytest.mark.parametrize("keyword", ["HostName", "User", "ProxyJump"])
@pytest.mark.parametrize("path", ["", ":/usr/bin"], ids=["without ssh", "with ssh"])
def test_a_value_of_ssh_config_is_refused_before_it_reaches_the_proxy_command(
    nothing_ran: Path, monkeypatch: pytest.MonkeyPatch, keyword: str, path: str
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"] + path)
    config = Path(os.environ["FLEET_SSH_CONFIG"])
    common = config.read_text()
    for text in BAD:
        if text.strip() and not set(text) & set("\n\r\x00\ufeff"):
            config.write_text(f"Host *\n  {keyword} {text}\n{common}")
            with pytest.raises(FleetError, match=r"^web: "):
                connect(Host("web", "web"), timeout_s=1.0)

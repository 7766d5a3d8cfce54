"""What `ansible-inventory --list` prints becomes ours; what is left out is named,
secrets never copied.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.errors import InventoryError
from fleet.home import expand_home
from fleet.inventory import ansible, select
from fleet.model import Host, HostKeyPolicy, Via
from tests import needs
from tests.command import ROOT, Fleet

RECORDED = Path(__file__).parents[1] / "recordings" / "ansible"
SECRETS = ("hunter2", "6162636465666768")


def write_listing(path: Path, hosts: dict[str, Any], **groups: list[str]) -> Path:
    """Write a listing of hosts with their variables, and of groups of hosts."""
    listing = {"_meta": {"hostvars": hosts}, "all": {"hosts": [*hosts]}}
    path.write_text(json.dumps(listing | {g: {"hosts": m} for g, m in groups.items()}))
    return path


def ours(path: Path, tmp_path: Path) -> tuple[str, dict[str, Host], select.Inventory]:
    """The text made of a listing, and the hosts and inventory that it loads as."""
    text = ansible.from_ansible(path)
    (tmp_path / "inventory.yaml").write_text(text)
    loaded = select.load(tmp_path / "inventory.yaml")
    return text, {host.name: host for host in loaded.hosts}, loaded


def test_a_listing_with_all_that_is_usual(tmp_path: Path) -> None:
    text, hosts, loaded = ours(RECORDED / "ini.json", tmp_path)
    assert hosts["mail.example.com"].address == "192.0.2.20"
    assert hosts["bastion"].port == 2200
    assert hosts["bastion"].user == "everybody"
    assert (
        hosts["db-b"].jump == hosts["db-d"].jump == ("jump@bastion.example.com:2200",)
    )
    assert hosts["db-d"].port == 2222
    assert hosts["db-d"].user == "postgres"
    assert hosts["www02.example.com"].identity_files == (expand_home("~/.ssh/prod"),)
    assert hosts["here"].via is Via.LOCAL
    assert hosts["rpi5"].address == "rpi5.lab.example"
    assert hosts["rpi5"].port == 2022
    web = {f"www0{number}.example.com" for number in (1, 2, 3)}
    assert {host.name for host in loaded.select(["prod", "!db-*"])} == web
    assert "win1" not in hosts
    for words in (
        "ansible_become (",
        "the secret ansible_become_password",
        "http_port",
        "(win1)",
    ):
        assert words in text
    assert "ansible_host, a template (odd)" in text
    assert "StrictHostKeyChecking=no; unknown keys stay refused" in text
    assert hosts["odd"].host_key is HostKeyPolicy.STRICT
    assert not any(secret in text for secret in SECRETS)


def test_a_listing_with_groups_inside_groups(tmp_path: Path) -> None:
    _, hosts, loaded = ours(RECORDED / "yaml.json", tmp_path)
    users = {
        "jetson1": "pi",
        "jetson2": "pi",
        "rpi4": "pi",
        "altra": "arm",
        "epyc": "amd",
    }
    assert {name: host.user for name, host in hosts.items()} == {
        "lone": "bench",
        **users,
    }
    assert hosts["altra"].address == "192.0.2.77"
    assert hosts["epyc"].jump == ("me@bastion",)
    assert hosts["epyc"].host_key == HostKeyPolicy.ACCEPT_NEW
    assert {host.name for host in loaded.select(["arm"])} == {
        "altra",
        "jetson1",
        "jetson2",
        "rpi4",
    }


def test_what_all_hosts_have_in_common_becomes_a_default(tmp_path: Path) -> None:
    hosts = {
        "a": {"ansible_user": "me"},
        "b": {"ansible_user": "me", "ansible_port": 3},
    }
    text = ansible.from_ansible(write_listing(tmp_path / "listing", hosts))
    assert 'defaults:\n  user: "me"\n' in text
    assert '\nhosts:\n  "a":\n  "b": {"port": "3"}\n' in text


def test_names_and_values_ours_cannot_take_are_named_and_cost_nothing_else(
    tmp_path: Path,
) -> None:
    odd = {
        "a/b": {"ansible_user": "x"},
        "Web": {},
        "web": {},
        "ok": {"ansible_port": 99999, "ansible_user": "fine"},
    }
    listing = write_listing(tmp_path / "listing", odd, ok=["ok"], none=[])
    text, hosts, _ = ours(listing, tmp_path)
    assert hosts["a-b"].address == "a/b"
    assert hosts["a-b"].user == "x"
    assert list(hosts) == ["a-b", "Web", "ok"]
    assert hosts["ok"].port is None
    assert hosts["ok"].user == "fine"
    groups = "groups whose name is taken or cannot be used (ok)"
    for words in ("punctuation (web)", "port, whose value", groups):
        assert words in text


def test_a_line_in_a_name_cannot_write_into_our_file(tmp_path: Path) -> None:
    evil = {"a\nevil: {via: local}": {"x\nhosts": "1"}, "b": {}}
    text, hosts, _ = ours(write_listing(tmp_path / "listing", evil), tmp_path)
    assert not any(line.startswith(("evil", "hosts: ")) for line in text.splitlines())
    assert all(host.via is Via.SSH for host in hosts.values())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not what `ansible-inventory --list` prints"),
        ("[web]\nw1\n", "Try `ansible-inventory -i INVENTORY --list | fleet init"),
        ("[" * 100_000, "is not what"),
        ("[]", "is not what"),
        ('{"web": {"hosts": ["w1"]}}', "is not what"),
        ('{"_meta": {}}', "names no host"),
        (
            '{"_meta": {"hostvars": {"w": {"ansible_connection": "winrm"}}},'
            ' "all": {"hosts": ["w"]}}',
            "can be carried over: hosts reached neither",
        ),
    ],
)
def test_what_is_no_listing_is_an_error_with_what_to_do(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(InventoryError) as caught:
        ansible.from_ansible(tmp_path / "hosts")
    assert words in str(caught.value)
    for name in ("absent", "/dev/zero", "."):
        with pytest.raises(InventoryError, match=r"cannot be read.*Try `ansible-inv"):
            ansible.from_ansible(tmp_path / name)


def test_a_listing_that_is_too_large_is_named_so_from_a_file_and_from_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ansible, "_SIZE_LIMIT_BYTES", 1 << 20)
    large = tmp_path / "large"
    large.write_bytes(b'{"_meta": {}}'.ljust((1 << 20) + 1))
    with large.open() as stdin, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        for path in (large, Path("-")):
            with pytest.raises(InventoryError, match="larger than 1 MiB"):
                ansible.from_ansible(path)


def test_a_listing_needs_no_ansible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it runs, and no template is evaluated."""
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = tmp_path / "ran"
    program = tmp_path / "ansible-inventory"
    program.write_text(f"#!/bin/sh\n: > {ran}\n")
    program.chmod(0o700)
    hosts = {
        "h": {
            "ansible_host": "192.0.2.1",
            "ansible_user": f"{{{{ lookup('pipe', ': > {ran}') }}}}",
            "ansible_ssh_common_args": f"-o ProxyCommand=': > {ran}'",
        }
    }
    listing = write_listing(tmp_path / "listing.json", hosts, web=["h"])
    text, ours_by_name, loaded = ours(listing, tmp_path)
    assert ours_by_name["h"].address == "192.0.2.1"
    assert ours_by_name["h"].user is None
    assert "ansible_user, a template (h)" in text
    assert loaded.groups == {"web": ("h",)}
    assert not ran.exists()


_ODD_WORDS = ["x y", "{{ x }}", "-o ProxyJump=a", "-J", "'", "\x1b", "é\n- b", "22", ""]
_WORDS = st.sampled_from(["a", "Web", "all", "ungrouped", *_ODD_WORDS]) | st.text(
    max_size=20
)
_VARIABLES = st.sampled_from(
    [
        "ansible_host",
        "ansible_port",
        "ansible_ssh_common_args",
        "ansible_connection",
        "ansible_user",
        "x",
    ]
)
_VALUES: st.SearchStrategy[Any] = (
    st.none() | st.integers() | st.booleans() | st.lists(_WORDS) | _WORDS
)
_BODIES = st.fixed_dictionaries(
    {},
    optional={
        "hosts": st.lists(_WORDS, max_size=4),
        "children": st.lists(_VALUES, max_size=3),
    },
)
_HOSTVARS = st.dictionaries(
    _WORDS, st.dictionaries(_VARIABLES, _VALUES, max_size=4) | _VALUES, max_size=4
)


@given(st.dictionaries(_WORDS, _BODIES | _VALUES, max_size=4), _HOSTVARS | _VALUES)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_listing_ends_in_an_inventory_of_ours_or_an_error_in_words(
    tmp_path: Path, groups: dict[str, Any], hostvars: Any
) -> None:
    (tmp_path / "listing.json").write_text(
        json.dumps(groups | {"_meta": {"hostvars": hostvars}})
    )
    try:
        converted = ansible.from_ansible(tmp_path / "listing.json")
    except InventoryError:
        return
    (tmp_path / "inventory.yaml").write_text(converted)
    try:
        assert select.load(tmp_path / "inventory.yaml").hosts
    except InventoryError as err:
        assert "contain one another" in str(err)


def test_init_reads_what_ansible_pipes_to_it(tmp_path: Path) -> None:
    lister = needs.program("ansible-inventory", "ansible-core")
    (tmp_path / "lab").write_text("[boards]\nrpi[4:5] ansible_user=pi\n")
    init = f"{sys.executable} -m fleet init --from-ansible"
    for command in (
        f"{lister} -i lab --list | {init} - -i piped.yaml",
        f"{init} <({lister} -i lab --list) -i named.yaml",
    ):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done
    with Fleet(tmp_path) as fleet:
        for name in ("piped.yaml", "named.yaml"):
            listed = fleet("hosts", "--json", "-i", name, "boards").json
            assert [host["name"] for host in listed] == ["rpi4", "rpi5"]
        assert fleet("init", "--from-ansible", "-", "-i", "closed.yaml").exit_code == 2


def test_init_says_if_what_it_wrote_needs_trust(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        done = fleet("init", "--from-ansible", str(RECORDED / "yaml.json"))
        assert "Next: fleet trust inventory.yaml, fleet hosts, then" in done.stdout
        done = fleet("init", "-i", "plain.yaml")
        assert "Next: fleet hosts, then fleet run." in done.stdout

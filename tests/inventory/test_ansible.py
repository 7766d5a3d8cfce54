"""Ansible inventories, as people have them, become ours; what stays behind is said, secrets never."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.errors import InventoryError
from fleet.inventory import select
from fleet.inventory.ansible import from_ansible
from fleet.model import Host, HostKeyPolicy, Via
from tests import needs
from tests.command import Fleet

RECORDED = Path(__file__).parents[1] / "recordings" / "ansible"
SECRETS = ("hunter2", "6162636465666768")


def ours(path: Path, tmp_path: Path) -> tuple[str, dict[str, Host], select.Inventory]:
    """The text made of an Ansible inventory, and what it says once it is loaded."""
    text = from_ansible(path)
    (tmp_path / "inventory.yaml").write_text(text)
    loaded = select.load(tmp_path / "inventory.yaml")
    return text, {host.name: host for host in loaded.hosts}, loaded


def ini(tmp_path: Path, text: str) -> dict[str, Host]:
    (tmp_path / "hosts").write_text(text)
    return ours(tmp_path / "hosts", tmp_path)[1]


def test_an_ini_inventory_with_all_that_is_usual(tmp_path: Path) -> None:
    text, hosts, loaded = ours(RECORDED / "ini" / "hosts", tmp_path)
    assert hosts["mail.example.com"].address == "192.0.2.20"
    assert (hosts["bastion"].port, hosts["bastion"].user) == (2200, "everybody")
    assert hosts["db-b"].jump == hosts["db-d"].jump == ("jump@bastion.example.com:2200",)
    assert (hosts["db-d"].port, hosts["db-d"].user) == (2222, "postgres")
    assert hosts["www02.example.com"].identity_files == (str(Path("~/.ssh/prod").expanduser()),)
    assert hosts["here"].via is Via.LOCAL
    assert (hosts["rpi5"].address, hosts["rpi5"].port) == ("rpi5.lab.example", 2022)
    assert {host.name for host in loaded.select(["prod", "!db-*"])} == {
        f"www0{number}.example.com" for number in (1, 2, 3)
    }
    assert "win1" not in hosts
    for words in (
        "ansible_become (",
        "the secret ansible_become_password",
        "http_port",
        "(win1)",
        "ansible-vault",
    ):
        assert f"{words}" in text
    assert "ansible_host, a template (odd)" in text
    assert "StrictHostKeyChecking=no; unknown keys stay refused" in text
    assert hosts["odd"].host_key is HostKeyPolicy.STRICT
    assert not any(secret in text for secret in SECRETS)


def test_a_yaml_inventory_with_variables_beside_it(tmp_path: Path) -> None:
    _, hosts, loaded = ours(RECORDED / "yaml" / "hosts.yml", tmp_path)
    assert {name: host.user for name, host in hosts.items()} == {
        "lone": "bench",
        "jetson1": "pi",
        "jetson2": "pi",
        "rpi4": "pi",
        "altra": "arm",
        "epyc": "amd",
    }
    assert hosts["altra"].address == "192.0.2.77"
    assert (hosts["epyc"].jump, hosts["epyc"].host_key) == (("me@bastion",), HostKeyPolicy.ACCEPT_NEW)
    assert {host.name for host in loaded.select(["arm"])} == {"altra", "jetson1", "jetson2", "rpi4"}


def test_a_directory_of_inventories_is_read_whole(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "a").write_text("[one]\nh1\n")
    (folder / "b.yml").write_text("two: {hosts: {h2: , h1: {ansible_port: 3}}}\n")
    (folder / "c.retry").write_text("h9\n")
    _, hosts, _ = ours(folder, tmp_path)
    assert {name: host.port for name, host in hosts.items()} == {"h1": 3, "h2": None}


def test_what_all_hosts_say_alike_becomes_a_default(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[all:vars]\nansible_user=me\n[x]\na\nb ansible_port=3\n")
    text = from_ansible(tmp_path / "hosts")
    assert 'defaults:\n  user: "me"\n' in text
    assert '\nhosts:\n  "a":\n  "b": {"port": "3"}\n' in text


def test_names_and_values_ours_cannot_take_are_said_and_cost_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(
        "a/b ansible_user=x\nWeb\nweb\nok ansible_port=99999 ansible_user=fine\n[ok]\nok\n[none]\n"
    )
    text, hosts, _ = ours(tmp_path / "hosts", tmp_path)
    assert (hosts["a-b"].address, hosts["a-b"].user) == ("a/b", "x")
    assert list(hosts) == ["a-b", "Web", "ok"]
    assert (hosts["ok"].port, hosts["ok"].user) == (None, "fine")
    for words in (
        "by case or signs (web)",
        "port, whose value",
        "group ok, whose name",
        "group none, which has",
    ):
        assert words in text


def test_a_line_in_a_name_cannot_write_into_our_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.json").write_text(
        json.dumps({"all": {"hosts": {"a\nevil: {via: local}": {"x\nhosts": "1"}, "b": {}}}})
    )
    text, hosts, _ = ours(tmp_path / "hosts.json", tmp_path)
    assert not any(line.startswith(("evil", "hosts: ")) for line in text.splitlines())
    assert all(host.via is Via.SSH for host in hosts.values())


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("hosts", "", "names no host"),
        (
            "hosts",
            "w ansible_connection=winrm\n",
            "none of its hosts can be taken over: hosts reached neither",
        ),
        ("hosts", "#!/usr/bin/python3\nprint()\n", "ansible-inventory -i"),
        ("aws_ec2.yml", "plugin: amazon.aws.aws_ec2\n", "inventory plugin 'amazon.aws.aws_ec2'"),
        ("hosts", "[a:sons]\nx\n", "hosts:1: a section is"),
        ("hosts", "a 'b\n", "hosts:1: cannot be read: No closing quotation"),
        ("hosts", "[a:vars]\nx y\n", "hosts:2: a variable is written name=value"),
        ("hosts", "a[9:1]\n", "the range [9:1] cannot be unfolded"),
        ("hosts", "a[1:99999999999]\n", "cannot be unfolded"),
        ("hosts", "[a]\nx\n[a:children]\nb\n[b:children]\na\n", "contain one another"),
        ("hosts.yml", "- a\n", "not a mapping"),
        ("hosts.yml", "a: [\n", "broken YAML"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InventoryError) as caught:
        from_ansible(tmp_path / name)
    assert words in str(caught.value)
    with pytest.raises(InventoryError, match="cannot be read"):
        from_ansible(tmp_path / "absent")


_PIECES = (
    *("[web]", "[web:vars]", "[web:children]", "a", "b[1:3]", "\n", "=", "'", '"', ":", " ", "{{ x }}", "é"),
    *("ansible_port=22", "ansible_ssh_common_args=", "-o ProxyJump=a", "all", "hosts:", "vars:", "- "),
    *("!vault |", "\x1b"),
)


@given(
    st.lists(st.sampled_from(_PIECES), max_size=20).map("".join) | st.text(max_size=60),
    st.sampled_from(["hosts", "hosts.yml"]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_ends_in_an_inventory_of_ours_or_an_error_in_words(
    tmp_path: Path, text: str, name: str
) -> None:
    (tmp_path / name).write_bytes(text.encode())
    try:
        made = from_ansible(tmp_path / name)
    except InventoryError:
        return
    (tmp_path / "inventory.yaml").write_text(made)
    assert select.load(tmp_path / "inventory.yaml").hosts


def test_init_writes_it_and_hosts_reads_it(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        done = fleet("init", "--from-ansible", str(RECORDED / "yaml" / "hosts.yml"))
        assert done.exit_code == 0, done.stderr
        assert len(fleet("hosts", "--json").json) == 6
        assert fleet("init", "--from-ansible", str(RECORDED)).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ini/hosts", "yaml/hosts.yml"])
def test_ansible_itself_understands_the_same(name: str, tmp_path: Path) -> None:
    """Hosts, members, users, ports and addresses, against `ansible-inventory --list`."""
    program = needs.program("ansible-inventory", "ansible-core")
    path = tmp_path / "copy"
    (path / name).parent.mkdir(parents=True)
    for file in (RECORDED / name).parent.rglob("*"):
        if file.is_file() and b"VAULT" not in file.read_bytes():
            copy = path / file.relative_to(RECORDED)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    said = subprocess.run(
        [program, "-i", str(path / name), "--list"],
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
    )
    theirs = json.loads(said.stdout)
    variables = theirs.pop("_meta")["hostvars"]
    _, hosts, loaded = ours(path / name, tmp_path)
    for group, members in loaded.groups.items():
        assert set(theirs[group].get("hosts", ())) <= set(members), group
    for host in hosts.values():
        told = variables.get(host.name, {})
        if host.via is Via.SSH and "{{" not in str(told.get("ansible_host")):
            assert host.address == told.get("ansible_host", host.name)
            assert host.user == told.get("ansible_user")
            assert host.port == (int(told["ansible_port"]) if "ansible_port" in told else None)

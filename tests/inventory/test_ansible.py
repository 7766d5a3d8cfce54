"""Ansible inventories, as people have them, become ours; what is left out is named,
secrets never copied.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.errors import InventoryError
from fleet.inventory import ansible, select
from fleet.model import Host, HostKeyPolicy, Via
from tests import needs
from tests.command import Fleet

RECORDED = Path(__file__).parents[1] / "recordings" / "ansible"
SECRETS = ("hunter2", "6162636465666768")


def from_ansible(path: Path) -> str:
    needs.program("ansible-inventory", "ansible-core")
    return ansible.from_ansible(path)


def ours(path: Path, tmp_path: Path) -> tuple[str, dict[str, Host], select.Inventory]:
    """The text made of an Ansible inventory, and the hosts and inventory that it loads
    as.
    """
    text = from_ansible(path)
    (tmp_path / "inventory.yaml").write_text(text)
    loaded = select.load(tmp_path / "inventory.yaml")
    return text, {host.name: host for host in loaded.hosts}, loaded


@pytest.mark.long
def test_an_ini_inventory_with_all_that_is_usual(tmp_path: Path) -> None:
    text, hosts, loaded = ours(RECORDED / "ini" / "hosts", tmp_path)
    assert hosts["mail.example.com"].address == "192.0.2.20"
    assert (hosts["bastion"].port, hosts["bastion"].user) == (2200, "everybody")
    assert (
        hosts["db-b"].jump == hosts["db-d"].jump == ("jump@bastion.example.com:2200",)
    )
    assert (hosts["db-d"].port, hosts["db-d"].user) == (2222, "postgres")
    assert hosts["www02.example.com"].identity_files == (
        str(Path("~/.ssh/prod").expanduser()),
    )
    assert hosts["here"].via is Via.LOCAL
    assert (hosts["rpi5"].address, hosts["rpi5"].port) == ("rpi5.lab.example", 2022)
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


@pytest.mark.long
def test_a_yaml_inventory_with_variables_beside_it(tmp_path: Path) -> None:
    _, hosts, loaded = ours(RECORDED / "yaml" / "hosts.yml", tmp_path)
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
    assert (hosts["epyc"].jump, hosts["epyc"].host_key) == (
        ("me@bastion",),
        HostKeyPolicy.ACCEPT_NEW,
    )
    assert {host.name for host in loaded.select(["arm"])} == {
        "altra",
        "jetson1",
        "jetson2",
        "rpi4",
    }


def test_a_directory_of_inventories_is_read_whole(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "a").write_text("[one]\nh1\n")
    (folder / "b.yml").write_text("two: {hosts: {h2: , h1: {ansible_port: 3}}}\n")
    (folder / "c.retry").write_text("h9\n")
    _, hosts, _ = ours(folder, tmp_path)
    assert {name: host.port for name, host in hosts.items()} == {"h1": 3, "h2": None}


@pytest.mark.long
def test_what_all_hosts_have_in_common_becomes_a_default(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(
        "[all:vars]\nansible_user=me\n[x]\na\nb ansible_port=3\n"
    )
    text = from_ansible(tmp_path / "hosts")
    assert 'defaults:\n  user: "me"\n' in text
    assert '\nhosts:\n  "a":\n  "b": {"port": "3"}\n' in text


@pytest.mark.long
def test_names_and_values_ours_cannot_take_are_named_and_cost_nothing_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "hosts").write_text(
        "a/b ansible_user=x\nWeb\nweb\nok ansible_port=99999"
        " ansible_user=fine\n[ok]\nok\n[none]\n"
    )
    text, hosts, _ = ours(tmp_path / "hosts", tmp_path)
    assert (hosts["a-b"].address, hosts["a-b"].user) == ("a/b", "x")
    assert list(hosts) == ["a-b", "Web", "ok"]
    assert (hosts["ok"].port, hosts["ok"].user) == (None, "fine")
    groups = "groups whose name is taken or cannot be used (ok)"
    for words in ("punctuation (web)", "port, whose value", groups):
        assert words in text


@pytest.mark.long
def test_a_line_in_a_name_cannot_write_into_our_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.json").write_text(
        json.dumps(
            {"all": {"hosts": {"a\nevil: {via: local}": {"x\nhosts": "1"}, "b": {}}}}
        )
    )
    text, hosts, _ = ours(tmp_path / "hosts.json", tmp_path)
    assert not any(line.startswith(("evil", "hosts: ")) for line in text.splitlines())
    assert all(host.via is Via.SSH for host in hosts.values())


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("hosts", "", "names no host"),
        (
            "hosts",
            "w ansible_connection=winrm\n",
            "can be carried over: hosts reached neither",
        ),
        (
            "hosts",
            "#!/usr/bin/python3\n",
            "is a program, and fleet runs none; run `ansible-inventory",
        ),
        ("aws_ec2.yml", "plugin: amazon.aws.aws_ec2\n", "If it needs a plugin"),
        ("hosts.yml", "a: [\n", "Syntax Error while loading YAML"),
        ("hosts", "$ANSIBLE_VAULT;1.1;AES256\n61\n", "encrypted with ansible-vault"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("hosts", "[a:sons]\nx\n", "hosts:1: Section"),
                ("hosts", "a 'b\n", "No closing quotation"),
                ("hosts", "[a:vars]\nx y\n", "hosts:2: Expected key=value"),
                ("hosts", "a[9:1]\n", "names no host"),
                ("hosts", "[a]\nx\n[a:children]\nb\n[b:children]\na\n", "recursive"),
                ("hosts.yml", "- a\n", "should be a dictionary"),
            )
        ),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_place(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InventoryError) as caught:
        from_ansible(tmp_path / name)
    assert words in str(caught.value)
    assert "fleet-ansible-" not in str(caught.value)
    with pytest.raises(InventoryError, match="cannot be read"):
        from_ansible(tmp_path / "absent")


@pytest.mark.slow
def test_a_range_of_billions_of_hosts_ends_in_an_error(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a[1:99999999999]\n")
    with pytest.raises(InventoryError):
        from_ansible(tmp_path / "hosts")


@pytest.mark.long
def test_encrypted_files_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[web]\nw1\n")
    (tmp_path / "group_vars" / "web").mkdir(parents=True)
    (tmp_path / "group_vars" / "web" / "vars.yml").write_text("ansible_user: deploy\n")
    (tmp_path / "group_vars" / "web" / "vault.yml").write_text(
        "$ANSIBLE_VAULT;1.1;AES256\n6162\n"
    )
    text, hosts, _ = ours(tmp_path / "hosts", tmp_path)
    assert hosts["w1"].user == "deploy"
    assert f"{tmp_path}/group_vars/web/vault.yml, encrypted with ansible-vault" in text


def test_nothing_in_or_beside_an_inventory_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs, plugins of the user or of ansible.cfg, lookups and vault password
    programs stay unused.
    """
    home, lab, ran = tmp_path / "home", tmp_path / "lab", tmp_path / "ran"
    plugin = f"open({str(ran)!r}, 'w')\n"
    for folder in (
        home / ".ansible/plugins/vars",
        home / ".ansible/plugins/inventory",
        lab / "vars_plugins",
    ):
        folder.mkdir(parents=True)
        for name in ("ini.py", "yaml.py", "mine.py"):
            (folder / name).write_text(plugin)
    (lab / "password").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (lab / "password").chmod(0o700)
    (lab / "ansible.cfg").write_text(
        f"[defaults]\nvars_plugins={lab}/vars_plugins\nvault_password_file={lab}/password\n"
    )
    (lab / "hosts").write_text(
        f"h ansible_user=\"{{{{ lookup('pipe', 'touch {ran}') }}}}\"\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANSIBLE_VARS_PLUGINS", str(lab / "vars_plugins"))
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(lab / "password"))
    monkeypatch.chdir(lab)
    text, hosts, _ = ours(Path("hosts"), tmp_path)
    assert hosts["h"].user is None
    assert "ansible_user, a template (h)" in text
    assert not ran.exists()
    assert sorted(path.name for path in (home / ".ansible").iterdir()) == ["plugins"]


def test_a_saved_listing_needs_no_ansible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "hosts").write_text("h\n")
    with pytest.raises(
        InventoryError, match=r"pip install ansible-core.*--list > listing.json"
    ):
        ansible.from_ansible(tmp_path / "hosts")
    listed = {
        "_meta": {
            "hostvars": {"h": {"ansible_host": "192.0.2.1", "ansible_user": None}}
        },
        "all": {"children": ["ungrouped", "web"]},
        "web": {"hosts": ["h"]},
    }
    (tmp_path / "listing.json").write_text(json.dumps(listed))
    (tmp_path / "inventory.yaml").write_text(
        ansible.from_ansible(tmp_path / "listing.json")
    )
    loaded = select.load(tmp_path / "inventory.yaml")
    assert [host.address for host in loaded.hosts] == ["192.0.2.1"]
    assert loaded.groups == {"web": ("h",)}


@pytest.mark.parametrize(
    ("script", "words"),
    [("sleep 60", "did not finish within 5 s"), ("echo []", "printed no JSON object")],
)
def test_an_ansible_that_hangs_or_talks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    program = tmp_path / "ansible-inventory"
    program.write_text(f"#!/bin/sh\nexec {script}\n")
    program.chmod(0o700)
    (tmp_path / "hosts").write_text("h\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(ansible, "_TIMEOUT_S", 5)
    with pytest.raises(InventoryError, match=words):
        ansible.from_ansible(tmp_path / "hosts")


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


def test_init_writes_it_and_hosts_reads_it(tmp_path: Path) -> None:
    needs.program("ansible-inventory", "ansible-core")
    with Fleet(tmp_path) as fleet:
        done = fleet("init", "--from-ansible", str(RECORDED / "yaml" / "hosts.yml"))
        assert done.exit_code == 0, done.stderr
        assert len(fleet("hosts", "--json").json) == 6
        assert fleet("init", "--from-ansible", str(RECORDED)).exit_code == 2

"""An inventory that merely lies in the current folder does nothing that needs trust
until the user gives it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet import measure
from fleet import open as open_results
from fleet.errors import InventoryError
from fleet.inventory import reader, schema
from fleet.inventory.document import Risk
from fleet.inventory.select import load
from tests.command import Fleet

TOUCH = ["sh", "-c", "touch PWN; echo n1", "-"]
HARMLESS: Mapping[str, Any] = {  # of an entry, but for `plan`
    "address": "x.invalid",
    "port": 22,
    "user": "me",
    "identity_files": "id",
    "jump": "me@y.invalid",
    "os": "linux",
    "os_release": "8.0",
    "arch": "arm64",
    "build": "host",
    "priority": 1,
    "lock": "off",
    "require": "quiet",
    "wait": "5s",
    "cpus": "0-3",
    "labels": {"kind": "board"},
    "hosts": "a",
    "children": "g",
}
RISKY: Mapping[str, tuple[Any, Risk]] = {
    "via": ("docker", Risk.PROGRAM),
    "command": (TOUCH, Risk.PROGRAM),
    "host_key": ("accept-new", Risk.HOST_KEY),
    "workdir": ("~/.local/bin", Risk.FILES),
    "before": ("touch PWN", Risk.PROGRAM),
    "after": ("touch PWN", Risk.PROGRAM),
    "env": ({"LD_PRELOAD": "./cc.so"}, Risk.PROGRAM),
    "toolchain.cc": ("./cc", Risk.PROGRAM),
    "toolchain.cflags": ("-B.", Risk.PROGRAM),
    "toolchain.binary": ("cc", Risk.PROGRAM),
    "toolchain.sdp": ("sdp", Risk.PROGRAM),
    "toolchain.build_host": ("a", Risk.PROGRAM),
    "hosts_from": (TOUCH, Risk.PROGRAM),
}
HARMLESS_SETTINGS: Mapping[str, Any] = {
    "connect_timeout": "1s",
    "label": "a=b",
    "lock": "off",
    "parallel": 1,
    "quiet": "on",
    "reconnect": "0s",
    "results": "mine/of-today",
    "verbose": 0,
}
ELSEWHERE = (
    "s3://bucket/p?endpoint_override=http://127.0.0.1:1",
    "../elsewhere",
    "/tmp/elsewhere",
    "~/elsewhere",
    "link/elsewhere",
)
GROUP = "groups: {g: {hosts: [a]}}\n"
REACHING = (
    "run -b clock --rounds 1 -q",
    "run --dry-run",
    "check -q",
    "clean -q",
    "clean --dry-run -q",
    "accept a --run",
)
READING = (
    "hosts",
    "hosts --json",
    "runs g",
    "show g",
    "compare g g",
    "report g",
    "export g",
    "accept g",
    "withdraw",
    "label a k=v",
    "verify",
    "resume",
)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Fleet]:
    """Yield the command in a folder of somebody else's, where no inventory is named."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "cc").write_text("#!/bin/sh\ntouch PWN; exit 1\n")
    (folder / "cc").chmod(0o755)
    (folder / "link").symlink_to(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    with Fleet(folder, {"FLEET_INVENTORY": "", "HOME": str(home)}) as fleet:
        yield fleet


def list_keys(keys: Mapping[str, schema.Key], above: str = "") -> Iterator[str]:
    """Yield the keys that hold a value, with those of tables below them."""
    for name, key in keys.items():
        below = key.schema
        if isinstance(below, Mapping):
            yield from list_keys(below, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def nest(key: str, value: Any) -> dict[str, Any]:
    """Return the entry that sets a key, such as toolchain.cc."""
    table, dot, name = key.partition(".")
    return {table: {name: value}} if dot else {table: value}


def find_risks(folder: Path, tables: Mapping[str, Any]) -> set[Risk]:
    path = folder / "inventory.yaml"
    path.write_text(json.dumps(tables))
    document = reader.read_inventory(path, is_named=False).document
    document.require_no_problems()
    return {risky.risk for risky in document.risky}


def test_every_key_of_an_entry_is_known_to_need_trust_or_none(tmp_path: Path) -> None:
    keys = {*list_keys(schema.GROUP)}
    plans = {key for key in keys if key.startswith("plan.")}
    assert keys - plans == {*HARMLESS, *RISKY} - {"hosts_from"}
    assert all(key.risk is Risk.NONE for key in schema.PLAN.values())
    for key, value in HARMLESS.items():
        table = "groups" if key in ("hosts", "children") else "hosts"
        assert find_risks(tmp_path, {table: {"a": {key: value}}}) == set(), key
    for key, (value, risk) in RISKY.items():
        entry = nest(key, value)
        places: list[dict[str, Any]] = [
            {"defaults": entry},
            {"groups": {"g": entry}},
            {"hosts": {"a": entry}},
        ]
        for tables in [entry] if key == "hosts_from" else places:
            assert find_risks(tmp_path, tables) == {risk}, (key, tables)


def test_every_setting_is_known_to_need_trust_or_none(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/tmp")
    assert {*list_keys(schema.SETTINGS)} == {*HARMLESS_SETTINGS}
    assert find_risks(tmp_path, {"fleet": HARMLESS_SETTINGS}) == set()
    for results in ELSEWHERE:
        assert find_risks(tmp_path, {"fleet": {"results": results}}) == {Risk.RESULTS}
    inside = str(tmp_path / "results")
    assert find_risks(tmp_path, {"fleet": {"results": inside}}) == set()


@pytest.mark.parametrize("key", RISKY)
def test_an_inventory_that_nobody_named_reaches_no_host_that_needs_trust(
    stranger: Fleet, key: str
) -> None:
    entry = nest(key, RISKY[key][0])
    if key == "hosts_from":
        stranger.inventory(json.dumps({"hosts": {"a": {}}, **entry}))
    else:
        stranger.inventory(json.dumps({"hosts": {"a": entry}}))
    for name in REACHING:
        done = stranger(*name.split())
        assert done.exit_code == 2, (name, done)
        assert "fleet trust inventory.yaml" in done.stderr, (name, done)
        assert "FLEET_INVENTORY=inventory.yaml" in done.stderr, (name, done)
    assert not (stranger.folder / "PWN").exists()


def test_what_only_reads_is_not_refused_for_hosts_that_need_trust(
    stranger: Fleet,
) -> None:
    entry = {"via": "command", "command": TOUCH, "host_key": "accept-new"}
    tables = {"groups": {"g": {"hosts": ["a"], **entry}}, "hosts": {"a": entry}}
    stranger.inventory(json.dumps(tables))
    for name in READING:
        done = stranger(*name.split())
        assert "trust" not in done.stderr, (name, done)
    assert "a" in stranger("hosts").stdout
    assert not (stranger.folder / "PWN").exists()


def test_plain_hosts_and_settings_need_no_trust(stranger: Fleet) -> None:
    plain = {key: value for key, value in HARMLESS.items() if key != "children"}
    hosts = plain.pop("hosts")
    tables = {
        "groups": {"g": {"hosts": hosts, "children": "h", **plain}, "h": plain},
        "hosts": {"a": plain | {"os": "qnx"}},
        "fleet": HARMLESS_SETTINGS,
    }
    stranger.inventory(json.dumps(tables))
    for name in ("run --dry-run", "clean --dry-run -l nobody", *READING):
        assert "trust" not in stranger(*name.split()).stderr, name


def test_only_a_trusted_program_says_which_hosts_a_group_has(stranger: Fleet) -> None:
    stranger.inventory(
        json.dumps({"hosts_from": TOUCH, "groups": {"g": {"hosts": "n*"}}})
    )
    for name in ("show g", "runs g", "compare g g", "hosts --resolve"):
        done = stranger(*name.split())
        assert done.exit_code == 2, (name, done)
        assert "fleet trust" in done.stderr, (name, done)
    assert not (stranger.folder / "PWN").exists()


@pytest.mark.parametrize("results", ELSEWHERE)
def test_results_go_nowhere_else_by_an_inventory_that_nobody_named(
    stranger: Fleet, results: str
) -> None:
    stranger.inventory(
        json.dumps({"fleet": {"results": results}, "hosts": {"a": {"via": "local"}}})
    )
    above = stranger.folder.parent
    for name in (*REACHING, *READING, "runs", "show", "import x", "export"):
        if name.startswith("check"):
            continue  # it has no results
        done = stranger(*name.split())
        assert done.exit_code == 2, (name, done)
        assert "fleet trust inventory.yaml" in done.stderr, (name, done)
    assert {path.name for path in above.iterdir()} == {"folder", "home"}
    assert list((above / "home").iterdir()) == []
    assert stranger("runs", "-r", "other").exit_code != 70
    assert "trust" not in stranger("runs", "-r", "other").stderr


def test_results_below_the_folder_need_no_trust(stranger: Fleet) -> None:
    stranger.inventory("fleet: {results: mine}\nhosts: {a: {via: local}}\n")
    assert "fleet: mine: there is no such folder" in stranger("show").stderr
    assert stranger("run", "--dry-run").exit_code == 0


def test_measuring_from_python_needs_the_same_trust(
    stranger: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stranger.folder)
    monkeypatch.delenv("FLEET_INVENTORY", raising=False)
    stranger.inventory("fleet: {results: ../x}\nhosts: {a: {via: docker}}\n")
    for call in (open_results, measure):
        with pytest.raises(InventoryError, match=r"fleet trust inventory\.yaml"):
            call()


@pytest.mark.parametrize("words", ["fleet run ", "fleet show ", "fleet show all "])
def test_a_shell_that_completes_starts_nothing(stranger: Fleet, words: str) -> None:
    stranger.inventory(
        json.dumps(
            {"hosts_from": TOUCH, "hosts": {"a": {}}, "fleet": {"results": ".."}}
        )
    )
    shell = {
        "_FLEET_COMPLETE": "complete_bash",
        "_FLEET_LINE": words,
    }
    stranger.environment |= shell
    done = stranger()
    assert "show" in words or "a" in done.stdout.split()
    assert not (stranger.folder / "PWN").exists()


@pytest.mark.parametrize("name", ["hosts_from", "of a host"])
def test_a_trusted_inventory_starts_its_programs_until_it_changes(
    stranger: Fleet, name: str
) -> None:
    entry = {"via": "command", "command": TOUCH}
    tables = {
        "hosts_from": {"hosts_from": TOUCH, "hosts": {"a": {}}},
        "of a host": {"hosts": {"a": entry}},
    }
    text = json.dumps(tables[name])
    program = stranger.folder / "PWN"
    stranger.inventory(text)
    done = stranger("trust")
    assert done.exit_code == 0, done
    assert "touch PWN" in done.stdout, done
    assert not program.exists(), done
    stranger("check", "a", "-q")
    assert program.exists()
    program.unlink()
    stranger.inventory(f"{text} # another\n")
    assert stranger("check", "a", "-q").exit_code == 2
    assert not program.exists()
    stranger("check", "a", "-q", "-i", "inventory.yaml")
    assert program.exists()
    program.unlink()
    stranger.environment["FLEET_INVENTORY"] = "inventory.yaml"
    stranger("check", "a", "-q")
    assert program.exists()


@pytest.mark.parametrize(
    ("named", "program"),
    [
        ("hosts_from: [./list.sh]", "list.sh"),
        ("hosts_from: [sh, list.sh]", "list.sh"),
        ("hosts_from: [sh, -c, 'true && ./list.sh -a']", "list.sh"),
        ("hosts_from: [sh, -c, '. FOLDER/list.sh']", "list.sh"),
        ("hosts: {a: {via: command, command: [sh, './{name}.sh']}}", "a.sh"),
        (
            "hosts: {a: {via: command, address: a.sh, command: [sh, '{address}']}}",
            "a.sh",
        ),
        ("hosts: {a: {via: local, env: {LD_PRELOAD: 'x.so:./list.sh'}}}", "list.sh"),
        ("hosts: {a: {via: local, toolchain: {binary: tools/agent}}}", "tools/agent"),
        ("hosts: {a: {via: local, before: [sync, ./list.sh]}}", "list.sh"),
        ("hosts: {a: {via: local, after: ../folder/list.sh}}", "list.sh"),
    ],
)
def test_trust_ends_when_a_program_changes_that_the_inventory_names(
    stranger: Fleet, named: str, program: str
) -> None:
    file = stranger.folder / program
    file.parent.mkdir(exist_ok=True)
    file.write_text("#!/bin/sh\necho n1\n")
    file.chmod(0o755)
    stranger.inventory(f"{named.replace('FOLDER', str(stranger.folder))}\n")
    assert f", and {program} as it is now" in stranger("trust").stdout
    assert "neither trusted nor named" not in stranger("run", "--dry-run").stderr
    (stranger.folder / "other.txt").write_text("not named")
    assert "neither trusted nor named" not in stranger("run", "--dry-run").stderr
    file.write_text("#!/bin/sh\ntouch PWN\n")
    done = stranger("run", "--dry-run")
    assert done.exit_code == 2
    assert "neither trusted nor named" in done.stderr
    assert not (stranger.folder / "PWN").exists()
    stranger("trust")
    assert "neither trusted nor named" not in stranger("run", "--dry-run").stderr
    file.unlink()
    assert "neither trusted nor named" in stranger("run", "--dry-run").stderr


def test_a_home_that_cannot_be_written_is_told_with_the_remedy(stranger: Fleet) -> None:
    stranger.inventory("hosts: {a: {via: docker}}\n")
    stranger.environment["HOME"] = "/proc/nobody"
    done = stranger("trust")
    assert done.exit_code == 11, done
    assert "or set XDG_STATE_HOME to another" in done.stderr, done


def test_trust_is_of_one_file_and_shows_no_secret(
    stranger: Fleet, tmp_path: Path
) -> None:
    stranger.inventory("hosts: {a: {via: local, env: {TERM: hunter2}}}\n")
    assert "hunter2" not in (done := stranger("trust")).stdout + done.stderr
    with Fleet(tmp_path / "other", stranger.environment) as other:
        other.folder.mkdir()
        other.inventory((stranger.folder / "inventory.yaml").read_text())
        assert (
            "hosts.a.env: this would start a program, and"
            in other("check", "-q").stderr
        )
    assert "hunter2" not in stranger("check", "-q", "--json").stdout


def test_hosts_that_nobody_asked_for_may_be_named_in_the_file(stranger: Fleet) -> None:
    stranger.inventory("hosts_from: [echo, n1]\ngroups: {g: {hosts: [n1]}}\n")
    done = stranger("hosts", "--json")
    assert done.exit_code == 0
    assert done.json == []
    assert "hosts_from: echo n1 lists more" in done.stderr
    resolved = stranger("hosts", "--json", "--resolve", "-i", "inventory.yaml")
    assert [host["name"] for host in resolved.json] == ["n1"]


def test_a_note_of_a_session_brings_no_command(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("hosts_from: [false]\n")
    noted = {
        "n1": {
            "address": "n2",
            "via": "command",
            "command": ["touch", "PWN"],
            "env": {"A": "b"},
        }
    }
    (host,) = load(path, noted).hosts
    assert host.address == "n2"
    assert str(host.via) == "ssh"
    assert host.command == ()
    assert dict(host.env) == {}
    assert "touch" not in json.dumps(host.command)

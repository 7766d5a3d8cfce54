"""An inventory that merely lies in the current folder starts no program until the user
lets it.
"""

import json
from pathlib import Path

import pytest

from fleet.inventory.select import load
from tests.command import Fleet

TOUCH = "[sh, -c, 'touch PWN; echo n1', -]"
GROUP = "groups: {g: {hosts: [a]}}\n"
INVENTORIES = {
    "hosts_from": f"hosts_from: {TOUCH}\nhosts: {{a: {{}}}}\n{GROUP}",
    "of a host": f"hosts: {{a: {{via: command, command: {TOUCH}}}}}\n{GROUP}",
    "of the defaults": (
        f"defaults: {{via: command, command: {TOUCH}}}\nhosts: {{a: }}\n{GROUP}"
    ),
    "of a group": (
        "hosts: {a: }\ngroups: {g: {hosts: [a], via: command, command:"
        f" {TOUCH}}}}}\n"
    ),
    "of an anchor": (
        f"hosts: {{b: &b {{via: command, command: {TOUCH}}}, a: {{<<: *b, address:"
        f" x}}}}\n{GROUP}"
    ),
    "compiler": f"hosts: {{a: {{via: local, toolchain: {{cc: ./cc}}}}}}\n{GROUP}",
    "finished agent": (
        "hosts: {a: {via: local, build: prebuilt, toolchain: {binary:"
        f" cc}}}}}}\n{GROUP}"
    ),
    "preparation": f"hosts: {{a: {{via: local, before: touch PWN}}}}\n{GROUP}",
    "restoration": f"hosts: {{a: {{via: local, after: touch PWN}}}}\n{GROUP}",
    "library": f"hosts: {{a: {{via: local, env: {{LD_PRELOAD: ./cc.so}}}}}}\n{GROUP}",
}
COMMANDS = (
    *(
        "hosts",
        "hosts --json",
        "hosts --resolve",
        "run -b clock --rounds 1 -q",
        "run --dry-run",
        "check -q",
    ),
    *("clean -q", "clean --dry-run -q", "runs g", "show g", "compare g g", "report g"),
)


@pytest.fixture
def stranger(tmp_path: Path):
    """Yield the command in a folder of somebody else's, where no inventory is named."""
    (tmp_path / "cc").write_text("#!/bin/sh\ntouch PWN; exit 1\n")
    (tmp_path / "cc").chmod(0o755)
    with Fleet(tmp_path, {"FLEET_INVENTORY": ""}) as fleet:
        yield fleet


@pytest.mark.parametrize("text", INVENTORIES.values(), ids=INVENTORIES)
def test_an_inventory_that_nobody_named_starts_nothing(
    stranger: Fleet, text: str
) -> None:
    stranger.inventory(text)
    for name in COMMANDS:
        done = stranger(*name.split())
        assert not (stranger.folder / "PWN").exists(), name
        if name in ("hosts", "hosts --json"):
            assert (done.exit_code, "a" in done.stdout) == (0, True), (name, done)
        else:
            assert done.exit_code == 2, (name, done)
            assert "fleet trust inventory.yaml" in done.stderr, (name, done)


def test_a_shell_that_completes_starts_nothing(stranger: Fleet) -> None:
    stranger.inventory(INVENTORIES["hosts_from"])
    shell = {
        "_FLEET_COMPLETE": "complete_bash",
        "COMP_WORDS": "fleet run ",
        "COMP_CWORD": "2",
    }
    stranger.environment |= shell
    assert "a" in stranger().stdout.split()
    assert not (stranger.folder / "PWN").exists()


@pytest.mark.parametrize("name", ["hosts_from", "of a host"])
def test_a_trusted_inventory_starts_its_programs_until_it_changes(
    stranger: Fleet, name: str
) -> None:
    program = stranger.folder / "PWN"
    stranger.inventory(INVENTORIES[name])
    done = stranger("trust")
    assert (done.exit_code, "touch PWN" in done.stdout, program.exists()) == (
        0,
        True,
        False,
    ), done
    stranger("check", "a", "-q")
    assert program.exists()
    program.unlink()
    stranger.inventory(f"{INVENTORIES[name]}# another\n")
    assert (stranger("check", "a", "-q").exit_code, program.exists()) == (2, False)
    stranger("check", "a", "-q", "-i", "inventory.yaml")
    assert program.exists()
    program.unlink()
    stranger.environment["FLEET_INVENTORY"] = "inventory.yaml"
    stranger("check", "a", "-q")
    assert program.exists()


def test_a_home_that_cannot_be_written_is_told_with_the_remedy(stranger: Fleet) -> None:
    stranger.inventory(INVENTORIES["of a host"])
    stranger.environment["HOME"] = "/proc/nobody"
    done = stranger("trust")
    assert (done.exit_code, "or set XDG_STATE_HOME to another" in done.stderr) == (
        11,
        True,
    ), done


def test_trust_is_of_one_file_and_shows_no_secret(
    stranger: Fleet, tmp_path: Path
) -> None:
    stranger.inventory("hosts: {a: {via: local, env: {TERM: hunter2}}}\n")
    assert "hunter2" not in (done := stranger("trust")).stdout + done.stderr
    with Fleet(
        tmp_path / "other", {**stranger.environment, "HOME": str(tmp_path / "home")}
    ) as other:
        other.folder.mkdir()
        other.inventory((stranger.folder / "inventory.yaml").read_text())
        assert "hosts.a.env: this would start a program" in other("check", "-q").stderr
    assert "hunter2" not in stranger("check", "-q", "--json").stdout


def test_hosts_that_nobody_asked_for_may_be_named_in_the_file(stranger: Fleet) -> None:
    stranger.inventory("hosts_from: [echo, n1]\ngroups: {g: {hosts: [n1]}}\n")
    done = stranger("hosts", "--json")
    assert (
        done.exit_code,
        done.json,
        "hosts_from: echo n1 lists more" in done.stderr,
    ) == (0, [], True)
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
    assert (host.address, str(host.via), host.command, dict(host.env)) == (
        "n2",
        "ssh",
        (),
        {},
    )
    assert "touch" not in json.dumps(host.command)

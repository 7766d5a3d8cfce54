"""What a shell offers for a word, and that nothing runs there, whatever strangers have
written.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml

from fleet.store import Store
from tests import builders, needs
from tests.command import ROOT, Fleet
from tests.console.terminal import Terminal

SHELLS = ("bash", "zsh", "fish")
HOSTILE = (
    r"\$(touch RAN)",
    "$(touch RAN)",
    "`touch RAN`",
    r"\`touch RAN`",
    "x;touch RAN",
    "x';touch RAN;'",
    '"$(touch RAN)"',
    "x))';touch RAN;_arguments '*: :((x",
    "${(e):-$(touch RAN)}",
    "x (touch RAN)",
    "!touch",
)
LABELS = {f"evil{number}": value for number, value in enumerate(HOSTILE)}


def complete(fleet: Fleet, line: str, shell: str = "bash") -> set[str]:
    """Return what a shell is told that completes the last word of a line."""
    asked = {"_FLEET_COMPLETE": f"complete_{shell}", "_FLEET_LINE": line}
    answer = replace(fleet, environment={**fleet.environment, **asked})()
    assert answer.exit_code == 0, answer.stderr
    return {*answer.stdout.split("\n")} - {""}


def test_a_shell_completes_hosts_groups_labels_and_runs(tmp_path: Path) -> None:
    run = builders.a_run()
    Store(tmp_path / "results").publish(run, builders.make_bursts(run))
    with Fleet(tmp_path) as fleet:
        fleet.inventory(
            "hosts: {rome: {labels: {rack: b2}}, milan: {}}\ngroups: {rest: {hosts:"
            " [milan]}}\n"
        )
        assert complete(fleet, "fleet run r") == {"rome", "rest", "rack=b2"}
        assert complete(fleet, "fleet run rome ") == {
            "rome",
            "milan",
            "rest",
            "rack=b2",
            "all",
        }
        assert complete(fleet, "fleet run !m") == {"!milan"}
        assert complete(fleet, "fleet show r") == {"rpi5", "rack=b2", run.run_id}
        for command in ("report", "compare", "export", "label", "withdraw", "runs"):
            assert "rpi5" in complete(fleet, f"fleet {command} rp"), command
        assert complete(fleet, "fleet compare rpi5 summary:rpi4-q") == {
            "summary:rpi4-qnx710",
            "summary:rpi4-qnx800",
        }
        assert complete(fleet, "fleet show -b ca") == {"cas", "cas/cmpxchg"}
        assert complete(fleet, "fleet report -b chase,ca") == {
            "chase,cas",
            "chase,cas/cmpxchg",
        }
        assert complete(fleet, "fleet compare os=") == {"os=linux"}
        assert complete(fleet, "fleet show rpi5@r") == {"rpi5@rack=b2"}
        assert {"cas/c11", "cas/lse"} < complete(fleet, "fleet run -b cas/")
        assert complete(fleet, "fleet run --governor perf") == {"performance"}
        assert complete(fleet, "fleet run --governor=perf") == {
            "--governor=performance"
        }
        assert complete(fleet, "fleet runs --relation sm") == {"smt"}
        assert complete(fleet, "fleet export -F open") == {"openmetrics"}
        assert complete(fleet, "fleet import inv") == set()  # which are files
        assert complete(fleet, "fleet exp", "zsh") == {
            "export\tWrite a run as CSV, or as another tool prints it."
        }


@pytest.mark.parametrize("text", ["hosts: [", "", "hosts: {rome: {no-such-key: 1}}"])
def test_a_broken_inventory_completes_nothing(text: str, tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory(text)
        assert complete(fleet, "fleet run r") == set()


def test_words_that_mean_anything_to_a_shell_are_not_offered(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        labels = {**LABELS, "note": "two words", "town": "München", "bios": "2.1+b"}
        fleet.inventory(yaml.safe_dump({"hosts": {"rome": {"labels": labels}}}))
        for shell in SHELLS:
            offered = complete(fleet, "fleet run ", shell)
            assert offered == {"rome", "all", "town=München", "bios=2.1+b"}


def test_the_script_of_an_older_fleet_gets_nothing_to_evaluate(tmp_path: Path) -> None:
    asked = {"_FLEET_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "fleet run r"}
    with Fleet(tmp_path, asked) as fleet:
        fleet.inventory("hosts: {rome: {}}")
        answer = fleet()
    assert answer.stdout == ""
    assert "`fleet completion SHELL`" in answer.stderr


def test_a_script_is_printed_for_three_shells(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        for shell in SHELLS:
            assert f"complete_{shell}" in fleet("completion", shell).stdout
            assert "eval" not in fleet("completion", shell).stdout
        assert fleet("completion", "tcsh").exit_code == 2


@pytest.fixture(scope="module")
def strange_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hostile labels in its inventory, of a stored and of an imported
    run; each has a label `plain`, too.
    """
    folder = tmp_path_factory.mktemp("strange")
    labels = {**LABELS, "plain": "inventory"}
    entries = {"hosts": {"rome": {"labels": labels}, "milan": {}}}
    (folder / "inventory.yaml").write_text(yaml.safe_dump(entries))
    for name, root in (("stored", "results"), ("imported", "elsewhere")):
        labels = {**LABELS, "plain": name}
        run = replace(
            builders.a_run(run_id=f"r20260102T030405Z-0000000{len(name) % 2}"),
            labels=MappingProxyType(labels),
        )
        Store(folder / root).publish(run, builders.make_bursts(run))
    fleet = Fleet(folder, {"FLEET_INVENTORY": ""})
    export = ["-r", "elsewhere", "-o", "run.parquet", "--keep", "labels"]
    for words in (["export", *export], ["import", "run.parquet", "--name", "friend"]):
        done = fleet(*words)
        assert done.exit_code == 0, done.stderr
    return folder


def install(shell: str, home: Path) -> dict[str, str]:
    """Install the completion of a shell as its user does; return the environment."""
    bin_folder = Path(sys.executable).parent
    environment = {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    home.mkdir()
    script = subprocess.run(
        ["fleet", "completion", shell], env=environment, capture_output=True, check=True
    ).stdout
    before = b"autoload -Uz compinit; compinit -u\n" if shell == "zsh" else b""
    names = {"fish": ".config/fish/completions/fleet.fish"}
    file = home / names.get(shell, f".{shell}rc")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before + script)
    return environment


@pytest.mark.long
@pytest.mark.parametrize("shell", SHELLS)
def test_a_tab_completes_and_runs_nothing(
    shell: str, strange_folder: Path, tmp_path: Path
) -> None:
    needs.program(shell, shell)
    folder = tmp_path / "folder"
    shutil.copytree(strange_folder, folder)
    environment = install(shell, tmp_path / "home")
    with Terminal([shell, "-i"], folder, environment) as terminal:
        terminal.edit("")
        for command in ("run", "hosts", "check"):
            assert "plain=inv" in terminal.list_words(f"fleet {command} ", "entory")
            line = f"fleet {command} plain=inventory"
            assert terminal.edit(f"fleet {command} pl\t") == line
        assert "imported" in terminal.list_words("fleet show plain=", "ored")
        for name in ("stored", "imported"):
            line = f"fleet show plain={name}"
            assert terminal.edit(f"fleet show plain={name[0]}\t") == line
        assert terminal.edit("fleet run --limit mi\t") == "fleet run --limit milan"
        assert terminal.edit("fleet import run.pa\t") == "fleet import run.parquet"
        assert terminal.edit("fleet compl\t") == "fleet completion"
        for command in ("run", "hosts", "check", "show"):
            for word in ("evil", "evil0="):
                line = f"fleet {command} {word}"
                assert terminal.edit(f"{line}\t") == line
    assert not (folder / "RAN").exists()


@pytest.mark.long
def test_zsh_loads_the_script_from_a_file_of_its_path(
    strange_folder: Path, tmp_path: Path
) -> None:
    needs.program("zsh", "zsh")
    environment = install("zsh", tmp_path / "home")
    rc = tmp_path / "home/.zshrc"
    functions = tmp_path / "home/functions"
    functions.mkdir()
    first, _, script = rc.read_text().partition("\n")
    (functions / "_fleet").write_text(script)
    rc.write_text(f"fpath+=({functions})\n{first}\n")
    with Terminal(["zsh", "-i"], strange_folder, environment) as terminal:
        terminal.edit("")
        for _ in range(3):  # the first one loads it
            assert terminal.edit("fleet run mi\t") == "fleet run milan"

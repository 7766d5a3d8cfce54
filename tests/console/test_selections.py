"""Every command that takes a selection, from the table of commands: its width,
completion and refusals.
"""

import shutil
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import typer

from fleet.cli import completion
from fleet.cli.app import app
from tests.command import Done, Fleet
from tests.console.test_completion import complete

LONGEST_WORD = 60  # of paths and ids, which are not broken
STORED = (completion.complete_runs, completion.complete_sides)
NEEDED = {"labels": "note=1"}  # words that a command needs beside the selection


def selections(command: Any) -> Iterator[tuple[str, object]]:
    """The name of each argument that is a selection, and what completes it."""
    for name, parameter in signature(command.callback.__wrapped__).parameters.items():  # type: ignore[union-attr]
        for about in getattr(parameter.annotation, "__metadata__", ()):
            completes = getattr(about, "autocompletion", None)
            if completes in (*STORED, completion.complete_hosts):
                yield name, completes


COMMANDS: dict[str, Any] = typer.main.get_command(app).commands
TAKING = {name: dict(selections(command)) for name, command in COMMANDS.items()}
OF_STORED = [
    name
    for name, params in TAKING.items()
    if any(way in STORED for way in params.values())
]
OF_INVENTORY = [
    name
    for name, params in TAKING.items()
    if completion.complete_hosts in params.values()
]
OF_BENCHMARK = [
    name
    for name in OF_STORED
    if any(p.name == "benchmark" for p in COMMANDS[name].params)
]


@pytest.fixture(scope="module")
def lab(made_lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of our own, since some commands change what is stored."""
    return Path(
        shutil.copytree(made_lab, tmp_path_factory.mktemp("selections") / "lab")
    )


def call(lab: Path, name: str, *hosts: str, options: str = "") -> Done:
    """Call a command with these hosts where it takes several, else with the first;
    measure nothing.
    """
    command = COMMANDS[name]
    words = [name]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            own = (
                list(hosts[:1] if parameter.nargs == 1 else hosts)
                if parameter.name in TAKING[name]
                else [NEEDED[str(parameter.name)]]
            )
            words += own
    flags = {flag for parameter in command.params for flag in parameter.opts}
    words += ["--dry-run"] if "--dry-run" in flags else []
    words += ["--connect-timeout", "1"] if "--connect-timeout" in flags else []
    words += ["--older", "999w"] if "--older" in flags else []
    words += ["-o", "-"] if "--output" in flags else []
    return Fleet(lab, {"COLUMNS": "80"})(*words, *options.split())


def too_wide(done: Done) -> list[str]:
    wide = [line for line in done.stdout.splitlines() if len(line) > 80]
    return [line for line in wide if max(map(len, line.split())) < LONGEST_WORD]


def test_the_table_has_the_commands_that_people_know() -> None:
    assert {
        "show",
        "runs",
        "compare",
        "report",
        "export",
        "label",
        "withdraw",
        "prune",
    } <= {*OF_STORED}
    assert {"run", "check", "hosts", "clean"} <= {*OF_INVENTORY}
    assert {"show", "runs", "compare", "report", "export"} <= {*OF_BENCHMARK}


@pytest.mark.parametrize("name", [*OF_STORED, *OF_INVENTORY])
def test_no_line_is_wider_than_80_columns(name: str, lab: Path) -> None:
    done = call(lab, name, "pisa", "verona", options="-b cas" * (name in OF_BENCHMARK))
    assert done.exit_code in (0, 3) or "cannot tell" in done.stdout, done.stderr
    assert done.stdout or done.stderr
    is_file = any("--output" in parameter.opts for parameter in COMMANDS[name].params)
    if (
        not is_file and name != "accept"
    ):  # whose lines are for logs and `scontrol`, one a host
        assert not too_wide(done)
    if name == "withdraw":
        call(lab, name, "pisa", "verona", options="--undo")


@pytest.mark.parametrize("name", [*OF_STORED, *OF_INVENTORY])
def test_a_shell_completes_its_selection(name: str, lab: Path) -> None:
    names = complete(Fleet(lab), f"fleet {name} pi")
    assert "pisa" in names
    assert all(word.startswith("pi") for word in names)


@pytest.mark.parametrize("name", OF_BENCHMARK)
def test_a_shell_completes_its_benchmark(name: str, lab: Path) -> None:
    assert {"gemm", "gemm/avx2"} <= complete(Fleet(lab), f"fleet {name} verona -b ge")


@pytest.mark.parametrize("name", OF_BENCHMARK)
@pytest.mark.parametrize("benchmark", ["gemm", "message/mov"])
def test_a_benchmark_that_a_host_has_not_measured_is_named(
    name: str, benchmark: str, lab: Path
) -> None:
    options = f"-b {benchmark}"
    done = call(lab, name, "rome", "milan", options=options)
    assert done.exit_code == 2
    assert benchmark in done.stderr
    assert "Traceback" not in done.stderr
    some = call(lab, name, "verona", "rome", options=options)
    assert "Traceback" not in some.stderr
    assert (
        some.exit_code == 0
        or "rome" in some.stderr + some.stdout
        or benchmark in some.stderr
    )
    # files, and lines for logs
    assert not too_wide(some) or name in (
        "export",
        "report",
        "accept",
    )

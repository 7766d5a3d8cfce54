"""Every command keeps to the width of the terminal, breaks no word, and explains its
words once.
"""

import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.command import ROOT, Done, Fleet

COMMANDS = (
    "hosts",
    "run -n -b all",
    "check rome -q --connect-timeout 1",
    "runs",
    "runs rome --relation llc",
    "show",
    "show rome milan",
    "show rome",
    "show pisa --map --ladder",
    "show verona --ladder --ways",
    "compare rome milan",
    "compare kernel=old kernel=new",
    "runs --summaries",
    "show summary:rpi4-linux",
    "verify",
)
LONGEST_WORD = 60  # of paths and ids, which are not broken


Demo = Callable[[str, int], Done]


@pytest.fixture(scope="module")
def demo(made_lab: Path) -> Demo:
    """Return what a command prints about the demo on a terminal of so many columns;
    runs each once.
    """
    return cache(
        lambda command, columns: Fleet(made_lab, {"COLUMNS": str(columns)})(
            *shlex.split(command)
        )
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "columns"),
    [
        *((command, 80) for command in COMMANDS),
        *(
            (command, 120)
            for command in (
                "runs",
                "show",
                "show rome",
                "compare kernel=old kernel=new",
            )
        ),
    ],
)
def test_no_line_is_wider_than_the_terminal(
    command: str, columns: int, demo: Demo
) -> None:
    done = demo(command, columns)
    assert done.exit_code in (0, 1, 3), done.stderr
    wide = [line for line in done.stdout.splitlines() if len(line) > columns]
    assert not [line for line in wide if max(map(len, line.split())) < LONGEST_WORD]


@pytest.mark.parametrize(
    "command", ["show", "show rome milan", "show pisa", "compare kernel=old kernel=new"]
)
def test_legends_are_printed_once(command: str, demo: Demo) -> None:
    text = demo(command, 80).stdout
    for words in (
        "one socket",
        "siblings of one core",
        "flagged: of",
        "Threshold:",
        "6.13.0-demo",
    ):
        assert len(re.findall(words, text)) <= 1, words


@pytest.mark.long
@pytest.mark.parametrize("command", [*COMMANDS, "show verona -b gemm"])
def test_intervals_and_flagged_shares_say_what_they_are_of(
    command: str, demo: Demo
) -> None:
    text = demo(command, 200).stdout
    for name in set(re.findall(r"  (±95%|flagged)", text)):
        assert f"{name}: " in text


def test_narrow_listings_leave_out_columns_and_keep_what_is_pasted(demo: Demo) -> None:
    narrow = demo("runs", 80).stdout
    wide = demo("runs", 200).stdout
    assert "bursts" not in narrow
    assert "bursts" in wide
    assert (
        len(re.findall(r"^r2026\d{4}T\d{6}Z-[0-9a-f]{8}  ", narrow, re.MULTILINE)) == 95
    )


def test_labels_that_all_runs_have_are_listed_once(demo: Demo) -> None:
    for command in ("runs rome", "runs rome --relation llc"):
        lines = demo(command, 80).stdout.splitlines()
        assert sum("rack=b2" in line for line in lines) == 1
        assert "labels of all: rack=b2 kind=server made-up=yes" in lines
        assert sum(line.endswith("  kernel=new") for line in lines) == 4


def test_hosts_says_when_each_was_last_measured(demo: Demo) -> None:
    text = demo("hosts", 120).stdout
    assert re.search(r"^milan .* 2026-11-08 02:01 ", text, re.MULTILINE)
    assert re.search(r"^localhost .* -  ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": ""}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
    ids=str,
)
def test_a_pipe_has_colours_only_if_they_are_forced(
    made_lab: Path, variables: dict[str, str], coloured: bool
) -> None:
    done = Fleet(made_lab, {"COLUMNS": "80", **variables})("show", "milan", "--map")
    assert done.exit_code == 0
    assert ("\x1b[" in done.stdout) == coloured


def on_a_terminal(folder: Path, *command: str, **terminal: str) -> tuple[int, str]:
    """The exit code of a command on a small terminal, and what that shows."""
    ours, theirs = pty.openpty()
    settings = {"LINES": "5", "COLUMNS": "80", "TERM": "xterm", **terminal}
    process = subprocess.Popen(
        [sys.executable, "-m", "fleet", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output = b""
    try:
        while part := os.read(ours, 65536):
            output += part
    except OSError:  # the other end is closed
        pass
    return process.wait(), output.decode()


def test_long_output_goes_through_the_pager_of_a_terminal(made_lab: Path) -> None:
    code, output = on_a_terminal(made_lab, "show", PAGER="sed s/^/paged:/")
    lines = output.splitlines()
    assert code == 0
    assert len(lines) > 5
    assert "\x1b[" in output
    assert all(line.startswith("paged:") for line in lines)
    assert (
        "Details: fleet show"
        in on_a_terminal(made_lab, "show", TERM="dumb", PAGER="")[1]
    )


def test_a_pager_is_told_to_start_no_program(made_lab: Path) -> None:
    """less then refuses `!`, `|`, `v` and $LESSOPEN."""
    pager = """sh -c 'cat >/dev/null; echo "secure: $LESSSECURE"'"""
    code, output = on_a_terminal(made_lab, "show", PAGER=pager, LESSSECURE="")
    assert code == 0
    assert output.split() == ["secure:", "1"]


@pytest.mark.parametrize(
    ("pager", "words"),
    [
        ("false", "ended with exit code 1"),
        ("/nowhere/less", "cannot be started (No such file"),
    ],
)
def test_a_pager_that_fails_is_named_and_the_text_printed(
    made_lab: Path, pager: str, words: str
) -> None:
    code, output = on_a_terminal(made_lab, "show", PAGER=pager)
    assert code == 0
    assert f"$PAGER, {pager}, {words}" in output
    assert "Details: fleet show" in output

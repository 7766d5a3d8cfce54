"""The walls of the agent's house (agent/README.md), read off its includes and off what
its objects use.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests import needs
from tests.native.build import AGENT, build, sources
from tests.native.targets import X86_64
from tests.shared import run_folder

FLOORS = {
    "main": 7,
    "run": 6,
    "emit": 5,
    "plan": 4,
    "burst": 4,
    "bench": 3,
    "options": 2,
    "machine": 2,
    "base": 1,
    "native": 1,
}
MAX_ARROWS = 15
MAX_LINES = 435
README = (AGENT / "README.md").read_text()
FILES = sorted(AGENT.rglob("*.[ch]"))


def home(path: str) -> str:
    """Return the folder of a file, or `main`."""
    return path.partition("/")[0] if "/" in path else "main"


def relative(path: Path) -> str:
    return path.relative_to(AGENT).as_posix()


@cache
def symbols() -> tuple[Mapping[str, str], Mapping[str, frozenset[str]]]:
    """Which file defines each function and table, and which of them each file uses."""
    gcc = needs.program("gcc", "gcc")
    nm = needs.program("nm", "binutils")
    folder = run_folder() / "house"
    folder.mkdir(exist_ok=True)
    files = {f"{Path(name).stem}.o": name for name in sources(X86_64)}
    options = [
        "-std=gnu11",
        "-O0",
        f"-I{AGENT}",
        '-DFLEET_BUILD_ID=""',
        '-DFLEET_CFLAGS=""',
        "-c",
    ]
    subprocess.run(
        [gcc, *options, *(AGENT / name for name in files.values())],
        cwd=folder,
        check=True,
    )
    done = subprocess.run(
        [nm, "-AP", *files], cwd=folder, capture_output=True, text=True, check=True
    )
    rows = [line.partition(": ") for line in done.stdout.splitlines()]
    entries = [(files[object_file], *row.split()[:2]) for object_file, _, row in rows]
    defined = {
        symbol: name for name, symbol, kind in entries if kind.isupper() and kind != "U"
    }
    used = {
        name: frozenset(
            symbol for other, symbol, kind in entries if other == name and kind == "U"
        )
        for name in files.values()
    }
    return defined, used


def uses() -> Iterator[tuple[str, str]]:
    """Each pair of files of which the first calls or reads something of the second."""
    defined, used = symbols()
    for name, names in used.items():
        yield from ((name, defined[symbol]) for symbol in names if symbol in defined)


def includes() -> Iterator[tuple[str, str]]:
    for path in FILES:
        for target in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
            yield (
                relative(path),
                (
                    target
                    if (AGENT / target).exists()
                    else f"{home(relative(path))}/{target}"
                ),
            )


@cache
def house() -> Mapping[str, frozenset[str]]:
    """Which rooms each room uses."""
    pairs = {(home(a), home(b)) for a, b in [*uses(), *includes()]}
    return {
        room: frozenset(b for a, b in pairs if a == room and b != room)
        for room in FLOORS
    }


def below(room: str) -> frozenset[str]:
    return house()[room].union(*(below(other) for other in house()[room]))


def test_every_file_is_in_a_room_and_has_a_name_of_its_own() -> None:
    assert {home(relative(path)) for path in FILES} == set(FLOORS)
    stems = [path.stem for path in FILES if path.suffix == ".c"]
    assert len(stems) == len(set(stems)), "objects of all files may lie in one folder"


@pytest.mark.long
def test_a_room_uses_only_rooms_below_it() -> None:
    wrong = [
        pair for pair in [*uses(), *includes()] if not _goes_down(*map(home, pair))
    ]
    assert not wrong


def _goes_down(room: str, other: str) -> bool:
    return room == other or FLOORS[other] < FLOORS[room]


@pytest.mark.long
def test_a_stranger_can_draw_the_house() -> None:
    arrows = [
        (room, other)
        for room, others in house().items()
        for other in others
        if not any(other in below(between) for between in others - {other})
    ]
    assert len(house()) <= 10
    assert len(set(FLOORS.values())) <= 7
    assert len(arrows) <= MAX_ARROWS


@pytest.mark.long
def test_no_two_files_use_each_other_through_others() -> None:
    graph: dict[str, set[str]] = {}
    for name, other in uses():
        graph.setdefault(name, set()).update({other} - {name})
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_no_file_is_too_long_to_read() -> None:
    assert [
        relative(path)
        for path in FILES
        if len(path.read_text().splitlines()) > MAX_LINES
    ] == []


@pytest.mark.parametrize(
    "path", [path for path in FILES if home(relative(path)) != "native"], ids=relative
)
def test_the_readme_lists_the_file(path: Path) -> None:
    row = next(
        line
        for line in README.splitlines()
        if re.match(rf"\| \d \| `{home(relative(path))}[/.]", line)
    )
    assert re.search(rf"`{path.stem}(\.[ch])?`", row)


def test_the_readme_has_the_floors() -> None:
    rows = re.findall(r"^\| (\d) \| `(\w+)(?:/|\.c)` \|", README, re.MULTILINE)
    assert {room: int(floor) for floor, room in rows} == FLOORS


@pytest.mark.slow
def test_the_readmes_command_builds_the_agent(tmp_path: Path) -> None:
    build(X86_64)  # skips where no compiler of this machine is
    commands = README.split("```")[1]
    copied = tmp_path / "agent"
    subprocess.run(["cp", "-r", AGENT, copied], check=True)
    (copied / "fleet-agent").unlink(missing_ok=True)
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=copied, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--time-budget" in done.stdout

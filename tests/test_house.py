"""The walls of the house (docs/design.md), read off the imports themselves."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fleet"

FLOORS = {
    "__main__": 12,
    "cli": 11,
    "door": 10,
    "analysis/report": 9,
    "analysis/exchange": 8,
    "console": 8,
    "analysis/views": 7,
    "analysis/compare": 6,
    "analysis/reduce": 5,
    "session": 5,
    "analysis/base": 4,
    "agent": 4,
    "demo": 4,
    "facts": 4,
    "inventory": 4,
    "plan": 3,
    "remote": 3,
    "store": 3,
    "base": 2,
    "model": 1,
}
SESSION = [  # in the order of reading
    "dask_cluster",
    "shards",
    "resume",
    "check",
    "clean",
    "dry_run",
    "scheduler_files",
    "runner",
    "log",
    "measurement",
    "link",
    "context",
    "alternate",
    "host_progress",
    "events",
    "live_medians",
]
MAX_ROOMS, MAX_ARROWS = 21, 30
PURE = [
    "agent/wire/asked.py",
    "agent/wire/conversation.py",
    "agent/wire/done.py",
    "agent/wire/parts.py",
    "agent/wire/records.py",
    "agent/build/elf.py",
    "agent/build/systems.py",
    "agent/build/toolchain.py",
    "facts/linux.py",
    "facts/linux_noise.py",
    "facts/systems.py",
    "facts/qnx.py",
]
TOUCH_THE_WORLD = {
    "os",
    "subprocess",
    "socket",
    "paramiko",
    "fabric",
    "pathlib",
    "shutil",
    "tempfile",
    "io",
}
HEAVY = {"pandas", "pyarrow", "numpy", "fabric", "paramiko", "rich", "yaml", "msgspec"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return every module a file imports, as full names; `from fleet import x` counts
    as fleet.x.
    """
    return tuple(_walk_imports(path))


def _walk_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            assert node.module is not None
            if (PACKAGE.parent / node.module.replace(".", "/")).is_dir():
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module


def room_name(name: str) -> str:
    """Name the room of a module: its package, or that in `analysis`; else `door`
    (notebooks) or `base`.
    """
    parts = name.split(".")[1:]
    room = "/".join(parts[:2] if parts[:1] == ["analysis"] else parts[:1])
    if room == "__main__" or (
        room != "analysis" and room and (PACKAGE / room).is_dir()
    ):
        return room
    return "base" if (PACKAGE / f"{room}.py").is_file() and "/" not in room else "door"


@cache
def house() -> Mapping[str, frozenset[str]]:
    """Which rooms each room imports."""
    rooms: dict[str, set[str]] = {}
    for path in modules():
        name = room_name(module_name(path))
        targets = {
            room_name(target)
            for target in imports(path)
            if target.split(".")[0] == "fleet"
        }
        rooms.setdefault(name, set()).update(targets - {name})
    return {name: frozenset(targets) for name, targets in rooms.items()}


@cache
def below(room: str) -> frozenset[str]:
    """Collect every room that can be reached from this one."""
    return house()[room].union(*map(below, house()[room]))


def test_every_room_has_one_floor() -> None:
    assert set(house()) == set(FLOORS)


def test_imports_go_down() -> None:
    wrong = [
        (a, b)
        for a, targets in house().items()
        for b in targets
        if FLOORS[b] >= FLOORS[a]
    ]
    assert not wrong


def test_a_stranger_can_draw_the_house() -> None:
    """Few rooms and arrows, those that a longer way implies not counted."""
    arrows = [
        (a, b)
        for a, targets in house().items()
        for b in targets
        if not any(b in below(other) for other in targets - {b})
    ]
    assert len(house()) <= MAX_ROOMS
    assert len(arrows) <= MAX_ARROWS


def test_a_session_is_read_downwards() -> None:
    """From `run_host` to what it rests on: no file of a session imports one that is
    read before it.
    """
    session = {
        path.stem: path
        for path in (PACKAGE / "session").glob("*.py")
        if path.stem != "__init__"
    }
    assert set(session) == set(SESSION)
    for position, name in enumerate(SESSION):
        targets = {
            target.split(".")[2]
            for target in imports(session[name])
            if "fleet.session." in target
        }
        assert targets <= set(SESSION[position + 1 :]), name


def test_there_is_no_circle() -> None:
    paths = {module_name(path): path for path in modules()}
    graph = {
        name: {t for t in imports(path) if t in paths and t != name}
        for name, path in paths.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


def importers(modules: Iterable[Path], *forbidden: str) -> list[tuple[str, str]]:
    """The modules that import one of these packages, or something in them, and what
    they import.
    """
    names = tuple(f"{name}." for name in forbidden)
    return [
        (module_name(path), target)
        for path in modules
        for target in imports(path)
        if f"{target}.".startswith(names)
    ]


def is_analysis(path: Path) -> bool:
    return "analysis" in path.relative_to(PACKAGE).parts


def test_only_analysis_knows_pandas() -> None:
    assert (
        importers((path for path in modules() if not is_analysis(path)), "pandas") == []
    )
    assert importers(modules(), "pandas")


def test_analysis_never_reaches_for_a_host() -> None:
    forbidden = ("fleet.remote", "fleet.facts", "fleet.agent", "fleet.session")
    assert importers(filter(is_analysis, modules()), *forbidden) == []


@pytest.mark.parametrize("relative", PURE)
def test_parsers_do_no_input_or_output(relative: str) -> None:
    reached = {target.split(".")[0] for target in imports(PACKAGE / relative)}
    assert not reached & TOUCH_THE_WORLD


def test_nobody_imports_the_commands() -> None:
    others = (
        path
        for path in modules()
        if path.name != "__main__.py" and path.parent.name != "cli"
    )
    assert importers(others, "fleet.cli") == []


def test_only_one_module_knows_the_parser_below_typer() -> None:
    """The others use what `typer` itself exports: its releases keep that, and move the
    rest.
    """
    private = re.compile(
        r"(from|import)"
        r" click\b|typer\.(_|core|main|models|params|completion|rich)|typer import _"
    )
    knowing = {
        module_name(path) for path in modules() if private.search(path.read_text())
    }
    assert knowing == {"fleet.cli.parser"}


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "cli").glob("*.py")), ids=module_name
)
def test_the_commands_pay_for_nothing_heavy_at_start(path: Path) -> None:
    tree = ast.parse(path.read_text())
    at_top = {
        alias.name.split(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        node.module.split(".")[0]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert not at_top & HEAVY


def test_nothing_points_outside_the_project() -> None:
    """The project stands alone: no file may speak of the place it was written in."""
    for path in ROOT.rglob("*"):
        if path.suffix in {
            ".py",
            ".c",
            ".h",
            ".md",
            ".toml",
            ".yaml",
        } and not _is_ignored(path):
            assert "../" + "shared" not in path.read_text(), path


def _is_ignored(path: Path) -> bool:
    return any(
        part.startswith(".") or part in {"build", "dist"}
        for part in path.relative_to(ROOT).parts
    )


def test_tests_import_what_the_rooms_of_analysis_offer() -> None:
    """A module that moves inside its room moves no test. `plots` is a name that
    docs/report.md offers.
    """
    rooms = [PACKAGE / room for room in FLOORS if room.startswith("analysis/")]
    inside = {
        module_name(path)
        for room in rooms
        for path in room.glob("*.py")
        if path.stem != "__init__"
    }
    inside -= {"fleet.analysis.report.plots"}
    tests = sorted((ROOT / "tests").rglob("*.py"))
    assert not [
        (str(path), name) for path in tests for name in imports(path) if name in inside
    ]

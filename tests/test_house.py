"""The walls of the house (docs/design.md, section 2), read off the imports themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fleet"

FLOORS = {
    "fleet.cli": 5,
    "fleet.__main__": 6,
    "fleet.session": 4,
    "fleet.checking": 4,
    "fleet.cleaning": 4,
    "fleet.check_text": 4,
    "fleet.resuming": 4,
    "fleet.sharding": 4,
    "fleet.dasking": 4,
    "fleet.relaying": 4,
    "fleet.carrying": 4,
    "fleet.reaching": 4,
    "fleet.sharing": 4,
    "fleet.locking": 4,
    "fleet.outcomes": 4,
    "fleet.stopping": 4,
    "fleet.progress": 4,
    "fleet.live": 4,
    "fleet.reporting": 4,
    "fleet.planning": 4,
    "fleet.wishes": 4,
    "fleet.listing": 4,
    "fleet.logs": 4,
    "fleet.folding": 4,
    "fleet.facts": 3,
    "fleet.agent": 3,
    "fleet.analysis": 3,
    "fleet.remote": 2,
    "fleet.inventory": 2,
    "fleet.store": 2,
    "fleet.model": 1,
    "fleet.cpulist": 1,
    "fleet.variants": 1,
    "fleet.interval": 1,
    "fleet.spelling": 1,
    "fleet.escaping": 1,
    "fleet.errors": 1,
    "fleet": 0,
}
ROOMS = {"cli", "facts", "agent", "analysis", "remote", "inventory", "store"}
PURE = [
    "agent/wire.py",
    "agent/parts.py",
    "agent/done.py",
    "agent/records.py",
    "agent/toolchain.py",
    "facts/linux.py",
    "facts/noise.py",
    "facts/qnx.py",
]
TOUCHES_THE_WORLD = {
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
HEAVY = {"pandas", "pyarrow", "numpy", "fabric", "paramiko", "pydantic", "pydantic_core", "rich", "yaml"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[str]:
    """Every module a file imports anywhere, as full names; `from fleet import x` counts as fleet.x."""
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


def floor_of(name: str) -> int:
    while name not in FLOORS:
        name, _, last = name.rpartition(".")
        assert name, f"{last} has no floor: add it to FLOORS"
    return FLOORS[name]


def room_of(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_down_or_stay_in_their_room(path: Path) -> None:
    name = name_of(path)
    for target in imports_of(path):
        if not target.startswith("fleet"):
            continue
        same_room = room_of(name) == room_of(target)
        beside = floor_of(name) == floor_of(target) == 4
        assert floor_of(target) < floor_of(name) or same_room or beside or target == "fleet.__version__", (
            f"{name} (floor {floor_of(name)}) imports {target} (floor {floor_of(target)})"
        )


def test_there_is_no_circle() -> None:
    known = {name_of(path): path for path in modules()}
    graph = {name: {t for t in imports_of(path) if t in known and t != name} for name, path in known.items()}
    for start, direct in graph.items():
        seen, stack = set(), list(direct)
        while stack:
            name = stack.pop()
            assert name != start, f"{start} imports itself through {seen}"
            if name not in seen:
                seen.add(name)
                stack += graph[name]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_analysis_knows_pandas(path: Path) -> None:
    if "analysis" not in path.parts:
        assert not any(target.split(".")[0] == "pandas" for target in imports_of(path))


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_analysis_never_reaches_for_a_host(path: Path) -> None:
    if "analysis" in path.parts:
        forbidden = ("fleet.remote", "fleet.facts", "fleet.agent", "fleet.session")
        assert not [target for target in imports_of(path) if target.startswith(forbidden)]


@pytest.mark.parametrize("relative", PURE)
def test_parsers_do_no_input_or_output(relative: str) -> None:
    reached = {target.split(".")[0] for target in imports_of(PACKAGE / relative)}
    assert not reached & TOUCHES_THE_WORLD


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_nobody_imports_the_commands(path: Path) -> None:
    if path.name != "__main__.py" and path.parent.name != "cli":
        assert not [target for target in imports_of(path) if target.startswith("fleet.cli")]


@pytest.mark.parametrize("path", sorted((PACKAGE / "cli").glob("*.py")), ids=name_of)
def test_the_commands_pay_for_nothing_heavy_at_start(path: Path) -> None:
    tree = ast.parse(path.read_text())
    at_top = {
        alias.name.split(".")[0] for node in tree.body if isinstance(node, ast.Import) for alias in node.names
    } | {node.module.split(".")[0] for node in tree.body if isinstance(node, ast.ImportFrom) and node.module}
    assert not at_top & HEAVY


def test_nothing_points_outside_the_project() -> None:
    """The project stands alone: no file may speak of the place it was written in."""
    for path in ROOT.rglob("*"):
        if path.suffix in {".py", ".c", ".h", ".md", ".toml", ".yaml"} and not _ignored(path):
            assert "../" + "shared" not in path.read_text(), path


def _ignored(path: Path) -> bool:
    return any(part.startswith(".") or part in {"build", "dist"} for part in path.relative_to(ROOT).parts)

"""Building the agent from its sources, with the flags its README documents."""

import functools
import hashlib
import itertools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests import needs
from tests.native.targets import X86_64, Target
from tests.shared import hold_lock, run_folder

AGENT = Path(__file__).parents[2] / "agent"
BUILD_ID = "0123456789abcdef"
SIMULATED = Path(__file__).parent / "simulated.c"
REPLACED = ("base/stop.c", "burst/burst.c")  # by it
WARNINGS = (
    "-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla"
    " -Wwrite-strings -Wundef -Wformat=2 -Werror"
)
STATIC = "-static"

_builds = itertools.count()


def sources(target: Target, program: str = "") -> list[str]:
    """Return the files of a target. program: a file in the place of all rooms but
    native/.
    """
    os_name, arch = target.name.split("-")
    return [
        *([program] if program else list_shared_files("c")),
        *list_native_files(os_name),
        *(target.native or list_native_files(arch)),
        "native/generic.c",
    ]


def list_shared_files(kind: str = "[ch]") -> list[str]:
    """The files that every target has, or those of them with this ending."""
    paths = (path.relative_to(AGENT) for path in AGENT.rglob(f"*.{kind}"))
    return sorted(path.as_posix() for path in paths if path.parts[0] != "native")


def list_native_files(name: str) -> list[str]:
    """native/NAME.c and native/NAME_*.c."""
    more = sorted(AGENT.glob(f"native/{name}_*.c"))
    return [f"native/{name}.c", *(f"native/{path.name}" for path in more)]


def _gcc(target: Target) -> list[str]:
    """The command of a target's compiler; zig may stand on the PATH, or in the tests'
    own Python.
    """
    command, package = target.gcc
    if command == "zig" and not shutil.which("zig"):
        needs.python_module(package, package)
        return [sys.executable, "-m", package]
    return [needs.program(command, package)]


@functools.cache
def build(
    target: Target = X86_64,
    flags: str = "-O2",
    *,
    clang: bool = False,
    program: str = "",
    native_flags: str = "",
    simulated: bool = False,
) -> Path:
    """Compile without a warning and return the binary; skips where the compiler is
    missing.

    program: a file in the place of all of agent/. native_flags: more flags for the
    files in `target.native`.
    simulated: with SIMULATED in the place of the agent's clock and bursts.
    """
    command = _compiler(target, flags, clang=clang)
    folder = _agents_folder()
    binary = folder / f"agent-{os.getpid()}-{next(_builds)}"
    files = [
        AGENT / name
        for name in sources(target, program)
        if not (simulated and name in REPLACED)
    ]
    files += [SIMULATED] * simulated
    if clang or target.gcc[0] != "zig":  # which does not make several objects at once
        own = [AGENT / name for name in target.native]
        files = _objects(folder, command, [path for path in files if path not in own])
        files += _objects(folder, (*command, *shlex.split(native_flags)), own)
    static = [STATIC] * (STATIC in shlex.split(flags))
    _run([*command, *static, "-o", str(binary), *map(str, files)])
    return binary


@functools.cache
def build_loops(target: Target, flags: str, *, clang: bool) -> Path:
    """Compile without a warning the files that hold a target's loops, which no linker
    changes, and return one object of them.
    """
    command = _compiler(target, flags, clang=clang)
    folder = _agents_folder()
    own = [AGENT / name for name in list_native_files(target.name.split("-")[1])]
    together = folder / f"loops-{os.getpid()}-{next(_builds)}.o"
    objects = map(str, _objects(folder, command, own))
    _run([*command, "-r", "-o", str(together), *objects])
    return together


def _agents_folder() -> Path:
    folder = run_folder() / "agents"
    folder.mkdir(exist_ok=True)
    return folder


def _compiler(target: Target, flags: str, *, clang: bool) -> tuple[str, ...]:
    """The command that compiles; it is the same for a static agent, which shares the
    objects of the other.
    """
    if clang:
        assert target.clang
        compiler = [needs.program(target.clang[0], "clang lld"), *target.clang[1:]]
        # a linker's, where only objects are made
        compiler.append("-Wno-unused-command-line-argument")
    else:
        compiler = [*_gcc(target), *target.gcc_flags]
    kept = [flag for flag in shlex.split(flags) if flag != STATIC]
    return (
        *compiler,
        *("-std=gnu11", *kept, *shlex.split(WARNINGS), "-pthread", f"-I{AGENT}"),
        *(f'-DFLEET_BUILD_ID="{BUILD_ID}"', f'-DFLEET_CFLAGS="{shlex.join(kept)}"'),
    )


def _objects(folder: Path, command: tuple[str, ...], files: list[Path]) -> list[Path]:
    """Compile what was not yet compiled by this command: builds that differ in a file
    share the others.
    """
    objects_folder = (
        folder
        / f"objects-{hashlib.sha256(shlex.join(command).encode()).hexdigest()[:16]}"
    )
    objects_folder.mkdir(exist_ok=True)
    objects = {objects_folder / f"{path.stem}.o": path for path in files}
    assert len(objects) == len(files)
    with hold_lock(objects_folder / "lock"):
        if missing := [
            str(path) for file, path in objects.items() if not file.exists()
        ]:
            _run([*command, "-c", *missing], objects_folder)
    return list(objects)


def _run(command: list[str], folder: Path = AGENT) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"

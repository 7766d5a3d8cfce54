"""Building the agent from its sources, with the flags its README documents."""

import functools
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import needs
from tests.native.targets import X86_64, Target

AGENT = Path(__file__).parents[2] / "agent"
BUILD_ID = "0123456789abcdef"
WARNINGS = (
    "-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings "
    "-Wundef -Wformat=2 -Werror"
)

_folder = tempfile.TemporaryDirectory(prefix="fleet-agent-")  # one build serves many tests
_made: dict[tuple[str, ...], Path] = {}


def sources(target: Target, program: str = "") -> list[str]:
    """The files a target is made of: all of agent/, and of agent/native/ those of its OS and architecture.

    program: a file in the place of all of agent/.
    """
    os_name, arch = target.name.split("-")
    return [
        *([program] if program else sorted(path.name for path in AGENT.glob("*.c"))),
        *named(os_name),
        *(target.native or named(arch)),
        "native/generic.c",
    ]


def named(name: str) -> list[str]:
    """native/NAME.c and native/NAME_*.c."""
    more = sorted(AGENT.glob(f"native/{name}_*.c"))
    return [f"native/{name}.c", *(f"native/{path.name}" for path in more)]


def _gcc(target: Target) -> list[str]:
    """The command of a target's compiler; zig may stand on the PATH, or in the tests' own Python."""
    command, package = target.gcc
    if command == "zig" and not shutil.which("zig"):
        needs.python_module(package, package)
        return [sys.executable, "-m", package]
    return [needs.program(command, package)]


@functools.cache
def build(target: Target = X86_64, flags: str = "-O2", *, clang: bool = False, program: str = "") -> Path:
    """Compile without a warning and return the binary; skips where the compiler is missing.

    program: a file in the place of all of agent/.
    """
    if clang:
        assert target.clang
        compiler = [needs.program(target.clang[0], "clang lld"), *target.clang[1:]]
        compiler.append("-Wno-unused-command-line-argument")  # a linker's, where only objects are made
    else:
        compiler = [*_gcc(target), *target.gcc_flags]
    command = (
        *compiler,
        *("-std=gnu11", *shlex.split(flags), *shlex.split(WARNINGS), "-pthread", f"-I{AGENT}"),
        *(f'-DFLEET_BUILD_ID="{BUILD_ID}"', f'-DFLEET_CFLAGS="{flags}"'),
    )
    binary = Path(_folder.name) / f"agent-{len(list(Path(_folder.name).iterdir()))}"
    files = [AGENT / name for name in sources(target, program)]
    if clang or target.gcc[0] != "zig":  # which does not make several objects at once
        files = _objects(command, files)
    _run([*command, "-o", str(binary), *map(str, files)])
    return binary


def _objects(command: tuple[str, ...], files: list[Path]) -> list[Path]:
    """Compile what was not yet compiled by this command: builds that differ in a file share the others."""
    folder = _made.setdefault(command, Path(tempfile.mkdtemp(prefix="objects-", dir=_folder.name)))
    objects = {folder / f"{path.stem}.o": path for path in files}
    assert len(objects) == len(files)
    if missing := [str(path) for made, path in objects.items() if not made.exists()]:
        _run([*command, "-c", *missing], folder)
    return list(objects)


def _run(command: list[str], folder: Path = AGENT) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"

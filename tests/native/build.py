"""Building the agent from its sources, with the one `cc` command its README documents."""

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
    else:
        compiler = [*_gcc(target), *target.gcc_flags]
    binary = Path(_folder.name) / f"agent-{len(list(Path(_folder.name).iterdir()))}"
    command = [
        *compiler,
        "-std=gnu11",
        *shlex.split(flags),
        *shlex.split(WARNINGS),
        "-pthread",
        f'-DFLEET_BUILD_ID="{BUILD_ID}"',
        f'-DFLEET_CFLAGS="{flags}"',
        "-o",
        str(binary),
        *sources(target, program),
    ]
    done = subprocess.run(command, cwd=AGENT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    return binary

"""Building the agent with the stand-in for QNX's SDP, and running it under Linux's own
loader.
"""

import functools
import os
import subprocess
import tempfile
from pathlib import Path

from tests import needs
from tests.hosts.qnx import sdp
from tests.native.build import (
    AGENT,
    BUILD_ID,
    WARNINGS,
    list_native_files,
    list_shared_files,
)

FLAGS = ("-std=gnu11", "-O2", "-D_QNX_SOURCE")
VARIANTS = {"x86_64": "gcc_ntox86_64", "aarch64": "gcc_ntoaarch64le"}
_CROSS = "/usr/aarch64-linux-gnu"

_folder = tempfile.TemporaryDirectory(prefix="fleet-qnx-")


@functools.cache
def platform(release: int) -> Path:
    return sdp.install(Path(_folder.name) / f"sdp{release}", release)


def qcc(
    release: int, *args: str, cwd: Path = AGENT, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the stand-in's qcc as the SDP's own environment would have it."""
    needs.program("gcc", "gcc")
    home = platform(release)
    return subprocess.run(
        [home / sdp.QCC, *args],
        cwd=cwd,
        env={**os.environ, **sdp.environment(home), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def units(arch: str) -> list[str]:
    """Return the files of the agent for QNX."""
    own = [arch] if arch.endswith(".c") else list_native_files(arch)
    return [
        *list_shared_files("c"),
        *list_native_files("qnx"),
        *own,
        "native/generic.c",
    ]


@functools.cache
def agent(arch: str, release: int = 8, native: str = "") -> Path:
    """Build the agent, without a warning. native: a file in the place of
    native/<arch>.c.
    """
    if arch == "aarch64":
        needs.program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    binary = Path(_folder.name) / f"agent-{arch}-{release}{Path(native).stem}"
    done = qcc(
        release,
        f"-V{VARIANTS[arch]}",
        *FLAGS,
        *WARNINGS.split(),
        "-I.",
        f'-DFLEET_BUILD_ID="{BUILD_ID}"',
        "-o",
        str(binary),
        *units(native or arch),
    )
    assert done.returncode == 0, done.stderr
    return binary


def loader(arch: str) -> tuple[str, ...]:
    """Return what starts a program of the stand-in here: its own interpreter is
    QNX's.
    """
    if arch == "x86_64":
        return ("/lib64/ld-linux-x86-64.so.2",)
    emulator = needs.program("qemu-aarch64-static", "qemu-user-static")
    return (
        emulator,
        f"{_CROSS}/lib/ld-linux-aarch64.so.1",
        "--library-path",
        f"{_CROSS}/lib",
    )

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
    return [*shared_units(), *list_native_files(arch)]


def shared_units() -> list[str]:
    """The files that the agent has for QNX on every architecture."""
    return [*list_shared_files("c"), *list_native_files("qnx"), "native/generic.c"]


def agent(arch: str, release: int = 8, native: str = "") -> Path:
    """Build the agent, without a warning. native: a file in the place of
    native/<arch>.c.
    """
    return _build_agent(arch, release, native)


@functools.cache  # behind a function that fills defaults in, so as to see one agent
def _build_agent(arch: str, release: int, native: str) -> Path:
    binary = Path(_folder.name) / f"agent-{arch}-{release}{Path(native).stem}"
    own = [native] if native else list_native_files(arch)
    objects = [str(path) for path in _compile_shared_units(arch, release)]
    _compile(arch, release, AGENT, "-o", str(binary), *objects, *own)
    return binary


@functools.cache
def _compile_shared_units(arch: str, release: int) -> list[Path]:
    """Compile what agents with another file for their architecture share."""
    folder = Path(_folder.name) / f"objects-{arch}-{release}"
    folder.mkdir()
    _compile(
        arch, release, folder, "-c", *(str(AGENT / name) for name in shared_units())
    )
    return sorted(folder.glob("*.o"))


def _compile(arch: str, release: int, folder: Path, *args: str) -> None:
    if arch == "aarch64":
        needs.program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    defined = (f"-I{AGENT}", f'-DFLEET_BUILD_ID="{BUILD_ID}"')
    flags = (f"-V{VARIANTS[arch]}", *FLAGS, *WARNINGS.split(), *defined)
    done = qcc(release, *flags, *args, cwd=folder)
    assert done.returncode == 0, done.stderr


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

"""What building for an operating system depends on: one row per OS. Pure; used by the
other modules here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

ZIG = ("python", "-m", "ziglang")
"""The zig that pip installs into the controller's own Python; `on_controller` puts in
that interpreter's path.
"""
_Commands = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class System:
    """One operating system."""

    title: str
    cflags: tuple[str, ...]  # for every compiler
    # commands of the compilers on the controller, best first, by the architecture that
    # they compile for
    cross: Mapping[str, _Commands] = field(default_factory=lambda: MappingProxyType({}))
    # the file name of its only ELF interpreter; None if that depends on the C library
    loader: str | None = None
    static: bool = True  # whether static programs run
    sdp: bool = False  # whether `qnx` deploys, with a licensed compiler
    atomic_rename: bool = True  # whether a file under its final name is complete
    agent_topology: bool = False  # whether only an agent can read the topology
    # the OS's major version by the number of libc.so, where a program runs on one
    # version only
    libc_releases: Mapping[int, int] = field(
        default_factory=lambda: MappingProxyType({})
    )


def _list_compilers(
    name: str, *more: str, abi: str = "", zig: str = "", cpu: str = ""
) -> _Commands:
    """List the commands that cross-compile for Linux on an architecture.

    name: gcc's name of the architecture. more: further prefixes of gcc. zig: zig's
    name of the architecture if it differs. For ("arm", abi="eabihf", cpu="v7a"):

        arm-linux-gnueabihf-gcc
        arm-linux-musleabihf-gcc
        zig cc -target arm-linux-musleabihf -mcpu=v7a
        python -m ziglang cc -target arm-linux-musleabihf -mcpu=v7a
    """
    prefixes = (f"{name}-linux-gnu{abi}", f"{name}-linux-musl{abi}", *more)
    gcc_commands = [(f"{prefix}-gcc",) for prefix in prefixes]
    zig_options = ["cc", "-target", f"{zig or name}-linux-musl{abi}"]
    if cpu:
        zig_options.append(f"-mcpu={cpu}")
    return (*gcc_commands, ("zig", *zig_options), (*ZIG, *zig_options))


SYSTEMS: Mapping[str, System] = {
    "linux": System(
        title="Linux",
        cflags=("-std=gnu11", "-O2", "-pthread"),
        cross={
            "aarch64": _list_compilers("aarch64", "aarch64-unknown-linux-gnu"),
            # zig's default is an older Arm, without ldrex
            "armv7": _list_compilers(
                "arm", "armv7l-linux-musleabihf", abi="eabihf", cpu="generic+v7a"
            ),
            "i386": _list_compilers("i686", zig="x86"),
            # not every CPU has vectors
            "loongarch64": _list_compilers(
                "loongarch64", "loongarch64-unknown-linux-gnu", cpu="generic_la64-lsx"
            ),
            "ppc64le": _list_compilers("powerpc64le"),
            "riscv64": _list_compilers("riscv64", "riscv64-unknown-linux-gnu"),
            "s390x": _list_compilers("s390x"),
            "x86_64": _list_compilers("x86_64"),
        },
    ),
    "qnx": System(
        title="QNX",
        cflags=(
            "-std=gnu11",
            "-O2",
            "-D_QNX_SOURCE",
        ),  # threads are in its C library; no -pthread there
        loader="ldqnx-64.so.2",
        static=False,
        sdp=True,
        atomic_rename=False,
        agent_topology=True,
        libc_releases={4: 7, 5: 7, 6: 8},
    ),
}

VARIANTS: Mapping[str, str] = {"aarch64": "gcc_ntoaarch64le", "x86_64": "gcc_ntox86_64"}
"""qcc's names of its targets, by architecture."""


def major_version(release: str | None) -> int | None:
    """Return the major version of a QNX release such as "8.0.0" or "8"; None if
    unknown.
    """
    match = re.match(r"(\d+)(?:\.|$)", release or "")
    return int(match[1]) if match else None

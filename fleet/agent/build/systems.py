"""What building for an operating system depends on: one row per OS. Pure; used by the other modules here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Cross:
    """Compilers on a controller for one architecture: prefixes of gcc, best first; zig's `-target` etc."""

    gcc: tuple[str, ...]
    zig: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class System:
    """One operating system.

    title: for messages. cflags: for every compiler. cross: the controller's compilers by architecture.
    loader: the file name of its ELF interpreter, where it has only one; None where that depends on the C
    library. static: whether programs may be linked statically. sdp: its compiler is part of a licensed
    platform, so `qnx` deploys. atomic_rename: a file under its final name is whole. agent_topology: only a
    program can read the topology, so the agent is asked for it. libc_releases: the OS's major release by the
    number of its libc.so, where a program for one does not run on another.
    """

    title: str
    cflags: tuple[str, ...]
    cross: Mapping[str, Cross] = field(default_factory=lambda: MappingProxyType({}))
    loader: str | None = None
    static: bool = True
    sdp: bool = False
    atomic_rename: bool = True
    agent_topology: bool = False
    libc_releases: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


def _cross(name: str, *more: str, abi: str = "", zig: str = "", cpu: str = "") -> Cross:
    gcc = (f"{name}-linux-gnu{abi}", f"{name}-linux-musl{abi}", *more)
    return Cross(gcc, (f"{zig or name}-linux-musl{abi}", *([f"-mcpu={cpu}"] if cpu else [])))


SYSTEMS: Mapping[str, System] = {
    "linux": System(
        title="Linux",
        cflags=("-std=gnu11", "-O2", "-pthread"),
        cross={
            "aarch64": _cross("aarch64", "aarch64-unknown-linux-gnu"),
            # zig's default is an older Arm, without ldrex
            "armv7": _cross("arm", "armv7l-linux-musleabihf", abi="eabihf", cpu="generic+v7a"),
            "i386": _cross("i686", zig="x86"),
            # not every CPU has vectors
            "loongarch64": _cross("loongarch64", "loongarch64-unknown-linux-gnu", cpu="generic_la64-lsx"),
            "ppc64le": _cross("powerpc64le"),
            "riscv64": _cross("riscv64", "riscv64-unknown-linux-gnu"),
            "s390x": _cross("s390x"),
            "x86_64": _cross("x86_64"),
        },
    ),
    "qnx": System(
        title="QNX",
        cflags=("-std=gnu11", "-O2", "-D_QNX_SOURCE"),  # threads are in its C library; no -pthread there
        loader="ldqnx-64.so.2",
        static=False,
        sdp=True,
        atomic_rename=False,
        agent_topology=True,
        libc_releases={4: 7, 5: 7, 6: 8},
    ),
}

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


SYSTEMS: Mapping[str, System] = {
    "linux": System(
        title="Linux",
        cflags=("-std=gnu11", "-O2", "-pthread"),
        cross={
            "aarch64": Cross(
                ("aarch64-linux-gnu", "aarch64-linux-musl", "aarch64-unknown-linux-gnu"),
                ("aarch64-linux-musl",),
            ),
            "armv7": Cross(
                ("arm-linux-gnueabihf", "arm-linux-musleabihf", "armv7l-linux-musleabihf"),
                ("arm-linux-musleabihf", "-mcpu=generic+v7a"),  # its default is an older Arm, without ldrex
            ),
            "i386": Cross(("i686-linux-gnu", "i686-linux-musl"), ("x86-linux-musl",)),
            "loongarch64": Cross(
                ("loongarch64-linux-gnu", "loongarch64-unknown-linux-gnu"),
                ("loongarch64-linux-musl", "-mcpu=generic_la64-lsx"),  # not every CPU has vectors
            ),
            "ppc64le": Cross(
                ("powerpc64le-linux-gnu", "powerpc64le-linux-musl"), ("powerpc64le-linux-musl",)
            ),
            "riscv64": Cross(
                ("riscv64-linux-gnu", "riscv64-linux-musl", "riscv64-unknown-linux-gnu"),
                ("riscv64-linux-musl",),
            ),
            "s390x": Cross(("s390x-linux-gnu", "s390x-linux-musl"), ("s390x-linux-musl",)),
            "x86_64": Cross(("x86_64-linux-gnu", "x86_64-linux-musl"), ("x86_64-linux-musl",)),
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

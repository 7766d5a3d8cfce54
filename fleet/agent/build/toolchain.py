"""Chooses compilers and flags for a target, names builds, reads ELF headers. Pure: no input or output.

`deploy` asks here what to run; `build` runs it on the controller.
"""

import hashlib
import re
import shlex
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from fleet.model import Facts, Target

FLAGS = ("-std=gnu11", "-O2", "-pthread")
QNX_FLAGS = ("-std=gnu11", "-O2", "-D_QNX_SOURCE")  # threads are in its C library; no -pthread there
QNX_VARIANTS: Mapping[str, str] = {"aarch64": "gcc_ntoaarch64le", "x86_64": "gcc_ntox86_64"}
"""What qcc calls its targets, by architecture."""

QNX_INTERPRETER = "ldqnx-64.so.2"
FILE_PREFIX, HASH_DIGITS = "fleet-agent-", 16
_HASH = f"(-[0-9a-f]{{{HASH_DIGITS}}})"
ZIG = ("python", "-m", "ziglang")
"""Stands for the ziglang package in the controller's own Python; `build` knows that interpreter's path."""

_GNU_TRIPLES: Mapping[str, tuple[str, ...]] = {
    "aarch64": ("aarch64-linux-gnu", "aarch64-linux-musl", "aarch64-unknown-linux-gnu"),
    "armv7": ("arm-linux-gnueabihf", "arm-linux-musleabihf", "armv7l-linux-musleabihf"),
    "i386": ("i686-linux-gnu", "i686-linux-musl"),
    "loongarch64": ("loongarch64-linux-gnu", "loongarch64-unknown-linux-gnu"),
    "ppc64le": ("powerpc64le-linux-gnu", "powerpc64le-linux-musl"),
    "riscv64": ("riscv64-linux-gnu", "riscv64-linux-musl", "riscv64-unknown-linux-gnu"),
    "s390x": ("s390x-linux-gnu", "s390x-linux-musl"),
    "x86_64": ("x86_64-linux-gnu", "x86_64-linux-musl"),
}
_ZIG_TARGETS: Mapping[str, tuple[str, ...]] = {
    "aarch64": ("aarch64-linux-musl",),
    "armv7": ("arm-linux-musleabihf", "-mcpu=generic+v7a"),  # its default is an older Arm, without ldrex
    "i386": ("x86-linux-musl",),
    "loongarch64": ("loongarch64-linux-musl", "-mcpu=generic_la64-lsx"),  # not every CPU has vectors
    "ppc64le": ("powerpc64le-linux-musl",),
    "riscv64": ("riscv64-linux-musl",),
    "s390x": ("s390x-linux-musl",),
    "x86_64": ("x86_64-linux-musl",),
}
_ELF_MACHINES: Mapping[tuple[int, int, str], str] = {  # e_machine, word bits, byte order
    (3, 32, "<"): "i386",
    (20, 32, ">"): "ppc",
    (21, 64, ">"): "ppc64",
    (21, 64, "<"): "ppc64le",
    (22, 32, ">"): "s390",
    (22, 64, ">"): "s390x",
    (40, 32, "<"): "armv7",
    (40, 32, ">"): "armeb",
    (62, 32, "<"): "x32",
    (62, 64, "<"): "x86_64",
    (183, 64, "<"): "aarch64",
    (183, 64, ">"): "aarch64_be",
    (243, 32, "<"): "riscv32",
    (243, 64, "<"): "riscv64",
    (258, 32, "<"): "loongarch32",
    (258, 64, "<"): "loongarch64",
}
_PT_INTERP = 3


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler command and flags for one target; `name` is for people ("gcc on the controller").

    release: the target's major version, where an agent for another would not do; "" where any does.
    environment: variables the command needs beside ours.
    """

    name: str
    command: tuple[str, ...]
    cflags: tuple[str, ...]
    target: Target
    release: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def arguments(self, sources: Iterable[str], build: str, output: str) -> tuple[str, ...]:
        """The whole command line that makes `output` from `sources`, build id compiled in."""
        defines = (
            f"-DFLEET_BUILD_ID={_c_string(build)}",
            f"-DFLEET_CFLAGS={_c_string(' '.join(self.cflags))}",
        )
        return (*self.command, *self.cflags, *defines, "-o", output, *sources)

    def command_line(self, sources: Iterable[str], build: str, output: str) -> str:
        """The same, quoted for sh."""
        return shlex.join(self.arguments(sources, build, output))


def on_host(command: str, target: Target, extra: Sequence[str] = ()) -> Toolchain:
    """A compiler on the host itself: whatever it links by default runs there."""
    flags = QNX_FLAGS if target.os == "qnx" else FLAGS
    return Toolchain(f"{command} on the host", (command,), (*flags, *extra), target)


def on_controller(
    target: Target, controller: Target, compiler: str | None, extra: Sequence[str] = ()
) -> list[Toolchain]:
    """List the toolchains worth trying on the controller for `target`, best first.

    All link statically, so that the host's C library does not matter, except the last resort for the
    controller's own target. `compiler`: the one compiler the inventory asks for. Empty for non-Linux targets.
    """
    if compiler is not None:
        return [
            Toolchain(f"{compiler} on the controller", (compiler,), (*FLAGS, "-static", "-s", *extra), target)
        ]
    if target.os != "linux":
        return []
    commands: list[tuple[str, ...]] = []
    if target == controller:
        commands += [("cc",), ("gcc",), ("clang",)]
    commands += [(f"{triple}-gcc",) for triple in _GNU_TRIPLES.get(target.arch, ())]
    if target.arch in _ZIG_TARGETS:
        commands += [(*tool, "cc", "-target", *_ZIG_TARGETS[target.arch]) for tool in (("zig",), ZIG)]
    static = (*FLAGS, "-static", "-s", *extra)  # stripped: a tenth of the size to send
    found = [Toolchain(f"{' '.join(c)} on the controller", c, static, target) for c in commands]
    if target == controller:
        found.append(
            Toolchain("cc on the controller (not static)", ("cc",), (*FLAGS, *extra), target),
        )
    return found


def sources_for(target: Target, files: Mapping[str, bytes]) -> dict[str, bytes] | None:
    """Pick from the agent's files those a target is built from; None if it has no file of its own."""
    own = (f"native/{target.os}.c", f"native/{target.arch}.c")
    if any(name not in files for name in own):
        return None
    wanted = {*own, "native/generic.c"}
    return {
        name: text for name, text in files.items() if name.endswith(".h") or "/" not in name or name in wanted
    }


def targets(files: Mapping[str, bytes]) -> list[str]:
    """Name what the agent's files can be built for, for error messages: every file in native/."""
    names = (name.removeprefix("native/") for name in files if name.startswith("native/"))
    return sorted(name.removesuffix(".c") for name in names if name.endswith(".c") and name != "generic.c")


def build_id(sources: Mapping[str, bytes], toolchain: Toolchain) -> str:
    """Name a build by its content: sources, target, release, compiler command, flags. 16 hex digits."""
    digest = hashlib.sha256()
    target = f"{toolchain.target}{toolchain.release}"
    for part in (target, *toolchain.command, *toolchain.cflags):
        digest.update(part.encode() + b"\0")
    for name in sorted(sources):
        digest.update(f"{name}\0{len(sources[name])}\0".encode() + sources[name])
    return digest.hexdigest()[:16]


def file_name(build: str, binary: bytes | None = None) -> str:
    """The agent's file name on a host: its build and, where that is known, the hash of its content.

    Flat, and unguessable without the content. What no longer is what its name says is not used.
    """
    return f"{FILE_PREFIX}{build}-{_content(binary)}" if binary else f"{FILE_PREFIX}{build}"


@lru_cache(maxsize=16)  # one binary goes to many hosts
def _content(binary: bytes) -> str:
    return hashlib.sha256(binary).hexdigest()[:HASH_DIGITS]


def found(build: str, names: Iterable[str]) -> str | None:
    """Which of these names is that of an agent of that build, with a hash or without; None if none is."""
    pattern = re.compile(f"{FILE_PREFIX}{build}{_HASH}?")
    return next((name for name in names if pattern.fullmatch(name)), None)


def changed(facts: Facts) -> list[str]:
    """The agents in a host's directory of which the host shows another content than their names say."""
    return [
        name
        for name, digest in facts.workdir_hashes.items()
        if re.fullmatch(f"{FILE_PREFIX}[0-9a-f]+{_HASH}", name) and not digest.startswith(name[-HASH_DIGITS:])
    ]


@dataclass(frozen=True, slots=True)
class Elf:
    """What an ELF header tells: machine, interpreter (None: static) and the newest glibc it asks for."""

    machine: str
    interpreter: str | None
    glibc: tuple[int, int] | None


@lru_cache(maxsize=16)  # one binary goes to many hosts
def read_elf(binary: bytes) -> Elf:
    """Read an ELF file's header and interpreter (System V gABI). Raises ValueError if it is none."""
    if len(binary) < 64 or binary[:4] != b"\x7fELF":
        raise ValueError("not an ELF file")
    order = {1: "<", 2: ">"}.get(binary[5])
    if order is None or binary[4] not in (1, 2):
        raise ValueError("a damaged ELF header")
    wide = binary[4] == 2
    try:
        machine = struct.unpack_from(order + "H", binary, 18)[0]
        interpreter = _interpreter(binary, order, wide=wide)
    except struct.error as err:
        raise ValueError("a truncated ELF file") from err
    versions = [(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", binary)]
    glibc = max(versions, default=None) if interpreter else None
    name = _ELF_MACHINES.get((machine, 64 if wide else 32, order), f"ELF machine {machine}")
    return Elf(name, interpreter, glibc)


def misfit(elf: Elf, target: Target, libc: str | None) -> str | None:
    """Say why a binary cannot run on a host of this target and libc ("glibc 2.36"), or None."""
    if elf.machine != target.arch:
        return f"it is for {elf.machine}, the host is {target.arch}"
    if target.os == "qnx":
        return _misfit_on_qnx(elf.interpreter)
    return _misfit_on_linux(elf.interpreter, elf.glibc, libc) if elf.interpreter else None


def _misfit_on_linux(interpreter: str, glibc: tuple[int, int] | None, libc: str | None) -> str | None:
    if "ldqnx" in interpreter:
        return f"it is for QNX (interpreter {interpreter})"
    musl = "musl" in interpreter
    if libc is not None and musl != ("musl" in libc):
        return f"it needs {'musl' if musl else 'glibc'} ({interpreter}), the host has {libc}"
    found = re.search(r"glibc (\d+)\.(\d+)", libc or "")
    if glibc and found and glibc > (int(found[1]), int(found[2])):
        return f"it needs glibc {glibc[0]}.{glibc[1]}, the host has {libc}"
    return None


def _misfit_on_qnx(interpreter: str | None) -> str | None:
    if interpreter is None:
        return f"it is linked statically; an agent for QNX needs its loader {QNX_INTERPRETER}"
    if interpreter.rpartition("/")[2] != QNX_INTERPRETER:
        return f"it is not for QNX: its interpreter is {interpreter}, not {QNX_INTERPRETER}"
    return None


def _c_string(text: str) -> str:
    """Write text as a C string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _interpreter(binary: bytes, order: str, *, wide: bool) -> str | None:
    """Find PT_INTERP in the program headers of a 32- or 64-bit ELF file."""
    headers_at = struct.unpack_from(order + ("Q" if wide else "I"), binary, 32 if wide else 28)[0]
    size, count = struct.unpack_from(order + "HH", binary, 54 if wide else 42)
    for index in range(count):
        at = headers_at + index * size
        if struct.unpack_from(order + "I", binary, at)[0] != _PT_INTERP:
            continue
        layout, offset_at, size_at = ("Q", 8, 32) if wide else ("I", 4, 16)
        offset = struct.unpack_from(order + layout, binary, at + offset_at)[0]
        length = struct.unpack_from(order + layout, binary, at + size_at)[0]
        return binary[offset : offset + length].rstrip(b"\0").decode("ascii", "replace")
    return None

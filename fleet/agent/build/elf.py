"""Reads ELF headers, to see before a binary is sent whether it can run on a host. Pure."""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.agent.build.systems import SYSTEMS
from fleet.model import ARCHES, Target
from fleet.once import once

_MACHINES: Mapping[tuple[int, int, str], str] = {  # e_machine, word bits, byte order
    **{arch.elf: name for name, arch in ARCHES.items()},
    (20, 32, ">"): "ppc",
    (21, 64, ">"): "ppc64",
    (22, 32, ">"): "s390",
    (40, 32, ">"): "armeb",
    (62, 32, "<"): "x32",
    (183, 64, ">"): "aarch64_be",
    (243, 32, "<"): "riscv32",
    (258, 32, "<"): "loongarch32",
}
_PT_INTERP = 3


@dataclass(frozen=True, slots=True)
class Elf:
    """An ELF file: its machine, interpreter (None: static), the newest glibc and the libc.so it needs."""

    machine: str
    interpreter: str | None
    glibc: tuple[int, int] | None
    libc_so: int | None = None


@once
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
    name = _MACHINES.get((machine, 64 if wide else 32, order), f"ELF machine {machine}")
    libc = re.search(rb"\0libc\.so\.(\d+)\0", binary) if interpreter else None
    return Elf(name, interpreter, glibc, int(libc[1]) if libc else None)


def misfit(elf: Elf, target: Target, libc: str | None) -> str | None:
    """Return why a binary cannot run on a host of this target and libc ("glibc 2.36"); None if it can."""
    if elf.machine != target.arch:
        return f"it is for {elf.machine}, the host is {target.arch}"
    system = SYSTEMS[target.os]
    if elf.interpreter is None:
        if system.static:
            return None
        return f"it is linked statically; an agent for {system.title} needs its loader {system.loader}"
    loader = elf.interpreter.rpartition("/")[2]
    owner = next((one for one in SYSTEMS.values() if one.loader == loader), None)
    if owner is not None and owner is not system:
        return f"it is for {owner.title} (interpreter {elf.interpreter})"
    if system.loader is not None and owner is not system:
        return f"it is not for {system.title}: its interpreter is {elf.interpreter}, not {system.loader}"
    return _wrong_libc(elf.interpreter, elf.glibc, libc) if libc is not None else None


def wrong_release(elf: Elf, target: Target, release: int | None) -> str | None:
    """Return why a program cannot run on this major release of the target's OS; None if nothing is known."""
    built_for = SYSTEMS[target.os].libc_releases.get(elf.libc_so or 0)
    if release is None or built_for in (None, release):
        return None
    title = SYSTEMS[target.os].title
    return f"it needs libc.so.{elf.libc_so}, so it is for {title} {built_for}; the host has {title} {release}"


def _wrong_libc(interpreter: str, glibc: tuple[int, int] | None, libc: str) -> str | None:
    musl = "musl" in interpreter
    if musl != ("musl" in libc):
        return f"it needs {'musl' if musl else 'glibc'} ({interpreter}), the host has {libc}"
    found = re.search(r"glibc (\d+)\.(\d+)", libc)
    if glibc and found and glibc > (int(found[1]), int(found[2])):
        return f"it needs glibc {glibc[0]}.{glibc[1]}, the host has {libc}"
    return None


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

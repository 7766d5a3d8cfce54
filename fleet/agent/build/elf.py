"""Reads ELF headers to tell, before a binary is sent, whether it can run on a host.
Pure.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.agent.build.systems import SYSTEMS
from fleet.errors import DataError
from fleet.late import once
from fleet.model import ARCHES, Target

_MACHINES: Mapping[tuple[int, int, str], str] = {  # e_machine, word bits, byte order
    **{elf: name for name, elf in ARCHES.items()},
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
class _Layout:
    """Where a file of 32 or 64 bits has what tells its program headers."""

    offset_type: str  # of `struct`
    headers: int  # of a file: the offset of its program headers
    header_size: int
    header_count: int
    segment_offset: int  # of a program header: where its segment is in the file
    segment_size: int
    least_header_bytes: int


_WIDE = _Layout("Q", 32, 54, 56, 8, 32, 56)
_NARROW = _Layout("I", 28, 42, 44, 4, 16, 32)
_BYTE_ORDERS = {1: "<", 2: ">"}  # of `struct`, by EI_DATA
_CLASSES = {1: (32, _NARROW), 2: (64, _WIDE)}  # word bits, by EI_CLASS


@dataclass(frozen=True, slots=True)
class Elf:
    """An ELF file's machine, and the interpreter (None if static), glibc and number of
    libc.so it needs.
    """

    machine: str
    interpreter: str | None
    glibc: tuple[int, int] | None
    libc_so: int | None = None


@once
def read_elf(binary: bytes) -> Elf:
    """Read an ELF file's header and interpreter (System V gABI). Raises DataError for
    another file.
    """
    if len(binary) < 64 or binary[:4] != b"\x7fELF":
        raise DataError("not an ELF file")
    class_byte = binary[4]
    order = _BYTE_ORDERS.get(binary[5])
    if order is None or class_byte not in _CLASSES:
        raise DataError("a damaged ELF header")
    bits, layout = _CLASSES[class_byte]
    number = _read_number(binary, order + "H", 18)
    machine = _MACHINES.get((number, bits, order), f"ELF machine {number}")
    interpreter = _read_interpreter(binary, order, layout)
    if interpreter is None:
        return Elf(machine, None, None)
    glibc, libc_so = _find_needed_libc(binary)
    return Elf(machine, interpreter, glibc, libc_so)


def _find_needed_libc(binary: bytes) -> tuple[tuple[int, int] | None, int | None]:
    """Return the newest version of glibc that a binary names, and the number of its
    libc.so; None for what it does not name.
    """
    pairs = re.findall(rb"GLIBC_(\d{1,4})\.(\d{1,4})", binary)
    versions = [(int(major), int(minor)) for major, minor in pairs]
    libc_so = re.search(rb"\0libc\.so\.(\d{1,4})\0", binary)
    number = None
    if libc_so is not None:
        number = int(libc_so[1])
    return max(versions, default=None), number


def explain_mismatch(elf: Elf, target: Target, libc: str | None) -> str | None:
    """Return why a binary cannot run on a host of this target and libc ("glibc 2.36");
    None if it can.
    """
    if elf.machine != target.arch:
        return f"it is for {elf.machine}, the host is {target.arch}"
    system = SYSTEMS[target.os]
    if elf.interpreter is None:
        if system.static:
            return None
        return (
            f"it is linked statically; an agent for {system.title} needs its loader"
            f" {system.loader}"
        )
    loader = elf.interpreter.rpartition("/")[2]
    owners = (other for other in SYSTEMS.values() if other.loader == loader)
    owner = next(owners, None)
    if owner is not None and owner is not system:
        return f"it is for {owner.title} (interpreter {elf.interpreter})"
    if system.loader is not None and owner is not system:
        return (
            f"it is not for {system.title}: its interpreter is {elf.interpreter}, not"
            f" {system.loader}"
        )
    return _explain_wrong_libc(elf.interpreter, elf.glibc, libc)


def explain_wrong_release(elf: Elf, target: Target, release: int | None) -> str | None:
    """Return why a program cannot run on the OS's major version `release`; None if it
    can or might.
    """
    built_for = SYSTEMS[target.os].libc_releases.get(elf.libc_so or 0)
    if release is None or built_for in (None, release):
        return None
    title = SYSTEMS[target.os].title
    return (
        f"it needs libc.so.{elf.libc_so}, so it is for {title} {built_for}; the host"
        f" has {title} {release}"
    )


def _explain_wrong_libc(
    interpreter: str, glibc: tuple[int, int] | None, libc: str | None
) -> str | None:
    if libc is None:
        return None
    needed = "musl" if "musl" in interpreter else "glibc"
    has_musl = "musl" in libc
    if has_musl != (needed == "musl"):
        return f"it needs {needed} ({interpreter}), the host has {libc}"
    match = re.search(r"glibc (\d+)\.(\d+)", libc)
    if glibc is None or match is None:
        return None
    host_version = (int(match[1]), int(match[2]))
    if glibc > host_version:
        major, minor = glibc
        return f"it needs glibc {major}.{minor}, the host has {libc}"
    return None


def _read_interpreter(binary: bytes, order: str, layout: _Layout) -> str | None:
    """Return the path in PT_INTERP; None without one. Raises DataError if damaged."""
    offset_type = order + layout.offset_type
    start = _read_number(binary, offset_type, layout.headers)
    size = _read_number(binary, order + "H", layout.header_size)
    count = _read_number(binary, order + "H", layout.header_count)
    if count and size < layout.least_header_bytes:
        raise DataError("a damaged ELF header")
    interpreter = None
    for number in range(count):
        header = start + number * size
        offset = _read_number(binary, offset_type, header + layout.segment_offset)
        length = _read_number(binary, offset_type, header + layout.segment_size)
        segment = _slice_bytes(binary, offset, length)
        kind = _read_number(binary, order + "I", header)
        if kind == _PT_INTERP and interpreter is None:
            interpreter = segment.rstrip(b"\0").decode("ascii", "replace")
    return interpreter


def _read_number(binary: bytes, type_: str, offset: int) -> int:
    data = _slice_bytes(binary, offset, struct.calcsize(type_))
    (number,) = struct.unpack(type_, data)
    return int(number)


def _slice_bytes(binary: bytes, offset: int, size: int) -> bytes:
    """Return `size` bytes at `offset`. Raises DataError beyond the end, as offsets are
    not trusted.
    """
    if offset + size > len(binary):
        raise DataError(
            f"a truncated or damaged ELF file: it has {len(binary):,} bytes; byte"
            f" {offset + size:,} is needed"
        )
    return binary[offset : offset + size]

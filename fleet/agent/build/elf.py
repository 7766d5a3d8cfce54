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
# The type of an offset; where the headers' offset, size and count are, and a segment's;
# a header's bytes.
_WIDE, _NARROW = ("Q", 32, (54, 56), (8, 32), 56), ("I", 28, (42, 44), (4, 16), 32)


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
    order = {1: "<", 2: ">"}.get(binary[5])
    if order is None or binary[4] not in (1, 2):
        raise DataError("a damaged ELF header")
    wide = binary[4] == 2
    machine = _read_number(binary, order + "H", 18)
    interpreter = _read_interpreter(binary, order, wide=wide)
    versions = [
        (int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d{1,4})\.(\d{1,4})", binary)
    ]
    glibc = max(versions, default=None) if interpreter else None
    name = _MACHINES.get((machine, 64 if wide else 32, order), f"ELF machine {machine}")
    libc = re.search(rb"\0libc\.so\.(\d{1,4})\0", binary) if interpreter else None
    return Elf(name, interpreter, glibc, int(libc[1]) if libc else None)


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
    owner = next(
        (candidate for candidate in SYSTEMS.values() if candidate.loader == loader),
        None,
    )
    if owner is not None and owner is not system:
        return f"it is for {owner.title} (interpreter {elf.interpreter})"
    if system.loader is not None and owner is not system:
        return (
            f"it is not for {system.title}: its interpreter is {elf.interpreter}, not"
            f" {system.loader}"
        )
    return (
        _explain_wrong_libc(elf.interpreter, elf.glibc, libc)
        if libc is not None
        else None
    )


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
    interpreter: str, glibc: tuple[int, int] | None, libc: str
) -> str | None:
    musl = "musl" in interpreter
    if musl != ("musl" in libc):
        return (
            f"it needs {'musl' if musl else 'glibc'} ({interpreter}), the host has"
            f" {libc}"
        )
    host_version = re.search(r"glibc (\d+)\.(\d+)", libc)
    if glibc and host_version and glibc > (int(host_version[1]), int(host_version[2])):
        return f"it needs glibc {glibc[0]}.{glibc[1]}, the host has {libc}"
    return None


def _read_interpreter(binary: bytes, order: str, *, wide: bool) -> str | None:
    """Return the path in PT_INTERP; None without one. wide: a 64-bit file. Raises
    DataError if damaged.
    """
    word, place, counts, fields, header_bytes = _WIDE if wide else _NARROW
    start = _read_number(binary, order + word, place)
    size, count = (_read_number(binary, order + "H", offset) for offset in counts)
    if count and size < header_bytes:
        raise DataError("a damaged ELF header")
    interpreter = None
    for position in range(start, start + count * size, size or 1):
        offset, length = (
            _read_number(binary, order + word, position + field) for field in fields
        )
        segment = _slice_bytes(binary, offset, length)
        if (
            interpreter is None
            and _read_number(binary, order + "I", position) == _PT_INTERP
        ):
            interpreter = segment.rstrip(b"\0").decode("ascii", "replace")
    return interpreter


def _read_number(binary: bytes, layout: str, offset: int) -> int:
    number: int = struct.unpack(
        layout, _slice_bytes(binary, offset, struct.calcsize(layout))
    )[0]
    return number


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

"""Reads ELF headers to tell, before a binary is sent, whether it can run on a host.
Pure.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.agent.build.systems import SYSTEMS, System
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
_E_MACHINE = 18  # the offset of the file header's machine number


@dataclass(frozen=True, slots=True)
class _Layout:
    """The offsets of some fields in an ELF file of 32 or 64 bits."""

    offset_type: str  # `struct`'s letter for a field that is an offset or a size
    # fields of the file header: where the program headers begin, the bytes of each,
    # and how many there are
    e_phoff: int
    e_phentsize: int
    e_phnum: int
    # fields of a program header: where its segment is in the file, and its bytes
    p_offset: int
    p_filesz: int
    program_header_bytes_min: int


_WIDE = _Layout(
    offset_type="Q",
    e_phoff=32,
    e_phentsize=54,
    e_phnum=56,
    p_offset=8,
    p_filesz=32,
    program_header_bytes_min=56,
)
_NARROW = _Layout(
    offset_type="I",
    e_phoff=28,
    e_phentsize=42,
    e_phnum=44,
    p_offset=4,
    p_filesz=16,
    program_header_bytes_min=32,
)
_BYTE_ORDERS = {1: "<", 2: ">"}  # `struct`'s sign of the byte order, by EI_DATA
_CLASSES = {1: (32, _NARROW), 2: (64, _WIDE)}  # word bits, by EI_CLASS


@dataclass(frozen=True, slots=True)
class Elf:
    """What an ELF file needs of the host that runs it."""

    machine: str  # an architecture as in ARCHES, or "ELF machine 99"
    interpreter: str | None  # the path of its loader; None if it is linked statically
    glibc: tuple[int, int] | None  # (2, 36) for glibc 2.36; None if it needs no glibc
    libc_so: int | None = None  # 6 for libc.so.6; None if it names no such file

    @property
    def is_static(self) -> bool:
        """Whether the file contains all that it needs."""
        return self.interpreter is None


@once
def read_elf(binary: bytes) -> Elf:
    """Read an ELF file's header and interpreter (System V gABI). Raises DataError for
    another file.
    """
    # a file header has 64 bytes; in a 32-bit file it has 52, but the whole file is
    # longer
    if len(binary) < 64 or binary[:4] != b"\x7fELF":
        raise DataError("not an ELF file")
    class_byte = binary[4]
    byte_order = _BYTE_ORDERS.get(binary[5])
    if byte_order is None or class_byte not in _CLASSES:
        raise DataError("a damaged ELF header")
    word_bits, layout = _CLASSES[class_byte]
    number = _read_number(binary, byte_order + "H", _E_MACHINE)
    machine = _MACHINES.get((number, word_bits, byte_order), f"ELF machine {number}")
    interpreter = _read_interpreter(binary, byte_order, layout)
    if interpreter is None:  # a static file contains its libc, whatever it names
        return Elf(machine, interpreter=None, glibc=None)
    glibc, libc_so = _find_needed_libc(binary)
    return Elf(machine, interpreter, glibc, libc_so)


def _find_needed_libc(binary: bytes) -> tuple[tuple[int, int] | None, int | None]:
    """Return the newest version of glibc that a binary names, and the number of the
    libc.so that it names: ((2, 36), 6) for glibc 2.36 and libc.so.6. Either is None if
    the binary names no such thing.
    """
    digits = re.findall(rb"GLIBC_(\d{1,4})\.(\d{1,4})", binary)
    versions = [(int(major), int(minor)) for major, minor in digits]
    newest = max(versions, default=None)
    libc_so = re.search(rb"\0libc\.so\.(\d{1,4})\0", binary)
    if libc_so is None:
        return newest, None
    return newest, int(libc_so[1])


def explain_mismatch(elf: Elf, target: Target, libc: str | None) -> str | None:
    """Return why a binary cannot run on a host of this target and libc; None if it can.
    libc: such as "glibc 2.36"; None if unknown.
    """
    if elf.machine != target.arch:
        return f"it is for {elf.machine}, the host is {target.arch}"
    if elf.interpreter is None:
        return _explain_static(SYSTEMS[target.os])
    return _explain_wrong_loader(
        elf.interpreter, SYSTEMS[target.os]
    ) or _explain_wrong_libc(elf.interpreter, elf.glibc, libc)


def _explain_static(system: System) -> str | None:
    """Return why a static binary cannot run on an operating system; None if it can."""
    if system.static:
        return None
    return (
        f"it is linked statically; an agent for {system.title} needs its loader"
        f" {system.loader}"
    )


def _explain_wrong_loader(interpreter: str, system: System) -> str | None:
    """Return why a binary with this interpreter cannot run on an operating system; None
    if it can, as far as its loader goes. The interpreter is the path of the loader.

    `system.loader` is None for Linux, where each C library brings a loader of another
    name: any loader is right that is not another system's.
    """
    loader = interpreter.rpartition("/")[2]
    if loader == system.loader:
        return None
    for other in SYSTEMS.values():
        if other.loader == loader:
            return f"it is for {other.title} (interpreter {interpreter})"
    if system.loader is None:
        return None
    return (
        f"it is not for {system.title}: its interpreter is {interpreter}, not"
        f" {system.loader}"
    )


def explain_wrong_release(elf: Elf, target: Target, release: int | None) -> str | None:
    """Return why a program cannot run on the OS's major version `release`; None if it
    can, or if either version is unknown. The number of the libc.so that the program
    names tells the version it was built for.
    """
    # 0, for no libc.so, is not in the table, so that `built_for` is None
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
    """Return why a binary that needs this `glibc` cannot run with the host's `libc`,
    such as "glibc 2.36" or "musl 1.2.4"; None if it can, or if the host's is unknown.
    """
    if libc is None:
        return None
    needs_musl = "musl" in interpreter
    needed = "musl" if needs_musl else "glibc"
    has_musl = "musl" in libc
    if has_musl != needs_musl:
        return f"it needs {needed} ({interpreter}), the host has {libc}"
    match = re.search(r"glibc (\d+)\.(\d+)", libc)
    if glibc is None or match is None:
        return None
    host_version = (int(match[1]), int(match[2]))
    if glibc > host_version:
        major, minor = glibc
        return f"it needs glibc {major}.{minor}, the host has {libc}"
    return None


def _read_interpreter(binary: bytes, byte_order: str, layout: _Layout) -> str | None:
    """Return the path in the first segment of type PT_INTERP; None without such a
    segment. Raises DataError if any segment is beyond the file's end. byte_order: "<"
    or ">", as `struct` has it. layout: the offsets of the fields.
    """
    offset_type = byte_order + layout.offset_type
    first_header_offset = _read_number(binary, offset_type, layout.e_phoff)
    header_bytes = _read_number(binary, byte_order + "H", layout.e_phentsize)
    header_count = _read_number(binary, byte_order + "H", layout.e_phnum)
    if header_count and header_bytes < layout.program_header_bytes_min:
        raise DataError("a damaged ELF header")
    interpreter = None
    for index in range(header_count):
        header_offset = first_header_offset + index * header_bytes
        offset = _read_number(binary, offset_type, header_offset + layout.p_offset)
        length = _read_number(binary, offset_type, header_offset + layout.p_filesz)
        segment = _slice_bytes(binary, offset, length)
        segment_type = _read_number(binary, byte_order + "I", header_offset)
        if segment_type == _PT_INTERP and interpreter is None:
            interpreter = segment.rstrip(b"\0").decode("ascii", "replace")
    return interpreter


def _read_number(binary: bytes, type_: str, offset: int) -> int:
    """Read the number at an offset. type_: its byte order and size for `struct`."""
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

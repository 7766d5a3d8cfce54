"""Builds SMBIOS tables of memory, as firmware lays them out (DSP0134 3.7, types 16, 17
and 127).
"""

import struct
from collections.abc import Iterable

END = bytes((127, 4, 0xFF, 0xFE, 0, 0))


def build_array(handle: int, *, ecc: int = 6, use: int = 3, slots: int = 2) -> bytes:
    """Build a memory array; ecc: 3 none, 5 single-bit, 6 multi-bit. use: 3 system
    memory, 4 video.
    """
    return (
        struct.pack(
            "<BBHBBBLHH", 16, 15, handle, 3, use, ecc, 0x80000000, 0xFFFE, slots
        )
        + b"\0\0"
    )


def build_dimm(
    handle: int,
    locator: str,
    bank: str = "",
    *,
    array: int = 1,
    mib: int = 16384,
    kind: int = 0x1A,
    rated: int = 3200,
    configured: int | None = None,
    ranks: int = 2,
    width: int = 64,
) -> bytes:
    """Build a memory device, with a serial number; mib: 0 is an empty slot, 0xFFFF
    unknown.
    """
    if configured is None:
        configured = rated
    size = 0x7FFF if mib >= 0x7FFF and mib != 0xFFFF else mib
    short = [min(speed, 0xFFFF) for speed in (rated, configured)]
    texts = (locator, bank or "Not Specified", "Maker", "S3R1AL", "ASSET", "PART")
    places = (
        array,
        0xFFFE,
        min(width + 8, 0xFFFF),
        width,
        size,
        9,
        0,
        1,
        2,
        kind,
        0x80,
        short[0],
    )
    body = struct.pack("<HHHHHBBBBBHH", *places)
    body += struct.pack(
        "<BBBBBLHHHH", 3, 4, 5, 6, ranks, mib, short[1], 1200, 1200, 1200
    )
    body += bytes(0x54 - 4 - len(body)) + struct.pack("<LL", rated, configured)
    return (
        struct.pack("<BBH", 17, 4 + len(body), handle)
        + body
        + "\0".join(texts).encode()
        + b"\0\0"
    )


def build_table(*structures: bytes | Iterable[bytes]) -> bytes:
    """Join structures behind one that is not of memory, and end the table."""
    system = (
        struct.pack("<BBHBBBB", 1, 8, 0, 1, 2, 3, 4)
        + b"Maker\0Server\0SECRET-SYSTEM-SERIAL\0\0"
    )
    flat = (
        part
        for item in structures
        for part in ([item] if isinstance(item, bytes) else item)
    )
    return system + b"".join(flat) + END


def print_hex(table: bytes) -> list[str]:
    """Print a table as `od -An -v -tx1` does."""
    return [
        " " + table[start : start + 16].hex(" ") for start in range(0, len(table), 16)
    ]

"""Checksums of a whole Parquet file, kept where other readers do not look: right before its footer.

A Parquet reader finds the footer from the end of the file and the pages from the footer, so sixteen bytes
between them disturb nobody. They are `_MARK` and two CRC-32, of everything before and of the footer after.
Page checksums, which Parquet knows, protect neither page headers nor the footer.
"""

import zlib
from pathlib import Path

_MARK = b"fleetcrc"
_TAIL = 8  # the length of the footer and "PAR1"
_ROOM = len(_MARK) + 8
_PIECE = 1 << 20


class DamagedError(OSError):
    """A file does not hold what was written into it."""


def sealed(file: memoryview) -> bytes:
    """The bytes of a Parquet file with its checksums in place."""
    at = _footer_at(bytes(file[-_TAIL:]), len(file))
    pages, footer = file[:at], file[at:]
    return b"".join([pages, _seal(zlib.crc32(pages), zlib.crc32(footer)), footer])


def seal(path: Path) -> None:
    """Put the checksums into a Parquet file that stands on a disk; its pages are read once."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(size - _TAIL)
        at = _footer_at(file.read(), size)
        file.seek(0)
        crc, left = 0, at
        while left:
            piece = file.read(min(_PIECE, left))
            crc, left = zlib.crc32(piece, crc), left - len(piece)
        footer = file.read()
        file.seek(at)
        file.write(_seal(crc, zlib.crc32(footer)))
        file.write(footer)


def check(file: memoryview) -> None:
    """Raise DamagedError unless a whole file is as it was written; one without checksums passes."""
    at = _footer_at(bytes(file[-_TAIL:]), len(file))
    if pages := _checked_footer(bytes(file[max(at - _ROOM, 0) : at]), file[at:]):
        _compare("pages", zlib.crc32(file[: at - _ROOM]), pages)


def tail_length(tail: bytes, size: int) -> int:
    """How many bytes at the end of a file of `size` `check_tail` has to see; `tail`: its last 8."""
    return min(size - _footer_at(tail, size) + _ROOM, size)


def check_tail(end: bytes) -> None:
    """The same for the footer alone, of a file too large to read whole: `end` as `tail_length` says."""
    _checked_footer(end[:_ROOM], memoryview(end)[_ROOM:])


def _footer_at(tail: bytes, size: int) -> int:
    if tail[-4:] != b"PAR1":
        raise DamagedError("it does not end as a Parquet file does")
    at = size - _TAIL - int.from_bytes(tail[:4], "little")
    if at < len(b"PAR1"):
        raise DamagedError("its footer is longer than the file")
    return at


def _checked_footer(seal_: bytes, footer: memoryview) -> bytes | None:
    """Compare the footer; the expected checksum of the pages, or None where there is none."""
    if not seal_.startswith(_MARK):
        return None
    _compare("footer", zlib.crc32(footer), seal_[-4:])
    return seal_[len(_MARK) : -4]


def _seal(pages: int, footer: int) -> bytes:
    return _MARK + pages.to_bytes(4, "little") + footer.to_bytes(4, "little")


def _compare(what: str, found: int, expected: bytes) -> None:
    if found != int.from_bytes(expected, "little"):
        raise DamagedError(f"its {what} are not what was written (checksum)")

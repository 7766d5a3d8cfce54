"""Seal each stored Parquet file, JSON object and journal line with a CRC-32
(docs/tables.md).

The end of a Parquet file is its footer, the footer's length (4 bytes) and "PAR1". fleet
inserts a seal between the pages and the footer; other readers skip it.
"""

import json
import os
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleet.errors import DataError

_MARK = b"fleetcrc"
# the mark, the checksum of the pages, and that of the footer
_SEAL = struct.Struct("<8sII")
_TAIL_BYTES = 8  # the length of the footer and "PAR1"
_PIECE_BYTES = 4 << 20
_KEY = "crc32"
_JSON_SEAL = re.compile(rb',"crc32":"(?P<crc>[0-9a-f]{8})"\}\s*$')
NOT_AS_WRITTEN = "not what was written (checksum)"


def seal_file(path: Path) -> None:
    """Insert a seal, the checksums of pages and footer, before a Parquet file's footer.
    The order is then: pages, seal, footer, tail (the footer's length and "PAR1").
    Raises OSError, DataError.
    """
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size - _TAIL_BYTES)
        tail = file.read()
        footer_start = _locate_footer(tail, size)
        file.seek(0)
        pages_crc = 0
        bytes_left = footer_start
        while bytes_left:
            piece = file.read(min(_PIECE_BYTES, bytes_left))
            pages_crc = zlib.crc32(piece, pages_crc)
            bytes_left -= len(piece)
        # written once more, after the seal
        footer_and_tail = file.read()
        seal = _SEAL.pack(_MARK, pages_crc, zlib.crc32(footer_and_tail))
        file.seek(footer_start)
        file.write(seal + footer_and_tail)


def read_footer(read: Callable[[int, int], bytes], size: int, *, pages: bool) -> bytes:
    """Read the footer of a sealed Parquet file, and the tail after it. Verify both; if
    `pages`, verify the pages as well. read: called with a number of bytes and their
    offset. size: of the file, which has pages, seal, footer and tail, in this order.
    Raises DataError if a checksum differs, or if the file has no seal.
    """
    tail_start = max(0, size - _TAIL_BYTES)
    tail = read(_TAIL_BYTES, tail_start)
    footer_start = _locate_footer(tail, size)
    seal_start = max(0, footer_start - _SEAL.size)
    seal_size = footer_start - seal_start  # less than that of a seal in a tiny file
    end_of_file = read(size - seal_start, seal_start)
    seal = end_of_file[:seal_size]
    footer_and_tail = end_of_file[seal_size:]
    _require_seal(seal)
    _, sealed_pages_crc, sealed_footer_crc = _SEAL.unpack(seal)
    _require_crc("footer is", zlib.crc32(footer_and_tail), sealed_footer_crc)
    if pages:
        pages_crc = _compute_crc(read, seal_start)
        _require_crc("pages are", pages_crc, sealed_pages_crc)
    return footer_and_tail


def _compute_crc(read: Callable[[int, int], bytes], size: int) -> int:
    """Return the CRC-32 of the first `size` bytes of a file."""
    crc = 0
    for start in range(0, size, _PIECE_BYTES):
        piece_size = min(_PIECE_BYTES, size - start)
        piece = read(piece_size, start)
        crc = zlib.crc32(piece, crc)
    return crc


def seal_json(text: str) -> bytes:
    """Append a key to the JSON of a non-empty object: the checksum of the text before
    that key. `{"a":1}` becomes `{"a":1,"crc32":"a702fc6e"}`.
    """
    body = text.encode().removesuffix(b"}")
    return b'%b,"%b":"%08x"}' % (body, _KEY.encode(), zlib.crc32(body))


def unseal_json(data: bytes) -> Any:
    """Parse JSON; return the value. If `seal_json` has sealed it, verify the checksum,
    and leave it out of the value. Other JSON is returned as it is. Raises DataError for
    a damaged file.
    """
    value = _parse_json(data)
    if isinstance(value, dict) and value.pop(_KEY, None) is not None:
        # the checksum is of the bytes before its own key, which was written last
        seal = _JSON_SEAL.search(data)
        if seal is None:
            raise DataError(f"it is {NOT_AS_WRITTEN}")
        sealed_text = data[: seal.start()]
        if int(seal["crc"], 16) != zlib.crc32(sealed_text):
            raise DataError(f"it is {NOT_AS_WRITTEN}")
    return value


def _parse_json(data: bytes) -> Any:
    """Parse JSON. Raises DataError, also for a text that cannot be UTF-8."""
    try:
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is not text
    except RecursionError:
        raise DataError("it is nested too deeply") from None
    except ValueError as err:
        # some of Python's messages say more after a semicolon
        reason, _, _ = str(err).partition(";")
        raise DataError(f"it is not JSON: {reason}") from None
    return value


def seal_line(line: bytes) -> bytes:
    """Append a tab, a checksum and a newline to a line that has no newline."""
    return b"%b\t%08x\n" % (line, zlib.crc32(line))


def unseal_line(line: bytes) -> bytes | None:
    """Strip the checksum from a sealed line that has no newline. Return None if it does
    not match.
    """
    content = line[:-9]  # without the tab and the 8 digits
    return content if line + b"\n" == seal_line(content) else None


def _locate_footer(tail: bytes, size: int) -> int:
    """Return where the footer of a Parquet file begins. tail: the last 8 bytes, which
    are the footer's length and "PAR1". size: of the file. Raises DataError.
    """
    if tail[-4:] != b"PAR1":
        raise DataError("it does not end as a Parquet file does")
    footer_bytes = int.from_bytes(tail[:4], "little")
    footer_start = size - _TAIL_BYTES - footer_bytes
    if footer_start < len(b"PAR1"):  # a file begins with that, too
        raise DataError("its footer is longer than the file")
    return footer_start


def _require_seal(seal: bytes) -> None:
    """Raise DataError unless these bytes before a footer are a seal. If up to half of
    the mark's bytes differ, the mark is damaged; if more do, there never was a seal.
    """
    differing_bytes = 0
    for byte, expected in zip(seal, _MARK, strict=False):
        if byte != expected:
            differing_bytes += 1
    if len(seal) < _SEAL.size or differing_bytes > len(_MARK) // 2:
        raise DataError("it has no checksums")
    if differing_bytes:
        raise DataError(f"the marker of its checksums is {NOT_AS_WRITTEN}")


def _require_crc(part: str, crc: int, expected: int) -> None:
    """Raise DataError unless a checksum is as expected. part: what it is of, with the
    verb, as "footer is".
    """
    if crc != expected:
        raise DataError(f"its {part} {NOT_AS_WRITTEN}")

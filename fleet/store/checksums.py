"""Seal each stored Parquet file, JSON object and journal line with a CRC-32
(docs/tables.md).
"""

import json
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleet.errors import DataError

_MARK = b"fleetcrc"
# the mark, and the checksums of the pages and the footer
_SEAL = struct.Struct("<8sII")
_TAIL = 8  # the length of the footer and "PAR1"
_PIECE = 4 << 20
_KEY = "crc32"
_JSON_SEAL = re.compile(rb',"crc32":"([0-9a-f]{8})"\}\s*$')
NOT_AS_WRITTEN = "not what was written (checksum)"


def seal_file(path: Path) -> None:
    """Insert checksums of pages and footer before a Parquet file's footer. Raises
    OSError, DataError.
    """
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(size - _TAIL)
        footer_start = _locate_footer(file.read(), size)
        file.seek(0)
        pages_crc = 0
        left = footer_start
        while left:
            piece = file.read(min(_PIECE, left))
            pages_crc = zlib.crc32(piece, pages_crc)
            left -= len(piece)
        footer = file.read()
        seal = _SEAL.pack(_MARK, pages_crc, zlib.crc32(footer))
        file.seek(footer_start)
        file.write(seal + footer)


def read_footer(read: Callable[[int, int], bytes], size: int, *, pages: bool) -> bytes:
    """Read and verify a Parquet footer by read(count, offset). pages: verify pages too.
    Raises DataError.
    """
    tail = read(_TAIL, max(size - _TAIL, 0))
    footer_start = _locate_footer(tail, size)
    pages_end = max(0, footer_start - _SEAL.size)
    seal_size = footer_start - pages_end  # 0 if there is no room for a seal
    seal_and_footer = read(size - pages_end, pages_end)
    seal = seal_and_footer[:seal_size]
    footer = seal_and_footer[seal_size:]
    _verify_footer(seal, footer)
    if pages:
        _, pages_crc, _ = _SEAL.unpack(seal)
        _require_crc("pages are", _compute_crc(read, pages_end), pages_crc)
    return footer


def _compute_crc(read: Callable[[int, int], bytes], size: int) -> int:
    """Return the CRC-32 of the first `size` bytes of a file."""
    crc = 0
    for start in range(0, size, _PIECE):
        piece = read(min(_PIECE, size - start), start)
        crc = zlib.crc32(piece, crc)
    return crc


def seal_json(text: str) -> bytes:
    """Append a key to the JSON of a non-empty object: the checksum of the text before
    that key.
    """
    body = text.encode().removesuffix(b"}")
    return b'%b,"%b":"%08x"}' % (body, _KEY.encode(), zlib.crc32(body))


def unseal_json(data: bytes) -> Any:
    """Parse a JSON file; verify and drop its checksum, if any. Raises DataError for a
    damaged file.
    """
    try:
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is not text
    except RecursionError:
        raise DataError("it is nested too deeply") from None
    except ValueError as err:
        raise DataError(f"it is not JSON: {str(err).partition(';')[0]}") from None
    if isinstance(value, dict) and value.pop(_KEY, None) is not None:
        seal = _JSON_SEAL.search(data)
        if seal is None or int(seal[1], 16) != zlib.crc32(data[: seal.start()]):
            raise DataError(f"it is {NOT_AS_WRITTEN}")
    return value


def seal_line(line: bytes) -> bytes:
    """Append a tab, a checksum and a newline to a line that has no newline."""
    return b"%b\t%08x\n" % (line, zlib.crc32(line))


def unseal_line(line: bytes) -> bytes | None:
    """Strip the checksum from a sealed line that has no newline. Return None if it does
    not match.
    """
    content = line[:-9]
    return content if line + b"\n" == seal_line(content) else None


def _locate_footer(tail: bytes, size: int) -> int:
    if tail[-4:] != b"PAR1":
        raise DataError("it does not end as a Parquet file does")
    footer_start = size - _TAIL - int.from_bytes(tail[:4], "little")
    if footer_start < len(b"PAR1"):
        raise DataError("its footer is longer than the file")
    return footer_start


def _verify_footer(seal: bytes, footer: bytes) -> None:
    differing = 0  # bytes of the marker
    for byte, expected in zip(seal, _MARK, strict=False):
        if byte != expected:
            differing += 1
    if len(seal) < _SEAL.size or differing > len(_MARK) // 2:
        raise DataError("it has no checksums")
    if differing:
        raise DataError(f"the marker of its checksums is {NOT_AS_WRITTEN}")
    _, _, footer_crc = _SEAL.unpack(seal)
    _require_crc("footer is", zlib.crc32(footer), footer_crc)


def _require_crc(part: str, crc: int, expected: int) -> None:
    if crc != expected:
        raise DataError(f"its {part} {NOT_AS_WRITTEN}")

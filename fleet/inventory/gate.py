"""Reads a file that may be anything, within bounds: it never waits for ever."""

import os
import select
import stat
from pathlib import Path

from fleet.errors import InventoryError
from fleet.store.files import require_regular

PIPE_SILENCE_S = 60.0
_PIECE_BYTES = 1 << 20


def read_bounded(path: Path, limit_bytes: int, *, is_named: bool) -> bytes:
    """Read all of a regular file, or of a pipe if the user has named it. Raises
    OSError; InventoryError if there is more than the limit.
    """
    is_pipe = is_named and stat.S_ISFIFO(path.stat().st_mode)
    if not is_pipe:
        require_regular(path, "a file")
    # with O_NONBLOCK, opening a pipe does not wait for its writer
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # a byte more than the limit shows that the file is larger
        data = _read_at_most(handle, limit_bytes + 1)
    finally:
        os.close(handle)
    if is_pipe and not data:
        raise OSError("nothing came through this pipe")
    require_size(path, data, limit_bytes)
    return data


def require_size(path: Path, data: bytes, limit_bytes: int) -> None:
    """Raise InventoryError if there is more of a file than the limit. data: what was
    read, up to a byte more.
    """
    if len(data) > limit_bytes:
        raise InventoryError(
            f"{path}: larger than {limit_bytes >> 20} MiB; is it the right file?"
        )


def _read_at_most(handle: int, count: int) -> bytes:
    """Read until the file ends, but at most `count` bytes. Raises TimeoutError if
    nothing comes through a pipe for PIPE_SILENCE_S.
    """
    data = bytearray()
    while len(data) < count:
        try:
            piece = os.read(handle, min(_PIECE_BYTES, count - len(data)))
        except BlockingIOError:  # a pipe whose writer is still at work
            if not select.select([handle], [], [], PIPE_SILENCE_S)[0]:
                raise TimeoutError(
                    f"nothing came through this pipe for {PIPE_SILENCE_S:g} s"
                ) from None
            continue
        if not piece:
            break
        data += piece
    return bytes(data)

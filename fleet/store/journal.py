"""The journal of one run: every line of the agent, byte for byte, before anything else happens to it.

`run.json` says what was to be measured; `stream.jsonl` is what came back. A killed controller loses
nothing that `append` returned for, because the bytes are with the kernel. A power cut can cost what
arrived in the last `SYNC_INTERVAL_S` seconds, and may leave the last line torn.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from fleet.errors import StoreError
from fleet.store.files import storing

RUN_FILE = "run.json"
STREAM_FILE = "stream.jsonl"
SYNC_INTERVAL_S = 1.0


class Journal:
    """An append-only file of lines. One writer; used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / STREAM_FILE
        with storing("open the journal", self.path):
            self._descriptor: int | None = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            self._length = os.fstat(self._descriptor).st_size
        self._synced = time.monotonic()

    def append(self, line: bytes) -> None:
        """Write one line, given without its newline, and return once the kernel has it.

        Raises StoreError if it cannot be written whole; the journal then ends with the line before it.
        """
        if self._descriptor is None:
            raise StoreError(f"{self.path}: the journal is closed.")
        data = line + b"\n"
        try:
            with storing("write the journal", self.path, kept=True):
                _write_all(self._descriptor, data)
                self._length += len(data)
                self._sync_now_and_then()
        except StoreError:
            self._drop_torn_line()
            raise

    def lines(self) -> Iterator[bytes]:
        """Read back every whole line, without its newline; a torn last line is left out."""
        with storing("read the journal", self.path), self.path.open("rb") as stream:
            for line in stream:
                if line.endswith(b"\n"):
                    yield line[:-1]

    def close(self) -> None:
        """Bring everything to the disk and close. Safe to call twice."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            with storing("write the journal", self.path, kept=True):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; an error already under way is not hidden by one of closing."""
        try:
            self.close()
        except StoreError:
            if error is None:
                raise

    def _sync_now_and_then(self) -> None:
        now = time.monotonic()
        if now - self._synced >= SYNC_INTERVAL_S:
            assert self._descriptor is not None  # noqa: S101
            os.fsync(self._descriptor)
            self._synced = now

    def _drop_torn_line(self) -> None:
        """Cut back to the last whole line; where even that fails, `lines` leaves the torn one out."""
        if self._descriptor is not None:
            try:
                os.ftruncate(self._descriptor, self._length)
            except OSError:
                return


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`; the kernel takes it in parts when the disk is nearly full, then says why."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]

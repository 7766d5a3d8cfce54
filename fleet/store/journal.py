"""Journal a run: write each line of its agents, with a checksum, before anything else
uses the line.
"""

import fcntl
import fnmatch
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import chain, islice, repeat
from pathlib import Path

from fleet.errors import LockedError, StoreError
from fleet.store.checksums import seal_line, unseal_line
from fleet.store.files import (
    list_folder,
    open_regular,
    opened_path,
    store_errors,
    sync,
    write_all,
)
from fleet.store.places import RUN_FILE

LOCK_FILE = "lock"
SYNC_INTERVAL_S = 1.0
# so much is in the tables, and on the disk, well within that time
SOON_PUBLISHED_BYTES = 1 << 20


class Journal(AbstractContextManager["Journal"]):
    """A run's lines in append-only files, one (a part) for each agent's lines. Only one
    thread may write.
    """

    def __init__(self, inside: Path, folder: Path | None = None) -> None:
        """Open and lock the journal in `inside`. folder: its final path. Raises
        LockedError, StoreError.
        """
        self.folder = folder or inside
        self._descriptor: int | None = None
        with store_errors("open the journal", self.folder):
            try:
                self._handle = os.open(
                    inside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                )
            except FileNotFoundError:
                text = (
                    f"{inside.name}: another controller has just stored it, or removed"
                    " its journal."
                )
                raise LockedError(text) from None
        try:
            self._check_parts()
            self._lock: int | None = _lock_folder(self._opened_folder, self.folder)
        except BaseException:
            os.close(self._handle)
            raise
        # of the part being written
        self.part_path = self._make_path(max(1, len(self._list_paths())))
        self._length = 0
        # how many lines of each present part `parts` returns
        self.line_limits: Sequence[int] = ()
        self._waiting = 0  # bytes the disk may not have
        # whether the disk has the names of the files, and run.json
        self._name_blocks = False

    @property
    def _opened_folder(self) -> Path:
        """Return a path to the folder that was opened, even if another now has its
        name.
        """
        return Path(opened_path(self._handle))

    def begin_part(self) -> None:
        """Begin the next part, for another agent's lines, unless the present one is
        empty.
        """
        if self.part_path.exists() and self.part_path.stat().st_size:
            self._close_part()
            self.part_path = self._make_path(len(self._list_paths()) + 1)

    def parts(self) -> list[Iterator[bytes | None]]:
        """Return the lines of each part, up to its limit. Damaged lines are None; omit
        a torn last line.
        """
        limits = chain(self.line_limits, repeat(None))
        paths_and_limits = zip(self._list_paths(), limits, strict=False)
        return [islice(_read_lines(path), limit) for path, limit in paths_and_limits]

    def check_not_removed(self) -> None:
        """Raise StoreError if the journal was removed while it was written."""
        if not self.folder.is_dir():
            raise StoreError(
                f"{self.folder}: the journal was removed or moved during the run. If it"
                " was moved, `fleet resume --results ROOT` completes the run where it"
                " is now; if it was removed, what it held is lost: measure the host"
                " again.",
                lost=True,
            )

    def _make_path(self, number: int) -> Path:
        name = "stream.jsonl" if number == 1 else f"stream-{number}.jsonl"
        return self.folder / name

    def _list_paths(self) -> list[Path]:
        """Return the path of each part, up to the first one missing. Raises
        StoreError.
        """
        with store_errors("read the journal", self.folder):
            names = list_folder(self.folder)
        paths: list[Path] = []
        while (path := self._make_path(len(paths) + 1)).name in names:
            paths.append(path)
        return paths

    def _check_parts(self) -> None:
        """Raise StoreError if a part is missing, since later parts would be published
        without it.
        """
        count = len(self._list_paths())
        names = fnmatch.filter(list_folder(self.folder), "stream*.jsonl")
        if len(names) > count:
            raise StoreError(
                f"{self._make_path(count + 1)}: this part of the journal is missing,"
                " though later ones are there. Put it back; if it is lost, rename the"
                " later ones so that their numbers follow."
            )

    def _open(self) -> int:
        with store_errors("open the journal", self.part_path):
            path = self._opened_folder / self.part_path.name
            descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            self._length = os.fstat(descriptor).st_size
        self._synced = time.monotonic()
        self._name_blocks = False
        return descriptor

    def append(self, line: bytes) -> None:
        """Write a line, given without newline; return when the kernel has all of it.
        Raises StoreError.
        """
        if self._lock is None:
            raise StoreError(f"{self.part_path}: the journal is closed.")
        if self._descriptor is None:
            self._descriptor = self._open()
        data = seal_line(line)
        has_lines = self._length > 0
        try:
            with store_errors("write the journal", self.part_path, kept=has_lines):
                write_all(self._descriptor, data)
                self._length += len(data)
                self._waiting += len(data)
                if time.monotonic() - self._synced >= SYNC_INTERVAL_S:
                    self.check_not_removed()
                    self._sync(self._descriptor)
        except StoreError:
            # where even that fails, `parts` leaves the torn line out
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._length)
            raise

    def sync_if_large(self) -> None:
        """Sync to the disk if so many bytes are unsynced that publishing may take long.
        Raises StoreError.
        """
        if self._descriptor is not None and self._waiting > SOON_PUBLISHED_BYTES:
            with store_errors("write the journal", self.part_path, kept=True):
                self._sync(self._descriptor)

    def close(self) -> None:
        """Sync to the disk, close, and unlock. May be called twice. Raises
        StoreError.
        """
        try:
            self._close_part()
        finally:
            lock = self._lock
            self._lock = None
            if lock is not None:
                os.close(lock)
                os.close(self._handle)

    def _close_part(self) -> None:
        descriptor = self._descriptor
        self._descriptor = None
        if descriptor is None:
            return
        try:
            with store_errors("write the journal", self.part_path, kept=True):
                # else the run is published and the journal gone
                if self.part_path.exists():
                    self._sync(descriptor)
        finally:
            os.close(descriptor)

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: object
    ) -> None:
        """Close the journal; suppress a StoreError in closing if the block has raised
        an error.
        """
        try:
            self.close()
        except StoreError:
            if error is None:
                raise

    def _sync(self, descriptor: int) -> None:
        os.fsync(descriptor)
        self._synced = time.monotonic()
        self._waiting = 0
        if not self._name_blocks:
            for path in (self.folder / RUN_FILE, self.folder, self.folder.parent):
                sync(path)
            self._name_blocks = True


def _read_lines(path: Path) -> Iterator[bytes | None]:
    with (
        store_errors("read the journal", path),
        os.fdopen(open_regular(path), "rb") as stream,
    ):
        for line in stream:
            if line.endswith(b"\n"):
                yield unseal_line(line[:-1])


def _lock_folder(inside: Path, folder: Path) -> int:
    """Lock the journal until the returned descriptor is closed. Raises LockedError,
    StoreError.
    """
    with store_errors("open the journal", folder / LOCK_FILE):
        descriptor = open_regular(inside / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            text = (
                f"{folder.name}: under way: process {who} on this machine is measuring"
                " it. Wait for it."
            )
            raise LockedError(text) from None
        except OSError:
            return descriptor  # a file system without locks
        os.pwrite(descriptor, f"{os.getpid():<19}\n".encode(), 0)
    return descriptor

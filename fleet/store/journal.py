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

LOCK_FILE = "lock"  # it holds the ID of the process that locked it last
_PROCESS_ID_BYTES = 20  # with blanks and a newline after the digits
SYNC_INTERVAL_S = 1.0
# so much is in the tables, and on the disk, well within that time
SOON_PUBLISHED_BYTES = 1 << 20


class Journal(AbstractContextManager["Journal"]):
    """A run's lines in append-only files, one (a part) for each agent's lines. Only one
    thread may write.
    """

    def __init__(self, present_path: Path, folder: Path | None = None) -> None:
        """Open and lock the journal that is at `present_path`. folder: the path for
        messages and later use, if `present_path` is valid for a moment only. Raises
        LockedError, StoreError.
        """
        self.folder = folder or present_path
        with store_errors("open the journal", self.folder):
            self._folder_handle = _open_folder(present_path)
        try:
            self._check_parts()
            self._lock: int | None = _lock_folder(self._opened_folder, self.folder)
        except BaseException:
            os.close(self._folder_handle)
            raise
        # the file of the part that is being written, its descriptor and its length
        self.part_path = self._make_path(max(1, len(self._list_paths())))
        self._descriptor: int | None = None  # opened for the first line
        self._length = 0
        # For each part, how many of its lines `parts` returns; a part beyond this list
        # is read whole. A session that meets a damaged line sets it, to have only the
        # intact lines before the damage.
        self.line_limits: Sequence[int] = ()
        self._unsynced_bytes = 0
        # whether the disk has run.json and the names of the files
        self._are_names_synced = False

    @property
    def _opened_folder(self) -> Path:
        """Return a path to the folder that was opened, even if another now has its
        name.
        """
        return Path(opened_path(self._folder_handle))

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
        no_limits = repeat(None)
        limits = chain(self.line_limits, no_limits)
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
        """Return the paths of the parts, which are numbered from 1, up to the first
        number that is missing. Raises StoreError.
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
        # the listed paths end before the first number that is missing
        count = len(self._list_paths())
        names = fnmatch.filter(list_folder(self.folder), "stream*.jsonl")
        if len(names) > count:
            raise StoreError(
                f"{self._make_path(count + 1)}: this part of the journal is missing,"
                " though later ones are there. Put it back; if it is lost, rename the"
                " later ones so that their numbers follow."
            )

    def _open_part(self) -> int:
        """Open the part's file to append to it, or make it. Raises StoreError."""
        with store_errors("open the journal", self.part_path):
            path = self._opened_folder / self.part_path.name
            descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            self._length = os.fstat(descriptor).st_size
        self._last_sync_s = time.monotonic()
        self._are_names_synced = False
        return descriptor

    def append(self, line: bytes) -> None:
        """Write a line, given without newline; return when the kernel has all of it.
        Raises StoreError.
        """
        if self._lock is None:
            raise StoreError(f"{self.part_path}: the journal is closed.")
        if self._descriptor is None:
            self._descriptor = self._open_part()
        data = seal_line(line)
        has_lines = self._length > 0  # an error says that these are kept
        try:
            with store_errors("write the journal", self.part_path, kept=has_lines):
                write_all(self._descriptor, data)
                self._length += len(data)
                self._unsynced_bytes += len(data)
                if time.monotonic() - self._last_sync_s >= SYNC_INTERVAL_S:
                    self.check_not_removed()
                    self._sync(self._descriptor)
        except StoreError:
            # cut off a torn line; where even that fails, `parts` leaves it out
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._length)
            raise

    def sync_if_large(self) -> None:
        """Sync to the disk if so many bytes are unsynced that publishing may take long.
        Raises StoreError.
        """
        if self._descriptor is not None and self._unsynced_bytes > SOON_PUBLISHED_BYTES:
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
            # the lock and the folder are open until the first call
            if lock is not None:
                os.close(lock)
                os.close(self._folder_handle)

    def _close_part(self) -> None:
        """Sync the part to the disk, and close it. Raises StoreError."""
        descriptor = self._descriptor
        self._descriptor = None
        if descriptor is None:
            return
        try:
            with store_errors("write the journal", self.part_path, kept=True):
                # if the part is gone, the run is published and needs no journal
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
        """Put the part, and the names that lead to it, on the disk. Raises OSError."""
        os.fsync(descriptor)
        self._last_sync_s = time.monotonic()
        self._unsynced_bytes = 0
        # the names do not change until another part is opened
        if not self._are_names_synced:
            for path in (self.folder / RUN_FILE, self.folder, self.folder.parent):
                sync(path)
            self._are_names_synced = True


def _open_folder(path: Path) -> int:
    """Open the folder of a journal, following no link. Raises OSError; LockedError if
    it is gone.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        raise LockedError(
            f"{path.name}: another controller has just stored it, or removed its"
            " journal."
        ) from None


def _read_lines(path: Path) -> Iterator[bytes | None]:
    """Yield the lines of a part, without their checksums; None for a line whose
    checksum does not match. Leave out a torn last line, which has no newline.
    """
    with (
        store_errors("read the journal", path),
        os.fdopen(open_regular(path), "rb") as stream,
    ):
        for line in stream:
            if line.endswith(b"\n"):
                yield unseal_line(line[:-1])


def _lock_folder(opened_folder: Path, folder: Path) -> int:
    """Lock the journal until the returned descriptor is closed. opened_folder: the path
    to lock it by. folder: its path for messages. Raises LockedError, StoreError.
    """
    with store_errors("open the journal", folder / LOCK_FILE):
        descriptor = open_regular(opened_folder / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, _PROCESS_ID_BYTES, 0)
            process = holder.decode("ascii", "replace").strip()
            os.close(descriptor)
            raise LockedError(
                f"{folder.name}: under way: process {process} on this machine is"
                " measuring it. Wait for it."
            ) from None
        except OSError:
            return descriptor  # a file system without locks
        own_id = str(os.getpid()).ljust(_PROCESS_ID_BYTES - 1) + "\n"
        os.pwrite(descriptor, own_id.encode(), 0)  # for messages of other processes
    return descriptor

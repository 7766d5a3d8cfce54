"""Where a results root is: a folder here, or a prefix in an object store; files are there whole or not."""

import errno
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any
from warnings import warn

from fleet.errors import StoreWarning, UsageError
from fleet.late import fs
from fleet.store.files import enter_folder, sync
from fleet.store.ids import require_key
from fleet.store.s3 import Bucket, parse_bucket

Key = tuple[str, str]  # of a run: its host id and its run id
SAMPLES_FILE = "samples.parquet"
STATE_DIR = ".fleet"  # in a folder; readers and globs skip what begins with a dot
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)


def samples_name(host_id: str, run_id: str) -> str:
    """Name a run's samples file, relative to the root."""
    return (
        f"samples/host_id={require_key(host_id, 'host')}/run_id={require_key(run_id, 'run')}/{SAMPLES_FILE}"
    )


def counters_name(run_id: str) -> str:
    """Name the file of a run's counters, relative to the root; only runs that counted have one."""
    return f"counters/{require_key(run_id, 'run')}.parquet"


class Folder:
    """A root in a file system. state_dir: its hidden folder for journals, logs and drafts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state_dir = root / STATE_DIR
        self._cache: set[Path] = {root}  # folders whose own names are on the disk

    def __str__(self) -> str:
        return str(self.root)

    @property
    def address(self) -> str:
        """The whole path, which names this place to `parse_place` in any other process."""
        return str(self.root.resolve())

    @cached_property
    def filesystem(self) -> Any:
        """The files of this machine, as pyarrow opens them."""
        return fs.LocalFileSystem()

    def path(self, name: str) -> str:
        """The file's path, as `filesystem` opens it."""
        return str(self.root / name)

    def check_reachable(self) -> None:
        """Nothing: folders are made when they are needed."""

    def exists(self, name: str) -> bool:
        """Whether the file is there. Raises OSError where that cannot be known."""
        return (self.root / name).exists()

    def files(self, pattern: str) -> list[str]:
        """The files that match, sorted; `*` and `?` match inside a part of a name. Raises OSError."""
        folder = self.root / pattern.partition("*")[0].rpartition("/")[0]
        while True:
            before = _inode(folder)
            found = sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))
            if _inode(folder) == before:
                return found

    def samples(self) -> dict[Key, str]:
        """Stamp each samples file: its size and time, by host, then run. Raises OSError.

        An empty folder is no run; a file that cannot be looked at has the stamp "". A host's folder that this
        user may not list is named by a StoreWarning, unless no other has runs.
        """
        stamps, closed = {}, list[PermissionError]()
        samples = self.path("samples")
        for host in _list_folders(samples, "host_id="):
            if not os.path.isdir(f"{samples}/{host}"):  # noqa: PTH112  # a file of somebody else's
                continue
            try:
                runs = _list_folders(f"{samples}/{host}", "run_id=")
            except PermissionError as err:
                closed.append(err)
                continue
            for run in runs:
                stamp = _stamp_path(f"{samples}/{host}/{run}/{SAMPLES_FILE}")
                if stamp is not None:
                    stamps[host.removeprefix("host_id="), run.removeprefix("run_id=")] = stamp
        if closed and not stamps:
            raise closed[0]
        for refusal in closed:
            warn(
                f"{refusal.filename}: {refusal.strerror}. Its runs are left out.", StoreWarning, stacklevel=2
            )
        return stamps

    def stamp(self, name: str) -> str | None:
        """Stamp a file with its size and time; None for no file, "" if it cannot be looked at."""
        return _stamp_path(self.path(name))

    def last_change_ns(self, name: str) -> int:
        """Return when a file last changed in any way, which nobody can set; 0 if that cannot be known."""
        try:
            return (self.root / name).stat().st_ctime_ns
        except OSError:
            return 0

    def put(self, draft: Path, name: str) -> bool:
        """Make `draft` appear as `name`, whole, and use it up; False if there is a file already. OSError."""
        above, _, last = name.rpartition("/")
        with enter_folder(self.root, above) as inside:
            target = inside / last
            try:
                os.link(draft, target)
            except FileExistsError:
                return False
            except OSError as err:
                if err.errno not in _NO_LINKS:
                    raise
                if target.exists():  # file systems without hard links: a rename would replace it
                    return False
                draft.rename(target)
            draft.unlink(missing_ok=True)
            sync(inside)
        folder = self.root / above
        while folder not in self._cache:
            sync(folder.parent)
            self._cache.add(folder)
            folder = folder.parent
        return True


Place = Folder | Bucket
"""A results root. `str(place)` names it for people; it never holds a credential."""


def parse_place(root: str | Path) -> Place:
    """The place of a path, perhaps with ~user, or of s3://bucket/prefix?…; nothing is opened. UsageError."""
    found = _SCHEME.match(text := str(root))
    if not found:
        path = os.path.expanduser(text)  # noqa: PTH111  Path("./~name") forgets that no home is meant
        if path.startswith("~"):
            raise UsageError(
                f"--results {text}: there is no user of that name, or the user has no home. Name the folder "
                "by its whole path; one whose name begins with ~ is written ./~name."
            )
        return Folder(Path(path))
    if found[1].lower() != "s3":
        raise UsageError(
            f"--results {found[1]}://…: only folders and s3:// addresses can hold results. "
            f"Many other stores answer as S3 too: name theirs with s3://bucket/prefix?endpoint_override=…"
        )
    return parse_bucket(text)


def _inode(folder: Path) -> int | None:
    try:
        return folder.stat().st_ino
    except FileNotFoundError:
        return None


def _list_folders(parent: str, beginning: str) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return sorted(entry.name for entry in entries if entry.name.startswith(beginning))
    except FileNotFoundError:
        return []


def _stamp_path(path: str) -> str | None:
    """What changes when a file does: its size and time; None if there is none, "" if that cannot be known."""
    try:
        about = os.stat(path)  # noqa: PTH116  # a Path for each of ten thousand takes longer than looking
    except (FileNotFoundError, NotADirectoryError):
        return "" if os.path.islink(path) else None  # noqa: PTH114
    except OSError:
        return ""
    return f"{about.st_size}:{about.st_mtime_ns}"

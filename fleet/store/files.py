"""Write files that survive a crash: write, fsync, rename. `store_errors` makes OSErrors
StoreErrors.
"""

import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from fleet.errors import StoreError, UsageError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_KINDS = {"p": "a FIFO", "s": "a socket", "d": "a folder"}
# words for missing rights in the errors of an object store
_REFUSALS = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
)


@contextmanager
def store_errors(what: str, place: object, *, kept: bool = False) -> Iterator[None]:
    """Turn an OSError into a StoreError: "PLACE: cannot WHAT". kept: say that the
    journal has the data.
    """
    try:
        yield
    except OSError as err:
        reason = err.strerror or str(err)
        comfort = " What had arrived is kept in the journal." if kept else ""
        raise StoreError(
            f"{place}: cannot {what}: {reason}. {_advise(err, place)}{comfort}"
        ) from err


def require_regular(
    path: Path | str, expected: str = "a file of fleet's; move it away"
) -> None:
    """Raise OSError for a FIFO, a socket, a device or a folder: reading these may block
    for ever.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116  # once for each of a thousand files
    if not stat.S_ISREG(mode):
        letter = stat.filemode(mode)[0]  # as `ls -l` prints it
        kind = _KINDS.get(letter, "a device")
        raise OSError(f"it is {kind}, not {expected}")


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a regular file; refuse whatever else could block, such as a pipe. flags,
    mode: as in `os.open`. Return the descriptor. Raises OSError.
    """
    if flags & (os.O_WRONLY | os.O_RDWR):
        # In a root for several users, another user may have put a link there, or may do
        # so after the check.
        _refuse_link(path)
        flags |= os.O_NOFOLLOW
    # a missing file is made if the flags say so, else os.open raises an error
    if os.path.lexists(path):
        require_regular(path)
    # O_NONBLOCK: a pipe that has come since then does not block either
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)


def read_regular(path: Path) -> bytes:
    """Read all of a regular file. Raises OSError."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read()


def list_folder(folder: Path | str) -> list[str]:
    """Return the names in a folder, sorted; [] if there is none. Raises OSError for
    whatever else keeps it from being listed, where glob would return nothing.
    """
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208  names alone, of ten thousand
    except FileNotFoundError:
        if os.path.islink(folder):  # noqa: PTH114
            raise  # to a disk that is not mounted, for example
        return []


def describe_unlisted(err: OSError) -> str:
    """Return a sentence on a folder that cannot be listed, with a remedy."""
    reason = err.strerror or str(err)
    return f"{err.filename}: cannot be listed: {reason}. {_advise(err, err.filename)}"


def enter_state_folder(
    state_dir: Path, name: str, mode: int = 0o777
) -> AbstractContextManager[Path]:
    """Enter a folder of a state directory as `enter_folder` does. Refuse a state
    directory that is a link.
    """
    return enter_folder(state_dir.parent, f"{state_dir.name}/{name}", mode)


@contextmanager
def enter_folder(root: Path, name: str, mode: int = 0o777) -> Iterator[Path]:
    """Yield a path to folder `name` below `root`, which is valid during the block only
    (see `opened_path`). Make the folder if it is missing; follow no links below `root`.
    mode: of the folder if it is made. Raises OSError.
    """
    handle = _open_below(root, name, mode)
    try:
        path_inside = opened_path(handle)
        try:
            yield Path(path_inside)
        except OSError as err:
            # name the folder as the user knows it
            failed_path = str(err.filename)
            if failed_path.startswith(path_inside):
                err.filename = failed_path.replace(path_inside, str(root / name), 1)
            raise
    finally:
        os.close(handle)


def _open_below(root: Path, name: str, mode: int) -> int:
    """Open folder `name` below `root`, following no link; make the folders that are
    missing. mode: of the last folder, if it is made. Raises OSError with the path of
    the folder that cannot be opened.
    """
    try:
        handle = os.open(root, _FOLDER)
    except FileNotFoundError:
        root.mkdir(parents=True, exist_ok=True)
        handle = os.open(root, _FOLDER)
    # each folder is opened in the open folder above it: a path of several parts could
    # lead through a link that somebody has put there
    parts = name.split("/")
    for depth, part in enumerate(parts, 1):
        is_last = depth == len(parts)
        above = handle
        try:
            handle = _open_or_make(part, above, mode if is_last else 0o777)
        except OSError as err:
            path = root.joinpath(*parts[:depth])
            _refuse_link(path)
            err.filename = str(path)
            raise
        finally:
            os.close(above)
    return handle


def opened_path(handle: int) -> str:
    """Return a path to an open folder: on Linux valid even after a rename, on macOS its
    present path.
    """
    if (get_path := getattr(fcntl, "F_GETPATH", None)) is None:
        return f"/proc/self/fd/{handle}"
    path: bytes = fcntl.fcntl(handle, get_path, bytes(1024))
    return os.fsdecode(path.rstrip(b"\0"))


def _open_or_make(part: str, above: int, mode: int) -> int:
    """Open a folder in the open folder `above`, following no link; make it if missing.
    Raises OSError.
    """
    try:
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(part, mode, dir_fd=above)
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)


def _refuse_link(path: Path) -> None:
    """Raise OSError if the path is a link."""
    if path.is_symlink():
        raise OSError(
            errno.ELOOP,
            "it is a link, which fleet does not write through; remove it",
            str(path),
        )


def user_state_dir() -> Path:
    """Return the folder of the user's own state: $XDG_STATE_HOME/fleet, by default
    ~/.local/state/fleet.
    """
    folder = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(folder).expanduser() / "fleet"


def sync(path: Path) -> None:
    """Wait until a file's content, or a directory's list of names, is on the disk.
    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_output(
    path: Path, pieces: Iterable[str | bytes], *, replace: bool = False
) -> None:
    """Write a file, all or nothing. Raises StoreError; UsageError if the file exists,
    unless `replace`.
    """
    if not replace and os.path.lexists(path):
        raise UsageError(
            f"{path}: already exists; it was not changed. Move it away, or name another"
            " file."
        )
    target = Path(os.path.realpath(path))  # a link is followed
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.draft")
    try:
        with draft.open("xb") as file:
            for piece in pieces:
                data = piece.encode() if isinstance(piece, str) else piece
                file.write(data)
        draft.replace(target)
    except OSError as err:
        raise StoreError(
            f"{path}: cannot be written: {err.strerror or err}. Name another place."
        ) from err
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def write_all(descriptor: int, data: Any) -> None:
    """Write all of `data`, even if one call writes only a part, as on a nearly full
    disk. Raises OSError.
    """
    left = memoryview(data)
    while left:
        written_bytes = os.write(descriptor, left)
        left = left[written_bytes:]


@contextmanager
def draft_path(state_dir: Path, name: str) -> Iterator[Path]:
    """Yield an unused path in `staging`; on exit, remove what is there. Raises
    OSError.
    """
    with enter_state_folder(state_dir, "staging") as staging:
        chance = os.urandom(8).hex()
        path = staging / f"{name}-{chance}"
        try:
            yield path
        finally:
            discard(path)


def discard(path: Path) -> None:
    """Remove a file, or a folder with all in it; ignore errors."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _advise(err: OSError, place: object) -> str:
    """Return a sentence with a remedy for an error in a place: a root, or a path."""
    where = "there"
    elsewhere = "or name another results root."
    if _is_of_state_folder(err, place):
        state_dir = user_state_dir()
        where = f"in {state_dir}"
        elsewhere = "or set XDG_STATE_HOME to another folder."
    if err.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"Free some space {where}, {elsewhere}"
    if err.errno in (errno.EACCES, errno.EPERM):
        if err.filename is not None and str(err.filename) != str(place):
            where = f"for {err.filename}"
        return f"Give this user permission {where}, {elsewhere}"
    if err.errno in (errno.EEXIST, errno.ENOTDIR):
        blocking = _find_blocking_file(err.filename)
        if blocking is not None:
            return f"{blocking} is not a folder: move it away, {elsewhere}"
    if any(word in str(err) for word in _REFUSALS):
        return (
            "Look at the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE) and what they may"
            " do in that bucket."
        )
    return f"Look at {err.filename or 'that place'}, {elsewhere}"


def _is_of_state_folder(err: OSError, place: object) -> bool:
    """Report whether an error is one of the user's local state folder, where drafts for
    an object store are, too.
    """
    # the error of an object store has no file name, and no number but ENOENT
    is_local = err.filename or err.errno not in (None, errno.ENOENT)
    if not is_local:
        return False
    return str(place).startswith(("s3://", str(user_state_dir())))


def _find_blocking_file(name: object) -> Path | None:
    """Return the topmost component of a path that exists and is not a folder; None if
    there is none.
    """
    if not isinstance(name, (str, bytes)):
        return None
    path = Path(os.fsdecode(name))
    for component in (*reversed(path.parents), path):
        if os.path.lexists(component) and not component.is_dir():
            return component
    return None

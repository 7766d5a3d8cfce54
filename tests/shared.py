"""What the processes of one run of the tests make once for all of them."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, which others wait for."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return the folder; who comes first makes what is in it."""
    done = folder.with_name(f"{folder.name}.done")
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not done.exists():
            make(folder)
            done.touch()
    return folder

"""What the processes of one run of the tests make once for all of them."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fleet.model import Host, Via
from fleet.remote.clients import choose_client
from fleet.remote.command import CommandConnection

VARIABLE = "FLEET_TEST_RUN"  # conftest.py sets it


def run_folder() -> Path:
    """The folder of this run of the tests, also in processes that tests start."""
    if VARIABLE not in os.environ:  # a program of tests/ that a person runs
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="fleet-tests-")
    return Path(os.environ[VARIABLE])


def agents_cache(kind: str = "cache") -> Path:
    """An XDG_CACHE_HOME with agents built before. kind: "dynamic" is never given static
    ones.
    """
    return run_folder() / kind


def local_connection(
    host: Host, kind: type[CommandConnection] = CommandConnection
) -> CommandConnection:
    """A connection to this machine, whatever the host's entry says."""
    return kind(host, choose_client(replace(host, via=Via.LOCAL), 15.0))


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, which others wait for."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return the folder; who comes first makes what is in it."""
    done = folder.with_name(f"{folder.name}.done")
    with hold_lock(folder.with_name(f"{folder.name}.lock")):
        if not done.exists():
            make(folder)
            done.touch()
    return folder

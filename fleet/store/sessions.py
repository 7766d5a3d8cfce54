"""Finds what sessions have left: the journals of runs not published, and what each session set out to do.

A session writes `_journal/<session_id>.json` before it connects to anything and removes it when every host
is stored. So what a dead controller had not begun is known as well as what it had.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from fleet.errors import LockedError, StoreError
from fleet.model import PlanWish, Run
from fleet.store.decoding import decode
from fleet.store.files import storing, sync, write_all
from fleet.store.ids import checked_key
from fleet.store.journal import RUN_FILE
from fleet.store.rows import as_object, to_json


@dataclass(frozen=True, slots=True)
class Intent:
    """What a session set out to do: hosts, by their inventory names, a wish and labels."""

    session_id: str
    hosts: tuple[str, ...]
    wish: PlanWish = field(default_factory=PlanWish)
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@contextmanager
def under_way(desk: Path, intent: Intent) -> Iterator[None]:
    """Note what a session is about to do, and that this process is at it. Raises StoreError, LockedError.

    The note stays when the process ends, however it ends; the kernel's lock on it does not.
    """
    path = _intent_path(desk, intent.session_id)
    if path.exists() and (pid := _at_work(path)):
        raise LockedError(
            f"session {intent.session_id} is under way: process {pid} on this machine is at it."
        )
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with storing("note the session", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with storing("note the session", path):
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write_all(descriptor, to_json({**as_object(intent), "pid": os.getpid()}).encode())
            os.fsync(descriptor)
            draft.replace(path)
            sync(path.parent)
        yield
    finally:
        os.close(descriptor)


def remove_intent(desk: Path, session_id: str) -> None:
    """Forget it: nothing of the session is left to do."""
    path = _intent_path(desk, session_id)
    with storing("end the session", path):
        path.unlink(missing_ok=True)


def intents(desk: Path) -> list[Intent]:
    """Every session that has not ended well and that nobody here is at, oldest first.

    What cannot be read is left out.
    """
    found = []
    with storing("read the sessions", desk):
        paths = sorted((desk / "_journal").glob("s*.json"))
    for path in paths:
        try:
            if _at_work(path):
                continue
            found.append(decode(Intent, json.loads(path.read_bytes())))
        except (OSError, ValueError):
            continue  # removed while we looked, or not ours
    return found


def busy(desk: Path) -> dict[str, int]:
    """The sessions that a process of this machine is at."""
    found = {}
    for path in (desk / "_journal").glob("s*.json"):
        with suppress(OSError, ValueError):  # ended while we looked
            if (process := _at_work(path)) is not None:
                found[path.stem] = process
    return found


def read_run(folder: Path) -> Run:
    """The run a journal is of, as it began. Raises StoreError where `run.json` cannot be understood."""
    path = folder / RUN_FILE
    with storing("read the journal", path):
        text = path.read_bytes()
    try:
        return decode(Run, json.loads(text))
    except ValueError as err:
        raise StoreError(
            f"{path}: cannot be read as a run: {err}. Its lines are in the files beside it; look at them, "
            f"then move the folder away."
        ) from err


def begun(desk: Path) -> list[Run]:
    """The runs of all journals, oldest first; left out is what cannot be understood or vanishes meanwhile."""
    return [said for said in _read_all(desk) if isinstance(said, Run)]


def damaged(desk: Path) -> list[str]:
    """Why each journal that cannot be understood cannot be; not of those that vanish meanwhile."""
    return [str(said) for said in _read_all(desk) if isinstance(said, StoreError)]


def _read_all(desk: Path) -> Iterator[Run | StoreError]:
    """What each journal that is there says, oldest first: its run, or why that cannot be told."""
    with storing("read the journals", desk):
        folders = sorted(path for path in (desk / "_journal").glob("*") if path.is_dir())
    for folder in folders:
        try:
            yield read_run(folder)
        except StoreError as err:
            if folder.exists():
                yield err


def _at_work(path: Path) -> int | None:
    """The process that holds the lock on a session's note; None if none does."""
    with path.open("rb") as note:
        try:
            fcntl.flock(note, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(json.loads(note.read())["pid"])
        except OSError:
            return None  # a file system without locks
    return None


def _intent_path(desk: Path, session_id: str) -> Path:
    return desk / "_journal" / f"{checked_key(session_id, 'session')}.json"

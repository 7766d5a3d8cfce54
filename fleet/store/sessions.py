"""Keep unfinished sessions: the journals of unpublished runs, and a note of each session's intent."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, TypeVar
from warnings import warn

from fleet.errors import DataError, LockedError, StoreError, StoreWarning
from fleet.late import msgspec
from fleet.model import RequestedOptions, Run
from fleet.store.checksums import seal_json, unseal_json
from fleet.store.files import enter_state_folder, open_regular, read_regular, storing, sync
from fleet.store.gate import prepare_type
from fleet.store.places import RUN_FILE, require_key
from fleet.store.rows import to_dict, to_json
from fleet.text import decoding_words

_Noun = TypeVar("_Noun")


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a session stored no run of a host, and its time: UTC, ISO 8601."""

    message: str
    time_utc: str


@dataclass(frozen=True, slots=True)
class Intent:
    """The request to a session. hosts: their inventory names; listed: how each is reached.

    require, wait_s: of the command line, as `requested`; None: as the inventory says. failures: of hosts that
    it could not measure, by name, once it has ended.
    """

    session_id: str
    hosts: tuple[str, ...]
    requested: RequestedOptions = field(default_factory=RequestedOptions)
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    listed: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    require: tuple[str, ...] | None = None
    wait_s: float | None = None
    failures: Mapping[str, Failure] = field(default_factory=lambda: MappingProxyType({}))


class Sessions:
    """The sessions of a results root that have journals or notes on this machine, in its state directory."""

    state_dir: Path

    @contextmanager
    def hold_session(self, intent: Intent) -> Iterator[None]:
        """Write a session's note, which stays, and lock it meanwhile. Raises StoreError, LockedError."""
        path = _intent_path(self.state_dir, intent.session_id)
        with storing("note the session", path):
            if path.exists() and (pid := _lock_holder(path)):
                who = f"process {pid} on this machine is measuring it."
                raise LockedError(f"session {intent.session_id} is under way: {who}")
            note = self._write_note(path, intent, lock=True)
        with note:
            yield

    def note_failures(self, intent: Intent, failures: Mapping[str, Failure]) -> None:
        """Note in an ended session which hosts it could not measure. Raises StoreError."""
        path = _intent_path(self.state_dir, intent.session_id)
        with storing("note the session", path):
            self._write_note(path, replace(intent, failures=failures)).close()

    def _write_note(self, path: Path, intent: Intent, *, lock: bool = False) -> BinaryIO:
        """Write a session's note to the disk; return it open, and locked if wanted."""
        with enter_state_folder(self.state_dir, "journal") as folder:
            draft = folder / f".{path.name}.{os.getpid()}"
            note = os.fdopen(open_regular(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb")
            note.write(seal_json(to_json({**to_dict(intent), "pid": os.getpid()})))
            note.flush()
            os.fsync(note.fileno())
            with suppress(OSError):  # a file system without locks
                if lock:
                    fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.replace(folder / path.name)
            sync(folder)
        return note

    def end_session(self, session_id: str) -> None:
        """Remove the note of a session that has nothing left to do."""
        path = _intent_path(self.state_dir, session_id)
        with storing("end the session", path), enter_state_folder(self.state_dir, "journal") as folder:
            (folder / path.name).unlink(missing_ok=True)

    def read_intents(self) -> list[Intent]:
        """Read unfinished sessions not under way here, oldest first; StoreWarning for an unreadable note."""
        intents = []
        with storing("read the sessions", self.state_dir):
            paths = sorted((self.state_dir / "journal").glob("s*.json"))
        for path in paths:
            try:
                if _lock_holder(path) is None:
                    intents.append(decode(Intent, unseal_json(read_regular(path))))
            except FileNotFoundError:
                continue  # removed while we looked
            except (OSError, DataError) as err:
                text = (
                    f"{path}: cannot be read as the note of a session: {err}. Its journals are kept; measure "
                )
                text += "the hosts that had none with `fleet run`, and move it away. It is left out."
                warn(text, StoreWarning, stacklevel=2)
        return intents

    def find_running(self) -> dict[str, int]:
        """Return the sessions under way on this machine, each with its process."""
        processes = {}
        for path in (self.state_dir / "journal").glob("s*.json"):
            with suppress(OSError, ValueError):  # ended while we looked
                if (process := _lock_holder(path)) is not None:
                    processes[path.stem] = process
        return processes

    def read_begun_runs(self) -> list[Run]:
        """Read the runs of all journals, oldest first, but for those unreadable or vanishing meanwhile."""
        return [run for run in self._read_journals() if isinstance(run, Run)]

    def describe_damaged(self) -> list[str]:
        """Return an error message for each unreadable journal, except those that vanish meanwhile."""
        return [str(err) for err in self._read_journals() if isinstance(err, StoreError)]

    def _read_journals(self) -> Iterator[Run | StoreError]:
        with storing("read the journals", self.state_dir):
            folders = sorted(path for path in (self.state_dir / "journal").glob("*") if path.is_dir())
        for folder in folders:
            try:
                yield read_journal_run(folder)
            except StoreError as err:
                if folder.exists():
                    yield err


def read_journal_run(folder: Path) -> Run:
    """Read the run of a journal, as it began. Raises StoreError if `run.json` cannot be read as a run."""
    path = folder / RUN_FILE
    try:
        with storing("read the journal", path):
            return decode(Run, unseal_json(read_regular(path)))
    except DataError as err:
        advice = "Its lines are in the files beside it; look at them, then move the folder away."
        raise StoreError(f"{path}: cannot be read as a run: {err}. {advice}") from err


def _lock_holder(path: Path) -> int | None:
    """Return the process that has locked a session's note; None if there is none."""
    with os.fdopen(open_regular(path), "rb") as note:
        try:
            fcntl.flock(note, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(unseal_json(note.read())["pid"])
        except OSError:
            return None  # a file system without locks
    return None


def _intent_path(state_dir: Path, session_id: str) -> Path:
    return state_dir / "journal" / f"{require_key(session_id, 'session')}.json"


def decode(kind: type[_Noun], value: object) -> _Noun:
    """Convert the JSON value that `to_json` wrote of a `kind` back. Raises DataError that names the field."""
    try:
        return msgspec.convert(_drop_env(value), prepare_type(kind))
    except msgspec.ValidationError as err:
        raise DataError(decoding_words(err, kind.__name__)) from err


def _drop_env(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _drop_env(value[key]) for key in ("host", "build_host") if key in value}
    return {key: item for key, item in (value | inner).items() if key != "env"}

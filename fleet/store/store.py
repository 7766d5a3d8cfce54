"""Manage a results root: keep journals and notes of sessions; publish runs completely
or not at all.
"""

import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO
from warnings import warn

import msgspec

from fleet.errors import DataError, LockedError, StoreError, StoreWarning
from fleet.model import Burst, Hello, RequestedOptions, Run
from fleet.store import runs
from fleet.store.amendments import Amendment, amend
from fleet.store.burst_columns import BurstColumns
from fleet.store.checksums import seal_json, unseal_json
from fleet.store.files import (
    discard,
    draft_path,
    enter_state_folder,
    list_folder,
    open_regular,
    read_regular,
    store_errors,
    sync,
)
from fleet.store.gate import RunRecord, parse_record
from fleet.store.journal import Journal
from fleet.store.places import (
    RUN_FILE,
    Folder,
    counters_name,
    parse_place,
    require_key,
    samples_name,
)
from fleet.store.reading import TableFile
from fleet.store.rows import (
    decode,
    make_cpus_rows,
    make_runs_row,
    to_dict,
    to_json,
    write_record,
)
from fleet.store.runs import RunSummary
from fleet.store.samples import write_samples
from fleet.store.writing import add_missing_runs, add_runs, list_tables

BATCH_RUNS = 64
BATCH_S = 2.0
# no publication takes so long, and no two machines' clocks differ so much
LEFTOVER_AFTER_S = 24 * 3600
# each holds a run's samples in memory; more are no quicker
_publication_slots = threading.BoundedSemaphore(4)
# of a run before its agent has said anything
_NO_HELLO = Hello("", "", "", "", 1, pairs=0, bursts=0, cpus=(), raw={})
_NO_CONTENTS = {
    "bursts": 0,
    "samples": 0,
    "flagged_bursts": 0,
    "content_sha256": "",
}
# known only at the end
_NOT_IN_A_JOURNAL = {
    "hello",
    "end",
    "ended_utc",
    "state",
    "failed",
    "load_after",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why and when a session stored no run of a host. reason: few words; "" if
    `message` begins with them. stage: the kind of failure, as `FleetError.stage`.
    """

    message: str
    time_utc: str  # ISO 8601
    reason: str = ""
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a session is to measure. failures: by host, why it was not measured; set
    when the session ends.
    """

    session_id: str
    hosts: tuple[str, ...]  # their inventory names; `listed`: how each is reached
    requested: RequestedOptions = field(default_factory=RequestedOptions)
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    listed: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    require: tuple[str, ...] | None = (
        None  # of the command line, as `wait_s`; None: as the inventory says
    )
    wait_s: float | None = None
    failures: Mapping[str, Failure] = field(
        default_factory=lambda: MappingProxyType({})
    )


INTENT = msgspec.json.Decoder(Intent)  # made here, as those of `gate`


class Store:
    """A results root that many controllers may share. state_dir: a local folder for
    journals and drafts.
    """

    def __init__(self, root: str | Path) -> None:
        self.place = parse_place(root)
        self.state_dir = self.place.state_dir
        self._guard = threading.Lock()
        self._waiting: list[RunRecord] = []  # for `flush`
        self._last_flush_s = time.monotonic()

    def require_writable(self) -> None:
        """Raise StoreError, before anything is measured, if journals or results cannot
        be written.
        """
        for name in ("journal", "staging"):
            path = self.state_dir / name
            with (
                store_errors("keep journals there", path),
                enter_state_folder(path.parent, name) as folder,
            ):
                tempfile.TemporaryFile(dir=folder).close()
        with store_errors("store results there", self.place):
            self.place.check_reachable()

    def new_journal(self, run: Run) -> Journal:
        """Open the journal of a new run. Raises StoreError if it has one already, or if
        no reader would take the run's record.
        """
        folder = self._journal_dir(run.run_id)
        if folder.exists():
            raise StoreError(
                f"{folder}: this run has a journal already; a new run needs a new id."
            )
        what = f"{run.host.name}: cannot be measured"
        # before anything is measured, see whether readers will take the journal's
        # `run.json`, and the record with which the run would be published
        with _refusing_unreadable(what):
            data = _write_journal_run(run)
            runs.parse_journal_run(data)  # only to see whether that raises an error
        require_readable(run, what)
        with (
            store_errors("open the journal", folder),
            enter_state_folder(self.state_dir, "staging") as staging,
            enter_state_folder(self.state_dir, "journal") as journals,
        ):
            # a draft that is renamed when it is complete: no reader sees a part of it
            draft = staging / f"{run.run_id}-journal"
            draft.mkdir()
            journal = Journal(draft, folder)
            (draft / RUN_FILE).write_bytes(data)
            draft.rename(journals / run.run_id)  # refused where there is one already
        return journal

    def reopen_journal(self, run_id: str) -> Journal:
        """Open the journal of a begun run. Raises LockedError if another controller
        here has it open.
        """
        folder = self._journal_dir(run_id)
        with (
            store_errors("open the journal", folder),
            enter_state_folder(self.state_dir, "journal") as above,
        ):
            # the path `above` is valid in this block only: a Journal opens its folder
            # at once, by that path, and uses `folder` later
            return Journal(above / run_id, folder)

    def drop_journal(self, run_id: str) -> None:
        """Remove the journal of a run without publishing it."""
        with store_errors("remove the journal", self._journal_dir(run_id)):
            self._remove_journal(run_id)

    def publish(
        self, run: Run, bursts: Iterable[Burst] | BurstColumns, *, batch: bool = False
    ) -> str:
        """Publish a finished run, whole or not at all; return the name of its samples
        file.

        Remove the journal; on failure keep it, to try again. Raises StoreError if the
        ID has other bursts.
        batch: leave the rows of `runs` and `cpus` to `flush` or a later call, which
        write many at once.
        """
        with (
            _publication_slots,  # only a few runs are published at a time
            store_errors("publish the run", self.place, kept=True),
        ):
            record = self._place_files(run, bursts)
        folder = self._journal_dir(run.run_id)
        with store_errors("remove the journal of the published run", folder, kept=True):
            self._clear_staging(run.run_id)
            if folder.exists():
                self._remove_journal(run.run_id)
        with self._guard:
            self._waiting.append(record)
        if not batch:
            self.flush()
        elif self._is_flush_due():
            with suppress(StoreError):  # the rows wait for the next call
                self.flush()
        return samples_name(run.host.host_id, run.run_id)

    def _place_files(
        self, run: Run, bursts: Iterable[Burst] | BurstColumns
    ) -> RunRecord:
        """Write the files of samples and counters, and put them in their places; return
        the record. If the run is there already, with the same samples, leave it, and
        return its record. Raises OSError, StoreError.
        """
        name = samples_name(run.host.host_id, run.run_id)
        with draft_path(self.state_dir, run.run_id) as staging:
            staging.mkdir()
            samples = staging / "samples.parquet"
            counters = staging / "counters.parquet"
            record = write_samples(samples, counters, run, bursts)
            with _refusing_unreadable(f"{self.place}: cannot publish {run.run_id}"):
                _require_readable_record(record)
            is_first = self.place.put(samples, name)
            # a bucket cannot tell who was first: look at what is stored there now
            if not is_first or not isinstance(self.place, Folder):
                record = self._read_same_record(name, record)
            if counters.exists():
                self.place.put(counters, counters_name(run.run_id))
        return record

    def _is_flush_due(self) -> bool:
        """Report whether many rows wait for `flush`, or some for a while."""
        with self._guard:
            if len(self._waiting) >= BATCH_RUNS:
                return True
            return time.monotonic() - self._last_flush_s > BATCH_S

    def _read_same_record(self, name: str, record: RunRecord) -> RunRecord:
        """Return the record of a published file. Raises StoreError unless it has the
        samples of `record`.
        """
        try:
            published = TableFile(self.place, name, "samples").record
        except StoreError as err:
            text = (
                f"{self.place}: cannot publish the run: {err} What arrived is kept in"
                " the journal."
            )
            raise StoreError(text) from err
        if published.row["content_sha256"] != record.row["content_sha256"]:
            text = (
                f"{self.place}: {name} is published already, with other samples;"
                " nothing was changed."
            )
            raise StoreError(
                f"{text} The journal is kept: look at both before removing one."
            )
        return published

    def _clear_staging(self, run_id: str) -> None:
        """Remove leftovers from `staging`: of this run, of removed journals, and all
        older than a day.
        """
        old = time.time() - LEFTOVER_AFTER_S
        with enter_state_folder(self.state_dir, "staging") as staging:
            for name in list_folder(staging):
                path = staging / name
                is_done = name.startswith(f"{run_id}-") or "-removed-" in name
                # removing fails if another controller was first, or if the file is
                # another user's
                with suppress(OSError):
                    if is_done or path.lstat().st_mtime < old:
                        discard(path)

    def flush(self) -> None:
        """Write the rows of `runs` and `cpus` that wait. They wait for the next call if
        a StoreError is raised.
        """
        with self._guard:
            records = self._waiting
            self._waiting = []
            self._last_flush_s = time.monotonic()
        try:
            with store_errors("write the tables runs and cpus", self.place):
                add_runs(self.place, records)
            runs.index_published(self.place, records)
        except StoreError:
            with self._guard:
                self._waiting += records
            raise

    def complete_tables(self, session_id: str) -> None:
        """Add the rows of this session's runs that the tables `runs` and `cpus` lack.
        Raises StoreError.
        """
        with store_errors("complete the tables runs and cpus", self.place):
            listing = runs.Listing(self.place)
            session_runs = [
                run for run in listing.all_runs if run.session_id == session_id
            ]
            records = listing.read_records(session_runs)

            def read(run_ids: Collection[str]) -> list[RunRecord]:
                return [records[run_id] for run_id in run_ids]

            files = list_tables(self.place)
            add_missing_runs(self.place, files, records.keys(), read)

    def list_runs(self, *, withdrawn: bool = False) -> list[RunSummary]:
        """List the runs whose samples can be read, oldest first. withdrawn: include the
        withdrawn ones.
        """
        listing = runs.Listing(self.place)
        return listing.all_runs if withdrawn else listing.runs

    def label(self, run_ids: Collection[str], labels: Mapping[str, str | None]) -> None:
        """Set labels of published runs; a value of None removes the label. Raises
        StoreError.
        """
        amend(self.place, run_ids, Amendment(labels=labels))

    def withdraw(self, run_ids: Collection[str], *, undo: bool = False) -> None:
        """Make readers leave the runs out; keep the files. undo: include them again.
        Raises StoreError.
        """
        amend(self.place, run_ids, Amendment(withdrawn=not undo))

    @contextmanager
    def hold_session(self, intent: Intent) -> Iterator[None]:
        """Write a session's note, and lock it during the block, which shows that the
        session runs. The note stays when the block ends. Raises StoreError; LockedError
        if the session runs already.
        """
        path = self._intent_path(intent.session_id)
        with store_errors("note the session", path):
            running = _read_if_locked(path) if path.exists() else None
            if running is not None:
                process, _ = running
                who = f"process {process} on this machine is measuring it."
                raise LockedError(f"session {intent.session_id} is under way: {who}")
            note = self._write_note(path, intent, lock=True)
        with note:  # to close the file unlocks it
            yield

    def note_failures(self, intent: Intent, failures: Mapping[str, Failure]) -> None:
        """Rewrite an ended session's note to say why it could not measure hosts. Raises
        StoreError.
        """
        path = self._intent_path(intent.session_id)
        with store_errors("note the session", path):
            self._write_note(path, replace(intent, failures=failures)).close()

    def _write_note(
        self, path: Path, intent: Intent, *, lock: bool = False
    ) -> BinaryIO:
        """Write a session's note to the disk; return the open file. lock: lock it, if
        the file system can.
        """
        data = _make_note(path, intent)
        with enter_state_folder(self.state_dir, "journal") as folder:
            draft = folder / f".{path.name}.{os.getpid()}"
            descriptor = open_regular(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            note = os.fdopen(descriptor, "wb")
            note.write(data)
            note.flush()
            os.fsync(note.fileno())
            # locked before it gets its name, so that readers see a note that is whole
            with suppress(OSError):  # a file system without locks
                if lock:
                    fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.replace(folder / path.name)
            sync(folder)
        return note

    def end_session(self, session_id: str) -> None:
        """Remove the note of a session that has nothing left to do. Raises
        StoreError.
        """
        path = self._intent_path(session_id)
        with (
            store_errors("end the session", path),
            enter_state_folder(self.state_dir, "journal") as folder,
        ):
            (folder / path.name).unlink(missing_ok=True)

    def read_idle_intents(self) -> list[Intent]:
        """Return this user's unfinished sessions that do not run now, oldest first;
        warn of damaged notes.
        """
        intents = []
        for path in runs.list_session_notes(self.state_dir):
            try:
                if _read_if_locked(path) is None:
                    intents.append(decode(INTENT, unseal_json(read_regular(path))))
            except (FileNotFoundError, PermissionError):
                continue  # removed while we looked, or another user's
            except (OSError, DataError) as err:
                text = (
                    f"{path}: cannot be read as the note of a session: {err}. Its"
                    " journals are kept; measure the hosts that had none with `fleet"
                    " run`, and move it away. It is left out."
                )
                warn(text, StoreWarning, stacklevel=2)
        return intents

    def running_sessions(self) -> dict[str, tuple[int, Intent]]:
        """Return the process and the note of each session under way on this machine, by
        session ID. Raises StoreError.
        """
        sessions = {}
        for path in runs.list_session_notes(self.state_dir):
            with suppress(OSError, DataError):  # the session ended while we looked
                running = _read_if_locked(path)
                if running is not None:
                    sessions[path.stem] = running
        return sessions

    def read_begun_runs(self) -> list[Run]:
        """Read the runs of all journals, oldest first; leave out unreadable and just
        removed journals.
        """
        journals = runs.read_journals(self.state_dir)
        return [run for run in journals if isinstance(run, Run)]

    def describe_damaged_journals(self) -> list[str]:
        """Return an error message for each unreadable journal; leave out just removed
        ones.
        """
        return runs.describe_damaged_journals(self.state_dir)

    def _remove_journal(self, run_id: str) -> None:
        """Remove a run's journal, which readers see whole or not at all."""
        with (
            enter_state_folder(self.state_dir, "journal") as journals,
            enter_state_folder(self.state_dir, "staging") as staging,
        ):
            # the rename takes the journal away in one step; after that, its files may
            # be removed one by one
            grave = staging / f"{run_id}-removed-{os.getpid()}"
            (journals / run_id).rename(grave)
            shutil.rmtree(grave, ignore_errors=True)

    def _journal_dir(self, run_id: str) -> Path:
        return self.state_dir / "journal" / require_key(run_id, "run")

    def _intent_path(self, session_id: str) -> Path:
        return self.state_dir / "journal" / f"{require_key(session_id, 'session')}.json"


def _make_note(path: Path, intent: Intent) -> bytes:
    """Return the content of a session's note. Raises StoreError unless `fleet resume`
    could read it.
    """
    content = {**to_dict(intent), "pid": os.getpid()}
    with _refusing_unreadable(f"{path}: cannot note the session"):
        note = seal_json(to_json(content))
        decode(INTENT, unseal_json(note))  # only to see whether that raises an error
    return note


@contextmanager
def _refusing_unreadable(what: str) -> Iterator[None]:
    """Raise StoreError, "WHAT: reason", if the block finds that readers would refuse
    what it is to store.
    """
    try:
        yield
    except (DataError, UnicodeError) as err:
        raise StoreError(
            f"{what}: what would be stored could not be read again: {err}. Mend the"
            " label, the entry of the inventory or the clock that this names. Nothing"
            " was stored, and nothing that had arrived is lost."
        ) from err


def require_readable(run: Run, what: str) -> None:
    """Raise StoreError, "WHAT: reason", if no reader would take the record of a run of
    which no agent has said anything yet.
    """
    begun = replace(run, hello=_NO_HELLO)
    with _refusing_unreadable(what):
        row = make_runs_row(begun, _NO_CONTENTS)
        record = RunRecord(row, make_cpus_rows(begun))
        _require_readable_record(record)


def _write_journal_run(run: Run) -> bytes:
    """Return a journal's `run.json`."""
    fields = to_dict(run)
    for name in _NOT_IN_A_JOURNAL:
        fields.pop(name, None)
    fields["host_id"] = run.host.host_id
    return seal_json(to_json(fields))


def _require_readable_record(record: RunRecord) -> None:
    """Raise DataError unless every reader would take the record."""
    parse_record(write_record(record))


def _read_if_locked(path: Path) -> tuple[int, Intent] | None:
    """Return the process that locked a note, and the note; None if unlocked. Raises
    OSError, DataError.
    """
    with os.fdopen(open_regular(path), "rb") as note:
        try:
            fcntl.flock(note, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # the session that wrote it is running
            content = unseal_json(note.read())
            match content:
                case {"pid": int(process)}:
                    return process, decode(INTENT, content)
            raise DataError("it names no process") from None
        except OSError:
            return None  # a file system without locks
    return None

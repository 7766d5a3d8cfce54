"""The store as the rest of the house sees it: one results root (docs/tables.md)."""

import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from fleet.errors import StoreError
from fleet.model import Burst, Run
from fleet.store import runs
from fleet.store.amendments import Amendment, amend
from fleet.store.burst_columns import BurstColumns
from fleet.store.checksums import seal_json
from fleet.store.files import enter_state_folder, remove_folder, storing
from fleet.store.ids import RUN_FILE, require_key
from fleet.store.journal import Journal
from fleet.store.places import parse_place
from fleet.store.publish import clear_leftovers, publish
from fleet.store.rows import RunRecord, to_dict, to_json
from fleet.store.run_tables import add_runs
from fleet.store.runs import RunSummary
from fleet.store.sessions import Sessions

BATCH_RUNS = 64
BATCH_S = 2.0
_NOT_IN_A_JOURNAL = {"hello", "end", "ended_utc", "state", "failed", "load_after"}  # known only at the end


class Store(Sessions):
    """A results root, which several controllers may write to. state_dir: for journals and drafts, here."""

    def __init__(self, root: str | Path) -> None:
        self.place = parse_place(root)
        self.state_dir = self.place.state_dir
        self._guard = threading.Lock()
        self._waiting: list[RunRecord] = []
        self._flushed = time.monotonic()

    def make_ready(self) -> None:
        """Make sure, before anything is measured, that journals can be written and the place answers."""
        for name in ("journal", "staging"):
            with (
                storing("keep journals there", self.state_dir / name),
                enter_state_folder(self.state_dir, name) as folder,
                tempfile.TemporaryFile(dir=folder),
            ):
                pass
        with storing("store results there", self.place):
            self.place.check_reachable()

    def new_journal(self, run: Run) -> Journal:
        """Open the journal of a run that is about to begin. Raises StoreError if it has one already."""
        folder = self._journal_dir(run.run_id)
        if folder.exists():
            raise StoreError(f"{folder}: this run has a journal already; a new run needs a new id.")
        fields = {key: value for key, value in to_dict(run).items() if key not in _NOT_IN_A_JOURNAL}
        with (
            storing("open the journal", folder),
            enter_state_folder(self.state_dir, "staging") as staging,
            enter_state_folder(self.state_dir, "journal") as journals,
        ):
            draft = staging / f"{run.run_id}-journal"
            draft.mkdir()
            journal = Journal(draft, folder)
            (draft / RUN_FILE).write_bytes(seal_json(to_json(fields | {"host_id": run.host.host_id})))
            draft.rename(journals / run.run_id)  # refused where there is one already
        return journal

    def reopen_journal(self, run_id: str) -> Journal:
        """Take over the journal of a run. Raises LockedError while another controller here has it open."""
        folder = self._journal_dir(run_id)
        with (
            storing("open the journal", folder),
            enter_state_folder(self.state_dir, "journal") as journals,
        ):
            return Journal(journals / run_id, folder)

    def drop_journal(self, run_id: str) -> None:
        """Remove the journal of a run of which nothing is to be kept."""
        folder = self._journal_dir(run_id)
        with storing("remove the journal", folder):
            self._remove(run_id)

    def publish(self, run: Run, bursts: Iterable[Burst] | BurstColumns, *, batch: bool = False) -> str:
        """Publish a finished run, then remove its journal; return the name of its samples file.

        Publishing the same run again changes nothing; other bursts under its id raise StoreError. On any
        failure the journal stays, readers see nothing half, and publishing again completes the work. batch:
        leave the rows of `runs` and `cpus` to a later publication or to `flush`, which write many at once.
        """
        name, record = publish(self.place, run, bursts)
        folder = self._journal_dir(run.run_id)
        with storing("remove the journal of the published run", folder, kept=True):
            clear_leftovers(self.state_dir, run.run_id)
            if folder.exists():
                self._remove(run.run_id)
        with self._guard:
            self._waiting.append(record)
            due = len(self._waiting) >= BATCH_RUNS or time.monotonic() - self._flushed > BATCH_S
        if due or not batch:
            try:
                self.flush()
            except StoreError:
                if not batch:  # else the rows wait for the next time
                    raise
        return name

    def flush(self) -> None:
        """Write the rows that wait. Raises StoreError; they then wait for the next time."""
        with self._guard:
            records, self._waiting, self._flushed = self._waiting, [], time.monotonic()
        try:
            with storing("write the tables runs and cpus", self.place):
                add_runs(self.place, records)
            runs.index_published(self.place, records)
        except StoreError:
            with self._guard:
                self._waiting += records
            raise

    def complete_tables(self, session_id: str) -> None:
        """Write the rows that a killed controller of this session did not. Raises StoreError."""
        with storing("complete the tables runs and cpus", self.place):
            runs.complete_session(self.place, session_id)

    def list_runs(self, *, withdrawn: bool = False) -> list[RunSummary]:
        """The runs whose samples can be read, oldest first. withdrawn: with those that were withdrawn."""
        listing = runs.Listing(self.place)
        return listing.all_runs if withdrawn else listing.runs

    def label(self, run_ids: Collection[str], labels: Mapping[str, str | None]) -> None:
        """Set labels of published runs, None to remove one; their samples stay as written. StoreError."""
        amend(self.place, run_ids, Amendment(labels=labels))

    def withdraw(self, run_ids: Collection[str], *, undo: bool = False) -> None:
        """Keep the runs, but read them no longer; undo: read them again. Raises StoreError."""
        amend(self.place, run_ids, Amendment(withdrawn=not undo))

    def _remove(self, run_id: str) -> None:
        with (
            enter_state_folder(self.state_dir, "journal") as journals,
            enter_state_folder(self.state_dir, "staging") as staging,
        ):
            remove_folder(journals / run_id, staging)

    def _journal_dir(self, run_id: str) -> Path:
        return self.state_dir / "journal" / require_key(run_id, "run")

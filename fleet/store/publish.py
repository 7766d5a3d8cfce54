"""Turns a finished run into a samples file, whole or not at all; publishing again completes that."""

import contextlib
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from fleet.errors import StoreError
from fleet.model import Burst, Run
from fleet.store.burst_columns import BurstColumns
from fleet.store.files import discard, draft_path, enter_state_folder, storing
from fleet.store.places import SAMPLES_FILE, Folder, Place, counters_name, samples_name
from fleet.store.reading import TableFile
from fleet.store.rows import RunRecord
from fleet.store.samples import write_samples
from fleet.store.writing import TableWriter

_at_once = threading.BoundedSemaphore(4)  # each holds a run's samples in memory; more are no quicker
LEFTOVER_AFTER_S = 24 * 3600  # no publication takes so long, and no two machines' clocks differ so much


def publish(place: Place, run: Run, bursts: Iterable[Burst] | BurstColumns) -> tuple[str, RunRecord]:
    """Publish `run`: its samples file's name and record. Again it is the same, or StoreError for others."""
    name = samples_name(run.host.host_id, run.run_id)
    with (
        _at_once,
        storing("publish the run", place, kept=True),
        draft_path(place.state_dir, run.run_id) as staging,
    ):
        staging.mkdir()
        counted = staging / "counters.parquet"
        with _Counters(counted) as counters:
            record = write_samples(staging / SAMPLES_FILE, run, bursts, counters.add)
        placed = place.put(staging / SAMPLES_FILE, name)
        if not (placed and isinstance(place, Folder)):  # a bucket cannot tell who was first
            record = _require_same_samples(place, name, record)
        if counted.exists():
            place.put(counted, counters_name(run.run_id))
    return name, record


class _Counters(contextlib.ExitStack):
    """Writes what was counted during bursts to a new file, which is not made if that is nothing."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._file: TableWriter | None = None

    def add(self, run: Run, chunk: BurstColumns) -> None:
        """Add the counts of these bursts. Raises OSError."""
        table = chunk.counters_table(run)
        if table is None:
            return
        if self._file is None:
            self._file = self.enter_context(TableWriter(self._path, table.schema, in_memory=False))
        self._file.write(table)


def clear_leftovers(state_dir: Path, run_id: str) -> None:
    """Remove from `staging` what killed controllers left: of this run, or old; nobody's young files."""
    old = time.time() - LEFTOVER_AFTER_S
    with enter_state_folder(state_dir, "staging") as staging:
        for leftover in staging.iterdir():
            mine = leftover.name.startswith(f"{run_id}-") or "-removed-" in leftover.name
            with contextlib.suppress(OSError):  # another controller was first, or they are not ours to remove
                if mine or leftover.lstat().st_mtime < old:
                    discard(leftover)


def _require_same_samples(place: Place, name: str, record: RunRecord) -> RunRecord:
    """The record in place; StoreError unless its samples are those meant, whoever put them there."""
    try:
        there = TableFile(place, name, "samples").record
    except StoreError as err:
        raise StoreError(
            f"{place}: cannot publish the run: {err} What arrived is kept in the journal."
        ) from err
    if there.row["content_sha256"] != record.row["content_sha256"]:
        raise StoreError(
            f"{place}: {name} is published already, with other samples; nothing was changed. "
            f"The journal is kept: look at both before removing one."
        )
    return there

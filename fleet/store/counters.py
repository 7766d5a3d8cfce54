"""The table `_counters`: what performance counters counted, a file for each run that was asked to count.

It is put in place after the run's samples, and a publication that was cut short in between is completed by
publishing again, since the journal is still there.
"""

from contextlib import AbstractContextManager
from pathlib import Path

from fleet.model import Run
from fleet.store.burst_columns import BurstColumns
from fleet.store.ids import checked_key
from fleet.store.places import Place
from fleet.store.writing import TableWriter


def counters_name(run_id: str) -> str:
    """The name of a run's counters, relative to the root; there is no such file where nothing was counted."""
    return f"_counters/{checked_key(run_id, 'run')}.parquet"


class CountersDraft(AbstractContextManager["CountersDraft"]):
    """Writes the counts of bursts to a new file at `path`, which is not made if there are none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TableWriter | None = None

    def add(self, run: Run, chunk: BurstColumns) -> None:
        """Add what was counted during these bursts. Raises OSError."""
        table = chunk.counters(run)
        if table is None:
            return
        if self._file is None:
            self._file = TableWriter(self._path, table.schema, in_memory=False)
        self._file.write(table)

    def put(self, place: Place, run: Run) -> None:
        """Put the finished file, if there is one, into place. Raises OSError."""
        if self._file is not None:
            place.put(self._path, counters_name(run.run_id))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish the file."""
        if self._file is not None:
            self._file.__exit__(kind)

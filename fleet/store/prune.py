"""Remove all that a results root holds of some runs."""

from collections.abc import Sequence, Set
from contextlib import suppress

from fleet.store.files import store_errors
from fleet.store.places import Folder, Place, counters_name, samples_name
from fleet.store.reading import TableFile, read_undamaged
from fleet.store.runs import Listing, RunSummary
from fleet.store.writing import TABLES_OF_RUNS, list_table_files, lock_tables


def remove_runs(place: Place, runs: Sequence[RunSummary]) -> None:
    """Remove the files of these runs, whose amendments stay. Raises StoreError.

    If it is interrupted, the runs that are left are whole: the next listing adds their
    rows to the tables `runs` and `cpus` again.
    """
    run_ids = {run.run_id for run in runs}
    with store_errors("remove runs", place), lock_tables(place, exclusive=True):
        counters = set(place.files("counters/*.parquet"))
        for table in TABLES_OF_RUNS:
            for name in _list_files_with_rows(place, table, run_ids):
                place.remove(name)
        for run in runs:
            own_counters = counters_name(run.run_id)
            if own_counters in counters:
                place.remove(own_counters)
            _remove_samples(place, run)
    # adds the rows of other runs that the removed files of tables had
    _ = Listing(place).all_runs


def _list_files_with_rows(place: Place, table: str, run_ids: Set[str]) -> list[str]:
    """List the files of a table that have rows of any of these runs."""

    def has_rows(name: str) -> bool:
        rows = TableFile(place, name, table).read(["run_id"])
        ids_in_file = rows.column("run_id").unique().to_pylist()
        return not run_ids.isdisjoint(ids_in_file)

    names = list_table_files(place, table)
    has_rows_by_name = read_undamaged(names, has_rows)
    return [name for name, has_any in has_rows_by_name.items() if has_any]


def _remove_samples(place: Place, run: RunSummary) -> None:
    """Remove a run's samples file, and in a file system the folder that it leaves
    empty.
    """
    name = samples_name(*run.key)
    place.remove(name)
    if isinstance(place, Folder):
        with suppress(OSError):
            (place.root / name).parent.rmdir()

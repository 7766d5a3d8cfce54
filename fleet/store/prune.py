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

    After an interruption, the runs that are left are whole: the next listing adds their
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
            _remove_samples(place, run)  # last, since without samples there is no run
    _restore_rows_of_other_runs(place)


def _restore_rows_of_other_runs(place: Place) -> None:
    """Add the rows that the tables `runs` and `cpus` lack, which a listing does: a
    removed file of a table may have had rows of other runs, too.
    """
    _ = Listing(place).all_runs


def _list_files_with_rows(place: Place, table: str, run_ids: Set[str]) -> list[str]:
    """List the files of a table that have rows of any of these runs."""

    def read_run_ids(name: str) -> set[str]:
        rows = TableFile(place, name, table).read(["run_id"])
        return set(rows.column("run_id").to_pylist())

    names = list_table_files(place, table)
    ids_by_name = read_undamaged(names, read_run_ids)
    names_with_rows = []
    for name, ids_in_file in ids_by_name.items():
        if not run_ids.isdisjoint(ids_in_file):
            names_with_rows.append(name)
    return names_with_rows


def _remove_samples(place: Place, run: RunSummary) -> None:
    """Remove a run's samples file, and in a file system the folder that it leaves
    empty.
    """
    name = samples_name(*run.key)
    place.remove(name)
    if isinstance(place, Folder):
        with suppress(OSError):
            (place.root / name).parent.rmdir()

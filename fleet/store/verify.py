"""Read every file of a results root and compare it with what was written: `fleet
verify`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fleet.errors import DataError, StoreError
from fleet.late import pa
from fleet.store import schema
from fleet.store.amendments import find_bad_amendments
from fleet.store.files import describe_unlisted, store_errors
from fleet.store.gate import RunRecord, convert_row, parse_record
from fleet.store.places import Folder, Key, Place, samples_name
from fleet.store.reading import (
    REMEDIES,
    TableFile,
    damage_errors,
    map_in_threads,
    read_table_name,
)
from fleet.store.runs import (
    Listing,
    describe_damaged_journals,
    describe_misplaced,
    find_duplicates,
    make_listed_row,
)
from fleet.store.samples import hash_samples
from fleet.store.values import check_values
from fleet.store.writing import TABLES_OF_RUNS, file_name

_BATCH_ROWS = 256  # read at a time; each may hold all that a host answered
_SAMPLES_PATTERNS = (
    "samples/*.parquet",
    "samples/*/*.parquet",
    "samples/*/*/*.parquet",
)
_OTHER_TABLES = ("runs", "cpus", "summaries", "counters")
INDEX_REMEDY = "Remove it: it is made again from the samples."
_COPY = (
    "{}: not a file of fleet's; a sync tool's copy? Other readers count its rows."
    " Remove it."
)


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of reading a root. problems: a sentence for each file that is not as
    written.
    """

    runs: int
    samples: int
    files: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a root. stamps: of the samples files of runs, by run. below_samples:
    all names in their folders. unreadable: errors of folders that cannot be read.
    """

    stamps: Mapping[Key, str]
    below_samples: Collection[str]
    tables: Mapping[str, Sequence[str]]
    amendments: Sequence[str]
    unreadable: Sequence[OSError]

    def count(self) -> int:
        """Count the files that fleet has written."""
        files_of_tables = sum(map(len, self.tables.values()))
        return len(self.stamps) + len(self.amendments) + files_of_tables

    def describe_unlisted(self) -> list[str]:
        """Return a sentence for each folder that cannot be listed."""
        sentences = [describe_unlisted(err) for err in self.unreadable]
        return list(dict.fromkeys(sentences))

    def list_copies(self) -> list[str]:
        """List the Parquet files below samples/ that fleet did not write for a run.
        Skip hidden ones, whose names begin with `.` or `_`. The keys of `stamps` are
        the runs; `below_samples` are all Parquet files.
        """
        own_names = {samples_name(*key) for key in self.stamps}
        copies = []
        for name in sorted({*self.below_samples} - own_names):
            _, _, last = name.rpartition("/")
            if not last.startswith((".", "_")):
                copies.append(name)
        return copies


class _CheckedSamples(NamedTuple):
    """A samples file as read. record_json: the record of the run in its place, None if
    it has none. problem: None if intact.
    """

    record_json: bytes | None
    samples: int
    problem: str | None


class _CheckedTable(NamedTuple):
    """A file of another table as read: the runs it has rows of, and its problems."""

    run_ids: set[str]
    problems: list[str]


def verify(place: Place) -> Verification:
    """Compare all in `place` with its checksums, digests and records; change nothing.
    Raises StoreError.
    """
    files = _list_files(place)
    checked = _verify_all_samples(place, files.stamps)
    return Verification(
        runs=len(files.stamps),
        samples=sum(result.samples for result in checked.values()),
        files=files.count(),
        problems=tuple(_find_problems(place, files, checked)),
    )


def _find_problems(
    place: Place, files: "_Files", samples: Mapping[Key, _CheckedSamples]
) -> Iterator[str]:
    """Yield a sentence for each file, row or folder that is not as written. samples: by
    run, the result of reading its samples file.
    """
    yield from files.describe_unlisted()
    records = dict[Key, bytes]()  # as JSON
    for key, result in samples.items():
        if result.record_json is not None:
            records[key] = result.record_json
        if result.problem is not None:
            yield result.problem
    for name in files.list_copies():
        yield _COPY.format(name)
    # Two runs with one ID have the same problem, which is said once. Neither run is
    # compared with the tables, as it is not known which of them is true.
    duplicates = find_duplicates(place, records)
    yield from dict.fromkeys(map(str, duplicates.values()))
    records_by_run = dict[str, bytes]()
    for key, record in records.items():
        _, run_id = key
        if key not in duplicates:
            records_by_run[run_id] = record
    for table, names in files.tables.items():
        yield from _verify_files_of_table(place, table, names, records_by_run)
    yield from _verify_index(place, files.stamps, records)
    yield from find_bad_amendments(place, files.amendments)
    yield from describe_damaged_journals(place.state_dir)


def _list_files(place: Place) -> "_Files":
    """List the files of a root. Raises StoreError."""
    unreadable = list[OSError]()  # each call adds the errors of folders
    below_samples = set[str]()
    tables = dict[str, list[str]]()
    with store_errors("verify the results", place):
        stamps = place.stamps(unreadable)
        # `place.files` raises the error of a pattern's first folder, here samples/;
        # `_list_matching` adds that of another folder to `unreadable`
        for pattern in _SAMPLES_PATTERNS:
            names = place.files(pattern, unreadable)
            below_samples.update(names)
        for table in _OTHER_TABLES:
            tables[table] = _list_matching(place, f"{table}/*.parquet", unreadable)
        amendments = _list_matching(place, "amendments/*.json", unreadable)
    return _Files(stamps, below_samples, tables, amendments, unreadable)


def _list_matching(place: Place, pattern: str, unreadable: list[OSError]) -> list[str]:
    """Return the names of the files in a folder that match a pattern. If the folder
    cannot be read, add the error to `unreadable`. An error of an object store is
    raised, since its other folders cannot be read then either. Raises OSError.
    """
    try:
        return place.files(pattern)
    except OSError as err:
        # an error of the file system names a file, that of an object store does not
        is_of_object_store = err.filename is None
        if is_of_object_store:
            raise
        unreadable.append(err)
        return []


def verify_file(path: Path) -> Verification:
    """Compare one exported file, a run or a summary, with its checksums and digest;
    return any problem.
    """
    folder = Folder(path.absolute().parent)
    runs = 0
    samples = 0
    try:
        with damage_errors(str(path)):
            table = read_table_name(folder, path.name)
            file = TableFile(folder, path.name, table, whole=table == "samples")
            if table == "samples":
                file.require_plausible_size()
                samples = file.count_samples()
                runs = 1
            problem = _find_difference(file)
    except StoreError as err:
        return Verification(runs, samples, files=1, problems=(str(err),))
    problems = () if problem is None else (f"{path}: {problem}",)
    return Verification(runs, samples, files=1, problems=problems)


def _find_difference(file: TableFile) -> str | None:
    """Return how an exported file differs from one run or summary; None if it is
    intact. Raises StoreError.
    """
    if file.table == "samples":
        if hash_samples(file) != file.record.row["content_sha256"]:
            return "its samples differ from its record. Write it again: fleet export."
    elif file.table != "summaries":
        return (
            f"a file of {file.table}, not a run or a summary. Export one: fleet export."
        )
    elif len(file.read().column("summary").unique()) != 1:
        return "does not hold one summary. Write it again: fleet export --medians."
    return None


def _verify_all_samples(
    place: Place, stamps: Mapping[Key, str]
) -> dict[Key, _CheckedSamples]:
    results = map_in_threads(lambda key: _verify_samples(place, key, stamps), stamps)
    return dict(zip(stamps, results, strict=True))


def _verify_samples(
    place: Place, key: Key, present: Collection[Key]
) -> _CheckedSamples:
    """Verify the samples file of a run. present: all runs that have a samples file."""
    name = samples_name(*key)
    record_json = None
    try:
        with damage_errors(name):
            file = TableFile(place, name, "samples", whole=True)
            row = file.record.row
            own_key = (row["host_id"], row["run_id"])
            if own_key != key:
                misplaced = f"{name}: {describe_misplaced(own_key, present)}"
                return _CheckedSamples(None, 0, misplaced)
            record_json = file.record_json
            if hash_samples(file) != row["content_sha256"]:
                differing = (
                    f"{name}: not the samples that were published. Restore it from a"
                    " copy."
                )
                return _CheckedSamples(record_json, 0, differing)
            return _CheckedSamples(record_json, file.count_samples(), None)
    except StoreError as err:
        return _CheckedSamples(record_json, 0, str(err))


def _verify_files_of_table(
    place: Place, table: str, names: Sequence[str], records: Mapping[str, bytes]
) -> Iterator[str]:
    """Yield the problems of a table's files. records: of the runs, by run ID."""
    checked = [_verify_table(place, name, table, records) for name in names]
    for file in checked:
        yield from file.problems
    if table in TABLES_OF_RUNS:
        yield from _find_missing_rows(table, checked, records)


def _find_missing_rows(
    table: str, files: Sequence[_CheckedTable], records: Mapping[str, bytes]
) -> Iterator[str]:
    """Yield a problem for each run that has no rows in a table, or has rows in two of
    its files; none at all if a file is damaged, as its rows are not known. records: of
    all runs, as JSON.
    """
    if any(file.problems for file in files):
        return
    counts = Counter[str]()
    for file in files:
        counts.update(file.run_ids)
    # the remedy is worded for one file
    remedy_for_both = REMEDIES[table].replace("Remove it", "Remove them")
    for run_id, record_json in records.items():
        if counts[run_id] > 1:
            yield (
                f"{table}: two files have rows of {run_id}, and other readers count"
                f" both. {remedy_for_both}"
            )
        elif not counts[run_id] and _has_rows(table, record_json):
            yield (
                f"{table}: no row of {run_id}, so other readers miss it. `fleet runs`"
                " adds it."
            )


def _has_rows(table: str, record_json: bytes) -> bool:
    """Report whether a run has rows in `runs` or `cpus`."""
    return table == "runs" or bool(parse_record(record_json).cpus)


def _verify_index(
    place: Place, stamps: Mapping[Key, str], records: Mapping[Key, bytes]
) -> Iterator[str]:
    """Yield a problem for each run of which the index holds something else than its
    samples file. records: by run, the record in the samples file, as JSON.
    """
    index = Listing(place).index
    indexed_records = index.read_records(stamps)
    for key, indexed_row in index.read_listed(stamps).items():
        if key not in records:
            continue  # the samples file is damaged, which is a problem of its own
        record = parse_record(records[key])
        is_same_row = indexed_row == make_listed_row(record.row)
        if not is_same_row or not _holds_record(indexed_records.get(key), record):
            _, run_id = key
            yield (
                f"{index.path}: what it holds of {run_id} is not that of the samples."
                f" {INDEX_REMEDY}"
            )


def _holds_record(record_json: bytes | None, record: RunRecord) -> bool:
    """Report whether JSON of the index, None if there is none, is that of a record."""
    if record_json is None:
        return False
    try:
        return parse_record(record_json) == record
    except DataError:
        return False


def _verify_table(
    place: Place, name: str, table: str, records: Mapping[str, bytes]
) -> _CheckedTable:
    """Read a file of a table; return the runs or summaries in it, and its problems: it
    cannot be read, is misnamed, or has rows that differ from `records`, the records of
    runs as JSON.
    """
    key_column = "summary" if table == "summaries" else "run_id"
    keys = set[str]()
    # only rows of `runs` and `cpus` are added; without rows, it finds no differences
    comparison = _Comparison(table, records)
    try:
        with damage_errors(name, REMEDIES[table]):
            for part in TableFile(place, name, table).iter_tables():
                keys.update(part.column(key_column).unique().to_pylist())
                if table in TABLES_OF_RUNS:
                    comparison.add_rows(part)
                else:
                    check_values(table, part)
    except StoreError as err:
        return _CheckedTable(keys, [str(err)])
    problems = list[str]()
    # fleet names a file after what it holds, so one with another name is a copy
    if keys and Path(name).stem != file_name(keys):
        problems.append(_COPY.format(name))
    for run_id, columns in comparison.find_differences():
        problems.append(
            f"{name}: what it holds of {run_id} is not that of the samples: {columns}."
            f" {REMEDIES[table]}"
        )
    return _CheckedTable(keys, problems)


class _Comparison:
    """The rows of a file of `runs` or `cpus` beside those of the runs' records."""

    def __init__(self, table: str, records: Mapping[str, bytes]) -> None:
        self._table = table
        self._records = records
        # by run, the rows that the file should have and has not had yet: by CPU, or by
        # None the one row of `runs`
        self._expected = dict[str, dict[int | None, Any]]()
        self._differing = defaultdict[str, set[str]](set)  # columns, by run

    def add_rows(self, part: Any) -> None:
        """Compare further rows of the file, a pyarrow table. Raises DataError for a
        value that fleet never writes.
        """
        for batch in part.to_batches(_BATCH_ROWS):
            for row in batch.to_pylist():
                convert_row(self._table, row)
                if row["run_id"] in self._records:
                    self._compare(row)

    def _compare(self, row: Mapping[str, Any]) -> None:
        """Compare a row of the file with the expected row, as its run's record makes
        it, and take the expected row away. A second row of that CPU then finds nothing
        to equal, and differs. Expected rows that are left in the end are rows that the
        file lacks.
        """
        run_id = row["run_id"]
        if run_id not in self._expected:
            record_json = self._records[run_id]
            self._expected[run_id] = _rebuild_rows_by_cpu(self._table, record_json)
        rows_by_cpu = self._expected[run_id]
        cpu = row.get("cpu")  # a row of `runs` has none
        expected_row = rows_by_cpu.pop(cpu, {})
        for column, value in row.items():
            if value != expected_row.get(column):
                self._differing[run_id].add(column)

    def find_differences(self) -> Iterator[tuple[str, str]]:
        """Yield the ID of each run whose rows in the file differ from its record, and
        what differs: columns, as in "bursts, samples", or "number of rows".
        """
        # rows_left: the rows of the run that the file lacks
        for run_id, rows_left in self._expected.items():
            differing = self._differing[run_id]
            if differing:
                yield run_id, ", ".join(sorted(differing))
            elif rows_left:
                yield run_id, "number of rows"


def _rebuild_rows_by_cpu(table: str, record_json: bytes) -> dict[int | None, Any]:
    """Return the rows of a run that a table should have: rows of `cpus` by CPU, the row
    of `runs` by None.
    """
    record = parse_record(record_json)
    rows = [record.row] if table == "runs" else record.cpus
    # with the values that a file would have
    typed_table = pa.Table.from_pylist(rows, schema.arrow_schema(table))
    return {row.get("cpu"): row for row in typed_table.to_pylist()}

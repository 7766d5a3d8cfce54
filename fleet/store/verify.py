"""Read every file of a results root and compare it with what was written: `fleet
verify`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fleet.errors import DataError, StoreError
from fleet.late import pa
from fleet.store import schema
from fleet.store.amendments import find_bad_amendments
from fleet.store.files import describe_unlisted, store_errors
from fleet.store.gate import convert_row, parse_record
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

_AT_ONCE = 256  # rows; each may hold all that a host answered
_SAMPLES = ("samples/*.parquet", "samples/*/*.parquet", "samples/*/*/*.parquet")
_OTHERS = ("runs", "cpus", "summaries", "counters")
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
    closed = list[OSError]()
    with store_errors("verify the results", place):
        samples = place.stamps(closed)
        below = {name for pattern in _SAMPLES for name in place.files(pattern, closed)}
        others = {table: _list_table(place, table, closed) for table in _OTHERS}
        amendments = _list_table(place, "amendments", closed)
    problems = list(dict.fromkeys(map(describe_unlisted, closed)))
    results = map_in_threads(lambda key: _verify_samples(place, key, samples), samples)
    records = dict[Key, bytes]()
    for key, result in zip(samples, results, strict=True):
        if result.record_json is not None:
            records[key] = result.record_json
    problems += [result.problem for result in results if result.problem]
    copies = sorted(below - {samples_name(*key) for key in samples})
    problems += [
        _COPY.format(name)
        for name in copies
        if not name.rpartition("/")[2].startswith((".", "_"))
    ]
    duplicates = find_duplicates(place, records)
    problems += dict.fromkeys(map(str, duplicates.values()))
    record_by_run = {
        key[1]: record for key, record in records.items() if key not in duplicates
    }
    for table, names in others.items():
        checked = [_verify_table(place, name, table, record_by_run) for name in names]
        problems += [problem for file in checked for problem in file.problems]
        if table in TABLES_OF_RUNS:
            problems += _find_missing_rows(table, checked, record_by_run)
    problems += _verify_index(place, samples, records)
    problems += find_bad_amendments(place, amendments)
    problems += describe_damaged_journals(place.state_dir)
    files = len(samples) + len(amendments) + sum(map(len, others.values()))
    return Verification(
        len(samples), sum(result.samples for result in results), files, tuple(problems)
    )


def _list_table(place: Place, table: str, closed: list[OSError]) -> list[str]:
    """Return the names of a table's files; if its folder is closed, add the error."""
    suffix = "json" if table == "amendments" else "parquet"
    try:
        return place.files(f"{table}/*.{suffix}")
    except OSError as err:
        if err.filename is None:  # an object store's
            raise
        closed.append(err)
        return []


def verify_file(path: Path) -> Verification:
    """Compare one exported file, a run or a summary, with its checksums and digest;
    return any problem.
    """
    folder, runs, samples, problem = Folder(path.absolute().parent), 0, 0, None
    try:
        with damage_errors(str(path)):
            table = read_table_name(folder, path.name)
            file = TableFile(folder, path.name, table, whole=table == "samples")
            if table == "samples":
                file.require_plausible_size()
                runs, samples = 1, file.count_samples()
                if hash_samples(file) != file.record.row["content_sha256"]:
                    problem = (
                        f"{path}: its samples differ from its record. Write it again:"
                        " fleet export."
                    )
            elif table != "summaries":
                problem = (
                    f"{path}: a file of {table}, not a run or a summary. Export one:"
                    " fleet export."
                )
            elif len(file.read().column("summary").unique()) != 1:
                problem = (
                    f"{path}: does not hold one summary. Write it again: fleet export"
                    " --medians."
                )
    except StoreError as err:
        problem = str(err)
    return Verification(runs, samples, 1, (problem,) if problem else ())


def _verify_samples(
    place: Place, key: Key, present: Collection[Key]
) -> _CheckedSamples:
    """Verify the samples file of a run. present: all runs that have one."""
    name = samples_name(*key)
    record_json, samples, problem = None, 0, None
    try:
        with damage_errors(name):
            file = TableFile(place, name, "samples", whole=True)
            row = file.record.row
            own_key = (row["host_id"], row["run_id"])
            if own_key != key:
                problem = f"{name}: {describe_misplaced(own_key, present)}"
            else:
                record_json = file.record_json
                samples = file.count_samples()
                if hash_samples(file) != row["content_sha256"]:
                    samples = 0
                    problem = (
                        f"{name}: not the samples that were published. Restore it from"
                        " a copy."
                    )
    except StoreError as err:
        samples = 0
        problem = str(err)
    return _CheckedSamples(record_json, samples, problem)


def _find_missing_rows(
    table: str, files: Sequence[_CheckedTable], records: Mapping[str, bytes]
) -> Iterator[str]:
    """Yield a problem for each run without rows in a table, or with rows in two of its
    files, unless a file is damaged.
    """
    if any(file.problems for file in files):
        return
    counts = Counter(run_id for file in files for run_id in file.run_ids)
    for run_id, record_json in records.items():
        if counts[run_id] > 1:
            yield (
                f"{table}: two files have rows of {run_id}, and other readers count"
                f" both. {REMEDIES[table].replace('it', 'them', 1)}"
            )
        elif not counts[run_id] and (table == "runs" or parse_record(record_json).cpus):
            yield (
                f"{table}: no row of {run_id}, so other readers miss it. `fleet runs`"
                " adds it."
            )


def _verify_index(
    place: Place, samples: Mapping[Key, str], records: Mapping[Key, bytes]
) -> Iterator[str]:
    """Yield a problem for each run whose index entry differs from its file."""
    index = Listing(place).index
    indexed = index.read_records(samples)
    for key, row in index.read_listed(samples).items():
        if key not in records:
            continue
        record = parse_record(records[key])
        with suppress(DataError):
            if parse_record(indexed.get(key, b"")) == record and row == make_listed_row(
                record.row
            ):
                continue
        yield (
            f"{index.path}: what it holds of {key[1]} is not that of the samples."
            f" {INDEX_REMEDY}"
        )


def _verify_table(
    place: Place, name: str, table: str, records: Mapping[str, bytes]
) -> _CheckedTable:
    """Read a file. Its problems: it cannot be read, is misnamed, or has rows that
    differ from `records`.
    """
    differing = defaultdict[str, set[str]](set)
    # by run and CPU, not yet read
    expected = dict[str, dict[int | None, Any]]()
    keys = set[str]()
    try:
        with damage_errors(name, REMEDIES[table]):
            for part in _iter_checked_tables(place, name, table):
                keys |= {
                    *part.column("summary" if table == "summaries" else "run_id")
                    .unique()
                    .to_pylist()
                }
                for batch in (
                    part.to_batches(_AT_ONCE) if table in TABLES_OF_RUNS else ()
                ):
                    for row in batch.to_pylist():
                        convert_row(table, row)
                        if (run_id := row["run_id"]) not in records:
                            continue
                        if run_id not in expected:
                            expected[run_id] = _rebuild_rows_by_cpu(
                                table, records[run_id]
                            )
                        other = expected[run_id].pop(row.get("cpu"), {})
                        differing[run_id] |= {
                            key for key in row if row[key] != other.get(key)
                        }
    except StoreError as err:
        return _CheckedTable(keys, [str(err)])
    problems = list[str]()
    if keys and Path(name).stem != file_name(keys):
        problems.append(_COPY.format(name))
    for run_id, rows in expected.items():
        if rows or differing[run_id]:
            fields = ", ".join(sorted(differing[run_id])) or "number of rows"
            problems.append(
                f"{name}: what it holds of {run_id} is not that of the samples:"
                f" {fields}. {REMEDIES[table]}"
            )
    return _CheckedTable(keys, problems)


def _iter_checked_tables(place: Place, name: str, table: str) -> Iterator[Any]:
    """Yield the rows of a file in small tables. Raises DataError for a value that
    fleet never writes.
    """
    for part in TableFile(place, name, table).iter_tables():
        if table not in TABLES_OF_RUNS:  # these are compared with the records
            check_values(table, part)
        yield part


def _rebuild_rows_by_cpu(table: str, record_json: bytes) -> dict[int | None, Any]:
    """Return the rows of a run that a table should have: rows of `cpus` by CPU, the row
    of `runs` by None.
    """
    record = parse_record(record_json)
    rows = [record.row] if table == "runs" else record.cpus
    stored = pa.Table.from_pylist(rows, schema.arrow_schema(table))
    return {row.get("cpu"): row for row in stored.to_pylist()}

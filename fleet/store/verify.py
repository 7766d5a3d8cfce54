"""Read every file of a results root and compare it with what was written: `fleet
verify`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fleet.errors import DataError, StoreError
from fleet.late import pa
from fleet.store import schema
from fleet.store.amendments import FILES as AMENDMENTS
from fleet.store.amendments import read_amendment
from fleet.store.files import store_errors
from fleet.store.gate import convert_row, parse_record
from fleet.store.places import Folder, Key, Place, samples_name
from fleet.store.reading import (
    REMEDIES,
    TableFile,
    damage_errors,
    map_in_threads,
    read_table_name,
)
from fleet.store.runs import Listing, make_listed_row
from fleet.store.samples import hash_samples
from fleet.store.values import check_values
from fleet.store.writing import file_name

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
    """A samples file as read. record_json: its run's record, None if unreadable.
    problem: None if intact.
    """

    record_json: bytes | None
    samples: int
    problem: str | None


def verify(place: Place) -> Verification:
    """Compare all in `place` with its checksums, digests and records; change nothing.
    Raises StoreError.
    """
    with store_errors("verify the results", place):
        samples, amendments = place.stamps(), place.files(AMENDMENTS)
        others = {table: place.files(f"{table}/*.parquet") for table in _OTHERS}
        below = {name for pattern in _SAMPLES for name in place.files(pattern)}
    results = map_in_threads(
        lambda key: _verify_samples(place, samples_name(*key)), samples
    )
    checked = zip(samples, results, strict=True)
    records = {
        run_id: result.record_json
        for (_, run_id), result in checked
        if result.record_json
    }
    problems = [result.problem for result in results if result.problem]
    copies = sorted(below - {samples_name(*key) for key in samples})
    problems += [
        _COPY.format(name)
        for name in copies
        if not name.rpartition("/")[2].startswith((".", "_"))
    ]
    for table, names in others.items():
        problems += [
            problem
            for name in names
            for problem in _verify_table(place, name, table, records)
        ]
    problems += _verify_index(place, samples, records)
    for name in amendments:
        try:
            read_amendment(place, name)
        except StoreError as err:
            problems.append(str(err))
    files = len(samples) + len(amendments) + sum(map(len, others.values()))
    return Verification(
        len(samples), sum(result.samples for result in results), files, tuple(problems)
    )


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


def _verify_samples(place: Place, name: str) -> _CheckedSamples:
    record_json, samples, problem = None, 0, None
    try:
        with damage_errors(name):
            file = TableFile(place, name, "samples", whole=True)
            row = file.record.row
            record_json = file.record_json
            if name != samples_name(row["host_id"], row["run_id"]):
                problem = (
                    f"{name}: holds run {row['run_id']} of {row['host_id']}. Move it to"
                    " its place."
                )
            elif hash_samples(file) != row["content_sha256"]:
                problem = (
                    f"{name}: not the samples that were published. Restore it from a"
                    " copy."
                )
            else:
                samples = file.count_samples()
    except StoreError as err:
        problem = str(err)
    return _CheckedSamples(record_json, samples, problem)


def _verify_index(
    place: Place, samples: Mapping[Key, str], records: Mapping[str, bytes]
) -> Iterator[str]:
    """Yield a problem for each run that several hosts have, or whose index entry
    differs from its file.
    """
    hosts = defaultdict[str, list[str]](list)
    for host_id, run_id in samples:
        hosts[run_id].append(host_id)
    for run_id, listed in hosts.items():
        if len(listed) > 1:
            yield (
                f"run {run_id}: the hosts {', '.join(listed)} all have it. Remove those"
                " that are copies."
            )
    index = Listing(place).index
    indexed = index.read_records(samples)
    for key, row in index.read_listed(samples).items():
        if key[1] not in records:
            continue
        record = parse_record(records[key[1]])
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
) -> Iterator[str]:
    """Yield a file's problems: it cannot be read, is misnamed, or has rows that differ
    from `records`.
    """
    differing = defaultdict[str, set[str]](set)
    # expected: by run and CPU, not yet read
    expected, keys = (
        dict[str, dict[int | None, Any]](),
        set[str](),
    )
    try:
        with damage_errors(name, REMEDIES[table]):
            for part in _iter_checked_tables(place, name, table):
                keys |= {
                    *part.column("summary" if table == "summaries" else "run_id")
                    .unique()
                    .to_pylist()
                }
                for batch in (
                    part.to_batches(_AT_ONCE) if table in ("runs", "cpus") else ()
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
        yield str(err)
        return
    if keys and Path(name).stem != file_name(keys):
        yield _COPY.format(name)
    for run_id, rows in expected.items():
        if rows or differing[run_id]:
            fields = ", ".join(sorted(differing[run_id])) or "number of rows"
            yield (
                f"{name}: what it holds of {run_id} is not that of the samples:"
                f" {fields}. {REMEDIES[table]}"
            )


def _iter_checked_tables(place: Place, name: str, table: str) -> Iterator[Any]:
    """Yield the rows of a file in small tables. Raises DataError for a value that
    fleet never writes.
    """
    for part in TableFile(place, name, table).iter_tables():
        if table not in ("runs", "cpus"):  # these are compared with the records
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

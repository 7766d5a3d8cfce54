"""List the runs of a root: published ones, from the index or their samples files, and
unfinished ones.
"""

import json
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import cache, cached_property, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar
from warnings import warn

from fleet.errors import (
    DamagedFileError,
    DataError,
    MemoryLimitError,
    StoreError,
    StoreWarning,
    UsageError,
)
from fleet.model import (
    BENCHMARKS,
    SHIPPED,
    Descriptions,
    Run,
    RunState,
    read_descriptions,
)
from fleet.store.amendments import Amendment, read_amendments
from fleet.store.checksums import unseal_json
from fleet.store.files import (
    describe_unlisted,
    list_folder,
    read_regular,
    store_errors,
)
from fleet.store.gate import RunRecord, convert_row, parse_record
from fleet.store.index import Index
from fleet.store.places import RUN_FILE, Key, Place, parse_place, samples_name
from fleet.store.reading import (
    TableFile,
    damage_errors,
    map_in_threads,
    read_record,
    warn_left_out,
)
from fleet.store.rows import RUN, decode, write_record
from fleet.store.samples import hash_samples
from fleet.store.writing import add_missing_runs, list_tables

_P = ParamSpec("_P")
_Result = TypeVar("_Result")
_NO_RUNS: Mapping[str, DamagedFileError] = MappingProxyType({})
_hidden_runs: ContextVar[Mapping[str, DamagedFileError]] = ContextVar(
    "hidden_runs", default=_NO_RUNS
)
"""Damaged runs that every Listing leaves out, by ID, with the reasons. Only
`skip_damaged_runs` hides runs, while it does its work.
"""
_returned_runs: ContextVar[list[tuple[Place, Key]] | None] = ContextVar(
    "returned_runs", default=None
)
"""A list to which every Listing adds the runs that it returns, for `skip_damaged_runs`;
None outside of that.
"""
# what impossible values of samples cause, as bugs do
_MISTAKES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as `fleet runs` lists it. Counts are None for a run that is only a
    journal.
    """

    run_id: str
    session_id: str
    host_id: str
    host_name: str
    state: RunState
    started_utc: datetime
    target: str
    benchmarks: tuple[str, ...]
    agent_build: str
    labels: tuple[tuple[str, str], ...] = ()
    cpu_model: str | None = None
    ended_utc: datetime | None = None
    cpus: int | None = None
    pairs: int | None = None
    bursts: int | None = None
    samples: int | None = None
    failed: int | None = None
    flagged: int | None = None
    content_sha256: str | None = None
    descriptions: Descriptions = SHIPPED  # of its benchmarks

    @property
    def key(self) -> Key:
        """Return the host ID and run ID, which identify the run in its root."""
        return self.host_id, self.run_id


# fields of RunSummary whose columns in `runs` have other names
_OTHERWISE_NAMED = {
    "labels": "labels_json",
    "cpus": "cpus_measured",
    "failed": "failed_bursts",
    "flagged": "flagged_bursts",
    "descriptions": "hello_json",
}
# by the name of a field of RunSummary, that of its column
_COLUMN_OF = {
    part.name: _OTHERWISE_NAMED.get(part.name, part.name) for part in fields(RunSummary)
}
_Row = dict[str, Any]
# of hello_json only benchmarks that this version does not know
_COLUMNS = tuple(_COLUMN_OF.values())


class Listing:
    """A snapshot of a root's runs, each read once. Make one for each command, and pass
    it on. must_exist: listing the runs of a folder that is missing raises UsageError.
    """

    def __init__(
        self,
        root: str | Path | Place,
        note: Callable[[str], None] | None = None,
        *,
        must_exist: bool = False,
    ) -> None:
        """Take the root of the runs; read nothing yet. note: gets a text before
        anything that may take a while.
        """
        self.note = note or (lambda _: None)
        self._must_exist = must_exist
        if isinstance(root, (str, Path)):
            root = parse_place(root)
        self.place: Place = root
        # why runs are not among `all_runs`
        self.unreadable = dict[Key, DamagedFileError]()
        # by run, then by "benchmark/variant", the names of the points
        self._points = dict[Key, Mapping[str, set[str]]]()

    def __str__(self) -> str:
        return str(self.place)

    @cached_property
    def index(self) -> Index:
        """Return the index of this root."""
        return Index(self.place, _COLUMNS)

    @cached_property
    def stamps(self) -> Mapping[Key, str]:
        """Return the stamp of each samples file, by host, then run. Raises StoreError,
        or UsageError if the root must exist and does not.
        """
        self._require_root()
        unreadable_folders = list[OSError]()
        with store_errors("read the runs", self.place):
            stamps = self.place.stamps(unreadable_folders)  # adds their errors
            if unreadable_folders and not stamps:
                raise unreadable_folders[0]
            if not stamps:
                # else a bucket that is missing would look like an empty one
                self.place.check_reachable()
        for err in unreadable_folders:
            text = f"{describe_unlisted(err)} Its runs are left out."
            warn(text, StoreWarning, stacklevel=2)
        return stamps

    def _require_root(self) -> None:
        if self._must_exist:
            self.place.require_folder()

    @cached_property
    def counter_files(self) -> frozenset[str]:
        """Return the names of the files of `counters`. Raises StoreError, or UsageError
        if the root must exist and does not.
        """
        self._require_root()
        with store_errors("look for counters", self.place):
            return frozenset(self.place.files("counters/*.parquet"))

    @cached_property
    def all_runs(self) -> list[RunSummary]:
        """Return the published runs, oldest first; warn of damaged ones. If the tables
        `runs` and `cpus` lack the rows of some, add these to the tables. Raises
        DamagedFileError if all runs are damaged.
        """
        rows, self.unreadable = self._read_rows(self.stamps)
        errors = list(dict.fromkeys(self.unreadable.values()))
        if errors and not rows:
            raise errors[0]
        for err in errors:
            warn_left_out(err)
        self._add_missing_rows_to_tables()
        return self._summarize(rows)

    @cached_property
    def runs(self) -> list[RunSummary]:
        """Return the runs that were not withdrawn."""
        return [run for run in self.all_runs if not self._is_withdrawn(run)]

    def list_with_unfinished(self) -> list[RunSummary]:
        """Return `runs` and the runs that are only a journal on this machine, oldest
        first.
        """
        return sorted(self.runs + list_unfinished(self.place), key=_sort_key)

    def find_runs(self, run_ids: Collection[str]) -> list[RunSummary]:
        """Find runs by ID. Leave out withdrawn runs. Leave out damaged runs, and runs
        that `skip_damaged_runs` hides, and warn of these. Raises DamagedFileError if
        all runs with these IDs are damaged or hidden.
        """
        # The cached property `all_runs` is in __dict__ once it was read. It has warned
        # of the damaged runs then, and lacks them and the hidden ones. `runs` lacks the
        # withdrawn ones, too.
        are_all_read = "all_runs" in self.__dict__
        if are_all_read:
            return [run for run in self.runs if run.run_id in run_ids]
        stamps = self._select_stamps(run_ids)
        rows, errors = self._read_rows(stamps)
        hidden_runs = _hidden_runs.get()
        for key in stamps:
            _, run_id = key
            if run_id in hidden_runs:
                errors[key] = hidden_runs[run_id]
        # two runs with one ID have the same error
        distinct_errors = list(dict.fromkeys(errors.values()))
        are_all_damaged = all(key in errors for key in stamps)
        if distinct_errors and are_all_damaged:
            raise distinct_errors[0]
        for err in distinct_errors:
            warn_left_out(err)
        return [run for run in self._summarize(rows) if not self._is_withdrawn(run)]

    def _select_stamps(self, run_ids: Collection[str]) -> dict[Key, str]:
        """Return the stamps of the runs with these IDs."""
        stamps = dict[Key, str]()
        for key, stamp in self.stamps.items():
            _, run_id = key
            if run_id in run_ids:
                stamps[key] = stamp
        return stamps

    def read_records(
        self, runs: Sequence[RunSummary], columns: tuple[str, ...] | None = None
    ) -> dict[str, RunRecord]:
        """Return records by run ID; warn of unreadable ones. columns: read only these
        columns of `runs`, and no `cpus`; None: read all.
        """
        # a run that is not in this listing gets "", and is read from its file
        stamps = {run.key: self.stamps.get(run.key, "") for run in runs}
        indexed = self.index.read_records(stamps)
        records = dict[str, RunRecord]()
        for (_, run_id), record_json in indexed.items():
            with suppress(DataError):  # then the record is read from the file
                records[run_id] = parse_record(record_json, columns)
        not_indexed = [run.key for run in runs if run.run_id not in records]
        for content in map_in_threads(self.read_file, not_indexed):
            if isinstance(content, DamagedFileError):
                warn_left_out(content)
                continue
            row, record_json = content
            records[row["run_id"]] = parse_record(record_json, columns)
        return records

    def list_points(self, run: RunSummary) -> Mapping[str, set[str]]:
        """List the points of a run's samples, by benchmark and variant. Raises
        StoreError.
        """
        points = self._points.get(run.key)
        if points is None:
            points = _read_points(self.place, run)
            self._points[run.key] = points
        return points

    @cached_property
    def _amendments(self) -> Mapping[str, Amendment]:
        return read_amendments(self.place)

    def _is_withdrawn(self, run: RunSummary) -> bool:
        return bool(self._amendments.get(run.run_id, Amendment()).withdrawn)

    def _summarize(self, rows: Iterable[_Row]) -> list[RunSummary]:
        """Return the runs of these rows, oldest first, with their current labels. Leave
        out runs that `skip_damaged_runs` hides.
        """
        hidden_runs = _hidden_runs.get()  # set by `skip_damaged_runs`
        runs = list[RunSummary]()
        for row in rows:
            if row["run_id"] not in hidden_runs:
                runs.append(_make_summary(row, self._amendments))
        # `skip_damaged_runs` sets this list, to learn which runs its reader has got;
        # outside of it, there is none
        returned_runs = _returned_runs.get()
        if returned_runs is not None:
            returned_runs.extend((self.place, run.key) for run in runs)
        return sorted(runs, key=_sort_key)

    def _read_rows(
        self, stamps: Mapping[Key, str]
    ) -> tuple[list[_Row], dict[Key, DamagedFileError]]:
        """Read the listed rows of the runs with these stamps, from the index, or else
        from the samples files, whose runs are then indexed. Return the rows, and by run
        the error of each run without a row.
        """
        rows = self.index.read_listed(stamps)
        not_indexed = [key for key in stamps if key not in rows]
        contents, errors = self._read_files(not_indexed)
        if contents:
            # runs that are in the index and have no file any more are dropped from it
            self.index.store_runs(stamps, contents, present=self.stamps)
        for key, (row, _record_json) in contents.items():
            rows[key] = row
        errors |= find_duplicates(self.place, rows)
        undamaged_rows = [row for key, row in rows.items() if key not in errors]
        return undamaged_rows, errors

    def _read_files(
        self, keys: Sequence[Key]
    ) -> tuple[dict[Key, tuple[_Row, bytes]], dict[Key, DamagedFileError]]:
        """Read the samples files of these runs. Return by run the row and the record of
        each, as `read_file` does, and the errors of the damaged ones.
        """
        contents = dict[Key, tuple[_Row, bytes]]()
        errors = dict[Key, DamagedFileError]()
        results = map_in_threads(self.read_file, keys)
        for key, result in zip(keys, results, strict=True):
            if isinstance(result, DamagedFileError):
                errors[key] = result
            else:
                contents[key] = result
        return contents, errors

    def read_file(self, key: Key) -> tuple[_Row, bytes] | DamagedFileError:
        """Read a run's samples file. Return its listed row and its record as JSON, or
        an error if damaged.
        """
        name = samples_name(*key)
        _, run_id = key
        message = f"{self.place}: cannot read the samples table: {name}"
        try:
            with damage_errors(message, run_id=run_id):
                record_json = read_record(self.place, name)
                # all columns are checked now, as the index has only some of them
                record = parse_record(record_json)
                row = make_listed_row(record.row)
        except DamagedFileError as err:
            return err
        own_key = (row["host_id"], row["run_id"])
        if own_key != key:
            misplaced = describe_misplaced(own_key, self.stamps)
            return DamagedFileError(f"{message}: {misplaced}")
        return row, record_json

    def _add_missing_rows_to_tables(self) -> None:
        """Add to the tables `runs` and `cpus` the rows that they lack of runs whose
        sessions will not add them; warn if that fails.
        """
        try:
            with store_errors("complete the tables runs and cpus", self.place):
                files = list_tables(self.place)
                # If a file is gone since the index saw it, any run may lack rows. The
                # index notes that here, before it is asked which runs may lack some.
                self.index.note_table_files(files["cpus"] + files["runs"])
                keys = self._list_ended_not_in_tables()
                run_ids = [run_id for _, run_id in keys]
                # False if rows had to be added, even where that succeeded
                had_all_rows = add_missing_runs(
                    self.place, files, run_ids, read=self._read_indexed
                )
        except (StoreError, MemoryError, MemoryLimitError) as err:
            warn(str(err), StoreWarning, stacklevel=3)
            return
        # runs whose rows were just added are marked by the next listing, which sees
        # the rows in the tables
        if had_all_rows:
            self.index.mark_in_tables(keys)

    def _list_ended_not_in_tables(self) -> list[Key]:
        """Return the runs whose rows may be missing from the tables, and will not be
        added by their sessions.
        """
        keys = []
        for key in self.index.list_not_in_tables():
            stamp = self.stamps.get(key)  # None if the samples file is gone
            # False for a new run in a bucket, which has no locks: the run's session may
            # still be adding the rows
            if stamp is not None and self.place.can_add_rows(stamp):
                keys.append(key)
        return keys

    def _read_indexed(self, run_ids: Collection[str]) -> list[RunRecord]:
        """Return the records that the index has of these runs."""
        stamps = self._select_stamps(run_ids)
        records = self.index.read_records(stamps)
        return [parse_record(record_json) for record_json in records.values()]


def _read_points(place: Place, run: RunSummary) -> dict[str, set[str]]:
    """Read the names of the points of a run's samples, by "benchmark/variant"."""
    points = defaultdict[str, set[str]](set)
    if not run.samples:
        return points
    file = TableFile(place, samples_name(*run.key), "samples")
    columns = ["benchmark", "variant", "point"]
    # nothing is aggregated: the distinct combinations are all that is wanted
    distinct = file.read(columns).group_by(columns).aggregate([])
    for row in distinct.to_pylist():
        if row["point"] is not None:
            points[f"{row['benchmark']}/{row['variant']}"].add(row["point"])
    return points


def describe_misplaced(key: Key, present: Collection[Key]) -> str:
    """Return a sentence on a samples file whose record is that of another run, `key`.
    present: all runs that have a file.
    """
    host_id, run_id = key
    holds = f"it holds run {run_id} of {host_id}"
    if key in present:
        return f"{holds}, as a copy of {samples_name(*key)}. Remove it."
    return f"{holds}. Move it to its place, or remove it."


def find_duplicates(place: Place, keys: Collection[Key]) -> dict[Key, DamagedFileError]:
    """Return an error for each run whose ID is also that of another host's run."""
    errors = dict[Key, DamagedFileError]()
    hosts_by_run_id = defaultdict[str, list[str]](list)
    for host_id, run_id in keys:
        hosts_by_run_id[run_id].append(host_id)
    for run_id, host_ids in hosts_by_run_id.items():
        if len(host_ids) > 1:
            names = [samples_name(host_id, run_id) for host_id in sorted(host_ids)]
            # nothing tells which is the true one, not even the times of the files
            err = DamagedFileError(
                f"{place}: {' and '.join(names)} are two runs with one ID. Remove the"
                " false one."
            )
            for host_id in host_ids:
                errors[host_id, run_id] = err
    return errors


def skip_damaged_runs(work: Callable[_P, _Result]) -> Callable[_P, _Result]:
    """Decorate a reader: each time that it fails at a damaged run, begin again without
    that run; at the end, warn of the damaged runs. Raises DamagedFileError if nothing
    is left to read.

    Values of samples are not checked as they are read. If one of _MISTAKES, such as
    TypeError, ends the work, runs with impossible values count as damaged; without such
    runs it is a bug.
    """

    @wraps(work)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _Result:
        """Do the work without the damaged runs met so far, none at first. If it meets
        further ones, add them, and do it again; else return its result or raise.
        """
        damaged_runs = dict[str, DamagedFileError]()
        while True:
            returned_runs = list[tuple[Place, Key]]()  # filled by listings in the work
            try:
                with _in_listings(damaged_runs, returned_runs):
                    result = work(*arguments, **named)
            except DamagedFileError as err:
                if err.run_id is None or err.run_id in damaged_runs:
                    raise  # no run is at fault, or one that was left out already
                damaged_runs[err.run_id] = err
            except (UsageError, StoreError) as err:
                # if damaged runs were left out, that may be the reason of this error:
                # the first run's damage is raised in its place
                _raise_first_if_any(damaged_runs, err)
                raise
            except _MISTAKES:  # a bug, or the effect of impossible values
                impossible_runs = _find_impossible_runs(returned_runs)
                if not impossible_runs:
                    raise  # a bug
                # left out from now on, so the next pass finds others or none
                damaged_runs |= impossible_runs
            else:
                for damage in damaged_runs.values():
                    warn_left_out(damage)
                return result

    return call


def _raise_first_if_any(
    damaged_runs: Mapping[str, DamagedFileError], cause: Exception
) -> None:
    """Raise the error of the first of these runs, if there is any."""
    for damage in damaged_runs.values():
        raise damage from cause


@contextmanager
def _in_listings(
    hidden_runs: Mapping[str, DamagedFileError],
    returned_runs: list[tuple[Place, Key]],
) -> Iterator[None]:
    """In the block, make every Listing leave out `hidden_runs`, and add the runs that
    it returns to `returned_runs`.
    """
    hidden_token = _hidden_runs.set(hidden_runs)
    returned_token = _returned_runs.set(returned_runs)
    try:
        yield
    finally:
        _hidden_runs.reset(hidden_token)
        _returned_runs.reset(returned_token)


def _find_impossible_runs(
    runs: Iterable[tuple[Place, Key]],
) -> dict[str, DamagedFileError]:
    """Check every value of the samples of these runs. Return, by run ID, an error for
    each run with samples that no agent can have sent.
    """
    errors = dict[str, DamagedFileError]()
    for place, key in dict.fromkeys(runs):
        _, run_id = key
        try:
            file = TableFile(place, samples_name(*key), "samples")
            hash_samples(file)  # which checks every value
        except DamagedFileError as err:
            errors[run_id] = err
        except StoreError:
            continue  # the file failed for another reason than its values
    return errors


Root = str | Path | Listing


def open_listing(root: Root) -> Listing:
    """Return `root` if it is a listing already, else a new listing of it."""
    return root if isinstance(root, Listing) else Listing(root, must_exist=True)


def make_listed_row(row: Mapping[str, Any]) -> _Row:
    """Return the columns that a listing needs from a run's row of `runs`. The column
    `hello_json` keeps only the descriptions of benchmarks that this version does not
    know.
    """
    hello = json.loads(row["hello_json"])
    descriptions = hello.get("benchmarks", ())
    unknown = [item for item in descriptions if item["name"] not in BENCHMARKS]
    listed_row = {name: row[name] for name in _COLUMNS}
    listed_row["hello_json"] = json.dumps({"benchmarks": unknown})
    return listed_row


def index_published(place: Place, records: Sequence[RunRecord]) -> None:
    """Store just published runs in the index. Leave out a run whose file is gone,
    or has no stamp, since a later change of the file could not be told.
    """
    stamps = dict[Key, str]()
    contents = dict[Key, tuple[_Row, bytes]]()
    for record in records:
        row = record.row
        key = (row["host_id"], row["run_id"])
        stamp = place.stamp(samples_name(*key))
        if stamp:
            stamps[key] = stamp
            contents[key] = (make_listed_row(row), write_record(record))
    index = Index(place, _COLUMNS)
    index.store_runs(stamps, contents)


def list_unfinished(place: Place) -> list[RunSummary]:
    """List the runs that are only a journal on this machine, oldest first. Leave out
    journals that cannot be read, which `Store.describe_damaged_journals` names.
    """
    summaries = []
    # if the folder of the journals cannot be listed, return no runs
    with suppress(StoreError):
        for folder in list_journals(place.state_dir):
            with suppress(StoreError), store_errors("read the journals", place):
                run = _summarize_journal(read_journal_run(folder))
                # a run with a samples file is published, and only its journal remains
                if place.stamp(samples_name(*run.key)) is None:
                    summaries.append(run)
    return sorted(summaries, key=_sort_key)


def list_journals(state_dir: Path) -> list[Path]:
    """Return the folders of the journals in a state directory. Raises StoreError."""
    return [path for path in _list_journal_folder(state_dir) if path.is_dir()]


def read_journals(state_dir: Path) -> Iterator[Run | StoreError]:
    """Yield the run of each journal, or why it cannot be read; leave out just removed
    ones. Raises StoreError.
    """
    for folder in list_journals(state_dir):
        try:
            yield read_journal_run(folder)
        except StoreError as err:
            if folder.exists():
                yield err


def describe_damaged_journals(state_dir: Path) -> list[str]:
    """Return an error message for each unreadable journal, or for the folder of all."""
    try:
        journals = list(read_journals(state_dir))
    except StoreError as err:
        return [str(err)]
    return [str(err) for err in journals if isinstance(err, StoreError)]


def list_session_notes(state_dir: Path) -> list[Path]:
    """Return the files of the notes of sessions in a state directory. Raises
    StoreError.
    """
    paths = _list_journal_folder(state_dir)
    return [path for path in paths if fnmatch(path.name, "s*.json")]


def _list_journal_folder(state_dir: Path) -> list[Path]:
    folder = state_dir / "journal"
    with store_errors("read the journals", folder):
        return [folder / name for name in list_folder(folder)]


# Many runs share one text.
_parse_descriptions = cache(lambda text: read_descriptions(json.loads(text)))
_parse_labels = cache(lambda text: tuple(json.loads(text).items()))


def read_journal_run(folder: Path) -> Run:
    """Read the run of a journal, as it began. Raises StoreError if `run.json` cannot be
    read as a run.
    """
    path = folder / RUN_FILE
    try:
        with store_errors("read the journal", path):
            return parse_journal_run(read_regular(path))
    except DataError as err:
        advice = (
            "Its lines are in the files beside it; look at them, then move the folder"
            " away."
        )
        raise StoreError(f"{path}: cannot be read as a run: {err}. {advice}") from err


def parse_journal_run(data: bytes) -> Run:
    """Parse a journal's `run.json`. Raises DataError."""
    run = decode(RUN, unseal_json(data))
    convert_row("runs", {"started_utc": run.started_utc}, ("started_utc",))
    return run


def _make_summary(
    row: Mapping[str, Any], amendments: Mapping[str, Amendment]
) -> RunSummary:
    """Return the summary of a run from its listed row, with its labels as amended."""
    labels = _parse_labels(row["labels_json"])
    amendment = amendments.get(row["run_id"])
    if amendment is not None:
        amended_labels = amendment.apply(labels)
        labels = tuple(amended_labels.items())
    values = {name: row[column] for name, column in _COLUMN_OF.items()}
    values["benchmarks"] = tuple(row["benchmarks"])
    values["descriptions"] = _parse_descriptions(row["hello_json"])
    values["labels"] = labels
    return RunSummary(**values)


def _summarize_journal(run: Run) -> RunSummary:
    """Return what is known of a run that is only a journal."""
    return RunSummary(
        run_id=run.run_id,
        session_id=run.session_id,
        host_id=run.host.host_id,
        host_name=run.host.name,
        state=RunState.UNFINISHED,
        started_utc=datetime.fromisoformat(run.started_utc),
        target=f"{run.facts.os}-{run.facts.arch}",
        benchmarks=run.plan.benchmarks,
        agent_build=run.agent.build,
        labels=tuple(run.labels.items()),
        cpu_model=run.facts.cpu_model,
    )


def _sort_key(summary: RunSummary) -> tuple[datetime, str]:
    return summary.started_utc.astimezone(UTC), summary.run_id

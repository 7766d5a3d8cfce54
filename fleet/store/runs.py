"""Says which runs a root holds: the `runs` table, or the index of it, and the journals not yet published."""

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fleet.errors import DamagedFileError, DataError, MemoryLimitError, StoreError, UsageError
from fleet.model import BENCHMARKS, SHIPPED, Descriptions, RunState, read_descriptions
from fleet.store import gate
from fleet.store.amendments import Amendment, amended
from fleet.store.checksums import checked_footer, opened_json
from fleet.store.columns import rows_of
from fleet.store.files import open_regular, read_regular, storing
from fleet.store.footer import noted
from fleet.store.ids import RUN_FILE
from fleet.store.places import Place, place_of, samples_name
from fleet.store.reading import TableFile, VanishedError, readable
from fleet.store.rows import RECORD, RunRecord, unpacked
from fleet.store.run_tables import complete, put_together
from fleet.store.runs_index import RunsIndex
from fleet.text import nearest

_NEWEST_SHOWN = 5
_hidden: ContextVar[frozenset[str]] = ContextVar("hidden", default=frozenset())
_OLD_S = 900  # seconds; of a samples file so old the session, if alive, has added its row
_READINGS = 10  # of a root whose files others put together meanwhile, before that is an error


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as `fleet runs` lists it. Counts are None for a run that is only a journal.

    descriptions: of its benchmarks.
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
    descriptions: Descriptions = SHIPPED


_OTHERWISE_NAMED = {
    "labels": "labels_json",
    "cpus": "cpus_measured",
    "failed": "failed_bursts",
    "flagged": "flagged_bursts",
    "descriptions": "hello_json",
}
_COLUMN_OF = {part.name: _OTHERWISE_NAMED.get(part.name, part.name) for part in fields(RunSummary)}
_KEYS = ("run_id", "content_sha256")
_Row = dict[str, Any]
_COLUMNS = tuple(_COLUMN_OF.values())  # of hello_json only benchmarks that this version does not know


class Listing:
    """One reading of a root, which stays as it was; a command makes one and hands it to all that it calls."""

    def __init__(self, root: str | Path | Place) -> None:
        self.place: Place = place_of(root) if isinstance(root, (str, Path)) else root

    def __str__(self) -> str:
        return str(self.place)

    @cached_property
    def samples(self) -> Mapping[str, str]:
        """The name of each samples file by its run id."""
        with storing("read the runs", self.place):
            return self.place.samples()

    @cached_property
    def counters(self) -> frozenset[str]:
        """The names of the files of `counters`."""
        with storing("look for counters", self.place):
            return frozenset(self.place.files("counters/*.parquet"))

    @cached_property
    def every(self) -> list[RunSummary]:
        """The runs whose samples are in place, oldest first, the withdrawn among them.

        Their labels are those they have now. A file that cannot be read is named by a StoreWarning and left
        out. Rows that `runs` lacks are taken from the samples files, and added to it once no session can be
        about to do so itself.
        """
        for _ in range(_READINGS):
            with suppress(VanishedError):  # another has put files together, or removed them
                return self._summaries(self._rows())
            self.__dict__.pop("samples", None)
        return self._summaries(self._rows())

    @cached_property
    def runs(self) -> list[RunSummary]:
        """Those of them that were not withdrawn."""
        return [run for run in self.every if not self._is_withdrawn(run)]

    def with_unfinished(self) -> list[RunSummary]:
        """Those, and the runs that are only a journal on this machine."""
        return sorted(self.runs + unfinished(self.place), key=_when)

    def named(self, run_ids: Collection[str]) -> list[RunSummary]:
        """Return the runs with these IDs. Raises DamagedFileError if the only one asked for is damaged."""
        if "every" in self.__dict__:
            return [run for run in self.runs if run.run_id in run_ids]
        names = [self.samples[run_id] for run_id in run_ids if run_id in self.samples]
        if len(names) == 1:
            rows = [_samples_row(self.place, names[0])]
        else:
            rows = list(readable(names, lambda name: _samples_row(self.place, name)).values())
        found = self._summaries(rows)
        return [run for run in found if not self._is_withdrawn(run)]

    @cached_property
    def _amendments(self) -> Mapping[str, Amendment]:
        return amended(self.place)

    def _is_withdrawn(self, run: RunSummary) -> bool:
        amendment = self._amendments.get(run.run_id)
        return amendment is not None and bool(amendment.withdrawn)

    def _summaries(self, rows: Iterable[Mapping[str, Any]]) -> list[RunSummary]:
        """Return the runs of these rows, oldest first, with the labels they have now."""
        shown = (row for row in rows if row["run_id"] not in _hidden.get())
        return sorted((_published(row, self._amendments.get(row["run_id"])) for row in shown), key=_when)

    def _rows(self) -> list[Mapping[str, Any]]:
        """The rows of the runs whose samples are in place. Raises VanishedError."""
        place = self.place
        with storing("read the runs", place):
            names = place.files("runs/*.parquet")
            if not (names or self.samples):
                place.reach()  # else a bucket that is missing would look like an empty one
        index = RunsIndex(place, _COLUMNS)
        found = index.known(names)
        new = [name for name in names if name not in found]
        seen = index.gone({*names, *self.samples.values()}) if new else {}
        found |= readable(new, lambda name: _listed_rows(place, name, seen), raised=VanishedError)
        rows = {row["run_id"]: row for part in found.values() for row in part}
        missing = [name for run_id, name in self.samples.items() if run_id not in rows]
        kept = index.known(missing)
        # A controller killed while it published may leave a run's folder empty.
        unseen = [name for name in missing if name not in kept and place.exists(name)]
        kept |= {
            name: [row] for name, row in readable(unseen, lambda name: _samples_row(place, name)).items()
        }
        rows |= {row["run_id"]: row for part in kept.values() for row in part}
        index.keep(found | kept)
        _tend(place, list(kept))
        return [row for run_id, row in rows.items() if run_id in self.samples]


@contextmanager
def hiding(run_ids: Collection[str]) -> Iterator[None]:
    """Leave these runs out of Listings made meanwhile."""
    token = _hidden.set(frozenset(run_ids))
    try:
        yield
    finally:
        _hidden.reset(token)


Root = str | Path | Listing


def listing_of(root: Root) -> Listing:
    """The reading of a root that a caller hands over, or one of its own."""
    return root if isinstance(root, Listing) else Listing(root)


def glanced(path: Path, *names: str) -> Mapping[str, Any]:
    """Columns of the run of a local samples file, without pyarrow, which takes 0.1 s. OSError, DataError."""
    with os.fdopen(open_regular(path), "rb") as file:
        size = file.seek(0, 2)
        footer = checked_footer(lambda count, at: os.pread(file.fileno(), count, at), size, pages=False)
    return unpacked(noted(footer, RECORD), names).row


def _records(place: Place, names: Sequence[str]) -> dict[str, RunRecord]:
    return readable(names, lambda name: TableFile(place, name, "samples").record)


def complete_session(place: Place, session_id: str) -> None:
    """Add to `runs` and `cpus` what they lack of a session that has ended. Raises OSError, StoreError."""
    stored = [run for run in Listing(place).every if run.session_id == session_id]
    names = [samples_name(run.host_id, run.run_id) for run in stored]
    complete(place, list(_records(place, names).values()))


def _tend(place: Place, missing: Sequence[str]) -> None:
    """Add to `runs` what it lacks, or make few files of many; where that is not possible it stays so."""
    with suppress(OSError, MemoryError, StoreError, MemoryLimitError):
        if old := [name for name in missing if time.time() - place.modified(name) > _OLD_S]:
            complete(place, list(_records(place, old).values()))
        else:
            put_together(place)


def unfinished(place: Place) -> list[RunSummary]:
    """The runs that are only a journal on this machine, oldest first: under way, or interrupted."""
    with storing("read the journals", place):
        folders = sorted((place.state_dir / "journal").glob("*/"))
        found = [summary for folder in folders if (summary := _unfinished(folder)) is not None]
        left = [run for run in found if not place.exists(samples_name(run.host_id, run.run_id))]
    return sorted(left, key=_when)


def last_session(listed: list[RunSummary], place: Place) -> list[str]:
    """The runs of the session that began last, in their order. Raises UsageError for an empty root."""
    if not listed:
        raise UsageError(_nothing_in(place))
    last = max(listed, key=lambda run: (run.started_utc, run.run_id)).session_id
    return [run.run_id for run in listed if run.session_id == last]


def find(listed: list[RunSummary], text: str, place: Place) -> str:
    """The run id that `text` means: a run id, the beginning of exactly one, or a host's latest run."""
    if any(summary.run_id == text for summary in listed):
        return text
    of_host = [summary.run_id for summary in listed if text in (summary.host_name, summary.host_id)]
    if of_host:
        return of_host[-1]
    if text in {run.run_id for run in unfinished(place)}:
        raise UsageError(f"run {text} is not finished: `fleet resume` measures what it lacks and stores it.")
    begun = [summary.run_id for summary in listed if summary.run_id.startswith(text)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise UsageError(
            f"{text!r} is the beginning of {len(begun)} runs: {_some(begun)}. Type more of it, or '{text}*'."
        )
    if not listed:
        raise UsageError(_nothing_in(place))
    hosts = sorted({summary.host_name for summary in listed})
    raise UsageError(
        f"no run and no host {text!r} in {place}{nearest(text, hosts)} Hosts: {_some(hosts)}. `fleet runs` "
        "lists all."
    )


def _nothing_in(place: Place) -> str:
    if Listing(place).every:
        return f"{place}: all runs are withdrawn; `fleet withdraw` lists them, --undo has them read again."
    return f"{place}: nothing is published here yet. `fleet run` measures; --results names another root."


def _listed_rows(place: Place, name: str, seen: Mapping[str, _Row]) -> list[_Row]:
    """A file's rows. VanishedError if it is gone, else StoreError. seen: of files put together to it."""
    try:
        return _table_rows(place, name, seen)
    except VanishedError as err:
        if name in place.files("runs/*.parquet"):  # a link to nothing
            raise DamagedFileError(str(err)) from err
        raise


def _table_rows(place: Place, name: str, seen: Mapping[str, _Row]) -> list[_Row]:
    file = TableFile(place, name, "runs")
    there = file.read(_KEYS).to_pylist() if seen else []
    known = [row for key in there if (row := seen.get(key["run_id"])) and key.items() <= row.items()]
    where = {"run_id": {key["run_id"] for key in there} - {row["run_id"] for row in known}} if known else None
    parts = file.stretches(_COLUMNS, where) if len(known) < file.rows else ()
    rows = (_checked_row(gate.row_of("runs", row, _COLUMNS)) for part in parts for row in rows_of(part))
    try:
        return known + gate.check_listed(rows)
    except DataError as err:
        raise DamagedFileError(f"{place}: {name} is no part of the runs table: {err}. Move it away.") from err


def _samples_row(place: Place, name: str) -> _Row:
    return _checked_row(TableFile(place, name, "samples").record.row)


def _checked_row(row: Mapping[str, Any]) -> _Row:
    told = json.loads(row["hello_json"]).get("benchmarks", ())
    unknown = {"benchmarks": [one for one in told if one["name"] not in BENCHMARKS]}
    found = {**{name: row[name] for name in _COLUMNS}, "hello_json": json.dumps(unknown)}
    _published(found)
    return found


def _published(row: Mapping[str, Any], amendment: Amendment | None = None) -> RunSummary:
    labels = _labels(row["labels_json"])
    values = {name: row[column] for name, column in _COLUMN_OF.items()}
    values["benchmarks"] = tuple(row["benchmarks"])
    values["descriptions"] = _descriptions(row["hello_json"])
    values["labels"] = labels if amendment is None else tuple(amendment.applied(labels).items())
    return RunSummary(**values)


@cache
def _descriptions(text: str) -> Descriptions:
    return read_descriptions(json.loads(text))


@cache
def _labels(text: str) -> tuple[tuple[str, str], ...]:
    """The labels in a column of JSON, which many runs have alike."""
    return tuple(json.loads(text).items())


def _unfinished(folder: Path) -> RunSummary | None:
    """A journal's run; None where `run.json` is not there, is not ours, or vanished while we looked."""
    try:
        written = opened_json(read_regular(folder / RUN_FILE))
        facts = written["facts"]
        told = {
            **{name: written[name] for name in ("run_id", "session_id", "host_id", "started_utc")},
            "host_name": written["host"]["name"],
            "target": f"{facts['os']}-{facts['arch']}",
            "benchmarks": written["plan"]["benchmarks"],
            "agent_build": written["agent"]["build"],
            "labels_json": json.dumps(written["labels"]),
            "cpu_model": facts["cpu_model"],
        }
        row = gate.row_of("runs", told, told)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    row |= {"labels": _labels(row.pop("labels_json")), "benchmarks": tuple(row["benchmarks"])}
    return RunSummary(**row, state=RunState.UNFINISHED)


def _when(summary: RunSummary) -> tuple[datetime, str]:
    return summary.started_utc.astimezone(UTC), summary.run_id


def _some(names: list[str]) -> str:
    shown = ", ".join(names[-_NEWEST_SHOWN:])
    return shown if len(names) <= _NEWEST_SHOWN else f"..., {shown}"

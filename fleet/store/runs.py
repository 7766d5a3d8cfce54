"""Says which runs a root holds: the `runs` table, or the index of it, and the journals not yet published."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleet.errors import StoreError, UsageError
from fleet.model import RunState
from fleet.store.amendments import amended
from fleet.store.files import read_regular, storing
from fleet.store.journal import RUN_FILE
from fleet.store.places import Place
from fleet.store.publish import samples_name, stored_record
from fleet.store.reading import TableFile, readable
from fleet.store.rows import RunRecord
from fleet.store.run_tables import complete, is_old, put_together
from fleet.store.runs_index import remember, remembered
from fleet.text import nearest

_NEWEST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as `fleet runs` lists it. Counts are None for a run that is only a journal."""

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


def published(
    place: Place, hosts: Collection[str] | None = None, *, withdrawn: bool = False
) -> list[RunSummary]:
    """The runs whose samples are in place, oldest first; hosts: only those of these host ids.

    Their labels are those they have now. withdrawn: with those that were withdrawn.

    A file that cannot be read is named by a StoreWarning and left out. Rows that `_runs` lacks are taken from
    the samples files, and added to it once no session can be about to do so itself.
    """
    with storing("read the runs", place):
        names, samples = place.files("_runs/*.parquet"), place.samples()
        if not (names or samples):
            place.reach()  # else a bucket that is missing would look like an empty one
    known = remembered(place, [*names, *samples.values()], _COLUMNS)
    found = {name: rows for name, rows in known.items() if name in set(names)}
    new = [name for name in names if name not in found]
    found |= readable(new, lambda name: _table_rows(place, name))
    rows = {row["run_id"]: row for part in found.values() for row in part}
    missing = [name for run_id, name in samples.items() if run_id not in rows]
    # A controller killed while it published may leave a run's folder empty.
    unseen = [name for name in missing if name not in known and place.exists(name)]
    records = _records(place, unseen)
    kept = {name: known[name] for name in missing if name in known}
    kept |= {name: [_index_row(record.row)] for name, record in records.items()}
    rows |= {row["run_id"]: row for part in kept.values() for row in part}
    if new or unseen or found.keys() | kept.keys() != known.keys():
        remember(place, found | kept, _COLUMNS)
    _tend(place, list(kept))
    there = [row for run_id, row in rows.items() if run_id in samples]
    wanted = [row for row in there if hosts is None or row["host_id"] in hosts]
    return _oldest_first(_as_amended(place, wanted, withdrawn=withdrawn))


def named(place: Place, run_ids: Collection[str]) -> list[RunSummary]:
    """Those of these runs whose samples are in place, oldest first, from the samples files alone.

    A file that cannot be read is a StoreError if it is the only one asked for, otherwise left out as above.
    """
    with storing("read the runs", place):
        samples = place.samples()
    names = [samples[run_id] for run_id in run_ids if run_id in samples]
    if len(names) == 1:
        return _oldest_first(_as_amended(place, [_index_row(stored_record(place, names[0]).row)]))
    records = _records(place, names)
    return _oldest_first(_as_amended(place, [_index_row(record.row) for record in records.values()]))


def _as_amended(
    place: Place, rows: Iterable[Mapping[str, Any]], *, withdrawn: bool = False
) -> list[Mapping[str, Any]]:
    """The rows with the labels they have now, and unless `withdrawn` without those that were withdrawn."""
    amendments = amended(place)
    found = []
    for row in rows:
        amendment = amendments.get(row["run_id"])
        if amendment is None:
            found.append(row)
        elif withdrawn or not amendment.withdrawn:
            labels = amendment.applied(json.loads(row["labels_json"]).items())
            found.append({**row, "labels_json": json.dumps(labels, ensure_ascii=False)})
    return found


def _oldest_first(rows: Iterable[Mapping[str, Any]]) -> list[RunSummary]:
    return sorted(map(_published, rows), key=_when)


def _records(place: Place, names: Sequence[str]) -> dict[str, RunRecord]:
    """The records of samples files, by name; a StoreWarning for each that cannot be read."""
    return readable(names, lambda name: stored_record(place, name))


def complete_session(place: Place, session_id: str) -> None:
    """Add to `_runs` and `_cpus` what they lack of a session that has ended. Raises OSError, StoreError."""
    stored = [run for run in published(place, withdrawn=True) if run.session_id == session_id]
    names = [samples_name(run.host_id, run.run_id) for run in stored]
    complete(place, list(_records(place, names).values()))


def _tend(place: Place, missing: Sequence[str]) -> None:
    """Add to `_runs` what it lacks, or make few files of many; where that is not possible it stays so."""
    with suppress(OSError, StoreError):
        if old := [name for name in missing if is_old(place.modified(name))]:
            complete(place, list(_records(place, old).values()))
        else:
            put_together(place)


def unfinished(place: Place) -> list[RunSummary]:
    """The runs that are only a journal on this machine, oldest first: under way, or interrupted."""
    with storing("read the journals", place):
        folders = sorted((place.state_dir / "_journal").glob("*/"))
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
        raise UsageError(f"{text!r} is the beginning of {len(begun)} runs: {_some(begun)}. Type more of it.")
    if not listed:
        raise UsageError(_nothing_in(place))
    hosts = sorted({summary.host_name for summary in listed})
    raise UsageError(
        f"no run and no host {text!r} in {place}{nearest(text, hosts)} Hosts: {_some(hosts)}. `fleet runs` "
        "lists all."
    )


def _nothing_in(place: Place) -> str:
    """Why no run can be read there."""
    if published(place, withdrawn=True):
        return f"{place}: all runs are withdrawn; `fleet withdraw` lists them, --undo has them read again."
    return f"{place}: nothing is published here yet. `fleet run` measures; --results names another root."


_COLUMNS = (
    "run_id",
    "session_id",
    "host_id",
    "host_name",
    "state",
    "started_utc",
    "ended_utc",
    "target",
    "benchmarks",
    "agent_build",
    "labels_json",
    "cpu_model",
    "cpus_measured",
    "pairs",
    "bursts",
    "samples",
    "failed_bursts",
    "flagged_bursts",
    "content_sha256",
)


def _table_rows(place: Place, name: str) -> list[dict[str, Any]]:
    rows = TableFile(place, name, "runs").read(_COLUMNS).to_pylist()
    if any(row[name] is None for row in rows for name in _COLUMNS[:6]):
        raise StoreError(f"{place}: {name} is no part of the runs table. Move it away.")
    return [_index_row(row) for row in rows]


def _index_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a listing, moments as ISO text: what an index can hold."""
    values = {name: row[name] for name in _COLUMNS}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()
    }


def _published(row: Mapping[str, Any]) -> RunSummary:
    return RunSummary(
        run_id=row["run_id"],
        session_id=row["session_id"],
        host_id=row["host_id"],
        host_name=row["host_name"],
        state=RunState(row["state"]),
        started_utc=datetime.fromisoformat(row["started_utc"]),
        ended_utc=datetime.fromisoformat(row["ended_utc"]) if row["ended_utc"] else None,
        target=row["target"],
        benchmarks=tuple(row["benchmarks"]),
        agent_build=row["agent_build"],
        labels=tuple(json.loads(row["labels_json"]).items()),
        cpu_model=row["cpu_model"],
        cpus=row["cpus_measured"],
        pairs=row["pairs"],
        bursts=row["bursts"],
        samples=row["samples"],
        failed=row["failed_bursts"],
        flagged=row["flagged_bursts"],
        content_sha256=row["content_sha256"],
    )


def _unfinished(folder: Path) -> RunSummary | None:
    """A journal's run; None where `run.json` is not there, is not ours, or vanished while we looked."""
    try:
        written = json.loads(read_regular(folder / RUN_FILE))
        name = written["host"]["name"]
        return RunSummary(
            run_id=written["run_id"],
            session_id=written["session_id"],
            host_id=written["host_id"],
            host_name=name,
            state=RunState.UNFINISHED,
            started_utc=datetime.fromisoformat(written["started_utc"]),
            target="{os}-{arch}".format(**written["facts"]),
            benchmarks=tuple(written["plan"]["benchmarks"]),
            agent_build=written["agent"]["build"],
            labels=tuple(written["labels"].items()),
            cpu_model=written["facts"]["cpu_model"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _when(summary: RunSummary) -> tuple[datetime, str]:
    return summary.started_utc.astimezone(UTC), summary.run_id


def _some(names: list[str]) -> str:
    shown = ", ".join(names[-_NEWEST_SHOWN:])
    return shown if len(names) <= _NEWEST_SHOWN else f"..., {shown}"

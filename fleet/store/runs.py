"""Says which runs a root holds: the `runs` table, or the index of it, and the journals not yet published."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleet.errors import StoreError, UsageError
from fleet.model import RunState
from fleet.store.files import storing
from fleet.store.journal import RUN_FILE
from fleet.store.places import Place
from fleet.store.publish import committed
from fleet.store.reading import TableFile, each
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


def published(place: Place) -> list[RunSummary]:
    """The published runs, oldest first; empty where nothing was published yet."""
    with storing("read the runs", place):
        names = place.files("_runs/*.parquet")
    rows = remembered(place, names, _COLUMNS)
    if new := [name for name in names if name not in rows]:
        rows |= dict(zip(new, _read(place, new), strict=True))
        remember(place, rows, _COLUMNS)
    return sorted((_published(row) for row in rows.values()), key=_when)


def unfinished(place: Place) -> list[RunSummary]:
    """The runs that are only a journal on this machine, oldest first: under way, or cut short."""
    with storing("read the journals", place):
        folders = sorted((place.state_dir / "_journal").glob("*/"))
        left = [folder for folder in folders if not committed(place, folder.name)]
    found = (_unfinished(folder) for folder in left)
    return sorted((summary for summary in found if summary is not None), key=_when)


def last_session(listed: list[RunSummary], place: Place) -> list[str]:
    """The runs of the session that began last, in their order. Raises UsageError for an empty root."""
    if not listed:
        raise UsageError(
            f"{place}: no run is stored here yet; `fleet run` measures, --results names another root."
        )
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
        raise UsageError(
            f"{place}: nothing is published here yet. `fleet run` measures; --results names the root."
        )
    hosts = sorted({summary.host_name for summary in listed})
    raise UsageError(
        f"no run and no host {text!r} in {place}{nearest(text, hosts)} Hosts: {_some(hosts)}. `fleet runs` "
        "lists all."
    )


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


def _read(place: Place, names: Sequence[str]) -> list[dict[str, Any]]:
    """The row of each file, moments as ISO text: what an index can hold."""

    def row(name: str) -> dict[str, Any]:
        rows = TableFile(place, name, "runs").read(_COLUMNS).to_pylist()
        if len(rows) != 1:
            raise StoreError(f"{place}: {name} holds {len(rows)} rows; a run has one.")
        return {
            key: value.isoformat() if isinstance(value, datetime) else value for key, value in rows[0].items()
        }

    return each(row, names)


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
        written = json.loads((folder / RUN_FILE).read_bytes())
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

"""Export runs without names of persons, sites or machines (only the columns in STAYS),
and import them.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from fleet.errors import StoreError
from fleet.model import Plan
from fleet.store import schema
from fleet.store.files import draft_path, store_errors
from fleet.store.gate import RunRecord
from fleet.store.places import (
    Folder,
    Place,
    new_run_id,
    new_session_id,
    require_key,
    samples_name,
)
from fleet.store.reading import TableFile
from fleet.store.rows import to_json
from fleet.store.samples import hash_samples, rewrite_samples
from fleet.store.writing import add_runs

# Columns of `runs` and `cpus` that leave as they are.
STAYS = frozenset(Path(__file__).with_suffix(".txt").read_text().split())
KEEP: Mapping[str, tuple[str, ...]] = {
    "labels": ("labels_json",),
    "hostname": ("host_name", "hostname"),
}
_VALUE = (  # that the kernel takes: numbers and lists of CPUs, or its own words
    r"[\d:.-]+[kKMG]?|on|off|auto|nosmt|force|strict|pt|soft|poll|halt|nomwait|menu|teo|ladder|haltpoll|none|"
    r"enable|disable|active|passive|guided|no_hwp|hwp_only|always|madvise|never|tsc|hpet|acpi_pm|reliable|"
    r"unstable|nowatchdog|full|lazy|voluntary|nohz|domain|managed_irq"
)
_WORDS = re.compile(  # of a kernel's command line, that matter for latencies
    r"(isolcpus|nohz_full|rcu_nocbs|mitigations|nosmt|maxcpus|(transparent_)?hugepage\w*|[\w.]*idle[\w.]*|"
    rf"[\w.]*pstate[\w.]*|clocksource|tsc|iommu|numa_balancing|preempt)(=({_VALUE})(,({_VALUE}))*)?"
)


def anonymize(record: RunRecord, keep: Collection[str] = ()) -> RunRecord:
    """Return an anonymous copy of a record: with new IDs, without the time of day and
    the private columns. keep: keys of KEEP, whose columns are kept all the same.
    """
    columns_to_keep = set[str]()
    for word in keep:
        columns_to_keep.update(KEEP[word])
    row = record.row
    values = _blank_row("runs", row, columns_to_keep)
    values |= _move_to_midnight(row["started_utc"], row["ended_utc"])
    started = values["started_utc"]
    host_id = _make_host_id(row["cpu_model"])
    ids = {"run_id": new_run_id(started), "host_id": host_id}
    values |= ids
    values["session_id"] = new_session_id(started)
    # blank unless it is kept
    values["host_name"] = values["host_name"] or host_id
    # texts that hold many values were blanked: put them back without private ones
    values |= _strip_private_values(row)
    cpus = [_blank_row("cpus", cpu, ()) | ids for cpu in record.cpus]
    return RunRecord(values, cpus)


def _strip_private_values(row: Mapping[str, Any]) -> dict[str, str | None]:
    """Return, by column, a run's texts that hold more than one value, without the
    private values.
    """
    plan = _strip_plan(json.loads(row["plan_json"]))
    hello = _strip_hello(json.loads(row["hello_json"]))
    return {
        "plan_json": to_json(plan),
        "hello_json": to_json(hello),
        "nodes_json": _strip_nodes(row["nodes_json"]),
        "kernel_cmdline": _strip_command_line(row["kernel_cmdline"]),
    }


def _move_to_midnight(started: datetime, ended: datetime | None) -> dict[str, Any]:
    """Return the times of a run that begins when its day does and takes as long."""
    midnight = started.replace(hour=0, minute=0, second=0, microsecond=0)
    moved_end = None
    if ended is not None:
        duration = ended - started
        moved_end = midnight + duration
    return {"started_utc": midnight, "ended_utc": moved_end}


def _make_host_id(cpu_model: str | None) -> str:
    """Make the ID of a host without a name, another one for each run."""
    salted = os.urandom(16) + str(cpu_model).encode()
    digest = hashlib.sha256(salted).hexdigest()
    return f"shared-{digest[:8]}"


def _blank_row(
    table: str, row: Mapping[str, Any], kept_columns: Collection[str]
) -> dict[str, Any]:
    """Return a row of a table in which all values are left out but those of
    `kept_columns` and of the columns in STAYS, which tell nothing private.
    """
    values = {}
    for column in schema.TABLES[table]:
        if column.name in STAYS or column.name in kept_columns:
            values[column.name] = row[column.name]
        else:
            values[column.name] = _make_blank(column)
    return values


def _make_blank(column: schema.Column) -> Any:
    """Return what stands for a value that is left out: null if the column may have
    nulls, else an empty text, list or object of its type.
    """
    if column.type.startswith("list<"):
        return []
    if column.nullable:
        return None
    if column.name == "failed_json":
        return "[]"
    if column.name.endswith("_json"):
        return "{}"
    return ""


def _strip_command_line(text: str | None) -> str | None:
    """Return only the words of a kernel's command line that matter for latencies."""
    words = filter(_WORDS.fullmatch, (text or "").split())
    return " ".join(words) or None


def _strip_nodes(nodes_json: str | None) -> str | None:
    """Return the nodes without the names of network devices, which may be addresses."""
    if nodes_json is None:
        return None
    nodes = json.loads(nodes_json)
    return to_json([{**node, "network": []} for node in nodes])


def _strip_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan without fields that are not of this version."""
    names = {part.name for part in fields(Plan)}
    return {name: value for name, value in plan.items() if name in names}


def _strip_hello(hello: dict[str, Any]) -> dict[str, Any]:
    """Return the agent's first record, reduced to its version and benchmarks."""
    names = ("record", "protocol", "agent", "benchmarks")
    stripped = {name: hello[name] for name in names if name in hello}
    plan = hello.get("plan")
    # for each chosen benchmark, its name, variant and points; None if there is no list
    choices = None
    if isinstance(plan, dict):
        choices = plan.get("benchmarks")
    if choices:
        stripped_choices = [_strip_choice(choice) for choice in choices]
        stripped["plan"] = {"benchmarks": stripped_choices}
    return stripped


def _strip_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    names = ("benchmark", "variant", "points")
    return {name: value for name, value in choice.items() if name in names}


def export_run(
    place: Place, run: RunRecord, path: Path, keep: Collection[str] = ()
) -> RunRecord:
    """Write an anonymous copy of a run to a new file; return its record. Raises
    OSError, StoreError.
    """
    name = samples_name(run.row["host_id"], run.row["run_id"])
    file = TableFile(place, name, "samples", whole=True)
    record = anonymize(run, keep)
    rewrite_samples(file, path, record)
    return record


def import_run(
    place: Place, path: Path, host_name: str | None = None
) -> tuple[RunRecord, bool]:
    """Publish the run of a file that anybody may have made; return its record, and
    whether the run was new. host_name: the name to give its host; None: the file's.
    Raises StoreError.
    """
    file = TableFile(Folder(path.absolute().parent), path.name, "samples", whole=True)
    record = _read_untrusted_record(file, path)
    row = dict(record.row)
    if host_name:
        row["host_name"] = require_key(host_name, "host")
    imported = RunRecord(row, record.cpus)
    with store_errors("import the run", place):
        is_new = _put_samples(place, file, imported, path)
        if is_new:
            add_runs(place, [imported])
            return imported, True
    name = samples_name(row["host_id"], row["run_id"])
    stored = TableFile(place, name, "samples").record
    if stored.row["content_sha256"] != row["content_sha256"]:
        raise StoreError(
            f"{path}: run {row['run_id']} is here already, with other samples; nothing"
            " was changed."
        )
    return stored, False


def _read_untrusted_record(file: TableFile, path: Path) -> RunRecord:
    """Read the record of a file that anybody may have made. Raises StoreError unless
    the samples are those of the record.
    """
    file.require_plausible_size()
    row = file.record.row
    is_same = hash_samples(file) == row["content_sha256"]
    if not is_same or file.rows != row["bursts"]:
        raise StoreError(
            f"{path}: its samples differ from its record; nothing was imported."
        )
    return file.record


def _put_samples(place: Place, file: TableFile, record: RunRecord, path: Path) -> bool:
    """Publish a file's samples with a record; return False if the run is there already.
    Raises StoreError if it is of another host.
    """
    run_id = record.row["run_id"]
    host_id = record.row["host_id"]
    with draft_path(place.state_dir, run_id) as draft:
        rewrite_samples(file, draft, record)
        # `stamps` has a key, host and run, for each samples file in the place
        hosts = {host for host, stored_run in place.stamps() if stored_run == run_id}
        other_hosts = hosts - {host_id}
        if other_hosts:
            raise StoreError(
                f"{path}: run {run_id} is here already, of {min(other_hosts)};"
                " nothing was changed."
            )
        return place.put(draft, samples_name(host_id, run_id))

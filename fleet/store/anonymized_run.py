"""Export runs without names of persons, sites or machines (only the columns in STAYS),
and import them.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import fields
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
_EMPTY = {"failed_json": "[]"}


def anonymize(record: RunRecord, keep: Collection[str] = ()) -> RunRecord:
    """Return an anonymous copy: new IDs, no time of day, no private columns except
    `keep` (keys of KEEP).
    """
    row, kept_columns = record.row, {name for word in keep for name in KEEP[word]}
    day = row["started_utc"].replace(hour=0, minute=0, second=0, microsecond=0)
    salted = os.urandom(16) + str(row["cpu_model"]).encode()
    host = f"shared-{hashlib.sha256(salted).hexdigest()[:8]}"
    plan, plan_fields = (
        json.loads(row["plan_json"]),
        {part.name for part in fields(Plan)},
    )
    values = {
        **{
            column.name: _keep_or_blank(column, row, kept_columns)
            for column in schema.TABLES["runs"]
        },
        "run_id": new_run_id(day),
        "session_id": new_session_id(day),
        "host_id": host,
        "started_utc": day,
        "ended_utc": row["ended_utc"] and day + (row["ended_utc"] - row["started_utc"]),
        "kernel_cmdline": (
            " ".join(filter(_WORDS.fullmatch, (row["kernel_cmdline"] or "").split()))
            or None
        ),
        "plan_json": to_json(
            {name: value for name, value in plan.items() if name in plan_fields}
        ),
        "hello_json": to_json(_strip_hello(json.loads(row["hello_json"]))),
    }
    values["host_name"] = values["host_name"] or host
    ids = {"run_id": values["run_id"], "host_id": host}
    columns = schema.TABLES["cpus"]
    cpus = [
        {c.name: _keep_or_blank(c, cpu, ()) for c in columns} | ids
        for cpu in record.cpus
    ]
    return RunRecord(values, cpus)


def _keep_or_blank(
    column: schema.Column, row: Mapping[str, Any], kept_columns: Collection[str]
) -> Any:
    if column.name in STAYS or column.name in kept_columns:
        return row[column.name]
    if column.type.startswith("list<"):
        return []
    if column.nullable:
        return None
    return _EMPTY.get(column.name, "{}" if column.name.endswith("_json") else "")


def _strip_hello(hello: dict[str, Any]) -> dict[str, Any]:
    """Return the agent's first record, reduced to its version and benchmarks."""
    plan = hello.get("plan")
    listed = plan.get("benchmarks") if isinstance(plan, dict) else None
    stripped = {
        name: hello[name]
        for name in ("record", "protocol", "agent", "benchmarks")
        if name in hello
    }
    names = {"benchmark", "variant", "points"}
    kinds = [
        {key: value for key, value in kind.items() if key in names}
        for kind in listed or ()
    ]
    return stripped | ({"plan": {"benchmarks": kinds}} if kinds else {})


def export_run(
    place: Place, run: RunRecord, path: Path, keep: Collection[str] = ()
) -> RunRecord:
    """Write an anonymous copy of a run to a new file; return its record. Raises
    OSError, StoreError.
    """
    file = TableFile(
        place,
        samples_name(run.row["host_id"], run.row["run_id"]),
        "samples",
        whole=True,
    )
    record = anonymize(run, keep)
    rewrite_samples(file, path, record)
    return record


def import_run(
    place: Place, path: Path, host_name: str | None = None
) -> tuple[RunRecord, bool]:
    """Publish the run of an untrusted file; return its record and whether it was new.
    Raises StoreError.
    """
    file = TableFile(Folder(path.absolute().parent), path.name, "samples", whole=True)
    file.require_plausible_size()
    record = file.record
    if (
        hash_samples(file) != record.row["content_sha256"]
        or file.rows != record.row["bursts"]
    ):
        raise StoreError(
            f"{path}: its samples differ from its record; nothing was imported."
        )
    run_id, host_id = record.row["run_id"], record.row["host_id"]
    name = samples_name(host_id, run_id)
    own = {
        "host_name": (
            require_key(host_name, "host") if host_name else record.row["host_name"]
        )
    }
    with store_errors("import the run", place):
        with draft_path(place.state_dir, run_id) as new:
            imported = RunRecord({**record.row, **own}, record.cpus)
            rewrite_samples(file, new, imported)
            if others := {host for host, other in place.stamps() if other == run_id} - {
                host_id
            }:
                text = (
                    f"{path}: run {run_id} is here already, of {min(others)}; nothing"
                    " was changed."
                )
                raise StoreError(text)
            is_new = place.put(new, name)
        if is_new:
            add_runs(place, [imported])
    stored = imported if is_new else TableFile(place, name, "samples").record
    if stored.row["content_sha256"] != record.row["content_sha256"]:
        raise StoreError(
            f"{path}: run {run_id} is here already, with other samples; nothing was"
            " changed."
        )
    return stored, is_new

"""Convert the model's objects to table rows and JSON, never with a Host's environment
values. Pure.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import msgspec

from fleet.errors import DataError, StoreError
from fleet.late import pa
from fleet.model import Hello, Host, Load, Run
from fleet.store import schema
from fleet.store.gate import RECORD_BYTES, RunRecord
from fleet.text import describe_msgspec_error

RECORD = b"fleet.run"  # of the metadata of a samples file
NOT_STORED = "(not stored)"  # in place of a command of `before` or `after`
_ZSTD_LEVEL = 9
_USUAL_RECORD_BYTES = 1 << 16  # unpacked; only those of large machines are longer
_HELLO_COLUMNS = ("pairs", "preset", "precision", "clock", "ticks_per_second")
_CPU_COLUMNS = (
    *("core", "cluster", "llc", "die", "package", "node"),
    *("cpu", "online", "allowed", "kind", "capacity", "model"),
    *("max_khz", "governor", "isolated"),
)
_Model = TypeVar("_Model")
RUN = msgspec.json.Decoder(Run)  # made here, as those of `gate`


def write_record(record: RunRecord) -> bytes:
    """Return a record as JSON, in which only the run's own row has the IDs."""
    shared = ("run_id", "host_id")
    cpus = [
        {key: value for key, value in cpu.items() if key not in shared}
        for cpu in record.cpus
    ]
    return to_json({"run": record.row, "cpus": cpus}).encode()


def pack_record(record: RunRecord) -> str:
    """Return a record as text for a file's metadata: JSON, compressed by zstd, in
    base64.
    """
    frame = pa.Codec("zstd", _ZSTD_LEVEL).compress(write_record(record), asbytes=True)
    return base64.b64encode(frame).decode()


def unpack_record(text: bytes) -> bytes:
    """Return the JSON of the record that `pack_record` wrote. Raises DataError."""
    try:
        frame = pa.BufferReader(base64.b64decode(text, validate=True))
        stream = pa.CompressedInputStream(frame, "zstd")
        # the usual size first, since a read reserves the memory that it may need
        plain: bytes = stream.read(_USUAL_RECORD_BYTES)
        if len(plain) == _USUAL_RECORD_BYTES:
            bytes_left = RECORD_BYTES - len(plain)
            plain += stream.read(bytes_left + 1)  # one more, to tell that it is longer
    except (OSError, binascii.Error) as err:
        raise DataError(f"its record of the run cannot be unpacked: {err}") from err
    if len(plain) > RECORD_BYTES:
        raise DataError(f"its record of the run has more than {RECORD_BYTES} bytes")
    return plain


def to_json(value: Any) -> str:
    """Return a dataclass instance, a mapping or a list of these as one line of JSON."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), default=_to_plain
    )


def to_dict(instance: Any) -> dict[str, Any]:
    """Return an instance's values by field. Keep only the names in a Host's environment
    and the number of its commands: what they say may be secret.
    """
    names = _field_names(type(instance))  # type: ignore[arg-type]  # a class is hashable
    values = {name: getattr(instance, name) for name in names}
    if type(instance) is Host:
        values["env"] = sorted(instance.env)
        values["before"] = [NOT_STORED] * len(instance.before)
        values["after"] = [NOT_STORED] * len(instance.after)
    return values


def drop_defaults(instance: Any) -> dict[str, Any]:
    """Return a Failed or its Parameters as a dict without values that are the default,
    as a run may have 100,000 failures.
    """
    defaults = {part.name: part.default for part in fields(instance)}
    values = {}
    for name, value in to_dict(instance).items():
        if is_dataclass(value):  # the Parameters of a Failed
            values[name] = drop_defaults(value)
        elif value != defaults[name]:
            values[name] = value
    return values


def _to_plain(value: Any) -> Any:
    """Convert a mapping, time or dataclass instance for json.dumps, which then converts
    what is in it.
    """
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return to_dict(value)


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind))


def require_hello(run: Run) -> Hello:
    """Return the run's hello, which has the length of a tick. Raises StoreError if the
    run has none.
    """
    if run.hello is None:
        text = (
            f"{run.host.name}: run {run.run_id} has no hello from the agent: nothing to"
            " publish."
        )
        raise StoreError(text)
    return run.hello


def make_runs_row(run: Run, contents: Mapping[str, Any]) -> dict[str, Any]:
    """Make the run's row of `runs`. contents: by column, what is derived from its
    samples, such as their number. Raises StoreError if the run has no hello.
    """
    hello = require_hello(run)
    facts = run.facts
    ended = None
    if run.ended_utc:
        ended = datetime.fromisoformat(run.ended_utc)
    row = _pick_values(run, "run_id", "session_id", "fleet_version")
    row |= contents
    row |= _pick_values(hello, *_HELLO_COLUMNS)
    # run.end is None if the agent did not come to its end; then so are these columns
    row |= _pick_values(run.end, "converged", "unconverged")
    row |= {
        "host_id": run.host.host_id,
        "host_name": run.host.name,
        "state": str(run.state),
        "started_utc": datetime.fromisoformat(run.started_utc),
        "ended_utc": ended,
        "benchmarks": _list_benchmarks(run),
        "cpus_measured": len(hello.cpus),
        "failed_bursts": len(run.missing),
        "estimator": str(hello.estimator),
        "precision_reached": run.end and run.end.reached,
        "target": f"{facts.os}-{facts.arch}",
        "agent_build": run.agent.build,
        "agent_place": run.agent.place,
        "agent_compiler": hello.raw.get("compiler"),
        "agent_cflags": hello.raw.get("cflags"),
        "clock_cost_ticks": hello.raw.get("clock_cost_ticks"),
        "clock_quantum_ticks": hello.raw.get("clock_quantum_ticks"),
    }
    lists_of_facts = _pick_values(facts, *schema.FACT_LISTS)
    row |= {name: list(values) for name, values in lists_of_facts.items()}
    row["notes"] = _list_notes(run)
    row |= _make_json_columns(run, hello)
    # all that the host answered when its facts were gathered, but for the lines that
    # name agents which earlier runs have left on it
    row["probe"] = _drop_earlier_agents(facts.probe)
    row |= _make_load_columns(facts.load, "before")
    row |= _make_load_columns(run.load_after, "after")
    row |= _pick_values(facts, *schema.FACTS)
    return row


def _pick_values(instance: Any, *names: str) -> dict[str, Any]:
    """Return these values of an instance by name; None for each if there is none."""
    if instance is None:
        return dict.fromkeys(names)
    return {name: getattr(instance, name) for name in names}


def _list_notes(run: Run) -> list[str]:
    """List the notes of the host's facts, then those that only the run has."""
    notes = list(run.facts.notes)
    notes += [note for note in run.notes if note not in run.facts.notes]
    return notes


def _make_json_columns(run: Run, hello: Hello) -> dict[str, str]:
    """Return the columns of JSON, by name, of a run's row of `runs`."""
    labels = {**run.host.labels, **run.labels}
    failures = [drop_defaults(failure) for failure in run.failed]
    return {
        "labels_json": to_json(labels),
        "mitigations_json": to_json(run.facts.mitigations),
        "nodes_json": to_json(run.facts.nodes),
        "memory_json": to_json(run.facts.memory),
        "plan_json": to_json(run.plan),
        "host_json": to_json(run.host),
        "hello_json": to_json(hello.raw),
        "failed_json": to_json(failures),
    }


def _drop_earlier_agents(probe: str) -> str:
    """Drop the lines on files of earlier agents, which say nothing of the machine."""
    lines = [line for line in probe.split("\n") if "fleet-agent-" not in line]
    return "\n".join(lines)


def _make_load_columns(load: Load, when: str) -> dict[str, Any]:
    return {f"{name}_{when}": value for name, value in to_dict(load).items()}


def make_cpus_rows(run: Run) -> list[dict[str, Any]]:
    """Make a row of `cpus` for every CPU of the host. Raises StoreError if the run has
    no hello.
    """
    measured = set(require_hello(run).cpus)
    rows = []
    for cpu in run.facts.cpus:
        row = _pick_values(cpu, *_CPU_COLUMNS)
        row["host_id"] = run.host.host_id
        row["run_id"] = run.run_id
        row["measured"] = cpu.cpu in measured
        row["caches_json"] = to_json(cpu.caches)
        rows.append(row)
    return rows


def _list_benchmarks(run: Run) -> list[str]:
    """List "benchmark/variant" as in the agent's hello, or the requested benchmarks if
    it has no list.
    """
    plan = require_hello(run).raw.get("plan")
    choices = plan.get("benchmarks") if isinstance(plan, Mapping) else None
    if not isinstance(choices, list):
        return list(run.plan.benchmarks)
    if not all(isinstance(choice, Mapping) for choice in choices):
        return list(run.plan.benchmarks)
    return [f"{choice.get('benchmark')}/{choice.get('variant')}" for choice in choices]


def decode(decoder: msgspec.json.Decoder[_Model], value: object) -> _Model:
    """Convert parsed JSON, as `to_json` writes it, to the decoder's type. Raises
    DataError, which names the field.
    """
    try:
        return msgspec.convert(_drop_env(value), decoder.type)
    except msgspec.ValidationError as err:
        raise DataError(describe_msgspec_error(err, decoder.type.__name__)) from err


def _drop_env(value: Any) -> Any:
    """Drop the key `env` from an object, and from the hosts that are in it. It is a
    list of names: the values of variables are not stored, and `Host.env` needs them.
    """
    if not isinstance(value, dict):
        return value
    kept_items = {key: item for key, item in value.items() if key != "env"}
    for key in ("host", "build_host"):
        if key in kept_items:
            kept_items[key] = _drop_env(kept_items[key])
    return kept_items

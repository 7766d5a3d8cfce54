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
from fleet.model import Hello, Host, Run
from fleet.store import schema
from fleet.store.gate import RECORD_BYTES, RunRecord
from fleet.text import describe_msgspec_error

RECORD = b"fleet.run"  # of the metadata of a samples file
NOT_STORED = "(not stored)"  # in place of a command of `before` or `after`
_ZSTD_LEVEL = 9
_Model = TypeVar("_Model")
RUN = msgspec.json.Decoder(Run)  # made here, as those of `gate`


def write_record(record: RunRecord) -> bytes:
    """Return a record as JSON."""
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
        plain: bytes = pa.CompressedInputStream(frame, "zstd").read(RECORD_BYTES + 1)
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
    values = {name: getattr(instance, name) for name in _field_names(type(instance))}  # type: ignore[arg-type]  # a class is hashable
    if type(instance) is Host:
        values["env"] = sorted(instance.env)
        values["before"] = [NOT_STORED] * len(instance.before)
        values["after"] = [NOT_STORED] * len(instance.after)
    return values


def drop_nulls(instance: Any) -> dict[str, Any]:
    """Return a Failed or its Parameters as a dict without None, as a run may have
    100,000 failures.
    """
    values = {
        name: value for name, value in to_dict(instance).items() if value is not None
    }
    return {
        n: drop_nulls(value) if is_dataclass(value) else value
        for n, value in values.items()
    }


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
    """Make the run's row of `runs`. contents: the columns derived from its samples.
    Raises StoreError.
    """
    hello, facts = require_hello(run), run.facts
    row = {
        **_pick_values(run, "run_id", "session_id", "fleet_version"),
        **contents,
        **_pick_values(
            hello, "pairs", "preset", "precision", "clock", "ticks_per_second"
        ),
        **_pick_values(run.end, "converged", "unconverged"),
        "host_id": run.host.host_id,
        "host_name": run.host.name,
        "state": str(run.state),
        "started_utc": datetime.fromisoformat(run.started_utc),
        "ended_utc": datetime.fromisoformat(run.ended_utc) if run.ended_utc else None,
        "benchmarks": _list_benchmarks(run),
        "cpus_measured": len(hello.cpus),
        "failed_bursts": len(run.failed),
        "estimator": str(hello.estimator),
        "precision_reached": run.end.reached if run.end else None,
        "target": f"{run.facts.os}-{run.facts.arch}",
        "agent_build": run.agent.build,
        "agent_place": run.agent.place,
        "agent_compiler": hello.raw.get("compiler"),
        "agent_cflags": hello.raw.get("cflags"),
        **{
            name: hello.raw.get(name)
            for name in ("clock_cost_ticks", "clock_quantum_ticks")
        },
        **{name: list(getattr(facts, name)) for name in schema.FACT_LISTS},
        "notes": [
            *facts.notes,
            *(note for note in run.notes if note not in facts.notes),
        ],
        "labels_json": to_json({**run.host.labels, **run.labels}),
        **{
            f"{name}_json": to_json(getattr(facts, name))
            for name in ("mitigations", "nodes", "memory")
        },
        **{f"{name}_json": to_json(getattr(run, name)) for name in ("plan", "host")},
        "hello_json": to_json(hello.raw),
        "failed_json": to_json([drop_nulls(failure) for failure in run.failed]),
        # what earlier agents left there says nothing of the machine
        "probe": "\n".join(
            line for line in facts.probe.split("\n") if "fleet-agent-" not in line
        ),
    }
    for load, when in (facts.load, "before"), (run.load_after, "after"):
        row |= {f"{name}_{when}": value for name, value in to_dict(load).items()}
    return row | _pick_values(facts, *schema.FACTS)


def _pick_values(instance: Any, *names: str) -> dict[str, Any]:
    return {name: instance and getattr(instance, name) for name in names}


def make_cpus_rows(run: Run) -> list[dict[str, Any]]:
    """Make a row of `cpus` for every CPU of the host. Raises StoreError if the run has
    no hello.
    """
    measured = set(require_hello(run).cpus)
    groups = ("core", "cluster", "llc", "die", "package", "node")
    others = (
        "cpu",
        "online",
        "allowed",
        "kind",
        "capacity",
        "model",
        "max_khz",
        "governor",
        "isolated",
    )
    ids = {"host_id": run.host.host_id, "run_id": run.run_id}
    return [
        _pick_values(cpu, *groups, *others)
        | {
            **ids,
            "measured": cpu.cpu in measured,
            "caches_json": to_json(cpu.caches),
        }
        for cpu in run.facts.cpus
    ]


def _list_benchmarks(run: Run) -> list[str]:
    """List "benchmark/variant" as in the agent's hello, or the requested benchmarks if
    it has no list.
    """
    plan = require_hello(run).raw.get("plan")
    listed = plan.get("benchmarks") if isinstance(plan, Mapping) else None
    if isinstance(listed, list) and all(isinstance(item, Mapping) for item in listed):
        return [f"{item.get('benchmark')}/{item.get('variant')}" for item in listed]
    return list(run.plan.benchmarks)


def decode(decoder: msgspec.json.Decoder[_Model], value: object) -> _Model:
    """Convert parsed JSON, as `to_json` writes it, to the decoder's type. Raises
    DataError, which names the field.
    """
    try:
        return msgspec.convert(_drop_env(value), decoder.type)
    except msgspec.ValidationError as err:
        raise DataError(describe_msgspec_error(err, decoder.type.__name__)) from err


def _drop_env(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {
        key: _drop_env(value[key]) for key in ("host", "build_host") if key in value
    }
    return {key: item for key, item in (value | inner).items() if key != "env"}

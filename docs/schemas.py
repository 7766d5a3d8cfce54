"""Writes the JSON Schemas of fleet/cli/schemas: .venv/bin/python docs/schemas.py.

A type is written as in fleet/store/schema.json: `?` behind it allows null. A `map` has
any keys.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from fleet.inventory import schema as inventory
from fleet.inventory.expected import BENCHMARKS, SELECTORS
from fleet.model import BuildPlace, Host, HostKeyPolicy, Plan, Via
from fleet.plan.options import NAME_A_VARIANT
from fleet.store.schema import TABLES

FOLDER = Path(__file__).parent.parent / "fleet" / "cli" / "schemas"
# of a type, a Row, a list of one Row, or a tuple of Rows, one of which it is, by key
Row = Mapping[str, Any]


def take_columns(table: str, *left_out: str) -> Row:
    """Return the columns of a stored table."""
    return {
        column.name: f"{column.type}?" if column.nullable else column.type
        for column in TABLES[table]
        if column.name not in left_out
    }


def decode_runs() -> Row:
    """Return the columns of stored runs, those of JSON decoded under their short
    names.
    """
    lists = {"failed": "list<any>", "nodes": "list<any>?"}
    return {
        (short := name.removesuffix("_json")): (
            type_ if short == name else lists.get(short, type_.replace("string", "map"))
        )
        for name, type_ in take_columns("runs", "probe").items()
    }


def describe_fields(dataclass: Any, *left_out: str) -> Row:
    """Return the fields of a dataclass, each of the type of its annotation."""
    hints = get_type_hints(dataclass)
    return {
        part.name: translate_hint(hints[part.name])
        for part in fields(dataclass)
        if part.name not in left_out
    }


def translate_hint(hint: Any) -> Any:
    """Return the type of a dataclass field's annotation, as JSON has it."""
    parts = [part for part in get_args(hint) if part is not NoneType]
    if NoneType in get_args(hint):
        types = tuple(translate_hint(part) for part in parts)
        return (
            f"{types[0]}?"
            if len(types) == 1 and isinstance(types[0], str)
            else {"?": types}
        )
    if get_origin(hint) is tuple:
        return f"list<{translate_hint(parts[0])}>"
    if is_dataclass(hint):
        return describe_fields(hint)
    names = {str: "string", bool: "bool", int: "int64", float: "number", Mapping: "map"}
    return next(
        name
        for kind, name in names.items()
        if issubclass(get_origin(hint) or hint, kind)
    )


# not `off`, which some editors take for false
WORDS = {
    "via": Via,
    "host_key": HostKeyPolicy,
    "build": BuildPlace,
}
HOST: Row = describe_fields(Host, "build_host") | {
    "host_id": "string",
    "env": "list<string>",  # the names
    "plan": "map",  # the options that are set
    "build_host": "string?",
}
PLAN: Row = describe_fields(Plan, "deadline_s")
SECONDS: Row = {"least_s": "number", "most_s": "number", "first_s": "number?"}
OUTCOME: Row = {
    "host": "string",
    "state": "string",
    "stage": "string?",
    "exit_code": "int64",
    "message": "string?",
}
KIND: Row = {"benchmark": "string", "variant": "string", "relation": "string"}
CPUS: Row = {"ping_cpu": "int32", "pong_cpu": "int32"}
INTERVAL: Row = {"median_ns": "number?", "low_ns": "number?", "high_ns": "number?"}
OF_RELATION: Row = {
    **KIND,
    "pairs": "int64",
    **dict.fromkeys(
        ("median_ns", "min_ns", "max_ns", "p99_ns", "spread", "widest"), "number?"
    ),
    "bursts": "int64",
    "flagged_share": "number?",
}
TESTED: Row = {
    **dict.fromkeys(("levels", "shared"), "number"),
    **dict.fromkeys(("error", "freedom", "chance", "more"), "number?"),
    **dict.fromkeys(("ratio", "low", "high", "p", "q", "smallest"), "number?"),
    "verdict": "string",
    "why": "string",
}
SIDES: Row = {
    "a_units": "int64",
    "b_units": "int64",
    "a_ns": "number?",
    "b_ns": "number?",
    "a_compared": "number?",
    "b_compared": "number?",
    "shares": "number?",
    "whole": "number?",
}
JUDGED: Row = SIDES | TESTED | {"borrowed": "number?"}
VALUES: Row = {"a_value": "number?", "b_value": "number?", "value_unit": "string"}
CHANGES: Row = dict.fromkeys(("change", "change_low", "change_high"), "number?")
SIDE: Row = {"name": "string", "hosts": "list<string>", "runs": "list<string>"}
NIGHT: Row = {"host": "string", **KIND, "night": "date", "ratio": "number"}
LADDER: Row = {
    "benchmark": "string",
    "variant": "string",
    "setting": "string",
    "threads": "number?",
    **CPUS,
}

SHOWN: Row = {
    "run": decode_runs(),
    "cpus": "list<int32>",
    "number": "string",
    "relations": [OF_RELATION],
    "plateaus": [
        {
            **LADDER,
            "level": "string",
            "cache_bytes": "number?",
            "relation": "string",
            "unit": "string",
            **INTERVAL,
            **dict.fromkeys(
                ("spread", "mean_ns", "min_ns", "p99_ns", "core_ghz", "other_ns"),
                "number?",
            ),
            **dict.fromkeys(("rise", "least_bytes", "most_bytes"), "number?"),
            **dict.fromkeys(("sizes", "bursts", "flagged_bursts"), "int64"),
            "flags": "string",
        }
    ],
    "ladder": [{**LADDER, "bytes": "number", "pages": "string?", **INTERVAL}],
    "nodes": [
        {
            **dict.fromkeys(("benchmark", "variant", "setting"), "string"),
            **dict.fromkeys(("cpu_node", "memory_node", "threads"), "number?"),
            **CPUS,
            **INTERVAL,
        }
    ],
    "counters": [
        {
            **dict.fromkeys(("benchmark", "variant"), "string"),
            "point": "string?",
            **dict.fromkeys(("relation", "thread", "event"), "string"),
            "per_unit": "number?",
            "bursts": "int64",
            "scaled": "number?",
        }
    ],
    "pairs": [take_columns("pairs", "host_id", "run_id", "stats_version")],
}
MISSING: Row = {
    "run": {
        **dict.fromkeys(("host_name", "session_id", "state", "why"), "string"),
        **dict.fromkeys(("stage", "time_utc"), "string?"),
    },
    **dict.fromkeys(("relations", "pairs", "cpus"), "list<any>"),
}
"""A host that the last session could not measure."""

OUTPUTS: Mapping[str, Row | tuple[Row, ...]] = {
    "hosts": HOST | {"measured_utc": "timestamp?", "smt": "string?"},
    "plan": {"host": HOST, "plan": PLAN, "seconds": {"?": SECONDS}},
    "check": (
        OUTCOME
        | {
            "notes": "list<string>",
            "reported": "list<string>",
            "check": {
                "?": {
                    "target": "string",
                    "cpu_model": "string?",
                    "kernel": "string?",
                    "cpus": "int64",
                    "workdir": "string?",
                    "workdir_made": "bool",
                    "run": {
                        "?": {
                            "agent": "string?",
                            "plan": describe_fields(Plan),
                            **dict.fromkeys(
                                ("cpus", "pairs", "points", "bursts", "memory_bytes"),
                                "int64?",
                            ),
                            "seconds": {"?": SECONDS},
                            "no_forecast": "string?",
                        }
                    },
                    "findings": [
                        {
                            **dict.fromkeys(("kind", "severity", "found"), "string"),
                            **dict.fromkeys(
                                ("remedy", "evidence", "condition"), "string?"
                            ),
                        }
                    ],
                }
            },
        }
    ),
    "run": (
        OUTCOME
        | {
            "host_id": "string",
            "run_id": "string?",
            "bursts": "int64?",
            "again": "int64",
            "seconds": "number",
        }
        | {"notes": "list<string>"}
    ),
    "resume": {"host": "string", "run": "string?", "session": "string"},
    "clean": OUTCOME | {"removed": "list<string>", "left": "list<string>"},
    "runs": {
        **dict.fromkeys(
            ("run_id", "session_id", "host_id", "host_name", "state"), "string"
        ),
        "started_utc": "timestamp",
        "target": "string",
        "benchmarks": "list<string>",
        "agent_build": "string",
        "labels": "map",
        "cpu_model": "string?",
        "ended_utc": "timestamp?",
        **dict.fromkeys(
            ("cpus", "pairs", "bursts", "samples", "failed", "flagged"), "int64?"
        ),
        "content_sha256": "string?",
    },
    "history": {
        "started_utc": "timestamp",
        **dict.fromkeys(("host_id", "host_name", "run_id"), "string"),
        "labels": "map",
        **OF_RELATION,
    },
    "summaries": take_columns("summaries"),
    "cpus": {"host": "string", "cpus": "list<string>"},
    "closest": {
        **dict.fromkeys(("host", "run_id", "benchmark", "variant"), "string"),
        **dict.fromkeys(("cpus", "slowest_pair"), "list<int64>"),
        "slowest_ns": "number",
        "spread": "number?",
        "best": "bool",
        **dict.fromkeys(("runs_as_good", "earlier_runs"), "int64"),
    },
    "show": (SHOWN, MISSING),
    "bursts": {
        "host_name": "string",
        "started_utc": "timestamp",
        **dict.fromkeys(("cpu_model", "kernel"), "string?"),
        **dict.fromkeys(("labels", "run_id", "benchmark", "variant"), "string"),
        "point": "string?",
        "relation": "string",
        "round": "int32",
        **CPUS,
        "burst_ns": "number",
        "samples": "int64",
        **dict.fromkeys(("grain_ns", "core_ghz"), "number?"),
        "flags": "string",
        "pair_ns": "number",
        "pair_flags": "string",
    },
    "compare": {
        "a": SIDE,
        "b": SIDE,
        "unit": "string",
        "threshold": "number",
        "relations": [
            KIND
            | {"pairs": "int64", "a_within": "number?", "b_within": "number?"}
            | JUDGED
            | VALUES
            | CHANGES
        ],
        "pairs": [KIND | CPUS | JUDGED | VALUES | CHANGES],
        "levels": [
            {
                **KIND,
                **CPUS,
                **dict.fromkeys(
                    ("a_ns", "b_ns", "a_other_ns", "b_other_ns", "a_share", "b_share"),
                    "number?",
                ),
                **dict.fromkeys(("moved", "moved_low", "moved_high"), "number?"),
            }
        ],
        "unlike": [
            {
                **dict.fromkeys(("benchmark", "relation", "side", "variant"), "string"),
                "ns": "number?",
            }
        ],
        "environment": [
            {"what": "string", "a": "string", "b": "string", "between": "bool"}
        ],
        "caveats": "list<string>",
        "fleet": [KIND | {"hosts": "int64"} | TESTED | CHANGES],
    },
    "siblings": {
        "hosts": "list<string>",
        "about": "string",
        "runs": "int64",
        "threshold": "number",
        "has_verdict": "bool",
        "odd_hosts": "list<string>",
        "smallest": "number?",
        "rows": [
            {
                "host": "string",
                **KIND,
                "ns": "number?",
                "others_ns": "number?",
                "others": "int64",
                **dict.fromkeys(
                    ("ratio", "low", "high", "scatter", "p", "q"), "number?"
                ),
                "odd": "bool",
                **dict.fromkeys(("value", "others_value"), "number?"),
                "value_unit": "string",
                **CHANGES,
            }
        ],
        "environment": [dict.fromkeys(("host", "what", "value", "others"), "string")],
        "caveats": "list<string>",
    },
    "changes": {
        "hosts": "list<string>",
        "relations": "int64",
        "runs": "int64",
        "has_verdict": "bool",
        "threshold": "number",
        "caveats": "list<string>",
        "nights": "list<date>",
        "changes": [
            {
                "hosts": "list<string>",
                **KIND,
                **dict.fromkeys(
                    ("before", "after", "first", "last", "begin", "end"), "date"
                ),
                **dict.fromkeys(("ratio", "low", "high", "q"), "number?"),
                "dated": "bool",
                "changed": "bool",
                "else": "list<string>",
                "accepted": "bool",
                **CHANGES,
            }
        ],
        "odd": [NIGHT],
        "elsewhere": [NIGHT],
    },
    "beside": {
        "benchmark": "string",
        "variant": "string?",
        "relation": "string",
        "cells": "int64",
        "median_ns": "number",
        "half": "number?",
        "side": "string",
        "runs": "int64",
        "tables": "int64",
        "of": "string?",
        "ratio": "number?",
    },
    "accept": {
        "host": "string",
        "run_id": "string",
        "outcome": "string",
        "failed": "number?",
        "flagged": "number?",
        "older": "list<string>",
        "empty": "string?",
        "rows": [
            {
                **KIND,
                "ns": "number?",
                "source": "string",
                **dict.fromkeys(
                    ("low", "high", "p", "q", "count", "beaten"), "number?"
                ),
                "since": "date?",
                "ratio": "number?",
                "outcome": "string",
                **dict.fromkeys(("value", "value_low", "value_high"), "number?"),
                "value_unit": "string",
                "change": "number?",
            }
        ],
    },
    "verify": {
        "runs": "int64",
        "samples": "int64",
        "files": "int64",
        "problems": "list<string>",
    },
}
"""The rows of each output of --json; docs/reading.md says which command prints
which.
"""

_TYPES = {"string": "string", "bool": "boolean", "map": "object", "number": "number"}


def describe_type(type_: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type: of a value of a Row, or the name of a type."""
    if isinstance(type_, tuple):
        return {"anyOf": [describe_type(choice) for choice in type_]}
    if isinstance(type_, list):
        return {"type": "array", "items": describe_type(type_[0])}
    if isinstance(type_, Mapping) and "?" in type_:
        return {"anyOf": [describe_type(type_["?"]), {"type": "null"}]}
    if isinstance(type_, Mapping):
        properties = {name: describe_type(value) for name, value in type_.items()}
        return {
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        }
    if type_ == "any":
        return {}
    name = type_.removesuffix("?")
    described: dict[str, Any]
    if name.startswith("list<"):
        described = {"type": "array", "items": describe_type(name[5:-1])}
    elif name.startswith(("timestamp", "date")):
        described = {
            "type": "string",
            "format": "date-time" if name.startswith("time") else "date",
        }
    else:
        kind = (
            "integer"
            if name.startswith("int")
            else "number"
            if name.startswith("float")
            else _TYPES[name]
        )
        described = {"type": kind}
    return (
        described | {"type": [described["type"], "null"]}
        if type_ != name
        else described
    )


def describe_output(name: str, row: Row | tuple[Row, ...]) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with --json."""
    document = describe_type({"schema": "string", "rows": [row]})
    document["properties"]["schema"] = {"const": f"fleet.{name}/1"}
    return document


def describe_record() -> dict[str, Any]:
    """Return the JSON Schema of the record in a samples file; what is null may be left
    out of it.
    """
    tables: dict[str, Row] = {
        "run": take_columns("runs"),
        "cpus": take_columns("cpus", "host_id", "run_id"),
    }
    record = describe_type({"run": tables["run"], "cpus": [tables["cpus"]]})
    run, cpus = record["properties"]["run"], record["properties"]["cpus"]["items"]
    for schema, table in ((run, tables["run"]), (cpus, tables["cpus"])):
        schema["required"] = [
            name for name, type_ in table.items() if not type_.endswith("?")
        ]
    return record


def describe_inventory() -> dict[str, Any]:
    """Return the JSON Schema of the inventory for editors: its keys and words, few of
    its values.
    """
    value = {"type": ["string", "number", "boolean", "null", "array"]}

    def allow_keys(names: tuple[str, ...], **others: Any) -> dict[str, Any]:
        keys = dict.fromkeys(names, value) | others
        return {
            "type": ["object", "null"],
            "properties": keys,
            "additionalProperties": False,
        }

    former_variant = {
        "deprecated": True,
        "description": f"Former option: {NAME_A_VARIANT}.",
        "not": {},
    }
    mappings = {
        "toolchain": allow_keys(inventory.TOOLCHAIN),
        "plan": allow_keys(inventory.PLAN, variant=former_variant),
        **{
            name: {"type": ["object", "null"], "additionalProperties": value}
            for name in ("env", "labels")
        },
        **{name: {"enum": [*words, None]} for name, words in WORDS.items()},
        "port": {
            "type": ["integer", "string", "null"],
            "minimum": 1,
            "maximum": 65_535,
            "pattern": "^[0-9]+$",
        },
    }
    host = allow_keys(inventory.ENTRY, **mappings)
    group = allow_keys((*inventory.ENTRY, "hosts", "children"), **mappings)
    entries = {"type": ["object", "null"]}
    sections = {
        "defaults": host,
        "groups": entries | {"additionalProperties": group},
        "hosts": entries | {"additionalProperties": host},
        "hosts_from": value,
        "fleet": allow_keys(inventory.SETTINGS),
    }
    return {"type": "object", "properties": sections, "additionalProperties": False}


def describe_expected() -> dict[str, Any]:
    """Return the JSON Schema of expected.yaml."""
    number = r"\d+(\.\d+)?"
    text = {
        "type": "string",
        "pattern": f"^({number} to {number}|at (least|most) {number})$",
    }
    ranges = {"type": "object", "additionalProperties": text, "minProperties": 1}
    entry = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in SELECTORS},
        "patternProperties": {f"^({'|'.join(BENCHMARKS)}|load)(/.+)?$": ranges},
        "additionalProperties": False,
        "oneOf": [{"required": [name]} for name in SELECTORS],
        "minProperties": 2,
    }
    return {"type": "array", "items": entry, "minItems": 1}


def make_schemas() -> dict[str, str]:
    """Return the text of each file of FOLDER, by name."""
    schemas = {
        **{name: describe_output(name, row) for name, row in OUTPUTS.items()},
        "record": describe_record(),
        "inventory": describe_inventory(),
        "expected": describe_expected(),
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {
        name: json.dumps(head | {"title": f"fleet {name}"} | schema, indent=1) + "\n"
        for name, schema in schemas.items()
    }


if __name__ == "__main__":
    for name, text in make_schemas().items():
        (FOLDER / f"{name}.json").write_text(text)

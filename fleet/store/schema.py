"""Define the tables' columns and types, from `schema.json`, and the schema version.
Imports no pyarrow.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fleet.errors import DataError
from fleet.late import once, pa
from fleet.model import Facts, Parameters

SCHEMA_VERSION = "1.0"  # another type or meaning of a column is a new major version
VERSION_KEY = b"fleet.schema_version"  # in a file's metadata
PATH_COLUMNS = {"samples": ("host_id", "run_id")}
"""Columns that are in the path of a table's files, and not in the files."""

# tables whose texts are few, each in many rows
_REPEATING = (
    "samples",
    "pairs",
    "numbers",
    "counters",
    "summaries",
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column (docs/tables.md). `nullable`: null means the host did not
    report it.
    """

    name: str
    type: str
    nullable: bool


def _parse_columns(types: Mapping[str, str]) -> tuple[Column, ...]:
    """Return the columns of a table. types: by name; `?` marks a nullable one."""
    columns = []
    for name, type_ in types.items():
        nullable = type_.endswith("?")
        columns.append(Column(name, type_.removesuffix("?"), nullable))
    return tuple(columns)


_LISTED = json.loads(Path(__file__).with_suffix(".json").read_text())
TABLES: Mapping[str, tuple[Column, ...]] = {
    table: _parse_columns(types) for table, types in _LISTED.items()
}

# Groups of columns of `samples`.
# where the cache line lies
LINE = (
    "line_page",
    "line_offset",
    "line_node",
    "line_physical",
)
THREADS = (  # what the operating system did to both threads
    *("ping_voluntary_switches", "ping_involuntary_switches"),
    *("pong_voluntary_switches", "pong_involuntary_switches"),
    *("ping_ran_ppm", "pong_ran_ppm", "ping_steal_ppm", "pong_steal_ppm"),
)
PARAMETERS = tuple(field.name for field in fields(Parameters))
POINT = ("point", "unit", *PARAMETERS, "cpus", "other_ticks", "other_units", "checked")
"""Columns that are null for benchmarks without points."""

_FACT_FIELDS = {field.name for field in fields(Facts)} - {"probe"}
_SCALARS = (
    column.name for column in TABLES["runs"] if not column.type.startswith("list<")
)
# Columns of `runs` that hold a scalar field of model.Facts of the same name.
FACTS = tuple(name for name in _SCALARS if name in _FACT_FIELDS)
FACT_LISTS = ("cpu_flags", "isolated_cpus", "nohz_full_cpus")
# Facts that explain no number: identifiers, times, what another fact says as well.
_EXPLAIN_NOTHING = {
    *(
        "os",
        "arch",
        "hostname",
        "machine_id",
        "boot_id",
        "uptime_s",
        "cpu_vendor",
        "firmware_date",
    ),
    *("memory_bytes", "core_throttles", "package_throttles"),
}
# Columns of `runs` that may explain a number: the machine, its settings, the agent and
# how it measured.
ENVIRONMENT = (
    *("target", "cpus_measured"),
    *(name for name in FACTS if name not in _EXPLAIN_NOTHING),
    *("isolated_cpus", "nohz_full_cpus", "clock", "ticks_per_second"),
    *("agent_build", "agent_compiler", "agent_cflags", "preset", "estimator"),
)


def check_version(version: bytes) -> None:
    """Raise DataError if a file's schema has another major version than this one.
    version: such as b"1.0"; b"" for a file that has none, which is accepted.
    """
    text = version.decode("ascii", "replace")
    if text.partition(".")[0] not in ("", SCHEMA_VERSION.partition(".")[0]):
        versions = (
            f"its schema is version {text}, and this fleet knows {SCHEMA_VERSION}"
        )
        raise DataError(f"{versions}: read it with the fleet that wrote it")


def dictionary_columns(table: str) -> list[str]:
    """Return the names of the columns whose texts repeat: in memory they are pyarrow
    dictionaries.
    """
    if table not in _REPEATING:
        return []
    texts = [column.name for column in TABLES[table] if column.type == "string"]
    return [name for name in texts if not name.endswith("_json")]


def largest_int(table: str, name: str) -> int:
    """Return the largest number that fits a column of integers or of lists of them."""
    (type_,) = (column.type for column in TABLES[table] if column.name == name)
    _, _, bits = type_.rstrip(">").rpartition("int")
    return (1 << int(bits) - 1) - 1


@once
def arrow_schema(table: str, names: tuple[str, ...] | None = None) -> Any:
    """Return the pyarrow schema that a table has in memory, with the version of our
    schema as metadata. Texts that repeat are dictionaries: an integer for each row that
    stands for one of the distinct texts. names: only these columns; None: all.
    """
    repeating = dictionary_columns(table)
    fields = []
    for column in TABLES[table]:
        if names is not None and column.name not in names:
            continue
        type_ = _arrow_type(column.type)
        if column.name in repeating:
            type_ = pa.dictionary(pa.int32(), type_)
        field = pa.field(column.name, type_, nullable=column.nullable)
        fields.append(field)
    metadata = {"fleet.table": table, VERSION_KEY.decode(): SCHEMA_VERSION}
    return pa.schema(fields, metadata)


@once
def file_schema(table: str) -> Any:
    """Return the schema of a table's files: `arrow_schema` without the columns in their
    path.
    """
    in_path = PATH_COLUMNS.get(table, ())
    names = [column.name for column in TABLES[table] if column.name not in in_path]
    return arrow_schema(table, tuple(names))


def _arrow_type(type_: str) -> Any:
    """Return the pyarrow type of a column's type, such as "int32" or "list<string>"."""
    if type_.startswith("list<"):
        element = _arrow_type(type_.removeprefix("list<").removesuffix(">"))
        return pa.list_(pa.field("element", element, nullable=False))
    if type_.startswith("timestamp"):
        return pa.timestamp("ms", tz="UTC")
    return pa.type_for_alias(type_)

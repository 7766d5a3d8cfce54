"""What the tables are: names, types and the version. No pyarrow at import.

`schema.json` has the columns of each; behind a type `?` says that null is allowed. docs/tables.md says what
each means; a test compares both with the files. Every file has all columns of its table, with these types,
but for those in the path. To give a column another type or meaning is a new major version.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.errors import DataError
from fleet.late import once, pa

SCHEMA_VERSION = "1.0"
VERSION = b"fleet.schema_version"  # of the metadata of a file
PATH_COLUMNS = {"samples": ("host_id", "run_id")}
"""Columns that are in the path of a table's files, and not in the files."""

_REPEATING = ("samples", "pairs", "counters", "summaries")  # tables whose texts are few, each in many rows


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `nullable`: null means the host did not tell."""

    name: str
    type: str
    nullable: bool


TABLES: Mapping[str, tuple[Column, ...]] = {
    table: tuple(
        Column(name, type_.removesuffix("?"), type_.endswith("?")) for name, type_ in columns.items()
    )
    for table, columns in json.loads(Path(__file__).with_suffix(".json").read_text()).items()
}


def check_version(version: bytes) -> None:
    """Raise DataError where a file is of another major version than this."""
    text = version.decode("ascii", "replace")
    if text.partition(".")[0] not in ("", SCHEMA_VERSION.partition(".")[0]):
        versions = f"its schema is version {text}, and this fleet knows {SCHEMA_VERSION}"
        raise DataError(f"{versions}: read it with the fleet that wrote it")


def between(table: str, first: str, last: str) -> tuple[Column, ...]:
    """The columns of a table from one to another."""
    names = [column.name for column in TABLES[table]]
    return TABLES[table][names.index(first) : names.index(last) + 1]


def names_between(table: str, *ends: tuple[str, str]) -> tuple[str, ...]:
    """The names of the columns between several ends."""
    return tuple(column.name for first, last in ends for column in between(table, first, last))


# Columns of `samples` that are null in every row of benchmarks without points, but for core_ghz.
POINT_COLUMNS = between("samples", "point", "checked")
# The parameters of a point; null where a benchmark has none.
PARAMETER_COLUMNS = between("samples", "bytes", "threads")
# Columns of `runs` that are fields of model.Facts under the same name.
FACTS = between("runs", "os", "user")
# Facts that explain no number: ids, moments, what another fact says as well.
_EXPLAIN_NOTHING = frozenset(
    (
        *("os", "arch", "hostname", "machine_id", "boot_id", "uptime_s", "cpu_vendor", "firmware_date"),
        *("memory_bytes", "core_throttles", "package_throttles"),
    )
)
# Columns of `runs` that may explain a number: the machine, its settings, the agent and how it measured.
ENVIRONMENT = (
    *("target", "cpus_measured"),
    *(column.name for column in FACTS if column.name not in _EXPLAIN_NOTHING),
    *("isolated_cpus", "nohz_full_cpus", "clock", "ticks_per_second"),
    *("agent_build", "agent_compiler", "agent_cflags", "preset", "estimator"),
)


def word_columns(table: str) -> list[str]:
    """Name the columns whose texts are repeated often; in memory they are dictionaries."""
    if table not in _REPEATING:
        return []
    texts = [column.name for column in TABLES[table] if column.type == "string"]
    return [name for name in texts if not name.endswith("_json")]


def largest_int(table: str, column: str) -> int:
    """The largest number that a column of whole numbers, or of lists of them, can hold."""
    (type_,) = (one.type for one in TABLES[table] if one.name == column)
    return (1 << int(type_.rpartition("int")[2].rstrip(">")) - 1) - 1


@once
def arrow_schema(table: str, names: tuple[str, ...] | None = None) -> Any:
    """Return the pyarrow schema of a table in memory, or of these columns of it, in the table's order.

    The version is in its metadata.
    """
    types = {column.name: _arrow_type(column.type) for column in TABLES[table]}
    types |= dict.fromkeys(word_columns(table), pa.dictionary(pa.int32(), pa.string()))
    fields = [
        pa.field(column.name, types[column.name], nullable=column.nullable)
        for column in TABLES[table]
        if names is None or column.name in names
    ]
    return pa.schema(fields, {"fleet.table": table, VERSION.decode(): SCHEMA_VERSION})


@once
def file_schema(table: str) -> Any:
    """Return the schema of a table's files as `arrow_schema` does, without what is in their path."""
    in_path = PATH_COLUMNS.get(table, ())
    return arrow_schema(table, tuple(column.name for column in TABLES[table] if column.name not in in_path))


def _arrow_type(type_: str) -> Any:
    if type_.startswith("list<"):
        return pa.list_(pa.field("element", _arrow_type(type_[5:-1]), nullable=False))
    return pa.timestamp("ms", tz="UTC") if type_.startswith("timestamp") else pa.type_for_alias(type_)

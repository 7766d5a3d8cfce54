"""What the tables are: names, types and the version. No pyarrow at import.

`schema.json` has the columns of each; behind a type `?` says that null is allowed. docs/tables.md says what
each means, and every file carries this; a test compares the three. A column is never given another type or
meaning: that would be a new major version. Added columns may be null, since older files lack them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.errors import DataError
from fleet.late import pa
from fleet.once import once

SCHEMA_VERSION = "1.2"
VERSION = b"fleet.schema_version"  # of the metadata of a file

_KEY = "dictionary<string>"  # strings repeated often; beginning with a letter where they are path keys


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


# Columns of `samples` since 1.2: null in every row of benchmarks without points, but for core_ghz.
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


def words_of(table: str) -> list[str]:
    """The columns whose texts are repeated often."""
    return [column.name for column in TABLES[table] if column.type == _KEY]


def largest(table: str, column: str) -> int:
    """The largest number that a column of whole numbers, or of lists of them, can hold."""
    (type_,) = (one.type for one in TABLES[table] if one.name == column)
    return (1 << int(type_.rpartition("int")[2].rstrip(">")) - 1) - 1


@once
def arrow_schema(table: str, names: tuple[str, ...] | None = None) -> Any:
    """The pyarrow schema of a table, with the version in its metadata; of these columns, without metadata."""
    if names is not None:
        whole = arrow_schema(table)
        return pa.schema([whole.field(name) for name in names])
    columns = TABLES[table]
    return pa.schema(
        [pa.field(c.name, _arrow_type(c.type), nullable=c.nullable) for c in columns],
        metadata={
            "fleet.table": table,
            "fleet.schema": json.dumps([[c.name, c.type, c.nullable] for c in columns]),
            VERSION.decode(): SCHEMA_VERSION,
        },
    )


def _arrow_type(type_: str) -> Any:
    if type_ == _KEY:
        return pa.dictionary(pa.int32(), pa.string())
    if type_.startswith("list<"):
        return pa.list_(pa.field("element", _arrow_type(type_[5:-1]), nullable=False))
    return pa.timestamp("ms", tz="UTC") if type_.startswith("timestamp") else pa.type_for_alias(type_)


@once
def arrow_types(table: str) -> Mapping[str, Any]:
    """The pyarrow type of each column of a table, in their order."""
    return {field.name: field.type for field in arrow_schema(table)}

"""What the tables are: names, types and the version. The one place; no pyarrow at import.

docs/tables.md says what each column means, and every file carries this; a test compares the three. A column
is never given another type or meaning: that would be a new major version. Added columns may be null,
since older files lack them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.late import pa
from fleet.once import once

SCHEMA_VERSION = "1.2"

_KEY = "dictionary<string>"  # strings repeated often; beginning with a letter where they are path keys
_MAYBE_KEY = f"{_KEY}?"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `nullable`: null means the host did not tell."""

    name: str
    type: str
    nullable: bool


def _columns(type_: str, *names: str) -> tuple[Column, ...]:
    """Columns of a type, as docs/tables.md writes it: with `?` where they are nullable."""
    return tuple(Column(name, type_.removesuffix("?"), nullable=type_.endswith("?")) for name in names)


# The parameters of a point; null where a benchmark has none.
PARAMETER_COLUMNS = (
    *_columns("int64?", "bytes"),
    *_columns("int32?", "stride_bytes", "block_bytes"),
    *_columns(_MAYBE_KEY, "operation", "state", "order", "sharing", "pages"),
    *_columns("int32?", "threads"),
)

# Columns of `samples` since 1.2: null in every row of benchmarks without points, but for core_ghz.
POINT_COLUMNS = (
    *_columns(_MAYBE_KEY, "point", "unit"),
    *PARAMETER_COLUMNS,
    *_columns("list<int32>?", "cpus"),
    *_columns("list<list<int64>>?", "other_ticks"),
    *_columns("float32?", "core_ghz"),
    *_columns("bool?", "checked"),
)

SAMPLES = (
    *_columns(_KEY, "host_id", "run_id", "benchmark", "variant", "relation"),
    *_columns("int32", "round", "ping_cpu", "pong_cpu"),
    *_columns("int64", "start_offset_ns"),
    *_columns("int64?", "line_page"),
    *_columns("int32?", "line_offset", "line_node"),
    *_columns("int64?", "line_physical"),
    *_columns("int64", "iterations"),
    *_columns("int32", "warmup"),
    *_columns("list<int64>", "ticks"),
    *_columns("float64", "ns_per_tick"),
    *_columns("int64?", "ping_voluntary_switches", "ping_involuntary_switches"),
    *_columns("int64?", "pong_voluntary_switches", "pong_involuntary_switches"),
    *_columns("int32?", "ping_ran_ppm", "pong_ran_ppm", "ping_steal_ppm", "pong_steal_ppm"),
    *_columns(_KEY, "flags"),
    *POINT_COLUMNS,
)

# Columns of `runs` that are fields of model.Facts under the same name.
FACTS = (
    *_columns("string", "os", "arch"),
    *_columns("string?", "hostname", "kernel", "kernel_version", "kernel_cmdline"),
    *_columns("string?", "distribution", "libc", "machine_id", "boot_id"),
    *_columns("float64?", "uptime_s"),
    *_columns(
        "string?", "cpu_model", "cpu_vendor", "cpu_family", "cpu_model_number", "cpu_stepping", "microcode"
    ),
    *_columns("string?", "board", "firmware", "firmware_date", "hypervisor", "container"),
    *_columns("int64?", "memory_bytes", "page_bytes"),
    *_columns("string?", "huge_pages", "clock_source", "governor", "frequency_driver"),
    *_columns("bool?", "boost"),
    *_columns("string?", "idle_driver", "idle_state"),
    *_columns("int64?", "idle_exit_us"),
    *_columns("float64?", "cpu_quota"),
    *_columns("int64?", "rt_runtime_us"),
    *_columns("bool?", "irqbalance"),
    *_columns("int64?", "core_throttles", "package_throttles"),
    *_columns("bool?", "smt", "numa_balancing"),
    *_columns("string?", "user"),
)

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

RUNS = (
    *_columns("string", "run_id", "session_id", "host_id", "host_name", "state"),
    *_columns("timestamp[ms, UTC]", "started_utc"),
    *_columns("timestamp[ms, UTC]?", "ended_utc"),
    *_columns("list<string>", "benchmarks"),
    *_columns("int32", "cpus_measured"),
    *_columns("int64", "pairs", "bursts", "samples", "failed_bursts", "flagged_bursts"),
    *_columns("string?", "preset", "estimator"),
    *_columns("float64?", "precision", "precision_reached"),
    *_columns("int64?", "converged", "unconverged"),
    *_columns("string", "content_sha256", "target", "agent_build", "agent_place"),
    *_columns("string?", "agent_compiler", "agent_cflags"),
    *_columns("string", "fleet_version", "clock"),
    *_columns("int64", "ticks_per_second"),
    *_columns("int64?", "clock_cost_ticks", "clock_quantum_ticks"),
    *_columns("float64?", "load_1m_before", "load_1m_after"),
    *_columns("int64?", "running_before", "running_after"),
    *_columns("float64?", "temperature_c_before", "temperature_c_after"),
    *_columns("int64?", "steal_ticks_before", "steal_ticks_after"),
    *FACTS,
    *_columns("list<string>", "cpu_flags"),
    *_columns("list<int32>", "isolated_cpus", "nohz_full_cpus"),
    *_columns("list<string>", "notes"),
    *_columns("string", "labels_json", "mitigations_json", "plan_json", "hello_json"),
    *_columns("string", "host_json", "failed_json", "probe"),
)

CPUS = (
    *_columns(_KEY, "host_id", "run_id"),
    *_columns("int32", "cpu"),
    *_columns("bool", "online", "allowed", "measured"),
    *_columns("int32?", "core", "cluster", "llc", "die", "package", "node"),
    *_columns("string?", "kind"),
    *_columns("int32?", "capacity"),
    *_columns("string?", "model"),
    *_columns("int64?", "max_khz"),
    *_columns("string?", "governor"),
    *_columns("bool?", "isolated"),
    *_columns("string", "caches_json"),
)

# What performance counters counted, of runs that were asked to.
COUNTERS = (
    *_columns(_KEY, "host_id", "run_id", "benchmark", "variant"),
    *_columns(_MAYBE_KEY, "point"),
    *_columns("int32", "round", "ping_cpu", "pong_cpu", "cpu"),
    *_columns(_KEY, "event"),
    *_columns("int64", "units"),
    *_columns("int64?", "count"),
    *_columns("int64", "enabled_ns", "running_ns"),
)

# What a run's samples say of each pair; derived, so it may be deleted at any time.
PAIRS = (
    *_columns(_KEY, "host_id", "run_id", "benchmark", "variant", "relation"),
    *_columns("int32", "ping_cpu", "pong_cpu", "bursts"),
    *_columns("float32", "median_ns"),
    *_columns("float32?", "low_ns", "high_ns", "spread", "other_ns", "other_share", "drift", "asymmetry"),
    *_columns("int32", "flagged_bursts"),
    *_columns(_KEY, "flags"),
    *_columns("int64", "samples"),
    *_columns("float32", "min_ns", "p10_ns", "mean_ns", "mad_ns", "p99_ns", "max_ns", "outliers"),
    *_columns("int32", "stats_version"),
    *_columns(_MAYBE_KEY, "point", "unit"),
    *PARAMETER_COLUMNS,
    *_columns("float32?", "core_ghz"),
    *_columns("list<float32>?", "levels_ns", "levels_share", "levels_spread", "levels_dwell"),
    *_columns("list<string>?", "levels_state"),
)

# One number a pair, from elsewhere: imported, never mixed with samples.
SUMMARIES = (
    *_columns(_KEY, "summary", "benchmark"),
    *_columns(_MAYBE_KEY, "variant"),
    *_columns(_KEY, "relation"),
    *_columns("int32", "ping_cpu", "pong_cpu"),
    *_columns("float64", "latency_ns"),
    *_columns(_KEY, "tool"),
    *_columns(_MAYBE_KEY, "estimator"),
    *_columns("int64?", "samples", "iterations"),
    *_columns(_MAYBE_KEY, "cpu_model", "os", "conditions"),
    *_columns(_KEY, "source"),
    *_columns("timestamp[ms, UTC]?", "imported_utc"),
    *_columns("string", "labels_json"),
)

TABLES = {
    "samples": SAMPLES,
    "runs": RUNS,
    "cpus": CPUS,
    "pairs": PAIRS,
    "summaries": SUMMARIES,
    "counters": COUNTERS,
}


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
            "fleet.schema_version": SCHEMA_VERSION,
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

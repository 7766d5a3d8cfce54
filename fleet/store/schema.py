"""What the tables are: names, types, meanings and the version. The one place; no pyarrow at import.

docs/tables.md repeats this for people, and every file carries it; a test compares the three. A column is
never given another type or meaning: that would be a new major version. Added columns may be null, since
older files lack them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.late import pa
from fleet.once import once

SCHEMA_VERSION = "1.2"

_KEY = "dictionary<string>"  # strings repeated often; beginning with a letter where they are path keys


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `nullable`: null means the host did not tell."""

    name: str
    type: str
    nullable: bool
    meaning: str


def _always(name: str, type_: str, meaning: str) -> Column:
    return Column(name, type_, nullable=False, meaning=meaning)


def _maybe(name: str, type_: str, meaning: str) -> Column:
    return Column(name, type_, nullable=True, meaning=meaning)


# The parameters of a point; null where a benchmark has none.
PARAMETER_COLUMNS = (
    _maybe("bytes", "int64", "memory each thread works on"),
    _maybe("stride_bytes", "int32", "from one line, or row of a matrix, to the next"),
    _maybe("block_bytes", "int32", "bytes a thread writes next to those of another"),
    _maybe("operation", _KEY, "read, write, ...; of gemm what is multiplied: peak, hot.rows, ..."),
    _maybe("state", _KEY, "what was done to the lines before"),
    _maybe("order", _KEY, "of the loads: random, window, rising, chase, stream"),
    _maybe("sharing", _KEY, "own: each thread its own memory; one: all the same; shared: blocks by turns"),
    _maybe("pages", _KEY, "base or huge, as found after the burst"),
    _maybe("threads", "int32", "at work at once"),
)

# Columns of `samples` since 1.2: null in every row of benchmarks without points, but for core_ghz.
POINT_COLUMNS = (
    _maybe("point", _KEY, "the setting of the parameters; part of a number's name; null: there are none"),
    _maybe(
        "unit",
        _KEY,
        "what one of iterations is: message, line, load, byte, operation; null: round trip (clock: reading)",
    ),
    *PARAMETER_COLUMNS,
    _maybe("cpus", "list<int32>", "of all threads, ping's first; null: ping and pong"),
    _maybe("other_ticks", "list<list<int64>>", "as ticks, of the other threads, in the order of cpus"),
    _maybe(
        "core_ghz",
        "float32",
        "frequency of ping's core: of gemm right behind its samples, else mean of before and after",
    ),
    _maybe("checked", "bool", "results were compared with a reference; null: nothing to compare"),
)

SAMPLES = (
    _always("host_id", _KEY, "the host; equals the path key"),
    _always("run_id", _KEY, "the run; equals the path key"),
    _always("benchmark", _KEY, "cas, readwrite, clock, ..."),
    _always("variant", _KEY, "the instructions used; part of a number's name"),
    _always("relation", _KEY, "smallest group the two CPUs share, as the OS says"),
    _always("round", "int32", "which visit to this pair, from 0"),
    _always("ping_cpu", "int32", "CPU of the thread that holds the clock, by the OS's number"),
    _always("pong_cpu", "int32", "CPU of the thread that answers"),
    _always("start_offset_ns", "int64", "when the burst began, after the agent's hello"),
    _maybe("line_page", "int64", "virtual page number of the cache line handed over"),
    _maybe("line_offset", "int32", "bytes from the start of that page to the line"),
    _maybe("line_node", "int32", "NUMA node the page lies on"),
    _maybe("line_physical", "int64", "physical page number of that line, where the OS shows it"),
    _always("iterations", "int64", "units in one sample: round trips (clock: readings), or those of unit"),
    _always("warmup", "int32", "how many of the first samples are warm-ups"),
    _always(
        "ticks", "list<int64>", "elapsed clock ticks of each of ping's samples, raw, in order, warm-ups first"
    ),
    _always("ns_per_tick", "float64", "nanoseconds in one tick of this run's clock"),
    _maybe("ping_voluntary_switches", "int64", "context switches of the ping thread during the burst"),
    _maybe("ping_involuntary_switches", "int64", "times the ping thread was preempted during the burst"),
    _maybe("pong_voluntary_switches", "int64", "context switches of the pong thread during the burst"),
    _maybe("pong_involuntary_switches", "int64", "times the pong thread was preempted during the burst"),
    _maybe("ping_ran_ppm", "int32", "share of the burst the ping thread really ran, in millionths"),
    _maybe("pong_ran_ppm", "int32", "share of the burst the pong thread really ran, in millionths"),
    _maybe("ping_steal_ppm", "int32", "share in which a hypervisor had ping's CPU; null: none is known"),
    _maybe("pong_steal_ppm", "int32", "share in which a hypervisor had pong's CPU; null: none is known"),
    _always("flags", _KEY, "why its numbers may mislead, comma-separated; empty: no reason known"),
    *POINT_COLUMNS,
)

# Columns of `runs` that are fields of model.Facts under the same name.
FACTS = (
    _always("os", "string", "operating system the agent ran on: linux, qnx, ...; qnx-standin: in tests"),
    _always("arch", "string", "architecture: x86_64, aarch64, ..."),
    _maybe("hostname", "string", "as the host calls itself"),
    _maybe("kernel", "string", "kernel release"),
    _maybe("kernel_version", "string", "kernel build"),
    _maybe("kernel_cmdline", "string", "kernel command line"),
    _maybe("distribution", "string", "operating system distribution"),
    _maybe("libc", "string", "C library and its version"),
    _maybe("machine_id", "string", "the OS's stable id of this installation"),
    _maybe("boot_id", "string", "changes with every boot"),
    _maybe("uptime_s", "float64", "seconds since boot, before the run"),
    _maybe("cpu_model", "string", "CPU model name"),
    _maybe("cpu_vendor", "string", "CPU vendor or implementer"),
    _maybe("cpu_family", "string", "CPU family or architecture level"),
    _maybe("cpu_model_number", "string", "CPU model number or part"),
    _maybe("cpu_stepping", "string", "CPU stepping or revision"),
    _maybe("microcode", "string", "microcode revision"),
    _maybe("board", "string", "board or product name"),
    _maybe("firmware", "string", "firmware vendor and version"),
    _maybe("firmware_date", "string", "firmware date, as given"),
    _maybe("hypervisor", "string", "hypervisor, if the host runs in one and says so"),
    _maybe("container", "string", "container runtime, if the host is one and says so"),
    _maybe("memory_bytes", "int64", "memory of the machine"),
    _maybe("page_bytes", "int64", "page size"),
    _maybe("huge_pages", "string", "transparent huge page setting"),
    _maybe("clock_source", "string", "the kernel's clock source"),
    _maybe("governor", "string", "frequency governor, where all CPUs have the same"),
    _maybe("frequency_driver", "string", "frequency scaling driver"),
    _maybe("boost", "bool", "frequency boost allowed"),
    _maybe("idle_driver", "string", "idle state driver"),
    _maybe("idle_state", "string", "deepest idle state that is enabled"),
    _maybe("idle_exit_us", "int64", "microseconds a CPU takes to leave it"),
    _maybe("cpu_quota", "float64", "CPUs' worth of time our control group may use; null also: no limit"),
    _maybe("rt_runtime_us", "int64", "microseconds of a period for realtime threads; -1: no limit"),
    _maybe("irqbalance", "bool", "irqbalance runs"),
    _maybe("core_throttles", "int64", "times heat slowed cores down since boot, counters of all CPUs added"),
    _maybe("package_throttles", "int64", "the same, of packages"),
    _maybe("smt", "bool", "SMT active"),
    _maybe("numa_balancing", "bool", "automatic NUMA balancing on"),
    _maybe("user", "string", "user the agent ran as"),
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
    _always("run_id", "string", "the run"),
    _always("session_id", "string", "the `fleet run` it was part of"),
    _always("host_id", "string", "the host, key in the tables"),
    _always("host_name", "string", "the host, as the inventory calls it"),
    _always("state", "string", "complete, or partial: some bursts failed"),
    _always("started_utc", "timestamp[ms, UTC]", "start, by the controller's clock"),
    _maybe("ended_utc", "timestamp[ms, UTC]", "end, by the controller's clock"),
    _always("benchmarks", "list<string>", "benchmark/variant, as measured"),
    _always("cpus_measured", "int32", "CPUs in the plan"),
    _always("pairs", "int64", "CPU pairs visited in one round"),
    _always("bursts", "int64", "rows in samples"),
    _always("samples", "int64", "ticks in samples, warm-ups included"),
    _always("failed_bursts", "int64", "visits that gave no number"),
    _always("flagged_bursts", "int64", "rows in samples with a flag"),
    _maybe("preset", "string", "the tool whose scheme was followed"),
    _maybe("estimator", "string", "how that tool makes one number of its samples: median, mean or min"),
    _maybe("precision", "float64", "half width of the 95 % interval asked for, relative; null: none asked"),
    _maybe(
        "precision_reached",
        "float64",
        "the same, reached by the worst pair at its main level; null: none asked, or too few bursts",
    ),
    _maybe("converged", "int64", "pairs, per benchmark and variant, that reached it; null: none asked"),
    _maybe("unconverged", "int64", "pairs that did not in the time there was"),
    _always(
        "content_sha256", "string", "of the samples as published; two publications are the same run if equal"
    ),
    _always("target", "string", "(os, arch) of the host"),
    _always("agent_build", "string", "build id of the agent"),
    _always("agent_place", "string", "where the agent came from"),
    _maybe("agent_compiler", "string", "compiler the agent was built with"),
    _maybe("agent_cflags", "string", "flags the agent was built with"),
    _always("fleet_version", "string", "version of the controller"),
    _always("clock", "string", "clock the ticks were read from"),
    _always("ticks_per_second", "int64", "rate of that clock"),
    _maybe("clock_cost_ticks", "int64", "median cost of one reading"),
    _maybe("clock_quantum_ticks", "int64", "smallest step the clock was seen to make"),
    _maybe("load_1m_before", "float64", "runnable threads averaged over a minute"),
    _maybe("load_1m_after", "float64", "the same, after the run"),
    _maybe("running_before", "int64", "runnable threads at that moment"),
    _maybe("running_after", "int64", "the same, after the run"),
    _maybe("temperature_c_before", "float64", "the hottest sensor"),
    _maybe("temperature_c_after", "float64", "the same, after the run"),
    _maybe("steal_ticks_before", "int64", "time stolen by the hypervisor since boot, in clock ticks"),
    _maybe("steal_ticks_after", "int64", "the same, after the run"),
    *FACTS,
    _always("cpu_flags", "list<string>", "CPU features as the kernel lists them"),
    _always("isolated_cpus", "list<int32>", "CPUs taken out of the scheduler"),
    _always("nohz_full_cpus", "list<int32>", "CPUs without a periodic tick"),
    _always("notes", "list<string>", "sentences for the person, in order"),
    _always("labels_json", "string", "labels of host and run: object of strings"),
    _always(
        "mitigations_json", "string", "CPU vulnerabilities and what is done about them: object of strings"
    ),
    _always("plan_json", "string", "the plan: object"),
    _always("hello_json", "string", "the agent's first record, whole"),
    _always("host_json", "string", "the inventory entry, without values of environment variables"),
    _always("failed_json", "string", "the visits that gave no number, and why: list of objects"),
    _always(
        "probe", "string", "what the host answered when asked for its facts, without the agents it keeps"
    ),
)

CPUS = (
    _always("host_id", _KEY, "the host"),
    _always("run_id", _KEY, "the run"),
    _always("cpu", "int32", "logical CPU, by the OS's number"),
    _always("online", "bool", "in use by the OS"),
    _always("allowed", "bool", "the agent may use it"),
    _always("measured", "bool", "part of the run"),
    _maybe("core", "int32", "lowest CPU of its core"),
    _maybe("cluster", "int32", "lowest CPU of its cluster"),
    _maybe("llc", "int32", "lowest CPU that shares its last-level cache"),
    _maybe("die", "int32", "lowest CPU of its die"),
    _maybe("package", "int32", "lowest CPU of its package"),
    _maybe("node", "int32", "NUMA node, by its own number"),
    _maybe("kind", "string", "performance or efficiency, on hybrid machines"),
    _maybe("capacity", "int32", "relative speed, up to 1024"),
    _maybe("model", "string", "CPU model, where it differs from CPU to CPU"),
    _maybe("max_khz", "int64", "highest frequency"),
    _maybe("governor", "string", "frequency governor"),
    _maybe("isolated", "bool", "taken out of the scheduler"),
    _always("caches_json", "string", "its caches: list of objects"),
)

# What performance counters counted, of runs that were asked to.
COUNTERS = (
    _always("host_id", _KEY, "the host"),
    _always("run_id", _KEY, "the run"),
    _always("benchmark", _KEY, "cas, readwrite, clock, ..."),
    _always("variant", _KEY, "the instructions used"),
    _maybe("point", _KEY, "the setting of the parameters; null: there are none"),
    _always("round", "int32", "of the burst, as the next two columns"),
    _always("ping_cpu", "int32", "CPU of the thread that holds the clock"),
    _always("pong_cpu", "int32", "CPU of the thread that answers"),
    _always("cpu", "int32", "CPU of the thread in which it was counted"),
    _always("event", _KEY, "what was counted: cycles, snoop_hit_modified, ..., or a raw code such as r04d2"),
    _always("units", "int64", "iterations of all samples, warm-ups included, during which it was counted"),
    _maybe("count", "int64", "raw; null: the CPU's counters were all in use"),
    _always("enabled_ns", "int64", "for how long it was to be counted"),
    _always("running_ns", "int64", "for how long it was; less than that: the count is too low by as much"),
)

# What a run's samples say of each pair; derived, so it may be deleted at any time.
PAIRS = (
    _always("host_id", _KEY, "the host; equals the path key"),
    _always("run_id", _KEY, "the run; equals the path key"),
    _always("benchmark", _KEY, "cas, readwrite, clock, ..."),
    _always("variant", _KEY, "the instructions used; part of a number's name"),
    _always("relation", _KEY, "smallest group the two CPUs share, as the OS says"),
    _always("ping_cpu", "int32", "the lower CPU; both directions are one row"),
    _always("pong_cpu", "int32", "the higher CPU; clock: the same"),
    _always("bursts", "int32", "with at least one sample that is no warm-up"),
    _always("median_ns", "float32", "one way: median of the bursts' medians, of the mode most bursts are in"),
    _maybe("low_ns", "float32", "lower end of the 95 % interval of the bursts' mean; null of a single burst"),
    _maybe("high_ns", "float32", "its upper end"),
    _maybe("spread", "float32", "half the interval, as a share of the mean"),
    _maybe("other_ns", "float32", "median of the second mode, where there are two"),
    _maybe("other_share", "float32", "share of bursts in it"),
    _maybe("drift", "float32", "change over the run as a share, where one is proved"),
    _maybe("asymmetry", "float32", "how much longer with the higher CPU as ping, as a share, where proved"),
    _always("flagged_bursts", "int32", "bursts with a flag"),
    _always("flags", _KEY, "of the bursts and of the pair, comma-separated"),
    _always("samples", "int64", "without warm-ups"),
    _always("min_ns", "float32", "fastest sample"),
    _always("p10_ns", "float32", "a tenth of the samples are faster"),
    _always("mean_ns", "float32", "of all samples"),
    _always("mad_ns", "float32", "median distance of a sample from their median"),
    _always("p99_ns", "float32", "a hundredth of the samples are slower"),
    _always("max_ns", "float32", "slowest sample"),
    _always("outliers", "float32", "share of samples above twice their burst's median"),
    _always("stats_version", "int32", "which version of our statistics made the row"),
    _maybe("point", _KEY, "the setting of the parameters; part of a number's name; null: there are none"),
    _maybe(
        "unit",
        _KEY,
        "numbers are for one of these, by all threads; null: half a round trip (clock: a reading)",
    ),
    *PARAMETER_COLUMNS,
    _maybe("core_ghz", "float32", "frequency of ping's core, median of the bursts"),
    _maybe("levels_ns", "list<float32>", "medians of all levels, the fastest first; null: one level"),
    _maybe("levels_share", "list<float32>", "share of the bursts in each"),
    _maybe("levels_spread", "list<float32>", "half of each one's 95 % interval, as a share; NaN: one burst"),
    _maybe("levels_dwell", "list<float32>", "how many bursts in a row are in each, on average"),
    _maybe("levels_state", "list<string>", "name of the machine's state that each is of, A the fastest"),
)

# One number a pair, from elsewhere: imported, never mixed with samples.
SUMMARIES = (
    _always("summary", _KEY, "the name it was imported under"),
    _always("benchmark", _KEY, "cas, readwrite, ..."),
    _maybe("variant", _KEY, "the instructions used, by our names, where known"),
    _always("relation", _KEY, "smallest group the two CPUs share; unknown where not stated"),
    _always("ping_cpu", "int32", "CPU of the row, the side that was timed"),
    _always("pong_cpu", "int32", "CPU of the column"),
    _always("latency_ns", "float64", "one way, as printed by the tool"),
    _always("tool", _KEY, "what measured it: core_latency, ..."),
    _maybe("estimator", _KEY, "how the tool made one number of its samples: median, mean or min"),
    _maybe("samples", "int64", "samples a pair, as the tool counts them"),
    _maybe("iterations", "int64", "round trips a sample, as the tool counts them"),
    _maybe("cpu_model", _KEY, "CPU model"),
    _maybe("os", _KEY, "operating system: linux, qnx, ..."),
    _maybe("conditions", _KEY, "other conditions stated for the machine, such as boost off"),
    _always("source", _KEY, "where it comes from: a file, a page"),
    _maybe("imported_utc", "timestamp[ms, UTC]", "when it was imported; null for what fleet ships"),
    _always("labels_json", "string", "labels given at import: object of strings"),
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
    types = {
        _KEY: pa.dictionary(pa.int32(), pa.string()),
        "string": pa.string(),
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float32": pa.float32(),
        "float64": pa.float64(),
        "timestamp[ms, UTC]": pa.timestamp("ms", tz="UTC"),
        "list<string>": pa.list_(pa.field("element", pa.string(), nullable=False)),
        "list<float32>": pa.list_(pa.field("element", pa.float32(), nullable=False)),
        "list<int32>": pa.list_(pa.field("element", pa.int32(), nullable=False)),
        "list<int64>": pa.list_(pa.field("element", pa.int64(), nullable=False)),
    }
    types["list<list<int64>>"] = pa.list_(pa.field("element", types["list<int64>"], nullable=False))
    columns = TABLES[table]
    if names is not None:
        whole = arrow_schema(table)
        return pa.schema([whole.field(name) for name in names])
    listed = [[c.name, c.type, c.nullable] for c in columns]
    return pa.schema(
        [pa.field(c.name, types[c.type], nullable=c.nullable) for c in columns],
        metadata={
            "fleet.table": table,
            "fleet.schema": json.dumps(listed),
            "fleet.schema_version": SCHEMA_VERSION,
        },
    )


@once
def arrow_types(table: str) -> Mapping[str, Any]:
    """The pyarrow type of each column of a table, in their order."""
    return {field.name: field.type for field in arrow_schema(table)}

"""Select ladders (numbers by memory size) and find their plateaus, one per memory level
(docs/reading.md).

Also compare the measured bandwidth with the theoretical peak of the memory channels.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools
from fleet.analysis.base.text import is_none, to_records
from fleet.analysis.reduce.load import get_views
from fleet.model import SHIPPED, Descriptions, Relation, Shape, View, describe_channels

MEMORY = "mem"
LADDER = ["benchmark", "variant", "setting", "threads", "ping_cpu", "pong_cpu"]
# ladders of one run that have the same plateaus
_SWEPT_TOGETHER = [
    "run_id",
    "benchmark",
    "sharing",
    "threads",
    "ping_cpu",
    "pong_cpu",
]
_NUMBERS = (
    "median_ns",
    "low_ns",
    "high_ns",
    "spread",
    "mean_ns",
    "min_ns",
    "p99_ns",
    "core_ghz",
)
_TIMES_INSIDE = 2  # times smaller than a cache is a size that lies well inside
_TIMES_OUTSIDE = 2  # times larger than a cache is a size that lies well outside
STEP = 1.5  # times slower, at least, is another level
NODE_CELL = ["benchmark", "variant", "setting", "cpu_node", "memory_node"]
_ABOVE_PEAK = (
    "above the peak: caches took part, or the speed that the firmware states is wrong"
)
_NODE_OF_LOAD = re.compile(r"\.n\d+-n(?=\d+$)")  # of the memory and of a load: ".n0-n1"
_MACHINE = -1  # stands for all nodes together where a node's number is expected
NodeMatrix = dict[tuple[int, int], float]  # by the node of CPUs and that of memory


class CacheLevel(NamedTuple):
    """A level of a ladder, such as "L2". share_bytes: the part of the cache that each
    buffer of the ladder has to itself; 0 for memory.
    """

    name: str
    share_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryHierarchy:
    """The memory of runs as measured. steps: from `select_ladder_steps`. levels: from
    `find_plateaus`. nodes: the cells by NUMA node, from `select_node_cells`.
    """

    steps: pd.DataFrame
    levels: pd.DataFrame
    nodes: pd.DataFrame


def arrange_memory(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> MemoryHierarchy:
    """Arrange the rows of `pairs` that measure memory: as steps of ladders, which go
    through memory sizes, as levels of memory, and by NUMA node. cpus: of the same runs.
    """
    steps = select_ladder_steps(pairs, descriptions)
    return MemoryHierarchy(
        steps=steps,
        levels=_find_levels(steps, cpus),
        nodes=select_node_cells(pairs, cpus, descriptions),
    )


def is_node_placed(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> Bools:
    """Report which rows have memory on a requested NUMA node; False for benchmarks of
    two CPUs, whose rows are of a pair, not of a node of CPUs.
    """
    is_placed = np.zeros(len(pairs), dtype=bool)
    for name in pairs["benchmark"].unique():
        benchmark = descriptions[str(name)]
        node = benchmark.node
        if node is None or node.name not in pairs or benchmark.shape is Shape.PAIR:
            continue
        has_node = (pairs["benchmark"] == name) & pairs[node.name].notna()
        is_placed |= has_node.to_numpy(dtype=bool)
    return is_placed


def select_line_placed_pairs(
    pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Select the rows of matrices of pairs whose lines lie on a requested NUMA node."""
    is_matrix = get_views(pairs["benchmark"], descriptions) == View.MATRIX
    return pairs[is_matrix & pairs["memory_node"].notna()]


def select_ladder_steps(
    pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Select the steps of ladders, which are benchmarks by memory size; a step is a row
    for one size. Add `setting`, the point without its size, such as "read one". Sort
    the steps by ladder, then by size. Memory on a requested node is left out.
    """
    is_ladder = get_views(pairs["benchmark"], descriptions).eq(View.LADDER)
    has_size = pairs["bytes"].notna()
    is_placed = is_node_placed(pairs, descriptions)
    steps = pairs[is_ladder & has_size & ~is_placed].copy()
    steps["bytes"] = steps["bytes"].astype(int)
    steps["threads"] = steps["threads"].fillna(1).astype(int)
    steps["setting"] = _name_settings(steps)
    order = [*LADDER, "bytes"]
    return steps.sort_values(order, kind="stable", ignore_index=True)


def _name_settings(steps: pd.DataFrame) -> list[str]:
    """Name the setting of each step by its point and its size in `bytes`."""
    settings = []
    for point, size in zip(steps["point"], steps["bytes"], strict=True):
        settings.append(name_setting(str(point), size))
    return settings


def find_plateaus(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Find the plateaus of ladders, the sizes that one level of memory serves: a row
    per run, ladder and level, with `level` ("L2", "mem"), `cache_bytes` and numbers.

    pairs, cpus: of any runs; the sizes of a level are found in each run by itself.
    `median_ns`, `low_ns`, `high_ns`, `spread`, `core_ghz`, `other_ns`: the median of
    the column over the level's sizes. `rise`: the time of the slowest size as a
    multiple of that of the fastest. `least_bytes`, `most_bytes`, `sizes`: the smallest
    and largest size, and how many sizes there are. There are no rows if no cache sizes
    are known.
    """
    return _find_levels(select_ladder_steps(pairs, descriptions), cpus)


def _find_levels(steps: pd.DataFrame, cpus: pd.DataFrame) -> pd.DataFrame:
    """Reduce steps of ladders to the rows that `find_plateaus` returns: a row per run,
    ladder and level of memory. cpus: of the same runs.

    The ladders of a run that have the same benchmark, sharing, threads and CPUs go
    through the same caches, so that their levels are found together.
    """
    parts: list[pd.DataFrame] = []
    # dropna: ladders of one CPU have no sharing
    swept_together = steps.groupby(
        _SWEPT_TOGETHER, sort=False, observed=True, dropna=False
    )
    for _, group in swept_together:
        caches = list_cache_levels(cpus, group)
        parts.extend(_select_levels(group, caches))
    if not parts:
        return pd.DataFrame([], columns=[*_PLATEAU_KEYS, *_PLATEAU_AGGREGATES])
    steps_with_levels = pd.concat(parts, ignore_index=True)
    plateaus = steps_with_levels.groupby(_PLATEAU_KEYS, sort=False, observed=True)
    rows = plateaus.agg(**_PLATEAU_AGGREGATES)
    return pd.DataFrame(rows.reset_index())


def _select_levels(
    group: pd.DataFrame, caches: Sequence[CacheLevel]
) -> Iterator[pd.DataFrame]:
    """Yield a frame for each level that has steps: these steps, with the columns
    `level` and `cache_bytes`. group: a run's ladders of one benchmark and CPUs.
    """
    for level, sizes in _split_levels(group, caches):
        part = group[group["bytes"].isin(sizes)]
        if len(part):
            yield part.assign(level=level.name, cache_bytes=level.share_bytes)


def _merge_flags(texts: Iterable[object]) -> str:
    """Return every flag of these texts once, sorted."""
    flags = set[str]()
    for text in texts:
        flags.update(str(text).split(","))
    return ",".join(sorted(flags - {""}))


_PLATEAU_KEYS = ["host_id", "run_id", *LADDER, "level", "cache_bytes"]
_PLATEAU_AGGREGATES: dict[str, Any] = {
    "relation": ("relation", "first"),
    "unit": ("unit", "first"),
    **{name: (name, "median") for name in _NUMBERS},
    "other_ns": ("other_ns", "median"),
    "rise": ("median_ns", lambda numbers: float(numbers.max() / numbers.min())),
    "least_bytes": ("bytes", "min"),
    "most_bytes": ("bytes", "max"),
    "sizes": ("bytes", "nunique"),
    "bursts": ("bursts", "sum"),
    "flagged_bursts": ("flagged_bursts", "sum"),
    "flags": ("flags", _merge_flags),
}


def list_cache_levels(cpus: pd.DataFrame, group: pd.DataFrame) -> list[CacheLevel]:
    """List the data caches that a ladder goes through, nearest first.

    cpus: from `load_cpus`. group: a run's ladders of one benchmark and CPUs, whose rows
    have equal `run_id`, `ping_cpu`, `threads` and `sharing`. With the sharing "one" all
    threads use the same buffer, which may fill each cache. Otherwise each thread has a
    buffer of its own, and the buffers of the threads that share a cache divide it.
    """
    first = group.iloc[0]
    cpus_of_run = cpus[cpus["run_id"] == first["run_id"]]
    measured_cpus = max(int(cpus_of_run["measured"].sum()), 1)
    threads = int(first["threads"])
    caches = _list_data_caches(cpus_of_run, first["ping_cpu"])
    levels = []
    for name, cache in zip(_name_caches(caches), caches, strict=True):
        buffers = 1
        if first["sharing"] != "one":
            buffers = _count_threads_in_cache(cache, threads, measured_cpus)
        share_bytes = int(cache["size_bytes"]) // buffers
        levels.append(CacheLevel(name, max(share_bytes, 1)))
    return levels


def _name_caches(caches: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name caches, nearest first, by their level, "L1"; the last one is "LLC" from the
    third level on, since a last L2 stays "L2".
    """
    numbers = [int(cache["level"]) for cache in caches]
    names = [f"L{number}" for number in numbers]
    if numbers and numbers[-1] >= 3:
        names[-1] = "LLC"
    return names


def _count_threads_in_cache(
    cache: Mapping[str, Any], threads: int, measured_cpus: int
) -> int:
    """Count how many of a ladder's threads share a cache, at least one. The threads are
    spread evenly over all measured CPUs. With 8 threads on 16 measured CPUs, a cache of
    4 CPUs has 2 of the threads.
    """
    its_cpus = len(cache["shared_cpus"]) or 1
    its_threads = math.ceil(threads * its_cpus / measured_cpus)
    return max(1, min(its_cpus, threads, its_threads))


def _list_data_caches(cpus: pd.DataFrame, cpu: int) -> list[dict[str, Any]]:
    """List the caches of a CPU that hold data and whose size is known, nearest first.
    cpus: one run's rows; `caches_json` has a list of the CPU's caches.
    """
    data_caches = []
    for text in cpus.loc[cpus["cpu"] == cpu, "caches_json"]:
        for cache in json.loads(text):
            holds_data = cache["kind"] != "Instruction"
            if holds_data and cache["size_bytes"]:
                data_caches.append(cache)
    return sorted(data_caches, key=lambda cache: int(cache["level"]))


def format_size(count: int) -> str:
    """Format bytes in the largest unit that divides them: 24576 -> "24K"."""
    for size, unit in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if count and count % size == 0:
            return f"{count // size}{unit}"
    return str(count)


def sort_settings(
    rows: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[str]:
    """Return the distinct settings of one benchmark's rows, such as "read one", in the
    order in which the benchmark's description lists their first words. A setting whose
    first word is not listed comes last. Settings with the same first word are in
    alphabetical order.
    """
    if rows.empty:
        return []
    words: list[str] = []
    benchmark = descriptions[str(rows["benchmark"].iloc[0])]
    for parameter in benchmark.parameters_with_role("column"):
        words += parameter.words
    places = {word: place for place, word in enumerate(words)}

    def get_place(setting: str) -> tuple[int, str]:
        first_word, _, _ = setting.partition(" ")
        return places.get(first_word, len(places)), setting

    return sorted(rows["setting"].unique(), key=get_place)


def _split_levels(
    group: pd.DataFrame, caches: Sequence[CacheLevel]
) -> Iterator[tuple[CacheLevel, set[int]]]:
    """Yield each level and the sizes of buffers, in bytes, that measure this level:
    each cache, nearest first, then memory. A level may have no sizes. group: a run's
    ladders of one benchmark and CPUs. caches: from `list_cache_levels`.

    A size measures a cache if it is at most half the cache and at least twice each
    nearer cache. Of these sizes only those before the first step up in time count. The
    larger sizes, behind the step, miss the cache, which may be smaller than the machine
    reports.
    """
    time_by_size = _compute_relative_curve(group)
    largest_cache = 0  # of the caches nearer than `level`, in bytes
    sizes_behind_step: list[int] = []  # of the last cache that was looked at
    for level in caches:
        smallest_size = _TIMES_OUTSIDE * largest_cache
        largest_size = level.share_bytes // _TIMES_INSIDE
        sizes = [size for size in time_by_size if smallest_size <= size <= largest_size]
        end = _find_step_up([time_by_size[size] for size in sizes])
        sizes_behind_step = sizes[end:]
        largest_cache = max(largest_cache, level.share_bytes)
        yield level, set(sizes[:end])

    memory = CacheLevel(MEMORY, share_bytes=0)
    yield memory, _find_memory_sizes(time_by_size, largest_cache, sizes_behind_step)


def _find_memory_sizes(
    sizes: Iterable[int], largest_cache: int, sizes_behind_step: Sequence[int]
) -> set[int]:
    """Return the sizes that measure memory: the sizes of at least twice the largest
    cache. If there are none, return the sizes from the first one on that misses the
    last cache.

    sizes: of all buffers, in bytes. largest_cache: in bytes; 0 if no cache is known, so
    that there are no sizes of memory either. sizes_behind_step: ascending, the sizes
    that should fit into the last cache, but are so slow that they miss it.
    """
    if largest_cache:
        sizes_outside = {
            size for size in sizes if size >= _TIMES_OUTSIDE * largest_cache
        }
        if sizes_outside:
            return sizes_outside
    if not sizes_behind_step:
        return set()
    return {size for size in sizes if size >= sizes_behind_step[0]}


def _find_step_up(times: Sequence[float]) -> int:
    """Return the first place from which on each time is more than STEP times each time
    before the place; the number of times if there is no such place: 1, 1.1, 2, 2.2 ->
    2.
    """
    for place in range(1, len(times)):
        if min(times[place:]) > STEP * max(times[:place]):
            return place
    return len(times)


def _compute_relative_curve(group: pd.DataFrame) -> dict[int, float]:
    """Return the relative time of each size of a buffer, by the bytes, ascending.

    For each setting, such as "read", the time of a size is divided by the time of the
    fastest size, so that settings of different speed compare. The relative time of a
    size is the median of these multiples over the settings.
    """
    medians = group.groupby(["setting", "bytes"])["median_ns"].median()
    fastest = medians.groupby(level="setting").transform("min")
    multiples = medians / fastest
    multiple_of_size = multiples.groupby(level="bytes").median()
    sizes = multiple_of_size.index.tolist()
    times = multiple_of_size.tolist()
    return dict(zip(sizes, times, strict=True))


def name_setting(point: str, size: int) -> str:
    """Return a point's name, its words joined by spaces, without its size, pages,
    threads and node, and without the usual sharing, "own": "read.own.64K.huge.x4" ->
    "read", "read.one.64K.huge.x4" -> "read one". size: the point's, in bytes.

    The node that a load is on is kept: "read.full.x2.8M.huge.n0-n1" -> "read full load
    on node 1".
    """
    pages = {"base", "huge"}
    words_left_out = {format_size(size), *pages, "own"}
    # read.full.x2.8M.huge.n0-n1 -> read.full.x2.8M.huge.load on node 1
    point = _NODE_OF_LOAD.sub(".load on node ", point)
    words = []
    for word in point.split("."):
        is_threads_or_node = word[:1] in ("x", "n") and word[1:].isdigit()
        if word not in words_left_out and not is_threads_or_node:
            words.append(word)
    return " ".join(words)


def select_node_cells(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Select the rows of `pairs` with memory on a requested node; add the columns of
    NODE_CELL and `threads`. cpus: of the same runs.

    A cell is a node of CPUs, `cpu_node` (-1 if unknown), and a node of memory,
    `memory_node`. `setting` is the text from `name_setting`, with "x1" at its end for a
    single CPU: "read", "read x1". Of the rows of a cell and setting, only those with
    the most threads are kept.
    """
    rows = pairs[is_node_placed(pairs, descriptions)]
    if rows.empty:
        # `memory_node` and `threads` are columns of `pairs` already
        return rows.assign(cpu_node=0, setting="")
    nodes_by_cpu = _map_cpus_to_nodes(cpus)
    node_columns = _find_node_columns(rows, descriptions)
    columns: dict[str, list[Any]] = defaultdict(list)
    for row in to_records(rows):
        cpu = (row["run_id"], row["ping_cpu"])
        cpu_node = nodes_by_cpu.get(cpu, -1)
        node_column = node_columns[row["benchmark"]]
        columns["cpu_node"].append(cpu_node)
        columns["memory_node"].append(int(row[node_column]))
        columns["setting"].append(_name_setting_and_single(row))
        columns["threads"].append(_count_threads(row))
    return _keep_largest_groups(rows.assign(**columns))


def _keep_largest_groups(cells: pd.DataFrame) -> pd.DataFrame:
    """Keep of the rows of each run and cell those with the most threads: a node's
    bandwidth is what all its CPUs reach together.
    """
    by_cell = cells.groupby(["run_id", *NODE_CELL], observed=True)
    most_threads = by_cell["threads"].transform("max")
    return cells[cells["threads"] == most_threads]


def _name_setting_and_single(row: Mapping[str, Any]) -> str:
    """Return the setting of a row of `pairs`, with "x1" behind it for a single CPU."""
    setting = name_setting(str(row["point"]), int(row["bytes"]))
    if _count_threads(row) == 1:
        setting += " x1"
    return setting


def _count_threads(row: Mapping[str, Any]) -> int:
    """Return the threads of a row of `pairs`; a row without a number has one."""
    return int(row["threads"] or 1)


def _map_cpus_to_nodes(cpus: pd.DataFrame) -> dict[tuple[str, int], int]:
    """Return the NUMA node of each CPU that has one, by run ID and CPU."""
    nodes = {}
    for cpu in to_records(cpus[["run_id", "cpu", "node"]]):
        if cpu["node"] is not None:
            nodes[cpu["run_id"], cpu["cpu"]] = int(cpu["node"])
    return nodes


def _find_node_columns(
    rows: pd.DataFrame, descriptions: Descriptions
) -> dict[str, str]:
    """Return by benchmark the name of the column of `pairs` that holds the requested
    node of memory, "memory_node". Benchmarks without such a parameter are left out.
    """
    columns = {}
    for name in rows["benchmark"].unique():
        node = descriptions[str(name)].node
        if node is not None:
            columns[name] = node.name
    return columns


def lay_out_node_matrix(
    cells: pd.DataFrame, column: str = "median_ns"
) -> tuple[list[int], list[int], NodeMatrix]:
    """Return three things: the nodes of CPUs; the nodes of memory; and by node of CPUs
    and node of memory, the median of `column`, for each combination that was measured.
    Both lists ascend, but memory nodes that were not measured as nodes of CPUs come
    last. cells: of one setting, from `select_node_cells`.
    """
    by_nodes: Any = cells.groupby(["cpu_node", "memory_node"])[column]
    medians = {}
    cpu_nodes = set()
    memory_nodes = set()
    for (cpu_node, memory_node), ns in by_nodes.median().items():
        medians[int(cpu_node), int(memory_node)] = float(ns)
        cpu_nodes.add(int(cpu_node))
        memory_nodes.add(int(memory_node))
    with_cpus = sorted(memory_nodes & cpu_nodes)
    without_cpus = sorted(memory_nodes - cpu_nodes)
    return sorted(cpu_nodes), with_cpus + without_cpus, medians


def is_local_memory(cells: pd.DataFrame) -> "pd.Series[Any]":
    """Report which cells have their memory on the node of their CPUs."""
    return cells["cpu_node"] == cells["memory_node"]


def describe_memory(
    run: Mapping[str, Any], memory: MemoryHierarchy, cpus: pd.DataFrame
) -> list[str]:
    """Return lines on a run's memory: its modules, if known, and then the best
    bandwidth of the machine and of each node, if measured and if the peak is known:
    "memory of node 0, bandwidth read of 4 CPUs: 90.0 of 120.0 GB/s, 75%". memory, cpus:
    of the run.
    """
    lines = []
    if run.get("memory_modules"):
        lines.append(f"memory: {run['memory_modules']}")
    levels = memory.levels
    rows = to_records(levels[levels["level"] == MEMORY])
    rows += to_records(memory.nodes)
    facts_by_node = _find_peak_facts(run)
    for node, best in _find_best_bandwidths(rows, run, cpus).items():
        gb_per_s = 1 / best.ns_per_byte  # a byte per ns is a GB per s
        facts = facts_by_node.get(node, {})
        share = _describe_peak_share(gb_per_s, facts)
        if share:
            lines.append(f"{_name_memory(node)}, {best.name}: {share}")
    return lines


def _name_memory(node: int) -> str:
    """Name the memory of a node, or of the whole machine for _MACHINE."""
    if node == _MACHINE:
        return "memory"
    return f"memory of node {node}"


class _Bandwidth(NamedTuple):
    """A bandwidth of memory. name: what reached it, "bandwidth read of 4 CPUs"."""

    ns_per_byte: float
    name: str


def _find_best_bandwidths(
    rows: Sequence[Mapping[str, Any]], run: Mapping[str, Any], cpus: pd.DataFrame
) -> dict[int, _Bandwidth]:
    """Return the highest bandwidth of the memory of each node, by the node's number,
    and of the whole machine by _MACHINE. rows: of `levels` or `nodes` of a
    MemoryHierarchy; rows that count another unit than bytes are no bandwidths. cpus:
    of the run.
    """
    node_of_cpu = dict(zip(cpus["cpu"], cpus["node"], strict=True))
    is_single_node = len(run.get("nodes") or []) < 2
    best_by_node: dict[int, _Bandwidth] = {}
    for row in rows:
        if row["unit"] != "byte":
            continue
        node = _find_node_of_memory(row, node_of_cpu, is_single_node=is_single_node)
        if is_none(node):
            continue
        bandwidth = _Bandwidth(row["median_ns"], _name_group(row))
        best = best_by_node.get(int(node), bandwidth)
        best_by_node[int(node)] = min(best, bandwidth)  # the least ns per byte
    return dict(sorted(best_by_node.items()))


def _find_peak_facts(run: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return the facts on the peak bandwidth of each node, by the node's number, and of
    the whole machine by _MACHINE. If the machine has no peak of its own and a single
    node, the machine has the facts of the node.
    """
    of_machine = run.get("memory") or {}
    nodes = run.get("nodes") or []
    if len(nodes) == 1 and not of_machine.get("peak_mbps"):
        (of_machine,) = nodes
    facts = {_MACHINE: of_machine}
    for node in nodes:
        facts[node["node"]] = node
    return facts


def _find_node_of_memory(
    row: Mapping[str, Any], node_of_cpu: Mapping[int, Any], *, is_single_node: bool
) -> Any:
    """Return the node whose memory a row measures: a number, _MACHINE for the memory of
    all nodes, None if the node is unknown. node_of_cpu: the node of each CPU.
    """
    # rows of `nodes` have the node that was requested; in rows of `levels`, each CPU
    # allocates on its own node
    if "memory_node" in row:
        return row["memory_node"]
    relation, _, _ = row["relation"].partition(" ")  # "package P-E": without kinds
    if is_single_node or relation == Relation.SYSTEM:
        return _MACHINE
    # the CPUs of a package may be of several nodes, and each allocates on its own node
    if relation in (Relation.PACKAGE, Relation.UNKNOWN):
        return None
    return node_of_cpu.get(row["ping_cpu"])


def _name_group(row: Mapping[str, Any]) -> str:
    """Name what a row measures: "bandwidth read of 4 CPUs"."""
    count = row["threads"]
    noun = "CPUs"
    if count == 1:
        noun = "CPU"
    return f"{row['benchmark']} {row['setting']} of {count} {noun}"


def _describe_peak_share(gb_per_s: float, facts: Mapping[str, Any]) -> str:
    """Format a bandwidth as a share of the peak of a machine or node: "90.0 of 120.0
    GB/s, 75%". Return "" if the facts do not state the peak.

    facts: of the machine or node. `peak_mbps` is computed from the memory channels. If
    it is unknown, `read_mbps` stands for it, which the firmware states in an ACPI
    table.
    """
    peak_mbps = facts.get("peak_mbps")
    is_from_acpi = not peak_mbps
    if is_from_acpi:
        peak_mbps = facts.get("read_mbps")
    if not peak_mbps:
        return ""
    peak_gb_per_s = peak_mbps / 1000
    share = gb_per_s * 1000 / peak_mbps
    populated = facts.get("channels_populated") or None  # 0 is unknown, too
    parts = [
        f"{gb_per_s:.1f} of {peak_gb_per_s:.1f} GB/s",
        f"{share:.0%}",
        describe_channels(populated, facts.get("channels")),
    ]
    if is_from_acpi:
        parts.append("the peak as ACPI has it")
    if share > 1:
        parts.append(_ABOVE_PEAK)
    return ", ".join(filter(None, parts))

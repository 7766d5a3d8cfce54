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
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools
from fleet.analysis.base.text import is_none, to_records
from fleet.analysis.reduce.load import get_views
from fleet.model import SHIPPED, Descriptions, Relation, Shape, View, describe_channels

MEMORY = "mem"
LADDER = ["benchmark", "variant", "setting", "threads", "ping_cpu", "pong_cpu"]
_SET = ["run_id", "benchmark", "threads", "ping_cpu", "pong_cpu"]
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
_INSIDE = 2  # times smaller than its cache
_OUTSIDE = 2  # times larger than the one before
STEP = 1.5  # times slower, at least, is another level
NODE_CELL = ["benchmark", "variant", "setting", "cpu_node", "memory_node"]
_ABOVE_PEAK = (
    "above the peak: caches took part, or the speed that the firmware states is wrong"
)
_MACHINE = -1  # instead of a node
NodeMatrix = dict[tuple[int, int], float]  # by the node of CPUs and that of memory


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
    """Arrange the rows of `pairs` that measure memory. cpus: of the same runs."""
    steps = select_ladder_steps(pairs, descriptions)
    return MemoryHierarchy(
        steps=steps,
        levels=_find_levels(steps, cpus),
        nodes=select_node_cells(pairs, cpus, descriptions),
    )


def is_node_placed(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> Bools:
    """Report which rows have memory on a requested NUMA node; False for benchmarks of
    two CPUs.
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
    """Select the steps of ladders, sorted; add `setting`, the point without its size,
    such as "read one".
    """
    is_ladder = get_views(pairs["benchmark"], descriptions).eq(View.LADDER)
    has_size = pairs["bytes"].notna()
    is_placed = is_node_placed(pairs, descriptions)
    steps = pairs[is_ladder & has_size & ~is_placed].copy()
    steps["bytes"] = steps["bytes"].astype(int)
    steps["threads"] = steps["threads"].fillna(1).astype(int)
    settings = []
    for point, size in zip(steps["point"], steps["bytes"], strict=True):
        settings.append(name_setting(str(point), size))
    steps["setting"] = settings
    order = [*LADDER, "bytes"]
    return steps.sort_values(order, kind="stable", ignore_index=True)


def find_plateaus(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Find the plateaus of ladders: a row per run, ladder and level, with `level`,
    `cache_bytes` and numbers.

    pairs, cpus: of any runs; the sizes of a level are found in each run by itself.
    `median_ns`, `low_ns`, `high_ns`, `spread`, `core_ghz`, `other_ns`: the median of
    these over the level's sizes. `rise`: the slowest size as a multiple of the fastest.
    `least_bytes`, `most_bytes`, `sizes`: the smallest and largest size, and how many
    there are. No rows if no cache sizes are known.
    """
    return _find_levels(select_ladder_steps(pairs, descriptions), cpus)


def _find_levels(steps: pd.DataFrame, cpus: pd.DataFrame) -> pd.DataFrame:
    """Reduce steps to a row per run, ladder and level, as `find_plateaus` returns
    them.
    """
    parts: list[pd.DataFrame] = []
    for _, group in steps.groupby(_SET, sort=False, observed=True):
        caches = list_cache_levels(cpus, group)
        parts.extend(_select_levels(group, caches))
    if not parts:
        return pd.DataFrame([], columns=[*_PLATEAU, *_OF_PLATEAU])
    levels = pd.concat(parts, ignore_index=True)
    by_plateau = levels.groupby(_PLATEAU, sort=False, observed=True)
    return pd.DataFrame(by_plateau.agg(**_OF_PLATEAU).reset_index())


def _select_levels(
    group: pd.DataFrame, caches: Sequence[tuple[str, int]]
) -> Iterator[pd.DataFrame]:
    """Yield the steps of each level that has any, with `level` and `cache_bytes`.
    group: a run's ladders of one benchmark and CPUs.
    """
    for name, cache, sizes in _split_levels(group, caches):
        part = group[group["bytes"].isin(sizes)]
        if len(part):
            yield part.assign(level=name, cache_bytes=cache)


def _merge_flags(texts: Iterable[object]) -> str:
    """Return every flag of these texts once, sorted."""
    flags = set[str]()
    for text in texts:
        flags.update(str(text).split(","))
    return ",".join(sorted(flags - {""}))


_PLATEAU = ["host_id", "run_id", *LADDER, "level", "cache_bytes"]
_OF_PLATEAU: dict[str, Any] = {
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


def list_cache_levels(cpus: pd.DataFrame, group: pd.DataFrame) -> list[tuple[str, int]]:
    """List a ladder's data caches, nearest first: name, and bytes for each CPU of the
    ladder sharing it.
    """
    first = group.iloc[0]
    cpus_of_run = cpus[cpus["run_id"] == first["run_id"]]
    measured_cpus = max(int(cpus_of_run["measured"].sum()), 1)
    threads = int(first["threads"])
    caches = _list_data_caches(cpus_of_run, first["ping_cpu"])
    names = [f"L{cache['level']}" for cache in caches]
    if caches and int(caches[-1]["level"]) >= 3:  # a last L2 is called L2
        names[-1] = "LLC"
    sizes = []
    for cache in caches:
        buffers = 1
        if first["sharing"] != "one":
            buffers = _count_threads_in_cache(cache, threads, measured_cpus)
        sizes.append(max(int(cache["size_bytes"]) // buffers, 1))
    return list(zip(names, sizes, strict=True))


def _count_threads_in_cache(
    cache: Mapping[str, Any], threads: int, measured: int
) -> int:
    """Count the threads of a group that share a cache. Groups are spread over all
    `measured` CPUs.
    """
    its_cpus = len(cache["shared_cpus"]) or 1
    its_threads = math.ceil(threads * its_cpus / measured)
    return max(1, min(its_cpus, threads, its_threads))


def _list_data_caches(cpus: pd.DataFrame, cpu: int) -> list[dict[str, Any]]:
    """List the caches of a CPU that hold data and whose size is known, nearest
    first.
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
    """Return the distinct settings of one benchmark's rows, in the order of its
    description.
    """
    words: list[str] = []
    if len(rows):
        benchmark = descriptions[str(rows["benchmark"].iloc[0])]
        for parameter in benchmark.parameters_with_role("column"):
            words += parameter.words
    places = {word: place for place, word in enumerate(words)}

    def get_place(setting: str) -> tuple[int, str]:
        first_word, _, _ = setting.partition(" ")
        return places.get(first_word, len(places)), setting

    return sorted(rows["setting"].unique(), key=get_place)


def _split_levels(
    group: pd.DataFrame, caches: Sequence[tuple[str, int]]
) -> Iterator[tuple[str, int, set[int]]]:
    """Yield each level's name, cache bytes and sizes. group: a run's ladders of one
    benchmark and CPUs.
    """
    curve = _compute_relative_curve(group)
    largest_cache = 0  # so far
    sizes_behind_step = set[int]()  # those slower than the plateau of the last cache
    for name, cache in caches:
        least = _OUTSIDE * largest_cache
        most = cache // _INSIDE
        sizes = [size for size in curve if least <= size <= most]
        end = _find_step_up([curve[size] for size in sizes])
        sizes_behind_step = set()
        if end < len(sizes):
            first_behind = sizes[end]
            sizes_behind_step = {size for size in curve if size >= first_behind}
        largest_cache = max(largest_cache, cache)
        yield name, cache, set(sizes[:end])

    sizes_outside = set[int]()
    if largest_cache:
        least = _OUTSIDE * largest_cache
        sizes_outside = {size for size in curve if size >= least}
    yield MEMORY, 0, sizes_outside or sizes_behind_step


def _find_step_up(times: Sequence[float]) -> int:
    """Return the first place from which on all times are STEP times those before, or
    the end.
    """
    for place in range(1, len(times)):
        if min(times[place:]) > STEP * max(times[:place]):
            return place
    return len(times)


def _compute_relative_curve(group: pd.DataFrame) -> dict[int, float]:
    """Compute each size's time, by size, as a multiple of the fastest size's: the
    median over settings.
    """
    medians = group.groupby(["setting", "bytes"])["median_ns"].median()
    fastest = medians.groupby(level="setting").transform("min")
    slower = (medians / fastest).groupby(level="bytes").median()
    return {int(str(size)): float(ratio) for size, ratio in slower.items()}


def name_setting(point: str, size: int) -> str:
    """Return a point's name without its size, pages, threads, node and the usual
    sharing: "read one".
    """
    words_left_out = {format_size(size), "base", "huge", "own"}
    point = re.sub(r"\.n\d+-n(?=\d+$)", ".load on node ", point)
    words = []
    for word in point.split("."):
        is_threads_or_node = word[:1] in ("x", "n") and word[1:].isdigit()
        if word not in words_left_out and not is_threads_or_node:
            words.append(word)
    return " ".join(words)


def select_node_cells(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Select the rows with memory on a requested node; add the columns of NODE_CELL.

    A cell is a node of CPUs, `cpu_node` (-1 if unknown), and a node of memory,
    `memory_node`. `setting`: from `name_setting`, with x1 for one CPU; keep only the
    largest group of several CPUs. cpus: of the same runs.
    """
    rows = pairs[is_node_placed(pairs, descriptions)]
    if rows.empty:
        return rows.assign(cpu_node=0, setting="")
    nodes_by_cpu = _map_cpus_to_nodes(cpus)
    node_columns = _find_node_columns(rows, descriptions)
    columns: dict[str, list[Any]] = defaultdict(list)
    for row in to_records(rows):
        cpu = (row["run_id"], row["ping_cpu"])
        node_column = node_columns[row["benchmark"]]
        columns["cpu_node"].append(nodes_by_cpu.get(cpu, -1))
        columns["memory_node"].append(int(row[node_column]))
        columns["setting"].append(_name_setting_and_single(row))
        columns["threads"].append(int(row["threads"] or 1))
    cells = rows.assign(**columns)
    by_cell = cells.groupby(["run_id", *NODE_CELL], observed=True)
    most_threads = by_cell["threads"].transform("max")
    return cells[cells["threads"] == most_threads]


def _name_setting_and_single(row: Mapping[str, Any]) -> str:
    """Return the setting of a row of `pairs`, with x1 for one CPU."""
    setting = name_setting(str(row["point"]), int(row["bytes"]))
    if int(row["threads"] or 1) == 1:
        setting += " x1"
    return setting


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
    """Return by benchmark the column that has the requested node."""
    columns = {}
    for name in rows["benchmark"].unique():
        node = descriptions[str(name)].node
        if node is not None:
            columns[name] = node.name
    return columns


def lay_out_node_matrix(
    cells: pd.DataFrame, column: str = "median_ns"
) -> tuple[list[int], list[int], NodeMatrix]:
    """Return CPU nodes, memory nodes (those without CPUs last) and medians by both.
    cells: of one setting.
    """
    by_nodes: Any = cells.groupby(["cpu_node", "memory_node"])[column]
    medians = {}
    for (cpu_node, memory_node), ns in by_nodes.median().items():
        medians[int(cpu_node), int(memory_node)] = float(ns)
    cpu_nodes = {cpu_node for cpu_node, _ in medians}
    memory_nodes = {memory_node for _, memory_node in medians}
    with_cpus = sorted(memory_nodes & cpu_nodes)
    without_cpus = sorted(memory_nodes - cpu_nodes)
    return sorted(cpu_nodes), with_cpus + without_cpus, medians


def is_local_memory(cells: pd.DataFrame) -> "pd.Series[Any]":
    """Report which cells have their memory on the node of their CPUs."""
    return cells["cpu_node"] == cells["memory_node"]


def describe_memory(
    run: Mapping[str, Any], memory: MemoryHierarchy, cpus: pd.DataFrame
) -> list[str]:
    """Return lines on a run's memory, if known: the modules, and by node the best
    bandwidth and the peak. memory, cpus: of the run.
    """
    lines = []
    if run.get("memory_modules"):
        lines.append(f"memory: {run['memory_modules']}")
    levels = memory.levels
    rows = to_records(levels[levels["level"] == MEMORY]) + to_records(memory.nodes)
    peaks = _find_peaks(run)
    for node, (ns, name) in _find_best_numbers(rows, run, cpus).items():
        share = _describe_peak_share(1 / ns, peaks.get(node, {}))
        if not share:
            continue
        place = "memory"
        if node != _MACHINE:
            place = f"memory of node {node}"
        lines.append(f"{place}, {name}: {share}")
    return lines


def _find_best_numbers(
    rows: Sequence[Mapping[str, Any]], run: Mapping[str, Any], cpus: pd.DataFrame
) -> dict[int, tuple[float, str]]:
    """Find the least ns a byte of the memory of each node or, by _MACHINE, of the
    machine, and what reached it.
    """
    node_of_cpu = dict(zip(cpus["cpu"], cpus["node"], strict=True))
    is_single_node = len(run.get("nodes") or []) < 2
    numbers_by_node: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for row in rows:
        node = _find_node_of_memory(row, node_of_cpu, is_single_node=is_single_node)
        if row["unit"] == "byte" and not is_none(node):
            number = (row["median_ns"], _name_group(row))
            numbers_by_node[int(node)].append(number)
    return {node: min(numbers) for node, numbers in sorted(numbers_by_node.items())}


def _find_peaks(run: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return what is known of the peak of each node and, by _MACHINE, of all."""
    memory = run.get("memory") or {}
    peaks = {node["node"]: node for node in run.get("nodes") or []}
    if len(peaks) == 1 and not memory.get("peak_mbps"):
        (memory,) = peaks.values()
    return {_MACHINE: memory, **peaks}


def _find_node_of_memory(
    row: Mapping[str, Any], node_of_cpu: Mapping[int, Any], *, is_single_node: bool
) -> Any:
    """Return the node whose memory a row measures, _MACHINE for that of the machine;
    None if unknown.
    """
    if "memory_node" in row:
        return row["memory_node"]
    if is_single_node or row["relation"] == Relation.SYSTEM:
        return _MACHINE
    if row["relation"].partition(" ")[0] in (Relation.PACKAGE, Relation.UNKNOWN):
        return None
    return node_of_cpu.get(row["ping_cpu"])


def _name_group(row: Mapping[str, Any]) -> str:
    """Name what a row measures: "bandwidth read of 4 CPUs"."""
    count = row["threads"]
    noun = "CPUs"
    if count == 1:
        noun = "CPU"
    return f"{row['benchmark']} {row['setting']} of {count} {noun}"


def _describe_peak_share(rate: float, place: Mapping[str, Any]) -> str:
    """Format a rate in GB/s as a share of the peak of `place`, a machine or node; empty
    if it is unknown.
    """
    mbps = place.get("peak_mbps") or place.get("read_mbps")
    if not mbps:
        return ""
    share = rate * 1000 / mbps
    populated = place.get("channels_populated") or None
    parts = [
        f"{rate:.1f} of {mbps / 1000:.1f} GB/s",
        f"{share:.0%}",
        describe_channels(populated, place.get("channels")),
    ]
    if not place.get("peak_mbps"):
        parts.append("the peak as ACPI has it")
    if share > 1:
        parts.append(_ABOVE_PEAK)
    return ", ".join(filter(None, parts))

"""Select ladders (numbers by memory size) and find their plateaus, one per memory level
(docs/reading.md).

Also compare the measured bandwidth with the theoretical peak of the memory channels.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
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
# times smaller than its cache, times larger than the one before
_INSIDE, _OUTSIDE = (
    2,
    2,
)
STEP = 1.5  # times slower, at least, is another level
NODE_CELL = ["benchmark", "variant", "setting", "cpu_node", "memory_node"]
_ABOVE_PEAK = (
    "above the peak: caches took part, or the speed that the firmware states is wrong"
)
_MACHINE = -1  # instead of a node
NodeMatrix = dict[tuple[int, int], float]  # by the node of CPUs and that of memory


def is_node_placed(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> Bools:
    """Report which rows have memory on a requested NUMA node; False for benchmarks of
    two CPUs.
    """
    is_placed = np.zeros(len(pairs), dtype=bool)
    for name in pairs["benchmark"].unique():
        node = descriptions[str(name)].node
        if (
            node is not None
            and node.name in pairs
            and descriptions[str(name)].shape is not Shape.PAIR
        ):
            is_placed |= (
                (pairs["benchmark"] == name) & pairs[node.name].notna()
            ).to_numpy(dtype=bool)
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
    of_memory = get_views(pairs["benchmark"], descriptions).eq(View.LADDER)
    rows = pairs[
        of_memory & pairs["bytes"].notna() & ~is_node_placed(pairs, descriptions)
    ]
    rows = rows.assign(
        bytes=rows["bytes"].astype(int), threads=rows["threads"].fillna(1).astype(int)
    )
    points = zip(rows["point"], rows["bytes"], strict=True)
    rows = rows.assign(
        setting=[name_setting(str(point), size) for point, size in points]
    )
    return rows.sort_values([*LADDER, "bytes"], kind="stable", ignore_index=True)


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
    rows = select_ladder_steps(pairs, descriptions)
    parts = [
        part.assign(level=name, cache_bytes=cache)
        for _, group in (
            rows.groupby(_SET, sort=False, observed=True) if len(rows) else ()
        )
        for name, cache, sizes in _split_levels(group, list_cache_levels(cpus, group))
        if len(part := group[group["bytes"].isin(sizes)])
    ]
    if not parts:
        return pd.DataFrame([], columns=[*_PLATEAU, *_OF_PLATEAU])
    by_plateau = pd.concat(parts, ignore_index=True).groupby(
        _PLATEAU, sort=False, observed=True
    )
    return pd.DataFrame(by_plateau.agg(**_OF_PLATEAU).reset_index())


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
    "flags": (
        "flags",
        lambda texts: ",".join(sorted({*",".join(map(str, texts)).split(",")} - {""})),
    ),
}


def list_cache_levels(cpus: pd.DataFrame, group: pd.DataFrame) -> list[tuple[str, int]]:
    """List a ladder's data caches, nearest first: name, and bytes for each CPU of the
    ladder sharing it.
    """
    first = group.iloc[0]
    rows = cpus[cpus["run_id"] == first["run_id"]]
    texts = rows.loc[rows["cpu"] == first["ping_cpu"], "caches_json"]
    caches = [cache for text in texts for cache in json.loads(text)]
    caches = [
        cache
        for cache in caches
        if cache["kind"] != "Instruction" and cache["size_bytes"]
    ]
    caches.sort(key=lambda cache: int(cache["level"]))
    measured, threads = max(int(rows["measured"].sum()), 1), int(first["threads"])
    levels = []
    for cache in caches:
        # a last L2 is called L2
        last = cache is caches[-1] and int(cache["level"]) >= 3
        among, sharing = len(cache["shared_cpus"]) or 1, 1
        if first["sharing"] != "one":  # groups are spread over the machine
            sharing = max(1, min(among, threads, -(-threads * among // measured)))
        name = "LLC" if last else f"L{cache['level']}"
        levels.append((name, max(int(cache["size_bytes"]) // sharing, 1)))
    return levels


def format_size(count: int) -> str:
    """Format bytes in the largest unit that divides them: 24576 -> "24K"."""
    units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")]
    size, unit = next(
        (unit for unit in units if count and count % unit[0] == 0), (1, "")
    )
    return f"{count // size}{unit}"


def sort_settings(
    rows: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[str]:
    """Return the distinct settings of one benchmark's rows, in the order of its
    description.
    """
    columns = (
        descriptions[str(rows["benchmark"].iloc[0])].parameters_with_role("column")
        if len(rows)
        else []
    )
    places = {
        word: place
        for place, word in enumerate(chain(*(parameter.words for parameter in columns)))
    }
    names = rows["setting"].unique()
    return sorted(
        names, key=lambda name: (places.get(name.split(" ")[0], len(places)), name)
    )


def _split_levels(
    group: pd.DataFrame, caches: Sequence[tuple[str, int]]
) -> Iterator[tuple[str, int, set[int]]]:
    """Yield each level's name, cache bytes and sizes. group: a run's ladders of one
    benchmark and CPUs.
    """
    curve = _compute_relative_curve(group)
    largest, behind = 0, set[int]()
    for name, cache in caches:
        inside = [
            size for size in curve if _OUTSIDE * largest <= size <= cache // _INSIDE
        ]
        largest = max(largest, cache)
        values = [curve[size] for size in inside]
        ends = (
            cut
            for cut in range(1, len(values))
            if min(values[cut:]) > STEP * max(values[:cut])
        )
        # at the first step up after which all sizes stay up
        end = next(ends, len(values))
        behind = (
            {size for size in curve if size >= inside[end]}
            if end < len(inside)
            else set()
        )
        yield name, cache, set(inside[:end])
    beyond = {size for size in curve if largest and size >= _OUTSIDE * largest}
    yield MEMORY, 0, beyond or behind


def _compute_relative_curve(group: pd.DataFrame) -> dict[int, float]:
    """Compute each size's time, by size, as a multiple of the fastest size's: the
    median over settings.
    """
    medians = group.groupby(["setting", "bytes"])["median_ns"].median()
    slower = (
        (medians / medians.groupby(level="setting").transform("min"))
        .groupby(level="bytes")
        .median()
    )
    return {int(str(size)): float(ratio) for size, ratio in slower.items()}


def name_setting(point: str, size: int) -> str:
    """Return a point's name without its size, pages, threads, node and the usual
    sharing: "read one".
    """
    left_out = {format_size(size), "base", "huge", "own"}
    named = re.sub(r"\.n\d+-n(?=\d+$)", ".load on node ", point)
    words = (word for word in named.split(".") if word not in left_out)
    return " ".join(
        word for word in words if not (word[:1] in "xn" and word[1:].isdigit())
    )


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
    nodes = {
        (cpu["run_id"], cpu["cpu"]): cpu["node"]
        for cpu in to_records(cpus[["run_id", "cpu", "node"]])
    }
    benchmarks = {name: descriptions[str(name)] for name in rows["benchmark"].unique()}
    names = {
        name: benchmark.node.name
        for name, benchmark in benchmarks.items()
        if benchmark.node
    }
    cells = list[tuple[int, int, str, int]]()
    for row in to_records(rows):
        cpu_node, threads = (
            nodes.get((row["run_id"], row["ping_cpu"])),
            int(row["threads"] or 1),
        )
        setting = name_setting(str(row["point"]), int(row["bytes"])) + " x1" * (
            threads == 1
        )
        memory_node = int(row[names[row["benchmark"]]])
        cells.append(
            (-1 if cpu_node is None else int(cpu_node), memory_node, setting, threads)
        )
    columns = ("cpu_node", "memory_node", "setting", "threads")
    rows = rows.assign(**dict(zip(columns, zip(*cells, strict=True), strict=True)))
    most_threads = rows.groupby(["run_id", *NODE_CELL], observed=True)[
        "threads"
    ].transform("max")
    return rows[rows["threads"] == most_threads]


def lay_out_node_matrix(
    cells: pd.DataFrame, column: str = "median_ns"
) -> tuple[list[int], list[int], NodeMatrix]:
    """Return CPU nodes, memory nodes (those without CPUs last) and medians by both.
    cells: of one setting.
    """
    table: Any = cells.groupby(["cpu_node", "memory_node"])[column].median()
    medians = {(int(row), int(node)): float(ns) for (row, node), ns in table.items()}
    rows = sorted({row for row, _ in medians})
    return (
        rows,
        sorted(
            {node for _, node in medians}, key=lambda node: (node not in rows, node)
        ),
        medians,
    )


def is_local_memory(cells: pd.DataFrame) -> "pd.Series[Any]":
    """Report which cells have their memory on the node of their CPUs."""
    return cells["cpu_node"] == cells["memory_node"]


def describe_memory(
    run: Mapping[str, Any],
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    descriptions: Descriptions = SHIPPED,
) -> list[str]:
    """Return lines on a run's memory, if known: the modules, and by node the best
    bandwidth and the peak.
    """
    lines = [f"memory: {run['memory_modules']}"] if run.get("memory_modules") else []
    nodes, memory = (
        {node["node"]: node for node in run.get("nodes") or []},
        run.get("memory") or {},
    )
    peaks: dict[int, Mapping[str, Any]] = {_MACHINE: memory, **nodes}
    if len(nodes) == 1 and not memory.get("peak_mbps"):
        (peaks[_MACHINE],) = nodes.values()
    node_of_cpu = dict(zip(cpus["cpu"], cpus["node"], strict=True))
    best: dict[int, tuple[float, str]] = {}
    plateaus, cells = (
        find_plateaus(pairs, cpus, descriptions),
        select_node_cells(pairs, cpus, descriptions),
    )
    rows = [*to_records(plateaus[plateaus["level"] == MEMORY]), *to_records(cells)]
    for row in (row for row in rows if row["unit"] == "byte"):
        count, node = row["threads"], row.get("memory_node", _MACHINE)
        if node == _MACHINE and len(nodes) > 1 and row["relation"] != Relation.SYSTEM:
            node = node_of_cpu.get(row["ping_cpu"])
            if row["relation"].partition(" ")[0] in (
                Relation.PACKAGE,
                Relation.UNKNOWN,
            ) or is_none(node):
                continue
        name = f"{row['benchmark']} {row['setting']} of {count} CPU{'s' * (count > 1)}"
        fastest = (row["median_ns"], name)  # of one byte, by all threads together
        best[int(node)] = min(best.get(int(node), fastest), fastest)
    for node, (ns, name) in sorted(best.items()):
        if share := _describe_peak_share(1 / ns, peaks.get(node, {})):
            lines.append(
                f"memory{'' if node == _MACHINE else f' of node {node}'}, {name}:"
                f" {share}"
            )
    return lines


def _describe_peak_share(rate: float, place: Mapping[str, Any]) -> str:
    """Format a rate in GB/s as a share of the peak of `place`, a machine or node; empty
    if it is unknown.
    """
    mbps = place.get("peak_mbps") or place.get("read_mbps")
    if not mbps:
        return ""
    share, populated, channels = (
        rate * 1000 / mbps,
        place.get("channels_populated"),
        place.get("channels"),
    )
    parts = (
        f"{rate:.1f} of {mbps / 1000:.1f} GB/s",
        f"{share:.0%}",
        describe_channels(populated or None, channels),
        "" if place.get("peak_mbps") else "the peak as ACPI has it",
        _ABOVE_PEAK if share > 1 else "",
    )
    return ", ".join(filter(None, parts))

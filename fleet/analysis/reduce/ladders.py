"""Make ladders, numbers by the size of memory, and plateaus, the levels of a ladder (docs/reading.md)."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools
from fleet.analysis.base.text import to_records
from fleet.analysis.reduce.load import map_views
from fleet.model import SHIPPED, Descriptions, Shape, View

MEMORY = "mem"
LADDER = ["benchmark", "variant", "setting", "threads", "ping_cpu", "pong_cpu"]
_SET = ["host_id", "benchmark", "threads", "ping_cpu", "pong_cpu"]
_NUMBERS = ("median_ns", "low_ns", "high_ns", "spread", "mean_ns", "min_ns", "p99_ns", "core_ghz")
_INSIDE, _OUTSIDE = 2, 2  # times smaller than its cache, times larger than the one before
STEP = 1.5  # times slower, at least, is another level
_UNITS = ("", "K", "M", "G")
NODE_CELL = ["benchmark", "variant", "setting", "cpu_node", "memory_node"]
NodeMatrix = dict[tuple[int, int], float]  # by the node of CPUs and that of memory


def is_node_placed(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> Bools:
    """Report which rows of `pairs`, not of two CPUs, have memory on a requested NUMA node."""
    is_placed = np.zeros(len(pairs), dtype=bool)
    for name in pairs["benchmark"].unique():
        node = descriptions[str(name)].node
        if node is not None and node.name in pairs and descriptions[str(name)].shape is not Shape.PAIR:
            is_placed |= ((pairs["benchmark"] == name) & pairs[node.name].notna()).to_numpy(dtype=bool)
    return is_placed


def select_homes(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> pd.DataFrame:
    """Select the rows of matrices of pairs whose lines lie on a requested NUMA node."""
    is_matrix = map_views(pairs["benchmark"], descriptions) == View.MATRIX
    return pairs[is_matrix & pairs["memory_node"].notna()]


def select_ladder_steps(pairs: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> pd.DataFrame:
    """Select the rows of `pairs` that are steps of a ladder; add `setting`, the point but for its size.

    Settings are such as "read", "read one" or "random s64". Rows are sorted by ladder, then by size.
    """
    views = {name: descriptions[str(name)].view for name in pairs["benchmark"].unique()}
    of_memory = pairs["benchmark"].map(views).eq(View.LADDER)
    rows = pairs[of_memory & pairs["bytes"].notna() & ~is_node_placed(pairs, descriptions)]
    threads = rows["threads"].fillna(1).astype(int)
    points = zip(rows["point"], rows["bytes"], strict=True)
    settings = [name_setting(str(point), int(size)) for point, size in points]
    rows = rows.assign(bytes=rows["bytes"].astype(int), threads=threads, setting=settings)
    return rows.sort_values([*LADDER, "bytes"], kind="stable").reset_index(drop=True)


def find_plateaus(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Find the plateaus: a row per run, ladder and level, with `level`, `cache_bytes` and numbers.

    pairs: rows of the table `pairs`, of any number of runs; the sizes of a level are the same for all runs of
    a host. cpus: their rows of the table `cpus`.

    `median_ns`, `low_ns`, `high_ns`, `spread`, `core_ghz`: medians of the sizes' numbers; `other_ns`: of
    those at another level, too. `least_bytes`, `most_bytes`, `sizes`: the sizes used. `rise`: the slowest of
    them as a multiple of the fastest. `bursts`, `flagged_bursts`: their sums; `flags`: all of them. No rows
    if no cache sizes are known.
    """
    rows = select_ladder_steps(pairs, descriptions)
    parts = [
        part.assign(level=name, cache_bytes=cache)
        for _, group in (rows.groupby(_SET, sort=False, observed=True) if len(rows) else ())
        for name, cache, sizes in _split_levels(group, list_memory_levels(cpus, group))
        if len(part := group[group["bytes"].isin(sizes)])
    ]
    if not parts:
        return pd.DataFrame([], columns=[*_PLATEAU, *_OF_PLATEAU])
    by_plateau = pd.concat(parts, ignore_index=True).groupby(_PLATEAU, sort=False, observed=True)
    table: pd.DataFrame = by_plateau.agg(**_OF_PLATEAU).reset_index()
    return table


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
    "flags": ("flags", lambda texts: ",".join(sorted({*",".join(map(str, texts)).split(",")} - {""}))),
}


def list_memory_levels(cpus: pd.DataFrame, group: pd.DataFrame) -> list[tuple[str, int]]:
    """List a ladder's data caches, nearest first, if known: name, and bytes that a CPU may fill.

    group: the rows of a ladder. The size of a cache is divided by the ladder's CPUs that share it.
    """
    first = group.iloc[0]
    rows = cpus[(cpus["run_id"] == first["run_id"])]
    own = rows[rows["cpu"] == first["ping_cpu"]]
    caches = [cache for text in own["caches_json"] for cache in json.loads(text)]
    caches = [cache for cache in caches if cache["kind"] != "Instruction" and cache["size_bytes"]]
    caches.sort(key=lambda cache: int(cache["level"]))
    measured = max(int(rows["measured"].sum()), 1)
    levels = []
    for cache in caches:
        last = cache is caches[-1] and int(cache["level"]) >= 3  # a last L2 is called L2
        among = len(cache["shared_cpus"]) or 1
        # Groups are spread over the machine.
        threads, sharing = int(first["threads"]), 1
        if first["sharing"] != "one":
            sharing = max(1, min(among, threads, -(-threads * among // measured)))
        size = max(int(cache["size_bytes"]) // sharing, 1)
        levels.append(("LLC" if last else f"L{cache['level']}", size))
    return levels


def format_size(count: int) -> str:
    """Format bytes in the largest unit that divides them: 24576 -> "24K"."""
    unit = 0
    while unit < len(_UNITS) - 1 and count and count % 1024 == 0:
        count, unit = count // 1024, unit + 1
    return f"{count}{_UNITS[unit]}"


def sort_settings(rows: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> list[str]:
    """Sort the settings of one benchmark's rows, without repeats, in the order of its description."""
    columns = descriptions[str(rows["benchmark"].iloc[0])].parameters_with_role("column") if len(rows) else []
    words = [word for parameter in columns for word in parameter.words]
    places = {name: place for place, name in enumerate(words)}
    names = rows["setting"].unique()
    return sorted(names, key=lambda name: (places.get(name.split(" ")[0], len(places)), name))


def _split_levels(
    group: pd.DataFrame, caches: Sequence[tuple[str, int]]
) -> Iterator[tuple[str, int, set[int]]]:
    """Yield each level of a set of CPUs and its sizes; group: its ladders of all settings and runs."""
    curve = _compute_curve(group)
    largest, behind = 0, set[int]()
    for name, cache in caches:
        inside = [size for size in curve if _OUTSIDE * largest <= size <= cache // _INSIDE]
        largest = max(largest, cache)
        end = _find_end([curve[size] for size in inside])
        behind = {size for size in curve if size >= inside[end]} if end < len(inside) else set()
        yield name, cache, set(inside[:end])
    beyond = {size for size in curve if largest and size >= _OUTSIDE * largest}
    yield MEMORY, 0, beyond or behind


def _find_end(curve: Sequence[float]) -> int:
    """Count a level's sizes before the first step up after which all sizes stay up."""
    cuts = range(1, len(curve))
    return next((cut for cut in cuts if min(curve[cut:]) > STEP * max(curve[:cut])), len(curve))


def _compute_curve(group: pd.DataFrame) -> dict[int, float]:
    """Compute, by ascending size, the median of the settings' times as multiples of their fastest size."""
    slower: dict[int, list[float]] = {}
    for _, rows in group.groupby("setting", sort=False):
        numbers = rows.groupby("bytes", sort=False)["median_ns"].median().reset_index()
        for size, ns in zip(numbers["bytes"], numbers["median_ns"] / numbers["median_ns"].min(), strict=True):
            slower.setdefault(int(size), []).append(ns)
    return {size: float(np.median(times)) for size, times in sorted(slower.items())}


def name_setting(point: str, size: int) -> str:
    """Name a point without its size, pages, threads, node and the usual sharing."""
    left_out = {format_size(size), "base", "huge", "own"}
    named = re.sub(r"\.n\d+-n(?=\d+$)", ".load on node ", point)
    words = (word for word in named.split(".") if word not in left_out)
    return " ".join(word for word in words if not (word[:1] in "xn" and word[1:].isdigit()))


def select_node_cells(
    pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Select the rows with memory on a requested node, in their columns and those of NODE_CELL.

    A cell has the CPUs of one node and the memory of another. `cpu_node`: of ping, -1 if unknown. `setting`:
    as of a ladder, with x1 for one CPU; of several CPUs only the largest group of a cell is kept. pairs: of
    any runs; cpus: of the same.
    """
    rows = pairs[is_node_placed(pairs, descriptions)]
    if rows.empty:
        return rows.assign(cpu_node=0, setting="")
    node_of_cpu = dict(
        zip(zip(cpus["run_id"], cpus["cpu"], strict=True), cpus["node"].fillna(-1), strict=True)
    )
    ends = zip(rows["run_id"], rows["ping_cpu"], strict=True)
    names = {name: descriptions[str(name)].node for name in rows["benchmark"].unique()}
    memory = [row[node.name] for row in to_records(rows) if (node := names[row["benchmark"]])]
    threads = rows["threads"].fillna(1).astype(int)
    points = zip(rows["point"], rows["bytes"], threads, strict=True)
    rows = rows.assign(
        cpu_node=[int(node_of_cpu.get(end, -1)) for end in ends],
        memory_node=[int(node) for node in memory],
        setting=[name_setting(str(point), int(size)) + " x1" * (count == 1) for point, size, count in points],
        threads=threads,
    )
    most_threads = rows.groupby(["run_id", *NODE_CELL], observed=True)["threads"].transform("max")
    return rows[rows["threads"] == most_threads]


def lay_out_node_matrix(
    cells: pd.DataFrame, column: str = "median_ns"
) -> tuple[list[int], list[int], NodeMatrix]:
    """Lay one setting out: nodes of rows (CPUs), of columns (memory; those without CPUs last), medians."""
    medians = {
        (int(str(row)), int(str(node))): float(part[column].median())
        for row, of_row in cells.groupby("cpu_node")
        for node, part in of_row.groupby("memory_node")
    }
    rows = sorted({row for row, _ in medians})
    return rows, sorted({node for _, node in medians}, key=lambda node: (node not in rows, node)), medians


def is_local(cells: pd.DataFrame) -> "pd.Series[Any]":
    """Report whether the memory is of the CPUs' own node."""
    return cells["cpu_node"] == cells["memory_node"]

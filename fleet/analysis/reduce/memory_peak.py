"""Compares measured bandwidth with the theoretical peak of the memory's channels."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fleet.analysis.base.text import is_none, to_records
from fleet.analysis.reduce.ladders import MEMORY, find_plateaus, select_node_cells
from fleet.model import SHIPPED, Descriptions, Relation, describe_channels

_ABOVE = "above the peak: caches took part, or the speed that the firmware states is wrong"


def describe_memory(
    run: Mapping[str, Any], pairs: pd.DataFrame, cpus: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> list[str]:
    """Name a machine's memory modules; put the best bandwidth measured beside the peak, by node where known.

    run, pairs, cpus: as stored, of one run. Empty where the host tells neither modules nor a peak.
    """
    lines = [f"memory: {run['memory_modules']}"] if run.get("memory_modules") else []
    nodes = {node["node"]: node for node in run.get("nodes") or []}
    memory = run.get("memory") or {}
    peaks: dict[int | None, Mapping[str, Any]] = {None: memory, **nodes}
    if len(nodes) == 1 and not memory.get("peak_mbps"):
        (peaks[None],) = nodes.values()
    node_of_cpu = dict(zip(cpus["cpu"], cpus["node"], strict=True))
    best: dict[int | None, tuple[float, str]] = {}
    plateaus, cells = find_plateaus(pairs, cpus, descriptions), select_node_cells(pairs, cpus, descriptions)
    for row in [*to_records(plateaus[plateaus["level"] == MEMORY]), *to_records(cells)]:
        if row["unit"] != "byte":
            continue
        count, node = row["threads"], row.get("memory_node")
        if node is None and len(nodes) > 1 and row["relation"] != Relation.SYSTEM:
            node = node_of_cpu.get(row["ping_cpu"])
            if row["relation"].partition(" ")[0] in (Relation.PACKAGE, Relation.UNKNOWN) or is_none(node):
                continue
        name = f"{row['benchmark']} {row['setting']} of {count} CPU{'s' * (count > 1)}"
        fastest = (row["median_ns"], name)  # of one byte, by all threads together
        node = None if node is None else int(node)
        best[node] = min(best.get(node, fastest), fastest)
    for node, (ns, name) in sorted(best.items(), key=lambda item: (item[0] is not None, item[0] or 0)):
        if share := _describe_share(1 / ns, peaks.get(node, {})):
            lines.append(f"memory{'' if node is None else f' of node {node}'}, {name}: {share}")
    return lines


def _describe_share(rate: float, place: Mapping[str, Any]) -> str:
    """Put a rate in GB/s beside the peak of a machine or node; empty without a peak."""
    mbps = place.get("peak_mbps") or place.get("read_mbps")
    if not mbps:
        return ""
    share, populated, channels = rate * 1000 / mbps, place.get("channels_populated"), place.get("channels")
    parts = (
        f"{rate:.1f} of {mbps / 1000:.1f} GB/s",
        f"{share:.0%}",
        describe_channels(populated or None, channels),
        "" if place.get("peak_mbps") else "the peak as ACPI has it",
        _ABOVE if share > 1 else "",
    )
    return ", ".join(filter(None, parts))

"""Encode the map of a run as data for the script of the page, `templates/map.js`, which
decodes it.
"""

import base64
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base.tables import Floats, Ints
from fleet.analysis.base.text import format_half_width
from fleet.analysis.reduce import heatmap
from fleet.analysis.reduce.flags import MEANINGS
from fleet.analysis.reduce.matrices import lay_out_matrix
from fleet.analysis.reduce.topology import GROUPS, NAMES, Layout
from fleet.analysis.report.read_runs import Part, Reading
from fleet.analysis.views.marked_rows import WIDE
from fleet.text import format_count

_SHARE_DIGITS = 3  # ±1.2% is what is shown
_LOG_STEPS = 4000  # of map.js; a step is 0.025%
_UNGROUPED = 32  # CPUs to zoom to where the host reports no groups
_CHANCE = {"chance": "it changed no more than chance explains"}
_MEANINGS = {
    **MEANINGS,
    "wide": f"the interval is wider than {format_half_width(WIDE)}",
}


def encode_map(
    reading: Reading,
    part: Part,
    own: heatmap.Heatmap,
    common: heatmap.Limits | None,
    bursts: pd.DataFrame,
) -> str:
    """Encode the map of a part as JSON. own: as it is drawn. common: limits of the
    scale of all maps of the page. bursts: those to show of a pair, as in `Part`; may
    be empty.

    The pairs are arrays of little-endian float32, one after the other, deflated and in
    base64: number in ns, half of its interval (relative), share and number of another
    level, places in `relations` and `flags`. An array has each two CPUs once, in the
    order of an upper triangle: 0-1, 0-2, …, 1-2, …; NaN: not measured. `marks`: the
    relations and flags by which pairs can be lit. `orders`: places of CPUs. `bursts`,
    if there are any: as many as `rounds` for each pair, in the order of the run, as
    uint16: the natural logarithm of ns times _LOG_STEPS; 0: none.
    """
    relation_numbers, relations = pd.factorize(part.pairs["relation"])
    flags_numbers, flags = pd.factorize(_list_flags(part.pairs))
    about = _describe_map(
        reading.order, own, list(relations), [_word_flags(joined) for joined in flags]
    )
    if common:
        about["scales"]["common"] = _describe_scale(common)
    about["unit"] = "ns"
    about["colours"] = ["shades", "inks"]
    if len(bursts):
        about |= _encode_bursts(bursts, reading.order.cpus)
    about["pairs"] = _encode_pairs(reading, part, relation_numbers, flags_numbers)
    return json.dumps(about, separators=(",", ":"))


def encode_changes(
    order: Layout, drawn: heatmap.Heatmap, relation: pd.DataFrame, ns: Sequence[Floats]
) -> str:
    """Encode a map of changes in per cent, as `encode_map` does, with two more arrays:
    the pair's ns of A and of B.

    relation: rows of pairs, each once. ns: matrices of A and of B.
    """
    numbers, relations = pd.factorize(relation["relation"])
    about = _describe_map(order, drawn, list(relations), [{}, _CHANCE])
    unknown = np.full_like(drawn.values, np.nan)
    numbered = relation.assign(relation=numbers)
    columns = [
        *(drawn.values, unknown, unknown, unknown),
        lay_out_matrix(numbered, order.cpus, "relation"),
        np.zeros_like(unknown) if drawn.faint is None else drawn.faint,
        *ns,
    ]
    about["unit"] = "%"
    about["colours"] = ["changeShades", "changeInks"]
    about["pairs"] = _encode_triangles(columns)
    return json.dumps(about, separators=(",", ":"))


def _describe_map(
    order: Layout,
    drawn: heatmap.Heatmap,
    relations: Sequence[str],
    flags: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """Return what the script needs besides the pairs."""
    return {
        "cpus": order.cpus,
        "places": _describe_cpus(order),
        "labels": drawn.group_labels,
        "orders": {
            "topology": list(range(len(order.cpus))),
            "number": np.argsort(order.cpus).tolist(),
            "latency": _order_by_latency(drawn.values),
        },
        "scales": {"own": _describe_scale(drawn.limits)},
        "relations": relations,
        "flags": flags,
        "marks": [*relations, *sorted(set(chain.from_iterable(flags)))],
    }


def _order_by_latency(latencies: Floats) -> list[int]:
    """Put each CPU beside the nearest that has no place yet, so that groups come
    together. Return places in rows of `latencies`.
    """
    distances = np.nan_to_num(latencies, nan=np.inf)
    last = 0
    order = [last]
    rest = list(range(1, len(distances)))
    while rest:
        nearest = int(np.argmin(distances[last, rest]))
        last = rest.pop(nearest)
        order.append(last)
    return order


def list_zooms(drawn: heatmap.Heatmap) -> list[tuple[str, str]]:
    """List what a map can be zoomed to, first all CPUs: the name, and where it begins
    and ends, such as "0 16".
    """
    count = len(drawn.labels)
    zooms = [(f"all {format_count(count, 'CPU')}", f"0 {count}")]
    for groups in drawn.group_labels or [_group_by_number(drawn.labels)]:
        end = 0
        for name, size in groups:
            zooms.append((name or "no group", f"{end} {end + size}"))
            end += size
    return zooms


def _group_by_number(cpus: Sequence[str]) -> list[tuple[str, int]]:
    """Return groups of consecutive CPUs, each with its size; none of few CPUs."""
    if len(cpus) <= _UNGROUPED:
        return []
    starts = range(0, len(cpus), _UNGROUPED)
    groups = [cpus[start : start + _UNGROUPED] for start in starts]
    return [(f"CPUs {group[0]} to {group[-1]}", len(group)) for group in groups]


def find_reach(drawn: heatmap.Heatmap) -> float:
    """Return the place of the highest number on the scale of a map, at least 1."""
    low, high = drawn.limits
    numbers = drawn.values[np.isfinite(drawn.values)]
    highest = numbers.max(initial=high)
    if heatmap.is_log(drawn.limits):
        place = math.log(highest / low) / math.log(high / low)
    else:
        place = (highest - low) / (high - low)
    return math.ceil(100 * place) / 100


def _describe_scale(limits: heatmap.Limits) -> tuple[float, float, bool]:
    """Return the ends of a scale, and whether it is logarithmic."""
    low, high = limits
    return low, high, heatmap.is_log(limits)


def _describe_cpus(order: Layout) -> list[str]:
    """Say where each CPU is: "CPU 12: core 6, cache 1, node 0"."""
    return [
        _describe_cpu(cpu, groups, order.kinds)
        for cpu, groups in zip(order.cpus, order.groups, strict=True)
    ]


def _describe_cpu(cpu: int, groups: Sequence[int], kinds: Mapping[int, str]) -> str:
    words = [f"{kinds[cpu]} core"] if cpu in kinds else []
    innermost_first = zip(reversed(GROUPS), reversed(groups), strict=True)
    for level, number in innermost_first:
        if number >= 0:
            words.append(f"{NAMES.get(level, level)} {number}")
    return f"CPU {cpu}: {', '.join(words) or 'place unknown'}"


def _list_flags(pairs: pd.DataFrame) -> "pd.Series[str]":
    """Return the flags of each pair, and "wide" where its interval is, as the warning
    of that name has it.
    """
    flags = pairs["flags"].astype(str)
    return flags.mask(pairs["spread"] > WIDE, flags + ",wide")


def _word_flags(joined: str) -> dict[str, str]:
    """Return what each flag means. joined: separated by commas."""
    return {flag: _MEANINGS.get(flag, "") for flag in joined.split(",") if flag}


def _encode_pairs(reading: Reading, part: Part, relation: Ints, flags: Ints) -> str:
    """Encode the triangles of a part, in the order of `encode_map`. relation, flags:
    numbers of each pair's.
    """
    columns: dict[str, Any] = {
        reading.number: part.pairs[reading.number],
        "spread": _choose_spread(part.pairs, reading.number),
        "other_share": part.pairs["other_share"].round(_SHARE_DIGITS),
        "other_ns": part.pairs["other_ns"],
        "relation": relation,
        "flags": flags,
    }
    pairs = part.pairs.assign(**columns)
    cpus = reading.order.cpus
    return _encode_triangles([lay_out_matrix(pairs, cpus, name) for name in columns])


def _encode_bursts(bursts: pd.DataFrame, cpus: Sequence[int]) -> dict[str, Any]:
    """Encode the bursts of all pairs as `encode_map` says."""
    count = len(cpus)
    places = pd.Index(cpus)
    in_order = bursts.sort_values("round", kind="stable")
    ping = places.get_indexer(pd.Index(in_order["ping_cpu"]))
    pong = places.get_indexer(pd.Index(in_order["pong_cpu"]))
    low = np.minimum(ping, pong)
    pairs = low * count - low * (low + 1) // 2 + np.abs(pong - ping) - 1
    rounds = in_order.groupby(pairs).cumcount().to_numpy()
    logs = np.zeros((count * (count - 1) // 2, rounds.max() + 1))
    logs[pairs, rounds] = np.log(in_order["ns"]) * _LOG_STEPS
    steps = logs.clip(0, 2**16 - 1).round().astype("<u2")
    return {"rounds": steps.shape[1], "bursts": _pack(steps)}


def _encode_triangles(matrices: Sequence[npt.ArrayLike]) -> str:
    """Encode the upper triangles of matrices, in the order of `encode_map`."""
    upper = np.triu_indices(len(np.asarray(matrices[0])), 1)
    triangles = [np.asarray(matrix)[upper] for matrix in matrices]
    return _pack(np.array(triangles, dtype="<f4"))


def _pack(numbers: npt.NDArray[Any]) -> str:
    """Deflate an array and write it as base64."""
    packed = zlib.compress(numbers.tobytes(), 9)
    return base64.b64encode(packed).decode("ascii")


def _choose_spread(pairs: pd.DataFrame, number: str) -> "pd.Series[float]":
    """Return half of each interval, which only medians have."""
    spread = pairs["spread"].round(_SHARE_DIGITS)
    return spread if number == "median_ns" else spread * np.nan

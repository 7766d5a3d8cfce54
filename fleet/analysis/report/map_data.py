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
    """Encode the map of a part as JSON.

    own: the map as it is drawn, with limits of its own. common: the limits of the
    colour scale that all maps of the page have in common; None if there is no such
    scale. bursts: a row per burst, as `Part.bursts`, for the script to show the bursts
    of a pair; empty to show none.

    The key `pairs` has these arrays, one after the other, as little-endian float32,
    deflated and in base64:
    - the number in ns, and half of its interval, relative to it;
    - the share of bursts at another level, and the number of that level in ns;
    - the index of the pair's relation in `relations`;
    - the index of its flags in `flags`.

    An array has each two CPUs once, row by row of the upper triangle: 0-1, 0-2, …, 1-2,
    …. NaN stands for a pair that was not measured. `_encode_bursts` describes the key
    `bursts`, and `_describe_map` the other keys.
    """
    # a row of `part.pairs` gets the index of its relation in `relations`
    relation_indices, relations = pd.factorize(part.pairs["relation"])
    # all flags of a pair are one text, such as "unstable,wide", with one index
    flag_indices, joined_flags = pd.factorize(_list_flags(part.pairs))
    flags = [_word_flags(joined) for joined in joined_flags]
    document = _describe_map(reading.order, own, list(relations), flags)
    if common:
        document["scales"]["common"] = _describe_scale(common)
    document["unit"] = "ns"
    # which data attributes of the page list the colours of cells, and of marks on them
    document["colours"] = ["shades", "inks"]
    if len(bursts):
        document |= _encode_bursts(bursts, reading.order.cpus)
    document["pairs"] = _encode_pairs(reading, part, relation_indices, flag_indices)
    return _write_json(document)


def _write_json(document: Mapping[str, Any]) -> str:
    """Write JSON without spaces."""
    return json.dumps(document, separators=(",", ":"))


def encode_changes(
    order: Layout,
    drawn: heatmap.Heatmap,
    pairs: pd.DataFrame,
    ns_before_and_after: tuple[Floats, Floats],
) -> str:
    """Encode a map of changes as JSON, for the script that also draws `encode_map`.

    The JSON has the arrays of `encode_map`. The number of a pair is its change in per
    cent. A change has neither an interval nor another level, so the arrays of these are
    NaN. Two arrays follow: the pair's ns before and after.

    drawn: the map of the changes; its `faint` cells are those that chance may explain.
    pairs: a row per pair, with its relation. ns_before_and_after: two matrices, whose
    rows and columns are the CPUs of `order`.
    """
    relation_indices, relations = pd.factorize(pairs["relation"])
    # the two sets of flags, by the index that a pair has: 0 for none, 1 if chance may
    # explain the change
    flags = [{}, _CHANCE]
    document = _describe_map(order, drawn, list(relations), flags)
    unknown = np.full_like(drawn.values, np.nan)
    with_index = pairs.assign(index=relation_indices)
    relation = lay_out_matrix(with_index, order.cpus, "index")
    # of each pair; false and true are written as 0 and 1, the indices into `flags`
    is_chance = drawn.faint
    if is_chance is None:
        is_chance = np.zeros(drawn.values.shape, dtype=bool)
    before, after = ns_before_and_after
    arrays: dict[str, npt.ArrayLike] = {
        "change": drawn.values,
        "spread": unknown,
        "other_share": unknown,
        "other_ns": unknown,
        "relation": relation,
        "flags": is_chance,
        "before_ns": before,
        "after_ns": after,
    }
    document["unit"] = "%"
    document["colours"] = ["changeShades", "changeInks"]
    document["pairs"] = _encode_triangles(list(arrays.values()))
    return _write_json(document)


def _describe_map(
    order: Layout,
    drawn: heatmap.Heatmap,
    relations: Sequence[str],
    flags: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """Return what the script needs besides the pairs.

    flags: for each set of flags that a pair has, the meaning of each flag by its name.

    In the result, `places` say in words where each CPU is. `labels` are the groups of
    CPUs to name beside the map, as `Heatmap.group_labels`. `orders` are the ways to
    sort the CPUs: each is a list of indices into `cpus`. `scales` are the colour
    scales, by name, as `_describe_scale` returns them. `marks` are the relations and
    flags whose pairs the reader can have lit.
    """
    flag_names = set(chain.from_iterable(flags))
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
        "marks": [*relations, *sorted(flag_names)],
    }


def _order_by_latency(latencies: Floats) -> list[int]:
    """Order CPUs so that each is followed by the nearest one that has no place yet:
    groups come together. Return indices of rows of `latencies`.
    """
    distances = np.nan_to_num(latencies, nan=np.inf)
    last = 0
    order = [last]
    unplaced = list(range(1, len(distances)))
    while unplaced:
        nearest = int(np.argmin(distances[last, unplaced]))
        last = unplaced.pop(nearest)
        order.append(last)
    return order


def list_zooms(drawn: heatmap.Heatmap) -> list[tuple[str, str]]:
    """List what a map can be zoomed to, first all CPUs, then the groups of each level.
    Each has a name, and the places of its first CPU and of the one after its last, such
    as "0 16".
    """
    count = len(drawn.labels)
    zooms = [(f"all {format_count(count, 'CPU')}", f"0 {count}")]
    # where the host reports no groups, a level of CPUs by number stands in
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
    """Return where the highest number of a map is on its colour scale: 0 is the lower
    limit, 1 the upper. This is the maximum of the page's slider that moves the upper
    end of the scale.

    The result is rounded up to hundredths, the slider's step. It is 1 at least, for all
    numbers may lie below the upper limit.
    """
    low, high = drawn.limits
    is_number = np.isfinite(drawn.values)
    # `initial` makes the upper limit the least value that this can be
    highest = drawn.values[is_number].max(initial=high)
    if heatmap.is_log(drawn.limits):
        length = math.log(high / low)
        place = math.log(highest / low) / length
    else:
        length = high - low
        place = (highest - low) / length
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
    """Say where a CPU is, from the core outwards: "CPU 12: P core, core 6, node 0".

    groups: the number of its group at each level of GROUPS, from the outermost; -1 if
    it is in none. kinds: the kind of each CPU's core; empty if all are of one kind.
    """
    words = []
    if cpu in kinds:
        words.append(f"{kinds[cpu]} core")
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
    flags = filter(None, joined.split(","))  # without flags, `joined` is ""
    return {flag: _MEANINGS.get(flag, "") for flag in flags}


def _encode_pairs(reading: Reading, part: Part, relation: Ints, flags: Ints) -> str:
    """Encode the arrays of a part, in the order in which `encode_map` lists them.

    relation, flags: an index for each row of the part's pairs. In the JSON, `relations`
    and `flags` are the lists that these are indices into.
    """
    ns_column = reading.ns_column
    # a column per array; it replaces the column of this name, if the pairs have one
    columns: dict[str, Any] = {
        ns_column: part.pairs[ns_column],
        "spread": _choose_spread(part.pairs, ns_column),
        "other_share": part.pairs["other_share"].round(_SHARE_DIGITS),
        "other_ns": part.pairs["other_ns"],
        "relation": relation,
        "flags": flags,
    }
    pairs = part.pairs.assign(**columns)
    cpus = reading.order.cpus
    matrices = [lay_out_matrix(pairs, cpus, name) for name in columns]
    return _encode_triangles(matrices)


def _encode_bursts(bursts: pd.DataFrame, cpus: Sequence[int]) -> dict[str, Any]:
    """Encode the bursts of all pairs as an array, `bursts`, with a row per pair, in the
    order of `encode_map`. A row has the pair's bursts in the order of the run; it is
    filled up with 0. `rounds` is the length of a row, the most bursts of a pair.

    A number is the natural logarithm of the burst's ns times _LOG_STEPS, as uint16.
    bursts: a row per burst, at least one. cpus: of the map, in its order.
    """
    by_round = bursts.sort_values("round", kind="stable")
    # for each burst its row of the result: the number of its pair
    ping = _find_places(by_round["ping_cpu"], cpus)
    pong = _find_places(by_round["pong_cpu"], cpus)
    row = _number_pairs(ping, pong, len(cpus))
    # for each burst its column: how many bursts of its pair come before it
    column = by_round.groupby(row).cumcount().to_numpy()
    row_count = len(cpus) * (len(cpus) - 1) // 2
    column_count = column.max() + 1
    scaled_logs = np.zeros((row_count, column_count))
    scaled_logs[row, column] = np.log(by_round["ns"]) * _LOG_STEPS
    largest_uint16 = 2**16 - 1
    whole_numbers = scaled_logs.clip(0, largest_uint16).round()
    packed = _pack(whole_numbers.astype("<u2"))
    return {"rounds": int(column_count), "bursts": packed}


def _find_places(cpus_of_rows: "pd.Series[int]", cpus: Sequence[int]) -> Ints:
    """Return the place of each row's CPU on the map. cpus: of the map, in its order."""
    places: Ints = pd.Index(cpus).get_indexer(pd.Index(cpus_of_rows))
    return places


def _number_pairs(ping: Ints, pong: Ints, count: int) -> Ints:
    """Number pairs of CPUs row by row of the upper triangle: of 4 CPUs, (0, 1) is 0,
    (0, 2) is 1, (0, 3) is 2, (1, 2) is 3. ping, pong: indices of CPUs. count: of CPUs.
    """
    row = np.minimum(ping, pong)
    column = np.maximum(ping, pong)
    # row i has count - 1 - i pairs, so that the rows above have, together:
    pairs_above: Ints = row * (count - 1) - row * (row - 1) // 2
    return pairs_above + column - row - 1


def _encode_triangles(matrices: Sequence[npt.ArrayLike]) -> str:
    """Encode the upper triangles of matrices, in the order of `encode_map`."""
    arrays = [np.asarray(matrix) for matrix in matrices]
    side = len(arrays[0])
    above_diagonal = np.triu_indices(side, 1)
    triangles = [array[above_diagonal] for array in arrays]
    return _pack(np.array(triangles, dtype="<f4"))


def _pack(numbers: npt.NDArray[Any]) -> str:
    """Deflate an array and write it as base64."""
    packed = zlib.compress(numbers.tobytes(), 9)
    return base64.b64encode(packed).decode("ascii")


def _choose_spread(pairs: pd.DataFrame, ns_column: str) -> "pd.Series[float]":
    """Return half of each interval, relative to the median; NaN if the number shown,
    `ns_column`, is not the median, since only that has an interval.
    """
    spread = pairs["spread"].round(_SHARE_DIGITS)
    if ns_column == "median_ns":
        return spread
    return spread * np.nan

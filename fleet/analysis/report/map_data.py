"""Encode the map of a run as data for the script of the page, `templates/map.js`, which
decodes it.
"""

import base64
import json
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

_SHARE_DIGITS = 3  # ±1.2% is what is shown
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
) -> str:
    """Encode the map of a part as JSON. own: as it is drawn. common: limits of the
    scale of all maps of the page.

    The pairs are arrays of little-endian float32, one after the other, deflated and in
    base64: number in ns, half of its interval (relative), share and number of another
    level, places in `relations` and `flags`. An array has each two CPUs once, in the
    order of an upper triangle: 0-1, 0-2, …, 1-2, …; NaN: not measured. `marks`: the
    relations and flags by which pairs can be lit.
    """
    relation_numbers, relations = pd.factorize(part.pairs["relation"])
    flags_numbers, flags = pd.factorize(_list_flags(part.pairs))
    about = _describe_map(
        reading.order, own, list(relations), [_word_flags(joined) for joined in flags]
    )
    if common:
        about["scales"]["common"] = _describe_scale(common)
    about["unit"] = "ns"
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
        "borders": np.flatnonzero(drawn.borders).tolist(),
        "scales": {"own": _describe_scale(drawn.limits)},
        "relations": relations,
        "flags": flags,
        "marks": [*relations, *sorted(set(chain.from_iterable(flags)))],
    }


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


def _encode_triangles(matrices: Sequence[npt.ArrayLike]) -> str:
    """Encode the upper triangles of matrices, in the order of `encode_map`."""
    upper = np.triu_indices(len(np.asarray(matrices[0])), 1)
    triangles = [np.asarray(matrix)[upper] for matrix in matrices]
    packed = zlib.compress(np.array(triangles, dtype="<f4").tobytes(), 9)
    return base64.b64encode(packed).decode("ascii")


def _choose_spread(pairs: pd.DataFrame, number: str) -> "pd.Series[float]":
    """Return half of each interval, which only medians have."""
    spread = pairs["spread"].round(_SHARE_DIGITS)
    return spread if number == "median_ns" else spread * np.nan

"""One error rate for all that a command reports: false-discovery control over its comparisons together.

Relations and pairs are two kinds of findings. Each kind is controlled over all comparisons of a command (all
hosts, all sides) by Benjamini and Hochberg's procedure, and where both are reported, each gets half of the
5 %: so at most one in twenty of all findings is expected to be false, and where nothing changed a
command reports any change at most once in twenty times. One procedure over both kinds would let many
changed pairs admit relations with large p.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.compare.inference import LEVEL, Floats, beyond_p, detectable, false_discovery
from fleet.analysis.compare.verdicts import judge


def judge_relations(
    tables: Sequence[pd.DataFrame], thresholds: Sequence[float], *, share: float = 1.0
) -> list[pd.DataFrame]:
    """The relations of one command's comparisons with `q`, `q_beyond`, `smallest`, `verdict` and `why`.

    tables: as `compare_relations` makes them, one per comparison, each with its threshold. share: the part of
    the error rate that relations get. q: of no change; q_beyond: of a change of the threshold at most.
    """
    if not tables:
        return []
    rows, parts = _stacked(tables)
    matters = np.log1p(np.repeat(thresholds, [len(table) for table in tables]))
    known = rows["p"].notna().to_numpy()
    numbers = {name: rows[name].to_numpy(dtype=float)[known] for name in ("ratio", "error", "freedom", "p")}
    spread, matters = (numbers["error"], numbers["freedom"]), matters[known]
    q = np.minimum(false_discovery(numbers["p"]) / share, 1.0)
    beyond = false_discovery(beyond_p(np.log(numbers["ratio"]), *spread, matters))
    level = LEVEL * share * (int((q < LEVEL).sum()) + 1) / max(len(q), 1)
    smallest = np.expm1(detectable(*spread, min(level, LEVEL * share), matters))
    found = {"q": q, "q_beyond": np.minimum(beyond / share, 1.0), "smallest": smallest}
    rows = rows.assign(**{name: _spread(values, known) for name, values in found.items()})
    return [
        judge(table, threshold, len(q), min(level, LEVEL * share))
        for table, threshold in zip(_parted(rows, parts, tables), thresholds, strict=True)
    ]


def find_pairs(
    tables: Sequence[pd.DataFrame], thresholds: Sequence[float], *, share: float = 1.0
) -> list[pd.DataFrame]:
    """The pairs of one command's comparisons with `q` and `changed`.

    changed: q < 0.05 and the change beyond the threshold. tables, share: as for `judge_relations`.
    """
    if not tables:
        return []
    rows, parts = _stacked(tables)
    matters = np.log1p(np.repeat(thresholds, [len(table) for table in tables]))
    q = np.minimum(false_discovery(rows["p"].to_numpy(dtype=float)) / share, 1.0)
    beyond = np.abs(np.log(rows["ratio"].to_numpy(dtype=float))) > matters
    return _parted(rows.assign(q=q, changed=(q < LEVEL) & beyond), parts, tables)


def _stacked(tables: Sequence[pd.DataFrame]) -> tuple[pd.DataFrame, list[slice]]:
    ends = np.cumsum([len(table) for table in tables])
    parts = [slice(end - len(table), end) for end, table in zip(ends, tables, strict=True)]
    return pd.concat([table for table in tables if len(table)] or [tables[0]], ignore_index=True), parts


def _parted(rows: pd.DataFrame, parts: Sequence[slice], tables: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    return [rows[part].set_axis(table.index, axis=0) for part, table in zip(parts, tables, strict=True)]


def _spread(values: Floats, known: npt.NDArray[np.bool_]) -> Floats:
    """The values in their places, NaN where there is none."""
    whole = np.full(len(known), np.nan)
    whole[known] = values
    return whole

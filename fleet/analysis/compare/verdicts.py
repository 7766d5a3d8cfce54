"""The verdicts of a comparison: changed, equivalent, cannot tell, or none."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.compare.inference import LEVEL, detectable

THRESHOLD = 0.03
THRESHOLD_VIRTUAL = 0.05
_MORE_RUNS = np.geomspace(1, 50, 28)  # times as many runs that are considered


class Verdict(StrEnum):
    """What a comparison concludes about one relation (docs/comparing.md)."""

    CHANGED = "changed"
    EQUIVALENT = "equivalent"
    CANNOT_TELL = "cannot tell"
    NONE = "no verdict"


def usual_threshold(*runs: pd.DataFrame) -> float:
    """The default threshold, as a share: 3 %, or 5 % if a run was made under a hypervisor."""
    return THRESHOLD_VIRTUAL if are_virtual(*runs) else THRESHOLD


def are_virtual(*runs: pd.DataFrame) -> bool:
    """Whether a run was made under a hypervisor."""
    return any(side["hypervisor"].notna().any() for side in runs)


def judge(relations: pd.DataFrame, threshold: float, tests: int, level: float = LEVEL) -> pd.DataFrame:
    """The same rows with `verdict` and `why`.

    relations: `ratio`, `low`, `high`, `p`, `q`, `q_beyond`, `smallest`, `error`, `freedom`, `a_units`,
    `b_units`; NaN beside the ratio where runs were too few. threshold: the smallest change that matters, as a
    share of A, in either direction. tests: how many relations the command tests. level: of p, from which on
    a relation would be reported beside those that are.
    """
    judged = [_judged(row, threshold, tests, level) for row in relations.to_dict("records")]
    return relations.assign(verdict=[str(verdict) for verdict, _ in judged], why=[why for _, why in judged])


def _judged(row: Mapping[Any, Any], threshold: float, tests: int, level: float) -> tuple[Verdict, str]:
    if np.isnan(row["p"]):
        return Verdict.NONE, "too few runs"
    matters, share = float(np.log1p(threshold)), f"{threshold * 100:g}%"
    moved, low, high = (float(np.log(row[name])) for name in ("ratio", "low", "high"))
    if row["q"] < LEVEL and abs(moved) > matters:
        size = f"by more than {share}" if row["q_beyond"] < LEVEL else f"perhaps by less than {share}"
        return Verdict.CHANGED, f"{'slower' if moved > 0 else 'faster'}, {size}"
    if max(abs(low), abs(high)) < matters:
        return Verdict.EQUIVALENT, f"within ±{share}"
    return Verdict.CANNOT_TELL, _unknown(row, matters, tests, level)


def _unknown(row: Mapping[Any, Any], matters: float, tests: int, level: float) -> str:
    """Why these runs cannot tell."""
    if row["q"] < LEVEL:
        return f"a change, but perhaps below {np.expm1(matters) * 100:g}%"
    if row["p"] >= LEVEL and not row["low"] <= 1 <= row["high"]:
        return "may be another level: too few runs to tell"
    if row["p"] < LEVEL and tests > 1:
        return f"may be chance: 1 of {tests} relations"
    return _detectable(row, matters, level)


def _detectable(row: Mapping[Any, Any], matters: float, level: float) -> str:
    """The change that these runs could detect, and how many runs twice the threshold needs.

    The threshold itself is never detected in 8 of 10: half of all estimates of it are below.
    """
    words, wanted = f"detects {row['smallest']:.1%}", 2 * matters
    if np.log1p(row["smallest"]) <= wanted:
        return words
    harmonic = 2 / (1 / row["a_units"] + 1 / row["b_units"])
    counts = np.unique(np.ceil(harmonic * _MORE_RUNS)).astype(int)
    errors = row["error"] * np.sqrt(harmonic / counts)
    freedom = row["freedom"] * (counts - 1) / (harmonic - 1)
    seen = detectable(errors, freedom, level, np.full(len(counts), matters))
    enough = counts[seen <= wanted]
    needed = f"about {enough[0]}" if len(enough) else f"more than {counts[-1]}"
    return f"{words}; {np.expm1(wanted):.0%} needs {needed} runs a side"

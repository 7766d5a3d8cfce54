"""The verdicts of a comparison: changed, equivalent, cannot tell, or none."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.compare.inference import LEVEL

THRESHOLD = 0.03
THRESHOLD_VIRTUAL = 0.05


class Verdict(StrEnum):
    """What a comparison concludes about one relation (docs/comparing.md)."""

    CHANGED = "changed"
    EQUIVALENT = "equivalent"
    CANNOT_TELL = "cannot tell"
    NONE = "no verdict"


def usual_threshold(*runs: pd.DataFrame) -> float:
    """The default threshold, as a share: 3 %, or 5 % if a run was made under a hypervisor."""
    virtual = any(side["hypervisor"].notna().any() for side in runs)
    return THRESHOLD_VIRTUAL if virtual else THRESHOLD


def judge(relations: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """The same rows with `verdict` and `why`.

    relations: `ratio`, `low`, `high`, `p`, `q`, `smallest`, `a_units`, `b_units`; NaN beside the ratio where
    runs were too few.
    threshold: the smallest change that matters, as a share of A, in either direction.
    """
    judged = [_judged(row, threshold, len(relations)) for row in relations.to_dict("records")]
    return relations.assign(verdict=[str(verdict) for verdict, _ in judged], why=[why for _, why in judged])


def _judged(row: Mapping[Any, Any], threshold: float, rows: int) -> tuple[Verdict, str]:
    if np.isnan(row["p"]):
        return Verdict.NONE, "too few runs"
    matters = float(np.log1p(threshold))
    moved, low, high = (float(np.log(row[name])) for name in ("ratio", "low", "high"))
    if row["q"] < LEVEL and abs(moved) > matters:
        return Verdict.CHANGED, "slower" if moved > 0 else "faster"
    if max(abs(low), abs(high)) < matters:
        return Verdict.EQUIVALENT, f"within ±{threshold * 100:g}%"
    if row["q"] < LEVEL:
        return Verdict.CANNOT_TELL, f"a change, but perhaps below {threshold * 100:g}%"
    if row["p"] < LEVEL:
        return Verdict.CANNOT_TELL, f"may be chance: 1 of {rows} relations"
    return Verdict.CANNOT_TELL, _detectable(row, matters)


def _detectable(row: Mapping[Any, Any], matters: float) -> str:
    """The change that these runs could detect, and how many runs the threshold needs."""
    could = float(np.log1p(row["smallest"]))
    if could <= matters:
        return f"detects {row['smallest']:.1%}"
    needed = math.ceil(2 / (1 / row["a_units"] + 1 / row["b_units"]) * (could / matters) ** 2)
    return f"detects {row['smallest']:.1%}; {np.expm1(matters):.0%} needs about {needed} runs a side"

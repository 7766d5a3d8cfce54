"""The verdicts of a comparison: changed, perhaps only at another level, equivalent, cannot tell, or none."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.compare.inference import LEVEL
from fleet.analysis.compare.run_levels import Doubt

THRESHOLD = 0.03


class Verdict(StrEnum):
    """What a comparison concludes about one relation (docs/comparing.md)."""

    CHANGED = "changed"
    CHANGED_OR_LEVEL = "changed, or at another level"
    EQUIVALENT = "equivalent"
    CANNOT_TELL = "cannot tell"
    NONE = "no verdict"


def are_virtual(*runs: pd.DataFrame) -> bool:
    """Whether a run was made under a hypervisor."""
    return any(side["hypervisor"].notna().any() for side in runs)


def judge(relations: pd.DataFrame, threshold: float, tests: int) -> pd.DataFrame:
    """The same rows with `verdict` and `why`.

    relations: `ratio`, `low`, `high`, `p`, `q`, `q_levels`, `doubt`, `q_beyond`, `smallest`, `shared`,
    `error`, `freedom`, `a_units`, `b_units`; NaN beside the ratio where runs were too few. threshold: the
    smallest change that matters, as a share of A, in either direction. tests: how many the command tests.
    """
    judged = [_judged(row, threshold, tests) for row in relations.to_dict("records")]
    return relations.assign(verdict=[str(verdict) for verdict, _ in judged], why=[why for _, why in judged])


def _judged(row: Mapping[Any, Any], threshold: float, tests: int) -> tuple[Verdict, str]:
    if np.isnan(row["p"]):
        return Verdict.NONE, "too few runs"
    matters, share = float(np.log1p(threshold)), f"{threshold * 100:g}%"
    moved, low, high = (float(np.log(row[name])) for name in ("ratio", "low", "high"))
    if row["q_levels"] == 1:
        return Verdict.CANNOT_TELL, "may be another level: runs of one side differ as much"
    if (row["q"] < LEVEL or row["q_levels"] >= LEVEL) and abs(moved) > matters:
        word = "slower or faster" if row["doubt"] >= Doubt.DIRECTION else "slower" if moved > 0 else "faster"
        words = f"{word}{' than all hosts' if row['shared'] != 1 else ''}"
        if row["q_levels"] >= LEVEL:
            return Verdict.CHANGED_OR_LEVEL, words
        size = f"by more than {share}" if row["q_beyond"] < LEVEL else f"perhaps by less than {share}"
        return Verdict.CHANGED, f"{words}, {size}"
    if max(abs(low), abs(high)) < matters and row["shared"] == 1:
        equivalent = (Verdict.EQUIVALENT, f"within ±{share}")
        unknown = (Verdict.CANNOT_TELL, f"within ±{share}, or changed and at other levels")
        return unknown if row["doubt"] >= Doubt.SIZE else equivalent
    return Verdict.CANNOT_TELL, _unknown(row, matters, tests)


def _unknown(row: Mapping[Any, Any], matters: float, tests: int) -> str:
    if row["q"] < LEVEL:
        return f"a change, but perhaps below {np.expm1(matters) * 100:g}%"
    if row["p"] < LEVEL and tests > 1:
        return f"may be chance: 1 of {tests} relations"
    return _detectable(row, matters)


def _detectable(row: Mapping[Any, Any], matters: float) -> str:
    """The change that these runs could detect, and how many runs twice the threshold needs.

    The threshold itself is never detected in 8 of 10: half of all estimates of it are below.
    """
    if not row["smallest"] <= 1:
        return "detects no change below a factor of two"
    words, wanted, seen = f"detects {row['smallest']:.1%}", 2 * matters, float(np.log1p(row["smallest"]))
    if seen <= wanted or np.isnan(row.get("a_units", np.nan)):
        return words
    needed = 2 / (1 / row["a_units"] + 1 / row["b_units"]) * (seen / wanted) ** 2
    return f"{words}; {np.expm1(wanted):.0%} needs about {np.ceil(needed):.0f} runs a side"

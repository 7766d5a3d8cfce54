"""The pairs whose samples a report draws: the worst flagged ones, beyond what chance over all pairs gives."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.arrays import Bools
from fleet.analysis.reduce.bursts import LISTS
from fleet.analysis.reduce.flags import MEANINGS, MINOR_IF_FEW
from fleet.analysis.views.text import records

FLAGS = tuple(flag for flag in MEANINGS if flag not in MINOR_IF_FEW)  # the most serious first
_LEVEL = 0.05  # over all pairs of a benchmark together
_DRIFT_BY_CHANCE = 0.01  # of pairs without a drift have the flag
_FAR_WIDER = 3.0  # than the relation's usual interval


@dataclass(frozen=True, slots=True)
class Suspect:
    """A pair worth a plot of its samples: its row of `pair_medians` and its bursts as loaded."""

    row: dict[str, Any]
    bursts: pd.DataFrame


class Thinned:
    """What comes in parts, each in order: every other item is left out whenever they are too many."""

    def __init__(self, most: int) -> None:
        """most: samples."""
        self.parts: list[Any] = []
        self._most, self._step, self._held = most, 1, 0

    def add(self, part: Any, samples: int) -> None:
        """Take an array or a frame that has so many samples."""
        self.parts.append(_own(part[:: self._step]))
        self._held += samples // self._step
        while self._held > self._most:
            self.parts = [_own(part[::2]) for part in self.parts]
            self._step, self._held = 2 * self._step, self._held // 2


def _own(part: Any) -> Any:
    """A copy that does not keep what it was cut from."""
    if not isinstance(part, pd.DataFrame):
        return part.copy()
    return part.assign(**{name: part[name].map(deepcopy) for name in LISTS if name in part})


def suspects(pairs: pd.DataFrame, most: int) -> list[dict[str, Any]]:
    """The worst flagged pairs, the most serious flag first. pairs: of one run and benchmark."""
    flags = _beyond_chance(pairs)
    rows = [(_gravity(row, own), row) for row, own in zip(records(pairs), flags, strict=True) if own]
    rows.sort(key=lambda found: found[0])
    return [row for _, row in rows[:most]]


def _beyond_chance(pairs: pd.DataFrame) -> list[list[str]]:
    """Of each pair the serious flags that so many pairs would not have by chance, the most serious first."""
    listed = [set(flags.split(",")) for flags in pairs["flags"]]
    kept = {flag: np.array([flag in own for own in listed]) for flag in FLAGS}
    more = special.bdtrc(np.arange(len(pairs) + 1), len(pairs), _DRIFT_BY_CHANCE)  # than so many drifts
    kept["drift"] &= kept["drift"].sum() > int(np.argmax(more <= _LEVEL))
    kept["outliers"] &= _more_outliers(pairs)
    usual = pairs.groupby("relation")["spread"].transform("median")
    kept["not_converged"] &= (pairs["spread"] > _FAR_WIDER * usual).to_numpy()
    return [[flag for flag in FLAGS if kept[flag][at]] for at in range(len(listed))]


def _more_outliers(pairs: pd.DataFrame) -> Bools:
    """Pairs with more outliers than the run's share explains, in a test of all pairs."""
    samples = pairs["samples"].to_numpy()
    far = np.rint(pairs["outliers"].to_numpy() * samples)
    share = far.sum() / max(samples.sum(), 1)
    found: Bools = special.bdtrc(far - 1, samples, share) < _LEVEL / len(pairs)
    return found


def _gravity(row: dict[str, Any], flags: Sequence[str]) -> tuple[int, float]:
    size = {
        "multimodal": row["other_share"],
        "drift": abs(row["drift"] or 0),
        "outliers": row["outliers"],
        "not_converged": row["spread"],
    }
    return FLAGS.index(flags[0]), -(size.get(flags[0], 0) or 0)

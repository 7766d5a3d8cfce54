"""Levels that differ between runs: which runs of a machine are at the same one.

A virtual machine may be at 24 ns in one run and at 50 ns in the next; an average of the two is neither.
"""

import numpy as np
import numpy.typing as npt

from fleet.analysis.reduce.split import MOST_CUTS, Rule, split

BETWEEN_RUNS = Rule(ratio=1.08, share=0.02, fewest=1)  # runs at one level differ by less

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def levels_between(runs: Floats) -> Ints:
    """The level of each value among those of its row, 0 the smallest; runs: positive values.

    `split` cuts rows of many values between every few of them only, so these go to the nearest level.
    """
    labels = split(runs, BETWEEN_RUNS)
    if runs.shape[1] > MOST_CUTS:
        for row in np.flatnonzero(labels.any(axis=1)):
            logs = np.log(runs[row])
            centres = np.array([np.median(logs[labels[row] == level]) for level in np.unique(labels[row])])
            labels[row] = np.searchsorted((centres[1:] + centres[:-1]) / 2, logs)
    return labels


def levels_of(runs: Floats) -> list[Floats]:
    """The values of each level of one machine's runs: that of most runs first; if equal, the faster one."""
    if runs.max() < BETWEEN_RUNS.ratio * runs.min():
        return [runs]
    labels = levels_between(runs[None, :])[0]
    found = [runs[labels == level] for level in np.unique(labels)]
    return sorted(found, key=len, reverse=True)


def geometric_mean(values: Floats) -> float:
    """The geometric mean of positive values."""
    return float(np.exp(np.log(values).mean()))

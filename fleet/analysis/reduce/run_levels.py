"""Find the levels between the runs of a host, the same for every command
(docs/statistics.md).

A machine may be at one of several levels from run to run. Arrays hold logarithms: a row
per number, a column per run, NaN where a run lacks it.
"""

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Floats, Ints, number_groups

LEVEL_GAP = np.log(1.08)  # between the values of two levels, at least,
LEVEL_SCATTERS = 6.0  # or as a multiple of the usual scatter if that is more
_MIDDLE_OF_NORMAL = 0.6745  # standard deviations that hold half of normal values
_NUMBER = ["host_id", "benchmark", "variant", "relation"]


def add_run_levels(numbers: pd.DataFrame, column: str = "median_ns") -> pd.DataFrame:
    """Add `run_level`, each number's level among the runs of its host, from 0 for the
    lowest, and `is_main`, whether that is the level of most runs.

    numbers: rows of `numbers`, of any hosts. The usual scatter is that of the host's
    numbers of the same benchmark and variant. Of levels with equally many runs the
    lowest is the main one.
    """
    row = number_groups(numbers, _NUMBER)
    run = np.asarray(numbers.groupby(row).cumcount(), dtype=np.int64)
    logs = np.full((row.max(initial=-1) + 1, run.max(initial=-1) + 1), np.nan)
    logs[row, run] = np.log(numbers[column].to_numpy(dtype=float))
    first = numbers.drop_duplicates(_NUMBER)
    labels = label_levels_of_hosts(logs, number_groups(first, _NUMBER[:3]))
    level = labels[row, run]
    main = find_main_levels(labels)
    return numbers.assign(run_level=level, is_main=level == main[row])


def label_levels_of_hosts(logs: Floats, groups: Ints) -> Ints:
    """Number levels as `label_levels` does, by the usual scatter of each group of rows.

    groups: each row's group, from 0: its host, benchmark and variant.
    """
    distances = measure_distances_within(logs)
    owners = np.broadcast_to(groups[:, None], logs.shape)
    usual = pd.Series(distances.ravel()).groupby(owners.ravel()).median()
    scatter = usual.fillna(0.0).to_numpy(dtype=float)[groups] / _MIDDLE_OF_NORMAL
    return label_levels(logs, scatter.astype(np.float64))


def label_levels(rows: Floats, scatter: Floats | float) -> Ints:
    """Number the level of each value within its row, from 0 for the lowest; -1 where
    the value is missing.

    A gap of more than 8 % begins another level; where runs scatter, one of more than
    six times the usual scatter. scatter: a standard deviation, of each row or of all.
    """
    order = np.argsort(rows, axis=1)  # NaN last
    gaps = np.diff(np.take_along_axis(rows, order, axis=1), axis=1)
    least_gap = np.maximum(LEVEL_SCATTERS * np.asarray(scatter), LEVEL_GAP)
    begins_level = gaps > least_gap.reshape(-1, 1)
    labels = np.zeros(rows.shape, dtype=np.int64)
    np.put_along_axis(labels, order[:, 1:], np.cumsum(begins_level, axis=1), axis=1)
    return np.where(np.isnan(rows), -1, labels)


def find_main_levels(labels: Ints) -> Ints:
    """Return the level of most runs of each row; of several the lowest."""
    levels = np.arange(labels.max(initial=0) + 1)
    counts = (labels[:, :, None] == levels).sum(axis=1)
    return np.asarray(counts.argmax(axis=1))


def estimate_scatter(rows: Floats) -> float:
    """Estimate the standard deviation of the runs of these rows within their levels; 0
    if no level has two runs.
    """
    distances = measure_distances_within(rows)
    known = distances[~np.isnan(distances)]
    return float(np.median(known)) / _MIDDLE_OF_NORMAL if len(known) else 0.0


def measure_distances_within(rows: Floats) -> Floats:
    """Measure how far each value is from the mean of its level, as if that were known;
    NaN for the only value of a level. Levels are told by gaps of 8 % alone.
    """
    labels = label_levels(rows, 0.0)
    distances = np.full(rows.shape, np.nan)
    for level in range(int(labels.max(initial=-1)) + 1):
        at_level = labels == level
        counts = at_level.sum(axis=1)
        several = counts >= 2
        own, count = rows[several], counts[several, None]
        values = np.where(at_level[several], own, 0.0)
        means = values.sum(axis=1, keepdims=True) / count
        away = np.abs(own - means) * np.sqrt(count / (count - 1))
        distances[several] = np.where(at_level[several], away, distances[several])
    return distances

"""Find the levels between the runs of a host, the same for every command
(docs/measuring.md).

A machine may be at one of several levels from run to run. Arrays hold logarithms: a row
per number, a column per run, NaN where a run lacks it.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import (
    Bools,
    Floats,
    Ints,
    get_floats,
    group_medians,
    number_groups,
)

LEVEL_GAP = np.log(1.08)  # the least gap between the logarithms of two levels, 8 %
LEVEL_SCATTERS = 6.0  # the least gap as a multiple of the usual scatter, if it is more
LEVEL_GROUP = 5  # runs, at least, on either side of a gap that is within the scatter
_MIDDLE_OF_NORMAL = 0.6745  # standard deviations that hold half of normal values
_CHOICE_KEYS = ["host_id", "benchmark", "variant"]
_NUMBER_KEYS = [*_CHOICE_KEYS, "relation"]


def add_run_levels(numbers: pd.DataFrame, column: str = "median_ns") -> pd.DataFrame:
    """Add `run_level`, the level of each row among the runs of its host, from 0 for the
    lowest, and `is_main`, whether most runs are at this level. Of levels with equally
    many runs, the lowest is the main level.

    numbers: rows of `numbers`, of any hosts. column: the one whose levels are found. A
    new level begins at a gap that is wider than the usual scatter, which is that of the
    host's numbers of the same benchmark and variant.
    """
    # a table with a row per number of a host, and a column per run that has this number
    row = number_groups(numbers, _NUMBER_KEYS)
    place_in_row = numbers.groupby(row).cumcount()
    column_of_run = np.asarray(place_in_row, dtype=np.int64)
    log_ns = np.log(get_floats(numbers, column))
    table = _lay_out_rows(log_ns, row, column_of_run)

    # rows of the table are numbered in the order in which numbers first occur, which is
    # the order of drop_duplicates, too
    first_of_row = numbers.drop_duplicates(_NUMBER_KEYS)
    choice_of_row = number_groups(first_of_row, _CHOICE_KEYS)
    labels = label_levels_of_hosts(table, choice_of_row)
    main_level_of_row = find_main_levels(labels)
    level = labels[row, column_of_run]
    is_main = level == main_level_of_row[row]
    return numbers.assign(run_level=level, is_main=is_main)


def _lay_out_rows(values: Floats, rows: Ints, columns: Ints) -> Floats:
    """Lay out values in an array; NaN where there is none. rows, columns: the row and
    the column of each value, from 0.
    """
    row_count = rows.max(initial=-1) + 1
    column_count = columns.max(initial=-1) + 1
    table = np.full((row_count, column_count), np.nan)
    table[rows, columns] = values
    return table


def label_levels_of_hosts(log_ns: Floats, groups: Ints) -> Ints:
    """Number levels as `label_levels` does, by the usual scatter of each group of rows.

    log_ns: a row per number, a column per run. groups: the number of each row's group,
    from 0: the rows of a host, benchmark and variant.
    """
    distances = measure_distances_within(log_ns)
    group_of_value = np.repeat(groups, log_ns.shape[1])
    usual_distance = group_medians(distances.ravel(), group_of_value)
    # half of normal values are within 0.6745 standard deviations of their mean
    scatter_of_group = np.nan_to_num(usual_distance) / _MIDDLE_OF_NORMAL
    return label_levels(log_ns, scatter_of_group[groups])


def label_levels_of_each(
    log_ns: Sequence[Floats], groups: Sequence[Ints]
) -> list[Ints]:
    """Number the levels of several tables, as `label_levels_of_hosts` does for each,
    but with one call for all. log_ns: the tables. groups: for each table, the groups of
    its rows, from 0. Return for each table the levels of its values.
    """
    stacked = _stack_tables(log_ns)  # below each other, as wide as the widest
    labels = label_levels_of_hosts(stacked, _number_end_to_end(groups))
    parts = []
    first = 0
    for own in log_ns:
        height, width = own.shape
        parts.append(labels[first : first + height, :width])
        first += height
    return parts


def _stack_tables(tables: Sequence[Floats]) -> Floats:
    """Stack tables below each other, with NaN to the right of narrow ones."""
    height = sum(len(own) for own in tables)
    width = max((own.shape[1] for own in tables), default=0)
    stacked = np.full((height, width), np.nan)
    first = 0
    for own in tables:
        own_height, own_width = own.shape
        stacked[first : first + own_height, :own_width] = own
        first += own_height
    return stacked


def _number_end_to_end(groups: Sequence[Ints]) -> Ints:
    """Join the group numbers of several tables, counting on from table to table:
    [0, 1] and [0, 0, 1] become [0, 1, 2, 2, 3].
    """
    numbers = [np.zeros(0, dtype=np.int64)]
    first = 0
    for own in groups:
        numbers.append(own + first)
        first += int(own.max(initial=-1)) + 1
    return np.concatenate(numbers)


def label_levels(rows: Floats, scatter: Floats | float) -> Ints:
    """Number the level of each value within its row, from 0 for the lowest; -1 where
    the value is missing.

    rows: logarithms, a row per number, a column per run. scatter: the usual standard
    deviation within a level, of each row or of all. Another level begins at a gap that
    is wider than 8 % and than six times the scatter. A gap wider than 8 % alone is
    enough if it lies between two groups of runs, as `_find_gaps_between_groups` says.
    """
    order = np.argsort(rows, axis=1)  # NaN last
    ascending = np.take_along_axis(rows, order, axis=1)
    begins_level = _find_level_gaps(ascending, scatter)

    # A value's level is the number of gaps below the value at which a level begins.
    # Column i of `begins_level` is the gap between the sorted values i and i + 1, so
    # that its running sum is the level of value i + 1. The lowest value has level 0.
    level_above_lowest = np.cumsum(begins_level, axis=1)
    labels = np.zeros(rows.shape, dtype=np.int64)
    order_above_lowest = order[:, 1:]
    np.put_along_axis(labels, order_above_lowest, level_above_lowest, axis=1)
    return np.where(np.isnan(rows), -1, labels)


def _find_level_gaps(ascending: Floats, scatter: Floats | float) -> Bools:
    """Report for each gap between two neighbours of a sorted row whether another level
    begins there. Column i is the gap between the values i and i + 1; a gap to NaN is no
    level. ascending: logarithms, a row per number. scatter: the usual standard
    deviation within a level, of each row or of all.
    """
    gaps = np.diff(ascending, axis=1)
    gap_beyond_scatter = LEVEL_SCATTERS * np.asarray(scatter)
    least_gap = np.maximum(gap_beyond_scatter, LEVEL_GAP)
    begins_level: Bools = gaps > least_gap.reshape(-1, 1)
    # a gap over 8 % that scatter might explain: the values on both sides decide
    is_unclear = (gaps > LEVEL_GAP) & ~begins_level
    for row in np.flatnonzero(is_unclear.any(axis=1)):
        begins_level[row] |= _find_gaps_between_groups(ascending[row])
    return begins_level


def _find_gaps_between_groups(ascending: Floats) -> Bools:
    """Report for each gap of a sorted row whether the gap lies between two levels.

    Gaps of more than 8 % divide the row into groups of values. Such a gap lies between
    two levels if it is wider than the group on either side, and if both groups have
    LEVEL_GROUP runs or more. A drift widens the scatter, but does not fill such a gap.

    ascending: the logarithms of one row, NaN last. Place i of the result is the gap
    between the values i and i + 1.
    """
    values = ascending[~np.isnan(ascending)]
    gaps = np.diff(values)
    places = np.flatnonzero(gaps > LEVEL_GAP)
    groups = np.split(values, places + 1)
    is_between = np.zeros(len(ascending) - 1, dtype=bool)
    for place, (left, right) in zip(places, pairwise(groups), strict=True):
        is_between[place] = _is_between(gaps[place], left, right)
    return is_between


def _is_between(gap: float, left: Floats, right: Floats) -> bool:
    """Report whether both groups have LEVEL_GROUP values or more, and the gap between
    them is wider than the range of the values of each.
    """
    runs = min(len(left), len(right))
    width = max(np.ptp(left), np.ptp(right))
    return runs >= LEVEL_GROUP and bool(gap > width)


def find_main_levels(labels: Ints) -> Ints:
    """Return for each row the level of most runs; of several such levels, the lowest.
    labels: the level of each value, from `label_levels`; -1 where it is missing.
    """
    levels = np.arange(labels.max(initial=0) + 1)
    is_at_level = labels[:, :, np.newaxis] == levels  # rows x runs x levels
    run_counts = is_at_level.sum(axis=1)  # rows x levels
    # argmax returns the first of equal counts: the lowest level
    return np.asarray(run_counts.argmax(axis=1))


def estimate_scatter(rows: Floats) -> float:
    """Estimate the standard deviation of the runs of these rows within their levels; 0
    if no level has two runs.
    """
    distances = measure_distances_within(rows)
    finite = distances[~np.isnan(distances)]
    if not len(finite):
        return 0.0
    return float(np.median(finite)) / _MIDDLE_OF_NORMAL


def measure_distances_within(rows: Floats) -> Floats:
    """Measure how far each value is from the mean of its level in its row, widened a
    little, since the mean of few values is too near to them. The distance is NaN for a
    value that is missing or is the only value of its level. Another level begins at
    each gap of more than 8 %.

    rows: logarithms, a row per number, a column per run.
    """
    # the scatter is what is to be found: with 0, only the gap of 8 % decides
    labels = label_levels(rows, scatter=0.0)
    distances = np.full(rows.shape, np.nan)
    for level in range(int(labels.max(initial=-1)) + 1):
        is_at_level = labels == level
        # of each row: whether several of its values are at this level
        has_several = is_at_level.sum(axis=1) >= 2
        is_counted = is_at_level[has_several]
        from_mean = _measure_distances_from_mean(rows[has_several], is_counted)
        is_measured = is_at_level & has_several.reshape(-1, 1)
        # both masks select the same values, row by row
        distances[is_measured] = from_mean[is_counted]
    return distances


def _measure_distances_from_mean(rows: Floats, are_counted: Bools) -> Floats:
    """Measure how far each value is from the mean of the counted values of its row.

    The mean of n values lies nearer to these values than the true mean does: the
    variance about it is (n - 1) / n of the true variance. Each distance is therefore
    widened by sqrt(n / (n - 1)). are_counted: which values of each row are counted, two
    or more.
    """
    n = are_counted.sum(axis=1, keepdims=True)
    counted_or_zero = np.where(are_counted, rows, 0.0)
    mean = counted_or_zero.sum(axis=1, keepdims=True) / n
    widening = np.sqrt(n / (n - 1))
    distances: Floats = np.abs(rows - mean) * widening
    return distances

"""Convert Arrow tables to pandas, number the groups of their rows, and name the types
of arrays and the columns of a key.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# the columns that identify what was measured with one variant of a benchmark, then by
# one run; one number of it; and the number of one pair of CPUs
CHOICE_KEY = ["benchmark", "variant"]
RUN_AND_CHOICE = ["run_id", *CHOICE_KEY]
NUMBER_KEY = [*CHOICE_KEY, "relation"]
PAIR_KEY = [*NUMBER_KEY, "ping_cpu", "pong_cpu"]


def to_pandas(table: Any) -> pd.DataFrame:
    """Convert an Arrow table: null numbers to NaN, dictionaries to categories, lists to
    arrays or None.
    """
    rows: pd.DataFrame = table.to_pandas()
    return rows


def get_floats(rows: pd.DataFrame, column: str) -> Floats:
    """Return a column of numbers as an array; NaN where a value is missing."""
    return rows[column].to_numpy(dtype=np.float64)


def get_ints(rows: pd.DataFrame, column: str) -> Ints:
    """Return a column of whole numbers, none of which is missing, as an array."""
    return rows[column].to_numpy(dtype=np.int64)


def decode_categories(rows: pd.DataFrame) -> pd.DataFrame:
    """Replace categorical columns by plain strings, which group and compare fastest;
    None where missing.
    """
    text_columns = {}
    for name, column in rows.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            text_columns[str(name)] = _decode(column)
    return rows.assign(**text_columns)


def _decode(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a categorical column as plain strings."""
    # the code of a missing value, -1, is the place of None
    words = np.array([*column.cat.categories, None], dtype=object)
    texts = words[column.cat.codes]
    return pd.Series(texts, column.index, dtype=object)


def number_groups(rows: pd.DataFrame, keys: Sequence[str]) -> Ints:
    """Number each row's combination of `keys`, from 0 in order of first occurrence;
    nulls are equal.
    """
    groups = rows.groupby(list(keys), sort=False, dropna=False, observed=True)
    return np.asarray(groups.ngroup(), dtype=np.int64)


def find_starts(counts: Ints) -> Ints:
    """Return where each row begins in an array that holds all rows end to end. counts:
    the length of each row.
    """
    starts: Ints = np.cumsum(counts) - counts
    return starts


def reorder_rows(values: Floats, counts: Ints, order: Ints) -> Floats:
    """Return rows in another order, end to end as they are in `values`.

    counts: how many values each row of `values` has. order: the old number of each new
    row: rows (1, 2), (3), with the order 1, 0, become (3), (1, 2).
    """
    if not len(order):
        return values
    have_one_length = (counts == counts[0]).all()
    if have_one_length:  # much faster
        rows: Floats = values.reshape(len(order), -1)
        return rows[order].ravel()
    new_counts = counts[order]
    new_starts = find_starts(new_counts)
    old_starts = find_starts(counts)[order]
    # all values of a row are as far from their old places: in the example, 3 moves from
    # place 2 to place 0, so that its old place is the new place + 2
    shift_of_row = old_starts - new_starts
    new_places = np.arange(new_counts.sum())
    old_places = new_places + np.repeat(shift_of_row, new_counts)
    reordered: Floats = values[old_places]
    return reordered


def group_medians(values: Floats, groups: Ints) -> Floats:
    """Compute the median of each group, ignoring NaN. groups: each value's group, from
    0 without gaps.
    """
    medians = pd.Series(values).groupby(groups).median()
    return np.asarray(medians, dtype=np.float64)

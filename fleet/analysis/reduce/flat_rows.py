"""Take apart rows that stand end to end in one array: the lists of an Arrow column, and
rows of numbers.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.analysis.base.tables import Bools, Ints, find_starts


class Lists:
    """An Arrow column of lists of lists. is_valid: for each row, whether it is not
    null.

    Arrow keeps the values of all rows end to end. Row r holds the inner lists from
    `_outer[r]` to `_outer[r + 1]`, and inner list i the values from `_inner[i]` to
    `_inner[i + 1]`.
    """

    def __init__(self, column: Any) -> None:
        self.is_valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
        self._outer = column.offsets.to_numpy()
        self._inner = column.values.offsets.to_numpy()
        self._values = column.values.values.to_numpy()

    def read_row(self, row: Any, count: int) -> list[npt.NDArray[Any]]:
        """Return the last `count` (at least 1) values of each list of a row."""
        first = self._outer[row]
        end = self._outer[row + 1]
        bounds = self._inner[first : end + 1]
        lists = [self._values[begin:end] for begin, end in pairwise(bounds)]
        return [values[-count:] for values in lists]


def group_rows_by_length(
    values: npt.NDArray[Any], counts: Ints
) -> Iterator[tuple[Ints, npt.NDArray[Any]]]:
    """Yield the rows of each length together, the shortest first: the numbers of these
    rows, and a matrix with a line for each of them.

    values: the values of all rows end to end. counts: how many values each row has.
    The values 5, 6, 7, 8, 9 with the counts 2, 1, 2 yield row 1 with the matrix [[7]],
    and then rows 0 and 2 with the matrix [[5, 6], [8, 9]].
    """
    starts = find_starts(counts)
    for count in np.unique(counts):
        row_numbers = np.flatnonzero(counts == count)
        if len(row_numbers) == len(counts):  # all rows: nothing to copy
            yield row_numbers, values.reshape(len(row_numbers), count)
        else:
            first_places = starts[row_numbers].reshape(-1, 1)
            places = first_places + np.arange(count)  # rows x columns
            yield row_numbers, values[places]

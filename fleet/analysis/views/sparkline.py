"""Draw a course of numbers in a line of text."""

import numpy as np
import numpy.typing as npt

from fleet.analysis.base.tables import Floats

SPARKS = 24
_BLOCKS = "▁▂▃▄▅▆▇█"
_MIN_SPAN = 0.05  # of the smallest value; less would make noise look like change


def draw_sparkline(values: npt.ArrayLike) -> str:
    """Draw the newest values, at most SPARKS, as blocks; their scale spans at least 5 %
    of the smallest.
    """
    newest = np.asarray(values, dtype=float)[-SPARKS:]
    low, high = _choose_scale(newest)
    block_count = len(_BLOCKS)
    if low == high:  # all values are 0
        middle = _BLOCKS[block_count // 2]
        return middle * len(newest)
    shares = (newest - low) / (high - low)
    heights = (shares * block_count).astype(int)
    capped_heights = np.minimum(heights, block_count - 1)
    return "".join(_BLOCKS[height] for height in capped_heights)


def _choose_scale(values: Floats) -> tuple[float, float]:
    """Return the low and high end of a scale for these values. If they span less than
    _MIN_SPAN of the smallest value, the scale spans that much, with the values in its
    middle.
    """
    low = float(values.min())
    high = float(values.max())
    span = high - low
    shortfall = _MIN_SPAN * low - span
    if shortfall <= 0:
        return low, high
    return low - shortfall / 2, high + shortfall / 2

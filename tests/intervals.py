"""The 95 % interval of a pair, computed from whole lists."""

import math
import statistics

from fleet.analysis.reduce.interval import student_t


def half_width(values: list[float]) -> float:
    """Half the interval, relative: t, standard error, autocorrelation raised by 1.3 / sqrt(n)."""
    n, mean = len(values), statistics.mean(values)
    away = [value - mean for value in values]
    squares = sum(a * a for a in away)
    shown = sum(a * b for a, b in zip(away[1:], away[:-1], strict=True)) / squares if squares else -1
    r = min(max(shown + 1.3 / n**0.5, 0), 0.8)
    worth = n * (1 - r) / (1 + r)
    freedom = max(math.floor(worth), min(n, 3)) - 1
    return student_t(freedom) * (squares / (n - 1) / worth) ** 0.5 / mean

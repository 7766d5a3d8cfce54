"""The 95 % interval of a pair, computed from whole lists."""

import itertools
import math
import statistics

from fleet.analysis.reduce import student_t


def half_width(values: list[float]) -> float:
    """Half the interval, relative: t, standard error, Geyer's sum of autocorrelations,
    1.3 / sqrt(n) more.
    """
    n = len(values)
    mean = statistics.mean(values)
    away = [value - mean for value in values]
    squares = sum(a * a for a in away)

    def correlation(lag: int) -> float:
        return (
            sum(a * b for a, b in zip(away[lag:], away[: n - lag], strict=True))
            / squares
        )

    pairs = (
        [correlation(lag) + correlation(lag + 1) for lag in range(0, n - 1, 2)]
        if squares
        else [0.0]
    )
    beside = sum(itertools.takewhile(lambda pair: pair > 0, pairs)) - 1
    estimate = beside / (1 + max(beside, 0))
    r = min(max(estimate + 1.3 / n**0.5, 0), 0.8)
    worth = n * (1 - r) / (1 + r)
    freedom = max(math.floor(worth), min(n, 3)) - 1
    return student_t(freedom) * (squares / (n - 1) / worth) ** 0.5 / mean

"""The 95 % interval of the mean of a few values in order of time, without any library.

The values are the medians of a pair's bursts; docs/statistics.md says what the interval promises.
"""

from array import array
from collections.abc import Iterable
from math import sqrt

LIKENESS_MARGIN = 1.3  # standard errors of a correlation, 1 / sqrt(count) each
MOST_LIKENESS = 0.8
LEAST_EFFECTIVE = 3.0


def student_t(freedom: int) -> float:
    """The 97.5 % point of Student's t, the factor of a 95 % interval.

    A table for few degrees of freedom, then the expansion in 1/freedom (Abramowitz and Stegun 26.7.5),
    right to three decimals there. NaN for none.
    """
    if freedom < 1:
        return float("nan")
    table = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)
    if freedom <= len(table):
        return table[freedom - 1]
    x = 1.959964
    first = (x**3 + x) / 4
    second = (5 * x**5 + 16 * x**3 + 3 * x) / 96
    third = (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384
    return x + first / freedom + second / freedom**2 + third / freedom**3


def effective_count(count: int, autocorrelation: float) -> float:
    """How many independent values have a mean as variable as that of `count` in a row.

    count (1 - r) / (1 + r) where neighbours correlate by r (first-order autoregression). A short row shows
    too little of r, and who stops at the first narrow interval stops where it shows least: so r is raised by
    a margin. Negative r is not made use of.
    """
    r = min(max(autocorrelation + LIKENESS_MARGIN / sqrt(count), 0.0), MOST_LIKENESS)
    return count * (1 - r) / (1 + r)


def t_factor(count: int, effective: float) -> float:
    """Student's t for a mean of `count` values that are worth `effective` independent ones."""
    return student_t(int(max(effective, min(float(count), LEAST_EFFECTIVE))) - 1)


def half_width(values: Iterable[float]) -> float | None:
    """Half the 95 % interval of the mean, relative to it; None of fewer than two. Values in order of time."""
    spreads = Spreads()
    for value in values:
        spreads.add("", value)
    return spreads.widest()


class Spreads:
    """Follows the intervals of many series, a value at a time, in 48 bytes and a key each (Welford).

    The agent does the same for each level of a pair (agent/precision.c) to know when it has been measured
    often enough.
    """

    def __init__(self) -> None:
        self._place: dict[object, int] = {}
        self._count = array("q")
        self._mean = array("d")
        self._squares = array("d")
        self._first = array("d")
        self._last = array("d")
        self._lagged = array("d")

    def add(self, key: object, value: float) -> None:
        """Take the next value of the series `key`."""
        at = self._place.setdefault(key, len(self._count))
        if at == len(self._count):
            self._count.append(0)
            self._first.append(value)
            self._last.append(value)
            for sums in (self._mean, self._squares, self._lagged):
                sums.append(0.0)
        self._lagged[at] += (value - self._first[at]) * (self._last[at] - self._first[at])
        self._last[at] = value
        self._count[at] += 1
        off = value - self._mean[at]
        self._mean[at] += off / self._count[at]
        self._squares[at] += off * (value - self._mean[at])

    def widest(self) -> float | None:
        """Half the widest interval, relative to its mean; None unless every series has one."""
        found = [self._half(at) for at in range(len(self._count))]
        known = [half for half in found if half is not None]
        return max(known) if known and len(known) == len(found) else None

    def _half(self, at: int) -> float | None:
        count, mean = self._count[at], self._mean[at]
        if count < 2 or mean <= 0:
            return None
        effective = effective_count(count, self._autocorrelation(at))
        variance = self._squares[at] / (count - 1) / effective
        return t_factor(count, effective) * float(variance**0.5) / mean

    def _autocorrelation(self, at: int) -> float:
        """Of neighbours; the sum over (value - mean) of both, from sums around the first value."""
        if self._squares[at] <= 0:
            return -1.0
        count, mean = self._count[at], self._mean[at] - self._first[at]
        last = self._last[at] - self._first[at]
        lagged = self._lagged[at] - mean * (2 * mean * count - last) + (count - 1) * mean * mean
        return lagged / self._squares[at]

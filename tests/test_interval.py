import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fleet.analysis.reduce.levels import halves
from fleet.interval import Spreads, effective_count, half_width, student_t


@pytest.mark.parametrize(("freedom", "expected"), [(1, 12.706), (9, 2.262), (10, 2.228), (30, 2.042)])
def test_students_t_is_that_of_the_tables(freedom: int, expected: float) -> None:
    assert student_t(freedom) == pytest.approx(expected, abs=0.001)


def by_the_book(values: list[float]) -> float:
    """Half the interval from whole lists: t, standard error, autocorrelation raised by 1.3 / sqrt(n)."""
    n, mean = len(values), statistics.mean(values)
    away = [value - mean for value in values]
    squares = sum(a * a for a in away)
    shown = sum(a * b for a, b in zip(away[1:], away[:-1], strict=True)) / squares if squares else -1
    r = min(max(shown + 1.3 / n**0.5, 0), 0.8)
    worth = n * (1 - r) / (1 + r)
    freedom = max(math.floor(worth), min(n, 3)) - 1
    return student_t(freedom) * (squares / (n - 1) / worth) ** 0.5 / mean


def test_the_widest_of_many_series_is_that_of_whole_lists() -> None:
    series = {"a": [10.0, 11.0, 12.0], "b": [5.0, 5.0, 9.0, 5.0], "c": [7.0, 7.0]}
    spreads = Spreads()
    for place in range(4):
        for key, values in series.items():
            for value in values[place : place + 1]:
                spreads.add(key, value)
    assert spreads.widest() == pytest.approx(max(map(by_the_book, series.values())))


@given(st.lists(st.floats(1, 1000), min_size=2, max_size=40))
def test_running_sums_and_rows_give_the_interval_of_whole_lists(values: list[float]) -> None:
    expected = pytest.approx(by_the_book(values), rel=1e-5, abs=1e-7)
    assert half_width(values) == expected
    assert float(halves(np.array([values]))[0]) / statistics.mean(values) == expected


def test_neighbours_that_resemble_each_other_widen_the_interval() -> None:
    mixed, sorted_ = [3.0, 1.0, 4.0, 2.0, 6.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    wide, narrow = half_width(sorted_), half_width(mixed)
    assert wide is not None
    assert narrow is not None
    assert wide > 1.5 * narrow


def test_one_value_has_no_interval_and_so_the_run_has_none() -> None:
    spreads = Spreads()
    assert spreads.widest() is None
    for key, value in (("a", 1.0), ("a", 2.0), ("b", 3.0)):
        spreads.add(key, value)
    assert spreads.widest() is None


@pytest.mark.parametrize("freedom", [*range(1, 40), 100, 1000])
def test_students_t_is_right_to_three_decimals_for_any_freedom(freedom: int) -> None:
    assert student_t(freedom) == pytest.approx(
        stats.t.ppf(0.975, freedom), abs=5e-4 if freedom < 10 else 1.7e-4
    )


def test_no_freedom_and_no_values_have_no_interval() -> None:
    assert math.isnan(student_t(0))
    assert math.isnan(student_t(-1))
    assert half_width([]) is None
    assert half_width([5.0]) is None
    assert half_width([0.0, 0.0]) is None, "relative to a mean of zero"
    assert half_width([5.0, 5.0]) == 0


@pytest.mark.parametrize(
    ("count", "r", "expected"),
    [
        (9, -1.0, 9),
        (9, -0.4334, 9),
        (4, -0.05, 4 * 0.4 / 1.6),
        (100, 0.0, 100 * 0.87 / 1.13),
        (100, 0.47, 100 * 0.4 / 1.6),
        (100, 0.8, 100 * 0.2 / 1.8),
        (10, 0.9, 10 * 0.2 / 1.8),
    ],
)
def test_the_more_neighbours_resemble_each_other_the_fewer_values_they_are_worth(
    count: int, r: float, expected: float
) -> None:
    """n (1 - r) / (1 + r), where r is raised by 1.3 / sqrt(n) and held between 0 and 0.8."""
    assert effective_count(count, r) == pytest.approx(expected)

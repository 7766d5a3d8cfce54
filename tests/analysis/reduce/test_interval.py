import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fleet.analysis.reduce import (
    compute_half_widths_of_runs,
    count_effective,
    estimate_half_widths,
    student_t,
)
from tests.intervals import half_width


@given(st.lists(st.floats(1, 1000), min_size=2, max_size=40))
def test_rows_give_the_interval_of_whole_lists(values: list[float]) -> None:
    expected = pytest.approx(half_width(values), rel=1e-5, abs=1e-7)
    assert (
        float(estimate_half_widths(np.array([values]))[0]) / statistics.mean(values)
        == expected
    )


@pytest.mark.parametrize("freedom", [*range(1, 40), 100, 1000])
def test_students_t_is_right_to_three_decimals_for_any_freedom(freedom: int) -> None:
    limit = 5e-4 if freedom < 10 else 1.7e-4
    assert student_t(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=limit)


def test_no_degree_of_freedom_has_no_interval() -> None:
    assert math.isnan(student_t(0))
    assert math.isnan(student_t(-1))


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
    """n (1 - r) / (1 + r), where r is raised by 1.3 / sqrt(n) and held between 0 and
    0.8.
    """
    assert count_effective(count, r) == pytest.approx(expected)


def test_between_runs_is_students_t_over_the_logarithms_of_three_runs_or_more() -> None:
    four_runs = np.log([50.0, 54.0, 51.0, 57.0])
    two_runs = four_runs[:2]
    scatter = np.array([four_runs.std(ddof=1), two_runs.std(ddof=1)])
    _, of_the_mean = compute_half_widths_of_runs(np.array([4, 2]), scatter)
    mean = four_runs.mean()
    _, high = stats.t.interval(0.95, 3, mean, stats.sem(four_runs))
    assert of_the_mean[0] == pytest.approx(math.expm1(high - mean), rel=1e-3)
    assert math.isnan(of_the_mean[1])

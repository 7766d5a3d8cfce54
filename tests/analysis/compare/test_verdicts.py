"""What a comparison claims of one relation, from its numbers alone: each verdict and the words beside it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.analysis.compare.inference import LEVEL, detectable
from fleet.analysis.compare.verdicts import judge

NOTHING_FOUND = {
    "ratio": 1.001,
    "low": 0.95,
    "high": 1.054,
    "p": 0.9,
    "q": 0.9,
    "q_beyond": 0.9,
    "q_levels": 0.0,
    "doubt": 0.0,
    "shared": 1.0,
    "smallest": 0.02,
    "error": 0.01,
    "freedom": 8.0,
    "a_units": 5,
    "b_units": 5,
}


def verdict(threshold: float = 0.03, rows: int = 1, **changes: float) -> tuple[str, str]:
    """The verdict and its reason for the first of so many equal rows."""
    table = judge(pd.DataFrame([NOTHING_FOUND | changes] * rows), threshold, rows)
    return table["verdict"][0], table["why"][0]


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.04, ("changed", "slower, perhaps by less than 3%")),
        (0.96, ("changed", "faster, perhaps by less than 3%")),
        (1.031, ("changed", "slower, perhaps by less than 3%")),
        (1 / 1.031, ("changed", "faster, perhaps by less than 3%")),
        (1.029, ("cannot tell", "a change, but perhaps below 3%")),
        (1 / 1.029, ("cannot tell", "a change, but perhaps below 3%")),
    ],
)
def test_a_significant_change_counts_only_beyond_the_threshold(
    ratio: float, expected: tuple[str, str]
) -> None:
    assert verdict(ratio=ratio, low=ratio * 0.97, high=ratio * 1.04, p=0.001, q=0.002) == expected


@pytest.mark.parametrize(
    ("q_beyond", "words"), [(0.049, "by more than 3%"), (0.05, "perhaps by less than 3%")]
)
def test_a_change_is_called_larger_than_the_threshold_only_where_that_is_proved(
    q_beyond: float, words: str
) -> None:
    found = verdict(ratio=1.06, low=1.04, high=1.08, p=0.001, q=0.002, q_beyond=q_beyond)
    assert found == ("changed", f"slower, {words}")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.98, 1.02, "equivalent"),
        (1 / 1.029, 1.029, "equivalent"),
        (0.98, 1.031, "cannot tell"),
        (1 / 1.031, 1.02, "cannot tell"),
    ],
)
def test_equivalent_means_that_the_whole_interval_lies_within_the_threshold(
    low: float, high: float, expected: str
) -> None:
    assert verdict(low=low, high=high)[0] == expected


def test_an_interval_within_the_threshold_is_equivalent_though_the_small_change_is_significant() -> None:
    found = verdict(threshold=0.05, ratio=1.01, low=1.005, high=1.015, p=0.001, q=0.001)
    assert found == ("equivalent", "within ±5%")


@pytest.mark.parametrize(
    ("p", "q", "why"),
    [
        (0.01, 0.2, "may be chance: 1 of 12 relations"),
        (0.049, 0.05, "may be chance: 1 of 12 relations"),
        (0.05, 0.05, "detects 2.0%"),
        (0.2, 0.4, "detects 2.0%"),
    ],
)
def test_a_small_p_among_many_relations_may_be_chance(p: float, q: float, why: str) -> None:
    low = 1.001 if p < 0.05 else 0.999
    assert verdict(rows=12, ratio=1.05, low=low, high=1.1, p=p, q=q) == ("cannot tell", why)


@pytest.mark.parametrize(
    ("q_levels", "expected"),
    [
        (0.049, ("changed", "slower, by more than 3%")),
        (0.05, ("changed, or at another level", "slower")),
        (1.0, ("cannot tell", "may be another level: runs of one side differ as much")),
    ],
)
def test_what_may_be_another_level_is_no_change_alone(q_levels: float, expected: tuple[str, str]) -> None:
    q = max(q_levels, 0.001)
    found = verdict(ratio=1.4, low=1.35, high=1.45, p=0.001, q=q, q_beyond=0.001, q_levels=q_levels)
    assert found == expected


def test_runs_that_detect_twice_the_threshold_need_no_more() -> None:
    assert verdict(smallest=0.059, low=0.9, high=1.1) == ("cannot tell", "detects 5.9%")
    for smallest in (1.5, float("inf"), float("nan")):
        found = verdict(smallest=smallest, low=0.3, high=3)
        assert found == ("cannot tell", "detects no change below a factor of two")


@given(error=st.floats(0.02, 0.1), runs=st.integers(3, 12), threshold=st.sampled_from([0.03, 0.05]))
def test_with_so_many_runs_a_side_twice_the_threshold_is_detected(
    error: float, runs: int, threshold: float
) -> None:
    matters = np.log1p([threshold])

    def seen(count: float) -> float:
        scaled = np.array([error * (runs / count) ** 0.5])
        return float(detectable(scaled, np.array([40.0]), LEVEL, matters)[0])

    numbers = {"error": error, "a_units": runs, "b_units": runs, "low": 0.5, "high": 2.0}
    _, why = verdict(threshold, smallest=np.expm1(seen(runs)), **numbers)
    if "needs about" not in why:
        assert seen(runs) <= 2 * matters[0]
        return
    needed = int(why.split("needs about ")[1].split()[0])
    assert seen(1.1 * needed) <= 2 * matters[0]
    assert seen((needed - 1) / 1.1) > 2 * matters[0]


def test_without_a_p_there_is_no_verdict() -> None:
    missing = dict.fromkeys(("low", "high", "p", "q", "q_beyond", "smallest"), float("nan"))
    assert verdict(ratio=3.0, **missing) == ("no verdict", "too few runs")


def test_rows_stay_as_they_are_and_in_their_order() -> None:
    rows = pd.DataFrame([NOTHING_FOUND, NOTHING_FOUND | {"p": float("nan")}], index=[7, 3])
    found = judge(rows, 0.03, 1)
    pd.testing.assert_frame_equal(found[rows.columns], rows)
    assert list(found["verdict"]) == ["cannot tell", "no verdict"]
    assert judge(rows[:0], 0.03, 0).columns[-2:].tolist() == ["verdict", "why"]

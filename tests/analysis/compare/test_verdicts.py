"""What a comparison claims of one relation, from its numbers alone: each verdict and the words beside it."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.analysis.compare.inference import change
from fleet.analysis.compare.verdicts import THRESHOLD, THRESHOLD_VIRTUAL, judge, usual_threshold

NOTHING_FOUND = {
    "ratio": 1.001,
    "low": 0.95,
    "high": 1.054,
    "p": 0.9,
    "q": 0.9,
    "smallest": 0.02,
    "a_units": 5,
    "b_units": 5,
}


def verdict(threshold: float = 0.03, rows: int = 1, **changes: float) -> tuple[str, str]:
    """The verdict and its reason for the first of so many equal rows."""
    table = judge(pd.DataFrame([NOTHING_FOUND | changes] * rows), threshold)
    return table["verdict"][0], table["why"][0]


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.04, ("changed", "slower")),
        (0.96, ("changed", "faster")),
        (1.031, ("changed", "slower")),
        (1 / 1.031, ("changed", "faster")),
        (1.029, ("cannot tell", "a change, but perhaps below 3%")),
        (1 / 1.029, ("cannot tell", "a change, but perhaps below 3%")),
    ],
)
def test_a_significant_change_counts_only_beyond_the_threshold(
    ratio: float, expected: tuple[str, str]
) -> None:
    assert verdict(ratio=ratio, low=ratio * 0.97, high=ratio * 1.04, p=0.001, q=0.002) == expected


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
    assert verdict(rows=12, ratio=1.05, low=1.001, high=1.1, p=p, q=q) == ("cannot tell", why)


@pytest.mark.parametrize(
    ("smallest", "a_units", "b_units", "threshold", "why"),
    [
        (0.029, 5, 5, 0.03, "detects 2.9%"),
        (
            0.0608,
            5,
            5,
            0.03,
            "detects 6.1%; 3% needs about 20 runs a side",
        ),  # nearly twice 3 %, so 4 times as many
        (0.0611, 5, 5, 0.03, "detects 6.1%; 3% needs about 21 runs a side"),
        (0.06, 3, 6, 0.03, "detects 6.0%; 3% needs about 16 runs a side"),
        (0.06, 6, 3, 0.03, "detects 6.0%; 3% needs about 16 runs a side"),
        (0.06, 4, 4, 0.03, "detects 6.0%; 3% needs about 16 runs a side"),  # 3 and 6 are worth 4 and 4
        (0.2, 4, 4, 0.05, "detects 20.0%; 5% needs about 56 runs a side"),
    ],
)
def test_who_cannot_tell_learns_how_many_runs_it_takes(
    smallest: float, a_units: int, b_units: int, threshold: float, why: str
) -> None:
    found = verdict(
        threshold, smallest=smallest, a_units=a_units, b_units=b_units, low=0.9, high=1.1, ratio=1.001
    )
    assert found == ("cannot tell", why)


@given(
    scatter=st.floats(0.02, 0.2),
    runs=st.integers(3, 12),
    seed=st.integers(0, 1000),
)
def test_with_so_many_runs_a_side_the_threshold_would_have_been_seen(
    scatter: float, runs: int, seed: int
) -> None:
    """The promise held against the formula it comes from: the error shrinks with the root of the runs."""
    logs = np.random.default_rng(seed).normal(4, scatter, (2, runs))
    seen = change(np.exp(logs[0]), np.exp(logs[1])).smallest
    _, why = verdict(smallest=seen, a_units=runs, b_units=runs, low=0.5, high=2)
    if "needs about" not in why:
        assert seen <= THRESHOLD
        return
    needed = int(why.split("needs about ")[1].split()[0])
    shrunk = math.log1p(seen) * np.sqrt(runs / np.array([needed, needed - 1]))
    assert shrunk[0] <= math.log1p(THRESHOLD) * (1 + 1e-9)
    assert shrunk[1] > math.log1p(THRESHOLD) * (1 - 1e-9)


def test_without_a_p_there_is_no_verdict() -> None:
    missing = dict.fromkeys(("low", "high", "p", "q", "smallest"), float("nan"))
    assert verdict(ratio=3.0, **missing) == ("no verdict", "too few runs")


def test_rows_stay_as_they_are_and_in_their_order() -> None:
    rows = pd.DataFrame([NOTHING_FOUND, NOTHING_FOUND | {"p": float("nan")}], index=[7, 3])
    found = judge(rows, 0.03)
    pd.testing.assert_frame_equal(found[rows.columns], rows)
    assert list(found["verdict"]) == ["cannot tell", "no verdict"]
    assert judge(rows[:0], 0.03).columns[-2:].tolist() == ["verdict", "why"]


def test_one_run_under_a_hypervisor_raises_the_usual_threshold() -> None:
    metal, virtual = (pd.DataFrame({"hypervisor": each}) for each in ([None, None], [None, "kvm"]))
    assert (THRESHOLD, THRESHOLD_VIRTUAL) == (0.03, 0.05)
    assert usual_threshold(metal, metal) == THRESHOLD
    assert usual_threshold(metal, virtual) == THRESHOLD_VIRTUAL
    assert usual_threshold(virtual) == THRESHOLD_VIRTUAL

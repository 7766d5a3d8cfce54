"""Runs at different levels: matched, so that a comparison is that within each level."""

import numpy as np
import pandas as pd
import pytest

from fleet.analysis.compare.changes import compare_relations
from fleet.analysis.compare.matched_levels import about_levels, match_levels, one_sided_joined


def side(name: str, values: np.ndarray) -> pd.DataFrame:  # type: ignore[type-arg]
    rows = {"benchmark": "cas", "variant": "cmpxchg", "relation": "smt", "ping_cpu": 0, "pong_cpu": 1}
    units = [f"{name}{run}" for run in range(len(values))]
    return pd.DataFrame({**rows, "unit": units, "median_ns": values, "spread": 0.01})


def runs(count: int, seed: int, change: float = 1.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """So many runs a side, each at one of three levels, with 1.5 % of noise; B slower by `change`."""
    chance = np.random.default_rng(seed)
    levels = chance.choice([24.0, 54.0, 128.0], 2 * count, p=[0.3, 0.5, 0.2])
    values = levels * np.exp(0.015 * chance.normal(size=2 * count))
    return side("a", values[:count]), side("b", change * values[count:])


def test_a_change_of_five_per_cent_is_found_among_levels_five_times_apart() -> None:
    a, b = runs(15, seed=3, change=1.05)
    (plain,) = compare_relations(a, b, 0.03).to_dict("records")
    matched = match_levels(a, b, "median_ns")
    (row,) = compare_relations(matched.a, matched.b, 0.03).to_dict("records")
    assert plain["high"] - plain["low"] > 0.5
    assert row["low"] < 1.05 < row["high"]
    assert row["high"] - row["low"] < 0.06
    assert row["verdict"] == "changed"
    assert "the change is that within each level: cas 0-1 (24." in about_levels(matched.levels)[0]


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 6])
def test_levels_alone_are_no_change(count: int) -> None:
    alarms = 0
    for seed in range(60):
        matched = match_levels(*runs(count, seed), "median_ns")
        alarms += bool(compare_relations(matched.a, matched.b, 0.03)["p"][0] < 0.05)
    assert alarms <= 8  # of a true 5 %, more once in two hundred times


def test_too_few_runs_at_levels_of_both_sides_give_no_verdict() -> None:
    noise = np.exp(0.005 * np.random.default_rng(1).normal(size=10))
    a, b = np.array([24.0, 24, 24, 54, 54]) * noise[:5], np.array([54.0, 54, 54, 128, 128]) * noise[5:]
    matched = match_levels(side("a", a), side("b", b), "median_ns")
    (row,) = compare_relations(matched.a, matched.b, 0.03).to_dict("records")
    assert (row["a_units"], row["b_units"], row["verdict"]) == (2, 3, "no verdict")


@pytest.mark.parametrize("change", [1.1, 1.5])
def test_a_change_is_not_taken_for_a_level(change: float) -> None:
    values = 50 * np.exp(0.005 * np.random.default_rng(1).normal(size=10))
    a, b = side("a", values[:5]), side("b", change * values[5:])
    matched = match_levels(a, b, "median_ns")
    pd.testing.assert_frame_equal(matched.a, a)
    assert matched.levels.empty


def test_levels_that_the_sides_have_in_different_shares_count_as_a_change() -> None:
    noise = np.exp(0.005 * np.random.default_rng(2).normal(size=20))
    a, b = (
        side("a", np.array([24.0] * 9 + [50.0]) * noise[:10]),
        side("b", np.array([24.0] + [50.0] * 9) * noise[10:]),
    )
    matched = match_levels(a, b, "median_ns")
    assert matched.levels["p"].max() < 0.01
    assert compare_relations(matched.a, matched.b, 0.03)["verdict"][0] == "changed"
    assert "in different shares" in about_levels(matched.levels)[0]


def test_neighbouring_levels_of_one_side_each_are_one_where_no_level_has_both() -> None:
    of_b = np.array([False, False, True, True, False, True])
    assert one_sided_joined(np.array([0, 0, 1, 1, 2, 3]), of_b).tolist() == [0, 0, 0, 0, 1, 1]
    assert one_sided_joined(np.array([0, 0, 1, 1, 2, 2]), of_b).tolist() == [0, 0, 1, 1, 2, 2]

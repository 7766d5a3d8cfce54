"""Runs at different levels: matched, so that a comparison is that within each level."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fleet.analysis.compare.changes import compare_relations
from fleet.analysis.compare.level_shares import p_of_levels
from fleet.analysis.compare.matched_levels import about_levels, match_levels, one_sided_joined
from fleet.analysis.reduce.between_runs import levels_between


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
    (row,) = compare_relations(matched.a, matched.b, 0.03, freedom=matched.freedom).to_dict("records")
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
        rows = compare_relations(matched.a, matched.b, 0.03, freedom=matched.freedom, switches=True)
        alarms += bool(rows["p"][0] < 0.05)
    assert alarms <= 8  # of a true 5 %, more once in two hundred times


def test_too_few_runs_at_levels_of_both_sides_give_no_verdict() -> None:
    noise = np.exp(0.005 * np.random.default_rng(1).normal(size=10))
    a, b = np.array([24.0, 24, 24, 54, 54]) * noise[:5], np.array([54.0, 54, 54, 128, 128]) * noise[5:]
    matched = match_levels(side("a", a), side("b", b), "median_ns")
    (row,) = compare_relations(matched.a, matched.b, 0.03).to_dict("records")
    assert (row["a_units"], row["b_units"], row["verdict"]) == (2, 3, "no verdict")


def test_a_single_run_at_another_level_is_left_out_of_the_change() -> None:
    noise = np.exp(0.005 * np.random.default_rng(3).normal(size=10))
    a, b = np.array([50.0, 50, 35, 50, 50]) * noise[:5], 52.5 * noise[5:]
    matched = match_levels(side("a", a), side("b", b), "median_ns")
    (row,) = compare_relations(matched.a, matched.b, 0.03, freedom=matched.freedom).to_dict("records")
    assert (row["a_units"], row["b_units"], row["verdict"]) == (4, 5, "changed")
    assert row["low"] < 1.05 < row["high"]
    assert matched.levels[["a_units", "b_units"]].to_numpy().tolist() == [[1, 0], [4, 5]]


def test_six_runs_that_scatter_are_no_levels() -> None:
    """Single runs prove levels only if apart by far more than all others scatter."""
    chance = np.random.default_rng(4)
    runs = 50 * np.exp(0.05 * chance.normal(size=(400, 6)))
    assert levels_between(runs).any(axis=1).mean() < 0.1


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


def test_the_interval_within_levels_is_that_of_least_squares() -> None:
    """The sides have the levels in unlike shares, so the change is known less well than its scatter shows."""
    at, of_b = np.array([0, 0, 0, 0, 1, 0, 1, 1, 1, 1]), np.repeat([0.0, 1.0], 5)
    logs = np.log(np.where(at, 50.0, 24.0)) + 0.01 * np.random.default_rng(4).normal(size=10) + 0.02 * of_b
    matched = match_levels(side("a", np.exp(logs[:5])), side("b", np.exp(logs[5:])), "median_ns")
    (row,) = compare_relations(matched.a, matched.b, 0.03, freedom=matched.freedom).to_dict("records")
    design = np.column_stack([1 - at, at, of_b])
    effects, squares, *_ = np.linalg.lstsq(design, logs, rcond=None)
    error = np.sqrt(squares[0] / 7 * np.linalg.inv(design.T @ design)[2, 2])
    assert matched.freedom.tolist() == [7]
    assert np.log(row["ratio"]) == pytest.approx(effects[2])
    assert row["error"] == pytest.approx(error)
    assert row["freedom"] <= 7


@pytest.mark.parametrize(("count", "p"), [(3, 2 / 20), (5, 2 / 252)])
def test_sides_at_a_level_each_are_no_stronger_evidence_than_their_number(count: int, p: float) -> None:
    noise = np.exp(0.005 * np.random.default_rng(1).normal(size=2 * count))
    a, b = side("a", 24 * noise[:count]), side("b", 50 * noise[count:])
    (steady,) = compare_relations(a, b, 0.03).to_dict("records")
    (switching,) = compare_relations(a, b, 0.03, switches=True).to_dict("records")
    assert steady["p"] < 0.001
    assert switching["p"] == pytest.approx(p)
    assert switching["verdict"] == ("changed" if p < 0.05 else "cannot tell")


def test_levels_in_different_shares_have_fishers_p() -> None:
    noise = 0.005 * np.random.default_rng(2).normal(size=(2, 10))
    a, b = np.log([24.0] * 9 + [50.0]) + noise[0], np.log([24.0] + [50.0] * 9) + noise[1]
    of_fisher, together, close = p_of_levels(
        np.array([a, a, noise[0]]), np.array([b, np.roll(a, 1), 0.02 + noise[1]])
    )
    assert of_fisher == pytest.approx(stats.fisher_exact([[9, 1], [1, 9]])[1])
    assert together == 1
    assert close == 0


def test_every_one_of_many_runs_is_at_its_own_level() -> None:
    """Longer rows are split between every few values only; a run at the wrong level moves the change."""
    chance = np.random.default_rng(1)
    at, noise = chance.random(3000) < 0.4, 0.015 * chance.normal(size=3000)
    runs = np.where(at, 24.0, 54.0) * np.exp(noise)
    np.testing.assert_array_equal(levels_between(runs[None, :])[0], ~at)

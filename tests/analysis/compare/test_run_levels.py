"""Runs at different levels: matched, so that a comparison is that within each level."""

from dataclasses import replace
from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fleet.analysis.compare.changes import relation_changes
from fleet.analysis.compare.error_rate import compare_relations, judge_relations
from fleet.analysis.compare.evidence import together
from fleet.analysis.compare.inference import p_of_levels
from fleet.analysis.compare.run_levels import Doubt, Matched, about_levels, match_levels, match_values
from fleet.analysis.reduce.split import run_levels


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


def judged(*hosts: Matched, switches: bool = False) -> pd.DataFrame:
    """The relations of one command."""
    every = [relation_changes(matched, "median_ns") for matched in hosts]
    found = [replace(each, switches=switches) for each in every]
    return judge_relations([together(found).table()], 0.03)[0]


def test_a_change_of_five_per_cent_is_found_among_levels_five_times_apart() -> None:
    a, b = runs(15, seed=3, change=1.05)
    (plain,) = compare_relations(a, b, 0.03).to_dict("records")
    matched = match_levels(a, b, "median_ns")
    (row,) = judged(matched).to_dict("records")
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
        rows = judged(matched, switches=True)
        alarms += bool(rows["q"][0] < 0.05)
    assert alarms <= 8  # of a true 5 %, more once in two hundred times


def test_too_few_runs_at_levels_of_both_sides_give_no_verdict() -> None:
    noise = np.exp(0.005 * np.random.default_rng(1).normal(size=10))
    a, b = np.array([24.0, 24, 24, 24, 54]) * noise[:5], np.array([54.0, 54, 54, 128, 128]) * noise[5:]
    matched = match_levels(side("a", a), side("b", b), "median_ns")
    (row,) = judged(matched).to_dict("records")
    assert (row["a_units"], row["b_units"], row["verdict"]) == (1, 3, "no verdict")


def test_a_single_run_at_another_level_is_left_out_of_the_change() -> None:
    noise = np.exp(0.005 * np.random.default_rng(3).normal(size=10))
    a, b = np.array([50.0, 50, 35, 50, 50]) * noise[:5], 52.5 * noise[5:]
    matched = match_levels(side("a", a), side("b", b), "median_ns")
    (row,) = judged(matched).to_dict("records")
    assert (row["a_units"], row["b_units"], row["verdict"]) == (4, 5, "changed")
    assert row["low"] < 1.05 < row["high"]
    assert matched.levels[["a_units", "b_units"]].to_numpy().tolist() == [[1, 0], [4, 5]]


def test_six_runs_that_scatter_are_no_levels() -> None:
    """Single runs prove levels only if apart by far more than all others scatter."""
    chance = np.random.default_rng(4)
    runs = 50 * np.exp(0.05 * chance.normal(size=(400, 6)))
    assert run_levels(runs).any(axis=1).mean() < 0.1


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
    assert judged(matched)["verdict"][0] == "changed"
    assert "in different shares" in about_levels(matched.levels)[0]


@pytest.mark.parametrize("change", [1.15, 1.3, 2.0])
def test_a_change_is_that_of_the_most_frequent_levels_where_no_level_has_both_sides(change: float) -> None:
    """One run of B is at another level, nearer to A than the rest of B."""
    noise, of_b = 0.005 * np.random.default_rng(3).normal(size=10), np.repeat([False, True], 5)
    logs = np.log(np.where(of_b, 50 * change, 50.0) * np.where(np.arange(10) == 7, 0.7, 1)) + noise
    found = match_values(logs, run_levels(np.exp(logs)[None, :])[0], of_b)
    assert found.counts.tolist() == [[0, 1], [5, 4]]
    moved = np.nanmean(found.logs[of_b]) - np.nanmean(found.logs[~of_b])
    assert np.exp(moved) == pytest.approx(change, rel=0.01)


@pytest.mark.parametrize(
    ("a", "b", "doubt", "verdict", "ratio"),
    [
        ([24, 24, 24, 50, 50], [48, 48, 48, 100, 100], Doubt.LEAST, "changed", 2),  # no 4 % faster
        ([24, 24, 54, 54, 128], [48, 48, 108, 108, 108], Doubt.LEAST, "changed", 2),  # no 13 % faster
        ([24, 24, 50, 50, 50], [48, 48, 48, 48, 48], Doubt.DIRECTION, "changed, or at another level", 0.96),
        ([24, 24, 24, 54, 54], [28, 147, 147, 147, 147], Doubt.SIZE, "changed, or at another level", None),
        ([24, 24, 24, 50, 50], [24, 24, 50, 50, 50], Doubt.NONE, "equivalent", 1),
        ([24, 24, 24, 24, 50], [28, 28, 28, 28, 28], Doubt.NONE, "changed", 28 / 24),
        ([20, 40, 80, 80, 80], [40, 50, 80, 160, 410], Doubt.DIRECTION, "cannot tell", 1),  # or twice as slow
        ([24, 24, 33, 33, 50], [72, 72, 99, 99, 150], Doubt.LEAST, "changed", 3),  # six levels
    ],
)
def test_levels_are_matched_as_is_likeliest(
    a: list[float], b: list[float], doubt: Doubt, verdict: str, ratio: float | None
) -> None:
    noise = np.exp(0.003 * np.random.default_rng(5).normal(size=10))
    matched = match_levels(
        side("a", np.array(a) * noise[:5]), side("b", np.array(b) * noise[5:]), "median_ns"
    )
    assert [found for _, found, _ in matched.about.values()] == [doubt]
    (row,) = judged(matched).to_dict("records")
    assert row["verdict"] == verdict
    either_way = doubt is Doubt.DIRECTION and verdict.startswith("changed")
    assert row["why"].startswith("slower or faster") == either_way
    assert ratio is None or row["ratio"] == pytest.approx(ratio, rel=0.01)


def test_a_level_of_one_run_of_each_side_is_no_evidence_where_others_have_enough() -> None:
    """Two slow runs that are 7 % apart may be at one level or at two."""
    a, b = np.array([99.0, 100.2, 101.3, 101.4, 144.7]), np.array([97.3, 98.7, 99.4, 99.5, 134.2])
    logs, of_b = np.log(np.concatenate([a, b])), np.repeat([False, True], 5)
    found = match_values(logs, run_levels(np.exp(logs)[None, :])[0], of_b)
    assert np.flatnonzero(np.isnan(found.logs)).tolist() == [4, 9]
    few = [0, 1, 2, 5, 6, 9, 4]  # the other level has two of B
    found = match_values(logs[few], np.array([0, 0, 0, 0, 0, 1, 1]), of_b[few])
    assert not np.isnan(found.logs).any()


def test_three_runs_a_side_tell_a_change_where_no_runs_of_a_side_differ() -> None:
    """By as much as levels are apart: there is nothing to match otherwise."""
    chance = np.random.default_rng(2)
    hosts = [
        match_levels(side("a", values[:3]), side("b", values[3:] * (1.15 if host < 4 else 1)), "median_ns")
        for host, values in enumerate(50 * np.exp(chance.normal(0, 0.01, (20, 6))))
    ]
    assert (judged(*hosts)["verdict"] == "changed").to_list() == [host < 4 for host in range(20)]


def test_the_interval_within_levels_is_that_of_least_squares() -> None:
    """The sides have the levels in unlike shares, so the change is known less well than its scatter shows."""
    at, of_b = np.array([0, 0, 0, 0, 1, 0, 1, 1, 1, 1]), np.repeat([0.0, 1.0], 5)
    logs = np.log(np.where(at, 50.0, 24.0)) + 0.01 * np.random.default_rng(4).normal(size=10) + 0.02 * of_b
    matched = match_levels(side("a", np.exp(logs[:5])), side("b", np.exp(logs[5:])), "median_ns")
    (row,) = judged(matched).to_dict("records")
    design = np.column_stack([1 - at, at, of_b])
    effects, squares, *_ = np.linalg.lstsq(design, logs, rcond=None)
    error = np.sqrt(squares[0] / 7 * np.linalg.inv(design.T @ design)[2, 2])
    assert [freedom for freedom, *_ in matched.about.values()] == [7]
    assert np.log(row["ratio"]) == pytest.approx(effects[2])
    assert row["error"] == pytest.approx(error)
    assert row["freedom"] <= 7


def at_levels(name: int, a: list[float], b: list[float]) -> Matched:
    """A host whose runs are at these levels."""
    noise = np.exp(0.005 * np.random.default_rng(name).normal(size=len(a) + len(b)))
    sides = side(f"{name}a", a * noise[: len(a)]), side(f"{name}b", b * noise[len(a) :])
    return match_levels(*sides, "median_ns")


@pytest.mark.parametrize(
    ("count", "verdict"), [(3, "changed, or at another level"), (4, "changed"), (5, "changed")]
)
def test_sides_at_a_level_each_are_a_change_where_chance_would_not_do_that(count: int, verdict: str) -> None:
    host = at_levels(1, [24.0] * count, [50.0] * count)
    (steady,), (switching,) = (judged(host, switches=known).to_dict("records") for known in (False, True))
    assert (steady["verdict"], switching["verdict"]) == ("changed", verdict)
    assert switching["q_levels"] == pytest.approx(2 / comb(2 * count, count))
    assert switching["low"] == steady["low"] > 1


def test_how_often_other_hosts_switch_within_a_side_tells_a_change_from_a_level() -> None:
    """One host doubled: among steady hosts it changed, among hosts that switch as much it may not have."""
    doubled = at_levels(0, [24.0] * 5, [50.0] * 5)
    steady = [at_levels(name, [24.0] * 5, [24.0] * 5) for name in range(1, 20)]
    mixed = [24.0, 50.0, 24.0, 50.0, 24.0]
    switching = [at_levels(name, mixed, [74 - ns for ns in mixed]) for name in range(1, 20)]
    few, many = judged(doubled, *steady, switches=True), judged(doubled, *switching, switches=True)
    assert few["verdict"][0] == "changed"
    assert (many["verdict"][0], many["why"][0][:20]) == ("cannot tell", "may be another level")
    assert many["low"][0] <= 1 < many["high"][0]
    assert judged(doubled, *switching[:5], switches=True)["q_levels"][0] == pytest.approx(6 * 2 / 252)


def test_more_hosts_at_another_level_than_chance_explains_have_changed() -> None:
    """At three runs a side one host proves nothing; three hosts do."""
    doubled = [at_levels(name, [24.0] * 3, [50.0] * 3) for name in range(3)]
    steady = [at_levels(name, [24.0] * 3, [24.0] * 3) for name in range(3, 20)]
    one, three = judged(doubled[0], *steady, switches=True), judged(*doubled, *steady, switches=True)
    assert one["verdict"][0] == "changed, or at another level"
    assert set(three["verdict"][:3]) == {"changed"}


def test_levels_in_different_shares_have_fishers_p() -> None:
    noise = 0.005 * np.random.default_rng(2).normal(size=(2, 10))
    a, b = np.log([24.0] * 9 + [50.0]) + noise[0], np.log([24.0] + [50.0] * 9) + noise[1]
    of_fisher, together, close = p_of_levels(
        np.hstack([[a, a, noise[0]], [b, np.roll(a, 1), 0.02 + noise[1]]]), np.repeat([False, True], 10)
    )
    assert of_fisher == pytest.approx(stats.fisher_exact([[9, 1], [1, 9]])[1])
    assert together == pytest.approx(1)
    assert close == 0


def test_every_one_of_many_runs_is_at_its_own_level() -> None:
    """Longer rows are split between every few values only; a run at the wrong level moves the change."""
    chance = np.random.default_rng(1)
    at, noise = chance.random(3000) < 0.4, 0.015 * chance.normal(size=3000)
    runs = np.where(at, 24.0, 54.0) * np.exp(noise)
    np.testing.assert_array_equal(run_levels(runs[None, :])[0], ~at)

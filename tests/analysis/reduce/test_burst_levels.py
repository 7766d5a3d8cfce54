"""A pair's main level, its interval, drift and asymmetry, on rows of burst medians
whose truth is known.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fleet.analysis.base import Floats
from fleet.analysis.reduce import (
    DIRECTION_BURSTS,
    DRIFT_CHANGE,
    estimate_half_widths,
    find_asymmetry,
    find_drift,
    find_half_sample_modes,
    find_main_bursts,
    summarize_bursts,
)
from tests.intervals import half_width


def find_main(*rows: dict[int, float]) -> list[list[bool]]:
    """Find the main bursts of benchmarks that are measured together. rows: their bursts
    in ns, by visit.
    """
    medians = np.array([ns for row in rows for ns in row.values()])
    visits, counts = (
        np.array([visit for row in rows for visit in row]),
        np.array([*map(len, rows)]),
    )
    main = find_main_bursts(
        medians, counts, visits, np.zeros(len(rows), dtype=np.int64)
    )
    return [part.tolist() for part in np.split(main, np.cumsum(counts)[:-1])]


def describe(*rows: list[float]) -> dict[str, Floats]:
    """Describe pairs, a row of burst medians each, one second apart."""
    medians, counts = (
        np.array([ns for row in rows for ns in row], dtype=float),
        np.array([*map(len, rows)]),
    )
    visits = np.concatenate([np.arange(count) for count in counts])
    main = find_main_bursts(medians, counts, visits, np.arange(len(rows)))
    return summarize_bursts(medians, counts, visits.astype(float), main)


def compute_drift(
    row: list[float] | Floats, times: list[float] | Floats | None = None
) -> float:
    moments = np.arange(len(row)) if times is None else np.asarray(times)
    return float(
        find_drift(np.array([row], dtype=float), np.array([moments], dtype=float))[0]
    )


# Main level


@pytest.mark.parametrize(
    ("row", "mode"),
    [
        ([50.0], 50),
        ([50.0, 51.0], (50 * 51) ** 0.5),
        ([50.0, 80.0], 50),
        ([10, 50, 51, 90], (50 * 51) ** 0.5),
        ([10, 10.2, 50, 51.1, 52, 70, 90], (51.1 * 52) ** 0.5),
        ([24.0, 50.0, 90.0], 50),
    ],
)
def test_the_half_sample_mode_is_in_the_densest_half_of_the_densest_half(
    row: list[float], mode: float
) -> None:
    assert find_half_sample_modes(np.log([row]))[0] == pytest.approx(np.log(mode))


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=30))
def test_the_main_bursts_of_one_benchmark_are_within_15_percent_of_the_mode(
    row: list[float],
) -> None:
    logs = np.log(np.array(row) / np.median(row))
    away = abs(logs - find_half_sample_modes(logs[None, :]))
    (main,) = find_main(dict(enumerate(row)))
    decided = abs(away - np.log(1.15)) > 1e-9
    assert any(main)
    assert (np.array(main) == (away < np.log(1.15)))[decided].all()


def test_benchmarks_of_a_visit_are_at_one_level_together() -> None:
    """The levels of `cas` are within 15 % of each other: `readwrite` tells them
    apart.
    """
    state = [0, 0, 0, 1, 1, 0, 0, 1, 0, 0]
    cas = {visit: (27.0, 29.0)[slow] + visit / 10 for visit, slow in enumerate(state)}
    readwrite = {
        visit: (51.0, 250.0)[slow] + visit / 10 for visit, slow in enumerate(state)
    }
    main = [not slow for slow in state]
    assert find_main(cas, readwrite) == [main, main]


def test_a_visit_that_lacks_a_burst_is_at_the_level_of_the_others() -> None:
    state = [int(visit % 3 == 0) for visit in range(30)]
    cas = {
        visit: (27.0, 107.0)[slow]
        for visit, slow in enumerate(state)
        if visit not in (2, 12)
    }
    readwrite = {
        visit: (51.0, 250.0)[slow] for visit, slow in enumerate(state) if visit != 25
    }
    assert find_main(cas, readwrite) == [
        [not state[visit] for visit in row] for row in (cas, readwrite)
    ]


def test_all_bursts_are_main_of_a_benchmark_that_has_none_at_the_level_of_the_others() -> (
    None
):
    readwrite = {visit: 250.0 if visit < 3 else 51.0 for visit in range(10)}
    assert find_main({0: 107.0, 2: 108.0}, readwrite)[0] == [True, True]


@pytest.mark.parametrize("seed", range(20))
def test_every_pair_has_a_main_burst_however_often_a_round_visits_it(seed: int) -> None:
    chance = np.random.default_rng(seed)
    counts = chance.integers(1, 9, 5)
    medians = 24 * np.where(chance.random(counts.sum()) < 0.3, 4.0, 1.0)
    visits, units = chance.integers(0, 5, counts.sum()), chance.integers(0, 3, 5)
    main = find_main_bursts(medians, counts, visits, units)
    assert (np.bincount(np.repeat(np.arange(5), counts), main) > 0).all()


def test_zero_and_equal_bursts_are_at_a_level_too() -> None:
    numbers = describe([0.0] * 6, [10, 10, 10, 10, 30, 30])
    assert numbers["median_ns"].tolist() == [0, 10]
    assert numbers["other_ns"][1] == 30


# Number, interval, and the bursts at another level


def test_the_number_is_the_median_of_the_main_bursts_and_the_others_have_theirs() -> (
    None
):
    row = [50.0, 52.0, 51.0, 20.0, 50.5, 53.0, 50.2, 80.0]
    main = [ns for ns in row if 45 < ns < 60]
    numbers, half = describe(row), half_width(main)
    assert numbers["median_ns"][0] == np.median(main)
    assert numbers["spread"][0] == pytest.approx(half)
    assert numbers["low_ns"][0] == pytest.approx(np.mean(main) * (1 - half))
    assert numbers["high_ns"][0] == pytest.approx(np.mean(main) * (1 + half))
    assert (numbers["other_ns"][0], numbers["other_share"][0]) == (50, 0.25)


def test_the_interval_extends_to_a_median_that_is_far_from_the_mean() -> None:
    numbers = describe([50.0, 55.0, 55.0] * 100)
    assert numbers["low_ns"][0] < numbers["high_ns"][0] == numbers["median_ns"][0] == 55
    assert np.mean([50.0, 55.0, 55.0]) * (1 + numbers["spread"][0]) < 55


@pytest.mark.parametrize(("others", "ns"), [(1, np.nan), (2, 90)])
def test_the_median_of_more_than_a_tenth_of_the_bursts_elsewhere_is_reported(
    others: int, ns: float
) -> None:
    numbers = describe([50.0 + x / 10 for x in range(10 - others)] + [90.0] * others)
    assert numbers["other_share"][0] == pytest.approx(others / 10)
    assert numbers["other_ns"][0] == pytest.approx(ns, nan_ok=True)


def test_a_single_burst_has_no_interval_and_two_equal_ones_an_empty_one() -> None:
    assert np.isnan(describe([50.0])["spread"][0])
    assert np.isnan(estimate_half_widths(np.array([[50.0], [60.0]]))).tolist() == [
        True,
        True,
    ]
    assert describe([50.0, 50.0])["spread"][0] == 0
    r = 1.3 / 2**0.5 - 0.5  # two values show a correlation of -0.5
    worth = 2 * (1 - r) / (1 + r)
    assert estimate_half_widths(np.array([[50.0, 51.0]]))[0] == pytest.approx(
        12.7062 * (0.5 / worth) ** 0.5
    )


def test_bursts_that_switch_levels_do_not_drift() -> None:
    row = [50 + x / 100 for x in range(15)] + [80 + x / 100 for x in range(15)]
    assert compute_drift(row) > 0.4
    assert np.isnan(describe(row)["drift"][0])


# Drift


@pytest.mark.parametrize("bursts", [10, 50, 51, 60, 200, 1000])
@pytest.mark.parametrize("rise", [0.1, -0.1])
def test_a_drift_is_told_by_its_size_however_many_bursts_there_are(
    bursts: int, rise: float
) -> None:
    chance = np.random.default_rng(bursts)
    row = 50 * (1 + rise * np.linspace(0, 1, bursts)) * chance.normal(1, 0.005, bursts)
    assert compute_drift(row) == pytest.approx(rise / (1 + rise / 2), rel=0.15)


@pytest.mark.parametrize("bursts", [51, 99, 100, 333])
def test_more_than_fifty_bursts_are_judged_by_the_medians_of_fifty_blocks(
    bursts: int,
) -> None:
    chance = np.random.default_rng(bursts)
    times = np.cumsum(chance.uniform(0.1, 2, bursts))
    row = 50 * (1 + 0.001 * times / times[-1] * 60) * chance.normal(1, 0.02, bursts)
    blocks = [np.median(part) for part in np.array_split(row, 50)]
    moments = [np.median(part) for part in np.array_split(times, 50)]
    assert compute_drift(row, times) == pytest.approx(compute_drift(blocks, moments))
    slope = stats.theilslopes(blocks, moments).slope
    assert compute_drift(row, times) == pytest.approx(
        slope * (moments[-1] - moments[0]) / np.median(blocks)
    )


def test_a_thousand_bursts_of_noise_do_not_drift() -> None:
    rows = np.random.default_rng(4).normal(50, 1, (200, 1000))
    drifts = find_drift(rows, np.tile(np.arange(1000.0), (200, 1)))
    assert np.isnan(drifts).all()


@pytest.mark.parametrize(("bursts", "proved"), [(5, False), (6, True), (7, True)])
def test_the_trend_of_a_rising_row_is_proved_from_six_bursts_on(
    bursts: int, proved: bool
) -> None:
    """Mann and Kendall: S = n(n-1)/2, and (S - 1) / sqrt(n(n-1)(2n+5)/18) must exceed
    2.576.
    """
    rising = np.linspace(50, 60, bursts)
    assert np.isfinite(compute_drift(rising)) == proved
    assert np.isfinite(compute_drift(rising[::-1])) == proved


@pytest.mark.parametrize("swaps", range(12))
def test_the_trend_test_is_mann_and_kendalls(swaps: int) -> None:
    """Held against a reckoning pair by pair, on a rising row with some of its values
    swapped.
    """
    row = np.linspace(50, 60, 12)
    chance = np.random.default_rng(swaps)
    for _ in range(swaps):
        first, second = chance.integers(0, 12, 2)
        row[[first, second]] = row[[second, first]]
    concordant = sum(
        np.sign(row[late] - row[early]) for late in range(12) for early in range(late)
    )
    z = (abs(concordant) - 1) / (12 * 11 * 29 / 18) ** 0.5
    moved = stats.theilslopes(row, np.arange(12)).slope * 11 / np.median(row)
    expected = (
        moved if z > stats.norm.ppf(0.995) and abs(moved) > DRIFT_CHANGE else np.nan
    )
    assert compute_drift(row) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("rise", "proved"), [(0.0199, False), (0.0205, True), (-0.0199, False)]
)
def test_a_proved_trend_of_two_percent_or_less_is_no_drift(
    rise: float, proved: bool
) -> None:
    row = 50 * (1 + rise * np.linspace(-0.5, 0.5, 20))
    assert np.isfinite(compute_drift(row)) == proved


def test_the_slope_is_by_the_clock_and_bursts_of_one_moment_do_not_count_for_it() -> (
    None
):
    times = [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 100.0]
    row = [50.0, 50.5, 51.0, 52.0, 53.0, 54.0, 55.0, 60.0]
    later = [(a, b) for a in range(8) for b in range(a + 1, 8) if times[b] > times[a]]
    slope = np.median([(row[b] - row[a]) / (times[b] - times[a]) for a, b in later])
    assert compute_drift(row, times) == pytest.approx(slope * 100 / np.median(row))


def test_one_or_two_bursts_and_those_of_one_moment_cannot_drift() -> None:
    assert np.isnan(compute_drift([50.0]))
    assert np.isnan(compute_drift([50.0, 90.0]))
    assert np.isnan(compute_drift(np.linspace(50, 60, 12), np.zeros(12)))


def test_each_pair_is_judged_for_itself() -> None:
    rising, calm = np.linspace(50, 60, 20), np.tile([50.0, 50.1], 10)
    times = np.tile(np.arange(20.0), (3, 1))
    drifts = find_drift(np.stack([calm, rising, rising[::-1]]), times)
    assert np.isnan(drifts[0])
    assert drifts[1] > 0.1
    assert drifts[2] == pytest.approx(-drifts[1])


# Directions


def compute_asymmetry(forth: list[float], back: list[float]) -> float:
    """The asymmetry of pair 1 of 3, whose bursts come in turn."""
    middles = np.array([*forth, *back, 5.0])
    turned = np.array([False] * len(forth) + [True] * len(back) + [False])
    pair = np.array([1] * (len(forth) + len(back)) + [2])
    asymmetry = find_asymmetry(middles, turned, pair, 3)
    assert np.isnan(asymmetry[[0, 2]]).all()
    return float(asymmetry[1])


STEADY = [50.0, 50.1, 49.9, 50.0]


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (1.11, 0.11),
        (1.09, None),
        (1 / 1.11, 1 / 1.11 - 1),
        (1 / 1.09, None),
        (1.0, None),
    ],
)
def test_a_direction_that_takes_over_a_tenth_longer_is_an_asymmetry(
    factor: float, expected: float | None
) -> None:
    asymmetry = compute_asymmetry(STEADY, [factor * ns for ns in STEADY])
    assert asymmetry == pytest.approx(
        np.nan if expected is None else expected, nan_ok=True
    )


@pytest.mark.parametrize(
    ("bursts", "proved"), [(DIRECTION_BURSTS, True), (DIRECTION_BURSTS - 1, False)]
)
def test_each_direction_takes_enough_bursts_to_prove_an_asymmetry(
    bursts: int, proved: bool
) -> None:
    few, many = [50.0, 50.001, 50.0, 50.001][:bursts], [80.0, 80.001, 80.0, 80.001]
    assert np.isfinite(compute_asymmetry(few, many)) == proved
    assert np.isfinite(compute_asymmetry(many, few)) == proved


def test_directions_whose_intervals_overlap_are_not_told_apart() -> None:
    assert np.isnan(
        compute_asymmetry([50.0, 70.0, 30.0, 50.0], [60.0, 80.0, 40.0, 60.0])
    )

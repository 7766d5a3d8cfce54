"""A pair's main level, its interval, drift and asymmetry, on rows of burst medians
whose truth is known.
"""

import itertools
from collections.abc import Container, Iterable

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
    medians = np.concatenate([list(row.values()) for row in rows])
    visits = np.concatenate([list(row) for row in rows])
    counts = np.array([len(row) for row in rows])
    one_unit = np.zeros(len(rows), dtype=np.int64)
    main = find_main_bursts(medians, counts, visits, one_unit)
    parts = np.split(main, np.cumsum(counts)[:-1])
    return [part.tolist() for part in parts]


def describe(*rows: list[float]) -> dict[str, Floats]:
    """Describe pairs, a row of burst medians each, one second apart."""
    medians = np.concatenate([np.array(row, dtype=float) for row in rows])
    counts = np.array([len(row) for row in rows])
    visits = np.concatenate([np.arange(count) for count in counts])
    units = np.arange(len(rows))
    main = find_main_bursts(medians, counts, visits, units)
    return summarize_bursts(medians, counts, visits.astype(float), main)


def describe_pair(row: list[float]) -> dict[str, float]:
    """Describe one pair."""
    return {name: values[0] for name, values in describe(row).items()}


def compute_drift(
    row: list[float] | Floats, times: list[float] | Floats | None = None
) -> float:
    """Return the drift of one pair, by default with its bursts one second apart."""
    if times is None:
        times = np.arange(len(row))
    medians = np.array([row], dtype=float)
    moments = np.array([times], dtype=float)
    (drift,) = find_drift(medians, moments)
    return float(drift)


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
    modes = find_half_sample_modes(np.log([row]))
    assert modes[0] == pytest.approx(np.log(mode))


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=30))
def test_the_main_bursts_of_one_benchmark_are_within_15_percent_of_the_mode(
    row: list[float],
) -> None:
    log_ns = np.log(np.array(row) / np.median(row))
    mode = find_half_sample_modes(log_ns[None, :])
    away = abs(log_ns - mode)
    (main,) = find_main(dict(enumerate(row)))
    assert any(main)
    limit = np.log(1.15)
    is_decided = abs(away - limit) > 1e-9
    is_as_expected = np.array(main) == (away < limit)
    assert is_as_expected[is_decided].all()


SLOW_VISITS = (3, 4, 7)


def bursts_in_two_states(
    fast: float, slow: float, visits: Iterable[int], slow_visits: Container[int]
) -> dict[int, float]:
    """Return the bursts of a benchmark in ns, by visit."""
    return {visit: slow if visit in slow_visits else fast for visit in visits}


def test_benchmarks_of_a_visit_are_at_one_level_together() -> None:
    """The levels of `cas` are within 15 % of each other: `readwrite` tells them
    apart.
    """
    cas = bursts_in_two_states(27.0, 29.0, range(10), SLOW_VISITS)
    readwrite = bursts_in_two_states(51.0, 250.0, range(10), SLOW_VISITS)
    for visit in range(10):
        cas[visit] += visit / 10
        readwrite[visit] += visit / 10
    main = [visit not in SLOW_VISITS for visit in range(10)]
    assert find_main(cas, readwrite) == [main, main]


def test_a_visit_that_lacks_a_burst_is_at_the_level_of_the_others() -> None:
    slow_visits = range(0, 30, 3)
    of_cas = [visit for visit in range(30) if visit not in (2, 12)]
    of_readwrite = [visit for visit in range(30) if visit != 25]
    cas = bursts_in_two_states(27.0, 107.0, of_cas, slow_visits)
    readwrite = bursts_in_two_states(51.0, 250.0, of_readwrite, slow_visits)
    cas_main, readwrite_main = find_main(cas, readwrite)
    assert cas_main == [visit not in slow_visits for visit in of_cas]
    assert readwrite_main == [visit not in slow_visits for visit in of_readwrite]


def test_all_bursts_are_main_of_a_benchmark_that_has_none_at_the_level_of_the_others() -> (
    None
):
    cas = {0: 107.0, 2: 108.0}
    readwrite = bursts_in_two_states(51.0, 250.0, range(10), (0, 1, 2))
    cas_main, _ = find_main(cas, readwrite)
    assert cas_main == [True, True]


@pytest.mark.parametrize("seed", range(20))
def test_every_pair_has_a_main_burst_however_often_a_round_visits_it(seed: int) -> None:
    chance = np.random.default_rng(seed)
    counts = chance.integers(1, 9, 5)
    bursts = counts.sum()
    medians = 24 * np.where(chance.random(bursts) < 0.3, 4.0, 1.0)
    visits = chance.integers(0, 5, bursts)
    units = chance.integers(0, 3, 5)
    main = find_main_bursts(medians, counts, visits, units)
    pair_of_burst = np.repeat(np.arange(5), counts)
    main_of_pair = np.bincount(pair_of_burst, main)
    assert (main_of_pair > 0).all()


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
    half = half_width(main)
    pair = describe_pair(row)
    assert pair["median_ns"] == np.median(main)
    assert pair["spread"] == pytest.approx(half)
    assert pair["low_ns"] == pytest.approx(np.mean(main) * (1 - half))
    assert pair["high_ns"] == pytest.approx(np.mean(main) * (1 + half))
    assert pair["other_ns"] == 50
    assert pair["other_share"] == 0.25


def test_the_interval_extends_to_a_median_that_is_far_from_the_mean() -> None:
    row = [50.0, 55.0, 55.0] * 100
    pair = describe_pair(row)
    assert pair["median_ns"] == 55
    assert pair["low_ns"] < pair["high_ns"] == 55
    assert np.mean(row) * (1 + pair["spread"]) < 55


@pytest.mark.parametrize(("others", "ns"), [(1, np.nan), (2, 90)])
def test_the_median_of_more_than_a_tenth_of_the_bursts_elsewhere_is_reported(
    others: int, ns: float
) -> None:
    main = [50.0 + x / 10 for x in range(10 - others)]
    pair = describe_pair(main + [90.0] * others)
    assert pair["other_share"] == pytest.approx(others / 10)
    assert pair["other_ns"] == pytest.approx(ns, nan_ok=True)


def test_a_single_burst_has_no_interval_and_two_equal_ones_an_empty_one() -> None:
    assert np.isnan(describe_pair([50.0])["spread"])
    half_widths = estimate_half_widths(np.array([[50.0], [60.0]]))
    assert np.isnan(half_widths).tolist() == [True, True]
    assert describe_pair([50.0, 50.0])["spread"] == 0
    r = 1.3 / 2**0.5 - 0.5  # two values show a correlation of -0.5
    worth = 2 * (1 - r) / (1 + r)
    expected = 12.7062 * (0.5 / worth) ** 0.5
    half_widths = estimate_half_widths(np.array([[50.0, 51.0]]))
    assert half_widths[0] == pytest.approx(expected)


def test_bursts_that_switch_levels_do_not_drift() -> None:
    low = [50 + x / 100 for x in range(15)]
    high = [80 + x / 100 for x in range(15)]
    row = low + high
    assert compute_drift(row) > 0.4
    assert np.isnan(describe_pair(row)["drift"])


# Drift


@pytest.mark.parametrize("bursts", [10, 50, 51, 60, 200, 1000])
@pytest.mark.parametrize("rise", [0.1, -0.1])
def test_a_drift_is_told_by_its_size_however_many_bursts_there_are(
    bursts: int, rise: float
) -> None:
    chance = np.random.default_rng(bursts)
    trend = 50 * (1 + rise * np.linspace(0, 1, bursts))
    row = trend * chance.normal(1, 0.005, bursts)
    assert compute_drift(row) == pytest.approx(rise / (1 + rise / 2), rel=0.15)


@pytest.mark.parametrize("bursts", [51, 99, 100, 333])
def test_more_than_fifty_bursts_are_judged_by_the_medians_of_fifty_blocks(
    bursts: int,
) -> None:
    chance = np.random.default_rng(bursts)
    times = np.cumsum(chance.uniform(0.1, 2, bursts))
    trend = 50 * (1 + 0.001 * times / times[-1] * 60)
    row = trend * chance.normal(1, 0.02, bursts)
    drift = compute_drift(row, times)
    blocks = [np.median(part) for part in np.array_split(row, 50)]
    moments = [np.median(part) for part in np.array_split(times, 50)]
    assert drift == pytest.approx(compute_drift(blocks, moments))
    slope = stats.theilslopes(blocks, moments).slope
    moved = slope * (moments[-1] - moments[0])
    assert drift == pytest.approx(moved / np.median(blocks))


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
    concordant = 0
    for early, late in itertools.combinations(range(12), 2):
        concordant += np.sign(row[late] - row[early])
    z = (abs(concordant) - 1) / (12 * 11 * 29 / 18) ** 0.5
    slope = stats.theilslopes(row, np.arange(12)).slope
    moved = slope * 11 / np.median(row)
    is_drift = z > stats.norm.ppf(0.995) and abs(moved) > DRIFT_CHANGE
    expected = moved if is_drift else np.nan
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
    slopes = []
    for a, b in itertools.combinations(range(8), 2):
        if times[b] > times[a]:
            slopes.append((row[b] - row[a]) / (times[b] - times[a]))
    expected = np.median(slopes) * 100 / np.median(row)
    assert compute_drift(row, times) == pytest.approx(expected)


def test_one_or_two_bursts_and_those_of_one_moment_cannot_drift() -> None:
    assert np.isnan(compute_drift([50.0]))
    assert np.isnan(compute_drift([50.0, 90.0]))
    assert np.isnan(compute_drift(np.linspace(50, 60, 12), np.zeros(12)))


def test_each_pair_is_judged_for_itself() -> None:
    calm = np.tile([50.0, 50.1], 10)
    rising = np.linspace(50, 60, 20)
    falling = rising[::-1]
    times = np.tile(np.arange(20.0), (3, 1))
    drifts = find_drift(np.stack([calm, rising, falling]), times)
    assert np.isnan(drifts[0])
    assert drifts[1] > 0.1
    assert drifts[2] == pytest.approx(-drifts[1])


# Directions


def compute_asymmetry(forth: list[float], back: list[float]) -> float:
    """The asymmetry of pair 1 of 3, whose bursts come in turn."""
    bursts = len(forth) + len(back)
    middles = np.array([*forth, *back, 5.0])
    turned = np.repeat([False, True, False], [len(forth), len(back), 1])
    pair = np.repeat([1, 2], [bursts, 1])
    asymmetry = find_asymmetry(middles, turned, pair, 3)
    assert np.isnan(asymmetry[[0, 2]]).all()
    return float(asymmetry[1])


STEADY = [50.0, 50.1, 49.9, 50.0]


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (1.11, 0.11),
        (1.09, np.nan),
        (1 / 1.11, 1 / 1.11 - 1),
        (1 / 1.09, np.nan),
        (1.0, np.nan),
    ],
)
def test_a_direction_that_takes_over_a_tenth_longer_is_an_asymmetry(
    factor: float, expected: float
) -> None:
    asymmetry = compute_asymmetry(STEADY, [factor * ns for ns in STEADY])
    assert asymmetry == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("bursts", "proved"), [(DIRECTION_BURSTS, True), (DIRECTION_BURSTS - 1, False)]
)
def test_each_direction_takes_enough_bursts_to_prove_an_asymmetry(
    bursts: int, proved: bool
) -> None:
    few = [50.0, 50.001, 50.0, 50.001][:bursts]
    many = [80.0, 80.001, 80.0, 80.001]
    assert np.isfinite(compute_asymmetry(few, many)) == proved
    assert np.isfinite(compute_asymmetry(many, few)) == proved


def test_directions_whose_intervals_overlap_are_not_told_apart() -> None:
    forth = [50.0, 70.0, 30.0, 50.0]
    back = [60.0, 80.0, 40.0, 60.0]
    assert np.isnan(compute_asymmetry(forth, back))

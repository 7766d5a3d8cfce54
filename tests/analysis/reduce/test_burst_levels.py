"""A pair's level, modes and drift, on rows of burst medians whose truth is known."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fleet.analysis.reduce.burst_levels import (
    DIRECTION_BURSTS,
    DRIFT_CHANGE,
    BurstLevels,
    asymmetry,
    burst_levels,
    drift,
    halves,
    middles,
)
from fleet.analysis.reduce.split import split, states, states_of_rounds
from tests.intervals import half_width


def judged(*rows: list[float], times: list[float] | None = None) -> BurstLevels:
    """Levels of pairs, a row of burst medians each, one second apart unless `times` are given."""
    moments = np.array([times or range(len(rows[0]))] * len(rows), dtype=float)
    return burst_levels(np.array(rows, dtype=float), moments)


def middle_of(row: list[float]) -> float:
    """The lower median of the averages of every two values, each with itself too."""
    averages = sorted((one + other) / 2 for one, other in combinations_with_replacement(row, 2))
    return averages[(len(averages) - 1) // 2]


def drift_of(row: list[float] | np.ndarray, times: list[float] | np.ndarray | None = None) -> float:  # type: ignore[type-arg]
    moments = np.arange(len(row)) if times is None else np.asarray(times)
    return float(drift(np.array([row], dtype=float), np.array([moments], dtype=float))[0])


# Level and interval


@pytest.mark.parametrize(
    "times", [[*range(16)], [*range(13), 15.0, 15.5, 16.0], [*range(9), *np.arange(9, 16, 0.1)]]
)
def test_visits_that_crowd_at_the_end_of_a_drift_lean_by_what_they_saw_too_much_of(
    times: list[float],
) -> None:
    """The mean over time of a line is its middle; that over visits is where most of them are."""
    row = 100 + np.array([times])
    found = burst_levels(row, np.array([times]))
    assert np.isfinite(found.drift[0])
    assert found.lean[0] == pytest.approx(abs(row.mean() - 100 - times[-1] / 2), rel=0.05, abs=1e-9)


def test_without_a_drift_visits_may_crowd_anywhere() -> None:
    steady = burst_levels(np.array([[50.0, 52.0, 51.0, 50.5]]), np.array([[0.0, 7.0, 8.0, 9.0]]))
    assert steady.lean[0] == 0


def test_one_mode_is_described_by_all_of_its_bursts() -> None:
    row = [50.0, 52.0, 51.0, 50.5, 53.0, 50.2]
    found = judged(row)
    assert found.median[0] == pytest.approx(middle_of(row))
    assert found.mean[0] == np.mean(row)
    half = half_width(row)
    assert half is not None
    assert found.half[0] == pytest.approx(half * np.mean(row))
    assert np.isnan([found.other[0], found.other_share[0], found.drift[0]]).all()


@given(st.lists(st.floats(1, 1000), min_size=2, max_size=30))
def test_the_interval_is_the_one_that_stops_a_run(row: list[float]) -> None:
    expected = half_width(row)
    assert expected is not None
    assert halves(np.array([row, row]))[1] == pytest.approx(expected * np.mean(row), rel=1e-6, abs=1e-9)


def test_a_single_burst_has_no_interval_and_two_equal_ones_an_empty_one() -> None:
    assert np.isnan(judged([50.0]).half[0])
    assert np.isnan(halves(np.array([[50.0], [60.0]]))).tolist() == [True, True]
    assert judged([50.0, 50.0]).half[0] == 0
    r = 1.3 / 2**0.5 - 0.5  # two values show a correlation of -0.5
    worth = 2 * (1 - r) / (1 + r)
    assert halves(np.array([[50.0, 51.0]]))[0] == pytest.approx(12.7062 * (0.5 / worth) ** 0.5)


# Modes


@pytest.mark.parametrize(
    ("row", "level", "other", "share"),
    [
        ([10, 10.1, 10.2, 30, 30.1], 10.1, 30.05, 0.4),
        ([30, 10, 30.1, 10.1, 30.2], 30.1, 10.05, 0.4),
        ([10, 10.1, 10.2, 30, 30.1, 30.2], 10.1, 30.1, 0.5),  # of equal modes the faster is the level
        ([8, *[50.0 + x / 10 for x in range(9)]], 50.4, 8, 0.1),  # one in ten is a mode ...
        ([90, *[50.0 + x / 10 for x in range(9)]], 50.4, 90, 0.1),
    ],
)
def test_two_modes_are_parted_and_the_larger_is_the_level(
    row: list[float], level: float, other: float, share: float
) -> None:
    calm = [50.0] * len(row)
    found = judged(calm, row)
    main = [value for value in row if abs(value - level) < abs(value - other)]
    assert found.median[1] == pytest.approx(level)
    assert found.mean[1] == pytest.approx(np.mean(main))
    assert found.half[1] == pytest.approx(halves(np.array([main]))[0])
    assert found.other[1] == pytest.approx(other)
    assert found.other_share[1] == pytest.approx(share)
    assert np.isnan(found.other[0])
    assert found.median[0] == 50


@pytest.mark.parametrize(
    "row",
    [
        [10, 10.1, 30, 30.1],  # four bursts
        [90, *[50.0 + x / 10 for x in range(10)]],  # ... and one in eleven is none
        [8, *[50.0 + x / 10 for x in range(10)]],
        [50, 50.1, 50.2, 52.2, 52.3, 52.4],  # not 1.05 times apart
        [50, 50.1, 62.4, 50.2, 50.3, 50.05],  # not 1.25 times apart, and a single burst
        [float(value) for value in range(40, 80, 2)],  # one wide level
        [50, 55, 62, 66, 70, 75, 83],
        [50.0] * 12,
    ],
)
def test_one_wide_or_seldom_left_level_is_no_two(row: list[float]) -> None:
    found = judged(row)
    assert np.isnan(found.other[0])
    assert np.isnan(found.other_share[0])
    assert found.median[0] == pytest.approx(middle_of(row))


def test_the_number_lies_between_places_at_which_bursts_gather_by_chance() -> None:
    """Lines in two slices of a cache: whichever has more of the bursts, the number hardly moves."""
    places = np.array([24.8] * 9 + [26.1] * 11), np.array([24.8] * 11 + [26.1] * 9)
    chance = np.random.default_rng(3)
    rows = np.array([chance.permutation(each) for each in places for _ in range(20)])
    found = judged(*rows)
    assert not found.parts
    np.testing.assert_allclose(found.median, 25.45)


def test_close_levels_that_last_are_parted_and_those_that_alternate_are_one() -> None:
    lasting, alternating = [50.0] * 15 + [64.0] * 15, [50.0, 64.0] * 15
    found = judged(lasting, alternating, [50.0, 80.0] * 15, [50.0] * 15 + [54.0] * 15)
    assert sorted(found.parts) == [0, 2, 3]
    assert found.median.tolist() == [50, 57, 50, 50]


def test_the_middle_of_a_long_row_is_close_to_that_of_all_averages() -> None:
    row = np.random.default_rng(5).lognormal(4, 0.3, 301)
    assert middles(row[None, :])[0] == pytest.approx(middle_of(row.tolist()), rel=1e-3)


def test_modes_just_far_enough_apart_are_two() -> None:
    assert judged([50, 50.1, 50.2, 62.7, 62.8, 62.9]).other[0] == pytest.approx(62.8)


def test_a_pair_has_as_many_levels_as_are_proved_each_with_its_share_dwell_and_interval() -> None:
    near, middle, far = [24.0, 24.1, 24.2, 23.9], [29.0, 29.2, 29.1], [50.0, 50.4, 50.2]
    row = [*near[:2], *far, *near[2:], *middle]
    found = judged([50.0] * len(row), row)
    assert list(found.parts) == [1]
    for level, values, share, dwell in zip(
        found.parts[1], (near, middle, far), (0.4, 0.3, 0.3), (2, 3, 3), strict=True
    ):
        assert level.median == pytest.approx(middle_of(values))
        assert level.half == pytest.approx(halves(np.array([values]))[0])
        assert (level.share, level.dwell) == (pytest.approx(share), dwell)
    assert (found.median[1], found.other[1]) == (pytest.approx(24.05), pytest.approx(29.1))


@pytest.mark.parametrize("count", [10, 40, 250])
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "uniform", "autocorrelated"])
def test_a_single_level_is_seldom_split_whatever_its_shape(kind: str, count: int) -> None:
    chance, shape = np.random.default_rng(count), (200, count)
    noise = {
        "normal": chance.normal(size=shape),
        "heavy tails": chance.standard_t(3, size=shape),
        "uniform": chance.uniform(-1.7, 1.7, shape),
        "autocorrelated": sum(
            0.6**lag * chance.normal(size=(200, count + 9))[:, lag : lag + count] for lag in range(9)
        ),
    }[kind]
    assert (split(50 * np.exp(0.04 * noise)).max(axis=1) > 0).mean() <= 0.1


def test_levels_close_to_each_other_are_found_where_their_scatter_is_small() -> None:
    chance, truth = np.random.default_rng(4), np.arange(60) % 6
    row = np.array([17, 21, 24, 29, 54, 128.0])[truth] * np.exp(0.008 * chance.normal(size=60))
    np.testing.assert_array_equal(split(row[None, :])[0], truth)


def modes_of(row: list[float]) -> tuple[float, float] | None:
    """The middles of the faster and the slower mode, by trying each split of the row; None for one mode."""
    logs, count = sorted(np.log(row)), len(row)
    least = math.ceil(count / 10)
    parts = [(logs[:fast], logs[fast:]) for fast in range(least, count - least + 1)]
    squares = [float(np.var(fast) * len(fast) + np.var(slow) * len(slow)) for fast, slow in parts]
    fast, slow = parts[int(np.argmin(squares))]
    scatter = math.sqrt(min(squares) / (count - 2))
    far = np.mean(slow) - np.mean(fast) > 5 * scatter
    medians = float(np.exp(np.median(fast))), float(np.exp(np.median(slow)))
    middles = middle_of(np.exp(fast).tolist()), middle_of(np.exp(slow).tolist())
    slower = np.log(row) >= min(slow)
    drawn = 2 * slower.mean() * (1 - slower.mean()) * (count - 1)
    near = slow[len(slow) // 2] - fast[len(fast) // 2] < math.log(1.35)
    joined = near and np.count_nonzero(np.diff(slower)) > drawn / 2
    return middles if far and not joined and medians[1] / medians[0] > 1.25 else None


@pytest.mark.parametrize("seed", range(40))
def test_the_search_for_modes_finds_what_trying_each_split_finds(seed: int) -> None:
    """Modes 1.2 to 2 times apart with a scatter of 3 to 20 %: some of these rows have two, some one."""
    chance = np.random.default_rng(seed)
    count = int(chance.integers(5, 31))
    centre = np.where(chance.random(count) < 0.4, chance.uniform(60, 100), 50)
    row = (centre * np.exp(chance.normal(0, chance.uniform(0.03, 0.2), count))).tolist()
    found, expected = judged(row), modes_of(row)
    if expected is None:
        assert np.isnan(found.other[0])
        assert found.median[0] == pytest.approx(middle_of(row))
    else:
        assert sorted((found.median[0], found.other[0])) == pytest.approx(expected, rel=0.01)


def test_a_rising_row_of_two_modes_changes_between_them_and_does_not_drift() -> None:
    row = [50 + x / 100 for x in range(15)] + [80 + x / 100 for x in range(15)]
    assert drift_of(row) > 0.4
    assert np.isnan(judged(row).drift[0])


def test_zero_and_equal_values_do_not_disturb_the_search_for_modes() -> None:
    found = judged([0.0] * 6, [10, 10, 10, 30, 30, 30])
    assert found.median.tolist() == [0, 10]
    assert found.other[1] == 30
    assert np.isnan(found.other[0])


# Drift


@pytest.mark.parametrize("bursts", [10, 50, 51, 60, 200, 1000])
@pytest.mark.parametrize("rise", [0.1, -0.1])
def test_a_drift_is_told_by_its_size_however_many_bursts_there_are(bursts: int, rise: float) -> None:
    chance = np.random.default_rng(bursts)
    row = 50 * (1 + rise * np.linspace(0, 1, bursts)) * chance.normal(1, 0.005, bursts)
    assert drift_of(row) == pytest.approx(rise / (1 + rise / 2), rel=0.15)


@pytest.mark.parametrize("bursts", [51, 99, 100, 333])
def test_more_than_fifty_bursts_are_judged_by_the_medians_of_fifty_blocks(bursts: int) -> None:
    chance = np.random.default_rng(bursts)
    times = np.cumsum(chance.uniform(0.1, 2, bursts))
    row = 50 * (1 + 0.001 * times / times[-1] * 60) * chance.normal(1, 0.02, bursts)
    blocks = [np.median(part) for part in np.array_split(row, 50)]
    moments = [np.median(part) for part in np.array_split(times, 50)]
    assert drift_of(row, times) == pytest.approx(drift_of(blocks, moments))
    slope = stats.theilslopes(blocks, moments).slope
    assert drift_of(row, times) == pytest.approx(slope * (moments[-1] - moments[0]) / np.median(blocks))


def test_a_thousand_bursts_of_noise_do_not_drift() -> None:
    rows = np.random.default_rng(4).normal(50, 1, (200, 1000))
    found = drift(rows, np.tile(np.arange(1000.0), (200, 1)))
    assert np.isnan(found).all()


@pytest.mark.parametrize(("bursts", "proved"), [(5, False), (6, True), (7, True)])
def test_the_trend_of_a_rising_row_is_proved_from_six_bursts_on(bursts: int, proved: bool) -> None:
    """Mann and Kendall: S = n(n-1)/2, and (S - 1) / sqrt(n(n-1)(2n+5)/18) must exceed 2.576."""
    rising = np.linspace(50, 60, bursts)
    assert np.isfinite(drift_of(rising)) == proved
    assert np.isfinite(drift_of(rising[::-1])) == proved


@pytest.mark.parametrize("swaps", range(12))
def test_the_trend_test_is_mann_and_kendalls(swaps: int) -> None:
    """Held against a reckoning pair by pair, on a rising row with some of its values swapped."""
    row = np.linspace(50, 60, 12)
    chance = np.random.default_rng(swaps)
    for _ in range(swaps):
        one, other = chance.integers(0, 12, 2)
        row[[one, other]] = row[[other, one]]
    concordant = sum(np.sign(row[late] - row[early]) for late in range(12) for early in range(late))
    z = (abs(concordant) - 1) / (12 * 11 * 29 / 18) ** 0.5
    moved = stats.theilslopes(row, np.arange(12)).slope * 11 / np.median(row)
    expected = moved if z > stats.norm.ppf(0.995) and abs(moved) > DRIFT_CHANGE else np.nan
    assert drift_of(row) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("rise", "proved"), [(0.0199, False), (0.0205, True), (-0.0199, False)])
def test_a_proved_trend_of_two_percent_or_less_is_no_drift(rise: float, proved: bool) -> None:
    row = 50 * (1 + rise * np.linspace(-0.5, 0.5, 20))
    assert np.isfinite(drift_of(row)) == proved


def test_the_slope_is_by_the_clock_and_bursts_of_one_moment_do_not_count_for_it() -> None:
    times = [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 100.0]
    row = [50.0, 50.5, 51.0, 52.0, 53.0, 54.0, 55.0, 60.0]
    later = [(a, b) for a in range(8) for b in range(a + 1, 8) if times[b] > times[a]]
    slope = np.median([(row[b] - row[a]) / (times[b] - times[a]) for a, b in later])
    assert drift_of(row, times) == pytest.approx(slope * 100 / np.median(row))


def test_bursts_that_all_began_at_one_moment_cannot_drift() -> None:
    assert np.isnan(drift_of(np.linspace(50, 60, 12), np.zeros(12)))


def test_one_or_two_bursts_cannot_drift() -> None:
    assert np.isnan(drift_of([50.0]))
    assert np.isnan(drift_of([50.0, 90.0]))


def test_each_pair_is_judged_for_itself() -> None:
    rising, calm = np.linspace(50, 60, 20), np.tile([50.0, 50.1], 10)
    times = np.tile(np.arange(20.0), (3, 1))
    found = drift(np.stack([calm, rising, rising[::-1]]), times)
    assert np.isnan(found[0])
    assert found[1] > 0.1
    assert found[2] == pytest.approx(-found[1])


# Directions


def asymmetry_of(forth: list[float], back: list[float]) -> float:
    """The asymmetry of pair 1 of 3, whose bursts come in turn."""
    middles = np.array([*forth, *back, 5.0])
    turned = np.array([False] * len(forth) + [True] * len(back) + [False])
    pair = np.array([1] * (len(forth) + len(back)) + [2])
    found = asymmetry(middles, turned, pair, 3)
    assert np.isnan(found[[0, 2]]).all()
    return float(found[1])


STEADY = [50.0, 50.1, 49.9, 50.0]


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1.11, 0.11), (1.09, None), (1 / 1.11, 1 / 1.11 - 1), (1 / 1.09, None), (1.0, None)],
)
def test_a_direction_that_takes_over_a_tenth_longer_is_an_asymmetry(
    factor: float, expected: float | None
) -> None:
    found = asymmetry_of(STEADY, [factor * ns for ns in STEADY])
    assert found == pytest.approx(np.nan if expected is None else expected, nan_ok=True)


@pytest.mark.parametrize(("bursts", "proved"), [(DIRECTION_BURSTS, True), (DIRECTION_BURSTS - 1, False)])
def test_each_direction_takes_enough_bursts_to_prove_an_asymmetry(bursts: int, proved: bool) -> None:
    few, many = [50.0, 50.001, 50.0, 50.001][:bursts], [80.0, 80.001, 80.0, 80.001]
    assert np.isfinite(asymmetry_of(few, many)) == proved
    assert np.isfinite(asymmetry_of(many, few)) == proved


def test_directions_whose_intervals_overlap_are_not_told_apart() -> None:
    assert np.isnan(asymmetry_of([50.0, 70.0, 30.0, 50.0], [60.0, 80.0, 40.0, 60.0]))


# States


def states_of(*rows: dict[int, float]) -> tuple[list[list[int]], list[int]]:
    """The states of each benchmark's bursts, by visit, and the main one of each benchmark."""
    middles = np.array([ns for row in rows for ns in row.values()])
    visits, counts = np.array([at for row in rows for at in row]), np.array([*map(len, rows)])
    found, main = states(middles, visits, counts, np.zeros(len(rows), dtype=np.int64))
    return [part.tolist() for part in np.split(found, np.cumsum(counts)[:-1])], main.tolist()


def test_benchmarks_with_unlike_numbers_of_bursts_are_of_one_state() -> None:
    """The state with most bursts of readwrite is one of which cas has a single one."""
    cas = {at: 27 + at / 10 if at < 9 else 107.0 for at in range(10)}
    readwrite = {at: 51 + at / 10 if at < 9 else 250.0 + at / 10 for at in range(40)}
    found, main = states_of(cas, readwrite)
    assert found == [[0] * 9 + [1], [0] * 9 + [1] * 31]
    assert main == [0, 0]


def test_a_visit_that_lacks_a_burst_keeps_the_state_before() -> None:
    state = [at // 10 % 2 for at in range(40)]
    cas = {at: (27.0, 107.0)[one] + at % 3 / 10 for at, one in enumerate(state) if at != 12}
    readwrite = {at: (51.0, 250.0)[one] + at % 3 / 10 for at, one in enumerate(state) if at != 35}
    found, _ = states_of(cas, readwrite)
    assert found[0] == [one for at, one in enumerate(state) if at != 12]
    assert found[1] == [one for at, one in enumerate(state) if at != 35]


def test_what_only_both_together_prove_are_states() -> None:
    """Levels 6 % apart with 1.35 % of scatter: 4.3 times the scatter for one, 6.1 for both."""
    chance, state = np.random.default_rng(3), np.arange(60) // 10 % 2
    logs = np.log([[[27.0], [51.0]]]) + np.log(1.06) * state + 0.0135 * chance.normal(size=(20, 2, 60))
    together = states_of_rounds(logs)
    alone = split(np.exp(logs[:, 0]))
    assert (together == state).all(axis=1).mean() > 0.8
    assert alone.any(axis=1).mean() < 0.4


@pytest.mark.parametrize("seed", range(20))
def test_every_burst_has_a_state_however_often_a_round_visits_its_pair(seed: int) -> None:
    chance = np.random.default_rng(seed)
    counts = chance.integers(1, 9, 5)
    middles = 24 * np.where(chance.random(counts.sum()) < 0.3, 4.0, 1.0)
    visits = chance.integers(0, 5, counts.sum())
    found, main = states(middles, visits, counts, chance.integers(0, 3, 5))
    assert (len(found), len(main)) == (counts.sum(), 5)

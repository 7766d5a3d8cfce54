"""The tests behind a comparison, held against theory, a second reckoning, and simulated machines."""

import numpy as np
import pytest
from scipy import special, stats

from benchmarks import aa, power, sessions
from fleet.analysis.compare.fleet_effect import random_effects
from fleet.analysis.compare.inference import (
    beyond_p,
    change,
    change_in_blocks,
    detectable,
    false_discovery,
    moderated_p,
    prior,
)


def test_a_change_of_sides_with_as_many_runs_is_students_t_on_logarithms() -> None:
    a, b = np.array([50.0, 51.0, 49.5, 50.4]), np.array([52.0, 55.0, 53.0, 54.0])
    found, other = change(a, b), stats.ttest_ind(np.log(b), np.log(a))
    interval = other.confidence_interval(0.95)
    assert found.p == pytest.approx(other.pvalue)
    assert (found.low, found.high) == pytest.approx((np.exp(interval.low), np.exp(interval.high)))
    assert found.freedom == 6


def test_a_change_of_sides_with_unlike_numbers_of_runs_is_welchs() -> None:
    a, b = np.array([50.0, 51.0, 49.5, 50.4]), np.array([52.0, 55.0, 53.0])
    found = change(a, b)
    other = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    interval = other.confidence_interval(0.95)
    assert found.p == pytest.approx(other.pvalue)
    assert (found.low, found.high) == pytest.approx((np.exp(interval.low), np.exp(interval.high)))
    assert found.ratio == pytest.approx(np.exp(np.log(b).mean() - np.log(a).mean()))


@pytest.mark.parametrize(("a", "b"), [([50.0], [100.0]), ([50.0, 50.1], [99.0, 100.0, 101.0])])
def test_fewer_than_three_values_prove_nothing(a: list[float], b: list[float]) -> None:
    found = change(np.array(a), np.array(b))
    assert found.ratio > 1.9
    assert np.isnan([found.low, found.high, found.p, found.error, found.freedom]).all()


def test_equal_values_are_known_no_better_than_the_clock_tells() -> None:
    """A coarse clock gives the same number again and again; that is no certainty."""
    found = change(np.full(3, 50.0), np.full(3, 50.01))
    assert found.low < 1 < found.high
    assert found.high / found.low < 1.003


def welch(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Change, error and degrees of freedom of many comparisons: comparisons x sides x runs."""
    errors = logs.var(axis=2, ddof=1) / logs.shape[2]
    freedom = errors.sum(axis=1) ** 2 / (errors**2 / (logs.shape[2] - 1)).sum(axis=1)
    means = logs.mean(axis=2)
    return means[:, 1] - means[:, 0], np.sqrt(errors.sum(axis=1)), freedom


@pytest.mark.parametrize(("runs", "scatter", "level"), [(3, 0.05, 0.05), (5, 0.02, 0.05), (5, 0.05, 0.005)])
def test_the_change_named_is_detected_four_times_in_five(runs: int, scatter: float, level: float) -> None:
    """Each comparison names a change; so large a one is added to another comparison of the same machine."""
    chance, matters = np.random.default_rng(5), np.log1p(0.03)
    named, later = chance.normal(0, scatter, (2, 4000, 2, runs))
    _, error, freedom = welch(named)
    later[:, 1] += detectable(error, freedom, level, np.full(len(error), matters))[:, None]
    moved, error, freedom = welch(later)
    p = 2 * stats.t.sf(np.abs(moved) / error, freedom)
    assert 0.75 < ((p < level) & (moved > matters)).mean() < 0.85


def test_a_change_is_beyond_the_threshold_where_the_interval_is() -> None:
    moved, error, freedom = np.array([0.05, -0.05, 0.02]), np.full(3, 0.005), np.full(3, 8.0)
    half = stats.t.ppf(0.975, 8) * 0.005
    p = beyond_p(moved, error, freedom, np.abs(moved) - half)
    np.testing.assert_allclose(p, 0.05)
    assert beyond_p(moved, error, freedom, np.full(3, 0.06)).tolist() == [1, 1, 1]


def test_the_prior_finds_what_the_variances_were_drawn_from() -> None:
    chance, own, freedom, level = np.random.default_rng(3), 8, 10.0, 0.0004
    true = level * freedom / chance.chisquare(freedom, 20_000)
    drawn = true * chance.chisquare(own, len(true)) / own
    found, around = prior(drawn, own)
    assert found == pytest.approx(freedom, rel=0.1)
    assert around == pytest.approx(level, rel=0.05)


def test_variances_that_differ_by_chance_only_have_an_infinite_prior() -> None:
    own = 4
    even = 0.01 * stats.chi2.ppf((np.arange(200) + 0.5) / 200, own) / own
    assert prior(even[60:140], own)[0] == float("inf")
    assert prior(np.array([0.1, 0.2]), own) == (0.0, 1.0)
    x = prior(even * np.exp(np.linspace(-2, 2, 200)), own)[0] / 2
    e = np.log(even * np.exp(np.linspace(-2, 2, 200)))
    assert special.polygamma(1, x) == pytest.approx(e.var(ddof=1) - special.polygamma(1, own / 2))


@pytest.mark.parametrize("together", [0.0, 0.01, 0.05])
def test_moderated_p_is_uniform_where_nothing_changed(together: float) -> None:
    """Also where all pairs of a run move together, which makes rows anything but independent."""
    chance, p = np.random.default_rng(11), []
    for _ in range(400):
        own = 0.01 * np.sqrt(4 / chance.chisquare(4, (40, 1)))
        logs = chance.normal(0, 1, (40, 6)) * own + chance.normal(0, together, (1, 6))
        p.append(moderated_p(logs[:, :3], logs[:, 3:]))
    assert 0.03 < (np.concatenate(p) < 0.05).mean() < 0.085


def test_a_single_pair_is_judged_by_its_own_variance() -> None:
    logs = np.log([[50, 51, 52, 60, 61, 62]])
    plain = stats.ttest_ind(logs[0, :3], logs[0, 3:]).pvalue
    assert moderated_p(logs[:, :3], logs[:, 3:])[0] == pytest.approx(plain, rel=0.05)


def test_q_is_benjamini_and_hochbergs() -> None:
    p = np.array([0.001, 0.04, 0.03, 0.8])
    assert false_discovery(p) == pytest.approx([0.004, 0.16 / 3, 0.16 / 3, 0.8])
    assert len(false_discovery(np.array([]))) == 0


def test_an_unchanged_machine_is_called_changed_one_time_in_twenty() -> None:
    """The full study is benchmarks/aa.py; 30 simulations of a true 5 % pass 20 % once in a thousand."""
    tally = aa.nothing_changed(aa.SERVER, 3, simulations=30, seed=2, pairs=10)
    relation, verdict, pair, any_pair, naive = tally.rates()
    assert relation <= 0.2
    assert verdict == 0
    assert pair < 0.1
    assert any_pair < 0.2
    assert naive > 0.5  # what everybody does says "different" of one machine, unchanged


def test_five_percent_are_found_with_five_runs_on_a_quiet_server() -> None:
    assert power.class_power(aa.SERVER, 5, 0.05, simulations=8, seed=4) >= 0.95
    named, false = power.pair_power(aa.SERVER, 5, 0.05, simulations=3, seed=4)
    assert named >= 0.9
    assert false < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_the_class_test_keeps_its_five_percent(runs: int) -> None:
    """300 simulations of a true 5 % lie within 2 % and 9 % all but once in a thousand times."""
    relation = aa.nothing_changed(aa.SERVER, runs, simulations=300, seed=runs, pairs=6, naive=False).rates()[
        0
    ]
    assert 0.02 <= relation <= 0.09


def test_three_values_a_side_are_enough_and_sides_may_be_of_unequal_length() -> None:
    a, b = np.array([50.0, 51.0, 52.0]), np.array([50.5, 51.5, 50.0, 52.5, 53.0])
    for found, (one, other) in ((change(a, b), (a, b)), (change(b, a), (b, a))):
        expected = stats.ttest_ind(np.log(other), np.log(one), equal_var=False)
        assert found.p == pytest.approx(expected.pvalue)


def test_a_value_is_known_to_a_thousandth_of_itself_at_best() -> None:
    """Equal values have the variance of a number rounded to a thousandth: 0.001 squared over 12."""
    found = change(np.full(3, 50.0), np.full(3, 50.0))
    error = np.sqrt(2 * 0.001**2 / 12 / 3)
    assert np.log(found.high) == pytest.approx(stats.t.ppf(0.975, 4) * error)
    assert found.p == 1


def by_smyth(a: np.ndarray, b: np.ndarray) -> list[float]:  # type: ignore[type-arg]
    """Moderated p, reckoned again with the rows in a loop and the prior as the module finds it."""
    runs_a, runs_b = a.shape[1], b.shape[1]
    own = runs_a + runs_b - 2
    shift = [side.mean(axis=0) for side in (a, b)]
    common = sum(((each - each.mean()) ** 2).sum() for each in shift) / own
    alone = []
    for row_a, row_b in zip(a - shift[0], b - shift[1], strict=True):
        squares = ((row_a - row_a.mean()) ** 2).sum() + ((row_b - row_b.mean()) ** 2).sum()
        alone.append(max(squares / own, 0.001**2 / 12))
    freedom, level = prior(np.array(alone), own)
    found = []
    for row_a, row_b, variance in zip(a, b, alone, strict=True):
        shrunk = level if np.isinf(freedom) else (freedom * level + own * variance) / (freedom + own)
        of_shrunk = min(freedom + own, own * len(a))
        df = (common + shrunk) ** 2 / (common**2 / own + shrunk**2 / of_shrunk)
        t = (row_b.mean() - row_a.mean()) / np.sqrt((common + shrunk) * (1 / runs_a + 1 / runs_b))
        found.append(2 * stats.t.sf(abs(t), df))
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("runs_a", "runs_b", "pairs"), [(3, 3, 20), (3, 6, 5), (8, 4, 40), (4, 4, 2), (3, 3, 1)]
)
def test_moderated_p_is_smyths_with_a_common_part(seed: int, runs_a: int, runs_b: int, pairs: int) -> None:
    chance = np.random.default_rng(seed)
    own = 0.01 * np.sqrt(4 / chance.chisquare(4, (pairs, 1)))
    logs = chance.normal(0, 1, (pairs, runs_a + runs_b)) * own + chance.normal(0, 0.01, (1, runs_a + runs_b))
    logs[0, runs_a:] += 0.05
    a, b = logs[:, :runs_a], logs[:, runs_a:]
    np.testing.assert_allclose(moderated_p(a, b), by_smyth(a, b))


def test_rows_moved_to_one_level_lose_degrees_of_freedom() -> None:
    logs = 0.01 * np.random.default_rng(1).normal(size=(8, 10))
    logs[:, 5:] += 0.02
    usual = moderated_p(logs[:, :5], logs[:, 5:])
    fewer = moderated_p(logs[:, :5], logs[:, 5:], np.array([6.0] + [np.inf] * 7))
    assert fewer[0] > usual[0]
    np.testing.assert_array_equal(fewer[1:], usual[1:])


def test_rows_without_scatter_of_their_own_are_not_certain() -> None:
    same = np.tile([[0.0, 0.001, -0.001, 0.0, 0.001, -0.001]], (4, 1))
    assert (moderated_p(same[:, :3], same[:, 3:]) > 0.99).all()


@pytest.mark.parametrize("freedom", [0.5, 2.0, 30.0, 3000.0])
@pytest.mark.parametrize("own", [2, 4, 16])
def test_the_prior_solves_smyths_equations(freedom: float, own: int) -> None:
    """Equation by equation: the variance and the mean of the logarithms are those the prior predicts."""
    spread = np.sqrt(special.polygamma(1, own / 2) + special.polygamma(1, freedom / 2))
    logs = stats.norm.ppf((np.arange(50) + 0.5) / 50)
    logs = -7 + logs / logs.std(ddof=1) * spread
    found, level = prior(np.exp(logs), own)
    assert found == pytest.approx(freedom, rel=1e-4)
    expected = (
        -7 - special.digamma(own / 2) + np.log(own / 2) + special.digamma(found / 2) - np.log(found / 2)
    )
    assert np.log(level) == pytest.approx(expected)


def test_three_variances_have_a_prior_and_equal_ones_an_infinite_one_at_their_mean() -> None:
    assert prior(np.array([0.1, 0.2, 4.0]), 4)[0] > 0
    freedom, level = prior(np.full(3, 0.1), 4)
    assert freedom == float("inf")
    assert level == pytest.approx(0.1 * 2 / np.exp(special.digamma(2)))


def test_a_session_of_many_hosts_has_one_error_rate() -> None:
    """The full study is benchmarks/sessions.py; tested one by one, most sessions would report a change."""
    _, _, some, together, _, power = sessions.rates("normal", (6, 4), 5, simulations=30, seed=2)
    assert some > 0.5
    assert together <= 0.2
    assert power > 0.9


def test_within_blocks_a_change_is_that_of_a_paired_test() -> None:
    a, b = np.array([50.0, 60.0, 55.0, 70.0]), np.array([52.0, 61.5, 57.5, 72.0])
    blocks = [(name, 0) for name in "wxyz"]
    found = change_in_blocks(a, b, blocks, blocks)
    paired = stats.ttest_rel(np.log(b), np.log(a))
    interval = paired.confidence_interval(0.95)
    assert found.p == pytest.approx(paired.pvalue)
    assert (found.low, found.high) == pytest.approx((np.exp(interval.low), np.exp(interval.high)))
    assert np.isnan(change_in_blocks(a[:2], b[:2], blocks[:2], blocks[:2]).p)


def test_a_steady_drift_is_no_scatter_within_blocks_by_time() -> None:
    """Least squares with an effect of each block, of the side, and of the turn."""
    turns, of_b = np.arange(8), np.array([0, 1, 1, 0, 0, 1, 1, 0], dtype=bool)
    logs = 0.05 * turns + 0.03 * of_b + 0.001 * np.random.default_rng(1).normal(size=8)
    blocks = [("wxyz"[turn // 2], int(turn)) for turn in turns]
    a, b = (
        [block for block, here in zip(blocks, of_b, strict=True) if here == side] for side in (False, True)
    )
    found = change_in_blocks(np.exp(logs[~of_b]), np.exp(logs[of_b]), a, b)
    design = np.column_stack([np.eye(4)[turns // 2], of_b, turns])
    effects, squares, *_ = np.linalg.lstsq(design, logs, rcond=None)
    assert np.log(found.ratio) == pytest.approx(effects[4])
    assert found.error == pytest.approx(np.sqrt(squares[0] / 2 * np.linalg.inv(design.T @ design)[4, 4]))
    assert found.freedom == 2


def test_blocks_without_runs_of_both_sides_prove_nothing() -> None:
    a, b = np.array([50.0, 51.0, 52.0]), np.array([60.0, 61.0])
    found = change_in_blocks(a, b, [("x", 0), ("y", 0), ("z", 0)], [("u", 0), ("v", 0)])
    assert found.ratio == pytest.approx(1.186, abs=0.01)
    assert np.isnan(found.p)


def test_a_drift_that_the_order_of_the_sides_hides_is_left_in() -> None:
    """Where A is always first, nothing tells a drift from the change."""
    a, b = np.array([50.0, 60.0, 55.0, 70.0]), np.array([52.0, 61.5, 57.5, 72.0])
    first, then = ([(name, 2 * at + later) for at, name in enumerate("wxyz")] for later in (0, 1))
    found = change_in_blocks(a, b, first, then)
    assert found.p == pytest.approx(stats.ttest_rel(np.log(b), np.log(a)).pvalue)


@pytest.mark.parametrize(("between", "least"), [(0.0, 0.9), (0.03, 0.9)])
def test_the_interval_over_all_hosts_holds_their_mean_change(between: float, least: float) -> None:
    chance, held = np.random.default_rng(7), []
    for _ in range(400):
        errors = chance.uniform(0.003, 0.01, 10)
        changes = np.log(1.02) + chance.normal(0, between, 10) + chance.normal(0, errors)
        ratio, low, high, *_ = random_effects(changes, errors)
        assert low <= ratio <= high
        held.append(low < 1.02 < high)
    assert least < np.mean(held) < 0.99


@pytest.mark.slow
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_hosts_that_switch_between_levels_do_not_make_a_session_report_a_change(runs: int) -> None:
    """Runs all at one level on A and all at another on B were a change in half of such sessions."""
    _, _, some, together, _, _ = sessions.rates("flips", (20, 8), runs, simulations=20, seed=3)
    assert some > 0.5
    assert together <= 0.2

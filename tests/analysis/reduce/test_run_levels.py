"""The one rule of levels between runs."""

import numpy as np
import pytest

from fleet.analysis.reduce import (
    estimate_scatter,
    find_main_levels,
    label_levels,
    label_levels_of_hosts,
)


def test_a_gap_of_eight_percent_or_six_times_the_scatter_is_another_level() -> None:
    rows = np.log([[50, 50.5, 54.6, 128, np.nan], [50, 50.5, 54, 57, 61]])
    assert label_levels(rows, 0.01).tolist() == [[0, 0, 1, 2, -1], [0, 0, 0, 0, 0]]
    assert label_levels(rows[:1], 0.02).tolist() == [[0, 0, 0, 1, -1]]


def test_runs_at_other_levels_do_not_widen_the_usual_scatter() -> None:
    log_ns = np.random.default_rng(1).normal(0, 0.01, (200, 10))
    plain = estimate_scatter(log_ns)
    assert 0.007 < plain < 0.013
    log_ns[:, [2, 7]] += np.log(2)
    assert estimate_scatter(log_ns) < 2 * plain


def test_a_drift_does_not_hide_two_levels() -> None:
    drift = np.linspace(0, 0.08, 40)
    which = np.arange(40) % 3 % 2
    log_ns = drift + np.log(1.25) * which
    scatter = 0.04  # 6 times that is more than the gap
    assert (label_levels(log_ns[None, :], scatter) == which).all()
    few = log_ns[which == 0][:4]
    with_few = np.concatenate([few, log_ns[which == 1]])
    assert label_levels(with_few[None, :], scatter).max() == 0


def test_scatter_alone_has_one_level() -> None:
    log_ns = np.random.default_rng(3).normal(0, 0.05, (2000, 40))
    assert label_levels(log_ns, 0.05).max() == 0


def test_levels_of_a_quiet_benchmark_are_not_hidden_by_a_noisy_one() -> None:
    chance = np.random.default_rng(2)
    switches = np.arange(12) % 2
    noisy = chance.normal(0, 0.03, (4, 12))
    quiet = chance.normal(0, 0.003, (4, 12))
    quiet += np.log(1.12) * switches
    rows = np.vstack([noisy, quiet])
    benchmark_of_row = np.repeat([0, 1], 4)
    labels = label_levels_of_hosts(rows, benchmark_of_row)
    assert labels[:4].max() == 0
    assert (labels[4:] == switches).all()


@pytest.mark.parametrize(
    ("runs", "main"),
    [
        ([62.0, 6.0, 62.5, 63.0, 6.1, 130.0, 62.2], [0, 2, 3, 6]),
        ([24.0, 50.0], [0]),
        ([24.0, 24.5, 50.0], [0, 1]),
        ([24.0, 50.0, 110.0], [0]),
        ([50.0, 52.0, 53.0], [0, 1, 2]),
        ([50.0], [0]),
    ],
)
def test_the_main_level_is_that_of_most_runs_of_several_the_lowest(
    runs: list[float], main: list[int]
) -> None:
    labels = label_levels_of_hosts(np.log([runs]), np.zeros(1, dtype=np.int64))
    is_main = labels[0] == find_main_levels(labels)[0]
    assert np.flatnonzero(is_main).tolist() == main

"""Levels that differ between runs of one machine."""

import numpy as np
import pytest

from fleet.analysis.reduce.split import geometric_mean, runs_by_level


@pytest.mark.parametrize("seed", range(3))
def test_the_level_of_most_runs_comes_first_and_no_two_are_mixed(seed: int) -> None:
    noise = np.exp(0.01 * np.random.default_rng(seed).normal(size=8))
    runs = np.array([62.0, 6.0, 62.0, 62.0, 6.0, 130.0, 62.0, 62.0]) * noise
    most, *others = runs_by_level(runs)
    assert most.tolist() == runs[[0, 2, 3, 6, 7]].tolist()
    assert [len(values) for values in others] == [2, 1]
    assert geometric_mean(most) == pytest.approx(62, rel=0.02)


def test_of_levels_with_as_many_runs_the_faster_one_comes_first() -> None:
    runs = np.array([50.0, 24.0, 50.3, 24.1, 24.2, 50.1])
    assert [values.tolist() for values in runs_by_level(runs)] == [[24.0, 24.1, 24.2], [50.0, 50.3, 50.1]]


def test_runs_that_scatter_are_at_one_level() -> None:
    for runs in ([50.0], [50.0, 52.0, 53.0], [50.0, 56.0, 62.0, 68.0, 74.0]):
        assert len(runs_by_level(np.array(runs))) == 1

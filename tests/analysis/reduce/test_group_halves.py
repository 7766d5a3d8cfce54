"""The intervals of the numbers between groups of CPUs."""

import numpy as np
import pytest

from fleet.analysis.reduce import Layout, PairHalves, estimate_group_halves, map_groups

CPUS = tuple(range(32))
ORDER = Layout(CPUS, tuple((0, 0, 0, cpu // 16 * 16, 0, cpu) for cpu in CPUS))


def draw_table(true: np.ndarray, noise: float, seed: int) -> np.ndarray:
    """Draw what is measured of symmetric pairs."""
    random = np.random.default_rng(seed)
    upper = np.triu(true * (1 + noise * random.standard_normal(true.shape)), 1)
    table = upper + upper.T
    np.fill_diagonal(table, np.nan)
    return table


@pytest.mark.parametrize("scatter", [0.0, 0.02, 0.3])
def test_the_interval_is_as_wide_as_repeated_medians_scatter(scatter: float) -> None:
    noise = 0.02
    true = 50 * np.exp(
        scatter * np.random.default_rng(1).standard_normal((len(CPUS),) * 2)
    )
    tables = [draw_table(true, noise, seed) for seed in range(100)]
    medians = np.array([map_groups(table, ORDER, 2).values for table in tables])
    own = np.full(true.shape, 1.96 * noise)
    halves = PairHalves(own, shared=np.zeros(true.shape))
    estimated = np.mean(
        [estimate_group_halves(table, halves, ORDER, 2) for table in tables], axis=0
    )
    scattered = 1.96 * medians.std(axis=0) / medians.mean(axis=0)
    assert (estimated / scattered).round(1) == pytest.approx(1, abs=0.4)


def test_what_all_pairs_of_a_relation_share_is_added_and_unknown_stays_unknown() -> (
    None
):
    table = draw_table(np.full((len(CPUS),) * 2, 50.0), 0.01, 0)
    own = np.full(table.shape, 0.02)
    own[:16, 16:] = np.nan
    halves = PairHalves(own, shared=np.full(table.shape, 0.05))
    within, between = estimate_group_halves(table, halves, ORDER, 2)[0]
    assert 0.05 < within < 0.06
    assert np.isnan(between)

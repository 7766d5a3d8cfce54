"""What a map of changes may colour: pairs beyond chance over all pairs together."""

import numpy as np
import pytest

from fleet.analysis.compare import find_chance_limits

PAIRS, NOISE, MAPS = 120, 0.01, 150


@pytest.mark.long
@pytest.mark.parametrize("runs", [1, 3])
def test_of_maps_of_noise_about_one_in_twenty_has_a_coloured_pair(runs: int) -> None:
    rng = np.random.default_rng(7)
    relations = np.array(["llc", "package"] * (PAIRS // 2), dtype=object)
    coloured = 0
    for _ in range(MAPS):
        a, b = rng.normal(0, NOISE, (2, PAIRS, runs))
        limit = find_chance_limits(a, b, relations)
        coloured += bool((np.abs(b.mean(axis=1) - a.mean(axis=1)) > limit).any())
    assert coloured <= 0.1 * MAPS


def test_a_pair_that_changed_alone_is_beyond_chance() -> None:
    rng = np.random.default_rng(8)
    a, b = rng.normal(0, NOISE, (2, PAIRS, 3))
    b[5] += 0.2
    limit = find_chance_limits(a, b, ["llc"] * PAIRS)
    assert np.flatnonzero(np.abs(b.mean(axis=1) - a.mean(axis=1)) > limit).tolist() == [5]


def test_single_runs_of_few_pairs_are_no_evidence() -> None:
    assert np.isinf(find_chance_limits(np.zeros((3, 1)), np.ones((3, 1)), ["smt"] * 3)).all()

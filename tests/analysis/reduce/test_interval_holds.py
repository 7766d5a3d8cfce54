"""The promise behind ±95 %: simulated pairs of known latency, autocorrelated, in two
modes, drifting.
"""

import numpy as np
import pytest

from benchmarks import interval

PLAIN = {"as measured"}  # the others vary it


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, marks=[] if c.name in PLAIN else pytest.mark.slow, id=c.name)
        for c in interval.CASES
    ],
)
def test_the_interval_covers_the_truth_in_ninety_of_a_hundred_runs(
    case: interval.Case,
) -> None:
    """100 runs would fail by chance; 300 of a true 95 % fall below 90 % once in ten
    thousand times.
    """
    covered, _, half = interval.coverage(case, runs=300, seed=20)
    assert covered >= 0.9
    assert half < 0.1  # an interval that covers because it is endless promises nothing


def test_one_burst_taken_for_independent_samples_does_not_cover_it() -> None:
    """What the bursts are for: the same machine judged by the samples of a single
    burst.
    """
    assert interval.naive(interval.CASES[0], 200, np.random.default_rng(3)) < 0.8

"""The interval of a relation, from the medians of its pairs by round."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.relation_spreads import CASES, compute_coverage
from fleet.analysis.reduce import compute_numbers, pair_medians
from fleet.model import SHIPPED
from tests import builders
from tests.analysis.reduce.test_matrices import TICK, frame
from tests.intervals import half_width

ACROSS_SOCKETS = {(0, 2): 1000, (1, 2): 1200}


def measure(folder: Path, factors: tuple[tuple[float, ...], ...]):
    """Pairs of one relation: a row of factors for each pair, one for each round."""
    bursts = []
    for (ping, pong), row in zip(ACROSS_SOCKETS, factors, strict=True):
        for round_, factor in enumerate(row):
            ticks = round(ACROSS_SOCKETS[ping, pong] * factor)
            burst = builders.a_burst(
                ping_cpu=ping,
                pong_cpu=pong,
                round=round_,
                ticks=(0, ticks, ticks),
            )
            bursts.append(burst)
    return pair_medians(frame(folder, bursts))


def test_three_rounds_are_three_values(tmp_path: Path) -> None:
    """All pairs of a round vary together."""
    rounds = (1.0, 1.05, 0.98)
    pairs = measure(tmp_path, (rounds, rounds))
    numbers = compute_numbers(pairs, pairs[:0], SHIPPED)
    (row,) = numbers.to_dict("records")
    values = [1100 * factor for factor in rounds]
    assert row["median_ns"] == pytest.approx(1100 * TICK)
    assert row["spread"] == pytest.approx(half_width(values) * np.mean(values) / 1100)


def test_pairs_that_vary_on_their_own_know_their_relation_better(
    tmp_path: Path,
) -> None:
    factors = ((1.0, 1.05, 0.98), (1.0, 0.97, 1.02))
    pairs = measure(tmp_path, factors)
    numbers = compute_numbers(pairs, pairs[:0], SHIPPED)
    (row,) = numbers.to_dict("records")
    assert row["spread"] < pairs["spread"].median() < row["widest"]


def test_a_relation_of_one_pair_has_the_interval_of_the_pair(tmp_path: Path) -> None:
    bursts = [
        builders.a_burst(round=round_, ticks=(0, ticks, ticks))
        for round_, ticks in enumerate((100, 103, 98, 250))
    ]
    (pair,) = pair_medians(frame(tmp_path, bursts)).to_dict("records")
    assert pair["relation_spread"] == pair["spread"] > 0


def test_a_single_round_has_no_interval(tmp_path: Path) -> None:
    pairs = measure(tmp_path, ((1.0,), (1.02,)))
    assert pairs["relation_spread"].isna().all()


@pytest.mark.long
@pytest.mark.parametrize("case", CASES[:4], ids=lambda case: case.name)
def test_three_rounds_hold_the_long_run_number(case) -> None:
    chance = np.random.default_rng(4)
    held, _ = compute_coverage(case, 30, runs=100, rounds=3, chance=chance)
    assert held >= 0.90, "93 % is asked, of which 100 runs tell 90"

"""Simulate a change of known size, and count how often a comparison finds it.

Usage: python benchmarks/power.py [--simulations 200] [--seed 1]

The machines are those of benchmarks/aa.py. `class`: all pairs became slower by the
change; share of simulations whose verdict is `changed`. `pairs`: one pair in ten did;
share of these that are named. `false`: of the pairs named, those that did not change.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks import aa
from tests.two_sides import compare_pairs, compare_relations

ONE_IN = 10


def class_power(
    machine: aa.Machine, runs: int, change: float, simulations: int, seed: int
) -> float:
    """Share of simulations in which a change of the whole relation gets the verdict
    `changed`.
    """
    chance = np.random.default_rng(seed)
    count = 0
    for _ in range(simulations):
        both = aa.samples(machine, 2 * runs, chance)
        rows_a = aa.pair_rows(both[:runs], "a")
        rows_b = aa.pair_rows(both[runs:] * (1 + change), "b")
        relations = compare_relations(rows_a, rows_b, aa.THRESHOLD)
        count += relations["verdict"][0] == "changed"
    return count / simulations


def pair_power(
    machine: aa.Machine, runs: int, change: float, simulations: int, seed: int
) -> tuple[float, float]:
    """Share of changed pairs that are named, and the share of those named that did not
    change.
    """
    chance = np.random.default_rng(seed)
    is_changed = np.arange(aa.PAIRS) % ONE_IN == 0
    right = 0
    wrong = 0
    for _ in range(simulations):
        both = aa.samples(machine, 2 * runs, chance)
        both[runs:, is_changed] *= 1 + change
        rows_a = aa.pair_rows(both[:runs], "a")
        rows_b = aa.pair_rows(both[runs:], "b")
        pairs = compare_pairs(rows_a, rows_b, aa.THRESHOLD).sort_values("pong_cpu")
        is_named = (pairs["verdict"] == "changed").to_numpy()
        right += int(is_named[is_changed].sum())
        wrong += int(is_named[~is_changed].sum())
    changed_pairs = simulations * is_changed.sum()
    return right / changed_pairs, wrong / max(right + wrong, 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per machine, change and number of runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    print(f"{'machine':<8} change  runs  class  pairs  false")
    for machine in aa.MACHINES:
        for change in (0.05, 0.10):
            for runs in (3, 5, 10):
                by_class = class_power(
                    machine, runs, change, options.simulations, options.seed
                )
                by_pair, false = pair_power(
                    machine, runs, change, options.simulations, options.seed
                )
                rates = f"{by_class:>6.0%} {by_pair:>6.0%} {false:>6.1%}"
                print(f"{machine.name:<8} {change:>6.0%} {runs:>5} {rates}")


if __name__ == "__main__":
    main()

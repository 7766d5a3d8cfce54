"""Simulate short runs of machines with many pairs, and count how often the 95 % interval
of a relation holds its long-run number.

Usage: python -m benchmarks.relation_spreads [--runs 200] [--rounds 3] [--seed 1]

A relation has 1 to 100 pairs, whose latencies differ by 5 % (standard deviation). Each
burst scatters by 2 %, unless the line says otherwise; a shift of all pairs is drawn for
each round, and may keep a part of that of the round before. The long-run number is that
of a run of 100 rounds. Number and interval are those of `fleet show`.
"""

import argparse
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.reduce.burst_levels import find_main_bursts, summarize_bursts
from fleet.analysis.reduce.relation_spreads import BurstMedians, add_relation_spreads

PAIR_COUNTS = (1, 8, 100)
LONG = 100  # rounds
LEVEL_NS = 50.0
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated: standard deviations as shares; `carry_over`: the part of a
    round's shift that the next one keeps; a share of bursts takes `times` as long.
    """

    name: str
    pairs: float = 0.05
    bursts: float = 0.02
    rounds: float = 0.005
    carry_over: float = 0.0
    long_tail: float = 0.0
    others: float = 0.0
    times: float = 1.0


CASES = (
    Case("bursts alone", rounds=0.0),
    Case("pairs differ by 20 %", pairs=0.2, rounds=0.0),
    Case("rounds vary by 2.5 %", rounds=0.025),
    Case("the same, each keeps .3", rounds=0.025, carry_over=0.3),
    Case("the same, each keeps .6", rounds=0.025, carry_over=0.6),
    Case("long tails", bursts=0.0, long_tail=0.03),
    Case("20 % of bursts take 1.6 times", others=0.2, times=1.6),
    Case("30 % of bursts take .16 times", others=0.3, times=0.16),
)


def simulate_bursts(
    case: Case, levels: Floats, rounds: int, chance: np.random.Generator
) -> Floats:
    """Burst medians in ns, pairs x rounds. levels: ns of each pair."""
    shape = (len(levels), rounds)
    shifts = simulate_shifts(case, rounds, chance)
    scatter = chance.normal(0, case.bursts, shape)
    tail = np.exp(case.long_tail * np.abs(chance.standard_t(3, shape)))
    is_other = chance.random(shape) < case.others
    times = np.where(is_other, case.times, 1.0)
    bursts: Floats = levels[:, None] * (1 + shifts) * (1 + scatter) * tail * times
    return bursts


def simulate_shifts(case: Case, rounds: int, chance: np.random.Generator) -> Floats:
    """The shift of all pairs in each round, which keeps a part of the one before."""
    shifts = chance.normal(0, case.rounds, rounds)
    shifts[1:] *= (1 - case.carry_over**2) ** 0.5
    for place in range(1, rounds):
        shifts[place] += case.carry_over * shifts[place - 1]
    return shifts


def describe_relation(ns: Floats) -> tuple[float, float]:
    """The relation's number in ns, and half its interval as a share. ns: pairs x
    rounds.
    """
    pair_count, rounds = ns.shape
    flat = ns.ravel()
    pair_numbers = np.arange(pair_count)
    pair = np.repeat(pair_numbers, rounds)
    visits = np.tile(np.arange(rounds), pair_count)
    counts = np.full(pair_count, rounds)
    is_main = find_main_bursts(flat, counts, visits, pair_numbers)
    numbers = summarize_bursts(flat, counts, visits * 1.0, is_main)
    pairs = pd.DataFrame(numbers)
    for name in ("run_id", "benchmark", "variant", "point", "relation"):
        pairs[name] = ""
    medians = BurstMedians(flat, pair, visits, is_main)
    with_spread = add_relation_spreads(pairs, medians)
    number = with_spread["median_ns"].median()
    half = with_spread["relation_spread"].iloc[0]
    return float(number), float(half)


def compute_coverage(
    case: Case, pair_count: int, runs: int, rounds: int, chance: np.random.Generator
) -> tuple[float, float]:
    """Share of runs whose interval holds the long-run number (of a single pair: that of
    either level), and the median of half the intervals.
    """
    is_held = []
    halves = []
    for _ in range(runs):
        levels = LEVEL_NS * np.exp(chance.normal(0, case.pairs, pair_count))
        long_bursts = simulate_bursts(case, levels, LONG, chance)
        short_bursts = simulate_bursts(case, levels, rounds, chance)
        long_run, _ = describe_relation(long_bursts)
        number, half = describe_relation(short_bursts)
        truths = [long_run]
        if pair_count == 1:
            truths.append(long_run * case.times)
        distance = min(abs(number - truth) for truth in truths)
        is_held.append(distance <= half * number)
        halves.append(half)
    return float(np.mean(is_held)), float(np.median(halves))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    titles = [f"{count:,} pairs" for count in PAIR_COUNTS]
    print(format_line("held, and half the interval", titles))
    for case in CASES:
        chance = np.random.default_rng(options.seed)
        cells = []
        for count in PAIR_COUNTS:
            held, half = compute_coverage(
                case, count, options.runs, options.rounds, chance
            )
            cells.append(f"{held:.1%}, ±{half:.1%}")
        print(format_line(case.name, cells), flush=True)


def format_line(name: str, cells: list[str]) -> str:
    columns = "".join(f"{cell:>17}" for cell in cells)
    return f"{name:30}{columns}"


if __name__ == "__main__":
    main()

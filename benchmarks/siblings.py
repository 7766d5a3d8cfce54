"""Simulate equal machines, and count how often `fleet compare --siblings` finds one odd
that is, or is not.

Usage: python -m benchmarks.siblings [--sessions 100] [--seed 1]

Machines differ by 1 %, half of the variance common to all 8 relations; runs vary by 1
%, on some machines by 1.5 %. `levels`: one run in ten is at a level 2.1 times as high,
on virtual machines. `heavy`: machines differ by t(3). `any`: sessions in which a
machine is odd, and none was made so; `none`: machines x relations without a verdict; 5
%, 10 %: one relation of one machine is slower; `all 5 %`: all of one machine's are.
`CPUs`: 32 CPUs whose pairs vary by 2 %; one is slower.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from fleet.analysis.base import Floats
from fleet.analysis.compare import (
    THRESHOLD,
    Distances,
    compare_cpus,
    measure_distances,
    reduce_machines,
)
from fleet.analysis.reduce import label_levels_of_hosts

RELATIONS = 8
CPUS = 32
CELLS = [
    (count, runs, kind)
    for kind in ("normal", "levels", "heavy")
    for runs in (1, 3)
    for count in (3, 4, 8, 30, 100, 500)
]
_LEVEL = np.log(2.1)
_MOST = 12  # sessions of the largest


def session(
    chance: np.random.Generator, count: int, runs: int, kind: str, slower: Floats
) -> Distances:
    """One session; slower: the first machine's logarithm by relation."""
    machines = np.repeat(np.arange(count), runs)
    common, own = (
        (
            chance.standard_t(3, size) / 3**0.5
            if kind == "heavy"
            else chance.standard_normal(size)
        )
        for size in ((1, count), (RELATIONS, count))
    )
    machine_logs = 0.01 * 0.5**0.5 * (common + own)
    machine_logs[:, 0] += slower
    wide = np.where(np.arange(count) % 4 == 0, 0.015, 0.01)
    of_runs = machine_logs[:, machines] + wide[machines] * chance.standard_normal(
        (RELATIONS, len(machines))
    )
    if kind == "levels":
        of_runs += _LEVEL * (chance.random(of_runs.shape) < 0.1)
    levels = label_levels_of_hosts(of_runs, np.zeros(len(of_runs), dtype=np.int64))
    logs, _, noise = reduce_machines(
        of_runs, levels, machines, switches=kind == "levels"
    )
    return measure_distances(logs, THRESHOLD, noise=noise)


def simulate_cpus(chance: np.random.Generator, count: int, slower: float) -> Distances:
    """One session of CPUs; slower: the logarithm of the first machine's CPU 3."""
    pairs = 0.02 * chance.standard_normal((count, CPUS, CPUS))
    pairs = np.triu(pairs, 1) + np.triu(pairs, 1).transpose(0, 2, 1)
    pairs[0, 3] += slower
    pairs[0, :, 3] += slower
    pairs[:, range(CPUS), range(CPUS)] = np.nan
    return measure_distances(
        compare_cpus(pairs, np.zeros(CPUS, dtype=np.int64))[0], THRESHOLD, 0.5
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per number of machines, runs and kind of noise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    first_relation = np.eye(RELATIONS)[0]
    every_relation = np.ones(RELATIONS)
    print("kind    machines  runs  sessions   any   none    5%   10%  all 5%")
    for count, runs, kind in CELLS:
        chance = np.random.default_rng(options.seed)
        times = min(options.sessions, max(_MOST, 10000 // count))
        rows = []
        for _ in range(times):
            null = session(chance, count, runs, kind, 0 * first_relation)
            outcomes = [
                session(chance, count, runs, kind, np.log1p(by) * relations)
                for by, relations in (
                    (0.05, first_relation),
                    (0.1, first_relation),
                    (0.05, every_relation),
                )
            ]
            odd = [outcome.are_odd(THRESHOLD) for outcome in outcomes]
            rows.append(
                (
                    null.are_odd(THRESHOLD).any(),
                    np.isnan(null.p).mean(),
                    odd[0][0, 0],
                    odd[1][0, 0],
                    odd[2][:, 0].any(),
                )
            )
        shares = np.mean(rows, axis=0)
        print(
            f"{kind:<8}{count:>8}{runs:>6}{times:>10}"
            + "".join(f"{share:>6.0%}" for share in shares),
            flush=True,
        )
    print("CPUs: machines  sessions   any    3%    5%")
    for count in (8, 30):
        chance = np.random.default_rng(options.seed)
        null, *outcomes = (
            [
                simulate_cpus(chance, count, np.log1p(by)).are_odd(THRESHOLD)
                for _ in range(options.sessions)
            ]
            for by in (0, 0.03, 0.05)
        )
        shares = [
            np.mean([odd.any() for odd in null]),
            *(
                np.mean([odd[3, 0] for odd in odd_by_session])
                for odd_by_session in outcomes
            ),
        ]
        print(
            f"{count:>14}{options.sessions:>10}"
            + "".join(f"{share:>6.0%}" for share in shares),
            flush=True,
        )


if __name__ == "__main__":
    main()

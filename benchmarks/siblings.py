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
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

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
KINDS = ("normal", "levels", "heavy")
RUNS = (1, 3)
COUNTS = (3, 4, 8, 30, 100, 500)
_LEVEL = np.log(2.1)
_MOST = 12  # sessions of the largest


def session(
    chance: np.random.Generator, count: int, runs: int, kind: str, slower: Floats
) -> Distances:
    """One session; slower: the first machine's logarithm by relation."""
    common = draw_deviations(chance, (1, count), kind)
    own = draw_deviations(chance, (RELATIONS, count), kind)
    machine_logs = 0.01 * 0.5**0.5 * (common + own)
    machine_logs[:, 0] += slower

    machines = np.repeat(np.arange(count), runs)  # of each run
    scatter = np.where(machines % 4 == 0, 0.015, 0.01)
    noise_of_runs = chance.standard_normal((RELATIONS, len(machines)))
    run_logs = machine_logs[:, machines] + scatter * noise_of_runs
    if kind == "levels":
        run_logs += _LEVEL * (chance.random(run_logs.shape) < 0.1)

    one_host = np.zeros(RELATIONS, dtype=np.int64)
    levels = label_levels_of_hosts(run_logs, one_host)
    has_switches = kind == "levels"
    log_ns, _, noise = reduce_machines(
        run_logs, levels, machines, switches=has_switches
    )
    return measure_distances(log_ns, THRESHOLD, noise=noise)


def draw_deviations(
    chance: np.random.Generator, size: tuple[int, int], kind: str
) -> Floats:
    """Draw deviations with a variance of 1, from t(3) if they are heavy."""
    if kind == "heavy":
        return chance.standard_t(3, size) / 3**0.5
    return chance.standard_normal(size)


def simulate_cpus(chance: np.random.Generator, count: int, slower: float) -> Distances:
    """One session of CPUs; slower: the logarithm of the first machine's CPU 3."""
    noise = 0.02 * chance.standard_normal((count, CPUS, CPUS))
    above_diagonal = np.triu(noise, 1)
    pairs = above_diagonal + above_diagonal.transpose(0, 2, 1)
    pairs[0, 3] += slower
    pairs[0, :, 3] += slower
    pairs[:, range(CPUS), range(CPUS)] = np.nan
    one_package = np.zeros(CPUS, dtype=np.int64)
    log_ns, *_ = compare_cpus(pairs, one_package)
    return measure_distances(log_ns, THRESHOLD, 0.5)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per number of machines, runs and kind of noise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    print("kind    machines  runs  sessions   any   none    5%   10%  all 5%")
    for kind in KINDS:
        for runs in RUNS:
            for count in COUNTS:
                times = min(options.sessions, max(_MOST, 10000 // count))
                chance = np.random.default_rng(options.seed)
                rows = [judge_machines(chance, count, runs, kind) for _ in range(times)]
                shares = format_shares(np.mean(rows, axis=0))
                print(f"{kind:<8}{count:>8}{runs:>6}{times:>10}{shares}", flush=True)
    print("CPUs: machines  sessions   any    3%    5%")
    for count in (8, 30):
        chance = np.random.default_rng(options.seed)
        shares = format_shares(judge_cpus(chance, count, options.sessions))
        print(f"{count:>14}{options.sessions:>10}{shares}", flush=True)


def judge_machines(
    chance: np.random.Generator, count: int, runs: int, kind: str
) -> tuple[float, ...]:
    """Return any, none, 5 %, 10 % and all 5 % of a session of each."""
    first = np.eye(RELATIONS)[0]
    every = np.ones(RELATIONS)
    null = session(chance, count, runs, kind, 0 * first)
    by_5 = session(chance, count, runs, kind, np.log1p(0.05) * first)
    by_10 = session(chance, count, runs, kind, np.log1p(0.1) * first)
    all_by_5 = session(chance, count, runs, kind, np.log1p(0.05) * every)
    return (
        null.are_odd(THRESHOLD).any(),
        np.isnan(null.p).mean(),
        by_5.are_odd(THRESHOLD)[0, 0],
        by_10.are_odd(THRESHOLD)[0, 0],
        all_by_5.are_odd(THRESHOLD)[:, 0].any(),
    )


def judge_cpus(
    chance: np.random.Generator, count: int, sessions: int
) -> tuple[float, ...]:
    """Return the shares of sessions any, 3 % and 5 %."""

    def find_odd(slower: float) -> list[npt.NDArray[np.bool_]]:
        outcomes = [simulate_cpus(chance, count, slower) for _ in range(sessions)]
        return [outcome.are_odd(THRESHOLD) for outcome in outcomes]

    any_is_odd = [odd.any() for odd in find_odd(0.0)]
    is_found_at_3 = [odd[3, 0] for odd in find_odd(np.log1p(0.03))]
    is_found_at_5 = [odd[3, 0] for odd in find_odd(np.log1p(0.05))]
    return (
        float(np.mean(any_is_odd)),
        float(np.mean(is_found_at_3)),
        float(np.mean(is_found_at_5)),
    )


def format_shares(shares: Iterable[float]) -> str:
    return "".join(f"{share:>6.0%}" for share in shares)


if __name__ == "__main__":
    main()

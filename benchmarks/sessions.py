"""Simulate sessions that compare many hosts at once, and count how many report a change.

Usage: python -m benchmarks.sessions [--simulations 400] [--seed 1] [--hosts 20] [--relations 8]

Every host has the same number of runs on both sides, measured A B B A, and a number per run and relation.
`null`: how these vary from run to run by 1 %: independent and normal; heavy tails (Student's t with 3 degrees
of freedom); levels (one run in ten is 30 % faster); drift (1 % a run on top); AR .9 (each run resembles the
one before). `each`: relations whose interval excludes no change (5 % expected). `any`: sessions in which any
relation of any host would be reported if each were tested by itself. `session`: sessions in which one is
reported at the one error rate of a command (any q < 0.05), and `verdict`: with the verdict `changed`.
`power`: relations found where one in eight became 5 % slower.
"""

import argparse
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from fleet.analysis.compare.error_rate import judge_relations

THRESHOLD = 0.03
SCATTER, CHANGE = 0.01, 0.05
NULLS = ("normal", "heavy tails", "levels", "drift", "AR .9")
Floats = npt.NDArray[np.float64]


def logs(null: str, shape: tuple[int, int], runs: int, chance: np.random.Generator) -> tuple[Floats, Floats]:
    """Logarithms of the numbers of both sides: hosts x relations x runs each."""
    size = (*shape, 2 * runs)
    found = chance.normal(0, SCATTER, size)
    match null:
        case "heavy tails":
            found = SCATTER * chance.standard_t(3, size) / 3**0.5
        case "levels":
            found += np.where(chance.random(size) < 0.1, np.log(0.7), 0)
        case "drift":
            found += 0.01 * np.arange(2 * runs)
        case "AR .9":
            for at in range(1, 2 * runs):
                found[..., at] = 0.9 * found[..., at - 1] + (1 - 0.81) ** 0.5 * found[..., at]
    to_a = np.resize([True, False, False, True], 2 * runs)
    to_a[-1] ^= runs % 2 == 1 and to_a.sum() != runs
    return found[..., to_a], found[..., ~to_a]


def session(a: Floats, b: Floats) -> pd.DataFrame:
    """The relations of all hosts as one command judges them."""
    test = stats.ttest_ind(b, a, axis=-1, equal_var=False)
    interval = test.confidence_interval(0.95)
    moved = b.mean(axis=-1) - a.mean(axis=-1)
    columns = {
        "ratio": np.exp(moved),
        "low": np.exp(interval.low),
        "high": np.exp(interval.high),
        "p": test.pvalue,
        "error": moved / test.statistic,
        "freedom": test.df,
        "a_units": np.full(moved.shape, a.shape[-1]),
        "b_units": np.full(moved.shape, b.shape[-1]),
    }
    hosts = [pd.DataFrame({name: rows[host] for name, rows in columns.items()}) for host in range(len(a))]
    return pd.concat(judge_relations(hosts, [THRESHOLD] * len(hosts)))


def rates(
    null: str, shape: tuple[int, int], runs: int, simulations: int, seed: int
) -> tuple[float, float, float, float, float]:
    """Shares: each, any, session, verdict, power."""
    chance, found = np.random.default_rng(seed), []
    moved = np.arange(shape[0] * shape[1]).reshape(shape) % 8 == 0
    for _ in range(simulations):
        a, b = logs(null, shape, runs, chance)
        same = session(a, b)
        alone = same["p"] < 0.05
        slower = session(a, b + np.where(moved, np.log1p(CHANGE), 0)[..., None])
        power = (slower["verdict"][moved.ravel()] == "changed").mean()
        reported = (same["verdict"] == "changed").any()
        found.append((alone.mean(), alone.any(), (same["q"] < 0.05).any(), reported, power))
    each, some, together, verdict, power = np.mean(found, axis=0)
    return each, some, together, verdict, power


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per null and number of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--relations", type=int, default=8)
    asked = parser.parse_args(arguments)
    print(f"{'null':<12} runs   each    any  session  verdict  power")
    for null in NULLS:
        for runs in (3, 5, 10):
            shares = rates(null, (asked.hosts, asked.relations), runs, asked.simulations, asked.seed)
            row = (f"{share:>{width}.1%}" for share, width in zip(shares, (6, 6, 8, 8, 6), strict=True))
            print(f"{null:<12} {runs:>4} {' '.join(row)}")


if __name__ == "__main__":
    main()

"""Simulate runs in which nothing changed, and count how often a comparison says that
something did.

Usage: python benchmarks/aa.py [--simulations 400] [--seed 1]

Three machines, as noisy from run to run as measured ones: what moves a whole relation
in a run, and what moves a pair alone, each a share. On top every pair has bursts of
samples that resemble the one before. Each simulation compares two sides of R runs as
`fleet compare` does. `class`: share of simulations in which the relation's interval
excludes no change (promised: 5 %). `verdict`: in which the verdict is `changed`.
`pair`: share of pairs with p < 0.05. `any pair`: simulations that name any pair at all
as changed. `samples`: for comparison, share of pairs that Mann-Whitney's test on the
samples of one run against another calls different, p < 0.05, as is usual.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from fleet.analysis.compare import compare_pairs, compare_relations

PAIRS, BURSTS, SAMPLES = 64, 10, 5
AUTOCORRELATION, SCATTER = 0.5, 0.02
OUTLIERS = 0.004
LEVEL_NS = 50.0
THRESHOLD = 0.03
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Machine:
    """How a machine wanders from run to run: all pairs of a relation together, and each
    alone; shares.
    """

    name: str
    together: float
    alone: float


SERVER = Machine("server", 0.005, 0.01)
DESKTOP = Machine("desktop", 0.02, 0.03)
LAPTOP = Machine("laptop", 0.05, 0.08)
MACHINES = (SERVER, DESKTOP, LAPTOP)


def samples(
    machine: Machine, runs: int, chance: np.random.Generator, pairs: int = PAIRS
) -> Floats:
    """Latencies of `runs` runs: runs x pairs x samples."""
    shape = (runs, pairs, BURSTS * SAMPLES)
    steps = chance.normal(0, SCATTER * (1 - AUTOCORRELATION**2) ** 0.5, shape)
    steps[..., 0] /= (1 - AUTOCORRELATION**2) ** 0.5
    for place in range(1, shape[-1]):
        steps[..., place] += AUTOCORRELATION * steps[..., place - 1]
    level = chance.normal(0, machine.together, (runs, 1, 1)) + chance.normal(
        0, machine.alone, (runs, pairs, 1)
    )
    far = np.where(chance.random(shape) < OUTLIERS, chance.uniform(2, 20, shape), 1.0)
    latencies: Floats = LEVEL_NS * np.exp(level + steps) * far
    return latencies


def pair_rows(latencies: Floats, name: str) -> pd.DataFrame:
    """Make a side of a comparison: a row per run and pair with its median."""
    runs, pairs, _ = latencies.shape
    return pd.DataFrame(
        {
            "unit": np.repeat([f"{name}{run}" for run in range(runs)], pairs),
            "benchmark": "cas",
            "variant": "cmpxchg",
            "relation": "node",
            "ping_cpu": 0,
            "pong_cpu": np.tile(np.arange(pairs) + 1, runs),
            "median_ns": np.median(latencies, axis=2).ravel(),
            "spread": 0.01,
        }
    )


@dataclass(slots=True)
class Tally:
    """Counts over simulations; `rates` makes shares of them."""

    simulations: int = 0
    relations: int = 0
    verdicts: int = 0
    pairs: float = 0.0
    any_pair: int = 0
    naive: float = 0.0

    def add(self, a: Floats, b: Floats, *, naive: bool = True) -> None:
        """Compare two sides and count what was found."""
        rows = [pair_rows(side, name) for side, name in ((a, "a"), (b, "b"))]
        relation = compare_relations(rows[0], rows[1], THRESHOLD).iloc[0]
        pairs = compare_pairs(rows[0], rows[1], THRESHOLD)
        self.simulations += 1
        self.relations += not relation["low"] <= 1 <= relation["high"]
        self.verdicts += relation["verdict"] == "changed"
        self.pairs += (pairs["p"] < 0.05).mean()
        self.any_pair += bool((pairs["verdict"] == "changed").any())
        if naive:
            self.naive += (stats.mannwhitneyu(a[0], b[0], axis=1).pvalue < 0.05).mean()

    def rates(self) -> tuple[float, ...]:
        """Shares: class, verdict, pair, any pair, samples."""
        counts = (self.relations, self.verdicts, self.pairs, self.any_pair, self.naive)
        return tuple(count / self.simulations for count in counts)


def nothing_changed(
    machine: Machine,
    runs: int,
    simulations: int,
    seed: int,
    *,
    pairs: int = PAIRS,
    naive: bool = True,
) -> Tally:
    """Compare sides of `runs` runs of one unchanged machine, `simulations` times."""
    chance, tally = np.random.default_rng(seed), Tally()
    for _ in range(simulations):
        both = samples(machine, 2 * runs, chance, pairs)
        tally.add(both[:runs], both[runs:], naive=naive)
    return tally


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per machine and number of runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    print(f"{'machine':<8} runs  class  verdict   pair  any pair  samples")
    for machine in MACHINES:
        for runs in (3, 5, 10):
            rates = nothing_changed(
                machine, runs, options.simulations, options.seed
            ).rates()
            print(
                f"{machine.name:<8} {runs:>4} "
                + "".join(f"{rate:>8.1%}" for rate in rates)
            )


if __name__ == "__main__":
    main()

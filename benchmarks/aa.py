"""Simulate runs in which nothing changed, or take stored ones, and count how often a
comparison says that something did.

Usage: python -m benchmarks.aa [--simulations 400] [--seed 1]
       python -m benchmarks.aa --results results

Three machines, as noisy from run to run as measured ones: what moves a whole relation
in a run, and what moves a pair alone, each a share. On top every pair has bursts of
samples that resemble the one before. Each simulation compares two sides of R runs as
`fleet compare` does. `class`: share of simulations in which the relation's interval
excludes no change (promised: 5 %). `verdict`: in which the verdict is `changed`.
`pair`: share of pairs with p < 0.05. `any pair`: simulations that name any pair at all
as changed. `samples`: for comparison, share of pairs that Mann-Whitney's test on the
samples of one run against another calls different, p < 0.05, as is usual.

With --results, the runs are those of each host that has six or more of one plan, agent,
kernel and boot. They are split into sides in three orders: random, interleaved (A B B
A), and blocks, all of A before all of B. Splits share runs, so their shares are
approximate.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from fleet.analysis.compare import (
    ALPHA,
    Verdict,
    judge_comparisons,
)
from fleet.analysis.reduce import (
    as_float64,
    drop_points,
    load_pairs,
    load_runs,
    merge_descriptions,
)
from fleet.analysis.reduce.matrices import estimator_column
from fleet.store import Listing
from tests.two_sides import (
    compare_pairs,
    compare_relations,
    compare_relations_of_each,
    lay_out_two_pairs,
    lay_out_two_relations,
)

PAIRS = 64
BURSTS = 10
SAMPLES = 5
AUTOCORRELATION = 0.5
SCATTER = 0.02
OUTLIERS = 0.004
LEVEL_NS = 50.0
THRESHOLD = 0.03
SIZES = (3, 5, 10)
SPLITS = 12  # of each order, at most; they share runs, so more would tell little more
SHARES = ["class", "verdict", "pair"]
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
    count = BURSTS * SAMPLES
    shape = (runs, pairs, count)
    innovation = (1 - AUTOCORRELATION**2) ** 0.5  # of the scatter, in each sample
    noise = chance.normal(0, SCATTER * innovation, shape)
    noise[..., 0] /= innovation
    for place in range(1, count):
        noise[..., place] += AUTOCORRELATION * noise[..., place - 1]
    together = chance.normal(0, machine.together, (runs, 1, 1))
    alone = chance.normal(0, machine.alone, (runs, pairs, 1))
    is_far = chance.random(shape) < OUTLIERS
    times_too_long = chance.uniform(2, 20, shape)
    factor = np.where(is_far, times_too_long, 1.0)
    latencies: Floats = LEVEL_NS * np.exp(together + alone + noise) * factor
    return latencies


def pair_rows(latencies: Floats, name: str) -> pd.DataFrame:
    """Make a side of a comparison: a row per run and pair with its median."""
    runs, pairs, _ = latencies.shape
    units = [f"{name}{run}" for run in range(runs)]
    return pd.DataFrame(
        {
            "unit": np.repeat(units, pairs),
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

    def add(self, a: Floats, b: Floats) -> None:
        """Compare two sides and count what was found."""
        rows_a = pair_rows(a, "a")
        rows_b = pair_rows(b, "b")
        relation = compare_relations(rows_a, rows_b, THRESHOLD).iloc[0]
        pairs = compare_pairs(rows_a, rows_b, THRESHOLD)
        self.simulations += 1
        self.relations += excludes_no_change(relation)
        self.verdicts += relation["verdict"] == "changed"
        self.pairs += (pairs["p"] < 0.05).mean()
        self.any_pair += bool((pairs["verdict"] == "changed").any())
        p = stats.mannwhitneyu(a[0], b[0], axis=1).pvalue
        self.naive += (p < 0.05).mean()

    def rates(self) -> tuple[float, ...]:
        """Shares: class, verdict, pair, any pair, samples."""
        counts = (self.relations, self.verdicts, self.pairs, self.any_pair, self.naive)
        return tuple(count / self.simulations for count in counts)


def nothing_changed(
    machine: Machine,
    runs: int,
    simulations: int,
    seed: int,
    pairs: int = PAIRS,
) -> Tally:
    """Compare sides of `runs` runs of one unchanged machine, `simulations` times."""
    chance = np.random.default_rng(seed)
    tally = Tally()
    for _ in range(simulations):
        both = samples(machine, 2 * runs, chance, pairs)
        tally.add(both[:runs], both[runs:])
    return tally


def excludes_no_change(relation: Any) -> bool:
    """Return whether the interval of a judged relation excludes no change."""
    return not relation["low"] <= 1 <= relation["high"]


def measure_class_rate(
    machine: Machine, runs: int, simulations: int, seed: int, pairs: int = PAIRS
) -> float:
    """Return `class` of so many simulations. They are laid out together, which is far
    faster, and judged one by one.
    """
    chance = np.random.default_rng(seed)
    both = samples(machine, 2 * runs * simulations, chance, pairs)
    by_side = both.reshape(2, simulations * runs, *both.shape[1:])
    number = np.repeat(np.arange(simulations), runs * pairs)
    a, b = (
        pair_rows(latencies, name).assign(comparison=number)
        for latencies, name in zip(by_side, "ab", strict=True)
    )
    tables = compare_relations_of_each(a, b, THRESHOLD)
    return float(np.mean([excludes_no_change(table.iloc[0]) for table in tables]))


def count_stored_alarms(root: Path, seed: int) -> pd.DataFrame:
    """Split the runs of unchanged machines: a row per host, benchmark, variant, runs a
    side and order, with SHARES; empty if no host has six such runs.
    """
    chance = np.random.default_rng(seed)
    rows = []
    for runs in group_unchanged_runs(load_runs(root)):
        pairs = load_numbers(root, runs)
        number = estimator_column(runs.iloc[0])
        host = runs["host_name"].iloc[0]
        splits = compare_splits(pairs, number, chance)
        rows += [shares.assign(host=host) for shares in splits]
    if not rows:
        return pd.DataFrame()
    keys = ["host", "benchmark", "variant", "runs", "order"]
    by_order = pd.concat(rows).groupby(keys, sort=False)
    return by_order[SHARES].mean().reset_index()


def compare_splits(
    pairs: pd.DataFrame, number: str, chance: np.random.Generator
) -> Iterator[pd.DataFrame]:
    """Yield SHARES by benchmark for each split of the runs of one host."""
    by_run = [part for _, part in pairs.groupby("unit", sort=False)]
    for size in SIZES:
        for order, a, b in iter_orders(len(by_run), size, chance):
            rows_a = pd.concat([by_run[run] for run in a])
            rows_b = pd.concat([by_run[run] for run in b])
            shares = compute_alarm_shares(rows_a, rows_b, number)
            yield shares.assign(runs=size, order=order)


def group_unchanged_runs(runs: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield six runs or more of one host, plan, agent, kernel and boot, oldest
    first.
    """
    keys = [
        runs["host_id"],
        runs["plan_json"].str.replace(r'"seed":\d+,?', "", regex=True),
        runs["agent_build"],
        runs["kernel"].fillna(""),
        runs["boot_id"].fillna(""),
    ]
    ordered = runs.sort_values(["started_utc", "run_id"], kind="stable")
    for _, group in ordered.groupby(keys, sort=False):
        if len(group) >= 2 * SIZES[0]:
            yield group


def load_numbers(root: Path, runs: pd.DataFrame) -> pd.DataFrame:
    """Load the pairs of these runs, a `unit` each, oldest run first."""
    pairs = as_float64(load_pairs(root, run_id=list(runs["run_id"])))
    measured = Listing(root).find_runs(set(runs["run_id"]))
    own = drop_points(pairs, merge_descriptions(measured))
    return own.assign(unit=own["run_id"])


def iter_orders(
    count: int, size: int, chance: np.random.Generator
) -> Iterator[tuple[str, Any, Any]]:
    """Yield splits of `count` runs, oldest first, into A and B of `size`: (order,
    indices of A, of B); none if there are too few.
    """
    if count < 2 * size:
        return
    for _ in range(SPLITS):
        dealt = chance.permutation(count)[: 2 * size]
        yield "random", dealt[:size], dealt[size:]
    for a, b in iter_interleaved(count, size, chance):
        yield "interleaved", a, b
    for a, b in iter_blocks(count, size, chance):
        yield "blocks", a, b


def iter_interleaved(
    count: int, size: int, chance: np.random.Generator
) -> Iterator[tuple[Any, Any]]:
    """Yield the indices of A and of B in 2 x `size` runs in a row: A B B A."""
    abba = [True, False, False, True]
    is_a = np.resize(abba, 2 * size)
    for first in draw_indices(count - 2 * size + 1, chance):
        window = np.arange(first, first + 2 * size)
        yield window[is_a], window[~is_a]


def iter_blocks(
    count: int, size: int, chance: np.random.Generator
) -> Iterator[tuple[Any, Any]]:
    """Yield the indices of `size` runs in a row for A, and of `size` later ones for
    B.
    """
    # where the block of A ends, and that of B begins
    borders = list(combinations_with_replacement(range(size, count - size + 1), 2))
    for index in draw_indices(len(borders), chance):
        a_end, b_begin = borders[index]
        a = np.arange(a_end - size, a_end)
        b = np.arange(b_begin, b_begin + size)
        yield a, b


def draw_indices(count: int, chance: np.random.Generator) -> list[int]:
    """Draw at most SPLITS of the numbers below `count`."""
    return sorted(map(int, chance.permutation(count)[:SPLITS]))


def compute_alarm_shares(a: pd.DataFrame, b: pd.DataFrame, number: str) -> pd.DataFrame:
    """Compute SHARES of each benchmark for one split, by the rules of `compare`."""
    kind = ["benchmark", "variant"]
    relations = lay_out_two_relations(a, b, number)
    pairs = lay_out_two_pairs(a, b, number)
    questions = 1 + int(relations.rows["pairs"].max() > 1)
    (judged,), _ = judge_comparisons([relations], THRESHOLD, questions=questions)
    (tested,), _ = judge_comparisons(
        [pairs], THRESHOLD, questions=questions, are_pairs=True
    )
    judged["class"] = (judged["low"] > 1) | (judged["high"] < 1)
    judged["verdict"] = judged["verdict"] == Verdict.CHANGED
    tested["pair"] = tested["p"] < ALPHA
    shares = judged.groupby(kind, sort=False)[["class", "verdict"]].mean()
    shares_of_pairs = tested.groupby(kind)["pair"].mean()
    return shares.join(shares_of_pairs).fillna(0.0).reset_index()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per machine and number of runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args(arguments)
    if options.results:
        alarms = count_stored_alarms(options.results, options.seed)
        if alarms.empty:
            parser.exit(
                2, "six runs of one host, plan, agent, kernel and boot needed\n"
            )
        formatters = dict.fromkeys(SHARES, "{:.1%}".format)
        print(alarms.to_string(index=False, formatters=formatters))
        return
    print(f"{'machine':<8} runs  class  verdict   pair  any pair  samples")
    for machine in MACHINES:
        for runs in SIZES:
            tally = nothing_changed(machine, runs, options.simulations, options.seed)
            rates = "".join(f"{rate:>8.1%}" for rate in tally.rates())
            print(f"{machine.name:<8} {runs:>4} {rates}")


if __name__ == "__main__":
    main()

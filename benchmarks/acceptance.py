"""Simulate machines of one model, and count how often `fleet accept` is wrong about one
more.

Usage: python -m benchmarks.acceptance [--sessions 400] [--seed 1]

Machines differ by `between` in each of eight relations, runs of a machine by `within`.
The machine judged has `runs` runs, the last of which counts; of the others the last run
counts. `false`: sessions that call a good machine slower. `10 %`: sessions that find one
that is 10 % slower in one relation. `inside`: numbers of good machines inside the range
expected of equal machines, of one machine of its earlier runs (95 % promised).
"""

import argparse
from collections.abc import Sequence

import numpy as np
import pandas as pd

from fleet.analysis.base import Floats
from fleet.analysis.compare import (
    MIN_VALUES,
    THRESHOLD,
    Outcome,
    find_first_slower,
    judge_numbers,
    leave_out_odd,
    predict_next,
)

RELATIONS = 8
SLOWER = np.log(1.1)
# between machines, and within one
SCATTER = ((0.005, 0.003), (0.01, 0.01), (0.02, 0.01), (0.05, 0.03))


def judge_machine(log_ns: Floats, others: Floats, earlier: Floats) -> pd.DataFrame:
    """Judge one machine as `accept` does; others, earlier: relations x machines, or x
    runs.
    """
    all_machines = np.column_stack([others, log_ns])
    without_odd = leave_out_odd(all_machines)[:, :-1]
    own = np.column_stack([earlier, log_ns])
    first_slower = find_first_slower(own, THRESHOLD)
    is_before = np.arange(earlier.shape[1]) < first_slower[:, None]
    before = np.where(is_before, earlier, np.nan)
    parts = []
    if without_odd.shape[1] >= MIN_VALUES:
        parts.append(expect_from(without_odd, log_ns).assign(source="others"))
    if before.shape[1] >= MIN_VALUES:
        parts.append(expect_from(before, log_ns).assign(source="earlier"))
    rows = pd.concat(parts, ignore_index=True)
    rows = rows.assign(benchmark="cas", low=np.nan, high=np.nan)
    return judge_numbers(rows, THRESHOLD)


def expect_from(values: Floats, log_ns: Floats) -> pd.DataFrame:
    """Make rows of a machine's numbers and of what is expected from these values:
    relations x machines, or x runs.
    """
    rows = pd.DataFrame({"relation": [f"r{number}" for number in range(RELATIONS)]})
    rows["ns"] = np.exp(log_ns)
    rows["mean"], rows["error"], rows["freedom"] = predict_next(values)
    return rows


def simulate(
    machines: int, runs: int, between: float, within: float, sessions: int, seed: int
) -> tuple[float, float, float]:
    """Return the shares `false`, `10 %` and `inside`."""
    chance = np.random.default_rng(seed)
    false = 0
    detected = 0
    inside: list[float] = []
    for _ in range(sessions):
        levels = between * chance.standard_normal((RELATIONS, machines))
        scatter_of_others = chance.standard_normal((RELATIONS, machines - 1))
        others = levels[:, 1:] + within * scatter_of_others
        own_scatter = chance.standard_normal((RELATIONS, runs))
        own = levels[:, :1] + within * own_scatter

        good = judge_machine(own[:, -1], others, own[:, :-1])
        false += is_any_slower(good)
        inside.append(compute_share_inside(good))

        own[0] += SLOWER
        slow = judge_machine(own[:, -1], others, own[:, :-1])
        detected += is_any_slower(slow[slow["relation"] == "r0"])
    return false / sessions, detected / sessions, float(np.nanmean(inside))


def compute_share_inside(judged: pd.DataFrame) -> float:
    """Return the share of numbers within what the first source expects."""
    first_source = judged["source"].iloc[0]
    rows = judged[judged["source"] == first_source]
    is_inside = rows["ns"].between(rows["low"], rows["high"])
    return float(is_inside.mean())


def is_any_slower(judged: pd.DataFrame) -> bool:
    return bool((judged["outcome"] == Outcome.SLOWER).any())


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per number of machines, runs and scatter."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    print("machines  runs  between  within  false   10 %  inside")
    sizes = [(1, runs) for runs in (4, 5, 8, 12)]
    for machines in (4, 8, 30, 200):
        sizes += [(machines, runs) for runs in (1, 3, 5)]
    for machines, runs in sizes:
        for between, within in SCATTER:
            false, detected, inside = simulate(
                machines, runs, between, within, options.sessions, options.seed
            )
            print(
                f"{machines:>8}{runs:>6}{between:>9.1%}{within:>8.1%}"
                f"{false:>7.1%}{detected:>7.0%}{inside:>8.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()

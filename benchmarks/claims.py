"""Simulate what fleet claims of its comparisons: coverage, power and what runs are said to detect.

Usage: python -m benchmarks.claims [--simulations 2000] [--seed 1] [--only NAME]

power: a relation of one pair became 5 % slower, five runs a side; share of verdicts `changed`.
hosts: the change over all hosts (random effects): how often its 95 % interval holds the mean change, with
runs that vary by 1 %.
planted: 15 runs a side at 24, 54 or 128 ns with 2.5 % of noise, 5 % slower on B: the mean change
found, the mean ends of its interval, how often that holds 5 %, and how often it excludes no change.
blocks: 4 runs a side, A B B A, with 0.5 % of noise and a drift of 5 % from the first run to the last, or
steps of 5 % (standard deviation) from block to block: how often p < 0.05, with a change of 3 % and with none.
detects: eight relations in one command; the change that the first is said to detect is added to another
such command: share of verdicts `changed` (promised: 80 %).
"""

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from fleet.analysis.compare.changes import changes_of
from fleet.analysis.compare.error_rate import judge_relations
from fleet.analysis.compare.evidence import together
from fleet.analysis.compare.fleet_effect import OfHosts, mean_changes
from fleet.analysis.compare.inference import LEVEL, interval, least_squares, shrunk
from fleet.analysis.compare.run_levels import match_values
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.analysis.reduce.split import run_levels

THRESHOLD = 0.03
Floats = npt.NDArray[np.float64]
Chance = np.random.Generator


def sides(chance: Chance, scatter: float, shape: tuple[int, ...], runs: int) -> tuple[Floats, Floats]:
    """Logarithms of two sides' numbers; the last axis is that of the runs."""
    a, b = chance.normal(0, scatter, (2, *shape, runs))
    return a, b


def judged(a: Floats, b: Floats) -> pd.DataFrame:
    """The relations of one command, a row each, with their verdicts."""
    logs, runs = np.concatenate([a, b], axis=1), a.shape[1]
    of_b = np.repeat([False, True], [runs, b.shape[1]])
    keys = {"benchmark": "cas", "variant": "", "relation": np.arange(len(a)).astype(str)}
    rows = pd.DataFrame(keys).assign(a_units=runs, b_units=b.shape[1])
    limits, turns = np.tile([np.inf, 0.0], (len(a), 1)), tuple(range(len(of_b)))
    found = changes_of(rows, logs, logs, of_b, limits, None, turns)
    return judge_relations([together([found]).table()], THRESHOLD)[0]


def plain(a: Floats, b: Floats, *blocks: object) -> tuple[Floats, Floats, Floats, Floats]:
    """The change of each row by Student's t, or within blocks: the change, its interval's ends, and p."""
    of_b = np.repeat([False, True], [a.shape[-1], b.shape[-1]])
    fit = least_squares(np.concatenate([np.atleast_2d(a), np.atleast_2d(b)], axis=1), of_b, *blocks)  # type: ignore[arg-type]
    low, high = interval(fit.moved, fit.error, fit.freedom)
    return fit.moved, low, high, 2 * stats.t.sf(np.abs(fit.moved) / fit.error, fit.freedom)


def power(simulations: int, seed: int) -> Iterator[str]:
    """Per scatter between runs: share of 5 % changes with the verdict `changed`."""
    for scatter in (0.005, 0.01, 0.02):
        a, b = sides(np.random.default_rng(seed), scatter, (simulations,), 5)
        moved, _, _, p = plain(a, b + np.log1p(0.05))
        found = np.mean((p < LEVEL) & (np.abs(moved) > np.log1p(THRESHOLD)))
        yield f"scatter {scatter:.1%}: {found:.1%}"


def hosts(simulations: int, seed: int) -> Iterator[str]:
    """Per number of hosts and runs and scatter of the hosts' changes: coverage of the mean change."""
    for count in (3, 5, 20):
        for runs in (3, 5, 10):
            shares = [
                _held(simulations, count, runs, between, np.random.default_rng(seed))
                for between in (0, 0.01, 0.03)
            ]
            listed = "  ".join(f"{share:6.1%}" for share in shares)
            yield f"{count:2} hosts, {runs:2} runs a side; hosts differ by 0, 1, 3 %: {listed}"


def _held(simulations: int, count: int, runs: int, between: float, chance: Chance) -> float:
    a, b = sides(chance, 0.01, (simulations, count), runs)
    true = np.log1p(0.02)
    b = b + true + chance.normal(0, between, (simulations, count, 1))
    of_b, held = np.repeat([False, True], runs), 0
    for row in range(simulations):
        fit = least_squares(np.concatenate([a[row], b[row]], axis=1), of_b)
        errors = np.sqrt(shrunk(fit.error**2, np.full(count, fit.freedom))[0])
        added = fit.weights * fit.residuals * (2 * runs / fit.freedom) ** 0.5
        alike = np.zeros(count, dtype=np.int64)
        one = OfHosts(fit.moved, errors, added, np.full(count, fit.freedom), alike)
        _, low, high, *_ = mean_changes([one])[0]
        held += low <= np.exp(true) <= high
    return held / simulations


def planted(simulations: int, seed: int) -> Iterator[str]:
    """The change found among runs at three levels, and its interval."""
    chance, of_b, found = np.random.default_rng(seed), np.repeat([False, True], 15), []
    logs = np.log(chance.choice([24.0, 54.0, 128.0], (simulations, 30), p=[0.3, 0.5, 0.2]))
    logs += chance.normal(0, 0.025, logs.shape) + np.log1p(0.05) * of_b
    for row, labels in zip(logs, run_levels(np.exp(logs)), strict=True):
        matched = match_values(row, labels, of_b)
        kept = [side[~np.isnan(side)] for side in (matched.logs[~of_b], matched.logs[of_b])]
        if min(map(len, kept)) >= LEAST_RUNS:
            fit = least_squares(np.concatenate(kept)[None, :], np.repeat([False, True], list(map(len, kept))))
            left, _, wider = matched.about
            error = fit.error * wider * (fit.freedom / min(left, fit.freedom)) ** 0.5
            found.append(np.append(fit.moved, interval(fit.moved, error, min(left, fit.freedom))))
    logs_found = np.array(found)
    ends = np.exp(logs_found)
    middle = ", ".join(f"{value - 1:+.1%}" for value in np.exp(logs_found.mean(axis=0)))
    held = np.mean((ends[:, 1] <= 1.05) & (ends[:, 2] >= 1.05))
    yield f"change, low, high: {middle}; holds 5 %: {held:.1%}; excludes 0: {np.mean(ends[:, 1] > 1):.1%}"


def blocks(simulations: int, seed: int) -> Iterator[str]:
    """Per kind of drift: how often p < 0.05 in blocks and without, with a change of 3 % and with none."""
    to_b = np.array([0, 1, 1, 0, 0, 1, 1, 0], dtype=bool)
    turns = np.concatenate([np.flatnonzero(~to_b), np.flatnonzero(to_b)])
    for kind in ("drift", "steps"):
        chance, rows = np.random.default_rng(seed), []
        for _ in range(simulations):
            steps = np.repeat(chance.normal(0, 0.05, 4), 2)
            away = np.linspace(0, 0.05, 8) if kind == "drift" else steps
            noise = away + chance.normal(0, 0.005, 8)
            found = []
            for true in (0.03, 0.0):
                a, b = noise[~to_b], noise[to_b] + np.log1p(true)
                found += [plain(a, b, turns // 2, turns[None].astype(float))[3][0], plain(a, b)[3][0]]
            rows.append(np.array(found) < LEVEL)
        shares = np.mean(rows, axis=0)
        yield (
            f"{kind}: 3 %: {shares[0]:.1%} in blocks, {shares[1]:.1%} without; "
            f"none: {shares[2]:.1%} in blocks, {shares[3]:.1%} without"
        )


def detects(simulations: int, seed: int) -> Iterator[str]:
    """Per number of runs and scatter: share of the named changes that another command calls changed."""
    for runs, scatter in ((3, 0.01), (5, 0.01), (5, 0.02), (10, 0.02)):
        chance, found = np.random.default_rng(seed), 0
        for _ in range(simulations):
            named = judged(*sides(chance, scatter, (8,), runs))["smallest"][0]
            a, b = sides(chance, scatter, (8,), runs)
            b[0] += np.log1p(named)
            found += judged(a, b)["verdict"][0] == "changed"
        yield f"{runs:2} runs a side, scatter {scatter:.0%}: {found / simulations:.1%}"


STUDIES: dict[str, Callable[[int, int], Iterator[str]]] = {
    "power": power,
    "hosts": hosts,
    "planted": planted,
    "blocks": blocks,
    "detects": detects,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the lines of each study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=STUDIES, action="append", help="only these; default: all")
    asked = parser.parse_args(arguments)
    for name in asked.only or STUDIES:
        for line in STUDIES[name](asked.simulations, asked.seed):
            print(f"{name:8} {line}", flush=True)


if __name__ == "__main__":
    main()

"""Simulate sessions that compare many hosts at once, and count how many report a change.

Usage: python -m benchmarks.sessions [--simulations 400] [--seed 1] [--hosts 20] [--relations 8] [--null NAME]

Every host has the same number of runs on both sides, measured A B B A, and a number per run and relation.
Null: how these vary from run to run, by 1 % where nothing else is given: independent and normal; heavy tails
(Student's t with 3 degrees of freedom); levels (one run in ten is 30 % faster); modes (runs at 24, 54 or
128 ns); flips (bursts at 24 or 50 ns, 8 in a row on average; a run's number is its most frequent level);
drift (1 % a run on top); AR .9 (each run resembles the one before). Levels are matched. In blocks: compared
with `--blocks time`.

`each`: relations whose interval excludes no change (5 % expected). `none`: relations without a verdict, for
too few runs are at levels of both sides. `any`: sessions in which any relation of any host would be reported
if each were tested by itself. `session`: sessions in which one is reported at the one error rate of a command
(any q < 0.05), and `verdict`: with the verdict `changed`. `power`: relations found where one in eight became
5 % slower.
"""

import argparse
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from fleet.analysis.compare.inference import LEVEL, change, change_in_blocks, false_discovery, student
from fleet.analysis.compare.level_shares import p_of_levels
from fleet.analysis.compare.matched_levels import match_values
from fleet.analysis.reduce.between_runs import levels_between
from fleet.analysis.reduce.levels import levels

THRESHOLD, VIRTUAL = 0.03, 0.05
SCATTER, CHANGE = 0.01, 0.05
IN_BLOCKS = ", in blocks"
SWITCHING = ("levels", "modes", "flips")
NULLS = ("normal", "heavy tails", *SWITCHING, "drift", "drift, in blocks", "AR .9", "AR .9, in blocks")
BURSTS, DWELL, POOL = 20, 8, 4000
Floats = npt.NDArray[np.float64]


def logs(null: str, shape: tuple[int, int], runs: int, chance: np.random.Generator) -> tuple[Floats, Floats]:
    """Logarithms of the numbers of both sides: hosts x relations x runs each."""
    size = (*shape, 2 * runs)
    found = chance.normal(0, SCATTER, size)
    match null.removesuffix(IN_BLOCKS):
        case "heavy tails":
            found = SCATTER * chance.standard_t(3, size) / 3**0.5
        case "levels":
            found += np.where(chance.random(size) < 0.1, np.log(0.7), 0)
        case "modes":
            found += np.log(chance.choice([24.0, 54.0, 128.0], size, p=[0.3, 0.5, 0.2]))
        case "flips":
            found += chance.choice(flipping(), size)
        case "drift":
            found += 0.01 * np.arange(2 * runs)
        case "AR .9":
            for at in range(1, 2 * runs):
                found[..., at] = 0.9 * found[..., at - 1] + (1 - 0.81) ** 0.5 * found[..., at]
    to_a = sides_of(runs)
    return found[..., to_a], found[..., ~to_a]


def sides_of(runs: int) -> npt.NDArray[np.bool_]:
    """Whether each of the runs, by time, is of side A: A B B A."""
    to_a = np.resize([True, False, False, True], 2 * runs)
    to_a[-1] ^= runs % 2 == 1 and to_a.sum() != runs
    return to_a


@cache
def flipping() -> Floats:
    """Logarithms of the numbers of many runs whose bursts flip between two levels."""
    chance = np.random.default_rng(POOL)
    flips = chance.random((POOL, BURSTS)) < 1 / DWELL
    flips[:, 0] = chance.random(POOL) < 0.5
    bursts = np.where(flips.cumsum(axis=1) % 2, 24.0, 50.0) * np.exp(chance.normal(0, 0.015, flips.shape))
    return np.log(levels(bursts, np.tile(np.arange(BURSTS, dtype=float), (POOL, 1))).median)


def tested(null: str, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The change of each relation of each host as a logarithm, and its p; NaN: no verdict."""
    if null.endswith(IN_BLOCKS):
        return tested_in_blocks(a, b)
    moved, error, freedom = student(a, b)
    p = 2 * stats.t.sf(np.abs(moved) / error, freedom)
    both = np.concatenate([a, b], axis=-1).reshape(-1, a.shape[-1] + b.shape[-1])
    of_b = np.repeat([False, True], [a.shape[-1], b.shape[-1]])
    labels = levels_between(np.exp(both))
    if null in SWITCHING:
        one = ~labels.any(axis=1)
        p.flat[one] = np.maximum(p.flat[one], p_of_levels(both[one][:, ~of_b], both[one][:, of_b]))
    for row in np.flatnonzero(labels.any(axis=1)):
        matched = match_values(both[row], labels[row], of_b)
        sides = [side[~np.isnan(side)] for side in (matched.logs[~of_b], matched.logs[of_b])]
        p.flat[row] = np.nan
        if min(map(len, sides)):
            found = change(np.exp(sides[0]), np.exp(sides[1]), matched.freedom)
            chance = p_of_levels(sides[0][None, :], sides[1][None, :])[0] if null in SWITCHING else 0
            moved.flat[row], p.flat[row] = np.log(found.ratio), max(found.p, chance)
    return moved, p


def tested_in_blocks(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The same within blocks of a run of each side, by time."""
    to_a = sides_of(a.shape[-1])
    turns = np.arange(len(to_a))
    blocks = [[(str(turn // 2), int(turn)) for turn in turns[side]] for side in (to_a, ~to_a)]
    moved, p = np.empty(a.shape[:-1]), np.empty(a.shape[:-1])
    for at in np.ndindex(p.shape):
        found = change_in_blocks(np.exp(a[at]), np.exp(b[at]), *blocks)
        moved[at], p[at] = np.log(found.ratio), found.p
    return moved, p


def session(null: str, a: Floats, b: Floats) -> tuple[Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Of each relation: its p, whether q < 0.05, whether the verdict is `changed`; as one command judges."""
    moved, p = tested(null, a, b)
    found = np.zeros(p.shape, dtype=bool)
    known = ~np.isnan(p)
    found[known] = false_discovery(p[known]) < LEVEL
    matters = np.log1p(VIRTUAL if null in SWITCHING else THRESHOLD)
    return p, found, found & (np.abs(moved) > matters)


def rates(
    null: str, shape: tuple[int, int], runs: int, simulations: int, seed: int
) -> tuple[float, float, float, float, float, float]:
    """Shares: each, none, any, session, verdict, power."""
    chance, rows = np.random.default_rng(seed), []
    moved = np.arange(shape[0] * shape[1]).reshape(shape) % 8 == 0
    for _ in range(simulations):
        a, b = logs(null, shape, runs, chance)
        p, found, changed = session(null, a, b)
        power = session(null, a, b + np.where(moved, np.log1p(CHANGE), 0)[..., None])[1][moved]
        alone = p[~np.isnan(p)] < LEVEL
        rows.append((alone.mean(), np.isnan(p).mean(), alone.any(), found.any(), changed.any(), power.mean()))
    each, none, some, together, verdict, power = np.mean(rows, axis=0)
    return each, none, some, together, verdict, power


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per null and number of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--relations", type=int, default=8)
    parser.add_argument("--null", choices=NULLS, action="append", help="only these; default: all")
    asked = parser.parse_args(arguments)
    print(f"{'null':<16} runs   each   none    any  session  verdict  power")
    for null in asked.null or NULLS:
        for runs in (3, 5, 10):
            shares = rates(null, (asked.hosts, asked.relations), runs, asked.simulations, asked.seed)
            row = (f"{share:>{width}.1%}" for share, width in zip(shares, (6, 6, 6, 8, 8, 6), strict=True))
            print(f"{null:<16} {runs:>4} {' '.join(row)}", flush=True)


if __name__ == "__main__":
    main()

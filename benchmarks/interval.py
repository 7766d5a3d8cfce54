"""Simulate pairs whose true latency is known, and count how often the 95 % interval covers it.

Usage: python benchmarks/interval.py [--runs 2000] [--seed 1]

Each simulated run follows the agent: bursts of 10 samples half a second apart, 10 at least, more until the
t interval over all burst medians is within 1 %, 40 at most (the 20 s budget). Its interval is the one that
`fleet show` gives. For comparison: the interval from the samples of one burst of 300, taken as independent.

Noise, after measurements on a virtual machine: a slow wander (2.5 %, forgotten in 0.1 s), the line's own
luck (2 % per burst), samples that resemble the one before (autoregressive, 0.5; 3 %), and 0.4 % of samples
2 to 20 times too long. The truth is the level of the mode with most bursts, of a drift its mean.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleet.analysis.reduce.levels import halves, levels

GAP_S, LEAST, MOST, PRECISION = 0.5, 10, 40, 0.01
SAMPLES = 10
LEVEL_NS = 51.0
Floats = npt.NDArray[np.float64]
Level = Callable[[Floats, np.random.Generator], Floats]


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated. level: of bursts at these times; truth: of a run that ended at the time given."""

    name: str
    level: Level
    truth: Callable[[float], float] = lambda _end: LEVEL_NS


def steady(times: Floats, _chance: np.random.Generator) -> Floats:
    return np.full(len(times), LEVEL_NS)


def two_modes(share: float, other_ns: float) -> Level:
    def level(times: Floats, chance: np.random.Generator) -> Floats:
        return np.where(chance.random(len(times)) < share, other_ns, LEVEL_NS)

    return level


def drifting(percent_per_s: float) -> Case:
    rate = percent_per_s / 100
    return Case(
        f"drift of {percent_per_s:g} % a second",
        lambda times, _chance: LEVEL_NS * (1 + rate * times),
        lambda end: LEVEL_NS * (1 + rate * end / 2),
    )


CASES = (
    Case("autocorrelated", steady),
    Case("two modes, 10 % at 8 ns", two_modes(0.1, 8.4)),
    Case("two modes, 30 % at 8 ns", two_modes(0.3, 8.4)),
    Case("two modes, 20 % at 70 ns", two_modes(0.2, 70.0)),
    drifting(0.2),
    drifting(1.0),
)


def burst(level: float, count: int, chance: np.random.Generator) -> Floats:
    """Samples of one burst around `level`."""
    noise = np.empty(count)
    noise[0] = chance.normal(0, 0.03)
    steps = chance.normal(0, 0.03 * (1 - 0.5**2) ** 0.5, count)
    for at in range(1, count):
        noise[at] = 0.5 * noise[at - 1] + steps[at]
    far = np.where(chance.random(count) < 0.004, chance.uniform(2, 20, count), 1.0)
    return level * (1 + noise) * far


def wander(times: Floats, chance: np.random.Generator) -> Floats:
    """The factor by which the machine and the line shift each burst."""
    keep = np.exp(-GAP_S / 0.1)
    slow = np.empty(len(times))
    slow[0] = chance.normal(0, 0.025)
    for at in range(1, len(times)):
        slow[at] = keep * slow[at - 1] + chance.normal(0, 0.025 * (1 - keep**2) ** 0.5)
    return 1 + slow + chance.normal(0, 0.02, len(times))


def run(case: Case, chance: np.random.Generator) -> tuple[bool, int, float]:
    """Simulate one run: whether the interval covers the truth, how many bursts it took, half its width."""
    times = GAP_S * np.arange(MOST, dtype=np.float64)
    at = case.level(times, chance) * wander(times, chance)
    medians = np.array([np.median(burst(level, SAMPLES, chance)) for level in at])
    count = LEAST
    while count < MOST and _half(medians[:count]) > PRECISION:
        count += 1
    found = levels(medians[None, :count], times[None, :count])
    truth, half = case.truth(float(times[count - 1])), float(found.half[0])
    return bool(abs(found.mean[0] - truth) <= half), count, half / float(found.mean[0])


def naive(case: Case, chance: np.random.Generator) -> bool:
    """Whether mean +- 1.96 standard errors of one burst of 300 samples covers the truth."""
    start = np.zeros(1)
    samples = burst(float((case.level(start, chance) * wander(start, chance))[0]), 300, chance)
    return bool(abs(samples.mean() - case.truth(0.0)) <= 1.96 * samples.std(ddof=1) / 300**0.5)


def coverage(case: Case, runs: int, seed: int) -> tuple[float, float, float]:
    """Share of runs whose interval covers the truth; the median count of bursts; the median half width."""
    chance = np.random.default_rng(seed)
    covered, counts, halves = zip(*(run(case, chance) for _ in range(runs)), strict=True)
    return float(np.mean(covered)), float(np.median(counts)), float(np.median(halves))


def _half(medians: Floats) -> float:
    """Half the interval over all burst medians, as the agent reckons it, relative."""
    return float(halves(medians[None, :])[0] / medians.mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{'data':28} {'covered':>8} {'bursts':>7} {'width':>7} {'one burst of 300':>17}")
    for case in CASES:
        share, count, half = coverage(case, arguments.runs, arguments.seed)
        chance = np.random.default_rng(arguments.seed)
        alone = np.mean([naive(case, chance) for _ in range(arguments.runs)])
        print(f"{case.name:28} {share:8.1%} {count:7.0f} {'±' + format(half, '.1%'):>7} {alone:17.0%}")


if __name__ == "__main__":
    main()

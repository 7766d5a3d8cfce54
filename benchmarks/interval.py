"""Simulate pairs whose true latency is known, and count how often the 95 % interval
covers it.

Usage: python -m benchmarks.interval [--runs 2000] [--seed 1] [--states]

--states: a pair on a machine that changes its state instead, as a virtual one does,
measured by two benchmarks at once: how often their numbers are of one state, within 3 %
of it, and inside its interval, by the level of both together and, for comparison, of
each alone.

Each simulated run follows the agent: a burst of 5 samples every ninth of a second,
until after 10, 20, 40 or 80 bursts the interval is within 1 %, or the 10 s are over.
Number and interval are those of `fleet show`. For
comparison: the interval from the samples of one burst of 300, taken as independent.

Noise, after measurements on a virtual machine: a slow wander (2.5 %, forgotten in 0.1
s), the line's own luck (2 % per burst), samples that resemble the one before
(autoregressive, 0.5; 3 %), and 0.4 % of samples 2 to 20 times too long. Where bursts
keep a part of the deviation of the one before, the wander is that alone. The truth is
the level that is nearest to the number, of a drift its mean.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleet.analysis.reduce import find_main_bursts, summarize_bursts

PRECISION = 0.01
LOOKS = (10, 20, 40, 80, 90)  # bursts after which a run may end, and has to
AT_S = np.arange(LOOKS[-1]) / 9
SAMPLES = 5
LEVEL_NS = 51.0
COLUMNS = ("median_ns", "low_ns", "high_ns", "spread", "other_share")
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Level = Callable[[Floats, np.random.Generator], Floats]


def describe_runs(medians: Floats) -> dict[str, Floats]:
    """Compute columns of `pairs`, a row per run and benchmark. medians: runs x
    benchmarks x bursts, in ns.
    """
    runs, benchmarks, count = medians.shape
    rows = runs * benchmarks
    flat = medians.ravel()
    counts = np.full(rows, count)
    visits = np.tile(np.arange(count), rows)
    run_of_row = np.repeat(np.arange(runs), benchmarks)
    is_main = find_main_bursts(flat, counts, visits, run_of_row)
    return summarize_bursts(flat, counts, visits.astype(np.float64), is_main)


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated.

    level: of bursts at these times, runs x bursts. truths: of runs that ended at the
    times given, a column for each level. carry_over: share of a burst's deviation kept
    by the next; None: as measured.
    """

    name: str
    level: Level
    truths: Callable[[Floats], Floats] = lambda ends: np.full((len(ends), 1), LEVEL_NS)
    carry_over: float | None = None


def steady(times: Floats, _chance: np.random.Generator) -> Floats:
    return np.full(times.shape, LEVEL_NS)


def two_levels(share: float, other_ns: float) -> Case:
    return Case(
        f"two levels, {share:.0%} at {other_ns:g} ns",
        lambda times, chance: np.where(
            chance.random(times.shape) < share, other_ns, LEVEL_NS
        ),
        lambda ends: np.tile([LEVEL_NS, other_ns], (len(ends), 1)),
    )


def drifting(percent_per_s: float) -> Case:
    rate = percent_per_s / 100
    return Case(
        f"drift of {percent_per_s:g} % a second",
        lambda times, _chance: LEVEL_NS * (1 + rate * times),
        lambda ends: LEVEL_NS * (1 + rate * ends[:, None] / 2),
    )


CASES = (
    Case("as measured", steady),
    Case("each keeps .3 of the last", steady, carry_over=0.3),
    Case("each keeps .6 of the last", steady, carry_over=0.6),
    two_levels(0.1, 8.4),
    two_levels(0.3, 8.4),
    two_levels(0.2, 70.0),
    drifting(0.2),
    drifting(1.0),
    drifting(2.0),
)


def bursts(level: Floats, count: int, chance: np.random.Generator) -> Floats:
    """Samples of bursts around their `level`: one more axis, of `count`."""
    noise = chance.normal(0, 0.03, (*level.shape, count))
    noise[..., 1:] *= (1 - 0.5**2) ** 0.5
    for place in range(1, count):
        before = noise[..., place - 1]
        noise[..., place] += 0.5 * before
    is_far = chance.random(noise.shape) < 0.004
    times_too_long = chance.uniform(2, 20, noise.shape)
    factor = np.where(is_far, times_too_long, 1.0)
    samples: Floats = level[..., None] * (1 + noise) * factor
    return samples


def wander(
    times: Floats, carry_over: float | None, chance: np.random.Generator
) -> Floats:
    """The factor by which the machine and the line shift each burst; times: runs x
    bursts.
    """
    gaps = np.diff(times[0])
    keep = np.exp(-gaps / 0.1)
    if carry_over is not None:
        keep[:] = carry_over
    shift = chance.normal(0, 0.025, times.shape)
    shift[:, 1:] *= (1 - keep**2) ** 0.5
    for place in range(1, times.shape[1]):
        shift[:, place] += keep[place - 1] * shift[:, place - 1]
    factor = 1 + shift
    if carry_over is None:
        factor += chance.normal(0, 0.02, times.shape)
    return factor


def simulate_runs(
    case: Case, runs: int, chance: np.random.Generator
) -> tuple[Bools, Floats, Floats]:
    """Simulate runs: whether the interval covers the truth, how many bursts each took,
    half its width.
    """
    times = np.tile(AT_S, (runs, 1))
    level = case.level(times, chance) * wander(times, case.carry_over, chance)
    medians = np.median(bursts(level, SAMPLES, chance), axis=2)
    columns, counts = end_runs(medians[:, None, :])

    last_bursts = counts.astype(int) - 1
    levels = case.truths(AT_S[last_bursts])
    truth = select_nearest(levels, columns["median_ns"])
    is_covered = is_in_interval(truth, columns)
    return is_covered[:, 0], counts, columns["spread"][:, 0]


def select_nearest(levels: Floats, numbers: Floats) -> Floats:
    """Return of each run's levels the one nearest its number, as a column."""
    distances = np.abs(levels - numbers)
    nearest = distances.argmin(axis=1)
    return np.take_along_axis(levels, nearest[:, None], axis=1)


def end_runs(
    medians: Floats, *, together: bool = True
) -> tuple[dict[str, Floats], Floats]:
    """End each run once all its benchmarks are precise. Return COLUMNS, each runs x
    benchmarks, and the number of bursts of each run.

    medians: runs x benchmarks x bursts, in ns. Not `together`: each benchmark has its
    own level.
    """
    runs, benchmarks, _ = medians.shape
    columns = {name: np.empty((runs, benchmarks)) for name in COLUMNS}
    counts = np.empty(runs)
    going = np.arange(runs)
    for count in LOOKS:
        measured = medians[going, :, :count]
        if not together:
            measured = measured.reshape(-1, 1, count)
        described = describe_runs(measured)
        now = {name: described[name].reshape(-1, benchmarks) for name in COLUMNS}
        is_precise = (now["spread"] <= PRECISION).all(axis=1)
        has_ended = is_precise | (count == LOOKS[-1])
        ended = going[has_ended]
        for name, values in columns.items():
            values[ended] = now[name][has_ended]
        counts[ended] = count
        going = going[~has_ended]
    return columns, counts


def is_in_interval(truth: Floats, columns: dict[str, Floats]) -> Bools:
    covers: Bools = (columns["low_ns"] <= truth) & (truth <= columns["high_ns"])
    return covers


def naive(case: Case, runs: int, chance: np.random.Generator) -> float:
    """Share of single bursts of 300 samples of which mean +- 1.96 standard errors
    covers the truth.
    """
    start = np.zeros((runs, 1))
    level = case.level(start, chance) * wander(start, case.carry_over, chance)
    samples = bursts(level, 300, chance)[:, 0, :]
    mean = samples.mean(axis=1, keepdims=True)
    truths = case.truths(start[:, 0])
    distances = np.abs(mean - truths)
    standard_error = samples.std(axis=1, ddof=1) / 300**0.5
    is_covered = distances.min(axis=1) <= 1.96 * standard_error
    return float(np.mean(is_covered))


def coverage(case: Case, runs: int, seed: int) -> tuple[float, float, float]:
    """Share of runs whose interval covers the truth; the median count of bursts; the
    median half width.
    """
    covered, counts, halves = simulate_runs(case, runs, np.random.default_rng(seed))
    return float(np.mean(covered)), float(np.median(counts)), float(np.median(halves))


# ---- states of a machine, seen by two benchmarks
# -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Machine:
    """ns of both benchmarks in each state; visits it stays, on average; scatter of
    bursts.
    """

    name: str
    ns: tuple[tuple[float, float], ...]
    stays: float = 30
    scatter: float = 0.015


MACHINES = (
    Machine("one state", ((27.0, 52.0),)),
    Machine("one state, 4 % of scatter", ((27.0, 52.0),), scatter=0.04),
    Machine("a factor of 4 apart", ((27.0, 52.0), (107.0, 250.0))),
    Machine("the same, 8 visits in a row", ((27.0, 52.0), (107.0, 250.0)), stays=8),
    Machine("the same, 1 visit in a row", ((27.0, 52.0), (107.0, 250.0)), stays=2),
    Machine("three states", ((10.4, 23.9), (27.0, 52.0), (107.0, 250.0))),
    Machine("8 % apart", ((26.0, 51.0), (28.1, 55.1)), scatter=0.008),
    Machine("8 % apart, 1.5 % of scatter", ((26.0, 51.0), (28.1, 55.1))),
    Machine(
        "8 % apart, and a third",
        ((26.0, 51.0), (28.1, 55.1), (107.0, 250.0)),
        scatter=0.008,
    ),
)
STATES_TITLE = (
    "machine                          same state  within 3 %  covered  bursts  another"
    " level"
)


def simulate_visits(machine: Machine, runs: int, chance: np.random.Generator) -> Floats:
    """Burst medians: runs x benchmarks x visits."""
    states = simulate_states(machine, runs, chance)
    level_by_visit = np.array(machine.ns)[states]  # runs x visits x benchmarks
    level = np.moveaxis(level_by_visit, 2, 1)
    noise = chance.normal(0, machine.scatter, level.shape)
    medians: Floats = level * np.exp(noise)
    return medians


def simulate_states(
    machine: Machine, runs: int, chance: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Simulate the number of the machine's state at each visit: runs x visits. It is
    the one drawn at the last change.
    """
    visits = LOOKS[-1]
    is_change = chance.random((runs, visits)) < 1 / machine.stays
    drawn_states = chance.integers(0, len(machine.ns), (runs, visits))
    change_places = np.where(is_change, np.arange(visits), 0)
    last_change = np.maximum.accumulate(change_places, axis=1)
    return np.take_along_axis(drawn_states, last_change, axis=1)


def state_line(machine: Machine, medians: Floats, *, together: bool) -> str:
    """Describe runs that end once both benchmarks are precise; not `together`: each by
    its own level.
    """
    columns, counts = end_runs(medians, together=together)

    # the state nearest each benchmark's number, runs x states x benchmarks
    truths = np.array(machine.ns)
    distances = np.abs(np.log(columns["median_ns"][:, None, :] / truths))
    states = distances.argmin(axis=1)
    truth = np.take_along_axis(truths, states, axis=0)
    same_state = np.mean(states[:, 0] == states[:, 1])
    near = np.mean(distances.min(axis=1) < 0.03)
    covered = np.mean(is_in_interval(truth, columns))
    with_other_level = np.mean(columns["other_share"] > 0)
    name = machine.name if together else "  each alone"
    return (
        f"{name:33}{same_state:10.1%}{near:12.1%}{covered:9.1%}"
        f"{np.median(counts):8.0f}{with_other_level:15.1%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--states", action="store_true")
    options = parser.parse_args()
    if options.states:
        print_states(options.runs, options.seed)
    else:
        print_coverage(options.runs, options.seed)


def print_states(runs: int, seed: int) -> None:
    """Print two lines per machine that changes its state."""
    print(STATES_TITLE)
    for machine in MACHINES:
        chance = np.random.default_rng(seed)
        medians = simulate_visits(machine, runs, chance)
        for together in (True, False):
            print(state_line(machine, medians, together=together), flush=True)


def print_coverage(runs: int, seed: int) -> None:
    """Print a line per case."""
    print(
        f"{'data':28} {'covered':>8} {'bursts':>7} {'width':>7}"
        f" {'one burst of 300':>17}"
    )
    for case in CASES:
        share, count, half = coverage(case, runs, seed)
        alone = naive(case, runs, np.random.default_rng(seed))
        width = f"±{half:.1%}"
        print(f"{case.name:28} {share:8.1%} {count:7.0f} {width:>7} {alone:17.0%}")


if __name__ == "__main__":
    main()

"""Simulate sessions that compare many hosts at once, and count how many report a
change.

Usage: python -m benchmarks.sessions [--sessions 200] [--seed 1] [--hosts 20]
[--relations 8] [--runs 5]
           [--null NAME] [--power-of 10]

Every host has a number per run and relation, and runs of both sides in the order that
`--alternate` draws (or A B B A: "in A B B A"). Null: how the numbers vary from run to
run, by 1 % where nothing else is given:

normal; 3 %; mixed (relations vary by 0.3 to 3 %); heavy tails (Student's t with 2
degrees of freedom); slow runs (one in ten is 20 to 100 % slower); hosts (1 % more,
common to the relations of a host); shared (2 % more, common to all hosts of a session);
steps (each host is 5 % slower from some run on); period 4 (all hosts alike 3 % up, up,
down, down); drift (1 % a run); AR .9 (runs resemble the one before); unequal (B has two
runs more); missing (one number in ten, and some hosts' runs); levels (one run in ten is
30 % faster); modes (24, 54 or 128 ns); states (two to six levels, each of them lasts 1
to 5,000 bursts); flips (a run's bursts switch between 24 and 50 ns).

`any finding`: sessions with any q < 0.05; `changed`: sessions with anything `changed`,
on which `--fail-on-change` fails; `all hosts`: rows over all hosts whose interval
excludes no change; `none`: relations without a verdict. Then, in one session of ten
(--power-of), one relation in eight, or all of three hosts, became so much slower: the
percentage `changed`, + that `at another level`.

--two: two hosts became twice as slow instead: the share of sessions that name both,
with either verdict; of their relations that are found; and of findings that are of
another host. --ideal: of `normal`, `3 %` and `mixed` instead: the share of +5 % (one
relation in eight) that a test finds which knows the deviation of each relation's runs,
under the same rate of errors and threshold.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from benchmarks.interval import describe_runs
from fleet.analysis.compare import (
    ALPHA,
    THRESHOLD,
    SideRuns,
    Verdict,
    judge_comparisons,
)
from fleet.session.alternate import Alternation

SCATTER = 0.01
PLANTED = (0.05, 0.15, 1.0)
TITLES = ("+5 %", "+15 %", "+100 %", "3 hosts +100 %")
ABBA = ", A B B A"
IN_BLOCKS = ", in blocks"
SWITCHING = ("levels", "modes", "states", "flips")
NULLS = (
    *(
        "normal",
        "3 %",
        "mixed",
        "heavy tails",
        "slow runs",
        "hosts",
        "shared",
        "period 4",
    ),
    *(
        "period 4, A B B A",
        "steps",
        "drift",
        "AR .9",
        "unequal",
        "missing",
        "missing, shared",
        *SWITCHING,
    ),
)
BURSTS = 20
DWELL = 8
POOL = 4000
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def numbers(
    null: str, hosts: int, relations: int, runs: int, chance: np.random.Generator
) -> Floats:
    """Logarithms of the numbers, in order of time: hosts x relations x runs."""
    log_ns = chance.normal(0, SCATTER, (hosts, relations, runs))
    for part in null.split(", "):
        change_scatter(log_ns, part, chance)
        add_times(log_ns, part, chance)
        add_levels(log_ns, part, chance)
        drop_missing(log_ns, part, chance)
    return log_ns


def change_scatter(log_ns: Floats, part: str, chance: np.random.Generator) -> None:
    """Give the numbers the scatter that a part of a null has."""
    hosts, relations, runs = log_ns.shape
    match part:
        case "3 %":
            log_ns *= 3
        case "mixed":
            log_factors = chance.uniform(np.log(0.3), np.log(3), (hosts, relations, 1))
            log_ns *= np.exp(log_factors)
        case "heavy tails":
            log_ns[:] = SCATTER * chance.standard_t(2, log_ns.shape)
        case "slow runs":
            is_slow = chance.random(log_ns.shape) < 0.1
            slower = np.log(chance.uniform(1.2, 2, log_ns.shape))
            log_ns += np.where(is_slow, slower, 0)
        case "hosts":
            log_ns += chance.normal(0, SCATTER, (hosts, 1, runs))
        case "shared":
            log_ns += chance.normal(0, 0.02, runs)


def add_times(log_ns: Floats, part: str, chance: np.random.Generator) -> None:
    """Add what a part of a null changes in the course of time."""
    hosts, _, runs = log_ns.shape
    turns = np.arange(runs)
    match part:
        case "steps":
            first_slow = chance.integers(1, runs, (hosts, 1, 1))
            log_ns += 0.05 * (turns >= first_slow)
        case "period 4":
            first = chance.integers(4)
            is_up = (turns + first) % 4 < 2
            log_ns += 0.03 * np.where(is_up, 1, -1)
        case "drift":
            log_ns += 0.01 * turns
        case "AR .9":
            for run in range(1, runs):
                own = (1 - 0.81) ** 0.5 * log_ns[..., run]
                log_ns[..., run] = 0.9 * log_ns[..., run - 1] + own


def add_levels(log_ns: Floats, part: str, chance: np.random.Generator) -> None:
    """Add the levels that the numbers of a part of a null are at."""
    match part:
        case "levels":
            log_ns += np.where(chance.random(log_ns.shape) < 0.1, np.log(0.7), 0)
        case "modes":
            modes = chance.choice([24.0, 54.0, 128.0], log_ns.shape, p=[0.3, 0.5, 0.2])
            log_ns += np.log(modes)
        case "states":
            log_ns += states(log_ns.shape, chance)
        case "flips":
            log_ns += chance.choice(flipping(), log_ns.shape)


def drop_missing(log_ns: Floats, part: str, chance: np.random.Generator) -> None:
    """Drop one number in ten, and one run of a host in fifty."""
    if part == "missing":
        hosts, relations, runs = log_ns.shape
        log_ns[chance.random(log_ns.shape) < 0.1] = np.nan
        is_lost = chance.random((hosts, 1, runs)) < 0.02
        log_ns[is_lost.repeat(relations, axis=1)] = np.nan


def states(size: tuple[int, int, int], chance: np.random.Generator) -> Floats:
    """Levels of relations, of two to six each, 20 to 100 % apart, that last 1 to 5,000
    bursts on average.
    """
    hosts, relations, runs = size
    log_ns = np.empty(size)
    for place in np.ndindex(hosts, relations):
        level_count = chance.integers(2, 7)
        ratios = chance.uniform(1.2, 2, level_count)
        levels = np.cumsum(np.log(ratios))
        dwell = np.exp(chance.uniform(0, np.log(5000)))
        is_switch = chance.random(runs * BURSTS) < 1 / dwell
        draws = chance.integers(len(levels), size=is_switch.sum() + 1)
        level_of_burst = draws[np.cumsum(is_switch)].reshape(runs, BURSTS)
        for run, bursts in enumerate(level_of_burst):
            main_level = np.bincount(bursts).argmax()
            log_ns[place][run] = levels[main_level]
    return log_ns


@cache
def flipping() -> Floats:
    """Logarithms of the numbers of many runs whose bursts flip between two levels."""
    chance = np.random.default_rng(POOL)
    flips = chance.random((POOL, BURSTS)) < 1 / DWELL
    flips[:, 0] = chance.random(POOL) < 0.5
    is_low = flips.cumsum(axis=1) % 2 == 1
    noise = np.exp(chance.normal(0, 0.015, flips.shape))
    level = np.where(is_low, 24.0, 50.0)
    bursts = level * noise
    runs = describe_runs(bursts[:, None, :])
    return np.log(runs["median_ns"])


def order(null: str, runs: int, chance: np.random.Generator) -> Bools:
    """Whether each run, by time, is of side B."""
    if null.endswith(ABBA):
        turn = np.array([False, True, True, False])
        return np.resize(turn, 2 * runs)
    seed = int(chance.integers(1 << 30))
    alternation = Alternation("side", ("a", "b"))
    sides = alternation.draw_order(runs, seed=seed)
    is_b = np.array([side == "b" for side in sides])
    if "unequal" in null:
        return np.append(is_b, [True, True])
    return is_b


def judge_logs(
    null: str, log_ns: Floats, of_b: Bools
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The relations of all hosts, and of all hosts together, as one command judges
    them.
    """
    _, relations, runs = log_ns.shape
    names = [str(relation) for relation in range(relations)]
    rows = pd.DataFrame({"benchmark": "cas", "variant": "", "relation": names})
    turns = tuple(range(runs))
    blocks = None
    if null.endswith(IN_BLOCKS):
        blocks = np.arange(runs) // 2
    comparisons = [SideRuns(rows, host, of_b, turns, "a, b", blocks) for host in log_ns]
    tables, fleets = judge_comparisons(comparisons, THRESHOLD)
    no_rows = tables[0][:0]
    fleet = next(iter(fleets.values()), no_rows)
    return pd.concat(tables, ignore_index=True), fleet


def rates(
    null: str,
    hosts: int,
    relations: int,
    runs: int,
    sessions: int,
    seed: int,
    power_of: int = 10,
) -> tuple[Floats, Floats]:
    """By session, the shares error, verdict, each, fleet, none; and by session with
    planted changes, power.

    Power: `changed`, and `at another level`, for each of PLANTED and for three hosts
    +100 %.
    """
    chance = np.random.default_rng(seed)
    errors: list[list[float]] = []
    power: list[list[float]] = []
    # which relations of which hosts: hosts x relations
    is_slow_host = np.arange(hosts)[:, None].repeat(relations, axis=1) < 3
    is_every_eighth = np.arange(hosts * relations).reshape(hosts, relations) % 8 == 0
    for session in range(sessions):
        of_b = order(null, runs, chance)
        log_ns = numbers(null, hosts, relations, len(of_b), chance)
        errors.append(measure_errors(null, log_ns, of_b))
        if session % power_of == 0:
            shares: list[float] = []
            for change in PLANTED:
                shares += measure_power(null, log_ns, of_b, is_every_eighth, change)
            shares += measure_power(null, log_ns, of_b, is_slow_host, 1.0)
            power.append(shares)
    return np.array(errors), np.array(power)


def measure_errors(null: str, log_ns: Floats, of_b: Bools) -> list[float]:
    """Return the shares error, verdict, each, fleet and none of a session in which
    nothing changed.
    """
    table, fleet = judge_logs(null, log_ns, of_b)
    both = pd.concat([table, fleet])
    is_error = both["q"] < ALPHA
    is_changed = both["verdict"] == Verdict.CHANGED
    return [
        float(is_error.any()),
        float(is_changed.any()),
        compute_share_excluded(table),
        compute_share_excluded(fleet),
        float(table["p"].isna().mean()),
    ]


def compute_share_excluded(judged: pd.DataFrame) -> float:
    """Return the share of rows whose interval excludes no change."""
    is_excluded = (judged["low"] > 1) | (judged["high"] < 1)
    return float(is_excluded.mean())


def measure_power(
    null: str, log_ns: Floats, of_b: Bools, moved: Bools, change: float
) -> list[float]:
    """Plant a change in side B; return which shares of it are `changed` and `at another
    level`. moved: hosts x relations.
    """
    slower = log_ns + (moved[..., None] & of_b) * np.log1p(change)
    table, _ = judge_logs(null, slower, of_b)
    verdicts = table["verdict"].to_numpy()[moved.ravel()]
    return [
        float(np.mean(verdicts == Verdict.CHANGED)),
        float(np.mean(verdicts == Verdict.AT_ANOTHER_LEVEL)),
    ]


def two_hosts(
    null: str, hosts: int, relations: int, runs: int, sessions: int, seed: int
) -> Floats:
    """Two hosts became twice as slow: sessions that name both, their relations found,
    wrong findings.
    """
    chance = np.random.default_rng(seed)
    is_slow = np.arange(hosts) < 2
    shares = []
    for _ in range(sessions):
        of_b = order(null, runs, chance)
        log_ns = numbers(null, hosts, relations, len(of_b), chance)
        slower = log_ns + (is_slow[:, None, None] & of_b) * np.log(2)
        table, _ = judge_logs(null, slower, of_b)
        either = table["verdict"].isin([Verdict.CHANGED, Verdict.AT_ANOTHER_LEVEL])
        is_found = either.to_numpy(dtype=float).reshape(hosts, relations)
        shares.append(describe_findings(is_found, is_slow))
    mean_shares: Floats = np.array(shares).mean(axis=0)
    return mean_shares


def describe_findings(is_found: Floats, is_slow: Bools) -> tuple[float, float, float]:
    """Return whether each slow host is named, the share of their relations that is
    found, and of findings that are wrong. is_found: hosts x relations.
    """
    right = is_found[is_slow]
    wrong = is_found[~is_slow]
    names_all = right.any(axis=1).all()
    findings = max(is_found.sum(), 1)
    return float(names_all), float(right.mean()), float(wrong.sum() / findings)


def ideal(
    null: str, hosts: int, relations: int, runs: int, sessions: int, seed: int
) -> Floats:
    """The share of changes of 5 % that a test finds which knows the deviation of each
    relation's runs.
    """
    chance = np.random.default_rng(seed)
    count = hosts * relations
    is_changed = np.arange(count) % 8 == 0
    change = np.log1p(PLANTED[0]) * is_changed
    shares = []
    for _ in range(sessions):
        deviation = draw_deviations(null, count, chance)
        error = deviation * (2 / runs) ** 0.5
        difference = chance.normal(0, error) + change
        p = 2 * stats.norm.sf(np.abs(difference) / error)
        is_proved = stats.false_discovery_control(p) < ALPHA
        is_large = np.abs(difference) > np.log1p(THRESHOLD)
        is_found = is_proved & is_large
        shares.append(np.mean(is_found[is_changed]))
    return np.array([np.mean(shares)])


def draw_deviations(null: str, count: int, chance: np.random.Generator) -> Floats:
    """The deviation of each relation's runs."""
    if null == "3 %":
        return np.full(count, 3 * SCATTER)
    deviations = np.full(count, SCATTER)
    if null == "mixed":
        deviations *= np.exp(chance.uniform(np.log(0.3), np.log(3), count))
    return deviations


def format_row(null: str, runs: int, errors: Floats, power: Floats) -> str:
    """Format the rates as a row of a table; of the power: changed + at another
    level.
    """
    error, verdict, _, fleet, none = (f"{share:.1%}" for share in errors.mean(axis=0))
    percents = [f"{share * 100:.0f}" for share in power.mean(axis=0)]
    cells = []
    for changed, at_other_level in zip(percents[::2], percents[1::2], strict=True):
        cell = changed
        if at_other_level != "0":
            cell += f" + {at_other_level}"
        cells.append(cell)
    row = [null, str(runs), error, verdict, fleet, none, *cells]
    return f"| {' | '.join(row)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what is asked for, a row per null and number of runs."""
    options = parse_options(arguments)
    if options.two:
        print_shares(two_hosts, options.null or SWITCHING, options)
    elif options.ideal:
        print_shares(ideal, options.null or ("normal", "3 %", "mixed"), options)
    else:
        print_rates(options)


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    defaults = {"sessions": 200, "seed": 1, "hosts": 20, "relations": 8, "power-of": 10}
    for name, usual in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument(
        "--runs", type=int, action="append", help="a side; default: 3, 5 and 10"
    )
    parser.add_argument(
        "--null", choices=NULLS, action="append", help="only these; default: all"
    )
    parser.add_argument("--two", action="store_true", help="two slow hosts")
    parser.add_argument(
        "--ideal", action="store_true", help="what a test that knows the noise finds"
    )
    return parser.parse_args(arguments)


def print_rates(options: argparse.Namespace) -> None:
    """Print the rates of errors and the power."""
    titles = (
        "runs vary by",
        "runs",
        "any finding",
        "changed",
        "all hosts",
        "none",
        *TITLES,
    )
    print(f"| {' | '.join(titles)} |\n|{' - |' * len(titles)}")
    for null in options.null or NULLS:
        for runs in options.runs or (3, 5, 10):
            size = (options.hosts, options.relations, runs, options.sessions)
            with np.errstate(invalid="ignore"):  # of relations that one side lacks
                errors, power = rates(null, *size, options.seed, options.power_of)
            print(format_row(null, runs, errors, power), flush=True)


def print_shares(
    question: Callable[..., Floats], nulls: Sequence[str], options: argparse.Namespace
) -> None:
    """Print the shares that a question asks for, a row per null and number of runs."""
    for null in nulls:
        for runs in options.runs or (3, 5, 10):
            size = (options.hosts, options.relations, runs, options.sessions)
            shares = question(null, *size, options.seed)
            cells = " ".join(f"{share:>6.1%}" for share in shares)
            print(f"{null:<18} {runs:>4} {cells}", flush=True)


if __name__ == "__main__":
    main()

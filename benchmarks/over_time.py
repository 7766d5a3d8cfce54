"""Simulate fleets over many nights, and count what `fleet compare SELECTION` finds that
is there, or is not.

Usage: python -m benchmarks.over_time [--sessions 100] [--seed 1] [--table]

A session: 20 hosts with 8 relations, which vary from run to run by 0.7 to 1.4 %, half
of the variance common to a host's night. heavy: t(3). AR: correlation 0.5 from night to
night. levels: 24, 54 or 128 ns by chance.
sticky: 24 or 50 ns, drawn again with chance 0.1 a night. drift: 5 % steadily. season: a
sine of 1.5 %.
spikes: 5 % of the hosts' nights +20 %. `any`: sessions with any finding; `dated`: with
any date. Then one series in eight changed at its own date (15 to 85 %): how many are
found within 3 nights or a twentieth, with a date, within a night; how often the
interval of the change holds it; false dates a session; and how often 2 % on all hosts
is found and dated. --table: make the constants.
"""

import argparse
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fleet.analysis.base import Floats
from fleet.analysis.compare import (
    CALIBRATION,
    Calibration,
    Change,
    append_means,
    clean_series,
    find_best_splits,
    find_changes,
    measure_parts,
)
from fleet.analysis.reduce import label_levels_of_hosts

HOSTS = 20
RELATIONS = 8
NOISES = ("normal", "heavy", "AR", "levels", "sticky", "spikes", "drift", "season")
_ONE_IN = 8
_AT = 5e-4  # the p for which the table is made


def make_series(chance: np.random.Generator, nights: int, noise: str) -> Floats:
    """Series without any change, hosts one after the other: rows x nights."""
    shape = (HOSTS, RELATIONS, nights)
    of_hosts = draw_noise(chance, (HOSTS, 1, nights), noise)
    of_relations = draw_noise(chance, shape, noise)
    deviations = np.exp(chance.uniform(np.log(0.007), np.log(0.014), shape[:2]))
    both = 0.5**0.5 * (of_hosts + of_relations)
    log_ns: Floats = (deviations[..., None] * both).reshape(-1, nights)
    add_course(log_ns, chance, noise)
    return log_ns


def draw_noise(chance: np.random.Generator, shape: Sequence[int], noise: str) -> Floats:
    """Noise of variance 1, the last axis the nights."""
    if noise == "heavy":
        heavy: Floats = chance.standard_t(3, shape) / 3**0.5
        return heavy
    values: Floats = chance.standard_normal(shape)
    if noise == "AR":
        correlate(values)
    return values


def correlate(values: Floats) -> None:
    """Make each night's value half that of the night before; the variance stays."""
    for night in range(1, values.shape[-1]):
        own = 0.75**0.5 * values[..., night]
        values[..., night] = 0.5 * values[..., night - 1] + own


def add_course(log_ns: Floats, chance: np.random.Generator, noise: str) -> None:
    """Add what changes the series in the course of time, without being a change."""
    nights = np.arange(log_ns.shape[1])
    match noise:
        case "levels":
            levels = chance.choice([24.0, 54.0, 128.0], log_ns.shape, p=[0.7, 0.2, 0.1])
            log_ns += np.log(levels)
        case "sticky":
            is_drawn_again = chance.random(log_ns.shape) < 0.1
            drawn_at = np.where(is_drawn_again, nights, 0)
            last = np.maximum.accumulate(drawn_at, axis=1)
            levels = chance.choice([24.0, 50.0], log_ns.shape)
            log_ns += np.take_along_axis(np.log(levels), last, axis=1)
        case "drift":
            log_ns += 0.05 * nights / len(nights)
        case "season":
            periods = nights / max(len(nights), 60)
            log_ns += 0.015 * np.sin(2 * np.pi * (periods + chance.random()))
        case "spikes":
            is_spike = chance.random((HOSTS, len(nights))) < 0.05
            log_ns += np.repeat(np.log(1.2) * is_spike, RELATIONS, axis=0)


def find_session_changes(log_ns: Floats, noise: str) -> list[Change]:
    """Find the changes of one session."""
    hosts, relations = np.divmod(np.arange(len(log_ns)), RELATIONS)
    switches = np.full(len(log_ns), noise in ("levels", "sticky"))
    levels = label_levels_of_hosts(log_ns, hosts)
    clean = clean_series(log_ns, levels, switches).log_ns
    return find_changes(append_means(clean, hosts, relations).log_ns)


def clean_unchanged(log_ns: Floats) -> Floats:
    """Clean the series of machines that do not switch levels."""
    levels = label_levels_of_hosts(log_ns, np.zeros(len(log_ns), dtype=np.int64))
    return clean_series(log_ns, levels, np.zeros(len(log_ns), dtype=bool)).log_ns


class Planted(NamedTuple):
    """Changes planted into series. change: of each, a share. dates: their nights, by
    row.
    """

    change: float
    dates: dict[int, int]


def plant_changes(
    chance: np.random.Generator, log_ns: Floats, change: float
) -> Planted:
    """Change one series in eight from a date of its own on."""
    nights = log_ns.shape[1]
    rows = chance.choice(len(log_ns), len(log_ns) // _ONE_IN, replace=False)
    first = round(0.15 * nights)
    end = round(0.85 * nights) + 1
    dates = chance.integers(first, end, len(rows)).clip(3, nights - 3)
    for row, date in zip(rows, dates, strict=True):
        log_ns[row, date:] += np.log1p(change)
    return Planted(change, dict(zip(rows.tolist(), dates.tolist(), strict=True)))


def measure_power(chance: np.random.Generator, nights: int, change: float) -> Floats:
    """Return one session's columns of the second table."""
    log_ns = make_series(chance, nights, "normal")
    planted = plant_changes(chance, log_ns, change)
    hits: dict[int, tuple[bool, bool, bool]] = {}
    false_dates = 0
    for step in find_session_changes(log_ns, "normal"):
        if is_near(step, planted, max(3, nights / 20)):
            hits[step.row] = describe_hit(step, planted)
        elif step.row < len(log_ns) and step.dated:
            false_dates += 1
    found = len(hits) / len(planted.dates)
    dated, same_night, holds = np.full(3, np.nan)
    if hits:
        dated, same_night, holds = np.array(list(hits.values())).mean(axis=0)
    is_found_on_all = find_change_of_all(chance, nights)
    return np.array(
        [found, found * dated, same_night, holds, false_dates, is_found_on_all]
    )


def is_near(step: Change, planted: Planted, nights: float) -> bool:
    """Report whether a change is within so many nights of that of its row."""
    date = planted.dates.get(step.row)
    return date is not None and abs(step.night - date) <= nights


def describe_hit(step: Change, planted: Planted) -> tuple[bool, bool, bool]:
    """Return whether a change has a date, this is within a night, and its interval
    holds the change.
    """
    is_same_night = abs(step.night - planted.dates[step.row]) <= 1
    holds = step.low <= np.log1p(planted.change) <= step.high
    return step.dated, is_same_night, bool(holds)


def find_change_of_all(chance: np.random.Generator, nights: int) -> bool:
    """Change all hosts by 2 % at half time; return whether that is found and dated
    within a night.
    """
    log_ns = make_series(chance, nights, "normal")
    date = nights // 2
    log_ns[:, date:] += np.log1p(0.02)
    for step in find_session_changes(log_ns, "normal"):
        is_of_all = step.row >= len(log_ns)
        if is_of_all and step.dated and abs(step.night - date) <= 1:
            return True
    return False


def print_calibration(chance: np.random.Generator, sessions: int) -> None:
    """Print the constants of `CALIBRATION`."""
    lengths = np.exp(CALIBRATION.nights).round().astype(int)
    shares = np.array([measure_shares(chance, nights) for nights in lengths]).T
    calibration = Calibration(CALIBRATION.nights, np.ones(len(lengths)), *shares)
    splits = []
    for nights in lengths:
        by_noise = []
        for noise in ("normal", "heavy"):
            p = measure_p(chance, nights, noise, calibration, sessions)
            by_noise.append(_AT / np.quantile(p, _AT))
        splits.append(max(by_noise))
        print(nights, by_noise, flush=True)
    for name, values in zip(Calibration._fields[1:], (splits, *shares), strict=True):
        print(f"{name}: np.array([{', '.join(f'{value:.3g}' for value in values)}])")


def measure_shares(chance: np.random.Generator, nights: int) -> list[float]:
    """Return what the best splits leave of the variance of series of this length, and
    how nights are correlated.
    """
    walks = chance.standard_normal((2, 4000, nights)) * 0.01
    correlate(walks[1])
    shares = []
    for log_ns in walks:
        *_, left, correlated = find_best_splits(clean_unchanged(log_ns))
        shares.append((left.mean(), correlated.mean()))
    (left, correlated), (left_of_half, correlated_half) = shares
    return [
        left / 1e-4,
        correlated,
        (correlated_half - correlated) / 0.5,
        left_of_half / left,
    ]


def measure_p(
    chance: np.random.Generator,
    nights: int,
    noise: str,
    calibration: Calibration,
    sessions: int,
) -> Floats:
    """Return the p of all series of some sessions without a change."""
    parts = [(row, np.arange(nights)) for row in range(HOSTS * RELATIONS)]
    every = []
    for _ in range(sessions):
        log_ns = clean_unchanged(make_series(chance, nights, noise))
        p, *_ = measure_parts(log_ns, parts, calibration)
        every.append(p)
    return np.concatenate(every)


def print_false_findings(options: argparse.Namespace) -> None:
    """Print how often sessions without a change have a finding, and a date."""
    print("nights  noise   sessions    any  dated  CPU ms a session")
    for nights in options.nights:
        for noise in NOISES:
            chance = np.random.default_rng(options.seed)
            begun = time.process_time()
            any_found = 0
            any_dated = 0
            for _ in range(options.sessions):
                log_ns = make_series(chance, nights, noise)
                steps = find_session_changes(log_ns, noise)
                any_found += bool(steps)
                any_dated += any(step.dated for step in steps)
            spent_s = time.process_time() - begun
            print(
                f"{nights:>6}  {noise:<8}{options.sessions:>8}"
                f"{any_found / options.sessions:>7.0%}"
                f"{any_dated / options.sessions:>7.0%}"
                f"{spent_s / options.sessions * 1000:>9.0f}",
                flush=True,
            )


def print_power(options: argparse.Namespace) -> None:
    """Print how many planted changes are found, and how well they are dated."""
    print("nights  change  sessions  found  dated  night  holds  false  all 2%")
    sessions = max(options.sessions // 4, 3)
    for nights in options.nights:
        for change in (0.05, 0.03, 0.02):
            chance = np.random.default_rng(options.seed)
            rows = [measure_power(chance, nights, change) for _ in range(sessions)]
            *shares, false_dates, of_all = np.nanmean(rows, axis=0)
            percents = "".join(f"{share:>7.0%}" for share in shares)
            print(
                f"{nights:>6}{change:>8.0%}{sessions:>10}{percents}"
                f"{false_dates:>7.2f}{of_all:>8.0%}",
                flush=True,
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nights", type=int, nargs="*", default=[8, 30, 90])
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(arguments)
    if options.table:
        print_calibration(np.random.default_rng(options.seed), options.sessions)
    else:
        print_false_findings(options)
        print_power(options)


if __name__ == "__main__":
    main()

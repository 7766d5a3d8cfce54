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
    """Series without any change, hosts one after the other."""
    shape = (HOSTS, RELATIONS, nights)

    def draw(size: Sequence[int]) -> Floats:
        if noise == "heavy":
            return chance.standard_t(3, size) / 3**0.5
        values = chance.standard_normal(size)
        if noise == "AR":
            for night in range(1, nights):
                values[..., night] = (
                    0.5 * values[..., night - 1] + 0.75**0.5 * values[..., night]
                )
        return values

    both = 0.5**0.5 * (draw((HOSTS, 1, nights)) + draw(shape))
    logs = (
        np.exp(chance.uniform(np.log(0.007), np.log(0.014), shape[:2]))[..., None]
        * both
    ).reshape(-1, nights)
    time_of = np.arange(nights)
    if noise == "levels":
        logs += np.log(
            chance.choice([24.0, 54.0, 128.0], logs.shape, p=[0.7, 0.2, 0.1])
        )
    if noise == "sticky":
        drawn_again = chance.random(logs.shape) < 0.1
        last = np.maximum.accumulate(np.where(drawn_again, time_of, 0), axis=1)
        logs += np.take_along_axis(
            np.log(chance.choice([24.0, 50.0], logs.shape)), last, axis=1
        )
    if noise == "drift":
        logs += 0.05 * time_of / nights
    if noise == "season":
        logs += 0.015 * np.sin(
            2 * np.pi * (time_of / max(nights, 60) + chance.random())
        )
    if noise == "spikes":
        logs += np.repeat(
            np.log(1.2) * (chance.random((HOSTS, nights)) < 0.05), RELATIONS, axis=0
        )
    return logs


def find_session_changes(logs: Floats, noise: str) -> list[Change]:
    """Find the changes of one session."""
    hosts, relations = np.divmod(np.arange(len(logs)), RELATIONS)
    switches = np.full(len(logs), noise in ("levels", "sticky"))
    levels = label_levels_of_hosts(logs, hosts)
    clean = clean_series(logs, levels, switches).logs
    return find_changes(append_means(clean, hosts, relations).logs)


def clean_unchanged(logs: Floats) -> Floats:
    """Clean the series of machines that do not switch levels."""
    levels = label_levels_of_hosts(logs, np.zeros(len(logs), dtype=np.int64))
    return clean_series(logs, levels, np.zeros(len(logs), dtype=bool)).logs


def measure_power(chance: np.random.Generator, nights: int, change: float) -> Floats:
    """Return one session's columns of the second table."""
    logs = make_series(chance, nights, "normal")
    rows = chance.choice(len(logs), len(logs) // _ONE_IN, replace=False)
    dates = chance.integers(
        round(0.15 * nights), round(0.85 * nights) + 1, len(rows)
    ).clip(3, nights - 3)
    for row, date in zip(rows, dates, strict=True):
        logs[row, date:] += np.log1p(change)
    all_found = find_session_changes(logs, "normal")
    near = max(3, nights / 20)
    hits = {}
    false = 0
    for step in all_found:
        planted = np.flatnonzero(rows == step.row)
        if len(planted) and abs(step.night - dates[planted[0]]) <= near:
            hits[step.row] = (
                step.dated,
                abs(step.night - dates[planted[0]]) <= 1,
                step.low <= np.log1p(change) <= step.high,
            )
        elif step.row < len(logs) and step.dated:
            false += 1
    shares = np.array(list(hits.values())).mean(axis=0) if hits else np.full(3, np.nan)
    fleet_logs = make_series(chance, nights, "normal")
    fleet_logs[:, nights // 2 :] += np.log1p(0.02)
    of_all = [
        step
        for step in find_session_changes(fleet_logs, "normal")
        if step.row >= len(fleet_logs)
        and abs(step.night - nights // 2) <= 1
        and step.dated
    ]
    return np.array(
        [
            len(hits) / len(rows),
            len(hits) / len(rows) * shares[0],
            *shares[1:],
            false,
            bool(of_all),
        ]
    )


def print_calibration(chance: np.random.Generator, sessions: int) -> None:
    """Print the constants of `CALIBRATION`."""
    lengths = np.exp(CALIBRATION.nights).round().astype(int)
    rows = []
    for nights in lengths:
        walks = chance.standard_normal((2, 4000, nights)) * 0.01
        for night in range(1, nights):
            walks[1, :, night] = (
                0.5 * walks[1, :, night - 1] + 0.75**0.5 * walks[1, :, night]
            )
        clean = (clean_unchanged(logs) for logs in walks)
        left, correlated = (
            np.array([find_best_splits(logs)[2:] for logs in clean]).mean(axis=2).T
        )
        rows.append(
            (
                left[0] / 1e-4,
                correlated[0],
                (correlated[1] - correlated[0]) / 0.5,
                left[1] / left[0],
            )
        )
    shares = np.array(rows).T
    calibration = Calibration(CALIBRATION.nights, np.ones(len(lengths)), *shares)
    splits = []
    for nights in lengths:
        by_noise = []
        for noise in ("normal", "heavy"):
            p = []
            for _ in range(sessions):
                logs = clean_unchanged(make_series(chance, nights, noise))
                parts = [(row, np.arange(nights)) for row in range(160)]
                p.append(measure_parts(logs, parts, calibration)[0])
            by_noise.append(_AT / np.quantile(np.concatenate(p), _AT))
        splits.append(max(by_noise))
        print(nights, by_noise, flush=True)
    for name, values in zip(Calibration._fields[1:], (splits, *shares), strict=True):
        print(f"{name}: np.array([{', '.join(f'{value:.3g}' for value in values)}])")


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
        return
    print("nights  noise   sessions    any  dated  CPU ms a session")
    for nights in options.nights:
        for noise in NOISES:
            chance = np.random.default_rng(options.seed)
            begun = time.process_time()
            every = [
                find_session_changes(make_series(chance, nights, noise), noise)
                for _ in range(options.sessions)
            ]
            spent = (time.process_time() - begun) / options.sessions * 1000
            shares = [
                np.mean([bool(steps) for steps in every]),
                np.mean([any(step.dated for step in steps) for steps in every]),
            ]
            print(
                f"{nights:>6}  {noise:<8}{options.sessions:>8}"
                + "".join(f"{share:>7.0%}" for share in shares)
                + f"{spent:>9.0f}",
                flush=True,
            )
    print("nights  change  sessions  found  dated  night  holds  false  all 2%")
    for nights in options.nights:
        for change in (0.05, 0.03, 0.02):
            chance = np.random.default_rng(options.seed)
            times = max(options.sessions // 4, 3)
            rows = np.array(
                [measure_power(chance, nights, change) for _ in range(times)]
            )
            *shares, false, fleet_share = np.nanmean(rows, axis=0)
            print(
                f"{nights:>6}{change:>8.0%}{times:>10}"
                + "".join(f"{share:>7.0%}" for share in shares)
                + f"{false:>7.2f}{fleet_share:>8.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()

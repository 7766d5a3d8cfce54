"""Hold `fleet compare SELECTION` beside Otava and asv on the sessions of
`benchmarks.over_time`.

Usage: PEERS/bin/python -m benchmarks.over_time_peers [--sessions 10] [--seed 1]
[--nights 8 30 90]

PEERS is an environment of apache-otava and asv. `any`: sessions in which a change is
dated, of 160 series none of which changed (the program's own defaults, each series
alone, as both are used); `found`: changes of 5 % in one series in eight found within 3
nights or a twentieth; `false`: dated changes of other series.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from asv.step_detect import detect_steps  # type: ignore[import-not-found]  # of the peers' environment
from otava.series import Metric, Series  # type: ignore[import-not-found]

from benchmarks import over_time
from fleet.analysis.base import Floats

Dated = Iterable[tuple[int, int]]  # row and night


def otava(logs: Floats, _: str) -> Dated:
    """As `otava analyze` with its defaults."""
    for row, values in enumerate(np.exp(logs) * 50):
        days = [86_400 * night for night in range(len(values))]
        series = Series(
            "t", None, days, {"ns": Metric(-1, 1.0)}, {"ns": values.tolist()}, {}
        )
        yield from (
            (row, point.index) for point in series.analyze().change_points["ns"]
        )


def asv(logs: Floats, _: str) -> Dated:
    """As `asv publish`: a regression needs two nights after it."""
    for row, values in enumerate(np.exp(logs) * 50):
        steps = detect_steps(values.tolist())
        yield from ((row, step[0]) for step in steps[1:] if step[0] <= len(values) - 2)


def ours(logs: Floats, noise: str) -> Dated:
    """Return the dated changes in rows of one series."""
    return [
        (step.row, step.night)
        for step in over_time.find_session_changes(logs, noise)
        if step.dated and step.row < len(logs)
    ]


PROGRAMS: dict[str, Callable[[Floats, str], Dated]] = {
    "fleet": ours,
    "otava": otava,
    "asv": asv,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per number of nights, noise and program, on the same numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nights", type=int, nargs="*", default=[8, 30, 90])
    options = parser.parse_args(arguments)
    print("nights  noise     program  sessions    any  found  false  CPU ms a session")
    for nights in options.nights:
        for noise in over_time.NOISES:
            chance = np.random.default_rng(options.seed)
            sessions = [
                over_time.make_series(chance, nights, noise)
                for _ in range(options.sessions)
            ]
            for name, program in PROGRAMS.items():
                begun = time.process_time()
                every = [list(program(logs, noise)) for logs in sessions]
                spent = (time.process_time() - begun) / options.sessions * 1000
                changed = (
                    [find_planted(program, logs) for logs in sessions]
                    if noise == "normal"
                    else []
                )
                shares = (
                    "".join(f"{value:>7.0%}" for value in np.mean(changed, axis=0)[:1])
                    if changed
                    else " " * 7
                )
                false = np.mean([len(run) for run in every])
                any_ = np.mean([bool(run) for run in every])
                print(
                    f"{nights:>6} "
                    f" {noise:<8}{name:>9}{options.sessions:>10}{any_:>7.0%}"
                    f"{shares}{false:>7.1f}{spent:>9.0f}",
                    flush=True,
                )


def find_planted(program: Callable[[Floats, str], Dated], logs: Floats) -> tuple[float]:
    """Return the share found of planted changes: one series in eight, 5 % slower from a
    night of its own.
    """
    nights = logs.shape[1]
    rows = np.arange(0, len(logs), 8)
    dates = (
        np.linspace(0.15 * nights, 0.85 * nights, len(rows))
        .round()
        .astype(int)
        .clip(3, nights - 3)
    )
    slower = logs.copy()
    for row, date in zip(rows, dates, strict=True):
        slower[row, date:] += np.log(1.05)
    near = max(3, nights / 20)
    dated = list(program(slower, "normal"))
    hits = [
        any(other == row and abs(night - date) <= near for other, night in dated)
        for row, date in zip(rows, dates, strict=True)
    ]
    return (float(np.mean(hits)),)


if __name__ == "__main__":
    main()

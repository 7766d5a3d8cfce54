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


def otava(log_ns: Floats, _: str) -> Dated:
    """As `otava analyze` with its defaults."""
    for row, values in enumerate(np.exp(log_ns) * 50):
        days = [86_400 * night for night in range(len(values))]
        series = Series(
            "t", None, days, {"ns": Metric(-1, 1.0)}, {"ns": values.tolist()}, {}
        )
        yield from (
            (row, point.index) for point in series.analyze().change_points["ns"]
        )


def asv(log_ns: Floats, _: str) -> Dated:
    """As `asv publish`: a regression needs two nights after it."""
    for row, values in enumerate(np.exp(log_ns) * 50):
        steps = detect_steps(values.tolist())
        yield from ((row, step[0]) for step in steps[1:] if step[0] <= len(values) - 2)


def ours(log_ns: Floats, noise: str) -> Dated:
    """Return the dated changes in rows of one series."""
    return [
        (step.row, step.night)
        for step in over_time.find_session_changes(log_ns, noise)
        if step.dated and step.row < len(log_ns)
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
            for name in PROGRAMS:
                print(f"{nights:>6}  {measure(name, noise, sessions)}", flush=True)


def measure(name: str, noise: str, sessions: Sequence[Floats]) -> str:
    """Return a row on what a program dates in sessions without a change, and finds of
    planted ones.
    """
    program = PROGRAMS[name]
    begun = time.process_time()
    counts = [len(list(program(log_ns, noise))) for log_ns in sessions]
    spent_ms = (time.process_time() - begun) / len(sessions) * 1000
    any_dated = np.mean([count > 0 for count in counts])
    found = ""
    if noise == "normal":
        shares = [find_planted(program, log_ns) for log_ns in sessions]
        found = f"{np.mean(shares):.0%}"
    return (
        f"{noise:<8}{name:>9}{len(sessions):>10}{any_dated:>7.0%}"
        f"{found:>7}{np.mean(counts):>7.1f}{spent_ms:>9.0f}"
    )


def find_planted(program: Callable[[Floats, str], Dated], log_ns: Floats) -> float:
    """Return the share found of planted changes: one series in eight, 5 % slower from a
    night of its own.
    """
    nights = log_ns.shape[1]
    rows = np.arange(0, len(log_ns), 8)
    evenly = np.linspace(0.15 * nights, 0.85 * nights, len(rows))
    dates = evenly.round().astype(int).clip(3, nights - 3)
    slower = log_ns.copy()
    for row, date in zip(rows, dates, strict=True):
        slower[row, date:] += np.log(1.05)
    near = max(3, nights / 20)
    dated = list(program(slower, "normal"))
    hits = []
    for row, date in zip(rows, dates, strict=True):
        distances = [abs(night - date) for other, night in dated if other == row]
        hits.append(min(distances, default=nights) <= near)
    return float(np.mean(hits))


if __name__ == "__main__":
    main()

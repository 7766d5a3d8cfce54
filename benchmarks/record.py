"""How well do few bursts know the level of their own moment? Cuts schemes out of one
long record of a pair.

Usage: python -m benchmarks.record [--minutes 2] [--window 8] [--cpus 0,1] [--agent
PATH]

One process measures a pair's bursts without a pause. In every window of some seconds
the median of all its burst medians (of the larger mode) is the truth; each scheme takes
some of the window's bursts: evenly spread ones, as the default does, or neighbours, as
one long burst would. Printed are the shares of windows and starts whose median is
within 1 % and 2 % of the truth, and the half width that holds 95 % of them.
"""

import numpy as np
import numpy.typing as npt
from repeat import BENCHMARKS, agent_of, arguments_with, records

from benchmarks.interval import describe_runs

SCHEMES = (
    ("10 bursts spread", 10, True),
    ("20 bursts spread", 20, True),
    ("40 bursts spread", 40, True),
    ("30 in a row", 30, False),  # as long as 300 x 1000 samples of 100 us
)
STARTS = 20

Floats = npt.NDArray[np.float64]


def windows(run_records: list[dict], benchmark: str, seconds: float) -> list[Floats]:
    """The burst medians, ns one way, in order of time, of each whole window."""
    ns_per_tick = 1e9 / run_records[0]["ticks_per_second"]
    bursts = [
        r for r in run_records if r["record"] == "burst" and r["benchmark"] == benchmark
    ]
    medians = np.array(
        [
            np.median(b["ticks"][b["warmup"] :]) * ns_per_tick / b["iterations"] / 2
            for b in bursts
        ]
    )
    number = np.array([b["start_ns"] for b in bursts]) // int(seconds * 1e9)
    return [medians[number == window] for window in range(int(number.max()))]


def level(medians: Floats) -> float:
    """Return the number of a run with these burst medians."""
    return float(describe_runs(medians[None, None, :])["median_ns"][0])


def errors(medians: list[Floats], count: int, *, spread: bool) -> Floats:
    """Relative errors of a scheme against each window's own level, from several starts
    a window.
    """
    off: list[float] = []
    for window in medians:
        truth = level(window)
        step = len(window) // count if spread else 1
        starts = np.linspace(0, len(window) - step * (count - 1) - 1, STARTS).astype(
            int
        )
        off += [
            level(window[start : start + step * count : step][:count]) / truth - 1
            for start in starts
        ]
    return np.abs(np.array(off))


def main() -> None:
    parser = arguments_with(2, __doc__)
    parser.add_argument("--window", type=float, default=8.0, help="seconds")
    arguments = parser.parse_args()
    with agent_of(arguments) as agent:
        limit = ("--rounds", "1000000", "--deadline", str(arguments.minutes * 60))
        run_records = records(agent, arguments.cpus, limit)
    print(f"{'benchmark':10} {'scheme':17} windows  within 1%  within 2% 95% within")
    for benchmark in BENCHMARKS:
        medians = windows(run_records, benchmark, arguments.window)
        for name, count, spread in SCHEMES:
            off = errors(medians, count, spread=spread)
            print(
                f"{benchmark:10} {name:17} {len(medians):7}"
                f" {np.mean(off <= 0.01):10.0%} {np.mean(off <= 0.02):10.0%}"
                f" {np.quantile(off, 0.95):10.1%}"
            )


if __name__ == "__main__":
    main()

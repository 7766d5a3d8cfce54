"""Repeat the default run of one pair to see how far results scatter, and what they
cost.

Usage: python -m benchmarks.repeat [--minutes 3] [--cpus 0,1] [--agent PATH]

Each repeat runs in shuffled order, a process each: the default (bursts spread over
seconds, more until the 95 % interval is within 1 % or the budget is spent), one burst
of 300 x 1000 round trips, one of 500 x 4000. A repeat's result is the median of the
burst medians at the main level (docs/measuring.md). Printed are the share of results
within 2 % of the median of all, the half width that holds 95 % of them, and the time
spent in samples. "min. rounds" is the default again, of which only the first ten rounds
are used.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.interval import describe_runs

ROOT = Path(__file__).parents[1]
BENCHMARKS = ("cas", "readwrite")
SCHEMES = {
    "default": (),
    "300 x 1000": ("--preset", "core-to-core-latency"),
    "500 x 4000": ("--preset", "core_latency", "--pairs", "half"),
}
MIN_ROUNDS = 10
ENDED_EARLY = 6  # the agent's exit code (docs/wire.md)
# ns, interval low and high, ms spent in samples
Result = tuple[float, float, float, float]


def records(agent: Path, cpus: str, options: tuple[str, ...]) -> list[dict]:
    """Return an agent's records, also if its deadline ends it."""
    command = [
        agent,
        "--benchmark",
        ",".join(BENCHMARKS),
        "--cpus",
        cpus,
        "--format",
        "jsonl",
        *options,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode not in (0, ENDED_EARLY):
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def result(
    run_records: list[dict], benchmark: str, rounds: int | None = None
) -> Result:
    """Reduce one process's bursts of a benchmark, or those of its first rounds, to a
    result.
    """
    ns_per_tick = 1e9 / run_records[0]["ticks_per_second"]
    bursts = [
        r
        for r in run_records
        if r["record"] == "burst"
        and r["benchmark"] == benchmark
        and (rounds is None or r["round"] < rounds)
    ]
    medians = [
        float(np.median(b["ticks"][b["warmup"] :])) * ns_per_tick / b["iterations"] / 2
        for b in bursts
    ]
    columns = describe_runs(np.array([[medians]]))
    spent_ms = sum(sum(b["ticks"]) for b in bursts) * ns_per_tick / 1e6
    number, low, high = (
        float(columns[name][0]) for name in ("median_ns", "low_ns", "high_ns")
    )
    return number, low, high, spent_ms


def repeat(
    agent: Path, cpus: str, minutes: float
) -> dict[tuple[str, str], list[Result]]:
    results = defaultdict(list)
    give_up = time.monotonic() + minutes * 60
    while time.monotonic() < give_up:
        for scheme in random.sample(list(SCHEMES), len(SCHEMES)):
            run_records = records(agent, cpus, SCHEMES[scheme])
            for benchmark in BENCHMARKS:
                results[benchmark, scheme].append(result(run_records, benchmark))
                if scheme == "default":
                    results[benchmark, "min. rounds"].append(
                        result(run_records, benchmark, MIN_ROUNDS)
                    )
    return results


def show(results: dict[tuple[str, str], list[Result]]) -> None:
    head = (
        "benchmark",
        "scheme",
        "repeats",
        "median",
        "within 2%",
        "95% within",
        "interval holds",
        "ms",
    )
    print("{:10} {:13} {:>7} {:>7} {:>9} {:>10} {:>14} {:>7}".format(*head))
    for benchmark in BENCHMARKS:
        for scheme in ("min. rounds", *SCHEMES):
            values, low, high, spent = (
                np.array(column)
                for column in zip(*results[benchmark, scheme], strict=True)
            )
            middle = np.median(values)
            off = np.abs(values / middle - 1)
            holds = (
                "-"
                if np.isnan(low).any()
                else f"{np.mean((low <= middle) & (middle <= high)):.0%}"
            )
            row = (
                f"{middle:.1f}",
                f"{np.mean(off <= 0.02):.0%}",
                f"{np.quantile(off, 0.95):.1%}",
            )
            print(
                f"{benchmark:10} {scheme:13} {len(values):7} {row[0]:>7} {row[1]:>9}"
                f" {row[2]:>10} {holds:>14} {np.median(spent):7.1f}"
            )


def arguments_with(minutes: float, description: str | None) -> argparse.ArgumentParser:
    """Make the parser that all studies of one pair share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=minutes)
    parser.add_argument(
        "--cpus", default=",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    )
    parser.add_argument("--agent", type=Path, help="a built agent; default: build one")
    return parser


@contextmanager
def build_or_take_agent(arguments: argparse.Namespace) -> Iterator[Path]:
    """The agent named, or one built for the while."""
    with tempfile.TemporaryDirectory() as folder:
        agent = arguments.agent or Path(folder) / "fleet-agent"
        if arguments.agent is None:
            subprocess.run(
                ["make", "-s", "-C", ROOT / "agent", f"OUT={agent}"], check=True
            )
        yield agent


def main() -> None:
    arguments = arguments_with(3, __doc__).parse_args()
    with build_or_take_agent(arguments) as agent:
        show(repeat(agent, arguments.cpus, arguments.minutes))


if __name__ == "__main__":
    main()

"""Hold the agent's loops against plain reference loops, interleaved in one go on the
same two CPUs.

Usage: python benchmarks/loops.py [--rounds 40] [--cpus 0,1]

Each round runs, in shuffled order, the agent and the reference for `cas` and for
`readwrite`: one process each, the same number of samples and round trips, warm-ups
dropped, sides alternating. A process's number is the median of its samples; printed are
the medians over all rounds, their spread, and the ratio agent / reference of medians
and, since noise comes in spells, of each round's neighbours.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLES = 30
WARMUP = 2
ITERATIONS = 1000
BENCHMARKS = ("cas", "readwrite")


def build(folder: Path) -> tuple[Path, Path]:
    agent = folder / "fleet-agent"
    reference = folder / "reference"
    subprocess.run(["make", "-s", "-C", ROOT / "agent", f"OUT={agent}"], check=True)
    source = ROOT / "benchmarks" / "reference" / "reference.c"
    subprocess.run(
        ["cc", "-std=gnu11", "-O2", "-pthread", "-o", reference, source], check=True
    )
    return agent, reference


def agent_ns(agent: Path, benchmark: str, ping: int, pong: int) -> float:
    """Take one burst; the agent's first round always has the lower CPU as ping, so ask
    for both ways.
    """
    command = [
        agent,
        "--benchmark",
        benchmark,
        "--cpus",
        f"{ping},{pong}",
        "--rounds",
        "1",
        "--pairs",
        "ordered",
        "--samples",
        str(SAMPLES),
        "--warmup",
        str(WARMUP),
        "--iterations",
        str(ITERATIONS),
        "--format",
        "jsonl",
    ]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    records = [json.loads(line) for line in out.splitlines()]
    rate = records[0]["ticks_per_second"]
    (burst,) = [record for record in records if record.get("ping") == ping]
    return statistics.median(burst["ticks"][WARMUP:]) / ITERATIONS / 2 * 1e9 / rate


def reference_ns(reference: Path, benchmark: str, ping: int, pong: int) -> float:
    command = [
        reference,
        benchmark,
        str(ping),
        str(pong),
        str(SAMPLES + WARMUP),
        str(ITERATIONS),
    ]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return statistics.median(float(line) for line in out.split()[WARMUP:])


def measure(rounds: int, cpus: tuple[int, int]) -> dict[tuple[str, str], list[float]]:
    """Map (benchmark, tool) to one median per round."""
    medians = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        agent, reference = build(Path(folder))
        tools = {"agent": (agent_ns, agent), "reference": (reference_ns, reference)}
        visits = [(benchmark, tool) for benchmark in BENCHMARKS for tool in tools]
        for round_ in range(rounds):
            ping, pong = cpus if round_ % 2 == 0 else cpus[::-1]
            for benchmark, tool in random.sample(visits, len(visits)):
                take, binary = tools[tool]
                medians[benchmark, tool].append(take(binary, benchmark, ping, pong))
    return medians


def show(medians: dict[tuple[str, str], list[float]]) -> None:
    print(
        f"{'benchmark':10} {'tool':10} {'min':>7} {'p10':>7} {'median':>7} {'p90':>7}"
        f" {'max':>7}  ns one way"
    )
    for benchmark in BENCHMARKS:
        for tool in ("agent", "reference"):
            values = medians[benchmark, tool]
            deciles = statistics.quantiles(values, n=10)
            row = (
                min(values),
                deciles[0],
                statistics.median(values),
                deciles[-1],
                max(values),
            )
            print(
                f"{benchmark:10} {tool:10} "
                + " ".join(f"{value:7.1f}" for value in row)
            )
        ours = medians[benchmark, "agent"]
        theirs = medians[benchmark, "reference"]
        paired = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        of_medians = statistics.median(ours) / statistics.median(theirs)
        print(
            f"{benchmark:10} agent / reference: {of_medians:.3f} of medians,"
            f" {paired:.3f} within rounds"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument(
        "--cpus", default=",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    )
    arguments = parser.parse_args()
    first, second = (int(cpu) for cpu in arguments.cpus.split(","))
    show(measure(arguments.rounds, (first, second)))


if __name__ == "__main__":
    main()

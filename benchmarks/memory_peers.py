"""Hold `bandwidth` against programs that measure the same, on one CPU; latency_peers.py
does so for `chase`.

Usage: python benchmarks/memory_peers.py [--rounds 10] [--peers DIR] [--realtime]
[--only WORD]

Peers are looked for in DIR, then on the PATH, and left out where they are not:
likwid-bench, MemoryBandwidth_amd64 (clamchowder's), stream_c.exe (STREAM, one thread,
copying from memory to memory). A contest is one level and operation. In each round all
contests, and in each contest all loops, run in shuffled order, a process each, on the
first CPU. A process's number is the median of the agent's samples, or what the peer
prints. Printed are median and deciles of each loop over the rounds, and the median of
the rounds' ratios of our best loop to the best peer, best by median, with its 95 %
interval (bootstrap over rounds). Pages are base pages, as the peers have. --realtime
runs each process with SCHED_FIFO, for a machine that is not idle: samples of a second
suffer more from other processes than short ones.
"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.latency_peers import interval  # noqa: E402

SIZES = {"L1": 24 << 10, "L2": 512 << 10, "L3": 8 << 20, "memory": 1 << 30}
# that one process moves
PEER_BYTES = {
    "L1": 20 << 30,
    "L2": 10 << 30,
    "L3": 3 << 30,
    "memory": 3 << 30,
}
LIKWID = {"read": "load", "write": "store", "copy": "copy", "nt": "store_mem"}
CLAM = {"read": "avx512", "write": "write", "nt": "sse_ntwrite"}
"""Not its copy: a turn moves 512 bytes and steps on by 256, so it stays in half of the
memory it counts.
"""
Loop = Callable[[], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Tools:
    """Where the programs are, and what stands before each of them."""

    agent: Path
    folder: Path
    prefix: tuple[str, ...]

    def path(self, name: str) -> str | None:
        """Find a peer's program; None where it is not installed."""
        return shutil.which(name, path=f"{self.folder}:{os.environ['PATH']}")

    def output(self, *command: str | Path) -> str:
        """Return what a program prints; raise CalledProcessError where it fails."""
        return subprocess.run(
            [*self.prefix, *command],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        ).stdout


def agent_ns(tools: Tools, *plan: str) -> dict[str, float]:
    """Median of a unit in ns, by "variant point"."""
    text = tools.output(
        tools.agent, *plan, "--rounds", "1", "--threads", "1", "--format", "jsonl"
    )
    hello, *records = [json.loads(line) for line in text.splitlines()]
    return {
        f"{burst['variant']} {burst['point']}": statistics.median(
            burst["ticks"][burst["warmup"] :]
        )
        / burst["iterations"]
        * 1e9
        / hello["ticks_per_second"]
        for burst in records
        if burst["record"] == "burst"
    }


def our_rates(tools: Tools, operation: str, size: int) -> dict[str, float]:
    """GB/s of each variant, of copies also past the caches."""
    operations = "copy,ntcopy" if operation == "copy" else operation
    plan = (
        "-b",
        "bandwidth",
        "--op",
        operations,
        "--sizes",
        f"{size >> 10}K",
        "--pages",
        "base",
        "-v",
        "all",
    )
    ns = agent_ns(tools, *plan)
    return {f"fleet {name.split('.')[0]}": 1 / ns for name, ns in ns.items()}


def number(text: str, pattern: str) -> float:
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        raise ValueError(f"no number like {pattern!r} in {text!r}")
    return float(match[1])


def likwid(tools: Tools, path: str, test: str, level: str) -> dict[str, float]:
    size = SIZES[level] // 1000
    turns = max(2, PEER_BYTES[level] // SIZES[level])
    text = tools.output(path, "-t", test, "-w", f"S0:{size}kB:1", "-i", str(turns))
    return {f"likwid-bench {test}": number(text, r"^MByte/s:\s+([\d.]+)") / 1000}


def clamchowder(tools: Tools, path: str, method: str, level: str) -> dict[str, float]:
    """It divides the amount by 8 for what is above 64 KiB."""
    amount = (PEER_BYTES[level] >> 30) * (1 if level == "L1" else 8)
    text = tools.output(
        path,
        "-threads",
        "1",
        "-method",
        method,
        *("-data", str(amount)),
        *("-sizekb", str(SIZES[level] >> 10)),
    )
    return {f"clamchowder {method}": number(text, r"^\d+,([\d.]+|inf)")}


def stream(tools: Tools, path: str) -> dict[str, float]:
    return {"STREAM Copy": number(tools.output(path), r"^Copy:\s+([\d.]+)") / 1000}


def vector(test: str) -> str:
    """The widest form of a test of likwid-bench that this CPU can run."""
    flags = Path("/proc/cpuinfo").read_text()
    if "avx512f" in flags:
        return f"{test}_avx512"
    if " avx " in flags:
        return f"{test}_avx"
    return f"{test}_sse"


def contests(tools: Tools) -> Iterator[tuple[str, list[Loop]]]:
    """Each contest's name and those who take part."""
    for level in SIZES:
        for operation in LIKWID:
            loops = list_loops(tools, operation, level)
            yield f"{operation} {level}, GB/s", loops


def list_loops(tools: Tools, operation: str, level: str) -> list[Loop]:
    """Return our loop for a contest, and those of the peers that are there."""
    loops: list[Loop] = [partial(our_rates, tools, operation, SIZES[level])]
    if path := tools.path("likwid-bench"):
        test = vector(LIKWID[operation])
        loops.append(partial(likwid, tools, path, test, level))
    if operation in CLAM and (path := tools.path("MemoryBandwidth_amd64")):
        loops.append(partial(clamchowder, tools, path, CLAM[operation], level))
    is_streams = level == "memory" and operation == "copy"
    if is_streams and (path := tools.path("stream_c.exe")):
        loops.append(partial(stream, tools, path))
    return loops


def measure(tools: Tools, rounds: int, only: str) -> dict[str, dict[str, list[float]]]:
    """Map contest and loop to one number per round."""
    chosen = [(name, loops) for name, loops in contests(tools) if only in name]
    numbers: dict[str, dict[str, list[float]]] = {
        name: defaultdict(list) for name, _ in chosen
    }
    for _ in range(rounds):
        for name, loops in random.sample(chosen, len(chosen)):
            for loop in random.sample(loops, len(loops)):
                for label, value in loop().items():
                    numbers[name][label].append(value)
    return numbers


def show(name: str, loops: dict[str, list[float]]) -> None:
    print(f"\n{name:34} {'p10':>8} {'median':>8} {'p90':>8}")
    medians = {label: statistics.median(values) for label, values in loops.items()}
    for label in sorted(medians, key=lambda label: medians[label], reverse=True):
        deciles = statistics.quantiles(loops[label], n=10, method="inclusive")
        print(
            f"  {label:32} {deciles[0]:8.2f} {medians[label]:8.2f} {deciles[-1]:8.2f}"
        )
    ours = [label for label in loops if label.startswith("fleet")]
    theirs = [label for label in loops if not label.startswith("fleet")]
    if theirs:
        own_rates = loops[max(ours, key=medians.__getitem__)]
        best_rates = loops[max(theirs, key=medians.__getitem__)]
        ratios = [own / other for own, other in zip(own_rates, best_rates, strict=True)]
        low, high = interval(ratios)
        print(
            f"  fleet / best peer: {statistics.median(ratios):.3f} [{low:.3f},"
            f" {high:.3f}], n {len(ratios)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--peers", type=Path, default=Path())
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--only", default="", help="contests with this in their name")
    options = parser.parse_args()
    prefix: tuple[str, ...] = ("taskset", "-c", "0")
    if options.realtime:
        prefix = ("chrt", "-f", "1", *prefix)
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder) / "fleet-agent"
        subprocess.run(["make", "-s", "-C", ROOT / "agent", f"OUT={agent}"], check=True)
        tools = Tools(agent, options.peers.absolute(), prefix)
        for name, loops in measure(tools, options.rounds, options.only).items():
            show(name, loops)


if __name__ == "__main__":
    main()

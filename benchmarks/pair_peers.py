"""Hold `cas` and `readwrite` against the programs that measure the same, each with its
own scheme, in turn.

Usage: python -m benchmarks.pair_peers --peers DIR [--rounds 20]

Peers are looked for in DIR, then on the PATH: c2clat, core_latency,
core-to-core-latency; one that is missing is left out. In each round every peer and the
agent with the peer's preset run once in shuffled order, a process each, and give the
number of the first two CPUs with the peer's estimator (whole nanoseconds but for
core-to-core-latency; peers measure all CPUs, so this is for small machines).

Printed are the median over the rounds with its deciles, the levels of the rounds'
numbers with their shares (a virtual machine has modes, and one short run sees one of
them), and the median of the rounds' ratios, ours to the peer's, with its 95 % interval
(bootstrap over rounds).
"""

import argparse
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fleet.analysis.exchange import read_matrices
from fleet.analysis.reduce import find_main_levels, label_levels_of_hosts

ROOT = Path(__file__).parents[1]
RESAMPLES = 4000
CAS = "cas" if os.uname().machine in ("x86_64", "i686") else "default"
PEERS = (
    ("c2clat", "readwrite", ()),
    ("c2clat", "cas", ("-w",)),
    ("core_latency", "readwrite", ("-b", "readwrite")),
    ("core_latency", "cas", ("-b", CAS)),
    ("core-to-core-latency", "readwrite", ("--csv", "-b", "2")),
    ("core-to-core-latency", "cas", ("--csv", "-b", "1")),
)


@dataclass(frozen=True, slots=True)
class Side:
    """A program as it is started, and the tool whose output it prints."""

    command: tuple[str, ...]
    tool: str

    def number(self) -> float:
        """Run it once: one way in ns between the first two CPUs."""
        done = subprocess.run(self.command, capture_output=True, text=True, check=True)
        (grid,) = read_matrices(done.stdout, self.command[0], self.tool)[1]
        return grid.fill_both_halves()[grid.cpus[0], grid.cpus[1]]


def contests(agent: Path, folder: Path) -> dict[tuple[str, str], tuple[Side, Side]]:
    """By benchmark and peer: ours and theirs, of the peers that are here."""
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    sides = {}
    for peer, benchmark, options in PEERS:
        if program := shutil.which(peer, path=f"{folder}:{os.environ['PATH']}"):
            ours = (
                str(agent),
                "-b",
                benchmark,
                "-c",
                cpus,
                "--preset",
                peer,
                "--format",
                peer,
            )
            sides[benchmark, peer] = Side(ours, peer), Side((program, *options), peer)
    return sides


def levels_text(numbers: Sequence[float]) -> str:
    """Describe the rounds' numbers at the main level and at another, each by median and
    share.
    """
    values = np.array(numbers)
    levels = label_levels_of_hosts(np.log(values)[None, :], np.zeros(1, dtype=np.int64))
    is_main = levels[0] == find_main_levels(levels)[0]
    parts = (part for part in (values[is_main], values[~is_main]) if len(part))
    return ", ".join(
        f"{np.median(part):.0f} ({len(part) / len(values):.0%})" for part in parts
    )


def side_text(numbers: Sequence[float]) -> str:
    low, middle, high = np.quantile(numbers, (0.1, 0.5, 0.9))
    return f"{middle:6.1f} ({low:.0f}-{high:.0f})"


def ratio_text(ours: Sequence[float], theirs: Sequence[float]) -> str:
    ratios = np.array(ours) / np.array(theirs)
    chance = np.random.default_rng(1)
    medians = np.median(chance.choice(ratios, (RESAMPLES, len(ratios))), axis=1)
    low, high = np.quantile(medians, (0.025, 0.975))
    return f"{np.median(ratios):.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=Path, default=Path())
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder) / "fleet-agent"
        subprocess.run(["make", "-s", "-C", ROOT / "agent", f"OUT={agent}"], check=True)
        against = contests(agent, options.peers.resolve())
        numbers: dict[Side, list[float]] = {
            side: [] for both in against.values() for side in both
        }
        for _ in range(options.rounds):
            for side in random.sample(list(numbers), len(numbers)):
                numbers[side].append(side.number())
    print(f"load average {os.getloadavg()[0]:.1f}, {options.rounds} rounds")
    for (benchmark, peer), (ours, theirs) in against.items():
        a = numbers[ours]
        b = numbers[theirs]
        print(f"{benchmark:9} {peer}: ours to theirs {ratio_text(a, b)}")
        for name, values in (("ours", a), ("theirs", b)):
            print(f"    {name:6} {side_text(values)}  levels {levels_text(values)}")


if __name__ == "__main__":
    main()

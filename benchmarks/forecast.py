"""How the agent's forecast compares with the run it is of: bytes that are mapped, and
seconds.

.venv/bin/python -m benchmarks.forecast [--priority N] [--only NAME]

Simulated machines have many CPUs on the two of this one (tests/native/trouble/many.c),
so of them only pairs and single threads take the time that they would take on a machine
of that size.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from tests.native.build import build
from tests.native.preload import preload

TIMEOUT_S = 1800


def some(cpus: int) -> str:
    """At most 2,000 pairs, from all over the machine."""
    pairs = [f"{cpu}-{other}" for cpu, other in combinations(range(cpus), 2)]
    return ",".join(pairs[:: max(1, len(pairs) // 2000)][:2000])


def cases() -> dict[str, tuple[int, list[str]]]:
    """List the cases by name: CPUs, 0 for the real ones, and the agent's options."""
    by_name: dict[str, tuple[int, list[str]]] = {
        "all": (0, ["-b", "all"]),
        "all, 3 rounds": (0, ["-b", "all", "-r", "3"]),
        "all, 20 s": (0, ["-b", "all", "--time-budget", "20"]),
        "cas,readwrite": (0, ["-b", "cas,readwrite"]),
        "cas,readwrite, 300 rounds": (0, ["-b", "cas,readwrite", "-r", "300"]),
    }
    for cpus in (8, 64, 256):
        pairs = ["-p", some(cpus), "--threads", "1"]
        names = "cas,readwrite,clock,chase,bandwidth"
        by_name[f"{cpus} CPUs, 2 rounds"] = (cpus, ["-b", names, "-r", "2", *pairs])
        by_name[f"{cpus} CPUs, 30 s"] = (
            cpus,
            ["-b", "cas,readwrite", "--time-budget", "30", *pairs],
        )
    by_name["256 CPUs, all pairs once"] = (256, ["-b", "cas,readwrite", "-r", "1"])
    return by_name


def simulate_machine(cpus: int) -> dict[str, str]:
    """Return the environment that shows the agent so many CPUs."""
    return (
        (preload("many.c") | {"MANY_CPUS": ",".join(map(str, range(cpus)))})
        if cpus
        else {}
    )


def run(options: Sequence[str], environment: dict[str, str]) -> str:
    """Run the agent and return what it prints, also if its time was up."""
    done = subprocess.run(
        [build(), *options],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode not in (0, 6):
        raise SystemExit(done.stderr)
    return done.stdout


def measure_mapped_bytes(options: Sequence[str]) -> int:
    """Return the bytes that two rounds map at most."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "mapped"
        short = ("-s", "1", "-w", "0", "-r", "2", "-f", "jsonl")
        run([*options, *short], preload("mapped.c") | {"MAPPED_FILE": str(report)})
        return int(report.read_text())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--priority", default="0", help="realtime priority of the threads"
    )
    arguments.add_argument(
        "--only", default="", help="the cases with this in their names"
    )
    limits = arguments.parse_args()
    for name, (cpus, options) in cases().items():
        if limits.only not in name:
            continue
        environment = simulate_machine(cpus)
        forecast = json.loads(run(["--forecast", *options], environment))
        began = time.perf_counter()
        records = run(
            [*options, "--priority", limits.priority, "-f", "jsonl"], environment
        ).splitlines()
        took = time.perf_counter() - began
        end = json.loads(records[-1])
        lowest_s = forecast["ms"] / 1000
        highest_s = forecast["ms_max"] / 1000
        ratio = (
            lowest_s / took
            if took < lowest_s
            else highest_s / took
            if took > highest_s
            else 1.0
        )
        print(
            f"{name:26} {end['bursts']:6} bursts {took:7.1f} s, forecast"
            f" {lowest_s:6.1f} to {highest_s:6.1f} s, ratio {ratio:.2f}"
            f" ({end['reason']})",
            flush=True,
        )
    if limits.only:
        return
    options = ["-b", "all"]
    print(
        f"mapped {measure_mapped_bytes(options)} bytes, forecast "
        f"{json.loads(run(['--forecast', *options], {}))['bytes']}"
    )


if __name__ == "__main__":
    main()

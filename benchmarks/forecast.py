"""How the agent's forecast compares with the run it is of: bytes that are mapped, and seconds.

.venv/bin/python -m benchmarks.forecast [--priority N] [--only NAME]

Simulated machines have many CPUs on the two of this one (tests/native/trouble/many.c), so of them only pairs
and single threads take the time that they would take on a machine of that size.
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
    pairs = [f"{one}-{other}" for one, other in combinations(range(cpus), 2)]
    return ",".join(pairs[:: max(1, len(pairs) // 2000)][:2000])


def cases() -> dict[str, tuple[int, list[str]]]:
    """Of each case the CPUs, 0 for the real ones, and the options."""
    found: dict[str, tuple[int, list[str]]] = {
        "all": (0, ["-b", "all"]),
        "all, 3 rounds": (0, ["-b", "all", "-r", "3"]),
        "all, 20 s": (0, ["-b", "all", "--time-budget", "20"]),
        "cas,readwrite": (0, ["-b", "cas,readwrite"]),
        "cas,readwrite, 300 rounds": (0, ["-b", "cas,readwrite", "-r", "300"]),
    }
    for cpus in (8, 64, 256):
        pairs = ["-p", some(cpus), "--threads", "1"]
        names = "cas,readwrite,clock,chase,bandwidth"
        found[f"{cpus} CPUs, 2 rounds"] = (cpus, ["-b", names, "-r", "2", *pairs])
        found[f"{cpus} CPUs, 30 s"] = (cpus, ["-b", "cas,readwrite", "--time-budget", "30", *pairs])
    found["256 CPUs, all pairs once"] = (256, ["-b", "cas,readwrite", "-r", "1"])
    return found


def simulated(cpus: int) -> dict[str, str]:
    """The environment of a machine with so many CPUs."""
    return (preload("many.c") | {"MANY_CPUS": ",".join(map(str, range(cpus)))}) if cpus else {}


def run(options: Sequence[str], environment: dict[str, str]) -> str:
    """What the agent prints, whether or not its time was up."""
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


def mapped(options: Sequence[str]) -> int:
    """How many bytes two rounds map at most."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "mapped"
        short = ("-s", "1", "-w", "0", "-r", "2", "-f", "jsonl")
        run([*options, *short], preload("mapped.c") | {"MAPPED_FILE": str(told)})
        return int(told.read_text())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--priority", default="0", help="realtime priority of the threads")
    arguments.add_argument("--only", default="", help="the cases with this in their names")
    asked = arguments.parse_args()
    for name, (cpus, options) in cases().items():
        if asked.only not in name:
            continue
        environment = simulated(cpus)
        forecast = json.loads(run(["--forecast", *options], environment))
        began = time.perf_counter()
        records = run([*options, "--priority", asked.priority, "-f", "jsonl"], environment).splitlines()
        took = time.perf_counter() - began
        end = json.loads(records[-1])
        least, most = forecast["ms"] / 1000, forecast["ms_max"] / 1000
        ratio = least / took if took < least else most / took if took > most else 1.0
        print(
            f"{name:26} {end['bursts']:6} bursts {took:7.1f} s, forecast {least:6.1f} to {most:6.1f} s, "
            f"ratio {ratio:.2f} ({end['reason']})",
            flush=True,
        )
    if asked.only:
        return
    options = ["-b", "all"]
    print(
        f"mapped {mapped(options)} bytes, forecast {json.loads(run(['--forecast', *options], {}))['bytes']}"
    )


if __name__ == "__main__":
    main()

"""How much memory a session takes on the controller, by hosts and samples: the peak of
its resident set.

    .venv/bin/python benchmarks/memory.py [--sessions 1x10,200x10,200x50000,5x2000000]

Each session is HOSTSxSAMPLES: so many sshds on loopback, each with the agent there
already, which sends so many samples of the `clock` benchmark in bursts of up to 10,000.
The samples are counted afterwards.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.scale import Field, fleet, make_field, put_agents  # noqa: E402
from fleet.store import Store  # noqa: E402

BURST = 10_000


def command(field: Field, samples: int) -> list[str]:
    """The session of `scale.py`, with as many samples of each host as asked for."""
    words = fleet(field)
    burst = min(samples, BURST)
    words[words.index("-s") + 1] = str(burst)
    words[words.index("--rounds") + 1] = str(-(-samples // burst))
    words[words.index("--plan") + 1] = "iterations=1"
    return words


def peak_mb(words: list[str], field: Field) -> tuple[float, float]:
    """Run a session; return the peak of its own resident set in megabytes and its wall
    seconds.
    """
    environment = {
        **os.environ,
        "FLEET_SSH_CONFIG": str(field.config),
        "HOME": str(field.folder),
    }
    began = time.perf_counter()
    with (field.folder / "said").open("wb") as output:
        session = subprocess.Popen(
            words,
            cwd=field.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        _, status, used = os.wait4(session.pid, 0)
    if status != 0:
        raise SystemExit((field.folder / "said").read_text()[-3000:])
    return used.ru_maxrss / 1000, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", default="1x10,200x10,200x50000,5x2000000")
    parser.add_argument("--parallel", type=int, default=32)
    options = parser.parse_args()
    sessions = [
        tuple(map(int, word.split("x"))) for word in options.sessions.split(",")
    ]
    most_hosts = max(count for count, _ in sessions)
    with make_field(most_hosts, options.parallel) as field:
        put_agents(field)
        results = field.folder / "results"
        for count, samples in sessions:
            shutil.rmtree(results)
            some = replace(field, hosts=field.hosts[:count])
            peak, wall_s = peak_mb(command(some, samples), some)
            stored = sum(run.samples or 0 for run in Store(results).list_runs())
            print(
                f"{count:4} hosts x {samples:9,} samples: {stored:11,} stored  "
                f" peak {peak:6.0f} MB   {wall_s:6.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()

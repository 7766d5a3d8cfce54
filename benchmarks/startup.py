"""How long `fleet --help` and `fleet hosts` take, as a ratio to importing typer, side by side in one run.

.venv/bin/python benchmarks/startup.py [ROUNDS]
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {
    "import typer": [sys.executable, "-c", "import typer"],
    "fleet --help": [sys.executable, "-m", "fleet", "--help"],
    "fleet hosts": [sys.executable, "-m", "fleet", "hosts"],
}


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for command in COMMANDS.values():
        seconds(command)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    for name, times in taken.items():
        ratios = [a / b for a, b in zip(times, taken["import typer"], strict=True)]
        low, high = min(ratios), max(ratios)
        print(
            f"{name:14} median {statistics.median(times) * 1000:6.0f} ms   "
            f"ratio median {statistics.median(ratios):.2f} (min {low:.2f}, max {high:.2f})"
        )


if __name__ == "__main__":
    main()

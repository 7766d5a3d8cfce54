"""User CPU time of commands that should answer at once, as a ratio to importing typer, in one run.

.venv/bin/python -m benchmarks.startup [ROUNDS]. `unmeasured` is a folder with an inventory alone, `lab` that
of `fleet demo`. Runs alternate, so that other load on the machine affects all alike.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
FLEET = [sys.executable, "-m", "fleet"]
COMMANDS = {
    "import typer": ("lab", [sys.executable, "-c", "import typer"]),
    "fleet --help": ("lab", [*FLEET, "--help"]),
    "fleet hosts": ("lab", [*FLEET, "hosts"]),
    "fleet hosts, unmeasured": ("unmeasured", [*FLEET, "hosts"]),
    "fleet run --dry-run": ("lab", [*FLEET, "run", "--dry-run"]),
    "fleet run --dry-run, unmeasured": ("unmeasured", [*FLEET, "run", "--dry-run"]),
    "fleet runs": ("lab", [*FLEET, "runs"]),
    "fleet show siena": ("lab", [*FLEET, "show", "r20261108T020335Z"]),
}


def seconds(folder: Path, command: list[str]) -> float:
    """User CPU time of a command and what it starts."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, **silent)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return used.ru_utime


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as root:
        subprocess.run([*FLEET, "demo", "lab"], cwd=root, capture_output=True, check=True)
        Path(root, "unmeasured").mkdir()
        shutil.copy(Path(root, "lab", "inventory.yaml"), Path(root, "unmeasured"))
        for folder, command in COMMANDS.values():
            seconds(Path(root) / folder, command)
        taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(rounds):
            for name, (folder, command) in COMMANDS.items():
                taken[name].append(seconds(Path(root) / folder, command))
    for name, times in taken.items():
        ratios = sorted(a / b for a, b in zip(times, taken["import typer"], strict=True))
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        print(
            f"{name:32} median {statistics.median(times) * 1000:5.0f} ms   "
            f"ratio median {statistics.median(ratios):5.2f} (quartiles {low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main()

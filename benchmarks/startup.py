"""User CPU time of commands that should answer at once, as a ratio to importing typer,
in one run.

.venv/bin/python -m benchmarks.startup [ROUNDS] [--settings]. `unmeasured` is a folder
with an inventory alone, `lab` that of `fleet demo`. Runs alternate, so that other load
on the machine affects all alike.

--settings: what settings of the collector and of malloc would save of a command
instead, in CPU time and memory by those of the command without them. A session is of
twelve hosts that are all this machine; the time of its agents is not counted.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ENVIRONMENT = {
    key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
}
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
RUN = "run -q -b clock -c 0 --rounds 1 --samples 10 --plan iterations=1000 --parallel 1"
CALLS = {
    "show": ("lab", ["show", "r20261108T020335Z"]),
    "compare": ("lab", ["compare", "siena", "verona"]),
    "session": ("session", RUN.split()),
}
SETTINGS = {
    "none": "",
    "gc.freeze at the end": "import atexit, gc; atexit.register(gc.freeze)",
    "and gc.set_threshold": (
        "import atexit, gc; atexit.register(gc.freeze); gc.set_threshold(100_000)"
    ),
    "gc.set_threshold alone": "import gc; gc.set_threshold(100_000)",
    "gc.freeze once loaded": (
        "import gc, fleet.session.runner, fleet.remote.connect; gc.freeze()"
    ),
    "mallopt(M_MMAP_THRESHOLD)": (
        "import ctypes; ctypes.CDLL(None).mallopt(-3, 128 << 10)"
    ),
}
PROGRAM = """
import atexit, os, sys
def note_children():
    used = os.times()
    open(sys.argv[0], "w").write(str(used.children_user + used.children_system))
atexit.register(note_children)
import fleet.cli
fleet.cli.main()
"""


def run(
    command: list[str], folder: Path, environment: Mapping[str, str]
) -> resource.struct_rusage:
    """Run a command without its output; return what it used."""
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return used


def seconds(folder: Path, command: list[str]) -> float:
    """User CPU time of a command and what it starts."""
    return run(command, folder, ENVIRONMENT).ru_utime


def cost(folder: Path, setting: str, words: list[str]) -> tuple[float, int]:
    """CPU seconds (user and system) and peak memory (KiB) of a command, without what it
    starts.
    """
    note = folder / "children"
    begin = f"import sys; sys.argv = {[str(note), *words]}\n{setting}\n"
    environment = {**ENVIRONMENT, "FLEET_AGENT_LOCK": str(folder / "lock")}
    used = run([sys.executable, "-c", begin + PROGRAM], folder, environment)
    of_children = float(note.read_text())
    return used.ru_utime + used.ru_stime - of_children, used.ru_maxrss


def compare_settings(root: Path, rounds: int) -> None:
    """Print what each setting leaves of the CPU time and memory of each command."""
    hosts = "".join(f"  host{number}: {{via: local}}\n" for number in range(12))
    Path(root, "session").mkdir()
    Path(root, "session", "inventory.yaml").write_text(f"hosts:\n{hosts}")
    for call, (folder, words) in CALLS.items():
        cost(root / folder, "", words)
        costs: dict[str, list[tuple[float, int]]] = {name: [] for name in SETTINGS}
        for _ in range(rounds):
            for name, setting in SETTINGS.items():
                costs[name].append(cost(root / folder, setting, words))
        for name, values in costs.items():
            print_setting(f"{call:8} {name:26}", values, costs["none"])


def print_setting(
    name: str, costs: list[tuple[float, int]], usual_costs: list[tuple[float, int]]
) -> None:
    """Print the CPU time and memory of a command under a setting, relative to those
    without it in the same round.
    """
    times = []
    memories = []
    for (time, memory), (usual_time, usual_memory) in zip(
        costs, usual_costs, strict=True
    ):
        times.append(time / usual_time)
        memories.append(memory / usual_memory)
    low, high = find_quartiles(times)
    print(
        f"{name} CPU {statistics.median(times):5.3f} (quartiles"
        f" {low:.3f} to {high:.3f})   memory {statistics.median(memories):5.3f}",
        flush=True,
    )


def find_quartiles(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return ordered[quarter], ordered[-1 - quarter]


def time_commands(root: Path, rounds: int) -> dict[str, list[float]]:
    """Run the commands in turn; return the CPU seconds of each."""
    for folder, command in COMMANDS.values():
        seconds(root / folder, command)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, (folder, command) in COMMANDS.items():
            taken[name].append(seconds(root / folder, command))
    return taken


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--settings"]
    rounds = int(words[0]) if words else 15
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        demo = [*FLEET, "demo", "lab"]
        subprocess.run(demo, cwd=root, capture_output=True, check=True)
        if "--settings" in sys.argv:
            compare_settings(root, rounds)
            return
        (root / "unmeasured").mkdir()
        shutil.copy(root / "lab" / "inventory.yaml", root / "unmeasured")
        taken = time_commands(root, rounds)
    usual_times = taken["import typer"]
    for name, times in taken.items():
        pairs = zip(times, usual_times, strict=True)
        ratios = [time / usual for time, usual in pairs]
        low, high = find_quartiles(ratios)
        print(
            f"{name:32} median {statistics.median(times) * 1000:5.0f} ms   ratio median"
            f" {statistics.median(ratios):5.2f} (quartiles {low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main()

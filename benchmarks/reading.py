"""What it costs to store and to read one big run, and a thousand small ones, on this
machine.

.venv/bin/python benchmarks/reading.py [--samples 100] [--rounds 10] [--runs 1000]
[--hosts 10]
    [--keep FOLDER]

The big run is simulated: two packages of 32 cores of two siblings, `cas` and
`readwrite`, every unordered pair, 2.5 GHz ticks with scatter of bursts, neighbouring
samples that resemble each other, outliers and a warm-up. It is written through the
store as a measured one is. Each step runs in a process of its own; printed are its
seconds, those of CPU (which other work on the machine does not lengthen much) and its
peak memory.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

from fleet.model import Burst, Host, Run, Topology  # noqa: E402
from fleet.store import Listing, Store, new_run_id  # noqa: E402
from tests import builders  # noqa: E402

Floats = npt.NDArray[np.float64]

BIG = "r20260601T000000Z-000000b1"
FLEET = (
    "import sys; sys.argv = ['fleet', {arguments}]; from fleet.__main__ import main;"
    " main()"
)
SHOW, RUNS, REPORT, COMPARE, COMPARE_ALL, COMPARE_KERNELS, REPORT_OF_TWO = (
    FLEET.replace("{arguments}", text)
    for text in (
        "'show', '{big}', '-r', '{root}'",
        "'runs', '-r', '{many}'",
        "'report', '{big}', '-r', '{root}', '-o', '{root}/_report.html'",
        "'compare', 'host0', 'host1', '-r', '{many}'",
        "'compare', 'host*[02468]', 'host*[13579]', '-r', '{many}'",
        "'compare', 'kernel=old', 'kernel=new', '-r', '{many}'",
        "'report', 'host0', 'host1', '-r', '{many}', '-o', '{many}/_report.html'",
    )
)
FORGET = (
    "from fleet.store import Listing;"
    " Listing('{root}').index.path.unlink(missing_ok=True); "
)
MATRIX = (
    "from fleet.analysis import load_pairs; from fleet.analysis import matrix; "
    "matrix(load_pairs('{root}', run_id='{big}', benchmark='cas'), range(128))"
)
HISTORY = "from fleet.analysis import history; history('{many}', relation='smt')"
OF_BIG = {
    "import pandas, pyarrow": "import pandas, pyarrow.parquet",
    "plain pandas, every sample": (
        "import pandas; pandas.read_parquet('{root}/samples')"
    ),
    "matrix of medians, first time": MATRIX,
    "matrix of medians, after": MATRIX,
    "fleet show": SHOW,
    "fleet report, first time": FORGET + REPORT,
    "fleet report, after": REPORT,
}
OF_MANY = {
    "fleet runs, first time": FORGET.replace("{root}", "{many}") + RUNS,
    "fleet runs, after": RUNS,
    "fleet compare of all, first time": COMPARE_ALL,
    "fleet compare of all, after": COMPARE_ALL,
    "fleet compare of kernels, after": COMPARE_KERNELS,
    "history of a relation": HISTORY,
    "fleet runs --relation smt": RUNS.replace("'runs'", "'runs', '--relation', 'smt'"),
    "fleet compare host0 host1": COMPARE,
    "fleet report host0 host1": REPORT_OF_TWO,
    "pandas reads cpus": "import pandas; pandas.read_parquet('{many}/cpus')",
}


def big_run(samples: int, rounds: int) -> tuple[Run, Iterator[Burst]]:
    run = builders.a_run(
        builders.two_sockets(),
        run_id=BIG,
        benchmarks=("cas", "readwrite"),
        rounds=rounds,
    )
    return run, simulate_bursts(run, samples)


def simulate_bursts(run: Run, samples: int, seed: int = 11) -> Iterator[Burst]:
    """Bursts in order of time, a round of a benchmark at once."""
    chance = np.random.default_rng(seed)
    pairs = list(combinations([cpu.cpu for cpu in run.facts.cpus], 2))
    levels = draw_levels(run, pairs, chance)
    at_ns = 0
    for visit in range(run.plan.rounds):
        for number, benchmark in enumerate(run.plan.benchmarks):
            ticks = draw_ticks(levels * (1 + number), samples, chance)
            for place in chance.permutation(len(pairs)):
                at_ns += int(2e6 + chance.exponential(1e5))
                ping, pong = pairs[place]
                if visit % 2:
                    ping, pong = pong, ping
                yield Burst(
                    benchmark,
                    builders.default_variant(benchmark),
                    visit,
                    ping,
                    pong,
                    builders.ITERATIONS,
                    1,
                    tuple(ticks[place]),
                    at_ns,
                    (ping, ping),
                    (pong, pong),
                    (0, int(chance.random() < 0.02), 0, 0),
                    line_page=int(140_000_000 + at_ns % 4096),
                    line_offset=0,
                    line_node=ping % 64 // 32,
                    ran_ppm=(
                        int(chance.integers(999_000, 1_000_000)),
                        int(chance.integers(999_000, 1_000_000)),
                    ),
                )


def draw_levels(
    run: Run, pairs: list[tuple[int, int]], chance: np.random.Generator
) -> Floats:
    """The level of each pair in ticks, by what its CPUs share, with 3 % of noise."""
    topology = Topology(run.facts.cpus)
    ns = np.array([builders.NS[topology.relation(a, b)] for a, b in pairs])
    ticks = ns * 2 * builders.ITERATIONS * builders.TICKS_PER_SECOND / 1e9
    levels: Floats = ticks * np.exp(chance.normal(0, 0.03, len(pairs)))
    return levels


def draw_ticks(
    levels: Floats, samples: int, chance: np.random.Generator
) -> list[list[int]]:
    """The ticks of a burst of each pair, a warm-up and `samples` more: outliers are
    three times as long.
    """
    burst_levels = levels * np.exp(chance.normal(0, 0.01, len(levels)))
    noise = draw_dependent_noise((len(levels), samples + 1), chance)
    values = burst_levels[:, None] * np.exp(noise)
    is_outlier = chance.random(values.shape) < 0.004
    values[is_outlier] *= 3
    values[:, 0] *= 1.3  # the warm-up
    ticks: list[list[int]] = np.rint(values).astype(np.int64).tolist()
    return ticks


def draw_dependent_noise(shape: tuple[int, int], chance: np.random.Generator) -> Floats:
    """Noise of 1 %, pairs x samples, of which each sample keeps half of the last."""
    noise = chance.normal(0, 0.01, shape)
    for place in range(1, shape[1]):
        noise[:, place] = 0.5 * noise[:, place - 1] + 0.866 * noise[:, place]
    return noise


def many_runs(root: Path, count: int, hosts: int) -> None:
    """Runs of eight CPUs, each an hour after the one before, on one host after the
    other; the first half with an old kernel by their label, the others with a new one.
    """
    start = datetime(2026, 1, 1, tzinfo=UTC)
    store = Store(root)
    cpus = builders.small_desktop()
    for number in range(count):
        moment = start + timedelta(hours=number)
        host = Host(f"host{number % hosts}", "192.0.2.7", labels={"rack": "b2"})
        run = builders.a_run(cpus, run_id=new_run_id(moment), host=host)
        run = replace(
            run,
            started_utc=moment.isoformat(),
            ended_utc=None,
            labels={"kernel": "old" if number < count // 2 else "new"},
        )
        store.publish(run, builders.make_bursts(run, seed=number), batch=True)
    store.flush()


def step(name: str, code: str) -> None:
    """Run `code` in a process of its own and print seconds and peak memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    measured = (
        f"import sys\ntry: {code}\nfinally: print(open('/proc/self/status').read(),"
        " file=sys.stderr)"
    )
    command = [sys.executable, "-c", measured]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    mib = int(done.stderr.rpartition("VmHWM:")[2].split()[0]) / 1024
    print(f"{name:34} {took:7.2f} s {cpu:7.2f} s of CPU {mib:7.0f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100, help="of a burst")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--hosts", type=int, default=10, help="that they are of")
    parser.add_argument(
        "--keep", type=Path, help="make the data here, and use it if it is there"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        big = folder / f"big-{options.samples}x{options.rounds}"
        many = folder / f"many-{options.runs}-{options.hosts}"
        if not big.exists():
            Store(big).publish(*big_run(options.samples, options.rounds))
        read_big(big)
        if not many.exists():
            many_runs(many, options.runs, options.hosts)
        print(f"{options.runs:,} runs")
        read_many(many)
        print_sizes(many, options.runs)


def read_big(root: Path) -> None:
    """Print the size of a large run, and what reading it takes."""
    (file,) = root.glob("samples/host_id=*/run_id=*/samples.parquet")
    stored = Store(root).list_runs()[0].samples or 0
    print(f"{stored:,} samples, {file.stat().st_size / stored:.2f} bytes each")
    for name, code in OF_BIG.items():
        step(name, code.format(root=root, big=BIG))


def read_many(root: Path) -> None:
    """Print what reading many runs takes."""
    for name, code in OF_MANY.items():
        step(name, code.format(many=root))


def print_sizes(root: Path, runs: int) -> None:
    """Print how many bytes a run takes in each table and in the index."""
    samples = sum(path.stat().st_size for path in root.glob("samples/*/*/*.parquet"))
    index = Listing(root).index.path.stat().st_size
    print(f"samples: {samples / runs:.0f} bytes a run; index: {index / runs:.0f}")
    for table in ("runs", "cpus"):
        files = list((root / table).iterdir())
        size = sum(path.stat().st_size for path in files)
        print(f"{table}: {size / runs:.0f} bytes a run in {len(files)} files")


if __name__ == "__main__":
    main()

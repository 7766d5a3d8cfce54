"""Hold `message`, `interleave`, `chase` and `fetch` against programs that measure the
same, side by side.

Usage: python benchmarks/latency_peers.py [--rounds 100] [--seconds 280] [--peers DIR]
[--only WORDS]
       [--nice -19] [--realtime 50]

Peers are looked for in DIR, then on the PATH; a contest whose peer is missing is left
out with a note: core-to-core-latency (its `-b 3`), multichase with its multiload and
fairness, and three programs that benchmarks/reference makes of others' loops:
mm-amx-interleave (mm_amx_interleave.cpp), lat-mem-rd-size (lat_mem_rd_size.c, lmbench)
and libxsmm-gemm (libxsmm_gemm.c). Contests without a peer hold numbers of the agent
against one another.

In each round, contests in shuffled order, either side runs once, a short process each,
one right behind the other in random order: what a machine does by turns for seconds is
then of both. Printed are the deciles of each side over the rounds, and the median of
the rounds' ratios, ours to theirs, with its 95 % interval (bootstrap over rounds). The
verdict is `holds` or `fails` where the whole interval is within the limits or outside,
else `no verdict`. --nice and --realtime are for both sides, on a machine that is not
idle. Peers then take turns (SCHED_RR): some keep all CPUs and need one for a thread
more.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
MESSAGES = 25  # of core-to-core-latency in a sample: it waits so long before each
ROW_BYTES = 1024
CHASED = {"L1": "24K", "L2": "512K"}
STRIDES = (64, 256)
IN_MEMORY = 128 << 20
MULTILOAD = {"read": "stream-sum", "mix": "stream-triad"}
SAME_RATE = 0.01
RESAMPLES = 4000
TRIES = 5
Side = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Contest:
    """Two sides and between which ratios, ours to theirs, the contest holds; unit: of a
    side's number.
    """

    name: str
    unit: str
    ours: Side
    theirs: Side
    limits: tuple[float, float]


class Tools:
    """Where the programs are, and what they know of this machine."""

    def __init__(
        self,
        agent: Path,
        folder: Path,
        cpus: tuple[int, int],
        options: argparse.Namespace,
    ) -> None:
        self.agent = agent
        self.folder = folder
        self.cpus = cpus
        nice = options.nice
        realtime = options.realtime
        self.windows = str(options.windows)
        self.prefix = (
            ("chrt", "-r", str(realtime)) if realtime else ("nice", "-n", str(nice))
        )
        self._plain = (
            "--rounds",
            "1",
            "--priority",
            str(realtime),
            "--format",
            "jsonl",
        )
        self._ticks_per_second = 0

    def path(self, name: str) -> str | None:
        """Find a peer's program; None, and a note, where it is not installed."""
        path = shutil.which(name, path=f"{self.folder}:{os.environ['PATH']}")
        if not path:
            print(f"{name}: not found, its contests are left out", file=sys.stderr)
        return path

    def output(
        self, *command: str | Path, stderr: bool = False, **environment: str
    ) -> str:
        """Return what a program prints, on both streams if `stderr`; raise
        CalledProcessError if it fails.
        """
        done = subprocess.run(
            [*self.prefix, *command],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if stderr else subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        )
        return done.stdout

    def bursts(
        self, *plan: str, typical: Callable[[list[int]], float] = statistics.median
    ) -> Iterator[dict[str, object]]:
        """The bursts of one round of the agent; `ns` is added: of a unit in a typical
        sample.
        """
        lines = self.output(self.agent, *self._plain, *plan).splitlines()
        hello, *records = [json.loads(line) for line in lines]
        for burst in records:
            if burst["record"] == "burst":
                threads = (burst["ticks"], *burst.get("other_ticks", ()))
                typical_ticks = [typical(ticks[burst["warmup"] :]) for ticks in threads]
                tick_ns = 1e9 / hello["ticks_per_second"] / burst["iterations"]
                elapsed = sum(burst["ticks"]) * 1e9 / hello["ticks_per_second"]
                others = sum(map(sum, burst.get("other_units", ())))
                yield {
                    **burst,
                    "ns": statistics.mean(typical_ticks) * tick_ns,
                    "others_a_ns": others / elapsed,
                }

    def ns(
        self, *plan: str, typical: Callable[[list[int]], float] = statistics.median
    ) -> dict[str, float]:
        """A unit in ns by point, or by benchmark where that has no points."""
        bursts = self.bursts(*plan, typical=typical)
        return {str(b.get("point") or b["benchmark"]): float(b["ns"]) for b in bursts}  # type: ignore[arg-type]

    def ticks_per_second(self) -> int:
        """The rate of the agent's clock, for a peer that reads the same counter."""
        if not self._ticks_per_second:
            text = self.output(
                self.agent,
                "-b",
                "clock",
                "-s",
                "1",
                "--rounds",
                "1",
                "--format",
                "jsonl",
            )
            self._ticks_per_second = json.loads(text.splitlines()[0])[
                "ticks_per_second"
            ]
        return self._ticks_per_second


def number(text: str, pattern: str) -> float:
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        raise ValueError(f"no number like {pattern!r} in {text!r}")
    return float(match[1])


def windows(text: str, pattern: str) -> float:
    """The median of what a peer says of its windows, which are half a second long or
    longer.
    """
    return statistics.median(map(float, re.findall(pattern, text)))


def pair(tools: Tools) -> str:
    return ",".join(map(str, tools.cpus))


def our_message(tools: Tools) -> float:
    """Half of both ways, a sample of a hundred messages each way after a warm-up."""
    return tools.ns("-b", "message", "--cpus", pair(tools), "--samples", "1")["x1"]


def core_to_core_latency(tools: Tools, path: str) -> float:
    """Return ns a message, with the cost of reading the clock, which the peer
    subtracts.
    """
    text = tools.output(
        path, str(MESSAGES), "1", "-b", "3", "-c", pair(tools), "--csv", stderr=True
    )
    reading_ns = number(text, r"RDTSC takes ([\d.]+)ns")
    cells = [
        float(cell) for cell in re.findall(r"(?:^,|^)([\d.]+),?$", text, re.MULTILINE)
    ]
    return statistics.mean(cells) + reading_ns


def our_interleave(tools: Tools) -> float:
    """Shared to own, of rows written as mm_amx writes them, as many passes in a sample
    as it has.
    """
    ns = tools.ns(
        "-b",
        "interleave",
        "-v",
        "prefetchnta",
        "--blocks",
        "1K",
        "--cpus",
        pair(tools),
        "-i",
        "18",
    )
    return ns["shared.write.1K"] / ns["own.write.1K"]


def mm_amx(tools: Tools, path: str) -> float:
    places = ",".join(f"{{{cpu}}}" for cpu in tools.cpus)
    text = tools.output(
        path, str(tools.ticks_per_second()), OMP_PROC_BIND="close", OMP_PLACES=places
    )
    return number(text, r"([\d.]+) [\d.]+\s*$") / number(text, r" ([\d.]+)\s*$")


@contextlib.contextmanager
def busy(tools: Tools) -> Iterator[None]:
    """The second CPU spins meanwhile, as in `loaded` without a load, so that nobody
    uses the memory.
    """
    loop = ("taskset", "-c", str(tools.cpus[1]), "sh", "-c", "while :; do :; done")
    with subprocess.Popen([*tools.prefix, *loop]) as spinning:
        try:
            yield
        finally:
            spinning.kill()


def our_chase_in_memory(tools: Tools, pages: str, stride: int) -> float:
    """The median of 250 samples of 2 ms; see multichase()."""
    mark = "" if stride == 64 else f".s{stride}"
    size = f"{IN_MEMORY >> 20}M"
    point = f"window.{IN_MEMORY >> 20}M{mark}.{pages}"
    plan = ("-b", "chase", "-v", "auto", "--cpus", str(tools.cpus[0]), "--sizes", size)
    how = ("--stride", str(stride), "--pages", pages, "--samples", "250")
    with busy(tools) if stride != 64 else contextlib.nullcontext():
        return tools.ns(*plan, *how)[point]


def our_load(tools: Tools, rate: str, operation: str = "read") -> tuple[float, float]:
    """A load in ns, the median of up to five bursts of 100 ms, and the GB/s that the
    other CPU moves.
    """
    plan = (
        "-b",
        "loaded",
        *(("--op", operation) if rate != "0" else ()),
        "--load",
        rate,
    )
    memory = (
        "--sizes",
        f"{IN_MEMORY >> 20}M",
        "--pages",
        "huge",
        "--cpus",
        pair(tools),
    )
    how = ("--samples", "20", "--rounds", "5")
    bursts = [*tools.bursts(*plan, *memory, *how)]
    columns = [
        [float(str(burst[name])) for burst in bursts] for name in ("ns", "others_a_ns")
    ]
    return statistics.median(columns[0]), statistics.median(columns[1])


def load_at_rate(
    tools: Tools, path: str, operation: str, load: str
) -> tuple[float, float]:
    """A load beside a CPU that moves as much as multiload's does, and multiload's."""
    options = (
        "-v",
        "-H",
        "-m",
        str(IN_MEMORY),
        "-s",
        "256",
        "-T",
        "256k",
        "-n",
        tools.windows,
        "-t",
        "2",
    )
    text = tools.output(path, *options, "-c", "chaseload", "-l", load)
    ns = windows(text, r"avg=([\d.]+)\(ns\)")
    rate = windows(text, r"Total\(MiB/s\)=([\d.]+)") * 1.048576e-3
    ours, got = our_load(tools, f"{rate:.3f}", operation)
    print(
        f"multiload {ns:.1f} ns at {rate:.2f} GB/s, ours {ours:.1f} at {got:.2f}",
        file=sys.stderr,
    )
    if abs(got / rate - 1) > SAME_RATE:
        raise ValueError("another rate")
    return ours, ns


def our_contest(tools: Tools) -> float:
    """A fetch-and-add by one of two CPUs that want the same word, of both together."""
    plan = (
        "-b",
        "contend",
        "--op",
        "faa",
        "--share",
        "one",
        "--samples",
        "100",
        "--cpus",
        pair(tools),
    )
    (burst,) = tools.bursts(*plan, typical=statistics.mean)
    return 1 / (1 / float(burst["ns"]) + float(burst["others_a_ns"]))  # type: ignore[arg-type]


def fairness(tools: Tools, path: str) -> float:
    """Return ns an operation of both CPUs, from its first group of lines, which has no
    pauses.
    """
    text = tools.output(
        "taskset", "-c", pair(tools), path, "-n", "3", "-t", "0.05"
    ).partition("relaxed:\n")[2]
    of_each = [
        row.partition(":")[0].split()
        for row in text.partition("relaxed:")[0].splitlines()
    ]
    return statistics.median(
        1 / sum(1 / float(ns) for ns in row) for row in of_each if row
    )


def turn_and_cas(tools: Tools) -> tuple[float, float]:
    """A line handed round by two CPUs, and handed over by compare-and-swap, one way."""
    plan = (
        "-b",
        "cas,contend",
        "--op",
        "turn",
        "-v",
        "auto",
        "--cpus",
        pair(tools),
        "--threads",
        "2",
    )
    ns = tools.ns(*plan)
    return (
        next(ns for point, ns in ns.items() if point.startswith("turn.")) / 2,
        ns["cas"] / 2,
    )


def our_chase(tools: Tools, point: str, *plan: str) -> float:
    size = point.split(".")[1]
    ns = tools.ns(
        "-b",
        "chase",
        "-v",
        "auto",
        "--cpus",
        str(tools.cpus[0]),
        "--sizes",
        size,
        *plan,
        typical=min,
    )
    return ns[point]


def lat_mem_rd(tools: Tools, path: str, size: str, stride: int) -> float:
    pin = ("taskset", "-c", str(tools.cpus[0]))
    return float(tools.output(*pin, path, str(int(size[:-1]) << 10), str(stride)))


def multichase(tools: Tools, path: str, pages: str, stride: int) -> float:
    """The median of its windows, while the other CPU spins where the stride is that of
    `loaded`.
    """
    huge = ("-H",) if pages == "huge" else ()
    pin = ("taskset", "-c", str(tools.cpus[0]))
    options = (
        "-v",
        "-n",
        tools.windows,
        "-m",
        str(IN_MEMORY),
        "-s",
        str(stride),
        "-T",
        "256k",
    )
    with busy(tools) if stride != 64 else contextlib.nullcontext():
        return windows(tools.output(*pin, path, *huge, *options), r"avg=([\d.]+)")


def our_product(tools: Tools) -> float:
    """An operation on bf16 by vectors, of matrices in L2, in ps."""
    plan = (
        "-b",
        "gemm",
        "-v",
        "avx512-bf16",
        "--threads",
        "1",
        "--cpus",
        str(tools.cpus[0]),
        "--sizes",
        "1M",
    )
    return next(
        1000 * ns
        for point, ns in tools.ns(*plan).items()
        if point.startswith("hot.odd")
    )


def libxsmm(tools: Tools, path: str) -> float:
    """Return ps an operation by its kernel for vectors, where it would take tiles."""
    return float(
        tools.output("taskset", "-c", str(tools.cpus[0]), path, LIBXSMM_TARGET="cpx")
    )


def split_sides(find: Callable[[], tuple[float, float]]) -> tuple[Side, Side]:
    """Both sides of a contest from one process: what is asked second is the other half
    of the first.
    """
    halves: list[float] = []

    def side(place: int) -> float:
        if len(halves) < 2:
            halves[:] = find()
            return halves[place]
        value = halves[place]
        halves.clear()
        return value

    return partial(side, 0), partial(side, 1)


def fetch_and_cas(tools: Tools) -> tuple[float, float]:
    """A line that another CPU wrote, and a line handed over by compare-and-swap, one
    way.
    """
    plan = (
        "-b",
        "cas,fetch",
        "--state",
        "written",
        "--op",
        "read",
        "--cpus",
        pair(tools),
    )
    ns = tools.ns(*plan)
    return ns["written.chase.128K"], ns["cas"] / 2


def cycles(tools: Tools) -> tuple[float, float]:
    """Cycles of a load in L1, and the nearest whole number of them."""
    plan = (
        "-b",
        "chase",
        "-v",
        "auto",
        "--cpus",
        str(tools.cpus[0]),
        "--sizes",
        CHASED["L1"],
    )
    counts = [
        float(burst["ns"]) * statistics.mean(burst["core_mhz"]) / 1000  # type: ignore[arg-type]
        for burst in tools.bursts(*plan, "--pages", "base", typical=min)
        if str(burst["point"]).startswith("rising.")
    ]
    return counts[0], float(max(1, round(counts[0])))


def multichase_contests(tools: Tools) -> Iterator[Contest]:
    """Those with multichase and the programs that come with it."""
    if path := tools.path("multichase"):
        for pages, stride in (("base", 64), ("huge", 64), ("huge", 256)):
            ours = partial(our_chase_in_memory, tools, pages, stride)
            theirs = partial(multichase, tools, path, pages, stride)
            name = f"chase memory window, {pages} pages" + (
                ", stride 256" if stride == 256 else ""
            )
            yield Contest(
                name, "ns", ours, theirs, (0, 1.01) if stride == 64 else (0.98, 1.02)
            )
        idle = partial(our_load, tools, "0")
        yield Contest("loaded idle", "ns", lambda: idle()[0], theirs, (0.98, 1.02))
        yield Contest(
            "loaded idle to chase", "ns", lambda: idle()[0], ours, (0.98, 1.02)
        )
    if path := tools.path("multiload"):
        for operation, load in MULTILOAD.items():
            both = split_sides(partial(load_at_rate, tools, path, operation, load))
            yield Contest(
                f"loaded {operation} at the rate of multiload",
                "ns",
                *both,
                (0.95, 1.05),
            )
    if path := tools.path("fairness"):
        ours = partial(our_contest, tools)
        theirs = partial(fairness, tools, path)
        yield Contest("contend faa", "ns", ours, theirs, (0.95, 1.05))


def contests(tools: Tools) -> Iterator[Contest]:
    if path := tools.path("core-to-core-latency"):
        theirs = partial(core_to_core_latency, tools, path)
        yield Contest(
            "message", "ns", partial(our_message, tools), theirs, (0.97, 1.03)
        )
    if path := tools.path("mm-amx-interleave"):
        yield Contest(
            "interleave 1K, shared to own",
            "",
            partial(our_interleave, tools),
            partial(mm_amx, tools, path),
            (0.9, 1.1),
        )
    yield Contest(
        "fetch written to cas",
        "ns",
        *split_sides(partial(fetch_and_cas, tools)),
        (0.6, 1.3),
    )
    yield Contest(
        "chase L1, whole cycles",
        "cycles",
        *split_sides(partial(cycles, tools)),
        (0.98, 1.02),
    )
    if path := tools.path("lat-mem-rd-size"):
        for level, size in CHASED.items():
            for stride in STRIDES:
                mark = "" if stride == 64 else f".s{stride}"
                ours = partial(
                    our_chase,
                    tools,
                    f"rising.{size}{mark}.base",
                    "--pages",
                    "base",
                    "--stride",
                    str(stride),
                )
                theirs = partial(lat_mem_rd, tools, path, size, stride)
                yield Contest(
                    f"chase {level} rising, stride {stride}",
                    "ns",
                    ours,
                    theirs,
                    (0, 1.01),
                )
    if path := tools.path("libxsmm-gemm"):
        theirs = partial(libxsmm, tools, path)
        yield Contest(
            "product bf16 256x256x256",
            "ps",
            partial(our_product, tools),
            theirs,
            (0, 1.01),
        )
    yield from multichase_contests(tools)
    yield Contest(
        "contend turn to cas",
        "ns",
        *split_sides(partial(turn_and_cas, tools)),
        (0.97, 1.03),
    )


Found = dict[str, list[tuple[float, float]]]


def visit(sides: tuple[Side, Side]) -> tuple[float, float] | None:
    """Both numbers; None where either program gives up time and again, as some do when
    interrupted.
    """
    for _ in range(TRIES):
        with contextlib.suppress(subprocess.CalledProcessError, ValueError, KeyError):
            numbers = {side: sides[side]() for side in random.sample((0, 1), 2)}
            return numbers[0], numbers[1]
    return None


def measure(chosen: list[Contest], rounds: int, seconds: float) -> Found:
    """Map contest to the two sides' numbers of each round; nobody begins after so many
    seconds.
    """
    ratios: Found = {contest.name: [] for contest in chosen}
    until = time.monotonic() + seconds
    for _ in range(rounds):
        for contest in random.sample(chosen, len(chosen)):
            if time.monotonic() < until and (
                numbers := visit((contest.ours, contest.theirs))
            ):
                ratios[contest.name].append(numbers)
    return ratios


def interval(ratios: list[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    chance = random.Random(1)
    medians = sorted(
        statistics.median(chance.choices(ratios, k=len(ratios)))
        for _ in range(RESAMPLES)
    )
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def verdict(low: float, high: float, limits: tuple[float, float]) -> str:
    if limits[0] <= low and high <= limits[1]:
        return "holds"
    return "fails" if high < limits[0] or low > limits[1] else "no verdict"


def deciles(values: Iterable[float]) -> str:
    all_values = [*values]
    ends = statistics.quantiles(all_values, n=10, method="inclusive")
    return f"{statistics.median(all_values):.3f} ({ends[0]:.3f}-{ends[-1]:.3f})"


def show(contest: Contest, rounds: list[tuple[float, float]]) -> None:
    ratios = [ours / theirs for ours, theirs in rounds]
    low, high = interval(ratios)
    print(f"{contest.name} {contest.unit}".rstrip(), f"({len(rounds)} rounds)")
    print(
        f"  ours {deciles(own for own, _ in rounds)}, theirs"
        f" {deciles(other for _, other in rounds)}"
    )
    print(
        f"  ratio {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}], limits"
        f" {contest.limits[0]:g} to {contest.limits[1]:g}:"
        f" {verdict(low, high, contest.limits)}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument(
        "--seconds", type=float, default=3600, help="after which nobody begins"
    )
    parser.add_argument("--peers", type=Path, default=Path())
    parser.add_argument("--cpus", default="0,1", help="the pair")
    parser.add_argument("--nice", type=int, default=0, help="of both sides")
    parser.add_argument(
        "--realtime", type=int, default=0, help="priority of both sides; 0: none"
    )
    parser.add_argument(
        "--windows", type=int, default=1, help="of multichase and multiload in a visit"
    )
    parser.add_argument(
        "--only", default="", help="contests with one of these words in their name"
    )
    options = parser.parse_args()
    first, second = (int(cpu) for cpu in options.cpus.split(","))
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder) / "fleet-agent"
        subprocess.run(["make", "-s", "-C", ROOT / "agent", f"OUT={agent}"], check=True)
        tools = Tools(agent, options.peers.absolute(), (first, second), options)
        chosen = [
            c
            for c in contests(tools)
            if any(w in c.name for w in options.only.split(","))
        ]
        began = time.time()
        load = os.getloadavg()[0]
        rounds = measure(chosen, options.rounds, options.seconds)
        took = (
            f"{time.time() - began:.0f} s, load average {load:.1f} before,"
            f" {os.getloadavg()[0]:.1f} after"
        )
        print(f"{max(map(len, rounds.values()), default=0)} rounds, {took}")
        for contest in chosen:
            if len(rounds[contest.name]) > 1:
                show(contest, rounds[contest.name])


if __name__ == "__main__":
    main()

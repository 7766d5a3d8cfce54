"""Disturb runs of one pair and count how many of the bursts and runs that were
disturbed have a flag.

Usage: python -m benchmarks.flags [--runs 32] [--rounds 40] [--cpus 0,1] [--only
quiet,loop] [--agent PATH]

The default benchmarks on two CPUs, rounds back to back, conditions in shuffled order:
quiet; loop: beside a busy loop on one of the CPUs; stops: the agent is stopped for 2 to
10 ms at random moments; duty: for 5 of every 10 ms, as cpulimit does; cpulimit: by the
real one, where it is installed; fifo: beside a SCHED_FIFO thread of priority 50 on one
of the CPUs, 18 of every 20 ms, where that is permitted.

disturbed: share of the bursts that were, known independently of flags. That of a stop
is a voluntary switch during the samples, since threads of bursts never sleep; of fifo
an involuntary one; a loop disturbs all; failed ones count too. flagged: of those
disturbed, have `preempted` or `busy_cpu`, or failed. runs: of those with a burst
disturbed (quiet: of all), have such a flag. It stops and kills only what it started.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from benchmarks.repeat import arguments_with, build_or_take_agent
from fleet.agent.wire import records
from fleet.agent.wire.records import derive_burst_flags
from fleet.model import Burst, Failed, Hello
from tests.processes import until_we_end

LONGEST_S = 20  # of an agent and of a hog, in case nobody ends them
HOG = (
    "import os, resource, signal, time\nsignal.alarm({limit}); os.sched_setaffinity(0,"
    " [{cpu}])\n"
)
LOOP = HOG + "while True: pass"
FIFO = f"""{HOG}
resource.setrlimit(resource.RLIMIT_RTTIME, (100_000, 200_000))  # microseconds without a pause, then the end
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
while True:
    until = time.perf_counter() + 0.018
    while time.perf_counter() < until: pass
    time.sleep(0.002)
"""
HOGS = {"loop": LOOP, "fifo": FIFO}
STOPS = ("stops", "duty", "cpulimit")
CONDITIONS = ("quiet", *HOGS, *STOPS)
COLUMNS = ("preempted", "busy_cpu", "failed")


@contextmanager
def hog(code: str, cpu: str) -> Iterator[None]:
    """A process of its own that takes a CPU meanwhile. Raises PermissionError if it may
    not.
    """
    command = [
        *until_we_end(),
        sys.executable,
        "-c",
        code.format(cpu=cpu, limit=LONGEST_S),
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        time.sleep(0.1)  # until it is at work
        try:
            if process.poll() is not None:
                raise PermissionError
            yield
        finally:
            process.kill()


def stop(agent: subprocess.Popen[bytes], condition: str, chance: random.Random) -> None:
    """Stop an agent again and again until it ends."""
    if condition == "cpulimit":
        limit_cpu(agent)
    elif condition == "stops":
        stop_again_and_again(
            agent,
            lambda: chance.expovariate(1 / 0.015),
            lambda: chance.uniform(0.002, 0.01),
        )
    else:
        stop_again_and_again(agent, lambda: 0.005, lambda: 0.005)


def limit_cpu(agent: subprocess.Popen[bytes]) -> None:
    """Let the agent have half a CPU."""
    command = ["cpulimit", "-l", "50", "-p", str(agent.pid)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as limiter:
        agent.wait()
        limiter.terminate()


def stop_again_and_again(
    agent: subprocess.Popen[bytes],
    choose_run_s: Callable[[], float],
    choose_stop_s: Callable[[], float],
) -> None:
    """Let the agent run and stop it in turn, for so many seconds each.

    At a realtime priority above its own: on two CPUs nothing else runs while it takes
    samples.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    while agent.poll() is None:
        time.sleep(choose_run_s())
        agent.send_signal(signal.SIGSTOP)
        time.sleep(choose_stop_s())
        agent.send_signal(signal.SIGCONT)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def run_agent(
    agent: Path, options: argparse.Namespace, condition: str, chance: random.Random
) -> list[str]:
    """Run the agent under a condition and return what it printed."""
    command = [
        *until_we_end(),
        str(agent),
        *("--benchmark", "cas,readwrite"),
        *("--cpus", options.cpus),
        *("--rounds", str(options.rounds)),
        *("--deadline", str(LONGEST_S)),
        *("--format", "jsonl"),
    ]
    if options.priority:
        command += ["--priority", options.priority]
    time.sleep(0.1)  # until what ends the run before is done
    cpu = chance.choice(options.cpus.split(","))
    disturbance = hog(HOGS[condition], cpu) if condition in HOGS else nullcontext()
    with (
        tempfile.TemporaryFile("w+") as printed,
        disturbance,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=printed) as process,
    ):
        if condition in STOPS:
            stop(process, condition, chance)
        process.wait()
        printed.seek(0)
        return printed.read().splitlines()


def count_words(record: object, hello: Hello, condition: str) -> list[str]:
    """Name what is counted of a record."""
    if isinstance(record, Failed):
        words = ["bursts", "failed", "flagged"]
        if condition != "quiet":
            words += ["disturbed", "both"]
        return words
    if not isinstance(record, Burst):
        return []
    is_disturbed = was_disturbed(record, condition)
    flags = {"preempted", "busy_cpu"}.intersection(derive_burst_flags(record, hello))
    words = ["bursts", *flags]
    if is_disturbed:
        words.append("disturbed")
    if flags:
        words.append("flagged")
    if is_disturbed and flags:
        words.append("both")
    return words


def was_disturbed(burst: Burst, condition: str) -> bool:
    """Report whether a burst was disturbed, whatever its flags."""
    switches = burst.switches or (0, 0, 0, 0)
    voluntary = sum(switches[0::2])
    involuntary = sum(switches[1::2])
    match condition:
        case "quiet":
            return False
        case "loop":
            return True
        case "fifo":
            return involuntary > 0
        case _:
            return voluntary > 0


def tally(lines: list[str], condition: str) -> Counter[str]:
    """Count the bursts of a run, as the columns of the table need them."""
    decoded = [records.decode_record(line.encode()) for line in lines]
    hello = next(record for record in decoded if isinstance(record, Hello))
    counts = Counter[str]()
    for record in decoded:
        counts.update(count_words(record, hello, condition))
    return counts


def format_row(condition: str, runs: list[Counter[str]]) -> str:
    """Format the shares of a condition: of bursts, of those disturbed, and of runs."""
    total = sum(runs, Counter[str]())
    bursts = total["bursts"]
    disturbed = total["disturbed"]
    shares = [total[name] / bursts for name in ("disturbed", *COLUMNS)]
    shares.append(total["both"] / max(disturbed, 1))
    affected = [run for run in runs if run["disturbed"] or condition == "quiet"]
    flagged = [run for run in affected if run["flagged"]]
    shares.append(len(flagged) / max(len(affected), 1))
    percents = "".join(f"{share:>10.1%}" for share in shares)
    return f"{condition:>10}{bursts:>10}{percents}"


def main() -> None:
    parser = arguments_with(0, __doc__)
    parser.add_argument("--runs", type=int, default=32, help="of each condition")
    parser.add_argument("--rounds", type=int, default=40, help="of a run")
    parser.add_argument("--priority", help="of the agent; default: what it takes")
    parser.add_argument("--only", default=",".join(CONDITIONS), help="conditions")
    options = parser.parse_args()
    conditions = options.only.split(",")
    if not shutil.which("cpulimit"):
        conditions = [name for name in conditions if name != "cpulimit"]
    tallies = take_runs(conditions, options)
    titles = ("", "bursts", "disturbed", *COLUMNS, "flagged", "runs")
    print("".join(f"{title:>10}" for title in titles))
    for condition in sorted(tallies, key=CONDITIONS.index):
        print(format_row(condition, tallies[condition]))


def take_runs(
    conditions: list[str], options: argparse.Namespace
) -> dict[str, list[Counter[str]]]:
    """Take the runs of all conditions in a random order; return the words of each, by
    condition, without those that need rights.
    """
    every_run = conditions * options.runs
    tallies = defaultdict[str, list[Counter[str]]](list)
    chance = random.Random(1)
    with build_or_take_agent(options) as agent:
        for condition in chance.sample(every_run, len(every_run)):
            with suppress(PermissionError):
                lines = run_agent(agent, options, condition, chance)
                tallies[condition].append(tally(lines, condition))
    return tallies


if __name__ == "__main__":
    main()

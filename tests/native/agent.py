"""Running the real agent on this machine, and reading its records."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import needs
from tests.native.build import build
from tests.processes import until_we_end

Record = dict[str, Any]
SMALL_ONES = "cas,readwrite,clock"  # benchmarks without points
QUICK = ("--rounds", "2", "--samples", "9", "--iterations", "200")
# no single sample ever ends
LONG = (
    "--rounds",
    "1",
    "--samples",
    "1000",
    "--iterations",
    "1000000000",
)


def run(
    *args: str,
    prefix: Sequence[str] = (),
    binary: Path | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the agent to its end."""
    return subprocess.run(
        [*until_we_end(), *prefix, str(binary or build()), *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
    )


def decode(stdout: str) -> list[Record]:
    """Records of a run; each line must be a JSON object, the last one ended."""
    assert stdout.endswith("\n")
    return [json.loads(line) for line in stdout.splitlines()]


def measure(*args: str, **how: Any) -> list[Record]:
    """Records of a run that must go well. how: as `run` takes it."""
    done = run(*args, "--format", "jsonl", **how)
    assert done.returncode == 0, done.stderr
    return decode(done.stdout)


def run_simulated(
    *args: str, ends: str = "", env: dict[str, str] | None = None, **burst: float
) -> list[Record]:
    """Run in simulated time; return the records. burst: for simulated.c. ends: reason
    of an early end.
    """
    settings = {
        name.upper(): str(value) for name, value in ({"unit_us": 10.0} | burst).items()
    }
    done = run(
        *args,
        "--format",
        "jsonl",
        binary=build(simulated=True),
        env=settings | (env or {}),
    )
    assert done.stderr == (f"fleet-agent: ended early: {ends}\n" if ends else "")
    assert done.returncode == (6 if ends else 0)
    return decode(done.stdout)


def bursts(records: list[Record]) -> list[Record]:
    return [record for record in records if record["record"] == "burst"]


def failed_attempts(records: list[Record]) -> list[Record]:
    return [record for record in records if record["record"] == "failed"]


def failures(records: list[Record]) -> list[Record]:
    """The visits that gave no number in the end: what was taken again is left out."""
    attempts = {
        identify_attempt(record)
        for record in records
        if record["record"] in ("burst", "failed")
    }
    return [
        record
        for record in failed_attempts(records)
        if identify_attempt(record, later=1) not in attempts
    ]


def identify_attempt(record: Record, later: int = 0) -> tuple[object, ...]:
    visit = ("benchmark", "variant", "point", "round", "ping", "pong")
    attempt = record.get("attempt", 0) + later
    return (*(record.get(key) for key in visit), attempt)


def wrong(records: list[Record]) -> list[Record]:
    """The failed bursts, but for those that other work on this machine starved; the
    reason is first, since pytest cuts what follows.
    """
    return [
        {"reason": record["reason"], **record}
        for record in failures(records)
        if "other work held it" not in record["reason"]
    ]


def points(records: list[Record]) -> list[str]:
    """The names of the plan's points."""
    return [
        name for choice in records[0]["plan"]["benchmarks"] for name in choice["points"]
    ]


def two_cpus() -> tuple[str, str]:
    """The option that names two CPUs we may use."""
    needs.cpus(2)
    return "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))


def notes(records: list[Record]) -> list[str]:
    return [record["text"] for record in records if record["record"] == "note"]


@contextmanager
def busy_neighbour(cpu: int) -> Iterator[None]:
    """Another program takes this CPU whenever it can, from now on."""
    busy = (
        f"import os; os.sched_setaffinity(0, [{cpu}]); print(flush=True)\nwhile True:"
        " pass"
    )
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdout=subprocess.PIPE
    ) as neighbour:
        try:
            neighbour.stdout.readline()
            yield
        finally:
            neighbour.kill()


@contextmanager
def start_agent(
    *args: str, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A running agent that has said hello; killed at the end if it still lives."""
    process = subprocess.Popen(
        [*until_we_end(), str(build()), *args, "--format", "jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    try:
        assert json.loads(process.stdout.readline())["record"] == "hello"
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


def threads(pid: int) -> dict[int, str]:
    """Thread id -> the CPUs it may run on, as the kernel lists them."""
    cpus_by_thread = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(
            FileNotFoundError, ProcessLookupError
        ):  # it ended while we looked
            status = (task / "status").read_text()
            cpus_by_thread[int(task.name)] = status.split("Cpus_allowed_list:\t")[
                1
            ].split("\n")[0]
    return cpus_by_thread


def wait_for_worker(pid: int, cpu: int) -> int:
    """The thread of the agent that has bound itself to `cpu`."""
    while True:
        for thread, cpus in threads(pid).items():
            if thread != pid and cpus == str(cpu):
                # one that only measures the CPU's frequency has ended by then
                time.sleep(0.03)
                if threads(pid).get(thread) == str(cpu):
                    return thread
        time.sleep(0.01)


def wait_until_it_spins(pid: int, thread: int) -> None:
    """Until a worker of a long burst is past its preparations: it has run for a
    twentieth of a second.
    """
    while (
        int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
        < 50_000_000
    ):
        time.sleep(0.01)


def check_a_signal_ends_it(*args: str) -> None:
    """A run of long bursts ends after SIGTERM, in the middle of one."""
    with start_agent(*args) as process:
        assert process.stdout
        wait_for_worker(process.pid, min(os.sched_getaffinity(0)))
        process.send_signal(signal.SIGTERM)
        records = decode(process.stdout.read())
        process.wait()
        assert not bursts(records)
        assert process.returncode == 6
        assert records[-1]["reason"] == "signal 15"

"""The agent ends by itself, also in the middle of a burst whose loops have no
way out.
"""

import json
import os
import signal
import subprocess
import time

import pytest

from tests import needs
from tests.native.agent import (
    LONG,
    QUICK,
    bursts,
    decode,
    run,
    start_agent,
    wait_for_worker,
)
from tests.native.build import build
from tests.seccomp import OLD_KERNEL, refusing


def wait_for_end(process):
    """Wait for the end; the records after hello."""
    stdout = process.stdout.read()
    process.wait()
    return decode(stdout)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE]
)
def test_a_signal_ends_it_in_the_middle_of_a_burst(number):
    needs.cpus(2)
    with start_agent(*LONG) as process:
        wait_for_worker(process.pid, min(os.sched_getaffinity(0)))
        process.send_signal(number)
        records = wait_for_end(process)
        assert process.returncode == 6
        assert not bursts(records)
        assert records[-1]["bursts"] == 0
        assert records[-1]["reason"] == f"signal {int(number)}"


def test_end_of_stdin_ends_it_only_if_asked_for():
    needs.cpus(2)
    with start_agent(*LONG, "--until-eof") as process:
        process.stdin.write("noise is thrown away\n")
        process.stdin.flush()
        time.sleep(0.2)
        assert process.poll() is None
        process.stdin.close()
        assert wait_for_end(process)[-1]["reason"] == "stdin closed"
        assert process.returncode == 6
    # stdin is /dev/null
    assert run("-b", "clock", "--format", "jsonl", *QUICK).returncode == 0


def test_the_deadline_ends_it():
    needs.cpus(2)
    with start_agent(*LONG, "--deadline", "0.3") as process:
        assert wait_for_end(process)[-1]["reason"] == "deadline"
        assert process.returncode == 6


def test_a_reader_that_goes_away_ends_it():
    needs.cpus(2)
    with start_agent(*LONG) as process:
        process.stdout.close()
        process.wait()
        assert process.returncode == 6


def test_a_reader_that_stops_reading_does_not_keep_it_beyond_its_deadline():
    needs.cpus(2)
    endless = (
        "-b",
        "clock",
        "--rounds",
        "1000000",
        "--samples",
        "5",
        "--iterations",
        "100",
    )
    with start_agent(*endless, "--deadline", "1") as process:
        process.wait()
        assert process.returncode == 6


def test_a_full_disk_ends_it_with_the_reason():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [str(build()), "-b", "clock", "-f", "jsonl"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 6
    assert (
        done.stderr == "fleet-agent: cannot write to stdout: No space left on device\n"
    )


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize(
    ("args", "code"), [(["--machine"], 1), (["--describe"], 1), (["-b", "clock"], 6)]
)
def test_where_poll_is_refused_it_ends_and_says_so(error, args, code):
    done = run(*args, prefix=refusing(error, "poll"))
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.endswith(
        "fleet-agent: cannot write to stdout: the kernel refuses poll()\n"
    )


def test_where_threads_are_refused_it_says_which_call():
    for error, *args in ["EPERM", "--machine"], ["EACCES", "-b", "clock"]:
        done = run(*args, prefix=refusing(error, "clone3"))
        if done.returncode == 0:
            needs.missing("this C library does not call clone3()")
        assert done.returncode == 1
        assert done.stdout == ""
        assert ": start a thread: a seccomp filter forbids it" in done.stderr


def test_it_needs_no_call_that_came_after_linux_3_10_but_where_a_filter_forbids_it():
    plan = ("-b", "clock,chase", "--sizes", "16K", "-r", "1")
    assert run(*plan, prefix=refusing("ENOSYS", OLD_KERNEL)).returncode == 0
    assert (
        run(
            *plan, prefix=refusing("EPERM", OLD_KERNEL.replace("clone3,", ""))
        ).returncode
        == 0
    )


def test_a_stdout_closed_from_the_start_is_an_error_and_not_somebody_elses_pipe():
    done = subprocess.run(
        ["sh", "-c", f"{build()} -b clock -f jsonl >&- <&-"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 6
    assert "cannot write to stdout" in done.stderr


@pytest.mark.slow
def test_it_shows_that_it_lives_while_a_burst_takes_long():
    needs.cpus(2)
    with start_agent(*LONG) as process:
        assert {"record": "alive"} in (
            json.loads(process.stdout.readline()) for _ in range(12)
        )

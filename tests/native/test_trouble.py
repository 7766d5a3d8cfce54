"""What goes wrong while a pair is measured never yields a number, and never costs other
pairs theirs.
"""

import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import needs
from tests.native.agent import (
    QUICK,
    SMALL_ONES,
    bursts,
    decode,
    failures,
    measure,
    run,
    start_agent,
    threads,
    wait_for_worker,
    wait_until_it_spins,
    wrong,
)
from tests.native.preload import TROUBLE, preload


@pytest.fixture(scope="module")
def halt(tmp_path_factory):
    program = tmp_path_factory.mktemp("trouble") / "halt"
    subprocess.run(
        [needs.program("gcc", "gcc"), "-O1", "-o", program, TROUBLE / "halt.c"],
        check=True,
    )
    return program


@contextmanager
def cpuset(name, cpus):
    """Make a control group whose members can use `cpus` only; skip where none can be
    made.
    """
    needs.root()
    parent = Path("/sys/fs/cgroup/cpuset")
    if not (parent / "cpuset.cpus").is_file():
        needs.missing("no cpuset control groups (version 1) that could be written here")
    group = parent / name
    group.mkdir()
    try:
        (group / "cpuset.mems").write_text((parent / "cpuset.mems").read_text())
        (group / "cpuset.cpus").write_text(cpus)
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)
        group.rmdir()


def next_record(process, *kinds):
    while (record := decode(process.stdout.readline())[0])["record"] not in kinds:
        assert record["record"] != "end", record
    return record


def run_in_trouble(trouble, cpu, *args, seconds=0):
    how = {"TROUBLE": trouble, "TROUBLE_CPU": str(cpu), "TROUBLE_S": str(seconds)}
    return measure(*args, env=preload("affinity.c") | how)


@pytest.mark.parametrize(
    ("trouble", "reason"), [("refuse", "Invalid argument"), ("lie", "found on CPU ")]
)
def test_a_thread_that_cannot_be_bound_yields_a_reason_and_no_number(trouble, reason):
    needs.cpus(2)
    cpu = max(os.sched_getaffinity(0))
    records = run_in_trouble(trouble, cpu, "-b", SMALL_ONES, *QUICK)
    failed = failures(records)
    failed_there = [
        record for record in failed if cpu in (record["ping"], record["pong"])
    ]
    assert failed_there
    for record in failed_there:
        side = "ping" if record["ping"] == cpu else "pong"
        assert record["reason"].startswith(f"pin {side} to {cpu}: {reason}")
    assert all(cpu not in (burst["ping"], burst["pong"]) for burst in bursts(records))
    assert bursts(records)  # `clock` on the CPUs that work
    assert records[-1]["reason"] == "done"
    assert records[-1]["failed"] == len(failed)


def test_a_kernel_with_far_more_than_1024_cpus_is_understood():
    needs.cpus(2)
    records = run_in_trouble("wide", -1, "-b", SMALL_ONES, *QUICK)
    assert records[0]["cpus"] == sorted(os.sched_getaffinity(0))
    assert bursts(records)
    assert not wrong(records)


@pytest.mark.slow
def test_a_partner_that_never_arrives_costs_its_burst_and_not_the_run():
    needs.cpus(2)
    first, second = sorted(os.sched_getaffinity(0))[:2]
    records = run_in_trouble(
        "sleep",
        second,
        "-b",
        "cas,clock",
        "-c",
        f"{first},{second}",
        "-r",
        "1",
        "--stuck-timeout",
        "0.3",
        seconds=3,
    )
    assert {record["reason"] for record in failures(records)} == {
        "no progress for 0.3 s"
    }
    assert [(burst["ping"], burst["pong"]) for burst in bursts(records)] == [
        (first, first)
    ]
    assert records[-1]["reason"] == "done"


@pytest.mark.long
@pytest.mark.parametrize(
    ("benchmark", "variant", "samples"),
    [
        ("cas", "auto", 1),
        pytest.param("contend --op turn", "auto", 1, marks=pytest.mark.slow),
        pytest.param("contend --op ticket", "auto", 1, marks=pytest.mark.slow),
        pytest.param("contend --op mcs", "auto", 1, marks=pytest.mark.slow),
        pytest.param("sharing --op watch-all", "auto", 1, marks=pytest.mark.slow),
        # a sample has 100 messages both ways, whatever is asked for
        pytest.param("message", "auto", 3000, marks=pytest.mark.slow),
        pytest.param(
            "fetch", "auto", 300, marks=pytest.mark.slow
        ),  # the same with passes over the lines
        pytest.param("readwrite", "auto", 1, marks=pytest.mark.slow),
        pytest.param("cas", "c11", 1, marks=pytest.mark.slow),
        pytest.param("readwrite", "c11", 1, marks=pytest.mark.slow),
    ],
)
def test_a_partner_that_stops_in_a_loop_is_given_up_and_both_are_released(
    halt, benchmark, variant, samples
):
    needs.cpus(2)
    first, second = sorted(os.sched_getaffinity(0))[:2]
    length = ("--samples", str(samples), "--iterations", "300000")
    long_bursts = (*length, "--rounds", "1000", "--stuck-timeout", "0.3")
    choice = ("-b", *benchmark.split(), "--variant", variant, "-c", f"{first},{second}")
    with start_agent(*choice, *long_bursts) as process:
        next_record(process, "note", "failed", "burst")  # the trials are over
        reason = "other work held it"
        while "other work held it" in reason:  # beside other programs: once more
            partner = wait_for_worker(process.pid, second)
            with subprocess.Popen(
                [halt, str(partner), "1.5"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as halted:
                if halted.stdout.readline() != "halted\n":
                    if "No such process" in halted.stderr.read():
                        continue  # its burst has just ended
                    needs.missing("may not ptrace here")
                reason = next_record(process, "failed")["reason"]
        assert reason == "no progress for 0.3 s"
        while partner in threads(process.pid):  # until the thread given up is released
            time.sleep(0.02)
        # The run goes on. Other work may disturb each burst, which lasts long; a
        # thread of higher priority, such as another test's, may hold it up for 0.3 s.
        later = next_record(process, "burst", "failed")
        while later.get("reason") == reason:
            later = next_record(process, "burst", "failed")
        assert later["record"] == "burst" or later["disturbed"], later
        assert len(threads(process.pid)) <= 3


@pytest.mark.long
def test_a_long_sample_with_no_sign_of_life_but_its_line_is_not_given_up():
    needs.cpus(2)
    plan = ("-b", "cas", "-r", "4", "-s", "1", "-w", "0", "-i", "100000")
    done = run(*plan, "--stuck-timeout", "0.02", "-f", "jsonl")
    assert done.returncode == 0
    records = decode(done.stdout)
    reasons = [failure["reason"] for failure in failures(records)]
    # taken to its end
    assert bursts(records) or any("other work held it" in reason for reason in reasons)


@pytest.mark.long
def test_a_process_that_was_halted_as_a_whole_goes_on_where_it_was():
    needs.cpus(2)
    quick_to_doubt = (
        "-b",
        "cas",
        "-i",
        "200000",
        "-s",
        "10",
        "-r",
        "1",
        "--stuck-timeout",
        "1",
    )
    with start_agent(*quick_to_doubt) as process:
        wait_for_worker(process.pid, min(os.sched_getaffinity(0)))
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        process.send_signal(signal.SIGCONT)
        records = decode(process.stdout.read())
        assert not wrong(records)
        assert records[-1]["reason"] == "done"
        halted = [
            burst
            for burst in bursts(records)
            if burst["switches"][0] or burst["switches"][2]
        ]
        # nobody took its CPU
        assert all(burst["steal_ppm"] is None for burst in halted)


@pytest.mark.long
@pytest.mark.parametrize(
    ("benchmark", "samples"),
    [("cas", 1), pytest.param("message", 39_000, marks=pytest.mark.slow)],
)
def test_a_cpu_that_is_taken_away_ends_its_burst_and_not_the_run(benchmark, samples):
    needs.cpus(2)
    first, second = sorted(os.sched_getaffinity(0))[:2]
    endless = (
        "-b",
        benchmark,
        "-c",
        f"{first},{second}",
        "-s",
        str(samples),
        "-r",
        "30",
        "-i",
        "300000000",
    )
    with (
        cpuset(f"fleet-test-taken-{os.getpid()}", f"{first},{second}") as group,
        start_agent(*endless, "--stuck-timeout", "1") as process,
    ):
        (group / "cgroup.procs").write_text(str(process.pid))
        next_record(process, "note", "failed", "burst")  # the trials are over
        wait_until_it_spins(process.pid, wait_for_worker(process.pid, second))
        (group / "cpuset.cpus").write_text(str(first))
        records = decode(process.stdout.read())
    reasons = [record["reason"] for record in wrong(records)]
    gone = f"p[io]ng is no longer bound to CPU {second}"
    refused = f"pin p[io]ng to {second}: Invalid argument"
    held = (  # where other programs hold the one that is left
        "p[io]ng did not have CPU .*"
    )
    assert re.fullmatch(gone, reasons[0])
    assert re.fullmatch(refused, reasons[-1])
    assert all(re.fullmatch(f"{gone}|{held}|{refused}", reason) for reason in reasons)
    assert records[-1]["reason"] == "done"


@pytest.mark.parametrize(
    ("rounds", "how"),
    [
        (20, ()),  # at a realtime priority, which the loop cannot interrupt
        # in a slice of the scheduler, which lets it end its burst undisturbed
        pytest.param(20, ("--priority", "0"), marks=pytest.mark.slow),
        # bursts that last longer than a slice of the scheduler
        pytest.param(10, ("--priority", "0", "-s", "200"), marks=pytest.mark.slow),
    ],
)
def test_a_busy_loop_on_a_cpu_shows_in_the_share_that_the_thread_ran(rounds, how):
    needs.cpus(2)
    needs.root()
    first, second = sorted(os.sched_getaffinity(0))[:2]
    plan = (
        "-b",
        "cas",
        "-c",
        f"{first},{second}",
        "-r",
        str(rounds),
        "-f",
        "jsonl",
        *how,
    )
    loop = ("taskset", "-c", str(second), "sh", "-c", "while :; do :; done")
    with subprocess.Popen(loop) as hogging:
        records = decode(run(*plan).stdout)
        hogging.kill()
    smallest_shares = [min(record["ran_ppm"]) for record in bursts(records)]
    assert (
        sum(share < 900_000 for share in smallest_shares) + len(failures(records))
        >= 0.8 * rounds
    )


@pytest.mark.slow
def test_a_thread_of_higher_priority_on_a_cpu_costs_its_bursts_and_not_the_run():
    needs.cpus(2)
    needs.root()
    first, second = sorted(os.sched_getaffinity(0))[:2]
    # the kernel ends it after 3 s
    bounded = (
        needs.program("prlimit", "util-linux"),
        "--rttime=3000000",
    )
    hog = (
        *bounded,
        "chrt",
        "-f",
        "50",
        "taskset",
        "-c",
        str(second),
        "sh",
        "-c",
        "while :; do :; done",
    )
    plan = (
        "-b",
        "cas",
        "-c",
        f"{first},{second}",
        "-r",
        "100000",
        "-i",
        "2000",
        "--stuck-timeout",
        "0.3",
    )
    with start_agent(*plan, "--deadline", "20") as process:
        next_record(process, "burst")
        with subprocess.Popen(hog) as hogging:
            reason = "other work held it"
            while "other work held it" in reason:  # beside other programs: once more
                reason = next_record(process, "failed")["reason"]
            hogging.kill()
        assert reason in (
            "no progress for 0.3 s",
            "a thread given up earlier ran meanwhile",
        )
        assert next_record(process, "burst")  # and the run goes on

"""Where the lines lie: chosen, looked up, recorded; never believed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import needs
from tests.native.agent import (
    QUICK,
    SMALL_ONES,
    Record,
    bursts,
    decode,
    failed_attempts,
    failures,
    measure,
    points,
    run,
    wrong,
)
from tests.native.preload import preload

NODES = sorted(
    int(path.name[4:]) for path in Path("/sys/devices/system/node").glob("node[0-9]*")
)


@pytest.fixture(autouse=True)
def two_cpus():
    needs.cpus(2)


def need_nodes():
    if not NODES:
        needs.missing("a kernel without NUMA nodes")


def test_lines_asked_for_on_a_node_lie_there_and_it_is_recorded():
    need_nodes()
    records = measure("--node", str(NODES[0]), *QUICK)
    assert records[0]["plan"]["node"] == NODES[0]
    assert {burst["line_node"] for burst in bursts(records)} == {NODES[0]}
    assert not wrong(records)


def test_a_node_that_is_not_there_is_refused():
    need_nodes()
    done = run("--node", str(NODES[-1] + 1), *QUICK)
    assert done.returncode == 4
    assert done.stdout == ""
    assert (
        done.stderr
        == f"fleet-agent: NUMA node {NODES[-1] + 1} cannot be used: No such device\n"
    )


def test_lines_that_did_not_land_on_their_node_yield_a_reason_and_no_number():
    need_nodes()
    env = preload("elsewhere.c") | {"ELSEWHERE": "5"}
    records = decode(
        run("--node", str(NODES[0]), *QUICK, "-f", "jsonl", env=env).stdout
    )
    assert not bursts(records)
    assert {record["reason"] for record in failures(records)} == {
        f"a line lies on node 5 instead of {NODES[0]}"
    }
    unasked = decode(run("-b", "cas", *QUICK, "-f", "jsonl", env=env).stdout)
    assert {burst["line_node"] for burst in bursts(unasked)} == {5}


def test_the_two_lines_of_readwrite_lie_as_far_apart_as_asked():
    for distance in (64, 5000):
        records = measure("-b", "readwrite", "--sep", str(distance), *QUICK)
        assert records[0]["plan"]["separation_bytes"] == distance
        page_bytes = records[0]["page_bytes"]
        for burst in bursts(records):
            first = burst["line_page"] * page_bytes + burst["line_offset"]
            second = burst["line2_page"] * page_bytes + burst["line2_offset"]
            assert second - first == distance


def test_otherwise_they_lie_in_different_pages_at_different_offsets():
    for burst in bursts(measure("-b", "readwrite", *QUICK)):
        assert burst["line_page"] != burst["line2_page"]
        assert burst["line_offset"] != burst["line2_offset"]


def test_fixed_lines_are_the_same_for_the_whole_run():
    records = measure(
        "-b", "cas,readwrite", "--line", "fixed", "--rounds", "4", *QUICK[2:]
    )
    assert records[0]["plan"]["line"] == "fixed"
    assert (
        len({(burst["line_page"], burst["line_offset"]) for burst in bursts(records)})
        == 1
    )
    assert not wrong(records)


@pytest.mark.slow
def test_fixed_lines_a_thread_may_still_write_to_are_used_no_more():
    first, second = sorted(os.sched_getaffinity(0))[:2]
    env = preload("affinity.c") | {
        "TROUBLE": "sleep",
        "TROUBLE_CPU": str(second),
        "TROUBLE_S": "1",
    }
    plan = (
        "-b",
        "cas",
        "-c",
        f"{first},{second}",
        "--line",
        "fixed",
        "-r",
        "2",
        "-i",
        "100",
    )
    records = decode(
        run(*plan, "--stuck-timeout", "0.2", "-f", "jsonl", env=env).stdout
    )
    assert len(failures(records)) == 2
    assert records[-1]["reason"] == "done"


@pytest.mark.parametrize("owner", ["ping", "pong"])
def test_either_thread_can_touch_the_lines_first(owner):
    records = measure("--owner", owner, *QUICK)
    assert records[0]["plan"]["owner"] == owner
    assert bursts(records)
    assert not wrong(records)


def test_lines_can_lie_in_a_huge_page_or_it_is_refused():
    done = run("--pages", "huge", *QUICK, "-f", "jsonl")
    if done.returncode:
        assert done.returncode == 2
        assert done.stdout == ""
        assert "no huge page is to be had here" in done.stderr
        needs.missing("no huge pages here")
    records = decode(done.stdout)
    assert records[0]["plan"]["huge_page"] is True
    assert bursts(records)
    assert not wrong(records)


def test_the_physical_page_is_recorded_where_we_may_know_it():
    needs.root()
    with_address = bursts(measure("-b", "cas", *QUICK))
    assert all(burst["line_physical"] > 0 for burst in with_address)
    setpriv = needs.program("setpriv", "util-linux")
    drop = (setpriv, "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
    untold = bursts(measure("-b", "cas", *QUICK, prefix=drop))
    assert {burst["line_physical"] for burst in untold} == {None}


def test_the_share_of_a_burst_each_thread_ran_is_recorded():
    for burst in bursts(measure("-b", SMALL_ONES, *QUICK)):
        assert all(0 < share <= 1_000_000 for share in burst["ran_ppm"])


def run_with_steal(ran_percent: int, **env: str) -> list[Record]:
    hypervisor = (
        preload("stolen.c") | {"STOLEN_TICKS": "12481", "STOLEN_SCHEDSTAT": "1"} | env
    )
    plan = ("-b", "cas", "-s", "100", "-i", "2000", "-r", "1", "-f", "jsonl")
    variables = {name: value for name, value in hypervisor.items() if value}
    while True:  # where other work left it no burst, once more
        done = run(*plan, env=variables | {"RAN_PERCENT": str(ran_percent)})
        records = decode(done.stdout)
        assert done.returncode == 0, done.stderr
        assert not wrong(records)
        if with_steal := bursts(records):
            return with_steal


@pytest.mark.long
def test_time_that_a_thread_neither_had_nor_waited_for_was_taken_by_the_hypervisor():
    # more, and the bursts were disturbed
    for burst in run_with_steal(96):
        for ran, steal in zip(burst["ran_ppm"], burst["steal_ppm"], strict=True):
            assert 0.9 * ran * 4 / 96 < steal <= 1_000_000 - ran
    # not less than nothing
    assert {tuple(burst["steal_ppm"]) for burst in run_with_steal(1000)} == {(0, 0)}


@pytest.mark.long
@pytest.mark.parametrize("env", [{"STOLEN_TICKS": "0"}, {"STOLEN_SCHEDSTAT": ""}])
def test_a_kernel_that_does_not_account_for_it_leaves_the_steal_unknown(env):
    assert {burst["steal_ppm"] for burst in run_with_steal(96, **env)} == {None}


def run_starved(*plan: str, percent: int = 0) -> list[Record]:
    """Return the agent's records where threads are said to have had so much of their
    CPU time.
    """
    env = preload("stolen.c") | {"STOLEN_TICKS": "0", "RAN_PERCENT": str(percent)}
    return decode(run(*plan, "-r", "1", "-f", "jsonl", env=env).stdout)


@pytest.mark.long
def test_no_benchmark_has_a_number_of_threads_that_other_work_kept_from_running():
    needs.cpus(2)
    plan = (
        "--sizes",
        "16K",
        "--threads",
        "1",
        "--state",
        "own,written",
        "--blocks",
        "4K",
    )
    records = run_starved(
        "-b", "cas,readwrite,clock,message,fetch,chase,bandwidth,interleave", *plan
    )
    failed = failures(records)
    assert not bursts(records)
    assert len(failed) == records[0]["bursts"]
    # all on a busy host
    reasons = (
        "other work held it",
        "no progress for",
        "given up earlier",
    )
    assert any(reasons[0] in record["reason"] for record in failed)
    assert not [
        record
        for record in failed
        if not any(reason in record["reason"] for reason in reasons)
    ]


def repeat_starved(
    *plan: str, percent: int, until: Callable[[list[Record]], bool]
) -> list[Record]:
    """Return the first records that are as wanted: other work that takes the CPU too,
    or lengthens a sample, may spoil some runs, but not twenty.
    """
    for _ in range(20):
        records = run_starved(*plan, percent=percent)
        if until(records):
            return records
    raise AssertionError(f"not one run of twenty: {records}")


@pytest.mark.long
def test_a_burst_is_disturbed_where_a_tenth_of_a_typical_sample_was_lost() -> None:
    plan = ("-b", "clock", "-s", "100", "-i", "2000")
    records = repeat_starved(*plan, percent=60, until=lambda run: not bursts(run))
    disturbed = failed_attempts(records)
    assert all("other work held it" in record["reason"] for record in disturbed)
    assert all(record["disturbed"] for record in disturbed)
    samples = [len(record["ticks"]) for record in disturbed]
    assert set(samples) == {101}
    assert repeat_starved(*plan, percent=95, until=lambda run: bool(bursts(run)))


@pytest.mark.long
@pytest.mark.parametrize("benchmark", ["cas", "readwrite"])
def test_threads_that_wait_for_each_other_may_together_lack_as_much_as_one_alone(
    benchmark: str,
) -> None:
    needs.cpus(2)
    plan = ("-b", benchmark, "-s", "100", "-i", "2000", "--priority", "1")
    records = repeat_starved(
        *plan, percent=93, until=lambda run: bool(failed_attempts(run))
    )
    reasons = [record["reason"] for record in failed_attempts(records)]
    assert all("other work held it" in reason for reason in reasons)


# whose threads do not wait for each other
APART = [
    ("bandwidth", "--sizes", "16K", "--threads", "2"),
    ("interleave", "--blocks", "4K"),
]


@pytest.mark.long
@pytest.mark.parametrize("cpu", [0, 1])
@pytest.mark.parametrize("benchmark", APART)
def test_a_thread_that_begins_after_the_others_makes_a_burst_disturbed(
    benchmark: tuple[str, ...], cpu: int
) -> None:
    needs.cpus(2)
    env = preload("begins_late.c") | {"LATE_CPU": str(cpu), "LATE_MS": "200"}
    plan = ("-b", *benchmark, "-s", "9", "-r", "1", "--deadline", "5", "-f", "jsonl")
    records = decode(run(*plan, env=env).stdout)
    assert not bursts(records)
    reasons = {record["reason"] for record in failed_attempts(records)}
    assert any(f"did not have CPU {cpu} for" in reason for reason in reasons)


@pytest.mark.long
@pytest.mark.parametrize("cpu", [0, 1])
@pytest.mark.parametrize("benchmark", APART)
def test_a_thread_that_leaves_the_others_alone_for_most_samples_makes_a_burst_disturbed(
    benchmark: tuple[str, ...], cpu: int
) -> None:
    needs.cpus(2)
    env = preload("stops_midway.c") | {"STOP_CPU": str(cpu), "STOP_US": "20"}
    plan = ("-b", *benchmark, "-s", "9", "-r", "1", "-f", "jsonl")
    records = decode(run(*plan, env=env).stdout)
    first_bursts = [burst for burst in bursts(records) if "attempt" not in burst]
    # a stop may come late, after most samples
    assert len(first_bursts) <= len(points(records)) / 2
    reasons = {record["reason"] for record in failed_attempts(records)}
    assert any(f"did not have CPU {cpu} for" in reason for reason in reasons)


@pytest.mark.long
@pytest.mark.parametrize(
    "benchmark",
    [
        ("contend", "--op", "faa", "-i", "2000"),
        ("loaded", "--op", "read", "--load", "full", "-i", "200"),
    ],
)
def test_a_thread_that_stops_before_ping_takes_its_samples_makes_a_burst_disturbed(
    benchmark: tuple[str, ...],
) -> None:
    needs.cpus(2)
    env = preload("stops_beside_ping.c") | {"WORK_MS": "20"}
    plan = ("-b", *benchmark, "-s", "9", "-r", "1", "-f", "jsonl")
    records = decode(run(*plan, env=env).stdout)
    assert not bursts(records)
    reasons = [record["reason"] for record in failed_attempts(records)]
    assert all("did not have CPU" in reason for reason in reasons)
    assert reasons


@pytest.mark.long
@pytest.mark.parametrize("rate", ["0.5", "full"])
def test_a_load_that_a_hypervisor_stops_makes_a_burst_disturbed(rate: str) -> None:
    needs.cpus(2)
    env = preload("stops_beside_ping.c") | {"WORK_MS": "20", "UNSEEN": "1"}
    plan = ("-b", "loaded", "--op", "read", "--load", rate, "--sizes", "1M")
    few = ("-i", "8192", "-s", "9", "-r", "1", "--deadline", "5", "-f", "jsonl")
    records = decode(run(*plan, *few, env=env).stdout)
    assert not bursts(records)
    reasons = {record["reason"] for record in failed_attempts(records)}
    assert reasons
    assert all("did not have CPU" in reason for reason in reasons)


@pytest.mark.long
def test_a_thread_that_only_waits_beside_ping_may_lose_its_cpu() -> None:
    needs.cpus(2)
    env = preload("stops_beside_ping.c") | {"WORK_MS": "0"}
    plan = ("-b", "loaded", "--op", "idle", "-i", "200", "-s", "9", "-r", "1")
    records = decode(run(*plan, "-f", "jsonl", env=env).stdout)
    assert len(bursts(records)) == records[0]["bursts"]
    reasons = [record["reason"] for record in failed_attempts(records)]
    assert all(reason.startswith("ping did not have") for reason in reasons)


@pytest.mark.slow
def test_a_burst_of_starved_threads_is_given_up():
    needs.cpus(2)
    endless = (
        "-b",
        "cas",
        "-s",
        "1000",
        "-i",
        "1000000",
        "--stuck-timeout",
        "2",  # other tests hold a CPU for less
        "--deadline",
        "60",
    )
    records = run_starved(*endless)
    assert {
        "other work held it" in failed["reason"] for failed in failures(records)
    } == {True}
    assert records[-1]["reason"] == "done"

"""`message`: one-way messages in both directions, their points, records and ends."""

import os

import pytest

from tests import needs
from tests.native.agent import (
    Record,
    bursts,
    decode,
    failures,
    measure,
    notes,
    run,
    run_simulated,
    wrong,
)
from tests.native.build import build
from tests.native.preload import preload
from tests.native.targets import make_troubled

MESSAGES = 100
SHORT = ("-b", "message", "--rounds", "2", "--samples", "3", "--seed", "7")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    needs.cpus(2)
    return measure(*SHORT, "--variant", "all", "--lines-per-message", "1,2,16")


def test_each_burst_has_sums_of_both_directions(records: list[Record]) -> None:
    assert not wrong(records)
    for burst in bursts(records):
        assert burst["unit"] == "message"
        assert burst["iterations"] == MESSAGES
        assert burst["cpus"] == [burst["ping"], burst["pong"]]
        received = [burst["ticks"], *burst["other_ticks"]]
        assert [len(ticks) for ticks in received] == [4, 4]
        assert min(map(min, received)) > 0
        assert "begin_ns" not in burst


def test_the_points_are_the_lines_of_a_message(records: list[Record]) -> None:
    (points,) = {tuple(choice["points"]) for choice in records[0]["plan"]["benchmarks"]}
    assert points == ("x1", "x2", "x16")
    visits = [
        (b["variant"], b["point"], b["round"], b["ping"], b["pong"])
        for b in bursts(records)
    ]
    assert (
        len(visits) == len(set(visits)) == records[0]["bursts"] - len(failures(records))
    )


def test_the_side_that_sends_first_alternates_from_round_to_round() -> None:
    records = bursts(run_simulated(*SHORT))
    assert {(burst["round"], burst["ping"] < burst["pong"]) for burst in records} == {
        (0, True),
        (1, False),
    }


def test_the_usual_number_of_samples_is_in_the_plan() -> None:
    plan = decode(
        run("-b", "cas,message,chase", "--deadline", "0.2", "-f", "jsonl").stdout
    )[0]["plan"]
    assert {row["benchmark"]: row["samples"] for row in plan["benchmarks"]} == {
        "cas": 5,
        "message": 5,
        "chase": 5,
    }


def test_the_matrix_is_the_mean_of_both_directions() -> None:
    text = run(*SHORT, "-f", "matrix").stdout
    assert text.startswith("message, variant ")
    assert "point x1: latency of a message in ns, mean of both directions" in text


@pytest.mark.parametrize(
    ("apart_ns", "clock"), [(0, "counter"), (10_000_000_000, "monotonic_raw")]
)
def test_counters_that_are_apart_give_way_to_the_systems_clock(
    apart_ns: int, clock: str
) -> None:
    needs.cpus(2)
    target = make_troubled("counter")
    binary = build(target, native_flags=f"-DSTATED=1000000000 -DAPART_NS={apart_ns}ull")
    records = measure(*SHORT, binary=binary)
    assert records[0]["clock"] == clock
    first, second = sorted(os.sched_getaffinity(0))[:2]
    why = f"the counters of CPUs {first} and {second} are apart by more than a message"
    assert records[0]["clock_note"] == (why if apart_ns else None)
    assert any(
        "further apart than a message takes" in text for text in notes(records)
    ) == bool(apart_ns)
    assert len(bursts(records)) + len(failures(records)) == records[0]["bursts"]
    assert not wrong(records)


def test_no_message_is_sent_before_the_receiver_waits_for_it() -> None:
    """A thread comes 2 ms late to each sample: a message waits for it with its sender.
    Other work may delay some of the samples as long.
    """
    needs.cpus(2)
    late = preload("late.c") | {"LATE_CPU": str(max(os.sched_getaffinity(0)))}
    records = measure("-b", "message", "--rounds", "2", "--samples", "9", env=late)
    lateness_ticks = 0.002 * records[0]["ticks_per_second"]
    assert len(bursts(records)) == records[0]["bursts"]
    for burst in bursts(records):
        for ticks in (burst["ticks"], *burst["other_ticks"]):
            assert min(ticks) < lateness_ticks / 2


# ---- ending and trouble
# -----------------------------------------------------------------------------------

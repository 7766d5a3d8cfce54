"""Which rounds a run has and when they begin, in a simulated time: waits and bursts
take what a test says.
"""

import itertools
import json
import os
import re
import signal

import numpy as np
import pytest

from tests import needs
from tests.native.agent import (
    Record,
    bursts,
    decode,
    notes,
    run,
    run_simulated,
    start_agent,
)
from tests.native.build import build

NEVER = "0.0001%"
CPU = str(min(os.sched_getaffinity(0)))
PAIR = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
BURST = ("-s", "10", "-w", "0", "-i", "1")
# a visit; trying it takes 500 units, a burst 10
CLOCK = (
    "-b",
    "clock",
    "-c",
    CPU,
    *BURST,
)


def begins(records: list[Record]) -> list[float]:
    """Return when each burst began, in seconds after the first."""
    starts = [burst["start_ns"] / 1e9 for burst in bursts(records)]
    return [start - starts[0] for start in starts]


def read_expectation(records: list[Record]) -> str:
    """Return the expectation noted before the first burst."""
    note: str = notes(records)[0]
    return note.removeprefix("Expected: ")


def test_rounds_are_spread_over_the_time_asked_for() -> None:
    records = run_simulated(*CLOCK, "--rounds", "4", "--spread", "0.6", unit_us=1000)
    assert begins(records) == pytest.approx([0, 0.2, 0.4, 0.6], abs=0.001)


def test_a_visit_is_tried_within_its_first_burst() -> None:
    """Four samples of 100 units; that to the first CPU was tried for the forecast."""
    needs.cpus(2)
    plan = ("-b", "clock", "-c", PAIR, "--order", "sequential", "--rounds", "2")
    first, second, third, last = begins(run_simulated(*plan, unit_us=10, burst_ms=1))
    usual = second - first
    assert [third - second, last - third] == pytest.approx(
        [usual + 0.004, usual], abs=0.0002
    )


def test_a_round_that_takes_longer_than_its_share_of_the_spread_is_followed_at_once() -> (
    None
):
    records = run_simulated(
        *CLOCK, "--rounds", "3", "--spread", "0.6", unit_us=1000, burst_ms=990
    )
    assert begins(records) == pytest.approx([0, 1, 2], abs=0.001)


def test_a_run_whose_numbers_are_precise_after_the_least_rounds_ends() -> None:
    records = run_simulated(*CLOCK, unit_us=1000)
    plan = records[0]["plan"]
    assert plan["rounds"] == 3
    assert plan["precision_ppm"] == 10_000
    assert plan["spread_ms"] == 1000
    assert plan["time_budget_ms"] is None
    assert records[0]["bursts_max"] > len(bursts(records)) == 10
    assert records[0]["bursts"] == 3, "as many as there are in any case"
    assert begins(records) == pytest.approx(
        [round_ / 9 for round_ in range(10)], abs=0.01
    )
    assert records[-1]["converged"] == 1
    assert records[-1]["unconverged"] == 0
    assert records[-1]["reason"] == "done"
    assert notes(records)[-1] == "1 of 1 numbers are known to 1 %."


def test_a_run_is_judged_after_10_20_40_80_rounds_and_ends_once_it_is_precise() -> None:
    for scatter, rounds in ((0.002, 10), (0.028, 20), (0.04, 80)):
        records = run_simulated(*CLOCK, unit_us=1000, scatter=scatter)
        assert len(bursts(records)) == rounds
        assert begins(records)[-1] == pytest.approx((rounds - 1) / 9, abs=0.1), (
            "with the same pauses"
        )
        assert records[-1]["converged"] == 1
        assert records[-1]["reason"] == "done"
        assert records[-1]["reached_ppm"] <= 10_000


@pytest.mark.parametrize(
    ("spread", "budget", "ends_s"),
    [("1", None, 10), ("15", None, 16.7), ("1", "8", 8)],
    ids=["ten seconds", "the spread", "the time budget"],
)
def test_rounds_begin_until_the_time_for_them_ends(
    spread: str, budget: str | None, ends_s: float
) -> None:
    time = (
        ("--time-budget", budget, "--spread", spread)
        if budget
        else ("--spread", spread)
    )
    records = run_simulated(*CLOCK, *time, unit_us=1000, scatter=0.3)
    starts = [burst["start_ns"] / 1e9 for burst in bursts(records)]
    gap = float(spread) / 9
    assert np.diff(starts) == pytest.approx([gap] * (len(starts) - 1), abs=0.01)
    assert ends_s - 2 * gap < starts[-1] < ends_s
    assert records[-1]["converged"] == 0
    assert records[-1]["reason"] == "done"
    (note,) = notes(records)[1:]
    assert re.fullmatch(
        r"0 of 1 numbers are known to 1 %, all of them to \d+(\.\d)? %\.", note
    )


@pytest.mark.parametrize(("round_s", "rounds"), [(1.5, 5), (3, 3), (4, 3), (100, 3)])
def test_a_run_takes_ten_seconds_or_three_rounds(round_s: float, rounds: int) -> None:
    """From the start of the agent, whose forecast takes a burst, too."""
    burst_ms = 1000 * round_s - 10
    records = run_simulated(*CLOCK, unit_us=1000, scatter=0.3, burst_ms=burst_ms)
    starts = begins(records)
    assert starts == pytest.approx([round_s * n for n in range(rounds)], abs=0.1)
    assert records[-1]["converged"] == 0
    assert records[-1]["reason"] == "done"


def test_a_run_whose_pair_gives_no_number_goes_on_until_the_budget_ends() -> None:
    needs.cpus(2)
    plan = ("-b", "cas,clock", "-c", PAIR, *BURST, "--precision", "1%")
    records = run_simulated(*plan, unit_us=1000, fails_on=int(PAIR.split(",")[1]))
    assert {record["round"] for record in bursts(records)} == set(
        range(len(bursts(records)))
    )
    assert begins(records)[-1] > 9, "one number of three is fewer than nine in ten"
    assert records[-1]["converged"] == 1
    assert records[-1]["unconverged"] == 2
    assert records[-1]["reached_ppm"] is None


def test_ladders_are_measured_in_every_round_like_pairs() -> None:
    needs.cpus(2)
    plan = (
        "-b",
        "cas,chase",
        "-c",
        PAIR,
        *BURST,
        "--sizes",
        "16K",
        "--time-budget",
        "600",
    )
    records = run_simulated(*plan, unit_us=1000, scatter=0.04)
    rounds = {
        name: {
            burst["round"] for burst in bursts(records) if burst["benchmark"] == name
        }
        for name in ("cas", "chase")
    }
    assert rounds["cas"] == rounds["chase"] == set(range(max(rounds["cas"]) + 1))
    assert max(rounds["cas"]) > 10


def test_a_time_budget_leaves_out_rounds() -> None:
    plan = (*CLOCK, "--precision", NEVER, "--time-budget", "2.5")
    records = run_simulated(*plan, unit_us=10, burst_ms=1000)
    assert records[0]["bursts"] == 1
    assert records[0]["plan"]["rounds"] == 1
    assert begins(records) == [0.0], "the trial before it took a second too"
    assert (
        read_expectation(records)
        == "2 rounds of 1 burst, about 2 s; the time budget does not allow 10 rounds."
    )
    assert records[-1]["reason"] == "done"
    named = run_simulated(*plan, "--rounds", "3", unit_us=10, burst_ms=1000)
    assert named[0]["bursts"] == 3, "those that were asked for by number"
    assert len(bursts(named)) == 3, "those that were asked for by number"


def test_a_time_budget_ends_the_first_round_too_and_names_what_it_did_not_reach() -> (
    None
):
    plan = (
        "-b",
        "clock,chase",
        "-c",
        CPU,
        "-i",
        "1000",
        "--sizes",
        "1M,16K..32K",
        "--time-budget",
        "3",
    )
    hello, *records = run_simulated(*plan, ends="time budget", unit_us=1, burst_ms=1000)
    taken, (note,) = bursts(records), notes(records)
    assert taken[0]["benchmark"] == "clock", "what has no points comes first"
    assert 1 <= len(taken) <= 3
    assert taken[-1]["start_ns"] < 3e9
    assert hello["bursts"] == 13
    assert records[-1]["bursts"] == len(taken)
    assert records[-1]["reason"] == "time budget"
    assert (
        f"in the first round: {13 - len(taken)} of 13 visits were not made: chase/mov"
        " random." in note
    )
    assert note.count("1M") == 3


def test_a_burst_that_outlasts_the_time_budget_is_broken_off() -> None:
    plan = (*CLOCK, "--time-budget", "10")
    hello, *records = run_simulated(
        *plan, ends="time budget", unit_us=10, slow_burst=1, slow_ms=60_000
    )
    assert not bursts(records)
    assert hello["bursts"] == 1
    assert records[-1]["reason"] == "time budget"


def test_points_between_the_plateaus_are_the_first_that_a_time_budget_leaves_out() -> (
    None
):
    """By the options and the machine alone: the same with every seed and load."""
    plan = ("-b", "chase", "-c", CPU, "-i", "1000", "--deadline", "0.001")
    every, *shorter = (
        run_simulated(*plan, "--time-budget", f"{64 / 1.9**times:f}", ends="deadline")
        for times in range(14)
    )
    points = [
        records[0]["plan"]["benchmarks"][0]["points"] for records in (every, *shorter)
    ]
    assert all(set(less) <= set(more) for more, less in itertools.pairwise(points))
    few = next(
        (place for place, names in enumerate(points) if len(names) < len(points[0])),
        None,
    )
    if few is None:
        needs.missing("the caches of this machine are not known")
    assert points[0][-1] in points[few]
    assert points[0][-1] not in points[-1], (
        "the largest, outside all caches, comes after them"
    )
    left_out = len(points[0]) - len(points[few])
    assert (
        f"budget {left_out} points of chase and bandwidth are left out"
        in notes(shorter[few - 1])[0]
    )


def test_a_matrix_lists_what_share_of_bursts_is_at_another_level() -> None:
    """After the trial: 3 fast bursts, 4 slow ones, 4 fast ones and a slow one."""
    settings = {"UNIT_US": "1000", "SCATTER": "0.01", "TWO_LEVELS": "10"}
    page = run(
        *CLOCK, "--rounds", "12", binary=build(simulated=True), env=settings
    ).stdout
    assert "1 with bursts at another level" in page
    fast = r"(\d+\.\d) \+-\d\.\d%"
    slow = r"42% of bursts at (\d+\.\d)"
    levels = re.search(rf"\n {{8}}{CPU}: {fast}, and {slow}\n", page)
    assert levels, page
    assert float(levels[2]) == pytest.approx(10 * float(levels[1]), rel=0.02)


@pytest.mark.parametrize(
    ("burst_ms", "rounds", "how_long"),
    [
        (0, 9, "less than a second"),
        (990, 9, "about 9 s"),
        (9990, 60, "about 10 min"),
        (99_990, 99, "about 2.8 h"),
    ],
)
def test_how_long_it_will_take_is_said_before_it_begins(
    burst_ms: int, rounds: int, how_long: str
) -> None:
    records = run_simulated(*CLOCK, "-r", str(rounds), unit_us=1000, burst_ms=burst_ms)
    assert read_expectation(records) == f"{rounds} rounds of 1 burst, {how_long}."
    assert (
        records[0]["bursts_max"]
        == records[0]["bursts"]
        == len(bursts(records))
        == rounds
    )


def test_with_a_precision_the_time_that_more_rounds_may_take_is_said_too() -> None:
    more = "; up to {} where more rounds are needed."
    assert read_expectation(
        run_simulated(*CLOCK, unit_us=1000)
    ) == "10 rounds of 1 burst, about 1 s" + more.format("10 s")
    long = read_expectation(run_simulated(*CLOCK, unit_us=1000, burst_ms=1990))
    assert long == "4 rounds of 1 burst, about 8 s" + more.format("10 s")
    longer = read_expectation(run_simulated(*CLOCK, unit_us=1000, burst_ms=3990))
    assert longer == "3 rounds of 1 burst, about 12 s."
    asked = ("--rounds", "10", "--precision", "1%")
    twice = read_expectation(run_simulated(*CLOCK, *asked, unit_us=1000, burst_ms=1990))
    assert twice == "10 rounds of 1 burst, about 20 s" + more.format("40 s")


def test_a_pause_between_rounds_ends_with_the_run() -> None:
    """In real time: it would last an hour."""
    with start_agent(
        "-b", "clock", *BURST, "--rounds", "2", "--spread", "3600"
    ) as process:
        assert process.stdout
        while json.loads(process.stdout.readline())["record"] != "burst":
            pass
        process.send_signal(signal.SIGTERM)
        assert decode(process.stdout.read())[-1]["reason"] == "signal 15"

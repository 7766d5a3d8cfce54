"""Which rounds a run has and when they begin, in a simulated time: waits and bursts take what a test says."""

import itertools
import json
import os
import re
import signal
from collections import Counter

import pytest

from tests import needs
from tests.native.agent import Record, bursts, decode, failures, notes, run, simulated, started
from tests.native.build import build

NEVER = "0.0001%"
CPU = str(min(os.sched_getaffinity(0)))
PAIR = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
BURST = ("-s", "10", "-w", "0", "-i", "1")
CLOCK = ("-b", "clock", "-c", CPU, *BURST)  # a visit; trying it takes 500 units, a burst 10


def begins(records: list[Record]) -> list[float]:
    """When each burst began, in seconds after the first."""
    starts = [burst["start_ns"] / 1e9 for burst in bursts(records)]
    return [start - starts[0] for start in starts]


def expected(records: list[Record]) -> str:
    """What was said to be expected before the first burst."""
    note: str = notes(records)[0]
    return note.removeprefix("Expected: ")


def test_rounds_are_spread_over_the_time_asked_for() -> None:
    records = simulated(*CLOCK, "--rounds", "4", "--spread", "0.6", unit_us=1000)
    assert begins(records) == pytest.approx([0, 0.2, 0.4, 0.6], abs=0.001)


def test_a_visit_is_tried_within_its_first_burst() -> None:
    """Four samples of 100 units; that to the first CPU was tried for the forecast."""
    needs.cpus(2)
    plan = ("-b", "clock", "-c", PAIR, "--order", "sequential", "--rounds", "2")
    first, second, third, last = begins(simulated(*plan, unit_us=10, burst_ms=1))
    usual = second - first
    assert [third - second, last - third] == pytest.approx([usual + 0.004, usual], abs=0.0002)


def test_a_round_that_takes_longer_than_its_share_of_the_spread_is_followed_at_once() -> None:
    records = simulated(*CLOCK, "--rounds", "3", "--spread", "0.6", unit_us=1000, burst_ms=990)
    assert begins(records) == pytest.approx([0, 1, 2], abs=0.001)


def test_pairs_that_are_precise_after_the_least_rounds_get_no_more() -> None:
    records = simulated(*CLOCK, unit_us=1000)
    plan = records[0]["plan"]
    assert (plan["rounds"], plan["precision_ppm"], plan["spread_ms"]) == (10, 10_000, 5000)
    assert plan["time_budget_ms"] is None
    assert records[0]["bursts_max"] > records[0]["bursts"] == len(bursts(records)) == 10
    assert begins(records) == pytest.approx([5 / 9 * round_ for round_ in range(10)], abs=0.01)
    assert (records[-1]["converged"], records[-1]["unconverged"]) == (1, 0)
    assert records[-1]["reason"] == "done"


def test_a_pair_that_is_not_precise_yet_gets_rounds_until_it_is() -> None:
    records = simulated(*CLOCK, unit_us=1000, scatter=0.025)
    (*_, last) = begins(records)
    assert 10 < len(bursts(records)) < 36
    assert last == pytest.approx(5 / 9 * (len(bursts(records)) - 1), abs=0.1), "with the same pauses"
    assert (records[-1]["converged"], records[-1]["reason"]) == (1, "done")
    assert records[-1]["reached_ppm"] <= 10_000
    one_less = simulated(*CLOCK, "--rounds", str(len(bursts(records)) - 1), unit_us=1000, scatter=0.025)
    assert one_less[-1]["converged"] is None


@pytest.mark.parametrize(
    ("spread", "budget", "scatter", "ends_s"),
    [("5", None, 0.2, 20), ("15", None, 0.14, 31), ("5", "8", 0.2, 8)],
    ids=["twenty seconds", "twice the least rounds", "the time budget"],
)
def test_rounds_begin_until_the_time_for_them_ends(
    spread: str, budget: str | None, scatter: float, ends_s: float
) -> None:
    """So imprecise a pair gets them with shorter pauses, down to a sixth."""
    time = ("--time-budget", budget, "--spread", spread) if budget else ("--spread", spread)
    records = simulated(*CLOCK, *time, unit_us=1000, scatter=scatter)
    starts = [burst["start_ns"] / 1e9 for burst in bursts(records)]
    pauses = [after - before for before, after in itertools.pairwise(starts)]
    usual = float(spread) / 9
    assert pauses[:9] == pytest.approx([usual] * 9, abs=0.01)
    assert min(pauses) == pytest.approx(usual / 6, abs=0.01)
    assert 0.75 * ends_s < starts[-1] < ends_s
    assert (records[-1]["converged"], records[-1]["reason"]) == (0, "done")


def test_pairs_that_never_get_precise_are_given_up_and_that_is_said() -> None:
    """What differs by a factor after 60 rounds only: it may be states."""
    records = simulated(*CLOCK, "--rounds", "20", "--precision", NEVER, unit_us=1000, scatter=0.3)
    assert [burst["round"] for burst in bursts(records)] == list(range(60))
    assert records[0]["bursts"] < records[0]["bursts_max"]
    assert (records[-1]["converged"], records[-1]["unconverged"]) == (0, 1)
    assert records[-1]["reached_ppm"] > 3
    assert records[-1]["reason"] == "done"
    assert "more rounds will not help" in notes(records)[-1]


def test_benchmarks_that_visit_a_pair_together_get_the_same_rounds() -> None:
    """One draw for a burst: each scatters differently, and would be precise after another round."""
    needs.cpus(2)
    drawn = ("--seed", "2")  # the order of the visits decides which draw is whose
    records = simulated("-b", "cas,readwrite", "-c", PAIR, *BURST, *drawn, unit_us=1000, scatter=0.018)
    rounds = [
        [burst["round"] for burst in bursts(records) if burst["benchmark"] == name]
        for name in ("cas", "readwrite")
    ]
    assert rounds[0] == rounds[1] == list(range(len(rounds[0])))
    assert (len(rounds[0]) > 10, records[-1]["converged"]) == (True, 2)


def test_the_numbers_of_pairs_get_three_rounds_more_for_each_that_ladders_get() -> None:
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
        "60",
        "--precision",
        NEVER,
    )
    records = simulated(*plan, unit_us=1000, scatter=0.3)
    rounds = {
        name: Counter(burst["round"] for burst in bursts(records) if burst["benchmark"] == name)
        for name in ("cas", "chase")
    }
    last = max(rounds["cas"])
    assert (min(rounds["cas"]), last) == (0, 59), "given up after so many"
    assert [round_ for round_ in rounds["chase"] if 10 <= round_ < last] == list(range(12, 60, 4))


def test_a_pair_that_gives_no_number_is_not_tried_for_ever() -> None:
    needs.cpus(2)
    bad = PAIR.split(",")[1]
    plan = ("-b", "cas,clock", "-c", PAIR, *BURST, "--rounds", "4", "--spread", "0", "--precision", "2%")
    records = simulated(*plan, unit_us=100, scatter=0.1, fails_on=int(bad))
    failed = Counter(
        (record["benchmark"], max(record["ping"], record["pong"])) for record in failures(records)
    )
    assert failed == {("cas", int(bad)): 4, ("clock", int(bad)): 4}
    assert len(bursts(records)) > 4, "`clock` on the other CPU went on"


def test_a_time_budget_leaves_out_rounds() -> None:
    plan = (*CLOCK, "--precision", NEVER, "--time-budget", "2.5")
    records = simulated(*plan, unit_us=10, burst_ms=1000)
    assert (records[0]["bursts"], records[0]["plan"]["rounds"]) == (1, 1)
    assert begins(records) == [0.0], "the trial before it took a second too"
    assert expected(records) == "2 rounds of 1 burst, about 2 s; the time budget does not allow 10 rounds."
    assert records[-1]["reason"] == "done"
    named = simulated(*plan, "--rounds", "3", unit_us=10, burst_ms=1000)
    assert (named[0]["bursts"], len(bursts(named))) == (3, 3), "those that were asked for by number"


def test_a_time_budget_ends_the_first_round_too_and_names_what_it_did_not_reach() -> None:
    plan = ("-b", "clock,chase", "-c", CPU, "-i", "1000", "--sizes", "1M,16K..32K", "--time-budget", "3")
    hello, *records = simulated(*plan, ends="time budget", unit_us=1, burst_ms=1000)
    taken, (note,) = bursts(records), notes(records)
    assert taken[0]["benchmark"] == "clock", "what has no points comes first"
    assert 1 <= len(taken) <= 3
    assert taken[-1]["start_ns"] < 3e9
    assert (hello["bursts"], records[-1]["bursts"], records[-1]["reason"]) == (13, len(taken), "time budget")
    assert f"in the first round: {13 - len(taken)} of 13 visits were not made: chase/mov random." in note
    assert note.count("1M") == 3


def test_a_burst_that_outlasts_the_time_budget_is_broken_off() -> None:
    plan = (*CLOCK, "--time-budget", "10")
    hello, *records = simulated(*plan, ends="time budget", unit_us=10, slow_burst=1, slow_ms=60_000)
    assert not bursts(records)
    assert (hello["bursts"], records[-1]["reason"]) == (1, "time budget")


def test_a_round_in_which_a_burst_got_stuck_is_no_measure_of_the_next_ones() -> None:
    """Else it would seem that only one more round fits, too few for what is needed."""
    records = simulated(
        *CLOCK,
        "--spread",
        "0",
        "--time-budget",
        "60",
        unit_us=1000,
        scatter=0.2,
        slow_burst=15,
        slow_ms=25_000,
    )
    assert records[-1]["converged"] == 1
    assert len(bursts(records)) > 100


def test_points_between_the_plateaus_are_the_first_that_a_time_budget_leaves_out() -> None:
    """By the options and the machine alone: the same with every seed and load."""
    plan = ("-b", "chase", "-c", CPU, "-i", "1000", "--deadline", "0.001")
    every, *kept = (
        simulated(*plan, "--time-budget", f"{64 / 1.9**times:f}", ends="deadline") for times in range(14)
    )
    points = [records[0]["plan"]["benchmarks"][0]["points"] for records in (every, *kept)]
    assert all(set(less) <= set(more) for more, less in itertools.pairwise(points))
    few = next((at for at, names in enumerate(points) if len(names) < len(points[0])), None)
    if few is None:
        pytest.skip("the caches of this machine are not known")
    assert points[0][-1] in points[few]
    assert points[0][-1] not in points[-1], "the largest, outside all caches, comes after them"
    left_out = len(points[0]) - len(points[few])
    assert f"budget {left_out} points of chase and bandwidth are left out" in notes(kept[few - 1])[0]


def test_a_matrix_lists_all_levels_with_interval_share_and_dwell() -> None:
    """After the trial: 3 fast bursts, 4 slow ones, 4 fast ones, 4 slow ones and a fast one."""
    settings = {"UNIT_US": "1000", "SCATTER": "0.01", "TWO_LEVELS": "10"}
    shown = run(*CLOCK, "--rounds", "16", binary=build(simulated=True), env=settings).stdout
    assert "1 with several levels: that of most bursts" in shown
    fast, slow = (rf"\d+\.\d \+-\d\.\d% \(50% of bursts, {dwell} in a row\)" for dwell in ("2.7", "4.0"))
    assert re.search(rf"\n {{8}}{CPU}: {fast}, {slow}\n", shown), shown


@pytest.mark.parametrize(
    ("burst_ms", "rounds", "how_long"),
    [
        (0, 9, "less than a second"),
        (990, 9, "about 9 s"),
        (9990, 60, "about 10 min"),
        (99_990, 99, "about 2.8 h"),
    ],
)
def test_how_long_it_will_take_is_said_before_it_begins(burst_ms: int, rounds: int, how_long: str) -> None:
    records = simulated(*CLOCK, "-r", str(rounds), unit_us=1000, burst_ms=burst_ms)
    assert expected(records) == f"{rounds} rounds of 1 burst, {how_long}."
    assert records[0]["bursts_max"] == records[0]["bursts"] == len(bursts(records)) == rounds


def test_with_a_precision_the_time_that_more_rounds_may_take_is_said_too() -> None:
    more = "; up to {} where more rounds are needed."
    assert expected(simulated(*CLOCK, unit_us=1000)) == "10 rounds of 1 burst, about 5 s" + more.format(
        "20 s"
    )
    long = expected(simulated(*CLOCK, unit_us=1000, burst_ms=1990))
    assert long == "10 rounds of 1 burst, about 20 s" + more.format("40 s")


@pytest.mark.parametrize(("samples", "rounds"), [(10, 10), (39_000, 3)])
def test_what_is_precise_after_three_long_rounds_gets_no_further_one(samples: int, rounds: int) -> None:
    needs.cpus(2)
    records = simulated("-b", "cas", "-c", "0-1", "-s", str(samples))
    assert (records[0]["plan"]["rounds"], len(bursts(records))) == (rounds, rounds)
    assert records[-1]["reason"] == "done"


def test_one_narrow_interval_may_be_luck_so_a_second_has_to_follow() -> None:
    """After three bursts both are known to 1 % (0.65 % and a third more), after two only the first."""
    needs.cpus(2)
    long = ("-b", "cas", "-c", "0-1", "-s", "39000", "--seed", "2")
    known_at_once, lucky = simulated(*long, scatter=0.003), simulated(*long, scatter=0.004)
    assert (len(bursts(known_at_once)), known_at_once[-1]["converged"]) == (3, 1)
    assert known_at_once[-1]["reached_ppm"] == pytest.approx(6542, rel=0.01)
    assert (len(bursts(lucky)), lucky[-1]["converged"]) == (4, 1)


def test_a_pause_between_rounds_ends_with_the_run() -> None:
    """In real time: it would last an hour."""
    with started("-b", "clock", *BURST, "--rounds", "2", "--spread", "3600") as process:
        assert process.stdout
        while json.loads(process.stdout.readline())["record"] != "burst":
            pass
        process.send_signal(signal.SIGTERM)
        assert decode(process.stdout.read())[-1]["reason"] == "signal 15"

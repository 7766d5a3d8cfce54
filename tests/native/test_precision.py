"""When a pair is measured often enough: the rule itself, on numbers we made, and the rounds it asks for."""

import ctypes
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import time
from collections import Counter

import pytest

from fleet.interval import half_width
from tests import needs
from tests.native.agent import bursts, decode, measure, notes, run, started
from tests.native.build import AGENT
from tests.native.preload import preload

SHORT = ("-b", "cas", "--samples", "3", "--iterations", "200")
NEVER = "0.0001%"


class Tally(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_double) for name in ("mean", "squares", "first", "last", "lagged")),
        ("count", ctypes.c_uint32),
    )


@pytest.fixture(scope="module")
def rule(tmp_path_factory):
    """precision.c as a library."""
    library = tmp_path_factory.mktemp("precision") / "precision.so"
    command = [needs.program("gcc", "gcc"), "-O1", "-shared", "-fPIC", "-o", library, AGENT / "precision.c"]
    subprocess.run(command, check=True, timeout=60)
    loaded = ctypes.CDLL(str(library))
    loaded.tally_add.argtypes = (ctypes.POINTER(Tally), ctypes.c_double)
    loaded.tally_is_precise.argtypes = (ctypes.POINTER(Tally), ctypes.c_uint32)
    loaded.tally_is_precise.restype = ctypes.c_bool
    loaded.student_t95.argtypes = (ctypes.c_uint32,)
    loaded.student_t95.restype = ctypes.c_double
    return loaded


def tally_of(rule, values):
    tally = Tally()
    for value in values:
        rule.tally_add(ctypes.byref(tally), value)
    return tally


# From Student's tables, two-sided 95 %.
@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.706), (4, 2.776), (9, 2.262), (10, 2.228), (15, 2.131), (29, 2.045), (120, 1.980)],
)
def test_students_t_is_what_the_tables_say(rule, freedom, t):
    assert rule.student_t95(freedom) == pytest.approx(t, abs=0.0006)


def test_mean_and_spread_are_those_of_all_values_also_far_from_zero(rule):
    values = [1e9 + math.sin(i) for i in range(1000)]
    tally = tally_of(rule, values)
    assert tally.mean == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert tally.squares / 999 == pytest.approx(statistics.variance(values), rel=1e-6)


@pytest.mark.parametrize(
    "values",
    [
        [50.0, 51.0, 49.5, 50.5, 50.2, 49.9, 50.1, 50.8, 49.2, 50.3],
        [50.0, 50.1, 50.3, 50.6, 50.9, 51.0, 50.8, 50.4, 50.1, 49.9, 49.6],
        [50.0, 60.0] * 8,
    ],
    ids=["calm", "wandering", "alternating"],
)
def test_a_pair_is_precise_exactly_when_the_controller_finds_its_interval_narrow_enough(rule, values):
    half = half_width(values)
    tally = tally_of(rule, values)
    assert rule.tally_is_precise(ctypes.byref(tally), math.ceil(half * 1e6) + 1)
    assert not rule.tally_is_precise(ctypes.byref(tally), math.floor(half * 1e6) - 1)
    assert not rule.tally_is_precise(ctypes.byref(tally_of(rule, [50.0])), 1_000_000)


def autocorrelated(dice):
    """Bursts of one moment resemble each other: 0.15 of the last one's deviation stays."""
    deviation = 0.0
    while True:
        deviation = 0.15 * deviation + dice.gauss(0, 1)
        yield 50 + deviation


def bimodal(dice):
    """Now and then a line lies badly."""
    while True:
        yield dice.gauss(50, 0.8) if dice.random() < 0.7 else dice.gauss(53, 0.8)


def drifting(dice):
    """A slow wave under the noise, as heat or a neighbour make it; whole in the long run."""
    phase = dice.uniform(0, 2 * math.pi)
    step = 0
    while True:
        yield 50 + 0.5 * math.sin(phase + 2 * math.pi * step / 20) + dice.gauss(0, 1)
        step += 1


@pytest.mark.parametrize(
    ("source", "truth"), [(autocorrelated, 50.0), (bimodal, 50 + 0.3 * 3), (drifting, 50.0)]
)
def test_where_the_rule_stops_the_interval_holds_the_truth_nearly_as_often_as_it_says(rule, source, truth):
    """Stopping as soon as it looks good costs a little: at least 90 of 100 are asked of the rule itself."""
    held = 0
    for seed in range(300):
        values = source(random.Random(seed))
        taken = [next(values) for _ in range(10)]
        while not rule.tally_is_precise(ctypes.byref(tally_of(rule, taken)), 10_000) and len(taken) < 200:
            taken.append(next(values))
        mean = statistics.fmean(taken)
        held += abs(mean - truth) <= half_width(taken) * mean
    assert held >= 0.9 * 300


# The rounds of a real run


def test_pairs_that_are_precise_after_the_least_rounds_get_no_more():
    steady = ("-b", "clock", "-c", str(min(os.sched_getaffinity(0))), "--spread", "0")
    records = measure(*steady, "--rounds", "10", "--precision", "100%")
    assert records[0]["plan"]["precision_ppm"] == 1_000_000
    assert records[0]["bursts_max"] > records[0]["bursts"] == len(bursts(records)) == 10
    assert (records[-1]["converged"], records[-1]["unconverged"]) == (1, 0)
    assert records[-1]["reason"] == "done"


def test_pairs_that_never_get_precise_are_measured_until_the_budget_ends_and_that_is_said():
    needs.cpus(2)
    began = time.monotonic()
    records = measure(*SHORT, "--rounds", "2", "--precision", NEVER, "--time-budget", "1.5")
    assert time.monotonic() - began < 10
    rounds = [burst["round"] for burst in bursts(records)]
    assert rounds == list(range(len(rounds)))
    assert records[0]["bursts"] < len(rounds) <= records[0]["bursts_max"]
    assert (records[-1]["converged"], records[-1]["unconverged"]) == (0, 1)
    assert records[-1]["reason"] == "done"


def test_a_time_budget_leaves_out_rounds_but_not_the_first():
    plan = ("-b", "clock", "-c", str(min(os.sched_getaffinity(0))), "-i", "100000", "-s", "20", "-w", "0")
    hello, *records = measure(*plan, "--precision", NEVER, "--time-budget", "0.001")
    assert (hello["bursts"], hello["plan"]["rounds"]) == (1, 1)
    assert [burst["round"] for burst in bursts(records)] == [0]
    assert "Expected: 1 round of 1 burst" in notes(records)[0]
    assert "the time budget does not allow 10 rounds" in notes(records)[0]
    named = measure(*plan, "--precision", NEVER, "--time-budget", "0.001", "--rounds", "2")
    assert (named[0]["bursts"], len(bursts(named))) == (2, 2)


def test_a_pair_that_gives_no_number_is_not_tried_for_ever():
    needs.cpus(2)
    cpu = max(os.sched_getaffinity(0))
    env = preload("affinity.c") | {"TROUBLE": "refuse", "TROUBLE_CPU": str(cpu)}
    plan = ("-b", "cas,clock", "--rounds", "4", "--spread", "0", "--precision", NEVER, "-i", "100")
    cpus = ("-c", f"{min(os.sched_getaffinity(0))},{cpu}")
    tried: Counter[tuple[str, int]] = Counter()
    with started(*plan, *cpus, "--time-budget", "60", env=env) as process:
        for line in process.stdout:
            record = json.loads(line)
            if record["record"] == "failed":
                tried[record["benchmark"], max(record["ping"], record["pong"])] += 1
            elif record["record"] == "burst" and record["round"] == 8:
                break  # `clock` on the other CPU went on
    assert tried == {("cas", cpu): 4, ("clock", cpu): 4}


def test_rounds_are_spread_over_the_time_asked_for():
    needs.cpus(2)
    records = measure(*SHORT, "--rounds", "3", "--spread", "0.6")
    starts = [burst["start_ns"] for burst in bursts(records)]
    assert starts[2] - starts[0] >= 0.6e9 - 1e6
    assert starts[1] - starts[0] >= 0.3e9 - 1e6


def test_a_pause_between_rounds_ends_at_once_with_the_run():
    needs.cpus(2)
    with started(*SHORT, "--rounds", "2", "--spread", "60") as process:
        while json.loads(process.stdout.readline())["record"] != "burst":
            pass
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert decode(process.stdout.read())[-1]["reason"] == "signal 15"
        assert time.monotonic() - began < 2


def test_without_rounds_it_aims_at_one_percent_spread_over_five_seconds():
    with started("-b", "clock"):
        pass
    hello = decode(run("-b", "clock", "--deadline", "0.1", "-f", "jsonl").stdout)[0]
    plan = hello["plan"]
    assert (plan["rounds"], plan["precision_ppm"], plan["spread_ms"]) == (10, 10_000, 5000)
    assert plan["time_budget_ms"] is None
    alone = decode(run("-b", "clock", "--rounds", "1", "-f", "jsonl").stdout)[0]
    assert (alone["plan"]["precision_ppm"], alone["plan"]["spread_ms"]) == (None, 0)
    assert alone["bursts_max"] == alone["bursts"]


def test_how_long_it_will_take_is_said_before_it_begins():
    needs.cpus(2)
    short = decode(run(*SHORT, "-r", "2", "-f", "jsonl").stdout)
    (text,) = notes(
        short
    )  # "about 3 s" where the machine is busy while the agent tries how long a burst takes
    assert re.fullmatch(r"Expected: 2 rounds of 1 burst, (less than a second|about \d+ s)\.", text)
    with started("-b", "cas", "-r", "7", "-s", "1000", "-i", "100000000") as process:
        note = json.loads(process.stdout.readline())
    assert note["text"].startswith("Expected: 7 rounds of 1 burst, about ")
    assert note["text"].endswith(" h.")

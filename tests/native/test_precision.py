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

import numpy as np
import pytest

from fleet.analysis.reduce.levels import levels
from fleet.interval import effective_count, t_factor
from tests import needs
from tests.intervals import half_width
from tests.native.agent import bursts, decode, failures, measure, notes, run, started, wrong
from tests.native.build import AGENT
from tests.native.preload import preload

SHORT = ("-b", "cas", "--samples", "3", "--iterations", "200")
NEVER = "0.0001%"


class Interval(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_uint32),
        *((name, ctypes.c_double) for name in ("mean", "variance", "half_squared", "correlation")),
    )


class Level(ctypes.Structure):
    _fields_ = (
        ("median", ctypes.c_double),
        ("other", ctypes.c_double),
        ("interval", Interval),
        ("levels", ctypes.c_uint32),
    )


class LevelPart(ctypes.Structure):
    _fields_ = (
        ("median", ctypes.c_double),
        ("dwell", ctypes.c_double),
        ("count", ctypes.c_size_t),
        ("interval", Interval),
    )


@pytest.fixture(scope="module")
def rule(tmp_path_factory):
    """levels.c and precision.c as a library."""
    library = tmp_path_factory.mktemp("precision") / "precision.so"
    files = [AGENT / "levels.c", AGENT / "precision.c"]
    command = [needs.program("gcc", "gcc"), "-O1", "-shared", "-fPIC", "-o", library, *files]
    subprocess.run(command, check=True, timeout=60)
    loaded = ctypes.CDLL(str(library))
    loaded.level_of_most.restype = Level
    loaded.levels_of.restype = ctypes.c_uint32
    loaded.student_t95.argtypes = (ctypes.c_uint32,)
    loaded.student_t95.restype = ctypes.c_double
    loaded.count_needed.argtypes = (ctypes.c_double,) * 3
    loaded.count_needed.restype = ctypes.c_uint32
    return loaded


def level_of(rule, values):
    """The level of most values, as the agent finds it, and half its interval, relative to the mean."""
    array = ctypes.c_double * len(values)
    level = rule.level_of_most(array(*values), array(), ctypes.c_size_t(len(values)))
    return level, half_of(level.interval)


def half_of(interval):
    """Half an interval, relative to the mean."""
    if interval.half_squared <= 0:  # below: a single burst
        return math.inf if interval.half_squared else 0.0
    return math.sqrt(interval.half_squared) / interval.mean


def levels_of(rule, values):
    """All levels, as the agent lists them: median, relative half interval, share, dwell."""
    array = ctypes.c_double * len(values)
    parts = (LevelPart * 6)()
    count = rule.levels_of(array(*values), array(), ctypes.c_size_t(len(values)), parts)
    return [(p.median, half_of(p.interval), p.count / len(values), p.dwell) for p in parts[:count]]


# From Student's tables, two-sided 95 %.
@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.706), (4, 2.776), (9, 2.262), (10, 2.228), (15, 2.131), (29, 2.045), (120, 1.980)],
)
def test_students_t_is_what_the_tables_say(rule, freedom, t):
    assert rule.student_t95(freedom) == pytest.approx(t, abs=0.0006)


def test_mean_and_spread_are_those_of_all_values_also_far_from_zero(rule):
    values = [1e9 + math.sin(i) for i in range(1000)]
    level, _ = level_of(rule, values)
    assert level.interval.mean == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert level.interval.variance == pytest.approx(statistics.variance(values), rel=1e-6)


@pytest.mark.parametrize(
    "values",
    [
        [50.0, 51.0, 49.5, 50.5, 50.2, 49.9, 50.1, 50.8, 49.2, 50.3],
        [50.0, 50.1, 50.3, 50.6, 50.9, 51.0, 50.8, 50.4, 50.1, 49.9, 49.6],
        [50.0, 51.0] * 8,
    ],
    ids=["calm", "wandering", "alternating"],
)
def test_the_interval_that_stops_a_pair_is_that_of_the_controller(rule, values):
    assert level_of(rule, values)[1] == pytest.approx(half_width(values), rel=1e-9)
    assert level_of(rule, [50.0])[1] == math.inf


def test_the_agent_finds_the_levels_that_the_controller_finds(rule):
    """Of up to six levels with shares at random and 0.3 to 3 % of scatter, some with strays."""
    chance = np.random.default_rng(1)
    several, strays = 0, 0
    for _ in range(200):
        count, shares = int(chance.choice([1, 2, 3, 5, 10, 13, 36, 60, 250])), chance.dirichlet([0.5] * 6)
        noise = np.exp(chance.choice([0.003, 0.01, 0.03]) * chance.normal(size=count))
        row = chance.choice([17.0, 21.0, 24.0, 29.0, 54.0, 128.0], count, p=shares) * noise
        row = np.where(chance.random(count) < chance.choice([0, 0.03, 0.1]), 2.5 * row, row)
        found, (level, half) = levels(row[None, :], np.arange(count)[None, :]), level_of(rule, row)
        assert level.levels == len(found.parts.get(0, [None]))
        assert level.median == pytest.approx(found.median[0])
        assert level.other == pytest.approx(np.nan_to_num(found.other[0]))
        assert half == pytest.approx(np.nan_to_num(found.half[0] / found.mean[0], nan=math.inf), rel=1e-6)
        if parts := found.parts.get(0):
            listed = [
                (p.median, np.nan_to_num(p.half / p.mean, nan=math.inf), p.share, p.dwell) for p in parts
            ]
            assert levels_of(rule, row) == [pytest.approx(part, rel=1e-6) for part in listed]
        several += level.levels > 2
        share = max((part.share for part in found.parts.get(0, ())), default=1.0)
        strays += level.interval.count < round(share * count)
    assert several > 30
    assert strays > 5


def test_a_stray_counts_in_the_median_not_in_the_interval(rule):
    calm = [50.0, 51.0, 49.5, 50.5, 50.2, 49.9, 50.1, 50.8, 49.2, 50.3, 50.4, 49.8]
    level, half = level_of(rule, [*calm[:6], 107.0, *calm[6:]])
    assert (level.levels, level.interval.count, level.median) == (1, 12, 50.2)
    assert half == level_of(rule, calm)[1]
    assert level_of(rule, [*calm[:8], 107.0])[0].interval.count == 8, "a level if it is one of nine"


@pytest.mark.parametrize("correlation", [-0.3, 0.0, 0.4, 0.8])
@pytest.mark.parametrize("scatter", [0.01, 0.06, 0.2])
def test_the_number_of_bursts_needed_is_the_least_whose_interval_is_narrow_enough(rule, scatter, correlation):
    def half(count):
        effective = effective_count(count, correlation)
        return t_factor(count, effective) * scatter / math.sqrt(effective)

    least = next(count for count in range(2, 1 << 16) if half(count) <= 0.025)
    assert rule.count_needed(scatter**2, correlation, 0.025) == least
    assert rule.count_needed(1.0, correlation, 1e-6) == 2**16 - 1


def test_bursts_of_no_duration_are_a_level_too(rule):
    assert level_of(rule, [0.0] * 10)[0].levels == 1


def autocorrelated(likeness):
    """Bursts of one moment resemble each other."""

    def values(dice):
        deviation = dice.gauss(0, 0.8)
        while True:
            yield 50 + deviation
            deviation = likeness * deviation + dice.gauss(0, 0.8 * (1 - likeness**2) ** 0.5)

    return values


def bimodal(dice):
    """Now and then a line lies badly."""
    while True:
        yield dice.gauss(50, 0.8) if dice.random() < 0.7 else dice.gauss(65, 0.8)


def drifting(dice):
    """A slow wave under the noise, as heat or a neighbour make it; whole in the long run."""
    phase = dice.uniform(0, 2 * math.pi)
    step = 0
    while True:
        yield 50 + 0.5 * math.sin(phase + 2 * math.pi * step / 20) + dice.gauss(0, 1)
        step += 1


@pytest.mark.parametrize(
    ("source", "truths"),
    [
        (autocorrelated(0.0), [50.0]),
        (autocorrelated(0.3), [50.0]),
        (autocorrelated(0.6), [50.0]),
        (bimodal, [50.0, 65.0]),
        (drifting, [50.0]),
    ],
    ids=["independent", "autocorrelated .3", "autocorrelated .6", "two levels", "drifting"],
)
def test_where_the_rule_stops_the_interval_holds_the_truth_nearly_as_often_as_it_says(rule, source, truths):
    """Stopping as soon as it looks good costs a little: at least 90 of 100 are asked of the rule itself.

    truths: of each level; the level of most bursts of a run may be any of them.
    """
    held = 0
    for seed in range(300):
        values = source(random.Random(seed))
        taken = [next(values) for _ in range(10)]
        while level_of(rule, taken)[1] > 0.01 and len(taken) < 200:
            taken.append(next(values))
        level, half = level_of(rule, taken)
        mean = level.interval.mean
        held += min(abs(mean - truth) for truth in truths) <= half * mean
    assert held >= 0.9 * 300


# The rounds of a real run


def test_pairs_that_are_precise_after_the_least_rounds_get_no_more():
    steady = ("-b", "clock", "-c", str(min(os.sched_getaffinity(0))), "--spread", "0")
    records = measure(*steady, "--rounds", "10", "--precision", "100%")
    assert records[0]["plan"]["precision_ppm"] == 1_000_000
    assert records[0]["bursts_max"] > records[0]["bursts"] == len(bursts(records)) == 10
    assert (records[-1]["converged"], records[-1]["unconverged"]) == (1, 0)
    assert records[-1]["reason"] == "done"


def test_pairs_that_never_get_precise_are_given_up_and_that_is_said():
    needs.cpus(2)
    records = measure(*SHORT, "--rounds", "20", "--precision", NEVER, "--time-budget", "30")
    rounds = sorted(record["round"] for record in (*bursts(records), *failures(records)))
    assert not wrong(records)
    assert rounds == list(range(20))
    assert records[0]["bursts"] < records[0]["bursts_max"]
    assert (records[-1]["converged"], records[-1]["unconverged"]) == (0, 1)
    assert records[-1]["reached_ppm"] > 3
    assert records[-1]["reason"] == "done"
    assert "more rounds will not help" in notes(records)[-1]


def test_a_time_budget_leaves_out_rounds():
    plan = ("-b", "clock", "-c", str(min(os.sched_getaffinity(0))), "-i", "100000", "-s", "20", "-w", "0")
    hello, *records = measure(*plan, "--precision", NEVER, "--time-budget", "0.04")
    assert (hello["bursts"], hello["plan"]["rounds"]) == (1, 1)
    assert [burst["round"] for burst in bursts(records)] == [0]
    assert "Expected: 1 round of 1 burst" in notes(records)[0]
    assert "the time budget does not allow 10 rounds" in notes(records)[0]
    assert records[-1]["reason"] == "done"
    named = measure(*plan, "--precision", NEVER, "--time-budget", "0.001", "--rounds", "2")
    assert (named[0]["bursts"], len(bursts(named))) == (2, 2)


def test_a_time_budget_ends_the_first_round_too_and_names_what_it_did_not_reach():
    plan = ("-b", "clock,chase", "-c", str(min(os.sched_getaffinity(0))), "--sizes", "1M,16K..32K")
    result = run(*plan, "--time-budget", "0.001", "-f", "jsonl")
    hello, *records = decode(result.stdout)
    assert result.returncode == 6
    assert [burst["benchmark"] for burst in bursts(records)] == ["clock"]
    assert (hello["bursts"], records[-1]["bursts"], records[-1]["reason"]) == (13, 1, "time budget")
    (note,) = notes(records)
    assert "in the first round: 12 of 13 visits were not made: chase/mov random.16K" in note
    assert note.count("1M") == 3


def test_points_between_the_plateaus_are_the_first_that_a_time_budget_leaves_out():
    """By the options and the machine alone: the same with every seed and load."""
    plan = ("-b", "chase", "-c", str(min(os.sched_getaffinity(0))))
    every, few = (
        decode(run(*plan, *more, "--deadline", "0.01", "-f", "jsonl").stdout)
        for more in (("--rounds", "1"), ("--time-budget", "0.1"))
    )
    names, kept = (set(records[0]["plan"]["benchmarks"][0]["points"]) for records in (every, few))
    if len(names) == len(kept):
        pytest.skip("the caches of this machine are not known")
    assert kept < names
    assert f"{len(names - kept)} points of chase and bandwidth are left out" in notes(few)[0]


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

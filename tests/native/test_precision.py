"""When a pair is measured often enough: the rule itself, on numbers we made."""

import ctypes
import math
import random
import statistics
import subprocess

import numpy as np
import pytest

from fleet.analysis.reduce.burst_levels import burst_levels
from fleet.analysis.reduce.interval import effective_count, t_factor
from fleet.analysis.reduce.split import states
from tests import needs
from tests.intervals import half_width
from tests.native.build import AGENT


class Interval(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_uint32),
        *((name, ctypes.c_double) for name in ("mean", "variance", "half_squared", "correlation")),
    )


class Series(ctypes.Structure):
    _fields_ = (
        ("values", ctypes.POINTER(ctypes.c_double)),
        ("count", ctypes.c_size_t),
        ("decides", ctypes.c_bool),
    )


class States(ctypes.Structure):
    _fields_ = (("of", ctypes.POINTER(ctypes.c_uint8)), ("main", ctypes.c_uint8))


class LevelPart(ctypes.Structure):
    _fields_ = (
        ("median", ctypes.c_double),
        ("dwell", ctypes.c_double),
        ("count", ctypes.c_size_t),
        ("interval", Interval),
        ("ratio", ctypes.c_double),
        ("state", ctypes.c_uint8),
    )


class Level(ctypes.Structure):
    _fields_ = (("main", LevelPart), ("other", ctypes.c_double), ("levels", ctypes.c_uint32))


@pytest.fixture(scope="module")
def rule(tmp_path_factory):
    """levels.c and what it needs as a library."""
    library = tmp_path_factory.mktemp("precision") / "precision.so"
    files = [AGENT / "base" / name for name in ("levels.c", "split.c", "interval.c")]
    command = [needs.program("gcc", "gcc"), "-O1", "-shared", "-fPIC", f"-I{AGENT}", "-o", library, *files]
    subprocess.run(command, check=True)
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
    series, states, work = split(rule, values)
    level = rule.level_of_most(series, ctypes.byref(states), work)
    return level, half_of(level.main.interval)


def split(rule, *rows):
    """Rows as the agent takes them, NaN where a round has no value; their states, and room for work."""
    longest = max(map(len, rows))
    work, states = (ctypes.c_double * (4 * longest))(), States((ctypes.c_uint8 * longest)())
    held = [(ctypes.c_double * len(row))(*np.nan_to_num(row, nan=-1)) for row in rows]
    series = (Series * len(rows))(*(Series(values, len(values), False) for values in held))
    rule.states_find(series, ctypes.c_size_t(len(rows)), work, ctypes.byref(states))
    return series, states, work


def half_of(interval):
    """Half an interval, relative to the mean."""
    if interval.half_squared <= 0:  # below: a single burst
        return math.inf if interval.half_squared else 0.0
    return math.sqrt(interval.half_squared) / interval.mean


def levels_of(rule, values):
    """All levels, as the agent lists them: median, relative half interval, share, dwell."""
    return listed(rule, *split(rule, values))


def listed(rule, series, states, work):
    """All levels of the first series."""
    parts = (LevelPart * 6)()
    count = rule.levels_of(series, ctypes.byref(states), work, parts)
    every = sum(part.count for part in parts[:count])
    return [(p.median, half_of(p.interval), p.count / every, p.dwell) for p in parts[:count]]


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
    assert level.main.interval.mean == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert level.main.interval.variance == pytest.approx(statistics.variance(values), rel=1e-6)


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
        found, (level, half) = burst_levels(row[None, :], np.arange(count)[None, :]), level_of(rule, row)
        assert level.levels == len(found.parts.get(0, [None]))
        assert level.main.median == pytest.approx(found.median[0], rel=1e-3)
        assert level.other == pytest.approx(np.nan_to_num(found.other[0]), rel=1e-3)
        assert half == pytest.approx(np.nan_to_num(found.half[0] / found.mean[0], nan=math.inf), rel=1e-6)
        if parts := found.parts.get(0):
            assert levels_of(rule, row) == [pytest.approx(part, rel=1e-3) for part in described(parts)]
        several += level.levels > 2
        share = max((part.share for part in found.parts.get(0, ())), default=1.0)
        strays += level.main.interval.count < round(share * count)
    assert several > 30
    assert strays > 5


def described(parts):
    """Levels as the controller finds them, in the form of `levels_of`."""
    return [(p.median, np.nan_to_num(p.half / p.mean, nan=math.inf), p.share, p.dwell) for p in parts]


def test_the_agent_finds_the_states_that_the_controller_finds(rule):
    """Of one to three benchmarks of a pair, of which some lack bursts; some have levels of their own."""
    chance, several = np.random.default_rng(2), 0
    for _ in range(300):
        count, benchmarks = int(chance.choice([2, 5, 10, 24, 60, 250])), int(chance.integers(1, 4))
        state = np.cumsum(chance.random(count) < chance.choice([0, 0.03, 0.5])) % 3
        factors = np.array([1, chance.choice([1.08, 2.0]), 4.0])[state]
        noise = np.exp(
            chance.choice([0.003, 0.02], (benchmarks, 1)) * chance.normal(size=(benchmarks, count))
        )
        rows = np.array([27.0, 51.0, 105.0])[:benchmarks, None] * factors * noise
        rows *= np.where(chance.random(rows.shape) < chance.choice([0, 0.4]), 1.1, 1)
        rows[chance.random(rows.shape) < chance.choice([0, 0.03, 0.5])] = np.nan
        rows[:, 0] = [27.0, 51.0, 105.0][:benchmarks]
        known = [np.flatnonzero(~np.isnan(row)) for row in rows]
        of_bursts, main = states(
            np.concatenate([row[at] for row, at in zip(rows, known, strict=True)]),
            np.concatenate(known),
            np.array([*map(len, known)]),
            np.zeros(benchmarks, dtype=np.int64),
        )
        ends = np.cumsum([*map(len, known)])[:-1]
        for place, labels in enumerate(np.split(of_bursts, ends)):
            series, found, work = split(rule, rows[place], *np.delete(rows, place, axis=0))
            at = known[place]
            assert [found.of[i] for i in at] == labels.tolist()
            values = rows[place, at][None, :]
            expected = burst_levels(
                values, at[None, :].astype(float), labels[None, :], main[place : place + 1]
            )
            level = rule.level_of_most(series, ctypes.byref(found), work)
            assert level.main.median == pytest.approx(expected.median[0], rel=1e-3)
            assert half_of(level.main.interval) == pytest.approx(
                np.nan_to_num(expected.half[0] / expected.mean[0], nan=math.inf), rel=1e-6
            )
            if parts := expected.parts.get(0):
                every = listed(rule, series, found, work)
                assert every == [pytest.approx(part, rel=1e-3) for part in described(parts)]
                several += 1
    assert several > 100


def test_a_stray_counts_in_the_median_not_in_the_interval(rule):
    calm = [50.0, 51.0, 49.5, 50.5, 50.2, 49.9, 50.1, 50.8, 49.2, 50.3, 50.4, 49.8]
    level, half = level_of(rule, [*calm[:6], 107.0, *calm[6:]])
    assert (level.levels, level.main.interval.count, level.main.median) == (1, 12, 50.2)
    assert half == level_of(rule, calm)[1]
    assert level_of(rule, [*calm[:8], 107.0])[0].main.interval.count == 8, "a level if it is one of nine"


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
        yield dice.gauss(50, 0.8) if dice.random() < 0.7 else dice.gauss(75, 0.8)


def drifting(dice):
    """A slow wave under the noise, as heat or a neighbour make it; whole in the long run."""
    phase = dice.uniform(0, 2 * math.pi)
    step = 0
    while True:
        yield 50 + 0.5 * math.sin(phase + 2 * math.pi * step / 20) + dice.gauss(0, 1)
        step += 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "truths"),
    [
        (autocorrelated(0.0), [50.0]),
        (autocorrelated(0.3), [50.0]),
        (autocorrelated(0.6), [50.0]),
        (bimodal, [50.0, 75.0]),
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
        mean = level.main.interval.mean
        held += min(abs(mean - truth) for truth in truths) <= half * mean
    assert held >= 0.9 * 300

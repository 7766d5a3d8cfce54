"""When a run is precise enough: the rule itself, on numbers we made."""

import ctypes
import math
import random
import statistics
import subprocess

import numpy as np
import pytest

from fleet.analysis.reduce import estimate_half_widths, find_main_bursts
from tests import needs
from tests.intervals import half_width
from tests.native.build import AGENT

NONE = -1.0  # a burst that gave no number


class Level(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("count", "others")),
        *((name, ctypes.c_double) for name in ("median", "other")),
        ("half_ppm", ctypes.c_uint32),
    )


@pytest.fixture(scope="module")
def rule(tmp_path_factory):
    """level.c and interval.c as a library."""
    library = tmp_path_factory.mktemp("precision") / "precision.so"
    files = [AGENT / "base" / name for name in ("level.c", "interval.c")]
    command = [
        needs.program("gcc", "gcc"),
        "-O1",
        "-shared",
        "-fPIC",
        f"-I{AGENT}",
        "-o",
        library,
        *files,
    ]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.find_main_level.restype = Level
    loaded.level_is_within.restype = ctypes.c_bool
    loaded.student_t95.argtypes = (ctypes.c_uint32,)
    loaded.student_t95.restype = ctypes.c_double
    return loaded


def find_level(rule, *rows):
    """Find the level of the first row, as the agent does. rows: visits to a pair; NONE:
    a burst failed.
    """
    rounds = len(rows[0])
    width = ctypes.c_size_t(len(rows))
    ns = (ctypes.c_float * (rounds * len(rows)))(
        *(value for column in zip(*rows, strict=True) for value in column)
    )
    visits = (ctypes.c_size_t * len(rows))(*range(len(rows)))
    work = (ctypes.c_double * (3 * rounds))()
    return rule.find_main_level(ns, width, rounds, visits, width, work)


# From Student's tables, two-sided 95 %.
@pytest.mark.parametrize(
    ("freedom", "t"),
    [
        (1, 12.706),
        (4, 2.776),
        (9, 2.262),
        (10, 2.228),
        (15, 2.131),
        (29, 2.045),
        (120, 1.980),
    ],
)
def test_students_t_is_what_the_tables_say(rule, freedom, t):
    assert rule.student_t95(freedom) == pytest.approx(t, abs=0.0006)


@pytest.mark.parametrize(
    "values",
    [
        [50.0, 51.0, 49.5, 50.5, 50.25, 49.75, 50.125, 50.75, 49.25, 50.375],
        [
            50.0,
            50.125,
            50.25,
            50.625,
            50.875,
            51.0,
            50.75,
            50.5,
            50.125,
            49.875,
            49.625,
        ],
        [50.0, 51.0] * 8,
    ],
    ids=["calm", "wandering", "alternating"],
)
def test_the_interval_that_ends_a_run_is_that_of_the_controller(rule, values):
    level = find_level(rule, values)
    assert level.half_ppm == math.ceil(half_width(values) * 1e6)
    assert level.count == len(values)
    assert level.others == 0
    assert level.median == statistics.median(values)
    assert find_level(rule, [50.0]).half_ppm == 2**32 - 1


def draw_benchmarks(chance):
    """Draw one to three benchmarks of up to three states with shares at random, of
    which some bursts failed. Axes: benchmark, visit.
    """
    rounds = int(chance.choice([1, 2, 5, 10, 24, 60, 250]))
    benchmarks = int(chance.integers(1, 4))
    factors = chance.choice([1.0, 1.3, 4.0], rounds, p=chance.dirichlet([0.5] * 3))
    levels = np.array([27.0, 51.0, 105.0])[:benchmarks, None] * factors
    rows = levels * np.exp(0.02 * chance.normal(size=levels.shape))
    rows = rows.astype(np.float32).astype(float)  # as the agent keeps them
    rows[chance.random(rows.shape) < chance.choice([0.0, 0.2])] = NONE
    has_burst = (rows != NONE).any(axis=1)
    return rows[has_burst]


def test_agent_and_analysis_find_the_same_main_level_of_the_same_bursts(rule):
    chance = np.random.default_rng(1)
    several = 0
    for _ in range(300):
        rows = draw_benchmarks(chance)
        if not len(rows):
            continue
        row, visits = np.nonzero(rows != NONE)
        medians = rows[row, visits]
        counts = np.bincount(row)
        one_unit = np.zeros(len(rows), dtype=np.int64)
        main = find_main_bursts(medians, counts, visits, one_unit)
        level = find_level(rule, *rows)
        own = medians[main & (row == 0)]
        others = medians[~main & (row == 0)]
        assert level.count == len(own)
        assert level.others == len(others)
        assert level.median == pytest.approx(np.median(own), rel=1e-9)
        if level.count > 1:
            expected = float(estimate_half_widths(own[None, :])[0] / own.mean())
            assert level.half_ppm == pytest.approx(expected * 1e6, abs=1.5, rel=1e-4)
        if level.others:
            assert level.other == pytest.approx(np.median(others), rel=1e-9)
        several += level.others > 0
    assert several > 100


@pytest.mark.parametrize(("others", "is_within"), [(0, True), (5, True), (6, False)])
def test_a_level_with_less_than_half_of_the_bursts_reaches_no_precision(
    rule, others, is_within
):
    elsewhere = [20.0, 80.0, 21.0, 70.0, 22.0, 60.0]
    level = find_level(rule, [*elsewhere[:others], *[10.0, 10.01, 10.0, 10.01, 10.0]])
    assert level.count == 5
    assert level.others == others
    assert level.half_ppm < 10_000
    assert rule.level_is_within(ctypes.byref(level), 10_000) is is_within
    assert not rule.level_is_within(ctypes.byref(level), level.half_ppm - 1)


def test_bursts_of_no_duration_are_a_level_too(rule):
    level = find_level(rule, [0.0] * 10)
    assert level.count == 10
    assert level.median == 0.0


def simulate_autocorrelated(autocorrelation):
    """Bursts of one moment resemble each other."""

    def values(dice):
        deviation = dice.gauss(0, 0.8)
        while True:
            yield 50 + deviation
            deviation = autocorrelation * deviation + dice.gauss(
                0, 0.8 * (1 - autocorrelation**2) ** 0.5
            )

    return values


def bimodal(dice):
    """Now and then a line lies badly."""
    while True:
        yield dice.gauss(50, 0.8) if dice.random() < 0.7 else dice.gauss(75, 0.8)


def drifting(dice):
    """A slow wave under the noise, as heat or a neighbour make it; whole in the long
    run.
    """
    phase = dice.uniform(0, 2 * math.pi)
    step = 0
    while True:
        yield 50 + 0.5 * math.sin(phase + 2 * math.pi * step / 20) + dice.gauss(0, 1)
        step += 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "truths"),
    [
        (simulate_autocorrelated(0.0), [50.0]),
        (simulate_autocorrelated(0.3), [50.0]),
        (simulate_autocorrelated(0.6), [50.0]),
        (bimodal, [50.0, 75.0]),
        (drifting, [50.0]),
    ],
    ids=[
        "independent",
        "autocorrelated .3",
        "autocorrelated .6",
        "two levels",
        "drifting",
    ],
)
def test_where_a_run_ends_the_interval_holds_the_truth_nearly_as_often_as_it_says(
    rule, source, truths
):
    """Ending as soon as it looks good costs a little: at least 90 of 100 are asked of
    the rule itself.

    truths: of each level; the main level of a run may be any of them.
    """
    held = 0
    for seed in range(300):
        values = source(random.Random(seed))
        taken = [next(values) for _ in range(10)]
        while find_level(rule, taken).half_ppm > 10_000 and len(taken) < 160:
            taken += [next(values) for _ in taken]
        level = find_level(rule, taken)
        half = level.half_ppm / 1e6 * level.median
        away = min(abs(level.median - truth) for truth in truths)
        held += away <= half
    assert held >= 0.9 * 300

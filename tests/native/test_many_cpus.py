"""A machine with more CPUs than this one, numbered with gaps and beyond 1,024:
bookkeeping, not times.
"""

import os
import re
from pathlib import Path

import pytest

from tests import needs
from tests.native.agent import bursts, run, run_simulated, start_agent
from tests.native.preload import preload

CPUS = (0, 2, 3, 5, 1029)
# two of them share a real CPU: slow turns
SHORT = (
    "--samples",
    "1",
    "--warmup",
    "0",
    "--iterations",
    "1",
)


def pretend_cpus(cpus):
    if not {0, 1} <= os.sched_getaffinity(0):
        needs.missing("needs CPUs 0 and 1")
    return preload("many.c") | {"MANY_CPUS": ",".join(map(str, cpus))}


@pytest.fixture(scope="module")
def machine():
    return pretend_cpus(CPUS)


def records(machine, *args):
    return run_simulated(*args, *SHORT, env=machine)


HALF = [(a, b) for a in CPUS for b in CPUS if a < b]


# each pair from its other end
TURNED = [(b, a) for a, b in HALF]


def pairs_of_round(lines, number):
    """Return ping and pong of the bursts of a round, in order."""
    visits = [burst for burst in bursts(lines) if burst["round"] == number]
    return [(burst["ping"], burst["pong"]) for burst in visits]


def test_every_pair_is_visited_by_the_systems_numbers_in_an_order_that_changes(machine):
    lines = records(machine, "-b", "cas", "--rounds", "3", "--seed", "5")
    assert lines[0]["cpus"] == list(CPUS)
    assert lines[0]["pairs"] == 10
    assert lines[0]["bursts"] == 30
    first, second, third = (pairs_of_round(lines, number) for number in range(3))
    assert sorted(first) == HALF
    assert sorted(second) == sorted(TURNED)
    assert sorted(third) == HALF
    assert first != third
    assert first != HALF


def test_rounds_are_outermost_and_mix_the_benchmarks(machine):
    visits = bursts(records(machine, "-b", "cas,clock", "--rounds", "2", "--seed", "5"))
    rounds = [burst["round"] for burst in visits]
    assert rounds == sorted(rounds)
    first = [burst["benchmark"] for burst in visits if burst["round"] == 0]
    assert first.count("cas") == 10
    assert first.count("clock") == 5
    assert first != sorted(first)


def test_a_cpu_list_with_ranges_chooses_and_a_gap_is_refused(machine):
    lines = records(machine, "-b", "cas", "-c", "0,2-3,1029", "--rounds", "1")
    assert lines[0]["cpus"] == [0, 2, 3, 1029]
    refused = run("-c", "0-3", env=machine)
    assert refused.returncode == 4
    words = "CPU 1 cannot be used: this process may use 0,2-3,5,1029"
    assert refused.stderr == f"fleet-agent: {words}\n"


@pytest.mark.parametrize(
    ("pairs", "cells"),
    [
        pytest.param("half", (0, 1, 2, 3, 4), id="half"),
        pytest.param("ordered", (4, 4, 4, 4, 4), id="ordered"),
    ],
)
def test_the_matrix_has_a_cell_for_every_pair_that_was_measured(machine, pairs, cells):
    plan = ("-b", "cas", "--pairs", pairs, "--rounds", "1", *SHORT)
    text = run(*plan, env=machine).stdout
    cells_of_cpu = {}
    for line in text.splitlines():
        is_head = line.split()[1:2] == ["2"]
        if re.match(r" +\d+( |$)", line) and not is_head:
            cpu = int(line.split()[0])
            cells_of_cpu[cpu] = len(re.findall(r"\d+\.\d", line))
    assert cells_of_cpu == dict(zip(CPUS, cells, strict=True))
    assert re.search(r"^ +\d+ +\d+ +\d+ +\d+ +1029$", text, re.MULTILINE)


def test_only_the_pairs_listed_are_visited(machine):
    plan = ("-b", "cas,clock", "--pairs", "1029-2,0:3", "--rounds", "2")
    hello, *rest = records(machine, *plan)
    assert hello["plan"]["pairs"] == "listed"
    assert hello["pairs"] == 2
    assert hello["cpus"] == [0, 2, 3, 1029]
    cas = [burst for burst in bursts(rest) if burst["benchmark"] == "cas"]
    assert sorted(pairs_of_round(cas, 0)) == [(0, 3), (2, 1029)]
    assert sorted(pairs_of_round(cas, 1)) == [(3, 0), (1029, 2)]


@pytest.mark.parametrize(
    ("pairs", "code", "words"),
    [
        ("0-1", 4, "CPU 1 cannot be used: this process may use 0,2-3,5,1029"),
        ("0-2,2-0", 2, "0-2 twice"),
        ("2-2", 2, "CPU 2 with itself"),
        ("0-2,", 2, "cannot have ''"),
        ("0-2-3", 2, "cannot have '0-2-3'"),
        ("0-99999999999999999999", 2, "cannot have '0-99999999999999999999'"),
    ],
)
def test_a_list_of_pairs_that_makes_no_sense_is_refused(machine, pairs, code, words):
    done = run("--pairs", pairs, *SHORT, env=machine)
    assert done.returncode == code
    assert done.stdout == ""
    assert words in done.stderr


def test_an_order_that_is_asked_to_be_sequential_is(machine):
    lines = records(machine, "-b", "cas", "--order", "sequential", "--rounds", "2")
    assert pairs_of_round(lines, 0) == HALF
    assert pairs_of_round(lines, 1) == TURNED


def test_benchmarks_of_pairs_visit_a_pair_one_right_after_the_other(machine):
    plan = ("-b", "cas,clock,readwrite", "--rounds", "6", "--seed", "1")
    in_order = bursts(records(machine, *plan))
    for round_ in range(6):
        visits = [burst for burst in in_order if burst["round"] == round_]
        kinds = [burst["benchmark"] for burst in visits]
        assert kinds.count("clock") == len(CPUS)
        places = [place for place, kind in enumerate(kinds) if kind != "clock"]
        assert [place + 1 for place in places[::2]] == places[1::2]
        pairs = [
            frozenset((visits[place]["ping"], visits[place]["pong"]))
            for place in places
        ]
        assert pairs[::2] == pairs[1::2]
        assert len(set(pairs)) == len(pairs) // 2 == len(HALF)
    of_pairs = [burst for burst in in_order if burst["benchmark"] != "clock"]
    first_of_pair = [burst["benchmark"] for burst in of_pairs[::2]]
    assert first_of_pair.count("cas") > 5
    assert first_of_pair.count("readwrite") > 5


@pytest.mark.slow
def test_a_thousand_cpus_and_a_million_pairs_fit_into_little_memory():
    cpus = range(0, 2048, 2)
    with start_agent("-b", "cas,readwrite", *SHORT, env=pretend_cpus(cpus)) as process:
        process.stdout.readline()
        status = Path(f"/proc/{process.pid}/status").read_text()
    peak_kib = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
    assert peak_kib < 100 * 1024

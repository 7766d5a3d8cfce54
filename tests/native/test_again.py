"""Bursts that other work disturbed are taken again: after their round, and at the end."""

import itertools
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import needs
from tests.native.agent import Record, bursts, failed_attempts, notes, run_simulated

PLAN = ("-b", "clock", "-c", "0,1", "--samples", "9", "--iterations", "100")


class Attempt(NamedTuple):
    """An attempt to take a burst, and whether it gave a number."""

    round: int
    cpu: int
    number: int
    is_taken: bool


def attempts(records: list[Record]) -> list[Attempt]:
    """Return each attempt, in order."""
    return [
        Attempt(
            record["round"],
            record["ping"],
            record.get("attempt", 0),
            "warmup" in record,
        )
        for record in records
        if record["record"] in ("burst", "failed")
    ]


def test_a_disturbed_burst_is_taken_again_after_the_others_of_its_round() -> None:
    needs.cpus(2)
    # the forecast of the run takes a burst, the first round the next two
    _, *rest = run_simulated(*PLAN, "--rounds", "2", disturbed=1, disturbed_of=3)
    rounds = [attempt.round for attempt in attempts(rest)]
    assert rounds == sorted(rounds)
    all_failed = failed_attempts(rest)
    assert all_failed[0]["disturbed"]
    assert len(all_failed[0]["ticks"]) == 10
    visits = {
        (attempt.round, attempt.cpu) for attempt in attempts(rest) if attempt.is_taken
    }
    assert visits == set(itertools.product(range(2), range(2)))
    end = rest[-1]
    assert end["failed"] > 0
    assert end["again"] == end["failed"] == len(all_failed)
    assert any(f"were taken again: {end['again']}." in note for note in notes(rest))


def test_a_run_that_is_always_disturbed_ends_with_its_time_budget() -> None:
    needs.cpus(2)
    always = {"disturbed": 1, "disturbed_of": 1, "burst_ms": 100.0, "unit_us": 0.1}
    _, *rest = run_simulated(*PLAN, "--rounds", "2", **always)
    taken = [(attempt.round, attempt.number) for attempt in attempts(rest)]
    first_round = [(0, 0), (0, 0), (0, 1), (0, 1)]
    second_round = [(1, 0), (1, 0), (1, 1), (1, 1)]
    third_attempts = [(0, 2), (0, 2), (1, 2), (1, 2)]
    fourth_attempts = [(0, 3), (0, 3), (1, 3), (1, 3)]
    expected = first_round + second_round + third_attempts + fourth_attempts
    assert taken[: len(expected)] == expected
    assert 105 <= len(taken) <= 110  # 10 s are the least budget, and a tenth more
    assert not bursts(rest)
    assert rest[-1]["failed"] == len(taken)
    assert rest[-1]["again"] == len(taken) - 4
    assert rest[-1]["reason"] == "done"
    assert any("; still without a number: 4." in note for note in notes(rest))


def test_where_most_bursts_are_disturbed_none_is_missing_in_the_end() -> None:
    needs.cpus(2)
    _, *rest = run_simulated(*PLAN, "--rounds", "8", disturbed=2, disturbed_of=3)
    assert len(bursts(rest)) == 16
    assert max(attempt.number for attempt in attempts(rest)) > 2


def test_bursts_are_taken_again_for_a_tenth_of_the_budget_beyond_it() -> None:
    needs.cpus(2)
    budget = ("--time-budget", "10", "--precision", "1%", "--rounds", "1")
    slow = {"burst_ms": 100.0, "unit_us": 0.1, "scatter": 0.5}
    _, *rest = run_simulated(*PLAN, *budget, disturbed=9, disturbed_of=10, **slow)
    taken = [record for record in rest if record["record"] in ("burst", "failed")]
    again = sum("attempt" in record for record in taken)
    assert 105 <= len(taken) <= 110
    assert again == rest[-1]["again"]
    assert rest[-1]["reason"] == "done"


@pytest.fixture
def variant() -> str:
    """The variant of `clock` that this machine measures."""
    hello, *_ = run_simulated(*PLAN, "--rounds", "1")
    (kind,) = hello["plan"]["benchmarks"]
    return kind["variant"]


def write_done(tmp_path: Path, *lines: str) -> str:
    """Write what was done before, for `--done`."""
    file = tmp_path / "done"
    file.write_text("\n".join([*lines, "end", ""]))
    return str(file)


@pytest.mark.parametrize("number", [1, 2])
def test_a_resumed_run_takes_again_what_was_disturbed(
    tmp_path: Path, variant: str, number: int
) -> None:
    needs.cpus(2)
    done = write_done(
        tmp_path,
        f"clock {variant} 0 0 100 5000 ~{number}",
        f"clock {variant} 1 1 100 5000 5000",
    )
    hello, *rest = run_simulated(*PLAN, "--rounds", "3", "--done", done)
    assert hello["done"] == 4
    assert hello["bursts"] == 2
    assert Counter(attempts(rest)) == Counter(
        [(1, 0, number, True), (2, 0, 0, True), (2, 1, 0, True)]
    )
    assert rest[-1]["bursts"] == 3
    assert rest[-1]["failed"] == 0
    assert rest[-1]["again"] == 1


def test_what_killed_an_agent_is_not_taken_again(tmp_path: Path, variant: str) -> None:
    done = write_done(
        tmp_path, f"clock {variant} 0 0 0 ~1", f"clock {variant} 1 1 0 -variant"
    )
    _, *rest = run_simulated(*PLAN, "--rounds", "1", "--done", done)
    assert not attempts(rest)
    assert rest[-1]["reason"] == "done"

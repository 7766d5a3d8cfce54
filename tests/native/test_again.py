"""Bursts that other work disturbed are taken again: after their round, and at the end."""

from collections import Counter
from pathlib import Path

import pytest

from tests import needs
from tests.native.agent import Record, bursts, failed_attempts, notes, run_simulated

PLAN = ("-b", "clock", "-c", "0,1", "--samples", "9", "--iterations", "100")


def attempts(records: list[Record]) -> list[tuple[int, int, int, bool]]:
    """Return round, CPU and number of each attempt, and whether it gave a number."""
    return [
        (record["round"], record["ping"], record.get("attempt", 0), "warmup" in record)
        for record in records
        if record["record"] in ("burst", "failed")
    ]


def test_a_disturbed_burst_is_taken_again_after_the_others_of_its_round() -> None:
    needs.cpus(2)
    # the forecast of the run takes a burst, the first round the next two
    _, *rest = run_simulated(*PLAN, "--rounds", "2", disturbed=1, disturbed_of=3)
    rounds = [number for number, *_ in attempts(rest)]
    assert rounds == sorted(rounds)
    (failed,) = failed_attempts(rest)[:1]
    assert failed["disturbed"]
    assert len(failed["ticks"]) == 10
    visits = {(number, cpu) for number, cpu, _, taken in attempts(rest) if taken}
    assert visits == {(number, cpu) for number in range(2) for cpu in range(2)}
    end = rest[-1]
    assert end["again"] == len(failed_attempts(rest)) == end["failed"] > 0
    assert any(f"were taken again: {end['again']}." in note for note in notes(rest))


def test_a_run_that_is_always_disturbed_ends_with_its_time_budget() -> None:
    needs.cpus(2)
    always = {"disturbed": 1, "disturbed_of": 1, "burst_ms": 100.0, "unit_us": 0.1}
    _, *rest = run_simulated(*PLAN, "--rounds", "2", **always)
    expected = [
        *((number, attempt) for number in range(2) for attempt in (0, 0, 1, 1)),
        *((number, 2) for number in (0, 0, 1, 1)),
        *((number, 3) for number in (0, 0, 1, 1)),
    ]
    taken = [(number, attempt) for number, _, attempt, _ in attempts(rest)]
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
    assert max(number for _, _, number, _ in attempts(rest)) > 2


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


@pytest.mark.parametrize("number", [1, 2])
def test_a_resumed_run_takes_again_what_was_disturbed(
    tmp_path: Path, number: int
) -> None:
    needs.cpus(2)
    hello, *_ = run_simulated(*PLAN, "--rounds", "1")
    (variant,) = {choice["variant"] for choice in hello["plan"]["benchmarks"]}
    file = tmp_path / "done"
    file.write_text(
        f"clock {variant} 0 0 100 5000 ~{number}\nclock {variant} 1 1 100 5000 5000\n"
        "end\n"
    )
    plan = (*PLAN, "--rounds", "3", "--done", str(file))
    hello, *rest = run_simulated(*plan)
    assert hello["done"] == 4
    assert hello["bursts"] == 2
    expected = Counter([(1, 0, number, True), (2, 0, 0, True), (2, 1, 0, True)])
    assert Counter(attempts(rest)) == expected
    assert rest[-1]["bursts"] == 3
    assert rest[-1]["failed"] == 0
    assert rest[-1]["again"] == 1


def test_what_killed_an_agent_is_not_taken_again(tmp_path: Path) -> None:
    hello, *_ = run_simulated(*PLAN, "--rounds", "1")
    (variant,) = {choice["variant"] for choice in hello["plan"]["benchmarks"]}
    file = tmp_path / "done"
    file.write_text(f"clock {variant} 0 0 0 ~1\nclock {variant} 1 1 0 -variant\nend\n")
    _, *rest = run_simulated(*PLAN, "--rounds", "1", "--done", str(file))
    assert not attempts(rest)
    assert rest[-1]["reason"] == "done"

"""`contend`: operations that several CPUs want; points, counts, and sums that must
agree.
"""

import re

import pytest

from tests.native import contend_loops, disassembly
from tests.native.agent import (
    Record,
    bursts,
    failures,
    measure,
    points,
    two_cpus,
    wrong,
)
from tests.native.build import build
from tests.native.targets import AARCH64, CROSS, X86_64, Target, make_troubled

SHORT = ("-b", "contend", "--rounds", "2", "--samples", "2", "--seed", "7")
EVERYWHERE = ("faa", "swap", "cas", "store")
POINTS = {
    *(
        f"{operation}.{place}"
        for operation in EVERYWHERE
        for place in ("one", "words", "own")
    ),
    *("modify.words", "modify.own"),
    *("turn.one", "ticket.one", "mcs.one"),
}
WRONG_SUM = {"the threads counted other operations than the words hold"}


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return measure(*SHORT, *two_cpus())


def test_each_operation_is_done_at_each_place_where_its_sum_can_be_checked(
    records: list[Record],
) -> None:
    assert sorted(points(records)) == sorted(f"{name}.x2" for name in POINTS)


def test_every_burst_counts_what_the_others_did_in_each_sample_of_ping(
    records: list[Record],
) -> None:
    assert [failure["reason"] for failure in wrong(records)] == []
    assert len(bursts(records)) + len(failures(records)) == records[0]["bursts"]
    alone = 0
    for burst in bursts(records):
        operation, place, _ = burst["point"].split(".")
        parameters = burst["parameters"]
        assert parameters["operation"] == operation
        assert parameters["sharing"] == place
        assert parameters["threads"] == 2
        assert burst["cpus"] == [burst["ping"], burst["pong"]]
        assert "other_ticks" not in burst
        (others,) = burst["other_units"]
        assert len(others) == len(burst["ticks"]) == 3
        assert (
            burst["iterations"] % {"turn": 1, "ticket": 8, "mcs": 8}.get(operation, 32)
            == 0
        )
        samples = others[1:]  # without the one to warm up
        alone += samples.count(0) >= len(samples) / 2
        if operation == "turn":  # each does one after the other, and says so every 8
            assert all(abs(done - burst["iterations"]) <= 8 for done in others)
    # other work that takes a CPU for half of the samples makes a burst disturbed; a
    # hypervisor that does shows nowhere else
    assert alone <= len(bursts(records)) / 4


@pytest.mark.long
def test_every_variant_counts_what_its_loops_did() -> None:
    records = measure(*SHORT, "-v", "all", "--rounds", "1", *two_cpus())
    names = {
        choice["variant"]: {*choice["points"]}
        for choice in records[0]["plan"]["benchmarks"]
    }
    assert names["c11"] == {f"{name}.x2" for name in POINTS}
    assert not wrong(records)


@pytest.mark.slow
def test_a_thread_that_counts_one_too_many_yields_a_reason_and_no_number() -> None:
    binary = build(X86_64, "-O2 -DCONTEND_MISCOUNTS")
    records = measure(*SHORT, "-v", "all", *two_cpus(), binary=binary)
    stored = {burst["point"] for burst in bursts(records)}
    assert stored <= {"store.one.x2"}  # it holds what the other stored last
    assert {
        visit["reason"] for visit in wrong(records) if visit["point"] != "store.one.x2"
    } == WRONG_SUM


def test_a_loop_that_leaves_an_addition_out_yields_a_reason_and_no_number() -> None:
    records = measure(
        *SHORT, "-v", "short", *two_cpus(), binary=build(make_troubled("short"))
    )
    assert not bursts(records)
    assert {visit["reason"] for visit in wrong(records)} == WRONG_SUM


def check_locks(target: Target) -> None:
    binary = build(target, "-O2 -static")
    for symbol, instructions in contend_loops.LOCKS[target.name].items():
        code = [text for _, text in disassembly.instructions(target, binary, symbol)]
        used = {word for text in code for word in instructions if re.match(word, text)}
        assert used == {*instructions}, f"{symbol}: {code}"
        assert not [
            text
            for text in code
            if re.match(r"(call|bl|blx|bctrl|brasl|jal|jalr)\b", text)
        ], symbol


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", [X86_64, AARCH64, *CROSS], ids=lambda target: target.name
)
def test_locks_are_taken_by_the_instructions_of_every_architecture(
    target: Target,
) -> None:
    check_locks(target)

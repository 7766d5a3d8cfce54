"""`fetch`: lines by where they are and how they came there; points, records, and that
states are real.
"""

import os

import pytest

from tests import needs
from tests.native.agent import (
    Record,
    bursts,
    decode,
    failures,
    measure,
    notes,
    run,
    run_simulated,
    wrong,
)
from tests.native.build import build
from tests.native.preload import preload
from tests.native.targets import make_troubled

SHORT = ("-b", "fetch", "--rounds", "2", "--samples", "3", "--seed", "7")
PAGES = 32
FLUSHED = ("clean", "both", "third", "memory")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    needs.cpus(2)
    return measure(*SHORT)


def points(records: list[Record]) -> list[str]:
    return [
        name
        for choice in records[0]["plan"]["benchmarks"]
        for name in choice.get("points", ())
    ]


def test_by_default_six_states_are_read_both_ways_and_one_is_taken(
    records: list[Record],
) -> None:
    walked = "" if "flush" in records[0]["features"] else "-walked"
    states = [
        state + (walked if state in FLUSHED else "")
        for state in ("own", "written", "clean", "both", "evicted", "memory")
    ]
    reads = {
        f"{state}.{order}.128K" for state in states for order in ("chase", "stream")
    }
    assert set(points(records)) == reads | {f"both{walked}.swap.128K"}
    assert len(points(records)) == 13


def test_a_sample_is_whole_passes_over_the_lines(records: list[Record]) -> None:
    """Each preparation serves 32 passes, where reading leaves the lines as they are."""
    assert not wrong(records)
    for burst in bursts(records):
        state, _, _ = burst["point"].split(".")
        lasts = state == "own" or (
            state.startswith("both") and ".swap." not in burst["point"]
        )
        assert burst["unit"] == "line"
        assert burst["iterations"] % (480 * (32 if lasts else 1)) == 0
        assert len(burst["ticks"]) == 4
        assert min(burst["ticks"]) > 0
        assert "other_ticks" not in burst


def test_the_parameters_are_those_of_the_name(records: list[Record]) -> None:
    for burst in bursts(records):
        parameters = burst["parameters"]
        state, access, _ = burst["point"].split(".")
        assert parameters["state"] == state
        assert parameters["bytes"] == 128 << 10
        assert parameters["stride_bytes"] == 256
        assert parameters["pages"] == "base"
        assert parameters["threads"] == 2
        assert access in (parameters["order"], parameters["operation"])


def test_reader_and_owner_change_sides_from_round_to_round(
    records: list[Record],
) -> None:
    assert {(b["round"], b["ping"] < b["pong"]) for b in bursts(records)} == {
        (0, True),
        (1, False),
    }


@pytest.mark.parametrize("stride", [64, 128, 1024, 2048])
def test_the_first_line_of_a_page_is_never_measured(stride: int) -> None:
    needs.cpus(2)
    records = measure(*SHORT, "--state", "written", "--stride", str(stride))
    assert not any(
        burst["iterations"] % (PAGES * (4096 // stride - 1))
        for burst in bursts(records)
    )
    assert all(burst["point"].endswith(f".s{stride}") for burst in bursts(records))
    assert not wrong(records)


@pytest.mark.long
def test_operations_and_states_can_be_chosen() -> None:
    needs.cpus(2)
    names = points(measure(*SHORT, "--state", "written,own", "--op", "read,write,swap"))
    assert names == [
        f"{state}.{access}.128K"
        for state in ("own", "written")
        for access in ("chase", "stream", "write", "swap")
    ]


def test_a_third_cpu_that_is_not_there_is_refused() -> None:
    needs.cpus(2)
    two = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    done = run("-b", "fetch", "-c", two, "--state", "third")
    assert done.returncode == 2
    assert "needs a third CPU, and there are only 2" in done.stderr


@pytest.mark.slow
def test_few_pairs_are_for_benchmarks_with_many_points_only() -> None:
    env = preload("many.c") | {"MANY_CPUS": "0,1,2,3,4,5"}
    plan = (
        "-b",
        "cas,fetch",
        "--state",
        "third",
        "--op",
        "read",
        "--few-pairs",
        "0-3,1-2",
        "--rounds",
        "1",
    )
    done = run(*plan, "-s", "1", "-w", "0", "-i", "100", "-f", "jsonl", env=env)
    records = decode(done.stdout)
    taken = bursts(records) + failures(records)
    assert len([b for b in taken if b["benchmark"] == "cas"]) == 15
    assert {(b["ping"], b["pong"]) for b in taken if b["benchmark"] == "fetch"} == {
        (0, 3),
        (1, 2),
    }
    for burst in (b for b in bursts(records) if b["benchmark"] == "fetch"):
        reader, third, owner = burst["cpus"]
        assert reader == burst["ping"]
        assert owner == burst["pong"]
        assert third not in (reader, owner)


@pytest.mark.parametrize("line_ns", [0.001, 1, 100])
def test_lines_are_prepared_until_a_sample_lasts_for_a_thousand_steps_of_the_clock(
    line_ns: float,
) -> None:
    needs.cpus(2)
    plan = (*SHORT, "--state", "written", "--op", "swap")
    records = run_simulated(*plan, unit_us=line_ns / 1000)
    wanted_ns = (
        1000 * records[0]["clock_quantum_ticks"] / records[0]["ticks_per_second"] * 1e9
    )
    for burst in bursts(records):
        passes = burst["iterations"] / 480
        assert (
            passes == 100
            or (passes - 2) * 480 * line_ns <= wanted_ns <= (passes + 1) * 480 * line_ns
        )


# ---- states are real
# --------------------------------------------------------------------------------------


def nearest(state: str, *, flags: str) -> float:
    """The fastest sample of a chase over lines in a state, in ticks a line."""
    records = measure(
        *(
            "-b",
            "fetch",
            "--state",
            state,
            "--op",
            "read",
            "--rounds",
            "10",
            "--samples",
            "5",
        ),
        binary=build(flags=flags),
    )
    return min(
        min(burst["ticks"]) / burst["iterations"]
        for burst in bursts(records)
        if ".chase." in burst["point"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("state", ["written", "clean", "evicted", "memory"])
def test_a_state_that_is_not_prepared_reads_as_the_readers_own(state: str) -> None:
    """With the steps left out a number must change, or it was not of the state it is
    named by.
    """
    needs.cpus(2)
    own = nearest("own", flags="-O2")
    prepared = nearest(state, flags="-O2")
    if prepared < 2 * own:
        needs.missing(
            f"{state} costs this machine {prepared / own:.1f} times its own lines"
        )
    unprepared = nearest(state, flags="-O2 -DFETCH_WITHOUT_STATES")
    assert unprepared < prepared / 1.5


@pytest.mark.long
def test_without_a_flush_the_points_say_so() -> None:
    """An architecture that cannot flush walks through other memory instead."""
    needs.cpus(2)
    records = measure(
        *(*SHORT, "--state", "clean,both", "-v", "c11"),
        binary=build(make_troubled("short")),
    )
    assert not wrong(records)
    assert {name.split(".")[0] for name in points(records)} == {
        "clean-walked",
        "both-walked",
    }
    assert not [text for text in notes(records) if "huge pages" in text]

"""Runs that took several agents: what their parts say together, and what cannot be one
run.
"""

from typing import Any

import pytest

from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.done import Done
from fleet.agent.wire.parts import decode_bursts, read_run
from fleet.agent.wire.records import WireError, decode_record
from fleet.model import Burst, Hello, Shape
from tests.agent.wire.test_conversation import BURST, END, HELLO, line

PLAN = {**HELLO, "bursts": 4, "seed": 7, "monotonic_ns": 1_000_000}
FAILED = {k: BURST[k] for k in ("benchmark", "variant", "round", "ping", "pong")} | {
    "record": "failed",
    "reason": "no progress for 5 s",
}


def hello(done: int = 0, **changes: Any) -> bytes:
    return line(PLAN, done=done, bursts=4 - done, **changes)


def burst(round_: int, **changes: Any) -> bytes:
    return line(BURST, round=round_, **changes)


FIRST = [b"Welcome", hello(), burst(0), line(FAILED, round=1)]
SECOND = [
    hello(done=2, monotonic_ns=9_000_000),
    burst(2),
    burst(3),
    line(END, bursts=2),
]


def test_the_parts_of_a_run_make_one_finished_run() -> None:
    run = read_run([FIRST, [b"no hello came"], SECOND])
    assert run.missing is None
    assert run.parts == 2
    assert run.done.visits == 4
    assert run.done.bursts == 3
    assert len(run.failed) == 1
    assert run.end is not None
    assert run.end.bursts == 3
    assert run.end.failed == 1
    assert isinstance(run.hello, Hello)
    assert run.hello.bursts == 4, "the first hello speaks for the whole run"


def test_a_run_is_not_finished_before_its_last_part_is() -> None:
    assert read_run([]).missing == "the agent sent no hello record"
    assert read_run([FIRST]).missing == "cut after 2 of 4 bursts"
    assert read_run([FIRST, SECOND[:2]]).missing == "cut after 1 of 2 bursts"
    assert read_run([FIRST, [b"no hello came"]]).missing is not None


TURNED = {"ping": 3, "pong": 0, "ping_cpus": [3, 3], "pong_cpus": [0, 0]}


def list_done(lines: list[bytes]) -> list[str]:
    """Return what is done after one part, as the agent reads it."""
    return list(read_run([lines]).done.lines())


def list_starts(parts: list[list[bytes]]) -> list[int]:
    return [visit.start_offset_ns for visit in decode_bursts(parts)]


def test_bursts_are_the_same_as_they_come_and_read_from_the_journal() -> None:
    slow = [*BURST["ticks"][:-1], 2 * max(BURST["ticks"])]
    pushed = burst(2, switches=[0, 0, 0, 2], ticks=slow)
    last_part = [SECOND[0], pushed, *SECOND[2:]]
    before = [FIRST, [b"no hello came"]]
    journal = [*before, last_part]

    bursts: list[Burst] = []
    run = read_run(before, bursts.append)
    reader = Reader(run.done, run.hello)
    for text in last_part:
        record = reader.read_line(text)
        if isinstance(record, Burst):
            bursts.append(record)
    assert bursts == list(decode_bursts(journal))
    assert [visit.flags for visit in bursts] == [(), ("preempted",), ()]
    read: list[Burst] = []
    read_run(journal, read.append)
    assert read == bursts


def test_what_is_done_is_written_as_the_agent_reads_it() -> None:
    first = burst(0, ticks=[9, 1, 2, 5, 4], iterations=2)
    done = list_done([hello(), first, line(FAILED, round=1)])
    assert done == ["cas cmpxchg 0 3 2 6 -\n", "end\n"]


def test_both_directions_are_one_pair_unless_the_plan_visits_both() -> None:
    half = [hello(), burst(0), burst(1, **TURNED)]
    assert len(list_done(half)) == 2
    plan = {**PLAN["plan"], "pairs": "ordered"}
    ordered = [hello(plan=plan), burst(0), burst(0, **TURNED)]
    assert len(list_done(ordered)) == 3


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ([hello(done=2, seed=8)], "another seed"),
        ([hello(done=2, build="f" * 16)], "another build"),
        ([hello(done=2, os="qnx")], "another os"),
        ([hello(done=2, arch="aarch64")], "another arch"),
        ([hello(done=2, pairs=1)], "another pairs"),
        ([hello(done=2, clock="monotonic_raw")], "another clock"),
        ([hello(done=2, cpus=[0, 1])], "another cpus"),
        ([hello(done=2, counters=[{"event": "cycles"}])], "another counters"),
        ([hello(done=2, plan={**PLAN["plan"], "samples": 3})], "another plan"),
        (
            [hello(done=2, ticks_per_second=2_510_000_000)],
            "2510000000 times a second now",
        ),
        ([hello(done=1)], "counts 1 visits as done, not 2"),
        ([hello()], "counts 0 visits as done, not 2"),
        ([hello(done=2), burst(1)], "came twice"),
        ([hello(done=2), burst(3)], "of round 3 came where round 2 was the next"),
    ],
)
def test_parts_that_are_not_of_one_run_are_refused(
    second: list[bytes], words: str
) -> None:
    run = read_run([FIRST, second])
    assert words in (run.damage or "")
    assert run.lines == (len(FIRST), len(second) - 1)
    assert run.bursts == read_run([FIRST]).bursts
    assert run.refused == 1


@pytest.mark.parametrize(
    "bad",
    [b'{"record":"burst"', b"{}", FIRST[1]],
    ids=["torn", "no record", "hello again"],
)
def test_every_visit_before_a_bad_line_is_kept_and_a_new_part_goes_on(
    bad: bytes,
) -> None:
    first = read_run([FIRST])
    run = read_run([[*FIRST, bad, *SECOND[1:]]])
    assert run.bursts == first.bursts
    assert run.done.visits == first.done.visits
    assert run.refused == len(SECOND)
    assert run.lines == (len(FIRST),)
    assert run.missing is not None
    again = read_run([FIRST, SECOND])
    continued = read_run([[*FIRST, bad], SECOND])
    assert continued.bursts == again.bursts
    assert continued.missing == again.missing


def test_blank_lines_and_words_among_the_records_are_noise() -> None:
    noisy = []
    for record in FIRST[1:]:
        noisy += [record, b"", b"You have new mail.", b"\0\0"]
    run = read_run([noisy])
    assert run.damage is None
    assert run.bursts == 1
    assert run.done.visits == 2
    assert len(list(decode_bursts([noisy]))) == run.bursts


def test_a_resumed_agent_that_repeats_a_visit_is_stopped_at_once() -> None:
    done = Done()
    for visit in FIRST[2:]:
        done.add(decode_record(visit), Shape.PAIR)  # type: ignore[arg-type]
    reader = Reader(done)
    reader.read_line(hello(done=2))
    with pytest.raises(WireError, match="came twice"):
        reader.read_line(burst(0))


def test_notes_and_failures_of_all_parts_come_in_their_order() -> None:
    first = [
        hello(),
        line({"record": "note", "text": "one"}),
        burst(0),
        line(FAILED, round=1),
    ]
    second = [
        hello(done=2),
        line({"record": "note", "text": "two"}),
        line(FAILED, round=2),
        burst(3),
        line(END, bursts=1, failed=1),
    ]
    together = read_run([first, second])
    assert together.notes == ("one", "two")
    assert [failure.round for failure in together.failed] == [1, 2]
    assert together.end is not None
    assert together.end.bursts == 2
    assert together.end.failed == 2
    assert together.missing is None


def test_a_part_that_was_cut_takes_the_end_of_the_part_before_away() -> None:
    early = [*FIRST, line(END, bursts=1, failed=1, reason="deadline")]
    assert read_run([early]).end is not None
    again = read_run([early, SECOND[:2]])
    assert again.end is None
    assert again.parts == 2
    assert again.missing == "cut after 1 of 2 bursts"


@pytest.mark.parametrize(
    ("ticks_per_second", "allowed"),
    [
        (2_502_499_000, True),
        (2_497_501_000, True),
        (2_502_501_000, False),
        (2_497_499_000, False),
    ],
)
def test_the_clock_may_differ_by_a_tenth_of_a_percent(
    ticks_per_second: int, allowed: bool
) -> None:
    second = [hello(done=2, ticks_per_second=ticks_per_second)]
    run = read_run([FIRST, second])
    if allowed:
        assert run.parts == 2
    else:
        words = f"ticks {ticks_per_second} times a second now, 2500000000 before"
        assert words in (run.damage or "")


def test_offsets_stay_as_they_are_where_a_host_does_not_tell_its_clock() -> None:
    start_ns = BURST["start_ns"]
    silent = [hello(monotonic_ns=None), *FIRST[2:]]
    second = [hello(done=2, monotonic_ns=9), *SECOND[1:]]
    assert list_starts([silent, second]) == [start_ns, start_ns, start_ns]
    third = [hello(done=3, monotonic_ns=4_000_000), burst(3)]
    starts = list_starts([FIRST, [b"no hello"], SECOND[:2], third])
    assert starts == [start_ns, start_ns + 8_000_000, start_ns + 3_000_000]


def test_what_is_done_lists_each_pair_once_and_one_that_never_gave_a_number_without_iterations() -> (
    None
):
    other = {"ping": 0, "pong": 1, "ping_cpus": [0, 0], "pong_cpus": [1, 1]}
    lines = [
        hello(),
        line(FAILED, round=0),
        burst(0, **other, ticks=[9, 4, 7], iterations=20),
        line(FAILED, round=1),
    ]
    assert list_done(lines) == [
        "cas cmpxchg 0 3 0 - -\n",
        "cas cmpxchg 0 1 20 11\n",
        "end\n",
    ]


def test_a_part_followed_as_it_came_completes_what_the_journal_held() -> None:
    run = read_run([FIRST])
    reader = Reader(run.done)
    for text in SECOND:
        reader.read_line(text)
    live = run.add_part(reader)
    read = read_run([FIRST, SECOND])
    for name in ("hello", "end", "failed", "bursts", "parts", "missing"):
        assert getattr(live, name) == getattr(read, name), name

"""Runs that took several agents: what their parts say together, and what cannot be one run."""

from typing import Any

import pytest

from fleet.agent.wire import parts
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.done import Done
from fleet.agent.wire.records import WireError
from fleet.model import Hello
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
SECOND = [hello(done=2, monotonic_ns=9_000_000), burst(2), burst(3), line(END, bursts=2)]


def test_the_parts_of_a_run_make_one_finished_run() -> None:
    said = parts.read([FIRST, [b"no hello came"], SECOND])
    assert said.lacking is None
    assert (said.parts, said.done.visits, said.done.bursts, len(said.failed)) == (2, 4, 3, 1)
    assert said.end is not None
    assert (said.end.bursts, said.end.failed) == (3, 1)
    assert isinstance(said.hello, Hello)
    assert said.hello.bursts == 4, "the first hello speaks for the whole run"


def test_a_run_is_not_finished_before_its_last_part_is() -> None:
    assert parts.read([]).lacking == "the agent never said hello"
    assert parts.read([FIRST]).lacking == "cut after 2 of 4 bursts"
    assert parts.read([FIRST, SECOND[:2]]).lacking == "cut after 1 of 2 bursts"
    assert parts.read([FIRST, [b"no hello came"]]).lacking is not None


def test_offsets_count_from_the_first_hello_by_the_hosts_clock() -> None:
    starts = [one.start_offset_ns for one in parts.bursts([FIRST, SECOND])]
    assert starts == [BURST["start_ns"], *[BURST["start_ns"] + 8_000_000] * 2]


def test_what_is_done_is_written_as_the_agent_reads_it() -> None:
    done = parts.read([[hello(), burst(0, ticks=[9, 1, 2, 5, 4]), line(FAILED, round=1)]]).done
    assert list(done.lines()) == ["cas cmpxchg 0 3 1000 6 -\n", "end\n"]


def test_both_directions_are_one_pair_unless_the_plan_visits_both() -> None:
    half = parts.read([[hello(), burst(0), burst(1, ping=3, pong=0, ping_cpus=[3, 3], pong_cpus=[0, 0])]])
    assert len(list(half.done.lines())) == 2
    plan = {**PLAN["plan"], "pairs": "ordered"}
    both = [hello(plan=plan), burst(0), burst(0, ping=3, pong=0, ping_cpus=[3, 3], pong_cpus=[0, 0])]
    assert len(list(parts.read([both]).done.lines())) == 3


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ([hello(done=2, seed=8)], "another seed"),
        ([hello(done=2, build="f" * 16)], "another build"),
        ([hello(done=2, clock="monotonic_raw")], "another clock"),
        ([hello(done=2, cpus=[0, 1])], "another cpus"),
        ([hello(done=2, plan={**PLAN["plan"], "samples": 3})], "another plan"),
        ([hello(done=2, ticks_per_second=2_510_000_000)], "2510000000 times a second now"),
        ([hello(done=1)], "takes 1 visits for done, not 2"),
        ([hello()], "takes 0 visits for done, not 2"),
        ([hello(done=2), burst(1)], "came twice"),
        ([hello(done=2), burst(3)], "of round 3 came where round 2 was the next"),
    ],
)
def test_parts_that_are_not_of_one_run_are_refused(second: list[bytes], words: str) -> None:
    with pytest.raises(WireError, match=words):
        parts.read([FIRST, second])


def test_a_clock_measured_anew_may_differ_a_little() -> None:
    assert parts.read([FIRST, [hello(done=2, ticks_per_second=2_500_000_300)]]).parts == 2


def test_a_resumed_agent_that_repeats_a_visit_is_stopped_at_once() -> None:
    done = Done()
    for visit in FIRST[2:]:
        done.add(parts.conversation.decode(visit))  # type: ignore[arg-type]
    reader = Reader(done)
    reader.feed(hello(done=2))
    with pytest.raises(WireError, match="came twice"):
        reader.feed(burst(0))

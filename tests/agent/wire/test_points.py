"""Benchmarks that are measured at points, on the wire: what a burst has, what identifies it, what is done."""

from typing import Any

import pytest

from fleet.agent.wire import parts, records
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.records import WireError
from fleet.model import Burst, Failed, Parameters
from tests.agent.wire.test_conversation import BURST, END, HELLO, line

NAMES = ["random.16K.huge", "rising.16K.huge"]
PLAN = {"benchmarks": [{"benchmark": "chase", "variant": "mov", "points": NAMES}]}
POINT = {
    "benchmark": "chase",
    "variant": "mov",
    "point": NAMES[0],
    "unit": "load",
    "pong": 0,
    "cpus": [0],
    "other_ticks": [],
    "core_mhz": [3700, 3600],
    "pong_cpus": [0, 0],
    "parameters": {"bytes": 16384, "stride_bytes": 256, "order": "random", "pages": "huge", "threads": 1},
}
GROUP = {"pong": 3, "pong_cpus": [3, 3], "cpus": [0, 3], "other_ticks": [[1, 2, 3]]}
ALONE = {
    "reason": "no progress for 5 s",
    "benchmark": "chase",
    "variant": "mov",
    "point": NAMES[1],
    "pong": 0,
}


def at_point(**changes: object) -> bytes:
    return line({**BURST, **POINT}, **changes)


def test_a_burst_arrives_with_its_point_and_its_parameters() -> None:
    burst = records.decode(at_point(**GROUP))
    assert isinstance(burst, Burst)
    assert burst.key == ("chase", "mov", NAMES[0], 0, 0, 3)
    assert (burst.unit, burst.cpus, burst.other_ticks) == ("load", (0, 3), ((1, 2, 3),))
    assert burst.core_mhz == (3700, 3600)
    assert burst.parameters == Parameters(
        bytes=16384, stride_bytes=256, order="random", pages="huge", threads=1
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"point": "two words"}, "point"),
        ({"point": "x" * 48}, "point"),
        ({"point": "line\n"}, "point"),
        ({"unit": None}, "needs a unit"),
        ({"cpus": [1]}, "cpus from 0 to 0"),
        ({**GROUP, "other_ticks": []}, None),
        ({**GROUP, "other_ticks": [[1, 2]]}, "lists of 3 samples"),
        ({**GROUP, "other_ticks": [[1, 2, 3], [1, 2, 3]]}, "2 lists of other_ticks"),
        ({**GROUP, "cpus": [0, 0, 3]}, "each once"),
        ({"parameters": {"bytes": 2**63}}, "bytes"),
        ({"core_mhz": [0, 1]}, "core_mhz"),
    ],
)
def test_a_point_that_does_not_fit_is_refused(changes: dict[str, Any], words: str | None) -> None:
    if words is None:
        assert records.decode(at_point(**changes))
        return
    with pytest.raises(WireError, match=words):
        records.decode(at_point(**changes))


def test_each_point_of_the_plan_is_a_visit_of_its_own() -> None:
    reader = Reader()
    failed = line({**BURST, **ALONE, "record": "failed"})
    for one in (line(HELLO, plan=PLAN), at_point(), failed, line(END, bursts=1, failed=1)):
        reader.feed(one)
    assert reader.verdict() is None
    assert reader.failed == [Failed("chase", "mov", 0, 0, 0, "no progress for 5 s", NAMES[1])]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "came twice"),
        ({"point": "random.4K.huge"}, "chase/mov/random.4K.huge' is not in the plan"),
        ({"point": None}, "chase/mov' is not in the plan"),
        ({**GROUP, "cpus": [0, 7, 3], "other_ticks": []}, "not in the plan's CPUs"),
    ],
)
def test_a_visit_outside_of_the_plan_or_a_second_one_is_refused(changes: dict[str, Any], words: str) -> None:
    reader = Reader()
    reader.feed(line(HELLO, plan=PLAN))
    reader.feed(at_point())
    with pytest.raises(WireError, match=words):
        reader.feed(at_point(**changes))


def test_what_is_done_is_listed_by_point() -> None:
    lines = [line(HELLO, plan=PLAN, bursts=3), at_point(), at_point(point=NAMES[1]), at_point(round=1)]
    done = parts.read([lines]).done
    assert list(done.lines()) == [
        "chase mov random.16K.huge 0 0 1000 500003 500003\n",
        "chase mov rising.16K.huge 0 0 1000 500003\n",
        "end\n",
    ]

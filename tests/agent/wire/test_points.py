"""Benchmarks that are measured at points, on the wire: what a burst has, what
identifies it, what is done.
"""

from typing import Any

import pytest

from fleet.agent.wire import records
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.parts import decode_bursts, read_run
from fleet.agent.wire.records import WireError
from fleet.model import Burst, Failed, Parameters
from tests.agent.wire.test_conversation import BURST, END, HELLO, line
from tests.builders import burst_key

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
    "sample_mhz": 3100,
    "pong_cpus": [0, 0],
    "parameters": {
        "bytes": 16384,
        "stride_bytes": 256,
        "order": "random",
        "pages": "huge",
        "threads": 1,
    },
}
GROUP = {"pong": 3, "pong_cpus": [3, 3], "cpus": [0, 3], "other_ticks": [[1, 2, 3]]}
ALONE = {"reason": "no progress for 5 s", "point": NAMES[1], "pong": 0}
ALONE |= {"benchmark": "chase", "variant": "mov"}


def point_line(**changes: object) -> bytes:
    return line({**BURST, **POINT}, **changes)


def test_a_burst_arrives_with_its_point_and_its_parameters() -> None:
    burst = records.decode_record(point_line(**GROUP))
    assert isinstance(burst, Burst)
    assert burst_key(burst) == ("chase", "mov", NAMES[0], 0, 0, 3)
    assert burst.unit == "load"
    assert burst.cpus == (0, 3)
    assert burst.other_ticks == ((1, 2, 3),)
    assert burst.core_mhz == (3700, 3600)
    assert burst.sample_mhz == 3100
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
        ({**GROUP, "other_ticks": None, "other_units": [[1, 2, 0]]}, None),
        ({**GROUP, "other_units": [[1, 2]]}, "other_units must be lists of 3 samples"),
        ({**GROUP, "other_units": [[1, 2, 3], [1, 2, 3]]}, "2 lists of other_units"),
        ({"parameters": {"bytes": 2**63}}, "bytes"),
        ({"core_mhz": [0, 1]}, "core_mhz"),
        ({"sample_mhz": 0}, "sample_mhz"),
        ({**GROUP, "begin_ns": [0, 310]}, None),
        ({**GROUP, "begin_ns": [0]}, "1 values of begin_ns for 2 threads"),
        ({"begin_ns": [0, 310]}, "2 values of begin_ns for 1 threads"),
        ({**GROUP, "begin_ns": [0, -1]}, "begin_ns"),
    ],
)
def test_a_point_that_does_not_fit_is_refused(
    changes: dict[str, Any], words: str | None
) -> None:
    if words is None:
        assert records.decode_record(point_line(**changes))
        return
    with pytest.raises(WireError, match=words):
        records.decode_record(point_line(**changes))


def test_how_far_apart_threads_began_arrives_and_sets_a_flag() -> None:
    ticks = BURST["ticks"]
    for begin_ns, flags in ((None, ()), ([0, 310], ()), ([0, max(ticks)], ("skewed",))):
        lines = [
            line(HELLO, plan=PLAN),
            point_line(**{**GROUP, "other_ticks": [ticks]}, begin_ns=begin_ns),
        ]
        (burst,) = decode_bursts([lines])
        assert burst.begin_ns == (begin_ns and tuple(begin_ns))
        assert burst.flags == flags


def test_each_point_of_the_plan_is_a_visit_of_its_own() -> None:
    reader = Reader()
    samples = {"iterations": None, "ticks": None}
    failed = line({**BURST, **ALONE, "record": "failed", **samples})
    for text in (
        line(HELLO, plan=PLAN),
        point_line(),
        failed,
        line(END, bursts=1, failed=1),
    ):
        reader.read_line(text)
    assert reader.explain_unfinished() is None
    assert reader.failed == [
        Failed("chase", "mov", 0, 0, 0, "no progress for 5 s", NAMES[1])
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "came twice"),
        ({"point": "random.4K.huge"}, "chase/mov/random.4K.huge' is not in the plan"),
        ({"point": None}, "without a point it has no unit"),
        ({**GROUP, "cpus": [0, 7, 3], "other_ticks": []}, "not in the plan's CPUs"),
    ],
)
def test_a_visit_outside_of_the_plan_or_a_second_one_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    reader = Reader()
    reader.read_line(line(HELLO, plan=PLAN))
    reader.read_line(point_line())
    with pytest.raises(WireError, match=words):
        reader.read_line(point_line(**changes))


def test_what_is_done_is_listed_by_point() -> None:
    rising = point_line(
        point=NAMES[1], parameters={**POINT["parameters"], "order": "rising"}
    )
    lines = [
        line(HELLO, plan=PLAN, bursts=3),
        point_line(),
        rising,
        point_line(round=1),
    ]
    done = read_run([lines]).done
    assert list(done.lines()) == [
        "chase mov random.16K.huge 0 0 1000 500003 500003\n",
        "chase mov rising.16K.huge 0 0 1000 500003\n",
        "end\n",
    ]


MESSAGE = ["x1", "x4"]
PAIRS = {
    "benchmarks": [{"benchmark": "message", "variant": "mov", "points": MESSAGE}],
    "pairs": "half",
}


def message(round_: int, point: str, **changes: object) -> bytes:
    """Return a burst of CPUs 0 and 3, which change sides each round; a sample means
    both directions.
    """
    ping, pong = (0, 3) if round_ % 2 == 0 else (3, 0)
    sides = {
        "ping": ping,
        "pong": pong,
        "ping_cpus": [ping] * 2,
        "pong_cpus": [pong] * 2,
    }
    names = {
        "benchmark": "message",
        "variant": "mov",
        "point": point,
        "unit": "message",
    }
    times = {
        "cpus": [ping, pong],
        "other_ticks": [[3, 2, 1]],
        "parameters": {"pages": "base", "threads": 2},
    }
    return line({**BURST, **names, **sides, **times}, round=round_, **changes)


def test_a_resumed_run_goes_on_at_the_point_of_a_pair_where_it_was_cut() -> None:
    def hello(done: int) -> bytes:
        return line(
            {**HELLO, "seed": 7, "monotonic_ns": 1},
            plan=PAIRS,
            done=done,
            bursts=4 - done,
        )

    first = [hello(0), message(0, "x1"), message(0, "x4"), message(1, "x4")]
    partial = read_run([first])
    assert partial.missing == "cut after 3 of 4 bursts"
    assert list(partial.done.lines()) == [
        "message mov x1 0 3 1000 250003\n",
        "message mov x4 0 3 1000 250003 250003\n",
        "end\n",
    ]
    last = [hello(3), message(1, "x1"), line(END, bursts=1)]
    parts = [first, last]
    assert read_run(parts).missing is None
    assert [
        (row.point, row.round, row.ping_cpu, row.pong_cpu)
        for row in decode_bursts(parts)
    ] == [*(("x1", 0, 0, 3), ("x4", 0, 0, 3), ("x4", 1, 3, 0), ("x1", 1, 3, 0))]
    again = read_run([first, [hello(3), message(1, "x4")]])
    assert "came twice" in (again.damage or "")

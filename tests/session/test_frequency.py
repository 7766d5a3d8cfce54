"""Which CPUs are named as slower, from what agents measured."""

import json

import pytest

from fleet.agent.wire.records import decode_record
from fleet.model import Hello
from fleet.session.measurement import describe_slower_cpus
from tests.agent.wire.test_conversation import HELLO, line


def hello(cpus: list[int], mhz: object) -> Hello:
    record = decode_record(line(HELLO, cpus=cpus, core_mhz=mhz))
    assert isinstance(record, Hello)
    return record


@pytest.mark.parametrize(
    ("mhz", "words"),
    # the second cluster of a Jetson Orin under QNX 8.0.0 ran at 12 % of the first one's
    # rate
    [
        (
            [1500, 1501, 1500, 1499, 180, 182],
            "CPU 4-5 at 0.18 GHz ran slower than the fastest CPU at 1.50",
        ),
        (
            [5000, 3600, 3500, 2500],
            "CPU 3 at 2.50 GHz and CPU 1-2 at 3.60 GHz ran slower",
        ),
    ],
)
def test_clusters_and_kinds_of_cores_with_a_slower_clock_are_named_apart(
    mhz: list[int], words: str
) -> None:
    assert f"Before the run {words}" in (
        describe_slower_cpus(hello([*range(len(mhz))], mhz)) or ""
    )


@pytest.mark.parametrize(
    "mhz",
    [
        [3700, 3690, 3500, 3100],
        [None, None, None, None],
        [3700, None, None, 3650],
        [],
        None,
        "fast",
    ],
)
def test_where_all_run_alike_or_nothing_is_known_nothing_is_said(mhz: object) -> None:
    assert describe_slower_cpus(hello([0, 1, 2, 3], mhz)) is None


def test_an_agent_of_before_says_nothing() -> None:
    record = decode_record(line(HELLO))
    assert isinstance(record, Hello)
    assert "core_mhz" not in json.loads(line(HELLO))
    assert describe_slower_cpus(record) is None

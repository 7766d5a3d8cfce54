"""Counters of the agent: software events, which every Linux counts, and what happens
where none may be.
"""

import pytest

from tests import needs
from tests.native.agent import bursts, measure, notes, run, wrong
from tests.seccomp import CALLS, refusing

SOFTWARE = "task-clock=1:1,page-faults=1:0x2"
KEYS = {"event", "type", "config", "kernel", "refused"}


def test_every_timed_thread_counts_while_it_is_timed() -> None:
    needs.cpus(2)
    plan = ("-b", "cas,clock,fetch", "--state", "written", "-r", "1", "-s", "3")
    records = measure(*plan, "--counters", SOFTWARE)
    assert [counter["event"] for counter in records[0]["counters"]] == [
        "task-clock",
        "page-faults",
    ]
    assert all(
        counter.keys() == KEYS and counter["refused"] is None
        for counter in records[0]["counters"]
    )
    assert not wrong(records)
    for burst in bursts(records):
        threads = 1 if burst["benchmark"] == "clock" else 2
        assert len(burst["counters"]) == threads
        (count, enabled, running), (_, *rest) = burst["counters"][0]
        assert count > 0
        assert enabled == running > 0
        assert all(rest)
        if (
            burst["benchmark"] == "fetch"
        ):  # the owner is not timed, and the reader only while it is
            assert burst["counters"][1] == [None, None]
        elif threads == 2:
            assert burst["counters"][1][0][0] > 0


def test_nothing_is_said_or_called_without_the_option() -> None:
    prefix = refusing("kill") if CALLS else ()
    records = measure("-b", "clock", "-r", "1", prefix=prefix)
    assert "counters" not in records[0]
    assert not any("counters" in burst for burst in bursts(records))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("EACCES", "kernel.perf_event_paranoid to 2"),
        ("EPERM", "seccomp"),
        ("ENOSYS", "no perf_event_open"),
    ],
)
def test_what_is_refused_is_one_note_and_the_same_run(error: str, words: str) -> None:
    records = measure(
        "-b", "clock", "-r", "2", "--counters", SOFTWARE, prefix=refusing(error)
    )
    refusals = [note for note in notes(records) if note.startswith("Not counted: ")]
    assert len(refusals) == 1
    assert "task-clock, page-faults (" in refusals[0]
    assert words in refusals[0]
    assert all(words in counter["refused"] for counter in records[0]["counters"])
    assert not wrong(records)
    assert not any("counters" in burst for burst in bursts(records))


def test_an_event_that_the_cpu_lacks_does_not_cost_the_others() -> None:
    records = measure("-b", "clock", "-r", "1", "--counters", "odd=99:0,task-clock=1:1")
    assert [bool(counter["refused"]) for counter in records[0]["counters"]] == [
        True,
        False,
    ]
    for burst in bursts(records):
        assert [count is None for count in burst["counters"][0]] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "cycles",
            "cycles=0",
            "cycles=0:",
            "=0:0",
            "a=0:0x",
            "a=0:0:u",
            "a=4294967296:0",
        ),
        pytest.param(
            ",".join(f"e{number}=1:1" for number in range(17)), id="17 events"
        ),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(text: str) -> None:
    done = run("-b", "clock", "-r", "1", "--counters", text)
    assert done.returncode == 2
    assert done.stderr.startswith("fleet-agent: --counters ")


def test_an_empty_list_counts_nothing() -> None:
    assert "counters" not in measure("-b", "clock", "-r", "1", "--counters=")[0]

"""Bursts that other work disturbed: what the reader takes again, and what a run then
lacks.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from fleet.agent.wire import conversation
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.parts import RunSoFar, decode_bursts, read_run
from fleet.agent.wire.records import WireError
from tests.agent.wire.test_conversation import BURST, END, HELLO, feed_lines, line

SAMPLES = {"iterations": 1000, "ticks": [300_000, 950_001, 990_002]}
DISTURBED = {
    **{key: BURST[key] for key in ("benchmark", "variant", "round", "ping", "pong")},
    "record": "failed",
    "reason": "ping did not have CPU 0",
    "disturbed": True,
    **SAMPLES,
}
TWO_ROUNDS = {**HELLO["plan"], "rounds": 2}
BEGUN = line(HELLO, plan=TWO_ROUNDS, seed=7)


def end(bursts: int, failed: int, again: int, **changes: Any) -> bytes:
    return line(END, bursts=bursts, failed=failed, again=again, **changes)


AFTER_ITS_ROUND = [
    BEGUN,
    line(DISTURBED),
    line(BURST, attempt=1),
    line(BURST, round=1),
    end(2, 1, 1),
]
AT_THE_END = [
    BEGUN,
    line(DISTURBED),
    line(DISTURBED, attempt=1),
    line(BURST, round=1),
    line(BURST, attempt=2),
    end(2, 2, 2),
]


@pytest.mark.parametrize("lines", [AFTER_ITS_ROUND, AT_THE_END])
def test_a_run_whose_disturbed_bursts_were_taken_again_lacks_nothing(
    lines: Sequence[bytes],
) -> None:
    run = read_run([lines])
    assert run.missing is None
    assert run.damage is None
    assert run.lacks_bursts is False
    assert all(failed.again for failed in run.failed)
    assert run.failed[0].ticks == (300_000, 950_001, 990_002)
    assert run.failed[0].iterations == 1000
    reader = feed_lines(*lines)
    assert reader.explain_unfinished() is None
    assert reader.visits == 2
    bursts = [*decode_bursts([lines])]
    assert [burst.attempt for burst in bursts].count(0) == 1


def test_a_burst_disturbed_to_the_end_is_missing() -> None:
    lines = [
        BEGUN,
        line(DISTURBED),
        line(DISTURBED, attempt=1),
        line(BURST, round=1),
        end(1, 2, 1),
    ]
    run = read_run([lines])
    assert run.missing is None
    assert run.lacks_bursts is True
    assert [failed.again for failed in run.failed] == [True, False]


def test_a_number_with_as_many_bursts_as_rounds_were_planned_is_not_missing() -> None:
    hello = line(HELLO, plan=TWO_ROUNDS, bursts_max=9)
    rounds = [line(BURST, round=number) for number in (1, 2)]
    run = read_run([[hello, line(DISTURBED), *rounds, end(2, 1, 0)]])
    assert run.missing is None
    assert run.lacks_bursts is False


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([line(BURST, attempt=1)], "attempt 1 .* came where 0 were disturbed"),
        ([line(BURST), line(BURST, attempt=1)], "came where 0 were disturbed"),
        ([line(DISTURBED), line(BURST)], "came twice"),
        ([line(DISTURBED), line(BURST, attempt=2)], "came where 1 were disturbed"),
        (
            [line(DISTURBED, disturbed=False), line(BURST, attempt=1)],
            "came where 0 were disturbed",
        ),
        (
            [line(DISTURBED), *[line(BURST, attempt=1)] * 2],
            "attempt 1 .* came where 0 were disturbed",
        ),
        ([line(DISTURBED, ticks=[-1])], "ticks"),
        ([line(BURST, attempt=-1)], "attempt"),
        ([line(BURST, attempt=1 << 16)], "attempt"),
    ],
)
def test_a_burst_that_is_not_due_is_refused(lines: Sequence[bytes], words: str) -> None:
    with pytest.raises(WireError, match=words):
        feed_lines(BEGUN, *lines)
    run = read_run([[BEGUN, *lines]])
    assert run.refused == 1
    assert run.bursts + len(run.failed) == len(lines) - 1


def test_an_end_record_that_counts_them_wrongly_is_refused() -> None:
    reader = feed_lines(*AFTER_ITS_ROUND[:-1], end(2, 1, 0))
    why = reader.explain_unfinished()
    assert why == (
        "the end record counts 2 bursts, 1 failed ones and 0 taken again, but 2, 1 and"
        " 1 arrived"
    )


def resume(run: RunSoFar, *lines: bytes) -> tuple[Reader, RunSoFar]:
    """Read what another agent measures of the run."""
    reader = Reader(run.done, run.hello)
    for text in lines:
        reader.read_line(text)
    return reader, run.add_part(reader)


@pytest.mark.parametrize("cut", [2, 3, 4])
def test_a_run_that_was_cut_meanwhile_goes_on_with_what_is_left(cut: int) -> None:
    first = read_run([AT_THE_END[:cut]])
    left = AT_THE_END[cut:-1]
    word = {2: "~1", 3: "~2", 4: "~2"}[cut]
    assert word in "".join(first.done.lines())
    hello = line(
        HELLO,
        plan=TWO_ROUNDS,
        seed=7,
        done=first.done.visits,
        bursts=2 - first.done.visits,
    )
    bursts = sum(b'"burst"' in text for text in left)
    failed = len(left) - bursts
    again = sum(b"attempt" in text for text in left)
    rest = [hello, *left, end(bursts, failed, again)]
    reader, run = resume(first, *rest)
    assert reader.explain_unfinished() is None
    assert run.missing is None
    assert run.end is not None
    assert run.end.bursts == 2
    assert run.end.failed == 2
    assert run.end.again == 2
    assert all(burst.again for burst in run.failed)
    together = read_run([AT_THE_END[:cut], rest])
    assert together.damage is None
    assert together.lacks_bursts is False
    assert together.failed == run.failed


def test_samples_of_disturbed_bursts_are_kept_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversation, "SAMPLES_LIMIT_BYTES", 300)
    reader = feed_lines(BEGUN, line(DISTURBED), line(DISTURBED, attempt=1))
    assert [failed.ticks is None for failed in reader.failed] == [False, True]
    assert reader.failed[1].reason == "ping did not have CPU 0"

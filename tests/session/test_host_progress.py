"""A host's progress: its events, and the outcome it ends in."""

import time
from dataclasses import replace

import pytest

from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.parts import read_run
from fleet.console.summary import render_outcomes
from fleet.errors import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    BuildError,
    FleetError,
    RefusedError,
    StoreError,
    UsageError,
)
from fleet.model import End, Failed, Host, RunState
from fleet.session.events import BurstsReceived, Event, NoteAdded, StageEntered, State
from fleet.session.host_progress import MAX_NOTES, NOTE_LIMIT, HostProgress
from fleet.session.measurement import complete_run, utc_now
from tests import builders
from tests.agent.wire.test_conversation import BURST, HELLO, line
from tests.agent.wire.test_parts import FAILED, FIRST, SECOND

HOST = Host("board", "192.0.2.1", env={"TOKEN": "hunter2"})
RUN = builders.a_run()


def record_progress() -> tuple[HostProgress, list[Event]]:
    events: list[Event] = []
    return HostProgress(HOST, events.append), events


def follow(progress: HostProgress, reader: Reader, *lines: bytes) -> None:
    for text in lines:
        if (record := reader.read_line(text)) is not None:
            progress.follow_record(record, reader)


def test_the_bursts_of_a_conversation_are_counted_as_they_come() -> None:
    progress, events = record_progress()
    bursts = (line(BURST), line(FAILED, round=1), line(BURST, round=2))
    follow(progress, Reader(), b"Welcome", line(HELLO, bursts=2, bursts_max=9), *bursts)
    received = [
        (event.done, event.total)
        for event in events
        if isinstance(event, BurstsReceived)
    ]
    assert received == [(0, 2), (1, 2), (2, 2), (3, 3)]
    assert progress.completed_outcome().bursts == 2, "a failed burst is none"


def test_a_run_that_continues_counts_what_was_there_before() -> None:
    progress, events = record_progress()
    follow(progress, Reader(read_run([FIRST]).done), *SECOND)
    received = [
        (event.done, event.total)
        for event in events
        if isinstance(event, BurstsReceived)
    ]
    assert received == [(2, 4), (3, 4), (4, 4), (4, 4)]
    assert progress.completed_outcome().bursts == 3


def test_before_the_hello_nothing_is_received() -> None:
    progress, events = record_progress()
    progress.follow_record(builders.a_burst(), Reader())
    assert events == []


def test_notes_are_shown_once_cut_and_without_secrets() -> None:
    progress, events = record_progress()
    progress.note("one", f"with hunter2 {'x' * NOTE_LIMIT}", "y" * NOTE_LIMIT)
    progress.note_once("one", "two")
    truncated = f"with … {'x' * (NOTE_LIMIT - 7)} … (truncated)"
    assert progress.notes == ["one", truncated, "y" * NOTE_LIMIT, "two"]
    assert [
        event.text for event in events if isinstance(event, NoteAdded)
    ] == progress.notes


def test_a_host_that_never_stops_talking_is_cut_short() -> None:
    progress, _ = record_progress()
    for number in range(MAX_NOTES + 5):
        progress.note(str(number))
    assert len(progress.notes) == MAX_NOTES + 1
    assert progress.notes[-2:] == [str(MAX_NOTES - 1), "further notes are not kept"]


def test_the_stage_of_an_error_is_its_own_or_the_one_the_host_was_in() -> None:
    progress, events = record_progress()
    assert progress.interrupted_outcome().message == "board: stopped in stage connect."
    progress.enter("deploy")
    assert events == [StageEntered(HOST, "deploy")]
    failed, crashed = (
        progress.outcome_of_error(error)
        for error in (BuildError("no gcc"), ValueError("x"))
    )
    ends = [
        (outcome.state, outcome.stage, outcome.exit_code)
        for outcome in (failed, crashed, progress.interrupted_outcome())
    ]
    assert ends == [
        (State.FAILED, BuildError.stage, BuildError.exit_code),
        (State.FAILED, "deploy", EXIT_BUG),
        (State.INTERRUPTED, "deploy", EXIT_INTERRUPTED),
    ]
    bug = (
        "board: a bug in fleet; please report it: ValueError: x. FLEET_DEBUG=1 shows"
        " the traceback."
    )
    assert crashed.message == bug
    assert progress.completed_outcome().stage == "done"


def test_what_is_kept_is_said_only_if_there_is_something() -> None:
    progress, _ = record_progress()
    progress.bursts = 1
    assert "kept" not in progress.interrupted_outcome().message
    progress.enter("measure", RUN)
    progress.enter("wait")
    assert progress.interrupted_outcome().message.endswith(
        f" 1 burst is kept in the journal of {RUN.run_id}; `fleet resume` measures the"
        " rest."
    )
    assert "1 burst is kept" in progress.outcome_of_error(ValueError()).message
    assert progress.interrupted_outcome().run_id == RUN.run_id
    assert (
        "1 burst is kept"
        in progress.outcome_of_error(StoreError("the disk is full.")).message
    )
    advised = progress.outcome_of_error(
        StoreError("`fleet resume --publish-partial` stores it.")
    ).message
    assert advised.endswith(f" 1 burst is kept in the journal of {RUN.run_id}.")
    assert (
        "kept"
        not in progress.outcome_of_error(
            StoreError("the journal was removed.", lost=True)
        ).message
    )
    progress.bursts = 0
    assert "kept" not in progress.interrupted_outcome().message


@pytest.mark.parametrize(
    "error", [RefusedError("no such CPU"), UsageError("the points take 512 MiB")]
)
def test_a_refused_plan_leaves_no_run_and_nothing_to_resume(error: FleetError) -> None:
    progress, _ = record_progress()
    progress.enter("measure", RUN)
    refused = progress.outcome_of_error(error)
    assert refused.run_id is None
    assert refused.given_up is True
    assert refused.is_settled is True
    assert "resume" not in render_outcomes([refused], 1.0)
    failed = progress.outcome_of_error(BuildError("no gcc"))
    assert failed.run_id == RUN.run_id
    assert failed.given_up is False
    assert failed.is_settled is False
    assert "To measure what is missing: fleet resume" in render_outcomes(
        [refused, failed], 1.0
    )


def test_a_secret_in_an_error_is_not_shown() -> None:
    progress, _ = record_progress()
    assert (
        progress.outcome_of_error(BuildError("cc -DTOKEN=hunter2 failed")).message
        == "cc -DTOKEN=… failed"
    )


@pytest.mark.parametrize(
    ("run", "state", "code", "words"),
    [
        (RUN, State.COMPLETE, 0, ""),
        (
            replace(RUN, state=RunState.PARTIAL, end=End(1, 0, "deadline")),
            State.PARTIAL,
            EXIT_SOME_FAILED,
            (
                "board: the run is incomplete; what had arrived is stored as a partial"
                " run."
            ),
        ),
        (
            replace(
                RUN,
                state=RunState.PARTIAL,
                failed=tuple(
                    Failed("cas", "x", round_, 4, 5, f"no {round_}")
                    for round_ in range(2)
                ),
            ),
            State.PARTIAL,
            EXIT_SOME_FAILED,
            (
                "board: 2 bursts failed, the others are stored; the first failure: cas"
                " 4-5: no 0."
            ),
        ),
    ],
)
def test_a_stored_run_is_complete_or_says_what_it_lacks(
    run, state: State, code: int, words: str
) -> None:
    progress, _ = record_progress()
    progress.enter("store", run)
    outcome = progress.outcome_of_run(run)
    assert outcome.state == state
    assert outcome.exit_code == code
    assert outcome.message == words
    assert outcome.run_id == RUN.run_id
    assert outcome.is_settled is True
    assert outcome.seconds >= 0


def test_elapsed_seconds_do_not_follow_a_clock_that_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    progress, _ = record_progress()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: 105.0)
    assert progress.completed_outcome().seconds == 5.0


def test_a_run_never_ends_before_it_began() -> None:
    progress, _ = record_progress()
    begun = replace(RUN, started_utc="2999-01-01T00:00:00Z")
    nothing = read_run([])
    assert complete_run(begun, nothing, progress).ended_utc == begun.started_utc
    finished = complete_run(
        replace(RUN, started_utc="2020-01-01T00:00:00Z"), nothing, progress
    )
    assert "2020" < (finished.ended_utc or "") <= utc_now()


def test_the_medians_so_far_are_brought_up_to_date_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    progress, events = record_progress()
    progress.enter("measure", RUN)
    reader = Reader()
    for moment, record in (
        (100.0, line(HELLO)),
        (100.1, line(BURST)),
        (100.6, line(BURST, round=1)),
    ):
        monkeypatch.setattr(time, "monotonic", lambda moment=moment: moment)
        follow(progress, reader, record)
    medians = [event.medians for event in events if isinstance(event, BurstsReceived)]
    assert medians[:2] == [(), ()]
    [(benchmark, [(relation, ns)])] = medians[2]
    assert benchmark == BURST["benchmark"]
    assert relation == "unknown"
    assert ns > 0

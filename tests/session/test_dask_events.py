"""Events of a worker elsewhere reach the controller's handler as if they had happened
here, and once.
"""

from dataclasses import replace

import pytest

from fleet.errors import BuildError, RefusedError
from fleet.model import Host
from fleet.plan.forecast import Duration
from fleet.session import dask_cluster
from fleet.session.dask_cluster import EventReceiver, EventSender
from fleet.session.events import (
    BurstsReceived,
    DurationEstimated,
    Event,
    HostFinished,
    NoteAdded,
    Outcome,
    StageEntered,
    State,
)
from fleet.session.host_progress import HostProgress

A = Host("a", "192.0.2.1")
B = Host("b", "192.0.2.2")
STORED = Outcome(A, State.COMPLETE, run_id="r1", bursts=12, seconds=3.5)


@pytest.fixture
def events_received() -> list[Event]:
    return []


@pytest.fixture
def receiver(events_received: list[Event]) -> EventReceiver:
    return EventReceiver([A, B], events_received.append)


@pytest.fixture
def send(receiver: EventReceiver) -> EventSender:
    return EventSender(receiver.receive)


def test_a_host_that_refused_the_plan_has_nothing_left_here_either(
    send: EventSender, receiver: EventReceiver
) -> None:
    refused = HostProgress(A, send).outcome_of_error(
        RefusedError("a: CPU 4000 cannot be used")
    )
    send(HostFinished(refused))
    assert refused.is_settled
    assert receiver.reconcile_with_sent(refused) == refused


def test_all_events_arrive_unchanged(
    send: EventSender, events_received: list[Event]
) -> None:
    progress = HostProgress(A, send)
    progress.enter("connect")
    progress.note("a note", "another")
    send(DurationEstimated(A, Duration(5.0, 60.0)))
    failed = replace(
        progress.outcome_of_error(BuildError("a: cc said:\nno")), seconds=1.5
    )
    send(HostFinished(failed))
    assert events_received == [
        StageEntered(A, "connect"),
        NoteAdded(A, "a note"),
        NoteAdded(A, "another"),
        DurationEstimated(A, Duration(5.0, 60.0)),
        HostFinished(failed),
    ]


def test_progress_is_sent_now_and_then_and_the_last_before_what_follows(
    send: EventSender, events_received: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "PROGRESS_EVERY_S", 3600.0)
    for done in range(1, 51):
        send(BurstsReceived(A, done, 50))
    send(BurstsReceived(B, 1, 50))
    send(StageEntered(A, "store"))
    send(HostFinished(STORED))
    assert events_received == [
        BurstsReceived(A, 1, 50),
        BurstsReceived(B, 1, 50),
        BurstsReceived(A, 50, 50),
        StageEntered(A, "store"),
        HostFinished(STORED),
    ]


def test_a_host_that_had_ended_when_its_worker_was_lost_is_reported_once(
    send: EventSender, receiver: EventReceiver, events_received: list[Event]
) -> None:
    send(NoteAdded(A, "slow clock"))
    send(HostFinished(STORED))
    found_stored = replace(STORED, seconds=0.0)
    assert receiver.reconcile_with_sent(found_stored) == replace(
        STORED, notes=("slow clock",)
    )
    assert receiver.record_lost(Outcome(A, State.FAILED)).state is State.COMPLETE
    assert [event for event in events_received if isinstance(event, HostFinished)] == [
        HostFinished(replace(STORED, notes=("slow clock",)))
    ]


def test_a_host_begun_again_may_end_otherwise_and_its_notes_are_reported_once(
    send: EventSender, receiver: EventReceiver, events_received: list[Event]
) -> None:
    failed = Outcome(
        A, State.FAILED, stage="connect", message="a: refused", exit_code=3
    )
    for outcome in (failed, STORED):
        send(StageEntered(A, "connect"))
        send(NoteAdded(A, "slow clock"))
        send(HostFinished(outcome))
    with_note = [
        replace(outcome, notes=("slow clock",)) for outcome in (failed, STORED)
    ]
    assert receiver.reconcile_with_sent(with_note[1]) == with_note[1]
    assert events_received == [
        StageEntered(A, "connect"),
        NoteAdded(A, "slow clock"),
        HostFinished(with_note[0]),
        StageEntered(A, "connect"),
        HostFinished(with_note[1]),
    ]


def test_an_end_that_was_never_sent_is_taken_from_the_shards_result(
    receiver: EventReceiver, events_received: list[Event]
) -> None:
    lost = Outcome(B, State.FAILED, stage="shard", message="b: its shard was given up")
    assert receiver.reconcile_with_sent(STORED) == STORED
    assert receiver.record_lost(lost) == lost
    assert events_received == [HostFinished(STORED), HostFinished(lost)]


def test_no_secret_of_a_host_is_sent() -> None:
    messages: list[bytes] = []
    EventSender(messages.append)(
        StageEntered(replace(A, env={"TOKEN": "hunter2"}), "connect")
    )
    assert b"hunter2" not in messages[0]


def test_a_broken_link_to_the_scheduler_costs_nothing() -> None:
    def fail(message: bytes) -> None:
        raise RuntimeError(f"cannot send {message!r}")

    EventSender(fail)(StageEntered(A, "connect"))

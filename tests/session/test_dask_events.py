"""What a worker elsewhere says reaches the controller's watcher as if it had been said here, and once."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fleet.errors import BuildError, RefusedError
from fleet.model import Host
from fleet.plan.estimate import Duration
from fleet.session import dask_events
from fleet.session.dask_events import Relay, Relayed
from fleet.session.outcome import Outcome, State, Story

A, B = Host("a", "192.0.2.1"), Host("b", "192.0.2.2")
STORED = Outcome(A, State.COMPLETE, run_id="r1", bursts=12, seconds=3.5)


class Heard:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def stage(self, host: Host, stage: str) -> None:
        self.said.append((host, stage))

    def progress(self, host: Host, done: int, total: int) -> None:
        self.said.append((host, done, total))

    def expect(self, host: Host, duration: Duration) -> None:
        self.said.append((host, duration))

    def note(self, host: Host, text: str) -> None:
        self.said.append((host, text))

    def finished(self, outcome: Outcome) -> None:
        self.said.append((outcome,))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def relayed(heard: Heard) -> Relayed:
    return Relayed([A, B], heard)


@pytest.fixture
def relay(relayed: Relayed) -> Relay:
    """A worker's end, from which messages go as plain values only."""

    def send(message: Mapping[str, Any]) -> None:
        relayed.hear(json.loads(json.dumps(message)))

    return Relay(send)


def test_a_host_that_refused_the_plan_has_nothing_left_here_either(relay: Relay, relayed: Relayed) -> None:
    refused = Story(A, relay).failed(RefusedError("a: CPU 4000 cannot be used"))
    relay.finished(refused)
    assert refused.settled
    assert relayed.ended(refused) == refused


def test_all_that_is_said_arrives_unchanged(relay: Relay, heard: Heard) -> None:
    story = Story(A, relay)
    story.enter("connect")
    story.tell("a note", "another")
    story.expect(Duration(5.0, 60.0))
    failed = replace(story.failed(BuildError("a: cc said:\nno")), seconds=1.5)
    relay.finished(failed)
    assert heard.said == [
        (A, "connect"),
        (A, "a note"),
        (A, "another"),
        (A, Duration(5.0, 60.0)),
        (failed,),
    ]


def test_progress_is_sent_now_and_then_and_the_last_before_what_follows(
    relay: Relay, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_events, "PROGRESS_EVERY_S", 3600.0)
    for done in range(1, 51):
        relay.progress(A, done, 50)
    relay.progress(B, 1, 50)
    relay.stage(A, "store")
    relay.finished(STORED)
    assert heard.said == [(A, 1, 50), (B, 1, 50), (A, 50, 50), (A, "store"), (STORED,)]


def test_a_host_that_had_ended_when_its_worker_was_lost_is_told_once(
    relay: Relay, relayed: Relayed, heard: Heard
) -> None:
    relay.note(A, "slow clock")
    relay.finished(STORED)
    found_stored = replace(STORED, seconds=0.0)
    assert relayed.ended(found_stored) == replace(STORED, notes=("slow clock",))
    assert relayed.given_up(Outcome(A, State.FAILED)).state is State.COMPLETE
    assert [what for what in heard.said if isinstance(what[0], Outcome)] == [
        (replace(STORED, notes=("slow clock",)),)
    ]


def test_a_host_begun_again_may_end_otherwise_and_its_notes_are_told_once(
    relay: Relay, relayed: Relayed, heard: Heard
) -> None:
    failed = Outcome(A, State.FAILED, stage="connect", message="a: refused", exit_code=3)
    for outcome in (failed, STORED):
        relay.stage(A, "connect")
        relay.note(A, "slow clock")
        relay.finished(outcome)
    with_note = [replace(outcome, notes=("slow clock",)) for outcome in (failed, STORED)]
    assert relayed.ended(with_note[1]) == with_note[1]
    assert heard.said == [(A, "connect"), (A, "slow clock"), (with_note[0],), (A, "connect"), (with_note[1],)]


def test_what_was_never_said_is_told_from_the_shards_end(relayed: Relayed, heard: Heard) -> None:
    lost = Outcome(B, State.FAILED, stage="shard", message="b: its shard was given up")
    assert relayed.ended(STORED) == STORED
    assert relayed.given_up(lost) == lost
    assert heard.said == [(STORED,), (lost,)]


def test_a_host_nobody_asked_for_and_a_link_that_is_gone_cost_nothing(relayed: Relayed, heard: Heard) -> None:
    relayed.hear({"host": "stranger", "what": "stage", "stage": "connect"})

    def broken(message: Mapping[str, Any]) -> None:
        raise RuntimeError(f"cannot send {message}")

    Relay(broken).stage(A, "connect")
    assert heard.said == []

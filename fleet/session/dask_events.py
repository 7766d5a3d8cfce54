"""Carries the events of a Dask worker's hosts to the controller as plain values."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any, get_args

from fleet.model import Host
from fleet.plan.forecast import Duration
from fleet.session import events
from fleet.session.outcome import Outcome, State

PROGRESS_EVERY_S = 0.5  # of a host: often enough for a table, seldom enough for a scheduler

_SENT_OF_OUTCOME = tuple(field.name for field in fields(Outcome) if field.name not in ("host", "notes"))

_KINDS: Mapping[str, Any] = {kind.__name__: kind for kind in get_args(events.Event)}
Message = Mapping[str, Any]


def encode_event(event: events.Event) -> Message:
    """Return the event as plain values; an outcome without its notes, which were events of their own."""
    names = [part.name for part in fields(event) if part.name not in ("host", "live_medians")]
    values = {name: getattr(event, name) for name in names}
    match event:
        case events.DurationEstimated(_, duration):
            values = asdict(duration)
        case events.HostFinished(outcome):
            values = {name: getattr(outcome, name) for name in _SENT_OF_OUTCOME}
            values["state"] = str(outcome.state)
    return {"event": type(event).__name__, "host": event.host.name, "values": values}


def decode_event(message: Message, host: Host) -> events.Event:
    """Return the event that was encoded for this host. Raises ValueError for an unknown one."""
    values, kind = dict(message["values"]), _KINDS.get(message["event"])
    if kind is None:
        raise ValueError(f"unknown event {message['event']!r}")
    if kind is events.HostFinished:
        return events.HostFinished(Outcome(host, **values | {"state": State(values["state"])}))
    if kind is events.DurationEstimated:
        return events.DurationEstimated(host, Duration(**values))
    if kind is events.BurstsReceived:
        values["medians"] = tuple((name, tuple(map(tuple, rows))) for name, rows in values["medians"])
    return kind(host, **values)


class EventSender:
    """A worker's event handler, which sends progress only now and then. A failure to send costs no run."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send_message = send
        self._guard = threading.Lock()
        self._sent_at: dict[str, float] = {}
        self._held: dict[str, events.BurstsReceived] = {}

    def __call__(self, event: events.Event) -> None:
        """Send the event; hold progress back if some was sent just now, until a stage or the end."""
        name = event.host.name
        match event:
            case events.BurstsReceived():
                if self._hold(event):
                    return
            case events.StageEntered() | events.HostFinished():
                with self._guard:
                    held = self._held.pop(name, None)
                if held is not None:
                    self._send(held)
        self._send(event)

    def _hold(self, event: events.BurstsReceived) -> bool:
        name, now = event.host.name, time.monotonic()
        with self._guard:
            if now - self._sent_at.get(name, float("-inf")) < PROGRESS_EVERY_S:
                self._held[name] = event
                return True
            self._sent_at[name] = now
            self._held.pop(name, None)
            return False

    def _send(self, event: events.Event) -> None:
        message = encode_event(event)
        with suppress(OSError, RuntimeError, ValueError):  # a worker about to end, or without its scheduler
            self._send_message(message)


class EventReceiver:
    """Passes the workers' events on to `emit`, each note and end of a host once. Thread-safe."""

    def __init__(self, hosts: Sequence[Host], emit: events.EventHandler) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._emit = emit
        self._guard = threading.RLock()
        self._notes: dict[str, dict[str, None]] = {}
        self._outcomes: dict[str, Outcome] = {}

    def receive(self, message: Message) -> None:
        """Pass a message's event on; ignore it if its host is not ours."""
        host = self._hosts.get(message["host"])
        if host is None:
            return
        event = decode_event(message, host)
        with self._guard:
            notes = self._notes.setdefault(host.name, {})
            match event:
                case events.HostFinished(outcome):
                    self._finish(replace(outcome, notes=tuple(notes)))
                    return
                case events.NoteAdded(_, text):
                    if text in notes:
                        return
                    notes[text] = None
                case events.StageEntered():
                    self._outcomes.pop(host.name, None)
            self._emit(event)

    def finish(self, outcome: Outcome) -> Outcome:
        """Take a host's outcome from a completed shard; return the one with the most detail."""
        with self._guard:
            outcome_known = self._outcomes.get(outcome.host.name)
            if outcome_known is not None and (outcome_known.state, outcome_known.run_id) == (
                outcome.state,
                outcome.run_id,
            ):
                return outcome_known  # it has notes and a duration, which one only found stored lacks
            return self._finish(outcome)

    def give_up(self, outcome: Outcome) -> Outcome:
        """Return the known outcome of a host whose shard was lost or withdrawn, else `outcome`."""
        with self._guard:
            return self._outcomes.get(outcome.host.name) or self._finish(outcome)

    def _finish(self, outcome: Outcome) -> Outcome:
        self._outcomes[outcome.host.name] = outcome
        self._emit(events.HostFinished(outcome))
        return outcome

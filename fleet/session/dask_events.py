"""Carries what a worker elsewhere says of its hosts to the watcher of the controller, as it happens. Floor 4.

A worker may be lost and its hosts begun again by another, so what was told already is not told again.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from fleet.model import Host
from fleet.plan.estimate import Duration
from fleet.session.outcome import Outcome, State, Watcher

PROGRESS_EVERY_S = 0.5  # of a host: often enough for a table, seldom enough for a scheduler

_OF_OUTCOME = tuple(field.name for field in fields(Outcome) if field.name not in ("host", "notes"))

Message = Mapping[str, Any]


class Relay:
    """A worker's watcher: makes each thing said a message of plain values, and sends it.

    send: may be called from any thread. What cannot be sent costs no run.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._guard = threading.Lock()
        self._sent_at: dict[str, float] = {}
        self._waiting: dict[str, tuple[int, int]] = {}

    def stage(self, host: Host, stage: str) -> None:
        """Send it."""
        self._catch_up(host)
        self._say(host, "stage", stage=stage)

    def progress(self, host: Host, done: int, total: int) -> None:
        """Send it if the last one was a while ago; else it may be sent before what comes next."""
        now = time.monotonic()
        with self._guard:
            early = now - self._sent_at.get(host.name, float("-inf")) < PROGRESS_EVERY_S
            if early:
                self._waiting[host.name] = (done, total)
                return
            self._sent_at[host.name] = now
            self._waiting.pop(host.name, None)
        self._say(host, "progress", done=done, total=total)

    def expect(self, host: Host, duration: Duration) -> None:
        """Send it."""
        self._say(host, "expect", least_s=duration.least_s, most_s=duration.most_s)

    def note(self, host: Host, text: str) -> None:
        """Send it."""
        self._say(host, "note", text=text)

    def finished(self, outcome: Outcome) -> None:
        """Send it without its notes, which were sent before."""
        self._catch_up(outcome.host)
        said = {name: getattr(outcome, name) for name in _OF_OUTCOME}
        self._say(outcome.host, "finished", outcome=said | {"state": str(outcome.state)})

    def _catch_up(self, host: Host) -> None:
        with self._guard:
            waiting = self._waiting.pop(host.name, None)
        if waiting is not None:
            self._say(host, "progress", done=waiting[0], total=waiting[1])

    def _say(self, host: Host, what: str, **values: object) -> None:
        with suppress(Exception):  # a worker about to end, or without its scheduler
            self._send({"host": host.name, "what": what, **values})


class Relayed:
    """Hands what workers say to the controller's watcher: each note and each end of a host once.

    A host that ended and is begun again, since its worker was lost before that was known, may end anew.
    Every method may be called from any thread.
    """

    def __init__(self, hosts: Sequence[Host], watcher: Watcher) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._watcher = watcher
        self._guard = threading.RLock()
        self._notes: dict[str, dict[str, None]] = {}
        self._ended: dict[str, Outcome] = {}

    def hear(self, message: Message) -> None:
        """Pass a message on."""
        host = self._hosts.get(message["host"])
        if host is None:
            return
        with self._guard:
            self._pass_on(host, message)

    def ended(self, outcome: Outcome) -> Outcome:
        """Take in what a shard that is done says of a host, tell it if that is news; what is known of it."""
        with self._guard:
            known = self._ended.get(outcome.host.name)
            if known is not None and (known.state, known.run_id) == (outcome.state, outcome.run_id):
                return known  # with the notes and the time, which who only found it stored does not know
            return self._tell(outcome)

    def given_up(self, outcome: Outcome) -> Outcome:
        """What is known of a host whose shard will say no more: how it ended, else `outcome`."""
        with self._guard:
            return self._ended.get(outcome.host.name) or self._tell(outcome)

    def _pass_on(self, host: Host, message: Message) -> None:
        match message["what"]:
            case "stage":
                self._ended.pop(host.name, None)
                self._watcher.stage(host, message["stage"])
            case "progress":
                self._watcher.progress(host, message["done"], message["total"])
            case "expect":
                self._watcher.expect(host, Duration(message["least_s"], message["most_s"]))
            case "note":
                notes = self._notes.setdefault(host.name, {})
                if message["text"] not in notes:
                    notes[message["text"]] = None
                    self._watcher.note(host, message["text"])
            case "finished":
                said = message["outcome"] | {"state": State(message["outcome"]["state"])}
                self._tell(Outcome(host, **said, notes=tuple(self._notes.get(host.name, ()))))

    def _tell(self, outcome: Outcome) -> Outcome:
        self._ended[outcome.host.name] = outcome
        self._watcher.finished(outcome)
        return outcome

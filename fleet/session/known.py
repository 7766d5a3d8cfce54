"""What is known of every host of a session while it goes on: for a program that has to leave at once."""

from collections.abc import Sequence
from dataclasses import replace

from fleet.errors import EXIT_INTERRUPTED
from fleet.model import Host
from fleet.session.events import (
    BurstsReceived,
    Event,
    EventHandler,
    HostFinished,
    NoteAdded,
    StageEntered,
    ignore,
)
from fleet.session.outcome import Outcome, State


class KnownOutcomes:
    """Follows the events of `hosts` and passes them on to `then`, which may be set later."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.then: EventHandler = ignore
        self._outcomes = {
            host.name: Outcome(
                host,
                State.INTERRUPTED,
                stage="queue",
                message=f"{host.name}: not begun.",
                exit_code=EXIT_INTERRUPTED,
            )
            for host in hosts
        }

    def __call__(self, event: Event) -> None:
        """Note what the event says of its host."""
        name = event.host.name
        known = self._outcomes[name]
        match event:
            case StageEntered(_, stage):
                text = f"{name}: left in stage {stage}; `fleet resume` finishes what it has begun."
                self._outcomes[name] = replace(known, stage=stage, message=text)
            case BurstsReceived(_, done, _):
                self._outcomes[name] = replace(known, bursts=done)
            case NoteAdded(_, text):
                self._outcomes[name] = replace(known, notes=(*known.notes, text))
            case HostFinished(outcome):
                self._outcomes[name] = outcome
        self.then(event)

    def now(self) -> list[Outcome]:
        """The outcomes in the order of the hosts; that of a host at work is what it would be if we left."""
        return list(self._outcomes.values())

"""What is known of every host of a session while it goes on: for a program that has to leave at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fleet.errors import EXIT_INTERRUPTED
from fleet.model import Host
from fleet.session import events
from fleet.session.outcome import Outcome, State


@dataclass(slots=True)
class _Known:
    """What is known of one host; its outcome once it has ended."""

    host: Host
    stage: str = "queue"
    bursts: int = 0
    notes: list[str] = field(default_factory=list)
    outcome: Outcome | None = None

    def now(self) -> Outcome:
        name = self.host.name
        left = f"{name}: left in stage {self.stage}; `fleet resume` finishes what it has begun."
        return self.outcome or Outcome(
            self.host,
            State.INTERRUPTED,
            stage=self.stage,
            message=f"{name}: not begun." if self.stage == "queue" else left,
            exit_code=EXIT_INTERRUPTED,
            bursts=self.bursts,
            notes=tuple(self.notes),
        )


class KnownOutcomes:
    """Follows the events of `hosts` and passes them on to `then`, which may be set later."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.then: events.EventHandler = events.ignore
        self._known = {host.name: _Known(host) for host in hosts}

    def __call__(self, event: events.Event) -> None:
        """Note what the event says of its host."""
        known = self._known[event.host.name]
        match event:
            case events.StageEntered(_, stage):
                known.stage = stage
            case events.BurstsReceived(_, done):
                known.bursts = done
            case events.NoteAdded(_, text):
                known.notes.append(text)
            case events.HostFinished(outcome):
                known.outcome = outcome
        self.then(event)

    def now(self) -> list[Outcome]:
        """The outcomes in the order of the hosts; that of a host at work is what it would be if we left."""
        return [known.now() for known in self._known.values()]

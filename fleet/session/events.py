"""What happens to the hosts of a session, as it happens: one type of event, one callable that receives it."""

from collections.abc import Callable
from dataclasses import dataclass

from fleet.model import Host
from fleet.plan.forecast import Duration
from fleet.session.outcome import Outcome
from fleet.session.so_far import Medians, SoFar


@dataclass(frozen=True, slots=True)
class StageEntered:
    """The host has entered a stage: connect, facts, deploy, measure, store."""

    host: Host
    stage: str


@dataclass(frozen=True, slots=True)
class BurstsReceived:
    """`done` of `total` bursts have arrived; `total` grows while rounds are added.

    medians: of what has arrived from this agent so far, brought up to date now and then. so_far: what they
    are made of, to be read and not kept; None of a host that another process follows.
    """

    host: Host
    done: int
    total: int
    medians: Medians = ()
    so_far: SoFar | None = None


@dataclass(frozen=True, slots=True)
class DurationEstimated:
    """How long measuring will take; sent before it begins."""

    host: Host
    duration: Duration


@dataclass(frozen=True, slots=True)
class NoteAdded:
    """Something the user should know; it is stored with the run as well."""

    host: Host
    text: str


@dataclass(frozen=True, slots=True)
class HostFinished:
    """The host's part of the session has ended, well or not."""

    outcome: Outcome

    @property
    def host(self) -> Host:
        """The host that has ended."""
        return self.outcome.host


Event = StageEntered | BurstsReceived | DurationEstimated | NoteAdded | HostFinished
EventHandler = Callable[[Event], None]
"""Called from the threads of all hosts; must neither raise nor block."""


def ignore(_event: Event) -> None:
    """Discard the event."""

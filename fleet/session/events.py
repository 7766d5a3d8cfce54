"""Events of a session's hosts as they happen: a type of event each, and one callable that receives them."""

from collections.abc import Callable
from dataclasses import dataclass

from fleet.model import Host
from fleet.plan.forecast import Duration
from fleet.session.live_medians import LiveMedians, Medians
from fleet.session.outcome import Outcome


@dataclass(frozen=True, slots=True)
class StageEntered:
    """The host has entered a stage: connect, facts, deploy, measure, store. detail: why it is there."""

    host: Host
    stage: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class BurstsReceived:
    """`done` of `total` bursts have arrived; `total` grows while rounds are added.

    medians: of this agent's bursts, updated now and then. live_medians: their source, to be read and not
    kept; None for a host that another process follows.
    """

    host: Host
    done: int
    total: int
    medians: Medians = ()
    live_medians: LiveMedians | None = None


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
class CommandEnded:
    """A command of the host's `before` or `after` has ended. output: of stdout and stderr."""

    host: Host
    stage: str
    command: str
    exit_code: int
    output: str


@dataclass(frozen=True, slots=True)
class HostFinished:
    """The host's part of the session has ended, well or not."""

    outcome: Outcome

    @property
    def host(self) -> Host:
        """The host that has ended."""
        return self.outcome.host


Event = StageEntered | BurstsReceived | DurationEstimated | NoteAdded | CommandEnded | HostFinished
EventHandler = Callable[[Event], None]
"""Called from the threads of all hosts; must neither raise nor block."""


def ignore(_event: Event) -> None:
    """Discard the event."""

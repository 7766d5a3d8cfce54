"""Events of a session's hosts as they happen, and the outcome that each host
ends in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fleet.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_SOME_FAILED
from fleet.model import Host
from fleet.plan.forecast import Duration
from fleet.session.live_medians import LiveMedians, Medians


class State(StrEnum):
    """How a host's part of a session ended."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"
    NOT_READY = "not-ready"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one host's part of a session ended. stage, message, exit_code, reason: why it
    is not complete.
    """

    host: Host
    state: State
    run_id: str | None = None
    stage: str = "done"
    message: str = ""
    exit_code: int = 0
    reason: str = ""  # in a few words, as `FleetError.reason`
    bursts: int = 0  # stored, or in the journal if the run is not complete
    again: int = 0  # bursts that other work disturbed and that were taken again
    seconds: float = 0.0  # elapsed, by a monotonic clock
    notes: tuple[str, ...] = ()
    given_up: bool = False  # nothing of it is kept, so `fleet resume` has nothing to do

    @property
    def is_stored(self) -> bool:
        """Whether a run was published, whole or in part."""
        return self.state in (State.COMPLETE, State.PARTIAL)

    @property
    def is_settled(self) -> bool:
        """Whether `fleet resume` has nothing to do: the run is stored or given up."""
        return self.given_up or self.is_stored


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """Return a session's exit code: 130 if interrupted, 70 after a bug, else the hosts'
    common code or 1.
    """
    if any(outcome.state is State.INTERRUPTED for outcome in outcomes):
        return EXIT_INTERRUPTED
    codes = {outcome.exit_code for outcome in outcomes}
    if EXIT_BUG in codes:
        return EXIT_BUG
    if len(codes) == 1:
        return codes.pop()
    return EXIT_SOME_FAILED


@dataclass(frozen=True, slots=True)
class StageEntered:
    """The host has entered a stage: connect, facts, deploy, measure, store. detail: why
    it is there.
    """

    host: Host
    stage: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class BurstsReceived:
    """`done` of `total` bursts have arrived; `total` grows while rounds are added."""

    host: Host
    done: int
    total: int
    medians: Medians = ()  # of this agent's bursts, updated now and then
    # to read, not to keep; None if another process follows the host
    live_medians: LiveMedians | None = None


@dataclass(frozen=True, slots=True)
class DurationEstimated:
    """How long measuring will take; sent before it begins."""

    host: Host
    duration: Duration


@dataclass(frozen=True, slots=True)
class NoteAdded:
    """A note for the user; it is stored with the run as well."""

    host: Host
    text: str


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """A command of the host's `before` or `after` has ended. output: its stdout, then
    its stderr.
    """

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


Event = (
    StageEntered
    | BurstsReceived
    | DurationEstimated
    | NoteAdded
    | CommandEnded
    | HostFinished
)
EventHandler = Callable[[Event], None]
"""Called from the threads of all hosts; must neither raise nor block."""


def ignore(_event: Event) -> None:
    """Discard the event."""

"""How each host's part of a session ended, and the exit code that follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fleet.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_SOME_FAILED
from fleet.model import Host


class State(StrEnum):
    """How a host's part of a session ended."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"
    NOT_READY = "not-ready"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one host ended. stage, message, exit_code: why it is not complete.

    bursts: the number stored, or in the journal if the run is not complete. seconds: elapsed, by a monotonic
    clock. given_up: nothing of it is kept, so `fleet resume` has nothing to do.
    """

    host: Host
    state: State
    run_id: str | None = None
    stage: str = "done"
    message: str = ""
    exit_code: int = 0
    bursts: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    given_up: bool = False

    @property
    def is_stored(self) -> bool:
        """Whether a run was published, whole or in part."""
        return self.state in (State.COMPLETE, State.PARTIAL)

    @property
    def is_settled(self) -> bool:
        """Whether `fleet resume` has nothing to do: the run is stored or given up."""
        return self.given_up or self.is_stored


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """Return 0 if all are complete, 130 if interrupted, 70 for a bug, the code that all share, or else 1."""
    if any(outcome.state is State.INTERRUPTED for outcome in outcomes):
        return EXIT_INTERRUPTED
    codes = {outcome.exit_code for outcome in outcomes}
    if EXIT_BUG in codes:
        return EXIT_BUG
    return codes.pop() if len(codes) == 1 else EXIT_SOME_FAILED

"""What became of each host of a session, and how the person is told on the way. Floor 4, beside `session`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.records import Record
from fleet.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_SOME_FAILED, FleetError, RefusedError
from fleet.model import Host, Note, Run, RunState
from fleet.plan.estimate import Duration
from fleet.text import hidden

MOST_NOTES = 500  # of a host; it may say anything, as often as it likes
NOTE_LIMIT = 2_000  # characters


class State(StrEnum):
    """How a host's part of a session ended."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one host. `stage`, `message` and `exit_code` say why it is not complete.

    bursts: how many are stored (or, if the run is not complete, kept in the journal). refused: the host
    cannot carry out the plan; nothing of it is kept.
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
    refused: bool = False

    @property
    def settled(self) -> bool:
        """Whether nothing is left for `fleet resume`: it is stored, or the host cannot carry out the plan."""
        return self.refused or self.state in (State.COMPLETE, State.PARTIAL)


class Watcher(Protocol):
    """Where progress goes. Called from the threads of all hosts; must not raise or take long."""

    def stage(self, host: Host, stage: str) -> None:
        """The host has entered a stage: connect, facts, deploy, measure, store."""
        ...

    def progress(self, host: Host, done: int, total: int) -> None:
        """`done` of `total` bursts have arrived."""
        ...

    def expect(self, host: Host, duration: Duration) -> None:
        """Measuring will take about so long; said when it begins."""
        ...

    def note(self, host: Host, text: str) -> None:
        """Something the person should know; it is stored with the run as well."""
        ...

    def finished(self, outcome: Outcome) -> None:
        """The host is done, one way or the other."""
        ...


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0: all complete. 130: interrupted. A stage's own code: one cause stopped every host. Else 1."""
    if any(outcome.state is State.INTERRUPTED for outcome in outcomes):
        return EXIT_INTERRUPTED
    codes = {outcome.exit_code for outcome in outcomes}
    return codes.pop() if len(codes) == 1 else EXIT_SOME_FAILED


class Story:
    """What has happened to one host so far, told to the watcher as it happens; ends in an Outcome."""

    def __init__(self, host: Host, watcher: Watcher) -> None:
        self.host = host
        self.notes: list[str] = []
        self._watcher = watcher
        self._stage = "connect"
        self._run_id: str | None = None
        self._bursts = 0

    def enter(self, stage: str, run: Run | None = None) -> None:
        """Begin a stage; `run` from the moment there is one."""
        self._stage = stage
        if run is not None:
            self._run_id = run.run_id
        self._watcher.stage(self.host, stage)

    def expect(self, duration: Duration) -> None:
        """Say how long measuring will take."""
        self._watcher.expect(self.host, duration)

    def tell(self, *texts: str) -> None:
        """Note sentences for the person and for the run's record."""
        for text in texts:
            if len(self.notes) > MOST_NOTES:
                return
            said = hidden(text[: 2 * NOTE_LIMIT], self.host.env.values())
            said = said if len(said) <= NOTE_LIMIT else f"{said[:NOTE_LIMIT]} … (cut)"
            said = said if len(self.notes) < MOST_NOTES else "further notes are not kept"
            self.notes.append(said)
            self._watcher.note(self.host, said)

    def know(self, bursts: int) -> None:
        """Take note of so many bursts in the journal already."""
        self._bursts = bursts

    def hear(self, record: Record, reader: Reader) -> None:
        """Follow the agent's conversation."""
        if isinstance(record, Note):
            self.tell(record.text)
        self._bursts = reader.done.bursts + reader.bursts
        if reader.hello is not None:
            before = reader.done.visits
            done = before + reader.bursts + len(reader.failed)
            self._watcher.progress(self.host, done, max(done, before + reader.hello.bursts))

    def ended(self, run: Run) -> Outcome:
        """The outcome of a run that was stored."""
        if run.state is RunState.COMPLETE:
            return self._outcome(State.COMPLETE)
        if not run.failed:
            cut = f"{self.host.name}: not all was measured; what had arrived is stored as a partial run."
            return self._outcome(State.PARTIAL, cut, EXIT_SOME_FAILED)
        first = run.failed[0]
        return self._outcome(
            State.PARTIAL,
            f"{self.host.name}: {len(run.failed)} bursts gave no number, the others are stored; the first: "
            f"{first.benchmark} {first.ping_cpu}-{first.pong_cpu}: {first.reason}.",
            EXIT_SOME_FAILED,
        )

    def done(self) -> Outcome:
        """The outcome of a host where all that was to do is done."""
        return self._outcome(State.COMPLETE)

    def failed(self, err: FleetError) -> Outcome:
        """The outcome of a cause we know."""
        outcome = self._outcome(State.FAILED, f"{err}{self._kept()}", err.exit_code, err.stage)
        refused = isinstance(err, RefusedError)
        return replace(outcome, refused=refused, run_id=None if refused else outcome.run_id)

    def interrupted(self) -> Outcome:
        """The outcome when the person asked to stop."""
        text = f"{self.host.name}: stopped in stage {self._stage}.{self._kept()}"
        return self._outcome(State.INTERRUPTED, text, EXIT_INTERRUPTED)

    def crashed(self, err: Exception) -> Outcome:
        """The outcome of a cause we do not know: a bug of ours."""
        text = f"{self.host.name}: a bug in fleet, please report it: {type(err).__name__}: {err}."
        return self._outcome(State.FAILED, f"{text}{self._kept()}", EXIT_BUG)

    def _kept(self) -> str:
        if self._run_id is None or self._bursts == 0:
            return ""
        kept = f" {self._bursts} bursts are kept in the journal of {self._run_id};"
        return f"{kept} `fleet resume` measures the rest."

    def _outcome(self, state: State, message: str = "", code: int = 0, stage: str | None = None) -> Outcome:
        return Outcome(
            host=self.host,
            state=state,
            run_id=self._run_id,
            stage="done" if state is State.COMPLETE else stage or self._stage,
            message=hidden(message, self.host.env.values()),
            exit_code=code,
            bursts=self._bursts,
            notes=tuple(self.notes),
        )

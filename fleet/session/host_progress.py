"""Follows one host: its stage, notes and bursts, sent as events; ends in an Outcome."""

import time
from dataclasses import replace

from fleet import errors
from fleet.agent.wire.asked import list_left_out
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.records import Record
from fleet.model import Burst, Hello, Host, Note, Run, RunState
from fleet.plan.merge import cpus_to_measure
from fleet.remote.output import Completed
from fleet.session import events
from fleet.session.events import Outcome, State
from fleet.session.live_medians import LiveMedians, Medians
from fleet.text import format_count, hide_secrets

MAX_NOTES = 500  # of a host, which may send any number
NOTE_LIMIT = 2_000  # characters
MEDIANS_EVERY_S = 0.5


class HostProgress:
    """The progress of one host from when its work begins until its Outcome. Emits
    events.
    """

    def __init__(self, host: Host, emit: events.EventHandler) -> None:
        self.host = host
        self.notes: list[str] = []
        self._emit = emit
        self._started = time.monotonic()
        self._stage = "connect"
        self._run_id: str | None = None
        self.bursts = 0  # the number in its journal
        self.unrestored = ""  # for the outcome: which commands of `after` failed
        self._live_medians: LiveMedians | None = None
        self._medians: Medians = ()
        self._medians_at = self._started

    def enter(self, stage: str, run: Run | None = None, detail: str = "") -> None:
        """Enter a stage and emit the event. run: None until it exists. detail: why the
        host is there.
        """
        self._stage = stage
        if run is not None:
            self._run_id = run.run_id
            cpus = cpus_to_measure(run.plan, run.facts)
            self._live_medians = self._live_medians or LiveMedians(run.facts, cpus)
        self._emit(events.StageEntered(self.host, stage, detail))

    def note(self, *texts: str) -> None:
        """Add notes for the user and the run's record, secrets hidden; those beyond
        MAX_NOTES are dropped.
        """
        for text in texts:
            if len(self.notes) > MAX_NOTES:
                return
            note = hide_secrets(text[: 2 * NOTE_LIMIT], self.host.env.values())
            note = (
                note
                if len(note) <= NOTE_LIMIT
                else f"{note[:NOTE_LIMIT]} … (truncated)"
            )
            note = note if len(self.notes) < MAX_NOTES else "further notes are not kept"
            self.notes.append(note)
            self._emit(events.NoteAdded(self.host, note))

    def log_command(self, stage: str, command: str, completed: Completed) -> None:
        """Emit a command of the inventory with its exit code and output, secrets
        hidden.
        """
        output = (completed.stdout + completed.stderr).decode("utf-8", "replace")
        hidden = hide_secrets(output, self.host.env.values())
        self._emit(
            events.CommandEnded(
                self.host, stage, command, completed.exit_code or 0, hidden
            )
        )

    def note_once(self, *texts: str) -> None:
        """Add those notes that the host does not have yet."""
        self.note(*(text for text in texts if text not in self.notes))

    def follow_record(self, record: Record, reader: Reader) -> None:
        """Count the agent's bursts, update their medians and add its notes."""
        if isinstance(record, Note):
            self.note(record.text)
        earlier = reader.done  # by the agents before this one
        self.bursts = earlier.bursts + reader.bursts
        hello = reader.hello
        if hello is None:
            return
        if isinstance(record, Burst):
            self._update_medians(record, hello)
        visits = earlier.visits + reader.bursts + len(reader.failed)
        planned = earlier.visits + hello.bursts
        self._emit(
            events.BurstsReceived(
                self.host,
                visits,
                max(visits, planned),
                self._medians,
                self._live_medians,
            )
        )

    def _update_medians(self, burst: Burst, hello: Hello) -> None:
        if self._live_medians is None:
            return
        self._live_medians.add(burst, hello)
        if time.monotonic() - self._medians_at >= MEDIANS_EVERY_S:
            self._medians = self._live_medians.compute_medians()
            self._medians_at = time.monotonic()

    def outcome_of_run(self, run: Run) -> Outcome:
        """Return the outcome of a published run: COMPLETE, or PARTIAL with the
        reason.
        """
        if run.state is RunState.COMPLETE:
            return self.completed_outcome()
        if run.end is not None and run.end.out_of_time:
            why = (
                "the time budget ended in the first round; what was measured is stored."
            )
        elif not run.failed and (left_out := list_left_out(run)):
            why = f"the agent left out {', '.join(left_out)}; the others are stored."
        elif not run.failed:
            why = "the run is incomplete; what had arrived is stored as a partial run."
        else:
            # one that killed its agent
            first = min(run.failed, key=lambda one: one.given_up is None)
            why = (
                f"{format_count(len(run.failed), 'burst')} failed, the others are"
                " stored; the first failure:"
                f" {' '.join(filter(None, (first.benchmark, first.point)))}"
                f" {first.ping_cpu}-{first.pong_cpu}: {first.reason}."
            )
        return self._make_outcome(
            State.PARTIAL, f"{self.host.name}: {why}", errors.EXIT_SOME_FAILED
        )

    def completed_outcome(self) -> Outcome:
        """Return the outcome of a host whose work is all done."""
        return self._make_outcome(State.COMPLETE)

    def outcome_of_error(self, err: Exception) -> Outcome:
        """Return the outcome of an error: a bug in fleet unless fleet raised it or the
        system explains it.
        """
        cause = (
            err
            if isinstance(err, errors.FleetError)
            else errors.explain(err, f"{self.host.name}: ")
        )
        if cause is None:
            text = f"{self.host.name}: {errors.describe_bug(err)}{self._journal_hint()}"
            return self._make_outcome(State.FAILED, text, errors.EXIT_BUG)
        lost = isinstance(cause, errors.StoreError) and cause.lost
        hint = (
            "" if lost else self._journal_hint(resume="`fleet resume" not in str(cause))
        )
        state = (
            State.NOT_READY if isinstance(cause, errors.NotReadyError) else State.FAILED
        )
        outcome = self._make_outcome(
            state, f"{cause}{hint}", cause.exit_code, cause.stage
        )
        refused = isinstance(cause, errors.RefusedError | errors.UsageError)
        run_id = None if refused else outcome.run_id
        return replace(outcome, reason=cause.reason, given_up=refused, run_id=run_id)

    def interrupted_outcome(self) -> Outcome:
        """Return this host's outcome when the session was cancelled."""
        text = (
            f"{self.host.name}: stopped in stage {self._stage}.{self._journal_hint()}"
        )
        return self._make_outcome(State.INTERRUPTED, text, errors.EXIT_INTERRUPTED)

    def _journal_hint(self, *, resume: bool = True) -> str:
        """Return a sentence on the bursts kept in the journal; "" for none. resume:
        advise `fleet resume`.
        """
        if self._run_id is None or self.bursts == 0:
            return ""
        bursts = "1 burst is" if self.bursts == 1 else f"{self.bursts} bursts are"
        text = f" {bursts} kept in the journal of {self._run_id}"
        return f"{text}; `fleet resume` measures the rest." if resume else f"{text}."

    def _make_outcome(
        self, state: State, message: str = "", code: int = 0, stage: str | None = None
    ) -> Outcome:
        if self.unrestored:
            message = " ".join(
                filter(None, (message or f"{self.host.name}:", self.unrestored))
            )
            code = code or errors.PreparationError.exit_code
        return Outcome(
            host=self.host,
            state=state,
            run_id=self._run_id,
            stage="done" if state is State.COMPLETE else stage or self._stage,
            message=hide_secrets(message, self.host.env.values()),
            exit_code=code,
            bursts=self.bursts,
            seconds=time.monotonic() - self._started,
            notes=tuple(self.notes),
        )

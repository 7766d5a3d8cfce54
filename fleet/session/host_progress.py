"""Follows one host: its stage, notes and bursts, sent as events; ends in an Outcome."""

import time
from collections.abc import Sequence
from dataclasses import replace

from fleet import errors
from fleet.agent.wire.asked import list_left_out
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.records import Record
from fleet.model import Burst, Failed, Hello, Host, Note, Run, RunState
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
        """Begin in the stage "connect", before there is a run. emit: receives the
        host's events.
        """
        self.host = host
        self.notes: list[str] = []
        self._emit = emit
        self._started = time.monotonic()
        self._stage = "connect"
        self._run_id: str | None = None
        self.bursts = 0  # how many the run's journal holds
        # how many bursts other work had disturbed, so that they were taken again
        self.again = 0
        # for the outcome: sentences on commands of `after` that failed
        self.failures_of_after = ""
        self._live_medians: LiveMedians | None = None  # None until there is a run
        self._medians: Medians = ()  # as last computed, at the time `_medians_at`
        self._medians_at = self._started

    def enter(self, stage: str, run: Run | None = None, detail: str = "") -> None:
        """Enter a stage and emit the event. run: None until it exists. detail: more on
        the stage, such as the command that runs in it, or what the host waits for.
        """
        self._stage = stage
        if run is not None:
            self._run_id = run.run_id
            if self._live_medians is None:
                cpus = cpus_to_measure(run.plan, run.facts)
                self._live_medians = LiveMedians(run.facts, cpus)
        self._emit(events.StageEntered(self.host, stage, detail))

    def note(self, *texts: str) -> None:
        """Add notes for the user and the run's record, secrets hidden. Of a host, keep
        the first MAX_NOTES, and then one that says that no further notes are kept.
        """
        for text in texts:
            if len(self.notes) > MAX_NOTES:  # the last one says that no more are kept
                return
            # cut well behind the limit: a secret across the limit is hidden whole
            note = hide_secrets(text[: 2 * NOTE_LIMIT], self.host.env.values())
            if len(note) > NOTE_LIMIT:
                note = f"{note[:NOTE_LIMIT]} … (truncated)"
            if len(self.notes) == MAX_NOTES:
                note = "further notes are not kept"
            self.notes.append(note)
            self._emit(events.NoteAdded(self.host, note))

    def log_command(self, stage: str, command: str, completed: Completed) -> None:
        """Emit a command of the inventory with its exit code and output, secrets
        hidden.
        """
        output = completed.stdout + completed.stderr
        text = hide_secrets(output.decode("utf-8", "replace"), self.host.env.values())
        code = completed.exit_code
        self._emit(events.CommandEnded(self.host, stage, command, code, text))

    def note_once(self, *texts: str) -> None:
        """Add those notes that the host does not have yet."""
        new = [text for text in texts if text not in self.notes]
        self.note(*new)

    def follow_record(self, record: Record, reader: Reader) -> None:
        """Count the agent's bursts, update their medians and add its notes.

        reader: of this agent's output; its `done` is what the run's earlier agents did.
        """
        if isinstance(record, Note):
            self.note(record.text)
        earlier = reader.done
        self.bursts = earlier.bursts + reader.bursts
        hello = reader.hello
        if hello is None:
            return
        if isinstance(record, Burst):
            self._update_medians(record, hello)
        visits = earlier.visits + reader.visits
        # `hello.bursts` counts the planned visits, each of which is to give one burst;
        # later rounds may add visits
        planned_visits = earlier.visits + hello.bursts
        progress = events.BurstsReceived(
            self.host,
            done=visits,
            total=max(visits, planned_visits),
            medians=self._medians,
            live_medians=self._live_medians,
        )
        self._emit(progress)

    def _update_medians(self, burst: Burst, hello: Hello) -> None:
        """Add a burst to the live medians. If the medians for events are older than
        MEDIANS_EVERY_S, compute them anew.
        """
        if self._live_medians is None:  # no run has been entered
            return
        self._live_medians.add(burst, hello)
        if time.monotonic() - self._medians_at >= MEDIANS_EVERY_S:
            self._medians = self._live_medians.compute_medians()
            self._medians_at = time.monotonic()

    def outcome_of_run(self, run: Run) -> Outcome:
        """Return the outcome of a published run: COMPLETE, or PARTIAL with the
        reason.
        """
        self.again = sum(failed.again for failed in run.failed)
        if run.state is RunState.COMPLETE:
            return self.completed_outcome()
        message = f"{self.host.name}: {_explain_partial(run)}"
        return self._make_outcome(State.PARTIAL, message, errors.EXIT_SOME_FAILED)

    def completed_outcome(self) -> Outcome:
        """Return the outcome of a host whose work is all done."""
        return self._make_outcome(State.COMPLETE)

    def outcome_of_error(self, err: Exception) -> Outcome:
        """Return the outcome of a host whose work ended by an error. The error is a bug
        in fleet unless fleet raised it or the system explains it.

        The message says what the journal keeps, unless the error is that the journal is
        lost. After a refusal or a wrong option there is no run to resume, so the host
        is given up.
        """
        prefix = f"{self.host.name}: "
        cause = find_cause(err, prefix)
        if cause is None:
            text = f"{prefix}{errors.describe_bug(err)}{self._journal_hint()}"
            return self._make_outcome(State.FAILED, text, errors.EXIT_BUG)
        hint = ""
        has_lost_journal = isinstance(cause, errors.StoreError) and cause.lost
        if not has_lost_journal:
            # the error itself may advise `fleet resume`, which is then not repeated
            names_resume = "`fleet resume" in str(cause)
            hint = self._journal_hint(resume=not names_resume)
        state = State.FAILED
        if isinstance(cause, errors.NotReadyError):
            state = State.NOT_READY
        outcome = self._make_outcome(
            state, f"{cause}{hint}", cause.exit_code, cause.stage
        )
        outcome = replace(outcome, reason=cause.reason)
        if isinstance(cause, errors.RefusedError | errors.UsageError):
            outcome = replace(outcome, given_up=True, run_id=None)
        return outcome

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
        hint = f" {bursts} kept in the journal of {self._run_id}"
        if resume:
            return f"{hint}; `fleet resume` measures the rest."
        return f"{hint}."

    def _make_outcome(
        self, state: State, message: str = "", code: int = 0, stage: str | None = None
    ) -> Outcome:
        """Return the host's outcome. Its message also says which commands of `after`
        failed. They leave the state as it is, but give an exit code if no other error
        does.

        stage: where the host ended; None: the stage entered last.
        """
        if self.failures_of_after:
            message = message or f"{self.host.name}:"
            message = f"{message} {self.failures_of_after}"
            code = code or errors.PreparationError.exit_code
        if state is State.COMPLETE:
            stage = "done"
        return Outcome(
            host=self.host,
            state=state,
            run_id=self._run_id,
            stage=stage or self._stage,
            message=hide_secrets(message, self.host.env.values()),
            exit_code=code,
            bursts=self.bursts,
            again=self.again,
            seconds=time.monotonic() - self._started,
            notes=tuple(self.notes),
        )


def find_cause(err: Exception, prefix: str) -> errors.FleetError | None:
    """Return the error to show: fleet's own, else one that explains the system's; None
    for a bug. prefix: put before an explanation of the system's error, which does not
    name the host.
    """
    if isinstance(err, errors.FleetError):
        return err
    return errors.explain(err, prefix)


def _explain_partial(run: Run) -> str:
    """Return why a stored run is not complete, as the rest of a sentence. Of several
    reasons, return the first.
    """
    if run.end is not None and run.end.out_of_time:
        return "the time budget ended in the first round; what was measured is stored."
    if run.missing:  # bursts that failed and were not taken again
        return _describe_failed(run.missing)
    left_out = list_left_out(run)  # benchmarks and CPUs
    if left_out:
        return f"the agent left out {', '.join(left_out)}; the others are stored."
    return "the run is incomplete; what had arrived is stored as a partial run."


def _describe_failed(failed: Sequence[Failed]) -> str:
    """Return how many bursts failed, and which failed first. If bursts killed their
    agent, name the first of these.
    """
    # `given_up` is set only for a burst that killed its agent
    killing = [burst for burst in failed if burst.given_up is not None]
    first = killing[0] if killing else failed[0]
    name = first.benchmark
    if first.point:
        name += f" {first.point}"
    return (
        f"{format_count(len(failed), 'burst')} failed, the others are stored; the first"
        f" failure: {name} {first.ping_cpu}-{first.pong_cpu}: {first.reason}."
    )

"""Completes a run over as many connections and agents as it takes; no visit is measured
twice.
"""

import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

from fleet.agent.measure import measure
from fleet.agent.wire import conversation
from fleet.agent.wire.asked import list_left_out
from fleet.agent.wire.conversation import Reader, RunSoFar
from fleet.agent.wire.records import Record
from fleet.errors import (
    AgentError,
    DataError,
    FleetError,
    LinkError,
    LockedError,
    RefusedError,
)
from fleet.facts.gather import ask_load
from fleet.model import Agent, Burst, Facts, Hello, Load, LockPolicy, Run, RunState
from fleet.plan.cpulist import format_cpus
from fleet.session.context import lock_owner
from fleet.session.host_progress import HostProgress
from fleet.session.link import HostLink, iter_retry_pauses_s
from fleet.store import Journal
from fleet.store.burst_columns import BurstColumns
from fleet.store.gate import check_machine
from fleet.text import format_count

MAX_DEATHS = 5  # of agents by a signal, in one session
KEPT_BYTES = 64 << 20  # of decoded bursts in memory, for all hosts at once
SLOW_SHARE = 0.8  # of the fastest CPU's frequency: a CPU below it is named
GROUP_SHARE = (
    0.9  # CPUs whose frequencies differ by no more than this are named together
)


def measure_run(
    link: HostLink, run: Run, journal: Journal, earlier: RunSoFar | None = None
) -> Run:
    """Measure what `earlier` lacks of `run`, over as many links and agents as it takes;
    return the run.
    """
    with (
        nullcontext()
        if link.lock is LockPolicy.OFF
        else link.context.wait_for_machine(run, link.progress)
    ):
        measurement = _Measurement(
            link, run, journal, earlier or restore_run_so_far(link, run, journal)
        )
        while (
            measurement.run_state.missing is not None
            and measurement.deaths < MAX_DEATHS
        ):
            try:
                measurement.measure_part()
            except LinkError as lost:
                measurement.recover(lost)
            except RefusedError:  # the journal is empty
                link.context.store.drop_journal(run.run_id)
                raise
    load = ask_load_after_run(link, run)
    link.close()
    return replace(
        complete_run(measurement.run, measurement.run_state, link.progress),
        load_after=load,
    )


def ask_load_after_run(link: HostLink, run: Run) -> Load:
    """Return the host's load after the run; if it is unknown, add a note and return an
    empty Load.
    """
    try:
        load = ask_load(link.connection, run.facts)
        check_machine(load)
    except (FleetError, DataError) as err:
        link.progress.note(f"load after the run is unknown: {err}")
        return Load()
    return load


def restore_run_so_far(link: HostLink, run: Run, journal: Journal) -> RunSoFar:
    """Read the run so far from its journal; if it is damaged, add a note and return the
    intact beginning.
    """
    journal.bursts = BurstColumns(KEPT_BYTES // link.context.parallel)
    run_state = conversation.read_run(journal.parts(), journal.bursts.add, run)
    if run_state.damage:
        journal.line_limits = run_state.lines
        link.progress.note_once(
            f"The journal of {run.run_id} is damaged: {run_state.damage}."
            f" {format_count(run_state.refused, 'line')}"
            f" {'is' if run_state.refused == 1 else 'are'} refused; every visit before"
            " is kept."
        )
    return run_state


def complete_run(run: Run, run_state: RunSoFar, progress: HostProgress) -> Run:
    """Return the run as it will be stored: with its state, end and notes, and what its
    agents reported.
    """
    progress.note_once(*run_state.notes)
    if run_state.hello is not None and (
        slower := describe_slower_cpus(run_state.hello)
    ):
        progress.note_once(slower)
    cut = run_state.end is not None and run_state.end.out_of_time
    run = replace(run, hello=run_state.hello, end=run_state.end)
    left_out = list_left_out(run)
    if left_out:
        progress.note(f"The agent left out {', '.join(left_out)}.")
    if run_state.parts > 1:
        progress.note(
            f"Measured in {run_state.parts} parts: the run was interrupted and"
            " continued."
        )
    return replace(
        run,
        ended_utc=max(
            utc_now(), run.started_utc
        ),  # the controller's clock may have been set back meanwhile
        state=(
            RunState.PARTIAL
            if run_state.failed or run_state.missing or cut or left_out
            else RunState.COMPLETE
        ),
        failed=run_state.failed,
        notes=tuple(dict.fromkeys([*run.notes, *progress.notes])),
    )


def publish_run(link: HostLink, run: Run, journal: Journal) -> Run:
    """Publish the run, remove its journal, and return the run. Raises StoreError."""
    # even if the session is cancelled: a complete run is stored
    link.progress.enter("store")
    journal.check_not_removed()
    journal.sync_if_large()
    in_memory = (
        journal.bursts if journal.bursts and not journal.bursts.overflowed else None
    )
    link.context.store.publish(
        run, in_memory or conversation.decode_bursts(journal.parts()), batch=True
    )
    return run


def require_same_machine(run: Run, facts: Facts, agent: Agent) -> None:
    """Raise AgentError unless machine, boot and agent build are those of the run."""
    for difference, before, present in (
        (
            "is another machine (by its machine id)",
            run.facts.machine_id,
            facts.machine_id,
        ),
        ("has been rebooted", run.facts.boot_id, facts.boot_id),
        ("would now get another build of the agent", run.agent.build, agent.build),
    ):
        if before != present:
            raise AgentError(
                f"{run.host.name}: cannot continue {run.run_id}: the host {difference}."
                " `fleet resume --publish-partial` stores what was measured; `fleet"
                " run` starts a new run."
            )


def utc_now() -> str:
    """Return the current time as runs record it: ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Measurement:
    """A run being measured: its state so far, and the deadline for reconnecting a
    broken link.
    """

    def __init__(
        self, link: HostLink, run: Run, journal: Journal, run_state: RunSoFar
    ) -> None:
        self.run = run
        self.run_state = run_state
        self._link = link
        self._journal = journal
        self._end_by = time.monotonic() + run.plan.deadline_s
        self._deadline_s: float | None = None
        self._visits = 0
        self.deaths = 0

    def measure_part(self) -> None:
        """Have one agent measure what is missing. If the machine is locked, wait or
        raise LockedError.
        """
        link = self._link
        self._visits = self.run_state.done.visits
        lock = None
        if link.lock is not LockPolicy.OFF:
            lock = (
                f"{self.run.run_id} {lock_owner()}, session {self.run.session_id},"
                f" since {utc_now()}"
            )
        left = max(1, round(self._end_by - time.monotonic()))
        run = replace(self.run, plan=replace(self.run.plan, deadline_s=left))
        self._journal.begin_part()
        for pause in iter_retry_pauses_s():
            link.enter("measure", run)
            try:
                self.run_state = measure(
                    link.connection,
                    run,
                    self.run_state,
                    self._journal,
                    link.context.cancellation.stop_on_request,
                    self._follow,
                    lock,
                )
            except LockedError as err:
                if link.lock is not LockPolicy.WAIT:
                    raise LockedError(
                        f"{err}; `--lock wait` waits for its end."
                    ) from err
                link.progress.note_once(str(err))
                link.progress.enter("wait")
                link.context.cancellation.pause(pause)
            else:
                break
        if self.run_state.missing is not None:
            self.deaths += 1
            self.run_state = restore_run_so_far(link, self.run, self._journal)

    def _follow(self, record: Record, reader: Reader) -> None:
        if isinstance(record, Burst) and self._journal.bursts is not None:
            self._journal.bursts.add(record)
        self._link.progress.follow_record(record, reader)

    def recover(self, lost: LinkError) -> None:
        """Reconnect, unless the run is complete. Raises `lost` if it is permanent or
        the time is up.
        """
        context = self._link.context
        context.cancellation.raise_if_requested()
        self.run_state = restore_run_so_far(self._link, self.run, self._journal)
        if self.run_state.missing is None:
            return
        if self._deadline_s is None or self.run_state.done.visits > self._visits:
            self._deadline_s = min(time.monotonic() + context.reconnect_s, self._end_by)
        if time.monotonic() >= self._deadline_s or not lost.passing:
            raise lost
        facts, agent = self._link.reconnect(lost, self._deadline_s)
        require_same_machine(self.run, facts, agent)
        self.run = replace(self.run, agent=replace(self.run.agent, path=agent.path))


def describe_slower_cpus(hello: Hello) -> str | None:
    """Return a sentence that names the CPUs slower than the fastest; None if none are
    known to be slower.
    """
    measured = hello.raw.get("core_mhz")
    if not isinstance(measured, list) or len(measured) != len(hello.cpus):
        return None
    mhz = {
        cpu: value
        for cpu, value in zip(hello.cpus, measured, strict=True)
        if isinstance(value, int)
    }
    fastest = max(mhz.values(), default=0)
    slow = sorted(
        (value, cpu) for cpu, value in mhz.items() if value < SLOW_SHARE * fastest
    )
    if not slow:
        return None
    groups: list[list[tuple[int, int]]] = []
    for value, cpu in slow:
        if not groups or GROUP_SHARE * value > groups[-1][-1][0]:
            groups.append([])
        groups[-1].append((value, cpu))
    named = " and ".join(
        f"CPU {format_cpus([cpu for _, cpu in group])} at {group[-1][0] / 1000:.2f} GHz"
        for group in groups
    )
    return (
        f"Before the run {named} ran slower than the fastest CPU at"
        f" {fastest / 1000:.2f} GHz: differences between CPUs may come from that, not"
        " from where they are."
    )

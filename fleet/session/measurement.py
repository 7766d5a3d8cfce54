"""Completes a run over as many connections and agents as it takes; no visit is measured
twice.
"""

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime

from fleet.agent.forecast import DAY_S
from fleet.agent.measure import measure
from fleet.agent.wire.asked import list_left_out
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.parts import RunSoFar, decode_bursts, read_run
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
from fleet.model import (
    Agent,
    Burst,
    Facts,
    Hello,
    Load,
    LockPolicy,
    Run,
    RunState,
    Via,
)
from fleet.plan.cpulist import format_cpus
from fleet.plan.forecast import format_seconds
from fleet.session.context import lock_owner
from fleet.session.host_progress import HostProgress
from fleet.session.link import HostLink, iter_retry_pauses_s
from fleet.store import Journal
from fleet.store.burst_columns import BurstColumns
from fleet.store.gate import check_machine
from fleet.text import format_count

MAX_DEATHS = 5  # of agents by a signal, in one session
LOCK_WAIT_S = DAY_S  # with --lock wait: the host alone says that another measures
KEPT_BYTES = 64 << 20  # of decoded bursts in memory, for all hosts at once
SLOW_SHARE = 0.8  # of the fastest CPU's frequency: a CPU below it is named
# CPUs whose frequencies differ by no more than this are named together
GROUP_SHARE = 0.9


class Measurement:
    """A run being measured: its journal, and what of it has arrived.

    The bursts stay decoded in memory, to be published from there, as long as they fit.
    """

    def __init__(self, link: HostLink, run: Run, journal: Journal) -> None:
        """Read what the journal holds of the run: nothing if the run is new."""
        self._link = link
        self._run = run
        self._journal = journal
        self._end_by = math.inf  # monotonic time; set when measuring begins
        self._reconnect_by: float | None = None  # monotonic; None: no link broke yet
        self._deaths = 0  # how many agents a signal killed
        self._read_journal()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to measure."""
        return self.run_so_far.missing is None

    def _read_journal(self) -> None:
        """Read the run so far from its journal; if it is damaged, add a note and keep
        the intact beginning.
        """
        # the hosts that are measured at once share the memory
        kept_bytes = KEPT_BYTES // self._link.context.parallel
        self._bursts = BurstColumns(kept_bytes)
        run_so_far = read_run(self._journal.parts(), self._bursts.add, self._run)
        self.run_so_far = run_so_far
        if run_so_far.damage:
            # from now on the journal is read up to its last intact line
            self._journal.line_limits = run_so_far.lines
            damage = _describe_damage(self._run, run_so_far, run_so_far.damage)
            self._link.progress.note_once(damage)

    def measure_missing(self) -> None:
        """Measure what the journal lacks, over as many links and agents as it takes;
        then close the link.
        """
        link = self._link
        began_s = time.monotonic()
        cpu_began_s = time.process_time()
        self._measure_parts()
        if self._run.host.via is Via.LOCAL:
            used_s = time.process_time() - cpu_began_s
            elapsed_s = time.monotonic() - began_s
            link.progress.note(_describe_own_work(used_s, elapsed_s))
        load = ask_load_after_run(link, self._run)
        self._run = replace(self._run, load_after=load)
        link.close()

    def _measure_parts(self) -> None:
        """Have agents measure what is missing, reconnecting where the link breaks."""
        link = self._link
        with self._hold_machine():
            self._end_by = time.monotonic() + self._run.plan.deadline_s
            while not self.is_complete and self._deaths < MAX_DEATHS:
                try:
                    self._measure_part()
                except LinkError as lost:
                    self._recover(lost)
                except RefusedError:  # before any burst: the journal has nothing
                    link.context.store.drop_journal(self._run.run_id)
                    raise

    def _hold_machine(self) -> AbstractContextManager[None]:
        """Return a context that waits until no other host of the session uses the
        machine, unless locks are off.
        """
        link = self._link
        if link.lock is LockPolicy.OFF:
            return nullcontext()
        return link.context.wait_for_machine(self._run, link.progress)

    def _measure_part(self) -> None:
        """Have one agent measure what is missing."""
        self._journal.begin_part()
        self.run_so_far = self._run_agent()
        if not self.is_complete:  # a signal killed the agent
            self._deaths += 1
            self._read_journal()

    def _run_agent(self) -> RunSoFar:
        """Run an agent for the time that is left; return the run so far. If another
        fleet has locked the machine, wait or raise LockedError.
        """
        link = self._link
        left_s = max(1, round(self._end_by - time.monotonic()))
        run = replace(self._run, plan=replace(self._run.plan, deadline_s=left_s))
        lock = self._describe_lock()
        pauses_s = iter_retry_pauses_s()
        began = time.monotonic()
        while True:
            link.enter("measure", run)
            try:
                return measure(
                    link.connection,
                    run,
                    self.run_so_far,
                    self._journal,
                    link.context.cancellation.stop_on_request,
                    self._follow,
                    lock,
                )
            except LockedError as err:
                waited_s = time.monotonic() - began
                self._wait_for_lock(err, waited_s, next(pauses_s))

    def _wait_for_lock(self, err: LockedError, waited_s: float, pause_s: float) -> None:
        """Wait before the next try. Raises LockedError if nobody asked for this, or
        after LOCK_WAIT_S.
        """
        link = self._link
        if link.lock is not LockPolicy.WAIT:
            raise LockedError(f"{err}; `--lock wait` waits for its end.") from err
        if waited_s >= LOCK_WAIT_S:
            raise LockedError(
                f"{err}; waited {format_seconds(waited_s)} for its end. See what holds"
                " the lock, then run again."
            ) from err
        link.progress.note_once(str(err))
        link.progress.enter("wait")
        link.context.cancellation.pause(pause_s)

    def _describe_lock(self) -> str | None:
        """Return what other fleets read while we hold the machine's lock: the run, who
        measures, the session and since when. None if locks are off.
        """
        if self._link.lock is LockPolicy.OFF:
            return None
        run = self._run
        return (
            f"{run.run_id} {lock_owner()}, session {run.session_id}, since {utc_now()}"
        )

    def _follow(self, record: Record, reader: Reader) -> None:
        if isinstance(record, Burst):
            self._bursts.add(record)
        self._link.progress.follow_record(record, reader)

    def _recover(self, lost: LinkError) -> None:
        """Reconnect, unless the run is complete. Raises `lost` if a new connection
        cannot help, or the time to reconnect is up. New visits begin that time anew.
        """
        context = self._link.context
        context.cancellation.raise_if_requested()
        visits_before = self.run_so_far.done.visits
        self._read_journal()
        if self.is_complete:
            return
        has_advanced = self.run_so_far.done.visits > visits_before
        if self._reconnect_by is None or has_advanced:
            patience_end = time.monotonic() + context.reconnect_s
            self._reconnect_by = min(patience_end, self._end_by)
        if time.monotonic() >= self._reconnect_by or not lost.is_transient:
            raise lost
        facts, agent = self._link.reconnect(lost, self._reconnect_by)
        self.continue_with(facts, agent)

    def continue_with(self, facts: Facts, agent: Agent) -> None:
        """Let this agent measure the rest. Raises AgentError if it is another build, or
        its machine another one or rebooted.
        """
        require_same_machine(self._run, facts, agent)
        same_build = replace(self._run.agent, path=agent.path)
        self._run = replace(self._run, agent=same_build)

    def publish(self) -> Run:
        """Publish what has arrived, remove the journal, and return the run as it is
        stored. Raises StoreError.
        """
        link = self._link
        if self.run_so_far.failed:  # then `done` tells whether bursts are lacking
            self._read_journal()  # adds the last agent's visits, which `done` lacks yet
        run = complete_run(self._run, self.run_so_far, link.progress)
        # even if the session is cancelled: a complete run is stored
        link.progress.enter("store")
        self._journal.check_not_removed()
        self._journal.sync_if_large()
        bursts: Iterable[Burst] | BurstColumns = self._bursts
        if self._bursts.overflowed:  # they did not fit in memory
            bursts = decode_bursts(self._journal.parts())
        link.context.store.publish(run, bursts, batch=True)
        return run


def _describe_damage(run: Run, run_so_far: RunSoFar, damage: str) -> str:
    """Return a note on a damaged journal: why, and how many lines are refused."""
    verb = "is" if run_so_far.refused == 1 else "are"
    return (
        f"The journal of {run.run_id} is damaged: {damage}."
        f" {format_count(run_so_far.refused, 'line')} {verb} refused; every visit"
        " before is kept."
    )


def _describe_own_work(used_s: float, elapsed_s: float) -> str:
    return (
        f"This machine measured itself: fleet's own work took {used_s:.1f} s of CPU"
        f" time in {elapsed_s:.1f} s."
    )


def ask_load_after_run(link: HostLink, run: Run) -> Load:
    """Return the host's load after the run; if it is unknown, add a note and return an
    empty Load.
    """
    try:
        load = ask_load(link.connection, run.facts)
        check_machine(load)  # raises DataError if no table can hold the load
    except (FleetError, DataError) as err:
        link.progress.note(f"load after the run is unknown: {err}")
        return Load()
    return load


def complete_run(run: Run, run_so_far: RunSoFar, progress: HostProgress) -> Run:
    """Return the run as it will be stored: with its state, end and notes, and what its
    agents reported.
    """
    run = replace(run, hello=run_so_far.hello, end=run_so_far.end)
    left_out = list_left_out(run)
    _add_notes(run_so_far, left_out, progress)
    is_cut = run_so_far.end is not None and run_so_far.end.out_of_time
    state = RunState.COMPLETE
    if run_so_far.lacks_bursts or run_so_far.missing or is_cut or left_out:
        state = RunState.PARTIAL
    # the controller's clock may have been set back meanwhile
    ended_utc = max(utc_now(), run.started_utc)
    notes = dict.fromkeys([*run.notes, *progress.notes])
    return replace(
        run,
        ended_utc=ended_utc,
        state=state,
        failed=run_so_far.failed,
        notes=tuple(notes),
    )


def _add_notes(
    run_so_far: RunSoFar, left_out: Sequence[str], progress: HostProgress
) -> None:
    """Add the agents' notes, and notes on CPUs, benchmarks and parts, to the host's."""
    progress.note_once(*run_so_far.notes)
    if run_so_far.hello is not None:
        slower = describe_slower_cpus(run_so_far.hello)
        if slower is not None:
            progress.note_once(slower)
    if left_out:
        progress.note(f"The agent left out {', '.join(left_out)}.")
    if run_so_far.parts > 1:
        progress.note(
            f"Measured in {run_so_far.parts} parts: the run was interrupted and"
            " continued."
        )


def require_same_machine(run: Run, facts: Facts, agent: Agent) -> None:
    """Raise AgentError unless machine, boot and agent build are those of the run."""
    if facts.machine_id != run.facts.machine_id:
        difference = "is another machine (by its machine id)"
    elif facts.boot_id != run.facts.boot_id:
        difference = "has been rebooted"
    elif agent.build != run.agent.build:
        difference = "would now get another build of the agent"
    else:
        return
    raise AgentError(
        f"{run.host.name}: cannot continue {run.run_id}: the host {difference}."
        " `fleet resume --publish-partial` stores what was measured; `fleet run` starts"
        " a new run."
    )


def utc_now() -> str:
    """Return the current time as runs record it: ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def describe_slower_cpus(hello: Hello) -> str | None:
    """Return a sentence that names the CPUs slower than the fastest; None if none are
    known to be slower.
    """
    mhz_by_cpu = _read_core_mhz(hello)
    fastest = max(mhz_by_cpu.values(), default=0)
    slow = [(mhz, cpu) for cpu, mhz in mhz_by_cpu.items() if mhz < SLOW_SHARE * fastest]
    if not slow:
        return None
    groups = _group_alike(sorted(slow))
    names = " and ".join(map(_describe_alike_cpus, groups))
    return (
        f"Before the run {names} ran slower than the fastest CPU at"
        f" {fastest / 1000:.2f} GHz: differences between CPUs may come from that, not"
        " from where they are."
    )


def _read_core_mhz(hello: Hello) -> dict[int, int]:
    """Return the frequency in MHz of each CPU that the agent measured."""
    frequencies = hello.raw.get("core_mhz")
    if not isinstance(frequencies, list) or len(frequencies) != len(hello.cpus):
        return {}
    by_cpu = zip(hello.cpus, frequencies, strict=True)
    return {cpu: mhz for cpu, mhz in by_cpu if isinstance(mhz, int)}


def _group_alike(slow: Iterable[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Group CPUs of about one frequency. slow: pairs of (MHz, CPU), the slowest first.
    A new group begins where the CPU before has less than GROUP_SHARE of the MHz.
    """
    groups: list[list[tuple[int, int]]] = []
    mhz_before = 0
    for mhz, cpu in slow:
        is_much_faster = mhz_before < GROUP_SHARE * mhz
        if not groups or is_much_faster:
            groups.append([])
        groups[-1].append((mhz, cpu))
        mhz_before = mhz
    return groups


def _describe_alike_cpus(group: Sequence[tuple[int, int]]) -> str:
    fastest_mhz, _ = group[-1]
    cpus = [cpu for _, cpu in group]
    return f"CPU {format_cpus(cpus)} at {fastest_mhz / 1000:.2f} GHz"

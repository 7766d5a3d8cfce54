"""Carries a run to its end, over as many links and agents as it takes, measuring nothing twice. Floor 4."""

import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

from fleet.agent.measure import Afterword, measure
from fleet.agent.wire import parts
from fleet.agent.wire.parts import Told
from fleet.agent.wire.records import WireError
from fleet.errors import AgentError, FleetError, LinkError, LockedError
from fleet.facts.gather import load_script, read_load, reread_load
from fleet.model import Agent, Facts, Load, LockPolicy, Run, RunState
from fleet.session.context import Session, who
from fleet.session.link import Way, pauses
from fleet.session.outcome import Story
from fleet.store import Journal


def carry_out(way: Way, run: Run, journal: Journal, session: Session, story: Story) -> Run:
    """Measure what the journal lacks of `run`; return the run as it ended, not yet stored.

    A link that breaks is dialled again for session.reconnect_s, anew whenever bursts have arrived since.
    """

    def waiting(why: str) -> None:
        story.tell(why)
        story.enter("wait")

    give_up: float | None = None
    after = Afterword(load_script(run.facts))
    said = heard(run, journal)
    alone = (session.lock or way.host.lock) is not LockPolicy.OFF
    with session.machines.turn(run, waiting, session.stopping.pause) if alone else nullcontext():
        end_by = time.monotonic() + run.plan.deadline_s
        while said.lacking is not None:
            had = said.done.visits
            try:
                said = _part(way, _with_time_left(run, end_by), journal, said, session, story, after)
            except LinkError as lost:
                session.stopping.check()
                after.lines.clear()
                said = heard(run, journal)
                if said.lacking is None:
                    break  # only the goodbye was lost
                if give_up is None or said.done.visits > had:
                    give_up = min(time.monotonic() + session.reconnect_s, end_by)
                if time.monotonic() >= give_up:
                    raise
                facts, agent = way.again(lost, give_up)
                check_same_machine(run, facts, agent)
                run = replace(run, agent=replace(run.agent, path=agent.path))
    load = read_load(b"\n".join(after.lines), run.facts) if after.lines else _load_after(way, run, story)
    way.close()
    return ended(run, said, story, load)


def heard(run: Run, journal: Journal) -> Told:
    """What the journal holds of the run. Raises AgentError where it cannot be trusted."""
    try:
        return parts.told(journal.parts())
    except WireError as err:
        raise AgentError(
            f"{run.host.name}: the journal of {run.run_id} cannot be trusted: {err}. It is kept as it is."
        ) from err


def ended(run: Run, said: Told, story: Story, load: Load | None = None) -> Run:
    """The run with what its agents said, as it is stored."""
    story.tell(*(note for note in said.notes if note not in story.notes))
    if said.parts > 1:
        story.tell(f"Measured in {said.parts} parts: the run was cut and taken up again.")
    partial = said.failed or said.lacking
    return replace(
        run,
        hello=said.hello,
        end=said.end,
        ended_utc=now(),
        state=RunState.PARTIAL if partial else RunState.COMPLETE,
        failed=said.failed,
        notes=tuple(dict.fromkeys([*run.notes, *story.notes])),
        load_after=load or Load(),
    )


def stored(run: Run, journal: Journal, session: Session, story: Story) -> Run:
    """Publish the run; its journal is gone afterwards."""
    story.enter("store")  # also when asked to stop: what is complete is stored
    journal.settle()
    session.store.publish(run, parts.bursts(journal.parts()))
    return run


def check_same_machine(run: Run, facts: Facts, agent: Agent) -> None:
    """Raise AgentError unless the run can go on there: same installation, same boot, same agent."""
    for what, before, present in (
        ("is another machine (by its machine id)", run.facts.machine_id, facts.machine_id),
        ("was booted anew since", run.facts.boot_id, facts.boot_id),
        ("would now get another build of the agent", run.agent.build, agent.build),
    ):
        if before != present:
            raise AgentError(
                f"{run.host.name}: cannot go on with {run.run_id}: the host {what}. `fleet resume "
                f"--publish-partial` stores what there is; `fleet run` measures anew."
            )


def now() -> str:
    """Say what time it is, as runs record it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_time_left(run: Run, end_by: float) -> Run:
    left = max(1, round(end_by - time.monotonic()))
    return replace(run, plan=replace(run.plan, deadline_s=left))


def _part(
    way: Way, run: Run, journal: Journal, said: Told, session: Session, story: Story, after: Afterword
) -> Told:
    """Have one agent measure what is missing; wait for another controller's if that is wanted."""
    lock, policy = None, session.lock or way.host.lock
    if policy is not LockPolicy.OFF:
        lock = f"{run.run_id} {who()}, session {run.session_id}, since {now()}"
    journal.begin_part()
    for pause in pauses():
        session.stopping.check()
        story.enter("measure", run)
        try:
            started = session.stopping.watch_stream
            reader = measure(way.connection, run, journal, started, story.hear, said.done, lock, after)
        except LockedError as err:
            if policy is not LockPolicy.WAIT:
                raise
            if str(err) not in story.notes:
                story.tell(str(err))
            story.enter("wait")
            session.stopping.pause(pause)
        else:
            return heard(run, journal) if said.parts else parts.of_one(reader)
    raise AssertionError("pauses never end")


def _load_after(way: Way, run: Run, story: Story) -> Load:
    """How the host is now, if that did not come with the agent's end; a link lost now costs no run."""
    try:
        return reread_load(way.connection, run.facts)
    except FleetError as err:
        story.tell(f"load after the run is unknown: {err}")
        return Load()

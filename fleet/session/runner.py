"""THE MAIN PATH: hosts in, runs out; one outcome per host, whatever happens to the others. Floor 4."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

from fleet import __version__
from fleet.errors import FleetError, RefusedError
from fleet.facts import noise
from fleet.model import Agent, Facts, Host, Run
from fleet.plan.estimate import expected, plan_on
from fleet.session.cancellation import Stopped, Stopping
from fleet.session.context import Connect, Session
from fleet.session.link import Way
from fleet.session.log import prune
from fleet.session.measurement import carry_out, now, stored
from fleet.session.outcome import Outcome, Story, Watcher
from fleet.store import Intent, new_run_id

__all__ = ["Connect", "Session", "on_each", "run", "run_host", "usable"]

DEFAULT_PARALLEL = 32
STOP_PATIENCE_S = 10.0  # after Ctrl-C: how long agents have to end before their connections are closed


def run(hosts: Sequence[Host], session: Session, parallel: int = DEFAULT_PARALLEL) -> list[Outcome]:
    """Measure `hosts`, at most `parallel` at once; one outcome per host, in the order given.

    Ctrl-C (KeyboardInterrupt in this thread) stops the agents; what arrived stays in the journals and
    every host still gets its outcome. What was to be done is noted first, for `fleet resume`.
    """
    names = tuple(host.name for host in hosts)
    intent = Intent(session.session_id, names, session.requested, session.labels)

    def measured(host: Host, story: Story) -> Outcome:
        return story.ended(run_host(host, session, story))

    with session.store.under_way(intent):
        prune(session.store)
        outcomes = on_each(hosts, measured, session.watcher, session.stopping, parallel)
        if all(outcome.settled for outcome in outcomes):
            session.store.ended(session.session_id)
    return outcomes


def on_each(
    hosts: Sequence[Host],
    work: Callable[[Host, Story], Outcome],
    watcher: Watcher,
    stopping: Stopping,
    parallel: int,
) -> list[Outcome]:
    """Do `work` for every host, at most `parallel` at once; what it raises becomes that host's outcome."""
    with ThreadPoolExecutor(min(parallel, len(hosts)), thread_name_prefix="host") as pool:
        futures = [pool.submit(_outcome, host, work, watcher, stopping) for host in hosts]
        try:
            wait(futures)
        except KeyboardInterrupt:
            stopping.ask()
            wait(futures, timeout=STOP_PATIENCE_S)
            stopping.cut()
        return [future.result() for future in futures]


def _outcome(
    host: Host, work: Callable[[Host, Story], Outcome], watcher: Watcher, stopping: Stopping
) -> Outcome:
    """Do one host's work and turn whatever happens into its outcome; never raises."""
    began = datetime.now(UTC)
    story = Story(host, watcher)
    try:
        outcome = work(host, story)
    except Stopped:
        outcome = story.interrupted()
    except FleetError as err:
        outcome = story.interrupted() if stopping.asked else story.failed(err)
    except Exception as err:  # a bug on one host's path must not cost the others their runs
        outcome = story.crashed(err)
    outcome = replace(outcome, seconds=(datetime.now(UTC) - began).total_seconds())
    watcher.finished(outcome)
    return outcome


def run_host(host: Host, session: Session, story: Story) -> Run:
    """Take one host from its inventory entry to a stored run."""
    session.stopping.check()
    story.enter("connect")
    with Way(host, session, story) as way:
        facts, agent = way.ready()
        story.tell(*facts.notes, *noise.serious(facts))
        run = _new_run(host, facts, agent, session)
        story.expect(expected(run.plan, usable(facts)))
        try:
            with session.store.journal(replace(run, notes=tuple(story.notes))) as journal:
                ended = carry_out(way, run, journal, session, story)
                return stored(ended, journal, session, story)
        except RefusedError:
            session.store.drop(run.run_id)  # nothing is in it, and nothing will be
            raise


def _new_run(host: Host, facts: Facts, agent: Agent, session: Session) -> Run:
    return Run(
        run_id=new_run_id(),
        session_id=session.session_id,
        host=host,
        plan=plan_on(host, session.requested, facts),
        facts=facts,
        agent=agent,
        started_utc=now(),
        labels=MappingProxyType({**host.labels, **session.labels}),
        fleet_version=__version__,
    )


def usable(facts: Facts) -> int:
    """How many CPUs the host lets us measure on."""
    return sum(cpu.allowed and cpu.online for cpu in facts.cpus)

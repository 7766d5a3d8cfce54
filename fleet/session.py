"""THE MAIN PATH: hosts in, runs out; one outcome per host, whatever happens to the others. Floor 4."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType

from fleet import __version__
from fleet.agent import wire
from fleet.agent.build import Builder
from fleet.agent.deploy import deploy
from fleet.agent.measure import measure
from fleet.errors import FleetError
from fleet.facts import noise
from fleet.facts.gather import gather, reread_load
from fleet.model import Agent, Facts, Host, Load, PlanWish, Run, RunState
from fleet.outcomes import Outcome, Story, Watcher
from fleet.planning import expected, plan_on
from fleet.remote.connection import Connection
from fleet.stopping import Stopped, Stopping
from fleet.store import Store, new_run_id

DEFAULT_PARALLEL = 32
STOP_PATIENCE_S = 10.0  # after Ctrl-C: how long agents have to end before their connections are closed

Connect = Callable[[Host], AbstractContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class Session:
    """One `fleet run`: what all its hosts share. `connect` is the one thing a test replaces.

    wish: what the command line asks of the plan; it wins over each host's own wishes.
    """

    session_id: str
    store: Store
    watcher: Watcher
    connect: Connect
    wish: PlanWish = field(default_factory=PlanWish)
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    builder: Builder = field(default_factory=Builder)
    stopping: Stopping = field(default_factory=Stopping)


def run(hosts: Sequence[Host], session: Session, parallel: int = DEFAULT_PARALLEL) -> list[Outcome]:
    """Measure `hosts`, at most `parallel` at once; one outcome per host, in the order given.

    Ctrl-C (KeyboardInterrupt in this thread) stops the agents; what arrived stays in the journals and
    every host still gets its outcome.
    """

    def measured(host: Host, story: Story) -> Outcome:
        return story.ended(run_host(host, session, story))

    return on_each(hosts, measured, session.watcher, session.stopping, parallel)


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

    def enter(stage: str, run: Run | None = None) -> None:
        session.stopping.check()
        story.enter(stage, run)

    enter("connect")
    with session.connect(host) as connection, session.stopping.watching(connection):
        story.tell(*connection.notes)
        enter("facts")
        facts = gather(connection, host)
        story.tell(*facts.notes, *noise.serious(facts))
        enter("deploy")
        agent = deploy(connection, host, facts, session.builder, story.tell)
        run = _new_run(host, facts, agent, session)
        enter("measure", run)
        story.expect(expected(run.plan, usable(facts)))
        with session.store.journal(run) as journal:
            said = measure(connection, run, journal, session.stopping.watch_stream, story.hear)
        load_after = _load_after(connection, story)
    story.enter("store")  # also when asked to stop: what is complete is stored
    run = replace(
        run,
        hello=said.hello,
        end=said.end,
        ended_utc=_now(),
        state=RunState.PARTIAL if said.failed else RunState.COMPLETE,
        failed=tuple(said.failed),
        notes=tuple(story.notes),
        load_after=load_after,
    )
    session.store.publish(run, wire.bursts(journal.lines(), said.hello))
    return run


def _load_after(connection: Connection, story: Story) -> Load:
    """How the host was when the agent had ended; a link lost now must not cost the run."""
    try:
        return reread_load(connection)
    except FleetError as err:
        story.tell(f"load after the run is unknown: {err}")
        return Load()


def _new_run(host: Host, facts: Facts, agent: Agent, session: Session) -> Run:
    return Run(
        run_id=new_run_id(),
        session_id=session.session_id,
        host=host,
        plan=plan_on(host, session.wish, facts),
        facts=facts,
        agent=agent,
        started_utc=_now(),
        labels=MappingProxyType({**host.labels, **session.labels}),
        fleet_version=__version__,
    )


def usable(facts: Facts) -> int:
    """How many CPUs the host lets us measure on."""
    return sum(cpu.allowed and cpu.online for cpu in facts.cpus)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

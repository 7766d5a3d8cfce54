"""THE MAIN PATH: hosts in, runs out; one outcome per host, whatever happens to the others."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from fleet.errors import BuildError, FleetError, StoreError, explain, print_traceback
from fleet.facts import systems
from fleet.model import Agent, Facts, Host, Plan, Run, merged
from fleet.model.version import VERSION
from fleet.plan import counters
from fleet.plan.merge import plan_on
from fleet.plan.options import of_host
from fleet.remote.cancellation import Cancelled
from fleet.session.context import HostAccess, SessionContext
from fleet.session.events import HostFinished
from fleet.session.host_progress import HostProgress
from fleet.session.link import HostLink
from fleet.session.log import prune
from fleet.session.measurement import measured, now
from fleet.session.outcome import Outcome
from fleet.store import Intent, new_run_id

STOP_PATIENCE_S = 10.0  # after Ctrl-C: how long agents have to end before their connections are closed


def run(hosts: Sequence[Host], context: SessionContext) -> list[Outcome]:
    """Measure `hosts`; one outcome per host, in the order given.

    Ctrl-C (KeyboardInterrupt in this thread) stops the agents; what arrived stays in the journals and
    every host still gets its outcome. What is to be measured is recorded first, for `fleet resume`.
    """
    intent = intent_of(hosts, context)

    def measured(progress: HostProgress) -> Outcome:
        return progress.stored(run_host(HostLink(context, progress)))

    with context.store.under_way(intent):
        prune(context.store)
        outcomes = with_tables(on_each(hosts, measured, context), context)
        if all(outcome.settled for outcome in outcomes):
            context.store.ended(context.session_id)
    return outcomes


def intent_of(hosts: Sequence[Host], context: SessionContext) -> Intent:
    """What is noted of the session before it begins."""
    names = tuple(host.name for host in hosts)
    listed = {host.name: {"address": host.address, "labels": dict(host.labels)} for host in hosts}
    return Intent(context.session_id, names, context.requested, context.labels, listed)


def with_tables(outcomes: list[Outcome], context: SessionContext) -> list[Outcome]:
    """Write what the tables of runs lack; where that fails the outcomes say so, since the runs are stored."""
    try:
        context.store.flush()
    except StoreError as err:
        note = f"{err} The samples are stored; the next listing of runs writes the tables."
        return [replace(outcome, notes=(*outcome.notes, note)) for outcome in outcomes]
    return outcomes


def on_each(
    hosts: Sequence[Host], work: Callable[[HostProgress], Outcome], access: HostAccess
) -> list[Outcome]:
    """Do `work` for every host, several at once; an exception becomes that host's outcome."""
    if not hosts:
        return []
    with ThreadPoolExecutor(min(access.parallel, len(hosts)), thread_name_prefix="host") as pool:
        futures = [pool.submit(_outcome, host, work, access) for host in hosts]
        try:
            wait(futures)
        except KeyboardInterrupt:
            access.cancellation.request()
            wait(futures, timeout=STOP_PATIENCE_S)
            access.cancellation.close_all()
        return [future.result() for future in futures]


def _outcome(host: Host, work: Callable[[HostProgress], Outcome], access: HostAccess) -> Outcome:
    """Do one host's work and turn whatever happens into its outcome; never raises."""
    progress = HostProgress(host, access.emit)
    try:
        outcome = work(progress)
    except Cancelled:
        outcome = progress.interrupted()
    except FleetError as err:
        outcome = progress.interrupted() if access.cancellation.requested else progress.failed(err)
    except Exception as err:  # a bug on one host's path must not cost the others their runs
        print_traceback(err)
        cause = explain(err, f"{host.name}: ")
        outcome = progress.failed(cause) if cause else progress.crashed(err)
    access.emit(HostFinished(outcome))
    return outcome


def run_host(link: HostLink) -> Run:
    """Take one host from its inventory entry to a stored run."""
    with link:
        facts, agent = link.ready(partial(_check, link))
        link.progress.note(*facts.notes, *systems.serious(facts))
        run = _new_run(link, facts, agent)
        events = merged(of_host(link.host), link.context.requested).counters
        if events and (lacking := counters.missing(events, facts)):
            link.progress.note(lacking)
        store = link.context.store
        with store.journal(replace(run, notes=tuple(link.progress.notes))) as journal:
            return measured(link, run, journal)


def _check(link: HostLink, facts: Facts) -> None:
    """Raise UsageError or RefusedError for a plan that the host cannot carry out, as far as we can tell."""
    if not facts.cpus:
        return
    plan = plan_on(link.host, link.context.requested, facts)
    with suppress(BuildError):  # then the host's own agent is asked
        link.context.forecaster.of_facts(link.host, facts, plan, build=False)


def _planned(link: HostLink, facts: Facts, agent: Agent) -> Plan:
    """The host's plan, of which the agent there tells how long it takes."""
    host, context = link.host, link.context
    plan = plan_on(host, context.requested, facts)
    forecast = context.forecaster.on_host(link.connection, host, agent.path, plan)
    link.progress.expect(forecast.duration)
    if context.requested.deadline_s is not None:
        return plan
    return replace(plan, deadline_s=forecast.deadline_s)


def _new_run(link: HostLink, facts: Facts, agent: Agent) -> Run:
    host, context = link.host, link.context
    return Run(
        run_id=new_run_id(),
        session_id=context.session_id,
        host=host,
        plan=_planned(link, facts, agent),
        facts=facts,
        agent=agent,
        started_utc=now(),
        labels=MappingProxyType({**host.labels, **context.labels}),
        fleet_version=VERSION,
    )

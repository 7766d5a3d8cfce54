"""The main path: hosts in, runs out; one outcome per host, whatever happens to the others."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from fleet.errors import BuildError, FleetError, StoreError, explain, print_traceback
from fleet.facts import systems
from fleet.hostnames import strip_host_name
from fleet.model import Agent, Facts, Host, Run, override_options
from fleet.model.version import VERSION
from fleet.plan import counters
from fleet.plan.merge import merge_plan_with_facts
from fleet.plan.options import options_from_entry
from fleet.remote.cancellation import Cancelled
from fleet.remote.connect import connect
from fleet.session.context import HostAccess, SessionContext
from fleet.session.events import EventHandler, HostFinished
from fleet.session.host_progress import HostProgress
from fleet.session.link import HostLink
from fleet.session.log import SessionLog, prune_logs
from fleet.session.measurement import measure_run, publish_run, utc_now
from fleet.session.outcome import Outcome
from fleet.session.readiness import gather_ready_facts, prepare_host
from fleet.store import Failure, Intent, Store, new_run_id

STOP_PATIENCE_S = 10.0  # after Ctrl-C: how long agents have to end before their connections are closed


def make_context(
    store: Store, session_id: str, emit: EventHandler, timeout_s: float, **settings: Any
) -> tuple[SessionContext, str]:
    """Return what the hosts of a session share, and the folder of its logs. settings: of SessionContext."""
    log = SessionLog(store.state_dir / "logs" / session_id, emit)
    reach = partial(connect, timeout_s=timeout_s)
    context = SessionContext(session_id=session_id, store=store, emit=log, connect=reach, **settings)
    return context, str(log.folder)


def run_session(hosts: Sequence[Host], context: SessionContext) -> list[Outcome]:
    """Measure `hosts`; return their outcomes, in the order given.

    The intent is recorded first, for `fleet resume`. Ctrl-C (KeyboardInterrupt in this thread) stops the
    agents; the journals keep what arrived, and every host still gets its outcome.
    """

    def measure_host(progress: HostProgress) -> Outcome:
        return progress.outcome_of_run(run_host(HostLink(context, progress)))

    intent = make_intent(hosts, context)
    with context.store.hold_session(intent):
        prune_logs(context.store)
        outcomes = flush_tables(run_on_each(hosts, measure_host, context), context)
        settle_session(context.store, intent, outcomes, intent.hosts)
    return outcomes


def settle_session(store: Store, intent: Intent, outcomes: Sequence[Outcome], names: Collection[str]) -> bool:
    """End the session if all hosts of these names are settled; else note why not, for `fleet show`."""
    unsettled = {outcome.host.name: outcome for outcome in outcomes if not outcome.is_settled}
    if set(names) <= {outcome.host.name for outcome in outcomes} - set(unsettled):
        store.end_session(intent.session_id)
        return True
    failures = {
        name: Failure(strip_host_name(outcome.host, outcome.message) or str(outcome.state), utc_now())
        for name, outcome in unsettled.items()
    }
    with suppress(StoreError):  # the outcomes say the same
        store.note_failures(intent, failures)
    return False


def make_intent(hosts: Sequence[Host], context: SessionContext) -> Intent:
    """Return the session's plan, recorded before it starts."""
    names = tuple(host.name for host in hosts)
    listed = {host.name: {"address": host.address, "labels": dict(host.labels)} for host in hosts}
    return Intent(
        *(context.session_id, names, context.requested, context.labels, listed),
        require=context.require,
        wait_s=context.wait_s,
    )


def flush_tables(outcomes: list[Outcome], context: SessionContext) -> list[Outcome]:
    """Write the tables of runs; if that fails, note it in the outcomes: the samples are stored."""
    try:
        context.store.flush()
    except StoreError as err:
        note = f"{err} The samples are stored; the next listing of runs writes the tables."
        return [replace(outcome, notes=(*outcome.notes, note)) for outcome in outcomes]
    return outcomes


def run_on_each(
    hosts: Sequence[Host], work: Callable[[HostProgress], Outcome], access: HostAccess
) -> list[Outcome]:
    """Do `work` for every host, several at once; an exception becomes that host's outcome."""
    if not hosts:
        return []
    with ThreadPoolExecutor(min(access.parallel, len(hosts)), thread_name_prefix="host") as pool:
        futures = [pool.submit(_run_one, host, work, access) for host in hosts]
        try:
            wait(futures)
        except KeyboardInterrupt:
            access.cancellation.request()
            wait(futures, timeout=STOP_PATIENCE_S)
            access.cancellation.close_all()
        return [future.result() for future in futures]


def _run_one(host: Host, work: Callable[[HostProgress], Outcome], access: HostAccess) -> Outcome:
    """Do one host's work and turn whatever happens into its outcome; never raises."""
    progress = HostProgress(host, access.emit)
    try:
        outcome = work(progress)
    except Cancelled:
        outcome = progress.interrupted_outcome()
    except FleetError as err:
        outcome = (
            progress.interrupted_outcome()
            if access.cancellation.is_requested
            else progress.outcome_of_error(err)
        )
    except Exception as err:  # a bug on one host's path must not cost the others their runs
        print_traceback(err)
        cause = explain(err, f"{host.name}: ")
        outcome = progress.outcome_of_error(cause) if cause else progress.outcome_of_bug(err)
    access.emit(HostFinished(outcome))
    return outcome


def run_host(link: HostLink) -> Run:
    """Take one host from its inventory entry to a stored run."""
    with link, prepare_host(link):
        facts = gather_ready_facts(link)
        require_feasible_plan(link, facts)
        facts, agent = link.deploy_agent(facts)
        run = plan_run(link, facts, agent)
        with link.context.store.new_journal(run) as journal:
            run = measure_run(link, run, journal)
            return publish_run(link, run, journal)


def require_feasible_plan(link: HostLink, facts: Facts) -> None:
    """Raise UsageError or RefusedError if an agent that is already here refuses the plan for this machine."""
    if not facts.cpus:
        return
    plan = merge_plan_with_facts(link.host, link.context.requested, facts)
    with suppress(BuildError):  # then the host's own agent is asked
        link.context.forecaster.from_facts(link.host, facts, plan, build=False)


def plan_run(link: HostLink, facts: Facts, agent: Agent) -> Run:
    """Return the run that is about to be measured; its deadline is that of the agent's forecast, or given."""
    host, context, progress = link.host, link.context, link.progress
    progress.note(*facts.notes, *systems.describe_serious_findings(facts))
    plan = merge_plan_with_facts(host, context.requested, facts)
    forecast = context.forecaster.from_host(link.connection, host, agent.path, plan)
    progress.announce_duration(forecast.duration)
    if context.requested.deadline_s is None:
        plan = replace(plan, deadline_s=forecast.deadline_s)
    events = override_options(options_from_entry(host), context.requested).counters
    if events and (missing := counters.describe_missing(events, facts)):
        progress.note(missing)
    return Run(
        run_id=new_run_id(),
        session_id=context.session_id,
        host=host,
        plan=plan,
        facts=facts,
        agent=agent,
        started_utc=utc_now(),
        labels=MappingProxyType({**host.labels, **context.labels}),
        fleet_version=VERSION,
        notes=tuple(progress.notes),
    )

"""The main path: hosts in, runs out; one outcome per host, whatever happens to the
others.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fleet.agent.forecast import Forecast, choose_deadline_s
from fleet.agent.wire.parts import RunSoFar
from fleet.errors import (
    FleetError,
    StoreError,
    UsageError,
    print_traceback_if_debugging,
)
from fleet.facts import systems
from fleet.hostnames import strip_host_name
from fleet.model import FORECAST, Agent, Facts, Host, Run
from fleet.model.version import VERSION
from fleet.plan import counters
from fleet.plan.merge import merge_plan_with_facts
from fleet.plan.options import options_for_host
from fleet.remote.cancellation import Cancelled
from fleet.remote.connect import connect
from fleet.session.context import HostAccess, SessionContext
from fleet.session.events import DurationEstimated, EventHandler, HostFinished, Outcome
from fleet.session.host_progress import HostProgress
from fleet.session.link import HostLink
from fleet.session.log import SessionLog, prune_logs
from fleet.session.measurement import Measurement, utc_now
from fleet.store import Failure, Intent, Store, new_run_id
from fleet.text import hide_secrets

Measure = Callable[[Sequence[Host], SessionContext], list[Outcome]]
# after Ctrl-C: how long agents have to end before their connections are closed
STOP_PATIENCE_S = 10.0


def make_context(
    store: Store, session_id: str, emit: EventHandler, timeout_s: float, **settings: Any
) -> SessionContext:
    """Return the context of a session that writes logs. settings: further fields of
    SessionContext.
    """
    log = SessionLog(store.state_dir / "logs" / session_id, emit)
    reach = functools.partial(connect, timeout_s=timeout_s)
    return SessionContext(
        session_id=session_id,
        store=store,
        emit=log,
        connect=reach,
        log_folder=str(log.folder),
        **settings,
    )


def measure_each(
    hosts: Sequence[Host],
    context: SessionContext,
    runs: Mapping[str, Run] = MappingProxyType({}),
    *,
    partial: bool = False,
) -> list[Outcome]:
    """Measure `hosts`, then write the tables. If writing them fails, add a note to each
    outcome.

    runs: those that continue from their journals, by host name. partial: publish the
    journals as they are.
    """

    def measure_host(progress: HostProgress) -> Outcome:
        link = HostLink(context, progress)
        run = runs.get(progress.host.name)
        if run is None:
            stored = run_host(link)
        else:
            stored = resume_host(link, run, partial=partial)
        return progress.outcome_of_run(stored)

    outcomes = run_on_each(hosts, measure_host, context)
    try:
        context.store.flush()
    except StoreError as err:
        note = (
            f"{err} The samples are stored; the next listing of runs writes the tables."
        )
        return [replace(outcome, notes=(*outcome.notes, note)) for outcome in outcomes]
    return outcomes


def run_session(
    hosts: Sequence[Host], context: SessionContext, measure: Measure = measure_each
) -> list[Outcome]:
    """Measure `hosts`; return their outcomes, in the order given.

    The intent is recorded first, for `fleet resume`. Ctrl-C (KeyboardInterrupt in this
    thread) stops the agents; the journals keep what arrived, and every host still gets
    its outcome.
    """
    names = tuple(host.name for host in hosts)
    entries = {
        host.name: {"address": host.address, "labels": dict(host.labels)}
        for host in hosts
    }
    intent = Intent(
        context.session_id,
        names,
        context.requested,
        context.labels,
        entries,
        require=context.require,
        wait_s=context.wait_s,
    )
    with context.store.hold_session(intent):
        prune_logs(context.store)
        outcomes = measure(hosts, context)
        end_if_settled(context.store, intent, outcomes, names)
    return outcomes


def end_if_settled(
    store: Store, intent: Intent, outcomes: Sequence[Outcome], names: Collection[str]
) -> bool:
    """End the session and return True if all hosts named are settled, that is, their
    runs are stored or given up. Else note why not, for `fleet show`; return False.
    """
    settled = {outcome.host.name for outcome in outcomes if outcome.is_settled}
    if settled.issuperset(names):
        store.end_session(intent.session_id)
        return True
    failures = {
        outcome.host.name: _describe_failure(outcome)
        for outcome in outcomes
        if not outcome.is_settled
    }
    with suppress(StoreError):  # the outcomes say the same
        store.note_failures(intent, failures)
    return False


def _describe_failure(outcome: Outcome) -> Failure:
    """Return what `fleet show` says of a host that is not settled, without the words of
    its commands.
    """
    host = outcome.host
    message = strip_host_name(host, outcome.message) or str(outcome.state)
    message = hide_secrets(message, (*host.before, *host.after))
    return Failure(message, utc_now(), outcome.reason, outcome.stage)


def run_on_each(
    hosts: Sequence[Host], work: Callable[[HostProgress], Outcome], access: HostAccess
) -> list[Outcome]:
    """Do `work` for every host, several at once; an exception becomes that host's
    outcome.
    """
    if not hosts:
        return []
    threads = min(access.parallel, len(hosts))
    with ThreadPoolExecutor(threads, thread_name_prefix="host") as pool:
        futures = [pool.submit(_run_one, host, work, access) for host in hosts]
        try:
            wait(futures)
        except KeyboardInterrupt:
            access.cancellation.request_and_stop_streams()
            wait(futures, timeout=STOP_PATIENCE_S)  # agents end by themselves
            access.cancellation.close_all()  # the others lose their connections
        return [future.result() for future in futures]


def _run_one(
    host: Host, work: Callable[[HostProgress], Outcome], access: HostAccess
) -> Outcome:
    """Do one host's work and turn whatever happens into its outcome; never raises."""
    progress = HostProgress(host, access.emit)
    try:
        outcome = work(progress)
    except Cancelled:
        outcome = progress.interrupted_outcome()
    except FleetError as err:
        if access.cancellation.is_requested:
            outcome = progress.interrupted_outcome()
        else:
            outcome = progress.outcome_of_error(err)
    except Exception as err:
        # a bug on one host's path must not cost the others their runs
        print_traceback_if_debugging(err)
        outcome = progress.outcome_of_error(err)
    access.emit(HostFinished(outcome))
    return outcome


def run_host(link: HostLink) -> Run:
    """Measure one host: prepare it, deploy an agent, measure and store the run; return
    the run.
    """
    with link.connect_and_prepare():
        facts = link.gather_facts_when_ready()
        forecast = forecast_before_deploying(link, facts)
        facts, agent = link.deploy_agent(facts)
        run = plan_run(link, facts, agent, forecast)
        with link.context.store.new_journal(run) as journal:
            measurement = Measurement(link, run, journal)
            measurement.measure_missing()
            return measurement.publish()


def resume_host(link: HostLink, run: Run, *, partial: bool = False) -> Run:
    """Finish one run from its journal: measure what is missing, if anything, and store
    it.
    """
    link.enter("journal", run)
    with link.context.store.reopen_journal(run.run_id) as journal:
        measurement = Measurement(link, run, journal)
        link.progress.bursts = measurement.run_so_far.done.bursts
        if partial or measurement.is_complete:
            drop_and_raise_if_empty(link, measurement.run_so_far, run)
            return measurement.publish()
        link.benchmarks = run.plan.benchmarks  # not those requested now
        with link.connect_and_prepare():
            facts, agent = link.deploy_agent(link.gather_facts_when_ready())
            measurement.continue_with(facts, agent)
            measurement.measure_missing()
            return measurement.publish()


def drop_and_raise_if_empty(link: HostLink, run_so_far: RunSoFar, run: Run) -> None:
    """If no agent's output has arrived, remove the journal and raise UsageError."""
    if run_so_far.hello is None:
        link.context.store.drop_journal(run.run_id)
        raise UsageError(
            f"{link.host.name}: nothing of {run.run_id} had arrived; its journal is"
            " removed."
        )


def forecast_before_deploying(link: HostLink, facts: Facts) -> Forecast | None:
    """Forecast the plan for this machine; return None if no agent here can. Raises
    UsageError or RefusedError before an agent is sent or built for a refused plan.
    """
    if not facts.cpus:
        return None
    plan = merge_plan_with_facts(link.host, link.context.requested, facts)
    return link.context.forecaster.from_facts_if_built(link.host, facts, plan)


def plan_run(
    link: HostLink, facts: Facts, agent: Agent, forecast: Forecast | None
) -> Run:
    """Return the run about to be measured. Its deadline is the requested one, or else
    comes from the forecast. forecast: None: ask the agent on the host for one.
    """
    host = link.host
    context = link.context
    link.progress.note(*facts.notes)
    link.progress.note(*systems.describe_serious_findings(facts))
    plan = merge_plan_with_facts(host, context.requested, facts)
    if forecast is None:
        ask = context.forecaster.from_host
        forecast = ask(link.connection, host, agent.path, plan)
    context.emit(DurationEstimated(host, forecast.duration))
    if forecast.advice:
        link.progress.note(f"{FORECAST} {forecast.duration}. {forecast.advice}")
    deadline_s = choose_deadline_s(host, context.requested, plan, forecast)
    plan = replace(plan, deadline_s=deadline_s)
    options = options_for_host(host, context.requested)
    if options.counters:
        unknown_events = counters.describe_unknown_events(options.counters, facts)
        if unknown_events:
            link.progress.note(unknown_events)
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
        notes=tuple(link.progress.notes),
    )

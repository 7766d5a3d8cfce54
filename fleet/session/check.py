"""`fleet check`: what disturbs each host and what a run would do there; changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleet.agent.build.on_controller import Builder
from fleet.agent.deploy import preview
from fleet.agent.forecast import Forecaster
from fleet.errors import BuildError
from fleet.facts.gather import look, raw_lines, reread_load, survey
from fleet.facts.systems import findings
from fleet.model import Facts, Finding, Host, Plan, RequestedOptions
from fleet.plan.forecast import Forecast
from fleet.plan.merge import plan_on
from fleet.remote.connection import Connection
from fleet.session.context import HostAccess
from fleet.session.host_progress import HostProgress
from fleet.session.outcome import Outcome
from fleet.session.runner import on_each

SFTP_TIMEOUT_S = 20.0
STEAL_GAP_S = 1.0  # between two readings of the CPU time that the hypervisor has taken


@dataclass(frozen=True, slots=True)
class Intended:
    """What `fleet run` would do on a host: how the agent is deployed, a forecast, or `why` there is none."""

    agent: str
    plan: Plan
    forecast: Forecast | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """A host's outcome, facts and findings. reported: what a QNX host said of itself, verbatim."""

    outcome: Outcome
    facts: Facts | None = None
    findings: tuple[Finding, ...] = ()
    intended: Intended | None = None
    reported: tuple[str, ...] = ()


def check(
    hosts: Sequence[Host], access: HostAccess, requested: RequestedOptions | None = None
) -> list[Checked]:
    """Check `hosts`, a result each, in order; one that cannot be measured keeps its findings."""
    found: dict[str, dict[str, Any]] = {host.name: {} for host in hosts}
    forecaster = Forecaster(Builder(connect=access.connection, cancellation=access.cancellation))

    def work(progress: HostProgress) -> Outcome:
        host = progress.host
        access.cancellation.check()
        progress.enter("connect")
        with access.connection(host) as connection:
            progress.enter("facts")
            answer = look(connection, host)
            known = found[host.name]
            known["reported"] = _reported(connection, answer)
            facts, unusable = survey(answer, host)
            progress.enter("noise")
            access.cancellation.pause(STEAL_GAP_S)
            known |= {"facts": facts, "findings": findings(facts, reread_load(connection, facts))}
            if unusable is not None:
                raise unusable
            progress.enter("plan")  # may build an agent here, to ask it
            asked = requested or RequestedOptions()
            known["intended"] = _intended(connection, host, facts, asked, forecaster)
        return progress.complete()

    return [Checked(outcome, **found[outcome.host.name]) for outcome in on_each(hosts, work, access)]


def _reported(connection: Connection, answer: str) -> tuple[str, ...]:
    lines = raw_lines(answer)
    if not lines:
        return ()
    with connection.sftp(SFTP_TIMEOUT_S) as sftp:
        has_sftp = f"SFTP          {'yes' if sftp is not None else 'no'}"
    return (*lines, has_sftp, f"SSH server    {connection.banner or 'unknown'}")


def _intended(
    connection: Connection, host: Host, facts: Facts, requested: RequestedOptions, forecaster: Forecaster
) -> Intended:
    """Raises the error that a run would end with, as far as it can be known before."""
    agent = preview(host, facts, forecaster.builder)
    plan = plan_on(host, requested, facts)
    if agent.path is not None:
        return Intended(agent.words, plan, forecaster.on_host(connection, host, agent.path, plan))
    if not facts.cpus:
        return Intended(agent.words, plan, why="only the agent can tell on how many CPUs")
    try:
        forecast = forecaster.of_facts(host, facts, plan)
        agent = preview(host, facts, forecaster.builder)  # which may have built one by now
        return Intended(agent.words, plan, forecast)
    except BuildError as err:
        return Intended(agent.words, plan, why=str(err))

"""`fleet check`: reports what disturbs each host and what a run would do there; changes
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.agent.build.on_controller import Builder
from fleet.agent.deploy import preview
from fleet.agent.forecast import Forecast, Forecaster, choose_deadline_s
from fleet.errors import BuildError
from fleet.facts.gather import (
    ask_usage,
    describe_answer,
    parse_with_workdir_error,
    run_probe,
)
from fleet.facts.systems import find_noise
from fleet.model import Facts, Finding, Host, Plan, RequestedOptions
from fleet.plan.merge import merge_plan_with_facts
from fleet.remote.connection import Connection
from fleet.session.context import HostAccess
from fleet.session.events import Outcome
from fleet.session.host_progress import HostProgress
from fleet.session.runner import run_on_each

SFTP_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class RunPreview:
    """What `fleet run` would do on a host: agent, plan and a forecast, or `why` there
    is no forecast.
    """

    agent: str
    plan: Plan
    forecast: Forecast | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class CheckedHost:
    """A host's outcome, facts and findings. reported: a QNX host's answer, verbatim."""

    outcome: Outcome
    facts: Facts | None = None
    findings: tuple[Finding, ...] = ()
    intended: RunPreview | None = None
    reported: tuple[str, ...] = ()


def check_hosts(
    hosts: Sequence[Host], access: HostAccess, requested: RequestedOptions | None = None
) -> list[CheckedHost]:
    """Check `hosts`; return a result for each, in order. A host that fails keeps what
    was found before.
    """
    check = _Check(hosts, access, requested or RequestedOptions())
    checked = []
    for outcome in run_on_each(hosts, check.check_host, access):
        result = check.results[outcome.host.name]
        host = CheckedHost(
            outcome=outcome,
            facts=result.facts,
            findings=result.findings,
            intended=result.intended,
            reported=result.reported,
        )
        checked.append(host)
    return checked


@dataclass(slots=True)
class _Result:
    """What is known of a host, from the steps of its check that are done."""

    facts: Facts | None = None
    findings: tuple[Finding, ...] = ()
    intended: RunPreview | None = None
    reported: tuple[str, ...] = ()


class _Check:
    """The check of several hosts: how to reach them, and the results so far by host
    name.
    """

    def __init__(
        self, hosts: Sequence[Host], access: HostAccess, requested: RequestedOptions
    ) -> None:
        self.results = {host.name: _Result() for host in hosts}
        self._access = access
        self._requested = requested
        builder = Builder(connect=access.connection, cancellation=access.cancellation)
        self._forecaster = Forecaster(builder)

    def check_host(self, progress: HostProgress) -> Outcome:
        """Check one host, and keep the result of each step as soon as it is there."""
        host = progress.host
        result = self.results[host.name]
        progress.enter("connect")
        with self._access.connection(host) as connection:
            progress.enter("facts")
            answer = run_probe(connection, host, read_only=True)
            result.reported = _describe_probe_answer(connection, answer)
            facts, workdir_error = parse_with_workdir_error(answer, host)
            progress.enter("noise")
            usage = ask_usage(connection, facts)
            result.findings = find_noise(facts, usage)
            result.facts = facts
            self._access.cancellation.raise_if_requested()
            # no workdir can be used: raised only here, so that what disturbs the
            # host is shown all the same
            if workdir_error is not None:
                raise workdir_error
            progress.enter("plan")  # may build an agent here, to ask it
            intended = _preview_run(
                connection, host, facts, self._requested, self._forecaster
            )
        # set last: a result with an intended run is shown without its failure
        result.intended = intended
        return progress.completed_outcome()


def _describe_probe_answer(connection: Connection, answer: str) -> tuple[str, ...]:
    """Return what the probe of a host answered, in lines, and what its SSH server is
    and can do. Return () for an OS whose answers are not shown to users.
    """
    lines = describe_answer(answer)
    if not lines:
        return ()
    with connection.sftp(SFTP_TIMEOUT_S) as sftp:
        has_sftp = "no" if sftp is None else "yes"
    return (
        *lines,
        f"SFTP          {has_sftp}",
        f"SSH server    {connection.banner or 'unknown'}",
    )


def _preview_run(
    connection: Connection,
    host: Host,
    facts: Facts,
    requested: RequestedOptions,
    forecaster: Forecaster,
) -> RunPreview:
    """Return what a run would do: its agent and plan, and a forecast or why there is
    none. Raises the error that would end the run, if it can be foreseen.

    The forecast comes from the agent on the host if it is there. Else it comes from an
    agent for this machine, which is built for that and gets the host's facts.
    """
    plan = merge_plan_with_facts(host, requested, facts)
    agent = preview(host, facts, forecaster.builder, plan.benchmarks)
    if agent.path is not None:
        forecast = forecaster.from_host(connection, host, agent.path, plan)
        # only to see whether that raises an error, which would end a run
        choose_deadline_s(host, requested, plan, forecast)
        return RunPreview(agent.description, plan, forecast)
    if not facts.cpus:
        why = "only the agent can tell on how many CPUs"
        return RunPreview(agent.description, plan, why=why)
    try:
        forecast = forecaster.from_facts(host, facts, plan)
        # once more: the forecast may have built the agent that this describes
        agent = preview(host, facts, forecaster.builder, plan.benchmarks)
    except BuildError as err:
        return RunPreview(agent.description, plan, why=str(err))
    return RunPreview(agent.description, plan, forecast)

"""`fleet check`: what disturbs each host and what a run would do there; changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.agent.deploy import preview
from fleet.errors import AgentError
from fleet.facts.gather import look, raw_lines, reread_load, survey
from fleet.facts.noise import findings
from fleet.model import Facts, Finding, Host, Plan, RequestedOptions
from fleet.plan.conflicts import needs_pairs
from fleet.plan.cpulist import cpus_text
from fleet.plan.estimate import Duration, bursts, expected, pairs, plan_on, points, rounds_text
from fleet.plan.memory import needed_on
from fleet.remote.connection import Connection
from fleet.session.context import HostAccess
from fleet.session.host_progress import HostProgress
from fleet.session.outcome import Outcome
from fleet.session.runner import on_each

SFTP_TIMEOUT_S = 20.0
STEAL_GAP_S = 1.0  # between two readings of the CPU time that the hypervisor has taken


@dataclass(frozen=True, slots=True)
class Forecast:
    """What `fleet run` would do on a host that can be measured.

    agent: how it would be deployed. cpus: how many are measured, 0: only the agent can tell. pairs: in a
    round, of each benchmark of pairs. points: of memory, in a round, and the bytes they take. bursts: of the
    minimum rounds. shortened: how many of the usual rounds the time budget allows, if not all.
    """

    agent: str
    plan: Plan
    cpus: int
    pairs: int
    bursts: int
    duration: Duration
    points: int = 0
    memory_bytes: int = 0
    shortened: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """The findings of a reachable host. No forecast: its outcome says why it cannot be measured."""

    facts: Facts
    findings: tuple[Finding, ...]
    forecast: Forecast | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A host's outcome, and its check if there is one.

    reported: what a QNX host reported of itself, verbatim, also where fleet does not understand it.
    """

    outcome: Outcome
    check: Check | None
    reported: tuple[str, ...] = ()


def check(
    hosts: Sequence[Host], access: HostAccess, requested: RequestedOptions | None = None
) -> list[Checked]:
    """Check `hosts`; one result per host, in the order given.

    requested: the plan options of the command line. A host that answers but cannot be measured keeps its
    findings, and its outcome is that of a run.
    """
    found: dict[str, Check] = {}
    reported: dict[str, tuple[str, ...]] = {}

    def work(progress: HostProgress) -> Outcome:
        host = progress.host
        access.cancellation.check()
        progress.enter("connect")
        with access.connection(host) as connection:
            progress.enter("facts")
            answer = look(connection, host)
            reported[host.name] = _reported(connection, answer)
            facts, unusable = survey(answer, host)
            progress.enter("noise")
            access.cancellation.pause(STEAL_GAP_S)
            noise = findings(facts, reread_load(connection, facts))
        found[host.name] = Check(facts, noise)
        if unusable is not None:
            raise unusable
        found[host.name] = Check(facts, noise, _forecast(host, facts, requested or RequestedOptions()))
        return progress.complete()

    outcomes = on_each(hosts, work, access)
    return [Checked(one, found.get(one.host.name), reported.get(one.host.name, ())) for one in outcomes]


def _reported(connection: Connection, answer: str) -> tuple[str, ...]:
    lines = raw_lines(answer)
    if not lines:
        return ()
    with connection.sftp(SFTP_TIMEOUT_S) as sftp:
        has_sftp = f"SFTP          {'yes' if sftp is not None else 'no'}"
    return (*lines, has_sftp, f"SSH server    {connection.banner or 'unknown'}")


def _forecast(host: Host, facts: Facts, requested: RequestedOptions) -> Forecast:
    """Raises the error that a run would end with, as far as it can be known before."""
    agent = preview(host, facts)
    plan = plan_on(host, requested, facts)
    cpus = len(_measured(host, facts, plan))
    visited = pairs(plan, cpus) if needs_pairs(plan.benchmarks) else 0
    return Forecast(
        agent,
        plan,
        cpus,
        visited,
        bursts(plan, cpus, facts),
        expected(plan, cpus, facts),
        points(plan, cpus, facts),
        needed_on(plan, facts),
        rounds_text(plan, cpus, facts),
    )


def _measured(host: Host, facts: Facts, plan: Plan) -> set[int]:
    """The CPUs of a plan, none where the host reports none.

    Raises AgentError for a CPU that the agent would refuse, or too few for a pair.
    """
    if not facts.cpus:
        return set()
    allowed = {cpu.cpu for cpu in facts.cpus if cpu.allowed and cpu.online}
    chosen = set(plan.cpus) if plan.cpus else allowed
    paired = {cpu for pair in (plan.pairs.listed if plan.pairs else ()) for cpu in pair}
    if strange := (chosen - allowed) | (paired - chosen):
        raise AgentError(
            f"{host.name}: CPU {cpus_text(strange)} cannot be used: the agent may use "
            f"{cpus_text(allowed & chosen)}. Correct the plan's `cpus` or `pairs`, or widen what we may use."
        )
    if len(chosen) < 2 and needs_pairs(plan.benchmarks):
        raise AgentError(
            f"{host.name}: a pair needs two CPUs, and the agent may use {cpus_text(chosen) or 'none'} only. "
            "Give it more, or measure the benchmark `clock` alone."
        )
    return chosen

"""`fleet check`: what disturbs each host and what a run would do there; changes nothing. Floor 4."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.agent.deploy import preview
from fleet.errors import AgentError
from fleet.facts.gather import look, raw_lines, reread_load, survey
from fleet.facts.noise import findings
from fleet.model import Facts, Finding, Host, Plan, RequestedOptions
from fleet.plan.cpulist import cpus_text
from fleet.plan.estimate import Duration, bursts, expected, pairs, plan_on
from fleet.remote.connection import Connection
from fleet.session.cancellation import Stopping
from fleet.session.context import Connect
from fleet.session.outcome import Outcome, Story, Watcher
from fleet.session.runner import on_each

SFTP_TIMEOUT_S = 20.0
STEAL_GAP_S = 1.0  # between two readings of the time a hypervisor has taken


@dataclass(frozen=True, slots=True)
class Forecast:
    """What `fleet run` would do on a host that can be measured.

    agent: what would be done to have one there. cpus: so many are measured, 0: only the agent will know.
    pairs: in a round, of each benchmark of pairs. bursts: of the least rounds.
    """

    agent: str
    plan: Plan
    cpus: int
    pairs: int
    bursts: int
    duration: Duration


@dataclass(frozen=True, slots=True)
class Check:
    """What was found on a host that answered. No forecast: its outcome says why it cannot be measured."""

    facts: Facts
    findings: tuple[Finding, ...]
    forecast: Forecast | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A host's outcome, and its check if there is one.

    told: what a QNX host said of itself, word for word, also where we do not understand it.
    """

    outcome: Outcome
    check: Check | None
    told: tuple[str, ...] = ()


def check(
    hosts: Sequence[Host],
    connect: Connect,
    watcher: Watcher,
    parallel: int,
    requested: RequestedOptions | None = None,
) -> list[Checked]:
    """Check `hosts`, at most `parallel` at once; one result per host, in the order given.

    requested: the plan options of the command line. A host that answers but could not be measured keeps
    its findings, and its outcome is that of a run.
    """
    stopping = Stopping()
    found: dict[str, Check] = {}
    told: dict[str, tuple[str, ...]] = {}

    def work(host: Host, story: Story) -> Outcome:
        stopping.check()
        story.enter("connect")
        with connect(host) as connection, stopping.watching(connection):
            story.enter("facts")
            answer = look(connection, host)
            told[host.name] = _told(connection, answer)
            facts, unusable = survey(answer, host)
            story.enter("noise")
            stopping.pause(STEAL_GAP_S)
            noise = findings(facts, reread_load(connection, facts))
        found[host.name] = Check(facts, noise)
        if unusable is not None:
            raise unusable
        found[host.name] = Check(facts, noise, _forecast(host, facts, requested or RequestedOptions()))
        return story.done()

    ended = on_each(hosts, work, watcher, stopping, parallel)
    names = [outcome.host.name for outcome in ended]
    return [
        Checked(outcome, found.get(name), told.get(name, ()))
        for outcome, name in zip(ended, names, strict=True)
    ]


def _told(connection: Connection, answer: str) -> tuple[str, ...]:
    lines = raw_lines(answer)
    if not lines:
        return ()
    with connection.sftp(SFTP_TIMEOUT_S) as sftp:
        return (*lines, f"SFTP          {'yes' if sftp is not None else 'no'}")


def _forecast(host: Host, facts: Facts, requested: RequestedOptions) -> Forecast:
    """Raises what stands in a run's way as the run would, as far as it can be known before."""
    agent = preview(host, facts)
    plan = plan_on(host, requested, facts)
    cpus = len(_measured(host, facts, plan))
    visited = pairs(plan, cpus) if _has_pairs(plan) else 0
    return Forecast(agent, plan, cpus, visited, bursts(plan, cpus), expected(plan, cpus))


def _measured(host: Host, facts: Facts, plan: Plan) -> set[int]:
    """The CPUs of a plan, none where the host tells of none.

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
    if len(chosen) < 2 and _has_pairs(plan):
        raise AgentError(
            f"{host.name}: a pair needs two CPUs, and the agent may use {cpus_text(chosen) or 'none'} only. "
            "Give it more, or measure the benchmark `clock` alone."
        )
    return chosen


def _has_pairs(plan: Plan) -> bool:
    return set(plan.benchmarks) != {"clock"}

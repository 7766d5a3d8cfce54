"""`fleet check`: what disturbs each host and what a run would do there; changes nothing. Floor 4."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from fleet.agent.deploy import foretell
from fleet.errors import AgentError
from fleet.escaping import as_json, printable
from fleet.facts.gather import reread_load, survey
from fleet.facts.linux import short_list
from fleet.facts.noise import findings
from fleet.model import Facts, Finding, Host, Plan, PlanWish
from fleet.outcomes import Outcome, Story, Watcher
from fleet.planning import Duration, bursts, expected, pairs, plan_on
from fleet.session import Connect, on_each, usable
from fleet.stopping import Stopping

STEAL_GAP_S = 1.0  # between two readings of the time a hypervisor has taken
_FOLD_ABOVE = 3  # hosts


@dataclass(frozen=True, slots=True)
class Forecast:
    """What `fleet run` would do on a host that can be measured.

    agent: what would be done to have one there. cpus: so many are measured. pairs: in a round, of each
    benchmark of pairs. bursts: of the least rounds.
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
    """A host's outcome, and its check if there is one."""

    outcome: Outcome
    check: Check | None


def check(
    hosts: Sequence[Host], connect: Connect, watcher: Watcher, parallel: int, wish: PlanWish | None = None
) -> list[Checked]:
    """Check `hosts`, at most `parallel` at once; one result per host, in the order given.

    wish: what a command line would ask of the plan. A host that answers but could not be measured keeps
    its findings, and its outcome is that of a run.
    """
    stopping = Stopping()
    found: dict[str, Check] = {}

    def work(host: Host, story: Story) -> Outcome:
        stopping.check()
        story.enter("connect")
        with connect(host) as connection, stopping.watching(connection):
            story.enter("facts")
            facts, unusable = survey(connection, host)
            story.enter("noise")
            stopping.pause(STEAL_GAP_S)
            noise = findings(facts, reread_load(connection))
        found[host.name] = Check(facts, noise)
        if unusable is not None:
            raise unusable
        found[host.name] = Check(facts, noise, _forecast(host, facts, wish or PlanWish()))
        return story.done()

    ended = on_each(hosts, work, watcher, stopping, parallel)
    return [Checked(outcome, found.get(outcome.host.name)) for outcome in ended]


def _forecast(host: Host, facts: Facts, wish: PlanWish) -> Forecast:
    """Raises what stands in a run's way as the run would, as far as it can be known before."""
    agent = foretell(host, facts)
    plan = plan_on(host, wish, facts)
    cpus = len(_measured(host, facts, plan))
    visited = pairs(plan, cpus) if _has_pairs(plan) else 0
    return Forecast(agent, plan, cpus, visited, bursts(plan, cpus), expected(plan, cpus))


def _measured(host: Host, facts: Facts, plan: Plan) -> set[int]:
    """The CPUs of a plan. Raises AgentError for a CPU that the agent would refuse, or too few for a pair."""
    allowed = {cpu.cpu for cpu in facts.cpus if cpu.allowed and cpu.online}
    chosen = set(plan.cpus) if plan.cpus else allowed
    paired = {cpu for pair in (plan.pairs.listed if plan.pairs else ()) for cpu in pair}
    if strange := (chosen - allowed) | (paired - chosen):
        raise AgentError(
            f"{host.name}: CPU {short_list(strange)} cannot be used: the agent may use "
            f"{short_list(allowed & chosen)}. Correct the plan's `cpus` or `pairs`, or widen what we may use."
        )
    if len(chosen) < 2 and _has_pairs(plan):
        raise AgentError(
            f"{host.name}: a pair needs two CPUs, and the agent may use {short_list(chosen) or 'none'} only. "
            "Give it more, or measure the benchmark `clock` alone."
        )
    return chosen


def _has_pairs(plan: Plan) -> bool:
    return set(plan.benchmarks) != {"clock"}


def checks_text(checked: Sequence[Checked]) -> str:
    """A block per host; findings that many hosts share are folded at the end."""
    fold = len(checked) > _FOLD_ABOVE
    parts = [_block(one, findings_too=not fold) for one in checked]
    return printable("\n\n".join([*parts, *(_folded(checked) if fold else [])]))


def _block(one: Checked, *, findings_too: bool) -> str:
    outcome, check = one.outcome, one.check
    name = outcome.host.name
    lines = [] if check is None else [f"{name}: {_machine(check.facts)}"]
    if check is not None and check.forecast is not None:
        lines += _foretold(check.facts, check.forecast)
    else:
        lines += [f"{name}: {outcome.state} in stage {outcome.stage}", f"  {outcome.message}"]
    if check is not None and findings_too:
        lines += [_finding(finding) for finding in check.findings]
    return "\n".join(lines)


def _machine(facts: Facts) -> str:
    return (
        f"{facts.cpu_model or 'unknown CPU'}, {usable(facts)} of {len(facts.cpus)} CPUs usable, "
        f"kernel {facts.kernel or 'unknown'}, {facts.target}"
    )


def _foretold(facts: Facts, forecast: Forecast) -> list[str]:
    place = f"its directory is {facts.workdir}" if facts.workdir_made else f"would create {facts.workdir}"
    cpus = _counted(forecast.cpus, "CPU")
    counts = [_counted(forecast.pairs, "pair")] if forecast.pairs else []
    counts.append(f"{_counted(forecast.bursts, 'burst')} or more")
    return [
        f"  The agent {forecast.agent}; {place}.",
        f"  fleet run would measure {', '.join(forecast.plan.benchmarks)} on {cpus}: "
        f"{', '.join(counts)}, about {forecast.duration}.",
    ]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _finding(finding: Finding, hosts: str = "  ") -> str:
    remedy = f"\n      {finding.remedy}" if finding.remedy else ""
    return f"{hosts}{finding.severity}: {finding.found}{remedy}"


def _folded(checked: Sequence[Checked]) -> list[str]:
    alike: dict[Finding, list[str]] = defaultdict(list)
    for one in checked:
        for finding in one.check.findings if one.check else ():
            alike[finding].append(one.outcome.host.name)
    return [
        _finding(finding, f"{_counted(len(names), 'host')} ({', '.join(names)}): ")
        for finding, names in alike.items()
    ]


def checks_json(checked: Sequence[Checked]) -> str:
    """The same for programs: a list, one object a host; `check` is null where it could not be made."""
    return as_json([_object(one) for one in checked])


def _object(one: Checked) -> dict[str, object]:
    outcome, check = one.outcome, one.check
    return {
        "host": outcome.host.name,
        "state": outcome.state,
        "stage": outcome.stage,
        "exit_code": outcome.exit_code,
        "message": outcome.message,
        "check": check
        and {
            "target": str(check.facts.target),
            "cpu_model": check.facts.cpu_model,
            "kernel": check.facts.kernel,
            "cpus": usable(check.facts),
            "workdir": check.facts.workdir or None,
            "workdir_made": check.facts.workdir_made,
            "run": check.forecast and _run_object(check.forecast),
            "findings": [asdict(finding) for finding in check.findings],
        },
    }


def _run_object(forecast: Forecast) -> dict[str, object]:
    return {
        "agent": forecast.agent,
        "plan": asdict(forecast.plan),
        "cpus": forecast.cpus,
        "pairs": forecast.pairs,
        "bursts": forecast.bursts,
        "seconds": asdict(forecast.duration),
    }

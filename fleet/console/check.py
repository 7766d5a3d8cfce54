"""What `fleet check` found, as text for people and as JSON for programs. Prints nothing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from fleet.console.summary import MANY, MESSAGES_SHOWN, failures
from fleet.hostnames import folded
from fleet.model import Facts, Finding, Severity
from fleet.session.check import Checked, Forecast
from fleet.session.runner import usable_cpus
from fleet.text import as_json, counted, printable

_FOLD_FINDINGS_ABOVE = 3  # hosts
_WORST_FIRST = (Severity.SERIOUS, Severity.WARNING, Severity.INFO)


def checks_text(checked: Sequence[Checked]) -> str:
    """A block per host; findings that hosts share are grouped, and of many hosts everything is."""
    if len(checked) <= _FOLD_FINDINGS_ABOVE:
        parts = [_block(one, with_findings=True) for one in checked]
    elif len(checked) <= MANY:
        parts = [*(_block(one, with_findings=False) for one in checked), *_findings(checked)]
    else:
        parts = [*_machines(checked), *failures([one.outcome for one in checked]), *_findings(checked)]
        parts.append(_verdict(checked))
    return printable("\n\n".join(parts))


def _block(one: Checked, *, with_findings: bool) -> str:
    outcome, check = one.outcome, one.check
    name = outcome.host.name
    lines = [] if check is None else [f"{name}: {_machine(check.facts)}"]
    if check is not None and check.forecast is not None:
        lines += _previewed(check.facts, check.forecast)
    else:
        lines += [f"{name}: {outcome.state} in stage {outcome.stage}", f"  {outcome.message}"]
    if check is not None and with_findings:
        lines += [_finding(finding) for finding in check.findings]
    if one.reported:
        lines += ["  The host reported (if fleet misinterprets it, include this in a bug report):"]
        lines += [f"    {line}" for line in one.reported]
    return "\n".join(lines)


def _machine(facts: Facts) -> str:
    return (
        f"{facts.cpu_model or 'unknown CPU'}, {usable_cpus(facts)} of {len(facts.cpus)} CPUs usable, "
        f"kernel {facts.kernel or 'unknown'}, {facts.os}-{facts.arch}"
    )


def _previewed(facts: Facts, forecast: Forecast) -> list[str]:
    place = f"its directory is {facts.workdir}" if facts.workdir_made else f"would create {facts.workdir}"
    if not forecast.cpus:
        return [
            f"  The agent {forecast.agent}; {place}.",
            f"  fleet run would measure {', '.join(forecast.plan.benchmarks)}; "
            "only the agent can tell on how many CPUs, and so for how long.",
        ]
    cpus = counted(forecast.cpus, "CPU")
    counts = [counted(forecast.pairs, "pair")] if forecast.pairs else []
    counts += [counted(forecast.points, "point")] if forecast.points else []
    counts.append(f"{counted(forecast.bursts, 'burst')} or more")
    return [
        f"  The agent {forecast.agent}; {place}.",
        f"  fleet run would measure {', '.join(forecast.plan.benchmarks)} on {cpus}: "
        f"{', '.join(counts)}, about {forecast.duration}{forecast.shortened}{_memory(forecast)}.",
    ]


def _memory(forecast: Forecast) -> str:
    return f", {forecast.memory_bytes >> 20} MiB of memory" if forecast.memory_bytes else ""


def _machines(checked: Sequence[Checked]) -> list[str]:
    """Equal hosts, and what a run would do there, grouped; the most frequent first."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for one in checked:
        if one.check is not None and one.check.forecast is not None:
            facts, forecast = one.check.facts, one.check.forecast
            alike[_machine(facts), *_previewed(facts, forecast)].append(one.outcome.host.name)
    most_first = sorted(alike.items(), key=lambda item: -len(item[1]))
    texts = []
    for lines, names in most_first[:MESSAGES_SHOWN]:
        head = f"{counted(len(names), 'host')}: {folded(names)}"
        texts.append("\n  ".join([head, *(line.strip() for line in lines)]))
    if rest := most_first[MESSAGES_SHOWN:]:
        hosts = sum(len(names) for _, names in rest)
        texts.append(f"{counted(len(rest), 'other kind')} of machine, {counted(hosts, 'host')}: see --json.")
    return texts


def _finding(finding: Finding, hosts: str = "") -> str:
    remedy = f"\n      {finding.remedy}" if finding.remedy else ""
    return f"  {finding.severity}: {finding.found}{hosts}{remedy}"


def _findings(checked: Sequence[Checked]) -> list[str]:
    """Findings of one kind grouped with their hosts: the worst, then the most frequent first."""
    alike: dict[tuple[Severity, str, str], dict[str, Finding]] = defaultdict(dict)
    for one in checked:
        for finding in one.check.findings if one.check else ():
            alike[finding.severity, finding.kind, finding.remedy][one.outcome.host.name] = finding
    worst_first = sorted(alike.items(), key=lambda item: (_WORST_FIRST.index(item[0][0]), -len(item[1])))
    lines = [_finding_of(by_name) for _, by_name in worst_first]
    return ["Findings\n" + "\n".join(lines)] if lines else []


def _finding_of(by_name: dict[str, Finding]) -> str:
    """One kind of finding; where hosts differ in a number, the text is that of the first."""
    name, first = next(iter(by_name.items()))
    differ = len({each.found for each in by_name.values()}) > 1
    where = f" (on {name}; similar on the others)" if differ else ""
    return _finding(first, f"{where}\n      {counted(len(by_name), 'host')}: {folded(by_name)}")


def _verdict(checked: Sequence[Checked]) -> str:
    able = sum(one.check is not None and one.check.forecast is not None for one in checked)
    return f"{able} of {len(checked)} hosts can be measured."


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
        "notes": list(outcome.notes),
        "reported": list(one.reported),
        "check": check
        and {
            "target": str(check.facts.target),
            "cpu_model": check.facts.cpu_model,
            "kernel": check.facts.kernel,
            "cpus": usable_cpus(check.facts),
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
        "points": forecast.points,
        "memory_bytes": forecast.memory_bytes,
        "bursts": forecast.bursts,
        "seconds": asdict(forecast.duration),
    }

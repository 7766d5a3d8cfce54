"""What `fleet check` found, as text for people and as JSON for programs. Prints nothing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from fleet.console.summary import MANY, MESSAGES_SHOWN, failures, outcome_object
from fleet.facts.systems import WORST_FIRST
from fleet.hostnames import join_names
from fleet.model import Facts, Finding, Severity
from fleet.plan.conflicts import needs_pairs
from fleet.session.check import CheckedHost, RunPreview
from fleet.text import as_json, counted

_FOLD_FINDINGS_ABOVE = 3  # hosts


def checks_text(checked: Sequence[CheckedHost]) -> str:
    """A block per host; findings that hosts share are grouped, and of many hosts everything is."""
    if len(checked) <= _FOLD_FINDINGS_ABOVE:
        parts = [_block(one, with_findings=True) for one in checked]
    elif len(checked) <= MANY:
        parts = [*(_block(one, with_findings=False) for one in checked), *_findings(checked)]
    else:
        parts = [*_machines(checked), *failures([one.outcome for one in checked]), *_findings(checked)]
        able = sum(one.intended is not None for one in checked)
        parts.append(f"{able} of {len(checked)} hosts can be measured.")
    return "\n\n".join(parts)


def _block(one: CheckedHost, *, with_findings: bool) -> str:
    outcome, facts = one.outcome, one.facts
    name = outcome.host.name
    lines = [] if facts is None else [f"{name}: {_machine(facts)}"]
    if facts is not None and one.intended is not None:
        lines += _previewed(facts, one.intended)
    else:
        lines += [f"{name}: {outcome.state} in stage {outcome.stage}", f"  {outcome.message}"]
    if with_findings:
        lines += [_finding(finding) for finding in one.findings]
    if one.reported:
        lines += ["  The host reported (if fleet misinterprets it, include this in a bug report):"]
        lines += [f"    {line}" for line in one.reported]
    return "\n".join(lines)


def _machine(facts: Facts) -> str:
    return (
        f"{facts.cpu_model or 'unknown CPU'}, {len(facts.usable_cpus)} of {len(facts.cpus)} CPUs usable, "
        f"kernel {facts.kernel or 'unknown'}, {facts.os}-{facts.arch}"
    )


def _previewed(facts: Facts, intended: RunPreview) -> list[str]:
    place = f"its directory is {facts.workdir}" if facts.workdir_made else f"would create {facts.workdir}"
    measured = f"fleet run would measure {', '.join(intended.plan.benchmarks)}"
    return [f"  The agent {intended.agent}; {place}.", f"  {measured}{_costs(intended)}."]


def _costs(intended: RunPreview) -> str:
    forecast = intended.forecast
    if forecast is None:
        return f"; no forecast: {intended.why}"
    counts = [counted(forecast.pairs, "pair")] if needs_pairs(intended.plan.benchmarks) else []
    counts += [counted(forecast.points, "point")] if forecast.points else []
    counts += [f"{counted(forecast.bursts, 'burst')} or more", f"about {forecast.time_text}"]
    counts += [forecast.memory_text] if forecast.memory_text else []
    return f" on {counted(forecast.cpus, 'CPU')}: {', '.join(counts)}"


def _machines(checked: Sequence[CheckedHost]) -> list[str]:
    """Equal hosts, and what a run would do there, grouped; the most frequent first."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for one in checked:
        if one.facts is not None and one.intended is not None:
            alike[_machine(one.facts), *_previewed(one.facts, one.intended)].append(one.outcome.host.name)
    most_first = sorted(alike.items(), key=lambda item: -len(item[1]))
    texts = []
    for lines, names in most_first[:MESSAGES_SHOWN]:
        head = f"{counted(len(names), 'host')}: {join_names(names)}"
        texts.append("\n  ".join([head, *(line.strip() for line in lines)]))
    if rest := most_first[MESSAGES_SHOWN:]:
        hosts = sum(len(names) for _, names in rest)
        texts.append(f"{counted(len(rest), 'other kind')} of machine, {counted(hosts, 'host')}: see --json.")
    return texts


def _finding(finding: Finding, hosts: str = "") -> str:
    remedy = f"\n      {finding.remedy}" if finding.remedy else ""
    return f"  {finding.severity}: {finding.found}{hosts}{remedy}"


def _findings(checked: Sequence[CheckedHost]) -> list[str]:
    """Findings of one kind grouped with their hosts: the worst, then the most frequent first."""
    alike: dict[tuple[Severity, str, str], dict[str, Finding]] = defaultdict(dict)
    for one in checked:
        for finding in one.findings:
            alike[finding.severity, finding.kind, finding.remedy][one.outcome.host.name] = finding
    worst_first = sorted(alike.items(), key=lambda item: (WORST_FIRST.index(item[0][0]), -len(item[1])))
    lines = [_finding_of(by_name) for _, by_name in worst_first]
    return ["Findings\n" + "\n".join(lines)] if lines else []


def _finding_of(by_name: dict[str, Finding]) -> str:
    """One kind of finding; where hosts differ in a number, the text is that of the first."""
    name, first = next(iter(by_name.items()))
    differ = len({each.found for each in by_name.values()}) > 1
    where = f" (on {name}; similar on the others)" if differ else ""
    return _finding(first, f"{where}\n      {counted(len(by_name), 'host')}: {join_names(by_name)}")


def checks_json(checked: Sequence[CheckedHost]) -> str:
    """The same for programs: a list, one object a host; `check` is null where it could not be made."""
    return as_json([_object(one) for one in checked])


def _object(one: CheckedHost) -> dict[str, object]:
    facts = one.facts
    return outcome_object(one.outcome) | {
        "notes": list(one.outcome.notes),
        "reported": list(one.reported),
        "check": facts
        and {
            "target": str(facts.target),
            "cpu_model": facts.cpu_model,
            "kernel": facts.kernel,
            "cpus": len(facts.usable_cpus),
            "workdir": facts.workdir or None,
            "workdir_made": facts.workdir_made,
            "run": one.intended and _run_object(one.intended),
            "findings": [asdict(finding) for finding in one.findings],
        },
    }


def _run_object(intended: RunPreview) -> dict[str, object]:
    forecast = intended.forecast
    return {
        "agent": intended.agent,
        "plan": asdict(intended.plan),
        **{name: forecast and getattr(forecast, name) for name in ("cpus", "pairs", "points", "bursts")},
        "memory_bytes": forecast and forecast.bytes,
        "seconds": forecast and asdict(forecast.duration),
        "no_forecast": None if forecast else intended.why,
    }

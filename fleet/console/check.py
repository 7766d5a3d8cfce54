"""Renders the results of `fleet check` as text and as JSON. Prints nothing."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

from fleet.agent.forecast import Forecast
from fleet.console.summary import (
    MANY,
    MESSAGES_SHOWN,
    count_hosts,
    outcome_object,
    render_failures,
)
from fleet.facts.systems import WORST_FIRST
from fleet.hostnames import join_names
from fleet.model import Facts, Finding, Severity
from fleet.plan.conflicts import needs_pairs
from fleet.session.check import CheckedHost, RunPreview
from fleet.text import as_document, format_count

_FOLD_FINDINGS_ABOVE = 3  # hosts


def render_checks(checks: Sequence[CheckedHost]) -> str:
    """Render a block per host. If there are several, group equal findings; if many,
    equal machines, too.
    """
    if len(checks) > MANY:
        parts = _render_many_checks(checks)
    elif len(checks) > _FOLD_FINDINGS_ABOVE:
        parts = [_render_host(check, findings=False) for check in checks]
        parts += _group_findings(checks)
    else:
        parts = [_render_host(check, findings=True) for check in checks]
    return "\n\n".join(parts)


def _render_many_checks(checks: Sequence[CheckedHost]) -> list[str]:
    """Return the parts on many hosts: kinds of machines, failures, findings."""
    measurable = [check for check in checks if check.intended is not None]
    outcomes = [check.outcome for check in checks]
    return [
        *_group_machines(checks),
        *render_failures(outcomes),
        *_group_findings(checks),
        f"{len(measurable)} of {len(checks)} hosts can be measured.",
    ]


def render_without_information(checks: Sequence[CheckedHost]) -> str:
    """Render hosts with the findings that disturb, and count the others."""
    shortened_checks = [_drop_information(check) for check in checks]
    text = render_checks(shortened_checks)
    left_out = 0
    for check, shortened in zip(checks, shortened_checks, strict=True):
        left_out += len(check.findings) - len(shortened.findings)
    if not left_out:
        return text
    count = format_count(left_out, "more finding")
    return f"{text}\n\n{count} for information: fleet check -v"


def _drop_information(check: CheckedHost) -> CheckedHost:
    """Return a check without the findings that only inform."""
    findings = [item for item in check.findings if item.severity is not Severity.INFO]
    return replace(check, findings=tuple(findings))


def _render_host(check: CheckedHost, *, findings: bool) -> str:
    """Render a host: its machine and what a run would do, or why it failed; then what
    disturbs, if `findings`, and what the host reported.
    """
    name = check.outcome.host.name
    lines = []
    if check.facts is not None:
        lines.append(f"{name}: {_describe_machine(check.facts)}")
    # A host can fail after its machine is known. Then it has two lines that begin with
    # its name.
    if check.facts is not None and check.intended is not None:
        run = _describe_run(check.facts, check.intended)
        lines += [f"  {line}" for line in run]
    else:
        lines.append(f"{name}: {check.outcome.state} in stage {check.outcome.stage}")
        lines.append(f"  {check.outcome.message}")
    if findings:
        lines += [_render_finding(finding) for finding in check.findings]
    if check.reported:
        lines.append(
            "  The host reported (if fleet misinterprets it, include this in a bug"
            " report):"
        )
        lines += [f"    {line}" for line in check.reported]
    return "\n".join(lines)


def _describe_machine(facts: Facts) -> str:
    """Describe a host's CPU model, usable CPUs, kernel and target in a line."""
    parts = [
        facts.cpu_model or "unknown CPU",
        f"{len(facts.usable_cpus)} of {len(facts.cpus)} CPUs usable",
        f"kernel {facts.kernel or 'unknown'}",
        f"{facts.os}-{facts.arch}",
    ]
    return ", ".join(parts)


def _describe_run(facts: Facts, intended: RunPreview) -> list[str]:
    """Describe the agent and its place, then what would be measured and its cost."""
    place = f"would create {facts.workdir}"
    if facts.workdir_made:
        place = f"its directory is {facts.workdir}"
    benchmarks = intended.plan.benchmarks
    if intended.forecast is None:
        cost = f"; no forecast: {intended.why}"
    else:
        counts = _describe_forecast(intended.forecast, benchmarks)
        cost = f" on {format_count(intended.forecast.cpus, 'CPU')}: {counts}"
    lines = [
        f"The agent {intended.agent}; {place}.",
        f"fleet run would measure {', '.join(benchmarks)}{cost}.",
    ]
    if intended.forecast is not None and intended.forecast.advice:
        lines.append(intended.forecast.advice)
    return lines


def _describe_forecast(forecast: Forecast, benchmarks: Sequence[str]) -> str:
    """List what would be measured, the time and the memory."""
    counts = []
    if needs_pairs(benchmarks):
        counts.append(format_count(forecast.pairs, "pair"))
    if forecast.points:
        counts.append(format_count(forecast.points, "point"))
    counts.append(f"{format_count(forecast.bursts, 'burst')} or more")
    counts.append(f"about {forecast.time_text}")
    if forecast.memory_text:
        counts.append(forecast.memory_text)
    return ", ".join(counts)


def _group_machines(checks: Sequence[CheckedHost]) -> list[str]:
    """Render a block for each kind of equal hosts, with names, the most frequent first;
    count the rest.
    """
    kinds = _find_kinds_of_machine(checks)
    texts = []
    for description, names in kinds[:MESSAGES_SHOWN]:
        hosts = format_count(len(names), "host")
        lines = [f"{hosts}: {join_names(names)}", *description]
        texts.append("\n  ".join(lines))
    hidden = kinds[MESSAGES_SHOWN:]
    if hidden:
        count = format_count(len(hidden), "other kind")
        texts.append(f"{count} of machine, {count_hosts(hidden)}: see --json.")
    return texts


def _find_kinds_of_machine(
    checks: Sequence[CheckedHost],
) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return each kind of machine, the most frequent first: the lines that describe the
    machine and what a run would do, and the names of the hosts that these lines
    describe. Hosts without facts, or that cannot be measured, are left out.
    """
    names_by_kind: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for check in checks:
        if check.facts is None or check.intended is None:
            continue
        machine = _describe_machine(check.facts)
        run = _describe_run(check.facts, check.intended)
        names = names_by_kind[(machine, *run)]
        names.append(check.outcome.host.name)
    kinds = names_by_kind.items()
    return sorted(kinds, key=_count_names, reverse=True)


def _count_names(kind: tuple[object, Sequence[str]]) -> int:
    _, names = kind
    return len(names)


def _render_finding(finding: Finding, hosts: str = "") -> str:
    text = f"  {finding.severity}: {finding.found}{hosts}"
    if finding.remedy:
        text += f"\n      {finding.remedy}"
    return text


class _KindOfFinding(NamedTuple):
    """What findings that are told once have in common."""

    severity: Severity
    kind: str
    remedy: str


def _group_findings(checks: Sequence[CheckedHost]) -> list[str]:
    """Render each kind of finding once, with all its hosts, the worst first. The words
    are those of its first host. Findings are of one kind if they have the same
    severity, kind and remedy.
    """
    findings_by_kind: dict[_KindOfFinding, dict[str, Finding]] = defaultdict(dict)
    for check in checks:
        name = check.outcome.host.name
        for finding in check.findings:
            kind = _KindOfFinding(finding.severity, finding.kind, finding.remedy)
            findings_by_kind[kind][name] = finding
    if not findings_by_kind:
        return []

    def rank(kind: _KindOfFinding) -> tuple[int, int]:
        """Rank the worst first, and of these the most frequent."""
        hosts = len(findings_by_kind[kind])
        # the sort ascends: the minus brings the most frequent first
        return WORST_FIRST.index(kind.severity), -hosts

    kinds = sorted(findings_by_kind, key=rank)
    texts = [_render_kind_of_finding(findings_by_kind[kind]) for kind in kinds]
    return ["\n".join(["Findings", *texts])]


def _render_kind_of_finding(by_name: Mapping[str, Finding]) -> str:
    """Render the first host's finding, and the names of all its hosts."""
    first_name = next(iter(by_name))
    count = format_count(len(by_name), "host")
    hosts = f"\n      {count}: {join_names(by_name)}"
    wordings = {finding.found for finding in by_name.values()}
    if len(wordings) > 1:
        hosts = f" (on {first_name}; similar on the others){hosts}"
    return _render_finding(by_name[first_name], hosts)


def render_checks_json(checks: Sequence[CheckedHost]) -> str:
    """Render a JSON list, one object per host; `check` is null for a host without
    facts.
    """
    rows = []
    for check in checks:
        row = outcome_object(check.outcome)
        row["notes"] = list(check.outcome.notes)
        row["reported"] = list(check.reported)
        row["check"] = None
        if check.facts is not None:
            row["check"] = _make_check_object(check, check.facts)
        rows.append(row)
    return as_document("check", rows)


def _make_check_object(check: CheckedHost, facts: Facts) -> dict[str, object]:
    """Return what was found on a host; `run` is null if it cannot be measured."""
    intended = check.intended
    return {
        "target": str(facts.target),
        "cpu_model": facts.cpu_model,
        "kernel": facts.kernel,
        "cpus": len(facts.usable_cpus),
        "workdir": facts.workdir or None,
        "workdir_made": facts.workdir_made,
        "run": intended and _make_preview_object(intended),
        "findings": [asdict(finding) for finding in check.findings],
    }


def _make_preview_object(intended: RunPreview) -> dict[str, object]:
    """Return what a run would do. Without a forecast, its costs are null and
    `no_forecast` says why.
    """
    forecast = intended.forecast
    return {
        "agent": intended.agent,
        "plan": asdict(intended.plan),
        "cpus": forecast and forecast.cpus,
        "pairs": forecast and forecast.pairs,
        "points": forecast and forecast.points,
        "bursts": forecast and forecast.bursts,
        "memory_bytes": forecast and forecast.bytes,
        "seconds": forecast and asdict(forecast.duration),
        "no_forecast": None if forecast else intended.why,
    }

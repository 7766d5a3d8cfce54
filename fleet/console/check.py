"""Renders the results of `fleet check` as text and as JSON. Prints nothing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from fleet.console.summary import MANY, MESSAGES_SHOWN, outcome_object, render_failures
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
    if len(checks) <= _FOLD_FINDINGS_ABOVE:
        parts = [_render_host(check, findings=True) for check in checks]
    elif len(checks) <= MANY:
        parts = [
            *(_render_host(check, findings=False) for check in checks),
            *_group_findings(checks),
        ]
    else:
        failures = render_failures([check.outcome for check in checks])
        parts = [*_group_machines(checks), *failures, *_group_findings(checks)]
        able = sum(check.intended is not None for check in checks)
        parts.append(f"{able} of {len(checks)} hosts can be measured.")
    return "\n\n".join(parts)


def _render_host(check: CheckedHost, *, findings: bool) -> str:
    outcome, facts = check.outcome, check.facts
    name = outcome.host.name
    lines = [] if facts is None else [f"{name}: {_describe_machine(facts)}"]
    if facts is not None and check.intended is not None:
        lines += [f"  {line}" for line in _describe_run(facts, check.intended)]
    else:
        lines += [
            f"{name}: {outcome.state} in stage {outcome.stage}",
            f"  {outcome.message}",
        ]
    if findings:
        lines += [_render_finding(finding) for finding in check.findings]
    if check.reported:
        lines += [
            "  The host reported (if fleet misinterprets it, include this in a bug"
            " report):"
        ]
        lines += [f"    {line}" for line in check.reported]
    return "\n".join(lines)


def _describe_machine(facts: Facts) -> str:
    cpus = (
        f"{facts.cpu_model or 'unknown CPU'}, {len(facts.usable_cpus)} of"
        f" {len(facts.cpus)} CPUs usable"
    )
    return f"{cpus}, kernel {facts.kernel or 'unknown'}, {facts.os}-{facts.arch}"


def _describe_run(facts: Facts, intended: RunPreview) -> list[str]:
    place = (
        f"its directory is {facts.workdir}"
        if facts.workdir_made
        else f"would create {facts.workdir}"
    )
    forecast, kinds = intended.forecast, intended.plan.benchmarks
    if forecast is None:
        cost = f"; no forecast: {intended.why}"
    else:
        counts = [format_count(forecast.pairs, "pair")] if needs_pairs(kinds) else []
        counts += [format_count(forecast.points, "point")] if forecast.points else []
        counts += [
            f"{format_count(forecast.bursts, 'burst')} or more",
            f"about {forecast.time_text}",
        ]
        counts += [forecast.memory_text] if forecast.memory_text else []
        cost = f" on {format_count(forecast.cpus, 'CPU')}: {', '.join(counts)}"
    return [
        f"The agent {intended.agent}; {place}.",
        f"fleet run would measure {', '.join(kinds)}{cost}.",
    ]


def _group_machines(checks: Sequence[CheckedHost]) -> list[str]:
    """Render a block for each kind of equal hosts, with names, the most frequent first;
    count the rest.
    """
    names_by_kind: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for check in checks:
        if check.facts is not None and check.intended is not None:
            kind = (
                _describe_machine(check.facts),
                *_describe_run(check.facts, check.intended),
            )
            names_by_kind[kind].append(check.outcome.host.name)
    kinds = sorted(names_by_kind.items(), key=lambda item: -len(item[1]))
    texts = [
        "\n  ".join(
            [f"{format_count(len(names), 'host')}: {join_names(names)}", *lines]
        )
        for lines, names in kinds[:MESSAGES_SHOWN]
    ]
    if rest := kinds[MESSAGES_SHOWN:]:
        hosts = format_count(sum(len(names) for _, names in rest), "host")
        texts.append(
            f"{format_count(len(rest), 'other kind')} of machine, {hosts}: see --json."
        )
    return texts


def _render_finding(finding: Finding, hosts: str = "") -> str:
    remedy = f"\n      {finding.remedy}" if finding.remedy else ""
    return f"  {finding.severity}: {finding.found}{hosts}{remedy}"


def _group_findings(checks: Sequence[CheckedHost]) -> list[str]:
    """Render each kind of finding once, worded as for its first host, with all its
    hosts; the worst first.
    """
    findings_by_kind: dict[tuple[Severity, str, str], dict[str, Finding]] = defaultdict(
        dict
    )
    for check in checks:
        for finding in check.findings:
            kind = (finding.severity, finding.kind, finding.remedy)
            findings_by_kind[kind][check.outcome.host.name] = finding
    kinds = sorted(
        findings_by_kind.items(),
        key=lambda item: (WORST_FIRST.index(item[0][0]), -len(item[1])),
    )
    lines = []
    for _, by_name in kinds:
        name, first = next(iter(by_name.items()))
        differ = len({finding.found for finding in by_name.values()}) > 1
        similar = f" (on {name}; similar on the others)" * differ
        hosts = (
            f"{similar}\n      {format_count(len(by_name), 'host')}:"
            f" {join_names(by_name)}"
        )
        lines.append(_render_finding(first, hosts))
    return ["Findings\n" + "\n".join(lines)] if lines else []


def render_checks_json(checks: Sequence[CheckedHost]) -> str:
    """Render a JSON list, one object per host; `check` is null for a host without
    facts.
    """
    rows = []
    for check in checks:
        facts, notes = check.facts, list(check.outcome.notes)
        row = outcome_object(check.outcome) | {
            "notes": notes,
            "reported": list(check.reported),
        }
        row["check"] = facts and {
            "target": str(facts.target),
            "cpu_model": facts.cpu_model,
            "kernel": facts.kernel,
            "cpus": len(facts.usable_cpus),
            "workdir": facts.workdir or None,
            "workdir_made": facts.workdir_made,
            "run": check.intended and _make_preview_object(check.intended),
            "findings": [asdict(finding) for finding in check.findings],
        }
        rows.append(row)
    return as_document("check", rows)


def _make_preview_object(intended: RunPreview) -> dict[str, object]:
    forecast = intended.forecast
    return {
        "agent": intended.agent,
        "plan": asdict(intended.plan),
        **{
            name: forecast and getattr(forecast, name)
            for name in ("cpus", "pairs", "points", "bursts")
        },
        "memory_bytes": forecast and forecast.bytes,
        "seconds": forecast and asdict(forecast.duration),
        "no_forecast": None if forecast else intended.why,
    }

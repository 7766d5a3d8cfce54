"""Find changes over time, odd ones among equal machines, and unexpected runs, for pages
and the site.

The functions are those of `fleet compare HOST`, `fleet compare --siblings` and `fleet
accept`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from fleet.analysis.base.text import (
    convert_change,
    format_change,
    format_value,
    is_rate,
    to_records,
)
from fleet.analysis.compare.accept import Acceptance, Outcome, judge_last_runs
from fleet.analysis.compare.history import History, find_changes_over_time
from fleet.analysis.compare.siblings import MEAN, Siblings, compare_siblings
from fleet.analysis.compare.verdicts import CLASS
from fleet.analysis.exchange.imports import compute_model_medians
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.report.markup import render_template
from fleet.analysis.views.accept import render_acceptance
from fleet.analysis.views.changes import format_changes, render_changes_headline
from fleet.analysis.views.odd_machines import (
    format_odd_numbers,
    list_odd_environments,
    render_siblings_headline,
)
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.store.runs import Root
from fleet.text import format_count, one_line

_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 630.0, 12.0, 140.0  # CSS pixels of course.svg


class Finding(NamedTuple):
    """A change, or a number of an odd machine. title: where and by how much. text: the
    rest, in words.
    """

    title: str
    text: str


class Answer(NamedTuple):
    """The answer to one question. headline: one sentence. note: caveats, such as what
    has no verdict.
    """

    question: str
    headline: str
    findings: Sequence[Finding]
    note: str


@dataclass(slots=True)
class HostFindings:
    """The findings about one host.

    courses: a drawing per change. marks: changes beyond the threshold and oddities, in
    a few words each.
    accepted: what `fleet accept` says of its last run; empty if it was not judged.
    """

    findings: list[Finding] = field(default_factory=list)
    courses: list[Markup] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    accepted: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings about the runs of some hosts.

    changes: each change as its day and its table cells (titles: `CHANGE_TITLES`).
    hosts: findings by host.
    acceptances: whether the last run of each host is as expected.
    """

    answers: Sequence[Answer] = ()
    changes: Sequence[tuple[str, tuple[str, ...]]] = ()
    hosts: Mapping[str, HostFindings] = field(default_factory=dict)
    acceptances: Sequence[Acceptance] = ()

    def summarize_acceptances(self) -> list[str]:
        """Return the lines of `fleet accept`; for several machines, those below or
        above, then counts.
        """
        machines = self.acceptances
        is_counted = (
            {Outcome.AS_EXPECTED, Outcome.CANNOT_TELL}
            if len(machines) > 1
            else set[Outcome]()
        )
        lines = [
            render_acceptance(machine)
            for machine in machines
            if machine.outcome not in is_counted
        ]
        counts = Counter(
            machine.outcome for machine in machines if machine.outcome in is_counted
        )
        rest = "; ".join(
            f"{format_count(count, 'machine')}: {outcome}"
            for outcome, count in counts.items()
        )
        return [*lines, *([rest] if rest else [])]


def judge_hosts(
    root: Root,
    selection: Sequence[str],
    ranges: Sequence[ExpectedRange] = (),
    only: Only = ALL,
) -> list[Acceptance]:
    """Judge the last run of each host by what is expected of it; return [] if nothing
    can be compared.
    """
    load_tables = partial(compute_model_medians, root)
    with suppress(UsageError):
        return judge_last_runs(
            root, selection, ranges, load_tables=load_tables, only=only
        )
    return []


def find(
    root: Root,
    selection: Sequence[str],
    benchmark: str | None = None,
    ranges: Sequence[ExpectedRange] = (),
) -> Findings:
    """Find what changed when, and which machines are odd or as expected; empty if
    nothing can be compared.
    """
    only, hosts = Only(benchmark), defaultdict[str, HostFindings](HostFindings)
    try:
        past = find_changes_over_time(root, selection, only=only)
        groups = compare_siblings(root, selection, only=only)
    except UsageError:  # they have no numbers that are compared
        return Findings()
    findings, changes = [], []
    for row, words in zip(to_records(past.changes), format_changes(past), strict=True):
        when, where, change, interval, beside = words
        findings.append(
            Finding(
                f"{where}: {change}",
                f"{interval}; {when}" + f"; {beside}" * bool(beside),
            )
        )
        changes.append((f"{row['after'] if row['dated'] else row['end']}", words))
        for host in row["hosts"]:
            hosts[host].findings.append(findings[-1])
            hosts[host].courses.append(_draw_nights(past, row, words, host))
            if row["changed"]:
                day = f"since {row['after']}" if row["dated"] else when
                hosts[host].marks.append(
                    one_line(f"{where.rpartition(', ')[2]} {change} {day}")
                )
    headline = render_changes_headline(past)
    answers = [Answer("What changed when", headline, findings, " ".join(past.caveats))]
    answers += [
        _find_odd_machines(group, hosts) for group in groups if len(group.hosts) > 1
    ]
    acceptances = judge_hosts(root, selection, ranges, only)
    for machine in acceptances:
        hosts[machine.host].accepted = render_acceptance(machine).partition(": ")[2]
    return Findings(answers, changes, dict(hosts), acceptances)


def _find_odd_machines(
    group: Siblings, hosts: defaultdict[str, HostFindings]
) -> Answer:
    """Answer which machines of a group are odd. Add findings to `hosts`, each host's
    clearest as a mark.
    """
    numbers = format_odd_numbers(group) if group.odd_hosts else []
    findings = list[tuple[str, Finding]]()
    for host, kind, relation, this, others, change, interval, _ in numbers:
        if all(host != other for other, _ in findings):
            hosts[host].marks.append(
                one_line(f"odd: {'mean' if relation == MEAN else relation} {change}")
            )
        where = "mean of all relations" if relation == MEAN else f"{kind} {relation}"
        beside = f"; {this} against {others}" if this != "-" else ""
        findings.append(
            (host, Finding(f"{host}, {where}: {change}", f"{interval}{beside}"))
        )
    findings += [
        (host, Finding(host, text)) for host, text in list_odd_environments(group)
    ]
    for host, finding in findings:
        hosts[host].findings.append(finding)
    headline = render_siblings_headline(group)
    listed = [finding for _, finding in findings]
    return Answer(
        "Which of equal machines is odd", headline, listed, " ".join(group.caveats)
    )


def _draw_nights(
    past: History, change: Mapping[str, Any], words: tuple[str, ...], host: str
) -> Markup:
    """Draw a host's nights around a change. words: the change's table cells (titles:
    `CHANGE_TITLES`).
    """
    rows, far_off = past.logs.loc[[host]], past.odd[past.odd["host"] == host]
    kind, descriptions = change["benchmark"], past.descriptions
    if kind:
        own = [change[name] for name in CLASS]
        rows, far_off = (
            rows.loc[[(host, *own)]],
            far_off[(far_off[CLASS] == own).all(axis=1)],
        )
    else:  # the mean of several relations, each relative to its own median
        rows = rows.sub(rows.median(axis=1), axis=0)
    sign = -1 if is_rate(descriptions[kind]) else 1
    series = rows.mean().dropna() * sign
    dates, far = list(series.index), set(far_off["night"])
    is_before = [
        night not in far and change["begin"] <= night <= change["before"]
        for night in series.index
    ]
    level = float(np.mean(series[is_before] if any(is_before) else series))
    after, low, high = level + np.log1p(convert_change(change, descriptions))
    bottom, top = (end([*series, level, low, high]) for end in (min, max))
    days = max((dates[-1] - dates[0]).days, 1)

    def x(night: date) -> float:
        share = float(np.clip((night - dates[0]).days / days, 0, 1))
        return round(_LEFT + share * (_RIGHT - _LEFT), 1)

    def y(log: float) -> float:
        return round(
            _BOTTOM
            - float((log - bottom) / max(top - bottom, 1e-9)) * (_BOTTOM - _TOP),
            1,
        )

    def format_level(log: float) -> str:
        if not kind:
            return format_change(float(np.expm1(log)))
        return format_value(descriptions[kind], float(np.exp(sign * log)))

    ticks = [
        (
            x(night),
            f"{night}: "
            + "; ".join(f"{fact} {old} → {new}" for fact, old, new in sorted(facts)),
        )
        for night, facts in sorted(past.facts.get(host, {}).items())
        if facts and dates[0] <= night <= dates[-1]
    ]
    nights = [
        (x(night), y(log), night in far)
        for night, log in zip(dates, series, strict=True)
    ]
    begin, until, since, end = (
        x(change[name]) for name in ("begin", "before", "after", "end")
    )
    svg = render_template(
        "course.svg",
        words=words,
        nights=nights,
        levels=((begin, until, y(level)), (since, max(end, since), y(after))),
        band=(y(high), y(low)),
        ticks=ticks,
        scale=[(y(log), format_level(log)) for log in (bottom, top)],
        ends=(dates[0], dates[-1]),
    )
    return Markup(svg)  # noqa: S704  (the template escapes)

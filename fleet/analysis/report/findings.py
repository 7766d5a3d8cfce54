"""Find changes over time, odd ones among equal machines, and unexpected runs, for pages
and the site.

The functions are those of `fleet compare HOST`, `fleet compare --siblings` and `fleet
accept`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fleet.analysis.base.text import (
    convert_change,
    format_change,
    format_value,
    is_rate,
    name_benchmark,
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
from fleet.model import Descriptions
from fleet.store.runs import Root
from fleet.text import format_count, one_line

_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 630.0, 12.0, 140.0  # CSS pixels of course.svg


class Finding(NamedTuple):
    """A change, or a number of an odd machine. title: where and by how much. text: the
    rest, in words. hosts, choice, relation: what it is about, "" for all.
    """

    title: str
    text: str
    hosts: tuple[str, ...] = ()
    choice: str = ""
    relation: str = ""


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
        counted = set[Outcome]()
        if len(machines) > 1:
            counted = {Outcome.AS_EXPECTED, Outcome.CANNOT_TELL}
        lines = list[str]()
        counts = Counter[Outcome]()
        for machine in machines:
            if machine.outcome in counted:
                counts[machine.outcome] += 1
            else:
                lines.append(render_acceptance(machine))
        if counts:
            lines.append("; ".join(_word_counts(counts)))
        return lines


def _word_counts(counts: Mapping[Outcome, int]) -> list[str]:
    """Say of how many machines each outcome is."""
    return [
        f"{format_count(count, 'machine')}: {outcome}"
        for outcome, count in counts.items()
    ]


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
    only = Only(benchmark)
    try:
        past = find_changes_over_time(root, selection, only=only)
        groups = compare_siblings(root, selection, only=only)
    except UsageError:  # they have no numbers that are compared
        return Findings()
    hosts = defaultdict[str, HostFindings](HostFindings)
    changes = list(zip(to_records(past.changes), format_changes(past), strict=True))
    answers = [_find_changes(past, changes, hosts)]
    several = [group for group in groups if len(group.hosts) > 1]
    answers += [_find_odd_machines(group, hosts) for group in several]
    acceptances = judge_hosts(root, selection, ranges, only)
    for machine in acceptances:
        hosts[machine.host].accepted = describe_acceptance(machine)
    return Findings(
        answers=answers,
        changes=[(str(_choose_day(row)), cells) for row, cells in changes],
        hosts=dict(hosts),
        acceptances=acceptances,
    )


def describe_acceptance(machine: Acceptance) -> str:
    """Render the line of `fleet accept` about a machine, without the machine's name."""
    return render_acceptance(machine).partition(": ")[2]


def _find_changes(
    past: History,
    changes: Sequence[tuple[Mapping[str, Any], tuple[str, ...]]],
    hosts: defaultdict[str, HostFindings],
) -> Answer:
    """Answer what changed when. Add findings, pictures and marks to `hosts`. changes:
    rows, each with its table cells (titles: `CHANGE_TITLES`).
    """
    findings = []
    for row, cells in changes:
        finding = _word_change(row, cells)
        findings.append(finding)
        for host in row["hosts"]:
            of_host = hosts[host]
            of_host.findings.append(finding)
            of_host.courses.append(_draw_nights(past, row, cells, host))
            if row["changed"]:
                of_host.marks.append(_mark_change(row, cells))
    return Answer(
        question="What changed when",
        headline=render_changes_headline(past),
        findings=findings,
        note=" ".join(past.caveats),
    )


def _choose_day(change: Mapping[str, Any]) -> date:
    """Return the night after a change, or the end of its interval if that is not
    known.
    """
    day: date = change["end"]
    if change["dated"]:
        day = change["after"]
    return day


def _word_change(change: Mapping[str, Any], words: tuple[str, ...]) -> Finding:
    """Word a change. words: its table cells (titles: `CHANGE_TITLES`)."""
    when, where, size, interval, what_else_changed = words
    about = f"{interval}; {when}"
    if what_else_changed:
        about += f"; {what_else_changed}"
    return Finding(
        title=f"{where}: {size}",
        text=about,
        hosts=tuple(change["hosts"]),
        choice=name_benchmark(change),
        relation=change["relation"],
    )


def _mark_change(row: Mapping[str, Any], words: tuple[str, ...]) -> str:
    """Word a change as a mark. words: its table cells (titles: `CHANGE_TITLES`)."""
    when, where, change, *_ = words
    relation = where.rpartition(", ")[2]
    since = f"since {row['after']}" if row["dated"] else when
    return one_line(f"{relation} {change} {since}")


def _find_odd_machines(
    group: Siblings, hosts: defaultdict[str, HostFindings]
) -> Answer:
    """Answer which machines of a group are odd. Add findings to `hosts`, each host's
    clearest as a mark.
    """
    findings = _list_odd_numbers(group, hosts)
    for host, text in list_odd_environments(group):
        findings.append(Finding(title=host, text=text, hosts=(host,)))
    for finding in findings:
        (host,) = finding.hosts
        hosts[host].findings.append(finding)
    return Answer(
        question="Which of equal machines is odd",
        headline=render_siblings_headline(group),
        findings=findings,
        note=" ".join(group.caveats),
    )


def _list_odd_numbers(
    group: Siblings, hosts: defaultdict[str, HostFindings]
) -> list[Finding]:
    """Word each odd number of a group's machines, and mark its host in `hosts` if it is
    the host's first.
    """
    if not group.odd_hosts:
        return []
    findings = []
    marked = set[str]()
    for cells in format_odd_numbers(group):
        host, choice, relation, this, others, change, interval, _ = cells
        subject = relation
        where = f"{choice} {relation}"
        if relation == MEAN:
            subject = "mean"
            where = "mean of all relations"
        if host not in marked:
            marked.add(host)
            hosts[host].marks.append(one_line(f"odd: {subject} {change}"))
        title = f"{host}, {where}: {change}"
        about = interval
        if this != "-":
            about += f"; {this} against {others}"
        findings.append(Finding(title, about, (host,), choice, relation))
    return findings


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where a drawing of nights has its points, in CSS pixels. bottom, top: logs."""

    first: date
    last: date
    bottom: float
    top: float

    def place_night(self, night: date) -> float:
        """Return a night's place from the left; one outside is at the nearest end."""
        days = max((self.last - self.first).days, 1)
        share = float(np.clip((night - self.first).days / days, 0, 1))
        return round(_LEFT + share * (_RIGHT - _LEFT), 1)

    def place_log(self, log: float) -> float:
        """Return the place of a number's log from the top."""
        height = max(self.top - self.bottom, 1e-9)
        share = float((log - self.bottom) / height)
        return round(_BOTTOM - share * (_BOTTOM - _TOP), 1)


def _draw_nights(
    past: History, change: Mapping[str, Any], words: tuple[str, ...], host: str
) -> Markup:
    """Draw a host's nights around a change. words: the change's table cells (titles:
    `CHANGE_TITLES`).
    """
    descriptions = past.descriptions
    series, far_nights = _select_nights(past, change, host)
    before = _compute_level_before(series, far_nights, change)
    after, low, high = before + np.log1p(convert_change(change, descriptions))
    logs = [*series, before, low, high]
    axes = _Axes(series.index[0], series.index[-1], min(logs), max(logs))
    nights = []
    for night, log in zip(series.index, series, strict=True):
        words_of_night = f"{night}: {_format_level(log, change, descriptions)}"
        x = axes.place_night(night)
        y = axes.place_log(log)
        nights.append((x, y, night in far_nights, words_of_night))
    svg = render_template(
        "course.svg",
        words=words,
        nights=nights,
        levels=_place_levels(axes, change, before, after),
        band=(axes.place_log(high), axes.place_log(low)),
        ticks=_list_ticks(past, host, axes),
        scale=_label_scale(axes, change, descriptions),
        ends=(axes.first, axes.last),
    )
    return Markup(svg)  # noqa: S704  (the template escapes)


def _place_levels(
    axes: _Axes, change: Mapping[str, Any], before: float, after: float
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Return the lines at the levels before and after a change, each as its left and
    right end and its place from the top. before, after: logs.
    """
    begin = axes.place_night(change["begin"])
    until = axes.place_night(change["before"])
    since = axes.place_night(change["after"])
    end = max(axes.place_night(change["end"]), since)
    line_before = (begin, until, axes.place_log(before))
    line_after = (since, end, axes.place_log(after))
    return line_before, line_after


def _label_scale(
    axes: _Axes, change: Mapping[str, Any], descriptions: Descriptions
) -> list[tuple[float, str]]:
    """Return the place and the number of the lower and the upper end of the scale."""
    labels = []
    for log in (axes.bottom, axes.top):
        number = _format_level(log, change, descriptions)
        labels.append((axes.place_log(log), number))
    return labels


def _select_nights(
    past: History, change: Mapping[str, Any], host: str
) -> tuple["pd.Series[float]", set[date]]:
    """Return the logs of a host's numbers by night, greater where the number is, and
    the nights that are far off.
    """
    far_off = past.odd[past.odd["host"] == host]
    choice = change["benchmark"]
    if choice:
        own_class = [change[name] for name in CLASS]
        logs = past.logs.loc[[(host, *own_class)]]
        is_of_class = (far_off[CLASS] == own_class).all(axis=1)
        far_off = far_off[is_of_class]
    else:  # the mean of several relations, each relative to its own median
        logs = past.logs.loc[[host]]
        logs = logs.sub(logs.median(axis=1), axis=0)
    by_night = logs.mean().dropna()
    sign = _choose_sign(choice, past.descriptions)
    return by_night * sign, set(far_off["night"])


def _choose_sign(choice: str, descriptions: Descriptions) -> int:
    """Return -1 for a rate, which is greater where the time is less, else 1."""
    return -1 if is_rate(descriptions[choice]) else 1


def _compute_level_before(
    series: "pd.Series[float]", far: Set[date], change: Mapping[str, Any]
) -> float:
    """Return the mean log of the nights before a change; of all, if there are none."""
    nights_before = [
        night
        for night in series.index
        if night not in far and change["begin"] <= night <= change["before"]
    ]
    if nights_before:
        return float(np.mean(series[nights_before]))
    return float(np.mean(series))


def _format_level(
    log: float, change: Mapping[str, Any], descriptions: Descriptions
) -> str:
    """Format a number of the scale: a change if the number is a mean of relations."""
    choice = change["benchmark"]
    if not choice:
        return format_change(float(np.expm1(log)))
    # the scale has logs of rates, which are minus those of times
    ns = float(np.exp(_choose_sign(choice, descriptions) * log))
    return format_value(descriptions[choice], ns)


def _list_ticks(past: History, host: str, axes: _Axes) -> list[tuple[float, str]]:
    """Return the place of each night when the host's environment changed, and how."""
    ticks = []
    for night, facts in sorted(past.facts.get(host, {}).items()):
        is_shown = axes.first <= night <= axes.last
        if facts and is_shown:
            changes = [f"{fact} {old} → {new}" for fact, old, new in sorted(facts)]
            words = f"{night}: {'; '.join(changes)}"
            ticks.append((axes.place_night(night), words))
    return ticks

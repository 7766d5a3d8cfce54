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

from fleet.analysis.base.tables import NUMBER_KEY
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
from fleet.analysis.exchange.imports import compute_model_medians
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.report.markup import render_template
from fleet.analysis.views.accept import render_acceptance
from fleet.analysis.views.changes import format_changes, render_changes_headline
from fleet.analysis.views.odd_machines import (
    NO_NUMBER,
    OddNumberCells,
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
        """Return the lines of `fleet accept`.

        A single machine has a line. Of several, those below or above what is expected
        have a line each; a last line says how many are as expected, and of how many one
        cannot tell.
        """
        machines = self.acceptances
        outcomes_to_count = set[Outcome]()
        if len(machines) > 1:
            outcomes_to_count = {Outcome.AS_EXPECTED, Outcome.CANNOT_TELL}
        lines = list[str]()
        counts = Counter[Outcome]()
        for machine in machines:
            if machine.outcome in outcomes_to_count:
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

    selection: the runs, as on the command line. ranges: what is expected, set by hand.
    only: the numbers to compare.
    """
    # called, if needed, with a CPU model: loads the medians of its summaries
    load_tables = partial(compute_model_medians, root)
    with suppress(UsageError):  # the runs have no numbers that are compared
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
    """Find what changed when, and which machines are odd or as expected, among the runs
    of a selection. Return empty findings if nothing can be compared.

    benchmark: the only one to look at; None for all. ranges: what is expected of
    machines. Machines are odd or not within a group of equal ones; a group of a single
    machine is left out.
    """
    only = Only(benchmark)
    try:
        past = find_changes_over_time(root, selection, only=only)
        groups = compare_siblings(root, selection, only=only)
    except UsageError:  # the runs have no numbers that are compared
        return Findings()
    hosts = defaultdict[str, HostFindings](HostFindings)
    rows = to_records(past.changes)
    # each change as a row of the history and its table cells
    changes = list(zip(rows, format_changes(past), strict=True))
    # each of these answers also adds its findings to those of the hosts in `hosts`
    answers = [_find_changes(past, changes, hosts)]
    several = [group for group in groups if len(group.hosts) > 1]
    answers += [_find_odd_machines(group, hosts) for group in several]
    acceptances = judge_hosts(root, selection, ranges, only)
    for acceptance in acceptances:
        hosts[acceptance.host].accepted = describe_acceptance(acceptance)
    days_and_cells = [(str(_choose_day(row)), cells) for row, cells in changes]
    return Findings(
        answers=answers,
        changes=days_and_cells,
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
    """Answer what changed when. Add to `hosts` the findings and pictures of each host,
    and marks for changes beyond the threshold.

    changes: rows of the history, each with its table cells (titles: `CHANGE_TITLES`).
    """
    findings = []
    for row, cells in changes:
        finding = _word_change(row, cells)
        findings.append(finding)
        for host in row["hosts"]:
            host_findings = hosts[host]
            host_findings.findings.append(finding)
            host_findings.courses.append(_draw_nights(past, row, cells, host))
            is_beyond_threshold = row["changed"]  # else too small to matter
            if is_beyond_threshold:
                host_findings.marks.append(_mark_change(row, cells))
    return Answer(
        question="What changed when",
        headline=render_changes_headline(past),
        findings=findings,
        note=" ".join(past.caveats),
    )


def _choose_day(change: Mapping[str, Any]) -> date:
    """Return the night after a change or, if that is not known, the last night that was
    compared.
    """
    day: date = change["end"]
    if change["dated"]:
        day = change["after"]
    return day


def _word_change(change: Mapping[str, Any], words: tuple[str, ...]) -> Finding:
    """Word a change as a finding. change: a row of the history. words: the table cells
    of the change (titles: `CHANGE_TITLES`).
    """
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
    """Word a change as a mark: "llc +12.3% since 2026-11-02". words: its table cells
    (titles: `CHANGE_TITLES`).
    """
    when, where, change, *_ = words
    relation = where.rpartition(", ")[2]
    since = f"since {row['after']}" if row["dated"] else when
    return one_line(f"{relation} {change} {since}")


def _find_odd_machines(
    group: Siblings, hosts: defaultdict[str, HostFindings]
) -> Answer:
    """Answer which machines of a group are odd. Add the findings to those of their
    hosts in `hosts`, and mark each odd host by its clearest number.
    """
    findings = list[Finding]()
    if group.odd_hosts:
        odd_numbers = format_odd_numbers(group)  # each host's clearest comes first
        findings += [_word_odd_number(number) for number in odd_numbers]
        for host, mark in _choose_marks(odd_numbers).items():
            hosts[host].marks.append(mark)
    for host, environment in list_odd_environments(group):
        finding = Finding(title=host, text=environment, hosts=(host,))
        findings.append(finding)
    for finding in findings:
        (host,) = finding.hosts  # a finding about a group is about one machine of it
        hosts[host].findings.append(finding)
    return Answer(
        question="Which of equal machines is odd",
        headline=render_siblings_headline(group),
        findings=findings,
        note=" ".join(group.caveats),
    )


def _choose_marks(numbers: Sequence[OddNumberCells]) -> dict[str, str]:
    """Return a mark for each host, in a few words: "odd: llc +12.3%". It is about the
    first of the host's odd numbers.
    """
    marks = dict[str, str]()
    for number in numbers:
        subject = "mean" if number.relation == MEAN else number.relation
        marks.setdefault(number.host, one_line(f"odd: {subject} {number.change}"))
    return marks


def _word_odd_number(number: OddNumberCells) -> Finding:
    """Word an odd number of a machine as a finding.

    It may be the mean over all relations. Their numbers have no common unit, so the
    mean has a change, but no number of its own to set against the others'.
    """
    where = f"{number.benchmark} {number.relation}"
    if number.relation == MEAN:
        where = "mean of all relations"
    about = number.interval
    if number.this != NO_NUMBER:
        about += f"; {number.this} against {number.others}"
    return Finding(
        title=f"{number.host}, {where}: {number.change}",
        text=about,
        hosts=(number.host,),
        choice=number.benchmark,
        relation=number.relation,
    )


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where a drawing of nights has its points, in CSS pixels.

    first, last: the nights at its left and right end. bottom, top: the logs of the
    numbers at its lower and upper end.
    """

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
    """Draw a host's number in each night, and the levels before and after a change. A
    level is a number around which the nights lie until it changes.

    The vertical axis is of logarithms of the number as it is shown. change: a row of
    the history. words: the table cells of the change (titles: `CHANGE_TITLES`).
    """
    descriptions = past.descriptions
    log_by_night, far_nights = _select_nights(past, change, host)
    log_before = _compute_level_before(log_by_night, far_nights, change)
    # the change and the ends of its interval, each relative: 0.1 for 10 % more
    change_and_ends = convert_change(change, descriptions)
    # the level that each of the three leads to: log(level * (1 + change))
    log_after, log_low, log_high = log_before + np.log1p(change_and_ends)
    # log_after is between log_low and log_high
    logs_shown = [*log_by_night, log_before, log_low, log_high]
    axes = _Axes(
        first=log_by_night.index[0],
        last=log_by_night.index[-1],
        bottom=min(logs_shown),
        top=max(logs_shown),
    )
    nights = []
    for night, log in zip(log_by_night.index, log_by_night, strict=True):
        number = _format_level(log, change, descriptions)
        x = axes.place_night(night)
        y = axes.place_log(log)
        is_far = night in far_nights
        nights.append((x, y, is_far, f"{night}: {number}"))
    svg = render_template(
        "course.svg",
        words=words,
        nights=nights,
        levels=_place_levels(axes, change, log_before, log_after),
        band=(axes.place_log(log_high), axes.place_log(log_low)),
        ticks=_list_ticks(past, host, axes),
        scale=_label_scale(axes, change, descriptions),
        ends=(axes.first, axes.last),
    )
    return Markup(svg)  # noqa: S704  (the template escapes)


def _place_levels(
    axes: _Axes, change: Mapping[str, Any], log_before: float, log_after: float
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Return the lines at the levels before and after a change, each as its left end,
    its right end and its place from the top.

    change: its nights are, in order, `begin` and `before`, the first and the last night
    at the level before; then `after` and `end`, those at the level after.
    """
    left_before = axes.place_night(change["begin"])
    right_before = axes.place_night(change["before"])
    left_after = axes.place_night(change["after"])
    # `end` may not lie before `after`, or the line would run backwards
    right_after = max(axes.place_night(change["end"]), left_after)
    line_before = (left_before, right_before, axes.place_log(log_before))
    line_after = (left_after, right_after, axes.place_log(log_after))
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
    """Return the log of the number of a host in each night, and the nights in which it
    is far from those around.

    A greater log is a greater number as it is shown. past: `past.odd` has a row per
    night in which a number is far off. change: a row of `past.changes`.
    """
    far_off = past.odd[past.odd["host"] == host]
    benchmark = change["benchmark"]
    # past.log_ns has a row per host, benchmark, variant and relation, a column per
    # night
    if benchmark:
        # one relation changed: the number is that of this relation
        key = [change[name] for name in NUMBER_KEY]
        log_ns = past.log_ns.loc[[(host, *key)]]
        is_of_relation = (far_off[NUMBER_KEY] == key).all(axis=1)
        far_off = far_off[is_of_relation]
    else:
        # several relations changed: the number is the mean of all relations, which
        # differ in size, so each is taken relative to its median over nights
        log_ns = past.log_ns.loc[[host]]
        medians = log_ns.median(axis=1)
        log_ns = log_ns.sub(medians, axis=0)
    log_by_night = log_ns.mean().dropna()
    # log_ns is of times: the log of a rate, 1 / time, has the opposite sign; a mean of
    # several relations stays one of times
    sign = _choose_sign(benchmark, past.descriptions)
    return log_by_night * sign, set(far_off["night"])


def _choose_sign(choice: str, descriptions: Descriptions) -> int:
    """Return -1 for a rate, which is greater where the time is less, else 1."""
    return -1 if is_rate(descriptions[choice]) else 1


def _compute_level_before(
    log_by_night: "pd.Series[float]", far_nights: Set[date], change: Mapping[str, Any]
) -> float:
    """Return the mean log of the nights at the level before a change, without those far
    off the level; if there are none, that of all nights.

    change: `begin` and `before` are the first and the last night at that level.
    """
    nights_before = [
        night
        for night in log_by_night.index
        if change["begin"] <= night <= change["before"] and night not in far_nights
    ]
    if nights_before:
        return float(np.mean(log_by_night[nights_before]))
    return float(np.mean(log_by_night))


def _format_level(
    log: float, change: Mapping[str, Any], descriptions: Descriptions
) -> str:
    """Format a number of the scale: a change if the number is a mean of relations."""
    choice = change["benchmark"]
    if not choice:
        return format_change(float(np.expm1(log)))
    # the scale has log_ns of rates, which are minus those of times
    ns = float(np.exp(_choose_sign(choice, descriptions) * log))
    return format_value(descriptions[choice], ns)


def _list_ticks(past: History, host: str, axes: _Axes) -> list[tuple[float, str]]:
    """Return the place of each night when the host's environment changed, and in words
    what changed: "2026-11-02: kernel 6.1 → 6.2".

    The facts of a night, such as ("kernel", "6.1", "6.2"), are those that differ from
    the host's previous night. Nights without such facts or outside the axes are left
    out.
    """
    ticks = []
    facts_by_night = past.facts.get(host, {})
    for night, facts in sorted(facts_by_night.items()):
        is_shown = axes.first <= night <= axes.last
        if facts and is_shown:
            changes = [f"{fact} {old} → {new}" for fact, old, new in sorted(facts)]
            words = f"{night}: {'; '.join(changes)}"
            ticks.append((axes.place_night(night), words))
    return ticks

"""State what runs show without a question: what changed when, and which of equal machines is odd.

Use the functions of `fleet compare HOST`, `fleet compare --siblings` and `fleet accept`, for pages and the
site.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fleet.analysis.base.text import convert_change, format_change, format_value, is_rate, to_records
from fleet.analysis.compare.accept import Acceptance, Outcome, judge_last_runs
from fleet.analysis.compare.history import History, find_changes_over_time
from fleet.analysis.compare.siblings import MEAN, Siblings, compare_siblings
from fleet.analysis.compare.side_runs import CLASS
from fleet.analysis.exchange.imports import load_model
from fleet.analysis.reduce.comparison_rows import ALL, Only
from fleet.analysis.views import over_time
from fleet.analysis.views import siblings as siblings_view
from fleet.analysis.views.accept import acceptance_line
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.store.runs import Root
from fleet.text import format_count, one_line

COURSE_SIZE = (640, 180)  # pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 630.0, 12.0, 140.0

Point = tuple[float, float]


class Finding(NamedTuple):
    """A change, or a number of an odd machine. title: where and by how much. text: the rest, in words."""

    title: str
    text: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question. headline: one sentence. note: what has no verdict."""

    question: str
    headline: str
    findings: Sequence[Finding]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Course:
    """A host's nights around a change, in pixels of COURSE_SIZE.

    words: the change, under over_time.TITLES. nights: x and y; odd: those far from the nights around them.
    levels: (from x, to x, y) before and after the change. band: from y to y, the 95 % interval of the second
    level. ticks: x and words of the nights in which facts changed. scale: y and number of both ends. first,
    last: nights.
    """

    words: tuple[str, ...]
    nights: tuple[Point, ...]
    odd: tuple[Point, ...]
    levels: tuple[tuple[float, float, float], ...]
    band: Point
    ticks: tuple[tuple[float, str], ...]
    scale: tuple[tuple[float, str], ...]
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings about the runs of some hosts.

    changes: `on` (a day) and `cells`, under over_time.TITLES. courses, marks: by host; a mark is a finding
    beyond the threshold in a few words. acceptances: by host, whether its last run is as expected.
    """

    answers: Sequence[Answer] = ()
    changes: Sequence[dict[str, Any]] = ()
    courses: Mapping[str, Sequence[Course]] = field(default_factory=dict)
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    acceptances: Mapping[str, Acceptance] = field(default_factory=dict)

    def about_host(self, host: str) -> list[Finding]:
        """Return the findings about one host."""
        return [finding for answer in self.answers for finding in answer.findings if host in finding.hosts]

    def describe_acceptance(self, host: str) -> str:
        """Say whether a host's last run is as expected, without its name; empty if it was not judged."""
        machine = self.acceptances.get(host)
        return acceptance_line(machine).partition(": ")[2] if machine else ""

    def list_acceptances(self) -> list[str]:
        """List the lines of `fleet accept`; of several machines only those that are off, then counts."""
        machines = self.acceptances.values()
        is_counted = {Outcome.AS_EXPECTED, Outcome.CANNOT_TELL} if len(machines) > 1 else set[Outcome]()
        lines = [acceptance_line(machine) for machine in machines if machine.outcome not in is_counted]
        counts = Counter(machine.outcome for machine in machines if machine.outcome in is_counted)
        rest = "; ".join(f"{format_count(count, 'machine')}: {outcome}" for outcome, count in counts.items())
        return [*lines, *([rest] if rest else [])]


def judge(
    root: Root, selection: Sequence[str], ranges: Sequence[ExpectedRange] = (), only: Only = ALL
) -> dict[str, Acceptance]:
    """Hold the last run of each host against what is expected; empty if nothing can be compared."""
    try:
        tables = partial(load_model, root)
        machines = judge_last_runs(root, selection, ranges, load_tables=tables, only=only)
    except UsageError:
        return {}
    return {machine.host: machine for machine in machines}


def find(
    root: Root,
    selection: Sequence[str],
    benchmark: str | None = None,
    ranges: Sequence[ExpectedRange] = (),
) -> Findings:
    """Find what changed when in a selection, which of its equal machines are odd, and which as expected."""
    try:
        only = Only(benchmark)
        past, groups = (
            find_changes_over_time(root, selection, only=only),
            compare_siblings(root, selection, only=only),
        )
    except UsageError:  # they have no numbers that are compared
        return Findings()
    cells = over_time.format_changes(past)
    days = [row["after"] if row["dated"] else row["end"] for row in to_records(past.changes)]
    answers = [
        _answer_changes(past, cells),
        *(_answer_odd(group) for group in groups if len(group.hosts) > 1),
    ]
    changes = [{"on": f"{on}", "cells": list(own)} for on, own in zip(days, cells, strict=True)]
    marks = dict[str, list[str]]()
    for host, mark in (*_mark_changes(past, cells), *(mark for group in groups for mark in _mark_odd(group))):
        marks.setdefault(host, []).append(one_line(mark))
    courses = dict[str, list[Course]]()
    for change, words in zip(to_records(past.changes), cells, strict=True):
        for host in change["hosts"]:
            courses.setdefault(host, []).append(_draw_course(past, change, words, host))
    return Findings(answers, changes, courses, marks, judge(root, selection, ranges, only))


def _answer_changes(past: History, cells: Sequence[tuple[str, ...]]) -> Answer:
    findings = []
    for row, (when, where, change, interval, beside) in zip(to_records(past.changes), cells, strict=True):
        text = f"{interval}; {when}" + f"; {beside}" * bool(beside)
        findings.append(Finding(f"{where}: {change}", text, row["hosts"]))
    return Answer(
        "What changed when", over_time.render_changes_headline(past), findings, " ".join(past.caveats)
    )


def _answer_odd(group: Siblings) -> Answer:
    findings = []
    for host, kind, relation, this, others, change, interval, _ in (
        siblings_view.format_odd_numbers(group) if group.odd_hosts else ()
    ):
        where = "mean of all relations" if relation == MEAN else f"{kind} {relation}"
        beside = f"; {this} against {others}" if this != "-" else ""
        findings.append(Finding(f"{host}, {where}: {change}", f"{interval}{beside}", (host,)))
    findings += [Finding(host, text, (host,)) for host, text in siblings_view.odd_environments(group)]
    return Answer(
        "Which of equal machines is odd",
        siblings_view.render_siblings_headline(group),
        findings,
        " ".join(group.caveats),
    )


def _mark_changes(past: History, cells: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    for row, (when, where, change, *_) in zip(to_records(past.changes), cells, strict=True):
        if row["changed"]:
            day = f"since {row['after']}" if row["dated"] else when
            for host in row["hosts"]:
                yield host, f"{where.rpartition(', ')[2]} {change} {day}"


def _mark_odd(group: Siblings) -> Iterator[tuple[str, str]]:
    """Yield each odd host once, with its number that is least likely by chance."""
    marked = set[str]()
    for host, _, relation, _, _, change, *_ in (
        siblings_view.format_odd_numbers(group) if group.odd_hosts else ()
    ):
        if host not in marked:
            marked.add(host)
            yield host, f"odd: {'mean' if relation == MEAN else relation} {change}"


def _draw_course(past: History, change: Mapping[str, Any], words: tuple[str, ...], host: str) -> Course:
    rows, far_off = past.logs.loc[[host]], past.odd[past.odd["host"] == host]
    kind, descriptions = change["benchmark"], past.descriptions
    if kind:
        own = [change[name] for name in CLASS]
        rows, far_off = rows.loc[[(host, *own)]], far_off[(far_off[CLASS] == own).all(axis=1)]
    else:  # of several relations their mean, each beside its own middle
        rows = rows.sub(rows.median(axis=1), axis=0)
    series = rows.mean().dropna() * (-1 if is_rate(descriptions[kind]) else 1)
    dates, far = list(series.index), set(far_off["night"])
    usual = series[[night not in far for night in dates]]
    before = usual[[change["begin"] <= night <= change["before"] for night in usual.index]]
    level = float((before if len(before) else series).mean())
    after, low, high = level + np.log1p(convert_change(change, descriptions))
    bottom, top = (end([*series, level, low, high]) for end in (min, max))

    days = max((dates[-1] - dates[0]).days, 1)

    def x(night: date) -> float:
        share = float(np.clip((night - dates[0]).days / days, 0, 1))
        return round(_LEFT + share * (_RIGHT - _LEFT), 1)

    def y(log: float) -> float:
        return round(_BOTTOM - float((log - bottom) / max(top - bottom, 1e-9)) * (_BOTTOM - _TOP), 1)

    def text(log: float) -> str:
        if not kind:
            return format_change(float(np.expm1(log)))
        return format_value(descriptions[kind], float(np.exp(-log if is_rate(descriptions[kind]) else log)))

    def ticks() -> Iterator[tuple[float, str]]:
        for night, facts in sorted(past.facts.get(host, {}).items()):
            if facts and dates[0] <= night <= dates[-1]:
                steps = "; ".join(f"{fact} {old} → {new}" for fact, old, new in sorted(facts))
                yield x(night), f"{night}: {steps}"

    dots = [((x(night), y(log)), night in far) for night, log in zip(dates, series, strict=True)]
    begin, until, since, end = (x(change[name]) for name in ("begin", "before", "after", "end"))
    nights, odd = (tuple(dot for dot, is_odd in dots if is_odd is state) for state in (False, True))
    levels = ((begin, until, y(level)), (since, max(end, since), y(after)))
    scale, ends = tuple((y(log), text(log)) for log in (bottom, top)), (f"{dates[0]}", f"{dates[-1]}")
    return Course(words, nights, odd, levels, (y(high), y(low)), tuple(ticks()), scale, *ends)

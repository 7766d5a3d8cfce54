"""Lays out a found change on one host, night by night, for templates/course.svg."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from fleet.analysis.compare.history import History
from fleet.analysis.compare.side_runs import CLASS
from fleet.analysis.views import over_time
from fleet.analysis.views.text import change_shown, is_rate, measured, records, signed

SIZE = (640, 180)
_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 630.0, 12.0, 140.0

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Course:
    """A host's nights around a change, in pixels of SIZE. words: the change, under over_time.TITLES.

    nights, odd: of each night x and y, those far from the nights around them apart. levels: of before and of
    after from x, to x, and y. band: from y to y, the 95 % interval of the second. ticks: x of the nights in
    which facts changed, and these in words. scale: y and the number of its ends. first, last: nights.
    """

    words: tuple[str, ...]
    nights: tuple[Place, ...]
    odd: tuple[Place, ...]
    levels: tuple[tuple[float, float, float], ...]
    band: Place
    ticks: tuple[tuple[float, str], ...]
    scale: tuple[tuple[float, str], ...]
    first: str
    last: str


def courses(found: History) -> dict[str, list[Course]]:
    """Of each host its part in each change, in their order."""
    listed = dict[str, list[Course]]()
    for change, words in zip(records(found.changes), over_time.lines(found), strict=True):
        for host in change["hosts"]:
            listed.setdefault(host, []).append(_course(found, change, words, host))
    return listed


def _course(found: History, change: Mapping[str, Any], words: tuple[str, ...], host: str) -> Course:
    rows, far_off = found.logs.loc[[host]], found.odd[found.odd["host"] == host]
    kind, descriptions = change["benchmark"], found.descriptions
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
    after, low, high = level + np.log1p(change_shown(change, descriptions))
    bottom, top = (each([*series, level, low, high]) for each in (min, max))

    days = max((dates[-1] - dates[0]).days, 1)

    def x(night: date) -> float:
        share = float(np.clip((night - dates[0]).days / days, 0, 1))
        return round(_LEFT + share * (_RIGHT - _LEFT), 1)

    def y(log: float) -> float:
        return round(_BOTTOM - float((log - bottom) / max(top - bottom, 1e-9)) * (_BOTTOM - _TOP), 1)

    def text(log: float) -> str:
        if not kind:
            return signed(float(np.expm1(log)))
        return measured(descriptions[kind], float(np.exp(-log if is_rate(descriptions[kind]) else log)))

    def ticks() -> Iterator[tuple[float, str]]:
        for night, facts in sorted(found.facts.get(host, {}).items()):
            if facts and dates[0] <= night <= dates[-1]:
                each = "; ".join(f"{what} {old} → {new}" for what, old, new in sorted(facts))
                yield x(night), f"{night}: {each}"

    dots = [((x(night), y(log)), night in far) for night, log in zip(dates, series, strict=True)]
    begin, until, since, end = (x(change[name]) for name in ("begin", "before", "after", "end"))
    nights, odd = (tuple(place for place, is_odd in dots if is_odd is which) for which in (False, True))
    levels = ((begin, until, y(level)), (since, max(end, since), y(after)))
    scale, ends = tuple((y(log), text(log)) for log in (bottom, top)), (f"{dates[0]}", f"{dates[-1]}")
    return Course(words, nights, odd, levels, (y(high), y(low)), tuple(ticks()), scale, *ends)

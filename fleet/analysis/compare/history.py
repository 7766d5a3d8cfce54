"""Find the nights on which the numbers of stored runs changed, and the facts that
changed with them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.compare import judge
from fleet.analysis.compare.sides import RunNumbers, read_selected_runs
from fleet.analysis.compare.verdicts import CLASS, THRESHOLD
from fleet.analysis.reduce.environment import describe_table_facts_by_name
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.run_levels import add_run_levels, label_levels_of_hosts
from fleet.hostnames import join_names
from fleet.late import special
from fleet.model import Descriptions
from fleet.store.runs import Root
from fleet.text import format_count

MIN_NIGHTS = 8
_SIDE = 3  # nights on either side of a split
# nights of a stretch; rows at least one and a half times as long are also tested by
# stretches
_STRETCH = 30
_WINDOW = 7  # nights of the running median
_CLIPPED = 16  # nights, from which on outliers are clipped
# standard deviations: beyond the first a night is odd; all are clipped at the second
_FAR, _NEAR = (
    5.0,
    2.0,
)
# the standard deviation of normal noise, as a multiple of its median deviation
_MAD = 1.4826
_SELDOM = 0.1  # of the nights: a level with no more is rare, and its nights are odd
_CLIPPED_TO = 0.78  # the share of the variance of a mean that clipped residuals show
_AROUND = 15  # nights on either side of a step, or a quarter of all if that is more
_LIKELY = 1.92  # by how much the log likelihood is lower at the ends of a 95 % interval
_MAX_CORRELATED = 0.9
# a step must be so many times likelier per change tested, since its date is chosen too
_DATES = 2


class Calibration(NamedTuple):
    """Corrections of best splits for chance, by number of nights (`python -m
    benchmarks.over_time --table`).

    nights: logarithms. splits: the number of independent splits with as large a largest
    t. left, correlated: the share of variance and the correlation of neighbours that
    the best split of unchanged nights leaves.
    seen: the visible share of a true correlation. less: the factor of `left` if that
    correlation is 0.5.
    """

    nights: Floats
    splits: Floats
    left: Floats
    correlated: Floats
    seen: Floats
    less: Floats


CALIBRATION = Calibration(
    np.log([6, 8, 10, 12, 16, 20, 30, 45, 60, 90, 130, 200, 365]),
    np.array([0.434, 1.8, 2.0, 3.5, 11, 25, 55, 65, 80, 160, 250, 340, 420]),
    np.array(
        [
            0.989,
            0.883,
            0.859,
            0.866,
            0.701,
            0.716,
            0.735,
            0.766,
            0.777,
            0.794,
            0.805,
            0.818,
            0.827,
        ]
    ),
    -np.array(
        [
            0.333,
            0.283,
            0.252,
            0.221,
            0.171,
            0.146,
            0.101,
            0.058,
            0.037,
            0.017,
            0.002,
            -0.01,
            -0.023,
        ]
    ),
    np.array(
        [
            0.158,
            0.257,
            0.346,
            0.406,
            0.551,
            0.653,
            0.787,
            0.849,
            0.891,
            0.933,
            0.959,
            0.975,
            0.987,
        ]
    ),
    np.array(
        [
            0.577,
            0.58,
            0.616,
            0.632,
            0.692,
            0.736,
            0.814,
            0.855,
            0.893,
            0.936,
            0.964,
            0.98,
            1.0,
        ]
    ),
)


class Cleaned(NamedTuple):
    """Series at one level, with outliers clipped. odd, elsewhere: row, night and
    distance as a logarithm.
    """

    logs: Floats
    odd: list[tuple[int, int, float]]
    elsewhere: list[tuple[int, int, float]]

    def add_odd(self, row: int, nights: Ints, apart: Floats, are_odd: Bools) -> None:
        """Append to `odd` the nights of a row at which `are_odd` is true."""
        places = np.flatnonzero(are_odd)
        self.odd.extend(
            (row, int(nights[place]), float(apart[place])) for place in places
        )


class Pooled(NamedTuple):
    """Rows of single series, then rows of means. members: for each row, which series it
    averages.
    """

    logs: Floats
    members: Bools


class Change(NamedTuple):
    """A change in one row of series, found by comparing the nights from `begin` to
    `end`.

    night: the first night after the change; it may be any from `first` to `last`.
    moved: the change as a logarithm, with its 95 % interval `low` to `high`. dated:
    true for a step, false for a gradual change. q: Benjamini and Hochberg's value of
    the row.
    """

    row: int
    night: int
    first: int
    last: int
    begin: int
    end: int
    moved: float
    low: float
    high: float
    q: float
    dated: bool


def clean_series(logs: Floats, levels: Ints, switches: Bools) -> Cleaned:
    """Shift each row to its commonest level and clip outliers. levels: of each night,
    by `run_levels`. switches: whether each row may switch levels.

    A row that may not switch keeps its levels unless one of them recurs. Nights at a
    rare level go to `odd`; a lasting switch to a new level goes to `elsewhere`. Rows of
    under eight nights are left alone.
    """
    cleaned = Cleaned(logs.copy(), [], [])
    for row, values in enumerate(logs):
        nights = np.flatnonzero(~np.isnan(values))
        if len(nights) < MIN_NIGHTS:
            continue
        series, labels = values[nights], levels[row, nights]
        if labels.any():
            series = _move_to_one_level(
                series, labels, switches[row], nights, row, cleaned
            )
        if len(series) >= _CLIPPED:
            usual = (
                pd.Series(series)
                .rolling(_WINDOW, center=True)
                .median()
                .bfill()
                .ffill()
                .to_numpy()
            )
            apart = series - usual
            scale = max(_MAD * float(np.median(np.abs(apart))), judge.ROUNDING**0.5)
            cleaned.add_odd(row, nights, apart, np.abs(apart) > _FAR * scale)
            series = usual + np.clip(apart, -_NEAR * scale, _NEAR * scale)
        cleaned.logs[row, nights] = series
    return cleaned


def _move_to_one_level(
    series: Floats,
    labels: Ints,
    switches: bool,
    nights: Ints,
    row: int,
    cleaned: Cleaned,
) -> Floats:
    begins = np.flatnonzero(np.diff(labels, prepend=-1))
    order = labels[begins]
    counts = np.bincount(labels)
    usual = int(counts.argmax())
    means = np.array([series[labels == level].mean() for level in range(len(counts))])
    again = [level for level in range(len(counts)) if (order == level).sum() > 1]
    seldom = counts <= max(1, _SELDOM * len(series))
    if not again and not switches:
        return series
    last = labels[-1]
    if (order == last).sum() == 1 and len(order) > 1 and not seldom[last]:
        before = order[-2]
        if (
            not switches
            and seldom[np.delete(order, -1)].sum() >= len(set(order)) - 2 > 0
        ):
            is_last = labels == last  # odd nights, then a step
            moved = np.where(is_last, series, series - means[labels] + means[before])
            cleaned.add_odd(row, nights, series - means[before], seldom[labels])
            return np.where(seldom[labels], moved, series)
        cleaned.elsewhere.append(
            (row, int(nights[begins[-1]]), float(means[last] - means[before]))
        )
    cleaned.add_odd(row, nights, series - means[usual], seldom[labels])
    return np.asarray(series - means[labels] + means[usual])


def append_means(logs: Floats, hosts: Ints, relations: Ints) -> Pooled:
    """Append the means of each relation, each host and all. hosts, relations: each
    row's number, from 0.
    """
    groups = [
        keys == key
        for keys in (relations, hosts, np.zeros_like(hosts))
        for key in np.unique(keys)
    ]
    unlike = {group.tobytes(): group for group in groups if group.sum() > 1}
    members = np.array([*np.eye(len(logs), dtype=bool), *unlike.values()])
    is_measured = ~np.isnan(logs)
    apart = np.where(
        is_measured, logs - judge.compute_nanmedian(logs, axis=1)[:, None], 0.0
    )
    counts = members.astype(float) @ is_measured
    means = members.astype(float) @ apart / np.where(counts > 0, counts, np.nan)
    return Pooled(np.vstack([logs, means[len(logs) :]]), members)


def find_changes(logs: Floats) -> list[Change]:
    """Find the changes of rows of eight nights or more, by row and night, at a false
    discovery rate of 5 %.

    Each row is tested at its best split: the one with the largest t and three nights or
    more on either side. Variances and correlations between nights are shrunk towards
    those of all rows. Long rows are also tested in stretches of 30 nights. Rows with q
    < 0.05 are split, and their parts again at the same limit of p.
    """
    rows = ((row, np.flatnonzero(~np.isnan(values))) for row, values in enumerate(logs))
    long_rows = [(row, nights) for row, nights in rows if len(nights) >= MIN_NIGHTS]
    if not long_rows:
        return []
    p, best_cuts, widened = _test_with_stretches(logs, long_rows)
    q = judge.control_false_discovery(p)
    limit = judge.ALPHA * float(np.mean(q < judge.ALPHA))  # of p, by that of q
    parts, ends = long_rows, dict[int, list[int]]()
    while (p <= limit).any():
        further, same = [], []
        for (row, nights), part_p, cut in zip(parts, p, best_cuts, strict=True):
            if part_p > limit:
                same.append((row, nights))
                continue
            ends.setdefault(row, []).append(int(nights[cut]))
            further += [(row, part) for part in (nights[:cut], nights[cut:])]
        parts = same + [part for part in further if len(part[1]) >= 2 * _SIDE]
        if not parts:
            break
        p, best_cuts, _ = _test_with_stretches(logs, parts)
    changes = []
    for (row, nights), row_q, wide in zip(
        long_rows, q.tolist(), widened.tolist(), strict=True
    ):
        if row in ends:
            cuts = sorted(ends[row])
            changes += _describe_row_changes(
                logs[row], row, nights, cuts, row_q, wide, len(long_rows)
            )
    return changes


def _test_with_stretches(
    logs: Floats, parts: list[tuple[int, Ints]]
) -> tuple[Floats, Ints, Floats]:
    """Test parts as `measure_parts` does, but long ones in stretches too: steps may
    hide each other.
    """
    p, best_cuts, wider = measure_parts(logs, parts)
    ends = [len(nights) - _STRETCH for _, nights in parts]
    begins = [
        [*range(0, end, _STRETCH // 2), end] * (2 * end >= _STRETCH) for end in ends
    ]
    counts = np.array([len(starts) for starts in begins])
    p = np.where(counts > 0, np.minimum(2 * p, 1.0), p)
    for turn in range(counts.max(initial=0)):
        which = np.flatnonzero(counts > turn)
        first = np.array([begins[index][turn] for index in which])
        stretches = [
            (parts[index][0], parts[index][1][begin : begin + _STRETCH])
            for index, begin in zip(which, first, strict=True)
        ]
        stretch_p, cuts, wide = measure_parts(logs, stretches)
        stretch_p = np.minimum(2 * counts[which] * stretch_p, 1.0)
        better = stretch_p < p[which]
        for old, new in ((p, stretch_p), (best_cuts, first + cuts), (wider, wide)):
            old[which[better]] = new[better]
    return p, best_cuts, wider


def measure_parts(
    logs: Floats, parts: list[tuple[int, Ints]], calibration: Calibration = CALIBRATION
) -> tuple[Floats, Ints, Floats]:
    """Return each part's p, best cut, and how much correlation multiplies variance.
    parts: row and nights.
    """
    counts = np.array([len(nights) for _, nights in parts])
    best_cuts, moved, left, correlated = (
        np.zeros(len(parts), dtype=np.int64),
        *np.zeros((3, len(parts))),
    )
    for count in np.unique(counts):
        which = np.flatnonzero(counts == count)
        rows = np.array([logs[parts[index][0], parts[index][1]] for index in which])
        best_cuts[which], moved[which], left[which], correlated[which] = (
            find_best_splits(rows)
        )
    tables = [
        np.interp(np.log(counts), calibration.nights, table)
        for table in calibration[1:]
    ]
    splits, share_left, bias, seen, less = tables
    correlated = (correlated - bias) / seen
    middle, chance = float(np.median(correlated)), 1 / (counts * seen**2)
    between = max(float(np.mean((correlated - middle) ** 2 - chance)), 0.0)
    usual = np.clip(
        middle + (correlated - middle) * between / (between + chance),
        0.0,
        _MAX_CORRELATED,
    )
    share_left = share_left * (1 - 2 * np.minimum(usual, 0.5) * (1 - less))
    variance, freedom = judge.moderate_variances(
        np.maximum(left / share_left, judge.ROUNDING), counts - 2.0
    )
    wider = (1 + usual) / (1 - usual)
    error = np.sqrt(variance * (1 / best_cuts + 1 / (counts - best_cuts)) * wider)
    p = 2 * special.stdtr(freedom, -np.abs(moved) / error) * splits
    return np.minimum(p, 1.0), best_cuts, wider


def find_best_splits(rows: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    """Return each row's cut with the largest t, the change, and the residuals' variance
    and correlation.
    """
    count = rows.shape[1]
    values = rows - rows.mean(axis=1, keepdims=True)
    cuts = np.arange(_SIDE, count - _SIDE + 1)
    sums = np.cumsum(values, axis=1)[:, cuts - 1]
    gain = sums**2 * count / (cuts * (count - cuts))
    best = gain.argmax(axis=1)
    every, best_cuts = np.arange(len(rows)), cuts[best]
    moved = -sums[every, best] * count / (best_cuts * (count - best_cuts))
    before, total = best_cuts[:, None], sums[every, best][:, None]
    residuals = values - np.where(
        np.arange(count) < before, total / before, -total / (count - before)
    )
    squares = np.maximum((residuals**2).sum(axis=1), judge.ROUNDING)
    correlated = (residuals[:, 1:] * residuals[:, :-1]).sum(axis=1) / squares
    return best_cuts, moved, squares / (count - 2), correlated


def _describe_row_changes(
    logs: Floats,
    row: int,
    nights: Ints,
    cuts: list[int],
    q: float,
    wider: float,
    rows: int,
) -> list[Change]:
    """Return a Change per cut, measured between the adjacent cuts; join gradual
    neighbours of one sign.
    """
    changes = list[Change]()
    edges = [int(nights[0]), *cuts, int(nights[-1]) + 1]
    values, variance_share = (
        logs[nights],
        _CLIPPED_TO if len(nights) >= _CLIPPED else 1.0,
    )
    for begin, night, end in zip(edges, edges[1:], edges[2:], strict=False):
        first, cut, last = np.searchsorted(nights, (begin, night, end))
        dated = _is_step(values, int(cut), wider, rows * len(cuts))
        moved, (low, high), (near, far) = _estimate_change(
            values[first:last], int(cut - first), wider, variance_share
        )
        likely = int(nights[first + near]), int(nights[first + far])
        ends = int(nights[first]), int(nights[last - 1])
        change = Change(row, night, *likely, *ends, moved, low, high, q, dated)
        if (
            changes
            and not dated
            and not changes[-1].dated
            and (changes[-1].moved > 0) == (moved > 0)
        ):
            before = changes.pop()
            total = before.moved + moved
            half = (
                float(np.hypot(before.high - before.low, change.high - change.low)) / 2
            )
            change = change._replace(
                begin=before.begin, moved=total, low=total - half, high=total + half
            )
        changes.append(change)
    return changes


def _estimate_change(
    values: Floats, cut: int, wider: float, variance_share: float
) -> tuple[float, tuple[float, float], tuple[int, int]]:
    """Return the change at a cut, its 95 % interval, and the first and last cut that
    are nearly as likely.
    """
    count = len(values)
    sides = values[:cut], values[cut:]
    squares = max(
        float(sum(((side - side.mean()) ** 2).sum() for side in sides)), judge.ROUNDING
    )
    moved = float(values[cut:].mean() - values[:cut].mean())
    error = (
        squares
        / max(count - 2, 1)
        * (1 / cut + 1 / (count - cut))
        * wider
        / variance_share
    ) ** 0.5
    low, high, _ = judge.apply_student(
        np.array(moved), np.array(error), np.array(max(count - 2.0, 1.0))
    )
    cuts = np.arange(1, count)
    apart = values - values.mean()
    left = (apart**2).sum() - np.cumsum(apart)[:-1] ** 2 * count / (
        cuts * (count - cuts)
    )
    likely = -count / 2 / wider * np.log(np.maximum(left, judge.ROUNDING))
    close = cuts[likely >= likely[cut - 1] - _LIKELY]
    return moved, (float(low), float(high)), (int(close.min()), int(close.max()))


def _is_step(values: Floats, cut: int, wider: float, many: int) -> bool:
    """Report whether a step fits better than a smooth curve around the cut. many: the
    number of tests.
    """
    around = max(_AROUND, len(values) // 4)
    window, place = values[max(cut - around, 0) : cut + around], min(cut, around)
    turns = np.linspace(-1, 1, len(window))
    smooth = window - np.polynomial.Polynomial.fit(turns, window, 3)(turns)
    step = np.concatenate(
        [part - part.mean() for part in (window[:place], window[place:])]
    )
    squares = [
        max(float(residuals @ residuals), judge.ROUNDING)
        for residuals in (smooth, step)
    ]
    return bool(
        len(window) / 2 / wider * np.log(squares[0] / squares[1])
        >= np.log(_DATES * many)
    )


_ROW = ["host", *CLASS]
Step = tuple[str, str, str]  # a fact, and its values before and after
Facts = Mapping[str, Mapping[date, set[Step]]]  # by host and night
Nights = tuple[date, ...]
_MOST = 0.75  # of the members must move by half as much as their mean, or more
_APART = 2  # nights, at most, between a change and the wider one that it is part of


@dataclass(frozen=True, slots=True)
class History:
    """The changes found in the runs of some hosts.

    nights: those with a run. changes: a row per change, oldest first, with `hosts` (a
    tuple), `benchmark`, `variant`, `relation` (all three empty if several changed),
    `before`, `after` (the nights on either side), `first`, `last` (the 95 % interval of
    `after`), `begin`, `end` (the nights compared), `ratio` with its 95 % interval
    `low`, `high`, `q`, `dated` (true for a step), `changed` (beyond the threshold) and
    `else` (facts that changed that night). odd: a row per night that is far from those
    around it, with host, relation, `night` and `ratio`. elsewhere: a row per host and
    relation at another level since `night`.
    logs: logarithms of ns, a row per host and relation, a column per night. facts: by
    host and night, the facts that differ from the host's previous night; empty if no
    change was found.
    """

    hosts: tuple[str, ...]
    relations: int
    runs: int
    nights: Nights
    has_verdict: bool
    threshold: float
    changes: pd.DataFrame
    odd: pd.DataFrame
    elsewhere: pd.DataFrame
    logs: pd.DataFrame
    facts: Facts
    caveats: tuple[str, ...]
    descriptions: Descriptions

    @property
    def has_changed(self) -> bool:
        """Report whether a change is beyond the threshold."""
        return bool(self.changes["changed"].any())


def find_changes_over_time(
    root: Root,
    texts: Sequence[str],
    *,
    threshold: float | None = None,
    only: Only = ALL,
) -> History:
    """Find changes between nights, the UTC days on which sessions began. Raises
    UsageError without runs.
    """
    listing, runs, _ = read_selected_runs(root, texts, only.benchmark)
    runs["night"] = runs.groupby("session_id")["started_utc"].transform("min").dt.date
    numbers = RunNumbers.read(listing, runs, only)
    nights_of_runs = runs.set_index("run_id")["night"]
    table, levels = _tabulate_runs_by_night(numbers.rows, nights_of_runs)
    rows, logs = table.index.to_frame(index=False), table.to_numpy()
    virtual = set(runs.loc[runs["hypervisor"].notna(), "host_id"])
    switches = rows["host"].isin(virtual).to_numpy()
    clean = clean_series(logs, levels, switches)
    relations = np.asarray(rows.groupby(CLASS, sort=False).ngroup())
    pool = append_means(
        clean.logs, np.asarray(rows.groupby("host").ngroup()), relations
    )
    changes = drop_changes_of_parts(find_changes(pool.logs), pool)
    matters, nights = threshold or THRESHOLD, tuple[Any, ...](table.columns)
    facts = _find_fact_changes(runs) if changes else {}
    counts = (~np.isnan(logs)).sum(axis=1)
    short = rows.loc[counts < MIN_NIGHTS, "host"].unique()
    words = (
        f"{join_names(short)}: relations with fewer than {MIN_NIGHTS} nights have no"
        " verdict"
    )
    words += (
        "; --siblings finds the odd one of equal machines." if len(short) > 1 else "."
    )
    has_verdict, caveats = (
        bool((counts >= MIN_NIGHTS).any()),
        (words,) if len(short) else (),
    )
    about = (
        tuple(rows["host"].unique()),
        int(relations.max()) + 1,
        len(runs),
        nights,
        has_verdict,
        matters,
    )
    listed = _tabulate_changes(changes, pool, rows, nights, facts, matters)
    odd, elsewhere = (
        _tabulate_nights(apart, rows, nights) for apart in (clean.odd, clean.elsewhere)
    )
    return History(
        *about, listed, odd, elsewhere, table, facts, caveats, numbers.descriptions
    )


def _tabulate_runs_by_night(
    numbers: pd.DataFrame, nights: "pd.Series[Any]"
) -> tuple[pd.DataFrame, Ints]:
    """Return logarithms of ns, a row per host and relation, a column per night; and
    their levels. numbers: rows of `numbers`. nights: by run ID.
    """
    rows = add_run_levels(numbers).rename(columns={"host_id": "host"})
    hosts = rows.groupby(_ROW, sort=True)
    days, night = np.unique(rows["run_id"].map(nights), return_inverse=True)
    logs, levels = _reduce_nights(
        np.asarray(hosts.ngroup(), dtype=np.int64),
        night,
        rows["run_level"].to_numpy(),
        np.log(rows["median_ns"].to_numpy(dtype=float)),
        (hosts.ngroups, len(days)),
    )
    index = hosts.size().index
    return pd.DataFrame(logs, index, pd.Index(days, name="night")), levels


class DatedStep(NamedTuple):
    """A proved change of a host that has a date. row: of its numbers, None for several.
    night: the first after it. ratio: the number after it to that before.
    """

    row: int | None
    night: date
    ratio: float


def find_steps(
    logs: Floats, kinds: Ints, nights: Sequence[date], *, switches: bool
) -> list[DatedStep]:
    """Find the proved changes of one host that have a date, oldest first, as
    `find_changes_over_time` does.

    logs: a row per number, a column per run. kinds: the benchmark and variant of each
    row, as a number from 0. nights: of each run. switches: whether the host may switch
    levels.
    """
    if len({*nights}) < MIN_NIGHTS:
        return []
    days, night = np.unique(
        np.array(nights, dtype="datetime64[D]"), return_inverse=True
    )
    levels_of_runs = label_levels_of_hosts(logs, kinds)
    place, run = np.nonzero(levels_of_runs >= 0)
    by_night, levels = _reduce_nights(
        place,
        night[run],
        levels_of_runs[place, run],
        logs[place, run],
        (len(logs), len(days)),
    )
    measured = np.flatnonzero(~np.isnan(by_night).all(axis=1))
    clean = clean_series(
        by_night[measured], levels[measured], np.full(len(measured), switches)
    )
    relations = np.arange(len(measured))
    pool = append_means(clean.logs, np.zeros_like(relations), relations)
    steps = list[DatedStep]()
    for change in drop_changes_of_parts(find_changes(pool.logs), pool):
        if change.dated:
            row = None
            if change.row < len(measured):
                row = int(measured[change.row])
            ratio = float(np.exp(change.moved))
            steps.append(DatedStep(row, days[change.night].item(), ratio))
    return steps


def _reduce_nights(
    row: Ints, night: Ints, level: Ints, logs: Floats, shape: tuple[int, int]
) -> tuple[Floats, Ints]:
    """Return each row's number of each night, and its level (NaN and -1: not measured):
    the mean of the night's runs at the level of most of them, of several the lowest.

    row, night, level, logs: of each run's numbers. shape: how many rows and nights.
    """
    counts = np.zeros((*shape, int(level.max(initial=0)) + 1))
    sums = np.zeros_like(counts)
    np.add.at(counts, (row, night, level), 1)
    np.add.at(sums, (row, night, level), logs)
    main = counts.argmax(axis=2)
    runs = counts.max(axis=2)
    total = np.take_along_axis(sums, main[:, :, None], axis=2)[:, :, 0]
    means = total / np.where(runs > 0, runs, np.nan)
    return means, np.where(runs > 0, main, -1)


def drop_changes_of_parts(found: Sequence[Change], pool: Pooled) -> list[Change]:
    """Drop changes of means that under 75 % of their members share, and parts of wider
    changes.
    """
    remaining: list[Change] = []
    for change in sorted(
        found, key=lambda change: -int(pool.members[change.row].sum())
    ):
        own = pool.members[change.row]
        if any(_is_part_of_wider(change, wider, pool) for wider in remaining):
            continue
        if own.sum() > 1:
            members = pool.logs[: pool.members.shape[1]][own]
            before, after = (
                members[:, change.begin : change.night],
                members[:, change.night : change.end + 1],
            )
            moved = judge.compute_nanmean(after, axis=1) - judge.compute_nanmean(
                before, axis=1
            )
            if (moved * np.sign(change.moved) > abs(change.moved) / 2).mean() < _MOST:
                continue
        remaining.append(change)
    return sorted(remaining, key=lambda change: (change.night, change.row))


def _is_part_of_wider(change: Change, wider: Change, pool: Pooled) -> bool:
    inside = bool((pool.members[wider.row] >= pool.members[change.row]).all())
    dates = (wider.first, wider.last) if wider.dated else (wider.begin, wider.end)
    own = (change.first, change.last) if change.dated else (change.begin, change.end)
    near = own[0] - _APART <= dates[1] and dates[0] - _APART <= own[1]
    return inside and near and (change.moved > 0) == (wider.moved > 0)


def _tabulate_changes(
    changes: list[Change],
    pool: Pooled,
    rows: pd.DataFrame,
    nights: Nights,
    facts: Facts,
    threshold: float,
) -> pd.DataFrame:
    listed = []
    for change in changes:
        own = rows[pool.members[change.row]]
        kinds = own[CLASS].drop_duplicates()
        hosts = tuple(own["host"].unique())
        before = np.flatnonzero(~np.isnan(pool.logs[change.row, : change.night]))[-1]
        kind = kinds.iloc[0] if len(kinds) == 1 else ("", "", "")
        places = (
            before,
            change.night,
            change.first,
            change.last,
            change.begin,
            change.end,
        )
        numbers = np.exp([change.moved, change.low, change.high]).tolist()
        changed = abs(change.moved) > np.log1p(threshold)
        beside = (
            tuple(_explain_night(hosts, nights[change.night], facts))
            if change.dated
            else ()
        )
        about = (hosts, *kind, *(nights[place] for place in places), *numbers)
        listed.append((*about, change.q, change.dated, changed, beside))
    columns = (
        "hosts",
        *CLASS,
        *("before", "after", "first", "last", "begin", "end", "ratio", "low", "high"),
    )
    return pd.DataFrame(listed, columns=[*columns, "q", "dated", "changed", "else"])


def _find_fact_changes(runs: pd.DataFrame) -> dict[str, dict[date, set[Step]]]:
    """Return, by host and night, the facts that differ from the host's previous night
    with a run.
    """
    steps = dict[str, dict[date, set[Step]]]()
    for host, of_host in runs.groupby("host_id"):
        last = of_host.groupby("night").tail(1)
        around = describe_table_facts_by_name(last)
        # by night, each fact before and after
        turns = zip(*map(pairwise, around.values()), strict=True)
        steps[str(host)] = {
            night: {
                (fact, *values)
                for fact, values in zip(around, turn, strict=True)
                if len({*values}) > 1
            }
            for night, turn in zip(last["night"][1:], turns, strict=True)
        }
    return steps


def _explain_night(hosts: Sequence[str], night: date, steps: Facts) -> Iterator[str]:
    """Yield each fact that changed that night, on how many of `hosts`, and on how many
    others on any.
    """
    counts = Counter(step for host in hosts for step in steps[host].get(night, ()))
    for step, count in counts.most_common():
        others = sum(
            any(step in of for of in steps[host].values())
            for host in steps.keys() - {*hosts}
        )
        fact, before, after = step
        beside = f"; {others} others without this change" if others else ""
        yield (
            f"{fact} {before} → {after} ({count} of"
            f" {format_count(len(hosts), 'host')}{beside})"
        )


def _tabulate_nights(
    distances: Sequence[tuple[int, int, float]], rows: pd.DataFrame, nights: Nights
) -> pd.DataFrame:
    listed = [
        (*rows.iloc[row], nights[index], float(np.exp(apart)))
        for row, index, apart in distances
    ]
    return pd.DataFrame(listed, columns=[*_ROW, "night", "ratio"])

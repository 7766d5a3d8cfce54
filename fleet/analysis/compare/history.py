"""Find the nights on which the numbers of stored runs changed, and the facts that
changed with them.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import NUMBER_KEY, Floats, Ints, number_groups
from fleet.analysis.compare.judge import divide_by_counts
from fleet.analysis.compare.series_changes import (
    MIN_NIGHTS,
    Change,
    Cleaned,
    Pooled,
    append_means,
    clean_series,
    drop_changes_of_parts,
    find_changes,
)
from fleet.analysis.compare.sides import RunNumbers, read_selected_runs
from fleet.analysis.compare.verdicts import THRESHOLD
from fleet.analysis.reduce.environment import describe_table_facts_by_name
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.run_levels import add_run_levels
from fleet.hostnames import join_names
from fleet.model import Descriptions
from fleet.store.runs import Root
from fleet.text import format_count

ACCEPTED = ("accepted", "yes")  # the label of a run that begins a new baseline
_HOST_AND_NUMBER = ["host", *NUMBER_KEY]
_CHANGE_COLUMNS = [
    *("hosts", *NUMBER_KEY),
    *("before", "after", "first", "last", "begin", "end"),
    *("ratio", "low", "high", "q", "dated", "changed", "else"),
    "accepted",
]
Step = tuple[str, str, str]  # a fact, and its values before and after
Facts = Mapping[str, Mapping[date, set[Step]]]  # by host and night
Nights = tuple[date, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The changes found in the runs of some hosts.

    nights: those with a run. changes: a row per change, oldest first, with `hosts` (a
    tuple), `benchmark`, `variant`, `relation` (all three empty if several changed),
    `before`, `after` (the nights on either side), `first`, `last` (the 95 % interval of
    `after`), `begin`, `end` (the nights compared), `ratio` with its 95 % interval
    `low`, `high`, `q`, `dated` (true for a step), `changed` (beyond the threshold),
    `else` (facts that changed that night) and `accepted` (by a label of all its hosts,
    from that night or later). odd: a row per night that is far from those
    around it, with host, relation, `night` and `ratio`. elsewhere: a row per host and
    relation at another level since `night`.
    log_ns: logarithms of ns, a row per host and relation, a column per night. facts: by
    host and night, the facts that differ from the host's previous night; empty if no
    change was found. since: the first night whose changes are listed; None for all.
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
    log_ns: pd.DataFrame
    facts: Facts
    caveats: tuple[str, ...]
    descriptions: Descriptions
    since: date | None = None

    @property
    def has_changed(self) -> bool:
        """Report whether a change is beyond the threshold and nobody accepted it."""
        is_accepted = self.changes["accepted"].astype(bool)
        is_open = self.changes["changed"] & ~is_accepted
        return bool(is_open.any())

    def keep_new(self, since: date) -> "History":
        """Keep the dated changes that nobody accepted, the odd nights and the switches
        of level, each from a night on.
        """
        changes = self.changes
        is_dated = changes["dated"].astype(bool)
        is_accepted = changes["accepted"].astype(bool)
        is_changed_since = changes["after"] >= since
        is_odd_since = self.odd["night"] >= since
        is_elsewhere_since = self.elsewhere["night"] >= since
        return replace(
            self,
            changes=changes[is_dated & ~is_accepted & is_changed_since],
            odd=self.odd[is_odd_since],
            elsewhere=self.elsewhere[is_elsewhere_since],
            since=since,
        )


def find_changes_over_time(
    root: Root,
    texts: Sequence[str],
    *,
    threshold: float | None = None,
    only: Only = ALL,
) -> History:
    """Find changes between nights, the UTC days on which sessions began. threshold: the
    smallest change that matters, as a share; None: 3 %. Raises UsageError without runs.
    """
    listing, runs, _ = read_selected_runs(root, texts, only.benchmark)
    runs["night"] = _find_nights(runs)
    numbers = RunNumbers.read(listing, runs, only)
    series = _Series.read(numbers.rows, runs)
    # changes are sought in rows shifted to one level, with outliers clipped, and in the
    # means of these rows by relation and host; `log_ns` of the result stay as measured
    clean = series.clean(runs)
    pool = series.append_means(clean.log_ns)
    changes = _find_own_changes(pool)
    facts = _find_fact_changes(runs) if changes else {}
    limit = threshold or THRESHOLD
    table = _tabulate_changes(changes, pool, series, facts, limit)
    rows = series.rows
    has_few_nights = series.count_nights() < MIN_NIGHTS
    hosts_of_few_nights = rows["host"][has_few_nights].unique()
    return History(
        hosts=tuple(rows["host"].unique()),
        relations=len(rows[NUMBER_KEY].drop_duplicates()),
        runs=len(runs),
        nights=series.nights,
        has_verdict=not has_few_nights.all(),
        threshold=limit,
        changes=_mark_accepted(table, runs),
        odd=series.tabulate_distances(clean.odd),
        elsewhere=series.tabulate_distances(clean.elsewhere),
        log_ns=series.log_ns,
        facts=facts,
        caveats=_list_caveats(list(hosts_of_few_nights)),
        descriptions=numbers.descriptions,
    )


def _find_nights(runs: pd.DataFrame) -> "pd.Series[Any]":
    """Return the night of each run: the UTC day on which its session began."""
    starts_of_session = runs.groupby("session_id")["started_utc"]
    began = starts_of_session.transform("min")
    nights: pd.Series[Any] = began.dt.date
    return nights


def _find_own_changes(pool: Pooled) -> list[Change]:
    """Find the changes of a pool. A change that most members of a mean share is found
    in the mean and in each of the members: keep it once.
    """
    changes = find_changes(pool.log_ns)
    return drop_changes_of_parts(changes, pool)


class _Series(NamedTuple):
    """The numbers of hosts by night. log_ns: logarithms of ns, a row per host,
    benchmark, variant and relation, a column per night, NaN where not measured. levels:
    the level of each number in its row, from 0, -1 where not measured.
    """

    log_ns: pd.DataFrame
    levels: Ints

    @classmethod
    def read(cls, numbers: pd.DataFrame, runs: pd.DataFrame) -> "_Series":
        """Reduce the numbers of runs to those of nights: a row per host, benchmark,
        variant and relation, a column per night. The main level of a night is that of
        most of its runs. A night's number is the mean logarithm of its runs at the main
        level, and has this level.

        numbers: rows of the table `numbers`, a row per run and relation. runs: with the
        `night` of each `run_id`.
        """
        numbers = add_run_levels(numbers)
        numbers = numbers.rename(columns={"host_id": "host"})
        groups = numbers.groupby(_HOST_AND_NUMBER, sort=True)
        row_of_number = np.asarray(groups.ngroup(), dtype=np.int64)
        nights, night_of_number = _number_nights(numbers, runs)
        ns = numbers["median_ns"].to_numpy(dtype=float)
        numbers_of_runs = _NumbersOfRuns(
            row=row_of_number,
            night=night_of_number,
            level=numbers["run_level"].to_numpy(),
            log_ns=np.log(ns),
        )
        # arrays of rows x nights
        log_ns, levels = numbers_of_runs.reduce_nights(groups.ngroups, len(nights))
        names_of_rows = groups.size().index
        columns = pd.Index(nights, name="night")
        table = pd.DataFrame(log_ns, names_of_rows, columns)
        return cls(table, levels)

    @property
    def rows(self) -> pd.DataFrame:
        """Return the host, benchmark, variant and relation of each row."""
        return self.log_ns.index.to_frame(index=False)

    @property
    def nights(self) -> Nights:
        """Return the night of each column."""
        return tuple[Any, ...](self.log_ns.columns)

    def count_nights(self) -> Ints:
        """Count the nights on which each row was measured."""
        is_measured = self.log_ns.notna()
        return np.asarray(is_measured.sum(axis=1))

    def clean(self, runs: pd.DataFrame) -> Cleaned:
        """Shift each row to one level and clip outliers. runs: with the `hypervisor` of
        each `host_id`, under which levels may switch; null on real machines.
        """
        is_virtual = runs["hypervisor"].notna()
        virtual_hosts = runs.loc[is_virtual, "host_id"]
        is_of_virtual = self.rows["host"].isin(virtual_hosts)
        may_switch = is_of_virtual.to_numpy()  # a value per row
        log_ns = self.log_ns.to_numpy()
        return clean_series(log_ns, self.levels, may_switch)

    def append_means(self, log_ns: Floats) -> Pooled:
        """Append rows for the means of relations, of hosts and of all rows. log_ns: the
        cleaned numbers of the rows.
        """
        hosts = number_groups(self.rows, ["host"])
        relations = number_groups(self.rows, NUMBER_KEY)
        return append_means(log_ns, hosts, relations)

    def tabulate_distances(
        self, distances: Sequence[tuple[int, int, float]]
    ) -> pd.DataFrame:
        """Return a line for each distance: host, benchmark, variant and relation, the
        night, and the ratio.

        distances: the row and the column of a night, from 0, and how far the number of
        that night is from others, a logarithm: 0.1 is the ratio 1.105.
        """
        names_of_rows = self.log_ns.index
        nights = self.nights
        records = []
        for row, night, distance in distances:
            ratio = float(np.exp(distance))
            record = (*names_of_rows[row], nights[night], ratio)
            records.append(record)
        columns = [*_HOST_AND_NUMBER, "night", "ratio"]
        return pd.DataFrame(records, columns=columns)


def _number_nights(numbers: pd.DataFrame, runs: pd.DataFrame) -> tuple[Any, Ints]:
    """Return all nights in order, and for each number the place of its night among
    them, from 0. runs: with the `night` of each `run_id`.
    """
    night_by_run = runs.set_index("run_id")["night"]
    night_of_number = numbers["run_id"].map(night_by_run)
    return np.unique(night_of_number, return_inverse=True)


class _NumbersOfRuns(NamedTuple):
    """Numbers of runs, one after another: the row and the night that each is of, its
    level among the runs of its row, and its logarithm.
    """

    row: Ints
    night: Ints
    level: Ints
    log_ns: Floats

    @classmethod
    def take_measured(
        cls, log_ns: Floats, levels: Ints, night_of_run: Ints
    ) -> "_NumbersOfRuns":
        """Take the measured numbers of an array. log_ns, levels: a row per number, a
        column per run; a level of -1: not measured. night_of_run: the number of each
        run's night, from 0.
        """
        row, run = np.nonzero(levels >= 0)
        return cls(
            row=row,
            night=night_of_run[run],
            level=levels[row, run],
            log_ns=log_ns[row, run],
        )

    def reduce_nights(self, rows: int, nights: int) -> tuple[Floats, Ints]:
        """Return two arrays of rows x nights: the number of each row and night, a
        logarithm, and its level. Where nothing was measured, they are NaN and -1.

        The main level of a night is that of most of its runs, and the lowest of several
        such levels. A night's number is the mean of its runs at that level. rows,
        nights: how many there are.
        """
        # arrays of rows x nights x levels
        counts, sums = self._count_and_sum_levels(rows, nights)
        # arrays of rows x nights; `argmax` takes the first of equals
        main_level = counts.argmax(axis=2)
        runs_at_main = _select_level(counts, main_level)
        sum_at_main = _select_level(sums, main_level)
        log_ns = divide_by_counts(sum_at_main, runs_at_main)
        is_measured = runs_at_main > 0
        levels = np.where(is_measured, main_level, -1)
        return log_ns, levels

    def _count_and_sum_levels(self, rows: int, nights: int) -> tuple[Floats, Floats]:
        """Return how many numbers of a row and night are at each level, and their sum:
        two arrays of rows x nights x levels.
        """
        last_level = int(self.level.max(initial=0))
        shape = (rows, nights, last_level + 1)
        counts = np.zeros(shape)
        sums = np.zeros(shape)
        # for each number, where it is counted
        places = (self.row, self.night, self.level)
        # unlike `counts[places] += 1`, `add.at` counts a place as often as it occurs
        np.add.at(counts, places, 1)
        np.add.at(sums, places, self.log_ns)
        return counts, sums


def _select_level(values: Floats, level: Ints) -> Floats:
    """Return the value of one level of each row and night. values: rows x nights x
    levels. level: rows x nights.
    """
    place = level[:, :, None]  # rows x nights x 1, as `take_along_axis` needs it
    selected = np.take_along_axis(values, place, axis=2)
    return selected[:, :, 0]


class DatedStep(NamedTuple):
    """A proved change of a host that has a date. row: of its numbers, None for several.
    night: the first after it. ratio: the number after it to that before.
    """

    row: int | None
    night: date
    ratio: float


def find_steps(
    log_ns: Floats, levels: Ints, nights: Sequence[date], *, switches: bool
) -> list[DatedStep]:
    """Find the proved changes of one host that have a date, oldest first, as
    `find_changes_over_time` does.

    log_ns: logarithms, a row per number, a column per run. levels: the level of each
    value in its row, -1 where a run lacks the number. nights: the night of each run.
    switches: whether the host may switch levels, such as a virtual machine.
    """
    night_dates = np.array(nights, dtype="datetime64[D]")
    distinct_nights, night_of_run = np.unique(night_dates, return_inverse=True)
    if len(distinct_nights) < MIN_NIGHTS:
        return []
    numbers = _NumbersOfRuns.take_measured(log_ns, levels, night_of_run)
    logs_by_night, levels_by_night = numbers.reduce_nights(
        len(log_ns), len(distinct_nights)
    )
    # numbers of other hosts are rows, too, and are NaN in all runs of this host
    is_unmeasured = np.isnan(logs_by_night).all(axis=1)
    measured_rows = np.flatnonzero(~is_unmeasured)
    pool = _pool_host(
        logs_by_night[measured_rows],
        levels_by_night[measured_rows],
        switches=switches,
    )
    steps = [change for change in _find_own_changes(pool) if change.dated]
    # for each row of the pool that is a single number, its row in `log_ns`; the rows of
    # the pool after these are means over several numbers
    row_of_pool_row = measured_rows.tolist()
    return [_make_dated_step(step, row_of_pool_row, distinct_nights) for step in steps]


def _make_dated_step(
    change: Change, row_of_single: Sequence[int], nights: Any
) -> DatedStep:
    """Return a change in a row of a pool as a step in a row of the host's numbers.

    row_of_single: the first rows of a pool are single numbers; for each of these rows,
    the number of the host's row that it was made of. The further rows of the pool are
    means over several numbers, and their steps have the row None. nights: an array of
    dates, the nights of the columns of the pool.
    """
    row = None
    is_single_number = change.row < len(row_of_single)
    if is_single_number:
        row = row_of_single[change.row]
    night: date = nights[change.night].item()
    ratio = float(np.exp(change.moved))
    return DatedStep(row, night, ratio)


def _pool_host(log_ns: Floats, levels: Ints, *, switches: bool) -> Pooled:
    """Clean the series of one host, each of a relation of its own, and append means."""
    count = len(log_ns)
    may_switch = np.full(count, switches)
    clean = clean_series(log_ns, levels, may_switch)
    relations = np.arange(count)
    one_host = np.zeros_like(relations)
    return append_means(clean.log_ns, one_host, relations)


def _tabulate_changes(
    changes: Sequence[Change],
    pool: Pooled,
    series: _Series,
    facts: Facts,
    threshold: float,
) -> pd.DataFrame:
    """Return the table `changes` of a History, none of them accepted yet.

    The row of a change is a row of the pool, which may be the mean of several rows of
    `series`. pool: `members` says which rows of `series` a row of the pool is the mean
    of. facts: by host and night, which facts changed.
    """
    nights = series.nights
    limit = np.log1p(threshold)
    records = []
    for change in changes:
        is_member = pool.members[change.row]
        changed_rows = series.rows[is_member]
        hosts = tuple(changed_rows["host"].unique())
        facts_of_night: tuple[str, ...] = ()
        # a gradual change has no night on which a fact could explain it
        if change.dated:
            night = nights[change.night]
            facts_of_night = tuple(_explain_night(hosts, night, facts))
        record = {
            "hosts": hosts,
            **_name_number(changed_rows),
            "before": _find_night_before(change, pool, nights),
            **_describe_change(change, nights),
            "changed": abs(change.moved) > limit,
            "else": facts_of_night,
            "accepted": False,
        }
        records.append(record)
    return pd.DataFrame(records, columns=_CHANGE_COLUMNS)


def _find_night_before(change: Change, pool: Pooled, nights: Nights) -> date:
    """Return the last night before a change on which its row was measured. nights: of
    the pool's columns.
    """
    logs_before = pool.log_ns[change.row, : change.night]
    is_measured = ~np.isnan(logs_before)
    measured_nights = np.flatnonzero(is_measured)
    last = int(measured_nights[-1])
    return nights[last]


def _describe_change(change: Change, nights: Nights) -> dict[str, Any]:
    """Return the columns of a change: its nights as dates instead of their places in
    `nights`, and ratios instead of logarithms. `after` is the first night after the
    change, which may as well be any from `first` to `last`. The change was found by
    comparing the nights from `begin` to `end`.
    """
    return {
        "after": nights[change.night],
        "first": nights[change.first],
        "last": nights[change.last],
        "begin": nights[change.begin],
        "end": nights[change.end],
        "ratio": float(np.exp(change.moved)),
        "low": float(np.exp(change.low)),
        "high": float(np.exp(change.high)),
        "q": change.q,
        "dated": change.dated,
    }


def _mark_accepted(changes: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Add to each change whether all of its hosts have a run with the label ACCEPTED,
    `accepted=yes`, from that night or later.
    """
    last_night_by_host = _find_last_accepted_nights(runs)
    are_accepted = []
    for hosts, night in zip(changes["hosts"], changes["after"], strict=True):
        # a host without such a run has accepted nothing
        accepted_nights = [last_night_by_host.get(host, date.min) for host in hosts]
        accepted_until = min(accepted_nights)
        are_accepted.append(night <= accepted_until)
    return changes.assign(accepted=np.array(are_accepted, dtype=bool))


def _find_last_accepted_nights(runs: pd.DataFrame) -> dict[Any, date]:
    """Return, by host, the last night of a run with the label ACCEPTED."""
    key, value = ACCEPTED
    has_label = _have_label(runs, key, value)
    nights_by_host = runs[has_label].groupby("host_id")["night"]
    last_night_by_host: dict[Any, date] = nights_by_host.max().to_dict()
    return last_night_by_host


def _have_label(runs: pd.DataFrame, key: str, value: str) -> list[bool]:
    """Report which runs have a label."""
    labels_of_runs = map(json.loads, runs["labels_json"])
    return [labels.get(key) == value for labels in labels_of_runs]


def _name_number(rows: pd.DataFrame) -> dict[str, str]:
    """Return benchmark, variant and relation of series; empty if there are several."""
    numbers = rows[NUMBER_KEY].drop_duplicates()
    if len(numbers) > 1:
        return dict.fromkeys(NUMBER_KEY, "")
    return {name: numbers[name].iloc[0] for name in NUMBER_KEY}


def _find_fact_changes(runs: pd.DataFrame) -> dict[str, dict[date, set[Step]]]:
    """Return, by host and night, the facts that differ from the host's previous night
    with a run. The first night of a host has no entry.
    """
    steps_by_host = dict[str, dict[date, set[Step]]]()
    for host, runs_of_host in runs.groupby("host_id"):
        last_of_nights = runs_of_host.groupby("night").tail(1)
        steps_by_host[str(host)] = _find_fact_changes_of_host(last_of_nights)
    return steps_by_host


def _find_fact_changes_of_host(runs: pd.DataFrame) -> dict[date, set[Step]]:
    """Return, by night, the facts that differ from the previous night. runs: a run of
    the host per night, oldest first.
    """
    # the first night has no previous night to differ from
    _, *later_nights = runs["night"]
    steps_by_night = {night: set[Step]() for night in later_nights}
    for night, step in _list_fact_steps(runs, later_nights):
        steps_by_night[night].add(step)
    return steps_by_night


def _list_fact_steps(
    runs: pd.DataFrame, nights: Sequence[date]
) -> Iterator[tuple[date, Step]]:
    """Yield each fact in which a run of a host differs from the run before, with the
    night of the later run. runs: a run per night, oldest first. nights: the nights of
    all runs but the first.
    """
    texts_by_fact = describe_table_facts_by_name(runs)
    accepted_key, _ = ACCEPTED
    # this label says nothing of the host
    texts_by_fact.pop(f"label.{accepted_key}", None)
    for fact, texts in texts_by_fact.items():
        neighbours = pairwise(texts)
        for night, (before, after) in zip(nights, neighbours, strict=True):
            if before != after:
                yield night, (fact, before, after)


def _explain_night(hosts: Sequence[str], night: date, facts: Facts) -> Iterator[str]:
    """Yield each fact that changed on some of `hosts` that night, the commonest first:
    "kernel 6.1 → 6.2 (2 of 3 hosts; 1 other without this change)". `hosts` are those
    whose numbers changed. An "other" is not one of them, though the fact changed there
    in the same way, on any night.
    facts: by host and night, which facts changed.
    """
    counts = Counter[Step]()
    for host in hosts:
        steps = facts[host].get(night, ())
        counts.update(steps)
    for step, count in counts.most_common():
        fact, before, after = step
        words = f"{count} of {format_count(len(hosts), 'host')}"
        others = _count_others_with(step, hosts, facts)
        if others:
            words += f"; {format_count(others, 'other')} without this change"
        yield f"{fact} {before} → {after} ({words})"


def _count_others_with(step: Step, hosts: Sequence[str], facts: Facts) -> int:
    """Count the hosts, besides `hosts`, on which a fact changed as in `step` on any
    night. facts: by host and night, which facts changed.
    """
    other_hosts = facts.keys() - set(hosts)
    count = 0
    for host in other_hosts:
        steps_of_nights = facts[host].values()
        if any(step in steps for steps in steps_of_nights):
            count += 1
    return count


def _list_caveats(hosts_of_few_nights: Sequence[str]) -> tuple[str, ...]:
    """Warn of the hosts that have no verdict, since they have too few nights."""
    if not hosts_of_few_nights:
        return ()
    end = "."
    if len(hosts_of_few_nights) > 1:
        end = "; --siblings finds the odd one of equal machines."
    names = join_names(hosts_of_few_nights)
    return (
        f"{names}: relations with fewer than {MIN_NIGHTS} nights have no verdict{end}",
    )

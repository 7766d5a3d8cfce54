"""Say which runs of a host are its baseline.

Its usual numbers are of the runs since its last proved change. Expected of it are the
runs before a change that nobody accepted (docs/comparing.md).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import chain
from typing import NamedTuple
from warnings import warn

import numpy as np
import pandas as pd

from fleet.analysis.base.selection import group_by_host, keep_comparable_with_last
from fleet.analysis.base.tables import NUMBER_KEY, Floats, Ints, number_groups
from fleet.analysis.compare.history import ACCEPTED, DatedStep, find_steps
from fleet.analysis.compare.series_changes import MIN_NIGHTS
from fleet.analysis.reduce.load import list_published
from fleet.analysis.reduce.matrices import choose_shared_column
from fleet.analysis.reduce.numbers import NUMBER_COLUMNS, select_numbers
from fleet.analysis.reduce.run_levels import label_levels_of_each
from fleet.errors import StoreWarning, explain
from fleet.store.gate import RunRecord
from fleet.store.runs import Listing, Root, RunSummary, open_listing

_Nights = Mapping[str, date]  # by run ID
# the night of a host's last step, by host ID and benchmark
_LastSteps = dict[tuple[str, str], date]
_ALL_BENCHMARKS = ""  # stands for the benchmark of a step that several numbers share
_FACTS = ("preset", "estimator", "hypervisor")


def mark_usual(root: Root, rows: pd.DataFrame) -> pd.DataFrame:
    """Mark the rows that were measured since the last proved step of their host.

    A step is a change of a host's numbers that lasts from one night on. The rows need
    the columns `host_id`, `run_id` and `benchmark`; only their runs are searched for
    steps. The column `since` is added: the night of the last step of the row's
    benchmark or of all benchmarks, None if there is none. The column `is_usual` is
    added: whether the row's run is from that night or later. Without scipy, warn and
    mark all rows as usual.
    """
    listing = open_listing(root)
    run_ids = rows["run_id"].unique().tolist()
    runs = list_published(listing, run_id=run_ids)
    runs_by_host = group_by_host(runs)
    night_of_run = dict[str, date]()
    for runs_of_host in runs_by_host.values():
        night_of_run.update(find_nights(runs_of_host))
    last_steps = _find_last_steps(listing, runs_by_host, night_of_run)
    # for each row, the night of the last step of its host and benchmark, or None
    since = _list_last_steps(rows, last_steps)
    are_usual = list[bool]()
    for run_id, step_night in zip(rows["run_id"], since, strict=True):
        is_usual = step_night is None or night_of_run[run_id] >= step_night
        are_usual.append(is_usual)
    return rows.assign(
        since=pd.Series(since, rows.index, dtype=object),
        is_usual=np.array(are_usual, dtype=bool),
    )


def _list_last_steps(rows: pd.DataFrame, last_steps: _LastSteps) -> list[date | None]:
    """List, for each row, the night of the last step of its host and benchmark, or
    None.
    """
    nights = list[date | None]()
    for host_id, benchmark in zip(rows["host_id"], rows["benchmark"], strict=True):
        night = _look_up_last_step(last_steps, host_id, benchmark)
        nights.append(night)
    return nights


def _look_up_last_step(
    last_steps: _LastSteps, host_id: str, benchmark: str
) -> date | None:
    """Return the night of the last step of a host's benchmark or of all its benchmarks;
    None if there was no step.
    """
    keys = [(host_id, benchmark), (host_id, _ALL_BENCHMARKS)]
    nights = [last_steps[key] for key in keys if key in last_steps]
    return max(nights, default=None)


def find_nights(runs: Sequence[RunSummary]) -> dict[str, date]:
    """Return the night of each run of a host by its ID: the UTC day on which the host's
    first run of the session began.
    """
    first_of_session = dict[str, date]()
    nights = dict[str, date]()
    oldest_first = sorted(runs, key=lambda run: run.started_utc)
    for run in oldest_first:
        day = run.started_utc.date()
        night = first_of_session.setdefault(run.session_id, day)
        nights[run.run_id] = night
    return nights


def choose_removable(runs: Sequence[RunSummary], before: datetime) -> list[RunSummary]:
    """Choose the runs that began before a time, except a host's baseline and its last
    run.

    The baseline is the first MIN_NIGHTS runs of each host and set of benchmarks, from
    the last accepted run on if there is one. runs: oldest first.
    """
    runs_by_kind = dict[tuple[str, tuple[str, ...]], list[RunSummary]]()
    for run in runs:
        kind = (run.host_id, run.benchmarks)
        runs_by_kind.setdefault(kind, []).append(run)
    removable = []
    for runs_of_kind in runs_by_kind.values():
        needed_runs = _choose_needed_runs(runs_of_kind)
        for run in runs_of_kind:
            is_old = run.started_utc < before
            if is_old and run not in needed_runs:
                removable.append(run)
    return removable


def _choose_needed_runs(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Choose the baseline and the last run. runs: of one host and set of benchmarks."""
    first = find_last_accepted(runs)
    baseline = runs[first : first + MIN_NIGHTS]
    return [*baseline, runs[-1]]


def find_last_accepted(runs: Sequence[RunSummary]) -> int:
    """Return the index of the last run with the label ACCEPTED, 0 if none has it."""
    last_accepted = 0
    for index, run in enumerate(runs):
        if ACCEPTED in run.labels:
            last_accepted = index
    return last_accepted


def read_facts(listing: Listing, runs: Sequence[RunSummary]) -> dict[str, RunRecord]:
    """Return, by run ID, the record of each run that can be read. Its row has the
    preset and the estimator, which say which number to compare, and the hypervisor: a
    virtual machine may switch levels.
    """
    return listing.read_records(runs, _FACTS)


class RunTable(NamedTuple):
    """Numbers of runs: a row per number, a column per run.

    keys: the benchmark, variant and relation of each row, by which the rows are sorted.
    choices: the benchmark and variant of each row, as one number from 0 for both.
    column_of_run: the column of each run, by its ID. log_ns: the logarithms of the
    numbers in ns, NaN where a run lacks a number.
    """

    keys: Sequence[tuple[str, str, str]]
    choices: Ints
    column_of_run: Mapping[str, int]
    log_ns: Floats

    def has_run(self, run_id: str) -> bool:
        """Report whether the run has any number."""
        return run_id in self.column_of_run

    def select(self, run_ids: Iterable[str]) -> Floats:
        """Return the logarithms of these runs, a column per run, in this order."""
        columns = [self.column_of_run[run_id] for run_id in run_ids]
        return self.log_ns[:, columns]


def tabulate_runs(numbers: pd.DataFrame, pair_column: str) -> RunTable:
    """Lay out rows of the table `numbers`: a row per number, a column per run.

    pair_column: the column of the table `pairs` that holds the estimator to compare,
    such as "min_ns". The median of this column over the pairs of a relation is a column
    of `numbers` under another name, such as "min_sample_ns".
    """
    number_column = NUMBER_COLUMNS[pair_column]
    by_number_and_run = numbers.set_index([*NUMBER_KEY, "run_id"])
    ns = by_number_and_run[number_column].unstack("run_id")
    names_of_rows = ns.index.to_frame(index=False)
    # a choice is a benchmark with its variant
    choice_of_row = number_groups(names_of_rows, ["benchmark", "variant"])
    run_ids = ns.columns.astype(str)
    return RunTable(
        keys=ns.index.tolist(),
        choices=choice_of_row,
        column_of_run={run_id: column for column, run_id in enumerate(run_ids)},
        log_ns=np.log(ns.to_numpy()),
    )


@dataclass(frozen=True, slots=True)
class HostRuns:
    """The numbers of a host's comparable runs, oldest first.

    log_ns: the logarithms, a row per row of a RunTable, a column per run, NaN where a
    run lacks a number. levels: the level of each of these, from 0 for the lowest of the
    row; -1 where the number is missing. nights: the night of each run. are_virtual:
    whether each run was on a virtual machine, which may switch levels.
    """

    runs: Sequence[RunSummary]
    log_ns: Floats
    levels: Ints
    nights: Sequence[date]
    are_virtual: Sequence[bool]

    def find_accepted(self) -> int:
        """Return the index of the last accepted run, 0 if there is none."""
        return find_last_accepted(self.runs)

    @property
    def is_last_run_virtual(self) -> bool:
        """Report whether the last run was on a virtual machine."""
        return self.are_virtual[-1]

    def find_steps(self) -> list[DatedStep]:
        """Find the proved steps, oldest first. A step is a change that lasts from a
        night on, of one number or of all.
        """
        switches = any(self.are_virtual)
        return find_steps(self.log_ns, self.levels, self.nights, switches=switches)

    def find_open_changes(self) -> "OpenChanges":
        """Find the first proved change of each number that no label accepts: the first
        change after the night of the last accepted run or, if no run is accepted, after
        the night of the first run.
        """
        baseline_run = self.find_accepted()
        accepted_night = self.nights[baseline_run]
        count = len(self.log_ns)
        # the index of the first run after the change; the count of runs: no change
        no_change = len(self.runs)
        first_run = np.full(count, no_change)
        ratio = np.full(count, np.nan)
        for step in self.find_steps():  # oldest first
            if step.night <= accepted_night:
                continue
            # the first run of that night
            run_after_step = self.nights.index(step.night)
            # whether no step before this one changed the number; if one did, its run is
            # not later than this one
            is_first_change = first_run > run_after_step
            # a step with a row is of this number only; a step without is of all numbers
            if step.row is not None:
                is_first_change &= np.arange(count) == step.row
            first_run[is_first_change] = run_after_step
            ratio[is_first_change] = step.ratio
        return OpenChanges(first_run, ratio)


class OpenChanges(NamedTuple):
    """The first proved change of each number that nobody accepted.

    first_run: the index of the first run after the change; the count of runs if the
    number did not change. ratio: the number after the change to that before; NaN if it
    did not change.
    """

    first_run: Ints
    ratio: Floats


def lay_out_hosts(
    table: RunTable,
    hosts: Sequence[Sequence[RunSummary]],
    nights: Mapping[str, date],
    facts: Mapping[str, RunRecord],
) -> list[HostRuns]:
    """Lay out the comparable runs of each host, without runs that the table lacks. The
    hosts stay in their order. hosts: the comparable runs of each host, oldest first.
    nights, facts: the night and the record of each run, by run ID.
    """
    runs_of_hosts = []
    logs_of_hosts = []
    for runs in hosts:
        measured_runs = [run for run in runs if table.has_run(run.run_id)]
        run_ids = [run.run_id for run in measured_runs]
        runs_of_hosts.append(measured_runs)
        logs_of_hosts.append(table.select(run_ids))
    # the numbers of all hosts are the rows of one table
    choices_of_hosts = [table.choices] * len(hosts)
    levels_of_hosts = label_levels_of_each(logs_of_hosts, choices_of_hosts)
    parts_of_hosts = zip(runs_of_hosts, logs_of_hosts, levels_of_hosts, strict=True)
    laid_out = []
    for runs, log_ns, levels in parts_of_hosts:
        host_runs = HostRuns(
            runs=runs,
            log_ns=log_ns,
            levels=levels,
            nights=[nights[run.run_id] for run in runs],
            are_virtual=[_is_virtual(facts.get(run.run_id)) for run in runs],
        )
        laid_out.append(host_runs)
    return laid_out


def _is_virtual(record: RunRecord | None) -> bool:
    """Report whether a run was on a virtual machine, as far as is known."""
    if record is None:
        return False
    return record.row["hypervisor"] is not None


def _find_last_steps(
    listing: Listing, runs_by_host: Mapping[str, Sequence[RunSummary]], nights: _Nights
) -> _LastSteps:
    """Return the night of the last step by host ID and benchmark. A step is a change of
    the host's numbers that lasts from that night on. A step of the mean of several
    numbers stands under _ALL_BENCHMARKS. Without scipy, warn and return no steps.
    """
    comparable_runs = []  # of each host
    for runs in runs_by_host.values():
        if _has_enough_nights(runs, nights):
            comparable = keep_comparable_with_last(listing, runs)
            comparable_runs.append(comparable)
    last_steps = _LastSteps()
    try:
        for host_runs, table in _read_hosts(listing, comparable_runs, nights):
            steps_of_host = _find_last_steps_of_host(host_runs, table)
            last_steps.update(steps_of_host)
    except ImportError as err:  # of scipy, which `make run` leaves out
        message = f"{explain(err)} Until then, runs before a change count as well."
        warn(StoreWarning(message), stacklevel=3)
    return last_steps


def _read_hosts(
    listing: Listing, hosts: Sequence[Sequence[RunSummary]], nights: _Nights
) -> Iterator[tuple[HostRuns, RunTable]]:
    """Yield the numbers of each host's runs, and the table that says what their rows
    are.

    Hosts whose runs share an estimator share a table, which holds the numbers by that
    estimator. hosts: the runs of each host. nights: the night of each run, by run ID.
    """
    runs = list(chain.from_iterable(hosts))
    if not runs:
        return
    facts = read_facts(listing, runs)
    numbers = select_numbers(listing, runs)
    hosts_by_column = _group_by_pair_column(hosts, facts)
    for pair_column, hosts_of_column in hosts_by_column.items():
        table = tabulate_runs(numbers, pair_column)
        for host_runs in lay_out_hosts(table, hosts_of_column, nights, facts):
            yield host_runs, table


def _has_enough_nights(runs: Sequence[RunSummary], nights: _Nights) -> bool:
    """Report whether the runs are of enough nights to prove a step."""
    distinct = {nights[run.run_id] for run in runs}
    return len(distinct) >= MIN_NIGHTS


def _find_last_steps_of_host(host_runs: HostRuns, table: RunTable) -> _LastSteps:
    """Return the night of the last step of each benchmark of a host, by host ID and
    benchmark. A step that several numbers share stands under _ALL_BENCHMARKS. table:
    says which benchmark each row of the host's numbers is of.
    """
    host_id = host_runs.runs[0].host_id
    last_steps = _LastSteps()
    # the oldest first: a later step of a benchmark replaces an earlier one
    for step in host_runs.find_steps():
        # a step without a row is one of the mean of several numbers
        benchmark = _ALL_BENCHMARKS
        if step.row is not None:
            benchmark, _, _ = table.keys[step.row]
        last_steps[host_id, benchmark] = step.night
    return last_steps


def _group_by_pair_column(
    hosts: Sequence[Sequence[RunSummary]], facts: Mapping[str, RunRecord]
) -> dict[str, list[Sequence[RunSummary]]]:
    """Group hosts by the column of the table `pairs` to compare: that of the estimator
    that the runs of the host share, such as "min_ns", else the median. hosts: the runs
    of each host. facts: the record of each run that can be read, by run ID.
    """
    groups = dict[str, list[Sequence[RunSummary]]]()
    for runs in hosts:
        settings = []
        for run in runs:
            if run.run_id in facts:
                record = facts[run.run_id]
                settings.append(record.row)
        pair_column = choose_shared_column(settings)
        groups.setdefault(pair_column, []).append(runs)
    return groups

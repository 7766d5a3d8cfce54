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
from fleet.analysis.base.tables import Floats, Ints, number_groups
from fleet.analysis.compare.history import ACCEPTED, DatedStep, find_steps
from fleet.analysis.compare.series_changes import MIN_NIGHTS
from fleet.analysis.compare.verdicts import CLASS
from fleet.analysis.reduce.load import list_published
from fleet.analysis.reduce.matrices import choose_shared_column
from fleet.analysis.reduce.numbers import NUMBER_COLUMNS, select_numbers
from fleet.analysis.reduce.run_levels import label_levels_of_each
from fleet.errors import StoreWarning, explain
from fleet.store.gate import RunRecord
from fleet.store.runs import Listing, Root, RunSummary, open_listing

_Nights = Mapping[str, date]  # by run ID
_FACTS = ("preset", "estimator", "hypervisor")


def mark_usual(root: Root, rows: pd.DataFrame) -> pd.DataFrame:
    """Mark the rows that were measured since the last proved step of their host.

    rows: with columns `host_id`, `run_id` and `benchmark`. Add `since`, the night of
    the last step of this benchmark or of all benchmarks (None if there is none), and
    `is_usual`, whether the run is from that night or later. Find steps in the runs of
    `rows` only. Without scipy, warn and mark all rows as usual.
    """
    listing = open_listing(root)
    run_ids = rows["run_id"].unique().tolist()
    hosts = group_by_host(list_published(listing, run_id=run_ids))
    nights = dict[str, date]()
    for runs in hosts.values():
        nights.update(find_nights(runs))
    last_steps = _find_last_steps(listing, hosts, nights)
    since = list[date | None]()
    are_usual = list[bool]()
    names = rows[["host_id", "benchmark", "run_id"]]
    for host, benchmark, run_id in names.itertuples(index=False, name=None):
        last_step = _find_last_step(last_steps, host, benchmark)
        is_usual = last_step is None or nights[run_id] >= last_step
        since.append(last_step)
        are_usual.append(is_usual)
    return rows.assign(
        since=pd.Series(since, rows.index, dtype=object),
        is_usual=np.array(are_usual, dtype=bool),
    )


def _find_last_step(
    last_steps: Mapping[tuple[str, str], date], host: str, benchmark: str
) -> date | None:
    """Return the night of the last step of a host's benchmark or of several benchmarks.
    last_steps: as returned by `_find_last_steps`.
    """
    keys = [(host, benchmark), (host, "")]
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
    begin = find_last_accepted(runs)
    baseline = runs[begin : begin + MIN_NIGHTS]
    return [*baseline, runs[-1]]


def find_last_accepted(runs: Sequence[RunSummary]) -> int:
    """Return the place of the last run with the label ACCEPTED, 0 if none has it."""
    last_place = 0
    for place, run in enumerate(runs):
        if ACCEPTED in run.labels:
            last_place = place
    return last_place


def read_facts(listing: Listing, runs: Sequence[RunSummary]) -> dict[str, RunRecord]:
    """Read of each run, by its ID, what tells which number to compare and whether it
    may switch levels.
    """
    return listing.read_records(runs, _FACTS)


class RunTable(NamedTuple):
    """Numbers of runs as logarithms: a row per key, sorted, a column per run; NaN where
    a run lacks one. keys: benchmark, variant and relation. choices: each row's
    benchmark and variant, as a number from 0. columns: by run ID.
    """

    keys: Sequence[tuple[str, str, str]]
    choices: Ints
    columns: Mapping[str, int]
    logs: Floats

    def select(self, run_ids: Iterable[str]) -> Floats:
        """Return the columns of these runs, in this order."""
        columns = [self.columns[run_id] for run_id in run_ids]
        return self.logs[:, columns]


def tabulate_runs(numbers: pd.DataFrame, column: str) -> RunTable:
    """Lay out rows of `numbers`. column: the column of `pairs` to compare."""
    by_run = numbers.set_index(["run_id", *CLASS])
    values = by_run[NUMBER_COLUMNS[column]]
    table = values.unstack("run_id")
    keys = table.index
    columns = {str(run_id): place for place, run_id in enumerate(table.columns)}
    choices = number_groups(keys.to_frame(index=False), CLASS[:2])
    logs = np.log(table.to_numpy())
    return RunTable(keys.tolist(), choices, columns, logs)


@dataclass(frozen=True, slots=True)
class HostRuns:
    """The numbers of a host's comparable runs, oldest first.

    logs, levels: a row per number of a RunTable, a column per run. nights, are_virtual:
    of each run.
    """

    runs: Sequence[RunSummary]
    logs: Floats
    levels: Ints
    nights: Sequence[date]
    are_virtual: Sequence[bool]

    def find_accepted(self) -> int:
        """Return the place of the last accepted run, 0 if there is none."""
        return find_last_accepted(self.runs)

    @property
    def is_last_run_virtual(self) -> bool:
        """Report whether the last run was on a virtual machine."""
        return self.are_virtual[-1]

    def find_steps(self) -> list[DatedStep]:
        """Find the proved steps, oldest first."""
        switches = any(self.are_virtual)
        return find_steps(self.logs, self.levels, self.nights, switches=switches)

    def find_open_changes(self) -> "OpenChanges":
        """Find the changes that no label accepts."""
        accepted_night = self.nights[self.find_accepted()]
        numbers = np.arange(len(self.logs))
        first = np.full(len(numbers), len(self.runs))
        ratio = np.full(len(numbers), np.nan)
        for step in self.find_steps():
            if step.night <= accepted_night:
                continue
            first_after = self.nights.index(step.night)
            is_first = first > first_after
            if step.row is not None:  # else the step is one of all numbers
                is_first &= numbers == step.row
            first[is_first] = first_after
            ratio[is_first] = step.ratio
        return OpenChanges(first, ratio)


class OpenChanges(NamedTuple):
    """Of each number, the first proved change that nobody accepted. first: the column
    of the first run after it, the count of runs if there is none. ratio: the number
    after it to that before, else NaN.
    """

    first: Ints
    ratio: Floats


def lay_out_hosts(
    table: RunTable,
    hosts: Sequence[Sequence[RunSummary]],
    nights: Mapping[str, date],
    facts: Mapping[str, RunRecord],
) -> list[HostRuns]:
    """Lay out those of the comparable runs of each host that the table has. nights,
    facts: by run ID.
    """
    runs_of_hosts = []
    logs_of_hosts = []
    for runs in hosts:
        runs_in_table = _keep_in_table(runs, table)
        run_ids = [run.run_id for run in runs_in_table]
        runs_of_hosts.append(runs_in_table)
        logs_of_hosts.append(table.select(run_ids))
    choices_of_hosts = [table.choices] * len(hosts)
    levels_of_hosts = label_levels_of_each(logs_of_hosts, choices_of_hosts)
    host_runs = []
    for number, runs in enumerate(runs_of_hosts):
        own = HostRuns(
            runs=runs,
            logs=logs_of_hosts[number],
            levels=levels_of_hosts[number],
            nights=[nights[run.run_id] for run in runs],
            are_virtual=[_is_virtual(facts.get(run.run_id)) for run in runs],
        )
        host_runs.append(own)
    return host_runs


def _keep_in_table(runs: Sequence[RunSummary], table: RunTable) -> list[RunSummary]:
    return [run for run in runs if run.run_id in table.columns]


def _is_virtual(record: RunRecord | None) -> bool:
    """Report whether a run was on a virtual machine, as far as is known."""
    if record is None:
        return False
    return record.row["hypervisor"] is not None


def _find_last_steps(
    listing: Listing, hosts: Mapping[str, Sequence[RunSummary]], nights: _Nights
) -> dict[tuple[str, str], date]:
    """Return the night of the last step by host and benchmark; "" stands for several
    benchmarks or relations.
    """
    hosts_to_test = [own for own in hosts.values() if _has_enough_nights(own, nights)]
    comparable = [keep_comparable_with_last(listing, own) for own in hosts_to_test]
    last_steps = dict[tuple[str, str], date]()
    try:
        for host, table in _read_hosts(listing, comparable, nights):
            steps_of_host = _find_last_steps_of_host(host, table)
            last_steps.update(steps_of_host)
    except ImportError as err:  # of scipy, which `make run` leaves out
        message = f"{explain(err)} Until then, runs before a change count as well."
        warn(StoreWarning(message), stacklevel=3)
    return last_steps


def _read_hosts(
    listing: Listing, hosts: Sequence[Sequence[RunSummary]], nights: _Nights
) -> Iterator[tuple[HostRuns, RunTable]]:
    """Yield the numbers of each host's runs, and the table that they are rows of."""
    runs = list(chain.from_iterable(hosts))
    if not runs:
        return
    facts = read_facts(listing, runs)
    numbers = select_numbers(listing, runs)
    for column, runs_of_hosts in _group_by_column(hosts, facts).items():
        table = tabulate_runs(numbers, column)
        for host in lay_out_hosts(table, runs_of_hosts, nights, facts):
            yield host, table


def _has_enough_nights(runs: Sequence[RunSummary], nights: _Nights) -> bool:
    distinct = {nights[run.run_id] for run in runs}
    return len(distinct) >= MIN_NIGHTS


def _find_last_steps_of_host(
    host: HostRuns, table: RunTable
) -> dict[tuple[str, str], date]:
    host_id = host.runs[0].host_id
    last_steps = dict[tuple[str, str], date]()
    for step in host.find_steps():  # oldest first: the last one of each stays
        benchmark = ""
        if step.row is not None:
            benchmark, _, _ = table.keys[step.row]
        last_steps[host_id, benchmark] = step.night
    return last_steps


def _group_by_column(
    hosts: Sequence[Sequence[RunSummary]], facts: Mapping[str, RunRecord]
) -> dict[str, list[Sequence[RunSummary]]]:
    """Group the runs of hosts by the column of `pairs` to compare."""
    groups = dict[str, list[Sequence[RunSummary]]]()
    for runs in hosts:
        rows = []
        for run in runs:
            if run.run_id in facts:
                record = facts[run.run_id]
                rows.append(record.row)
        column = choose_shared_column(rows)
        groups.setdefault(column, []).append(runs)
    return groups

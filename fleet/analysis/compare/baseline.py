"""Say which runs of a host are its baseline.

Its usual numbers are of the runs since its last proved change. Expected of it are the
runs before a change that nobody accepted (docs/accepting.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple
from warnings import warn

import numpy as np
import pandas as pd

from fleet.analysis.base.selection import group_by_host, keep_comparable_with_last
from fleet.analysis.base.tables import Floats, Ints, number_groups
from fleet.analysis.compare.history import MIN_NIGHTS, DatedStep, find_steps
from fleet.analysis.compare.verdicts import CLASS
from fleet.analysis.reduce.load import list_published
from fleet.analysis.reduce.matrices import choose_shared_column
from fleet.analysis.reduce.numbers import NUMBER_COLUMNS, select_numbers
from fleet.errors import StoreWarning, explain
from fleet.store.gate import RunRecord
from fleet.store.runs import Listing, Root, RunSummary, open_listing

ACCEPTED = ("accepted", "yes")  # the label of a run that begins a new baseline
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
    changed = _find_last_steps(listing, hosts, nights)
    since = list[date | None]()
    for host, benchmark in zip(rows["host_id"], rows["benchmark"], strict=True):
        steps = [changed.get((host, name)) for name in (benchmark, "")]
        since.append(max(filter(None, steps), default=None))
    are_usual = [
        night is None or nights[run_id] >= night
        for run_id, night in zip(rows["run_id"], since, strict=True)
    ]
    return rows.assign(
        since=pd.Series(since, rows.index, dtype=object),
        is_usual=np.array(are_usual, dtype=bool),
    )


def find_nights(runs: Sequence[RunSummary]) -> dict[str, date]:
    """Return the night of each run of a host by its ID: the UTC day on which the host's
    first run of the session began.
    """
    first = dict[str, date]()
    nights = dict[str, date]()
    for run in sorted(runs, key=lambda run: run.started_utc):
        first.setdefault(run.session_id, run.started_utc.date())
        nights[run.run_id] = first[run.session_id]
    return nights


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
        return self.logs[:, [self.columns[run_id] for run_id in run_ids]]


def tabulate_runs(numbers: pd.DataFrame, column: str) -> RunTable:
    """Lay out rows of `numbers`. column: the column of `pairs` to compare."""
    values = numbers.set_index(["run_id", *CLASS])[NUMBER_COLUMNS[column]]
    table = values.unstack("run_id")
    columns = {str(run_id): place for place, run_id in enumerate(table.columns)}
    choices = number_groups(table.index.to_frame(index=False), CLASS[:2])
    return RunTable(table.index.tolist(), choices, columns, np.log(table.to_numpy()))


class OpenChanges(NamedTuple):
    """Of each number, the first proved change that nobody accepted. first: the column
    of the first run after it, the count of runs if there is none. ratio: the number
    after it to that before, else NaN.
    """

    first: Ints
    ratio: Floats


def find_accepted(runs: Sequence[RunSummary]) -> int:
    """Return the place of the last run with the label ACCEPTED, 0 if none has it."""
    places = [place for place, run in enumerate(runs) if ACCEPTED in run.labels]
    return max(places, default=0)


def find_open_changes(
    table: RunTable, runs: Sequence[RunSummary], facts: Mapping[str, RunRecord]
) -> OpenChanges:
    """Find the changes of a host that no label accepts. runs: comparable ones of the
    table, oldest first.
    """
    nights = find_nights(runs)
    own_nights = [nights[run.run_id] for run in runs]
    accepted = own_nights[find_accepted(runs)]
    first = np.full(len(table.keys), len(runs))
    ratio = np.full(len(table.keys), np.nan)
    for step in find_steps_of_runs(table, runs, nights, facts):
        if step.night <= accepted:
            continue
        rows = slice(None) if step.row is None else slice(step.row, step.row + 1)
        after = own_nights.index(step.night)
        is_first = first[rows] > after
        first[rows] = np.where(is_first, after, first[rows])
        ratio[rows] = np.where(is_first, step.ratio, ratio[rows])
    return OpenChanges(first, ratio)


def _find_last_steps(
    listing: Listing, hosts: Mapping[str, Sequence[RunSummary]], nights: _Nights
) -> dict[tuple[str, str], date]:
    """Return the night of the last step by host and benchmark; "" stands for several
    benchmarks or relations.
    """
    long = dict[str, list[RunSummary]]()
    for host, runs in hosts.items():
        if len({nights[run.run_id] for run in runs}) >= MIN_NIGHTS:
            long[host] = keep_comparable_with_last(listing, runs)
    runs = [run for own in long.values() for run in own]
    if not runs:
        return {}
    facts = read_facts(listing, runs)
    numbers = select_numbers(listing, runs)
    tables = dict[str, RunTable]()
    since = dict[tuple[str, str], date]()
    for host, own in long.items():
        records = [facts[run.run_id].row for run in own if run.run_id in facts]
        column = choose_shared_column(records)
        if column not in tables:
            tables[column] = tabulate_runs(numbers, column)
        try:
            steps = find_steps_of_runs(tables[column], own, nights, facts)
        except ImportError as err:  # of scipy, which `make run` leaves out
            message = f"{explain(err)} Until then, runs before a change count as well."
            warn(StoreWarning(message), stacklevel=3)
            break
        for step in steps:
            benchmark = ""
            if step.row is not None:
                benchmark = tables[column].keys[step.row][0]
            since[host, benchmark] = step.night
    return since


def find_steps_of_runs(
    table: RunTable,
    runs: Sequence[RunSummary],
    nights: _Nights,
    facts: Mapping[str, RunRecord],
) -> list[DatedStep]:
    """Find the proved steps of a host's comparable runs, oldest first."""
    own = [run.run_id for run in runs if run.run_id in table.columns]
    records = [facts[run_id].row for run_id in own if run_id in facts]
    switches = any(record["hypervisor"] is not None for record in records)
    own_nights = [nights[run_id] for run_id in own]
    return find_steps(table.select(own), table.choices, own_nights, switches=switches)

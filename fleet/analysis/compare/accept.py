"""Compare each machine's last run with the numbers expected of it
(docs/accepting.md).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.selection import (
    filter_runs,
    group_by_host,
    keep_comparable_with_last,
    select_runs,
)
from fleet.analysis.base.tables import Floats, Ints
from fleet.analysis.base.text import is_rate, to_records
from fleet.analysis.compare import judge
from fleet.analysis.compare.baseline import (
    RunTable,
    find_accepted,
    find_nights,
    find_open_changes,
    read_facts,
    tabulate_runs,
)
from fleet.analysis.compare.siblings import join_equal_facts, measure_distances
from fleet.analysis.compare.sides import NOTHING
from fleet.analysis.compare.verdicts import CLASS, THRESHOLD
from fleet.analysis.reduce.load import load_runs_and_cpus, merge_descriptions
from fleet.analysis.reduce.matrices import choose_shared_column
from fleet.analysis.reduce.numbers import ALL, Only, select_numbers
from fleet.analysis.reduce.run_levels import find_main_levels, label_levels_of_hosts
from fleet.errors import UsageError
from fleet.inventory.expected import ExpectedRange
from fleet.model import Descriptions
from fleet.plan.benchmark_names import select_choices
from fleet.store.gate import RunRecord
from fleet.store.runs import Listing, Root, RunSummary, open_listing

MIN_VALUES = 3  # earlier runs, other machines or tables, for a range
MACHINE, TABLE = "equal machine", "table"
_PREDICTED = ("mean", "error", "freedom")
DISTURBED = 0.5  # of the bursts of a run: it measured other work too


class Outcome(StrEnum):
    """How a number compares with what is expected of it."""

    AS_EXPECTED = "as expected"
    BELOW = "below"  # slower, or less
    ABOVE = "above"  # faster, or more: other settings?
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A machine's last run beside the numbers expected of it.

    failed: the share of bursts without a number. flagged: of the other bursts, the
    share with a flag. rows: a row per number and expectation, with CLASS, `ns`, the
    expected range `low` to `high` in ns (NaN: no such limit), its `source`, the `count`
    of runs, machines or tables behind it, how many of these are slower (`beaten`), for
    earlier runs `since`, the night of a change that nobody accepted, or None, and its
    `ratio` (NaN if it is not proved), `p` and `q` (NaN for ranges set by hand), and
    `outcome`. older: benchmarks that only earlier runs have. empty: the ID of a later
    run without a number.
    """

    host: str
    run_id: str
    cpu_model: str | None
    rows: pd.DataFrame
    descriptions: Descriptions
    failed: float = 0.0
    flagged: float = 0.0
    older: tuple[str, ...] = ()
    empty: str | None = None

    @property
    def is_disturbed(self) -> bool:
        """Report whether half of the bursts failed, or half of the others have a
        flag.
        """
        return max(self.failed, self.flagged) >= DISTURBED

    @property
    def outcome(self) -> Outcome:
        """Return the first of BELOW, ABOVE, AS_EXPECTED in `rows`; CANNOT_TELL if none,
        or if disturbed.
        """
        if self.is_disturbed:
            return Outcome.CANNOT_TELL
        outcomes = set(self.rows["outcome"])
        for outcome in (Outcome.BELOW, Outcome.ABOVE, Outcome.AS_EXPECTED):
            if outcome in outcomes:
                return outcome
        return Outcome.CANNOT_TELL


def judge_last_runs(
    root: Root,
    texts: Sequence[str],
    ranges: Sequence[ExpectedRange] = (),
    *,
    load_tables: Callable[[str], pd.DataFrame] | None = None,
    threshold: float | None = None,
    only: Only = ALL,
    accepts_changes: bool = False,
) -> list[Acceptance]:
    """Compare the last selected run of each host with its earlier runs and with equal
    machines.

    If a range applies to a number, only the first such range is used. Equal machines
    that are odd among themselves are left out. load_tables: takes a CPU model and
    returns `median_ns` by `summary` and CLASS; called if neither earlier runs nor equal
    machines give three values. threshold: the smallest deviation that matters, as a
    share. accepts_changes: of a number that changed, expect what it is since. Raises
    UsageError if no run is selected or none has numbers.
    """
    listing = open_listing(root)
    machines = _select_machines(listing, texts, only.benchmark)
    last_runs = _select_last_runs(listing, machines, only.benchmark)
    wanted = {run.run_id for machine in machines for run in machine.runs}
    wanted.update(run.run_id for run in last_runs)
    used = [run for run in listing.runs if run.run_id in wanted]
    descriptions = merge_descriptions(used)
    numbers = select_numbers(listing, used, only, descriptions)
    if numbers.empty:
        raise UsageError(f"{NOTHING}; `fleet runs` lists what each run has.")
    facts = read_facts(listing, used)
    column = choose_shared_column(record.row for record in facts.values())
    table = tabulate_runs(numbers, column)
    judged = [machine.runs[-1] for machine in machines if machine.runs]
    equals = _EqualMachines.read(listing, judged, last_runs, table)
    matters = threshold or THRESHOLD
    sources = _Sources(
        table=table,
        facts=facts,
        ranges=ranges,
        equals=equals,
        tabulate_summaries=cache(partial(_tabulate_summaries, load_tables, table.keys)),
        descriptions=descriptions,
        threshold=matters,
        accepts_changes=accepts_changes,
    )
    parts = list[dict[str, Any]]()
    for place, machine in enumerate(machines):
        own_runs = [run for run in machine.runs if run.run_id in table.columns]
        is_last_readable = own_runs and own_runs[-1] == machine.runs[-1]
        if is_last_readable:
            parts += sources.expect(place, own_runs).parts
    judged_rows = judge_numbers(_join_parts(parts, table), matters)
    owners = judged_rows.pop("machine").to_numpy()
    ends = np.searchsorted(owners, np.arange(len(machines) + 1))
    acceptances = []
    for machine, (first, end) in zip(machines, pairwise(ends), strict=True):
        own_rows = judged_rows.iloc[first:end]
        run = equals.rows.get(machine.last_id, {})
        acceptances.append(_make_acceptance(machine, run, own_rows, descriptions))
    return acceptances


@dataclass(frozen=True, slots=True)
class _Machine:
    """A host that is judged.

    runs: those like the judged one and up to it, oldest first; none if nothing was
    measured. last_id: the ID of the judged run, else of the host's last. older:
    benchmarks that only earlier runs have. empty: the ID of a later run without a
    number, or None.
    """

    host: str
    runs: Sequence[RunSummary]
    last_id: str
    older: Sequence[str]
    empty: str | None


def _select_machines(
    listing: Listing, texts: Sequence[str], benchmark: str | None
) -> list[_Machine]:
    selected = select_runs(listing.runs, texts, listing.place)
    filter_runs(listing, selected, benchmark)  # raises an error if no run has it
    every = group_by_host(listing.runs)
    machines = []
    for host, runs in group_by_host(selected).items():
        comparable = keep_comparable_with_last(listing, runs, benchmark)
        if not comparable or not comparable[-1].samples:
            machines.append(_Machine(host, [], runs[-1].run_id, [], runs[-1].run_id))
            continue
        last = comparable[-1]
        before = every[host][: every[host].index(last) + 1]
        own = keep_comparable_with_last(listing, before, benchmark)
        later = runs[runs.index(last) + 1 :]
        empty = [run.run_id for run in later if not run.samples]
        older = _list_older(last, runs, benchmark)
        newest_empty = empty[-1] if empty else None
        machines.append(_Machine(host, own, last.run_id, older, newest_empty))
    return machines


def _list_older(
    last: RunSummary, runs: Sequence[RunSummary], benchmark: str | None
) -> list[str]:
    """List the benchmarks that earlier runs of a host have and its last run lacks."""
    choices = dict.fromkeys(
        choice for run in runs if run.samples for choice in run.benchmarks
    )
    if benchmark is not None:
        choices = dict.fromkeys(select_choices(benchmark, list(choices)))
    own = {choice.partition("/")[0] for choice in last.benchmarks}
    names = dict.fromkeys(choice.partition("/")[0] for choice in choices)
    return [name for name in names if name not in own]


def _select_last_runs(
    listing: Listing, machines: Sequence[_Machine], benchmark: str | None
) -> list[RunSummary]:
    """Select the last run of each host that may equal one of the machines."""
    models = {machine.runs[-1].cpu_model for machine in machines if machine.runs}
    models.discard(None)
    last_runs = []
    for runs in group_by_host(listing.runs).values():
        comparable = keep_comparable_with_last(listing, runs, benchmark)
        if comparable and comparable[-1].cpu_model in models:
            last_runs.append(comparable[-1])
    return last_runs


class _Earlier(NamedTuple):
    """The earlier runs that are expected of each number, as logarithms, NaN elsewhere.
    since: the night from which on a change is not accepted, or None. ratio: of that
    change if it is proved, else NaN.
    """

    logs: Floats
    since: list[date | None]
    ratio: Floats


def _choose_earlier(
    table: RunTable,
    runs: Sequence[RunSummary],
    facts: Mapping[str, RunRecord],
    threshold: float,
    accepts_changes: bool,
) -> _Earlier:
    """Choose the runs before a change that nobody accepted; if `accepts_changes`, those
    since. runs: comparable, the last one is judged.
    """
    logs = table.select([run.run_id for run in runs])
    levels = label_levels_of_hosts(logs, table.choices)
    is_at_own_level = levels == levels[:, -1:]
    record = facts.get(runs[-1].run_id)
    switches = record is not None and record.row["hypervisor"] is not None
    if switches:
        logs = np.where(is_at_own_level, logs, np.nan)
    begin = find_accepted(runs)
    first, ratio = find_open_changes(table, runs, facts)
    slow = begin + find_first_below(logs[:, begin:], threshold)
    first = np.where(first < len(runs), first, slow)
    is_open = first < len(runs)
    place = np.arange(len(runs))
    end = np.minimum(first, len(runs) - 1)
    chosen = (place >= begin) & (place < end[:, None])
    if accepts_changes:
        chosen = np.where(is_open[:, None], place >= first[:, None], chosen)
    values = np.where(chosen, logs, np.nan)
    if not switches:
        values = _keep_own_or_main_level(values, levels)
    values = values[:, ~np.isnan(values).all(axis=0)]
    nights = find_nights(runs)
    since = [None if at == len(runs) else nights[runs[at].run_id] for at in first]
    return _Earlier(values, since, ratio)


def _keep_own_or_main_level(values: Floats, levels: Ints) -> Floats:
    """Keep the values at the level of the last run if they are enough for a range, else
    those at their main level.
    """
    own_level = levels[:, -1]
    at_own = (levels == own_level[:, None]) & ~np.isnan(values)
    enough = at_own.sum(axis=1) >= MIN_VALUES
    main_level = find_main_levels(np.where(np.isnan(values), -1, levels))
    level = np.where(enough, own_level, main_level)
    return np.where(levels == level[:, None], values, np.nan)


def _keep_at_level(own: Floats, values: Floats, choices: Ints) -> Floats:
    """Keep the values of each row that are at the level of its own number."""
    levels = label_levels_of_hosts(np.column_stack([own, values]), choices)
    return np.where(levels[:, 1:] == levels[:, :1], values, np.nan)


def find_first_below(logs: Floats, threshold: float) -> Ints:
    """Return the place of the first of the last runs that are all slower than the runs
    before them let expect; the count of runs if there are not two such runs.

    logs: a row per number, a column per run. threshold: as of `judge_numbers`.
    """
    count = logs.shape[1]
    first = np.full(len(logs), count)
    is_measured = ~np.isnan(logs)
    rest = np.where(is_measured, logs, np.inf)
    fastest = np.minimum.accumulate(rest[:, ::-1], axis=1)[:, ::-1]
    before = np.cumsum(is_measured, axis=1) - is_measured
    sums = np.cumsum(np.nan_to_num(logs), axis=1) - np.nan_to_num(logs)
    means = sums / np.maximum(before, 1)
    is_apart = (fastest - means > np.log1p(threshold)) & np.isfinite(fastest)
    is_possible = is_apart & (before >= MIN_VALUES) & is_measured
    for place in np.flatnonzero(is_possible[:, :-1].any(axis=0)):
        enough = before[:, place] >= MIN_VALUES
        mean, error, freedom = predict_next(logs[enough, :place])
        off = np.where(
            np.isfinite(fastest[enough, place]), fastest[enough, place], mean
        )
        p = judge.apply_student(off - mean, error, freedom)[2]
        is_below = np.zeros(len(logs), dtype=bool)
        is_below[enough] = judge.control_false_discovery(p) < judge.ALPHA
        is_first = is_below & is_possible[:, place] & (first == count)
        first[is_first] = place
    return first


@dataclass(slots=True)
class _Expected:
    """What is expected of the last run of a machine, by source. machine: its place.
    measured: the places of the numbers that the run has. own: its numbers, logarithms.
    """

    machine: int
    measured: Ints
    own: Floats
    parts: list[dict[str, Any]] = field(default_factory=list)

    def list_open(self) -> Ints:
        """Return the places of the numbers for which nothing was added yet."""
        told = [part["number"] for part in self.parts]
        return np.setdiff1d(self.measured, np.concatenate([*told, self.measured[:0]]))

    def add_ranges(
        self,
        ranges: Sequence[ExpectedRange],
        run: Mapping[str, Any],
        keys: Sequence[tuple[str, str, str]],
        descriptions: Descriptions,
    ) -> None:
        """Add the first range that applies to each number."""
        for number in self.measured if ranges else ():
            key = keys[number]
            matching = (expected for expected in ranges if expected.matches(run, *key))
            if expected := next(matching, None):
                rates = is_rate(descriptions[key[0]])
                low, high = expected.limits_ns(is_rate=rates)
                limits = {"low": np.array([low]), "high": np.array([high])}
                self._add_part(np.array([number]), expected.source, **limits)

    def add(
        self,
        logs: Floats,
        noun: str,
        numbers: Ints,
        minimum: int = MIN_VALUES,
        changes: _Earlier | None = None,
    ) -> None:
        """Add what these runs, machines or tables let expect of those of `numbers` that
        `minimum` of them have. logs: a row per number of the table.
        """
        counts = (~np.isnan(logs)).sum(axis=1)
        chosen = numbers[counts[numbers] >= minimum]
        enough = chosen[counts[chosen] >= MIN_VALUES]
        predicted = np.full((3, len(logs)), np.nan)
        if len(enough):
            predicted[:, enough] = predict_next(logs[enough])
        slower = (logs > self.own[:, None]).sum(axis=1)
        columns = dict(zip(_PREDICTED, predicted[:, chosen], strict=True))
        columns["count"] = counts[chosen].astype(float)
        columns["beaten"] = slower[chosen].astype(float)
        if changes is not None:
            columns["since"] = np.array(changes.since, dtype=object)[chosen]
            columns["ratio"] = changes.ratio[chosen]
        self._add_part(chosen, f"{noun}s", **columns)

    def add_unknown(self) -> None:
        """Add the numbers of which nothing is expected."""
        self._add_part(self.list_open(), "")

    def _add_part(self, numbers: Ints, source: str, **columns: Any) -> None:
        if len(numbers):
            about = {"machine": self.machine, "source": source, "number": numbers}
            self.parts.append({**about, "log": self.own[numbers], **columns})


def _join_parts(parts: Sequence[dict[str, Any]], table: RunTable) -> pd.DataFrame:
    """Return a row per machine, number and expectation, as `judge_numbers` takes."""
    if not parts:
        raise UsageError(f"{NOTHING}; `fleet runs` lists what each run has.")
    counts = [len(part["number"]) for part in parts]
    numbers = np.concatenate([part["number"] for part in parts])
    keys = np.array(table.keys, dtype=object)[numbers]
    rows = pd.DataFrame(keys, columns=CLASS)
    rows["ns"] = np.exp(np.concatenate([part["log"] for part in parts]))
    for name in ("source", "machine"):
        rows[name] = np.repeat([part[name] for part in parts], counts)
    unknown = [np.full(count, np.nan) for count in counts]
    for name in ("low", "high", *_PREDICTED, "count", "beaten", "since", "ratio"):
        given = [
            part.get(name, none) for part, none in zip(parts, unknown, strict=True)
        ]
        rows[name] = np.concatenate(given)
    rows["since"] = rows["since"].astype(object).where(rows["since"].notna(), None)
    return rows


@dataclass(frozen=True, slots=True)
class _EqualMachines:
    """The last runs of all machines that equal a judged one. rows: of the table `runs`,
    by run ID, with `facts`. groups: by facts, the hosts, and the numbers of their last
    runs as logarithms, NaN where a machine is odd.
    """

    rows: Mapping[str, dict[str, Any]]
    groups: Mapping[str, tuple[Any, Floats]]
    table: RunTable

    @classmethod
    def read(
        cls,
        listing: Listing,
        judged: Sequence[RunSummary],
        last_runs: Sequence[RunSummary],
        table: RunTable,
    ) -> "_EqualMachines":
        ids = {run.run_id for run in [*judged, *last_runs]}
        runs, cpus = load_runs_and_cpus(listing, run_id=ids)
        runs = runs.assign(facts=join_equal_facts(runs, cpus))
        rows = {row["run_id"]: row for row in to_records(runs)}
        members = defaultdict[str, list[str]](list)
        for run in last_runs:
            if run.run_id in rows and run.run_id in table.columns:
                members[rows[run.run_id]["facts"]].append(run.run_id)
        groups = {}
        for facts, run_ids in members.items():
            logs = table.select(run_ids)
            if all(rows[run_id]["hypervisor"] is None for run_id in run_ids):
                logs = leave_out_odd(logs)
            hosts = [rows[run_id]["host_id"] for run_id in run_ids]
            groups[facts] = (np.array(hosts, dtype=object), logs)
        return cls(rows, groups, table)

    def select(self, run: Mapping[str, Any]) -> Floats:
        """Return the numbers of the other machines that equal that of a run."""
        nothing = (np.empty(0, dtype=object), self.table.logs[:, :0])
        hosts, logs = self.groups.get(run["facts"], nothing)
        values = logs[:, hosts != run["host_id"]]
        if run["hypervisor"] is not None:
            own = self.table.select([run["run_id"]])[:, 0]
            values = _keep_at_level(own, values, self.table.choices)
            values = leave_out_odd(values)
        return values


@dataclass(frozen=True, slots=True)
class _Sources:
    """What numbers are held against: ranges, earlier runs, equal machines, tables.

    facts: of runs, by run ID. tabulate_summaries: returns the tables of a CPU model as
    logarithms. threshold, accepts_changes: as of `judge_last_runs`.
    """

    table: RunTable
    facts: Mapping[str, RunRecord]
    ranges: Sequence[ExpectedRange]
    equals: _EqualMachines
    tabulate_summaries: Callable[[str], Floats]
    descriptions: Descriptions
    threshold: float
    accepts_changes: bool

    def expect(self, machine: int, runs: Sequence[RunSummary]) -> _Expected:
        """Return what is expected of the last of a machine's comparable runs."""
        run = self.equals.rows[runs[-1].run_id]
        own = self.table.select([run["run_id"]])[:, 0]
        measured = np.flatnonzero(~np.isnan(own))
        expected = _Expected(machine, measured, own)
        expected.add_ranges(self.ranges, run, self.table.keys, self.descriptions)
        without_range = expected.list_open()
        earlier = _choose_earlier(
            self.table, runs, self.facts, self.threshold, self.accepts_changes
        )
        expected.add(earlier.logs, "earlier run", without_range, changes=earlier)
        expected.add(self.equals.select(run), MACHINE, without_range)
        still_open = expected.list_open()
        if len(still_open) and run["cpu_model"]:
            summaries = self.tabulate_summaries(run["cpu_model"])
            if run["hypervisor"] is not None:
                summaries = _keep_at_level(own, summaries, self.table.choices)
            expected.add(summaries, TABLE, still_open, minimum=1)
        expected.add_unknown()
        return expected


def leave_out_odd(logs: Floats) -> Floats:
    """Replace by NaN the numbers in which a machine is odd, as --siblings finds them.
    logs: a row per number, a column per machine.
    """
    if not logs.shape[1]:
        return logs
    are_odd = measure_distances(logs, THRESHOLD).are_odd(THRESHOLD)
    return np.where(are_odd, np.nan, logs)


def _tabulate_summaries(
    load_tables: Callable[[str], pd.DataFrame] | None,
    keys: Sequence[tuple[str, str, str]],
    cpu_model: str,
) -> Floats:
    """Return the medians of a CPU model's tables as logarithms, a row per key."""
    if load_tables is None:
        return np.empty((len(keys), 0))
    medians = load_tables(cpu_model).set_index(["summary", *CLASS])["median_ns"]
    index = pd.MultiIndex.from_tuples(keys, names=CLASS)
    table = medians.unstack("summary").reindex(index)
    logs: Floats = np.log(table.to_numpy(dtype=float))
    return logs


def _make_acceptance(
    machine: _Machine,
    run: Mapping[str, Any],
    rows: pd.DataFrame,
    descriptions: Descriptions,
) -> Acceptance:
    bursts = run.get("bursts") or 1
    failed = run.get("failed_bursts") or 0
    flagged = run.get("flagged_bursts") or 0
    return Acceptance(
        machine.host,
        machine.last_id,
        run.get("cpu_model"),
        rows.reset_index(drop=True),
        descriptions,
        failed / (bursts + failed),
        flagged / bursts,
        older=tuple(machine.older),
        empty=machine.empty,
    )


def predict_next(logs: Floats) -> tuple[Floats, Floats, Floats]:
    """Predict one more value of each row, ignoring NaN; return means, standard errors,
    degrees of freedom.
    """
    counts = (~np.isnan(logs)).sum(axis=1)
    centre = judge.compute_nanmean(logs, axis=1)
    squares = np.nansum((logs - centre[:, None]) ** 2, axis=1)
    variances = np.maximum(squares / (counts - 1), judge.ROUNDING)
    variances, freedom = judge.moderate_variances(variances, counts - 1.0)
    return centre, np.sqrt(variances * (1 + 1 / counts)), freedom


def judge_numbers(rows: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Add the range expected, p, q (corrected over all rows) and the outcome.

    rows: with CLASS, `run_id`, `ns`, `source`, and either `low` and `high`, or `mean`,
    `error` and `freedom` from `predict_next`; with NaN in all of them the outcome is
    CANNOT_TELL.
    """
    names = _PREDICTED
    centre, error, freedom = rows.reindex(columns=[*names]).to_numpy(dtype=float).T
    off = np.log(rows["ns"].to_numpy()) - centre
    _, _, p = judge.apply_student(off, error, freedom)
    half = judge.apply_student(np.zeros_like(error), error, freedom)[1]
    is_predicted = ~np.isnan(centre)
    low = np.where(is_predicted, np.exp(centre - half), rows["low"])
    high = np.where(is_predicted, np.exp(centre + half), rows["high"])
    q = judge.control_false_discovery(p)
    matters = (np.abs(off) > np.log1p(threshold)) & (q < judge.ALPHA)
    slower = np.where(is_predicted, matters & (off > 0), rows["ns"] > high)
    faster = np.where(is_predicted, matters & (off < 0), rows["ns"] < low)
    cases = [np.isnan(low) & np.isnan(high), slower.astype(bool), faster.astype(bool)]
    named = [Outcome.CANNOT_TELL, Outcome.BELOW, Outcome.ABOVE]
    outcomes = np.select(cases, named, Outcome.AS_EXPECTED)
    judged = rows.assign(low=low, high=high, p=p, q=q, outcome=outcomes)
    return judged.drop(columns=[name for name in names if name in judged])

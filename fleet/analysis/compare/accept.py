"""Compare each machine's last run with the numbers expected of it
(docs/comparing.md).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.base.text import is_rate, to_records
from fleet.analysis.compare import judge
from fleet.analysis.compare.baseline import (
    HostRuns,
    RunTable,
    find_nights,
    lay_out_hosts,
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

# columns of what is expected; not every source has all
_COLUMNS_OF_SOME = (
    *("low", "high"),
    *("mean", "error", "freedom"),
    *("count", "beaten", "since", "ratio"),
)
DISTURBED = 0.5  # from this share of its bursts on, a run measured other work too


class Outcome(StrEnum):
    """How a number compares with what is expected of it."""

    AS_EXPECTED = "as expected"
    SLOWER = "slower"
    LESS = "less"  # of what is shown as a rate
    FASTER = "faster"  # other settings?
    MORE = "more"
    CANNOT_TELL = "cannot tell"

    @property
    def is_worse(self) -> bool:
        """Report whether a number is slower or less than expected."""
        return self in (Outcome.SLOWER, Outcome.LESS)

    @property
    def is_better(self) -> bool:
        """Report whether a number is faster or more than expected."""
        return self in (Outcome.FASTER, Outcome.MORE)


_WORST_FIRST = (
    *(Outcome.SLOWER, Outcome.LESS),
    *(Outcome.FASTER, Outcome.MORE),
    Outcome.AS_EXPECTED,
)


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
        """Return the first in `rows` of worse, better, AS_EXPECTED; CANNOT_TELL if
        none, or if disturbed.
        """
        if self.is_disturbed:
            return Outcome.CANNOT_TELL
        outcomes = set(self.rows["outcome"])
        for outcome in _WORST_FIRST:
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
    used = _list_used(listing, machines, last_runs)
    descriptions = merge_descriptions(used)
    numbers = select_numbers(listing, used, only, descriptions)
    if numbers.empty:
        raise UsageError(f"{NOTHING}; `fleet runs` lists what each run has.")
    facts = read_facts(listing, used)
    column = choose_shared_column(record.row for record in facts.values())
    table = tabulate_runs(numbers, column)
    equals = _EqualMachines.read(listing, machines, last_runs, table)
    matters = threshold or THRESHOLD
    sources = _Sources(
        table=table,
        ranges=ranges,
        equals=equals,
        tabulate_summaries=cache(partial(_tabulate_summaries, load_tables, table.keys)),
        descriptions=descriptions,
        threshold=matters,
        accepts_changes=accepts_changes,
    )
    parts = _expect_all(sources, machines, facts)
    expected = _join_parts(parts, table)
    rows = judge_numbers(expected, matters, descriptions.rates)
    acceptances = []
    for machine, own_rows in zip(
        machines, _split_by_machine(rows, len(machines)), strict=True
    ):
        run = equals.rows.get(machine.last_id, {})
        acceptances.append(_make_acceptance(machine, run, own_rows, descriptions))
    return acceptances


def _split_by_machine(rows: pd.DataFrame, count: int) -> list[pd.DataFrame]:
    """Return the rows of each of `count` machines, without the column `machine`, by
    which they are sorted.
    """
    owners = rows.pop("machine").to_numpy()
    ends = np.searchsorted(owners, np.arange(count + 1))
    return [rows.iloc[first:end] for first, end in pairwise(ends)]


def _list_used(
    listing: Listing, machines: Sequence["_Machine"], last_runs: Sequence[RunSummary]
) -> list[RunSummary]:
    """List the runs whose numbers are compared, oldest first."""
    run_ids = {run.run_id for run in last_runs}
    for machine in machines:
        run_ids.update(run.run_id for run in machine.runs)
    return [run for run in listing.runs if run.run_id in run_ids]


def _expect_all(
    sources: "_Sources", machines: Sequence["_Machine"], facts: Mapping[str, RunRecord]
) -> list[dict[str, Any]]:
    """Return what is expected of each machine whose judged run can be read. facts: by
    run ID.
    """
    nights = dict[str, date]()
    for machine in machines:
        nights.update(find_nights(machine.runs))
    runs_of_hosts = [machine.runs for machine in machines]
    hosts = lay_out_hosts(sources.table, runs_of_hosts, nights, facts)
    parts = []
    for place, (machine, host) in enumerate(zip(machines, hosts, strict=True)):
        has_judged_run = host.runs and host.runs[-1] == machine.runs[-1]
        if has_judged_run:
            parts += sources.expect(place, host).parts
    return parts


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
    selected = select_runs(listing.runs, texts, listing)
    filter_runs(listing, selected, benchmark)  # raises an error if no run has it
    all_runs = group_by_host(listing.runs)
    machines = []
    for host, runs in group_by_host(selected).items():
        machines.append(_make_machine(listing, runs, all_runs[host], benchmark))
    return machines


def _make_machine(
    listing: Listing,
    selected: Sequence[RunSummary],
    runs: Sequence[RunSummary],
    benchmark: str | None,
) -> _Machine:
    """Choose which run of a host to judge. selected: among its runs."""
    comparable = keep_comparable_with_last(listing, selected, benchmark)
    newest = selected[-1]
    if not comparable or not comparable[-1].samples:
        return _Machine(newest.host_id, [], newest.run_id, [], newest.run_id)
    last = comparable[-1]
    until_last = runs[: runs.index(last) + 1]
    after_last = selected[selected.index(last) + 1 :]
    empty = [run.run_id for run in after_last if not run.samples]
    return _Machine(
        host=newest.host_id,
        runs=keep_comparable_with_last(listing, until_last, benchmark),
        last_id=last.run_id,
        older=_list_older(last, selected, benchmark),
        empty=empty[-1] if empty else None,
    )


def _list_older(
    last: RunSummary, runs: Sequence[RunSummary], benchmark: str | None
) -> list[str]:
    """List the benchmarks that earlier runs of a host have and its last run lacks."""
    choices = list[str]()
    for run in runs:
        if run.samples:
            choices += run.benchmarks
    choices = list(dict.fromkeys(choices))
    if benchmark is not None:
        choices = list(select_choices(benchmark, choices))
    benchmarks_of_last = _name_benchmarks(last.benchmarks)
    names = _name_benchmarks(choices)
    return [name for name in names if name not in benchmarks_of_last]


def _name_benchmarks(choices: Iterable[str]) -> list[str]:
    """Return the benchmarks of choices, BENCHMARK/VARIANT, each once."""
    return list(dict.fromkeys(choice.partition("/")[0] for choice in choices))


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
    host: HostRuns, threshold: float, accepts_changes: bool
) -> _Earlier:
    """Choose the runs before a change that nobody accepted; if `accepts_changes`, those
    since. host: its last run is judged.
    """
    count = len(host.runs)
    logs = host.logs
    switches_levels = host.are_virtual[-1]
    if switches_levels:
        level_of_last_run = host.levels[:, -1:]
        logs = np.where(host.levels == level_of_last_run, logs, np.nan)
    begin = host.find_accepted()
    proved = host.find_open_changes()
    # the last runs may suggest a change that is not proved; `count` stands for none
    first_slower = begin + find_first_slower(logs[:, begin:], threshold)
    first_changed = np.where(proved.first < count, proved.first, first_slower)
    is_expected = _choose_places(first_changed, begin, count, accepts_changes)
    values = np.where(is_expected, logs, np.nan)
    if not switches_levels:
        values = _keep_own_or_main_level(values, host.levels)
    is_empty = np.isnan(values).all(axis=0)
    since = [host.nights[place] if place < count else None for place in first_changed]
    return _Earlier(values[:, ~is_empty], since, proved.ratio)


def _choose_places(first: Ints, begin: int, count: int, accepts_changes: bool) -> Bools:
    """Choose the runs from which each number is expected: numbers x runs. first: the
    first run after a change of each number, `count` without one. begin: the first run
    of the baseline.
    """
    place = np.arange(count)
    judged = count - 1  # the last run, of which nothing is expected by itself
    end = np.minimum(first, judged)[:, None]
    is_before_change = (place >= begin) & (place < end)
    if not accepts_changes:
        return is_before_change
    has_changed = (first < count)[:, None]
    is_since_change = place >= first[:, None]
    return np.where(has_changed, is_since_change, is_before_change)


def _keep_own_or_main_level(values: Floats, levels: Ints) -> Floats:
    """Keep the values at the level of the last run if they are enough for a range, else
    those at their main level.
    """
    is_measured = ~np.isnan(values)
    own_level = levels[:, -1]
    is_at_own = is_measured & (levels == own_level[:, None])
    has_enough = is_at_own.sum(axis=1) >= MIN_VALUES
    main_level = find_main_levels(np.where(is_measured, levels, -1))
    level = np.where(has_enough, own_level, main_level)
    return np.where(levels == level[:, None], values, np.nan)


def _keep_at_level(own: Floats, values: Floats, choices: Ints) -> Floats:
    """Keep the values of each row that are at the level of its own number."""
    levels = label_levels_of_hosts(np.column_stack([own, values]), choices)
    level_of_own = levels[:, :1]
    levels_of_values = levels[:, 1:]
    return np.where(levels_of_values == level_of_own, values, np.nan)


def find_first_slower(logs: Floats, threshold: float) -> Ints:
    """Return the place of the first of the last runs that are all slower than the runs
    before them let expect; the count of runs if there are not two such runs.

    logs: a row per number, a column per run. threshold: as of `judge_numbers`.
    """
    count = logs.shape[1]
    first = np.full(len(logs), count)
    fastest = _find_fastest_from_each_on(logs)
    is_possible = _may_be_first_slower(logs, fastest, threshold)
    # the last run alone would not be two
    is_possible_anywhere = is_possible[:, :-1].any(axis=0)
    for place in np.flatnonzero(is_possible_anywhere).tolist():
        is_slower = _are_slower_than_before(logs, place, fastest[:, place])
        has_none_yet = first == count
        first[is_slower & is_possible[:, place] & has_none_yet] = place
    return first


def _find_fastest_from_each_on(logs: Floats) -> Floats:
    """Return the least of each run and those after it, infinite if none is measured."""
    values = np.where(np.isnan(logs), np.inf, logs)
    last_first = values[:, ::-1]
    fastest_so_far = np.minimum.accumulate(last_first, axis=1)
    return fastest_so_far[:, ::-1]


def _may_be_first_slower(logs: Floats, fastest: Floats, threshold: float) -> Bools:
    """Report which runs, with all after them, are slower than the mean of those before
    by more than the threshold. fastest: of each run and those after it.
    """
    is_measured = ~np.isnan(logs)
    # cumulative counts and sums without the run itself
    runs_before = np.cumsum(is_measured, axis=1) - is_measured
    numbers = np.nan_to_num(logs)
    sums_before = np.cumsum(numbers, axis=1) - numbers
    means_before = sums_before / np.maximum(runs_before, 1)
    is_slower = fastest - means_before > np.log1p(threshold)
    has_enough = runs_before >= MIN_VALUES
    is_possible: Bools = is_measured & has_enough & is_slower & np.isfinite(fastest)
    return is_possible


def _are_slower_than_before(logs: Floats, place: int, fastest: Floats) -> Bools:
    """Report for which numbers the fastest of a run and those after it is below what
    the runs before it let expect.
    """
    before = logs[:, :place]
    has_enough = _count_values(before) >= MIN_VALUES
    prediction = predict_next(before[has_enough])
    tested = fastest[has_enough]
    deviation = np.where(np.isfinite(tested), tested - prediction.mean, 0.0)
    p = prediction.test(deviation)
    is_below = np.zeros(len(logs), dtype=bool)
    is_below[has_enough] = judge.control_false_discovery(p) < judge.ALPHA
    return is_below


def _count_values(logs: Floats) -> Ints:
    """Count the values of each row that are not NaN."""
    return np.asarray((~np.isnan(logs)).sum(axis=1))


class Prediction(NamedTuple):
    """One more value of each row: its mean, standard error and degrees of freedom."""

    mean: Floats
    error: Floats
    freedom: Floats

    def test(self, deviation: Floats) -> Floats:
        """Return p of a deviation of each value from its mean."""
        _, _, p = judge.apply_student(deviation, self.error, self.freedom)
        return p

    def compute_range_ns(self) -> tuple[Floats, Floats]:
        """Return the low and the high end of each value's 95 % interval, in ns."""
        no_deviation = np.zeros_like(self.error)
        below_mean, above_mean, _ = judge.apply_student(
            no_deviation, self.error, self.freedom
        )
        return np.exp(self.mean + below_mean), np.exp(self.mean + above_mean)


def predict_next(logs: Floats) -> Prediction:
    """Predict one more value of each row from the others, ignoring NaN."""
    counts = _count_values(logs)
    mean = judge.compute_nanmean(logs, axis=1)
    squares = np.nansum((logs - mean[:, None]) ** 2, axis=1)
    own_freedom = counts.astype(np.float64) - 1
    own_variances = np.maximum(squares / own_freedom, judge.ROUNDING)
    variances, freedom = judge.moderate_variances(own_variances, own_freedom)
    # the next value scatters by itself, and around a mean that is not known exactly
    error = np.sqrt(variances * (1 + 1 / counts))
    return Prediction(mean, error, freedom)


def judge_numbers(
    rows: pd.DataFrame, threshold: float, rates: Collection[str] = ()
) -> pd.DataFrame:
    """Add the range expected, p, q (corrected over all rows) and the outcome.

    rows: with CLASS, `run_id`, `ns`, `source`, and either `low` and `high`, or `mean`,
    `error` and `freedom` from `predict_next`; with NaN in all of them the outcome is
    CANNOT_TELL. rates: benchmarks whose numbers are less or more, not slower or faster.
    """
    predicted = rows.reindex(columns=list(Prediction._fields))
    prediction = Prediction(*predicted.to_numpy(dtype=float).T)
    ns = rows["ns"].to_numpy()
    deviation = np.log(ns) - prediction.mean
    p = prediction.test(deviation)
    q = judge.control_false_discovery(p)
    is_proved = (np.abs(deviation) > np.log1p(threshold)) & (q < judge.ALPHA)
    # the others have a range set by hand, or nothing is expected of them
    is_predicted = ~np.isnan(prediction.mean)
    low, high = prediction.compute_range_ns()
    low = np.where(is_predicted, low, rows["low"])
    high = np.where(is_predicted, high, rows["high"])
    is_slower = np.where(is_predicted, is_proved & (deviation > 0), ns > high)
    is_faster = np.where(is_predicted, is_proved & (deviation < 0), ns < low)
    judged = rows.assign(p=p, q=q, low=low, high=high)
    judged["outcome"] = _name_outcomes(judged, is_slower, is_faster, rates)
    return judged.drop(columns=list(Prediction._fields), errors="ignore")


def _name_outcomes(
    judged: pd.DataFrame, is_slower: Bools, is_faster: Bools, rates: Collection[str]
) -> Any:
    """Return the outcome of each row, in words for times or, of `rates`, for rates."""
    is_unknown = judged["low"].isna() & judged["high"].isna()
    are_rates = judged["benchmark"].isin(rates)
    slower = np.where(are_rates, Outcome.LESS, Outcome.SLOWER)
    faster = np.where(are_rates, Outcome.MORE, Outcome.FASTER)
    return np.select(
        [is_unknown, is_slower, is_faster],
        [Outcome.CANNOT_TELL, slower, faster],
        Outcome.AS_EXPECTED,
    )


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
        is_open = np.isin(np.arange(len(self.own)), self.measured)
        for part in self.parts:
            is_open[part["number"]] = False
        return np.flatnonzero(is_open)

    def add_ranges(
        self,
        ranges: Sequence[ExpectedRange],
        run: Mapping[str, Any],
        keys: Sequence[tuple[str, str, str]],
        descriptions: Descriptions,
    ) -> None:
        """Add the first range that applies to each number."""
        if not ranges:
            return
        for number in self.measured:
            first = _find_first_match(ranges, run, keys[number])
            if first is None:
                continue
            benchmark, _, _ = keys[number]
            low, high = first.limits_ns(is_rate=is_rate(descriptions[benchmark]))
            self._add_part(
                np.array([number]),
                first.source,
                low=np.array([low]),
                high=np.array([high]),
            )

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
        counts = _count_values(logs)
        has_enough = counts[numbers] >= minimum
        places = numbers[has_enough]
        if not len(places):
            return
        others = logs[places]
        columns = _predict_where_enough(others)
        columns["count"] = counts[places].astype(float)
        slower = (others > self.own[places, None]).sum(axis=1)
        columns["beaten"] = slower.astype(float)
        if changes is not None:
            columns["since"] = np.array(changes.since, dtype=object)[places]
            columns["ratio"] = changes.ratio[places]
        self._add_part(places, f"{noun}s", **columns)

    def add_unknown(self) -> None:
        """Add the numbers of which nothing is expected."""
        self._add_part(self.list_open(), "")

    def _add_part(self, numbers: Ints, source: str, **columns: Any) -> None:
        """Add columns of these numbers; `machine` and `source` are of all of them."""
        if not len(numbers):
            return
        part = {
            "machine": self.machine,
            "source": source,
            "number": numbers,
            "log": self.own[numbers],
            **columns,
        }
        self.parts.append(part)


def _find_first_match(
    ranges: Sequence[ExpectedRange], run: Mapping[str, Any], key: tuple[str, str, str]
) -> ExpectedRange | None:
    """Find the first range that is about a number of a run."""
    for own in ranges:
        if own.matches(run, *key):
            return own
    return None


def _predict_where_enough(logs: Floats) -> dict[str, Any]:
    """Return the columns of `Prediction`, NaN for rows with fewer than three values."""
    has_enough = _count_values(logs) >= MIN_VALUES
    prediction = predict_next(logs[has_enough])
    columns = {}
    for name, values in prediction._asdict().items():
        columns[name] = np.full(len(logs), np.nan)
        columns[name][has_enough] = values
    return columns


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
    for name in _COLUMNS_OF_SOME:
        rows[name] = _join_column(parts, name)
    since = rows["since"].astype(object)
    rows["since"] = since.where(since.notna(), None)
    return rows


def _join_column(parts: Sequence[dict[str, Any]], name: str) -> Any:
    """Join a column of all parts, NaN where a part lacks it."""
    values = []
    for part in parts:
        unknown = np.full(len(part["number"]), np.nan)
        values.append(part.get(name, unknown))
    return np.concatenate(values)


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
        machines: Sequence[_Machine],
        last_runs: Sequence[RunSummary],
        table: RunTable,
    ) -> "_EqualMachines":
        """Read the last runs, and the facts of these and of the judged ones."""
        judged = [machine.runs[-1] for machine in machines if machine.runs]
        run_ids = {run.run_id for run in [*judged, *last_runs]}
        runs, cpus = load_runs_and_cpus(listing, run_id=run_ids)
        runs = runs.assign(facts=join_equal_facts(runs, cpus))
        rows = {row["run_id"]: row for row in to_records(runs)}
        rows_by_facts = defaultdict[str, list[dict[str, Any]]](list)
        for run in last_runs:
            if run.run_id in rows and run.run_id in table.columns:
                row = rows[run.run_id]
                rows_by_facts[row["facts"]].append(row)
        groups = {}
        for facts, rows_of_group in rows_by_facts.items():
            hosts = [row["host_id"] for row in rows_of_group]
            logs = _select_usual(rows_of_group, table)
            groups[facts] = (np.array(hosts, dtype=object), logs)
        return cls(rows, groups, table)

    def select(self, run: Mapping[str, Any]) -> Floats:
        """Return the numbers of the other machines that equal that of a run."""
        no_group = (np.empty(0, dtype=object), self.table.logs[:, :0])
        hosts, logs = self.groups.get(run["facts"], no_group)
        is_other = hosts != run["host_id"]
        values = logs[:, is_other]
        if run["hypervisor"] is None:
            return values
        (own,) = self.table.select([run["run_id"]]).T
        at_own_level = _keep_at_level(own, values, self.table.choices)
        return leave_out_odd(at_own_level)


def _select_usual(runs: Sequence[Mapping[str, Any]], table: RunTable) -> Floats:
    """Return the numbers of equal machines, NaN where one is odd. runs: of each."""
    logs = table.select(run["run_id"] for run in runs)
    # virtual ones may be at different levels; `select` looks at one level
    if any(run["hypervisor"] is not None for run in runs):
        return logs
    return leave_out_odd(logs)


@dataclass(frozen=True, slots=True)
class _Sources:
    """What numbers are held against: ranges, earlier runs, equal machines, tables.

    tabulate_summaries: returns the tables of a CPU model as logarithms. threshold,
    accepts_changes: as of `judge_last_runs`.
    """

    table: RunTable
    ranges: Sequence[ExpectedRange]
    equals: _EqualMachines
    tabulate_summaries: Callable[[str], Floats]
    descriptions: Descriptions
    threshold: float
    accepts_changes: bool

    def expect(self, machine: int, host: HostRuns) -> _Expected:
        """Return what is expected of the last of a machine's comparable runs."""
        run = self.equals.rows[host.runs[-1].run_id]
        own = host.logs[:, -1]
        measured = np.flatnonzero(~np.isnan(own))
        expected = _Expected(machine, measured, own)
        expected.add_ranges(self.ranges, run, self.table.keys, self.descriptions)
        without_range = expected.list_open()
        earlier = _choose_earlier(host, self.threshold, self.accepts_changes)
        expected.add(earlier.logs, "earlier run", without_range, changes=earlier)
        expected.add(self.equals.select(run), MACHINE, without_range)
        still_open = expected.list_open()
        if len(still_open) and run["cpu_model"]:
            summaries = self._select_summaries(run, own)
            expected.add(summaries, TABLE, still_open, minimum=1)
        expected.add_unknown()
        return expected

    def _select_summaries(self, run: Mapping[str, Any], own: Floats) -> Floats:
        """Return the tables of the CPU model of a run, for a virtual machine only what
        is at the level of its own numbers.
        """
        summaries = self.tabulate_summaries(run["cpu_model"])
        if run["hypervisor"] is None:
            return summaries
        return _keep_at_level(own, summaries, self.table.choices)


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
    rows = load_tables(cpu_model).set_index(["summary", *CLASS])
    medians = rows["median_ns"].unstack("summary")
    index = pd.MultiIndex.from_tuples(keys, names=CLASS)
    table = medians.reindex(index)
    logs: Floats = np.log(table.to_numpy(dtype=float))
    return logs


def _make_acceptance(
    machine: _Machine,
    run: Mapping[str, Any],
    rows: pd.DataFrame,
    descriptions: Descriptions,
) -> Acceptance:
    # not 0, of which nothing is a share; failed bursts are no part of them
    bursts = run.get("bursts") or 1
    failed = run.get("failed_bursts") or 0
    flagged = run.get("flagged_bursts") or 0
    return Acceptance(
        host=machine.host,
        run_id=machine.last_id,
        cpu_model=run.get("cpu_model"),
        rows=rows.reset_index(drop=True),
        descriptions=descriptions,
        failed=failed / (bursts + failed),
        flagged=flagged / bursts,
        older=tuple(machine.older),
        empty=machine.empty,
    )

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
    runs = _list_compared_runs(listing, machines, last_runs)
    descriptions = merge_descriptions(runs)
    numbers = select_numbers(listing, runs, only, descriptions)
    if numbers.empty:
        raise UsageError(f"{NOTHING}; `fleet runs` lists what each run has.")
    facts = read_facts(listing, runs)
    column = choose_shared_column(record.row for record in facts.values())
    table = tabulate_runs(numbers, column)
    equals = _EqualMachines.read(listing, machines, last_runs, table)
    matters = threshold or THRESHOLD
    tabulate_summaries = partial(_tabulate_summaries, load_tables, table.keys)
    sources = _Sources(
        table=table,
        ranges=ranges,
        equals=equals,
        tabulate_summaries=cache(tabulate_summaries),
        descriptions=descriptions,
        threshold=matters,
        accepts_changes=accepts_changes,
    )
    parts = _expect_all(sources, machines, facts)
    expected = _join_parts(parts, table)
    rows = judge_numbers(expected, matters, descriptions.rates)
    return _make_acceptances(machines, rows, equals, descriptions)


def _make_acceptances(
    machines: Sequence["_Machine"],
    rows: pd.DataFrame,
    equals: "_EqualMachines",
    descriptions: Descriptions,
) -> list[Acceptance]:
    """Return the acceptance of each machine. rows: judged numbers of all machines."""
    rows_of_each = _split_by_machine(rows, len(machines))
    acceptances = []
    for machine, own_rows in zip(machines, rows_of_each, strict=True):
        run = equals.rows.get(machine.last_id, {})
        acceptance = _make_acceptance(machine, run, own_rows, descriptions)
        acceptances.append(acceptance)
    return acceptances


def _split_by_machine(rows: pd.DataFrame, count: int) -> list[pd.DataFrame]:
    """Return the rows of each of `count` machines, without the column `machine`, by
    which they are sorted.
    """
    machine_of_row = rows.pop("machine").to_numpy()
    # where the rows of each machine begin, and where those of the last end
    edges = np.searchsorted(machine_of_row, np.arange(count + 1))
    parts = []
    for first, end in pairwise(edges):
        parts.append(rows.iloc[first:end])
    return parts


def _list_compared_runs(
    listing: Listing, machines: Sequence["_Machine"], last_runs: Sequence[RunSummary]
) -> list[RunSummary]:
    """List the runs whose numbers are compared, oldest first."""
    run_ids = {run.run_id for run in last_runs}
    for machine in machines:
        for run in machine.runs:
            run_ids.add(run.run_id)
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
    for number, host in enumerate(hosts):
        if _has_judged_run(host, machines[number]):
            expected = sources.expect(number, host)
            parts += expected.parts
    return parts


def _has_judged_run(host: HostRuns, machine: "_Machine") -> bool:
    """Report whether the judged run of a machine has numbers. host: its runs that have
    some.
    """
    if not host.runs:
        return False
    return host.runs[-1] == machine.runs[-1]


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
        return _Machine(
            host=newest.host_id,
            runs=[],
            last_id=newest.run_id,
            older=[],
            empty=newest.run_id,
        )
    last = comparable[-1]
    place_of_last = runs.index(last)
    until_last = runs[: place_of_last + 1]
    return _Machine(
        host=newest.host_id,
        runs=keep_comparable_with_last(listing, until_last, benchmark),
        last_id=last.run_id,
        older=_list_older(last, selected, benchmark),
        empty=_find_empty_after(last, selected),
    )


def _find_empty_after(last: RunSummary, runs: Sequence[RunSummary]) -> str | None:
    """Return the ID of the newest run without samples after the judged one, or None."""
    place_of_last = runs.index(last)
    for run in reversed(runs[place_of_last + 1 :]):
        if not run.samples:
            return run.run_id
    return None


def _list_older(
    last: RunSummary, runs: Sequence[RunSummary], benchmark: str | None
) -> list[str]:
    """List the benchmarks that earlier runs of a host have and its last run lacks."""
    choices = dict[str, None]()  # in order, each once
    for run in runs:
        if run.samples:
            choices.update(dict.fromkeys(run.benchmarks))
    selected = list(choices)
    if benchmark is not None:
        selected = list(select_choices(benchmark, selected))
    benchmarks_of_last = _name_benchmarks(last.benchmarks)
    names = _name_benchmarks(selected)
    return [name for name in names if name not in benchmarks_of_last]


def _name_benchmarks(choices: Iterable[str]) -> list[str]:
    """Return the benchmarks of choices, BENCHMARK/VARIANT, each once."""
    names = dict[str, None]()
    for choice in choices:
        benchmark, _, _ = choice.partition("/")
        names[benchmark] = None
    return list(names)


def _select_last_runs(
    listing: Listing, machines: Sequence[_Machine], benchmark: str | None
) -> list[RunSummary]:
    """Select the last run of each host that may equal one of the machines."""
    models = {machine.runs[-1].cpu_model for machine in machines if machine.runs}
    models.discard(None)
    last_runs = []
    hosts = group_by_host(listing.runs)
    for runs in hosts.values():
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
    logs = _keep_level_of_last_run(host)
    begin = host.find_accepted()
    proved = host.find_open_changes()
    first_changed = _find_first_changed(logs, begin, proved.first, threshold)
    count = len(host.runs)
    is_expected = _choose_places(first_changed, begin, count, accepts_changes)
    values = np.where(is_expected, logs, np.nan)
    if not host.is_last_run_virtual:
        values = _keep_own_or_main_level(values, host.levels)
    is_empty = np.isnan(values).all(axis=0)
    return _Earlier(
        logs=values[:, ~is_empty],
        since=_list_nights(host, first_changed),
        ratio=proved.ratio,
    )


def _keep_level_of_last_run(host: HostRuns) -> Floats:
    """Return the numbers of a host; of one that may switch levels, only those at the
    level of its last run.
    """
    if not host.is_last_run_virtual:
        return host.logs
    level_of_last_run = host.levels[:, -1:]
    is_at_level = host.levels == level_of_last_run
    return np.where(is_at_level, host.logs, np.nan)


def _find_first_changed(
    logs: Floats, begin: int, first_proved: Ints, threshold: float
) -> Ints:
    """Return the first run after a change of each number, the count of runs if it did
    not change: the change is proved, or else the last runs suggest it.

    begin: the first run of the baseline. first_proved: the first run after a proved
    change.
    """
    count = logs.shape[1]
    baseline = logs[:, begin:]
    first_slower = begin + find_first_slower(baseline, threshold)
    is_proved = first_proved < count
    return np.where(is_proved, first_proved, first_slower)


def _list_nights(host: HostRuns, places: Ints) -> list[date | None]:
    """Return the nights of the runs at these places; None for a place after all."""
    nights = list[date | None]()
    for place in places:
        if place < len(host.runs):
            nights.append(host.nights[place])
        else:
            nights.append(None)
    return nights


def _choose_places(first: Ints, begin: int, count: int, accepts_changes: bool) -> Bools:
    """Choose the runs from which each number is expected: numbers x runs. first: the
    first run after a change of each number, `count` without one. begin: the first run
    of the baseline.
    """
    place = np.arange(count)
    last = count - 1  # the judged run, of which nothing is expected by itself
    first_of_each = first[:, None]
    end = np.minimum(first_of_each, last)
    is_before_change = (place >= begin) & (place < end)
    if not accepts_changes:
        return is_before_change
    has_changed = first_of_each < count
    is_since_change = place >= first_of_each
    return np.where(has_changed, is_since_change, is_before_change)


def _keep_own_or_main_level(values: Floats, levels: Ints) -> Floats:
    """Keep the values at the level of the last run if they are enough for a range, else
    those at their main level.
    """
    is_measured = ~np.isnan(values)
    own_level = levels[:, -1:]
    is_at_own = is_measured & (levels == own_level)
    has_enough = is_at_own.sum(axis=1, keepdims=True) >= MIN_VALUES
    measured_levels = np.where(is_measured, levels, -1)
    main_level = find_main_levels(measured_levels)[:, None]
    level = np.where(has_enough, own_level, main_level)
    is_at_level = levels == level
    return np.where(is_at_level, values, np.nan)


def _keep_at_level(own: Floats, values: Floats, choices: Ints) -> Floats:
    """Keep the values of each row that are at the level of its own number."""
    with_own = np.column_stack([own, values])
    levels = label_levels_of_hosts(with_own, choices)
    level_of_own = levels[:, :1]
    levels_of_values = levels[:, 1:]
    is_at_level = levels_of_values == level_of_own
    return np.where(is_at_level, values, np.nan)


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
    places = np.flatnonzero(is_possible_anywhere)
    for place in places.tolist():
        is_slower = _are_slower_than_before(logs, place, fastest[:, place])
        has_none_yet = first == count
        is_first = is_slower & is_possible[:, place] & has_none_yet
        first[is_first] = place
    return first


def _find_fastest_from_each_on(logs: Floats) -> Floats:
    """Return the least of each run and those after it, infinite if none is measured."""
    is_missing = np.isnan(logs)
    values = np.where(is_missing, np.inf, logs)
    newest_first = np.flip(values, axis=1)
    fastest_so_far = np.minimum.accumulate(newest_first, axis=1)
    return np.flip(fastest_so_far, axis=1)


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
    distances = fastest - means_before
    is_slower = distances > np.log1p(threshold)
    has_enough = runs_before >= MIN_VALUES
    is_known = is_measured & np.isfinite(fastest)
    is_possible: Bools = is_known & has_enough & is_slower
    return is_possible


def _are_slower_than_before(logs: Floats, place: int, fastest: Floats) -> Bools:
    """Report for which numbers the fastest of a run and those after it is below what
    the runs before it let expect.
    """
    before = logs[:, :place]
    has_enough = _count_values(before) >= MIN_VALUES
    prediction = predict_next(before[has_enough])
    tested = fastest[has_enough]
    distances = tested - prediction.mean
    # infinite where nothing was measured since
    deviation = np.where(np.isfinite(tested), distances, 0.0)
    p = prediction.test(deviation)
    q = judge.control_false_discovery(p)
    is_below = np.zeros(len(logs), dtype=bool)
    is_below[has_enough] = q < judge.ALPHA
    return is_below


def _count_values(logs: Floats) -> Ints:
    """Count the values of each row that are not NaN."""
    is_value = ~np.isnan(logs)
    return np.asarray(is_value.sum(axis=1))


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
        nothing = np.zeros_like(self.error)
        below, above, _ = judge.apply_student(nothing, self.error, self.freedom)
        low = self.mean + below
        high = self.mean + above
        return np.exp(low), np.exp(high)

    @classmethod
    def read(cls, rows: pd.DataFrame) -> "Prediction":
        """Read the predictions from columns of rows, NaN if there is no such column."""
        columns = rows.reindex(columns=list(cls._fields))
        mean, error, freedom = columns.to_numpy(dtype=float).T
        return cls(mean, error, freedom)


def predict_next(logs: Floats) -> Prediction:
    """Predict one more value of each row from the others, ignoring NaN."""
    counts = _count_values(logs)
    mean = judge.compute_nanmean(logs, axis=1)
    distances = logs - mean[:, None]
    squares = np.nansum(distances**2, axis=1)
    own_freedom = counts.astype(np.float64) - 1
    own_variances = np.maximum(squares / own_freedom, judge.ROUNDING)
    variances, freedom = judge.moderate_variances(own_variances, own_freedom)
    # the next value scatters by itself, and around a mean that is not known exactly
    scale = 1 + 1 / counts
    error = np.sqrt(variances * scale)
    return Prediction(mean, error, freedom)


def judge_numbers(
    rows: pd.DataFrame, threshold: float, rates: Collection[str] = ()
) -> pd.DataFrame:
    """Add the range expected, p, q (corrected over all rows) and the outcome.

    rows: with CLASS, `run_id`, `ns`, `source`, and either `low` and `high`, or `mean`,
    `error` and `freedom` from `predict_next`; with NaN in all of them the outcome is
    CANNOT_TELL. rates: benchmarks whose numbers are less or more, not slower or faster.
    """
    prediction = Prediction.read(rows)
    logs = np.log(rows["ns"].to_numpy())
    deviation = logs - prediction.mean
    p = prediction.test(deviation)
    q = judge.control_false_discovery(p)
    judged = rows.assign(p=p, q=q)
    low, high = prediction.compute_range_ns()
    # the others have a range set by hand, or nothing is expected of them
    is_predicted = ~np.isnan(prediction.mean)
    judged["low"] = np.where(is_predicted, low, rows["low"])
    judged["high"] = np.where(is_predicted, high, rows["high"])
    is_large = np.abs(deviation) > np.log1p(threshold)
    is_proved = is_large & (q < judge.ALPHA)
    judged["outcome"] = _name_outcomes(judged, deviation, is_proved, rates)
    return judged.drop(columns=list(Prediction._fields), errors="ignore")


def _name_outcomes(
    judged: pd.DataFrame, deviation: Floats, is_proved: Bools, rates: Collection[str]
) -> Any:
    """Return the outcome of each row, in words for times or, of `rates`, for rates.
    deviation: from the prediction; NaN: judged by the range. is_proved: whether it is
    significant and large.
    """
    ns = judged["ns"]
    is_predicted = ~np.isnan(deviation)
    is_proved_slower = is_proved & (deviation > 0)
    is_proved_faster = is_proved & (deviation < 0)
    is_slower = np.where(is_predicted, is_proved_slower, ns > judged["high"])
    is_faster = np.where(is_predicted, is_proved_faster, ns < judged["low"])
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
        is_open = np.zeros(len(self.own), dtype=bool)
        is_open[self.measured] = True
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
            key = keys[number]
            first = _find_first_match(ranges, run, key)
            if first is None:
                continue
            benchmark, _, _ = key
            shows_rate = is_rate(descriptions[benchmark])
            low, high = first.limits_ns(is_rate=shows_rate)
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
        own = self.own[places, None]
        is_slower = others > own
        columns = _predict_where_enough(others)
        columns["count"] = counts[places].astype(float)
        columns["beaten"] = is_slower.sum(axis=1).astype(float)
        if changes is not None:
            since = np.array(changes.since, dtype=object)
            columns["since"] = since[places]
            columns["ratio"] = changes.ratio[places]
        self._add_part(places, f"{noun}s", **columns)

    def add_unknown(self) -> None:
        """Add the numbers of which nothing is expected."""
        numbers = self.list_open()
        self._add_part(numbers, "")

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
    for expected in ranges:
        if expected.matches(run, *key):
            return expected
    return None


def _predict_where_enough(logs: Floats) -> dict[str, Any]:
    """Return the columns of `Prediction`, NaN for rows with fewer than three values."""
    has_enough = _count_values(logs) >= MIN_VALUES
    prediction = predict_next(logs[has_enough])
    columns = {}
    for name, values in prediction._asdict().items():
        column = np.full(len(logs), np.nan)
        column[has_enough] = values
        columns[name] = column
    return columns


def _join_parts(parts: Sequence[dict[str, Any]], table: RunTable) -> pd.DataFrame:
    """Return a row per machine, number and expectation, as `judge_numbers` takes."""
    if not parts:
        raise UsageError(f"{NOTHING}; `fleet runs` lists what each run has.")
    numbers = _join_column(parts, "number")
    keys = np.array(table.keys, dtype=object)
    rows = pd.DataFrame(keys[numbers], columns=CLASS)
    logs = _join_column(parts, "log")
    rows["ns"] = np.exp(logs)
    rows["source"] = _repeat_for_rows(parts, "source")
    rows["machine"] = _repeat_for_rows(parts, "machine")
    for name in _COLUMNS_OF_SOME:
        rows[name] = _join_column(parts, name)
    since = rows["since"].astype(object)
    rows["since"] = since.where(since.notna(), None)
    return rows


def _repeat_for_rows(parts: Sequence[dict[str, Any]], name: str) -> Any:
    """Return the value that all rows of a part have, for the rows of all parts."""
    values = [part[name] for part in parts]
    counts = [len(part["number"]) for part in parts]
    return np.repeat(values, counts)


def _join_column(parts: Sequence[dict[str, Any]], name: str) -> Any:
    """Join a column of all parts, NaN where a part lacks it."""
    columns = []
    for part in parts:
        unknown = np.full(len(part["number"]), np.nan)
        column = part.get(name, unknown)
        columns.append(column)
    return np.concatenate(columns)


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
        rows = _read_rows_with_facts(listing, [*judged, *last_runs])
        run_ids = [run.run_id for run in last_runs if run.run_id in table.columns]
        rows_of_last_runs = [rows[run_id] for run_id in run_ids if run_id in rows]
        groups = _group_equal_machines(rows_of_last_runs, table)
        return cls(rows, groups, table)

    def select(self, run: Mapping[str, Any]) -> Floats:
        """Return the numbers of the other machines that equal that of a run."""
        no_hosts = np.empty(0, dtype=object)
        no_logs = self.table.logs[:, :0]
        hosts, logs = self.groups.get(run["facts"], (no_hosts, no_logs))
        is_other = hosts != run["host_id"]
        values = logs[:, is_other]
        if run["hypervisor"] is None:
            return values
        columns = self.table.select([run["run_id"]])
        own = columns[:, 0]
        at_own_level = _keep_at_level(own, values, self.table.choices)
        return leave_out_odd(at_own_level)


def _group_equal_machines(
    runs: Sequence[dict[str, Any]], table: RunTable
) -> dict[str, tuple[Any, Floats]]:
    """Return hosts and usual numbers by their facts. runs: rows of each host's last
    run.
    """
    runs_by_facts = defaultdict[str, list[dict[str, Any]]](list)
    for run in runs:
        runs_by_facts[run["facts"]].append(run)
    groups = {}
    for facts, runs_of_group in runs_by_facts.items():
        hosts = [run["host_id"] for run in runs_of_group]
        logs = _select_usual(runs_of_group, table)
        groups[facts] = (np.array(hosts, dtype=object), logs)
    return groups


def _read_rows_with_facts(
    listing: Listing, runs: Sequence[RunSummary]
) -> dict[str, dict[str, Any]]:
    """Read rows of the table `runs` by run ID. `facts`: those that equal machines
    share.
    """
    run_ids = {run.run_id for run in runs}
    table, cpus = load_runs_and_cpus(listing, run_id=run_ids)
    table = table.assign(facts=join_equal_facts(table, cpus))
    rows = to_records(table)
    return {row["run_id"]: row for row in rows}


def _select_usual(runs: Sequence[Mapping[str, Any]], table: RunTable) -> Floats:
    """Return the numbers of equal machines, NaN where one is odd. runs: of each."""
    run_ids = [run["run_id"] for run in runs]
    logs = table.select(run_ids)
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
        last = host.runs[-1]
        run = self.equals.rows[last.run_id]
        own = host.logs[:, -1]
        is_measured = ~np.isnan(own)
        expected = _Expected(machine, np.flatnonzero(is_measured), own)
        expected.add_ranges(self.ranges, run, self.table.keys, self.descriptions)
        self._add_runs_and_machines(expected, host, run)
        if run["cpu_model"]:
            self._add_summaries(expected, run)
        expected.add_unknown()
        return expected

    def _add_runs_and_machines(
        self, expected: _Expected, host: HostRuns, run: Mapping[str, Any]
    ) -> None:
        """Add what earlier runs and equal machines let expect of numbers without a
        range.
        """
        without_range = expected.list_open()
        earlier = _choose_earlier(host, self.threshold, self.accepts_changes)
        expected.add(earlier.logs, "earlier run", without_range, changes=earlier)
        equal_machines = self.equals.select(run)
        expected.add(equal_machines, MACHINE, without_range)

    def _add_summaries(self, expected: _Expected, run: Mapping[str, Any]) -> None:
        """Add what the tables of the CPU model let expect of numbers of which nothing
        else is expected.
        """
        numbers = expected.list_open()
        if len(numbers):
            summaries = self._select_summaries(run, expected.own)
            expected.add(summaries, TABLE, numbers, minimum=1)

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
    distances = measure_distances(logs, THRESHOLD)
    is_odd = distances.are_odd(THRESHOLD)
    return np.where(is_odd, np.nan, logs)


def _tabulate_summaries(
    load_tables: Callable[[str], pd.DataFrame] | None,
    keys: Sequence[tuple[str, str, str]],
    cpu_model: str,
) -> Floats:
    """Return the medians of a CPU model's tables as logarithms, a row per key."""
    if load_tables is None:
        return np.empty((len(keys), 0))
    rows = load_tables(cpu_model)
    by_number = rows.set_index(["summary", *CLASS])
    medians = by_number["median_ns"].unstack("summary")
    numbers = pd.MultiIndex.from_tuples(keys, names=CLASS)
    table = medians.reindex(numbers)
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

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
from fleet.analysis.base.tables import NUMBER_KEY, Bools, Floats, Ints
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
from fleet.analysis.compare.verdicts import THRESHOLD
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

# what a source may say of a number, by column, and what stands for nothing said
_COLUMNS_OF_SOURCES = {
    **dict.fromkeys(("low", "high"), np.nan),
    **dict.fromkeys(("mean", "error", "freedom"), np.nan),
    **dict.fromkeys(("count", "beaten"), np.nan),
    "since": None,
    "ratio": np.nan,
}
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
    share with a flag. older: benchmarks that only earlier runs have. empty: the ID of a
    later run without a number, or None.

    rows: a row per number and expectation, with NUMBER_KEY and these columns. `ns`: the
    measured number. `source`: what the expectation is from. `low`, `high`: the expected
    range in ns; NaN: no such limit. `count`: how many runs, machines or tables are
    behind it. `beaten`: how many of these are slower. `since`: for earlier runs, the
    night of a change that nobody accepted, or None. `ratio`: the number after that
    change to that before; NaN if it is not proved. `p`, `q`: NaN for ranges set by
    hand. `outcome`: an Outcome.
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
        """Report whether other work disturbed the run: half of the bursts failed, or
        half of the others have a flag.
        """
        return max(self.failed, self.flagged) >= DISTURBED

    @property
    def outcome(self) -> Outcome:
        """Return the most serious outcome of the rows: first a worse outcome (SLOWER,
        LESS), then a better outcome (FASTER, MORE), then AS_EXPECTED. Return
        CANNOT_TELL if no number could be judged, or if the run was disturbed.
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

    ranges: the ranges set by hand. Of several that apply to a number, only the first is
    used, and nothing else is expected of the number. Equal machines that are odd among
    themselves are left out. load_tables: takes a CPU model and returns the numbers of
    its tables, with the columns `summary` (which table a number is of), NUMBER_KEY and
    `median_ns`; called if neither earlier runs nor equal machines give three values.
    threshold: the smallest deviation that matters, as a share; None: 3 %. only: compare
    only these numbers. accepts_changes: expect a number that has changed to be as in
    the runs since the change, not as in the runs before it. Raises UsageError if no run
    is selected or no selected run has numbers.
    """
    threshold = threshold or THRESHOLD
    listing = open_listing(root)
    machines = _select_machines(listing, texts, only.benchmark)
    # the last runs of all hosts in the store that may equal one of these machines
    last_runs_of_hosts = _select_last_runs(listing, machines, only.benchmark)
    runs = _list_compared_runs(listing, machines, last_runs_of_hosts)
    descriptions = merge_descriptions(runs)
    numbers = select_numbers(listing, runs, only, descriptions)
    if numbers.empty:
        raise UsageError(f"{NOTHING}; `fleet runs` lists what each run has.")
    facts = read_facts(listing, runs)
    pair_column = choose_shared_column(record.row for record in facts.values())
    table = tabulate_runs(numbers, pair_column)
    equals = _EqualMachines.read(listing, machines, last_runs_of_hosts, table)
    tabulate_summaries = partial(_tabulate_summaries, load_tables, table.keys)
    sources = _Sources(
        table=table,
        ranges=ranges,
        equals=equals,
        tabulate_summaries=cache(tabulate_summaries),
        descriptions=descriptions,
        threshold=threshold,
        accepts_changes=accepts_changes,
    )
    parts = _expect_all(sources, machines, facts)
    expected = _join_parts(parts, table)
    rows = judge_numbers(expected, threshold, descriptions.rates)
    row_of_run = equals.rows  # in the table `runs`, by run ID
    return _make_acceptances(machines, rows, row_of_run, descriptions)


def _make_acceptances(
    machines: Sequence["_Machine"],
    rows: pd.DataFrame,
    row_of_run: Mapping[str, Mapping[str, Any]],
    descriptions: Descriptions,
) -> list[Acceptance]:
    """Return the acceptance of each machine.

    rows: the judged numbers of all machines, sorted by `machine`, the index of their
    machine in `machines`. row_of_run: by run ID, the row of the table `runs` of each
    judged run, and of other runs; a run that cannot be read is missing.
    """
    rows_of_machines = _split_by_machine(rows, len(machines))
    acceptances = []
    for machine, own_rows in zip(machines, rows_of_machines, strict=True):
        run = row_of_run.get(machine.last_id, {})
        acceptance = _make_acceptance(machine, run, own_rows, descriptions)
        acceptances.append(acceptance)
    return acceptances


def _split_by_machine(rows: pd.DataFrame, count: int) -> list[pd.DataFrame]:
    """Return the rows of each of `count` machines, without the column `machine`. Each
    row has the index of its machine there, and the rows are sorted by it.
    """
    machine_of_row = rows.pop("machine").to_numpy()
    # where the rows of each machine begin, and where those of the last one end
    edges = np.searchsorted(machine_of_row, np.arange(count + 1))
    return [rows.iloc[first:end] for first, end in pairwise(edges)]


def _list_compared_runs(
    listing: Listing, machines: Sequence["_Machine"], last_runs: Sequence[RunSummary]
) -> list[RunSummary]:
    """List the runs whose numbers are compared, oldest first: the judged ones, their
    host's earlier ones, and the last ones of other hosts.
    """
    compared = [*last_runs]
    for machine in machines:
        compared += machine.runs
    run_ids = {run.run_id for run in compared}
    return [run for run in listing.runs if run.run_id in run_ids]


def _expect_all(
    sources: "_Sources", machines: Sequence["_Machine"], facts: Mapping[str, RunRecord]
) -> list["_Part"]:
    """Return what is expected of each machine whose judged run has numbers, machine by
    machine. facts: the record of each run, by its ID.
    """
    nights = dict[str, date]()
    for machine in machines:
        nights.update(find_nights(machine.runs))
    runs_of_machines = [machine.runs for machine in machines]
    # one HostRuns for each machine, in the order of the machines
    host_runs = lay_out_hosts(sources.table, runs_of_machines, nights, facts)
    parts = []
    for index, machine in enumerate(machines):
        own_runs = host_runs[index]
        if _has_judged_run(own_runs, machine):
            expected = sources.expect(index, own_runs)
            parts += expected.parts
    return parts


def _has_judged_run(own_runs: HostRuns, machine: "_Machine") -> bool:
    """Report whether the judged run of a machine has numbers. own_runs: those of the
    machine's runs that have numbers, oldest first.
    """
    if not own_runs.runs:
        return False
    return own_runs.runs[-1] == machine.runs[-1]


@dataclass(frozen=True, slots=True)
class _Machine:
    """A host that is judged.

    runs: those comparable with the judged one and up to it, oldest first; none if
    nothing was measured. last_id: the ID of the judged run; if there is none, of the
    host's last. dropped_benchmarks: benchmarks that only earlier runs have.
    empty_run_id: the ID of a run without samples that is newer than the judged one, or
    None.
    """

    host: str
    runs: Sequence[RunSummary]
    last_id: str
    dropped_benchmarks: Sequence[str]
    empty_run_id: str | None


def _select_machines(
    listing: Listing, texts: Sequence[str], benchmark: str | None
) -> list[_Machine]:
    """Select the hosts to judge: those of the runs that `texts` select. Raises
    UsageError if no run is selected or none has the benchmark.
    """
    selected = select_runs(listing.runs, texts, listing)
    filter_runs(listing, selected, benchmark)  # raises the error
    all_runs = group_by_host(listing.runs)
    machines = []
    for host, selected_runs in group_by_host(selected).items():
        machine = _make_machine(listing, selected_runs, all_runs[host], benchmark)
        machines.append(machine)
    return machines


def _make_machine(
    listing: Listing,
    selected: Sequence[RunSummary],
    all_runs: Sequence[RunSummary],
    benchmark: str | None,
) -> _Machine:
    """Choose which of the selected runs of a host to judge: the last run that has
    samples and the benchmark. selected, all_runs: the selected runs and all runs of the
    host, oldest first. Without such a run, the result has no `runs`.
    """
    # runs without samples are dropped, unless no selected run has samples: then the
    # last candidate has none either
    candidates = keep_comparable_with_last(listing, selected, benchmark)
    has_judged_run = bool(candidates and candidates[-1].samples)
    newest = selected[-1]
    if not has_judged_run:
        has_samples = bool(newest.samples)  # but not the benchmark
        return _Machine(
            host=newest.host_id,
            runs=[],
            last_id=newest.run_id,
            dropped_benchmarks=[],
            empty_run_id=None if has_samples else newest.run_id,
        )
    judged = candidates[-1]
    judged_index = all_runs.index(judged)
    until_judged = all_runs[: judged_index + 1]
    return _Machine(
        host=newest.host_id,
        # a run that was not selected counts as an earlier run, too
        runs=keep_comparable_with_last(listing, until_judged, benchmark),
        last_id=judged.run_id,
        dropped_benchmarks=_list_dropped_benchmarks(judged, selected, benchmark),
        empty_run_id=_find_empty_after(judged, selected),
    )


def _find_empty_after(judged: RunSummary, runs: Sequence[RunSummary]) -> str | None:
    """Return the ID of the newest run without samples after the judged one, or None."""
    judged_index = runs.index(judged)
    for run in reversed(runs[judged_index + 1 :]):
        if not run.samples:
            return run.run_id
    return None


def _list_dropped_benchmarks(
    judged: RunSummary, runs: Sequence[RunSummary], benchmark: str | None
) -> list[str]:
    """List the benchmarks that other runs of a host have and the judged run lacks, such
    as "cas". Runs without samples do not count. benchmark: list only what this text
    selects; None: all.
    """
    # benchmarks with their variants, such as "cas/cmpxchg"
    choices = list[str]()
    for run in runs:
        if run.samples:
            choices += run.benchmarks
    if benchmark is not None:
        distinct_choices = list(dict.fromkeys(choices))
        choices = list(select_choices(benchmark, distinct_choices))
    benchmarks_of_judged = _name_benchmarks(judged.benchmarks)
    benchmarks = _name_benchmarks(choices)
    return [name for name in benchmarks if name not in benchmarks_of_judged]


def _name_benchmarks(choices: Iterable[str]) -> list[str]:
    """Return the benchmarks of choices, such as "cas" of "cas/llsc", each once."""
    names = dict[str, None]()
    for choice in choices:
        benchmark, _, _ = choice.partition("/")
        names[benchmark] = None
    return list(names)


def _select_last_runs(
    listing: Listing, machines: Sequence[_Machine], benchmark: str | None
) -> list[RunSummary]:
    """Select the last run of each host of the store that may equal one of the judged
    machines: those with the same CPU model.
    """
    judged_models = {run.cpu_model for run in _list_judged_runs(machines)}
    judged_models.discard(None)  # a machine of an unknown model equals no other
    last_runs = []
    runs_by_host = group_by_host(listing.runs)
    for runs in runs_by_host.values():
        comparable = keep_comparable_with_last(listing, runs, benchmark)
        if not comparable:
            continue
        last_run = comparable[-1]
        if last_run.cpu_model in judged_models:
            last_runs.append(last_run)
    return last_runs


def _list_judged_runs(machines: Sequence[_Machine]) -> list[RunSummary]:
    """List the judged run of each machine that has one."""
    return [machine.runs[-1] for machine in machines if machine.runs]


class _EarlierRuns(NamedTuple):
    """The earlier runs of a host from which its numbers are predicted.

    log_ns: the logarithms, a row per number, a column per run, NaN where a run is not
    used for a number. since: for each number, the night from which on a change is not
    accepted, or None. ratio: for each number, the number after that change to that
    before if the change is proved, else NaN.
    """

    log_ns: Floats
    since: Any
    ratio: Floats


def _choose_earlier_runs(
    host_runs: HostRuns, threshold: float, accepts_changes: bool
) -> _EarlierRuns:
    """Choose the runs from which each number of a host's last run is predicted, by
    these rules in turn:
    - of a virtual machine, keep only runs at the level of the last run;
    - from the last run with the label `accepted=yes` on, keep all runs but the very
      last, which is judged; without such a run, from the first run on;
    - if the number has changed since then, which nobody accepted, keep the runs before
      the change or, if `accepts_changes`, the runs since the change;
    - of a machine that is not virtual, keep only runs at one level.

    threshold: as of `judge_last_runs`.
    """
    log_ns = _keep_level_of_last_run(host_runs)
    # the index of the last accepted run, 0 if no run is accepted
    baseline_begin = host_runs.find_accepted()
    proved_changes = host_runs.find_open_changes()
    # for each number, the index of the first run after its change; the count of runs if
    # it did not change
    first_changed = _find_first_changed(
        log_ns, baseline_begin, proved_changes.first_run, threshold
    )
    run_count = len(host_runs.runs)
    is_used = _are_before_change(first_changed, baseline_begin, run_count)
    if accepts_changes:
        is_used = _replace_by_runs_since_change(is_used, first_changed)
    used_logs = np.where(is_used, log_ns, np.nan)
    # the runs of a virtual machine that are left are at one level already
    if not host_runs.is_last_run_virtual:
        used_logs = _keep_own_or_main_level(used_logs, host_runs.levels)
    is_unused_run = np.isnan(used_logs).all(axis=0)
    return _EarlierRuns(
        log_ns=used_logs[:, ~is_unused_run],
        since=_list_nights(host_runs, first_changed),
        ratio=proved_changes.ratio,
    )


def _keep_level_of_last_run(host_runs: HostRuns) -> Floats:
    """Return the numbers of a host as logarithms, a row per number, a column per run.
    Of a virtual machine, which may switch levels, keep only those at the level of its
    last run; NaN for the others.
    """
    if not host_runs.is_last_run_virtual:
        return host_runs.log_ns
    level_of_last_run = host_runs.levels[:, -1:]
    is_at_level = host_runs.levels == level_of_last_run
    return np.where(is_at_level, host_runs.log_ns, np.nan)


def _find_first_changed(
    log_ns: Floats, baseline_begin: int, first_proved: Ints, threshold: float
) -> Ints:
    """Return, for each number, the index of the first run after its change; the count
    of runs if it did not change. A change is proved, or else the last runs suggest it:
    all of them are slower.

    log_ns: a row per number, a column per run. baseline_begin: the index of the first
    run of the baseline. first_proved: for each number, the index of the first run after
    a proved change; the count of runs if no change is proved.
    """
    count = log_ns.shape[1]
    baseline = log_ns[:, baseline_begin:]
    first_slower = baseline_begin + find_first_slower(baseline, threshold)
    is_proved = first_proved < count
    return np.where(is_proved, first_proved, first_slower)


def _list_nights(host_runs: HostRuns, run_indices: Ints) -> Any:
    """Return the nights of the runs at these indices; None for the count of runs, which
    stands for no run.
    """
    nights = [*host_runs.nights, None]
    return np.array(nights, dtype=object)[run_indices]


def _are_before_change(
    first_changed: Ints, baseline_begin: int, run_count: int
) -> Bools:
    """Report which runs are of the baseline and before the change of each number: a row
    per number, a column per run. The last run, which is judged, never is.

    first_changed: for each number, the index of the first run after its change;
    `run_count` if it did not change. baseline_begin: the index of the first run of the
    baseline.
    """
    run = np.arange(run_count)
    judged_run = run_count - 1
    end = np.minimum(first_changed, judged_run)  # for each number
    is_of_baseline = run >= baseline_begin
    is_before_end = run < end[:, None]
    return is_of_baseline & is_before_end


def _replace_by_runs_since_change(is_before: Bools, first_changed: Ints) -> Bools:
    """Replace the runs before the change of each number by those since, up to the last
    run, for numbers that changed. is_before: a row per number, a column per run.
    first_changed: as of `_are_before_change`.
    """
    run_count = is_before.shape[1]
    run = np.arange(run_count)
    has_changed = first_changed < run_count
    is_since_change = run >= first_changed[:, None]
    return np.where(has_changed[:, None], is_since_change, is_before)


def _keep_own_or_main_level(log_ns: Floats, levels: Ints) -> Floats:
    """Keep the runs at one level of each number; NaN for the others. If three runs or
    more are at the level of the last run, enough for a range, it is this level. Else it
    is the level of most runs.

    log_ns: a row per number, a column per run, NaN where a run is not used. levels: the
    level of each number in each run, from 0; -1 where a run lacks the number. The last
    column is that of the last run, which is judged.
    """
    is_used = ~np.isnan(log_ns)
    levels_of_used = np.where(is_used, levels, -1)  # -1 does not count as a level
    # for each number: the level of the last run, how many used runs are at that level,
    # and the level of most used runs
    level_of_last_run = levels[:, -1]
    is_at_level_of_last = is_used & (levels == level_of_last_run[:, None])
    runs_at_level_of_last = is_at_level_of_last.sum(axis=1)
    main_level = find_main_levels(levels_of_used)
    has_enough = runs_at_level_of_last >= MIN_VALUES
    kept_level = np.where(has_enough, level_of_last_run, main_level)
    is_kept = levels == kept_level[:, None]
    return np.where(is_kept, log_ns, np.nan)


def _keep_at_level(own: Floats, values: Floats, choices: Ints) -> Floats:
    """Keep the values of each number that are at the level of the machine's own value;
    NaN for the others.

    own: the machine's own values, a logarithm per number. values: the logarithms of
    other machines or tables, a row per number, a column for each of them. choices: the
    benchmark and variant of each number, as one integer for both.
    """
    # levels are told apart among all values of a number, of which the own one is first
    with_own = np.column_stack([own, values])
    levels = label_levels_of_hosts(with_own, choices)
    level_of_own = levels[:, :1]
    levels_of_values = levels[:, 1:]
    is_at_level = levels_of_values == level_of_own
    return np.where(is_at_level, values, np.nan)


def find_first_slower(log_ns: Floats, threshold: float) -> Ints:
    """Return, for each number, the index of the first run from which on the number is
    slower; the count of runs if there is no such run.

    From that run on, all runs are slower than the runs before it let expect: by more
    than the threshold, and beyond chance. There must be two such runs or more.

    log_ns: logarithms of times, a row per number, a column per run, oldest first; a
    larger one is slower. threshold: as of `judge_last_runs`.
    """
    count = log_ns.shape[1]
    first_slower = np.full(len(log_ns), count)
    # for each run, the fastest of the run and all later runs: if the fastest is slower
    # than expected, all of them are
    fastest = _find_fastest_from_each_on(log_ns)
    # a cheap test of all runs at once; only those that pass are tested for chance
    is_possible = _may_be_first_slower(log_ns, fastest, threshold)
    is_possible[:, -1:] = False  # the last run would be the only slower run
    is_possible_run = is_possible.any(axis=0)
    possible_runs = np.flatnonzero(is_possible_run)
    for run in possible_runs.tolist():
        earlier = log_ns[:, :run]
        is_beyond_chance = _deviate_beyond_chance(earlier, fastest[:, run])
        has_none_yet = first_slower == count
        is_first = is_possible[:, run] & is_beyond_chance & has_none_yet
        first_slower[is_first] = run
    return first_slower


def _find_fastest_from_each_on(log_ns: Floats) -> Floats:
    """Return, for each number and run, the least value of the run and all later runs;
    infinity if none of these runs has the number.
    """
    is_missing = np.isnan(log_ns)
    values = np.where(is_missing, np.inf, log_ns)
    # with the newest run first, all later runs of a run stand before it
    newest_first = np.flip(values, axis=1)
    fastest_so_far = np.minimum.accumulate(newest_first, axis=1)
    return np.flip(fastest_so_far, axis=1)


def _may_be_first_slower(log_ns: Floats, fastest: Floats, threshold: float) -> Bools:
    """Report for each number which runs, with all later runs, are slower than the mean
    of the earlier runs by more than the threshold.

    log_ns: logarithms, a row per number, a column per run, NaN where a run lacks the
    number. fastest: for each number and run, the least value of the run and all later
    runs.
    """
    is_measured = ~np.isnan(log_ns)
    # how many earlier runs have the number, and their sum: totals up to the run, less
    # the run itself
    runs_before = np.cumsum(is_measured, axis=1) - is_measured
    numbers = np.nan_to_num(log_ns)
    sums_before = np.cumsum(numbers, axis=1) - numbers
    means_before = sums_before / np.maximum(runs_before, 1)
    distances = fastest - means_before
    is_slower = distances > np.log1p(threshold)
    has_enough = runs_before >= MIN_VALUES
    is_known = is_measured & np.isfinite(fastest)
    is_possible: Bools = is_known & has_enough & is_slower
    return is_possible


def _deviate_beyond_chance(earlier: Floats, later: Floats) -> Bools:
    """Report which numbers deviate beyond chance from what earlier runs let expect.

    earlier: logarithms, a row per number, a column per run; a number with fewer than
    three values does not deviate. later: one later value of each number, infinite where
    nothing was measured: it does not deviate either.
    """
    has_enough = _count_values(earlier) >= MIN_VALUES
    prediction = predict_next(earlier[has_enough])
    tested = later[has_enough]
    is_measured = np.isfinite(tested)
    # a deviation of 0 has p = 1: it is never beyond chance
    deviation = np.where(is_measured, tested - prediction.mean, 0.0)
    p = prediction.test(deviation)
    q = judge.control_false_discovery(p)
    q_of_all = judge.put_where(has_enough, q)
    return q_of_all < judge.ALPHA  # false for NaN


def _count_values(log_ns: Floats) -> Ints:
    """Count the values of each row that are not NaN."""
    is_value = ~np.isnan(log_ns)
    return np.asarray(is_value.sum(axis=1))


class Prediction(NamedTuple):
    """What is expected of one more value of each row, a logarithm: its mean, standard
    error and degrees of freedom.
    """

    mean: Floats
    error: Floats
    freedom: Floats

    def test(self, deviation: Floats) -> Floats:
        """Return p of a deviation of each value from its mean."""
        _, _, p = judge.apply_student(deviation, self.error, self.freedom)
        return p

    def compute_range_ns(self) -> tuple[Floats, Floats]:
        """Return the low and the high end of each value's 95 % interval, in ns."""
        # the interval around a change of 0: how far it reaches below and above
        no_change = np.zeros_like(self.error)
        below, above, _ = judge.apply_student(no_change, self.error, self.freedom)
        low = self.mean + below
        high = self.mean + above
        return np.exp(low), np.exp(high)

    @classmethod
    def read(cls, rows: pd.DataFrame) -> "Prediction":
        """Read the predictions from the columns `mean`, `error` and `freedom`."""
        return cls(
            mean=rows["mean"].to_numpy(dtype=float),
            error=rows["error"].to_numpy(dtype=float),
            freedom=rows["freedom"].to_numpy(dtype=float),
        )


def predict_next(log_ns: Floats) -> Prediction:
    """Predict one more value of each row from the row's values, ignoring NaN. log_ns:
    logarithms of times in ns; each row has two values or more. Variances are shrunk
    towards a common variance, since few values say little about how far they scatter.
    """
    counts = _count_values(log_ns)
    mean = judge.compute_nanmean(log_ns, axis=1)
    distances = log_ns - mean[:, None]
    squares = np.nansum(distances**2, axis=1)
    own_freedom = counts.astype(np.float64) - 1
    # equal values have no variance but for the rounding of the clock
    own_variances = np.maximum(squares / own_freedom, judge.ROUNDING)
    variances, freedom = judge.moderate_variances(own_variances, own_freedom)
    # the variance of the next value, and that of the mean of n values, 1/n of it
    scale = 1 + 1 / counts
    variances_of_next = variances * scale
    return Prediction(mean, np.sqrt(variances_of_next), freedom)


def judge_numbers(
    rows: pd.DataFrame, threshold: float, rates: Collection[str] = ()
) -> pd.DataFrame:
    """Judge numbers by what is expected of them: replace the columns `mean`, `error`
    and `freedom` by `p`, `q` (p corrected over all rows) and the `outcome`.

    Each row is a number and one expectation of it: NUMBER_KEY, the measured `ns` and a
    `source`. A range set by hand has its limits in `low` and `high`, in ns. Other
    sources predict: `mean`, `error` and `freedom` are from `predict_next`, and `low`
    and `high` become the predicted range. Every row has these five columns, NaN where
    they do not apply; a row with NaN in all of them is judged CANNOT_TELL.

    threshold: the smallest deviation that matters, as a share. rates: benchmarks whose
    numbers are less or more, not slower or faster.
    """
    prediction = Prediction.read(rows)
    log_ns = np.log(rows["ns"].to_numpy())
    deviation = log_ns - prediction.mean
    p = prediction.test(deviation)
    q = judge.control_false_discovery(p)
    is_large = np.abs(deviation) > np.log1p(threshold)
    is_significant = q < judge.ALPHA
    # the mean is NaN where a range is set by hand, or where nothing is expected
    is_predicted = ~np.isnan(prediction.mean)
    low, high = prediction.compute_range_ns()
    judged = rows.drop(columns=[*Prediction._fields])
    judged["p"] = p
    judged["q"] = q
    judged["low"] = np.where(is_predicted, low, rows["low"])
    judged["high"] = np.where(is_predicted, high, rows["high"])
    is_proved = is_large & is_significant
    # each number by its deviation, or by its range where that was set by hand
    judged["outcome"] = _name_outcomes(judged, deviation, is_proved, rates)
    return judged


def _name_outcomes(
    judged: pd.DataFrame, deviation: Floats, is_proved: Bools, rates: Collection[str]
) -> Any:
    """Return the outcome of each row.

    judged: with `ns`, the number, and `low` to `high`, the range expected of it, which
    predicted numbers have too; NaN: no such limit. deviation: how far each number is
    from its prediction, a logarithm; NaN if it has no prediction and is judged by its
    range. is_proved: whether the deviation is beyond chance and large. rates:
    benchmarks whose numbers are less or more, not slower or faster.
    """
    low = judged["low"]
    high = judged["high"]
    # without any limit, nothing is expected of the number
    is_unknown = low.isna() & high.isna()
    is_predicted = ~np.isnan(deviation)
    is_proved_slower = is_proved & (deviation > 0)
    is_proved_faster = is_proved & (deviation < 0)
    is_above_range = judged["ns"] > high
    is_below_range = judged["ns"] < low
    is_slower = np.where(is_predicted, is_proved_slower, is_above_range)
    is_faster = np.where(is_predicted, is_proved_faster, is_below_range)
    are_rates = judged["benchmark"].isin(rates)
    slower = np.where(are_rates, Outcome.LESS, Outcome.SLOWER)
    faster = np.where(are_rates, Outcome.MORE, Outcome.FASTER)
    # the first condition that is true decides
    return np.select(
        [is_unknown, is_slower, is_faster],
        [Outcome.CANNOT_TELL, slower, faster],
        Outcome.AS_EXPECTED,
    )


class _Part(NamedTuple):
    """What one source expects of some numbers of a machine.

    machine: the index of the machine among the judged ones. numbers: which numbers, as
    rows of the RunTable. own_logs: the machine's own numbers, as logarithms. columns:
    what the source says of each number: some of the columns of _COLUMNS_OF_SOURCES, by
    name.
    """

    machine: int
    source: str
    numbers: Ints
    own_logs: Floats
    columns: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Expected:
    """Collects what the sources expect of the judged run of one machine.

    machine: its index among the judged ones. own: the logarithms of the run's numbers,
    one per row of the RunTable, NaN where the run lacks it. parts: what was added.
    Methods take numbers as rows of the RunTable.
    """

    machine: int
    own: Floats
    parts: list[_Part] = field(default_factory=list)

    def list_without_expectation(self) -> Ints:
        """Return the measured numbers for which nothing was added yet."""
        is_without = ~np.isnan(self.own)
        for part in self.parts:
            is_without[part.numbers] = False
        return np.flatnonzero(is_without)

    def add_ranges(
        self,
        ranges: Sequence[ExpectedRange],
        run: Mapping[str, Any],
        keys: Sequence[tuple[str, str, str]],
        descriptions: Descriptions,
    ) -> None:
        """Add, for each measured number, the first range that applies to it.

        run: the judged run, as a row of the table `runs`. keys: the benchmark, variant
        and relation of each row of the RunTable.
        """
        if not ranges:
            return
        for number in self.list_without_expectation():
            key = keys[number]
            first_range = _find_first_match(ranges, run, key)
            if first_range is None:
                continue
            benchmark, _, _ = key
            # a range of a rate is written as rates, and turned into times here
            shows_rate = is_rate(descriptions[benchmark])
            low, high = first_range.limits_ns(is_rate=shows_rate)
            # a part holds arrays, here of this one number
            one_number = np.array([number])
            limits = {
                "low": np.array([low]),
                "high": np.array([high]),
            }
            self._add_part(first_range.source, one_number, limits)

    def add_values(
        self,
        noun: str,
        log_ns: Floats,
        numbers: Ints,
        minimum: int = MIN_VALUES,
        changes: _EarlierRuns | None = None,
    ) -> None:
        """Add what one source expects of these numbers: predict each from the values
        that earlier runs, equal machines or tables have of it.

        noun: what has the values, such as "earlier run". log_ns: the values as
        logarithms, a row per row of the RunTable, a column per run, machine or table,
        NaN where there is no value. numbers: which rows to add. minimum: a number with
        fewer values is not added. A number with fewer than MIN_VALUES that is added has
        NaN for a prediction. changes: if the values are of earlier runs, since when
        each number has changed.

        Added are the prediction, `mean`, `error` and `freedom`; `count`, how many
        values there are; `beaten`, how many of these are slower than the judged run;
        and with `changes`, `since` and `ratio`, the change of each number.
        """
        counts = _count_values(log_ns)
        has_enough = counts[numbers] >= minimum
        predicted = numbers[has_enough]
        if not len(predicted):
            return
        values = log_ns[predicted]
        own = self.own[predicted]
        is_slower = values > own[:, None]
        slower_counts = is_slower.sum(axis=1)
        columns = _predict_where_enough(values)
        columns["count"] = counts[predicted].astype(float)
        columns["beaten"] = slower_counts.astype(float)
        if changes is not None:
            columns["since"] = changes.since[predicted]
            columns["ratio"] = changes.ratio[predicted]
        self._add_part(f"{noun}s", predicted, columns)

    def add_unknown(self) -> None:
        """Add the numbers of which nothing is expected."""
        self._add_part("", self.list_without_expectation(), {})

    def _add_part(self, source: str, numbers: Ints, columns: Mapping[str, Any]) -> None:
        """Add what a source says of these numbers, unless there are none."""
        if len(numbers):
            own_logs = self.own[numbers]
            part = _Part(self.machine, source, numbers, own_logs, columns)
            self.parts.append(part)


def _find_first_match(
    ranges: Sequence[ExpectedRange], run: Mapping[str, Any], key: tuple[str, str, str]
) -> ExpectedRange | None:
    """Find the first range that is about a number of a run. run: a row of the table
    `runs`. key: the benchmark, variant and relation of the number.
    """
    for expected in ranges:
        if expected.matches(run, *key):
            return expected
    return None


def _predict_where_enough(log_ns: Floats) -> dict[str, Any]:
    """Predict one more value of each row. Return the columns of `Prediction` by name,
    NaN for rows with fewer than three values.
    """
    has_enough = _count_values(log_ns) >= MIN_VALUES
    prediction = predict_next(log_ns[has_enough])
    columns = {}
    for name, values in prediction._asdict().items():
        columns[name] = judge.put_where(has_enough, values)
    return columns


def _join_parts(parts: Sequence[_Part], table: RunTable) -> pd.DataFrame:
    """Return a row per machine, number and expectation, as `judge_numbers` takes them,
    with `machine`, the index of the machine. A column of which a source says nothing is
    NaN in the rows of that source, but None in the column `since`. Raises UsageError if
    there are no parts.
    """
    if not parts:
        raise UsageError(f"{NOTHING}; `fleet runs` lists what each run has.")
    numbers = np.concatenate([part.numbers for part in parts])
    own_logs = np.concatenate([part.own_logs for part in parts])
    sources = [part.source for part in parts]
    machines = [part.machine for part in parts]
    row_counts = [len(part.numbers) for part in parts]
    keys = np.array(table.keys, dtype=object)  # a row per row of the RunTable
    rows = pd.DataFrame(keys[numbers], columns=NUMBER_KEY)
    rows["ns"] = np.exp(own_logs)
    rows["source"] = np.repeat(sources, row_counts)
    rows["machine"] = np.repeat(machines, row_counts)
    for name, nothing_said in _COLUMNS_OF_SOURCES.items():
        rows[name] = _join_column(parts, name, nothing_said)
    return rows


def _join_column(parts: Sequence[_Part], name: str, nothing_said: float | None) -> Any:
    """Join the column `name` of all parts end to end. A part that lacks the column has
    `nothing_said` in its rows.
    """
    columns = []
    for part in parts:
        unknown = np.full(len(part.numbers), nothing_said)
        column = part.columns.get(name, unknown)
        columns.append(column)
    return np.concatenate(columns)


class _Group(NamedTuple):
    """Machines with equal facts. hosts: their IDs. log_ns: the logarithms of the
    numbers of their last runs, a row per row of the RunTable, a column per machine, NaN
    where a machine lacks a number. has_virtual: whether a machine is virtual. If no
    machine is virtual, `log_ns` is also NaN where a machine is odd.
    """

    hosts: Any
    log_ns: Floats
    has_virtual: bool


@dataclass(frozen=True, slots=True)
class _EqualMachines:
    """The last runs of all machines that may equal a judged one.

    rows: by run ID, the row of the table `runs` of each of these and of the judged
    runs; its `facts` are equal for equal machines. groups: the equal machines, by these
    facts.
    """

    rows: Mapping[str, dict[str, Any]]
    groups: Mapping[str, _Group]
    table: RunTable

    @classmethod
    def read(
        cls,
        listing: Listing,
        machines: Sequence[_Machine],
        last_runs: Sequence[RunSummary],
        table: RunTable,
    ) -> "_EqualMachines":
        """Read the facts of the last runs and of the judged runs, and group the
        machines of the last runs by their facts. table: has the numbers of these runs.
        """
        judged_runs = _list_judged_runs(machines)
        rows = _read_rows_with_facts(listing, [*judged_runs, *last_runs])
        rows_of_last_runs = []
        for run in last_runs:
            row = rows.get(run.run_id)
            # a run that cannot be read has no facts, and one without numbers says
            # nothing: both are in no group
            if row is not None and table.has_run(run.run_id):
                rows_of_last_runs.append(row)
        groups = _group_equal_machines(rows_of_last_runs, table)
        return cls(rows, groups, table)

    def select(self, run: Mapping[str, Any]) -> Floats:
        """Return the logarithms of the other machines with the same facts as the
        machine of a judged run: a row per row of the RunTable, a column per machine,
        NaN where a machine is odd. run: the judged run's row of the table `runs`, with
        its `facts`.
        """
        group = self.groups.get(run["facts"])
        if group is None:
            return self.table.select([])  # no machine, so no column
        is_other = group.hosts != run["host_id"]
        values = group.log_ns[:, is_other]
        is_virtual = run["hypervisor"] is not None
        # without virtual machines, odd numbers were left out when the group was made
        if not is_virtual and not group.has_virtual:
            return values
        # a virtual machine may be at another level than its equals: it is comparable
        # only with machines at its own level, and odd ones are looked for among these
        if is_virtual:
            columns = self.table.select([run["run_id"]])
            own = columns[:, 0]
            values = _keep_at_level(own, values, self.table.choices)
        return leave_out_odd(values)


def _group_equal_machines(
    runs: Sequence[dict[str, Any]], table: RunTable
) -> dict[str, _Group]:
    """Group machines by their facts, which are the keys of the result. runs: the row
    of the table `runs` of each machine's last run.
    """
    runs_by_facts = defaultdict[str, list[dict[str, Any]]](list)
    for run in runs:
        runs_by_facts[run["facts"]].append(run)
    groups = {}
    for facts, runs_of_group in runs_by_facts.items():
        groups[facts] = _make_group(runs_of_group, table)
    return groups


def _make_group(runs: Sequence[dict[str, Any]], table: RunTable) -> _Group:
    """Make a group of equal machines. runs: the row of the table `runs` of the last run
    of each.
    """
    hosts = [run["host_id"] for run in runs]
    run_ids = [run["run_id"] for run in runs]
    has_virtual = any(run["hypervisor"] is not None for run in runs)
    log_ns = table.select(run_ids)  # a column for each of `hosts`
    # virtual machines may be at different levels: `_EqualMachines.select` looks for odd
    # numbers among the machines at one level
    if not has_virtual:
        log_ns = leave_out_odd(log_ns)
    return _Group(np.array(hosts, dtype=object), log_ns, has_virtual)


def _read_rows_with_facts(
    listing: Listing, runs: Sequence[RunSummary]
) -> dict[str, dict[str, Any]]:
    """Return, by run ID, the rows of the table `runs` that can be read. Add to each its
    `facts`, which are equal for equal machines.
    """
    run_ids = {run.run_id for run in runs}
    table, cpus = load_runs_and_cpus(listing, run_id=run_ids)
    facts = join_equal_facts(table, cpus)
    table = table.assign(facts=facts)
    return {row["run_id"]: row for row in to_records(table)}


@dataclass(frozen=True, slots=True)
class _Sources:
    """What numbers are held against: ranges, earlier runs, equal machines, tables.

    tabulate_summaries: takes a CPU model and returns the logarithms of its tables, a
    row per row of the RunTable, a column per table. threshold, accepts_changes: as of
    `judge_last_runs`.
    """

    table: RunTable
    ranges: Sequence[ExpectedRange]
    equals: _EqualMachines
    tabulate_summaries: Callable[[str], Floats]
    descriptions: Descriptions
    threshold: float
    accepts_changes: bool

    def expect(self, machine: int, host_runs: HostRuns) -> _Expected:
        """Return what is expected of the last of a machine's comparable runs, the
        judged run. machine: the index of the machine among the judged machines.

        Equal machines and earlier runs are asked only of numbers without a range set by
        hand, and tables only of numbers without any other expectation.
        """
        judged_run = host_runs.runs[-1]
        row = self.equals.rows[judged_run.run_id]  # of the table `runs`
        own_logs = host_runs.log_ns[:, -1]
        expected = _Expected(machine, own_logs)
        expected.add_ranges(self.ranges, row, self.table.keys, self.descriptions)
        self._add_runs_and_machines(expected, host_runs, row)
        self._add_tables(expected, row)
        expected.add_unknown()
        return expected

    def _add_runs_and_machines(
        self, expected: _Expected, host_runs: HostRuns, row: Mapping[str, Any]
    ) -> None:
        """Add what earlier runs and equal machines let expect of numbers without a
        range. row: of the judged run in the table `runs`.
        """
        # ranges were added before: numbers without expectation have no range
        without_range = expected.list_without_expectation()
        # the numbers of earlier runs, and since when each number has changed
        earlier_runs = _choose_earlier_runs(
            host_runs, self.threshold, self.accepts_changes
        )
        expected.add_values(
            "earlier run", earlier_runs.log_ns, without_range, changes=earlier_runs
        )
        equal_machines = self.equals.select(row)
        expected.add_values(MACHINE, equal_machines, without_range)

    def _add_tables(self, expected: _Expected, row: Mapping[str, Any]) -> None:
        """Add what the tables of the CPU model let expect of numbers of which nothing
        else is expected. row: of the judged run in the table `runs`.
        """
        is_model_known = bool(row["cpu_model"])
        numbers = expected.list_without_expectation()
        if is_model_known and len(numbers):
            tables = self._select_tables(row, expected.own)
            # one table says little, but more than nothing
            expected.add_values(TABLE, tables, numbers, minimum=1)

    def _select_tables(self, row: Mapping[str, Any], own: Floats) -> Floats:
        """Return the logarithms of the tables of a run's CPU model, a column per table.
        For a virtual machine, which may be at another level, keep only those at the
        level of its own numbers. row: of the run in the table `runs`.
        """
        tables = self.tabulate_summaries(row["cpu_model"])
        if row["hypervisor"] is None:
            return tables
        return _keep_at_level(own, tables, self.table.choices)


def leave_out_odd(log_ns: Floats) -> Floats:
    """Replace by NaN the numbers in which a machine is odd, as --siblings finds them.
    log_ns: a row per number, a column per machine.
    """
    if not log_ns.shape[1]:
        return log_ns
    distances = measure_distances(log_ns, THRESHOLD)
    is_odd = distances.are_odd(THRESHOLD)
    return np.where(is_odd, np.nan, log_ns)


def _tabulate_summaries(
    load_tables: Callable[[str], pd.DataFrame] | None,
    keys: Sequence[tuple[str, str, str]],
    cpu_model: str,
) -> Floats:
    """Return the logarithms of the medians in the summaries of a CPU model, tables that
    others published: a row per key, a column per summary, NaN where it lacks a number.

    load_tables: as of `judge_last_runs`; None: there are no summaries. keys: benchmark,
    variant and relation.
    """
    if load_tables is None:
        return np.empty((len(keys), 0))
    rows = load_tables(cpu_model)
    by_number_and_summary = rows.set_index([*NUMBER_KEY, "summary"])
    medians = by_number_and_summary["median_ns"].unstack("summary")
    numbers = pd.MultiIndex.from_tuples(keys, names=NUMBER_KEY)
    medians = medians.reindex(numbers)
    log_ns: Floats = np.log(medians.to_numpy(dtype=float))
    return log_ns


def _make_acceptance(
    machine: _Machine,
    run: Mapping[str, Any],
    rows: pd.DataFrame,
    descriptions: Descriptions,
) -> Acceptance:
    """Return the acceptance of a machine. run: the judged run's row of the table
    `runs`, {} if it cannot be read. rows: the machine's judged numbers.
    """
    failed = run.get("failed_bursts") or 0
    flagged = run.get("flagged_bursts") or 0
    # bursts that did not fail; 1 stands for none, so that nothing is divided by 0
    succeeded = run.get("bursts") or 1
    # benchmarks that only earlier runs have
    older_benchmarks = tuple(machine.dropped_benchmarks)
    return Acceptance(
        host=machine.host,
        run_id=machine.last_id,
        cpu_model=run.get("cpu_model"),
        rows=rows.reset_index(drop=True),
        descriptions=descriptions,
        failed=failed / (succeeded + failed),
        flagged=flagged / succeeded,
        older=older_benchmarks,
        empty=machine.empty_run_id,
    )

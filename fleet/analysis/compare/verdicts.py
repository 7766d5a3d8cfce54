"""Lay out the numbers of comparisons and judge them by the rules of `judge`
(docs/comparing.md).
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import (
    CHOICE_KEY,
    NUMBER_KEY,
    PAIR_KEY,
    Bools,
    Floats,
    Ints,
    number_groups,
)
from fleet.analysis.compare import judge
from fleet.analysis.compare.judge import ALPHA, MIN_AT_LEVEL, MIN_HOSTS
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.analysis.reduce.run_levels import label_levels_of_each

_COMPARISON_SIDE = ["comparison", "is_b"]
_COMPARISON_KEY = ["comparison", "key"]
ALL = "all"  # the relation of a change that all rows of a session share
THRESHOLD = 0.03
_LEAST_PRINTED_CHANGE = 0.0005  # a lesser one is printed as 0.0 %
# what a row with a longer time is, and one with a shorter time
_WORDS_OF_TIMES = ("slower", "faster")
_WORDS_OF_RATES = ("less", "more")
MAX_RUNS_ADVISED = 200  # a side, the most that messages name
# chance makes shares of levels as unlike in one of two comparisons; below that the
# sides are not equivalent
LIKELY_SHARES = 0.5
# of sessions with as many runs as a message advises: so many must have two runs of each
# side at a common level
_SHARE_OF_SESSIONS = 0.9
_COLUMNS = (
    "a_units",
    "b_units",
    "a_ns",
    "b_ns",
    "a_compared",
    "b_compared",
    "levels",
    "shares",
    "whole",
    "shared",
    "error",
    "freedom",
    "borrowed",
    "chance",
    "more",
    "ratio",
    "low",
    "high",
    "p",
    "q",
    "smallest",
    "verdict",
    "why",
)


class Verdict(StrEnum):
    """The conclusions of a comparison about one relation, in the order in which they
    are shown.
    """

    AT_ANOTHER_LEVEL = "at another level"
    CHANGED = "changed"
    EQUIVALENT = "equivalent"
    CANNOT_TELL = "cannot tell"
    NONE = "no verdict"


@dataclass(frozen=True, slots=True)
class SideRuns:
    """The numbers of one comparison, with the runs of both sides in order of time.

    rows: identifies each row of `log_ns`, by NUMBER_KEY at least. log_ns: logarithms of
    ns, a row per number, a column per run, NaN where a run lacks it. is_b: whether each
    run is of side B. turns: each run's turn; runs of several hosts with equal turns
    were measured together. sides: comparisons with equal `sides` are judged as one
    session; None: judged alone. blocks: each run's block to fit the change within;
    None: not requested.
    """

    rows: pd.DataFrame
    log_ns: Floats
    is_b: Bools
    turns: tuple[Hashable, ...]
    sides: Hashable = None
    blocks: Ints | None = None

    @property
    def keys(self) -> list[tuple[Any, bool]]:
        """Return each run's turn and whether it is of B; runs of hosts with equal keys
        belong together.
        """
        return list(zip(self.turns, self.is_b.tolist(), strict=True))


class _LeveledRuns(NamedTuple):
    """A host's comparison in a session, and the level of each of its numbers, of the
    shape of `runs.log_ns`, -1 where a run lacks it.
    """

    runs: SideRuns
    levels: Ints


class _Session(NamedTuple):
    """The shifts of runs that all hosts share, by `SideRuns.keys`, and how the shifts
    change from A to B: a change that the rows of all hosts share.

    shared_change: a logarithm. error, freedom: its standard error and degrees of
    freedom.
    """

    shifts: Mapping[tuple[Any, bool], float]
    shared_change: float
    error: float
    freedom: float

    def list_shifts(self, comparison: SideRuns) -> list[float]:
        """List the shift of each run of a comparison, 0 if it is not known."""
        return [self.shifts.get(key, 0.0) for key in comparison.keys]


_NO_SESSION = _Session({}, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Order:
    """How the units of a comparison are ordered. turns, blocks: by unit; without turns
    units stand by side and name. sides, blocks: as in `SideRuns`.
    """

    sides: Hashable = None
    turns: Mapping[str, tuple[str, int]] | None = None
    blocks: Mapping[str, object] | None = None

    def list_turns(self, is_b: Sequence[bool], units: Sequence[str]) -> list[Any]:
        """Return what to sort units by: the turn of each or, without turns, its side
        and name. is_b: whether each unit is of side B.
        """
        if self.turns is None:
            return list(zip(is_b, units, strict=True))
        return [self.turns[unit] for unit in units]

    def number_blocks(self, units: Sequence[str]) -> Ints | None:
        """Number the block of each unit from 0; None without blocks."""
        if self.blocks is None:
            return None
        blocks = [self.blocks[unit] for unit in units]
        numbers, _ = pd.factorize(np.array(blocks))
        return numbers


NO_ORDER = Order()


def lay_out_relations(numbers: pd.DataFrame, orders: Sequence[Order]) -> list[SideRuns]:
    """Lay out, for each comparison, a row per benchmark, variant and relation that both
    sides have: by benchmark and variant, then from A's shortest latency to its longest.

    numbers: a row per unit and relation, in order of comparison and side, with
    - `comparison`: the number of the comparison, from 0, and `is_b`: whether the row is
      of its side B;
    - `unit`: a run's ID or a host's name;
    - `benchmark`, `variant`, `relation`, and `key`: a number for these three;
    - `ns`, `spread` (the half interval within a run) and `pairs` (how many there are).
    orders: of the units of each comparison.

    The rows of the result also have `a_within` and `b_within`, the median `spread` of
    each side; the error of the change does not use these two.
    """
    is_b = numbers["is_b"]
    numbers_of_a = numbers[~is_b]
    numbers_of_b = numbers[is_b]
    # a choice: a benchmark with its variant, in the order of side A
    choice_of_a = number_groups(numbers_of_a, ["comparison", *CHOICE_KEY])
    choices = pd.Series(choice_of_a, numbers_of_a.index)
    # pandas joins by the index, so numbers of B get NaN; none is needed, since a row of
    # the table takes its choice from side A
    numbers = numbers.assign(choice=choices)
    table = _tabulate_units(numbers, orders)
    rows = _join_spreads(table.rows, numbers_of_a, numbers_of_b)
    nearest_first = _order_nearest_first(table)
    return _make_side_runs(table, rows, nearest_first)


def _join_spreads(
    rows: pd.DataFrame, numbers_of_a: pd.DataFrame, numbers_of_b: pd.DataFrame
) -> pd.DataFrame:
    """Return the names of rows with `pairs`, the most that A has, and `a_within`,
    `b_within`, the median half interval of each side. rows: one per comparison and key,
    a number for a benchmark, variant and relation. `pairs` is how many pairs a number
    is the median of; a run may lack some of them.
    """
    named_rows = rows[[*_COMPARISON_KEY, *NUMBER_KEY]]
    # columns with a value by comparison and key
    pairs_of_a = numbers_of_a.groupby(_COMPARISON_KEY)["pairs"]
    most_pairs = pairs_of_a.max()
    a_within = _compute_median_spread(numbers_of_a, "a_within")
    b_within = _compute_median_spread(numbers_of_b, "b_within")
    for column in (most_pairs, a_within, b_within):
        named_rows = named_rows.join(column, on=_COMPARISON_KEY)
    return named_rows.drop(columns=_COMPARISON_KEY)


def _compute_median_spread(numbers: pd.DataFrame, name: str) -> "pd.Series[float]":
    """Return the median half interval within a run, by comparison and key. name: what
    the column is called, `a_within` or `b_within`.
    """
    spread = numbers.groupby(_COMPARISON_KEY)["spread"]
    return spread.median().rename(name)


def _order_nearest_first(table: "_Table") -> list[Ints]:
    """Return the order of the rows of each comparison: by choice (benchmark and
    variant), then from A's shortest latency to its longest. The order is the places of
    the rows within their comparison, from 0: [1, 0] puts the second row first.
    """
    choice_of_row = table.rows["choice"].to_numpy()
    rows_in_order = []
    for row_range, units in zip(table.row_ranges, table.units, strict=True):
        logs_of_a = units.log_ns[:, ~units.is_b]
        means_of_a = logs_of_a.mean(axis=1)
        choices = choice_of_row[row_range]
        # `lexsort` sorts by its last key first
        nearest_first = np.lexsort((means_of_a, choices))
        rows_in_order.append(nearest_first)
    return rows_in_order


def judge_comparisons(
    comparisons: Sequence[SideRuns],
    threshold: float,
    *,
    questions: int = 1,
    are_pairs: bool = False,
    rates: Collection[str] = (),
) -> tuple[list[pd.DataFrame], dict[Hashable, pd.DataFrame]]:
    """Judge comparisons; return a table for each and, for each session of three hosts
    or more, a table of the changes over all hosts. A session is all comparisons with
    equal `sides`, one per host; these `sides` are the key of its table.

    threshold: the smallest change that matters, a share. questions: how many questions
    the command asks, such as which relations and which pairs have changed; each gets an
    equal part of the 5 % error rate. A shift that all hosts of a session share is one
    question more. are_pairs: whether rows are pairs; if so, leave out the rows that
    cannot be tested, and make no tables of sessions. rates: benchmarks whose numbers
    are shown as rates.

    A table has the rows of its comparison, and besides their columns:
    - `a_units`, `b_units`: how many runs of each side have the row;
    - `a_compared`, `b_compared`: how many of these are at the level that was compared;
    - `a_ns`, `b_ns`: the mean of the runs at the level that was compared;
    - `levels`: how many levels the runs are at;
    - `shares`: the probability that chance makes the shares of runs at each level as
      unlike as those of these sides;
    - `whole`: the change of the mean over all levels, a logarithm;
    - `shared`: the change of all hosts, a ratio, that was taken out; 1: none;
    - `ratio`: of B to A, with its 95 % interval `low`, `high`;
    - `error`, `freedom`, `p`: of that ratio's logarithm;
    - `borrowed`: how much of `freedom` comes from other rows;
    - `chance`: the probability that chance makes the levels of the sides differ; 0
      where no level of A was compared with another level of B;
    - `more`: how many runs of each side, with those it has, a row at several levels
      needs for a verdict; NaN for rows at one level, and for more than 200 runs;
    - `q`: p corrected for the number of rows and questions;
    - `smallest`: the change that would be found, a share;
    - `verdict`, `why`.
    """
    levels = _label_levels(comparisons)
    sessions = _estimate_shared_shifts(comparisons, levels)
    fits = _fit_rows(comparisons, levels, sessions)
    rows = _test_rows(fits)
    session_tables = []  # a table for each of `sessions`, in their order
    if not are_pairs:
        session_tables = _test_all_sessions(comparisons, sessions, rows)
    if any(session.shifts for session in sessions.values()):
        questions += 1
    # tables stay in this order: that of all rows, then those of sessions
    tables = _add_q_values([rows, *session_tables], questions)
    judged = [add_verdicts(table, threshold, rates) for table in tables]
    judged_rows, *judged_sessions = judged
    names_of_rows = comparisons[0].rows.columns  # equal in all comparisons
    judged_rows = judged_rows[[*names_of_rows, *_COLUMNS]]
    parts = _split_table(judged_rows, comparisons, only_tested=are_pairs)
    if are_pairs:
        return parts, {}
    return parts, dict(zip(sessions, judged_sessions, strict=True))


def _split_table(
    table: pd.DataFrame, comparisons: Sequence[SideRuns], *, only_tested: bool
) -> list[pd.DataFrame]:
    """Split a table that has the rows of all comparisons end to end into a table for
    each comparison. only_tested: whether to leave out rows without a p-value.
    """
    comparison_of_row = _number_comparisons(comparisons)
    if only_tested:
        is_tested = table["p"].notna().to_numpy()
        table = table[is_tested]
        comparison_of_row = comparison_of_row[is_tested]
    row_ranges = _find_ranges(comparison_of_row, len(comparisons))
    return [_slice_rows(table, row_range) for row_range in row_ranges]


def _slice_rows(table: pd.DataFrame, row_range: slice) -> pd.DataFrame:
    """Return a part of a table, numbered from 0; `reset_index` would copy it."""
    part = table.iloc[row_range]
    part.index = pd.RangeIndex(len(part))
    return part


def _number_comparisons(comparisons: Sequence[SideRuns]) -> Ints:
    """Return the number of each row's comparison, where the rows of all comparisons
    stand end to end: of one with 2 rows and one with 3, 0, 0, 1, 1, 1.
    """
    row_counts = [len(comparison.rows) for comparison in comparisons]
    count = len(comparisons)
    return np.repeat(np.arange(count), row_counts)


def _label_levels(comparisons: Sequence[SideRuns]) -> list[Ints]:
    """Return the level of each number of each comparison, an array of the shape of its
    `log_ns`. From run to run, a number may be at one of several levels
    (docs/measuring.md): they are numbered from 0, the lowest of the row; -1 where a run
    lacks the number.
    """
    # all at once, since grouping the rows of each comparison is slow
    rows = pd.concat([comparison.rows for comparison in comparisons])
    choice_of_row = number_groups(rows, CHOICE_KEY)
    comparison_of_row = _number_comparisons(comparisons)
    # levels are told apart by how far runs usually scatter, which is estimated over all
    # rows of a choice, a benchmark with its variant. So these rows are a group, and the
    # groups of each comparison are numbered from 0.
    groups = []
    for row_range in _find_ranges(comparison_of_row, len(comparisons)):
        choices = choice_of_row[row_range]
        _, choices_from_0 = np.unique(choices, return_inverse=True)
        groups.append(choices_from_0)
    log_ns = [comparison.log_ns for comparison in comparisons]
    return label_levels_of_each(log_ns, groups)


def _fit_rows(
    comparisons: Sequence[SideRuns],
    levels: Sequence[Ints],
    sessions: Mapping[Hashable, _Session],
) -> pd.DataFrame:
    """Return the rows of all comparisons end to end, with the columns of `judge_rows`
    and `shared`, the ratio by which all hosts of the session changed, which is taken
    out of the row; 1: nothing is taken out.

    levels: the level of each number of each comparison, an array of the shape of its
    `log_ns`. sessions: by `sides` of their comparisons.
    """
    session_of_each = [
        sessions.get(comparison.sides, _NO_SESSION) for comparison in comparisons
    ]
    comparison_of_row = _number_comparisons(comparisons)
    fits_of_groups = []
    for group in _group_by_order(comparisons):
        # arrays that hold the rows of the group's comparisons end to end
        columns = _fit_group(
            [comparisons[number] for number in group],
            [levels[number] for number in group],
            [session_of_each[number] for number in group],
        )
        # the places of these rows among those of all comparisons: both are in the order
        # of `comparisons`
        is_in_group = np.isin(comparison_of_row, group)
        rows_of_group = np.flatnonzero(is_in_group)
        fits = pd.DataFrame(columns, index=rows_of_group)
        fits_of_groups.append(fits)
    # the index has the numbers of the rows, by which the columns are joined
    all_fits = pd.concat(fits_of_groups)
    rows = pd.concat([comparison.rows for comparison in comparisons], ignore_index=True)
    shared_ratios = np.exp([session.shared_change for session in session_of_each])
    rows["shared"] = shared_ratios[comparison_of_row]
    return rows.join(all_fits)


def _fit_group(
    comparisons: Sequence[SideRuns],
    levels: Sequence[Ints],
    sessions: Sequence[_Session],
) -> dict[str, Any]:
    """Fit the rows of comparisons whose runs have one order of sides and blocks; return
    the columns of `judge_rows`, with the rows of all comparisons end to end. levels: an
    array of numbers x runs for each comparison. sessions: the session of each.
    """
    logs_of_comparisons = []
    shifts_of_comparisons = []
    row_counts = []
    for comparison, session in zip(comparisons, sessions, strict=True):
        logs_of_comparisons.append(comparison.log_ns)
        shifts = session.list_shifts(comparison)  # of each run
        shifts_of_comparisons.append(shifts)
        row_counts.append(len(comparison.rows))
    # rows x runs: each row of a comparison has the shifts of that comparison's runs
    shifts_of_rows = np.repeat(shifts_of_comparisons, row_counts, axis=0)
    log_ns = np.vstack(logs_of_comparisons)
    labels = np.vstack(levels)
    # all comparisons of a group have the order of the first
    is_b = comparisons[0].is_b
    blocks = comparisons[0].blocks
    return judge.judge_rows(log_ns, labels, is_b, blocks, shifts=shifts_of_rows)


def _group_by_order(comparisons: Sequence[SideRuns]) -> list[list[int]]:
    """Group comparisons whose runs have the same order of sides and blocks, to be
    fitted at once: [[0, 2], [1]] if the first and the third are alike.
    """
    numbers_by_order = dict[tuple[object, ...], list[int]]()
    for number, comparison in enumerate(comparisons):
        sides = tuple(comparison.is_b.tolist())
        blocks = None
        if comparison.blocks is not None:
            blocks = tuple(comparison.blocks.tolist())
        order = (sides, blocks)
        numbers = numbers_by_order.setdefault(order, [])
        numbers.append(number)
    return list(numbers_by_order.values())


def _estimate_shared_shifts(
    comparisons: Sequence[SideRuns], levels: Sequence[Ints]
) -> dict[Hashable, _Session]:
    """Estimate by how much each run shifted the numbers of all hosts alike. Return the
    sessions by the `sides` of their comparisons.

    Comparisons with equal `sides` are of one session, and each of them is of one host.
    A comparison whose `sides` is None is of no session. A session of fewer than three
    hosts is left out: a shift that so few share cannot be told from a change. levels:
    the level of each number of each comparison, an array of the shape of its `log_ns`.
    """
    hosts_by_sides = dict[Hashable, list[_LeveledRuns]]()
    for comparison, levels_of_host in zip(comparisons, levels, strict=True):
        hosts = hosts_by_sides.setdefault(comparison.sides, [])
        hosts.append(_LeveledRuns(comparison, levels_of_host))
    sessions = {}
    for sides, hosts in hosts_by_sides.items():
        if sides is not None and len(hosts) >= MIN_HOSTS:
            sessions[sides] = _estimate_session(hosts)
    return sessions


def _estimate_session(hosts: Sequence[_LeveledRuns]) -> _Session:
    """Estimate by how much each run of a session shifted the numbers of all hosts, and
    how these shifts change from side A to side B.

    Runs of several hosts that were measured together have one key: the turn, and
    whether the run is of B. The shift of a key is that of all of its runs.
    `shared_change`, `error` and `freedom` of the result are of the mean shift, from A
    to B.
    """
    all_keys = set[tuple[Any, bool]]()
    for host in hosts:
        all_keys.update(host.runs.keys)
    keys = sorted(all_keys)
    are_b = [is_of_b for _, is_of_b in keys]
    is_b = np.array(are_b, dtype=bool)
    # arrays with a column per key
    log_ns, levels = _join_hosts(hosts, keys)
    shifts = judge.estimate_session_shifts(log_ns, levels, is_b)
    if not shifts.any():
        return _NO_SESSION
    # the shifts are judged as the runs of a single number would be
    passes = judge.assign_passes(is_b, judge.MIN_PASSES)
    one_row = shifts[None, :]
    fit = judge.fit_within_blocks(one_row, is_b, passes)
    shift_of_key = zip(keys, shifts.tolist(), strict=True)
    return _Session(
        shifts=dict(shift_of_key),
        shared_change=float(fit.change[0]),
        error=float(fit.error[0]),
        freedom=float(fit.freedom[0]),
    )


def _join_hosts(
    hosts: Sequence[_LeveledRuns], keys: Sequence[Any]
) -> tuple[Floats, Ints]:
    """Stack the rows of all hosts, with a column for each of `keys`; return the numbers
    and their levels. The key of a run is its turn and whether it is of side B. A number
    is NaN, and its level -1, where a host lacks the run.
    """
    column_of_key = {key: column for column, key in enumerate(keys)}
    logs_of_hosts = []
    levels_of_hosts = []
    for host in hosts:
        # for each run of the host, its column among those of all hosts
        columns = [column_of_key[key] for key in host.runs.keys]
        row_count = len(host.levels)
        shape = (row_count, len(keys))
        log_ns = np.full(shape, np.nan)
        log_ns[:, columns] = host.runs.log_ns
        logs_of_hosts.append(log_ns)
        levels = np.full(shape, -1)
        levels[:, columns] = host.levels
        levels_of_hosts.append(levels)
    all_logs = np.vstack(logs_of_hosts)
    all_levels = np.vstack(levels_of_hosts)
    return all_logs, all_levels


def _test_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Test the change of each row, and the difference of its levels where levels were
    compared.

    rows: with the columns of `judge_rows`; `change` is NaN where the runs are too few
    to be tested. Variances are moderated over all rows: few runs say little about how
    far a number scatters, so that each row borrows from the others. Replace `freedom`
    by that of the moderated variance, and add
    - `error`: the standard error of the change;
    - `borrowed`: how many degrees of freedom the other rows added;
    - `chance`, `more`: of the levels, from `_test_levels`;
    - `ratio`, `low`, `high`, `p`: of the change, from `_apply_student`.
    """
    has_change = rows["change"].notna()
    is_tested = has_change.to_numpy()
    own_variance = rows["variance"].to_numpy()
    own_freedom = rows["freedom"].to_numpy()
    variance, freedom = judge.moderate_where(is_tested, own_variance, own_freedom)
    rows = _test_levels(rows, is_tested)
    # `variance` is of a run; times `scale`, it is that of the change
    variance_of_change = variance * rows["scale"]
    rows["error"] = np.sqrt(variance_of_change)
    rows["borrowed"] = freedom - own_freedom
    rows["freedom"] = freedom
    table = _apply_student(rows)
    # without a fitted change, `ratio` is NaN: the ratio of the means is shown instead
    ratio_of_means = rows["b_ns"] / rows["a_ns"]
    table["ratio"] = table["ratio"].where(is_tested, ratio_of_means)
    return table


def _test_levels(rows: pd.DataFrame, is_tested: Bools) -> pd.DataFrame:
    """Add two columns:
    - `chance`: the probability that chance makes the main levels of the sides differ; 0
      where no level of A was compared with another level of B;
    - `more`: how many runs each side must have in all for a verdict on a row at several
      levels; NaN for rows at one level, and for more than 200 runs.

    rows: with the columns of `judge_rows`. is_tested: whether each row has a change.
    The rate at which runs are at another level than most of their side is estimated
    over all rows.
    """
    at_main_level, all_runs = _read_counts(rows)  # rows x sides
    rate = _estimate_rate(at_main_level, all_runs)
    chance = judge.compute_level_probability(at_main_level, all_runs, rate)
    are_levels_apart = rows["are_apart"].to_numpy()
    compares_levels = are_levels_apart & is_tested
    p_levels = np.where(compares_levels, chance, 0.0)
    level_counts = rows["levels"].to_numpy()
    has_several = level_counts > 1
    tests = is_tested.sum()
    runs_of_several = _count_runs_to_tell(rows[has_several], rate, tests)
    runs_to_tell = judge.put_where(has_several, runs_of_several)
    return rows.assign(chance=p_levels, more=runs_to_tell)


def _read_counts(rows: pd.DataFrame) -> tuple[Ints, Ints]:
    """Return how many runs are at the main level of their side, and how many the side
    has: two arrays of rows x sides.
    """
    at_main_level = rows[["a_at_main", "b_at_main"]]
    all_runs = rows[["a_units", "b_units"]]
    return at_main_level.to_numpy(), all_runs.to_numpy()


def _estimate_rate(at_main_level: Ints, all_runs: Ints) -> float:
    """Return how often a run is at another level than most; never 0 or 1. Both
    arguments count runs, rows x sides.
    """
    runs = all_runs.sum()
    runs_elsewhere = (all_runs - at_main_level).sum()
    # half a run is added to those elsewhere, and half a run to the others
    rate = (runs_elsewhere + 0.5) / (runs + 1)
    return float(rate)


def _test_all_sessions(
    comparisons: Sequence[SideRuns],
    sessions: Mapping[Hashable, _Session],
    rows: pd.DataFrame,
) -> list[pd.DataFrame]:
    """Test the changes over all hosts of each session; return a table for each of
    `sessions`, in their order. sessions: by `sides` of their comparisons. rows: the
    tested rows of all comparisons end to end.
    """
    comparison_of_row = _number_comparisons(comparisons)
    tables = []
    for sides, session in sessions.items():
        numbers_of_session = []  # of its comparisons, each of which is of one host
        for number, comparison in enumerate(comparisons):
            if comparison.sides == sides:
                numbers_of_session.append(number)
        is_of_session = np.isin(comparison_of_row, numbers_of_session)
        rows_of_session = rows[is_of_session]
        host_count = len(numbers_of_session)
        table = _test_all_hosts(rows_of_session, host_count, session)
        tables.append(table)
    return tables


def _apply_student(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `ratio`, its 95 % interval `low` to `high`, and `p`, from `change`, a
    logarithm, its `error` and `freedom`.

    `chance` is the p-value of the levels: how likely chance makes the main levels of
    the sides differ; 0 where runs at one level were compared. A row has to pass both
    tests: `p` is the larger p-value. Where `chance` is 5 % or more, the interval is
    extended to the ratio 1.
    """
    change = _read_floats(rows, "change")
    error = _read_floats(rows, "error")
    freedom = _read_floats(rows, "freedom")
    p_levels = _read_floats(rows, "chance")
    # as logarithms: a ratio of 1 is 0
    low, high, p = judge.apply_student(change, error, freedom)
    may_be_chance = p_levels >= ALPHA
    # `fmin` and `fmax` ignore NaN: an unknown end becomes 0
    low_until_0 = np.fmin(low, 0)
    high_until_0 = np.fmax(high, 0)
    low = np.where(may_be_chance, low_until_0, low)
    high = np.where(may_be_chance, high_until_0, high)
    return rows.assign(
        ratio=np.exp(change),
        low=np.exp(low),
        high=np.exp(high),
        p=np.maximum(p, p_levels),
    )


def _read_floats(rows: pd.DataFrame, name: str) -> Floats:
    """Return a column as an array of floats, with NaN where it has no value."""
    return rows[name].to_numpy(dtype=np.float64)


def _add_q_values(tables: Sequence[pd.DataFrame], questions: int) -> list[pd.DataFrame]:
    """Add `q` to tables: their p corrected over the rows of all tables together, by
    Benjamini and Hochberg.

    questions: how many sets of rows the command tests, each with an equal part of the
    5 %: q is multiplied by their number. Rows of the relation ALL are a set of their
    own: they ask what all hosts have in common, not what one relation does.
    """
    rows = pd.concat([table[["relation", "p"]] for table in tables])
    p = _read_floats(rows, "p")
    is_of_all = (rows["relation"] == ALL).to_numpy()
    q_of_set = _compute_q_of_sets(p, is_of_all)
    # by Bonferroni: each question is one more chance of a false discovery
    q = np.minimum(q_of_set * questions, 1.0)
    tables_with_q = []
    first = 0  # the place in `q` of the table's first row
    for table in tables:
        end = first + len(table)
        q_of_table = q[first:end]
        tables_with_q.append(table.assign(q=q_of_table))
        first = end
    return tables_with_q


def _compute_q_of_sets(p: Floats, is_in_first: Bools) -> Floats:
    """Return Benjamini and Hochberg's q of each p within its set. is_in_first: whether
    each p is of the first of two sets.
    """
    q = np.full(len(p), np.nan)
    for is_in_set in (is_in_first, ~is_in_first):
        q[is_in_set] = judge.control_false_discovery(p[is_in_set])
    return q


def _count_runs_to_tell(rows: pd.DataFrame, rate: float, tests: int) -> Floats:
    """Estimate how many runs of each side a row at several levels needs for a verdict,
    more than it has; NaN for more than 200.

    There are two kinds of verdict:
    - Where a level of A was compared with another level of B (`are_apart`), the verdict
      is that these levels differ. So many runs are enough that chance seldom makes
      levels differ in any of `tests` rows (`_can_prove_levels_differ`).
    - Elsewhere, runs at one level are to be compared. So many runs are enough that in
      nine sessions of ten, two runs of each side are at the level
      (`_can_compare_at_level`).

    rate: how often a run is at another level than most of its side.
    """
    at_main_level, all_runs = _read_counts(rows)  # rows x sides
    divisor = np.maximum(all_runs, 1)
    shares_at_main = at_main_level / divisor
    # arrays of rows x 1; the side with fewer of its runs at its main level needs more
    lower_share = shares_at_main.min(axis=1, keepdims=True)
    # more runs than the larger side has are to be advised
    most_runs = all_runs.max(axis=1, keepdims=True)
    are_apart = rows[["are_apart"]].to_numpy()
    # the numbers of runs to try; the arrays below are rows x these numbers
    runs = np.arange(MIN_RUNS, MAX_RUNS_ADVISED + 1)
    proves_difference = _can_prove_levels_differ(lower_share, runs, rate, tests)
    has_common_level = _can_compare_at_level(lower_share, runs)
    gives_verdict = np.where(are_apart, proves_difference, has_common_level)
    is_more = runs > most_runs
    return _find_fewest(gives_verdict & is_more, runs)


def _find_fewest(is_enough: Bools, runs: Ints) -> Floats:
    """Return for each row the first of the numbers `runs` that is enough, NaN if no
    number is. is_enough: rows x numbers of runs.
    """
    first_place = is_enough.argmax(axis=1)  # of the first True, 0 if there is none
    fewest = runs[first_place]
    is_any_enough = is_enough.any(axis=1)
    return np.where(is_any_enough, fewest, np.nan)


def _can_prove_levels_differ(
    share: Floats, runs: Ints, rate: float, tests: int
) -> Bools:
    """Report which numbers of runs are enough to prove that the levels of the sides
    differ: with so many, chance hardly ever puts so large a share of a side's runs at
    another level, in any of `tests` rows.

    share: this share, a column with a value per row. runs: the numbers of runs to try.
    rate: how often a run is at another level. Return an array of rows x numbers of
    runs.
    """
    runs_at_another = np.ceil(share * runs)
    rates = np.full(share.shape, rate)
    chance_of_a_side = _compute_chance_of_side(runs_at_another, runs, rates)
    # either side may be the one at another level, so there are two chances
    chance = 2 * chance_of_a_side
    limit = ALPHA / max(tests, 1)  # by Bonferroni
    return np.asarray(chance < limit)


def _can_compare_at_level(share: Floats, runs: Ints) -> Bools:
    """Report which numbers of runs are enough to compare the sides at a level: with so
    many, at least two runs of a side are nearly always there.

    share: of a side's runs, how many are at the level; a column, one of each row. runs:
    the numbers of runs to try. Return an array of rows x numbers of runs.
    """
    shape = (len(share), len(runs))
    runs_at_level = np.full(shape, float(MIN_AT_LEVEL))
    chance = _compute_chance_of_side(runs_at_level, runs, share)
    return np.asarray(chance > _SHARE_OF_SESSIONS)


def _compute_chance_of_side(runs_at_level: Floats, runs: Ints, rates: Floats) -> Floats:
    """Return how likely it is that so many of a side's runs, or more, are at a level;
    an array of rows x numbers of runs, as `runs_at_level`. rates: how often a run of
    the row is at the level, a column.
    """
    # the last axis is that of the sides, over which probabilities are summed: here, of
    # one side
    return judge.compute_level_probability(
        runs_at_level[:, :, None],
        runs[:, None],
        rates[:, :, None],
    )


def _describe_power(row: Mapping[Any, Any], target_log: float) -> str:
    """Describe the smallest change that would be found, and how many runs would show a
    change of `target_log`, a logarithm, if `target_log` is smaller: "would show a
    change of 9.2% or more; for 6%, about 12 runs a side".
    """
    smallest = row["smallest"]  # a share: 0.02 is 2 %, and 1 a factor of two
    if np.isnan(smallest) or smallest > 1:
        return "would show no change below a factor of two"
    words = f"would show a change of {smallest:.1%} or more"
    smallest_log = float(np.log1p(smallest))
    times_too_coarse = smallest_log / target_log
    # rows of means over hosts have no column of how many runs a side has
    has_runs = "a_units" in row
    if times_too_coarse <= 1 or not has_runs:
        return words
    # the error falls with the root of the number of runs
    needed = np.ceil(_average_runs(row) * times_too_coarse**2)
    return f"{words}; for {np.expm1(target_log):.0%}, about {needed:.0f} runs a side"


def _average_runs(row: Mapping[Any, Any]) -> float:
    """Return the harmonic mean of how many runs the sides have: with so many runs on
    each side, the error would be the same, since its square is proportional to
    1 / a_units + 1 / b_units.
    """
    inverse_sum = 1 / row["a_units"] + 1 / row["b_units"]
    return float(2 / inverse_sum)


def lay_out_pairs(pairs: pd.DataFrame, orders: Sequence[Order]) -> list[SideRuns]:
    """Lay out, for each comparison, a row per pair that every unit has.

    pairs: a row per unit and pair, in order of comparison and side, with the columns
    `comparison`, `is_b`, `unit` (a run's ID or a host's name), those of PAIR_KEY, `ns`,
    and `key`: the number of the pair among all distinct ones, which are sorted by
    PAIR_KEY. Both sides of a comparison must have one topology. orders: of the units of
    each comparison.
    """
    table = _tabulate_units(pairs, orders)
    # for each comparison, which of its own rows have a number of every unit
    complete_rows = []
    for units in table.units:
        is_missing = np.isnan(units.log_ns)
        is_complete = ~is_missing.any(axis=1)
        complete_rows.append(np.flatnonzero(is_complete))
    names_of_pairs = table.rows[PAIR_KEY]
    return _make_side_runs(table, names_of_pairs, complete_rows)


class _Units(NamedTuple):
    """Numbers of a comparison's units as logarithms: a row per key that both sides
    have, a column per unit in order of their turns, NaN where missing.
    """

    log_ns: Floats
    is_b: Bools
    turns: tuple[Hashable, ...]
    blocks: Ints | None
    sides: Hashable


class _Table(NamedTuple):
    """All comparisons. rows: side A's first row of each key that both sides have, in
    order of comparison and key. row_ranges: which of `rows` each comparison has.
    """

    rows: pd.DataFrame
    row_ranges: list[slice]
    units: list[_Units]


def _tabulate_units(numbers: pd.DataFrame, orders: Sequence[Order]) -> _Table:
    """Lay out the numbers of each comparison: a row per key that both sides have, a
    column per unit.

    numbers: a row per unit and key, in order of comparison and side. A key numbers what
    is compared, a relation or a pair; a unit is the run or host that it was measured
    in. orders: of the units of each comparison.
    """
    is_measured = numbers["ns"].notna()
    numbers = numbers[is_measured]
    unit_names = [*_COMPARISON_SIDE, "unit"]
    units = numbers[unit_names].drop_duplicates()
    # units are numbered over all comparisons, in the order of `units`
    unit_of_number = number_groups(numbers, unit_names)
    numbers = numbers.assign(column=unit_of_number)
    # adds `row`, a number per comparison and key; drops keys that only one side has
    numbers = _number_shared_keys(numbers)
    rows = _select_first_of_each_row(numbers)
    # which of `rows` are of each comparison
    row_ranges = _find_ranges_by_comparison(rows, len(orders))
    units_of_comparisons = _lay_out_units(numbers, units, row_ranges, orders)
    return _Table(rows, row_ranges, units_of_comparisons)


def _lay_out_units(
    numbers: pd.DataFrame,
    units: pd.DataFrame,
    row_ranges: Sequence[slice],
    orders: Sequence[Order],
) -> list[_Units]:
    """Lay out the numbers of each comparison, a row per key and a column per unit.

    numbers: in order of comparison; `row` and `column` are the place of each in one
    array for all comparisons. In this array, the rows of a comparison follow those of
    the comparison before it, and so do its columns. units: the unit of each column.
    row_ranges: which rows each comparison has.
    """
    cells = _Cells.read(numbers)
    is_b = units["is_b"].to_numpy()
    names = units["unit"].tolist()
    # which columns, each a row of `units`, and which of `numbers` a comparison has
    column_ranges = _find_ranges_by_comparison(units, len(orders))
    cell_ranges = _find_ranges_by_comparison(numbers, len(orders))
    units_of_comparisons = []
    for number, order in enumerate(orders):
        own_cells = cell_ranges[number]
        own_rows = row_ranges[number]
        own_columns = column_ranges[number]
        log_ns = cells.lay_out(own_cells, own_rows, own_columns)
        ordered = _order_units(log_ns, is_b[own_columns], names[own_columns], order)
        units_of_comparisons.append(ordered)
    return units_of_comparisons


def _select_first_of_each_row(numbers: pd.DataFrame) -> pd.DataFrame:
    """Select, for each value of the column `row`, the first number of side A, in the
    order of these values. `row` numbers the keys of all comparisons.
    """
    numbers_of_a = numbers[~numbers["is_b"]]
    first_rows = numbers_of_a.drop_duplicates("row")
    return first_rows.sort_values("row", ignore_index=True)


def _find_ranges_by_comparison(table: pd.DataFrame, count: int) -> list[slice]:
    """Return which rows of a table each of `count` comparisons has. The table is sorted
    by `comparison`, the number of the comparison.
    """
    comparisons = table["comparison"].to_numpy()
    return _find_ranges(comparisons, count)


class _Cells(NamedTuple):
    """Numbers one after another, as logarithms, with the row and the column of each in
    an array of all comparisons.
    """

    row: Ints
    column: Ints
    log_ns: Floats

    def lay_out(self, cells: slice, rows: slice, columns: slice) -> Floats:
        """Return the array of one comparison, NaN where a number is missing.

        cells: which numbers are of the comparison. rows, columns: its part of the array
        of all comparisons, in which `row` and `column` count.
        """
        row_count = rows.stop - rows.start
        column_count = columns.stop - columns.start
        log_ns = np.full((row_count, column_count), np.nan)
        own_row = self.row[cells] - rows.start
        own_column = self.column[cells] - columns.start
        log_ns[own_row, own_column] = self.log_ns[cells]
        return log_ns

    @classmethod
    def read(cls, numbers: pd.DataFrame) -> "_Cells":
        """Take the cells of `numbers`, with `row` and `column`."""
        ns = _read_floats(numbers, "ns")
        return cls(
            row=numbers["row"].to_numpy(),
            column=numbers["column"].to_numpy(),
            log_ns=np.log(ns),
        )


def _order_units(
    log_ns: Floats, is_b: Bools, names: Sequence[str], order: Order
) -> _Units:
    """Order the columns of `log_ns`, each a run or host, by their turns in time or, if
    these are unknown, by side and name. is_b, names: of each column.
    """
    turns = order.list_turns(is_b.tolist(), names)
    columns = range(len(names))
    column_order = sorted(columns, key=lambda column: turns[column])
    names_in_order = [names[column] for column in column_order]
    return _Units(
        log_ns=log_ns[:, column_order],
        is_b=is_b[column_order],
        turns=tuple(turns[column] for column in column_order),
        blocks=order.number_blocks(names_in_order),
        sides=order.sides,
    )


def _number_shared_keys(numbers: pd.DataFrame) -> pd.DataFrame:
    """Number the keys that both sides of a comparison have: add `row`, a number from 0
    for each comparison and key, in their order. Drop the numbers of other keys.
    """
    names = [*_COMPARISON_KEY, "is_b"]
    keys = numbers[names].drop_duplicates()
    is_b = keys.pop("is_b")
    keys_of_a = keys[~is_b]
    keys_of_b = keys[is_b]
    # an inner join: keys that only one side has are dropped
    shared_keys = keys_of_a.merge(keys_of_b, on=_COMPARISON_KEY)
    shared_keys = shared_keys.sort_values(_COMPARISON_KEY)
    shared_keys["row"] = np.arange(len(shared_keys))
    return numbers.merge(shared_keys, on=_COMPARISON_KEY)


def _find_ranges(comparisons: Ints, count: int) -> list[slice]:
    """Return the rows of each of `count` comparisons. comparisons: the number of each
    row's, in rising order: 0, 0, 2 gives the slices 0:2, 2:2 and 2:3.
    """
    # where the rows of each comparison begin, and where those of the last end
    numbers = np.arange(count + 1)
    edges = np.searchsorted(comparisons, numbers)
    return [slice(first, end) for first, end in pairwise(edges.tolist())]


def _make_side_runs(
    table: _Table, rows: pd.DataFrame, chosen_rows: Sequence[Ints]
) -> list[SideRuns]:
    """Make SideRuns of chosen rows of each comparison. rows: those of the table, with
    the columns to show. chosen_rows: which rows to take from each comparison, in order;
    0 is its first.
    """
    rows_of_comparisons = _choose_rows(table, rows, chosen_rows)
    # for each comparison: its units, its chosen rows, and which rows these are
    parts = zip(table.units, rows_of_comparisons, chosen_rows, strict=True)
    side_runs = []
    for units, own_rows, chosen in parts:
        runs = SideRuns(
            rows=own_rows,
            log_ns=units.log_ns[chosen],
            is_b=units.is_b,
            turns=units.turns,
            sides=units.sides,
            blocks=units.blocks,
        )
        side_runs.append(runs)
    return side_runs


def _choose_rows(
    table: _Table, rows: pd.DataFrame, chosen_rows: Sequence[Ints]
) -> list[pd.DataFrame]:
    """Return the chosen rows of each comparison. rows: of all comparisons, as in
    `table`. chosen_rows: which rows to take from each comparison, in order; 0 is its
    first.
    """
    positions = []  # of the chosen rows of each comparison in `rows`
    for row_range, chosen in zip(table.row_ranges, chosen_rows, strict=True):
        positions.append(row_range.start + chosen)
    # all at once, since selecting rows of each comparison is slow
    all_positions = np.concatenate(positions)
    all_chosen = rows.iloc[all_positions]
    all_chosen = all_chosen.reset_index(drop=True)
    rows_of_comparisons = []
    first = 0  # the place in `all_chosen` of the comparison's first row
    for chosen in chosen_rows:
        end = first + len(chosen)
        rows_of_comparisons.append(all_chosen.iloc[first:end])
        first = end
    return rows_of_comparisons


def number_keys(rows: pd.DataFrame, names: Sequence[str]) -> Ints:
    """Number each row's combination of the columns `names`, from 0 in sorted order."""
    groups = rows.groupby(list(names), sort=True, dropna=False, observed=True)
    return np.asarray(groups.ngroup(), dtype=np.int64)


def reduce_to_relations(pairs: pd.DataFrame) -> pd.DataFrame:
    """Reduce pairs to a row per unit and relation for `lay_out_relations`: the medians
    of their `ns` and `spread`, and how many there are. pairs: as in `lay_out_pairs`,
    with `spread`, the half interval within a run.
    """
    keys = [*_COMPARISON_SIDE, "unit", *NUMBER_KEY]
    groups = pairs.groupby(keys, sort=False, observed=True)
    relations = groups.agg(
        ns=("ns", "median"),
        spread=("spread", "median"),
        pairs=("ns", "size"),
    ).reset_index()
    relations["key"] = number_keys(relations, NUMBER_KEY)
    return relations


def _test_all_hosts(rows: pd.DataFrame, hosts: int, session: _Session) -> pd.DataFrame:
    """Test the mean change of three or more hosts by relation; add a row for the change
    that all rows of the session share, if any. rows: the rows of all hosts of the
    session, tested. hosts: how many hosts the session has. `shared` of the result is
    that change as a ratio, which was taken out of the rows.
    """
    is_tested = rows["p"].notna()
    table = _average_hosts(rows[is_tested])
    table["shared"] = float(np.exp(session.shared_change))
    has_shared_change = bool(session.shifts)
    if has_shared_change:
        shared_row = _make_row_of_all(session, hosts)
        shared_rows = pd.DataFrame([shared_row])
        table = pd.concat([table, shared_rows], ignore_index=True)
    # a mean over hosts has one level: chance cannot make levels differ, and `more`, how
    # many runs it takes to tell levels apart, does not apply
    table = table.assign(chance=0.0, levels=1, more=np.nan)
    table = _apply_student(table)
    return table.drop(columns="change")


def _average_hosts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean change over hosts of each relation that three hosts have, with
    its standard error and degrees of freedom. rows: a row per host and relation.
    """
    changes = rows.groupby(NUMBER_KEY, sort=False)["change"]
    table = changes.agg(hosts="count", change="mean", variance="var").reset_index()
    has_enough_hosts = table["hosts"] >= MIN_HOSTS
    table = table[has_enough_hosts].reset_index(drop=True)
    hosts = table["hosts"]
    variance = table.pop("variance")
    variance = variance.clip(lower=judge.ROUNDING)
    variance_of_mean = variance / hosts
    table["error"] = np.sqrt(variance_of_mean)
    table["freedom"] = hosts - 1.0
    return table


def _make_row_of_all(session: _Session, hosts: int) -> dict[str, Any]:
    """Return the row of the change that all rows of a session share, with the columns
    of `_average_hosts`, and `shared`, the ratio that was taken out of a row: for this
    row it is 1, since nothing was. hosts: how many hosts the session has.
    """
    return {
        "benchmark": "",
        "variant": "",
        "relation": ALL,
        "hosts": hosts,
        "change": session.shared_change,
        "error": session.error,
        "freedom": session.freedom,
        "shared": 1.0,
    }


def add_verdicts(
    rows: pd.DataFrame, threshold: float, rates: Collection[str] = ()
) -> pd.DataFrame:
    """Add `smallest`, `verdict` and `why` to rows. threshold: the smallest change that
    matters, a share. rates: benchmarks of which less is worse.
    """
    is_tested = rows["p"].notna()
    tests = int(is_tested.sum())
    smallest = _estimate_smallest(rows, threshold, tests)
    rows = rows.assign(smallest=smallest)
    verdicts = []
    reasons = []
    for row in rows.to_dict("records"):
        words = _WORDS_OF_TIMES
        if row["benchmark"] in rates:
            words = _WORDS_OF_RATES
        # the ratio is of times in ns, also where they are shown as rates
        word_if_longer, word_if_shorter = words
        direction = word_if_longer if row["ratio"] > 1 else word_if_shorter
        verdict, why = _choose_verdict(row, threshold, tests, direction)
        verdicts.append(str(verdict))
        reasons.append(why)
    return rows.assign(verdict=verdicts, why=reasons)


def _estimate_smallest(rows: pd.DataFrame, threshold: float, tests: int) -> Floats:
    """Return the smallest change of each row that would be found, as a share: 0.02 is
    2 %. threshold: the smallest change that matters, a share. tests: how many rows are
    tested.
    """
    is_significant = rows["q"] < ALPHA
    significant_count = int(is_significant.sum())
    # by Benjamini and Hochberg, the row of rank k is significant if its p is at most
    # ALPHA * k / tests: this is the p that one more significant row would need
    next_rank = significant_count + 1
    alpha_of_next = ALPHA * next_rank / max(tests, 1)
    # `error` is of a logarithm, and so is the smallest change
    error = _read_floats(rows, "error")
    freedom = _read_floats(rows, "freedom")
    smallest_log = judge.estimate_detectable_change(
        error,
        freedom,
        alpha=min(alpha_of_next, ALPHA),
        matters=float(np.log1p(threshold)),
    )
    return np.asarray(np.expm1(smallest_log))


def _choose_verdict(
    row: Mapping[Any, Any], threshold: float, tests: int, direction: str
) -> tuple[Verdict, str]:
    """Return the first verdict that applies to a row, and the reason for it.

    row: of a table of `judge_comparisons`. threshold: the smallest change that matters,
    a share. tests: how many rows are tested. direction: what the row has become, such
    as slower.
    """
    if np.isnan(row["p"]):
        return Verdict.NONE, _explain_no_test(row)
    limit = float(np.log1p(threshold))
    change = np.log(row["ratio"])
    is_large = abs(change) > limit
    is_significant = row["q"] < ALPHA
    if is_large and is_significant:
        return Verdict.CHANGED, _describe_change(row, threshold, direction)
    # runs at a common level may be equal, and yet the sides differ in how many of their
    # runs are there
    is_within_limit = _is_interval_within(row, limit)
    if is_within_limit and not are_shares_unlike(row, threshold):
        return Verdict.EQUIVALENT, _describe_equality(row, threshold)
    if _compares_levels(row):
        return Verdict.AT_ANOTHER_LEVEL, _describe_levels(row)
    return Verdict.CANNOT_TELL, _explain_no_answer(row, threshold, tests)


def _is_interval_within(row: Mapping[Any, Any], limit: float) -> bool:
    """Report whether the interval of a row's ratio, `low` to `high`, is within a limit
    around the ratio 1. limit: the size of a logarithm.
    """
    # how far the interval reaches on either side of the ratio 1, as logarithms;
    # negative if the whole interval is on the other side
    below = -np.log(row["low"])
    above = np.log(row["high"])
    return bool(max(below, above) < limit)


def _compares_levels(row: Mapping[Any, Any]) -> bool:
    """Report whether one level of A was compared with another of B: only then may
    chance make levels differ, and the probability `chance` is not 0.
    """
    return bool(row["chance"] > 0)


def _explain_no_test(row: Mapping[Any, Any]) -> str:
    """Say why a row could not be tested."""
    if row["levels"] > 1:
        return _describe_levels(row)
    return "too few runs"


def _has_shared_change(row: Mapping[Any, Any]) -> bool:
    """Report whether a change of all hosts was taken out of the row, large enough to be
    printed as one.
    """
    shared_ratio = row["shared"]  # 1: nothing was taken out
    shared_change = abs(shared_ratio - 1)
    return bool(shared_change >= _LEAST_PRINTED_CHANGE)


def _describe_equality(row: Mapping[Any, Any], threshold: float) -> str:
    """Say within which threshold a row is equal: "within ±3%", or "within ±3% of all
    hosts".
    """
    words = f"within ±{threshold * 100:g}%"
    if _has_shared_change(row):
        words += " of all hosts"
    return words


def _describe_change(row: Mapping[Any, Any], threshold: float, direction: str) -> str:
    """Say in which direction a row changed, and whether surely beyond the threshold:
    "slower than all hosts, by more than 3%" or "slower, perhaps by less than 3%".

    The interval of the ratio, `low` to `high`, lies on one side of 1.
    """
    if _has_shared_change(row):
        direction += " than all hosts"
    low = np.log(row["low"])
    high = np.log(row["high"])
    smallest_likely = min(abs(low), abs(high))
    size = "perhaps by less than"
    if smallest_likely > np.log1p(threshold):
        size = "by more than"
    return f"{direction}, {size} {threshold * 100:g}%"


def _explain_no_answer(row: Mapping[Any, Any], threshold: float, tests: int) -> str:
    """Say why a row is neither changed nor equivalent, by the first reason that
    applies. tests: how many rows are tested.
    """
    if are_shares_unlike(row, threshold):
        return _describe_shares(row)
    # significant, but neither changed nor equivalent: the ratio is within the
    # threshold, and its interval reaches beyond
    if row["q"] < ALPHA:
        return f"a change, but perhaps below {threshold * 100:g}%"
    if row["levels"] > 1:
        return _describe_levels(row)
    # significant alone, but not among so many tests
    if row["p"] < ALPHA and tests > 1:
        return f"may be chance: 1 of {tests} relations"
    # a change as small as the threshold is never surely beyond the threshold, with any
    # number of runs; a change of twice the threshold can be shown to be
    target_log = 2 * float(np.log1p(threshold))
    return _describe_power(row, target_log)


def are_shares_unlike(row: Mapping[Any, Any], threshold: float) -> bool:
    """Report whether the sides have runs at the same levels, but in unlike shares: so
    unlike as chance makes them in fewer than half of all comparisons of equal sides,
    and so that the mean over all levels moves beyond the threshold.
    """
    has_levels = row["levels"] > 1
    # where a level of A was compared with another of B, the verdict is about these
    # levels, and not about shares
    if not has_levels or _compares_levels(row):
        return False
    # the probability that chance makes the shares as unlike as they are, or more
    p_of_shares = row["shares"]
    # by how much the mean over all levels moved, a logarithm
    change_of_mean = row["whole"]
    is_unlike = p_of_shares < LIKELY_SHARES
    moves_mean = abs(change_of_mean) > np.log1p(threshold)
    return bool(is_unlike and moves_mean)


def _describe_shares(row: Mapping[Any, Any]) -> str:
    """Say how many runs of each side are not at the level that was compared: "B at a
    second level in 4 of 8 runs, A in 1 of 8".
    """
    words = dict[str, str]()
    shares = dict[str, float]()
    for side in ("a", "b"):
        total = row[f"{side}_units"]
        off = total - row[f"{side}_compared"]
        words[side] = f"{off} of {total}"
        shares[side] = off / total
    less, more = sorted(shares, key=shares.__getitem__)
    return (
        f"{more.upper()} at a second level in {words[more]} runs, {less.upper()} in"
        f" {words[less]}"
    )


def _describe_levels(row: Mapping[Any, Any]) -> str:
    """Say how many levels a row has, and how many runs would give a verdict, if that is
    known: "2 levels; about 12 runs a side would tell".
    """
    words = f"{row['levels']:.0f} levels"
    runs_to_tell = row["more"]
    if np.isnan(runs_to_tell):
        return words
    return f"{words}; about {runs_to_tell:.0f} runs a side would tell"

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

from fleet.analysis.base.tables import Bools, Floats, Ints, number_groups
from fleet.analysis.compare import judge
from fleet.analysis.compare.judge import ALPHA, MIN_AT_LEVEL, MIN_HOSTS
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.analysis.reduce.run_levels import label_levels_of_each

CLASS = ["benchmark", "variant", "relation"]
CELL = [*CLASS, "ping_cpu", "pong_cpu"]
_SIDE = ["comparison", "is_b"]
_ROW = ["comparison", "key"]
ALL = "all"  # the relation of a change that all rows of a session share
THRESHOLD = 0.03
_LEAST_PRINTED_CHANGE = 0.0005  # a lesser one is printed as 0.0 %
# what a row with a larger time is, and one with a smaller
_WORDS_OF_TIMES = ("slower", "faster")
_WORDS_OF_RATES = ("less", "more")
_MAX_RUNS = 200  # a side, the most that a message advises to measure
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

    rows: identifies each row of `logs`, by CLASS at least. logs: logarithms of ns, a
    row per number, a column per run, NaN where a run lacks it. is_b: whether each run
    is of side B. turns: each run's turn; runs of several hosts with equal turns were
    measured together. sides: comparisons with equal `sides` are judged as one session;
    None: judged alone. blocks: each run's block to fit the change within; None: not
    requested.
    """

    rows: pd.DataFrame
    logs: Floats
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


class _Session(NamedTuple):
    """The shifts of runs that all hosts share, by `SideRuns.keys`, and how the shifts
    change from A to B.
    """

    shifts: Mapping[tuple[Any, bool], float]
    change: float
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
        """Return the turn of each unit, or its side and name."""
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
    sides have, the nearest relation first.

    numbers: a row per relation and `unit`, a run's ID or a host's name, with the number
    of its `comparison`, `is_b`, `key`, a number per relation, `ns`, `spread` and
    `pairs`; in order of comparison and side. orders: of each comparison. `a_within`,
    `b_within`: the median half interval within a run; the error of the change does not
    use it.
    """
    numbers_of_a = numbers[~numbers["is_b"]]
    numbers_of_b = numbers[numbers["is_b"]]
    # a choice: a benchmark with its variant, in the order of side A
    choice = number_groups(numbers_of_a, ["comparison", *CLASS[:2]])
    choices = pd.Series(choice, numbers_of_a.index)
    table = _tabulate_units(numbers.assign(choice=choices), orders)
    rows = table.rows[[*_ROW, *CLASS, "choice"]]
    pairs = numbers_of_a.groupby(_ROW)["pairs"].max()
    rows = rows.join(pairs, on=_ROW)
    a_within = _average_within(numbers_of_a, "a_within")
    rows = rows.join(a_within, on=_ROW)
    b_within = _average_within(numbers_of_b, "b_within")
    rows = rows.join(b_within, on=_ROW)
    columns = [*CLASS, "pairs", "a_within", "b_within"]
    rows_in_order = _order_nearest_first(table, rows["choice"].to_numpy())
    return _make_side_runs(table, rows[columns], rows_in_order)


def _average_within(numbers: pd.DataFrame, name: str) -> "pd.Series[float]":
    """Return the median half interval within a run, by _ROW. name: of the column."""
    spread = numbers.groupby(_ROW)["spread"]
    return spread.median().rename(name)


def _order_nearest_first(table: "_Table", choice_of_row: Ints) -> list[Ints]:
    """Return the rows of each comparison by choice, then by how long they take."""
    rows_in_order = []
    for place, units in zip(table.places, table.units, strict=True):
        logs_of_a = units.logs[:, ~units.is_b]
        means_of_a = logs_of_a.mean(axis=1)
        choices = choice_of_row[place]
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
    """Judge comparisons; return a table for each and, by `sides`, a table of the
    changes over all hosts.

    questions: the number of parts that the command splits the 5 % into; subtracting a
    shift that all hosts share adds one. are_pairs: whether rows are pairs; if so, leave
    out those that cannot be tested, and make no tables over all hosts.
    rates: benchmarks whose numbers are shown as rates.

    Columns in addition to those of the rows: `a_units`, `b_units`: how many runs of
    each side have the row; `a_ns`, `b_ns`: the mean of `a_compared` and `b_compared` of
    them at the level that was compared; `levels`: the number of levels; `shares`: the
    probability that sides with equal shares of runs at each level differ as these;
    `whole`: the change of the mean over all levels, a logarithm; `shared`: the change
    of all hosts that was subtracted, else 1;
    `ratio` of B to A with its 95 % interval `low`, `high`; `error`, `freedom`, `p` of
    that change; `borrowed`: how much of `freedom` comes from other rows; `chance`: the
    probability that the sides' levels differ by chance; `more`: how many runs a side
    would give a row at several levels a verdict; `q`; `smallest`: the change that would
    be found; `verdict`, `why`.
    """
    labels = _label_levels(comparisons)
    sessions = _estimate_shared_shifts(comparisons, labels)
    fits = _fit_rows(comparisons, labels, sessions)
    table = _test_rows(fits)
    fleets = []
    if not are_pairs:
        fleets = _test_all_sessions(comparisons, sessions, table)
    if any(session.shifts for session in sessions.values()):
        questions += 1
    tables = _add_q_values([table, *fleets], questions)
    table, *fleets = [add_verdicts(part, threshold, rates) for part in tables]
    names_of_rows = comparisons[0].rows.columns
    table = table[[*names_of_rows, *_COLUMNS]]
    parts = _split_table(table, comparisons, only_tested=are_pairs)
    # pairs have no tables of fleets, and `fleets` is empty
    return parts, dict(zip(sessions, fleets, strict=False))


def _split_table(
    table: pd.DataFrame, comparisons: Sequence[SideRuns], *, only_tested: bool
) -> list[pd.DataFrame]:
    """Return the rows of each comparison, all or only those with p."""
    owner = _number_owners(comparisons)
    if only_tested:
        is_tested = table["p"].notna().to_numpy()
        table = table[is_tested]
        owner = owner[is_tested]
    places = _split_places(owner, len(comparisons))
    return [_slice_rows(table, place) for place in places]


def _slice_rows(table: pd.DataFrame, place: slice) -> pd.DataFrame:
    """Return a part of a table, numbered from 0; `reset_index` would copy it."""
    part = table.iloc[place]
    part.index = pd.RangeIndex(len(part))
    return part


def _number_owners(comparisons: Sequence[SideRuns]) -> Ints:
    """Return, for each row of all comparisons end to end, the number of its
    comparison.
    """
    counts = [len(comparison.rows) for comparison in comparisons]
    numbers = np.arange(len(comparisons))
    return np.repeat(numbers, counts)


def _label_levels(comparisons: Sequence[SideRuns]) -> list[Ints]:
    """Number the levels between the runs of each comparison (docs/measuring.md)."""
    rows = pd.concat([comparison.rows for comparison in comparisons])
    choices = number_groups(rows, CLASS[:2])
    counts = [len(comparison.rows) for comparison in comparisons]
    ends = np.cumsum(counts)
    # numbered from 0 in each comparison
    groups = []
    for choices_of_comparison in np.split(choices, ends[:-1]):
        _, group_of_row = np.unique(choices_of_comparison, return_inverse=True)
        groups.append(group_of_row)
    logs = [comparison.logs for comparison in comparisons]
    return label_levels_of_each(logs, groups)


def _fit_rows(
    comparisons: Sequence[SideRuns],
    labels: Sequence[Ints],
    sessions: Mapping[Hashable, _Session],
) -> pd.DataFrame:
    """Return the rows of all comparisons with the columns of `judge_rows`."""
    session_of_each = [
        sessions.get(comparison.sides, _NO_SESSION) for comparison in comparisons
    ]
    shared_changes = np.exp([session.change for session in session_of_each])
    owner = _number_owners(comparisons)
    rows = pd.concat([comparison.rows for comparison in comparisons], ignore_index=True)
    rows["shared"] = shared_changes[owner]
    fits = []
    for numbers in _group_by_order(comparisons):
        fit = _fit_group(
            [comparisons[number] for number in numbers],
            [labels[number] for number in numbers],
            [session_of_each[number] for number in numbers],
        )
        is_fitted = np.isin(owner, numbers)
        fits.append(pd.DataFrame(fit, index=np.flatnonzero(is_fitted)))
    return rows.join(pd.concat(fits))


def _fit_group(
    comparisons: Sequence[SideRuns],
    labels: Sequence[Ints],
    sessions: Sequence[_Session],
) -> dict[str, Any]:
    """Fit the rows of comparisons whose runs have one order. sessions: of each."""
    shifts = []
    counts = []
    for comparison, session in zip(comparisons, sessions, strict=True):
        shifts.append(session.list_shifts(comparison))
        counts.append(len(comparison.rows))
    first = comparisons[0]
    return judge.judge_rows(
        np.vstack([comparison.logs for comparison in comparisons]),
        np.vstack(labels),
        first.is_b,
        first.blocks,
        session=np.repeat(shifts, counts, axis=0),
    )


def _group_by_order(comparisons: Sequence[SideRuns]) -> list[list[int]]:
    """Return the numbers of comparisons whose runs have the same order of sides and
    blocks, a list per order; these are fitted at once.
    """
    numbers_by_order = dict[tuple[object, ...], list[int]]()
    for number, comparison in enumerate(comparisons):
        sides = tuple(comparison.is_b.tolist())
        blocks = None
        if comparison.blocks is not None:
            blocks = tuple(comparison.blocks.tolist())
        numbers = numbers_by_order.setdefault((sides, blocks), [])
        numbers.append(number)
    return list(numbers_by_order.values())


def _estimate_shared_shifts(
    comparisons: Sequence[SideRuns], labels: Sequence[Ints]
) -> dict[Hashable, _Session]:
    """Return the shifts that all rows share, for each `sides` that three or more
    comparisons have.
    """
    hosts_by_sides = dict[Hashable, list[tuple[SideRuns, Ints]]]()
    for comparison, levels in zip(comparisons, labels, strict=True):
        hosts = hosts_by_sides.setdefault(comparison.sides, [])
        hosts.append((comparison, levels))
    sessions = {}
    for sides, hosts in hosts_by_sides.items():
        if sides is not None and len(hosts) >= MIN_HOSTS:
            sessions[sides] = _estimate_session(hosts)
    return sessions


def _estimate_session(hosts: Sequence[tuple[SideRuns, Ints]]) -> _Session:
    """Estimate the shifts that all rows of a session share. hosts: the numbers and
    levels of each.
    """
    all_keys = {key for host, _ in hosts for key in host.keys}
    keys = sorted(all_keys)
    is_b = np.array([is_of_b for _, is_of_b in keys], dtype=bool)
    logs, labels = _join_hosts(hosts, keys)
    shifts = judge.estimate_session_shifts(logs, labels, is_b)
    if not shifts.any():
        return _NO_SESSION
    passes = judge.assign_passes(is_b, judge.MIN_PASSES)
    one_row = shifts[None, :]
    fit = judge.fit_within_blocks(one_row, is_b, passes)
    return _Session(
        shifts=dict(zip(keys, shifts.tolist(), strict=True)),
        change=float(fit.change[0]),
        error=float(fit.error[0]),
        freedom=float(fit.freedom[0]),
    )


def _join_hosts(
    hosts: Sequence[tuple[SideRuns, Ints]], keys: Sequence[Any]
) -> tuple[Floats, Ints]:
    """Return the numbers and levels of all hosts, a column per key; NaN and -1 of a run
    that a host lacks.
    """
    place_of_key = {key: place for place, key in enumerate(keys)}
    logs_of_hosts = []
    labels_of_hosts = []
    for host, levels in hosts:
        columns = [place_of_key[key] for key in host.keys]
        shape = (len(levels), len(keys))
        logs = np.full(shape, np.nan)
        logs[:, columns] = host.logs
        logs_of_hosts.append(logs)
        labels = np.full(shape, -1)
        labels[:, columns] = levels
        labels_of_hosts.append(labels)
    return np.vstack(logs_of_hosts), np.vstack(labels_of_hosts)


def _test_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Test changes by variances moderated over all rows, levels by how often runs leave
    the main level.
    """
    is_tested = rows["change"].notna().to_numpy()
    own_variance = rows["variance"].to_numpy()
    own_freedom = rows["freedom"].to_numpy()
    variance, freedom = judge.moderate_where(is_tested, own_variance, own_freedom)
    rows = _test_levels(rows, is_tested)
    rows["error"] = np.sqrt(variance * rows["scale"])
    rows["borrowed"] = freedom - own_freedom
    rows["freedom"] = freedom
    table = _apply_student(rows)
    ratio_of_means = rows["b_ns"] / rows["a_ns"]
    table["ratio"] = table["ratio"].where(is_tested, ratio_of_means)
    return table


def _test_levels(rows: pd.DataFrame, is_tested: Bools) -> pd.DataFrame:
    """Add `chance` and, to rows at several levels, `more`."""
    at_main_level = rows[["a_runs", "b_runs"]].to_numpy()
    total = rows[["a_units", "b_units"]].to_numpy()
    rate = _estimate_rate(at_main_level, total)
    chance = judge.compute_level_probability(at_main_level, total, rate)
    compares_levels = rows["are_apart"] & is_tested
    has_several = rows["levels"].to_numpy() > 1
    more = np.full(len(rows), np.nan)
    tests = is_tested.sum()
    more[has_several] = _count_runs_to_tell(rows[has_several], rate, tests)
    return rows.assign(chance=chance * compares_levels, more=more)


def _estimate_rate(at_main_level: Ints, total: Ints) -> float:
    """Return how often a run is at another level than most; never 0 or 1."""
    runs_elsewhere = (total - at_main_level).sum()
    runs = total.sum()
    # half a run is added on either side
    return float((runs_elsewhere + 0.5) / (runs + 1))


def _test_all_sessions(
    comparisons: Sequence[SideRuns],
    sessions: Mapping[Hashable, _Session],
    table: pd.DataFrame,
) -> list[pd.DataFrame]:
    """Test the changes over all hosts of each session. table: the rows of all
    comparisons.
    """
    owner = _number_owners(comparisons)
    tables = []
    for sides, session in sessions.items():
        numbers = []
        for number, comparison in enumerate(comparisons):
            if comparison.sides == sides:
                numbers.append(number)
        is_of_session = np.isin(owner, numbers)
        rows = table[is_of_session]
        tables.append(_test_all_hosts(rows, len(numbers), session))
    return tables


def _apply_student(rows: pd.DataFrame) -> pd.DataFrame:
    """Add ratio, interval and p; where levels may differ by chance, extend the interval
    to the ratio 1.
    """
    names = ["change", "error", "freedom", "chance"]
    columns = rows[names].to_numpy(dtype=np.float64)
    change, error, freedom, chance = columns.T
    # as logarithms: a ratio of 1 is 0
    low, high, p = judge.apply_student(change, error, freedom)
    may_be_chance = chance >= ALPHA
    low = np.where(may_be_chance, np.fmin(low, 0), low)
    high = np.where(may_be_chance, np.fmax(high, 0), high)
    return rows.assign(
        ratio=np.exp(change),
        low=np.exp(low),
        high=np.exp(high),
        p=np.maximum(p, chance),
    )


def _add_q_values(tables: Sequence[pd.DataFrame], questions: int) -> list[pd.DataFrame]:
    """Add `q`, corrected over the rows of all tables; correct rows of the relation ALL
    separately.
    """
    rows = pd.concat([table[["relation", "p"]] for table in tables])
    p = rows["p"].to_numpy(dtype=np.float64)
    is_of_all = (rows["relation"] == ALL).to_numpy()
    q = np.full(len(p), np.nan)
    q[is_of_all] = judge.control_false_discovery(p[is_of_all])
    q[~is_of_all] = judge.control_false_discovery(p[~is_of_all])
    q = np.minimum(q * questions, 1.0)
    tables_with_q = []
    first = 0
    for table in tables:
        end = first + len(table)
        tables_with_q.append(table.assign(q=q[first:end]))
        first = end
    return tables_with_q


def _count_runs_to_tell(rows: pd.DataFrame, rate: float, tests: int) -> Floats:
    """Estimate how many runs a side each row at several levels needs for a verdict; NaN
    for more than 200.

    If different levels were compared, chance must seldom make levels differ in any of
    `tests` rows. Otherwise, both sides must have two runs at the commonest level in
    nine sessions of ten.
    """
    at_main_level = rows[["a_runs", "b_runs"]].to_numpy()
    total = rows[["a_units", "b_units"]].to_numpy()
    shares = at_main_level / np.maximum(total, 1)
    share = shares.min(axis=1, keepdims=True)
    are_apart = rows["are_apart"].to_numpy()[:, None]
    # tables of rows x numbers of runs a side
    runs = np.arange(MIN_RUNS, _MAX_RUNS + 1)
    is_seldom = _is_level_seldom(share, runs, rate, tests)
    has_common_level = _is_level_common(share, runs)
    gives_verdict = np.where(are_apart, is_seldom, has_common_level)
    most_runs = total.max(axis=1, keepdims=True)
    is_enough = gives_verdict & (runs > most_runs)
    fewest = runs[is_enough.argmax(axis=1)]
    return np.where(is_enough.any(axis=1), fewest, np.nan)


def _is_level_seldom(share: Floats, runs: Ints, rate: float, tests: int) -> Bools:
    """Report with how many runs a side as large a share of them is seldom at another
    level by chance, on either side, in any of `tests` rows. rate: how often a run is.
    """
    runs_at_level = np.ceil(share * runs)
    chance = _compute_chance_of_side(runs_at_level, runs, np.full(share.shape, rate))
    limit = ALPHA / max(tests, 1)
    return np.asarray(2 * chance < limit)


def _is_level_common(share: Floats, runs: Ints) -> Bools:
    """Report with how many runs a side two of them are nearly always at a level.
    share: of the runs, there.
    """
    runs_at_level = np.full((len(share), len(runs)), float(MIN_AT_LEVEL))
    chance = _compute_chance_of_side(runs_at_level, runs, share)
    return np.asarray(chance > _SHARE_OF_SESSIONS)


def _compute_chance_of_side(runs_at_level: Floats, runs: Ints, rates: Floats) -> Floats:
    """Return how likely so many of a side's runs, or more, are at a level. rates: how
    often a run is.
    """
    # the last axis, over which probabilities are summed, has one side
    return judge.compute_level_probability(
        runs_at_level[..., None], runs[:, None], rates[..., None]
    )


def _describe_power(row: Mapping[Any, Any], target: float) -> str:
    """Describe the change that would be found, and how many runs would show `target`, a
    logarithm.
    """
    smallest = row["smallest"]
    if not smallest <= 1:
        return "would show no change below a factor of two"
    words = f"would show a change of {smallest:.1%} or more"
    ratio = float(np.log1p(smallest)) / target
    if ratio <= 1 or "a_units" not in row:
        return words
    # the harmonic mean: so many runs on each side would have the same error
    runs_a_side = 2 / (1 / row["a_units"] + 1 / row["b_units"])
    # the error falls with the root of the number of runs
    more = np.ceil(runs_a_side * ratio**2)
    return f"{words}; for {np.expm1(target):.0%}, about {more:.0f} runs a side"


def lay_out_pairs(pairs: pd.DataFrame, orders: Sequence[Order]) -> list[SideRuns]:
    """Lay out, for each comparison, a row per pair that every unit has.

    pairs: a row per pair and unit, as in `lay_out_relations`, with `key`, a number per
    pair in the order of CELL; the sides of a comparison are of one topology.
    """
    table = _tabulate_units(pairs, orders)
    complete_rows = []
    for units in table.units:
        lacks_unit = np.isnan(units.logs).any(axis=1)
        complete_rows.append(np.flatnonzero(~lacks_unit))
    return _make_side_runs(table, table.rows[CELL], complete_rows)


class _Units(NamedTuple):
    """Numbers of a comparison's units as logarithms: a row per key that both sides
    have, a column per unit in order of their turns, NaN where missing.
    """

    logs: Floats
    is_b: Bools
    turns: tuple[Hashable, ...]
    blocks: Ints | None
    sides: Hashable


class _Table(NamedTuple):
    """All comparisons. rows: side A's first row of each key that both sides have, in
    order of comparison and key. places: of the rows of each comparison.
    """

    rows: pd.DataFrame
    places: list[slice]
    units: list[_Units]


def _tabulate_units(numbers: pd.DataFrame, orders: Sequence[Order]) -> _Table:
    """Lay out the numbers of each comparison. numbers: in order of comparison and
    side.
    """
    numbers = numbers[numbers["ns"].notna()]
    unit_names = [*_SIDE, "unit"]
    columns = numbers[unit_names].drop_duplicates()
    column_of_row = number_groups(numbers, unit_names)
    numbers = _keep_shared_rows(numbers.assign(column=column_of_row))
    rows = _select_first_rows(numbers)
    cells = _Cells.read(numbers)
    is_b = columns["is_b"].to_numpy()
    names = columns["unit"].tolist()
    # rows, columns and cells stand in order of comparison: each has a slice of them
    row_places = _find_places(rows, len(orders))
    column_places = _find_places(columns, len(orders))
    cell_places = _find_places(numbers, len(orders))
    units = []
    for number, order in enumerate(orders):
        own = column_places[number]
        logs = cells.lay_out(cell_places[number], row_places[number], own)
        units.append(_order_units(logs, is_b[own], names[own], order))
    return _Table(rows, row_places, units)


def _select_first_rows(numbers: pd.DataFrame) -> pd.DataFrame:
    """Select side A's first row of each `row`, in their order."""
    numbers_of_a = numbers[~numbers["is_b"]]
    first_rows = numbers_of_a.drop_duplicates("row")
    return first_rows.sort_values("row", ignore_index=True)


def _find_places(rows: pd.DataFrame, count: int) -> list[slice]:
    """Return the places of the rows of each of `count` comparisons, by which they are
    sorted.
    """
    comparisons = rows["comparison"].to_numpy()
    return _split_places(comparisons, count)


class _Cells(NamedTuple):
    """Numbers one after another, as logarithms, with the row and the column of each."""

    row: Ints
    column: Ints
    logs: Floats

    def lay_out(self, own: slice, rows: slice, columns: slice) -> Floats:
        """Lay out the cells of these rows and columns, NaN where missing. own: the
        places of these cells.
        """
        shape = (_count(rows), _count(columns))
        logs = np.full(shape, np.nan)
        row = self.row[own] - rows.start
        column = self.column[own] - columns.start
        logs[row, column] = self.logs[own]
        return logs

    @classmethod
    def read(cls, numbers: pd.DataFrame) -> "_Cells":
        """Take the cells of `numbers`, with `row` and `column`."""
        ns = numbers["ns"].to_numpy(dtype=np.float64)
        return cls(
            row=numbers["row"].to_numpy(),
            column=numbers["column"].to_numpy(),
            logs=np.log(ns),
        )


def _count(places: slice) -> int:
    """Count the places of a slice."""
    count: int = places.stop - places.start
    return count


def _order_units(
    logs: Floats, is_b: Bools, names: Sequence[str], order: Order
) -> _Units:
    """Order the columns of `logs` by the turns of their units."""
    turns = order.list_turns(is_b.tolist(), names)
    in_turn = sorted(range(len(turns)), key=turns.__getitem__)
    names_in_turn = [names[place] for place in in_turn]
    return _Units(
        logs=logs[:, in_turn],
        is_b=is_b[in_turn],
        turns=tuple(turns[place] for place in in_turn),
        blocks=order.number_blocks(names_in_turn),
        sides=order.sides,
    )


def _keep_shared_rows(numbers: pd.DataFrame) -> pd.DataFrame:
    """Keep the keys that both sides of a comparison have; add `row`, a number per
    comparison and key from 0, in their order.
    """
    keys = numbers[[*_ROW, "is_b"]].drop_duplicates()
    keys_of_a = keys.loc[~keys["is_b"], _ROW]
    keys_of_b = keys.loc[keys["is_b"], _ROW]
    shared = keys_of_a.merge(keys_of_b, on=_ROW)
    shared = shared.sort_values(_ROW)
    shared["row"] = np.arange(len(shared))
    return numbers.merge(shared, on=_ROW)


def _split_places(comparisons: Ints, count: int) -> list[slice]:
    """Return the places of the rows of each of `count` comparisons. comparisons: each
    row's, in rising order.
    """
    # where the rows of each comparison begin, and where those of the last end
    numbers = np.arange(count + 1)
    edges = np.searchsorted(comparisons, numbers)
    return [slice(first, end) for first, end in pairwise(edges.tolist())]


def _make_side_runs(
    table: _Table, rows: pd.DataFrame, choices: Sequence[Ints]
) -> list[SideRuns]:
    """Make SideRuns of rows of each comparison. rows: of the table, with the columns to
    show. choices: which rows of each comparison, in order, from 0.
    """
    # all at once, since selecting rows of each comparison is slow
    chosen = []
    for place, own_rows in zip(table.places, choices, strict=True):
        chosen.append(place.start + own_rows)
    ordered = rows.iloc[np.concatenate(chosen)].reset_index(drop=True)
    side_runs = []
    first = 0
    for units, own_rows in zip(table.units, choices, strict=True):
        end = first + len(own_rows)
        runs = SideRuns(
            rows=ordered.iloc[first:end],
            logs=units.logs[own_rows],
            is_b=units.is_b,
            turns=units.turns,
            sides=units.sides,
            blocks=units.blocks,
        )
        side_runs.append(runs)
        first = end
    return side_runs


def number_keys(rows: pd.DataFrame, names: Sequence[str]) -> Ints:
    """Number each row's combination of `names`, in the order of these."""
    groups = rows.groupby(list(names), sort=True, dropna=False, observed=True)
    return np.asarray(groups.ngroup(), dtype=np.int64)


def reduce_to_relations(pairs: pd.DataFrame) -> pd.DataFrame:
    """Reduce pairs to a row per unit and relation for `lay_out_relations`: the median
    of their `ns`. pairs: as in `lay_out_pairs`, with `spread`.
    """
    keys = [*_SIDE, "unit", *CLASS]
    groups = pairs.groupby(keys, sort=False, observed=True)
    relations = groups.agg(
        ns=("ns", "median"),
        spread=("spread", "median"),
        pairs=("ns", "size"),
    ).reset_index()
    relations["key"] = number_keys(relations, CLASS)
    return relations


def _test_all_hosts(rows: pd.DataFrame, hosts: int, session: _Session) -> pd.DataFrame:
    """Test the mean change of three or more hosts by relation; add a change that all
    rows share, if any.
    """
    tested_rows = rows[rows["p"].notna()]
    table = _average_hosts(tested_rows)
    table["shared"] = float(np.exp(session.change))
    if session.shifts:
        shared_row = _make_row_of_all(session, hosts)
        shared_rows = pd.DataFrame([shared_row])
        table = pd.concat([table, shared_rows], ignore_index=True)
    # a mean over hosts has no levels
    table["chance"] = 0.0
    table["levels"] = 1
    table["more"] = np.nan
    table["shares"] = 1.0
    table["whole"] = 0.0
    return _apply_student(table).drop(columns=["change", "shares", "whole"])


def _average_hosts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean change of each relation that three hosts have, with its error and
    freedom.
    """
    changes = rows.groupby(CLASS, sort=False)["change"]
    table = changes.agg(hosts="count", change="mean", variance="var").reset_index()
    table = table[table["hosts"] >= MIN_HOSTS].reset_index(drop=True)
    variance = table.pop("variance")
    variance = variance.clip(lower=judge.ROUNDING)
    table["error"] = np.sqrt(variance / table["hosts"])
    table["freedom"] = table["hosts"] - 1.0
    return table


def _make_row_of_all(session: _Session, hosts: int) -> dict[str, Any]:
    """Return the row of the change that all rows of a session share."""
    return {
        "benchmark": "",
        "variant": "",
        "relation": ALL,
        "hosts": hosts,
        "change": session.change,
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
    tests = int(rows["p"].notna().sum())
    smallest = _estimate_smallest(rows, threshold, tests)
    rows = rows.assign(smallest=smallest)
    verdicts = []
    reasons = []
    for row in rows.to_dict("records"):
        slower, faster = _WORDS_OF_TIMES
        if row["benchmark"] in rates:
            slower, faster = _WORDS_OF_RATES
        direction = slower if row["ratio"] > 1 else faster
        verdict, why = _choose_verdict(row, threshold, tests, direction)
        verdicts.append(str(verdict))
        reasons.append(why)
    return rows.assign(verdict=verdicts, why=reasons)


def _estimate_smallest(rows: pd.DataFrame, threshold: float, tests: int) -> Floats:
    """Return the change of each row, a share, that would be found. tests: how many rows
    are tested.
    """
    significant = int((rows["q"] < ALPHA).sum())
    # Benjamini and Hochberg: the p that one more significant row would need
    alpha = ALPHA * (significant + 1) / max(tests, 1)
    smallest = judge.estimate_detectable_change(
        rows["error"].to_numpy(dtype=np.float64),
        rows["freedom"].to_numpy(dtype=np.float64),
        alpha=min(alpha, ALPHA),
        matters=float(np.log1p(threshold)),
    )
    return np.asarray(np.expm1(smallest))


def _choose_verdict(
    row: Mapping[Any, Any], threshold: float, tests: int, direction: str
) -> tuple[Verdict, str]:
    """Return the first verdict that applies to a row, and the reason for it.
    direction: what the row has become, such as slower.
    """
    if np.isnan(row["p"]):
        return Verdict.NONE, _explain_no_test(row)
    limit = float(np.log1p(threshold))
    is_large = abs(np.log(row["ratio"])) > limit
    if is_large and row["q"] < ALPHA:
        return Verdict.CHANGED, _describe_change(row, threshold, direction)
    below = -np.log(row["low"])
    above = np.log(row["high"])
    is_within_limit = max(below, above) < limit
    if is_within_limit and not are_shares_unlike(row, threshold):
        return Verdict.EQUIVALENT, _describe_equality(row, threshold)
    if row["chance"] > 0:
        return Verdict.AT_ANOTHER_LEVEL, _describe_levels(row)
    return Verdict.CANNOT_TELL, _explain_no_answer(row, threshold, tests)


def _explain_no_test(row: Mapping[Any, Any]) -> str:
    """Say why a row could not be tested."""
    if row["levels"] > 1:
        return _describe_levels(row)
    return "too few runs"


def _is_beside_shared_change(row: Mapping[Any, Any]) -> bool:
    """Report whether a change of all hosts was taken out that is printed as one."""
    shared_change = abs(row["shared"] - 1)
    return bool(shared_change >= _LEAST_PRINTED_CHANGE)


def _describe_equality(row: Mapping[Any, Any], threshold: float) -> str:
    """Say within which threshold a row is the same, and beside what."""
    words = f"within ±{threshold * 100:g}%"
    if _is_beside_shared_change(row):
        words += " of all hosts"
    return words


def _describe_change(row: Mapping[Any, Any], threshold: float, direction: str) -> str:
    """Say in which direction a row changed, and whether surely beyond the threshold."""
    if _is_beside_shared_change(row):
        direction += " than all hosts"
    low = np.log(row["low"])
    high = np.log(row["high"])
    nearer_end = min(abs(low), abs(high))
    size = "perhaps by less than"
    if nearer_end > np.log1p(threshold):
        size = "by more than"
    return f"{direction}, {size} {threshold * 100:g}%"


def _explain_no_answer(row: Mapping[Any, Any], threshold: float, tests: int) -> str:
    """Say why a row is neither changed nor equivalent."""
    if are_shares_unlike(row, threshold):
        return _describe_shares(row)
    if row["q"] < ALPHA:
        return f"a change, but perhaps below {threshold * 100:g}%"
    if row["levels"] > 1:
        return _describe_levels(row)
    if row["p"] < ALPHA and tests > 1:
        return f"may be chance: 1 of {tests} relations"
    target = 2 * float(np.log1p(threshold))
    return _describe_power(row, target)


def are_shares_unlike(row: Mapping[Any, Any], threshold: float) -> bool:
    """Report whether the sides' runs are at levels that both have, but in shares that
    would seldom be so unlike by chance and that move the mean beyond the threshold.
    """
    has_levels = row["levels"] > 1
    compares_levels = row["chance"] > 0
    if compares_levels or not has_levels:
        return False
    is_unlike = row["shares"] < LIKELY_SHARES
    moves_mean = abs(row["whole"]) > np.log1p(threshold)
    return bool(is_unlike and moves_mean)


def _describe_shares(row: Mapping[Any, Any]) -> str:
    """Say how many runs of each side are not at the level that was compared."""
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
    """Say how many levels there are, and how many runs would give a verdict."""
    words = f"{row['levels']:.0f} levels"
    if np.isnan(row["more"]):
        return words
    return f"{words}; about {row['more']:.0f} runs a side would tell"

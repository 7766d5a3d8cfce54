"""Lay out the numbers of comparisons and judge them by the rules of `judge`
(docs/comparing.md).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints, number_groups
from fleet.analysis.compare import judge
from fleet.analysis.compare.judge import ALPHA, MIN_HOSTS
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.analysis.reduce.run_levels import label_levels_of_hosts

CLASS = ["benchmark", "variant", "relation"]
CELL = [*CLASS, "ping_cpu", "pong_cpu"]
ALL = "all"  # the relation of a change that all rows of a session share
THRESHOLD = 0.03
_SHOWN_CHANGE = 0.0005  # a lesser one is printed as 0.0 %
_MAX_RUNS = 200  # a side, the most that a message advises to measure
# chance makes shares of levels as unlike in one of two comparisons; below that the
# sides are not equivalent
LIKELY_SHARES = 0.5
# of sessions with so many runs must have two runs of each side at a common level
_TOLD = 0.9
_COLUMNS = (
    *(
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
    ),
    *("more", "ratio", "low", "high", "p", "q", "smallest", "verdict", "why"),
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

    off: Mapping[tuple[Any, bool], float]
    change: float
    error: float
    freedom: float


_NO_SESSION = _Session({}, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Order:
    """How the units of a comparison are ordered. turns, blocks: by unit; without turns
    units stand by side and name. sides, blocks: as in `SideRuns`.
    """

    sides: Hashable = None
    turns: Mapping[str, tuple[str, int]] | None = None
    blocks: Mapping[str, object] | None = None


NO_ORDER = Order()


def lay_out_relations(
    a: pd.DataFrame, b: pd.DataFrame, order: Order = NO_ORDER
) -> SideRuns:
    """Lay out a row per benchmark, variant and relation that both sides have, the
    nearest relation first.

    a, b: rows per relation and `unit`, a run's ID or a host's name, with `key`, a
    number per relation, `ns`, `spread` and `pairs`. `a_within`, `b_within`: the median
    half interval within a run; the error of the change does not use it.
    """
    table = _tabulate_units(a, b)
    keys = table.rows["key"]
    rows = table.rows[CLASS].reset_index(drop=True)
    rows["pairs"] = keys.map(a.groupby("key")["pairs"].max()).to_numpy()
    rows["a_within"] = keys.map(a.groupby("key")["spread"].median()).to_numpy()
    rows["b_within"] = keys.map(b.groupby("key")["spread"].median()).to_numpy()
    kinds = dict.fromkeys(zip(a["benchmark"], a["variant"], strict=True))
    places = {kind: place for place, kind in enumerate(kinds)}
    of_rows = zip(rows["benchmark"], rows["variant"], strict=True)
    place = [places[kind] for kind in of_rows]
    is_a = np.array([side == "a" for side, _ in table.units], dtype=bool)
    near = table.logs[:, is_a].mean(axis=1) if len(rows) else np.empty(0)
    nearest_first = np.lexsort((near, np.array(place, dtype=np.int64)))
    return _order_units(
        rows.iloc[nearest_first], table.logs[nearest_first], table.units, order
    )


def lay_out_pairs(
    a: pd.DataFrame, b: pd.DataFrame, order: Order = NO_ORDER
) -> SideRuns:
    """Lay out a row per pair that every unit has. a, b: rows per pair and unit, with
    `key`, a number per pair in the order of CELL, and `ns`; of one topology.
    """
    table = _tabulate_units(a, b)
    has_all = np.asarray(~np.isnan(table.logs).any(axis=1))
    rows = table.rows[CELL][has_all]
    return _order_units(rows, table.logs[has_all], table.units, order)


class _Units(NamedTuple):
    """Numbers of units as logarithms: a row per key that both sides have, a column per
    side and unit, NaN where missing. rows: side A's first row of each key.
    """

    rows: pd.DataFrame
    units: list[tuple[str, str]]
    logs: Floats


def _tabulate_units(a: pd.DataFrame, b: pd.DataFrame) -> _Units:
    a = a[a["ns"].notna()]
    b = b[b["ns"].notna()]
    cells = [("a", unit) for unit in a["unit"]] + [("b", unit) for unit in b["unit"]]
    units = list(dict.fromkeys(cells))
    places = {unit: place for place, unit in enumerate(units)}
    column = [places[cell] for cell in cells]
    keys, row = np.unique(np.append(a["key"], b["key"]), return_inverse=True)
    logs = np.full((len(keys), len(units)), np.nan)
    logs[row, column] = np.log(np.append(a["ns"], b["ns"]).astype(float))
    is_shared = np.isin(keys, a["key"]) & np.isin(keys, b["key"])
    rows = a.drop_duplicates("key").sort_values("key")
    rows = rows[rows["key"].isin(keys[is_shared])]
    return _Units(rows, units, logs[is_shared])


def _order_units(
    rows: pd.DataFrame, logs: Floats, units: Sequence[tuple[str, str]], order: Order
) -> SideRuns:
    """Make SideRuns with columns in order of their turns (session, place), else of side
    and unit.
    """
    turns: list[Any] = list(units)
    if order.turns is not None:
        turns = [order.turns[unit] for _, unit in units]
    columns = sorted(range(len(units)), key=turns.__getitem__)
    blocks = None
    if order.blocks is not None:
        own = [order.blocks[units[column][1]] for column in columns]
        blocks = pd.factorize(np.array(own))[0]
    return SideRuns(
        rows.reset_index(drop=True),
        logs[:, columns],
        np.array([units[column][0] == "b" for column in columns], dtype=np.bool_),
        tuple(turns[column] for column in columns),
        order.sides,
        blocks,
    )


def number_keys(rows: pd.DataFrame, names: Sequence[str]) -> Ints:
    """Number each row's combination of `names`, in the order of these."""
    groups = rows.groupby(list(names), sort=True, dropna=False, observed=True)
    return np.asarray(groups.ngroup(), dtype=np.int64)


def reduce_to_relations(rows: pd.DataFrame) -> pd.DataFrame:
    """Reduce pairs to a row per `unit` and relation for `lay_out_relations`: the median
    of their `ns`. rows: with `unit`, CELL, `ns` and `spread`.
    """
    groups = rows.groupby(["unit", *CLASS], sort=False, observed=True)
    relations = groups.agg(
        ns=("ns", "median"), spread=("spread", "median"), pairs=("ns", "size")
    ).reset_index()
    return relations.assign(key=number_keys(relations, CLASS))


def judge_comparisons(
    comparisons: Sequence[SideRuns],
    threshold: float,
    *,
    questions: int = 1,
    are_pairs: bool = False,
) -> tuple[list[pd.DataFrame], dict[Hashable, pd.DataFrame]]:
    """Judge comparisons; return a table for each and, by `sides`, a table of the
    changes over all hosts.

    questions: the number of parts that the command splits the 5 % into; subtracting a
    shift that all hosts share adds one. are_pairs: whether rows are pairs; if so, leave
    out those that cannot be tested, and make no tables over all hosts.

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
    table = _test_rows(_fit_rows(comparisons, labels, sessions))
    owner = _number_owners(comparisons)
    fleets = []
    for sides, session in {} if are_pairs else sessions.items():
        hosts = [
            number
            for number, comparison in enumerate(comparisons)
            if comparison.sides == sides
        ]
        fleets.append(
            _test_all_hosts(table[np.isin(owner, hosts)], len(hosts), session)
        )
    questions += any(session.off for session in sessions.values())
    table, *fleets = [
        add_verdicts(part, threshold)
        for part in _add_q_values([table, *fleets], questions)
    ]
    table = table[[*comparisons[0].rows, *_COLUMNS]]
    tables = _split_by_owner(table, owner, len(comparisons))
    if are_pairs:
        tables = [part[part["p"].notna()] for part in tables]
    tables = [part.reset_index(drop=True) for part in tables]
    return tables, dict(zip(sessions, fleets, strict=False))


def _number_owners(comparisons: Sequence[SideRuns]) -> Ints:
    """Return, for each row of all comparisons end to end, the number of its
    comparison.
    """
    counts = [len(comparison.rows) for comparison in comparisons]
    return np.repeat(np.arange(len(comparisons)), counts)


def _split_by_owner(table: pd.DataFrame, owner: Ints, count: int) -> list[pd.DataFrame]:
    """Return the rows of each comparison. owner: in rising order."""
    ends = np.searchsorted(owner, np.arange(count + 1))
    return [table.iloc[first:end] for first, end in pairwise(ends)]


def _label_levels(comparisons: Sequence[SideRuns]) -> list[Ints]:
    """Number the levels between the runs of each comparison (docs/statistics.md)."""
    width = max(len(comparison.is_b) for comparison in comparisons)
    padded = [
        np.pad(
            comparison.logs,
            ((0, 0), (0, width - len(comparison.is_b))),
            constant_values=np.nan,
        )
        for comparison in comparisons
    ]
    rows = pd.concat([comparison.rows for comparison in comparisons])
    rows = rows.assign(owner=_number_owners(comparisons))
    groups = number_groups(rows, ["owner", *CLASS[:2]])
    labels = label_levels_of_hosts(np.vstack(padded), groups)
    ends = np.cumsum([len(comparison.rows) for comparison in comparisons])
    parts = np.split(labels, ends[:-1])
    return [
        part[:, : len(comparison.is_b)]
        for part, comparison in zip(parts, comparisons, strict=True)
    ]


def _fit_rows(
    comparisons: Sequence[SideRuns],
    labels: Sequence[Ints],
    sessions: Mapping[Hashable, _Session],
) -> pd.DataFrame:
    """Return the rows of all comparisons with the columns of `judge_rows`."""
    fits = []
    for comparison, levels in zip(comparisons, labels, strict=True):
        session = sessions.get(comparison.sides, _NO_SESSION)
        off = np.array([session.off.get(key, 0.0) for key in comparison.keys])
        fit = judge.judge_rows(
            comparison.logs, levels, comparison.is_b, comparison.blocks, off
        )
        fit["shared"] = np.full(len(levels), np.exp(session.change))
        fits.append(fit)
    columns = {name: np.concatenate([fit[name] for fit in fits]) for name in fits[0]}
    rows = pd.concat([comparison.rows for comparison in comparisons], ignore_index=True)
    return rows.assign(**columns)


def lay_out_sides(
    a: pd.DataFrame, b: pd.DataFrame, number: str
) -> tuple[SideRuns, SideRuns]:
    """Lay out the relations and the pairs of two sides. a, b: rows per pair and `unit`,
    with ns in column `number`.
    """
    rows = pd.concat([a.assign(is_b=False), b.assign(is_b=True)], ignore_index=True)
    pairs = rows.assign(ns=rows[number], key=number_keys(rows, CELL))
    sides = pairs["is_b"].map({False: "a ", True: "b "})
    relations = reduce_to_relations(pairs.assign(unit=sides + pairs["unit"]))
    of_b = relations["unit"].str.startswith("b ")
    return (
        lay_out_relations(relations[~of_b], relations[of_b]),
        lay_out_pairs(pairs[~pairs["is_b"]], pairs[pairs["is_b"]]),
    )


def compare_relations(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """Judge the relations of one comparison. a, b: rows per pair and `unit`, with ns in
    column `number`.
    """
    relations, _ = lay_out_sides(a, b, number)
    (table,), _ = judge_comparisons([relations], threshold)
    return table


def compare_pairs(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """Judge each pair that every run has and that can be tested; the sides must have
    the same topology.
    """
    _, pairs = lay_out_sides(a, b, number)
    (table,), _ = judge_comparisons([pairs], threshold, are_pairs=True)
    return table


def _estimate_shared_shifts(
    comparisons: Sequence[SideRuns], labels: Sequence[Ints]
) -> dict[Hashable, _Session]:
    """Return the shifts that all rows share, for each `sides` that three or more
    comparisons have.
    """
    sessions = {}
    for sides in dict.fromkeys(comparison.sides for comparison in comparisons):
        hosts = [
            part
            for part in zip(comparisons, labels, strict=True)
            if part[0].sides == sides
        ]
        if sides is None or len(hosts) < MIN_HOSTS:
            continue
        keys = sorted({key for host, _ in hosts for key in host.keys})
        places, row = {key: place for place, key in enumerate(keys)}, 0
        logs = np.full((sum(len(levels) for _, levels in hosts), len(keys)), np.nan)
        all_levels = np.full(logs.shape, -1)  # of a run that a host lacks, no level
        for host, levels in hosts:
            cells = np.ix_(
                range(row, row := row + len(levels)), [places[key] for key in host.keys]
            )
            logs[cells], all_levels[cells] = host.logs, levels
        is_b = np.array([side for _, side in keys], dtype=bool)
        off = judge.estimate_session_shifts(logs, all_levels, is_b)
        sessions[sides] = _NO_SESSION
        if off.any():
            fit = judge.fit_within_blocks(
                off[None, :], is_b, judge.assign_passes(is_b, judge.MIN_PASSES)
            )
            change, scale, variance, freedom = (float(column[0]) for column in fit)
            off_by_key = dict(zip(keys, off.tolist(), strict=True))
            sessions[sides] = _Session(
                off_by_key, change, (variance * scale) ** 0.5, freedom
            )
    return sessions


def _test_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Test changes by variances moderated over all rows, levels by how often runs leave
    the main level.
    """
    tested, several = rows["change"].notna().to_numpy(), rows["levels"].to_numpy() > 1
    variance, freedom, more = np.full((3, len(rows)), np.nan)
    raw = rows.loc[tested, ["variance", "freedom"]].to_numpy()
    variance[tested], freedom[tested] = judge.moderate_variances(*raw.T)
    runs, total = (
        rows[["a_runs", "b_runs"]].to_numpy(),
        rows[["a_units", "b_units"]].to_numpy(),
    )
    rate = float(((total - runs).sum() + 0.5) / (total.sum() + 1))
    chance = judge.compute_level_probability(runs, total, rate) * (
        rows["are_apart"] & tested
    )
    more[several] = _count_runs_to_tell(rows[several], rate, tested.sum())
    error, borrowed = np.sqrt(variance * rows["scale"]), freedom - rows["freedom"]
    rows = rows.assign(
        error=error, freedom=freedom, borrowed=borrowed, chance=chance, more=more
    )
    table = _apply_student(rows)
    return table.assign(ratio=table["ratio"].where(tested, rows["b_ns"] / rows["a_ns"]))


def _test_all_hosts(rows: pd.DataFrame, hosts: int, session: _Session) -> pd.DataFrame:
    """Test the mean change of three or more hosts by relation; add a change that all
    rows share, if any.
    """
    changes = rows[rows["p"].notna()].groupby(CLASS, sort=False)["change"]
    shared = float(np.exp(session.change))
    numbers = [
        (
            *key,
            count,
            mean,
            (max(variance, judge.ROUNDING) / count) ** 0.5,
            count - 1,
            shared,
        )
        for key, count, mean, variance in changes.agg(
            ["count", "mean", "var"]
        ).itertuples(name=None)
        if count >= MIN_HOSTS
    ]
    if session.off:
        numbers.append(
            ("", "", ALL, hosts, session.change, session.error, session.freedom, 1.0)
        )
    table = pd.DataFrame(
        numbers, columns=[*CLASS, "hosts", "change", "error", "freedom", "shared"]
    )
    table = table.assign(chance=0.0, levels=1, more=np.nan, shares=1.0, whole=0.0)
    return _apply_student(table).drop(columns=["change", "shares", "whole"])


def _apply_student(rows: pd.DataFrame) -> pd.DataFrame:
    """Add ratio, interval and p; where levels may differ by chance, extend the interval
    to the ratio 1.
    """
    names = ["change", "error", "freedom", "chance"]
    change, error, freedom, chance = rows[names].to_numpy(dtype=float).T
    low, high, p = judge.apply_student(change, error, freedom)
    low, high = np.where(
        chance >= ALPHA, (np.fmin(low, 0), np.fmax(high, 0)), (low, high)
    )
    numbers = {"ratio": np.exp(change), "low": np.exp(low), "high": np.exp(high)}
    return rows.assign(**numbers, p=np.maximum(p, chance))


def _add_q_values(tables: Sequence[pd.DataFrame], questions: int) -> list[pd.DataFrame]:
    """Add `q`, corrected over the rows of all tables; correct rows of the relation ALL
    separately.
    """
    rows = pd.concat([table[["relation", "p"]] for table in tables])
    p, are_common = (
        rows["p"].to_numpy(dtype=float),
        (rows["relation"] == ALL).to_numpy(),
    )
    q = np.full(len(p), np.nan)
    for question in (are_common, ~are_common):
        q[question] = np.minimum(
            judge.control_false_discovery(p[question]) * questions, 1.0
        )
    parts = np.split(q, np.cumsum([len(table) for table in tables])[:-1])
    return [table.assign(q=part) for table, part in zip(tables, parts, strict=True)]


def _count_runs_to_tell(rows: pd.DataFrame, rate: float, tests: int) -> Floats:
    """Estimate how many runs a side each row at several levels needs for a verdict; NaN
    for more than 200.

    If different levels were compared, chance must seldom make levels differ in any of
    `tests` rows. Otherwise, both sides must have two runs at the commonest level in
    nine sessions of ten.
    """
    at_level, total = (
        rows[["a_runs", "b_runs"]].to_numpy(),
        rows[["a_units", "b_units"]].to_numpy(),
    )
    share = (at_level / np.maximum(total, 1)).min(axis=1)[:, None]
    are_apart = rows["are_apart"].to_numpy()[:, None]
    runs = np.arange(MIN_RUNS, _MAX_RUNS + 1)
    needed, rates = (
        np.where(are_apart, np.ceil(share * runs), 2),
        np.where(are_apart, rate, share),
    )
    chance = judge.compute_level_probability(
        needed[..., None], runs[:, None], rates[..., None]
    )
    tells = np.where(are_apart, 2 * chance < ALPHA / max(tests, 1), chance > _TOLD)
    tells &= runs > total.max(axis=1, keepdims=True)
    return np.where(tells.any(axis=1), runs[tells.argmax(axis=1)], np.nan)


def add_verdicts(rows: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Add `smallest`, `verdict` and `why` to rows. threshold: the smallest change that
    matters, a share.
    """
    tests, q = int(rows["p"].notna().sum()), rows["q"].to_numpy(dtype=float)
    alpha = min(ALPHA * (int((q < ALPHA).sum()) + 1) / max(tests, 1), ALPHA)
    error, freedom = rows[["error", "freedom"]].to_numpy(dtype=float).T
    smallest = judge.estimate_detectable_change(
        error, freedom, alpha, float(np.log1p(threshold))
    )
    rows = rows.assign(smallest=np.expm1(smallest))
    verdicts = [
        _choose_verdict(row, threshold, tests) for row in rows.to_dict("records")
    ]
    return rows.assign(
        verdict=[str(verdict) for verdict, _ in verdicts],
        why=[why for _, why in verdicts],
    )


def _choose_verdict(
    row: Mapping[Any, Any], threshold: float, tests: int
) -> tuple[Verdict, str]:
    """Return the first verdict that applies to a row, and the reason for it."""
    matters = float(np.log1p(threshold))
    if np.isnan(row["p"]):
        why = _describe_levels(row) if row["levels"] > 1 else "too few runs"
        return Verdict.NONE, why
    if row["q"] < ALPHA and abs(np.log(row["ratio"])) > matters:
        return Verdict.CHANGED, _describe_change(row, threshold)
    is_within = max(-np.log(row["low"]), np.log(row["high"])) < matters
    if is_within and not are_shares_unlike(row, threshold):
        beside = " of all hosts" if _is_beside_shared_change(row) else ""
        return Verdict.EQUIVALENT, f"within ±{threshold * 100:g}%{beside}"
    if row["chance"] > 0:
        return Verdict.AT_ANOTHER_LEVEL, _describe_levels(row)
    return Verdict.CANNOT_TELL, _explain_no_answer(row, threshold, tests)


def _is_beside_shared_change(row: Mapping[Any, Any]) -> bool:
    """Report whether a change of all hosts was taken out that is printed as one."""
    return bool(abs(row["shared"] - 1) >= _SHOWN_CHANGE)


def _describe_change(row: Mapping[Any, Any], threshold: float) -> str:
    """Say in which direction a row changed, and whether surely beyond the threshold."""
    direction = "slower" if row["ratio"] > 1 else "faster"
    if _is_beside_shared_change(row):
        direction += " than all hosts"
    size = "perhaps by less than"
    if min(abs(np.log(row["low"])), abs(np.log(row["high"]))) > np.log1p(threshold):
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
    return _describe_power(row, 2 * float(np.log1p(threshold)))


def are_shares_unlike(row: Mapping[Any, Any], threshold: float) -> bool:
    """Report whether the sides' runs are at levels that both have, but in shares that
    would seldom be so unlike by chance and that move the mean beyond the threshold.
    """
    if not row["levels"] > 1 or row["chance"] > 0:
        return False
    is_unlike = row["shares"] < LIKELY_SHARES
    return bool(is_unlike and abs(row["whole"]) > np.log1p(threshold))


def _describe_shares(row: Mapping[Any, Any]) -> str:
    """Say how many runs of each side are not at the level that was compared."""
    counts = {}
    for side in "ab":
        total = row[f"{side}_units"]
        off = total - row[f"{side}_compared"]
        counts[side.upper()] = (off, total)
    less, more = sorted(counts, key=lambda side: counts[side][0] / counts[side][1])
    off, total = counts[more]
    other_off, other_total = counts[less]
    return (
        f"{more} at a second level in {off} of {total} runs, {less} in"
        f" {other_off} of {other_total}"
    )


def _describe_levels(row: Mapping[Any, Any]) -> str:
    """Say how many levels there are, and how many runs would give a verdict."""
    levels = f"{row['levels']:.0f} levels"
    if np.isnan(row["more"]):
        return levels
    return f"{levels}; about {row['more']:.0f} runs a side would tell"


def _describe_power(row: Mapping[Any, Any], target: float) -> str:
    """Describe the change that would be found, and how many runs would show `target`, a
    logarithm.
    """
    if not row["smallest"] <= 1:
        return "would show no change below a factor of two"
    ratio, more = float(np.log1p(row["smallest"])) / target, ""
    if ratio > 1 and "a_units" in row:
        runs = 2 / (1 / row["a_units"] + 1 / row["b_units"]) * ratio**2
        more = f"; for {np.expm1(target):.0%}, about {np.ceil(runs):.0f} runs a side"
    return f"would show a change of {row['smallest']:.1%} or more{more}"

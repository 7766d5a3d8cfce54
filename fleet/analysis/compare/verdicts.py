"""The verdicts of a command: the rules of `judge`, over all of its comparisons (docs/comparing.md)."""

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats
from fleet.analysis.compare import judge
from fleet.analysis.compare.judge import ALPHA, LEAST_HOSTS, LeastSquares, SideLevels
from fleet.analysis.compare.side_runs import CLASS, SideRuns, lay_out_pairs, lay_out_relations

ALL = "all"  # the relation of what all rows of a session have in common
THRESHOLD = 0.03
_MOST_RUNS = 200  # a side, that a person may be told to measure
_TOLD = 0.9  # of the sessions of so many runs, that have two runs of each side at a common level


class Verdict(StrEnum):
    """The conclusions of a comparison about one relation, in the order in which they are shown."""

    AT_ANOTHER_LEVEL = "at another level"
    CHANGED = "changed"
    EQUIVALENT = "equivalent"
    CANNOT_TELL = "cannot tell"
    NONE = "no verdict"


class _Session(NamedTuple):
    """Changes that all rows of some comparisons have in common.

    off: by how much the rows are off, by the keys of `SideRuns`. fit: of that; None: it is not taken out.
    """

    off: Mapping[tuple[Any, bool], float]
    fit: LeastSquares | None

    @property
    def ratio(self) -> float:
        """Return the change that is taken out of every row; 1 if none is."""
        return 1.0 if self.fit is None else float(np.exp(self.fit.change[0]))


def judge_comparisons(
    comparisons: Sequence[SideRuns], threshold: float, *, questions: int = 1, are_pairs: bool = False
) -> tuple[list[pd.DataFrame], dict[Hashable, pd.DataFrame]]:
    """Return a table per comparison, and by `sides` one of the changes over all hosts.

    questions: that the command asks of these runs, each with an equal part of the 5 %; what all hosts have in
    common, where it is taken out, is one more. are_pairs: the rows are pairs: those that cannot be tested are
    left out, and none is tested over all hosts.

    Columns, beside those of the rows: `a_ns`, `b_ns`, what most runs of each side are at; `levels` of the
    row; `shared`, the change of the session beside which it is, else 1; `ratio` of B to A with its 95 %
    interval `low`, `high`; `error`, `freedom`, `p` of that change; `borrowed`, how much of `freedom` comes
    from other rows; `chance` that the sides are at different levels; `more`, how many runs a side would tell
    a row at several levels; `q`; `smallest`, the change that would be found; `verdict`, `why`.
    """
    scatter = judge.estimate_scatter((comparison.logs, comparison.is_b) for comparison in comparisons)
    sessions = _estimate_sessions(comparisons, scatter)
    none = _Session({}, None)
    parts = [
        _fit_comparison(comparison, scatter, sessions.get(comparison.sides, none))
        for comparison in comparisons
    ]
    table, fleets = _test_rows(parts), []
    owner = np.repeat(np.arange(len(parts)), [len(rows) for rows, *_ in parts])
    for sides, session in {} if are_pairs else sessions.items():
        hosts = [number for number, comparison in enumerate(comparisons) if comparison.sides == sides]
        fleets.append(_test_all_hosts(table[np.isin(owner, hosts)], len(hosts), session))
    questions += any(session.fit is not None for session in sessions.values())
    table, *fleets = [conclude(part, threshold) for part in _add_q([table, *fleets], questions)]
    owner = np.where(are_pairs & table["p"].isna(), -1, owner)
    tables = [table[owner == number].reset_index(drop=True) for number in range(len(parts))]
    return tables, dict(zip(sessions, fleets, strict=False))


def compare_relations(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """Return the table of one comparison. a, b: rows per pair and `unit`, with ns in the column `number`."""
    return judge_comparisons([lay_out_relations(a, b, number)], threshold)[0][0]


def compare_pairs(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """Return a row per pair that every run has and that can be tested; for sides of the same topology."""
    return judge_comparisons([lay_out_pairs(a, b, number)], threshold, are_pairs=True)[0][0]


def _estimate_sessions(comparisons: Sequence[SideRuns], scatter: float) -> dict[Hashable, _Session]:
    """Return the changes that all rows of three or more comparisons with the same sides have in common."""
    sessions = {}
    for sides in dict.fromkeys(comparison.sides for comparison in comparisons):
        hosts = [comparison for comparison in comparisons if comparison.sides == sides]
        if sides is None or len(hosts) < LEAST_HOSTS:
            continue
        keys = sorted({key for host in hosts for key in host.keys})
        places, parts = {key: place for place, key in enumerate(keys)}, []
        for host in hosts:
            parts.append(np.full((len(host.logs), len(keys)), np.nan))
            parts[-1][:, [places[key] for key in host.keys]] = host.logs
        rows, is_b = np.concatenate(parts), np.array([side for _, side in keys], dtype=bool)
        off = judge.estimate_session(rows, judge.label_levels(rows, scatter), is_b, scatter)
        fit = judge.fit_within_blocks(off[None, :], is_b, judge.assign_passes(is_b)) if off.any() else None
        sessions[sides] = _Session(dict(zip(keys, off.tolist(), strict=True)), fit)
    return sessions


def _fit_comparison(
    comparison: SideRuns, scatter: float, session: _Session
) -> tuple[pd.DataFrame, LeastSquares, Bools, SideLevels]:
    """Return the rows with their levels, and the result of `judge_rows` for them."""
    labels = judge.label_levels(comparison.logs, scatter)
    off = np.array([session.off.get(key, 0.0) for key in comparison.keys])
    fit, are_apart, majority = judge.judge_rows(
        comparison.logs, comparison.is_b, labels, comparison.blocks, off
    )
    if not comparison.enough:
        fit = LeastSquares(*np.full((4, len(labels)), np.nan))
    (a_ns, b_ns), levels = np.exp(majority.mean).T, labels.max(axis=1, initial=0) + 1
    rows = comparison.rows.assign(a_ns=a_ns, b_ns=b_ns, levels=levels, shared=session.ratio)
    return rows, fit, are_apart, majority


def _test_rows(parts: Sequence[tuple[pd.DataFrame, LeastSquares, Bools, SideLevels]]) -> pd.DataFrame:
    """Test each change by the variance over all rows, and levels by how often all runs change theirs."""
    tables, fits, apart, levels = zip(*parts, strict=True)
    rows, are_apart = pd.concat(tables, ignore_index=True), np.concatenate(apart)
    fit, majority = LeastSquares(*np.concatenate(fits, axis=1)), SideLevels(*np.concatenate(levels, axis=1))
    tested, several = ~np.isnan(fit.change), rows["levels"].to_numpy() > 1
    variance, freedom, more = np.full((3, len(rows)), np.nan)
    variance[tested], freedom[tested] = judge.moderate_variances(fit.variance[tested], fit.freedom[tested])
    rate = float(((majority.total - majority.runs).sum() + 0.5) / (majority.total.sum() + 1))
    chance = judge.chance_of_levels(majority.runs, majority.total, rate) * (are_apart & tested)
    more[several] = _count_runs_to_tell(SideLevels(*np.asarray(majority)[:, several]), rate, tested.sum())
    rows = rows.assign(change=fit.change, error=np.sqrt(variance * fit.scale), freedom=freedom)
    table = _apply_student(rows.assign(borrowed=freedom - fit.freedom, chance=chance, more=more))
    return table.assign(ratio=table["ratio"].where(tested, rows["b_ns"] / rows["a_ns"]))


def _test_all_hosts(rows: pd.DataFrame, hosts: int, session: _Session) -> pd.DataFrame:
    """Test the changes of three hosts or more, a row per relation; last, the change common to all rows."""
    tested = rows[rows["p"].notna()]
    changes = tested.assign(change=np.log(tested["ratio"])).groupby(CLASS, sort=False)["change"]
    numbers = [
        (*key, count, mean, (max(variance, judge.ROUNDING) / count) ** 0.5, count - 1, session.ratio)
        for key, count, mean, variance in changes.agg(["count", "mean", "var"]).itertuples(name=None)
        if count >= LEAST_HOSTS
    ]
    if session.fit is not None:
        change, scale, variance, freedom = (float(column[0]) for column in session.fit)
        numbers.append(("", "", ALL, hosts, change, (variance * scale) ** 0.5, freedom, 1.0))
    table = pd.DataFrame(numbers, columns=[*CLASS, "hosts", "change", "error", "freedom", "shared"])
    return _apply_student(table.assign(chance=0.0, levels=1, more=np.nan))


def _apply_student(rows: pd.DataFrame) -> pd.DataFrame:
    """Replace `change` by the ratio, its interval and p, which allow no change where levels may be chance."""
    change, error, freedom, chance = (
        rows[name].to_numpy(dtype=float) for name in ("change", "error", "freedom", "chance")
    )
    low, high, p = judge.apply_student(change, error, freedom)
    low, high = np.where(chance >= ALPHA, (np.fmin(low, 0), np.fmax(high, 0)), (low, high))
    numbers = {"ratio": np.exp(change), "low": np.exp(low), "high": np.exp(high)}
    return rows.drop(columns="change").assign(**numbers, p=np.maximum(p, chance))


def _add_q(tables: Sequence[pd.DataFrame], questions: int) -> list[pd.DataFrame]:
    """Add `q` over the rows of all tables; the change common to a session is a question of its own."""
    rows = pd.concat([table[["relation", "p"]] for table in tables])
    p, are_common = rows["p"].to_numpy(dtype=float), (rows["relation"] == ALL).to_numpy()
    q = np.full(len(p), np.nan)
    for question in (are_common, ~are_common):
        q[question] = np.minimum(judge.control_false_discovery(p[question]) * questions, 1.0)
    parts = np.split(q, np.cumsum([len(table) for table in tables])[:-1])
    return [table.assign(q=part) for table, part in zip(tables, parts, strict=True)]


def _count_runs_to_tell(majority: SideLevels, rate: float, tests: int) -> Floats:
    """Return how many runs a side would separate rows at several levels; NaN for more than 200.

    Where most runs of the sides are at different levels: as many as make that unlikely by chance in one of
    `tests`. Else as many as have two runs of each side at the commonest level, in nine sessions of ten.
    """
    share = (majority.runs / np.maximum(majority.total, 1)).min(axis=1)[:, None]
    are_apart, runs = majority.number[:, :1] != majority.number[:, 1:], np.arange(2, _MOST_RUNS + 1)
    needed, rates = np.where(are_apart, np.ceil(share * runs), 2), np.where(are_apart, rate, share)
    chance = judge.chance_of_levels(needed[..., None], runs[:, None], rates[..., None])
    tells = np.where(are_apart, 2 * chance < ALPHA / max(tests, 1), chance > _TOLD)
    tells &= runs > majority.total.max(axis=1, keepdims=True)
    return np.where(tells.any(axis=1), runs[tells.argmax(axis=1)], np.nan)


def conclude(rows: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Return the rows with `smallest`, `verdict` and `why`; threshold: the change that matters, a share."""
    tests, q = int(rows["p"].notna().sum()), rows["q"].to_numpy(dtype=float)
    alpha = min(ALPHA * (int((q < ALPHA).sum()) + 1) / max(tests, 1), ALPHA)
    error, freedom = (rows[name].to_numpy(dtype=float) for name in ("error", "freedom"))
    smallest = judge.detectable_change(error, freedom, alpha, float(np.log1p(threshold)))
    rows = rows.assign(smallest=np.expm1(smallest))
    verdicts = [_conclude_row(row, threshold, tests) for row in rows.to_dict("records")]
    return rows.assign(verdict=[str(verdict) for verdict, _ in verdicts], why=[why for _, why in verdicts])


def _conclude_row(row: Mapping[Any, Any], threshold: float, tests: int) -> tuple[Verdict, str]:
    matters, share = float(np.log1p(threshold)), f"{threshold * 100:g}%"
    if np.isnan(row["p"]):
        return Verdict.NONE, _explain_levels(row) if row["levels"] > 1 else "too few runs"
    change, low, high = (float(np.log(row[name])) for name in ("ratio", "low", "high"))
    if row["q"] < ALPHA and abs(change) > matters:
        size = "by more than" if min(abs(low), abs(high)) > matters else "perhaps by less than"
        beside = " than all hosts" if row["shared"] != 1 else ""
        return Verdict.CHANGED, f"{'slower' if change > 0 else 'faster'}{beside}, {size} {share}"
    if max(-low, high) < matters:
        return Verdict.EQUIVALENT, f"within ±{share}{' of all hosts' if row['shared'] != 1 else ''}"
    if row["chance"] > 0:
        return Verdict.AT_ANOTHER_LEVEL, _explain_levels(row)
    return Verdict.CANNOT_TELL, _explain_doubt(row, matters, tests)


def _explain_doubt(row: Mapping[Any, Any], matters: float, tests: int) -> str:
    if row["q"] < ALPHA:
        return f"a change, but perhaps below {np.expm1(matters) * 100:g}%"
    if row["levels"] > 1:
        return _explain_levels(row)
    if row["p"] < ALPHA and tests > 1:
        return f"may be chance: 1 of {tests} relations"
    if not row["smallest"] <= 1:
        return "would show no change below a factor of two"
    target, seen, more = 2 * matters, float(np.log1p(row["smallest"])), ""
    if seen > target and "a_units" in row:
        runs = 2 / (1 / row["a_units"] + 1 / row["b_units"]) * (seen / target) ** 2
        more = f"; for {np.expm1(target):.0%}, about {np.ceil(runs):.0f} runs a side"
    return f"would show a change of {row['smallest']:.1%} or more{more}"


def _explain_levels(row: Mapping[Any, Any]) -> str:
    advice = "" if np.isnan(row["more"]) else f"; about {row['more']:.0f} runs a side would tell"
    return f"{row['levels']:.0f} levels{advice}"

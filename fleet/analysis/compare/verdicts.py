"""The verdicts of a command: the rules of `judge`, over all of its comparisons (docs/comparing.md)."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.compare import judge
from fleet.analysis.compare.judge import ALPHA, LEAST_HOSTS, LeastSquares, SideLevels
from fleet.analysis.compare.side_runs import CLASS, SideRuns, lay_out_pairs, lay_out_relations
from fleet.analysis.tables import Bools, Floats, Ints

ALL = "all"  # the relation of what all rows of a session have in common
THRESHOLD = 0.03
_MOST_RUNS = 200  # a side, that a person may be told to measure
_TOLD = 0.9  # of the sessions of so many runs, that have two runs of each side at a common level


class Verdict(StrEnum):
    """What a comparison concludes about one relation, in the order in which it is told."""

    AT_ANOTHER_LEVEL = "at another level"
    CHANGED = "changed"
    EQUIVALENT = "equivalent"
    CANNOT_TELL = "cannot tell"
    NONE = "no verdict"


@dataclass(frozen=True, slots=True)
class _Session:
    """What all rows of some comparisons have in common: by how much each column is off, and its side."""

    off: Mapping[Hashable, float]
    is_b: Bools
    values: Floats

    @property
    def is_taken_out(self) -> bool:
        return bool(self.values.any())


def judge_comparisons(
    comparisons: Sequence[SideRuns], threshold: float, *, questions: int = 1, of_all: bool = True
) -> tuple[list[pd.DataFrame], dict[Hashable, pd.DataFrame]]:
    """Return a table per comparison, and by `sides` one of the changes over all hosts.

    questions: how many questions the command asks of these runs; each gets an equal part of the 5 %. What
    all hosts have in common, where it is taken out, is one more. of_all: whether the rows are relations,
    whose changes over all hosts are tested too.

    Columns, beside those of the rows: `ratio` of B to A with its 95 % interval `low`, `high`; `p`, `error`,
    `freedom` of that change; `shared`, the change of the session beside which it is, else 1; `chance` that
    the sides are at different levels; `levels`, how many the row has; `a_ns`, `b_ns`, what most runs of each
    side are at; `q`; `smallest`, the change that would be found; `more`, how many runs a side would tell
    rows at several levels; `verdict`, `why`.
    """
    scatter = judge.estimate_scatter((one.logs, (one.is_b, ~one.is_b)) for one in comparisons)
    labels = [judge.label_levels(one.logs, scatter) for one in comparisons]
    sessions = _find_sessions(comparisons, labels, scatter)
    fits = [
        judge.judge_rows(_without_session(one, sessions.get(one.sides)), one.is_b, label, one.blocks)
        for one, label in zip(comparisons, labels, strict=True)
    ]
    fit = LeastSquares(*map(np.concatenate, zip(*(each for each, _, _ in fits), strict=True)))
    apart = np.concatenate([each for _, each, _ in fits])
    majority = SideLevels(*map(np.concatenate, zip(*(each for _, _, each in fits), strict=True)))
    owner = np.repeat(np.arange(len(comparisons)), [len(one.logs) for one in comparisons])
    session_of = [sessions.get(comparisons[at].sides) for at in owner.tolist()]
    known = ~np.isnan(fit.change) & np.array([one.enough for one in comparisons])[owner]
    variance, freedom = np.full((2, len(owner)), np.nan)
    variance[known], freedom[known] = judge.moderate_variances(fit.variance[known], fit.freedom[known])
    rate = judge.off_level_rate(majority)
    chance = np.where(apart & known, judge.chance_of_levels(majority.runs, majority.total, rate), 0.0)
    rows = pd.concat([one.rows for one in comparisons], ignore_index=True)
    table = _test(rows, fit.change, np.sqrt(variance * fit.scale), freedom, chance)
    table["shared"] = [_session_ratio(session) for session in session_of]
    table["levels"] = np.concatenate([label.max(axis=1, initial=0) + 1 for label in labels])
    table[["a_ns", "b_ns"]] = np.concatenate(
        [
            _level_numbers(one, label, part)
            for one, label, (*_, part) in zip(comparisons, labels, fits, strict=True)
        ]
    )
    table["ratio"] = table["ratio"].where(~np.isnan(fit.change), table["b_ns"] / table["a_ns"])
    hosts = sessions.items() if of_all else ()
    fleets = {name: _of_all_hosts(table, owner, comparisons, name, session) for name, session in hosts}
    tables = _with_q(
        [table, *fleets.values()], questions + any(one.is_taken_out for one in sessions.values())
    )
    more = np.concatenate(
        [_runs_to_tell(label, one.is_b, rate) for one, label in zip(comparisons, labels, strict=True)]
    )
    judged = [
        conclude(part.assign(more=more if at == 0 else np.nan), threshold) for at, part in enumerate(tables)
    ]
    of_comparisons = [judged[0][owner == at].reset_index(drop=True) for at in range(len(comparisons))]
    return of_comparisons, dict(zip(fleets, judged[1:], strict=True))


def compare_relations(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """Return the table of one comparison. a, b: rows per pair and `unit`, with ns in the column `number`."""
    return judge_comparisons([lay_out_relations(a, b, number)], threshold)[0][0]


def compare_pairs(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """Return a row per pair that every run has, with `changed`; for sides of the same topology."""
    return find_changed_pairs([lay_out_pairs(a, b, number)], threshold)[0]


def find_changed_pairs(
    comparisons: Sequence[SideRuns], threshold: float, *, questions: int = 1
) -> list[pd.DataFrame]:
    """Return the pairs of each comparison that can be tested, with `changed`; the rules are the same."""
    tables, _ = judge_comparisons(comparisons, threshold, questions=questions, of_all=False)
    return [
        table[table["p"].notna()]
        .assign(changed=lambda rows: rows["verdict"] == Verdict.CHANGED)
        .reset_index(drop=True)
        for table in tables
    ]


def _find_sessions(
    comparisons: Sequence[SideRuns], labels: Sequence[Ints], scatter: float
) -> dict[Hashable, _Session]:
    """What the rows of three comparisons or more with the same sides have in common, run by run."""
    members: dict[Hashable, list[int]] = {}
    for at, one in enumerate(comparisons):
        if one.sides is not None:
            members.setdefault(one.sides, []).append(at)
    sessions = {}
    for name, places in members.items():
        if len(places) < LEAST_HOSTS:
            continue
        columns = sorted({key for at in places for key in _column_keys(comparisons[at])})
        column = {key: at for at, key in enumerate(columns)}
        is_b = np.array([key[-1] for key in columns], dtype=bool)
        count = sum(len(comparisons[at].logs) for at in places)
        rows, levels, filled = np.full((count, len(columns)), np.nan), np.full((count, len(columns)), -1), 0
        for at in places:
            here = (
                np.s_[filled : filled + len(comparisons[at].logs)],
                [column[key] for key in _column_keys(comparisons[at])],
            )
            rows[here], levels[here] = comparisons[at].logs, labels[at]
            filled += len(comparisons[at].logs)
        off = judge.estimate_session(rows, levels, is_b, scatter)
        sessions[name] = _Session(dict(zip(columns, off.tolist(), strict=True)), is_b, off)
    return sessions


def _column_keys(one: SideRuns) -> list[tuple[Any, bool]]:
    return list(zip(one.turns, one.is_b.tolist(), strict=True))


def _without_session(one: SideRuns, session: _Session | None) -> Floats:
    if session is None:
        return one.logs
    off: Floats = np.array([session.off[key] for key in _column_keys(one)])
    return np.asarray(one.logs - off)


def _fit_session(session: _Session) -> LeastSquares:
    passes = judge.assign_passes(session.is_b)
    return judge.fit_within_blocks(session.values[None, :], session.is_b, passes)


def _session_ratio(session: _Session | None) -> float:
    return float(np.exp(_fit_session(session).change[0])) if session and session.is_taken_out else 1.0


def _test(rows: pd.DataFrame, change: Floats, error: Floats, freedom: Floats, chance: Floats) -> pd.DataFrame:
    """The rows with the interval and p; where the sides' levels may be chance, these allow no change."""
    low, high, p = judge.apply_student(change, error, freedom)
    low, high = (
        np.where(chance >= ALPHA, of(end, 0.0), end) for of, end in ((np.fmin, low), (np.fmax, high))
    )
    numbers = {"ratio": np.exp(change), "low": np.exp(low), "high": np.exp(high)}
    p = np.where(np.isnan(p), np.nan, np.maximum(p, chance))
    return rows.assign(**numbers, p=p, error=error, freedom=freedom, shared=1.0, chance=chance)


def _level_numbers(one: SideRuns, labels: Ints, majority: SideLevels) -> Floats:
    """What most runs of each side are at, in ns: rows x 2."""
    numbers = []
    for side, main in ((~one.is_b, majority.number[:, 0]), (one.is_b, majority.number[:, 1])):
        at_main = (labels == main[:, None]) & side
        sums = np.where(at_main, one.logs, 0.0).sum(axis=1)
        counts = at_main.sum(axis=1)
        numbers.append(np.exp(sums / np.where(counts > 0, counts, np.nan)))
    return np.column_stack(numbers)


def _of_all_hosts(
    table: pd.DataFrame, owner: Ints, comparisons: Sequence[SideRuns], sides: Hashable, session: _Session
) -> pd.DataFrame:
    """Test the changes of three hosts or more, a row per relation; last, what all rows have in common."""
    mine = np.array([one.sides == sides for one in comparisons])[owner] & table["p"].notna().to_numpy()
    keys, numbers = [], []
    for key, part in table[mine].groupby(CLASS, sort=False):
        changes = np.log(part["ratio"].to_numpy(dtype=float))
        if len(changes) >= LEAST_HOSTS:
            variance = max(float(changes.var(ddof=1)), judge.ROUNDING)
            keys.append((*key, len(changes)))
            numbers.append((changes.mean(), (variance / len(changes)) ** 0.5, len(changes) - 1))
    if session.is_taken_out:
        fit = _fit_session(session)
        keys.append(("", "", ALL, sum(one.sides == sides for one in comparisons)))
        numbers.append((fit.change[0], float(fit.variance[0] * fit.scale[0]) ** 0.5, fit.freedom[0]))
    rows = pd.DataFrame(keys, columns=[*CLASS, "hosts"])
    change, error, freedom = np.array(numbers, dtype=float).reshape(-1, 3).T
    found = _test(rows, change, error, freedom, np.zeros(len(rows)))
    shared = np.where(rows["relation"] == ALL, 1.0, _session_ratio(session))
    return found.assign(shared=shared, levels=1)


def _with_q(tables: Sequence[pd.DataFrame], questions: int) -> list[pd.DataFrame]:
    """All tables with `q`, over all rows together; what sessions have in common is a question of its own."""
    p = np.concatenate([table["p"].to_numpy(dtype=float) for table in tables])
    common = np.concatenate(
        [(table["relation"] == ALL).to_numpy() & (at > 0) for at, table in enumerate(tables)]
    )
    q = np.where(common, judge.control_false_discovery(np.where(common, p, np.nan)), np.nan)
    q[~common] = judge.control_false_discovery(p[~common])
    parts = np.split(np.minimum(q * questions, 1.0), np.cumsum([len(table) for table in tables])[:-1])
    return [table.assign(q=part) for table, part in zip(tables, parts, strict=True)]


def _runs_to_tell(labels: Ints, is_b: Bools, rate: float) -> Floats:
    """How many runs a side would tell rows at several levels apart; NaN for a row at one, or too many.

    Where most runs of the sides are at different levels: as many as make that unlikely by chance, at `rate`.
    Else as many as have two runs of each side at the commonest level, in nine sessions of ten.
    """
    more = np.full(len(labels), np.nan)
    runs = np.arange(2, _MOST_RUNS + 1)
    for row in np.flatnonzero(labels.max(axis=1, initial=0) > 0):
        counts = [
            np.bincount(labels[row, (is_b == side) & (labels[row] >= 0)], minlength=1)
            for side in (False, True)
        ]
        if min(count.sum() for count in counts) == 0:
            continue
        main = [int(count.argmax()) for count in counts]
        if main[0] != main[1]:
            share = min(count.max() / count.sum() for count in counts)
            tells = (
                2 * judge.chance_of_levels(np.ceil(share * runs).astype(int)[:, None], runs[:, None], rate)
                < ALPHA
            )
        else:
            share = min(count[main[0]] / count.sum() for count in counts)
            tells = (1 - judge.chance_of_levels(np.full((len(runs), 1), 2), runs[:, None], share)) < 1 - _TOLD
        if tells.any():
            more[row] = runs[tells.argmax()]
    return more


def conclude(rows: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Return the rows with `smallest`, `verdict` and `why`; threshold: the change that matters, a share."""
    tests, q = int(rows["p"].notna().sum()), rows["q"].to_numpy(dtype=float)
    alpha = min(ALPHA * (int((q < ALPHA).sum()) + 1) / max(tests, 1), ALPHA)
    matters = float(np.log1p(threshold))
    error, freedom = (rows[name].to_numpy(dtype=float) for name in ("error", "freedom"))
    rows = rows.assign(smallest=np.expm1(judge.detectable_change(error, freedom, alpha, matters)))
    verdicts = [_conclude_row(row, threshold, tests) for row in rows.to_dict("records")]
    return rows.assign(verdict=[str(verdict) for verdict, _ in verdicts], why=[why for _, why in verdicts])


def _conclude_row(row: Mapping[Any, Any], threshold: float, tests: int) -> tuple[Verdict, str]:
    matters, share = float(np.log1p(threshold)), f"{threshold * 100:g}%"
    if np.isnan(row["p"]):
        return Verdict.NONE, _explain_levels(row) if row["levels"] > 1 else "too few runs"
    change, low, high = (float(np.log(row[name])) for name in ("ratio", "low", "high"))
    if row["q"] < ALPHA and abs(change) > matters:
        size = (
            f"by more than {share}" if min(abs(low), abs(high)) > matters else f"perhaps by less than {share}"
        )
        beside = " than all hosts" if row["shared"] != 1 else ""
        return Verdict.CHANGED, f"{'slower' if change > 0 else 'faster'}{beside}, {size}"
    if max(-low, high) < matters:
        return Verdict.EQUIVALENT, f"within ±{share}{' of all hosts' if row['shared'] != 1 else ''}"
    if row["chance"] > 0:
        return Verdict.AT_ANOTHER_LEVEL, _explain_levels(row)
    return Verdict.CANNOT_TELL, "; ".join(_explain_doubt(row, matters, tests))


def _explain_doubt(row: Mapping[Any, Any], matters: float, tests: int) -> Iterator[str]:
    if row["q"] < ALPHA:
        yield f"a change, but perhaps below {np.expm1(matters) * 100:g}%"
        return
    if row["levels"] > 1:
        yield _explain_levels(row)
        return
    if row["p"] < ALPHA and tests > 1:
        yield f"may be chance: 1 of {tests} relations"
        return
    if not row["smallest"] <= 1:
        yield "would show no change below a factor of two"
        return
    yield f"would show a change of {row['smallest']:.1%} or more"
    wanted, seen = 2 * matters, float(np.log1p(row["smallest"]))
    if seen > wanted and "a_units" in row:
        runs = 2 / (1 / row["a_units"] + 1 / row["b_units"]) * (seen / wanted) ** 2
        yield f"for {np.expm1(wanted):.0%}, about {np.ceil(runs):.0f} runs a side"


def _explain_levels(row: Mapping[Any, Any]) -> str:
    told = "" if np.isnan(row["more"]) else f"; about {row['more']:.0f} runs a side would tell"
    return f"{row['levels']:.0f} levels{told}"


def are_virtual(*runs: pd.DataFrame) -> bool:
    """Return whether a run was made under a hypervisor."""
    return any(side["hypervisor"].notna().any() for side in runs)

"""One error rate for all that a command reports: false-discovery control over its comparisons together.

Relations and pairs are two kinds of findings (docs/decisions.md says why). Each is controlled over all
comparisons of a command by Benjamini and Hochberg's procedure, and where both are reported, each gets half of
the 5 %.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fleet.analysis.compare.changes import pair_changes, relation_changes
from fleet.analysis.compare.evidence import together
from fleet.analysis.compare.inference import LEVEL, beyond_p, detectable, false_discovery
from fleet.analysis.compare.run_levels import Matched
from fleet.analysis.compare.verdicts import judge
from fleet.analysis.tables import Floats


def compare_relations(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """One row per benchmark, variant and relation that both sides have, the nearest relation first.

    a, b: rows per pair and unit (column `unit`: a run's id, or a host's), latencies in ns. `ratio` of b to a
    with its 95 % interval `low`, `high`; `p` (t on logarithms), its `error` and `freedom`; `q` (over all
    rows), `smallest` (the change that would have been detected), `verdict`, `why`; and what
    `relation_changes` says.
    """
    found = relation_changes(Matched(a, b, (a, b)), number)
    return judge_relations([together([found]).table()], threshold)[0]


def compare_pairs(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, *, number: str = "median_ns"
) -> pd.DataFrame:
    """One row per pair that every run has: `a_ns`, `b_ns`, `ratio`, moderated `p`, `q`, and `changed`.

    a, b: as for `compare_relations`. changed: q < 0.05 and the change beyond the threshold. Only for sides of
    the same topology. No rows where a side has fewer than three runs.
    """
    found = pair_changes(Matched(a, b, (a, b)), number)
    return find_pairs([together([found]).table()], threshold)[0]


def judge_relations(
    tables: Sequence[pd.DataFrame], threshold: float, *, share: float = 1.0
) -> list[pd.DataFrame]:
    """All relations of one command with `q`, `q_beyond`, `smallest`, `verdict` and `why`.

    share: the part of the error rate that relations get. q: of no change, nor another level; q_beyond: of a
    change of the threshold at most.
    """
    rows = _with_q(tables, share).assign(q_beyond=np.nan, smallest=np.nan)
    known = rows["p"].notna().to_numpy()
    moved, error, freedom, q = rows.loc[known, ["ratio", "error", "freedom", "q"]].to_numpy(dtype=float).T
    matters = np.full(len(q), np.log1p(threshold))
    level = min(LEVEL * share * (int((q < LEVEL).sum()) + 1) / max(len(q), 1), LEVEL * share)
    beyond = false_discovery(beyond_p(np.log(moved), error, freedom, matters))
    rows.loc[known, "q_beyond"] = np.minimum(beyond / share, 1.0)
    rows.loc[known, "smallest"] = np.expm1(detectable(error, freedom, level, matters))
    return _parted(judge(rows, threshold, len(q)), tables)


def find_pairs(tables: Sequence[pd.DataFrame], threshold: float, *, share: float = 1.0) -> list[pd.DataFrame]:
    """All pairs of one command with `q` and `changed`: q < 0.05 and the change beyond the threshold."""
    rows = _with_q(tables, share)
    beyond = np.abs(np.log(rows["ratio"].to_numpy(dtype=float))) > np.log1p(threshold)
    return _parted(rows.assign(changed=(rows["q"] < LEVEL) & beyond), tables)


def _with_q(tables: Sequence[pd.DataFrame], share: float) -> pd.DataFrame:
    """All rows with `q`. Where chance explains the levels, the interval and p allow no change.

    What may be another level is no finding that admits others with larger p.
    """
    rows = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
    p, levels = (rows[name].to_numpy(dtype=float) for name in ("p", "q_levels"))
    levels = np.where(_q(p, share) < LEVEL, levels, 0.0)
    explained = {"low": rows["low"].clip(upper=1), "high": rows["high"].clip(lower=1), "p": 1.0}
    changed = {name: rows[name].where(levels < 1, value) for name, value in explained.items()}
    q = _q(np.where(levels < LEVEL, p, 1.0), share)
    return rows.assign(**changed, q_levels=levels, q=np.where(levels < LEVEL, np.maximum(q, levels), levels))


def _q(p: Floats, share: float) -> Floats:
    known, found = ~np.isnan(p), np.full(len(p), np.nan)
    found[known] = np.minimum(false_discovery(p[known]) / share, 1.0)
    return found


def _parted(rows: pd.DataFrame, tables: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """The rows of each table, with its columns and those that it lacked."""
    added = [name for name in rows if not any(name in table for table in tables)]
    ends = np.cumsum([len(table) for table in tables])
    parts = zip(tables, ends, strict=True)
    found = [(rows[end - len(table) : end].reindex(columns=[*table, *added]), table) for table, end in parts]
    return [part.astype(table.dtypes).reset_index(drop=True) for part, table in found]

"""The A/A test: splits runs of an unchanged machine into two sides and counts the false
alarms.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.text import to_records
from fleet.analysis.compare import verdicts
from fleet.analysis.compare.judge import ALPHA
from fleet.analysis.compare.sides import read_tables
from fleet.analysis.compare.verdicts import THRESHOLD, Verdict
from fleet.analysis.reduce.interval import MIN_RUNS
from fleet.analysis.reduce.load import drop_points, load_runs
from fleet.analysis.reduce.matrices import estimator_column
from fleet.errors import UsageError
from fleet.store.runs import Root
from fleet.text import suggest_similar

SIZES = (3, 5, 10)
SPLITS = 12  # of each order, at most; they share runs, so more would tell little more
_KIND = ["benchmark", "variant"]
SHARES = ("interval_share", "verdict_share", "pair_share")
COLUMNS = ("host_id", *_KIND, "runs", "order", "splits", *SHARES)


def count_false_alarms(
    root: Root, *, host: str | None = None, seed: int = 1
) -> pd.DataFrame:
    """Count false alarms: a row per host, benchmark, variant, runs a side and order of
    the runs.

    order: how runs were dealt to the sides: random, interleaved (A B B A), or blocks,
    one after the other. `interval_share`: the share of relations whose interval
    excludes the ratio 1 (5 % expected). `verdict_share`: the share of relations called
    changed. `pair_share`: the share of pairs with p < 0.05. Compare only runs of one
    host, plan, agent, kernel and boot. UsageError if no host has six such runs.
    """
    runs = every = load_runs(root)
    if host is not None:
        names = set(runs["host_id"]) | set(runs["host_name"])
        if host not in names:
            raise UsageError(
                f"{root}: no run of a host {host!r} is"
                f" stored{suggest_similar(host, names)}"
            )
        runs = runs[(runs["host_id"] == host) | (runs["host_name"] == host)]
    rng = np.random.default_rng(seed)
    groups = _group_unchanged_runs(runs)
    rows = [row for _, group in groups for row in _count_group_alarms(root, group, rng)]
    if not rows:
        others = sorted(
            {group["host_name"].iloc[0] for _, group in _group_unchanged_runs(every)}
        )
        raise UsageError(
            f"{root}: the A/A test needs {2 * MIN_RUNS} runs of one host with the same"
            " plan, agent, kernel and boot. Repeat a run: fleet run HOST --repeat 20"
            + (
                f", or take {' or '.join(others[:3])}, which has them."
                if others
                else ""
            )
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def iter_orders(
    count: int, size: int, rng: np.random.Generator
) -> Iterator[tuple[str, Any, Any]]:
    """Yield splits of `count` runs, oldest first, into A and B of `size`: (order,
    indices of A, of B).
    """
    for _ in range(SPLITS):
        dealt = rng.permutation(count)[: 2 * size]
        yield "random", dealt[:size], dealt[size:]
    to_a = np.tile([True, False, False, True], size)[: 2 * size]
    for first in _draw_indices(count - 2 * size + 1, rng):
        window = np.arange(first, first + 2 * size)
        yield "interleaved", window[to_a], window[~to_a]
    ends = [
        (a, b)
        for a in range(size, count - size + 1)
        for b in range(a, count - size + 1)
    ]
    for a, b in (ends[index] for index in _draw_indices(len(ends), rng)):
        yield "blocks", np.arange(a - size, a), np.arange(b, b + size)


def _draw_indices(count: int, rng: np.random.Generator) -> list[int]:
    return sorted(map(int, rng.permutation(count)[:SPLITS]))


def _group_unchanged_runs(runs: pd.DataFrame) -> Iterator[tuple[object, pd.DataFrame]]:
    """Group runs of one host, plan, agent, kernel and boot; yield groups of six or more
    with their keys.
    """
    plan = runs["plan_json"].str.replace(r'"seed":\d+,?', "", regex=True)
    keys = [
        runs["host_id"],
        plan,
        runs["agent_build"],
        runs["kernel"].fillna(""),
        runs["boot_id"].fillna(""),
    ]
    for key, group in runs.sort_values(
        ["started_utc", "run_id"], kind="stable"
    ).groupby(keys, sort=False):
        if len(group) >= 2 * MIN_RUNS:
            yield key, group.reset_index(drop=True)


def _count_group_alarms(
    root: Root, runs: pd.DataFrame, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    tables = read_tables(root, runs["run_id"])
    pairs = drop_points(tables.pairs, tables.descriptions).assign(
        unit=lambda rows: rows["run_id"]
    )
    number = estimator_column(to_records(runs)[0])
    by_run = [rows for _, rows in pairs.groupby("run_id", sort=False)]
    splits = []
    for size in (size for size in SIZES if 2 * size <= len(by_run)):
        for order, a, b in iter_orders(len(by_run), size, rng):
            sides = [pd.concat([by_run[index] for index in side]) for side in (a, b)]
            alarms = _count_alarms(sides[0], sides[1], number)
            splits.append(alarms.assign(runs=size, order=order, splits=1))
    tallies = pd.concat(splits).groupby([*_KIND, "runs", "order"], sort=False)
    rows = (
        tallies[[*SHARES]].mean().assign(splits=tallies["splits"].sum()).reset_index()
    )
    yield from to_records(rows.assign(host_id=runs["host_id"][0]))


def _count_alarms(a: pd.DataFrame, b: pd.DataFrame, number: str) -> pd.DataFrame:
    """Compute the columns SHARES of each benchmark for one split, by the rules of
    `compare`.
    """
    relations, pairs = (
        verdicts.lay_out_relations(a, b, number),
        verdicts.lay_out_pairs(a, b, number),
    )
    questions = 1 + int(relations.rows["pairs"].max() > 1)
    (judged,), _ = verdicts.judge_comparisons(
        [relations], THRESHOLD, questions=questions
    )
    (tested,), _ = verdicts.judge_comparisons(
        [pairs], THRESHOLD, questions=questions, are_pairs=True
    )
    is_beside = (judged["low"] > 1) | (judged["high"] < 1)
    is_changed = judged["verdict"] == Verdict.CHANGED
    table = judged[_KIND].assign(interval_share=is_beside, verdict_share=is_changed)
    called = tested[_KIND].assign(pair_share=tested["p"] < ALPHA)
    shares = table.groupby(_KIND, sort=False).mean().join(called.groupby(_KIND).mean())
    return shares.fillna(0.0).reset_index()

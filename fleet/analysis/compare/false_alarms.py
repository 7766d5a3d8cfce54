"""The A/A test: splits runs of an unchanged machine into two sides and counts the false alarms."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fleet.analysis.compare.changes import compare_pairs, compare_relations
from fleet.analysis.compare.comparison import load_run_pairs
from fleet.analysis.compare.error_rate import judge_relations
from fleet.analysis.compare.inference import LEAST_RUNS, LEVEL
from fleet.analysis.compare.matched_levels import match_levels
from fleet.analysis.compare.verdicts import Verdict, are_virtual, usual_threshold
from fleet.analysis.reduce.load import load_runs, load_samples, samples_long
from fleet.analysis.views.sections import number_of
from fleet.analysis.views.text import percent, records
from fleet.errors import UsageError
from fleet.text import nearest, table

SIZES = (3, 5, 10)
SPLITS = 60  # of each order, at most
_NAIVE_RUNS = 12
_NAIVE_PAIRS = 16
_SAME = ["host_id", "benchmark", "variant"]
COLUMNS = (*_SAME, "order", "runs", "splits", "class_share", "verdict_share", "pair_share", "naive_share")


def false_alarms(root: str | Path, *, host: str | None = None, seed: int = 1) -> pd.DataFrame:
    """One row per host, benchmark, variant, order of the runs and runs a side.

    order: how runs were dealt to the sides: random, interleaved (A B B A), or blocks, one after the other.
    `class_share`: of the relations compared, those whose interval excludes no change (5 % expected);
    `verdict_share`: those called changed; `pair_share`: of the pairs, those with p < 0.05; `naive_share`: of
    the pairs of one run and the next, those that Mann-Whitney's test on samples finds different.

    Runs of one host, plan, agent, kernel and boot belong together. Raises UsageError if no host has six.
    """
    runs = load_runs(root)
    if host is not None:
        known = set(runs["host_id"]) | set(runs["host_name"])
        if host not in known:
            raise UsageError(f"{root}: no run of a host {host!r} is stored{nearest(host, known)}")
        runs = runs[(runs["host_id"] == host) | (runs["host_name"] == host)]
    chance = np.random.default_rng(seed)
    rows = [row for _, group in _alike(runs) for row in _of_group(root, group, chance)]
    if not rows:
        raise UsageError(
            f"{root}: the A/A test needs {2 * LEAST_RUNS} runs of one host with the same plan, "
            "agent, kernel and boot. Repeat a run: fleet run HOST --repeat 20"
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def false_alarms_text(found: pd.DataFrame) -> str:
    """The table for people, with a legend."""
    titles = ("host", "benchmark", "order", "runs a side", "splits", "class", "verdict", "pairs", "samples")
    rows = [
        (
            row["host_id"],
            f"{row['benchmark']}/{row['variant']}",
            row["order"],
            str(row["runs"]),
            str(row["splits"]),
            *("0%" if row[name] == 0 else percent(row[name]) for name in COLUMNS[-4:]),
        )
        for row in found.to_dict("records")
    ]
    legend = (
        "Nothing changed between these runs, so every change found is a false alarm. class: intervals that",
        "exclude no change (expected: 5%); verdict: changed; pairs: p < 0.05; samples: pairs that a",
        "Mann-Whitney test on the samples of two single runs finds different.",
        "Splits share runs, so the shares are approximate.",
    )
    return "\n".join((table(titles, rows, right=set(range(3, 9))), " ".join(legend)))


def orders(count: int, size: int, chance: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """Splits of `count` runs, oldest first, into two sides of `size`: name, indices of A, indices of B."""
    for _ in range(SPLITS):
        dealt = chance.permutation(count)[: 2 * size]
        yield "random", dealt[:size], dealt[size:]
    to_a = np.tile([True, False, False, True], size)[: 2 * size]
    for first in _some(count - 2 * size + 1, chance):
        window = np.arange(first, first + 2 * size)
        yield "interleaved", window[to_a], window[~to_a]
    ends = [(a, b) for a in range(size, count - size + 1) for b in range(a, count - size + 1)]
    for a, b in (ends[at] for at in _some(len(ends), chance)):
        yield "blocks", np.arange(a - size, a), np.arange(b, b + size)


def _some(count: int, chance: np.random.Generator) -> list[int]:
    return sorted(map(int, chance.permutation(count)[:SPLITS]))


def _alike(runs: pd.DataFrame) -> Iterator[tuple[object, pd.DataFrame]]:
    """Groups of runs between which nothing known changed, oldest first, if there are enough."""
    plan = runs["plan_json"].str.replace(r'"seed":\d+,?', "", regex=True)
    keys = [runs["host_id"], plan, runs["agent_build"], runs["kernel"].fillna(""), runs["boot_id"].fillna("")]
    for key, group in runs.sort_values(["started_utc", "run_id"], kind="stable").groupby(keys, sort=False):
        if len(group) >= 2 * LEAST_RUNS:
            yield key, group.reset_index(drop=True)


def _of_group(root: str | Path, runs: pd.DataFrame, chance: np.random.Generator) -> Iterator[dict[str, Any]]:
    pairs = load_run_pairs(root, runs).assign(unit=lambda rows: rows["run_id"])
    threshold, number, virtual = usual_threshold(runs), number_of(records(runs)[0]), are_virtual(runs)
    for (benchmark, variant), part in pairs.groupby(["benchmark", "variant"], sort=False):
        by_run = [rows for _, rows in part.groupby("run_id", sort=False)]
        naive = _naive(root, runs["run_id"].tolist()[:_NAIVE_RUNS], str(benchmark), str(variant))
        for size in (size for size in SIZES if 2 * size <= len(by_run)):
            tallies: dict[str, list[tuple[float, float, float]]] = {}
            for order, a, b in orders(len(by_run), size, chance):
                sides = [pd.concat([by_run[at] for at in side]) for side in (a, b)]
                alarms = _alarms(sides[0], sides[1], threshold, number, virtual=virtual)
                tallies.setdefault(order, []).append(alarms)
            for order, found in tallies.items():
                shares = np.mean(found, axis=0)
                values = (runs["host_id"][0], benchmark, variant, order, size, len(found), *shares, naive)
                yield dict(zip(COLUMNS, values, strict=True))


def _alarms(
    a: pd.DataFrame, b: pd.DataFrame, threshold: float, number: str, *, virtual: bool
) -> tuple[float, float, float]:
    """Of one split: the shares `class_share`, `verdict_share` and `pair_share`, found as `compare` does."""
    matched = match_levels(a, b, number)
    switches = virtual or len(matched.levels) > 0
    relations = compare_relations(
        matched.a, matched.b, threshold, number=number, freedom=matched.freedom, switches=switches
    )
    pairs = compare_pairs(
        matched.a, matched.b, threshold, number=number, freedom=matched.freedom, switches=switches
    )
    share = 0.5 if relations["pairs"].max() > 1 else 1.0
    relations = judge_relations([relations], [threshold], share=share)[0]
    outside = (relations["low"] > 1) | (relations["high"] < 1)
    changed = relations["verdict"] == Verdict.CHANGED
    called = float((pairs["p"] < LEVEL).mean()) if len(pairs) else 0.0
    return float(outside.mean()), float(changed.mean()), called


def _naive(root: str | Path, run_ids: Sequence[str], benchmark: str, variant: str) -> float:
    """Share of pairs that Mann-Whitney's test on the samples of consecutive runs finds different."""
    kept = []
    for run_id in run_ids:
        samples = load_samples(root, run_id=run_id, benchmark=benchmark)
        long = samples_long(samples[samples["variant"] == variant])
        long = long[~long["is_warmup"]]
        ends = long[["ping_cpu", "pong_cpu"]]
        kept.append(dict(iter(long.groupby([ends.min(axis=1), ends.max(axis=1)])["latency_ns"])))
    p = [
        stats.mannwhitneyu(one[pair], other[pair]).pvalue
        for one, other in pairwise(kept)
        for pair in list(one)[:_NAIVE_PAIRS]
        if pair in other
    ]
    return float(np.mean(np.array(p) < LEVEL)) if p else float("nan")

"""Checks the topology that the OS reports against the latencies.

Each check yields findings: `check`, `benchmark`, `variant`, `subject` (a pair or relations), `value` (the
factor) and `says`, in words. MEANS explains the checks; docs/flags.md names their usual causes.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any

import pandas as pd

from fleet.analysis.reduce.flags import SIBLING_NEARER, not_nearest
from fleet.analysis.reduce.load import without_points
from fleet.analysis.reduce.matrices import by_relation
from fleet.analysis.reduce.pairs import load_pairs, widened
from fleet.analysis.views.text import records
from fleet.model import Relation
from fleet.store.runs import Listing, Root, listing_of

DISORDER = 1.1  # a nearer relation is that much slower
OFF_HISTORY = 2.0
LEAST_HISTORY = 3  # runs
MOST_HISTORY = 5
MEANS = {
    "siblings": "SMT siblings are not each other's nearest CPUs by a factor of 1.3",
    "order": "a nearer relation is slower than a wider one",
    "history": "latency differs from earlier runs of this host by more than a factor of two",
    "asymmetry": "one direction takes over 10% longer than the other",
}
COLUMNS = ("check", "benchmark", "variant", "subject", "value", "says")
_KIND = ["benchmark", "variant"]
_NEARNESS = {str(relation): place for place, relation in enumerate(Relation)}


def check_topology(pairs: pd.DataFrame, history: pd.DataFrame | None = None) -> pd.DataFrame:
    """Every finding about one run; no rows where the latencies agree with the OS.

    pairs: as `pair_medians` returns them. history: `host_history`, or the same of `earlier_runs`.
    """
    pairs = without_points(pairs)
    medians = pairs.groupby([*_KIND, "relation"], sort=False)["median_ns"].median().to_dict()
    found = [*_siblings(pairs), *_disorder(medians), *_asymmetry(pairs)]
    if history is not None:
        found += _off_history(medians, history)
    return pd.DataFrame(found, columns=list(COLUMNS))


def host_history(root: Root, run: Mapping[str, Any]) -> pd.DataFrame:
    """The relations of the host's last few runs before this one; run: its row of the `runs` table."""
    root = listing_of(root)
    pairs = load_pairs(root, run_id=earlier_runs(root, [run])[run["run_id"]])
    return by_relation(without_points(widened(pairs)), ["run_id", *_KIND, "relation"])


def earlier_runs(root: Listing, runs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Of each run, a row of the `runs` table, the ids of the host's last few before it."""
    hosts: dict[str, list[tuple[datetime, str]]] = {run["host_id"]: [] for run in runs}
    for past in root.runs:
        if past.host_id in hosts:
            hosts[past.host_id].append((past.started_utc, past.run_id))
    found = {}
    for run in runs:
        listed = hosts[run["host_id"]]
        at = bisect_left(listed, (run["started_utc"], run["run_id"]))
        found[run["run_id"]] = [run_id for _, run_id in listed[max(at - MOST_HISTORY, 0) : at]]
    return found


def nearest_pairs(pairs: pd.DataFrame, factor: float = SIBLING_NEARER) -> set[tuple[int, int]]:
    """The pairs of CPUs that are each other's nearest, any other CPU being slower by `factor` or more.

    pairs: of one run, benchmark and variant, with `median_ns`; both directions of a pair may have a row. On
    a machine with SMT these are the siblings, whatever the OS says; without SMT there should be none.
    """
    turned = pairs.rename(columns={"ping_cpu": "pong_cpu", "pong_cpu": "ping_cpu"})
    both = pd.concat([pairs, turned]).groupby(["ping_cpu", "pong_cpu"])["median_ns"].mean().reset_index()
    nearest: dict[int, int] = {}
    for cpu, rows in both.sort_values("median_ns", kind="stable").groupby("ping_cpu"):
        times = rows["median_ns"].to_numpy()
        if len(times) > 1 and times[1] >= factor * times[0]:
            nearest[int(str(cpu))] = int(rows["pong_cpu"].iloc[0])
    return {(a, b) for a, b in nearest.items() if a < b and nearest.get(b) == a}


def _siblings(pairs: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    for kind, part in pairs.groupby(_KIND, sort=False):
        factors = not_nearest(part)
        near = factors < SIBLING_NEARER
        for row in records(part[near].assign(factor=factors[near])) if near.any() else ():
            yield (
                "siblings",
                *kind,
                f"{row['ping_cpu']}-{row['pong_cpu']}",
                row["factor"],
                f"{row['ping_cpu']}-{row['pong_cpu']} ({row['median_ns']:.1f} ns, another CPU at "
                f"{row['factor'] * row['median_ns']:.1f})",
            )


def _disorder(medians: Mapping[Any, float]) -> Iterator[tuple[object, ...]]:
    """Relations whose median is above that of a wider one; medians: by benchmark, variant and relation."""
    kinds: dict[tuple[str, str], dict[str, float]] = {}
    for (benchmark, variant, relation), ns in medians.items():
        if relation not in ("self", "unknown"):
            kinds.setdefault((benchmark, variant), {})[str(relation)] = ns
    for kind, known in kinds.items():
        ordered = sorted(known.items(), key=lambda item: _NEARNESS.get(item[0], len(_NEARNESS)))
        for (near, its_ns), (wide, other_ns) in pairwise(ordered):
            if its_ns > DISORDER * other_ns:
                yield (
                    "order",
                    *kind,
                    f"{near}>{wide}",
                    its_ns / other_ns,
                    f"{near} {its_ns:.1f} ns, {wide} {other_ns:.1f}",
                )


def _off_history(now: Mapping[Any, float], history: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    past: dict[tuple[str, str, str], list[float]] = {}  # a number a run
    columns = (history[name].tolist() for name in (*_KIND, "relation", "median_ns"))
    for *key, ns in zip(*columns, strict=True):
        past.setdefault((key[0], key[1], key[2]), []).append(ns)
    for kind, before in past.items():
        if len(before) < LEAST_HISTORY or kind not in now:
            continue
        usual = median(before)
        factor = float(now[kind] / usual)
        if not 1 / OFF_HISTORY <= factor <= OFF_HISTORY:
            says = f"{kind[2]} {now[kind]:.1f} ns, in {len(before)} earlier runs {usual:.1f}"
            yield "history", *kind[:2], kind[2], factor, says


def _asymmetry(pairs: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """Pairs that take longer when the one or the other CPU pings."""
    for row in records(pairs[pairs["asymmetry"].notna()]):
        ratio, slow = 1 + row["asymmetry"], row["pong_cpu"]
        if ratio < 1:
            ratio, slow = 1 / ratio, row["ping_cpu"]
        pair = f"{row['ping_cpu']}-{row['pong_cpu']}"
        says = f"{pair} {row['median_ns']:.1f} ns, {ratio - 1:+.0%} when {slow} pings"
        yield "asymmetry", row["benchmark"], row["variant"], pair, ratio, says

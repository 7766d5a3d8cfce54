"""Checks the topology that the OS reports against the latencies.

Each check yields findings: `check`, `benchmark`, `variant`, `subject` (a pair or relations), `value` (the
factor) and `says`, in words. MEANS explains the checks; docs/flags.md names their usual causes.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from fleet.analysis.reduce.flags import SIBLING_NEARER, not_nearest
from fleet.analysis.reduce.load import published, without_points
from fleet.analysis.reduce.matrices import by_relation
from fleet.analysis.reduce.pairs import load_pairs, widened
from fleet.analysis.views.text import records
from fleet.model import Relation

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

    pairs: as `pair_medians` returns them. history: relations of earlier runs of the host, `run_id` beside
    the columns of `relations`.
    """
    pairs = without_points(pairs)
    found = [*_siblings(pairs), *_disorder(pairs), *_asymmetry(pairs)]
    if history is not None:
        found += _off_history(pairs, history)
    return pd.DataFrame(found, columns=list(COLUMNS))


def host_history(root: str | Path, run: Mapping[str, Any]) -> pd.DataFrame:
    """The relations of the host's last few runs before this one; run: its row of the `runs` table."""
    before = [
        past.run_id
        for past in published(root, host_id=run["host_id"])
        if (past.started_utc, past.run_id) < (run["started_utc"], run["run_id"])
    ]
    pairs = load_pairs(root, run_id=before[-MOST_HISTORY:])
    return by_relation(without_points(widened(pairs)), ["run_id", *_KIND, "relation"])


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
        for row in records(part.assign(factor=factors)[factors < SIBLING_NEARER]):
            yield (
                "siblings",
                *kind,
                f"{row['ping_cpu']}-{row['pong_cpu']}",
                row["factor"],
                f"{row['ping_cpu']}-{row['pong_cpu']} ({row['median_ns']:.1f} ns, another CPU at "
                f"{row['factor'] * row['median_ns']:.1f})",
            )


def _disorder(pairs: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """Relations whose median is above that of a wider one."""
    known = pairs[~pairs["relation"].isin(["self", "unknown"])]
    for kind, part in known.groupby(_KIND, sort=False):
        medians = part.groupby("relation")["median_ns"].median()
        ordered = sorted(medians.items(), key=lambda item: _NEARNESS.get(str(item[0]), len(_NEARNESS)))
        for (near, its_ns), (wide, other_ns) in pairwise(ordered):
            if its_ns > DISORDER * other_ns:
                yield (
                    "order",
                    *kind,
                    f"{near}>{wide}",
                    its_ns / other_ns,
                    f"{near} {its_ns:.1f} ns, {wide} {other_ns:.1f}",
                )


def _off_history(pairs: pd.DataFrame, history: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    now = pairs.groupby([*_KIND, "relation"], sort=False)["median_ns"].median().to_dict()
    for key, before in history.groupby([*_KIND, "relation"], sort=False):
        if before["run_id"].nunique() < LEAST_HISTORY or key not in now:
            continue
        factor = float(now[key] / before["median_ns"].median())
        if not 1 / OFF_HISTORY <= factor <= OFF_HISTORY:
            yield (
                "history",
                *key[:2],
                key[2],
                factor,
                f"{key[2]} {now[key]:.1f} ns, in {before['run_id'].nunique()} earlier runs "
                f"{before['median_ns'].median():.1f}",
            )


def _asymmetry(pairs: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """Pairs that take longer when the one or the other CPU pings."""
    for row in records(pairs[pairs["asymmetry"].notna()]):
        ratio, slow = 1 + row["asymmetry"], row["pong_cpu"]
        if ratio < 1:
            ratio, slow = 1 / ratio, row["ping_cpu"]
        pair = f"{row['ping_cpu']}-{row['pong_cpu']}"
        says = f"{pair} {row['median_ns']:.1f} ns, {ratio - 1:+.0%} when {slow} pings"
        yield "asymmetry", row["benchmark"], row["variant"], pair, ratio, says

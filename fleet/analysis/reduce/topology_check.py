"""Check the topology that the OS reports against the latencies.

A finding has `check` (FINDING_MEANINGS; docs/flags.md), `benchmark`, `variant`,
`subject` (a pair or relations), `value` (the factor) and `says`, in words.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, pairwise
from statistics import median
from typing import Any

import pandas as pd

from fleet.analysis.base.tables import number_groups
from fleet.analysis.reduce.flags import SIBLING_NEARER, compute_sibling_nearness
from fleet.analysis.reduce.load import drop_points
from fleet.analysis.reduce.numbers import load_numbers
from fleet.model import SHIPPED, Descriptions, relation_sort_key
from fleet.store.runs import Listing, Root, open_listing

DISORDER = 1.1  # a nearer relation is that much slower
OFF_HISTORY = 2.0
MIN_HISTORY = 3  # runs
MAX_HISTORY = 5
FINDING_MEANINGS = {
    "siblings": "SMT siblings are not each other's nearest CPUs by a factor of 1.3",
    "order": "a nearer relation is slower than a wider one",
    "history": (
        "latency differs from earlier runs of this host by more than a factor of two"
    ),
    "asymmetry": "one direction takes over 10% longer than the other",
}
FINDING_COLUMNS = ("check", "benchmark", "variant", "subject", "value", "says")
_KIND = ["benchmark", "variant"]
_RUN = ["run_id", *_KIND]
Median = tuple[str, str, str, float]  # of a run: benchmark, variant, relation, ns
Medians = Sequence[Median]


def check_topology(
    pairs: pd.DataFrame,
    history: pd.DataFrame | None = None,
    descriptions: Descriptions = SHIPPED,
) -> pd.DataFrame:
    """Find everything odd about one run. pairs: from `pair_medians`. history: from
    `load_host_history`.
    """
    past = [] if history is None else [*chain(*group_medians_by_run(history).values())]
    findings = check_runs(pairs.assign(run_id=""), {"": past}, descriptions)[""]
    return pd.DataFrame(findings, columns=list(FINDING_COLUMNS))


def group_medians_by_run(relations: pd.DataFrame) -> dict[str, Medians]:
    """Group rows of `numbers` by run ID, as tuples of benchmark,
    variant, relation and ns.
    """
    medians: dict[str, list[Median]] = {}
    for run_id, *row in _iter_values(relations, *_RUN, "relation", "median_ns"):
        medians.setdefault(run_id, []).append((row[0], row[1], row[2], row[3]))
    return dict(medians)


def check_runs(
    pairs: pd.DataFrame,
    past: Mapping[str, Medians],
    descriptions: Descriptions = SHIPPED,
) -> dict[str, list[tuple[object, ...]]]:
    """Check several runs; return rows of FINDING_COLUMNS by run ID. past: earlier runs'
    medians by run ID.
    """
    pairs = drop_points(pairs, descriptions)
    medians = (
        pairs.groupby([*_RUN, "relation"], sort=False)["median_ns"]
        .median()
        .reset_index()
    )
    now = group_medians_by_run(medians)
    findings: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    orders = (
        (run_id, *finding)
        for run_id, own in now.items()
        for finding in _check_relation_order(own)
    )
    for run_id, *finding in chain(
        _check_siblings(pairs), orders, _check_asymmetry(pairs)
    ):
        findings[run_id].append(tuple(finding))
    for run_id, own in now.items():
        findings[run_id] += _check_history(own, past.get(run_id, ()))
    return findings


def load_host_history(root: Root, run: Mapping[str, Any]) -> pd.DataFrame:
    """Load the numbers of the host's last few runs before this one; run: its row of
    the `runs` table.
    """
    root = open_listing(root)
    earlier = find_earlier_runs(root, [run])[run["run_id"]]
    return load_numbers(root, run_id=earlier)


def find_earlier_runs(
    root: Listing, runs: Sequence[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """Find the IDs of the host's last few runs before each of these rows of the `runs`
    table.
    """
    hosts: dict[str, list[tuple[datetime, str]]] = {run["host_id"]: [] for run in runs}
    for past in root.runs:
        if past.host_id in hosts:
            hosts[past.host_id].append((past.started_utc, past.run_id))
    earlier = {}
    for run in runs:
        listed = hosts[run["host_id"]]
        place = bisect_left(listed, (run["started_utc"], run["run_id"]))
        earlier[run["run_id"]] = [
            run_id for _, run_id in listed[max(place - MAX_HISTORY, 0) : place]
        ]
    return earlier


def _check_siblings(pairs: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield the run ID and finding of each pair of SMT siblings that are not clearly
    nearest.
    """
    pairs = pairs.assign(
        factor=compute_sibling_nearness(pairs, number_groups(pairs, _RUN))
    )
    columns = (*_RUN, "ping_cpu", "pong_cpu", "median_ns", "factor")
    for *run, a, b, ns, factor in _iter_values(
        pairs[pairs["factor"] < SIBLING_NEARER], *columns
    ):
        says = f"{a}-{b} ({ns:.1f} ns, another CPU at {factor * ns:.1f})"
        yield run[0], "siblings", *run[1:], f"{a}-{b}", factor, says


def _check_relation_order(medians: Medians) -> Iterator[tuple[object, ...]]:
    """Yield a finding for each relation that is over 10 % slower than the next wider
    one.
    """
    kinds: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for benchmark, variant, relation, ns in medians:
        name, _, cores = relation.partition(" ")  # other kinds of core have other times
        if name not in ("self", "unknown"):
            kinds.setdefault((benchmark, variant, cores), []).append((relation, ns))
    for (*kind, _), relations in kinds.items():
        ordered = sorted(relations, key=lambda item: relation_sort_key(item[0]))
        for (near, its_ns), (wide, other_ns) in pairwise(ordered):
            if its_ns > DISORDER * other_ns:
                says = f"{near} {its_ns:.1f} ns, {wide} {other_ns:.1f}"
                yield "order", *kind, f"{near}>{wide}", its_ns / other_ns, says


def _check_history(medians: Medians, past: Medians) -> Iterator[tuple[object, ...]]:
    now = {row[:3]: row[3] for row in medians}
    # one of each run
    numbers: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in past:
        numbers[row[:3]].append(row[3])
    for kind, before in numbers.items():
        if len(before) >= MIN_HISTORY and kind in now:
            usual = median(before)
            factor = float(now[kind] / usual)
            if not 1 / OFF_HISTORY <= factor <= OFF_HISTORY:
                says = (
                    f"{kind[2]} {now[kind]:.1f} ns, in {len(before)} earlier runs"
                    f" {usual:.1f}"
                )
                yield "history", *kind, factor, says


def _check_asymmetry(pairs: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield the run ID and finding of each pair that takes longer in one direction than
    in the other.
    """
    columns = (*_RUN, "ping_cpu", "pong_cpu", "median_ns", "asymmetry")
    for *run, a, b, ns, by in _iter_values(pairs[pairs["asymmetry"].notna()], *columns):
        ratio, slow = (1 + by, b) if by >= 0 else (1 / (1 + by), a)
        says = f"{a}-{b} {ns:.1f} ns, {ratio - 1:+.0%} when {slow} pings"
        yield run[0], "asymmetry", *run[1:], f"{a}-{b}", ratio, says


def _iter_values(rows: pd.DataFrame, *columns: str) -> Iterable[tuple[Any, ...]]:
    """Return these columns of the rows, as plain values."""
    return rows[[*columns]].itertuples(index=False, name=None)

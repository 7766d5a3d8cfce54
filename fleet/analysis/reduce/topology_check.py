"""Check the topology that the OS reports against the latencies.

A finding has `check` (FINDING_MEANINGS; docs/flags.md), `benchmark`, `variant`,
`subject` (a pair or relations), `value` (the factor) and `says`, in words.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any

import pandas as pd

from fleet.analysis.base.tables import RUN_AND_CHOICE, number_groups
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
Median = tuple[str, str, str, float]  # of a run: benchmark, variant, relation, ns
Medians = Sequence[Median]


def check_topology(
    pairs: pd.DataFrame,
    history: pd.DataFrame | None = None,
    descriptions: Descriptions = SHIPPED,
) -> pd.DataFrame:
    """Find everything odd about one run; return a row of FINDING_COLUMNS for each
    finding. pairs: from `pair_medians`. history: from `load_host_history`; None to
    leave out what compares with earlier runs.
    """
    past: list[Median] = []
    if history is not None:
        for medians in group_medians_by_run(history).values():
            past.extend(medians)
    run_id = ""  # a single run needs no ID
    pairs_of_run = pairs.assign(run_id=run_id)
    findings_by_run = check_runs(pairs_of_run, {run_id: past}, descriptions)
    return pd.DataFrame(findings_by_run[run_id], columns=list(FINDING_COLUMNS))


def group_medians_by_run(relations: pd.DataFrame) -> dict[str, Medians]:
    """Group rows by run ID, as tuples of benchmark, variant, relation and ns.
    relations: a row per run, benchmark, variant and relation, with `median_ns`.
    """
    medians_by_run: dict[str, list[Median]] = {}
    columns = (*RUN_AND_CHOICE, "relation", "median_ns")
    for run_id, benchmark, variant, relation, ns in _iter_values(relations, *columns):
        medians = medians_by_run.setdefault(run_id, [])
        medians.append((benchmark, variant, relation, ns))
    return dict(medians_by_run)


def check_runs(
    pairs: pd.DataFrame,
    past: Mapping[str, Medians],
    descriptions: Descriptions = SHIPPED,
) -> dict[str, list[tuple[object, ...]]]:
    """Check several runs; return by run ID a tuple of the values of FINDING_COLUMNS for
    each finding. pairs: of these runs. past: by the ID of a run, the medians of all
    earlier runs that it is compared with, joined.
    """
    # a row is left per run, benchmark, variant, and pair of CPUs or CPU
    pairs = drop_points(pairs, descriptions)
    medians_by_run = _compute_medians_by_run(pairs)

    # a run's findings are in the order of these checks, of which two take all runs at
    # once, and two take one run
    findings: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for run_id, *finding in _check_siblings(pairs):
        findings[run_id].append(tuple(finding))
    for run_id, medians in medians_by_run.items():
        findings[run_id] += _check_relation_order(medians)
    for run_id, *finding in _check_asymmetry(pairs):
        findings[run_id].append(tuple(finding))
    for run_id, medians in medians_by_run.items():
        earlier_medians = past.get(run_id, ())
        findings[run_id] += _check_history(medians, earlier_medians)
    return findings


def _compute_medians_by_run(pairs: pd.DataFrame) -> dict[str, Medians]:
    """Compute the median of the pairs of each relation, by run ID."""
    relations = pairs.groupby([*RUN_AND_CHOICE, "relation"], sort=False)
    medians = relations["median_ns"].median()
    return group_medians_by_run(medians.reset_index())


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
    """Return by the ID of each of `runs`, rows of the table `runs`, the IDs of the last
    MAX_HISTORY runs of its host before it, oldest first.
    """
    runs_by_host: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for past in root.runs:  # oldest first
        runs_by_host[past.host_id].append((past.started_utc, past.run_id))
    earlier_ids = {}
    for run in runs:
        runs_of_host = runs_by_host[run["host_id"]]
        place = bisect_left(runs_of_host, (run["started_utc"], run["run_id"]))
        first = max(place - MAX_HISTORY, 0)
        last_before = runs_of_host[first:place]
        earlier_ids[run["run_id"]] = [run_id for _, run_id in last_before]
    return earlier_ids


def _check_siblings(pairs: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield the run ID and the values of FINDING_COLUMNS for each pair of SMT siblings
    that are not at least SIBLING_NEARER times nearer to each other than to any other
    CPU.
    """
    nearness = compute_sibling_nearness(pairs, number_groups(pairs, RUN_AND_CHOICE))
    pairs = pairs.assign(factor=nearness)
    doubtful_pairs = pairs[pairs["factor"] < SIBLING_NEARER]
    columns = (*RUN_AND_CHOICE, "ping_cpu", "pong_cpu", "median_ns", "factor")
    for run_id, *choice, ping, pong, ns, factor in _iter_values(
        doubtful_pairs, *columns
    ):
        pair = f"{ping}-{pong}"
        says = f"{pair} ({ns:.1f} ns, another CPU at {factor * ns:.1f})"
        yield run_id, "siblings", *choice, pair, factor, says


def _check_relation_order(medians: Medians) -> Iterator[tuple[object, ...]]:
    """Yield the values of FINDING_COLUMNS for each relation that is over 10 % slower
    than the next wider relation that was measured: CPUs that share more should be
    nearer.
    """
    for (benchmark, variant, _), ns_by_relation in _group_relations(medians).items():
        nearest_first = sorted(ns_by_relation, key=relation_sort_key)
        for near, wide in pairwise(nearest_first):
            near_ns = ns_by_relation[near]
            wide_ns = ns_by_relation[wide]
            if near_ns > DISORDER * wide_ns:
                subject = f"{near}>{wide}"
                says = f"{near} {near_ns:.1f} ns, {wide} {wide_ns:.1f}"
                yield "order", benchmark, variant, subject, near_ns / wide_ns, says


def _group_relations(
    medians: Medians,
) -> dict[tuple[str, str, str], dict[str, float]]:
    """Return by benchmark, variant and kinds of cores ("P-E", or "") the ns of each
    relation ("package P-E"). Cores of other kinds take other times, so that only
    relations of the same kinds compare. Single CPUs and unknown relations are left out.
    """
    groups: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for benchmark, variant, relation, ns in medians:
        place, _, core_kinds = relation.partition(" ")
        if place not in ("self", "unknown"):
            groups[benchmark, variant, core_kinds][relation] = ns
    return groups


def _check_history(medians: Medians, past: Medians) -> Iterator[tuple[object, ...]]:
    """Yield the values of FINDING_COLUMNS for each relation that takes over OFF_HISTORY
    times its usual ns, or less than the usual ns divided by this. The usual ns are the
    median of earlier runs, MIN_HISTORY of which must have the relation.

    medians: of the run to check. past: of all earlier runs, end to end.
    """
    ns_of_run = _collect_ns(medians)
    for key, past_ns in _collect_ns(past).items():
        if key not in ns_of_run or len(past_ns) < MIN_HISTORY:
            continue
        (ns,) = ns_of_run[key]
        usual_ns = median(past_ns)
        factor = float(ns / usual_ns)
        is_usual = 1 / OFF_HISTORY <= factor <= OFF_HISTORY
        if not is_usual:
            _, _, relation = key
            earlier = f"in {len(past_ns)} earlier runs {usual_ns:.1f}"
            says = f"{relation} {ns:.1f} ns, {earlier}"
            yield "history", *key, factor, says


def _collect_ns(medians: Medians) -> dict[tuple[str, str, str], list[float]]:
    """Collect the ns of each relation in order: by benchmark, variant and relation, a
    value for each run that has the relation.
    """
    ns_by_relation = defaultdict[tuple[str, str, str], list[float]](list)
    for benchmark, variant, relation, ns in medians:
        ns_by_relation[benchmark, variant, relation].append(ns)
    return ns_by_relation


def _check_asymmetry(pairs: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield the run ID and the values of FINDING_COLUMNS for each pair that takes
    longer in one direction than in the other. The factor is the time of the slower
    direction divided by the time of the faster. `asymmetry` is NaN if not proved.
    """
    asymmetric = pairs[pairs["asymmetry"].notna()]
    columns = (*RUN_AND_CHOICE, "ping_cpu", "pong_cpu", "median_ns", "asymmetry")
    for run_id, *choice, low, high, ns, asymmetry in _iter_values(asymmetric, *columns):
        ratio = 1 + asymmetry  # of the time when `high` pings to that when `low` does
        slower = high
        if asymmetry < 0:
            ratio = 1 / ratio
            slower = low
        pair = f"{low}-{high}"
        says = f"{pair} {ns:.1f} ns, {ratio - 1:+.0%} when {slower} pings"
        yield run_id, "asymmetry", *choice, pair, ratio, says


def _iter_values(rows: pd.DataFrame, *columns: str) -> Iterable[tuple[Any, ...]]:
    """Return these columns of the rows, as plain values."""
    return rows[[*columns]].itertuples(index=False, name=None)

"""Read the runs of a report some at a time and keep only what the page shows.

With many runs, only the last of each host is shown in detail. The others are read from the index, and only
those of their bursts that warnings need.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Floats, Ints
from fleet.analysis.base.text import name_kind, to_records
from fleet.analysis.compare.comparison import Tables
from fleet.analysis.reduce import load
from fleet.analysis.reduce.cross_checks import NO_COMPARISONS, can_compare, check_run, summarize_checks
from fleet.analysis.reduce.ladders import is_node_placed
from fleet.analysis.reduce.matrices import estimator_column, matrix, reduce_by_relation
from fleet.analysis.reduce.memory_peak import describe_memory
from fleet.analysis.reduce.pairs import as_float64, load_pairs, select_kinds
from fleet.analysis.reduce.topology import Layout, load_layouts
from fleet.analysis.reduce.topology_check import (
    FINDING_COLUMNS,
    Medians,
    check_runs,
    find_earlier_runs,
    group_medians_by_run,
)
from fleet.analysis.report.ladders import Ladder, build_ladders
from fleet.analysis.report.products import Products, build_products
from fleet.analysis.views.counters import count_per_unit, tabulate_events
from fleet.analysis.views.point_tables import (
    PointTables,
    tabulate_homes,
    tabulate_nodes,
    tabulate_points,
    tabulate_products,
)
from fleet.analysis.views.warnings import (
    BURST_COLUMNS,
    NOTHING,
    MarkedRows,
    RunWarning,
    list_warnings,
    load_marked_bursts,
    select_marked_rows,
)
from fleet.model import SHIPPED, Descriptions, View, read_descriptions
from fleet.store.runs import Listing, Root, open_listing

MANY_RUNS = 6  # of more, only the last of each host has a section and a row of its own
_STEPS = 400  # quantiles kept of a distribution
_AT_ONCE, _BURSTS_AT_ONCE = 4096, 200_000  # runs that are read together, and their bursts
_MOST_DRAWN = 1 << 20  # samples of a distribution
_DRAWN = (
    *("benchmark", "relation", "ping_cpu", "pong_cpu", "round", "iterations", "warmup"),
    *("ticks", "other_ticks", "ns_per_tick"),
)
_NO_ROWS = pd.DataFrame()
_BY_RELATION = ["run_id", "benchmark", "variant", "relation"]


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark and variant of a run. of_cpus: it measures single CPUs.

    number: the column of `pairs` that is the run's number. relations: from `relations`. Only for a run in
    detail: pairs (a row each, with flags), table (the matrix, None for single CPUs), rounds (columns
    `relation`, `ns`, a row per round), curves (quantiles of all samples by relation).
    """

    name: str
    heading: str
    of_cpus: bool
    number: str
    relations: list[dict[str, Any]]
    pairs: pd.DataFrame = field(default_factory=lambda: _NO_ROWS)
    table: pd.DataFrame | None = None
    rounds: pd.DataFrame = field(default_factory=lambda: _NO_ROWS)
    curves: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """One run. name: from `name_runs`. anchor: its place on the page.

    detailed: whether it has its own section. points: tables. checks: from `summarize_checks`. descriptions:
    of its benchmarks. memory: from `describe_memory`.
    """

    name: str
    anchor: str
    detailed: bool
    run: dict[str, Any]
    order: Layout
    parts: list[Part]
    points: Sequence[PointTables] = ()
    ladders: Sequence[Ladder] = ()
    products: Sequence[Products] = ()
    warnings: Sequence[RunWarning] = ()
    descriptions: Descriptions = SHIPPED
    checks: Sequence[tuple[str, ...]] = ()
    memory: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the tables by run ID. places: of `pairs`. relations: by kind, too."""

    pairs: pd.DataFrame
    places: Mapping[str, slice]
    orders: Mapping[str, Layout]
    marked: Mapping[str, MarkedRows]
    counters: dict[str, pd.DataFrame]
    relations: Mapping[str, Mapping[str, list[dict[str, Any]]]]
    findings: Mapping[str, list[tuple[object, ...]]]


def gather(root: Root, run_ids: Sequence[str], benchmark: str | None = None) -> tuple[list[Reading], Tables]:
    """Read the runs, each once, grouped by host, and their tables.

    benchmark: read only its rows; each run has measured it. Raise StoreError for a run that is not stored.
    """
    listing = open_listing(root)
    rows, runs, cpus = load.read_runs(listing, list(dict.fromkeys(run_ids)))
    hosts = list(dict.fromkeys(row["host_id"] for row in rows))
    rows.sort(key=lambda row: (hosts.index(row["host_id"]), row["started_utc"]))
    run_names = name_runs(rows)
    last = {row["host_id"]: row["run_id"] for row in rows}
    few = len(rows) <= MANY_RUNS
    before = find_earlier_runs(listing, rows)
    ids = sorted({run_id for ids in before.values() for run_id in ids} - before.keys())
    past: dict[str, Medians] = {}
    for start in range(0, len(ids), _AT_ONCE):
        summaries = load.list_published(listing, run_id=ids[start : start + _AT_ONCE])
        descriptions = load.merge_descriptions(summaries)
        pairs = as_float64(load_pairs(listing, run_id=[run.run_id for run in summaries]))
        past |= _compute_medians(load.drop_contradicting(pairs, summaries, descriptions), descriptions)
    readings: list[Reading] = []
    read: list[pd.DataFrame] = []
    for batch in _batch_runs(rows):
        detailed = {row["run_id"] for row in batch if few or last[row["host_id"]] == row["run_id"]}
        descriptions = read_descriptions(batch[0]["hello"])
        of_batch = _read_rows(listing, batch, cpus, detailed, before, past, descriptions, benchmark)
        read.append(of_batch.pairs)
        for run in batch:
            run_id = run["run_id"]
            names = (run_names[run_id], f"run-{len(readings) + 1}")
            readings.append(
                _make_reading(listing, run, of_batch, cpus, names, descriptions, detailed=run_id in detailed)
            )
    pairs = pd.concat(read, ignore_index=True)
    order = pd.Index(runs["run_id"]).get_indexer(pairs["run_id"])
    pairs = pairs.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)
    summaries = load.list_published(listing, run_id=run_ids)
    descriptions = load.merge_descriptions(summaries)
    pairs = load.drop_contradicting(pairs, summaries, descriptions)
    return readings, Tables(runs, cpus, pairs, descriptions)


def name_runs(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Name each run, keyed by its ID: its host, and of several the date or time and labels that differ."""
    names = {}
    for host in dict.fromkeys(row["host_id"] for row in rows):
        runs = [row for row in rows if row["host_id"] == host]
        common = text.find_common_labels([run["labels"] for run in runs])
        days = len({f"{run['started_utc']:%Y-%m-%d}" for run in runs}) == len(runs)
        for run in runs:
            when = (
                f"{run['started_utc']:{'%Y-%m-%d' if days else '%Y-%m-%d %H:%M:%S'}}" if len(runs) > 1 else ""
            )
            labels = text.format_labels(run["labels"], without=common) if len(runs) > 1 else ""
            names[run["run_id"]] = " ".join(filter(None, (run["host_name"], when, labels)))
    return names


def _batch_runs(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield runs to read together, whose agents describe the benchmarks alike; a big one comes alone."""
    batch: list[dict[str, Any]] = []
    bursts = 0
    for row in rows:
        bursts += row["bursts"]
        same_benchmarks = not batch or row["hello"].get("benchmarks") == batch[0]["hello"].get("benchmarks")
        if batch and (len(batch) == _AT_ONCE or bursts > _BURSTS_AT_ONCE or not same_benchmarks):
            yield batch
            batch, bursts = [], row["bursts"]
        batch.append(row)
    yield batch


def _compute_medians(pairs: pd.DataFrame, descriptions: Descriptions) -> dict[str, Medians]:
    return group_medians_by_run(reduce_by_relation(load.drop_points(pairs, descriptions), _BY_RELATION))


def _read_rows(
    listing: Listing,
    runs: Sequence[dict[str, Any]],
    cpus: pd.DataFrame,
    detailed: Collection[str],
    before: Mapping[str, Sequence[str]],
    past: dict[str, Medians],
    descriptions: Descriptions,
    benchmark: str | None,
) -> _Rows:
    """Read rows of `runs`. before: IDs of earlier runs, by run. past: their medians; adds those of `runs`."""
    ids = [run["run_id"] for run in runs]
    pairs = load.select_benchmark(as_float64(load_pairs(listing, run_id=ids)), benchmark).reset_index(
        drop=True
    )
    others = [run_id for run_id in ids if run_id not in detailed]
    brief = load_marked_bursts(listing, others)
    in_detail = [load.load_samples(listing, run_id=run_id, columns=BURST_COLUMNS) for run_id in detailed]
    relations: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for number in dict.fromkeys(map(estimator_column, runs)):
        own = [run["run_id"] for run in runs if estimator_column(run) == number]
        table = reduce_by_relation(pairs[pairs["run_id"].isin(own)], _BY_RELATION, number)
        for row in to_records(table.sort_values("median_ns", kind="stable")):
            relations.setdefault(row["run_id"], {}).setdefault(name_kind(row), []).append(row)
    past |= _compute_medians(pairs, descriptions)
    earlier = {
        run_id: [row for earlier_id in before[run_id] for row in past.get(earlier_id, ())] for run_id in ids
    }
    places = dict.fromkeys(ids, slice(0)) | rows_by_run(pairs)
    counters = load.load_counters(listing, run_id=ids)
    ends = pairs[["ping_cpu", "pong_cpu"]].to_numpy()
    return _Rows(
        pairs,
        places,
        load_layouts(cpus, {run_id: np.unique(ends[places[run_id]]).tolist() for run_id in ids}),
        select_marked_rows(
            pairs, pd.concat([brief, *in_detail]), {run["run_id"]: run["bursts"] for run in runs}
        ),
        {run_id: counters[place] for run_id, place in rows_by_run(counters).items()},
        relations,
        check_runs(pairs, earlier, descriptions),
    )


def rows_by_run(rows: pd.DataFrame) -> dict[str, slice]:
    """Return the slice of each run's rows, which follow one another."""
    ids = rows["run_id"].astype(str).to_numpy(dtype=object)
    begins = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
    return {str(ids[begin]): slice(begin, end) for begin, end in pairwise(begins) if begin < end}


def _make_reading(
    listing: Listing,
    run: dict[str, Any],
    rows: _Rows,
    cpus: pd.DataFrame,
    names: tuple[str, str],
    descriptions: Descriptions,
    *,
    detailed: bool,
) -> Reading:
    run_id = run["run_id"]
    relations = rows.relations.get(run_id, {})
    kinds = list(dict.fromkeys(kind for kind in (*run["benchmarks"], *relations) if kind in relations))
    parts = {}
    for kind in kinds:
        description = descriptions[kind.partition("/")[0]]
        if description.view in (View.MATRIX, View.CPUS):
            of_cpus = description.view is View.CPUS
            parts[kind] = Part(kind, description.heading, of_cpus, estimator_column(run), relations[kind])
    reading = Reading(
        *names, detailed, run, rows.orders[run_id], list(parts.values()), descriptions=descriptions
    )
    checked = NO_COMPARISONS
    if detailed or can_compare(kinds, descriptions):
        pairs = rows.pairs[rows.places[run_id]].reset_index(drop=True)
        cpus = cpus[cpus["run_id"] == run_id].reset_index(drop=True)
        checked = check_run(run, pairs, cpus, descriptions)
        ladders, products = (
            build_ladders(pairs, cpus, kinds, descriptions),
            build_products(pairs, cpus, descriptions),
        )
        memory = describe_memory(run, pairs, cpus, descriptions)
        reading = replace(
            reading, ladders=ladders, products=products, checks=summarize_checks(checked), memory=memory
        )
    if detailed:
        reading = _read_detail(listing, reading, pairs, parts, kinds, rows, descriptions)
        by_nodes = [
            *tabulate_nodes(pairs, cpus, run, descriptions),
            *tabulate_homes(pairs, cpus, descriptions),
        ]
        reading = replace(reading, points=[*reading.points, *by_nodes])
    findings = pd.DataFrame(rows.findings.get(run_id, []), columns=list(FINDING_COLUMNS))
    return replace(reading, warnings=list_warnings(run, rows.marked.get(run_id, NOTHING), checked, findings))


def _read_detail(
    listing: Listing,
    reading: Reading,
    pairs: pd.DataFrame,
    parts: Mapping[str, Part],
    kinds: Sequence[str],
    rows: _Rows,
    descriptions: Descriptions,
) -> Reading:
    run_id = reading.run["run_id"]
    detailed_parts, points, placed = [], [], is_node_placed(pairs, descriptions)
    for kind in kinds:
        benchmark, _, variant = kind.partition("/")
        own = pairs[(pairs["benchmark"] == benchmark) & (pairs["variant"] == variant) & ~placed]
        if kind in parts:
            stored = load.load_samples_in_parts(listing, run_id, benchmark=kind, columns=_DRAWN)
            bursts = (
                select_kinds(part.assign(run_id=run_id), {run_id: reading.order.kinds}) for part in stored
            )
            detailed_parts.append(_read_part_detail(parts[kind], own, bursts, reading.order, descriptions))
        elif len(own) and descriptions[kind].view is not View.LADDER:
            points.append(
                tabulate_products(own, descriptions)
                if descriptions[kind].view is View.PRODUCTS
                else tabulate_points(own, descriptions)
            )
        if run_id in rows.counters:
            counts = count_per_unit(rows.counters[run_id], pairs)
            own_counts = counts[(counts["benchmark"] == benchmark) & (counts["variant"] == variant)]
            if counted := tabulate_events(own_counts, reading.run["hello"], descriptions):
                points.append(counted)
    return replace(reading, parts=detailed_parts, points=points)


def _read_part_detail(
    part: Part, pairs: pd.DataFrame, parts: Iterable[pd.DataFrame], order: Layout, descriptions: Descriptions
) -> Part:
    """Add pairs, rounds and curves to a part.

    parts: its bursts, some at a time; curves drop excess samples.
    """
    rounds = list[pd.DataFrame]()
    of_relations = {row["relation"]: _Thinned(_MOST_DRAWN) for row in part.relations}
    for samples in parts:
        latency, burst, is_warmup = load.compute_latencies(samples, descriptions)
        latency, burst = latency[~is_warmup], burst[~is_warmup]
        relation = samples["relation"].astype(str).to_numpy()
        for name, thinned in of_relations.items():
            own = np.sort(latency[(relation == name)[burst]])
            thinned.add(own)
        rounds.append(_compute_burst_medians(samples, latency, burst))
    shares = np.linspace(0, 1, _STEPS)
    return replace(
        part,
        pairs=pairs,
        table=None if part.of_cpus else matrix(pairs, order.cpus, part.number),
        rounds=pd.concat(rounds).groupby(["relation", "round"], sort=False)["ns"].median().reset_index(),
        curves={
            name: np.quantile(np.concatenate(thinned.parts), shares) for name, thinned in of_relations.items()
        },
    )


class _Thinned:
    """Values that come in parts, each in order; every other one is dropped whenever there are too many."""

    def __init__(self, limit: int) -> None:
        self.parts: list[Floats] = []
        self._most, self._step, self._read_groups = limit, 1, 0

    def add(self, part: Floats) -> None:
        self.parts.append(part[:: self._step].copy())
        self._read_groups += len(part) // self._step
        while self._read_groups > self._most:
            self.parts = [values[::2].copy() for values in self.parts]
            self._step, self._read_groups = 2 * self._step, self._read_groups // 2


def _compute_burst_medians(samples: pd.DataFrame, latency: Floats, burst: Ints) -> pd.DataFrame:
    """Return the relation, round and median of each burst with samples."""
    sizes = np.bincount(burst)
    sampled = np.flatnonzero(sizes)
    if len(sampled) and (sizes[sampled] == sizes[sampled[0]]).all():  # they follow one another
        middles = pd.Series(np.median(latency.reshape(len(sampled), -1), axis=1), sampled)
    else:
        middles = pd.Series(latency).groupby(burst).median()
    bursts = samples.iloc[middles.index]
    return bursts[["round"]].assign(relation=bursts["relation"].astype(str), ns=middles.to_numpy())

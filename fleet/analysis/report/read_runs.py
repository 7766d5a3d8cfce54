"""Read the runs of a report some at a time and keep only what the page shows.

With many runs, only the last of each host is shown in detail. The others are read from
the index, with only the bursts that warnings need.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Floats
from fleet.analysis.compare.sides import Tables
from fleet.analysis.reduce import load, topology_check
from fleet.analysis.reduce.cross_checks import (
    NO_COMPARISONS,
    check_run,
    has_cross_checks,
    summarize_checks,
)
from fleet.analysis.reduce.ladders import describe_memory, is_node_placed
from fleet.analysis.reduce.matrices import estimator_column, matrix, reduce_by_relation
from fleet.analysis.reduce.numbers import load_numbers
from fleet.analysis.reduce.pairs import add_kinds_to_relations, as_float64, load_pairs
from fleet.analysis.reduce.topology import Layout, make_layouts
from fleet.analysis.report.ladders import Ladder, build_ladders
from fleet.analysis.report.roofline import GemmRates, group_gemm_rates_by_threads
from fleet.analysis.views import marked_rows
from fleet.analysis.views.benchmark_tables import PointTables
from fleet.analysis.views.event_tables import count_per_unit, tabulate_events
from fleet.analysis.views.node_tables import tabulate_by_node, tabulate_line_nodes
from fleet.analysis.views.point_tables import tabulate_points
from fleet.analysis.views.product_tables import tabulate_gemm_points
from fleet.analysis.views.warnings import RunWarning, list_warnings
from fleet.model import Descriptions, View, read_descriptions
from fleet.store.runs import Listing, Root, open_listing

MANY_RUNS = (
    6  # with more, only the last of each host has a section and a row of its own
)
_STEPS = 400  # quantiles kept of a distribution
# runs that are read together, and their bursts
_AT_ONCE, _BURSTS_AT_ONCE = (
    4096,
    200_000,
)
_MAX_DRAWN = 1 << 20  # samples of a distribution
_DRAWN = (
    *("benchmark", "relation", "ping_cpu", "pong_cpu", "round", "iterations", "warmup"),
    *("ticks", "other_ticks", "ns_per_tick"),
)
_BY_RELATION = ["run_id", "benchmark", "variant", "relation"]


@dataclass(slots=True)
class Part:
    """One benchmark and variant of a run. of_cpus: it measures single CPUs, not pairs.

    relations: a row per relation. Filled only for a run in detail: pairs (rows of
    `pairs`), table (the matrix; None for single CPUs), rounds (a row per relation and
    round, with its median `ns`), curves (quantiles of all samples, by relation).
    """

    name: str
    heading: str
    of_cpus: bool
    relations: list[dict[str, Any]]
    pairs: pd.DataFrame = field(default_factory=pd.DataFrame)
    table: pd.DataFrame | None = None
    rounds: pd.DataFrame = field(default_factory=pd.DataFrame)
    curves: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """One run. name: from `name_runs`. anchor: its ID on the page. number: the column
    of `pairs` to show.

    detailed: whether it has its own section. points: tables of points and events.
    checks: from `summarize_checks`. descriptions: of its benchmarks. memory: from
    `describe_memory`.
    """

    name: str
    anchor: str
    detailed: bool
    run: dict[str, Any]
    number: str
    order: Layout
    descriptions: Descriptions
    parts: list[Part] = field(default_factory=list)
    points: list[PointTables] = field(default_factory=list)
    ladders: Sequence[Ladder] = ()
    gemm_rates: Sequence[GemmRates] = ()
    warnings: Sequence[RunWarning] = ()
    checks: Sequence[tuple[str, ...]] = ()
    memory: Sequence[str] = ()


def load_readings(
    root: Root, run_ids: Sequence[str], benchmark: str | None = None
) -> tuple[list[Reading], Tables]:
    """Return a `Reading` per run, each run once, grouped by host; and the tables of all
    runs.

    benchmark: keep only its rows; every run must have it. Raises StoreError for a run
    that is not stored.
    """
    listing = open_listing(root)
    rows, runs, cpus = load.read_runs(listing, list(dict.fromkeys(run_ids)))
    hosts = list(dict.fromkeys(row["host_id"] for row in rows))
    rows.sort(key=lambda row: (hosts.index(row["host_id"]), row["started_utc"]))
    last = {row["host_id"]: row["run_id"] for row in rows}
    detailed = {
        row["run_id"]
        for row in rows
        if len(rows) <= MANY_RUNS or row["run_id"] in last.values()
    }
    before = topology_check.find_earlier_runs(listing, rows)
    numbers = load_numbers(listing, run_id=[*chain(*before.values())])
    past = topology_check.group_medians_by_run(numbers)
    earlier = {
        run_id: [row for old in ids for row in past.get(old, ())]
        for run_id, ids in before.items()
    }
    readings, parts = list[Reading](), list[pd.DataFrame]()
    names = (
        (name, f"run-{number}")
        for number, name in enumerate(name_runs(rows).values(), 1)
    )
    for batch in _batch_runs(rows):
        ids = [run["run_id"] for run in batch]
        pairs = as_float64(load_pairs(listing, run_id=ids))
        parts.append(load.select_benchmark(pairs, benchmark).reset_index(drop=True))
        readings += _read_batch(
            listing, batch, parts[-1], cpus, names, detailed, earlier
        )
    pairs = pd.concat(parts, ignore_index=True)
    order = pd.Index(runs["run_id"]).get_indexer(pairs["run_id"])
    pairs = pairs.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)
    summaries = load.list_published(listing, run_id=run_ids)
    descriptions = load.merge_descriptions(summaries)
    pairs = load.drop_contradicting(pairs, summaries, descriptions)
    return readings, Tables(runs, cpus, pairs, descriptions)


def name_runs(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return names by run ID: the host and, if it has several runs, date or time and
    differing labels.
    """
    names = {}
    for host in dict.fromkeys(row["host_id"] for row in rows):
        runs = [row for row in rows if row["host_id"] == host]
        common, moment = (
            text.find_common_labels([run["labels"] for run in runs]),
            "%Y-%m-%d",
        )
        if len({f"{run['started_utc']:{moment}}" for run in runs}) < len(runs):
            moment += " %H:%M:%S"
        for run in runs:
            about = [
                f"{run['started_utc']:{moment}}",
                text.format_labels(run["labels"], without=common),
            ]
            parts = [run["host_name"], *(about if len(runs) > 1 else ())]
            names[run["run_id"]] = " ".join(filter(None, parts))
    return names


def _batch_runs(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield batches of runs to read together, limited in size, whose agents describe
    benchmarks alike.
    """
    batch: list[dict[str, Any]] = []
    bursts = 0
    for row in rows:
        bursts += row["bursts"]
        same_benchmarks = not batch or row["hello"].get("benchmarks") == batch[0][
            "hello"
        ].get("benchmarks")
        if batch and (
            len(batch) == _AT_ONCE or bursts > _BURSTS_AT_ONCE or not same_benchmarks
        ):
            yield batch
            batch, bursts = [], row["bursts"]
        batch.append(row)
    yield batch


def _read_batch(
    listing: Listing,
    runs: Sequence[dict[str, Any]],
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    names: Iterator[tuple[str, str]],
    detailed: Set[str],
    earlier: Mapping[str, topology_check.Medians],
) -> Iterator[Reading]:
    """Yield a `Reading` per run of `pairs`. names: with anchors. earlier: medians of
    past runs, by run ID.
    """
    descriptions = read_descriptions(runs[0]["hello"])
    bursts = {run["run_id"]: run["bursts"] for run in runs}
    flagged = [marked_rows.load_marked_bursts(listing, bursts.keys() - detailed)]
    columns, own_ids = (
        marked_rows.BURST_COLUMNS,
        [run_id for run_id in bursts if run_id in detailed],
    )
    flagged += [
        load.load_samples(listing, run_id=run_id, columns=columns) for run_id in own_ids
    ]
    marked = marked_rows.select_marked_rows(pairs, pd.concat(flagged), bursts)
    relations: dict[str, dict[str, list[dict[str, Any]]]] = {
        run_id: {} for run_id in bursts
    }
    for number in dict.fromkeys(map(estimator_column, runs)):
        ids = [run["run_id"] for run in runs if estimator_column(run) == number]
        table = reduce_by_relation(
            pairs[pairs["run_id"].isin(ids)], _BY_RELATION, number
        )
        for row in text.to_records(table.sort_values("median_ns", kind="stable")):
            relations[row["run_id"]].setdefault(text.name_benchmark(row), []).append(
                row
            )
    counters = load.load_counters(listing, run_id=list(bursts))
    places = pairs.groupby("run_id", sort=False, observed=True).indices
    ends = pairs[["ping_cpu", "pong_cpu"]].to_numpy()
    measured = {
        run_id: np.unique(ends[places.get(run_id, [])]).tolist() for run_id in bursts
    }
    orders = make_layouts(cpus, measured)
    findings = topology_check.check_runs(pairs, earlier, descriptions)
    for run in runs:
        run_id, checked = run["run_id"], NO_COMPARISONS
        number, order = estimator_column(run), orders[run_id]
        reading = Reading(
            *next(names), run_id in detailed, run, number, order, descriptions
        )
        rows_by_kind = relations[run_id]
        kinds = [
            kind
            for kind in dict.fromkeys((*run["benchmarks"], *rows_by_kind))
            if kind in rows_by_kind
        ]
        for kind in kinds:
            if (view := descriptions[kind].view) in (View.MATRIX, View.CPUS):
                heading, of_cpus = descriptions[kind].heading, view is View.CPUS
                reading.parts.append(Part(kind, heading, of_cpus, rows_by_kind[kind]))
        if reading.detailed or has_cross_checks(kinds, descriptions):
            own = pairs.iloc[places.get(run_id, [])].reset_index(drop=True)
            own_cpus = cpus[cpus["run_id"] == run_id].reset_index(drop=True)
            checked = check_run(run, own, own_cpus, descriptions)
            reading.checks = summarize_checks(checked)
            reading.ladders = build_ladders(own, own_cpus, kinds, descriptions)
            reading.gemm_rates = group_gemm_rates_by_threads(
                own, own_cpus, descriptions
            )
            reading.memory = describe_memory(run, own, own_cpus, descriptions)
            if reading.detailed:
                counts = count_per_unit(counters[counters["run_id"] == run_id], own)
                _add_details(listing, reading, own, own_cpus, kinds, counts)
        odd = pd.DataFrame(
            findings.get(run_id, []), columns=list(topology_check.FINDING_COLUMNS)
        )
        marks = marked.get(run_id, marked_rows.NOTHING)
        reading.warnings = list_warnings(run, marks, checked, odd)
        yield reading


def _add_details(
    listing: Listing,
    reading: Reading,
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    kinds: Sequence[str],
    counts: pd.DataFrame,
) -> None:
    """Add rounds, curves and tables of points to the `reading` of a run. counts: from
    `count_per_unit`.
    """
    run_id, descriptions = reading.run["run_id"], reading.descriptions
    parts, placed = (
        {part.name: part for part in reading.parts},
        is_node_placed(pairs, descriptions),
    )
    for kind in kinds:
        benchmark, _, variant = kind.partition("/")
        own, own_counts = (
            table[(table["benchmark"] == benchmark) & (table["variant"] == variant)]
            for table in (pairs[~placed], counts)
        )
        view = descriptions[kind].view
        if part := parts.get(kind):
            part.pairs = own
            part.table = (
                None
                if part.of_cpus
                else matrix(own, reading.order.cpus, reading.number)
            )
            bursts = load.load_samples_in_parts(
                listing, run_id, benchmark=kind, columns=_DRAWN
            )
            cores = {run_id: reading.order.kinds}
            named = (
                add_kinds_to_relations(rows.assign(run_id=run_id), cores)
                for rows in bursts
            )
            _add_rounds_and_curves(part, named, descriptions)
        elif len(own) and view is not View.LADDER:
            special = {View.PRODUCTS: tabulate_gemm_points}
            tabulate = special.get(view, tabulate_points)
            reading.points.append(tabulate(own, descriptions))
        if counted := tabulate_events(own_counts, reading.run["hello"], descriptions):
            reading.points.append(counted)
    reading.points += tabulate_by_node(pairs, cpus, reading.run, descriptions)
    reading.points += tabulate_line_nodes(pairs, cpus, descriptions)


def _add_rounds_and_curves(
    part: Part, bursts: Iterable[pd.DataFrame], descriptions: Descriptions
) -> None:
    """Fill `rounds` and `curves` of a part, curves of at most about _MAX_DRAWN samples.
    bursts: its own.
    """
    totals = part.pairs.groupby("relation", observed=True)["samples"].sum()
    medians, values = [], {row["relation"]: list[Floats]() for row in part.relations}
    for samples in bursts:
        latency, burst, is_warmup = load.compute_sample_latencies(samples, descriptions)
        latency, burst = latency[~is_warmup], burst[~is_warmup]
        relation = samples["relation"].astype(str).to_numpy()
        for name, own in values.items():
            step = 1 + int(totals.get(name, 0)) // _MAX_DRAWN
            # no view of them all
            own.append(np.sort(latency[(relation == name)[burst]])[::step].copy())
        ns = pd.Series(latency).groupby(burst).median()
        rows = samples.iloc[ns.index]
        medians.append(
            rows[["round"]].assign(relation=relation[ns.index], ns=ns.to_numpy())
        )
    part.rounds = (
        pd.concat(medians)
        .groupby(["relation", "round"], sort=False)["ns"]
        .median()
        .reset_index()
    )
    shares = np.linspace(0, 1, _STEPS)
    part.curves = {
        name: np.quantile(np.concatenate(own), shares) for name, own in values.items()
    }

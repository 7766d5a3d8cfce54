"""Read the runs of a report some at a time and keep only what the page shows.

With many runs, only the last of each host is shown in detail. The others are read from
the index, with only the bursts that warnings need.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import RUN_AND_CHOICE, Bools, Floats, Ints
from fleet.analysis.compare.sides import Tables
from fleet.analysis.reduce import load, topology_check
from fleet.analysis.reduce.cross_checks import (
    NO_COMPARISONS,
    check_run,
    has_cross_checks,
    summarize_checks,
)
from fleet.analysis.reduce.ladders import (
    MemoryHierarchy,
    arrange_memory,
    describe_memory,
    is_node_placed,
)
from fleet.analysis.reduce.load import select_choice
from fleet.analysis.reduce.matrices import estimator_column, matrix
from fleet.analysis.reduce.numbers import (
    Only,
    list_relations,
    load_numbers,
    load_shown_numbers,
)
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

MANY_RUNS = 6  # with more, only each host's last has a section and a row of its own
_STEPS = 400  # quantiles kept of a distribution
_AT_ONCE = 4096  # runs that are read together
_BURSTS_AT_ONCE = 200_000  # and their bursts
_MAX_BURSTS = 60_000  # of a part that are kept; 160 kB of a page
_MAX_DRAWN = 1 << 20  # samples of a distribution
_DRAWN = (
    *("benchmark", "variant", "point", "relation", "ping_cpu", "pong_cpu", "round"),
    *("iterations", "warmup", "ticks", "other_ticks", "ns_per_tick"),
)
_VIEWS_WITH_POINTS = (View.TABLE, View.BLOCKS, View.PRODUCTS)
_NO_ROWS: Ints = np.array([], dtype=np.intp)


@dataclass(slots=True)
class Part:
    """One benchmark and variant of a run or, where lines are placed, one node of it.

    name: `choice`, a benchmark and variant, and the point unless it is the usual one.
    point: None if the benchmark has no points. is_of_single_cpus: it measures single
    CPUs, not pairs. relations: a row per relation.

    These are filled only for a run in detail. pairs: rows of the table `pairs`. table:
    the matrix; None for single CPUs. rounds: a row per relation and round, with its
    median `ns`. bursts: a row per burst, with its median `ns`; empty if there are many.
    curves: quantiles of all samples, by relation.
    """

    name: str
    choice: str
    point: str | None
    heading: str
    is_of_single_cpus: bool
    relations: list[dict[str, Any]]
    pairs: pd.DataFrame = field(default_factory=pd.DataFrame)
    table: pd.DataFrame | None = None
    rounds: pd.DataFrame = field(default_factory=pd.DataFrame)
    bursts: pd.DataFrame = field(default_factory=pd.DataFrame)
    curves: Mapping[str, Floats] = field(default_factory=dict)

    def select(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of this benchmark, variant and point."""
        return load.select_point(select_choice(rows, self.choice), self.point)


@dataclass(slots=True)
class Reading:
    """One run. name: from `name_runs`. anchor: its ID on the page. ns_column: the
    column of `pairs` to show, such as "median_ns".

    detailed: whether it has its own section. points: tables of points and events.
    checks: from `summarize_checks`. descriptions: of its benchmarks. memory: from
    `describe_memory`.
    """

    name: str
    anchor: str
    detailed: bool
    run: dict[str, Any]
    ns_column: str
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
    root: Root,
    run_ids: Sequence[str],
    benchmark: str | None = None,
    on_run: Callable[[], None] = lambda: None,
) -> tuple[list[Reading], Tables]:
    """Return a `Reading` per run, each run once, grouped by host; and the tables of all
    runs.

    benchmark: keep only its rows; every run must have it. on_run: called after each
    run. Raises StoreError for a run that is not stored.
    """
    listing = open_listing(root)
    distinct_ids = list(dict.fromkeys(run_ids))
    # `runs` are the rows of `runs_table`, decoded
    runs, runs_table, cpus = load.read_runs(listing, distinct_ids)
    runs = _sort_by_host_and_time(runs)
    names = name_runs(runs)
    sources = _Sources(
        listing=listing,
        benchmark=benchmark,
        cpus=cpus,
        detailed_run_ids=_choose_detailed(runs),
        earlier_medians=_load_earlier_medians(listing, runs),
    )
    readings = list[Reading]()
    pairs_of_batches = list[pd.DataFrame]()
    for runs_of_batch in _batch_runs(runs):
        batch = _load_batch(sources, runs_of_batch)
        pairs_of_batches.append(batch.pairs)
        for run in runs_of_batch:
            anchor = f"run-{len(readings) + 1}"
            reading = batch.start_reading(run, names[run["run_id"]], anchor)
            _fill_reading(listing, reading, batch)
            readings.append(reading)
            on_run()
    pairs = pd.concat(pairs_of_batches, ignore_index=True)
    pairs = _order_by_run(pairs, runs_table)
    return readings, _make_tables(listing, runs_table, cpus, pairs)


def _make_tables(
    listing: Listing, runs: pd.DataFrame, cpus: pd.DataFrame, pairs: pd.DataFrame
) -> Tables:
    """Return the tables of all runs, without pairs whose benchmark the agents describe
    in contradicting ways.
    """
    run_ids = runs["run_id"].tolist()
    summaries = load.list_published(listing, run_id=run_ids)
    descriptions = load.merge_descriptions(summaries)
    pairs = load.drop_contradicting(pairs, summaries, descriptions)
    return Tables(runs, cpus, pairs, descriptions)


@dataclass(frozen=True, slots=True)
class _Sources:
    """Where the tables of every batch of runs come from. benchmark: the only one to
    read, or None. cpus: rows of all runs. detailed_run_ids: of the runs with a section.
    earlier_medians: those of past runs, by the ID of a run of the page.
    """

    listing: Listing
    benchmark: str | None
    cpus: pd.DataFrame
    detailed_run_ids: Set[str]
    earlier_medians: Mapping[str, topology_check.Medians]


def _load_pairs(
    listing: Listing, runs: Sequence[Mapping[str, Any]], benchmark: str | None
) -> pd.DataFrame:
    """Load the pairs of some runs, only those of a benchmark if it is given."""
    run_ids = [run["run_id"] for run in runs]
    pairs = as_float64(load_pairs(listing, run_id=run_ids))
    return load.select_benchmark(pairs, benchmark).reset_index(drop=True)


def _sort_by_host_and_time(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs host by host, hosts in the order given, each host's by time."""
    by_time = sorted(rows, key=itemgetter("started_utc"))
    hosts = dict.fromkeys(row["host_id"] for row in rows)
    places = {host: place for place, host in enumerate(hosts)}
    return sorted(by_time, key=lambda row: places[row["host_id"]])


def _choose_detailed(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the runs with a section: all if they are few, else each host's last."""
    if len(rows) <= MANY_RUNS:
        return {row["run_id"] for row in rows}
    last = {row["host_id"]: row["run_id"] for row in rows}
    return set(last.values())


def _load_earlier_medians(
    listing: Listing, rows: Sequence[Mapping[str, Any]]
) -> dict[str, topology_check.Medians]:
    """Return for each run, by its ID, the medians of the host's last few runs before
    it. The check of the topology compares the run with them.
    """
    ids_before = topology_check.find_earlier_runs(listing, rows)
    all_ids = set(chain.from_iterable(ids_before.values()))
    numbers = load_numbers(listing, run_id=all_ids)
    medians_by_run = topology_check.group_medians_by_run(numbers)
    earlier = dict[str, topology_check.Medians]()
    for run_id, ids in ids_before.items():
        medians_before = [medians_by_run.get(id_before, ()) for id_before in ids]
        earlier[run_id] = list(chain.from_iterable(medians_before))
    return earlier


def _order_by_run(pairs: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs in the order of `runs`."""
    run_ids = pd.Index(runs["run_id"])
    place = run_ids.get_indexer(pairs["run_id"])  # of each pair's run
    order = np.argsort(place, kind="stable")
    return pairs.iloc[order].reset_index(drop=True)


def name_runs(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return names by run ID: the host and, if it has several runs, date or time and
    differing labels.
    """
    runs_by_host = defaultdict[str, list[Mapping[str, Any]]](list)
    for row in rows:
        runs_by_host[row["host_id"]].append(row)
    names = dict[str, str]()
    for runs in runs_by_host.values():
        if len(runs) == 1:
            names[runs[0]["run_id"]] = runs[0]["host_name"]
        else:
            names |= _name_runs_of_host(runs)
    return names


def _name_runs_of_host(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return names of several runs of a host, by run ID."""
    common = text.find_common_labels([run["labels"] for run in runs])
    moment = _choose_moment_format(runs)
    names = {}
    for run in runs:
        name = f"{run['host_name']} {run['started_utc']:{moment}}"
        labels = text.format_labels(run["labels"], without=common)
        if labels:
            name += f" {labels}"
        names[run["run_id"]] = name
    return names


def _choose_moment_format(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the format of a run's start: its date, with the time if dates repeat."""
    day = "%Y-%m-%d"
    days = {f"{run['started_utc']:{day}}" for run in runs}
    if len(days) == len(runs):
        return day
    return f"{day} %H:%M:%S"


def _batch_runs(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield batches of consecutive runs, whose tables are read together.

    A batch has at most _AT_ONCE runs and _BURSTS_AT_ONCE bursts; a run with more bursts
    is a batch of its own. The agents of its runs describe benchmarks alike, so one
    description does for all its rows. rows: of the table of runs, at least one.
    """
    batch: list[dict[str, Any]] = []
    burst_count = 0
    for row in rows:
        burst_count += row["bursts"]
        is_full = len(batch) == _AT_ONCE or burst_count > _BURSTS_AT_ONCE
        if batch and (is_full or not _have_equal_benchmarks(batch[0], row)):
            yield batch
            batch = []
            burst_count = row["bursts"]
        batch.append(row)
    yield batch


def _have_equal_benchmarks(run: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Report whether the agents of two runs describe benchmarks alike."""
    benchmarks = run["hello"].get("benchmarks")
    others = other["hello"].get("benchmarks")
    return bool(benchmarks == others)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Tables of runs that are read together.

    detailed: IDs of the runs with a section. choices: the benchmarks and variants
    measured, by run ID. relations: a row per relation, by run ID and by benchmark and
    variant. counters: a row per pair and event. marked, findings: what warnings need,
    by run ID. rows_by_run: the row numbers of each run in `pairs`, by run ID.
    """

    pairs: pd.DataFrame
    cpus: pd.DataFrame
    counters: pd.DataFrame
    descriptions: Descriptions
    detailed: Set[str]
    layouts: Mapping[str, Layout]
    rows_by_run: Mapping[Any, Any]
    choices: Mapping[str, Sequence[str]]
    relations: Mapping[str, Mapping[str, list[dict[str, Any]]]]
    marked: Mapping[str, Any]
    findings: Mapping[str, Any]

    def start_reading(self, run: dict[str, Any], name: str, anchor: str) -> Reading:
        """Return the reading of a run, with what is known without its tables."""
        run_id = run["run_id"]
        return Reading(
            name=name,
            anchor=anchor,
            detailed=run_id in self.detailed,
            run=run,
            ns_column=estimator_column(run),
            order=self.layouts[run_id],
            descriptions=self.descriptions,
        )

    def select_pairs(self, run_id: str) -> pd.DataFrame:
        """Return the rows of a run's pairs."""
        own_rows = self.rows_by_run.get(run_id, _NO_ROWS)
        pairs: pd.DataFrame = self.pairs.iloc[own_rows]
        return pairs.reset_index(drop=True)

    def select_cpus(self, run_id: str) -> pd.DataFrame:
        """Return the rows of a run's CPUs."""
        is_of_run = self.cpus["run_id"] == run_id
        cpus: pd.DataFrame = self.cpus[is_of_run]
        return cpus.reset_index(drop=True)

    def select_counters(self, run_id: str) -> pd.DataFrame:
        """Return the rows of a run's counters."""
        is_of_run = self.counters["run_id"] == run_id
        counters: pd.DataFrame = self.counters[is_of_run]
        return counters

    def tabulate_odd_topology(self, run_id: str) -> pd.DataFrame:
        """Return what is odd about a run's topology, a row each."""
        findings = self.findings.get(run_id, [])
        columns = list(topology_check.FINDING_COLUMNS)
        return pd.DataFrame(findings, columns=columns)


def _load_batch(sources: _Sources, runs: Sequence[dict[str, Any]]) -> _Batch:
    """Load the tables of a batch of runs. Their agents describe benchmarks alike, so
    the descriptions of the first run are those of all.

    sources: where the tables come from. runs: rows of the table of runs, decoded.
    """
    listing = sources.listing
    benchmark = sources.benchmark
    descriptions = read_descriptions(runs[0]["hello"])
    pairs = _load_pairs(listing, runs, benchmark)
    burst_counts = {run["run_id"]: run["bursts"] for run in runs}
    run_ids = list(burst_counts)
    bursts = _load_bursts_for_warnings(listing, run_ids, sources.detailed_run_ids)
    # the row numbers of each run in `pairs`, by run ID
    rows_by_run = pairs.groupby("run_id", sort=False, observed=True).indices
    measured = _list_measured_cpus(pairs, rows_by_run, run_ids)
    return _Batch(
        pairs=pairs,
        cpus=sources.cpus,
        counters=load.load_counters(listing, run_id=run_ids),
        descriptions=descriptions,
        detailed=sources.detailed_run_ids,
        layouts=make_layouts(sources.cpus, measured),
        rows_by_run=rows_by_run,
        choices=_list_choices(pairs),
        relations=_load_relations(listing, runs, benchmark, descriptions),
        marked=marked_rows.select_marked_rows(pairs, bursts, burst_counts),
        findings=topology_check.check_runs(
            pairs, sources.earlier_medians, descriptions
        ),
    )


def _list_measured_cpus(
    pairs: pd.DataFrame, rows_by_run: Mapping[Any, Any], run_ids: Sequence[str]
) -> dict[str, list[int]]:
    """List the CPUs that each run has pairs of, in rising order, by run ID; [] of a run
    without pairs. rows_by_run: the row numbers of each run in `pairs`.
    """
    both_cpus = pairs[["ping_cpu", "pong_cpu"]].to_numpy()
    cpus_by_run = dict[str, list[int]]()
    for run_id in run_ids:
        own_rows = rows_by_run.get(run_id, _NO_ROWS)
        cpus_by_run[run_id] = np.unique(both_cpus[own_rows]).tolist()
    return cpus_by_run


def _load_bursts_for_warnings(
    listing: Listing, run_ids: Sequence[str], detailed: Set[str]
) -> pd.DataFrame:
    """Return the bursts that warnings need, a row each: all bursts of a detailed run,
    and of any other run only the marked bursts, which have a flag or lost time to a
    hypervisor. detailed: IDs of the runs that have a section of the page.
    """
    others = set(run_ids) - detailed
    marked = marked_rows.load_marked_bursts(listing, others)
    tables = [marked]
    for run_id in run_ids:
        if run_id in detailed:
            bursts = load.load_samples(
                listing,
                run_id=run_id,
                columns=marked_rows.BURST_COLUMNS,
            )
            tables.append(bursts)
    filled = [bursts for bursts in tables if len(bursts)]
    if not filled:
        return marked  # without rows, but with the columns
    return pd.concat(filled)


def _load_relations(
    listing: Listing,
    runs: Sequence[Mapping[str, Any]],
    benchmark: str | None,
    descriptions: Descriptions,
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Load a row per relation, the fastest first, by run ID and benchmark."""
    numbers = load_shown_numbers(listing, runs, Only(benchmark), descriptions)
    rows = list_relations(numbers, descriptions)
    relations = defaultdict[str, dict[str, list[dict[str, Any]]]](dict)
    for row in text.to_records(rows):
        rows_by_choice = relations[row["run_id"]]
        choice = text.name_benchmark(row)
        rows_of_choice = rows_by_choice.setdefault(choice, [])
        rows_of_choice.append(row)
    return relations


def _list_choices(pairs: pd.DataFrame) -> dict[str, list[str]]:
    """List the benchmarks and variants that each run has pairs of, such as
    "cas/cmpxchg", by the ID of the run.
    """
    rows = pairs[RUN_AND_CHOICE].drop_duplicates()
    names = load.name_benchmarks(rows)
    choices = defaultdict[str, list[str]](list)
    for run_id, choice in zip(rows["run_id"], names, strict=True):
        choices[run_id].append(choice)
    return choices


def _fill_reading(listing: Listing, reading: Reading, batch: _Batch) -> None:
    """Fill a reading from the tables of its batch.

    Every reading gets its parts and its warnings. Its pairs are looked at only if they
    are needed: for the section of a detailed reading, or for cross-checks, which
    compare numbers of a run with each other. What cross-checks find becomes warnings.
    """
    run = reading.run
    run_id = run["run_id"]
    choices = _sort_as_planned(batch.choices.get(run_id, []), run)
    rows_by_choice = batch.relations[run_id]
    parts = _make_parts(choices, rows_by_choice, batch.descriptions)
    reading.parts = list(parts)
    comparisons = NO_COMPARISONS  # those of the cross-checks
    if reading.detailed or has_cross_checks(choices, batch.descriptions):
        pairs = batch.select_pairs(run_id)
        cpus = batch.select_cpus(run_id)
        memory = arrange_memory(pairs, cpus, batch.descriptions)
        comparisons = check_run(run, pairs, memory, batch.descriptions)
        reading.checks = summarize_checks(comparisons)
        _fill_memory(reading, pairs, cpus, memory, choices)
        if reading.detailed:
            _fill_parts(listing, reading, pairs)
            counters = batch.select_counters(run_id)
            _fill_points(reading, pairs, cpus, memory, counters, choices)
    marked = batch.marked.get(run_id, marked_rows.NOTHING)
    odd_topology = batch.tabulate_odd_topology(run_id)
    reading.warnings = list_warnings(run, marked, comparisons, odd_topology)


def _sort_as_planned(choices: Sequence[str], run: Mapping[str, Any]) -> list[str]:
    """Sort benchmarks and variants as the run's plan lists them; others come last."""
    listed = dict.fromkeys((*run["benchmarks"], *choices))
    return [choice for choice in listed if choice in choices]


def _fill_memory(
    reading: Reading,
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    memory: MemoryHierarchy,
    choices: Sequence[str],
) -> None:
    """Fill the ladders, the rates of matrix products and the memory of a reading."""
    descriptions = reading.descriptions
    reading.ladders = build_ladders(pairs, memory, choices, descriptions)
    reading.gemm_rates = group_gemm_rates_by_threads(pairs, memory.levels, descriptions)
    reading.memory = describe_memory(reading.run, memory, cpus)


def _fill_points(
    reading: Reading,
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    memory: MemoryHierarchy,
    counters: pd.DataFrame,
    choices: Sequence[str],
) -> None:
    """Fill the tables of points, events and NUMA nodes of a reading. A point is a
    setting at which a benchmark measures, such as a size or a node.

    pairs, cpus, memory, counters: those of the run. choices: the benchmarks and
    variants that the run measured, in the order of the page.
    """
    counts = count_per_unit(counters, pairs)
    reading.points = [
        *_tabulate_choices(reading, pairs, choices, counts),
        *tabulate_by_node(memory.nodes, reading.run, reading.descriptions),
        *tabulate_line_nodes(pairs, cpus, reading.descriptions),
    ]


def _make_parts(
    choices: Sequence[str],
    rows_by_choice: Mapping[str, Sequence[dict[str, Any]]],
    descriptions: Descriptions,
) -> Iterator[Part]:
    """Yield a part for each benchmark and variant of pairs or of single CPUs, and for
    each of its points, which are the NUMA nodes where lines are placed.

    choices: benchmarks and variants in the order of the page. rows_by_choice: a row per
    relation; a benchmark that has none gets no part.
    """
    for choice in choices:
        benchmark = descriptions[choice]
        rows_by_point = _group_by_point(rows_by_choice.get(choice, ()))
        for point in sorted(rows_by_point, key=_rank_point):
            # the usual point of a benchmark needs no name
            is_usual = point in (None, benchmark.point)
            yield Part(
                name=choice if is_usual else f"{choice} {point}",
                choice=choice,
                point=point,
                heading=benchmark.heading,
                is_of_single_cpus=benchmark.view is View.CPUS,
                relations=rows_by_point[point],
            )


def _group_by_point(
    rows: Sequence[dict[str, Any]],
) -> dict[str | None, list[dict[str, Any]]]:
    """Group the rows of relations by their point, such as "n1", lines on node 1. Rows
    without a point are under None. In the result, `relation` is without the point:
    "llc" instead of "llc n1".
    """
    rows_by_point = defaultdict[str | None, list[dict[str, Any]]](list)
    for row in rows:
        point = row["point"]
        relation = row["relation"]
        if point is not None:
            relation = relation.removesuffix(f" {point}")
        rows_by_point[point].append(row | {"relation": relation})
    return rows_by_point


def _rank_point(point: str | None) -> tuple[int, str]:
    """Return a key by which n2 stands before n10."""
    name = point or ""
    return len(name), name


def _fill_parts(listing: Listing, reading: Reading, pairs: pd.DataFrame) -> None:
    """Fill the pairs, matrices, rounds, bursts and curves of all parts. pairs: of the
    run.
    """
    cpus = reading.order.cpus
    for part in reading.parts:
        part.pairs = part.select(pairs)
        if not part.is_of_single_cpus:
            part.table = matrix(part.pairs, cpus, reading.ns_column)
        bursts = _load_bursts(listing, reading, part)
        _add_rounds_and_curves(part, bursts, reading.descriptions)


def _tabulate_choices(
    reading: Reading,
    pairs: pd.DataFrame,
    choices: Sequence[str],
    counts: pd.DataFrame,
) -> Iterator[PointTables]:
    """Yield the tables of points and of events of each benchmark and variant.

    Pairs whose memory was placed on a requested NUMA node are left out of the tables of
    points: they have tables by node. counts: events per unit of work, from
    `count_per_unit`.
    """
    descriptions = reading.descriptions
    without_nodes = pairs[~is_node_placed(pairs, descriptions)]
    for choice in choices:
        own = select_choice(without_nodes, choice)
        if len(own) and descriptions[choice].view in _VIEWS_WITH_POINTS:
            yield _tabulate_points(own, choice, descriptions)
        own_counts = select_choice(counts, choice)
        events = tabulate_events(own_counts, reading.run["hello"], descriptions)
        if events:
            yield events


def _tabulate_points(
    pairs: pd.DataFrame, choice: str, descriptions: Descriptions
) -> PointTables:
    """Return the tables of a benchmark of points."""
    if descriptions[choice].view is View.PRODUCTS:
        return tabulate_gemm_points(pairs, descriptions)
    return tabulate_points(pairs, descriptions)


def _load_bursts(
    listing: Listing, reading: Reading, part: Part
) -> Iterator[pd.DataFrame]:
    """Yield the bursts of a part, a row each, a table of some bursts at a time. Where
    the machine has several kinds of core, a relation names the kinds: "package P-E".
    """
    run_id = reading.run["run_id"]
    kinds_of_cores = {run_id: reading.order.kinds}
    samples = load.load_samples_in_parts(
        listing, run_id, benchmark=part.choice, columns=_DRAWN
    )
    for rows in samples:
        own = part.select(rows).assign(run_id=run_id)
        yield add_kinds_to_relations(own, kinds_of_cores)


def _add_rounds_and_curves(
    part: Part, bursts: Iterable[pd.DataFrame], descriptions: Descriptions
) -> None:
    """Fill `rounds`, `bursts` and `curves` of a part, from samples after warm-up.

    A curve is made of every sample of a relation or, if there are many, of every n-th
    in rising order, so that at most about _MAX_DRAWN are kept. `bursts` stays empty if
    there are too many for a page.

    bursts: a row per burst of the part, some bursts at a time, from `_load_bursts`.
    """
    steps = _choose_steps(part)  # n, by relation
    # by relation, the samples to draw of each table of bursts
    drawn = {relation: list[Floats]() for relation in steps}
    medians_of_bursts = []
    for rows in bursts:
        # per sample: its ns, the number of its burst's row, and whether it warmed up
        ns, row_of_sample, is_warmup = load.compute_sample_latencies(rows, descriptions)
        ns = ns[~is_warmup]
        row_of_sample = row_of_sample[~is_warmup]
        relation_of_row = rows["relation"].astype(str).to_numpy()
        for relation, step in steps.items():
            is_own_row = relation_of_row == relation
            ns_of_relation = _select_samples(ns, row_of_sample, is_own_row)
            drawn[relation].append(_take_each_nth(ns_of_relation, step))
        medians_of_rows = _compute_burst_medians(rows, ns, row_of_sample)
        medians_of_bursts.append(medians_of_rows)
    medians = pd.concat(medians_of_bursts)
    if len(medians) <= _MAX_BURSTS:
        part.bursts = medians
    by_round = medians.groupby(["relation", "round"], sort=False)
    part.rounds = by_round["ns"].median().reset_index()
    part.curves = _compute_curves(drawn)


def _choose_steps(part: Part) -> dict[str, int]:
    """Return by relation the step n: every n-th of its samples, in rising order, is
    drawn. n is 1 below _MAX_DRAWN samples, and grows with their number.
    """
    totals = part.pairs.groupby("relation", observed=True)["samples"].sum()
    steps = {}
    for row in part.relations:
        relation = row["relation"]
        steps[relation] = 1 + int(totals.get(relation, 0)) // _MAX_DRAWN
    return steps


def _select_samples(
    latencies: Floats, row_of_sample: Ints, is_own_row: Bools
) -> Floats:
    """Select the latencies of the samples of some bursts.

    row_of_sample: for each sample, the number of its burst's row. is_own_row: whether
    the burst of each row is one of them.
    """
    is_own_sample = is_own_row[row_of_sample]
    return latencies[is_own_sample]


def _take_each_nth(latencies: Floats, step: int) -> Floats:
    """Return each `step`-th latency in rising order."""
    in_order = np.sort(latencies)
    return in_order[::step].copy()  # a view would keep them all


def _compute_curves(drawn: Mapping[str, Sequence[Floats]]) -> dict[str, Floats]:
    """Return quantiles of the latencies drawn of each relation, _STEPS of them."""
    shares = np.linspace(0, 1, _STEPS)
    curves = {}
    for relation, parts in drawn.items():
        latencies = np.concatenate(parts)
        curves[relation] = np.quantile(latencies, shares)
    return curves


def _compute_burst_medians(
    bursts: pd.DataFrame, latencies: Floats, row_of_sample: Ints
) -> pd.DataFrame:
    """Return `relation`, `round`, CPUs and the median `ns` of each burst.

    bursts: a row per burst. row_of_sample: for each latency, the number of its burst's
    row.
    """
    median_by_row = pd.Series(latencies).groupby(row_of_sample).median()
    columns = ["relation", "round", "ping_cpu", "pong_cpu"]
    rows = bursts.iloc[median_by_row.index][columns]
    relations = rows["relation"].astype(str)
    return rows.assign(relation=relations, ns=median_by_row.to_numpy())

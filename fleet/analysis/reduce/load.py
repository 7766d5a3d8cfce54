"""Read the tables into frames, only the rows and columns requested. Ticks become
nanoseconds here only.

Every frame has all columns of its table, or those requested, whatever the versions of
the files.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints, find_starts, to_pandas
from fleet.errors import StoreError, UsageError
from fleet.late import pa
from fleet.model import BENCHMARKS, SHIPPED, Benchmark, Descriptions, Shape, View
from fleet.plan.benchmark_names import (
    ALL,
    describe_unmeasured_benchmark,
    parse_benchmark_names,
)
from fleet.store.gate import RunRecord
from fleet.store.places import Place, counters_name, samples_name
from fleet.store.reading import TableFile, read_files, warn_left_out
from fleet.store.rows import to_json
from fleet.store.runs import Listing, Root, RunSummary, open_listing
from fleet.store.schema import arrow_schema

Chosen = str | Collection[str] | None  # one value, several, or all


class Runs(TypedDict, total=False):
    """Filters of runs, each one value or several; None takes all. labels: those that a
    run must have.
    """

    run_id: Chosen
    host_id: Chosen
    labels: Mapping[str, str] | None


_Records = Sequence[tuple[RunSummary, RunRecord]]


def load_samples(
    root: Root,
    *,
    benchmark: Chosen = None,
    relation: Chosen = None,
    columns: Sequence[str] | None = None,
    **which: Unpack[Runs],
) -> pd.DataFrame:
    """Read raw samples (docs/tables.md), a row per burst. Each filter is one value or
    several, or None for all; `which` are filters of runs.

    If several files are read, damaged ones are left out with a warning; a single one
    raises.
    """
    listing = open_listing(root)
    runs = list_published(listing, **which)
    names = [samples_name(run.host_id, run.run_id) for run in runs]
    table = read_files(
        listing.place,
        names,
        "samples",
        columns=columns,
        where=make_filters(benchmark=benchmark, relation=relation),
        skip_damaged=len(names) > 1,
    )
    return to_pandas(table)


def load_samples_in_parts(
    root: Root,
    run_id: str,
    *,
    benchmark: str | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pd.DataFrame]:
    """Read raw samples of one run, a few thousand bursts at a time: frames with a row
    per burst. benchmark: `cas`, `cas/llsc` or None for all.
    """
    listing = open_listing(root)
    where: dict[str, frozenset[str]] = {}
    if benchmark:
        name, _, variant = benchmark.partition("/")
        where = make_filters(benchmark=name, variant=variant or None)
    for run in list_published(listing, run_id=run_id):
        file = open_samples(listing.place, run)
        for table in file.iter_tables(columns, where):
            yield to_pandas(table)


def open_samples(place: Place, run: RunSummary) -> TableFile:
    """Open the samples file of a run, which also has the run's record."""
    name = samples_name(run.host_id, run.run_id)
    return TableFile(place, name, "samples")


def load_runs(root: Root, **which: Unpack[Runs]) -> pd.DataFrame:
    """Read the `runs` table: one row per published run."""
    return _make_runs_table(_read_records(root, **which))


RUN_COLUMNS = ("host_name", "started_utc", "cpu_model", "kernel", "labels")


def add_run_columns(rows: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Insert RUN_COLUMNS of each row's run before the row's own columns; `labels` is a
    text, "rack=b2 kernel=old". rows: with `run_id`. runs: from `load_runs`.
    """
    labels = [_format_labels(text) for text in runs["labels_json"]]
    facts_of_runs = runs.assign(labels=labels)[[*RUN_COLUMNS]]
    # either column of IDs may be categorical: only plain strings surely match
    facts_of_runs.index = pd.Index(runs["run_id"].astype(object))
    run_ids = rows["run_id"].astype(object)
    facts_of_rows = facts_of_runs.reindex(run_ids)
    facts_of_rows.index = rows.index
    return pd.concat([facts_of_rows, rows], axis=1)


def _format_labels(labels_json: str) -> str:
    """Format labels: '{"rack": "b2", "kernel": "old"}' -> "rack=b2 kernel=old"."""
    labels = json.loads(labels_json)
    return " ".join(f"{key}={value}" for key, value in labels.items())


def load_run(root: Root, run_id: str) -> dict[str, Any]:
    """Load a run's row of `runs` with JSON columns decoded, under names without
    `_json`. Raises StoreError if there is no such run.
    """
    (run,), _, _ = read_runs(root, [run_id])
    return run


def read_runs(
    root: Root, run_ids: Sequence[str]
) -> tuple[list[dict[str, Any]], pd.DataFrame, pd.DataFrame]:
    """Return three things on these runs: each run as `load_run` returns it, in the
    order of `run_ids`; the runs' rows of the table `runs`, oldest first; and the runs'
    rows of the table `cpus`, oldest first. Raises StoreError for a run that is missing
    or damaged.
    """
    listing = open_listing(root)
    records = _read_records(listing, run_id=run_ids)
    rows = decode_run_rows(_make_runs_rows(records))
    runs_by_id = {row["run_id"]: row for row in rows}
    for run_id in run_ids:
        if run_id not in runs_by_id:
            raise _find_why_missing(listing, root, run_id)
    runs = [runs_by_id[run_id] for run_id in run_ids]
    return runs, _make_runs_table(records), _make_cpus_table(records)


def _find_why_missing(listing: Listing, root: Root, run_id: str) -> StoreError:
    """Return why a run could not be read: it is damaged, or not there."""
    try:
        _read_records(listing, run_id=run_id)  # a damaged run, read alone, raises
    except StoreError as err:
        return err
    return StoreError(f"{root}: run {run_id} is not published.")


def _read_records(root: Root, **which: Unpack[Runs]) -> _Records:
    """Read the records of these runs: a list of a run's summary and its record, which
    has the run's rows of `runs` and `cpus`. Of several runs, leave out those whose file
    is damaged, with a warning. Raises StoreError if only one run matches and its file
    is damaged.
    """
    listing = open_listing(root)
    runs = list_published(listing, **which)
    if len(runs) == 1:
        (run,) = runs
        file = open_samples(listing.place, run)
        return [(run, file.record)]
    records = listing.read_records(runs)
    return [(run, records[run.run_id]) for run in runs if run.run_id in records]


def _make_runs_rows(records: _Records) -> list[dict[str, Any]]:
    """Return the rows of `runs`. Their labels are those that the runs have now: labels
    can be changed later, and a file has the labels from the time of its run.
    """
    # formatted once for all runs with the same labels, which many have
    format_labels = cache(lambda labels: to_json(dict(labels)))
    return [
        {**record.row, "labels_json": format_labels(run.labels)}
        for run, record in records
    ]


def _make_runs_table(records: _Records) -> pd.DataFrame:
    rows = _make_runs_rows(records)
    return to_pandas(pa.Table.from_pylist(rows, arrow_schema("runs")))


def _make_cpus_table(records: _Records) -> pd.DataFrame:
    rows = list[Mapping[str, Any]]()
    for _, record in records:
        rows += record.cpus
    return to_pandas(pa.Table.from_pylist(rows, arrow_schema("cpus")))


def decode_run_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Decode the JSON columns of rows of `runs`, and drop `_json` from their names:
    `plan_json` becomes `plan`. Equal texts are decoded once and share the result; None
    remains None.
    """
    decode = cache(json.loads)
    runs = []
    for row in rows:
        run = dict[str, Any]()
        for column, value in row.items():
            name = column.removesuffix("_json")
            run[name] = value
            if value is not None and name != column:
                run[name] = decode(value)
        runs.append(run)
    return runs


def load_cpus(root: Root, **which: Unpack[Runs]) -> pd.DataFrame:
    """Read the `cpus` table: one row per run and CPU."""
    return _make_cpus_table(_read_records(root, **which))


def load_runs_and_cpus(
    root: Root, **which: Unpack[Runs]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the tables `runs` and `cpus` as `load_runs` and `load_cpus` do, but read the
    records only once.
    """
    records = _read_records(root, **which)
    return _make_runs_table(records), _make_cpus_table(records)


def load_counters(root: Root, **which: Unpack[Runs]) -> pd.DataFrame:
    """Read the `counters` table: a row per burst, thread and event; no rows where
    nothing was counted.
    """
    listing = open_listing(root)
    names = []
    # without any such file, there is no need to find the runs
    if listing.counter_files:
        runs = list_published(listing, **which)
        names = [counters_name(run.run_id) for run in runs]
    stored_names = [name for name in names if name in listing.counter_files]
    table = read_files(listing.place, stored_names, "counters", skip_damaged=True)
    return to_pandas(table)


def list_published(
    root: Root,
    *,
    run_id: Chosen = None,
    host_id: Chosen = None,
    labels: Mapping[str, str] | None = None,
) -> list[RunSummary]:
    """List the published runs that match all filters, oldest first. Opens no file that
    an earlier listing has read. Raises DamagedFileError if no run matches, hosts are
    given, and a file of these hosts cannot be read: the run may be in that file.

    labels: those that a run must have, {"rack": "b2"}.
    """
    listing = open_listing(root)
    ids = as_set(run_id)
    hosts = as_set(host_id)
    required_labels = set((labels or {}).items())
    candidates = listing.runs
    if ids is not None:
        candidates = listing.find_runs(ids)
    runs = []
    for run in candidates:
        is_of_host = hosts is None or run.host_id in hosts
        has_labels = required_labels <= set(run.labels)  # of (key, value)
        if is_of_host and has_labels:
            runs.append(run)
    if not runs and hosts:
        _require_readable(listing, hosts)
    return runs


def _require_readable(listing: Listing, hosts: Collection[str]) -> None:
    """Raise the error of the first file of these hosts that could not be read, if there
    is such a file.
    """
    for (host, _), err in listing.unreadable.items():
        if host in hosts:
            raise err


def as_set(chosen: Chosen) -> frozenset[str] | None:
    """Return a filter as a set; None for all."""
    if chosen is None:
        return None
    if isinstance(chosen, str):
        return frozenset([chosen])
    return frozenset(chosen)


def make_filters(**chosen: Chosen) -> dict[str, frozenset[str]]:
    """Make the filters that `read_files` takes: by column, the set of values to read. A
    column whose choice is None, for all values, has no filter.
    """
    filters = {}
    for column, choice in chosen.items():
        values = as_set(choice)
        if values is not None:
            filters[column] = values
    return filters


def samples_long(
    samples: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Make one row per sample instead of per burst, in stored order, warm-ups marked.

    samples: from `load_samples`. Every column but `ticks` and `warmup` is repeated;
    added are `sample` (position in its burst), `is_warmup` (bool), `ticks` (int64) and
    `latency_ns` (float64).
    """
    latency, burst_of_sample, is_warmup = compute_sample_latencies(
        samples, descriptions
    )
    # the numbers of bursts ascend, so that searchsorted finds for each sample the first
    # place with the number of its burst: the burst's first sample
    first_of_burst = np.searchsorted(burst_of_sample, burst_of_sample)
    sample_in_burst = np.arange(len(burst_of_sample)) - first_of_burst
    no_ticks = np.empty(0, dtype=np.int64)  # concatenate wants an array at least
    ticks = np.concatenate([no_ticks, *samples["ticks"]])
    about_bursts = samples.drop(columns=["ticks", "warmup"])
    long = about_bursts.iloc[burst_of_sample].reset_index(drop=True)
    return long.assign(
        sample=sample_in_burst,
        is_warmup=is_warmup,
        ticks=ticks.astype(np.int64, copy=False),
        latency_ns=latency,
    )


def compute_sample_latencies(
    samples: pd.DataFrame, descriptions: Descriptions
) -> tuple[Floats, Ints, Bools]:
    """Return three arrays with a value for each sample, in stored order: the sample's
    latency in ns, one way; the number of its burst's row in `samples`, from 0; and
    whether it is a warm-up. samples: a row per burst.
    """
    list_schema = arrow_schema("samples", ("ticks", "other_ticks"))
    # if `samples` has no `other_ticks`, reindex adds this column, without values
    columns = samples.reindex(columns=list_schema.names)
    table = pa.Table.from_pandas(columns, list_schema, preserve_index=False)
    latency, counts, is_warmup = convert_ticks(samples, table, descriptions)
    bursts = np.arange(len(samples))
    burst_of_sample = np.repeat(bursts, counts)
    return latency, burst_of_sample, is_warmup


def convert_ticks(
    rows: pd.DataFrame, table: Any, descriptions: Descriptions
) -> tuple[Floats, Ints, Bools]:
    """Return the latency of each sample in ns, one way; how many samples each burst
    has; and for each sample whether it is a warm-up. The samples of all bursts stand
    end to end.

    rows: a row per burst. table: an Arrow table with the same rows, of which `ticks`
    and `other_ticks` are read. Where both CPUs of a pair have measured a burst, each
    sample is the mean of both.
    """
    ticks = table.column("ticks").combine_chunks()
    other_ticks = table.column("other_ticks").combine_chunks()
    counts = np.diff(ticks.offsets)
    values = ticks.flatten().to_numpy()
    is_pair = has_shape(rows["benchmark"], Shape.PAIR, descriptions)
    values = _average_with_others(values, counts, other_ticks, is_pair)

    ns_per_tick = compute_latency_ns_per_tick(rows, descriptions)
    latency: Floats = values * np.repeat(ns_per_tick, counts)
    is_warmup = _mark_warmups(counts, rows["warmup"].to_numpy())
    return latency, counts, is_warmup


def _average_with_others(
    values: Any, counts: Ints, other_ticks: Any, is_pair: Bools
) -> Any:
    """Return the ticks of all samples; in bursts that both CPUs of a pair have
    measured, the mean of both.

    values: the ping's ticks of all bursts, end to end. counts: how many samples each
    burst has. other_ticks: an Arrow array with null or a list of lists for each burst:
    an inner list for each other thread. A pair has one other thread, pong, whose list
    has a number of ticks for each sample of the burst. is_pair: for each burst, whether
    it is of a pair.
    """
    has_others = other_ticks.is_valid().to_numpy(zero_copy_only=False)
    has_both = is_pair & has_others
    if not has_both.any():
        return values
    # flattened twice: to the lists of threads, then to their ticks, end to end
    threads_of_bursts = other_ticks.filter(pa.array(has_both))
    samples_of_threads = threads_of_bursts.flatten()
    ticks_of_pong = samples_of_threads.flatten().to_numpy()
    is_of_both = np.repeat(has_both, counts)
    averages = values.astype(np.float64)
    averages[is_of_both] = (averages[is_of_both] + ticks_of_pong) / 2
    return averages


def _mark_warmups(counts: Ints, warmup: Ints) -> Bools:
    """Mark the first samples of each burst as warm-ups: True for each such sample, of
    all bursts end to end. counts, warmup: how many samples each burst has, and how many
    of them are warm-ups.
    """
    places = np.arange(counts.sum())
    start_of_burst = np.repeat(find_starts(counts), counts)
    place_in_burst = places - start_of_burst
    is_warmup: Bools = place_in_burst < np.repeat(warmup, counts)
    return is_warmup


def has_shape(
    benchmarks: "pd.Series[Any]", shape: Shape, descriptions: Descriptions
) -> Bools:
    """Report which rows are of a benchmark of this shape."""
    names = [
        name for name in benchmarks.unique() if descriptions[str(name)].shape is shape
    ]
    return benchmarks.isin(names).to_numpy()


def merge_descriptions(runs: Iterable[RunSummary]) -> Descriptions:
    """Merge the benchmark descriptions of these runs with the shipped ones. A run
    describes benchmarks of the user's own, which are not shipped; if several runs
    describe the same name, the description of the first run counts.
    """
    own: dict[str, Benchmark] = {}
    for run in runs:
        for name in _list_benchmarks(run):
            if name not in BENCHMARKS:
                own.setdefault(name, run.descriptions[name])
    if not own:
        return SHIPPED
    return Descriptions(own)


def _list_benchmarks(run: RunSummary) -> list[str]:
    """Return the names of a run's benchmarks without their variants."""
    return [choice.partition("/")[0] for choice in run.benchmarks]


def drop_contradicting(
    rows: pd.DataFrame, runs: Iterable[RunSummary], descriptions: Descriptions
) -> pd.DataFrame:
    """Drop rows whose run describes the row's benchmark differently from
    `descriptions`, with a StoreWarning. Only benchmarks of the user's own are checked.
    """
    if not descriptions.own:
        return rows
    for run in runs:
        for name in descriptions.own.keys() & set(_list_benchmarks(run)):
            if run.descriptions[name] != descriptions[name]:
                is_of_run = rows["run_id"] == run.run_id
                rows = rows[~(is_of_run & (rows["benchmark"] == name))]
                _warn_contradicting(run, name)
    return rows


def _warn_contradicting(run: RunSummary, benchmark: str) -> None:
    """Warn that a run's numbers of a benchmark are left out."""
    message = (
        f"run {run.run_id} of {run.host_name} describes benchmark {benchmark}"
        " otherwise than an earlier run, so its numbers of it are left out here. Show"
        " it by itself."
    )
    warn_left_out(StoreError(message))


def select_benchmark(rows: pd.DataFrame, benchmark: str | None) -> pd.DataFrame:
    """Return the rows of the benchmarks that a text names, all rows for None.
    benchmark: as `parse_benchmark_names` takes it, "cas/c11,chase random". Raises
    UsageError if there are no such rows.
    """
    if benchmark is None:
        return rows
    chosen_rows = rows[is_chosen_benchmark(rows, benchmark)]
    if chosen_rows.empty:
        names = name_benchmarks(rows).unique().tolist()
        raise UsageError(describe_unmeasured_benchmark(benchmark, names))
    return chosen_rows


def name_benchmarks(rows: pd.DataFrame) -> "pd.Series[str]":
    """Name each row by benchmark and variant, as `cas/llsc`, or by benchmark alone if
    it has no variant.
    """
    benchmarks = rows["benchmark"].astype(str)
    with_variants = benchmarks + "/" + rows["variant"].astype(str)
    return benchmarks.where(rows["variant"].isna(), with_variants)


def select_choice(table: pd.DataFrame, choice: str) -> pd.DataFrame:
    """Return the rows of a benchmark and variant. choice: both names, `cas/llsc`."""
    benchmark, _, variant = choice.partition("/")
    is_own = (table["benchmark"] == benchmark) & (table["variant"] == variant)
    return table[is_own]


def select_point(rows: pd.DataFrame, point: str | None) -> pd.DataFrame:
    """Return the rows of a point; for None, the rows that have no point."""
    if point is None:
        return rows[rows["point"].isna()]
    return rows[rows["point"] == point]


def is_chosen_benchmark(rows: pd.DataFrame, benchmark: str) -> "pd.Series[bool]":
    """Report which rows are of the benchmarks, variants and settings that a text names,
    "cas/c11,chase random" (see `parse_benchmark_names`). A row has a setting if its
    point has all of the setting's words: "random.512K.huge" has "random".
    """
    is_chosen = pd.Series(data=False, index=rows.index)
    for name in parse_benchmark_names(benchmark):
        is_named = (rows["benchmark"] == name.benchmark) | (name.benchmark == ALL)
        if name.variant:
            is_named &= rows["variant"] == name.variant
        if name.setting:
            points = rows["point"].dropna().unique()
            matches = [point for point in points if name.matches_point(str(point))]
            is_named &= rows["point"].isin(matches)
        is_chosen |= is_named
    return is_chosen


def get_views(
    benchmarks: "pd.Series[Any]", descriptions: Descriptions = SHIPPED
) -> "pd.Series[Any]":
    """Return the view of each row's benchmark."""
    code_of_row, names = pd.factorize(benchmarks)
    views = np.array([descriptions[str(name)].view for name in names], dtype=object)
    return pd.Series(views[code_of_row], benchmarks.index)


def drop_points(
    rows: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Keep one row of each pair of CPUs, or of each CPU, by benchmark and variant: the
    rows that `is_at_usual_point` reports. Benchmarks of sizes or tables have no rows
    left.
    """
    return rows[is_at_usual_point(rows, descriptions)]


def is_at_usual_point(
    rows: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> Bools:
    """Report which rows are of a benchmark of pairs of CPUs or of single CPUs, and are
    at the usual point of their benchmark, or have no point. The usual point, such as
    "x1", is the one whose number stands for the pair; the benchmark's description names
    it.

    rows: with `benchmark` and, for samples and pairs, `point`.
    """
    views = get_views(rows["benchmark"], descriptions)
    is_of_cpus = views.isin([View.MATRIX, View.CPUS]).to_numpy(dtype=bool)
    if "point" not in rows:
        return is_of_cpus
    has_no_point = rows["point"].isna().to_numpy(dtype=bool)
    if has_no_point.all():
        return is_of_cpus
    return is_of_cpus & (has_no_point | _has_usual_point(rows, descriptions))


def _has_usual_point(rows: pd.DataFrame, descriptions: Descriptions) -> Bools:
    """Report which rows have the usual point of their benchmark: the point whose number
    stands for a pair of CPUs.
    """
    names = rows["benchmark"].unique()
    usual_points = {name: descriptions[str(name)].point for name in names}
    benchmarks = rows["benchmark"].tolist()
    points = rows["point"].tolist()
    is_usual = [
        point == usual_points[benchmark]
        for benchmark, point in zip(benchmarks, points, strict=True)
    ]
    return np.array(is_usual, dtype=bool)


def compute_latency_ns_per_tick(
    samples: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> Floats:
    """Compute for each burst the factor by which the ticks of a sample become ns: the
    latency of one unit, or of one way of a round trip.

    A sample is the ticks of `iterations` iterations. An iteration has as many latencies
    as the benchmark's description says: a round trip has two, one each way.
    """
    code_of_row, names = pd.factorize(samples["benchmark"])
    latencies_by_code = [descriptions[str(name)].latencies for name in names]
    latencies_per_iteration = np.array(latencies_by_code, dtype=np.int64)[code_of_row]
    iterations = samples["iterations"].to_numpy()
    ns_per_tick = samples["ns_per_tick"].to_numpy()
    factor: Floats = ns_per_tick / iterations / latencies_per_iteration
    return factor

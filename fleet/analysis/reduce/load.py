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

from fleet.analysis.base.tables import Bools, Floats, Ints, to_pandas
from fleet.errors import StoreError, UsageError
from fleet.late import pa
from fleet.model import BENCHMARKS, SHIPPED, Benchmark, Descriptions, Shape, View
from fleet.plan.benchmark_names import (
    ALL,
    describe_unmeasured_benchmark,
    parse_benchmark_names,
)
from fleet.store.gate import RunRecord
from fleet.store.places import counters_name, samples_name
from fleet.store.reading import TableFile, read_files, warn_left_out
from fleet.store.rows import to_json
from fleet.store.runs import Root, RunSummary, open_listing
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
    """Read raw samples (docs/tables.md), a row per burst. Filters: one value or
    several, None for all.
    """
    listing = open_listing(root)
    runs = list_published(listing, **which)
    names = [samples_name(run.host_id, run.run_id) for run in runs]
    chosen: Any = {
        "columns": columns,
        "where": make_filters(benchmark=benchmark, relation=relation),
    }
    return to_pandas(
        read_files(
            listing.place, names, "samples", skip_damaged=len(names) > 1, **chosen
        )
    )


def load_samples_in_parts(
    root: Root,
    run_id: str,
    *,
    benchmark: str | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pd.DataFrame]:
    """Read raw samples of one run, a few thousand bursts at a time; benchmark: `cas` or
    `cas/llsc`.
    """
    listing = open_listing(root)
    name, _, variant = (benchmark or "").partition("/")
    where = make_filters(benchmark=name or None, variant=variant or None)
    for run in list_published(listing, run_id=run_id):
        file = TableFile(listing.place, samples_name(run.host_id, run_id), "samples")
        for table in file.iter_tables(columns, where):
            yield to_pandas(table)


def load_runs(root: Root, **which: Unpack[Runs]) -> pd.DataFrame:
    """Read the `runs` table: one row per published run."""
    return _make_runs(_read_records(root, **which))


RUN_COLUMNS = ("host_name", "started_utc", "cpu_model", "kernel", "labels")


def add_run_columns(rows: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Insert RUN_COLUMNS before each row's own columns, labels as key=value. runs: from
    `load_runs`.
    """
    labels = [
        " ".join(map("=".join, json.loads(text).items()))
        for text in runs["labels_json"]
    ]
    described = runs.assign(labels=labels)[["run_id", *RUN_COLUMNS]]
    described["run_id"] = described["run_id"].astype(object)
    merged = rows[["run_id"]].astype(object).merge(described, on="run_id", how="left")
    return pd.concat([merged[[*RUN_COLUMNS]].set_index(rows.index), rows], axis=1)


def load_run(root: Root, run_id: str) -> dict[str, Any]:
    """Load a run's row of `runs` with JSON columns decoded, under short names.
    StoreError for no such run.
    """
    return read_runs(root, [run_id])[0][0]


def read_runs(
    root: Root, run_ids: Sequence[str]
) -> tuple[list[dict[str, Any]], pd.DataFrame, pd.DataFrame]:
    """Return runs as `load_run` does, in `run_ids` order, and rows of `runs` and
    `cpus`, oldest first.
    """
    listing = open_listing(root)
    records = _read_records(listing, run_id=run_ids)
    decoded = {row["run_id"]: row for row in decode_run_rows(_make_runs_rows(records))}
    for run_id in run_ids:
        if run_id not in decoded:
            _read_records(listing, run_id=run_id)  # raises what was warned of
            raise StoreError(f"{root}: run {run_id} is not published.")
    return (
        [decoded[run_id] for run_id in run_ids],
        _make_runs(records),
        _make_cpus(records),
    )


def _read_records(root: Root, **which: Unpack[Runs]) -> _Records:
    """Read the records of these runs; leave out files that cannot be read, but raise
    for a single run.
    """
    listing = open_listing(root)
    runs = list_published(listing, **which)
    if len(runs) == 1:
        name = samples_name(runs[0].host_id, runs[0].run_id)
        return [(runs[0], TableFile(listing.place, name, "samples").record)]
    records = listing.read_records(runs)
    return [(run, records[run.run_id]) for run in runs if run.run_id in records]


def _make_runs_rows(records: _Records) -> list[dict[str, Any]]:
    """Return the rows of `runs`, with the labels that the runs have now."""
    write = cache(lambda labels: to_json(dict(labels)))  # many runs have the same
    return [{**record.row, "labels_json": write(run.labels)} for run, record in records]


def _make_runs(records: _Records) -> pd.DataFrame:
    return to_pandas(
        pa.Table.from_pylist(_make_runs_rows(records), arrow_schema("runs"))
    )


def _make_cpus(records: _Records) -> pd.DataFrame:
    rows = [cpu for _, record in records for cpu in record.cpus]
    return to_pandas(pa.Table.from_pylist(rows, arrow_schema("cpus")))


def decode_run_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Decode the JSON columns of rows of `runs`, equal texts only once; drop `_json`
    from column names.
    """
    decode = cache(json.loads)
    return [
        {
            key.removesuffix("_json"): (
                decode(value) if value is not None and key.endswith("_json") else value
            )
            for key, value in row.items()
        }
        for row in rows
    ]


def load_cpus(root: Root, **which: Unpack[Runs]) -> pd.DataFrame:
    """Read the `cpus` table: one row per run and CPU."""
    return _make_cpus(_read_records(root, **which))


def load_runs_and_cpus(
    root: Root, **which: Unpack[Runs]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the tables `runs` and `cpus` as `load_runs` and `load_cpus` do, but read the
    records only once.
    """
    records = _read_records(root, **which)
    return _make_runs(records), _make_cpus(records)


def load_counters(root: Root, **which: Unpack[Runs]) -> pd.DataFrame:
    """Read the `counters` table: a row per burst, thread and event; no rows where
    nothing was counted.
    """
    listing = open_listing(root)
    runs = list_published(listing, **which) if listing.counter_files else []
    names = [
        name
        for run in runs
        if (name := counters_name(run.run_id)) in listing.counter_files
    ]
    return to_pandas(read_files(listing.place, names, "counters", skip_damaged=True))


def list_published(
    root: Root,
    *,
    run_id: Chosen = None,
    host_id: Chosen = None,
    labels: Mapping[str, str] | None = None,
) -> list[RunSummary]:
    """List the published runs that match, oldest first. Opens no file that an earlier
    listing has read.
    """
    ids, hosts, listing = as_set(run_id), as_set(host_id), open_listing(root)
    runs = [
        run
        for run in (listing.runs if ids is None else listing.find_runs(ids))
        if (hosts is None or run.host_id in hosts)
        and not (labels or {}).items() - dict(run.labels).items()
    ]
    for (host, _), err in listing.unreadable.items():
        if not runs and hosts and host in hosts:
            raise err
    return runs


def as_set(chosen: Chosen) -> frozenset[str] | None:
    """Return a filter as a set; None for all."""
    return (
        None
        if chosen is None
        else frozenset([chosen] if isinstance(chosen, str) else chosen)
    )


def make_filters(**chosen: Chosen) -> dict[str, frozenset[str]]:
    """Make the filters that `read_files` takes: sets of values by column, without those
    that are None.
    """
    return {
        column: values
        for column, choice in chosen.items()
        if (values := as_set(choice)) is not None
    }


def samples_long(
    samples: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Make one row per sample instead of per burst, in stored order, warm-ups marked.

    samples: from `load_samples`. Every column but `ticks` and `warmup` is repeated;
    added are `sample` (position in its burst), `is_warmup` (bool), `ticks` (int64) and
    `latency_ns` (float64).
    """
    latency, burst, is_warmup = compute_sample_latencies(samples, descriptions)
    long = samples.drop(columns=["ticks", "warmup"]).iloc[burst]
    return long.reset_index(drop=True).assign(
        sample=np.arange(len(burst)) - np.searchsorted(burst, burst),
        is_warmup=is_warmup,
        ticks=np.concatenate([np.empty(0, dtype=np.int64), *samples["ticks"]]).astype(
            np.int64, copy=False
        ),
        latency_ns=latency,
    )


def compute_sample_latencies(
    samples: pd.DataFrame, descriptions: Descriptions
) -> tuple[Floats, Ints, Bools]:
    """Compute each sample's one-way ns in stored order, its burst's position, and
    whether it is a warm-up.
    """
    lists = arrow_schema("samples", ("ticks", "other_ticks"))
    table = pa.Table.from_pandas(
        samples.reindex(columns=lists.names), lists, preserve_index=False
    )
    latency, counts, is_warmup = convert_ticks(samples, table, descriptions)
    return latency, np.repeat(np.arange(len(samples)), counts), is_warmup


def convert_ticks(
    rows: pd.DataFrame, table: Any, descriptions: Descriptions
) -> tuple[Floats, Ints, Bools]:
    """Convert ticks to one-way ns. Also return each burst's sample count, and which
    samples are warm-ups.

    table: Arrow, with the rows' `ticks` and `other_ticks`; a pair's burst that has both
    gets their mean.
    """
    ticks, others = (
        table.column(name).combine_chunks() for name in ("ticks", "other_ticks")
    )
    counts, values = np.diff(ticks.offsets), ticks.flatten().to_numpy()
    is_pair = has_shape(rows["benchmark"], Shape.PAIR, descriptions)
    both = is_pair & others.is_valid().to_numpy(zero_copy_only=False)
    if both.any():
        values, is_both = values.astype(np.float64), np.repeat(both, counts)
        values[is_both] = (
            values[is_both]
            + others.filter(pa.array(both)).flatten().flatten().to_numpy()
        ) / 2
    place = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    latency: Floats = values * np.repeat(
        compute_latency_ns_per_tick(rows, descriptions), counts
    )
    return latency, counts, place < np.repeat(rows["warmup"].to_numpy(), counts)


def has_shape(
    benchmarks: "pd.Series[Any]", shape: Shape, descriptions: Descriptions
) -> Bools:
    """Report which rows are of a benchmark of this shape."""
    names = [
        name for name in benchmarks.unique() if descriptions[str(name)].shape is shape
    ]
    return benchmarks.isin(names).to_numpy()


def merge_descriptions(runs: Iterable[RunSummary]) -> Descriptions:
    """Merge the benchmark descriptions of these runs; the first description of a name
    counts.
    """
    own: dict[str, Benchmark] = {}
    for run in runs:
        for name in (kind.partition("/")[0] for kind in run.benchmarks):
            if name not in BENCHMARKS:
                own.setdefault(name, run.descriptions[name])
    return Descriptions(own) if own else SHIPPED


def drop_contradicting(
    rows: pd.DataFrame, runs: Iterable[RunSummary], descriptions: Descriptions
) -> pd.DataFrame:
    """Drop rows whose run describes their benchmark differently from `descriptions`,
    with a StoreWarning.
    """
    for run in runs if descriptions.own else ():
        for name in descriptions.own.keys() & {
            kind.partition("/")[0] for kind in run.benchmarks
        }:
            if run.descriptions[name] != descriptions[name]:
                rows = rows[
                    (rows["run_id"] != run.run_id) | (rows["benchmark"] != name)
                ]
                subject = (
                    f"run {run.run_id} of {run.host_name} describes benchmark {name}"
                    " otherwise than"
                )
                remedy = (
                    "an earlier run, so its numbers of it are left out here. Show it by"
                    " itself."
                )
                warn_left_out(StoreError(f"{subject} {remedy}"))
    return rows


def select_benchmark(rows: pd.DataFrame, benchmark: str | None) -> pd.DataFrame:
    """Return the rows of these benchmarks (see `parse_benchmark_names`). UsageError if
    there are none.
    """
    if benchmark is None:
        return rows
    chosen = rows[is_chosen_benchmark(rows, benchmark)]
    if chosen.empty:
        kinds = (
            rows["benchmark"].astype(str) + "/" + rows["variant"].astype(str)
        ).unique()
        raise UsageError(describe_unmeasured_benchmark(benchmark, kinds.tolist()))
    return chosen


def is_chosen_benchmark(rows: pd.DataFrame, benchmark: str) -> "pd.Series[bool]":
    """Report which rows are of these benchmarks and settings (see
    `parse_benchmark_names`).
    """
    chosen = pd.Series(data=False, index=rows.index)
    for name in parse_benchmark_names(benchmark):
        is_named = (rows["benchmark"] == name.benchmark) | (name.benchmark == ALL)
        if name.variant:
            is_named &= rows["variant"] == name.variant
        if name.setting:
            points = [
                point
                for point in rows["point"].dropna().unique()
                if name.matches_point(str(point))
            ]
            is_named &= rows["point"].isin(points)
        chosen |= is_named
    return chosen


def get_views(
    benchmarks: "pd.Series[Any]", descriptions: Descriptions = SHIPPED
) -> "pd.Series[Any]":
    """Return the view of each row's benchmark."""
    places, names = pd.factorize(benchmarks)
    views = np.array([descriptions[str(name)].view for name in names], dtype=object)
    return pd.Series(views[places], benchmarks.index)


def drop_points(
    rows: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> pd.DataFrame:
    """Keep one number of each CPU or pair: rows of views MATRIX and CPUS with the usual
    point or none.
    """
    return rows[is_at_usual_point(rows, descriptions)]


def is_at_usual_point(
    rows: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> Bools:
    """Report which rows `drop_points` keeps; rows: with `benchmark` and, for samples
    and pairs, `point`.
    """
    single = get_views(rows["benchmark"], descriptions).isin([View.MATRIX, View.CPUS])
    if "point" in rows and rows["point"].notna().any():
        usual = {
            name: descriptions[str(name)].point for name in rows["benchmark"].unique()
        }
        kinds = zip(rows["benchmark"].tolist(), rows["point"].tolist(), strict=True)
        single &= rows["point"].isna() | np.array(
            [usual[name] == point for name, point in kinds], dtype=bool
        )
    return single.to_numpy(dtype=bool)


def compute_latency_ns_per_tick(
    samples: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> Floats:
    """Compute each burst's factor from ticks to ns for a unit, or for one way of a
    round trip.
    """
    codes, names = pd.factorize(samples["benchmark"])
    ways = np.array(
        [descriptions[str(name)].latencies for name in names], dtype=np.int64
    )[codes]
    factor: Floats = (
        samples["ns_per_tick"].to_numpy() / samples["iterations"].to_numpy() / ways
    )
    return factor

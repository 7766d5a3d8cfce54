"""Read the tables into frames, only the rows and columns requested. Ticks become nanoseconds here only.

Every frame has every column of its table (or those requested), even if the files are of different versions or
there are no rows. `reduce.pairs` reduces runs.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints, to_pandas
from fleet.errors import StoreError, UsageError
from fleet.late import pa
from fleet.model import BENCHMARKS, SHIPPED, Benchmark, Descriptions, Shape, View
from fleet.plan.benchmark_names import ALL, describe_missing, parse_benchmark_names
from fleet.store.gate import RunRecord
from fleet.store.places import counters_name, samples_name
from fleet.store.reading import TableFile, read_files, warn_left_out
from fleet.store.rows import to_json
from fleet.store.runs import Root, RunSummary, open_listing
from fleet.store.schema import arrow_schema

Chosen = str | Collection[str] | None  # one value, several, or all


class Runs(TypedDict, total=False):
    """A selection of runs: each filter is one value or several, None takes all. labels: required ones."""

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
    """Read raw samples as stored: one row per burst, `ticks` an array; columns as in docs/tables.md.

    Each filter is one value or several, and None takes all. No rows where nothing matches.
    """
    listing = open_listing(root)
    runs = list_published(listing, **which)
    names = [samples_name(run.host_id, run.run_id) for run in runs]
    where = make_filters(benchmark=benchmark, relation=relation)
    return to_pandas(
        read_files(listing.place, names, "samples", columns=columns, where=where, skip_damaged=len(names) > 1)
    )


def load_samples_in_parts(
    root: Root, run_id: str, *, benchmark: str | None = None, columns: Sequence[str] | None = None
) -> Iterator[pd.DataFrame]:
    """Read raw samples of one run, a few thousand bursts at a time; benchmark: `cas` or `cas/llsc`."""
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
    """Put RUN_COLUMNS of their runs before the rows: labels as `key=value`, separated by spaces.

    rows: with `run_id`. runs: rows of the table `runs`, from `load_runs`.
    """
    labels = [
        " ".join(f"{key}={value}" for key, value in json.loads(text).items()) for text in runs["labels_json"]
    ]
    described = runs.assign(labels=labels)[["run_id", *RUN_COLUMNS]]
    described["run_id"] = described["run_id"].astype(object)
    merged = rows[["run_id"]].astype(object).merge(described, on="run_id", how="left")
    return pd.concat([merged[[*RUN_COLUMNS]].set_index(rows.index), rows], axis=1)


def load_run(root: Root, run_id: str) -> dict[str, Any]:
    """Load a run's row of `runs`, JSON columns decoded under short names. StoreError for no such run."""
    return read_runs(root, [run_id])[0][0]


def read_runs(root: Root, run_ids: Sequence[str]) -> tuple[list[dict[str, Any]], pd.DataFrame, pd.DataFrame]:
    """Read runs as `load_run` does, in this order; and their rows of `runs` and `cpus`, oldest first."""
    listing, texts = open_listing(root), Texts()
    records = _read_records(listing, run_id=run_ids)
    decoded = {row["run_id"]: decode_run_row(row, texts) for row in _list_runs_rows(records)}
    for run_id in run_ids:
        if run_id not in decoded:
            _read_records(listing, run_id=run_id)  # raises what was warned of
            raise StoreError(f"{root}: run {run_id} is not published.")
    return [decoded[run_id] for run_id in run_ids], _make_runs(records), _make_cpus(records)


def _read_records(root: Root, **which: Unpack[Runs]) -> _Records:
    """Read the records of these runs; leave out files that cannot be read, but raise for a single run."""
    listing = open_listing(root)
    runs = list_published(listing, **which)
    if len(runs) == 1:
        name = samples_name(runs[0].host_id, runs[0].run_id)
        return [(runs[0], TableFile(listing.place, name, "samples").record)]
    records = listing.read_records(runs)
    return [(run, records[run.run_id]) for run in runs if run.run_id in records]


def _list_runs_rows(records: _Records) -> list[dict[str, Any]]:
    """Return the rows of `runs`, with the labels that the runs have now."""
    return [{**record.row, "labels_json": to_json(dict(run.labels))} for run, record in records]


def _make_runs(records: _Records) -> pd.DataFrame:
    return to_pandas(pa.Table.from_pylist(_list_runs_rows(records), arrow_schema("runs")))


def _make_cpus(records: _Records) -> pd.DataFrame:
    rows = [cpu for _, record in records for cpu in record.cpus]
    return to_pandas(pa.Table.from_pylist(rows, arrow_schema("cpus")))


class Texts(dict[str, Any]):
    """Decoded JSON by its text, each text decoded once."""

    def __missing__(self, text: str) -> Any:
        return self.setdefault(text, json.loads(text))


def decode_run_row(row: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """Decode the JSON columns of a row of `runs`, under their short names."""
    return {
        key.removesuffix("_json"): texts[value] if value is not None and key.endswith("_json") else value
        for key, value in row.items()
    }


def load_cpus(root: Root, **which: Unpack[Runs]) -> pd.DataFrame:
    """Read the `cpus` table: one row per run and CPU."""
    return _make_cpus(_read_records(root, **which))


def load_runs_and_cpus(root: Root, **which: Unpack[Runs]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the tables `runs` and `cpus` as `load_runs` and `load_cpus` do, the records only once."""
    records = _read_records(root, **which)
    return _make_runs(records), _make_cpus(records)


def load_counters(root: Root, **which: Unpack[Runs]) -> pd.DataFrame:
    """Read the `counters` table: a row per burst, thread and event; no rows where nothing was counted."""
    listing = open_listing(root)
    runs = list_published(listing, **which) if listing.counters else []
    names = [name for run in runs if (name := counters_name(run.run_id)) in listing.counters]
    return to_pandas(read_files(listing.place, names, "counters", skip_damaged=True))


def list_published(
    root: Root, *, run_id: Chosen = None, host_id: Chosen = None, labels: Mapping[str, str] | None = None
) -> list[RunSummary]:
    """List the published runs that match, oldest first. Opens no file that an earlier listing has read."""
    ids, hosts, listing = as_set(run_id), as_set(host_id), open_listing(root)
    runs = [
        run
        for run in (listing.runs if ids is None else listing.find_runs(ids))
        if (hosts is None or run.host_id in hosts) and not (labels or {}).items() - dict(run.labels).items()
    ]
    for (host, _), err in listing.unreadable.items():
        if not runs and hosts and host in hosts:
            raise err
    return runs


def as_set(chosen: Chosen) -> frozenset[str] | None:
    """Return a filter as a set; None for all."""
    return None if chosen is None else frozenset([chosen] if isinstance(chosen, str) else chosen)


def make_filters(**chosen: Chosen) -> dict[str, frozenset[str]]:
    """Make filters by column, as the reader of tables takes them; without those that take all."""
    return {column: values for column, choice in chosen.items() if (values := as_set(choice)) is not None}


def samples_long(samples: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> pd.DataFrame:
    """Make one row per sample instead of per burst, in stored order, warm-ups marked.

    samples: from `load_samples`. Every column but `ticks` and `warmup` is repeated; added are `sample`
    (position in its burst), `is_warmup` (bool), `ticks` (int64) and `latency_ns` (float64).
    """
    latency, burst, is_warmup = compute_latencies(samples, descriptions)
    long = samples.drop(columns=["ticks", "warmup"]).iloc[burst]
    return long.reset_index(drop=True).assign(
        sample=np.arange(len(burst)) - np.searchsorted(burst, burst),
        is_warmup=is_warmup,
        ticks=flatten_ticks(samples),
        latency_ns=latency,
    )


def compute_latencies(
    samples: pd.DataFrame, descriptions: Descriptions = SHIPPED
) -> tuple[Floats, Ints, Bools]:
    """Compute each sample's one-way ns in stored order, its burst's position, and whether it is a warm-up."""
    counts = samples["ticks"].map(len).to_numpy(dtype=np.int64)
    burst = np.repeat(np.arange(len(samples)), counts)
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    ticks: Ints | Floats = flatten_ticks(samples)
    if "other_ticks" in samples:
        both = (
            is_pair_benchmark(samples["benchmark"], descriptions) & samples["other_ticks"].notna().to_numpy()
        )
        others = [other for lists in samples["other_ticks"][both] for other in lists]
        ticks = average_both_threads(
            flatten_ticks(samples), np.concatenate([*others, ticks[:0]]), both[burst]
        )
    latency: Floats = ticks * compute_ns_per_tick(samples, descriptions)[burst]
    return latency, burst, place < samples["warmup"].to_numpy()[burst]


def merge_descriptions(runs: Iterable[RunSummary]) -> Descriptions:
    """Merge the benchmark descriptions of these runs; of a name that several measured, the first counts."""
    own: dict[str, Benchmark] = {}
    for run in runs:
        for name in (kind.partition("/")[0] for kind in run.benchmarks):
            if name not in BENCHMARKS:
                own.setdefault(name, run.descriptions[name])
    return Descriptions(own) if own else SHIPPED


def drop_contradicting(
    rows: pd.DataFrame, runs: Iterable[RunSummary], descriptions: Descriptions
) -> pd.DataFrame:
    """Leave out rows of benchmarks that their run describes otherwise than `descriptions`; a StoreWarning.

    rows: with `run_id` and `benchmark`, of these runs.
    """
    for run in runs if descriptions.own else ():
        for name in descriptions.own.keys() & {kind.partition("/")[0] for kind in run.benchmarks}:
            if run.descriptions[name] != descriptions[name]:
                rows = rows[(rows["run_id"] != run.run_id) | (rows["benchmark"] != name)]
                warn_left_out(
                    StoreError(
                        f"run {run.run_id} of {run.host_name} describes benchmark {name} otherwise than an "
                        "earlier run, so its numbers of it are left out here. Show it by itself."
                    )
                )
    return rows


def select_benchmark(rows: pd.DataFrame, benchmark: str | None) -> pd.DataFrame:
    """Return the rows of these benchmarks, given as to `parse_benchmark_names`; all for None.

    Raises UsageError if there are none.
    """
    if benchmark is None:
        return rows
    chosen = rows[is_chosen_benchmark(rows, benchmark)]
    if chosen.empty:
        kinds = (rows["benchmark"].astype(str) + "/" + rows["variant"].astype(str)).unique()
        raise UsageError(describe_missing(benchmark, kinds.tolist()))
    return chosen


def is_chosen_benchmark(rows: pd.DataFrame, benchmark: str) -> "pd.Series[bool]":
    """Report which rows are of these benchmarks and settings, given as to `parse_benchmark_names`."""
    chosen = pd.Series(data=False, index=rows.index)
    for name in parse_benchmark_names(benchmark):
        is_named = (rows["benchmark"] == name.benchmark) | (name.benchmark == ALL)
        if name.variant:
            is_named &= rows["variant"] == name.variant
        if name.setting:
            points = [point for point in rows["point"].dropna().unique() if name.matches_point(str(point))]
            is_named &= rows["point"].isin(points)
        chosen |= is_named
    return chosen


def map_views(benchmarks: "pd.Series[Any]", descriptions: Descriptions = SHIPPED) -> "pd.Series[Any]":
    """Return the view of each row's benchmark."""
    return benchmarks.map({name: descriptions[str(name)].view for name in benchmarks.unique()})


def drop_points(rows: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> pd.DataFrame:
    """Drop all but one number of each CPU or pair: keep rows without points, or at the usual point."""
    return rows[has_one_number(rows, descriptions)]


def has_one_number(rows: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> Bools:
    """Report which rows `drop_points` keeps; rows: with `benchmark` and, for samples and pairs, `point`."""
    benchmarks = {name: descriptions[str(name)] for name in rows["benchmark"].unique()}
    single = {
        name for name, description in benchmarks.items() if description.view in (View.MATRIX, View.CPUS)
    }
    has_one: Bools = rows["benchmark"].isin(single).to_numpy()
    if "point" in rows:
        usual = {name: description.point for name, description in benchmarks.items()}
        kinds = zip(rows["benchmark"].tolist(), rows["point"].tolist(), strict=True)
        chosen = np.array([usual[name] == point for name, point in kinds], dtype=bool)
        has_one = has_one & (rows["point"].isna().to_numpy() | chosen)
    return has_one


def flatten_ticks(samples: pd.DataFrame) -> Ints:
    """Return the ticks of all bursts in one array, in order."""
    return np.concatenate([np.empty(0, dtype=np.int64), *samples["ticks"]]).astype(np.int64, copy=False)


def is_pair_benchmark(benchmarks: "pd.Series[Any]", descriptions: Descriptions = SHIPPED) -> Bools:
    """Report which rows are of a benchmark of pairs; they have other_ticks if both threads took times."""
    pairs = [name for name in benchmarks.unique() if descriptions[str(name)].shape is Shape.PAIR]
    return benchmarks.isin(pairs).to_numpy()


def average_both_threads(ticks: Ints, others: Ints, both: Bools) -> Ints | Floats:
    """Replace the samples that `both` marks with their mean with the other thread's."""
    if not both.any():
        return ticks
    if both.sum() != len(others):
        raise ValueError("a burst of two threads has the ticks of more")
    means = ticks.astype(np.float64)
    means[both] = (means[both] + others) / 2
    return means


def compute_ns_per_tick(samples: pd.DataFrame, descriptions: Descriptions = SHIPPED) -> Floats:
    """Compute the ns that a tick adds to the latency of a unit, or of one way of a round trip, per burst."""
    codes, names = pd.factorize(samples["benchmark"])
    ways = np.array([descriptions[str(name)].latencies for name in names], dtype=np.int64)[codes]
    factor: Floats = samples["ns_per_tick"].to_numpy() / samples["iterations"].to_numpy() / ways
    return factor

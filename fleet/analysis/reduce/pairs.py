"""Derive the table `pairs`: a row per run and pair, computed on first use and kept in the index.

A file made from other samples, or by another version of these statistics, is replaced. A run is reduced in
slices, so memory is bounded by a slice, not by the run.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base.tables import Floats, Ints, decode_categories, to_pandas
from fleet.analysis.base.text import to_records
from fleet.analysis.reduce.bursts import LISTS, SAMPLE_COLUMNS, read_bursts
from fleet.analysis.reduce.flags import add_pair_flags
from fleet.analysis.reduce.load import (
    Chosen,
    Runs,
    drop_contradicting,
    drop_points,
    list_published,
    make_filters,
    merge_descriptions,
)
from fleet.analysis.reduce.matrices import (
    PAIR,
    SAMPLE_NUMBERS,
    compute_medians,
    make_pairs,
    order_by_pair,
    pair_numbers,
    reduce_bursts,
    reduce_by_relation,
    visits_together,
)
from fleet.errors import DamagedFileError
from fleet.late import pa, pc
from fleet.model import SHIPPED, Descriptions, add_core_kinds, core_kinds
from fleet.store import schema
from fleet.store.index import Derived, load_derived
from fleet.store.places import Key, Place, samples_name
from fleet.store.reading import TableFile, Where, concat_tables, read_together, select_rows, warn_left_out
from fleet.store.runs import Listing, Root, RunSummary, open_listing
from fleet.store.verify import INDEX_REMEDY

STATS_VERSION = 16  # raise it whenever a number or a flag of `pairs` changes
PAIRS = Derived("pairs", "pairs")
SLICE_SAMPLES = 1 << 20
_MANY_RUNS = 500  # so many are worth a second of start-up for each further process
_HELD = 16 * SLICE_SAMPLES  # bytes of ticks; a pair with more is reduced some bursts at a time
_CLASS = ["benchmark", "variant", "relation"]
_SORTED_BY = [*_CLASS, "point", "ping_cpu", "pong_cpu"]
HISTORY_COLUMNS = (
    *("run_id", *_CLASS, "point", "ping_cpu", "pong_cpu", "bursts", "median_ns", "p99_ns", "spread"),
    *("flagged_bursts", "flags", "memory_node"),
)


def load_pairs(
    root: Root,
    *,
    benchmark: Chosen = None,
    relation: Chosen = None,
    columns: Sequence[str] | None = None,
    **which: Unpack[Runs],
) -> pd.DataFrame:
    """Read the table `pairs` (docs/tables.md): a row per run, benchmark, variant, point and pair, in ns.

    Filters are those of `load_samples`. Runs come oldest first; numbers are float32. Missing rows are
    computed now and kept in the index; for many runs, progress goes to the listing's `note`.
    """
    listing = open_listing(root)
    runs = list_published(listing, **which)
    marks = _mark_runs(runs)
    missing = marks.keys() - listing.index.find_parts(PAIRS, marks)
    if len(missing) >= _MANY_RUNS:
        _derive_in_processes(listing, sorted(run_id for _, run_id in missing))

    def derive(keys: Sequence[Key]) -> Iterator[tuple[list[Key], Any]]:
        batch = set(keys)
        return _derive_runs(listing.place, [run for run in runs if run.key in batch], selected=len(runs))

    where = make_filters(benchmark=benchmark, relation=relation)
    return to_pandas(load_derived(listing.index, PAIRS, marks, derive, columns, where))


def verify_pairs(root: Root) -> list[str]:
    """Derive again the pairs that the index holds; name the runs of which it holds others."""
    listing = open_listing(root)
    runs = {run.key: run for run in listing.all_runs}

    def derive(keys: Sequence[Key]) -> Iterator[tuple[list[Key], Any]]:
        return _derive_runs(listing.place, [runs[key] for key in keys])

    return verify_derived(listing, PAIRS, _mark_runs(listing.all_runs), derive)


def verify_derived(
    listing: Listing,
    kind: Derived,
    marks: Mapping[Key, str],
    derive: Callable[[list[Key]], Iterable[tuple[Sequence[Key], Any]]],
) -> list[str]:
    """Derive again the rows of this kind that the index holds; name the runs of which it holds others.

    marks, derive: as for `load_derived`.
    """
    stored, tables = listing.index.read_rows(kind, marks, kind.columns, {})
    rows, problems = concat_tables(tables, kind.table, kind.columns), list[str]()
    for keys, derived in derive([key for key in marks if key in stored]):
        for _, run_id in keys:
            where = {"run_id": {run_id}}
            own, again = (
                select_rows(table, kind.table, kind.columns, where).to_pandas() for table in (rows, derived)
            )
            try:
                pd.testing.assert_frame_equal(own, again, rtol=1e-5, check_categorical=False)
            except AssertionError:
                complaint = f"the {kind.name} of {run_id} are not those of its samples"
                problems.append(f"{listing.index.path}: {complaint}. {INDEX_REMEDY}")
    return problems


def _mark_runs(runs: Sequence[RunSummary]) -> dict[Key, str]:
    """Return the mark of each run's pairs: the version of these statistics and the hash of its samples."""
    return {run.key: f"{STATS_VERSION}:{run.content_sha256}" for run in runs}


def _derive_in_processes(listing: Listing, run_ids: Sequence[str]) -> None:
    """Derive the pairs of many runs into the index, in as many processes as there are CPUs.

    Runs that they leave out are left to the caller, which reports why.
    """
    command = [sys.executable, "-c", f"from {__name__} import derive_into_index; derive_into_index()"]
    count = os.cpu_count() or 1
    reading_end, writing_end = os.pipe()
    workers = []
    try:
        for part in range(count):
            with tempfile.TemporaryFile("w+") as request:
                json.dump([listing.place.address, run_ids[part::count]], request)
                request.seek(0)
                streams: Any = {"stdin": request, "stdout": writing_end, "stderr": subprocess.DEVNULL}
                workers.append(subprocess.Popen(command, **streams))
        os.close(writing_end)
        done = 0
        listing.note(f"reducing the samples of {len(run_ids)} runs to pairs; this is done once for each run")
        with os.fdopen(reading_end) as counts:
            for line in counts:
                done += int(line)
                listing.note(f"{done} of {len(run_ids)} runs")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def derive_into_index() -> None:
    """Derive the pairs of runs on stdin (JSON: root, run IDs) into the index; print how many per batch."""
    address, run_ids = json.load(sys.stdin)
    listing = Listing(address)
    runs = listing.find_runs(run_ids)
    marks = _mark_runs(runs)
    for keys, pairs in _derive_runs(listing.place, runs):
        listing.index.keep_rows(PAIRS, {key: marks[key] for key in keys}, pairs)
        sys.stdout.write(f"{len(keys)}\n")
        sys.stdout.flush()


def _derive_runs(
    place: Place, runs: Sequence[RunSummary], *, selected: int = 0
) -> Iterator[tuple[list[Key], Any]]:
    """Yield runs with their pairs in one table; leave damaged ones out.

    Reduced at once are runs of one agent and plan, with the samples of a slice. Raises DamagedFileError if
    all of them are damaged, and no others are `selected`.
    """
    part, samples = list[RunSummary](), 0
    for run in sorted(runs, key=lambda run: (run.agent_build, run.benchmarks)):
        own = run.samples or SLICE_SAMPLES
        is_full = samples + own > SLICE_SAMPLES or len(part) == _MANY_RUNS
        if part and (is_full or _plan(run) != _plan(part[0])):
            yield from _derive_batch(place, part, alone=len(part) == selected)
            part, samples = [], 0
        part.append(run)
        samples += own
    if part:
        yield from _derive_batch(place, part, alone=len(part) == selected)


def _plan(run: RunSummary) -> tuple[object, ...]:
    return run.agent_build, run.benchmarks, run.descriptions


def _derive_batch(
    place: Place, runs: Sequence[RunSummary], *, alone: bool
) -> Iterator[tuple[list[Key], Any]]:
    try:
        pairs = derive_pairs(place, runs)
    except DamagedFileError as err:
        refusals = [err]
    else:
        yield [run.key for run in runs], pairs
        return
    if len(runs) > 1:  # which of them it is
        refusals.clear()
        for run in runs:
            try:
                yield [run.key], derive_pairs(place, [run])
            except DamagedFileError as err:
                refusals.append(err)
    if alone and len(refusals) == len(runs):
        raise refusals[0]
    for refusal in refusals:
        warn_left_out(refusal)


def history(
    root: Root, *, relation: Chosen = None, benchmark: Chosen = None, **which: Unpack[Runs]
) -> pd.DataFrame:
    """Load a row per run, benchmark, variant and relation, oldest first; leave out benchmarks with points.

    Columns: `started_utc`, `host_id`, `host_name`, `run_id`, `labels` (a dict), and those of `relations`.
    """
    root = open_listing(root)
    runs = list_published(root, **which)
    ids = [run.run_id for run in runs]
    descriptions = merge_descriptions(runs)
    pairs = load_pairs(root, run_id=ids, benchmark=benchmark, relation=relation, columns=HISTORY_COLUMNS)
    return reduce_by_run(runs, drop_points(drop_contradicting(pairs, runs, descriptions), descriptions))


def reduce_by_run(
    runs: Sequence[RunSummary], pairs: pd.DataFrame, keys: Sequence[str] = _CLASS
) -> pd.DataFrame:
    """Reduce these pairs or other cells to rows of `history`; keys: columns that identify a row of a run."""
    relations = reduce_by_relation(pairs, ["run_id", *keys])
    runs_by_id = {run.run_id: run for run in runs}
    of = [runs_by_id[run_id] for run_id in relations["run_id"]]
    names = ("started_utc", "host_id", "host_name", "run_id")
    table: dict[Any, Any] = {name: [getattr(run, name) for run in of] for name in names}
    table |= {"labels": [dict(run.labels) for run in of]}
    relations = pd.DataFrame(
        table | {name: column for name, column in relations.items() if name not in names}
    )
    order = ["started_utc", "run_id", "benchmark", "variant", "median_ns"]
    return relations.sort_values(order, kind="stable").reset_index(drop=True)


def as_float64(pairs: pd.DataFrame) -> pd.DataFrame:
    """Convert float32 to float64 that prints as short, and categories to plain strings."""
    wide: dict[Any, Any] = {
        name: _widen(column.to_numpy()) for name, column in pairs.items() if column.dtype == np.float32
    }
    return decode_categories(pairs).assign(**wide)


def _widen(narrow: npt.NDArray[np.float32]) -> Floats:
    wide: Floats = narrow.astype(np.float64)
    is_number = ~np.isnan(wide)
    if is_number.any():
        texts = pa.array(narrow[is_number]).cast(pa.string())
        wide[is_number] = texts.cast(pa.float64()).to_numpy()
    return wide


def derive_pairs(place: Place, runs: Sequence[RunSummary]) -> Any:
    """Reduce runs to rows of `pairs`, a pyarrow table; several must be small, and of one agent."""
    names = [samples_name(run.host_id, run.run_id) for run in runs]
    files = [TableFile(place, name, "samples") for name in names]
    records = [file.record for file in files]
    rows = [record.row for record in records]
    descriptions = runs[0].descriptions
    if len(files) == 1:
        pairs = _reduce_file(files[0], descriptions=descriptions)
    else:
        bursts = read_together(files, SAMPLE_COLUMNS)
        pairs = reduce_bursts(read_bursts(bursts, descriptions), descriptions)
    precisions = {run.run_id: row["precision"] for run, row in zip(runs, rows, strict=True)}
    hosts = {run.run_id: run.host_id for run in runs}
    kinds = {
        run.run_id: core_kinds((cpu["cpu"], cpu["kind"], cpu["capacity"]) for cpu in record.cpus)
        for run, record in zip(runs, records, strict=True)
    }
    pairs = select_kinds(pairs, kinds)
    pairs = add_pair_flags(pairs, pairs["run_id"].map(precisions).to_numpy(dtype=float), descriptions)
    pairs = pairs.sort_values(["run_id", *_SORTED_BY], kind="stable")
    pairs = pairs.assign(host_id=pairs["run_id"].map(hosts), stats_version=STATS_VERSION)
    shape = schema.arrow_schema("pairs")
    texts = [field.name for field in shape if pa.types.is_dictionary(field.type)]
    pairs = pairs.astype(dict.fromkeys(texts, object))
    return pa.table([pa.array(pairs[field.name], field.type) for field in shape], schema=shape)


def pairs_of_run(root: Root, run_id: str, kind: str, *, ordered: bool) -> pd.DataFrame:
    """Reduce a published run of any size as `matrices.pair_medians` does; kind: such as `cas/llsc`."""
    listing = open_listing(root)
    (run,) = list_published(listing, run_id=run_id)
    benchmark, _, variant = kind.partition("/")
    file = TableFile(listing.place, samples_name(run.host_id, run_id), "samples")
    return _reduce_file(
        file, make_filters(benchmark=benchmark, variant=variant), run.descriptions, ordered=ordered
    )


def _reduce_file(
    file: TableFile,
    where: Where | None = None,
    descriptions: Descriptions = SHIPPED,
    *,
    ordered: bool = False,
) -> pd.DataFrame:
    parts = [
        _reduce_slices(part, descriptions, ordered=ordered)
        for part in iter_slices(file, SLICE_SAMPLES, where or {}, descriptions)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def select_kinds(rows: pd.DataFrame, kinds: Mapping[str, Mapping[int, str]]) -> pd.DataFrame:
    """Add the kinds of their cores to the `relation` of rows. kinds: of each run, by CPU."""
    if not any(kinds.values()):
        return rows
    ends = zip(*(rows[name] for name in ("run_id", "relation", "ping_cpu", "pong_cpu")), strict=True)
    of = kinds.__getitem__
    named = [add_core_kinds(str(relation), of(run).get(a), of(run).get(b)) for run, relation, a, b in ends]
    return rows.assign(relation=named)


class _Slice(NamedTuple):
    """The pairs of these benchmarks and one relation whose lower CPU is from `first` to `last`."""

    benchmarks: frozenset[str]
    relation: str
    first: int
    last: int


def _reduce_slices(part: Iterator[Any], descriptions: Descriptions, *, ordered: bool) -> pd.DataFrame:
    held, size = [], 0
    for table in part:
        held.append(table)
        size += sum(table.column(name).nbytes for name in LISTS)
        if size > _HELD:
            return reduce_in_parts(chain(held, part), descriptions, ordered=ordered)
    return reduce_bursts(
        read_bursts(concat_tables(held, "samples", SAMPLE_COLUMNS), descriptions),
        descriptions,
        ordered=ordered,
    )


def iter_slices(
    file: TableFile, limit: int, where: Where, descriptions: Descriptions = SHIPPED
) -> Iterator[Iterator[Any]]:
    """Yield a samples file in slices of about `limit` samples, tables one by one; a pair is in one slice."""
    if (samples := file.count_samples()) <= limit:
        yield iter([file.read(SAMPLE_COLUMNS, where)])
        return
    for part in _plan_slices(file, limit * file.rows / samples, where, descriptions):
        inside = {**where, "benchmark": part.benchmarks, "relation": {part.relation}}
        tables = (_select_cpus(table, part) for table in file.iter_tables(SAMPLE_COLUMNS, inside))
        yield (table for table in tables if len(table))


def _plan_slices(file: TableFile, limit: float, where: Where, descriptions: Descriptions) -> list[_Slice]:
    """Plan slices of at most `limit` bursts, or of one CPU; only the small columns are read."""
    counts: Counter[tuple[str, str, int]] = Counter()
    for table in file.iter_tables(["benchmark", "relation", "ping_cpu", "pong_cpu"], where):
        rows = to_pandas(table)
        counts.update(zip(rows["benchmark"], rows["relation"], _find_lower_cpus(table).tolist(), strict=True))
    names = {benchmark for benchmark, _, _ in counts}
    together = frozenset(name for name in names if visits_together(descriptions[name]))
    joined: Counter[tuple[frozenset[str], str, int]] = Counter()
    for (benchmark, relation, low), count in counts.items():
        joined[together if benchmark in together else frozenset({benchmark}), relation, low] += count
    planned: list[_Slice] = []
    filled = 0.0
    ordered = sorted(joined.items(), key=lambda item: (sorted(item[0][0]), *item[0][1:]))
    for (benchmarks, relation, low), count in ordered:
        part = _Slice(benchmarks, relation, low, low)
        if planned and planned[-1][:2] == part[:2] and filled + count <= limit:
            planned[-1] = planned[-1]._replace(last=part.last)
        else:
            planned.append(part)
            filled = 0.0
        filled += count
    return planned


def _select_cpus(table: Any, part: _Slice) -> Any:
    low = _find_lower_cpus(table)
    inside = (low >= part.first) & (low <= part.last)
    return table if inside.all() else table.filter(pa.array(inside))


def _find_lower_cpus(table: Any) -> Ints:
    """Return the lower CPU of each row's pair."""
    low: Ints = np.minimum(*(table.column(name).to_numpy() for name in ("ping_cpu", "pong_cpu")))
    return low


def _count_values(latencies: Floats, values: Floats, counts: Ints) -> tuple[Floats, Ints]:
    """Add samples to the distinct values of a pair, each with its count: a file of few bytes has few."""
    own, own_counts = np.unique(latencies, return_counts=True)
    values, place = np.unique(np.concatenate([values, own]), return_inverse=True)
    return values, np.bincount(place, np.concatenate([counts, own_counts])).astype(np.int64)


def _summarize_values(values: Floats, counts: Ints) -> tuple[float, ...]:
    """Compute the columns SAMPLE_NUMBERS of a pair. values: ascending."""
    tenth, middle, last = (_compute_quantile(values, counts, share) for share in (0.10, 0.5, 0.99))
    far = np.abs(values - middle)
    order = np.argsort(far)
    mean = float(values @ counts) / counts.sum()
    return values[0], tenth, mean, _compute_quantile(far[order], counts[order], 0.5), last, values[-1]


def _compute_quantile(values: Floats, counts: Ints, share: float) -> float:
    ends = np.cumsum(counts)
    place = share * (ends[-1] - 1)
    low, high = values[np.searchsorted(ends, [int(place), min(int(place) + 1, ends[-1] - 1)], side="right")]
    return float(low + (place - int(place)) * (high - low))


def reduce_in_parts(
    tables: Iterable[Any], descriptions: Descriptions = SHIPPED, *, ordered: bool = False
) -> pd.DataFrame:
    """Reduce tables as `matrices.reduce_bursts` does; tables: with SAMPLE_COLUMNS, each fit to be held."""
    parts = list[tuple[pd.DataFrame, Ints, Floats, Ints]]()
    none: tuple[Floats, Ints] = (np.empty(0), np.empty(0, dtype=np.int64))
    samples: dict[tuple[object, ...], tuple[Floats, Ints]] = {}
    for table in tables:
        measured = table.filter(
            pc.greater(pc.list_value_length(table.column("ticks")), table.column("warmup"))
        )
        bursts = read_bursts(measured, descriptions)
        parts.append((bursts.about, bursts.counts, *compute_medians(bursts)))
        numbers = pair_numbers(bursts.about, ordered=ordered)
        bursts = bursts.reorder(np.argsort(numbers, kind="stable"))
        begins = np.flatnonzero(np.diff(np.sort(numbers), prepend=-1))
        ends = np.cumsum(bursts.counts)
        of_pairs = np.split(bursts.latencies, ends[begins[1:] - 1])
        keys = _name_pairs(bursts.about.iloc[begins], ordered=ordered)
        for key, latencies in zip(keys, of_pairs, strict=len(begins) > 0):
            samples[key] = _count_values(latencies, *samples.get(key, none))
    about = pd.concat([part[0] for part in parts], ignore_index=True)
    order = order_by_pair(about, ordered=ordered)
    sizes, middles, far = (np.concatenate([part[column] for part in parts])[order] for column in (1, 2, 3))

    def summarize(first: pd.DataFrame) -> dict[str, Any]:
        numbers = [_summarize_values(*samples[key]) for key in _name_pairs(first, ordered=ordered)]
        return dict(zip(SAMPLE_NUMBERS, map(np.array, zip(*numbers, strict=True)), strict=True))

    about = about.iloc[order].reset_index(drop=True)
    return make_pairs(about, sizes, middles, far, summarize, descriptions, ordered=ordered)


def _name_pairs(bursts: pd.DataFrame, *, ordered: bool) -> list[tuple[object, ...]]:
    """Name the pair of each burst: the values of PAIR, unless `ordered` the lower CPU first."""
    rows = to_records(bursts[PAIR])
    keys = [(list(row.values())[:-2], [row["ping_cpu"], row["pong_cpu"]]) for row in rows]
    return [(*kind, *(ends if ordered else sorted(ends))) for kind, ends in keys]

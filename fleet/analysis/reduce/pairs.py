"""Derive the table `pairs`: a row per run and pair, computed on first use and kept in
the index.

A large run is reduced in slices of whole pairs, so memory is bounded by the pairs of
one CPU, not by the run.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base.tables import (
    Floats,
    decode_categories,
    to_pandas,
)
from fleet.analysis.reduce import load, matrices
from fleet.analysis.reduce.bursts import SAMPLE_COLUMNS, read_bursts
from fleet.analysis.reduce.flags import add_pair_flags
from fleet.analysis.reduce.workers import MANY_RUNS, derive_in_processes
from fleet.errors import DamagedFileError
from fleet.late import pa, pc
from fleet.model import Descriptions, add_core_kinds, name_core_kinds
from fleet.store import schema
from fleet.store.index import Derived, load_derived
from fleet.store.places import Key, Place, samples_name
from fleet.store.reading import (
    TableFile,
    Where,
    concat_tables,
    select_rows,
    warn_left_out,
)
from fleet.store.runs import Listing, Root, RunSummary, open_listing
from fleet.store.verify import INDEX_REMEDY

STATS_VERSION = 16  # raise it whenever a number or a flag of `pairs` changes
PAIRS = Derived("pairs", "pairs")
SLICE_SAMPLES = 1 << 20
_CLASS = ["benchmark", "variant", "relation"]
_SORTED_BY = [*_CLASS, "point", "ping_cpu", "pong_cpu"]
# the keys of runs, and their pairs in an Arrow table
_PairBatches = Iterator[tuple[list[Key], Any]]


def load_pairs(
    root: Root,
    *,
    benchmark: load.Chosen = None,
    relation: load.Chosen = None,
    columns: Sequence[str] | None = None,
    **which: Unpack[load.Runs],
) -> pd.DataFrame:
    """Read the table `pairs` (docs/tables.md): a row per run, benchmark, variant, point
    and pair, in ns.

    Filters are those of `load_samples`. Runs come oldest first; numbers are float32.
    Missing rows are computed now and kept in the index; for many runs, progress goes to
    the listing's `note`.
    """
    listing = open_listing(root)
    runs = load.list_published(listing, **which)
    where = load.make_filters(benchmark=benchmark, relation=relation)
    return read_pairs(listing, runs, columns, where)[0]


def read_pairs(
    listing: Listing,
    runs: Sequence[RunSummary],
    columns: Sequence[str] | None = None,
    where: Where | None = None,
) -> tuple[pd.DataFrame, set[Key]]:
    """Return the rows of `pairs` of these runs, and the runs left out as damaged."""
    marks = make_index_marks(runs)
    missing = marks.keys() - listing.index.find_newest_part_ids(PAIRS, marks)
    if len(missing) >= MANY_RUNS:
        derive_in_processes(listing, sorted(run_id for _, run_id in missing))
    left_out = set[Key]()

    def derive_batches(run_keys: Sequence[Key]) -> _PairBatches:
        left_out.update(run_keys)
        batch = set(run_keys)
        own = [run for run in runs if run.key in batch]
        for keys, rows in _derive_runs(listing.place, own, selected=len(runs)):
            left_out.difference_update(keys)
            yield keys, rows

    rows = load_derived(listing.index, PAIRS, marks, derive_batches, columns, where)
    return to_pandas(rows), left_out


def verify_pairs(root: Root) -> list[str]:
    """Derive the pairs in the index again from samples; return a problem for each run
    whose pairs differ.
    """
    listing = open_listing(root)
    runs = {run.key: run for run in listing.all_runs}

    def derive_batches(run_keys: Sequence[Key]) -> _PairBatches:
        return _derive_runs(listing.place, [runs[key] for key in run_keys])

    return verify_derived(
        listing, PAIRS, make_index_marks(listing.all_runs), derive_batches
    )


def verify_derived(
    listing: Listing,
    kind: Derived,
    marks: Mapping[Key, str],
    derive: Callable[[list[Key]], Iterable[tuple[Sequence[Key], Any]]],
) -> list[str]:
    """Derive the rows in the index again with `derive`; return a problem for each run
    whose rows differ.
    """
    stored, tables = listing.index.read_rows(kind, marks, kind.columns, {})
    rows, problems = concat_tables(tables, kind.table, kind.columns), list[str]()
    for keys, derived in derive([key for key in marks if key in stored]):
        for _, run_id in keys:
            chosen = kind.table, kind.columns, {"run_id": {run_id}}
            own, again = (
                select_rows(table, *chosen).to_pandas() for table in (rows, derived)
            )
            try:
                pd.testing.assert_frame_equal(
                    own, again, rtol=1e-5, check_categorical=False
                )
            except AssertionError:
                complaint = f"the {kind.name} of {run_id} are not those of its samples"
                problems.append(f"{listing.index.path}: {complaint}. {INDEX_REMEDY}")
    return problems


def make_index_marks(runs: Sequence[RunSummary]) -> dict[Key, str]:
    """Return, by run, the mark of its indexed pairs: STATS_VERSION and the hash of its
    samples.
    """
    return {run.key: f"{STATS_VERSION}:{run.content_sha256}" for run in runs}


def _derive_runs(
    place: Place, runs: Sequence[RunSummary], *, selected: int = 0
) -> _PairBatches:
    """Yield batches of runs with their pairs in one table; warn of damaged runs and
    leave them out.

    A batch is of one agent build and set of benchmarks, and holds a slice of samples or
    one larger run.
    selected: how many runs were chosen. Raises DamagedFileError if all of these are
    damaged.
    """
    damaged, batch, samples = list[DamagedFileError](), list[RunSummary](), 0
    for run in sorted(runs, key=lambda run: (run.agent_build, run.benchmarks)):
        own = run.samples or SLICE_SAMPLES
        is_full = samples + own > SLICE_SAMPLES or len(batch) == MANY_RUNS
        if batch and (is_full or _get_batch_key(run) != _get_batch_key(batch[0])):
            yield from _derive_batch(place, batch, damaged)
            batch, samples = [], 0
        batch.append(run)
        samples += own
    if batch:
        yield from _derive_batch(place, batch, damaged)
    if damaged and len(damaged) == selected:
        raise damaged[0]
    for error in damaged:
        warn_left_out(error)


def _get_batch_key(run: RunSummary) -> tuple[object, ...]:
    return run.agent_build, run.benchmarks, run.descriptions


def _derive_batch(
    place: Place, runs: Sequence[RunSummary], damaged: list[DamagedFileError]
) -> _PairBatches:
    """Yield the runs with their pairs, one by one if a run is damaged; append its error
    to `damaged`.
    """
    try:
        pairs = derive_pairs(place, runs)
    except DamagedFileError as err:
        if len(runs) == 1:
            damaged.append(err)
            return
        for run in runs:
            yield from _derive_batch(place, [run], damaged)
    else:
        yield [run.key for run in runs], pairs


def as_float64(pairs: pd.DataFrame) -> pd.DataFrame:
    """Convert float32 to the float64 that prints with the same digits, and categories
    to plain strings.
    """
    narrow = pairs.select_dtypes("float32")
    wide: dict[Any, Any] = {
        name: _to_float64(column.to_numpy()) for name, column in narrow.items()
    }
    return decode_categories(pairs).assign(**wide)


def _to_float64(narrow: npt.NDArray[np.float32]) -> Floats:
    wide: Floats = narrow.astype(np.float64)
    is_number = ~np.isnan(wide)
    if is_number.any():
        texts = pa.array(narrow[is_number]).cast(pa.string())
        wide[is_number] = texts.cast(pa.float64()).to_numpy()
    return wide


def derive_pairs(place: Place, runs: Sequence[RunSummary]) -> Any:
    """Reduce runs to rows of `pairs`, a pyarrow table. runs: one, or a batch as
    `_derive_runs` makes them.
    """
    files = [TableFile(place, samples_name(*run.key), "samples") for run in runs]
    records, descriptions = [file.record for file in files], runs[0].descriptions
    if len(files) == 1:
        pairs = _reduce_file(files[0], {}, descriptions, ordered=False)
    else:
        parts = [file.read(SAMPLE_COLUMNS) for file in files]
        bursts = concat_tables(parts, "samples")
        pairs = matrices.reduce_bursts(read_bursts(bursts, descriptions), descriptions)
    kinds, precisions = dict[str, Mapping[int, str]](), dict[str, Any]()
    for run, record in zip(runs, records, strict=True):
        kinds[run.run_id] = name_core_kinds(
            (cpu["cpu"], cpu["kind"], cpu["capacity"]) for cpu in record.cpus
        )
        precisions[run.run_id] = record.row["precision"]
    pairs = add_kinds_to_relations(pairs, kinds)
    pairs = add_pair_flags(
        pairs, pairs["run_id"].map(precisions).to_numpy(dtype=float), descriptions
    )
    pairs = pairs.sort_values(["run_id", *_SORTED_BY], kind="stable")
    hosts = {run.run_id: run.host_id for run in runs}
    pairs = pairs.assign(
        host_id=pairs["run_id"].map(hosts), stats_version=STATS_VERSION
    )
    shape = schema.arrow_schema("pairs")
    texts = [field.name for field in shape if pa.types.is_dictionary(field.type)]
    pairs = pairs.astype(dict.fromkeys(texts, object))
    return pa.table(
        [pa.array(pairs[field.name], field.type) for field in shape], schema=shape
    )


def reduce_run(root: Root, run_id: str, kind: str, *, ordered: bool) -> pd.DataFrame:
    """Reduce a published run of any size as `matrices.pair_medians` does; kind: such as
    `cas/llsc`.
    """
    listing = open_listing(root)
    (run,) = load.list_published(listing, run_id=run_id)
    benchmark, _, variant = kind.partition("/")
    file = TableFile(listing.place, samples_name(*run.key), "samples")
    where = load.make_filters(benchmark=benchmark, variant=variant)
    return _reduce_file(file, where, run.descriptions, ordered=ordered)


def _reduce_file(
    file: TableFile, where: Where, descriptions: Descriptions, *, ordered: bool
) -> pd.DataFrame:
    parts = []
    for table in _iter_slices(file, where, descriptions):
        bursts = read_bursts(table, descriptions)
        parts.append(matrices.reduce_bursts(bursts, descriptions, ordered=ordered))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def add_kinds_to_relations(
    rows: pd.DataFrame, kinds: Mapping[str, Mapping[int, str]]
) -> pd.DataFrame:
    """Append the kinds of the two cores to each row's `relation`. kinds: by run ID and
    CPU.
    """
    if not any(kinds.values()):
        return rows
    ends = zip(
        *(rows[name] for name in ("run_id", "relation", "ping_cpu", "pong_cpu")),
        strict=True,
    )
    of = kinds.__getitem__
    named = [
        add_core_kinds(str(relation), of(run).get(a), of(run).get(b))
        for run, relation, a, b in ends
    ]
    return rows.assign(relation=named)


class _Slice(NamedTuple):
    """The pairs of these benchmarks and one relation whose lower CPU is from `first` to
    `last`.
    """

    benchmarks: frozenset[str]
    relation: str
    first: int
    last: int


def _iter_slices(
    file: TableFile, where: Where, descriptions: Descriptions
) -> Iterator[Any]:
    """Yield a samples file in tables of about SLICE_SAMPLES; never divide a pair."""
    samples = file.count_samples()
    if samples <= SLICE_SAMPLES:
        yield file.read(SAMPLE_COLUMNS, where)
        return
    bursts_at_once = SLICE_SAMPLES * file.rows / samples
    for part in _plan_slices(file, bursts_at_once, where, descriptions):
        inside = {**where, "benchmark": part.benchmarks, "relation": {part.relation}}
        tables = [
            _select_slice(table, part)
            for table in file.iter_tables(SAMPLE_COLUMNS, inside)
        ]
        yield concat_tables(tables, "samples", SAMPLE_COLUMNS)


def _plan_slices(
    file: TableFile, limit: float, where: Where, descriptions: Descriptions
) -> list[_Slice]:
    """Plan slices of at most `limit` bursts, or of one CPU with more; read only the
    small columns.
    """
    counts: Counter[tuple[str, str, int]] = Counter()
    for table in file.iter_tables(
        ["benchmark", "relation", "ping_cpu", "pong_cpu"], where
    ):
        rows = to_pandas(table)
        cpus = rows[["ping_cpu", "pong_cpu"]].min(axis=1)
        counts.update(zip(rows["benchmark"], rows["relation"], cpus, strict=True))
    together = frozenset(
        name
        for name, _, _ in counts
        if matrices.is_visited_with_others(descriptions[name])
    )
    joined: Counter[tuple[frozenset[str], str, int]] = Counter()
    for (benchmark, relation, low), count in counts.items():
        joined[
            together if benchmark in together else frozenset({benchmark}), relation, low
        ] += count
    planned, filled = list[_Slice](), 0.0
    ordered = sorted(
        joined.items(), key=lambda item: (sorted(item[0][0]), *item[0][1:])
    )
    for (benchmarks, relation, low), count in ordered:
        filled += count
        if planned and planned[-1][:2] == (benchmarks, relation) and filled <= limit:
            planned[-1] = planned[-1]._replace(last=low)
        else:
            planned.append(_Slice(benchmarks, relation, low, low))
            filled = count
    return planned


def _select_slice(table: Any, part: _Slice) -> Any:
    low = pc.min_element_wise(table.column("ping_cpu"), table.column("pong_cpu"))
    return table.filter(
        pc.and_(pc.greater_equal(low, part.first), pc.less_equal(low, part.last))
    )

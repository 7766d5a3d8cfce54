"""Derive the table `pairs`: a row per run and pair, computed on first use and kept in
the index.

Small runs are reduced in batches, a large run in slices (`slices`).
"""

from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.base.tables import (
    NUMBER_KEY,
    Floats,
    decode_categories,
    to_pandas,
)
from fleet.analysis.reduce import load, matrices
from fleet.analysis.reduce.bursts import SAMPLE_COLUMNS, read_bursts
from fleet.analysis.reduce.flags import add_pair_flags
from fleet.analysis.reduce.relation_spreads import (
    BurstMedians,
    add_relation_spreads,
    join_burst_medians,
)
from fleet.analysis.reduce.slices import iter_slices
from fleet.analysis.reduce.workers import MANY_RUNS, derive_in_processes
from fleet.errors import DamagedFileError
from fleet.late import pa
from fleet.model import Descriptions, add_core_kinds, name_core_kinds
from fleet.store import schema
from fleet.store.gate import RunRecord
from fleet.store.index import Derived, load_derived
from fleet.store.places import Key, Place
from fleet.store.reading import (
    TableFile,
    Where,
    concat_tables,
    select_rows,
    warn_left_out,
)
from fleet.store.runs import Listing, Root, RunSummary, open_listing
from fleet.store.verify import INDEX_REMEDY

STATS_VERSION = 18  # raise it whenever a number or a flag of `pairs` changes
PAIRS = Derived("pairs", "pairs")
SLICE_SAMPLES = 1 << 20
_SORTED_BY = [*NUMBER_KEY, "point", "ping_cpu", "pong_cpu"]
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
    """Return the rows of `pairs` of these runs, and the runs left out as damaged.

    Rows come from the index, by marks that tell whether they are still current. Rows
    that the index lacks are derived from samples; those of many runs by other processes
    first, so that all but damaged runs are in the index when this process reads it.
    """
    marks = make_index_marks(runs)
    indexed_keys = listing.index.find_newest_part_ids(PAIRS, marks)
    missing_ids = sorted(run_id for _, run_id in marks.keys() - indexed_keys)
    if len(missing_ids) >= MANY_RUNS:
        derive_in_processes(listing, missing_ids)
    return read_pairs_in_process(listing, runs, columns, where)


def read_pairs_in_process(
    listing: Listing,
    runs: Sequence[RunSummary],
    columns: Sequence[str] | None = None,
    where: Where | None = None,
) -> tuple[pd.DataFrame, set[Key]]:
    """Do what `read_pairs` does, in this process however many runs are missing."""
    marks = make_index_marks(runs)
    derivation = _Derivation(listing.place, runs)
    derive = derivation.derive_batches
    rows = load_derived(listing.index, PAIRS, marks, derive, columns, where)
    return to_pandas(rows), derivation.left_out


class _Derivation:
    """Derives runs that the index lacks, and remembers which are left out as
    damaged.
    """

    def __init__(self, place: Place, runs: Sequence[RunSummary]) -> None:
        self._place = place
        self._runs = runs
        self.left_out = set[Key]()

    def derive_batches(self, run_keys: Sequence[Key]) -> _PairBatches:
        """Derive these runs in batches; yield the keys of each batch, and the pairs of
        its runs in one table.

        A run is in `left_out` until its batch is yielded. Damaged runs are in no batch,
        so that they remain in `left_out`.
        """
        keys_to_derive = set(run_keys)
        self.left_out |= keys_to_derive
        runs = [run for run in self._runs if run.key in keys_to_derive]
        # it is an error if all wanted runs are damaged; those in the index are wanted
        # runs, too
        batches = _derive_runs(self._place, runs, wanted_runs=len(self._runs))
        for keys, rows in batches:
            self.left_out.difference_update(keys)
            yield keys, rows


def verify_pairs(root: Root) -> list[str]:
    """Derive the pairs in the index again from samples; return a sentence for each run
    whose pairs differ.
    """
    listing = open_listing(root)
    runs_by_key = {run.key: run for run in listing.all_runs}
    marks = make_index_marks(listing.all_runs)

    def derive_batches(run_keys: Sequence[Key]) -> _PairBatches:
        runs = [runs_by_key[key] for key in run_keys]
        return _derive_runs(listing.place, runs)

    return verify_derived(listing, PAIRS, marks, derive_batches)


def verify_derived(
    listing: Listing,
    kind: Derived,
    marks: Mapping[Key, str],
    derive: Callable[[list[Key]], Iterable[tuple[Sequence[Key], Any]]],
) -> list[str]:
    """Derive the rows in the index again with `derive`; return a sentence for each run
    whose rows differ.

    kind: a table that the index keeps. marks: by run, the mark of rows that are up to
    date; rows with another mark are not looked at. derive: gets the keys of runs;
    yields the keys of some of these runs at a time, with a table of their rows.
    """
    where: Where = {}  # all rows
    keys_in_index, tables = listing.index.read_rows(kind, marks, kind.columns, where)
    table_before = concat_tables(tables, kind.table, kind.columns)
    keys_to_derive = [key for key in marks if key in keys_in_index]
    problems = []
    for keys, table_now in derive(keys_to_derive):
        for _, run_id in keys:
            rows_before = _select_run(table_before, kind, run_id)
            rows_now = _select_run(table_now, kind, run_id)
            if not _are_close(rows_before, rows_now):
                problems.append(
                    f"{listing.index.path}: the {kind.name} of {run_id} are not those"
                    f" of its samples. {INDEX_REMEDY}"
                )
    return problems


def _select_run(table: Any, kind: Derived, run_id: str) -> Any:
    """Select a run's rows of a table that the index keeps."""
    return select_rows(table, kind.table, kind.columns, {"run_id": {run_id}})


def _are_close(table: Any, other: Any) -> bool:
    """Report whether two tables have the same rows, numbers within 0.001 %."""
    try:
        pd.testing.assert_frame_equal(
            table.to_pandas(), other.to_pandas(), rtol=1e-5, check_categorical=False
        )
    except AssertionError:
        return False
    return True


def make_index_marks(runs: Sequence[RunSummary]) -> dict[Key, str]:
    """Return, by run, the mark that its pairs have in the index if they are up to date:
    STATS_VERSION and the hash of its samples. Pairs with another mark are derived
    again.
    """
    return {run.key: f"{STATS_VERSION}:{run.content_sha256}" for run in runs}


def _derive_runs(
    place: Place, runs: Sequence[RunSummary], *, wanted_runs: int = 0
) -> _PairBatches:
    """Yield batches: the keys of runs, and the pairs of these runs in one table. Warn
    of damaged runs and leave them out.

    wanted_runs: how many runs the user has chosen; `runs` are those of them that the
    index lacks. If all that the user has chosen are damaged, nothing is left: raise the
    first DamagedFileError. 0: never raise it, as when runs are verified.
    """
    damaged = list[DamagedFileError]()
    for batch in split_into_batches(runs):
        errors = yield from _derive_batch(place, batch)
        damaged += errors
    if damaged and len(damaged) == wanted_runs:
        raise damaged[0]
    for error in damaged:
        warn_left_out(error)


def split_into_batches(runs: Sequence[RunSummary]) -> Iterator[list[RunSummary]]:
    """Split runs into batches of one agent build and set of benchmarks. A batch has at
    most MANY_RUNS runs and SLICE_SAMPLES samples, but a larger run is a batch alone. A
    run that does not say how many samples it has counts as large.
    """
    batch: list[RunSummary] = []
    batch_samples = 0
    for run in sorted(runs, key=lambda run: (run.agent_build, run.benchmarks)):
        samples = run.samples or SLICE_SAMPLES
        is_too_large = batch_samples + samples > SLICE_SAMPLES
        is_full = is_too_large or len(batch) == MANY_RUNS
        if batch and (is_full or not _fit_together(run, batch[0])):
            yield batch
            batch = []
            batch_samples = 0
        batch.append(run)
        batch_samples += samples
    if batch:
        yield batch


def _fit_together(run: RunSummary, other: RunSummary) -> bool:
    """Report whether two runs may be reduced in one batch."""
    return (
        run.agent_build == other.agent_build
        and run.benchmarks == other.benchmarks
        and run.descriptions == other.descriptions
    )


def _derive_batch(
    place: Place, runs: Sequence[RunSummary]
) -> Generator[tuple[list[Key], Any], None, list[DamagedFileError]]:
    """Yield the keys of the runs and the runs' pairs in one table; if a run is damaged,
    yield those of each run that is not, one by one. Return the errors of damaged runs.
    """
    try:
        pairs = derive_pairs(place, runs)
    except DamagedFileError as err:
        error = err
    else:
        yield [run.key for run in runs], pairs
        return []
    if len(runs) == 1:
        return [error]
    # the error does not say which of the runs are damaged: try each alone
    damaged = []
    for run in runs:
        errors = yield from _derive_batch(place, [run])
        damaged += errors
    return damaged


def as_float64(pairs: pd.DataFrame) -> pd.DataFrame:
    """Convert float32 to the float64 that prints with the same digits, and categories
    to plain strings.
    """
    wide_columns: dict[Any, Any] = {}
    for name, column in pairs.select_dtypes("float32").items():
        wide_columns[name] = _to_float64(column.to_numpy())
    return decode_categories(pairs).assign(**wide_columns)


def _to_float64(narrow: npt.NDArray[np.float32]) -> Floats:
    """Convert by way of the digits: 0.1 becomes 0.1, not 0.10000000149. NaN remains."""
    wide: Floats = narrow.astype(np.float64)
    is_number = ~np.isnan(wide)
    if is_number.any():
        texts = pa.array(narrow[is_number]).cast(pa.string())
        wide[is_number] = texts.cast(pa.float64()).to_numpy()
    return wide


def derive_pairs(place: Place, runs: Sequence[RunSummary]) -> Any:
    """Reduce runs to rows of `pairs`, a pyarrow table. runs: one run of any size, or a
    batch from `split_into_batches`, whose runs have the same benchmark descriptions.
    """
    files = [load.open_samples(place, run) for run in runs]
    descriptions = runs[0].descriptions
    pairs, bursts = _reduce_files(files, descriptions)

    records = {run.run_id: file.record for run, file in zip(runs, files, strict=True)}
    pairs = add_kinds_to_relations(pairs, _find_core_kinds(records))
    pairs = add_relation_spreads(pairs, bursts)
    precisions = _get_requested_precisions(pairs, records)
    pairs = add_pair_flags(pairs, precisions, descriptions)

    hosts = {run.run_id: run.host_id for run in runs}
    pairs = pairs.sort_values(["run_id", *_SORTED_BY], kind="stable")
    pairs["host_id"] = pairs["run_id"].map(hosts)
    pairs["stats_version"] = STATS_VERSION
    return to_arrow(pairs, "pairs")


def _get_requested_precisions(
    pairs: pd.DataFrame, records: Mapping[str, RunRecord]
) -> Floats:
    """Return the precision that the run of each pair was asked for; NaN for none."""
    precisions = {run_id: record.row["precision"] for run_id, record in records.items()}
    return pairs["run_id"].map(precisions).to_numpy(dtype=float)


def _reduce_files(
    files: Sequence[TableFile], descriptions: Descriptions
) -> tuple[pd.DataFrame, BurstMedians]:
    """Reduce samples files: one of any size, or several that fit into memory."""
    if len(files) == 1:
        return _reduce_file(files[0], {}, descriptions, ordered=False)
    tables = [file.read(SAMPLE_COLUMNS) for file in files]
    samples = concat_tables(tables, "samples")
    return matrices.reduce_bursts(read_bursts(samples, descriptions), descriptions)


def _find_core_kinds(records: Mapping[str, RunRecord]) -> dict[str, dict[int, str]]:
    """Return the kinds of cores by run ID and CPU."""
    kinds = {}
    for run_id, record in records.items():
        cpus = [(cpu["cpu"], cpu["kind"], cpu["capacity"]) for cpu in record.cpus]
        kinds[run_id] = name_core_kinds(cpus)
    return kinds


def to_arrow(rows: pd.DataFrame, table: str) -> Any:
    """Convert rows to a pyarrow table with the columns of a stored table, in the order
    and of the types of its schema. table: its name, such as "pairs".
    """
    shape = schema.arrow_schema(table)
    columns = []
    for field in shape:
        values = rows[field.name]
        # from plain values, pyarrow makes a dictionary of the field's own type
        if pa.types.is_dictionary(field.type):
            values = values.astype(object)
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=shape)


def reduce_run(root: Root, run_id: str, choice: str, *, ordered: bool) -> pd.DataFrame:
    """Reduce the samples of a published run of any size to rows of pairs, as
    `matrices.pair_medians` does.

    choice: the benchmark and variant, such as `cas/llsc`. ordered: whether a pair's two
    directions are two rows.
    """
    listing = open_listing(root)
    (run,) = load.list_published(listing, run_id=run_id)
    file = load.open_samples(listing.place, run)
    benchmark, _, variant = choice.partition("/")
    where = load.make_filters(benchmark=benchmark, variant=variant)
    pairs, bursts = _reduce_file(file, where, run.descriptions, ordered=ordered)
    return add_relation_spreads(pairs, bursts)


def _reduce_file(
    file: TableFile, where: Where, descriptions: Descriptions, *, ordered: bool
) -> tuple[pd.DataFrame, BurstMedians]:
    """Reduce a samples file of any size to rows of pairs and the medians of their
    bursts, as `reduce_bursts` does, but slice by slice. No pair is in two slices.
    """
    parts = []
    burst_parts = []
    row_count = 0
    for table in iter_slices(file, where, descriptions, SLICE_SAMPLES):
        bursts = read_bursts(table, descriptions)
        pairs, medians = matrices.reduce_bursts(bursts, descriptions, ordered=ordered)
        parts.append(pairs)
        burst_parts.append(medians.shift_rows(row_count))
        row_count += len(pairs)
    if not parts:
        # no sample matches `where`: return tables without rows, but with all columns
        nothing = read_bursts(concat_tables([], "samples", SAMPLE_COLUMNS))
        return matrices.reduce_bursts(nothing, descriptions)
    return pd.concat(parts, ignore_index=True), join_burst_medians(burst_parts)


def add_kinds_to_relations(
    rows: pd.DataFrame, kinds: Mapping[str, Mapping[int, str]]
) -> pd.DataFrame:
    """Append the kinds of the two cores to each row's `relation`: "package P-E".

    kinds: by run ID, the kind of core of each CPU, {} if all cores are alike. The rows
    of such a run keep their relation.
    """
    if not any(kinds.values()):
        return rows
    columns = [rows[name] for name in ("run_id", "relation", "ping_cpu", "pong_cpu")]
    relations = []
    for run_id, relation, ping, pong in zip(*columns, strict=True):
        kinds_of_run = kinds[run_id]
        ping_kind = kinds_of_run.get(ping)
        pong_kind = kinds_of_run.get(pong)
        relations.append(add_core_kinds(str(relation), ping_kind, pong_kind))
    return rows.assign(relation=relations)

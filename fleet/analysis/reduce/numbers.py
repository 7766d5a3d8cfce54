"""Derive the table `numbers`, a row per run and number, and keep it in the index.

A number is of a relation, a level of memory, a node or a point, as `cells` names it.
Every command that shows, compares or exports numbers of whole runs reads this table.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import (
    NUMBER_KEY,
    Ints,
    decode_categories,
    number_groups,
    to_pandas,
)
from fleet.analysis.base.text import name_benchmark, to_records
from fleet.analysis.reduce import load
from fleet.analysis.reduce.cells import name_cells
from fleet.analysis.reduce.cpu_choice import select_pairs_of_cpus
from fleet.analysis.reduce.matrices import estimator_column
from fleet.analysis.reduce.pairs import (
    STATS_VERSION,
    as_float64,
    load_pairs,
    make_index_marks,
    read_pairs,
    read_pairs_in_process,
    split_into_batches,
    to_arrow,
    verify_derived,
)
from fleet.analysis.reduce.workers import MANY_RUNS, derive_in_processes
from fleet.model import LOAD, Descriptions, View
from fleet.plan.benchmark_names import parse_benchmark_names
from fleet.store import schema
from fleet.store.index import Derived, load_derived
from fleet.store.places import Key
from fleet.store.runs import Listing, Root, RunSummary, open_listing

NUMBERS_VERSION = 4  # raise it whenever a row of `numbers` changes
NUMBERS = Derived("numbers", "numbers")
_VIEWS_OF_CPUS = (View.MATRIX, View.CPUS)  # of pairs of CPUs, and of each CPU
# which pair, point or sizes a cell is of
_IDENTITY = ["ping_cpu", "pong_cpu", "point", "least_bytes", "most_bytes"]
_COMPARED = (
    *("run_id", "benchmark", "variant", "relation", "point", "ping_cpu", "pong_cpu"),
    *("bursts", "median_ns", "p99_ns", "spread", "flagged_bursts", "flags"),
    *("relation_spread", "memory_node"),
)
_FIRST = (
    *("host_id", "point", "level", "setting", "threads", "cpu_node", "memory_node"),
    *("about", "column", "place"),
)
# by column of `numbers`: the column of cells that it comes from, and the function that
# reduces a number's cells to one value
_REDUCTIONS = {
    **{name: (name, "first") for name in _FIRST},
    "pairs": ("median_ns", "size"),
    "median_ns": ("median_ns", "median"),
    "min_ns": ("median_ns", "min"),
    "max_ns": ("median_ns", "max"),
    "p99_ns": ("p99_ns", "median"),
    "spread": ("relation_spread", "median"),
    "widest": ("spread", "max"),
    "mean_sample_ns": ("mean_ns", "median"),
    "min_sample_ns": ("min_ns", "median"),
    "other_ns": ("other_ns", "median"),
    "other_share": ("other_share", "mean"),
    "bursts": ("bursts", "sum"),
    "flagged_bursts": ("flagged_bursts", "sum"),
    "pairs_hash": ("pairs_hash", "sum"),
}
# by column of `pairs`: the column of `numbers` that is its median over pairs
NUMBER_COLUMNS = {
    "median_ns": "median_ns",
    "mean_ns": "mean_sample_ns",
    "min_ns": "min_sample_ns",
}
_OF_RELATION = [
    *("run_id", "benchmark", "variant", "point", "relation", "pairs", "median_ns"),
    *("min_ns", "max_ns", "p99_ns", "spread", "widest", "bursts", "flagged_share"),
]
_NumberBatches = Iterator[tuple[list[Key], Any]]


def load_numbers(
    root: Root, *, columns: Sequence[str] | None = None, **which: Unpack[load.Runs]
) -> pd.DataFrame:
    """Read the table `numbers` (docs/tables.md): a row per run and number, in ns.

    Runs come oldest first. Missing rows are computed now and kept in the index; for
    many runs, progress goes to the listing's `note`.
    """
    listing = open_listing(root)
    return _read_numbers(listing, load.list_published(listing, **which), columns)


def verify_numbers(root: Root) -> list[str]:
    """Derive the numbers in the index again from pairs; return a sentence for each run
    whose numbers differ.
    """
    listing = open_listing(root)
    runs_by_key = {run.key: run for run in listing.all_runs}
    marks = _make_version_marks(listing.all_runs)

    def derive_batches(run_keys: Sequence[Key]) -> _NumberBatches:
        runs = [runs_by_key[key] for key in run_keys]
        return _derive_batches(listing, runs)

    return verify_derived(listing, NUMBERS, marks, derive_batches)


def derive_into_index() -> None:
    """Store the pairs and numbers of the runs that stdin names in the index. stdin: a
    JSON list of the root's address and a list of run IDs. Print the number of runs of
    each batch, a line each: the process that started this one counts them.
    """
    address, run_ids = json.load(sys.stdin)
    listing = Listing(address)
    runs = listing.find_runs(set(run_ids))
    marks = _make_version_marks(runs)
    for keys, rows in _derive_batches(listing, runs):
        marks_of_batch = {key: marks[key] for key in keys}
        listing.index.store_rows(NUMBERS, marks_of_batch, rows)
        sys.stdout.write(f"{len(keys)}\n")
        sys.stdout.flush()
    listing.index.delete_replaced_rows(NUMBERS)


class Only(NamedTuple):
    """A filter. benchmark: `cas` or `cas/llsc`. cpus: a list of CPUs, kinds of cores
    and what they share, such as "0-7" or "E,llc". None: all.
    """

    benchmark: str | None = None
    cpus: str | None = None

    def __str__(self) -> str:
        """Return the filter as the end of a message: " of cas of CPUs 0-7", or ""."""
        text = ""
        if self.benchmark:
            text += f" of {self.benchmark}"
        if self.cpus:
            text += f" of CPUs {self.cpus}"
        return text

    @property
    def divides_numbers(self) -> bool:
        """Report whether a number may be of some pairs or points that match and of
        others that do not. The stored numbers, which are of all, do not serve then.
        """
        if self.cpus is not None:
            return True
        if self.benchmark is None:
            return False
        return any(name.setting for name in parse_benchmark_names(self.benchmark))

    def select(self, pairs: pd.DataFrame, cpus: pd.DataFrame) -> pd.DataFrame:
        """Select the rows of `pairs` that match. cpus: of the same runs. Raises
        UsageError if none match.
        """
        pairs = load.select_benchmark(pairs, self.benchmark)
        if self.cpus is None:
            return pairs
        pairs = select_pairs_of_cpus(pairs, cpus, self.cpus)
        # the intervals of relations are of all of their pairs
        return pairs.assign(relation_spread=pairs["spread"])


ALL = Only()


def select_numbers(
    root: Root,
    runs: Sequence[RunSummary],
    only: Only = ALL,
    descriptions: Descriptions | None = None,
    pair_column: str = "median_ns",
) -> pd.DataFrame:
    """Return the rows of `numbers` of these runs that match. Raises UsageError if none
    do.

    descriptions: merged from all these runs, None to merge them here; a run that
    describes a benchmark otherwise is left out. pair_column: the column of `pairs`
    whose median, minimum and maximum become `median_ns`, `min_ns` and `max_ns`. With a
    `pair_column` other than `median_ns` there are no intervals. Rows come from the
    index if the index has such numbers; otherwise they are computed from pairs.
    """
    merged = descriptions or load.merge_descriptions(runs)
    listing = open_listing(root)
    # a number in the index is the median of `median_ns` over all its pairs or points
    are_stored = pair_column == "median_ns" and not only.divides_numbers
    if are_stored:
        numbers = _read_numbers(listing, runs)
        numbers = load.drop_contradicting(numbers, runs, merged)
        return _select_benchmark(numbers, only.benchmark, merged)
    pairs, cpus = load_pairs_and_cpus(listing, runs, merged)
    pairs = only.select(pairs, cpus)
    return compute_numbers(pairs, cpus, merged, pair_column)


def load_shown_numbers(
    root: Root,
    runs: Sequence[Mapping[str, Any]],
    only: Only = ALL,
    descriptions: Descriptions | None = None,
) -> pd.DataFrame:
    """Load the numbers of runs as their pages show them: by the estimator of each run's
    preset, the median, the mean or the minimum.

    runs: rows of `runs`, with JSON columns decoded. descriptions: as in
    `select_numbers`.
    """
    listing = open_listing(root)
    # runs with the same estimator are loaded together
    ids_by_column = defaultdict[str, list[str]](list)
    for run in runs:
        ids_by_column[estimator_column(run)].append(run["run_id"])
    parts = []
    for column, ids in ids_by_column.items():
        summaries = listing.find_runs(ids)
        parts.append(select_numbers(listing, summaries, only, descriptions, column))
    return pd.concat(parts, ignore_index=True)


def list_relations(numbers: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """List the numbers of relations of CPUs, those of a run, benchmark and variant
    together, the fastest first.

    The columns are some of `numbers`, and `flagged_share`, the share of bursts with a
    flag. Numbers of memory by node are left out, as they are of no relation.
    """
    views = load.get_views(numbers["benchmark"], descriptions)
    is_of_cpus = views.isin(_VIEWS_OF_CPUS)
    is_of_node = numbers["cpu_node"].notna()
    relations = numbers[is_of_cpus & ~is_of_node]
    flagged_share = relations["flagged_bursts"] / relations["bursts"]
    relations = relations.assign(flagged_share=flagged_share)[_OF_RELATION]
    choice = number_groups(relations, ["run_id", "benchmark", "variant"])
    order = np.lexsort((relations["median_ns"], choice))  # the last key counts first
    return relations.iloc[order].reset_index(drop=True)


def select_relations(relations: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Select the numbers of the benchmark, variant and point of `pairs`; all rows of
    `pairs` have the same three. The numbers' `relation` loses the point at its end:
    "package n0" becomes "package".

    relations: from `list_relations`, of one run.
    """
    (first_pair,) = to_records(pairs.head(1))
    point = first_pair["point"]
    rows = load.select_choice(relations, name_benchmark(first_pair))
    rows = load.select_point(rows, point)
    without_point = rows["relation"].str.removesuffix(f" {point}")
    return rows.assign(relation=without_point)


def _select_benchmark(
    numbers: pd.DataFrame, benchmark: str | None, descriptions: Descriptions
) -> pd.DataFrame:
    """Select the numbers of the benchmarks that a text names, all for None. If a named
    benchmark puts a load on memory beside what it measures, add the numbers of that
    load, which are of the benchmark `load`.
    """
    rows = load.select_benchmark(numbers, benchmark)
    if benchmark is None:
        return rows
    names = rows["benchmark"].unique()
    # threads that load the memory count bytes
    has_load = any(descriptions[str(name)].other_unit == "byte" for name in names)
    if not has_load:
        return rows
    loads = numbers[numbers["benchmark"] == LOAD.name]
    return numbers.loc[rows.index.union(loads.index)]


def load_pair_numbers(
    root: Root, runs: Sequence[RunSummary], descriptions: Descriptions, *numbers: str
) -> pd.DataFrame:
    """Load the table `pairs` of these runs, as float64. numbers: columns that are
    needed beside those that every comparison takes. Only these are read if all
    benchmarks are of pairs of CPUs or of single CPUs; others need the parameters of
    their points, too, so that all columns are read.
    """
    choices = {choice for run in runs for choice in run.benchmarks}
    views = {descriptions[choice].view for choice in choices}
    columns = None
    if views.issubset(_VIEWS_OF_CPUS):
        columns = list({*_COMPARED, *numbers})
    ids = [run.run_id for run in runs]
    pairs = load_pairs(root, run_id=ids, columns=columns)
    # without benchmarks that their run describes otherwise than `descriptions`
    pairs = load.drop_contradicting(pairs, runs, descriptions)
    return as_float64(pairs)


def load_pairs_and_cpus(
    root: Root, runs: Sequence[RunSummary], descriptions: Descriptions
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Load the pairs of these runs, as float64, and their CPUs."""
    listing = open_listing(root)
    pairs, _ = read_pairs(listing, runs)
    pairs = load.drop_contradicting(as_float64(pairs), runs, descriptions)
    ids = [run.run_id for run in runs]
    return pairs, load.load_cpus(listing, run_id=ids)


def compute_numbers(
    pairs: pd.DataFrame,
    cpus: pd.DataFrame,
    descriptions: Descriptions,
    pair_column: str = "median_ns",
) -> pd.DataFrame:
    """Compute rows of the table `numbers` from rows of `pairs`.

    pairs: from `as_float64`. cpus: of the same runs, needed for benchmarks with points.
    pair_column: as in `select_numbers`.
    """
    pairs = _put_column_as_median(pairs, pair_column)
    cells = name_cells(pairs, cpus, descriptions)
    return reduce_cells(cells, descriptions)


def _put_column_as_median(pairs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return pairs with another column in place of their medians, and without the
    intervals, which are of the medians.
    """
    if column == "median_ns":
        return pairs
    return pairs.assign(median_ns=pairs[column], spread=np.nan, relation_spread=np.nan)


def reduce_cells(cells: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Reduce cells to a row per run and number, with the columns of the table
    `numbers`. A column of `numbers` that is reduced from a column that the cells lack
    has no values.

    cells: from `name_cells`, a row for each pair or point. The cells of a run with the
    same benchmark, variant and relation become one number.
    """
    # _REDUCTIONS adds up the hashes of a number's cells: the sum tells whether two
    # numbers are of the same pairs, points and sizes
    cells = cells.assign(pairs_hash=_hash_identities(cells))
    reductions = {
        name: (source, function)
        for name, (source, function) in _REDUCTIONS.items()
        if source in cells
    }
    keys = ["run_id", *NUMBER_KEY]
    groups = cells.groupby(keys, sort=False, observed=True)
    numbers = groups.agg(**reductions).reset_index()
    numbers["unit"] = _list_units(numbers["benchmark"], descriptions)
    numbers["stats_version"] = STATS_VERSION
    return numbers.reindex(columns=schema.arrow_schema("numbers").names)


def _hash_identities(cells: pd.DataFrame) -> Ints:
    """Hash for each cell the pair, point or sizes that the cell is of."""
    identities = cells.reindex(columns=_IDENTITY)
    hashes = pd.util.hash_pandas_object(identities, index=False)
    return hashes.to_numpy().view(np.int64)


def _list_units(benchmarks: "pd.Series[Any]", descriptions: Descriptions) -> Any:
    """Return the unit of each row's benchmark."""
    units = {name: descriptions[str(name)].unit for name in benchmarks.unique()}
    return benchmarks.map(units)


def _read_numbers(
    listing: Listing, runs: Sequence[RunSummary], columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """Read the numbers of these runs from the index. First derive the numbers that the
    index lacks, and store them there. columns: those to read, None for all.
    """
    marks = _make_version_marks(runs)
    indexed_keys = listing.index.find_newest_part_ids(NUMBERS, marks)
    # a key is a host ID and a run ID
    missing_ids = sorted(run_id for _, run_id in marks.keys() - indexed_keys)
    if len(missing_ids) >= MANY_RUNS:
        derive_in_processes(listing, missing_ids)  # so that none are missing below

    def derive_batches(run_keys: Sequence[Key]) -> _NumberBatches:
        keys_to_derive = set(run_keys)
        missing_runs = [run for run in runs if run.key in keys_to_derive]
        return _derive_batches(listing, missing_runs)

    rows = load_derived(listing.index, NUMBERS, marks, derive_batches, columns)
    return decode_categories(to_pandas(rows))


def _make_version_marks(runs: Sequence[RunSummary]) -> dict[Key, str]:
    """Return by run the mark that its numbers have in the index if they are up to date:
    NUMBERS_VERSION and the mark of the run's pairs. Numbers with another mark are
    derived again.
    """
    marks = make_index_marks(runs)
    return {key: f"{NUMBERS_VERSION}:{mark}" for key, mark in marks.items()}


def _derive_batches(listing: Listing, runs: Sequence[RunSummary]) -> _NumberBatches:
    """Yield batches: the keys of runs, and the numbers of these runs in one pyarrow
    table. Leave damaged runs out.
    """
    for batch in split_into_batches(runs):
        pairs, damaged = read_pairs_in_process(listing, batch)
        keys = [run.key for run in batch if run.key not in damaged]
        yield keys, _derive_numbers(listing, batch, pairs)


def _derive_numbers(
    listing: Listing, runs: Sequence[RunSummary], pairs: pd.DataFrame
) -> Any:
    """Compute the numbers of runs with the same benchmarks, as a pyarrow table."""
    descriptions = runs[0].descriptions
    views = {descriptions[choice].view for choice in runs[0].benchmarks}
    # numbers of points need the caches and nodes of CPUs; for others, load no rows
    needs_cpus = not views.issubset(_VIEWS_OF_CPUS)
    run_ids: list[str] = []
    if needs_cpus:
        run_ids = [run.run_id for run in runs]
    cpus = load.load_cpus(listing, run_id=run_ids)
    numbers = compute_numbers(as_float64(pairs), cpus, descriptions)
    return to_arrow(numbers, "numbers")

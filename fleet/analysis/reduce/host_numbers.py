"""Join the numbers of hosts run by run, and summarize them: what number a host has.

Rows are those of `numbers`, with `started_utc`, `host_name` and `labels` of their run,
oldest first.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import get_ints, number_groups
from fleet.analysis.reduce import load
from fleet.analysis.reduce.cells import list_names, name_cells_of_point
from fleet.analysis.reduce.interval import MIN_RUNS, compute_half_widths_of_runs
from fleet.analysis.reduce.ladders import MEMORY
from fleet.analysis.reduce.numbers import (
    ALL,
    Only,
    load_pairs_and_cpus,
    reduce_cells,
    select_numbers,
)
from fleet.analysis.reduce.run_levels import add_run_levels
from fleet.errors import UsageError
from fleet.model import BENCHMARKS, Descriptions, RunState, View, drop_node, is_relation
from fleet.store import RunSummary
from fleet.store.runs import Root, open_listing
from fleet.text import suggest_similar

OVERVIEW = ["benchmark", "variant", "about", "relation", "place"]
_KEYS = ["host_id", "host_name", *OVERVIEW]
_HISTORY = [
    *("started_utc", "host_id", "host_name", "run_id", "labels"),
    *("benchmark", "variant", "relation", "pairs"),
    *("median_ns", "min_ns", "max_ns", "p99_ns", "spread", "widest"),
    *("bursts", "flagged_share"),
]


class Level(NamedTuple):
    """A level between the runs of a host. ns: the geometric mean of its runs."""

    ns: float
    runs: int


def load_overview(
    root: Root,
    runs: Sequence[RunSummary],
    only: Only = ALL,
    descriptions: Descriptions | None = None,
) -> pd.DataFrame:
    """Load a row per run and column of an overview, sorted. `relation` is the column's
    name. `run_level` is from `add_run_levels`.
    """
    merged = descriptions or load.merge_descriptions(runs)
    numbers = select_numbers(root, runs, only, merged)
    numbers = join_runs(add_run_levels(numbers), runs)
    return sort_overview(select_overview(numbers, merged))


def select_overview(numbers: pd.DataFrame, descriptions: Descriptions) -> pd.DataFrame:
    """Select the numbers that stand for their benchmark in an overview: those with a
    `column`, the heading there. The heading replaces their `relation`.

    The peaks of matrix products have a column for each variant, so that their own
    `variant` becomes empty. Memory by node has a number for each two nodes; all numbers
    of a node's own memory share the column "local", and the others "remote". The
    numbers of a column become one number.
    """
    rows = numbers[numbers["column"].notna()]
    are_peaks = load.get_views(rows["benchmark"], descriptions) == View.PRODUCTS
    variant = rows["variant"].mask(are_peaks, "")
    rows = rows.assign(relation=rows["column"], variant=variant)
    keys = ["run_id", *OVERVIEW]
    # only numbers of nodes share a column
    has_several_per_column = rows.duplicated(keys).any()
    if has_several_per_column:
        return _join_cells(rows, keys)
    return rows


def _join_cells(numbers: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Join the rows of numbers that have equal values in the columns `keys` to one row:
    counts are added up, and a median is the median of the numbers' medians. Columns
    that are not named below are those of the first number.
    """
    groups = numbers.groupby([*keys], sort=False)
    rows = groups.first()
    for name in ("pairs", "bursts", "flagged_bursts"):
        rows[name] = groups[name].sum()
    for name in ("median_ns", "p99_ns", "spread"):
        rows[name] = groups[name].median()
    rows["min_ns"] = groups["min_ns"].min()
    for name in ("max_ns", "widest", "run_level"):
        if name in rows:
            rows[name] = groups[name].max()
    return rows.reset_index()


def sort_overview(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows of an overview: benchmarks in the order of the shipped
    descriptions, benchmarks of the user's own last; then by variant and `about`; then
    columns by `place`, a text that is made to sort them.
    """
    places = {name: place for place, name in enumerate(BENCHMARKS)}
    place_of_own = len(places)
    benchmark_place = rows["benchmark"].map(places).fillna(place_of_own)
    placed_rows = rows.assign(benchmark_place=benchmark_place)
    keys = ["benchmark_place", "benchmark", "variant", "about", "place"]
    sorted_rows = placed_rows.sort_values(keys, kind="stable")
    return sorted_rows.drop(columns="benchmark_place")


def join_runs(numbers: pd.DataFrame, runs: Sequence[RunSummary]) -> pd.DataFrame:
    """Add to each row columns of its run, `started_utc`, `host_id`, `host_name` and
    `labels` (a dict), and `flagged_share`, the share of bursts with a flag. Sort the
    rows by time, run, benchmark, variant and `median_ns`. runs: those of all rows.
    """
    runs_by_id = {run.run_id: run for run in runs}
    run_of_row = [runs_by_id[run_id] for run_id in numbers["run_id"]]
    columns: dict[str, Any] = {
        "started_utc": [run.started_utc for run in run_of_row],
        "host_id": [run.host_id for run in run_of_row],
        "host_name": [run.host_name for run in run_of_row],
        "labels": [dict(run.labels) for run in run_of_row],
        "flagged_share": numbers["flagged_bursts"] / numbers["bursts"],
    }
    order = ["started_utc", "run_id", "benchmark", "variant", "median_ns"]
    rows = numbers.assign(**columns)
    return rows.sort_values(order, kind="stable", ignore_index=True)


def load_history(
    root: Root,
    runs: Sequence[RunSummary],
    level_or_point: str,
    benchmark: str | None = None,
    descriptions: Descriptions | None = None,
    *,
    point: bool = False,
) -> pd.DataFrame:
    """Load a row per run and number, oldest first, with the columns of `history`.

    level_or_point: a relation ("package", "package P-E"), a level ("L2"), or a level
    and setting ("L2 read"); if `point`, the name of a point ("random.512K.huge").
    Raises UsageError if no run has such a number.
    """
    stored = [run for run in runs if run.state is not RunState.UNFINISHED]
    if not stored:
        where = "`fleet runs` lists all; or name another results root."
        raise UsageError(f"{root}: no such run is stored here. {where}")
    merged = descriptions or load.merge_descriptions(stored)
    if point:
        numbers = _load_numbers_of_point(
            root, stored, level_or_point, benchmark, merged
        )
    else:
        numbers = select_numbers(root, stored, Only(benchmark), merged)
        names = _match_relations(numbers, level_or_point, benchmark)
        numbers = numbers[numbers["relation"].isin(names)]
    return join_runs(numbers, stored)[_HISTORY]


def _load_numbers_of_point(
    root: Root,
    runs: Sequence[RunSummary],
    point: str,
    benchmark: str | None,
    descriptions: Descriptions,
) -> pd.DataFrame:
    """Load the numbers of a point, a row per run and number."""
    pairs, _ = load_pairs_and_cpus(root, runs, descriptions)
    pairs = load.select_benchmark(pairs, benchmark)
    cells = name_cells_of_point(pairs, point, descriptions)
    return reduce_cells(cells, descriptions)


def _match_relations(
    numbers: pd.DataFrame, text: str, benchmark: str | None
) -> list[str]:
    """Return the names of `numbers` that are `text` or whose first word is `text`:
    "package" matches "package" and "package P-E". Only relations, with or without a
    node, and levels of memory match. Raises UsageError if no name does.
    """
    names = [
        name
        for name in numbers["relation"].unique()
        if is_relation(drop_node(name)) or is_memory_level(name)
    ]
    matches = [name for name in names if text in (name, _get_first_word(name))]
    if not matches:
        first_words = [_get_first_word(name) for name in names]
        choices = list(dict.fromkeys(first_words + names))
        similar = suggest_similar(text, choices)
        of_benchmark = str(Only(benchmark))  # " of cas", or ""
        raise UsageError(
            f"relation {text}: no such relation{of_benchmark}{similar}"
            f" There are {list_names(choices) or 'none'}."
        )
    return matches


def _get_first_word(text: str) -> str:
    return text.partition(" ")[0]


def history(
    root: Root,
    *,
    relation: load.Chosen = None,
    benchmark: load.Chosen = None,
    **which: Unpack[load.Runs],
) -> pd.DataFrame:
    """Load a row per run, benchmark, variant and relation, oldest first; leave out
    benchmarks with points.

    Columns: `started_utc`, `host_id`, `host_name`, `run_id`, `labels`, and those of
    `list_relations` except `point`.
    """
    listing = open_listing(root)
    runs = load.list_published(listing, **which)
    numbers = select_numbers(listing, runs)
    is_of_relation = numbers["point"].isna() & numbers["level"].isna()
    numbers = numbers[is_of_relation]
    filters = load.make_filters(relation=relation, benchmark=benchmark)
    for column, names in filters.items():
        numbers = numbers[numbers[column].isin(names)]
    return join_runs(numbers, runs)[_HISTORY]


def is_memory_level(text: str) -> bool:
    """Report whether a text begins with the name of a level of memory, such as "L2",
    "LLC" or "mem read".
    """
    name = _get_first_word(text)
    return name in ("LLC", MEMORY) or (name[:1] == "L" and name[1:].isdigit())


def summarize_hosts(
    rows: pd.DataFrame, comparable: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return a row per host and column of the overview. Such a row is called a number
    here; each run of the host has a value of it.

    rows: from `load_overview`, perhaps marked by `mark_usual`: rows from before the
    last change of the host are not usual and left out. comparable: from
    `load_overview`, all runs of these hosts under the same conditions; they predict the
    interval of a host with few rows.

    Columns: `host_id`, `host_name`, `benchmark`, `variant`, `about`, `relation`,
    `place`, `runs`, `median_ns` (the geometric mean of the runs at the main level,
    where most runs are), `half` and `runs_of_half` (from `_estimate_halves`), `since`
    (the night of the last change, or None), `levels` (a tuple of Level, the main level
    first), `bursts` and `flagged_bursts` (sums over all runs).
    """
    rows = _select_usual(rows)
    # `number` counts the combinations of host and column, from 0
    rows = rows.assign(number=number_groups(rows, _KEYS))
    by_number = rows.groupby("number")
    levels = summarize_levels(rows, ["number"])
    # the main level of a number comes first
    main_levels = levels.drop_duplicates("number").set_index("number")

    # a row per number; pandas aligns the columns that are added by the number
    table = rows.drop_duplicates("number").set_index("number")
    table = table[[*_KEYS, "since"]]
    table["runs"] = by_number.size()
    table["median_ns"] = main_levels["ns"]
    halves = _estimate_halves(rows, table[_KEYS], main_levels, comparable)
    table = table.join(halves)
    table["levels"] = list_levels(levels, "number")
    table["bursts"] = by_number["bursts"].sum()
    table["flagged_bursts"] = by_number["flagged_bursts"].sum()
    return table.reset_index(drop=True)


def _estimate_halves(
    rows: pd.DataFrame,
    keys: pd.DataFrame,
    main_levels: pd.DataFrame,
    comparable: pd.DataFrame | None,
) -> pd.DataFrame:
    """Return `half`, half the 95 % interval of each number as a share, and
    `runs_of_half`, the number of runs that the interval is estimated from.

    Intervals are between runs, of which MIN_RUNS are needed. A number with fewer runs
    has the interval that comparable runs predict, or NaN if these are too few, too. If
    no number has an interval between runs, all have one from within a run: the `spread`
    of the number's last run.

    rows: a row per run and number, with the number in `number`, sorted by time. keys:
    the columns _KEYS of each number. main_levels: the row of each number's main level,
    from `summarize_levels`. comparable: as in `summarize_hosts`.
    """
    halves = pd.DataFrame(
        {"half": main_levels["mean_half"], "runs_of_half": main_levels["runs"]}
    )
    if comparable is not None:
        levels = keys.assign(run_level=main_levels["run_level"])
        predicted = _predict_halves(levels, comparable)
        has_few = halves["runs_of_half"] < MIN_RUNS
        has_comparable = predicted["runs_of_half"] >= MIN_RUNS
        is_predicted = has_few & has_comparable
        halves.loc[is_predicted] = predicted
    # `runs_of_half` counts the number's own runs, or those that predict its interval
    has_enough = halves["runs_of_half"] >= MIN_RUNS
    if has_enough.any():
        halves.loc[~has_enough, "half"] = np.nan
    else:
        halves["half"] = _take_spread_of_last_run(rows, main_levels)
    return halves


def _select_usual(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the rows that `mark_usual` marks as usual: those since the last change of
    their host. If `mark_usual` has not marked the rows, return all, with `since` None.
    """
    if "is_usual" not in rows:
        return rows.assign(since=None)
    return rows[rows["is_usual"]]


def _take_spread_of_last_run(
    rows: pd.DataFrame, main_levels: pd.DataFrame
) -> "pd.Series[Any]":
    """Return by number the `spread` of its last run at its main level. rows: with
    `number` and `run_level`, oldest first. main_levels: a row per number, with
    `run_level`.
    """
    main_level_of_row = rows["number"].map(main_levels["run_level"])
    rows_at_main = rows[rows["run_level"] == main_level_of_row]
    last_rows = rows_at_main.drop_duplicates("number", keep="last")
    return last_rows.set_index("number")["spread"]


def summarize_levels(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return a row per number and level. The runs of a number may be at several levels;
    the main level has most runs, or is the lowest of those that have. The main level of
    a number comes before its other levels.

    rows: with `run_level` and `median_ns`, a row per run and number. keys: columns that
    tell numbers apart. Columns: `keys`, `run_level`; `runs`, how many are at the level;
    `ns`, the geometric mean of these runs; `mean_half`, half the 95 % interval of the
    mean, as a share; `run_half`, how far a single run may be off, as a share. Both
    shares are NaN if there are fewer than MIN_RUNS runs.
    """
    level_keys = [*keys, "run_level"]
    # the mean of logarithms is the logarithm of the geometric mean
    log_ns = rows[level_keys].assign(log=np.log(rows["median_ns"]))
    groups = log_ns.groupby(level_keys, sort=False)["log"]
    levels = groups.size().to_frame("runs")
    levels["ns"] = np.exp(groups.mean())
    runs = get_ints(levels, "runs")
    scatter = np.asarray(groups.std(), dtype=np.float64)
    run_half, mean_half = compute_half_widths_of_runs(runs, scatter)
    levels["run_half"] = run_half
    levels["mean_half"] = mean_half
    levels = levels.reset_index()
    main_first = ["runs", "run_level"]
    return levels.sort_values(main_first, ascending=[False, True], kind="stable")


def list_levels(levels: pd.DataFrame, key: str) -> "pd.Series[Any]":
    """Return each number's levels as a tuple, the main one first. levels: from
    `summarize_levels`. key: the column that tells numbers apart.
    """
    levels_by_number = defaultdict[object, list[Level]](list)
    columns = (levels[key], levels["ns"], levels["runs"])
    for number, ns, runs in zip(*columns, strict=True):
        level = Level(float(ns), int(runs))
        levels_by_number[number].append(level)
    tuples = {number: tuple(own) for number, own in levels_by_number.items()}
    return pd.Series(tuples, dtype=object)


def _predict_halves(levels: pd.DataFrame, comparable: pd.DataFrame) -> pd.DataFrame:
    """Predict from comparable runs at the same level how far a single run of each
    number may be off. Return `half`, this distance as a share, and `runs_of_half`, how
    many such runs there are. Both are NaN for a number without such runs.

    levels: a row per number, with _KEYS and the `run_level` of its main level.
    comparable: as in `summarize_hosts`.
    """
    comparable_levels = summarize_levels(comparable, _KEYS)
    by_level = comparable_levels.set_index([*_KEYS, "run_level"])
    # `levels` has these columns in this order; a row of it without comparable runs gets
    # a row of NaN
    summary_of_number = by_level.reindex(pd.MultiIndex.from_frame(levels))
    # the rows are in the order of `levels`: its index tells the caller their numbers
    summary_of_number.index = levels.index
    halves = summary_of_number[["run_half", "runs"]]
    return halves.set_axis(["half", "runs_of_half"], axis="columns")

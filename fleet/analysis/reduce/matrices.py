"""Reduce raw samples to pairs, and pairs to relations and matrices. The burst is the
unit of replication.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import (
    Bools,
    Floats,
    Ints,
    decode_categories,
    find_starts,
    group_medians,
    number_groups,
)
from fleet.analysis.base.text import to_records
from fleet.analysis.reduce.burst_levels import (
    find_asymmetry,
    find_main_bursts,
    summarize_bursts,
)
from fleet.analysis.reduce.bursts import (
    SAMPLE_COLUMNS,
    WORK_COLUMNS,
    Bursts,
    group_rows_by_length,
    read_bursts,
)
from fleet.analysis.reduce.relation_spreads import BurstMedians, add_relation_spreads
from fleet.late import pa
from fleet.model import SHIPPED, Benchmark, Descriptions, Shape
from fleet.store.schema import PARAMETERS, arrow_schema

OUTLIER = 2.0  # a sample above this multiple of its burst's median
CHOICE = ["run_id", "benchmark", "variant"]
PAIR = [*CHOICE, "point", "ping_cpu", "pong_cpu"]
ESTIMATOR_COLUMNS = {"median": "median_ns", "mean": "mean_ns", "min": "min_ns"}
_NAMING = [*PAIR, "unit", "relation"]
_SAMPLE_NUMBERS = ("min_ns", "p10_ns", "mean_ns", "mad_ns", "p99_ns", "max_ns")


def pair_medians(
    samples: pd.DataFrame,
    descriptions: Descriptions = SHIPPED,
    *,
    ordered: bool = False,
) -> pd.DataFrame:
    """Reduce raw samples to one row per run, benchmark, variant, point and pair.

    The columns are those of `pairs` in docs/tables.md. samples: from `load_samples`;
    bursts of nothing but warm-ups are left out. Unless `ordered`, a pair's two
    directions make one row with the lower CPU as ping. `load_pairs` does the same for
    runs too big for a frame, and stores the result.
    """
    shape = arrow_schema("samples", SAMPLE_COLUMNS)
    columns = samples.reindex(columns=list(SAMPLE_COLUMNS))
    rows = pa.Table.from_pandas(columns, shape, preserve_index=False)
    bursts = read_bursts(rows, descriptions)
    pairs, medians = reduce_bursts(bursts, descriptions, ordered=ordered)
    return add_relation_spreads(pairs, medians)


def reduce_bursts(
    bursts: Bursts, descriptions: Descriptions, *, ordered: bool = False
) -> tuple[pd.DataFrame, BurstMedians]:
    """Reduce bursts to the rows of `pair_medians`, without `relation_spread`; return
    the medians of the bursts, too.
    """
    bursts = _sort_by_pair(bursts, ordered=ordered)
    about = bursts.about
    pair = number_groups(about, PAIR)  # each burst's, ascending
    burst_counts = np.bincount(pair)
    identities = _select_first_bursts(about, burst_counts)
    medians, outlier_counts = compute_medians_and_outliers(bursts)
    is_main = _find_main_bursts(medians, burst_counts, about, identities, descriptions)

    columns: dict[str, Any] = {"bursts": burst_counts}
    columns |= _summarize_medians(medians, pair, about, is_main)
    columns |= _join_flags(about["flags"], pair, len(burst_counts))
    sample_counts = np.bincount(pair, bursts.counts).astype(np.int64)
    columns["samples"] = sample_counts
    columns |= _summarize_samples(bursts.latencies, sample_counts)
    multiples = medians / columns["median_ns"][pair]
    columns |= _compute_pair_work_and_ghz(about, pair, multiples)
    columns["outliers"] = np.bincount(pair, outlier_counts) / sample_counts

    pairs, row_of_pair = _sort_pairs(identities.assign(**columns))
    rounds = about["round"].to_numpy(dtype=np.int64)
    return pairs, BurstMedians(medians, row_of_pair[pair], rounds, is_main)


def _sort_by_pair(bursts: Bursts, *, ordered: bool) -> Bursts:
    """Sort bursts by pair, then by time; add `turned`. ordered: whether a pair's two
    directions are two pairs.
    """
    about = _put_lower_cpu_first(bursts.about, ordered=ordered)
    started = about["start_offset_ns"].to_numpy()
    pair = number_groups(about, PAIR)
    order = np.lexsort((started, pair))  # the last key counts first
    return replace(bursts, about=about).reorder(order)


def _select_first_bursts(bursts: pd.DataFrame, burst_counts: Ints) -> pd.DataFrame:
    """Return what each pair is, from its first burst. bursts: sorted by pair.
    burst_counts: of each pair.
    """
    first_of_pair = bursts.iloc[find_starts(burst_counts)].reset_index(drop=True)
    return decode_categories(first_of_pair[[*_NAMING, *PARAMETERS]])


def _summarize_medians(
    medians: Floats, pair_numbers: Ints, bursts: pd.DataFrame, is_main: Bools
) -> dict[str, Floats]:
    """Compute the columns of pairs that come from the medians of their bursts. bursts:
    sorted by pair.
    """
    counts = np.bincount(pair_numbers)
    times = bursts["start_offset_ns"].to_numpy(dtype=np.float64)
    columns = summarize_bursts(medians, counts, times, is_main)
    turned = bursts["turned"].to_numpy()
    columns["asymmetry"] = find_asymmetry(medians, turned, pair_numbers, len(counts))
    return columns


def _sort_pairs(pairs: pd.DataFrame) -> tuple[pd.DataFrame, Ints]:
    """Sort rows of pairs; also return the new row of each."""
    in_order = pairs.sort_values(PAIR, kind="stable")
    old_rows = in_order.index.to_numpy()
    return in_order.reset_index(drop=True), np.argsort(old_rows)


def _find_main_bursts(
    medians: Floats,
    counts: Ints,
    bursts: pd.DataFrame,
    pairs: pd.DataFrame,
    descriptions: Descriptions,
) -> Bools:
    """Report which bursts are at the main level of their run. Bursts of benchmarks that
    were part of the same visit have the same number of a visit.
    """
    rounds = bursts["round"].to_numpy(dtype=np.int64)
    visits = 2 * rounds + bursts["turned"].to_numpy()
    visit_groups = _number_visit_groups(pairs, descriptions)
    return find_main_bursts(medians, counts, visits, visit_groups)


def _put_lower_cpu_first(bursts: pd.DataFrame, *, ordered: bool) -> pd.DataFrame:
    """Make the lower CPU of each burst its ping, unless `ordered`; add `turned`:
    whether it was swapped.
    """
    ping = bursts["ping_cpu"].to_numpy(dtype=np.int64)
    pong = bursts["pong_cpu"].to_numpy(dtype=np.int64)
    turned = (ping > pong) & (not ordered)
    first = np.where(turned, pong, ping)
    second = np.where(turned, ping, pong)
    return bursts.assign(ping_cpu=first, pong_cpu=second, turned=turned)


def _compute_pair_work_and_ghz(
    bursts: pd.DataFrame, pair_numbers: Ints, times: Floats
) -> dict[str, Floats]:
    """Compute medians of WORK_COLUMNS over the bursts of each pair, and `core_ghz`.

    times: each burst's median divided by its pair's.
    """
    columns = {}
    for name in WORK_COLUMNS:
        values = bursts[name].to_numpy(np.float64)
        columns[name] = group_medians(values, pair_numbers)
    ghz = bursts["core_ghz"].to_numpy(np.float64)
    columns["core_ghz"] = _compute_pair_ghz(ghz, pair_numbers, times)
    return columns


def _compute_pair_ghz(ghz: Floats, pair_numbers: Ints, times: Floats) -> Floats:
    """Compute the frequency of each pair that, times the pair's median, gives the
    cycles that it takes.

    A burst's cycles are its time x its frequency, and a pair's are the median of them.
    Both are divided by the pair's time here, which leaves a frequency.

    ghz: of each burst, sorted by pair. times: each burst's median divided by its
    pair's. Only the half of the bursts nearest to the pair's median counts (others may
    be at another level), and the result is kept within the bursts' frequencies.
    """
    near = _find_nearer_half(np.abs(times - 1), pair_numbers)
    cycles_by_pairs_time = ghz[near] * times[near]
    core_ghz = group_medians(cycles_by_pairs_time, pair_numbers[near])
    starts = find_starts(np.bincount(pair_numbers))
    lowest = np.fmin.reduceat(ghz, starts)
    highest = np.fmax.reduceat(ghz, starts)
    return np.clip(core_ghz, lowest, highest)


def _find_nearer_half(distances: Floats, groups: Ints) -> Ints:
    """Return the places of the half of each group with the least distances, and one
    more. groups: ascending, from 0.
    """
    nearest_first = np.lexsort((distances, groups))  # group by group
    sizes = np.bincount(groups)
    starts = find_starts(sizes)
    rank_in_group = np.arange(len(groups)) - starts[groups]
    half_of_group = sizes[groups] / 2
    return nearest_first[rank_in_group < half_of_group + 1]


def compute_medians_and_outliers(bursts: Bursts) -> tuple[Floats, Ints]:
    """Compute the median of each burst, and count its samples above OUTLIER
    times that.
    """
    medians = np.empty(len(bursts.counts))
    outlier_counts = np.empty(len(bursts.counts), dtype=np.int64)
    for which, rows in group_rows_by_length(bursts.latencies, bursts.counts):
        ascending = np.sort(rows, axis=1)  # numpy sorts faster than it finds medians
        medians[which] = _compute_quantiles(ascending, 0.5)
        limits = OUTLIER * medians[which]
        is_outlier = rows > limits.reshape(-1, 1)
        outlier_counts[which] = is_outlier.sum(axis=1)
    return medians, outlier_counts


def is_visited_with_others(benchmark: Benchmark) -> bool:
    """Report whether a benchmark shares its visits to a pair with other benchmarks."""
    return benchmark.shape is Shape.PAIR and not benchmark.many_points


def _number_visit_groups(pairs: pd.DataFrame, descriptions: Descriptions) -> Ints:
    """Number the rows; benchmarks of a pair that share their visits get the same
    number.
    """
    shared = [
        name
        for name in pairs["benchmark"].unique()
        if is_visited_with_others(descriptions[str(name)])
    ]
    is_shared = pairs["benchmark"].isin(shared)
    # rows that share visits differ by run and CPUs only, each other row by its place
    place_if_alone = np.where(is_shared, -1, np.arange(len(pairs)))
    visited = pairs.assign(place_if_alone=place_if_alone)
    keys = ["run_id", "ping_cpu", "pong_cpu", "place_if_alone"]
    return number_groups(visited, keys)


def _summarize_samples(latencies: Floats, counts: Ints) -> dict[str, Floats]:
    """Compute the columns _SAMPLE_NUMBERS of pairs. latencies: all pairs' samples, end
    to end; counts: how many each pair has.
    """
    columns = {name: np.full(len(counts), np.nan) for name in _SAMPLE_NUMBERS}
    for pairs, rows in group_rows_by_length(latencies, counts):
        ascending = np.sort(rows, axis=1)
        columns["min_ns"][pairs] = ascending[:, 0]
        columns["p10_ns"][pairs] = _compute_quantiles(ascending, 0.10)
        columns["mean_ns"][pairs] = ascending.mean(axis=1)
        columns["p99_ns"][pairs] = _compute_quantiles(ascending, 0.99)
        columns["max_ns"][pairs] = ascending[:, -1]
        columns["mad_ns"][pairs] = _compute_median_distances(ascending)
    return columns


def _compute_median_distances(ascending: Floats) -> Floats:
    """Compute the median distance of each row from its median. ascending: sorted rows;
    they are overwritten, since they may be many.
    """
    medians = _compute_quantiles(ascending, 0.5)
    distances = ascending
    distances -= medians.reshape(-1, 1)
    np.abs(distances, out=distances)
    distances.sort(axis=1)
    return _compute_quantiles(distances, 0.5)


def _compute_quantiles(ascending: Floats, share: float) -> Floats:
    """Compute a quantile of rows in ascending order, interpolated between the two
    nearest values.
    """
    last = ascending.shape[1] - 1
    place = share * last
    low = int(place)
    high = min(low + 1, last)
    below = ascending[:, low]
    above = ascending[:, high]
    beyond_low = place - low  # as a share of the way to the next value
    quantiles: Floats = below + beyond_low * (above - below)
    return quantiles


def _join_flags(
    flags: "pd.Series[Any]", pair_numbers: Ints, pair_count: int
) -> dict[str, Ints | list[str]]:
    """Count each pair's bursts with a flag, and join the flags of all its bursts
    without repeats.
    """
    is_flagged = (flags != "").to_numpy(dtype=bool)
    pair_of_flagged = pair_numbers[is_flagged]
    flagged_bursts = np.bincount(pair_of_flagged, minlength=pair_count)

    texts = flags[is_flagged].tolist()
    distinct = set(zip(pair_of_flagged.tolist(), texts, strict=True))
    flags_by_pair: list[set[str]] = [set() for _ in range(pair_count)]
    for pair, text in distinct:
        flags_by_pair[pair].update(text.split(","))
    flag_lists = [",".join(sorted(pair_flags)) for pair_flags in flags_by_pair]
    return {"flagged_bursts": flagged_bursts, "flags": flag_lists}


def estimator_column(run: Mapping[str, Any]) -> str:
    """Return the column of `pairs` to use for a run: that of its preset's estimator,
    else the median.
    """
    if not run["preset"]:
        return "median_ns"
    return ESTIMATOR_COLUMNS[run["estimator"]]


def choose_number_column(*runs: pd.DataFrame) -> str:
    """Return the column to compare: that of the estimator that all of these runs share,
    else the median.
    """
    settings = pd.concat([rows[["preset", "estimator"]] for rows in runs])
    return choose_shared_column(to_records(settings))


def choose_shared_column(runs: Iterable[Mapping[str, Any]]) -> str:
    """Return the column of the estimator that all of these rows of `runs` share, else
    the median.
    """
    columns = {estimator_column(run) for run in runs}
    if len(columns) != 1:
        return "median_ns"
    return columns.pop()


def matrix(
    pairs: pd.DataFrame, cpus: Iterable[int], value: str = "median_ns"
) -> pd.DataFrame:
    """Lay out the pairs of one benchmark: a row per ping, a column per pong, both in
    the order of `cpus`.

    An unordered pair stands on both sides of the diagonal. NaN: not measured.
    `attrs["noise"]`: half the 95 % interval of the median pair, relative, below which a
    colour scale shows no difference; 0 if unknown.
    """
    order = list(cpus)
    ping = pd.Index(order, name="ping_cpu")
    pong = pd.Index(order, name="pong_cpu")
    table = pd.DataFrame(lay_out_matrix(pairs, order, value), ping, pong)
    table.attrs["noise"] = 0.0
    if value == "median_ns" and "spread" in pairs:
        noise = pairs["spread"].median()
        if not np.isnan(noise):
            table.attrs["noise"] = float(noise)
    return table


def lay_out_matrix(pairs: pd.DataFrame, cpus: Sequence[int], value: str) -> Floats:
    """Lay pairs out in an array as `matrix` does in a data frame."""
    only_run = np.zeros(len(pairs), dtype=np.int64)
    (numbers,) = lay_out_matrices(pairs, cpus, value, only_run, 1)
    return np.asarray(numbers)


def lay_out_matrices(
    pairs: pd.DataFrame, cpus: Sequence[int], value: str, runs: Ints, count: int
) -> Floats:
    """Lay out the pairs of `count` runs as `lay_out_matrix` does. runs: each row's run,
    from 0.
    """
    cell_of_row = _find_cells(pairs, cpus, runs)
    is_inside = cell_of_row >= 0
    cells = cell_of_row[is_inside]
    values = pairs[value].to_numpy(dtype=float)[is_inside]
    distinct_cells, number_of_cell = np.unique(cells, return_inverse=True)
    if len(distinct_cells) < len(cells):  # several rows of a pair: their median
        cells = distinct_cells
        values = group_medians(values, number_of_cell)

    numbers: Floats = np.full((count, len(cpus), len(cpus)), np.nan)
    numbers.flat[cells] = values
    other_side = numbers.transpose(0, 2, 1)
    return np.where(np.isnan(numbers), other_side, numbers)


def _find_cells(pairs: pd.DataFrame, cpus: Sequence[int], runs: Ints) -> Ints:
    """Return the place of each pair in matrices that stand end to end, a matrix per
    run; -1 if one of its CPUs is not among `cpus`.
    """
    place_of_cpu = pd.Index(cpus)
    ping = place_of_cpu.get_indexer(pd.Index(pairs["ping_cpu"]))
    pong = place_of_cpu.get_indexer(pd.Index(pairs["pong_cpu"]))
    size = len(cpus)
    matrix_row = runs * size + ping
    cells = matrix_row * size + pong
    is_outside = (ping < 0) | (pong < 0)
    return np.where(is_outside, -1, cells)

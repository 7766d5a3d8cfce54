"""Reduce raw samples to pairs, and pairs to relations and matrices. The burst is the
unit of replication.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import (
    RUN_AND_CHOICE,
    Bools,
    Floats,
    Ints,
    decode_categories,
    find_starts,
    get_floats,
    get_ints,
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
    read_bursts,
)
from fleet.analysis.reduce.flat_rows import group_rows_by_length
from fleet.analysis.reduce.relation_spreads import BurstMedians, add_relation_spreads
from fleet.late import pa
from fleet.model import SHIPPED, Benchmark, Descriptions, Shape
from fleet.store.schema import PARAMETERS, arrow_schema

OUTLIER = 2.0  # a sample above this multiple of its burst's median
PAIR = [*RUN_AND_CHOICE, "point", "ping_cpu", "pong_cpu"]
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

    A pair is here a combination of run, benchmark, variant, point, ping and pong. The
    bursts are sorted so that those of a pair stand together, in order of time. Pairs
    are numbered from 0 in the order in which they occur. Arrays have a value for each
    burst, or for each pair at the place of its number. Only in the end, rows of pairs
    are sorted by PAIR, and each burst gets the row of its pair. ordered: whether a
    pair's two directions are two pairs.
    """
    bursts = _sort_by_pair(bursts, ordered=ordered)
    about = bursts.about
    pair_of_burst = number_groups(about, PAIR)
    pair_rows = _select_names_of_pairs(about, pair_of_burst)
    medians, outlier_counts = compute_medians_and_outliers(bursts)
    is_main = _find_main_bursts(medians, pair_of_burst, about, pair_rows, descriptions)

    columns = _summarize_medians(medians, pair_of_burst, about, is_main)
    columns |= _join_flags(about["flags"], pair_of_burst)
    columns |= _summarize_samples(bursts, pair_of_burst)
    median_of_pair = columns["median_ns"]
    multiples = medians / median_of_pair[pair_of_burst]
    columns |= _compute_pair_work_and_ghz(about, pair_of_burst, multiples)
    outliers = np.bincount(pair_of_burst, weights=outlier_counts)  # a sum by pair
    columns["outliers"] = outliers / columns["samples"]

    pairs, row_of_pair = _sort_pairs(pair_rows.assign(**columns))
    row_of_burst = row_of_pair[pair_of_burst]
    rounds = get_ints(about, "round")
    return pairs, BurstMedians(medians, row_of_burst, rounds, is_main)


def _sort_by_pair(bursts: Bursts, *, ordered: bool) -> Bursts:
    """Sort bursts by pair, then by time; add the column `turned` from
    `_put_lower_cpu_first`. ordered: whether a pair's two directions are two pairs.
    """
    about = _put_lower_cpu_first(bursts.about, ordered=ordered)
    started = about["start_offset_ns"]
    pair_of_burst = number_groups(about, PAIR)
    order = np.lexsort((started, pair_of_burst))  # the last key counts first
    return replace(bursts, about=about).reorder(order)


def _select_names_of_pairs(bursts: pd.DataFrame, pair_of_burst: Ints) -> pd.DataFrame:
    """Return the columns that name each pair, from its first burst. bursts: sorted by
    pair. pair_of_burst: the number of each burst's pair, from 0.
    """
    burst_counts = np.bincount(pair_of_burst)
    first_of_pair = bursts.iloc[find_starts(burst_counts)]
    naming = first_of_pair[[*_NAMING, *PARAMETERS]]
    return decode_categories(naming.reset_index(drop=True))


def _summarize_medians(
    medians: Floats, pair_of_burst: Ints, bursts: pd.DataFrame, is_main: Bools
) -> dict[str, Any]:
    """Compute `bursts`, how many each pair has, and the columns of pairs that come from
    the medians of their bursts.

    All arguments have a value or row for each burst, sorted by pair: its median in ns,
    the number of its pair, its columns, and whether it is at the main level.
    """
    counts = np.bincount(pair_of_burst)
    times = get_floats(bursts, "start_offset_ns")
    turned = bursts["turned"].to_numpy()
    columns: dict[str, Any] = {"bursts": counts}
    columns |= summarize_bursts(medians, counts, times, is_main)
    columns["asymmetry"] = find_asymmetry(medians, turned, pair_of_burst, len(counts))
    return columns


def _sort_pairs(pairs: pd.DataFrame) -> tuple[pd.DataFrame, Ints]:
    """Sort rows of pairs; also return the new place of each row."""
    in_order = pairs.sort_values(PAIR, kind="stable")
    old_places = in_order.index.to_numpy()
    new_places = np.argsort(old_places)  # the inverse of a permutation
    return in_order.reset_index(drop=True), new_places


def _find_main_bursts(
    medians: Floats,
    pair_of_burst: Ints,
    bursts: pd.DataFrame,
    pairs: pd.DataFrame,
    descriptions: Descriptions,
) -> Bools:
    """Report which bursts are at the main level of their pair, where most bursts are.

    medians, pair_of_burst, bursts: of each burst its median, the number of its pair,
    and its columns. pairs: the columns that name each pair. A visit measures a pair by
    several benchmarks; its bursts get the same visit number. A round has two visits,
    one in each direction: 2 n and 2 n + 1 in round n.
    """
    rounds = get_ints(bursts, "round")
    turned = bursts["turned"].to_numpy()
    visits = 2 * rounds + turned
    visit_groups = _number_visit_groups(pairs, descriptions)
    burst_counts = np.bincount(pair_of_burst)
    return find_main_bursts(medians, burst_counts, visits, visit_groups)


def _put_lower_cpu_first(bursts: pd.DataFrame, *, ordered: bool) -> pd.DataFrame:
    """Make the lower CPU of each burst its ping, so that the two directions of a pair
    become one pair; not if `ordered`. Add `turned`: whether ping and pong were swapped.
    """
    ping = get_ints(bursts, "ping_cpu")
    pong = get_ints(bursts, "pong_cpu")
    if ordered:
        return bursts.assign(ping_cpu=ping, pong_cpu=pong, turned=False)
    lower = np.minimum(ping, pong)
    higher = np.maximum(ping, pong)
    return bursts.assign(ping_cpu=lower, pong_cpu=higher, turned=ping > pong)


def _compute_pair_work_and_ghz(
    bursts: pd.DataFrame, pair_of_burst: Ints, multiples: Floats
) -> dict[str, Floats]:
    """Compute for each pair the medians of WORK_COLUMNS over its bursts, and its
    `core_ghz`. bursts: sorted by pair. multiples: each burst's median as a multiple of
    its pair's median.
    """
    columns = {}
    for name in WORK_COLUMNS:
        values = get_floats(bursts, name)
        columns[name] = group_medians(values, pair_of_burst)
    ghz = get_floats(bursts, "core_ghz")
    columns["core_ghz"] = _compute_pair_ghz(ghz, pair_of_burst, multiples)
    return columns


def _compute_pair_ghz(ghz: Floats, pair_of_burst: Ints, multiples: Floats) -> Floats:
    """Compute the frequency of each pair in GHz: the pair's median in ns times this
    frequency is the number of cycles that the pair takes.

    A burst takes ghz x ns cycles. A pair takes the median of its bursts' cycles, and
    its frequency is this median divided by the pair's ns. With multiple = the burst's
    ns / the pair's ns, this is the median of ghz x multiple. Only the half of the
    bursts nearest to the pair's median counts, since others may be at another level.
    The result is kept within the frequencies of all bursts of the pair.

    ghz: of each burst, sorted by pair; NaN if unknown. pair_of_burst: the number of
    each burst's pair, from 0. multiples: each burst's median divided by the pair's.
    """
    distance_from_pair = np.abs(multiples - 1)
    near = _find_nearer_half(distance_from_pair, pair_of_burst)
    # a burst's cycles divided by the pair's ns
    ghz_by_burst = ghz[near] * multiples[near]
    ghz_of_pair = group_medians(ghz_by_burst, pair_of_burst[near])
    burst_counts = np.bincount(pair_of_burst)
    starts = find_starts(burst_counts)
    # fmin and fmax ignore NaN
    lowest = np.fmin.reduceat(ghz, starts)
    highest = np.fmax.reduceat(ghz, starts)
    return np.clip(ghz_of_pair, lowest, highest)


def _find_nearer_half(distances: Floats, groups: Ints) -> Ints:
    """Return the places in `distances` of the least distances of each group: half of
    the group, rounded up, and one more. These are 3 of 4 values, and 4 of 5.

    groups: the group of each distance, ascending from 0.
    """
    # sorted by group, then by distance. `groups` ascends, so each group stays where it
    # is, and groups[i] is also the group of nearest_first[i].
    nearest_first = np.lexsort((distances, groups))
    sizes = np.bincount(groups)
    start_of_group = find_starts(sizes)
    rank_in_group = np.arange(len(groups)) - start_of_group[groups]
    kept_counts = (sizes + 1) // 2 + 1
    is_near = rank_in_group < kept_counts[groups]
    return nearest_first[is_near]


def compute_medians_and_outliers(bursts: Bursts) -> tuple[Floats, Ints]:
    """Compute the median of each burst, and count the samples of the burst that are
    above OUTLIER times the median.
    """
    medians = np.empty(len(bursts.counts))
    outlier_counts = np.empty(len(bursts.counts), dtype=np.int64)
    for which, rows in group_rows_by_length(bursts.latencies, bursts.counts):
        ascending = np.sort(rows, axis=1)  # numpy sorts faster than it finds medians
        medians_of_rows = _compute_quantiles(ascending, 0.5)
        limits = OUTLIER * medians_of_rows
        is_outlier = rows > limits.reshape(-1, 1)
        medians[which] = medians_of_rows
        outlier_counts[which] = is_outlier.sum(axis=1)
    return medians, outlier_counts


def is_visited_with_others(benchmark: Benchmark) -> bool:
    """Report whether a benchmark shares its visits to a pair with other benchmarks."""
    return benchmark.shape is Shape.PAIR and not benchmark.many_points


def _number_visit_groups(pairs: pd.DataFrame, descriptions: Descriptions) -> Ints:
    """Return for each row of pairs the number of its visit group.

    Some benchmarks are measured together at one visit to a pair: their rows of one run
    and pair of CPUs get the same number. Each other row is a group of its own.
    """
    names = pairs["benchmark"].unique()
    shared = [name for name in names if is_visited_with_others(descriptions[str(name)])]
    is_shared = pairs["benchmark"].isin(shared)
    # each row has a number that only it has, so that no two rows become one group; but
    # rows that share visits have -1
    place_if_alone = np.arange(len(pairs))
    place_if_alone[is_shared] = -1
    keyed = pairs.assign(place_if_alone=place_if_alone)
    return number_groups(keyed, ["run_id", "ping_cpu", "pong_cpu", "place_if_alone"])


def _summarize_samples(bursts: Bursts, pair_of_burst: Ints) -> dict[str, Any]:
    """Compute `samples`, how many each pair has, and the columns _SAMPLE_NUMBERS of
    pairs. bursts: sorted by pair. pair_of_burst: the number of each burst's pair.
    """
    sums = np.bincount(pair_of_burst, bursts.counts)
    counts = sums.astype(np.int64)
    columns = {name: np.full(len(counts), np.nan) for name in _SAMPLE_NUMBERS}
    for pairs, rows in group_rows_by_length(bursts.latencies, counts):
        ascending = np.sort(rows, axis=1)
        for name, numbers in _compute_sample_numbers(ascending).items():
            columns[name][pairs] = numbers
    return {"samples": counts, **columns}


def _compute_sample_numbers(ascending: Floats) -> dict[str, Floats]:
    """Compute the numbers _SAMPLE_NUMBERS of each row. ascending: sorted rows, which
    are overwritten.
    """
    numbers = {
        "min_ns": ascending[:, 0].copy(),
        "p10_ns": _compute_quantiles(ascending, 0.10),
        "mean_ns": ascending.mean(axis=1),
        "p99_ns": _compute_quantiles(ascending, 0.99),
        "max_ns": ascending[:, -1].copy(),
    }
    # last, since it overwrites the rows
    numbers["mad_ns"] = _compute_median_distances(ascending)
    return numbers


def _compute_median_distances(ascending: Floats) -> Floats:
    """Compute for each row the median distance of its values from their median.
    ascending: sorted rows, which are overwritten: a copy might take much memory.
    """
    medians = _compute_quantiles(ascending, 0.5)
    distances = ascending
    distances -= medians.reshape(-1, 1)
    np.abs(distances, out=distances)
    distances.sort(axis=1)
    return _compute_quantiles(distances, 0.5)


def _compute_quantiles(ascending: Floats, share: float) -> Floats:
    """Compute a quantile of each row, interpolated between the two nearest values.
    ascending: sorted rows. share: 0.5 for the median, 0.99 for the 99th percentile.
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
    flags: "pd.Series[Any]", pair_of_burst: Ints
) -> dict[str, Ints | list[str]]:
    """Compute the columns `flagged_bursts`, how many bursts of each pair have a flag,
    and `flags`, every flag of these bursts once: "busy_cpu,preempted".

    flags: those of each burst, with commas between them; "" if it has none.
    pair_of_burst: the number of each burst's pair, from 0.
    """
    pair_count = len(np.bincount(pair_of_burst))
    is_flagged = (flags != "").to_numpy(dtype=bool)
    pairs = pair_of_burst[is_flagged]
    texts = flags[is_flagged]
    flagged_bursts = np.bincount(pairs, minlength=pair_count)

    # many bursts of a pair have the same text: each text is split once
    distinct = set(zip(pairs.tolist(), texts.tolist(), strict=True))
    flags_by_pair = defaultdict[int, set[str]](set)
    for pair, text in distinct:
        flags_by_pair[pair].update(text.split(","))
    joined_flags = [""] * pair_count
    for pair, flags_of_pair in flags_by_pair.items():
        joined_flags[pair] = ",".join(sorted(flags_of_pair))
    return {"flagged_bursts": flagged_bursts, "flags": joined_flags}


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

    An unordered pair stands on both sides of the diagonal. A cell that was not measured
    is NaN. The frame's `attrs["noise"]` is half the 95 % interval of a pair, as a share
    of the pair's number: the median over all pairs, 0 if unknown. A colour scale shows
    no smaller difference.
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
    run_of_row = np.zeros(len(pairs), dtype=np.int64)
    (numbers,) = lay_out_matrices(pairs, cpus, value, run_of_row, 1)
    return np.asarray(numbers)


def lay_out_matrices(
    pairs: pd.DataFrame,
    cpus: Sequence[int],
    value: str,
    run_of_row: Ints,
    run_count: int,
) -> Floats:
    """Lay out the pairs of several runs as `lay_out_matrix` does, in an array of runs x
    pings x pongs. run_of_row: the number of each row's run, from 0.

    cpus: those of both rows and columns, in order; pairs with other CPUs are left out.
    value: the column with the numbers. Several rows of a pair count as their median. A
    cell without a number gets the number of the cell on the other side of the diagonal,
    where the same CPUs are pong and ping.
    """
    cell_of_row = _find_cells(pairs, cpus, run_of_row)
    is_inside = cell_of_row >= 0
    value_of_row = get_floats(pairs, value)
    cells, values = _merge_rows_of_a_cell(
        cell_of_row[is_inside], value_of_row[is_inside]
    )
    numbers: Floats = np.full((run_count, len(cpus), len(cpus)), np.nan)
    numbers.flat[cells] = values
    other_side = numbers.transpose(0, 2, 1)
    return np.where(np.isnan(numbers), other_side, numbers)


def _merge_rows_of_a_cell(cells: Ints, values: Floats) -> tuple[Ints, Floats]:
    """Return each cell once, and the median of its values. cells, values: the cell and
    the value of each row.
    """
    distinct_cells, number_of_cell = np.unique(cells, return_inverse=True)
    if len(distinct_cells) == len(cells):
        return cells, values
    return distinct_cells, group_medians(values, number_of_cell)


def _find_cells(pairs: pd.DataFrame, cpus: Sequence[int], run_of_row: Ints) -> Ints:
    """Return the cell of each pair in an array of runs x pings x pongs, as a place
    among all cells end to end; -1 if a CPU of the pair is not among `cpus`. run_of_row:
    the number of each row's run, from 0.

    With 4 CPUs, the pair of run 1 of the CPUs at places 2 and 3 has the cell
    (1 * 4 + 2) * 4 + 3 = 27.
    """
    place_of_cpu = pd.Index(cpus)
    ping = place_of_cpu.get_indexer(pd.Index(pairs["ping_cpu"]))
    pong = place_of_cpu.get_indexer(pd.Index(pairs["pong_cpu"]))
    size = len(cpus)
    matrix_row = run_of_row * size + ping
    cells = matrix_row * size + pong
    is_outside = (ping < 0) | (pong < 0)
    return np.where(is_outside, -1, cells)

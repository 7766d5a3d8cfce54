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
    swapped = _put_lower_cpu_first(bursts.about, ordered=ordered)
    order = _order_by_pair(swapped)
    bursts = replace(bursts, about=swapped).reorder(order)
    about = bursts.about
    pair = number_groups(about, PAIR)
    counts = np.bincount(pair)
    first_burst = np.cumsum(counts) - counts
    first = about.iloc[first_burst].reset_index(drop=True)
    pairs = decode_categories(first[[*_NAMING, *PARAMETERS]])

    medians, outlier_counts = compute_medians_and_outliers(bursts)
    main = _find_main_bursts(medians, counts, about, pairs, descriptions)
    times = about["start_offset_ns"].to_numpy(dtype=np.float64)
    numbers = summarize_bursts(medians, counts, times, main)
    turned = about["turned"].to_numpy()
    asymmetry = find_asymmetry(medians, turned, pair, len(counts))
    multiples = medians / numbers["median_ns"][pair]
    samples = np.bincount(pair, bursts.counts).astype(np.int64)
    outliers = np.bincount(pair, outlier_counts)

    columns = {
        "bursts": counts,
        **numbers,
        "asymmetry": asymmetry,
        **_join_flags(about["flags"], pair, len(counts)),
        "samples": samples,
        **_summarize_samples(bursts.latencies, samples),
        **_compute_pair_work_and_ghz(about, pair, multiples),
        "outliers": outliers / samples,
    }
    table = pairs.assign(**columns).sort_values(PAIR, kind="stable")
    new_row = np.argsort(table.index.to_numpy())
    rounds = about["round"].to_numpy(dtype=np.int64)
    burst_medians = BurstMedians(medians, new_row[pair], rounds, main)
    return table.reset_index(drop=True), burst_medians


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


def _order_by_pair(bursts: pd.DataFrame) -> Ints:
    """Return the indices that sort bursts from `_put_lower_cpu_first` by pair, then by
    time.
    """
    started = bursts["start_offset_ns"].to_numpy()
    pair = number_groups(bursts, PAIR)
    return np.lexsort((started, pair))  # the last key counts first


def _compute_pair_work_and_ghz(
    bursts: pd.DataFrame, pair_numbers: Ints, times: Floats
) -> dict[str, Floats]:
    """Compute medians of WORK_COLUMNS and `core_ghz` over the bursts of each pair.

    times: each burst's median divided by its pair's. The pair's median times `core_ghz`
    must be the cycles that it takes. So `core_ghz` is the median of `times` x
    frequency, over the half of the bursts nearest to the pair's median (others may be
    at another level), and kept within the bursts' frequencies.
    """
    medians = {}
    for name in WORK_COLUMNS:
        values = bursts[name].to_numpy(np.float64)
        medians[name] = group_medians(values, pair_numbers)

    ghz = bursts["core_ghz"].to_numpy(np.float64)
    near = _find_nearer_half(np.abs(times - 1), pair_numbers)
    core_ghz = group_medians((ghz * times)[near], pair_numbers[near])
    sizes = np.bincount(pair_numbers)
    begins = np.cumsum(sizes) - sizes
    lowest = np.fmin.reduceat(ghz, begins)
    highest = np.fmax.reduceat(ghz, begins)
    medians["core_ghz"] = np.clip(core_ghz, lowest, highest)
    return medians


def _find_nearer_half(distances: Floats, groups: Ints) -> Ints:
    """Return the places of the half of each group with the least distances, and one
    more. groups: ascending, from 0.
    """
    nearest_first = np.lexsort((distances, groups))
    sizes = np.bincount(groups)
    begins = np.cumsum(sizes) - sizes
    rank = np.arange(len(groups)) - begins[groups]
    limit = sizes[groups] / 2 + 1
    return nearest_first[rank < limit]


def compute_medians_and_outliers(bursts: Bursts) -> tuple[Floats, Ints]:
    """Compute the median of each burst, and count its samples above OUTLIER
    times that.
    """
    middles = np.empty(len(bursts.counts))
    far = np.empty(len(bursts.counts), dtype=np.int64)
    for which, rows in group_rows_by_length(bursts.latencies, bursts.counts):
        ordered = np.sort(rows, axis=1)  # numpy sorts faster than it finds medians
        medians = _compute_quantiles(ordered, 0.5)
        limits = OUTLIER * medians
        is_far = rows > limits[:, None]
        middles[which] = medians
        far[which] = is_far.sum(axis=1)
    return middles, far


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
    own = np.where(is_shared, -1, np.arange(len(pairs)))
    visited = pairs.assign(own=own)
    return number_groups(visited, ["run_id", "ping_cpu", "pong_cpu", "own"])


def _summarize_samples(latencies: Floats, counts: Ints) -> dict[str, Floats]:
    """Compute the columns _SAMPLE_NUMBERS of pairs. latencies: all pairs' samples, end
    to end; counts: how many each pair has.
    """
    columns = {name: np.full(len(counts), np.nan) for name in _SAMPLE_NUMBERS}
    for pairs, rows in group_rows_by_length(latencies, counts):
        ordered = np.sort(rows, axis=1)
        middle = _compute_quantiles(ordered, 0.5)
        columns["min_ns"][pairs] = ordered[:, 0]
        columns["p10_ns"][pairs] = _compute_quantiles(ordered, 0.10)
        columns["mean_ns"][pairs] = ordered.mean(axis=1)
        columns["p99_ns"][pairs] = _compute_quantiles(ordered, 0.99)
        columns["max_ns"][pairs] = ordered[:, -1]

        distances = ordered
        distances -= middle[:, None]  # in place: they may be many
        np.abs(distances, out=distances)
        distances.sort(axis=1)
        columns["mad_ns"][pairs] = _compute_quantiles(distances, 0.5)
    return columns


def _compute_quantiles(ordered: Floats, share: float) -> Floats:
    """Compute a quantile of rows in ascending order, interpolated between the two
    nearest values.
    """
    place = share * (ordered.shape[1] - 1)
    low = int(place)
    high = min(low + 1, ordered.shape[1] - 1)
    below = ordered[:, low]
    above = ordered[:, high]
    quantiles: Floats = below + (place - low) * (above - below)
    return quantiles


def _join_flags(
    flags: "pd.Series[Any]", pair_numbers: Ints, pair_count: int
) -> dict[str, Ints | list[str]]:
    """Count each pair's bursts with a flag, and join the flags of all its bursts
    without repeats.
    """
    is_marked = (flags != "").to_numpy(dtype=bool)
    numbers = pair_numbers[is_marked]
    texts = flags[is_marked].tolist()
    flags_by_pair: list[set[str]] = [set() for _ in range(pair_count)]
    distinct = set(zip(numbers.tolist(), texts, strict=True))
    for number, text in distinct:
        flags_by_pair[number].update(text.split(","))
    joined = [",".join(sorted(own_flags)) for own_flags in flags_by_pair]
    flagged_bursts = np.bincount(numbers, minlength=pair_count)
    return {"flagged_bursts": flagged_bursts, "flags": joined}


def estimator_column(run: Mapping[str, Any]) -> str:
    """Return the column of `pairs` to use for a run: that of its preset's estimator,
    else the median.
    """
    return ESTIMATOR_COLUMNS[run["estimator"]] if run["preset"] else "median_ns"


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
    return columns.pop() if len(columns) == 1 else "median_ns"


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
        table.attrs["noise"] = 0.0 if np.isnan(noise) else float(noise)
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
    places = pd.Index(cpus)
    ping = places.get_indexer(pd.Index(pairs["ping_cpu"]))  # -1: not among `cpus`
    pong = places.get_indexer(pd.Index(pairs["pong_cpu"]))
    is_inside = (ping >= 0) & (pong >= 0)
    size = len(cpus)
    every_cell = (runs * size + ping) * size + pong
    cells = every_cell[is_inside]
    values = pairs[value].to_numpy(dtype=float)[is_inside]
    distinct, number = np.unique(cells, return_inverse=True)
    if len(distinct) < len(cells):
        cells = distinct
        values = group_medians(values, number)

    numbers: Floats = np.full((count, size, size), np.nan)
    numbers.flat[cells] = values
    other_side = numbers.transpose(0, 2, 1)
    return np.where(np.isnan(numbers), other_side, numbers)

"""Check that the numbers of one run fit together: CHECKS names the checks and what
makes a breach.

A breach means that a number is not what its name says, or the machine not what it
reports (docs/flags.md). A difference within known intervals is not a breach.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import pandas as pd

from fleet.analysis.base.text import is_none, to_records
from fleet.analysis.reduce import ladders
from fleet.analysis.reduce.core_limits import find_core_limits
from fleet.analysis.reduce.load import drop_points
from fleet.model import SHIPPED, Descriptions, View

WHOLE_CYCLES = 0.02  # of the cycles of a load from L1
MIN_CYCLES, MAX_CYCLES = 3, 6
FALL = 0.05  # of a ladder that must rise, or of a sum of rates that cannot be exceeded
OVER = 1.02  # times a physical limit
# how sharing costs: the first takes at least so many times as long as the second, which
# shares less
SHARING_LIMITS = {
    ("words", "own"): 1 / 1.05,
    ("one", "words"): 0.9 / 1.05,
}
# times the cost to each, of operations beside more CPUs that have lines of their own
OWN_LINES = 1.10
# CPUs beside a chase, as a multiple of what as many get alone
MORE_THAN_ALONE = 1.03
READINGS = 4  # of the clock, by which a message may take longer than readwrite
UNKNOWN = 0.05  # how uncertain the median of a single burst is taken to be
CROSS_CHECK_COLUMNS = ("check", "value", "says", "breach")
NO_COMPARISONS = pd.DataFrame([], columns=list(CROSS_CHECK_COLUMNS)).astype(
    {"breach": bool}
)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers to check: a run, its pairs, and its memory."""

    run: Mapping[str, Any]
    pairs: pd.DataFrame
    memory: ladders.MemoryHierarchy

    def select(self, benchmark: str, **parameters: Any) -> pd.DataFrame:
        """Select a benchmark's rows with these values of parameters: sharing="own"."""
        rows = self.pairs[self.pairs["benchmark"] == benchmark]
        for name, value in parameters.items():
            rows = rows[rows[name] == value]
        return rows

    def select_single(self, benchmark: str) -> pd.DataFrame:
        """Select one row of each CPU or pair of a benchmark."""
        return drop_points(self.select(benchmark))

    def select_level(self, benchmark: str, level: str) -> pd.DataFrame:
        """Select a level of a benchmark's ladders."""
        levels = self.memory.levels
        is_of_benchmark = levels["benchmark"] == benchmark
        return levels[is_of_benchmark & (levels["level"] == level)]


class Comparison(NamedTuple):
    """Two numbers of a run, compared by a check. factor: larger if worse; it only ranks
    the comparisons of a check. says: which numbers, as text.
    """

    factor: float
    says: str
    is_breach: bool


def has_cross_checks(
    benchmarks: Collection[str], descriptions: Descriptions = SHIPPED
) -> bool:
    """Report whether a check may apply to runs of these benchmarks; names may include a
    variant.
    """
    for name in benchmarks:
        benchmark, _, _ = name.partition("/")
        is_of_cpus = descriptions[benchmark].view in (View.MATRIX, View.CPUS)
        # of the benchmarks of pairs or single CPUs, only `message` has a check; the
        # other checks are of benchmarks with points
        if benchmark == "message" or not is_of_cpus:
            return True
    return False


def check_run(
    run: Mapping[str, Any],
    pairs: pd.DataFrame,
    memory: ladders.MemoryHierarchy,
    descriptions: Descriptions = SHIPPED,
) -> pd.DataFrame:
    """Make every comparison of one run: a row each with `check`, `value`, `says` (a
    text) and `breach`.

    run: a row of `runs`. pairs: the run's rows, from `as_float64`. memory: from these
    pairs. `check` is a key of CHECKS. `value` is the factor of a Comparison, larger if
    worse.
    """
    if not has_cross_checks(set(pairs["benchmark"]), descriptions):
        return NO_COMPARISONS
    numbers = Numbers(run, pairs, memory)
    rows = []
    for check, (_, compare) in CHECKS.items():
        for factor, says, is_breach in compare(numbers):
            rows.append((check, factor, says, is_breach))
    table = pd.DataFrame(rows, columns=list(CROSS_CHECK_COLUMNS))
    return table.astype({"breach": bool})


def select_breaches(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Select the comparisons that are breaches."""
    return comparisons[comparisons["breach"]].reset_index(drop=True)


def _check_l1_cycles(numbers: Numbers) -> Iterator[Comparison]:
    """Check that a load from the L1 cache takes a whole number of cycles, MIN_CYCLES to
    MAX_CYCLES.
    """
    rows = numbers.select_level("chase", "L1")
    has_frequency = rows["core_ghz"].notna()
    for row in to_records(rows[has_frequency]):
        yield _compare_with_whole_cycles(row)


def _compare_with_whole_cycles(row: Mapping[str, Any]) -> Comparison:
    """Compare the cycles of a load from the L1 cache with the nearest whole number. The
    factor is 1 plus the distance from this number, as a share of the number.

    A breach is a distance beyond WHOLE_CYCLES and the row's interval, or a number of
    cycles that is more than a tenth of a cycle outside MIN_CYCLES to MAX_CYCLES.
    """
    cycles = row["median_ns"] * row["core_ghz"]
    nearest_whole = max(round(cycles), 1)
    distance = abs(cycles / nearest_whole - 1)
    is_whole = distance <= max(WHOLE_CYCLES, _read_spread(row))
    is_usual = MIN_CYCLES - 0.1 < cycles < MAX_CYCLES + 0.1
    is_breach = not (is_usual and is_whole)
    says = f"chase {row['setting']} on CPU {row['ping_cpu']}: {cycles:.2f} cycles"
    return Comparison(1 + distance, says, is_breach)


def _check_ladder_order(numbers: Numbers) -> Iterator[Comparison]:
    """Check that a farther level of memory is no faster than the next nearer level."""
    levels = numbers.memory.levels
    is_read = levels["setting"].isin(["random", "window", "read"])
    for key, ladder in levels[is_read].groupby(ladders.LADDER, sort=False):
        name = _format_key(key)
        nearest_first = ladder.sort_values("least_bytes", kind="stable")
        for near, far in pairwise(to_records(nearest_first)):
            yield _compare_levels(name, near, far)


def _compare_levels(
    ladder: str, near: Mapping[str, Any], far: Mapping[str, Any]
) -> Comparison:
    """Compare two neighbouring levels of a ladder. The factor is the time of the nearer
    level divided by the time of the farther one: above 1, the farther level is faster.
    """
    factor = near["median_ns"] / far["median_ns"]
    # near 2 ns, far 3 ns: "1.50 times"; near 4 ns, far 2 ns: "1/2.00 of"
    ratio = f"{1 / factor:.2f} times"
    if factor > 1:
        ratio = f"1/{factor:.2f} of"
    says = f"{ladder}: {far['level']} takes {ratio} {near['level']}"
    is_breach = factor > _compute_allowed_factor(near, far)
    return Comparison(factor, says, is_breach)


def _check_port_limit(numbers: Numbers) -> Iterator[Comparison]:
    """Check that no bandwidth exceeds what the ports of the cores can load and
    store.
    """
    core = find_core_limits(numbers.run)
    steps = numbers.memory.steps
    is_bandwidth = steps["benchmark"] == "bandwidth"
    has_frequency = steps["core_ghz"].notna()
    for row in to_records(steps[is_bandwidth & has_frequency]):
        bytes_per_cycle = core.find_bytes_per_cycle(row["variant"], row["operation"])
        if bytes_per_cycle is not None:
            yield _compare_with_ports(row, bytes_per_cycle)


def _compare_with_ports(row: Mapping[str, Any], bytes_per_cycle: int) -> Comparison:
    """Compare a bandwidth with the most that the ports of the cores allow. The factor
    is the bandwidth divided by this limit. bytes_per_cycle: the most of one core.
    """
    # a byte per ns is a GB per s
    gb_per_s = 1 / row["median_ns"]
    cycles_per_ns = row["core_ghz"]
    limit = bytes_per_cycle * cycles_per_ns * row["threads"]
    says = f"{row['point']}: {gb_per_s:.0f} GB/s, {limit:.0f} at most"
    is_breach = gb_per_s > OVER * limit * (1 + _read_spread(row))
    return Comparison(gb_per_s / limit, says, is_breach)


def _check_group_rate(numbers: Numbers) -> Iterator[Comparison]:
    """Check that CPUs together do no more than the sum of what each does alone: in
    bandwidth at each level of memory, and in products of matrices at each point.
    """
    levels = numbers.memory.levels
    bandwidths = levels[levels["benchmark"] == "bandwidth"]
    by_level = ["benchmark", "variant", "setting", "level"]
    yield from _check_group_sum(bandwidths, by_level, "GB/s")

    products = numbers.select("gemm")
    points = products["point"].astype(str)
    # a point ends in its number of threads: "peak.x8" -> "peak"
    points_without_threads = points.str.replace(r"\.x\d+$", "", regex=True)
    products = products.assign(point=points_without_threads)
    by_point = ["benchmark", "variant", "point"]
    yield from _check_group_sum(products, by_point, "Gop/s")


def _check_group_sum(
    rows: pd.DataFrame, keys: list[str], unit: str
) -> Iterator[Comparison]:
    """Compare the rate of each group of CPUs with the rate of the best CPU alone, among
    the rows that have equal values in the columns `keys`. unit: of the rates, "GB/s".
    """
    for key, group in rows.groupby(keys, sort=False):
        alone = group[group["threads"] == 1]
        if alone.empty:
            continue
        # the least ns per unit is the highest rate
        best, *_ = to_records(alone.sort_values("median_ns"))
        together = group[group["threads"] > 1]
        for row in to_records(together):
            comparison = _compare_with_sum(row, best, unit)
            says = f"{_format_key(key)}: {comparison.says}"
            yield comparison._replace(says=says)


def _compare_with_sum(
    row: Mapping[str, Any], best: Mapping[str, Any], unit: str
) -> Comparison:
    """Compare the rate of CPUs together with that of the best CPU alone. The factor is
    the rate of a CPU among the others, divided by the rate of the best CPU alone: above
    1, the CPUs gained by being together. row, best: those of the CPUs together and of
    the best CPU. unit: of the rates.
    """
    rate = 1 / row["median_ns"]  # of all threads together
    best_rate = 1 / best["median_ns"]
    threads = int(row["threads"])
    share_of_best = rate / threads / best_rate
    says = f"{rate:.0f} {unit} by {threads} CPUs, {best_rate:.0f} by one"
    is_breach = share_of_best > _compute_allowed_factor(row, best)
    return Comparison(share_of_best, says, is_breach)


def _check_shared_buffer(numbers: Numbers) -> Iterator[Comparison]:
    """Check that CPUs that read one buffer in memory, "read one", are no slower than
    CPUs that read a buffer each, "read".
    """
    levels = numbers.memory.levels
    is_of_memory = levels["level"] == ladders.MEMORY
    rows = levels[is_of_memory & (levels["threads"] > 1)]
    for key, group in rows.groupby(["benchmark", "variant", "threads"], sort=False):
        own_buffers = group[group["setting"] == "read"]
        one_buffer = group[group["setting"] == "read one"]
        if len(own_buffers) and len(one_buffer):
            yield _compare_buffers(_format_key(key), own_buffers, one_buffer)


def _compare_buffers(
    name: str, own_buffers: pd.DataFrame, one_buffer: pd.DataFrame
) -> Comparison:
    """Compare the time to read one buffer with the time to read a buffer each. The
    factor is the first divided by the second. name: what read them, such as
    "bandwidth/avx2 8". own_buffers, one_buffer: the rows of each.
    """
    own_ns = own_buffers["median_ns"].median()
    one_ns = one_buffer["median_ns"].median()
    ratio = float(one_ns / own_ns)
    says = f"{name} CPUs: one buffer takes {ratio:.2f} times as long as own ones"
    # one row of each is enough to tell how uncertain the medians are
    first_own = to_records(own_buffers)[0]
    first_of_one = to_records(one_buffer)[0]
    is_breach = ratio > _compute_allowed_factor(first_own, first_of_one)
    return Comparison(ratio, says, is_breach)


def _compare_rows(
    rows: pd.DataFrame,
    others: pd.DataFrame,
    by: Sequence[str],
    limits: tuple[float, float],
) -> Iterator[Comparison]:
    """Compare the median of `rows` with the median of `others`, for each combination of
    values in the columns `by` that both have. limits: as in `_compare_parts`.
    """
    others_by_key = _split(others, by)
    for key, part in _split(rows, by).items():
        if key in others_by_key:
            yield _compare_parts(part, others_by_key[key], limits)


def _compare_parts(
    rows: pd.DataFrame, others: pd.DataFrame, limits: tuple[float, float]
) -> Comparison:
    """Compare the median of `rows` with the median of `others`.

    The ratio is the first median divided by the second. A ratio below the first of
    `limits` or above the second is a breach. The factor is the ratio or its inverse,
    whichever is larger.
    """
    median = _take_median(rows)
    other = _take_median(others)
    ratio = median.ns / other.ns
    # the limits are as much wider as both medians are uncertain
    tolerance = 1 + median.spread + other.spread
    lowest, highest = limits
    fits = lowest / tolerance <= ratio <= highest * tolerance
    relation = rows["relation"].iloc[0]
    words = f"{relation} {_name_first_point(rows)}: {median.ns:.1f} ns"
    other_words = f"{_name_first_point(others)} {other.ns:.1f} ns"
    says = f"{words}, {other_words} ({ratio:.2f})"
    return Comparison(max(ratio, 1 / ratio), says, not fits)


def _split(rows: pd.DataFrame, by: Sequence[str]) -> dict[Any, pd.DataFrame]:
    """Split rows by their values in the columns `by`: return the rows of each key, a
    tuple of these values, in order of occurrence.
    """
    return dict(iter(rows.groupby([*by], sort=False)))


def _name_first_point(rows: pd.DataFrame) -> str:
    """Return the point of the first row, or its benchmark if it has no point."""
    first = to_records(rows)[0]
    if is_none(first["point"]):
        return str(first["benchmark"])
    return str(first["point"])


def _check_contend_sharing(numbers: Numbers) -> Iterator[Comparison]:
    """Check that CPUs that share a word or a line do not take clearly less time than
    CPUs that share less. SHARING_LIMITS has the least ratio of the two times.
    """
    columns = ["variant", "operation", "relation", "threads"]
    for (sharing, sharing_less), least_ratio in SHARING_LIMITS.items():
        rows = numbers.select("contend", sharing=sharing)
        others = numbers.select("contend", sharing=sharing_less)
        # a core merges its stores, so that those to a shared line may cost less
        without_stores = rows[rows["operation"] != "store"]
        limits = (least_ratio, math.inf)
        yield from _compare_rows(without_stores, others, columns, limits)


def _check_own_scaling(numbers: Numbers) -> Iterator[Comparison]:
    """Check that an operation on a line of a thread's own takes no longer if more
    threads do the same on lines of their own: at most OWN_LINES times as long as with
    the fewest threads.
    """
    rows = numbers.select("contend", sharing="own")
    if rows.empty:
        return
    # the table has the time of all threads together for an operation: n threads that do
    # an operation in t ns each do one in t / n ns together
    ns_of_thread = rows["median_ns"] * rows["threads"]
    by_thread = rows.assign(median_ns=ns_of_thread)
    fewest_first = by_thread.sort_values("threads", kind="stable")
    rows_by_threads = _split(fewest_first, ["threads"])
    fewest, *more = rows_by_threads.values()
    columns = ["variant", "operation"]
    limits = (0.0, OWN_LINES)
    for rows_of_more in more:
        yield from _compare_rows(rows_of_more, fewest, columns, limits)


def _check_loaded_rate(numbers: Numbers) -> Iterator[Comparison]:
    """Check that CPUs that load the memory, while another CPU chases pointers, reach no
    higher rate than as many CPUs reach alone in `bandwidth`.
    """
    bandwidths = numbers.select_level("bandwidth", ladders.MEMORY)
    loaded = numbers.select("loaded")
    is_at_full_rate = loaded["load_mbps"].isna()
    for row in to_records(loaded[is_at_full_rate]):
        loading_threads = row["threads"] - 1  # the first thread chases
        is_same_operation = bandwidths["setting"] == row["operation"]
        is_as_many = bandwidths["threads"] == loading_threads
        rows_alone = bandwidths[is_same_operation & is_as_many]
        if len(rows_alone):
            yield _compare_with_rate_alone(row, _take_median(rows_alone))


def _compare_with_rate_alone(row: Mapping[str, Any], alone: "_Median") -> Comparison:
    """Compare the rate of CPUs beside a chase with their rate alone. The factor is the
    first divided by the second. alone: the median of as many CPUs, in ns a byte.
    """
    rate = row["other_rate"]  # in GB/s
    rate_alone = 1 / alone.ns  # a byte per ns is a GB per s
    says = f"{row['point']}: {rate:.1f} GB/s, {rate_alone:.1f} without the chase"
    share = rate * alone.ns
    is_breach = share > MORE_THAN_ALONE * (1 + alone.spread)
    return Comparison(share, says, is_breach)


def _check_message_readwrite(numbers: Numbers) -> Iterator[Comparison]:
    """Check that a message takes no less time than a hand-off of `readwrite`, and at
    most READINGS readings of the clock longer, by relation.
    """
    run = numbers.run
    if is_none(run["clock_cost_ticks"]):
        return
    reading_ns = run["clock_cost_ticks"] * 1e9 / run["ticks_per_second"]
    hand_offs = _take_medians(numbers.select_single("readwrite"), "relation")
    messages = _take_medians(numbers.select_single("message"), "relation")
    for relation, message in messages.items():
        if relation in hand_offs:
            comparison = _compare_message(message, hand_offs[relation], reading_ns)
            says = f"{relation}: {comparison.says}"
            yield comparison._replace(says=says)


def _compare_message(
    message: "_Median", hand_off: "_Median", reading_ns: float
) -> Comparison:
    """Compare the time of a message with that of a hand-off. The factor is the first
    divided by the second, but at least 1. reading_ns: the time of one reading of the
    clock.
    """
    longer_ns = message.ns - hand_off.ns
    allowed_ns = READINGS * reading_ns
    uncertain_ns = message.half_ns + hand_off.half_ns
    fits = -uncertain_ns <= longer_ns <= allowed_ns + uncertain_ns
    times = f"message {message.ns:.1f} ns, readwrite {hand_off.ns:.1f} ns"
    says = f"{times}, a reading {reading_ns:.1f} ns"
    ratio = message.ns / hand_off.ns
    return Comparison(max(ratio, 1.0), says, not fits)


def _check_gemm_peak(numbers: Numbers) -> Iterator[Comparison]:
    """Check that no product of matrices is faster than the peak of its unit, measured
    on the same CPUs. A unit is the part of a core that a variant uses.
    """
    rows = numbers.select("gemm")
    keys = ["variant", "threads", "ping_cpu", "pong_cpu"]
    for _, part in rows.groupby(keys, sort=False):
        is_peak = _are_peaks(part)
        peaks = part[is_peak]
        if peaks.empty:
            continue
        peak = _take_median(peaks)
        peak_ghz = peaks["core_ghz"].median()
        for row in to_records(part[~is_peak]):
            yield _compare_with_peak(row, peak, peak_ghz)


def _compare_with_peak(
    row: Mapping[str, Any], peak: "_Median", peak_ghz: float
) -> Comparison:
    """Compare a product of matrices with the peak of its unit. The factor is the share
    of the peak that the product reaches, as if both had run at the same frequency.
    peak_ghz: the frequency at the peak.
    """
    # both are ns an operation, so that a shorter time is a larger share
    share = peak.ns / row["median_ns"]
    share *= _divide_frequencies(peak_ghz, row["core_ghz"])
    product = f"gemm/{row['variant']} {row['point']}"
    says = f"{product}: {share:.0%} of the peak of its unit"
    spread = _read_spread(row, unknown=0.0)  # as that of the peak, if unknown
    limit = OVER * (1 + peak.spread + spread)
    return Comparison(share, says, share > limit)


def _divide_frequencies(peak_ghz: float, ghz: float) -> float:
    """Divide the first frequency by the second: this turns a rate that was measured at
    `ghz` into the rate at `peak_ghz`. Return 1 if a frequency is unknown.
    """
    if is_none(peak_ghz) or is_none(ghz):
        return 1.0
    return peak_ghz / ghz


def _are_peaks(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Report which rows of gemm measure the peak of a unit."""
    return rows["point"].astype(str).str.startswith("peak")


def _check_gemm_limit(numbers: Numbers) -> Iterator[Comparison]:
    """Check that no peak of matrix products exceeds what the units of a core can
    compute.
    """
    limits = find_core_limits(numbers.run).operations
    rows = numbers.select("gemm")
    is_limited = rows["variant"].isin(list(limits))
    has_frequency = rows["core_ghz"].notna()
    peaks = rows[_are_peaks(rows) & has_frequency & is_limited]
    for row in to_records(peaks):
        yield _compare_with_core_limit(row, limits[row["variant"]])


def _compare_with_core_limit(row: Mapping[str, Any], limit: int) -> Comparison:
    """Compare a peak of matrix products with the most that a core can compute. The
    factor is the peak divided by the limit, both in operations a cycle of one core.
    """
    operations_per_ns = 1 / row["median_ns"]  # of all threads together
    cycles_per_ns = row["core_ghz"]
    operations_per_cycle = operations_per_ns / row["threads"] / cycles_per_ns
    peak = f"{operations_per_cycle:.0f} operations a cycle"
    says = f"gemm/{row['variant']}: {peak}, {limit} at most"
    is_breach = operations_per_cycle > OVER * limit * (1 + _read_spread(row))
    return Comparison(operations_per_cycle / limit, says, is_breach)


def _check_node_order(numbers: Numbers) -> Iterator[Comparison]:
    """Check that the own memory of a node is no slower for its CPUs than the memory of
    another node.
    """
    keys = ["benchmark", "variant", "setting"]
    nodes = numbers.memory.nodes
    for key, cells in nodes.groupby(keys, sort=False, observed=True):
        for comparison in _compare_nodes(cells):
            says = f"{_format_key(key)}: {comparison.says}"
            yield comparison._replace(says=says)


def _compare_nodes(cells: pd.DataFrame) -> Iterator[Comparison]:
    """Compare for each node of CPUs the memory of each other node with the node's own
    memory. cells: of one setting, from `select_node_cells`.
    """
    is_local = ladders.is_local_memory(cells)
    local_by_node = _take_medians(cells[is_local], "cpu_node")
    remote = cells[~is_local].groupby(["cpu_node", "memory_node"])
    for (cpu_node, memory_node), part in remote:
        if cpu_node in local_by_node:
            far = _take_median(part)
            comparison = _compare_memories(local_by_node[cpu_node], far)
            says = f"node {memory_node} from node {cpu_node} {comparison.says}"
            yield comparison._replace(says=says)


def _compare_memories(local: "_Median", far: "_Median") -> Comparison:
    """Compare the time of a node's own memory with that of another node's memory. The
    factor is the first divided by the second. A breach is own memory that is slower.
    """
    says = f"takes {far.ns / local.ns:.2f} of its own"
    # the limit is as much larger as both medians are uncertain
    tolerance = 1 + far.spread + local.spread
    is_breach = local.ns > (1 + FALL) * far.ns * tolerance
    return Comparison(local.ns / far.ns, says, is_breach)


class _Median(NamedTuple):
    """The median of some rows' ns, and that of their relative half intervals, 0 if
    unknown.
    """

    ns: float
    spread: float

    @property
    def half_ns(self) -> float:
        """Return half the interval in ns."""
        return self.ns * self.spread


def _take_median(rows: pd.DataFrame) -> _Median:
    """Take the median of the rows' ns, and that of their spreads, 0 if unknown."""
    ns = float(rows["median_ns"].median())
    spread = rows["spread"].median()
    if is_none(spread):
        return _Median(ns, 0.0)
    return _Median(ns, float(spread))


def _take_medians(rows: pd.DataFrame, by: str) -> dict[Any, _Median]:
    """Return by value of the column `by` the median of the rows with this value, in
    order of occurrence.
    """
    groups = rows.groupby(by, sort=False)
    return {value: _take_median(part) for value, part in groups}


def _read_spread(row: Mapping[str, Any], unknown: float = UNKNOWN) -> float:
    """Return a row's relative half interval, or `unknown` where it has none."""
    if is_none(row["spread"]):
        return unknown
    return float(row["spread"])


def _compute_allowed_factor(*rows: Mapping[str, Any]) -> float:
    """Return the allowed factor between two numbers of which the first should not be
    larger: 1 + FALL, times 1 plus the sum of the rows' half intervals, as shares.
    """
    spreads = [_read_spread(row) for row in rows]
    return (1 + FALL) * sum(spreads, 1.0)


def _format_key(key: Any) -> str:
    """Name a group of rows by the values that they have in common.

    key: benchmark, variant, and then text or numbers of threads, of which 1 is not
    written: ("chase", "mov", "random", 8) -> "chase/mov random x8"; ("bandwidth",
    "avx2", "read", "L2") -> "bandwidth/avx2 read L2". The third value is written as it
    is: ("bandwidth", "avx2", 8) -> "bandwidth/avx2 8". Values after the fourth are
    ignored.
    """
    benchmark, variant, third, *others = key
    words = [f"{benchmark}/{variant}", str(third)]
    if others:
        fourth = others[0]
        is_thread_count = isinstance(fourth, Integral)
        if not is_thread_count:
            words.append(str(fourth))
        elif fourth != 1:
            words.append(f"x{fourth}")
    return " ".join(words)


# Each check: what a breach is, the same for every run, and the comparisons.
CHECKS: Mapping[str, tuple[str, Callable[[Numbers], Iterator[Comparison]]]] = {
    "l1_cycles": (
        "a load from L1 does not take a whole number of cycles from 3 to 6",
        _check_l1_cycles,
    ),
    "ladder_order": (
        "a farther level of memory is faster than a nearer one",
        _check_ladder_order,
    ),
    "port_limit": (
        "memory is faster than the loads and stores of a core can be",
        _check_port_limit,
    ),
    "group_rate": (
        "CPUs together move or multiply more than the sum of each alone",
        _check_group_rate,
    ),
    "one_buffer": (
        "reading one buffer is slower than reading a buffer each",
        _check_shared_buffer,
    ),
    "contend_places": (
        "sharing a line or a word costs less than not sharing it",
        _check_contend_sharing,
    ),
    "contend_own": (
        "an operation on a line of its own takes longer beside more CPUs",
        _check_own_scaling,
    ),
    "loaded_rate": (
        "CPUs get over 3% more of the memory beside a chase than alone",
        _check_loaded_rate,
    ),
    "message_readwrite": (
        "a message takes less than readwrite, or far longer",
        _check_message_readwrite,
    ),
    "node_order": (
        "memory of another NUMA node is nearer than a node's own",
        _check_node_order,
    ),
    "gemm_peak": (
        "a product of matrices is faster than its unit's peak",
        _check_gemm_peak,
    ),
    "gemm_units": (
        "a peak of products is higher than the units of a core can reach",
        _check_gemm_limit,
    ),
}
CROSS_CHECK_MEANINGS = {check: text for check, (text, _) in CHECKS.items()}


def summarize_checks(comparisons: pd.DataFrame) -> list[tuple[str, ...]]:
    """Make a line per check, of four texts: the check's name, its worst comparison, and
    the numbers of its comparisons and breaches. comparisons: from `check_run`.
    """
    lines = list[tuple[str, ...]]()
    in_order_of_checks = comparisons.groupby("check", sort=False)
    for check, part in in_order_of_checks:
        worst_first = part.sort_values(
            ["breach", "value"], ascending=False, kind="stable"
        )
        worst = str(worst_first["says"].iloc[0])
        breaches = str(part["breach"].sum())
        lines.append((str(check), worst, str(len(part)), breaches))
    return lines

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
PLACES = {  # the first takes at least so many times the second
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
        """Select a benchmark's rows with these parameters."""
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


# how far off, which numbers, and whether that is a breach
CheckResults = Iterator[tuple[float, str, bool]]


def has_cross_checks(
    benchmarks: Collection[str], descriptions: Descriptions = SHIPPED
) -> bool:
    """Report whether a check may apply to runs of these benchmarks; names may include a
    variant.
    """
    return any(
        descriptions[name].view not in (View.MATRIX, View.CPUS)
        or name.partition("/")[0] == "message"
        for name in benchmarks
    )


def check_run(
    run: Mapping[str, Any],
    pairs: pd.DataFrame,
    memory: ladders.MemoryHierarchy,
    descriptions: Descriptions = SHIPPED,
) -> pd.DataFrame:
    """Make every comparison of one run: a row each with `check`, `value`, `says` (a
    text) and `breach`.

    run, pairs: the run's rows of the tables, pairs from `as_float64`. memory: from
    these pairs. value: a factor, larger if worse.
    """
    if not has_cross_checks(set(pairs["benchmark"]), descriptions):
        return NO_COMPARISONS
    numbers = Numbers(run, pairs, memory)
    comparisons = []
    for check, (_, compare) in CHECKS.items():
        for value, says, is_breach in compare(numbers):
            comparisons.append((check, value, says, is_breach))
    table = pd.DataFrame(comparisons, columns=list(CROSS_CHECK_COLUMNS))
    return table.astype({"breach": bool})


def select_breaches(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Select the comparisons that are breaches."""
    return comparisons[comparisons["breach"]].reset_index(drop=True)


def _check_l1_cycles(numbers: Numbers) -> CheckResults:
    rows = numbers.select_level("chase", "L1")
    for row in to_records(rows[rows["core_ghz"].notna()]):
        cycles = row["median_ns"] * row["core_ghz"]
        whole_cycles = max(round(cycles), 1)
        off = abs(cycles / whole_cycles - 1)
        is_whole = off <= max(WHOLE_CYCLES, _read_spread(row))
        is_usual = MIN_CYCLES - 0.1 < cycles < MAX_CYCLES + 0.1
        says = f"chase {row['setting']} on CPU {row['ping_cpu']}: {cycles:.2f} cycles"
        yield 1 + off, says, not (is_usual and is_whole)


def _check_ladder_order(numbers: Numbers) -> CheckResults:
    levels = numbers.memory.levels
    rows = levels[levels["setting"].isin(["random", "window", "read"])]
    keys = ["benchmark", "variant", "setting", "threads", "ping_cpu", "pong_cpu"]
    for key, ladder in rows.groupby(keys, sort=False):
        nearest_first = ladder.sort_values("least_bytes", kind="stable")
        for near, far in pairwise(to_records(nearest_first)):
            fall = near["median_ns"] / far["median_ns"]
            ratio = f"{1 / fall:.2f} times"
            if fall > 1:
                ratio = f"1/{fall:.2f} of"
            says = f"{_format_key(key)}: {far['level']} takes {ratio} {near['level']}"
            yield fall, says, fall > _compute_allowed_fall(near, far)


def _check_port_limit(numbers: Numbers) -> CheckResults:
    core = find_core_limits(numbers.run)
    steps = numbers.memory.steps
    rows = steps[steps["benchmark"] == "bandwidth"]
    for row in to_records(rows[rows["core_ghz"].notna()]):
        bytes_per_cycle = core.find_bytes_per_cycle(row["variant"], row["operation"])
        if bytes_per_cycle is None:
            continue
        rate = 1 / row["median_ns"]
        limit = bytes_per_cycle * row["core_ghz"] * row["threads"]
        says = f"{row['point']}: {rate:.0f} GB/s, {limit:.0f} at most"
        is_over = rate > OVER * limit * (1 + _read_spread(row))
        yield rate / limit, says, is_over


def _check_group_rate(numbers: Numbers) -> CheckResults:
    levels = numbers.memory.levels
    moved = levels[levels["benchmark"] == "bandwidth"]
    by_level = ["benchmark", "variant", "setting", "level"]
    yield from _check_group_sum(moved, by_level, "GB/s")

    products = numbers.select("gemm")
    points = products["point"].astype(str)
    without_threads = points.str.replace(r"\.x\d+$", "", regex=True)
    products = products.assign(point=without_threads)
    yield from _check_group_sum(products, ["benchmark", "variant", "point"], "Gop/s")


def _check_group_sum(rows: pd.DataFrame, keys: list[str], unit: str) -> CheckResults:
    for key, part in rows.groupby(keys, sort=False):
        alone = part[part["threads"] == 1]
        if alone.empty:
            continue
        best, *_ = to_records(alone.sort_values("median_ns"))
        best_rate = 1 / best["median_ns"]
        for row in to_records(part[part["threads"] > 1]):
            threads = int(row["threads"])
            rate = 1 / row["median_ns"]
            # of what each could do alone: above 1, they gained by being together
            share_of_best = rate / threads / best_rate
            limit = _compute_allowed_fall(row, best)
            together = f"{rate:.0f} {unit} by {threads} CPUs"
            says = f"{_format_key(key)}: {together}, {best_rate:.0f} by one"
            yield share_of_best, says, share_of_best > limit


def _check_shared_buffer(numbers: Numbers) -> CheckResults:
    levels = numbers.memory.levels
    is_of_memory = levels["level"] == ladders.MEMORY
    rows = levels[is_of_memory & (levels["threads"] > 1)]
    for key, part in rows.groupby(["benchmark", "variant", "threads"], sort=False):
        own_buffers = part[part["setting"] == "read"]
        one_buffer = part[part["setting"] == "read one"]
        if own_buffers.empty or one_buffer.empty:
            continue
        own_ns = own_buffers["median_ns"].median()
        ratio = float(one_buffer["median_ns"].median() / own_ns)
        first_own = to_records(own_buffers)[0]
        first_of_one = to_records(one_buffer)[0]
        limit = _compute_allowed_fall(first_own, first_of_one)
        says = (
            f"{_format_key(key)} CPUs: one buffer takes {ratio:.2f} times as long as"
            " own ones"
        )
        yield ratio, says, ratio > limit


def _compare_rows(
    rows: pd.DataFrame,
    others: pd.DataFrame,
    by: Sequence[str],
    limits: tuple[float, float],
) -> CheckResults:
    """Compare medians of `rows` and `others` with equal columns `by`; a ratio beyond
    `limits` is a breach.
    """
    lowest, highest = limits
    others_by_key = _split(others, by)
    for key, part in _split(rows, by).items():
        if key not in others_by_key:
            continue
        other_part = others_by_key[key]
        median = _take_median(part)
        other = _take_median(other_part)
        ratio = median.ns / other.ns
        # the limits are as much wider as both medians are uncertain
        tolerance = 1 + median.spread + other.spread
        fits = lowest / tolerance <= ratio <= highest * tolerance
        relation = part["relation"].iloc[0]
        words = f"{relation} {_name_first_point(part)}: {median.ns:.1f} ns"
        other_words = f"{_name_first_point(other_part)} {other.ns:.1f} ns"
        says = f"{words}, {other_words} ({ratio:.2f})"
        yield max(ratio, 1 / ratio), says, not fits


def _split(rows: pd.DataFrame, by: Sequence[str]) -> dict[Any, pd.DataFrame]:
    """Return the rows with equal columns `by`, in order of occurrence."""
    return dict(iter(rows.groupby([*by], sort=False)))


def _name_first_point(rows: pd.DataFrame) -> str:
    first = to_records(rows)[0]
    if is_none(first["point"]):
        return str(first["benchmark"])
    return str(first["point"])


def _check_contend_sharing(numbers: Numbers) -> CheckResults:
    columns = ["variant", "operation", "relation", "threads"]
    for (near, far), limit in PLACES.items():
        rows = numbers.select("contend", sharing=near)
        others = numbers.select("contend", sharing=far)
        limits = (limit, math.inf)
        # a core merges stores
        loading = rows[rows["operation"] != "store"]
        yield from _compare_rows(loading, others, columns, limits)


def _check_own_scaling(numbers: Numbers) -> CheckResults:
    rows = numbers.select("contend", sharing="own")
    if rows.empty:
        return
    ns_each = rows["median_ns"] * rows["threads"]
    each = rows.assign(median_ns=ns_each).sort_values("threads", kind="stable")
    fewest, *more = _split(each, ["threads"]).values()
    columns = ["variant", "operation"]
    for part in more:
        yield from _compare_rows(part, fewest, columns, (0.0, OWN_LINES))


def _check_loaded_rate(numbers: Numbers) -> CheckResults:
    moved = numbers.select_level("bandwidth", ladders.MEMORY)
    loaded = numbers.select("loaded")
    at_full_rate = loaded[loaded["load_mbps"].isna()]
    for row in to_records(at_full_rate):
        is_same_operation = moved["setting"] == row["operation"]
        is_as_many = moved["threads"] == row["threads"] - 1
        rows_alone = moved[is_same_operation & is_as_many]
        if rows_alone.empty:
            continue
        alone = _take_median(rows_alone)
        rate = row["other_rate"]
        share = rate * alone.ns
        says = f"{row['point']}: {rate:.1f} GB/s, {1 / alone.ns:.1f} without the chase"
        yield share, says, share > MORE_THAN_ALONE * (1 + alone.spread)


def _check_message_readwrite(numbers: Numbers) -> CheckResults:
    run = numbers.run
    if is_none(run["clock_cost_ticks"]):
        return
    reading_ns = run["clock_cost_ticks"] * 1e9 / run["ticks_per_second"]
    hand_offs = _take_medians(numbers.select_single("readwrite"), "relation")
    messages = _take_medians(numbers.select_single("message"), "relation")
    for relation, message in messages.items():
        if relation not in hand_offs:
            continue
        hand_off = hand_offs[relation]
        longer_ns = message.ns - hand_off.ns
        uncertain_ns = message.half_ns + hand_off.half_ns
        most_ns = READINGS * reading_ns
        fits = -uncertain_ns <= longer_ns <= most_ns + uncertain_ns
        times = f"message {message.ns:.1f} ns, readwrite {hand_off.ns:.1f} ns"
        says = f"{relation}: {times}, a reading {reading_ns:.1f} ns"
        yield max(message.ns / hand_off.ns, 1.0), says, not fits


def _check_gemm_peak(numbers: Numbers) -> CheckResults:
    rows = numbers.select("gemm")
    keys = ["variant", "threads", "ping_cpu", "pong_cpu"]
    for (variant, *_), part in rows.groupby(keys, sort=False):
        is_peak = _are_peaks(part)
        peaks = part[is_peak]
        if peaks.empty:
            continue
        peak = _take_median(peaks)
        peak_ghz = peaks["core_ghz"].median()
        for row in to_records(part[~is_peak]):
            share = peak.ns / row["median_ns"]
            share *= _compare_frequencies(peak_ghz, row["core_ghz"])
            limit = OVER * (1 + peak.spread + _read_spread(row, 0.0))
            says = f"gemm/{variant} {row['point']}: {share:.0%} of the peak of its unit"
            yield share, says, share > limit


def _compare_frequencies(peak_ghz: float, ghz: float) -> float:
    """Return what a rate at `ghz` is to be multiplied by to be as if at `peak_ghz`; 1
    if either is unknown.
    """
    if is_none(peak_ghz) or is_none(ghz):
        return 1.0
    return peak_ghz / ghz


def _are_peaks(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Report which rows of gemm measure the peak of a unit."""
    return rows["point"].astype(str).str.startswith("peak")


def _check_gemm_limit(numbers: Numbers) -> CheckResults:
    limits = find_core_limits(numbers.run).operations
    rows = numbers.select("gemm")
    is_limited = rows["variant"].isin(list(limits))
    peaks = rows[_are_peaks(rows) & rows["core_ghz"].notna() & is_limited]
    for row in to_records(peaks):
        variant = row["variant"]
        limit = limits[variant]
        reached = 1 / row["median_ns"] / row["threads"] / row["core_ghz"]
        is_over = reached > OVER * limit * (1 + _read_spread(row))
        says = f"gemm/{variant}: {reached:.0f} operations a cycle, {limit} at most"
        yield reached / limit, says, is_over


def _check_node_order(numbers: Numbers) -> CheckResults:
    keys = ["benchmark", "variant", "setting"]
    nodes = numbers.memory.nodes
    for key, cells in nodes.groupby(keys, sort=False, observed=True):
        for far, says, is_breach in _compare_nodes(cells):
            yield far, f"{_format_key(key)}: {says}", is_breach


def _compare_nodes(cells: pd.DataFrame) -> CheckResults:
    """Compare the memory of other nodes with that of each node of CPUs. cells: of one
    setting.
    """
    is_local = ladders.is_local_memory(cells)
    local_by_node = _take_medians(cells[is_local], "cpu_node")
    remote = cells[~is_local].groupby(["cpu_node", "memory_node"])
    for (cpu_node, memory_node), part in remote:
        if cpu_node not in local_by_node:
            continue
        far = _take_median(part)
        local = local_by_node[cpu_node]
        tolerance = 1 + far.spread + local.spread
        is_breach = local.ns > (1 + FALL) * far.ns * tolerance
        factor = f"{far.ns / local.ns:.2f}"
        says = f"node {memory_node} from node {cpu_node} takes {factor} of its own"
        yield local.ns / far.ns, says, is_breach


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
    ns = float(rows["median_ns"].median())
    spread = rows["spread"].median()
    if is_none(spread):
        return _Median(ns, 0.0)
    return _Median(ns, float(spread))


def _take_medians(rows: pd.DataFrame, by: str) -> dict[Any, _Median]:
    """Return the median of the rows of each value of a column, in order of
    occurrence.
    """
    groups = rows.groupby(by, sort=False)
    return {value: _take_median(part) for value, part in groups}


def _read_spread(row: Mapping[str, Any], unknown: float = UNKNOWN) -> float:
    """Return a row's relative half interval, or `unknown` where it has none."""
    if is_none(row["spread"]):
        return unknown
    return float(row["spread"])


def _compute_allowed_fall(*rows: Mapping[str, Any]) -> float:
    """Return the factor by which one of these numbers may exceed another that should be
    larger.
    """
    spreads = [_read_spread(row) for row in rows]
    return (1 + FALL) * sum(spreads, 1.0)


def _format_key(key: Any) -> str:
    """Name a group of rows: benchmark, variant, setting or threads, and threads or
    level, if it has one.
    """
    benchmark, variant, setting, *rest = key
    words = [f"{benchmark}/{variant}", str(setting)]
    if rest:
        threads_or_level = rest[0]
        if not isinstance(threads_or_level, Integral):
            words.append(str(threads_or_level))
        elif threads_or_level != 1:
            words.append(f"x{threads_or_level}")
    return " ".join(words)


# Each check: what a breach is, the same for every run, and the comparisons.
CHECKS: Mapping[str, tuple[str, Callable[[Numbers], CheckResults]]] = {
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
    """Make a line per check: its name, its worst comparison, and how many comparisons
    and breaches it has.
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

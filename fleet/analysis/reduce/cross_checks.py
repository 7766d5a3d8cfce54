"""Check that the numbers of one run fit together: CHECKS names the checks and what
makes a breach.

A breach means that a number is not what its name says, or the machine not what it
reports (docs/flags.md). A difference within known intervals is not a breach.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

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
# takes at least so many times the other
PLACES = {
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
    """The numbers to check: a run, its pairs, the steps and levels of its ladders, and
    its cells by node.
    """

    run: Mapping[str, Any]
    pairs: pd.DataFrame
    steps: pd.DataFrame
    levels: pd.DataFrame
    nodes: pd.DataFrame

    def select(self, benchmark: str, **parameters: Any) -> pd.DataFrame:
        """Select a benchmark's rows with these parameters; without parameters, those
        `drop_points` keeps.
        """
        rows = self.pairs[self.pairs["benchmark"] == benchmark]
        rows = rows if parameters else drop_points(rows)
        for name, value in parameters.items():
            rows = rows[rows[name] == value]
        return rows

    def select_level(self, benchmark: str, level: str) -> pd.DataFrame:
        """Select a level of a benchmark's ladders."""
        return self.levels[
            (self.levels["benchmark"] == benchmark) & (self.levels["level"] == level)
        ]


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
    cpus: pd.DataFrame,
    descriptions: Descriptions = SHIPPED,
) -> pd.DataFrame:
    """Make every comparison of one run: a row each with `check`, `value`, `says` (a
    text) and `breach`.

    run, pairs, cpus: the run's rows of the tables, pairs from `as_float64`. value: a
    factor, larger if worse.
    """
    if not has_cross_checks(set(pairs["benchmark"]), descriptions):
        return NO_COMPARISONS
    steps = ladders.select_ladder_steps(pairs, descriptions)
    levels = ladders.find_plateaus(pairs, cpus, descriptions)
    nodes = ladders.select_node_cells(pairs, cpus, descriptions)
    numbers = Numbers(run, pairs, steps, levels, nodes)
    comparisons = [
        (check, *row)
        for check, (_, compare) in CHECKS.items()
        for row in compare(numbers)
    ]
    return pd.DataFrame(comparisons, columns=list(CROSS_CHECK_COLUMNS)).astype(
        {"breach": bool}
    )


def select_breaches(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Select the comparisons that are breaches."""
    return comparisons[comparisons["breach"]].reset_index(drop=True)


def _check_l1_cycles(numbers: Numbers) -> CheckResults:
    rows = numbers.select_level("chase", "L1")
    for row in to_records(rows[rows["core_ghz"].notna()]):
        cycles = row["median_ns"] * row["core_ghz"]
        off, allowed = (
            abs(cycles / max(round(cycles), 1) - 1),
            max(WHOLE_CYCLES, _read_spread(row)),
        )
        fits = MIN_CYCLES - 0.1 < cycles < MAX_CYCLES + 0.1 and off <= allowed
        yield (
            1 + off,
            f"chase {row['setting']} on CPU {row['ping_cpu']}: {cycles:.2f} cycles",
            not fits,
        )


def _check_ladder_order(numbers: Numbers) -> CheckResults:
    rows = numbers.levels[numbers.levels["setting"].isin(["random", "window", "read"])]
    keys = ["benchmark", "variant", "setting", "threads", "ping_cpu", "pong_cpu"]
    for key, ladder in rows.groupby(keys, sort=False):
        for near, far in pairwise(
            to_records(ladder.sort_values("least_bytes", kind="stable"))
        ):
            fall = near["median_ns"] / far["median_ns"]
            ratio = f"1/{fall:.2f} of" if fall > 1 else f"{1 / fall:.2f} times"
            says = f"{_format_key(key)}: {far['level']} takes {ratio} {near['level']}"
            yield fall, says, fall > _compute_allowed_fall(near, far)


def _check_port_limit(numbers: Numbers) -> CheckResults:
    rows = numbers.steps[numbers.steps["benchmark"] == "bandwidth"]
    for row in to_records(rows[rows["core_ghz"].notna()]):
        ports = find_core_limits(numbers.run).ports.get(row["variant"])
        if a_cycle := ports and ports.bytes_per_cycle(row["operation"]):
            rate, limit = (
                1 / row["median_ns"],
                a_cycle * row["core_ghz"] * row["threads"],
            )
            over = rate > OVER * limit * (1 + _read_spread(row))
            yield (
                rate / limit,
                f"{row['point']}: {rate:.0f} GB/s, {limit:.0f} at most",
                over,
            )


def _check_group_rate(numbers: Numbers) -> CheckResults:
    moved = numbers.levels[numbers.levels["benchmark"] == "bandwidth"]
    yield from _check_group_sum(
        moved, ["benchmark", "variant", "setting", "level"], "GB/s"
    )
    multiplied = numbers.pairs[numbers.pairs["benchmark"] == "gemm"]
    points = multiplied["point"].map(lambda name: re.sub(r"\.x\d+$", "", str(name)))
    yield from _check_group_sum(
        multiplied.assign(point=points), ["benchmark", "variant", "point"], "Gop/s"
    )


def _check_group_sum(rows: pd.DataFrame, keys: list[str], unit: str) -> CheckResults:
    for key, part in rows.groupby(keys, sort=False):
        alone = part[part["threads"] == 1]
        for row in to_records(part[part["threads"] > 1]) if len(alone) else ():
            best = to_records(alone.sort_values("median_ns"))[0]
            over = best["median_ns"] / row["threads"] / row["median_ns"]
            rates = f"{1 / row['median_ns']:.0f} {unit} by {int(row['threads'])} CPUs"
            says = f"{_format_key(key)}: {rates}, {1 / best['median_ns']:.0f} by one"
            yield over, says, over > _compute_allowed_fall(row, best)


def _check_shared_buffer(numbers: Numbers) -> CheckResults:
    rows = numbers.levels[
        (numbers.levels["level"] == ladders.MEMORY) & (numbers.levels["threads"] > 1)
    ]
    for key, part in rows.groupby(["benchmark", "variant", "threads"], sort=False):
        own, others = (part[part["setting"] == name] for name in ("read", "read one"))
        if len(own) and len(others):
            slower = float(others["median_ns"].median() / own["median_ns"].median())
            says = (
                f"{_format_key(key)} CPUs: one buffer takes {slower:.2f} times as long"
                " as own ones"
            )
            yield (
                slower,
                says,
                slower
                > _compute_allowed_fall(to_records(own)[0], to_records(others)[0]),
            )


def _compare_rows(
    rows: pd.DataFrame,
    others: pd.DataFrame,
    by: Sequence[str],
    limits: tuple[float, float],
) -> CheckResults:
    """Compare medians of `rows` and `others` with equal columns `by`; a ratio beyond
    `limits` is a breach.
    """
    others_by_key: dict[Any, pd.DataFrame] = dict(
        iter(others.groupby([*by], sort=False))
    )
    for key, part in rows.groupby([*by], sort=False):
        if key in others_by_key:
            sides = part, others_by_key[key]
            (ns, spread), (to_ns, to_spread) = map(_compute_median_and_spread, sides)
            ratio, open_by = ns / to_ns, 1 + spread + to_spread
            points = (to_records(side)[0] for side in sides)
            named, to = (
                row["benchmark"] if is_none(row["point"]) else row["point"]
                for row in points
            )
            says = (
                f"{part['relation'].iloc[0]} {named}: {ns:.1f} ns, {to} {to_ns:.1f} ns"
                f" ({ratio:.2f})"
            )
            fits = limits[0] / open_by <= ratio <= limits[1] * open_by
            yield max(ratio, 1 / ratio), says, not fits


def _check_contend_sharing(numbers: Numbers) -> CheckResults:
    columns = ["variant", "operation", "relation", "threads"]
    for (near, far), limit in PLACES.items():
        rows = numbers.select("contend", sharing=near)
        rows = rows[rows["operation"] != "store"]  # a core merges them
        yield from _compare_rows(
            rows, numbers.select("contend", sharing=far), columns, (limit, math.inf)
        )


def _check_own_scaling(numbers: Numbers) -> CheckResults:
    rows = numbers.select("contend", sharing="own")
    by_threads = rows.assign(median_ns=rows["median_ns"] * rows["threads"]).groupby(
        "threads"
    )
    fewest, *more = (part for _, part in by_threads) if len(rows) else (rows,)
    for part in more:
        yield from _compare_rows(
            part, fewest, ["variant", "operation"], (0.0, OWN_LINES)
        )


def _check_loaded_rate(numbers: Numbers) -> CheckResults:
    moved = numbers.select_level("bandwidth", ladders.MEMORY)
    rows = numbers.pairs[
        (numbers.pairs["benchmark"] == "loaded") & numbers.pairs["load_mbps"].isna()
    ]
    for row in to_records(rows):
        alone = moved[
            (moved["setting"] == row["operation"])
            & (moved["threads"] == row["threads"] - 1)
        ]
        if len(alone):
            ns, spread = _compute_median_and_spread(alone)
            says = (
                f"{row['point']}: {row['other_rate']:.1f} GB/s, {1 / ns:.1f} without"
                " the chase"
            )
            share = row["other_rate"] * ns
            yield share, says, share > MORE_THAN_ALONE * (1 + spread)


def _check_message_readwrite(numbers: Numbers) -> CheckResults:
    if is_none(numbers.run["clock_cost_ticks"]):
        return
    reading = numbers.run["clock_cost_ticks"] * 1e9 / numbers.run["ticks_per_second"]
    hand_offs = dict(iter(numbers.select("readwrite").groupby("relation")))
    for relation, part in numbers.select("message").groupby("relation", sort=False):
        if relation in hand_offs:
            (ns, spread), (to_ns, to_spread) = map(
                _compute_median_and_spread, (part, hand_offs[relation])
            )
            more, open_ns = ns - to_ns, ns * spread + to_ns * to_spread
            says = (
                f"{relation!s}: message {ns:.1f} ns, readwrite {to_ns:.1f} ns, a"
                f" reading {reading:.1f} ns"
            )
            yield (
                max(ns / to_ns, 1.0),
                says,
                not -open_ns <= more <= READINGS * reading + open_ns,
            )


def _check_gemm_peak(numbers: Numbers) -> CheckResults:
    rows = numbers.pairs[numbers.pairs["benchmark"] == "gemm"]
    for key, part in rows.groupby(
        ["variant", "threads", "ping_cpu", "pong_cpu"], sort=False
    ):
        is_peak = part["point"].astype(str).str.startswith("peak")
        for row in to_records(part[~is_peak]) if is_peak.any() else ():
            peak, spread = _compute_median_and_spread(part[is_peak])
            share = peak / row["median_ns"]
            peak_ghz = part[is_peak]["core_ghz"].median()
            if not is_none(peak_ghz) and not is_none(row["core_ghz"]):
                share *= peak_ghz / row["core_ghz"]
            says = f"gemm/{key[0]} {row['point']}: {share:.0%} of the peak of its unit"
            yield share, says, share > OVER * (1 + spread + _read_spread(row, 0.0))


def _check_gemm_limit(numbers: Numbers) -> CheckResults:
    rows = numbers.pairs[numbers.pairs["benchmark"] == "gemm"]
    limits = find_core_limits(numbers.run).operations
    is_peak = rows["point"].astype(str).str.startswith("peak")
    for row in to_records(
        rows[is_peak & rows["core_ghz"].notna() & rows["variant"].isin(list(limits))]
    ):
        limit = limits[row["variant"]]
        reached = 1 / row["median_ns"] / row["threads"] / row["core_ghz"]
        says = (
            f"gemm/{row['variant']}: {reached:.0f} operations a cycle, {limit} at most"
        )
        yield reached / limit, says, reached > OVER * limit * (1 + _read_spread(row))


def _check_node_order(numbers: Numbers) -> CheckResults:
    for key, cells in numbers.nodes.groupby(
        ["benchmark", "variant", "setting"], sort=False, observed=True
    ):
        own: dict[Any, pd.DataFrame] = dict(
            iter(cells[ladders.is_local_memory(cells)].groupby("cpu_node"))
        )
        for ends, part in cells[~ladders.is_local_memory(cells)].groupby(
            ["cpu_node", "memory_node"]
        ):
            if ends[0] in own:
                (ns, spread), (own_ns, own_spread) = map(
                    _compute_median_and_spread, (part, own[ends[0]])
                )
                far = (
                    f"node {ends[1]} from node {ends[0]} takes {ns / own_ns:.2f} of"
                    " its own"
                )
                says = f"{_format_key(key)}: {far}"
                yield (
                    own_ns / ns,
                    says,
                    own_ns > (1 + FALL) * ns * (1 + spread + own_spread),
                )


def _compute_median_and_spread(rows: pd.DataFrame) -> tuple[float, float]:
    """Compute the medians of the rows' ns and of their relative half intervals (0 if
    unknown).
    """
    spread = rows["spread"].median()
    return float(rows["median_ns"].median()), 0.0 if is_none(spread) else float(spread)


def _read_spread(row: Mapping[str, Any], unknown: float = UNKNOWN) -> float:
    return unknown if is_none(row["spread"]) else float(row["spread"])


def _compute_allowed_fall(*rows: Mapping[str, Any]) -> float:
    """Return the factor by which one of these numbers may exceed another that should be
    larger.
    """
    return (1 + FALL) * sum(map(_read_spread, rows), 1.0)


def _format_key(key: Any) -> str:
    benchmark, variant, setting, *rest = key
    many = [
        f"x{word}" if isinstance(word, Integral) else str(word) for word in rest[:1]
    ]
    return " ".join(
        [
            f"{benchmark}/{variant}",
            str(setting),
            *(word for word in many if word != "x1"),
        ]
    )


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
    for check, part in comparisons.groupby(
        "check", sort=False
    ):  # in the order of CHECKS
        worst = part.sort_values(
            ["breach", "value"], ascending=False, kind="stable"
        ).iloc[0]
        lines.append(
            (str(check), str(worst["says"]), str(len(part)), str(part["breach"].sum()))
        )
    return lines

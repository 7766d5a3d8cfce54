"""Numbers of one run that must fit together: a table of checks, each with what it takes for a breach.

A breach means that one of two numbers is not what its name says, or that the machine is not what it reports.
Where intervals are known, what they leave open is no breach. docs/flags.md names the usual causes.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from numbers import Integral
from types import MappingProxyType
from typing import Any, cast

from fleet.analysis.frame import Frame, Rows, Values
from fleet.analysis.reduce.core_limits import core_of
from fleet.analysis.reduce.ladders import MEMORY, ladders, plateaus, size_text
from fleet.analysis.reduce.load import view_of, without_points
from fleet.analysis.reduce.nodes import is_local, node_cells
from fleet.analysis.views.text import is_none, records
from fleet.model import View

WHOLE_CYCLES = 0.02  # of the cycles of a load from L1
FEWEST_CYCLES, MOST_CYCLES = 3, 6
FALL = 0.05  # of a ladder that must rise, or of a sum of rates that cannot be exceeded
OVER = 1.02  # times a physical limit
PER_FETCH = (0.6, 1.3)  # a written line, as a multiple of cas
READINGS = 4  # of the clock, by which a message may take longer than readwrite
OWN, FROM_MEMORY = 0.10, 0.20  # of a chase over the same memory
SEPARATE = 1.2  # times own, at most, of stores past the caches to blocks of a page or more
PAGE = 4096
LEAST_MEMORY = 64 << 20  # bytes of a chase that are taken to be in memory where no cache is known
UNKNOWN = 0.05  # how uncertain the median of a single burst is taken to be
COLUMNS = ("check", "value", "says", "breach")
NO_COMPARISONS: Any = Frame([], COLUMNS).astype({"breach": bool})


@dataclass(frozen=True, slots=True)
class Numbers:
    """What checks are made of: a run, its pairs by relation, and its ladders and their levels."""

    run: Mapping[str, Any]
    pairs: Rows
    steps: Rows
    levels: Rows
    nodes: Rows

    def by_relation(self, benchmark: str, **parameters: str) -> dict[str, tuple[float, float]]:
        """As of `_median` by relation, of a benchmark's rows that have these parameters."""
        rows = self.pairs[self.pairs["benchmark"] == benchmark]
        rows = rows if parameters else without_points(rows)
        for name, value in parameters.items():
            rows = rows[rows[name] == value]
        return {str(relation): _median(part) for relation, part in rows.groupby("relation", sort=False)}


Found = Iterator[tuple[float, str, bool]]  # how far off, which numbers, and whether that is a breach


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """One check. name: as in warnings. text: what a breach is, the same for every run."""

    name: str
    text: str
    compared: Callable[[Numbers], Found]


def can_compare(benchmarks: Collection[str]) -> bool:
    """Whether runs of these have numbers that must fit together; a name may have a variant behind it."""
    return any(
        view_of(name) not in (View.MATRIX, View.CPUS) or name.partition("/")[0] == "message"
        for name in benchmarks
    )


def compared(run: Mapping[str, Any], pairs: Rows, cpus: Rows) -> Rows:
    """Every comparison of one run: `check`, `value`, `says` (the numbers) and `breach`, whether it is one.

    run: its row of `runs`. pairs, cpus: its rows of these tables, widened. value: of a breach, how far off,
    as a factor above 1.
    """
    if not can_compare(set(pairs["benchmark"])):
        return cast(Rows, NO_COMPARISONS)
    numbers = Numbers(run, pairs, ladders(pairs), plateaus(pairs, cpus), node_cells(pairs, cpus))
    found = [(check.name, *one) for check in CHECKS for one in check.compared(numbers)]
    made: Rows = type(pairs)(found, columns=list(COLUMNS)).astype({"breach": bool})
    return made


def breaches(found: Rows) -> Rows:
    """Those of the comparisons that are breaches."""
    return found[found["breach"]].reset_index(drop=True)


def _cycles(numbers: Numbers) -> Found:
    rows = numbers.levels[(numbers.levels["benchmark"] == "chase") & (numbers.levels["level"] == "L1")]
    for row in records(rows[rows["core_ghz"].notna()]):
        cycles = row["median_ns"] * row["core_ghz"]
        off = abs(cycles / max(round(cycles), 1) - 1)
        fits = FEWEST_CYCLES - 0.1 < cycles < MOST_CYCLES + 0.1 and off <= max(WHOLE_CYCLES, _uncertain(row))
        yield 1 + off, f"chase {row['setting']} on CPU {row['ping_cpu']}: {cycles:.2f} cycles", not fits


def _order(numbers: Numbers) -> Found:
    rows = numbers.levels[numbers.levels["setting"].isin(["random", "window", "read"])]
    keys = ["benchmark", "variant", "setting", "threads", "ping_cpu", "pong_cpu"]
    for key, ladder in rows.groupby(keys, sort=False):
        for near, far in pairwise(records(ladder.sort_values("least_bytes", kind="stable"))):
            fall = near["median_ns"] / far["median_ns"]
            most = (1 + FALL) * (1 + _uncertain(near) + _uncertain(far))
            ratio = f"1/{fall:.2f} of" if fall > 1 else f"{1 / fall:.2f} times"
            yield fall, f"{_name(key)}: {far['level']} takes {ratio} {near['level']}", fall > most


def _ports(numbers: Numbers) -> Found:
    rows = numbers.steps[numbers.steps["benchmark"] == "bandwidth"]
    for row in records(rows[rows["core_ghz"].notna()]):
        known = core_of(numbers.run).ports.get(row["variant"])
        a_cycle = known.bytes_of(row["operation"]) if known else None
        if a_cycle is None:
            continue
        rate, limit = 1 / row["median_ns"], a_cycle * row["core_ghz"] * row["threads"]
        over = rate > OVER * limit * (1 + _uncertain(row))
        yield rate / limit, f"{row['point']}: {rate:.0f} GB/s, {limit:.0f} at most", over


def _groups(numbers: Numbers) -> Found:
    moved = numbers.levels[numbers.levels["benchmark"] == "bandwidth"]
    yield from _together(moved, ["benchmark", "variant", "setting", "level"], "GB/s")
    multiplied = numbers.pairs[numbers.pairs["benchmark"] == "gemm"]
    points = multiplied["point"].map(lambda name: re.sub(r"\.x\d+$", "", str(name)))
    yield from _together(multiplied.assign(point=points), ["benchmark", "variant", "point"], "Gop/s")


def _together(rows: Rows, keys: list[str], unit: str) -> Found:
    for key, part in rows.groupby(keys, sort=False):
        alone = part[part["threads"] == 1]
        for row in records(part[part["threads"] > 1]) if len(alone) else ():
            best = records(alone.sort_values("median_ns"))[0]
            over = best["median_ns"] / row["threads"] / row["median_ns"]
            says = f"{_name(key)}: {1 / row['median_ns']:.0f} {unit} by {int(row['threads'])} CPUs, "
            says += f"{1 / best['median_ns']:.0f} by one"
            yield over, says, over > (1 + FALL) * (1 + _uncertain(row) + _uncertain(best))


def _shared(numbers: Numbers) -> Found:
    rows = numbers.levels[(numbers.levels["level"] == MEMORY) & (numbers.levels["threads"] > 1)]
    for key, part in rows.groupby(["benchmark", "variant", "threads"], sort=False):
        own, one = (part[part["setting"] == name] for name in ("read", "read one"))
        if len(own) and len(one):
            slower = float(one["median_ns"].median() / own["median_ns"].median())
            uncertain = _uncertain(records(own)[0]) + _uncertain(records(one)[0])
            says = f"{_name(key)} CPUs: one buffer takes {slower:.2f} times as long as own ones"
            yield slower, says, slower > (1 + FALL) * (1 + uncertain)


def _written(numbers: Numbers) -> Found:
    cas = numbers.by_relation("cas")
    fetched = numbers.by_relation("fetch", state="written", order="chase")
    for relation in (relation for relation in cas if relation in fetched):
        (ns, spread), (cas_ns, cas_spread) = fetched[relation], cas[relation]
        ratio, open_by = ns / cas_ns, 1 + spread + cas_spread
        fits = PER_FETCH[0] / open_by <= ratio <= PER_FETCH[1] * open_by
        says = f"{relation}: {ns:.1f} ns, cas {cas_ns:.1f} ns ({ratio:.2f})"
        yield max(ratio, 1 / ratio), says, not fits


def _messages(numbers: Numbers) -> Found:
    if is_none(numbers.run["clock_cost_ticks"]):
        return
    reading = numbers.run["clock_cost_ticks"] * 1e9 / numbers.run["ticks_per_second"]
    hand_offs, messages = numbers.by_relation("readwrite"), numbers.by_relation("message")
    for relation in (relation for relation in hand_offs if relation in messages):
        (ns, spread), (hand_off_ns, hand_off_spread) = messages[relation], hand_offs[relation]
        more, open_ns = ns - hand_off_ns, ns * spread + hand_off_ns * hand_off_spread
        says = f"{relation}: message {ns:.1f} ns, readwrite {hand_off_ns:.1f} ns, a reading {reading:.1f} ns"
        yield max(ns / hand_off_ns, 1.0), says, not -open_ns <= more <= READINGS * reading + open_ns


def _as_chase(numbers: Numbers, state: str, most: float) -> Found:
    """Lines in a state against a chase in the same pages with the same stride: own lines at their size."""
    chased = numbers.pairs[(numbers.pairs["benchmark"] == "chase") & (numbers.pairs["order"] == "random")]
    fetched = numbers.pairs[(numbers.pairs["benchmark"] == "fetch") & (numbers.pairs["order"] == "chase")]
    for row in records(fetched[fetched["state"] == state].drop_duplicates(["pages", "stride_bytes"])):
        same = fetched[(fetched["state"] == state) & (fetched["pages"] == row["pages"])]
        like = chased[(chased["pages"] == row["pages"]) & (chased["stride_bytes"] == row["stride_bytes"])]
        like = like[like["bytes"] == (row["bytes"] if state == "own" else _in_memory(numbers, like))]
        if len(like):
            (ns, spread), (expected, expected_spread) = _median(same), _median(like)
            says = f"{ns:.1f} ns, chase at {size_text(int(like['bytes'].iloc[0]))} {expected:.1f} ns"
            apart = abs(ns / expected - 1) > most + spread + expected_spread
            yield max(ns / expected, expected / ns), says, apart


def _in_memory(numbers: Numbers, chased: Rows) -> float:
    """The largest size, if it is of the level of memory; NaN otherwise."""
    levels = numbers.levels[(numbers.levels["benchmark"] == "chase") & (numbers.levels["level"] == MEMORY)]
    least = levels["least_bytes"].min() if len(levels) else LEAST_MEMORY
    return float(chased["bytes"].where(chased["bytes"] >= least).max())


def _interleaved(numbers: Numbers) -> Found:
    rows = numbers.pairs[(numbers.pairs["benchmark"] == "interleave") & (numbers.pairs["operation"] == "nt")]
    own, shared = (rows[rows["sharing"] == name] for name in ("own", "shared"))
    for block, part in shared[shared["block_bytes"] >= PAGE].groupby("block_bytes", sort=True):
        if len(own):
            (ns, spread), (own_ns, own_spread) = _median(part), _median(own)
            says = f"blocks of {size_text(int(str(block).split('.')[0]))}: {ns / own_ns:.2f} times own"
            yield ns / own_ns, says, ns / own_ns > SEPARATE * (1 + spread + own_spread)


def _products(numbers: Numbers) -> Found:
    rows = numbers.pairs[numbers.pairs["benchmark"] == "gemm"]
    for key, part in rows.groupby(["variant", "threads", "ping_cpu", "pong_cpu"], sort=False):
        is_peak = _are_peaks(part)
        for row in records(part[~is_peak]) if is_peak.any() else ():
            peak, spread = _median(part[is_peak])
            share = peak / row["median_ns"]
            peak_ghz = part[is_peak]["core_ghz"].median()
            if not is_none(peak_ghz) and not is_none(row["core_ghz"]):
                share *= peak_ghz / row["core_ghz"]
            says = f"gemm/{key[0]} {row['point']}: {share:.0%} of the peak of its unit"
            yield share, says, share > OVER * (1 + spread + _known(row))


def _are_peaks(rows: Rows) -> Values:
    return rows["point"].map(lambda name: str(name).startswith("peak")).astype(bool)


def _units(numbers: Numbers) -> Found:
    rows = numbers.pairs[numbers.pairs["benchmark"] == "gemm"]
    limits = core_of(numbers.run).operations
    rows = rows[rows["core_ghz"].notna() & rows["variant"].isin(list(limits))]
    for row in records(rows[_are_peaks(rows)]):
        limit = limits[row["variant"]]
        reached = 1 / row["median_ns"] / row["threads"] / row["core_ghz"]
        says = f"gemm/{row['variant']}: {reached:.0f} operations a cycle, {limit} at most"
        yield reached / limit, says, reached > OVER * limit * (1 + _uncertain(row))


def _nodes(numbers: Numbers) -> Found:
    for key, cells in numbers.nodes.groupby(["benchmark", "variant", "setting"], sort=False, observed=True):
        own: dict[Any, Rows] = dict(iter(cells[is_local(cells)].groupby("cpu_node")))
        for ends, part in cells[~is_local(cells)].groupby(["cpu_node", "memory_node"]):
            if ends[0] in own:
                (ns, spread), (own_ns, own_spread) = _median(part), _median(own[ends[0]])
                far, times = f"node {ends[1]} from node {ends[0]}", f"{ns / own_ns:.2f} of its own"
                says = f"{_name(key)}: {far} takes {times}"
                yield own_ns / ns, says, own_ns > (1 + FALL) * ns * (1 + spread + own_spread)


def _median(rows: Rows) -> tuple[float, float]:
    """The median of pairs in ns, and half the interval of the median pair; 0 where none is known."""
    spread = rows["spread"].median()
    return float(rows["median_ns"].median()), 0.0 if is_none(spread) else float(spread)


def _known(row: Mapping[str, Any]) -> float:
    return 0.0 if is_none(row["spread"]) else float(row["spread"])


def _uncertain(row: Mapping[str, Any]) -> float:
    return UNKNOWN if is_none(row["spread"]) else float(row["spread"])


def _name(key: Any) -> str:
    benchmark, variant, what, *rest = key
    counted = bool(rest) and isinstance(rest[0], Integral) and int(rest[0]) > 1
    many = [f"x{rest[0]}"] if counted else list(rest[:1])
    return " ".join([f"{benchmark}/{variant}", str(what), *(word for word in map(str, many) if word != "1")])


_own = partial(_as_chase, state="own", most=OWN)
_from_memory = partial(_as_chase, state="memory", most=FROM_MEMORY)
CHECKS = (
    CrossCheck("l1_cycles", "a load from L1 does not take a whole number of cycles from 3 to 6", _cycles),
    CrossCheck("ladder_order", "a farther level of memory is faster than a nearer one", _order),
    CrossCheck("port_limit", "memory is faster than the loads and stores of a core can be", _ports),
    CrossCheck("group_rate", "CPUs together move or multiply more than the sum of each alone", _groups),
    CrossCheck("one_buffer", "reading one buffer is slower than reading a buffer each", _shared),
    CrossCheck(
        "fetch_cas", "fetching a written line takes less than 0.6 or more than 1.3 times cas", _written
    ),
    CrossCheck(
        "message_readwrite", "a message takes less than readwrite, or over 4 clock readings more", _messages
    ),
    CrossCheck("fetch_own", "fetching own lines differs from a chase over them by over 10%", _own),
    CrossCheck("fetch_memory", "fetching from memory differs from a chase by over 20%", _from_memory),
    CrossCheck("interleave_nt", "stores past the caches to separate pages disturb each other", _interleaved),
    CrossCheck("node_order", "memory of another NUMA node is nearer than a node's own", _nodes),
    CrossCheck("gemm_peak", "a product of matrices is faster than its unit's peak", _products),
    CrossCheck("gemm_units", "a peak of products is higher than the units of a core can reach", _units),
)
MEANS: Mapping[str, str] = MappingProxyType({check.name: check.text for check in CHECKS})


def summary(found: Rows) -> list[tuple[str, ...]]:
    """A line per check that could be made: its name, the numbers farthest apart, comparisons and breaches.

    found: as `compared` returns it.
    """
    parts = ((check, found[found["check"] == check]) for check in MEANS if len(found))
    return [(check, *_line(part)) for check, part in parts if len(part)]


def _line(part: Rows) -> tuple[str, str, str]:
    worst = part.sort_values(["breach", "value"], ascending=False, kind="stable").iloc[0]
    return str(worst["says"]), str(len(part)), str(part["breach"].sum())

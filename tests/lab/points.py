"""Makes up bursts of the benchmarks that have points, but for ladders of memory.
Seeded, and pure.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from fleet.model import Burst, Count, Parameters, Relation, Topology
from tests.lab.machines import Machine
from tests.lab.simulate import SAMPLES, burst, level, make_ticks

COUNTED = ("cycles", "instructions", "snoop_hit_modified")
# Of a unit, by relation; of an operation of two threads, and of one in each core; of a
# load by the lines it is one of, of a translation by the base pages; shares of the peak
# of products, of those from memory by size.
_MADE_UP = json.loads(Path(__file__).with_suffix(".json").read_text())
_AHEAD_NS = 4.0  # what the clock of the second socket is ahead of the first one's
_OVERLAPPED = 0.12  # of the latency, where a line need not wait for the one before
# of a line written alone, and of one that both write beside each other
_OWN_LINE_NS, _MAX_NS = (
    1.1,
    5.4,
)
_BLOCKS = tuple(64 << power for power in range(0, 11, 2))
_LOAD_NS, _LOAD_BYTES = 97.0, 1 << 28  # of an idle memory
_PEAK_GOPS = 116.0  # of a core
_LINES = 512
_MESSAGES = 100
_OPERATIONS = 1 << 25
_CONTENTIONS = 2048
_LOADS = 1 << 15
_INSTRUCTIONS = 3  # of a line or a message
_FETCHED_PAIRS = 2  # of each relation


@dataclass(frozen=True, slots=True)
class _Point:
    """A point as it is visited: what it is, ns of a unit, units of a sample, and lines
    modified elsewhere.
    """

    benchmark: str
    variant: str
    name: str
    unit: str
    pair: tuple[int, int]
    ns: float
    units: int
    parameters: Parameters
    cpus: tuple[int, ...]
    modified: float | None = None  # of a unit; None where events are not counted
    other_ns: float | None = None  # of the other thread, where both take times
    rate: float | None = (
        None  # units a ns of each other thread, where they do something else
    )


def bursts(machine: Machine, visits: int, at_ns: int) -> Iterator[Burst]:
    """Every burst of the benchmarks below, from `at_ns` after the hello on."""
    chance = random.Random(f"{machine.name} points")
    every = list(points(machine))
    for visit in range(visits):
        for point in chance.sample(every, len(every)):
            at_ns += round(point.ns * point.units * (SAMPLES + 1))
            yield _burst(machine, chance, point, visit, at_ns)


def names(machine: Machine) -> dict[tuple[str, str], list[str]]:
    """The points of each benchmark and variant, in the order of a plan."""
    choices: dict[tuple[str, str], list[str]] = {}
    for point in points(machine):
        of_kind = choices.setdefault((point.benchmark, point.variant), [])
        of_kind += [point.name] if point.name not in of_kind else []
    return choices


def points(machine: Machine) -> Iterator[_Point]:
    """Every point of every pair or group of CPUs."""
    topology = Topology(machine.cpus)
    pairs = {
        pair: topology.relation(*pair)
        for pair in combinations((cpu.cpu for cpu in machine.cpus), 2)
    }
    few = [
        pair
        for each in Relation
        for pair in [p for p in pairs if pairs[p] is each][:_FETCHED_PAIRS]
    ]
    yield from (_message(pair, relation) for pair, relation in pairs.items())
    for pair in few:
        yield from _fetches(pair, pairs[pair])
        yield from _blocks(pair, pairs[pair])
    cores = [cpu.cpu for cpu in machine.cpus if cpu.cpu == cpu.core]
    for cpus in ((0,), tuple(cores)):
        yield from _products(cpus)
    for place, group in enumerate((cores[:2], cores)):
        for words, ns in _MADE_UP["contended_ns"].items():
            yield _make_contended(words, ns[place], tuple(group))
        yield from _make_watched(place, tuple(group))
    yield from _walks()
    yield from _copies()
    yield from _loads(
        tuple(
            cpu.cpu for cpu in machine.cpus if cpu.cpu == cpu.core and not cpu.package
        )
    )


def _message(pair: tuple[int, int], relation: Relation) -> _Point:
    ns = _MADE_UP["message_ns"][relation]
    ahead = _AHEAD_NS * (relation is Relation.SYSTEM)
    names = ("message", "mov", "x1", "message")
    setting = Parameters(pages="base", threads=2)
    return _Point(*names, pair, ns - ahead, _MESSAGES, setting, pair, 1.0, ns + ahead)


def _make_contended(words: str, ns: float, cpus: tuple[int, ...]) -> _Point:
    operation, _, sharing = words.partition(".")
    threads = len(cpus)
    pair = (cpus[0], cpus[-1])
    setting = Parameters(
        operation=operation, sharing=sharing, pages="base", threads=threads
    )
    name = f"{words}.x{threads}"
    return _Point(
        "contend",
        "lock",
        name,
        "operation",
        pair,
        ns * threads,
        _CONTENTIONS,
        setting,
        cpus,
    )


def _make_watched(place: int, cpus: tuple[int, ...]) -> Iterator[_Point]:
    """A write to a line that all others look at, and one that waits until all have
    answered.
    """
    for operation, watched in _MADE_UP["watched"].items():
        ns = watched["ns"][place]
        seen = watched["seen"]
        parameters = Parameters(operation=operation, pages="base", threads=len(cpus))
        name = f"watch.k{len(cpus) - 1}{'.all' if seen == 1 else ''}"
        pair = (cpus[0], cpus[-1])
        rate = seen / ns
        yield _Point(
            "sharing",
            "lock",
            name,
            "write",
            pair,
            ns,
            _CONTENTIONS,
            parameters,
            cpus,
            rate=rate,
        )


def _walks() -> Iterator[_Point]:
    """Loads from one page after the other; of huge pages all translations are at
    hand.
    """
    parts = _MADE_UP["cached_ns"], _MADE_UP["walked_ns"]
    for power in range(4, 17):
        pages = 1 << power
        size = f"{4 << power}K" if power < 8 else f"{4 << power >> 10}M"
        cached, walked = (
            next(ns for most, ns in part if pages <= most) for part in parts
        )
        for kind, ns in (("base", cached + walked), ("huge", cached)):
            parameters = Parameters(
                bytes=pages << 12, stride_bytes=4160, pages=kind, threads=1
            )
            yield _Point(
                "walk",
                "mov",
                f"{size}.{kind}",
                "load",
                (0, 0),
                ns,
                _LOADS,
                parameters,
                (0,),
            )


def _copies() -> Iterator[_Point]:
    """Calls that copy few bytes: a start, and so many bytes a ns."""
    for power in range(4, 13):
        size = str(1 << power) if power < 10 else f"{1 << power >> 10}K"
        for kind, share in (("aligned", 1.0), ("unaligned", 1.5), ("shuffled", 0.7)):
            ns = 2.0 + share * (1 << power) / 128
            parameters = Parameters(bytes=1 << power, operation=kind, threads=1)
            yield _Point(
                "memcpy",
                "libc",
                f"{kind}.{size}",
                "call",
                (0, 0),
                ns,
                _LOADS,
                parameters,
                (0,),
            )


def _loads(cpus: tuple[int, ...]) -> Iterator[_Point]:
    """The more of what the memory gives the others take, the longer a load takes."""
    threads = len(cpus)
    pair = (cpus[0], cpus[-1])
    end = f"x{len(cpus)}.256M.huge"
    parameters = Parameters(
        bytes=_LOAD_BYTES,
        stride_bytes=256,
        pages="huge",
        load_bytes=1 << 26,
        threads=threads,
        load_mbps=0,
    )
    idle = replace(parameters, operation="idle")
    yield _Point(
        "loaded",
        "mov",
        f"idle.{end}",
        "load",
        pair,
        _LOAD_NS,
        _LOADS,
        idle,
        cpus,
        rate=0.0,
    )
    for operation, peak in _MADE_UP["most_gbps"].items():
        for rate in (1, 2, 4, 8, None):
            each = min(rate or peak, peak / (threads - 1))
            share = each * (threads - 1) / peak
            mbps = rate and 1000 * rate
            setting = replace(
                parameters, operation=operation, load_mbps=mbps, load_variant="avx2"
            )
            name = f"at{rate}G" if rate else "full"
            ns = _LOAD_NS * (1 + 0.08 * share**3 / (1.1 - share))
            name = f"{operation}.{name}.{end}"
            yield _Point(
                "loaded",
                "mov",
                name,
                "load",
                pair,
                ns,
                _LOADS,
                setting,
                cpus,
                rate=each,
            )


def _fetches(pair: tuple[int, int], relation: Relation) -> Iterator[_Point]:
    shared = Parameters(
        bytes=_LINES * 256, stride_bytes=256, operation="read", pages="base", threads=2
    )
    for state, ns in _MADE_UP["state_ns"].items():
        modified = float(state == "written" and relation is not Relation.SMT)
        for order, factor in (("chase", 1.0), ("stream", _OVERLAPPED)):
            name = f"{state}.{order}.128K"
            setting = replace(shared, state=state, order=order)
            line = max(ns[relation] * factor, 0.5)
            yield _Point(
                "fetch",
                "mov",
                name,
                "line",
                pair,
                line,
                _LINES,
                setting,
                pair,
                modified,
            )
    setting = replace(shared, operation="swap", state="both", order="chase")
    line = _MADE_UP["swap_ns"][relation]
    yield _Point(
        "fetch", "mov", "both.swap.128K", "line", pair, line, _LINES, setting, pair, 0.0
    )


def _blocks(pair: tuple[int, int], relation: Relation) -> Iterator[_Point]:
    for block in _BLOCKS:
        beside = min(
            _OWN_LINE_NS + _MADE_UP["boundary_ns"][relation] / (block / 64), _MAX_NS
        )
        size = f"{block >> 10}K" if block >= 1 << 10 else str(block)
        for sharing, ns in (("own", _OWN_LINE_NS), ("shared", beside)):
            setting = Parameters(
                bytes=1 << 18,
                block_bytes=block,
                operation="write",
                sharing=sharing,
                pages="base",
                threads=2,
            )
            name = f"{sharing}.write.{size}"
            yield _Point(
                "interleave",
                "avx2",
                name,
                "line",
                pair,
                ns,
                _LINES,
                setting,
                pair,
                other_ns=ns,
            )


def _products(cpus: tuple[int, ...]) -> Iterator[_Point]:
    threads = len(cpus)
    pair = (cpus[0], cpus[-1])
    kind = ("gemm", "avx2")
    every = 1 / _PEAK_GOPS  # ns of an operation
    alone = Parameters(operation="peak", pages="base", threads=threads)
    yield _Point(
        *kind, f"peak.x{threads}", "operation", pair, every, _OPERATIONS, alone, cpus
    )
    for words, share in _MADE_UP["peak_shares"].items():
        what, _, size = words.rpartition(".") if words[-1] in "KM" else (words, "", "")
        alike = replace(alone, stride_bytes=512, operation=what, pages="huge")
        setting = replace(alike, bytes=_MADE_UP["product_bytes"][size])
        name = f"{what}.256x256x256{f'.{size}' if size else ''}.huge.x{threads}"
        yield _Point(
            *kind, name, "operation", pair, every / share, _OPERATIONS, setting, cpus
        )


def _burst(
    machine: Machine, chance: random.Random, point: _Point, visit: int, at_ns: int
) -> Burst:
    slower = level(machine, chance)
    is_product = point.benchmark == "gemm"
    same = is_product or point.benchmark in ("walk", "memcpy")
    ticks = make_ticks(machine, chance, point.ns * point.units * slower)
    others = (ticks,) * (len(point.cpus) - 1) if same else None
    if point.other_ns:
        others = (make_ticks(machine, chance, point.other_ns * point.units * slower),)
    mhz = round(1000 * machine.ghz)
    return burst(
        (point.benchmark, point.variant),
        (visit, at_ns),
        point.pair,
        point.units,
        ticks,
        point=point.name,
        unit=point.unit,
        parameters=point.parameters,
        cpus=point.cpus,
        other_ticks=others,
        other_units=_units_of_others(chance, point, slower),
        core_mhz=(mhz, mhz),
        checked=True if is_product else None,
        counters=_counts(machine, point, slower),
    )


def _units_of_others(
    chance: random.Random, point: _Point, slower: float
) -> tuple[tuple[int, ...], ...] | None:
    """What the others did in each sample: about as much as ping, or at their rate."""
    if point.rate is None and point.benchmark != "contend":
        return None
    units = float(point.units)
    scatter = 0.06
    if (
        point.rate is not None
    ):  # what is seen of a write does not depend on how long it takes
        units *= point.rate * point.ns * (slower if point.benchmark == "loaded" else 1)
        scatter = 0.002 * (point.benchmark == "loaded")
    counts = range(SAMPLES + 1)
    return tuple(
        tuple(round(units * chance.uniform(1 - scatter, 1 + scatter)) for _ in counts)
        for _ in point.cpus[1:]
    )


def _counts(
    machine: Machine, point: _Point, slower: float
) -> tuple[tuple[Count, ...], ...] | None:
    """What COUNTED says of both threads: the lines found modified in the other cache
    are ping's.
    """
    if point.modified is None:
        return None
    units = point.units * (SAMPLES + 1)
    lasted = round(point.ns * units * slower)
    of_ping = (lasted * machine.ghz, _INSTRUCTIONS * units, point.modified * units)
    of_pong = (lasted * machine.ghz, _INSTRUCTIONS * units, 0)
    return tuple(
        tuple((round(count), lasted, lasted) for count in thread)
        for thread in (of_ping, of_pong)
    )

"""Makes up bursts of the benchmarks that have points, but for ladders of memory. Seeded, and pure."""

import random
from collections.abc import Iterator
from itertools import combinations

from fleet.demo.machines import Machine
from fleet.demo.simulate import SAMPLES, burst, level, ticks_of
from fleet.model import Burst, Count, Parameters, Relation, Topology
from fleet.model.frozen import dataclass, replace

COUNTED = ("cycles", "instructions", "snoop_hit_modified")
_SMT, _PACKAGE, _SYSTEM = Relation.SMT, Relation.PACKAGE, Relation.SYSTEM
_MESSAGE_NS = {_SMT: 9.0, _PACKAGE: 61.0, _SYSTEM: 148.0}
_AHEAD_NS = 4.0  # what the clock of the second socket is ahead of the first one's
_STATES = {  # ns of a line, each naming the next
    "own": {_SMT: 1.1, _PACKAGE: 1.1, _SYSTEM: 1.1},
    "written": {_SMT: 5.6, _PACKAGE: 58.0, _SYSTEM: 141.0},
    "clean": {_SMT: 1.9, _PACKAGE: 44.0, _SYSTEM: 96.0},
    "both": {_SMT: 1.1, _PACKAGE: 1.1, _SYSTEM: 1.1},
    "evicted": {_SMT: 31.0, _PACKAGE: 31.0, _SYSTEM: 88.0},
    "memory": {_SMT: 97.0, _PACKAGE: 97.0, _SYSTEM: 152.0},
}
_SWAP_NS = {_SMT: 6.0, _PACKAGE: 63.0, _SYSTEM: 150.0}
_OVERLAPPED = 0.12  # of the latency, where a line need not wait for the one before
_OWN_LINE_NS, _MOST_NS = 1.1, 5.4  # of a line written alone, and of one that both write beside each other
_BOUNDARY_NS = {_SMT: 3.0, _PACKAGE: 44.0, _SYSTEM: 118.0}
_BLOCKS = tuple(64 << power for power in range(0, 11, 2))
_CONTENDED_NS = {  # of an operation of all threads together: of two, and of one in each core
    "faa.one": (28.0, 61.0),
    "faa.words": (27.0, 60.0),
    "faa.own": (2.6, 0.7),
    "swap.one": (28.0, 62.0),
    "cas.one": (55.0, 190.0),
    "turn.one": (54.0, 118.0),
    "ticket.one": (67.0, 171.0),
    "mcs.one": (121.0, 236.0),
}
_WATCHED = {"watch": ((21.0, 66.0), 0.3), "watch-all": ((112.0, 431.0), 1.0)}  # ns, and how many are seen
_CACHED_NS = ((768, 1.31), (32768, 3.9), (1 << 16, 13.6))  # of a load, by the lines it is one of
_WALKED_NS = ((64, 0.0), (2048, 1.9), (1 << 16, 8.4))  # of a translation, by the base pages
_LOAD_NS, _MOST_GBPS = 97.0, {"read": 16.0, "mix": 13.0}  # of an idle memory, and of all threads of a package
_LOAD_BYTES = 1 << 28
_PEAK_GOPS = 116.0  # of a core
_SHARES = {  # of the peak: by how products are made, and of those from memory by size
    "hot.rows": 0.81,
    "hot.odd": 0.77,
    "hot.blocked": 0.92,
    "stream.16K": 0.79,
    "stream.4M": 0.62,
    "stream.240M": 0.21,
    "deep.16K": 0.74,
    "deep.4M": 0.55,
    "deep.240M": 0.18,
}
_BYTES = {"16K": 16 << 10, "4M": 4 << 20, "240M": 240 << 20}
_LINES, _MESSAGES, _OPERATIONS, _CONTENTIONS, _LOADS = 512, 100, 1 << 25, 2048, 1 << 15
_INSTRUCTIONS = 3  # of a line or a message
_FETCHED_PAIRS = 2  # of each relation


@dataclass(frozen=True, slots=True)
class _Point:
    """A point as it is visited: what it is, ns of a unit, units of a sample, and lines modified elsewhere."""

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
    rate: float | None = None  # units a ns of each other thread, where they do something else


def bursts(machine: Machine, visits: int, at_ns: int) -> Iterator[Burst]:
    """Every burst of the benchmarks below, from `at_ns` after the hello on."""
    chance, every = random.Random(f"{machine.name} points"), list(points(machine))
    for visit in range(visits):
        for point in chance.sample(every, len(every)):
            at_ns += round(point.ns * point.units * (SAMPLES + 1))
            yield _burst(machine, chance, point, visit, at_ns)


def names(machine: Machine) -> dict[tuple[str, str], list[str]]:
    """The points of each benchmark and variant, in the order of a plan."""
    found: dict[tuple[str, str], list[str]] = {}
    for point in points(machine):
        of_kind = found.setdefault((point.benchmark, point.variant), [])
        of_kind += [point.name] if point.name not in of_kind else []
    return found


def points(machine: Machine) -> Iterator[_Point]:
    """Every point of every pair or group of CPUs."""
    topology = Topology(machine.cpus)
    pairs = {pair: topology.relation(*pair) for pair in combinations((cpu.cpu for cpu in machine.cpus), 2)}
    few = [pair for each in Relation for pair in [p for p in pairs if pairs[p] is each][:_FETCHED_PAIRS]]
    yield from (_message(pair, relation) for pair, relation in pairs.items())
    for pair in few:
        yield from _fetches(pair, pairs[pair])
        yield from _blocks(pair, pairs[pair])
    cores = [cpu.cpu for cpu in machine.cpus if cpu.cpu == cpu.core]
    for cpus in ((0,), tuple(cores)):
        yield from _products(cpus)
    for place, group in enumerate((cores[:2], cores)):
        for words, ns in _CONTENDED_NS.items():
            yield _contended(words, ns[place], tuple(group))
        yield from _watched(place, tuple(group))
    yield from _walks()
    yield from _loads(tuple(cpu.cpu for cpu in machine.cpus if cpu.cpu == cpu.core and not cpu.package))


def _message(pair: tuple[int, int], relation: Relation) -> _Point:
    ns, ahead = _MESSAGE_NS[relation], _AHEAD_NS * (relation is _SYSTEM)
    what = ("message", "mov", "x1", "message")
    return _Point(
        *what, pair, ns - ahead, _MESSAGES, Parameters(pages="base", threads=2), pair, 1.0, ns + ahead
    )


def _contended(words: str, ns: float, cpus: tuple[int, ...]) -> _Point:
    operation, _, sharing = words.partition(".")
    threads, pair = len(cpus), (cpus[0], cpus[-1])
    setting = Parameters(operation=operation, sharing=sharing, pages="base", threads=threads)
    name = f"{words}.x{threads}"
    return _Point("contend", "lock", name, "operation", pair, ns * threads, _CONTENTIONS, setting, cpus)


def _watched(place: int, cpus: tuple[int, ...]) -> Iterator[_Point]:
    """A write to a line that all others look at, and one that waits until all have answered."""
    for operation, (ns, seen) in _WATCHED.items():
        what = Parameters(operation=operation, pages="base", threads=len(cpus))
        name = f"watch.k{len(cpus) - 1}{'.all' if seen == 1 else ''}"
        pair, rate = (cpus[0], cpus[-1]), seen / ns[place]
        yield _Point("sharing", "lock", name, "write", pair, ns[place], _CONTENTIONS, what, cpus, rate=rate)


def _walks() -> Iterator[_Point]:
    """Loads from one page after the other; of huge pages all translations are at hand."""
    for power in range(4, 17):
        pages, size = 1 << power, f"{4 << power}K" if power < 8 else f"{4 << power >> 10}M"
        cached, walked = (next(ns for most, ns in part if pages <= most) for part in (_CACHED_NS, _WALKED_NS))
        for kind, ns in (("base", cached + walked), ("huge", cached)):
            what = Parameters(bytes=pages << 12, stride_bytes=4160, pages=kind, threads=1)
            yield _Point("walk", "mov", f"{size}.{kind}", "load", (0, 0), ns, _LOADS, what, (0,))


def _loads(cpus: tuple[int, ...]) -> Iterator[_Point]:
    """The more of what the memory gives the others take, the longer a load takes."""
    threads, pair, end = len(cpus), (cpus[0], cpus[-1]), f"x{len(cpus)}.256M.huge"
    what = Parameters(
        bytes=_LOAD_BYTES, stride_bytes=256, pages="huge", load_bytes=1 << 26, threads=threads, load_mbps=0
    )
    idle = replace(what, operation="idle")
    yield _Point("loaded", "mov", f"idle.{end}", "load", pair, _LOAD_NS, _LOADS, idle, cpus, rate=0.0)
    for operation, most in _MOST_GBPS.items():
        for asked in (1, 2, 4, 8, None):
            each = min(asked or most, most / (threads - 1))
            share = each * (threads - 1) / most
            setting = replace(
                what, operation=operation, load_mbps=asked and 1000 * asked, load_variant="avx2"
            )
            name, ns = f"at{asked}G" if asked else "full", _LOAD_NS * (1 + 0.08 * share**3 / (1.1 - share))
            name = f"{operation}.{name}.{end}"
            yield _Point("loaded", "mov", name, "load", pair, ns, _LOADS, setting, cpus, rate=each)


def _fetches(pair: tuple[int, int], relation: Relation) -> Iterator[_Point]:
    shared = Parameters(bytes=_LINES * 256, stride_bytes=256, operation="read", pages="base", threads=2)
    for state, ns in _STATES.items():
        modified = float(state == "written" and relation is not _SMT)
        for order, factor in (("chase", 1.0), ("stream", _OVERLAPPED)):
            name, setting = f"{state}.{order}.128K", replace(shared, state=state, order=order)
            line = max(ns[relation] * factor, 0.5)
            yield _Point("fetch", "mov", name, "line", pair, line, _LINES, setting, pair, modified)
    setting = replace(shared, operation="swap", state="both", order="chase")
    yield _Point(
        "fetch", "mov", "both.swap.128K", "line", pair, _SWAP_NS[relation], _LINES, setting, pair, 0.0
    )


def _blocks(pair: tuple[int, int], relation: Relation) -> Iterator[_Point]:
    for block in _BLOCKS:
        beside = min(_OWN_LINE_NS + _BOUNDARY_NS[relation] / (block / 64), _MOST_NS)
        size = f"{block >> 10}K" if block >= 1 << 10 else str(block)
        for sharing, ns in (("own", _OWN_LINE_NS), ("shared", beside)):
            setting = Parameters(
                bytes=1 << 18, block_bytes=block, operation="write", sharing=sharing, pages="base", threads=2
            )
            name = f"{sharing}.write.{size}"
            yield _Point("interleave", "avx2", name, "line", pair, ns, _LINES, setting, pair, other_ns=ns)


def _products(cpus: tuple[int, ...]) -> Iterator[_Point]:
    threads, pair = len(cpus), (cpus[0], cpus[-1])
    kind = ("gemm", "avx2")
    every = 1 / _PEAK_GOPS  # ns of an operation
    alone = Parameters(operation="peak", threads=threads)
    yield _Point(*kind, f"peak.x{threads}", "operation", pair, every, _OPERATIONS, alone, cpus)
    for words, share in _SHARES.items():
        what, _, size = words.rpartition(".") if words[-1] in "KM" else (words, "", "")
        setting = Parameters(
            bytes=_BYTES.get(size, 540_736), stride_bytes=512, operation=what, pages="huge", threads=threads
        )
        name = f"{what}.256x256x256{f'.{size}' if size else ''}.huge.x{threads}"
        yield _Point(*kind, name, "operation", pair, every / share, _OPERATIONS, setting, cpus)


def _burst(machine: Machine, chance: random.Random, point: _Point, visit: int, at_ns: int) -> Burst:
    slower, is_product = level(machine, chance), point.benchmark == "gemm"
    alike = is_product or point.benchmark == "walk"
    ticks = ticks_of(machine, chance, point.ns * point.units * slower)
    others = (ticks,) * (len(point.cpus) - 1) if alike else None
    if point.other_ns:
        others = (ticks_of(machine, chance, point.other_ns * point.units * slower),)
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
    units, scatter = float(point.units), 0.06
    if point.rate is not None:  # what is seen of a write does not depend on how long it takes
        units *= point.rate * point.ns * (slower if point.benchmark == "loaded" else 1)
        scatter = 0.002 * (point.benchmark == "loaded")
    each = range(SAMPLES + 1)
    return tuple(
        tuple(round(units * chance.uniform(1 - scatter, 1 + scatter)) for _ in each) for _ in point.cpus[1:]
    )


def _counts(machine: Machine, point: _Point, slower: float) -> tuple[tuple[Count, ...], ...] | None:
    """What COUNTED says of both threads: the lines found modified in the other cache are ping's."""
    if point.modified is None:
        return None
    units = point.units * (SAMPLES + 1)
    lasted = round(point.ns * units * slower)
    of_ping = (lasted * machine.ghz, _INSTRUCTIONS * units, point.modified * units)
    of_pong = (lasted * machine.ghz, _INSTRUCTIONS * units, 0)
    return tuple(tuple((round(count), lasted, lasted) for count in thread) for thread in (of_ping, of_pong))

"""Makes up the bursts of a run: what run, pair and burst each add to a latency. Seeded,
and pure.
"""

import math
import random
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from fleet.model import (
    Burst,
    Parameters,
    Relation,
    Topology,
    add_core_kinds,
    name_core_kinds,
)
from tests.lab.machines import KINDS, Machine, Memory

TICKS_PER_SECOND = 2_100_000_000
SAMPLES = 4
_ITERATIONS = 500
_WARMUP = 1.3  # what the warm-up sample takes more
_BUSY = 0.01  # share of bursts that another thread interrupts
_OTHER_LEVEL = 1.8
_OTHER_SHARE = 0.25
_BURST_NS = 400_000
_LOADS = 20_000
_BYTES = 64 << 20
_ORDERS = {"random": 1.0, "rising": 0.22, "window": 0.85}
_OPERATIONS = {"read": 1.0, "write": 0.6, "copy": 0.8}
_NS_PER_TICK = 1e9 / TICKS_PER_SECOND

Levels = dict[tuple[int, int], float]


def bursts(machine: Machine, number: int, kernel: str) -> Iterator[Burst]:
    """Every burst of the machine's run of this number, in order of time. kernel: "old"
    or "new".
    """
    chance = random.Random(f"{machine.name} {number}")
    levels = _levels(machine, chance, kernel)
    at_ns = 0
    for visit in range(machine.rounds):
        for benchmark, variant, factor in KINDS[machine.arch]:
            if benchmark not in machine.benchmarks:
                continue
            for pair in chance.sample(list(levels), len(levels)):
                at_ns += _BURST_NS
                kind = (benchmark, variant)
                when = (visit, at_ns)
                yield _measure_pair(
                    machine, chance, kind, when, pair, levels[pair] * factor
                )
        if machine.memory is not None:
            for burst in _measure_memory(machine, machine.memory, chance, visit, at_ns):
                at_ns = burst.start_offset_ns
                yield burst


def pairs(machine: Machine) -> int:
    """How many unordered pairs its CPUs make."""
    return len(machine.cpus) * (len(machine.cpus) - 1) // 2


def burst(
    kind: tuple[str, str],
    when: tuple[int, int],
    pair: tuple[int, int],
    iterations: int,
    ticks: tuple[int, ...],
    **more: Any,
) -> Burst:
    """A burst that nothing disturbed, unless `more` says so. kind: benchmark, variant.
    when: round, ns.
    """
    (benchmark, variant), (visit, at_ns), (ping, pong) = kind, when, pair
    return Burst(
        benchmark=benchmark,
        variant=variant,
        round=visit,
        ping_cpu=ping,
        pong_cpu=pong,
        iterations=iterations,
        warmup=1,
        ticks=ticks,
        start_offset_ns=at_ns,
        ping_cpus=(ping, ping),
        pong_cpus=(pong, pong),
        **{"switches": (0, 0, 0, 0), **more},
    )


def make_ticks(machine: Machine, chance: random.Random, ns: float) -> tuple[int, ...]:
    """A warm-up and SAMPLES samples of `ns` nanoseconds each."""
    scattered = (1 + abs(chance.gauss(0, machine.burst_sd / 3)) for _ in range(SAMPLES))
    return tuple(round(ns / _NS_PER_TICK * factor) for factor in (_WARMUP, *scattered))


def level(machine: Machine, chance: random.Random) -> float:
    """How many times as long as others a burst takes."""
    return math.exp(chance.gauss(0, machine.burst_sd))


def _levels(machine: Machine, chance: random.Random, kernel: str) -> Levels:
    """What each pair costs in this run, one way in ns; a pair's own share is the same
    in all runs.
    """
    topology = Topology(machine.cpus)
    own = random.Random(machine.name)
    kinds = name_core_kinds((cpu.cpu, cpu.kind, cpu.capacity) for cpu in machine.cpus)
    run = {relation: math.exp(chance.gauss(0, machine.run_sd)) for relation in Relation}
    if kernel == "new":
        run = {
            relation: shift * (1 + machine.changed.get(relation, 0))
            for relation, shift in run.items()
        }
    levels = {}
    for a, b in combinations((cpu.cpu for cpu in machine.cpus), 2):
        relation = topology.relation(a, b)
        of_kinds = add_core_kinds(relation, kinds.get(a), kinds.get(b)).partition(" ")[
            2
        ]
        usual = machine.ns[relation] * run[relation] * machine.by_kinds.get(of_kinds, 1)
        levels[a, b] = usual * math.exp(own.gauss(0, machine.pair_sd))
    return levels


def _measure_pair(
    machine: Machine,
    chance: random.Random,
    kind: tuple[str, str],
    when: tuple[int, int],
    pair: tuple[int, int],
    one_way: float,
) -> Burst:
    if pair in machine.two_levels and chance.random() < _OTHER_SHARE:
        one_way *= _OTHER_LEVEL
    busy = chance.random() < _BUSY
    ticks = make_ticks(
        machine, chance, 2 * one_way * _ITERATIONS * level(machine, chance)
    )
    if busy:
        ticks = (*ticks[:-1], 4 * ticks[-1])
    flags = ("preempted",) if busy else ()
    ends = pair if when[0] % 2 == 0 else pair[::-1]
    return burst(
        kind, when, ends, _ITERATIONS, ticks, switches=(0, int(busy), 0, 0), flags=flags
    )


def _measure_memory(
    machine: Machine, memory: Memory, chance: random.Random, visit: int, at_ns: int
) -> Iterator[Burst]:
    """One visit to every point of `chase` and `bandwidth`, on the first CPU."""
    mhz = round(1000 * machine.ghz)
    for size in memory.sizes:
        ns, rate = next(
            (ns, rate) for up_to, ns, rate in memory.levels if size <= up_to
        )
        name = f"{size >> 10}K" if size % (1 << 20) else f"{size >> 20}M"
        points: list[tuple[tuple[str, str], str, str, int, float, Parameters]] = []
        for order, factor in _ORDERS.items():
            stride = 256 if order == "random" else 64
            took_ns = max(ns * factor, memory.levels[0][1]) * _LOADS
            parameters = Parameters(
                bytes=size, stride_bytes=stride, order=order, pages="huge", threads=1
            )
            points.append(
                (
                    ("chase", "mov"),
                    f"{order}.{name}.huge",
                    "load",
                    _LOADS,
                    took_ns,
                    parameters,
                )
            )
        for operation, factor in _OPERATIONS.items():
            point = f"{operation}.own.{name}.huge.x1"
            took_ns = _BYTES / (rate * factor)
            parameters = Parameters(
                bytes=size, operation=operation, sharing="own", pages="huge", threads=1
            )
            points.append(
                (("bandwidth", "avx2"), point, "byte", _BYTES, took_ns, parameters)
            )
        for kind, point, unit, iterations, took_ns, parameters in points:
            at_ns += _BURST_NS
            ticks = make_ticks(machine, chance, took_ns * level(machine, chance))
            of_point = {
                "point": point,
                "unit": unit,
                "parameters": parameters,
                "cpus": (0,),
            }
            more = {**of_point, "core_mhz": (mhz, mhz), "checked": False}
            yield burst(kind, (visit, at_ns), (0, 0), iterations, ticks, **more)

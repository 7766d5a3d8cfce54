"""Makes up the bursts of a run: what run, pair and burst each add to a latency. Seeded, and pure."""

import math
import random
from collections.abc import Iterator
from itertools import combinations_with_replacement

from fleet.demo.machines import KINDS, Machine, Memory
from fleet.model import Burst, Parameters, Relation, Topology

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
    """Every burst of the machine's run of this number, in order of time. kernel: "old" or "new"."""
    chance = random.Random(f"{machine.name} {number}")
    levels, at_ns = _levels(machine, chance, kernel), 0
    for visit in range(machine.rounds):
        for benchmark, variant, factor in KINDS[machine.arch]:
            if benchmark not in machine.benchmarks:
                continue
            for pair in chance.sample(list(levels), len(levels)):
                at_ns += _BURST_NS
                yield _of_pair(
                    machine, chance, (benchmark, variant, visit, at_ns), pair, levels[pair] * factor
                )
        if machine.memory is not None:
            for burst in _of_memory(machine, machine.memory, chance, visit, at_ns):
                at_ns = burst.start_offset_ns
                yield burst


def pairs(machine: Machine) -> int:
    """How many unordered pairs its CPUs make."""
    return len(machine.cpus) * (len(machine.cpus) - 1) // 2


def _levels(machine: Machine, chance: random.Random, kernel: str) -> Levels:
    """What each pair costs in this run, one way in ns; a pair's own share is the same in all runs."""
    topology, own = Topology(machine.cpus), random.Random(machine.name)
    run = {relation: math.exp(chance.gauss(0, machine.run_sd)) for relation in Relation}
    if kernel == "new":
        run = {relation: shift * (1 + machine.changed.get(relation, 0)) for relation, shift in run.items()}
    found = {}
    for a, b in combinations_with_replacement((cpu.cpu for cpu in machine.cpus), 2):
        if a != b:
            relation = topology.relation(a, b)
            found[a, b] = machine.ns[relation] * run[relation] * math.exp(own.gauss(0, machine.pair_sd))
    return found


def _of_pair(
    machine: Machine,
    chance: random.Random,
    what: tuple[str, str, int, int],
    pair: tuple[int, int],
    one_way: float,
) -> Burst:
    benchmark, variant, visit, at_ns = what
    if pair in machine.two_levels and chance.random() < _OTHER_SHARE:
        one_way *= _OTHER_LEVEL
    busy = chance.random() < _BUSY
    ticks = _ticks(machine, chance, 2 * one_way * _ITERATIONS)
    if busy:
        ticks = (*ticks[:-1], 4 * ticks[-1])
    ping, pong = pair if visit % 2 == 0 else pair[::-1]
    return Burst(
        benchmark=benchmark,
        variant=variant,
        round=visit,
        ping_cpu=ping,
        pong_cpu=pong,
        iterations=_ITERATIONS,
        warmup=1,
        ticks=ticks,
        start_offset_ns=at_ns,
        ping_cpus=(ping, ping),
        pong_cpus=(pong, pong),
        switches=(0, int(busy), 0, 0),
        flags=("preempted",) if busy else (),
    )


def _ticks(machine: Machine, chance: random.Random, ns: float) -> tuple[int, ...]:
    """A warm-up and SAMPLES samples of `ns` nanoseconds each."""
    level = ns / _NS_PER_TICK * math.exp(chance.gauss(0, machine.burst_sd))
    scattered = (level * (1 + abs(chance.gauss(0, machine.burst_sd / 3))) for _ in range(SAMPLES))
    return tuple(round(ticks) for ticks in (_WARMUP * level, *scattered))


def _of_memory(
    machine: Machine, memory: Memory, chance: random.Random, visit: int, at_ns: int
) -> Iterator[Burst]:
    """One visit to every point of `chase` and `bandwidth`, on the first CPU."""
    for size in memory.sizes:
        ns, rate = next((ns, rate) for up_to, ns, rate in memory.levels if size <= up_to)
        name = f"{size >> 10}K" if size % (1 << 20) else f"{size >> 20}M"
        for order, factor in _ORDERS.items():
            at_ns += _BURST_NS
            stride = 256 if order == "random" else 64
            parameters = Parameters(bytes=size, stride_bytes=stride, order=order, pages="huge", threads=1)
            ticks = _ticks(machine, chance, max(ns * factor, memory.levels[0][1]) * _LOADS)
            yield _at_point(
                machine, ("chase", "mov", f"{order}.{name}.huge"), _LOADS, ticks, (visit, at_ns), parameters
            )
        for operation, factor in _OPERATIONS.items():
            at_ns += _BURST_NS
            parameters = Parameters(bytes=size, operation=operation, sharing="own", pages="huge", threads=1)
            ticks = _ticks(machine, chance, _BYTES / (rate * factor))
            point = f"{operation}.own.{name}.huge.x1"
            yield _at_point(machine, ("bandwidth", "avx2", point), _BYTES, ticks, (visit, at_ns), parameters)


def _at_point(
    machine: Machine,
    what: tuple[str, str, str],
    iterations: int,
    ticks: tuple[int, ...],
    when: tuple[int, int],
    parameters: Parameters,
) -> Burst:
    benchmark, variant, point = what
    mhz = round(1000 * machine.ghz)
    return Burst(
        benchmark=benchmark,
        variant=variant,
        round=when[0],
        ping_cpu=0,
        pong_cpu=0,
        iterations=iterations,
        warmup=1,
        ticks=ticks,
        start_offset_ns=when[1],
        ping_cpus=(0, 0),
        pong_cpus=(0, 0),
        switches=(0, 0, 0, 0),
        point=point,
        unit="load" if benchmark == "chase" else "byte",
        parameters=parameters,
        cpus=(0,),
        core_mhz=(mhz, mhz),
        checked=False,
    )

"""Simulated fleets, written through the real store: what a run, a pair and a burst add
to a latency.

Their numbers are made up; only their structure is that of real machines.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from fleet.model import Burst, Cpu, Host, Load, Relation, Run, Topology
from fleet.store import Store
from tests import builders

_ROUND_S = 2.0  # from one visit to a pair to the next
_BUSY = 0.01  # share of bursts that lose their CPU


@dataclass(frozen=True)
class Machine:
    """A made-up machine: CPUs, what a pair costs by relation (one way, ns), and how it
    wavers.

    run_sd, pair_sd, burst_sd: relative scatter between runs, between pairs of a
    relation, between bursts.
    two_levels: pairs that spend a third of their bursts at 1.8 times their level.
    drifting: pairs that get 10 % slower during a run.
    """

    name: str
    cpus: tuple[Cpu, ...]
    model: str = "Made-up CPU"
    ns: Mapping[Relation, float] = field(default_factory=lambda: builders.NS)
    run_sd: float = 0.01
    pair_sd: float = 0.03
    burst_sd: float = 0.01
    two_levels: frozenset[tuple[int, int]] = frozenset()
    drifting: frozenset[tuple[int, int]] = frozenset()
    facts: Mapping[str, object] = field(default_factory=dict)


def desktop(name: str = "desktop", **changes: object) -> Machine:
    """8 CPUs: four cores of two siblings."""
    return _machine(name, builders.small_desktop(), "Made-up Desktop 8", changes)


def laptop(name: str = "laptop", **changes: object) -> Machine:
    """32 CPUs: eight fast cores of two siblings, sixteen slow ones in clusters
    of four.
    """
    return _machine(name, builders.hybrid_laptop(), "Made-up Hybrid 32", changes)


def server(name: str = "server", **changes: object) -> Machine:
    """128 CPUs: two packages of 32 cores of two siblings, eight cores to a last-level
    cache.
    """
    return _machine(name, builders.two_sockets(), "Made-up Server 64C", changes)


def one_cpu(name: str = "single") -> Machine:
    """One CPU: no pairs, only the clock."""
    return _machine(name, (Cpu(0),), "Made-up Single", {})


def publish(
    root: Path,
    machine: Machine,
    number: int = 0,
    *,
    rounds: int = 10,
    samples: int = 6,
    benchmarks: tuple[str, ...] = ("cas",),
    session: str = "s20260102T030400Z-00000001",
    labels: Mapping[str, str] = MappingProxyType({}),
    started: str = "",
) -> Run:
    """Store one run of `machine`; `number` tells its runs apart and seeds them.
    started: by default minutes apart.
    """
    chance = random.Random(f"{machine.name} {number}")
    run_id = f"r20260102T{3 + number // 60:02}{number % 60:02}05Z-{chance.getrandbits(32):08x}"
    run = builders.a_run(
        machine.cpus,
        run_id,
        Host(machine.name, "192.0.2.7"),
        benchmarks=benchmarks,
        rounds=rounds,
    )
    facts = replace(
        run.facts, cpu_model=machine.model, load=Load(0.3, 1), **machine.facts
    )  # type: ignore[arg-type]
    usual_start = f"2026-01-02T{3 + number // 60:02}:{number % 60:02}:05Z"
    run = replace(
        run,
        session_id=session,
        facts=facts,
        started_utc=started or usual_start,
        ended_utc=None,
        labels=labels,
    )
    Store(root).publish(run, bursts(run, machine, chance, samples))
    return run


def publish_change(root: Path) -> list[str]:
    """Store six runs of a desktop and return their IDs: three labelled `new=0`, with
    all pairs of a relation alike, then three labelled `new=1`, with pairs that scatter
    by 10 %.
    """
    run_ids = []
    for number in range(6):
        is_new = number >= 3
        machine = desktop("one", pair_sd=0.1 if is_new else 0.0)
        labels = {"new": str(int(is_new))}
        run = publish(root, machine, number, rounds=3, samples=3, labels=labels)
        run_ids.append(run.run_id)
    return run_ids


def bursts(
    run: Run, machine: Machine, chance: random.Random, samples: int
) -> Iterator[Burst]:
    """Every burst of the run in order of time; a pair's own level is the same in all
    runs of a machine.
    """
    level = _levels(machine, chance)
    at_ns = 0
    for visit in range(run.plan.rounds):
        for benchmark in run.plan.benchmarks:
            pairs = [
                pair for pair in level if (pair[0] == pair[1]) == (benchmark == "clock")
            ]
            for low, high in chance.sample(pairs, len(pairs)):
                at_ns += int(_ROUND_S * 1e9 / max(len(level), 1))
                yield _burst(
                    run,
                    machine,
                    chance,
                    (benchmark, visit, low, high, at_ns),
                    level[low, high],
                    samples,
                )


def _burst(
    run: Run,
    machine: Machine,
    chance: random.Random,
    key: tuple[str, int, int, int, int],
    one_way: float,
    samples: int,
) -> Burst:
    benchmark, visit, low, high, at_ns = key
    if (low, high) in machine.two_levels and chance.random() < 0.33:
        one_way *= 1.8
    if (low, high) in machine.drifting:
        one_way *= 1 + 0.1 * visit / max(run.plan.rounds - 1, 1)
    one_way *= math.exp(chance.gauss(0, machine.burst_sd))
    ways = 1 if benchmark == "clock" else 2
    ticks = one_way * ways * builders.ITERATIONS * builders.TICKS_PER_SECOND / 1e9
    busy = chance.random() < _BUSY
    values = [ticks * 1.3] + [
        ticks * math.exp(abs(chance.gauss(0, machine.burst_sd)))
        for _ in range(samples - 1)
    ]
    if busy:
        values[-1] *= 4
    ping, pong = (low, high) if visit % 2 == 0 else (high, low)
    return builders.a_burst(
        benchmark=benchmark,
        variant=builders.default_variant(benchmark),
        round=visit,
        ping_cpu=ping,
        pong_cpu=pong,
        start_offset_ns=at_ns,
        ticks=tuple(round(value) for value in values),
        flags=("preempted",) if busy else (),
    )


def _levels(machine: Machine, chance: random.Random) -> dict[tuple[int, int], float]:
    topology = Topology(machine.cpus)
    own = random.Random(machine.name)
    shifts = {
        relation: math.exp(chance.gauss(0, machine.run_sd)) for relation in Relation
    }
    levels = {}
    for a in (cpu.cpu for cpu in machine.cpus):
        for b in (cpu.cpu for cpu in machine.cpus if cpu.cpu >= a):
            relation = topology.relation(a, b)
            levels[a, b] = (
                machine.ns[relation]
                * shifts[relation]
                * math.exp(own.gauss(0, machine.pair_sd))
            )
    return levels


def _machine(
    name: str, cpus: tuple[Cpu, ...], model: str, changes: dict[str, object]
) -> Machine:
    make: Callable[..., Machine] = Machine
    return make(**{"name": name, "cpus": cpus, "model": model, **changes})

"""Merges what was asked into one plan per host, and says how long it will take. Connects nowhere."""

import random
import secrets
from dataclasses import dataclass, replace

from fleet.errors import UsageError
from fleet.model import (
    Facts,
    Host,
    PairChoice,
    Pairs,
    Plan,
    Relation,
    RequestedOptions,
    Shape,
    Topology,
    benchmark_named,
    merged,
)
from fleet.plan import counters, memory
from fleet.plan.conflicts import check_together
from fleet.plan.cpulist import pairs_text
from fleet.plan.kinds import blocks_listed, sizes_read
from fleet.plan.options import BUDGET_S, FEW_PAIRS, LONGEST_S, EffectiveOptions, effective, of_host
from fleet.store.rows import Relations

_SAMPLE_S = 0.0001  # as long as the agent makes a sample
_BURST_S = 0.0005  # two threads, fresh lines, the first tries of how many round trips a sample needs
_PRODUCT_S = 0.03  # of gemm: preparing the matrices takes most of it
_KINDS, _STREAMS = 7, 3  # points of gemm, and those of them that have sizes
_STATES = ("own", "written", "clean", "both", "evicted", "memory")  # of fetch, by default
_ROUND_TRIP_S = 2e-7  # where the number of round trips is given


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a plan takes: the least rounds, and all that may follow for the precision."""

    least_s: float
    most_s: float

    def __str__(self) -> str:
        least, most = _in_words(self.least_s), _in_words(self.most_s)
        return least if least == most else f"{least} to {most}"


def plan_for(host: Host, requested: RequestedOptions, cpus: int) -> Plan:
    """Merge the options of the command line, those of the host's entry and the defaults, in that order.

    cpus: how many CPUs the host lets us use; a deadline nobody asked for is generous for that many. Raises
    UsageError where options exclude one another.
    """
    check_together((host,), requested)
    plan = merged(merged(Plan(seed=secrets.randbits(31)), of_host(host)), requested)
    if requested.deadline_s is not None:
        return plan
    used = len(plan.cpus) if plan.cpus else cpus
    return replace(plan, deadline_s=min(600 + round(5 * expected(plan, used).most_s), LONGEST_S))


def plan_on(host: Host, requested: RequestedOptions, facts: Facts) -> Plan:
    """The same where the host's CPUs are known: pairs asked for by relation are chosen, events have codes.

    Raises UsageError, also where the sizes take too much of its memory.
    """
    usable = {cpu.cpu for cpu in facts.cpus if cpu.allowed and cpu.online}
    plan = plan_for(host, requested, len(usable))
    memory.check_memory(host, plan, facts)
    measured = usable & set(plan.cpus) if plan.cpus else usable
    pairs, few = (
        _chosen_pairs(host, flag, choice, facts, measured, plan.seed)
        for flag, choice in (("pairs", plan.pairs), ("few-pairs", _few_pairs(plan)))
    )
    events = None if plan.counters is None else counters.resolved(plan.counters, facts)
    return replace(plan, pairs=pairs, few_pairs=few if few and few.listed else None, counters=events)


def _few_pairs(plan: Plan) -> PairChoice | None:
    """The pairs of benchmarks with many points, as requested or by default; None: as of all others."""
    if plan.few_pairs is not None or plan.pairs is not None or not _has_many_points(plan):
        return plan.few_pairs
    return PairChoice(Pairs.PER_RELATION, per_relation=FEW_PAIRS)


def _has_many_points(plan: Plan) -> bool:
    return any(benchmark_named(name).many_points for name in plan.benchmarks)


def _chosen_pairs(
    host: Host, flag: str, choice: PairChoice | None, facts: Facts, measured: set[int], seed: int
) -> PairChoice | None:
    """The choice with its pairs, if those are to be chosen by relation. Raises UsageError."""
    if choice is None or choice.per_relation is None:
        return choice
    try:
        return per_relation(choice.per_relation, facts, measured, seed)
    except ValueError as err:
        raise UsageError(f"{host.name}: --{flag} per-relation:{choice.per_relation}: {err}") from err


def per_relation(count: int, facts: Facts, measured: set[int], seed: int) -> PairChoice:
    """Choose `count` pairs of each relation among `measured`, or all there are; equal seeds choose alike.

    Every pair is looked at once (reservoir sampling), so memory does not grow with the machine. Raises
    ValueError where the list is too long to be passed on.
    """
    relation = Relations(Topology(facts.cpus))
    chance = random.Random(seed)  # noqa: S311 - a choice to repeat, not a secret
    kept: dict[str, list[tuple[int, int]]] = {}
    seen: dict[str, int] = {}
    cpus = sorted(measured)
    for at, one in enumerate(cpus):
        for other in cpus[at + 1 :]:
            name = relation(one, other)
            seen[name] = seen.get(name, 0) + 1
            some = kept.setdefault(name, [])
            if len(some) < count:
                some.append((one, other))
            elif (place := int(chance.random() * seen[name])) < count:
                some[place] = (one, other)
    chosen = tuple(sorted(pair for some in kept.values() for pair in some))
    pairs_text(chosen)
    return PairChoice(Pairs.PER_RELATION, chosen, count)


def expected(plan: Plan, cpus: int, facts: Facts | None = None) -> Duration:
    """Estimate how long a plan takes: samples of about 0.1 ms, and 0.5 ms to set each burst up.

    Bursts of chase and bandwidth last longer by their sizes, which are those of the host's caches if its
    facts are known; the estimate is rough.
    """
    options = effective(plan)
    found = _visits(plan, cpus, facts)
    least = max(options.rounds * sum(seconds for _, seconds in found), options.spread_s)
    if not options.precision:
        return Duration(least, least)
    budget = options.time_budget_s if options.time_budget_s is not None else max(BUDGET_S, 2 * least)
    return Duration(least, max(least, budget))


def bursts(plan: Plan, cpus: int, facts: Facts | None = None) -> int:
    """How many bursts the minimum rounds of a plan take."""
    return effective(plan).rounds * sum(visits for visits, _ in _visits(plan, cpus, facts))


def points(plan: Plan, cpus: int, facts: Facts | None = None) -> int:
    """How many points of memory a round visits, each on its CPUs; 0 without such benchmarks."""
    ladders = [name for name in plan.benchmarks if benchmark_named(name).shape is Shape.GROUP]
    return sum(_of_group(name, plan, cpus, facts)[0] for name in ladders)


def _visits(plan: Plan, cpus: int, facts: Facts | None) -> list[tuple[int, float]]:
    """Of each benchmark the visits of a round, and their seconds."""
    quick_s = _burst_s(effective(plan))
    found = []
    for name in plan.benchmarks:
        match benchmark_named(name).shape:
            case Shape.CPU:
                found.append((cpus, cpus * quick_s))
            case Shape.PAIR:
                count = pairs_of(name, plan, cpus) * _points_of_a_pair(name, plan)
                found.append((count, count * quick_s))
            case Shape.GROUP:
                found.append(_of_group(name, plan, cpus, facts))
    return found


def _points_of_a_pair(name: str, plan: Plan) -> int:
    match name:
        case "message":
            return len(effective(plan).message_lines)
        case "fetch":
            states, operations = plan.states or _STATES, plan.operations or ("read",)
            each = sum(2 if word == "read" else word in ("swap", "write") for word in operations)
            return len(states) * each + (plan.states is None and plan.operations is None)
        case "interleave":
            kinds = sum(word in ("write", "nt") for word in plan.operations or ("write",))
            return 2 * kinds * blocks_listed(effective(plan).blocks)
        case _:
            return 1


def pairs_of(name: str, plan: Plan, cpus: int) -> int:
    """How many pairs one benchmark of a plan visits in a round."""
    few = _few_pairs(plan) if benchmark_named(name).many_points else None
    return pairs(plan if few is None else replace(plan, pairs=few), cpus)


def _of_group(name: str, plan: Plan, cpus: int, facts: Facts | None) -> tuple[int, float]:
    if name == "gemm":
        count = _products(plan, cpus)
        return count, count * _PRODUCT_S
    known = memory.measured(plan, facts) if facts is not None and facts.cpus else None
    found = memory.visits(name, plan, known or memory.unknown_cpus(plan.cpus or range(cpus)))
    return len(found), sum(visit.seconds for visit in found)


def _products(plan: Plan, cpus: int) -> int:
    """Visits of gemm in a round. Which CPUs are alike only the agent finds out: here all of them are."""
    options = effective(plan)
    alone = len(plan.cpus) if plan.cpus else min(cpus, 1)
    groups = sum(alone if word == "1" else 1 for word in options.threads)
    sizes = 1 if options.sizes == "auto" else len(sizes_read(options.sizes))
    return groups * (_KINDS - _STREAMS + _STREAMS * sizes)


def pairs(plan: Plan, cpus: int) -> int:
    """How many pairs each benchmark of a plan without many points visits in a round."""
    choice, all_pairs = effective(plan).pairs, cpus * (cpus - 1) // 2
    if choice.which is Pairs.ORDERED:
        return 2 * all_pairs
    if choice.listed:
        return len(choice.listed)
    if choice.per_relation is not None:  # not chosen yet: as if there were every relation there is
        return min(all_pairs, choice.per_relation * len(Relation))
    return all_pairs


def _burst_s(options: EffectiveOptions) -> float:
    sample_s = options.iterations * _ROUND_TRIP_S if options.iterations else _SAMPLE_S
    return _BURST_S + (options.samples + options.warmup) * sample_s


def _in_words(seconds: float) -> str:
    if seconds < 0.95:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

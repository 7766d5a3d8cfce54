"""Merges what was asked into one plan per host, and says how long it will take. Connects nowhere."""

import random
import secrets
from collections.abc import Sequence
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
from fleet.plan.kinds import blocks_listed, duration_text, sizes_read
from fleet.plan.memory import Spared
from fleet.plan.options import BUDGET_S, LONGEST_S, EffectiveOptions, effective, few_pairs, of_host
from fleet.store.rows import Relations
from fleet.text import counted

_SAMPLE_S = 0.0001  # as long as the agent makes a sample
_BURST_S = 0.0005  # two threads, fresh lines, the first tries of how many round trips a sample needs
_PRODUCT_S = 0.03  # of gemm: preparing the matrices takes most of it
_KINDS, _STREAMS = 7, 3  # points of gemm, and those of them that have sizes
_STATES = ("own", "written", "clean", "both", "evicted", "memory")  # of fetch, by default
_FULL_ROUNDS, _MARGIN = 3, 2  # as in agent/budget.c
_ROUND_TRIP_S = 2e-7  # where the number of round trips is given


_SPARED = {
    Spared.NEVER: "",
    Spared.FIRST: "plateaus only",
    Spared.MEMORY: "plateaus of the caches only",
}


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a plan takes: the least rounds, and all that may follow for the precision."""

    least_s: float
    most_s: float

    def __str__(self) -> str:
        least, most = seconds_text(self.least_s), seconds_text(self.most_s)
        return least if least == most else f"{least} to {most}"


def plan_for(host: Host, requested: RequestedOptions, cpus: int) -> Plan:
    """Merge the options of the command line, those of the host's entry and the defaults, in that order.

    cpus: how many CPUs the host lets us use; a deadline nobody asked for is generous for that many. Raises
    UsageError where options exclude one another, or a round on the CPUs named exceeds the time budget.
    """
    check_together((host,), requested)
    plan = merged(merged(Plan(seed=secrets.randbits(31)), of_host(host)), requested)
    if plan.cpus:
        check_budget(host, plan, len(plan.cpus))
    if requested.deadline_s is not None:
        return plan
    used = len(plan.cpus) if plan.cpus else cpus
    return replace(plan, deadline_s=min(600 + round(5 * expected(plan, used).most_s), LONGEST_S))


def plan_on(host: Host, requested: RequestedOptions, facts: Facts) -> Plan:
    """The same where the host's CPUs are known: pairs asked for by relation are chosen, events have codes.

    Raises UsageError, also where the points take too much of its memory, or a round exceeds the time budget.
    """
    usable = {cpu.cpu for cpu in facts.cpus if cpu.allowed and cpu.online}
    plan = plan_for(host, requested, len(usable))
    measured = usable & set(plan.cpus) if plan.cpus else usable
    pairs, few = (
        _chosen_pairs(host, flag, choice, facts, measured, plan.seed)
        for flag, choice in (("pairs", plan.pairs), ("few-pairs", few_pairs(plan)))
    )
    events = None if plan.counters is None else counters.resolved(plan.counters, facts)
    plan = replace(plan, pairs=pairs, few_pairs=few if few and few.listed else None, counters=events)
    memory.check_memory(host, plan, facts)
    check_budget(host, plan, len(measured), facts)
    return plan


def check_host(host: Host, requested: RequestedOptions, facts: Facts) -> None:
    """Raise UsageError where a host cannot do what is requested, as far as its facts show that."""
    if facts.cpus:
        plan_on(host, requested, facts)


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
    least = max(rounds(plan, cpus, facts) * _round_s(plan, cpus, facts), _spread_s(plan))
    if not options.precision:
        return Duration(least, least)
    budget = options.time_budget_s if options.time_budget_s is not None else max(BUDGET_S, 2 * least)
    return Duration(least, max(least, budget))


def rounds(plan: Plan, cpus: int, facts: Facts | None = None) -> int:
    """The minimum rounds of a plan; where the time budget allows fewer, as many as that, and at least one."""
    options, round_s = effective(plan), _round_s(plan, cpus, facts)
    if not _is_shortened(plan) or options.rounds * round_s <= (options.time_budget_s or 0):
        return options.rounds
    return max(1, int((options.time_budget_s or 0) / round_s))


def rounds_text(plan: Plan, cpus: int, facts: Facts | None = None) -> str:
    """Say how many of the usual rounds the time budget allows; empty where it allows all."""
    found, usual = rounds(plan, cpus, facts), effective(plan).rounds
    limits = [f"{found} of {usual} rounds"] if found < usual else []
    limits += filter(None, [_SPARED[_spares(plan, cpus, facts)]])
    return f" ({', '.join(limits)}, as the time budget allows)" if limits else ""


def over_budget(plan: Plan, cpus: int, facts: Facts | None = None) -> str:
    """Say how long one round takes if the time budget does not allow even that; empty if it does."""
    round_s, budget_s = _round_s(plan, cpus, facts), plan.time_budget_s
    if budget_s is None or round_s <= budget_s or not _is_shortened(plan):
        return ""
    return (
        f"one round of {counted(_bursts(plan, cpus, facts), 'burst')} takes about {seconds_text(round_s)}, "
        f"more than --time-budget {duration_text(budget_s)} allows"
    )


def check_budget(host: Host, plan: Plan, cpus: int, facts: Facts | None = None) -> None:
    """Raise UsageError where not even one round fits into the time budget."""
    if why := over_budget(plan, cpus, facts):
        raise UsageError(
            f"{host.name}: {why}. Set a longer time budget, or measure less: --benchmark, "
            "--pairs per-relation:8 and --cpus reduce a round."
        )


def check_named_cpus(hosts: Sequence[Host], requested: RequestedOptions) -> None:
    """Raise UsageError where a round on CPUs that are named exceeds the time budget; connects nowhere."""
    for host in hosts:
        plan = merged(merged(Plan(), of_host(host)), requested)
        if plan.cpus:
            check_budget(host, plan, len(plan.cpus))


def _is_shortened(plan: Plan) -> bool:
    """Whether a time budget, and no number of rounds, was requested."""
    return plan.time_budget_s is not None and plan.rounds is None and plan.preset is None


def _spread_s(plan: Plan) -> float:
    """How long the minimum rounds last at least: by default no more than half of the time budget."""
    spread_s = effective(plan).spread_s
    if plan.spread_s is not None or plan.time_budget_s is None:
        return spread_s
    return min(spread_s, plan.time_budget_s / 2)


def _spares(plan: Plan, cpus: int, facts: Facts | None) -> Spared:
    """Which points of ladders the time budget leaves out: those spared so, and before (agent/budget.c)."""
    if not _is_shortened(plan) or effective(plan).sizes != "auto":
        return Spared.NEVER
    budget_s = (plan.time_budget_s or 0) / _MARGIN
    if not {"chase", "bandwidth"} & {*plan.benchmarks}:
        return Spared.NEVER
    if (_FULL_ROUNDS + 1) * _seconds(_visits(plan, cpus, facts, Spared.NEVER)) <= budget_s:
        return Spared.NEVER
    round_s = _seconds(_visits(plan, cpus, facts, Spared.FIRST))
    return Spared.FIRST if 2 * round_s <= budget_s else Spared.MEMORY


def _seconds(visits: list[tuple[int, float]]) -> float:
    return sum(seconds for _, seconds in visits)


def _round_s(plan: Plan, cpus: int, facts: Facts | None) -> float:
    return _seconds(_visits(plan, cpus, facts, _spares(plan, cpus, facts)))


def _bursts(plan: Plan, cpus: int, facts: Facts | None) -> int:
    return sum(visits for visits, _ in _visits(plan, cpus, facts, _spares(plan, cpus, facts)))


def bursts(plan: Plan, cpus: int, facts: Facts | None = None) -> int:
    """How many bursts the minimum rounds of a plan take."""
    return rounds(plan, cpus, facts) * _bursts(plan, cpus, facts)


def points(plan: Plan, cpus: int, facts: Facts | None = None) -> int:
    """How many points of memory a round visits, each on its CPUs; 0 without such benchmarks."""
    ladders = [name for name in plan.benchmarks if benchmark_named(name).shape is Shape.GROUP]
    spares = _spares(plan, cpus, facts)
    return sum(_of_group(name, plan, cpus, facts, spares)[0] for name in ladders)


def _visits(plan: Plan, cpus: int, facts: Facts | None, spares: Spared) -> list[tuple[int, float]]:
    """Of each benchmark the visits of a round, and their seconds; without the points spared."""
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
                found.append(_of_group(name, plan, cpus, facts, spares))
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
    few = few_pairs(plan) if benchmark_named(name).many_points else None
    return pairs(plan if few is None else replace(plan, pairs=few), cpus)


def _of_group(name: str, plan: Plan, cpus: int, facts: Facts | None, spares: Spared) -> tuple[int, float]:
    if name == "gemm":
        count = _products(plan, cpus)
        return count, count * _PRODUCT_S
    known = memory.measured(plan, facts) if facts is not None and facts.cpus else None
    found = memory.visits(name, plan, known or memory.unknown_cpus(plan.cpus or range(cpus)))
    found = [visit for visit in found if not Spared.NEVER < visit.spared <= spares]
    written = max((visit.bytes * len(visit.cpus) for visit in found), default=0)
    return len(found), sum(visit.seconds for visit in found) + written * memory.WRITTEN_BYTE_S


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


def seconds_text(seconds: float) -> str:
    """A time as people read it, of two or three digits."""
    if seconds < 0.95:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

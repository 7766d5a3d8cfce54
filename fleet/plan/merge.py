"""Merges what was asked into one plan per host, and chooses pairs by relation. Connects nowhere."""

import os
from collections.abc import Collection
from dataclasses import replace

from fleet.errors import UsageError
from fleet.late import random
from fleet.model import Facts, Host, PairChoice, Pairs, Plan, Relations, RequestedOptions, Topology, merged
from fleet.plan import counters
from fleet.plan.conflicts import check_together
from fleet.plan.cpulist import pairs_text
from fleet.plan.options import few_pairs, of_host


def plan_for(host: Host, requested: RequestedOptions) -> Plan:
    """Merge the command line, the host's entry and the defaults, in that order. Raises UsageError."""
    check_together((host,), requested)
    return merged(merged(Plan(seed=int.from_bytes(os.urandom(4)) >> 1), of_host(host)), requested)


def plan_on(host: Host, requested: RequestedOptions, facts: Facts) -> Plan:
    """The same where CPUs are known: kinds and pairs are chosen, events have codes. Raises UsageError."""
    plan = plan_for(host, requested)
    if isinstance(plan.cpus, str):
        plan = replace(plan, cpus=_of_kind(host, plan.cpus, facts))
    pairs, few = (
        _chosen_pairs(host, flag, choice, facts, measured(plan, facts), plan.seed)
        for flag, choice in (("pairs", plan.pairs), ("few-pairs", few_pairs(plan)))
    )
    events = None if plan.counters is None else counters.resolved(plan.counters, facts)
    return replace(plan, pairs=pairs, few_pairs=few if few and few.listed else None, counters=events)


def measured(plan: Plan, facts: Facts) -> frozenset[int]:
    """The CPUs that the plan is carried out on: of those it names, all online, which the agent tries."""
    online = frozenset(cpu.cpu for cpu in facts.cpus if cpu.online)
    return online.intersection(plan.cpus) if plan.cpus else facts.usable_cpus


def _of_kind(host: Host, kind: str, facts: Facts) -> tuple[int, ...]:
    """The CPUs of this kind of core. Raises UsageError where there is none."""
    kinds = facts.core_kinds
    if found := tuple(cpu for cpu in sorted(facts.usable_cpus) if kinds.get(cpu) == kind):
        return found
    there = ", ".join(sorted({*kinds.values()})) or "one, or the host does not tell"
    raise UsageError(f"{host.name}: --cpus {kind}: no such cores; kinds there: {there}.")


def _chosen_pairs(
    host: Host, flag: str, choice: PairChoice | None, facts: Facts, cpus: frozenset[int], seed: int
) -> PairChoice | None:
    """The choice with its pairs, if those are to be chosen by relation. Raises UsageError."""
    if choice is None or choice.per_relation is None:
        return choice
    try:
        return per_relation(choice.per_relation, facts, cpus, seed)
    except ValueError as err:
        raise UsageError(f"{host.name}: --{flag} per-relation:{choice.per_relation}: {err}") from err


def per_relation(count: int, facts: Facts, among: Collection[int], seed: int) -> PairChoice:
    """Choose `count` pairs of each relation by the seed, in bounded memory (reservoir). ValueError."""
    relation = Relations(Topology(facts.cpus), facts.core_kinds)
    chance = random.Random(seed)
    kept: dict[str, list[tuple[int, int]]] = {}
    seen: dict[str, int] = {}
    cpus = sorted(among)
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

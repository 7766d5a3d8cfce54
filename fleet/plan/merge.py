"""Merges the requested options into one plan per host, and chooses pairs by relation.
Connects nowhere.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import replace
from itertools import chain, combinations

from fleet import model
from fleet.errors import UsageError
from fleet.late import random
from fleet.plan import counters
from fleet.plan.conflicts import require_no_conflicts
from fleet.plan.cpulist import require_formattable
from fleet.plan.options import effective_few_pairs, options_for_host


def merge_plan(host: model.Host, requested: model.RequestedOptions) -> model.Plan:
    """Return a plan of defaults, overridden by the host's entry, then the command line.
    Raises UsageError.
    """
    require_no_conflicts((host,), requested)
    plan = model.Plan(seed=int.from_bytes(os.urandom(4)) >> 1)
    return model.override_options(plan, options_for_host(host, requested))


def merge_plan_with_facts(
    host: model.Host, requested: model.RequestedOptions, facts: model.Facts
) -> model.Plan:
    """Return the plan of a host: the options of its entry, overridden by those
    requested. What a user may ask for in words becomes numbers by the facts: kinds of
    core, how many pairs of each relation, and groups of events. Raises UsageError.
    """
    plan = merge_plan(host, requested)
    if isinstance(plan.cpus, str):
        plan = replace(plan, cpus=_find_named_cpus(host, plan.cpus, facts))
    cpus = cpus_to_measure(plan, facts)
    pairs = _resolve_pairs(f"{host.name}: --pairs", plan.pairs, facts, cpus, plan.seed)
    few_pairs = _resolve_pairs(
        f"{host.name}: few_pairs", effective_few_pairs(plan), facts, cpus, plan.seed
    )
    # where one CPU is measured there are no pairs, and the list of few_pairs is empty
    if few_pairs and not few_pairs.listed:
        few_pairs = None
    events = plan.counters
    if events is not None:
        events = counters.agent_events(events, facts)
    return replace(plan, pairs=pairs, few_pairs=few_pairs, counters=events)


def _resolve_pairs(
    where: str,
    choice: model.PairChoice | None,
    facts: model.Facts,
    cpus: Collection[int],
    seed: int,
) -> model.PairChoice | None:
    """Return which pairs to measure. A choice of so many pairs of each relation becomes
    a list of such pairs among `cpus`, drawn by `seed`. Any other choice is returned as
    it is.

    where: the option, with which an error begins. Raises UsageError.
    """
    if choice is None or not choice.per_relation:
        return choice
    count = choice.per_relation
    sampled = sample_pairs_per_relation(count, facts, cpus, seed)
    try:
        # raise its error if there are too many pairs for a program's argument
        require_formattable(sampled.listed)
    except model.InputError as err:
        raise UsageError(f"{where} per-relation:{count}: {err}") from err
    return sampled


def cpus_to_measure(plan: model.Plan, facts: model.Facts) -> frozenset[int]:
    """Return the online CPUs that `--cpus` names; without it, the usable ones and those
    of `--pairs`.
    """
    online = {cpu.cpu for cpu in facts.cpus if cpu.online}
    plan_cpus = named_cpus(plan) & online
    if plan.cpus:
        return plan_cpus
    return facts.usable_cpus | plan_cpus


def named_cpus(plan: model.Plan) -> frozenset[int]:
    """Return the CPUs that `--cpus` or else `--pairs` names, which may be outside the
    affinity mask.
    """
    if isinstance(plan.cpus, str):
        return frozenset()  # a kind of core, which names no CPU
    if plan.cpus is not None:
        return frozenset(plan.cpus)
    if plan.pairs is None or plan.pairs.which is not model.Pairs.LISTED:
        return frozenset()
    return frozenset(chain(*plan.pairs.listed))


def _find_named_cpus(
    host: model.Host, kind: str, facts: model.Facts
) -> tuple[int, ...]:
    """Return the usable CPUs of a kind of core, such as "P", or one CPU of each core if
    `kind` is CORES. Raises UsageError if there is none.
    """
    usable_cpus = facts.usable_cpus
    if kind == model.CORES:
        usable = [cpu for cpu in facts.cpus if cpu.cpu in usable_cpus]
        cores = [(cpu.cpu, cpu.package, cpu.core) for cpu in usable]
        if cpus := model.take_one_of_each_core(cores):
            return cpus
        raise UsageError(
            f"{host.name}: --cpus {model.CORES}: the host does not say which CPUs share"
            " a core."
        )
    kinds = facts.core_kinds  # by CPU number; empty if all are of one
    if cpus := tuple(cpu for cpu in sorted(usable_cpus) if kinds.get(cpu) == kind):
        return cpus
    listed = ", ".join(sorted({*kinds.values()}))
    raise UsageError(
        f"{host.name}: --cpus {kind}: no such cores; kinds there:"
        f" {listed or 'one, or the host does not tell'}."
    )


def sample_pairs_per_relation(
    count: int, facts: model.Facts, among: Collection[int], seed: int
) -> model.PairChoice:
    """Choose up to `count` random pairs of each relation among these CPUs, reproducibly
    by the seed.
    """
    # Reservoir sampling (Vitter's algorithm R): the nth pair of a relation replaces one
    # of its sample with a chance of count / n.
    topology = model.Topology(facts.cpus, facts.core_kinds)
    chance = random.Random(seed)
    samples: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    pairs_so_far: Counter[str] = Counter()
    for pair in combinations(sorted(among), 2):
        ping, pong = pair
        relation = topology.name_relation(ping, pong)
        sample = samples[relation]
        pairs_so_far[relation] += 1
        if len(sample) < count:
            sample.append(pair)
            continue
        position = int(chance.random() * pairs_so_far[relation])
        if position < count:
            sample[position] = pair
    pairs = sorted(chain.from_iterable(samples.values()))
    return model.PairChoice(model.Pairs.PER_RELATION, tuple(pairs), count)

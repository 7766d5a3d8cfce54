"""Merges the requested options into one plan per host, and chooses pairs by relation.
Connects nowhere.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import replace
from itertools import combinations

from fleet import model
from fleet.errors import UsageError
from fleet.late import random
from fleet.plan import counters
from fleet.plan.conflicts import require_no_conflicts
from fleet.plan.cpulist import format_pairs
from fleet.plan.options import effective_few_pairs, options_from_entry


def merge_plan(host: model.Host, requested: model.RequestedOptions) -> model.Plan:
    """Return a plan of defaults, overridden by the host's entry, then the command line.
    Raises UsageError.
    """
    require_no_conflicts((host,), requested)
    plan = model.Plan(seed=int.from_bytes(os.urandom(4)) >> 1)
    return model.override_options(
        model.override_options(plan, options_from_entry(host)), requested
    )


def merge_plan_with_facts(
    host: model.Host, requested: model.RequestedOptions, facts: model.Facts
) -> model.Plan:
    """Merge a plan, then resolve its kinds of core, pairs and events by the facts.
    Raises UsageError.
    """
    plan = merge_plan(host, requested)
    if isinstance(plan.cpus, str):
        plan = replace(plan, cpus=_find_named_cpus(host, plan.cpus, facts))
    cpus = cpus_to_measure(plan, facts)
    choices = {"pairs": plan.pairs, "few-pairs": effective_few_pairs(plan)}
    for flag, choice in choices.items():
        if choice and (count := choice.per_relation):
            choices[flag] = sampled = sample_pairs_per_relation(
                count, facts, cpus, plan.seed
            )
            try:
                format_pairs(sampled.listed)
            except model.InputError as err:
                raise UsageError(
                    f"{host.name}: --{flag} per-relation:{count}: {err}"
                ) from err
    pairs, few = choices.values()
    events = (
        None if plan.counters is None else counters.agent_events(plan.counters, facts)
    )
    return replace(
        plan,
        pairs=pairs,
        few_pairs=few if few and few.listed else None,
        counters=events,
    )


def cpus_to_measure(plan: model.Plan, facts: model.Facts) -> frozenset[int]:
    """Return the online CPUs that `--cpus` names; without it, the usable ones and those
    of `--pairs`.
    """
    named = named_cpus(plan).intersection(cpu.cpu for cpu in facts.cpus if cpu.online)
    return named if plan.cpus else facts.usable_cpus | named


def named_cpus(plan: model.Plan) -> frozenset[int]:
    """Return the CPUs that `--cpus` or else `--pairs` names, which may be outside the
    affinity mask.
    """
    if plan.cpus is not None:
        return frozenset(() if isinstance(plan.cpus, str) else plan.cpus)
    listed = (
        plan.pairs.listed
        if plan.pairs and plan.pairs.which is model.Pairs.LISTED
        else ()
    )
    return frozenset(cpu for pair in listed for cpu in pair)


def _find_named_cpus(
    host: model.Host, kind: str, facts: model.Facts
) -> tuple[int, ...]:
    """Return the CPUs of this kind of core, or one CPU of each core. Raises UsageError
    if there is none.
    """
    if kind == model.CORES:
        usable = (cpu for cpu in facts.cpus if cpu.cpu in facts.usable_cpus)
        if cpus := model.take_one_of_each_core(
            (cpu.cpu, cpu.package, cpu.core) for cpu in usable
        ):
            return cpus
        raise UsageError(
            f"{host.name}: --cpus {model.CORES}: the host does not say which CPUs share"
            " a core."
        )
    kinds = facts.core_kinds
    if cpus := tuple(
        cpu for cpu in sorted(facts.usable_cpus) if kinds.get(cpu) == kind
    ):
        return cpus
    kinds_on_host = (
        ", ".join(sorted({*kinds.values()})) or "one, or the host does not tell"
    )
    raise UsageError(
        f"{host.name}: --cpus {kind}: no such cores; kinds there: {kinds_on_host}."
    )


def sample_pairs_per_relation(
    count: int, facts: model.Facts, among: Collection[int], seed: int
) -> model.PairChoice:
    """Choose up to `count` random pairs of each relation among these CPUs, reproducibly
    by the seed.
    """
    topology = model.Topology(facts.cpus, facts.core_kinds)
    chance = random.Random(seed)
    samples, seen = defaultdict[str, list[tuple[int, int]]](list), Counter[str]()
    for pair in combinations(sorted(among), 2):
        name = topology.name_relation(*pair)
        seen[name] += 1
        if len(samples[name]) < count:
            samples[name].append(pair)
        elif (place := int(chance.random() * seen[name])) < count:
            samples[name][place] = pair
    chosen = tuple(sorted(pair for sample in samples.values() for pair in sample))
    return model.PairChoice(model.Pairs.PER_RELATION, chosen, count)

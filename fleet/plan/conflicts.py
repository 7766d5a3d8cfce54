"""Finds plan options that exclude one another, before the agent would refuse them on
the host.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from fleet.errors import UsageError
from fleet.model import BENCHMARKS, Host, RequestedOptions, Shape
from fleet.plan.agent_options import RULES
from fleet.plan.cpulist import format_cpus
from fleet.plan.options import (
    BURST_SAMPLES,
    BY_FLAG,
    BY_NAME,
    DEFAULTS,
    PRESETS,
    EffectiveOptions,
    options_for_host,
    options_from_entry,
    resolve_defaults,
)
from fleet.text import format_count

_MAX_MESSAGES = 20
_WITHOUT_PAIRS = (
    "a pair needs two CPUs; name another, or measure only benchmarks of single CPUs,"
    " such as clock"
)


class Conflict(NamedTuple):
    """Options that exclude one another by their values or defaults, and why."""

    names: tuple[str, ...]
    why: str


def find_conflicts(options: RequestedOptions) -> Iterator[Conflict]:
    """Yield combinations of options that the agent would refuse, though each value is
    allowed by itself.
    """
    resolved = resolve_defaults(options)
    yield from _find_long_bursts(options, resolved)
    yield from _find_broken_rules(options, resolved)
    yield from _find_benchmark_conflicts(options, resolved)
    yield from _find_cpu_conflicts(options, resolved)


def _find_unused(
    requested: RequestedOptions, resolved: EffectiveOptions
) -> Iterator[Conflict]:
    """Yield the options of the command line that none of the benchmarks takes. Those of
    an inventory's entry are no mistake: they are there for other runs.
    """
    for name, option in BY_NAME.items():
        benchmarks = option.list_benchmarks()  # empty: all benchmarks take it
        is_requested = getattr(requested, name) is not None
        is_unused = benchmarks and benchmarks.isdisjoint(resolved.benchmarks)
        if is_requested and is_unused:
            takers = ", ".join(sorted(benchmarks))
            measured = ", ".join(resolved.benchmarks)
            why = f"it is for {takers}, and this run measures {measured}"
            yield Conflict((name,), why)


def _find_long_bursts(
    options: RequestedOptions, resolved: EffectiveOptions
) -> Iterator[Conflict]:
    """Yield the options that make bursts of more samples than one can have."""
    if resolved.samples + resolved.warmup <= BURST_SAMPLES:
        return
    names = [_find_deciding_option(options, name) for name in ("samples", "warmup")]
    why = f"a burst has at most {BURST_SAMPLES} samples, warm-ups included"
    yield Conflict(tuple(dict.fromkeys(names)), why)


def _find_broken_rules(
    options: RequestedOptions, resolved: EffectiveOptions
) -> Iterator[Conflict]:
    """Yield the options that break a rule of the agent. By a rule, a requested option
    either excludes another option, or needs another option to be on.
    """
    for rule in RULES:
        name = BY_FLAG[rule.name].name
        other_name = BY_FLAG[rule.other].name
        if getattr(options, name) is None:
            continue
        is_other_requested = getattr(options, other_name) is not None
        if rule.relation == "excludes" and is_other_requested:
            yield Conflict((name, other_name), rule.why)
        if rule.relation == "needs" and not getattr(resolved, other_name):
            # One rule is of this kind: a time budget needs a precision. That is on by
            # default, so its own option has turned it off, or else `rounds` has, which
            # the user or the preset sets. Name the option that did.
            deciding_name = other_name
            if not is_other_requested:
                deciding_name = _find_deciding_option(options, "rounds")
            yield Conflict((name, deciding_name), rule.why)


def _find_benchmark_conflicts(
    options: RequestedOptions, resolved: EffectiveOptions
) -> Iterator[Conflict]:
    """Yield how the benchmarks do not fit what is requested: none of them can place its
    memory on NUMA nodes, or one of them has none of the operations.
    """
    benchmarks = [BENCHMARKS[name] for name in resolved.benchmarks]
    if options.nodes is not None and not any(item.node for item in benchmarks):
        why = "none of these can place its memory; add chase, bandwidth or cas"
        yield Conflict(("nodes", "benchmarks"), why)
    if options.operations is None:
        return
    for benchmark in benchmarks:
        words = benchmark.words_for_option("op")
        if words and set(words).isdisjoint(options.operations):
            why = f"{benchmark.name} has none of these; it has {', '.join(words)}"
            yield Conflict(("operations", "benchmarks"), why)


def _find_cpu_conflicts(
    options: RequestedOptions, resolved: EffectiveOptions
) -> Iterator[Conflict]:
    """Yield how the listed CPUs do not fit: there are too few for the benchmarks, or
    one of a requested pair is not among them.
    """
    cpus = options.cpus
    if cpus is None or isinstance(cpus, str):
        return  # no CPUs are listed: all are measured, or those of a kind of core
    all_need_pairs = all(needs_pairs([name]) for name in resolved.benchmarks)
    if len(cpus) < 2 and all_need_pairs:
        yield Conflict(("cpus", "benchmarks"), _WITHOUT_PAIRS)
    cpus_of_pairs = set(chain(*resolved.pairs.listed))
    unlisted_cpus = cpus_of_pairs - set(cpus)
    if unlisted_cpus:
        why = f"CPU {format_cpus(unlisted_cpus)} is in a pair and not among the CPUs"
        yield Conflict(("pairs", "cpus"), why)


def needs_pairs(benchmarks: Sequence[str]) -> bool:
    """Report whether any of these benchmarks measures pairs of CPUs."""
    return any(BENCHMARKS[name].shape is Shape.PAIR for name in benchmarks)


def _find_deciding_option(options: RequestedOptions, name: str) -> str:
    """Return the option that gives `name` its value: the preset if it does, else `name`
    itself.
    """
    if options.preset is None or getattr(options, name) is not None:
        return name
    of_preset = getattr(PRESETS[options.preset], name)
    return name if of_preset is None else "preset"


def require_no_conflicts(hosts: Sequence[Host], requested: RequestedOptions) -> None:
    """Raise UsageError that lists conflicts among options of the command line and of
    the hosts' entries.
    """
    messages: dict[str, None] = {}  # in order, each once
    for host in hosts:
        options = options_for_host(host, requested)
        resolved = resolve_defaults(options)
        unused = _find_unused(requested, resolved)
        for conflict in (*find_conflicts(options), *unused):
            messages[_conflict_message(host, requested, conflict)] = None
    if not messages:
        return
    lines = list(messages)[:_MAX_MESSAGES]
    if more := len(messages) - len(lines):
        lines.append(f"and {format_count(more, 'more conflict')}")
    raise UsageError("\n".join(lines))


def _conflict_message(
    host: Host, requested: RequestedOptions, conflict: Conflict
) -> str:
    """Return a message on a conflict of a host. It quotes each option as it was typed,
    or as it is written in the inventory. If an option is from the inventory, the
    message begins with the host's line and name.
    """
    entry = options_from_entry(host)
    sources = [_quote_option(name, requested, entry) for name in conflict.names]
    message = describe_conflict(sources, conflict.why)
    if not any(_is_from_entry(name, requested, entry) for name in conflict.names):
        return message
    if not host.origin:  # it is in no file
        return f"{host.name}: {message}"
    return f"{host.origin}: {host.name}: {message}"


def _quote_option(
    name: str, requested: RequestedOptions, entry: RequestedOptions
) -> str:
    """Return an option with its value: as it was typed, else as the host's entry has
    it, else the default. requested: what was typed. entry: what the entry sets.
    """
    option = BY_NAME[name]
    if _is_from_entry(name, requested, entry):
        written = getattr(entry, name)
        return f"`{option.as_yaml(written)}` of the inventory"
    typed = getattr(requested, name)
    if typed is not None:
        return option.as_flag(typed)
    default = getattr(DEFAULTS, name)
    return f"the default {option.as_flag(default)}"


def _is_from_entry(
    name: str, requested: RequestedOptions, entry: RequestedOptions
) -> bool:
    """Report whether the entry sets an option that the command line does not."""
    return getattr(requested, name) is None and getattr(entry, name) is not None


def describe_conflict(sources: Sequence[str], why: str) -> str:
    """Return "A and B exclude one another: why." sources: A and B, each an option with
    its value.
    """
    if len(sources) == 1:
        return f"{sources[0]}: {why}."
    return f"{' and '.join(sources)} exclude one another: {why}."

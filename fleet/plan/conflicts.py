"""Finds plan options that exclude one another, before the agent would refuse them on the host."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.errors import UsageError
from fleet.model import BENCHMARKS, Host, RequestedOptions, Shape, override_options
from fleet.plan.cpulist import format_cpus
from fleet.plan.options import (
    BURST_SAMPLES,
    BY_NAME,
    DEFAULTS,
    PRESETS,
    EffectiveOptions,
    options_from_entry,
    resolve_defaults,
)
from fleet.plan.variants import why_not_measured
from fleet.text import format_count

_MOST_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class Conflict:
    """The names of options that exclude one another, perhaps by their defaults, and why."""

    names: tuple[str, ...]
    why: str


def find_conflicts(options: RequestedOptions) -> Iterator[Conflict]:
    """Yield what the agent would refuse about options that are each allowed."""
    resolved = resolve_defaults(options)
    if resolved.samples + resolved.warmup > BURST_SAMPLES:
        names = dict.fromkeys((_option_that_sets(options, "samples"), _option_that_sets(options, "warmup")))
        yield Conflict(tuple(names), f"a burst has at most {BURST_SAMPLES} samples, warm-ups included")
    if options.time_budget_s is not None and not resolved.precision:
        cause = "precision" if options.precision is not None else _option_that_sets(options, "rounds")
        yield Conflict(
            ("time_budget_s", cause),
            "a time budget limits the rounds that a precision adds, and without a precision there are none; "
            "add a precision such as 1%, or leave out the time budget",
        )
    if why := why_not_measured(resolved.variant, resolved.benchmarks):
        yield Conflict(("variant", "benchmarks"), why)
    if options.node is not None and options.nodes is not None:
        yield Conflict(("node", "nodes"), "both say where memory lies; keep one of them")
    if options.nodes is not None and not any(map(places_memory_by_node, resolved.benchmarks)):
        yield Conflict(
            ("nodes", "benchmarks"), "none of these can place its memory; add chase, bandwidth or cas"
        )
    operations = options.operations or ()
    for name in resolved.benchmarks if operations else ():
        parameters = [parameter for parameter in BENCHMARKS[name].parameters if parameter.option == "op"]
        words = [word for parameter in parameters for word in parameter.words]
        if words and {*words}.isdisjoint(operations):
            why = f"{name} has none of these; it has {', '.join(words)}"
            yield Conflict(("operations", "benchmarks"), why)
    yield from _find_cpu_conflicts(options, resolved)


def _find_cpu_conflicts(options: RequestedOptions, resolved: EffectiveOptions) -> Iterator[Conflict]:
    if options.cpus is None or isinstance(options.cpus, str):
        return
    if len(options.cpus) < 2 and all(needs_pairs([name]) for name in resolved.benchmarks):
        yield Conflict(
            ("cpus", "benchmarks"),
            "a pair needs two CPUs; name another, or measure only benchmarks of single CPUs, such as clock",
        )
    if beyond := {cpu for pair in resolved.pairs.listed for cpu in pair} - set(options.cpus):
        yield Conflict(("pairs", "cpus"), f"CPU {format_cpus(beyond)} is in a pair and not among the CPUs")


def places_memory_by_node(name: str) -> bool:
    """Report whether a benchmark can place its memory on a NUMA node of its own."""
    return BENCHMARKS[name].node is not None


def needs_pairs(benchmarks: Sequence[str]) -> bool:
    """Report whether any of these benchmarks measures pairs of CPUs."""
    return any(BENCHMARKS[name].shape is Shape.PAIR for name in benchmarks)


def _option_that_sets(options: RequestedOptions, name: str) -> str:
    """Return the option that gives `name` its value: the preset if it does, else `name` itself."""
    by_preset = options.preset is not None and getattr(PRESETS[options.preset], name) is not None
    return "preset" if by_preset and getattr(options, name) is None else name


def require_no_conflicts(hosts: Sequence[Host], requested: RequestedOptions) -> None:
    """Raise UsageError that lists the conflicting options of the command line and of each host's entry."""
    messages = dict.fromkeys(
        _conflict_message(host, requested, conflict)
        for host in hosts
        for conflict in find_conflicts(override_options(options_from_entry(host), requested))
    )
    if messages:
        lines, more = [*messages][:_MOST_MESSAGES], len(messages) - _MOST_MESSAGES
        raise UsageError(
            "\n".join([*lines, f"and {format_count(more, 'more conflict')}"] if more > 0 else lines)
        )


def _conflict_message(host: Host, requested: RequestedOptions, conflict: Conflict) -> str:
    """Name each option as it was typed or written; the host, too, if its entry takes part."""
    host_options = options_from_entry(host)
    sources, in_inventory = [], False
    for name in conflict.names:
        option = BY_NAME[name]
        typed, written = getattr(requested, name), getattr(host_options, name)
        if typed is not None:
            sources.append(option.as_flag(typed))
        elif written is not None:
            sources.append(f"`{option.as_yaml(written)}` of the inventory")
            in_inventory = True
        else:
            sources.append(f"the default {option.as_flag(getattr(DEFAULTS, name))}")
    where = f"{host.origin}: {host.name}: ".removeprefix(": ") if in_inventory else ""
    return f"{where}{describe_conflict(sources, conflict)}"


def describe_conflict(sources: Sequence[str], conflict: Conflict) -> str:
    """Return a sentence: these options, each with its value, exclude one another, and why."""
    if len(sources) == 1:
        return f"{sources[0]}: {conflict.why}."
    return f"{' and '.join(sources)} exclude one another: {conflict.why}."

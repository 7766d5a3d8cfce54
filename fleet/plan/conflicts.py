"""Plan options that cannot stand together, which the agent would refuse once it is on the host."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.errors import UsageError
from fleet.model import BENCHMARKS, Host, RequestedOptions, Shape, merged
from fleet.plan.cpulist import cpus_text
from fleet.plan.options import BURST_SAMPLES, BY_NAME, DEFAULTS, PRESETS, EffectiveOptions, effective, of_host
from fleet.plan.variants import not_measured
from fleet.text import counted

_SHOWN = 20  # messages


@dataclass(frozen=True, slots=True)
class Conflict:
    """Options that exclude one another, by name, also those whose default takes part."""

    names: tuple[str, ...]
    why: str


def conflicts(options: RequestedOptions) -> Iterator[Conflict]:
    """Find what the agent would refuse about options that are each allowed."""
    resolved = effective(options)
    if resolved.samples + resolved.warmup > BURST_SAMPLES:
        names = dict.fromkeys((_origin(options, "samples"), _origin(options, "warmup")))
        yield Conflict(tuple(names), f"a burst has at most {BURST_SAMPLES} samples, warm-ups included")
    if options.time_budget_s is not None and not resolved.precision:
        cause = "precision" if options.precision is not None else _origin(options, "rounds")
        yield Conflict(
            ("time_budget_s", cause),
            "a time budget limits the rounds that a precision adds, and without a precision there are none; "
            "add a precision such as 1%, or leave out the time budget",
        )
    if why := not_measured(resolved.variant, resolved.benchmarks):
        yield Conflict(("variant", "benchmarks"), why)
    if options.node is not None and options.nodes is not None:
        yield Conflict(("node", "nodes"), "both say where memory lies; keep one of them")
    if options.nodes is not None and not any(map(has_nodes, resolved.benchmarks)):
        yield Conflict(("nodes", "benchmarks"), "none of these can place its memory; add chase or bandwidth")
    asked = options.operations or ()
    for name in resolved.benchmarks if asked else ():
        words = [word for one in BENCHMARKS[name].parameters if one.option == "op" for word in one.words]
        if words and {*words}.isdisjoint(asked):
            why = f"{name} has none of these; it has {', '.join(words)}"
            yield Conflict(("operations", "benchmarks"), why)
    yield from _cpus(options, resolved)


def _cpus(options: RequestedOptions, resolved: EffectiveOptions) -> Iterator[Conflict]:
    if options.cpus is None or isinstance(options.cpus, str):
        return
    if len(options.cpus) < 2 and all(needs_pairs([name]) for name in resolved.benchmarks):
        yield Conflict(
            ("cpus", "benchmarks"),
            "a pair needs two CPUs; name another, or measure only benchmarks of single CPUs, such as clock",
        )
    if beyond := {cpu for pair in resolved.pairs.listed for cpu in pair} - set(options.cpus):
        yield Conflict(("pairs", "cpus"), f"CPU {cpus_text(beyond)} is in a pair and not among the CPUs")


def has_nodes(name: str) -> bool:
    """Whether a benchmark can have its memory on a NUMA node of its own."""
    return BENCHMARKS[name].node is not None


def needs_pairs(benchmarks: Sequence[str]) -> bool:
    """Whether one of these benchmarks measures pairs of CPUs."""
    return any(BENCHMARKS[name].shape is Shape.PAIR for name in benchmarks)


def _origin(options: RequestedOptions, name: str) -> str:
    """The option that gives `name` its value: itself, the preset, or itself by default."""
    by_preset = options.preset is not None and getattr(PRESETS[options.preset], name) is not None
    return "preset" if by_preset and getattr(options, name) is None else name


def check_together(hosts: Sequence[Host], requested: RequestedOptions) -> None:
    """Raise UsageError that names the options of a command line and of entries that exclude one another."""
    found = dict.fromkeys(
        _message(host, requested, conflict)
        for host in hosts
        for conflict in conflicts(merged(of_host(host), requested))
    )
    if found:
        lines = [*found][:_SHOWN]
        more = [f"and {counted(len(found) - _SHOWN, 'more conflict')}"] if len(found) > _SHOWN else []
        raise UsageError("\n".join(lines + more))


def _message(host: Host, requested: RequestedOptions, conflict: Conflict) -> str:
    """Name each option as where it comes from writes it; the host, too, where its entry takes part."""
    own = of_host(host)
    sources, of_entry = [], False
    for name in conflict.names:
        option = BY_NAME[name]
        typed, written = getattr(requested, name), getattr(own, name)
        if typed is not None:
            sources.append(option.typed(typed))
        elif written is not None:
            sources.append(f"`{option.written(written)}` of the inventory")
            of_entry = True
        else:
            sources.append(f"the default {option.typed(getattr(DEFAULTS, name))}")
    where = f"{host.origin}: {host.name}: ".removeprefix(": ") if of_entry else ""
    return f"{where}{excluding(sources, conflict)}"


def excluding(sources: Sequence[str], conflict: Conflict) -> str:
    """Say of options, each with its value, that they exclude one another, and why."""
    if len(sources) == 1:
        return f"{sources[0]}: {conflict.why}."
    return f"{' and '.join(sources)} exclude one another: {conflict.why}."

"""Finds plan options that exclude one another, before the agent would refuse them on
the host.
"""

from collections.abc import Iterator, Sequence

from fleet.errors import UsageError
from fleet.model import BENCHMARKS, Host, RequestedOptions, Shape, override_options
from fleet.plan.benchmark_names import find_variant_problem
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
from fleet.text import format_count

_MAX_MESSAGES = 20
_WITHOUT_PAIRS = (
    "a pair needs two CPUs; name another, or measure only benchmarks of single CPUs,"
    " such as clock"
)
_WITHOUT_PRECISION = (
    "a time budget limits the rounds that a precision adds, and without a precision"
    " there are none; add a precision such as 1%, or leave out the time budget"
)
Conflict = tuple[tuple[str, ...], str]
"""The names of options that exclude one another by their values or defaults, and
why.
"""


def find_conflicts(options: RequestedOptions) -> Iterator[Conflict]:
    """Yield combinations of options that the agent would refuse, though each value is
    allowed by itself.
    """
    resolved = resolve_defaults(options)
    if resolved.samples + resolved.warmup > BURST_SAMPLES:
        names = dict.fromkeys(
            _option_that_sets(options, name) for name in ("samples", "warmup")
        )
        yield (
            tuple(names),
            f"a burst has at most {BURST_SAMPLES} samples, warm-ups included",
        )
    if options.time_budget_s is not None and not resolved.precision:
        cause = (
            "precision"
            if options.precision is not None
            else _option_that_sets(options, "rounds")
        )
        yield ("time_budget_s", cause), _WITHOUT_PRECISION
    if why := find_variant_problem(resolved.variant, resolved.benchmarks):
        yield ("variant", "benchmarks"), why
    if None not in (options.node, options.nodes):
        yield ("node", "nodes"), "both say where memory lies; keep one of them"
    if options.nodes is not None and not any(
        BENCHMARKS[name].node for name in resolved.benchmarks
    ):
        yield (
            ("nodes", "benchmarks"),
            "none of these can place its memory; add chase, bandwidth or cas",
        )
    for name in resolved.benchmarks if options.operations else ():
        parameters = [
            parameter
            for parameter in BENCHMARKS[name].parameters
            if parameter.option == "op"
        ]
        words = [word for parameter in parameters for word in parameter.words]
        if words and {*words}.isdisjoint(options.operations or ()):
            yield (
                ("operations", "benchmarks"),
                f"{name} has none of these; it has {', '.join(words)}",
            )
    if options.cpus is not None and not isinstance(options.cpus, str):
        yield from _find_cpu_conflicts(options.cpus, resolved)


def _find_cpu_conflicts(
    cpus: Sequence[int], resolved: EffectiveOptions
) -> Iterator[Conflict]:
    if len(cpus) < 2 and all(needs_pairs([name]) for name in resolved.benchmarks):
        yield ("cpus", "benchmarks"), _WITHOUT_PAIRS
    if beyond := {cpu for pair in resolved.pairs.listed for cpu in pair} - set(cpus):
        yield (
            ("pairs", "cpus"),
            f"CPU {format_cpus(beyond)} is in a pair and not among the CPUs",
        )


def needs_pairs(benchmarks: Sequence[str]) -> bool:
    """Report whether any of these benchmarks measures pairs of CPUs."""
    return any(BENCHMARKS[name].shape is Shape.PAIR for name in benchmarks)


def _option_that_sets(options: RequestedOptions, name: str) -> str:
    """Return the option that gives `name` its value: the preset if it does, else `name`
    itself.
    """
    by_preset = (
        options.preset is not None
        and getattr(PRESETS[options.preset], name) is not None
    )
    return "preset" if by_preset and getattr(options, name) is None else name


def require_no_conflicts(hosts: Sequence[Host], requested: RequestedOptions) -> None:
    """Raise UsageError that lists conflicts among options of the command line and of
    the hosts' entries.
    """
    conflicts = (
        _conflict_message(host, requested, *conflict)
        for host in hosts
        for conflict in find_conflicts(
            override_options(options_from_entry(host), requested)
        )
    )
    messages = [*dict.fromkeys(conflicts)]
    if more := messages[_MAX_MESSAGES:]:
        messages[_MAX_MESSAGES:] = [f"and {format_count(len(more), 'more conflict')}"]
    if messages:
        raise UsageError("\n".join(messages))


def _conflict_message(
    host: Host, requested: RequestedOptions, names: Sequence[str], why: str
) -> str:
    """Return a message that quotes options as typed or written; begin with the host if
    its entry sets one.
    """
    host_options = options_from_entry(host)
    sources, where = [], ""
    for name in names:
        option = BY_NAME[name]
        typed, written = getattr(requested, name), getattr(host_options, name)
        if typed is not None:
            sources.append(option.as_flag(typed))
        elif written is not None:
            sources.append(f"`{option.as_yaml(written)}` of the inventory")
            where = f"{host.origin}: {host.name}: ".removeprefix(": ")
        else:
            sources.append(f"the default {option.as_flag(getattr(DEFAULTS, name))}")
    return f"{where}{describe_conflict(sources, why)}"


def describe_conflict(sources: Sequence[str], why: str) -> str:
    """Return "A and B exclude one another: why." sources: A and B, each an option with
    its value.
    """
    return (
        f"{' and '.join(sources)}{' exclude one another' if len(sources) > 1 else ''}:"
        f" {why}."
    )

"""Reports CPUs that ran slower than others just before a run, from the agent's own measurement. Pure."""

from collections.abc import Sequence

from fleet.model import Hello
from fleet.plan.cpulist import format_cpus

SLOW_SHARE = 0.8
"""A CPU at less than this share of the fastest one's frequency is named."""
GROUP_SHARE = 0.9
"""CPUs whose frequencies differ by no more than this are named together."""


def describe_slower_cpus(hello: Hello) -> str | None:
    """Return a sentence that names the CPUs slower than the fastest; None if none are, or it is not known."""
    measured = hello.raw.get("core_mhz")
    if not isinstance(measured, list) or len(measured) != len(hello.cpus):
        return None
    mhz = {cpu: value for cpu, value in zip(hello.cpus, measured, strict=True) if isinstance(value, int)}
    fastest = max(mhz.values(), default=0)
    slow = sorted((value, cpu) for cpu, value in mhz.items() if value < SLOW_SHARE * fastest)
    if not slow:
        return None
    named = " and ".join(
        f"CPU {format_cpus(cpus)} at {value / 1000:.2f} GHz" for value, cpus in _group_by_frequency(slow)
    )
    return (
        f"Before the run {named} ran slower than the fastest CPU at {fastest / 1000:.2f} GHz: differences "
        "between CPUs may come from that, not from where they are."
    )


def _group_by_frequency(slow: Sequence[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """Group sorted (frequency, CPU) as (highest frequency, CPUs), ascending."""
    groups: list[tuple[int, list[int]]] = []
    for value, cpu in slow:
        if groups and GROUP_SHARE * value <= groups[-1][0]:
            groups[-1] = (value, [*groups[-1][1], cpu])
        else:
            groups.append((value, [cpu]))
    return groups

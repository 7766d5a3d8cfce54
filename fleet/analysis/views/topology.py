"""Describe the topology of a host in a few lines: groups of CPUs, and the SMT
siblings.
"""

from collections.abc import Sequence
from itertools import pairwise

from fleet.analysis.reduce.load import load_cpus
from fleet.analysis.reduce.topology import GROUPS, Layout, make_layout
from fleet.errors import UsageError
from fleet.model import CORES, KINDS
from fleet.plan.cpulist import format_cpus
from fleet.store.runs import Root
from fleet.text import format_count

_LONGEST = 110  # characters
_FEW_CORES = 8

Blocks = Sequence[Sequence[int]]


def list_cpu_groups(root: Root, run_id: str, group: str) -> list[str]:
    """Return the groups of a run's online CPUs as lists for taskset, numactl and
    isolcpus: "0-7,32-39".

    group: one of CPU_GROUPS; `smt` lists the cores with several CPUs, `cores` one CPU
    per core in one list. Raises UsageError if the host does not report these groups.
    """
    cpus = load_cpus(root, run_id=run_id)
    online = cpus[cpus["online"]]
    order = make_layout(cpus, online["cpu"].tolist())
    level = "core" if group in ("smt", CORES) else group
    if all(groups[GROUPS.index(level)] < 0 for groups in order.groups):
        raise UsageError(
            f"--cpus-of {group}: the host of {run_id} does not report these groups."
        )
    blocks = order.blocks(level)
    if group == CORES:
        blocks = (tuple(min(block) for block in blocks),)
    elif group == "smt" and not (
        blocks := tuple(block for block in blocks if len(block) > 1)
    ):
        raise UsageError(
            f"--cpus-of smt: no CPUs of the host of {run_id} share a core."
        )
    return [format_cpus(block) for block in blocks]


def describe_topology(order: Layout) -> list[str]:
    """Return a line per level that divides the CPUs, outermost first, then kinds of
    cores and siblings.
    """
    levels: dict[Blocks, str] = {}
    for level in GROUPS[:-1]:
        blocks = order.blocks(level)
        if 2 <= len(blocks) < len(order.cpus) and blocks != order.blocks("core"):
            levels.setdefault(blocks, level)
    lines = []
    for groups, level in levels.items():
        listed, sizes = (
            " | ".join(map(format_cpus, groups)),
            sorted({len(cpus) for cpus in groups}),
        )
        if len(listed) > _LONGEST:
            listed = (
                f"{len(groups)} groups of {' or '.join(map(str, sizes))} CPUs; the"
                " first "
            )
            listed += format_cpus(groups[0])
        lines.append(f"{level}: {listed}")
    if kinds := list_core_kinds(order):
        lines.append(kinds)
    return (
        [*lines, f"SMT siblings: {_describe_siblings(order)}"]
        if len(order.cpus) > 1
        else []
    )


def list_core_kinds(order: Layout) -> str:
    """List CPUs by kind of core, "kinds of cores: P 0-7, E 8-15"; empty if the machine
    has only one kind.
    """
    of_kinds = {
        kind: [cpu for cpu in order.cpus if order.kinds.get(cpu) == kind]
        for kind in KINDS
    }
    listed = [f"{kind} {format_cpus(cpus)}" for kind, cpus in of_kinds.items() if cpus]
    return f"kinds of cores: {', '.join(listed)}" if listed else ""


def _describe_siblings(order: Layout) -> str:
    if all(groups[-1] < 0 for groups in order.groups):
        return "not reported by the host"
    cores = sorted(
        tuple(sorted(core)) for core in order.blocks("core") if len(core) > 1
    )
    if not cores:
        return "none among these CPUs"
    alone = len(order.cpus) - sum(map(len, cores))
    rest = (
        f"; {format_count(alone, 'CPU')} {'has' if alone == 1 else 'have'} none"
        if alone
        else ""
    )
    if len(cores) > _FEW_CORES and (rule := _describe_sibling_rule(cores)):
        return rule + rest
    named = " ".join("-".join(map(str, core)) for core in cores[:_FEW_CORES])
    more = (
        f" and {len(cores) - _FEW_CORES} more cores" if len(cores) > _FEW_CORES else ""
    )
    return named + more + rest


def _describe_sibling_rule(cores: Blocks) -> str:
    """Describe the siblings as a rule where all cores are numbered alike; else return
    an empty text.
    """
    steps = {tuple(cpu - core[0] for cpu in core[1:]) for core in cores}
    if len(steps) > 1:
        return ""
    formula = " and ".join(["n", *(f"n+{step}" for step in steps.pop())])
    firsts = [core[0] for core in cores]
    apart = {later - earlier for earlier, later in pairwise(firsts)}
    if apart == {1}:
        return f"{formula}, for n of {firsts[0]}-{firsts[-1]}"
    if len(apart) == 1:
        ordinal = {2: "second", 3: "third", 4: "fourth"}.get(
            step := apart.pop(), f"{step}th"
        )
        return f"{formula}, for every {ordinal} n from {firsts[0]} to {firsts[-1]}"
    return (
        f"{formula}, for n of {format_cpus(firsts)}"
        if len(format_cpus(firsts)) < 60
        else ""
    )

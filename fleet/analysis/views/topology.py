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
_LONGEST_NUMBERS = 60
_FEW_CORES = 8
_ORDINALS = {2: "second", 3: "third", 4: "fourth"}

Blocks = Sequence[Sequence[int]]


def list_cpu_groups(root: Root, run_id: str, group: str) -> list[str]:
    """Return the groups of a run's online CPUs as lists for taskset, numactl and
    isolcpus: "0-7,32-39".

    group: one of CPU_GROUPS; `smt` lists the cores with several CPUs, `cores` one CPU
    per core in one list. Raises UsageError if the host does not report these groups.
    """
    order = _load_online_layout(root, run_id)
    level = group
    if group in ("smt", CORES):
        level = "core"
    place_of_level = GROUPS.index(level)
    # of each CPU, the number of its group at this level; -1: not reported
    group_numbers = [groups[place_of_level] for groups in order.groups]
    if all(number < 0 for number in group_numbers):
        raise UsageError(
            f"--cpus-of {group}: the host of {run_id} does not report these groups."
        )
    blocks = order.blocks(level)
    if group == CORES:
        one_of_each = [min(block) for block in blocks]
        return [format_cpus(one_of_each)]
    if group == "smt":
        blocks = tuple(block for block in blocks if len(block) > 1)
        if not blocks:
            raise UsageError(
                f"--cpus-of smt: no CPUs of the host of {run_id} share a core."
            )
    return [format_cpus(block) for block in blocks]


def _load_online_layout(root: Root, run_id: str) -> Layout:
    cpus = load_cpus(root, run_id=run_id)
    online = cpus.loc[cpus["online"], "cpu"]
    return make_layout(cpus, online.tolist())


def describe_topology(layout: Layout) -> list[str]:
    """Return a line per level that divides the CPUs, outermost first, then kinds of
    cores and siblings.
    """
    if len(layout.cpus) < 2:
        return []
    lines = []
    for level, blocks in _list_dividing_levels(layout):
        lines.append(f"{level}: {_list_blocks(blocks)}")
    kinds = list_core_kinds(layout)
    if kinds:
        lines.append(kinds)
    lines.append(f"SMT siblings: {_describe_siblings(layout)}")
    return lines


def _list_dividing_levels(layout: Layout) -> list[tuple[str, Blocks]]:
    """List the levels that divide the CPUs into at least two groups, but not into
    single CPUs. Each level, such as "llc", stands with its groups. Cores are not
    listed, nor levels whose groups are the cores. If several levels have the same
    groups, only the outermost is listed.
    """
    cores = layout.blocks("core")
    level_by_blocks: dict[Blocks, str] = {}
    for level in GROUPS:  # from the outermost level to cores
        blocks = layout.blocks(level)
        are_groups = 2 <= len(blocks) < len(layout.cpus)
        if are_groups and blocks != cores:
            level_by_blocks.setdefault(blocks, level)
    return [(level, blocks) for blocks, level in level_by_blocks.items()]


def _list_blocks(blocks: Blocks) -> str:
    """List groups of CPUs: "0-7 | 8-15"; if that is too long, only their count, their
    sizes and the first.
    """
    names = " | ".join(format_cpus(block) for block in blocks)
    if len(names) <= _LONGEST:
        return names
    sizes = sorted({len(block) for block in blocks})
    either = " or ".join(str(size) for size in sizes)
    first = format_cpus(blocks[0])
    return f"{len(blocks)} groups of {either} CPUs; the first {first}"


def list_core_kinds(layout: Layout) -> str:
    """List CPUs by kind of core, "kinds of cores: P 0-7, E 8-15"; "" if the machine has
    only one kind: its layout then names none.
    """
    kinds = []
    for kind in KINDS:
        cpus = [cpu for cpu in layout.cpus if layout.kinds.get(cpu) == kind]
        if cpus:
            kinds.append(f"{kind} {format_cpus(cpus)}")
    if not kinds:
        return ""
    return f"kinds of cores: {', '.join(kinds)}"


def _describe_siblings(order: Layout) -> str:
    """Describe which CPUs share a core: as a rule of many cores, else "0-4 1-5"."""
    # the last of a CPU's groups is its core; -1: unknown
    if all(groups[-1] < 0 for groups in order.groups):
        return "not reported by the host"
    shared_cores = [core for core in order.blocks("core") if len(core) > 1]
    cores = sorted(tuple(sorted(core)) for core in shared_cores)
    if not cores:
        return "none among these CPUs"
    rule = ""
    if len(cores) > _FEW_CORES:
        rule = _describe_sibling_rule(cores)
    alone = len(order.cpus) - sum(map(len, cores))
    return (rule or _list_cores(cores)) + _describe_cpus_alone(alone)


def _list_cores(cores: Blocks) -> str:
    """List the siblings of the first cores, and say how many more cores there are."""
    names = []
    for core in cores[:_FEW_CORES]:
        cpus = map(str, core)
        names.append("-".join(cpus))
    words = " ".join(names)
    more = len(cores) - _FEW_CORES
    return f"{words} and {more} more cores" if more > 0 else words


def _describe_cpus_alone(count: int) -> str:
    """Say how many CPUs have no sibling: "; 1 CPU has none"; empty if there are
    none.
    """
    if not count:
        return ""
    verb = "has" if count == 1 else "have"
    return f"; {format_count(count, 'CPU')} {verb} none"


def _describe_sibling_rule(cores: Blocks) -> str:
    """Describe the siblings as a rule, "n and n+4, for n of 0-3". Return "" if no rule
    holds: the other CPUs of each core must be as far from the core's first CPU as those
    of every other core.
    """
    firsts = []
    offsets_of_cores = set()
    for first, *others in cores:
        firsts.append(first)
        offsets = tuple(cpu - first for cpu in others)
        offsets_of_cores.add(offsets)
    if len(offsets_of_cores) > 1:
        return ""
    (common_offsets,) = offsets_of_cores
    siblings = [f"n+{offset}" for offset in common_offsets]
    formula = " and ".join(["n", *siblings])
    numbers = _describe_numbers(firsts)
    return f"{formula}, for {numbers}" if numbers else ""


def _describe_numbers(numbers: Sequence[int]) -> str:
    """Describe ascending CPUs: "n of 0-7", "every second n from 0 to 14"; empty if
    that is too long.
    """
    first = numbers[0]
    last = numbers[-1]
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    if steps == {1}:
        return f"n of {first}-{last}"
    if len(steps) == 1:
        (step,) = steps
        ordinal = _ORDINALS.get(step, f"{step}th")
        return f"every {ordinal} n from {first} to {last}"
    words = format_cpus(numbers)
    return f"n of {words}" if len(words) < _LONGEST_NUMBERS else ""

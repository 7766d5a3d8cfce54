"""Parses the probe's topology, cpus and NUMA lines as model.Cpu, one per CPU present.
Pure; for `linux`.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.facts.probe import Files, Sections
from fleet.model import Cache, Cpu, InputError, Node, lowest_llc_cpu
from fleet.plan.cpulist import MAX_CPU, format_cpus, parse_cpu_numbers

_NODE = "sys/devices/system/node/node"
# Names of Arm cores by the numbers in MIDR_EL1 (Arm's manuals; the kernel's
# asm/cputype.h).
_CORES: Mapping[str, Mapping[str, str]] = json.loads(
    Path(__file__).with_name("arm_cores.json").read_text()
)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Expand a kernel CPU list: "0-2,5" -> (0, 1, 2, 5); other text, such as "" and
    "(null)", -> ().
    """
    try:
        return parse_cpu_numbers(text)
    except InputError:
        return ()


def parse_size(text: str) -> int | None:
    """Return the bytes of a sysfs cache size, "48K" -> 49152; None for other text."""
    match = re.fullmatch(r"([0-9]{1,12})([KMG]?)", text)
    return (
        int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]] if match else None
    )


def parse_kib(text: str) -> int | None:
    """Return the bytes of "1234 kB"; None for other text."""
    match = re.fullmatch(r"([0-9]{1,15}) kB", text.strip())
    return int(match[1]) * 1024 if match else None


@dataclass(slots=True)
class Groups:
    """The parsed section `topology`. leaders: by kind of group and CPU, the lowest CPU
    of the group.
    """

    leaders: dict[str, dict[int, int]] = field(default_factory=dict)
    caches: dict[int, list[Cache]] = field(default_factory=dict)
    capacity: dict[int, int] = field(default_factory=dict)
    # governor, most kHz
    policy: dict[int, tuple[str | None, int | None]] = field(default_factory=dict)
    drivers: set[str] = field(default_factory=set)  # of cpufreq
    with_topology: set[int] = field(default_factory=set)
    boost: bool | None = (
        None  # whether a policy may; None unless each has a switch (amd-pstate)
    )
    nodes: dict[int, int] = field(default_factory=dict)  # each CPU's only NUMA node
    contradictions: dict[str, str] = field(default_factory=dict)  # as in Facts

    def lowest_member(self, cpu: int, *kinds: str) -> int | None:
        """Return the lowest CPU in the CPU's group of the first published kind; None if
        unknown.
        """
        leaders = next(
            (self.leaders[kind] for kind in kinds if kind in self.leaders), {}
        )
        return leaders.get(cpu)


def parse_cpus(sections: Sections, files: Files) -> tuple[tuple[Cpu, ...], Groups]:
    """Return all CPUs present, even those offline or not allowed, sorted by number, and
    their `Groups`.
    """
    # admin-guide/cputopology.rst
    groups, models = (
        _read_groups(sections),
        _parse_cpu_models(sections),
    )
    groups.nodes = _map_cpus_to_nodes(files, groups.contradictions)
    # sysfs-devices-system-cpu
    from_sys = set(_read_cpu_list(files, "sys/devices/system/cpu/online"))
    listed = from_sys or set(models)
    present = set(_read_cpu_list(files, "sys/devices/system/cpu/present")) | listed
    # proc.rst
    allowed = set(
        _read_cpu_list(files, "proc/self/status:Cpus_allowed_list") or present
    )
    # A mask may have offline CPUs: it contradicts the list by an unlisted CPU with a
    # topology, or without a listed CPU.
    unlisted = allowed & (groups.with_topology - listed) or (
        set() if allowed & listed else allowed
    )
    online = unlisted | groups.with_topology if unlisted else listed
    if {*models} != online and any(models.values()):
        groups.contradictions["cpuinfo"] = (
            f"/proc/cpuinfo lists CPUs {format_cpus(models)}, and {format_cpus(online)}"
            " are online: it is not the kernel's (lxcfs?), and does not tell which"
            " core is which."
        )
        names = {*models.values()}
        models = dict.fromkeys(online, names.pop()) if len(names) == 1 else {}
    if from_sys and (odd := allowed & online - from_sys):
        groups.contradictions["online"] = (
            f"/sys lists CPUs {format_cpus(from_sys)} as online, the affinity mask has"
            f" {format_cpus(odd)}: that list is not the kernel's (lxcfs?), and the mask"
            " counts."
        )
    # The kernel leaves the file empty, and the probe so leaves it out, when no CPU is
    # isolated.
    isolated = set(_read_cpu_list(files, "sys/devices/system/cpu/isolated"))
    published = {
        "sys/devices/system/cpu/online",
        "sys/devices/system/cpu/isolated",
    } & files.keys()
    # hybrid Intel machines have two performance-counter units
    kinds = dict.fromkeys(
        _read_cpu_list(files, "sys/devices/cpu_core/cpus"), "performance"
    )
    kinds |= dict.fromkeys(
        _read_cpu_list(files, "sys/devices/cpu_atom/cpus"), "efficiency"
    )
    cpus = (
        Cpu(
            cpu=cpu,
            online=cpu in online,
            allowed=cpu in allowed and cpu in online,
            core=groups.lowest_member(cpu, "core_cpus", "thread_siblings"),
            cluster=groups.lowest_member(cpu, "cluster_cpus"),
            llc=lowest_llc_cpu(groups.caches.get(cpu, [])),
            die=groups.lowest_member(cpu, "die_cpus"),
            package=groups.lowest_member(cpu, "package_cpus", "core_siblings"),
            node=groups.nodes.get(cpu),
            kind=kinds.get(cpu),
            capacity=groups.capacity.get(cpu),
            model=models.get(cpu),
            governor=groups.policy.get(cpu, (None, None))[0],
            max_khz=groups.policy.get(cpu, (None, None))[1],
            isolated=cpu in isolated if published else None,
            caches=tuple(
                sorted(
                    groups.caches.get(cpu, []),
                    key=lambda cache: (cache.level, cache.kind),
                )
            ),
        )
        for cpu in sorted(present if online == listed else online)
    )
    return tuple(cpus), groups


def _parse_cpu_models(sections: Sections) -> dict[int, str | None]:
    """Return each CPU's core name in /proc/cpuinfo; None if not Arm
    (arch/arm64/kernel/cpuinfo.c).
    """
    models: dict[int, str | None] = {}
    cpu, implementer = -1, ""
    without_part: list[int] = []
    for line in [*sections.get("cpus", []), *sections.get("picked", [])]:
        key, _, value = (
            part.strip() for part in line.removeprefix("proc/cpuinfo:").partition(":")
        )
        if key == "processor" and _is_number(value) and int(value) <= MAX_CPU:
            cpu, implementer = int(value), ""
            models[cpu] = None
            without_part.append(cpu)
        elif key == "CPU implementer":
            implementer = value
        elif key == "CPU part" and cpu in models:
            # old kernels have one block for all CPUs, behind them
            models |= dict.fromkeys(without_part, arm_core_name(implementer, value))
            without_part = []
    return models


def _read_groups(sections: Sections) -> Groups:
    """Parse the section `topology`; skip lines of unknown form."""
    groups = Groups()
    for line in sections.get("topology", []):
        match line.split():
            case ["capacity", cpu, value] if _is_number(cpu) and _is_number(value):
                groups.capacity[int(cpu)] = int(value)
            case ["cache", level, kind, size, line_bytes, shared] if _is_number(level):
                members = parse_cpu_list(shared)
                cache = Cache(
                    int(level), kind, parse_size(size), parse_size(line_bytes), members
                )
                for member in members:
                    if cache not in groups.caches.setdefault(member, []):
                        groups.caches[member].append(cache)
            case ["policy", governor, driver, khz, *cpus]:
                policy = (
                    None if governor == "-" else governor,
                    int(khz) if _is_number(khz) else None,
                )
                members = tuple(int(cpu) for cpu in cpus if _is_number(cpu))
                groups.policy.update(dict.fromkeys(members, policy))
                groups.drivers.update({driver} - {"-"} if members else ())
            case ["shown", *cpus]:
                groups.with_topology.update(int(cpu) for cpu in cpus if _is_number(cpu))
            case ["boost", value]:
                groups.boost = value == "1"
            case [kind, shared]:
                members = parse_cpu_list(shared)
                groups.leaders.setdefault(kind, {}).update(
                    dict.fromkeys(members, min(members, default=0))
                )
    return groups


def parse_memory_nodes(files: Files, with_cpus: Collection[int]) -> tuple[Node, ...]:
    """Return the NUMA nodes with memory; if unknown, those of `with_cpus`
    (ABI/stable/sysfs-devices-node).
    """
    texts, status = (
        _read_node_files(files, "distance"),
        "proc/self/status:Mems_allowed_list",
    )
    allowed, nodes = _read_cpu_list(files, status), []
    for node in _read_cpu_list(files, "sys/devices/system/node/has_memory") or sorted(
        {*with_cpus}
    ):
        distances = [
            int(word) for word in texts.get(node, "").split() if _is_number(word)
        ]
        free = parse_kib(files.get(f"{_NODE}{node}/meminfo:MemFree", ""))
        far = tuple(zip(sorted(texts), distances, strict=False))
        nodes.append(Node(node, status not in files or node in allowed, free, far))
    return tuple(nodes)


def _map_cpus_to_nodes(files: Files, contradictions: dict[str, str]) -> dict[int, int]:
    """Return the node of each CPU that is in just one; report others in
    `contradictions` (numa=fake).
    """
    nodes = {
        node: parse_cpu_list(text)
        for node, text in _read_node_files(files, "cpulist").items()
    }
    times = Counter(cpu for cpus in nodes.values() for cpu in cpus)
    if shared := {cpu for cpu, count in times.items() if count > 1}:
        where = (
            "in several of"
            f" {sum(not shared.isdisjoint(cpus) for cpus in nodes.values())} NUMA nodes"
        )
        contradictions["nodes"] = (
            f"CPUs {format_cpus(shared)} are each {where} (numa=fake?): none has a"
            " node."
        )
    return {
        cpu: node for node, cpus in nodes.items() for cpu in cpus if cpu not in shared
    }


def _read_node_files(files: Files, name: str) -> dict[int, str]:
    """Return the content of the file `name` of each NUMA node, by node number."""
    numbers = re.findall(
        rf"^{_NODE}([0-9]{{1,6}})/{name}$", "\n".join(files), re.MULTILINE
    )
    return {int(number): files[f"{_NODE}{number}/{name}"] for number in numbers}


def _read_cpu_list(files: Files, path: str) -> tuple[int, ...]:
    return parse_cpu_list(files.get(path, ""))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,12}", text) is not None


def arm_core_name(implementer: str, part: str) -> str | None:
    """Name a core: ("0x41", "0xd0b") -> "Cortex-A76"; by its numbers if unknown; None
    if invalid.
    """
    try:
        numbers = (int(implementer, 16), int(part, 16))
    except ValueError:
        return None
    names = _CORES.get(f"{numbers[0]:#x}", {})
    return names.get(
        f"{numbers[1]:#x}", f"Arm implementer {numbers[0]:#x} part {numbers[1]:#x}"
    )

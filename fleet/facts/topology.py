"""Parses the probe's topology, cpus and NUMA lines as model.Cpu, one per CPU present. Pure; for `linux`."""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.facts.probe import Sections
from fleet.model import Cache, Cpu, Node, lowest_llc_cpu
from fleet.plan.cpulist import MAX_CPU, format_cpus, parse_cpu_numbers

_NODE = "sys/devices/system/node/node"
# Names of Arm cores by the numbers in MIDR_EL1 (Arm's manuals; the kernel's asm/cputype.h).
_CORES: Mapping[str, Mapping[str, str]] = json.loads(Path(__file__).with_name("arm_cores.json").read_text())


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Expand a kernel CPU list: "0-2,5" -> (0, 1, 2, 5); other text, such as "" and "(null)", -> ()."""
    try:
        return parse_cpu_numbers(text)
    except ValueError:
        return ()


def parse_size(text: str) -> int | None:
    """Return the bytes of a sysfs cache size, "48K" -> 49152; None for other text."""
    match = re.fullmatch(r"([0-9]{1,12})([KMG]?)", text)
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]] if match else None


def parse_kib(text: str) -> int | None:
    """Return the bytes of "1234 kB"; None for other text."""
    match = re.fullmatch(r"([0-9]{1,15}) kB", text.strip())
    return int(match[1]) * 1024 if match else None


@dataclass(slots=True)
class Groups:
    """The topology section: group leaders by kind and CPU, caches, capacities, frequency policies.

    policy: each CPU's governor and highest frequency. drivers: of cpufreq. boost: whether a policy may boost;
    None unless each has a switch (amd-pstate).
    """

    leaders: dict[str, dict[int, int]] = field(default_factory=dict)
    caches: dict[int, list[Cache]] = field(default_factory=dict)
    capacity: dict[int, int] = field(default_factory=dict)
    policy: dict[int, tuple[str | None, int | None]] = field(default_factory=dict)
    drivers: set[str] = field(default_factory=set)
    with_topology: set[int] = field(default_factory=set)
    boost: bool | None = None

    def leader(self, cpu: int, *kinds: str) -> int | None:
        """Return the lowest CPU of this CPU's group, by the first kind that the kernel publishes."""
        leaders = next((self.leaders[kind] for kind in kinds if kind in self.leaders), {})
        return leaders.get(cpu)


def parse_cpus(sections: Sections, files: Mapping[str, str]) -> tuple[Cpu, ...]:
    """Return every CPU present, by number, with its groups, including those offline or forbidden.

    Formats: Linux Documentation/admin-guide/cputopology.rst and ABI/testing/sysfs-devices-system-cpu;
    /proc/cpuinfo and Cpus_allowed_list as in Documentation/filesystems/proc.rst.
    """
    groups = read_groups(sections)
    models = parse_cpu_models(sections)
    listed = set(_read_cpu_list(files, "sys/devices/system/cpu/online") or models)
    present = set(_read_cpu_list(files, "sys/devices/system/cpu/present")) | listed
    allowed = set(_read_cpu_list(files, "proc/self/status:Cpus_allowed_list") or present)
    online = _find_online(listed, allowed, groups.with_topology)
    if describe_odd_cpuinfo(models, online):
        names = {*models.values()}
        models = dict.fromkeys(online, names.pop()) if len(names) == 1 else {}
    present = present if online == listed else online
    # The kernel leaves the file empty, and the probe so leaves it out, when no CPU is isolated.
    isolated = set(_read_cpu_list(files, "sys/devices/system/cpu/isolated"))
    published = {"sys/devices/system/cpu/online", "sys/devices/system/cpu/isolated"} & files.keys()
    nodes = _node_by_cpu(files)
    # hybrid Intel machines have two performance-counter units
    kinds = dict.fromkeys(_read_cpu_list(files, "sys/devices/cpu_core/cpus"), "performance")
    kinds |= dict.fromkeys(_read_cpu_list(files, "sys/devices/cpu_atom/cpus"), "efficiency")
    return tuple(
        Cpu(
            cpu=cpu,
            online=cpu in online,
            allowed=cpu in allowed and cpu in online,
            core=groups.leader(cpu, "core_cpus", "thread_siblings"),
            cluster=groups.leader(cpu, "cluster_cpus"),
            llc=lowest_llc_cpu(groups.caches.get(cpu, [])),
            die=groups.leader(cpu, "die_cpus"),
            package=groups.leader(cpu, "package_cpus", "core_siblings"),
            node=nodes.get(cpu),
            kind=kinds.get(cpu),
            capacity=groups.capacity.get(cpu),
            model=models.get(cpu),
            governor=groups.policy.get(cpu, (None, None))[0],
            max_khz=groups.policy.get(cpu, (None, None))[1],
            isolated=cpu in isolated if published else None,
            caches=tuple(sorted(groups.caches.get(cpu, []), key=lambda cache: (cache.level, cache.kind))),
        )
        for cpu in sorted(present)
    )


def describe_odd_cpuinfo(models: Mapping[int, str | None], online: Collection[int]) -> str | None:
    """Return a note about a /proc/cpuinfo of other CPUs than those online, as lxcfs makes it; else None."""
    if {*models} == {*online} or not any(models.values()):
        return None
    return (
        f"/proc/cpuinfo lists CPUs {format_cpus(models)}, and {format_cpus(online)} are online: it is not "
        "the kernel's (lxcfs?), and does not tell which core is which."
    )


def parse_cpu_models(sections: Sections) -> dict[int, str | None]:
    """Return the name of each core in /proc/cpuinfo; None off Arm (arch/arm64/kernel/cpuinfo.c)."""
    models: dict[int, str | None] = {}
    cpu, implementer = -1, ""
    without_part: list[int] = []
    for line in [*sections.get("cpus", []), *sections.get("picked", [])]:
        key, _, value = (part.strip() for part in line.removeprefix("proc/cpuinfo:").partition(":"))
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


def _find_online(listed: set[int], allowed: set[int], with_topology: set[int]) -> set[int]:
    """Return the CPUs listed as online; those of mask and topology if the mask contradicts the list.

    A mask may have offline CPUs: it contradicts by an unlisted CPU with a topology, or without a listed CPU.
    """
    missing = allowed & (with_topology - listed) or (set() if allowed & listed else allowed)
    return missing | with_topology if missing else listed


def read_groups(sections: Sections) -> Groups:
    """Return the section `topology`; lines of another form are skipped."""
    groups = Groups()
    for line in sections.get("topology", []):
        match line.split():
            case ["capacity", cpu, value] if _is_number(cpu) and _is_number(value):
                groups.capacity[int(cpu)] = int(value)
            case ["cache", level, kind, size, line_bytes, shared] if _is_number(level):
                members = parse_cpu_list(shared)
                cache = Cache(int(level), kind, parse_size(size), parse_size(line_bytes), members)
                for member in members:
                    if cache not in groups.caches.setdefault(member, []):
                        groups.caches[member].append(cache)
            case ["policy", governor, driver, khz, *cpus]:
                policy = None if governor == "-" else governor, int(khz) if _is_number(khz) else None
                members = tuple(int(cpu) for cpu in cpus if _is_number(cpu))
                groups.policy.update(dict.fromkeys(members, policy))
                groups.drivers.update({driver} - {"-"} if members else ())
            case ["shown", *cpus]:
                groups.with_topology.update(int(cpu) for cpu in cpus if _is_number(cpu))
            case ["boost", value]:
                groups.boost = value == "1"
            case [kind, shared]:
                members = parse_cpu_list(shared)
                groups.leaders.setdefault(kind, {}).update(dict.fromkeys(members, min(members, default=0)))
    return groups


def parse_memory_nodes(files: Mapping[str, str]) -> tuple[Node, ...]:
    """Return the NUMA nodes with memory, else those with CPUs (ABI/stable/sysfs-devices-node)."""
    texts, status = _read_node_files(files, "distance"), "proc/self/status:Mems_allowed_list"
    allowed, nodes = _read_cpu_list(files, status), []
    with_cpus = sorted({*_node_by_cpu(files).values()})
    for node in _read_cpu_list(files, "sys/devices/system/node/has_memory") or with_cpus:
        distances = [int(word) for word in texts.get(node, "").split() if _is_number(word)]
        free = parse_kib(files.get(f"{_NODE}{node}/meminfo:MemFree", ""))
        far = tuple(zip(sorted(texts), distances, strict=False))
        nodes.append(Node(node, status not in files or node in allowed, free, far))
    return tuple(nodes)


def _node_by_cpu(files: Mapping[str, str]) -> dict[int, int]:
    """Return the node of each CPU; a CPU that several nodes list has none of its own."""
    nodes = _node_cpus(files)
    times = Counter(cpu for cpus in nodes.values() for cpu in cpus)
    return {cpu: node for node, cpus in nodes.items() for cpu in cpus if times[cpu] == 1}


def _node_cpus(files: Mapping[str, str]) -> dict[int, tuple[int, ...]]:
    return {node: parse_cpu_list(text) for node, text in _read_node_files(files, "cpulist").items()}


def describe_fake_nodes(files: Mapping[str, str]) -> str | None:
    """Return a note about NUMA nodes that share CPUs, as numa=fake makes them; None if there are none."""
    nodes = _node_cpus(files)
    shared = sorted({cpu for cpus in nodes.values() for cpu in cpus} - _node_by_cpu(files).keys())
    if not shared:
        return None
    count = sum(not set(shared).isdisjoint(cpus) for cpus in nodes.values())
    return (
        f"CPUs {format_cpus(shared)} are each in several of {count} NUMA nodes (numa=fake?): none has a node."
    )


def _read_node_files(files: Mapping[str, str], name: str) -> dict[int, str]:
    """Return the file of that name of each NUMA node."""
    ours = [(path, text) for path, text in files.items() if path.startswith(_NODE) and path.endswith(name)]
    matches = ((re.fullmatch(rf"{_NODE}([0-9]{{1,6}})/{name}", path), text) for path, text in ours)
    return {int(match[1]): text for match, text in matches if match}


def _read_cpu_list(files: Mapping[str, str], path: str) -> tuple[int, ...]:
    return parse_cpu_list(files.get(path, ""))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,12}", text) is not None


def arm_core_name(implementer: str, part: str) -> str | None:
    """Name the core: ("0x41", "0xd0b") -> "Cortex-A76"; an unknown one by number; None for no numbers."""
    try:
        numbers = (int(implementer, 16), int(part, 16))
    except ValueError:
        return None
    names = _CORES.get(f"{numbers[0]:#x}", {})
    return names.get(f"{numbers[1]:#x}", f"Arm implementer {numbers[0]:#x} part {numbers[1]:#x}")

"""Parses the probe's topology, cpus and NUMA lines as model.Cpu, one per CPU present.
Pure; for `linux`.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from fleet.facts.probe import Files, Sections
from fleet.model import Cache, Cpu, InputError, Node, lowest_llc_cpu
from fleet.plan.cpulist import MAX_CPU, format_cpus, parse_cpu_numbers

_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}
_NODE = "sys/devices/system/node/node"
_COUNTER_UNIT = re.compile(r"sys/devices/cpu_([a-z0-9_]{1,40})/cpus")
# arch/x86/events/intel/core.c, intel_hybrid_pmu_type_map
_KINDS_BY_UNIT = {
    "core": "performance",
    "atom": "efficiency",
    "lowpower": "low-power efficiency",
}
# Names of Arm cores by the numbers in MIDR_EL1, implementer and part; `make arm-cores`
# renews them.
_CORES: Mapping[str, Mapping[str, str]] = json.loads(
    Path(__file__).with_name("arm_cores.json").read_text()
)["cores"]


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
    if not match:
        return None
    number, unit = match.groups()
    return int(number) << _SHIFTS[unit]


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
    # whether a policy may; None unless each has a switch (amd-pstate)
    boost: bool | None = None
    nodes: dict[int, int] = field(default_factory=dict)  # each CPU's only NUMA node
    contradictions: dict[str, str] = field(default_factory=dict)  # as in Facts

    def add_cache(self, cache: Cache) -> None:
        """Add a cache to each CPU that shares it, once."""
        for cpu in cache.shared_cpus:
            caches = self.caches.setdefault(cpu, [])
            if cache not in caches:
                caches.append(cache)

    def add_policy(
        self,
        policy: tuple[str | None, int | None],
        driver: str,
        cpus: Collection[int],
    ) -> None:
        """Set the governor and the most kHz of these CPUs. driver: "-" for none."""
        self.policy.update(dict.fromkeys(cpus, policy))
        if cpus and driver != "-":
            self.drivers.add(driver)

    def add_group(self, kind: str, cpus: Collection[int]) -> None:
        """Add a group of CPUs, such as a core, under the number of its lowest CPU."""
        leader = min(cpus, default=0)
        leader_by_cpu = self.leaders.setdefault(kind, {})
        leader_by_cpu.update(dict.fromkeys(cpus, leader))

    def lowest_member(self, cpu: int, *kinds: str) -> int | None:
        """Return the lowest CPU in the CPU's group of the first published kind; None if
        unknown.
        """
        for kind in kinds:
            if kind in self.leaders:
                return self.leaders[kind].get(cpu)
        return None


def parse_cpus(sections: Sections, files: Files) -> tuple[tuple[Cpu, ...], Groups]:
    """Return all CPUs present, even those offline or not allowed, sorted by number, and
    their `Groups`.

    Several files tell of CPUs: their groups (admin-guide/cputopology.rst), the lists of
    sysfs (ABI/testing/sysfs-devices-system-cpu), our affinity mask and /proc/cpuinfo.
    Where one contradicts the others, as in containers, `contradictions` of the groups
    has a sentence on it, under "cpuinfo", "online" or "nodes".
    """
    groups = _read_groups(sections)
    contradictions = groups.contradictions  # each step that takes it may add to it
    groups.nodes = _map_cpus_to_nodes(files, contradictions)
    models = _parse_cpu_models(sections)
    online_in_sysfs = set(_read_cpu_list(files, "sys/devices/system/cpu/online"))
    listed = online_in_sysfs or set(models)
    sets = _find_cpu_sets(files, listed, groups.with_topology)
    models = _correct_models(models, sets.online, contradictions)
    _note_unlisted_cpus(sets, online_in_sysfs, contradictions)

    isolated = _find_isolated_cpus(files)
    kinds = _map_cpus_to_kinds(files)
    cpus = []
    for number in sorted(sets.present):
        is_online = number in sets.online
        cpu = replace(
            _make_cpu(number, groups),
            online=is_online,
            allowed=is_online and number in sets.allowed,
            kind=kinds.get(number),
            model=models.get(number),
            isolated=None if isolated is None else number in isolated,
        )
        cpus.append(cpu)
    return tuple(cpus), groups


class _CpuSets(NamedTuple):
    """Numbers of CPUs. allowed: by the affinity mask, which may have offline ones."""

    present: set[int]
    online: set[int]
    allowed: set[int]


def _find_cpu_sets(files: Files, listed: set[int], with_topology: set[int]) -> _CpuSets:
    """Return which CPUs are present, which are online, and which we may run on.

    Containers may show a list of CPUs online that is made up (lxcfs). The affinity mask
    (proc.rst) may contradict it. Without a mask, all CPUs are allowed.

    listed: the CPUs that the host lists as online. with_topology: the CPUs whose
    topology the kernel shows.
    """
    present = set(_read_cpu_list(files, "sys/devices/system/cpu/present")) | listed
    affinity = _read_cpu_list(files, "proc/self/status:Cpus_allowed_list")
    allowed = set(affinity) or present
    online = _find_online_cpus(listed, allowed, with_topology)
    is_list_made_up = online != listed  # as the mask shows
    if is_list_made_up:
        # so is the list of CPUs present: only those online are known to be present
        present = online
    return _CpuSets(present, online, allowed)


def _correct_models(
    models: dict[int, str | None], online: set[int], contradictions: dict[str, str]
) -> dict[int, str | None]:
    """Return the models of the CPUs. If /proc/cpuinfo names models but lists other CPUs
    than are online, its numbers are wrong: then add a sentence to `contradictions`, and
    return the models only if all CPUs have the same.
    """
    names_models = any(models.values())
    if not names_models or set(models) == online:
        return models
    contradictions["cpuinfo"] = _describe_other_cpuinfo(models, online)
    return _keep_only_model(models, online)


def _note_unlisted_cpus(
    sets: _CpuSets, online_in_sysfs: set[int], contradictions: dict[str, str]
) -> None:
    """Add a sentence to `contradictions` if we may run on CPUs that sysfs, which lists
    some, does not list as online.
    """
    unlisted = (sets.allowed & sets.online) - online_in_sysfs
    if online_in_sysfs and unlisted:
        why = _describe_other_list(online_in_sysfs, unlisted)
        contradictions["online"] = why


def _keep_only_model(
    models: Mapping[int, str | None], online: Iterable[int]
) -> dict[int, str | None]:
    """Return the model of all CPUs for each one online; none if they have several."""
    names = set(models.values())
    if len(names) > 1:
        return {}
    return dict.fromkeys(online, names.pop())


def _make_cpu(number: int, groups: Groups) -> Cpu:
    """Return a CPU with what `groups` has of it."""
    caches = groups.caches.get(number, [])
    governor, max_khz = groups.policy.get(number, (None, None))
    return Cpu(
        cpu=number,
        core=groups.lowest_member(number, "core_cpus", "thread_siblings"),
        cluster=groups.lowest_member(number, "cluster_cpus"),
        llc=lowest_llc_cpu(caches),
        die=groups.lowest_member(number, "die_cpus"),
        package=groups.lowest_member(number, "package_cpus", "core_siblings"),
        node=groups.nodes.get(number),
        capacity=groups.capacity.get(number),
        governor=governor,
        max_khz=max_khz,
        caches=tuple(sorted(caches, key=attrgetter("level", "kind"))),
    )


def _describe_other_cpuinfo(listed: Collection[int], online: Collection[int]) -> str:
    return (
        f"/proc/cpuinfo lists CPUs {format_cpus(listed)}, and {format_cpus(online)}"
        " are online: it is not the kernel's (lxcfs?), and does not tell which"
        " core is which."
    )


def _describe_other_list(listed: Collection[int], unlisted: Collection[int]) -> str:
    return (
        f"/sys lists CPUs {format_cpus(listed)} as online, the affinity mask has"
        f" {format_cpus(unlisted)}: that list is not the kernel's (lxcfs?), and the"
        " mask counts."
    )


def _find_online_cpus(
    listed: set[int], allowed: set[int], with_topology: set[int]
) -> set[int]:
    """Return the CPUs listed as online, unless the affinity mask contradicts the list.

    A mask may have offline CPUs. So it contradicts the list only if it has a CPU that
    the list lacks though it has a topology, or if it has CPUs but none of the list.
    """
    unlisted = with_topology - listed
    if not allowed.isdisjoint(unlisted):
        return with_topology
    if allowed and allowed.isdisjoint(listed):
        return allowed | with_topology
    return listed


def _find_isolated_cpus(files: Files) -> set[int] | None:
    """Return the CPUs isolated at boot and by partitions of control groups (Linux 6.7);
    None if the kernel does not publish them.

    It leaves the file empty, and the probe so leaves it out, when no CPU is isolated:
    then another file of the folder tells that it is published.
    """
    path = "sys/devices/system/cpu/isolated"
    if path not in files and "sys/devices/system/cpu/online" not in files:
        return None
    in_partitions = _read_cpu_list(files, "sys/fs/cgroup/cpuset.cpus.isolated")
    return {*_read_cpu_list(files, path), *in_partitions}


def _map_cpus_to_kinds(files: Files) -> dict[int, str]:
    """Return the kind of each CPU of a hybrid Intel machine, such as "performance".

    The kernel has a unit of performance counters for each kind, whose file
    "sys/devices/cpu_core/cpus" lists the CPUs. A unit that _KINDS_BY_UNIT lacks gives
    its own name, here "core", to the kind.
    """
    kinds = dict[int, str]()
    for path in files:
        match = _COUNTER_UNIT.fullmatch(path)
        if match is not None:
            unit = match[1]
            kind = _KINDS_BY_UNIT.get(unit, unit)
            cpus = _read_cpu_list(files, path)
            kinds |= dict.fromkeys(cpus, kind)
    return kinds


def _parse_cpu_models(sections: Sections) -> dict[int, str | None]:
    """Return the name of each CPU's core, from /proc/cpuinfo; None if it is not an Arm.

    In this file, each CPU has a block of lines, which begins with the CPU's number. On
    Arm (arch/arm64/kernel/cpuinfo.c), the block then has "CPU implementer: 0x41" and
    after it "CPU part: 0xd0b". Old kernels first list the numbers of all CPUs, then one
    implementer and part for all.
    """
    models: dict[int, str | None] = {}
    implementer = ""
    # CPUs whose part is not known yet: one, or all of them if the kernel is old
    without_part: list[int] = []
    # the probe prints these lines in `picked`; older ones printed them in `cpus`
    lines = [*sections.get("cpus", []), *sections.get("picked", [])]
    for line in lines:
        pair = line.removeprefix("proc/cpuinfo:")
        key, _, value = (part.strip() for part in pair.partition(":"))
        if key == "processor" and _is_number(value) and int(value) <= MAX_CPU:
            cpu = int(value)
            models[cpu] = None
            implementer = ""
            without_part.append(cpu)
        elif key == "CPU implementer":
            implementer = value
        elif key == "CPU part" and models:
            name = arm_core_name(implementer, value)
            models |= dict.fromkeys(without_part, name)
            without_part = []
    return models


def _read_groups(sections: Sections) -> Groups:
    """Parse the section `topology`; skip lines of unknown form.

    Its lines are, with a CPU list as "0-3,8" and numbers of CPUs as "0 1 2 3":

    - "capacity CPU VALUE";
    - "cache LEVEL KIND SIZE LINE_BYTES CPU_LIST", a cache and the CPUs that share it;
    - "policy GOVERNOR DRIVER KHZ CPUS", what scales the frequency of these CPUs;
    - "shown CPUS", those whose topology the kernel shows; the line is left out if all
      CPUs present are online;
    - "boost 1" or "boost 0";
    - "KIND CPU_LIST", the CPUs of one group, such as a core: "core_cpus 0,4".
    """
    groups = Groups()
    for line in sections.get("topology", []):
        match line.split():
            case ["capacity", cpu, value] if _is_number(cpu) and _is_number(value):
                groups.capacity[int(cpu)] = int(value)
            case ["cache", level, kind, size, line_bytes, shared] if _is_number(level):
                cache = Cache(
                    int(level),
                    kind,
                    parse_size(size),
                    parse_size(line_bytes),
                    parse_cpu_list(shared),
                )
                groups.add_cache(cache)
            case ["policy", governor, driver, khz, *cpus]:
                policy = _parse_policy(governor, khz)
                groups.add_policy(policy, driver, _parse_numbers(cpus))
            case ["shown", *cpus]:
                groups.with_topology.update(_parse_numbers(cpus))
            case ["boost", value]:
                groups.boost = value == "1"
            case [kind, cpu_list]:
                groups.add_group(kind, parse_cpu_list(cpu_list))
    return groups


def _parse_numbers(words: Iterable[str]) -> tuple[int, ...]:
    """Return the words that are numbers."""
    return tuple(int(word) for word in words if _is_number(word))


def _parse_policy(governor: str, khz: str) -> tuple[str | None, int | None]:
    """Return a cpufreq policy's governor and most kHz; None for what is unknown."""
    most_khz = int(khz) if _is_number(khz) else None
    known_governor = None if governor == "-" else governor
    return known_governor, most_khz


def parse_memory_nodes(
    files: Files, nodes_with_cpus: Collection[int]
) -> tuple[Node, ...]:
    """Return the NUMA nodes with memory; if it is unknown which have memory, the nodes
    with CPUs (ABI/stable/sysfs-devices-node).

    The distances of a node are pairs: the number of a node, and the distance to it. A
    node whose memory we may not use is not `allowed`; if the kernel does not list the
    nodes that we may use, all are. nodes_with_cpus: may have a node several times.
    """
    with_memory = _read_cpu_list(files, "sys/devices/system/node/has_memory")
    distance_lines = _read_node_files(files, "distance")
    all_nodes = sorted(distance_lines)
    allowed_key = "proc/self/status:Mems_allowed_list"
    allowed = _read_cpu_list(files, allowed_key)
    nodes = []
    for node in with_memory or sorted(set(nodes_with_cpus)):
        # "10 21": the distances to all nodes, in order of the nodes' numbers; the line
        # is missing if the kernel does not publish them
        words = distance_lines.get(node, "").split()
        distance_by_node = zip(all_nodes, _parse_numbers(words), strict=False)
        is_allowed = allowed_key not in files or node in allowed
        free = parse_kib(files.get(f"{_NODE}{node}/meminfo:MemFree", ""))
        nodes.append(Node(node, is_allowed, free, tuple(distance_by_node)))
    return tuple(nodes)


def _map_cpus_to_nodes(files: Files, contradictions: dict[str, str]) -> dict[int, int]:
    """Return the NUMA node of each CPU that is in just one node. If CPUs are in several
    nodes, as with the kernel's option numa=fake, add a sentence to `contradictions`,
    under "nodes".
    """
    texts = _read_node_files(files, "cpulist")
    cpus_by_node = {node: parse_cpu_list(text) for node, text in texts.items()}
    shared = _find_repeated(cpus_by_node.values())
    if shared:
        count = sum(not shared.isdisjoint(cpus) for cpus in cpus_by_node.values())
        contradictions["nodes"] = (
            f"CPUs {format_cpus(shared)} are each in several of {count} NUMA nodes"
            " (numa=fake?): none has a node."
        )
    node_by_cpu = {}
    for node, cpus in cpus_by_node.items():
        node_by_cpu.update(dict.fromkeys(set(cpus) - shared, node))
    return node_by_cpu


def _find_repeated(groups: Iterable[Iterable[int]]) -> set[int]:
    """Return the CPUs that are in several groups."""
    counts = Counter[int]()
    for cpus in groups:
        counts.update(cpus)
    return {cpu for cpu, count in counts.items() if count > 1}


def _read_node_files(files: Files, name: str) -> dict[int, str]:
    """Return the content of the file `name` of each NUMA node, by node number. For
    "cpulist", that of node 1 is "sys/devices/system/node/node1/cpulist".
    """
    pattern = re.compile(rf"{_NODE}([0-9]{{1,6}})/{name}")
    texts = {}
    for path, text in files.items():
        match = pattern.fullmatch(path)
        if match is not None:
            texts[int(match[1])] = text
    return texts


def _read_cpu_list(files: Files, path: str) -> tuple[int, ...]:
    return parse_cpu_list(files.get(path, ""))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,12}", text) is not None


def arm_core_name(implementer: str, part: str) -> str | None:
    """Name a core: ("0x41", "0xd0b") -> "Cortex-A76"; by its numbers if unknown; None
    if invalid.
    """
    try:
        implementer_id = f"{int(implementer, 16):#x}"
        part_id = f"{int(part, 16):#x}"
    except ValueError:
        return None
    names = _CORES.get(implementer_id, {})
    return names.get(part_id, f"Arm implementer {implementer_id} part {part_id}")

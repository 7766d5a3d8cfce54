"""A machine as it was found: facts, CPUs, the relations between them, and what would
disturb a run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import chain
from operator import attrgetter, itemgetter
from types import MappingProxyType

from fleet.model.host import Target


class Relation(StrEnum):
    """The smallest group reported by the kernel that two CPUs share; the values go from
    near to far.
    """

    SELF = "self"  # a CPU with itself
    SMT = "smt"
    CLUSTER = "cluster"
    LLC = "llc"
    DIE = "die"
    NODE = "node"
    PACKAGE = "package"
    SYSTEM = "system"  # nothing smaller than the machine
    UNKNOWN = "unknown"  # the host does not report it


KINDS = {
    "P": "performance core",
    "E": "efficiency core",
    "LP": "low-power efficiency core",
    "other": "core of a kind without a name",
    "big": "the fastest cores",
    "middle": "slower cores",
    "LITTLE": "the slowest cores",
}
# of `show --cpus-of`
CPU_GROUPS = (
    "package",
    "node",
    "die",
    "llc",
    "cluster",
    "core",
    "smt",
    "cores",
)
CORES = "cores"  # in the place of CPUs: one of each core
_PLACES = {str(relation): place for place, relation in enumerate(Relation)}
_NAMES_OF_KINDS = {
    "performance": "P",
    "efficiency": "E",
    "low-power efficiency": "LP",
}
_OF_KIND = {name: place for place, name in enumerate(KINDS)}
# from the most familiar group of CPUs to the least: of equal groups the first is named
_GROUPS = (
    Relation.PACKAGE,
    Relation.NODE,
    Relation.DIE,
    Relation.CLUSTER,
    Relation.LLC,
)
_ONLY_CORE = {Relation.SMT}


def name_core_kinds(
    cpus: Iterable[tuple[int, str | None, int | None]],
) -> dict[int, str]:
    """Return the kind of core, a key of KINDS, by CPU; {} if all are alike. cpus: for
    each CPU its number, its kind as the system names it, and its capacity. The
    capacities tell the kinds only if the system names none.
    """
    rows = list(cpus)
    kinds = {}
    for cpu, kind, _ in rows:
        if kind:
            kinds[cpu] = _NAMES_OF_KINDS.get(kind, kind)
            if kinds[cpu] not in KINDS:
                kinds[cpu] = "other"
    if not kinds:
        kinds = _name_kinds_by_capacity({cpu: capacity for cpu, _, capacity in rows})
    if len(set(kinds.values())) < 2:
        return {}
    return kinds


def _name_kinds_by_capacity(capacities: Mapping[int, int | None]) -> dict[int, str]:
    """Return the kind of core by CPU, told from the capacities of CPUs; leave out CPUs
    of unknown capacity. All are "big" if all capacities are equal.
    """
    known_capacities = {
        cpu: capacity for cpu, capacity in capacities.items() if capacity
    }
    if not known_capacities:
        return {}
    kind_by_capacity = dict.fromkeys(known_capacities.values(), "middle")
    smallest = min(kind_by_capacity)
    largest = max(kind_by_capacity)
    # "big" comes last: if all capacities are equal, the smallest is also the largest
    kind_by_capacity[smallest] = "LITTLE"
    kind_by_capacity[largest] = "big"
    return {
        cpu: kind_by_capacity[capacity] for cpu, capacity in known_capacities.items()
    }


def take_one_of_each_core(
    cpus: Iterable[tuple[int, int | None, int | None]],
) -> tuple[int, ...]:
    """Return the lowest CPU of each core, sorted. cpus: for each CPU its number,
    package and core. CPUs of an unknown core are left out.
    """
    first_cpus: dict[tuple[int | None, int], int] = {}
    for cpu, package, core in sorted(cpus, key=itemgetter(0)):
        if core is None:
            continue
        # cores of two packages may have the same number
        core_of_host = (package, core)
        first_cpus.setdefault(core_of_host, cpu)
    return tuple(first_cpus.values())


@cache  # asked for each pair
def add_core_kinds(relation: str, kind: str | None, other_kind: str | None) -> str:
    """Return a relation with its kinds of core: "package P-E", "self P"; SMT siblings
    stay plain.
    """
    if relation == Relation.SMT or kind is None or other_kind is None:
        return str(relation)
    if relation == Relation.SELF:
        return f"{relation} {kind}"
    kinds = sorted((kind, other_kind), key=list(KINDS).index)
    return f"{relation} {'-'.join(kinds)}"


def relation_sort_key(relation: str) -> tuple[int, list[int]]:
    """Return the key that sorts relations: the nearest first, then those of faster
    kinds of core.
    """
    name, _, kinds = relation.partition(" ")
    place = _PLACES.get(name, len(_PLACES))
    words = kinds.split("-")
    kind_places = [_OF_KIND[word] for word in words if word in _OF_KIND]
    return place, kind_places


def is_relation(text: str) -> bool:
    """Report whether a text is the name of a relation, with or without kinds of
    core.
    """
    name, _, kinds = text.partition(" ")
    if name not in _PLACES:
        return False
    return not kinds or set(kinds.split("-")) <= KINDS.keys()


def drop_node(name: str) -> str:
    """Return what a number of pairs is of, without the node of their lines: "package
    n0" -> "package". Other names stay as they are.
    """
    relation, _, node = name.rpartition(" ")
    is_placed = node[:1] == "n" and node[1:].isdigit() and is_relation(relation)
    return relation if is_placed else name


@dataclass(frozen=True, slots=True)
class Cache:
    """One cache of one CPU as the kernel lists it. `kind`: Data, Instruction or
    Unified.
    """

    level: int
    kind: str
    size_bytes: int | None
    line_bytes: int | None
    shared_cpus: tuple[int, ...]


def lowest_llc_cpu(caches: Iterable[Cache]) -> int | None:
    """Return the lowest CPU that shares the outermost cache that holds data; None if
    unknown.
    """
    data = [cache for cache in caches if cache.kind != "Instruction"]
    if not data:
        return None
    outermost = max(data, key=attrgetter("level"))
    return min(outermost.shared_cpus, default=None)


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node with memory. None: not reported by the host."""

    node: int
    allowed: bool = True
    free_bytes: int | None = None
    distances: tuple[tuple[int, int], ...] = ()  # (node, distance) of each
    channels: int | None = None
    channels_populated: int | None = None
    peak_mbps: int | None = None  # theoretical, of its populated channels
    read_mbps: int | None = None  # by ACPI, from the nearest CPUs, as `write_mbps`
    write_mbps: int | None = None
    network: tuple[str, ...] = ()  # its network devices


@dataclass(frozen=True, slots=True)
class Dimm:
    """A memory module, or an empty slot (size 0). None: not reported by the host."""

    slot: str | None
    channel: str | None = None
    socket: int | None = None
    size_bytes: int | None = None
    kind: str | None = None
    rated_mts: int | None = None  # MT/s that it is made for
    configured_mts: int | None = None  # MT/s that it runs at
    ranks: int | None = None
    width_bits: int | None = None  # of its data bus

    @property
    def is_populated(self) -> bool:
        """Whether there is a module in the slot."""
        return self.size_bytes != 0


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory modules and channels of a machine. peak_mbps: theoretical, of all
    populated channels.
    """

    dimms: tuple[Dimm, ...] = ()
    channels: int | None = None
    channels_populated: int | None = None
    ecc: str | None = None
    peak_mbps: int | None = None

    @property
    def populated(self) -> tuple[Dimm, ...]:
        """The slots with a module."""
        return tuple(dimm for dimm in self.dimms if dimm.is_populated)


def has_empty_channels(populated: int | None, channels: int | None) -> bool:
    """Report whether memory channels are known to have no module."""
    return populated is not None and populated < (channels or 0)


def describe_channels(populated: int | None, channels: int | None) -> str:
    """Describe how many memory channels have a module; return "" if unknown."""
    if populated is None or not channels:
        return ""
    return f"{populated} of {channels} channels populated"


@dataclass(frozen=True, slots=True)
class Cpu:
    """A logical CPU, as the OS numbers it, and the groups it is in. None: not reported
    by the host.
    """

    cpu: int
    online: bool = True
    allowed: bool = True
    core: int | None = None  # the lowest CPU of that group, as in the next four
    cluster: int | None = None
    llc: int | None = None
    die: int | None = None
    package: int | None = None
    node: int | None = None  # the NUMA node's own number
    kind: str | None = None  # of a hybrid machine, as _NAMES_OF_KINDS
    capacity: int | None = None  # relative speed, 0 to 1024 (Arm)
    model: str | None = None
    max_khz: int | None = None
    governor: str | None = None
    isolated: bool | None = None  # at boot or by a partition
    caches: tuple[Cache, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """How busy and warm the host was at one moment. None: not reported by the host."""

    load_1m: float | None = None  # runnable threads averaged over a minute
    running: int | None = None  # runnable threads now
    temperature_c: float | None = None  # of the hottest sensor
    steal_ticks: int | None = None  # clock ticks stolen by the hypervisor since boot


@dataclass(frozen=True, slots=True)
class Program:
    """A program on a host. share: its share of one CPU's time within a second. cpu:
    where it ran last.
    """

    name: str
    share: float
    cpu: int


@dataclass(frozen=True, slots=True)
class Usage:
    """How busy the host was within a second. programs: the busiest first. steal_ticks:
    as in Load.
    """

    busy_cpus: float
    steal_ticks: int = 0
    programs: tuple[Program, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler found on a host or the controller: the command and the first line of
    its --version.
    """

    command: str
    version: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a host (docs/facts.md); None: unknown, not guessed. contradictions:
    sentences, by fact.
    """

    os: str
    arch: str
    hostname: str | None = None
    kernel: str | None = None
    kernel_version: str | None = None
    kernel_cmdline: str | None = None
    distribution: str | None = None
    libc: str | None = None
    machine_id: str | None = None
    boot_id: str | None = None
    uptime_s: float | None = None
    cpu_model: str | None = None
    cpu_vendor: str | None = None
    cpu_family: str | None = None
    cpu_model_number: str | None = None
    cpu_stepping: str | None = None
    microcode: str | None = None
    cpu_flags: tuple[str, ...] = ()
    board: str | None = None
    firmware: str | None = None
    firmware_date: str | None = None
    hypervisor: str | None = None
    container: str | None = None
    memory_bytes: int | None = None
    memory_modules: str | None = None
    memory_available_bytes: int | None = None
    memory_limit: str | None = None
    processes_most: int | None = None
    priority_most: int | None = None
    page_bytes: int | None = None
    huge_pages: str | None = None
    resctrl: str | None = None
    clock_source: str | None = None
    governor: str | None = None
    frequency_driver: str | None = None
    boost: bool | None = None
    idle_driver: str | None = None
    idle_state: str | None = None
    idle_exit_us: int | None = None
    cpu_quota: float | None = None
    cpu_limit: str | None = None
    rt_runtime_us: int | None = None
    irqbalance: bool | None = None
    core_throttles: int | None = None
    package_throttles: int | None = None
    smt: bool | None = None
    smt_control: str | None = None
    isolated_cpus: tuple[int, ...] = ()
    nohz_full_cpus: tuple[int, ...] = ()
    numa_balancing: bool | None = None
    mitigations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    contradictions: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({})
    )
    cpus: tuple[Cpu, ...] = ()
    nodes: tuple[Node, ...] = ()
    memory: Memory = Memory()
    load: Load = Load()
    user: str | None = None
    workdir: str = ""  # for our files
    workdir_entries: tuple[str, ...] = ()  # names in it
    # SHA-256
    workdir_hashes: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({})
    )
    workdir_made: bool = True  # it exists
    compilers: tuple[Compiler, ...] = ()  # best first; their version may be ""
    notes: tuple[str, ...] = ()
    probe: str = ""  # the answer as received

    @property
    def target(self) -> Target:
        """The target of an agent for this host; for a "-standin" OS, that of the OS it
        imitates.
        """
        return Target(self.os.removesuffix("-standin"), self.arch)

    @property
    def core_kinds(self) -> dict[int, str]:
        """The kind of each CPU's core; empty if all are of one kind."""
        rows = [(cpu.cpu, cpu.kind, cpu.capacity) for cpu in self.cpus]
        return name_core_kinds(rows)

    @property
    def usable_cpus(self) -> frozenset[int]:
        """The CPUs that are online and on which the host allows us to measure."""
        return frozenset(cpu.cpu for cpu in self.cpus if cpu.allowed and cpu.online)


class Condition(StrEnum):
    """A condition that a host can be required to meet before it is measured."""

    QUIET = "quiet"
    NO_STEAL = "no-steal"
    PERFORMANCE = "performance"
    NO_BOOST = "no-boost"
    NO_QUOTA = "no-quota"
    COOL = "cool"
    BARE_METAL = "bare-metal"


class Severity(StrEnum):
    """How much a finding disturbs numbers: not by itself, somewhat, or so that they
    mislead.
    """

    INFO = "info"
    WARNING = "warning"
    SERIOUS = "serious"


@dataclass(frozen=True, slots=True)
class Finding:
    """A source of noise. found: a sentence. evidence: the fact. condition: the
    Condition that it violates.
    """

    kind: str
    severity: Severity
    found: str
    # a command, with its cost after a `#`, or a sentence that begins with a capital
    # letter
    remedy: str
    evidence: str
    condition: Condition | None = None


class Topology:
    """The CPUs of a machine, and the relation of any two. kinds: the kind of core by
    CPU.
    """

    def __init__(
        self, cpus: Iterable[Cpu], kinds: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        """Note for each CPU the groups that it is in, such as a package, a core or the
        CPUs of a cache; the group with the fewest CPUs first.
        """
        self.cpus = tuple(cpus)
        self._kinds = kinds
        groups_by_cpu = {cpu.cpu: _list_reported_groups(cpu) for cpu in self.cpus}
        cpu_counts = Counter(chain(*groups_by_cpu.values()))  # of each group
        # by CPU the numbers of its groups, such as {LLC: 3, PACKAGE: 0}: the smallest
        # group first; equal ones in the order of `_list_reported_groups`
        self._groups: dict[int, dict[Relation, int]] = {}
        for cpu, groups in groups_by_cpu.items():
            smallest_first = sorted(groups, key=lambda group: cpu_counts[group])
            self._groups[cpu] = dict(smallest_first)

    def relation(self, one: int, other: int) -> Relation:
        """Return the relation of the smallest group that both CPUs are in; SMT if they
        share a core. Return SYSTEM if they share no group, but UNKNOWN if the host does
        not report enough of one of them to tell.
        """
        if one == other:
            return Relation.SELF
        groups_of_one = self._groups.get(one)
        groups_of_other = self._groups.get(other)
        if not groups_of_one or not groups_of_other:
            return Relation.UNKNOWN
        # A CPU's groups are in order, the smallest first. The core is looked at before:
        # a group with the same CPUs, such as the package of a single core, precedes it.
        core = groups_of_one.get(Relation.SMT)
        if core is not None and core == groups_of_other.get(Relation.SMT):
            return Relation.SMT
        for relation, group in groups_of_one.items():
            if groups_of_other.get(relation) == group:
                return relation
        # a host that reports only cores does not say how far apart two of them are
        if _has_only_core(groups_of_one) or _has_only_core(groups_of_other):
            return Relation.UNKNOWN
        return Relation.SYSTEM

    def name_relation(self, one: int, other: int) -> str:
        """Return the name of the relation of two CPUs, with their kinds of core."""
        return add_core_kinds(
            self.relation(one, other), self._kinds.get(one), self._kinds.get(other)
        )


def _has_only_core(groups: Mapping[Relation, int]) -> bool:
    """Report whether a CPU's groups, such as {SMT: 3}, are just its core."""
    return groups.keys() == _ONLY_CORE


def _list_reported_groups(cpu: Cpu) -> list[tuple[Relation, int]]:
    """Return the groups of a CPU that the host reports, each a relation and the number
    of the group: those of _GROUPS in that order, then the core.
    """
    groups = []
    for relation in _GROUPS:
        number = getattr(cpu, relation.value)
        if number is not None:
            groups.append((relation, number))
    if cpu.core is not None:
        groups.append((Relation.SMT, cpu.core))
    return groups

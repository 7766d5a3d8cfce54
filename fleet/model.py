"""The nouns: frozen dataclasses and closed sets of words. Floor 1: imports nothing of ours.

Every word means here what the glossary (docs/glossary.md) says it means.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Via(StrEnum):
    """How a host is reached."""

    SSH = "ssh"
    LOCAL = "local"


class HostKeyPolicy(StrEnum):
    """What to do with the key of a host we have never seen. A changed key is always refused."""

    STRICT = "strict"
    ACCEPT_NEW = "accept-new"


class LockPolicy(StrEnum):
    """What to do where another controller measures on a machine: give up, wait for it, or not even ask."""

    REFUSE = "refuse"
    WAIT = "wait"
    OFF = "off"


class BuildPlace(StrEnum):
    """Where the agent's binary comes from; AUTO tries host, then controller, for QNX then the others too."""

    AUTO = "auto"
    HOST = "host"
    CONTROLLER = "controller"
    BUILD_HOST = "build-host"
    PREBUILT = "prebuilt"


class Pairs(StrEnum):
    """Which ordered pairs one round visits.

    HALF: each unordered pair once, the timing side changing from round to round. ORDERED: both ways.
    LISTED: the unordered pairs of a list. PER_RELATION: some pairs of each relation, chosen by the seed.
    """

    HALF = "half"
    ORDERED = "ordered"
    LISTED = "listed"
    PER_RELATION = "per-relation"


@dataclass(frozen=True, slots=True)
class PairChoice:
    """The pairs that were asked for; fleet/inventory/plan.py reads it as people write it.

    listed: of LISTED the pairs, each once; of PER_RELATION those chosen, once the host's topology is
    known. per_relation: how many of each relation, of PER_RELATION only.
    """

    which: Pairs = Pairs.HALF
    listed: tuple[tuple[int, int], ...] = ()
    per_relation: int | None = None


class LinePolicy(StrEnum):
    """FRESH: another line for every burst. FIXED: the same one for all bursts of a run."""

    FRESH = "fresh"
    FIXED = "fixed"


class Order(StrEnum):
    """In which order a round visits its pairs; SHUFFLED by the seed."""

    SHUFFLED = "shuffled"
    SEQUENTIAL = "sequential"


class Side(StrEnum):
    """One of the two threads of a burst; PING holds the clock."""

    PING = "ping"
    PONG = "pong"


class Preset(StrEnum):
    """Another tool whose scheme and estimator a run follows, so that its number can be reproduced."""

    CORE_LATENCY = "core_latency"
    CORE_TO_CORE_LATENCY = "core-to-core-latency"
    C2CLAT = "c2clat"


class Estimator(StrEnum):
    """How samples become the one number of a pair; MEDIAN is the median of its bursts' medians."""

    MEDIAN = "median"
    MEAN = "mean"
    MIN = "min"


class Relation(StrEnum):
    """The smallest group of CPUs, as the kernel groups them, that two CPUs share.

    Ordered from near to far. SELF is a CPU with itself (the `clock` benchmark), MACHINE a pair that
    shares nothing smaller than the machine, UNKNOWN a pair whose topology the host does not tell.
    """

    SELF = "self"
    SMT = "smt"
    CLUSTER = "cluster"
    LLC = "llc"
    DIE = "die"
    NODE = "node"
    PACKAGE = "package"
    MACHINE = "machine"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ToolchainWish:
    """What the inventory asks of the toolchain; None and () leave the choice to us.

    cc: compiler command, for instance "gcc-12". cflags: added to ours. binary: path, on the controller,
    of a prebuilt agent. sdp: path of a QNX software development platform on the controller, and of a build
    host on itself. build_host: name of a host of the inventory that has one.
    """

    cc: str | None = None
    cflags: tuple[str, ...] = ()
    binary: str | None = None
    sdp: str | None = None
    build_host: str | None = None


@dataclass(frozen=True, slots=True)
class PlanWish:
    """What an inventory entry or the command line asks of a plan; None leaves it to the next one asked.

    The fields mean what they mean in `Plan`.
    """

    benchmarks: tuple[str, ...] | None = None
    variant: str | None = None
    preset: Preset | None = None
    samples: int | None = None
    iterations: int | None = None
    warmup: int | None = None
    rounds: int | None = None
    precision: float | None = None
    time_budget_s: float | None = None
    spread_s: float | None = None
    pairs: PairChoice | None = None
    order: Order | None = None
    line: LinePolicy | None = None
    owner: Side | None = None
    node: int | None = None
    separation_bytes: int | None = None
    huge_page: bool | None = None
    governor: str | None = None
    boost: bool | None = None
    cpus: tuple[int, ...] | None = None
    seed: int | None = None
    priority: int | None = None
    deadline_s: int | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """A machine in the inventory, after defaults, groups and the host's own entry have been merged.

    `name` is the inventory's; `host_id` (see below) is the key in the tables. `os`, `arch`: None means
    "find out". `os_release`: QNX's, for a host that does not tell it. `port`, `user`: None means "as
    ssh_config says, else 22 / the current user". `jump`: hops in order, each `[user@]host[:port]`.
    `build_host`: the one `toolchain` names, with how to reach it. `origin`: "file:line" of the entry.
    """

    name: str
    address: str
    via: Via = Via.SSH
    port: int | None = None
    user: str | None = None
    identity_files: tuple[str, ...] = ()
    jump: tuple[str, ...] = ()
    host_key: HostKeyPolicy = HostKeyPolicy.STRICT
    os: str | None = None
    arch: str | None = None
    os_release: str | None = None
    build: BuildPlace = BuildPlace.AUTO
    toolchain: ToolchainWish = ToolchainWish()
    workdir: str | None = None
    priority: int | None = None
    lock: LockPolicy = LockPolicy.REFUSE
    cpus: tuple[int, ...] | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    plan: PlanWish = PlanWish()
    groups: tuple[str, ...] = ()
    build_host: "Host | None" = None
    origin: str = ""

    @property
    def host_id(self) -> str:
        """The key in the tables: the name, made to begin with a letter so that readers keep it a string."""
        return self.name if self.name[0].isalpha() else f"h-{self.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure on one host; every field is recorded with the run.

    None: not asked for, so the preset's or else the agent's default; what that was stands in the hello.
    cpus: None means every CPU the agent may use.

    variant: a name, "auto", "all", or one per benchmark ("cas=lse,readwrite=ldar"). iterations: round
    trips in one sample. rounds: the least number; alone, without a precision, it is also the greatest.
    precision: share of the mean to which the 95 % interval of every pair shall be known, 0 for "off".
    time_budget_s: how long rounds may be added for it. spread_s: the least rounds take at least so long.
    owner: the thread that touches the lines first. node: NUMA node to place them on. separation_bytes:
    between the two lines of `readwrite`. governor, boost: set for the time of the run, then restored.
    priority: realtime priority to ask for. deadline_s: the agent ends itself then.
    """

    benchmarks: tuple[str, ...] = ("cas", "readwrite")
    variant: str | None = None
    preset: Preset | None = None
    samples: int | None = None
    iterations: int | None = None
    warmup: int | None = None
    rounds: int | None = None
    precision: float | None = None
    time_budget_s: float | None = None
    spread_s: float | None = None
    pairs: PairChoice | None = None
    order: Order | None = None
    line: LinePolicy | None = None
    owner: Side | None = None
    node: int | None = None
    separation_bytes: int | None = None
    huge_page: bool | None = None
    governor: str | None = None
    boost: bool | None = None
    cpus: tuple[int, ...] | None = None
    seed: int = 0
    priority: int | None = None
    deadline_s: int = 3600


@dataclass(frozen=True, slots=True)
class Target:
    """The (os, arch) an agent is built for; never a machine. Written `linux-aarch64`."""

    os: str
    arch: str

    def __str__(self) -> str:
        return f"{self.os}-{self.arch}"


@dataclass(frozen=True, slots=True)
class Cache:
    """One cache of one CPU as the kernel lists it. `kind`: Data, Instruction or Unified."""

    level: int
    kind: str
    size_bytes: int | None
    line_bytes: int | None
    shared_cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU, by the OS's number, and the groups it is in.

    `core`, `cluster`, `llc`, `die`, `package` each hold the lowest CPU number of that group (so an id is
    unique on the machine, unlike the kernel's core_id); `node` is the NUMA node's own number. None: the
    host does not tell. `kind`: "performance" or "efficiency" on hybrid machines. `capacity`: relative
    speed 0..1024 (Arm). `isolated`: taken out of the scheduler by isolcpus.
    """

    cpu: int
    online: bool = True
    allowed: bool = True
    core: int | None = None
    cluster: int | None = None
    llc: int | None = None
    die: int | None = None
    package: int | None = None
    node: int | None = None
    kind: str | None = None
    capacity: int | None = None
    model: str | None = None
    max_khz: int | None = None
    governor: str | None = None
    isolated: bool | None = None
    caches: tuple[Cache, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """How busy and warm the host was at one moment; None where it does not tell.

    load_1m: runnable threads averaged over a minute. temperature_c: the hottest sensor.
    steal_ticks: time stolen by the hypervisor since boot, in clock ticks. running: runnable threads now.
    """

    load_1m: float | None = None
    running: int | None = None
    temperature_c: float | None = None
    steal_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler found on a host or the controller: the command and the first line of its --version."""

    command: str
    version: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found on a host. Unknown stays None; nothing here is guessed.

    `idle_state`, `idle_exit_us`: the deepest that is enabled, and how long leaving it takes. `cpu_quota`:
    CPUs' worth of time our control group may use; None also without a limit. `rt_runtime_us`: of a second,
    for realtime threads; -1: all of it. `core_throttles`, `package_throttles`: since boot, of all CPUs.
    `workdir`: the private directory chosen for our files. `workdir_entries`: the names in it.
    `workdir_hashes`: of agents there, the SHA-256 of what they hold; none where the host cannot tell.
    `workdir_made`: it is there; False only where we looked without making it.
    `compilers`: those there are, best first; one without a version was not asked for it. `notes`: sentences
    for the person (a hypervisor hides the topology, a CPU is offline, ...). `probe`: the probe's answer as
    received, for later readers.
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
    page_bytes: int | None = None
    huge_pages: str | None = None
    clock_source: str | None = None
    governor: str | None = None
    frequency_driver: str | None = None
    boost: bool | None = None
    idle_driver: str | None = None
    idle_state: str | None = None
    idle_exit_us: int | None = None
    cpu_quota: float | None = None
    rt_runtime_us: int | None = None
    irqbalance: bool | None = None
    core_throttles: int | None = None
    package_throttles: int | None = None
    smt: bool | None = None
    isolated_cpus: tuple[int, ...] = ()
    nohz_full_cpus: tuple[int, ...] = ()
    numa_balancing: bool | None = None
    mitigations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cpus: tuple[Cpu, ...] = ()
    load: Load = Load()
    user: str | None = None
    workdir: str = ""
    workdir_entries: tuple[str, ...] = ()
    workdir_hashes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    workdir_made: bool = True
    compilers: tuple[Compiler, ...] = ()
    notes: tuple[str, ...] = ()
    probe: str = ""

    @property
    def target(self) -> Target:
        """What an agent for this host must be built for; a stand-in gets the agent of what it imitates."""
        return Target(self.os.removesuffix("-standin"), self.arch)


class Severity(StrEnum):
    """How much a finding spoils numbers: nothing by itself, somewhat, or so that they mislead."""

    INFO = "info"
    WARNING = "warning"
    SERIOUS = "serious"


@dataclass(frozen=True, slots=True)
class Finding:
    """A source of noise on a host. `found`: a sentence with the value; `evidence`: the field it is from.

    remedy: a command or setting, with what it costs; empty where there is none.
    """

    kind: str
    severity: Severity
    found: str
    remedy: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent proved to be on a host.

    path: on the host. build: the build id it must repeat in its hello. place: where it was built, in
    words for people ("on the host with gcc 12.2", "cached", ...). compiler: None if only the agent knows.
    """

    path: str
    build: str
    target: Target
    place: str
    compiler: str | None = None
    cflags: str | None = None


@dataclass(frozen=True, slots=True)
class Hello:
    """The agent's first record, decoded; `raw` is the whole JSON object, kept with the run.

    bursts: visits of the least rounds. bursts_max: at most so many follow; more than `bursts` only if
    there is a precision to reach. precision: as in Plan, None for none.
    """

    build: str
    os: str
    arch: str
    clock: str
    ticks_per_second: int
    pairs: int
    bursts: int
    cpus: tuple[int, ...]
    raw: Mapping[str, object]
    bursts_max: int = 0
    precision: float | None = None
    time_budget_s: float | None = None
    spread_s: float = 0.0
    preset: str | None = None
    estimator: Estimator = Estimator.MEDIAN

    def __post_init__(self) -> None:
        object.__setattr__(self, "bursts_max", max(self.bursts, self.bursts_max))


@dataclass(frozen=True, slots=True)
class Burst:
    """The few samples of one pair taken at one visit, on a fresh line; the unit the tables store.

    ticks: elapsed clock ticks of each sample of `iterations` round trips; the first `warmup` are
    warm-ups. start_offset_ns: since the agent's hello. ping_cpus, pong_cpus: the CPU each thread was on
    (before, after). switches: voluntary and involuntary context switches of ping, then of pong; None
    where the OS does not count them. ran_ppm: share of the burst that ping and pong really ran, in
    millionths. line_page: virtual, line_physical: physical page number; None
    where unknown. flags: what may have spoilt it (docs/flags.md).
    """

    benchmark: str
    variant: str
    round: int
    ping_cpu: int
    pong_cpu: int
    iterations: int
    warmup: int
    ticks: tuple[int, ...]
    start_offset_ns: int
    ping_cpus: tuple[int, int]
    pong_cpus: tuple[int, int]
    switches: tuple[int, int, int, int] | None
    line_page: int | None = None
    line_offset: int | None = None
    line_node: int | None = None
    line_physical: int | None = None
    ran_ppm: tuple[int, int] | None = None
    flags: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, int, int, int]:
        """What makes a burst unique in its run."""
        return (self.benchmark, self.variant, self.round, self.ping_cpu, self.pong_cpu)


@dataclass(frozen=True, slots=True)
class Failed:
    """A burst the agent had to give up, and why; it has no numbers."""

    benchmark: str
    variant: str
    round: int
    ping_cpu: int
    pong_cpu: int
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence from the agent for the person: a refused priority, a coarse clock, ..."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The agent's last record. `reason` is "done" only if every planned burst was taken or reported.

    converged, unconverged: how many pairs (of a benchmark and variant) reached the precision asked for
    and how many did not in the time there was; None without a precision.
    """

    bursts: int
    failed: int
    reason: str
    converged: int | None = None
    unconverged: int | None = None


class RunState(StrEnum):
    """COMPLETE: every planned burst. PARTIAL: some failed, named in the run. UNFINISHED: only a journal."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Run:
    """One plan on one host at one time, and all that makes its numbers explainable years later.

    started_utc, ended_utc: ISO 8601 with Z, by the controller's clock. load_before, load_after: as found.
    """

    run_id: str
    session_id: str
    host: Host
    plan: Plan
    facts: Facts
    agent: Agent
    started_utc: str
    hello: Hello | None = None
    end: End | None = None
    ended_utc: str | None = None
    state: RunState = RunState.UNFINISHED
    failed: tuple[Failed, ...] = ()
    notes: tuple[str, ...] = ()
    load_after: Load = Load()
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    fleet_version: str = ""


_GROUPS = (Relation.PACKAGE, Relation.NODE, Relation.DIE, Relation.CLUSTER, Relation.LLC)


@dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs of one machine and the relation of any two of them.

    `_groups`: of each CPU, the groups it is in as (relation, group id), the smallest first; made once, so
    that all pairs of a machine with hundreds of CPUs are named in a fraction of a second.
    """

    cpus: tuple[Cpu, ...]
    _groups: Mapping[int, Mapping[Relation, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = Counter(group for cpu in self.cpus for group in _groups_of(cpu))
        object.__setattr__(
            self,
            "_groups",
            {cpu.cpu: dict(sorted(_groups_of(cpu), key=sizes.__getitem__)) for cpu in self.cpus},
        )

    def relation(self, one: int, other: int) -> Relation:
        """Name the smallest group both CPUs share.

        SMT siblings are named first. Where groups coincide (a desktop's last-level cache, die, node and
        package are often the same CPUs) the most familiar name is used: package, node, die, cluster, llc,
        in that order. UNKNOWN if the host tells nothing of one of them, or if it is none of its CPUs.
        """
        if one == other:
            return Relation.SELF
        a, b = self._groups.get(one), self._groups.get(other)
        if not a or not b:
            return Relation.UNKNOWN
        if Relation.SMT in a and a[Relation.SMT] == b.get(Relation.SMT):
            return Relation.SMT
        for relation, group in a.items():
            if b.get(relation) == group:
                return relation
        known = len(a) > (Relation.SMT in a) and len(b) > (Relation.SMT in b)
        return Relation.MACHINE if known else Relation.UNKNOWN


def _groups_of(cpu: Cpu) -> list[tuple[Relation, int]]:
    """The groups a CPU is told to be in, the most familiar first, its core last."""
    told = [(relation, getattr(cpu, relation.value)) for relation in _GROUPS] + [(Relation.SMT, cpu.core)]
    return [(relation, group) for relation, group in told if group is not None]

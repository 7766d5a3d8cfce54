"""Finds what disturbs measurements on a Linux host (docs/check.md), phrased by
`findings`. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence

from fleet.facts.findings import make_finding
from fleet.model import (
    Dimm,
    Facts,
    Finding,
    Memory,
    Severity,
    Usage,
    has_empty_channels,
)
from fleet.plan.cpulist import format_cpus

LOAD_SHARE = 0.5  # of the CPUs
# of all CPUs, and in CPUs: more than both is busy
BUSY_SHARE = 0.01
BUSY_CPUS = 0.25
HOT_C = 85.0
DEEP_IDLE_US = 10
QUOTA_SHARE = 0.25  # of the CPUs' time is more than bursts take
USUAL_PAGE = 4096  # bytes
OWN_PROCESSES = 8  # beside the threads that measure: a login, shells, the agent
_X86 = ("x86_64", "i386")
_NOT_THE_COUNTER = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"}
_CHOOSING_DRIVERS = {"intel_pstate", "amd-pstate-epp"}


def find_noise(facts: Facts, usage: Usage | None = None) -> Iterator[Finding]:
    """Yield findings on all that disturbs measurements on the host. usage: how busy it
    is, if measured.
    """
    # an unknown fact is no finding, unless that itself is a problem
    yield from _find_frequency_noise(facts)
    yield from _find_idle_state_and_heat(facts)
    yield from _find_virtualization(facts)
    yield from _find_limits(facts)
    yield from _find_memory_faults(facts)
    yield from _find_clock_faults(facts)
    yield from _find_kernel_noise(facts)
    yield from _find_contradictions(facts)
    yield from _find_cpus_left_out(facts)
    yield from _find_cpu_noise(facts)
    yield from _find_load(facts, usage)


def _find_frequency_noise(facts: Facts) -> Iterator[Finding]:
    """Yield findings on what lets the frequency of CPUs vary. `boost` is None if it is
    unknown whether it is on; a host may have several frequency drivers.
    """
    if facts.governor not in (None, "performance"):
        yield make_finding("governor", facts)
    if facts.boost:
        yield make_finding("boost", facts)
    if facts.boost is None:
        yield make_finding("boost.unknown", facts)

    drivers = set((facts.frequency_driver or "").split(", "))
    choosing = drivers & _CHOOSING_DRIVERS
    if choosing and "powersave" in (facts.governor or ""):
        yield make_finding("driver.choosing", facts, driver=min(choosing))
    if "acpi-cpufreq" in drivers:
        yield make_finding("driver.acpi", facts)


def _find_idle_state_and_heat(facts: Facts) -> Iterator[Finding]:
    """Yield findings on deep idle states, on heat that slowed CPUs down, and on heat
    now.
    """
    if (facts.idle_exit_us or 0) > DEEP_IDLE_US:
        yield make_finding(
            "idle",
            facts,
            state=facts.idle_state or "unnamed",
            driver=facts.idle_driver or "unknown driver",
            # the advice: `cpupower idle-set -D` disables states of this latency or more
            deep=DEEP_IDLE_US + 1,
        )

    throttles = (facts.core_throttles or 0) + (facts.package_throttles or 0)
    if throttles:
        yield make_finding("throttled", facts, throttles=throttles)
    if (facts.load.temperature_c or 0.0) >= HOT_C:
        yield make_finding("temperature", facts)


def _find_virtualization(facts: Facts) -> Iterator[Finding]:
    """Yield findings on a hypervisor, on a container, and on an unknown version of the
    microcode. That version is sought only on x86 without a hypervisor: a guest may be
    shown another than the machine's.
    """
    if facts.hypervisor:
        yield make_finding("hypervisor", facts)
    elif facts.arch in _X86 and facts.microcode is None:
        yield make_finding("microcode", facts)
    if facts.container:
        yield make_finding("container", facts)


def _find_limits(facts: Facts) -> Iterator[Finding]:
    """Yield findings on limits of what we may use: CPU time, memory bandwidth, memory,
    processes and priority.
    """
    count = len(facts.usable_cpus)
    quota = facts.cpu_quota
    if quota is not None:
        is_tight = quota < QUOTA_SHARE * count
        severity = Severity.WARNING if is_tight else Severity.INFO
        yield make_finding("quota", facts, severity)
    has_bandwidth_limit = ":" in (facts.resctrl or "")  # "MB:0=50"
    if has_bandwidth_limit:
        yield make_finding("resctrl", facts)
    available = facts.memory_available_bytes
    if facts.memory_limit is not None and available is not None:
        yield make_finding("memory", facts, mib=available >> 20)
    allowed = facts.processes_most
    # the agent has a thread on each CPU
    if allowed is not None and allowed < count + OWN_PROCESSES:
        yield make_finding(
            "processes",
            facts,
            count=count,
            own=OWN_PROCESSES,
        )
    # root may set any priority, whatever the limit is
    if facts.priority_most == 0 and facts.user != "root":
        yield make_finding("priority", facts)


def _find_memory_faults(facts: Facts) -> Iterator[Finding]:
    """Yield findings on memory channels without a module, on modules that differ, and
    on modules that run slower than they are made for.
    """
    memory = facts.memory
    modules = memory.populated
    if has_empty_channels(memory.channels_populated, memory.channels):
        yield make_finding(
            "channel",
            facts,
            populated=memory.channels_populated,
            channels=memory.channels,
            named=_name_empty_channels(memory),
        )
    kinds = {
        (dimm.size_bytes, dimm.kind, dimm.rated_mts, dimm.ranks) for dimm in modules
    }
    if len(kinds) > 1:
        yield make_finding("dimms", facts)
    slowed = _list_reduced_speeds(modules)
    if slowed:
        configured, rated = min(slowed)
        yield make_finding(
            "dimm_speed",
            facts,
            configured=configured,
            rated=rated,
        )


def _list_reduced_speeds(modules: Iterable[Dimm]) -> list[tuple[int, int]]:
    """Return, of each module that runs slower than it is made for, the speed that it
    runs at and the one that it is made for, in MT/s.
    """
    speeds = []
    for dimm in modules:
        configured = dimm.configured_mts or 0  # 0: unknown
        rated = dimm.rated_mts or 0
        if 0 < configured < rated:
            speeds.append((configured, rated))
    return speeds


def _name_empty_channels(memory: Memory) -> str:
    """Return " (empty: A, B)"; "" if no channel without a module has a name."""
    filled = {dimm.channel for dimm in memory.populated}
    named = {dimm.channel for dimm in memory.dimms if dimm.channel}
    empty = sorted(named - filled)
    if not empty:
        return ""
    return f" (empty: {', '.join(empty)})"


def _find_clock_faults(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the CPU counter, which the agent reads, is no good clock
    (docs/variants.md): if the counter stops while an x86 CPU sleeps; if an armv7 kernel
    does not use the counter, which may then be out of reach; or if the kernel chose
    another clock because it distrusts the counter.
    """
    source = facts.clock_source
    flags = facts.cpu_flags
    if facts.arch in _X86 and flags and "nonstop_tsc" not in flags:
        yield make_finding("clock.stops", facts, source=source or "unknown")
    elif facts.arch == "armv7" and source not in (None, "arch_sys_counter"):
        yield make_finding("clock.timer", facts)
    elif source in _NOT_THE_COUNTER:
        yield make_finding("clock.distrusted", facts)


def _find_kernel_noise(facts: Facts) -> Iterator[Finding]:
    """Yield findings on what the kernel is set to do: to move pages, interrupts and
    tasks, to use pages of another size than usual, and to skip mitigations.

    A negative `rt_runtime_us` means that tasks in real time are never throttled.
    """
    nodes = {cpu.node for cpu in facts.cpus} - {None}
    if facts.numa_balancing and len(nodes) > 1:
        yield make_finding("numa_balancing", facts)
    if facts.irqbalance:
        # it moves no interrupts to isolated CPUs
        severity = Severity.INFO if facts.isolated_cpus else Severity.WARNING
        yield make_finding("irqbalance", facts, severity)
    if facts.rt_runtime_us is not None and facts.rt_runtime_us >= 0:
        yield make_finding("rt_throttling", facts)
    if facts.page_bytes is not None and facts.page_bytes > USUAL_PAGE:
        yield make_finding("pages", facts, kib=facts.page_bytes >> 10)
    kernel_options = (facts.kernel_cmdline or "").split()
    if "mitigations=off" in kernel_options:
        yield make_finding("mitigations", facts)


def _find_contradictions(facts: Facts) -> Iterator[Finding]:
    for name, sentence in facts.contradictions.items():
        yield make_finding(f"contradiction.{name}", facts, sentence=sentence)


def _find_cpus_left_out(facts: Facts) -> Iterator[Finding]:
    """Yield findings on cores shared by siblings, and on CPUs that are not measured."""
    if facts.smt:
        yield make_finding("smt", facts)
    offline = [cpu.cpu for cpu in facts.cpus if not cpu.online]
    if offline:
        # the advice is a loop of the shell over these numbers
        numbers = " ".join(map(str, offline))
        yield make_finding(
            "offline",
            facts,
            cpus=format_cpus(offline),
            numbers=numbers,
        )
    left_out = [cpu for cpu in facts.cpus if cpu.online and not cpu.allowed]
    barred = [cpu.cpu for cpu in left_out if not cpu.isolated]
    if barred:
        yield make_finding("barred", facts, cpus=format_cpus(barred))
    isolated = [cpu.cpu for cpu in left_out if cpu.isolated]
    if isolated:
        yield make_finding("isolated", facts, cpus=format_cpus(isolated))


def _find_cpu_noise(facts: Facts) -> Iterator[Finding]:
    """Yield findings on cores of several kinds, on the lack of isolated CPUs, which the
    kernel keeps free of other tasks, and on isolated CPUs that the kernel's tick
    interrupts.
    """
    kinds = sorted({cpu.kind for cpu in facts.cpus if cpu.kind})
    if len(kinds) > 1:
        yield _make_hybrid_finding(facts, kinds)
    if facts.cpus and not facts.isolated_cpus:
        yield make_finding("isolation", facts)
    ticking = set(facts.isolated_cpus) - set(facts.nohz_full_cpus)
    if ticking:
        yield make_finding("tick", facts, cpus=format_cpus(sorted(ticking)))


def _make_hybrid_finding(facts: Facts, kinds: Sequence[str]) -> Finding:
    """Return the finding on cores of several kinds. kinds: of the cores, sorted."""
    # the advice names the CPUs of one kind: "performance" is the last of the kinds in
    # the alphabet
    advised_kind = kinds[-1]
    own_cpus = [cpu.cpu for cpu in facts.cpus if cpu.kind == advised_kind]
    return make_finding(
        "hybrid",
        facts,
        kinds=", ".join(kinds),
        cpus=format_cpus(own_cpus),
        kind=advised_kind,
    )


def _find_load(facts: Facts, usage: Usage | None) -> Iterator[Finding]:
    """Yield findings on what others run: the load average, busy CPUs, and CPU time that
    the hypervisor gave to others (steal). usage: None if it was not measured.
    """
    count = sum(cpu.online for cpu in facts.cpus)
    if count and (facts.load.load_1m or 0.0) > LOAD_SHARE * count:
        yield make_finding("load", facts, count=count)
    if usage is None:
        return
    if usage.busy_cpus > max(BUSY_CPUS, BUSY_SHARE * count):
        yield make_finding(
            "busy",
            facts,
            busy=usage.busy_cpus,
            count=count,
            named=_name_programs(usage),
        )
    if usage.steal_ticks:
        yield make_finding("steal", facts, ticks=usage.steal_ticks)


def _name_programs(usage: Usage) -> str:
    """Return " (make 95 % on CPU 3, cc1 40 % on CPU 5)"; "" without known programs."""
    if not usage.programs:
        return ""
    words = []
    for program in usage.programs:
        percent = f"{program.share * 100:.0f} %"
        words.append(f"{program.name} {percent} on CPU {program.cpu}")
    return f" ({', '.join(words)})"

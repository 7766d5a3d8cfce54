"""Finds what disturbs measurements on a Linux host, phrased by `findings`. Pure.

An unknown fact gives no finding, unless that itself is a problem. docs/check.md explains the thresholds.
"""

from collections.abc import Iterator

from fleet.facts.findings import make_finding
from fleet.model import Facts, Finding, Severity, Usage
from fleet.plan.cpulist import format_cpus

LOAD_SHARE = 0.5  # of the CPUs
BUSY_SHARE, BUSY_CPUS = 0.01, 0.25  # of the CPUs, and of one CPU: more than both is busy
HOT_C = 85.0
DEEP_IDLE_US = 10
QUOTA_SHARE = 0.25  # of the CPUs' time is more than bursts take
USUAL_PAGE = 4096  # bytes
OWN_PROCESSES = 8  # beside the threads that measure: a login, shells, the agent
_X86 = ("x86_64", "i386")
_NOT_THE_COUNTER = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"}
_CHOOSING_DRIVERS = {"intel_pstate", "amd-pstate-epp"}


def find_noise(facts: Facts, usage: Usage | None = None) -> Iterator[Finding]:
    """Return everything that disturbs measurements there. usage: of a second after the facts."""
    for check in (
        _check_frequency,
        _check_heat_and_idle,
        _check_machine,
        _check_limits,
        _check_memory,
        _check_clock,
        _check_kernel,
        _check_cpus,
        _check_isolation,
    ):
        yield from check(facts)
    yield from _check_load(facts, usage)


def _check_frequency(facts: Facts) -> Iterator[Finding]:
    drivers = set((facts.frequency_driver or "").split(", "))
    if facts.governor is not None and facts.governor != "performance":
        yield make_finding("governor", facts)
    if facts.boost:
        yield make_finding("boost", facts)
    elif facts.boost is None:
        yield make_finding("boost.unknown", facts)
    if (driver := min(drivers & _CHOOSING_DRIVERS, default=None)) and "powersave" in (facts.governor or ""):
        yield make_finding("driver.choosing", facts, driver=driver)
    if "acpi-cpufreq" in drivers:
        yield make_finding("driver.acpi", facts)


def _check_heat_and_idle(facts: Facts) -> Iterator[Finding]:
    if facts.idle_exit_us is not None and facts.idle_exit_us > DEEP_IDLE_US:
        state, driver = facts.idle_state or "unnamed", facts.idle_driver or "unknown driver"
        yield make_finding("idle", facts, state=state, driver=driver, deep=DEEP_IDLE_US + 1)
    if throttles := (facts.core_throttles or 0) + (facts.package_throttles or 0):
        yield make_finding("throttled", facts, throttles=throttles)
    if facts.load.temperature_c is not None and facts.load.temperature_c >= HOT_C:
        yield make_finding("temperature", facts)


def _check_machine(facts: Facts) -> Iterator[Finding]:
    if facts.hypervisor:
        yield make_finding("hypervisor", facts)
    elif facts.arch in _X86 and facts.microcode is None:
        yield make_finding("microcode", facts)
    if facts.container:
        yield make_finding("container", facts)


def _check_limits(facts: Facts) -> Iterator[Finding]:
    count = len(facts.usable_cpus)
    if facts.cpu_quota is not None:
        disturbs = facts.cpu_quota < QUOTA_SHARE * count
        yield make_finding("quota", facts, Severity.WARNING if disturbs else Severity.INFO)
    if ":" in (facts.resctrl or ""):
        yield make_finding("resctrl", facts)
    if facts.memory_limit is not None and facts.memory_available_bytes is not None:
        yield make_finding("memory", facts, mib=facts.memory_available_bytes >> 20)
    if facts.processes_most is not None and facts.processes_most < count + OWN_PROCESSES:
        yield make_finding("processes", facts, count=count, own=OWN_PROCESSES)
    if facts.priority_most == 0 and facts.user != "root":
        yield make_finding("priority", facts)


def _check_memory(facts: Facts) -> Iterator[Finding]:
    memory = facts.memory
    populated, channels = memory.channels_populated, memory.channels
    if populated is not None and channels and populated < channels:
        filled = {dimm.channel for dimm in memory.populated}
        empty = sorted({dimm.channel for dimm in memory.dimms if dimm.channel} - filled)
        named = f" (empty: {', '.join(empty)})" if empty else ""
        yield make_finding("channel", facts, populated=populated, channels=channels, named=named)
    if len({(dimm.size_bytes, dimm.kind, dimm.rated_mts, dimm.ranks) for dimm in memory.populated}) > 1:
        yield make_finding("dimms", facts)
    speeds = {(dimm.configured_mts, dimm.rated_mts) for dimm in memory.populated}
    if slower := [(now, rated) for now, rated in speeds if now and rated and now < rated]:
        configured, rated = min(slower)
        yield make_finding("dimm_speed", facts, configured=configured, rated=rated)


def _check_clock(facts: Facts) -> Iterator[Finding]:
    """Report clocks for which the agent cannot read the CPU's own counter (docs/variants.md, Clocks)."""
    source = facts.clock_source
    if facts.arch in _X86 and facts.cpu_flags and "nonstop_tsc" not in facts.cpu_flags:
        yield make_finding("clock.stops", facts, source=source or "unknown")
    elif facts.arch == "armv7" and source is not None and source != "arch_sys_counter":
        yield make_finding("clock.timer", facts)
    elif source in _NOT_THE_COUNTER:
        yield make_finding("clock.distrusted", facts)


def _check_kernel(facts: Facts) -> Iterator[Finding]:
    if facts.numa_balancing and len({cpu.node for cpu in facts.cpus if cpu.node is not None}) > 1:
        yield make_finding("numa_balancing", facts)
    if facts.irqbalance:
        yield make_finding("irqbalance", facts, Severity.INFO if facts.isolated_cpus else Severity.WARNING)
    if facts.rt_runtime_us is not None and facts.rt_runtime_us >= 0:
        yield make_finding("rt_throttling", facts)
    if facts.page_bytes is not None and facts.page_bytes > USUAL_PAGE:
        yield make_finding("pages", facts, kib=facts.page_bytes >> 10)
    if "mitigations=off" in (facts.kernel_cmdline or "").split():
        yield make_finding("mitigations", facts)


def _check_cpus(facts: Facts) -> Iterator[Finding]:
    for name, sentence in facts.contradictions.items():
        yield make_finding(f"contradiction.{name}", facts, sentence=sentence)
    if facts.smt:
        yield make_finding("smt", facts)
    if offline := [cpu.cpu for cpu in facts.cpus if not cpu.online]:
        yield make_finding("offline", facts, cpus=format_cpus(offline), each=" ".join(map(str, offline)))
    left_out = [cpu for cpu in facts.cpus if cpu.online and not cpu.allowed]
    for name, isolated in (("barred", False), ("isolated", True)):
        if numbers := [cpu.cpu for cpu in left_out if bool(cpu.isolated) is isolated]:
            yield make_finding(name, facts, cpus=format_cpus(numbers))
    if len(kinds := sorted({cpu.kind for cpu in facts.cpus if cpu.kind})) > 1:
        one_kind = format_cpus(cpu.cpu for cpu in facts.cpus if cpu.kind == kinds[-1])
        yield make_finding("hybrid", facts, kinds=", ".join(kinds), cpus=one_kind, kind=kinds[-1])


def _check_isolation(facts: Facts) -> Iterator[Finding]:
    if facts.cpus and not facts.isolated_cpus:
        yield make_finding("isolation", facts)
    if ticking := sorted(set(facts.isolated_cpus) - set(facts.nohz_full_cpus)):
        yield make_finding("tick", facts, cpus=format_cpus(ticking))


def _check_load(facts: Facts, usage: Usage | None) -> Iterator[Finding]:
    load, count = facts.load, sum(cpu.online for cpu in facts.cpus)
    if load.load_1m is not None and count and load.load_1m > LOAD_SHARE * count:
        yield make_finding("load", facts, count=count)
    if usage is not None and usage.busy_cpus > max(BUSY_CPUS, BUSY_SHARE * count):
        named = [
            f"{program.name} {program.share * 100:.0f} % on CPU {program.cpu}" for program in usage.programs
        ]
        listed = f" ({', '.join(named)})" if named else ""
        yield make_finding("busy", facts, busy=usage.busy_cpus, count=count, named=listed)
    if usage is not None and usage.steal_ticks:
        yield make_finding("steal", facts, ticks=usage.steal_ticks)

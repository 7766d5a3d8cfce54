"""Finds what disturbs measurements on a Linux host (docs/check.md), phrased by
`findings`. Pure.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.facts.findings import make_finding
from fleet.model import Facts, Finding, Severity, Usage
from fleet.plan.cpulist import format_cpus

LOAD_SHARE = 0.5  # of the CPUs
# of the CPUs, and of one CPU: more than both is busy
BUSY_SHARE, BUSY_CPUS = (
    0.01,
    0.25,
)
HOT_C = 85.0
DEEP_IDLE_US = 10
QUOTA_SHARE = 0.25  # of the CPUs' time is more than bursts take
USUAL_PAGE = 4096  # bytes
OWN_PROCESSES = 8  # beside the threads that measure: a login, shells, the agent
_X86 = ("x86_64", "i386")
_NOT_THE_COUNTER = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"}
_CHOOSING_DRIVERS = {"intel_pstate", "amd-pstate-epp"}
_Check = tuple[object, str, Mapping[str, Any]]
"""Whether it disturbs, its name in findings.json, and the values of its message."""


def find_noise(facts: Facts, usage: Usage | None = None) -> Iterator[Finding]:
    """Yield findings on all that disturbs measurements on the host. usage: how busy it
    is, if measured.
    """
    for (
        disturbs,
        name,
        values,
    ) in (  # an unknown fact does not, unless that itself is a problem
        *_check_machine(facts),
        *_check_limits_and_memory(facts),
        *_check_kernel(facts),
        *_check_cpus(facts),
        *_check_load(facts, usage),
    ):
        if disturbs:
            yield make_finding(name, facts, **values)


def _check_machine(facts: Facts) -> list[_Check]:
    drivers = set((facts.frequency_driver or "").split(", "))
    is_saving = "powersave" in (facts.governor or "")
    choosing = min(drivers & _CHOOSING_DRIVERS, default=None) if is_saving else None
    state, driver = facts.idle_state or "unnamed", facts.idle_driver or "unknown driver"
    idle = {"state": state, "driver": driver, "deep": DEEP_IDLE_US + 1}
    throttles = (facts.core_throttles or 0) + (facts.package_throttles or 0)
    is_x86 = facts.arch in _X86
    return [
        (facts.governor not in (None, "performance"), "governor", {}),
        (facts.boost, "boost", {}),
        (facts.boost is None, "boost.unknown", {}),
        (choosing, "driver.choosing", {"driver": choosing}),
        ("acpi-cpufreq" in drivers, "driver.acpi", {}),
        ((facts.idle_exit_us or 0) > DEEP_IDLE_US, "idle", idle),
        (throttles, "throttled", {"throttles": throttles}),
        ((facts.load.temperature_c or 0.0) >= HOT_C, "temperature", {}),
        (facts.hypervisor, "hypervisor", {}),
        (is_x86 and facts.microcode is None and not facts.hypervisor, "microcode", {}),
        (facts.container, "container", {}),
    ]


def _check_limits_and_memory(facts: Facts) -> list[_Check]:
    count, quota, memory = len(facts.usable_cpus), facts.cpu_quota, facts.memory
    severity = Severity.WARNING if (quota or 0) < QUOTA_SHARE * count else Severity.INFO
    processes = {"count": count, "own": OWN_PROCESSES}
    populated, channels, modules = (
        memory.channels_populated,
        memory.channels or 0,
        memory.populated,
    )
    filled = {dimm.channel for dimm in modules}
    empty = sorted({dimm.channel for dimm in memory.dimms if dimm.channel} - filled)
    named = f" (empty: {', '.join(empty)})" if empty else ""
    channel_counts = {"populated": populated, "channels": channels, "named": named}
    kinds = {
        (dimm.size_bytes, dimm.kind, dimm.rated_mts, dimm.ranks) for dimm in modules
    }
    speeds = {(dimm.configured_mts or 0, dimm.rated_mts or 0) for dimm in modules}
    configured, rated = min(
        (speed for speed in speeds if 0 < speed[0] < speed[1]), default=(0, 0)
    )
    allowed = math.inf if facts.processes_most is None else facts.processes_most
    available = facts.memory_available_bytes
    return [
        (quota is not None, "quota", {"severity": severity}),
        (":" in (facts.resctrl or ""), "resctrl", {}),
        (
            None not in (facts.memory_limit, available),
            "memory",
            {"mib": (available or 0) >> 20},
        ),
        (allowed < count + OWN_PROCESSES, "processes", processes),
        (facts.priority_most == 0 and facts.user != "root", "priority", {}),
        (populated is not None and populated < channels, "channel", channel_counts),
        (len(kinds) > 1, "dimms", {}),
        (rated, "dimm_speed", {"configured": configured, "rated": rated}),
    ]


def _check_kernel(facts: Facts) -> list[_Check]:
    """Check the kernel, and that its clock is the CPU counter that the agent reads
    (docs/variants.md).
    """
    source, page = facts.clock_source, facts.page_bytes or 0
    stops = (
        facts.arch in _X86 and facts.cpu_flags and "nonstop_tsc" not in facts.cpu_flags
    )
    is_other_timer = facts.arch == "armv7" and source not in (None, "arch_sys_counter")
    is_distrusted = source in _NOT_THE_COUNTER and not stops and not is_other_timer
    nodes = {cpu.node for cpu in facts.cpus} - {None}
    severity = Severity.INFO if facts.isolated_cpus else Severity.WARNING
    return [
        (stops, "clock.stops", {"source": source or "unknown"}),
        (is_other_timer, "clock.timer", {}),
        (is_distrusted, "clock.distrusted", {}),
        (facts.numa_balancing and len(nodes) > 1, "numa_balancing", {}),
        (facts.irqbalance, "irqbalance", {"severity": severity}),
        (
            (-1 if facts.rt_runtime_us is None else facts.rt_runtime_us) >= 0,
            "rt_throttling",
            {},
        ),
        (page > USUAL_PAGE, "pages", {"kib": page >> 10}),
        ("mitigations=off" in (facts.kernel_cmdline or "").split(), "mitigations", {}),
    ]


def _check_cpus(facts: Facts) -> list[_Check]:
    offline = [cpu.cpu for cpu in facts.cpus if not cpu.online]
    left_out = [cpu for cpu in facts.cpus if cpu.online and not cpu.allowed]
    barred, isolated = (
        [c.cpu for c in left_out if bool(c.isolated) is is_set]
        for is_set in (False, True)
    )
    kinds = sorted({cpu.kind for cpu in facts.cpus if cpu.kind})
    last_kind = kinds[-1] if kinds else ""
    of_kind = format_cpus(cpu.cpu for cpu in facts.cpus if cpu.kind == last_kind)
    hybrid = {"kinds": ", ".join(kinds), "cpus": of_kind, "kind": last_kind}
    ticking = sorted({*facts.isolated_cpus} - {*facts.nohz_full_cpus})
    contradictions = facts.contradictions.items()
    return [
        *(
            (True, f"contradiction.{name}", {"sentence": text})
            for name, text in contradictions
        ),
        (facts.smt, "smt", {}),
        (
            offline,
            "offline",
            {"cpus": format_cpus(offline), "each": " ".join(map(str, offline))},
        ),
        (barred, "barred", {"cpus": format_cpus(barred)}),
        (isolated, "isolated", {"cpus": format_cpus(isolated)}),
        (len(kinds) > 1, "hybrid", hybrid),
        (facts.cpus and not facts.isolated_cpus, "isolation", {}),
        (ticking, "tick", {"cpus": format_cpus(ticking)}),
    ]


def _check_load(facts: Facts, usage: Usage | None) -> list[_Check]:
    count = sum(cpu.online for cpu in facts.cpus)
    is_loaded = count and (facts.load.load_1m or 0.0) > LOAD_SHARE * count
    checks: list[_Check] = [(is_loaded, "load", {"count": count})]
    if usage is not None:
        named = [
            f"{p.name} {p.share * 100:.0f} % on CPU {p.cpu}" for p in usage.programs
        ]
        busy = {
            "busy": usage.busy_cpus,
            "count": count,
            "named": f" ({', '.join(named)})" if named else "",
        }
        checks.append(
            (usage.busy_cpus > max(BUSY_CPUS, BUSY_SHARE * count), "busy", busy)
        )
        checks.append((usage.steal_ticks, "steal", {"ticks": usage.steal_ticks}))
    return checks

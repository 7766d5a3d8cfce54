"""What disturbs measurements on a Linux host, and what to do about it. Pure: facts in, findings out.

An unknown fact gives no finding, unless not knowing it is itself a problem. A remedy is either a command, its
cost after a `#`, or a sentence, which begins with a capital letter. docs/check.md explains the thresholds.
"""

from collections.abc import Iterator
from functools import partial

from fleet.model import Facts, Finding, Load, Severity
from fleet.plan.cpulist import cpus_text

BUSY_SHARE = 0.5  # of the CPUs
HOT_C = 85.0
DEEP_IDLE_US = 10
QUOTA_SHARE = 0.25  # of the CPUs' time is more than bursts take
USUAL_PAGE = 4096  # bytes
OWN_PROCESSES = 8  # beside the threads that measure: a login, shells, the agent
_SYS = "/sys/devices/system"
_X86 = ("x86_64", "i386")
_NOT_THE_COUNTER = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"}
_CHOOSING_DRIVERS = {"intel_pstate", "amd-pstate-epp"}


def _finding(severity: Severity, kind: str, found: str, remedy: str, evidence: str = "") -> Finding:
    """Of the fact that is called as its kind, unless `evidence` names another."""
    return Finding(kind, severity, found, remedy, evidence or kind)


_info, _warning, _serious = (partial(_finding, severity) for severity in Severity)


def findings(facts: Facts, later: Load | None = None) -> Iterator[Finding]:
    """All findings. later: load read some time after the facts."""
    for of in (_frequency, _heat_and_sleep, _machine, _limits, _clock, _kernel, _cpus, _isolation):
        yield from of(facts)
    yield from _load(facts, later)


def _frequency(facts: Facts) -> Iterator[Finding]:
    drivers = set((facts.frequency_driver or "").split(", "))
    if facts.governor is not None and facts.governor != "performance":
        yield _warning(
            "governor",
            f"The frequency governor is {facts.governor}.",
            "fleet run --governor performance # root on the host; restored after the run; more power",
        )
    if facts.boost:
        yield _warning(
            "boost",
            "Frequency boost is on: clock rates follow load and temperature. Boost alone can be a factor of "
            "2.6 (core_latency on an i9-13980HX, all pairs; its E-cores: 44 ns with it, 130 ns without).",
            "fleet run --boost off # root on the host; restored after the run; lower top speed",
        )
    elif facts.boost is None:
        yield _info(
            "boost",
            "Whether frequency boost is on is unknown.",
            "Look into the firmware's settings (Turbo, Core Performance Boost), and keep them as a label.",
        )
    if (driver := min(drivers & _CHOOSING_DRIVERS, default=None)) and "powersave" in (facts.governor or ""):
        yield _info(
            "driver",
            f"Under {driver}, powersave is not the lowest frequency: the CPU chooses by load and preference.",
            f"cat {_SYS}/cpu/cpufreq/policy0/energy_performance_preference # --governor performance wins",
            "frequency_driver",
        )
    if "acpi-cpufreq" in drivers:
        yield _info(
            "driver",
            "The frequency driver is acpi-cpufreq: its highest setting stands for the whole range of boost.",
            "fleet run --governor performance --boost off # root on the host; restored; lower top speed",
            "frequency_driver",
        )


def _heat_and_sleep(facts: Facts) -> Iterator[Finding]:
    if facts.idle_exit_us is not None and facts.idle_exit_us > DEEP_IDLE_US:
        yield _info(
            "idle",
            f"Idle CPUs sleep as deep as {facts.idle_state or 'unnamed'} and take {facts.idle_exit_us} µs to "
            f"wake ({facts.idle_driver or 'unknown driver'}); the others' boost follows how many sleep.",
            f"cpupower idle-set -D {DEEP_IDLE_US + 1} # root, until reboot or idle-set -E; more heat, less "
            "boost; or hold /dev/cpu_dma_latency open with a 0 written into it",
            "idle_exit_us",
        )
    if throttles := (facts.core_throttles or 0) + (facts.package_throttles or 0):
        yield _warning(
            "throttled",
            f"Heat has slowed CPUs down since boot (counters add up to {throttles}).",
            f"grep . {_SYS}/cpu/cpu*/thermal_throttle/*_count # again after a run: if they grow, cool it",
            "core_throttles, package_throttles",
        )
    if facts.load.temperature_c is not None and facts.load.temperature_c >= HOT_C:
        yield _warning(
            "temperature",
            f"The hottest sensor says {facts.load.temperature_c:.0f} degrees: CPUs may throttle.",
            "Cool the machine, or wait.",
            "temperature_c",
        )


def _machine(facts: Facts) -> Iterator[Finding]:
    if facts.hypervisor:
        yield _warning(
            "hypervisor",
            f"A hypervisor ({facts.hypervisor}) may move our CPUs and hides the topology.",
            "Pin the virtual CPUs on the hypervisor's host, or measure on bare metal.",
        )
    elif facts.arch in _X86 and facts.microcode is None:
        yield _info(
            "microcode",
            "The microcode's revision is unknown: runs before and after an update look alike.",
            "dmesg | grep -i microcode # then keep it with the run: --label microcode=REVISION",
        )
    if facts.container:
        yield _info(
            "container",
            f"We are in a container ({facts.container}): neighbours and their load may be out of our sight.",
            "Measure on the machine itself, or give the container CPUs that nobody else uses (cpuset).",
        )


def _limits(facts: Facts) -> Iterator[Finding]:
    if facts.cpu_quota is not None:
        yield (_warning if facts.cpu_quota < QUOTA_SHARE * len(facts.usable_cpus) else _info)(
            "quota",
            f"CPU time is limited ({facts.cpu_limit}): where none is left, all threads wait.",
            "Lift the limit: no --cpus for docker, no CPU limit in Kubernetes, no CPUQuota= in systemd.",
            "cpu_quota",
        )
    if ":" in (facts.resctrl or ""):
        yield _warning(
            "resctrl",
            f"Our memory bandwidth is limited by resctrl ({facts.resctrl}).",
            "Lift the limit in the schemata of our group below /sys/fs/resctrl (root).",
        )
    if facts.memory_limit is not None and facts.memory_available_bytes is not None:
        yield _info(
            "memory",
            f"A limit ({facts.memory_limit}) leaves us {facts.memory_available_bytes >> 20} MiB of memory: a "
            "plan may take half of it.",
            "Lift it (--mem of Slurm, -m of docker, limits.memory in Kubernetes, MemoryMax= of systemd).",
            "memory_limit",
        )
    if facts.processes_most is not None and facts.processes_most < len(facts.usable_cpus) + OWN_PROCESSES:
        yield _serious(
            "processes",
            f"We may have {facts.processes_most} processes and threads; we need one for each of "
            f"{len(facts.usable_cpus)} CPUs and some {OWN_PROCESSES} more.",
            "ulimit -u unlimited # else in limits.conf (root); or lift pids.max of our control group",
            "processes_most",
        )
    if facts.priority_most == 0 and facts.user != "root":
        yield _info(
            "priority",
            "This account gets no realtime priority: other programs may run between ours.",
            "Allow it: rtprio in limits.conf, LimitRTPRIO= in systemd (root).",
            "priority_most",
        )


def _clock(facts: Facts) -> Iterator[Finding]:
    """What matters is whether the agent can read the CPU's own counter (docs/variants.md, Clocks)."""
    source = facts.clock_source
    if facts.arch in _X86 and facts.cpu_flags and "nonstop_tsc" not in facts.cpu_flags:
        fallback = f"the agent falls back to the OS's clock ({source or 'unknown'})"
        found = f"The CPU does not promise a steady counter (no nonstop_tsc): {fallback}."
        remedy = "On a virtual machine offer it to the guest (QEMU: -cpu host,+invtsc); else there is none."
    elif facts.arch == "armv7" and source is not None and source != "arch_sys_counter":
        fallback = "if the generic timer cannot be read, the agent falls back to it"
        found = f"The clock source is {source}: {fallback}."
        remedy = "dmesg | grep -i -E 'arch_timer|clocksource' # says why; needs root on some systems"
    elif source in _NOT_THE_COUNTER:
        found = f"The clock source is {source}: the kernel does not trust the CPU's counter. The agent reads "
        found += "the counter all the same, and holds its rate against the OS's clock."
        remedy = "dmesg | grep -i -E 'tsc|clocksource' # says why; needs root on some systems"
    else:
        return
    yield _warning("clock", found, remedy, "clock_source")


def _kernel(facts: Facts) -> Iterator[Finding]:
    if facts.numa_balancing and len({cpu.node for cpu in facts.cpus if cpu.node is not None}) > 1:
        yield _warning(
            "numa_balancing",
            "Automatic NUMA balancing is on: the kernel may move pages during a burst.",
            "echo 0 > /proc/sys/kernel/numa_balancing # root, until reboot; slows programs that rely on it",
        )
    if facts.irqbalance:
        yield _finding(
            Severity.INFO if facts.isolated_cpus else Severity.WARNING,
            "irqbalance",
            "irqbalance runs: it moves interrupts to other CPUs, isolated ones left out, while we measure.",
            "systemctl stop irqbalance # root, until reboot; interrupts stay on the CPUs they are on",
        )
    if facts.rt_runtime_us is not None and facts.rt_runtime_us >= 0:
        yield _info(
            "rt_throttling",
            f"Realtime threads may run {facts.rt_runtime_us} µs of each period; only --priority is affected.",
            "echo -1 > /proc/sys/kernel/sched_rt_runtime_us # root, until reboot; a runaway can keep a CPU",
            "rt_runtime_us",
        )
    if facts.page_bytes is not None and facts.page_bytes > USUAL_PAGE:
        yield _info(
            "pages",
            f"Base pages are {facts.page_bytes >> 10} KiB. Huge ones are used if of up to 32 MiB.",
            "Compare only with machines whose pages are of that size.",
            "page_bytes",
        )
    if "mitigations=off" in (facts.kernel_cmdline or "").split():
        yield _info(
            "mitigations",
            "Booted with mitigations=off.",
            "Compare only with runs under the same setting.",
            "kernel_cmdline",
        )


def _cpus(facts: Facts) -> Iterator[Finding]:
    if facts.smt:
        yield _info(
            "smt",
            "SMT is on: siblings share a core, and other work there slows ours.",
            f"echo off > {_SYS}/cpu/smt/control # root, until reboot; halves the CPUs",
        )
    if offline := [cpu.cpu for cpu in facts.cpus if not cpu.online]:
        yield _warning(
            "offline",
            f"CPUs {cpus_text(offline)} are offline and will not be measured.",
            f"for n in {' '.join(map(str, offline))}; do echo 1 > {_SYS}/cpu/cpu$n/online; done # root",
            "cpus",
        )
    if barred := [cpu.cpu for cpu in facts.cpus if cpu.online and not cpu.allowed]:
        yield _warning(
            "barred",
            f"We may not use CPUs {cpus_text(barred)} (affinity or cpuset); they will not be measured.",
            "cat /proc/self/cgroup # names the group whose cpuset to widen (root)",
            "cpus",
        )
    if len(kinds := sorted({cpu.kind for cpu in facts.cpus if cpu.kind})) > 1:
        one_kind = cpus_text(cpu.cpu for cpu in facts.cpus if cpu.kind == kinds[-1])
        yield _info(
            "hybrid",
            f"The CPUs are of kinds: {', '.join(kinds)}.",
            f"fleet run --cpus {one_kind} # one kind only ({kinds[-1]}); pairs across kinds are then missing",
            "cpus",
        )


def _isolation(facts: Facts) -> Iterator[Finding]:
    if facts.cpus and not facts.isolated_cpus:
        yield _info(
            "isolation",
            "No CPU is isolated: any task may run between ours.",
            "Boot with isolcpus=LIST nohz_full=LIST (root, reboot; those CPUs are lost to other work).",
            "isolated_cpus",
        )
    if ticking := sorted(set(facts.isolated_cpus) - set(facts.nohz_full_cpus)):
        yield _info(
            "tick",
            f"CPUs {cpus_text(ticking)} are isolated but keep their timer tick (not in nohz_full).",
            f"Boot with nohz_full={cpus_text(ticking)} as well (root, reboot; slower system calls there).",
            "nohz_full_cpus",
        )


def _load(facts: Facts, later: Load | None) -> Iterator[Finding]:
    load, count = facts.load, sum(cpu.online for cpu in facts.cpus)
    if load.load_1m is not None and count and load.load_1m > BUSY_SHARE * count:
        yield _serious(
            "load",
            f"The host is busy: {load.load_1m:g} runnable threads on {count} CPUs over the last minute.",
            "ps -eo pcpu,pid,user,comm | sort -nr | head # then stop what is not needed",
            "load_1m",
        )
    others = _others_now(load, later)
    if others is not None and count and others > BUSY_SHARE * count:
        yield _warning(
            "busy",
            f"The host is busy now: {others} other runnable threads on {count} CPUs.",
            "ps -eo stat,pid,user,comm | grep '^R' # then stop what is not needed",
            "running",
        )
    before, after = load.steal_ticks, later.steal_ticks if later else None
    if before is not None and after is not None and after > before:
        yield _serious(
            "steal",
            f"The hypervisor took {after - before} clock ticks from us while we looked.",
            "Give the virtual machine CPUs of its own, or measure when its neighbours are idle.",
            "steal_ticks",
        )


def _others_now(load: Load, later: Load | None) -> int | None:
    """Runnable threads but the one that asked; of two moments the quieter, since one alone may be chance."""
    running = [one.running for one in (load, later) if one is not None and one.running is not None]
    return max(min(running) - 1, 0) if running else None

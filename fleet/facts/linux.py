"""Parses the probe's answer of a Linux host as model.Facts, with `topology`. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from fleet.errors import DataError
from fleet.facts import memory, topology
from fleet.facts.probe import Files, Sections, find_value
from fleet.model import Compiler, Cpu, Facts, Load, Program, Usage, normalize_arch
from fleet.plan.cpulist import format_cpus
from fleet.text import printable

_PICKED = re.compile(
    r"(?:Node [0-9]+ |"
    r" *)([CM][a-z]+_allowed_list|Mem(?:Free|Total|Available)|PRETTY_NAME|MB|SMBA|"
    r"Max (?:address space|data size|processes|realtime priority)|platform|VM00 Control"
    r" Program|LPAR Number)"
    r"(?:\s*[:=]\s*|\s+)(.*)"
)
# A 64-bit kernel under a 32-bit system, as on many boards.
_USERLAND_32 = {"x86_64": "i386", "aarch64": "armv7"}
_VENDORS = (
    ("kvm", "kvm"),
    ("qemu|bochs", "qemu"),
    ("z/vm", "z/vm"),
    ("vmware", "vmware"),
    ("virtualbox|innotek", "virtualbox"),
    ("xen", "xen"),
    ("microsoft corporation virtual machine", "hyper-v"),
    ("google compute engine", "kvm"),
    ("amazon ec2", "amazon"),
    ("alibaba cloud ecs", "alibaba"),
    ("openstack", "openstack"),
    ("nutanix", "nutanix"),
    ("ovirt|rhev", "kvm"),
    ("bhyve", "bhyve"),
    ("parallels", "parallels"),
    ("apple virtualization", "apple"),
    ("dummy-virt", "qemu"),
)
# Marks, of firmware and vendors that make no other machines, which leave the hypervisor
# unnamed.
_VIRTUAL = re.compile(
    "seabios|ovmf|hetzner vserver|scaleway"
    " scw-|digitalocean|linode|vultr|upcloud|exoscale|akamai|huawei ?cloud|tencent"
    " cloud|oraclecloud|e2e networks|civo|cloudstack|smartos"
)
_BARE_METAL = (".metal", "bare metal", "baremetal")
# What firmware says where its maker filled in nothing.
_PLACEHOLDERS = re.compile(
    r"to be filled by o\.?e\.?m\.?|o\.e\.m\.|default string|system"
    r" (manufacturer|product name|version)|"
    r"base board (manufacturer|product name)|not"
    r" (specified|applicable|available|provided)|n/?a|none|null|"
    r"\(null\)|unknown|undefined|empty|invalid|[x.0-]+|0?123456789",
    re.IGNORECASE,
)
_RISCV_IDS = ("mvendorid", "marchid", "mimpid")  # 0: the CPU gives none
# What guests of Hyper-V, and of QEMU on Intel and AMD, show in the place of the
# machine's.
_NO_MICROCODE = ("0xffffffff", "0x1", "0x1000065")
_GENERIC_NAME = re.compile(r"(ARMv[0-9]\S*|AArch64) processor rev .*", re.IGNORECASE)
_CONTAINERS = (
    "docker",
    "kubepods",
    "libpod",
    "lxc",
    "containerd",
    "garden",
    "machine.slice",
)
# to the last CPU
_PROCESS = re.compile(
    r"proc/([0-9]+)/stat:[0-9]+ \((.{1,64})\) . (?=(?:-?[0-9]+ ?){36})"
)
# behind the state: ticks as a user and in the kernel; the last CPU
_USAGE_FIELDS = (
    10,
    11,
    35,
)
_TICKS_OF_A_CPU = 8  # user, nice, system, idle, iowait, irq, softirq, steal (proc.rst)
_MIN_TICKS = 20  # of each CPU: a fifth of a second
_PROGRAMS_NAMED, _SHARE_NAMED = 3, 0.1
_DMI = "sys/class/dmi/id/"
_CPU = "sys/devices/system/cpu/"
_COUNT = re.compile(r"[0-9]{1,18}")
_NO_LIMIT = 1 << 60  # bytes; version 1 of control groups writes a number near 2^63
# per cent, and MB/s where so mounted
_WHOLE_OF_AMD, _WHOLE = (
    {"2048", "4096", "8192"},
    {"100", "4294967295"},
)
_PIDS = re.compile(r"pids ([0-9]{1,18})")
# µs, period, group: scheduler/sched-bwc.rst
_QUOTA = re.compile(r"quota ([0-9]{1,18}) ([0-9]{1,18}) ?(.*)")
# Limits, bytes used, bytes reclaimable, group: Linux admin-guide/cgroup-v2.rst,
# cgroup-v1/memory.rst.
_MEMORY = re.compile(r"memory (\S+) ([0-9]{1,18}) ([0-9]{1,18}) (.*)")
# CPUs, part, count: siblings each count an event of their core (Linux therm_throt.c).
_THROTTLED = re.compile(r"throttled ([0-9]{1,18}) (\S+) ([0-9]{1,18})")
# admin-guide/pm/cpuidle.rst
_IDLE = re.compile(r"sys/.*/cpuidle/state([0-9]{1,18})/([a-z]+):(.*)")
_IRQBALANCE = re.compile(r"proc/[0-9]+/comm:irqbalance")
_FLAWS = _CPU + "vulnerabilities/"  # Documentation/ABI/testing/sysfs-devices-system-cpu


class _Process(NamedTuple):
    """A process. ticks: its CPU time since it began. cpu: the one that ran it last."""

    name: str
    ticks: int
    cpu: int


def is_answer(sections: Sections) -> bool:
    """Report whether a Linux host gave the answer."""
    return parse_system(sections).get("uname_s") == "Linux"


def parse(sections: Sections, _: str | None = None) -> Facts:
    """Return the facts of a Linux host, without the workdir. Unknown ones are None.
    Raises DataError.
    """
    if path := find_value(sections, "too_long"):
        raise DataError(
            f"{path} there is far longer than a kernel writes it; see what is mounted"
            " over it"
        )
    system = parse_system(sections)
    files = parse_files([*sections.get("files", []), *sections.get("picked", [])])
    cpuinfo = parse_cpuinfo(sections.get("cpuinfo", []))
    cpus, groups = topology.parse_cpus(sections, files)
    uname_m = system.get("uname_m", "")
    arch = normalize_arch(uname_m)
    if system.get("word_bits") == "32":
        arch = _USERLAND_32.get(arch or "", arch)
    if arch is None:
        raise DataError(
            f"`uname -m` says {uname_m[:80]!r}, an architecture fleet has no agent for"
        )
    hypervisor, cgroup = (
        parse_hypervisor(files, cpuinfo, system),
        files.get("proc/self/cgroup", ""),
    )
    container = system.get("container") or next(
        (n for n in _CONTAINERS if f"/{n}" in cgroup), None
    )
    noise = [*sections.get("noise", []), *sections.get("picked", [])]
    cpu_quota, cpu_limit = find_tightest_cpu_quota(noise) or (None, None)
    idle_state, idle_exit_us = find_deepest_idle_state(noise)
    memory_limit = find_bytes_left_and_limit(noise)
    available = topology.parse_kib(files.get("proc/meminfo:MemAvailable", ""))
    for name, option in (("address space", "v"), ("data size", "d")):
        if (space := _parse_limit(files, name)) is not None:
            ulimit = space, f"ulimit -{option}, {space / (1 << 20):.0f} MiB"
            memory_limit = min(memory_limit or ulimit, ulimit)
    if memory_limit and available is not None and available <= memory_limit[0]:
        memory_limit = None
    processes = [int(limit) for (limit,) in _match_lines(_PIDS, noise)]
    if (
        system.get("user") != "root"
        and (own := _parse_limit(files, "processes")) is not None
    ):
        processes.append(own)
    nodes = topology.parse_memory_nodes(files, groups.nodes.values())
    modules, nodes = memory.parse_memory(sections, files, cpus, nodes)
    governors = Counter(cpu.governor for cpu in cpus if cpu.governor)
    idle_driver = files.get(_CPU + "cpuidle/current_driver")
    rt_runtime = files.get("proc/sys/kernel/sched_rt_runtime_us")
    huge_pages = re.search(
        r"\[(\w+)\]", files.get("sys/kernel/mm/transparent_hugepage/enabled", "")
    )
    no_turbo = _parse_flag(files.get(_CPU + "intel_pstate/no_turbo"))
    boost = (
        _parse_flag(files.get(_CPU + "cpufreq/boost"))
        if no_turbo is None
        else not no_turbo
    )
    return Facts(
        os="linux",
        arch=arch,
        hostname=system.get("uname_n"),
        kernel=system.get("uname_r"),
        kernel_version=system.get("uname_v"),
        kernel_cmdline=files.get("proc/cmdline"),
        distribution=files.get("etc/os-release:PRETTY_NAME", "").strip().strip("\"'")
        or None,
        libc=system.get("libc"),
        machine_id=files.get("etc/machine-id"),
        boot_id=files.get("proc/sys/kernel/random/boot_id"),
        uptime_s=_parse_float((files.get("proc/uptime") or "").split(" ")[0]),
        cpu_model=_parse_cpu_model(cpuinfo, cpus),
        cpu_vendor=_find_first_value(
            cpuinfo, "vendor_id", "cpu implementer", "mvendorid"
        ),
        cpu_family=_find_first_value(cpuinfo, "cpu family", "cpu architecture"),
        cpu_model_number=_find_first_value(cpuinfo, "model", "cpu part", "marchid")
        or _parse_s390_machine(cpuinfo),
        cpu_stepping=cpuinfo.get("stepping") or _parse_cpu_revision(cpuinfo),
        microcode=(
            None
            if cpuinfo.get("microcode") in _NO_MICROCODE
            else cpuinfo.get("microcode")
        ),
        cpu_flags=tuple((_find_first_value(cpuinfo, "flags", "features") or "").split())
        or tuple(filter(None, cpuinfo.get("isa", "").split("_"))),
        board=_join_dmi(files, "board_vendor", "board_name")
        or system.get("device_tree")
        or _join_dmi(files, "sys_vendor", "product_name"),
        firmware=_join_dmi(files, "bios_vendor", "bios_version"),
        firmware_date=files.get(_DMI + "bios_date"),
        hypervisor=hypervisor,
        container=container,
        memory_bytes=topology.parse_kib(files.get("proc/meminfo:MemTotal", "")),
        memory_modules=memory.describe_memory(modules),
        memory_available_bytes=memory_limit[0] if memory_limit else available,
        memory_limit=memory_limit[1] if memory_limit else None,
        processes_most=min(processes, default=None),
        priority_most=_parse_limit(files, "realtime priority"),
        page_bytes=_parse_int(system.get("page_bytes")),
        huge_pages=huge_pages[1] if huge_pages else None,
        resctrl=parse_bandwidth_limit(files, cpuinfo.get("vendor_id")),
        clock_source=files.get(
            "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        governor=", ".join(name for name, _ in governors.most_common()) or None,
        frequency_driver=", ".join(sorted(groups.drivers)) or None,
        boost=groups.boost if boost is None else boost,
        idle_driver=None if idle_driver == "none" else idle_driver,
        idle_state=idle_state,
        idle_exit_us=idle_exit_us,
        cpu_quota=cpu_quota,
        cpu_limit=cpu_limit,
        rt_runtime_us=(
            -1 if rt_runtime == "-1" else _parse_int(rt_runtime)
        ),  # the kernel's "no limit"
        irqbalance=parse_irqbalance(noise, container),
        core_throttles=parse_throttles(noise, "core"),
        package_throttles=parse_throttles(noise, "package"),
        smt=_parse_flag(files.get(_CPU + "smt/active")),
        smt_control=files.get(_CPU + "smt/control"),
        isolated_cpus=tuple(cpu.cpu for cpu in cpus if cpu.isolated),
        nohz_full_cpus=topology.parse_cpu_list(files.get(_CPU + "nohz_full", "")),
        numa_balancing=_parse_flag(files.get("proc/sys/kernel/numa_balancing")),
        mitigations=MappingProxyType(
            {
                path.rpartition("/")[2]: text
                for path, text in files.items()
                if path.startswith(_FLAWS)
            }
        ),
        cpus=cpus,
        nodes=nodes,
        memory=modules,
        load=parse_load(sections),
        user=system.get("user"),
        compilers=parse_compilers(sections.get("compilers", [])),
        notes=(
            *_note_hidden_hardware(cpus, hypervisor, uname_m, arch),
            *groups.contradictions.values(),
        ),
        contradictions=MappingProxyType(groups.contradictions),
    )


def parse_system(sections: Sections) -> dict[str, str]:
    """Return the values in section `system` by key, except empty ones. Its `uname` line
    makes five keys.
    """
    system: dict[str, str] = {}
    for line in sections.get("system", []):
        key, _, value = line.partition(" ")
        if key == "glibc":
            system["libc"] = line.strip()
        elif key == "uname":
            name, node, release, rest = (*value.split(" ", 3), "", "", "", "")[:4]
            version, _, machine = rest.rpartition(" ")
            words = zip("snrvm", (name, node, release, version, machine), strict=True)
            system |= {
                f"uname_{letter}": word.strip()
                for letter, word in words
                if word.strip()
            }
        elif value.strip():
            system[key] = value.strip()
    return system


def parse_files(lines: Iterable[str]) -> dict[str, str]:
    """Map each path in grep's output to its first line, and "path:Key" to the value of
    a line `Key:value`.
    """
    files: dict[str, str] = {}
    for line in lines:
        path, colon, value = line.partition(":")
        if not colon or "/" not in path:
            continue
        if match := _PICKED.fullmatch(value):
            files[f"{path}:{match[1]}"] = match[2]
        elif path == "proc/self/cgroup":
            files[path] = f"{files.get(path, '')}{value}\n"
        else:
            files.setdefault(path, value.strip())
    return files


def parse_cpuinfo(lines: Iterable[str]) -> dict[str, str]:
    """Return the first CPU's values in /proc/cpuinfo by lower-case key (Linux,
    arch/*/kernel).
    """
    cpuinfo: dict[str, str] = {}
    for line in lines:
        key, _, value = (part.strip() for part in line.partition(":"))
        if (
            value
            and value.lower() != "unknown"
            and not (value == "0x0" and key in _RISCV_IDS)
        ):
            # arm before 3.8 has `Processor`, a name, before `processor`, a number
            cpuinfo.setdefault(
                "model name" if key == "Processor" else key.lower(), value
            )
    if not cpuinfo.get("model", "0").isdigit():
        del cpuinfo["model"]  # the machine's, on ppc64le and some boards
    return cpuinfo


def parse_load(sections: Sections) -> Load:
    """Parse load average, runnable threads, hottest sensor (of 1 to 150 degrees) and
    stolen ticks.
    """
    parts = (line.partition(":") for line in sections.get("load", []))
    files = {path: value.split() for path, _, value in parts}
    # Linux Documentation/filesystems/proc.rst
    load_1m, *more = files.get("proc/loadavg") or [""]
    ticks = files.get("proc/stat") or [""]
    sensors = [
        words[0]
        for path, words in files.items()
        if path.startswith("sys/class/") and words
    ]
    degrees = [(_parse_float(millidegrees) or 0.0) / 1000 for millidegrees in sensors]
    return Load(  # sensors: hwmon/sysfs-interface.rst
        load_1m=_parse_float(load_1m),
        running=_parse_int(more[2].partition("/")[0]) if len(more) > 2 else None,
        temperature_c=max(
            (value for value in degrees if 1 <= value <= 150), default=None
        ),
        steal_ticks=(
            _parse_int(ticks[8]) if ticks[0] == "cpu" and len(ticks) > 8 else None
        ),
    )


def parse_usage(sections: Sections, online: int) -> Usage | None:
    """Compute how busy the CPUs were between sections `before` and `after`; None if
    unknown or too short.
    """
    before, after = sections.get("before", []), sections.get("after", [])
    total = [
        now - then
        for then, now in zip(_sum_ticks(before), _sum_ticks(after), strict=False)
    ]
    if len(total) < _TICKS_OF_A_CPU or sum(total) < online * _MIN_TICKS:
        return None
    idle, iowait, steal = total[3], total[4], total[7]
    elapsed = sum(total) / max(online, 1)
    earlier = {pid: process.ticks for pid, process in _parse_processes(before).items()}
    programs = [
        Program(
            process.name, (process.ticks - earlier.get(pid, 0)) / elapsed, process.cpu
        )
        for pid, process in _parse_processes(after).items()
    ]
    busiest = sorted(programs, key=lambda program: -program.share)[:_PROGRAMS_NAMED]
    named = tuple(program for program in busiest if program.share >= _SHARE_NAMED)
    return Usage((sum(total) - idle - iowait - steal) / elapsed, max(steal, 0), named)


def _sum_ticks(lines: Iterable[str]) -> list[int]:
    """Return the ticks of all CPUs since boot, by kind of use; [] if unknown."""
    counts = next(
        (line.split()[1:] for line in lines if line.startswith("proc/stat:cpu ")), []
    )
    return [int(ticks) for ticks in counts if _COUNT.fullmatch(ticks)][:_TICKS_OF_A_CPU]


def _parse_processes(lines: Iterable[str]) -> dict[str, _Process]:
    """Return the processes by ID."""
    processes = {}
    for match in filter(None, map(_PROCESS.match, lines)):
        fields = match.string[match.end() :].split()
        numbers = [
            int(fields[part])
            for part in _USAGE_FIELDS
            if _COUNT.fullmatch(fields[part])
        ]
        if len(numbers) == len(_USAGE_FIELDS):
            user, system, cpu = numbers
            processes[match[1]] = _Process(printable(match[2]), user + system, cpu)
    return processes


def find_deepest_idle_state(lines: Iterable[str]) -> tuple[str | None, int | None]:
    """Return name and exit latency (µs) of the deepest idle state some CPU may enter;
    None if unknown.
    """
    states = defaultdict[int, defaultdict[str, set[str]]](lambda: defaultdict(set))
    for number, part, value in _match_lines(_IDLE, lines):
        states[int(number)][part].add(value.strip())
    deepest = max(
        (n for n, state in states.items() if "0" in (state["disable"] or "0")),
        default=None,
    )
    if deepest is None:
        return None, None
    latencies = [
        int(value) for value in states[deepest]["latency"] if _COUNT.fullmatch(value)
    ]
    return " or ".join(sorted(states[deepest]["name"])) or None, max(
        latencies, default=None
    )


def find_tightest_cpu_quota(lines: Iterable[str]) -> tuple[float, str] | None:
    """Return how many CPUs the tightest control group allows, and a text with its name;
    None if unlimited.
    """
    matches = _match_lines(_QUOTA, lines)
    quotas = [
        (int(quota) / int(period), group[:80])
        for quota, period, group in matches
        if int(period)
    ]
    cpus, name = min(
        quotas, key=lambda cpus_and_group: cpus_and_group[0], default=(0.0, "")
    )
    return (cpus, f"control group {name}, {cpus:g} CPUs") if cpus else None


def find_bytes_left_and_limit(lines: Iterable[str]) -> tuple[int, str] | None:
    """Return the bytes left in the tightest control group, and a text with its name;
    None if unlimited.
    """
    limits_left = [
        (
            max(0, int(limit) - max(0, int(used) - int(reclaimable))),
            int(limit),
            group[:80],
        )
        for limits, used, reclaimable, group in _match_lines(_MEMORY, lines)
        for limit in limits.split(",")
        if _COUNT.fullmatch(limit) and int(limit) < _NO_LIMIT
    ]
    bytes_left, limit, group = min(
        limits_left, key=lambda limit_left: limit_left[0], default=(0, 0, "")
    )
    return (
        (bytes_left, f"control group {group}, {limit / (1 << 20):.0f} MiB")
        if limits_left
        else None
    )


def parse_bandwidth_limit(files: Files, vendor: str | None) -> str | None:
    """Return our limit of memory bandwidth: "MB:0=50", "no limit" or "not mounted";
    None if unknown.
    """
    # Linux Documentation/filesystems/resctrl.rst
    group = files.get("proc/self/cpu_resctrl_groups")
    if group is None or group == "res:":
        return group and "not mounted"
    lines = {
        path: text for path, text in files.items() if path.startswith("sys/fs/resctrl/")
    }
    unlimited, limited = (
        _WHOLE_OF_AMD if vendor in ("AuthenticAMD", "HygonGenuine") else _WHOLE,
        [],
    )
    for path, text in lines.items():
        name, parts = path.rpartition(":")[2], re.findall(r"([0-9]+)= *([0-9]+)", text)
        limits = [
            f"{domain}={limit}" for domain, limit in parts if limit not in unlimited
        ]
        if limits and name in ("MB", "SMBA"):
            limited.append(f"{name}:{';'.join(limits)}")
    return " ".join(limited) or ("no limit" if lines else None)


def parse_throttles(lines: Iterable[str], part: str) -> int | None:
    """Return how often heat slowed CPUs down since boot; None if unknown. part: "core"
    or "package".
    """
    counts = [
        int(cpus) * int(count)
        for cpus, of, count in _match_lines(_THROTTLED, lines)
        if of == part
    ]
    return min(sum(counts), 2**63 - 1) if counts else None


def parse_irqbalance(lines: Collection[str], container: str | None) -> bool | None:
    """Report whether irqbalance runs; None if unknown. The line `irqbalance 0` means
    that it was sought.
    """
    if any(map(_IRQBALANCE.fullmatch, lines)):
        return True
    return False if "irqbalance 0" in lines and container is None else None


def _match_lines(
    pattern: re.Pattern[str], lines: Iterable[str]
) -> list[tuple[str, ...]]:
    """Return the groups of each line that matches the whole pattern."""
    return [match.groups() for line in lines if (match := pattern.fullmatch(line))]


def parse_compilers(lines: Iterable[str]) -> tuple[Compiler, ...]:
    """Return the compilers, each command once, in order. The version is empty if it was
    not asked for.
    """
    compilers: dict[str, Compiler] = {}
    for line in lines:
        command, tab, version = line.partition("\t")
        if tab:
            compilers.setdefault(command, Compiler(command, version.strip()))
    return tuple(compilers.values())


def parse_hypervisor(
    files: Files, cpuinfo: Mapping[str, str], system: Mapping[str, str]
) -> str | None:
    """Return the hypervisor, "unnamed" if not recognized; None without one. On x86 its
    CPUID bit decides.
    """
    if named := files.get("sys/hypervisor/type"):
        return named
    dmi = [
        files.get(_DMI + name)
        for name in ("sys_vendor", "product_name", "bios_vendor", "bios_version")
    ]
    trees = [system.get(key) for key in ("device_tree", "device_tree_hypervisor")]
    text = " ".join(
        word or ""
        for word in (*dmi, *trees, files.get("proc/sysinfo:VM00 Control Program"))
    )
    text = text.lower()
    unnamed = "unnamed" if _VIRTUAL.search(text) else None
    guess = next(
        (name for pattern, name in _VENDORS if re.search(pattern, text)), unnamed
    )
    if (flags := cpuinfo.get("flags")) is not None:
        return (guess or "unnamed") if "hypervisor" in flags.split() else None
    if any(word in text for word in _BARE_METAL):
        return None
    if guess is None and files.get("proc/cpuinfo:platform") == "pSeries":
        return "powervm"
    return guess or ("pr/sm" if "proc/sysinfo:LPAR Number" in files else None)


def _parse_cpu_model(cpuinfo: Mapping[str, str], cpus: Iterable[Cpu]) -> str | None:
    """Return the CPU's own name, else its kinds of core: "4x Cortex-A76 + 4x
    Cortex-A55".
    """
    name = cpuinfo.get("model name")
    if name and not _GENERIC_NAME.fullmatch(name):
        return name
    if cores := Counter(cpu.model for cpu in cpus if cpu.model):
        return " + ".join(f"{count}x {name}" for name, count in cores.most_common())
    if machine := _parse_s390_machine(cpuinfo):
        return f"IBM {machine}"
    if "mvendorid" in cpuinfo and "marchid" in cpuinfo and "uarch" not in cpuinfo:
        return f"RISC-V vendor {cpuinfo['mvendorid']} arch {cpuinfo['marchid']}"
    return _find_first_value(cpuinfo, "cpu", "uarch")


def _find_first_value(cpuinfo: Mapping[str, str], *keys: str) -> str | None:
    return next((cpuinfo[key] for key in keys if key in cpuinfo), None)


def _parse_s390_machine(cpuinfo: Mapping[str, str]) -> str | None:
    """Return an IBM Z's type, "8561"; older kernels have it only in `processor 0: ...,
    machine = 2827`.
    """
    if cpuinfo.get("vendor_id") != "IBM/S390":
        return None
    words = next(
        (text for key, text in cpuinfo.items() if key.startswith("processor ")), ""
    )
    match = re.search(r"machine = ([0-9]+)", words)
    return cpuinfo.get("machine") or (match[1] if match else None)


def _parse_cpu_revision(cpuinfo: Mapping[str, str]) -> str | None:
    """Return a CPU's revision, on Arm as r<variant>p<revision>; None if unknown."""
    variant, revision = cpuinfo.get("cpu variant"), cpuinfo.get("cpu revision")
    if variant is not None and revision is not None:
        try:
            return f"r{int(variant, 16)}p{int(revision)}"
        except ValueError:
            return None
    return revision or _find_first_value(cpuinfo, "mimpid", "revision")


def _join_dmi(files: Files, *names: str) -> str | None:
    words = (files.get(_DMI + name, "") for name in names)
    return (
        " ".join(word for word in words if word and not _PLACEHOLDERS.fullmatch(word))
        or None
    )


def _note_hidden_hardware(
    cpus: Sequence[Cpu], hypervisor: str | None, uname_m: str, agent_arch: str
) -> Iterable[str]:
    """Yield sentences for the user about CPUs and hardware that are hidden, offline or
    left out.
    """
    if hypervisor:
        yield (
            f"A hypervisor ({hypervisor}) is between us and the hardware; the topology"
            " is what it shows."
        )
    if cpus and all(cpu.core is None for cpu in cpus):
        yield "The host does not tell which CPUs share a core."
    if offline := [cpu.cpu for cpu in cpus if not cpu.online]:
        yield f"{len(offline)} of {len(cpus)} CPUs are offline: {format_cpus(offline)}."
    if barred := [cpu.cpu for cpu in cpus if cpu.online and not cpu.allowed]:
        why = (
            "isolated"
            if all(cpu.isolated for cpu in cpus if cpu.cpu in barred)
            else "affinity or cpuset"
        )
        count, names = f"{len(barred)} of {len(cpus)}", format_cpus(barred)
        yield f"{count} CPUs are left out unless --cpus names them ({why}): {names}."
    if agent_arch != normalize_arch(uname_m):
        yield (
            f"A 32-bit system under a 64-bit kernel ({uname_m}): the agent is"
            f" {agent_arch}."
        )


def _parse_limit(files: Files, name: str) -> int | None:
    """Return the soft limit `name` of /proc/self/limits, proc_pid_limits(5); None if
    unlimited or unknown.
    """
    return _parse_int(files.get(f"proc/self/limits:Max {name}", "").partition(" ")[0])


def _parse_flag(text: str | None) -> bool | None:
    return (
        text != "0" if text is not None and text.isascii() and text.isdigit() else None
    )


def _parse_int(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text) else None


def _parse_float(text: str | None) -> float | None:
    return (
        float(text)
        if text and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,9})?", text)
        else None
    )

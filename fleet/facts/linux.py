"""Parses the probe's answer of a Linux host as model.Facts, with `topology`. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from fleet.errors import DataError
from fleet.facts import memory, topology
from fleet.facts.probe import Files, Sections, find_value
from fleet.model import (
    Compiler,
    Cpu,
    Facts,
    Load,
    Node,
    Program,
    Usage,
    normalize_arch,
)
from fleet.plan.cpulist import format_cpus
from fleet.text import printable

# the lines `Key: value` of long files, such as /proc/meminfo, that the probe picks
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
_NETWORK_NODE = re.compile(r"sys/class/net/([^/]+)/device/numa_node")
_KERNEL_OF_WSL = "microsoft-standard-WSL"
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
_USAGE_FIELDS = (10, 11, 35)
# The line `cpu` of /proc/stat has, behind that word, the ticks of all CPUs since boot,
# by what they did: user, nice, system, idle, iowait, irq, softirq, steal (proc.rst).
_TICK_FIELDS = 8  # how many these are
_STEAL_COLUMN = 8  # of the whole line: the word `cpu` is column 0
_MIN_TICKS = 20  # of each CPU: a fifth of a second
_PROGRAMS_NAMED = 3
_SHARE_NAMED = 0.1  # of a CPU
_DMI = "sys/class/dmi/id/"
_CPU = "sys/devices/system/cpu/"
_COUNT = re.compile(r"[0-9]{1,18}")
_NO_LIMIT = 1 << 60  # bytes; version 1 of control groups writes a number near 2^63
# resctrl's values for no limit: per cent, and MB/s where so mounted
_WHOLE = {"100", "4294967295"}
_WHOLE_OF_AMD = {"2048", "4096", "8192"}
_PIDS = re.compile(r"pids ([0-9]{1,18})")
# µs, period, group: scheduler/sched-bwc.rst
_QUOTA = re.compile(r"quota ([0-9]{1,18}) ([0-9]{1,18}) ?(.*)")
# Limits, bytes used, bytes reclaimable, group: Linux admin-guide/cgroup-v2.rst,
# cgroup-v1/memory.rst.
_MEMORY = re.compile(r"memory (\S+) ([0-9]{1,18}) ([0-9]{1,18}) (.*)")
# CPUs, part, count: siblings each count an event of their core (Linux therm_throt.c).
_THROTTLED = re.compile(r"throttled ([0-9]{1,18}) (\S+) ([0-9]{1,18})")
_MAX_STORED = 2**63 - 1  # a column of stored facts has 64 bits with a sign
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


def parse(sections: Sections, _declared_arch: str | None = None) -> Facts:
    """Return the facts of a Linux host, without the workdir. Unknown ones are None.
    Raises DataError.

    The probe's section `files` has whole small files, `picked` has some lines of long
    ones, and `noise` has what the probe computed. The second parameter is for systems
    that may not name their architecture.
    """
    if path := find_value(sections, "too_long"):
        raise DataError(
            f"{path} there is far longer than a kernel writes it; see what is mounted"
            " over it"
        )
    system = parse_system(sections)
    picked = sections.get("picked", [])
    files = parse_files([*sections.get("files", []), *picked])
    # whether irqbalance runs is among the picked lines
    noise = [*sections.get("noise", []), *picked]
    cpuinfo = parse_cpuinfo(sections.get("cpuinfo", []))
    arch = _find_agent_arch(system)
    cpus, groups = topology.parse_cpus(sections, files)
    nodes = topology.parse_memory_nodes(files, groups.nodes.values())
    modules, nodes, memory_notes = memory.parse_memory(sections, files, cpus, nodes)
    nodes = _add_network_devices(nodes, files)
    hypervisor = parse_hypervisor(files, cpuinfo, system)
    container = _find_container(system, files)
    cpu_quota, cpu_limit = find_tightest_cpu_quota(noise) or (None, None)
    idle_state, idle_exit_us = find_deepest_idle_state(noise)
    available_bytes, memory_limit = _find_available_memory_and_limit(files, noise)
    uname_m = system.get("uname_m", "")
    notes = _note_hidden_hardware(cpus, hypervisor, uname_m, arch)
    return Facts(
        os="linux",
        arch=arch,
        hostname=system.get("uname_n"),
        kernel=system.get("uname_r"),
        kernel_version=system.get("uname_v"),
        kernel_cmdline=files.get("proc/cmdline"),
        distribution=_parse_distribution(files),
        libc=system.get("libc"),
        machine_id=files.get("etc/machine-id"),
        boot_id=files.get("proc/sys/kernel/random/boot_id"),
        uptime_s=_parse_uptime(files),
        cpu_model=_parse_cpu_model(cpuinfo, cpus),
        cpu_vendor=_find_first_value(
            cpuinfo, "vendor_id", "cpu implementer", "mvendorid"
        ),
        cpu_family=_find_first_value(cpuinfo, "cpu family", "cpu architecture"),
        cpu_model_number=_parse_cpu_model_number(cpuinfo),
        cpu_stepping=cpuinfo.get("stepping") or _parse_cpu_revision(cpuinfo),
        microcode=_parse_microcode(cpuinfo),
        cpu_flags=_parse_cpu_flags(cpuinfo),
        board=_parse_board(files, system),
        firmware=_join_dmi(files, "bios_vendor", "bios_version"),
        firmware_date=files.get(_DMI + "bios_date"),
        hypervisor=hypervisor,
        container=container,
        memory_bytes=topology.parse_kib(files.get("proc/meminfo:MemTotal", "")),
        memory_modules=memory.describe_memory(modules),
        memory_available_bytes=available_bytes,
        memory_limit=memory_limit,
        processes_most=_find_process_limit(system, files, noise),
        priority_most=_parse_limit(files, "realtime priority"),
        page_bytes=_parse_int(system.get("page_bytes")),
        huge_pages=_parse_huge_pages(files),
        resctrl=parse_bandwidth_limit(files, cpuinfo.get("vendor_id")),
        clock_source=files.get(
            "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        governor=_join_governors(cpus),
        frequency_driver=", ".join(sorted(groups.drivers)) or None,
        boost=_parse_boost(files, groups),
        idle_driver=_parse_idle_driver(files),
        idle_state=idle_state,
        idle_exit_us=idle_exit_us,
        cpu_quota=cpu_quota,
        cpu_limit=cpu_limit,
        rt_runtime_us=_parse_rt_runtime(files),
        irqbalance=parse_irqbalance(noise, container),
        core_throttles=parse_throttles(noise, "core"),
        package_throttles=parse_throttles(noise, "package"),
        smt=_parse_flag(files.get(_CPU + "smt/active")),
        smt_control=files.get(_CPU + "smt/control"),
        isolated_cpus=tuple(cpu.cpu for cpu in cpus if cpu.isolated),
        nohz_full_cpus=topology.parse_cpu_list(files.get(_CPU + "nohz_full", "")),
        numa_balancing=_parse_flag(files.get("proc/sys/kernel/numa_balancing")),
        mitigations=_find_mitigations(files),
        cpus=cpus,
        nodes=nodes,
        memory=modules,
        load=parse_load(sections),
        user=system.get("user"),
        compilers=parse_compilers(sections.get("compilers", [])),
        notes=(*notes, *groups.contradictions.values(), *memory_notes),
        contradictions=MappingProxyType(groups.contradictions),
    )


def _add_network_devices(
    nodes: Iterable[Node], files: Mapping[str, str]
) -> tuple[Node, ...]:
    """Add to each node its network devices. Bridges and the like have no device, and
    -1 is a device without a node.

    Format: Documentation/ABI/testing/sysfs-bus-pci.
    """
    with_devices = []
    for node in nodes:
        devices = _list_network_devices(files, node.node)
        with_devices.append(replace(node, network=devices))
    return tuple(with_devices)


def _list_network_devices(files: Mapping[str, str], node: int) -> tuple[str, ...]:
    own = sorted(path for path, text in files.items() if text == str(node))
    matches = map(_NETWORK_NODE.fullmatch, own)
    return tuple(match[1] for match in matches if match)


def parse_system(sections: Sections) -> dict[str, str]:
    """Return the values in section `system` by key, except empty ones.

    The line "glibc 2.39" is, as a whole, the value of the key `libc`. The line `uname`
    is split into five keys, "uname_s" and so on. Other lines are "KEY VALUE".
    """
    system: dict[str, str] = {}
    for line in sections.get("system", []):
        key, _, value = line.partition(" ")
        if key == "glibc":
            system["libc"] = line.strip()
        elif key == "uname":
            system |= _parse_uname(value)
        elif value.strip():
            system[key] = value.strip()
    return system


def _parse_uname(text: str) -> dict[str, str]:
    """Return the words of `uname -snrvm` by key, "uname_s" and so on, except empty
    ones. Of the words, only the version, the last but one, has blanks: "Linux lucca
    6.8.0 #1 SMP PREEMPT x86_64".
    """
    # a text of fewer words leaves the last ones empty
    padded = [*text.split(" ", 3), "", "", "", ""]
    name, node, release, rest = padded[:4]
    version, _, machine = rest.rpartition(" ")
    words = {
        "uname_s": name.strip(),
        "uname_n": node.strip(),
        "uname_r": release.strip(),
        "uname_v": version.strip(),
        "uname_m": machine.strip(),
    }
    return {key: word for key, word in words.items() if word}


def _find_agent_arch(system: Mapping[str, str]) -> str:
    """Return the architecture that the host's programs are for: that of the kernel, or
    its 32-bit sibling if the system has 32 bits. Raises DataError if fleet has no agent
    for the kernel's architecture.
    """
    uname_m = system.get("uname_m", "")
    arch = normalize_arch(uname_m)
    if arch is None:
        raise DataError(
            f"`uname -m` says {uname_m[:80]!r}, an architecture fleet has no agent for"
        )
    if system.get("word_bits") == "32":
        return _USERLAND_32.get(arch, arch)
    return arch


def _find_container(system: Mapping[str, str], files: Files) -> str | None:
    if container := system.get("container"):
        return container
    cgroup = files.get("proc/self/cgroup", "")
    return next((name for name in _CONTAINERS if f"/{name}" in cgroup), None)


def _find_available_memory_and_limit(
    files: Files, noise: Iterable[str]
) -> tuple[int | None, str | None]:
    """Return the bytes that we may still use: the fewest that the machine, a control
    group or a limit of the process leaves. The second value is a text on the limit, or
    None if the machine leaves the fewest bytes. Both are None if nothing is known.
    noise: lines of the probe, some of which are on control groups.
    """
    available = topology.parse_kib(files.get("proc/meminfo:MemAvailable", ""))
    limits = []
    if group_limit := find_bytes_left_and_limit(noise):
        limits.append(group_limit)
    for name, option in (("address space", "v"), ("data size", "d")):
        space = _parse_limit(files, name)
        if space is not None:
            limits.append((space, f"ulimit -{option}, {space / (1 << 20):.0f} MiB"))
    if not limits:
        return available, None
    left, limit = min(limits)
    if available is not None and available <= left:
        return available, None
    return left, limit


def _find_process_limit(
    system: Mapping[str, str], files: Files, noise: Iterable[str]
) -> int | None:
    """Return the fewest processes that a control group, or the user's limit, allows;
    None if unlimited.
    """
    limits = [int(limit) for (limit,) in _match_lines(_PIDS, noise)]
    user_limit = _parse_limit(files, "processes")
    if user_limit is not None and system.get("user") != "root":
        limits.append(user_limit)
    return min(limits, default=None)


def _parse_distribution(files: Files) -> str | None:
    name = files.get("etc/os-release:PRETTY_NAME", "")
    return name.strip().strip("\"'") or None


def _parse_uptime(files: Files) -> float | None:
    uptime, _, _idle = files.get("proc/uptime", "").partition(" ")
    return _parse_float(uptime)


def _parse_cpu_model_number(cpuinfo: Mapping[str, str]) -> str | None:
    number = _find_first_value(cpuinfo, "model", "cpu part", "marchid")
    return number or _parse_s390_machine(cpuinfo)


def _parse_microcode(cpuinfo: Mapping[str, str]) -> str | None:
    microcode = cpuinfo.get("microcode")
    return None if microcode in _NO_MICROCODE else microcode


def _parse_cpu_flags(cpuinfo: Mapping[str, str]) -> tuple[str, ...]:
    flags = _find_first_value(cpuinfo, "flags", "features") or ""
    riscv_extensions = cpuinfo.get("isa", "").split("_")
    return tuple(flags.split()) or tuple(filter(None, riscv_extensions))


def _parse_board(files: Files, system: Mapping[str, str]) -> str | None:
    return (
        _join_dmi(files, "board_vendor", "board_name")
        or system.get("device_tree")
        or _join_dmi(files, "sys_vendor", "product_name")
    )


def _parse_huge_pages(files: Files) -> str | None:
    """Return the setting in brackets: "madvise" of "always [madvise] never"."""
    text = files.get("sys/kernel/mm/transparent_hugepage/enabled", "")
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else None


def _join_governors(cpus: Iterable[Cpu]) -> str | None:
    governors = Counter(cpu.governor for cpu in cpus if cpu.governor)
    return ", ".join(name for name, _ in governors.most_common()) or None


def _parse_boost(files: Files, groups: topology.Groups) -> bool | None:
    no_turbo = _parse_flag(files.get(_CPU + "intel_pstate/no_turbo"))
    if no_turbo is not None:
        return not no_turbo
    boost = _parse_flag(files.get(_CPU + "cpufreq/boost"))
    return groups.boost if boost is None else boost


def _parse_idle_driver(files: Files) -> str | None:
    driver = files.get(_CPU + "cpuidle/current_driver")
    return None if driver == "none" else driver


def _parse_rt_runtime(files: Files) -> int | None:
    runtime = files.get("proc/sys/kernel/sched_rt_runtime_us")
    return -1 if runtime == "-1" else _parse_int(runtime)  # the kernel's "no limit"


def _find_mitigations(files: Files) -> Mapping[str, str]:
    """Return what the kernel says of each flaw of the CPU, by the flaw's name, which is
    that of its file: {"meltdown": "Mitigation: PTI"}.
    """
    mitigations = {
        path.rpartition("/")[2]: text
        for path, text in files.items()
        if path.startswith(_FLAWS)
    }
    return MappingProxyType(mitigations)


def parse_files(lines: Iterable[str]) -> dict[str, str]:
    """Return what grep printed, in lines `path:text`: the first line of each file by
    its path, and the value of each line `Key: value` by "path:Key".

    "proc/meminfo:MemTotal: 16 kB" gives the key "proc/meminfo:MemTotal" and the value
    "16 kB". The keys are those in _PICKED. Of proc/self/cgroup all lines are returned,
    each with a line end: a process has a control group for each hierarchy.
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
    arch/*/kernel); leave out empty and unknown values.
    """
    cpuinfo: dict[str, str] = {}
    for line in lines:
        key, _, value = (part.strip() for part in line.partition(":"))
        # a RISC-V without a number for its vendor or model gives 0
        is_riscv_zero = key in _RISCV_IDS and value == "0x0"
        if not value or value.lower() == "unknown" or is_riscv_zero:
            continue
        name = key.lower()
        if key == "Processor":
            # Linux before 3.8 on arm gives the model's name as `Processor`. The key
            # `processor`, which follows, is the number of a CPU.
            name = "model name"
        cpuinfo.setdefault(name, value)
    if not cpuinfo.get("model", "0").isdigit():
        # on ppc64le and some boards, `model` is the name of the machine
        del cpuinfo["model"]
    return cpuinfo


def parse_load(sections: Sections) -> Load:
    """Parse the load average of a minute, the number of runnable threads, the highest
    temperature (of 1 to 150 degrees) and the stolen ticks, in which the hypervisor ran
    others; each is None if unknown.
    """
    words_by_path: dict[str, list[str]] = {}
    for line in sections.get("load", []):
        path, _, text = line.partition(":")
        words_by_path[path] = text.split()

    load_1m, running = _parse_load_average(words_by_path.get("proc/loadavg", []))
    return Load(
        load_1m=load_1m,
        running=running,
        temperature_c=_find_hottest(words_by_path),
        steal_ticks=_parse_steal_ticks(words_by_path.get("proc/stat", [])),
    )


def _parse_load_average(words: Sequence[str]) -> tuple[float | None, int | None]:
    """Return the load average of a minute and the number of runnable threads, from the
    words of /proc/loadavg: "0.20 0.18 0.12 1/80 11206" are three averages, then the
    runnable and all threads (proc.rst).
    """
    load_1m = _parse_float(words[0]) if words else None
    if len(words) <= 3:
        return load_1m, None
    runnable, _, _all_threads = words[3].partition("/")
    return load_1m, _parse_int(runnable)


def _parse_steal_ticks(words: Sequence[str]) -> int | None:
    """Return the eighth number of /proc/stat's line on the ticks of all CPUs, "cpu 10 0
    7 900 1 0 0 3".
    """
    if len(words) <= _STEAL_COLUMN or words[0] != "cpu":
        return None
    return _parse_int(words[_STEAL_COLUMN])


def _find_hottest(words_by_path: Mapping[str, Sequence[str]]) -> float | None:
    """Return the highest temperature, in degrees Celsius, of those from 1 to 150;
    others are faults of a sensor. Return None without any.

    words_by_path: those of each file; sensors are below sys/class
    (hwmon/sysfs-interface.rst).
    """
    degrees = []
    for path, words in words_by_path.items():
        if path.startswith("sys/class/") and words:
            millidegrees = _parse_float(words[0]) or 0.0
            degrees.append(millidegrees / 1000)
    plausible = [value for value in degrees if 1 <= value <= 150]
    return max(plausible, default=None)


def parse_usage(sections: Sections, online: int) -> Usage | None:
    """Compute how busy the CPUs were between the moments of sections `before` and
    `after`. Return None if it is unknown, or if fewer than _MIN_TICKS of each CPU
    passed.

    A CPU is not busy while it is idle or waits for a disk (iowait), nor while the
    hypervisor runs others in its place (steal). online: how many CPUs are online.
    """
    before = sections.get("before", [])
    after = sections.get("after", [])
    ticks = _subtract_ticks(before, after)
    total = sum(ticks)
    if len(ticks) < _TICK_FIELDS or total < online * _MIN_TICKS:
        return None
    _user, _nice, _system, idle, iowait, _irq, _softirq, steal = ticks
    busy = total - idle - iowait - steal  # of all CPUs together
    ticks_of_a_cpu = total / max(online, 1)
    busy_cpus = busy / ticks_of_a_cpu
    programs = _find_busiest_programs(before, after, ticks_of_a_cpu)
    return Usage(busy_cpus, max(steal, 0), programs)


def _subtract_ticks(before: Iterable[str], after: Iterable[str]) -> list[int]:
    """Return the ticks that passed between two moments, in the order of
    `_read_ticks_of_all_cpus`.
    """
    ticks_before = _read_ticks_of_all_cpus(before)
    ticks_after = _read_ticks_of_all_cpus(after)
    return [end - begin for begin, end in zip(ticks_before, ticks_after, strict=False)]


def _find_busiest_programs(
    before: Iterable[str], after: Iterable[str], ticks_of_a_cpu: float
) -> tuple[Program, ...]:
    """Return the few programs that used most of a CPU between two listings of the
    processes, the busiest first. ticks_of_a_cpu: how many ticks passed between them.
    """
    processes_before = _parse_processes(before)
    programs = []
    for pid, process in _parse_processes(after).items():
        ticks = process.ticks
        if pid in processes_before:  # else it began in between, with 0 ticks
            ticks -= processes_before[pid].ticks
        share = ticks / ticks_of_a_cpu
        if share >= _SHARE_NAMED:
            programs.append(Program(process.name, share, process.cpu))
    programs.sort(key=lambda program: -program.share)
    return tuple(programs[:_PROGRAMS_NAMED])


def _read_ticks_of_all_cpus(lines: Iterable[str]) -> list[int]:
    """Return the ticks that all CPUs together have spent since boot, a number for each
    thing that they did: user, nice, system, idle, iowait, irq, softirq and steal.
    Return [] if unknown; the list is shorter if a kernel counts fewer of these.
    """
    for line in lines:
        if line.startswith("proc/stat:cpu "):
            counts = line.split()[1:]
            ticks = [int(count) for count in counts if _COUNT.fullmatch(count)]
            return ticks[:_TICK_FIELDS]
    return []


def _parse_processes(lines: Iterable[str]) -> dict[str, _Process]:
    """Return the processes by ID, from the content of /proc/PID/stat.

    _PROCESS matches a line up to the letter of the process's state. _USAGE_FIELDS are
    places among the fields behind that letter: of the ticks that the process ran as a
    user, of those that it ran in the kernel, and of the CPU that ran it last.
    """
    processes = {}
    for line in lines:
        match = _PROCESS.match(line)
        if not match:
            continue
        fields = line[match.end() :].split()
        counts = [fields[place] for place in _USAGE_FIELDS]
        if all(_COUNT.fullmatch(count) for count in counts):
            user_ticks, kernel_ticks, cpu = map(int, counts)
            pid, name = match.groups()
            ticks = user_ticks + kernel_ticks
            processes[pid] = _Process(printable(name), ticks, cpu)
    return processes


def find_deepest_idle_state(lines: Iterable[str]) -> tuple[str | None, int | None]:
    """Return the name and the exit latency (µs) of the deepest idle state that some CPU
    may enter; None if unknown.

    A state has its files for each CPU; a line is one value of one of them:
    "sys/…/cpuidle/state3/latency:133". Deeper states have greater numbers.
    """
    states = _group_idle_states(lines)
    enabled = [number for number, files in states.items() if _is_enabled(files)]
    if not enabled:
        return None, None
    deepest = states[max(enabled)]
    name = " or ".join(sorted(deepest["name"]))
    latencies = [int(text) for text in deepest["latency"] if _COUNT.fullmatch(text)]
    return name or None, max(latencies, default=None)


def _group_idle_states(lines: Iterable[str]) -> dict[int, Mapping[str, set[str]]]:
    """Return the files of each idle state by its number: by the name of a file, the
    values that it has on the CPUs; an empty set if it is missing.
    """
    states: dict[int, Mapping[str, set[str]]] = {}
    for state, file, value in _match_lines(_IDLE, lines):
        values_by_file = states.setdefault(int(state), defaultdict(set))
        values_by_file[file].add(value.strip())
    return states


def _is_enabled(values_by_file: Mapping[str, set[str]]) -> bool:
    """Report whether some CPU may enter an idle state. Kernels without the file
    `disable` let every CPU enter it.
    """
    disable = values_by_file["disable"]
    return "0" in disable or not disable


def find_tightest_cpu_quota(lines: Iterable[str]) -> tuple[float, str] | None:
    """Return how many CPUs the tightest control group allows, which may be a fraction,
    and a text with its name. Return None if there is no limit, or if it is unknown.
    """
    quotas: list[tuple[float, str]] = []
    for quota_us, period_us, group in _match_lines(_QUOTA, lines):
        if int(period_us):
            cpus = int(quota_us) / int(period_us)
            description = f"control group {group[:80]}, {cpus:g} CPUs"
            quotas.append((cpus, description))
    tightest = min(quotas, key=itemgetter(0), default=None)
    if tightest is None:
        return None
    cpus, _ = tightest
    # no kernel allows a quota of 0: who wrote it may have made up the other lines too
    if cpus == 0:
        return None
    return tightest


def find_bytes_left_and_limit(lines: Iterable[str]) -> tuple[int, str] | None:
    """Return the bytes left in the tightest control group, and a text with its name;
    None if unlimited.

    A line "memory LIMITS USED RECLAIMABLE GROUP" is on a control group of ours, in
    bytes. LIMITS are one or several, separated by commas; "max" is no limit. The kernel
    frees the reclaimable bytes, such as caches of files, when we need them.
    """
    limits_left: list[tuple[int, str]] = []
    for limits, used, reclaimable, group in _match_lines(_MEMORY, lines):
        in_use = max(0, int(used) - int(reclaimable))
        for text in limits.split(","):
            if not _COUNT.fullmatch(text):
                continue
            limit = int(text)
            if limit < _NO_LIMIT:
                mib = limit / (1 << 20)
                description = f"control group {group[:80]}, {mib:.0f} MiB"
                limits_left.append((max(0, limit - in_use), description))
    return min(limits_left, key=itemgetter(0), default=None)


def parse_bandwidth_limit(files: Files, vendor: str | None) -> str | None:
    """Return the limit of memory bandwidth of our group in resctrl, a file system of
    the kernel (Documentation/filesystems/resctrl.rst): "MB:0=50", "no limit", or "not
    mounted" if the file system is not. Return None if unknown.

    "MB:0=50" is a limit of 50 per cent, or of so many units, in domain 0, which is most
    often a last-level cache. SMBA limits slow memory.
    """
    group = files.get("proc/self/cpu_resctrl_groups")  # "res:/"; "res:": not mounted
    if group is None:
        return None
    if group == "res:":
        return "not mounted"
    # of all groups, the probe reads the files of ours only
    paths = [path for path in files if path.startswith("sys/fs/resctrl/")]
    if not paths:
        return None
    is_amd = vendor in ("AuthenticAMD", "HygonGenuine")
    unlimited = _WHOLE_OF_AMD if is_amd else _WHOLE  # values that are no limit
    limits_by_resource = []
    for path in paths:
        # "sys/fs/resctrl/schemata:MB" has the line "0=50;1=100", a limit per domain
        _, _, resource = path.rpartition(":")
        limits = _list_limits(files[path], unlimited)
        if limits and resource in ("MB", "SMBA"):
            limits_by_resource.append(f"{resource}:{';'.join(limits)}")
    return " ".join(limits_by_resource) or "no limit"


def _list_limits(line: str, unlimited: Collection[str]) -> list[str]:
    """List the domains of a line of resctrl that have a limit: "0=50;1=100" -> ["0=50"]
    if `unlimited` has "100".
    """
    limits = []
    for domain, limit in re.findall(r"([0-9]+)= *([0-9]+)", line):
        if limit not in unlimited:
            limits.append(f"{domain}={limit}")
    return limits


def parse_throttles(lines: Iterable[str], part: str) -> int | None:
    """Return how often heat slowed CPUs down since boot; None if unknown.

    Each CPU counts the events of its core and of its package. The sum over all CPUs is
    returned, in which an event of a core counts once for each CPU of the core. The line
    "throttled 2 core 5" says that two CPUs have counted 5 each. part: "core" or
    "package".
    """
    counts = []
    for cpus, throttled_part, count in _match_lines(_THROTTLED, lines):
        if throttled_part == part:
            counts.append(int(cpus) * int(count))
    if not counts:
        return None
    return min(sum(counts), _MAX_STORED)


def parse_irqbalance(lines: Collection[str], container: str | None) -> bool | None:
    """Report whether irqbalance runs; None if unknown. The line `irqbalance 0` means
    that it was sought.
    """
    if any(map(_IRQBALANCE.fullmatch, lines)):
        return True
    was_sought = "irqbalance 0" in lines
    return False if was_sought and container is None else None


def _match_lines(
    pattern: re.Pattern[str], lines: Iterable[str]
) -> list[tuple[str, ...]]:
    """Return the groups of each line that matches the whole pattern."""
    matches = [pattern.fullmatch(line) for line in lines]
    return [match.groups() for match in matches if match]


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
    """Return the hypervisor, "unnamed" if not recognized; None without one.

    The kernel's file sys/hypervisor/type decides, if there is one. Else, on x86, the
    flag `hypervisor`, a bit of CPUID, decides whether there is a hypervisor, and what
    firmware, device tree and kernel say of the machine names it. Elsewhere, what they
    say decides.
    """
    if named := files.get("sys/hypervisor/type"):
        return named
    text = _join_maker_texts(files, system)
    guess = _guess_hypervisor(text)
    if _KERNEL_OF_WSL in system.get("uname_r", ""):  # which has no firmware to ask
        guess = "hyper-v"
    x86_flags = cpuinfo.get("flags")
    if x86_flags is None:
        return _find_hypervisor_without_flag(files, text, guess)
    if "hypervisor" not in x86_flags.split():
        return None
    return guess or "unnamed"


def _find_hypervisor_without_flag(
    files: Files, text: str, guess: str | None
) -> str | None:
    """Return the hypervisor of a machine that is not x86; None without one. text: what
    firmware says of the machine's maker. guess: the hypervisor that it names, if any.
    """
    # such as "c7g.metal": no guest, though its maker is a cloud, as a guest's is
    if any(word in text for word in _BARE_METAL):
        return None
    if guess is not None:
        return guess
    if files.get("proc/cpuinfo:platform") == "pSeries":
        return "powervm"
    if "proc/sysinfo:LPAR Number" in files:
        return "pr/sm"
    return None


def _join_maker_texts(files: Files, system: Mapping[str, str]) -> str:
    """Join what firmware and device tree say about the machine's maker, in lower
    case.
    """
    words = [
        files.get(_DMI + "sys_vendor", ""),
        files.get(_DMI + "product_name", ""),
        files.get(_DMI + "bios_vendor", ""),
        files.get(_DMI + "bios_version", ""),
        system.get("device_tree", ""),
        system.get("device_tree_hypervisor", ""),
        files.get("proc/sysinfo:VM00 Control Program", ""),
    ]
    return " ".join(words).lower()


def _guess_hypervisor(text: str) -> str | None:
    """Return the hypervisor that a maker's text names; "unnamed" for the text of
    another virtual machine.
    """
    for pattern, name in _VENDORS:
        if re.search(pattern, text):
            return name
    if _VIRTUAL.search(text):
        return "unnamed"
    return None


def _parse_cpu_model(cpuinfo: Mapping[str, str], cpus: Iterable[Cpu]) -> str | None:
    """Return the CPU's own name, else its kinds of core: "4x Cortex-A76 + 4x
    Cortex-A55". Without both, return what an IBM Z, a RISC-V or a POWER says of itself,
    or None.

    Kernels for POWER give the name as `cpu`, those for RISC-V as `uarch` if they know
    one. Vendor and architecture of a RISC-V are numbers, which are returned only
    without that name.
    """
    name = cpuinfo.get("model name")
    if name and not _GENERIC_NAME.fullmatch(name):
        return name
    if cores := Counter(cpu.model for cpu in cpus if cpu.model):
        kinds = [f"{count}x {model}" for model, count in cores.most_common()]
        return " + ".join(kinds)
    if machine := _parse_s390_machine(cpuinfo):
        return f"IBM {machine}"
    if "mvendorid" in cpuinfo and "marchid" in cpuinfo and "uarch" not in cpuinfo:
        return f"RISC-V vendor {cpuinfo['mvendorid']} arch {cpuinfo['marchid']}"
    return _find_first_value(cpuinfo, "cpu", "uarch")


def _find_first_value(cpuinfo: Mapping[str, str], *keys: str) -> str | None:
    for key in keys:
        if key in cpuinfo:
            return cpuinfo[key]
    return None


def _parse_s390_machine(cpuinfo: Mapping[str, str]) -> str | None:
    """Return an IBM Z's type, "8561", or None for another machine. Older kernels have
    the type only in the lines `processor 0: ..., machine = 2827`.
    """
    if cpuinfo.get("vendor_id") != "IBM/S390":
        return None
    if machine := cpuinfo.get("machine"):
        return machine
    for key, text in cpuinfo.items():
        if key.startswith("processor "):  # the first such line: all have one type
            match = re.search(r"machine = ([0-9]+)", text)
            return match[1] if match else None
    return None


def _parse_cpu_revision(cpuinfo: Mapping[str, str]) -> str | None:
    """Return a CPU's revision, on Arm as r<variant>p<revision>; None if unknown."""
    variant = cpuinfo.get("cpu variant")
    revision = cpuinfo.get("cpu revision")
    if variant is not None and revision is not None:
        try:
            return f"r{int(variant, 16)}p{int(revision)}"
        except ValueError:
            return None
    return revision or _find_first_value(cpuinfo, "mimpid", "revision")


def _join_dmi(files: Files, *names: str) -> str | None:
    words = [files.get(_DMI + name, "") for name in names]
    meant = [word for word in words if not _PLACEHOLDERS.fullmatch(word)]
    return " ".join(filter(None, meant)) or None


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
    offline = [cpu.cpu for cpu in cpus if not cpu.online]
    if offline:
        yield f"{len(offline)} of {len(cpus)} CPUs are offline: {format_cpus(offline)}."
    barred = [cpu for cpu in cpus if cpu.online and not cpu.allowed]
    if barred:
        is_isolation = all(cpu.isolated for cpu in barred)
        why = "isolated" if is_isolation else "affinity or cpuset"
        names = format_cpus(cpu.cpu for cpu in barred)
        yield (
            f"{len(barred)} of {len(cpus)} CPUs are left out unless --cpus names them"
            f" ({why}): {names}."
        )
    if agent_arch != normalize_arch(uname_m):
        yield (
            f"A 32-bit system under a 64-bit kernel ({uname_m}): the agent is"
            f" {agent_arch}."
        )


def _parse_limit(files: Files, name: str) -> int | None:
    """Return the soft limit `name` of /proc/self/limits, proc_pid_limits(5); None if
    unlimited or unknown.
    """
    soft_and_hard = files.get(f"proc/self/limits:Max {name}", "")
    return _parse_int(soft_and_hard.partition(" ")[0])


def _parse_flag(text: str | None) -> bool | None:
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return text != "0"


def _parse_int(text: str | None) -> int | None:
    if not text or not _COUNT.fullmatch(text):
        return None
    return int(text)


def _parse_float(text: str | None) -> float | None:
    if not text or not re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,9})?", text):
        return None
    return float(text)

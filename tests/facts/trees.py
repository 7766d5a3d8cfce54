"""Machines as /proc, /sys and /etc show them, made up in the kernels' own forms, for
the real probe.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fleet.plan.cpulist import format_cpus

CPU = "sys/devices/system/cpu"


@dataclass
class Tree:
    """One machine's files. Groups are given as lists of CPU sets; `offline` CPUs get no
    topology.
    """

    cpus: int
    files: dict[str, str] = field(default_factory=dict)
    offline: tuple[int, ...] = ()

    def write(self, root: Path) -> Path:
        """Lay the files out below `root`."""
        online = [cpu for cpu in range(self.cpus) if cpu not in self.offline]
        basics = {
            f"{CPU}/online": format_cpus(online),
            f"{CPU}/present": f"0-{self.cpus - 1}",
            f"{CPU}/possible": f"0-{self.cpus - 1}",
            f"{CPU}/isolated": "",
            "proc/loadavg": "0.25 0.10 0.05 3/300 4711",
            "proc/stat": "cpu  1 2 3 4 5 6 7 8 0 0\nprocs_running 3",
            "proc/meminfo": "MemTotal:       16384000 kB\nMemFree: 1 kB",
            "proc/uptime": "1234.56 2345.67",
            "etc/machine-id": "0123456789abcdef0123456789abcdef",
            "proc/self/status": (
                f"Name:\tsh\nCpus_allowed:\tff\nCpus_allowed_list:\t{format_cpus(online)}"
            ),
        }
        files = basics | self.files
        for folder in {path.rpartition("/")[0] for path in files}:
            (root / folder).mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with open(f"{root}/{path}", "w") as file:  # noqa: PTH123  making 20,000 a Path takes as long again
                file.write(text + "\n")
        return root

    def share(self, kind: str, groups: Iterable[Iterable[int]]) -> None:
        """Give each CPU of each group the list of its online members, as
        topology/<kind>_list.
        """
        for group in groups:
            members = [cpu for cpu in group if cpu not in self.offline]
            for cpu in members:
                self.files[f"{CPU}/cpu{cpu}/topology/{kind}_list"] = format_cpus(
                    members
                )

    def cache(
        self,
        index: int,
        level: int,
        kind: str,
        size: str,
        groups: Iterable[Iterable[int]],
    ) -> None:
        """Give each CPU of each group the same cache."""
        for group in groups:
            members = [cpu for cpu in group if cpu not in self.offline]
            for cpu in members:
                folder = f"{CPU}/cpu{cpu}/cache/index{index}"
                files = {
                    "level": str(level),
                    "type": kind,
                    "size": size,
                    "coherency_line_size": "64",
                }
                files["shared_cpu_list"] = format_cpus(members)
                self.files.update(
                    {f"{folder}/{name}": text for name, text in files.items()}
                )

    def each(self, path: str, values: Iterable[str]) -> None:
        """Write one file per CPU, `{}` in the path being its number."""
        for cpu, value in enumerate(values):
            self.files[path.format(cpu)] = value

    def idle_states(
        self, states: Iterable[tuple[str, int]], disabled: Iterable[int] = ()
    ) -> None:
        """Give each online CPU these idle states, as (name, exit latency in µs)."""
        for number, (name, latency) in enumerate(states):
            for cpu in (cpu for cpu in range(self.cpus) if cpu not in self.offline):
                folder = f"{CPU}/cpu{cpu}/cpuidle/state{number}"
                files = {
                    "name": name,
                    "latency": str(latency),
                    "disable": str(int(number in disabled)),
                }
                self.files.update(
                    {f"{folder}/{part}": text for part, text in files.items()}
                )


def _x86_cpuinfo(
    cpus: Iterable[int], model: str, flags: str = "fpu sse2 constant_tsc nonstop_tsc"
) -> str:
    return "\n".join(
        f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t:"
        f" 183\nmodel name\t: {model}\nstepping\t: 1\nmicrocode\t: 0x12b\nflags\t\t:"
        f" {flags}\n"
        for cpu in cpus
    )


def _dmi(**names: str) -> dict[str, str]:
    return {f"sys/class/dmi/id/{name}": value for name, value in names.items()}


def hybrid_laptop() -> Tree:
    """An i9-13980HX: 8 P-cores with SMT (CPUs 0-15), 16 E-cores in clusters of 4
    (16-31), one L3.
    """
    tree = Tree(32)
    p_cores = [(2 * core, 2 * core + 1) for core in range(8)]
    e_cores = [(cpu,) for cpu in range(16, 32)]
    e_clusters = [range(first, first + 4) for first in range(16, 32, 4)]
    everything = [range(32)]
    tree.share("core_cpus", p_cores + e_cores)
    tree.share("thread_siblings", p_cores + e_cores)
    tree.share("cluster_cpus", [*p_cores, *e_clusters])
    for kind in ("die_cpus", "package_cpus", "core_siblings"):
        tree.share(kind, everything)
    tree.cache(0, 1, "Data", "48K", p_cores)
    tree.cache(0, 1, "Data", "32K", e_cores)
    tree.cache(1, 1, "Instruction", "32K", p_cores)
    tree.cache(1, 1, "Instruction", "64K", e_cores)
    tree.cache(2, 2, "Unified", "2048K", p_cores)
    tree.cache(2, 2, "Unified", "4096K", e_clusters)
    tree.cache(3, 3, "Unified", "36864K", everything)
    tree.idle_states([("POLL", 0), ("C1E", 1), ("C6", 170), ("C10", 230)])
    tree.files |= {
        f"{CPU}/cpu{cpu}/cpuidle/state3/latency": "310" for cpu in range(16, 32)
    }
    for cpu in range(32):
        policy = f"{CPU}/cpufreq/policy{cpu}"
        tree.files[f"{policy}/scaling_governor"] = "powersave"
        tree.files[f"{policy}/scaling_driver"] = "intel_pstate"
        tree.files[f"{policy}/cpuinfo_max_freq"] = "5600000" if cpu < 16 else "4000000"
        tree.files[f"{policy}/affected_cpus"] = str(cpu)
    tree.files |= {
        "sys/devices/cpu_core/cpus": "0-15",
        "sys/devices/cpu_atom/cpus": "16-31",
        f"{CPU}/intel_pstate/no_turbo": "0",
        f"{CPU}/smt/active": "1",
        f"{CPU}/smt/control": "on",
        f"{CPU}/nohz_full": "(null)",
        f"{CPU}/vulnerabilities/spectre_v2": (
            "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional"
        ),
        f"{CPU}/vulnerabilities/meltdown": "Not affected",
        "sys/devices/system/node/node0/cpulist": "0-31",
        "sys/class/thermal/thermal_zone0/temp": "27800",
        "sys/class/hwmon/hwmon6/temp1_input": "61000",
        "sys/class/hwmon/hwmon6/temp2_input": "-273000",
        "proc/cpuinfo": _x86_cpuinfo(
            range(32), "13th Gen Intel(R) Core(TM) i9-13980HX"
        ),
        "proc/cmdline": (
            "BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet vpn.password=hunter2"
            " mitigations=auto"
        ),
        "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"',
        **_dmi(
            board_vendor="ASUSTeK",
            board_name="G834JY",
            bios_vendor="AMI",
            bios_version="G834JY.331",
        ),
        **_dmi(
            bios_date="11/05/2024",
            sys_vendor="ASUSTeK",
            product_name="ROG Strix G834JY",
        ),
    }
    return tree


def numa_server() -> Tree:
    """Two sockets of 8 cores with SMT and two NUMA nodes each; CPUs 5 and 21 (one core)
    switched off.
    """
    tree = Tree(32, offline=(5, 21))
    cores = [(core, core + 16) for core in range(16)]
    packages = [
        [*range(first, first + 8), *range(first + 16, first + 24)] for first in (0, 8)
    ]
    nodes = [
        [*range(first, first + 4), *range(first + 16, first + 20)]
        for first in (0, 4, 8, 12)
    ]
    tree.share("core_cpus", cores)
    tree.share("cluster_cpus", cores)
    tree.share("die_cpus", packages)
    tree.share("package_cpus", packages)
    tree.cache(0, 1, "Data", "32K", cores)
    tree.cache(2, 2, "Unified", "1024K", cores)
    tree.cache(3, 3, "Unified", "32M", nodes)
    for number, node in enumerate(nodes):
        members = [cpu for cpu in node if cpu not in tree.offline]
        tree.files[f"sys/devices/system/node/node{number}/cpulist"] = format_cpus(
            members
        )
    tree.idle_states([("POLL", 0), ("C1", 2), ("C1E", 10), ("C6", 133)], disabled=[3])
    tree.each(
        f"{CPU}/cpu{{}}/thermal_throttle/core_throttle_count", ["0"] * 30 + ["4", "3"]
    )
    tree.each(f"{CPU}/cpu{{}}/thermal_throttle/package_throttle_count", ["0"] * 32)
    tree.files |= {
        "proc/1/comm": "systemd",
        "proc/812/comm": "irqbalance",
        "proc/sys/kernel/sched_rt_runtime_us": "950000",
        f"{CPU}/cpuidle/current_driver": "intel_idle",
        "proc/self/cgroup": (
            "4:memory:/user.slice\n3:cpu,cpuacct:/user.slice/bench\n0::/user.slice"
        ),
        "proc/self/mountinfo": (
            "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct"
        ),
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu/user.slice/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu/user.slice/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu/user.slice/bench/cpu.cfs_quota_us": "250000",
        "sys/fs/cgroup/cpu/user.slice/bench/cpu.cfs_period_us": "100000",
        f"{CPU}/isolated": "14-15",
        f"{CPU}/nohz_full": "14-15",
        "sys/class/net/ens1/device/numa_node": "1",
        "sys/class/net/eth0/device/numa_node": "0",
        "sys/class/net/usb0/device/numa_node": "-1",
        f"{CPU}/smt/active": "1",
        f"{CPU}/cpufreq/boost": "0",
        "proc/sys/kernel/numa_balancing": "1",
        "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet",
        "proc/cpuinfo": _x86_cpuinfo(
            [cpu for cpu in range(32) if cpu not in tree.offline], "Xeon Gold"
        ),
    }
    return tree


def big_little_board() -> Tree:
    """An RK3588: four Cortex-A55 (CPUs 0-3) and two pairs of Cortex-A76 (4-5, 6-7), no
    DMI.
    """
    tree = Tree(8)
    alone = [(cpu,) for cpu in range(8)]
    clusters = [range(4), (4, 5), (6, 7)]
    tree.share("core_cpus", alone)
    tree.share("cluster_cpus", clusters)
    tree.share("package_cpus", [range(8)])
    tree.cache(0, 1, "Data", "32K", alone)
    tree.cache(2, 2, "Unified", "512K", alone)
    tree.cache(3, 3, "Unified", "3072K", [range(8)])
    tree.each(f"{CPU}/cpu{{}}/cpu_capacity", ["414"] * 4 + ["1024"] * 4)
    for first, members, khz in (
        (0, "0 1 2 3", 1800000),
        (4, "4 5", 2400000),
        (6, "6 7", 2400000),
    ):
        policy = f"{CPU}/cpufreq/policy{first}"
        tree.files[f"{policy}/scaling_governor"] = (
            "ondemand" if first else "performance"
        )
        tree.files[f"{policy}/scaling_driver"] = "cpufreq-dt"
        tree.files[f"{policy}/cpuinfo_max_freq"] = str(khz)
        tree.files[f"{policy}/affected_cpus"] = members
    parts = ["0xd05"] * 4 + ["0xd0b"] * 4
    tree.files["proc/cpuinfo"] = "\n".join(
        f"processor\t: {cpu}\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd evtstrm aes"
        " atomics\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t:"
        f" {2 if cpu < 4 else 4}\nCPU part\t: {part}\nCPU revision\t: 0\n"
        for cpu, part in enumerate(parts)
    )
    tree.files["proc/device-tree/model"] = "Radxa ROCK 5B\0"
    tree.files["sys/class/thermal/thermal_zone0/temp"] = "43461"
    return tree


def asahi_laptop() -> Tree:
    """A MacBook Air with an M1 under Asahi Linux: Icestorm (CPUs 0-3) and Firestorm
    (4-7) cores with a second-level cache each four, none behind; no DMI, 16 KiB pages.
    """
    tree = Tree(8)
    alone = [(cpu,) for cpu in range(8)]
    clusters = [range(4), range(4, 8)]
    tree.share("core_cpus", alone)
    tree.share("thread_siblings", alone)
    tree.share("cluster_cpus", clusters)
    tree.share("package_cpus", [range(8)])
    tree.cache(0, 1, "Data", "64K", alone[:4])
    tree.cache(0, 1, "Data", "128K", alone[4:])
    tree.cache(1, 1, "Instruction", "128K", alone[:4])
    tree.cache(1, 1, "Instruction", "192K", alone[4:])
    tree.cache(2, 2, "Unified", "4096K", clusters[:1])
    tree.cache(2, 2, "Unified", "12288K", clusters[1:])
    tree.each(f"{CPU}/cpu{{}}/cpu_capacity", ["459"] * 4 + ["1024"] * 4)
    tree.idle_states([("WFI", 1)])
    for first, members, khz in ((0, "0 1 2 3", 2064000), (4, "4 5 6 7", 3204000)):
        policy = f"{CPU}/cpufreq/policy{first}"
        tree.files[f"{policy}/scaling_governor"] = "schedutil"
        tree.files[f"{policy}/scaling_driver"] = "apple-cpufreq"
        tree.files[f"{policy}/cpuinfo_max_freq"] = str(khz)
        tree.files[f"{policy}/affected_cpus"] = members
    parts = ["0x022"] * 4 + ["0x023"] * 4
    tree.files["proc/cpuinfo"] = "\n".join(
        f"processor\t: {cpu}\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd atomics\n"
        "CPU implementer\t: 0x61\nCPU architecture: 8\nCPU variant\t: 0x1\n"
        f"CPU part\t: {part}\nCPU revision\t: 1\n"
        for cpu, part in enumerate(parts)
    )
    tree.files |= {
        "proc/device-tree/model": "Apple MacBook Air (M1, 2020)\0",
        "proc/device-tree/compatible": "apple,j313\0apple,t8103\0apple,arm-platform\0",
        "sys/devices/system/node/node0/cpulist": "0-7",
        "etc/os-release": 'PRETTY_NAME="Fedora Linux Asahi Remix 42"',
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet",
    }
    return tree


def xen_guest(*, is_pv: bool) -> Tree:
    """A domU of Xen with four CPUs. A paravirtual one has no firmware; to both, Xen
    shows each CPU as a core of its own.
    """
    tree = Tree(4)
    alone = [(cpu,) for cpu in range(4)]
    tree.share("core_cpus", alone)
    tree.share("thread_siblings", alone)
    tree.share("package_cpus", alone if is_pv else [range(4)])
    tree.cache(0, 1, "Data", "32K", alone)
    tree.cache(3, 3, "Unified", "30720K", alone if is_pv else [range(4)])
    tree.files |= {
        "sys/hypervisor/type": "xen",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "xen",
        "proc/cpuinfo": _x86_cpuinfo(
            range(4), "Intel(R) Xeon(R) CPU E5-2670 v3", "fpu sse2 hypervisor"
        ),
    }
    if not is_pv:
        tree.files |= _dmi(sys_vendor="Xen", product_name="HVM domU", bios_vendor="Xen")
    return tree


def container_with_a_cpuset() -> Tree:
    """A container on a 16-CPU server, kept to CPUs 2, 3 and 10; /sys shows the whole
    machine.
    """
    tree = Tree(16)
    tree.share("core_cpus", [(cpu, cpu + 8) for cpu in range(8)])
    tree.share("package_cpus", [range(16)])
    tree.cache(3, 3, "Unified", "16M", [range(16)])
    tree.files |= {
        "proc/self/status": (
            "Name:\tgrep\nCpus_allowed:\t040c\nCpus_allowed_list:\t2-3,10"
        ),
        "proc/self/cgroup": "0::/kubepods.slice/kubepods-burstable.slice/cri-1.scope",
        "proc/self/mountinfo": (
            "41 31 0:38 /kubepods.slice/kubepods-burstable.slice/cri-1.scope "
            "/sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw"
        ),
        "proc/1/comm": "sleep",
        "sys/fs/cgroup/cpu.max": "150000 100000",
        "proc/cpuinfo": _x86_cpuinfo(range(16), "AMD EPYC", "fpu hypervisor"),
        **_dmi(sys_vendor="QEMU", product_name="Standard PC (Q35 + ICH9, 2009)"),
    }
    return tree


def hidden_topology() -> Tree:
    """A sandbox whose /sys tells nothing but how many CPUs there are."""
    tree = Tree(4)
    tree.files["proc/cpuinfo"] = _x86_cpuinfo(range(4), "unknown")
    return tree


def huge_server() -> Tree:
    """576 CPUs: two sockets of 144 cores, SMT siblings 288 apart, three dies (nodes)
    each, an L3 per 12.
    """
    tree = Tree(576)

    def both(first: int, count: int) -> list[int]:
        return [*range(first, first + count), *range(first + 288, first + 288 + count)]

    cores = [(core, core + 288) for core in range(288)]
    tree.share("core_cpus", cores)
    tree.share("thread_siblings", cores)
    tree.share("cluster_cpus", cores)
    tree.share("die_cpus", [both(first, 48) for first in range(0, 288, 48)])
    tree.share("package_cpus", [both(first, 144) for first in (0, 144)])
    tree.share("core_siblings", [both(first, 144) for first in (0, 144)])
    tree.cache(0, 1, "Data", "48K", cores)
    tree.cache(1, 1, "Instruction", "32K", cores)
    tree.cache(2, 2, "Unified", "2048K", cores)
    tree.cache(3, 3, "Unified", "32M", [both(first, 12) for first in range(0, 288, 12)])
    tree.idle_states([("POLL", 0), ("C1", 1), ("C2", 18)])
    tree.each(f"{CPU}/cpu{{}}/thermal_throttle/core_throttle_count", ["0"] * 576)
    for node in range(6):
        tree.files[f"sys/devices/system/node/node{node}/cpulist"] = format_cpus(
            both(node * 48, 48)
        )
    for cpu in range(576):
        policy = f"{CPU}/cpufreq/policy{cpu}"
        tree.files[f"{policy}/scaling_governor"] = "performance"
        tree.files[f"{policy}/scaling_driver"] = "amd-pstate-epp"
        tree.files[f"{policy}/cpuinfo_max_freq"] = "3700000"
        tree.files[f"{policy}/affected_cpus"] = str(cpu)
    tree.files["proc/cpuinfo"] = _x86_cpuinfo(range(576), "Huge", "fpu " * 200)
    return tree

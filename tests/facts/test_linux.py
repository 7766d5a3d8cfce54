"""What machines' files say, as facts: trees made up but faithful, read by the real
probe.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.agent.forecast import render_facts
from fleet.facts import linux
from fleet.facts.systems import find_noise
from fleet.facts.topology import arm_core_name, parse_cpu_list, parse_size
from fleet.model import Host, Node, PairChoice, Pairs, Plan, Topology
from fleet.plan.cpulist import format_cpus
from fleet.plan.merge import cpus_to_measure, merge_plan_with_facts
from fleet.plan.options import parse_requested
from tests.facts import trees
from tests.facts.arm_cores import add_cores, read_cores

RECORDINGS = Path(__file__).parents[1] / "recordings/facts"


def test_a_hybrid_laptop(facts):
    result = facts(trees.hybrid_laptop())
    by_kind = {
        kind: [cpu.cpu for cpu in result.cpus if cpu.kind == kind]
        for kind in ("performance", "efficiency")
    }
    assert by_kind == {
        "performance": list(range(16)),
        "efficiency": list(range(16, 32)),
    }
    assert [result.cpus[cpu].core for cpu in (0, 1, 15, 16, 31)] == [0, 0, 14, 16, 31]
    assert [result.cpus[cpu].cluster for cpu in (1, 16, 19, 20, 31)] == [
        0,
        16,
        16,
        20,
        28,
    ]
    assert {cpu.llc for cpu in result.cpus} == {0}
    assert [cache.size_bytes for cache in result.cpus[17].caches] == [
        32 << 10,
        64 << 10,
        4096 << 10,
        36864 << 10,
    ]
    assert (result.cpus[3].max_khz, result.cpus[20].max_khz) == (5_600_000, 4_000_000)
    assert result.governor == "powersave"
    assert result.frequency_driver == "intel_pstate"
    assert result.boost is True
    assert result.smt is True
    assert result.smt_control == "on"
    assert result.load.temperature_c == 61.0
    assert result.microcode == "0x12b"
    assert result.board == "ASUSTeK G834JY"
    assert result.firmware == "AMI G834JY.331"
    assert result.firmware_date == "11/05/2024"
    assert result.hypervisor is None
    assert result.distribution == "Ubuntu 24.04.1 LTS"
    assert result.nohz_full_cpus == ()
    # its efficiency cores take longest
    assert result.idle_state == "C10"
    assert result.idle_exit_us == 310
    assert result.irqbalance is None
    assert result.cpu_quota is None
    assert result.core_throttles is None
    assert result.notes == ()


def test_a_two_socket_server_with_cpus_switched_off(facts):
    result = facts(trees.numa_server())
    assert [cpu.cpu for cpu in result.cpus if not cpu.online] == [5, 21]
    assert not result.cpus[5].allowed
    assert result.cpus[5].core is None
    assert [result.cpus[cpu].node for cpu in (0, 4, 20, 8, 12, 31)] == [
        0,
        1,
        1,
        2,
        3,
        3,
    ]
    assert [result.cpus[cpu].package for cpu in (7, 23, 8, 31)] == [0, 0, 8, 8]
    assert [result.cpus[cpu].llc for cpu in (4, 6, 22)] == [4, 4, 4]
    assert result.isolated_cpus == result.nohz_full_cpus == (14, 15)
    network = [node.network for node in result.nodes[:3]]
    assert network == [("eth0",), ("ens1",), ()]
    assert result.boost is False
    assert result.numa_balancing is True
    assert result.huge_pages == "always"
    assert result.clock_source == "hpet"
    assert result.idle_driver == "intel_idle"
    assert result.idle_state == "C1E"
    assert result.idle_exit_us == 10
    assert result.core_throttles == 7
    assert result.package_throttles == 0
    assert result.irqbalance is True
    assert result.cpu_quota == 2.5
    assert result.rt_runtime_us == 950_000
    assert "2 of 32 CPUs are offline: 5,21." in result.notes


@pytest.mark.parametrize(
    ("group", "schemata", "vendor", "expected"),
    [
        (
            None,
            "    MB:0=50",
            "GenuineIntel",
            None,
        ),  # the root group's need not be ours
        ("res:", None, "GenuineIntel", "not mounted"),
        ("res:/", None, "GenuineIntel", None),  # mounted, but not in our container
        ("res:/", "    L3:0=ffff;1=ffff", "GenuineIntel", "no limit"),
        ("res:/", "    MB:0=100;1=100\n    L3:0=7ff;1=7ff", "GenuineIntel", "no limit"),
        (
            "res:batch",
            "    L3:0=7ff;1=7ff\n    MB:0=100;1= 50",
            "GenuineIntel",
            "MB:1=50",
        ),
        ("res:batch", "    MB:0=4096;1=4294967295", "GenuineIntel", "MB:0=4096"),
        (
            "res:batch",
            "  SMBA:0=  64;1=2048\n    MB:0=2048;1=4096",
            "AuthenticAMD",
            "SMBA:0=64",
        ),
        ("res:batch", "    MB:0= 100;1=  16", "AuthenticAMD", "MB:0=100;1=16"),
    ],
)
def test_a_limit_of_memory_bandwidth_is_that_of_our_group(
    facts, group, schemata, vendor, expected
):
    tree = trees.Tree(2)
    tree.files["proc/cpuinfo"] = (
        f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: fpu\n"
    )
    tree.files["sys/fs/resctrl/other/schemata"] = "    MB:0=10"
    if group is not None:
        tree.files["proc/self/cpu_resctrl_groups"] = f"{group}\nmon:"
    if schemata is not None:
        tree.files[f"sys/fs/resctrl/{(group or '').removeprefix('res:')}/schemata"] = (
            schemata
        )
    assert facts(tree).resctrl == expected


def test_nodes_with_memory_also_without_cpus_or_where_we_may_not_have_any(facts):
    tree = trees.Tree(2)
    node = "sys/devices/system/node"
    tree.files |= {
        f"{node}/has_memory": "0,2-3",
        "proc/self/status": "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0,2",
        f"{node}/node0/cpulist": "0-1",
        f"{node}/node2/cpulist": "",
        f"{node}/node3/cpulist": "",
    }
    for number, far in ((0, "10 14 24"), (2, "14 10 24"), (3, "24 24 10")):
        tree.files[f"{node}/node{number}/distance"] = far
        tree.files[f"{node}/node{number}/meminfo"] = (
            f"Node {number} MemTotal:  16384 kB\nNode {number} MemFree:  "
            f" {4096 * (number + 1)} kB"
        )
    result = facts(tree)
    assert result.nodes == (
        Node(0, True, 4 << 20, ((0, 10), (2, 14), (3, 24))),
        Node(2, True, 12 << 20, ((0, 14), (2, 10), (3, 24))),
        Node(3, False, 16 << 20, ((0, 24), (2, 24), (3, 10))),
    )
    assert [
        line for line in render_facts(result).splitlines() if line.startswith("node")
    ] == [
        "node 0 4194304 1",
        "node 2 12582912 1",
        "node 3 16777216 -",
    ]
    assert [cpu.node for cpu in result.cpus] == [0, 0]
    tree.files.pop(f"{node}/has_memory")
    tree.files.pop("proc/self/status")
    # as an older fleet asked
    assert [one.node for one in facts(tree).nodes if one.allowed] == [
        0,
        2,
        3,
    ]


def test_a_big_little_board(facts):
    result = facts(trees.big_little_board(), "aarch64")
    assert result.arch == "aarch64"
    assert result.cpu_model == "4x Cortex-A55 + 4x Cortex-A76"
    assert [cpu.model for cpu in result.cpus] == ["Cortex-A55"] * 4 + ["Cortex-A76"] * 4
    assert [cpu.capacity for cpu in result.cpus] == [414] * 4 + [1024] * 4
    assert [cpu.cluster for cpu in result.cpus] == [0, 0, 0, 0, 4, 4, 6, 6]
    assert result.board == "Radxa ROCK 5B"
    assert result.governor == "performance, ondemand"
    assert result.cpu_stepping == "r2p0"
    assert "atomics" in result.cpu_flags
    assert result.hypervisor is None
    assert result.smt is None


def test_a_laptop_of_asahi(facts):
    result = facts(trees.asahi_laptop(), "aarch64")
    assert result.cpu_model == "4x Apple M1 Icestorm + 4x Apple M1 Firestorm"
    assert result.board == "Apple MacBook Air (M1, 2020)"
    assert result.hypervisor is None
    assert [cpu.llc for cpu in result.cpus] == [0] * 4 + [4] * 4
    topology = Topology(result.cpus, result.core_kinds)
    assert topology.name_relation(0, 3) == "cluster LITTLE-LITTLE"
    assert topology.name_relation(4, 7) == "cluster big-big"
    assert topology.name_relation(3, 4) == "package big-LITTLE"
    assert result.notes == ()


@pytest.mark.parametrize("is_pv", [True, False], ids=["PV", "HVM"])
def test_a_guest_of_xen(facts, is_pv):
    result = facts(trees.xen_guest(is_pv=is_pv))
    assert result.hypervisor == "xen"
    assert result.clock_source == "xen"
    assert result.board == (None if is_pv else "Xen HVM domU")
    (note,) = result.notes
    assert "(xen) is between us and the hardware" in note
    topology = Topology(result.cpus, result.core_kinds)
    # four sockets, as Xen shows them to a paravirtual guest
    assert topology.name_relation(0, 1) == ("system" if is_pv else "package")


def test_the_first_domain_of_xen_is_a_guest_on_a_machine_with_a_name(facts):
    tree = trees.numa_server()
    tree.files |= {
        "sys/hypervisor/type": "xen",
        "proc/xen/capabilities": "control_d",
        "sys/class/dmi/id/sys_vendor": "Dell Inc.",
        "sys/class/dmi/id/product_name": "PowerEdge R740",
    }
    result = facts(tree)
    assert result.hypervisor == "xen"
    assert result.board == "Dell Inc. PowerEdge R740"


def test_groups_by_the_names_old_kernels_gave_them(facts):
    tree = trees.Tree(4)
    tree.share("thread_siblings", [(0, 2), (1, 3)])
    tree.share("core_siblings", [range(4)])
    assert [(cpu.core, cpu.package) for cpu in facts(tree).cpus] == [
        (0, 0),
        (1, 0),
        (0, 0),
        (1, 0),
    ]


def test_a_container_with_a_cpuset(facts):
    result = facts(trees.container_with_a_cpuset())
    assert [cpu.cpu for cpu in result.cpus if cpu.allowed] == [2, 3, 10]
    assert all(cpu.online for cpu in result.cpus)
    assert result.container == "kubepods"
    assert result.hypervisor == "qemu"
    assert result.cpu_quota == 1.5  # its own group is the root of what it sees
    assert result.irqbalance is None  # the machine's own processes are hidden
    left_out = "(affinity or cpuset): 0-1,4-9,11-15."
    assert (
        f"13 of 16 CPUs are left out unless --cpus names them {left_out}"
        in result.notes
    )


@pytest.mark.parametrize(
    ("name", "machine", "model", "about", "features"),
    [
        (
            "loongarch64",
            "loongarch64",
            "Loongson-3A6000-HV",
            (None, "Loongson-64bit", None, "0x00"),
            6,
        ),
        ("armv7", "armv7l", "2x Cortex-A53", ("0x41", "7", "0xd03", "r0p4"), 2),
        (
            "armv7-before-3.8",
            "armv7l",
            "2x Cortex-A9",
            ("0x41", "7", "0xc09", "r2p10"),
            8,
        ),
        (
            "aarch64-3.10",
            "aarch64",
            "2x Cortex-A53",
            ("0x41", "AArch64", "0xd03", "r0p3"),
            7,
        ),
        ("s390x", "s390x", "IBM 8561", ("IBM/S390", None, "8561", None), 9),
        ("s390x-before-4.8", "s390x", "IBM 2827", ("IBM/S390", None, "2827", None), 9),
        (
            "riscv64",
            "riscv64",
            "sifive,u74-mc",
            ("0x489", None, "0x8000000000000007", "0x4210427"),
            5,
        ),
        ("riscv64-guest", "riscv64", None, (None, None, None, None), 3),
        (
            "ppc64le",
            "ppc64le",
            "POWER9 (architected), altivec supported",
            (None, None, None, "2.2 (pvr 004e 1202)"),
            0,
        ),
        ("gvisor", "x86_64", None, ("GenuineIntel", "6", "85", None), 2),
    ],
)
def test_cpuinfo_of_every_architecture_in_old_and_new_forms(
    facts, name, machine, model, about, features
):
    tree = trees.Tree(2)
    tree.files["proc/cpuinfo"] = (RECORDINGS / f"cpuinfo/{name}.txt").read_text()
    result = facts(tree, machine)
    assert result.cpu_model == model
    assert (
        result.cpu_vendor,
        result.cpu_family,
        result.cpu_model_number,
        result.cpu_stepping,
    ) == about
    assert len(result.cpu_flags) == features


@pytest.mark.parametrize(
    ("online", "mask", "shown", "usable", "cpus"),
    [
        ("0", "24", (0, 24), [24], [0, 24]),
        ("4-5", "0-1", (0, 1, 4, 5), [0, 1], [0, 1, 4, 5]),
        (
            "0-3",
            "2-5",
            tuple(range(32)),
            [2, 3, 4, 5],
            list(range(32)),
        ),  # half of them would be missing
        ("0", "24", (), [24], [24]),
        (
            "0-1",
            "0-31",
            (0, 1),
            [0, 1],
            [0, 1],
        ),  # not made up: a mask may have CPUs that are offline
    ],
)
def test_the_affinity_mask_outweighs_a_made_up_list_of_online_cpus(
    facts, online, mask, shown, usable, cpus
):
    tree = trees.Tree(32)
    tree.share("core_cpus", [(cpu,) for cpu in shown])
    tree.files |= {
        f"{trees.CPU}/online": online,
        "proc/self/status": f"Cpus_allowed_list:\t{mask}",
    }
    result = facts(tree)
    assert sorted(result.usable_cpus) == usable
    assert [cpu.cpu for cpu in result.cpus if cpu.online] == cpus
    assert any("list is not the kernel's" in note for note in result.notes) is (
        mask != "0-31"
    )
    findings = [
        finding for finding in find_noise(result) if finding.kind == "contradiction"
    ]
    assert [finding.found for finding in findings] == [*result.contradictions.values()]
    assert len(findings) == (mask != "0-31")
    assert any("offline" in note for note in result.notes) is (mask == "0-31")


@pytest.mark.parametrize(
    ("parts", "names"),
    [("0xd0b 0xd0b", ["Cortex-A76"] * 2), ("0xd0b 0xd05", [None] * 2)],
)
def test_names_of_cores_in_a_renumbered_cpuinfo_are_of_no_cpu_unless_all_are_equal(
    facts, parts, names
):
    tree = trees.Tree(8)
    tree.files |= {
        f"{trees.CPU}/online": "4-5",
        "proc/self/status": "Cpus_allowed_list:\t4-5",
    }
    tree.files["proc/cpuinfo"] = "\n".join(
        f"processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n"
        for cpu, part in enumerate(parts.split())
    )
    result = facts(tree, "aarch64")
    assert [cpu.model for cpu in result.cpus if cpu.online] == names
    assert (
        "/proc/cpuinfo lists CPUs 0-1, and 4-5 are online"
        in result.contradictions["cpuinfo"]
    )


@pytest.mark.parametrize(
    "isolated",
    [
        {f"{trees.CPU}/isolated": "2-3"},
        {"sys/fs/cgroup/cpuset.cpus.isolated": "2-3"},
        {f"{trees.CPU}/isolated": "2", "sys/fs/cgroup/cpuset.cpus.isolated": "3"},
    ],
    ids=["boot", "partition", "both"],
)
def test_isolated_cpus_are_left_out_of_the_default_but_not_forbidden(facts, isolated):
    tree = trees.Tree(4)
    tree.files |= {
        **isolated,
        "proc/self/status": "Cpus_allowed_list:\t0-1",
    }
    result = facts(tree)
    assert sorted(result.usable_cpus) == [0, 1]
    assert result.isolated_cpus == (2, 3)
    assert (
        "2 of 4 CPUs are left out unless --cpus names them (isolated): 2-3."
        in result.notes
    )
    kinds = {finding.kind: finding.found for finding in find_noise(result)}
    assert (
        kinds["isolated"]
        == "CPUs 2-3 are isolated, and a run leaves them out by default."
    )
    assert "barred" not in kinds
    named = cpus_to_measure(Plan(cpus=(2, 3), seed=1), result)
    assert named == {2, 3}
    paired = Plan(pairs=PairChoice(Pairs.LISTED, ((1, 2),)))
    assert cpus_to_measure(paired, result) == {0, 1, 2}
    assert [
        line
        for line in render_facts(result, named).splitlines()
        if line.startswith("cpu ")
    ][2:] == [
        "cpu 2 - - - - - -",
        "cpu 3 - - - - - -",
    ]


def test_a_group_whose_lowest_member_is_hidden_stays_a_group(facts):
    tree = trees.Tree(8)
    tree.share("core_cpus", [(2, 6), (3, 7)])
    for cpu in (2, 3, 6, 7):
        tree.files[f"{trees.CPU}/cpu{cpu}/topology/package_cpus_list"] = "0-7"
    tree.cache(3, 3, "Unified", "16M", [(2, 3, 6, 7)])
    for cpu in (2, 3, 6, 7):
        tree.files[f"{trees.CPU}/cpu{cpu}/cache/index3/shared_cpu_list"] = "0-7"
    tree.files |= {
        f"{trees.CPU}/online": "2-3,6-7",
        "proc/self/status": "Cpus_allowed_list:\t2-3,6-7",
    }
    result = facts(tree)
    cpus = [result.cpus[cpu] for cpu in (2, 3, 6, 7)]
    assert {(cpu.package, cpu.llc, len(cpu.caches)) for cpu in cpus} == {(0, 0, 1)}
    relation = Topology(result.cpus).relation
    assert (relation(2, 3), relation(2, 6)) == ("package", "smt")


@pytest.mark.parametrize(
    ("cpus_of_nodes", "nodes", "note"),
    [
        (
            ["0-3"] * 4,
            [None] * 4,
            (
                "CPUs 0-3 are each in several of 4 NUMA nodes (numa=fake?): none has a"
                " node."
            ),
        ),
        (
            ["0-1", "0-1", "2-3"],
            [None, None, 2, 2],
            "CPUs 0-1 are each in several of 2 NUMA nodes",
        ),
        (["0-1", "2-3", ""], [0, 0, 1, 1], None),
    ],
)
def test_a_cpu_in_several_numa_nodes_has_none_of_its_own(
    facts, cpus_of_nodes, nodes, note
):
    tree = trees.Tree(4)
    for number, cpus in enumerate(cpus_of_nodes):
        tree.files[f"sys/devices/system/node/node{number}/cpulist"] = cpus
    result = facts(tree)
    assert [cpu.node for cpu in result.cpus] == nodes
    assert [
        text
        for text in result.notes
        if "NUMA" in text and note and text.startswith(note)
    ] == [text for text in result.notes if "NUMA" in text]
    assert any("NUMA" in text for text in result.notes) is (note is not None)


def dmi(
    vendor: str, product: str, bios: str = "", flags: str | None = None
) -> dict[str, str]:
    files = {
        f"sys/class/dmi/id/{name}": text
        for name, text in (("sys_vendor", vendor), ("product_name", product))
    }
    files |= {"sys/class/dmi/id/bios_vendor": bios} if bios else {}
    return (
        files
        if flags is None
        else files | {"proc/cpuinfo": f"processor\t: 0\nflags\t\t: {flags}"}
    )


@pytest.mark.parametrize(
    ("machine", "files", "hypervisor"),
    [
        # off x86 the firmware tells
        ("aarch64", dmi("Amazon EC2", "c7g.large", "Amazon EC2"), "amazon"),
        ("aarch64", dmi("Amazon EC2", "c7g.metal", "Amazon EC2"), None),
        ("aarch64", dmi("Amazon EC2", "c8g.metal-24xl", "Amazon EC2"), None),
        (
            "aarch64",
            dmi(
                "OpenStack Foundation",
                "OpenStack Nova",
                "EFI Development Kit II / OVMF",
            ),
            "openstack",
        ),
        (
            "aarch64",
            dmi("Alibaba Cloud", "Alibaba Cloud ECS", "Alibaba Cloud"),
            "alibaba",
        ),
        ("aarch64", dmi("Hetzner", "vServer", "Hetzner"), "unnamed"),
        (
            "aarch64",
            dmi("Scaleway", "SCW-COPARM1-2C-8G", "EFI Development Kit II / OVMF"),
            "unnamed",
        ),
        (
            "aarch64",
            dmi("QEMU", "KVM Virtual Machine", "EFI Development Kit II / OVMF"),
            "kvm",
        ),
        ("aarch64", dmi("Nutanix", "AHV", "SeaBIOS"), "nutanix"),
        (
            "aarch64",
            dmi("Microsoft Corporation", "Virtual Machine", "Microsoft Corporation"),
            "hyper-v",
        ),
        (
            "aarch64",
            dmi("Some Cloud", "vm.small", "EFI Development Kit II / OVMF"),
            "unnamed",
        ),
        ("aarch64", dmi("Ampere(R)", "Mt. Jade", "Ampere(R)"), None),
        ("aarch64", dmi("Supermicro", "ARS-210M-NR", "American Megatrends Inc."), None),
        # without firmware, what the kernel shows
        (
            "s390x",
            {
                "proc/sysinfo": (
                    "LPAR Number:          3\nVM00 Control Program: KVM/Linux"
                )
            },
            "kvm",
        ),
        (
            "s390x",
            {
                "proc/sysinfo": (
                    "LPAR Number:          3\nVM00 Control Program: z/VM    7.2.0"
                )
            },
            "z/vm",
        ),
        ("s390x", {"proc/sysinfo": "LPAR Number:          3"}, "pr/sm"),
        ("s390x", {"proc/sysinfo": "Manufacturer:         IBM"}, None),
        (
            "ppc64le",
            {"proc/cpuinfo": "processor\t: 0\n\nplatform\t: pSeries"},
            "powervm",
        ),
        ("ppc64le", {"proc/cpuinfo": "processor\t: 0\n\nplatform\t: PowerNV"}, None),
        (
            "ppc64le",
            {"proc/device-tree/model": "IBM pSeries (emulated by qemu)\0"},
            "qemu",
        ),
        ("aarch64", {"proc/device-tree/hypervisor/compatible": "linux,kvm\0"}, "kvm"),
        (
            "aarch64",
            {"proc/device-tree/hypervisor/compatible": "xen,xen-4.17\0xen,xen\0"},
            "xen",
        ),
        # on x86 the CPU tells whether there is one, and the firmware which
        ("x86_64", dmi("QEMU", "Standard PC", flags="hypervisor"), "qemu"),
        ("x86_64", dmi("VMware, Inc.", "VMware7,1", flags="hypervisor"), "vmware"),
        (
            "x86_64",
            dmi("Microsoft Corporation", "Virtual Machine", flags="hypervisor"),
            "hyper-v",
        ),
        ("x86_64", dmi("Microsoft Corporation", "Surface", flags="fpu"), None),
        ("x86_64", dmi("Amazon EC2", "m5.metal", flags="fpu"), None),
        ("x86_64", dmi("", "", flags="hypervisor"), "unnamed"),
    ],
)
def test_a_hypervisor_is_known_by_cpu_firmware_or_kernel(
    facts, machine, files, hypervisor
):
    tree = trees.Tree(2)
    tree.files |= files
    assert facts(tree, machine).hypervisor == hypervisor


@pytest.mark.parametrize(
    ("kernel", "hypervisor"),
    [("5.15.153.1-microsoft-standard-WSL2", "hyper-v"), ("6.12.0-kvm", "unnamed")],
)
def test_a_guest_without_firmware_is_known_by_the_kernel_of_wsl(kernel, hypervisor):
    cpuinfo = {"flags": "fpu hypervisor"}
    system = {"uname_r": kernel}
    assert linux.parse_hypervisor({}, cpuinfo, system) == hypervisor


OVERLAY = "100 99 0:50 / / rw - overlay overlay rw"


@pytest.mark.parametrize(
    ("files", "container"),
    [
        ({"proc/1/environ": "PATH=/bin\0container=lxc\0HOME=/root\0"}, "lxc"),
        ({"proc/1/environ": "container_uuid=1\0PATH=/bin\0"}, None),
        ({"proc/1/environ": "KUBERNETES_SERVICE_HOST=192.0.2.1\0"}, "kubernetes"),
        ({"run/systemd/container": "systemd-nspawn"}, "systemd-nspawn"),
        (
            {
                "proc/self/mountinfo": (
                    "101 100 0:51 /proc/cpuinfo /proc/cpuinfo rw - fuse.lxcfs lxcfs rw"
                )
            },
            "lxc",
        ),
        ({"proc/self/mountinfo": OVERLAY, "proc/1/comm": "sleep"}, "unnamed"),
        (
            {"proc/self/mountinfo": OVERLAY, "proc/1/comm": "systemd"},
            None,
        ),  # a live system
        (
            {
                "proc/self/mountinfo": "30 1 8:1 / / rw - ext4 /dev/sda1 rw",
                "proc/1/comm": "sleep",
            },
            None,
        ),
        (
            {".dockerenv": "", "proc/self/mountinfo": OVERLAY, "proc/1/comm": "sh"},
            "docker",
        ),
        ({"run/.containerenv": ""}, "podman"),
    ],
)
def test_a_container_in_its_own_cgroup_namespace_is_noticed(facts, files, container):
    tree = trees.Tree(2)
    tree.files |= {"proc/self/cgroup": "0::/", **files}
    assert facts(tree).container == container


def test_what_firmware_leaves_unfilled_is_no_board(facts):
    tree = trees.Tree(1)
    dmi = "sys/class/dmi/id"
    tree.files |= {
        f"{dmi}/board_vendor": "To be filled by O.E.M.",
        f"{dmi}/board_name": "Default string",
        f"{dmi}/sys_vendor": "Gigabyte",
        f"{dmi}/product_name": "To Be Filled By O.E.M.",
        f"{dmi}/bios_vendor": "AMI",
        f"{dmi}/bios_version": "F2",
    }
    result = facts(tree)
    assert result.board == "Gigabyte"
    assert result.firmware == "AMI F2"


@pytest.mark.parametrize("version", ["0xffffffff", "0x1", "0x1000065"])
def test_a_microcode_version_that_the_hypervisor_makes_up_is_unknown(facts, version):
    tree = trees.Tree(1)
    tree.files["proc/cpuinfo"] = (
        f"processor\t: 0\nmicrocode\t: {version}\nflags\t\t: fpu hypervisor"
    )
    assert facts(tree).microcode is None


@pytest.mark.parametrize(
    ("switches", "boost"), [("00", False), ("01", True), ("11", True), ("", None)]
)
def test_boost_that_each_policy_has_a_switch_for(facts, switches, boost):
    tree = trees.Tree(2)
    for cpu in range(2):
        policy = f"{trees.CPU}/cpufreq/policy{cpu}"
        tree.files |= {
            f"{policy}/affected_cpus": str(cpu),
            f"{policy}/scaling_driver": "amd-pstate-epp",
        }
        tree.files |= {f"{policy}/boost": switches[cpu]} if switches else {}
    assert facts(tree).boost is boost


def test_a_host_that_hides_its_topology_says_unknown_and_not_zero(facts):
    result = facts(trees.hidden_topology())
    assert len(result.cpus) == 4
    assert {
        (cpu.core, cpu.cluster, cpu.llc, cpu.die, cpu.package, cpu.node)
        for cpu in result.cpus
    } == {(None,) * 6}
    assert "The host does not tell which CPUs share a core." in result.notes
    assert (
        result.boost,
        result.smt,
        result.governor,
        result.board,
        result.clock_source,
    ) == (None,) * 5
    assert (
        result.idle_state,
        result.idle_exit_us,
        result.irqbalance,
        result.rt_runtime_us,
    ) == (None,) * 4


@pytest.mark.parametrize(
    ("cpus", "texts"),
    [
        ((0,), ["0"]),
        ((0, 1, 2, 5), ["0-2,5"]),
        ((0, 1, 288, 289), ["0-1,288-289\n"]),
        ((), ["", "(null)", "x", "0-", "-1", "0,,1", "0-99999", "0 1", "²"]),
    ],
)
def test_kernel_cpu_lists_unfold_and_other_text_names_no_cpu(cpus, texts):
    assert [parse_cpu_list(text) for text in texts] == [cpus] * len(texts)


@given(st.sets(st.integers(0, 2000)))
def test_writing_and_reading_a_cpu_list_gives_the_same_cpus(cpus):
    assert parse_cpu_list(format_cpus(cpus)) == tuple(sorted(cpus))


def test_cache_sizes_have_units():
    assert [parse_size(text) for text in ("48K", "32M", "512", "-", "")] == [
        49152,
        32 << 20,
        512,
        None,
        None,
    ]


def read_hybrid(facts, **units):
    """Read a machine with these units of performance counters, each with its CPUs."""
    tree = trees.Tree(16)
    for unit, cpus in units.items():
        tree.files[f"sys/devices/cpu_{unit}/cpus"] = cpus
    return facts(tree)


def test_cores_are_of_the_kind_of_their_counters(facts):
    """Arrow Lake-H: a third unit since intel-lpmd 97."""
    result = read_hybrid(facts, core="0-5", atom="6-13", lowpower="14-15")
    assert {cpu.kind for cpu in result.cpus[14:]} == {"low-power efficiency"}
    kinds = "".join(result.core_kinds[cpu] for cpu in range(16))
    assert kinds == "P" * 6 + "E" * 8 + "LP" * 2
    host = Host("lucca", "192.0.2.1")
    for kind, cpus in (("E", range(6, 14)), ("LP", range(14, 16))):
        options = parse_requested({"cpus": kind})
        plan = merge_plan_with_facts(host, options, result)
        assert plan.cpus == tuple(cpus)
    (finding,) = [item for item in find_noise(result) if item.kind == "hybrid"]
    assert "low-power efficiency" in finding.found


def test_a_unit_without_a_name_here_is_a_kind(facts):
    result = read_hybrid(facts, core="0-7", tiny="8-15")
    assert result.cpus[8].kind == "tiny"
    topology = Topology(result.cpus, result.core_kinds)
    assert topology.name_relation(0, 8).endswith(" P-other")


def test_cores_of_a_clone_of_util_linux_are_added():
    source = """
static const struct id_part arm_part[] = {
    { 0xd0b, "Cortex-A76X" },\t/* of another name */
    { 0xd99, "Cortex-Z9", FL_FOLLOW_BIOS, "Z" },
    { -1, "unknown" },
};
static const struct id_part unknown_part[] = {
    { -1, "unknown" },
};
static const struct hw_impl hw_implementer[] = {
    { 0x41, arm_part,     "ARM" },
    { 0x4d, unknown_part, "Motorola/Freescale" },
    { -1,   unknown_part, "unknown" },
};
"""
    cores = read_cores(source)
    assert cores == {"0x41": {"0xd0b": "Cortex-A76X", "0xd99": "Cortex-Z9"}}
    added = add_cores(
        {"0x51": {"0x1": "Oryon"}, "0x41": {"0xd0b": "Cortex-A76"}}, cores
    )
    assert added == {
        "0x41": {"0xd0b": "Cortex-A76", "0xd99": "Cortex-Z9"},
        "0x51": {"0x1": "Oryon"},
    }


@pytest.mark.parametrize(
    ("implementer", "part", "name"),
    [
        ("0x41", "0xd0b", "Cortex-A76"),
        ("0x41", "0xd83", "Neoverse-V3AE"),
        ("0x41", "0xd8c", "C1-Ultra"),
        ("0x51", "0x002", "Oryon 3"),
        ("0x61", "0x022", "Apple M1 Icestorm"),
        ("0x6d", "0xd49", "Azure-Cobalt-100"),
    ],
)
def test_arm_cores_have_names(implementer, part, name):
    assert arm_core_name(implementer, part) == name


def test_unknown_arm_cores_have_numbers():
    assert arm_core_name("0x41", "0xfff") == "Arm implementer 0x41 part 0xfff"
    assert arm_core_name("", "x") is None


_ODD_LINES = [
    "cache 1 Data 32K 64 0-x",
    "cache x y z 1 2",
    "cache ² Data - - 0",
    "policy a b c d",
    "policy a b ² ²",
    "capacity 0 -",
    "capacity ² ²",
    "core_cpus 3-1",
    "proc/stat:cpu 1 2",
    "proc/loadavg:",
    "proc/uptime:",
    "sys/class/x:1e9",
    "sys/devices/system/cpu/online:9-1",
    "sys/devices/system/node/node1/cpulist:0-70000",
    "sys/x/cpuidle/state²/name:C1",
    "sys/x/cpuidle/state0/latency:-1",
    "sys/x/cpuidle/state1/disable:",
    "quota max 100000",
    "quota 1 0",
    "quota ² 1 /",
    "quota 0 1 /",
    "throttled ² core 1",
    "throttled 999999999999999999 core 999999999999999999",
    "irqbalance",
    "processor : ²",
    "CPU part\t: 0xq",
]
_LINES = st.lists(
    st.one_of(st.text(max_size=30), st.sampled_from(_ODD_LINES)), max_size=12
)


@given(
    st.fixed_dictionaries(
        dict.fromkeys(
            ("files", "load", "cpuinfo", "cpus", "topology", "noise", "compilers"),
            _LINES,
        )
    )
)
def test_whatever_a_host_prints_gives_facts_and_no_accident(sections):
    result = linux.parse({**sections, "system": ["uname_m x86_64"]})
    assert result.arch == "x86_64"


def test_the_deepest_idle_state_is_the_deepest_that_some_cpu_may_enter():
    states = "sys/devices/system/cpu/cpu0/cpuidle/state"
    parts = ("0/name:POLL", "2/name:C6", "2/latency:133", "2/disable:1")
    lines = [states + part for part in parts]
    assert linux.find_deepest_idle_state(lines) == ("POLL", None)
    assert linux.find_deepest_idle_state([*lines, f"{states}2/disable:0"]) == (
        "C6",
        133,
    )


def test_irqbalance_that_is_not_seen_in_a_container_may_still_run():
    assert linux.parse_irqbalance(["irqbalance 0"], None) is False
    assert linux.parse_irqbalance(["irqbalance 0"], "docker") is None
    assert linux.parse_irqbalance([], None) is None


def test_stolen_time_is_the_eighth_number_of_the_cpu_line():
    load = linux.parse_load({"load": ["proc/stat:cpu  1 2 3 4 5 6 7 8 9 10"]})
    assert load.steal_ticks == 8


def test_the_programs_of_a_second_are_those_that_used_its_cpus() -> None:
    process = "proc/{}/stat:{} ({}) R " + "1 " * 10 + "{} 3 " + "0 " * 23 + "1 0"
    before = [
        "proc/stat:cpu  10 0 5 500 1 0 0 7 0 0",
        process.format(7, 7, "a) (b", 40),
    ]
    after = [
        "proc/stat:cpu  140 0 10 560 6 0 0 12 0 0",
        process.format(7, 7, "a) (b", 138),
        "proc/8/stat:8 (x",
    ]
    usage = linux.parse_usage({"before": before, "after": after}, online=2)
    assert usage is not None
    assert usage.busy_cpus == pytest.approx(135 / 102.5)
    assert usage.steal_ticks == 5
    (program,) = usage.programs
    assert program.name == "a) (b"
    assert program.cpu == 1
    assert program.share == pytest.approx(98 / 102.5)
    assert linux.parse_usage({"before": before, "after": before}, online=2) is None

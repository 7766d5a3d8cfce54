"""What machines' files say, as facts: trees made up but faithful, read by the real probe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.agent.wire.forecast import machine_lines
from fleet.facts import linux, probe, settings
from fleet.facts.topology import core_name, parse_cpu_list, parse_size
from fleet.model import Facts, Node
from fleet.plan.cpulist import cpus_text
from tests.facts import trees
from tests.facts.shells import ask


@pytest.fixture
def facts(tmp_path):
    """Facts of a made-up machine; `uname -m` as given, since the shell runs here."""

    def read(tree: trees.Tree, machine: str = "x86_64") -> Facts:
        sections = probe.sections(
            ask(["/bin/sh"], tmp_path / "home", root=str(tree.write(tmp_path / "root")))
        )
        system = [line for line in sections["system"] if not line.startswith("uname_m")]
        sections["system"] = [*system, f"uname_m {machine}"]
        return linux.parse(sections)

    return read


def test_a_hybrid_laptop(facts):
    found = facts(trees.hybrid_laptop())
    by_kind = {
        kind: [cpu.cpu for cpu in found.cpus if cpu.kind == kind] for kind in ("performance", "efficiency")
    }
    assert by_kind == {"performance": list(range(16)), "efficiency": list(range(16, 32))}
    assert [found.cpus[cpu].core for cpu in (0, 1, 15, 16, 31)] == [0, 0, 14, 16, 31]
    assert [found.cpus[cpu].cluster for cpu in (1, 16, 19, 20, 31)] == [0, 16, 16, 20, 28]
    assert {cpu.llc for cpu in found.cpus} == {0}
    assert [cache.size_bytes for cache in found.cpus[17].caches] == [
        32 << 10,
        64 << 10,
        4096 << 10,
        36864 << 10,
    ]
    assert (found.cpus[3].max_khz, found.cpus[20].max_khz) == (5_600_000, 4_000_000)
    assert (found.governor, found.frequency_driver, found.boost, found.smt) == (
        "powersave",
        "intel_pstate",
        True,
        True,
    )
    assert found.load.temperature_c == 61.0
    assert found.microcode == "0x12b"
    assert (found.board, found.firmware) == ("ASUSTeK G834JY", "AMI G834JY.331")
    assert found.firmware_date == "11/05/2024"
    assert found.hypervisor is None
    assert found.distribution == "Ubuntu 24.04.1 LTS"
    assert found.nohz_full_cpus == ()
    assert (found.idle_state, found.idle_exit_us) == ("C10", 310)  # its efficiency cores take longest
    assert (found.irqbalance, found.cpu_quota, found.core_throttles) == (None, None, None)
    assert found.notes == ()


def test_a_two_socket_server_with_cpus_switched_off(facts):
    found = facts(trees.numa_server())
    assert [cpu.cpu for cpu in found.cpus if not cpu.online] == [5, 21]
    assert not found.cpus[5].allowed
    assert found.cpus[5].core is None
    assert [found.cpus[cpu].node for cpu in (0, 4, 20, 8, 12, 31)] == [0, 1, 1, 2, 3, 3]
    assert [found.cpus[cpu].package for cpu in (7, 23, 8, 31)] == [0, 0, 8, 8]
    assert [found.cpus[cpu].llc for cpu in (4, 6, 22)] == [4, 4, 4]
    assert found.isolated_cpus == found.nohz_full_cpus == (14, 15)
    assert (found.boost, found.numa_balancing, found.huge_pages) == (False, True, "always")
    assert found.clock_source == "hpet"
    assert (found.idle_driver, found.idle_state, found.idle_exit_us) == ("intel_idle", "C1E", 10)
    assert (found.core_throttles, found.package_throttles) == (7, 0)
    assert (found.irqbalance, found.cpu_quota, found.rt_runtime_us) == (True, 2.5, 950_000)
    assert "2 of 32 CPUs are offline: 5,21." in found.notes


@pytest.mark.parametrize(
    ("group", "schemata", "vendor", "expected"),
    [
        (None, "    MB:0=50", "GenuineIntel", None),  # the root group's need not be ours
        ("res:", None, "GenuineIntel", "not mounted"),
        ("res:/", None, "GenuineIntel", None),  # mounted, but not in our container
        ("res:/", "    L3:0=ffff;1=ffff", "GenuineIntel", "no limit"),
        ("res:/", "    MB:0=100;1=100\n    L3:0=7ff;1=7ff", "GenuineIntel", "no limit"),
        ("res:batch", "    L3:0=7ff;1=7ff\n    MB:0=100;1= 50", "GenuineIntel", "MB:1=50"),
        ("res:batch", "    MB:0=4096;1=4294967295", "GenuineIntel", "MB:0=4096"),
        ("res:batch", "  SMBA:0=  64;1=2048\n    MB:0=2048;1=4096", "AuthenticAMD", "SMBA:0=64"),
        ("res:batch", "    MB:0= 100;1=  16", "AuthenticAMD", "MB:0=100;1=16"),
    ],
)
def test_a_limit_of_memory_bandwidth_is_that_of_our_group(facts, group, schemata, vendor, expected):
    tree = trees.Tree(2)
    tree.files["proc/cpuinfo"] = f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: fpu\n"
    tree.files["sys/fs/resctrl/other/schemata"] = "    MB:0=10"
    if group is not None:
        tree.files["proc/self/cpu_resctrl_groups"] = f"{group}\nmon:"
    if schemata is not None:
        tree.files[f"sys/fs/resctrl/{(group or '').removeprefix('res:')}/schemata"] = schemata
    assert facts(tree).resctrl == expected


def test_nodes_with_memory_also_without_cpus_or_where_we_may_not_have_any(facts):
    tree, node = trees.Tree(2), "sys/devices/system/node"
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
            f"Node {number} MemTotal:  16384 kB\nNode {number} MemFree:   {4096 * (number + 1)} kB"
        )
    found = facts(tree)
    assert found.nodes == (
        Node(0, True, 4 << 20, ((0, 10), (2, 14), (3, 24))),
        Node(2, True, 12 << 20, ((0, 14), (2, 10), (3, 24))),
        Node(3, False, 16 << 20, ((0, 24), (2, 24), (3, 10))),
    )
    assert [line for line in machine_lines(found).splitlines() if line.startswith("node")] == [
        "node 0 4194304 1",
        "node 2 12582912 1",
        "node 3 16777216 -",
    ]
    assert [cpu.node for cpu in found.cpus] == [0, 0]
    tree.files.pop(f"{node}/has_memory")
    tree.files.pop("proc/self/status")
    assert [one.node for one in facts(tree).nodes if one.allowed] == [0, 2, 3]  # as an older fleet asked


def test_a_big_little_board(facts):
    found = facts(trees.big_little_board(), "aarch64")
    assert found.arch == "aarch64"
    assert found.cpu_model == "4x Cortex-A55 + 4x Cortex-A76"
    assert [cpu.model for cpu in found.cpus] == ["Cortex-A55"] * 4 + ["Cortex-A76"] * 4
    assert [cpu.capacity for cpu in found.cpus] == [414] * 4 + [1024] * 4
    assert [cpu.cluster for cpu in found.cpus] == [0, 0, 0, 0, 4, 4, 6, 6]
    assert found.board == "Radxa ROCK 5B"
    assert found.governor == "performance, ondemand"
    assert found.cpu_stepping == "r2p0"
    assert "atomics" in found.cpu_flags
    assert found.hypervisor is None
    assert found.smt is None


def test_groups_by_the_names_old_kernels_gave_them(facts):
    tree = trees.Tree(4)
    tree.share("thread_siblings", [(0, 2), (1, 3)])
    tree.share("core_siblings", [range(4)])
    assert [(cpu.core, cpu.package) for cpu in facts(tree).cpus] == [(0, 0), (1, 0), (0, 0), (1, 0)]


def test_a_container_with_a_cpuset(facts):
    found = facts(trees.container_with_a_cpuset())
    assert [cpu.cpu for cpu in found.cpus if cpu.allowed] == [2, 3, 10]
    assert all(cpu.online for cpu in found.cpus)
    assert (found.container, found.hypervisor) == ("kubepods", "qemu")
    assert found.cpu_quota == 1.5  # its own group is the root of what it sees
    assert found.irqbalance is None  # the machine's own processes are hidden
    assert "We may not use 13 of 16 CPUs (affinity or cpuset): 0-1,4-9,11-15." in found.notes


def test_a_host_that_hides_its_topology_says_unknown_and_not_zero(facts):
    found = facts(trees.hidden_topology())
    assert len(found.cpus) == 4
    assert {(cpu.core, cpu.cluster, cpu.llc, cpu.die, cpu.package, cpu.node) for cpu in found.cpus} == {
        (None,) * 6
    }
    assert "The host does not tell which CPUs share a core." in found.notes
    assert (found.boost, found.smt, found.governor, found.board, found.clock_source) == (None,) * 5
    assert (found.idle_state, found.idle_exit_us, found.irqbalance, found.rt_runtime_us) == (None,) * 4


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", ()), ("(null)", ()), ("0", (0,)), ("0-2,5", (0, 1, 2, 5)), ("0-1,288-289\n", (0, 1, 288, 289))],
)
def test_kernel_cpu_lists_unfold(text, cpus):
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["x", "0-", "-1", "0,,1", "0-99999", "0 1", "²"])
def test_what_is_no_cpu_list_is_refused(text):
    with pytest.raises(ValueError, match="CPU"):
        parse_cpu_list(text)


@given(st.sets(st.integers(0, 2000)))
def test_writing_and_reading_a_cpu_list_gives_the_same_cpus(cpus):
    assert parse_cpu_list(cpus_text(cpus)) == tuple(sorted(cpus))


def test_cache_sizes_have_units():
    assert [parse_size(text) for text in ("48K", "32M", "512", "-", "")] == [49152, 32 << 20, 512, None, None]


def test_arm_cores_have_names_and_unknown_ones_numbers():
    assert core_name("0x41", "0xd0b") == "Cortex-A76"
    assert core_name("0x41", "0xfff") == "Arm implementer 0x41 part 0xfff"
    assert core_name("", "x") is None


@pytest.mark.parametrize(
    ("vendor", "product", "flags", "name"),
    [
        ("QEMU", "Standard PC", "hypervisor", "qemu"),
        ("VMware, Inc.", "VMware7,1", "hypervisor", "vmware"),
        ("Microsoft Corporation", "Virtual Machine", "hypervisor", "hyper-v"),
        ("Microsoft Corporation", "Surface", "fpu", None),
        ("Amazon EC2", "m5.metal", "fpu", None),
        ("", "", "hypervisor", "unnamed"),
    ],
)
def test_the_cpu_tells_whether_and_the_firmware_which_hypervisor(vendor, product, flags, name):
    files = {"sys/class/dmi/id/sys_vendor": vendor, "sys/class/dmi/id/product_name": product}
    assert linux.parse_hypervisor(files, {"flags": flags}, {}) == name


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
    "proc/stat:procs_running ",
    "proc/loadavg:",
    "proc/uptime:",
    "sys/class/x:1e9",
    "sys/devices/system/cpu/online:9-1",
    "sys/devices/system/node/node1/cpulist:0-70000",
    "idle ² name C1",
    "idle 0 latency -1",
    "idle 1 disable",
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
_LINES = st.lists(st.one_of(st.text(max_size=30), st.sampled_from(_ODD_LINES)), max_size=12)


@given(
    st.fixed_dictionaries(
        dict.fromkeys(("files", "load", "cpuinfo", "cpus", "topology", "noise", "compilers"), _LINES)
    )
)
def test_whatever_a_host_prints_gives_facts_and_no_accident(sections):
    found = linux.parse({**sections, "system": ["uname_m x86_64"]})
    assert found.arch == "x86_64"


def test_the_tightest_quota_of_a_group_and_its_parents_counts():
    lines = ["quota max 100000 /job/step", "quota 400000 100000 /", "quota 150000 100000 /job"]
    assert settings.parse_cpu_quota(lines) == (1.5, "control group /job, 1.5 CPUs")
    assert settings.parse_cpu_quota(["quota max 100000 /a", "quota -1 100000 /"]) is None


def test_the_deepest_idle_state_is_the_deepest_that_some_cpu_may_enter():
    lines = ["idle 0 name POLL", "idle 2 name C6", "idle 2 latency 133", "idle 2 disable 1"]
    assert settings.parse_idle_state(lines) == ("POLL", None)
    assert settings.parse_idle_state([*lines, "idle 2 disable 0"]) == ("C6", 133)


def test_irqbalance_that_is_not_seen_in_a_container_may_still_run():
    assert settings.parse_irqbalance(["irqbalance 0"], None) is False
    assert settings.parse_irqbalance(["irqbalance 0"], "docker") is None
    assert settings.parse_irqbalance([], None) is None


def test_stolen_time_is_the_eighth_number_of_the_cpu_line():
    load = linux.parse_load({"load": ["proc/stat:cpu  1 2 3 4 5 6 7 8 9 10"]})
    assert load.steal_ticks == 8

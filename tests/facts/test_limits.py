"""What limits leave of memory: the probe and the agent read the same numbers, and say
the same words.
"""

import json
import os
import re
from pathlib import Path

import pytest

from fleet.facts import linux, probe
from fleet.model import Facts
from tests.facts import trees
from tests.facts.shells import ask
from tests.native.agent import run
from tests.native.preload import preload

MIB = 1 << 20
V1 = "35 31 0:32 {} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
CPU = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu"
V2 = "41 31 0:38 {} /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate"
UNIFIED = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw"
NONE_V1 = 9223372036854771712


def v1(limit: int, used: int = 0, back: int = 0) -> dict[str, str]:
    return {
        "memory.limit_in_bytes": str(limit),
        "memory.usage_in_bytes": str(used),
        "memory.stat": f"inactive_file 77\ntotal_inactive_file {back}",
    }


def v2(
    limit: int | str, used: int = 0, back: int = 0, high: int | str = "max"
) -> dict[str, str]:
    stat = f"anon 4096\ninactive_anon 77\ninactive_file {back}"
    used_files = {"memory.current": str(used), "memory.stat": stat}
    return {"memory.max": str(limit), "memory.high": str(high), **used_files}


SLURM = {
    "memory": v1(NONE_V1, 9 * MIB),
    "memory/slurm/job_3": v1(160 * MIB, 10 * MIB, 2 * MIB),
    "memory/slurm/job_3/step_0": v1(160 * MIB, 9 * MIB),
    "memory/slurm/job_3/step_0/task_0": v1(NONE_V1, 8 * MIB),
}
# cgroup, mountinfo, folders below /sys/fs/cgroup; left and whole in MiB, and the group
# that sets it.
LIMITS = {
    "v1, the leaf unlimited": (
        "4:memory:/slurm/job_3/step_0/task_0",
        V1.format("/"),
        SLURM,
        (151, 160, "/slurm/job_3/step_0"),
    ),
    "v1, no limit": (
        "4:memory:/a",
        V1.format("/"),
        {"memory/a": v1(NONE_V1, MIB)},
        None,
    ),
    "v1, a container that sees its own group": (
        "4:memory:/libpod_parent/libpod-c17\n3:cpu:/x",
        f"{CPU}\n{V1.format('/libpod_parent/libpod-c17')}",
        {"memory": v1(512 * MIB, 12 * MIB)},
        (500, 512, "/"),
    ),
    "v1, below the mount's root": (
        "4:memory:/pods/one/inner",
        V1.format("/pods/one"),
        {"memory": v1(512 * MIB), "memory/inner": v1(96 * MIB, 6 * MIB, 2 * MIB)},
        (92, 96, "/inner"),
    ),
    "hybrid: memory is of version 1": (
        "4:memory:/job\n0::/job",
        f"{V1.format('/')}\n{UNIFIED}",
        {"memory/job": v1(160 * MIB), "unified/job": {"cgroup.procs": "1"}},
        (160, 160, "/job"),
    ),
    "v2": (
        "0::/a/b",
        V2.format("/"),
        {"a": v2("max"), "a/b": v2(160 * MIB, 60 * MIB, 30 * MIB)},
        (130, 160, "/a/b"),
    ),
    "v2, a smaller parent": (
        "0::/a/b",
        V2.format("/"),
        {"a": v2(96 * MIB, 16 * MIB), "a/b": v2(160 * MIB)},
        (80, 96, "/a"),
    ),
    "v2, high below max": (
        "0::/a",
        V2.format("/"),
        {"a": v2(512 * MIB, high=160 * MIB)},
        (160, 160, "/a"),
    ),
    "v2, max below high": (
        "0::/a",
        V2.format("/"),
        {"a": v2(96 * MIB, high=160 * MIB)},
        (96, 96, "/a"),
    ),
    "v2, a namespace": (
        "0::/",
        V2.format("/"),
        {"": v2(160 * MIB, 60 * MIB)},
        (100, 160, "/"),
    ),
    "v2, a group outside of the namespace": (
        "0::/../../other",
        V2.format("/"),
        {"": v2(256 * MIB)},
        (256, 256, "/"),
    ),
    "v2, more used than allowed": (
        "0::/a",
        V2.format("/"),
        {"a": v2(96 * MIB, 120 * MIB)},
        (0, 96, "/a"),
    ),
    "v2, nothing but the limit can be read": (
        "0::/a",
        V2.format("/"),
        {"a": {"memory.max": str(96 * MIB)}},
        (96, 96, "/a"),
    ),
    "v2, no limit": ("0::/a", V2.format("/"), {"a": v2("max", MIB)}, None),
    "no group at all": ("", "22 1 8:1 / / rw - ext4 /dev/root rw", {}, None),
}


V1_TIME = {"cpu.cfs_period_us": "50000"}
FREE = {"cpu.cfs_quota_us": "-1", **V1_TIME}
TIMES = {
    "v1, the leaf free": (
        "1:cpu,cpuacct:/job/step",
        CPU,
        {
            "cpu": FREE,
            "cpu/job": {"cpu.cfs_quota_us": "5000", **V1_TIME},
            "cpu/job/step": FREE,
        },
        (0.1, "/job"),
    ),
    "v1, free": ("1:cpu:/job", CPU, {"cpu": FREE, "cpu/job": FREE}, None),
    "v2, a smaller parent": (
        "0::/a/b",
        V2.format("/"),
        {"a": {"cpu.max": "150000 100000"}, "a/b": {"cpu.max": "400000 100000"}},
        (1.5, "/a"),
    ),
    "v2, a container": (
        "0::/pods/x",
        V2.format("/pods/x"),
        {"": {"cpu.max": "1000 3000"}},
        (1 / 3, "/"),
    ),
    "v2, free": ("0::/a", V2.format("/"), {"a": {"cpu.max": "max 100000"}}, None),
    "hybrid": (
        "1:cpu:/job\n0::/job",
        f"{CPU}\n{UNIFIED}",
        {
            "cpu/job": {"cpu.cfs_quota_us": "25000", **V1_TIME},
            "unified/job": {"cgroup.procs": "1"},
        },
        (0.5, "/job"),
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_probe_and_agent_read_the_same_cpu_time(tmp_path: Path, name: str) -> None:
    cgroup, mounts, folders, expected = TIMES[name]
    root, result = look(tmp_path, cgroup, mounts, folders)
    machine = json.loads(
        run("--machine", env=preload("groups.c") | {"TREE": root}).stdout.splitlines()[
            0
        ]
    )
    words = f"control group {expected[1]}, {expected[0]:g} CPUs" if expected else None
    assert result.cpu_quota == (expected[0] if expected else None)
    assert result.cpu_limit == words
    assert machine["cpu_limit"] == words


def look(
    folder: Path, cgroup: str, mounts: str, folders: dict[str, dict[str, str]]
) -> tuple[str, Facts]:
    """A root of such control groups, and what the probe finds there."""
    tree = trees.Tree(2)
    tree.files |= {
        "proc/self/cgroup": cgroup,
        "proc/self/mountinfo": mounts,
        "proc/meminfo": "MemTotal: 9999999999 kB\nMemAvailable: 9999999999 kB",
    }
    for group, files in folders.items():
        tree.files |= {
            f"sys/fs/cgroup/{group}/{file}".replace("//", "/"): text
            for file, text in files.items()
        }
    root = str(tree.write(folder / "root"))
    return root, linux.parse(
        probe.split_sections(ask(["/bin/sh"], folder / "home", root=root))
    )


@pytest.mark.parametrize("name", LIMITS)
def test_probe_and_agent_read_the_same(tmp_path: Path, name: str) -> None:
    cgroup, mounts, folders, expected = LIMITS[name]
    root, result = look(tmp_path, cgroup, mounts, folders)
    refusal = run(
        "-b", "chase", "--sizes", "512G", env=preload("groups.c") | {"TREE": root}
    ).stderr
    match = re.search(
        r"half of the ([0-9]+) MiB available(?: \((.*?)\))? may be taken", refusal
    )
    assert match, refusal
    if expected is None:
        assert result.memory_available_bytes == 9999999999 << 10
        assert result.memory_limit is None
        assert match[2] is None
    else:
        left, limit, group = expected
        words = f"control group {group}, {limit} MiB"
        assert result.memory_available_bytes == left * MIB
        assert result.memory_limit == words
        assert int(match[1]) == left
        assert match[2] == words


@pytest.mark.parametrize("option", ["-v", "-d"])
def test_the_agent_keeps_to_a_limit_of_the_shell_too(option: str) -> None:
    words = f'ulimit {option} 300000; exec "$@"'
    done = run("-b", "chase", "--sizes", "512G", prefix=("sh", "-c", words, "-"))
    assert f"(ulimit {option}, 293 MiB)" in done.stderr


@pytest.mark.parametrize(
    ("cgroup", "mount", "file", "limit", "asks"),
    [
        ("0::/a", V2.format("/"), "a/hugetlb.2MB.max", "2097152", False),
        ("0::/a", V2.format("/"), "a/hugetlb.2MB.max", "max", True),
        (
            "7:hugetlb:/",
            V1.replace("memory", "hugetlb").format("/"),
            "hugetlb/hugetlb.1GB.limit_in_bytes",
            "0",
            False,
        ),
        (
            "7:hugetlb:/",
            V1.replace("memory", "hugetlb").format("/"),
            "hugetlb/hugetlb.64KB.limit_in_bytes",
            str(2**63 - 4096),
            True,
        ),
    ],
)
def test_the_pool_is_left_alone_where_a_group_limits_its_pages(
    tmp_path: Path, cgroup: str, mount: str, file: str, limit: str, asks: bool
) -> None:
    root, _ = look(tmp_path, cgroup, mount, {"": {file: limit}})
    done = run(
        "-b",
        "chase",
        "--sizes",
        "16K",
        "--rounds",
        "1",
        env=preload("groups.c") | {"TREE": root},
    )
    assert ("asks the pool" in done.stderr) is asks


def test_the_limits_of_a_shell_are_facts(tmp_path: Path) -> None:
    tree = trees.Tree(2)
    tree.files["proc/meminfo"] = "MemTotal: 9999999999 kB\nMemAvailable: 9999999999 kB"
    tree.files["proc/self/limits"] = (
        "Limit                     Soft Limit           Hard Limit           Units    "
        " \nMax processes             40                   96365               "
        " processes \nMax data size             500000000            unlimited         "
        "   bytes     \nMax address space         307200000            unlimited       "
        "     bytes     \nMax realtime priority     0                    0             "
        "       "
    )
    root = str(tree.write(tmp_path / "root"))
    result = linux.parse(
        probe.split_sections(ask(["/bin/sh"], tmp_path / "home", root=root))
    )
    assert result.memory_available_bytes == 307200000
    assert result.memory_limit == "ulimit -v, 293 MiB"
    assert result.processes_most == (None if os.getuid() == 0 else 40)
    assert result.priority_most == 0
    tree.files["proc/self/limits"] = tree.files["proc/self/limits"].replace(
        "307200000", "unlimited"
    )
    result = linux.parse(
        probe.split_sections(
            ask(["/bin/sh"], tmp_path / "home", root=str(tree.write(tmp_path / "2")))
        )
    )
    assert result.memory_limit == "ulimit -d, 477 MiB"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [(("max", "12"), 12), (("9", "12"), 9), (("max", "max"), None)],
)
def test_groups_limit_processes_too(
    tmp_path: Path, limits: tuple[str, str], expected: int | None
) -> None:
    folders = {
        f"pids/{name}": {"pids.max": limit}
        for name, limit in zip(("a", "a/b"), limits, strict=True)
    }
    _, result = look(
        tmp_path, "8:pids:/a/b", V1.replace("memory", "pids").format("/"), folders
    )
    assert result.processes_most == expected


@pytest.mark.parametrize(
    "line",
    ["memory", "memory x 1 1 /", "memory 1 x 1 /", "memory 1 1", "memory ² 1 1 /"],
)
def test_a_limit_that_is_none_is_left_out(line: str) -> None:
    assert linux.find_bytes_left_and_limit([line]) is None

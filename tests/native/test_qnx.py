"""The agent's QNX half, built with a stand-in of our own and run on Linux. It proves
our code, not QNX.
"""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fleet.agent.build.elf import read_elf
from fleet.agent.wire.machine import read_machine
from tests import needs
from tests.hosts.qnx import sdp
from tests.native import qnx
from tests.native.agent import (
    QUICK,
    SMALL_ONES,
    Record,
    bursts,
    decode,
    failures,
    measure,
    notes,
    run,
)
from tests.native.build import AGENT
from tests.native.preload import TROUBLE

slow = pytest.mark.slow
each_build = pytest.mark.parametrize(
    ("arch", "release"), list(itertools.product(qnx.VARIANTS, (7, 8)))
)
LINUX_ONLY = (
    *(
        "cpu_set_t",
        "sched_getcpu",
        "setaffinity_np",
        "gettid",
        "usleep",
        "endian.h",
        "MAP_HUGETLB",
    ),
    *(
        "CLOCK_MONOTONIC_RAW",
        "RUSAGE_THREAD",
        "MAP_ANONYMOUS",
        "_GNU_SOURCE",
        "_SC_LEVEL1_DCACHE_LINESIZE",
    ),
    *("sys/auxv.h", "sys/syscall.h", "<linux/", "/proc/", "/sys/"),
)


def records(
    arch: str, *args: str, release: int = 8, native: str = "", **env: str
) -> list[Record]:
    """Return the records of the stand-in's agent in a run that must go well."""
    return measure(
        *args, prefix=qnx.loader(arch), binary=qnx.agent(arch, release, native), env=env
    )


def machine(arch: str, **env: str) -> list[Record]:
    done = run("--machine", prefix=qnx.loader(arch), binary=qnx.agent(arch), env=env)
    assert done.returncode == 0, done.stderr
    return decode(done.stdout)


def test_no_file_for_qnx_nor_one_shared_with_it_uses_what_only_linux_has() -> None:
    shared = AGENT.rglob("*.[ch]")
    shared = [path for path in shared if not path.name.startswith("linux")]
    assert {"qnx.c", "qnx_cpu.h", "generic.c", "main.c"} <= {
        path.name for path in shared
    }
    for path, name in itertools.product(shared, LINUX_ONLY):
        assert name not in path.read_text(), f"{path.name}: {name}"


@slow
@each_build
def test_it_hands_over_and_counts_right_on_both_versions_and_architectures(
    arch: str, release: int
) -> None:
    needs.cpus(2)
    lines = records(arch, "-b", SMALL_ONES, "--variant", "all", *QUICK, release=release)
    assert {burst["benchmark"] for burst in bursts(lines)} == {
        "cas",
        "readwrite",
        "clock",
    }
    assert all(
        burst["iterations"] == 200 and min(burst["ticks"]) > 0
        for burst in bursts(lines)
    )
    assert not failures(lines)
    assert lines[-1]["reason"] == "done"


@slow
@each_build
def test_what_the_stand_in_measures_never_passes_for_qnx(
    arch: str, release: int
) -> None:
    done = run("--version", prefix=qnx.loader(arch), binary=qnx.agent(arch, release))
    assert f"qnx-standin-{arch}" in done.stdout
    elf = read_elf(qnx.agent(arch, release).read_bytes())
    assert elf.machine == arch
    assert elf.interpreter == "/usr/lib/ldqnx-64.so.2"
    with pytest.raises(FileNotFoundError):
        subprocess.run([qnx.agent("x86_64", release)], check=False)


@slow
@pytest.mark.parametrize("release", [7, 8])
@pytest.mark.parametrize("cpus", [33, 40, 64])
def test_more_cpus_than_one_mask_holds_are_all_reached_by_their_numbers(
    cpus: int, release: int
) -> None:
    needs.cpus(2)
    last = cpus - 1
    lines = records(
        "x86_64",
        "-b",
        "cas",
        "-c",
        f"0,31,{last}",
        "--rounds",
        "1",
        "-s",
        "1",
        "-i",
        "1",
        release=release,
        QNX_STANDIN_CPUS=str(cpus),
    )
    assert {burst["ping"] for burst in bursts(lines)} | {
        burst["pong"] for burst in bursts(lines)
    } == {
        0,
        31,
        last,
    }
    assert not failures(lines)


@slow
def test_seventy_cpus_are_reached_where_the_exact_size_is_the_rule() -> None:
    needs.cpus(2)
    lines = records(
        "x86_64",
        "-b",
        "cas",
        "-c",
        "1,68",
        "--rounds",
        "1",
        "-s",
        "1",
        "-i",
        "1",
        release=7,
        QNX_STANDIN_CPUS="70",
    )
    assert [(burst["ping"], burst["pong"]) for burst in bursts(lines)] == [(1, 68)]


@slow
def test_a_cpu_that_is_not_there_is_refused() -> None:
    done = run(
        "-c",
        "0,2",
        prefix=qnx.loader("x86_64"),
        binary=qnx.agent("x86_64"),
        env={"QNX_STANDIN_CPUS": "2"},
    )
    assert done.returncode == 4
    assert "CPU 2 cannot be used: this process may use 0-1" in done.stderr


@slow
@pytest.mark.parametrize("cpus", ["2", "40"])
def test_a_thread_that_did_not_arrive_where_it_was_sent_gives_no_number(
    cpus: str,
) -> None:
    needs.cpus(2)
    lines = records(
        "x86_64",
        "-b",
        "cas",
        "-c",
        "0-1",
        *QUICK,
        QNX_STANDIN_CPUS=cpus,
        QNX_STANDIN_STUCK="1",
    )
    assert bursts(lines) == []
    mask = "00000000 00000002" if cpus == "40" else "00000002"
    actual_cpu = "0" if cpus == "2" else "2"
    assert {failure["reason"] for failure in failures(lines)} == {
        f"pin ping to 1: found on CPU {actual_cpu}, its runmask {mask}",
        f"pin pong to 1: found on CPU {actual_cpu}, its runmask {mask}",
    }


@slow
def test_a_thread_that_arrives_a_little_late_is_waited_for() -> None:
    needs.cpus(2)
    lines = records(
        "x86_64", "-b", "cas", "-c", "0-1", *QUICK, QNX_STANDIN_LATE_MS="10"
    )
    assert len(bursts(lines)) == 2
    assert not failures(lines)
    never = {"QNX_STANDIN_LATE_MS": "500"}
    lost = run(
        *QUICK, prefix=qnx.loader("x86_64"), binary=qnx.agent("x86_64"), env=never
    )
    assert lost.returncode == 1
    assert "a thread was found on another CPU than it was bound to" in lost.stderr


@slow
@pytest.mark.parametrize("cpus", ["2", "40"])
def test_where_masks_are_not_told_every_cpu_is_used_and_the_thread_must_say_where_it_is(
    cpus: str,
) -> None:
    needs.cpus(2)
    untold = {"QNX_STANDIN_CPUS": cpus, "QNX_STANDIN_UNTOLD": "1"}
    lines = records("x86_64", "-b", "cas", "-c", "0-1", *QUICK, **untold)
    assert len(bursts(lines)) == 2
    lost = records(
        "x86_64", "-b", "cas", "-c", "0-1", *QUICK, **untold, QNX_STANDIN_STUCK="1"
    )
    assert len(failures(lost)) == 2


@slow
def test_a_process_that_on_has_confined_uses_only_its_cpus() -> None:
    needs.cpus(2)
    done = run(
        "--list",
        prefix=qnx.loader("x86_64"),
        binary=qnx.agent("x86_64"),
        env={"QNX_STANDIN_CPUS": "8", "QNX_STANDIN_MASK": "0x6a"},
    )
    assert done.stdout.splitlines()[0].split() == ["cpus", "1,3,5-6"]


@slow
def test_a_counter_of_54_mhz_makes_samples_of_many_round_trips() -> None:
    needs.cpus(2)
    lines = records(
        "x86_64",
        "-b",
        "cas",
        "--rounds",
        "1",
        "-s",
        "3",
        native=str(TROUBLE / "bare.c"),
        QNX_STANDIN_HZ="54000000",
    )
    hello = lines[0]
    assert hello["clock"] == "clockcycles"
    assert hello["ticks_per_second"] == 54_000_000
    for burst in bursts(lines):
        assert burst["iterations"] >= 100
        assert min(burst["ticks"]) >= 1000 * hello["clock_quantum_ticks"] / 2
    assert bursts(lines)


@slow
def test_what_qnx_does_not_tell_is_null_and_what_it_cannot_do_is_refused() -> None:
    needs.cpus(2)
    lines = records("x86_64", "-b", "cas", *QUICK)
    for burst in bursts(lines):
        assert burst["switches"] is None
        assert burst["ran_ppm"] is None
        assert burst["line_node"] is None
        assert burst["line_physical"] is None
    for refused in (
        ["--pages", "huge"],
        ["--node", "0"],
        ["--governor", "performance"],
    ):
        done = run(*refused, prefix=qnx.loader("x86_64"), binary=qnx.agent("x86_64"))
        assert done.returncode != 0
        assert done.stderr.startswith("fleet-agent: ")


@slow
def test_a_priority_is_reached_or_said_to_be_refused_never_cut_in_silence() -> None:
    needs.cpus(2)
    plan = ("-b", "cas", *QUICK, "--priority", "12")
    assert records("x86_64", *plan)[0]["priority"] == 12
    saturated = records("x86_64", *plan, QNX_STANDIN_PRIORITY="11")
    assert saturated[0]["priority"] is None
    assert any("Realtime priority 12 was refused" in text for text in notes(saturated))


@slow
def test_the_end_of_stdin_ends_it() -> None:
    needs.cpus(2)
    endless = ("-f", "jsonl", "--until-eof", "-s", "1000", "-i", "1000000000")
    agent = subprocess.Popen(
        [*qnx.loader("x86_64"), qnx.agent("x86_64"), *endless],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert agent.stdout
        assert agent.stdin
        assert '"hello"' in agent.stdout.readline()
        agent.stdin.close()
        assert '"reason":"stdin closed"' in agent.stdout.read().splitlines()[-1]
        assert agent.wait() == 6
    finally:
        agent.kill()
        agent.wait()


# ---- the machine
# ------------------------------------------------------------------------------------------


@slow
def test_the_elements_of_the_system_page_lie_further_apart_than_our_headers_know() -> (
    None
):
    first, *cpus = machine("aarch64", QNX_STANDIN_CPUS="6")
    assert first["record"] == "machine"
    assert first["os"] == "qnx-standin"
    assert first["arch"] == "aarch64"
    assert first["cpus"] == 6
    assert [cpu["cpu"] for cpu in cpus] == list(range(6))
    assert [cpu["mhz"] for cpu in cpus] == list(range(1000, 1006))
    assert {cpu["name"] for cpu in cpus} == {"Stand-in CPU"}
    assert [cpu["hardware_id"] & 0xFFFF for cpu in cpus] == [0, 1, 2, 3, 0x100, 0x101]
    caches = [
        (c["level"], c["kind"], c["bytes"], c["line_bytes"]) for c in cpus[5]["caches"]
    ]
    assert caches == [
        (1, "Data", 32768, 64),
        (2, "Unified", 1 << 20, 64),
        (1, "Instruction", 49152, 64),
    ]


# QNX 8.0.0 on a Jetson Orin Nano: github.com/ChHaEoN/qnx-linux-dual-vm-proxy,
# logs/sample-boot
ORIN = {
    "QNX_STANDIN_CPUS": "6",
    "QNX_STANDIN_HWIDS": "81000000 81000100 81000200 81000300 81010200 81010300",
    "QNX_STANDIN_HZ": str(0x1DCD650),
}


@slow
def test_the_system_page_of_a_real_board_is_read_as_it_is() -> None:
    done = run(
        "--machine", prefix=qnx.loader("aarch64"), binary=qnx.agent("aarch64"), env=ORIN
    )
    assert done.returncode == 0, done.stderr
    first, *cpus = decode(done.stdout)
    assert first["cpus"] == 6
    assert [cpu["hardware_id"] & 0xFFFFFFFF for cpu in cpus] == [
        int(text, 16) for text in ORIN["QNX_STANDIN_HWIDS"].split()
    ]
    for cpu in cpus:
        assert cpu["name"] == "Cortex-A78ae"
        assert cpu["mhz"] is None
        assert [
            (c["level"], c["kind"], c["bytes"], c["line_bytes"]) for c in cpu["caches"]
        ] == [
            (1, "Data", 64 << 10, 64),
            (1, "Instruction", 64 << 10, 64),
        ]
    page_cpus = read_machine(done.stdout.encode()).cpus
    assert [cpu.cluster for cpu in page_cpus] == [0, 0, 0, 0, 4, 4]
    assert [cpu.core for cpu in page_cpus] == [0, 1, 2, 3, 4, 5]
    assert {cpu.llc for cpu in page_cpus} == {None}


# As the Rust libc crate has them: src/unix/nto/neutrino.rs and, for 8.0, the same
# structures; the size of an element of cpuinfo as in the page above
# ("elsize:0x00000020"). The masks are as in public copies of <sys/neutrino.h>: a bit is
# an int.
SIGNATURES = {
    "ThreadCtl": "int(int, void *)",
    "SchedGetCpuNum": "unsigned(void)",
    "ClockCycles": "uint64_t(void)",
    "_syspage_ptr": "struct syspage_entry *",
}
QUOTED = {
    **{
        f"__builtin_types_compatible_p(__typeof__({name}), {type_})": 1
        for name, type_ in SIGNATURES.items()
    },
    "__builtin_types_compatible_p(__typeof__(1 << 1), __typeof__(STANDIN_BIT(1)))": 1,
    "sizeof(syspage_entry_info)": 4,
    "sizeof(syspage_array_info)": 6,
    "sizeof _syspage_ptr->cpuinfo": 6,
    "sizeof _syspage_ptr->qtime": 4,
    "_NTO_TCTL_RUNMASK": 4,
    "_NTO_TCTL_RUNMASK_GET_AND_SET": 6,
    "_NTO_TCTL_RUNMASK_GET_AND_SET_INHERIT": 10,
    "sizeof _syspage_ptr->num_cpu": 2,
    "sizeof(struct cpuinfo_entry)": 0x20,
    "offsetof(struct cpuinfo_entry, smp_hwcoreid)": 12,
    "offsetof(struct qtime_entry, cycles_per_sec)": 0,
    "sizeof ((struct qtime_entry *)0)->cycles_per_sec": 8,
    "AARCH64_CPU_FLAG_LSE": 0x8000,
    "RMSK_SIZE(6)": 1,
    "RMSK_SIZE(32)": 1,
    "RMSK_SIZE(33)": 2,
}


@pytest.mark.parametrize("name", QUOTED)
def test_the_stand_in_has_the_sizes_and_numbers_that_are_public(
    name: str, tmp_path: Path
) -> None:
    includes = (
        "#include <stddef.h>\n#include <sys/neutrino.h>\n#include <sys/syspage.h>\n"
    )
    (tmp_path / "t.c").write_text(
        f'{includes}_Static_assert(({name}) == {QUOTED[name]}, "");\n'
    )
    done = qnx.qcc(8, "-std=gnu11", "-fsyntax-only", str(tmp_path / "t.c"))
    assert done.returncode == 0, done.stderr


@slow
def test_on_x86_the_cpu_itself_tells_its_caches_and_who_shares_them() -> None:
    needs.cpus(2)
    _, *cpus = machine("x86_64")
    assert len({cpu["hardware_id"] for cpu in cpus}) == os.cpu_count()
    for cpu in cpus:
        here = Path(f"/sys/devices/system/cpu/cpu{cpu['cpu']}/cache")
        listed = {
            (int(read(index, "level")), read(index, "type"))
            for index in here.glob("index*")
        }
        assert listed <= {(cache["level"], cache["kind"]) for cache in cpu["caches"]}


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text().strip()


@slow
def test_on_linux_the_machine_is_what_its_files_tell() -> None:
    hello, *cpus = decode(run("--machine").stdout)
    assert hello["os"] == "linux"
    assert hello["cpus"] == len(cpus)
    for cpu in cpus:
        folder = Path(f"/sys/devices/system/cpu/cpu{cpu['cpu']}/cache")
        assert [cache["level"] for cache in cpu["caches"]] == [
            int(read(index, "level")) for index in sorted(folder.glob("index*"))
        ]


# ---- the stand-in itself
# ----------------------------------------------------------------------------------


@slow
@pytest.mark.parametrize(
    "line",
    [
        "#include <sched.h>\nvoid none(cpu_set_t *mask) { CPU_ZERO(mask); }",
        "#include <sched.h>\nint cpu(void) { return sched_getcpu(); }",
        "#include <unistd.h>\nint nap(void) { return usleep(1); }",
        "#include <sys/mman.h>\nint huge = MAP_HUGETLB;",
        "#include <sys/auxv.h>",
        "#include <linux/futex.h>",
        "#include <endian.h>",
        "#ifdef __linux__\n#error linux\n#endif",
    ],
)
def test_the_stand_in_takes_only_what_qnx_has_too(tmp_path: Path, line: str) -> None:
    (tmp_path / "only.c").write_text(f"{line}\nint nothing;\n")
    done = qnx.qcc(8, "-std=gnu11", "-D_QNX_SOURCE", "-c", "only.c", cwd=tmp_path)
    assert (done.returncode == 0) == ("__linux__" in line), done.stderr


@slow
def test_its_qcc_lists_its_targets_and_refuses_what_the_real_one_refuses(
    tmp_path: Path,
) -> None:
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }\n")
    assert "8.3.0,gcc_ntoaarch64le" in qnx.qcc(7, "-V").stdout
    assert "12.2.0,gcc_ntox86_64\t(default)" in qnx.qcc(8, "-V").stdout
    for refused in ("-Vgcc_ntoarmv7le", "-V8.3.0,gcc_ntox86_64", "-lpthread", "-lrt"):
        assert qnx.qcc(8, refused, "empty.c", cwd=tmp_path).returncode != 0
    unlicensed = qnx.qcc(8, "empty.c", cwd=tmp_path, QNX_STANDIN_NO_LICENSE="1")
    assert unlicensed.returncode != 0
    assert "license" in unlicensed.stderr


@slow
@pytest.mark.parametrize("arch", list(qnx.VARIANTS))
def test_a_second_compiler_told_that_it_is_for_qnx_takes_every_file(arch: str) -> None:
    clang = needs.program("clang", "clang")
    system = "/usr/include" if arch == "x86_64" else "/usr/aarch64-linux-gnu/include"
    if arch == "aarch64":
        needs.file(f"{system}/stdio.h", "libc6-dev-arm64-cross")
    headers = [
        str(qnx.platform(8) / "target/qnx/usr/include"),
        system,
        "/usr/include/x86_64-linux-gnu",
    ]
    done = subprocess.run(
        [
            clang,
            f"--target={arch}-unknown-nto-qnx",
            *("-fsyntax-only", "-I.", "-std=gnu11", "-Wall", "-Wextra", "-Werror"),
            *("-D_QNX_SOURCE", "-D__QNXNTO__", "-D_POSIX_C_SOURCE=200809L"),
            *(f"-isystem{path}" for path in headers),
            *qnx.units(arch),
        ],
        cwd=AGENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_shellcheck_finds_nothing_in_the_stand_ins_qcc() -> None:
    shellcheck = needs.program("shellcheck", "shellcheck")
    assert shutil.which(shellcheck)
    done = subprocess.run(
        [shellcheck, sdp.HERE / "qcc"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@slow
def test_make_builds_the_same_agent(tmp_path: Path) -> None:
    home = qnx.platform(8)
    binary = tmp_path / "fleet-agent"
    options = (f"CC={home / sdp.QCC}", f"OUT={binary}", "STRICT=1", "BUILD_ID=made")
    done = subprocess.run(
        [needs.program("make", "make"), "-C", AGENT, "TARGET=qnx-x86_64", *options],
        env={**os.environ, **sdp.environment(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (
        run("--build-id", prefix=qnx.loader("x86_64"), binary=binary).stdout == "made\n"
    )

"""What QNX hosts say, read as facts. Values from real machines have beside them who
published them.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.errors import DeployError, ProbeError
from fleet.facts import probe, systems
from fleet.facts.gather import (
    describe_answer,
    gather,
    parse_answer,
    parse_with_workdir_error,
)
from fleet.facts.systems import SYSTEMS, Os
from fleet.model import Host, Via
from tests import needs
from tests.facts.shells import QNX_SHELLS
from tests.replay import Replay
from tests.shared import local_connection

RPI4 = (  # github.com/jcurl/code.research
    "QNX rpi4-800 8.0.0 2025/07/30-19:17:34EDT RaspberryPi4B aarch64le"
)
QEMU = (  # github.com/Tyrostir/qnx-zero-to-hero
    "QNX qnxqemu 8.0.0 2026/02/27-11:02:56EST x86pc x86_64"
)
QEMU_PIDIN = (  # the same image, but for the time
    "CPU:X86_64 Release:8.0.0  FreeMem:3659MB/4095MB BootTime:Feb 27 16:05:18 UTC 2026",
    "Processes: 31, Threads: 207",
)
RPI4_CPU = (  # github.com/jcurl/code.research
    "Processor1: 1091555459 Cortex-A72 1500MHz FPU"
)
# put together: the line of one CPU four times, under the first line of another machine
RPI4_PIDIN = (
    (
        "CPU:AARCH64 Release:8.0.0  FreeMem:3659MB/4095MB BootTime:Feb 27 16:05:18 UTC"
        " 2026"
    ),
    *(RPI4_CPU.replace("1:", f"{number}:", 1) for number in (1, 2, 3, 4)),
)
HOST = Host("board", "board", origin="inventory.yaml:7")


def answer(uname: str = QEMU, pidin: tuple[str, ...] = QEMU_PIDIN, *more: str) -> str:
    lines = [
        *(
            "begin",
            "qnx",
            f"= uname {uname}",
            "= user qnxuser",
            "= path /proc/boot:/bin",
            *more,
            "pidin",
        ),
        *(f"= {line}" for line in pidin),
        *(
            "workdir",
            "= refused /: cannot be written",
            "= chosen /dev/shmem",
            "= fleet-agent-1",
            "end",
        ),
    ]
    return "\n".join(
        line[2:] if line.startswith("= ") else f"{probe.MARK} {line}" for line in lines
    )


def parse_facts(*said, host: Host = HOST):
    return parse_answer(answer(*said), host)


@pytest.mark.parametrize(
    ("line", "arch", "board", "build"),
    [
        (RPI4, "aarch64", "RaspberryPi4B", "2025/07/30-19:17:34EDT"),
        (QEMU, "x86_64", "x86pc", "2026/02/27-11:02:56EST"),
        (
            "QNX a 7.1.0 2023/01/01 12:00 UTC x86pc x86_64",
            "x86_64",
            "x86pc",
            "2023/01/01 12:00 UTC",
        ),
    ],
)
def test_the_last_word_of_uname_is_the_architecture_and_the_one_before_the_board(
    line, arch, board, build
):
    facts = parse_facts(line, ())
    assert facts.arch == arch
    assert facts.board == board
    assert facts.kernel_version == build


@pytest.mark.parametrize(
    "line", ["QNX", "QNX a 8.0.0 x86_64", "Linux a 6.1.0 #1 SMP x86_64 GNU/Linux"]
)
def test_a_line_that_is_not_as_uname_says_it_is_refused_and_quoted(line):
    with pytest.raises(ProbeError, match=f"board: `uname -a` says '{line}'"):
        parse_facts(line)


def test_an_arm_board_is_read_whole():
    facts = parse_facts(RPI4, RPI4_PIDIN)
    assert facts.os == "qnx"
    assert facts.arch == "aarch64"
    assert str(facts.target) == "qnx-aarch64"
    assert facts.hostname == "rpi4-800"
    assert facts.kernel == "8.0.0"
    assert facts.board == "RaspberryPi4B"
    assert [(cpu.cpu, cpu.model, cpu.max_khz) for cpu in facts.cpus] == [
        (number, "Cortex-A72", 1_500_000) for number in range(4)
    ]
    assert facts.cpu_vendor == "0x41"
    assert facts.cpu_model_number == "0xd08"
    assert facts.cpu_stepping == "r0p3"
    assert facts.memory_bytes == 4095 << 20
    assert facts.workdir == "/dev/shmem"
    assert facts.workdir_entries == ("fleet-agent-1",)
    assert facts.notes == ()


@pytest.mark.parametrize(
    ("line", "name", "khz", "flags"),
    [
        (RPI4_CPU, "Cortex-A72", 1_500_000, ("FPU",)),
        (
            "Processor12: 5915 Intel(R) Xeon(R) CPU E5 0MHz FPU SSE",
            "Intel(R) Xeon(R) CPU E5",
            None,
            ("FPU", "SSE"),
        ),
        ("Processor1: 1091555459  1500MHz", None, 1_500_000, ()),
    ],
    ids=["one word", "several words, no rate", "no name"],
)
def test_a_processor_line_may_have_a_name_of_many_words_or_none_and_no_rate(
    line, name, khz, flags
):
    facts = parse_facts("", ("CPU:X86_64 Release:8.0.0", line))
    assert facts.cpus[0].model == name
    assert facts.cpus[0].max_khz == khz
    assert facts.cpu_flags == flags


def test_a_cpu_without_a_name_is_named_by_its_midr():
    (cpu,) = parse_facts(
        RPI4, ("CPU:AARCH64 Release:8.0.0", "Processor1: 1091555459  0MHz")
    ).cpus
    assert cpu.model == "Cortex-A72"
    assert cpu.max_khz is None


@pytest.mark.parametrize(
    ("uname", "pidin"),
    [(QEMU, ()), ("", QEMU_PIDIN)],
    ids=["without pidin", "without uname"],
)
def test_one_voice_is_enough(uname, pidin):
    facts = parse_facts(uname, pidin)
    assert facts.arch == "x86_64"
    assert facts.kernel == "8.0.0"


def test_without_pidin_a_note_says_that_the_cpus_are_not_known():
    facts = parse_facts(QEMU, ())
    assert facts.cpus == ()
    assert any("pidin" in note for note in facts.notes)


@pytest.mark.parametrize(
    ("lines", "arch", "memory", "processors"),
    [
        (  # a Jetson Orin Nano: github.com/ChHaEoN/qnx-linux-dual-vm-proxy
            (
                (
                    "CPU:AARCH64 Release:8.0.0  FreeMem:974MB/992MB BootTime:Jan 01"
                    " 00:00:00 UTC 1970"
                ),
                *(
                    f"Processor{number}: 1091556385 Cortex-A78ae 0MHz FPU"
                    for number in range(1, 7)
                ),
            ),
            *("aarch64", 992 << 20, 6),
        ),
        (  # with a line more, as on 7.1
            (
                (
                    "CPU:AARCH64 Release:7.1.0  FreeMem:12Gb/16Gb BootTime:Jan 01"
                    " 00:00:00 UTC 1970"
                ),
                " Actual resident free memory:12Gb",
                "Processes: 31, Threads: 207",
                "Processor1: 1363146772 Kryo 1804MHz FPU",
            ),
            *("aarch64", 16 << 30, 1),
        ),
        (
            ("CPU: X86_64 Release: 8.0.0  FreeMem:1MB/2MB",),
            "x86_64",
            2 << 20,
            0,
        ),  # blanks behind the colons
    ],
)
def test_other_forms_of_pidin_info_are_read(lines, arch, memory, processors):
    facts = parse_facts("", lines)
    assert facts.arch == arch
    assert facts.memory_bytes == memory
    assert len(facts.cpus) == processors
    assert facts.kernel is not None


def test_without_any_voice_the_inventory_names_the_architecture():
    with pytest.raises(
        ProbeError, match=r"board: neither .* names an architecture: name it as `arch:`"
    ):
        parse_facts("", ())
    assert (
        parse_facts("", (), host=Host("board", "board", arch="aarch64")).arch
        == "aarch64"
    )


@pytest.mark.parametrize(
    ("uname", "pidin", "words"),
    [
        (RPI4, QEMU_PIDIN, "its architecture is aarch64 by `uname -a` ('QNX rpi4"),
        (
            QEMU.replace("8.0.0", "7.1.0"),
            QEMU_PIDIN,
            "its release is 7.1.0 by `uname -a`",
        ),
        (
            QEMU.replace("x86_64", "armle-v7"),
            (),
            "'armle-v7', an architecture fleet has no QNX agent for",
        ),
        ("", ("CPU:ARM Release:6.6.0",), "'ARM', an architecture"),
    ],
    ids=["two architectures", "two releases", "unknown to uname", "unknown to pidin"],
)
def test_contradictions_and_strangers_are_refused_with_the_raw_line(
    uname, pidin, words
):
    with pytest.raises(ProbeError) as caught:
        parse_facts(uname, pidin)
    assert words in str(caught.value)
    assert str(caught.value).startswith("board: ")


@pytest.mark.parametrize("wish", [{"os": "linux"}, {"arch": "aarch64"}])
def test_an_inventory_that_contradicts_the_host_is_refused(wish):
    with pytest.raises(ProbeError, match=r"the inventory says `(os|arch): "):
        parse_facts(host=Host("board", "board", **wish))


def test_a_stand_in_is_never_taken_for_qnx():
    printed = answer(QEMU, QEMU_PIDIN, "= standin yes")
    facts = parse_answer(printed, Host("board", "board", os="qnx"))
    assert facts.os == "qnx-standin"
    assert str(facts.target) == "qnx-x86_64"
    assert any(
        "not QNX" in finding for finding in systems.describe_serious_findings(facts)
    )


def test_the_places_programs_were_found_in_are_used_from_then_on():
    connection = Replay({"/bin/sh": answer().encode()})
    gather(connection, HOST)
    assert connection.calls[1:] == [("use minimal tools", b"/proc/boot:/bin")]


OTHER = (
    f"{probe.MARK} begin\n{probe.MARK} other\n"
    f"{probe.MARK} system\nuname_s {{}}\npath /opt/none\n{probe.MARK} end\n"
)


@pytest.mark.parametrize(
    ("told", "questions"),
    [(None, ["uname -snrvm", "pidin info"]), ("qnx", ["pidin info"])],
)
def test_only_where_the_inventory_says_qnx_is_one_question_enough(told, questions):
    connection = Replay(
        {"uname -snrvm": OTHER.format("QNX").encode(), "pidin info": answer().encode()}
    )
    assert gather(connection, Host("board", "board", os=told)).os == "qnx"
    steps = [
        question for question, _ in connection.calls if question != "use minimal tools"
    ]
    assert [
        part in question for part, question in zip(questions, steps, strict=True)
    ] == [True] * len(steps)


def test_a_linux_host_that_the_inventory_calls_qnx_is_asked_again_and_refused():
    recorded = (
        Path(__file__).parent.parent / "recordings/facts/x86_64-guest.txt"
    ).read_bytes()
    connection = Replay(
        {"pidin info": OTHER.format("Linux").encode(), "uname -snrvm": recorded}
    )
    with pytest.raises(
        ProbeError, match="the inventory says `os: qnx`, the host says linux"
    ):
        gather(connection, Host("board", "board", os="qnx"))


@pytest.mark.parametrize(
    ("name", "words"),
    [("", "has no `uname` .*PATH is '/opt/none' there"), ("Darwin", "says 'Darwin'")],
)
def test_a_host_that_is_neither_is_named(name, words):
    printed = OTHER.format(name).encode()
    with pytest.raises(ProbeError, match=words):
        gather(Replay({"uname -snrvm": printed, "pidin info": printed}), HOST)


def test_a_host_where_nothing_can_be_written_lists_every_place_with_its_reason():
    printed = answer().replace(
        "chosen /dev/shmem\nfleet-agent-1", "refused /dev/shmem: cannot be written"
    )
    with pytest.raises(
        DeployError,
        match=r"(?s)\n  /: cannot be written\n  /dev/shmem: cannot be written",
    ):
        parse_answer(printed, HOST)


# The question itself, in every shell that may be /bin/sh


@pytest.fixture
def tree() -> Iterator[Path]:
    """Return a QNX host's files as far as the question looks at them; anybody
    may look.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-qnx-", dir="/tmp") as folder:
        root = Path(folder)
        root.chmod(0o755)
        for place in ("proc/boot", "etc", "dev/shmem", "home", "nothing"):
            (root / place).mkdir(parents=True)
        for place in ("home", "dev/shmem"):
            (root / place).chmod(0o777)
        for name, printed in (
            ("uname", f"case $1 in -a) echo '{QEMU}';; *) echo QNX;; esac"),
            ("pidin", pidin()),
            ("qcc", "echo qcc 8.0; echo Copyright"),
        ):
            (root / "proc/boot" / name).write_text(f"#!/bin/sh\n{printed}\n")
            (root / "proc/boot" / name).chmod(0o755)
        for name in ("chmod", "rm", "mkdir", "rmdir"):
            (root / "proc/boot" / name).symlink_to(shutil.which(name) or name)
        (root / "etc/profile").write_text(
            "echo Welcome\nMORE=x\nPATH=$PATH:/opt/bin\nexport PATH\n"
        )
        yield root


def pidin() -> str:
    return "\n".join(f"echo '{line}'" for line in RPI4_PIDIN).replace(
        "AARCH64", "X86_64"
    )


QNX = SYSTEMS["qnx"]


def ask(
    shell: str,
    root: Path,
    user: int | None = None,
    *,
    system: Os = QNX,
    **options: object,
) -> str:
    """The answer of one shell, started with a PATH that leads nowhere."""
    package, command = QNX_SHELLS[shell]
    question = probe.render_probe(system.probe, root=str(root), **options)  # type: ignore[arg-type]
    if shell == "busybox":  # asks itself before any PATH
        question = b'uname() { "$ROOT/proc/boot/uname" "$@"; }\n' + question
    done = subprocess.run(
        [needs.program(command[0], package), *command[1:]],
        input=question,
        capture_output=True,
        env={
            "PATH": str(root / "nothing"),
            "HOME": str(root / "home"),
            "USER": "qnxuser",
        },
        user=user,
        cwd="/",
        check=False,
    )
    printed = probe.extract_answer(done.stdout)
    assert printed is not None, (done.stdout, done.stderr)
    return printed


@pytest.mark.parametrize(
    "ordinary", [False, True], ids=["as we are", "as an ordinary user"]
)
def test_every_shell_gives_the_same_answer_to_the_byte(tree, ordinary):
    if ordinary:
        needs.root()
    answers = {}
    for shell in QNX_SHELLS:
        printed = ask(shell, tree, user=65534 if ordinary else None)
        # its version; busybox has its own ls
        answers[shell] = re.sub(r"(?m)^(shell|place) .*$", "", printed)
        (tree / "home/fleet-qnxuser").rmdir()
    assert len(set(answers.values())) == 1, answers
    assert "\nqcc\tqcc 8.0\n" in answers["ksh93"]
    facts = parse_answer(answers["mksh"], HOST)
    assert facts.arch == "x86_64"
    assert facts.kernel == "8.0.0"
    assert len(facts.cpus) == 4
    assert facts.workdir == f"{tree}/home/fleet-qnxuser"
    path = SYSTEMS["qnx"].search_path(probe.split_sections(facts.probe))
    assert path.startswith(
        f"{tree}/nothing:/opt/bin:{tree}/proc/boot:{tree}/system/bin:"
    )


@pytest.mark.parametrize("shell", QNX_SHELLS)
@pytest.mark.parametrize("named", [True, False], ids=["by uname", "by nothing"])
def test_asked_as_linux_a_qnx_host_only_says_that_it_is_none(tree, shell, named):
    (tree / "proc/boot/uname").rename(tree / ("nothing" if named else "etc") / "uname")
    before = sorted(tree.rglob("*"))
    printed = ask(shell, tree, system=SYSTEMS["linux"])
    assert "other" in probe.split_sections(printed)
    name = "QNX" if named and shell != "busybox" else ""
    assert probe.split_sections(printed)["system"][0] == f"uname_s {name}"
    assert sorted(tree.rglob("*")) == before


def test_asked_as_qnx_a_linux_host_only_says_that_it_is_none(tmp_path):
    question = probe.render_probe(QNX.probe, workdir=str(tmp_path / "never"))
    done = subprocess.run(["/bin/sh"], input=question, capture_output=True, check=True)
    printed = probe.extract_answer(done.stdout)
    assert "other" in probe.split_sections(printed)
    assert probe.split_sections(printed)["system"][0] == "uname_s Linux"
    assert not (tmp_path / "never").exists()


def test_a_linux_host_whose_path_leads_nowhere_is_told_so(tmp_path):
    host = Host("here", "localhost", via=Via.LOCAL, env={"PATH": f"{tmp_path}/none"})
    with local_connection(host) as connection, pytest.raises(ProbeError) as refused:
        gather(connection, host)
    assert "has no `uname`" in str(refused.value)
    assert f"PATH is '{tmp_path}/none' there" in str(refused.value)


@pytest.mark.parametrize(
    "profile",
    ["exit 3", "set -e; false", "unset PATH", "cat >&0", "exec 2>&1; no-such"],
)
def test_a_profile_may_do_what_it_likes(tree, profile):
    (tree / "etc/profile").write_text(f"{profile}\n")
    facts = parse_answer(ask("mksh", tree), HOST)
    assert f"{tree}/proc/boot:" in SYSTEMS["qnx"].search_path(
        probe.split_sections(facts.probe)
    )


def test_looking_only_makes_nothing(tree):
    before = sorted(tree.rglob("*"))
    printed = ask("mksh", tree, read_only=True)
    assert (
        f"\nplanned {tree}/home/fleet-qnxuser\nrefused {tree}/data/home/qnxuser: is not"
        " there\n" in printed
    )
    assert sorted(tree.rglob("*")) == before


@pytest.mark.parametrize(
    "place", ["proc/boot", "bin"], ids=["by its folder", "by its pidin"]
)
def test_a_host_is_qnx_also_where_no_program_says_its_name(tree, place):
    (tree / "proc/boot/uname").unlink()
    (tree / "proc/boot").rename(tree / place)
    assert parse_answer(ask("mksh", tree), HOST).os == "qnx"


def test_the_inventorys_directory_is_the_only_one_tried(tree):
    facts = parse_answer(ask("mksh", tree, workdir=f"{tree}/dev/shmem"), HOST)
    assert facts.workdir == f"{tree}/dev/shmem"
    with pytest.raises(DeployError, match="is not there and cannot be made"):
        parse_answer(
            ask("mksh", tree, workdir=f"{tree}/no/such"),
            Host("b", "b", workdir="/no/such"),
        )


def test_what_we_left_behind_is_listed_and_nothing_of_others(tree):
    for name in ("fleet-agent-1", "fleet-agent-1.0123", "theirs"):
        (tree / "dev/shmem" / name).touch()
    facts = parse_answer(ask("mksh", tree, workdir=f"{tree}/dev/shmem"), HOST)
    assert facts.workdir_entries == ("fleet-agent-1", "fleet-agent-1.0123")


def test_a_directory_that_is_somebody_elses_is_left_alone(tree):
    needs.root()
    theirs = tree / "home/fleet-qnxuser"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    assert parse_answer(ask("mksh", tree), HOST).workdir == f"{tree}/home"


def test_all_a_host_said_can_be_read_back_also_where_it_makes_no_sense():
    printed = answer(
        QEMU.replace("x86_64", "vax"),
        QEMU_PIDIN,
        "= tool cat /proc/boot/cat",
        "= tool mv -",
    )
    with pytest.raises(ProbeError):
        parse_with_workdir_error(printed, HOST)
    report = (
        "shell @(#)MIRBSD KSH",
        "place drwxrwxrwt 2 root /tmp",
        "place /data/tmp: cannot be listed",
    )
    more = "".join(f"{line}\n" for line in report)
    printed = printed.replace(
        f"{probe.MARK} end",
        f"{probe.MARK} report\n{more}{probe.MARK} qtime\nCPS"
        f" 31250000\n{probe.MARK} end",
    )
    lines = "\n".join(describe_answer(printed))
    for words in (
        "uname -a      QNX qnxqemu 8.0.0 2026/02/27-11:02:56EST x86pc vax\n",
        "pidin info    CPU:X86_64 Release:8.0.0",
        "\n              Processes: 31, Threads: 207\n",
        "as used     /proc/boot:/bin\n",
        "programs      /proc/boot/cat\nnot there     mv\n",
        "directories   refused /: cannot be written\n              chosen /dev/shmem\n",
        "shell         @(#)MIRBSD KSH\n",
        (
            "ls -ld        drwxrwxrwt 2 root /tmp\n              /data/tmp: cannot be"
            " listed\n"
        ),
        "pidin rmasks  none\npidin qtime   CPS 31250000",
    ):
        assert words in lines
    assert (
        describe_answer(
            (
                Path(__file__).parent.parent / "recordings/facts/x86_64-guest.txt"
            ).read_text()
        )
        == ()
    )

"""The probe in every shell it may meet."""

import os
import pwd
import re
import signal
import subprocess
from pathlib import Path

import pytest

from fleet.facts import linux, probe
from fleet.facts.systems import SYSTEMS
from fleet.model import Compiler
from fleet.remote.output import RUN_LIMIT_BYTES
from tests import needs
from tests.facts import trees
from tests.facts.shells import POSIX_SHELLS, ask

MACHINES = [
    trees.hybrid_laptop,
    trees.numa_server,
    trees.big_little_board,
    trees.container_with_a_cpuset,
    trees.hidden_topology,
]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_every_shell_gives_the_same_answer_to_the_byte(tmp_path, machine):
    root = machine().write(tmp_path / "root")
    answers = {}
    for name, (package, shell) in POSIX_SHELLS.items():
        program = needs.program(shell[0], package)
        answers[name] = ask([program, *shell[1:]], tmp_path / "home", root=str(root))
    assert len(set(answers.values())) == 1, answers


@pytest.mark.parametrize("shell", POSIX_SHELLS)
def test_every_shell_reads_this_machine(tmp_path, shell):
    package, command = POSIX_SHELLS[shell]
    answer = ask([needs.program(command[0], package), *command[1:]], tmp_path / "home")
    facts = linux.parse(probe.split_sections(answer))
    recounted = int(
        subprocess.run(
            ["getconf", "_NPROCESSORS_ONLN"], capture_output=True, check=True
        ).stdout
    )
    assert sum(cpu.online for cpu in facts.cpus) == recounted
    assert facts.kernel == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize("shell", POSIX_SHELLS)
def test_a_host_with_hardly_any_tools_tells_as_much(tmp_path, shell):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("uname", "grep", "printf", "ls", "id", "mkdir", "cat", "chmod", "rm"):
        (tools / name).symlink_to(needs.program(name, "coreutils"))
    package, command = POSIX_SHELLS[shell]
    shell_at_hand = [needs.program(command[0], package), *command[1:]]
    without = linux.parse(
        probe.split_sections(ask(shell_at_hand, tmp_path / "home", path=str(tools)))
    )
    complete = linux.parse(probe.split_sections(ask(shell_at_hand, tmp_path / "home")))
    assert without.page_bytes == os.sysconf("SC_PAGE_SIZE")
    for name in (
        "arch",
        "user",
        "cpus",
        "memory_bytes",
        "mitigations",
        "distribution",
        "cpu_flags",
    ):
        assert getattr(without, name) == getattr(complete, name), name
    assert without.user == pwd.getpwuid(os.getuid()).pw_name
    assert without.compilers == ()


def test_the_kernels_own_cpu_masks_are_read_whole(tmp_path):
    """Some shells read byte by byte, to which the kernel answers these files with
    nothing.
    """
    file = Path("/sys/devices/system/cpu/cpu0/topology/core_cpus_list")
    if not file.exists():
        needs.missing("no core_cpus_list in this kernel's /sys")
    answer = ask(["/bin/sh"], tmp_path / "home")
    lowest = int(re.match("[0-9]+", file.read_text())[0])
    assert linux.parse(probe.split_sections(answer)).cpus[0].core == lowest


@pytest.mark.parametrize(
    "names", [system.probe for system in SYSTEMS.values()], ids=SYSTEMS
)
def test_the_probe_is_clean_to_shellcheck(tmp_path, names):
    folder = Path(probe.__file__).parent
    script = tmp_path / "probe.sh"
    settings = "\n".join(
        f"{name}=''" for name in ("MARK", "PLACES", "CC", "ROOT", "READ_ONLY")
    )
    script.write_text(
        "\n".join([settings, *((folder / name).read_text() for name in names), "main"])
    )
    checked = subprocess.run(
        [needs.program("shellcheck", "shellcheck"), "-s", "sh", str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stdout == ""


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_what_travels_is_the_script_without_comments(system):
    """Read by a host byte by byte: what is for people stays here."""
    text = probe.render_probe(system.probe).decode()
    assert not re.search(r"(^|[\s;])# ", text, re.MULTILINE)


@pytest.mark.slow
def test_576_cpus_take_little_text(tmp_path):
    root = trees.huge_server().write(tmp_path / "root")
    answer = ask(["/bin/sh"], tmp_path / "home", root=str(root))
    assert len(answer) < 120_000
    cpus = linux.parse(probe.split_sections(answer)).cpus
    assert len(cpus) == 576
    assert cpus[300].core == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("flags: " + "a" * 20_000_000, True),
        ("processor: 0\nflags: abc\n" * 1_000_000, False),
        ("processor: 0\nmodel name: X\n\n" * 800_000, False),
    ],
    ids=["one line", "one CPU", "many CPUs"],
)
def test_a_cpuinfo_of_20_megabytes_is_read_at_its_beginning_or_named(
    tmp_path, text, named
):
    machine = trees.hybrid_laptop()
    machine.files["proc/cpuinfo"] = text
    answer = ask(
        ["/bin/sh"], tmp_path / "home", root=str(machine.write(tmp_path / "root"))
    )
    assert len(answer) < RUN_LIMIT_BYTES
    if named:
        with pytest.raises(
            ValueError,
            match="/proc/cpuinfo there is far longer than a kernel writes it",
        ):
            linux.parse(probe.split_sections(answer))
    else:
        assert linux.parse(probe.split_sections(answer)).cpus


def test_a_compiler_that_leaves_a_process_behind_is_not_waited_for(tmp_path):
    """It holds open what its answer to --version came through, and is there when the
    probe has ended.
    """
    compiler = tmp_path / "leavecc"
    pid = tmp_path / "pid"
    compiler.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! >{pid}\necho leavecc 1.0\n")
    compiler.chmod(0o755)
    answer = ask(["/bin/sh"], tmp_path / "home", cc=str(compiler))
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert linux.parse(probe.split_sections(answer)).compilers[0] == Compiler(
        str(compiler), "leavecc 1.0"
    )


def test_half_a_script_does_nothing(tmp_path):
    script = probe.render_probe(SYSTEMS["linux"].probe, workdir=str(tmp_path / "never"))
    run = subprocess.run(
        ["/bin/sh"], input=script[: len(script) - 40], capture_output=True, check=False
    )
    assert run.stdout == b""
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    "output",
    [
        "motd {m} begin\r\n{m} begin\r\n{m} load\r\nx:1\r\n{m} end\r\nbye\r\n",
        # behind a greeting without an end of line
        "$ {m} begin\n{m} load\nx:1\n{m} end\n",
    ],
)
def test_an_answer_is_found_among_whatever_a_login_shell_prints(output):
    answer = probe.extract_answer(output.format(m=probe.MARK).encode())
    assert probe.split_sections(answer) == {"begin": [], "load": ["x:1"], "end": []}


@pytest.mark.parametrize(
    "output",
    [b"", b"Permission denied", f"{probe.MARK} begin\n{probe.MARK} fil".encode()],
)
def test_a_missing_or_cut_answer_is_no_answer(output):
    assert probe.extract_answer(output) is None


def test_neither_machine_id_nor_secrets_nor_the_environment_are_kept(tmp_path):
    root = trees.hybrid_laptop().write(tmp_path / "root")
    answer = ask(["/bin/sh"], tmp_path / "home", root=str(root))
    assert "0123456789abcdef0123456789abcdef" not in answer
    assert "hunter2" not in answer
    assert "vpn.password=…" in answer
    assert "mitigations=auto" in answer


HIDDEN = [
    "vpn.password=hunter2",
    "nfs_secret=hunter2",
    "rd.luks.key=hunter2",
    "wifi.psk=hunter2",
    "login_pwd=hunter2",
    "rd.zfcp_auth=hunter2",
    "authorization=hunter2",
    'password="two hunter2 words"',
    '"password=two hunter2 words"',
    "API_TOKEN==hunter2=",
    "cifsroot=//nas/root,password=hunter2,vers=3",
]
KEPT = [
    "iommu.passthrough=1",
    "rcu_bypass=1",
    "vconsole.keymap=us",
    "rd.vconsole.keytable=us",
    "keyboard-configuration/layoutcode=de",
    "thinkpad_acpi.hotkey=enable",
    "usbcore.authorized_default=0",
    "mitigations=auto,nosmt",
    'dyndbg="file drivers/usb/* +p"',
    "compass",
    "isolcpus=2-7",
]


def test_what_may_be_a_secret_is_hidden_and_what_is_known_to_be_none_is_kept():
    line = " ".join([*HIDDEN, *KEPT])
    answer = probe.extract_answer(
        f"{probe.MARK} begin\nproc/cmdline:{line}\n{probe.MARK} end\n".encode()
    )
    assert "hunter2" not in answer
    assert "words" not in answer
    assert "cifsroot=//nas/root,password=… " in answer
    assert answer.count("…") == len(HIDDEN)
    assert " ".join(KEPT) in answer


def test_a_wished_compiler_is_looked_for_first_and_may_be_two_words(tmp_path):
    fake = tmp_path / "wish"
    fake.write_text('#!/bin/sh\necho "wish $1 $2"\n')
    fake.chmod(0o700)
    answer = ask(["/bin/sh"], tmp_path / "home", cc=f"{fake} -x")
    compilers = linux.parse_compilers(probe.split_sections(answer)["compilers"])
    assert compilers[0].command == f"{fake} -x"
    assert compilers[0].version == "wish -x --version"


def test_a_wished_compiler_that_is_missing_is_not_listed(tmp_path):
    answer = ask(["/bin/sh"], tmp_path / "home", cc="no-such-cc; echo owned")
    assert "owned" not in answer
    assert "no-such-cc" not in [
        compiler.command
        for compiler in linux.parse_compilers(probe.split_sections(answer)["compilers"])
    ]


def test_a_fifo_in_place_of_an_agent_is_not_read(tmp_path):
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    (place / "fleet-agent-1-2").write_text("")
    os.mkfifo(place / "fleet-agent-3-4", 0o700)
    answer = ask(["sh"], tmp_path / "home", workdir=str(place))
    assert ("fleet-agent-1-2\n" in answer, "fleet-agent-3-4" in answer) == (True, False)

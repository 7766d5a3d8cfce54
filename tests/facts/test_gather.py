"""From a host to its facts, and to the directory our files go into."""

import dataclasses
import hashlib
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.errors import DeployError, LinkError, ProbeError
from fleet.facts.gather import ask_load, gather, parse_answer
from fleet.model import Host, RequestedToolchain, Via
from fleet.remote.output import Completed
from tests import needs
from tests.replay import Replay
from tests.shared import local_connection

RECORDED = (
    Path(__file__).parent.parent / "recordings/facts/x86_64-guest.txt"
).read_bytes()
HOST = Host("guest", "guest", origin="inventory.yaml:7")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def local(**wishes) -> Host:
    return Host("localhost", "localhost", via=Via.LOCAL, **wishes)


def facts_here(host: Host):
    with local_connection(host) as connection:
        return gather(connection, host)


@pytest.mark.slow
def test_a_compiler_that_never_tells_its_version_is_named(home, monkeypatch):
    monkeypatch.setattr("fleet.facts.gather.PROBE_TIMEOUT_S", 1.0)
    monkeypatch.setattr("fleet.facts.gather.COMPILER_TIMEOUT_S", 1.0)
    slow = home / "slowcc"
    slow.write_text("#!/bin/sh\nsleep 1000\n")
    slow.chmod(0o755)
    with pytest.raises(
        ProbeError, match=f"the compiler there, '{slow}', never answers"
    ):
        facts_here(local(toolchain=RequestedToolchain(cc=str(slow))))


def test_a_recorded_guest_is_read_whole_in_one_exec():
    connection = Replay({"/bin/sh": RECORDED})
    facts = gather(connection, HOST)
    assert len(connection.calls) == 1
    assert str(facts.target) == "linux-x86_64"
    assert facts.hostname == "guest"
    assert facts.distribution == "Debian GNU/Linux 12 (bookworm)"
    assert facts.libc == "glibc 2.36"
    assert facts.kernel == "6.18.44"
    assert facts.clock_source == "tsc"
    assert facts.hypervisor == "unnamed"
    assert facts.container == "docker"
    assert facts.cpu_model == "Intel(R) Xeon(R) Processor"
    assert facts.cpu_family == "6"
    assert facts.cpu_model_number == "167"
    assert facts.cpu_stepping == "1"
    assert "nonstop_tsc" in facts.cpu_flags
    assert facts.mitigations["spectre_v1"].startswith("Mitigation: usercopy")
    assert facts.smt is False
    assert facts.numa_balancing is False
    assert facts.boost is None
    assert facts.governor is None
    assert [(cpu.core, cpu.llc, cpu.package, cpu.node) for cpu in facts.cpus] == [
        (0, 0, 0, 0),
        (1, 0, 0, 0),
    ]
    assert facts.cpus[1].caches[-1].size_bytes == 480 << 20
    assert facts.workdir == "/home/bench/.cache/fleet"
    assert [compiler.command for compiler in facts.compilers] == ["cc", "gcc", "clang"]
    assert any("hypervisor" in note for note in facts.notes)


def test_kept_answers_can_be_read_again_years_later():
    facts = gather(Replay({"/bin/sh": RECORDED}), HOST)
    assert parse_answer(facts.probe, HOST) == facts


def test_this_machine_is_read_over_a_real_connection(home):
    facts = facts_here(local())
    assert facts.arch == os.uname().machine.replace("i686", "i386").replace(
        "armv7l", "armv7"
    )
    assert facts.page_bytes == os.sysconf("SC_PAGE_SIZE")
    allowed = {cpu.cpu for cpu in facts.cpus if cpu.allowed}
    assert allowed == os.sched_getaffinity(0)
    assert facts.workdir == str(home / ".cache/fleet")
    assert Path(facts.workdir).stat().st_mode & 0o077 == 0
    assert list(Path(facts.workdir).iterdir()) == []


def test_the_load_after_a_run_is_one_small_exec():
    with local_connection(local()) as connection:
        load = ask_load(connection, parse_answer(RECORDED.decode(), HOST))
    assert load.load_1m is not None
    assert load.running >= 1


def test_a_host_that_says_nothing_about_its_load_gives_an_empty_one():
    load = ask_load(
        Replay({"load_only": b"sh: not found"}), parse_answer(RECORDED.decode(), HOST)
    )
    assert load.load_1m is None
    assert load.running is None


def test_names_already_in_the_workdir_are_listed_and_what_agents_hold_where_their_names_speak_of_it(
    home,
):
    work = home / "work"
    work.mkdir(mode=0o700)
    for name in (".lock", "fleet-agent-1", "fleet-agent-1-2"):
        (work / name).write_bytes(b"whole")
    facts = facts_here(local(workdir="~/work"))
    assert facts.workdir_entries == (".lock", "fleet-agent-1", "fleet-agent-1-2")
    assert facts.workdir_hashes == {
        "fleet-agent-1-2": hashlib.sha256(b"whole").hexdigest()
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            RECORDED.replace(b"uname_s Linux", b"uname_s Plan9"),
            "guest: `uname -s` says 'Plan9'",
        ),
        (RECORDED.replace(b"uname_m x86_64", b"uname_m vax"), "`uname -m` says 'vax'"),
        (
            Completed(1, b"", b"This account is not available.\n"),
            "guest: /bin/sh did not answer the probe",
        ),
        (Completed(0, RECORDED[:900], b""), "guest: /bin/sh did not answer the probe"),
        (
            Completed(
                128,
                b"",
                b"fatal: unrecognized command [" + b"x" * 5000 + b"] by git-shell",
            ),
            r"fatal: unrecognized command \[x+ … x+\] by git-shell",
        ),
    ],
    ids=["os", "architecture", "no shell", "cut", "long"],
)
def test_an_answer_that_gives_no_facts_is_an_error_that_quotes_it(answer, words):
    with pytest.raises(ProbeError, match=words):
        gather(Replay({"/bin/sh": answer}), HOST)


@pytest.mark.parametrize("wish", [{"os": "qnx"}, {"arch": "aarch64"}])
def test_an_inventory_that_contradicts_the_host_is_refused_with_its_line(wish):
    with pytest.raises(
        ProbeError, match=r"the inventory says `(os|arch): .*inventory.yaml:7"
    ):
        gather(
            Replay({"/bin/sh": RECORDED}),
            Host("guest", "guest", origin="inventory.yaml:7", **wish),
        )


def test_a_32_bit_system_under_a_64_bit_kernel_gets_a_32_bit_agent():
    answer = RECORDED.replace(b"uname_m x86_64", b"uname_m aarch64").replace(
        b"word_bits 64", b"word_bits 32"
    )
    facts = gather(Replay({"/bin/sh": answer}), HOST)
    assert facts.arch == "armv7"
    assert any("32-bit" in note for note in facts.notes)


def test_the_command_to_try_by_hand_goes_the_same_way(tmp_path):
    host = Host(
        "guest",
        "10.0.0.1",
        port=2222,
        user="bench",
        jump=("gate",),
        identity_files=("/k 1",),
    )
    with pytest.raises(ProbeError) as refused:
        gather(Replay({"/bin/sh": Completed(1, b"", b"")}), host)
    assert "`ssh -J gate -p 2222 -i '/k 1' bench@10.0.0.1 '/bin/sh -c uname'`" in str(
        refused.value
    )


def test_a_broken_link_stays_a_link_error():
    with pytest.raises(LinkError):
        gather(Replay({":": LinkError("gone")}), HOST)


@pytest.mark.parametrize("home", [None, "some/where", "-n", "{}/two\nlines"])
def test_no_home_and_one_that_is_no_path_on_one_line_are_passed_over(
    monkeypatch, tmp_path, home
):
    monkeypatch.delenv("HOME")
    if home is not None:
        monkeypatch.setenv("HOME", home.format(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    facts = facts_here(local())
    assert facts.workdir == f"/var/tmp/fleet-{os.getuid()}"
    with suppress(OSError):  # somebody's agents may lie there
        Path(facts.workdir).rmdir()


def test_a_cache_directory_that_is_a_link_elsewhere_is_passed_over(home):
    (home / ".cache").mkdir()
    (home / "elsewhere").mkdir()
    (home / ".cache" / "fleet").symlink_to(home / "elsewhere")
    facts = facts_here(local())
    assert facts.workdir == f"/var/tmp/fleet-{os.getuid()}"
    with suppress(OSError):  # somebody's agents may lie there
        Path(facts.workdir).rmdir()


def refusal(workdir: Path) -> str:
    with pytest.raises(
        DeployError, match="localhost: the inventory's workdir "
    ) as caught:
        facts_here(local(workdir=str(workdir)))
    return str(caught.value)


def test_a_workdir_that_is_a_link_or_a_file_is_refused(tmp_path, home):
    (tmp_path / "link").symlink_to(home)
    (tmp_path / "file").touch()
    assert "is a symbolic link. To do: remove the link" in refusal(tmp_path / "link")
    assert "is not a directory" in refusal(tmp_path / "file")


def test_a_workdir_open_to_others_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "is open to other users (drwxrwxrwx" in refusal(tmp_path / "open")
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o777


def test_a_workdir_of_another_user_is_refused(tmp_path):
    needs.root()
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    assert "belongs to another user (uid 12345)" in refusal(tmp_path / "theirs")


def test_where_nothing_tells_who_we_are_our_own_directory_is_not_called_another_users(
    tmp_path,
):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "id").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "id").chmod(0o755)
    host = local(
        workdir=str(tmp_path / "ours"),
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
    )
    with pytest.raises(DeployError, match="the program id does not run") as refused:
        facts_here(host)
    assert "belongs to" not in str(refused.value)


@pytest.fixture
def mount(tmp_path):
    """Mounts a tmpfs with these options, and takes it away again."""
    needs.root()
    mount = needs.program("mount", "mount")
    umount = needs.program("umount", "mount")
    mounted = []

    def tmpfs(options: str) -> Path:
        place = tmp_path / "mounted"
        place.mkdir()
        done = subprocess.run(
            [mount, "-t", "tmpfs", "-o", options, "none", place], check=False
        )
        if done.returncode:
            needs.missing("this machine does not let root mount a tmpfs")
        mounted.append(place)
        return place

    yield tmpfs
    for place in mounted:
        subprocess.run([umount, place], check=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "noexec,mode=700",
            (
                "cannot run programs (mounted noexec?): Permission denied. To do: name"
                " a directory on"
            ),
        ),
        (
            "ro,mode=700",
            (
                "cannot be made: Read-only file system. To do: name a directory on a"
                " writable"
            ),
        ),
    ],
)
def test_a_workdir_on_a_mount_that_forbids_it_is_refused_with_the_reason(
    mount, options, said
):
    place = mount(options)
    assert said in refusal(place / "fleet")
    assert not (place / "fleet").exists()


def test_a_workdir_on_a_full_disk_is_refused_with_the_reason(mount):
    place = mount("size=64k,mode=700")
    (place / "fleet").mkdir(mode=0o700)
    with (
        (place / "filler").open("wb", buffering=0) as filler,
        pytest.raises(OSError, match="No space"),
    ):
        while True:
            filler.write(bytes(4096))
    refused = refusal(place / "fleet")
    assert "No space left on device" in refused
    assert "make room there" in refused


def test_a_workdir_beyond_the_users_quota_is_refused_with_the_remedy():
    chosen = b"chosen /home/bench/.cache/fleet"
    refused = b"refused /home/bench/.cache/fleet: cannot be written: "
    answer = RECORDED.replace(chosen, refused + b"Disk quota exceeded")
    host = dataclasses.replace(HOST, workdir="/home/bench/.cache/fleet")
    with pytest.raises(DeployError, match=r"quota exceeded\. To do: make room there"):
        gather(Replay({"/bin/sh": answer}), host)


def test_when_no_place_will_do_every_one_is_listed_with_its_reason():
    lines = RECORDED.replace(
        b"chosen /home/bench/.cache/fleet",
        b"refused /home/bench/.cache/fleet: cannot be made: Read-only file system\n"
        b"refused /tmp/fleet-0: is a symbolic link",
    )
    with pytest.raises(DeployError) as caught:
        gather(Replay({"/bin/sh": lines}), HOST)
    assert (
        "\n  /home/bench/.cache/fleet: cannot be made: Read-only file system\n "
        " /tmp/fleet-0: is" in str(caught.value)
    )

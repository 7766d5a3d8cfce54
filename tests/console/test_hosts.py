"""The odd hosts are as odd as they say, seen with the OpenSSH client: no code of ours in between."""

import errno
import os
from pathlib import Path

import pytest

from tests import needs
from tests.hosts import odd
from tests.hosts.client import ssh
from tests.hosts.sshd import MakeHosts

C_PROGRAM = "int main(void) { return 0; }\n"


def test_a_host_without_a_compiler_has_everything_else(make_hosts: MakeHosts, tmp_path: Path) -> None:
    (host,) = make_hosts(options=odd.only_programs_of(odd.all_but_compilers(tmp_path / "bin")))
    done = ssh(host, "for c in cc gcc clang as; do command -v $c; done; command -v sha256sum", tmp_path)
    assert done.stdout == f"{tmp_path}/bin/sha256sum\n"


def test_a_busybox_host_has_no_other_programs(make_hosts: MakeHosts, tmp_path: Path) -> None:
    (host,) = make_hosts(options=odd.only_programs_of(odd.busybox_only(tmp_path / "bin")))
    done = ssh(host, "sed --help 2>&1 | head -n 1; command -v bash cc; echo end", tmp_path)
    banner, *rest = done.stdout.splitlines()
    assert banner.startswith("BusyBox")
    assert rest == ["end"]


@pytest.mark.parametrize(
    ("script", "exit_code"), [(odd.FAILING_COMPILER, 1), (odd.LYING_COMPILER, 0)], ids=["failing", "lying"]
)
def test_a_bad_compiler_answers_its_version_and_makes_nothing(
    make_hosts: MakeHosts, tmp_path: Path, script: str, exit_code: int
) -> None:
    programs = odd.add_compiler(odd.all_but_compilers(tmp_path / "bin"), script)
    (host,) = make_hosts(options=odd.only_programs_of(programs))
    command = "cat >a.c; cc --version && cc a.c -o a; echo $?; ls a"
    version, code, *listed = ssh(host, command, tmp_path, stdin=C_PROGRAM).stdout.splitlines()
    assert "cc 1.0" in version
    assert (int(code), listed) == (exit_code, [])


@pytest.mark.parametrize(("shell", "package"), [("mksh", "mksh"), ("dash", "dash"), ("tcsh", "tcsh")])
def test_a_login_shell_gets_the_command_as_it_was_typed(
    make_hosts: MakeHosts, tmp_path: Path, shell: str, package: str
) -> None:
    (host,) = make_hosts(options=odd.login_shell(shell, package))
    done = ssh(host, "ps -o comm= -p $$; sh -c 'cat; exit 3'", tmp_path, stdin="fed")
    assert (done.stdout.split(), done.returncode) == ([shell, "fed"], 3)


def test_a_noisy_login_talks_before_the_command_does(make_hosts: MakeHosts, tmp_path: Path) -> None:
    (host,) = make_hosts(options=odd.noisy_login(delay_s=0.2))
    done = ssh(host, "echo answer", tmp_path)
    assert done.stdout.startswith("Welcome!")
    assert done.stdout.endswith("no newline:answer\n")
    assert done.stderr == "tput: no TERM\n"


def test_a_host_of_one_cpu_begins_every_command_on_it(make_hosts: MakeHosts, tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    (host,) = make_hosts(options=odd.only_cpus(str(last)))
    assert ssh(host, "taskset -cp $$", tmp_path).stdout.endswith(f": {last}\n")


def test_a_cpuset_cannot_be_widened(make_hosts: MakeHosts, tmp_path: Path) -> None:
    needs.cpus(2)
    with odd.cpuset(f"fleet-tests-{os.getpid()}", "0") as group:
        (host,) = make_hosts(options=odd.in_group(group))
        done = ssh(host, "nproc; taskset -c 1 true", tmp_path)
    assert done.stdout == "1\n"
    assert "Invalid argument" in done.stderr


def test_a_small_disk_is_soon_full(tmp_path: Path) -> None:
    with odd.small_disk(tmp_path / "disk", "64k") as disk:
        (disk / "fits").write_bytes(bytes(32 << 10))
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            (disk / "does-not").write_bytes(bytes(64 << 10))
    assert list(disk.iterdir()) == []


def test_from_a_noexec_disk_nothing_starts(make_hosts: MakeHosts, tmp_path: Path) -> None:
    (host,) = make_hosts()
    with odd.noexec_disk(tmp_path / "disk") as disk:
        done = ssh(host, f"cp /bin/true {disk}/it && {disk}/it", tmp_path)
    assert done.returncode == 126


def test_a_read_only_disk_takes_nothing_even_from_root(tmp_path: Path) -> None:
    with (
        odd.read_only_disk(tmp_path / "disk") as disk,
        pytest.raises(OSError, match=os.strerror(errno.EROFS)),
    ):
        (disk / "file").touch()

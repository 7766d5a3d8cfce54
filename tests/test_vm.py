"""The emulated aarch64 machine is a real Linux host: its own kernel, compiler and CPUs, over real SSH."""

import socket
from pathlib import Path

import pytest

from tests.hosts.client import ssh
from tests.hosts.sshd import keygen
from tests.hosts.vm import Image, Vm, aarch64_image, aarch64_vm

__all__ = ["aarch64_image", "aarch64_vm"]  # fixtures

pytestmark = pytest.mark.vm

THREADS_C = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

static void *cpu_of_me(void *wanted)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(*(int *)wanted, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one))
        return NULL;
    *(int *)wanted = sched_getcpu();
    return wanted;
}

int main(void)
{
    int cpus[2] = {0, 1};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, cpu_of_me, &cpus[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d\n", cpus[0], cpus[1]);
    return 0;
}
"""


def test_it_is_another_architecture_reached_with_its_host_key_checked(aarch64_vm: Vm, tmp_path: Path) -> None:
    done = ssh(aarch64_vm, "uname -sm; nproc; id -un", tmp_path)
    assert done.stdout.split("\n")[:3] == ["Linux aarch64", "2", "fleet"], done.stderr


def test_a_wrong_host_key_in_known_hosts_keeps_us_out(aarch64_vm: Vm, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text()
    line = f"[{aarch64_vm.address}]:{aarch64_vm.port} {other}"
    done = ssh(aarch64_vm, "true", tmp_path, known_hosts_line=line)
    assert done.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr


def test_its_own_compiler_builds_threads_that_reach_both_cpus(aarch64_vm: Vm, tmp_path: Path) -> None:
    build = "cat >threads.c && cc -pthread threads.c -o threads && ./threads"
    done = ssh(aarch64_vm, build, tmp_path, stdin=THREADS_C)
    assert (done.stdout, done.returncode) == ("0 1\n", 0), done.stderr


@pytest.mark.parametrize(("cpu", "has_lse"), [("cortex-a72", False), ("cortex-a76", True)])
def test_the_cpu_model_decides_whether_there_is_lse(
    aarch64_image: Image, tmp_path: Path, cpu: str, has_lse: bool
) -> None:
    with Vm(aarch64_image, tmp_path) as vm:
        vm.start(cpu=cpu, smp=1)
        done = ssh(vm, "nproc; grep -w -m1 Features /proc/cpuinfo", tmp_path)
    count, features = done.stdout.splitlines()
    assert count == "1"
    assert ("atomics" in features.split()) == has_lse


def test_a_frozen_machine_says_nothing_until_it_is_thawed(aarch64_vm: Vm) -> None:
    aarch64_vm.freeze()
    try:
        with socket.create_connection((aarch64_vm.address, aarch64_vm.port), timeout=1) as link:
            with pytest.raises(TimeoutError):
                link.recv(4)
            aarch64_vm.thaw()
            link.settimeout(30)
            assert link.recv(4) == b"SSH-"
    finally:
        aarch64_vm.thaw()


def test_after_its_power_is_cut_nobody_answers(aarch64_image: Image, tmp_path: Path) -> None:
    with Vm(aarch64_image, tmp_path) as vm:
        vm.start()
        vm.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((vm.address, vm.port), timeout=5)


def test_a_machine_that_does_not_boot_is_said_with_its_console(aarch64_image: Image, tmp_path: Path) -> None:
    with Vm(aarch64_image, tmp_path) as vm, pytest.raises(RuntimeError, match="did not boot"):
        vm.start(cpu="no-such-cpu")
    assert "no-such-cpu" in vm.console.read_text()

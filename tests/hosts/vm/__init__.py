"""Whole emulated Linux machines, to be reached over real SSH: `aarch64_vm`, `armv7_vm`
and `s390x_vm`.

What it proves: our programs on another architecture's kernel, C library, compiler and
sshd. What it
cannot: timing and memory ordering are those of the machine underneath.
"""

from collections.abc import Iterator

import pytest

from tests.hosts.vm.image import Image, image
from tests.hosts.vm.machines import AARCH64, ARMV7, S390X, Machine
from tests.hosts.vm.qemu import Vm

__all__ = [
    "AARCH64",
    "Image",
    "Vm",
    "aarch64_image",
    "aarch64_vm",
    "armv7_vm",
    "image",
    "s390x_vm",
]


@pytest.fixture(scope="session")
def aarch64_image() -> Image:
    """The disk and kernel of an aarch64 Linux with gcc and OpenSSH; built if this
    machine has none yet.
    """
    return image(AARCH64)


@pytest.fixture(scope="session")
def aarch64_vm(
    aarch64_image: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Vm]:
    """A running aarch64 machine with two CPUs (Cortex-A76, so LSE and LL/SC both
    work).
    """
    with Vm(aarch64_image, tmp_path_factory.mktemp("aarch64-vm")) as vm:
        vm.start()
        yield vm


def _start_vm(machine: Machine, temporary: pytest.TempPathFactory) -> Iterator[Vm]:
    with Vm(image(machine), temporary.mktemp(f"{machine.uname}-vm")) as vm:
        vm.start()
        yield vm


@pytest.fixture(scope="session")
def armv7_vm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vm]:
    """A running 32-bit Arm machine with two CPUs (Cortex-A15) and no compiler."""
    yield from _start_vm(ARMV7, tmp_path_factory)


@pytest.fixture(scope="session")
def s390x_vm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vm]:
    """A running IBM Z machine, big-endian, with two CPUs and no compiler."""
    yield from _start_vm(S390X, tmp_path_factory)

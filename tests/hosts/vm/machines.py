"""The machines qemu can be for us, as data: adding an architecture is adding one entry
here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """One architecture: what Debian calls it, what qemu needs, how its devices are
    attached.

    debian_arch: Debian's name. uname: what `uname -m` says in it. kernel: Debian's
    kernel metapackage.
    drivers: kernel modules for its disk and network. qemu, qemu_package: the emulator.
    board: its arguments for the board. cpu: the default for `-cpu`. console: the
    kernel's name of the serial port. net_device, disk_device: qemu's names. compiler:
    Debian's packages for compiling there.
    """

    debian_arch: str
    uname: str
    kernel: str
    drivers: tuple[str, ...]
    qemu: str
    qemu_package: str
    board: tuple[str, ...]
    cpu: str
    console: str
    net_device: str
    disk_device: str
    compiler: tuple[str, ...] = ()


AARCH64 = Machine(
    debian_arch="arm64",
    uname="aarch64",
    kernel="linux-image-cloud-arm64",
    drivers=("virtio_mmio", "virtio_net", "virtio_blk"),
    qemu="qemu-system-aarch64",
    qemu_package="qemu-system-arm",
    board=("-M", "virt"),
    cpu="cortex-a76",
    console="ttyAMA0",
    net_device="virtio-net-device",
    disk_device="virtio-blk-device",
    compiler=("gcc", "libc6-dev"),
)

ARMV7 = Machine(
    debian_arch="armhf",
    uname="armv7l",
    kernel="linux-image-armmp",
    drivers=("virtio_mmio", "virtio_net", "virtio_blk", "crc32c_generic", "ext4"),
    qemu="qemu-system-arm",
    qemu_package="qemu-system-arm",
    board=("-M", "virt,highmem=off"),
    cpu="cortex-a15",
    console="ttyAMA0",
    net_device="virtio-net-device",
    disk_device="virtio-blk-device",
)

S390X = Machine(
    debian_arch="s390x",
    uname="s390x",
    kernel="linux-image-s390x",
    drivers=("virtio_net", "virtio_blk", "crc32c_generic", "ext4"),
    qemu="qemu-system-s390x",
    qemu_package="qemu-system-misc",
    board=("-M", "s390-ccw-virtio"),
    cpu="max",
    console="ttysclp0",
    net_device="virtio-net-ccw",
    disk_device="virtio-blk-ccw",
)

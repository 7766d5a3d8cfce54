"""Build the disk, kernel and initramfs of an emulated Linux machine out of Debian
packages.

No root, no debootstrap, no change to this machine's own packages: a private apt root
(this machine's package source, another architecture) downloads, the files are unpacked
without their install scripts, and `mke2fs -d` makes a disk of them. Neighbour:
`qemu.py` boots the result.
"""

import gzip
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests import needs
from tests.hosts.sshd import keygen
from tests.hosts.vm.machines import Machine
from tests.shared import hold_lock

USER = "fleet"
PACKAGES = (
    *(
        "bash",
        "coreutils",
        "dash",
        "findutils",
        "grep",
        "gzip",
        "hostname",
        "mawk",
        "procps",
        "sed",
        "tar",
    ),
    *("openssh-server", "util-linux"),
)
_HERE = Path(__file__).parent
_RECIPE = ("image.py", "machines.py", "initramfs.sh", "boot.sh")
_BUILD_LIMIT_S = 600

_SSHD_CONFIG = """\
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
Subsystem sftp internal-sftp
"""
_PASSWD = f"""\
root:x:0:0:root:/root:/bin/bash
sshd:x:100:65534:sshd:/run/sshd:/usr/sbin/nologin
{USER}:x:1000:1000:fleet:/home/{USER}:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = f"root:x:0:\ntty:x:5:\n{USER}:x:1000:\nnogroup:x:65534:\n"
_SHADOW = f"root:*:19000:0:99999:7:::\n{USER}:*:19000:0:99999:7:::\n"
_INITTAB = "::once:/sbin/boot\n"


@dataclass(frozen=True, slots=True)
class Image:
    """A machine ready to boot: files in one folder, made once and never changed.

    folder: holds kernel, initramfs, disk; user_key, which logs in as USER; packages,
    which lists what went in, one `name_version_arch.deb` a line.
    """

    machine: Machine
    folder: Path

    @property
    def host_key(self) -> str:
        """The machine's public host key: "ssh-ed25519 AAAA..."."""
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])


def image(machine: Machine) -> Image:
    """Return the image of `machine` from the cache, building it first if it is not
    there (about a minute).

    The cache is FLEET_TEST_CACHE, or ~/.cache/fleet-tests. An image is found by its
    recipe (these files and the machine's package source), so it is made anew when one
    of them changes, and needs no network when none does.
    """
    cache = Path(
        os.environ.get("FLEET_TEST_CACHE") or Path.home() / ".cache" / "fleet-tests"
    )
    cache.mkdir(parents=True, exist_ok=True)
    sources = _package_source()
    folder = cache / f"{machine.debian_arch}-{_recipe_digest(sources)}"
    with hold_lock(cache / f"{machine.debian_arch}.lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as scratch:
                _build(machine, sources, Path(scratch)).rename(folder)
    return Image(machine, folder)


def _build(machine: Machine, sources: Path, scratch: Path) -> Path:
    """Make the image's folder inside `scratch` and return it."""
    image = scratch / "image"
    image.mkdir()
    packages = _download(machine, sources, scratch / "apt")
    (image / "packages").write_text(
        "".join(f"{package.name}\n" for package in packages)
    )
    kernel_package = next(
        package for package in packages if package.name.startswith("linux-image")
    )
    system = scratch / "system"
    kernel = scratch / "kernel-package"
    for name in ("bin", "sbin", "lib", "lib64"):
        (system / "usr" / name).mkdir(parents=True)
        (system / name).symlink_to(f"usr/{name}")
    for package in packages:
        _unpack(package, kernel if package == kernel_package else system)
    for name in ("host_key", "user_key"):
        keygen(image / name)
    _configure(system, image)
    shutil.copy(next(kernel.glob("boot/vmlinu[xz]-*")), image / "kernel")
    (image / "initramfs").write_bytes(
        _initramfs(machine, kernel, system / "bin/busybox")
    )
    _make_disk(system, image / "disk")
    return image


def _package_source() -> Path:
    """Return this machine's own list of package sources, which the private apt root
    reads too.
    """
    folder = Path("/etc/apt")
    lists = (folder / "sources.list.d/debian.sources", folder / "sources.list")
    paths = [path for path in lists if path.exists() and path.stat().st_size]
    return (
        paths[0]
        if paths
        else needs.missing("no Debian package source to make an emulated machine from")
    )


def _download(machine: Machine, sources: Path, apt: Path) -> list[Path]:
    """Fetch PACKAGES with all they depend on, the kernel and a static busybox, without
    installing any.
    """
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True)
    (apt / "status").touch()
    settings = {
        "APT::Architecture": machine.debian_arch,
        "APT::Architectures::": machine.debian_arch,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "Debug::NoLocking": "true",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "status",
    }
    options = [
        part for key, value in settings.items() for part in ("-o", f"{key}={value}")
    ]
    archives = apt / "cache/archives"
    with suppress(
        RuntimeError
    ):  # one list of several may be out of order; what is missing shows below
        _call([needs.program("apt-get", "apt"), *options, "-q", "update"])
    _call(
        [
            "apt-get",
            *options,
            "-q",
            "-y",
            "--download-only",
            "install",
            *PACKAGES,
            *machine.compiler,
        ]
    )
    depends = _call(["apt-cache", *options, "depends", machine.kernel]).split()
    kernel = next(
        word
        for word in depends
        if word.startswith("linux-image-") and word != machine.kernel
    )
    _call(
        ["apt-get", *options, "-q", "download", "busybox-static", kernel], cwd=archives
    )
    return sorted(archives.glob("*.deb"))


def _unpack(package: Path, folder: Path) -> None:
    """Lay the files of `package` out in `folder`, following the links that merge /bin
    into /usr/bin.
    """
    folder.mkdir(exist_ok=True)
    tar = package.parent / "files.tar"
    with tar.open("wb") as out:
        subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=out, check=True)
    _call(
        [
            "tar",
            "-x",
            "--keep-directory-symlink",
            "--no-same-owner",
            "-f",
            str(tar),
            "-C",
            str(folder),
        ]
    )


def _configure(system: Path, keys: Path) -> None:
    """Do by hand what the packages' install scripts would have done, as far as we need
    it.
    """
    for name in ("proc", "sys", "dev", "run", "tmp", "root", f"home/{USER}"):
        (system / name).mkdir(parents=True, exist_ok=True)
    etc = system / "etc"
    for name, text in (
        ("passwd", _PASSWD),
        ("group", _GROUP),
        ("shadow", _SHADOW),
        ("inittab", _INITTAB),
    ):
        (etc / name).write_text(text)
    (etc / "ssh/sshd_config").write_text(_SSHD_CONFIG)
    shutil.copy(keys / "host_key", etc / "ssh/host_key")
    shutil.copy(keys / "user_key.pub", etc / "ssh/authorized_keys")
    shutil.copy(_HERE / "boot.sh", system / "sbin/boot")
    (system / "sbin/boot").chmod(0o755)
    for link, target in (
        ("sbin/init", "../bin/busybox"),
        ("bin/cc", "gcc"),
        ("bin/awk", "mawk"),
    ):
        (system / link).unlink(missing_ok=True)
        if target.startswith("..") or (system / "bin" / target).exists():
            (system / link).symlink_to(target)


def _make_disk(system: Path, disk: Path) -> None:
    """Make an ext4 file system with the contents of `system`, all of it owned by
    root.
    """
    mke2fs = [
        needs.program("mke2fs", "e2fsprogs"),
        "-q",
        "-t",
        "ext4",
        "-O",
        "^has_journal",
    ]
    as_root = (
        [] if os.geteuid() == 0 else [needs.program("unshare", "util-linux"), "-Ur"]
    )
    _call([*as_root, *mke2fs, "-d", str(system), str(disk), "1G"])


def _initramfs(machine: Machine, kernel: Path, busybox: Path) -> bytes:
    """Return the compressed archive the kernel unpacks first: busybox, the drivers and
    a script.
    """
    drivers = _order_modules(machine.drivers, kernel)
    folders = ("bin", "dev", "proc", "sys", "root", "modules")
    files: dict[str, tuple[int, bytes]] = dict.fromkeys(folders, (0o040755, b""))
    files["bin/busybox"] = (0o100755, busybox.read_bytes())
    files["init"] = (0o100755, (_HERE / "initramfs.sh").read_bytes())
    files["modules/order"] = (
        0o100644,
        "".join(f"{name}.ko\n" for name in drivers).encode(),
    )
    files |= {f"modules/{name}.ko": (0o100644, data) for name, data in drivers.items()}
    members = [_cpio_member(name, mode, data) for name, (mode, data) in files.items()]
    return gzip.compress(
        b"".join((*members, _cpio_member("TRAILER!!!", 0, b""))), compresslevel=1
    )


def _order_modules(drivers: Iterable[str], kernel: Path) -> dict[str, bytes]:
    """Return the modules that `drivers` need and those themselves, in loading order.

    A name that is no module of this kernel is taken to be built in. A module names what
    it needs in its section .modinfo: "depends=virtio,virtio_ring", zero-terminated.
    """
    ordered: dict[str, bytes] = {}
    for name in drivers:
        for path in kernel.glob(f"lib/modules/**/{name}.ko*"):
            data = path.read_bytes()
            data = lzma.decompress(data) if path.suffix == ".xz" else data
            needed = re.search(rb"\0depends=([^\0]+)\0", data)
            ordered |= _order_modules(
                needed[1].decode().split(",") if needed else (), kernel
            )
            ordered[name] = data
    return ordered


def _cpio_member(name: str, mode: int, data: bytes) -> bytes:
    """Return one file in the "newc" form of cpio (Linux,
    early-userspace/buffer-format.rst).
    """
    path = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return _pad_to_word(head) + _pad_to_word(data)


def _pad_to_word(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _recipe_digest(sources: Path) -> str:
    digest = hashlib.sha256(sources.read_bytes())
    for name in _RECIPE:
        digest.update((_HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def _call(command: list[str], cwd: Path | None = None) -> str:
    """Run a command of the build and return its stdout; its words are in the error if
    it fails.
    """
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_BUILD_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-2000:]}"
        )
    return done.stdout

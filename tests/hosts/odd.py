"""Hosts with something wrong: no compiler, a bad one, a bad disk, few CPUs, a shell
that is not plain sh.

Three kinds of helper, to be combined. Folders of programs stand in for a host's PATH.
Options go to `make_hosts(options=...)` and decide how a loopback sshd runs every
command. Disks are folders to be named as `workdir`; they need root.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from tests import needs
from tests.processes import until_we_end

COMPILERS = ("cc", "gcc", "clang")
_COMPILER_LIKE = (
    *COMPILERS,
    *(
        "*-gcc*",
        "*-clang*",
        "gcc-*",
        "clang-*",
        "[ct]cc",
        "c[89]9*",
        "zig*",
        "as",
        "ld*",
    ),
)

FAILING_COMPILER = """\
case $1 in --version) echo 'failcc 1.0'; exit 0 ;; esac
echo 'failcc: fatal error: cannot execute cc1' >&2
exit 1
"""
LYING_COMPILER = "case $1 in --version) echo 'liecc 1.0' ;; esac\nexit 0\n"
TCC = 'exec /usr/bin/tcc "$@"\n'  # a compiler without atomic built-in functions

Options = tuple[str, ...]


# Folders of programs


def all_but_compilers(folder: Path) -> Path:
    """Fill `folder` with this machine's programs, without anything that compiles, and
    return it.
    """
    folder.mkdir()
    for program in [*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()]:
        link = folder / program.name
        if not link.is_symlink() and not any(
            fnmatch(program.name, name) for name in _COMPILER_LIKE
        ):
            link.symlink_to(program)
    return folder


def busybox_only(folder: Path) -> Path:
    """Fill `folder` with busybox under all its names, `sh` among them, and
    return it.
    """
    folder.mkdir()
    busybox = needs.program("busybox", "busybox-static")
    names = subprocess.run(
        [busybox, "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    for name in names:
        (folder / name).symlink_to(busybox)
    return folder


def add_compiler(folder: Path, script: str) -> Path:
    """Put `script` into `folder` under every name a compiler goes by, and return the
    folder.
    """
    for name in COMPILERS:
        path = folder / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)
    return folder


# Options for an sshd: how it runs a command. One of them per host, since sshd heeds the
# first.


def restrict_programs(folder: Path) -> Options:
    """Commands find nothing but the programs in `folder`, its own sh first of all."""
    return _force_command(
        f'PATH={folder}; export PATH; exec {folder}/sh -c "$SSH_ORIGINAL_COMMAND"'
    )


def login_shell(shell: str, package: str) -> Options:
    """Commands are given to `shell`, as sshd does where that is the user's login
    shell.
    """
    return _force_command(
        f'exec {needs.program(shell, package)} -c "$SSH_ORIGINAL_COMMAND"'
    )


def bin_sh(shell: str, package: str) -> Options:
    """Commands see `shell` in the place of /bin/sh, whatever starts that."""
    needs.root()
    program = needs.program(shell, package)
    unshare = needs.program("unshare", "util-linux")
    inside = (
        f"mount --bind {program} $(readlink -f /bin/sh); exec {program} -c"
        ' "$SSH_ORIGINAL_COMMAND"'
    )
    return _force_command(f"exec {unshare} -m bash -c '{inside}'")


def noisy_login(delay_s: float = 0.0) -> Options:
    """The login shell's start-up files take their time and talk on stdout and stderr,
    unasked.
    """
    chatter = (
        'printf \'Welcome!\\n{"record":"burst"}\\n\\033[31mno newline:\'; echo \'tput:'
        " no TERM' >&2"
    )
    return _force_command(
        f'{chatter}; sleep {delay_s}; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"'
    )


def lingering_login(folder: Path, delay_s: float, seconds: float) -> Options:
    """Leave a process behind at login that holds both outputs, talks later, and ends
    with a file `over`.
    """
    later = (
        f"(sleep {delay_s}; echo 'Reminder: the lab closes at six'; sleep {seconds};"
        f" touch {folder}/over) &"
    )
    return _force_command(f'{later} exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"')


def only_cpus(cpus: str) -> Options:
    """Commands begin with an affinity of `cpus` ("0", "0,2"); the kernel would let them
    widen it again.
    """
    return _force_command(
        f"exec {needs.program('taskset', 'util-linux')} -c {cpus} sh -c"
        ' "$SSH_ORIGINAL_COMMAND"'
    )


def _force_command(command: str) -> Options:
    return (f"ForceCommand {command}",)


# Disks, control groups and pods


@contextmanager
def mount_disk(folder: Path, options: str) -> Iterator[Path]:
    """Make `folder` a disk of its own with these options of mount; it ends with the
    block.
    """
    needs.root()
    mount = needs.program("mount", "mount")
    umount = needs.program("umount", "mount")
    folder.mkdir(exist_ok=True)
    subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"{options},mode=700", "tmpfs", folder], check=True
    )
    try:
        yield folder
    finally:
        subprocess.run([umount, "--lazy", folder], check=True)


small_disk = partial(mount_disk, options="size=64k")
noexec_disk = partial(mount_disk, options="size=16m,noexec")
read_only_disk = partial(mount_disk, options="size=64k,ro")


@contextmanager
def limited_group(name: str, limit: str, controller: str = "memory") -> Iterator[Path]:
    """Make a control group below one with a limit, in bytes or µs a period; skip where
    none can be made.
    """
    needs.root()
    v1, v2 = {"memory": ("limit_in_bytes", "max"), "cpu": ("cfs_quota_us", "max")}[
        controller
    ]
    parent = Path("/sys/fs/cgroup", controller)
    file = f"{controller}.{v1}"
    if not parent.is_dir():
        parent = Path("/sys/fs/cgroup")
        file = f"{controller}.{v2}"
        control = parent / "cgroup.subtree_control"
        if not control.is_file() or controller not in control.read_text().split():
            needs.missing(f"no control groups for {controller} that could be made here")
    group = parent / name / "leaf"
    group.mkdir(parents=True)
    try:
        (group.parent / file).write_text(limit)
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)
        group.rmdir()
        group.parent.rmdir()


_POD = """\
set -e
mount --rbind / "$1"
mount -t proc proc "$1/proc"
mount -t tmpfs -o ro,size=4k none "$1/proc/sys"
for place in dev/shm tmp root; do mount -t tmpfs -o size=64k,mode=1777 none "$1/$place"; done
mount -o remount,size=16m "$1/tmp"
mount -o remount,bind,ro "$1"
cd "$1" && pivot_root . mnt && umount -l /mnt
echo ready
exec sleep 1000
"""


@contextmanager
def pod(root: Path) -> Iterator[int]:
    """Start a process as in a pod, and return its number: / is read-only, /proc/sys
    empty, /tmp 16 MiB.
    """
    root.mkdir()
    options = (
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount",
        "--net",
    )
    command = [
        needs.program("unshare", "util-linux"),
        *options,
        "sh",
        "-c",
        _POD,
        "sh",
        str(root),
    ]
    with subprocess.Popen(
        [*until_we_end(), *command], stdout=subprocess.PIPE
    ) as process:
        try:
            if process.stdout is None or process.stdout.readline() != b"ready\n":
                needs.missing("no namespaces that could be made here")
            yield int(
                Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            )
        finally:
            process.kill()

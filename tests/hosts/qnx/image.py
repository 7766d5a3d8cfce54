"""A STAND-IN for a QNX image: a folder that looks like one to whoever enters it. It is
Linux, not QNX.

Real ksh (mksh), real toybox under the names a published QNX 8 image gives it, scripts
in the place of uname, pidin and on, a root that cannot be written, and a /dev/shmem
without directories. No /proc/cpuinfo, no /sys, no compiler, no sha256sum, tar or nproc.
"""

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tests import needs

HERE = Path(__file__).parent
HOME = "/data/home/qnxuser"
UNAME = "QNX standin 8.0.0 2026/02/27-11:02:56EST x86pc x86_64"
# As linked in a published QNX 8.0 image, so far as Debian's toybox has them.
TOYBOX = (
    *(
        "cat",
        "chmod",
        "cksum",
        "crc32",
        "md5sum",
        "sha1sum",
        "base64",
        "od",
        "xxd",
        "cp",
        "mv",
        "rm",
    ),
    *(
        "mkdir",
        "rmdir",
        "mktemp",
        "sed",
        "grep",
        "find",
        "sort",
        "tr",
        "wc",
        "head",
        "tail",
        "tee",
    ),
    *("nohup", "timeout", "xargs", "stat", "ls", "ln", "id", "dd", "sleep"),
)
LEAST_TOYBOX = ("cat", "chmod", "dd", "echo", "grep", "ln", "ls", "rm")
SCRIPTS = {
    "uname": (
        f"""\
case $1 in
-a) echo '{UNAME}' ;;
-s | '') echo QNX ;;
-r) echo 8.0.0 ;;
-n) echo standin ;;
-m) echo x86pc ;;
esac
"""
    ),
    "pidin": (
        """\
[ "$1" = info ] || exit 1
echo 'CPU:X86_64 Release:8.0.0  FreeMem:3659MB/4095MB BootTime:Feb 27 11:05:18 EST 2026'
echo 'Processes: 31, Threads: 207'
cpu=1
while [ $cpu -le ${QNX_STANDIN_CPUS:-2} ]; do
	echo "Processor$cpu: 591593 Stand-in CPU 2500MHz FPU"
	cpu=$((cpu + 1))
done
"""
    ),
    "on": (
        """\
while [ $# -gt 0 ]; do
	case $1 in
	-[CRp]) shift 2 ;;
	-*) shift ;;
	*) exec "$@" ;;
	esac
done
"""
    ),
}


@dataclass(frozen=True)
class Recipe:
    """What goes into an image. home: "/" where nothing but the flat /dev/shmem can be
    written.

    exec_path: the PATH that a command over SSH gets there. strict_shell: its sh starts
    only regular files, which files in /dev/shmem are not.
    """

    name: str
    toybox: tuple[str, ...] = TOYBOX
    scripts: tuple[str, ...] = ("uname", "pidin", "on")
    sftp: bool = True
    rename: bool = True
    home: str = HOME
    exec_path: str = "/usr/bin:/bin"
    strict_shell: bool = False

    def without(self, tool: str) -> "Recipe":
        """Return the recipe without one of its tools."""
        return replace(
            self,
            name=f"{self.name}-without-{tool}",
            toybox=tuple(name for name in self.toybox if name != tool),
            scripts=tuple(name for name in self.scripts if name != tool),
        )


FULL = Recipe("full")
NO_SFTP = Recipe("no-sftp", sftp=False, rename=False, home="/")
MINIMAL = Recipe(
    "minimal",
    LEAST_TOYBOX,
    ("pidin",),
    sftp=False,
    rename=False,
    home="/",
    exec_path="/nowhere",
)
RECIPES = (FULL, NO_SFTP, MINIMAL)


@dataclass(frozen=True)
class Image:
    """An image that was made. Commands in it are run by the program `enter`, given to
    its sh as `-c` text.
    """

    recipe: Recipe
    root: Path
    writable: Path

    @property
    def enter(self) -> Path:
        """A program for the outside: `enter sh-text`."""
        return self.root.parent / "enter"

    @property
    def shmem(self) -> Path:
        """Return the folder that is its /dev/shmem."""
        return self.writable / "shmem"

    def running(self) -> list[int]:
        """The processes that are inside."""
        pids = []
        for link in Path("/proc").glob("[0-9]*/root"):
            with contextlib.suppress(OSError):
                if link.readlink() == self.root:
                    pids.append(int(link.parent.name))
        return pids

    def files(self) -> set[str]:
        """The paths of everything that was written there."""
        return {
            str(path.relative_to(self.writable))
            for path in self.writable.rglob("*")
            if path.is_file()
        }


def make(folder: Path, recipe: Recipe, user: int | None = None) -> Image:
    """Make an image in `folder`. user: the id of the ordinary user it is entered as;
    needs root.
    """
    root = folder / "root"
    writable = folder / "writable"
    for place in (
        "proc/boot",
        "system/bin",
        "bin",
        "dev",
        "etc",
        "lib",
        "lib64",
        "usr/lib",
        "usr/libexec",
    ):
        (root / place).mkdir(parents=True, exist_ok=True)
    (writable / "shmem").mkdir(parents=True)
    if recipe.home == HOME:
        (root / "data").mkdir()
        (writable / HOME.lstrip("/")).mkdir(parents=True)
    _programs(root, recipe)
    (root / "dev/shmem").mkdir()
    (root / "dev/null").touch()
    (root / "tmp").symlink_to("/dev/shmem")
    (root / "etc/qnx-standin").write_text("This is Linux in the place of QNX.\n")
    (root / "etc/passwd").write_text(
        f"root:x:0:0::/:/bin/sh\nqnxuser:x:{user or 1000}:1000::{recipe.home}:/bin/sh\n"
    )
    (root / "etc/profile").write_text(
        "echo Welcome; PATH=/proc/boot:/system/bin:$PATH; export PATH\n"
    )
    (root / "etc/ld.so.preload").write_text("/usr/lib/standin.so\n")
    if not recipe.rename:
        (root / "etc/standin-no-rename").touch()
    if recipe.strict_shell:
        (root / "etc/standin-strict-shell").touch()
    image = Image(recipe, root, writable)
    (folder / "enter").write_text(_enter(image, user))
    (folder / "enter").chmod(0o755)
    if user is not None:
        for path in [writable, *writable.rglob("*")]:
            shutil.chown(path, user, user)
    if (
        subprocess.run(
            [image.enter, "exit 42"], capture_output=True, check=False
        ).returncode
        != 42
    ):
        needs.missing(
            "cannot enter a folder as a system of its own: needs root or user"
            " namespaces"
        )
    return image


def _programs(root: Path, recipe: Recipe) -> None:
    toybox = needs.program("toybox", "toybox")
    ksh = needs.program("mksh", "mksh")
    shutil.copy(ksh, root / "proc/boot/ksh")
    for name in ("bin/sh", "bin/ksh"):
        (root / name).symlink_to("/proc/boot/ksh")
    shutil.copy(toybox, root / "system/bin/toybox")
    for name in recipe.toybox:
        (root / "system/bin" / name).symlink_to("toybox")
    for name in recipe.scripts:
        script = root / "proc/boot" / name
        script.write_text(f"#!/bin/sh\n{SCRIPTS[name]}")
        script.chmod(0o755)
    programs = [ksh, toybox]
    if recipe.sftp:
        server = needs.file("/usr/lib/openssh/sftp-server", "openssh-sftp-server")
        shutil.copy(server, root / "usr/libexec/sftp-server")
        programs.append(server)
    for library in libraries(programs):
        target = root / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
        if library.name.startswith("ld-linux"):
            shutil.copy(library, root / "usr/lib/ldqnx-64.so.2")
    (root / "usr/lib/standin.so").write_bytes(_build_preload())


@functools.cache
def _build_preload() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "standin.so"
        command = [
            needs.program("gcc", "gcc"),
            "-shared",
            "-fPIC",
            "-O1",
            "-o",
            library,
            HERE / "standin.c",
        ]
        subprocess.run(command, check=True)
        return library.read_bytes()


def libraries(programs: list[str]) -> set[Path]:
    """Return the shared libraries that programs of this machine need, the loader among
    them.
    """
    ldd = needs.program("ldd", "libc-bin")
    output = subprocess.run(
        [ldd, *programs], capture_output=True, text=True, check=True
    ).stdout
    return {
        Path(word)
        for word in output.split()
        if word.startswith("/") and not word.endswith(":")
    }


def _enter(image: Image, user: int | None) -> str:
    """A script that goes in as an SSH server of the image would: its root read-only,
    its PATH and HOME.
    """
    root = image.root
    writable = image.writable
    recipe = image.recipe
    unshare = needs.program("unshare", "util-linux")
    mapped = "" if os.geteuid() == 0 else "--map-root-user"
    data = f"&& mount --bind {writable}/data data" if recipe.home == HOME else ""
    as_user = f"--userspec={user}:{user}" if user is not None else ""
    return f"""\
#!/bin/sh
# A STAND-IN, not QNX.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
if [ "$1" != inside ]; then exec {unshare} {mapped} --mount "$0" inside "$@"; fi
mount --bind {root} {root} && cd {root} &&
mount --bind {writable}/shmem dev/shmem {data} &&
mount --bind /dev/null dev/null && mount -o remount,bind,ro {root} || exit 99
exec env -i HOME={recipe.home} USER=qnxuser LOGNAME=qnxuser SHELL=/bin/sh PATH={recipe.exec_path} \\
	/usr/sbin/chroot {as_user} {root} /bin/sh -c "$2"
"""

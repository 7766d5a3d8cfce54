"""Finds QNX's SDP on the controller and compiles with its qcc, but never runs its script; for `qnx`."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Watch, compile_here, run_tool
from fleet.agent.build.systems import SYSTEMS
from fleet.errors import BuildError
from fleet.model import Target
from fleet.text import last_lines

CFLAGS = SYSTEMS["qnx"].cflags
VARIANTS: Mapping[str, str] = {"aarch64": "gcc_ntoaarch64le", "x86_64": "gcc_ntox86_64"}
"""What qcc calls its targets, by architecture."""

HOMES = ("~/qnx800", "~/qnx710", "/opt/qnx800", "/opt/qnx710")
HOST = "host/linux/x86_64"  # the platforms for Linux run on x86-64 only
TARGETS: Mapping[int, str] = {8: "qnx", 7: "qnx7"}
"""The folder in `target/` of a platform, by QNX's major version."""


@dataclass(frozen=True, slots=True)
class Sdp:
    """A software development platform. host, target: values of QNX_HOST and QNX_TARGET.

    release: major version.
    """

    host: Path
    target: Path
    release: int

    def toolchain(self, target: Target, extra: tuple[str, ...] = ()) -> tc.Toolchain:
        """Return its qcc for a target, with the environment that the platform's own script would set."""
        qcc = self.host / "usr/bin/qcc"
        return tc.Toolchain(
            f"{qcc} (QNX {self.release})",
            (str(qcc), f"-V{VARIANTS[target.arch]}"),
            (*CFLAGS, *extra),
            target,
            str(self.release),
            self._environment(),
        )

    def _environment(self) -> dict[str, str]:
        """Return the variables that qcc needs beside ours, such as HOME and those that name a licence."""
        settings = os.environ.get("QNX_CONFIGURATION_EXCLUSIVE") or str(Path.home() / ".qnx")
        return {
            "QNX_HOST": str(self.host),
            "QNX_TARGET": str(self.target),
            "QNX_CONFIGURATION_EXCLUSIVE": settings,
            "PATH": f"{self.host / 'usr/bin'}:{os.environ.get('PATH', os.defpath)}",
        }


def major_version(release: str | None) -> int | None:
    """Return QNX's major version of a release such as "8.0.0" or "8"; None if unknown."""
    match = re.match(r"(\d+)(?:\.|$)", release or "")
    return int(match[1]) if match else None


def find_sdp(path: str | None, release: int | None) -> Sdp:
    """Return the first platform for this major version (None: any), at `path` or the usual places.

    Raises BuildError that lists the places searched.
    """
    tried = []
    for place, folders in _candidate_folders(path).items():
        problem = _why_unfit(*folders, release) if folders else "not there"
        if problem is None and folders:
            return Sdp(*folders, _release_from_folder(folders[1]))
        tried.append(f"{place}: {problem}")
    raise BuildError("; ".join(tried))


def check_variant_and_compile(
    toolchain: tc.Toolchain, sources: Mapping[str, bytes], build: str, watching: Watch
) -> bytes:
    """Compile on the controller, if `qcc -V` lists the variant.

    Raises BuildError with the compiler's output.
    """
    qcc, variant = toolchain.command[0], toolchain.command[1].removeprefix("-V")
    try:
        done = run_tool(toolchain, (qcc, "-V"), watching)
    except (OSError, subprocess.TimeoutExpired) as err:
        raise BuildError(f"{toolchain.name} cannot be run here: {err}") from err
    output = done.stdout + done.stderr
    if variant.encode() not in output:
        raise BuildError(f"{toolchain.name}: `qcc -V` does not list {variant}: {last_lines(output)}")
    return compile_here(toolchain, sources, build, watching)


def _candidate_folders(path: str | None) -> dict[str, tuple[Path, Path] | None]:
    """Return QNX_HOST and QNX_TARGET of each place to search, by its name for messages.

    None if it is not there.
    """
    if path is not None:
        return {f"`toolchain: {{sdp: {path}}}`": _sdp_folders(Path(path).expanduser())}
    host, target = os.environ.get("QNX_HOST"), os.environ.get("QNX_TARGET")
    from_environment = (Path(host), Path(target)) if host and target else None
    homes = {home: _sdp_folders(Path(home).expanduser()) for home in HOMES}
    return {"QNX_HOST and QNX_TARGET in the environment": from_environment, **homes}


def _sdp_folders(folder: Path) -> tuple[Path, Path] | None:
    if not folder.is_dir():
        return None
    targets = [folder / "target" / name for name in TARGETS.values()]
    return folder / HOST, next((target for target in targets if target.is_dir()), targets[0])


def _why_unfit(host: Path, target: Path, release: int | None) -> str | None:
    if not (host / "usr/bin/qcc").is_file():
        return f"has no {host / 'usr/bin/qcc'}"
    if target.name not in TARGETS.values() or not target.is_dir():
        return f"has no {target} for a QNX we know"
    if release is not None and _release_from_folder(target) != release:
        return f"is for QNX {_release_from_folder(target)}, the host has QNX {release}"
    return None


def _release_from_folder(target: Path) -> int:
    return next(release for release, name in TARGETS.items() if name == target.name)

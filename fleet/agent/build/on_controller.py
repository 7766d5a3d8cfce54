"""Builds an agent on the controller, once per build id, and keeps it in a cache. Used by `deploy`."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from fleet.agent.build import shipped
from fleet.agent.build import toolchain as tc
from fleet.agent.build.systems import SYSTEMS
from fleet.errors import BuildError
from fleet.model import Host, Target, arch_named
from fleet.remote.connect import connect
from fleet.remote.connection import Connection


class Closable(Protocol):
    """A process or connection that another thread can close."""

    def close(self) -> None:
        """End it."""
        ...


Connect = Callable[[Host], AbstractContextManager[Connection]]
Watching = Callable[[Closable], AbstractContextManager[object]]

BUILD_TIMEOUT_S = 600  # the first build for a target with zig compiles its C library as well: a minute or two


@dataclass(frozen=True, slots=True)
class Built:
    """An agent on the controller, its bytes, build id and the toolchain that made it."""

    binary: bytes
    build: str
    toolchain: tc.Toolchain


class Builder:
    """Builds agents for targets; safe to use from many threads, one build at a time and target.

    cache: directory for finished binaries, private to the user; they are found again by build id.
    connect: connects to a build host. watching: entered with each compiler that runs here, until it ends.
    """

    def __init__(
        self, cache: Path | None = None, connect: Connect = connect, watching: Watching = nullcontext
    ) -> None:
        self.connect = connect
        self.watching = watching
        self._cache = cache if cache is not None else _default_cache()
        self._guard = threading.Lock()
        self._locks: dict[Target | str, threading.Lock] = {}
        self._failed: dict[str, BuildError] = {}
        self._built: dict[str, Built] = {}

    def build(
        self,
        target: Target,
        sources: Mapping[str, bytes],
        compiler: str | None = None,
        extra: Sequence[str] = (),
        notify: Callable[[str], None] | None = None,
    ) -> Built:
        """Find it shipped or in the cache, or build it. Raises BuildError that lists what was tried.

        compiler, extra: what the inventory asks for: a command, and flags added to ours. notify: receives a
        sentence about a build that takes long.
        """
        with self._lock_of(target):
            return self._first_that_works(
                tc.on_controller(target, controller(), compiler, extra), target, sources, notify
            )

    def once(
        self, toolchain: tc.Toolchain, sources: Mapping[str, bytes], make: Callable[[str], bytes]
    ) -> Built:
        """The agent a toolchain makes of `sources`: from the cache, or by `make(build id)`, once for all.

        What `make` raises, a BuildError, is raised for each of them without trying again.
        """
        build = tc.build_id(sources, toolchain)
        kept = self._cache / tc.file_name(build)
        with self._lock_of(build):
            if build in self._failed:
                raise self._failed[build]
            if not self._has(kept, build):
                try:
                    self._keep(kept, make(build), build, toolchain)
                except BuildError as err:
                    self._failed[build] = err
                    raise
            return self._read(kept, build, toolchain)

    def _lock_of(self, what: Target | str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(what, threading.Lock())

    def _first_that_works(
        self,
        toolchains: Sequence[tc.Toolchain],
        target: Target,
        sources: Mapping[str, bytes],
        notify: Callable[[str], None] | None,
    ) -> Built:
        if there := shipped.find(toolchains, sources):
            path, toolchain = there
            return self._read(path, tc.build_id(sources, toolchain), toolchain)
        tried = []
        for toolchain in toolchains:
            build = tc.build_id(sources, toolchain)
            if build in self._built:
                return self._built[build]
            kept = self._cache / tc.file_name(build)
            command = installed(toolchain.command)
            if command is None:
                tried.append(f"{toolchain.name}: not installed")
                continue
            if notify and "zig" in toolchain.name and not self._has(kept, build):
                notify(f"compiling the agent for {target} with zig; the first time takes about a minute")
            try:
                if not self._has(kept, build):
                    here = replace(toolchain, command=command)
                    binary = compile_here(here, sources, build, self.watching)
                    self._keep(kept, binary, build, toolchain)
                return self._read(kept, build, toolchain)
            except BuildError as err:
                tried.append(str(err))
        raise _none_works(target, tried)

    def _has(self, kept: Path, build: str) -> bool:
        """Whether it need not be built; a cache that cannot be looked into has nothing."""
        return build in self._built or os.path.isfile(kept)  # noqa: PTH113  Path.is_file raises there

    def _read(self, kept: Path, build: str, toolchain: tc.Toolchain) -> Built:
        """What is kept; read once, for it goes to many hosts."""
        if build not in self._built:
            self._built[build] = Built(kept.read_bytes(), build, toolchain)
        return self._built[build]

    def _keep(self, kept: Path, binary: bytes, build: str, toolchain: tc.Toolchain) -> None:
        """Write beside the place, then rename: the cache never holds half a binary.

        Where it cannot be written the binary serves this session only.
        """
        self._built[build] = Built(binary, build, toolchain)
        with suppress(OSError):
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="build-", dir=self._cache) as scratch:
                whole = Path(scratch) / kept.name
                whole.write_bytes(binary)
                whole.replace(kept)


def first_installed(target: Target, compiler: str | None = None, extra: Sequence[str] = ()) -> tc.Toolchain:
    """The toolchain `Builder.build` would try first; nothing is built. Raises as it does if there is none."""
    toolchains = tc.on_controller(target, controller(), compiler, extra)
    for toolchain in toolchains:
        if installed(toolchain.command) is not None:
            return toolchain
    raise _none_works(target, [f"{toolchain.name}: not installed" for toolchain in toolchains])


def _none_works(target: Target, tried: Sequence[str]) -> BuildError:
    cross = SYSTEMS[target.os].cross.get(target.arch)
    return BuildError(
        f"no agent for {target} could be built on the controller. Tried:\n"
        + "".join(f"  - {line}\n" for line in tried or ["no compiler is known for this target"])
        + (
            f"Install a cross compiler ({cross.gcc[0]}-gcc) or the extra: pip install 'corefleet[cross]'."
            if cross
            else "Install a compiler on the host (`build: host`), or send an agent (`build: prebuilt`)."
        )
    )


def controller() -> Target:
    """What the controller itself is, in the words of targets."""
    arch = platform.machine().lower()
    return Target(platform.system().lower(), arch_named(arch) or arch)


def compile_here(
    toolchain: tc.Toolchain, sources: Mapping[str, bytes], build: str, watching: Watching
) -> bytes:
    """Compile on the controller in a folder of its own. Raises BuildError with the compiler's output."""
    try:
        with tempfile.TemporaryDirectory(prefix="fleet-build-") as scratch:
            return _compile(Path(scratch), toolchain, sources, build, watching)
    except OSError as err:
        raise BuildError(f"{toolchain.name}: {err.strerror or err}") from err
    except subprocess.TimeoutExpired as err:
        raise BuildError(f"{toolchain.name}: {err}") from err


def _compile(
    folder: Path, toolchain: tc.Toolchain, sources: Mapping[str, bytes], build: str, watching: Watching
) -> bytes:
    for name, text in toolchain.sources(sources, build).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
    done = run_tool(toolchain, toolchain.arguments(sources, "fleet-agent"), watching, folder)
    binary = folder / "fleet-agent"
    if done.returncode != 0 or not binary.is_file():
        output = done.stderr.decode("utf-8", "replace").strip()
        raise BuildError(f"{toolchain.name}: exit code {done.returncode}: {last_lines(output)}")
    return binary.read_bytes()


def run_tool(
    toolchain: tc.Toolchain, arguments: Sequence[str], watching: Watching, folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in the toolchain's environment. OSError and TimeoutExpired pass through."""
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C", **toolchain.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,  # compilers start others, which end with them only as a group
    )
    group = _Group(process.pid)
    with process, watching(group):
        try:
            out, err = process.communicate(timeout=BUILD_TIMEOUT_S)
        except BaseException:
            group.close()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@dataclass(frozen=True, slots=True)
class _Group:
    """A compiler and what it has started."""

    leader: int

    def close(self) -> None:
        """End them all."""
        with suppress(OSError):  # they have ended
            os.killpg(self.leader, signal.SIGKILL)


def last_lines(text: str, count: int = 12) -> str:
    """The end of a compiler's output, where the cause is; indented for a message."""
    lines = text.splitlines()[-count:]
    return "\n      ".join(lines) if lines else "(no output)"


def installed(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """Resolve a command's program, or None if it is not there."""
    if command[: len(tc.ZIG)] == tc.ZIG:
        return (sys.executable, *command[1:]) if find_spec("ziglang") else None
    program = shutil.which(command[0])
    return (program, *command[1:]) if program else None


def _default_cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "fleet" / "agents"

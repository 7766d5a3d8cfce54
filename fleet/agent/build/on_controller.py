"""Builds an agent on the controller, once per build id, and keeps it in a cache. Used by `deploy`."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from fleet.agent.build import toolchain as tc
from fleet.agent.build.source import SHIPPED
from fleet.agent.build.systems import SYSTEMS
from fleet.errors import BuildError
from fleet.late import futures, tempfile
from fleet.model import Host, Target, arch_named
from fleet.model.version import VERSION
from fleet.remote.cancellation import Cancellation
from fleet.remote.connect import connect
from fleet.remote.connection import Connection
from fleet.text import last_lines

Connect = Callable[[Host], AbstractContextManager[Connection]]
Watching = Callable[[Callable[[], None]], AbstractContextManager[object]]

PATIENCE_S, POLL_S = 60.0, 0.2  # with another host that builds for all of its kind
BUILD_TIMEOUT_S = 600  # the first build for a target with zig compiles its C library as well: a minute or two


@dataclass(frozen=True, slots=True)
class Built:
    """An agent on the controller, its bytes, build id and the toolchain that made it."""

    binary: bytes
    build: str
    toolchain: tc.Toolchain


class Builder:
    """Builds agents, one at a time for each target, from any thread. cache: of finished ones, private."""

    def __init__(
        self, cache: Path | None = None, connect: Connect = connect, cancellation: Cancellation | None = None
    ) -> None:
        self.connect = connect
        self.cancellation = cancellation or Cancellation()
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self._cache = cache or Path(home) / "fleet" / "agents"
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
        """Find it shipped or cached, or build it. notify: of a build that takes long. Raises BuildError."""
        with self._lock_of(target):
            if there := self.finished(target, sources, compiler, extra):
                return there
            tried = []
            for toolchain in tc.on_controller(target, controller(), compiler, extra):
                command = installed(toolchain.command)
                if command is None:
                    tried.append(f"{toolchain.name}: not installed")
                    continue
                if notify and "zig" in toolchain.name:
                    notify(f"compiling the agent for {target} with zig; the first time takes about a minute")
                build, here = tc.build_id(sources, toolchain), replace(toolchain, command=command)
                try:
                    binary = compile_here(here, sources, build, self.cancellation.closing)
                    return self.keep(tc.file_name(build), binary, build, toolchain)
                except BuildError as err:
                    tried.append(str(err))
            raise _none_works(target, tried)

    def finished(
        self,
        target: Target,
        sources: Mapping[str, bytes],
        compiler: str | None = None,
        extra: Sequence[str] = (),
    ) -> Built | None:
        """What `build` would find shipped or in the cache; None if it had to compile."""
        for folder in filter(os.path.isdir, (SHIPPED, self._cache)):
            for toolchain in tc.on_controller(target, controller(), compiler, extra):
                build = tc.build_id(sources, toolchain)
                if kept := self.kept(tc.file_name(build), build, toolchain, folder):
                    return kept
        return None

    def kept(
        self, name: str, build: str, toolchain: tc.Toolchain, folder: Path | None = None
    ) -> Built | None:
        """What the cache has under this name, read once; one that cannot be looked into has nothing."""
        kept = (folder or self._cache) / name
        if name not in self._built and os.path.isfile(kept):  # noqa: PTH113  Path.is_file raises there
            if folder is SHIPPED:
                toolchain = replace(toolchain, name=f"zig, shipped with fleet {VERSION}")
            self._built[name] = Built(kept.read_bytes(), build, toolchain)
        return self._built.get(name)

    @contextmanager
    def turn(self, what: str) -> Iterator[None]:
        """Wait while another is at work on this, but not for ever. Raises Cancelled."""
        lock, ends = self._lock_of(what), time.monotonic() + PATIENCE_S
        while not (ours := lock.acquire(timeout=POLL_S)) and time.monotonic() < ends:
            self.cancellation.check()
        try:
            yield
        finally:
            if ours:
                lock.release()

    def once(
        self, toolchain: tc.Toolchain, sources: Mapping[str, bytes], make: Callable[[str], bytes]
    ) -> Built:
        """The agent of `sources`: cached, or by `make(build id)`, once for all, as is its BuildError."""
        build = tc.build_id(sources, toolchain)
        name = tc.file_name(build)
        with self._lock_of(build):
            if build in self._failed:
                raise self._failed[build]
            if kept := self.kept(name, build, toolchain):
                return kept
            try:
                return self.keep(name, make(build), build, toolchain)
            except BuildError as err:
                self._failed[build] = err
                raise

    def _lock_of(self, what: Target | str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(what, threading.Lock())

    def keep(self, name: str, binary: bytes, build: str, toolchain: tc.Toolchain) -> Built:
        """Write beside the place, then rename; where that cannot be, the binary serves this session only."""
        built = self._built[name] = Built(binary, build, toolchain)
        with suppress(OSError):
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="build-", dir=self._cache) as scratch:
                whole = Path(scratch) / name
                whole.write_bytes(binary)
                whole.replace(self._cache / name)
        return built


def first_installed(target: Target, compiler: str | None = None, extra: Sequence[str] = ()) -> tc.Toolchain:
    """The toolchain `Builder.build` would try first; nothing is built. Raises as it does if there is none."""
    toolchains = tc.on_controller(target, controller(), compiler, extra)
    if there := next((one for one in toolchains if installed(one.command)), None):
        return there
    raise _none_works(target, [f"{toolchain.name}: not installed" for toolchain in toolchains])


def _none_works(target: Target, tried: Sequence[str]) -> BuildError:
    cross = SYSTEMS[target.os].cross.get(target.arch)
    if target == controller():
        compiler = "a C compiler (gcc or clang)"
    elif cross:
        compiler = f"a cross compiler ({cross.gcc[0]}-gcc)"
    else:
        compiler = "a compiler on the host (`build: host`), or send an agent (`build: prebuilt`)"
    return BuildError(
        f"no agent for {target} could be built on the controller. Tried:\n"
        + "".join(f"  - {line}\n" for line in tried or ["no compiler is known for this target"])
        + f"Install {compiler}"
        + (" or the extra: pip install 'corefleet[cross]'." if cross else ".")
    )


def controller() -> Target:
    """What the controller itself is, in the words of targets."""
    here = os.uname()
    arch = here.machine.lower()
    return Target(here.sysname.lower(), arch_named(arch) or arch)


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
        raise BuildError(f"{toolchain.name}: it did not end within {BUILD_TIMEOUT_S} s") from err


def _compile(
    folder: Path, toolchain: tc.Toolchain, sources: Mapping[str, bytes], build: str, watching: Watching
) -> bytes:
    for name, text in toolchain.sources(sources, build).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
    units = [f"../{name}" for name in sources if name.endswith(".c")]
    shares = min(os.cpu_count() or 1, len(units))
    cc = (*toolchain.command, *toolchain.cflags, "-I..")

    def objects(share: int) -> subprocess.CompletedProcess[bytes]:
        (folder / str(share)).mkdir()
        return run_tool(toolchain, (*cc, "-c", *units[share::shares]), watching, folder / str(share))

    with futures.ThreadPoolExecutor(shares) as compilers:  # each waits for one
        done = max(compilers.map(objects, range(shares)), key=lambda one: one.returncode != 0)
    if done.returncode == 0:
        parts = [str(path) for path in sorted(folder.glob("[0-9]*/*.o"))]
        done = run_tool(toolchain, (*cc, "-o", "fleet-agent", *parts), watching, folder)
    binary = folder / "fleet-agent"
    if done.returncode != 0 or not binary.is_file():
        raise BuildError(f"{toolchain.name}: exit code {done.returncode}: {last_lines(done.stderr)}")
    return binary.read_bytes()


def run_tool(
    toolchain: tc.Toolchain, arguments: Sequence[str], watching: Watching, folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in the toolchain's environment; its outputs are files, as its children may hold pipes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", **toolchain.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            process_group=0,  # compilers start others, which end with them only as a group
        )

        def end() -> None:
            with suppress(OSError):  # they have ended
                os.killpg(process.pid, signal.SIGKILL)

        with process, watching(end):
            try:
                process.wait(BUILD_TIMEOUT_S)
            except BaseException:
                end()
                raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, process.returncode, out.read(), err.read())


def installed(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """Resolve a command's program, or None if it is not there."""
    if command[: len(tc.ZIG)] == tc.ZIG:
        return (sys.executable, *command[1:]) if find_spec("ziglang") else None
    program = shutil.which(command[0])
    return (program, *command[1:]) if program else None

"""Builds an agent on the controller, once per build id, and keeps it in a cache. Used
by `deploy`.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from fleet.agent.build import toolchain as tc
from fleet.agent.build.source import SHIPPED
from fleet.agent.build.systems import SYSTEMS, ZIG
from fleet.errors import BuildError
from fleet.late import futures, tempfile
from fleet.model import Host, Target, normalize_arch
from fleet.model.version import VERSION
from fleet.remote.cancellation import Cancellation
from fleet.remote.connect import connect
from fleet.remote.connection import Connection
from fleet.text import last_lines

Connect = Callable[[Host], AbstractContextManager[Connection]]
Watch = Callable[[Callable[[], None]], AbstractContextManager[object]]
Notify = Callable[[str], None]

PATIENCE_S, POLL_S = 60.0, 0.2  # with another host that builds for all of its kind
# the first build for a target with zig compiles its C library as well: a minute or two
BUILD_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Built:
    """A finished agent on the controller: its bytes, its build ID and the toolchain
    that built it.
    """

    binary: bytes
    build: str
    toolchain: tc.Toolchain


class Builder:
    """Builds agents, from any thread, one at a time for each target. cache: a private
    directory.
    """

    def __init__(
        self,
        cache: Path | None = None,
        connect: Connect = connect,
        cancellation: Cancellation | None = None,
    ) -> None:
        self.connect = connect
        self.cancellation = cancellation or Cancellation()
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self._cache = cache or Path(home) / "fleet" / "agents"
        self._guard = threading.Lock()
        self._locks: dict[Target | str, threading.Lock] = {}
        self._failures: dict[str, BuildError] = {}
        self._built: dict[str, Built] = {}

    def build(
        self,
        target: Target,
        sources: tc.Sources,
        compiler: str | None = None,
        extra: Sequence[str] = (),
        notify: Notify | None = None,
    ) -> Built:
        """Return the agent for a target: shipped, cached or newly built. Raises
        BuildError.

        compiler: the only one to try. extra: more cflags. notify: called before a build
        that takes long.
        """
        with self._lock_for(target):
            if built := self.find_finished(target, sources, compiler, extra):
                return built
            tried = []
            for toolchain in tc.controller_toolchains(
                target, controller_target(), compiler, extra
            ):
                command = resolve_command(toolchain.command)
                if command is None:
                    tried.append(f"{toolchain.name}: not installed")
                    continue
                if notify and "zig" in toolchain.name:
                    notify(
                        f"compiling the agent for {target} with zig; the first time"
                        " takes about a minute"
                    )
                build, command_here = (
                    tc.build_id(sources, toolchain),
                    replace(toolchain, command=command),
                )
                try:
                    binary = compile_here(
                        command_here,
                        sources,
                        build,
                        self.cancellation.let_close_all_call,
                    )
                    return self.store_in_cache(
                        tc.agent_file_name(build), binary, build, toolchain
                    )
                except BuildError as err:
                    tried.append(str(err))
            raise _no_toolchain_error(target, tried)

    def find_finished(
        self,
        target: Target,
        sources: tc.Sources,
        compiler: str | None = None,
        extra: Sequence[str] = (),
    ) -> Built | None:
        """Return a shipped or cached agent, as `build` would; None if it would have to
        be compiled.
        """
        for folder in filter(os.path.isdir, (SHIPPED, self._cache)):
            for toolchain in tc.controller_toolchains(
                target, controller_target(), compiler, extra
            ):
                build = tc.build_id(sources, toolchain)
                if cached := self.read_cached(
                    tc.agent_file_name(build), build, toolchain, folder
                ):
                    return cached
        return None

    def read_cached(
        self, name: str, build: str, toolchain: tc.Toolchain, folder: Path | None = None
    ) -> Built | None:
        """Return the agent cached under this name, reading its file only once; None if
        there is no file.
        """
        path = (folder or self._cache) / name
        if name not in self._built and os.path.isfile(path):  # noqa: PTH113  Path.is_file raises there
            if folder is SHIPPED:
                toolchain = replace(
                    toolchain, name=f"zig, shipped with fleet {VERSION}"
                )
            self._built[name] = Built(path.read_bytes(), build, toolchain)
        return self._built.get(name)

    @contextmanager
    def wait_turn(self, name: str) -> Iterator[None]:
        """Wait, at most PATIENCE_S, while another thread builds under this name. Raises
        Cancelled.
        """
        lock, deadline = self._lock_for(name), time.monotonic() + PATIENCE_S
        while (
            not (acquired := lock.acquire(timeout=POLL_S))
            and time.monotonic() < deadline
        ):
            self.cancellation.raise_if_requested()
        try:
            yield
        finally:
            if acquired:
                lock.release()

    def build_once(
        self, toolchain: tc.Toolchain, sources: tc.Sources, make: Callable[[str], bytes]
    ) -> Built:
        """Return the cached agent, else build it by `make(build ID)`. Repeat an earlier
        build's error.
        """
        build = tc.build_id(sources, toolchain)
        name = tc.agent_file_name(build)
        with self._lock_for(build):
            if build in self._failures:
                raise self._failures[build]
            if cached := self.read_cached(name, build, toolchain):
                return cached
            try:
                return self.store_in_cache(name, make(build), build, toolchain)
            except BuildError as err:
                self._failures[build] = err
                raise

    def _lock_for(self, key: Target | str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(key, threading.Lock())

    def store_in_cache(
        self, name: str, binary: bytes, build: str, toolchain: tc.Toolchain
    ) -> Built:
        """Keep a binary for this session and, where the cache is writable, for later
        ones.
        """
        built = self._built[name] = Built(binary, build, toolchain)
        with suppress(OSError):
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(
                prefix="build-", dir=self._cache
            ) as scratch:
                scratch_file = Path(scratch) / name
                scratch_file.write_bytes(binary)
                scratch_file.replace(self._cache / name)
        return built


def find_first_toolchain(
    target: Target, compiler: str | None, extra: Sequence[str]
) -> tc.Toolchain:
    """Return the toolchain that `Builder.build` would try first. Raises BuildError if
    none is installed.
    """
    toolchains = tc.controller_toolchains(target, controller_target(), compiler, extra)
    if toolchain := next(
        (candidate for candidate in toolchains if resolve_command(candidate.command)),
        None,
    ):
        return toolchain
    raise _no_toolchain_error(
        target, [f"{toolchain.name}: not installed" for toolchain in toolchains]
    )


def _no_toolchain_error(target: Target, tried: Sequence[str]) -> BuildError:
    cross = SYSTEMS[target.os].cross.get(target.arch)
    if target == controller_target():
        compiler = "a C compiler (gcc or clang)"
    elif cross:
        compiler = f"a cross compiler ({cross[0][0]})"
    else:
        compiler = (
            "a compiler on the host (`build: host`), or send an agent (`build:"
            " prebuilt`)"
        )
    return BuildError(
        f"no agent for {target} could be built on the controller. Tried:\n"
        + "".join(
            f"  - {line}\n"
            for line in tried or ["no compiler is known for this target"]
        )
        + f"Install {compiler}"
        + (" or the extra: pip install 'corefleet[cross]'." if cross else ".")
    )


def controller_target() -> Target:
    """Return the operating system and architecture of the controller itself."""
    uname = os.uname()
    arch = uname.machine.lower()
    return Target(uname.sysname.lower(), normalize_arch(arch) or arch)


def compile_here(
    toolchain: tc.Toolchain, sources: tc.Sources, build: str, watching: Watch
) -> bytes:
    """Compile on the controller in a temporary folder. Raises BuildError with the
    compiler's output.
    """
    loops, rooms = (
        toolchain.list_timed_files(sources),
        toolchain.merge_untimed_files(sources),
    )
    cc, cpus = (*toolchain.command, *toolchain.cflags, "-I.."), os.cpu_count() or 1
    commands = list[tuple[Path, tuple[str, ...]]]()
    try:
        with tempfile.TemporaryDirectory(prefix="fleet-build-") as scratch:
            folder = Path(scratch)
            for name, text in toolchain.files_to_compile(sources, build).items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(text)
            for flags, units in (((tc.ROOM_FLAG,), [*rooms]), ((), loops)):
                for share in filter(None, (units[i::cpus] for i in range(cpus))):
                    objects = folder / str(len(commands))
                    objects.mkdir()
                    commands.append(
                        (
                            objects,
                            (*cc, *flags, "-c", *(f"../{unit}" for unit in share)),
                        )
                    )
            with futures.ThreadPoolExecutor(cpus) as compilers:  # each waits for one
                runs = compilers.map(
                    lambda job: run_tool(toolchain, job[1], watching, job[0]), commands
                )
                done = max(runs, key=lambda completed: completed.returncode != 0)
            if done.returncode == 0:
                parts = [str(path) for path in sorted(folder.glob("[0-9]*/*.o"))]
                done = run_tool(
                    toolchain, (*cc, "-o", "fleet-agent", *parts), watching, folder
                )
            binary = folder / "fleet-agent"
            if done.returncode != 0 or not binary.is_file():
                raise BuildError(
                    f"{toolchain.name}: exit code {done.returncode}:"
                    f" {last_lines(done.stderr)}"
                )
            return binary.read_bytes()
    except OSError as err:
        raise BuildError(f"{toolchain.name}: {err.strerror or err}") from err
    except subprocess.TimeoutExpired as err:
        raise BuildError(
            f"{toolchain.name}: it did not end within {BUILD_TIMEOUT_S} s"
        ) from err


def run_tool(
    toolchain: tc.Toolchain,
    arguments: Sequence[str],
    watching: Watch,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in the toolchain's environment. Output goes to files: children may
    keep pipes open.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", **toolchain.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            # compilers start others, which end with them only as a group
            process_group=0,
        )

        def kill_group() -> None:
            with suppress(OSError):  # they have ended
                os.killpg(process.pid, signal.SIGKILL)

        with process, watching(kill_group):
            try:
                process.wait(BUILD_TIMEOUT_S)
            except BaseException:
                kill_group()
                raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            arguments, process.returncode, out.read(), err.read()
        )


def resolve_command(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """Replace a command's program by its path; return None if it is not installed."""
    if command[: len(ZIG)] == ZIG:
        return (sys.executable, *command[1:]) if find_spec("ziglang") else None
    program = shutil.which(command[0])
    return (program, *command[1:]) if program else None

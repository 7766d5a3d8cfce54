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
from typing import NamedTuple

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
EndOnCancel = Callable[[Callable[[], None]], AbstractContextManager[object]]
"""Makes a context from a function that ends something: while the context is open, a
cancelled session may call the function from another thread.
"""
Notify = Callable[[str], None]

PATIENCE_S = 60.0  # with another host that builds for all of its kind
POLL_S = 0.2
# the first build for a target with zig compiles its C library as well: a minute or two
BUILD_TIMEOUT_S = 600
_ASK_S = 10  # a compiler what it builds for


@dataclass(frozen=True, slots=True)
class Built:
    """A finished agent on the controller: its bytes, its build ID and the toolchain
    that built it.
    """

    binary: bytes
    build: str
    toolchain: tc.Toolchain


class Builder:
    """Builds agents, from any thread, one at a time for each target.

    cache: a private directory for finished agents; None: `fleet/agents` in the user's
    cache.
    """

    def __init__(
        self,
        cache: Path | None = None,
        connect: Connect = connect,
        cancellation: Cancellation | None = None,
    ) -> None:
        """Keep finished agents in the folder `cache`, or else in the user's cache.

        connect: opens a connection to a build host. cancellation: ends builds when the
        session is cancelled.
        """
        self.connect = connect
        self.cancellation = cancellation or Cancellation()
        if cache is None:
            home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            cache = Path(home) / "fleet" / "agents"
        self._cache = cache
        self._locks_guard = threading.Lock()
        # by target, build ID or name in the cache; whoever builds such an agent holds
        # the lock
        self._locks: dict[Target | str, threading.Lock] = {}
        self._failure_by_build: dict[str, BuildError] = {}
        self._built_by_name: dict[str, Built] = {}

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
            problems = []
            for toolchain in _list_toolchains(target, compiler, extra):
                try:
                    return self._compile(toolchain, sources, notify)
                except BuildError as err:
                    problems.append(str(err))
            raise _no_toolchain_error(target, problems)

    def _compile(
        self, toolchain: tc.Toolchain, sources: tc.Sources, notify: Notify | None
    ) -> Built:
        """Compile with this toolchain. Raises BuildError if it is missing or fails."""
        command = resolve_command(toolchain.command)
        if command is None:
            raise BuildError(f"{toolchain.name}: not installed")
        if notify and "zig" in toolchain.name:
            notify(
                f"compiling the agent for {toolchain.target} with zig; the first time"
                " takes about a minute"
            )
        build = tc.build_id(sources, toolchain)
        installed = replace(toolchain, command=command)
        # makes a context in which a cancelled session calls the function given to it
        end_on_cancel = self.cancellation.call_on_close_all
        try:
            binary = compile_here(installed, sources, build, end_on_cancel)
        except BuildError as err:
            compiler_arch = ask_target(command)
            if compiler_arch in (None, toolchain.target.arch):
                raise
            # a compiler for another CPU prints many errors of its assembler; their
            # common cause says more
            raise BuildError(
                f"{toolchain.name}: builds for {compiler_arch}, the host is"
                f" {toolchain.target.arch}. Name another compiler, or none."
            ) from err
        name = tc.agent_file_name(build)
        return self.store_in_cache(name, binary, build, toolchain)

    def find_finished(
        self,
        target: Target,
        sources: tc.Sources,
        compiler: str | None = None,
        extra: Sequence[str] = (),
    ) -> Built | None:
        """Return the shipped or cached agent that `build` would return; None if `build`
        would have to compile it. A shipped agent of any of the toolchains goes before
        a cached one.
        """
        toolchains = _list_toolchains(target, compiler, extra)
        for folder in filter(os.path.isdir, (SHIPPED, self._cache)):
            for toolchain in toolchains:
                build = tc.build_id(sources, toolchain)
                name = tc.agent_file_name(build)
                cached = self.read_cached(name, build, toolchain, folder)
                if cached is not None:
                    return cached
        return None

    def read_cached(
        self, name: str, build: str, toolchain: tc.Toolchain, folder: Path | None = None
    ) -> Built | None:
        """Return the agent cached under this name; None if there is no file. The file
        is read once in a session. folder: where to look instead of the cache. If it is
        SHIPPED, which has the agents that come with fleet, the toolchain's name says
        so.
        """
        if name in self._built_by_name:
            return self._built_by_name[name]
        path = (folder or self._cache) / name
        # Path.is_file may raise if we may not enter the folder
        if not os.path.isfile(path):  # noqa: PTH113
            return None
        if folder is SHIPPED:
            toolchain = replace(toolchain, name=f"zig, shipped with fleet {VERSION}")
        built = Built(path.read_bytes(), build, toolchain)
        self._built_by_name[name] = built
        return built

    @contextmanager
    def wait_turn(self, name: str) -> Iterator[None]:
        """Wait, at most PATIENCE_S, while another thread builds under this name. If the
        thread takes longer, the block runs beside it. Raises Cancelled.
        """
        lock = self._lock_for(name)
        deadline = time.monotonic() + PATIENCE_S
        acquired = lock.acquire(timeout=POLL_S)
        while not acquired and time.monotonic() < deadline:
            self.cancellation.raise_if_requested()
            acquired = lock.acquire(timeout=POLL_S)
        try:
            yield
        finally:
            if acquired:
                lock.release()

    def build_once(
        self, toolchain: tc.Toolchain, sources: tc.Sources, make: Callable[[str], bytes]
    ) -> Built:
        """Return the cached agent, else build it by `make(build ID)`, which returns the
        binary. If such a build failed before in this session, raise its error again.
        """
        build = tc.build_id(sources, toolchain)
        name = tc.agent_file_name(build)
        with self._lock_for(build):
            if build in self._failure_by_build:
                raise self._failure_by_build[build]
            if cached := self.read_cached(name, build, toolchain):
                return cached
            try:
                return self.store_in_cache(name, make(build), build, toolchain)
            except BuildError as err:
                self._failure_by_build[build] = err
                raise

    def _lock_for(self, key: Target | str) -> threading.Lock:
        with self._locks_guard:
            return self._locks.setdefault(key, threading.Lock())

    def store_in_cache(
        self, name: str, binary: bytes, build: str, toolchain: tc.Toolchain
    ) -> Built:
        """Keep a binary for this session and, where the cache is writable, for later
        sessions.
        """
        built = Built(binary, build, toolchain)
        self._built_by_name[name] = built
        with suppress(OSError):
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(
                prefix="build-", dir=self._cache
            ) as scratch:
                # a rename, so that no other process reads half a file
                scratch_file = Path(scratch) / name
                scratch_file.write_bytes(binary)
                scratch_file.replace(self._cache / name)
        return built


def ask_target(command: Sequence[str]) -> str | None:
    """Ask a compiler which architecture it builds for; None if it does not say."""
    try:
        done = subprocess.run(
            [*command, "-dumpmachine"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    machine, dash, _ = done.stdout.decode(errors="replace").strip().partition("-")
    return normalize_arch(machine) if dash else None


def find_first_toolchain(
    target: Target, compiler: str | None, extra: Sequence[str]
) -> tc.Toolchain:
    """Return the toolchain that `Builder.build` would try first: the first one whose
    compiler is installed. Raises BuildError if none is.
    """
    problems = []
    for toolchain in _list_toolchains(target, compiler, extra):
        if resolve_command(toolchain.command) is not None:
            return toolchain
        problems.append(f"{toolchain.name}: not installed")
    raise _no_toolchain_error(target, problems)


def _list_toolchains(
    target: Target, compiler: str | None, extra: Sequence[str]
) -> list[tc.Toolchain]:
    """List the toolchains to try here, best first, as `Builder.build` takes them."""
    return tc.controller_toolchains(target, controller_target(), compiler, extra)


def _no_toolchain_error(target: Target, problems: Sequence[str]) -> BuildError:
    """Return the error that no toolchain built an agent for this target. problems: a
    line for each toolchain that was tried.
    """
    reasons = problems or ["no compiler is known for this target"]
    lines = [
        f"no agent for {target} could be built on the controller. Tried:",
        *(f"  - {reason}" for reason in reasons),
        f"Install {_describe_compiler_to_install(target)}.",
    ]
    return BuildError("\n".join(lines))


def _describe_compiler_to_install(target: Target) -> str:
    """Say what the user can install, or set, to get an agent for this target."""
    cross_commands = SYSTEMS[target.os].cross.get(target.arch, ())
    if target == controller_target():
        compiler = "a C compiler (gcc or clang)"
    elif cross_commands:
        best_command = cross_commands[0]
        program = best_command[0]
        compiler = f"a cross compiler ({program})"
    else:
        compiler = (
            "a compiler on the host (`build: host`), or send an agent (`build:"
            " prebuilt`)"
        )
    if cross_commands:
        compiler += " or the extra: pip install 'corefleet[cross]'"
    return compiler


def controller_target() -> Target:
    """Return the operating system and architecture of the controller itself."""
    uname = os.uname()
    arch = uname.machine.lower()
    return Target(uname.sysname.lower(), normalize_arch(arch) or arch)


def compile_here(
    toolchain: tc.Toolchain, sources: tc.Sources, build: str, end_on_cancel: EndOnCancel
) -> bytes:
    """Compile on the controller in a temporary folder. Raises BuildError with the
    compiler's output.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="fleet-build-") as scratch:
            folder = Path(scratch)
            _write_files(folder, toolchain.files_to_compile(sources, build))
            done = _compile_all(folder, toolchain, sources, end_on_cancel)
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


def _write_files(folder: Path, files: tc.Sources) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)


class _CompilerRun(NamedTuple):
    """One start of the compiler, which writes its object files into `folder`."""

    folder: Path
    command: Sequence[str]


def _compile_all(
    folder: Path,
    toolchain: tc.Toolchain,
    sources: tc.Sources,
    end_on_cancel: EndOnCancel,
) -> subprocess.CompletedProcess[bytes]:
    """Compile the files in the folder, on all CPUs, and link `fleet-agent`; return the
    first compiler that failed, else the linker.
    """
    # the compilers run in folders of their own, one level below the agent's headers
    cc = (*toolchain.command, *toolchain.cflags, "-I..")
    compiler_runs = _plan_compilers(folder, cc, toolchain, sources)

    def run_compiler(planned: _CompilerRun) -> subprocess.CompletedProcess[bytes]:
        return run_tool(toolchain, planned.command, end_on_cancel, planned.folder)

    # each thread only waits for a compiler
    with futures.ThreadPoolExecutor(_count_cpus()) as threads:
        results = list(threads.map(run_compiler, compiler_runs))
    for result in results:
        if result.returncode != 0:
            return result
    object_files = [
        str(path) for planned in compiler_runs for path in planned.folder.glob("*.o")
    ]
    link = (*cc, "-o", "fleet-agent", *sorted(object_files))
    return run_tool(toolchain, link, end_on_cancel, folder)


def _plan_compilers(
    folder: Path, cc: Sequence[str], toolchain: tc.Toolchain, sources: tc.Sources
) -> list[_CompilerRun]:
    """Return the compilers to start side by side, each in a new folder of its own.

    Only the timed files, whose code runs while the time is taken, are compiled with
    full effort. The other files are merged into few, and compiled fast: their speed
    does not change what is measured.
    """
    merged_files = list(toolchain.merge_untimed_files(sources))
    timed_files = toolchain.list_timed_files(sources)
    fast_cc = (*cc, tc.FAST_COMPILE_FLAG)
    commands = [
        *_divide_among_cpus(fast_cc, merged_files),
        *_divide_among_cpus(cc, timed_files),
    ]
    compiler_runs = list[_CompilerRun]()
    for number, command in enumerate(commands):
        run_folder = folder / str(number)
        run_folder.mkdir()
        compiler_runs.append(_CompilerRun(run_folder, command))
    return compiler_runs


def _divide_among_cpus(
    cc: Sequence[str], files: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield for each CPU a command that compiles its share of the files; fewer if there
    are fewer files. A command runs in a folder beside the files.
    """
    cpu_count = _count_cpus()
    for cpu in range(cpu_count):
        share = [f"../{name}" for name in files[cpu::cpu_count]]
        if share:
            yield (*cc, "-c", *share)


def _count_cpus() -> int:
    return os.cpu_count() or 1


def run_tool(
    toolchain: tc.Toolchain,
    arguments: Sequence[str],
    end_on_cancel: EndOnCancel,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in the toolchain's environment, in the current folder if `folder`
    is None. Its output goes to files, as its children may keep pipes open.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", **toolchain.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            # a compiler starts other programs; a group of processes can be ended whole
            process_group=0,
        )

        def kill_group() -> None:
            with suppress(OSError):  # all processes of the group have ended
                os.killpg(process.pid, signal.SIGKILL)

        with process, end_on_cancel(kill_group):
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
    program, *arguments = command
    # ZIG is `python -m ziglang`, where `python` stands for this process's own
    is_zig_of_pip = command[: len(ZIG)] == ZIG
    if is_zig_of_pip:
        path = sys.executable if find_spec("ziglang") else None
    else:
        path = shutil.which(program)
    if path is None:
        return None
    return (path, *arguments)

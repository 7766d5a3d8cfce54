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
        if cache is None:
            home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            cache = Path(home) / "fleet" / "agents"
        self._cache = cache
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
            for toolchain in _list_toolchains(target, compiler, extra):
                try:
                    return self._compile(toolchain, sources, notify)
                except BuildError as err:
                    tried.append(str(err))
            raise _no_toolchain_error(target, tried)

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
        watching = self.cancellation.let_close_all_call
        try:
            binary = compile_here(installed, sources, build, watching)
        except BuildError as err:
            other = ask_target(command)
            if other in (None, toolchain.target.arch):
                raise
            # its own errors would be many, of an assembler
            raise BuildError(
                f"{toolchain.name}: builds for {other}, the host is"
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
        """Return a shipped or cached agent, as `build` would; None if it would have to
        be compiled.
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
        """Return the agent cached under this name, reading its file only once; None if
        there is no file.
        """
        if name in self._built:
            return self._built[name]
        path = (folder or self._cache) / name
        if not os.path.isfile(path):  # noqa: PTH113  Path.is_file raises there
            return None
        if folder is SHIPPED:
            toolchain = replace(toolchain, name=f"zig, shipped with fleet {VERSION}")
        built = Built(path.read_bytes(), build, toolchain)
        self._built[name] = built
        return built

    @contextmanager
    def wait_turn(self, name: str) -> Iterator[None]:
        """Wait, at most PATIENCE_S, while another thread builds under this name. Raises
        Cancelled.
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
        built = Built(binary, build, toolchain)
        self._built[name] = built
        with suppress(OSError):
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(
                prefix="build-", dir=self._cache
            ) as scratch:
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
    """Return the toolchain that `Builder.build` would try first. Raises BuildError if
    none is installed.
    """
    tried = []
    for toolchain in _list_toolchains(target, compiler, extra):
        if resolve_command(toolchain.command) is not None:
            return toolchain
        tried.append(f"{toolchain.name}: not installed")
    raise _no_toolchain_error(target, tried)


def _list_toolchains(
    target: Target, compiler: str | None, extra: Sequence[str]
) -> list[tc.Toolchain]:
    """List the toolchains to try here, best first, as `Builder.build` takes them."""
    return tc.controller_toolchains(target, controller_target(), compiler, extra)


def _no_toolchain_error(target: Target, tried: Sequence[str]) -> BuildError:
    cross = SYSTEMS[target.os].cross.get(target.arch)
    if target == controller_target():
        compiler = "a C compiler (gcc or clang)"
    elif cross:
        program = cross[0][0]
        compiler = f"a cross compiler ({program})"
    else:
        compiler = (
            "a compiler on the host (`build: host`), or send an agent (`build:"
            " prebuilt`)"
        )
    if cross:
        compiler += " or the extra: pip install 'corefleet[cross]'"
    lines = [f"no agent for {target} could be built on the controller. Tried:"]
    reasons = tried or ["no compiler is known for this target"]
    lines += [f"  - {reason}" for reason in reasons]
    lines.append(f"Install {compiler}.")
    return BuildError("\n".join(lines))


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
    try:
        with tempfile.TemporaryDirectory(prefix="fleet-build-") as scratch:
            folder = Path(scratch)
            _write_files(folder, toolchain.files_to_compile(sources, build))
            done = _compile_all(folder, toolchain, sources, watching)
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


def _compile_all(
    folder: Path, toolchain: tc.Toolchain, sources: tc.Sources, watching: Watch
) -> subprocess.CompletedProcess[bytes]:
    """Compile the files in the folder, on all CPUs, and link `fleet-agent`; return what
    failed first, else the linking.
    """
    cc = (*toolchain.command, *toolchain.cflags, "-I..")
    jobs = _plan_compilers(folder, cc, toolchain, sources)

    def compile_share(
        job: tuple[Path, Sequence[str]],
    ) -> subprocess.CompletedProcess[bytes]:
        objects, command = job
        return run_tool(toolchain, command, watching, objects)

    with futures.ThreadPoolExecutor(_count_cpus()) as compilers:  # each waits for one
        results = list(compilers.map(compile_share, jobs))
    for result in results:
        if result.returncode != 0:
            return result
    objects = sorted(folder.glob("[0-9]*/*.o"))
    link = (*cc, "-o", "fleet-agent", *map(str, objects))
    return run_tool(toolchain, link, watching, folder)


def _plan_compilers(
    folder: Path, cc: Sequence[str], toolchain: tc.Toolchain, sources: tc.Sources
) -> list[tuple[Path, Sequence[str]]]:
    """Return for each compiler to start a new folder of its objects, in which it runs,
    and its command.
    """
    rooms = list(toolchain.merge_untimed_files(sources))
    loops = toolchain.list_timed_files(sources)
    commands = [
        *_divide_among_cpus((*cc, tc.ROOM_FLAG), rooms),
        *_divide_among_cpus(cc, loops),
    ]
    jobs = list[tuple[Path, Sequence[str]]]()
    for number, command in enumerate(commands):
        objects = folder / str(number)
        objects.mkdir()
        jobs.append((objects, command))
    return jobs


def _divide_among_cpus(
    cc: Sequence[str], files: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield a command for each CPU that compiles its share of the files."""
    count = _count_cpus()
    for first in range(count):
        share = [f"../{name}" for name in files[first::count]]
        if share:
            yield (*cc, "-c", *share)


def _count_cpus() -> int:
    return os.cpu_count() or 1


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
    program, *arguments = command
    if command[: len(ZIG)] != ZIG:
        path = shutil.which(program)
    elif find_spec("ziglang"):
        path = sys.executable
    else:
        path = None
    if path is None:
        return None
    return (path, *arguments)

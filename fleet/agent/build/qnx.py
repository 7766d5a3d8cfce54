"""Chooses where the agent for a QNX host is built: four places in order, or the one the inventory names."""

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Builder, Connect, Watch, compile_here, run_tool
from fleet.agent.build.on_host import build_on_host, render_script
from fleet.agent.build.systems import SYSTEMS, VARIANTS, major_version
from fleet.agent.build.upload import read_prebuilt, send_built, send_prebuilt
from fleet.errors import BuildError, DeployError, FleetError
from fleet.model import Agent, BuildPlace, Facts, Host, Target
from fleet.remote.cancellation import Cancellation
from fleet.remote.connection import Connection
from fleet.text import last_lines

CFLAGS = SYSTEMS["qnx"].cflags
HOMES = ("~/qnx800", "~/qnx710", "/opt/qnx800", "/opt/qnx710")
HOST = "host/linux/x86_64"  # the platforms for Linux run on x86-64 only
TARGETS: Mapping[int, str] = {8: "qnx", 7: "qnx7"}
"""The folder in `target/` of a platform, by QNX's major version."""


@dataclass(frozen=True, slots=True)
class Sdp:
    """A software development platform. host, target: QNX_HOST and QNX_TARGET. release: its major version."""

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
            self._build_environment(),
        )

    def _build_environment(self) -> dict[str, str]:
        """Return the variables that qcc needs beside ours, such as HOME and those that name a licence."""
        settings = os.environ.get("QNX_CONFIGURATION_EXCLUSIVE") or str(Path.home() / ".qnx")
        return {
            "QNX_HOST": str(self.host),
            "QNX_TARGET": str(self.target),
            "QNX_CONFIGURATION_EXCLUSIVE": settings,
            "PATH": f"{self.host / 'usr/bin'}:{os.environ.get('PATH', os.defpath)}",
        }


def find_sdp(path: str | None, release: int | None) -> Sdp:
    """Return the first platform for a major version (None: any). Raises BuildError with what was tried."""
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
    """Compile on the controller if `qcc -V` lists the variant. Raises BuildError with qcc's output."""
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
    """Return QNX_HOST and QNX_TARGET of each place to search, or None, by the place's name in messages."""
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


_ORDER = (BuildPlace.HOST, BuildPlace.CONTROLLER, BuildPlace.BUILD_HOST, BuildPlace.PREBUILT)
_PROOF = b"#include <pthread.h>\nint main(void) { return pthread_self() == 0; }\n"
_PROOF_TIMEOUT_S = 60.0
BUILD_TIMEOUT_S = 300.0


class _AbsentError(BuildError):
    """A place that is not set up, so that there is nothing to try."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A host that needs an agent. release: the major version of its QNX, None if unknown."""

    host: Host
    facts: Facts
    sources: Mapping[str, bytes]

    @property
    def release(self) -> int | None:
        return major_version(self.facts.kernel or self.host.os_release)

    def find_sdp(self) -> Sdp:
        try:
            return find_sdp(self.host.toolchain.sdp, self.release)
        except BuildError as err:
            kind = _AbsentError if self.host.toolchain.sdp is None else BuildError
            raise kind(f"an SDP on the controller: {err}") from err

    def require_build_host(self) -> Host:
        if self.host.build_host is None:
            raise _AbsentError("a build host: no `toolchain: {build_host: NAME}`")
        return self.host.build_host

    def require_compilers(self) -> Sequence[str]:
        cc = self.host.toolchain.cc
        commands = [cc] if cc is not None else [compiler.command for compiler in self.facts.compilers]
        if not commands:
            raise _AbsentError("a compiler on the host: none of clang, gcc, cc, qcc answered there")
        return commands


def deploy(
    connection: Connection,
    host: Host,
    facts: Facts,
    sources: Mapping[str, bytes],
    builder: Builder,
    notify: Callable[[str], None],
) -> Agent:
    """Put the agent onto a QNX host. Raises DeployError, or one BuildError that lists every place tried.

    notify: receives the failures of earlier places, unless nothing is set up there.
    """
    job = _make_job(host, facts, sources)
    failed: list[BuildError] = []
    for place in _list_build_places(host):
        try:
            agent = _plan_place(place, job)[1](connection, builder)
        except BuildError as err:
            failed.append(err)
            continue
        except DeployError:
            _report_failures(host, failed, notify)
            raise
        _report_failures(host, failed, notify)
        if job.release is None and place in (BuildPlace.CONTROLLER, BuildPlace.BUILD_HOST):
            notify(f"{host.name}: the host does not report its QNX version; the agent was {agent.place}.")
        return agent
    raise _no_agent_error(job, failed)


def _make_job(host: Host, facts: Facts, sources: Mapping[str, bytes]) -> _Job:
    """Return the job. Raises BuildError if the host reports another release than the inventory."""
    actual, expected = (release.split(".") if release else [] for release in (facts.kernel, host.os_release))
    if actual and actual[: len(expected)] != expected:
        raise BuildError(
            f"{host.name}: `os_release: {host.os_release}` in the inventory, but the host runs QNX "
            f"{facts.kernel}. Correct the entry, or remove it."
        )
    return _Job(host, facts, sources)


def _report_failures(host: Host, failed: Sequence[BuildError], notify: Callable[[str], None]) -> None:
    for failure in failed:
        if not isinstance(failure, _AbsentError):
            notify(f"{host.name}: {failure}\nThe agent came from the next place instead.")


def preview(host: Host, facts: Facts, sources: Mapping[str, bytes]) -> str:
    """Return the agent's file name on the host, or what `deploy` would do. Raises BuildError."""
    job = _make_job(host, facts, sources)
    failed: list[BuildError] = []
    for place in _list_build_places(host):
        try:
            return _plan_place(place, job)[0]
        except BuildError as err:
            failed.append(err)
    raise _no_agent_error(job, failed)


def _list_build_places(host: Host) -> Sequence[BuildPlace]:
    return _ORDER if host.build is BuildPlace.AUTO else (host.build,)


def _plan_place(place: BuildPlace, job: _Job) -> tuple[str, Callable[[Connection, Builder], Agent]]:
    """Return the agent's file name on the host, or what this place would do, and the function that does it.

    Raises BuildError if the place is not set up.
    """
    host, facts, sources = job.host, job.facts, job.sources
    if place is BuildPlace.HOST:
        command, *_ = job.require_compilers()
        words = (
            _find_built_agent(job, command)
            or f"would be built on the host with {command}, if that proves to work"
        )
        return words, lambda connection, builder: _build_with_working_compiler(
            connection, job, builder.cancellation
        )
    if place is BuildPlace.PREBUILT:
        if host.toolchain.binary is None:
            raise _AbsentError("a prebuilt binary: no `toolchain: {binary: PATH}`")
        binary_path, _ = read_prebuilt(host, facts)
        return f"would be the prebuilt {binary_path}", lambda connection, _: send_prebuilt(
            connection, host, facts
        )
    if place is BuildPlace.CONTROLLER:
        toolchain = job.find_sdp().toolchain(facts.target, host.toolchain.cflags)
        name = tc.find_agent_of_build(tc.build_id(sources, toolchain), facts.workdir_entries)
        words = name or f"would be built with {toolchain.name} and sent"

        def compile_agent(builder: Builder, build: str) -> bytes:
            return check_variant_and_compile(toolchain, sources, build, builder.cancellation.close_on_cancel)
    else:
        build_host = job.require_build_host()
        toolchain = build_host_toolchain(build_host, facts.target, job.release, host.toolchain.cflags)
        words = f"would be built with qcc on the build host {build_host.name} and sent"

        def compile_agent(builder: Builder, build: str) -> bytes:
            connect = builder.connect
            return compile_on_build_host(connect, build_host, toolchain, job.release, sources, build)

    def build_and_send(connection: Connection, builder: Builder) -> Agent:
        built = builder.build_once(toolchain, sources, partial(compile_agent, builder))
        return send_built(connection, host, facts, built)

    return words, build_and_send


def _find_built_agent(job: _Job, command: str) -> str | None:
    toolchain = tc.host_toolchain(command, job.facts.target, job.host.toolchain.cflags)
    return tc.find_agent_of_build(tc.build_id(job.sources, toolchain), job.facts.workdir_entries)


def _build_with_working_compiler(connection: Connection, job: _Job, cancellation: Cancellation) -> Agent:
    """Build with the first compiler whose program runs: others may lack headers."""
    commands = job.require_compilers()
    working_command = next((command for command in commands if _find_built_agent(job, command)), None)
    if working_command is None:
        done = connection.run(
            "exec /bin/sh", stdin=proof_script(commands, job.facts.workdir), timeout_s=_PROOF_TIMEOUT_S
        )
        working_command = done.stdout.decode("utf-8", "replace").rpartition("works ")[2].strip()
        if done.exit_code != 0 or working_command not in commands:
            output = last_lines(done.stderr)
            tried = ", ".join(commands)
            raise BuildError(
                f"a compiler on the host: none of {tried} made a program that runs there: {output}"
            )
    return build_on_host(connection, job.host, job.facts, job.sources, working_command, cancellation)


def proof_script(commands: Sequence[str], workdir: str) -> bytes:
    """Return sh text that prints `works COMMAND` for the first compiler whose program runs, or fails."""
    tried = f"set -- {shlex.join(commands)}"
    return render_script("proof.sh", {"WORKDIR": workdir}, {"proof.c": _PROOF}, tried)


def _no_agent_error(job: _Job, failed: Sequence[BuildError]) -> BuildError:
    facts, release = job.facts, job.release
    version_number = facts.kernel or job.host.os_release
    version = f"QNX {version_number}" if version_number else "QNX of unknown version"
    return BuildError(
        f"{job.host.name}: no agent for {facts.target} ({version}). Looked for:\n"
        + "".join(f"  - {err}\n" for err in failed)
        + f"Install an SDP for QNX {release or '7 or 8'} in one of these places, or name an SDP, a build "
        "host or a prebuilt agent for this host in the inventory."
    )


def build_host_toolchain(
    build_host: Host, target: Target, release: int | None, extra: tuple[str, ...]
) -> tc.Toolchain:
    """Return a build host's qcc. Only the build host itself knows which SDP that belongs to."""
    name = f"qcc on the build host {build_host.name}" + (f" (QNX {release})" if release else "")
    command = ("qcc", f"-V{VARIANTS[target.arch]}")
    place = f"{release or ''}@{build_host.name}:{build_host.toolchain.sdp or ''}"
    return tc.Toolchain(name, command, (*CFLAGS, *extra), target, place)


def compile_on_build_host(
    connect: Connect,
    build_host: Host,
    toolchain: tc.Toolchain,
    release: int | None,
    sources: Mapping[str, bytes],
    build: str,
) -> bytes:
    """Compile on the build host over its own connection. Raises BuildError with the compiler's output."""
    mark = f"fleet-binary-{os.urandom(8).hex()}"
    script = build_script(build_host.toolchain.sdp, toolchain, release, sources, build, mark)
    try:
        with connect(build_host) as connection:
            done = connection.run("exec /bin/sh", stdin=script, timeout_s=BUILD_TIMEOUT_S)
    except FleetError as err:  # the target host is fine; `qnx` tries the next place
        raise BuildError(f"{toolchain.name}: {err}") from err
    _, found_mark, binary = done.stdout.partition(f"{mark}\n".encode())
    if done.exit_code != 0 or not found_mark:
        raise BuildError(f"{toolchain.name}: exit code {done.exit_code}: {last_lines(done.stderr)}")
    return binary


def build_script(
    sdp: str | None,
    toolchain: tc.Toolchain,
    release: int | None,
    sources: Mapping[str, bytes],
    build: str,
    mark: str,
) -> bytes:
    """Return the sh script that finds the SDP, compiles, prints mark and binary, and cleans up."""
    names = [name for major_version, name in TARGETS.items() if release in (None, major_version)]
    settings = {
        "SDP": sdp or "",
        "RELEASE": str(release or "7 or 8"),
        "HOST": HOST,
        "NAMES": " ".join(names),
        "VARIANT": toolchain.command[1].removeprefix("-V"),
        "COMPILE": shlex.join(toolchain.command_line(sources, "agent")),
        "MARK": mark,
    }
    homes = f"set -- {' '.join(map(_quote_path, HOMES if sdp is None else [sdp]))}"
    return render_script("qnx.sh", settings, toolchain.files_to_compile(sources, build), homes)


def _quote_path(home: str) -> str:
    """Quote a path for sh; a leading ~/ is the home directory there."""
    return f'"$HOME"/{shlex.quote(home[2:])}' if home.startswith("~/") else shlex.quote(home)

"""Where the agent for a QNX host comes from: four places in order, or the one the inventory asks for."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fleet.agent.build import qnx_sdp
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Builder, Connect
from fleet.agent.build.on_host import build_on_host, with_sources
from fleet.agent.build.qnx_sdp import CFLAGS, HOMES, HOST, TARGETS, VARIANTS
from fleet.agent.build.upload import prebuilt, send_built, send_prebuilt
from fleet.errors import BuildError, DeployError, FleetError
from fleet.model import Agent, BuildPlace, Facts, Host, Target
from fleet.remote.cancellation import Cancellation
from fleet.remote.connection import Connection
from fleet.text import last_lines

_ORDER = (BuildPlace.HOST, BuildPlace.CONTROLLER, BuildPlace.BUILD_HOST, BuildPlace.PREBUILT)
_PROOF = b"#include <pthread.h>\nint main(void) { return pthread_self() == 0; }\n"
_PROOF_TIMEOUT_S = 60.0
BUILD_TIMEOUT_S = 300.0


class _AbsentError(BuildError):
    """Nothing to try: this place is not set up."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One host to be given an agent. release: its QNX's major version, None if unknown."""

    host: Host
    facts: Facts
    sources: Mapping[str, bytes]

    @property
    def release(self) -> int | None:
        return qnx_sdp.major(self.facts.kernel or self.host.os_release)

    def sdp(self) -> qnx_sdp.Sdp:
        try:
            return qnx_sdp.find(self.host.toolchain.sdp, self.release)
        except BuildError as err:
            kind = _AbsentError if self.host.toolchain.sdp is None else BuildError
            raise kind(f"an SDP on the controller: {err}") from err

    def build_host(self) -> Host:
        if self.host.build_host is None:
            raise _AbsentError("a build host: no `toolchain: {build_host: NAME}`")
        return self.host.build_host

    def compilers(self) -> Sequence[str]:
        cc = self.host.toolchain.cc
        commands = [cc] if cc is not None else [found.command for found in self.facts.compilers]
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
    """Bring the agent onto a QNX host. Raises one BuildError that lists every place tried, or DeployError.

    notify: receives each failure of a place that is set up, where a later one worked.
    """
    job = _job(host, facts, sources)
    failed: list[BuildError] = []
    for place in _places(host):
        try:
            agent = _source(place, job)[1](connection, builder)
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
    raise _none(job, failed)


def _job(host: Host, facts: Facts, sources: Mapping[str, bytes]) -> _Job:
    """The job. Raises BuildError where the host reports another release than the inventory."""
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
    """The name of the agent there, or in words what `deploy` would do. Raises the same BuildError."""
    job = _job(host, facts, sources)
    failed: list[BuildError] = []
    for place in _places(host):
        try:
            return _source(place, job)[0]
        except BuildError as err:
            failed.append(err)
    raise _none(job, failed)


def _places(host: Host) -> Sequence[BuildPlace]:
    return _ORDER if host.build is BuildPlace.AUTO else (host.build,)


def _source(place: BuildPlace, job: _Job) -> tuple[str, Callable[[Connection, Builder], Agent]]:
    """The name of the agent there, or what would be done, and what does it. BuildError: not set up."""
    host, facts, sources = job.host, job.facts, job.sources
    if place is BuildPlace.HOST:
        command, *_ = job.compilers()
        words = _already(job, command) or f"would be built on the host with {command}, if that proves to work"
        return words, lambda connection, builder: _on_host(connection, job, builder.cancellation)
    if place is BuildPlace.PREBUILT:
        if host.toolchain.binary is None:
            raise _AbsentError("a prebuilt binary: no `toolchain: {binary: PATH}`")
        given, _ = prebuilt(host, facts)
        return f"would be the prebuilt {given}", lambda connection, _: send_prebuilt(connection, host, facts)
    if place is BuildPlace.CONTROLLER:
        toolchain = job.sdp().toolchain(facts.target, host.toolchain.cflags)
        name = tc.found(tc.build_id(sources, toolchain), facts.workdir_entries)
        words = name or f"would be built with {toolchain.name} and sent"

        def compiled(builder: Builder, build: str) -> bytes:
            return qnx_sdp.compile_with(toolchain, sources, build, builder.cancellation.closing)
    else:
        there = job.build_host()
        toolchain = toolchain_on(there, facts.target, job.release, host.toolchain.cflags)
        words = f"would be built with qcc on the build host {there.name} and sent"

        def compiled(builder: Builder, build: str) -> bytes:
            connect = builder.connect
            return compile_there(connect, there, toolchain, job.release, sources, build)

    def sent(connection: Connection, builder: Builder) -> Agent:
        built = builder.once(toolchain, sources, partial(compiled, builder))
        return send_built(connection, host, facts, built)

    return words, sent


def _already(job: _Job, command: str) -> str | None:
    toolchain = tc.on_host(command, job.facts.target, job.host.toolchain.cflags)
    return tc.found(tc.build_id(job.sources, toolchain), job.facts.workdir_entries)


def _on_host(connection: Connection, job: _Job, cancellation: Cancellation) -> Agent:
    """Build with the first compiler whose program runs: headers may be missing."""
    commands = job.compilers()
    proved = next((command for command in commands if _already(job, command)), None)
    if proved is None:
        done = connection.run(
            "exec /bin/sh", stdin=proof_script(commands, job.facts.workdir), timeout_s=_PROOF_TIMEOUT_S
        )
        proved = done.stdout.decode("utf-8", "replace").rpartition("works ")[2].strip()
        if done.exit_code != 0 or proved not in commands:
            output = last_lines(done.stderr)
            tried = ", ".join(commands)
            raise BuildError(
                f"a compiler on the host: none of {tried} made a program that runs there: {output}"
            )
    return build_on_host(connection, job.host, job.facts, job.sources, proved, cancellation)


def proof_script(commands: Sequence[str], workdir: str) -> bytes:
    """Write the sh script that prints `works COMMAND` for the first compiler whose program runs, or fails."""
    tried = f"set -- {shlex.join(commands)}"
    return with_sources("proof.sh", {"WORKDIR": workdir}, {"proof.c": _PROOF}, tried)


def _none(job: _Job, failed: Sequence[BuildError]) -> BuildError:
    facts, release = job.facts, job.release
    known = facts.kernel or job.host.os_release
    version = f"QNX {known}" if known else "QNX of unknown version"
    return BuildError(
        f"{job.host.name}: no agent for {facts.target} ({version}). Looked for:\n"
        + "".join(f"  - {err}\n" for err in failed)
        + f"Install an SDP for QNX {release or '7 or 8'} in one of these places, or name an SDP, a build "
        "host or a prebuilt agent for this host in the inventory."
    )


def toolchain_on(there: Host, target: Target, release: int | None, extra: tuple[str, ...]) -> tc.Toolchain:
    """The qcc of a build host; only the build host knows which of its SDPs it belongs to."""
    name = f"qcc on the build host {there.name}" + (f" (QNX {release})" if release else "")
    command = ("qcc", f"-V{VARIANTS[target.arch]}")
    place = f"{release or ''}@{there.name}:{there.toolchain.sdp or ''}"
    return tc.Toolchain(name, command, (*CFLAGS, *extra), target, place)


def compile_there(
    connect: Connect,
    there: Host,
    toolchain: tc.Toolchain,
    release: int | None,
    sources: Mapping[str, bytes],
    build: str,
) -> bytes:
    """Compile on the build host over its own connection. Raises BuildError with the compiler's output."""
    mark = f"fleet-binary-{os.urandom(8).hex()}"
    script = build_script(there.toolchain.sdp, toolchain, release, sources, build, mark)
    try:
        with connect(there) as connection:
            done = connection.run("exec /bin/sh", stdin=script, timeout_s=BUILD_TIMEOUT_S)
    except FleetError as err:  # the target host is fine; `qnx` tries the next place
        raise BuildError(f"{toolchain.name}: {err}") from err
    _, found, binary = done.stdout.partition(f"{mark}\n".encode())
    if done.exit_code != 0 or not found:
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
    """The sh script that finds the SDP, compiles and prints mark and binary; it leaves nothing behind."""
    names = [name for known, name in TARGETS.items() if release in (None, known)]
    settings = {
        "SDP": sdp or "",
        "RELEASE": str(release or "7 or 8"),
        "HOST": HOST,
        "NAMES": " ".join(names),
        "VARIANT": toolchain.command[1].removeprefix("-V"),
        "COMPILE": shlex.join(toolchain.arguments(sources, "agent")),
        "MARK": mark,
    }
    homes = f"set -- {' '.join(map(_path, HOMES if sdp is None else [sdp]))}"
    return with_sources("qnx.sh", settings, toolchain.sources(sources, build), homes)


def _path(home: str) -> str:
    """Quote a path for sh; a leading ~/ is the home there."""
    return f'"$HOME"/{shlex.quote(home[2:])}' if home.startswith("~/") else shlex.quote(home)

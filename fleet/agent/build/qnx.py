"""Chooses where the agent for a QNX host is built: four places in order, or the one the
inventory names.
"""

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleet.agent.build import on_host
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import (
    Builder,
    EndOnCancel,
    Notify,
    compile_here,
    run_tool,
)
from fleet.agent.build.on_host import Preview
from fleet.agent.build.systems import SYSTEMS, VARIANTS, major_version
from fleet.errors import BuildError, DeployError, FleetError
from fleet.model import Agent, BuildPlace, Facts, Host, Target
from fleet.remote.connection import Connection
from fleet.text import last_lines

CFLAGS = SYSTEMS["qnx"].cflags
HOMES = ("~/qnx800", "~/qnx710", "/opt/qnx800", "/opt/qnx710")
HOST_FOLDER = "host/linux/x86_64"
"""The folder of an SDP that QNX_HOST names: SDPs for Linux run on x86-64 only."""
MAJOR_BY_PLATFORM: Mapping[str, int] = {"qnx": 8, "qnx7": 7}
"""QNX's major version by the name of a platform's folder in `target/`, newest first."""
_ORDER = (
    BuildPlace.HOST,
    BuildPlace.CONTROLLER,
    BuildPlace.BUILD_HOST,
    BuildPlace.PREBUILT,
)
_PROOF = b"#include <pthread.h>\nint main(void) { return pthread_self() == 0; }\n"
_PROOF_TIMEOUT_S = 60.0
BUILD_TIMEOUT_S = 300.0


class _AbsentError(BuildError):
    """A place to build the agent is not set up; `deploy` then tries the next one
    without a notice.
    """


def sdp_toolchain(
    host: Path, platform: Path, target: Target, extra: tuple[str, ...] = ()
) -> tc.Toolchain:
    """Return the toolchain of an SDP's qcc, with its environment. host: the folder that
    QNX_HOST names. platform: the folder that QNX_TARGET names; its last part, such as
    "qnx7", tells the release. extra: more cflags.
    """
    qcc = host / "usr/bin/qcc"
    release = MAJOR_BY_PLATFORM[platform.name]
    # qcc looks for its licence in this folder
    configuration = os.environ.get("QNX_CONFIGURATION_EXCLUSIVE")
    # added to this process's own environment, which has HOME and the licence variables
    environment = {
        "QNX_HOST": str(host),
        "QNX_TARGET": str(platform),
        "QNX_CONFIGURATION_EXCLUSIVE": configuration or str(Path.home() / ".qnx"),
        "PATH": f"{host / 'usr/bin'}:{os.environ.get('PATH', os.defpath)}",
    }
    return tc.Toolchain(
        name=f"{qcc} (QNX {release})",
        command=(str(qcc), f"-V{VARIANTS[target.arch]}"),
        cflags=(*CFLAGS, *extra),
        target=target,
        build_id_salt=str(release),
        environment=environment,
    )


def find_sdp(path: str | None, release: int | None) -> tuple[Path, Path]:
    """Return (QNX_HOST, QNX_TARGET) of the first SDP that can build for `release`, or
    for any QNX if that is None. Look only at `path` unless that is None. Raises
    BuildError.
    """
    problems = []
    for place, sdp in _list_sdps(path).items():
        problem = _find_sdp_problem(sdp, release)
        if problem is None and sdp is not None:
            return sdp
        problems.append(f"{place}: {problem}")
    # a user who named a path is told that it failed; otherwise the next place is tried
    error_type = _AbsentError if path is None else BuildError
    raise error_type(f"an SDP on the controller: {'; '.join(problems)}")


def _list_sdps(path: str | None) -> dict[str, tuple[Path, Path] | None]:
    """Return (QNX_HOST, QNX_TARGET) of the SDP at `path`, else of each place to look
    in; None if no SDP is there. The keys name the places in error messages.
    """
    if path is not None:
        return {f"`toolchain: {{sdp: {path}}}`": _find_sdp_folders(path)}
    host = os.environ.get("QNX_HOST")
    target = os.environ.get("QNX_TARGET")
    named_by_environment = None
    if host and target:
        named_by_environment = (Path(host), Path(target))
    sdp_by_place = {"QNX_HOST and QNX_TARGET in the environment": named_by_environment}
    for home in HOMES:
        sdp_by_place[home] = _find_sdp_folders(home)
    return sdp_by_place


def _find_sdp_folders(home: str) -> tuple[Path, Path] | None:
    """Return (QNX_HOST, QNX_TARGET) of the SDP in the folder `home`; None if there is
    no such folder.

    QNX_TARGET is the folder of the newest release that is there. If no release is
    there, it is the folder where the newest would be, which `_find_sdp_problem` then
    reports.
    """
    folder = Path(home).expanduser()
    if not folder.is_dir():
        return None
    candidates = [folder / "target" / name for name in MAJOR_BY_PLATFORM]
    present = [target for target in candidates if target.is_dir()]
    target = present[0] if present else candidates[0]
    return folder / HOST_FOLDER, target


def _find_sdp_problem(sdp: tuple[Path, Path] | None, release: int | None) -> str | None:
    """Return why an SDP cannot build for this release; None if it can. sdp:
    (QNX_HOST, QNX_TARGET), or None if there is no SDP.
    """
    if sdp is None:
        return "not there"
    host, target = sdp
    qcc = host / "usr/bin/qcc"
    if not qcc.is_file():
        return f"has no {qcc}"
    if target.name not in MAJOR_BY_PLATFORM or not target.is_dir():
        return f"has no {target} for a QNX we know"
    major = MAJOR_BY_PLATFORM[target.name]
    if release not in (None, major):
        return f"is for QNX {major}, the host has QNX {release}"
    return None


def _check_variant_and_compile(
    toolchain: tc.Toolchain,
    sources: tc.Sources,
    end_on_cancel: EndOnCancel,
    build: str,
) -> bytes:
    """Compile here with an SDP's qcc. Raises BuildError if qcc fails, or does not know
    the target.
    """
    qcc, _ = toolchain.command
    variant = VARIANTS[toolchain.target.arch]
    try:
        done = run_tool(toolchain, (qcc, "-V"), end_on_cancel)
    except (OSError, subprocess.TimeoutExpired) as err:
        raise BuildError(f"{toolchain.name} cannot be run here: {err}") from err
    output = done.stdout + done.stderr
    if variant.encode() not in output:
        raise BuildError(
            f"{toolchain.name}: `qcc -V` does not list {variant}: {last_lines(output)}"
        )
    return compile_here(toolchain, sources, build, end_on_cancel)


@dataclass(frozen=True, slots=True)
class Job:
    """A QNX host that needs an agent. Raises BuildError if its release contradicts the
    inventory.
    """

    host: Host
    facts: Facts
    sources: tc.Sources
    builder: Builder

    def __post_init__(self) -> None:
        """Raise BuildError if host and inventory name different releases of QNX."""
        kernel = self.facts.kernel
        release = self.host.os_release
        if not kernel or not release:
            return
        # a release of "8" fits the kernel "8.0.1"
        expected_parts = release.split(".")
        kernel_parts = kernel.split(".")
        if kernel_parts[: len(expected_parts)] != expected_parts:
            raise BuildError(
                f"{self.host.name}: `os_release: {release}` in the inventory, but the"
                f" host runs QNX {kernel}. Correct the entry, or remove it."
            )

    @property
    def release(self) -> int | None:
        """The major version of the host's QNX; None if unknown."""
        return major_version(self.facts.kernel or self.host.os_release)

    def find_agent(self, toolchain: tc.Toolchain) -> str | None:
        """Return the name of the agent on the host that this toolchain built; None if
        there is none.
        """
        build = tc.build_id(self.sources, toolchain)
        return tc.find_agent_of_build(build, self.facts.workdir_entries)

    def find_agent_of_compiler(self, command: str) -> str | None:
        """Return the file name of the agent that the host's compiler `command` built;
        None without one.
        """
        cflags = self.host.toolchain.cflags
        return self.find_agent(tc.host_toolchain(command, self.facts.target, cflags))


def deploy(connection: Connection, job: Job, notify: Notify) -> Agent:
    """Put the agent on a QNX host; call `notify` for places that failed. Raises
    DeployError, BuildError.
    """
    failed = list[BuildError]()
    # `_plan_places` appends the errors of places that are not set up
    for place, _preview, put_agent in _plan_places(job, failed):
        try:
            agent = put_agent(connection)
        except BuildError as err:
            failed.append(err)
            continue
        except DeployError:
            _report_failures(job, failed, notify)
            raise
        _report_failures(job, failed, notify)
        is_built_elsewhere = place in (BuildPlace.CONTROLLER, BuildPlace.BUILD_HOST)
        if job.release is None and is_built_elsewhere:
            notify(
                f"{job.host.name}: the host does not report its QNX version; the agent"
                f" was {agent.place}."
            )
        return agent
    raise _make_nowhere_error(job, failed)


def _report_failures(job: Job, failed: Sequence[BuildError], notify: Notify) -> None:
    """Notify of the places that were set up and failed."""
    for failure in failed:
        if not isinstance(failure, _AbsentError):
            notify(
                f"{job.host.name}: {failure}\nThe agent came from the next place"
                " instead."
            )


def preview(job: Job) -> Preview:
    """Describe what `deploy` would do. Raises BuildError."""
    failed = list[BuildError]()
    for _place, planned, _put_agent in _plan_places(job, failed):
        return planned
    raise _make_nowhere_error(job, failed)


_PutAgent = Callable[[Connection], Agent]
"""Puts the agent of one place on the host, as far as it is not there yet. Raises
BuildError if the place cannot build it, DeployError if the host cannot take it.
"""


def _plan_places(
    job: Job, failed: list[BuildError]
) -> Iterator[tuple[BuildPlace, Preview, _PutAgent]]:
    """Yield each usable place, a preview of what would be done there, and the function
    that does it. Append the errors of the other places to `failed`. If the inventory
    names a place, no other is looked at.
    """
    places: Sequence[BuildPlace] = _ORDER
    if job.host.build is not BuildPlace.AUTO:
        places = (job.host.build,)
    for place in places:
        try:
            planned, put_agent = _plan_place(place, job)
        except BuildError as err:
            failed.append(err)
        else:
            yield place, planned, put_agent


def _make_nowhere_error(job: Job, failed: Sequence[BuildError]) -> BuildError:
    """Return the error of a host for which every place failed."""
    version = job.facts.kernel or job.host.os_release or "of unknown version"
    places = "".join(f"  - {err}\n" for err in failed)
    return BuildError(
        f"{job.host.name}: no agent for {job.facts.target} (QNX {version}). Looked"
        f" for:\n{places}Install an SDP for QNX {job.release or '7 or 8'} in one of"
        " these places, or name an SDP, a build host or a prebuilt agent for this host"
        " in the inventory."
    )


def _plan_place(place: BuildPlace, job: Job) -> tuple[Preview, _PutAgent]:
    """Return a preview of taking the agent from this place, and the function that does
    it. Raises BuildError if the place is not set up.
    """
    if place is BuildPlace.HOST:
        return _plan_host(job)
    if place is BuildPlace.PREBUILT:
        return _plan_prebuilt(job)
    if place is BuildPlace.CONTROLLER:
        return _plan_controller(job)
    return _plan_build_host(job)


def _plan_host(job: Job) -> tuple[Preview, _PutAgent]:
    """Plan to build on the host itself. The preview says whether the agent of the first
    compiler is already there.
    """
    commands = [compiler.command for compiler in job.facts.compilers]
    if job.host.toolchain.cc is not None:
        commands = [job.host.toolchain.cc]
    if not commands:
        raise _AbsentError(
            "a compiler on the host: none of clang, gcc, cc, qcc answered there"
        )
    agent_name = job.find_agent_of_compiler(commands[0])
    planned = on_host.preview_agent_on_host(job.facts, agent_name)
    if planned is None:
        planned = Preview(
            f"would be built on the host with {commands[0]}, if that proves to work"
        )
    return planned, partial(_build_with_working_compiler, job, commands)


def _plan_prebuilt(job: Job) -> tuple[Preview, _PutAgent]:
    """Plan to send the binary that the inventory names. Raises BuildError if the host
    cannot run it.
    """
    host = job.host
    facts = job.facts
    if host.toolchain.binary is None:
        raise _AbsentError("a prebuilt binary: no `toolchain: {binary: PATH}`")
    on_host.read_prebuilt(host, facts)  # raises if the host cannot run it

    def send(connection: Connection) -> Agent:
        return on_host.send_prebuilt(connection, host, facts)

    return Preview(f"would be the prebuilt {host.toolchain.binary}"), send


def _plan_controller(job: Job) -> tuple[Preview, _PutAgent]:
    """Plan to build here with an SDP and to send the agent. The preview says whether
    the agent is already on the host; `_build_and_send` then sends nothing.
    """
    requested = job.host.toolchain
    qnx_host, qnx_target = find_sdp(requested.sdp, job.release)
    toolchain = sdp_toolchain(qnx_host, qnx_target, job.facts.target, requested.cflags)
    planned = on_host.preview_agent_on_host(job.facts, job.find_agent(toolchain))
    if planned is None:
        planned = Preview(f"would be built with {toolchain.name} and sent")
    # makes a context in which a cancelled session calls the function given to it
    end_on_cancel = job.builder.cancellation.call_on_close_all
    compile_agent = partial(
        _check_variant_and_compile, toolchain, job.sources, end_on_cancel
    )
    return planned, partial(_build_and_send, job, toolchain, compile_agent)


def _plan_build_host(job: Job) -> tuple[Preview, _PutAgent]:
    """Plan to build on the build host of the inventory and to send the agent."""
    build_host = job.host.build_host
    if build_host is None:
        raise _AbsentError("a build host: no `toolchain: {build_host: NAME}`")
    toolchain = build_host_toolchain(
        build_host, job.facts.target, job.release, job.host.toolchain.cflags
    )
    compile_agent = partial(_compile_on_build_host, job, build_host, toolchain)
    words = f"would be built with qcc on the build host {build_host.name} and sent"
    return Preview(words), partial(_build_and_send, job, toolchain, compile_agent)


def _build_and_send(
    job: Job,
    toolchain: tc.Toolchain,
    compile_agent: Callable[[str], bytes],
    connection: Connection,
) -> Agent:
    """Build the agent unless it is in the cache, and send it unless it is on the host.
    compile_agent: returns the binary for a build ID.
    """
    built = job.builder.build_once(toolchain, job.sources, compile_agent)
    return on_host.send_built(connection, job.host, job.facts, built)


def _build_with_working_compiler(
    job: Job, commands: Sequence[str], connection: Connection
) -> Agent:
    """Build with the compiler that built the agent that is already on the host. If none
    is there, build with the first compiler that works. Raises BuildError.
    """
    # with such a compiler, `build_on_host` uses the agent there, and compiles nothing
    working_command = next(filter(job.find_agent_of_compiler, commands), None)
    if working_command is None:
        working_command = _prove_compiler(job, commands, connection)
    cancellation = job.builder.cancellation
    return on_host.build_on_host(
        connection, job.host, job.facts, job.sources, working_command, cancellation
    )


def _prove_compiler(job: Job, commands: Sequence[str], connection: Connection) -> str:
    """Return the first of the host's compilers that makes a program which runs there.
    Raises BuildError.
    """
    settings = {"WORKDIR": job.facts.workdir}
    set_arguments = f"set -- {shlex.join(commands)}"
    script = on_host.render_script(
        "proof.sh", settings, {"proof.c": _PROOF}, set_arguments
    )
    done = connection.run("exec /bin/sh", stdin=script, timeout_s=_PROOF_TIMEOUT_S)
    # the script's last line is `works COMMAND`
    _, _, last_word = done.stdout.decode("utf-8", "replace").rpartition("works ")
    command = last_word.strip()
    if done.exit_code != 0 or command not in commands:
        raise BuildError(
            f"a compiler on the host: none of {', '.join(commands)} made a program that"
            f" runs there: {last_lines(done.stderr)}"
        )
    return command


def build_host_toolchain(
    build_host: Host, target: Target, release: int | None, extra: tuple[str, ...]
) -> tc.Toolchain:
    """Return the toolchain of a build host's qcc. The build host itself finds the SDP
    when it compiles.
    """
    name = f"qcc on the build host {build_host.name}"
    if release:
        name += f" (QNX {release})"
    # Agents of different releases or SDPs must have different build IDs, so this text
    # is hashed into the ID; it has no other use. An example: "7@builder:~/qnx710".
    sdp = build_host.toolchain.sdp or ""
    release_and_place = f"{release or ''}@{build_host.name}:{sdp}"
    return tc.Toolchain(
        name=name,
        command=("qcc", f"-V{VARIANTS[target.arch]}"),
        cflags=(*CFLAGS, *extra),
        target=target,
        build_id_salt=release_and_place,
    )


def _compile_on_build_host(
    job: Job, build_host: Host, toolchain: tc.Toolchain, build: str
) -> bytes:
    """Compile on the build host over its own connection. Raises BuildError with the
    compiler's output.
    """
    # qnx.sh prints the mark on a line of its own, then the binary
    mark = f"fleet-binary-{os.urandom(8).hex()}"
    script = _render_qnx_script(job, build_host, toolchain, build, mark)
    try:
        with job.builder.connect(build_host) as connection:
            done = connection.run(
                "exec /bin/sh", stdin=script, timeout_s=BUILD_TIMEOUT_S
            )
    except FleetError as err:  # the target host is fine; `deploy` tries the next place
        raise BuildError(f"{toolchain.name}: {err}") from err
    _, found_mark, binary = done.stdout.partition(f"{mark}\n".encode())
    if done.exit_code != 0 or not found_mark:
        raise BuildError(
            f"{toolchain.name}: exit code {done.exit_code}: {last_lines(done.stderr)}"
        )
    return binary


def _render_qnx_script(
    job: Job, build_host: Host, toolchain: tc.Toolchain, build: str, mark: str
) -> bytes:
    """Return qnx.sh with the variables that it needs. Its arguments are the folders
    where the build host is to look for an SDP.
    """
    sdp = build_host.toolchain.sdp
    # the folders in `target/` that will do; if the release is unknown, all
    platforms = list(MAJOR_BY_PLATFORM)
    if job.release is not None:
        platforms = [
            name for name, major in MAJOR_BY_PLATFORM.items() if major == job.release
        ]
    settings = {
        "SDP": sdp or "",
        "RELEASE": str(job.release or "7 or 8"),
        "HOST": HOST_FOLDER,
        "NAMES": " ".join(platforms),
        "VARIANT": VARIANTS[toolchain.target.arch],
        "COMPILE": shlex.join(toolchain.command_line(job.sources, "agent")),
        "MARK": mark,
    }
    homes = HOMES if sdp is None else (sdp,)
    arguments = [_quote_there(home) for home in homes]
    set_arguments = f"set -- {' '.join(arguments)}"
    files = toolchain.files_to_compile(job.sources, build)
    return on_host.render_script("qnx.sh", settings, files, set_arguments)


def _quote_there(path: str) -> str:
    """Quote a path for sh on another host; a leading ~/ is the home directory there."""
    if path.startswith("~/"):
        return f'"$HOME"/{shlex.quote(path[2:])}'
    return shlex.quote(path)

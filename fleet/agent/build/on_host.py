"""Compiles the agent on the host itself, by one sh script on its stdin. Used by `deploy` and `qnx`."""

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from fleet.agent.build import toolchain as tc
from fleet.agent.build.upload import check_put
from fleet.errors import BuildError, DeployError, LinkError
from fleet.model import Agent, Compiler, Facts, Host
from fleet.remote.cancellation import Cancellation
from fleet.remote.connection import Connection
from fleet.remote.output import Completed
from fleet.remote.shell import assign_variables
from fleet.text import last_lines

BUILD_TIMEOUT_S = 300.0  # small boards need a while
VERSIONS_TIMEOUT_S = 30.0
_END_OF_FILE = "fleet-end-of-file"
_BUILD_FAILED = 93
_NEXT = "fleet-next-compiler"
_PLACED = "fleet-agent-placed "
_UNPACKED_HERE = "# The sources are unpacked here."


def build_on_host(
    connection: Connection,
    host: Host,
    facts: Facts,
    sources: Mapping[str, bytes],
    command: str,
    cancellation: Cancellation,
) -> Agent:
    """Compile on the host, unless the agent is there; leave nothing else. Raises BuildError, DeployError."""
    toolchain = tc.host_toolchain(command, facts.target, host.toolchain.cflags)
    build = tc.build_id(sources, toolchain)

    def agent_named(name: str, place: str) -> Agent:
        return Agent(f"{facts.workdir}/{name}", build, facts.target, place)

    if agent_name := tc.find_agent_of_build(build, facts.workdir_entries):
        return agent_named(agent_name, "already on the host")
    script = build_script(toolchain, sources, build, facts.workdir)
    done = _run_build_script(connection, host, command, script, cancellation)
    if done.exit_code == _BUILD_FAILED:
        raise BuildError(
            f"{host.name}: {command} on the host could not build the agent:\n"
            f"      {last_lines(done.stderr)}\n"
            f"Repair the compiler there, name another (`toolchain: {{cc: …}}`), or set `build: controller`."
        )
    check_put(done, host, facts.workdir)
    version = next((c.version for c in facts.compilers if c.command == command), "") or command
    return agent_named(_parse_agent_name(host, done, build), f"built on the host with {version}")


def _run_build_script(
    connection: Connection, host: Host, command: str, script: bytes, cancellation: Cancellation
) -> Completed:
    """Run the build script on the host. Raises BuildError after BUILD_TIMEOUT_S seconds, Cancelled."""
    limit_s = BUILD_TIMEOUT_S
    deadline = time.monotonic() + limit_s
    try:
        with connection.stream(
            "exec /bin/sh", idle_timeout_s=limit_s, limit_s=limit_s, stdin=script
        ) as stream:
            cancellation.stop_on_request(stream)
            lines = list(stream)
    except LinkError as err:
        if time.monotonic() < deadline:
            raise
        raise BuildError(
            f"{host.name}: {command} on the host did not build the agent within {limit_s:g} s and was ended. "
            "Set `build: controller`, `build: prebuilt`, or use a wheel with finished agents (`make wheel`): "
            "nothing is compiled there then. Or free the host from other work and run again."
        ) from err
    cancellation.raise_if_requested()
    return Completed(stream.exit_code or 0, b"\n".join(lines), stream.stderr)


def _parse_agent_name(host: Host, done: Completed, build: str) -> str:
    name = tc.find_agent_of_build(
        build, [done.stdout.decode("utf-8", "replace").rpartition(_PLACED)[2].strip()]
    )
    if name is None:
        raise DeployError(f"{host.name}: the host built the agent, but did not report its path.")
    return name


def ask_versions(connection: Connection, compilers: Sequence[Compiler]) -> tuple[Compiler, ...]:
    """Return the compilers that answer --version, with the first line of each answer; one round trip."""
    lines = ["LC_ALL=C; export LC_ALL"]
    lines += [
        f"({shlex.join(c.command.split())} --version </dev/null 2>/dev/null | head -n 1); echo {_NEXT}"
        for c in compilers
    ]
    done = connection.run("\n".join(lines), timeout_s=VERSIONS_TIMEOUT_S)
    versions = [version.strip() for version in done.stdout.decode("utf-8", "replace").split(_NEXT)]
    return tuple(
        replace(compiler, version=version)
        for compiler, version in zip(compilers, versions, strict=False)
        if version
    )


def build_script(toolchain: tc.Toolchain, sources: Mapping[str, bytes], build: str, workdir: str) -> bytes:
    """Return sh text that unpacks, compiles and places the agent; it exits with 93 if the compiler fails."""
    cc = shlex.join((*toolchain.command, *toolchain.cflags))
    loops, rooms = toolchain.split_units(sources)
    halves = [  # two compilers at once
        f"(cd {i} && {cc} {flag} -I.. -c {' '.join(f'../{unit}' for unit in units)})"
        for i, flag, units in ((0, tc.ROOM_FLAG, rooms), (1, "", loops))
    ]
    compiler = (
        f"{halves[0]} & one=$!; {halves[1]}; two=$?; wait $one && [ $two = 0 ] && {cc} -o agent [01]/*.o"
    )
    settings = {"WORKDIR": workdir, "BUILD": build, "NAME": tc.agent_file_name(build), "COMPILER": compiler}
    settings |= {"HASH": "?" * 64, "REST": "?" * (64 - tc.HASH_DIGITS), "PLACED": _PLACED}
    return render_script("on_host.sh", settings, toolchain.files_to_compile(sources, build))


def render_script(
    script: str, settings: Mapping[str, str], sources: Mapping[str, bytes], head: str = ""
) -> bytes:
    """Return a script from this folder, after `head`, with its variables set and the sources to unpack."""
    folders = sorted({str(PurePosixPath(name).parent) for name in sources} - {"."})
    lines = [f"mkdir {shlex.join(folders)} || exit 1"] if folders else []
    for name, content in sources.items():
        lines += [f"cat > {shlex.quote(name)} <<'{_END_OF_FILE}' || exit 1"]
        lines += [content.decode().rstrip("\n"), _END_OF_FILE]
    text, unpacked = Path(__file__).with_name(script).read_text(encoding="utf-8"), "\n".join(lines)
    return f"{assign_variables(settings)}\n{head}\n{text.replace(_UNPACKED_HERE, unpacked)}".encode()

"""Puts a proved agent on a host: finds it there, builds it there, or builds it here and sends it.

Says out loud, in `Agent.place`, which of these it was. Neighbours: `toolchain` knows compilers and
flags, `build` the controller's own builds, `source` the files.
"""

import hashlib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fleet.agent import source
from fleet.agent import toolchain as tc
from fleet.agent.build import Builder, first_installed, last_lines
from fleet.errors import BuildError, DeployError, ProbeError
from fleet.model import Agent, BuildPlace, Facts, Host
from fleet.remote.connection import Completed, Connection

BUILD_TIMEOUT_S = 300.0  # small boards need a while
PUT_TIMEOUT_S = 120.0
_END_OF_FILE = "fleet-end-of-file"
_BUILD_FAILED = 93


def deploy(
    connection: Connection,
    host: Host,
    facts: Facts,
    builder: Builder,
    say: Callable[[str], None],
) -> Agent:
    """Bring the agent for this host's target onto it, unless it is already there.

    say: receives a sentence for each thing the person should know (a fallback, a slow build).
    Raises BuildError or DeployError naming what was tried and what to do.
    """
    if host.build is BuildPlace.PREBUILT:
        return _send_prebuilt(connection, host, facts)
    sources = _sources(host, facts)
    if host.build is BuildPlace.CONTROLLER:
        return _send_from_controller(connection, host, facts, sources, builder, say)
    command = _host_compiler(host, facts)
    if command is not None:
        try:
            return _build_on_host(connection, host, facts, sources, command)
        except BuildError as err:
            if host.build is BuildPlace.HOST or host.toolchain.cc is not None:
                raise
            say(f"{err} Building on the controller instead.")
    elif host.build is BuildPlace.HOST:
        raise _no_compiler(host)
    else:
        say(f"{host.name}: no C compiler on the host; building on the controller.")
    return _send_from_controller(connection, host, facts, sources, builder, say)


def foretell(host: Host, facts: Facts) -> str:
    """Say what `deploy` would do, as far as it shows without running a compiler. Raises alike."""
    if host.build is BuildPlace.PREBUILT:
        given, _ = _prebuilt(host, facts)
        return f"would be the prebuilt {given}"
    sources = _sources(host, facts)
    command = _host_compiler(host, facts)
    if host.build is BuildPlace.CONTROLLER or (command is None and host.build is not BuildPlace.HOST):
        return f"would be built with {_first_on_controller(host, facts).name} and sent"
    if command is None:
        raise _no_compiler(host)
    build = tc.build_id(sources, tc.on_host(command, facts.target, host.toolchain.cflags))
    if tc.file_name(build) in facts.workdir_entries:
        return "is already on the host"
    silent = f"{command} (which did not answer --version)"
    version = next((c.version for c in facts.compilers if c.command == command), silent)
    return f"would be built on the host with {version}"


def _sources(host: Host, facts: Facts) -> Mapping[str, bytes]:
    sources = tc.sources_for(facts.target, source.sources())
    if sources is None:
        known = ", ".join(tc.targets(source.sources()))
        raise ProbeError(f"{host.name}: there is no agent for {facts.target} (in agent/native: {known}).")
    return sources


def _no_compiler(host: Host) -> BuildError:
    return BuildError(
        f"{host.name}: no C compiler found on the host (looked for cc, gcc, clang). "
        "Install one there, or set `build: controller` for this host in the inventory."
    )


def _host_compiler(host: Host, facts: Facts) -> str | None:
    if host.toolchain.cc is not None:
        return host.toolchain.cc
    return facts.compilers[0].command if facts.compilers else None


def _build_on_host(
    connection: Connection, host: Host, facts: Facts, sources: Mapping[str, bytes], command: str
) -> Agent:
    toolchain = tc.on_host(command, facts.target, host.toolchain.cflags)
    build = tc.build_id(sources, toolchain)
    name = tc.file_name(build)
    version = next((c.version for c in facts.compilers if c.command == command), command)
    agent = Agent(
        path=f"{facts.workdir}/{name}",
        build=build,
        target=facts.target,
        place=f"built on the host with {version}",
        compiler=version,
        cflags=" ".join(toolchain.cflags),
    )
    if name in facts.workdir_entries:
        return replace(agent, place="already on the host")
    script = build_script(toolchain, sources, build, facts.workdir)
    done = connection.run("exec /bin/sh", stdin=script, timeout_s=BUILD_TIMEOUT_S)
    if done.exit_code == _BUILD_FAILED:
        raise BuildError(
            f"{host.name}: {command} on the host could not build the agent:\n      {_said(done)}\n"
            f"Mend the compiler there, name another (`toolchain: {{cc: …}}`), or set `build: controller`."
        )
    _check_put(done, host, facts.workdir)
    return agent


def build_script(toolchain: tc.Toolchain, sources: Mapping[str, bytes], build: str, workdir: str) -> bytes:
    """Write the sh script that unpacks the sources, compiles them and moves the binary into place.

    Runs on `sh` and `cat` alone, no tar. Exit code 93 means the compiler failed, its words on stderr.
    """
    scratch = f"build-{build}-$$"
    units = [name for name in sources if name.endswith(".c")]
    lines = [
        "umask 077",
        f"cd {shlex.quote(workdir)} && mkdir {scratch} && cd {scratch} && mkdir native || exit 1",
        'leave() { cd ..; rm -rf "$1"; exit "$2"; }',
    ]
    for name, text in sources.items():
        lines.append(f"cat > {shlex.quote(name)} <<'{_END_OF_FILE}' || leave {scratch} 1")
        lines.append(text.decode().rstrip("\n"))
        lines.append(_END_OF_FILE)
    lines += [
        f"LC_ALL=C {toolchain.command_line(units, build, 'agent')} </dev/null"
        f" && [ -f agent ] || leave {scratch} {_BUILD_FAILED}",
        f"mv -f agent ../{tc.file_name(build)} || leave {scratch} 1",
        f"leave {scratch} 0",
    ]
    return "\n".join(lines).encode() + b"\n"


def _send_from_controller(
    connection: Connection,
    host: Host,
    facts: Facts,
    sources: Mapping[str, bytes],
    builder: Builder,
    say: Callable[[str], None],
) -> Agent:
    try:
        built = builder.build(facts.target, sources, _controller_wish(host), host.toolchain.cflags, say)
    except BuildError as err:
        raise BuildError(f"{host.name}: {err}") from err
    _check_fit(built.binary, host, facts, built.toolchain.name)
    name = tc.file_name(built.build)
    path = f"{facts.workdir}/{name}"
    if name not in facts.workdir_entries:
        _check_put(
            connection.put(built.binary, path, mode=0o700, timeout_s=PUT_TIMEOUT_S), host, facts.workdir
        )
    return Agent(
        path=path,
        build=built.build,
        target=facts.target,
        place=f"built with {built.toolchain.name}",
        compiler=None,
        cflags=" ".join(built.toolchain.cflags),
    )


def _first_on_controller(host: Host, facts: Facts) -> tc.Toolchain:
    try:
        return first_installed(facts.target, _controller_wish(host), host.toolchain.cflags)
    except BuildError as err:
        raise BuildError(f"{host.name}: {err}") from err


def _controller_wish(host: Host) -> str | None:
    """The inventory's `cc` names a compiler on the controller only if that is where to build."""
    return host.toolchain.cc if host.build is BuildPlace.CONTROLLER else None


def _prebuilt(host: Host, facts: Facts) -> tuple[str, bytes]:
    """The binary the inventory names, as written there, and its bytes, which fit the host."""
    given = host.toolchain.binary
    if given is None:
        raise BuildError(
            f"{host.name}: `build: prebuilt` needs `toolchain: {{binary: PATH}}` in the inventory."
        )
    try:
        binary = Path(given).expanduser().read_bytes()
    except OSError as err:
        raise BuildError(f"{host.name}: cannot read the prebuilt agent {given}: {err.strerror}.") from err
    _check_fit(binary, host, facts, given)
    return given, binary


def _send_prebuilt(connection: Connection, host: Host, facts: Facts) -> Agent:
    given, binary = _prebuilt(host, facts)
    name = tc.file_name(hashlib.sha256(binary).hexdigest()[:16])
    path = f"{facts.workdir}/{name}"
    if name not in facts.workdir_entries:
        _check_put(connection.put(binary, path, mode=0o700, timeout_s=PUT_TIMEOUT_S), host, facts.workdir)
    asked = connection.run(f"{shlex.quote(path)} --build-id </dev/null")
    build = asked.stdout.decode("utf-8", "replace").strip()
    if asked.exit_code != 0 or not build:
        raise DeployError(
            f"{host.name}: {given} does not run there (exit code {asked.exit_code}): {_said(asked)}"
        )
    return Agent(path, build, facts.target, place=f"prebuilt {given}")


def _check_fit(binary: bytes, host: Host, facts: Facts, what: str) -> None:
    try:
        why = tc.misfit(tc.read_elf(binary), facts.target, facts.libc)
    except ValueError as err:
        why = str(err)
    if why is not None:
        raise BuildError(
            f"{host.name}: the agent from {what} cannot run on this host: {why}. "
            "Build on the host (`build: host`) or name a fitting toolchain or binary in the inventory."
        )


def _check_put(done: Completed, host: Host, workdir: str) -> None:
    if done.exit_code != 0:
        raise DeployError(
            f"{host.name}: cannot write the agent into {workdir} (exit code {done.exit_code}):\n"
            f"      {_said(done)}\n"
            "Free some space there, or set another `workdir` for this host in the inventory."
        )


def _said(done: Completed) -> str:
    return last_lines(done.stderr.decode("utf-8", "replace").strip())

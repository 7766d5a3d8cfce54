"""Puts an agent on a host: finds it there, builds it there, or builds it here and sends it.

`Agent.place` records which. In `build`: `toolchain` knows compilers and flags, `on_controller` and `on_host`
build, `upload` sends, `qnx` chooses for QNX hosts, `source` finds the sources.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fleet.agent.build import qnx, shipped, source
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Builder, controller, first_installed
from fleet.agent.build.on_host import answering, build_on_host
from fleet.agent.build.systems import SYSTEMS
from fleet.agent.build.upload import prebuilt, send_built, send_prebuilt
from fleet.errors import BuildError, ProbeError
from fleet.model import Agent, BuildPlace, Facts, Host
from fleet.remote.connection import Connection


def deploy(
    connection: Connection,
    host: Host,
    facts: Facts,
    builder: Builder,
    notify: Callable[[str], None],
) -> Agent:
    """Bring the agent for this host's target onto it, unless it is already there.

    notify: receives a sentence for each event to report (a fallback, a slow build).
    Raises BuildError or DeployError naming what was tried and what to do.
    """
    changed = tc.changed(facts)
    for name in changed:
        notify(
            f"{host.name}: {facts.workdir}/{name} has changed since it was put there: its SHA-256 differs. "
            "It is not used; a new copy replaces it."
        )
    facts = _without(facts, changed)
    if host.build is BuildPlace.PREBUILT:
        return send_prebuilt(connection, host, facts)
    sources = _sources(host, facts)
    if SYSTEMS[facts.target.os].sdp:
        return qnx.deploy(connection, host, facts, sources, builder, notify)
    _check_place(host)
    if host.build is BuildPlace.CONTROLLER:
        return _send_from_controller(connection, host, facts, sources, builder, notify)
    facts = _with_compilers_asked(connection, host, facts, sources)
    command = _host_compiler(host, facts)
    if command is not None:
        try:
            return build_on_host(connection, host, facts, sources, command)
        except BuildError as err:
            if host.build is BuildPlace.HOST or host.toolchain.cc is not None:
                raise
            notify(f"{err} The agent comes from the controller instead.")
    elif host.build is BuildPlace.HOST:
        raise _no_compiler(host)
    else:
        agent = _send_from_controller(connection, host, facts, sources, builder, notify)
        if tc.found(agent.build, facts.workdir_entries) is None:
            notify(f"{host.name}: no C compiler on the host; the agent was {agent.place}.")
        return agent
    return _send_from_controller(connection, host, facts, sources, builder, notify)


def preview(host: Host, facts: Facts) -> str:
    """Describe what `deploy` would do, without running a compiler. Raises the same errors."""
    facts = _without(facts, tc.changed(facts))
    if host.build is BuildPlace.PREBUILT:
        given, _ = prebuilt(host, facts)
        return f"would be the prebuilt {given}"
    sources = _sources(host, facts)
    if SYSTEMS[facts.target.os].sdp:
        return qnx.preview(host, facts, sources)
    _check_place(host)
    command = _host_compiler(host, facts)
    if host.build is BuildPlace.CONTROLLER or (command is None and host.build is not BuildPlace.HOST):
        return _preview_from_controller(host, facts, sources)
    if command is None:
        raise _no_compiler(host)
    build = tc.build_id(sources, tc.on_host(command, facts.target, host.toolchain.cflags))
    if tc.found(build, facts.workdir_entries) is not None:
        return "is already on the host"
    silent = f"{command} (which did not answer --version)"
    version = next((c.version for c in facts.compilers if c.command == command), silent)
    return f"would be built on the host with {version}"


def _preview_from_controller(host: Host, facts: Facts, sources: Mapping[str, bytes]) -> str:
    asked = tc.on_controller(facts.target, controller(), _controller_compiler(host), host.toolchain.cflags)
    there = shipped.find(asked, sources)
    toolchain = there[1] if there else _first_on_controller(host, facts)
    if tc.found(tc.build_id(sources, toolchain), facts.workdir_entries) is not None:
        return "is already on the host"
    if there:
        return f"would be sent, built with {toolchain.name}"
    return f"would be built with {toolchain.name} and sent"


def _without(facts: Facts, names: Sequence[str]) -> Facts:
    """The facts without these files of the host's directory."""
    return replace(facts, workdir_entries=tuple(e for e in facts.workdir_entries if e not in names))


def _sources(host: Host, facts: Facts) -> Mapping[str, bytes]:
    sources = tc.sources_for(facts.target, source.sources())
    if sources is None:
        known = ", ".join(tc.targets(source.sources()))
        raise ProbeError(f"{host.name}: there is no agent for {facts.target} (in agent/native: {known}).")
    return sources


def _check_place(host: Host) -> None:
    if host.build is BuildPlace.BUILD_HOST:
        raise BuildError(
            f"{host.name}: `build: build-host` is for QNX hosts; use `build: controller`, which needs no "
            "other machine."
        )


def _no_compiler(host: Host) -> BuildError:
    return BuildError(
        f"{host.name}: no C compiler found on the host (looked for cc, gcc, clang). "
        "Install one there, or set `build: controller` for this host in the inventory."
    )


def _with_compilers_asked(
    connection: Connection, host: Host, facts: Facts, sources: Mapping[str, bytes]
) -> Facts:
    """The facts with only compilers that answer, unless the first one's build is there already."""
    command = _host_compiler(host, facts)
    if all(compiler.version for compiler in facts.compilers) or command is None:
        return facts
    build = tc.build_id(sources, tc.on_host(command, facts.target, host.toolchain.cflags))
    if tc.found(build, facts.workdir_entries) is not None:
        return facts
    return replace(facts, compilers=answering(connection, facts.compilers))


def _host_compiler(host: Host, facts: Facts) -> str | None:
    if host.toolchain.cc is not None:
        return host.toolchain.cc
    return facts.compilers[0].command if facts.compilers else None


def _send_from_controller(
    connection: Connection,
    host: Host,
    facts: Facts,
    sources: Mapping[str, bytes],
    builder: Builder,
    notify: Callable[[str], None],
) -> Agent:
    try:
        compiler = _controller_compiler(host)
        built = builder.build(facts.target, sources, compiler, host.toolchain.cflags, notify)
    except BuildError as err:
        raise BuildError(f"{host.name}: {err}") from err
    return send_built(connection, host, facts, built)


def _first_on_controller(host: Host, facts: Facts) -> tc.Toolchain:
    try:
        return first_installed(facts.target, _controller_compiler(host), host.toolchain.cflags)
    except BuildError as err:
        raise BuildError(f"{host.name}: {err}") from err


def _controller_compiler(host: Host) -> str | None:
    """The inventory's `cc` names a compiler on the controller only if that is where to build."""
    return host.toolchain.cc if host.build is BuildPlace.CONTROLLER else None

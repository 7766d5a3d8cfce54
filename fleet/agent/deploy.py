"""Puts an agent on a host: finds it there, builds it there, or builds it here and sends it."""

import hashlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from fleet.agent.build import qnx, source
from fleet.agent.build import toolchain as tc
from fleet.agent.build.elf import read_elf
from fleet.agent.build.on_controller import Builder, Built, first_installed_toolchain
from fleet.agent.build.on_host import ask_versions, build_on_host
from fleet.agent.build.systems import SYSTEMS
from fleet.agent.build.upload import check_fit, read_prebuilt, send_built, send_prebuilt
from fleet.errors import BuildError, ProbeError
from fleet.model import Agent, BuildPlace, Facts, Host, Via
from fleet.remote.connection import Connection
from fleet.text import last_lines


def deploy(
    connection: Connection, host: Host, facts: Facts, builder: Builder, notify: Callable[[str], None]
) -> Agent:
    """Put the agent for `facts.target` onto a host, unless it is already there.

    Raises BuildError, DeployError.

    notify receives a sentence for people about each agent that was damaged, did not build or did not run.
    """
    damaged = tc.agents_not_matching_their_hash(facts)
    for name in damaged:
        notify(
            f"{host.name}: {facts.workdir}/{name} has changed since it was put there: its SHA-256 differs. "
            "It is not used; a new copy replaces it."
        )
    facts = _hide_workdir_entries(facts, damaged)
    if host.build is BuildPlace.PREBUILT:
        return send_prebuilt(connection, host, facts)
    sources = _sources_for_host(host, facts)
    if SYSTEMS[facts.target.os].sdp:
        return qnx.deploy(connection, host, facts, sources, builder, notify)
    _check_place(host)
    job = _Job(host, facts, sources, builder)
    if host.build is not BuildPlace.CONTROLLER and (
        agent := _deploy_finished_or_build(connection, job, notify)
    ):
        return agent
    with _prefixing_errors_with_host(host):
        compiler = _compiler_on_controller(host)
        built = builder.build(facts.target, sources, compiler, host.toolchain.cflags, notify)
    return send_built(connection, host, facts, built)


@dataclass(frozen=True, slots=True)
class _Job:
    """A host to be given an agent by its own compiler, or by that of a host like it."""

    host: Host
    facts: Facts
    sources: Mapping[str, bytes]
    builder: Builder

    @property
    def compiler_command(self) -> str | None:
        """The compiler on the host."""
        return self.host.toolchain.cc or next((c.command for c in self.facts.compilers), None)

    @property
    def compiler_version(self) -> str:
        """What it calls itself; empty if it was not asked."""
        return next((c.version for c in self.facts.compilers if c.command == self.compiler_command), "")

    @property
    def toolchain(self) -> tc.Toolchain:
        own = tc.host_toolchain(self.compiler_command or "", self.facts.target, self.host.toolchain.cflags)
        return replace(own, name=f"{self.compiler_version} on a host like this one")

    @property
    def build_id(self) -> str:
        return tc.build_id(self.sources, self.toolchain)

    def agent_on_host(self) -> str | None:
        """The name of the agent that this compiler has made, if it is on the host."""
        return tc.find_agent_of_build(self.build_id, self.facts.workdir_entries)

    def shared_cache_name(self) -> str | None:
        """Return the name in the controller's cache for the agent of hosts like this one.

        None if it is not shared.

        It is not shared if the inventory says `build: host`, if the compiler's version or the C library is
        unknown, or for this machine, which runs no other host's program. With cflags of the inventory, which
        may be `native`, the CPU is part of the name.
        """
        host, facts, flags = self.host, self.facts, self.host.toolchain.cflags
        if (
            not (self.compiler_version and facts.libc)
            or host.build is BuildPlace.HOST
            or host.via is Via.LOCAL
        ):
            return None
        if flags and not facts.cpu_model:
            return None
        like_hosts = (facts.libc, self.compiler_version, (facts.cpu_model, facts.cpu_flags) if flags else ())
        return (
            f"alike-{self.build_id}-{hashlib.sha256(repr(like_hosts).encode()).hexdigest()[: tc.HASH_DIGITS]}"
        )

    def static_agent(self) -> Built | None:
        """Return a finished agent that needs no C library.

        None if there is none, or the host's compiler is asked for.
        """
        host = self.host
        if host.build is not BuildPlace.AUTO or host.toolchain.cc is not None:
            return None
        built = self.builder.find_finished(self.facts.target, self.sources, None, host.toolchain.cflags)
        with suppress(ValueError):  # a damaged file
            return built if built and read_elf(built.binary).interpreter is None else None
        return None

    def built_agent(self) -> Built | None:
        """Return a finished static agent, or the one that a host like this one has built.

        None if there is neither.
        """
        kind = self.shared_cache_name()
        return self.static_agent() or (
            self.builder.read_cached(kind, self.build_id, self.toolchain) if kind else None
        )


def _deploy_finished_or_build(
    connection: Connection, job: _Job, notify: Callable[[str], None]
) -> Agent | None:
    """A finished agent, or what its own compiler makes; None if there is neither."""
    host, facts = job.host, job.facts
    if job.agent_on_host() is None:
        finished = job.static_agent()
        if finished and (agent := _send_and_check(connection, job, finished, notify)):
            return agent
        if not all(compiler.version for compiler in facts.compilers):
            job = replace(job, facts=replace(facts, compilers=ask_versions(connection, facts.compilers)))
    if job.compiler_command is None:
        if host.build is BuildPlace.HOST:
            raise _no_compiler_error(host)
        return None
    try:
        return _build_once_for_like_hosts(connection, job, job.compiler_command, notify)
    except BuildError as err:
        if host.build is BuildPlace.HOST or host.toolchain.cc is not None:
            raise
        notify(f"{err} The agent comes from the controller instead.")
        return None


def _build_once_for_like_hosts(
    connection: Connection, job: _Job, command: str, notify: Callable[[str], None]
) -> Agent:
    """Have the host build, unless one like it does; what it builds is for all of them."""
    host, facts, builder = job.host, job.facts, job.builder

    def build() -> Agent:
        return build_on_host(connection, host, facts, job.sources, command, builder.cancellation)

    cache_name = job.shared_cache_name()
    if cache_name is None or job.agent_on_host():
        return build()
    with builder.wait_turn(cache_name):
        built = job.built_agent()
        if built is None:
            try:
                agent = build()
            except BuildError:
                built = job.built_agent()  # one that began later may have been faster
                if built is None:
                    raise
            else:
                binary = connection.run(f"cat {shlex.quote(agent.path)}").stdout
                with suppress(BuildError):
                    check_fit(binary, host, facts, agent.place)
                    builder.store_in_cache(cache_name, binary, agent.build, job.toolchain)
                return agent
    return _send_and_check(connection, job, built, notify) or build()


def _send_and_check(
    connection: Connection, job: _Job, built: Built, notify: Callable[[str], None]
) -> Agent | None:
    """The agent sent; None, and it is removed again, if it does not run there."""
    agent = send_built(connection, job.host, job.facts, built)
    if tc.find_agent_of_build(built.build, job.facts.workdir_entries):
        return agent
    path = shlex.quote(agent.path)
    completed = connection.run(f"{path} --build-id </dev/null")
    if completed.stdout.strip() == built.build.encode():
        return agent
    connection.run(f"rm -f {path}")
    failure = f"exit code {completed.exit_code}: {last_lines(completed.stderr)}"
    notify(
        f"{job.host.name}: an agent {agent.place} does not run there ({failure}); another takes its place."
    )
    return None


@dataclass(frozen=True, slots=True)
class Preview:
    """What `deploy` would do, in words; path: of the agent that is on the host already."""

    description: str
    path: str | None = None


def preview(host: Host, facts: Facts, builder: Builder) -> Preview:
    """Describe what `deploy` would do, without running a compiler. Raises the same errors."""
    name_or_plan = _agent_name_or_plan(host, facts, builder)
    return (
        Preview(name_or_plan)
        if " " in name_or_plan
        else Preview("is already on the host", f"{facts.workdir}/{name_or_plan}")
    )


def _agent_name_or_plan(host: Host, facts: Facts, builder: Builder) -> str:
    """The name of the agent there, or in words where another would come from."""
    facts = _hide_workdir_entries(facts, tc.agents_not_matching_their_hash(facts))
    if host.build is BuildPlace.PREBUILT:
        binary_path, _ = read_prebuilt(host, facts)
        return f"would be the prebuilt {binary_path}"
    sources = _sources_for_host(host, facts)
    if SYSTEMS[facts.target.os].sdp:
        return qnx.preview(host, facts, sources)
    _check_place(host)
    job = _Job(host, facts, sources, builder)
    on_host = host.build is not BuildPlace.CONTROLLER and job.compiler_command
    if host.build is BuildPlace.HOST and not on_host:
        raise _no_compiler_error(host)
    if on_host and (agent_name := job.agent_on_host()):
        return agent_name
    compiler, cflags = _compiler_on_controller(host), host.toolchain.cflags
    built = job.built_agent() if on_host else builder.find_finished(facts.target, sources, compiler, cflags)
    if built is None and on_host:
        others = "; the first of the hosts like it builds for all" if job.shared_cache_name() else ""
        reason = "the inventory says so" if host.build is BuildPlace.HOST else f"none is finished{others}"
        return f"would be built on the host with {job.compiler_version or on_host} ({reason})"
    with _prefixing_errors_with_host(host):
        toolchain = built.toolchain if built else first_installed_toolchain(facts.target, compiler, cflags)
    if agent_name := tc.find_agent_of_build(tc.build_id(sources, toolchain), facts.workdir_entries):
        return agent_name
    name = toolchain.name
    return f"would be sent, built with {name}" if built else f"would be built with {name} and sent"


def _hide_workdir_entries(facts: Facts, names: Sequence[str]) -> Facts:
    return replace(facts, workdir_entries=tuple(e for e in facts.workdir_entries if e not in names))


def _sources_for_host(host: Host, facts: Facts) -> Mapping[str, bytes]:
    sources = tc.select_sources(facts.target, source.read_sources())
    if sources is None:
        targets = ", ".join(tc.list_targets(source.read_sources()))
        raise ProbeError(f"{host.name}: there is no agent for {facts.target} (in agent/native: {targets}).")
    return sources


def _check_place(host: Host) -> None:
    if host.build is BuildPlace.BUILD_HOST:
        raise BuildError(
            f"{host.name}: `build: build-host` is for QNX hosts; use `build: controller`, which needs no "
            "other machine."
        )


def _no_compiler_error(host: Host) -> BuildError:
    return BuildError(
        f"{host.name}: no C compiler found on the host (looked for cc, gcc, clang). "
        "Install one there, or set `build: controller` for this host in the inventory."
    )


@contextmanager
def _prefixing_errors_with_host(host: Host) -> Iterator[None]:
    try:
        yield
    except BuildError as err:
        raise BuildError(f"{host.name}: {err}") from err


def _compiler_on_controller(host: Host) -> str | None:
    """Return the inventory's `cc` if the agent is to be built on the controller.

    Elsewhere it names another's.
    """
    return host.toolchain.cc if host.build is BuildPlace.CONTROLLER else None

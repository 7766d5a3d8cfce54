"""Puts an agent on a host: finds it there, builds it there, or builds it here and sends it."""

import hashlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from fleet.agent.build import qnx, source
from fleet.agent.build import toolchain as tc
from fleet.agent.build.elf import read_elf
from fleet.agent.build.on_controller import Builder, Built, first_installed
from fleet.agent.build.on_host import answering, build_on_host
from fleet.agent.build.systems import SYSTEMS
from fleet.agent.build.upload import check_fit, prebuilt, send_built, send_prebuilt
from fleet.errors import BuildError, ProbeError
from fleet.model import Agent, BuildPlace, Facts, Host, Via
from fleet.remote.connection import Connection
from fleet.text import last_lines


def deploy(
    connection: Connection, host: Host, facts: Facts, builder: Builder, notify: Callable[[str], None]
) -> Agent:
    """Bring the agent onto a host, unless it is there. notify: of what to report. BuildError, DeployError."""
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
    job = _Job(host, facts, sources, builder)
    if host.build is not BuildPlace.CONTROLLER and (agent := _for_its_kind(connection, job, notify)):
        return agent
    with _naming(host):
        compiler = _controller_compiler(host)
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
    def command(self) -> str | None:
        """The compiler on the host."""
        return self.host.toolchain.cc or next((c.command for c in self.facts.compilers), None)

    @property
    def version(self) -> str:
        """What it calls itself; empty if it was not asked."""
        return next((c.version for c in self.facts.compilers if c.command == self.command), "")

    @property
    def toolchain(self) -> tc.Toolchain:
        own = tc.on_host(self.command or "", self.facts.target, self.host.toolchain.cflags)
        return replace(own, name=f"{self.version} on a host like this one")

    @property
    def build(self) -> str:
        return tc.build_id(self.sources, self.toolchain)

    def there(self) -> str | None:
        """The name of the agent that this compiler has made, if it is on the host."""
        return tc.found(self.build, self.facts.workdir_entries)

    def kind(self) -> str | None:
        """By what name the controller keeps its agent for hosts like this one; None if it is for no other.

        So it is if the inventory says `build: host`, if we know too little, and for this machine, which runs
        no program of another host's. With flags of the inventory's own, maybe `native`, the CPU counts too.
        """
        host, facts, flags = self.host, self.facts, self.host.toolchain.cflags
        if not (self.version and facts.libc) or host.build is BuildPlace.HOST or host.via is Via.LOCAL:
            return None
        if flags and not facts.cpu_model:
            return None
        alike = (facts.libc, self.version, (facts.cpu_model, facts.cpu_flags) if flags else ())
        return f"alike-{self.build}-{hashlib.sha256(repr(alike).encode()).hexdigest()[: tc.HASH_DIGITS]}"

    def finished(self) -> Built | None:
        """One for any C library that nobody has to compile; unless the host's own compiler is asked for."""
        host = self.host
        if host.build is not BuildPlace.AUTO or host.toolchain.cc is not None:
            return None
        built = self.builder.finished(self.facts.target, self.sources, None, host.toolchain.cflags)
        with suppress(ValueError):  # a damaged file
            return built if built and read_elf(built.binary).interpreter is None else None
        return None

    def ready(self) -> Built | None:
        """The same, or what a host like this one has built."""
        kind = self.kind()
        return self.finished() or (self.builder.kept(kind, self.build, self.toolchain) if kind else None)


def _for_its_kind(connection: Connection, job: _Job, notify: Callable[[str], None]) -> Agent | None:
    """A finished agent, or what its own compiler makes; None if there is neither."""
    host, facts = job.host, job.facts
    if job.there() is None:
        finished = job.finished()
        if finished and (agent := _sent(connection, job, finished, notify)):
            return agent
        if not all(compiler.version for compiler in facts.compilers):
            job = replace(job, facts=replace(facts, compilers=answering(connection, facts.compilers)))
    if job.command is None:
        if host.build is BuildPlace.HOST:
            raise _no_compiler(host)
        return None
    try:
        return _compiled(connection, job, job.command, notify)
    except BuildError as err:
        if host.build is BuildPlace.HOST or host.toolchain.cc is not None:
            raise
        notify(f"{err} The agent comes from the controller instead.")
        return None


def _compiled(connection: Connection, job: _Job, command: str, notify: Callable[[str], None]) -> Agent:
    """Have the host build, unless one like it does; what it builds is for all of them."""
    host, facts, builder = job.host, job.facts, job.builder

    def build() -> Agent:
        return build_on_host(connection, host, facts, job.sources, command, builder.cancellation)

    kind = job.kind()
    if kind is None or job.there():
        return build()
    with builder.turn(kind):
        built = job.ready()
        if built is None:
            try:
                agent = build()
            except BuildError:
                built = job.ready()  # one that began later may have been faster
                if built is None:
                    raise
            else:
                made = connection.run(f"cat {shlex.quote(agent.path)}").stdout
                with suppress(BuildError):
                    check_fit(made, host, facts, agent.place)
                    builder.keep(kind, made, agent.build, job.toolchain)
                return agent
    return _sent(connection, job, built, notify) or build()


def _sent(connection: Connection, job: _Job, built: Built, notify: Callable[[str], None]) -> Agent | None:
    """The agent sent; None, and it is removed again, if it does not run there."""
    agent = send_built(connection, job.host, job.facts, built)
    if tc.found(built.build, job.facts.workdir_entries):
        return agent
    path = shlex.quote(agent.path)
    asked = connection.run(f"{path} --build-id </dev/null")
    if asked.stdout.strip() == built.build.encode():
        return agent
    connection.run(f"rm -f {path}")
    why = f"exit code {asked.exit_code}: {last_lines(asked.stderr)}"
    notify(f"{job.host.name}: an agent {agent.place} does not run there ({why}); another takes its place.")
    return None


@dataclass(frozen=True, slots=True)
class Preview:
    """What `deploy` would do, in words; path: of the agent that is on the host already."""

    words: str
    path: str | None = None


def preview(host: Host, facts: Facts, builder: Builder) -> Preview:
    """Describe what `deploy` would do, without running a compiler. Raises the same errors."""
    found = _previewed(host, facts, builder)
    return Preview(found) if " " in found else Preview("is already on the host", f"{facts.workdir}/{found}")


def _previewed(host: Host, facts: Facts, builder: Builder) -> str:
    """The name of the agent there, or in words where another would come from."""
    facts = _without(facts, tc.changed(facts))
    if host.build is BuildPlace.PREBUILT:
        given, _ = prebuilt(host, facts)
        return f"would be the prebuilt {given}"
    sources = _sources(host, facts)
    if SYSTEMS[facts.target.os].sdp:
        return qnx.preview(host, facts, sources)
    _check_place(host)
    job = _Job(host, facts, sources, builder)
    on_host = host.build is not BuildPlace.CONTROLLER and job.command
    if host.build is BuildPlace.HOST and not on_host:
        raise _no_compiler(host)
    if on_host and (there := job.there()):
        return there
    compiler, cflags = _controller_compiler(host), host.toolchain.cflags
    built = job.ready() if on_host else builder.finished(facts.target, sources, compiler, cflags)
    if built is None and on_host:
        others = "; the first of the hosts like it builds for all" if job.kind() else ""
        asked = "the inventory says so" if host.build is BuildPlace.HOST else f"none is finished{others}"
        return f"would be built on the host with {job.version or on_host} ({asked})"
    with _naming(host):
        toolchain = built.toolchain if built else first_installed(facts.target, compiler, cflags)
    if there := tc.found(tc.build_id(sources, toolchain), facts.workdir_entries):
        return there
    name = toolchain.name
    return f"would be sent, built with {name}" if built else f"would be built with {name} and sent"


def _without(facts: Facts, names: Sequence[str]) -> Facts:
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


@contextmanager
def _naming(host: Host) -> Iterator[None]:
    try:
        yield
    except BuildError as err:
        raise BuildError(f"{host.name}: {err}") from err


def _controller_compiler(host: Host) -> str | None:
    """The inventory's `cc` names a compiler on the controller only if that is where to build."""
    return host.toolchain.cc if host.build is BuildPlace.CONTROLLER else None
